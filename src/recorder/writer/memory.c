/* recorder/writer/memory.c - the writer's buffers, and the chunks of the spool: strings, rings. */
#include <string.h>

#include "common/base/os.h"
#include "recorder/guest/locked.h"
#include "recorder/spool/ring.h"
#include "recorder/spool/stacks.h"
#include "recorder/spool/strings.h"
#include "recorder/spool/templates.h"
#include "recorder/writer/internal.h"

#define FIRST_STRETCH_SLOTS 512u /* 32 KiB */

/* ---- buffers ---- */

/* Not inherited: a child maps its own, and the parent need not copy pages on its next write. */
static char *map_private(size_t bytes)
{
	char *memory = pfw_unlock(pfw_os_map(bytes), bytes);

	if (memory)
		pfw_os_madvise(memory, bytes, MADV_DONTFORK);
	return memory;
}

/* Only touched pages use memory: a small program touches few. */
static int map_buffers(struct pfw_writer *writer)
{
	size_t room = writer->text_limit + PFW_JSON_LINE_MAX * 2 + PFW_JSON_SLACK;
	char *memory;

	/* The cache behind it has members of 8 bytes. */
	writer->member.room = writer->gzip ? (pfw_gzip_bound(room) + 15) & ~(size_t)15 : 0;
	memory = map_private(room + writer->member.room +
			     pfw_json_cache_bytes(writer->json.templates->template_count));
	if (!memory)
		return -ENOMEM;
	writer->text.start = memory;
	writer->text.room = room;
	writer->member.start = memory + room;
	pfw_json_init(&writer->json, memory + room + writer->member.room);
	pfw_json_window(&writer->json);
	return 0;
}

/* Mapped by map_buffers() or now. */
static bool have_member_room(struct pfw_writer *writer)
{
	size_t bytes = pfw_gzip_bound(writer->text.room);
	char *memory = writer->member.room ? NULL : map_private(bytes);

	if (memory) {
		writer->member.start = memory;
		writer->member.room = bytes;
	}
	return writer->member.room;
}

bool pfw_writer_compress(struct pfw_writer *writer, struct pfw_gzip *gzip)
{
	struct pfw_writer_files files = PFW_NO_FILES;
	bool compressed;

	pfw_writer_lock(writer, &files);
	if (!writer->reported.process && !writer->text.bytes && !writer->offset &&
	    (!gzip || have_member_room(writer)))
		writer->gzip = gzip;
	compressed = writer->gzip;
	pfw_writer_unlock(writer);
	return compressed;
}

/* ---- rings and their stretches ---- */

/* The slots of the next ring's first stretch. */
static uint32_t first_capacity(const struct pfw_writer *writer)
{
	return writer->first_slots && !writer->made.rings ? writer->first_slots
							  : FIRST_STRETCH_SLOTS;
}

struct pfw_ring_chunk *pfw_writer_get_stretch(struct pfw_writer *writer, uint32_t capacity)
{
	struct pfw_ring_chunk **pool = &writer->made.pool[__builtin_ctz(capacity)];
	struct pfw_ring_chunk *stretch = *pool;

	if (stretch) {
		*pool = (struct pfw_ring_chunk *)(uintptr_t)stretch->order;
		return stretch;
	}
	stretch = pfw_writer_append(writer, PFW_CHUNK_RING, 0,
				    PFW_PAGE_BYTES + (uint64_t)capacity * PFW_SLOT_BYTES);
	if (stretch) {
		stretch->capacity = capacity;
		writer->made.ring_bytes += stretch->chunk.bytes;
	}
	return stretch;
}

void pfw_writer_return_stretch(struct pfw_writer *writer, struct pfw_ring_chunk *stretch)
{
	struct pfw_ring_chunk **pool = &writer->made.pool[__builtin_ctz(stretch->capacity)];

	stretch->order = (uint64_t)(uintptr_t)*pool; /* while it is free, `order` is the link */
	*pool = stretch;
}

int pfw_writer_open_for_ring(struct pfw_writer *writer)
{
	uint64_t bytes = PFW_PAGE_BYTES + (uint64_t)first_capacity(writer) * PFW_SLOT_BYTES;

	return pfw_spool_needs_file(writer->spool, PFW_CHUNK_RING, bytes)
		       ? pfw_writer_open_spool(writer)
		       : 0;
}

/* A stretch for the next ring.  Beyond what a flight recorder may keep: the oldest one, if it
 * fits. */
static struct pfw_ring_chunk *first_stretch(struct pfw_writer *writer)
{
	uint32_t capacity = first_capacity(writer);

	while (keeps(writer) && writer->made.ring_bytes >= writer->keep_bytes &&
	       !writer->made.pool[__builtin_ctz(capacity)] && pfw_writer_keep_less(writer))
		;
	return pfw_writer_get_stretch(writer, capacity);
}

static bool make_ring(struct pfw_writer *writer)
{
	struct pfw_ring_chunk *stretch;

	if (!writer->made.ring_memory_left) {
		void *page = pfw_unlock(pfw_os_map(PFW_PAGE_BYTES), PFW_PAGE_BYTES);

		if (!page)
			return false;
		writer->made.ring_memory = page;
		writer->made.ring_memory_left = PFW_PAGE_BYTES / sizeof(struct pfw_ring);
	}
	stretch = first_stretch(writer);
	if (!stretch)
		return false;
	writer->made.ring_memory_left--;
	if (writer->sums)
		writer->made.ring_memory->sums = pfw_writer_append(
			writer, PFW_CHUNK_SUMS, writer->made.rings, PFW_SUMS_BYTES);
	pfw_ring_publish(writer->made.ring_memory++, stretch, writer->made.rings++);
	return true;
}

/* A flight recorder gives the ring of an ended thread to the next one, and keeps its records.
 * False: there is none. */
static bool renew_ring(struct pfw_writer *writer)
{
	struct pfw_ring *ring = keeps(writer) ? pfw_ring_first() : NULL;
	struct pfw_ring_chunk *stretch = NULL;
	bool spare;

	while (ring && atomic_load(&ring->state) != PFW_RING_DEAD)
		ring = ring->next;
	if (!ring)
		return false;
	spare = atomic_load(&ring->stretch) != ring->last;
	if (!spare)
		stretch = first_stretch(writer);
	/* Making room may have freed the ring. */
	if (atomic_load(&ring->state) == PFW_RING_DEAD && (spare || stretch))
		pfw_ring_renew(ring, stretch);
	else if (stretch)
		pfw_writer_return_stretch(writer, stretch);
	return atomic_load(&ring->state) != PFW_RING_DEAD;
}

struct pfw_ring *pfw_writer_make_own_ring(struct pfw_writer *writer)
{
	struct pfw_ring *ring = make_ring(writer) ? pfw_ring_first() : NULL;
	uint32_t free = PFW_RING_FREE;

	return ring && atomic_compare_exchange_strong(&ring->state, &free, PFW_RING_OWNED) ? ring
											   : NULL;
}

bool pfw_writer_supply_rings(struct pfw_writer *writer, uint32_t dead_max)
{
	uint32_t want = pfw_ring_wanted() + (writer->made.rings >= 2), have = 0, dead = 0;

	for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = ring->next) {
		have += atomic_load(&ring->state) == PFW_RING_FREE;
		dead += atomic_load(&ring->state) == PFW_RING_DEAD;
	}
	while (have < want && (keeps(writer) || dead < dead_max) &&
	       (renew_ring(writer) || make_ring(writer)))
		have++;
	return have || !want;
}

void pfw_writer_grow_ring(struct pfw_writer *writer, struct pfw_ring *ring)
{
	uint32_t capacity = ring->drain->capacity < FIRST_STRETCH_SLOTS ? FIRST_STRETCH_SLOTS
									: ring->drain->capacity * 2;
	struct pfw_ring_chunk *stretch;

	if (ring->upcoming || ring->retired || ring->drain != atomic_load(&ring->stretch) ||
	    (uint64_t)capacity * PFW_SLOT_BYTES > writer->ring_max_bytes ||
	    (!writer->made.pool[__builtin_ctz(capacity)] &&
	     !pfw_writer_may_take(writer, (uint64_t)capacity * PFW_SLOT_BYTES)))
		return;
	stretch = pfw_writer_get_stretch(writer, capacity);
	if (stretch)
		pfw_ring_offer(ring, stretch);
}

/* ---- first start ---- */

void pfw_writer_add_strings(struct pfw_writer *writer)
{
	struct pfw_chunk *segment = writer->made.segment;

	if (segment && pfw_spool_usable(writer->spool, segment) < segment->bytes) {
		if (pfw_writer_open_spool(writer) ||
		    pfw_spool_make_rest(writer->spool, writer->files->spool.fd))
			return;
	} else {
		segment = pfw_writer_append(writer, PFW_CHUNK_STRINGS, writer->made.string_segments,
					    PFW_STRING_SEGMENT_BYTES);
		if (!segment)
			return;
		writer->made.segment = segment;
		writer->made.string_segments++;
	}
	pfw_strings_add_segment((char *)segment, writer->made.string_segments - 1,
				pfw_spool_usable(writer->spool, segment));
}

void pfw_writer_first_bytes(const struct pfw_writer *writer, uint64_t *made, uint64_t *mapped)
{
	uint64_t page = pfw_os_page_bytes();
	uint64_t slots = writer->first_slots ? writer->first_slots : FIRST_STRETCH_SLOTS;
	uint64_t bytes = pfw_os_whole_pages(pfw_templates_bytes()) +
			 pfw_os_whole_pages(PFW_PAGE_BYTES + slots * PFW_SLOT_BYTES);

	*made = bytes + page;
	*mapped = bytes + pfw_os_whole_pages(PFW_STRING_SEGMENT_BYTES);
}

/* Make the spool's chunk of stacks, if PFW_STACK asks for it. */
static void add_stacks(struct pfw_writer *writer)
{
	pfw_stacks_use(writer->stacks ? pfw_writer_append(writer, PFW_CHUNK_STACKS, 0,
							  sizeof(struct pfw_stacks_chunk))
				      : NULL);
	writer->json.stacks = pfw_stacks;
}

/* The ring is published last of what may fail: a thread that has one records. */
int pfw_writer_make_ready(struct pfw_writer *writer)
{
	struct pfw_spool_header *header = writer->spool->header;
	const struct pfw_template_chunk *made = pfw_templates_make();
	struct pfw_template_chunk *templates;
	struct pfw_chunk head;
	int error;

	if (!made)
		return -ENOMEM;
	templates = pfw_writer_append(writer, PFW_CHUNK_TEMPLATES, 0, pfw_templates_bytes());
	if (!templates)
		return -ENOSPC;
	head = templates->chunk;
	memcpy(templates, made, pfw_templates_bytes());
	templates->chunk = head;
	pfw_clock_map_init(&writer->clock);
	writer->json = (struct pfw_json){
		.templates = templates,
		.strings = pfw_strings_view(),
		.clock = &writer->clock,
		.steps = writer->steps,
		.pid = (uint64_t)header->pid,
		.next_id = 1,
		.whole_us = header->whole_us,
		.metadata = header->metadata,
		.disable_tids = header->disable_tids,
	};
	error = map_buffers(writer);
	if (error)
		return error;
	/* Else pfw_writer_supply_rings() makes it.  The rest of the segment of strings may be
	 * allocated later, as no other chunk takes its place. */
	if (pfw_spool_has_place(writer->spool, PFW_CHUNK_RING, 1))
		make_ring(writer);
	pfw_writer_add_strings(writer);
	add_stacks(writer);
	writer->ready = true;
	return 0;
}

/* ---- stacks, and the paths of their modules ----
 *
 * A probe knows a module by the name that libc has, which may be a link's.  Here the kernel is
 * asked for the file's own, before the first line names it.
 */

#define LINE_BYTES 8192u /* of /proc/self/maps: a path is at most 4,096 bytes */

void pfw_writer_forget_modules(struct pfw_writer *writer)
{
	for (unsigned i = 0; writer->json.stacks && i < PFW_STACK_MODULES; i++)
		atomic_store(&writer->json.stacks->module[i].line, 0);
}

/* Replace the path, unless it is the same, or in a line of this trace. */
static void set_path(struct pfw_stack_module *module, const char *path, uint32_t bytes)
{
	struct pfw_stack_text now = pfw_stack_path(module);
	char *text;

	if (atomic_load(&module->line) ||
	    (now.bytes == bytes && !memcmp(pfw_stacks->text + now.at, path, bytes)))
		return;
	text = pfw_stacks_text_take(bytes);
	if (!text)
		return;
	memcpy(text, path, bytes);
	atomic_store_explicit(&module->path, (uint64_t)(text - pfw_stacks->text) << 32 | bytes,
			      memory_order_release);
}

/* A line of maps: "55d0c0a00000-55d0c0a1f000 r--p 00000000 08:02 173521   /usr/bin/dbus-daemon". */
static void take_mapping(void *unused, const char *line, const char *end)
{
	const char *path = strchr(line, '/');
	uint64_t start = 0;

	(void)unused;
	for (; *line && *line != '-'; line++)
		start = start << 4 |
			((uint64_t)(*line <= '9' ? *line - '0' : *line - 'a' + 10) & 15);
	for (unsigned i = 0; path && i < PFW_STACK_MODULES; i++) {
		struct pfw_stack_module *module = &pfw_stacks->module[i];

		if (atomic_load_explicit(&module->state, memory_order_acquire) == 2 &&
		    module->start == start && pfw_stacks_module_is_there(module))
			set_path(module, path, (uint32_t)(end - path));
	}
}

void pfw_writer_name_modules(struct pfw_writer *writer)
{
	uint32_t made = atomic_load_explicit(&pfw_stacks_modules, memory_order_acquire);
	char text[LINE_BYTES];

	if (made == writer->modules_named || !pfw_stacks)
		return;
	writer->modules_named = made;
	pfw_os_read_lines("/proc/thread-self/maps", text, sizeof(text), take_mapping, NULL);
}
