/* recorder/session/internal.h - the state of the session and the functions of its files.
 *
 * Room recorder/session: The lifetime of the recorder in a process: start, fork, exec, exit,
 * schedule.  It may use every room of the recorder, and no room includes it.  Start at wiring.c
 * (who calls whom), then start.c, direct.c, fork.c, end.c.
 *
 * Lock order: `life`, then the writer's `work`, then `switching`.  `life` is held while the writer
 * is started, paused, renamed or finished.  All signals are blocked meanwhile, so that no handler
 * of this thread can want it again.  Under these locks no lock of libc's is taken where an event
 * may come from a signal handler; only a new trace name calls dlopen.  Recording takes no lock.
 *
 * Stack: what a thread of the program does under `life` runs on our own stack
 * (recorder/guest/stack.h), so that no call takes more than 2 KiB of the program's.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/settings/config.h"
#include "recorder/probe/probe.h"
#include "recorder/session/identity.h"
#include "recorder/spool/file.h"
#include "recorder/writer/writer.h"

struct pfw_compute;
struct pfw_segment;

enum pfw_session_state { FRESH, OFF, ON, ENDED };

extern struct pfw_session {
	_Atomic uint32_t state;	    /* enum pfw_session_state */
	_Atomic uint32_t life;	    /* lock: pfw_os_lock() */
	_Atomic int32_t holder;	    /* tid of the holder */
	_Atomic uint32_t switching; /* lock: a thread is storing pfw_switches's words */
	uint64_t generation;	    /* of those words; under `switching` */
	_Atomic bool io;	    /* I/O probes are wanted */
	bool api_used;		    /* pfw_start() was called */
	_Atomic bool stopped;	    /* since pfw_stop(), until pfw_start() */
	bool confined;		    /* under seccomp: for good */
	_Atomic bool paused;	    /* the schedule has paused recording */
	bool preloaded;
	_Atomic bool attached;	      /* pfw_attach() did the preload object's work */
	_Atomic uint64_t no_rings_ns; /* no ring is requested before (MONOTONIC) */
	_Atomic bool limited;	      /* the trace has reached PFW_MAX_BYTES */
	_Atomic uint32_t direct_left; /* events that are still written directly */
	bool children;		      /* forked children are recorded, too */
	bool config_reported;	      /* printed: messages about the variables */
	bool unfinished_reported;     /* printed: the trace's end could not be written */
	bool unrecorded_reported;     /* printed: calls were made past libc */
	bool globs_said;	      /* printed, if anything: globs that matched nothing */
	uint64_t lost_reported;	      /* lost events mentioned so far */
	uint64_t fork_ns, forked_ns;  /* around the fork in progress; 0 = none */
	struct pfw_gzip *gzip;	      /* kept while an uncompressed trace is written */
	bool hooks;		      /* atfork, at_quick_exit, thread key: once a process image */
	bool keyed;		      /* thread_key exists */
	bool pinned;		      /* the library stays loaded for good */
	pthread_key_t thread_key;
	bool forked;		/* this process has it from its parent */
	char *const *variables; /* those to read; NULL = the program's environment */
	struct pfw_config config;
	struct pfw_identity identity;
	struct pfw_spool spool;
	struct pfw_writer writer;
} pfw_session;

/* False in a forked child that has not set itself up yet. */
static inline bool pfw_session_is_set_up(void)
{
	return atomic_load_explicit(&pfw_switches->born, memory_order_relaxed);
}

static inline bool pfw_session_is_on(void)
{
	return pfw_session_is_set_up() && atomic_load(&pfw_session.state) == ON;
}

/* ---- switches.c ---- */

/* Block signals and take `life`.  False: this thread holds it already (an allocator that does I/O
 * inside dlopen). */
bool pfw_session_lock(uint64_t *old);
void pfw_session_unlock(uint64_t old);

/* Call work(arg) with `life` held, on our own stack.  False: this thread holds it already, and
 * nothing was called.  Keeps errno. */
bool pfw_session_do(void (*work)(void *arg), void *arg);

/* Start a new generation as the state wants it: the next event of each thread calls the session. */
void pfw_session_switch(void);

/* The schedule switches all probes on or off. */
void pfw_session_record(bool on);

/* Never 0, and different in each process: a span begun before a fork is recognized by it. */
uint64_t pfw_session_born(void);
bool pfw_session_make_switches(void);

/* ---- api.c ---- */

/* Rename the trace to the present name of the identity; `anew`: the trace is complete, so go on in a
 * new file of that name.  0 or -errno. */
int pfw_session_rename(bool anew);

/* ---- start.c ---- */

/* Read the variables and start, unless done already.  `asked`: by pfw_start(), so record even if
 * DFTRACER_ENABLE is not set.  True: recording.  Thread: init, or any (pfw_start). */
bool pfw_session_start(bool asked);

/* False: no memory.  The previous filter stays; at the start there is none. */
bool pfw_session_set_up_filter(void);

/* The name that the trace should have now, and whether it is compressed.  Until something is
 * encoded the suffix decides whether; from then on the content decides the suffix. */
int pfw_session_find_name(char *path, bool *compressed);

/* False: this user may not make the trace there, which has been printed. */
bool pfw_session_may_write(const char *path);

/* The same of a program that this process starts as its present user: the reason why not, or NULL. */
const char *pfw_session_why_untraced(void);

/* Give this process its spool, switches and trace name.  True: the probes may run. */
bool pfw_session_make_process(const struct pfw_spool_header *parent);

/* ---- wiring.c ---- */

void pfw_session_wire_writer(void);
void pfw_session_wire_ring(void);
void pfw_session_wire_counters(uint16_t template);
void pfw_session_wire_probes(void);
void pfw_session_hook(void);
void pfw_session_unhook(void);
void pfw_session_writer_failed(void);
bool pfw_session_recorded(void);

/* ---- direct.c ---- */

/* The first events of a forked child are written directly: from now on; no longer. */
void pfw_session_begin_direct(void);
void pfw_session_end_direct(void);
void pfw_session_write_direct(void);
bool pfw_session_wake(void);

/* Whether the writer's thread must stay without events: while recording is off no event wakes it,
 * and only it sees requests, the clock and the leader's control page. */
void pfw_session_keep_writer(void);

/* Restarts a writer's thread that is about to end. */
int pfw_session_flush(uint64_t timeout_ns);

/* For the stepper: write everything; note that a step begins (its phase in the low two bits); write
 * a record that is in no ring; write everything and a `segment` line.  False or -errno: that
 * failed. */
bool pfw_session_drain(void);
void pfw_session_mark_step(uint64_t ticks, uint64_t step);
void pfw_session_put(const struct pfw_compute *event);
int pfw_session_segment(struct pfw_segment *segment);

/* ---- dump.c ---- */

/* A flight recorder writes a dump: wait for it.  0; -ENODATA: nothing is recorded yet, or this is
 * no flight recorder; -ETIMEDOUT; or the error of writing. */
int pfw_session_dump(const char *why, uint64_t timeout_ns);

/* Conditions of PFW_DUMP_ON; without them these calls do nothing.  Signal: the first one is
 * safe. */
void pfw_session_slow_call(uint16_t call, uint64_t ticks);
void pfw_session_step_took(uint64_t step, uint64_t ns);

/* In a forked child. */
void pfw_session_dumps_forked(void);

/* ---- fork.c ---- */

void pfw_session_fork_prepare(void);
void pfw_session_fork_parent(void);
void pfw_session_fork_child(void);
void pfw_session_forked(void);
bool pfw_session_stay_behind(void);
void pfw_session_be_gone(bool gone);
void pfw_session_user_changed(void);
void pfw_session_hold_files(void);
void pfw_session_rights_given_up(long number, const long *arg);
void pfw_session_make_way(int fd);

/* Note that these globs of PFW_CHILDREN match this program, and where those of PFW_EXCLUDE that
 * match are noted.  Thread: init. */
void pfw_session_mark_globs(uint64_t children);

/* ---- confine.c ---- */

/* The program is about to put this thread under a filter (NULL: the strict mode).  If one of our
 * calls would kill it, recording ends; else our files are held.  True: it has one thread, and the
 * writer's can work under the filter, too. */
bool pfw_session_confine(const void *program, unsigned flags);

/* ---- end.c ---- */

void pfw_session_end(const char *reason, const char *exec_path, bool followed);
void pfw_session_end_now(const char *reason, const char *exec_path, bool followed);
void pfw_session_resume(void);
void pfw_session_join(void);
void pfw_session_at_exit(void);
