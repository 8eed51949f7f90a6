/* recorder/writer/keep.c - the flight recorder (PFW_KEEP): keeps the newest records, and dumps
 * them.
 *
 * The kept records of a ring are its list of stretches.  When a thread has filled its stretch, the
 * next one is ready: the writer takes a free stretch, or makes one while there is room, or discards
 * the oldest stretch of all rings.  So a record takes its thread no extra time, and the writer looks
 * at it only when it is discarded.  A dump does what the writer of other traces always does: drain,
 * encode, write, commit.  A kept stretch is in use, so recovery finds it, too.
 */
#include <stdint.h>
#include <string.h>

#include "common/base/os.h"
#include "common/base/text.h"
#include "recorder/spool/ring.h"
#include "recorder/spool/strings.h"
#include "recorder/writer/internal.h"

#define LEAST_SLOTS 512u
#define SHARES 32u /* a stretch is at most this share of what is kept */
#define GROWTH 4u
#define STUCK_NS 1500000000ull /* a record that is not committed for so long is skipped as torn */

/* ---- forgetting ---- */

/* A moment in both of the times that records have. */
struct cut {
	uint64_t ticks, ns;
};

static struct cut cut_at(const struct pfw_writer *writer, uint64_t ticks)
{
	return (struct cut){ ticks, ticks ? pfw_clock_map_epoch_ns(&writer->clock, ticks) : 0 };
}

static bool ended_before(const struct pfw_record *record, const struct cut *cut)
{
	return record->t0 + record->dur <
	       (record->flags & PFW_RECORD_EPOCH_NS ? cut->ns : cut->ticks);
}

/* From these ticks on, everything is there. */
static void note_forgotten(struct pfw_writer *writer, uint64_t count, uint64_t ticks)
{
	struct pfw_spool_header *header = writer->spool->header;

	if (!count)
		return;
	atomic_fetch_add(&header->overwritten, count);
	if (ticks > atomic_load(&header->whole_ticks))
		atomic_store(&header->whole_ticks, ticks);
}

/* Forget what ended before the cut.  Return whether there is something to commit. */
static bool forget_before(struct pfw_writer *writer, struct pfw_ring *ring, const struct cut *cut)
{
	uint64_t now_ns = pfw_clock_ns(CLOCK_REALTIME), count = 0;
	const struct pfw_record *record;
	unsigned slots;

	while ((record = pfw_ring_peek(ring, now_ns, &slots)) && ended_before(record, cut)) {
		pfw_ring_advance(ring, slots);
		count++;
	}
	note_forgotten(writer, count, cut->ticks);
	return count || ring->retired;
}

/* Each commit frees one stretch of a ring. */
static void forget_all_before(struct pfw_writer *writer, uint64_t ticks)
{
	struct cut cut = cut_at(writer, ticks);
	bool any = true;

	while (any) {
		any = false;
		for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = ring->next) {
			any |= forget_before(writer, ring, &cut);
			ring->cut_ticks = ticks;
		}
		if (any)
			pfw_writer_commit(writer);
	}
}

/* Forget records of the oldest stretch, up to a position; `ticks`: when the last of them had ended.
 * False: there is none, or it may yet be committed. */
static bool forget_upto(struct pfw_writer *writer, struct pfw_ring *ring, uint64_t position,
			uint64_t ticks)
{
	struct pfw_ring_chunk *stretch = ring->drain;
	uint64_t now_ns = pfw_clock_ns(CLOCK_REALTIME), count = 0, begin = ring->drained;
	unsigned slots;

	while (ring->drain == stretch && ring->drained < position &&
	       pfw_ring_peek(ring, now_ns, &slots) && ring->drain == stretch) {
		pfw_ring_advance(ring, slots);
		count++;
	}
	/* The last peek has gone on to the next stretch, or goes now. */
	if (ring->drain == stretch)
		pfw_ring_peek(ring, now_ns, &slots);
	note_forgotten(writer, count, ticks);
	if (ring->drain == stretch && ring->drained == begin)
		return false;
	pfw_writer_commit(writer);
	return true;
}

/* The ring whose oldest stretch was left first, later than `after`; NULL = none. */
static struct pfw_ring *oldest_ring(uint64_t after)
{
	struct pfw_ring *oldest = NULL;

	for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = ring->next)
		if (ring->drain->closed_ticks > after &&
		    (!oldest || ring->drain->closed_ticks < oldest->drain->closed_ticks))
			oldest = ring;
	return oldest;
}

bool pfw_writer_keep_less(struct pfw_writer *writer)
{
	struct pfw_ring *ring = only_keeps(writer) ? oldest_ring(0) : NULL;

	while (ring) {
		struct pfw_ring_chunk *stretch = ring->drain;
		uint64_t closed = stretch->closed_ticks;

		if (forget_upto(writer, ring, UINT64_MAX, closed)) {
			if (ring->drain ==
			    stretch) /* an ended thread's last one: the ring is free */
				stretch->closed_ticks = 0;
			return true;
		}
		ring = oldest_ring(closed);
	}
	return false;
}

/* ---- room for new records ---- */

/* Note the stretches that their threads have left. */
static void note_closed(struct pfw_ring *ring, uint64_t now_ticks)
{
	struct pfw_ring_chunk *current = atomic_load(&ring->stretch), *stretch = ring->drain;

	for (; stretch != current; stretch = stretch->next)
		if (!stretch->closed_ticks)
			stretch->closed_ticks = now_ticks;
	if (atomic_load(&ring->state) != PFW_RING_DEAD)
		current->closed_ticks = 0;
	else if (!current->closed_ticks)
		current->closed_ticks = now_ticks;
}

static uint32_t next_capacity(const struct pfw_writer *writer, const struct pfw_ring *ring)
{
	uint64_t most = writer->keep_bytes / SHARES;
	uint32_t capacity = ring->last->capacity * GROWTH;

	if (most > writer->ring_max_bytes)
		most = writer->ring_max_bytes;
	while (capacity > LEAST_SLOTS && (uint64_t)capacity * PFW_SLOT_BYTES > most)
		capacity /= 2;
	return capacity < LEAST_SLOTS ? LEAST_SLOTS : capacity;
}

/* The time is not over, and the memory is used up. */
static void say_it_is_short(struct pfw_writer *writer)
{
	char line[256];
	struct pfw_text text;

	if (!writer->keep_grows || writer->keep_said)
		return;
	writer->keep_said = true;
	pfw_text_init(&text, line, sizeof(line));
	pfw_text_add(&text, "PFW_KEEP: less than its time is kept, in ");
	pfw_text_add_u64(&text, writer->made.ring_bytes >> 20, 1);
	pfw_text_add(
		&text,
		" MiB: more than a quarter of the memory that is available, or than the spool's "
		"directory has, is taken only if a size says so, as PFW_KEEP=10s,4GiB");
	writer->say(line);
}

/* A stretch within what may be kept; NULL = none. */
static struct pfw_ring_chunk *get_stretch(struct pfw_writer *writer, uint32_t capacity)
{
	struct pfw_ring_chunk **pool = &writer->made.pool[__builtin_ctz(capacity)], *stretch = NULL;
	uint64_t bytes = (uint64_t)capacity * PFW_SLOT_BYTES;
	bool going = true;

	while (!stretch && going) {
		if (*pool || pfw_writer_may_take(writer, bytes))
			stretch = pfw_writer_get_stretch(writer, capacity);
		if (!stretch)
			going = pfw_writer_keep_less(writer);
		if (!stretch && going)
			say_it_is_short(writer);
	}
	return stretch;
}

/* Lay another stretch ready; without one, the ring overwrites itself: forget its older half. */
static void give_room(struct pfw_writer *writer, struct pfw_ring *ring)
{
	struct pfw_ring_chunk *stretch;

	if (!pfw_ring_wants_more(ring))
		return;
	stretch = get_stretch(writer, next_capacity(writer, ring));
	if (stretch)
		pfw_ring_offer(ring, stretch);
	else if (only_keeps(writer))
		forget_upto(writer, ring, ring->drained + ring->drain->capacity / 2,
			    pfw_clock_ticks());
}

static void give_all_room(struct pfw_writer *writer)
{
	uint64_t now_ticks = pfw_clock_ticks();

	for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = ring->next) {
		note_closed(ring, now_ticks);
		give_room(writer, ring);
	}
	pfw_ring_space_made();
}

/* ---- records without a ring ---- */

static bool have_own_ring(struct pfw_writer *writer)
{
	struct pfw_ring_chunk *stretch;
	ssize_t bytes;

	if (writer->own_ring)
		return true;
	writer->own_ring = pfw_writer_make_own_ring(writer);
	if (!writer->own_ring)
		return false;
	stretch = atomic_load(&writer->own_ring->stretch);
	bytes = pfw_os_read_file("/proc/self/comm", stretch->comm, sizeof(stretch->comm));
	stretch->comm[bytes > 0 ? bytes - 1 : 0] = '\0';
	atomic_store(&writer->own_ring->tid, (int32_t)writer->json.pid);
	atomic_store(&stretch->tid, (int32_t)writer->json.pid);
	return true;
}

bool pfw_writer_keep_record(struct pfw_writer *writer, const struct pfw_record *record,
			    unsigned slots)
{
	if (!have_own_ring(writer))
		return false;
	give_room(writer, writer->own_ring);
	return pfw_ring_put(writer->own_ring, record, slots);
}

static void keep_source(struct pfw_writer *writer)
{
	const struct pfw_record *record;
	unsigned slots;

	while (writer->source && (record = writer->source->next(&slots)))
		if (!pfw_writer_keep_record(writer, record, slots))
			pfw_ring_count_lost(PFW_LOST_FULL, 1);
}

/* ---- names ---- */

/* Names go when no record that is kept can have them.  If there is no room for new ones, their
 * records go, too: else each call on a file would have to ask for its name. */
static void reclaim_names(struct pfw_writer *writer)
{
	uint64_t now_ticks = pfw_clock_ticks(), oldest = now_ticks;
	uint64_t scarce = pfw_strings_scarce();

	if (scarce && only_keeps(writer))
		forget_all_before(writer, scarce + 1);
	for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = ring->next) {
		uint64_t since = ring->drain->made_ticks > ring->cut_ticks ? ring->drain->made_ticks
									   : ring->cut_ticks;

		if ((ring->drain != ring->last || pfw_ring_is_blocked(ring)) && since < oldest)
			oldest = since;
	}
	pfw_strings_reclaim_before(now_ticks, oldest);
}

/* ---- a dump ---- */

bool pfw_writer_ask_dump(struct pfw_writer *writer, const char *why)
{
	uint32_t none = PFW_DUMP_NONE;

	if (!atomic_compare_exchange_strong(&writer->dump_state, &none, PFW_DUMP_ASKING))
		return false;
	memset(writer->dump.why, 0, sizeof(writer->dump.why));
	memcpy(writer->dump.why, why, strnlen(why, sizeof(writer->dump.why) - 1));
	writer->dump.until = pfw_clock_ticks();
	atomic_store(&writer->dump_state, PFW_DUMP_ASKED);
	pfw_writer_wake(writer);
	return true;
}

static void begin_dump(struct pfw_writer *writer)
{
	uint64_t until = writer->dump.until, keep = writer->keep_ticks;

	writer->dump.from = keep && keep < until ? until - keep : 0;
	writer->dump.stuck = 0;
	writer->dump.ended = false;
	atomic_store(&writer->dump_state, PFW_DUMP_RUNS);
}

/* Events that begin after the request are for the next dump. */
static bool is_later(const struct pfw_record *record, const struct cut *until)
{
	return record->t0 > (record->flags & PFW_RECORD_EPOCH_NS ? until->ns : until->ticks);
}

/* The lines of a ring's records, until it has drained a stretch.  *blocked: one is not
 * committed. */
static int dump_ring(struct pfw_writer *writer, struct pfw_ring *ring, uint64_t now_ns,
		     bool *blocked)
{
	struct cut from = cut_at(writer, writer->dump.from);
	struct cut until = cut_at(writer, writer->dump.until);
	const struct pfw_record *record;
	unsigned slots;

	while ((record = pfw_ring_peek(ring, now_ns, &slots)) && !is_later(record, &until)) {
		int error;

		if (!ended_before(record, &from)) {
			error = pfw_writer_drain_record(writer, ring, record, slots, now_ns);
			if (error)
				return error;
			continue;
		}
		note_forgotten(writer, 1, from.ticks);
		pfw_ring_advance(ring, slots);
		writer->drained++;
	}
	*blocked |= !record && pfw_ring_is_blocked(ring);
	return 0;
}

/* A stretch of each ring at a time, since a write frees one. */
static int dump_records(struct pfw_writer *writer, bool *blocked)
{
	int error = 0;

	do {
		uint64_t now_ns = pfw_clock_ns(CLOCK_REALTIME);
		bool retired = false;

		*blocked = false;
		writer->drained = 0;
		for (struct pfw_ring *ring = pfw_ring_first(); ring && !error; ring = ring->next) {
			error = dump_ring(writer, ring, now_ns, blocked);
			retired |= ring->retired != NULL;
		}
		if (!error && (writer->drained || retired))
			error = pfw_writer_flush_text(writer);
		writer->drained += retired;
		give_all_room(writer);
	} while (!error && writer->drained);
	return error;
}

static void add_dump_line(struct pfw_writer *writer, uint64_t now_ns)
{
	struct pfw_spool_header *header = writer->spool->header;
	uint64_t whole = atomic_load(&header->whole_ticks), from = writer->dump.from;
	struct pfw_dump_facts facts = {
		.why = writer->dump.why,
		.number = atomic_load(&header->dumps) + 1,
		.overwritten = atomic_exchange(&header->overwritten, 0),
		.refused = atomic_exchange(&writer->dumps_short, 0),
	};

	from = whole > from ? whole : from;
	facts.from_ns = from ? pfw_clock_map_epoch_ns(&writer->clock, from) : 0;
	if (facts.from_ns < header->start_ns)
		facts.from_ns = header->start_ns;
	pfw_writer_add_process_line(writer);
	set_text_end(writer, pfw_line_dump(&writer->json, text_end(writer), &facts, now_ns));
}

/* Losses are of one file, as its events are. */
static void forget_losses(struct pfw_writer *writer)
{
	for (unsigned i = 0; i < PFW_LOST_REASONS; i++) {
		struct pfw_loss *loss = &writer->spool->header->lost[i];

		atomic_fetch_sub(&loss->count, writer->reported.lost[i]);
		atomic_store(&loss->first_ns, 0);
		writer->reported.lost[i] = 0;
	}
}

/* Wake the threads that wait for the dump. */
static void dump_is_over(struct pfw_writer *writer)
{
	atomic_store(&writer->dump_state, PFW_DUMP_NONE);
	atomic_fetch_add(&writer->dumps_done, 1);
	pfw_os_futex_wake((const uint32_t *)&writer->dumps_done, INT32_MAX);
}

static int end_dump(struct pfw_writer *writer)
{
	struct pfw_spool_header *header = writer->spool->header;
	uint64_t now_ns = pfw_clock_ns(CLOCK_REALTIME);
	char next[PFW_PATH_MAX];
	int error = 0;

	if (!writer->dump.ended) {
		add_dump_line(writer, now_ns);
		if (!writer->at_limit && writer->sums)
			error = pfw_writer_add_sums(writer, now_ns);
		pfw_writer_add_end(writer, writer->at_limit ? "limit" : "dump", NULL);
		writer->dump.ended = true;
	}
	if (!error)
		error = pfw_writer_flush_text(writer);
	if (error)
		return error;
	forget_losses(writer);
	writer->at_limit = false;
	atomic_fetch_add(&header->dumps, 1);
	/* As long as this one was, or a digit longer: it is short enough. */
	if (!pfw_name_dump(next, writer->keep_name, atomic_load(&header->dumps) + 1))
		pfw_writer_begin_anew(writer, next);
	dump_is_over(writer);
	return 0;
}

/* All of it, unless a write fails or a record is not committed yet: then the next pass goes on. */
static int dump(struct pfw_writer *writer)
{
	uint64_t now = pfw_clock_ns(CLOCK_MONOTONIC);
	bool blocked = false;
	int error = dump_records(writer, &blocked);

	if (error)
		return error;
	if (!blocked)
		return end_dump(writer);
	if (!writer->dump.stuck)
		writer->dump.stuck = now;
	return now - writer->dump.stuck > STUCK_NS ? end_dump(writer) : 0;
}

/* ---- a pass ---- */

int pfw_writer_keep_pass(struct pfw_writer *writer)
{
	int error = 0;

	pfw_writer_note_clock(writer);
	keep_source(writer);
	give_all_room(writer);
	if (atomic_load(&writer->dump_state) == PFW_DUMP_ASKED)
		begin_dump(writer);
	if (only_keeps(writer)) {
		if (writer->keep_ticks)
			forget_all_before(writer, pfw_clock_ticks() - writer->keep_ticks);
		pfw_writer_commit(writer); /* for its clock, by which recovery finds the window */
	} else {
		error = dump(writer);
	}
	if (!error)
		reclaim_names(writer);
	writer->drained = 1; /* never idle */
	return error;
}

int pfw_writer_keep_end(struct pfw_writer *writer)
{
	int error = atomic_load(&writer->dump_state) ? pfw_writer_keep_pass(writer) : 0;

	if (!error && only_keeps(writer))
		forget_all_before(writer, UINT64_MAX);
	return error;
}
