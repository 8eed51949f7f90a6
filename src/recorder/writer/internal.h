/* recorder/writer/internal.h - how a record goes through the writer's files, and what they share.
 *
 *	thread.c: work_once
 *	  drain.c: pass -> common/encode (lines in writer->text)
 *	    put.c: flush_text -> gzip member -> trace_file.c, commit to the spool's header
 *	      memory.c: return_stretch
 *
 * in_place.c runs the same pass as a job for a thread of the program; finish.c runs the last ones.
 * Lock: all functions here need `work`, unless they say otherwise.
 */
#pragma once

#include "recorder/writer/writer.h"

static inline char *text_end(struct pfw_writer *writer)
{
	return writer->text.start + writer->text.bytes;
}

static inline void set_text_end(struct pfw_writer *writer, const char *end)
{
	writer->text.bytes = (size_t)(end - writer->text.start);
}

static inline struct pfw_control *control_of(struct pfw_writer *writer)
{
	return &writer->spool->header->control;
}

/* ---- thread.c ---- */

/* Take `work`, to use these files; release it. */
void pfw_writer_lock(struct pfw_writer *writer, struct pfw_writer_files *files);
void pfw_writer_unlock(struct pfw_writer *writer);

/* ---- files.c ---- */

#define PFW_NO_FILES ((struct pfw_writer_files){ .spool = { -1, -1 }, .trace = { -1, -1 } })

/* Give this thread its own empty descriptor table: the program never sees, inherits or closes our
 * files, and its calls stay fast, as a table of one thread needs no reference counts.
 * False: the kernel refuses.  Thread: drain. */
bool pfw_writer_take_table(void);

/* Call before the thread ends: another thread may get its tid.  Thread: drain. */
void pfw_writer_leave_table(void);

/* Whether the kernel would refuse; changes nothing.  Thread: any. */
bool pfw_writer_table_refused(void);

/* pfw_spool_append(), opening the spool if need be; only open it: 0 or -errno. */
void *pfw_writer_append(struct pfw_writer *writer, enum pfw_chunk_kind kind, uint32_t index,
			uint64_t bytes);
int pfw_writer_open_spool(struct pfw_writer *writer);

/* The descriptor of the trace, which is created if need be; or -errno. */
int pfw_writer_trace(struct pfw_writer *writer);

void pfw_writer_close_files(struct pfw_writer *writer);
void pfw_writer_close_trace(struct pfw_writer *writer);

/* ---- memory.c ---- */

/* Once per process: make templates, buffers, strings, a ring.  0 or -errno. */
int pfw_writer_make_ready(struct pfw_writer *writer);

/* Make another segment of strings, or allocate the rest of the newest one. */
void pfw_writer_add_strings(struct pfw_writer *writer);

/* Open the spool if a new ring needs it.  0 or -errno. */
int pfw_writer_open_for_ring(struct pfw_writer *writer);

/* If threads come and go faster than passes run: with this many rings of ended threads, a thread
 * that wants a ring empties those instead of making a new one. */
#define PFW_WRITER_DEAD_RINGS_MAX 64u

/* Make a ring for every thread that waits, and one spare once there are two; none while `dead_max`
 * rings of ended threads only need draining.  False: no ring is free. */
bool pfw_writer_supply_rings(struct pfw_writer *writer, uint32_t dead_max);

/* Make the writer ready and a ring for each thread that waits for one.  Return 0, or -errno: there is
 * no memory, or no file.  Lock: the work lock. */
int pfw_writer_make_rings_now(struct pfw_writer *writer, void *unused);

/* A stretch of `capacity` slots from the pool, or a new one, or NULL. */
struct pfw_ring_chunk *pfw_writer_get_stretch(struct pfw_writer *writer, uint32_t capacity);

/* A ring for the writer's own records, or NULL. */
struct pfw_ring *pfw_writer_make_own_ring(struct pfw_writer *writer);

/* Offer a ring a stretch twice as long; put a stretch into the pool. */
void pfw_writer_grow_ring(struct pfw_writer *writer, struct pfw_ring *ring);
void pfw_writer_return_stretch(struct pfw_writer *writer, struct pfw_ring_chunk *stretch);

/* ---- room.c ---- */

/*
 * Whether the rings may take so many bytes more.  A flight recorder has its size.  Otherwise they take a
 * quarter at most of what would be available without them: so much is left even if many processes do the
 * same, and a program in a small container is not killed for its rings.
 */
bool pfw_writer_may_take(struct pfw_writer *writer, uint64_t bytes);

/* ---- drain.c ---- */

/* Drain everything once.  Without `put` the last lines stay in writer->text.  0 or -errno. */
int pfw_writer_pass(struct pfw_writer *writer, bool put);

/* Add the line of a ring's next record, and its thread's name if need be, and go past it; at the
 * limit it is counted instead.  0, or the error of making room. */
int pfw_writer_drain_record(struct pfw_writer *writer, struct pfw_ring *ring,
			    const struct pfw_record *record, unsigned slots, uint64_t now_ns);

/* Add the sums of short calls that are not in the trace.  0 or -errno. */
int pfw_writer_add_sums(struct pfw_writer *writer, uint64_t now_ns);

/* Take the pair of clocks of this pass. */
void pfw_writer_note_clock(struct pfw_writer *writer);

/* Write if another line might be too much for a member, or for PFW_MAX_BYTES.  0 or -errno. */
int pfw_writer_make_room(struct pfw_writer *writer);

/* Add the line of a record that is in no ring; room must have been made. */
void pfw_writer_add_record(struct pfw_writer *writer, const struct pfw_record *record,
			   unsigned slots);

/* Add the line `process` if this file has none yet; `end` and the totals before it. */
void pfw_writer_add_process_line(struct pfw_writer *writer);
void pfw_writer_add_end(struct pfw_writer *writer, const char *reason, const char *exec_path);

/* Whether a `lost` line is due. */
bool pfw_writer_losses_unreported(const struct pfw_writer *writer);

/* ---- keep.c ---- */

/* Whether the writer is a flight recorder's. */
static inline bool keeps(const struct pfw_writer *writer)
{
	return writer->keep_bytes != 0;
}

/* The same, and no dump is under way. */
static inline bool only_keeps(struct pfw_writer *writer)
{
	return keeps(writer) && atomic_load(&writer->dump_state) != PFW_DUMP_RUNS;
}

/* A flight recorder's pass: give the rings room, forget what is too old, go on with a dump.  0, or
 * the error of the dump, which stays under way. */
int pfw_writer_keep_pass(struct pfw_writer *writer);

/* Keep a record that is in no ring.  False: there is no room. */
bool pfw_writer_keep_record(struct pfw_writer *writer, const struct pfw_record *record,
			    unsigned slots);

/* Forget the oldest records.  False: there are none, or one may yet be committed. */
bool pfw_writer_keep_less(struct pfw_writer *writer);

/* The end: finish a dump that was asked for, then forget everything. */
int pfw_writer_keep_end(struct pfw_writer *writer);

/* ---- finish.c ---- */

/* The trace has its `end`; the next write creates one of this name. */
void pfw_writer_begin_anew(struct pfw_writer *writer, const char *path);

/* ---- memory.c: stacks ---- */

/* Find out the paths of modules that are new in stacks. */
void pfw_writer_name_modules(struct pfw_writer *writer);

/* A file begins: it has no line of a module yet. */
void pfw_writer_forget_modules(struct pfw_writer *writer);

/* ---- put.c ---- */

/* Write writer->text to the trace and commit.  0 or -errno: the text stays for the next try. */
int pfw_writer_flush_text(struct pfw_writer *writer);

/* Record in the spool's header what is in the trace, then free those records. */
void pfw_writer_commit(struct pfw_writer *writer);

/* ---- in_place.c ---- */

/* Work for the calling thread's files, or for the writer's thread. */
struct pfw_job {
	int (*run)(struct pfw_writer *writer, void *arg);
	void *arg;
	int result;
	/* Return EMFILE without a message: the caller's descriptor table may be full, and the job
	 * then runs again in a thread with its own table. */
	bool quiet_emfile;
};

/* Run the job where its files can be reached: in the writer's thread if it is anchored, else here.
 * `grows`: the job may append to the spool.  Lock: takes `work`.  The job's result, or -errno. */
int pfw_writer_run(struct pfw_writer *writer, struct pfw_job *job, bool grows);

/* Run it in a short-lived thread with its own descriptor table.  Lock: takes `work`. */
int pfw_writer_run_in_new_thread(struct pfw_writer *writer, struct pfw_job *job);

/* Run the job that another thread waits for, if any.  Thread: drain. */
void pfw_writer_run_job(struct pfw_writer *writer);

/* A job: a full pass that writes the sums, too. */
int pfw_writer_pass_now(struct pfw_writer *writer, void *unused);
