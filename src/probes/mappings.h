/* mappings.h - which mapped files are traced, so that munmap() and msync() can be.
 *
 * munmap() has no descriptor, and most of what it takes away is memory.  This table holds the
 * address ranges of traced files only; what does not fit is not recorded.  No lock: each entry is
 * taken by a compare-and-swap and passed over while somebody else has it.
 */
#ifndef PFW_MAPPINGS_H
#define PFW_MAPPINGS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PFW_MAPPINGS_MAX 1024u

extern _Atomic uint32_t pfw_mappings_live;

/* Whether there is anything to look for: false in most programs.  Thread: any.  Signal: safe. */
static inline bool pfw_mappings_any(void)
{
	return atomic_load_explicit(&pfw_mappings_live, memory_order_relaxed) != 0;
}

/*
 * [start, start + bytes) is a mapping of the file `name` (a string of the spool, or 0) from now on.
 * Thread: app.  Signal: safe.  Fork: the child's table is empty, since the names are its parent's.
 */
void pfw_mappings_add(uintptr_t start, size_t bytes, uint32_t name);

/* Whether a traced mapping overlaps the range; *name gets its file.  Thread: app.  Signal: safe. */
bool pfw_mappings_find(uintptr_t start, size_t bytes, uint32_t *name);

/* As find, and forget what lies within the range.  To be called before munmap(): afterwards the
 * addresses may be another thread's new mapping.  Thread: app.  Signal: safe. */
bool pfw_mappings_cut(uintptr_t start, size_t bytes, uint32_t *name);

#endif
