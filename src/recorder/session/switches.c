/* recorder/session/switches.c - the lock of the session, and the words that switch the probes. */
#include "common/base/os.h"
#include "common/format/control.h"
#include "recorder/gpu/cupti.h"
#include "recorder/guest/stack.h"
#include "recorder/marks/torch_ops.h"
#include "recorder/probe/call_filter.h"
#include "recorder/session/internal.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

struct pfw_session pfw_session;

/* ---- the lock ---- */

bool pfw_session_lock(uint64_t *old)
{
	if (atomic_load(&pfw_session.holder) == pfw_os_gettid())
		return false;
	*old = pfw_os_block_signals();
	pfw_os_lock(&pfw_session.life);
	atomic_store(&pfw_session.holder, pfw_os_gettid());
	return true;
}

void pfw_session_unlock(uint64_t old)
{
	atomic_store(&pfw_session.holder, 0);
	pfw_os_unlock(&pfw_session.life);
	pfw_os_restore_signals(old);
}

bool pfw_session_do(void (*work)(void *arg), void *arg)
{
	int error = errno;
	uint64_t old;

	if (!pfw_session_lock(&old))
		return false;
	pfw_own_stack_run(work, arg);
	pfw_session_unlock(old);
	errno = error;
	return true;
}

/* ---- the words ---- */

enum row {
	SILENT,	 /* not started, failed, stopped, or ended during a pause of the schedule */
	WAITING, /* the schedule has paused recording */
	RECORDING,
	COMPLETING, /* the trace has its `end`; later events are appended */
};

/*
 * The words of pfw_switches by state: a generation that no thread has yet, or 0 if nothing is
 * recorded, and those of these flags that apply now (flags_now()).  io is 0 in every row if the I/O
 * probes are off.  `end` equals io, or is PFW_SWITCH_NOBODY if io is 0 or short calls are summed.
 */
static const struct {
	bool records;
	uint64_t io_flags, api_flags;
} rows[] = {
#define BOTH (PFW_SWITCH_LIMIT | PFW_SWITCH_STEPS)
	[SILENT] = { false, 0, 0 },
	[WAITING] = { false, 0, PFW_SWITCH_STEPS },
	[RECORDING] = { true, BOTH, BOTH | PFW_SWITCH_NO_WRITER },
	[COMPLETING] = { true, BOTH | PFW_SWITCH_ENDED,
			 BOTH | PFW_SWITCH_ENDED | PFW_SWITCH_NO_WRITER },
#undef BOTH
};

static enum row row_now(void)
{
	uint32_t state = atomic_load(&pfw_session.state);

	if ((state != ON && state != ENDED) || pfw_session.stopped)
		return SILENT;
	if (pfw_session.paused)
		return state == ON ? WAITING : SILENT;
	return state == ON ? RECORDING : COMPLETING;
}

static uint64_t flags_now(void)
{
	const struct pfw_config *config = &pfw_session.config;

	return PFW_SWITCH_ENDED | (atomic_load(&pfw_session.limited) ? PFW_SWITCH_LIMIT : 0) |
	       (config->step && !pfw_torch_steps(config) ? PFW_SWITCH_STEPS : 0) |
	       (atomic_load(&pfw_session.direct_left) ? PFW_SWITCH_NO_WRITER : 0);
}

/* The writer's thread calls this, too.  Without the lock it could undo the words of an exit.  The
 * lock is held for a few stores, by threads whose signals are blocked. */
void pfw_session_switch(void)
{
	uint64_t word, flags, io, old = pfw_os_block_signals();
	enum row row;

	while (atomic_exchange(&pfw_session.switching, 1))
		pfw_os_sleep_ns(1000);
	row = row_now();
	flags = flags_now();
	word = ++pfw_session.generation;
	if (!rows[row].records)
		word = 0;
	io = pfw_session.io ? word | (flags & rows[row].io_flags) : 0;
	atomic_store(&pfw_switches->io, io);
	atomic_store(&pfw_switches->end,
		     io && !pfw_short_ticks && !pfw_slow_ticks ? io : PFW_SWITCH_NOBODY);
	atomic_store(&pfw_switches->api, word | (flags & rows[row].api_flags));
	atomic_store(&pfw_session.switching, 0);
	pfw_os_restore_signals(old);
}

void pfw_session_record(bool on)
{
	/* Descriptors may have been opened and closed during the pause. */
	if (on && pfw_session.paused)
		pfw_fd_table_reset();
	pfw_session.paused = !on;
	pfw_control_pause(&pfw_session.spool.header->control, !on);
	pfw_session_switch();
	pfw_session_keep_writer();
	pfw_cupti_switched(pfw_writer_is_here(&pfw_session.writer));
	if (!pfw_writer_is_here(&pfw_session.writer)) /* the writer's tick does it anyway */
		pfw_torch_ops_listen();
}

uint64_t pfw_session_born(void)
{
	return pfw_session.identity.process.start_time << PFW_BORN_BITS |
	       (uint64_t)pfw_session.identity.process.pid;
}

bool pfw_session_make_switches(void)
{
	struct pfw_switches *page = pfw_os_map(4096);

	if (!page)
		return false;
	/* Kernels before 4.14 do not have it: there the atfork handler wipes the page. */
	pfw_os_madvise(page, 4096, MADV_WIPEONFORK);
	atomic_store(&page->born, pfw_session_born());
	/* Published after born is set: a page with born 0 means a forked child. */
	__atomic_store_n(&pfw_switches, page, __ATOMIC_RELEASE);
	return true;
}
