/* recorder/session/wiring.c - sets every function pointer between rooms of the recorder.
 *
 * Rooms call upwards only through these pointers.  Each host is set once the code behind it may
 * run.  Callees without a file are below.
 *
 *   caller                        member                               callee
 *   probe    pfw_probe_host       forked, stay_behind, hold_files,
 *                                 user_changed, rights_given_up,
 *                                 be_gone, make_way                    fork.c
 *                                 write_direct                         direct.c
 *                                 confine                              confine.c
 *                                 why_untraced                         start.c
 *                                 recorded, thread_born
 *                                 end, resume, join                    end.c
 *                                 step, no_step, range                 stepper.c
 *                                 slow                                 dump.c
 *   spool    pfw_ring_host        wake                                 direct.c
 *   writer   struct pfw_writer    say                                  guest/say.c
 *                                 idle                                 switches.c
 *                                 tick, failed, limited
 *                                 leave                                sample/nvml.c
 *                                 source: next, figures                gpu_records/source.c
 *   sample   pfw_counters_host    put, gpu, threads
 *   libc     pthread_key_create   thread_died
 *            pthread_atfork       fork_prepare, _parent, _child        fork.c
 *            at_quick_exit        at_exit                              end.c
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "recorder/attach/attach.h"
#include "recorder/gpu/cupti.h"
#include "recorder/gpu_records/source.h"
#include "recorder/guest/own_fds.h"
#include "recorder/guest/say.h"
#include "recorder/marks/nvtx.h"
#include "recorder/marks/torch_ops.h"
#include "recorder/probe/mappings.h"
#include "recorder/sample/counters.h"
#include "recorder/sample/nvml.h"
#include "recorder/session/internal.h"
#include "recorder/session/stepper.h"
#include "recorder/spool/ring.h"
#include "recorder/wrap/unrecorded.h"

/* ---- threads ---- */

static void thread_died(void *unused)
{
	struct pfw_ring *ring = pfw_thread.ring;

	(void)unused;
	pfw_nvtx_thread_died();
	if (!ring)
		return;
	/* Detach first: a signal handler that records here gets another ring. */
	ring->spans = pfw_thread.spans;
	pfw_thread.live = 0;
	pfw_thread.ring = NULL;
	atomic_signal_fence(memory_order_seq_cst);
	pfw_ring_release(ring);
}

static void thread_born(void)
{
	if (pfw_session.keyed)
		pthread_setspecific(pfw_session.thread_key, pfw_thread.ring);
}

bool pfw_session_recorded(void)
{
	return pfw_session_is_on() && pfw_ring_first();
}

void pfw_session_wire_probes(void)
{
	pfw_probe_host = (struct pfw_probe_host){
		.forked = pfw_session_forked,
		.write_direct = pfw_session_write_direct,
		.recorded = pfw_session_recorded,
		.why_untraced = pfw_session_why_untraced,
		.end = pfw_session_end_now,
		.resume = pfw_session_resume,
		.join = pfw_session_join,
		.thread_born = thread_born,
		.stay_behind = pfw_session_stay_behind,
		.hold_files = pfw_session_hold_files,
		.user_changed = pfw_session_user_changed,
		.rights_given_up = pfw_session_rights_given_up,
		.confine = pfw_session_confine,
		.be_gone = pfw_session_be_gone,
		.make_way = pfw_session_make_way,
		.step = pfw_stepper_named,
		.no_step = pfw_stepper_none,
		.range = pfw_stepper_range,
		.slow = pfw_session_slow_call,
	};
	pfw_session_hook();
}

/* The program's threads hold addresses of ours from now on: dlclose() shall not unload us, unless
 * `pfw detach` does, which knows when that may be. */
static void pin(void)
{
	Dl_info here;

	pfw_session.pinned = dladdr((void *)pin, &here) && here.dli_fname;
	if (pfw_session.pinned)
		dlopen(here.dli_fname, RTLD_NOLOAD | RTLD_LAZY | RTLD_NODELETE);
}

void pfw_session_hook(void)
{
	if (pfw_session.hooks)
		return;
	pfw_session.hooks = true;
	if (!pfw_session.variables)
		pin();
	/* The program may have taken all keys; then rings of ended threads are not used again. */
	pfw_session.keyed = !pthread_key_create(&pfw_session.thread_key, thread_died);
	pthread_atfork(pfw_session_fork_prepare, pfw_session_fork_parent, pfw_session_fork_child);
	at_quick_exit(pfw_session_at_exit);
}

/* libc's calls for the start-up code of a library that ends: it forgets the hooks of this one. */
extern void *__dso_handle __attribute__((visibility("hidden")));
void __cxa_finalize(void *);

void pfw_session_unhook(void)
{
	if (!pfw_session.hooks)
		return;
	pfw_session.hooks = false;
	if (pfw_session.keyed)
		pthread_key_delete(pfw_session.thread_key);
	pfw_session.keyed = false;
	__cxa_finalize(&__dso_handle);
}

/* ---- the counters ---- */

static void counters_put(const struct pfw_record *record, unsigned slots)
{
	if (pfw_writer_put(&pfw_session.writer, record, slots))
		pfw_ring_count_lost(PFW_LOST_WRITE, 1);
}

/* NVML keeps descriptors open, which may be only in the thread's own table. */
static bool counters_gpu(void)
{
	return pfw_session.config.gpu && pfw_session.writer.worker.known &&
	       !atomic_load(&pfw_own_fds_shared);
}

static unsigned counters_threads(void)
{
	return atomic_load(&pfw_session.writer.threads) + pfw_cupti_threads();
}

/* Only while events are recorded. */
static void tick_counters(uint64_t *nap_ns)
{
	uint64_t word = atomic_load_explicit(&pfw_switches->api, memory_order_relaxed), next_ns;

	next_ns = pfw_counters_tick(pfw_switches_records() &&
				    !(word & (PFW_SWITCH_ENDED | PFW_SWITCH_LIMIT)));
	if (next_ns && (!*nap_ns || next_ns < *nap_ns))
		*nap_ns = next_ns;
}

void pfw_session_wire_counters(uint16_t template)
{
	const struct pfw_counters_host host = {
		.template = template,
		.put = counters_put,
		.gpu = counters_gpu,
		.threads = counters_threads,
	};

	pfw_counters_init(&host, pfw_session.config.counters_ns);
}

/* ---- the writer's thread ---- */

/* The reason has been printed.  Nothing is recorded any more, and nothing can be recovered. */
void pfw_session_writer_failed(void)
{
	atomic_store(&pfw_session.state, OFF);
	pfw_session_switch();
	pfw_spool_unlink(&pfw_session.spool);
}

/* From now on every event is counted as lost. */
static void limit_reached(void)
{
	atomic_store(&pfw_session.limited, true);
	pfw_session_switch();
	pfw_say("the trace has PFW_MAX_BYTES: recording stops; what comes is counted as lost");
}

/* How soon to look again for a library: events before it is found are lost. */
#define LOOK_NS 20000000ull
#define CUDA_LOOK_NS 100000000ull

static void wake_within(uint64_t ns)
{
	if (!pfw_session.writer.nap_ns || pfw_session.writer.nap_ns > ns)
		pfw_session.writer.nap_ns = ns;
}

/* Runs in the writer's thread between two passes over the rings. */
static bool tick(void)
{
	if (pfw_session.attached)
		pfw_attach_look();
	pfw_stepper_tick(&pfw_session.writer.watch, &pfw_session.writer.nap_ns);
	tick_counters(&pfw_session.writer.nap_ns);
	if (pfw_torch_ops_tick())
		wake_within(LOOK_NS);
	if (pfw_session.writer.worker.known && pfw_cupti_tick()) /* it calls dlopen */
		wake_within(CUDA_LOOK_NS);
	/* This look opens files in /proc, which must not appear in the program's descriptor table.
	 * If the thread shares that table, only the end of the trace looks. */
	return pfw_session.io && !atomic_load(&pfw_own_fds_shared) &&
	       pfw_unrecorded_look(pfw_session.spool.header->unrecorded, false);
}

void pfw_session_wire_writer(void)
{
	struct pfw_writer *writer = &pfw_session.writer;

	writer->say = pfw_say;
	writer->idle = pfw_session_switch;
	writer->tick = tick;
	writer->leave = pfw_nvml_leave;
	writer->failed = pfw_session_writer_failed;
	writer->limited = limit_reached;
	writer->mapping = pfw_mappings_next;
	writer->source = &pfw_cupti_source;
}

void pfw_session_wire_ring(void)
{
	pfw_ring_host = (struct pfw_ring_host){
		.wake = pfw_session_wake,
		.header = pfw_session.spool.header,
		.stalled = &pfw_session.writer.stalled,
		.drop = pfw_session.config.on_full == PFW_ON_FULL_DROP,
	};
}
