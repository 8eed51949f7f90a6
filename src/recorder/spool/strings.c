/* recorder/spool/strings.c - names in the spool: interned, or counted by users. */
#include "recorder/spool/strings.h"

#include <stdatomic.h>
#include <string.h>

#include "common/base/os.h"

#define GRANULES (PFW_STRING_SEGMENT_BYTES / PFW_STRING_GRANULE) /* per segment */
#define FIRST_GRANULE ((uint32_t)(sizeof(struct pfw_chunk) + 15) / PFW_STRING_GRANULE)

/* Size classes of cells, in granules: a freed cell fits the next name of its class. */
static const uint16_t class_granules[] = { 2, 4, 6, 8, 12, 16, 32, 64, 258 };
#define CLASSES PFW_ARRAY_LEN(class_granules)

/* Interned names: a hash table with open addressing, insert only, at most three quarters full. */
#define NAMES 4096u
#define NAMES_MAX (NAMES / 4 * 3)

#define HELD_MAX 64u

static struct strings {
	struct pfw_string_view inherited; /* the parent's segments, after a fork */
	struct pfw_string_view view;
	_Atomic uint32_t segments;
	_Atomic uint32_t room; /* granules allocated, over all segments */
	_Atomic uint32_t bump; /* granules carved, over all segments */
	/* A free list per class: granule in the low half, ABA counter in the high half. */
	_Atomic uint64_t free[CLASSES];
	/* List of dropped cells (granule, 0 = none); the writer takes all at once. */
	_Atomic uint32_t dropped;
	uint32_t waiting, ripe; /* dropped one and two passes ago; only the writer's */
	/* A flight recorder's, instead of these two: lists, and until when they were dropped. */
	struct {
		uint32_t granule;
		uint64_t ticks;
	} held[HELD_MAX];
	uint32_t held_count;
	_Atomic uint32_t refused; /* a text found no room */
	_Atomic uint32_t names;	  /* in the table below, or being inserted */
	_Atomic uint32_t name[NAMES];
} strings;

static struct pfw_string *cell_at(uint32_t granule)
{
	const char *segment = strings.view.segment[granule / GRANULES];

	return (struct pfw_string *)(uintptr_t)(segment + granule % GRANULES * PFW_STRING_GRANULE);
}

/* The cell of a reference, or NULL if the reference is stale. */
static struct pfw_string *cell_of(uint32_t ref)
{
	uint32_t granule = ref & 0xffffu;
	struct pfw_string *cell;

	if (!ref ||
	    granule / GRANULES >= atomic_load_explicit(&strings.segments, memory_order_acquire))
		return NULL;
	cell = cell_at(granule);
	if (atomic_load_explicit(&cell->generation, memory_order_acquire) != ref >> 16)
		return NULL;
	return cell;
}

void pfw_strings_forked(void)
{
	struct pfw_string_view parents = strings.view;

	pfw_strings_reset();
	strings.inherited = parents;
}

size_t pfw_strings_inherited(uint32_t ref, char *text, size_t room)
{
	uint32_t bytes = 0, again;
	const char *name = pfw_string_text(&strings.inherited, ref, &bytes);

	if (!name || bytes > room)
		return 0;
	memcpy(text, name, bytes);
	/* If the parent has reused the cell meanwhile, its generation has changed. */
	atomic_thread_fence(memory_order_acquire);
	return pfw_string_text(&strings.inherited, ref, &again) && again == bytes ? bytes : 0;
}

void pfw_strings_reset(void)
{
	/* Writing to an empty table would give a forked child private copies of its pages. */
	memset(&strings, 0,
	       atomic_load(&strings.names) ? sizeof(strings) : offsetof(struct strings, name));
}

void pfw_strings_add_segment(char *segment, unsigned index, size_t usable)
{
	strings.view.segment[index] = segment;
	/* Pairs with the acquire in cell_of() and carve(): the segment comes before its number. */
	atomic_store_explicit(&strings.segments, index + 1, memory_order_release);
	atomic_store_explicit(&strings.room,
			      index * GRANULES + (uint32_t)(usable / PFW_STRING_GRANULE),
			      memory_order_release);
}

bool pfw_strings_low(void)
{
	uint32_t room = atomic_load_explicit(&strings.room, memory_order_relaxed);
	uint32_t used = atomic_load_explicit(&strings.bump, memory_order_relaxed);

	return room < PFW_STRING_SEGMENTS * GRANULES &&
	       (!room || used + (room < GRANULES ? room : GRANULES) / 4 > room);
}

const struct pfw_string_view *pfw_strings_view(void)
{
	return &strings.view;
}

const char *pfw_strings_text(uint32_t ref, uint32_t *bytes)
{
	return pfw_string_text(&strings.view, ref, bytes);
}

static struct pfw_string *pop_free(unsigned class, uint32_t *granule)
{
	uint64_t top = atomic_load_explicit(&strings.free[class], memory_order_acquire);
	struct pfw_string *cell;

	do {
		*granule = (uint32_t)top;
		if (!*granule)
			return NULL;
		cell = cell_at(*granule);
	} while (!atomic_compare_exchange_weak_explicit(
		&strings.free[class], &top,
		((top >> 32) + 1) << 32 | __atomic_load_n(&cell->next, __ATOMIC_RELAXED),
		memory_order_acq_rel, memory_order_acquire));
	return cell;
}

static void push_free(unsigned class, struct pfw_string *cell, uint32_t granule)
{
	uint64_t top = atomic_load_explicit(&strings.free[class], memory_order_relaxed);

	do
		__atomic_store_n(&cell->next, (uint32_t)top, __ATOMIC_RELAXED);
	while (!atomic_compare_exchange_weak_explicit(&strings.free[class], &top,
						      ((top >> 32) + 1) << 32 | granule,
						      memory_order_release, memory_order_relaxed));
}

/* Bump allocation; skips the rest of a segment that is too short. */
static struct pfw_string *carve(unsigned class, uint32_t *granule)
{
	uint32_t want = class_granules[class];
	uint32_t used = atomic_load_explicit(&strings.bump, memory_order_relaxed);
	uint32_t room = atomic_load_explicit(&strings.room, memory_order_acquire);
	uint32_t at;

	do {
		at = used;
		if (at % GRANULES < FIRST_GRANULE)
			at += FIRST_GRANULE - at % GRANULES;
		if (at % GRANULES + want > GRANULES)
			at = (at / GRANULES + 1) * GRANULES + FIRST_GRANULE;
		if (at + want > room)
			return NULL;
	} while (!atomic_compare_exchange_weak_explicit(
		&strings.bump, &used, at + want, memory_order_relaxed, memory_order_relaxed));
	*granule = at;
	cell_at(at)->granules = (uint16_t)want;
	return cell_at(at);
}

/* The smallest class whose cells hold so many granules. */
static unsigned class_for(size_t granules)
{
	unsigned class = 0;

	while (class < CLASSES - 1 && class_granules[class] < granules)
		class ++;
	return class;
}

uint32_t pfw_string_create(const char *directory, size_t directory_bytes, const char *text,
			   size_t bytes)
{
	size_t all = directory_bytes ? directory_bytes + 1 + bytes : bytes;
	size_t cell_bytes = sizeof(struct pfw_string) + all + 1;
	unsigned class = class_for((cell_bytes + PFW_STRING_GRANULE - 1) / PFW_STRING_GRANULE);
	struct pfw_string *cell;
	uint32_t granule, generation;
	char *out;

	if (all > PFW_STRING_MAX)
		return 0;
	cell = pop_free(class, &granule);
	if (!cell)
		cell = carve(class, &granule);
	if (!cell) {
		atomic_store_explicit(&strings.refused, 1, memory_order_relaxed);
		return 0;
	}
	out = cell->text;
	if (directory_bytes) {
		memcpy(out, directory, directory_bytes);
		out += directory_bytes;
		*out++ = '/';
	}
	memcpy(out, text, bytes);
	out[bytes] = '\0'; /* for comparisons with a C string */
	cell->bytes = (uint16_t)all;
	/* A thread that adds itself as a user then sees that the old generation is gone. */
	atomic_store_explicit(&cell->users, 1, memory_order_release);
	generation = (atomic_load_explicit(&cell->generation, memory_order_relaxed) + 1) & 0xffff;
	/* The text is stored before the generation that makes its references valid. */
	atomic_store_explicit(&cell->generation, (uint16_t)generation, memory_order_release);
	return pfw_string_ref(generation, granule);
}

/* Remove a user of a cell, whatever name it holds now. */
static void release(struct pfw_string *cell, uint32_t granule)
{
	uint32_t top;

	if (atomic_fetch_sub_explicit(&cell->users, 1, memory_order_acq_rel) != 1)
		return;
	top = atomic_load_explicit(&strings.dropped, memory_order_relaxed);
	do
		__atomic_store_n(&cell->next, top, __ATOMIC_RELAXED);
	while (!atomic_compare_exchange_weak_explicit(&strings.dropped, &top, granule,
						      memory_order_release, memory_order_relaxed));
}

bool pfw_string_hold(uint32_t ref)
{
	struct pfw_string *cell = cell_of(ref);
	uint32_t users;

	if (!cell)
		return false;
	users = atomic_load_explicit(&cell->users, memory_order_relaxed);
	do {
		if (!users)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		&cell->users, &users, users + 1, memory_order_acq_rel, memory_order_relaxed));
	/* Between the look and the hold the cell may have been freed and taken for another name,
	 * whose maker adds itself before it sets the generation. */
	if (atomic_load_explicit(&cell->generation, memory_order_acquire) == ref >> 16)
		return true;
	release(cell, ref & 0xffffu);
	return false;
}

void pfw_string_drop(uint32_t ref)
{
	struct pfw_string *cell = cell_of(ref);

	if (cell)
		release(cell, ref & 0xffffu);
}

static void free_list(uint32_t granule)
{
	while (granule) {
		struct pfw_string *cell = cell_at(granule);
		uint32_t next = __atomic_load_n(&cell->next, __ATOMIC_RELAXED);

		/* An even generation: references to the old text are stale from here on. */
		atomic_fetch_add_explicit(&cell->generation, 1, memory_order_release);
		push_free(class_for(cell->granules), cell, granule);
		granule = next;
	}
}

void pfw_strings_reclaim(void)
{
	free_list(strings.ripe);
	strings.ripe = strings.waiting;
	strings.waiting = atomic_exchange_explicit(&strings.dropped, 0, memory_order_acquire);
}

/* While all lists are held, what is dropped waits for the next one. */
void pfw_strings_reclaim_before(uint64_t now_ticks, uint64_t oldest_ticks)
{
	uint32_t count = 0, granule;

	while (count < strings.held_count && strings.held[count].ticks < oldest_ticks)
		free_list(strings.held[count++].granule);
	strings.held_count -= count;
	memmove(strings.held, strings.held + count, strings.held_count * sizeof(*strings.held));
	if (strings.held_count == HELD_MAX)
		return;
	granule = atomic_exchange_explicit(&strings.dropped, 0, memory_order_acquire);
	if (!granule)
		return;
	strings.held[strings.held_count].granule = granule;
	strings.held[strings.held_count++].ticks = now_ticks;
}

uint64_t pfw_strings_scarce(void)
{
	if (!atomic_exchange_explicit(&strings.refused, 0, memory_order_relaxed) ||
	    !strings.held_count)
		return 0;
	return strings.held[strings.held_count / 2].ticks;
}

/* Like FNV-1a, 8 bytes at a time: names are short and few, so spread matters more than strength. */
static uint32_t hash_of(const char *text, size_t bytes)
{
	uint64_t hash = 0xcbf29ce484222325u ^ bytes, word;

	for (; bytes >= 8; bytes -= 8, text += 8) {
		memcpy(&word, text, 8);
		hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 29;
	}
	word = 0;
	for (size_t i = 0; i < bytes; i++)
		word = word << 8 | (unsigned char)text[i];
	hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
	return (uint32_t)(hash >> 32);
}

uint32_t pfw_string_intern(const char *text, size_t bytes)
{
	uint32_t at = hash_of(text, bytes), made = 0;

	for (uint32_t step = 0; step < NAMES; step++) {
		_Atomic uint32_t *bucket = &strings.name[(at + step) % NAMES];
		uint32_t ref = atomic_load_explicit(bucket, memory_order_acquire), found;

		if (!ref) {
			if (!made &&
			    atomic_load_explicit(&strings.names, memory_order_relaxed) >= NAMES_MAX)
				return 0;
			if (!made)
				made = pfw_string_create(NULL, 0, text, bytes);
			if (!made)
				return 0;
			atomic_fetch_add_explicit(&strings.names, 1, memory_order_relaxed);
			if (atomic_compare_exchange_strong_explicit(
				    bucket, &ref, made, memory_order_acq_rel, memory_order_acquire))
				return made;
			atomic_fetch_sub_explicit(&strings.names, 1, memory_order_relaxed);
		}
		found = cell_at(ref & 0xffffu)->bytes;
		if (found == bytes && !memcmp(cell_at(ref & 0xffffu)->text, text, bytes)) {
			pfw_string_drop(made); /* another thread has interned it meanwhile */
			return ref;
		}
	}
	pfw_string_drop(made);
	return 0;
}
