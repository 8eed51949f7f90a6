/* recorder/writer/in_place.c - jobs for threads of the program: rings, flush, anchor, fork. */
#include <stddef.h>
#include <string.h>

#include "common/base/os.h"
#include "recorder/guest/own_fds.h"
#include "recorder/writer/internal.h"

/* ---- running a job ---- */

static void run_now(struct pfw_writer *writer, struct pfw_job *job)
{
	writer->quiet_emfile = job->quiet_emfile;
	job->result = job->run(writer, job->arg);
	writer->quiet_emfile = false;
}

void pfw_writer_run_job(struct pfw_writer *writer)
{
	struct pfw_job *job = atomic_load(&writer->job);

	if (!job)
		return;
	run_now(writer, job);
	atomic_store(&writer->job, NULL); /* its memory may be gone from here on */
	atomic_fetch_add(&writer->jobs_done, 1);
	pfw_os_futex_wake((const uint32_t *)&writer->jobs_done, INT32_MAX);
}

/* Wait until the thread has run the job.  If the thread was about to end, start it again. */
static int send_job(struct pfw_writer *writer, struct pfw_job *job)
{
	uint32_t seen = atomic_load(&writer->jobs_done);

	atomic_store(&writer->job, job);
	while (atomic_load(&writer->job)) {
		int error = atomic_load(&writer->thread_wanted) ? 0 : pfw_writer_start(writer);

		if (error) {
			atomic_store(&writer->job, NULL);
			return error;
		}
		pfw_control_wake(control_of(writer));
		pfw_os_futex_wait((const uint32_t *)&writer->jobs_done, seen, 10000000);
	}
	return job->result;
}

/* The caller is the writer's thread, in its tick. */
static int run_with_thread_files(struct pfw_writer *writer, struct pfw_job *job)
{
	pfw_writer_lock(writer, writer->own_files);
	run_now(writer, job);
	pfw_writer_unlock(writer);
	return job->result;
}

int pfw_writer_run(struct pfw_writer *writer, struct pfw_job *job, bool grows)
{
	struct pfw_writer_files files = PFW_NO_FILES;

	if (pfw_writer_is_here(writer))
		return run_with_thread_files(writer, job);
	if (atomic_load(&writer->anchored))
		return send_job(writer, job);
	files.grows = grows;
	pfw_writer_lock(writer, &files);
	run_now(writer, job);
	pfw_writer_close_files(writer);
	pfw_writer_unlock(writer);
	return job->result;
}

struct job_args {
	struct pfw_writer *writer;
	struct pfw_job *job;
};

static void run_with_own_table(void *arg)
{
	struct job_args *args = arg;
	struct pfw_writer_files files = PFW_NO_FILES;

	files.own = files.grows = pfw_writer_take_table();
	if (!files.own)
		return;
	pfw_writer_lock(args->writer, &files);
	args->job->result = args->job->run(args->writer, args->job->arg);
	pfw_writer_close_files(args->writer);
	pfw_writer_unlock(args->writer);
	pfw_writer_leave_table();
}

int pfw_writer_run_in_new_thread(struct pfw_writer *writer, struct pfw_job *job)
{
	struct job_args args = { writer, job };
	int error = pfw_own_thread_start(&writer->worker, run_with_own_table, &args);

	if (error)
		return error;
	pfw_own_thread_join(&writer->worker);
	return job->result;
}

/* ---- jobs ---- */

int pfw_writer_make_rings_now(struct pfw_writer *writer, void *unused)
{
	int error = pfw_writer_open_for_ring(writer);

	(void)unused;
	if (!error && !writer->ready)
		error = pfw_writer_make_ready(writer);
	if (error || pfw_writer_supply_rings(writer, PFW_WRITER_DEAD_RINGS_MAX))
		return error;
	error = pfw_writer_pass(writer, true);
	if (pfw_writer_supply_rings(writer, UINT32_MAX))
		return 0;
	/* A thread with a table of its own may yet empty rings of ended threads. */
	return error == -EMFILE ? error : -ENOSPC;
}

int pfw_writer_make_rings(struct pfw_writer *writer)
{
	struct pfw_job job = { .run = pfw_writer_make_rings_now, .quiet_emfile = true };
	int error = pfw_writer_run(writer, &job, true);

	/* The thread's next pass makes them, unless it has tried in vain. */
	if (error && error != -ENOSPC && atomic_load(&writer->thread_wanted))
		return writer->ready ? 0 : atomic_load(&writer->unready);
	return error == -EMFILE ? pfw_writer_run_in_new_thread(writer, &job) : error;
}

static int drain_now(struct pfw_writer *writer, void *unused)
{
	(void)unused;
	return writer->ready ? pfw_writer_pass(writer, true) : 0;
}

int pfw_writer_drain(struct pfw_writer *writer)
{
	struct pfw_job job = { .run = drain_now, .quiet_emfile = true };

	return pfw_writer_run(writer, &job, true);
}

int pfw_writer_pass_now(struct pfw_writer *writer, void *unused)
{
	writer->reported.sums_ns = 0; /* sums are due, too */
	return drain_now(writer, unused);
}

int pfw_writer_flush(struct pfw_writer *writer, uint64_t timeout_ns)
{
	uint64_t deadline = pfw_clock_ns(CLOCK_MONOTONIC) + timeout_ns;
	uint32_t seen = atomic_load(&writer->passes), now = seen;
	struct pfw_job job = { .run = pfw_writer_pass_now };
	int error = 0;

	if (pfw_writer_is_here(writer))
		return run_with_thread_files(writer, &job);
	atomic_store(&writer->flushing, 1);
	/* Two passes: the current one may have drained our ring already. */
	while (now - seen < 2) {
		if (!atomic_load(&writer->thread_wanted))
			error = -ESRCH;
		else if (pfw_clock_ns(CLOCK_MONOTONIC) > deadline)
			error = -ETIMEDOUT;
		if (error)
			break;
		pfw_control_wake(control_of(writer));
		pfw_os_futex_wait((const uint32_t *)&writer->passes, now, 10000000);
		now = atomic_load(&writer->passes);
	}
	atomic_store(&writer->flushing, 0);
	return error || !atomic_load(&writer->stalled) ? error : writer->last_error;
}

static int make_steps_now(struct pfw_writer *writer, void *unused)
{
	(void)unused;
	if (!writer->steps && (writer->ready || !pfw_writer_make_ready(writer)))
		writer->steps = pfw_writer_append(writer, PFW_CHUNK_STEPS, 0,
						  sizeof(struct pfw_steps_chunk));
	writer->json.steps = writer->steps;
	return 0;
}

struct pfw_steps_chunk *pfw_writer_steps(struct pfw_writer *writer)
{
	struct pfw_job job = { .run = make_steps_now };

	pfw_writer_run(writer, &job, true);
	return writer->steps;
}

struct single {
	const struct pfw_record *record;
	unsigned slots;
};

static int put_record_now(struct pfw_writer *writer, void *arg)
{
	const struct single *single = arg;

	if (!writer->ready && pfw_writer_make_ready(writer))
		return -ENOSPC;
	if (keeps(writer))
		return pfw_writer_keep_record(writer, single->record, single->slots) ? 0 : -ENOSPC;
	if (writer->at_limit || pfw_writer_make_room(writer))
		return -ENOSPC;
	pfw_writer_add_record(writer, single->record, single->slots);
	return 0;
}

int pfw_writer_put(struct pfw_writer *writer, const struct pfw_record *record, unsigned slots)
{
	struct single single = { record, slots };
	struct pfw_job job = { .run = put_record_now, .arg = &single };

	return pfw_writer_run(writer, &job, true);
}

static int unlink_spool(struct pfw_writer *writer, void *unused)
{
	(void)unused;
	pfw_spool_unlink(writer->spool);
	return 0;
}

void pfw_writer_unlink_spool(struct pfw_writer *writer)
{
	struct pfw_job job = { .run = unlink_spool };

	if (atomic_load(&writer->anchored))
		send_job(writer, &job);
	else
		pfw_spool_unlink(writer->spool);
}

/* Thread: drain.  Keep root, working directory and open files as they are now. */
static int drop_anchor(struct pfw_writer *writer, void *create)
{
	int error = (int)pfw_syscall6(SYS_unshare, 0x200 /* CLONE_FS */, 0, 0, 0, 0, 0);

	if (writer->files->own)
		pfw_writer_open_spool(writer);
	if (*(bool *)create && (writer->ready || !pfw_writer_make_ready(writer))) {
		pfw_writer_add_process_line(writer);
		pfw_writer_pass(writer, true);
	}
	if (atomic_load(&writer->spool->header->file_made))
		pfw_writer_trace(writer);
	return error ? -EPERM : 0;
}

int pfw_writer_anchor(struct pfw_writer *writer, bool create)
{
	struct pfw_job job = { .run = drop_anchor, .arg = &create };
	int error;

	atomic_store(&writer->anchored, 1);
	error = send_job(writer, &job);
	if (error && error != -EPERM)
		atomic_store(&writer->anchored, 0);
	return error;
}

/* ---- whose rights ---- */

/* setuid() of libc changes only the threads that libc knows. */
struct user {
	uint32_t uid[3], gid[3];
};

static int become(struct pfw_writer *writer, void *arg)
{
	const struct user *user = arg;

	(void)writer;
	pfw_syscall6(SYS_setgroups, 0, 0, 0, 0, 0, 0); /* our files are open already */
	pfw_syscall6(SYS_setresgid, user->gid[0], user->gid[1], user->gid[2], 0, 0, 0);
	return (int)pfw_syscall6(SYS_setresuid, user->uid[0], user->uid[1], user->uid[2], 0, 0, 0);
}

void pfw_writer_follow_user(struct pfw_writer *writer)
{
	struct user user;
	struct pfw_job job = { .run = become, .arg = &user };

	if (writer->worker.known || !atomic_load(&writer->thread_wanted))
		return;
	pfw_syscall6(SYS_getresuid, (long)&user.uid[0], (long)&user.uid[1], (long)&user.uid[2], 0,
		     0, 0);
	pfw_syscall6(SYS_getresgid, (long)&user.gid[0], (long)&user.gid[1], (long)&user.gid[2], 0,
		     0, 0);
	send_job(writer, &job);
}

static int give_up(struct pfw_writer *writer, void *arg)
{
	const struct pfw_rights_call *call = arg;
	bool landlock = call->number == PFW_SYS_LANDLOCK_RESTRICT_SELF;
	long first = call->arg[0], error;

	if (landlock) {
		/* The kernel requires no_new_privs of a thread without CAP_SYS_ADMIN. */
		pfw_syscall6(SYS_prctl, 38 /* PR_SET_NO_NEW_PRIVS */, 1, 0, 0, 0, 0);
		if (writer->files->own)
			first = pfw_own_fds_borrow((int)first);
	}
	error = landlock && first < 0 ? first
				      : pfw_syscall6(call->number, first, call->arg[1],
						     call->arg[2], call->arg[3], call->arg[4], 0);
	if (landlock && error)
		writer->say(
			"Landlock cannot be put on the writer's thread, as it is on the program's: "
			"docs/security.rst");
	if (landlock && writer->files->own && first >= 0)
		pfw_os_close((int)first);
	return (int)error;
}

void pfw_writer_follow_rights(struct pfw_writer *writer, struct pfw_rights_call *call)
{
	struct pfw_job job = { .run = give_up, .arg = call };

	if (atomic_load(&writer->thread_wanted))
		send_job(writer, &job);
}

/* ---- fork ---- */

void pfw_writer_hold(struct pfw_writer *writer)
{
	writer->held = atomic_load(&writer->anchored);
	if (!writer->held) {
		pfw_writer_pause(writer, true);
		return;
	}
	pfw_writer_lock(writer, &writer->shared_files);
}

void pfw_writer_release(struct pfw_writer *writer)
{
	if (writer->held)
		pfw_writer_unlock(writer);
	writer->held = false;
}

void pfw_writer_forget(struct pfw_writer *writer)
{
	size_t settings = offsetof(struct pfw_writer, first_slots);
	struct pfw_own_thread worker = { .known = writer->worker.known,
					 .memory = writer->worker.memory };
	uint32_t stay = atomic_load(&writer->stay);

	memset((char *)writer + settings, 0, sizeof(*writer) - settings);
	writer->worker = worker;
	atomic_store(&writer->stay, stay);
	atomic_store(&pfw_os_own_table, 0);
}

void pfw_writer_make_way(struct pfw_writer *writer, int fd)
{
	struct pfw_writer_files files = PFW_NO_FILES;

	pfw_writer_lock(writer, &files);
	pfw_own_fds_move(fd);
	pfw_writer_unlock(writer);
}
