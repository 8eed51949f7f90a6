/* pass_run.h - what the parts of a pass share: pass_take.c (which block is next), pass.c (the work, and
 * the order behind it).
 */
#ifndef PFW_PASS_RUN_H
#define PFW_PASS_RUN_H

#include <pthread.h>

#include "fetch.h"
#include "pass.h"
#include "stream.h"

enum pass_slot_state { SLOT_FREE, SLOT_BUSY, SLOT_FINISHED };

/* What a block of several ranks has of one. */
struct pass_part {
	struct pfw_pass_block block;
	struct pfw_pass_piece *piece;
	size_t pieces, room;
	bool worked;
};

struct pass_slot {
	enum pass_slot_state state;
	struct pfw_pass_block block;
	struct pfw_block place;	     /* block.block of a STREAM */
	struct pfw_problems lines;   /* of its lines */
	struct pfw_problems behind;  /* told behind these */
	struct pfw_points points;    /* made while it was read */
	struct pfw_fetched *fetched; /* NULL: given back */
	struct pfw_fetched own;	     /* memory of one of them: see run->spare */
	uint64_t progress;	     /* bytes of the files from the slot before to its end */
	struct pass_part *part;	     /* NULL: it is of one rank */
	size_t parts;
	int error; /* what work() said, or -ENOMEM */
	bool fetch, worked, unreadable;
};

/* What is open of a file. */
struct pass_opened {
	int fd; /* -1: not open */
	unsigned users;
	bool left; /* by the cursor: the last user closes it */
};

/* Where line numbers are known: as long as no block of the file was left out. */
struct pass_numbering {
	size_t file, number;
	uint64_t lines;
	bool known;
};

struct pass_run {
	const struct pfw_pass *pass;
	pthread_mutex_t mutex; /* over all below but `numbering`, `told` (the drainer's) and slots in
				* the hand of a thread */
	pthread_cond_t changed;
	struct pass_slot *slot;
	unsigned slots, jobs;
	struct pfw_fetched **spare; /* a stack, so that the memory used last is used next */
	unsigned spares;
	uint64_t taken, finished;
	size_t file, number; /* the cursor: what is taken next */
	uint64_t passed;     /* bytes of blocks that were not wanted, since the last slot */
	struct pass_opened *opened;
	struct pfw_stream stream;
	bool streaming; /* stream is open */
	bool by_points; /* the cursor's file is a STREAM whose wanted blocks are read from points */
	bool reading;	/* by a thread that has not the mutex */
	bool draining;
	bool ended;
	int error;
	bool unreadable;
	uint64_t told, all; /* progress */
	struct pass_numbering numbering;
};

/* ---- pass.c, pass_parts.c ---- */

void pfw_pass_drop_result(const struct pfw_pass *pass, struct pfw_pass_block *block);

/* Whether anybody wants a block of that file, which may be the whole of several ranks. */
bool pfw_pass_wants(const struct pfw_pass *pass, size_t file, const struct pfw_block *block);

/* work() for each rank that has lines in the slot's block; done(), the same; and at last.  Thread: who
 * has the slot. */
int pfw_pass_work_parts(const struct pfw_pass *pass, unsigned worker, struct pass_slot *slot);
int pfw_pass_finish_parts(const struct pfw_pass *pass, struct pass_slot *slot);
void pfw_pass_free_parts(const struct pfw_pass *pass, struct pass_slot *slot);

/* ---- pass_take.c; all with the mutex ---- */

/* The next slot to work on, or NULL at the end.  Lets the mutex go while it reads a stream. */
struct pass_slot *pfw_pass_take(struct pass_run *run);

/* Have no more taken; the first error counts. */
void pfw_pass_end(struct pass_run *run, int error);

/* The slot's text is needed no more. */
void pfw_pass_give_text(struct pass_run *run, struct pass_slot *slot);

/* Close a file that the cursor has left and nobody reads. */
void pfw_pass_close_unused(struct pass_opened *opened);

#endif
