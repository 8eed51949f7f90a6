/* store/pass/internal.h - shared by take.c (the next block), pass.c (work and order), parts.c
 * (ranks).
 */
#pragma once

#include <pthread.h>

#include "store/pass/pass.h"
#include "store/read/fetch.h"
#include "store/read/stream.h"

enum pass_slot_state { SLOT_FREE, SLOT_BUSY, SLOT_FINISHED };

/* The lines of one rank in a block of several ranks. */
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
	struct pfw_problems behind;  /* reported after `lines` */
	struct pfw_points points;    /* made while it was read */
	struct pfw_fetched *fetched; /* NULL: none yet, or returned to run->spare */
	struct pfw_fetched own;	     /* one of the buffers of run->spare */
	/* bytes of the files from the end of the slot before to the end of this one */
	uint64_t progress;
	struct pass_part *part; /* NULL: the file has one rank */
	size_t parts;
	int error; /* of work(), or -ENOMEM */
	bool fetch, worked, unreadable;
};

/* The descriptor of a file. */
struct pass_opened {
	int fd; /* -1: not open */
	unsigned users;
	bool left; /* the cursor is after the file: the last user closes it */
};

/* The blocks that one worker has still to work on: slots `next` to `end`, as `taken` counts. */
struct pass_group {
	uint64_t next, end;
};

/* Line numbers are known as long as no block of the file was left out. */
struct pass_numbering {
	size_t file, number;
	uint64_t lines;
	bool known;
};

struct pfw_pass_run {
	const struct pfw_pass *pass;
	/* for all members below but `numbering` and `told` (of the drainer), and for slots that no
	 * thread works on */
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct pass_slot *slot;
	unsigned slots, jobs;
	uint64_t together;	    /* the most blocks of a group, if it is more than 1 */
	struct pfw_fetched **spare; /* a stack, so that the warmest memory is used next */
	unsigned spares;
	uint64_t taken, finished;
	struct pass_group *group; /* of each worker */
	size_t file, number;	  /* the cursor: the next block */
	uint64_t passed;	  /* bytes of unwanted blocks since the last slot */
	struct pass_opened *opened;
	struct pfw_stream stream;
	bool streaming; /* stream is open */
	/* the cursor's file is a STREAM, and its wanted blocks are read from seek points */
	bool by_points;
	bool reading; /* a thread reads the stream without the mutex */
	bool draining;
	bool paused; /* take no more blocks until the next pfw_pass_go() */
	bool ended;
	int error;
	bool unreadable;
	uint64_t told, all; /* progress */
	struct pass_numbering numbering;
};

/* ---- pass.c, parts.c ---- */

/* Call work(), with a result of zeroes if one is asked for. */
int pfw_pass_work(const struct pfw_pass *pass, unsigned worker, struct pfw_pass_block *block);
void pfw_pass_drop_result(const struct pfw_pass *pass, struct pfw_pass_block *block);

/* Whether a block is wanted, by any rank of its file. */
bool pfw_pass_wants(const struct pfw_pass *pass, size_t file, const struct pfw_block *block);

/* Call work() for each rank that has lines in the slot's block; then done(), with the same results;
 * free all.  Thread: the one that has the slot. */
int pfw_pass_work_parts(const struct pfw_pass *pass, unsigned worker, struct pass_slot *slot);
int pfw_pass_finish_parts(const struct pfw_pass *pass, struct pass_slot *slot);
void pfw_pass_free_parts(const struct pfw_pass *pass, struct pass_slot *slot);

/* ---- take.c; all with the mutex ---- */

/* The next slot for a worker, or NULL at the end.  Releases the mutex while it reads a stream. */
struct pass_slot *pfw_pass_take(struct pfw_pass_run *run, unsigned worker);

/* Take no more blocks; the first error counts. */
void pfw_pass_end(struct pfw_pass_run *run, int error);

/* Return the slot's text buffer. */
void pfw_pass_give_text(struct pfw_pass_run *run, struct pass_slot *slot);

/* Close the file if the cursor is after it and no thread reads it. */
void pfw_pass_close_unused(struct pass_opened *opened);
