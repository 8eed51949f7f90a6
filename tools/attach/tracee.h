/* attach/tracee.h - a running process as `pfw attach` sees it: its files in /proc, memory, functions.
 *
 * Room tools/attach: `pfw attach` and `pfw detach`, which load the recorder into a running process.
 * It may use tools/ui, tools/share, the store and common.  Start with attach.c; then inject.c, which stops a thread, and
 * stub.c, the code that this thread then runs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tracee_map {
	uint64_t start, end, offset;
	bool executable, writable;
	char *path; /* "" = no file */
};

#define TRACEE_STACKS 3u		  /* two handlers can have stacks of their own */
#define TRACEE_STACK_BYTES (256u * 1024u) /* as much as most stacks have */

struct tracee {
	pid_t pid;
	int mem; /* /proc/PID/mem */
	struct tracee_map *map;
	size_t maps;
	uint64_t libc_start, libc_end; /* all code of libc's lies between */
	/* To the process that thread_watch_begin() starts: a pipe that ends with this one, and since when
	 * (MONOTONIC) a thread stands still, 0 = none. */
	int watch;
	_Atomic uint64_t *stopped_ns;
	pid_t watcher;		  /* that process */
	bool first;		  /* its thread that stops others runs before others */
	uint64_t spares_until_ns; /* MONOTONIC: until then no thread is stopped in a wait that this ends */
	uint64_t turn_ns;	  /* if not: for how long that had run when its turn began */
	bool apart;		  /* it has another root: a container, a chroot */
	uint64_t longest_stop_ns; /* of a thread that was stopped */
	unsigned stops;
	unsigned late;	 /* threads that did not stop in time, and have not yet been let go */
	int own_filters; /* struct thread_state's, of this command */
	/* Made in advance, since nothing shall be waited for while a thread stands still. */
	char status[8192];
	uint64_t *stack[TRACEE_STACKS]; /* TRACEE_STACK_BYTES each */
	bool lends;			/* what our thread makes libc allocate is ours */
	char why[512];			/* after a failure: what it is about and what to do */
};

/* Open it.  0, or -1 and tracee->why: it cannot be attached to, and why.  Nothing is changed. */
int tracee_open(struct tracee *tracee, pid_t pid);
void tracee_close(struct tracee *tracee);

/* Read /proc/PID/maps again.  0 or -errno. */
int tracee_read_maps(struct tracee *tracee);

/* The text of /proc/PID/maps, to be freed; NULL and errno. */
char *tracee_maps_text(const struct tracee *tracee);

/* The map that holds an address, or NULL. */
const struct tracee_map *tracee_map_of(const struct tracee *tracee, uint64_t address);

/* Whether the address is in code of a file whose name begins with one of libc's names. */
bool tracee_is_libc(const struct tracee *tracee, uint64_t address);

/* The address of a function that libc, or what belongs to it, exports; 0 = none. */
uint64_t tracee_function(const struct tracee *tracee, const char *name);

/* The address of a function in the next object, from map *at on, that exports it; 0 = none.  That of a program
 * at a fixed address may be its jump to a library's, which all objects take for the function. */
uint64_t tracee_export(const struct tracee *tracee, size_t *at, const char *name);

/* Read or write its memory. False: not all of it. */
bool tracee_read(const struct tracee *tracee, uint64_t address, void *out, size_t bytes);
bool tracee_write(const struct tracee *tracee, uint64_t address, const void *data, size_t bytes);

/* The last segment of this type that has these flags, of the object that is mapped at `base`; a struct
 * Elf64_Phdr.  False: there is none. */
bool tracee_segment(const struct tracee *tracee, uint64_t base, uint32_t type, uint32_t flags,
		    void *found);

/* A free place for a mapping; 0 = none. */
uint64_t tracee_free_place(const struct tracee *tracee, size_t bytes);

/* Whether a file is loaded whose name (its last part) begins so. */
bool tracee_has(const struct tracee *tracee, const char *name);

/* Note in `why` what stands against it.  Returns -1. */
__attribute__((format(printf, 2, 3))) int tracee_refuse(struct tracee *tracee, const char *format,
							...);

/* The beginning of a file of /proc, as a text; "" = it cannot be read.  No memory is taken for it. */
void tracee_read_text(const char *path, char *text, size_t size);

/* What one look at a thread's status says. */
struct thread_state {
	bool has_signal; /* a handler of the program is about to take one; true in doubt */
	int filters;	 /* of seccomp; -1: the strict mode, which allows nothing, or in doubt */
};

/* No memory is taken for it. */
struct thread_state tracee_thread_state(struct tracee *tracee, pid_t pid, pid_t tid);

/* A value of /proc/PID/status, or of a thread's, in a buffer of the caller; false: no such line. */
bool tracee_status(pid_t pid, pid_t tid, const char *name, char *out, size_t size);

/* The variables that the process was started with (at most `limit` bytes), each with its NUL, then an
 * empty one; for free().  NULL = they cannot be read. */
char *tracee_environment(const struct tracee *tracee, size_t limit);

/* Call take() for each thread until it returns not 0; that is returned, too. */
int tracee_threads(pid_t pid, int (*take)(void *user, pid_t tid), void *user);
