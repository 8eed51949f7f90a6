/* store/sys/spill.c - growable arrays in memory or temporary files; see spill.h. */
#include "store/sys/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/available.h"

#define FIRST_ROOM 4096u
/* A smaller array stays in memory regardless of the budget: a file costs a descriptor, and there
 * may be thousands of threads. */
#define SMALL (1u << 20)

int pfw_spill_open_in(const char *directory)
{
	char name[4096];
	int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd;
	/* Some file systems have no O_TMPFILE. */
	if (snprintf(name, sizeof(name), "%s/.pfw-spill-XXXXXX", directory) >= (int)sizeof(name))
		return -ENAMETOOLONG;
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(name);
	return fd;
}

int pfw_spill_open(void)
{
	const char *const places[] = { getenv("TMPDIR"), "/var/tmp", "/tmp" };
	int fd = -ENOENT;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && fd < 0; i++) {
		if (places[i] && *places[i])
			fd = pfw_spill_open_in(places[i]);
	}
	return fd;
}

static int grow_file(struct pfw_spill *spill, size_t room)
{
	/* Not ftruncate(): on a full file system a later page fault would be a SIGBUS. */
	int error = -posix_fallocate(spill->fd, (off_t)spill->room, (off_t)(room - spill->room));
	void *at;

	if (error)
		return error;
	at = mremap(spill->at, spill->room, room, MREMAP_MAYMOVE);
	if (at == MAP_FAILED)
		return -errno;
	spill->at = at;
	spill->room = room;
	return 0;
}

/* Larger arrays are mapped in huge pages: a fault for each 4 KiB takes as long as to fill them, and so
 * does a copy for more room. */
#define MAPPED (1u << 20)
#define HUGE_PAGE ((uintptr_t)2 << 20)

static bool is_mapped(size_t room)
{
	return room >= MAPPED;
}

/* The address space for that room: a multiple of a huge page. */
static size_t mapped_bytes(size_t room)
{
	return room > HUGE_PAGE ? room : HUGE_PAGE;
}

/* Map so many bytes, and move `old` there unless it is NULL.  NULL: no memory. */
static void *map(void *old, size_t old_bytes, size_t bytes)
{
	char *at = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t before = at == MAP_FAILED ? 0 : -(uintptr_t)at & (HUGE_PAGE - 1);

	if (at == MAP_FAILED)
		return NULL;
	if (before)
		munmap(at, before);
	at += before;
	munmap(at + bytes, HUGE_PAGE - before);
	if (old && mremap(old, old_bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED) {
		munmap(at, bytes);
		return NULL;
	}
	/* Where there are none, small ones do. */
	madvise(at, bytes, MADV_HUGEPAGE);
	return at;
}

static void *grow_memory(const struct pfw_spill *spill, size_t room)
{
	void *at;

	if (!is_mapped(room))
		return realloc(spill->at, room);
	if (is_mapped(spill->room) && mapped_bytes(spill->room) == mapped_bytes(room))
		return spill->at;
	if (is_mapped(spill->room))
		return map(spill->at, mapped_bytes(spill->room), room);
	at = map(NULL, 0, mapped_bytes(room));
	if (at && spill->bytes)
		memcpy(at, spill->at, spill->bytes);
	if (at)
		free(spill->at);
	return at;
}

static void free_memory(const struct pfw_spill *spill)
{
	if (is_mapped(spill->room))
		munmap(spill->at, mapped_bytes(spill->room));
	else
		free(spill->at);
}

static int move_to_file(struct pfw_spill *spill, size_t room, struct pfw_spill_budget *budget)
{
	int fd = pfw_spill_open();
	int error;
	void *at;

	if (fd < 0)
		return fd;
	error = -posix_fallocate(fd, 0, (off_t)room);
	at = error ? MAP_FAILED : mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) {
		error = error ?: -errno;
		close(fd);
		return error;
	}
	if (spill->bytes)
		memcpy(at, spill->at, spill->bytes);
	free_memory(spill);
	budget->used -= spill->room;
	*spill = (struct pfw_spill){ .at = at, .bytes = spill->bytes, .room = room, .fd = fd };
	return 0;
}

size_t pfw_spill_memory(size_t bytes)
{
	static _Atomic uint64_t known;
	uint64_t most = atomic_load_explicit(&known, memory_order_relaxed);

	if (!most) {
		most = pfw_available(UINT64_MAX) / 8 | 1;
		atomic_store_explicit(&known, most, memory_order_relaxed);
	}
	return bytes < most ? bytes : most > SMALL ? (size_t)most : SMALL;
}

size_t pfw_spill_share(void)
{
	cpu_set_t cpus;
	/* More than the set has room for is an error. */
	unsigned count = sched_getaffinity(0, sizeof(cpus), &cpus) ? 64u
								   : (unsigned)CPU_COUNT(&cpus);
	size_t bytes = ((size_t)512 << 20) / count, most = pfw_spill_memory(SIZE_MAX) / count;

	bytes = bytes > 64u << 20 ? 64u << 20 : bytes < 8u << 20 ? 8u << 20 : bytes;
	return bytes < most ? bytes : most > SMALL ? most : SMALL;
}

int pfw_spill_reserve(struct pfw_spill *spill, size_t bytes, struct pfw_spill_budget *budget)
{
	size_t room = spill->room ? spill->room : FIRST_ROOM;
	void *at;

	if (bytes > SIZE_MAX / 4 - spill->bytes)
		return -ENOMEM;
	if (spill->bytes + bytes <= spill->room)
		return 0;
	while (room < spill->bytes + bytes)
		room *= room < SMALL ? 4 : 2;
	/* A huge page takes less time than the small ones of half of it. */
	if (room == SMALL && budget->used - spill->room + HUGE_PAGE <= budget->bytes)
		room = HUGE_PAGE;
	if (spill->fd >= 0)
		return grow_file(spill, room);
	if (room > SMALL && budget->used - spill->room + room > budget->bytes)
		return move_to_file(spill, room, budget);
	at = grow_memory(spill, room);
	if (!at)
		return -ENOMEM;
	budget->used += room - spill->room;
	spill->at = at;
	spill->room = room;
	return 0;
}

int pfw_spill_add(struct pfw_spill *spill, const void *data, size_t bytes,
		  struct pfw_spill_budget *budget)
{
	int error = pfw_spill_reserve(spill, bytes, budget);

	if (error)
		return error;
	memcpy((char *)spill->at + spill->bytes, data, bytes);
	spill->bytes += bytes;
	return 0;
}

void pfw_spill_free(struct pfw_spill *spill, struct pfw_spill_budget *budget)
{
	if (spill->fd >= 0) {
		munmap(spill->at, spill->room);
		close(spill->fd);
	} else {
		free_memory(spill);
		budget->used -= spill->room;
	}
	*spill = (struct pfw_spill)PFW_SPILL_EMPTY;
}
