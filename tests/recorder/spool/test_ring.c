/* test_ring.c - rings: room, padding, growth, nested signal handlers, torn records, a kill. */
#include "recorder/spool/ring.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND_NS 1000000000ull
#define STRETCHES 64

/* State of one test, made anew for each. */
static struct world {
	struct pfw_spool_header *header;
	struct pfw_ring *ring;
	struct pfw_ring_chunk *stretch[STRETCHES]; /* all stretches made */
	unsigned stretches;
	_Atomic uint32_t wakes;
	bool deaf; /* wake() returns false: nobody can drain */
} world;

static bool wake(void)
{
	atomic_fetch_add(&world.wakes, 1);
	return !world.deaf;
}

static struct pfw_ring_chunk *make_stretch(uint32_t capacity)
{
	size_t bytes = PFW_PAGE_BYTES + (size_t)capacity * PFW_SLOT_BYTES;
	void *memory = NULL;
	struct pfw_ring_chunk *stretch;

	assert_int_equal(posix_memalign(&memory, PFW_PAGE_BYTES, bytes), 0);
	stretch = memory;
	assert_true(world.stretches < STRETCHES);
	memset(stretch, 0, bytes);
	stretch->capacity = capacity;
	world.stretch[world.stretches++] = stretch;
	return stretch;
}

static struct pfw_ring *make_ring(uint32_t capacity, uint32_t index)
{
	struct pfw_ring *ring = calloc(1, sizeof(*ring));

	assert_non_null(ring);
	pfw_ring_publish(ring, make_stretch(capacity), index);
	return ring;
}

static void begin(uint32_t capacity, bool drop)
{
	memset(&world, 0, sizeof(world));
	pfw_ring_forget_all();
	world.header = calloc(1, PFW_SPOOL_HEADER_BYTES);
	assert_non_null(world.header);
	pfw_ring_host =
		(struct pfw_ring_host){ .wake = wake, .header = world.header, .drop = drop };
	world.ring = make_ring(capacity, 0);
	assert_ptr_equal(pfw_ring_acquire(), world.ring);
}

static void end(void)
{
	struct pfw_ring *ring = pfw_ring_first(), *next;

	pfw_ring_forget_all();
	for (; ring; ring = next) {
		next = ring->next;
		free(ring);
	}
	for (unsigned i = 0; i < world.stretches; i++)
		free(world.stretch[i]);
	free(world.header);
	pfw_ring_host = (struct pfw_ring_host){ 0 };
}

static uint64_t lost(enum pfw_lost_reason reason)
{
	return atomic_load(&world.header->lost[reason].count);
}

/* A record of that many slots; every byte after its head derives from `value`. */
static void fill(struct pfw_record *record, unsigned slots, uint64_t value)
{
	record->template = 1;
	record->slots = (uint8_t)slots;
	record->value[0] = value;
	record->value[1] = ~value;
	memset(record + 1, (int)(value & 0xff), (slots - 1) * (size_t)PFW_SLOT_BYTES);
}

static bool put(struct pfw_ring *ring, unsigned slots, uint64_t value)
{
	uint64_t position;
	struct pfw_record *record = pfw_ring_reserve(ring, slots, &position);

	if (!record)
		return false;
	fill(record, slots, value);
	pfw_ring_commit(record, position);
	return true;
}

static uint64_t check_whole(const struct pfw_record *record, unsigned slots)
{
	const unsigned char *tail = (const unsigned char *)(record + 1);

	assert_int_equal(record->slots, slots);
	assert_int_equal(record->value[1], ~record->value[0]);
	for (size_t i = 0; i < (slots - 1) * (size_t)PFW_SLOT_BYTES; i++)
		assert_int_equal(tail[i], record->value[0] & 0xff);
	return record->value[0];
}

/* Drain one record: its value, or -1 = none. */
static int64_t take(struct pfw_ring *ring, uint64_t now_ns)
{
	unsigned slots;
	const struct pfw_record *record = pfw_ring_peek(ring, now_ns, &slots);
	uint64_t value;

	if (!record)
		return -1;
	value = check_whole(record, slots);
	pfw_ring_advance(ring, slots);
	return (int64_t)value;
}

/* As the writer after each write; returns the stretch that is free. */
static struct pfw_ring_chunk *written(struct pfw_ring *ring)
{
	static unsigned parity;
	struct pfw_ring_chunk *over;

	pfw_ring_save(ring, ++parity & 1);
	over = pfw_ring_free_drained(ring);
	pfw_ring_space_made();
	return over;
}

/* ---- one thread ---- */

static void a_thread_gets_a_ring_with_its_name(void **state)
{
	char name[16] = "";

	(void)state;
	prctl(PR_SET_NAME, "ring-test");
	begin(16, false);
	prctl(PR_GET_NAME, name);
	assert_int_equal(world.ring->tid, gettid());
	assert_int_equal(world.stretch[0]->tid, gettid());
	assert_string_equal(world.stretch[0]->comm, name);
	assert_int_equal(atomic_load(&world.ring->state), PFW_RING_OWNED);
	end();
}

static void a_record_exists_once_committed(void **state)
{
	struct pfw_record *record;
	uint64_t position;

	(void)state;
	begin(16, false);
	assert_int_equal(take(world.ring, 1), -1);
	record = pfw_ring_reserve(world.ring, 1, &position);
	assert_non_null(record);
	fill(record, 1, 7);
	assert_int_equal(take(world.ring, 1), -1);
	pfw_ring_commit(record, position);
	assert_int_equal(take(world.ring, 1), 7);
	assert_int_equal(take(world.ring, 1), -1);
	end();
}

static void a_nested_record_waits_for_the_outer_one(void **state)
{
	struct pfw_record *outer;
	uint64_t position;

	(void)state;
	begin(16, false);
	outer = pfw_ring_reserve(world.ring, 2, &position);
	assert_true(put(world.ring, 3, 2));
	assert_int_equal(take(world.ring, 1), -1);
	fill(outer, 2, 1);
	pfw_ring_commit(outer, position);
	assert_int_equal(take(world.ring, 1), 1);
	assert_int_equal(take(world.ring, 1), 2);
	end();
}

/* A lap later, text in a record's tail may look like the mark of a record that is not filled yet.
 * The writer must not take that record, also if the stretch belongs to another ring by then. */
static void no_old_tail_is_taken_for_a_mark(void **state)
{
	struct pfw_record *record;
	uint64_t position;
	unsigned slots;

	(void)state;
	for (unsigned other = 0; other < 2; other++) {
		/* A reused stretch starts one slot further on. */
		uint32_t mark = 16 + other + 1 + 1;

		begin(16, true);
		record = pfw_ring_reserve(world.ring, 2 + other, &position);
		fill(record, 2 + other, 1);
		memcpy(record + 1 + other, &mark, sizeof(mark));
		pfw_ring_commit(record, position);
		assert_non_null(pfw_ring_peek(world.ring, 1, &slots));
		pfw_ring_advance(world.ring, slots);
		for (uint64_t i = 2 + other; i < 16; i++)
			assert_true(put(world.ring, 1, i));
		if (other) {
			pfw_ring_offer(world.ring, make_stretch(16));
			assert_true(put(world.ring, 1, 16));
		}
		for (uint64_t i = 2 + other; i < 16 + other; i++)
			assert_int_equal(take(world.ring, 1), i);
		if (other) {
			assert_ptr_equal(written(world.ring), world.stretch[0]);
			free(world.ring);
			world.ring = calloc(1, sizeof(*world.ring));
			pfw_ring_forget_all();
			pfw_ring_publish(world.ring, world.stretch[0], 1);
		} else {
			assert_null(written(world.ring));
		}
		assert_true(put(world.ring, 1, 17));
		record = pfw_ring_reserve(world.ring, 1, &position);
		assert_int_equal((uint32_t)(position + 1), mark);
		assert_int_equal(take(world.ring, 1), 17);
		assert_int_equal(take(world.ring, 1), -1);
		fill(record, 1, 18);
		pfw_ring_commit(record, position);
		assert_int_equal(take(world.ring, 1), 18);
		end();
	}
}

/* Every length, many laps: records are whole, in order, and never wrap. */
static void records_do_not_wrap(void **state)
{
	(void)state;
	for (unsigned slots = 1; slots <= 8; slots++) {
		begin(16, true);
		for (uint64_t i = 0; i < 200; i++) {
			uint64_t position;
			struct pfw_record *record = pfw_ring_reserve(world.ring, slots, &position);

			assert_non_null(record);
			assert_true(position % 16 + slots <= 16);
			fill(record, slots, i);
			pfw_ring_commit(record, position);
			assert_int_equal(take(world.ring, 1), i);
			written(world.ring);
		}
		assert_int_equal(lost(PFW_LOST_FULL), 0);
		end();
	}
}

static void the_longest_record_fits_a_first_stretch(void **state)
{
	(void)state;
	begin(512, true);
	for (uint64_t i = 0; i < 20; i++) {
		assert_true(put(world.ring, PFW_RECORD_SLOTS_MAX, i));
		assert_int_equal(take(world.ring, 1), i);
		written(world.ring);
	}
	end();
}

static void drop_counts_what_does_not_fit(void **state)
{
	(void)state;
	begin(16, true);
	for (uint64_t i = 0; i < 16; i++)
		assert_true(put(world.ring, 1, i));
	for (uint64_t i = 0; i < 3; i++)
		assert_false(put(world.ring, 1, 99));
	assert_int_equal(lost(PFW_LOST_FULL), 3);
	assert_true(world.header->lost[PFW_LOST_FULL].first_ns > 0);
	assert_true(world.header->lost[PFW_LOST_FULL].last_ns >=
		    world.header->lost[PFW_LOST_FULL].first_ns);
	assert_int_equal(take(world.ring, 1), 0);
	assert_false(put(world.ring, 1, 99)); /* drained, but not in the file yet */
	written(world.ring);
	assert_true(put(world.ring, 1, 16));
	for (uint64_t i = 1; i <= 16; i++)
		assert_int_equal(take(world.ring, 1), i);
	end();
}

static void a_deaf_writer_is_not_waited_for(void **state)
{
	(void)state;
	begin(16, false);
	world.deaf = true;
	for (uint64_t i = 0; i < 16; i++)
		assert_true(put(world.ring, 1, i));
	assert_false(put(world.ring, 1, 16));
	assert_int_equal(lost(PFW_LOST_FULL), 1);
	end();
}

static void each_half_wakes_the_writer_once(void **state)
{
	(void)state;
	begin(16, true);
	assert_int_equal(world.wakes, 0);
	for (uint64_t i = 0; i < 16; i++) {
		assert_true(put(world.ring, 1, i));
		assert_int_equal(world.wakes, (i + 1) / 8);
		assert_int_equal(pfw_ring_half_full(world.ring), i + 1 >= 8);
	}
	end();
}

static uint64_t found;
static bool found_half;

static bool wake_and_look(void)
{
	found = atomic_load(&world.ring->stretch->head);
	found_half = pfw_ring_half_full(world.ring);
	return true;
}

/* Waking takes long, and the thread may die in it: a signal is pending. */
static void who_is_woken_finds_no_record_half_made(void **state)
{
	uint64_t begun;

	(void)state;
	begin(16, true);
	pfw_ring_host.wake = wake_and_look;
	begun = atomic_load(&world.ring->stretch->head);
	for (uint64_t i = 0; i < 8; i++)
		assert_true(put(world.ring, 1, i));
	assert_int_equal(found, begun + 7);
	assert_true(found_half);
	end();
}

/* ---- growth ---- */

static void a_full_ring_goes_on_in_the_greater_stretch(void **state)
{
	struct pfw_ring_chunk *greater;

	(void)state;
	begin(16, true);
	for (uint64_t i = 0; i < 10; i++)
		assert_true(put(world.ring, 1, i));
	greater = make_stretch(32);
	pfw_ring_offer(world.ring, greater);
	for (uint64_t i = 10; i < 16; i++)
		assert_true(put(world.ring, 1, i));
	assert_ptr_equal(world.ring->stretch, world.stretch[0]); /* filled first */
	for (uint64_t i = 16; i < 48; i++)
		assert_true(put(world.ring, 1, i));
	assert_ptr_equal(world.ring->stretch, greater);
	assert_null(world.ring->spare);
	assert_true(world.stretch[0]->head & PFW_RING_CLOSED);
	assert_string_equal(greater->comm, world.stretch[0]->comm);
	assert_int_equal(greater->tid, gettid());
	assert_int_equal(greater->order, 1);
	assert_false(put(world.ring, 1, 48));
	for (uint64_t i = 0; i < 48; i++)
		assert_int_equal(take(world.ring, 1), i);
	assert_int_equal(take(world.ring, 1), -1);
	assert_int_equal(greater->in_use, 1);
	assert_ptr_equal(written(world.ring), world.stretch[0]);
	assert_int_equal(world.stretch[0]->in_use, 0);
	assert_null(written(world.ring));
	end();
}

/* A ring remembers one drained stretch only: it must be freed before the next one is drained. */
static void one_stretch_is_given_back_at_a_time(void **state)
{
	(void)state;
	begin(16, true);
	for (uint64_t i = 0; i < 16; i++)
		assert_true(put(world.ring, 1, i));
	pfw_ring_offer(world.ring, make_stretch(32));
	for (uint64_t i = 16; i < 48; i++)
		assert_true(put(world.ring, 1, i));
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(take(world.ring, 1), i);
	pfw_ring_offer(world.ring, make_stretch(64));
	for (uint64_t i = 48; i < 100; i++)
		assert_true(put(world.ring, 1, i));
	for (uint64_t i = 20; i < 48; i++)
		assert_int_equal(take(world.ring, 1), i);
	assert_int_equal(take(world.ring, 1), -1);
	assert_ptr_equal(written(world.ring), world.stretch[0]);
	for (uint64_t i = 48; i < 100; i++)
		assert_int_equal(take(world.ring, 1), i);
	assert_ptr_equal(written(world.ring), world.stretch[1]);
	end();
}

/* A reused stretch starts at a new position: a frame interrupted during its former use must not
 * find the head that it expects. */
static void a_stretch_used_again_has_new_positions(void **state)
{
	struct pfw_ring_chunk *old;
	struct pfw_ring other = { .next = NULL };
	uint64_t head;

	(void)state;
	begin(16, true);
	for (uint64_t i = 0; i < 15; i++)
		assert_true(put(world.ring, 1, i));
	pfw_ring_offer(world.ring, make_stretch(32));
	assert_true(put(world.ring, 4, 15));
	old = world.stretch[0];
	head = old->head & ~PFW_RING_CLOSED;
	for (uint64_t i = 0; i < 16; i++)
		assert_int_equal(take(world.ring, 1), i);
	assert_ptr_equal(written(world.ring), old);
	pfw_ring_prepare(&other, old);
	assert_true(old->head > head);
	assert_int_equal(old->head, old->tail);
	assert_int_equal(old->head, old->saved_tail[0]);
	assert_int_equal(old->head, old->saved_tail[1]);
	assert_int_equal(old->in_use, 1);
	end();
}

/* ---- torn records ---- */

static void a_torn_record_is_passed_over_after_a_second(void **state)
{
	uint64_t position, start = 100 * SECOND_NS;

	(void)state;
	begin(64, false);
	assert_true(put(world.ring, 1, 1));
	assert_non_null(pfw_ring_reserve(world.ring, 3, &position));
	assert_true(put(world.ring, 2, 2));
	assert_int_equal(take(world.ring, start), 1);
	assert_int_equal(take(world.ring, start), -1);
	assert_int_equal(take(world.ring, start + SECOND_NS / 2), -1);
	assert_int_equal(lost(PFW_LOST_TORN), 0);
	assert_int_equal(take(world.ring, start + SECOND_NS + 1), 2);
	assert_int_equal(lost(PFW_LOST_TORN), 1); /* one record, whatever its slots */
	assert_int_equal(take(world.ring, start + SECOND_NS + 1), -1);
	end();
}

static void a_late_commit_is_not_torn(void **state)
{
	struct pfw_record *record;
	uint64_t position;

	(void)state;
	begin(64, false);
	record = pfw_ring_reserve(world.ring, 2, &position);
	assert_int_equal(take(world.ring, SECOND_NS), -1);
	fill(record, 2, 5);
	pfw_ring_commit(record, position);
	assert_int_equal(take(world.ring, 9 * SECOND_NS), 5);
	assert_int_equal(lost(PFW_LOST_TORN), 0);
	end();
}

/* A record reserved after the torn one was seen has a second of its own. */
static void the_record_behind_a_torn_one_is_waited_for(void **state)
{
	struct pfw_record *record;
	uint64_t position, torn, half = SECOND_NS / 2, now = 10 * half;

	(void)state;
	begin(64, false);
	assert_non_null(pfw_ring_reserve(world.ring, 2, &torn));
	assert_int_equal(take(world.ring, now), -1);
	record = pfw_ring_reserve(world.ring, 1, &position);
	assert_true(put(world.ring, 1, 9));
	assert_int_equal(take(world.ring, now += half), -1);
	assert_int_equal(take(world.ring, now += half), -1);
	assert_int_equal(lost(PFW_LOST_TORN), 0);
	assert_int_equal(take(world.ring, now += half), -1);
	assert_int_equal(lost(PFW_LOST_TORN), 1);
	fill(record, 1, 3);
	pfw_ring_commit(record, position);
	assert_int_equal(take(world.ring, now), 3);
	assert_int_equal(take(world.ring, now), 9);
	assert_int_equal(lost(PFW_LOST_TORN), 1);
	end();
}

/* The last record holds up nothing: it is never skipped. */
static void the_last_record_is_never_torn(void **state)
{
	struct pfw_record *record;
	uint64_t position;

	(void)state;
	begin(64, false);
	assert_true(put(world.ring, 1, 1));
	record = pfw_ring_reserve(world.ring, 3, &position);
	assert_int_equal(take(world.ring, SECOND_NS), 1);
	for (unsigned i = 2; i < 20; i++)
		assert_int_equal(take(world.ring, i * SECOND_NS), -1);
	assert_int_equal(lost(PFW_LOST_TORN), 0);
	fill(record, 3, 2);
	pfw_ring_commit(record, position);
	assert_int_equal(take(world.ring, 20 * SECOND_NS), 2);
	end();
}

/* Jumps out of records fill the ring: the thread then waits for those records itself. */
static void a_ring_full_of_torn_records_is_emptied(void **state)
{
	uint64_t position, start = 100 * SECOND_NS;

	(void)state;
	begin(64, true);
	for (unsigned i = 0; i < 4; i++)
		assert_non_null(pfw_ring_reserve(world.ring, 16, &position));
	assert_int_equal(take(world.ring, start), -1);
	assert_int_equal(take(world.ring, start + 2 * SECOND_NS), -1);
	assert_false(put(world.ring, 1, 1));
	for (unsigned i = 3; i < 6; i++)
		assert_int_equal(take(world.ring, start + i * SECOND_NS), -1);
	assert_int_equal(lost(PFW_LOST_TORN), 1);
	pfw_ring_free_drained(world.ring);
	assert_true(put(world.ring, 1, 2));
	assert_int_equal(take(world.ring, start + 6 * SECOND_NS), 2);
	end();
}

/* The process was stopped while a handler interrupted a record: the clock is far ahead, but the
 * thread has had no time to finish the record. */
static void a_stopped_process_tears_nothing(void **state)
{
	struct pfw_record *record;
	uint64_t position;

	(void)state;
	begin(64, false);
	record = pfw_ring_reserve(world.ring, 1, &position);
	assert_true(put(world.ring, 1, 2));
	assert_int_equal(take(world.ring, SECOND_NS), -1);
	assert_int_equal(take(world.ring, 1000 * SECOND_NS), -1);
	fill(record, 1, 1);
	pfw_ring_commit(record, position);
	assert_int_equal(take(world.ring, 1000 * SECOND_NS), 1);
	assert_int_equal(take(world.ring, 1000 * SECOND_NS), 2);
	assert_int_equal(lost(PFW_LOST_TORN), 0);
	end();
}

static void a_clock_set_back_tears_nothing(void **state)
{
	struct pfw_record *record;
	uint64_t position;

	(void)state;
	begin(64, false);
	record = pfw_ring_reserve(world.ring, 1, &position);
	assert_int_equal(take(world.ring, 100 * SECOND_NS), -1);
	assert_int_equal(take(world.ring, 50 * SECOND_NS), -1);
	fill(record, 1, 4);
	pfw_ring_commit(record, position);
	assert_int_equal(take(world.ring, 50 * SECOND_NS), 4);
	assert_int_equal(lost(PFW_LOST_TORN), 0);
	end();
}

/* ---- owners of rings ---- */

static void a_dead_threads_ring_is_used_again_once_empty(void **state)
{
	(void)state;
	begin(16, false);
	world.ring->spans = 41;
	assert_true(put(world.ring, 1, 1));
	pfw_ring_release(world.ring);
	written(world.ring);
	assert_int_equal(atomic_load(&world.ring->state), PFW_RING_DEAD);
	assert_int_equal(take(world.ring, 1), 1);
	assert_int_equal(atomic_load(&world.ring->state), PFW_RING_DEAD); /* not in the file yet */
	written(world.ring);
	assert_int_equal(atomic_load(&world.ring->state), PFW_RING_FREE);
	assert_ptr_equal(pfw_ring_acquire(), world.ring);
	assert_int_equal(world.ring->spans, 41);
	assert_true(put(world.ring, 1, 2));
	assert_int_equal(take(world.ring, 1), 2);
	end();
}

static void without_a_writer_there_is_no_ring(void **state)
{
	(void)state;
	begin(16, false);
	world.deaf = true;
	assert_null(pfw_ring_acquire());
	assert_int_equal(pfw_ring_wanted(), 0);
	end();
}

static bool wake_makes_a_ring(void)
{
	if (pfw_ring_wanted())
		make_ring(16, 1);
	return true;
}

static void the_writer_makes_a_ring_that_is_wanted(void **state)
{
	struct pfw_ring *second;

	(void)state;
	begin(16, false);
	pfw_ring_host.wake = wake_makes_a_ring;
	second = pfw_ring_acquire();
	assert_non_null(second);
	assert_ptr_not_equal(second, world.ring);
	assert_int_equal(pfw_ring_wanted(), 0);
	assert_ptr_equal(pfw_ring_first(), second);
	assert_ptr_equal(second->next, world.ring);
	end();
}

static void losses_are_nowhere_without_a_header(void **state)
{
	(void)state;
	begin(16, true);
	pfw_ring_host.header = NULL;
	pfw_ring_count_lost(PFW_LOST_FULL, 1);
	pfw_ring_host.header = world.header;
	pfw_ring_count_lost(PFW_LOST_FULL, 0);
	assert_int_equal(lost(PFW_LOST_FULL), 0);
	assert_int_equal(world.header->lost[PFW_LOST_FULL].first_ns, 0);
	end();
}

/* ---- a writer at the same time ---- */

#define SEQUENCES 2 /* records of the thread, and of its handler */

/* Drains and grows the ring, as the writer does, until it is stopped. */
struct consumer {
	_Atomic bool stop;
	uint32_t largest;
	uint64_t next[SEQUENCES];
	uint64_t records;
	bool in_order;
};

static void consume(struct consumer *consumer)
{
	struct pfw_ring *ring = world.ring;
	int64_t value;

	while ((value = take(ring, 1)) >= 0) {
		uint64_t sequence = (uint64_t)value >> 32;

		if (sequence >= SEQUENCES || (uint32_t)value != consumer->next[sequence]++)
			consumer->in_order = false;
		consumer->records++;
	}
	if (pfw_ring_half_full(ring) && !ring->upcoming && !ring->retired &&
	    ring->drain == atomic_load(&ring->stretch) && ring->drain->capacity < consumer->largest)
		pfw_ring_offer(ring, make_stretch(ring->drain->capacity * 2));
	written(ring);
}

static void *consumer_main(void *arg)
{
	struct consumer *consumer = arg;

	while (!atomic_load(&consumer->stop))
		consume(consumer);
	consume(consumer);
	consume(consumer); /* the stretch after a retired one */
	return NULL;
}

static void a_thread_waits_for_room(void **state)
{
	struct consumer consumer = { .largest = 16, .in_order = true };
	pthread_t thread;

	(void)state;
	begin(16, false);
	for (uint64_t i = 0; i < 16; i++)
		assert_true(put(world.ring, 1, i));
	assert_int_equal(pthread_create(&thread, NULL, consumer_main, &consumer), 0);
	for (uint64_t i = 16; i < 20000; i++)
		assert_true(put(world.ring, 1 + (unsigned)i % 5, i));
	atomic_store(&consumer.stop, true);
	pthread_join(thread, NULL);
	assert_true(consumer.in_order);
	assert_int_equal(consumer.records, 20000);
	assert_int_equal(lost(PFW_LOST_FULL), 0);
	end();
}

static void a_growing_ring_loses_nothing(void **state)
{
	struct consumer consumer = { .largest = 1024, .in_order = true };
	pthread_t thread;

	(void)state;
	begin(16, false);
	assert_int_equal(pthread_create(&thread, NULL, consumer_main, &consumer), 0);
	for (uint64_t i = 0; i < 50000; i++)
		assert_true(put(world.ring, 1 + (unsigned)i % 7, i));
	atomic_store(&consumer.stop, true);
	pthread_join(thread, NULL);
	assert_true(consumer.in_order);
	assert_int_equal(consumer.records, 50000);
	end();
}

/* Many signals, whose handler records, too: each record is there once, in order. */
static volatile sig_atomic_t storms;

static void on_alarm(int signal)
{
	(void)signal;
	if (put(world.ring, 1 + (unsigned)storms % 3, 1ull << 32 | (uint32_t)storms))
		storms++;
}

static void a_storm_of_handlers_loses_nothing(void **state)
{
	struct consumer consumer = { .largest = 256, .in_order = true };
	struct itimerval often = { { 0, 30 }, { 0, 30 } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART }, old;
	sigset_t alarm, before;
	pthread_t thread;
	uint64_t done = 0;

	(void)state;
	begin(16, false);
	storms = 0;
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm, &before); /* only the owner runs the handler */
	assert_int_equal(pthread_create(&thread, NULL, consumer_main, &consumer), 0);
	sigaction(SIGALRM, &action, &old);
	pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	while (done < 100000 || storms < 500)
		assert_true(put(world.ring, 1 + (unsigned)done % 4, (uint32_t)done)), done++;
	setitimer(ITIMER_REAL, &never, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	sigaction(SIGALRM, &old, NULL);
	atomic_store(&consumer.stop, true);
	pthread_join(thread, NULL);
	assert_true(consumer.in_order);
	assert_int_equal(consumer.next[0], done);
	assert_int_equal(consumer.next[1], storms);
	assert_int_equal(lost(PFW_LOST_FULL), 0);
	assert_int_equal(lost(PFW_LOST_TORN), 0);
	end();
}

#define HANDOVERS 300

/* Threads start, record and end; two at a time share one ring. */
static void *visitor_main(void *arg)
{
	uint64_t *records = arg;

	for (unsigned i = 0; i < HANDOVERS; i++) {
		struct pfw_ring *ring = pfw_ring_acquire();

		if (!ring)
			continue;
		ring->spans++;
		for (unsigned n = 0; n < 3; n++)
			*records += put(ring, 1 + n, ring->spans);
		pfw_ring_release(ring);
	}
	return NULL;
}

static void rings_change_hands_among_threads(void **state)
{
	uint64_t records[4] = { 0 }, taken = 0, all = 0, last[2] = { 0 };
	struct pfw_ring *ring[2];
	pthread_t thread[4];
	_Atomic bool done = false;

	(void)state;
	begin(16, false);
	pfw_ring_release(world.ring);
	written(world.ring);
	ring[0] = world.ring;
	ring[1] = make_ring(16, 1);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, visitor_main, &records[i]), 0);
	while (!done) {
		done = taken == 4u * HANDOVERS * 3;
		for (unsigned i = 0; i < 2; i++) {
			int64_t value;

			while ((value = take(ring[i], 1)) >= 0) {
				assert_true((uint64_t)value >= last[i]);
				last[i] = (uint64_t)value;
				taken++;
			}
			written(ring[i]);
		}
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(thread[i], NULL);
		all += records[i];
	}
	assert_int_equal(all, taken);
	assert_int_equal(ring[0]->spans + ring[1]->spans, 4 * HANDOVERS);
	end();
}

/* ---- against a model ---- */

#define OPEN_MAX_NESTED 6

/* One thread plays producer, handler and writer at random; the model holds the expected state. */
static struct model {
	uint64_t made;	    /* values assigned */
	uint64_t committed; /* values committed */
	uint64_t file;	    /* values in the file: always the first ones */
	uint64_t taken;
	unsigned parity;
	unsigned depth; /* open reservations: the innermost is committed first */
	struct pfw_record *open[OPEN_MAX_NESTED];
	uint64_t position[OPEN_MAX_NESTED];
	uint64_t value[OPEN_MAX_NESTED];
	unsigned slots[OPEN_MAX_NESTED];
	bool is_committed[1 << 16];
} model;

static uint64_t rnd(void)
{
	static uint64_t seed = 88172645463325252u;

	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed * 0x2545f4914f6cdd1du >> 16;
}

static void model_reserve(void)
{
	unsigned slots = 1 + (unsigned)(rnd() % 6), at = model.depth;

	if (at == OPEN_MAX_NESTED)
		return;
	model.open[at] = pfw_ring_reserve(world.ring, slots, &model.position[at]);
	if (!model.open[at])
		return;
	model.value[at] = model.made++;
	model.slots[at] = slots;
	model.depth++;
}

static void model_commit(void)
{
	unsigned at;

	if (!model.depth)
		return;
	at = --model.depth;
	fill(model.open[at], model.slots[at], model.value[at]);
	pfw_ring_commit(model.open[at], model.position[at]);
	model.is_committed[model.value[at]] = true;
	model.committed++;
}

/* What recovery would find in a stretch if the process were killed now. */
static uint64_t recoverable(struct pfw_ring_chunk *stretch, uint64_t expected)
{
	uint64_t head = stretch->head & ~PFW_RING_CLOSED;

	for (uint64_t at = stretch->saved_tail[model.parity]; at < head;) {
		struct pfw_record *record = pfw_ring_slot(stretch, at);

		if (record->committed != (uint32_t)(at + 1)) {
			at++; /* uncommitted */
			continue;
		}
		if (record->template != PFW_TEMPLATE_PADDING) {
			while (expected < model.made && !model.is_committed[expected])
				expected++;
			assert_int_equal(check_whole(record, record->slots), expected);
			expected++;
		}
		at += record->slots;
	}
	return expected;
}

/* Each committed record is in the file or will be recovered, in order, never both. */
static void model_check(void)
{
	uint64_t expected = model.file;

	for (uint64_t order = 0; order < world.ring->orders; order++)
		for (unsigned i = 0; i < world.stretches; i++)
			if (world.stretch[i]->in_use && world.stretch[i]->order == order)
				expected = recoverable(world.stretch[i], expected);
	while (expected < model.made && !model.is_committed[expected])
		expected++;
	assert_int_equal(expected, model.made);
}

static void model_write(void)
{
	pfw_ring_save(world.ring, model.parity ^ 1);
	model_check(); /* killed before the header slot is written: the older one counts */
	model.parity ^= 1;
	model.file = model.taken;
	model_check();
	pfw_ring_free_drained(world.ring);
	pfw_ring_space_made();
}

static void model_drain(void)
{
	struct pfw_ring *ring = world.ring;
	int64_t value;

	if (!ring->upcoming && !ring->retired && ring->drain == atomic_load(&ring->stretch) &&
	    ring->drain->capacity < 1024 && rnd() % 4 == 0)
		pfw_ring_offer(ring, make_stretch(ring->drain->capacity * 2));
	for (uint64_t n = rnd() % 12; n && (value = take(ring, 1)) >= 0; n--)
		assert_int_equal(value, model.taken++);
}

static void any_order_of_events_is_exactly_once(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 40; round++) {
		begin(64, true);
		memset(&model, 0, sizeof(model));
		for (unsigned step = 0; step < 3000 && model.made < 60000; step++) {
			switch (rnd() % 8) {
			case 0:
			case 1:
			case 2:
				model_reserve();
				break;
			case 3:
			case 4:
			case 5:
				model_commit();
				break;
			case 6:
				model_drain();
				break;
			default:
				model_write();
			}
			if (step % 16 == 0)
				model_check();
		}
		while (model.depth)
			model_commit();
		for (unsigned i = 0; i < 2 * STRETCHES && model.taken < model.made; i++) {
			int64_t value;

			while ((value = take(world.ring, 1)) >= 0)
				assert_int_equal(value, model.taken++);
			model_write();
		}
		assert_int_equal(model.taken, model.made);
		assert_int_equal(model.committed, model.made);
		end();
	}
}

/* ---- a handler at every instruction ---- */

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

/* Single-step a reservation; after instruction n the handler records. */
static struct step {
	volatile long left;
	volatile bool nested, offered;
	unsigned slots;
	struct pfw_ring_chunk *spare; /* offered during the handler */
} step;

static void stop_stepping(ucontext_t *context)
{
	context->uc_mcontext.gregs[REG_EFL] &= ~0x100ll;
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	if (--step.left > 0)
		return;
	stop_stepping(context);
	step.nested = put(world.ring, step.slots, 2);
	step.offered = true;
}

static struct pfw_record *stepped_reserve(unsigned slots, uint64_t *position)
{
	struct pfw_record *record;

	__asm__ volatile("pushfq; orl $0x100, (%%rsp); popfq" ::: "memory", "cc");
	record = pfw_ring_reserve(world.ring, slots, position);
	__asm__ volatile("pushfq; andl $~0x100, (%%rsp); popfq" ::: "memory", "cc");
	return record;
}

/* Interrupt one reservation at instruction n.  False: it has fewer. */
static bool interrupted_at(long n, unsigned filled, unsigned outer, unsigned inner, bool spare)
{
	uint64_t position, lost_before, got = 0, expected;
	struct pfw_record *record;
	int64_t value;

	begin(16, true);
	for (unsigned i = 0; i < filled; i++)
		assert_true(put(world.ring, 1, 0));
	if (spare)
		pfw_ring_offer(world.ring, make_stretch(32));
	lost_before = lost(PFW_LOST_FULL);
	step = (struct step){ .left = n, .slots = inner };
	record = stepped_reserve(outer, &position);
	if (record) {
		fill(record, outer, 1);
		pfw_ring_commit(record, position);
	}
	expected = filled + (record != NULL) + (step.offered && step.nested);
	assert_int_equal(lost(PFW_LOST_FULL) - lost_before,
			 (record == NULL) + (step.offered && !step.nested));
	if (spare)
		assert_int_equal(lost(PFW_LOST_FULL), 0);
	for (int i = 0; i < 3; i++) {
		while ((value = take(world.ring, 1)) >= 0)
			got++;
		written(world.ring);
	}
	assert_int_equal(got, expected);
	assert_true(put(world.ring, 1, 9)); /* the ring still works */
	assert_int_equal(take(world.ring, 1), 9);
	end();
	return step.offered;
}

static void a_handler_may_come_at_every_instruction(void **state)
{
	static const struct {
		unsigned filled, outer, inner;
		bool spare;
	} worlds[] = {
		{ 0, 1, 1, false },  { 0, 3, 2, false }, { 8, 1, 1, false },  { 15, 4, 1, false },
		{ 14, 1, 2, false }, { 15, 1, 1, true }, { 16, 1, 1, true },  { 16, 3, 5, true },
		{ 15, 1, 4, true },  { 15, 4, 1, true }, { 16, 2, 16, true },
	};
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO }, old;

	(void)state;
	sigaction(SIGTRAP, &action, &old);
	for (unsigned i = 0; i < sizeof(worlds) / sizeof(worlds[0]); i++) {
		long n = 1;

		while (interrupted_at(n, worlds[i].filled, worlds[i].outer, worlds[i].inner,
				      worlds[i].spare))
			n++;
		assert_true(n > 20);
	}
	sigaction(SIGTRAP, &old, NULL);
}

#else

/* Under a sanitizer its own code would be stepped, too. */
static void a_handler_may_come_at_every_instruction(void **state)
{
	(void)state;
	skip();
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_gets_a_ring_with_its_name),
		cmocka_unit_test(a_record_exists_once_committed),
		cmocka_unit_test(a_nested_record_waits_for_the_outer_one),
		cmocka_unit_test(no_old_tail_is_taken_for_a_mark),
		cmocka_unit_test(records_do_not_wrap),
		cmocka_unit_test(the_longest_record_fits_a_first_stretch),
		cmocka_unit_test(drop_counts_what_does_not_fit),
		cmocka_unit_test(a_deaf_writer_is_not_waited_for),
		cmocka_unit_test(each_half_wakes_the_writer_once),
		cmocka_unit_test(who_is_woken_finds_no_record_half_made),
		cmocka_unit_test(a_full_ring_goes_on_in_the_greater_stretch),
		cmocka_unit_test(one_stretch_is_given_back_at_a_time),
		cmocka_unit_test(a_stretch_used_again_has_new_positions),
		cmocka_unit_test(a_torn_record_is_passed_over_after_a_second),
		cmocka_unit_test(a_late_commit_is_not_torn),
		cmocka_unit_test(the_record_behind_a_torn_one_is_waited_for),
		cmocka_unit_test(the_last_record_is_never_torn),
		cmocka_unit_test(a_ring_full_of_torn_records_is_emptied),
		cmocka_unit_test(a_stopped_process_tears_nothing),
		cmocka_unit_test(a_clock_set_back_tears_nothing),
		cmocka_unit_test(a_dead_threads_ring_is_used_again_once_empty),
		cmocka_unit_test(without_a_writer_there_is_no_ring),
		cmocka_unit_test(the_writer_makes_a_ring_that_is_wanted),
		cmocka_unit_test(losses_are_nowhere_without_a_header),
		cmocka_unit_test(a_thread_waits_for_room),
		cmocka_unit_test(a_growing_ring_loses_nothing),
		cmocka_unit_test(a_storm_of_handlers_loses_nothing),
		cmocka_unit_test(rings_change_hands_among_threads),
		cmocka_unit_test(any_order_of_events_is_exactly_once),
		cmocka_unit_test(a_handler_may_come_at_every_instruction),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
