/* common/base/seccomp.c - runs a filter with a number, and with arguments that may be anything.
 *
 * Jumps only lead forward, so one look at each instruction in order is enough: where two ways meet,
 * a value is known if both have the same.
 */
#define PFW_OS_NO_POISON
#include "common/base/seccomp.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>

#include "common/base/os.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif

static enum pfw_seccomp answer_of(uint32_t action)
{
	switch (action & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_ALLOW:
	case SECCOMP_RET_LOG:
		return PFW_SECCOMP_ALLOWS;
	case SECCOMP_RET_ERRNO:
	case SECCOMP_RET_TRACE: /* without a tracer: ENOSYS */
		return PFW_SECCOMP_REFUSES;
	default:
		return PFW_SECCOMP_KILLS;
	}
}

/* The instruction is reached with this accumulator, too. */
static void reach(struct pfw_seccomp_state *state, struct pfw_seccomp_state from)
{
	from.known = from.known &&
		     (!state->reached || (state->known && state->value == from.value));
	from.reached = true;
	*state = from;
}

/* The accumulator after an instruction that neither jumps nor returns. */
static struct pfw_seccomp_state step(const struct sock_filter *at, struct pfw_seccomp_state now,
				     long number)
{
	switch (at->code) {
	case BPF_LD | BPF_W | BPF_ABS:
		now.known = at->k == offsetof(struct seccomp_data, nr) ||
			    at->k == offsetof(struct seccomp_data, arch);
		now.value = at->k == offsetof(struct seccomp_data, nr) ? (uint32_t)number : ARCH;
		break;
	case BPF_LD | BPF_IMM:
		now.known = true;
		now.value = at->k;
		break;
	case BPF_ALU | BPF_AND | BPF_K:
		now.value &= at->k;
		break;
	default: /* the index register and the memory are not looked at */
		if (BPF_CLASS(at->code) == BPF_LD || BPF_CLASS(at->code) == BPF_ALU ||
		    at->code == (BPF_MISC | BPF_TXA))
			now.known = false;
	}
	return now;
}

/* Which ways a jump may take: 1 = jt, 2 = jf. */
static unsigned ways(const struct sock_filter *at, struct pfw_seccomp_state now)
{
	if (!now.known || BPF_SRC(at->code) != BPF_K)
		return 3;
	switch (BPF_OP(at->code)) {
	case BPF_JEQ:
		return now.value == at->k ? 1 : 2;
	case BPF_JGT:
		return now.value > at->k ? 1 : 2;
	case BPF_JGE:
		return now.value >= at->k ? 1 : 2;
	case BPF_JSET:
		return now.value & at->k ? 1 : 2;
	default:
		return 3;
	}
}

enum pfw_seccomp pfw_seccomp_ask(const struct sock_filter *filter, unsigned count, long number,
				 struct pfw_seccomp_state *state)
{
	enum pfw_seccomp worst = PFW_SECCOMP_ALLOWS, answer;

	memset(state, 0, count * sizeof(*state));
	state[0].reached = true;
	for (unsigned i = 0; i < count && worst != PFW_SECCOMP_KILLS; i++) {
		const struct sock_filter *at = &filter[i];
		uint32_t to[2] = { at->jt, at->jf };
		unsigned way = 1;

		if (!state[i].reached)
			continue;
		if (BPF_CLASS(at->code) == BPF_RET) {
			answer = BPF_RVAL(at->code) == BPF_K ? answer_of(at->k)
				 : state[i].known	     ? answer_of(state[i].value)
							     : PFW_SECCOMP_KILLS;
			worst = answer > worst ? answer : worst;
			continue;
		}
		if (BPF_CLASS(at->code) != BPF_JMP)
			to[0] = 0;
		else if (BPF_OP(at->code) == BPF_JA)
			to[0] = at->k;
		else
			way = ways(at, state[i]);
		for (unsigned j = 0; j < 2; j++) {
			if (!(way & 1u << j))
				continue;
			if (to[j] >= count - 1 - i) /* the kernel will refuse it */
				return PFW_SECCOMP_KILLS;
			reach(&state[i + 1 + to[j]], step(at, state[i], number));
		}
	}
	return worst;
}

/* ---- our calls ---- */

/* The system calls of the recorder, in any thread; WRITER: the writer's thread needs the call. */
/* clang-format off */
#define CALL(name) { #name, SYS_##name, false },
#define WRITER(name) { #name, SYS_##name, true },
static const struct {
	const char *name;
	long number;
	bool writer;
} calls[] = {
	WRITER(futex) WRITER(pwrite64) WRITER(mmap) WRITER(munmap) WRITER(fallocate) WRITER(fstatfs)
	WRITER(gettid) WRITER(exit) WRITER(clock_gettime) WRITER(clock_nanosleep)
	{ "futex_waitv", 449, true },
	CALL(clone) CALL(close) CALL(close_range) CALL(faccessat) CALL(fcntl) CALL(flock) CALL(ftruncate) CALL(getcwd)
	CALL(getdents64) CALL(geteuid) CALL(getpeername) CALL(getpid) CALL(getppid) CALL(getsockname)
	CALL(getsockopt) CALL(linkat) CALL(madvise)
	CALL(mkdirat) CALL(mprotect) CALL(munlock) CALL(newfstatat) CALL(openat) CALL(pidfd_getfd)
	CALL(pidfd_open) CALL(ppoll) CALL(prctl) CALL(pread64) CALL(prlimit64) CALL(process_vm_readv) CALL(read)
	CALL(readlinkat) CALL(renameat2) CALL(rt_sigpending) CALL(rt_sigprocmask)
	CALL(rt_sigtimedwait) CALL(tgkill) CALL(uname) CALL(unlinkat) CALL(unshare) CALL(writev)
};
/* clang-format on */

enum pfw_seccomp pfw_seccomp_ask_all(const struct sock_filter *filter, unsigned count,
				     struct pfw_seccomp_state *state, const char **name,
				     bool *writer)
{
	enum pfw_seccomp worst = PFW_SECCOMP_ALLOWS, answer;

	*writer = true;
	for (unsigned i = 0; i < PFW_ARRAY_LEN(calls); i++) {
		answer = pfw_seccomp_ask(filter, count, calls[i].number, state);
		*writer &= answer == PFW_SECCOMP_ALLOWS || !calls[i].writer;
		if (answer <= worst)
			continue;
		worst = answer;
		*name = calls[i].name;
	}
	return worst;
}
