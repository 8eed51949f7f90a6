/* inject.c - run a traced program and make chosen system calls of the recorder fail.
 *
 *     inject [-t SECONDS] [-r REPORT] [-p LD_PRELOAD] [-f KIND:FROM-TO:WHAT]... -- PROGRAM...
 *
 * KIND is a system call's name; with "libc:" before it, one that libc makes for the recorder; with
 * "()" behind it, a libc function that the recorder calls (shim.c).  Calls of a kind are counted
 * from 1 over all processes of the program; those from FROM to TO fail ("1-" for ever).  WHAT is an
 * error's number, or: late=N (the call is made, and then said to have failed, as close does),
 * short (half of the bytes asked for are asked for), one (one byte), zero (nothing is done, 0 is
 * returned), full=N (of pwrite64: a disk on which a file of N bytes fits).  The report has a line "KIND COUNT" for each kind, "failed N", "pid N" for each
 * process and, where the program had not ended after SECONDS, "hang" with what each thread was doing.
 *
 * Only the recorder's calls fail: those made from within libpfw.so.1's code, where all its system
 * calls are inlined, and what libc does for it.  The binaries are the ones that users run.
 */
#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAULTS_MAX 8
#define THREADS_MAX 512
#define KINDS_MAX 512

enum what { FAIL, LATE, FULL, SHORT, ONE, ZERO };

struct fault {
	char kind[40];
	unsigned long from, to;
	enum what what;
	int error; /* FULL: bytes that fit */
};

struct process {
	pid_t pid;
	bool stale;		 /* it has mapped code since its map was read */
	uint64_t code, code_end; /* the recorder's */
};

struct thread {
	pid_t tid;
	bool begun, inside; /* the recorder has called a function of libc's */
	int late;	    /* what the call under way is to return, negative; 0 = what it does */
	struct process *process;
};

static const struct syscall_name {
	long number;
	const char *name;
} names[] = {
#define NAME(name)                \
	{                         \
		SYS_##name, #name \
	}
	NAME(openat),
	NAME(close),
	NAME(read),
	NAME(write),
	NAME(writev),
	NAME(pwrite64),
	NAME(newfstatat),
	NAME(getdents64),
	NAME(ftruncate),
	NAME(fallocate),
	NAME(flock),
	NAME(unlinkat),
	NAME(mkdirat),
	NAME(renameat2),
	NAME(linkat),
	NAME(readlinkat),
	NAME(getcwd),
	NAME(mmap),
	NAME(munmap),
	NAME(madvise),
	NAME(getpid),
	NAME(getppid),
	NAME(getpeername),
	NAME(getsockname),
	NAME(getsockopt),
	NAME(gettid),
	NAME(tgkill),
	NAME(kill),
	NAME(futex),
	NAME(futex_waitv),
	NAME(clock_nanosleep),
	NAME(fcntl),
	NAME(fstatfs),
	NAME(prlimit64),
	NAME(geteuid),
	NAME(close_range),
	NAME(unshare),
	NAME(prctl),
	NAME(uname),
	NAME(pidfd_open),
	NAME(pidfd_getfd),
	NAME(process_vm_readv),
	NAME(vfork),
	NAME(clone),
	NAME(clone3),
	NAME(mprotect),
	NAME(brk),
	NAME(rt_sigprocmask),
	NAME(rt_sigaction),
	NAME(fstat),
	NAME(pread64),
	NAME(clock_gettime),
	NAME(fchmod),
	NAME(fsync),
	NAME(ioctl),
	NAME(ppoll),
	NAME(rt_sigtimedwait),
	NAME(rt_sigpending),
	NAME(kcmp),
	NAME(statx),
	NAME(membarrier),
	NAME(sched_yield),
#undef NAME
};

static struct fault faults[FAULTS_MAX];
static unsigned fault_count;
static struct process processes[THREADS_MAX];
static struct thread threads[THREADS_MAX];
static struct count {
	char kind[40];
	unsigned long n;
} counts[KINDS_MAX];
static unsigned kind_count;
static unsigned long failed;
static pid_t seen[KINDS_MAX]; /* every process there was */
static unsigned seen_count;
static const char *report_path;
static volatile sig_atomic_t late_alarm;

static void die(const char *what)
{
	fprintf(stderr, "inject: %s: %s\n", what, strerror(errno));
	exit(125);
}

/* ---- what is to fail ---- */

static int parse_what(struct fault *fault, const char *word)
{
	static const char *const words[] = { [SHORT] = "short", [ONE] = "one", [ZERO] = "zero" };

	for (unsigned i = SHORT; i <= ZERO; i++) {
		if (!strcmp(word, words[i])) {
			fault->what = (enum what)i;
			return 0;
		}
	}
	if (!strncmp(word, "late=", 5) || !strncmp(word, "full=", 5)) {
		fault->what = *word == 'l' ? LATE : FULL;
		word += 5;
	}
	fault->error = atoi(word);
	return fault->error > 0 || fault->what == FULL ? 0 : -1;
}

static int parse_fault(char *text)
{
	struct fault *fault = &faults[fault_count];
	char *what = strrchr(text, ':'), *range, *end;

	if (fault_count == FAULTS_MAX || !what)
		return -1;
	*what++ = '\0';
	range = strrchr(text, ':');
	if (!range || (size_t)(range - text) >= sizeof(fault->kind))
		return -1;
	*range++ = '\0';
	strcpy(fault->kind, text);
	fault->from = fault->to = strtoul(range, &end, 10);
	if (*end == '-')
		fault->to = end[1] ? strtoul(end + 1, &end, 10) : ~0ul;
	fault_count++;
	return parse_what(fault, what);
}

/* Count a call of this kind; the fault that it is to meet, or NULL. */
static const struct fault *count_call(const char *kind)
{
	unsigned i = 0;

	while (i < kind_count && strcmp(counts[i].kind, kind) != 0)
		i++;
	if (i == KINDS_MAX)
		return NULL;
	if (i == kind_count) {
		snprintf(counts[i].kind, sizeof(counts[i].kind), "%s", kind);
		kind_count++;
	}
	counts[i].n++;
	for (unsigned f = 0; f < fault_count; f++) {
		if (!strcmp(faults[f].kind, kind) && counts[i].n >= faults[f].from &&
		    counts[i].n <= faults[f].to) {
			failed++;
			return &faults[f];
		}
	}
	return NULL;
}

/* ---- threads and their code ---- */

static struct process *process_of(pid_t tid)
{
	char path[64], line[256];
	pid_t pid = tid;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Tgid: %d", &pid) == 1)
			break;
	if (file)
		fclose(file);
	for (unsigned i = 0; i < THREADS_MAX; i++)
		if (processes[i].pid == pid)
			return &processes[i];
	for (unsigned i = 0; i < THREADS_MAX; i++) {
		if (!processes[i].pid) {
			processes[i] = (struct process){ .pid = pid, .stale = true };
			if (seen_count < KINDS_MAX)
				seen[seen_count++] = pid;
			return &processes[i];
		}
	}
	return NULL;
}

static struct thread *thread_of(pid_t tid)
{
	struct thread *unused = NULL;

	for (unsigned i = 0; i < THREADS_MAX; i++) {
		if (threads[i].tid == tid)
			return &threads[i];
		if (!threads[i].tid && !unused)
			unused = &threads[i];
	}
	if (!unused) {
		errno = ENOSPC;
		die("too many threads");
	}
	*unused = (struct thread){ .tid = tid, .process = process_of(tid) };
	return unused;
}

static void forget_thread(pid_t tid)
{
	for (unsigned i = 0; i < THREADS_MAX; i++)
		if (threads[i].tid == tid)
			threads[i].tid = 0;
	for (unsigned i = 0; i < THREADS_MAX; i++)
		if (processes[i].pid == tid)
			processes[i].pid = 0;
}

static void read_map(struct process *process)
{
	char path[64], line[4400], rights[8];
	unsigned long from, to;
	FILE *file;

	process->stale = false;
	process->code = process->code_end = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", process->pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (strstr(line, "/libpfw.so.1") &&
		    sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 && rights[2] == 'x') {
			process->code = from;
			process->code_end = to;
		}
	}
	if (file)
		fclose(file);
}

static bool is_ours(struct process *process, uint64_t address)
{
	if (!process)
		return false;
	if (process->stale)
		read_map(process);
	return address >= process->code && address < process->code_end;
}

/* ---- one call ---- */

static void set_result(pid_t tid, struct user_regs_struct *regs, long result)
{
	regs->orig_rax = (unsigned long long)-1; /* no call is made */
	regs->rax = (unsigned long long)result;
	ptrace(PTRACE_SETREGS, tid, 0, regs);
}

/* Returns how the thread is to go on. */
static int apply(struct thread *thread, struct user_regs_struct *regs, const struct fault *fault)
{
	switch (fault->what) {
	case FAIL:
		set_result(thread->tid, regs, -fault->error);
		break;
	case ZERO:
		set_result(thread->tid, regs, 0);
		break;
	case SHORT:
	case ONE:
		regs->rdx = fault->what == ONE ? regs->rdx > 0 : regs->rdx / 2;
		ptrace(PTRACE_SETREGS, thread->tid, 0, regs);
		break;
	case FULL:
		if (regs->r10 + regs->rdx <= (unsigned long)fault->error) {
			failed--;
		} else if (regs->r10 >= (unsigned long)fault->error) {
			set_result(thread->tid, regs, -ENOSPC);
		} else {
			regs->rdx = (unsigned long)fault->error - regs->r10;
			ptrace(PTRACE_SETREGS, thread->tid, 0, regs);
		}
		break;
	case LATE:
		thread->late = -fault->error;
		return PTRACE_SYSCALL;
	}
	return PTRACE_CONT;
}

/* The shim asks: a function of libc's, called by the recorder. */
static void answer(struct thread *thread, struct user_regs_struct *regs)
{
	char name[32] = "", kind[40];
	struct iovec here = { name, sizeof(name) - 1 }, there = { (void *)regs->rdi, 16 };
	const struct fault *fault;

	/* Names may end at the end of a page. */
	if (process_vm_readv(thread->tid, &here, 1, &there, 1, 0) < 0)
		die("cannot read the shim's name of a call");
	there.iov_len = sizeof(name) - 1;
	process_vm_readv(thread->tid, &here, 1, &there, 1, 0);
	snprintf(kind, sizeof(kind), "%s%s()", regs->rsi ? "" : "libc:", name);
	fault = count_call(kind);
	set_result(thread->tid, regs, fault ? fault->error : 0);
}

static int on_call(struct thread *thread)
{
	struct user_regs_struct regs;
	const char *name = NULL;
	char kind[40];
	const struct fault *fault;
	bool ours;

	if (ptrace(PTRACE_GETREGS, thread->tid, 0, &regs))
		return PTRACE_CONT;
	if (regs.orig_rax == FAULTS_ASK) {
		answer(thread, &regs);
		return PTRACE_CONT;
	}
	if (regs.orig_rax == FAULTS_ENTER || regs.orig_rax == FAULTS_LEAVE) {
		thread->inside = regs.orig_rax == FAULTS_ENTER;
		set_result(thread->tid, &regs, 0);
		return PTRACE_CONT;
	}
	ours = is_ours(thread->process, regs.rip);
	if (regs.orig_rax == SYS_mmap && regs.rdx & 4 /* PROT_EXEC */ && thread->process)
		thread->process->stale = true; /* not made yet: looked at with the next call */
	/* vfork's stub stands in the recorder and makes the program's call. */
	if (regs.orig_rax == SYS_vfork || (!ours && !thread->inside))
		return PTRACE_CONT;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]) && !name; i++)
		if (names[i].number == (long)regs.orig_rax)
			name = names[i].name;
	if (name)
		snprintf(kind, sizeof(kind), "%s%s", ours ? "" : "libc:", name);
	else
		snprintf(kind, sizeof(kind), "%s%ld", ours ? "" : "libc:", (long)regs.orig_rax);
	fault = count_call(kind);
	return fault ? apply(thread, &regs, fault) : PTRACE_CONT;
}

/* The call that is said to have failed although it has not. */
static void on_return(struct thread *thread)
{
	struct user_regs_struct regs;

	if (thread->late && !ptrace(PTRACE_GETREGS, thread->tid, 0, &regs)) {
		regs.rax = (unsigned long long)thread->late;
		ptrace(PTRACE_SETREGS, thread->tid, 0, &regs);
	}
	thread->late = 0;
}

/* ---- the loop ---- */

static void on_stop(pid_t tid, int status)
{
	struct thread *thread = thread_of(tid);
	int signal = WSTOPSIG(status), event = status >> 16, how = PTRACE_CONT;

	if (event == PTRACE_EVENT_SECCOMP) {
		how = on_call(thread);
		signal = 0;
	} else if (signal == (SIGTRAP | 0x80)) {
		on_return(thread);
		signal = 0;
	} else if (event == PTRACE_EVENT_STOP) {
		if (signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN ||
		    signal == SIGTTOU)
			how = thread->begun ? PTRACE_LISTEN : PTRACE_CONT;
		thread->begun = true;
		signal = 0;
	} else if (event) {
		if (event == PTRACE_EVENT_EXEC) {
			thread->process = process_of(tid);
			thread->process->stale = true;
			thread->inside = false;
		}
		signal = 0;
	}
	ptrace((enum __ptrace_request)how, tid, 0, signal);
}

static void on_alarm(int signal)
{
	(void)signal;
	late_alarm = 1;
}

/* Where each thread was when the time was over. */
static void report_hang(FILE *file)
{
	char path[64], line[512];
	FILE *call;

	for (unsigned i = 0; i < THREADS_MAX; i++) {
		if (!threads[i].tid)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/syscall", threads[i].tid);
		call = fopen(path, "re");
		if (!call || !fgets(line, sizeof(line), call))
			strcpy(line, "gone\n");
		fprintf(file, "hang %d code %lx: %s", threads[i].tid,
			threads[i].process ? (unsigned long)threads[i].process->code : 0, line);
		if (call)
			fclose(call);
	}
}

static void report(bool hang)
{
	FILE *file = report_path ? fopen(report_path, "we") : NULL;

	if (!file)
		return;
	for (unsigned i = 0; i < kind_count; i++)
		fprintf(file, "%s %lu\n", counts[i].kind, counts[i].n);
	fprintf(file, "failed %lu\n", failed);
	for (unsigned i = 0; i < seen_count; i++)
		fprintf(file, "pid %d\n", seen[i]);
	if (hang)
		report_hang(file);
	fclose(file);
}

/* Follow everybody until the first process has ended and all others too; its status. */
static int follow(pid_t first)
{
	int status, result = -1;
	pid_t tid;

	for (;;) {
		tid = late_alarm ? -1 : waitpid(-1, &status, __WALL);
		if (tid < 0 && late_alarm) {
			report(true);
			return 124; /* PTRACE_O_EXITKILL ends them */
		}
		if (tid < 0 && errno == EINTR)
			continue;
		if (tid < 0)
			break;
		if (WIFSTOPPED(status)) {
			on_stop(tid, status);
			continue;
		}
		forget_thread(tid);
		if (tid == first)
			result = status;
	}
	report(false);
	if (WIFSIGNALED(result))
		return 128 + WTERMSIG(result);
	return WEXITSTATUS(result);
}

static void filter_calls(void)
{
	struct sock_filter all[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE) };
	struct sock_fprog program = { 1, all };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		die("seccomp");
}

static pid_t start(char **argv, const char *preload)
{
	int ready[2];
	char byte;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC))
		die("pipe");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		close(ready[1]);
		if (preload)
			setenv("LD_PRELOAD", preload, 1);
		if (read(ready[0], &byte, 1) != 1)
			_exit(125);
		filter_calls();
		execvp(argv[0], argv);
		die(argv[0]);
	}
	close(ready[0]);
	if (ptrace(PTRACE_SEIZE, pid, 0,
		   PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
			   PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD |
			   PTRACE_O_EXITKILL))
		die("ptrace");
	if (write(ready[1], "", 1) != 1)
		die("pipe");
	close(ready[1]);
	return pid;
}

int main(int argc, char **argv)
{
	struct sigaction alarmed = { .sa_handler = on_alarm };
	const char *preload = NULL;
	unsigned seconds = 20;
	pid_t first;
	int option;

	while ((option = getopt(argc, argv, "+t:r:p:f:")) != -1) {
		if (option == 't')
			seconds = (unsigned)atoi(optarg);
		else if (option == 'r')
			report_path = optarg;
		else if (option == 'p')
			preload = optarg;
		else if (option != 'f' || parse_fault(optarg))
			return fprintf(stderr, "inject: bad argument: see the head of inject.c\n"),
			       125;
	}
	if (optind == argc)
		return fprintf(stderr, "inject: no program\n"), 125;
	sigaction(SIGALRM, &alarmed, NULL);
	alarm(seconds);
	first = start(argv + optind, preload);
	return follow(first);
}
