/* test_points.c - foreign gzip files from the middle: points made in one pass serve the next one,
 * by ISA-L and by zlib, and points that lie cost no more than a problem. */
#include "store/gzip/seek_points.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/wait.h>

#include "store/pass/pass.h"
#include "trace_files.h"

#define TEXT_BYTES (21u << 20)
#define BLOCKS_MAX 64

static bool hide_isal;

/* Stands before libc's, so that zlib is tested where ISA-L is there too. */
void *dlopen(const char *name, int flags)
{
	void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");

	return hide_isal && name && !strncmp(name, "libisal", 7) ? NULL : real(name, flags);
}

/* Lines 0, 1, … that do not compress too well.  Returns their number. */
static uint32_t make_text(char *text, size_t room, size_t *bytes)
{
	uint32_t random = 5, count = 0;

	for (*bytes = 0; *bytes + 200 < room; count++) {
		*bytes += (size_t)sprintf(
			text + *bytes,
			"{\"id\":%u,\"name\":\"a\",\"ph\":\"i\",\"ts\":1,\"file\":\"/data/", count);
		for (int i = 0; i < 8; i++) {
			random = random * 1664525 + 1013904223;
			*bytes += (size_t)sprintf(text + *bytes, "%x-", random >> 20);
		}
		*bytes += (size_t)sprintf(text + *bytes, "shard\"}\n");
	}
	return count;
}

/* `count` gzip members of anybody's, cut where it falls. */
static void write_gzip(const char *path, const char *text, size_t bytes, unsigned count)
{
	unsigned char *packed = malloc(bytes);
	size_t used = 0;

	for (unsigned i = 0; i < count; i++) {
		size_t begin = bytes * i / count, end = bytes * (i + 1) / count;

		used += member(packed + used, bytes - used, text + begin, end - begin, 0);
	}
	write_file(path, packed, used);
	free(packed);
}

/* What a pass saw: the blocks, the ids of their first lines, how many lines. */
struct seen {
	struct pfw_block block[BLOCKS_MAX];
	uint64_t first[BLOCKS_MAX];
	size_t blocks;
	uint64_t lines;
	struct pfw_points points;
	int problems;
	char last[200];
	size_t want; /* that block only; BLOCKS_MAX: all */
};

static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct seen *seen = user;

	(void)file;
	return seen->want == BLOCKS_MAX || block->at == seen->block[seen->want].at;
}

static int work(void *user, unsigned worker, struct pfw_pass_block *block)
{
	struct pfw_pass_lines lines;
	uint64_t *counts = calloc(2, sizeof(*counts));

	(void)user;
	(void)worker;
	block->result = counts;
	pfw_pass_lines_init(&lines, block);
	for (; pfw_pass_lines_next(&lines); counts[1]++) {
		if (!counts[1])
			counts[0] = lines.entry.id;
		assert_int_equal(lines.entry.id, counts[0] + counts[1]);
	}
	return 0;
}

static int done(void *user, struct pfw_pass_block *block)
{
	struct seen *seen = user;
	uint64_t *counts = block->result;

	assert_true(seen->blocks < BLOCKS_MAX);
	if (seen->want == BLOCKS_MAX)
		seen->block[seen->blocks] = *block->block;
	seen->first[seen->blocks++] = counts[0];
	seen->lines += counts[1];
	return 0;
}

static int point(void *user, size_t file, const struct pfw_point *point)
{
	struct seen *seen = user;
	struct pfw_point copy = *point;

	(void)file;
	copy.window = malloc(point->window_bytes);
	memcpy(copy.window, point->window, point->window_bytes);
	return pfw_points_add(&seen->points, &copy);
}

static void problem(void *user, size_t file, const struct pfw_scan_problem *problem)
{
	struct seen *seen = user;

	(void)file;
	seen->problems++;
	strcpy(seen->last, problem->text);
}

static void say(void *user, const char *path, const char *why)
{
	(void)user;
	fail_msg("%s: %s", path, why);
}

/* With `known`, as with an index: only the blocks that `seen` wants of those. */
static int run(struct seen *seen, const char *path, const struct seen *known)
{
	char *argument = (char *)path;
	struct pfw_traces traces;
	struct pfw_pass pass = { .traces = &traces,
				 .jobs = 2,
				 .user = seen,
				 .want = want,
				 .work = work,
				 .done = done,
				 .point = point,
				 .problem = problem };
	struct pfw_blocks *blocks;
	int result;

	assert_int_equal(pfw_traces_open(&traces, &argument, 1, true, say, NULL), 0);
	blocks = &traces.file[0].blocks;
	assert_int_equal(blocks->layout, PFW_LAYOUT_STREAM);
	if (known) {
		blocks->block = (struct pfw_block *)known->block;
		blocks->count = known->blocks;
		blocks->points = known->points;
	}
	result = pfw_pass_run(&pass);
	if (known) {
		blocks->block = NULL;
		blocks->points = (struct pfw_points){ 0 };
	}
	pfw_traces_close(&traces);
	return result;
}

static void test_each_block_by_its_point(void **state)
{
	struct fixture *fixture = *state;
	char *text = malloc(TEXT_BYTES);
	struct seen *all = calloc(1, sizeof(*all)), *one = calloc(1, sizeof(*one));

	for (unsigned members = 1; members < 12; members += 5) {
		size_t bytes, reached = 0;
		uint32_t count = make_text(text, TEXT_BYTES, &bytes);

		write_gzip(fixture->path, text, bytes, members);
		*all = (struct seen){ .want = BLOCKS_MAX };
		assert_int_equal(run(all, fixture->path, NULL), 0);
		assert_int_equal(all->lines, count);
		if (all->problems)
			fail_msg("%d problems: %s", all->problems, all->last);
		assert_in_range(all->points.count, 3, 5); /* 21 MiB, at least 4 from one on */
		for (size_t i = 0; i < all->points.count; i++) {
			assert_true(all->points.point[i].text_at >= reached + PFW_POINT_SPACING);
			reached = all->points.point[i].text_at;
		}
		for (size_t i = 0; i < all->blocks; i++) {
			*one = (struct seen){ .want = i };
			memcpy(one->block, all->block, sizeof(one->block));
			assert_int_equal(run(one, fixture->path, all), 0);
			assert_int_equal(one->problems, 0);
			assert_int_equal(one->blocks, 1);
			assert_int_equal(one->first[0], all->first[i]);
			assert_int_equal(one->points.count, 0); /* it was not read from the begin */
		}
		pfw_points_free(&all->points);
	}
	free(one);
	free(all);
	free(text);
}

static void test_points_that_lie(void **state)
{
	struct fixture *fixture = *state;
	char *text = malloc(TEXT_BYTES);
	struct seen *all = calloc(1, sizeof(*all)), *one = calloc(1, sizeof(*one));
	struct pfw_point *last;
	size_t bytes;

	make_text(text, TEXT_BYTES, &bytes);
	write_gzip(fixture->path, text, bytes, 1);
	all->want = BLOCKS_MAX;
	assert_int_equal(run(all, fixture->path, NULL), 0);
	last = &all->points.point[all->points.count - 1];
	for (int lie = 0; lie < 4; lie++) {
		struct pfw_point before = *last;
		char packed = *(char *)last->window;

		last->file_at += lie == 0 ? 1000 : lie == 1 ? 1u << 30 : 0;
		last->bits = lie == 2 ? 9 : last->bits;
		*(char *)last->window ^= lie == 3 ? 0x55 : 0;
		*one = (struct seen){ .want = all->blocks - 1 };
		memcpy(one->block, all->block, sizeof(one->block));
		run(one, fixture->path, all);
		assert_true(one->problems > 0);
		*last = before;
		*(char *)last->window = packed;
	}
	pfw_points_free(&all->points);
	free(one);
	free(all);
	free(text);
}

static void test_list_of_points(void **state)
{
	struct pfw_points points = { 0 };

	(void)state;
	assert_null(pfw_points_find(&points, 5));
	for (uint64_t at = 10; at <= 100; at += 10)
		assert_int_equal(pfw_points_add(&points, &(struct pfw_point){ .text_at = at }), 0);
	assert_int_equal(pfw_points_add(&points, &(struct pfw_point){ .text_at = 100 }), -EINVAL);
	assert_int_equal(pfw_points_add(&points, &(struct pfw_point){ .text_at = 110,
								      .window_bytes = 1 << 20 }),
			 -EINVAL);
	assert_null(pfw_points_find(&points, 9));
	for (uint64_t at = 10; at < 120; at++)
		assert_int_equal(pfw_points_find(&points, at)->text_at,
				 at >= 100 ? 100 : at / 10 * 10);
	pfw_points_free(&points);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_each_block_by_its_point, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_points_that_lie, set_up, tear_down),
		cmocka_unit_test(test_list_of_points),
	};
	pid_t child = fork();
	int status;

	/* Once with zlib: which library it is, is found out once in a process. */
	if (child == 0)
		hide_isal = true;
	else if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
