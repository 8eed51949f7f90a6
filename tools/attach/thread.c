/* tools/attach/thread.c - stops a thread at a safe point, and resumes it elsewhere: see thread.h. */
#include "attach/thread.h"

#include "attach/tracee.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/seccomp.h"
#include "common/format/clock.h"
#include "ui/cli.h"

#define STOP_NS 100000000ull	 /* for a stop to be reported */
#define RUN_NS 20000000ull	 /* for a running thread to come to a system call */
#define RUN_LATE_NS 200000000ull /* the same, if it may have to wait for a processor */
#define STEPS 64		 /* system calls that are looked at until the thread is let go */
#define WATCH_NS 500000000ull
#define SHORT_NS 100000ull /* a stop that needs no closer look */
#define NAP_NS 1000000
#define NAPS_MAX 100
#define MOMENT_NS 10000 /* in which the clock of a process that runs goes on */
#define SPIN_NS 300000	/* for a thread that runs to stop */
#define TURN_NS \
	500000 /* of the processor's time, until this thread lets the other one go, and rests */
#define SPARE_NS 300000000u
#define LOOK_MS 100 /* between two looks of the other process */

/* Values of the result register that the kernel, not libc, sees. */
enum { RESTARTSYS = -512, RESTARTNOINTR = -513, RESTARTNOHAND = -514, RESTART_BLOCK = -516 };

static struct user_regs_struct *registers_of(struct thread *thread)
{
	return (struct user_regs_struct *)thread->registers;
}

_Static_assert(sizeof(struct user_regs_struct) <= sizeof(((struct thread *)0)->registers), "room");

uint64_t thread_save_bytes(void)
{
	unsigned a, b = 0, c, d;

	/* OSXSAVE: the kernel has switched it on.  EBX of leaf 13: bytes for what is on now. */
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) ||
	    !__get_cpuid_count(13, 0, &a, &b, &c, &d))
		return 0;
	return (b + 63) & ~UINT64_C(63);
}

/* ---- the watch ---- */

/* The other process.  It is woken by time only: it would take the processor from this one. */
static void watch(pid_t command, int from, const _Atomic uint64_t *stopped_ns)
{
	struct pollfd in = { .fd = from, .events = POLLIN };

	while (poll(&in, 1, LOOK_MS) == 0) {
		uint64_t since = *stopped_ns;

		if (!since || pfw_clock_ns(CLOCK_MONOTONIC) - since < WATCH_NS)
			continue;
		kill(command, SIGKILL); /* its tracees go on by themselves */
		break;
	}
	_exit(0);
}

int thread_watch_begin(struct tracee *tracee)
{
	pid_t command = getpid();
	int ends[2] = { -1, -1 };
	sigset_t child;
	void *shared = mmap(NULL, sizeof(*tracee->stopped_ns), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	/* For await_news(), in all threads.  Ignored, it would not come. */
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	signal(SIGCHLD, SIG_DFL);
	tracee->stopped_ns = shared == MAP_FAILED ? NULL : shared;
	tracee->watcher = tracee->stopped_ns && pipe(ends) == 0 ? fork() : -1;
	if (tracee->watcher == 0) {
		close(ends[1]);
		signal(SIGINT, SIG_IGN);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		watch(command, ends[0], tracee->stopped_ns);
	}
	if (ends[0] >= 0)
		close(ends[0]);
	tracee->watch = ends[1];
	tracee->spares_until_ns = pfw_clock_ns(CLOCK_MONOTONIC) + SPARE_NS;
	if (tracee->watcher > 0)
		return 0;
	return tracee_refuse(tracee, "no process to watch over this one: %s", strerror(errno));
}

void thread_watch_end(struct tracee *tracee)
{
	close(tracee->watch);
	while (waitpid(tracee->watcher, NULL, 0) < 0 && errno == EINTR)
		;
	munmap((void *)tracee->stopped_ns, sizeof(*tracee->stopped_ns));
}

static void tell_watch(const struct thread *thread, bool stands)
{
	*thread->tracee->stopped_ns = stands ? pfw_clock_ns(CLOCK_MONOTONIC) : 0;
}

/* Calls that the kernel does not make again by itself after a stop. */
static bool ends_by_stop(uint64_t number)
{
	return number == SYS_epoll_wait || number == SYS_epoll_pwait ||
	       number == SYS_rt_sigtimedwait;
}

/* ---- stopping ---- */

static bool read_registers(struct thread *thread)
{
	struct iovec part = { registers_of(thread), sizeof(struct user_regs_struct) };

	return ptrace(PTRACE_GETREGSET, thread->tid, NT_PRSTATUS, &part) == 0;
}

static bool write_registers(const struct thread *thread, struct user_regs_struct *regs)
{
	struct iovec part = { regs, sizeof(*regs) };

	return ptrace(PTRACE_SETREGSET, thread->tid, NT_PRSTATUS, &part) == 0;
}

/* For how long the thread has run, or waited for a processor; 0 = unknown. */
static uint64_t cpu_ns_of(const struct thread *thread)
{
	unsigned long long ran = 0, waited = 0;
	char path[64], text[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", (int)thread->tracee->pid,
		 (int)thread->tid);
	tracee_read_text(path, text, sizeof(text));
	return sscanf(text, "%llu %llu", &ran, &waited) == 2 ? ran + waited : 0;
}

/* The thread is not stopped at ran_ns. */
static void note_runs(struct thread *thread, uint64_t ran_ns)
{
	thread->ran_ns = ran_ns;
	thread->cpu_ns = cpu_ns_of(thread);
}

/* Since it was last seen to run, less what it has run since then.  On a busy machine a thread waits for a
 * processor before it can stop, as it would without us. */
static uint64_t stood_ns(const struct thread *thread, uint64_t now)
{
	uint64_t all = now - thread->ran_ns, cpu_ns;

	if (all < SHORT_NS || !thread->cpu_ns)
		return all;
	cpu_ns = cpu_ns_of(thread) - thread->cpu_ns;
	return cpu_ns < all ? all - cpu_ns : 0;
}

/* Let the stopped thread run on. */
static bool resume(struct thread *thread, enum __ptrace_request how)
{
	struct tracee *tracee = thread->tracee;
	uint64_t before = pfw_clock_ns(CLOCK_MONOTONIC), stood = stood_ns(thread, before), now;
	bool resumed;

	thread->stopped = false;
	tell_watch(thread, false);
	resumed = ptrace(how, thread->tid, 0, thread->signal) == 0;
	now = pfw_clock_ns(CLOCK_MONOTONIC);
	stood += now - before;
	if (how != PTRACE_DETACH)
		note_runs(thread, now);
	tracee->stops++;
	if (stood > tracee->longest_stop_ns)
		tracee->longest_stop_ns = stood;
	return resumed;
}

static void note_stop(struct thread *thread, int status)
{
	thread->stopped = thread->seen = true;
	thread->signal = status >> 8 == SIGTRAP || status >> 8 == (SIGTRAP | 0x80) ||
					 status >> 16 == PTRACE_EVENT_STOP
				 ? 0
				 : WSTOPSIG(status);
}

/* The wait that our stop has ended goes on, since no signal has come. */
static void mend_wait(struct thread *thread)
{
	struct user_regs_struct regs;
	uint64_t pc, result;

	if (!read_registers(thread))
		return;
	regs = *registers_of(thread);
	if ((int64_t)regs.rax != -EINTR || !ends_by_stop(regs.orig_rax) || thread->signal ||
	    tracee_thread_state(thread->tracee, thread->tracee->pid, thread->tid).has_signal)
		return;
	thread_resumes_at(thread, &pc, &result);
	regs.rip = pc;
	regs.rax = result;
	regs.orig_rax = UINT64_MAX;
	write_registers(thread, &regs);
}

/* A thread that was waiting for a disk did not stop in time, and was left to itself. */
static void let_go(struct tracee *tracee, pid_t tid, int status, uint64_t ran_ns)
{
	struct thread thread = { .tracee = tracee, .tid = tid, .ran_ns = ran_ns };

	tracee->late--;
	if (!WIFSTOPPED(status))
		return;
	note_stop(&thread, status);
	mend_wait(&thread);
	resume(&thread, PTRACE_DETACH);
}

/* waitpid() for a stop of this thread; all others that have stopped are let go. */
static pid_t look_for_stop(struct tracee *tracee, pid_t tid, int *status, uint64_t ran_ns)
{
	pid_t found;

	while ((found = waitpid(-1, status, __WALL | __WNOTHREAD | WNOHANG)) > 0 && found != tid)
		let_go(tracee, found, *status, ran_ns);
	return found;
}

bool thread_nap(struct tracee *tracee, struct thread *late)
{
	const struct timespec pause = { .tv_nsec = 100000 };
	int status;

	for (int i = 0; i < 10; i++) {
		uint64_t now = pfw_clock_ns(CLOCK_MONOTONIC);
		pid_t found;

		nanosleep(&pause, NULL);
		found = tracee->late ? waitpid(-1, &status, __WALL | __WNOTHREAD | WNOHANG) : 0;
		if (found > 0 && late && WIFSTOPPED(status)) {
			tracee->late--;
			*late = (struct thread){ .tracee = tracee, .tid = found, .ran_ns = now };
			note_stop(late, status);
			tell_watch(late, true);
			return true;
		}
		if (found > 0)
			let_go(tracee, found, status, now);
	}
	return false;
}

/* Until the kernel says that some thread has stopped, or ended, or for some milliseconds.  Not by looking
 * again and again: who uses little of the processor gets it at once when a thread stops. */
static void await_news(void)
{
	const struct timespec most = { .tv_nsec = 4000000 };
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigtimedwait(&child, NULL, &most);
}

/* Wait for a stop.  False: none came, or the thread is gone. */
static bool await_stop(struct thread *thread, uint64_t ns)
{
	uint64_t now = pfw_clock_ns(CLOCK_MONOTONIC), until = now + ns, spin = now + SPIN_NS;
	int status;
	pid_t found;

	while ((found = look_for_stop(thread->tracee, thread->tid, &status, thread->ran_ns)) == 0 &&
	       now < until) {
		if (now - thread->ran_ns > 10 * SHORT_NS)
			note_runs(thread, now);
		if (thread->tracee->first || now >= spin)
			await_news();
		now = pfw_clock_ns(CLOCK_MONOTONIC);
	}
	if (found != thread->tid || !WIFSTOPPED(status))
		return false;
	note_stop(thread, status);
	return true;
}

/* The next stop that is none before a signal: those are passed on. */
static bool next_stop(struct thread *thread, uint64_t ns)
{
	while (await_stop(thread, ns)) {
		tell_watch(thread, true);
		if (!thread->signal)
			return read_registers(thread);
		if (!resume(thread, PTRACE_SYSCALL))
			return false;
	}
	return false;
}

/* Whether a thread of the process runs at this moment, on another processor; also if none is about to. */
static bool runs_now(const struct tracee *tracee, pid_t tid)
{
	clockid_t clock = (clockid_t)(~(unsigned)tracee->pid << 3 | 2); /* of the process */
	uint64_t from = pfw_clock_ns(CLOCK_MONOTONIC), before = pfw_clock_ns(clock);
	char path[64], text[64];
	const char *state;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)tracee->pid, (int)tid);
	tracee_read_text(path, text, sizeof(text));
	state = strrchr(text, ')');
	if (!state || state[2] != 'R')
		return true;
	while (pfw_clock_ns(CLOCK_MONOTONIC) - from < MOMENT_NS)
		;
	return pfw_clock_ns(clock) != before;
}

/*
 * On a busy machine a thread that has just run may wait long for a processor; a thread that has slept may
 * run for a while.  So this thread stops the other one at the beginning of its own turn, and only while
 * the other one runs: then the other one stops at once, and this thread need not wait for another turn.
 */
static void await_turn(struct tracee *tracee, pid_t tid)
{
	const struct timespec pause = { .tv_nsec = NAP_NS };

	for (int i = 0; !tracee->first && i < NAPS_MAX; i++) {
		nanosleep(&pause, NULL);
		tracee->turn_ns = pfw_clock_ns(CLOCK_THREAD_CPUTIME_ID);
		if (runs_now(tracee, tid))
			break;
	}
}

static bool turn_is_over(const struct tracee *tracee)
{
	return !tracee->first && pfw_clock_ns(CLOCK_THREAD_CPUTIME_ID) - tracee->turn_ns > TURN_NS;
}

/* A stop ends its wait, which only this command makes go on: it might be killed just then.  Most such threads
 * do something else soon. */
static bool is_spared(const struct tracee *tracee, pid_t tid)
{
	char path[64], text[32];

	if (pfw_clock_ns(CLOCK_MONOTONIC) > tracee->spares_until_ns)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", (int)tracee->pid, (int)tid);
	tracee_read_text(path, text, sizeof(text));
	return text[0] >= '0' && text[0] <= '9' && ends_by_stop(strtoull(text, NULL, 10));
}

int thread_stop(struct thread *thread, struct tracee *tracee, pid_t tid)
{
	await_turn(tracee, tid);
	if (is_spared(tracee, tid)) {
		errno = EAGAIN;
		return -1;
	}
	*thread = (struct thread){ .tracee = tracee, .tid = tid };
	if (ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD) < 0)
		return -1;
	tell_watch(thread, true);
	note_runs(thread, pfw_clock_ns(CLOCK_MONOTONIC));
	ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	return 0;
}

/* thread_nap() may have found it stopped. */
bool thread_stand(struct thread *thread)
{
	if (!thread->stopped)
		return next_stop(thread, STOP_NS);
	if (!thread->signal)
		return read_registers(thread);
	return resume(thread, PTRACE_SYSCALL) && next_stop(thread, RUN_NS);
}

bool thread_to_safe_point(struct thread *thread, bool steps)
{
	bool there = thread_stand(thread);
	uint64_t run_ns = thread->tracee->first ? RUN_NS : RUN_LATE_NS,
		 until = pfw_clock_ns(CLOCK_MONOTONIC) + run_ns;

	for (int i = 0; there && !thread_is_safe(thread); i++) {
		/* A waiting thread that is not safe shall not be woken for more. */
		if (!steps || i == STEPS || pfw_clock_ns(CLOCK_MONOTONIC) > until ||
		    turn_is_over(thread->tracee) || !resume(thread, PTRACE_SYSCALL))
			return false;
		there = next_stop(thread, run_ns);
	}
	return there;
}

/* ---- seccomp ---- */

/* Calls that the stub and the new thread make, besides the recorder's own. */
static const long own_calls[] = { SYS_clone3, SYS_clone,	  SYS_set_robust_list,
				  SYS_rseq,   SYS_nanosleep,	  SYS_fstat,
				  SYS_exit,   SYS_rt_sigprocmask, SYS_set_tid_address,
				  SYS_futex,  SYS_munmap,	  SYS_mremap };

/* Whether one filter lets all calls through, or refuses them with an error. */
static bool filter_allows(const struct sock_filter *filter, unsigned count,
			  struct pfw_seccomp_state *state)
{
	const char *name;
	bool writer;

	for (size_t i = 0; i < CLI_ARRAY_LEN(own_calls); i++)
		if (pfw_seccomp_ask(filter, count, own_calls[i], state) == PFW_SECCOMP_KILLS)
			return false;
	return pfw_seccomp_ask_all(filter, count, state, &name, &writer) != PFW_SECCOMP_KILLS;
}

/*
 * Whether the thread's filters leave it alive.  Filters as many as this command's are taken for the
 * same: those of a container.  Others can be read with CAP_SYS_ADMIN.
 */
bool thread_may(const struct thread *thread)
{
	struct tracee *tracee = thread->tracee;
	int filters = tracee_thread_state(tracee, tracee->pid, thread->tid).filters;
	struct sock_filter *filter;
	struct pfw_seccomp_state *state;
	bool may;

	if (filters >= 0 && filters == tracee->own_filters)
		return true;
	filter = malloc(BPF_MAXINSNS * sizeof(*filter));
	state = malloc(BPF_MAXINSNS * sizeof(*state));
	may = filter && state && filters >= 0;
	for (long i = 0; may && i < filters; i++) {
		long count = ptrace(PTRACE_SECCOMP_GET_FILTER, thread->tid, i, filter);

		may = count > 0 && filter_allows(filter, (unsigned)count, state);
	}
	free(filter);
	free(state);
	return may;
}

/* ---- computing ---- */

#define GET_RSEQ 0x420f /* PTRACE_GET_RSEQ_CONFIGURATION of Linux 5.13 */

struct rseq_area {
	uint64_t at;
	uint32_t bytes, signature, flags, rest;
};

/* struct rseq_cs of the kernel */
struct rseq_sequence {
	uint32_t version, flags;
	uint64_t start, bytes, abort;
};

/* Whether the kernel would move the thread when it goes on. */
static bool is_in_sequence(const struct thread *thread, uint64_t pc)
{
	const struct tracee *tracee = thread->tracee;
	struct rseq_area area;
	struct rseq_sequence sequence;
	uint64_t at;

	if (ptrace((enum __ptrace_request)GET_RSEQ, thread->tid, sizeof(area), &area) < 0)
		return true;
	if (!area.at || (tracee_read(tracee, area.at + 8, &at, sizeof(at)) && !at))
		return false;
	return !tracee_read(tracee, area.at + 8, &at, sizeof(at)) ||
	       !tracee_read(tracee, at, &sequence, sizeof(sequence)) ||
	       pc - sequence.start < sequence.bytes;
}

bool thread_computes(const struct thread *thread)
{
	const struct user_regs_struct *regs = (const struct user_regs_struct *)thread->registers;

	return (int64_t)regs->orig_rax < 0 &&
	       !tracee_thread_state(thread->tracee, thread->tracee->pid, thread->tid).has_signal &&
	       !is_in_sequence(thread, regs->rip);
}

/* ---- going on ---- */

uint64_t thread_r11(const struct thread *thread)
{
	return ((const struct user_regs_struct *)thread->registers)->r11;
}

void thread_resumes_at(const struct thread *thread, uint64_t *pc, uint64_t *result)
{
	const struct user_regs_struct *regs = (const struct user_regs_struct *)thread->registers;
	int64_t value = (int64_t)regs->rax;

	*pc = regs->rip;
	*result = regs->rax;
	if ((int64_t)regs->orig_rax < 0) /* it is in no call */
		return;
	/* ENOSYS: it is about to make the call. */
	if (value == RESTARTSYS || value == RESTARTNOINTR || value == RESTARTNOHAND ||
	    value == -ENOSYS || (value == -EINTR && ends_by_stop(regs->orig_rax)))
		*result = regs->orig_rax;
	else if (value == RESTART_BLOCK)
		*result = SYS_restart_syscall;
	else
		return;
	*pc -= 2;
}

bool thread_lead(struct thread *thread, uint64_t pc, uint64_t values)
{
	struct user_regs_struct regs = *registers_of(thread);

	regs.rip = pc;
	regs.r11 = values;	    /* the code puts thread_r11() back */
	regs.orig_rax = UINT64_MAX; /* the kernel makes no call again */
	return write_registers(thread, &regs);
}

void thread_release(struct thread *thread)
{
	/* It runs on behind PTRACE_SYSCALL: only a stopped thread can be let go.  The first stop of one that
	 * waits in vfork() or for a disk is a chance, for thread_nap() to see. */
	if (!thread->stopped && thread->seen) {
		ptrace(PTRACE_INTERRUPT, thread->tid, 0, 0);
		if (await_stop(thread, STOP_NS))
			tell_watch(thread, true);
	}
	if (thread->stopped) {
		mend_wait(thread);
		resume(thread, PTRACE_DETACH);
	} else {
		thread->tracee->late++;
		tell_watch(thread, false);
	}
}

#endif
