/* session.c - lifetime: start, fork, exec, exit; the one file that wires the others together.
 *
 * Locks, in this order: `life`, held while the writer is started, paused, renamed or finished, with
 * all signals blocked so that no handler of this thread can want it again; the writer's `work`;
 * `words`.  Nothing of libc's is taken inside them where an event may be in a handler (dlopen, for
 * a new name, is).  Recording takes none.
 */
#define PFW_BUILDING
#include <pfw/pfw.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "counters.h"
#include "globs.h"
#include "hidden.h"
#include "identity.h"
#include "lines.h"
#include "nvml.h"
#include "os.h"
#include "preload_table.h"
#include "probes/api.h"
#include "probes/attach.h"
#include "probes/attach_preload.h"
#include "probes/cupti.h"
#include "probes/cupti_source.h"
#include "probes/filter.h"
#include "probes/follow.h"
#include "probes/nvtx.h"
#include "probes/probe.h"
#include "probes/select.h"
#include "probes/short.h"
#include "probes/torch_ops.h"
#include "probes/unrecorded.h"
#include "ring.h"
#include "say.h"
#include "session.h"
#include "spool_file.h"
#include "stepper.h"
#include "strings.h"
#include "templates.h"
#include "text.h"
#include "writer.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum state { FRESH, OFF, ON, ENDED };

static struct session {
	_Atomic uint32_t state; /* enum state */
	_Atomic uint32_t life;	/* lock: 0 free, 1 held, 2 held and wanted */
	_Atomic int32_t holder; /* tid of who holds it */
	_Atomic uint32_t words; /* lock: who sets pfw_live's words */
	uint64_t generation;	/* of pfw_live's words; under `words` */
	_Atomic bool io;	/* I/O probes are wanted */
	bool api_used;		/* pfw_start() was called */
	_Atomic bool stopped;	/* pfw_stop() was: off until pfw_start() */
	_Atomic bool paused;	/* the schedule records nothing for now */
	bool preloaded;
	_Atomic bool attached;	      /* pfw_attach() did what the preload object would have done */
	_Atomic uint64_t no_rings_ns; /* until when none is asked for again (MONOTONIC) */
	_Atomic bool limited;	      /* the trace has PFW_MAX_BYTES */
	_Atomic uint32_t young;	      /* so many events more are written by who records them */
	bool children;		      /* those that this process forks are recorded, too */
	bool told;		      /* what is wrong with the variables has been said */
	bool told_unfinished;	      /* that the trace's end could not be written */
	bool told_unrecorded;	      /* that calls were made past libc */
	uint64_t told_lost;	      /* so many events, lost, have been spoken of */
	uint64_t fork_ns, forked_ns;  /* before and after a fork under way; 0 = there is none */
	struct pfw_gzip *gzip;	      /* kept when a trace without is begun */
	bool hooks; /* atfork, at_quick_exit, the thread key: once a process image */
	pthread_key_t thread_key;
	struct pfw_config config;
	struct pfw_identity identity;
	struct pfw_spool spool;
	struct pfw_writer writer;
} session;

extern char **environ;

/* ---- the lock ---- */

static sigset_t block_signals(void)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	return old;
}

/* Signals are blocked while it is held; false where this very thread holds it already (an allocator
 * that does I/O inside dlopen). */
static bool lock_life(sigset_t *old)
{
	uint32_t none = 0;

	if (atomic_load(&session.holder) == pfw_os_gettid())
		return false;
	*old = block_signals();
	while (!atomic_compare_exchange_strong(&session.life, &none, 1)) {
		if (none != 2 && !atomic_exchange(&session.life, 2))
			break; /* it was released just now, and is ours */
		pfw_os_futex_wait((const uint32_t *)&session.life, 2, 10000000);
		none = 0;
	}
	atomic_store(&session.holder, pfw_os_gettid());
	return true;
}

static void unlock_life(const sigset_t *old)
{
	atomic_store(&session.holder, 0);
	if (atomic_exchange(&session.life, 0) == 2)
		pfw_os_futex_wake((const uint32_t *)&session.life, 1);
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

/* ---- the words ---- */

/*
 * Make every thread come to session with its next event: a new generation, as the state wants it.
 * The writer's thread calls it too, so the words have a lock of their own, held for a few stores by
 * threads whose signals are blocked: without it the writer could undo what an exit has just set.
 */
static void renew_words(void)
{
	sigset_t old = block_signals();
	uint64_t word;
	uint32_t state;

	while (atomic_exchange(&session.words, 1))
		pfw_os_sleep_ns(1000);
	state = atomic_load(&session.state);
	word = ++session.generation | (state == ENDED ? PFW_LIVE_ENDED : 0) |
	       (atomic_load(&session.limited) ? PFW_LIVE_LIMIT : 0) |
	       (session.config.step && !pfw_torch_steps(&session.config) ? PFW_LIVE_STEPS : 0);
	if ((state != ON && state != ENDED) || session.stopped || session.paused)
		word = 0;
	atomic_store(&pfw_live->io, session.io ? word : 0);
	atomic_store(&pfw_live->end,
		     word && session.io && !pfw_short_ticks ? word : PFW_LIVE_NOBODY);
	/* A schedule's pause: the step that ends it must be seen. */
	if (!word && session.config.step && !pfw_torch_steps(&session.config) && state == ON &&
	    !session.stopped)
		word = PFW_LIVE_STEPS;
	atomic_store(&pfw_live->api,
		     word | (word && atomic_load(&session.young) ? PFW_LIVE_YOUNG : 0));
	atomic_store(&session.words, 0);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* For good, which has been said: nothing can be recovered either. */
static void writer_failed(void)
{
	atomic_store(&session.state, OFF);
	renew_words();
	pfw_spool_unlink(&session.spool);
}

/* The trace is as long as it may be: from now on every event is lost, and counted. */
static void limit_reached(void)
{
	atomic_store(&session.limited, true);
	renew_words();
	pfw_say("the trace has PFW_MAX_BYTES: recording stops; what comes is counted as lost");
}

/* Never 0, and another in each process: spans begun before a fork are told by it. */
static uint64_t born(void)
{
	return session.identity.process.start_time << 22 | (uint64_t)session.identity.process.pid;
}

static bool make_live_page(void)
{
	struct pfw_live *page =
		pfw_os_mmap(4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (!page)
		return false;
	/* Where the kernel is too old for it (before 4.14), the atfork handler wipes by hand. */
	pfw_os_madvise(page, 4096, MADV_WIPEONFORK);
	atomic_store(&page->born, born());
	/* A thread that finds the page with born still 0 would take itself for a forked child. */
	__atomic_store_n(&pfw_live, page, __ATOMIC_RELEASE);
	return true;
}

/* ---- what the rings and probes ask for ---- */

/* Finish again, in place: what came after `end`.  A kill in the middle of it leaves a spool that is
 * not done, where there still is one. */
static int finish_again(void)
{
	_Atomic uint32_t *mark = &session.spool.header->state;
	uint32_t done = PFW_SPOOL_DONE, live = PFW_SPOOL_LIVE;
	int error;

	atomic_compare_exchange_strong(mark, &done, PFW_SPOOL_LIVE);
	error = pfw_writer_finish(&session.writer, "exit", NULL);
	if (!error)
		atomic_compare_exchange_strong(mark, &live, PFW_SPOOL_DONE);
	return error;
}

/*
 * Most forked children do little and are gone: to each of them a thread would cost more than all else
 * of ours.  So the first events are written in place, at once, and the next one starts the writer;
 * earlier where a write takes long.
 */
#define YOUNG_EVENTS 4u
#define YOUNG_WRITE_NS 5000000ull
#define CHILD_SLOTS 64u /* one page */

static void grow_up(void)
{
	if (atomic_exchange(&session.young, 0))
		renew_words();
}

static void write_young(void)
{
	uint64_t begun = pfw_clock_ns(CLOCK_MONOTONIC);
	uint32_t left = atomic_load(&session.young);
	int error = pfw_writer_drain(&session.writer);

	if (left <= 1 || error || pfw_clock_ns(CLOCK_MONOTONIC) - begun > YOUNG_WRITE_NS)
		grow_up();
	else
		atomic_compare_exchange_strong(&session.young, &left, left - 1);
	if (error && !pfw_thread.forking && !atomic_load(&session.writer.dead))
		pfw_writer_start(&session.writer); /* it tries again */
}

static void straight(void)
{
	uint32_t state;
	sigset_t old;

	if (!lock_life(&old))
		return;
	state = atomic_load(&session.state);
	if (state == ENDED)
		finish_again();
	else if (state == ON && atomic_load(&session.young))
		write_young();
	unlock_life(&old);
}

/* No writer: finish in place where the trace has its end already, else start one, without waiting for
 * it to come up; or, where no thread may be made (by whom, or before fork's event is recorded), do its
 * work here and now. */
static bool call_writer(void)
{
	uint32_t state = atomic_load(&session.state);
	uint32_t forking = pfw_thread.forking;

	if (state == ENDED)
		return !finish_again();
	if (state != ON)
		return false;
	/* A thread that has its first ring has nothing in it. */
	if (atomic_load(&session.young))
		return pfw_ring_wanted() || !pfw_writer_drain(&session.writer);
	if (forking == PFW_FORK_BEGINS && !atomic_load(&session.writer.on_duty))
		return true;
	if (!atomic_load(&session.writer.on_duty) && (forking || pfw_writer_start(&session.writer)))
		return !pfw_writer_drain(&session.writer);
	return pfw_writer_wake(&session.writer);
}

/* So that a thread without a ring does not ask with each of its events. */
#define NO_RINGS_PAUSE_NS 100000000ull

/* Threads that have a ring go on; the events of others are counted as lost. */
static bool no_memory(void)
{
	if (pfw_ring_first()) {
		atomic_store(&session.no_rings_ns,
			     pfw_clock_ns(CLOCK_MONOTONIC) + NO_RINGS_PAUSE_NS);
		return false;
	}
	atomic_store(&session.writer.dead, 1);
	writer_failed();
	pfw_say("no memory for events (spool directory full?): nothing is recorded; set "
		"PFW_SPOOL_DIR to a directory with room");
	return false;
}

static bool wake(void)
{
	bool awake = pfw_writer_wake(&session.writer), wanted = pfw_ring_wanted() != 0;
	int error = errno;
	bool rings = true;
	sigset_t old;

	if (wanted && !pfw_thread.ring && atomic_load(&session.no_rings_ns) &&
	    pfw_clock_ns(CLOCK_MONOTONIC) < atomic_load(&session.no_rings_ns))
		return false;
	if ((awake && !wanted) || atomic_load(&session.writer.stalled) ||
	    atomic_load(&session.writer.dead) || !lock_life(&old))
		return awake;
	if (wanted && pfw_writer_make_rings(&session.writer))
		rings = no_memory();
	/* Who has a ring goes on. */
	awake = call_writer() && (rings || pfw_thread.ring);
	unlock_life(&old);
	errno = error;
	return awake;
}

static void thread_died(void *unused)
{
	struct pfw_ring *ring = pfw_thread.ring;

	(void)unused;
	pfw_nvtx_thread_died();
	if (!ring)
		return;
	/* Let go before it may be another's: a handler here gets a ring of its own. */
	ring->spans = pfw_thread.spans;
	pfw_thread.live = 0;
	pfw_thread.ring = NULL;
	atomic_signal_fence(memory_order_seq_cst);
	pfw_ring_release(ring);
}

static void thread_born(void)
{
	pthread_setspecific(session.thread_key, pfw_thread.ring);
}

static bool recorded(void)
{
	return atomic_load_explicit(&pfw_live->born, memory_order_relaxed) &&
	       atomic_load(&session.state) == ON && pfw_ring_first();
}

/* ---- the schedule ---- */

static bool stepper_ready(void)
{
	return atomic_load_explicit(&pfw_live->born, memory_order_relaxed) &&
	       atomic_load(&session.state) == ON && !session.stopped;
}

/* While nothing is recorded no event calls the writer's thread, and it alone hears requests, the clock
 * and the process that this one follows: it is there, and stays. */
static bool needs_writer(void)
{
	return session.paused || session.config.plan.kind != PFW_PLAN_ALWAYS ||
	       session.config.counters_ns || session.config.torch_ops ||
	       pfw_torch_steps(&session.config);
}

static void keep_writer(void)
{
	sigset_t old;

	atomic_store(&session.writer.stay, needs_writer());
	/* The thread itself may be on its way home, and waited for by who holds the lock. */
	if (!atomic_load(&session.writer.stay) || atomic_load(&session.writer.on_duty) ||
	    pfw_writer_is_here(&session.writer) || atomic_load(&session.writer.dead) ||
	    !lock_life(&old))
		return;
	if (atomic_load(&session.state) == ON && !atomic_load(&session.writer.on_duty))
		pfw_writer_start(&session.writer);
	unlock_life(&old);
}

static void stepper_record(bool on)
{
	/* What was opened and closed while nobody looked. */
	if (on && session.paused)
		pfw_fd_table_reset();
	session.paused = !on;
	pfw_control_pause(&session.spool.header->control, !on);
	renew_words();
	keep_writer();
	pfw_cupti_switched(pfw_writer_is_here(&session.writer));
	if (!pfw_writer_is_here(&session.writer)) /* its tick does so anyway */
		pfw_torch_ops_listen();
}

static bool stepper_is_writer(void)
{
	return pfw_writer_is_here(&session.writer);
}

static void stepper_put(const struct pfw_compute *event)
{
	struct pfw_record record[4];
	unsigned slots = pfw_api_compute_record(record, PFW_ARRAY_LEN(record), event);

	if (!slots || pfw_writer_put(&session.writer, record, slots))
		pfw_ring_count_lost(PFW_LOST_WRITE, 1);
}

static struct pfw_steps_chunk *stepper_marks(void)
{
	return session.writer.steps ? session.writer.steps : pfw_writer_steps(&session.writer);
}

/* A writer's thread that was just about to go home is started again. */
static int flush_rings(uint64_t timeout_ns)
{
	int error = -ESRCH;

	for (unsigned tries = 0; tries < 3 && error == -ESRCH; tries++) {
		if (!stepper_is_writer())
			wake();
		error = pfw_writer_flush(&session.writer, timeout_ns);
	}
	return error;
}

static bool stepper_drain(void)
{
	grow_up();
	return (stepper_is_writer() || wake()) && !flush_rings(1000000000);
}

static int stepper_segment(struct pfw_segment *segment)
{
	sigset_t old;
	int error;

	/* Who holds `life` may be waiting for the thread to go home. */
	if (stepper_is_writer())
		return pfw_writer_segment(&session.writer, segment);
	pfw_cupti_flush(false);
	if (!lock_life(&old))
		return -EBUSY;
	error = pfw_writer_segment(&session.writer, segment);
	unlock_life(&old);
	return error;
}

/* ---- the counters ---- */

static void counters_put(const struct pfw_record *record, unsigned slots)
{
	if (pfw_writer_put(&session.writer, record, slots))
		pfw_ring_count_lost(PFW_LOST_WRITE, 1);
}

/* NVML keeps descriptors open, which must be in no table but ours. */
static bool counters_gpu(void)
{
	return session.config.gpu && session.writer.worker.known &&
	       !atomic_load(&pfw_hidden_shared);
}

static unsigned counters_threads(void)
{
	return atomic_load(&session.writer.threads) + pfw_cupti_threads();
}

static void set_up_counters(uint16_t template)
{
	const struct pfw_counters_host host = { template, counters_put, counters_gpu,
						counters_threads };

	pfw_counters_init(&host, session.config.counters_ns);
	pfw_nvml_init(pfw_config_lookup(session.identity.environ, "CUDA_VISIBLE_DEVICES"));
}

/* As long as events are recorded. */
static void tick_counters(uint64_t *nap_ns)
{
	uint64_t word = atomic_load_explicit(&pfw_live->api, memory_order_relaxed), next_ns;

	next_ns = pfw_counters_tick(pfw_live_records() &&
				    !(word & (PFW_LIVE_ENDED | PFW_LIVE_LIMIT)));
	if (next_ns && (!*nap_ns || next_ns < *nap_ns))
		*nap_ns = next_ns;
}

static void set_up_stepper(void)
{
	const struct pfw_identity *id = &session.identity;
	const struct pfw_spool_header *leader = NULL;

	pfw_stepper_host = (struct pfw_stepper_host){
		stepper_ready, stepper_record, stepper_is_writer, stepper_put,
		stepper_marks, stepper_drain,  stepper_segment,
	};
	if (id->leader.pid)
		leader = pfw_spool_watch(&id->dirs, id->uid, id->leader.pid, id->leader.start_time);
	pfw_stepper_begin(&session.config.plan, leader, session.config.step != NULL);
	keep_writer();
}

/* ---- start ---- */

/* Once: the library's constructor, the preload object and pfw_start() each try to begin. */
static void say_config(void *user, const char *line)
{
	(void)user;
	pfw_say_quiet(session.config.quiet); /* known before the first line */
	if (!session.told)
		pfw_say(line);
}

static void say_bad_name(int error, const char *word)
{
	char line[512];
	struct pfw_text text;

	pfw_text_init(&text, line, sizeof(line));
	pfw_text_add(&text, "DFTRACER_LOG_FILE: the trace's name ");
	if (error == -ENAMETOOLONG) {
		pfw_text_add(&text, "is too long (a file's takes 255 bytes, its path 4095)");
	} else if (*word) {
		pfw_text_add(&text, "has no word ");
		pfw_text_add(&text, word);
		pfw_text_add(&text, "; it takes %p %h %r %j %q{VAR} %%");
	} else {
		pfw_text_add(&text, "is empty");
	}
	pfw_text_add(&text, "; nothing is recorded under it");
	say_config(NULL, line);
}

static bool have_gzip(void)
{
	if (!session.gzip && pfw_gzip_open(&session.gzip))
		pfw_say("neither libisal.so.2 nor libz.so.1 can be loaded: the trace is not "
			"compressed");
	return session.gzip;
}

/*
 * The name that the trace should have now, and whether it is compressed: as the suffix says while
 * nothing is encoded, and from then on the suffix says what is in the file.
 */
static int find_name(char *path, bool *compressed)
{
	bool asked, can;
	int error = pfw_identity_trace(&session.identity, &session.config, path, &asked);

	if (error) {
		say_bad_name(error, path);
		return error;
	}
	can = asked && have_gzip();
	if (session.writer.ready)
		can = pfw_writer_compress(&session.writer, can ? session.gzip : NULL);
	if (asked && !can)
		path[strlen(path) - strlen(".gz")] = '\0';
	else if (!asked && can && strlen(path) + sizeof(".gz") <= PFW_PATH_MAX)
		memcpy(path + strlen(path), ".gz", sizeof(".gz"));
	*compressed = can;
	return 0;
}

/* What a trace is to be called. */
struct trace_name {
	char path[PFW_PATH_MAX];
	bool compressed;
};

static void fill_header(struct pfw_spool_header *header, void *user)
{
	const struct trace_name *name = user;
	const struct pfw_identity *id = &session.identity;

	header->ppid = id->process.ppid;
	header->start_ns = pfw_clock_ns(CLOCK_REALTIME);
	header->whole_us = session.config.whole_us;
	header->metadata = session.config.metadata;
	header->disable_tids = session.config.disable_tids;
	pfw_identity_header(id, header);
	strcpy(header->clock, pfw_clock_name());
	memcpy(header->version_text, PFW_VERSION, sizeof(PFW_VERSION));
	header->compressed = name->compressed;
	atomic_store(&header->control.paused, session.paused);
	memcpy(pfw_spool_trace_path(header), name->path, strlen(name->path) + 1);
}

static bool say_no_memory(void)
{
	say_config(NULL, "no memory (RLIMIT_AS, vm.max_map_count?): this process is not recorded");
	return false;
}

/* Spool, words and trace name of this process; the probes may run when it returns true. */
static bool make_process(const struct pfw_spool_header *parent)
{
	struct pfw_identity *id = &session.identity;
	struct trace_name name;
	struct pfw_spool_owner owner = {
		.uid = id->uid,
		.pid = id->process.pid,
		.start_time = id->process.start_time,
		.fill = fill_header,
		.user = &name,
	};

	if (!id->rank.recorded || find_name(name.path, &name.compressed))
		return false;
	if (session.writer.first_slots) /* an event is on its way */
		pfw_writer_first_bytes(&session.writer, &owner.made_bytes, &owner.mapped_bytes);
	/* In a namespace of its own it has a parent without a number. */
	if (parent && id->process.ppid == parent->pid)
		owner.pid_namespace = parent->pid_namespace;
	if (pfw_spool_create(&session.spool, &id->dirs, &owner))
		return say_no_memory();
	if (session.spool.heap)
		pfw_say("no directory for the spool (PFW_SPOOL_DIR, /dev/shm, TMPDIR, the trace's): "
			"events not yet written are lost if the process is killed");
	pfw_filter_set_trace(name.path);
	pfw_stepper_page(&session.spool.header->control);
	pfw_filter_count_into(session.spool.header->excluded);
	pfw_ring_host = (struct pfw_ring_host){
		.wake = wake,
		.header = session.spool.header,
		.stalled = &session.writer.stalled,
		.drop = session.config.on_full == PFW_ON_FULL_DROP,
	};
	session.writer.gzip = name.compressed ? session.gzip : NULL;
	return true;
}

/* While a library is waited for: its first events are lost, so find it soon. */
#define LOOK_NS 20000000ull
#define CUDA_LOOK_NS 100000000ull

static void wake_within(uint64_t ns)
{
	if (!session.writer.nap_ns || session.writer.nap_ns > ns)
		session.writer.nap_ns = ns;
}

/* The writer's thread, between two looks at the rings. */
static bool tick(void)
{
	if (session.attached)
		pfw_attach_look();
	pfw_stepper_tick(&session.writer.watch, &session.writer.nap_ns);
	tick_counters(&session.writer.nap_ns);
	if (pfw_torch_ops_tick())
		wake_within(LOOK_NS);
	if (session.writer.worker.known && pfw_cupti_tick()) /* it calls dlopen */
		wake_within(CUDA_LOOK_NS);
	/* It opens files of /proc, for which a table of the program's is no place: there, who ends the
	 * trace looks, once. */
	return session.io && !atomic_load(&pfw_hidden_shared) &&
	       pfw_unrecorded_look(session.spool.header->unrecorded, false);
}

static void set_up_writer(void)
{
	session.writer.spool = &session.spool;
	session.writer.templates = pfw_templates_make(&session.writer.templates_bytes);
	session.writer.flush_ns = session.config.flush_ns;
	session.writer.text_limit = session.config.write_buffer_bytes;
	session.writer.ring_max_bytes = session.config.ring_max_bytes;
	session.writer.sums = session.config.min_dur_ns != 0;
	session.writer.say = pfw_say;
	session.writer.idle = renew_words;
	session.writer.tick = tick;
	session.writer.source = &pfw_cupti_source;
	/* They look for a library with dlopen, and are asked for. */
	session.writer.worker.known =
		session.config.torch_ops || pfw_torch_steps(&session.config) ||
		(session.config.gpu & PFW_GPU_ASKED) ||
		(session.config.gpu && session.config.plan.kind == PFW_PLAN_RANGE) ||
		(session.config.gpu && session.config.counters_ns && pfw_nvml_driver());
	session.writer.leave = pfw_nvml_leave;
	session.writer.failed = writer_failed;
	session.writer.limited = limit_reached;
	session.writer.max_bytes = session.config.max_bytes;
}

/* False: there is no memory for it; at the start there is none at all then. */
static bool set_up_filter(void)
{
	const struct pfw_filter_python python = {
		.exe = session.identity.exe,
		.called = session.identity.called,
		.venv = pfw_config_lookup(session.identity.environ, "VIRTUAL_ENV"),
		.cwd = session.identity.cwd,
	};
	int error = pfw_filter_init(&session.config, &python);

	if (error == -E2BIG)
		pfw_say("DFTRACER_DATA_DIR has more than 64 directories, or 8 KiB of names: those "
			"at its end are not traced; name a directory above them");
	else if (error && atomic_load(&session.state) != FRESH)
		pfw_say("the files to trace cannot be changed once more (no memory, or more than "
			"31 times another list): those chosen before stay; give pfw_start() a "
			"list that it has had");
	return error != -ENOMEM;
}

static void set_up_calls(void)
{
	if (!pfw_select_init(&session.config) && !session.config.disable_io)
		say_config(NULL,
			   "PFW_CALLS, DFTRACER_DISABLE_POSIX and DFTRACER_DISABLE_STDIO leave "
			   "no call to record; `pfw calls` lists all");
}

/* Whether PFW_CHILDREN takes the processes that run this program: by the name of its file, or as it
 * was called (a script, a link). */
static bool is_wanted_child(void)
{
	const char *globs = session.config.children, *exe = strrchr(session.identity.exe, '/');
	char comm[16] = { 0 };

	if (!globs || pfw_text_same(globs, "all") || pfw_text_same(globs, "none"))
		return !globs || pfw_text_same(globs, "all");
	pfw_syscall6(SYS_prctl, 16 /* PR_GET_NAME */, (long)comm, 0, 0, 0, 0);
	return (exe && pfw_glob_list(globs, ',', exe + 1)) || pfw_glob_list(globs, ',', comm);
}

static void make_hooks(void);

/* Under a filter that refuses futex() a process may have no second thread: libc aborts it. */
static bool may_have_threads(void)
{
	static const uint32_t word;

	if (pfw_syscall6(SYS_futex, (long)&word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0) >= 0)
		return true;
	say_config(NULL, "nothing is recorded: the system refuses futex() (seccomp), without which "
			 "there is no thread to write a trace; allow it in the filter");
	return false;
}

/* Read the variables and make this process ready.  False: nothing will be recorded. */
static bool begin(bool asked)
{
	struct pfw_template_ids ids;
	bool filtered;

	pfw_config_read(&session.config, environ, NULL, NULL);
	if (!session.config.enable && asked && !session.config.enable_set)
		pfw_config_read_enabled(&session.config, environ, NULL, NULL);
	pfw_say_quiet(session.config.quiet);
	if (!session.config.enable) {
		pfw_config_read(&session.config, environ, say_config, NULL);
		return false;
	}
	if (!may_have_threads())
		return false;
	pfw_clock_init();
	pfw_identity_find(&session.identity, &session.config, environ);
	/* Once a run: its other processes have the same variables. */
	if (!session.identity.descendant && session.identity.rank.rank <= 0)
		pfw_config_read_enabled(&session.config, environ, say_config, NULL);
	session.children = is_wanted_child();
	if (session.identity.child && !session.children)
		return false;
	filtered = set_up_filter();
	set_up_calls();
	pfw_short_init(&session.config);
	set_up_writer();
	if (!filtered || !session.writer.templates || !make_live_page())
		return say_no_memory();
	if (!make_process(NULL))
		return false;
	ids = pfw_templates_ids();
	pfw_api_templates(&ids);
	pfw_api_steps(pfw_torch_steps(&session.config) ? NULL : session.config.step);
	set_up_counters(ids.api);
	pfw_torch_ops_init(&session.config);
	pfw_follow_init(&session.config, session.identity.environ, ids.untraced);
	pfw_cupti_init(&session.config, ids.pp);
	make_hooks();
	return true;
}

bool pfw_session_start(bool asked)
{
	uint32_t fresh = FRESH;

	if (atomic_load(&session.state) != FRESH)
		return atomic_load(&session.state) == ON;
	if (!begin(asked)) {
		session.told = true;
		atomic_compare_exchange_strong(&session.state, &fresh, asked ? OFF : FRESH);
		return false;
	}
	atomic_store(&session.state, ON);
	renew_words();
	set_up_stepper();
	return true;
}

/* ---- fork ---- */

static sigset_t fork_mask;

/* The writer is gone while the process forks: one thread fewer for those who count them, and no
 * lock of ours or libc's is held by a thread that the child will not have. */
static void fork_prepare(void)
{
	sigset_t old;

	if (atomic_load(&session.state) != ON || pfw_thread.vfork_child)
		return;
	pfw_thread.forking = lock_life(&old) ? PFW_FORK_ENDS : 0;
	if (!pfw_thread.forking)
		return;
	fork_mask = old; /* only now is it this thread's to set */
	session.forked_ns = 0;
	session.fork_ns = pfw_process_now();
	pfw_writer_hold(&session.writer);
	pfw_attach_hold();
	pfw_cupti_hold();
}

static void fork_parent(void)
{
	if (!pfw_thread.forking)
		return;
	pfw_thread.forking = 0;
	session.fork_ns = 0; /* who comes past our handlers is not told by it */
	pfw_cupti_release();
	pfw_attach_release(false);
	pfw_writer_release(&session.writer);
	renew_words();
	unlock_life(&fork_mask);
	if (atomic_load(&session.writer.stay))
		keep_writer();
}

static void fork_child(void)
{
	if (!pfw_thread.forking)
		return;
	pfw_thread.forking = 0;
	session.forked_ns = pfw_process_now();
	pfw_cupti_release();
	pfw_attach_release(true);
	atomic_store(&pfw_live->io, 0);
	atomic_store(&pfw_live->api, 0);
	atomic_store(&pfw_live->end, 0);
	atomic_store(&pfw_live->claimed, 0);
	atomic_store(&pfw_live->born, 0);
	atomic_store(&session.holder, 0);
	atomic_store(&session.life, 0);
	pfw_hidden_close();
	pthread_sigmask(SIG_SETMASK, &fork_mask, NULL);
}

/* First probe of a forked child, whichever way it was made: nothing of the parent's is touched. */
static void forked(void)
{
	uint32_t state = atomic_load(&session.state);
	bool wanted = state == ON || state == ENDED;
	const struct pfw_spool_header *parent = session.spool.heap ? NULL : session.spool.header;

	/* Its parent's page: the mapping is shared. */
	if (wanted && !session.children)
		atomic_fetch_add(&session.spool.header->excluded[PFW_EXCLUDED_CHILDREN], 1);
	atomic_store(&session.holder, 0);
	atomic_store(&session.life, 0);
	atomic_store(&session.words, 0);
	pfw_attach_release(true);
	session.told_unfinished = false;
	session.told_unrecorded = false;
	session.told_lost = 0;
	atomic_store(&session.limited, false);
	pfw_thread_forked();
	pfw_cupti_forked();
	pfw_torch_ops_forked();
	pfw_ring_forget_all();
	pfw_strings_forked();
	pfw_fd_table_forked();
	pfw_hidden_close();
	pfw_unrecorded_forked();
	pfw_writer_forget(&session.writer);
	/* Who waits gets a greater one. */
	session.writer.first_slots = session.config.on_full == PFW_ON_FULL_DROP ? 0 : CHILD_SLOTS;
	pfw_identity_forked(&session.identity, session.fork_ns, session.forked_ns);
	session.fork_ns = 0;
	/* An ended parent's child (forked by an exit handler) starts like any other. */
	if (wanted && session.children && make_process(parent))
		atomic_store(&session.state, ON);
	else
		atomic_store(&session.state, OFF);
	pfw_stepper_forked(parent);
	pfw_counters_forked();
	/* A thread that libc knows has more to do than to write; sums are written now and then. */
	atomic_store(&session.young,
		     needs_writer() || session.writer.worker.known || session.writer.sums
			     ? 0
			     : YOUNG_EVENTS);
	renew_words();
	/* Last: other threads of the child wait for it. */
	atomic_store(&pfw_live->born, born());
	if (session.paused || session.config.counters_ns)
		keep_writer();
}

/* ---- elsewhere ---- */

/* The program is about to change its root, mounts or user: our files must be held before.  False:
 * the writer's thread shares what a namespace of mounts may not be changed under. */
static bool stay_behind(void)
{
	int error = 0;
	sigset_t old;

	if (!atomic_load_explicit(&pfw_live->born, memory_order_relaxed) ||
	    atomic_load(&session.state) != ON || pfw_thread.vfork_child || !lock_life(&old))
		return true;
	if (!atomic_load(&session.writer.dead))
		error = pfw_writer_anchor(&session.writer);
	unlock_life(&old);
	return !error;
}

/* The program asks for what only a process of one thread is given: be none, until it has it. */
static void be_gone(bool gone)
{
	if (!gone) {
		fork_parent();
		return;
	}
	if (atomic_load_explicit(&pfw_live->born, memory_order_relaxed) &&
	    atomic_load(&session.state) == ON)
		pfw_writer_weigh(&session.writer);
	fork_prepare();
}

static void user_changed(void)
{
	sigset_t old;

	if (!atomic_load_explicit(&pfw_live->born, memory_order_relaxed) ||
	    pfw_thread.vfork_child || !lock_life(&old))
		return;
	pfw_writer_follow_user(&session.writer);
	unlock_life(&old);
}

static void make_way(int fd)
{
	sigset_t old = block_signals();

	pfw_writer_make_way(&session.writer, fd);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* ---- end ---- */

static void say_losses(void)
{
	uint64_t lost = 0;

	for (unsigned i = 0; i < PFW_LOST_REASONS; i++)
		if (i != PFW_LOST_LIMIT) /* said when it was reached */
			lost += atomic_load(&session.spool.header->lost[i].count);
	if (lost > session.told_lost)
		pfw_say_number("", lost, " events were lost; the trace's `lost` lines say why");
	session.told_lost = lost;
}

static void say_unrecorded(void)
{
	const _Atomic uint64_t *unrecorded = session.spool.header->unrecorded;
	uint64_t operations = atomic_load(&unrecorded[PFW_UNRECORDED_OPERATIONS]);
	uint64_t rings = atomic_load(&unrecorded[PFW_UNRECORDED_RINGS]);
	uint64_t contexts = atomic_load(&unrecorded[PFW_UNRECORDED_CONTEXTS]);

	if (session.told_unrecorded)
		return;
	session.told_unrecorded = operations || rings || contexts;
	if (operations)
		pfw_say_number("", operations,
			       " operations went through io_uring, where no call is "
			       "seen: they are not in the trace (its `unrecorded` line)");
	else if (rings)
		pfw_say_number("", rings,
			       " rings of io_uring were used, where no call is seen: what "
			       "they did is not in the trace (its `unrecorded` line)");
	if (contexts)
		pfw_say_number("", contexts,
			       " contexts of AIO (libaio) were used, where no call is "
			       "seen: what they did is not in the trace (its `unrecorded` line)");
}

/* What may still come is written at once. */
static void remove_spool(void)
{
	pfw_writer_unlink_spool(&session.writer);
	session.spool.heap = true;
}

static void end_session(const char *reason, const char *exec_path, bool followed)
{
	sigset_t old;
	int error;

	if (!atomic_load_explicit(&pfw_live->born, memory_order_relaxed) ||
	    atomic_load(&session.state) != ON)
		return;
	/* Before the lock: who waits for it may hold CUPTI's. */
	if (exec_path)
		pfw_cupti_flush(true);
	else
		pfw_cupti_end(!session.stopped);
	if (!lock_life(&old))
		return;
	atomic_store(&session.state, ENDED);
	renew_words();
	pfw_writer_pause(&session.writer, false);
	if (session.io && session.writer.ready)
		pfw_unrecorded_look(session.spool.header->unrecorded, true);
	pfw_lines_profiled_lost(session.spool.header);
	error = pfw_writer_finish(&session.writer, reason, exec_path);
	if (!error) {
		atomic_store(&session.spool.header->state, PFW_SPOOL_DONE);
		/* A new start goes on with it; after a good exec the successor removes it.  After a
		 * failed one it may be gone: then only a kill's last moments are lost. */
		if ((!followed && !session.stopped) || !session.writer.ready)
			remove_spool();
		say_losses();
		say_unrecorded();
	} else if (!session.spool.heap && !atomic_load(&session.writer.dead) &&
		   !session.told_unfinished) {
		session.told_unfinished = true;
		pfw_say("the trace is not finished; when there is room, `pfw repair` completes it");
	}
	unlock_life(&old);
}

/* Before an exec or _exit(); at_exit() is for the others. */
static void end_now(const char *reason, const char *exec_path, bool followed)
{
	if (atomic_load_explicit(&pfw_live->born, memory_order_relaxed) &&
	    atomic_load(&session.state) == ON) {
		if (strcmp(reason, "exec"))
			pfw_stepper_end(false);
		else
			pfw_stepper_exec();
	}
	end_session(reason, exec_path, followed);
}

/* After a failed exec: the trace goes on, and so does its spool. */
static void resume_session(void)
{
	enum state going = ON;
	sigset_t old;

	if (atomic_load(&session.state) != ENDED || !lock_life(&old))
		return;
	if (session.writer.ready)
		atomic_store(&session.spool.header->state, PFW_SPOOL_LIVE);
	else if (!make_process(NULL)) /* it had nothing in it, so it was removed */
		going = OFF;
	session.writer.ended_at = 0;
	atomic_store(&session.state, going);
	renew_words();
	unlock_life(&old);
	if (going == ON)
		keep_writer();
}

/* Enabled means a trace or a printed reason. */
static void say_why_nothing(void)
{
	/* Under `pfw run` it is that which says so. */
	if (session.config.plan.kind == PFW_PLAN_RANGE && !session.identity.child &&
	    !session.config.run && !session.writer.ready && !pfw_stepper_ranged())
		pfw_say(pfw_cupti_was_used()
				? "nothing was recorded: PFW_SCHEDULE=range, and this program "
				  "never called cudaProfilerStart()"
				: "nothing was recorded: PFW_SCHEDULE=range, and this program "
				  "used no CUDA in which cudaProfilerStart() could be seen; "
				  "`pfw doctor` says what is missing");
	if (session.preloaded && session.config.init == PFW_INIT_FUNCTION && !session.io &&
	    !session.config.disable_io && !session.api_used && !session.identity.child &&
	    !session.writer.ready)
		pfw_say("nothing was recorded: DFTRACER_INIT is FUNCTION (the default) and the "
			"program never called pfw_start(); set DFTRACER_INIT=PRELOAD to trace it "
			"from its beginning");
}

static void at_exit(void)
{
	if (!atomic_load_explicit(&pfw_live->born, memory_order_relaxed) ||
	    atomic_load(&session.state) == FRESH)
		return;
	if (atomic_load(&session.state) == ON) {
		pfw_cupti_exits();
		say_why_nothing();
	}
	pfw_stepper_end(false);
	end_session("exit", NULL, false);
	/* Kept for a start that has not come, or of a trace that could never be written: said. */
	if (session.stopped || atomic_load(&session.writer.dead))
		pfw_writer_unlink_spool(&session.writer);
}

static void make_hooks(void)
{
	pfw_probe_host = (struct pfw_probe_host){
		.forked = forked,
		.straight = straight,
		.recorded = recorded,
		.end = end_now,
		.resume = resume_session,
		.thread_born = thread_born,
		.stay_behind = stay_behind,
		.user_changed = user_changed,
		.be_gone = be_gone,
		.make_way = make_way,
		.step = pfw_stepper_named,
		.range = pfw_stepper_range,
	};
	if (session.hooks)
		return;
	session.hooks = true;
	pthread_key_create(&session.thread_key, thread_died);
	pthread_atfork(fork_prepare, fork_parent, fork_child);
	at_quick_exit(at_exit);
}

__attribute__((destructor)) static void library_unloaded(void)
{
	at_exit();
}

/* ---- the I/O probes ---- */

/* The program's calls lead through the preload object, or are led to the wrappers here. */
static void probe_io(void)
{
	sigset_t old;

	if (!session.preloaded && !session.attached && !pfw_attach_preload_ask() && !pfw_attach() &&
	    lock_life(&old)) {
		/* From now on a thread that libc knows: the looks at what is loaded are its. */
		pfw_writer_pause(&session.writer, true);
		session.writer.worker.known = true;
		session.attached = true;
		renew_words();
		unlock_life(&old);
	}
	session.io = (session.preloaded || session.attached) && !session.config.disable_io;
}

/* A program that links the recorder; where it is the preload object that has loaded us, the rest is
 * its business. */
__attribute__((constructor)) static void library_loaded(void)
{
	int error = errno;

	if (pfw_session_start(false) && session.config.init == PFW_INIT_PRELOAD &&
	    !pfw_attach_preload_there()) {
		probe_io();
		renew_words();
	}
	errno = error;
}

int pfw_preload_attach(const struct pfw_preload *preload)
{
	int error = pfw_attach_preload(preload);

	if (error)
		return error;
	if (!pfw_session_start(preload->asked))
		return 0;
	pfw_attach_wrappers(preload);
	session.preloaded = true;
	session.io = !session.config.disable_io &&
		     (preload->asked || session.config.init == PFW_INIT_PRELOAD);
	renew_words();
	return 0;
}

/* The driver calls it at the end of its initialisation, in the library that CUDA_INJECTION64_PATH
 * names: this one. */
PFW_API int InitializeInjection(void);

int InitializeInjection(void)
{
	int error = errno;

	if (atomic_load(&session.state) == ON)
		pfw_cupti_injected();
	errno = error;
	return 1;
}

/* Each copy of NVTX's header calls it at its first use, in the library that NVTX_INJECTION64_PATH
 * names: this one.  0: there is no tool. */
PFW_API int InitializeInjectionNvtx2(pfw_nvtx_export *export);

int InitializeInjectionNvtx2(pfw_nvtx_export *export)
{
	uint32_t state = atomic_load(&session.state);

	return (state == ON || state == ENDED) && session.config.nvtx && pfw_nvtx_attach(export);
}

/* ---- pfw.h ---- */

/* Move the trace to the name that the identity now gives. */
static int rename_trace(void)
{
	char path[PFW_PATH_MAX];
	bool compressed;
	sigset_t old;
	int error;

	if (!lock_life(&old))
		return -EBUSY;
	pfw_writer_pause(&session.writer, false);
	error = find_name(path, &compressed);
	if (error) {
		renew_words();
		unlock_life(&old);
		return error;
	}
	session.writer.gzip = compressed ? session.gzip : NULL;
	session.spool.header->compressed = compressed;
	session.spool.header->whole_us = session.config.whole_us;
	pfw_identity_header(&session.identity, session.spool.header);
	error = pfw_writer_rename(&session.writer, path);
	pfw_filter_set_trace(pfw_spool_trace_path(session.spool.header));
	renew_words();
	unlock_life(&old);
	keep_writer();
	return error;
}

/* Other files from now on; threads that are at work have been told by the old filter or by the new. */
static int take_data_dir(const char *text)
{
	static char data_dir[4096];
	size_t bytes = strlen(text);
	sigset_t old;

	if (!bytes || bytes >= sizeof(data_dir)) {
		pfw_say("pfw_start: options.data_dir is empty or longer than 4095 bytes");
		return -EINVAL;
	}
	if (!lock_life(&old))
		return -EBUSY;
	memcpy(data_dir, text, bytes + 1);
	session.config.data_dir = data_dir;
	set_up_filter();
	pfw_fd_table_reset();
	unlock_life(&old);
	return 0;
}

/* The options as variables would have given them.  What they point to is copied. */
static int take_options(const struct pfw_options *options)
{
	char base[sizeof(session.identity.base)];
	uint64_t hash = session.identity.base_hash;
	int error;

	if (!options)
		return 0;
	if (options->bytes < sizeof(*options)) {
		pfw_say("pfw_start: options.bytes is not sizeof(struct pfw_options): set it");
		return -EINVAL;
	}
	if (options->data_dir) {
		error = take_data_dir(options->data_dir);
		if (error)
			return error;
	}
	if (options->compression)
		session.config.compression = options->compression > 0;
	if (options->whole_us)
		session.config.whole_us = true;
	if (options->log_file && !*options->log_file) {
		pfw_say("pfw_start: options.log_file is empty: give a name or NULL");
		return -EINVAL;
	}
	if (!options->log_file || session.config.keep_name)
		return options->compression || options->whole_us ? rename_trace() : 0;
	memcpy(base, session.identity.base, sizeof(base));
	pfw_identity_set_base(&session.identity, options->log_file);
	/* Programs that this one runs know the variable only: by its hash they are our children. */
	session.identity.base_hash = hash;
	error = rename_trace();
	if (error)
		memcpy(session.identity.base, base, sizeof(base));
	return error;
}

int pfw_start(const struct pfw_options *options)
{
	int keep = errno, error;

	if (!pfw_session_start(true) && atomic_load(&session.state) != ENDED)
		return 0;
	error = take_options(options);
	if (error == -EINVAL) {
		errno = keep;
		return error; /* said; what was on stays on, what was off stays off */
	}
	/* What was opened and closed while nobody looked. */
	if (session.stopped || !session.io)
		pfw_fd_table_reset();
	session.stopped = false;
	if (atomic_load(&session.state) == ENDED)
		resume_session();
	probe_io();
	session.api_used = true;
	renew_words();
	pfw_cupti_started();
	errno = keep;
	return error;
}

int pfw_stop(void)
{
	int keep = errno;

	if (atomic_load(&session.state) == ON) {
		pfw_stepper_end(true);
		session.stopped = true;
		end_session("exit", NULL, false);
		renew_words();
		if (session.attached)
			pfw_detach();
		session.attached = false;
	}
	errno = keep;
	return 0;
}

int pfw_flush(void)
{
	int keep = errno, error = 0;

	if (recorded() && !session.stopped) {
		grow_up();
		pfw_cupti_flush(false);
		error = flush_rings(10000000000ull);
	}
	errno = keep;
	return error;
}

int pfw_set_rank(int rank, int world_size)
{
	int keep = errno, error;

	if (rank < 0 || world_size < 1 || rank >= world_size)
		return -EINVAL;
	if (atomic_load(&session.state) != ON)
		return 0;
	pfw_identity_set_rank(&session.identity, &session.config, rank, world_size);
	session.writer.rank_late = true;
	error = rename_trace();
	if (!session.identity.rank.recorded)
		pfw_stop(); /* PFW_RANKS leaves it out, which could not be known before */
	errno = keep;
	return error;
}

int pfw_stats(struct pfw_stats *stats)
{
	const struct pfw_spool_header *header = session.spool.header;
	const char *path;

	if (!stats || stats->struct_bytes < sizeof(*stats))
		return -EINVAL;
	memset(stats, 0, sizeof(*stats));
	stats->struct_bytes = sizeof(*stats);
	if (!header)
		return 0;
	stats->events = atomic_load(&session.writer.events);
	stats->trace_bytes = atomic_load(&session.writer.trace_bytes);
	stats->waits = atomic_load(&header->waited.count);
	stats->waited_ns = atomic_load(&header->waited.last_ns);
	for (unsigned i = 0; i < PFW_LOST_REASONS; i++)
		stats->lost += atomic_load(&header->lost[i].count);
	stats->enabled = atomic_load(&session.state) == ON;
	path = (const char *)header + PFW_PAGE_BYTES;
	if (atomic_load(&header->file_made))
		memcpy(stats->path, path, strnlen(path, sizeof(stats->path) - 1));
	return 0;
}

const char *pfw_version(void)
{
	return PFW_VERSION;
}
