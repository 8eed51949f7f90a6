/* recorder/writer/drain.c - one pass: every record in rings and in the source becomes a line. */
#include "common/base/os.h"
#include "common/encode/own_lines.h"
#include "recorder/spool/ring.h"
#include "recorder/spool/short_sums.h"
#include "recorder/spool/strings.h"
#include "recorder/writer/internal.h"

/* Reserved below PFW_MAX_BYTES for `end` and the totals. */
#define END_BYTES 8192u

#define SOURCE_FIGURES 16u

/* ---- the tracer's own lines ---- */

/* The clock may jump before the first line is written: the report waits for it. */
static void add_clock_jump(struct pfw_writer *writer)
{
	if (writer->clock_jump.from_ns)
		set_text_end(writer, pfw_line_clock_step(&writer->json, text_end(writer),
							 writer->clock_jump.from_ns,
							 writer->clock_jump.to_ns));
	writer->clock_jump.from_ns = 0;
}

void pfw_writer_note_clock(struct pfw_writer *writer)
{
	uint64_t from_ns, to_ns;

	if (!pfw_clock_map_update(&writer->clock, &from_ns, &to_ns))
		return;
	if (!writer->clock_jump.from_ns)
		writer->clock_jump.from_ns = from_ns;
	writer->clock_jump.to_ns = to_ns;
	if (writer->reported.process && !writer->at_limit)
		add_clock_jump(writer);
}

void pfw_writer_add_process_line(struct pfw_writer *writer)
{
	struct pfw_spool_header *header = writer->spool->header;

	if (writer->reported.process)
		return;
	writer->reported.process = true;
	set_text_end(writer, pfw_line_process(&writer->json, text_end(writer), header,
					      writer->spool->heap ? NULL : writer->spool->path,
					      (uint64_t)header->pid));
	add_clock_jump(writer);
}

bool pfw_writer_losses_unreported(const struct pfw_writer *writer)
{
	for (unsigned i = 0; i < PFW_LOST_REASONS; i++)
		if (atomic_load(&writer->spool->header->lost[i].count) != writer->reported.lost[i])
			return true;
	return false;
}

static void add_losses(struct pfw_writer *writer, uint64_t now_ns)
{
	struct pfw_spool_header *header = writer->spool->header;

	for (unsigned i = 0; i < PFW_LOST_REASONS; i++) {
		uint64_t count = atomic_load(&header->lost[i].count);

		if (count == writer->reported.lost[i])
			continue;
		pfw_writer_add_process_line(writer);
		writer->reported.lost[i] = count;
		set_text_end(writer, pfw_line_lost(&writer->json, text_end(writer), i,
						   &header->lost[i], now_ns));
	}
}

/* Short calls that found no room in their table. */
static uint64_t count_beyond(void)
{
	uint64_t beyond = 0;

	for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = ring->next)
		if (ring->sums)
			beyond += atomic_load_explicit(&ring->sums->beyond, memory_order_relaxed);
	return beyond;
}

/* Files that stay mapped to the end, once: not in a dump or a file that another one follows. */
static void add_mappings(struct pfw_writer *writer, const char *reason, uint64_t now_ns)
{
	uint64_t bytes, touched;
	uint32_t at = 0, name;

	if (writer->reported.mappings || keeps(writer) || !writer->mapping ||
	    !strcmp(reason, "renamed"))
		return;
	writer->reported.mappings = true;
	while (!writer->at_limit && writer->mapping(&at, &name, &bytes, &touched)) {
		set_text_end(writer, pfw_line_mapping(&writer->json, text_end(writer), name, bytes,
						      touched, now_ns));
		if (pfw_writer_make_room(writer))
			return;
	}
}

void pfw_writer_add_end(struct pfw_writer *writer, const char *reason, const char *exec_path)
{
	struct pfw_spool_header *header = writer->spool->header;
	struct pfw_json *json = &writer->json;
	struct pfw_source_figure figure[SOURCE_FIGURES];
	uint64_t now_ns = pfw_clock_ns(CLOCK_REALTIME);
	char *out;

	add_losses(writer, now_ns);
	if (!writer->reported.process)
		return;
	add_mappings(writer, reason, now_ns);
	out = pfw_line_waited(json, text_end(writer), &header->waited, now_ns);
	out = pfw_line_sums_full(json, out, count_beyond(), now_ns);
	if (writer->source)
		out = pfw_line_figures(json, out, writer->source->name, figure,
				       writer->source->figures(figure, SOURCE_FIGURES), now_ns);
	out = pfw_line_excluded(json, out, header->excluded, now_ns);
	out = pfw_line_unrecorded(json, out, header->unrecorded, now_ns);
	out = pfw_line_stacks_lost(json, out, header->stacks_lost, now_ns);
	set_text_end(writer, pfw_line_end(json, out, header, reason, exec_path, now_ns));
}

/* ---- records ---- */

/* The size of the text is an upper bound for the size of its member: after a write there may be
 * room below PFW_MAX_BYTES again. */
int pfw_writer_make_room(struct pfw_writer *writer)
{
	uint64_t most = writer->max_bytes ? writer->max_bytes - END_BYTES : UINT64_MAX;
	int error;

	if (writer->text.bytes < writer->text_limit && writer->offset + writer->text.bytes < most)
		return 0;
	error = pfw_writer_flush_text(writer);
	if (error || writer->at_limit || writer->offset < most)
		return error;
	writer->at_limit = true;
	if (!keeps(writer)) /* the next dump has another file */
		writer->limited();
	return 0;
}

/* The stretch knows the thread: a flight recorder's ring may have records of several. */
static void add_ring_record(struct pfw_writer *writer, struct pfw_ring *ring,
			    const struct pfw_record *record, unsigned slots, uint64_t now_ns)
{
	uint64_t tid = (uint64_t)atomic_load_explicit(&ring->drain->tid, memory_order_relaxed);
	char *end;

	if (PFW_UNLIKELY(ring->named_tid != (int32_t)tid)) {
		pfw_writer_add_process_line(writer);
		ring->named_tid = (int32_t)tid;
		set_text_end(writer, pfw_line_thread_name(&writer->json, text_end(writer), tid,
							  ring->drain->comm, now_ns));
	}
	if (PFW_UNLIKELY(record->flags & PFW_RECORD_STACK))
		pfw_writer_name_modules(writer);
	end = pfw_json_record(&writer->json, text_end(writer), record, record + 1,
			      (slots - 1) * PFW_SLOT_BYTES, tid);
	if (end)
		set_text_end(writer, end);
	else
		pfw_ring_count_lost(PFW_LOST_TORN, 1);
}

int pfw_writer_drain_record(struct pfw_writer *writer, struct pfw_ring *ring,
			    const struct pfw_record *record, unsigned slots, uint64_t now_ns)
{
	int error = writer->at_limit ? 0 : pfw_writer_make_room(writer);

	if (error)
		return error;
	if (writer->at_limit)
		pfw_ring_count_lost(PFW_LOST_LIMIT, 1);
	else
		add_ring_record(writer, ring, record, slots, now_ns);
	pfw_ring_advance(ring, slots);
	writer->drained++;
	return 0;
}

static int drain_ring(struct pfw_writer *writer, struct pfw_ring *ring, uint64_t now_ns)
{
	const struct pfw_record *record;
	unsigned slots;
	int error = 0;

	while (!error && (record = pfw_ring_peek(ring, now_ns, &slots)))
		error = pfw_writer_drain_record(writer, ring, record, slots, now_ns);
	return error;
}

void pfw_writer_add_record(struct pfw_writer *writer, const struct pfw_record *record,
			   unsigned slots)
{
	char *end;

	pfw_writer_add_process_line(writer);
	end = pfw_json_record(&writer->json, text_end(writer), record, record + 1,
			      (slots - 1) * PFW_SLOT_BYTES, writer->json.pid);
	if (end)
		set_text_end(writer, end);
}

/* A record leaves the source when it is returned: make room first. */
static int drain_source(struct pfw_writer *writer)
{
	const struct pfw_record *record;
	unsigned slots;

	while (writer->source) {
		int error = writer->at_limit ? 0 : pfw_writer_make_room(writer);

		if (error)
			return error;
		record = writer->source->next(&slots);
		if (!record)
			break;
		writer->drained++;
		if (writer->at_limit) {
			pfw_ring_count_lost(PFW_LOST_LIMIT, 1);
			continue;
		}
		pfw_writer_add_record(writer, record, slots);
	}
	return 0;
}

/* One `summed` line for each name and file of each thread that has new calls. */
int pfw_writer_add_sums(struct pfw_writer *writer, uint64_t now_ns)
{
	struct pfw_sum_news news;
	int error = 0;

	for (struct pfw_ring *ring = pfw_ring_first(); ring && !error; ring = ring->next) {
		if (!ring->sums || !atomic_load_explicit(&ring->sums->filled, memory_order_relaxed))
			continue;
		for (uint32_t at = 0; !error && pfw_sums_next(ring->sums, &at, &news); at++) {
			writer->drained++;
			if (writer->at_limit) {
				pfw_ring_count_lost(PFW_LOST_LIMIT, news.count);
				continue;
			}
			pfw_writer_add_process_line(writer);
			set_text_end(writer, pfw_summed_line(&writer->json, text_end(writer), &news,
							     now_ns));
			error = pfw_writer_make_room(writer);
		}
	}
	return error;
}

/* Passes may run many times a second: a `summed` line each would sum little. */
static bool sums_due(struct pfw_writer *writer)
{
	uint64_t now = pfw_clock_ns(CLOCK_MONOTONIC);

	if (!writer->sums ||
	    (!atomic_load(&writer->flushing) && now - writer->reported.sums_ns < writer->flush_ns))
		return false;
	writer->reported.sums_ns = now;
	return true;
}

/* ---- one pass ---- */

static int drain_rings(struct pfw_writer *writer, uint64_t now_ns, bool *passed)
{
	int error = 0;

	for (struct pfw_ring *ring = pfw_ring_first(); ring && !error; ring = ring->next) {
		if (pfw_ring_half_full(ring))
			pfw_writer_grow_ring(writer, ring);
		error = drain_ring(writer, ring, now_ns);
		*passed |= pfw_ring_has_drained(ring);
	}
	return error;
}

/* The tracer's own lines after the records.  True: `end` is one of them. */
static bool add_due_lines(struct pfw_writer *writer, uint64_t now_ns)
{
	if (writer->drained && !writer->at_limit)
		add_losses(writer, now_ns);
	if (writer->rank_late && writer->reported.process) {
		writer->rank_late = false;
		set_text_end(writer, pfw_line_rank(&writer->json, text_end(writer),
						   writer->spool->header, now_ns));
	}
	if (!writer->at_limit || writer->ended_at)
		return false;
	pfw_writer_add_end(writer, "limit", NULL);
	return true;
}

/* Encode everything, then write it: always if `put`, else only an `end`. */
static int drain_all(struct pfw_writer *writer, bool put)
{
	uint64_t now_ns = pfw_clock_ns(CLOCK_REALTIME);
	bool passed = false, ends;
	int error = atomic_load(&writer->stalled) ? pfw_writer_flush_text(writer) : 0;

	if (error)
		return error;
	pfw_writer_note_clock(writer);
	error = drain_rings(writer, now_ns, &passed) ?: drain_source(writer);
	if (!error && sums_due(writer))
		error = pfw_writer_add_sums(writer, now_ns);
	if (error)
		return error;
	ends = add_due_lines(writer, now_ns);
	/* Also without text: the commit frees padding, torn slots and rings of ended threads. */
	if ((put || ends) && (passed || writer->text.bytes))
		error = pfw_writer_flush_text(writer);
	if (!error && ends)
		writer->ended_at = writer->offset;
	return error;
}

int pfw_writer_pass(struct pfw_writer *writer, bool put)
{
	uint64_t steps = writer->steps ? atomic_load(&writer->steps->head) : 0;
	int error;

	writer->drained = 0;
	pfw_writer_supply_rings(writer, PFW_WRITER_DEAD_RINGS_MAX);
	if (pfw_strings_low())
		pfw_writer_add_strings(writer);
	error = keeps(writer) ? pfw_writer_keep_pass(writer) : drain_all(writer, put);
	/* Once a pass, not once a write: other rings may still name a string when one ring has
	 * filled the text twice. */
	if (!error && !keeps(writer))
		pfw_strings_reclaim();
	/* Every event that began before the newest of `steps` is in the file or still running. */
	if (!error && steps)
		atomic_store_explicit(&writer->steps->seen, steps - 1, memory_order_release);
	atomic_fetch_add(&writer->passes, 1);
	pfw_os_futex_wake((const uint32_t *)&writer->passes, INT32_MAX);
	return error;
}
