/* test_mappings.c - the table of mapped files: parts, overflow, generations, threads. */
#include "recorder/probe/mappings.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
/* This test needs the four above to have run. */
#include <cmocka.h>

#include <errno.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "recorder/probe/fd_table.h"

#define PAGE ((unsigned)getpagesize())
#define BASE 0x7f0000000000ull

static uintptr_t at(unsigned page)
{
	return BASE + (uintptr_t)page * PAGE;
}

static int setup(void **state)
{
	(void)state;
	pfw_fd_table_reset(); /* a new generation: the table empties itself */
	pfw_mappings_add(at(0), PAGE, 0);
	uint32_t name;
	pfw_mappings_cut(at(0), PAGE, &name);
	assert_false(pfw_mappings_any());
	return 0;
}

static bool is_there(unsigned page)
{
	uint32_t name = 1;

	return pfw_mappings_find(at(page), 1, &name);
}

static void finds_any_part(void **state)
{
	uint32_t name = 1;

	(void)state;
	pfw_mappings_add(at(10), 3 * PAGE, 0);
	assert_true(pfw_mappings_any());
	assert_false(is_there(9));
	assert_true(is_there(10));
	assert_true(is_there(12));
	assert_false(is_there(13));
	assert_true(pfw_mappings_find(at(9), 2 * PAGE, &name));
	assert_int_equal(name, 0);
	assert_true(pfw_mappings_find(at(11), 0, &name));
}

static void length_is_rounded_up_to_pages(void **state)
{
	uint32_t name;

	(void)state;
	pfw_mappings_add(at(10), PAGE + 1, 0);
	assert_true(is_there(11));
	assert_true(pfw_mappings_cut(at(10), PAGE + 1, &name));
	assert_false(pfw_mappings_any());
}

static void cuts_head_tail_and_middle(void **state)
{
	uint32_t name;

	(void)state;
	pfw_mappings_add(at(10), 10 * PAGE, 0);
	assert_true(pfw_mappings_cut(at(8), 3 * PAGE, &name)); /* 8..10 */
	assert_true(pfw_mappings_cut(at(19), 5 * PAGE, &name));
	assert_true(pfw_mappings_cut(at(14), PAGE, &name));
	for (unsigned page = 8; page < 24; page++)
		assert_int_equal(is_there(page), page >= 11 && page <= 18 && page != 14);
	assert_false(pfw_mappings_cut(at(14), PAGE, &name));
	assert_true(pfw_mappings_cut(at(0), 100 * PAGE, &name)); /* both remaining parts */
	assert_false(pfw_mappings_any());
}

static void length_to_the_end_of_memory(void **state)
{
	uint32_t name;

	(void)state;
	pfw_mappings_add(at(10), PAGE, 0);
	assert_true(pfw_mappings_cut(at(10), SIZE_MAX, &name));
	assert_false(pfw_mappings_any());
}

static void what_does_not_fit_is_not_there(void **state)
{
	uint32_t name;

	(void)state;
	for (unsigned i = 0; i < PFW_MAPPINGS_MAX + 10; i++)
		pfw_mappings_add(at(2 * i), PAGE, 0);
	assert_int_equal(pfw_mappings_live, PFW_MAPPINGS_MAX);
	assert_true(is_there(0));
	assert_false(is_there(2 * PFW_MAPPINGS_MAX));
	/* A cut in the middle of a full table keeps one side. */
	assert_true(pfw_mappings_cut(at(0), 2 * PFW_MAPPINGS_MAX * PAGE, &name));
	assert_false(pfw_mappings_any());
	pfw_mappings_add(at(7), PAGE, 0);
	assert_true(is_there(7));
}

static void another_generation_forgets_all(void **state)
{
	(void)state;
	pfw_mappings_add(at(10), PAGE, 0);
	pfw_fd_table_reset();
	assert_false(is_there(10));
	assert_false(pfw_mappings_any());
	pfw_mappings_add(at(11), PAGE, 0);
	assert_true(is_there(11));
}

/* A file of `pages` pages, mapped; every `step`th one before `until` is written. */
static uintptr_t map_file(unsigned pages, unsigned step, unsigned until)
{
	int fd = memfd_create("mappings", 0);
	char *memory;

	assert_int_equal(pfw_os_ftruncate(fd, (uint64_t)pages * PAGE), 0);
	memory = mmap(NULL, (size_t)pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	pfw_os_close(fd);
	for (unsigned page = 0; page < until; page += step)
		memory[(size_t)page * PAGE] = 1;
	return (uintptr_t)memory;
}

/* An emulator does not say, and under a filter of whoever runs this nothing is asked. */
static void skip_where_nothing_is_said(void)
{
	if (pfw_syscall6(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0, 0))
		skip();
}

static void counts_touched_pages_of_traced_parts(void **state)
{
	uintptr_t start = map_file(200, 2, 200);
	uint64_t bytes, touched;
	uint32_t name, at = 0;

	(void)state;
	skip_where_nothing_is_said();
	errno = 77;
	assert_int_equal(pfw_mappings_touched(start, 200 * PAGE), 0);
	pfw_mappings_add(start + 10 * PAGE, 20 * PAGE, 0);
	pfw_mappings_add(start + 40 * PAGE, 3 * PAGE, 0);
	assert_int_equal(pfw_mappings_touched(start, 200 * PAGE), 12 * PAGE + 1);
	assert_int_equal(pfw_mappings_touched(start + 13 * PAGE, 28 * PAGE), 9 * PAGE + 1);
	assert_true(pfw_mappings_next(&at, &name, &bytes, &touched));
	assert_int_equal(bytes, 20 * PAGE);
	assert_int_equal(touched, 10 * PAGE + 1);
	assert_true(pfw_mappings_next(&at, &name, &bytes, &touched));
	assert_int_equal(touched, 2 * PAGE + 1);
	assert_false(pfw_mappings_next(&at, &name, &bytes, &touched));
	assert_int_equal(errno, 77);
	munmap((void *)start, 200 * PAGE);
	/* Nothing is there: nothing is present. */
	assert_int_equal(pfw_mappings_touched(start, 200 * PAGE), 1);
	pfw_mappings_cut(start, 200 * PAGE, &name);
}

/* Each part of a large mapping has one page that is looked at, wherever the touched ones are. */
static void estimates_large_mappings(void **state)
{
	uintptr_t start = map_file(5000, 2, 2500);
	uint64_t bytes = 5000 * (uint64_t)PAGE;

	(void)state;
	skip_where_nothing_is_said();
	assert_int_equal(pfw_touched(start, bytes, 5000), 1250 * PAGE + 1);
	assert_in_range(pfw_touched(start, bytes, 4999), 1240 * PAGE, 1260 * PAGE);
	assert_in_range(pfw_touched(start, bytes, 1000), 1130 * PAGE, 1370 * PAGE);
	assert_int_equal(pfw_touched(start, 0, 1000), 0);
	munmap((void *)start, bytes);
}

#define THREADS 4
#define ROUNDS 20000

/* Each thread has its own addresses, as from the kernel. */
static void *add_and_cut(void *argument)
{
	unsigned first = (unsigned)(uintptr_t)argument * 1000;
	uintptr_t wrong = 0;
	uint32_t name;

	for (unsigned i = 0; i < ROUNDS; i++) {
		unsigned page = first + i % 50 * 4;

		pfw_mappings_add(at(page), 3 * PAGE, 0);
		wrong += !pfw_mappings_cut(at(page + 1), PAGE, &name);
		wrong += !is_there(page) || is_there(page + 1) || !is_there(page + 2);
		wrong += !pfw_mappings_cut(at(page), 3 * PAGE, &name);
		wrong += is_there(page);
	}
	return (void *)wrong;
}

static void threads_do_not_disturb_each_other(void **state)
{
	pthread_t thread[THREADS];
	void *wrong;

	(void)state;
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, add_and_cut, (void *)i), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &wrong);
		assert_int_equal((uintptr_t)wrong, 0);
	}
	assert_false(pfw_mappings_any());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(finds_any_part, setup),
		cmocka_unit_test_setup(length_is_rounded_up_to_pages, setup),
		cmocka_unit_test_setup(cuts_head_tail_and_middle, setup),
		cmocka_unit_test_setup(length_to_the_end_of_memory, setup),
		cmocka_unit_test_setup(what_does_not_fit_is_not_there, setup),
		cmocka_unit_test_setup(another_generation_forgets_all, setup),
		cmocka_unit_test_setup(counts_touched_pages_of_traced_parts, setup),
		cmocka_unit_test_setup(estimates_large_mappings, setup),
		cmocka_unit_test_setup(threads_do_not_disturb_each_other, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
