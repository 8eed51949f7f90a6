/* recorder/probe/mappings.h - the address ranges of traced files, for munmap() and msync().
 *
 * munmap() has no descriptor, and mostly unmaps memory.  This table holds only the ranges of traced
 * files; a range that does not fit is not recorded.  No lock: an entry is taken by
 * compare-and-swap, and skipped while another thread has it.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PFW_MAPPINGS_MAX 1024u

extern _Atomic uint32_t pfw_mappings_live;

/* Whether the table has any entry: false in most programs.  Thread: any.  Signal: safe. */
static inline bool pfw_mappings_any(void)
{
	return atomic_load_explicit(&pfw_mappings_live, memory_order_relaxed) != 0;
}

/*
 * Add [start, start + bytes) as a mapping of the file `name` (a string of the spool, or 0).
 * Thread: app.  Signal: safe.  Fork: the child's table is empty, since the names are its parent's.
 */
void pfw_mappings_add(uintptr_t start, size_t bytes, uint32_t name);

/* Whether a traced mapping overlaps the range; *name gets its file.  Thread: app.  Signal: safe. */
bool pfw_mappings_find(uintptr_t start, size_t bytes, uint32_t *name);

/*
 * The bytes of the range that this process has touched, of the file that find() names, + 1; 0: not
 * known.  Call it before munmap().  Thread: app.  Signal: safe.
 */
uint64_t pfw_mappings_touched(uintptr_t start, size_t bytes);

/* The first mapping from entry *at on, for the end of the process; *at becomes the next entry.
 * *name gets its file, which may be gone already; *touched is as above.  False: there is no further
 * one.  Thread: any. */
bool pfw_mappings_next(uint32_t *at, uint32_t *name, uint64_t *bytes, uint64_t *touched);

/* As find, and remove the range.  Call it before munmap(): afterwards the addresses may be another
 * thread's new mapping.  Thread: app.  Signal: safe. */
bool pfw_mappings_cut(uintptr_t start, size_t bytes, uint32_t *name);

/* The most pages that are looked at in one mapping: half a millisecond. */
#define PFW_TOUCHED_PAGES 8192u

/* The bytes of [start, start + bytes), which begins at a page, whose pages are in this process's
 * page table, + 1.  Of more than `most` pages, that many are looked at, evenly spread, and the
 * bytes are an estimate.  0: the kernel does not say, or a seccomp filter might forbid the
 * question.  Thread: any.  Signal: safe.  Keeps errno. */
uint64_t pfw_touched(uintptr_t start, size_t bytes, unsigned most);
