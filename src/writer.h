/* writer.h - rings -> lines -> file: the drain thread, and the same work done in place.
 *
 * One writer a process.  Its thread has a descriptor table of its own, so the program never sees
 * our files.  Nobody waits for it: the first ring is made in place by the thread that wants it, and
 * whoever finishes the trace takes the work over instead of waiting for the thread to be scheduled
 * (on a loaded machine, a time slice).  Two locks: session's `life` is held by whoever calls start,
 * pause, finish, first and rename; `work`, below it, by whoever drains and writes.
 */
#ifndef PFW_WRITER_H
#define PFW_WRITER_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "gzip.h"
#include "json.h"
#include "naming.h"
#include "source.h"
#include "spool_file.h"
#include "worker.h"
#include "writer_files.h"

struct pfw_writer;
struct pfw_segment;

/* Something for the thread to do in its own table and root; see pfw_writer_anchor(). */
struct pfw_errand {
	int (*run)(struct pfw_writer *writer, void *arg);
	void *arg;
	int result;
	bool in_place; /* in a table of descriptors that may be full: EMFILE is answered, not said */
};

struct pfw_writer {
	/* Set by session before the first start.  Aligned so that low bits of its address are free. */
	alignas(64) struct pfw_spool *spool;
	const struct pfw_template_chunk *templates;
	size_t templates_bytes;
	uint64_t flush_ns;
	uint64_t text_limit; /* bytes of text that make a write or a member */
	uint64_t ring_max_bytes;
	bool sums;			 /* rings have tables for short calls */
	uint32_t first_slots;		 /* of the first ring; 0 = as others have */
	const struct pfw_source *source; /* records that come by no ring; NULL = none */
	void (*say)(const char *line);
	void (*idle)(void);  /* make every thread's next event come to session again */
	bool (*tick)(void);  /* session's own work between two looks; true: stay, also idle */
	void (*leave)(void); /* the thread goes, and what it has open with it */
	/* The tick's: what it waits for beside the bell, and how long at most (0 = no end). */
	struct pfw_watch watch;
	uint64_t nap_ns;
	void (*limited)(void); /* the trace has max_bytes: switch recording off */
	uint64_t max_bytes;    /* 0 = no limit */
	void (*failed)(void);  /* no trace can be written: switch the probes off */

	/* Shared with the program's threads. */
	_Atomic uint32_t work;	   /* lock: 0 free, 1 held, 2 held and wanted */
	_Atomic uint32_t shift;	   /* which thread is to work: another number sends one home */
	_Atomic uint32_t on_duty;  /* a thread of this shift is there, or on its way */
	_Atomic uint32_t sleeping; /* worth a wake call */
	_Atomic uint32_t threads; /* that have not gone home: one may still hold the trace's lock */
	_Atomic uint32_t stalled; /* writing fails for now: rings are not being freed */
	_Atomic uint32_t dead;	  /* no trace can be written at all */
	_Atomic uint32_t passes;  /* futex: full drains done, for flush */
	_Atomic uint32_t flushing; /* somebody waits for one: write the sums, too */
	_Atomic uint32_t stay;	   /* the thread does not go home when there is nothing to do */
	_Atomic int32_t tid;	   /* of the thread; 0 = none has come up yet */
	_Atomic uint32_t anchored; /* the thread stays, for it alone can reach the files */
	struct pfw_errand *_Atomic errand;
	_Atomic uint32_t errands; /* futex: done so far */
	_Atomic uint64_t trace_bytes;
	_Atomic uint64_t events;

	/* Under life. */
	struct pfw_worker worker;
	bool in_place; /* the errand's that is being run */
	bool held;     /* pfw_writer_hold() has the work lock */
	/* Of who holds it; or, where the thread has no table of its own, the thread's: opened for it
	 * by who starts it, so that a program of one thread never finds a number taken. */
	struct pfw_writer_files kept;

	/* Under work. */
	bool ready;	    /* memory, templates and json are set up */
	bool rank_late;	    /* a `rank` line is due */
	bool over;	    /* it has max_bytes: nothing but the tracer's own lines comes after */
	uint64_t summed_ns; /* when sums were last written (MONOTONIC) */
	struct pfw_writer_files *files;
	struct pfw_writer_files *own_files; /* the thread's */
	dev_t trace_dev, spool_dev;
	ino_t trace_ino, spool_ino;
	uint64_t offset;     /* good bytes of the trace */
	uint64_t ended_at;   /* where they end with an `end`; 0 = there is none */
	uint64_t generation; /* of the newest slot */
	char *text, *out;    /* lines to be; a member to be */
	size_t text_bytes, out_bytes, out_room;
	struct pfw_steps_chunk *steps; /* NULL = no steps have been counted */
	uint64_t segment_id;	       /* of the first line behind the last `segment` */
	bool process_line;	       /* written, or in text */
	/* Of a clock that was set, until that is said; 0 = it is. */
	uint64_t step_from_ns, step_to_ns;
	int last_error;
	uint64_t lost_told[PFW_LOST_REASONS];
	uint32_t rings, string_segments;
	struct pfw_chunk *segment; /* the last of strings */
	struct pfw_ring *ring_memory;
	uint32_t ring_memory_left;
	struct pfw_ring_chunk *pool[32]; /* stretches no ring needs, by log2 of capacity */
	struct pfw_clock_map clock;
	struct pfw_json json;
	struct pfw_gzip *gzip;
};

/* What the first ring takes, with all that comes before it, in the spool: so many bytes made, and so
 * many mapped.  Thread: app. */
void pfw_writer_first_bytes(const struct pfw_writer *writer, uint64_t *made, uint64_t *mapped);

/* Start the thread, without waiting for it.  0, or -errno: then nothing drains the rings.
 * Thread: app.  Signal: safe, unless libc is to know the thread. */
int pfw_writer_start(struct pfw_writer *writer);

/* Make the rings that threads are waiting for, in place.  Opens the spool for a moment in the
 * calling thread's table.  0 or -errno.  Thread: app. */
int pfw_writer_make_rings(struct pfw_writer *writer);

/* Do in place what the thread does in one turn.  0 or -errno.  Thread: app. */
int pfw_writer_drain(struct pfw_writer *writer);

/* Ask the thread to look.  False where there is none, or where waiting for it is in vain. */
bool pfw_writer_wake(struct pfw_writer *writer);

/* Send the thread home, without draining.  `join`: and wait until it is gone, so that the process
 * has one thread fewer.  An anchored one stays.  Thread: app. */
void pfw_writer_pause(struct pfw_writer *writer, bool join);

/*
 * Have the thread open what it needs and stay, in a root and working directory of its own: the
 * program is about to go where the names of our files lead nowhere, or may not be opened.  From then
 * on what others do in place is done by the thread.  0; -EPERM: it still shares the program's root;
 * or -errno.  And let it go after all.  Thread: app.
 */
int pfw_writer_anchor(struct pfw_writer *writer);
void pfw_writer_weigh(struct pfw_writer *writer);

/* The calling thread, and with it the program, has become another user.  Thread: app. */
void pfw_writer_follow_user(struct pfw_writer *writer);

/* Around a fork: no thread of ours; or, where it is anchored, none that holds a lock. */
void pfw_writer_hold(struct pfw_writer *writer);
void pfw_writer_release(struct pfw_writer *writer);

/* The program wants a number that is ours (hidden.h) for a file of its own.  Thread: app. */
void pfw_writer_make_way(struct pfw_writer *writer, int fd);

/* Remove the spool.  Thread: app. */
void pfw_writer_unlink_spool(struct pfw_writer *writer);

/* Wait until everything recorded before the call is in the file: 0, -ETIMEDOUT, or the error of
 * writing; -ESRCH where there is no thread.  Takes neither lock. */
int pfw_writer_flush(struct pfw_writer *writer, uint64_t timeout_ns);

/* Whether the caller is the thread: then what others do in place is done with its files.  Thread:
 * any.  Signal: safe. */
bool pfw_writer_is_here(struct pfw_writer *writer);

/* Write one record that comes by no ring.  0 or -errno.  Thread: drain's tick. */
int pfw_writer_put(struct pfw_writer *writer, const struct pfw_record *record, unsigned slots);

/* The spool's table of steps, made at the first call; NULL = no room for it.  Thread: app. */
struct pfw_steps_chunk *pfw_writer_steps(struct pfw_writer *writer);

/*
 * Drain everything and write a `segment` line, in the calling thread.  *segment says which cycle it
 * is of, and gets path, ids and counts.  0, or -errno: then there is no such line.  Signals must be blocked by the caller.
 */
int pfw_writer_segment(struct pfw_writer *writer, struct pfw_segment *segment);

/*
 * Drain everything and write `end`, in the calling thread; the writer must be paused.  May be
 * called again: what came since is appended, with a new `end`.  Signals must be blocked by the
 * caller.  0, or -errno: the records then stay in the spool for `pfw repair`.
 */
int pfw_writer_finish(struct pfw_writer *writer, const char *reason, const char *exec_path);

/*
 * Compress the trace, or not (gzip NULL), if no line of it has been made yet.  Return whether it is
 * compressed.  The writer is ready.  Thread: app.
 */
bool pfw_writer_compress(struct pfw_writer *writer, struct pfw_gzip *gzip);

/*
 * Move the trace to another name (numbered if taken); paused.  Where the file system cannot, the
 * old file gets its `end` (renamed) and a new one is begun.  0 or -errno.
 */
int pfw_writer_rename(struct pfw_writer *writer, const char *path);

/* Forget everything without touching it: a forked child's. */
void pfw_writer_forget(struct pfw_writer *writer);

#endif
