/* calls_process.h - the cases of calls_target.c that make, replace or end a process.
 *
 * What a child records is in a trace of its own, which test_calls.py looks at apart: the lines that
 * begin with 'child' say what is there.
 */
#ifndef CALLS_PROCESS_H
#define CALLS_PROCESS_H

#include "calls_harness.h"

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
	pid = vfork(); /* by name: the compiler must know that it returns twice */
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

static void expect_fork(long pid)
{
	expect_head("fork", "POSIX");
	expect_args(NULL, NO_FD, pid, false);
	expect_fields("%s", "");
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

#endif
