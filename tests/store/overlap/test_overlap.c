/* test_overlap.c - the sweep against one look at each instant; its rows in an index; launches. */
#include "store/overlap/overlap.h"

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
#include "store/kit/grow.h"
#include "store/overlap/in_index.h"

/* The bytes of a row, for a reader. */
#define ROW(data, bytes) ((struct pfw_varints[]){ pfw_varints(data, bytes) })

#define ROOM 600
#define STEPS 8

/* ---- lines ---- */

static void add(struct pfw_overlap_block *block, const char *format, ...)
{
	struct pfw_entry entry;
	char line[512];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	pfw_entry_parse(&entry, line, strlen(line));
	assert_int_equal(entry.kind, PFW_ENTRY_EVENT);
	entry.process = entry.pid;
	assert_int_equal(pfw_overlap_block_add(block, &entry, NULL), 0);
}

static void span(struct pfw_overlap_block *block, const char *name, const char *cat, int64_t begin,
		 int64_t end, const char *args)
{
	add(block,
	    "{\"id\":1,\"name\":\"%s\",\"cat\":\"%s\",\"pid\":1,\"tid\":1,\"ts\":%" PRId64
	    ".%03d,\"dur\":%" PRId64 ".%03d,\"ph\":\"X\",\"args\":{%s}}",
	    name, cat, begin / 1000, (int)(begin % 1000), (end - begin) / 1000,
	    (int)((end - begin) % 1000), args);
}

static void step_sets(const struct pfw_overlap *overlap, const struct pfw_overlap_step *step,
		      int64_t set_ns[PFW_OVERLAP_SETS])
{
	for (uint32_t i = 0; i < step->cells; i++) {
		uint64_t cell = overlap->cell[step->first + i];

		set_ns[cell % PFW_OVERLAP_SETS] += (int64_t)(cell >> PFW_ACTIVITIES);
	}
}

/* ---- instants ---- */

struct world {
	unsigned set[ROOM];
	int step[ROOM]; /* -1: none */
	int64_t least, greatest;
};

static const struct {
	const char *name, *cat, *args;
} lines[] = {
	[PFW_ACTIVITY_IO] = { "read", "POSIX", "\"ret\":7" },
	[PFW_ACTIVITY_CPU] = { "aten::mm", "PP", "\"kind\":\"cpu_op\"" },
	[PFW_ACTIVITY_GPU] = { "gemm", "PP", "\"kind\":\"kernel\",\"device\":1" },
	[PFW_ACTIVITY_COMM] = { "ncclDevKernel", "PP", "\"kind\":\"kernel\",\"device\":1" },
	[PFW_ACTIVITY_COPY] = { "Memset", "PP", "\"kind\":\"memset\",\"bytes\":5" },
	[PFW_ACTIVITY_LOAD] = { "fetch", "dataloader", "" },
	[PFW_ACTIVITY_WAIT] = { "pthread_mutex_lock", "SYNC", "\"ret\":0" },
};

/* Some events of a stretch of time, in any order. */
static void fill(struct world *world, struct pfw_overlap_block *block, int64_t from, int64_t to)
{
	for (uint64_t left = any_below(30); left; left--) {
		unsigned what = (unsigned)any_below(PFW_ACTIVITY_LOAD + 2);
		int64_t begin = from + (int64_t)any_below((uint64_t)(to - from));
		int64_t end = begin + (int64_t)any_below((uint64_t)(ROOM - begin)) /
					      (1 + (int64_t)any_below(20));

		if (what == PFW_ACTIVITY_QUEUED) /* from launches and kernels, below */
			what = PFW_ACTIVITY_WAIT;
		span(block, lines[what].name, lines[what].cat, begin, end, lines[what].args);
		for (int64_t i = begin; i < end; i++)
			world->set[i] |= 1u << what;
		world->least = begin < world->least ? begin : world->least;
		world->greatest = end > world->greatest ? end : world->greatest;
	}
}

static void fill_steps(struct world *world, struct pfw_overlap_block *block)
{
	int64_t begin = (int64_t)any_below(50);

	for (unsigned i = 0; i < STEPS && begin < ROOM - 10; i++) {
		int64_t end = begin + 1 + (int64_t)any_below((uint64_t)(ROOM - begin) / 2);
		char name[32];

		sprintf(name, "ProfilerStep#%u", i);
		span(block, name, "PP", begin, end, "\"kind\":\"step\"");
		for (int64_t j = begin; j < ROOM; j++)
			world->step[j] = j < end ? (int)i : -1;
		world->least = begin < world->least ? begin : world->least;
		world->greatest = end > world->greatest ? end : world->greatest;
		begin += 1 + (int64_t)any_below((uint64_t)(end - begin) * 2);
	}
}

static void judge(const struct pfw_overlap *overlap, const struct world *world)
{
	int64_t all[PFW_OVERLAP_SETS] = { 0 }, step[STEPS][PFW_OVERLAP_SETS] = { { 0 } };
	int64_t found[STEPS][PFW_OVERLAP_SETS] = { { 0 } };

	for (int64_t i = world->least; i < world->greatest; i++) {
		all[world->set[i]]++;
		if (world->step[i] >= 0)
			step[world->step[i]][world->set[i]]++;
	}
	for (size_t i = 0; i < overlap->times; i++)
		all[overlap->time[i].set] -= overlap->time[i].ns;
	for (unsigned i = 0; i < PFW_OVERLAP_SETS; i++)
		assert_int_equal(all[i], 0);
	for (size_t i = 0; i < overlap->steps; i++) {
		assert_true(overlap->step[i].number < STEPS);
		step_sets(overlap, &overlap->step[i], found[overlap->step[i].number]);
	}
	assert_memory_equal(found, step, sizeof(step));
}

static void begin_world(struct world *world)
{
	*world = (struct world){ .least = INT64_MAX, .greatest = INT64_MIN };
	for (unsigned i = 0; i < ROOM; i++)
		world->step[i] = -1;
}

static void the_sweep_sees_each_instant(void **unused)
{
	struct pfw_overlap_block *block = pfw_overlap_block_create();
	struct pfw_overlap overlap;
	struct world world;

	(void)unused;
	for (unsigned i = 0; i < 2000; i++) {
		begin_world(&world);
		pfw_overlap_init(&overlap);
		for (uint64_t left = any_below(6); left; left--) {
			pfw_overlap_block_clear(block);
			fill(&world, block, 0, ROOM);
			assert_int_equal(pfw_overlap_take(&overlap, block), 0);
		}
		pfw_overlap_block_clear(block);
		fill_steps(&world, block);
		assert_int_equal(pfw_overlap_take(&overlap, block), 0);
		assert_int_equal(pfw_overlap_end(&overlap), 0);
		judge(&overlap, &world);
		pfw_overlap_release(&overlap);
	}
	pfw_overlap_block_free(block);
}

/* ---- step by step, and by way of an index ---- */

static void read_back(const struct pfw_blob *rows, size_t count, const struct world *world)
{
	struct pfw_overlap overlap;

	pfw_overlap_init(&overlap);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(pfw_overlap_read_row(&overlap, ROW(rows[i].data, rows[i].bytes),
						      i + 1 == count),
				 0);
	judge(&overlap, world);
	pfw_overlap_release(&overlap);
	/* Cut, or changed: refused, or read as something else, and no more. */
	for (size_t i = 0; i < 20 && rows[count - 1].bytes; i++) {
		const struct pfw_blob *row = &rows[count - 1];
		size_t bytes = any_below(2) ? row->bytes : any_below(row->bytes);
		uint8_t *copy = malloc(bytes + 1);

		memcpy(copy, row->data, bytes);
		for (uint64_t left = any_below(4); bytes && left; left--)
			copy[any_below(bytes)] = (uint8_t)any_below(256);
		pfw_overlap_init(&overlap);
		pfw_overlap_read_row(&overlap, ROW(copy, bytes), true);
		pfw_overlap_release(&overlap);
		free(copy);
	}
}

static void *sorted_file(void)
{
	void *file = pfw_index_new_file(&pfw_overlap_kind);

	pfw_overlap_kind.sorted(file);
	return file;
}

static void sorted_blocks_can_be_swept_as_they_come(void **unused)
{
	struct pfw_overlap_block *block = pfw_overlap_block_create();

	(void)unused;
	for (unsigned i = 0; i < 1000; i++) {
		void *file = sorted_file();
		struct pfw_blob rows[8] = { { 0 } };
		size_t count = 0;
		struct world world;

		begin_world(&world);
		pfw_overlap_block_clear(block);
		fill_steps(&world, block);
		for (int64_t at = 0; at < ROOM; at += ROOM / 6) {
			fill(&world, block, at, at + ROOM / 6);
			assert_int_equal(pfw_overlap_kind.take(file, block, &rows[count]), 0);
			count += rows[count].bytes != 0;
			/* The lag of the index is longer than all of this. */
			assert_int_equal(pfw_overlap_advance(file, at), 0);
			pfw_overlap_block_clear(block);
		}
		assert_int_equal(pfw_overlap_kind.end(file, &rows[count]), 0);
		read_back(rows, count + 1, &world);
		pfw_index_free_file(&pfw_overlap_kind, file);
		for (size_t j = 0; j <= count; j++)
			pfw_blob_free(&rows[j]);
	}
	pfw_overlap_block_free(block);
}

static void many_steps_become_rows_as_they_come(void **unused)
{
	struct pfw_overlap_block *block = pfw_overlap_block_create();
	void *file = sorted_file();
	struct pfw_overlap overlap;
	struct pfw_blob row = { 0 };
	size_t rows = 0, steps = 0;

	(void)unused;
	pfw_overlap_init(&overlap);
	for (int64_t i = 0; i < 40; i++) {
		pfw_overlap_block_clear(block);
		for (int64_t j = 0; j < 1000; j++, steps++) {
			int64_t begin = (i * 1000 + j) * 10000000;
			char name[32];

			sprintf(name, "ProfilerStep#%zu", steps);
			span(block, name, "PP", begin, begin + 9000000, "\"kind\":\"step\"");
			span(block, "read", "POSIX", begin + 5, begin + 105, "\"ret\":7");
		}
		row.bytes = 0;
		assert_int_equal(pfw_overlap_kind.take(file, block, &row), 0);
		assert_int_equal(pfw_overlap_read_row(&overlap, ROW(row.data, row.bytes), false),
				 0);
		rows += row.bytes != 0;
	}
	row.bytes = 0;
	assert_int_equal(pfw_overlap_kind.end(file, &row), 0);
	assert_int_equal(pfw_overlap_read_row(&overlap, ROW(row.data, row.bytes), true), 0);
	assert_true(rows > 5);
	assert_int_equal(overlap.steps, steps);
	for (size_t i = 0; i < steps; i++) {
		int64_t set_ns[PFW_OVERLAP_SETS] = { 0 };

		assert_int_equal(overlap.step[i].number, i);
		step_sets(&overlap, &overlap.step[i], set_ns);
		assert_int_equal(set_ns[0], 9000000 - 100);
		assert_int_equal(set_ns[1 << PFW_ACTIVITY_IO], 100);
	}
	assert_int_equal(overlap.sums.io_bytes, 7 * steps);
	pfw_overlap_release(&overlap);
	pfw_index_free_file(&pfw_overlap_kind, file);
	pfw_blob_free(&row);
	pfw_overlap_block_free(block);
}

/* ---- what a line is ---- */

static void bytes_of_calls(void **unused)
{
	static const struct {
		const char *name, *cat, *args;
		uint64_t bytes;
	} calls[] = {
		{ "read", "POSIX", "\"ret\":100", 100 },
		{ "read", "POSIX", "\"ret\":-1,\"errno\":\"EIO\"", 0 },
		{ "fread", "STDIO", "\"ret\":3,\"size\":512", 1536 },
		{ "fputs", "STDIO", "\"ret\":1,\"count\":12", 12 },
		{ "fputs", "STDIO", "\"ret\":-1,\"count\":12", 0 },
		{ "open", "POSIX", "\"ret\":5", 0 },
		{ "sendfile", "POSIX", "\"ret\":9", 9 },
		{ "a_call_of_more_than_twenty_two", "POSIX", "\"ret\":9", 0 },
		{ "fread", "STDIO", "\"ret\":9223372036854775807,\"size\":2", INT64_MAX },
	};
	struct pfw_overlap_block *block = pfw_overlap_block_create();

	(void)unused;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		pfw_overlap_block_clear(block);
		span(block, calls[i].name, calls[i].cat, 10, 20, calls[i].args);
		assert_int_equal(block->sums.io_calls, 1);
		assert_int_equal(block->sums.io_bytes, calls[i].bytes);
	}
	pfw_overlap_block_clear(block);
	add(block, "{\"id\":1,\"name\":\"summed\",\"cat\":\"pfw\",\"pid\":1,\"tid\":1,\"ts\":5.000,"
		   "\"ph\":\"M\",\"args\":{\"name\":\"read\",\"count\":12,\"dur\":3.500}}");
	assert_int_equal(block->sums.summed_calls, 12);
	assert_int_equal(block->sums.summed_ns, 3500);
	assert_int_equal(block->sums.events, 0);
	pfw_overlap_block_free(block);
}

/* ---- launches ---- */

static void add_end(struct pfw_gap_ends *ends, const struct pfw_gap_end *end)
{
	assert_int_equal(PFW_PUSH(ends->at, ends->count, ends->room, *end), 0);
}

static void launches_in_order_of_time(void **unused)
{
	struct pfw_launch_gaps gaps = PFW_LAUNCH_GAPS_EMPTY;
	struct pfw_gap_ends calls = { 0 }, kernels = { 0 };
	struct pfw_intervals queued = { 0 };
	const uint64_t count = 400000;

	(void)unused;
	/* A kernel before its call, one whose call never comes, and one that began before it. */
	add_end(&kernels, &(struct pfw_gap_end){ 1, 5, 150 });
	assert_int_equal(pfw_launch_gaps_add(&gaps, &calls, &kernels, &queued), 0);
	kernels.count = 0;
	add_end(&calls, &(struct pfw_gap_end){ 1, 5, 110 });
	add_end(&calls, &(struct pfw_gap_end){ 1, 5, 100 });
	add_end(&calls, &(struct pfw_gap_end){ 1, 6, 400 });
	add_end(&kernels, &(struct pfw_gap_end){ 1, 6, 390 });
	assert_int_equal(pfw_launch_gaps_add(&gaps, &calls, &kernels, &queued), 0);
	assert_int_equal(gaps.count, 2);
	assert_int_equal(gaps.sum_ns, 50);
	assert_int_equal(queued.count, 1);
	assert_int_equal(queued.at[0].begin, 100);
	assert_int_equal(gaps.unmatched, 0);
	/* All that is remembered of many calls are the last ones. */
	for (uint64_t i = 0; i < count; i++) {
		calls.count = kernels.count = 0;
		add_end(&calls, &(struct pfw_gap_end){ 1, 10 + i, 1000 + (int64_t)i });
		if (i >= 100000) /* of the call 100,000 before */
			add_end(&kernels, &(struct pfw_gap_end){ 1, i - 99990, 1000 + (int64_t)i });
		assert_int_equal(pfw_launch_gaps_add(&gaps, &calls, &kernels, &queued), 0);
	}
	assert_int_equal(pfw_launch_gaps_end(&gaps, &queued), 0);
	assert_int_equal(gaps.unmatched, 0);
	assert_false(gaps.inexact);
	assert_int_equal(gaps.count, 2 + count - 100000);
	assert_int_equal(gaps.max_ns, 100000);
	/* The call of this one was forgotten. */
	calls.count = kernels.count = 0;
	add_end(&kernels, &(struct pfw_gap_end){ 1, 10, 2000000 });
	assert_int_equal(pfw_launch_gaps_add(&gaps, &calls, &kernels, &queued), 0);
	assert_int_equal(pfw_launch_gaps_end(&gaps, &queued), 0);
	assert_int_equal(gaps.unmatched, 1);
	assert_true(gaps.inexact);
	pfw_launch_gaps_release(&gaps);
	pfw_intervals_release(&queued);
	free(calls.at);
	free(kernels.at);
}

static void launches_in_any_order(void **unused)
{
	struct pfw_launch_gaps gaps = PFW_LAUNCH_GAPS_EMPTY;
	struct pfw_gap_ends calls = { 0 }, kernels = { 0 }, none = { 0 };
	struct pfw_intervals queued = { 0 };

	(void)unused;
	/* The earliest call counts, also if it comes after its kernel and another call. */
	add_end(&calls, &(struct pfw_gap_end){ 1, 5, 120 });
	add_end(&kernels, &(struct pfw_gap_end){ 1, 5, 150 });
	add_end(&kernels, &(struct pfw_gap_end){ 2, 5, 150 });
	add_end(&kernels, &(struct pfw_gap_end){ 1, 6, 90 });
	assert_int_equal(pfw_launch_gaps_keep(&gaps, &calls, &kernels), 0);
	calls.count = 0;
	add_end(&calls, &(struct pfw_gap_end){ 1, 5, 100 });
	add_end(&calls, &(struct pfw_gap_end){ 1, 6, 100 });
	assert_int_equal(pfw_launch_gaps_keep(&gaps, &calls, &none), 0);
	assert_int_equal(pfw_launch_gaps_end(&gaps, &queued), 0);
	assert_int_equal(gaps.count, 2);
	assert_int_equal(gaps.sum_ns, 50);
	assert_int_equal(gaps.unmatched, 1);
	assert_false(gaps.inexact);
	assert_int_equal(queued.count, 1);
	assert_int_equal(queued.at[0].begin, 100);
	pfw_launch_gaps_release(&gaps);
	pfw_intervals_release(&queued);
	free(calls.at);
	free(kernels.at);
}

/* The earliest call of an end among some. */
static bool find_call(const struct pfw_gap_ends *calls, const struct pfw_gap_end *kernel,
		      int64_t *ns)
{
	bool found = false;

	for (size_t i = 0; i < calls->count; i++) {
		const struct pfw_gap_end *call = &calls->at[i];

		if (call->process != kernel->process || call->correlation != kernel->correlation ||
		    (found && call->ns >= *ns))
			continue;
		*ns = call->ns;
		found = true;
	}
	return found;
}

static void add_random(struct pfw_gap_ends *ends, struct pfw_gap_ends *all, unsigned shape)
{
	const struct pfw_gap_end end = {
		.process = 1 + (shape & 1 && !any_below(40)),
		.correlation = shape & 2 && !any_below(40) ? any_below(8) << 40 | 1
							   : 1000 + any_below(60),
		.ns = (int64_t)any_below(2000) - (shape & 4 ? 3 : -1000),
	};

	add_end(ends, &end);
	add_end(all, &end);
}

/* Numbers of one process that are dense are in a table; others, and times before 0, are sorted. */
static void launches_of_any_numbers(void **unused)
{
	(void)unused;
	for (unsigned shape = 0; shape < 64; shape++) {
		struct pfw_launch_gaps gaps = PFW_LAUNCH_GAPS_EMPTY;
		struct pfw_gap_ends calls = { 0 }, kernels = { 0 }, of[2] = { { 0 }, { 0 } };
		struct pfw_intervals queued = { 0 };
		uint64_t count = 0, unmatched = 0;
		int64_t sum_ns = 0;

		for (unsigned block = 0; block < 8; block++) {
			of[0].count = of[1].count = 0;
			for (unsigned i = 0; i < 20; i++) {
				add_random(&of[0], &calls, shape);
				add_random(&of[1], &kernels, shape);
			}
			assert_int_equal(pfw_launch_gaps_keep(&gaps, &of[0], &of[1]), 0);
			assert_true(pfw_launch_gaps_kept(&gaps));
		}
		for (size_t i = 0; i < kernels.count; i++) {
			int64_t ns = 0;
			bool found = find_call(&calls, &kernels.at[i], &ns);

			count += found;
			unmatched += !found;
			sum_ns += found && kernels.at[i].ns > ns ? kernels.at[i].ns - ns : 0;
		}
		assert_int_equal(pfw_launch_gaps_end(&gaps, &queued), 0);
		assert_int_equal(gaps.count, count);
		assert_int_equal(gaps.unmatched, unmatched);
		assert_int_equal(gaps.sum_ns, sum_ns);
		assert_int_equal(gaps.gap.total, count);
		pfw_launch_gaps_release(&gaps);
		pfw_intervals_release(&queued);
		free(calls.at);
		free(kernels.at);
		free(of[0].at);
		free(of[1].at);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sweep_sees_each_instant),
		cmocka_unit_test(sorted_blocks_can_be_swept_as_they_come),
		cmocka_unit_test(many_steps_become_rows_as_they_come),
		cmocka_unit_test(bytes_of_calls),
		cmocka_unit_test(launches_in_order_of_time),
		cmocka_unit_test(launches_in_any_order),
		cmocka_unit_test(launches_of_any_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
