/* more.c - room for one more item of an array; see more.h. */
#include "more.h"

#include <stdlib.h>

#define FIRST 8u

void *pfw_more_room(void *array, size_t *room, size_t size)
{
	size_t wanted = *room ? 2 * *room : FIRST;
	void *bigger = realloc(array, wanted * size);

	if (bigger)
		*room = wanted;
	return bigger;
}
