/* store/recover/image.c - reads a spool into memory without trusting it: see image.h. */
#include "store/recover/image.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/order.h"
#include "store/kit/grow.h"
#include "store/sys/full_io.h"
#include "store/sys/open.h"

/* The largest ring has 64 MiB (PFW_RING_MAX), so a larger one is damage. */
#define STRETCH_SLOTS_MAX ((64u << 20) / PFW_SLOT_BYTES)
#define TEMPLATES_MAX 0xffffu /* a record has 16 bits for its template */

int pfw_spool_read(int fd, void *to, size_t bytes, uint64_t at)
{
	ssize_t got = pfw_full_read(fd, to, bytes, at);

	return got < 0 ? (int)got : (size_t)got < bytes ? -ENODATA : 0;
}

int pfw_spool_image_open(const char *path, bool write, struct stat *st)
{
	return pfw_open_file(path, (write ? PFW_OPEN_WRITE : 0u) | (geteuid() ? PFW_OPEN_MINE : 0u),
			     st);
}

/* Take these bytes from the budget.  False: they are more, and the chunk counts as damaged. */
static bool claim(struct pfw_spool_image *image, uint64_t bytes)
{
	bool granted = bytes <= image->budget;

	image->budget -= granted ? bytes : 0;
	image->damaged += !granted;
	return granted;
}

static int bad(char *why, const char *what, uint64_t value)
{
	snprintf(why, PFW_SPOOL_WHY_BYTES,
		 "damaged spool: its %s %llu makes no sense; its trace is "
		 "good as far as it goes: remove the spool",
		 what, (unsigned long long)value);
	return -EINVAL;
}

static int check_header(const struct pfw_spool_image *image, char *why)
{
	const struct pfw_spool_header *header = image->header;
	uint64_t end = atomic_load_explicit(&header->end, memory_order_relaxed);
	const char *trace = pfw_spool_trace_path(image->header);

	if (!header->magic) /* stored after the lengths when a spool is made */
		return -ENODATA;
	if (header->magic != PFW_SPOOL_MAGIC) {
		snprintf(why, PFW_SPOOL_WHY_BYTES,
			 "not a spool of pfw: it begins with other bytes");
		return -EINVAL;
	}
	if (header->version != PFW_SPOOL_VERSION) {
		snprintf(why, PFW_SPOOL_WHY_BYTES,
			 "its layout is version %u and this pfw reads %u: "
			 "use the pfw that recorded it",
			 header->version, PFW_SPOOL_VERSION);
		return -EINVAL;
	}
	if (header->header_bytes < PFW_SPOOL_HEADER_BYTES ||
	    header->header_bytes > PFW_PAGE_BYTES_MAX || header->header_bytes % PFW_PAGE_BYTES)
		return bad(why, "header length", header->header_bytes);
	if (end < header->header_bytes || end % PFW_PAGE_BYTES)
		return bad(why, "length", end);
	if (end == header->header_bytes && !header->boot_id[0])
		return -ENODATA; /* killed before the page was filled, so there are no records */
	if (header->pid <= 0)
		return bad(why, "process id", (uint64_t)(int64_t)header->pid);
	if (strnlen(trace, PFW_PAGE_BYTES) == PFW_PAGE_BYTES || (trace[0] && trace[0] != '/'))
		return bad(why, "path of the trace, first byte", (unsigned char)trace[0]);
	return 0;
}

/* Take the slot with the greater generation, which was finished last.  If there is none, all is
 * zero but the clock. */
static void choose_slot(struct pfw_spool_image *image)
{
	struct pfw_spool_header *header = image->header;
	uint64_t a = atomic_load_explicit(&header->slot[0].generation, memory_order_relaxed);
	uint64_t b = atomic_load_explicit(&header->slot[1].generation, memory_order_relaxed);

	memcpy(&image->slot, &header->slot[b > a], sizeof(image->slot));
	if (!a && !b) {
		image->slot.offset = 0;
		image->slot.events = image->slot.torn = 0;
		image->slot.next_id = 1; /* where the writer begins */
	}
}

int pfw_spool_image_header(struct pfw_spool_image *image, int fd, char *why)
{
	struct stat st;

	memset(image, 0, sizeof(*image));
	image->fd = fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	image->bytes = (uint64_t)st.st_size;
	image->budget = (uint64_t)st.st_blocks * 512 * PFW_SPOOL_COPIES;
	PFW_RAISE(image->budget, PFW_SPOOL_COPIED_LEAST);
	image->header = calloc(1, PFW_SPOOL_HEADER_BYTES);
	return image->header ? pfw_spool_image_reread(image, why) : -ENOMEM;
}

int pfw_spool_image_reread(struct pfw_spool_image *image, char *why)
{
	int error = pfw_spool_read(image->fd, image->header, PFW_SPOOL_HEADER_BYTES, 0);

	error = error ?: check_header(image, why);
	if (error)
		return error;
	choose_slot(image);
	if (image->slot.offset > INT64_MAX)
		return bad(why, "length of the trace", image->slot.offset);
	return 0;
}

/* Names of templates and keys are written into lines unescaped, so only plain text is accepted. */
static bool plain_text(const char *text, size_t size)
{
	size_t length = strnlen(text, size);

	if (length == size)
		return false;
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < 0x20 || c > 0x7e || c == '"' || c == '\\')
			return false;
	}
	return true;
}

static bool template_is_sound(const struct pfw_template_chunk *chunk,
			      const struct pfw_template *template)
{
	if (!plain_text(template->name, sizeof(template->name)) ||
	    !plain_text(template->category, sizeof(template->category)) ||
	    template->shape >= PFW_SHAPE_COUNT || template->field_count > PFW_TEMPLATE_FIELDS)
		return false;
	for (unsigned i = 0; i < template->field_count; i++)
		if (template->field[i] >= chunk->key_count)
			return false;
	return true;
}

static bool templates_are_sound(const struct pfw_template_chunk *chunk)
{
	uint64_t room = (chunk->chunk.bytes - sizeof(*chunk)) / sizeof(struct pfw_template);

	if (!chunk->key_count || chunk->key_count > PFW_KEYS_MAX || chunk->template_count > room ||
	    chunk->template_count > TEMPLATES_MAX)
		return false;
	for (unsigned i = 0; i < chunk->key_count; i++)
		if (!plain_text(chunk->key[i].name, sizeof(chunk->key[i].name)) ||
		    chunk->key[i].type >= PFW_TYPE_COUNT)
			return false;
	for (unsigned i = 0; i < chunk->template_count; i++)
		if (!template_is_sound(chunk, &chunk->template[i]))
			return false;
	return true;
}

/* Read `bytes` at `at` into memory to be freed. */
static int read_copy(const struct pfw_spool_image *image, size_t bytes, uint64_t at, void **copy)
{
	int error;

	*copy = malloc(bytes);
	if (!*copy)
		return -ENOMEM;
	error = pfw_spool_read(image->fd, *copy, bytes, at);
	if (error)
		free(*copy);
	return error;
}

/* Invalid templates count as none: a process killed at its start has not filled the chunk, and then
 * it has no records that need templates. */
static int take_templates(struct pfw_spool_image *image, const struct pfw_chunk *chunk, uint64_t at)
{
	uint64_t most = sizeof(*image->templates) + TEMPLATES_MAX * sizeof(struct pfw_template) +
			PFW_PAGE_BYTES_MAX;
	struct pfw_template_chunk *templates;
	void *copy;
	int error;

	if (image->templates || chunk->bytes < sizeof(*templates) || chunk->bytes > most)
		return 0;
	error = read_copy(image, chunk->bytes, at, &copy);
	if (error)
		return error;
	templates = copy;
	templates->chunk = *chunk; /* the checked copy */
	if (templates_are_sound(templates))
		image->templates = templates;
	else
		free(copy);
	return 0;
}

/* Take a chunk that a spool has once: what `into`, its pointer, points to is the copy. */
static int take_once(struct pfw_spool_image *image, const struct pfw_chunk *chunk, uint64_t at,
		     void **into, size_t bytes)
{
	void *copy;
	int error;

	if (*into || chunk->bytes < bytes) {
		image->damaged++;
		return 0;
	}
	error = read_copy(image, bytes, at, &copy);
	if (!error)
		*into = copy;
	return error;
}

static int take_strings(struct pfw_spool_image *image, const struct pfw_chunk *chunk, uint64_t at)
{
	if (chunk->index < PFW_STRING_SEGMENTS && chunk->bytes == PFW_STRING_SEGMENT_BYTES)
		return take_once(image, chunk, at, (void **)&image->strings.segment[chunk->index],
				 PFW_STRING_SEGMENT_BYTES);
	image->damaged++;
	return 0;
}

bool pfw_spool_stretch_is_sound(struct pfw_spool_image *image,
				const struct pfw_spool_stretch *stretch,
				const struct pfw_chunk *chunk)
{
	uint32_t capacity = stretch->capacity;
	bool sound = stretch->tid && capacity && !(capacity & (capacity - 1)) &&
		     capacity <= STRETCH_SLOTS_MAX && stretch->head - stretch->tail <= capacity &&
		     chunk->bytes >= PFW_PAGE_BYTES + (uint64_t)capacity * PFW_SLOT_BYTES;

	image->damaged += !sound;
	return sound && claim(image, (stretch->head - stretch->tail) * PFW_SLOT_BYTES);
}

static int take_ring(struct pfw_spool_image *image, const struct pfw_chunk *chunk, uint64_t at)
{
	struct pfw_ring_chunk head;
	struct pfw_spool_stretch stretch = { .ring = chunk->index, .at = at + PFW_PAGE_BYTES };
	int error = pfw_spool_read(image->fd, &head, sizeof(head), at);

	if (error)
		return error;
	stretch.capacity = head.capacity;
	stretch.order = head.order;
	stretch.tid = atomic_load_explicit(&head.tid, memory_order_relaxed);
	stretch.tail = stretch.first = head.saved_tail[image->slot.generation & 1];
	stretch.head = atomic_load_explicit(&head.head, memory_order_relaxed) & ~PFW_RING_CLOSED;
	memcpy(stretch.comm, head.comm, sizeof(stretch.comm));
	if (!atomic_load_explicit(&head.in_use, memory_order_relaxed) ||
	    stretch.head == stretch.tail)
		return 0;
	if (!pfw_spool_stretch_is_sound(image, &stretch, chunk))
		return 0;
	return PFW_APPEND(image->stretch, image->stretch_count, stretch);
}

static int take_sums(struct pfw_spool_image *image, const struct pfw_chunk *chunk, uint64_t at)
{
	uint32_t filled = 0;
	int error = 0;

	if (chunk->bytes < PFW_SUMS_BYTES) { /* rounded up to pages of the process's machine */
		image->damaged++;
		return 0;
	}
	error = pfw_spool_read(image->fd, &filled, sizeof(filled),
			       at + offsetof(struct pfw_sums_chunk, filled));
	if (error || !filled || !claim(image, PFW_SUMS_BYTES))
		return error;
	return PFW_APPEND(image->sums, image->sums_count, (struct pfw_spool_sums){ .at = at });
}

static int by_ring_then_order(const void *left, const void *right)
{
	const struct pfw_spool_stretch *a = left, *b = right;

	return PFW_ORDER(a->ring, b->ring) ?: PFW_ORDER(a->order, b->order) ?:
	       PFW_ORDER(a->at, b->at);
}

bool pfw_spool_image_chunk(const struct pfw_spool_image *image, uint64_t at,
			   struct pfw_chunk *chunk)
{
	uint64_t end = atomic_load_explicit(&image->header->end, memory_order_relaxed);

	/* After a damaged head the begin of the next chunk is unknown. */
	return at < end && !pfw_spool_read(image->fd, chunk, sizeof(*chunk), at) &&
	       chunk->bytes >= PFW_PAGE_BYTES && chunk->bytes % PFW_PAGE_BYTES == 0 &&
	       chunk->bytes <= end - at;
}

int pfw_spool_image_take(struct pfw_spool_image *image, const struct pfw_chunk *chunk, uint64_t at)
{
	switch (chunk->kind) {
	case PFW_CHUNK_TEMPLATES:
		return take_templates(image, chunk, at);
	case PFW_CHUNK_STRINGS:
		return take_strings(image, chunk, at);
	case PFW_CHUNK_SUMS:
		return take_sums(image, chunk, at);
	case PFW_CHUNK_STEPS:
		return take_once(image, chunk, at, (void **)&image->steps, sizeof(*image->steps));
	case PFW_CHUNK_STACKS:
		return take_once(image, chunk, at, (void **)&image->stacks, sizeof(*image->stacks));
	default:
		image->damaged++;
		return 0;
	}
}

int pfw_spool_image_order(struct pfw_spool_image *image, char *why)
{
	if (image->stretch_count + image->sums_count && !image->templates)
		return bad(why, "template table; records left without one:",
			   image->stretch_count + image->sums_count);
	if (image->stretch_count)
		qsort(image->stretch, image->stretch_count, sizeof(*image->stretch),
		      by_ring_then_order);
	return 0;
}

int pfw_spool_image_chunks(struct pfw_spool_image *image, char *why)
{
	uint64_t at = image->header->header_bytes;
	struct pfw_chunk chunk;
	int error = 0;

	for (; !error && pfw_spool_image_chunk(image, at, &chunk); at += chunk.bytes)
		error = chunk.kind == PFW_CHUNK_RING ? take_ring(image, &chunk, at)
						     : pfw_spool_image_take(image, &chunk, at);
	if (error && error != -ENODATA)
		return error;
	/* The file is shorter than its header says, or a chunk is damaged: use what was read. */
	image->damaged += error ||
			  at < atomic_load_explicit(&image->header->end, memory_order_relaxed);
	return pfw_spool_image_order(image, why);
}

/* The slots are a circular buffer: they wrap at the end of the chunk. */
static int read_slots(const struct pfw_spool_image *image, const struct pfw_spool_stretch *stretch,
		      struct pfw_record *slots)
{
	uint64_t count = stretch->head - stretch->first;
	uint64_t begin = stretch->first & (stretch->capacity - 1);
	uint64_t whole = count < stretch->capacity - begin ? count : stretch->capacity - begin;
	int error = pfw_spool_read(image->fd, slots, whole * PFW_SLOT_BYTES,
				   stretch->at + begin * PFW_SLOT_BYTES);

	return error ? error
		     : pfw_spool_read(image->fd, slots + whole, (count - whole) * PFW_SLOT_BYTES,
				      stretch->at);
}

struct pfw_record *pfw_spool_image_slots(const struct pfw_spool_image *image,
					 struct pfw_spool_stretch *stretch)
{
	struct pfw_record *slots = stretch->slots;

	stretch->slots = NULL;
	if (slots)
		return slots;
	slots = malloc((size_t)(stretch->head - stretch->first) * PFW_SLOT_BYTES);
	if (slots && read_slots(image, stretch, slots)) {
		free(slots);
		slots = NULL;
	}
	return slots;
}

struct pfw_sums_chunk *pfw_spool_image_sums(const struct pfw_spool_image *image, size_t n)
{
	struct pfw_sums_chunk *sums = image->sums[n].copy;

	image->sums[n].copy = NULL;
	if (sums)
		return sums;
	sums = aligned_alloc(alignof(struct pfw_sums_chunk), sizeof(*sums));
	if (sums && pfw_spool_read(image->fd, sums, sizeof(*sums), image->sums[n].at)) {
		free(sums);
		sums = NULL;
	}
	return sums;
}

void pfw_spool_image_release(struct pfw_spool_image *image)
{
	for (unsigned i = 0; i < PFW_STRING_SEGMENTS; i++)
		free((void *)image->strings.segment[i]);
	for (size_t i = 0; i < image->stretch_count; i++)
		free(image->stretch[i].slots);
	for (size_t i = 0; i < image->sums_count; i++)
		free(image->sums[i].copy);
	free(image->templates);
	free(image->steps);
	free(image->stacks);
	free(image->stretch);
	free(image->sums);
	free(image->header);
	memset(image, 0, sizeof(*image));
}
