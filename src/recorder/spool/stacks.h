/* recorder/spool/stacks.h - adds stacks, modules and names of Python code to the spool.
 *
 * Everything is lock-free, since a probe in a signal handler may interrupt one: a table's entry is
 * claimed by one compare-and-swap, and whoever finds it claimed and not complete does without.
 */
#pragma once

#include <stdbool.h>

#include "common/format/stacks.h"

/* The chunk; NULL = none (PFW_STACK is unset, or the spool has no room). */
extern struct pfw_stacks_chunk *pfw_stacks;

/* Begin with this chunk, which is empty.  NULL: a forked child, whose chunk is still to come.
 * Thread: drain, or a forked child's only one. */
void pfw_stacks_use(struct pfw_stacks_chunk *chunk);

/* Changes whenever the chunk does, for caches of numbers that it gave. */
extern uint32_t pfw_stacks_epoch;

/* The number of a stack of `count` frames, added if it is new; 0: there is no room.  Thread: app.
 * Signal: safe. */
uint32_t pfw_stacks_add(const uint64_t *frame, unsigned count);

/* The entry of the module that is mapped at [start, end) and that libc knows as link_map.  Claims
 * an entry for a new one: *fresh is true then, and the caller fills in the rest, and calls
 * pfw_stacks_module_done().  -1: no room, or another thread is filling it in.  Thread: app.
 * Signal: safe. */
int pfw_stacks_module(uint64_t start, uint64_t end, uint64_t link_map, bool *fresh);

/* Whether this module is still loaded.  Thread: any.  Signal: safe. */
bool pfw_stacks_module_is_there(const struct pfw_stack_module *module);
void pfw_stacks_module_done(int module);

/* How many modules there are. */
extern _Atomic uint32_t pfw_stacks_modules;

/* Room for a text of at most `bytes` in the chunk, or NULL.  The second function returns unused room,
 * unless another text was added since.  Thread: app.  Signal: safe. */
char *pfw_stacks_text_take(uint32_t bytes);
void pfw_stacks_text_return(const char *from, uint32_t bytes);

/* The entry of a function of a file, whose texts are in the chunk, one after the other, from `file`
 * on; they are given back if they are known already.  -1: no room.  Thread: app.  Signal: safe. */
int pfw_stacks_code(const char *file, uint32_t file_bytes, uint32_t function_bytes);

static inline uint64_t pfw_stacks_mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 29;
}
