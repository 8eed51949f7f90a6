/* store/kit/grow.h - growable arrays: reserve room for an item, append an item. */
#pragma once

#include <errno.h>
#include <stddef.h>

/* Double the room; an empty array gets room for 8 items.  NULL: no memory, and nothing has changed.
 * Thread: any, as all here. */
void *pfw_grow_room(void *array, size_t *room, size_t size);

/*
 * Reserve room for item `number`: double the room, or a quarter more if it is large; new items are zeroed.
 * NULL as above.
 */
void *pfw_grow_zeroed(void *array, size_t number, size_t *room, size_t size);

/*
 * The same for an array that may become large: from PFW_GROW_MAPPED bytes on it is a mapping, which
 * grows without a copy, and takes no memory for items that were never written.  Free it with
 * pfw_grow_free() only.
 */
#define PFW_GROW_MAPPED (256u << 10)
void *pfw_grow_mapped(void *array, size_t number, size_t *room, size_t size);
void pfw_grow_free(void *array, size_t room, size_t size);

/* Ask the system for the memory of an array that will be written: at once it takes half of the time of a fault for
 * each page.  It may decline. */
void pfw_grow_populate(void *array, size_t bytes);

/* Reserve room for `count` items, and double the room at least.  NULL as above. */
void *pfw_grow_reserve(void *array, size_t count, size_t *room, size_t size);

/* Reserve room for one more item of a list whose room is 8 or the next power of two.  NULL as
 * above. */
void *pfw_grow_list(void *list, size_t count, size_t size);

/* Store the result of one of these functions unless it is NULL. 0 or -ENOMEM. */
#define PFW_GROWN(array, grown)              \
	({                                   \
		void *pfw_grown = (grown);   \
		if (pfw_grown)               \
			(array) = pfw_grown; \
		pfw_grown ? 0 : -ENOMEM;     \
	})

/* Reserve room for one more item after `count`.  An empty array is NULL with `room` (a size_t) 0.
 * 0, or -ENOMEM with nothing changed. */
#define PFW_ROOM(array, count, room) \
	((count) < (room) ? 0 : PFW_GROWN(array, pfw_grow_room(array, &(room), sizeof(*(array)))))

/* Reserve room for `count` items, as the above. */
#define PFW_RESERVE(array, count, room) \
	((count) <= (room)              \
		 ? 0                    \
		 : PFW_GROWN(array, pfw_grow_reserve(array, count, &(room), sizeof(*(array)))))

/* Make item `number` valid; items that were never written are zero. */
#define PFW_REACH(array, number, room) \
	((number) < (room)             \
		 ? 0                   \
		 : PFW_GROWN(array, pfw_grow_zeroed(array, number, &(room), sizeof(*(array)))))

/* The same by pfw_grow_mapped(). */
#define PFW_REACH_MAPPED(array, number, room) \
	((number) < (room)                    \
		 ? 0                          \
		 : PFW_GROWN(array, pfw_grow_mapped(array, number, &(room), sizeof(*(array)))))
#define PFW_FREE_MAPPED(array, room) pfw_grow_free(array, room, sizeof(*(array)))

/* Append an item: the rest of the arguments is its initializer. */
#define PFW_PUSH(array, count, room, ...) \
	(PFW_ROOM(array, count, room) ? -ENOMEM : ((array)[(count)++] = __VA_ARGS__, 0))

/* The same for a list that only grows: its room follows from `count`. */
#define PFW_LIST_ROOM(list, count) PFW_GROWN(list, pfw_grow_list(list, count, sizeof(*(list))))
#define PFW_APPEND(list, count, ...) \
	(PFW_LIST_ROOM(list, count) ? -ENOMEM : ((list)[(count)++] = __VA_ARGS__, 0))
