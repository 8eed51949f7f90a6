/* recorder/probe/fd_table.h - the file descriptor table: descriptor -> name in the trace.
 *
 * One 64-bit word a descriptor, read without a lock: the tag (generation and state) above, the
 * name's string reference below.  An entry of an older generation is unknown, and is resolved once
 * by fstat and /proc/self/fd.  The generation changes when probes are switched on and in a forked
 * child, so a name that may have changed unseen is never used; a forked child still uses what its
 * parent knew at the fork.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "common/base/os.h"

enum pfw_fd_state {
	PFW_FD_UNKNOWN,
	PFW_FD_TRACED, /* the low word is its name, 0 = none (without /proc) */
	PFW_FD_UNTRACED,
	PFW_FD_CLOSING, /* close() has begun and not returned: resolve, do not store */
};

#define PFW_FD_PAGE_BITS 10
#define PFW_FD_PAGE (1u << PFW_FD_PAGE_BITS)
#define PFW_FD_PAGES 4096u /* 4 Mi descriptors; calls on larger ones resolve each time */

extern _Atomic uint64_t *_Atomic pfw_fd_pages[PFW_FD_PAGES];
extern uint32_t pfw_fd_generation; /* the generation part of the tag, shifted up by two */

/* Forget all names and all answers of the filter.  Thread: any, one at a time. */
void pfw_fd_table_reset(void);

/*
 * The same in a forked child, but entries of the fork's moment may still be looked up among the
 * parent's names.  They are current: every call that changes the table first makes the child a
 * process of its own.  Thread: the child's first.
 */
void pfw_fd_table_forked(void);

/* The entry of fd; 0 (unknown) for a number out of range.  Thread: any.  Signal: safe. */
static inline uint64_t pfw_fd_load(int fd)
{
	if (PFW_UNLIKELY((unsigned)fd >= PFW_FD_PAGES * PFW_FD_PAGE))
		return 0;
	_Atomic uint64_t *page = atomic_load_explicit(
		&pfw_fd_pages[(unsigned)fd >> PFW_FD_PAGE_BITS], memory_order_acquire);
	if (PFW_UNLIKELY(!page))
		return 0;
	return atomic_load_explicit(&page[(unsigned)fd & (PFW_FD_PAGE - 1)], memory_order_acquire);
}

/* The state in an entry; PFW_FD_UNKNOWN for another generation. */
static inline enum pfw_fd_state pfw_fd_state(uint64_t entry)
{
	uint32_t state = (uint32_t)(entry >> 32) ^ pfw_fd_generation;

	return state <= PFW_FD_CLOSING ? (enum pfw_fd_state)state : PFW_FD_UNKNOWN;
}

static inline uint32_t pfw_fd_name(uint64_t entry)
{
	return (uint32_t)entry;
}

/* Set what fd is: the table takes over the caller's hold on `name` (a string of the spool, or 0)
 * and drops the name that it replaces.  Thread: app.  Signal: safe. */
void pfw_fd_store(int fd, enum pfw_fd_state state, uint32_t name);

/* close(): forget fd before the call, so that we do not erase another thread's open of the same
 * number.  After the call clear the mark, unless a new entry was stored. */
void pfw_fd_close_begin(int fd);
void pfw_fd_close_end(int fd);

/* dup(): copy the entry of `from` to `to`.  Thread: app.  Signal: safe. */
void pfw_fd_copy(int from, int to);

/* Read fd's link in /proc: length (not NUL-terminated), or -errno.  Signal: safe. */
ssize_t pfw_fd_read_link(int fd, char *path, size_t size);

/*
 * Find out what an unknown fd is (fstat, readlink, filter) and store it, unless another thread was
 * faster or fd is being closed.  Return the entry to use; PFW_FD_UNKNOWN: fd is not open.  Keeps
 * errno.  Thread: app.  Signal: safe.
 */
uint64_t pfw_fd_resolve(int fd);
