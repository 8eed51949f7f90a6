/* recorder/writer/thread.c - the thread of the writer: work lock, start, main loop, end. */
#include <stdalign.h>
#include <string.h>

#include "common/base/os.h"
#include "common/settings/process.h"
#include "recorder/guest/own_fds.h"
#include "recorder/spool/ring.h"
#include "recorder/writer/internal.h"

#define IDLE_NS 2000000000ull /* the thread ends after this long without records */
#define WATCH_NS 20000000ull  /* poll interval where the kernel has no futex_waitv() */

/* ---- the work lock ---- */

void pfw_writer_lock(struct pfw_writer *writer, struct pfw_writer_files *files)
{
	pfw_os_lock(&writer->work);
	writer->files = files;
}

void pfw_writer_unlock(struct pfw_writer *writer)
{
	writer->files = NULL;
	pfw_os_unlock(&writer->work);
}

/* ---- main loop ---- */

/* Sleep until the bell rings, the word that tick watches changes, or `ns` pass (0 = no limit). */
static void sleep_on(const struct pfw_watch *bell, const struct pfw_watch *watch, uint64_t ns)
{
	/* Asked once: Valgrind reports each call that it does not know. */
	static _Atomic bool refused;
	uint64_t end = pfw_clock_ns(CLOCK_MONOTONIC) + ns;
	struct timespec until = { (time_t)(end / 1000000000), (long)(end % 1000000000) };

	if (watch->word && !atomic_load(&refused)) {
		if (pfw_os_futex_wait_two(bell->word, bell->seen, watch->word, watch->seen,
					  ns ? &until : NULL) != -ENOSYS)
			return;
		atomic_store(&refused, true);
	}
	if (watch->word && (!ns || ns > WATCH_NS))
		ns = WATCH_NS;
	pfw_os_futex_wait_shared(bell->word, bell->seen, ns);
}

/* Sleep until there may be work; `rest`: nothing to flush.  False: the bell did not ring. */
static bool doze(struct pfw_writer *writer, uint32_t epoch, bool rest)
{
	struct pfw_control *control = control_of(writer);
	struct pfw_watch bell = { .word = (const uint32_t *)&control->bell };
	uint64_t ns = rest ? IDLE_NS : writer->flush_ns;

	if (writer->nap_ns && (!ns || writer->nap_ns < ns))
		ns = writer->nap_ns;
	atomic_store(&writer->sleeping, 1);
	bell.seen = atomic_load(&control->bell);
	if (atomic_load(&writer->thread_epoch) == epoch && pfw_ring_wanted() == 0 &&
	    !atomic_load(&writer->job) && pfw_control_wish(control) == PFW_WISH_NONE)
		sleep_on(&bell, &writer->watch, ns);
	atomic_store(&writer->sleeping, 0);
	return atomic_load(&control->bell) != bell.seen;
}

/* The exit status of the main thread if it is dead and ours is the only thread left, else -1.  Ours
 * must then end with the same status: the last thread's may become the status of the process. */
static int sole_status(void)
{
	char text[1024], *at;

	/* The command name may hold any byte; after its last ')' come state and numbers. */
	if (pfw_os_read_file("/proc/self/stat", text, sizeof(text)) <= 0 ||
	    !(at = strrchr(text, ')')) || at[1] != ' ' || at[2] != 'Z')
		return -1;
	/* num_threads (the dead one and ours) and exit_code of proc(5) */
	return pfw_process_word(at + 2, 17) == 2 ? (int)(pfw_process_word(at + 2, 49) >> 8 & 255)
						 : -1;
}

/* False: the thread should end, for the trace cannot be written, or there were no records for
 * IDLE_NS.  In the latter case every thread's next event first calls session, which starts the
 * thread again; one more pass finds records from before that. */
static bool work_once(struct pfw_writer *writer, uint64_t *idle_since)
{
	uint64_t now;

	writer->drained = 0;
	if (writer->ready)
		pfw_writer_pass(writer, true);
	else if (pfw_ring_wanted()) /* the program's threads may have no descriptor left */
		atomic_store(&writer->unready, pfw_writer_make_rings_now(writer, NULL));
	if (atomic_load(&writer->dead))
		return false;
	now = pfw_clock_ns(CLOCK_MONOTONIC);
	if (writer->drained || atomic_load(&writer->stalled))
		*idle_since = now;
	if (now - *idle_since <= IDLE_NS)
		return true;
	writer->idle();
	if (writer->ready)
		pfw_writer_pass(writer, true);
	*idle_since = now;
	return writer->drained != 0;
}

/* The argument is the writer, with the epoch at the thread's start in its low bits:
 * writer->thread_epoch may have changed by the time that the thread runs. */
#define EPOCH_MASK (alignof(struct pfw_writer) - 1)

static void writer_main(void *arg)
{
	struct pfw_writer *writer = (void *)((uintptr_t)arg & ~EPOCH_MASK);
	uint32_t epoch = (uint32_t)((uintptr_t)arg & EPOCH_MASK);
	uint64_t idle_since = pfw_clock_ns(CLOCK_MONOTONIC);
	struct pfw_writer_files own = PFW_NO_FILES;
	struct pfw_writer_files *files = &own;
	bool stay = true, rung = true, rest;
	int code = -1;

	pfw_syscall6(SYS_prctl, 15 /* PR_SET_NAME */, (long)"pfw-writer", 0, 0, 0, 0);
	own.own = own.grows = true;
	if (atomic_load(&pfw_own_fds_shared) || !pfw_writer_take_table())
		files = &writer->shared_files;
	files->waits = files != &own;
	atomic_store(&pfw_own_fds_shared, files != &own);
	writer->own_files = files;
	atomic_store(&writer->tid, pfw_os_gettid());
	while (stay) {
		pfw_writer_lock(writer, files);
		pfw_writer_run_job(writer);
		stay = atomic_load(&writer->thread_epoch) == epoch;
		rest = stay && !work_once(writer, &idle_since);
		code = !stay || rung || files != &own ? -1 : sole_status();
		if (code >= 0 ||
		    (rest && !atomic_load(&writer->anchored) && !atomic_load(&writer->stay))) {
			atomic_store(&writer->thread_wanted, 0);
			stay = false;
		}
		if (!stay)
			pfw_writer_close_files(writer);
		pfw_writer_unlock(writer);
		if (stay && writer->tick && writer->tick())
			idle_since = pfw_clock_ns(CLOCK_MONOTONIC);
		if (stay)
			rung = doze(writer, epoch, rest);
	}
	if (writer->leave)
		writer->leave();
	atomic_store(&writer->tid, 0);
	pfw_writer_leave_table();
	atomic_fetch_sub(&writer->threads, 1);
	if (code > 0)
		pfw_syscall6(SYS_exit, code, 0, 0, 0, 0, 0);
}

/* ---- start, wake, pause ---- */

/* The thread will share the program's table: open its files here.  It retries if that fails. */
static void open_for_thread(struct pfw_writer *writer)
{
	atomic_store(&pfw_own_fds_shared, 1);
	pfw_writer_lock(writer, &writer->shared_files);
	pfw_writer_open_spool(writer);
	pfw_writer_trace(writer);
	pfw_writer_unlock(writer);
}

int pfw_writer_start(struct pfw_writer *writer)
{
	uint32_t epoch = (atomic_load(&writer->thread_epoch) + 1) & EPOCH_MASK;
	void *arg = (void *)((uintptr_t)writer | epoch);
	int error;

	pfw_own_thread_join(&writer->worker);
	writer->shared_files = PFW_NO_FILES;
	writer->shared_files.high = writer->shared_files.grows = true;
	if (pfw_writer_table_refused())
		open_for_thread(writer);
	atomic_store(&writer->thread_epoch, epoch);
	atomic_fetch_add(&writer->threads, 1);
	/* Set before the start: the thread may end before this one continues (Ctrl-Z just now). */
	atomic_store(&writer->thread_wanted, 1);
	error = pfw_own_thread_start(&writer->worker, writer_main, arg);
	if (error) {
		atomic_store(&writer->thread_wanted, 0);
		atomic_fetch_sub(&writer->threads, 1);
	}
	return error;
}

bool pfw_writer_is_here(struct pfw_writer *writer)
{
	int32_t self = pfw_os_gettid(); /* a seccomp filter may refuse it */

	return self > 0 && atomic_load(&writer->tid) == self;
}

bool pfw_writer_wake(struct pfw_writer *writer)
{
	if (!atomic_load_explicit(&writer->thread_wanted, memory_order_relaxed))
		return false;
	if (atomic_load(&writer->sleeping))
		pfw_control_wake(control_of(writer));
	return !atomic_load(&writer->stalled) && !atomic_load(&writer->dead);
}

void pfw_writer_pause(struct pfw_writer *writer, bool join)
{
	if (atomic_load(&writer->anchored))
		return;
	atomic_store(&writer->thread_wanted, 0);
	atomic_store(&writer->thread_epoch, (atomic_load(&writer->thread_epoch) + 1) & EPOCH_MASK);
	pfw_control_wake(control_of(writer));
	/* The thread closes its files in the program's table before another thread opens them. */
	if (join || atomic_load(&pfw_own_fds_shared))
		pfw_own_thread_join(&writer->worker);
}
