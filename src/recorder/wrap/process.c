/* recorder/wrap/process.c - wrappers of calls that make or end a process. */
#define PFW_OS_NO_POISON
#include <string.h>

#include "recorder/guest/peek.h"
#include "recorder/probe/call_filter.h"
#include "recorder/probe/probe.h"
#include "recorder/wrap/calls.h"
#include "recorder/wrap/exec_env.h"
#include "recorder/wrap/posix.h"

/* ---- fork, spawn ---- */

/* The record must not start the writer: the program may count its threads after the fork. */
static void fork_end(const struct pfw_probe *probe, pid_t pid)
{
	pfw_thread.forking = PFW_FORK_ENDS;
	pfw_probe_end(probe, pid < 0, PFW_VALUES((uint64_t)pid));
	pfw_thread.forking = 0;
	pfw_thread.live = 0;
}

/* The writer is not woken; it starts again with the next event.  A program that counts its threads
 * (Python does) must find as many after the fork as before. */
static bool fork_begin(struct pfw_probe *probe, uint16_t call)
{
	bool traced;

	pfw_thread.forking = PFW_FORK_BEGINS;
	traced = pfw_probe_bare(probe, call);
	pfw_thread.forking = 0;
	return traced;
}

#define FORK(name)                                                                        \
	pid_t pfw_wrap_##name(void)                                                       \
	{                                                                                 \
		struct pfw_probe probe;                                                   \
		bool traced = fork_begin(&probe, PFW_CALL_##name);                        \
		pid_t pid = pfw_real.name(); /* runs session's pthread_atfork handlers */ \
                                                                                          \
		if (traced && pid != 0)                                                   \
			fork_end(&probe, pid);                                            \
		return pid;                                                               \
	}

FORK(fork)
FORK(__fork)
FORK(_Fork) /* runs no handlers */
#undef FORK

/*
 * A vfork child runs in its parent's memory, on its stack, until it execs or exits.  So this thread
 * is marked first, and every wrapper passes the child's calls through.  Nothing may be kept on the
 * stack across the call, since the child overwrites it: the stub below keeps the return address and
 * t0 in registers, which the kernel restores for the parent.
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
	struct pfw_probe probe = { .t0 = t0, .call = pfw_call_filter[PFW_CALL_vfork] };

	pfw_thread.vfork_child = 0;
	if (ret < 0) {
		errno = (int)-ret;
		ret = -1;
	}
	if (t0 && pfw_probe_ready(&pfw_switches->io))
		pfw_probe_end(&probe, ret < 0, PFW_VALUES((uint64_t)ret));
	pfw_exec_env_vforked((pid_t)ret);
	return (pid_t)ret;
}

#if defined(__x86_64__)
/* On entry, and after popping and pushing the return address, the stack pointer is 8 below a
 * multiple of 16. */
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
/* The call preserves every register but x0: x30 holds the return address, x9 t0. */
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
	"	mov x1, 0\n"	  /* on the same stack */
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
#error "pfw: src/recorder/wrap/process.c has no vfork stub for this processor yet"
#endif

__asm__(".globl pfw_wrap___vfork\n"
	".hidden pfw_wrap___vfork\n"
	".set pfw_wrap___vfork, pfw_wrap_vfork\n");

/* The function of a child with its own memory.  libc ends such a child by a bare system call when
 * the function returns, so its trace is ended here; and our thread, which would outlive the child's
 * and give the process its own status. */
struct child {
	int (*function)(void *arg);
	void *arg;
};

static int run_child(void *arg)
{
	const struct child child = *(const struct child *)arg;
	int status;

	/* No atfork handler runs here; kernels before 4.14 and emulators do not wipe the page. */
	if (pfw_switches)
		memset((void *)pfw_switches, 0, sizeof(*pfw_switches));
	status = child.function(child.arg);
	if (pfw_probe_host.end) {
		pfw_probe_host.end("exit", NULL, false);
		pfw_probe_host.join();
	}
	return status;
}

/*
 * clone() with a function: without CLONE_VM it is a fork, whose child sets itself up; with
 * CLONE_VFORK a vfork with its own stack.  A child that shares memory and thread-local storage with
 * a running parent is recognised only at its end, by its pid: its calls are recorded as its parent's.
 */
#define CLONE(name)                                                                          \
	int pfw_wrap_##name(int (*function)(void *), void *stack, int flags, void *arg, ...) \
	{                                                                                    \
		bool thread = flags & CLONE_THREAD;                                          \
		bool borrows = (flags & CLONE_VM) && (flags & CLONE_VFORK) && !thread &&     \
			       !(flags & CLONE_SETTLS);                                      \
		struct pfw_probe probe;                                                      \
		bool traced = !thread && pfw_probe_bare(&probe, PFW_CALL_##name);            \
		bool copied = !(flags & CLONE_VM) && function && stack;                      \
		struct child child = { function, arg }; /* in the child's copy, too */       \
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
		ret = pfw_real.name(copied ? run_child : function, stack, flags,             \
				    copied ? &child : arg, rest[0], rest[1], rest[2]);       \
		if (borrows)                                                                 \
			pfw_thread.vfork_child = mark;                                       \
		if (traced)                                                                  \
			pfw_probe_end(&probe, ret < 0,                                       \
				      PFW_VALUES((uint64_t)ret, (uint64_t)flags));           \
		if (borrows)                                                                 \
			pfw_exec_env_vforked(ret);                                           \
		return ret;                                                                  \
	}

CLONE(clone)
CLONE(__clone)
#undef CLONE

void pfw_record_path(struct pfw_probe *probe, const char *path, const uint64_t *value,
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
		ending.any_name = true; /* path filters are for data, not for programs */
	}
	pfw_probe_end_full(&at.probe, &ending);
}

#define SPAWN(name, kind)                                                                          \
	int pfw_wrap_##name(pid_t *pid, const char *path,                                          \
			    const posix_spawn_file_actions_t *actions,                             \
			    const posix_spawnattr_t *attr, char *const argv[], char *const envp[]) \
	{                                                                                          \
		struct pfw_probe probe;                                                            \
		struct pfw_exec_env follow;                                                        \
		bool traced = pfw_probe_bare(&probe, PFW_CALL_##name);                             \
		pid_t own = 0, *child = pid ? pid : &own;                                          \
		int ret;                                                                           \
                                                                                                   \
		pfw_exec_env_begin(&follow, path, kind, envp);                                     \
		ret = pfw_real.name(child, path, actions, attr, argv, follow.envp);                \
		pfw_exec_env_end(&follow);                                                         \
		if (traced)                                                                        \
			pfw_record_path(&probe, path, PFW_VALUES((uint64_t)ret), ret, 0);          \
		if (ret == 0)                                                                      \
			pfw_exec_env_started(&follow, *child);                                     \
		return ret;                                                                        \
	}
SPAWN(posix_spawn, PFW_EXEC_PATH)
SPAWN(posix_spawnp, PFW_EXEC_SEARCH)
#undef SPAWN

/* The shell's command.  It may be a bad pointer, which libc would only notice later. */
static struct pfw_tail command_text(const char *command, char *text, uint32_t size)
{
	struct pfw_tail tail = { .text = text };

	while (command && tail.text_bytes < size) {
		/* Up to the next multiple of 64, so that no read crosses a page. */
		uint32_t step = 64 - (uint32_t)(((uintptr_t)command + tail.text_bytes) % 64), n;

		step = step < size - tail.text_bytes ? step : size - tail.text_bytes;
		if (!pfw_peek(text + tail.text_bytes, command + tail.text_bytes, step))
			break;
		n = (uint32_t)strnlen(text + tail.text_bytes, step);
		tail.text_bytes += n;
		if (n < step)
			break;
	}
	return tail;
}
#define COMMAND_BYTES 512 /* longer ones are cut: a probe has at most 1 KiB of stack */

int pfw_wrap_system(const char *command)
{
	struct pfw_probe probe;
	bool traced = pfw_probe_bare(&probe, PFW_CALL_system);
	char text[COMMAND_BYTES];
	struct pfw_tail tail;
	struct pfw_ending ending = { .value_count = 2, .text = &tail, .text_count = 1 };
	struct pfw_exec_env follow;
	int ret;

	pfw_exec_env_begin(&follow, NULL, PFW_EXEC_SHELL, environ);
	ret = pfw_real.system(command);
	if (traced) {
		ending.t1 = pfw_clock_ticks();
		ending.error = ret == -1 ? errno : 0;
		ending.value = (const uint64_t[]){ (uint64_t)ret, 0 };
		tail = command_text(command, text, sizeof(text));
		pfw_probe_end_full(&probe, &ending);
	}
	if (ret != -1 && command)
		pfw_exec_env_started(&follow, 0);
	return ret;
}

#define POPEN(name)                                                                    \
	FILE *pfw_wrap_##name(const char *command, const char *mode)                   \
	{                                                                              \
		struct pfw_path_probe probe;                                           \
		struct pfw_exec_env follow;                                            \
		bool traced = pfw_probe_path(&probe, PFW_CALL_##name, AT_FDCWD, NULL); \
		FILE *stream;                                                          \
                                                                                       \
		pfw_exec_env_begin(&follow, NULL, PFW_EXEC_SHELL, environ);            \
		stream = pfw_real.name(command, mode);                                 \
		popen_end(&probe, traced, pfw_stdio_fd(stream), command);              \
		if (stream)                                                            \
			pfw_exec_env_started(&follow, 0);                              \
		return stream;                                                         \
	}

static void popen_end(struct pfw_path_probe *probe, bool traced, int fd, const char *command)
{
	const uint64_t value[] = { (uint64_t)fd, (uint64_t)fd, 0 };
	struct pfw_tail tail = { .text = "" };
	struct pfw_ending ending = {
		.value = value, .value_count = 3, .text = &tail, .text_count = 1
	};

	/* Use the path probe's buffer: the call has no path. */
	if (traced)
		tail = command_text(command, probe->cwd, sizeof(probe->cwd));
	pfw_made_end(probe, traced, fd, &ending);
}

POPEN(popen)
POPEN(_IO_popen)
#undef POPEN

/* ---- _exit ---- */

/* A vfork child never returns through the frames that it leaves on its parent's stack: remove
 * AddressSanitizer's marks from them. */
#if defined(__SANITIZE_ADDRESS__)
#define PFW_ASAN 1
#elif defined(__has_feature)
#define PFW_ASAN __has_feature(address_sanitizer)
#else
#define PFW_ASAN 0
#endif
void __asan_unpoison_memory_region(void const volatile *at, size_t bytes);
#define FRAMES_BYTES 4096 /* more than our frames take, less than the memory above any stack */

void pfw_leave_frames(void)
{
#if PFW_ASAN
	if (pfw_thread.vfork_child)
		__asan_unpoison_memory_region(__builtin_frame_address(0), FRAMES_BYTES);
#endif
}

/* Record a call that ends the process.  False: this process records nothing. */
static bool record_exit(uint16_t call, int status)
{
	struct pfw_probe probe;

	if (!pfw_probe_host.end || pfw_probe_in_vfork())
		return false;
	if (pfw_probe_host.recorded() && pfw_probe_bare(&probe, call))
		pfw_end_void(&probe, PFW_VALUES(0, (uint64_t)status));
	return true;
}

static void exit_begin(uint16_t call, int status)
{
	if (record_exit(call, status))
		pfw_probe_host.end("exit", NULL, false);
	pfw_leave_frames();
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

/*
 * Session's end is one of quick_exit()'s handlers: events of handlers before it are still recorded.
 */
void pfw_wrap_quick_exit(int status)
{
	record_exit(PFW_CALL_quick_exit, status);
	pfw_real.quick_exit(status);
	__builtin_unreachable();
}

/*
 * daemon() forks and the parent exits inside libc.  So the parent's trace is ended before the call
 * and resumed if the fork fails.  The child is a forked child; the call's return is its first
 * event.
 */
int pfw_wrap_daemon(int nochdir, int noclose)
{
	struct pfw_probe probe;
	pid_t parent = pfw_os_getpid();
	uint64_t t0 = pfw_clock_ticks();
	bool begun = pfw_probe_host.end && !pfw_probe_in_vfork();
	int ret;

	if (begun)
		pfw_probe_host.end("exit", NULL, false);
	ret = pfw_real.daemon(nochdir, noclose);
	if (begun && pfw_os_getpid() == parent)
		pfw_probe_host.resume();
	if (pfw_probe_bare(&probe, PFW_CALL_daemon)) {
		probe.t0 = t0;
		pfw_probe_end(&probe, ret < 0, PFW_VALUES((uint64_t)ret));
	}
	return ret;
}
