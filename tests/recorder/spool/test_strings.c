/* test_strings.c - the arena of names: references, reuse, and many threads at once. */
#include "recorder/spool/strings.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CELL_BYTES sizeof(struct pfw_string)
#define GRANULES (PFW_STRING_SEGMENT_BYTES / PFW_STRING_GRANULE)

static char *segment[PFW_STRING_SEGMENTS];
static unsigned segments;

static void add_segment(void)
{
	void *memory = NULL;

	assert_int_equal(posix_memalign(&memory, PFW_PAGE_BYTES, PFW_STRING_SEGMENT_BYTES), 0);
	memset(memory, 0, PFW_STRING_SEGMENT_BYTES);
	segment[segments] = memory;
	pfw_strings_add_segment(segment[segments], segments, PFW_STRING_SEGMENT_BYTES);
	segments++;
}

static int setup(void **state)
{
	(void)state;
	pfw_strings_reset();
	segments = 0;
	add_segment();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	pfw_strings_reset();
	while (segments)
		free(segment[--segments]);
	return 0;
}

static uint32_t make(const char *text)
{
	return pfw_string_create(NULL, 0, text, strlen(text));
}

static void assert_text(uint32_t ref, const char *expected)
{
	uint32_t bytes = 0;
	const char *text = pfw_strings_text(ref, &bytes);

	assert_non_null(text);
	assert_int_equal(bytes, strlen(expected));
	assert_memory_equal(text, expected, bytes);
}

static void assert_stale(uint32_t ref)
{
	uint32_t bytes;

	assert_null(pfw_strings_text(ref, &bytes));
	assert_false(pfw_string_hold(ref));
}

/* As many passes as free a dropped cell. */
static void reclaim_all(void)
{
	for (int i = 0; i < 3; i++)
		pfw_strings_reclaim();
}

/* Walk all cells; return how many are in use. */
static unsigned cells_in_use(unsigned *cells)
{
	unsigned used = 0;

	*cells = 0;
	for (unsigned i = 0; i < segments; i++) {
		unsigned at = (sizeof(struct pfw_chunk) + 15) / PFW_STRING_GRANULE;

		while (at < GRANULES) {
			struct pfw_string *cell =
				(struct pfw_string *)(segment[i] + at * PFW_STRING_GRANULE);

			if (!cell->granules)
				break;
			++*cells;
			used += cell->generation & 1;
			assert_int_equal(cell->generation & 1, cell->users > 0);
			at += cell->granules;
			assert_true(at <= GRANULES);
		}
	}
	return used;
}

static void a_string_lives_until_dropped_and_written(void **state)
{
	uint32_t ref = make("/data/a.bin"), again;

	(void)state;
	assert_int_not_equal(ref, 0);
	assert_text(ref, "/data/a.bin");
	assert_true(pfw_string_hold(ref));
	pfw_string_drop(ref);
	reclaim_all();
	assert_text(ref, "/data/a.bin"); /* one user is left */
	pfw_string_drop(ref);
	assert_false(pfw_string_hold(ref));
	pfw_strings_reclaim();
	assert_text(ref, "/data/a.bin"); /* records may still name it */
	pfw_strings_reclaim();
	assert_text(ref, "/data/a.bin");
	pfw_strings_reclaim();
	assert_stale(ref);
	again = make("/data/b.bin");
	assert_int_equal(again & 0xffff, ref & 0xffff); /* the same cell */
	assert_int_not_equal(again, ref);
	assert_stale(ref);
	pfw_string_drop(ref); /* stale: must not drop the new one */
	reclaim_all();
	assert_text(again, "/data/b.bin");
}

static void directory_and_text_are_joined(void **state)
{
	(void)state;
	assert_text(pfw_string_create("/data", 5, "x/y", 3), "/data/x/y");
	assert_text(pfw_string_create("/", 1, "x", 1),
		    "//x"); /* the caller joins the root itself */
	assert_text(pfw_string_create(NULL, 0, "", 0), "");
	assert_text(pfw_string_create("abc", 0, "x", 1), "x");
}

static void no_reference_is_none(void **state)
{
	(void)state;
	assert_stale(0);
	pfw_string_drop(0);
	assert_stale(pfw_string_ref(1, GRANULES)); /* no such segment */
	assert_stale(pfw_string_ref(1, 0xffff));
	pfw_string_drop(pfw_string_ref(0xffff, 0xffff));
	assert_stale(pfw_string_ref(1, 100)); /* no cell there yet */
}

/* Strings of every length do not overlap. */
static void all_lengths_keep_their_bytes(void **state)
{
	static char text[PFW_STRING_MAX + 1];
	static uint32_t refs[PFW_STRING_MAX + 1];
	uint32_t bytes;

	(void)state;
	while (segments < PFW_STRING_SEGMENTS)
		add_segment();
	for (unsigned n = 0; n <= PFW_STRING_MAX; n += n < 300 ? 1 : 61) {
		memset(text, 'a' + (int)(n % 26), n);
		refs[n] = pfw_string_create(NULL, 0, text, n);
		assert_int_not_equal(refs[n], 0);
	}
	memset(text, 'z', sizeof(text));
	refs[PFW_STRING_MAX] = pfw_string_create(NULL, 0, text, PFW_STRING_MAX);
	assert_int_not_equal(refs[PFW_STRING_MAX], 0);
	assert_int_equal(pfw_string_create(NULL, 0, text, PFW_STRING_MAX + 1), 0);
	assert_int_equal(pfw_string_create(text, PFW_STRING_MAX - 1, text, 1), 0);
	for (unsigned n = 0; n < PFW_STRING_MAX; n += n < 300 ? 1 : 61) {
		const char *kept = pfw_strings_text(refs[n], &bytes);

		assert_non_null(kept);
		assert_int_equal(bytes, n);
		for (unsigned i = 0; i < n; i++)
			assert_int_equal(kept[i], 'a' + (int)(n % 26));
	}
	assert_non_null(pfw_strings_text(refs[PFW_STRING_MAX], &bytes));
	assert_int_equal(bytes, PFW_STRING_MAX);
}

static void each_class_is_used_again(void **state)
{
	static const unsigned lengths[] = { 1, 48, 80, 112, 176, 240, 496, 1008, 4096 };
	static char text[PFW_STRING_MAX];
	unsigned before, after;

	(void)state;
	for (int round = 0; round < 50; round++) {
		for (unsigned i = 0; i < 9; i++) {
			uint32_t ref = pfw_string_create(NULL, 0, text, lengths[i]);

			assert_int_not_equal(ref, 0);
			pfw_string_drop(ref);
		}
		reclaim_all();
		assert_int_equal(cells_in_use(&after), 0);
		if (round)
			assert_int_equal(after, before); /* no new cell */
		before = after;
	}
	assert_int_equal(before, 9);
}

static void a_full_arena_says_so_and_recovers(void **state)
{
	static uint32_t refs[40000];
	unsigned count = 0, again = 0, cells;
	char name[64];

	(void)state;
	for (;;) {
		snprintf(name, sizeof(name), "/data/file-%05u", count);
		refs[count] = make(name);
		if (!refs[count])
			break;
		count++;
		if (pfw_strings_low())
			add_segment();
		assert_true(count < 40000);
	}
	assert_int_equal(segments, PFW_STRING_SEGMENTS);
	assert_false(pfw_strings_low()); /* all segments are there */
	for (unsigned i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "/data/file-%05u", i);
		assert_text(refs[i], name);
		pfw_string_drop(refs[i]);
	}
	reclaim_all();
	assert_int_equal(cells_in_use(&cells), 0);
	assert_int_equal(cells, count);
	while (make("/data/file-12345"))
		again++;
	assert_int_equal(again, count);
}

static void without_a_segment_there_is_no_room(void **state)
{
	(void)state;
	pfw_strings_reset();
	assert_true(pfw_strings_low());
	assert_int_equal(make("x"), 0);
	assert_int_equal(pfw_string_intern("x", 1), 0);
	assert_stale(pfw_string_ref(1, 2));
}

/* 16 bits of generation: a reference repeats after 32,768 reuses of its cell. */
static void generations_wrap_without_a_zero(void **state)
{
	uint32_t first = make("first"), last = 0, previous = first;

	(void)state;
	pfw_string_drop(first);
	reclaim_all();
	for (unsigned i = 1; i < 32768; i++) {
		uint32_t ref = make("later");

		assert_int_equal(ref & 0xffff, first & 0xffff);
		assert_int_equal(ref >> 16 & 1, 1);
		assert_int_not_equal(ref, first);
		assert_stale(previous);
		previous = ref;
		pfw_string_drop(ref);
		reclaim_all();
	}
	last = make("again");
	assert_int_equal(last, first); /* a full cycle */
}

/* ---- interned names ---- */

static void a_name_has_one_reference(void **state)
{
	uint32_t read = pfw_string_intern("read", 4), write = pfw_string_intern("write", 5);

	(void)state;
	assert_int_not_equal(read, 0);
	assert_int_not_equal(read, write);
	assert_int_equal(pfw_string_intern("readable", 4), read);
	assert_int_equal(pfw_string_intern("write", 5), write);
	assert_text(read, "read");
	reclaim_all();
	assert_text(read, "read"); /* for good */
	assert_int_not_equal(pfw_string_intern("", 0), 0);
	assert_int_equal(pfw_string_intern("", 0), pfw_string_intern("x", 0));
}

static void names_beyond_the_table_are_refused(void **state)
{
	static uint32_t refs[8192];
	unsigned count = 0;
	char name[32];

	(void)state;
	while (segments < PFW_STRING_SEGMENTS)
		add_segment();
	for (;;) {
		int bytes = snprintf(name, sizeof(name), "step %u", count);

		refs[count] = pfw_string_intern(name, (size_t)bytes);
		if (!refs[count])
			break;
		count++;
		assert_true(count < 8192);
	}
	assert_true(count >= 3000);
	for (unsigned i = 0; i < count; i++) {
		int bytes = snprintf(name, sizeof(name), "step %u", i);

		assert_int_equal(pfw_string_intern(name, (size_t)bytes), refs[i]);
	}
}

#define THREADS 8
#define NAMES 1500

struct interner {
	pthread_t thread;
	uint32_t ref[NAMES];
};

static void *intern_main(void *arg)
{
	struct interner *interner = arg;
	char name[32];

	for (unsigned i = 0; i < NAMES; i++) {
		int bytes = snprintf(name, sizeof(name), "span-%u", i);

		interner->ref[i] = pfw_string_intern(name, (size_t)bytes);
	}
	return NULL;
}

static void threads_agree_on_each_name(void **state)
{
	static struct interner interner[THREADS];
	unsigned cells;
	char name[32];

	(void)state;
	while (segments < PFW_STRING_SEGMENTS)
		add_segment();
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(
			pthread_create(&interner[i].thread, NULL, intern_main, &interner[i]), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(interner[i].thread, NULL);
	for (unsigned n = 0; n < NAMES; n++) {
		snprintf(name, sizeof(name), "span-%u", n);
		assert_text(interner[0].ref[n], name);
		for (unsigned i = 1; i < THREADS; i++)
			assert_int_equal(interner[i].ref[n], interner[0].ref[n]);
	}
	reclaim_all();
	assert_int_equal(cells_in_use(&cells), NAMES); /* the cell of a lost race is freed */
}

/* ---- threads open and close descriptors while the writer reclaims ---- */

#define SLOTS 16 /* shared references: descriptors that threads open, copy and close */
#define ROUNDS 20000
#define OFTEN 1000

static struct {
	_Atomic uint32_t slot[SLOTS];
	_Atomic unsigned running;
	_Atomic unsigned made, held, stale;
} churn;

static void *churn_main(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	char name[80];

	/* Whatever the scheduling: until every operation has run often. */
	for (unsigned i = 0; i < ROUNDS || churn.made < OFTEN || churn.held < OFTEN; i++) {
		unsigned at = (unsigned)rand_r(&seed) % SLOTS;
		int bytes = snprintf(name, sizeof(name), "/data/%.*s/%u", (int)(i % 60),
				     "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefgh",
				     i);
		uint32_t ref;

		if (rand_r(&seed) % 2) { /* open: drop the old name */
			ref = pfw_string_create(NULL, 0, name, (size_t)bytes);
			churn.made += ref != 0;
			if (!ref)
				sched_yield(); /* the arena is full: let the writer reclaim */
			pfw_string_drop(atomic_exchange(&churn.slot[at], ref));
		} else { /* dup, perhaps of a descriptor that another thread closes */
			ref = atomic_load(&churn.slot[at]);
			if (ref && pfw_string_hold(ref)) {
				churn.held++;
				pfw_string_drop(ref);
			} else {
				churn.stale += ref != 0;
			}
		}
	}
	churn.running--;
	return NULL;
}

static void nothing_leaks_under_churn(void **state)
{
	pthread_t thread[4];
	unsigned cells;

	(void)state;
	memset(&churn, 0, sizeof(churn));
	churn.running = 4;
	for (uintptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, churn_main, (void *)(i + 1)), 0);
	while (churn.running) {
		pfw_strings_reclaim();
		if (pfw_strings_low())
			add_segment();
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	assert_true(churn.made >= OFTEN && churn.held >= OFTEN);
	for (unsigned i = 0; i < SLOTS; i++)
		pfw_string_drop(churn.slot[i]);
	reclaim_all();
	assert_int_equal(cells_in_use(&cells), 0);
	assert_true(cells > 0 && cells < churn.made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_string_lives_until_dropped_and_written),
		TEST(directory_and_text_are_joined),
		TEST(no_reference_is_none),
		TEST(all_lengths_keep_their_bytes),
		TEST(each_class_is_used_again),
		TEST(a_full_arena_says_so_and_recovers),
		TEST(without_a_segment_there_is_no_room),
		TEST(generations_wrap_without_a_zero),
		TEST(a_name_has_one_reference),
		TEST(names_beyond_the_table_are_refused),
		TEST(threads_agree_on_each_name),
		TEST(nothing_leaks_under_churn),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
