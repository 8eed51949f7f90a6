/* tools/attach/safe.c - which calls, stacks and handlers are safe: see thread.h.
 *
 * A thread is safe at a system call that libc made, if a thread holds no lock of libc or of the dynamic
 * linker during such a call.  In a signal handler, the interrupted code must be at such a call, too.
 */
#include "attach/thread.h"

#include "attach/tracee.h"

#if defined(__x86_64__)

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <unistd.h>

#include "store/sys/open.h"
#include "ui/cli.h"

#define DEEP_BYTES (64u << 20)		/* looked at, to find all return addresses */
#define STACKS_MAX (TRACEE_STACKS - 1u) /* others, below that of a handler */
#define MASK_BYTES 128u			/* the call is among these of pthread_sigmask()'s code */

/*
 * Calls that programs make and that neither an allocator nor the dynamic linker makes.  futex: only
 * FUTEX_WAIT_BITSET, in which conditions, semaphores and joins wait; libc's own locks do not use it.
 */
static bool is_safe_call(uint64_t number, uint64_t futex_operation)
{
	static const uint16_t calls[] = {
		SYS_read,
		SYS_write,
		SYS_pread64,
		SYS_pwrite64,
		SYS_readv,
		SYS_writev,
		SYS_preadv,
		SYS_pwritev,
		SYS_preadv2,
		SYS_pwritev2,
		SYS_poll,
		SYS_ppoll,
		SYS_select,
		SYS_pselect6,
		SYS_epoll_wait,
		SYS_epoll_pwait,
		SYS_nanosleep,
		SYS_clock_nanosleep,
		SYS_accept,
		SYS_accept4,
		SYS_connect,
		SYS_recvfrom,
		SYS_recvmsg,
		SYS_recvmmsg,
		SYS_sendto,
		SYS_sendmsg,
		SYS_sendmmsg,
		SYS_sendfile,
		SYS_wait4,
		SYS_waitid,
		SYS_pause,
		SYS_fsync,
		SYS_fdatasync,
		SYS_sched_yield,
		SYS_rt_sigtimedwait,
		SYS_lseek,
		SYS_getpid,
		SYS_getppid,
		SYS_ioctl,
	};

	if (number == SYS_futex)
		return (futex_operation & 0x7f) == 9 /* FUTEX_WAIT_BITSET */;
	for (size_t i = 0; i < CLI_ARRAY_LEN(calls); i++)
		if (calls[i] == number)
			return true;
	return false;
}

/* The recorder waits for room in a ring: a thread that makes many calls does little else if its writer
 * gets no processor. */
static bool is_recorders_wait(const struct tracee *tracee, uint64_t number, uint64_t pc)
{
	const struct tracee_map *map = tracee_map_of(tracee, pc);

	return number == SYS_futex && map && map->executable && strstr(map->path, "/libpfw.so");
}

static bool is_safe_place(const struct tracee *tracee, uint64_t number, uint64_t futex_operation,
			  uint64_t pc)
{
	return (is_safe_call(number, futex_operation) && tracee_is_libc(tracee, pc)) ||
	       is_recorders_wait(tracee, number, pc);
}

bool thread_waits(const struct tracee *tracee, pid_t tid)
{
	unsigned long long number, argument[6], stack, pc;
	char path[64], line[256] = "";
	int fd, read_now;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", (int)tracee->pid, (int)tid);
	fd = pfw_open_file(path, 0, NULL);
	if (fd < 0)
		return false;
	read_now = (int)read(fd, line, sizeof(line) - 1);
	close(fd);
	return read_now > 0 &&
	       sscanf(line, "%llu %llx %llx %llx %llx %llx %llx %llx %llx", &number, &argument[0],
		      &argument[1], &argument[2], &argument[3], &argument[4], &argument[5], &stack,
		      &pc) == 9 &&
	       is_safe_place(tracee, number, argument[1], pc);
}

/* Words of a signal handler's frame behind its return address: struct rt_sigframe of the kernel. */
enum { FRAME_SP = 21, FRAME_PC = 22, FRAME_SEGMENTS = 24, FRAME_WORDS };

#define USER_CODE \
	0x33u /* the code segment of 64-bit programs: no other can have been interrupted */

/*
 * Whether what a handler interrupted was at a safe call.  The result has replaced the call's number, so
 * this must be in the code: mov $number, %eax; syscall.  The program may also have been unblocking
 * signals; libc itself does that elsewhere.
 */
static bool interrupted_safely(const struct tracee *tracee, uint64_t pc)
{
	uint64_t mask = tracee_function(tracee, "pthread_sigmask");
	unsigned char code[9]; /* pc is behind the call or, if it is to be made again, before it */
	uint32_t number;

	if (!tracee_is_libc(tracee, pc) || !tracee_read(tracee, pc - 7, code, sizeof(code)))
		return false;
	for (int i = 0; i <= 2; i += 2) {
		if (code[i] != 0xb8 || code[i + 5] != 0x0f || code[i + 6] != 0x05)
			continue;
		memcpy(&number, code + i + 1, sizeof(number));
		return is_safe_call(number, 0) || (number == SYS_rt_sigprocmask && mask &&
						   pc > mask && pc - mask < MASK_BYTES);
	}
	return false;
}

static void free_stack(const struct tracee *tracee, uint64_t *words, unsigned level)
{
	if (words != tracee->stack[level])
		free(words);
}

/* The words of a stack, from its pointer on; `level` of such stacks at a time.  NULL: they cannot be
 * read. */
static uint64_t *read_stack(const struct tracee *tracee, uint64_t stack, uint64_t most,
			    unsigned level, size_t *count)
{
	const struct tracee_map *map = tracee_map_of(tracee, stack);
	uint64_t bytes = map ? map->end - stack : 0;
	uint64_t *words = tracee->stack[level];

	*count = (bytes < most ? bytes : most) / 8;
	if (*count * 8 > TRACEE_STACK_BYTES)
		words = malloc(*count * 8);
	if (*count && words && tracee_read(tracee, stack, words, *count * 8))
		return words;
	free_stack(tracee, words, level);
	return NULL;
}

/* The first return address of a signal handler from words[at] on, libc's mov $15, %rax; syscall; or
 * count. */
static size_t find_frame(const struct tracee *tracee, const uint64_t *words, size_t at,
			 size_t count)
{
	static const unsigned char restorer[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	unsigned char code[sizeof(restorer)];

	while (at < count && !(tracee_is_libc(tracee, words[at]) &&
			       tracee_read(tracee, words[at], code, sizeof(code)) &&
			       !memcmp(code, restorer, sizeof(code))))
		at++;
	return at;
}

/* Whether a handler's frame is what an ended one left behind, or the handler interrupted a safe call. */
static bool is_safe_frame(const struct tracee *tracee, const uint64_t *frame, bool *live)
{
	*live = (frame[FRAME_SEGMENTS] & 0xffff) == USER_CODE;
	return !*live || interrupted_safely(tracee, frame[FRAME_PC]);
}

/* Whether no signal handler is on the stack, or each has interrupted a safe call. */
static bool is_safe_stack(const struct tracee *tracee, uint64_t stack, unsigned stacks)
{
	size_t count, at = 0;
	uint64_t *words = read_stack(tracee, stack, TRACEE_STACK_BYTES, stacks, &count);
	bool safe = words != NULL, live;

	for (; safe && (at = find_frame(tracee, words, at, count)) < count; at++) {
		uint64_t before;

		if (at + FRAME_WORDS > count) {
			safe = false;
			break;
		}
		safe = is_safe_frame(tracee, words + at, &live);
		before = words[at + FRAME_SP];
		/* The handler runs on a stack of its own (sigaltstack). */
		if (safe && live && (before < stack || before - stack >= count * 8))
			safe = stacks && is_safe_stack(tracee, before, stacks - 1);
	}
	free_stack(tracee, words, stacks);
	return safe;
}

bool thread_is_safe(const struct thread *thread)
{
	const struct user_regs_struct *regs = (const struct user_regs_struct *)thread->registers;
	unsigned char code[2];

	return (int64_t)regs->orig_rax >= 0 &&
	       is_safe_place(thread->tracee, regs->orig_rax, regs->rsi, regs->rip) &&
	       tracee_read(thread->tracee, regs->rip - 2, code, 2) && code[0] == 0x0f &&
	       code[1] == 0x05 &&
	       !tracee_thread_state(thread->tracee, thread->tracee->pid, thread->tid).has_signal &&
	       is_safe_stack(thread->tracee, regs->rsp, STACKS_MAX);
}

/* ---- outside ---- */

struct range {
	uint64_t start, end;
};

static bool leads_out(const struct range *code, const uint64_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (words[i] >= code->start && words[i] < code->end)
			return false;
	return true;
}

/* Words below the stack pointer are not return addresses. */
static bool is_outside_stack(const struct tracee *tracee, uint64_t stack, const struct range *code,
			     unsigned stacks)
{
	uint64_t from = stack & ~UINT64_C(7);
	const struct tracee_map *map = tracee_map_of(tracee, from);
	size_t count, at = 0;
	uint64_t *words = read_stack(tracee, from, DEEP_BYTES, stacks, &count);
	bool outside = words && map->end - from <= DEEP_BYTES && leads_out(code, words, count),
	     live;

	for (; outside && (at = find_frame(tracee, words, at, count)) < count; at++) {
		uint64_t before;

		if (at + FRAME_WORDS > count)
			break;
		is_safe_frame(tracee, words + at, &live);
		before = words[at + FRAME_SP];
		if (live && (before < from || before - from >= count * 8))
			outside = stacks && is_outside_stack(tracee, before, code, stacks - 1);
	}
	free_stack(tracee, words, stacks);
	return outside;
}

bool thread_is_outside(const struct thread *thread, uint64_t start, uint64_t end)
{
	const struct user_regs_struct *regs = (const struct user_regs_struct *)thread->registers;
	const struct range code = { start, end };

	return leads_out(&code, thread->registers, sizeof(*regs) / 8) &&
	       is_outside_stack(thread->tracee, regs->rsp, &code, STACKS_MAX);
}

#endif
