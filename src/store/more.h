/* more.h - room for one more item of an array. */
#ifndef PFW_MORE_H
#define PFW_MORE_H

#include <stddef.h>

/* Twice the room, or 8 where there was none.  NULL: no memory, and nothing has changed.  Thread: any. */
void *pfw_more_room(void *array, size_t *room, size_t size);

/* Have room behind `count` items of that size.  Returns the array, which may be elsewhere now; NULL: no
 * memory, and nothing has changed.  No room yet: array is NULL, *room 0.  Thread: any. */
static inline void *pfw_more(void *array, size_t count, size_t *room, size_t size)
{
	return count < *room ? array : pfw_more_room(array, room, size);
}

#endif
