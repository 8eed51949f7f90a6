/* spool_lines.c - the lines that a dead process's spool still holds: see spool_lines.h. */
#include "spool_lines.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "gzip.h"
#include "json.h"
#include "lines.h"
#include "spool_image.h"
#include "sums.h"

/* One reading: its text so far, and what was counted. */
struct reading {
	struct pfw_spool_image *image;
	struct pfw_spool_lines *lines;
	struct pfw_json json;
	struct pfw_clock_map clock;
	void *cache;	  /* of json */
	uint64_t beyond;  /* short calls that were not summed */
	uint64_t last_ns; /* the greatest end so far: when the lines at the end happened */
	char *text;	  /* PFW_GZIP_TEXT_MAX and slack */
	size_t used;
};

/* Any room for one more line; else what there is goes out first. */
static int flush(struct reading *reading, bool always)
{
	struct pfw_json *json = &reading->json;
	int error;

	if (json->greatest_ns > reading->last_ns && json->lines)
		reading->last_ns = json->greatest_ns;
	if (!reading->used || (!always && reading->used + PFW_JSON_LINE_MAX <= PFW_GZIP_TEXT_MAX))
		return 0;
	error = reading->lines->put(reading->lines->user, reading->text, reading->used, json);
	reading->used = 0;
	pfw_json_window(json);
	return error;
}

static char *next_line(struct reading *reading)
{
	return reading->text + reading->used;
}

static void take_line(struct reading *reading, const char *end)
{
	reading->used = (size_t)(end - reading->text);
}

/*
 * The clock of the dead process.  Its slot kept the last pair; a process that was killed before its
 * first slot leaves none, but the machine has not been booted since, so a pair taken now fits.
 */
static void restore_clock(struct reading *reading)
{
	const struct pfw_slot *slot = &reading->image->slot;
	const struct pfw_spool_header *header = reading->image->header;
	struct pfw_clock_pair fixed = { .real_offset_ns = (int64_t)header->start_ns };

	if (slot->last.mult) {
		pfw_clock_map_restore(&reading->clock,
				      slot->first.mult ? &slot->first : &slot->last, &slot->last);
		return;
	}
	pfw_clock_init();
	if (!strncmp(header->clock, pfw_clock_name(), sizeof(header->clock)))
		pfw_clock_map_init(&reading->clock);
	else /* its ticks mean nothing here: all at its start is the nearest to be had */
		pfw_clock_map_restore(&reading->clock, &fixed, &fixed);
}

/* When the process is known to have lived: the time of its last slot, else its start. */
static uint64_t last_sign_of_life_ns(const struct pfw_spool_image *image)
{
	const struct pfw_clock_pair *last = &image->slot.last;

	return last->mult ? last->mono_ns + (uint64_t)last->real_offset_ns
			  : image->header->start_ns;
}

static int start(struct reading *reading)
{
	const struct pfw_spool_header *header = reading->image->header;
	struct pfw_template_chunk *templates = reading->image->templates;
	struct pfw_json *json = &reading->json;

	reading->text = malloc(PFW_GZIP_TEXT_MAX + PFW_JSON_SLACK);
	reading->cache = calloc(1, pfw_json_cache_bytes(templates->template_count));
	if (!reading->text || !reading->cache)
		return -ENOMEM;
	restore_clock(reading);
	json->templates = templates;
	json->strings = &reading->image->strings;
	json->clock = &reading->clock;
	json->steps = reading->image->steps;
	json->pid = (uint64_t)header->pid;
	json->next_id = reading->image->slot.next_id;
	json->events = reading->image->slot.events;
	json->whole_us = header->whole_us;
	json->metadata = header->metadata;
	json->disable_tids = header->disable_tids;
	pfw_json_init(json, reading->cache);
	pfw_json_window(json);
	reading->last_ns = last_sign_of_life_ns(reading->image);
	return 0;
}

/* The record at a position, where it is whole: committed, and within what was reserved. */
static const struct pfw_record *record_at(const struct pfw_spool_stretch *stretch,
					  const struct pfw_record *slots, uint64_t position,
					  unsigned *count)
{
	uint32_t at = (uint32_t)position & (stretch->capacity - 1);
	const struct pfw_record *record = &slots[at];

	/* The reader has a copy that nobody else writes: no order is needed. */
	if (atomic_load_explicit(&record->committed, memory_order_relaxed) !=
	    (uint32_t)(position + 1))
		return NULL;
	*count = record->slots ? record->slots : 1;
	if (*count > stretch->head - position || *count > stretch->capacity - at)
		return NULL;
	return record;
}

static int put_record(struct reading *reading, const struct pfw_spool_stretch *stretch,
		      const struct pfw_record *record, unsigned count, bool *named)
{
	uint64_t tid = (uint32_t)stretch->tid, ts_ns;
	char *end;
	int error;

	if (!*named) {
		ts_ns = record->flags & PFW_RECORD_EPOCH_NS
				? record->t0
				: pfw_clock_map_epoch_ns(&reading->clock, record->t0);
		take_line(reading, pfw_line_thread_name(&reading->json, next_line(reading), tid,
							stretch->comm, ts_ns));
		*named = true;
		error = flush(reading, false);
		if (error)
			return error;
	}
	end = pfw_json_record(&reading->json, next_line(reading), record, record + 1,
			      (size_t)(count - 1) * PFW_SLOT_BYTES, tid);
	if (!end) {
		reading->lines->torn++;
		return 0;
	}
	take_line(reading, end);
	return flush(reading, false);
}

/*
 * The records of one stretch.  A run of uncommitted slots is one loss, as the writer counts it: a
 * probe that had not returned when the process died, or a handler that never came back.
 */
static int put_stretch(struct reading *reading, const struct pfw_spool_stretch *stretch,
		       bool *named)
{
	struct pfw_record *slots = pfw_spool_image_slots(reading->image, stretch);
	uint64_t position = stretch->tail;
	bool torn_run = false;
	int error = 0;

	if (!slots) {
		reading->image->damaged++;
		return 0;
	}
	while (!error && position < stretch->head) {
		unsigned count = 1;
		const struct pfw_record *record = record_at(stretch, slots, position, &count);

		position += record ? count : 1;
		if (record && record->template != PFW_TEMPLATE_PADDING)
			error = put_record(reading, stretch, record, count, named);
		else if (!record && !torn_run)
			reading->lines->torn++;
		torn_run = !record;
	}
	free(slots);
	return error;
}

static int put_events(struct reading *reading)
{
	const struct pfw_spool_image *image = reading->image;
	int32_t tid = 0;
	bool named = false;
	int error = 0;

	for (size_t i = 0; !error && i < image->stretch_count; i++) {
		/* The stretches of one thread stand together: they are of one ring. */
		if (image->stretch[i].tid != tid)
			named = false;
		tid = image->stretch[i].tid;
		error = put_stretch(reading, &image->stretch[i], &named);
	}
	return error;
}

/* The short calls that were summed and are not in the trace, and what had to become lines. */
static int put_sums_of(struct reading *reading, const struct pfw_sums_chunk *sums)
{
	const struct pfw_spool_image *image = reading->image;
	struct pfw_sum_news news;
	int error = 0;

	for (uint32_t i = 0; !error && i < PFW_SUMS; i++) {
		if (!pfw_sums_left(&sums->sum[i], image->slot.generation & 1, &news) ||
		    news.call >= image->templates->template_count)
			continue;
		take_line(reading, pfw_sums_line(&reading->json, next_line(reading), &news,
						 reading->last_ns));
		error = flush(reading, false);
	}
	return error;
}

static int put_sums(struct reading *reading)
{
	int error = 0;

	for (size_t i = 0; !error && i < reading->image->sums_count; i++) {
		struct pfw_sums_chunk *sums = pfw_spool_image_sums(reading->image, i);

		if (!sums) {
			reading->image->damaged++;
			continue;
		}
		reading->beyond += atomic_load_explicit(&sums->beyond, memory_order_relaxed);
		error = put_sums_of(reading, sums);
		free(sums);
	}
	return error;
}

/* What was counted up to the slot, and what was found torn or damaged only now: what the writer had
 * come by since is among it. */
static void count_torn(struct reading *reading)
{
	struct pfw_loss *torn = &reading->image->header->lost[PFW_LOST_TORN];
	uint64_t now = reading->last_ns;

	if (atomic_load_explicit(&torn->count, memory_order_relaxed) > reading->image->slot.torn)
		atomic_store_explicit(&torn->count, reading->image->slot.torn,
				      memory_order_relaxed);
	reading->lines->torn += reading->image->damaged;
	if (!reading->lines->torn)
		return;
	if (!atomic_load_explicit(&torn->first_ns, memory_order_relaxed))
		atomic_store_explicit(&torn->first_ns, now, memory_order_relaxed);
	atomic_store_explicit(&torn->last_ns, now, memory_order_relaxed);
	atomic_fetch_add_explicit(&torn->count, reading->lines->torn, memory_order_relaxed);
}

static int put_summary(struct reading *reading)
{
	struct pfw_spool_header *header = reading->image->header;
	struct pfw_json *json = &reading->json;
	uint64_t now = reading->last_ns, excluded = 0, unrecorded = 0;
	char *out = next_line(reading);

	for (unsigned i = 0; i < PFW_LOST_REASONS; i++)
		if (atomic_load_explicit(&header->lost[i].count, memory_order_relaxed))
			out = pfw_line_lost(json, out, i, &header->lost[i], now);
	if (atomic_load_explicit(&header->waited.count, memory_order_relaxed))
		out = pfw_line_waited(json, out, &header->waited, now);
	for (unsigned i = 0; i < PFW_EXCLUDED_REASONS; i++)
		excluded |= atomic_load_explicit(&header->excluded[i], memory_order_relaxed);
	if (reading->beyond)
		out = pfw_line_sums_full(json, out, reading->beyond, now);
	if (excluded)
		out = pfw_line_excluded(json, out, header->excluded, now);
	for (unsigned i = 0; i < PFW_UNRECORDED_KINDS; i++)
		unrecorded |= atomic_load_explicit(&header->unrecorded[i], memory_order_relaxed);
	if (unrecorded)
		out = pfw_line_unrecorded(json, out, header->unrecorded, now);
	out = pfw_line_end(json, out, header, "recovered", NULL, now);
	take_line(reading, out);
	return flush(reading, true);
}

int pfw_spool_has_lines(const struct pfw_spool_image *image)
{
	return image->stretch_count || image->sums_count || image->damaged ||
	       pfw_lines_lost(image->header);
}

static int put_first(struct reading *reading)
{
	const struct pfw_spool_header *header = reading->image->header;

	take_line(reading, pfw_line_process(&reading->json, next_line(reading), header,
					    reading->lines->spool_path, reading->json.pid));
	return flush(reading, false);
}

int pfw_spool_put_lines(struct pfw_spool_image *image, struct pfw_spool_lines *lines)
{
	static struct pfw_template_chunk none; /* of a spool that was killed before it had any */
	struct reading reading = { .image = image, .lines = lines };
	bool borrowed = !image->templates;
	int error;

	if (borrowed)
		image->templates = &none;
	error = start(&reading);
	if (!error && lines->first_line)
		error = put_first(&reading);
	if (!error)
		error = put_events(&reading);
	if (!error)
		error = put_sums(&reading);
	if (!error) {
		lines->recovered = reading.json.events - image->slot.events;
		count_torn(&reading);
		lines->lost = pfw_lines_lost(image->header);
		error = put_summary(&reading);
	}
	free(reading.cache);
	free(reading.text);
	if (borrowed)
		image->templates = NULL;
	return error;
}
