/* recorder/spool/stacks.c - see stacks.h. */
#include "recorder/spool/stacks.h"

#include <string.h>

#include "common/base/os.h"
#include "recorder/guest/peek.h"

/* Buckets of stacks: open addressing, insert only, at most three quarters full. */
#define STACKS 8192u
#define STACKS_MAX (STACKS / 4 * 3)
#define CODES_MAX (PFW_STACK_CODES / 4 * 3)

enum state { FREE, CLAIMED, THERE };

struct pfw_stacks_chunk *pfw_stacks;
uint32_t pfw_stacks_epoch;
_Atomic uint32_t pfw_stacks_modules;

static struct index {
	_Atomic uint32_t stacks, codes; /* entries in use, or being added */
	_Atomic uint32_t stack[STACKS];
} index_of;

void pfw_stacks_use(struct pfw_stacks_chunk *chunk)
{
	/* Writing to an empty table would give a forked child private copies of its pages. */
	if (atomic_load(&index_of.stacks))
		memset(&index_of, 0, sizeof(index_of));
	atomic_store(&index_of.codes, 0);
	if (chunk)
		atomic_store(&chunk->words_used, 1);
	atomic_store(&pfw_stacks_modules, 0);
	pfw_stacks_epoch++;
	__atomic_store_n(&pfw_stacks, chunk, __ATOMIC_RELEASE);
}

/* Take `count` from a counter that may reach `most`.  False: that is too much. */
static bool take(_Atomic uint32_t *used, uint32_t count, uint32_t most, uint32_t *at)
{
	*at = atomic_load_explicit(used, memory_order_relaxed);
	do {
		if (count > most - *at)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(used, at, *at + count, memory_order_relaxed,
							memory_order_relaxed));
	return true;
}

/* ---- stacks ---- */

static uint64_t hash_of(const uint64_t *frame, unsigned count)
{
	uint64_t hash = count;

	for (unsigned i = 0; i < count; i++)
		hash = pfw_stacks_mix(hash, frame[i]);
	return hash;
}

static bool is_stack(const struct pfw_stacks_chunk *chunk, uint32_t stack, const uint64_t *frame,
		     unsigned count)
{
	const _Atomic uint64_t *there = NULL;

	if (pfw_stack_frames(chunk, stack, &there) != count)
		return false;
	for (unsigned i = 0; i < count; i++)
		if (atomic_load_explicit(&there[i], memory_order_relaxed) != frame[i])
			return false;
	return true;
}

static uint32_t make_stack(struct pfw_stacks_chunk *chunk, const uint64_t *frame, unsigned count)
{
	uint32_t at;

	if (atomic_load_explicit(&index_of.stacks, memory_order_relaxed) >= STACKS_MAX ||
	    !take(&chunk->words_used, count + 1, PFW_STACK_WORDS, &at))
		return 0;
	for (unsigned i = 0; i < count; i++)
		atomic_store_explicit(&chunk->word[at + 1 + i], frame[i], memory_order_relaxed);
	atomic_store_explicit(&chunk->word[at], count, memory_order_release);
	return at;
}

uint32_t pfw_stacks_add(const uint64_t *frame, unsigned count)
{
	struct pfw_stacks_chunk *chunk = pfw_stacks;
	uint32_t at = (uint32_t)(hash_of(frame, count) >> 32), made = 0;

	for (uint32_t step = 0; step < STACKS; step++) {
		_Atomic uint32_t *bucket = &index_of.stack[(at + step) % STACKS];
		uint32_t stack = atomic_load_explicit(bucket, memory_order_acquire);

		if (!stack) {
			made = made ? made : make_stack(chunk, frame, count);
			if (!made)
				break;
			if (atomic_compare_exchange_strong_explicit(bucket, &stack, made,
								    memory_order_acq_rel,
								    memory_order_acquire)) {
				atomic_fetch_add_explicit(&index_of.stacks, 1,
							  memory_order_relaxed);
				return made;
			}
		}
		if (is_stack(chunk, stack, frame, count))
			return stack;
	}
	return 0;
}

/* ---- modules ---- */

bool pfw_stacks_module_is_there(const struct pfw_stack_module *module)
{
	uint64_t now[2];

	return !module->mark_at ||
	       (pfw_peek(now, (const void *)(uintptr_t)module->mark_at, sizeof(now)) &&
		!memcmp(now, module->mark, sizeof(now)));
}

int pfw_stacks_module(uint64_t start, uint64_t end, uint64_t link_map, bool *fresh)
{
	uint32_t at = (uint32_t)(pfw_stacks_mix(start, link_map) >> 32);

	*fresh = false;
	for (uint32_t step = 0; step < PFW_STACK_MODULES; step++) {
		uint32_t number = (at + step) % PFW_STACK_MODULES, state;
		struct pfw_stack_module *module = &pfw_stacks->module[number];

		state = atomic_load_explicit(&module->state, memory_order_acquire);
		if (state == FREE &&
		    atomic_compare_exchange_strong(&module->state, &state, CLAIMED)) {
			module->start = start;
			module->end = end;
			module->link_map = link_map;
			*fresh = true;
			return (int)number;
		}
		if (state != THERE)
			return -1;
		if (module->start == start && module->end == end && module->link_map == link_map &&
		    pfw_stacks_module_is_there(module))
			return (int)number;
	}
	return -1;
}

void pfw_stacks_module_done(int module)
{
	atomic_store_explicit(&pfw_stacks->module[module].state, THERE, memory_order_release);
	atomic_fetch_add_explicit(&pfw_stacks_modules, 1, memory_order_release);
}

/* ---- names ---- */

char *pfw_stacks_text_take(uint32_t bytes)
{
	uint32_t at;

	return take(&pfw_stacks->text_used, bytes, PFW_STACK_TEXT, &at) ? pfw_stacks->text + at
									: NULL;
}

void pfw_stacks_text_return(const char *from, uint32_t bytes)
{
	uint32_t at = (uint32_t)(from - pfw_stacks->text), end = at + bytes;

	atomic_compare_exchange_strong(&pfw_stacks->text_used, &end, at);
}

static bool is_code(const struct pfw_stack_code *code, const char *file, uint32_t file_bytes,
		    uint32_t function_bytes)
{
	return code->file.bytes == file_bytes && code->function.bytes == function_bytes &&
	       !memcmp(pfw_stacks->text + code->file.at, file, file_bytes + function_bytes);
}

int pfw_stacks_code(const char *file, uint32_t file_bytes, uint32_t function_bytes)
{
	uint32_t bytes = file_bytes + function_bytes, hash,
		 at = (uint32_t)(file - pfw_stacks->text);
	uint64_t mixed = bytes;

	for (uint32_t i = 0; i < bytes; i++)
		mixed = pfw_stacks_mix(mixed, (unsigned char)file[i]);
	hash = (uint32_t)(mixed >> 32);
	for (uint32_t step = 0; step < PFW_STACK_CODES; step++) {
		uint32_t number = (hash + step) % PFW_STACK_CODES, state;
		struct pfw_stack_code *code = &pfw_stacks->code[number];

		state = atomic_load_explicit(&code->state, memory_order_acquire);
		if (state == FREE &&
		    atomic_load_explicit(&index_of.codes, memory_order_relaxed) < CODES_MAX &&
		    atomic_compare_exchange_strong(&code->state, &state, CLAIMED)) {
			atomic_fetch_add_explicit(&index_of.codes, 1, memory_order_relaxed);
			code->hash = hash;
			code->file = (struct pfw_stack_text){ at, file_bytes };
			code->function = (struct pfw_stack_text){ at + file_bytes, function_bytes };
			atomic_store_explicit(&code->state, THERE, memory_order_release);
			return (int)number;
		}
		if (state != THERE)
			break;
		if (code->hash == hash && is_code(code, file, file_bytes, function_bytes)) {
			pfw_stacks_text_return(file, bytes);
			return (int)number;
		}
	}
	pfw_stacks_text_return(file, bytes);
	return -1;
}
