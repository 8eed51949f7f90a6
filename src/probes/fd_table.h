/* fd_table.h - descriptor -> what the trace calls it.
 *
 * One 64-bit word a descriptor, read without a lock: tag (generation and state) above, the name's
 * string reference below.  An entry of an older generation is unknown: it is resolved once, by
 * fstat and /proc/self/fd.  Generations change when probes come on and in a forked child, so names
 * that changed while nobody looked are never believed; what a forked child's parent knew until the fork
 * is.
 */
#ifndef PFW_FD_TABLE_H
#define PFW_FD_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../os.h"

enum pfw_fd_state {
	PFW_FD_UNKNOWN,
	PFW_FD_TRACED, /* the low word is its name, 0 = has none (pipe, socket) */
	PFW_FD_UNTRACED,
	PFW_FD_CLOSING, /* close() has forgotten it and not yet returned: resolve, do not store */
};

#define PFW_FD_PAGE_BITS 10
#define PFW_FD_PAGE (1u << PFW_FD_PAGE_BITS)
#define PFW_FD_PAGES 4096u /* 4 Mi descriptors; beyond, every call resolves for itself */

extern _Atomic uint64_t *_Atomic pfw_fd_pages[PFW_FD_PAGES];
extern uint32_t pfw_fd_generation; /* the tag's generation part, shifted up by two */

/* Forget everything at once: names, and what the filter has said.  Thread: any, one at a time. */
void pfw_fd_table_reset(void);

/* The same in a forked child: what was known at the fork may still be asked of the parent's names.
 * Every call that changes the table makes the child a process of its own first, so nothing has changed
 * since.  Thread: the child's first. */
void pfw_fd_table_forked(void);

/* The entry of fd; 0 (unknown) for numbers out of range.  Thread: any.  Signal: safe. */
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

/* The state in an entry, PFW_FD_UNKNOWN where it is of another generation. */
static inline enum pfw_fd_state pfw_fd_state(uint64_t entry)
{
	uint32_t state = (uint32_t)(entry >> 32) ^ pfw_fd_generation;

	return state <= PFW_FD_CLOSING ? (enum pfw_fd_state)state : PFW_FD_UNKNOWN;
}

static inline uint32_t pfw_fd_name(uint64_t entry)
{
	return (uint32_t)entry;
}

/*
 * Say what fd is from now on: the table takes over the caller's hold on `name` (a string of the
 * spool, or 0) and lets go of the one it replaces.  Thread: app.  Signal: safe.
 */
void pfw_fd_store(int fd, enum pfw_fd_state state, uint32_t name);

/* close(): forget fd before the call, so that another thread's open of the same number is not
 * erased by us; and clear the mark after it, unless somebody has stored a new entry. */
void pfw_fd_close_begin(int fd);
void pfw_fd_close_end(int fd);

/* dup(): `to` becomes what `from` is.  Thread: app.  Signal: safe. */
void pfw_fd_copy(int from, int to);

/* Where fd's link in /proc points: length (not NUL-terminated), or -errno.  Signal: safe. */
ssize_t pfw_fd_read_link(int fd, char *path, size_t size);

/*
 * Find out what an unknown fd is (fstat, readlink, filter) and remember it, unless another thread
 * was faster or the fd is being closed.  Return the entry to use, PFW_FD_UNKNOWN where fd is not
 * open.  Keeps errno.  Thread: app.  Signal: safe.
 */
uint64_t pfw_fd_resolve(int fd);

#endif
