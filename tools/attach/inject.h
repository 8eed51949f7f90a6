/* attach/inject.h - runs the recorder's entry in a thread of its own inside another process. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attach/tracee.h"
#include "common/format/attach.h"

/*
 * Start a thread in the process that calls pfw_attached() of `block->library` with what *block
 * holds, and wait for its answer, which then is in *block.  One thread of the process is stopped for
 * a moment, at a system call; everything that runs in the process goes on without this command, so
 * that it may be killed at any time.  0, or -1 and tracee->why.
 */
int inject(struct tracee *tracee, struct pfw_attach_block *block);

/* End what commands that were killed have left in a process that has no recorder, as inject() does. */
void inject_clear(struct tracee *tracee);

/* ---- whether a thread that computes may be led away: who has called it, by its stack (frames.c) ---- */

struct thread;
/* What is needed to follow stacks of the process, read while it runs; NULL: that cannot be done (no
 * libdw, an allocator that is not libc's and may be anywhere). */
struct frames *frames_open(const struct tracee *tracee);
void frames_close(struct frames *frames);

/* Whether no function of libc's, of the dynamic linker's or of ours is among the stopped thread's
 * callers but those that have started it: so it holds none of their locks.  False in doubt. */
bool frames_are_free(struct frames *frames, const struct thread *thread);

/* ---- what lies unused behind the code and the data of loaded libraries (padding.c) ---- */

/* Places of one object, up to the end of a page; 0 bytes = none. */
struct padding {
	uint64_t code, code_bytes; /* in a page that can be run */
	uint64_t data, data_bytes; /* in one that can be written */
	bool stays;		   /* the process never unloads the object */
};

#define PADDING_LENDER 128u /* behind data, for struct stub_lender */

#define PADDINGS_MAX 512u

/* Find at most PADDINGS_MAX of them; returns how many. */
size_t padding_list(const struct tracee *tracee, struct padding *out);

/*
 * Name the jumps that earlier attachments have laid, and lay new ones where there is room.  `without`:
 * a place of code that is not to be used.  What there is not room for, the recorder makes a mapping for.
 */
void padding_lay_thunks(const struct tracee *tracee, struct pfw_attach_block *block,
			uint64_t without);

/* ---- memory for what the dynamic linker and libc allocate in our thread (lender.c) ----
 *
 * The program's allocator sets things up for each thread (arenas, threads of its own), and keeps them.
 * So the code of stub.c stands before malloc() and its relatives, in the dynamic linker's own pointers
 * and in two of libc's, while the recorder is in the process: our thread gets memory of ours, all others
 * get what they always get.  Nobody else sees these blocks: the dynamic linker frees what it has allocated.
 */

struct stub_values;
/* Code that stub.h describes, in the process. */
struct lender {
	uint64_t place; /* the code */
	uint64_t word;	/* behind it, where it finds the address of the state */
	uint64_t state; /* struct stub_lender, all zero at first */
};

/* Lead the pointers to the code.  False: they are not found, and nothing is lent. */
bool lender_begin(const struct tracee *tracee, const struct lender *lender);

/*
 * Choose a place for what is lent.  Tables that the dynamic linker makes for the first dlopen() of all stay
 * there, so it lies beside memory of a library's that stays, if it may: both are one mapping then.
 */
void lender_place(const struct tracee *tracee, struct stub_values *values);

/* Put them back, unless something that was lent is in use. */
void lender_end(const struct tracee *tracee, const struct lender *lender);

/* ---- takes the recorder to where a process of another root (a container) can load it (carry.c) ---- */

/* The copy, while the process has not loaded it. */
struct carried {
	int directory;	 /* in the process's root; -1 = there is none */
	char inside[64]; /* its path as the process sees it */
	char name[40];
};

/* Copy the recorder into a directory of the process's root from which code can be loaded.  0, or -1 and
 * tracee->why. */
int carry_in(struct carried *carried, struct tracee *tracee, const char *recorder);

/* Remove the copy; what the process has loaded stays. */
void carry_out(struct carried *carried);
