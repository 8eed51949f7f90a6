/* test_lock.c - pfw_os_lock(): a release wakes the next of many threads that wait. */
#define PFW_OS_NO_POISON
#include "common/base/os.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static _Atomic uint32_t lock, seen;

/* The lock's word while a thread holds it that had to wait. */
static void *wait_and_look(void *unused)
{
	pfw_os_lock(&lock);
	atomic_store(&seen, atomic_load(&lock));
	pfw_os_unlock(&lock);
	return unused;
}

static void without_others_it_is_just_held(void **state)
{
	(void)state;
	pfw_os_lock(&lock);
	assert_int_equal(atomic_load(&lock), 1);
	pfw_os_unlock(&lock);
	assert_int_equal(atomic_load(&lock), 0);
}

/* If it were taken as 1, others that wait would sleep until their time is up. */
static void who_has_waited_takes_it_for_wanted(void **state)
{
	pthread_t thread;

	(void)state;
	pfw_os_lock(&lock);
	assert_int_equal(pthread_create(&thread, NULL, wait_and_look, NULL), 0);
	while (atomic_load(&lock) != 2)
		pfw_os_sleep_ns(1000000);
	pfw_os_unlock(&lock);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&seen), 2);
	assert_int_equal(atomic_load(&lock), 0);
}

#define THREADS 8
#define ROUNDS 20000

static uint64_t sum; /* guarded by `lock` */

static void *add(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		pfw_os_lock(&lock);
		sum++;
		pfw_os_unlock(&lock);
	}
	return unused;
}

static void one_holds_it_at_a_time(void **state)
{
	pthread_t thread[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, add, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(sum, THREADS * ROUNDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_others_it_is_just_held),
		cmocka_unit_test(who_has_waited_takes_it_for_wanted),
		cmocka_unit_test(one_holds_it_at_a_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
