/* test_seccomp.c - what a filter does with a call is known beforehand, at least its worst. */
#include "common/base/seccomp.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "common/base/os.h"

#define MOST 24u
#define COUNT(code) (unsigned)(sizeof(code) / sizeof(*(code)))
#define FIELD(name) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, name))
#define ANSWER(action) BPF_STMT(BPF_RET | BPF_K, action)
#define IF(what, k, yes, no) BPF_JUMP(BPF_JMP | (what) | BPF_K, k, yes, no)

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif

static struct pfw_seccomp_state state[BPF_MAXINSNS];

static enum pfw_seccomp ask(const struct sock_filter *code, unsigned count, long number)
{
	return pfw_seccomp_ask(code, count, number, state);
}

static void test_number_and_processor(void **unused)
{
	static const struct sock_filter code[] = {
		FIELD(arch),
		IF(BPF_JEQ, ARCH, 1, 0),
		ANSWER(SECCOMP_RET_KILL_PROCESS),
		FIELD(nr),
		IF(BPF_JGE, 100, 3, 0),
		IF(BPF_JEQ, 7, 0, 1),
		ANSWER(SECCOMP_RET_TRAP),
		ANSWER(SECCOMP_RET_ALLOW),
		IF(BPF_JGT, 200, 0, 1),
		ANSWER(SECCOMP_RET_ERRNO | 1),
		ANSWER(SECCOMP_RET_LOG),
	};

	(void)unused;
	assert_int_equal(ask(code, COUNT(code), 7), PFW_SECCOMP_KILLS);
	assert_int_equal(ask(code, COUNT(code), 8), PFW_SECCOMP_ALLOWS);
	assert_int_equal(ask(code, COUNT(code), 200), PFW_SECCOMP_ALLOWS);
	assert_int_equal(ask(code, COUNT(code), 201), PFW_SECCOMP_REFUSES);
}

/* Of an argument the worst counts; the number that is loaded again is known again. */
static void test_arguments(void **unused)
{
	static const struct sock_filter code[] = {
		FIELD(nr),
		IF(BPF_JEQ, 1, 0, 3),
		FIELD(args[0]),
		IF(BPF_JEQ, 2, 0, 1),
		ANSWER(SECCOMP_RET_USER_NOTIF),
		FIELD(nr),
		IF(BPF_JEQ, 3, 0, 1),
		ANSWER(SECCOMP_RET_TRACE),
		ANSWER(SECCOMP_RET_ALLOW),
	};

	(void)unused;
	assert_int_equal(ask(code, COUNT(code), 1), PFW_SECCOMP_KILLS);
	assert_int_equal(ask(code, COUNT(code), 2), PFW_SECCOMP_ALLOWS);
	assert_int_equal(ask(code, COUNT(code), 3), PFW_SECCOMP_REFUSES);
}

static void test_a_call_of_ours_is_named(void **unused)
{
	static struct sock_filter code[] = {
		FIELD(nr),
		IF(BPF_JEQ, 0, 1, 0),
		ANSWER(SECCOMP_RET_ALLOW),
		ANSWER(SECCOMP_RET_ERRNO | 1),
	};
	const char *name = NULL;
	bool writer;

	(void)unused;
	code[1].k = SYS_flock;
	assert_int_equal(pfw_seccomp_ask_all(code, COUNT(code), state, &name, &writer),
			 PFW_SECCOMP_REFUSES);
	assert_string_equal(name, "flock");
	assert_true(writer);
	code[1].k = SYS_pwrite64;
	assert_int_equal(pfw_seccomp_ask_all(code, COUNT(code), state, &name, &writer),
			 PFW_SECCOMP_REFUSES);
	assert_false(writer);
	code[1].k = SYS_ptrace;
	assert_int_equal(pfw_seccomp_ask_all(code, COUNT(code), state, &name, &writer),
			 PFW_SECCOMP_ALLOWS);
	assert_true(writer);
}

/* ---- random filters, run with random arguments ---- */

static uint32_t next_random(void)
{
	static uint64_t seed = 42;

	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33);
}

static uint32_t random_action(void)
{
	static const uint32_t actions[] = { SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_TRAP,
					    SECCOMP_RET_ALLOW, SECCOMP_RET_LOG };

	return actions[next_random() % COUNT(actions)];
}

static void make_filter(struct sock_filter *code, unsigned count)
{
	static const uint16_t codes[] = {
		BPF_LD | BPF_W | BPF_ABS,
		BPF_LD | BPF_IMM,
		BPF_ALU | BPF_AND | BPF_K,
		BPF_ALU | BPF_ADD | BPF_K,
		BPF_MISC | BPF_TAX,
		BPF_MISC | BPF_TXA,
		BPF_JMP | BPF_JEQ | BPF_K,
		BPF_JMP | BPF_JGT | BPF_K,
		BPF_JMP | BPF_JGE | BPF_K,
		BPF_JMP | BPF_JSET | BPF_K,
		BPF_JMP | BPF_JEQ | BPF_X,
		BPF_JMP | BPF_JA,
		BPF_ST,
		BPF_LD | BPF_MEM,
		BPF_LDX | BPF_IMM,
		BPF_RET | BPF_K,
		BPF_JMP | BPF_JEQ | BPF_K,
		BPF_LD | BPF_W | BPF_ABS,
	};

	for (unsigned i = 0; i < count; i++) {
		unsigned left = count - 1 - i;

		code[i] = (struct sock_filter){ .code = codes[next_random() % COUNT(codes)],
						.k = next_random() % 8 };
		if (i + 1 == count)
			code[i].code = BPF_RET | BPF_K;
		if (code[i].code == (BPF_LD | BPF_W | BPF_ABS))
			code[i].k = next_random() % 16 * 4;
		if (code[i].code == (BPF_RET | BPF_K))
			code[i].k = random_action();
		else if (code[i].code == (BPF_JMP | BPF_JA))
			code[i].k = next_random() % left;
		else if (BPF_CLASS(code[i].code) == BPF_JMP) {
			code[i].jt = (uint8_t)(next_random() % left);
			code[i].jf = (uint8_t)(next_random() % left);
		}
	}
}

static bool holds(const struct sock_filter *at, uint32_t a, uint32_t x)
{
	uint32_t with = BPF_SRC(at->code) == BPF_X ? x : at->k;

	switch (BPF_OP(at->code)) {
	case BPF_JEQ:
		return a == with;
	case BPF_JGT:
		return a > with;
	case BPF_JGE:
		return a >= with;
	default:
		return (a & with) != 0;
	}
}

/* The action, as the kernel would find it. */
static uint32_t run_filter(const struct sock_filter *code, const uint32_t *data)
{
	uint32_t a = 0, x = 0, memory[16] = { 0 };

	for (unsigned i = 0;; i++) {
		const struct sock_filter *at = &code[i];

		switch (at->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			a = data[at->k / 4];
			break;
		case BPF_LD | BPF_IMM:
			a = at->k;
			break;
		case BPF_LDX | BPF_IMM:
			x = at->k;
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= at->k;
			break;
		case BPF_ALU | BPF_ADD | BPF_K:
			a += at->k;
			break;
		case BPF_MISC | BPF_TAX:
			x = a;
			break;
		case BPF_MISC | BPF_TXA:
			a = x;
			break;
		case BPF_ST:
			memory[at->k] = a;
			break;
		case BPF_LD | BPF_MEM:
			a = memory[at->k];
			break;
		case BPF_JMP | BPF_JA:
			i += at->k;
			break;
		case BPF_RET | BPF_K:
			return at->k;
		default:
			i += holds(at, a, x) ? at->jt : at->jf;
		}
	}
}

static void test_no_run_is_worse(void **unused)
{
	struct sock_filter code[MOST], one[1];
	unsigned worst = 0, allowed = 0;

	(void)unused;
	for (unsigned i = 0; i < 30000; i++) {
		unsigned count = 2 + next_random() % (MOST - 2);
		uint32_t data[16], number = next_random() % 8;
		enum pfw_seccomp answer;

		make_filter(code, count);
		answer = ask(code, count, number);
		worst += answer == PFW_SECCOMP_KILLS;
		allowed += answer == PFW_SECCOMP_ALLOWS;
		for (unsigned j = 0; j < 16; j++) {
			for (unsigned k = 0; k < 16; k++)
				data[k] = next_random() % 8;
			data[0] = number;
			data[1] = ARCH;
			one[0] = (struct sock_filter)ANSWER(run_filter(code, data));
			assert_true(ask(one, 1, number) <= answer);
		}
	}
	/* It does not take everything for the worst. */
	assert_true(worst > 1000 && allowed > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_number_and_processor),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_a_call_of_ours_is_named),
		cmocka_unit_test(test_no_run_is_worse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
