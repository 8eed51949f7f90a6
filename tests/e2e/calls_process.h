/* calls_process.h - the cases of calls_target.c that make, replace or end a process.
 *
 * What a child records is in a trace of its own, which test_calls.py looks at apart: the lines that
 * begin with 'child' say what is there.
 */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>

#include "calls_files.h"

extern char **environ;

/* Wait without libc, and say how it ended. */
static void reap(long pid)
{
	int status = -1;

	if (syscall(SYS_wait4, pid, &status, 0, NULL) != pid)
		fail("cannot wait", now->symbol);
	say("%s: status %x\n", now->symbol, status);
}

/* What the child `pid` must have recorded: one event, if any, then the end of its trace. */
static void expect_child(long pid, const char *fname, const char *fields, const char *reason)
{
	put_expected("{'row':'%s','child':%ld,'reason':'%s','name':'%s','cat':'POSIX','args':{",
		     now->symbol, pid, reason, now->canonical);
	if (fname)
		put_expected("'fname':'%s'%s", fname, *fields ? "," : "");
	put_expected("%s}}\n", fields);
}

static void case_fork(void)
{
	__typeof__(&fork) call = symbol(now->symbol);

	errno = SENTINEL;
	result = call();
	if (result == 0)
		syscall(SYS_exit_group, errno == SENTINEL ? 5 : 6);
	error = errno;
	say("%s: %d errno %d\n", now->symbol, result > 0, error);
	reap(result);
	EXPECT(NULL, NO_FD, "%s", "");
}

/* The child runs on this stack: nothing of it may be lost, and it must not be recorded. */
static void case_vfork(void)
{
	volatile int kept = 12345;
	pid_t pid;

	make("data", "content");
	errno = SENTINEL;
	/* By name: the compiler must know that it returns twice. */
	pid = strcmp(now->symbol, "vfork") ? __vfork() : vfork();
	if (pid == 0) {
		int fd = FN(open)("data", O_RDONLY);

		syscall(SYS_exit, FN(close)(fd) == 0 && kept == 12345 ? 7 : 8);
	}
	result = pid;
	error = errno;
	say("%s: %d errno %d kept %d\n", now->symbol, result > 0, error, kept);
	reap(result);
	EXPECT(NULL, NO_FD, "%s", "");
}

/* A child by clone(): its exit status says whether it got its argument. */
static int cloned(void *arg)
{
	int fd = FN(open)("data", O_RDONLY); /* in memory that it borrows: not recorded */

	return FN(close)(fd) == 0 && arg == &result ? 5 : 6;
}

static int cloned_alone(void *arg)
{
	return arg == &result ? 5 : 6;
}

static void case_clone(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	static const int flags[] = { SIGCHLD, CLONE_VM | CLONE_VFORK | SIGCHLD };

	make("data", "content");
	for (int i = 0; i < 2; i++) {
		errno = SENTINEL;
		result = THIS(clone)(i ? cloned : cloned_alone, stack + sizeof(stack), flags[i],
				     &result);
		error = errno;
		say("%s: %d errno %d\n", now->symbol, result > 0, error);
		reap(result);
		EXPECT(NULL, NO_FD, "'flags':%d", flags[i]);
	}
	CALL(THIS(clone)(cloned, stack + sizeof(stack), CLONE_THREAD | SIGCHLD, NULL));
	CALL(THIS(clone)(NULL, NULL, SIGCHLD, NULL)); /* refused by libc */
	EXPECT(NULL, NO_FD, "'flags':%d", SIGCHLD);
}

/* ---- shells ---- */

static void case_system(void)
{
	CALL(THIS(system)("exit \"3\""));
	EXPECT(NULL, NO_FD, "'command':'exit \\\"3\\\"'");
	CALL(THIS(system)(NULL)); /* is there a shell? */
	EXPECT(NULL, NO_FD, "'command':''");
	CALL(THIS(system)(BAD));
	EXPECT(NULL, NO_FD, "'command':''");
}

/* An open pipe to a shell, from which one character is read and not recorded. */
static FILE *shell(const char *command)
{
	char character;
	FILE *file = FN(popen)(command, "r");

	if (!file)
		fail("no shell", command);
	expect_head("popen", "STDIO");
	expect_args(PIPE, fileno(file), fileno(file), false);
	expect_fields("'command':'%s'", command);
	if (syscall(SYS_read, fileno(file), &character, 1) != 1)
		fail("nothing from the shell", command);
	return file;
}

static void shell_done(FILE *file)
{
	int fd = fileno(file), ret = FN(pclose)(file);

	expect_head("pclose", "STDIO");
	expect_args(PIPE, fd, ret, false);
	expect_fields("%s", "");
}

static void case_popen(void)
{
	FILE *file;

	stale_number();
	CALL_POINTER(file, THIS(popen)("echo x", "r"));
	result = fileno(file);
	EXPECT(PIPE, (int)result, "'command':'echo x'");
	shell_done(file);
	CALL_POINTER(file, THIS(popen)("echo x", "no mode"));
	result = -1;
	EXPECT(NULL, NO_FD, "'command':'echo x'");
}

static void case_pclose(void)
{
	FILE *file = shell("echo x; exit 7");
	int fd = fileno(file);

	CALL(THIS(pclose)(file));
	EXPECT(PIPE, fd, "%s", "");
}

static void expect_fork(long pid)
{
	expect_head("fork", "POSIX");
	expect_args(NULL, NO_FD, pid, false);
	expect_fields("%s", "");
}

/* ---- daemon ---- */

/* What the whole trace of a child must consist of. */
static void expect_trace(long pid, const char *events)
{
	put_expected("{'row':'%s','child':%ld,'reason':'exit','events':[%s]}\n", now->symbol, pid,
		     events);
}

/* From now on there are no more forks. */
static void forbid_forks(void)
{
	static struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
	};
	static const struct sock_fprog program = { 4, filter };

	/* By number, which is no event. */
	if (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		fail("no seccomp", now->symbol);
}

static void become_daemon(const int *fds, bool forbidden)
{
	long me = syscall(SYS_getpid);
	int ret;

	FN(access)(".", F_OK);
	if (forbidden)
		forbid_forks();
	ret = THIS(daemon)(1, 1);
	FN(access)(ret < 0 ? "absent" : ".", F_OK);
	me = syscall(SYS_getpid);
	syscall(SYS_write, fds[1], &me, sizeof(me));
	FN(_exit)(ret < 0 ? 13 : 14);
}

/* The daemon's number, once it has gone. */
static long wait_for_daemon(int *fds)
{
	long pid = -1, more;

	syscall(SYS_close, fds[1]);
	syscall(SYS_read, fds[0], &pid, sizeof(pid));
	syscall(SYS_read, fds[0], &more, sizeof(more));
	syscall(SYS_close, fds[0]);
	return pid;
}

static void case_daemon(void)
{
	int fds[2];
	long pid;

	for (int i = 0; i < 2; i++) {
		raw_pipe(fds);
		pid = FN(fork)();
		if (pid == 0)
			become_daemon(fds, i == 1);
		reap(pid);
		expect_fork(pid);
		expect_trace(pid, i ? "'access','daemon','access','_exit'" : "'access'");
		if (i == 0)
			expect_trace(wait_for_daemon(fds), "'daemon','access','_exit'");
		else
			wait_for_daemon(fds);
	}
}

static const char *const true_path = "/bin/true";

static void case_posix_spawn(void)
{
	__typeof__(&posix_spawn) call = symbol(now->symbol);
	char *argv[] = { (char *)"true", NULL };
	pid_t pid = 0;

	CALL(call(&pid, true_path, NULL, NULL, argv, environ));
	reap(pid);
	EXPECT(true_path, NO_FD, "%s", "");
	CALL(call(&pid, in("absent"), NULL, NULL, argv, environ));
	error = (int)result; /* returned, not left in errno */
	expect_head(now->canonical, now->category);
	expect_args(in("absent"), NO_FD, result, true);
	expect_fields("%s", "");
}

/* Any of the exec family, with two arguments. */
static void execute(const char *path)
{
	char *argv[] = { (char *)"true", (char *)"argument", NULL };
	const char *name = now->symbol;
	int fd;

	if (!strcmp(name, "execve"))
		THIS(execve)(path, argv, environ);
	else if (!strcmp(name, "execv") || !strcmp(name, "execvp"))
		THIS(execv)(path, argv);
	else if (!strcmp(name, "execvpe"))
		THIS(execvpe)(path, argv, environ);
	else if (!strcmp(name, "execl") || !strcmp(name, "execlp"))
		THIS(execl)(path, "true", "argument", NULL);
	else if (!strcmp(name, "execle"))
		THIS(execle)(path, "true", "argument", NULL, environ);
	else if (!strcmp(name, "execveat"))
		THIS(execveat)(AT_FDCWD, path, argv, environ, 0);
	else if ((fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY, 0)) >= 0)
		THIS(fexecve)(fd, argv, environ);
	else
		THIS(fexecve)(999, argv, environ);
}

/* What only the kernel may find out. */
static void exec_badly(void)
{
	char *argv[] = { (char *)"true", NULL };

	if (strcmp(now->symbol, "execve") && strcmp(now->symbol, "execv"))
		return;
	CALL(THIS(execve)(BAD, argv, environ));
	put_expected("{'row':'%s','name':'%s','cat':'POSIX','args':{'argc':1}}\n", now->symbol,
		     now->canonical);
	EXPECT(NULL, NO_FD, "'argc':1");
	CALL(THIS(execve)(true_path, (char **)BAD, environ));
	put_expected("{'row':'%s','name':'%s','cat':'POSIX','args':{'fname':'%s','argc':0}}\n",
		     now->symbol, now->canonical, true_path);
	EXPECT(NULL, NO_FD, "'argc':0");
}

/* In this process it fails, twice recorded: before, when nobody can know, and after. */
static void case_exec(void)
{
	bool by_fd = !strcmp(now->symbol, "fexecve");
	long pid;

	errno = SENTINEL;
	execute(in("absent"));
	result = -1;
	error = errno;
	say("%s: errno %d\n", now->symbol, error);
	put_expected("{'row':'%s','name':'%s','cat':'POSIX','args':{%s%s%s'argc':2}}\n",
		     now->symbol, now->canonical, by_fd ? "" : "'fname':'",
		     by_fd ? "" : in("absent"), by_fd ? "" : "',");
	EXPECT(by_fd ? NULL : in("absent"), NO_FD, "'argc':2");
	exec_badly();
	pid = FN(fork)();
	if (pid == 0) {
		FN(access)(".", F_OK); /* a child that has recorded nothing has no trace */
		execute(true_path);
		syscall(SYS_exit_group, 9);
	}
	reap(pid);
	expect_fork(pid);
	expect_child(pid, by_fd ? NULL : true_path, "'argc':2", "exec");
}

static void case_exit(void)
{
	__typeof__(&_exit) call = symbol(now->symbol);
	long pid = FN(fork)();

	if (pid == 0) {
		FN(access)(".", F_OK);
		call(11);
	}
	reap(pid);
	expect_fork(pid);
	expect_child(pid, NULL, "'status':11", "exit");
}

/* Nothing changes for those who come after: what works leaves all as it was. */
static void case_unshare(void)
{
	CALL(THIS(unshare)(0));
	EXPECT(NULL, NO_FD, "'flags':0");
	CALL(THIS(unshare)(1));
	EXPECT(NULL, NO_FD, "'flags':1");
	CALL(THIS(unshare)(CLONE_NEWUSER | 1));
	EXPECT(NULL, NO_FD, "'flags':%d", CLONE_NEWUSER | 1);
}

static void case_setns(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	CALL(THIS(setns)(fd, 0));
	EXPECT(in("data"), fd, "'nstype':0");
	CALL(THIS(setns)(fd, CLONE_NEWNS));
	EXPECT(in("data"), fd, "'nstype':%d", CLONE_NEWNS);
	done(fd, "data");
	CALL(THIS(setns)(999, CLONE_NEWUSER));
	EXPECT(NULL, 999, "'nstype':%d", CLONE_NEWUSER);
}

static void case_setuid(void)
{
	long uid = syscall(SYS_getuid), euid = syscall(SYS_geteuid);

	if (!strcmp(now->symbol, "setuid")) {
		CALL(THIS(setuid)(uid));
		EXPECT(NULL, NO_FD, "'uid':%ld", uid);
	} else if (!strcmp(now->symbol, "seteuid")) {
		CALL(THIS(seteuid)(euid));
		EXPECT(NULL, NO_FD, "'euid':%ld", euid);
	} else if (!strcmp(now->symbol, "setreuid")) {
		CALL(THIS(setreuid)(-1, euid));
		EXPECT(NULL, NO_FD, "'ruid':-1,'euid':%ld", euid);
	} else {
		CALL(THIS(setresuid)(uid, -1, -1));
		EXPECT(NULL, NO_FD, "'ruid':%ld,'euid':-1,'suid':-1", uid);
	}
}

/* The rights that it has, once more; then a version that the kernel does not know. */
static void case_capset(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2];

	syscall(SYS_capget, &header, data);
	CALL(THIS(capset)(&header, data));
	EXPECT(NULL, NO_FD, NULL);
	header.version = 1;
	CALL(THIS(capset)(&header, data));
	EXPECT(NULL, NO_FD, NULL);
}

/* Recorded are the options that take rights. */
static void case_prctl(void)
{
	THIS(prctl)(PR_GET_DUMPABLE, 0L, 0L, 0L, 0L);
	CALL(THIS(prctl)(PR_SET_KEEPCAPS, 0L, 0L, 0L, 0L));
	EXPECT(NULL, NO_FD, "'option':%d", PR_SET_KEEPCAPS);
	CALL(THIS(prctl)(PR_CAPBSET_DROP, 999L, 0L, 0L, 0L));
	EXPECT(NULL, NO_FD, "'option':%d", PR_CAPBSET_DROP);
}

static void case_mlockall(void)
{
	CALL(THIS(mlockall)(MCL_CURRENT | MCL_ONFAULT));
	EXPECT(NULL, NO_FD, "'flags':%d", MCL_CURRENT | MCL_ONFAULT);
	syscall(SYS_munlockall);
	CALL(THIS(mlockall)(0x1000));
	EXPECT(NULL, NO_FD, "'flags':%d", 0x1000);
}

static void case_munlockall(void)
{
	CALL(THIS(munlockall)());
	EXPECT(NULL, NO_FD, NULL);
}
