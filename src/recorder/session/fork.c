/* recorder/session/fork.c - fork, and calls that could cut the writer off from its files. */
#include "common/base/os.h"
#include "recorder/attach/attach.h"
#include "recorder/gpu/cupti.h"
#include "recorder/guest/own_fds.h"
#include "recorder/guest/stack.h"
#include "recorder/marks/torch_ops.h"
#include "recorder/sample/counters.h"
#include "recorder/session/internal.h"
#include "recorder/session/stepper.h"
#include "recorder/spool/ring.h"
#include "recorder/spool/stacks.h"
#include "recorder/spool/strings.h"
#include "recorder/wrap/unrecorded.h"

#define CHILD_SLOTS 64u /* one page */

static uint64_t fork_mask;

/* The writer's thread ends before the fork: programs that count their threads see one fewer, and no
 * thread that the child lacks holds a lock of ours or libc's. */
void pfw_session_fork_prepare(void)
{
	uint64_t old;

	if (atomic_load(&pfw_session.state) != ON || pfw_thread.vfork_child)
		return;
	pfw_thread.forking = pfw_session_lock(&old) ? PFW_FORK_ENDS : 0;
	if (!pfw_thread.forking)
		return;
	fork_mask = old; /* the lock makes fork_mask this thread's */
	pfw_session.forked_ns = 0;
	pfw_session.fork_ns = pfw_process_now();
	pfw_writer_hold(&pfw_session.writer);
	pfw_attach_hold();
	pfw_cupti_hold();
}

void pfw_session_fork_parent(void)
{
	if (!pfw_thread.forking)
		return;
	pfw_thread.forking = 0;
	pfw_session.fork_ns = 0; /* A child made without atfork handlers must not use this time. */
	pfw_cupti_release();
	pfw_attach_release(false);
	pfw_writer_release(&pfw_session.writer);
	pfw_session_switch();
	pfw_session_unlock(fork_mask);
	if (atomic_load(&pfw_session.writer.stay))
		pfw_session_keep_writer();
}

void pfw_session_fork_child(void)
{
	if (!pfw_thread.forking)
		return;
	pfw_thread.forking = 0;
	pfw_session.forked_ns = pfw_process_now();
	pfw_cupti_release();
	pfw_attach_release(true);
	atomic_store(&pfw_switches->io, 0);
	atomic_store(&pfw_switches->api, 0);
	atomic_store(&pfw_switches->end, 0);
	atomic_store(&pfw_switches->claimed, 0);
	atomic_store(&pfw_switches->born, 0);
	atomic_store(&pfw_session.holder, 0);
	atomic_store(&pfw_session.life, 0);
	pfw_own_fds_close();
	pfw_os_restore_signals(fork_mask);
}

static void set_up_child(void *unused)
{
	uint32_t state = atomic_load(&pfw_session.state);
	bool wanted = state == ON || state == ENDED;
	const struct pfw_spool_header *parent = pfw_session.spool.heap ? NULL
								       : pfw_session.spool.header;

	(void)unused;
	pfw_session.forked = true;
	/* The child counts in the parent's spool, because the mapping is shared. */
	if (wanted && !pfw_session.children)
		atomic_fetch_add(&pfw_session.spool.header->excluded[PFW_EXCLUDED_CHILDREN], 1);
	atomic_store(&pfw_session.holder, 0);
	atomic_store(&pfw_session.life, 0);
	atomic_store(&pfw_session.switching, 0);
	pfw_attach_release(true);
	pfw_session.unfinished_reported = false;
	pfw_session.unrecorded_reported = false;
	pfw_session.lost_reported = 0;
	atomic_store(&pfw_session.limited, false);
	pfw_thread_forked();
	pfw_cupti_forked();
	pfw_torch_ops_forked();
	pfw_ring_forget_all();
	pfw_strings_forked();
	pfw_stacks_use(NULL);
	pfw_fd_table_forked();
	pfw_own_fds_close();
	pfw_unrecorded_forked();
	pfw_writer_forget(&pfw_session.writer);
	/* A thread that finds this small ring full gets a larger one; with drop it would lose
	 * events. */
	pfw_session.writer.first_slots =
		pfw_session.config.on_full == PFW_ON_FULL_DROP ? 0 : CHILD_SLOTS;
	pfw_identity_forked(&pfw_session.identity, pfw_session.fork_ns, pfw_session.forked_ns);
	pfw_session.fork_ns = 0;
	/* A child forked by an exit handler, after the end of the trace, starts like any other. */
	if (wanted && pfw_session.children && pfw_session_make_process(parent))
		atomic_store(&pfw_session.state, ON);
	else
		atomic_store(&pfw_session.state, OFF);
	pfw_stepper_forked(parent);
	pfw_counters_forked();
	pfw_session_dumps_forked();
	pfw_session_begin_direct();
	pfw_session_switch();
}

/* The first probe of a forked child runs this, however the child was made.  It changes nothing of
 * the parent's. */
void pfw_session_forked(void)
{
	pfw_own_stack_run(set_up_child, NULL);
	/* Last: other threads of the child wait for it, before they may use that stack. */
	atomic_store(&pfw_switches->born, pfw_session_born());
	if (pfw_session.paused || pfw_session.config.counters_ns)
		pfw_session_keep_writer();
}

static void anchor(void *error)
{
	if (!atomic_load(&pfw_session.writer.dead))
		*(int *)error = pfw_writer_anchor(&pfw_session.writer, false);
}

/* The program is about to change its root, mounts or user, so our files must be open before.
 * False: the writer's thread shares the root, and unshare(CLONE_NEWNS) would fail. */
bool pfw_session_stay_behind(void)
{
	int error = 0;

	if (pfw_session_is_on() && !pfw_thread.vfork_child)
		pfw_session_do(anchor, &error);
	return !error;
}

static void hold_files(void *unused)
{
	(void)unused;
	if (!atomic_load(&pfw_session.writer.dead))
		pfw_writer_anchor(&pfw_session.writer, pfw_session.io || pfw_session.api_used);
}

/* A sandbox keeps the writer's thread from opening the trace later, so it exists from here on. */
void pfw_session_hold_files(void)
{
	if (pfw_session_is_on() && !pfw_thread.vfork_child)
		pfw_session_do(hold_files, NULL);
}

/* The program makes a call that only a single-threaded process may make: end the thread until it
 * returns. */
void pfw_session_be_gone(bool gone)
{
	if (!gone) {
		pfw_session_fork_parent();
		return;
	}
	if (pfw_session_is_on())
		atomic_store(&pfw_session.writer.anchored, 0);
	pfw_session_fork_prepare();
}

static void follow_user(void *unused)
{
	(void)unused;
	pfw_writer_follow_user(&pfw_session.writer);
}

void pfw_session_user_changed(void)
{
	if (pfw_session_is_set_up() && !pfw_thread.vfork_child)
		pfw_session_do(follow_user, NULL);
}

static void follow_rights(void *call)
{
	pfw_writer_follow_rights(&pfw_session.writer, call);
}

void pfw_session_rights_given_up(long number, const long *arg)
{
	struct pfw_rights_call call = { number, arg };

	if (pfw_session_is_set_up() && !pfw_thread.vfork_child)
		pfw_session_do(follow_rights, &call);
}

void pfw_session_make_way(int fd)
{
	uint64_t old = pfw_os_block_signals();

	pfw_writer_make_way(&pfw_session.writer, fd);
	pfw_os_restore_signals(old);
}
