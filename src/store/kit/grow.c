/* store/kit/grow.c - growable arrays; see grow.h. */
#include "store/kit/grow.h"

#include <stdlib.h>
#include <string.h>

#define FIRST 8u
#define FIRST_ZEROED 64u
#define LARGE (1u << 20) /* bytes */

void *pfw_grow_room(void *array, size_t *room, size_t size)
{
	size_t wanted = *room ? 2 * *room : FIRST;
	void *bigger = realloc(array, wanted * size);

	if (bigger)
		*room = wanted;
	return bigger;
}

void *pfw_grow_zeroed(void *array, size_t number, size_t *room, size_t size)
{
	size_t wanted = *room ? *room : FIRST_ZEROED;
	char *bigger;

	/* All of it is written: half of a large one would be too much. */
	while (wanted <= number)
		wanted += wanted * size < LARGE ? wanted : wanted / 4;
	bigger = realloc(array, wanted * size);
	if (!bigger)
		return NULL;
	memset(bigger + *room * size, 0, (wanted - *room) * size);
	*room = wanted;
	return bigger;
}

void *pfw_grow_list(void *list, size_t count, size_t size)
{
	if (count && (count < FIRST || (count & (count - 1))))
		return list;
	return realloc(list, (count ? 2 * count : FIRST) * size);
}
