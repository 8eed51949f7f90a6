/* common/format/stacks.h - the distinct call stacks of a process, in its spool.
 *
 * One chunk, made if PFW_STACK is set.  A stack is a run of words, innermost frame first: a native
 * frame names a module and an address in it, a Python frame a code entry and a line.  Everything is
 * added once and stays, so that a record needs only the number of its stack.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/format/spool.h"

#define PFW_STACK_FRAMES 64u /* the last one of a longer stack is PFW_FRAME_CUT */
#define PFW_STACK_MODULES 256u
#define PFW_STACK_CODES 4096u
#define PFW_STACK_TEXT (256u * 1024u)
#define PFW_STACK_WORDS (80u * 1024u)
#define PFW_BUILD_ID_MAX 32u

/* A frame: kind in the top two bits.  NATIVE: module << 48, and the ELF address.  PYTHON: code
 * entry << 32, and the line. */
enum pfw_frame_kind { PFW_FRAME_NATIVE, PFW_FRAME_PYTHON, PFW_FRAME_CUT };
#define PFW_FRAME_KIND_SHIFT 62
#define PFW_FRAME_MODULE_SHIFT 48
#define PFW_FRAME_ADDRESS_MASK ((1ull << PFW_FRAME_MODULE_SHIFT) - 1)
#define PFW_FRAME_CODE_SHIFT 32

/* A piece of pfw_stacks_chunk.text. */
struct pfw_stack_text {
	uint32_t at, bytes;
};

/* Entries of both tables: claimed by storing `state` 1, complete at 2. */
struct pfw_stack_module {
	_Atomic uint32_t state;
	uint32_t build_id_bytes;
	uint64_t start, end; /* where it is mapped */
	uint64_t link_map;   /* of libc: another module may come to the same place later */
	uint64_t bias;	     /* address in memory - address in the file */
	/* Bytes of the file, and where they are: of another one that comes to the same place they
	 * are others.  mark_at 0: it is never unloaded. */
	uint64_t mark_at, mark[2];
	_Atomic uint64_t path; /* struct pfw_stack_text: at << 32 | bytes; the writer replaces it */
	_Atomic uint64_t line; /* id of its line in the trace; 0 = none yet.  Writer only. */
	uint8_t build_id[PFW_BUILD_ID_MAX];
};

struct pfw_stack_code {
	_Atomic uint32_t state;
	uint32_t hash;
	struct pfw_stack_text file, function;
};

struct pfw_stacks_chunk {
	struct pfw_chunk chunk;
	_Atomic uint32_t text_used, words_used;
	struct pfw_stack_module module[PFW_STACK_MODULES];
	struct pfw_stack_code code[PFW_STACK_CODES];
	char text[PFW_STACK_TEXT];
	/* Stack n begins at word[n]: the number of its frames, then these.  word[0] is unused. */
	_Atomic uint64_t word[PFW_STACK_WORDS];
};

static inline uint64_t pfw_frame(enum pfw_frame_kind kind, uint64_t rest)
{
	return (uint64_t)kind << PFW_FRAME_KIND_SHIFT | rest;
}

/* The frames of a stack: their number, 0 if there is no such stack.  The chunk may be damaged. */
static inline unsigned pfw_stack_frames(const struct pfw_stacks_chunk *stacks, uint32_t stack,
					const _Atomic uint64_t **frame)
{
	uint64_t count;

	if (!stacks || !stack || stack >= PFW_STACK_WORDS)
		return 0;
	count = atomic_load_explicit(&stacks->word[stack], memory_order_acquire);
	if (count > PFW_STACK_FRAMES || count >= PFW_STACK_WORDS - stack)
		return 0;
	*frame = &stacks->word[stack + 1];
	return (unsigned)count;
}

/* A text of the chunk; NULL if it lies outside. */
static inline const char *pfw_stack_text(const struct pfw_stacks_chunk *stacks,
					 struct pfw_stack_text text)
{
	return text.at < PFW_STACK_TEXT && text.bytes <= PFW_STACK_TEXT - text.at
		       ? stacks->text + text.at
		       : NULL;
}

static inline struct pfw_stack_text pfw_stack_path(const struct pfw_stack_module *module)
{
	uint64_t path = atomic_load_explicit(&module->path, memory_order_acquire);

	return (struct pfw_stack_text){ (uint32_t)(path >> 32), (uint32_t)path };
}
