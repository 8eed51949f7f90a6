/* writer.h - rings -> lines -> file: the drain thread, and the same work done in place at the end.
 *
 * One writer a process.  Its thread has a descriptor table of its own, so the program never sees
 * our files.  It can be paused (joined) and started again at any time; whoever has paused it may
 * then finish the trace in place.  Start, pause, finish and rename are called under session's lock.
 */
#ifndef PFW_WRITER_H
#define PFW_WRITER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "gzip.h"
#include "json.h"
#include "naming.h"
#include "spool_file.h"

enum pfw_writer_run {
	PFW_WRITER_NONE,
	PFW_WRITER_STARTING,
	PFW_WRITER_RUNNING,
	PFW_WRITER_LEAVING, /* about to end by itself, idle: join it, then start a new one */
};

struct pfw_writer {
	/* Set by session before the first start. */
	struct pfw_spool *spool;
	const struct pfw_template_chunk *templates;
	size_t templates_bytes;
	uint64_t flush_ns;
	uint64_t text_limit;	/* bytes of text that make a write or a member */
	uint64_t ring_max_bytes;
	void (*say)(const char *line);
	void (*idle)(void);	/* make every thread's next event come to session again */
	void (*failed)(void);	/* no trace can be written: switch the probes off */

	/* Shared with the program's threads. */
	_Atomic uint32_t run;	   /* enum pfw_writer_run; futex */
	_Atomic uint32_t bell;	   /* futex the thread sleeps on */
	_Atomic uint32_t sleeping; /* worth a wake call */
	_Atomic uint32_t stop;
	_Atomic uint32_t stalled;  /* writing fails for now: rings are not being freed */
	_Atomic uint32_t dead;	   /* no trace can be written at all */
	_Atomic uint32_t passes;   /* futex: full drains done, for flush */
	_Atomic uint64_t trace_bytes;
	_Atomic uint64_t events;

	/* The writer's own; whoever works under session's lock while no thread runs. */
	pthread_t thread;
	bool ready;	 /* memory, templates and json are set up */
	bool own_table;	 /* this thread's descriptors are its own: keep them open */
	bool rank_late;	 /* a `rank` line is due */
	bool finished;	 /* the trace has an `end` */
	int spool_fd, trace_fd;
	dev_t trace_dev;
	ino_t trace_ino;
	uint64_t offset;     /* good bytes of the trace */
	uint64_t generation; /* of the newest slot */
	char *text, *out;    /* lines to be; a member to be */
	size_t text_bytes, out_bytes, out_room;
	bool process_line; /* written, or in text */
	int last_error;
	uint64_t lost_told[PFW_LOST_REASONS];
	uint32_t rings, string_segments;
	struct pfw_ring *ring_memory;
	uint32_t ring_memory_left;
	struct pfw_ring_chunk *pool[32]; /* stretches no ring needs, by log2 of capacity */
	struct pfw_clock_map clock;
	struct pfw_json json;
	struct pfw_gzip *gzip;
};

/*
 * Start the thread and wait until it can take events.  0, or -errno (the thread could not be
 * made): then nothing drains the rings.  Thread: app.  Signal: unsafe (pthread_create allocates).
 */
int pfw_writer_start(struct pfw_writer *writer);

/* Ask the thread to look.  False where there is none, or where waiting for it is in vain. */
bool pfw_writer_wake(struct pfw_writer *writer);

/* End the thread, without draining.  Thread: app. */
void pfw_writer_pause(struct pfw_writer *writer);

/* Wait until everything recorded before the call is in the file: 0, -ETIMEDOUT, or the error of
 * writing.  The thread must be running. */
int pfw_writer_flush(struct pfw_writer *writer, uint64_t timeout_ns);

/*
 * Drain everything and write `end`, in the calling thread; the thread must be paused.  May be
 * called again: what came since is appended, with a new `end`.  Signals must be blocked by the
 * caller.  0, or -errno: the records then stay in the spool for `pfw repair`.
 */
int pfw_writer_finish(struct pfw_writer *writer, const char *reason, const char *exec_path);

/*
 * Move the trace to another name (numbered if taken); paused.  Where the file system cannot, the
 * old file gets its `end` (renamed) and a new one is begun.  0 or -errno.
 */
int pfw_writer_rename(struct pfw_writer *writer, const char *path);

/* Forget everything without touching it: a forked child's. */
void pfw_writer_forget(struct pfw_writer *writer);

#endif
