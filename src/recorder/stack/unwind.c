/* recorder/stack/unwind.c - see unwind.h. */
#include "recorder/stack/unwind.h"

#include <sys/auxv.h>

#include "common/base/os.h"
#include "recorder/guest/peek.h"
#include "recorder/spool/stacks.h"

#define PAGE 4096u
#define FAR (1ull << 30)	/* further than any stack reaches */
#define FRAME_MAX (16ull << 20) /* bytes of one frame */
#define LOOK_PAGES 2048u	/* most pages of a thread's stack that are looked at, once */
#define LOOKS 4u
#define EXTEND_MAX (1ull << 20)

/* ---- where the stack is ---- */

static uint64_t main_top; /* the kernel's texts, above the main thread's stack */

void pfw_unwind_init(void)
{
	main_top = getauxval(AT_RANDOM) & ~7ull;
}

static uint64_t thread_pointer(void)
{
	uint64_t pointer;

#ifdef __x86_64__
	__asm__("mov %%fs:0, %0" : "=r"(pointer));
#else
	__asm__("mrs %0, tpidr_el0" : "=r"(pointer));
#endif
	return pointer;
}

/* Where this thread's own stack would end: libc puts a thread's data above it. */
static uint64_t own_top(uint64_t sp)
{
	uint64_t top = thread_pointer();

	if (sp < top && top - sp < FAR)
		return top & ~7ull;
	return sp < main_top && main_top - sp < FAR ? main_top : 0;
}

/* Whether the page of an aligned word is there.  (valgrind would answer anything that is not
 * copied.) */
static bool is_there(uint64_t at)
{
	uint64_t word;

	return pfw_peek(&word, (const void *)(uintptr_t)at, sizeof(word));
}

/* Whether everything from sp to the top is there.  Between another stack (of a coroutine, or of a
 * signal handler) and the thread's own lies a page that is not. */
static bool look(struct pfw_stack_thread *thread, uint64_t sp)
{
	uint64_t top = own_top(sp), end = thread->top && thread->low < top ? thread->low : top;

	if (!top || thread->looks == LOOKS || (thread->top && (thread->top != top || sp > top)) ||
	    end - sp > (uint64_t)LOOK_PAGES * PAGE)
		return false;
	for (uint64_t at = sp & ~(PAGE - 1ull); at < end; at += PAGE) {
		if (!is_there(at)) {
			thread->looks++;
			return false;
		}
	}
	thread->low = sp & ~(PAGE - 1ull);
	thread->top = top;
	return true;
}

static void begin_at(struct pfw_unwind *walk, uint64_t sp)
{
	struct pfw_stack_thread *thread = walk->thread;

	walk->sp = walk->low = sp;
	walk->high = (sp | (PAGE - 1)) + 1; /* in use, so it is there */
	if ((sp >= thread->low && sp < thread->top) || look(thread, sp))
		walk->high = thread->top;
}

/* More of a stack that is not the thread's own. */
static bool extend(struct pfw_unwind *walk, uint64_t at)
{
	if (at < walk->low || at - walk->high >= EXTEND_MAX)
		return false;
	while (at >= walk->high) {
		if (walk->high == walk->thread->top || !is_there(walk->high))
			return false;
		walk->high += PAGE;
	}
	return true;
}

static __attribute__((no_sanitize("address", "thread"))) bool load(struct pfw_unwind *walk,
								   uint64_t at, uint64_t *word)
{
	if (at % 8 || ((at < walk->low || at >= walk->high) && !extend(walk, at)))
		return false;
	*word = *(const volatile uint64_t *)(uintptr_t)at;
	return true;
}

/* ---- rules, kept ---- */

#define RULES 4096u

/* `check` is the address and the module, mixed with the rule: an entry half written is none. */
static struct {
	_Atomic uint64_t check, rule;
} rules[RULES];

static struct pfw_rule rule_of(const struct pfw_module *module, uint64_t pc)
{
	uint64_t key = pfw_stacks_mix(module->stamp, pc), word;
	struct pfw_rule rule;
	unsigned at = (unsigned)(key >> 32) % RULES;

	word = atomic_load_explicit(&rules[at].rule, memory_order_relaxed);
	if ((atomic_load_explicit(&rules[at].check, memory_order_relaxed) ^ word) == key) {
		__builtin_memcpy(&rule, &word, sizeof(rule));
		return rule;
	}
	rule = pfw_cfi_rule(&module->cfi, pc);
	__builtin_memcpy(&word, &rule, sizeof(word));
	atomic_store_explicit(&rules[at].check, key ^ word, memory_order_relaxed);
	atomic_store_explicit(&rules[at].rule, word, memory_order_relaxed);
	return rule;
}

/* ---- steps ---- */

__attribute__((noinline)) void pfw_unwind_begin(struct pfw_unwind *walk,
						struct pfw_stack_thread *thread)
{
	walk->thread = thread;
	walk->modules = walk->newest = 0;
	walk->exact = walk->signal = walk->by_fp = false;
	walk->pc = (uint64_t)(uintptr_t)__builtin_return_address(0);
	walk->fp = *(const uint64_t *)__builtin_frame_address(0);
	begin_at(walk, (uint64_t)(uintptr_t)__builtin_dwarf_cfa());
}

const struct pfw_module *pfw_unwind_module(struct pfw_unwind *walk)
{
	uint64_t pc = walk->pc;
	struct pfw_module *module;

	for (unsigned i = 0; i < walk->modules; i++) {
		const struct pfw_cfi *cfi = &walk->module[i].cfi;

		if (pc - cfi->start < cfi->end - cfi->start)
			return &walk->module[i];
	}
	module = &walk->module[walk->newest];
	if (!pfw_module_find(module, pc)) {
		module->cfi = (struct pfw_cfi){ 0, 0, 0 };
		return NULL;
	}
	pfw_module_enter(module);
	walk->newest = (walk->newest + 1) % PFW_UNWIND_MODULES;
	if (walk->modules < PFW_UNWIND_MODULES)
		walk->modules++;
	return module;
}

/* A frame of the kernel's, from which the interrupted one goes on. */
static enum pfw_unwind_end step_signal(struct pfw_unwind *walk)
{
#ifdef __x86_64__
	const uint64_t registers = walk->sp + 40;
	const unsigned fp = 10, sp = 15, pc = 16;
#else
	const uint64_t registers = walk->sp + 128 + 176 + 8;
	const unsigned fp = 29, sp = 31, pc = 32;
#endif
	uint64_t stack;

	if (!load(walk, registers + 8 * fp, &walk->fp) || !load(walk, registers + 8 * sp, &stack) ||
	    !load(walk, registers + 8 * pc, &walk->pc))
		return PFW_UNWIND_CUT;
	walk->exact = walk->signal = true;
	begin_at(walk, stack);
	return PFW_UNWIND_ON;
}

/* Without a rule: code that was made at run time, or by hand, may keep a frame pointer.  A wrong
 * one leads out of the stack, or to no module's code. */
static enum pfw_unwind_end step_fp(struct pfw_unwind *walk)
{
	uint64_t fp = walk->fp, caller;

	if (fp < walk->sp || !load(walk, fp, &walk->fp) || !load(walk, fp + 8, &caller))
		return PFW_UNWIND_CUT;
	walk->sp = fp + 16;
	walk->pc = caller;
#ifndef __x86_64__
	walk->by_fp = true; /* the frame pointer is at the low end of the frame */
#endif
	return pfw_unwind_module(walk) ? PFW_UNWIND_ON : PFW_UNWIND_CUT;
}

/* Apply a rule of compiled code. */
static bool follow(struct pfw_unwind *walk, const struct pfw_rule *rule, uint64_t *caller)
{
	uint64_t cfa =
		(rule->kind == PFW_RULE_SP ? walk->sp : walk->fp) + (uint64_t)(int64_t)rule->offset;
	uint64_t fp = (uint64_t)(8ll * rule->fp_words), ra = (uint64_t)(8ll * rule->ra_words);

	if (rule->kind == PFW_RULE_FP_AT) {
		if (!load(walk, cfa, &cfa))
			return false;
		ra += cfa;
		fp += walk->fp;
	} else {
		ra += cfa + fp;
		fp = rule->fp_words ? cfa + fp : 0;
	}
	if (cfa <= walk->sp || cfa - walk->sp >= FRAME_MAX || !load(walk, ra, caller))
		return false;
	walk->sp = cfa;
	return !fp || load(walk, fp, &walk->fp);
}

static uint64_t stripped(uint64_t address)
{
#ifdef __aarch64__
	/* xpaclri, which older processors take for a nop: without the signature */
	register uint64_t x30 __asm__("x30") = address;

	__asm__("hint 7" : "+r"(x30));
	return x30;
#else
	return address;
#endif
}

enum pfw_unwind_end pfw_unwind_up(struct pfw_unwind *walk, const struct pfw_module *module)
{
	struct pfw_rule rule = { .kind = PFW_RULE_NONE };
	uint64_t caller;

	/* A call may be the last instruction of its function: the return address is the next
	 * one's. */
	if (module && !walk->by_fp)
		rule = rule_of(module, walk->pc - !walk->exact);
	walk->exact = false;
	if (rule.kind == PFW_RULE_END)
		return PFW_UNWIND_DONE;
	if (rule.kind == PFW_RULE_SIGNAL)
		return step_signal(walk);
	if (rule.kind == PFW_RULE_NONE)
		return step_fp(walk);
	if (!follow(walk, &rule, &caller))
		return PFW_UNWIND_CUT;
	walk->pc = stripped(caller);
	return walk->pc ? PFW_UNWIND_ON : PFW_UNWIND_DONE;
}
