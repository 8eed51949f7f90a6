/* process.c - wrappers of the calls that make, replace or end a process. */
#define PFW_OS_NO_POISON
#include <alloca.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>

#include "calls.h"
#include "follow.h"
#include "posix.h"
#include "probe.h"
#include "select.h"

/* ---- fork, spawn ---- */

/* Nobody may be started to write it: the threads that the program counts after the fork are its. */
static void fork_end(const struct pfw_probe *probe, pid_t pid)
{
	pfw_thread.forking = PFW_FORK_ENDS;
	pfw_probe_end(probe, pid < 0, (const uint64_t[]){ (uint64_t)(int64_t)pid }, 1);
	pfw_thread.forking = 0;
	pfw_thread.live = 0;
}

/* Not woken: the writer starts again with the next event, since a program that looks (Python does)
 * must find as many threads after the fork as it had before. */
static bool fork_begin(struct pfw_probe *probe, uint16_t call)
{
	bool traced;

	pfw_thread.forking = PFW_FORK_BEGINS;
	traced = pfw_probe_bare(probe, call);
	pfw_thread.forking = 0;
	return traced;
}

#define FORK(name)                                                                               \
	pid_t pfw_wrap_##name(void)                                                              \
	{                                                                                        \
		struct pfw_probe probe;                                                          \
		bool traced = fork_begin(&probe, PFW_CALL_##name);                               \
		pid_t pid = pfw_real.name(); /* session's pthread_atfork handlers run in here */ \
                                                                                                 \
		if (traced && pid != 0)                                                          \
			fork_end(&probe, pid);                                                   \
		return pid;                                                                      \
	}

FORK(fork)
FORK(__fork)
FORK(_Fork) /* but not here */
#undef FORK

/*
 * A vfork child runs in its parent's memory, on its stack, until it execs or exits.  So this thread
 * is marked first and every wrapper passes the child's calls through; and nothing may be kept on
 * the stack across the call, since the child overwrites it: the stub below holds the return address
 * and t0 in registers, which the kernel gives back to the parent as they were.
 */
uint64_t pfw_vfork_before(void)
{
	struct pfw_probe probe;
	bool traced = pfw_probe_bare(&probe, PFW_CALL_vfork);

	pfw_thread.live = 0; /* the child's calls take the slow path, which sees the mark */
	pfw_thread.vfork_child = 1;
	return traced ? probe.t0 : 0;
}

pid_t pfw_vfork_after(uint64_t t0, long ret)
{
	struct pfw_probe probe = { .t0 = t0, .call = pfw_selected[PFW_CALL_vfork] };

	pfw_thread.vfork_child = 0;
	if (ret < 0) {
		errno = (int)-ret;
		ret = -1;
	}
	if (t0 && pfw_probe_ready(&pfw_live->io))
		pfw_probe_end(&probe, ret < 0, (const uint64_t[]){ (uint64_t)ret }, 1);
	pfw_follow_vforked((pid_t)ret);
	return (pid_t)ret;
}

#if defined(__x86_64__)
/* On entry and after popping and pushing the return address the stack is 8 off a multiple of 16. */
__asm__(".text\n"
	".globl pfw_wrap_vfork\n"
	".hidden pfw_wrap_vfork\n"
	".type pfw_wrap_vfork, @function\n"
	"pfw_wrap_vfork:\n"
	"	.cfi_startproc\n"
	"	subq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	call pfw_vfork_before\n"
	"	addq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	movq %rax, %rsi\n"
	"	popq %rdi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_register rip, rdi\n"
	"	movl $58, %eax\n" /* __NR_vfork */
	"	syscall\n"
	"	pushq %rdi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset rip, 0\n"
	"	testq %rax, %rax\n"
	"	jz 1f\n"
	"	movq %rsi, %rdi\n"
	"	movq %rax, %rsi\n"
	"	subq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	call pfw_vfork_after\n"
	"	addq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"1:	ret\n"
	"	.cfi_endproc\n"
	".size pfw_wrap_vfork, . - pfw_wrap_vfork\n");
#elif defined(__aarch64__)
/* The call leaves every register but x0 as it was: x30 holds the return address, x9 t0. */
__asm__(".text\n"
	".globl pfw_wrap_vfork\n"
	".hidden pfw_wrap_vfork\n"
	".type pfw_wrap_vfork, %function\n"
	"pfw_wrap_vfork:\n"
	"	.cfi_startproc\n"
	"	hint 34\n" /* bti c */
	"	stp x29, x30, [sp, -16]!\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset x29, -16\n"
	"	.cfi_offset x30, -8\n"
	"	bl pfw_vfork_before\n"
	"	ldp x29, x30, [sp], 16\n"
	"	.cfi_restore x29\n"
	"	.cfi_restore x30\n"
	"	.cfi_def_cfa_offset 0\n"
	"	mov x9, x0\n"
	"	mov x0, 0x4111\n" /* CLONE_VFORK | CLONE_VM | SIGCHLD */
	"	mov x1, 0\n"	  /* on this stack */
	"	mov x2, 0\n"
	"	mov x3, 0\n"
	"	mov x4, 0\n"
	"	mov x8, 220\n" /* __NR_clone */
	"	svc 0\n"
	"	cbz x0, 1f\n"
	"	mov x1, x0\n"
	"	mov x0, x9\n"
	"	b pfw_vfork_after\n"
	"1:	ret\n"
	"	.cfi_endproc\n"
	".size pfw_wrap_vfork, . - pfw_wrap_vfork\n");
#else
#error "pfw: src/probes/process.c has no vfork stub for this processor yet"
#endif

__asm__(".globl pfw_wrap___vfork\n"
	".hidden pfw_wrap___vfork\n"
	".set pfw_wrap___vfork, pfw_wrap_vfork\n");

/*
 * clone() with a function: without CLONE_VM a fork, whose child sets itself up; with CLONE_VFORK a
 * vfork on a stack of its own.  A child that shares memory and thread-local storage with a parent
 * that goes on is known by nothing that a wrapper could see: such programs keep out of libc.
 */
#define CLONE(name)                                                                          \
	int pfw_wrap_##name(int (*function)(void *), void *stack, int flags, void *arg, ...) \
	{                                                                                    \
		bool thread = flags & CLONE_THREAD;                                          \
		bool borrows = (flags & CLONE_VM) && (flags & CLONE_VFORK) && !thread &&     \
			       !(flags & CLONE_SETTLS);                                      \
		struct pfw_probe probe;                                                      \
		bool traced = !thread && pfw_probe_bare(&probe, PFW_CALL_##name);            \
		uint32_t mark = pfw_thread.vfork_child;                                      \
		void *rest[3];                                                               \
		va_list list;                                                                \
		int ret;                                                                     \
                                                                                             \
		va_start(list, arg);                                                         \
		for (int i = 0; i < 3; i++)                                                  \
			rest[i] = va_arg(list, void *);                                      \
		va_end(list);                                                                \
		if (borrows) {                                                               \
			pfw_thread.live = 0;                                                 \
			pfw_thread.vfork_child = 1;                                          \
		}                                                                            \
		ret = pfw_real.name(function, stack, flags, arg, rest[0], rest[1], rest[2]); \
		if (borrows)                                                                 \
			pfw_thread.vfork_child = mark;                                       \
		if (traced)                                                                  \
			pfw_probe_end(&probe, ret < 0,                                       \
				      (const uint64_t[]){ (uint64_t)(int64_t)ret,            \
							  (uint64_t)(int64_t)flags },        \
				      2);                                                    \
		if (borrows)                                                                 \
			pfw_follow_vforked(ret);                                             \
		return ret;                                                                  \
	}

CLONE(clone)
CLONE(__clone)
#undef CLONE

/* Record a call on a program's path that returned, or is about not to. */
static void record_path(struct pfw_probe *probe, const char *path, const uint64_t *value,
			unsigned count, int error, uint8_t flags)
{
	struct pfw_path_probe at = { .probe = *probe };
	struct pfw_tail name;
	struct pfw_ending ending = { .value = value, .value_count = count, .error = error };

	ending.t1 = pfw_clock_ticks();
	ending.flags = flags;
	at.error = flags & PFW_RECORD_NO_RET ? EFAULT : error;
	if (path && error != EFAULT) {
		pfw_probe_path_text(&at, AT_FDCWD, path, &name);
		ending.name = name.text_bytes ? &name : NULL;
		ending.any_name = true; /* programs live where data is not */
	}
	pfw_probe_end_full(&at.probe, &ending);
}

#define SPAWN(name)                                                                                \
	int pfw_wrap_##name(pid_t *pid, const char *path,                                          \
			    const posix_spawn_file_actions_t *actions,                             \
			    const posix_spawnattr_t *attr, char *const argv[], char *const envp[]) \
	{                                                                                          \
		struct pfw_probe probe;                                                            \
		struct pfw_follow follow;                                                          \
		bool traced = pfw_probe_bare(&probe, PFW_CALL_##name);                             \
		pid_t own = 0, *child = pid ? pid : &own;                                          \
		int ret;                                                                           \
                                                                                                   \
		pfw_follow_begin(&follow, envp, false);                                            \
		ret = pfw_real.name(child, path, actions, attr, argv, follow.envp);                \
		pfw_follow_end(&follow);                                                           \
		if (traced)                                                                        \
			record_path(&probe, path, (const uint64_t[]){ (uint64_t)ret }, 1, ret, 0); \
		if (ret == 0)                                                                      \
			pfw_follow_started(&follow, *child);                                       \
		return ret;                                                                        \
	}
SPAWN(posix_spawn)
SPAWN(posix_spawnp)
#undef SPAWN

/* What the shell is to run.  It may be a bad pointer, which only the shell's exec would have found. */
static struct pfw_tail command_text(const char *command, char *text, uint32_t size)
{
	struct pfw_tail tail = { .text = text };

	while (command && tail.text_bytes < size) {
		/* Up to the next multiple of 64: never across a page. */
		uint32_t step = 64 - (uint32_t)(((uintptr_t)command + tail.text_bytes) % 64), n;

		step = step < size - tail.text_bytes ? step : size - tail.text_bytes;
		if (!pfw_probe_peek(text + tail.text_bytes, command + tail.text_bytes, step))
			break;
		n = (uint32_t)strnlen(text + tail.text_bytes, step);
		tail.text_bytes += n;
		if (n < step)
			break;
	}
	return tail;
}
#define COMMAND_BYTES 512 /* longer ones are cut: a probe may take no more than 1 KiB of stack */

int pfw_wrap_system(const char *command)
{
	struct pfw_probe probe;
	bool traced = pfw_probe_bare(&probe, PFW_CALL_system);
	char text[COMMAND_BYTES];
	struct pfw_tail tail;
	struct pfw_ending ending = { .value_count = 2, .text = &tail, .text_count = 1 };
	struct pfw_follow follow;
	int ret;

	pfw_follow_begin(&follow, environ, true);
	ret = pfw_real.system(command);
	if (traced) {
		ending.t1 = pfw_clock_ticks();
		ending.error = ret == -1 ? errno : 0;
		ending.value = (const uint64_t[]){ (uint64_t)(int64_t)ret, 0 };
		tail = command_text(command, text, sizeof(text));
		pfw_probe_end_full(&probe, &ending);
	}
	if (ret != -1 && command)
		pfw_follow_started(&follow, 0);
	return ret;
}

#define POPEN(name)                                                                    \
	FILE *pfw_wrap_##name(const char *command, const char *mode)                   \
	{                                                                              \
		struct pfw_path_probe probe;                                           \
		struct pfw_follow follow;                                              \
		bool traced = pfw_probe_path(&probe, PFW_CALL_##name, AT_FDCWD, NULL); \
		FILE *stream;                                                          \
                                                                                       \
		pfw_follow_begin(&follow, environ, true);                              \
		stream = pfw_real.name(command, mode);                                 \
		popen_end(&probe, traced, pfw_stream_fd(stream), command);             \
		if (stream)                                                            \
			pfw_follow_started(&follow, 0);                                \
		return stream;                                                         \
	}

static void popen_end(struct pfw_path_probe *probe, bool traced, int fd, const char *command)
{
	const uint64_t value[] = { (uint64_t)(int64_t)fd, (uint64_t)(int64_t)fd, 0 };
	struct pfw_tail tail = { .text = "" };
	struct pfw_ending ending = {
		.value = value, .value_count = 3, .text = &tail, .text_count = 1
	};

	/* The path probe's scratch: there is no path. */
	if (traced)
		tail = command_text(command, probe->cwd, sizeof(probe->cwd));
	pfw_made_end(probe, traced, fd, &ending);
}

POPEN(popen)
POPEN(_IO_popen)
#undef POPEN

/* ---- exec ---- */

/* Without trusting argv: the kernel has not looked at it yet, and EFAULT is its business. */
static int count_args(char *const argv[])
{
	char *part[8];
	int argc = 0;

	while (argv) {
		/* Up to the next multiple of part: never across a page. */
		size_t count = PFW_ARRAY_LEN(part) -
			       (uintptr_t)(argv + argc) / sizeof(*part) % PFW_ARRAY_LEN(part);

		if (!pfw_probe_peek(part, argv + argc, count * sizeof(*part)))
			return argc;
		for (size_t i = 0; i < count; i++, argc++)
			if (!part[i])
				return argc;
	}
	return argc;
}

/* One exec. */
struct exec {
	struct pfw_probe probe;
	struct pfw_follow follow;
	const char *path;
	int argc;
	bool begun; /* the trace has its end */
};

/* Whether a path can be run, as far as can be told: a mere name is looked for by libc. */
static bool may_run(const char *path)
{
	if (!path)
		return true;
	switch (-pfw_syscall6(SYS_faccessat, AT_FDCWD, (long)path, X_OK, 0, 0, 0)) {
	case 0:
	case EPERM: /* nobody has looked */
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
 * A vfork's child never comes back through the frames that it leaves behind on its parent's stack:
 * the marks that AddressSanitizer has put there are taken away.
 */
#if defined(__SANITIZE_ADDRESS__)
#define PFW_ASAN 1
#elif defined(__has_feature)
#define PFW_ASAN __has_feature(address_sanitizer)
#else
#define PFW_ASAN 0
#endif
void __asan_unpoison_memory_region(void const volatile *at, size_t bytes);
#define FRAMES_BYTES 4096 /* more than ours have, and memory above any stack */

static void leave_frames(void)
{
#if PFW_ASAN
	if (pfw_thread.vfork_child)
		__asan_unpoison_memory_region(__builtin_frame_address(0), FRAMES_BYTES);
#endif
}

/*
 * Before an exec: the trace gets the call and its end, for after a successful one nobody could
 * write them.  A process that has recorded nothing (a child between fork and exec) stays without a
 * trace, unless there is to be said that the program will not be traced.
 */
static void exec_begin(struct exec *exec, uint16_t call, char *const envp[])
{
	const char *path = exec->path;
	int error = errno;
	char first;

	exec->begun = pfw_probe_host.end && !pfw_thread.vfork_child;
	exec->probe.call = PFW_CALL_NONE;
	pfw_follow_begin(&exec->follow, envp, false);
	if (exec->follow.why && !may_run(path))
		exec->follow.why = NULL;
	if (exec->begun) {
		if ((exec->follow.why || pfw_probe_host.recorded()) &&
		    pfw_probe_bare(&exec->probe, call))
			record_path(&exec->probe, path,
				    (const uint64_t[]){ 0, (uint64_t)exec->argc }, 2, 0,
				    PFW_RECORD_NO_RET);
		pfw_follow_started(&exec->follow, pfw_os_getpid());
		pfw_probe_host.end("exec", path && pfw_probe_peek(&first, path, 1) ? path : NULL,
				   !exec->follow.why);
	} else {
		pfw_follow_leave(&exec->follow);
	}
	leave_frames();
	errno = error;
}

/* It failed: the trace goes on, with the failure. */
static int exec_failed(struct exec *exec)
{
	int error = errno;

	if (exec->begun) {
		pfw_probe_host.resume();
		record_path(&exec->probe, exec->path,
			    (const uint64_t[]){ (uint64_t)-1, (uint64_t)exec->argc }, 2, error, 0);
	} else {
		pfw_follow_take_back();
	}
	pfw_follow_end(&exec->follow);
	errno = error;
	return -1;
}

/* `plain` is the call as it was made; one that takes no environment needs another where it is to be
 * ours. */
#define EXEC(name, params, path_, argv, envp, plain, ours)                        \
	int pfw_wrap_##name params                                                \
	{                                                                         \
		struct exec exec = { .path = (path_), .argc = count_args(argv) }; \
                                                                                  \
		exec_begin(&exec, PFW_CALL_##name, envp);                         \
		if (exec.follow.made)                                             \
			ours;                                                     \
		else                                                              \
			plain;                                                    \
		return exec_failed(&exec);                                        \
	}
EXEC(execve, (const char *path, char *const argv[], char *const envp[]), path, argv, envp,
     pfw_real.execve(path, argv, envp), pfw_real.execve(path, argv, exec.follow.envp))
EXEC(execv, (const char *path, char *const argv[]), path, argv, environ, pfw_real.execv(path, argv),
     pfw_real.execve(path, argv, exec.follow.envp))
EXEC(execvp, (const char *file, char *const argv[]), file, argv, environ,
     pfw_real.execvp(file, argv), pfw_real.execvpe(file, argv, exec.follow.envp))
EXEC(execvpe, (const char *file, char *const argv[], char *const envp[]), file, argv, envp,
     pfw_real.execvpe(file, argv, envp), pfw_real.execvpe(file, argv, exec.follow.envp))
EXEC(fexecve, (int fd, char *const argv[], char *const envp[]), NULL, argv, envp,
     pfw_real.fexecve(fd, argv, envp), pfw_real.fexecve(fd, argv, exec.follow.envp))
EXEC(execveat, (int dirfd, const char *path, char *const argv[], char *const envp[], int flags),
     dirfd == AT_FDCWD ? path : NULL, argv, envp, pfw_real.execveat(dirfd, path, argv, envp, flags),
     pfw_real.execveat(dirfd, path, argv, exec.follow.envp, flags))
#undef EXEC

/*
 * execl and its kin take their arguments one by one: made into an argv, as libc does itself, and
 * handed to the v-form.  Counted twice over, since the list can be walked only forwards.
 */
#define EXECL(name, path_, with_env, plain, ours)                               \
	int pfw_wrap_##name(const char *path_, const char *arg, ...)            \
	{                                                                       \
		struct exec exec = { .path = path_ };                           \
		char *const *envp = environ;                                    \
		char **argv;                                                    \
		const char *first = arg;                                        \
		int argc = 0;                                                   \
		va_list rest;                                                   \
                                                                                \
		/* Declared never to be NULL; programs pass it all the same. */ \
		__asm__("" : "+r"(first));                                      \
		va_start(rest, arg);                                            \
		if (first)                                                      \
			for (argc = 1; va_arg(rest, char *); argc++)            \
				;                                               \
		va_end(rest);                                                   \
		argv = alloca(((size_t)argc + 1) * sizeof(*argv));              \
		va_start(rest, arg);                                            \
		argv[0] = (char *)(uintptr_t)first;                             \
		for (int i = 1; i <= argc; i++)                                 \
			argv[i] = va_arg(rest, char *);                         \
		if (with_env)                                                   \
			envp = va_arg(rest, char *const *);                     \
		va_end(rest);                                                   \
		exec.argc = argc;                                               \
		exec_begin(&exec, PFW_CALL_##name, envp);                       \
		if (exec.follow.made)                                           \
			ours;                                                   \
		else                                                            \
			plain;                                                  \
		return exec_failed(&exec);                                      \
	}
EXECL(execl, path, false, pfw_real.execv(path, argv), pfw_real.execve(path, argv, exec.follow.envp))
EXECL(execlp, file, false, pfw_real.execvp(file, argv),
      pfw_real.execvpe(file, argv, exec.follow.envp))
EXECL(execle, path, true, pfw_real.execve(path, argv, envp),
      pfw_real.execve(path, argv, exec.follow.envp))
#undef EXECL

/* ---- elsewhere: roots, namespaces, users ---- */

/* What only a process of one thread may have. */
#define ALONE (CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM)

static void be_gone(bool gone)
{
	int error = errno;

	if (pfw_probe_host.be_gone && !pfw_thread.vfork_child)
		pfw_probe_host.be_gone(gone);
	errno = error;
}

/* Our files are held from here on.  False: a thread of ours shares the root. */
static bool stay_behind(void)
{
	int error = errno;
	bool apart = !pfw_probe_host.stay_behind || pfw_probe_host.stay_behind();

	errno = error;
	return apart;
}

static void user_changed(void)
{
	int error = errno;

	if (pfw_probe_host.user_changed)
		pfw_probe_host.user_changed();
	errno = error;
}

int pfw_wrap_chroot(const char *path)
{
	struct pfw_path_probe probe;
	bool traced;
	int ret;

	/* The program may be root elsewhere, or nobody: its next words may not reach us. */
	stay_behind();
	traced = pfw_probe_path(&probe, PFW_CALL_chroot, AT_FDCWD, path);
	ret = pfw_real.chroot(path);
	if (traced)
		pfw_probe_path_end(&probe, ret < 0, AT_FDCWD, path,
				   (const uint64_t[]){ (uint64_t)(int64_t)ret }, 1);
	return ret;
}

int pfw_wrap_unshare(int flags)
{
	bool alone = flags & ALONE, mounts = flags & CLONE_NEWNS, traced;
	struct pfw_probe probe;
	int ret;

	traced = pfw_probe_bare(&probe, PFW_CALL_unshare);
	if (alone)
		be_gone(true);
	else if (mounts)
		stay_behind();
	ret = pfw_real.unshare(flags);
	if (alone)
		be_gone(false);
	/* Before anything is mounted over what it needs. */
	if (alone && mounts && ret == 0)
		stay_behind();
	if (traced)
		pfw_probe_end(&probe, ret < 0,
			      (const uint64_t[]){ (uint64_t)(int64_t)ret, (uint64_t)flags }, 2);
	return ret;
}

/* Whether fd is a namespace of the type, or of one of them; nstype is the program's word for it. */
static bool is_namespace(int fd, int nstype, int type)
{
	if (!nstype)
		nstype = (int)pfw_syscall6(SYS_ioctl, fd, NS_GET_NSTYPE, 0, 0, 0, 0);
	return nstype > 0 && nstype & type;
}

int pfw_wrap_setns(int fd, int nstype)
{
	struct pfw_probe probe;
	bool traced = pfw_probe_fd(&probe, pfw_selected[PFW_CALL_setns], fd);
	bool alone = is_namespace(fd, nstype, CLONE_NEWUSER);
	int ret;

	/* Mounts are changed only for who has a root of his own. */
	if (!alone && is_namespace(fd, nstype, CLONE_NEWNS))
		alone = !stay_behind();
	if (alone)
		be_gone(true);
	ret = pfw_real.setns(fd, nstype);
	if (alone)
		be_gone(false);
	if (traced)
		pfw_probe_end(&probe, ret < 0,
			      (const uint64_t[]){ (uint64_t)(int64_t)ret, (uint64_t)fd,
						  (uint64_t)(int64_t)nstype },
			      3);
	return ret;
}

#define USER(name, params, args, count, ...)                                                     \
	int pfw_wrap_##name params                                                               \
	{                                                                                        \
		struct pfw_probe probe;                                                          \
		bool traced;                                                                     \
		int ret;                                                                         \
                                                                                                 \
		stay_behind();                                                                   \
		traced = pfw_probe_bare(&probe, PFW_CALL_##name);                                \
		ret = pfw_real.name args;                                                        \
		if (ret == 0)                                                                    \
			user_changed();                                                          \
		if (traced)                                                                      \
			pfw_probe_end(&probe, ret < 0,                                           \
				      (const uint64_t[]){ (uint64_t)(int64_t)ret, __VA_ARGS__ }, \
				      count);                                                    \
		return ret;                                                                      \
	}
#define ID(id) (uint64_t)(int64_t)(int32_t)(id)
USER(setuid, (uid_t uid), (uid), 2, ID(uid))
USER(seteuid, (uid_t euid), (euid), 2, ID(euid))
USER(setreuid, (uid_t ruid, uid_t euid), (ruid, euid), 3, ID(ruid), ID(euid))
USER(setresuid, (uid_t ruid, uid_t euid, uid_t suid), (ruid, euid, suid), 4, ID(ruid), ID(euid),
     ID(suid))
#undef ID
#undef USER

/* ---- _exit ---- */

/* Record a call that ends the process; false: nothing was. */
static bool record_exit(uint16_t call, int status)
{
	struct pfw_probe probe;
	const uint64_t value[] = { 0, (uint64_t)status };
	struct pfw_ending ending = { .value = value, .value_count = 2, .flags = PFW_RECORD_NO_RET };

	if (!pfw_probe_host.end || pfw_thread.vfork_child)
		return false;
	if (pfw_probe_host.recorded() && pfw_probe_bare(&probe, call))
		pfw_probe_end_full(&probe, &ending);
	return true;
}

static void exit_begin(uint16_t call, int status)
{
	if (record_exit(call, status))
		pfw_probe_host.end("exit", NULL, false);
	leave_frames();
}

void pfw_wrap__exit(int status)
{
	exit_begin(PFW_CALL__exit, status);
	pfw_real._exit(status);
	__builtin_unreachable();
}

void pfw_wrap__Exit(int status)
{
	exit_begin(PFW_CALL__Exit, status);
	pfw_real._Exit(status);
	__builtin_unreachable();
}

/* Session is among the functions that quick_exit() calls: what those before it do is still recorded. */
void pfw_wrap_quick_exit(int status)
{
	record_exit(PFW_CALL_quick_exit, status);
	pfw_real.quick_exit(status);
	__builtin_unreachable();
}

/*
 * daemon() forks, and the parent leaves from inside libc: its trace gets its end before, and goes on
 * where the fork has failed.  The child is a forked child, and the call's return is its first event.
 */
int pfw_wrap_daemon(int nochdir, int noclose)
{
	struct pfw_probe probe;
	pid_t parent = pfw_os_getpid();
	uint64_t t0 = pfw_clock_ticks();
	bool begun = pfw_probe_host.end && !pfw_thread.vfork_child;
	int ret;

	if (begun)
		pfw_probe_host.end("exit", NULL, false);
	ret = pfw_real.daemon(nochdir, noclose);
	if (begun && pfw_os_getpid() == parent)
		pfw_probe_host.resume();
	if (pfw_probe_bare(&probe, PFW_CALL_daemon)) {
		probe.t0 = t0;
		pfw_probe_end(&probe, ret < 0, (const uint64_t[]){ (uint64_t)(int64_t)ret }, 1);
	}
	return ret;
}
