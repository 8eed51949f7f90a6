/* test_spool_file.c - make spools: directory, size, and older files with the same name. */
#define PFW_OS_NO_POISON
#include "recorder/spool/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "remove_tree.h"

#define PID 4711
#define START 12345678u

/* Chunks start at pages of the kernel. */
#define PAGE_BYTES ((uint64_t)getpagesize())
#define HEADER_BYTES (PAGE_BYTES > PFW_SPOOL_HEADER_BYTES ? PAGE_BYTES : PFW_SPOOL_HEADER_BYTES)

static char dir[32];
static struct pfw_spool spool;
static struct pfw_spool_dirs dirs;

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/pfw-spool-XXXXXX");
	memset(&dirs, 0, sizeof(dirs));
	dirs.dir[0] = dir;
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return remove_tree(dir);
}

static void make(void)
{
	struct pfw_spool_owner owner = { .uid = getuid(), .pid = PID, .start_time = START };

	assert_int_equal(pfw_spool_create(&spool, &dirs, &owner), 0);
	assert_non_null(spool.header);
}

static void directories_are_tried_in_order(void **state)
{
	(void)state;
	pfw_spool_dirs_find(&dirs, "/spool", "/tmpdir", "/data/t");
	assert_string_equal(dirs.dir[0], "/spool");
	assert_null(dirs.dir[1]);
	pfw_spool_dirs_find(&dirs, NULL, "/tmpdir", "/data/run/t");
	assert_string_equal(dirs.dir[0], "/dev/shm");
	assert_string_equal(dirs.dir[1], "/tmpdir");
	assert_string_equal(dirs.dir[2], "/data/run");
	assert_null(dirs.dir[3]);
	pfw_spool_dirs_find(&dirs, "", "relative", "/t");
	assert_string_equal(dirs.dir[1], "/");
	assert_null(dirs.dir[2]);
	pfw_spool_dirs_find(&dirs, NULL, NULL, NULL);
	assert_null(dirs.dir[1]);
}

static void the_name_says_whose_it_is(void **state)
{
	char path[64];

	(void)state;
	assert_int_equal(pfw_spool_path(path, sizeof(path), "/d", 1000, PID, START), 0);
	assert_string_equal(path, "/d/pfw-1000-4711-12345678.spool");
	for (size_t size = 16; size < 48; size++)
		assert_int_equal(pfw_spool_path(path, size, "/directory", 1000, PID, START),
				 -ENAMETOOLONG);
}

static void a_header_is_made_and_found(void **state)
{
	struct pfw_spool_header header;
	struct stat st;

	(void)state;
	make();
	assert_false(spool.heap);
	assert_int_equal(stat(spool.path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, HEADER_BYTES + PAGE_BYTES);
	assert_true((uint64_t)st.st_blocks * 512 >=
		    HEADER_BYTES); /* no hole: touching one is SIGBUS */
	assert_int_equal(spool.header->magic, PFW_SPOOL_MAGIC);
	assert_int_equal(spool.header->end, HEADER_BYTES);
	strcpy(spool.header->run, "run-7");
	assert_true(pfw_spool_peek(&header, &dirs, getuid(), PID, START));
	assert_string_equal(header.run, "run-7");
	assert_false(pfw_spool_peek(&header, &dirs, getuid(), PID, START + 1));
	assert_false(pfw_spool_peek(&header, &dirs, getuid(), PID + 1, START));
	pfw_spool_unlink(&spool);
	assert_false(pfw_spool_peek(&header, &dirs, getuid(), PID, START));
	spool.header->rank = 3; /* still mapped */
}

/* The file has no name until its header is whole: a kill leaves nothing. */
static void fill(struct pfw_spool_header *header, void *user)
{
	int unnamed = open(dir, O_RDWR | O_TMPFILE, 0600);
	unsigned *entries = user;
	struct dirent *entry;
	DIR *listing = opendir(dir);

	assert_non_null(listing);
	while ((entry = readdir(listing)))
		*entries += unnamed >= 0 && entry->d_name[0] != '.';
	closedir(listing);
	close(unnamed);
	assert_int_equal(header->magic, 0);
	assert_int_equal(header->pid, PID);
	strcpy(header->run, "run-7");
}

static void it_appears_when_its_header_is_whole(void **state)
{
	unsigned entries = 0;
	struct pfw_spool_owner owner = {
		.uid = getuid(), .pid = PID, .start_time = START, .fill = fill, .user = &entries
	};
	struct pfw_spool_header header;

	(void)state;
	assert_int_equal(pfw_spool_create(&spool, &dirs, &owner), 0);
	assert_int_equal(entries, 0);
	assert_true(pfw_spool_peek(&header, &dirs, getuid(), PID, START));
	assert_string_equal(header.run, "run-7");
}

static void put_file(const char *name)
{
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0);
	close(fd);
}

static void one_look_says_who_has_one(void **state)
{
	struct pfw_spool_owners owners;
	char name[240];

	(void)state;
	pfw_spool_owners_find(&owners, &dirs, getuid());
	assert_int_equal(owners.count, 0);
	assert_false(owners.any);
	make();
	put_file("data");
	snprintf(name, sizeof(name), "pfw-%d1-17-5.spool", getuid()); /* another user's */
	put_file(name);
	pfw_spool_owners_find(&owners, &dirs, getuid());
	assert_int_equal(owners.count, 1);
	assert_true(pfw_spool_owners_hold(&owners, PID));
	assert_false(pfw_spool_owners_hold(&owners, PID + 1));
	/* With too many names, every process may have one. */
	for (unsigned i = 0; i < 100; i++) {
		memset(name, 'x', 200);
		snprintf(name + 200, sizeof(name) - 200, "%u", i);
		put_file(name);
	}
	pfw_spool_owners_find(&owners, &dirs, getuid());
	assert_true(pfw_spool_owners_hold(&owners, PID + 1));
}

static void what_cannot_be_listed_may_have_any(void **state)
{
	struct pfw_spool_owners owners;
	struct rlimit old, none;

	(void)state;
	pfw_spool_dirs_find(&dirs, "/nonexistent", NULL, NULL);
	pfw_spool_owners_find(&owners, &dirs, getuid());
	assert_false(owners.any);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){ 0, old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	pfw_spool_dirs_find(&dirs, dir, NULL, NULL);
	pfw_spool_owners_find(&owners, &dirs, getuid());
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_true(owners.any);
}

static void chunks_are_appended_zeroed_and_allocated(void **state)
{
	uint64_t end = HEADER_BYTES;
	struct stat st;
	int fd;

	(void)state;
	make();
	fd = pfw_spool_open(&spool);
	assert_true(fd >= 0);
	for (unsigned i = 1; i <= 8; i++) {
		uint64_t bytes = i * PAGE_BYTES;
		/* Rounded up to pages. */
		struct pfw_chunk *chunk = pfw_spool_append(&spool, fd, PFW_CHUNK_STRINGS + i % 2, i,
							   bytes - 100 * (i % 3));
		const char *at = (const char *)(chunk + 1);

		assert_non_null(chunk);
		assert_int_equal(chunk->kind, PFW_CHUNK_STRINGS + i % 2);
		assert_int_equal(chunk->index, i);
		assert_int_equal(chunk->bytes, bytes);
		for (size_t b = 0; b < bytes - sizeof(*chunk); b++)
			assert_int_equal(at[b], 0);
		end += bytes;
		assert_int_equal(spool.header->end, end);
	}
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, end);
	assert_true((uint64_t)st.st_blocks * 512 >= end);
	spool.limit = end + PAGE_BYTES - 1;
	assert_null(pfw_spool_append(&spool, fd, PFW_CHUNK_RING, 0, PAGE_BYTES));
	assert_int_equal(spool.header->end, end);
	close(fd);
}

static void a_file_size_limit_is_no_signal(void **state)
{
	struct rlimit limit, low;
	int fd;

	(void)state;
	make();
	fd = pfw_spool_open(&spool);
	getrlimit(RLIMIT_FSIZE, &limit);
	low = limit;
	low.rlim_cur = HEADER_BYTES + PAGE_BYTES;
	setrlimit(RLIMIT_FSIZE, &low);
	assert_null(pfw_spool_append(&spool, fd, PFW_CHUNK_RING, 0, 2 * PAGE_BYTES));
	assert_non_null(pfw_spool_append(&spool, fd, PFW_CHUNK_RING, 0, PAGE_BYTES));
	pfw_spool_unlink(&spool);
	low.rlim_cur = PAGE_BYTES;
	setrlimit(RLIMIT_FSIZE, &low);
	make();
	assert_true(spool.heap);
	low.rlim_cur = HEADER_BYTES + 8 * PAGE_BYTES; /* no room for a ring */
	setrlimit(RLIMIT_FSIZE, &low);
	make();
	assert_true(spool.heap);
	setrlimit(RLIMIT_FSIZE, &limit);
	close(fd);
}

/* Of thousands of threads that want a ring one tries, the others take its word for a while. */
static void no_space_is_not_asked_for_again_at_once(void **state)
{
	const uint64_t chunk = 4 * PAGE_BYTES;
	struct rlimit limit, low;
	int fd;

	(void)state;
	make();
	fd = pfw_spool_open(&spool);
	getrlimit(RLIMIT_FSIZE, &limit);
	low = limit;
	low.rlim_cur = HEADER_BYTES + chunk;
	setrlimit(RLIMIT_FSIZE, &low);
	assert_true(pfw_spool_needs_file(&spool, PFW_CHUNK_RING, chunk + 1));
	assert_null(pfw_spool_append(&spool, fd, PFW_CHUNK_RING, 0, chunk + 1));
	setrlimit(RLIMIT_FSIZE, &limit);
	assert_true(spool.full_until_ns > 0);
	spool.full_until_ns = UINT64_MAX; /* however slow this machine is */
	assert_null(pfw_spool_append(&spool, fd, PFW_CHUNK_RING, 0, 2 * chunk));
	assert_false(pfw_spool_needs_file(&spool, PFW_CHUNK_RING, 2 * chunk));
	assert_true(pfw_spool_needs_file(&spool, PFW_CHUNK_RING, chunk));
	assert_non_null(pfw_spool_append(&spool, fd, PFW_CHUNK_RING, 0, chunk));
	spool.full_until_ns = 1; /* past */
	assert_non_null(pfw_spool_append(&spool, fd, PFW_CHUNK_RING, 0, 2 * chunk));
	/* A descriptor that does not work says nothing about space. */
	spool.full_until_ns = 0;
	assert_null(pfw_spool_append(&spool, -1, PFW_CHUNK_RING, 0, chunk));
	assert_int_equal(spool.full_until_ns, 0);
	spool.limit = atomic_load(&spool.header->end);
	assert_false(pfw_spool_needs_file(&spool, PFW_CHUNK_RING, 1));
	pfw_spool_unlink(&spool);
	close(fd);
}

static void without_a_directory_it_is_in_memory(void **state)
{
	(void)state;
	dirs.dir[0] = "/proc/no/such";
	make();
	assert_true(spool.heap);
	assert_string_equal(spool.path, "");
	assert_int_equal(pfw_spool_open(&spool), -1);
	assert_non_null(pfw_spool_append(&spool, -1, PFW_CHUNK_RING, 0, PAGE_BYTES));
	assert_int_equal(spool.header->end, HEADER_BYTES + PAGE_BYTES);
	pfw_spool_unlink(&spool);
	dirs.dir[1] = dir; /* the next directory */
	make();
	assert_false(spool.heap);
}

/* A spool of the same process before an exec is removed if it is empty, else kept. */
static void what_an_exec_left_is_not_lost(void **state)
{
	char aside[PFW_SPOOL_PATH_MAX + 8];
	struct stat st;

	(void)state;
	make();
	make(); /* empty */
	atomic_store(&spool.header->end, HEADER_BYTES + PAGE_BYTES);
	atomic_store(&spool.header->state, PFW_SPOOL_DONE);
	make();
	snprintf(aside, sizeof(aside), "%s.1", spool.path);
	assert_int_equal(stat(aside, &st), -1);
	atomic_store(&spool.header->end, HEADER_BYTES + PAGE_BYTES);
	make();
	assert_false(spool.heap);
	assert_int_equal(stat(aside, &st), 0);
	assert_int_equal(spool.header->end, HEADER_BYTES);
}

static void a_link_or_another_file_is_left_alone(void **state)
{
	char path[PFW_SPOOL_PATH_MAX], victim[64];
	struct stat st;
	int fd;

	(void)state;
	assert_int_equal(pfw_spool_path(path, sizeof(path), dir, getuid(), PID, START), 0);
	snprintf(victim, sizeof(victim), "%s/victim", dir);
	assert_int_equal(symlink(victim, path), 0);
	make();
	assert_true(spool.heap);
	assert_int_equal(stat(victim, &st), -1);
	unlink(path);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, "not a spool", 11), 11);
	close(fd);
	make();
	assert_true(spool.heap);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 11);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(directories_are_tried_in_order),
		TEST(the_name_says_whose_it_is),
		TEST(a_header_is_made_and_found),
		TEST(it_appears_when_its_header_is_whole),
		TEST(one_look_says_who_has_one),
		TEST(what_cannot_be_listed_may_have_any),
		TEST(chunks_are_appended_zeroed_and_allocated),
		TEST(a_file_size_limit_is_no_signal),
		TEST(no_space_is_not_asked_for_again_at_once),
		TEST(without_a_directory_it_is_in_memory),
		TEST(what_an_exec_left_is_not_lost),
		TEST(a_link_or_another_file_is_left_alone),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
