/* recorder/wrap/exec.c - wrappers of calls that replace the program. */
#define PFW_OS_NO_POISON
#include <alloca.h>
#include <string.h>

#include "recorder/guest/peek.h"
#include "recorder/wrap/calls.h"
#include "recorder/wrap/exec_env.h"
#include "recorder/wrap/posix.h"

/* Count without trusting argv: the kernel has not read it yet and may still return EFAULT. */
static int count_args(char *const argv[])
{
	char *part[8];
	int argc = 0;

	while (argv) {
		/* Up to the next multiple of part, so that no read crosses a page. */
		size_t count = PFW_ARRAY_LEN(part) -
			       (uintptr_t)(argv + argc) / sizeof(*part) % PFW_ARRAY_LEN(part);

		if (!pfw_peek(part, argv + argc, count * sizeof(*part)))
			return argc;
		for (size_t i = 0; i < count; i++, argc++)
			if (!part[i])
				return argc;
	}
	return argc;
}

/* An exec in progress. */
struct exec {
	struct pfw_probe probe;
	struct pfw_exec_env follow;
	const char *path;
	int argc;
	bool begun; /* the trace is ended */
};

/* Whether a path may be executable, as far as can be told; libc searches for a name without '/'. */
static bool may_run(const char *path)
{
	if (!path)
		return true;
	switch (-pfw_syscall6(SYS_faccessat, AT_FDCWD, (long)path, X_OK, 0, 0, 0)) {
	case 0:
	case EPERM: /* the check itself was refused */
	case ENOSYS:
		return true;
	case ENOENT:
	case EACCES:
		return !strchr(path, '/');
	default:
		return false;
	}
}
/*
 * Before an exec: write the call and the end of the trace, since nobody can after a successful
 * exec.  A process that has recorded nothing (a child between fork and exec) gets no trace, unless
 * the new program will not be traced, which is recorded.
 */
static void exec_begin(struct exec *exec, uint16_t call, char *const envp[])
{
	const char *path = exec->path;
	int error = errno;
	bool fails;
	char first;

	exec->begun = pfw_probe_host.end && !pfw_probe_in_vfork();
	exec->probe.call = PFW_CALL_NONE;
	pfw_exec_env_begin(&exec->follow, path,
			   call == PFW_CALL_execvp || call == PFW_CALL_execvpe ||
					   call == PFW_CALL_execlp
				   ? PFW_EXEC_SEARCH
				   : PFW_EXEC_PATH,
			   envp);
	fails = !exec->follow.traced && !may_run(path);
	if (fails)
		exec->follow.why = NULL;
	if (exec->begun) {
		if ((exec->follow.why || pfw_probe_host.recorded()) &&
		    pfw_probe_bare(&exec->probe, call))
			pfw_record_path(&exec->probe, path, PFW_VALUES(0, (uint64_t)exec->argc), 0,
					PFW_RECORD_NO_RET);
		pfw_exec_env_started(&exec->follow, pfw_os_getpid());
		pfw_probe_host.end("exec", path && pfw_peek(&first, path, 1) ? path : NULL,
				   exec->follow.traced || fails);
	} else if (pfw_thread.vfork_child) {
		pfw_exec_env_leave(&exec->follow);
	} else if (pfw_probe_host.end) { /* its parent runs on, and takes no note */
		pfw_exec_env_started(&exec->follow, pfw_os_getpid());
	}
	pfw_leave_frames();
	errno = error;
}

/* The exec failed: continue the trace, with the failure. */
static int exec_failed(struct exec *exec)
{
	int error = errno;

	if (exec->begun) {
		pfw_probe_host.resume();
		pfw_record_path(&exec->probe, exec->path,
				PFW_VALUES((uint64_t)-1, (uint64_t)exec->argc), error, 0);
	} else {
		pfw_exec_env_take_back();
	}
	pfw_exec_env_end(&exec->follow);
	errno = error;
	return -1;
}

#define EXEC(name, params, path_, argv, envp, call)                               \
	int pfw_wrap_##name params                                                \
	{                                                                         \
		struct exec exec = { .path = (path_), .argc = count_args(argv) }; \
                                                                                  \
		exec_begin(&exec, PFW_CALL_##name, envp);                         \
		call;                                                             \
		return exec_failed(&exec);                                        \
	}

EXEC(execve, (const char *path, char *const argv[], char *const envp[]), path, argv, envp,
     pfw_real.execve(path, argv, exec.follow.envp))
EXEC(execvpe, (const char *file, char *const argv[], char *const envp[]), file, argv, envp,
     pfw_real.execvpe(file, argv, exec.follow.envp))
EXEC(fexecve, (int fd, char *const argv[], char *const envp[]), NULL, argv, envp,
     pfw_real.fexecve(fd, argv, exec.follow.envp))
EXEC(execveat, (int dirfd, const char *path, char *const argv[], char *const envp[], int flags),
     dirfd == AT_FDCWD ? path : NULL, argv, envp,
     pfw_real.execveat(dirfd, path, argv, exec.follow.envp, flags))
/* Without an environment as an argument: the call as the program made it, unless we pass ours. */
EXEC(execv, (const char *path, char *const argv[]), path, argv, environ,
     exec.follow.made ? pfw_real.execve(path, argv, exec.follow.envp) : pfw_real.execv(path, argv))
EXEC(execvp, (const char *file, char *const argv[]), file, argv, environ,
     exec.follow.made ? pfw_real.execvpe(file, argv, exec.follow.envp)
		      : pfw_real.execvp(file, argv))
#undef EXEC

/* execl and its variants take a list of arguments.  It becomes an argv, as in libc, for the v-form.
 * Two passes, since a va_list has no length. */
static int exec_list(uint16_t call, const char *path, const char *first, va_list rest)
{
	struct exec exec = { .path = path };
	char *const *envp = environ;
	va_list count;
	char **argv;

	/* Declared nonnull, but programs pass NULL. */
	__asm__("" : "+r"(first));
	va_copy(count, rest);
	if (first)
		for (exec.argc = 1; va_arg(count, char *); exec.argc++)
			;
	va_end(count);
	argv = alloca(((size_t)exec.argc + 1) * sizeof(*argv));
	argv[0] = (char *)(uintptr_t)first;
	for (int i = 1; i <= exec.argc; i++)
		argv[i] = va_arg(rest, char *);
	if (call == PFW_CALL_execle)
		envp = va_arg(rest, char *const *);
	exec_begin(&exec, call, envp);
	if (call == PFW_CALL_execlp && exec.follow.made)
		pfw_real.execvpe(path, argv, exec.follow.envp);
	else if (call == PFW_CALL_execlp)
		pfw_real.execvp(path, argv);
	else if (call == PFW_CALL_execle || exec.follow.made)
		pfw_real.execve(path, argv, exec.follow.envp);
	else
		pfw_real.execv(path, argv);
	return exec_failed(&exec);
}

#define EXECL(name)                                                 \
	int pfw_wrap_##name(const char *path, const char *arg, ...) \
	{                                                           \
		va_list rest;                                       \
		int ret;                                            \
                                                                    \
		va_start(rest, arg);                                \
		ret = exec_list(PFW_CALL_##name, path, arg, rest);  \
		va_end(rest);                                       \
		return ret;                                         \
	}

EXECL(execl)
EXECL(execlp)
EXECL(execle)
#undef EXECL
