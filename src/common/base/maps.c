/* common/base/maps.c - the memory that pfw_os_mmap() has mapped: see maps.h. */
#include "common/base/maps.h"

#include <stdatomic.h>

#define MAPS 1024u
#define BUSY 1u /* no address: the entry is being written */

static struct {
	_Atomic uintptr_t at; /* 0 = free */
	size_t bytes;
} map[MAPS];

void pfw_maps_add(void *at, size_t bytes)
{
	for (size_t i = 0; i < MAPS; i++) {
		uintptr_t none = 0;

		if (atomic_load_explicit(&map[i].at, memory_order_relaxed) ||
		    !atomic_compare_exchange_strong(&map[i].at, &none, BUSY))
			continue;
		map[i].bytes = bytes;
		atomic_store(&map[i].at, (uintptr_t)at);
		return;
	}
}

void pfw_maps_remove(void *at)
{
	for (size_t i = 0; i < MAPS; i++)
		if (atomic_load_explicit(&map[i].at, memory_order_relaxed) == (uintptr_t)at) {
			atomic_store(&map[i].at, 0);
			return;
		}
}

void pfw_maps_all(bool (*take)(void *user, void *at, size_t bytes), void *user)
{
	for (size_t i = 0; i < MAPS; i++) {
		uintptr_t at = atomic_load(&map[i].at);

		if (at > BUSY && !take(user, (void *)at, map[i].bytes))
			return;
	}
}
