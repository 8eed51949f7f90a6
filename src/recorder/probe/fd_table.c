/* recorder/probe/fd_table.c - the file descriptor table: descriptor -> name in the trace. */
#include "recorder/probe/fd_table.h"

#include <string.h>

#include "common/base/text.h"
#include "recorder/guest/locked.h"
#include "recorder/probe/path_filter.h"
#include "recorder/probe/probe.h"
#include "recorder/probe/socket_name.h"
#include "recorder/spool/strings.h"

#define PAGE_BYTES (PFW_FD_PAGE * sizeof(uint64_t))
#define PATH_BYTES 4096u

_Atomic uint64_t *_Atomic pfw_fd_pages[PFW_FD_PAGES]; /* NULL: all unknown */
uint32_t pfw_fd_generation = 4;

static _Atomic uint32_t parents; /* the parent's generation in a forked child, 0 = none */

void pfw_fd_table_forked(void)
{
	uint32_t generation = pfw_fd_generation;

	pfw_fd_table_reset();
	atomic_store(&parents, generation);
}

void pfw_fd_table_reset(void)
{
	atomic_store(&parents, 0);
	__atomic_store_n(&pfw_fd_generation, pfw_fd_generation + 4, __ATOMIC_RELEASE);
}

static uint64_t entry_of(enum pfw_fd_state state, uint32_t name)
{
	return (uint64_t)(pfw_fd_generation | state) << 32 | name;
}

/* The cell of fd's entry, on a new page if needed; NULL: none to be had. */
static _Atomic uint64_t *entry_at(int fd)
{
	unsigned n = (unsigned)fd;
	_Atomic uint64_t *page, *none = NULL;

	if (n >= PFW_FD_PAGES * PFW_FD_PAGE)
		return NULL;
	page = atomic_load_explicit(&pfw_fd_pages[n >> PFW_FD_PAGE_BITS], memory_order_acquire);
	if (!page) {
		page = pfw_unlock(pfw_os_map(PAGE_BYTES), PAGE_BYTES);
		if (!page)
			return NULL;
		if (!atomic_compare_exchange_strong_explicit(&pfw_fd_pages[n >> PFW_FD_PAGE_BITS],
							     &none, page, memory_order_acq_rel,
							     memory_order_acquire)) {
			pfw_os_munmap((void *)(uintptr_t)page, PAGE_BYTES);
			page = none;
		}
	}
	return &page[n & (PFW_FD_PAGE - 1)];
}

/* Drop the name of an entry of this generation. */
static void let_go(uint64_t entry)
{
	if (pfw_fd_state(entry) == PFW_FD_TRACED && pfw_fd_name(entry) != PFW_NAME_BY_LINK)
		pfw_string_drop(pfw_fd_name(entry));
}

void pfw_fd_store(int fd, enum pfw_fd_state state, uint32_t name)
{
	_Atomic uint64_t *entry = entry_at(fd);

	if (!entry)
		pfw_string_drop(name);
	else
		let_go(atomic_exchange_explicit(entry, entry_of(state, name),
						memory_order_acq_rel));
}

/* The state of an entry of the parent's; UNKNOWN for an entry of the child's own. */
static enum pfw_fd_state parents_state(uint64_t entry)
{
	uint32_t generation = atomic_load_explicit(&parents, memory_order_relaxed);
	uint32_t state = (uint32_t)(entry >> 32) ^ generation;

	return generation && state <= PFW_FD_CLOSING ? (enum pfw_fd_state)state : PFW_FD_UNKNOWN;
}

void pfw_fd_close_begin(int fd)
{
	uint64_t entry = pfw_fd_load(fd);

	if (pfw_fd_state(entry) != PFW_FD_UNKNOWN || parents_state(entry) != PFW_FD_UNKNOWN)
		pfw_fd_store(fd, PFW_FD_CLOSING, 0);
}

void pfw_fd_close_end(int fd)
{
	uint64_t closing = entry_of(PFW_FD_CLOSING, 0);
	_Atomic uint64_t *entry;

	/* Only descriptors that close_begin() marked: programs close every number up to their
	 * limit. */
	if (pfw_fd_load(fd) != closing)
		return;
	entry = entry_at(fd);
	if (entry)
		atomic_compare_exchange_strong_explicit(entry, &closing, 0, memory_order_acq_rel,
							memory_order_acquire);
}

void pfw_fd_copy(int from, int to)
{
	uint64_t entry = pfw_fd_load(from);
	enum pfw_fd_state state = pfw_fd_state(entry);
	uint32_t name = pfw_fd_name(entry);

	if (state == PFW_FD_TRACED && name && !pfw_string_hold(name))
		state = PFW_FD_UNKNOWN;
	if (state == PFW_FD_TRACED || state == PFW_FD_UNTRACED)
		pfw_fd_store(to, state, name);
	else
		pfw_fd_store(to, PFW_FD_UNKNOWN, 0); /* resolved at its next use */
}

ssize_t pfw_fd_read_link(int fd, char *path, size_t size)
{
	static const char prefix[] = "/proc/self/fd/";
	char link[sizeof(prefix) + 32];
	struct pfw_text text;

	pfw_text_init(&text, link, sizeof(link));
	pfw_text_add(&text, prefix);
	pfw_text_add_u64(&text, (unsigned)fd, 1);
	return pfw_os_readlink(link, path, size);
}

/* The entry for a name that passed the filter, with a hold on it. */
static uint64_t traced_as(const char *path, size_t bytes)
{
	/* Not earlier: a process whose files are all excluded needs no ring and no writer. */
	uint32_t name = pfw_probe_names() ? pfw_string_create(NULL, 0, path, bytes) : 0;

	return entry_of(PFW_FD_TRACED, name ? name : PFW_NAME_BY_LINK);
}

/* The entry for an open descriptor whose link reads `path`, with a hold on its name. */
static uint64_t describe_path(const char *path, size_t bytes, bool unlinked)
{
	static const char deleted[] = " (deleted)";
	const size_t mark = sizeof(deleted) - 1;

	if (path[0] != '/') { /* pipe:[N], socket:[N], anon_inode:[eventpoll] */
		if (!pfw_path_filter_nameless())
			return entry_of(PFW_FD_UNTRACED, 0);
		return bytes ? traced_as(path, bytes) : entry_of(PFW_FD_TRACED, 0);
	}
	if (unlinked && bytes > mark && !memcmp(path + bytes - mark, deleted, mark))
		bytes -= mark;
	if (!pfw_path_filter_path(path, bytes))
		return entry_of(PFW_FD_UNTRACED, 0);
	return traced_as(path, bytes);
}

/* The entry for a descriptor that the parent knew; 0: the parent's entry does not tell. */
static uint64_t describe_inherited(uint64_t entry)
{
	char path[512];
	size_t bytes;

	switch (parents_state(entry)) {
	case PFW_FD_UNTRACED:
		return entry_of(PFW_FD_UNTRACED, 0);
	case PFW_FD_TRACED:
		if (!pfw_fd_name(entry))
			return entry_of(PFW_FD_TRACED, 0);
		bytes = pfw_strings_inherited(pfw_fd_name(entry), path, sizeof(path));
		return bytes ? traced_as(path, bytes) : 0;
	default:
		return 0;
	}
}

/* Ask the kernel what fd is; 0: not open. */
static uint64_t describe(int fd)
{
	char path[512], *longer;
	struct stat st;
	uint64_t entry;
	ssize_t n;

	if (pfw_os_fstat(fd, &st) < 0)
		return 0;
	n = pfw_fd_read_link(fd, path, sizeof(path));
	if (S_ISSOCK(st.st_mode) && pfw_path_filter_nameless()) {
		size_t bytes = pfw_socket_name(fd, path);

		/* Of an unknown kind: the link is still in path. */
		n = bytes ? (ssize_t)bytes : n;
	}
	if (n > 0 && (size_t)n < sizeof(path))
		return describe_path(path, (size_t)n, st.st_nlink == 0);
	/* The name is too long for a probe's stack, or there is no /proc. */
	longer = n > 0 ? pfw_os_map(PATH_BYTES) : NULL;
	n = longer ? pfw_fd_read_link(fd, longer, PATH_BYTES) : 0;
	entry = describe_path(n > 0 ? longer : "", n > 0 ? (size_t)n : 0, st.st_nlink == 0);
	if (longer)
		pfw_os_munmap(longer, PATH_BYTES);
	return entry;
}

uint64_t pfw_fd_resolve(int fd)
{
	_Atomic uint64_t *entry = fd >= 0 ? entry_at(fd) : NULL;
	uint32_t generation = __atomic_load_n(&pfw_fd_generation, __ATOMIC_ACQUIRE);
	uint64_t seen = entry ? atomic_load_explicit(entry, memory_order_acquire) : 0;
	uint64_t found;

	if (pfw_fd_state(seen) == PFW_FD_TRACED || pfw_fd_state(seen) == PFW_FD_UNTRACED)
		return seen;
	found = describe_inherited(seen);
	if (!found)
		found = describe(fd);
	/* Do not store it if fd is being closed, if another thread has just stored its own answer,
	 * or if the filter may have changed since it was asked. */
	if (entry && found && generation == __atomic_load_n(&pfw_fd_generation, __ATOMIC_ACQUIRE) &&
	    pfw_fd_name(found) != PFW_NAME_BY_LINK && pfw_fd_state(seen) != PFW_FD_CLOSING &&
	    atomic_compare_exchange_strong_explicit(entry, &seen, found, memory_order_acq_rel,
						    memory_order_acquire))
		return found;
	/* No entry holds the name: the caller's record stays valid until its cell is reused. */
	let_go(found);
	return found;
}
