/* recorder/probe/mappings.c - a small lock-free table of address ranges. */
#include "recorder/probe/mappings.h"

#include <sys/prctl.h>

#include "common/base/os.h"
#include "recorder/probe/fd_table.h"
#include "recorder/spool/strings.h"

/* Values of start that are no address. */
enum { FREE = 0, TAKEN = 1 };

struct mapping {
	_Atomic uintptr_t start; /* FREE, TAKEN, or an address, stored last (release) */
	_Atomic uintptr_t end;
	_Atomic uint32_t name; /* holds one use of the string */
};

static struct mapping mappings[PFW_MAPPINGS_MAX];
static _Atomic uint32_t used;	    /* entries from here on were never used */
static _Atomic uint32_t generation; /* of the fd table that the names belong to */

_Atomic uint32_t pfw_mappings_live;

static uintptr_t range_end(uintptr_t start, size_t bytes)
{
	uintptr_t end;

	if (__builtin_add_overflow(start, bytes, &end) || end > UINTPTR_MAX - pfw_os_page_bytes())
		return UINTPTR_MAX;
	return pfw_os_whole_pages(end);
}

/* Forget everything when the fd table has: the names belong to another spool (in a forked child) or
 * may have changed while the probes were off.  So their uses are not given back. */
static void follow_generation(void)
{
	uint32_t seen = atomic_load_explicit(&generation, memory_order_acquire);
	uint32_t count = atomic_load_explicit(&used, memory_order_acquire);

	if (PFW_LIKELY(seen == pfw_fd_generation) ||
	    !atomic_compare_exchange_strong(&generation, &seen, pfw_fd_generation))
		return;
	for (uint32_t i = 0; i < count; i++)
		atomic_store_explicit(&mappings[i].start, FREE, memory_order_relaxed);
	atomic_store_explicit(&pfw_mappings_live, 0, memory_order_release);
}

/* A free entry, marked TAKEN; NULL: the table is full. */
static struct mapping *take_free(void)
{
	for (uint32_t i = 0; i < PFW_MAPPINGS_MAX; i++) {
		uintptr_t expected = FREE;
		uint32_t count = atomic_load_explicit(&used, memory_order_relaxed);

		if (!atomic_compare_exchange_strong(&mappings[i].start, &expected, TAKEN))
			continue;
		while (count <= i && !atomic_compare_exchange_weak(&used, &count, i + 1))
			;
		return &mappings[i];
	}
	return NULL;
}

static void publish(struct mapping *mapping, uintptr_t start, uintptr_t end, uint32_t name)
{
	/* Each pairs with an acquire in overlaps() or find(), which then see the entry TAKEN. */
	atomic_store_explicit(&mapping->end, end, memory_order_release);
	atomic_store_explicit(&mapping->name, name, memory_order_release);
	atomic_store_explicit(&mapping->start, start, memory_order_release);
}

static void release(struct mapping *mapping)
{
	pfw_string_drop(atomic_load_explicit(&mapping->name, memory_order_relaxed));
	atomic_store_explicit(&mapping->start, FREE, memory_order_release);
	atomic_fetch_sub_explicit(&pfw_mappings_live, 1, memory_order_relaxed);
}

static void add(uintptr_t start, uintptr_t end, uint32_t name)
{
	struct mapping *mapping;

	if (name && !pfw_string_hold(name))
		return;
	mapping = take_free();
	if (!mapping) {
		pfw_string_drop(name);
		return;
	}
	atomic_fetch_add_explicit(&pfw_mappings_live, 1, memory_order_relaxed);
	publish(mapping, start, end, name);
}

/* The entry may be freed and reused between two reads: the values read belong together only if it
 * still begins at `at`. */
static bool is_still(const struct mapping *mapping, uintptr_t at)
{
	return atomic_load_explicit(&mapping->start, memory_order_relaxed) == at;
}

/* Whether the entry overlaps [start, end); *at gets its start. */
static bool overlaps(const struct mapping *mapping, uintptr_t start, uintptr_t end, uintptr_t *at)
{
	*at = atomic_load_explicit(&mapping->start, memory_order_acquire);
	return *at > TAKEN && *at < end &&
	       atomic_load_explicit(&mapping->end, memory_order_acquire) > start &&
	       is_still(mapping, *at);
}

void pfw_mappings_add(uintptr_t start, size_t bytes, uint32_t name)
{
	follow_generation();
	add(start, range_end(start, bytes), name);
}

bool pfw_mappings_find(uintptr_t start, size_t bytes, uint32_t *name)
{
	uintptr_t end = range_end(start, bytes ? bytes : 1);
	uint32_t count = atomic_load_explicit(&used, memory_order_acquire);
	uintptr_t at;

	follow_generation();
	for (uint32_t i = 0; i < count; i++) {
		if (!overlaps(&mappings[i], start, end, &at))
			continue;
		*name = atomic_load_explicit(&mappings[i].name, memory_order_acquire);
		if (is_still(&mappings[i], at))
			return true;
	}
	return false;
}

uint64_t pfw_mappings_touched(uintptr_t start, size_t bytes)
{
	uintptr_t end = range_end(start, bytes), at;
	uint32_t count = atomic_load_explicit(&used, memory_order_acquire), first = 0;
	uint64_t sum = 0, touched;

	follow_generation();
	for (uint32_t i = 0; i < count; i++) {
		uintptr_t last = atomic_load_explicit(&mappings[i].end, memory_order_acquire);
		uint32_t name = atomic_load_explicit(&mappings[i].name, memory_order_acquire);

		if (!overlaps(&mappings[i], start, end, &at) || (sum && name != first))
			continue;
		at = at > start ? at : start;
		if (last <= at)
			continue; /* another thread changes it */
		first = name;
		touched = pfw_touched(at, (last < end ? last : end) - at, PFW_TOUCHED_PAGES);
		if (!touched)
			return 0;
		sum += touched - !!sum;
	}
	return sum;
}

/* All of them together are looked at as long as a few large ones. */
static unsigned pages_of_each(void)
{
	uint32_t live = atomic_load_explicit(&pfw_mappings_live, memory_order_relaxed);

	return live <= 4 ? PFW_TOUCHED_PAGES : 4 * PFW_TOUCHED_PAGES / live;
}

bool pfw_mappings_next(uint32_t *at, uint32_t *name, uint64_t *bytes, uint64_t *touched)
{
	uint32_t count = atomic_load_explicit(&used, memory_order_acquire);

	follow_generation();
	while (*at < count) {
		struct mapping *mapping = &mappings[(*at)++];
		uintptr_t end = atomic_load_explicit(&mapping->end, memory_order_acquire), start;

		*name = atomic_load_explicit(&mapping->name, memory_order_acquire);
		if (!overlaps(mapping, 0, UINTPTR_MAX, &start) || end <= start)
			continue;
		*bytes = end - start;
		*touched = pfw_touched(start, end - start, pages_of_each());
		return true;
	}
	return false;
}

/* Cut [start, end) out of a TAKEN entry that began at `at`; what remains on either side stays. */
static void cut(struct mapping *mapping, uintptr_t at, uintptr_t start, uintptr_t end)
{
	uintptr_t last = atomic_load_explicit(&mapping->end, memory_order_relaxed);
	uint32_t name = atomic_load_explicit(&mapping->name, memory_order_relaxed);

	if (at < start) {
		if (last > end)
			add(end, last, name);
		publish(mapping, at, start, name);
	} else if (last > end) {
		publish(mapping, end, last, name);
	} else {
		release(mapping);
	}
}

bool pfw_mappings_cut(uintptr_t start, size_t bytes, uint32_t *name)
{
	uintptr_t end = range_end(start, bytes);
	uint32_t count = atomic_load_explicit(&used, memory_order_acquire);
	bool found = false;
	uintptr_t at;

	follow_generation();
	for (uint32_t i = 0; i < count; i++) {
		struct mapping *mapping = &mappings[i];

		if (!overlaps(mapping, start, end, &at) ||
		    !atomic_compare_exchange_strong(&mapping->start, &at, TAKEN))
			continue;
		if (!found)
			*name = atomic_load_explicit(&mapping->name, memory_order_relaxed);
		found = true;
		cut(mapping, at, start, end);
	}
	return found;
}

/* Pages of one question: 768 bytes of the program's stack. */
#define BATCH 64u

/* The number of a page among `pages`, of which `looks` are looked at.  Each lies somewhere in a
 * part of its own, since a program may touch at equal distances, too. */
static uint64_t page_of(unsigned i, unsigned looks, uint64_t pages)
{
	uint64_t part = pages / looks;
	uint64_t mixed = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

	if (looks == pages)
		return i;
	return (uint64_t)((unsigned __int128)pages * i / looks) + (mixed >> 32) % part;
}

/* How many of `count` pages are present, or -errno.  move_pages(2) without nodes moves nothing: it
 * says where each page is, and needs no descriptor and no rights. */
static long count_present(void **page, unsigned count)
{
	int status[BATCH] = { 0 };
	long error = pfw_syscall6(SYS_move_pages, 0, count, (long)page, 0, (long)status, 0);
	long present = 0;

	for (unsigned i = 0; error >= 0 && i < count; i++)
		present += status[i] >= 0;
	return error < 0 ? error : present;
}

uint64_t pfw_touched(uintptr_t start, size_t bytes, unsigned most)
{
	size_t page_bytes = pfw_os_page_bytes();
	uint64_t pages = bytes / page_bytes, present = 0;
	unsigned looks = pages < most ? (unsigned)pages : most, i = 0;
	void *page[BATCH];

	/* A filter may kill for a call that the program does not make; few allow this one. */
	if (!looks || pfw_syscall6(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0, 0))
		return 0;
	while (i < looks) {
		unsigned count = 0;
		long found;

		for (; count < BATCH && i < looks; count++, i++)
			page[count] = (void *)(start + page_of(i, looks, pages) * page_bytes);
		found = count_present(page, count);
		if (found < 0)
			return 0;
		present += (uint64_t)found;
	}
	return (uint64_t)((unsigned __int128)present * pages / looks) * page_bytes + 1;
}
