/* store/recover/lines.c - the lines of the records in a spool: see lines.h. */
#include "store/recover/lines.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/encode/encode.h"
#include "common/encode/own_lines.h"
#include "common/format/clock.h"
#include "common/format/gzip.h"
#include "store/line/entry.h"
#include "store/recover/image.h"

enum stage { STAGE_FIRST, STAGE_EVENTS, STAGE_SUMS, STAGE_SUMMARY, STAGE_DONE };

/* A reading: its position, the current text, and counts. */
struct pfw_spool_reading {
	struct pfw_spool_image *image;
	struct pfw_clock_map clock;
	void *cache;	  /* the encoder's */
	uint64_t beyond;  /* short calls that found no room to be summed */
	uint64_t last_ns; /* the greatest end so far: the time of the last lines */
	uint64_t from_ns; /* a flight recorder's: what ended before is no longer wanted */
	uint64_t overwritten;
	const struct pfw_template_chunk *templates; /* the image's, or an empty chunk */
	char *text; /* PFW_GZIP_TEXT_MAX and room for one more line */
	size_t used;
	enum stage stage;
	/* STAGE_EVENTS: the current chunk. */
	size_t stretch;
	struct pfw_record *slots; /* NULL = not loaded yet */
	uint64_t position;
	bool torn_run;
	bool named; /* its thread's thread_name line is written */
	int32_t tid;
	/* STAGE_SUMS: the current table. */
	size_t table;
	struct pfw_sums_chunk *sums;
	uint32_t entry;
};

static char *next_line(struct pfw_spool_reading *reading)
{
	return reading->text + reading->used;
}

static void take_line(struct pfw_spool_reading *reading, const char *end)
{
	reading->used = (size_t)(end - reading->text);
}

/* Restore the process's clock from the last pair in its slot.  Without a slot, a pair taken now
 * fits, since the machine has not been booted since. */
static void restore_clock(struct pfw_spool_reading *reading)
{
	const struct pfw_slot *slot = &reading->image->slot;
	const struct pfw_spool_header *header = reading->image->header;
	struct pfw_clock_pair fixed = { .real_offset_ns = (int64_t)header->start_ns };
	static pthread_once_t clock = PTHREAD_ONCE_INIT; /* it is the process's, and set once */

	if (slot->last.mult) {
		pfw_clock_map_restore(&reading->clock,
				      slot->first.mult ? &slot->first : &slot->last, &slot->last);
		return;
	}
	pthread_once(&clock, pfw_clock_init);
	if (!strncmp(header->clock, pfw_clock_name(), sizeof(header->clock)))
		pfw_clock_map_init(&reading->clock);
	else /* its ticks cannot be converted here: use its start time for all */
		pfw_clock_map_restore(&reading->clock, &fixed, &fixed);
}

/* The last time at which the process certainly lived: its last slot's, else its start. */
static uint64_t last_sign_of_life_ns(const struct pfw_spool_image *image)
{
	const struct pfw_clock_pair *last = &image->slot.last;

	return last->mult ? last->mono_ns + (uint64_t)last->real_offset_ns
			  : image->header->start_ns;
}

/* Lines of modules after the good part of the trace are written again. */
static void forget_later_modules(struct pfw_json *json)
{
	for (unsigned i = 0; json->stacks && i < PFW_STACK_MODULES; i++) {
		_Atomic uint64_t *line = &json->stacks->module[i].line;

		if (atomic_load_explicit(line, memory_order_relaxed) >= json->next_id)
			atomic_store_explicit(line, 0, memory_order_relaxed);
	}
}

static int start(struct pfw_spool_lines *lines)
{
	struct pfw_spool_reading *reading = lines->reading;
	const struct pfw_spool_header *header = reading->image->header;
	const struct pfw_template_chunk *templates = reading->templates;

	reading->text = malloc(PFW_GZIP_TEXT_MAX + PFW_JSON_SLACK);
	reading->cache = calloc(1, pfw_json_cache_bytes(templates->template_count));
	if (!reading->text || !reading->cache)
		return -ENOMEM;
	restore_clock(reading);
	lines->json = (struct pfw_json){
		.templates = templates,
		.strings = &reading->image->strings,
		.clock = &reading->clock,
		.steps = reading->image->steps,
		.stacks = reading->image->stacks,
		.pid = (uint64_t)header->pid,
		.next_id = reading->image->slot.next_id,
		.events = reading->image->slot.events,
		.whole_us = header->whole_us,
		.metadata = header->metadata,
		.disable_tids = header->disable_tids,
	};
	pfw_json_init(&lines->json, reading->cache);
	forget_later_modules(&lines->json);
	reading->last_ns = last_sign_of_life_ns(reading->image);
	if (header->keep_bytes && header->keep_ns && header->keep_ns < reading->last_ns &&
	    reading->image->slot.last.mult)
		reading->from_ns = reading->last_ns - header->keep_ns;
	return 0;
}

/* A flight recorder keeps whole stretches, which may be older than PFW_KEEP asks for.  The time counts
 * from the last sign of life, so that the dump has too much rather than too little. */
static bool is_unwanted(const struct pfw_spool_reading *reading, const struct pfw_record *record)
{
	uint64_t end = record->t0 + record->dur;

	return reading->from_ns &&
	       (record->flags & PFW_RECORD_EPOCH_NS
			? end
			: pfw_clock_map_epoch_ns(&reading->clock, end)) < reading->from_ns;
}

/* The record at a position if it is complete: committed and within the reserved slots. */
static const struct pfw_record *record_at(const struct pfw_spool_stretch *stretch,
					  const struct pfw_record *slots, uint64_t position,
					  unsigned *count)
{
	uint32_t at = (uint32_t)position & (stretch->capacity - 1);
	const struct pfw_record *record = &slots[position - stretch->first];

	/* Relaxed, since nobody else writes this copy. */
	if (atomic_load_explicit(&record->committed, memory_order_relaxed) !=
	    (uint32_t)(position + 1))
		return NULL;
	*count = record->slots ? record->slots : 1;
	if (*count > stretch->head - position || *count > stretch->capacity - at)
		return NULL;
	return record;
}

/* ---- one line per call, or none ---- */

static void put_first(struct pfw_spool_lines *lines)
{
	struct pfw_spool_reading *reading = lines->reading;

	if (lines->first_line)
		take_line(reading,
			  pfw_line_process(&lines->json, next_line(reading), reading->image->header,
					   lines->spool_path, lines->json.pid));
	reading->stage = STAGE_EVENTS;
}

static void put_name(struct pfw_spool_lines *lines, const struct pfw_spool_stretch *stretch,
		     const struct pfw_record *record)
{
	struct pfw_spool_reading *reading = lines->reading;
	uint64_t ts_ns = record->flags & PFW_RECORD_EPOCH_NS
				 ? record->t0
				 : pfw_clock_map_epoch_ns(&reading->clock, record->t0);

	take_line(reading, pfw_line_thread_name(&lines->json, next_line(reading),
						(uint32_t)stretch->tid, stretch->comm, ts_ns));
	reading->named = true;
}

static void put_record(struct pfw_spool_lines *lines, const struct pfw_spool_stretch *stretch,
		       const struct pfw_record *record, unsigned count)
{
	struct pfw_spool_reading *reading = lines->reading;
	char *out = next_line(reading);
	char *end = pfw_json_record(&lines->json, out, record, record + 1,
				    (size_t)(count - 1) * PFW_SLOT_BYTES, (uint32_t)stretch->tid);

	if (!end)
		lines->torn++;
	else if (end != out)
		take_line(reading, end);
}

/* Advance to the next chunk, or past the last.  Chunks of one thread are adjacent, since they are
 * of one ring. */
static void begin_stretch(struct pfw_spool_reading *reading)
{
	struct pfw_spool_image *image = reading->image;
	struct pfw_spool_stretch *stretch;

	if (reading->stretch == image->stretch_count) {
		reading->stage = STAGE_SUMS;
		return;
	}
	stretch = &image->stretch[reading->stretch];
	if (stretch->tid != reading->tid)
		reading->named = false;
	reading->tid = stretch->tid;
	reading->position = stretch->tail;
	reading->torn_run = false;
	reading->slots = pfw_spool_image_slots(image, stretch);
	if (!reading->slots) {
		image->damaged++;
		reading->stretch++;
	}
}

/* Write the chunk's next record.  A run of uncommitted slots counts as one loss, as in the writer:
 * a probe had not returned when the process died, or a handler never returned. */
static void put_event(struct pfw_spool_lines *lines)
{
	struct pfw_spool_reading *reading = lines->reading;
	const struct pfw_spool_stretch *stretch;
	const struct pfw_record *record;
	unsigned count = 1;

	if (!reading->slots) {
		begin_stretch(reading);
		return;
	}
	stretch = &reading->image->stretch[reading->stretch];
	if (reading->position >= stretch->head) {
		free(reading->slots);
		reading->slots = NULL;
		reading->stretch++;
		return;
	}
	record = record_at(stretch, reading->slots, reading->position, &count);
	if (record && record->template != PFW_TEMPLATE_PADDING && is_unwanted(reading, record)) {
		reading->overwritten++;
	} else if (record && record->template != PFW_TEMPLATE_PADDING) {
		if (!reading->named) {
			put_name(lines, stretch, record);
			return; /* the record is written next time */
		}
		put_record(lines, stretch, record, count);
	} else if (!record && !reading->torn_run) {
		lines->torn++;
	}
	reading->torn_run = !record;
	reading->position += record ? count : 1;
}

/* Advance to the next table of short calls, or past the last. */
static void begin_sums(struct pfw_spool_reading *reading)
{
	struct pfw_spool_image *image = reading->image;

	if (reading->table == image->sums_count) {
		reading->stage = STAGE_SUMMARY;
		return;
	}
	reading->entry = 0;
	reading->sums = pfw_spool_image_sums(image, reading->table++);
	if (reading->sums)
		reading->beyond +=
			atomic_load_explicit(&reading->sums->beyond, memory_order_relaxed);
	else
		image->damaged++;
}

/* Write the next sum that is not in the trace. */
static void put_sum(struct pfw_spool_lines *lines)
{
	struct pfw_spool_reading *reading = lines->reading;
	const struct pfw_spool_image *image = reading->image;
	struct pfw_sum_news news;

	if (!reading->sums) {
		begin_sums(reading);
		return;
	}
	if (pfw_summed_left(&reading->sums->sum[reading->entry], image->slot.generation & 1,
			    &news) &&
	    news.call < reading->templates->template_count)
		take_line(reading, pfw_summed_line(&lines->json, next_line(reading), &news,
						   reading->last_ns));
	if (++reading->entry == PFW_SUMS) {
		free(reading->sums);
		reading->sums = NULL;
	}
}

/* Add the torn and damaged records found now to the losses counted up to the slot; the slot's count
 * may include some that the writer found later. */
static void count_torn(struct pfw_spool_lines *lines)
{
	struct pfw_spool_reading *reading = lines->reading;
	struct pfw_loss *torn = &reading->image->header->lost[PFW_LOST_TORN];
	uint64_t now = reading->last_ns;

	if (atomic_load_explicit(&torn->count, memory_order_relaxed) > reading->image->slot.torn)
		atomic_store_explicit(&torn->count, reading->image->slot.torn,
				      memory_order_relaxed);
	lines->torn += reading->image->damaged;
	if (!lines->torn)
		return;
	if (!atomic_load_explicit(&torn->first_ns, memory_order_relaxed))
		atomic_store_explicit(&torn->first_ns, now, memory_order_relaxed);
	atomic_store_explicit(&torn->last_ns, now, memory_order_relaxed);
	atomic_fetch_add_explicit(&torn->count, lines->torn, memory_order_relaxed);
}

static char *put_dump(struct pfw_spool_lines *lines, char *out, uint64_t now)
{
	struct pfw_spool_reading *reading = lines->reading;
	const struct pfw_spool_header *header = reading->image->header;
	uint64_t whole = atomic_load_explicit(&header->whole_ticks, memory_order_relaxed);
	struct pfw_dump_facts facts = {
		.why = "killed",
		.number = atomic_load_explicit(&header->dumps, memory_order_relaxed) + 1ull,
		.from_ns = reading->from_ns > header->start_ns ? reading->from_ns
							       : header->start_ns,
		.overwritten = reading->overwritten +
			       atomic_load_explicit(&header->overwritten, memory_order_relaxed),
	};

	if (whole && pfw_clock_map_epoch_ns(&reading->clock, whole) > facts.from_ns)
		facts.from_ns = pfw_clock_map_epoch_ns(&reading->clock, whole);
	return pfw_line_dump(&lines->json, out, &facts, now);
}

/* A killed process took with it the GPU work that CUPTI had not yet handed over. */
static void count_gpu(struct pfw_spool_header *header, uint64_t now)
{
	uint64_t since = atomic_load_explicit(&header->gpu_since_ns, memory_order_relaxed);

	if (since)
		atomic_store_explicit(&header->unrecorded[PFW_UNRECORDED_GPU_US],
				      now > since + 1000 ? (now - since) / 1000 : 1,
				      memory_order_relaxed);
}

/* Write the lines at the end of a trace; all are short. */
static void put_summary(struct pfw_spool_lines *lines)
{
	struct pfw_spool_reading *reading = lines->reading;
	struct pfw_spool_header *header = reading->image->header;
	struct pfw_json *json = &lines->json;
	uint64_t now = reading->last_ns;
	char *out = next_line(reading);

	lines->recovered = json->events - reading->image->slot.events;
	if (!lines->live) {
		count_torn(lines);
		count_gpu(header, now);
		pfw_spool_profiled_lost(header);
	}
	lines->lost = pfw_spool_lost(header);
	for (unsigned i = 0; i < PFW_LOST_REASONS; i++)
		if (atomic_load_explicit(&header->lost[i].count, memory_order_relaxed))
			out = pfw_line_lost(json, out, i, &header->lost[i], now);
	out = pfw_line_waited(json, out, &header->waited, now);
	out = pfw_line_sums_full(json, out, reading->beyond, now);
	out = pfw_line_excluded(json, out, header->excluded, now);
	out = pfw_line_unrecorded(json, out, header->unrecorded, now);
	out = pfw_line_stacks_lost(json, out, header->stacks_lost, now);
	if (!lines->live && header->keep_bytes)
		out = put_dump(lines, out, now);
	if (!lines->live)
		out = pfw_line_end(json, out, header, "recovered", NULL, now);
	take_line(reading, out);
	reading->stage = STAGE_DONE;
}

/* ---- reading ---- */

int pfw_spool_has_lines(const struct pfw_spool_image *image)
{
	return image->stretch_count || image->sums_count || image->damaged ||
	       pfw_spool_lost(image->header);
}

int pfw_spool_lines_begin(struct pfw_spool_lines *lines, struct pfw_spool_image *image)
{
	/* for a spool whose process was killed before it had templates */
	static const struct pfw_template_chunk none;
	struct pfw_spool_reading *reading = calloc(1, sizeof(*reading));
	int error;

	if (!reading)
		return -ENOMEM;
	lines->reading = reading;
	lines->recovered = lines->torn = lines->lost = 0;
	reading->image = image;
	reading->templates = image->templates ? image->templates : &none;
	error = start(lines);
	if (error)
		pfw_spool_lines_end(lines);
	return error;
}

size_t pfw_spool_lines_next(struct pfw_spool_lines *lines, const char **text)
{
	static void (*const put[])(struct pfw_spool_lines *) = {
		[STAGE_FIRST] = put_first,
		[STAGE_EVENTS] = put_event,
		[STAGE_SUMS] = put_sum,
		[STAGE_SUMMARY] = put_summary,
	};
	struct pfw_spool_reading *reading = lines->reading;
	struct pfw_json *json = &lines->json;

	_Static_assert(PFW_ENTRY_PADDING <= PFW_JSON_SLACK, "both are behind the text");
	reading->used = 0;
	pfw_json_window(json);
	while (reading->stage != STAGE_DONE &&
	       reading->used + PFW_JSON_LINE_MAX <= PFW_GZIP_TEXT_MAX) {
		put[reading->stage](lines);
		if (json->lines && json->greatest_ns > reading->last_ns)
			reading->last_ns = json->greatest_ns;
	}
	memset(next_line(reading), 0, PFW_ENTRY_PADDING);
	*text = reading->text;
	return reading->used;
}

void pfw_spool_lines_end(struct pfw_spool_lines *lines)
{
	struct pfw_spool_reading *reading = lines->reading;

	free(reading->slots);
	free(reading->sums);
	free(reading->cache);
	free(reading->text);
	free(reading);
	lines->reading = NULL;
}
