/* test_fd_table.c - names of descriptors, and concurrent changes of one descriptor. */
#define PFW_OS_NO_POISON /* a test opens and closes files as a program does */
#include "recorder/probe/fd_table.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "common/settings/config.h"
#include "recorder/probe/path_filter.h"
#include "recorder/probe/probe.h"
#include "recorder/spool/ring.h"
#include "recorder/spool/strings.h"

#define LIVE 9 /* a word in force and a ring for this thread: session is not called */
#define SEGMENTS 4

static struct pfw_switches live = { .io = LIVE, .api = LIVE, .born = 1 };
static struct pfw_ring ring; /* nothing is recorded */
static char *segment[SEGMENTS];
static char dir[32];

static void filter_by(const char *data_dir)
{
	struct pfw_config config = { .data_dir = data_dir };

	pfw_path_filter_init(&config, &(const struct pfw_path_filter_python){ .exe = NULL });
}

static int setup(void **state)
{
	void *memory = NULL;

	(void)state;
	pfw_switches = &live;
	pfw_thread.live = LIVE;
	pfw_thread.ring = &ring;
	pfw_strings_reset();
	pfw_fd_table_reset();
	for (unsigned i = 0; i < SEGMENTS; i++) {
		if (posix_memalign(&memory, PFW_PAGE_BYTES, PFW_STRING_SEGMENT_BYTES))
			return -1;
		segment[i] = memset(memory, 0, PFW_STRING_SEGMENT_BYTES);
		pfw_strings_add_segment(segment[i], i, PFW_STRING_SEGMENT_BYTES);
	}
	filter_by(NULL);
	strcpy(dir, "/tmp/pfw-fd-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	pfw_strings_reset();
	for (unsigned i = 0; i < SEGMENTS; i++)
		free(segment[i]);
	return rmdir(dir);
}

static int make_file(char *path, const char *name)
{
	int fd;

	sprintf(path, "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	return fd;
}

static uint32_t name_of(const char *text)
{
	return pfw_string_create(NULL, 0, text, strlen(text));
}

static void assert_named(uint64_t entry, const char *expected)
{
	uint32_t bytes = 0;
	const char *text = pfw_strings_text(pfw_fd_name(entry), &bytes);

	assert_int_equal(pfw_fd_state(entry), PFW_FD_TRACED);
	assert_non_null(text);
	assert_int_equal(bytes, strlen(expected));
	assert_memory_equal(text, expected, bytes);
}

static bool stale(uint32_t ref)
{
	return !pfw_string_hold(ref);
}

static void numbers_out_of_range_are_unknown(void **state)
{
	uint32_t name = name_of("/data/x");

	(void)state;
	assert_int_equal(pfw_fd_load(-1), 0);
	assert_int_equal(pfw_fd_load(INT32_MAX), 0);
	assert_int_equal(pfw_fd_load(PFW_FD_PAGES * PFW_FD_PAGE), 0);
	pfw_fd_store(-1, PFW_FD_TRACED, name);
	assert_true(stale(name)); /* no test uses it */
	pfw_fd_close_begin(-1);
	pfw_fd_close_end(-1);
	assert_int_equal(pfw_fd_state(pfw_fd_resolve(-1)), PFW_FD_UNKNOWN);
	pfw_fd_store(PFW_FD_PAGES * PFW_FD_PAGE - 1, PFW_FD_UNTRACED, 0);
	assert_int_equal(pfw_fd_state(pfw_fd_load(PFW_FD_PAGES * PFW_FD_PAGE - 1)),
			 PFW_FD_UNTRACED);
}

static void a_name_is_held_until_it_is_replaced(void **state)
{
	uint32_t first = name_of("/data/first"), second = name_of("/data/second");

	(void)state;
	pfw_fd_store(100, PFW_FD_TRACED, first);
	assert_named(pfw_fd_load(100), "/data/first");
	pfw_fd_store(100, PFW_FD_TRACED, second);
	assert_named(pfw_fd_load(100), "/data/second");
	assert_true(stale(first));
	pfw_fd_store(100, PFW_FD_UNTRACED, 0);
	assert_true(stale(second));
	assert_int_equal(pfw_fd_state(pfw_fd_load(100)), PFW_FD_UNTRACED);
}

static void a_reset_forgets_all(void **state)
{
	(void)state;
	pfw_fd_store(7, PFW_FD_TRACED, name_of("/data/x"));
	pfw_fd_store(5000, PFW_FD_UNTRACED, 0);
	pfw_fd_table_reset();
	assert_int_equal(pfw_fd_state(pfw_fd_load(7)), PFW_FD_UNKNOWN);
	assert_int_equal(pfw_fd_state(pfw_fd_load(5000)), PFW_FD_UNKNOWN);
}

static void a_copy_holds_the_name_too(void **state)
{
	uint32_t name = name_of("/data/x");

	(void)state;
	pfw_fd_store(10, PFW_FD_TRACED, name);
	pfw_fd_copy(10, 11);
	pfw_fd_store(10, PFW_FD_UNKNOWN, 0);
	assert_named(pfw_fd_load(11), "/data/x");
	pfw_fd_copy(10, 11); /* unknown: resolved at its next use */
	assert_int_equal(pfw_fd_state(pfw_fd_load(11)), PFW_FD_UNKNOWN);
	assert_true(stale(name));
	pfw_fd_store(10, PFW_FD_UNTRACED, 0);
	pfw_fd_copy(10, 11);
	assert_int_equal(pfw_fd_state(pfw_fd_load(11)), PFW_FD_UNTRACED);
	pfw_fd_store(10, PFW_FD_TRACED, 0); /* traced without a name */
	pfw_fd_copy(10, 11);
	assert_int_equal(pfw_fd_state(pfw_fd_load(11)), PFW_FD_TRACED);
	assert_int_equal(pfw_fd_name(pfw_fd_load(11)), 0);
	pfw_fd_copy(10, 10);
	assert_int_equal(pfw_fd_state(pfw_fd_load(10)), PFW_FD_TRACED);
}

/* ---- close ---- */

static void a_closed_descriptor_is_unknown(void **state)
{
	uint32_t name = name_of("/data/x");

	(void)state;
	pfw_fd_store(20, PFW_FD_TRACED, name);
	pfw_fd_close_begin(20);
	assert_int_equal(pfw_fd_state(pfw_fd_load(20)), PFW_FD_CLOSING);
	assert_true(stale(name));
	pfw_fd_close_end(20);
	assert_int_equal(pfw_fd_state(pfw_fd_load(20)), PFW_FD_UNKNOWN);
}

/* Once the kernel has closed the number, another thread may get it. */
static void close_does_not_erase_an_open_in_between(void **state)
{
	(void)state;
	pfw_fd_store(21, PFW_FD_TRACED, name_of("/data/old"));
	pfw_fd_close_begin(21);
	pfw_fd_store(21, PFW_FD_TRACED, name_of("/data/new"));
	pfw_fd_close_end(21);
	assert_named(pfw_fd_load(21), "/data/new");
}

static void closing_the_unknown_costs_no_memory(void **state)
{
	const int fd = 3 * 1024 * 1024 + 5; /* as in a loop over all numbers up to the limit */

	(void)state;
	assert_null(pfw_fd_pages[fd >> PFW_FD_PAGE_BITS]);
	pfw_fd_close_begin(fd);
	pfw_fd_close_end(fd);
	assert_null(pfw_fd_pages[fd >> PFW_FD_PAGE_BITS]);
}

/* A descriptor that is resolved while it is closed is not stored. */
static void nothing_is_stored_while_closing(void **state)
{
	char path[64];
	int fd = make_file(path, "a");

	(void)state;
	assert_named(pfw_fd_resolve(fd), path);
	pfw_fd_close_begin(fd);
	assert_named(pfw_fd_resolve(fd), path);
	assert_int_equal(pfw_fd_state(pfw_fd_load(fd)), PFW_FD_CLOSING);
	close(fd);
	assert_int_equal(pfw_fd_state(pfw_fd_resolve(fd)), PFW_FD_UNKNOWN);
	pfw_fd_close_end(fd);
	assert_int_equal(pfw_fd_state(pfw_fd_load(fd)), PFW_FD_UNKNOWN);
	unlink(path);
}

/* ---- resolve ---- */

static void an_open_file_gets_its_name_once(void **state)
{
	char path[64];
	int fd = make_file(path, "a");
	uint64_t entry;

	(void)state;
	errno = 77;
	entry = pfw_fd_resolve(fd);
	assert_int_equal(errno, 77);
	assert_named(entry, path);
	assert_int_equal(pfw_fd_load(fd), entry);
	unlink(path);
	assert_int_equal(pfw_fd_resolve(fd), entry); /* the kernel is not asked again */
	close(fd);
	pfw_fd_store(fd, PFW_FD_UNKNOWN, 0);
}

static void a_removed_file_keeps_its_name(void **state)
{
	char path[64];
	int fd = make_file(path, "a");

	(void)state;
	unlink(path);
	assert_named(pfw_fd_resolve(fd), path);
	close(fd);
	pfw_fd_store(fd, PFW_FD_UNKNOWN, 0);
	fd = make_file(path, "b (deleted)"); /* which is its real name */
	assert_named(pfw_fd_resolve(fd), path);
	close(fd);
	unlink(path);
	pfw_fd_store(fd, PFW_FD_UNKNOWN, 0);
}

/* The name of an open descriptor, as /proc has it. */
static void assert_named_as_link(int fd)
{
	char link[64], name[64];
	ssize_t bytes;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	bytes = readlink(link, name, sizeof(name) - 1);
	assert_true(bytes > 0 && name[0] != '/');
	name[bytes] = '\0';
	assert_named(pfw_fd_resolve(fd), name);
}

static void what_has_no_path_has_the_kernels_name(void **state)
{
	int ends[2], pair[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_named_as_link(ends[0]);
	assert_named(pfw_fd_resolve(pair[1]), "socket:[unix]");
	filter_by("/data"); /* only paths below a directory */
	assert_int_equal(pfw_fd_state(pfw_fd_resolve(ends[1])), PFW_FD_UNTRACED);
	for (int i = 0; i < 2; i++) {
		close(ends[i]);
		close(pair[i]);
	}
}

static void what_the_filter_leaves_out_is_untraced(void **state)
{
	int fd = open("/etc/passwd", O_RDONLY);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(pfw_fd_state(pfw_fd_resolve(fd)), PFW_FD_UNTRACED);
	assert_int_equal(pfw_fd_state(pfw_fd_load(fd)), PFW_FD_UNTRACED);
	close(fd);
	pfw_fd_store(fd, PFW_FD_UNKNOWN, 0);
	assert_int_equal(pfw_fd_state(pfw_fd_resolve(fd)), PFW_FD_UNKNOWN); /* not open */
}

/* A name longer than a probe's stack buffer: a tree of directories. */
static void long_names_are_whole(void **state)
{
	char path[4096], part[201];
	int fd, depth = 0, at;

	(void)state;
	memset(part, 'd', 200);
	part[200] = '\0';
	strcpy(path, dir);
	for (; depth < 5; depth++) {
		sprintf(path + strlen(path), "/%s", part);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	strcat(path, "/file");
	fd = open(path, O_RDWR | O_CREAT, 0600);
	assert_true(fd >= 0);
	assert_true(strlen(path) > 1000);
	assert_named(pfw_fd_resolve(fd), path);
	close(fd);
	pfw_fd_store(fd, PFW_FD_UNKNOWN, 0);
	unlink(path);
	for (at = depth; at; at--) {
		*strrchr(path, '/') = '\0';
		rmdir(path);
	}
}

/* The arena is full: each call asks for the name at its end, and nothing is stored. */
static void without_room_the_link_is_read_each_time(void **state)
{
	char path[64];
	int fd = make_file(path, "a");

	(void)state;
	pfw_strings_reset();
	assert_int_equal(pfw_fd_name(pfw_fd_resolve(fd)), PFW_NAME_BY_LINK);
	assert_int_equal(pfw_fd_state(pfw_fd_resolve(fd)), PFW_FD_TRACED);
	assert_int_equal(pfw_fd_state(pfw_fd_load(fd)), PFW_FD_UNKNOWN);
	close(fd);
	unlink(path);
}

/* ---- threads ---- */

#define WORKERS 4
#define ROUNDS 30
#define TURNS 100 /* few enough for the arena to hold a round's names */

static struct {
	char path[WORKERS][64];
	_Atomic unsigned wrong;
} crowd;

/* Open, look, close, as a program's threads do: each owner finds its own file. */
static void *worker_main(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	const char *path = crowd.path[me];

	pfw_thread.live = LIVE;
	pfw_thread.ring = &ring;
	for (unsigned i = 0; i < TURNS; i++) {
		int fd = open(path, O_RDONLY);
		uint32_t bytes = 0;
		const char *text;

		if (i % 2)
			pfw_fd_store(fd, PFW_FD_TRACED, name_of(path));
		text = pfw_strings_text(pfw_fd_name(pfw_fd_resolve(fd)), &bytes);
		crowd.wrong += !text || bytes != strlen(path) || memcmp(text, path, bytes);
		pfw_fd_close_begin(fd);
		close(fd);
		pfw_fd_close_end(fd);
	}
	return NULL;
}

static void each_thread_finds_its_own_file(void **state)
{
	pthread_t thread[WORKERS];

	(void)state;
	memset(&crowd, 0, sizeof(crowd));
	for (unsigned i = 0; i < WORKERS; i++) {
		char name[8];

		sprintf(name, "%u", i);
		close(make_file(crowd.path[i], name));
	}
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (uintptr_t i = 0; i < WORKERS; i++)
			assert_int_equal(pthread_create(&thread[i], NULL, worker_main, (void *)i),
					 0);
		for (unsigned i = 0; i < WORKERS; i++)
			pthread_join(thread[i], NULL);
		for (unsigned i = 0; i < 3; i++)
			pfw_strings_reclaim();
	}
	for (unsigned i = 0; i < WORKERS; i++)
		unlink(crowd.path[i]);
	assert_int_equal(crowd.wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(numbers_out_of_range_are_unknown),
		TEST(a_name_is_held_until_it_is_replaced),
		TEST(a_reset_forgets_all),
		TEST(a_copy_holds_the_name_too),
		TEST(a_closed_descriptor_is_unknown),
		TEST(close_does_not_erase_an_open_in_between),
		TEST(closing_the_unknown_costs_no_memory),
		TEST(nothing_is_stored_while_closing),
		TEST(an_open_file_gets_its_name_once),
		TEST(a_removed_file_keeps_its_name),
		TEST(what_has_no_path_has_the_kernels_name),
		TEST(what_the_filter_leaves_out_is_untraced),
		TEST(long_names_are_whole),
		TEST(without_room_the_link_is_read_each_time),
		TEST(each_thread_finds_its_own_file),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
