/* recorder/writer/writer.h - the writer makes lines of the records and writes them to the trace.
 *
 * Room recorder/writer: makes rings, drains them, and writes the trace: in a thread of its own, or
 * in place in a thread of the program.  It may use recorder/guest, recorder/spool and common, and
 * never knows where a record came from.  Start with internal.h, then drain.c.
 *
 * A process has one writer.  Its thread has its own file descriptor table, so the program never
 * sees our files.  No thread of the program waits for it to be scheduled (a time slice on a loaded
 * machine): the thread that needs the first ring makes it, and the thread that finishes the trace
 * drains it.
 *
 * Lock: session's `life` is held around start, pause, finish, make_rings and rename.  `work` comes
 * below it and is held while draining and writing.
 */
#pragma once

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/encode/encode.h"
#include "common/encode/own_lines.h"
#include "common/format/clock.h"
#include "common/format/gzip.h"
#include "common/format/source.h"
#include "common/settings/naming.h"
#include "recorder/guest/thread.h"
#include "recorder/spool/file.h"
#include "recorder/writer/trace_file.h"

struct pfw_job;
struct pfw_segment;

struct pfw_open_file {
	int fd;	   /* -1 = not open */
	int entry; /* in recorder/guest/own_fds.h, which knows the number after a move; -1 = none */
};

/* Spool and trace in the calling thread's descriptor table.  They have an entry in a table shared
 * with the program. */
struct pfw_writer_files {
	struct pfw_open_file spool, trace;
	bool own;   /* the table is the thread's own */
	bool high;  /* the table is shared, and the files stay open: give them high numbers */
	bool waits; /* wait until a high number is free: this is no thread of the program */
	bool grows; /* the spool may be opened, to append to it */
};

struct pfw_writer_buffer {
	char *start;
	size_t bytes, room;
};

/* Asking for a dump, which a signal handler may do. */
enum pfw_dump_state { PFW_DUMP_NONE, PFW_DUMP_ASKING, PFW_DUMP_ASKED, PFW_DUMP_RUNS };

struct pfw_writer {
	/* Settings: set by session before the first start, kept by pfw_writer_forget().
	 * Alignment: thread.c puts the epoch into the low bits of the writer's address. */
	alignas(64) struct pfw_spool *spool;
	uint64_t flush_ns;
	uint64_t text_limit; /* write when the text is this long */
	uint64_t ring_max_bytes;
	uint64_t max_bytes;		 /* 0 = no limit */
	bool sums;			 /* each ring has a table of short calls */
	bool stacks;			 /* PFW_STACK: there are stacks */
	const struct pfw_source *source; /* of records without a ring; NULL = none */
	struct pfw_gzip *gzip;		 /* NULL = the trace is not compressed */
	/* A flight recorder: bytes and age of what it keeps (0 = an ordinary trace; any age), and
	 * the trace's name without the dump's number, PFW_PATH_MAX bytes that change under
	 * `work`. */
	uint64_t keep_bytes, keep_ticks;
	bool keep_grows; /* keep_bytes is no limit while memory is available */
	bool keep_said;	 /* that it is */
	char *keep_name;
	void (*say)(const char *line);
	void (*idle)(void);  /* make every thread call session at its next event */
	bool (*tick)(void);  /* session's work between two passes; true: the thread is not idle */
	void (*leave)(void); /* the thread ends, and with it its descriptor table */
	/* pfw_mappings_next(); NULL = nothing is known of mappings */
	bool (*mapping)(uint32_t *at, uint32_t *name, uint64_t *bytes, uint64_t *touched);
	void (*limited)(void); /* the trace has max_bytes: stop recording */
	void (*failed)(void);  /* no trace can be written: switch the probes off */

	uint32_t first_slots; /* of the first ring; 0 = the usual number */
	/* Set by tick: a word to wait on besides the bell, and the longest wait (0 = none). */
	struct pfw_watch watch;
	uint64_t nap_ns;

	/* Shared with the program's threads. */
	_Atomic uint32_t work;		/* lock: pfw_os_lock() */
	_Atomic uint32_t thread_epoch;	/* a thread that was started in an older epoch ends */
	_Atomic uint32_t thread_wanted; /* a thread of this epoch runs, or is being started */
	_Atomic uint32_t sleeping;	/* the thread must be woken */
	_Atomic uint32_t threads;	/* not ended yet: one may still hold the trace's flock() */
	_Atomic uint32_t stalled;	/* writes fail for now, so no ring is freed */
	_Atomic int32_t unready;	/* -errno of the thread's try to make the first ring */
	_Atomic uint32_t dead;		/* no trace can ever be written */
	_Atomic uint32_t passes;	/* futex: passes done, for flush */
	_Atomic uint32_t flushing;	/* a flush waits: write the sums, too */
	_Atomic uint32_t stay;		/* the thread does not end when idle */
	_Atomic int32_t tid;		/* of the thread; 0 = not running */
	_Atomic uint32_t anchored;	/* only the thread can reach the files: it must not end */
	struct pfw_job *_Atomic job;	/* for the thread to do; NULL = none */
	_Atomic uint32_t jobs_done;	/* futex */
	_Atomic uint64_t trace_bytes;
	_Atomic uint64_t events;
	_Atomic uint32_t dump_state; /* enum pfw_dump_state */
	_Atomic uint32_t dumps_done; /* futex: finished or failed */
	_Atomic uint32_t
		dumps_short; /* conditions that asked during a dump, or after the last one */

	/* Under life. */
	struct pfw_own_thread worker;
	bool quiet_emfile; /* the running job's */
	bool held;	   /* pfw_writer_hold() has the work lock */
	/* Files of the thread if it shares the program's table.  pfw_writer_start() opens them
	 * before the thread runs, so a single-threaded program finds none of its numbers taken. */
	struct pfw_writer_files shared_files;

	/* Under work. */
	bool ready;	/* pfw_writer_make_ready() has succeeded */
	bool rank_late; /* a `rank` line is due */
	bool at_limit;	/* the trace has max_bytes: only the tracer's own lines may follow */
	struct pfw_writer_files *files;	    /* of the lock's holder */
	struct pfw_writer_files *own_files; /* the thread's */
	struct pfw_file_id trace_id, spool_id;
	uint64_t drained;		 /* records of this pass, or the last one */
	uint64_t offset;		 /* bytes of whole lines in the trace */
	uint64_t ended_at;		 /* `offset` after the last `end`; 0 = none */
	uint64_t generation;		 /* of the newest header slot */
	struct pfw_writer_buffer text;	 /* lines that are not in the trace yet */
	struct pfw_writer_buffer member; /* those lines, compressed */
	struct pfw_steps_chunk *steps;	 /* NULL = no schedule steps counted */
	uint64_t segment_first_id;	 /* id of the first line of this segment */
	int last_error;
	/* The figures that lines of the trace, or messages, have already reported. */
	struct {
		bool process;
		bool mappings;
		bool unclosed; /* on standard error */
		uint64_t lost[PFW_LOST_REASONS];
		uint64_t sums_ns; /* CLOCK_MONOTONIC */
	} reported;
	/* CLOCK_REALTIME was set, and no line reports it yet; from_ns 0 = no jump. */
	struct {
		uint64_t from_ns, to_ns;
	} clock_jump;
	/* Chunks of the spool. */
	struct {
		uint32_t rings, string_segments;
		struct pfw_chunk *segment; /* newest of strings */
		struct pfw_ring *ring_memory;
		uint32_t ring_memory_left;
		struct pfw_ring_chunk *pool[32]; /* free stretches, by log2 of capacity */
		uint64_t ring_bytes;		 /* of all stretches */
		uint64_t room_bytes; /* they may have so many, as memory was at the last look */
		uint64_t refused_ns; /* MONOTONIC: when more could last not be had; 0 = it could */
	} made;
	/* The dump that is asked for or under way: why, the ticks when it was asked for and where
	 * its window begins, and since when a record that is not committed holds it up
	 * (MONOTONIC). */
	struct {
		char why[PFW_DUMP_WHY_MAX];
		uint64_t until, from, stuck;
		bool ended; /* its `end` is in the text */
	} dump;
	uint32_t modules_named;	   /* of pfw_stacks_modules */
	struct pfw_ring *own_ring; /* a flight recorder's, for records of the writer's */
	struct pfw_clock_map clock;
	struct pfw_json json;
};

/* Bytes to allocate and to map for the first ring and the chunks before it.  Thread: app. */
void pfw_writer_first_bytes(const struct pfw_writer *writer, uint64_t *made, uint64_t *mapped);

/* Start the thread without waiting for it.  0, or -errno: no thread drains the rings.
 * Thread: app.  Signal: safe, unless worker.known is set. */
int pfw_writer_start(struct pfw_writer *writer);

/* Make in place the rings that threads wait for.  May open the spool for a moment in the calling
 * thread's descriptor table.  0 or -errno.  Thread: app. */
int pfw_writer_make_rings(struct pfw_writer *writer);

/* Run one pass in place.  0 or -errno.  Thread: app. */
int pfw_writer_drain(struct pfw_writer *writer);

/* Wake the thread.  False: there is none, or it cannot write for now. */
bool pfw_writer_wake(struct pfw_writer *writer);

/* End the thread without draining; `join`: and wait until it is gone, so that the process has one
 * thread fewer.  Does nothing to an anchored thread.  Thread: app. */
void pfw_writer_pause(struct pfw_writer *writer, bool join);

/*
 * Before the program changes its root or user, so that it may lose the way to our files: make the
 * thread open them, keep it alive until `anchored` is 0 again, and give it its own root and working
 * directory.  From then on it runs the jobs of other threads.  `create`: the trace, too, which else
 * is opened only if it exists.  0; -EPERM: the root is still shared;
 * or -errno.  Thread: app.
 */
int pfw_writer_anchor(struct pfw_writer *writer, bool create);

/* The program has changed its user: change the thread's, too.  Thread: app. */
void pfw_writer_follow_user(struct pfw_writer *writer);

/* The calling thread has given up rights by a system call, with five arguments: the writer's thread
 * makes it, too.  Thread: app. */
struct pfw_rights_call {
	long number;
	const long *arg;
};
void pfw_writer_follow_rights(struct pfw_writer *writer, struct pfw_rights_call *call);

/* Around a fork: end the thread, or, if it is anchored, take the work lock. */
void pfw_writer_hold(struct pfw_writer *writer);
void pfw_writer_release(struct pfw_writer *writer);

/* The program wants one of our descriptor numbers for itself: move ours.  Thread: app. */
void pfw_writer_make_way(struct pfw_writer *writer, int fd);

/* Remove the spool.  Thread: app. */
void pfw_writer_unlink_spool(struct pfw_writer *writer);

/* Wait until everything recorded before the call is in the file: 0, -ETIMEDOUT, -ESRCH without a
 * thread, or the error of writing.  Lock: neither. */
int pfw_writer_flush(struct pfw_writer *writer, uint64_t timeout_ns);

/* Whether the caller is the writer's thread.  Thread: any.  Signal: safe. */
bool pfw_writer_is_here(struct pfw_writer *writer);

/* Write one record that is in no ring.  0 or -errno.  Thread: drain's tick. */
int pfw_writer_put(struct pfw_writer *writer, const struct pfw_record *record, unsigned slots);

/* The spool's table of schedule steps, made at the first call; NULL = no room.  Thread: app. */
struct pfw_steps_chunk *pfw_writer_steps(struct pfw_writer *writer);

/*
 * Drain everything and write a `segment` line, in the calling thread.  *segment holds its cycle,
 * and gets path, ids and counts.  0, or -errno: no such line.  The caller has blocked signals.
 */
int pfw_writer_segment(struct pfw_writer *writer, struct pfw_segment *segment);

/*
 * Drain everything and write `end`, in the calling thread.  The writer is paused, and the caller
 * has blocked signals.  May be called again: it then appends newer records and another `end`.  0,
 * or -errno: the records stay in the spool for `pfw repair`.
 */
int pfw_writer_finish(struct pfw_writer *writer, const char *reason, const char *exec_path);

/* Of a flight recorder: let the next pass begin a dump of what ended until now.  False: one is
 * under way.  Thread: any.  Signal: safe. */
bool pfw_writer_ask_dump(struct pfw_writer *writer, const char *why);

/* Set whether to compress (gzip NULL: no) unless a line exists already.  Return whether the trace
 * is compressed.  The writer is ready.  Thread: app. */
bool pfw_writer_compress(struct pfw_writer *writer, struct pfw_gzip *gzip);

/* Rename the trace (a taken name gets a number); the writer is paused.  Across file systems the old
 * file gets an `end` of reason `renamed`, and a new file starts.  0 or -errno. */
int pfw_writer_rename(struct pfw_writer *writer, const char *path);

/* The trace has its `end`, or no line yet: what comes next goes into the file of this name.  The
 * writer is paused. */
void pfw_writer_begin_file(struct pfw_writer *writer, const char *path);

/* Reset everything but the settings, releasing nothing.  Thread: a forked child's only one. */
void pfw_writer_forget(struct pfw_writer *writer);
