/* test_session.c - the C API in a process of its own: start, spans, flush, stop, rank, fork.
 *
 * A session begins once in a process, so each scenario runs in a child of the test.
 */
#include <pfw/pfw.h>

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "remove_tree.h"

#define THREADS 8
#define SPANS 5000
#define FORKS 100
#define DEADLOCK_S 240 /* longest run of a scenario; then SIGALRM ends it */

/* ThreadSanitizer does not support a child that starts a thread after a fork among threads. */
#if defined(__SANITIZE_THREAD__)
#define BUSY 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BUSY 0
#endif
#endif
#ifndef BUSY
#define BUSY 3
#endif

/*
 * AddressSanitizer looks for leaks at exit, under locks that its fork() does not hold: in the child
 * of a process with threads one of them may be locked forever.  So only the process that runs a
 * scenario is checked, by the runtime's own hook (sanitizer/lsan_interface.h).
 */
static pid_t scenario_pid;

int __lsan_is_turned_off(void) __attribute__((visibility("default")));

int __lsan_is_turned_off(void)
{
	return scenario_pid && getpid() != scenario_pid;
}

/* A thread of ours that is ending is no longer known to the runtime, while libc still keeps its
 * dlerror() text. */
const char *__lsan_default_suppressions(void) __attribute__((visibility("default")));

const char *__lsan_default_suppressions(void)
{
	return "leak:_dlerror_run\n";
}

static char dir[32];

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/pfw-session-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return remove_tree(dir);
}

/* For a child: a false condition ends it with the line's number, which the test prints. */
#define CHECK(condition)                                                        \
	do {                                                                    \
		if (!(condition)) {                                             \
			fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
			_exit(1);                                               \
		}                                                               \
	} while (0)

static void set_variables(void)
{
	char base[64];

	snprintf(base, sizeof(base), "%s/t", dir);
	clearenv();
	setenv("PFW_SPOOL_DIR", dir, 1);
	setenv("DFTRACER_LOG_FILE", base, 1);
	setenv("PFW_QUIET", "1", 1);
}

/* Run a scenario in a process of its own, which then ends as main() does. */
static void run(void (*scenario)(void))
{
	int status = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		scenario_pid = getpid();
		alarm(DEADLOCK_S);
		set_variables();
		scenario();
		exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* The number of lines of a file that contain `part`. */
static unsigned count_in(const char *name, const char *part)
{
	char path[512], *line = NULL;
	size_t room = 0;
	unsigned count = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "r");
	if (!file)
		return 0;
	while (getline(&line, &room, file) > 0)
		count += strstr(line, part) != NULL;
	fclose(file);
	free(line);
	return count;
}

/* The same over all traces; *files gets their number, and no other file may be left. */
static unsigned count_in_all(const char *part, unsigned *files)
{
	DIR *listing = opendir(dir);
	struct dirent *entry;
	unsigned count = 0;

	*files = 0;
	assert_non_null(listing);
	while ((entry = readdir(listing))) {
		if (entry->d_name[0] == '.')
			continue;
		if (!strstr(entry->d_name, ".pfw"))
			fail_msg("%s is left behind", entry->d_name);
		++*files;
		count += count_in(entry->d_name, part);
	}
	closedir(listing);
	return count;
}

static void span(const char *name)
{
	struct pfw_span span;

	pfw_span_begin(&span, name, NULL);
	pfw_span_end(&span);
}

/* ---- one process ---- */

static void disabled(void)
{
	struct pfw_stats stats = { .struct_bytes = sizeof(stats) };

	setenv("DFTRACER_ENABLE", "0", 1);
	CHECK(pfw_start(NULL) == 0);
	span("never");
	CHECK(pfw_flush() == 0);
	CHECK(pfw_set_rank(1, 2) == 0);
	CHECK(pfw_span_current() == 0);
	CHECK(pfw_stats(&stats) == 0 && !stats.enabled && !stats.events && !stats.path[0]);
	CHECK(pfw_stop() == 0);
}

static void disabled_leaves_nothing(void **state)
{
	unsigned files;

	(void)state;
	run(disabled);
	assert_int_equal(count_in_all("", &files), 0);
	assert_int_equal(files, 0);
}

static void start_flush_stop_start(void)
{
	struct pfw_stats stats = { .struct_bytes = sizeof(stats) };
	char path[64];

	snprintf(path, sizeof(path), "%s/t.pfw", dir);
	span("too-early");
	errno = 77;
	CHECK(pfw_start(NULL) == 0);
	CHECK(pfw_start(NULL) == 0);
	span("one");
	CHECK(pfw_flush() == 0);
	CHECK(errno == 77);
	CHECK(pfw_stats(&stats) == 0);
	CHECK(stats.enabled && stats.events == 1 && !stats.lost && stats.trace_bytes > 0);
	CHECK(!strcmp(stats.path, path));
	CHECK(count_in("t.pfw", "\"name\":\"one\"") == 1);
	CHECK(pfw_stop() == 0);
	CHECK(count_in("t.pfw", "\"name\":\"end\"") == 1);
	span("stopped");
	CHECK(pfw_start(NULL) == 0);
	span("two");
	CHECK(pfw_flush() == 0);
	CHECK(count_in("t.pfw", "\"name\":\"two\"") == 1);
	CHECK(pfw_stats(NULL) == -EINVAL);
	stats.struct_bytes = 4;
	CHECK(pfw_stats(&stats) == -EINVAL);
}

static void it_starts_stops_and_starts_again(void **state)
{
	unsigned files;

	(void)state;
	run(start_flush_stop_start);
	assert_int_equal(count_in_all("\"name\":\"too-early\"", &files), 0);
	assert_int_equal(files, 1);
	assert_int_equal(count_in("t.pfw", "\"name\":\"stopped\""), 0);
	assert_int_equal(count_in("t.pfw", "\"name\":\"one\""), 1);
	assert_int_equal(count_in("t.pfw", "\"name\":\"two\""), 1);
	assert_int_equal(count_in("t.pfw", "\"name\":\"end\""), 2);
	assert_int_equal(count_in("t.pfw", "\"name\":\"process\""), 1);
}

static void set_rank(void)
{
	CHECK(pfw_start(NULL) == 0);
	span("before");
	CHECK(pfw_flush() == 0);
	CHECK(pfw_set_rank(2, 2) == -EINVAL);
	CHECK(pfw_set_rank(-1, 2) == -EINVAL);
	CHECK(pfw_set_rank(0, 0) == -EINVAL);
	/* The program may have replaced the environment that the session began with. */
	for (unsigned i = 0; i < 300; i++) {
		char name[32];

		snprintf(name, sizeof(name), "SOME_VARIABLE_%u", i);
		setenv(name, "value", 1);
	}
	CHECK(pfw_set_rank(3, 8) == 0);
	span("after");
}

static void a_late_rank_renames_the_trace(void **state)
{
	unsigned files;

	(void)state;
	run(set_rank);
	assert_int_equal(count_in_all("\"name\":\"rank\"", &files), 1);
	assert_int_equal(files, 1);
	assert_int_equal(count_in("t-rank0003.pfw", "\"name\":\"before\""), 1);
	assert_int_equal(count_in("t-rank0003.pfw", "\"name\":\"after\""), 1);
}

/* ---- threads ---- */

static void *spans_main(void *arg)
{
	for (unsigned i = 0; i < SPANS; i++)
		span(arg);
	return NULL;
}

static void spans_of_threads(void)
{
	pthread_t thread[THREADS];

	CHECK(pfw_start(NULL) == 0);
	for (unsigned i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread[i], NULL, spans_main, "work"));
	for (unsigned i = 0; i < 20; i++)
		CHECK(pfw_flush() == 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

static void threads_lose_nothing(void **state)
{
	(void)state;
	run(spans_of_threads);
	assert_int_equal(count_in("t.pfw", "\"name\":\"work\""), THREADS * SPANS);
	assert_int_equal(count_in("t.pfw", "\"name\":\"lost\""), 0);
	assert_int_equal(count_in("t.pfw", "\"name\":\"end\""), 1);
}

/* Threads that come and go reuse rings. */
static void thread_after_thread(void)
{
	CHECK(pfw_start(NULL) == 0);
	for (unsigned i = 0; i < 200; i++) {
		pthread_t thread;

		CHECK(!pthread_create(&thread, NULL, spans_main, "short"));
		pthread_join(thread, NULL);
		if (i % 50 == 0)
			CHECK(pfw_flush() == 0);
	}
}

static void rings_go_from_thread_to_thread(void **state)
{
	(void)state;
	run(thread_after_thread);
	assert_int_equal(count_in("t.pfw", "\"name\":\"short\""), 200 * SPANS);
	assert_int_equal(count_in("t.pfw", "\"name\":\"thread_name\""), 200);
}

/* ---- fork ---- */

static struct {
	_Atomic bool stop;
	_Atomic unsigned spans;
} busy;

static void *busy_main(void *arg)
{
	(void)arg;
	while (!atomic_load(&busy.stop)) {
		span("busy");
		busy.spans++;
	}
	return NULL;
}

static void fork_among_threads(void)
{
	pthread_t thread[BUSY + 1];
	FILE *file;
	char path[64];

	CHECK(pfw_start(NULL) == 0);
	for (int i = 0; i < BUSY; i++)
		CHECK(!pthread_create(&thread[i], NULL, busy_main, NULL));
	for (unsigned i = 0; i < FORKS; i++) {
		int status;
		pid_t pid;

		span("parent");
		pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			alarm(DEADLOCK_S);
			span("child");
			span("child");
			exit(0);
		}
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	}
	busy.stop = true;
	for (int i = 0; i < BUSY; i++)
		pthread_join(thread[i], NULL);
	snprintf(path, sizeof(path), "%s/.busy", dir);
	file = fopen(path, "w");
	CHECK(file && fprintf(file, "%u", busy.spans) > 0 && !fclose(file));
}

static void forks_are_exact_and_do_not_hang(void **state)
{
	unsigned files, expected = 0;
	char path[64];
	FILE *file;

	(void)state;
	run(fork_among_threads);
	assert_int_equal(count_in_all("\"name\":\"child\"", &files), 2 * FORKS);
	assert_int_equal(files, 1 + FORKS);
	assert_int_equal(count_in("t.pfw", "\"name\":\"parent\""), FORKS);
	assert_int_equal(count_in("t.pfw", "\"name\":\"child\""), 0);
	assert_int_equal(count_in_all("\"name\":\"end\"", &files), 1 + FORKS);
	snprintf(path, sizeof(path), "%s/.busy", dir);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%u", &expected), 1);
	fclose(file);
	assert_int_equal(count_in_all("\"name\":\"busy\"", &files), expected);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(disabled_leaves_nothing),	      TEST(it_starts_stops_and_starts_again),
		TEST(a_late_rank_renames_the_trace),  TEST(threads_lose_nothing),
		TEST(rings_go_from_thread_to_thread), TEST(forks_are_exact_and_do_not_hang),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
