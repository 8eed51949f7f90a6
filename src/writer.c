/* writer.c - rings -> lines -> file: the drain thread, and the same work done in place at the end. */
#define PFW_BUILDING
#include "writer.h"

#include <pfw/pfw.h>

#include <stdalign.h>
#include <string.h>

#include "hidden.h"
#include "lines.h"
#include "os.h"
#include "ring.h"
#include "strings.h"
#include "sums.h"
#include "trace_file.h"

#define IDLE_NS 2000000000ull /* with nothing to write for this long the thread ends */
#define MARK_WAIT_NS 2000000ull
#define LAST_LOOKS 3	     /* what is there; then past what is torn, in two stretches of a ring */
#define WATCH_NS 20000000ull /* where a kernel cannot wait on two things: look this often */
#define FIRST_STRETCH_SLOTS 512u /* 32 KiB */
/* Threads may come and go faster than rings are looked at: from so many on, who wants one empties
 * those that others have left. */
#define DEAD_RINGS_MAX 64u

/* Kept free below PFW_MAX_BYTES for the lines at the end. */
#define END_BYTES 8192u

#define SOURCE_FIGURES 16u

#define NO_FILES ((struct pfw_writer_files){ -1, -1 })

/* ---- the lock of who works ---- */

static void lock_work(struct pfw_writer *writer, struct pfw_writer_files *files)
{
	uint32_t none = 0;

	while (!atomic_compare_exchange_strong(&writer->work, &none, 1)) {
		if (none != 2 && !atomic_exchange(&writer->work, 2))
			break; /* it was released just now, and is ours */
		pfw_os_futex_wait((const uint32_t *)&writer->work, 2, 10000000);
		none = 0;
	}
	writer->files = files;
}

static void unlock_work(struct pfw_writer *writer)
{
	writer->files = NULL;
	if (atomic_exchange(&writer->work, 0) == 2)
		pfw_os_futex_wake((const uint32_t *)&writer->work, 1);
}

/* ---- setting up ---- */

/* A child makes its own; and the pages of these would have to be copied when next written to. */
static char *map_private(size_t bytes)
{
	char *memory =
		pfw_os_mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory)
		pfw_os_madvise(memory, bytes, MADV_DONTFORK);
	return memory;
}

static size_t text_room(const struct pfw_writer *writer)
{
	return writer->text_limit + PFW_JSON_LINE_MAX * 2 + PFW_JSON_SLACK;
}

/* Map the buffers.  Only pages that are used count: a small program touches a few. */
static int map_buffers(struct pfw_writer *writer)
{
	size_t room = text_room(writer);
	char *memory;

	writer->out_room = writer->gzip ? pfw_gzip_bound(room) : 0;
	memory = map_private(room + writer->out_room +
			     pfw_json_cache_bytes(writer->templates->template_count));
	if (!memory)
		return -ENOMEM;
	writer->text = memory;
	writer->out = memory + room;
	pfw_json_init(&writer->json, memory + room + writer->out_room);
	pfw_json_window(&writer->json);
	return 0;
}

/* Another segment, or the rest of the one that was begun. */
static void add_strings(struct pfw_writer *writer)
{
	struct pfw_chunk *segment = writer->segment;

	if (segment && pfw_spool_usable(writer->spool, segment) < segment->bytes) {
		if (pfw_writer_open_spool(writer) ||
		    pfw_spool_make_rest(writer->spool, writer->files->spool))
			return;
	} else {
		segment = pfw_writer_append(writer, PFW_CHUNK_STRINGS, writer->string_segments,
					    PFW_STRING_SEGMENT_BYTES);
		if (!segment)
			return;
		writer->segment = segment;
		writer->string_segments++;
	}
	pfw_strings_add_segment((char *)segment, writer->string_segments - 1,
				pfw_spool_usable(writer->spool, segment));
}

static bool make_ring(struct pfw_writer *writer);

void pfw_writer_first_bytes(const struct pfw_writer *writer, uint64_t *made, uint64_t *mapped)
{
	uint64_t page = pfw_os_page_bytes();
	uint64_t slots = writer->first_slots ? writer->first_slots : FIRST_STRETCH_SLOTS;
	uint64_t bytes = pfw_os_whole_pages(writer->templates_bytes) +
			 pfw_os_whole_pages(PFW_PAGE_BYTES + slots * PFW_SLOT_BYTES);

	*made = bytes + page;
	*mapped = bytes + pfw_os_whole_pages(PFW_STRING_SEGMENT_BYTES);
}

/* First start in this process: templates, json, ring, strings.  The ring comes when nothing else can be
 * missing: who has one records. */
static int make_ready(struct pfw_writer *writer)
{
	struct pfw_spool_header *header = writer->spool->header;
	struct pfw_template_chunk *templates;
	struct pfw_chunk head;
	int error;

	templates = pfw_writer_append(writer, PFW_CHUNK_TEMPLATES, 0, writer->templates_bytes);
	if (!templates)
		return -ENOSPC;
	head = templates->chunk;
	memcpy(templates, writer->templates, writer->templates_bytes);
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
	/* The segment's rest may be made later: nothing else can have its place behind it. */
	if (pfw_spool_has_place(writer->spool, PFW_CHUNK_RING, 1))
		make_ring(writer); /* else with the rings that are asked for */
	add_strings(writer);
	writer->ready = true;
	return 0;
}

/* A stretch of `capacity` slots: one that is over, or a new one. */
static struct pfw_ring_chunk *get_stretch(struct pfw_writer *writer, uint32_t capacity)
{
	struct pfw_ring_chunk **pool = &writer->pool[__builtin_ctz(capacity)];
	struct pfw_ring_chunk *stretch = *pool;

	if (stretch) {
		*pool = (struct pfw_ring_chunk *)(uintptr_t)stretch->order;
		return stretch;
	}
	stretch = pfw_writer_append(writer, PFW_CHUNK_RING, 0,
				    PFW_PAGE_BYTES + (uint64_t)capacity * PFW_SLOT_BYTES);
	if (stretch)
		stretch->capacity = capacity;
	return stretch;
}

static void put_stretch(struct pfw_writer *writer, struct pfw_ring_chunk *stretch)
{
	struct pfw_ring_chunk **pool = &writer->pool[__builtin_ctz(stretch->capacity)];

	stretch->order = (uint64_t)(uintptr_t)*pool; /* not in use: order is only our link */
	*pool = stretch;
}

static bool make_ring(struct pfw_writer *writer)
{
	struct pfw_ring_chunk *stretch;

	if (!writer->ring_memory_left) {
		void *page = pfw_os_mmap(PFW_PAGE_BYTES, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (!page)
			return false;
		writer->ring_memory = page;
		writer->ring_memory_left = PFW_PAGE_BYTES / sizeof(struct pfw_ring);
	}
	stretch = get_stretch(writer, writer->first_slots && !writer->rings ? writer->first_slots
									    : FIRST_STRETCH_SLOTS);
	if (!stretch)
		return false;
	writer->ring_memory_left--;
	if (writer->sums)
		writer->ring_memory->sums =
			pfw_writer_append(writer, PFW_CHUNK_SUMS, writer->rings, PFW_SUMS_BYTES);
	pfw_ring_publish(writer->ring_memory++, stretch, writer->rings++);
	return true;
}

/* Rings for all who wait for one, and one more where threads come and go; none where there are
 * `dead_max` of threads that have ended, which only need be emptied.  False: there is none. */
static bool make_rings(struct pfw_writer *writer, uint32_t dead_max)
{
	uint32_t want = pfw_ring_wanted() + (writer->rings >= 2), have = 0, dead = 0;

	for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = ring->next) {
		have += atomic_load(&ring->state) == PFW_RING_FREE;
		dead += atomic_load(&ring->state) == PFW_RING_DEAD;
	}
	while (have < want && dead < dead_max && make_ring(writer))
		have++;
	return have || !want;
}

/* ---- lines ---- */

static char *text_end(struct pfw_writer *writer)
{
	return writer->text + writer->text_bytes;
}

static void text_upto(struct pfw_writer *writer, const char *end)
{
	writer->text_bytes = (size_t)(end - writer->text);
}

/* What has not been said yet: the clock may be set before there is a first line. */
static void add_clock_step(struct pfw_writer *writer)
{
	if (writer->step_from_ns)
		text_upto(writer, pfw_line_clock_step(&writer->json, text_end(writer),
						      writer->step_from_ns, writer->step_to_ns));
	writer->step_from_ns = 0;
}

static void add_process_line(struct pfw_writer *writer)
{
	struct pfw_spool_header *header = writer->spool->header;

	if (writer->process_line)
		return;
	writer->process_line = true;
	text_upto(writer, pfw_line_process(&writer->json, text_end(writer), header,
					   writer->spool->heap ? NULL : writer->spool->path,
					   (uint64_t)header->pid));
	add_clock_step(writer);
}

static void add_record(struct pfw_writer *writer, struct pfw_ring *ring,
		       const struct pfw_record *record, unsigned slots, uint64_t now_ns)
{
	uint64_t tid = (uint64_t)atomic_load_explicit(&ring->tid, memory_order_relaxed);
	char *end;

	if (PFW_UNLIKELY(ring->named_tid != (int32_t)tid)) {
		add_process_line(writer);
		ring->named_tid = (int32_t)tid;
		text_upto(writer, pfw_line_thread_name(&writer->json, text_end(writer), tid,
						       ring->drain->comm, now_ns));
	}
	end = pfw_json_record(&writer->json, text_end(writer), record, record + 1,
			      (slots - 1) * PFW_SLOT_BYTES, tid);
	if (end)
		text_upto(writer, end);
	else
		pfw_ring_count_lost(PFW_LOST_TORN, 1);
}

static bool losses_untold(const struct pfw_writer *writer)
{
	for (unsigned i = 0; i < PFW_LOST_REASONS; i++)
		if (atomic_load(&writer->spool->header->lost[i].count) != writer->lost_told[i])
			return true;
	return false;
}

static void add_losses(struct pfw_writer *writer, uint64_t now_ns)
{
	struct pfw_spool_header *header = writer->spool->header;

	for (unsigned i = 0; i < PFW_LOST_REASONS; i++) {
		uint64_t count = atomic_load(&header->lost[i].count);

		if (count == writer->lost_told[i])
			continue;
		add_process_line(writer);
		writer->lost_told[i] = count;
		text_upto(writer, pfw_line_lost(&writer->json, text_end(writer), i,
						&header->lost[i], now_ns));
	}
}

/* ---- writing ---- */

/* Compress what is in text, once: a write that fails keeps the member for the next try. */
static int make_member(struct pfw_writer *writer)
{
	struct pfw_gzip_summary summary = {
		.lines = (uint32_t)writer->json.lines,
		.least_ns = writer->json.least_ns,
		.greatest_ns = writer->json.greatest_ns,
	};
	int64_t bytes;

	if (writer->out_bytes)
		return 0;
	bytes = pfw_gzip_member(writer->gzip, writer->out, writer->out_room, writer->text,
				writer->text_bytes, &summary);
	if (bytes < 0)
		return (int)bytes;
	writer->out_bytes = (size_t)bytes;
	return 0;
}

static uint64_t page_room(uint64_t offset)
{
	return PFW_PAGE_BYTES - offset % PFW_PAGE_BYTES;
}

/*
 * Nobody recovers what is cut behind an end.  A kill cuts a write only between two pages, so let what
 * is to come begin a page where it does not fit in this one.
 *
 * Text: blanks at the end of the last line.  Recovery, which knows the offset from before, puts the
 * line break back.
 */
static void fill_page(struct pfw_writer *writer, int fd, uint64_t room)
{
	static const char blank[PFW_PAGE_BYTES + 1] = {
		[0 ... PFW_PAGE_BYTES - 1] = ' ', [PFW_PAGE_BYTES] = '\n'
	};

	if (!pfw_trace_write(fd, blank + PFW_PAGE_BYTES - room, room + 1, writer->offset - 1))
		writer->offset += room;
	else
		pfw_trace_write(fd, "\n", 1, writer->offset - 1);
}

/* Members: one without text, for which each member leaves room, or nothing, in the page where it ends. */
static void fill_page_gzip(struct pfw_writer *writer, int fd, uint64_t room)
{
	char *pad = writer->out + writer->out_bytes;

	if (room < PFW_GZIP_PAD_LEAST || writer->out_room - writer->out_bytes < room)
		return;
	pfw_gzip_pad(pad, room);
	if (!pfw_trace_write(fd, pad, room, writer->offset))
		writer->offset += room;
	else
		pfw_os_ftruncate(fd, writer->offset);
}

/* See to it that there is that room. */
static void fit_member(struct pfw_writer *writer)
{
	uint64_t rest = page_room(writer->offset + writer->out_bytes);

	if (rest < PFW_GZIP_PAD_LEAST && writer->out_room - writer->out_bytes >= rest)
		writer->out_bytes = pfw_gzip_lengthen(writer->out, writer->out_bytes, rest);
}

static void begin_page(struct pfw_writer *writer, int fd, size_t bytes)
{
	uint64_t room = page_room(writer->offset);

	if (!writer->ended_at || room == PFW_PAGE_BYTES || bytes <= room)
		return;
	if (writer->gzip)
		fill_page_gzip(writer, fd, room);
	else
		fill_page(writer, fd, room);
}

/* Put text (or its member) behind the good part of the trace.  A part written does no harm: the
 * next try begins at the same offset. */
static int write_text(struct pfw_writer *writer)
{
	const char *data = writer->text;
	size_t bytes = writer->text_bytes;
	int fd = pfw_writer_trace(writer), error;

	if (fd < 0)
		return fd;
	if (writer->gzip) {
		error = make_member(writer);
		if (error)
			return error;
		begin_page(writer, fd, writer->out_bytes);
		fit_member(writer);
		data = writer->out;
		bytes = writer->out_bytes;
	} else {
		begin_page(writer, fd, bytes);
	}
	error = pfw_trace_write(fd, data, bytes, writer->offset);
	if (error) {
		pfw_os_ftruncate(fd, writer->offset); /* whole lines only, also meanwhile */
		return error;
	}
	writer->offset += bytes;
	writer->out_bytes = 0;
	writer->text_bytes = 0;
	pfw_json_window(&writer->json);
	return 0;
}

/* Note in the other slot what is now good, then free the records: recovery takes one or the other,
 * never both (spool.h). */
static void commit(struct pfw_writer *writer)
{
	struct pfw_spool_header *header = writer->spool->header;
	unsigned parity = ++writer->generation & 1;
	struct pfw_slot *slot = &header->slot[parity];

	for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = ring->next) {
		pfw_ring_save(ring, parity);
		if (ring->sums)
			pfw_sums_save(ring->sums, parity);
	}
	slot->offset = writer->offset;
	slot->next_id = writer->json.next_id;
	slot->events = writer->json.events;
	slot->torn = atomic_load(&header->lost[PFW_LOST_TORN].count);
	slot->first = writer->clock.first;
	slot->last = writer->clock.pair[writer->clock.count - 1];
	atomic_store_explicit(&slot->generation, writer->generation, memory_order_release);
	for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = ring->next) {
		struct pfw_ring_chunk *retired = pfw_ring_free_drained(ring);

		if (retired)
			put_stretch(writer, retired);
	}
	atomic_store(&writer->trace_bytes, writer->offset);
	atomic_store(&writer->events, writer->json.events);
	pfw_ring_space_made();
}

/* Whether trying again may help: room may come, also for a trace that could not be begun. */
static bool may_pass(int error, bool made)
{
	switch (-error) {
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case EINTR:
	case EAGAIN:
		return true;
	case ESTALE:
	case ELOOP:
		return false;
	default:
		return made;
	}
}

/* What to do about an error of writing: wait for room on the disk, or give up for good. */
static int write_failed(struct pfw_writer *writer, int error)
{
	bool first = !atomic_load(&writer->stalled);
	bool made = atomic_load(&writer->spool->header->file_made);

	writer->last_error = error;
	if (error == -EMFILE && writer->in_place)
		return error; /* not said yet: a thread of its own is asked next */
	atomic_store(&writer->stalled, 1);
	if (first)
		pfw_trace_say_error(writer->say, pfw_spool_trace_path(writer->spool->header), error,
				    made);
	if (!may_pass(error, made) && !atomic_exchange(&writer->dead, 1))
		writer->failed();
	return error;
}

static int flush_text(struct pfw_writer *writer)
{
	int error = 0;

	if (atomic_load(&writer->dead))
		return writer->last_error;
	if (atomic_load(&writer->spool->header->state) == PFW_SPOOL_ADOPTED)
		error = -ESTALE;
	else if (writer->text_bytes)
		error = write_text(writer);
	if (error)
		return write_failed(writer, error);
	atomic_store(&writer->stalled, 0);
	commit(writer);
	return 0;
}

/* ---- draining ---- */

static void note_clock(struct pfw_writer *writer)
{
	uint64_t from_ns, to_ns;

	if (!pfw_clock_map_update(&writer->clock, &from_ns, &to_ns))
		return;
	if (!writer->step_from_ns)
		writer->step_from_ns = from_ns;
	writer->step_to_ns = to_ns;
	if (writer->process_line && !writer->over)
		add_clock_step(writer);
}

/* Write where another line would be too much for a member, or for the trace; the latter is an end.
 * Compressed text takes less than was feared: then there is room for more, until there is none. */
static int make_room(struct pfw_writer *writer)
{
	uint64_t most = writer->max_bytes ? writer->max_bytes - END_BYTES : UINT64_MAX;
	int error;

	if (writer->text_bytes < writer->text_limit && writer->offset + writer->text_bytes < most)
		return 0;
	error = flush_text(writer);
	if (error || writer->over || writer->offset < most)
		return error;
	writer->over = true;
	writer->limited();
	return 0;
}

/* Encode what one ring holds, writing whenever a member is full. */
static int drain_ring(struct pfw_writer *writer, struct pfw_ring *ring, uint64_t now_ns,
		      uint64_t *drained)
{
	const struct pfw_record *record;
	unsigned slots;

	while ((record = pfw_ring_peek(ring, now_ns, &slots))) {
		int error = writer->over ? 0 : make_room(writer);

		if (error)
			return error;
		if (writer->over)
			pfw_ring_count_lost(PFW_LOST_LIMIT, 1);
		else
			add_record(writer, ring, record, slots, now_ns);
		pfw_ring_advance(ring, slots);
		++*drained;
	}
	return 0;
}

/* Encode what the source has.  What it hands out is gone from it, so room is made before. */
static int drain_source(struct pfw_writer *writer, uint64_t *drained)
{
	const struct pfw_record *record;
	unsigned slots;
	char *end;

	while (writer->source) {
		int error = writer->over ? 0 : make_room(writer);

		if (error)
			return error;
		record = writer->source->next(&slots);
		if (!record)
			break;
		++*drained;
		if (writer->over) {
			pfw_ring_count_lost(PFW_LOST_LIMIT, 1);
			continue;
		}
		add_process_line(writer);
		end = pfw_json_record(&writer->json, text_end(writer), record, record + 1,
				      (slots - 1) * PFW_SLOT_BYTES, writer->json.pid);
		if (end)
			text_upto(writer, end);
	}
	return 0;
}

/* Short calls that found no table to be summed in. */
static uint64_t count_beyond(void)
{
	uint64_t beyond = 0;

	for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = ring->next)
		if (ring->sums)
			beyond += atomic_load_explicit(&ring->sums->beyond, memory_order_relaxed);
	return beyond;
}

/* What was summed since the last time: a line for each name and file of each thread. */
static int put_sums(struct pfw_writer *writer, uint64_t now_ns, uint64_t *drained)
{
	struct pfw_sum_news news;
	int error = 0;

	for (struct pfw_ring *ring = pfw_ring_first(); ring && !error; ring = ring->next) {
		if (!ring->sums || !atomic_load_explicit(&ring->sums->filled, memory_order_relaxed))
			continue;
		for (uint32_t at = 0; !error && pfw_sums_next(ring->sums, &at, &news); at++) {
			++*drained;
			if (writer->over) {
				pfw_ring_count_lost(PFW_LOST_LIMIT, news.count);
				continue;
			}
			add_process_line(writer);
			text_upto(writer,
				  pfw_sums_line(&writer->json, text_end(writer), &news, now_ns));
			error = make_room(writer);
		}
	}
	return error;
}

/* Not at every look, which may come many times a second: then there would be little to sum. */
static bool sums_due(struct pfw_writer *writer)
{
	uint64_t now = pfw_clock_ns(CLOCK_MONOTONIC);

	if (!writer->sums ||
	    (!atomic_load(&writer->flushing) && now - writer->summed_ns < writer->flush_ns))
		return false;
	writer->summed_ns = now;
	return true;
}

/* A thread that fills half its ring between two looks gets a greater one. */
static void grow(struct pfw_writer *writer, struct pfw_ring *ring)
{
	uint32_t capacity = ring->drain->capacity < FIRST_STRETCH_SLOTS ? FIRST_STRETCH_SLOTS
									: ring->drain->capacity * 2;
	struct pfw_ring_chunk *stretch;

	if (ring->upcoming || ring->retired || ring->drain != atomic_load(&ring->stretch) ||
	    (uint64_t)capacity * PFW_SLOT_BYTES > writer->ring_max_bytes)
		return;
	stretch = get_stretch(writer, capacity);
	if (stretch)
		pfw_ring_offer(ring, stretch);
}

static void add_source_figures(struct pfw_writer *writer, uint64_t now_ns)
{
	struct pfw_source_figure figure[SOURCE_FIGURES];
	unsigned count = writer->source ? writer->source->figures(figure, SOURCE_FIGURES) : 0;

	if (count)
		text_upto(writer, pfw_line_figures(&writer->json, text_end(writer),
						   writer->source->name, figure, count, now_ns));
}

static void add_end(struct pfw_writer *writer, const char *reason, const char *exec_path)
{
	struct pfw_spool_header *header = writer->spool->header;
	uint64_t now_ns = pfw_clock_ns(CLOCK_REALTIME), excluded = 0, unrecorded = 0;

	add_losses(writer, now_ns);
	if (!writer->process_line)
		return;
	if (atomic_load(&header->waited.count))
		text_upto(writer, pfw_line_waited(&writer->json, text_end(writer), &header->waited,
						  now_ns));
	if (count_beyond())
		text_upto(writer, pfw_line_sums_full(&writer->json, text_end(writer),
						     count_beyond(), now_ns));
	add_source_figures(writer, now_ns);
	for (unsigned i = 0; i < PFW_EXCLUDED_REASONS; i++)
		excluded += atomic_load(&header->excluded[i]);
	if (excluded)
		text_upto(writer, pfw_line_excluded(&writer->json, text_end(writer),
						    header->excluded, now_ns));
	for (unsigned i = 0; i < PFW_UNRECORDED_KINDS; i++)
		unrecorded |= atomic_load(&header->unrecorded[i]);
	if (unrecorded)
		text_upto(writer, pfw_line_unrecorded(&writer->json, text_end(writer),
						      header->unrecorded, now_ns));
	text_upto(writer,
		  pfw_line_end(&writer->json, text_end(writer), header, reason, exec_path, now_ns));
}

/* One look at all rings.  *drained gets how many records there were.  Without `put` the last lines
 * stay in text. */
static int pass(struct pfw_writer *writer, uint64_t *drained, bool put)
{
	uint64_t now_ns = pfw_clock_ns(CLOCK_REALTIME);
	uint64_t steps = writer->steps ? atomic_load(&writer->steps->head) : 0;
	bool passed = false, ends;
	int error = 0;

	*drained = 0;
	make_rings(writer, DEAD_RINGS_MAX);
	if (pfw_strings_low())
		add_strings(writer);
	if (atomic_load(&writer->stalled))
		error = flush_text(writer);
	if (!error)
		note_clock(writer);
	for (struct pfw_ring *ring = pfw_ring_first(); ring && !error; ring = ring->next) {
		if (pfw_ring_half_full(ring))
			grow(writer, ring);
		error = drain_ring(writer, ring, now_ns, drained);
		passed |= pfw_ring_has_drained(ring);
	}
	if (!error)
		error = drain_source(writer, drained);
	if (!error && sums_due(writer))
		error = put_sums(writer, now_ns, drained);
	if (!error && *drained && !writer->over)
		add_losses(writer, now_ns);
	if (!error && writer->rank_late && writer->process_line) {
		writer->rank_late = false;
		text_upto(writer, pfw_line_rank(&writer->json, text_end(writer),
						writer->spool->header, now_ns));
	}
	ends = !error && writer->over && !writer->ended_at;
	if (ends)
		add_end(writer, "limit", NULL);
	/* Also without text: what was only passed over is freed by it. */
	if (!error && (put || ends) && (passed || writer->text_bytes))
		error = flush_text(writer);
	if (!error && ends)
		writer->ended_at = writer->offset;
	/* Not at each write: one ring may fill the text twice before another is looked at. */
	if (!error)
		pfw_strings_reclaim();
	/* What began before the last of them is in the file, or in a call that has not returned. */
	if (!error && steps)
		atomic_store_explicit(&writer->steps->seen, steps - 1, memory_order_release);
	atomic_fetch_add(&writer->passes, 1);
	pfw_os_futex_wake((const uint32_t *)&writer->passes, INT32_MAX);
	return error;
}

/* ---- the thread ---- */

static struct pfw_control *control_of(struct pfw_writer *writer)
{
	return &writer->spool->header->control;
}

/* Sleep until the bell rings, something happens to what the tick watches, or `ns` have passed (0 =
 * no end). */
static void sleep_on(const struct pfw_watch *bell, const struct pfw_watch *watch, uint64_t ns)
{
	uint64_t end = pfw_clock_ns(CLOCK_MONOTONIC) + ns;
	struct timespec until = { (time_t)(end / 1000000000), (long)(end % 1000000000) };

	if (watch->word && pfw_os_futex_wait_two(bell->word, bell->seen, watch->word, watch->seen,
						 ns ? &until : NULL) != -ENOSYS)
		return;
	if (watch->word && (!ns || ns > WATCH_NS))
		ns = WATCH_NS;
	pfw_os_futex_wait_shared(bell->word, bell->seen, ns);
}

/* Until there may be something to do; in a rest nothing need be flushed.  False: nobody has rung. */
static bool doze(struct pfw_writer *writer, uint32_t shift, bool rest)
{
	struct pfw_control *control = control_of(writer);
	struct pfw_watch bell = { .word = (const uint32_t *)&control->bell };
	uint64_t ns = rest ? IDLE_NS : writer->flush_ns;

	if (writer->nap_ns && (!ns || writer->nap_ns < ns))
		ns = writer->nap_ns;
	atomic_store(&writer->sleeping, 1);
	bell.seen = atomic_load(&control->bell);
	if (atomic_load(&writer->shift) == shift && pfw_ring_wanted() == 0 &&
	    !atomic_load(&writer->errand) && pfw_control_wish(control) == PFW_WISH_NONE)
		sleep_on(&bell, &writer->watch, ns);
	atomic_store(&writer->sleeping, 0);
	return atomic_load(&control->bell) != bell.seen;
}

/*
 * What the program's first thread died with, where ours is all that is left of the process; else -1.
 * We must end then, too, and with the same: it may be our last word that counts.
 */
static int sole_status(void)
{
	char text[1024], *at;
	uint64_t field[50] = { 0 };
	unsigned n = 0;

	/* The name in it may hold anything, but no more ')' follows; then the state and numbers. */
	if (pfw_os_read_file("/proc/self/stat", text, sizeof(text)) <= 0 ||
	    !(at = strrchr(text, ')')) || at[1] != ' ' || at[2] != 'Z')
		return -1;
	for (at += 3; *at && n < 50; at++)
		if (*at == ' ')
			n++;
		else if (*at >= '0' && *at <= '9')
			field[n - 1] = field[n - 1] * 10 + (unsigned)(*at - '0');
	/* How many threads, the dead one and ours; and its status. */
	return n >= 49 && field[16] == 2 ? (int)(field[48] >> 8 & 255) : -1;
}

/*
 * One turn of work.  False: the trace cannot be written at all, or nothing has come for so long that
 * the thread should go.  Before that every thread's next event is sent to session first; what was
 * recorded before is found by one more look.
 */
static bool work_once(struct pfw_writer *writer, uint64_t *idle_since)
{
	uint64_t drained = 0, now;

	if (writer->ready)
		pass(writer, &drained, true);
	if (atomic_load(&writer->dead))
		return false;
	now = pfw_clock_ns(CLOCK_MONOTONIC);
	if (drained || atomic_load(&writer->stalled))
		*idle_since = now;
	if (now - *idle_since <= IDLE_NS)
		return true;
	writer->idle();
	if (writer->ready)
		pass(writer, &drained, true);
	*idle_since = now;
	return drained != 0;
}

static void run_now(struct pfw_writer *writer, struct pfw_errand *errand)
{
	writer->in_place = errand->in_place;
	errand->result = errand->run(writer, errand->arg);
	writer->in_place = false;
}

/* What a thread of the program would have done in place, but cannot. */
static void run_errand(struct pfw_writer *writer)
{
	struct pfw_errand *errand = atomic_load(&writer->errand);

	if (!errand)
		return;
	run_now(writer, errand);
	atomic_store(&writer->errand, NULL); /* from here on it may be gone */
	atomic_fetch_add(&writer->errands, 1);
	pfw_os_futex_wake((const uint32_t *)&writer->errands, INT32_MAX);
}

/* The thread.  Its argument is the writer; its shift is the one in force when it was made, which it
 * finds in the argument's low bits: by the time it runs another one may be. */
#define SHIFT_MASK (alignof(struct pfw_writer) - 1)

static void writer_main(void *arg)
{
	struct pfw_writer *writer = (void *)((uintptr_t)arg & ~SHIFT_MASK);
	uint32_t shift = (uint32_t)((uintptr_t)arg & SHIFT_MASK);
	uint64_t idle_since = pfw_clock_ns(CLOCK_MONOTONIC);
	struct pfw_writer_files own = { -1, -1, -1, -1, .own = true, .grows = true };
	struct pfw_writer_files *files = &own;
	bool stay = true, rung = true, rest;
	int code = -1;

	pfw_syscall6(SYS_prctl, 15 /* PR_SET_NAME */, (long)"pfw-writer", 0, 0, 0, 0);
	if (atomic_load(&pfw_hidden_shared) || !pfw_writer_take_table())
		files = &writer->kept;
	files->waits = files != &own;
	atomic_store(&pfw_hidden_shared, files != &own);
	writer->own_files = files;
	atomic_store(&writer->tid, pfw_os_gettid());
	while (stay) {
		lock_work(writer, files);
		run_errand(writer);
		stay = atomic_load(&writer->shift) == shift;
		rest = stay && !work_once(writer, &idle_since);
		code = !stay || rung || files != &own ? -1 : sole_status();
		if ((rest && !atomic_load(&writer->anchored) && !atomic_load(&writer->stay)) ||
		    code >= 0) {
			atomic_store(&writer->on_duty, 0);
			stay = false;
		}
		if (!stay)
			pfw_writer_close_files(writer);
		unlock_work(writer);
		if (stay && writer->tick && writer->tick())
			idle_since = pfw_clock_ns(CLOCK_MONOTONIC);
		if (stay)
			rung = doze(writer, shift, rest);
	}
	if (writer->leave)
		writer->leave();
	atomic_store(&writer->tid, 0);
	pfw_writer_leave_table();
	atomic_fetch_sub(&writer->threads, 1);
	if (code > 0)
		pfw_syscall6(SYS_exit, code, 0, 0, 0, 0, 0);
}

/* No table for the thread: open its files here.  What cannot be opened, it tries again itself. */
static void open_for_thread(struct pfw_writer *writer)
{
	atomic_store(&pfw_hidden_shared, 1);
	lock_work(writer, &writer->kept);
	pfw_writer_open_spool(writer);
	pfw_writer_trace(writer);
	unlock_work(writer);
}

int pfw_writer_start(struct pfw_writer *writer)
{
	uint32_t shift = (atomic_load(&writer->shift) + 1) & SHIFT_MASK;
	void *arg = (void *)((uintptr_t)writer | shift);
	int error;

	pfw_worker_join(&writer->worker);
	writer->kept = (struct pfw_writer_files){ -1, -1, -1, -1, .high = true, .grows = true };
	if (pfw_writer_table_refused())
		open_for_thread(writer);
	atomic_store(&writer->shift, shift);
	atomic_fetch_add(&writer->threads, 1);
	/* Before there is a thread: it may be home again before this one goes on (Ctrl-Z just now). */
	atomic_store(&writer->on_duty, 1);
	error = pfw_worker_start(&writer->worker, writer_main, arg);
	if (error) {
		atomic_store(&writer->on_duty, 0);
		atomic_fetch_sub(&writer->threads, 1);
	}
	return error;
}

/* ---- what others do in place, or the anchored thread for them ---- */

/* Have the thread do it, and wait.  One that was just about to go home is started again. */
static int send_errand(struct pfw_writer *writer, struct pfw_errand *errand)
{
	uint32_t seen = atomic_load(&writer->errands);

	atomic_store(&writer->errand, errand);
	while (atomic_load(&writer->errand)) {
		int error = atomic_load(&writer->on_duty) ? 0 : pfw_writer_start(writer);

		if (error) {
			atomic_store(&writer->errand, NULL);
			return error;
		}
		pfw_control_ring(control_of(writer));
		pfw_os_futex_wait((const uint32_t *)&writer->errands, seen, 10000000);
	}
	return errand->result;
}

bool pfw_writer_is_here(struct pfw_writer *writer)
{
	int32_t self = pfw_os_gettid(); /* which a filter may refuse */

	return self > 0 && atomic_load(&writer->tid) == self;
}

/* The thread's own tick wants it. */
static int run_in_thread(struct pfw_writer *writer, struct pfw_errand *errand)
{
	lock_work(writer, writer->own_files);
	run_now(writer, errand);
	unlock_work(writer);
	return errand->result;
}

/* What the calling thread has no descriptor for is done by one with a table of its own. */
struct trip {
	struct pfw_writer *writer;
	struct pfw_errand *errand;
};

static void run_trip(void *arg)
{
	struct trip *trip = arg;
	struct pfw_writer_files files = PFW_NO_FILES;

	files.own = files.grows = pfw_writer_take_table();
	if (!files.own)
		return;
	lock_work(trip->writer, &files);
	trip->errand->result = trip->errand->run(trip->writer, trip->errand->arg);
	pfw_writer_close_files(trip->writer);
	unlock_work(trip->writer);
	pfw_writer_leave_table();
}

static int run_elsewhere(struct pfw_writer *writer, struct pfw_errand *errand)
{
	struct trip trip = { writer, errand };
	int error = pfw_worker_start(&writer->worker, run_trip, &trip);

	if (error)
		return error;
	pfw_worker_join(&writer->worker);
	return errand->result;
}

/* Run it with the files of the calling thread's table, or where they can be reached. */
static int run_where_files_are(struct pfw_writer *writer, struct pfw_errand *errand, bool grows)
{
	struct pfw_writer_files files = PFW_NO_FILES;

	if (pfw_writer_is_here(writer))
		return run_in_thread(writer, errand);
	if (atomic_load(&writer->anchored))
		return send_errand(writer, errand);
	files.grows = grows;
	lock_work(writer, &files);
	run_now(writer, errand);
	pfw_writer_close_files(writer);
	unlock_work(writer);
	return errand->result;
}

static int make_rings_now(struct pfw_writer *writer, void *unused)
{
	uint64_t drained;
	int error = 0;

	(void)unused;
	if (!writer->spool->heap && !pfw_spool_has_place(writer->spool, PFW_CHUNK_RING, 1))
		error = pfw_writer_open_spool(writer);
	if (!error && !writer->ready)
		error = make_ready(writer);
	if (error || make_rings(writer, DEAD_RINGS_MAX))
		return error;
	pass(writer, &drained, true);
	return make_rings(writer, UINT32_MAX) ? 0 : -ENOSPC;
}

int pfw_writer_make_rings(struct pfw_writer *writer)
{
	struct pfw_errand errand = { .run = make_rings_now, .in_place = true };
	int error = run_where_files_are(writer, &errand, true);

	if (error && error != -ENOSPC && atomic_load(&writer->on_duty))
		return 0; /* the thread's next turn makes them */
	return error == -EMFILE ? run_elsewhere(writer, &errand) : error;
}

static int drain_now(struct pfw_writer *writer, void *unused)
{
	uint64_t drained;

	(void)unused;
	return writer->ready ? pass(writer, &drained, true) : 0;
}

int pfw_writer_drain(struct pfw_writer *writer)
{
	struct pfw_errand errand = { .run = drain_now, .in_place = true };

	return run_where_files_are(writer, &errand, true);
}

static int unlink_spool(struct pfw_writer *writer, void *unused)
{
	(void)unused;
	pfw_spool_unlink(writer->spool);
	return 0;
}

void pfw_writer_unlink_spool(struct pfw_writer *writer)
{
	struct pfw_errand errand = { .run = unlink_spool };

	if (atomic_load(&writer->anchored))
		send_errand(writer, &errand);
	else
		pfw_spool_unlink(writer->spool);
}

/* In the thread: hold on to what names lead to now. */
static int drop_anchor(struct pfw_writer *writer, void *unused)
{
	int error = (int)pfw_syscall6(SYS_unshare, 0x200 /* CLONE_FS */, 0, 0, 0, 0, 0);

	(void)unused;
	if (writer->files->own)
		pfw_writer_open_spool(writer);
	if (atomic_load(&writer->spool->header->file_made))
		pfw_writer_trace(writer);
	return error ? -EPERM : 0;
}

int pfw_writer_anchor(struct pfw_writer *writer)
{
	struct pfw_errand errand = { .run = drop_anchor };
	int error;

	atomic_store(&writer->anchored, 1);
	error = send_errand(writer, &errand);
	if (error && error != -EPERM)
		atomic_store(&writer->anchored, 0);
	return error;
}

void pfw_writer_weigh(struct pfw_writer *writer)
{
	atomic_store(&writer->anchored, 0);
}

/* ---- whose rights ---- */

/* libc changes the user of the threads that it knows: this one follows. */
struct user {
	uint32_t uid[3], gid[3];
};

static int become(struct pfw_writer *writer, void *arg)
{
	const struct user *user = arg;

	(void)writer;
	pfw_syscall6(SYS_setgroups, 0, 0, 0, 0, 0, 0); /* our files are open */
	pfw_syscall6(SYS_setresgid, user->gid[0], user->gid[1], user->gid[2], 0, 0, 0);
	return (int)pfw_syscall6(SYS_setresuid, user->uid[0], user->uid[1], user->uid[2], 0, 0, 0);
}

void pfw_writer_follow_user(struct pfw_writer *writer)
{
	struct user user;
	struct pfw_errand errand = { .run = become, .arg = &user };

	if (writer->worker.known || !atomic_load(&writer->on_duty))
		return;
	pfw_syscall6(SYS_getresuid, (long)&user.uid[0], (long)&user.uid[1], (long)&user.uid[2], 0,
		     0, 0);
	pfw_syscall6(SYS_getresgid, (long)&user.gid[0], (long)&user.gid[1], (long)&user.gid[2], 0,
		     0, 0);
	send_errand(writer, &errand);
}

void pfw_writer_hold(struct pfw_writer *writer)
{
	writer->held = atomic_load(&writer->anchored);
	if (!writer->held) {
		pfw_writer_pause(writer, true);
		return;
	}
	lock_work(writer, &writer->kept);
}

void pfw_writer_release(struct pfw_writer *writer)
{
	if (writer->held)
		unlock_work(writer);
	writer->held = false;
}

void pfw_writer_make_way(struct pfw_writer *writer, int fd)
{
	struct pfw_writer_files files = PFW_NO_FILES;

	lock_work(writer, &files);
	pfw_hidden_move(fd);
	unlock_work(writer);
}

bool pfw_writer_wake(struct pfw_writer *writer)
{
	if (!atomic_load_explicit(&writer->on_duty, memory_order_relaxed))
		return false;
	if (atomic_load(&writer->sleeping)) {
		pfw_control_ring(control_of(writer));
	}
	return !atomic_load(&writer->stalled) && !atomic_load(&writer->dead);
}

void pfw_writer_pause(struct pfw_writer *writer, bool join)
{
	if (atomic_load(&writer->anchored))
		return;
	atomic_store(&writer->on_duty, 0);
	atomic_store(&writer->shift, (atomic_load(&writer->shift) + 1) & SHIFT_MASK);
	pfw_control_ring(control_of(writer));
	/* Files of the program's table are closed before anybody else opens them. */
	if (join || atomic_load(&pfw_hidden_shared))
		pfw_worker_join(&writer->worker);
}

static int pass_now(struct pfw_writer *writer, void *unused)
{
	uint64_t drained;

	(void)unused;
	writer->summed_ns = 0; /* sums are due, too */
	return writer->ready ? pass(writer, &drained, true) : 0;
}

static int flush_here(struct pfw_writer *writer)
{
	struct pfw_errand errand = { .run = pass_now };

	return run_in_thread(writer, &errand);
}

int pfw_writer_flush(struct pfw_writer *writer, uint64_t timeout_ns)
{
	uint64_t deadline = pfw_clock_ns(CLOCK_MONOTONIC) + timeout_ns;
	uint32_t seen = atomic_load(&writer->passes), now = seen;
	int error = 0;

	if (pfw_writer_is_here(writer))
		return flush_here(writer);
	atomic_store(&writer->flushing, 1);
	/* Two: the pass under way may have passed our ring already. */
	while (now - seen < 2) {
		if (!atomic_load(&writer->on_duty))
			error = -ESRCH;
		else if (pfw_clock_ns(CLOCK_MONOTONIC) > deadline)
			error = -ETIMEDOUT;
		if (error)
			break;
		pfw_control_ring(control_of(writer));
		pfw_os_futex_wait((const uint32_t *)&writer->passes, now, 10000000);
		now = atomic_load(&writer->passes);
	}
	atomic_store(&writer->flushing, 0);
	return error || !atomic_load(&writer->stalled) ? error : writer->last_error;
}

/* ---- in place ---- */

/* Other threads still at work may be between their record and its mark: they get a moment.  What is not
 * marked after it and holds others up was left for good, by a handler that jumped out of a probe. */
static bool wait_for_marks(void)
{
	bool left = false, others = false;
	int32_t self = pfw_os_gettid();

	for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = ring->next) {
		if (!pfw_ring_last_look(ring))
			continue;
		left = true;
		others |= atomic_load(&ring->tid) != self;
	}
	if (others)
		pfw_os_sleep_ns(MARK_WAIT_NS);
	return left;
}

static int make_steps_now(struct pfw_writer *writer, void *unused)
{
	(void)unused;
	if (!writer->steps && (writer->ready || !make_ready(writer)))
		writer->steps = pfw_writer_append(writer, PFW_CHUNK_STEPS, 0,
						  sizeof(struct pfw_steps_chunk));
	writer->json.steps = writer->steps;
	return 0;
}

struct pfw_steps_chunk *pfw_writer_steps(struct pfw_writer *writer)
{
	struct pfw_errand errand = { .run = make_steps_now };

	run_where_files_are(writer, &errand, true);
	return writer->steps;
}

struct single {
	const struct pfw_record *record;
	unsigned slots;
};

static int put_record_now(struct pfw_writer *writer, void *arg)
{
	const struct single *single = arg;
	char *end;

	if (!writer->ready && make_ready(writer))
		return -ENOSPC;
	if (writer->over || make_room(writer))
		return -ENOSPC;
	add_process_line(writer);
	end = pfw_json_record(&writer->json, text_end(writer), single->record, single->record + 1,
			      (single->slots - 1) * PFW_SLOT_BYTES, writer->json.pid);
	if (end)
		text_upto(writer, end);
	return 0;
}

int pfw_writer_put(struct pfw_writer *writer, const struct pfw_record *record, unsigned slots)
{
	struct single single = { record, slots };
	struct pfw_errand errand = { .run = put_record_now, .arg = &single };

	return run_where_files_are(writer, &errand, true);
}

static int end_segment_now(struct pfw_writer *writer, void *arg)
{
	struct pfw_spool_header *header = writer->spool->header;
	struct pfw_segment *segment = arg;
	int error = pass_now(writer, NULL);

	if (!error && writer->ready) {
		add_process_line(writer);
		segment->first_id = writer->segment_id ? writer->segment_id : 1;
		segment->last_id = writer->json.next_id - 1;
		text_upto(writer,
			  pfw_line_segment(&writer->json, text_end(writer), segment->cycle,
					   segment->first_step, segment->steps, segment->first_id,
					   pfw_clock_ns(CLOCK_REALTIME)));
		error = flush_text(writer);
		writer->segment_id = writer->json.next_id;
	}
	segment->path = pfw_spool_trace_path(header);
	segment->events = writer->json.events;
	segment->lost = pfw_lines_lost(header);
	return error;
}

int pfw_writer_segment(struct pfw_writer *writer, struct pfw_segment *segment)
{
	struct pfw_errand errand = { .run = end_segment_now, .arg = segment };

	return run_where_files_are(writer, &errand, true);
}

struct finish {
	const char *reason, *exec_path;
};

static int finish_now(struct pfw_writer *writer, void *arg)
{
	const struct finish *finish = arg;
	uint64_t drained;
	int error = 0;

	for (int looks = 0; writer->ready && looks < LAST_LOOKS && !error; looks++) {
		if (looks && !wait_for_marks())
			break;
		writer->summed_ns = 0; /* now or never */
		/* Not yet written: what comes after an end has to be followed by one at once, for
		 * nobody recovers it any more. */
		error = pass(writer, &drained, false);
	}
	/* Whatever came since the last end, also what was drained when the disk was full. */
	if (writer->ready && !error &&
	    (writer->text_bytes || writer->offset != writer->ended_at || losses_untold(writer))) {
		add_end(writer, writer->over ? "limit" : finish->reason, finish->exec_path);
		error = flush_text(writer);
		writer->ended_at = error ? 0 : writer->offset;
	}
	return error;
}

int pfw_writer_finish(struct pfw_writer *writer, const char *reason, const char *exec_path)
{
	struct finish finish = { reason, exec_path };
	struct pfw_errand errand = { .run = finish_now, .arg = &finish, .in_place = true };
	int error = run_where_files_are(writer, &errand, false);

	return error == -EMFILE ? run_elsewhere(writer, &errand) : error;
}

/* The old file has its end: the next write makes a new one. */
static void begin_anew(struct pfw_writer *writer, const char *path)
{
	struct pfw_spool_header *header = writer->spool->header;
	struct pfw_writer_files files = PFW_NO_FILES;

	lock_work(writer, &files);
	memcpy(pfw_spool_trace_path(header), path, strlen(path) + 1);
	atomic_store(&header->file_made, 0);
	writer->offset = 0;
	writer->json.events = 0; /* `end` counts those of its own file */
	writer->process_line = false;
	writer->ended_at = 0;
	for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = ring->next)
		ring->named_tid = 0;
	commit(writer); /* the slots must not promise bytes of the new file */
	unlock_work(writer);
}

/* The room that compressing takes: from the beginning, or now. */
static bool have_out(struct pfw_writer *writer)
{
	size_t bytes = pfw_gzip_bound(text_room(writer));
	char *memory = writer->out_room ? NULL : map_private(bytes);

	if (memory) {
		writer->out = memory;
		writer->out_room = bytes;
	}
	return writer->out_room;
}

bool pfw_writer_compress(struct pfw_writer *writer, struct pfw_gzip *gzip)
{
	struct pfw_writer_files files = PFW_NO_FILES;
	bool compressed;

	lock_work(writer, &files);
	if (!writer->process_line && !writer->text_bytes && !writer->offset &&
	    (!gzip || have_out(writer)))
		writer->gzip = gzip;
	compressed = writer->gzip;
	unlock_work(writer);
	return compressed;
}

int pfw_writer_rename(struct pfw_writer *writer, const char *path)
{
	struct pfw_spool_header *header = writer->spool->header;
	char *old = pfw_spool_trace_path(header);
	struct pfw_writer_files files = PFW_NO_FILES;
	int error = 0;

	lock_work(writer, &files);
	writer->json.whole_us =
		header->whole_us; /* may have been asked for together with the name */
	if (!atomic_load(&header->file_made))
		memcpy(old, path, strlen(path) + 1);
	else if (strcmp(old, path))
		error = pfw_trace_move(old, path);
	unlock_work(writer);
	if (error != -EXDEV)
		return error;
	error = pfw_writer_finish(writer, "renamed", NULL);
	if (!error)
		begin_anew(writer, path);
	return error;
}

void pfw_writer_forget(struct pfw_writer *writer)
{
	struct pfw_writer kept = *writer;

	memset(writer, 0, sizeof(*writer));
	writer->spool = kept.spool;
	writer->templates = kept.templates;
	writer->templates_bytes = kept.templates_bytes;
	writer->flush_ns = kept.flush_ns;
	writer->text_limit = kept.text_limit;
	writer->ring_max_bytes = kept.ring_max_bytes;
	writer->sums = kept.sums;
	writer->source = kept.source;
	writer->max_bytes = kept.max_bytes;
	writer->limited = kept.limited;
	writer->say = kept.say;
	writer->idle = kept.idle;
	writer->stay = kept.stay;
	writer->tick = kept.tick;
	writer->leave = kept.leave;
	writer->failed = kept.failed;
	writer->gzip = kept.gzip;
	writer->worker.memory = kept.worker.memory;
	writer->worker.known = kept.worker.known;
	atomic_store(&pfw_os_own_table, 0);
}
