/* test_stack.c - stacks of known functions, from everywhere; and nothing on the way faults. */
#define _GNU_SOURCE
#include "recorder/stack/stack.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/settings/config.h"
#include "common/settings/kinds.h"
#include "random.h"
#include "recorder/guest/peek.h"
#include "recorder/spool/ring.h"
#include "recorder/spool/stacks.h"
#include "recorder/stack/cfi.h"
#include "recorder/stack/modules.h"

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#define ROLLED __attribute__((noinline, optnone))
#else
#define NOINLINE __attribute__((noinline, noclone, noipa))
#define ROLLED
#endif

static struct pfw_spool_header header;
static struct pfw_stack_thread thread;

static int setup(void **state)
{
	struct pfw_config config = { .stack = { .every = 1 } };
	struct pfw_stacks_chunk *chunk;

	(void)state;
	chunk = mmap(NULL, sizeof(*chunk), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	assert_ptr_not_equal(chunk, MAP_FAILED);
	memset(&header, 0, sizeof(header));
	memset(&thread, 0, sizeof(thread));
	pfw_ring_host.header = &header;
	pfw_stack_init(&config);
	pfw_stacks_use(chunk);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	munmap(pfw_stacks, sizeof(*pfw_stacks));
	pfw_stacks_use(NULL);
	return 0;
}

/* The address in memory of a frame; 0: it is none of native code. */
static uint64_t address_of(uint32_t stack, unsigned n)
{
	const _Atomic uint64_t *frame;
	unsigned count = pfw_stack_frames(pfw_stacks, stack, &frame);

	if (n >= count || frame[n] >> PFW_FRAME_KIND_SHIFT != PFW_FRAME_NATIVE)
		return 0;
	return (frame[n] & PFW_FRAME_ADDRESS_MASK) +
	       pfw_stacks->module[frame[n] >> PFW_FRAME_MODULE_SHIFT].bias;
}

static bool is_cut(uint32_t stack)
{
	const _Atomic uint64_t *frame;
	unsigned count = pfw_stack_frames(pfw_stacks, stack, &frame);

	return count && frame[count - 1] >> PFW_FRAME_KIND_SHIFT == PFW_FRAME_CUT;
}

/* Each function of a chain notes where its caller goes on. */
static uint64_t returns[64];
static unsigned calls;
static uint32_t taken;

#define NOTE() (returns[calls++] = (uint64_t)(uintptr_t)__builtin_return_address(0))

/* The noted addresses are in the stack, in this order, and nothing of this program between. */
static void check_noted(void)
{
	unsigned n = 0;

	for (unsigned i = calls; i-- > 0;) {
		while (address_of(taken, n) && address_of(taken, n) != returns[i])
			n++;
		assert_true(address_of(taken, n) == returns[i]);
	}
}

NOINLINE static void take(void)
{
	NOTE();
	taken = pfw_stack_take(&thread);
	__asm__ volatile("" ::: "memory"); /* no tail call */
}

NOINLINE static int compare(const void *left, const void *right)
{
	NOTE();
	if (!taken)
		take();
	else
		calls--;
	return *(const int *)left - *(const int *)right;
}

static void through_a_callback_of_libc(void **state)
{
	int number[] = { 3, 1, 2 };

	(void)state;
	calls = taken = 0;
	qsort(number, 3, sizeof(*number), compare);
	check_noted();
	assert_false(is_cut(taken));
	assert_int_equal(number[2], 3);
}

/* With the frame pointer in another use, and with a frame of a size known at run time. */
NOINLINE static unsigned aligned(unsigned n)
{
	_Alignas(64) volatile char buf[64];
	volatile char *more = __builtin_alloca(n * 16 + 1);

	NOTE();
	buf[0] = more[0] = (char)n;
	take();
	return (unsigned)(uintptr_t)buf % 64 + (unsigned)(buf[0] - more[0]);
}

static void through_aligned_and_variable_frames(void **state)
{
	(void)state;
	calls = 0;
	assert_int_equal(aligned(7), 0);
	check_noted();
	assert_false(is_cut(taken));
}

static jmp_buf out;

__attribute__((noreturn)) NOINLINE static void never_returns(void)
{
	NOTE();
	take();
	longjmp(out, 1);
}

NOINLINE static void ends_with_a_call(void)
{
	NOTE();
	never_returns();
}

static void through_a_call_that_ends_its_function(void **state)
{
	(void)state;
	calls = 0;
	if (!setjmp(out))
		ends_with_a_call();
	check_noted();
	assert_false(is_cut(taken));
}

static uint64_t interrupted;

static void handler(int number, siginfo_t *info, void *context)
{
	const ucontext_t *user = context;

	(void)number;
	(void)info;
#ifdef __x86_64__
	interrupted = (uint64_t)user->uc_mcontext.gregs[REG_RIP];
#else
	interrupted = user->uc_mcontext.pc;
#endif
	take();
}

NOINLINE static void raises(void)
{
	NOTE();
	raise(SIGUSR1);
	__asm__ volatile("" ::: "memory");
}

static void from_a_signal_handler_on_its_own_stack(void **state)
{
	static char memory[65536];
	stack_t stack = { .ss_sp = memory, .ss_size = sizeof(memory) },
		none = { .ss_flags = SS_DISABLE };
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	bool found = false;

	(void)state;
	calls = 0;
	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raises();
	sigaltstack(&none, NULL);
	for (unsigned n = 0; address_of(taken, n); n++)
		found |= address_of(taken, n) == interrupted;
#ifdef __x86_64__ /* in an emulator, handlers return to code that is in no module */
	assert_true(found);
	calls--; /* take()'s caller is known; then the interrupted code's */
	check_noted();
	assert_false(is_cut(taken));
#else
	assert_true(found || is_cut(taken));
#endif
}

/* A stack is at most 64 frames, the last of which says that it is longer. */
NOINLINE static unsigned deeper(unsigned n)
{
	unsigned more = n ? deeper(n - 1) : 0;

	if (!n)
		taken = pfw_stack_take(&thread);
	__asm__ volatile("" ::: "memory");
	return more + 1;
}

static void a_deep_stack_is_cut(void **state)
{
	const _Atomic uint64_t *frame;

	(void)state;
	assert_int_equal(deeper(200), 201);
	assert_int_equal(pfw_stack_frames(pfw_stacks, taken, &frame), PFW_STACK_FRAMES);
	assert_true(is_cut(taken));
	assert_true(address_of(taken, PFW_STACK_FRAMES - 2));
}

/* Each turn calls from the same place. */
ROLLED static void the_same_stack_has_the_same_number(void **state)
{
	uint32_t first = 0;

	(void)state;
	for (int i = 0; i < 3; i++) {
		calls = 0;
		take();
		assert_true(!first || taken == first);
		first = taken;
	}
	calls = 0;
	take();
	assert_int_not_equal(taken, first);
}

static ucontext_t back, coroutine;

static void on_a_coroutine(void)
{
	calls = 0;
	take();
}

/* Its stack is gone afterwards, and a smaller one comes to its place. */
static void on_the_stack_of_a_coroutine(void **state)
{
	char *memory = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	for (size_t bytes = 256 << 10; bytes >= 16 << 10; bytes /= 2) {
		char *stack = memory + (256 << 10);

		mprotect(stack, bytes, PROT_READ | PROT_WRITE);
		getcontext(&coroutine);
		coroutine.uc_stack = (stack_t){ .ss_sp = stack, .ss_size = bytes };
		coroutine.uc_link = &back;
		makecontext(&coroutine, on_a_coroutine, 0);
		swapcontext(&back, &coroutine);
		assert_true(taken != 0);
		mmap(stack, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	}
	munmap(memory, 1 << 20);
	calls = 0;
	take();
	check_noted();
}

#ifdef __x86_64__
/* Code without tables: there is only the frame pointer, which is right in the one, and in the other
 * what the caller says. */
__asm__(".text\n"
	"without_tables:\n\tpush %rbp\n\tmov %rsp, %rbp\n\tcall *%rdi\n\tpop %rbp\n\tret\n"
	"with_this:\n\tpush %rbp\n\tmov %rsi, %rbp\n\tcall *%rdi\n\tpop %rbp\n\tret\n");
void without_tables(void (*call)(void));
void with_this(void (*call)(void), uint64_t frame_pointer);

NOINLINE static void by_frame_pointer(void)
{
	NOTE();
	without_tables(take);
	__asm__ volatile("" ::: "memory");
}

static void by_the_frame_pointer_where_there_are_no_tables(void **state)
{
	(void)state;
	calls = 0;
	by_frame_pointer();
	check_noted();
	assert_false(is_cut(taken));
}

static void a_wrong_frame_pointer_leads_nowhere(void **state)
{
	const uint64_t here = (uint64_t)(uintptr_t)&state, junk[] = {
		0,
		1,
		8,
		~0ull,
		~7ull,
		1ull << 63,
		0x7fffffffffff,
		(uint64_t)(uintptr_t)compare,
		here,
		here + 1,
		here & ~4095ull,
		(here | 4095) - 7,
		pfw_stacks->chunk.bytes,
	};

	for (size_t i = 0; i < sizeof(junk) / sizeof(*junk); i++) {
		calls = 0;
		with_this(take, junk[i]);
		assert_true(taken != 0);
	}
	for (int i = 0; i < 20000; i++) {
		calls = 0;
		with_this(take, here - 32768 + any_below(1 << 20));
	}
}
#endif

/* The tables of this program, copied, and damaged. */
static void damaged_tables_are_no_rule(void **state)
{
	uint64_t pc = (uint64_t)(uintptr_t)compare + 4, from, bytes = 0, delta, word;
	struct pfw_rule rule, other;
	struct pfw_module module;
	char *copy;

	(void)state;
	assert_true(pfw_module_find(&module, pc));
	rule = pfw_cfi_rule(&module.cfi, pc);
	assert_int_not_equal(rule.kind, PFW_RULE_NONE);
	from = module.cfi.header;
	while (from + bytes < module.cfi.end &&
	       pfw_peek(&word, (const void *)((from + bytes) & ~7ull), sizeof(word)))
		bytes = ((from + bytes) | 4095) + 1 - from;
	copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(pfw_peek(copy, (void *)(uintptr_t)from, bytes));
	delta = (uint64_t)(uintptr_t)copy - from;
	module.cfi = (struct pfw_cfi){ from + delta, from + delta, from + delta + bytes };
	other = pfw_cfi_rule(&module.cfi, pc + delta);
	assert_memory_equal(&rule, &other, sizeof(rule));
	for (int i = 0; i < 20000; i++) {
		uint64_t at = any_below(i % 2 ? 32 : bytes);

		copy[at] ^= (char)(1 + any_below(255));
		other = pfw_cfi_rule(&module.cfi, pc + delta - any_below(256));
		assert_in_range(other.kind, PFW_RULE_NONE, PFW_RULE_SIGNAL);
		if (i % 8 == 0)
			pfw_peek(copy, (void *)(uintptr_t)from, bytes < 4096 ? bytes : 4096);
	}
	munmap(copy, bytes);
}

static void stacks_beyond_the_room_are_counted(void **state)
{
	uint64_t frame[PFW_STACK_FRAMES] = { 0 }, added = 0;
	bool fresh;
	int number = 0;

	(void)state;
	for (frame[0] = 1; pfw_stacks_add(frame, PFW_STACK_FRAMES); frame[0]++)
		added++;
	assert_int_equal(added, (PFW_STACK_WORDS - 1) / (PFW_STACK_FRAMES + 1));
	calls = 0;
	take();
	take();
	for (unsigned i = 0; i < 2 * PFW_STACK_MODULES; i++) {
		number = pfw_stacks_module(4096 * i, 4096 * i + 1, i, &fresh);
	}
	assert_int_equal(number, -1);
}

static void each_nth_call_of_a_thread_is_due(void **state)
{
	struct pfw_stack_thread one = { 0 }, two = { 0 };

	(void)state;
	pfw_stack_every = 3;
	pfw_stack_ticks = 0;
	for (int i = 1; i <= 9; i++) {
		assert_int_equal(pfw_stack_due(&one, 0), i % 3 == 0);
		if (i % 2)
			assert_int_equal(pfw_stack_due(&two, 0), i == 5);
	}
}

static void what_the_variable_takes(void **state)
{
	static const char *const bad[] = {
		"",	    "1ms",    "min",	 "min:",    "min:0",	"min:5",
		"min:-1ms", "every:", "every:0", "every:x", "every:1k", "min:1ms,every:2"
	};
	struct pfw_stack_when when = { 0 };

	(void)state;
	assert_int_equal(pfw_parse_stack("min:1.5ms", &when), PFW_PARSED);
	assert_true(when.min_ns == 1500000 && !when.every);
	assert_int_equal(pfw_parse_stack("every:1000", &when), PFW_PARSED);
	assert_true(when.every == 1000 && !when.min_ns);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(pfw_parse_stack(bad[i], &when), PFW_PARSED_BAD);
	assert_true(when.every == 1000 && !when.min_ns);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(through_a_callback_of_libc),
		TEST(through_aligned_and_variable_frames),
		TEST(through_a_call_that_ends_its_function),
		TEST(from_a_signal_handler_on_its_own_stack),
		TEST(a_deep_stack_is_cut),
		TEST(the_same_stack_has_the_same_number),
		TEST(on_the_stack_of_a_coroutine),
#ifdef __x86_64__
		TEST(by_the_frame_pointer_where_there_are_no_tables),
		TEST(a_wrong_frame_pointer_leads_nowhere),
#endif
		TEST(damaged_tables_are_no_rule),
		TEST(stacks_beyond_the_room_are_counted),
		TEST(each_nth_call_of_a_thread_is_due),
		TEST(what_the_variable_takes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
