/* store/recover/image_live.c - reads a spool that changes meanwhile: see image.h. */
#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>

#include "common/base/order.h"
#include "store/kit/grow.h"
#include "store/recover/image.h"

#define LOOKS_MAX 1000 /* tries to read a stable slot; a writer commits a few times a second */
#define LOOK_NS 500000
#define SUM_LOOKS_MAX 64 /* tries to read figures between two updates */

/* ---- records ---- */

/* A record's mark is stored last, but a copy may be made in another order.  So slots are read
 * twice: a record marked in the first copy is complete in the second. */
static void keep_marked(struct pfw_spool_stretch *stretch, const uint32_t *mark)
{
	uint64_t count = stretch->head - stretch->first, slots;

	for (uint64_t i = 0; i < count; i += slots) {
		struct pfw_record *record = &stretch->slots[i];
		bool marked = mark[i] == (uint32_t)(stretch->first + i + 1);

		slots = marked && record->slots ? record->slots : 1;
		if (!marked)
			atomic_store_explicit(&record->committed, 0, memory_order_relaxed);
	}
}

static int copy_slots(const struct pfw_spool_image *image, struct pfw_spool_stretch *stretch)
{
	uint64_t count = stretch->head - stretch->first;
	uint32_t *mark = malloc(count * sizeof(*mark));
	struct pfw_record *slots = pfw_spool_image_slots(image, stretch);

	for (uint64_t i = 0; slots && mark && i < count; i++)
		mark[i] = atomic_load_explicit(&slots[i].committed, memory_order_relaxed);
	free(slots);
	/* Pairs with the release in pfw_ring_commit(). */
	atomic_thread_fence(memory_order_acquire);
	stretch->slots = slots && mark ? pfw_spool_image_slots(image, stretch) : NULL;
	if (stretch->slots)
		keep_marked(stretch, mark);
	free(mark);
	return stretch->slots ? 0 : -ENOMEM;
}

/* A ring's chunk in use, and its order within the ring. */
struct place {
	struct pfw_chunk chunk;
	uint64_t at, order;
};

/* Copy a chunk's slots from tail to head.  If its order has changed by then, the writer has freed
 * it: all that it held is in the file. */
static int copy_ring(struct pfw_spool_image *image, const struct place *place)
{
	const struct pfw_chunk *chunk = &place->chunk;
	struct pfw_spool_stretch stretch = { .at = place->at + PFW_PAGE_BYTES };
	struct pfw_ring_chunk head;
	int error = pfw_spool_read(image->fd, &head, sizeof(head), place->at);

	if (error || !atomic_load_explicit(&head.in_use, memory_order_relaxed) ||
	    head.order != place->order)
		return error;
	stretch.tid = 1; /* read later, together with the tail */
	stretch.capacity = head.capacity;
	stretch.head = atomic_load_explicit(&head.head, memory_order_relaxed) & ~PFW_RING_CLOSED;
	stretch.first = stretch.tail = atomic_load_explicit(&head.tail, memory_order_relaxed);
	/* The tail may have passed the head that we saw: then everything is in the file. */
	if ((int64_t)(stretch.head - stretch.tail) <= 0 ||
	    !pfw_spool_stretch_is_sound(image, &stretch, chunk))
		return 0;
	error = copy_slots(image, &stretch)
			?: PFW_APPEND(image->stretch, image->stretch_count, stretch);
	if (error)
		free(stretch.slots);
	return error;
}

/* The chunk's tail according to the slot, and its thread.  The slots after the tail cannot have
 * changed owner. */
static int settle_ring(const struct pfw_spool_image *image, struct pfw_spool_stretch *stretch)
{
	struct pfw_ring_chunk head;
	int error = pfw_spool_read(image->fd, &head, sizeof(head), stretch->at - PFW_PAGE_BYTES);
	uint64_t tail = head.saved_tail[image->slot.generation & 1];

	if (error)
		return error;
	/* Freed: all is in the file.  Positions never decrease, whoever uses the chunk next. */
	if (!atomic_load_explicit(&head.in_use, memory_order_relaxed) ||
	    (int64_t)(stretch->head - tail) < 0)
		tail = stretch->head;
	if ((int64_t)(tail - stretch->tail) > 0)
		stretch->tail = tail;
	stretch->ring = head.chunk.index;
	stretch->order = head.order;
	stretch->tid = atomic_load_explicit(&head.tid, memory_order_relaxed);
	for (size_t i = 0; i < sizeof(stretch->comm); i++)
		stretch->comm[i] = head.comm[i];
	return 0;
}

/* ---- short calls ---- */

static bool same_moment(const struct pfw_sum *a, const struct pfw_sum *b)
{
	return atomic_load_explicit(&a->life, memory_order_relaxed) ==
		       atomic_load_explicit(&b->life, memory_order_relaxed) &&
	       atomic_load_explicit(&a->turn, memory_order_relaxed) ==
		       atomic_load_explicit(&b->turn, memory_order_relaxed);
}

/* Copy an entry between two updates of its owner. */
static int copy_sum(const struct pfw_spool_image *image, uint64_t at, struct pfw_sum *sum)
{
	for (int looks = 0; looks < SUM_LOOKS_MAX; looks++) {
		struct pfw_sum before, after;
		int error = pfw_spool_read(image->fd, &before, sizeof(before), at);

		atomic_thread_fence(memory_order_acquire);
		error = error ?: pfw_spool_read(image->fd, sum, sizeof(*sum), at);
		atomic_thread_fence(memory_order_acquire);
		error = error ?: pfw_spool_read(image->fd, &after, sizeof(after), at);
		if (error)
			return error;
		if (same_moment(&before, &after) && same_moment(&before, sum))
			return 0;
	}
	return -EBUSY;
}

static int copy_sums(struct pfw_spool_image *image, struct pfw_spool_sums *sums, size_t n)
{
	int error = 0;

	sums->copy = pfw_spool_image_sums(image, n);
	if (!sums->copy)
		return -ENOMEM;
	for (unsigned i = 0; !error && i < PFW_SUMS; i++)
		if (atomic_load_explicit(&sums->copy->sum[i].life, memory_order_relaxed))
			error = copy_sum(image, sums->at + offsetof(struct pfw_sums_chunk, sum[i]),
					 &sums->copy->sum[i]);
	return error;
}

/* Subtract what the file has according to the slot.  An entry that was reassigned to another file
 * is in the file entirely. */
static int settle_sums(const struct pfw_spool_image *image, struct pfw_spool_sums *sums)
{
	unsigned parity = image->slot.generation & 1;
	struct pfw_sums_chunk *now =
		aligned_alloc(alignof(struct pfw_sums_chunk), 2 * sizeof(*now));
	int error = now ? pfw_spool_read(image->fd, &now[0], sizeof(*now), sums->at) : -ENOMEM;

	atomic_thread_fence(memory_order_acquire);
	error = error ?: pfw_spool_read(image->fd, &now[1], sizeof(*now), sums->at);
	for (unsigned i = 0; !error && i < PFW_SUMS; i++) {
		struct pfw_sum *sum = &sums->copy->sum[i];

		sum->saved[parity] = now[0].sum[i].saved[parity];
		if (atomic_load_explicit(&sum->life, memory_order_relaxed) !=
		    atomic_load_explicit(&now[1].sum[i].life, memory_order_relaxed))
			atomic_store_explicit(&sum->life, 0, memory_order_relaxed);
	}
	free(now);
	return error;
}

/* ---- the whole image ---- */

static int newest_first(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return PFW_ORDER(y->order, x->order);
}

/* All ring chunks in use.  Their number, or -errno. */
static ssize_t find_rings(const struct pfw_spool_image *image, struct place **places)
{
	struct place place = { .at = image->header->header_bytes };
	struct pfw_ring_chunk head;
	ssize_t count = 0;

	for (; pfw_spool_image_chunk(image, place.at, &place.chunk);
	     place.at += place.chunk.bytes) {
		if (place.chunk.kind != PFW_CHUNK_RING)
			continue;
		if (pfw_spool_read(image->fd, &head, sizeof(head), place.at))
			return -EIO;
		if (!atomic_load_explicit(&head.in_use, memory_order_relaxed))
			continue;
		place.order = head.order;
		if (PFW_APPEND(*places, count, place))
			return -ENOMEM;
	}
	return count;
}

/* A ring's newest chunk first: its thread fills a chunk only after the older ones are full.  So if
 * an event that came during the copy is present, every earlier one is, too. */
static int copy_rings(struct pfw_spool_image *image)
{
	struct place *places = NULL;
	ssize_t count = find_rings(image, &places);
	int error = count < 0 ? (int)count : 0;

	if (count > 0)
		qsort(places, (size_t)count, sizeof(*places), newest_first);
	for (ssize_t i = 0; i < count && !error; i++)
		error = copy_ring(image, &places[i]);
	free(places);
	return error;
}

/* After the records, which may refer to strings made during the copy. */
static int copy_others(struct pfw_spool_image *image)
{
	uint64_t at = image->header->header_bytes;
	struct pfw_chunk chunk;
	int error = 0;

	for (; !error && pfw_spool_image_chunk(image, at, &chunk); at += chunk.bytes)
		if (chunk.kind != PFW_CHUNK_RING)
			error = pfw_spool_image_take(image, &chunk, at);
	if (!error && at < atomic_load_explicit(&image->header->end, memory_order_relaxed))
		image->damaged++;
	for (size_t i = 0; !error && i < image->sums_count; i++)
		error = copy_sums(image, &image->sums[i], i);
	return error;
}

/* The newest slot's generation now. */
static uint64_t generation(const struct pfw_spool_image *image)
{
	struct pfw_slot slot[2];

	/* Earlier reads must not move after this one. */
	atomic_thread_fence(memory_order_acquire);
	if (pfw_spool_read(image->fd, slot, sizeof(slot), offsetof(struct pfw_spool_header, slot)))
		return UINT64_MAX;
	return slot[0].generation > slot[1].generation ? slot[0].generation : slot[1].generation;
}

/* Read the newest slot and its tails until no newer slot came meanwhile.  Then each tail belongs to
 * that slot, since until the next slot the writer stores only tails of the other parity. */
static int settle(struct pfw_spool_image *image, char *why)
{
	const struct timespec pause = { .tv_nsec = LOOK_NS };

	for (int looks = 0; looks < LOOKS_MAX; looks++) {
		int error = pfw_spool_image_reread(image, why);

		for (size_t i = 0; !error && i < image->stretch_count; i++)
			error = settle_ring(image, &image->stretch[i]);
		for (size_t i = 0; !error && i < image->sums_count; i++)
			error = settle_sums(image, &image->sums[i]);
		if (error || generation(image) == image->slot.generation)
			return error;
		nanosleep(&pause, NULL);
	}
	return -EBUSY;
}

/* Drop the chunks that are entirely in the file by now. */
static void drop_empty(struct pfw_spool_image *image)
{
	size_t kept = 0;

	for (size_t i = 0; i < image->stretch_count; i++) {
		struct pfw_spool_stretch *stretch = &image->stretch[i];

		if (stretch->tail != stretch->head && stretch->tid) {
			image->stretch[kept++] = *stretch;
			continue;
		}
		image->damaged += stretch->tail != stretch->head;
		free(stretch->slots);
	}
	image->stretch_count = kept;
}

int pfw_spool_image_live(struct pfw_spool_image *image, char *why)
{
	int error = copy_rings(image) ?: pfw_spool_image_reread(image, why) ?: copy_others(image);

	error = error ?: settle(image, why);
	if (error)
		return error;
	drop_empty(image);
	return pfw_spool_image_order(image, why);
}
