/* test_ring_threads.c - producers and a drain at the same time, for ThreadSanitizer.
 *
 * The drain does what the writer does while producers run: peek, save, free, make room, and lay
 * longer stretches ready.
 */
#include "recorder/spool/ring.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PRODUCERS 2
#define RECORDS 100000u
#define FIRST_CAPACITY 64u
#define LAST_CAPACITY 4096u
#define SLOTS_MAX 3u

struct producer {
	pthread_t thread;
	uint32_t number;
	_Atomic bool done;
	bool failed;
};

static struct pfw_spool_header header;
static struct pfw_ring rings[PRODUCERS];
static struct producer producers[PRODUCERS];
static uint64_t next_value[PRODUCERS]; /* expected in each producer's next record */

static bool wake(void)
{
	return true; /* the drain never sleeps */
}

static struct pfw_ring_chunk *make_stretch(uint32_t capacity)
{
	size_t bytes = PFW_PAGE_BYTES + (size_t)capacity * PFW_SLOT_BYTES;
	struct pfw_ring_chunk *stretch = aligned_alloc(PFW_PAGE_BYTES, bytes);

	assert_non_null(stretch);
	memset(stretch, 0, bytes);
	stretch->chunk.kind = PFW_CHUNK_RING;
	stretch->chunk.bytes = bytes;
	stretch->capacity = capacity;
	return stretch;
}

static unsigned slots_of(uint64_t value)
{
	return 1 + value % SLOTS_MAX;
}

/* A record's payload: producer, number, and in the tail slots a byte derived from them. */
static void *produce(void *argument)
{
	struct producer *producer = argument;
	struct pfw_ring *ring = pfw_ring_acquire();

	for (uint64_t value = 0; ring && value < RECORDS; value++) {
		unsigned slots = slots_of(value);
		struct pfw_record *record;
		uint64_t position;

		record = pfw_ring_reserve(ring, slots, &position);
		if (!record) {
			producer->failed = true;
			break;
		}
		record->template = 1;
		record->slots = (uint8_t)slots;
		record->value[0] = producer->number;
		record->value[1] = value;
		memset(record + 1, (int)(value & 0xff), (slots - 1) * PFW_SLOT_BYTES);
		pfw_ring_commit(record, position);
	}
	if (ring)
		pfw_ring_release(ring);
	else
		producer->failed = true;
	atomic_store(&producer->done, true);
	return NULL;
}

static void check_record(const struct pfw_record *record, unsigned slots)
{
	const unsigned char *tail = (const unsigned char *)(record + 1);
	uint64_t producer = record->value[0], value = record->value[1];

	assert_true(producer < PRODUCERS);
	assert_int_equal(value, next_value[producer]);
	assert_int_equal(slots, slots_of(value));
	for (size_t i = 0; i < (slots - 1) * PFW_SLOT_BYTES; i++)
		assert_int_equal(tail[i], value & 0xff);
	next_value[producer]++;
}

/* Drain one ring once. */
static void drain(struct pfw_ring *ring, unsigned parity)
{
	const struct pfw_record *record;
	struct pfw_ring_chunk *retired;
	unsigned slots;

	while ((record = pfw_ring_peek(ring, 0, &slots))) {
		check_record(record, slots);
		pfw_ring_advance(ring, slots);
	}
	pfw_ring_save(ring, parity);
	retired = pfw_ring_free_drained(ring);
	free(retired);
	if (!ring->upcoming && ring->drain->capacity < LAST_CAPACITY)
		pfw_ring_offer(ring, make_stretch(ring->drain->capacity * 2));
	pfw_ring_space_made();
}

static bool all_done(void)
{
	for (unsigned i = 0; i < PRODUCERS; i++)
		if (!atomic_load(&producers[i].done))
			return false;
	return true;
}

static int set_up(void **state)
{
	(void)state;
	memset(&header, 0, sizeof(header));
	memset(rings, 0, sizeof(rings));
	memset(producers, 0, sizeof(producers));
	memset(next_value, 0, sizeof(next_value));
	pfw_ring_forget_all();
	pfw_ring_host = (struct pfw_ring_host){ .wake = wake, .header = &header };
	for (unsigned i = 0; i < PRODUCERS; i++)
		pfw_ring_publish(&rings[i], make_stretch(FIRST_CAPACITY), i);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (unsigned i = 0; i < PRODUCERS; i++) {
		free(rings[i].drain);
		free(rings[i].upcoming);
	}
	return 0;
}

static void run_producers(void)
{
	bool last;

	for (unsigned i = 0; i < PRODUCERS; i++) {
		producers[i].number = i;
		assert_int_equal(pthread_create(&producers[i].thread, NULL, produce, &producers[i]),
				 0);
	}
	do {
		last = all_done(); /* read first: the round below then finds the rest */
		for (unsigned i = 0; i < PRODUCERS; i++)
			drain(&rings[i], 0);
		sched_yield();
	} while (!last);
	for (unsigned i = 0; i < PRODUCERS; i++)
		pthread_join(producers[i].thread, NULL);
}

static void test_every_record_arrives_once_in_order(void **state)
{
	(void)state;
	run_producers();
	for (unsigned i = 0; i < PRODUCERS; i++) {
		assert_false(producers[i].failed);
		assert_int_equal(next_value[i], RECORDS);
		/* More records than the first stretch holds: the ring has moved on. */
		assert_true(rings[i].drain->capacity > FIRST_CAPACITY);
	}
	for (unsigned i = 0; i < PFW_LOST_REASONS; i++)
		assert_int_equal(header.lost[i].count, 0);
}

static void test_ring_of_an_ended_thread_is_used_again(void **state)
{
	(void)state;
	run_producers();
	for (unsigned i = 0; i < PRODUCERS; i++) {
		drain(&rings[i], 1);
		assert_int_equal(atomic_load(&rings[i].state), PFW_RING_FREE);
	}
	memset(next_value, 0, sizeof(next_value));
	for (unsigned i = 0; i < PRODUCERS; i++)
		atomic_store(&producers[i].done, false);
	run_producers();
	for (unsigned i = 0; i < PRODUCERS; i++) {
		assert_false(producers[i].failed);
		assert_int_equal(next_value[i], RECORDS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_every_record_arrives_once_in_order, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_ring_of_an_ended_thread_is_used_again, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
