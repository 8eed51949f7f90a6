/* test_window.c - windows whose middle comes from an index are those of all lines. */
#include "store/overlap/window.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "store/index/db.h"
#include "store/overlap/in_index.h"
#include "store/overlap/marks.h"

#define BLOCKS 8
#define LINES 260 /* of a block: more than there are in a mark */
#define ROOM 4000 /* ns of a block */
#define WORLDS 150

struct line {
	const char *name, *cat, *args;
	int64_t begin, end, number; /* of a step, or of a launch */
};

struct world {
	struct line line[BLOCKS][LINES];
	bool sorted;
	int64_t now, next_step, least, greatest;
	int64_t launches, ahead; /* how much later kernels start */
};

static const struct line kinds[] = {
	{ "read", "POSIX", "\"ret\":7", 0, 0, 0 },
	{ "write", "POSIX", "\"ret\":9", 0, 0, 0 },
	{ "aten::mm", "PP", "\"kind\":\"cpu_op\"", 0, 0, 0 },
	{ "Memset", "PP", "\"kind\":\"memset\",\"bytes\":5", 0, 0, 0 },
	{ "fetch", "dataloader", "", 0, 0, 0 },
	{ "pthread_mutex_lock", "SYNC", "\"ret\":0", 0, 0, 0 },
	{ "mine", "app", "", 0, 0, 0 },
};
#define LAUNCH "cudaLaunchKernel"
#define STEP "ProfilerStep"

static int64_t duration(void)
{
	return (int64_t)any_below(any_below(1000) ? any_below(8) ? 30 : 300 : 3 * ROOM);
}

/* A line of a launch, of the kernel of one that was launched before, of a step, or of something else. */
static struct line any_line(struct world *world)
{
	struct line line = kinds[any_below(sizeof(kinds) / sizeof(kinds[0]))];

	line.begin = world->now;
	switch (any_below(world->ahead ? 6 : 3)) {
	case 3:
		line = (struct line){ LAUNCH,	  "PP", "\"kind\":\"runtime\"",
				      world->now, 0,	++world->launches };
		break;
	case 4:
	case 5:
		line = (struct line){ any_below(5) ? "gemm" : "ncclDevKernel",
				      "PP",
				      "\"kind\":\"kernel\",\"device\":1",
				      world->now,
				      0,
				      world->launches -
					      (int64_t)any_below((uint64_t)world->ahead) };
		break;
	default:
		break;
	}
	line.end = line.begin + duration();
	if (world->next_step >= 0 && world->now >= world->next_step) {
		line = (struct line){ STEP,	  "PP", "\"kind\":\"step\"",
				      world->now, 0,	(int64_t)any_below(1000) };
		line.end = world->now + (int64_t)any_below(ROOM);
		world->next_step = world->now + (int64_t)any_below(ROOM);
	}
	return line;
}

static void fill(struct world *world)
{
	world->now = 1000000;
	world->launches = 0;
	world->ahead = any_below(3) ? 1 + (int64_t)any_below(any_below(2) ? 40 : 400) : 0;
	world->next_step = any_below(3) ? 0 : -1;
	world->sorted = any_below(2);
	world->least = world->now;
	for (unsigned i = 0; i < BLOCKS * LINES; i++) {
		struct line *line = &world->line[i / LINES][i % LINES];

		*line = any_line(world);
		if (!world->sorted && !any_below(4))
			line->begin -=
				(int64_t)any_below((uint64_t)(line->begin - world->least + 1)) /
				(1 + (int64_t)any_below(50));
		if (i % LINES >= LINES - 2 && any_below(2)) { /* alone at the end of a block */
			line->end = line->begin;
			world->now += ROOM;
		}
		world->now += (int64_t)any_below(2 * ROOM / LINES);
	}
	world->greatest = world->now + ROOM;
}

static void add_lines(struct pfw_overlap_block *block, const struct line *line)
{
	for (unsigned i = 0; i < LINES; i++, line++) {
		struct pfw_entry entry;
		char text[512];
		bool step = line->number && strcmp(line->name, STEP) == 0;

		sprintf(text,
			"{\"id\":1,\"name\":\"%s%s%" PRId64 "\",\"cat\":\"%s\",\"pid\":1,\"tid\":1,"
			"\"ts\":%" PRId64 ".%03d,\"dur\":%" PRId64 ".%03d,\"ph\":\"X\","
			"\"args\":{%s%s\"correlation\":%" PRId64 "}}",
			line->name, step ? "#" : "", step ? line->number : 0, line->cat,
			line->begin / 1000, (int)(line->begin % 1000),
			(line->end - line->begin) / 1000, (int)((line->end - line->begin) % 1000),
			line->args, *line->args ? "," : "", step ? 0 : line->number);
		if (!step) { /* its name has no number */
			char *end = strstr(text, "\",\"cat\"");

			memmove(end - 1, end, strlen(end) + 1);
		}
		pfw_entry_parse(&entry, text, strlen(text));
		assert_int_equal(entry.kind, PFW_ENTRY_EVENT);
		entry.process = 1;
		assert_int_equal(pfw_overlap_block_add(block, &entry, NULL), 0);
	}
}

/* The whole, as an index has it. */
static void put_and_read(const struct world *world, struct pfw_overlap *all)
{
	struct pfw_overlap_block *block = pfw_overlap_block_create();
	void *file = pfw_index_new_file(&pfw_overlap_kind);
	struct pfw_blob row = { .data = NULL };
	struct pfw_varints reader;

	if (world->sorted)
		pfw_overlap_kind.sorted(file);
	for (unsigned i = 0; i < BLOCKS; i++) {
		pfw_overlap_block_clear(block);
		add_lines(block, world->line[i]);
		assert_int_equal(pfw_overlap_kind.take(file, block, &row), 0);
		/* The lag of the index is longer than all of this. */
		if (world->sorted)
			assert_int_equal(pfw_overlap_advance(file, block->last_ns - ROOM), 0);
	}
	row.bytes = 0;
	assert_int_equal(pfw_overlap_kind.end(file, &row), 0);
	reader = pfw_varints(row.data, row.bytes);
	pfw_overlap_init(all);
	all->marks = pfw_overlap_marks_create();
	/* A kernel that waits for longer than the sweep stays behind: nothing is kept. */
	assert_int_equal(pfw_overlap_read_row(all, &reader, true), row.bytes ? 0 : -ENOENT);
	pfw_index_free_file(&pfw_overlap_kind, file);
	pfw_overlap_block_free(block);
	pfw_blob_free(&row);
}

/* A window by all lines, or by those of blocks that are not skipped. */
static void read_window(const struct world *world, const struct pfw_overlap_window *window,
			int64_t since, int64_t until, struct pfw_overlap *overlap)
{
	struct pfw_overlap_block *block = pfw_overlap_block_create();

	pfw_overlap_init(overlap);
	if (window)
		assert_int_equal(pfw_overlap_use_window(overlap, window), 0);
	for (unsigned i = 0; i < BLOCKS; i++) {
		if (window && window->skip[i])
			continue;
		pfw_overlap_block_clear(block);
		block->since_ns = since;
		block->until_ns = until;
		add_lines(block, world->line[i]);
		assert_int_equal(pfw_overlap_take(overlap, block), 0);
	}
	assert_int_equal(pfw_overlap_end(overlap), 0);
	pfw_overlap_block_free(block);
}

static void judge(const struct pfw_overlap *found, const struct pfw_overlap *true_one)
{
	uint8_t sketch[2][PFW_SKETCH_BYTES_MAX];
	size_t bytes = pfw_sketch_encode(&true_one->gaps.gap, sketch[0]);

	assert_int_equal(found->least_ns, true_one->least_ns);
	assert_int_equal(found->greatest_ns, true_one->greatest_ns);
	assert_memory_equal(&found->sums, &true_one->sums, sizeof(found->sums));
	assert_int_equal(found->times, true_one->times);
	for (size_t i = 0; i < found->times; i++)
		assert_true(found->time[i].set == true_one->time[i].set &&
			    found->time[i].ns == true_one->time[i].ns);
	assert_int_equal(found->gaps.count, true_one->gaps.count);
	assert_int_equal(found->gaps.unmatched, true_one->gaps.unmatched);
	assert_int_equal(found->gaps.sum_ns, true_one->gaps.sum_ns);
	assert_int_equal(found->gaps.max_ns, true_one->gaps.max_ns);
	assert_int_equal(pfw_sketch_encode(&found->gaps.gap, sketch[1]), bytes);
	assert_memory_equal(sketch[1], sketch[0], bytes);
	assert_int_equal(found->steps, true_one->steps);
	assert_int_equal(found->cells, true_one->cells);
	for (size_t i = 0; i < found->steps; i++)
		assert_memory_equal(&found->step[i], &true_one->step[i], sizeof(found->step[i]));
	if (found->cells)
		assert_memory_equal(found->cell, true_one->cell,
				    found->cells * sizeof(*found->cell));
}

/* Compare a window.  Whether its middle came from the index. */
static bool try_window(const struct world *world, int64_t since, int64_t until)
{
	struct pfw_overlap_window *window;
	struct pfw_overlap all, found, true_one;
	bool fits = false;

	put_and_read(world, &all);
	if (pfw_overlap_window_find(&window, &all, since, until))
		return false;
	read_window(world, window, since, until, &found);
	if (!found.misfit) {
		read_window(world, NULL, since, until, &true_one);
		judge(&found, &true_one);
		pfw_overlap_release(&true_one);
		fits = true;
	}
	pfw_overlap_release(&found);
	pfw_overlap_window_close(window);
	return fits;
}

static void windows_are_those_of_all_lines(void **unused)
{
	struct world *world = malloc(sizeof(*world));
	unsigned kept = 0;

	(void)unused;
	for (unsigned i = 0; i < random_cases(WORLDS); i++) {
		fill(world);
		for (unsigned j = 0; j < 4; j++) {
			uint64_t all = (uint64_t)(world->greatest - world->least);
			int64_t since = world->least + (int64_t)any_below(all / 2) - 5;
			int64_t until;

			if (any_below(2)) /* at the end of a block, where a mark is */
				since = world->line[any_below(BLOCKS / 2)][LINES - 1].begin + 1;
			until = any_below(4) ? since + (int64_t)any_below(all)
					     : world->line[any_below(BLOCKS)][LINES - 1].begin + 1;
			kept += try_window(world, any_below(4) ? since : INT64_MIN,
					   any_below(4) ? until : INT64_MAX);
		}
	}
	free(world);
	/* Some windows are short, some launches far from their kernels. */
	assert_true(kept > random_cases(WORLDS) / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(windows_are_those_of_all_lines) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
