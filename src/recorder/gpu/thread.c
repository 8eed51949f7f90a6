/* recorder/gpu/thread.c - our thread in processes that use a GPU: see thread.h.
 *
 * CUPTI hands over a buffer when the buffer is full or in a flush.  A flush waits for CUPTI's
 * locks, whose holder may wait for the writer (a full ring, a full buffer).  So the writer must not
 * flush: this thread does.
 */
#include "recorder/gpu/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "common/base/os.h"
#include "common/format/clock.h"
#include "recorder/gpu/cupti.h"
#include "recorder/gpu_records/buffers.h"
#include "recorder/guest/say.h"
#include "recorder/spool/ring.h"

#define FLUSH_BUFFERS 4u /* this many finished buffers do not wait for the next flush */
#define SOON_NS 2000000ull
#define LEAVE_WAIT_NS 1000000000ull
#define STACK_BYTES (256u * 1024u)

static struct {
	_Atomic uint32_t there;
	_Atomic uint32_t calling; /* the thread is inside CUPTI */
	_Atomic bool leave;	  /* the thread is to end without another call */
	const struct pfw_cupti_duties *duties;
} thread;

static void call_unless_leaving(void (*duty)(void))
{
	atomic_store(&thread.calling, 1);
	if (!atomic_load(&thread.leave))
		duty();
	atomic_store(&thread.calling, 0);
}

static uint64_t nap_ns(void)
{
	return thread.duties->hurries() || pfw_cupti_buffers_waiting() ? SOON_NS
								       : thread.duties->flush_ns;
}

static void *thread_main(void *arg)
{
	const struct pfw_cupti_duties *duties = thread.duties;
	uint64_t flushed_at = 0, now;

	atomic_store(&pfw_os_own_table_guest, arg ? pfw_os_gettid() : 0);
	pfw_syscall6(SYS_prctl, 15 /* PR_SET_NAME */, (long)"pfw-gpu", 0, 0, 0, 0);
	while (!atomic_load(&thread.leave)) {
		uint32_t seen = atomic_load(&pfw_cupti_bell);

		if (!duties->look())
			break;
		call_unless_leaving(duties->follow);
		now = pfw_clock_ns(CLOCK_MONOTONIC);
		if (now - flushed_at >= duties->flush_ns ||
		    pfw_cupti_buffers_waiting() >= FLUSH_BUFFERS) {
			call_unless_leaving(duties->flush);
			flushed_at = now;
			duties->look_around();
		}
		if (pfw_cupti_buffers_waiting() && pfw_ring_host.wake)
			pfw_ring_host.wake();
		pfw_os_futex_wait((const uint32_t *)&pfw_cupti_bell, seen, nap_ns());
	}
	atomic_store(&thread.there, 0);
	return NULL;
}

bool pfw_cupti_thread_start(const struct pfw_cupti_duties *duties)
{
	uint32_t none = 0;
	pthread_attr_t attr;
	pthread_t made;
	sigset_t all, old;
	/* The writer's thread makes it, so the new thread shares the writer's descriptor table. */
	bool guest = pfw_os_own_table == pfw_os_gettid();
	int error;

	atomic_store(&thread.leave, false);
	if (!atomic_compare_exchange_strong(&thread.there, &none, 1))
		return true;
	thread.duties = duties;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = pthread_create(&made, &attr, thread_main, guest ? &thread : NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (!error)
		return true;
	atomic_store(&thread.there, 0);
	pfw_say("no thread for the GPU's records (RLIMIT_NPROC?): they reach the trace when a "
		"buffer is full, and at the end");
	return false;
}

void pfw_cupti_thread_ring(void)
{
	atomic_fetch_add(&pfw_cupti_bell, 1);
	pfw_os_futex_wake((const uint32_t *)&pfw_cupti_bell, 1);
}

void pfw_cupti_thread_send_home(void)
{
	uint64_t deadline = pfw_clock_ns(CLOCK_MONOTONIC) + LEAVE_WAIT_NS;

	atomic_store(&thread.leave, true);
	pfw_cupti_thread_ring();
	while (atomic_load(&thread.calling) && pfw_clock_ns(CLOCK_MONOTONIC) < deadline)
		pfw_os_sleep_ns(100000);
}

unsigned pfw_cupti_threads(void)
{
	return atomic_load(&thread.there);
}

void pfw_cupti_thread_forget(void)
{
	atomic_store(&thread.there, 0);
	atomic_store(&thread.calling, 0);
}
