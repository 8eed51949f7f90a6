/* store/kit/grow.c - growable arrays; see grow.h. */
#include "store/kit/grow.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define FIRST 8u
#define FIRST_ZEROED 64u
#define LARGE (1u << 20) /* bytes */

void *pfw_grow_room(void *array, size_t *room, size_t size)
{
	return pfw_grow_reserve(array, FIRST, room, size);
}

void *pfw_grow_zeroed(void *array, size_t number, size_t *room, size_t size)
{
	size_t wanted = *room ? *room : FIRST_ZEROED;
	char *bigger;

	/* Growing to twice the size would waste up to half of a large array that is fully written. */
	while (wanted <= number)
		wanted += wanted * size < LARGE ? wanted : wanted / 4;
	bigger = realloc(array, wanted * size);
	if (!bigger)
		return NULL;
	memset(bigger + *room * size, 0, (wanted - *room) * size);
	*room = wanted;
	return bigger;
}

/* The bytes of a mapping of this room: whole pages, of any size that there is. */
static size_t mapped_bytes(size_t room, size_t size)
{
	return (room * size + 0xffff) & ~(size_t)0xffff;
}

/* Make an array a mapping, or a mapping larger.  NULL: no memory. */
static void *map(void *array, size_t room, size_t size, size_t wanted)
{
	size_t old = room * size, bytes = mapped_bytes(wanted, size);
	void *bigger;

	if (old >= PFW_GROW_MAPPED) {
		bigger = mremap(array, mapped_bytes(room, size), bytes, MREMAP_MAYMOVE);
		return bigger == MAP_FAILED ? NULL : bigger;
	}
	bigger = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bigger == MAP_FAILED)
		return NULL;
	if (old)
		memcpy(bigger, array, old);
	free(array);
	return bigger;
}

void *pfw_grow_mapped(void *array, size_t number, size_t *room, size_t size)
{
	size_t wanted = *room ? *room : FIRST_ZEROED;
	void *bigger;

	while (wanted <= number)
		wanted *= 2;
	if (wanted * size < PFW_GROW_MAPPED) {
		bigger = realloc(array, wanted * size);
		if (bigger)
			memset((char *)bigger + *room * size, 0, (wanted - *room) * size);
	} else {
		bigger = map(array, *room, size, wanted);
	}
	if (bigger)
		*room = wanted;
	return bigger;
}

void pfw_grow_free(void *array, size_t room, size_t size)
{
	if (room * size < PFW_GROW_MAPPED)
		free(array);
	else
		munmap(array, mapped_bytes(room, size));
}

void pfw_grow_populate(void *array, size_t bytes)
{
#ifdef MADV_POPULATE_WRITE /* Linux 5.14 */
	uintptr_t page = 4095, begin = ((uintptr_t)array + page) & ~page;
	uintptr_t end = ((uintptr_t)array + bytes) & ~page;

	if (end > begin)
		(void)madvise((void *)begin, end - begin, MADV_POPULATE_WRITE);
#else
	(void)array;
	(void)bytes;
#endif
}

void *pfw_grow_reserve(void *array, size_t count, size_t *room, size_t size)
{
	size_t wanted = count > 2 * *room ? count : 2 * *room;
	void *bigger = realloc(array, wanted * size);

	if (bigger)
		*room = wanted;
	return bigger;
}

void *pfw_grow_list(void *list, size_t count, size_t size)
{
	if (count && (count < FIRST || (count & (count - 1))))
		return list;
	return realloc(list, (count ? 2 * count : FIRST) * size);
}
