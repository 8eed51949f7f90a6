/* recorder/probe/probe.h - the work of a wrapper around the real call.
 *
 * Room recorder/probe: Turns one call into one record: filters, names of descriptors, mappings,
 * sums of short calls.  It may use common, guest and spool; it reaches session only by
 * pfw_probe_host.  Start at pfw_probe_fd() and pfw_probe_end().
 *
 * A wrapper is: begin (inline, a few loads; false = pass through), the real call, end (one record
 * into this thread's ring).  Both keep errno; end reads it if the call failed.  Nothing is held
 * between them, so the call may block, be interrupted by a handler that does I/O, be cancelled, or
 * be left by longjmp().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/base/os.h"
#include "common/format/clock.h"
#include "recorder/probe/fd_table.h"
#include "recorder/spool/ring.h"
#include "recorder/stack/stack.h"

#define PFW_BORN_BITS 22 /* the kernel's greatest pid */

/*
 * The words that the hot path reads first, in a private MADV_WIPEONFORK page: a fork wipes them.
 * `born` is never 0 in a process that has been set up.  So io == 0 means "a forked child, however
 * made" if born == 0, and "off" if not.
 */
struct pfw_switches {
	_Atomic uint64_t io;  /* generation of the I/O probes, 0 = off */
	_Atomic uint64_t api; /* generation of the API, 0 = off */
	/* io's word; or a word that no thread has if the end has more to do (PFW_MIN_DUR,
	 * PFW_DUMP_ON), so the check costs other programs nothing. */
	_Atomic uint64_t end;
	_Atomic uint64_t born;	  /* start time << PFW_BORN_BITS | pid */
	_Atomic uint32_t claimed; /* a thread of the forked child is setting the child up */
};
extern struct pfw_switches *pfw_switches;

/* A name that this thread has used, found by its address and then compared. */
struct pfw_known_name {
	const char *from; /* the caller's pointer */
	const char *text; /* the interned text, NUL-terminated */
	uint32_t ref;
};
#define PFW_KNOWN_NAMES 4

/* Distance of a thread's span ids: the ring's number is below it (first_span() in probe.c). */
#define PFW_SPAN_ID_STEP 256u

/* From the beginning of a fork until its event is recorded no thread of ours is started.  At
 * BEGINS, the writer's work is left for the fork's end. */
enum pfw_forking { PFW_FORK_BEGINS = 1, PFW_FORK_ENDS = 2 };

/* One thread's state.  initial-exec: a lazily allocated TLS block would call malloc in a probe. */
struct pfw_thread {
	uint64_t live; /* the generation for which `ring` is ours; 0 = none */
	struct pfw_ring *ring;
	uint64_t born;	      /* pfw_switches->born of the process that has the ring */
	uint64_t span;	      /* innermost open API span, 0 = none */
	uint64_t spans;	      /* the id of its next span */
	uint64_t guarded;     /* the slow path is running in this thread */
	uint32_t vfork_child; /* a vfork child, in its parent's memory: change nothing */
	uint32_t forking;     /* enum pfw_forking */
	const char *untraced; /* a vfork child starts an untraced program: the reason */
	char *const *left;    /* the environment that it made for that program */
	uint32_t gpu_begun;   /* of pfw_cupti_spans, when gpu_pushed was 0 */
	uint32_t gpu_pushed;  /* ids on CUPTI's stack of this thread */
	uint32_t annotation;  /* the string of the NVTX category; 0 = unknown */
	struct pfw_nvtx_stack *nvtx;
	struct pfw_known_name known[PFW_KNOWN_NAMES];
	struct pfw_known_name known_category;
	struct pfw_stack_thread stack;
};
/* glibc keeps 1,664 bytes for objects loaded late, which other tools need, too. */
_Static_assert(sizeof(struct pfw_thread) <= 256, "TLS block");
extern __thread struct pfw_thread pfw_thread __attribute__((tls_model("initial-exec")));

/* Reset this thread's state in a forked child: all of it is the parent's. */
void pfw_thread_forked(void);

/* Functions of the room session, which probes may not include. */
struct pfw_probe_host {
	/* First probe in a forked child: set the child up. */
	void (*forked)(void);
	/* This thread has recorded an event, and no writer drains: write it now. */
	void (*write_direct)(void);
	/* Whether this process has an event in its trace or in a ring. */
	bool (*recorded)(void);
	/* Why a program that this process starts cannot be traced; NULL: it can. */
	const char *(*why_untraced)(void);
	/* Finish the trace now (before exec, _exit), and resume it (exec has failed).  `followed`:
	 * by a traced program, which cleans up. */
	void (*end)(const char *reason, const char *exec_path, bool followed);
	void (*resume)(void);
	/* Wait until the writer's thread, told to end, has ended. */
	void (*join)(void);
	/* This thread has got a ring: return the ring when it ends. */
	void (*thread_born)(void);
	/* Root, mounts or user are about to change: open our files before.  False: a thread of ours
	 * shares the program's root and directory. */
	bool (*stay_behind)(void);
	/* The user has changed. */
	void (*user_changed)(void);
	/* This thread may soon reach no file by its name: open ours, the trace included, before. */
	void (*hold_files)(void);
	/* This thread has given up rights by this system call: the writer's thread makes the call, too. */
	void (*rights_given_up)(long number, const long *arg);
	/* A seccomp filter is about to be put on this thread (NULL: the strict mode).  True: put it
	 * on all threads, which are this one and ours. */
	bool (*confine)(const void *program, unsigned flags);
	/* true: end our thread; false, by the same thread: it may run again. */
	void (*be_gone)(bool gone);
	/* The program begins a step, by a span's name. */
	void (*step)(bool automatic);
	/* The step that an automatic one has just begun is none: there is no batch for it. */
	void (*no_step)(void);
	/* This call, which is recorded, took longer than pfw_slow_ticks.  Signal: safe. */
	void (*slow)(uint16_t call, uint64_t ticks);
	/* The program enters or leaves a range of cudaProfilerStart() and -Stop(). */
	void (*range)(bool inside);
	/* The program is about to reuse the number of a descriptor of ours. */
	void (*make_way)(int fd);
};
extern struct pfw_probe_host pfw_probe_host;

/* In pfw_switches->end: a word that no thread has. */
#define PFW_SWITCH_NOBODY (1ull << 62)

/* Flag: the trace has reached its limit; every event is counted as lost. */
#define PFW_SWITCH_LIMIT (1ull << 61)

/* Flag: names of spans are compared with PFW_STEP.  If `api` has no other bit, only this is done,
 * and nothing is recorded. */
#define PFW_SWITCH_STEPS (1ull << 60)

/* Flag of `api`: a forked child without a writer yet; its events are written directly. */
#define PFW_SWITCH_NO_WRITER (1ull << 59)

/* Flag: the trace has its end; later events are written directly. */
#define PFW_SWITCH_ENDED (1ull << 63)
#define PFW_SWITCH_DIRECT (PFW_SWITCH_ENDED | PFW_SWITCH_NO_WRITER)

/* pfw_probe.call: do not record; decided by the filter after the call, or by PFW_CALLS before it if
 * the wrapper must run anyway. */
#define PFW_CALL_NONE 0xffffu

/* pfw_probe.name: no room for the descriptor's name; ask the kernel at the end. */
#define PFW_NAME_BY_LINK 0xffffffffu

/* A call being traced. */
struct pfw_probe {
	uint64_t t0;   /* ticks */
	uint32_t name; /* string of the spool, 0 = none */
	uint16_t call; /* enum pfw_call: the template */
};

/* A text in up to two pieces, joined by '/' (directory, relative path). */
struct pfw_tail {
	const char *directory;
	const char *text;
	uint32_t directory_bytes; /* 0 = text alone */
	uint32_t text_bytes;
};

/* A probe with the directory that a relative path starts from.  A longer one is read again at the
 * end, straight into the ring: a probe may take at most 1 KiB of stack. */
#define PFW_CWD_BYTES 512
struct pfw_path_probe {
	struct pfw_probe probe;
	/* errno of the call, 0 = it worked; EFAULT if the kernel has not read the path yet.  It
	 * decides how carefully the path is read; set it before pfw_probe_path_text(). */
	int error;
	char cwd[PFW_CWD_BYTES];
};

/* Make sure that this thread can record: the generation in force, or 0 (off, vfork child, no
 * ring).  `word`: the word of pfw_switches to go by.  Keeps errno.  Thread: app.  Signal: safe. */
uint64_t pfw_probe_ready(const _Atomic uint64_t *word);

/* The same for I/O, to make a name: a lost event is counted later, when it is recorded. */
bool pfw_probe_names(void);

/* Write recorded events now: there is no writer. */
void pfw_probe_write_direct(void);

/* Publish a filled record.  If the trace has ended meanwhile, or a forked child has no writer yet,
 * write it directly.  Thread: app.  Signal: safe. */
static inline void pfw_probe_commit(struct pfw_record *record, uint64_t position)
{
	pfw_ring_commit(record, position);
	if (PFW_UNLIKELY(atomic_load_explicit(&pfw_switches->api, memory_order_relaxed) &
			 PFW_SWITCH_DIRECT))
		pfw_probe_write_direct();
}

/*
 * A word of pfw_switches has read 0: true = off, false = a forked child.  `born` is stored after
 * the words, so if it is set the word is read again: another thread may have set both in between.
 */
static inline bool pfw_switches_off(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(&pfw_switches->born, memory_order_acquire) &&
	       !atomic_load_explicit(word, memory_order_relaxed);
}

/* Whether events are recorded, for callers without a thread that records. */
static inline bool pfw_switches_records(void)
{
	uint64_t word = atomic_load_explicit(&pfw_switches->api, memory_order_relaxed);

	return word && word != PFW_SWITCH_STEPS;
}

/* Out of line: first use in a thread, unknown descriptor, forked child, off. */
bool pfw_probe_fd_slow(struct pfw_probe *probe, int fd);

/* Whether a call on fd is certainly not traced: off, or a descriptor known as excluded.  Costs a
 * few loads; pfw_probe_fd() decides the rest.  Thread: app.  Signal: safe. */
static inline bool pfw_probe_fd_passes(int fd)
{
	const struct pfw_switches *live = pfw_switches;

	if (PFW_UNLIKELY(!atomic_load_explicit(&live->io, memory_order_relaxed)))
		return pfw_switches_off(&live->io);
	return (uint32_t)(pfw_fd_load(fd) >> 32) == (pfw_fd_generation | PFW_FD_UNTRACED);
}

/* Begin a call on fd.  False: not traced, just make the call.  Thread: app.  Signal: safe. */
static inline bool pfw_probe_fd(struct pfw_probe *probe, uint16_t call, int fd)
{
	uint64_t word = atomic_load_explicit(&pfw_switches->io, memory_order_relaxed);
	uint64_t entry = pfw_fd_load(fd);
	uint32_t state = (uint32_t)(entry >> 32) ^ pfw_fd_generation;

	if (PFW_LIKELY(word != 0)) {
		if (state == PFW_FD_UNTRACED)
			return false;
	} else if (pfw_switches_off(&pfw_switches->io)) {
		return false;
	}
	probe->call = call;
	if (PFW_UNLIKELY(state != PFW_FD_TRACED || word != pfw_thread.live || !word))
		return pfw_probe_fd_slow(probe, fd);
	probe->name = pfw_fd_name(entry);
	probe->t0 = pfw_clock_ticks();
	return true;
}

/* Begin a call on a path.  The path is read, and the filter asked, only after the call: then the
 * kernel has shown whether it is readable.  Thread: app.  Signal: safe. */
bool pfw_probe_path(struct pfw_path_probe *probe, uint16_t call, int dirfd, const char *path);

/* Begin a call without an object (fork, _exit); there is no filter. */
bool pfw_probe_bare(struct pfw_probe *probe, uint16_t call);

/* Whether calls that change the tables (close, dup) must do so: probes on, no vfork child.  Cheap.
 * Thread: app.  Signal: safe. */
bool pfw_probe_on(void);

/* We were loaded into a process that had been running: it may have had a vfork child.  In others
 * the kernel is not asked once recording has ended, since a seccomp filter may kill for that. */
extern bool pfw_probe_attached;

/* Whether this is a child in its parent's memory, also one that was there before we were loaded, or
 * that was made past libc or by clone() without CLONE_VFORK: it must not end its parent's trace.
 * Thread: app.  Signal: safe. */
bool pfw_probe_in_vfork(void);

/* End a call on a descriptor: value[0] is ret, value[1] the fd, then the row's fields in order.
 * `failed`: errno goes into the record.  Keeps errno.  Thread: app.  Signal: safe. */
void pfw_probe_end(const struct pfw_probe *probe, bool failed, const uint64_t *value,
		   unsigned value_count);

/* End any call: as above, with a name (NULL = probe->name) and the texts of the row's STRING fields
 * in order, whose places in value[] are ignored. */
enum pfw_ending_stack { PFW_STACK_ASK, PFW_STACK_IS_DUE, PFW_STACK_IS_NOT };
struct pfw_ending {
	const uint64_t *value;
	unsigned value_count;
	const struct pfw_tail *name; /* inline name, if the filter takes it; or NULL */
	const struct pfw_tail *text; /* of the STRING fields */
	unsigned text_count;
	int error;     /* errno to record, 0 = the call worked */
	uint64_t t1;   /* ticks when the call returned; 0 = now */
	uint8_t flags; /* enum pfw_record_flags to add */
	bool any_name; /* do not ask the filter */
	uint8_t stack; /* enum pfw_ending_stack */
};
void pfw_probe_end_full(const struct pfw_probe *probe, const struct pfw_ending *ending);

/* End a call on a path: value[0] is ret, then the row's fields.  The name is read again from the
 * caller's path, which still exists. */
void pfw_probe_path_end(struct pfw_path_probe *probe, bool failed, int dirfd, const char *path,
			const uint64_t *value, unsigned value_count);

/* The absolute name of (dirfd, path) in pieces, with the probe's scratch; the probe's `error` is
 * set.  Empty: the path is unreadable.  Thread: app.  Signal: safe. */
void pfw_probe_path_text(struct pfw_path_probe *probe, int dirfd, const char *path,
			 struct pfw_tail *out);

/*
 * After a successful open: fd is (dirfd, path) from now on.  Makes the name a string of the spool,
 * held by the table.  If the filter excludes the path (or `traced` is false) fd is marked untraced
 * and the probe's end records nothing.  Return the string, 0 = none.
 */
uint32_t pfw_probe_opened(struct pfw_path_probe *probe, int fd, int dirfd, const char *path,
			  bool traced);

/* Whether the filter takes the name from pfw_probe_path_text(); it takes NULL, an unreadable name.
 * Counts exclusions.  Thread: app.  Signal: safe. */
bool pfw_probe_text_traced(const struct pfw_tail *name);
