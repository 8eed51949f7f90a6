/* test_table_index.c - rows of an index's kind `table`: how they add up; rows that are damaged. */
#include "store/table/in_index.h"

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
#include "store/summary/summary.h"

/* The bytes of a row, for a reader. */
#define ROW(data, bytes) ((struct pfw_varints[]){ pfw_varints(data, bytes) })

/* A file whose blocks are filled by the kind's own way. */
struct made {
	void *file, *block;
	struct pfw_summary summary;
	struct pfw_blob rows, more[PFW_INDEX_MORES]; /* steps, their durations, their kinds */
};

static void begin(struct made *made)
{
	*made = (struct made){ .file = pfw_index_new_file(&pfw_table_kind),
			       .block = pfw_index_new_block(&pfw_table_kind) };
	assert_int_equal(pfw_summary_init(&made->summary), 0);
}

__attribute__((format(printf, 2, 3))) static void add(struct made *made, const char *format, ...)
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
	entry.at_begin = false;
	assert_int_equal(pfw_summary_add(&made->summary, &entry), 0);
	assert_int_equal(pfw_table_kind.add(made->block, &entry, &made->summary), 0);
}

static void next_block(struct made *made)
{
	assert_int_equal(pfw_table_kind.take(made->file, made->block, &made->rows), 0);
	pfw_table_kind.block_clear(made->block);
	pfw_summary_clear(&made->summary);
	assert_int_equal(made->rows.bytes, 0);
}

static void end(struct made *made)
{
	next_block(made);
	assert_int_equal(pfw_table_kind.end(made->file, &made->rows), 0);
	for (unsigned i = 0; i < PFW_INDEX_MORES; i++)
		assert_int_equal(pfw_table_kind.more[i](made->file, &made->more[i]), 0);
}

static void release(struct made *made)
{
	pfw_index_free_block(&pfw_table_kind, made->block);
	pfw_index_free_file(&pfw_table_kind, made->file);
	pfw_summary_release(&made->summary);
	pfw_blob_free(&made->rows);
	for (unsigned i = 0; i < PFW_INDEX_MORES; i++)
		pfw_blob_free(&made->more[i]);
}

/* An operator with a call, a kernel that it launched, and a read; ts in µs. */
static void add_work(struct made *made, unsigned number, uint64_t pid)
{
	static const char head[] = "\"cat\":\"PP\",\"pid\":%" PRIu64 ",\"tid\":%u,\"ts\":%u.000";
	char text[sizeof(head) + 64];
	unsigned ts = 1000 + number * 100;

	snprintf(text, sizeof(text), head, pid, 1, ts);
	add(made,
	    "{\"id\":1,\"name\":\"aten::%c\",%s,\"dur\":50.000,\"ph\":\"X\",\"args\":{\"kind\":"
	    "\"cpu_op\",\"external_id\":%u,\"input_shapes\":[[%u,2]]}}",
	    'a' + number % 3, text, number + 1, number % 5);
	snprintf(text, sizeof(text), head, pid, 1, ts + 10);
	add(made,
	    "{\"id\":2,\"name\":\"cudaLaunchKernel\",%s,\"dur\":20.000,\"ph\":\"X\",\"args\":{"
	    "\"kind\":\"runtime\",\"correlation\":%u}}",
	    text, number + 1);
	snprintf(text, sizeof(text), head, pid, 10001000, ts + 60);
	add(made,
	    "{\"id\":3,\"name\":\"gemm\",%s,\"dur\":7.000,\"ph\":\"X\",\"args\":{\"kind\":\"kernel\","
	    "\"correlation\":%u,\"device\":1,\"external_id\":%u}}",
	    text, number + 1, number + 1);
	add(made,
	    "{\"id\":4,\"name\":\"read\",\"cat\":\"POSIX\",\"pid\":%" PRIu64
	    ",\"tid\":2,\"ts\":%u.000,\"dur\":%u.000,\"ph\":\"X\",\"args\":{\"fname\":\"/x\",\"ret\":"
	    "10}}",
	    pid, ts, number % 40);
	if (number % 10)
		return;
	snprintf(text, sizeof(text), head, pid, 3, ts);
	add(made,
	    "{\"id\":5,\"name\":\"ProfilerStep#%u\",%s,\"dur\":990.000,\"ph\":\"X\",\"args\":{"
	    "\"kind\":\"step\"}}",
	    number / 10, text);
}

/* ---- sums of rows ---- */

struct sums {
	uint64_t rows, count;
	int64_t self_ns, self_device_ns, device_ns, bytes;
	uint64_t durations, calls_in, kinds;
};

static void add_sums(struct sums *sums, const struct pfw_tally *tally)
{
	sums->rows++;
	sums->count += tally->count;
	sums->self_ns += tally->self_ns;
	sums->self_device_ns += tally->self_device_ns;
	sums->device_ns += tally->device_ns;
	sums->bytes += tally->bytes;
}

static int take_row(void *user, const struct pfw_table_row *row)
{
	add_sums(user, &row->sums);
	return 0;
}

static int take_step(void *user, const struct pfw_table_step_row *row)
{
	add_sums(user, &row->sums);
	return 0;
}

static int take_durations(void *user, int64_t step, struct pfw_varints durations)
{
	struct pfw_sketch sketch = { 0 };
	struct sums *sums = user;
	int error = pfw_table_add_durations(&sketch, durations);

	sums->durations += sketch.total;
	sums->calls_in += (uint64_t)step * sketch.total;
	pfw_sketch_release(&sketch);
	return error;
}

static int take_kind(void *user, const struct pfw_table_kind_row *row)
{
	struct sums *sums = user;

	sums->kinds += row->sums.count;
	return 0;
}

static int take_thread_row(void *user, const struct pfw_table_thread_row *row)
{
	add_sums(user, &row->row.sums);
	return row->pid != 7;
}

static int take_thread(void *user, uint64_t pid, uint64_t tid, unsigned says)
{
	(void)user;
	return pid != 7 || (says == PFW_TABLE_SAYS_DEVICE) != (tid == 10001000);
}

static void rows_have_all(void **unused)
{
	struct made made;
	struct sums names = { 0 }, steps = { 0 }, threads = { 0 };
	struct pfw_table_thread_rows by_thread = { .user = &threads,
						   .row = take_thread_row,
						   .thread = take_thread };
	struct pfw_table_rows rows = { .user = &names, .row = take_row };
	struct pfw_table_step_rows by_step = { .user = &steps,
					       .row = take_step,
					       .kind = take_kind };
	struct pfw_table_step_durations durations = { &steps, take_durations };

	(void)unused;
	begin(&made);
	for (unsigned i = 0; i < 300; i++) {
		add_work(&made, i, 7);
		if (i % 70 == 69)
			next_block(&made);
	}
	end(&made);
	assert_int_equal(pfw_table_read_rows(&rows, ROW(made.rows.data, made.rows.bytes), true), 0);
	/* 3 names of 5 shapes, the launch, the kernel, the step. */
	assert_int_equal(names.rows, 18);
	assert_int_equal(names.count, 300 * 3 + 30);
	assert_int_equal(names.self_ns, 300 * 50000ll + 30 * 990000ll);
	/* Each kernel's own row, and that of the operator which launched it. */
	assert_int_equal(names.self_device_ns, 300 * 2 * 7000ll);
	assert_int_equal(rows.says, PFW_TABLE_SAYS_DEVICE);
	assert_int_equal(
		pfw_table_read_threads(&by_thread, ROW(made.rows.data, made.rows.bytes), true), 0);
	assert_memory_equal(&threads, &names, sizeof(names));
	assert_int_equal(pfw_table_read_steps(&by_step, ROW(made.more[0].data, made.more[0].bytes),
					      true),
			 0);
	assert_int_equal(pfw_table_read_durations(&durations,
						  ROW(made.more[1].data, made.more[1].bytes), true),
			 0);
	assert_int_equal(pfw_table_read_kinds(&by_step, ROW(made.more[2].data, made.more[2].bytes),
					      true),
			 0);
	assert_int_equal(steps.rows, 30 * 3);
	assert_int_equal(steps.count, names.count + 300);
	assert_int_equal(steps.self_device_ns, names.self_device_ns);
	assert_int_equal(steps.bytes, 3000);
	assert_int_equal(steps.durations, 300);
	assert_int_equal(steps.calls_in, 10 * 30 * 29 / 2);
	assert_int_equal(steps.kinds, names.count);
	assert_int_equal(by_step.leaders, 1);
	assert_false(by_step.followers);
	release(&made);
}

/* A call in a step of its process, which lasts 3.9 of 4 seconds, or in step 50, which it says. */
static void add_read(struct made *made, unsigned pid, unsigned step, unsigned number, int64_t ns,
		     int64_t bytes)
{
	add(made,
	    "{\"id\":1,\"name\":\"read\",\"cat\":\"POSIX\",\"pid\":%u,\"tid\":1,\"ts\":%u.000,"
	    "\"dur\":%" PRId64 ".%03u,\"ph\":\"X\",\"args\":{\"fname\":\"/x\",\"ret\":%" PRId64
	    "%s}}",
	    pid, step * 4000000 + number * 100000, ns / 1000, (unsigned)(ns % 1000), bytes,
	    number % 3 == 1 ? ",\"step\":50" : "");
}

static void add_step(struct made *made, unsigned pid, unsigned step)
{
	add(made,
	    "{\"id\":2,\"name\":\"ProfilerStep#%u\",\"cat\":\"PP\",\"pid\":%u,\"tid\":1,"
	    "\"ts\":%u.000,\"dur\":3900000.000,\"ph\":\"X\",\"args\":{\"kind\":\"step\"}}",
	    10 * pid + step, pid, step * 4000000);
}

/* Durations and bytes of more than 32 bits, begins that are seconds apart, and processes in turn. */
static void calls_of_any_size_are_in_their_steps(void **unused)
{
	static const struct {
		int64_t ns, bytes;
	} calls[] = { { 7, 10 },
		      { UINT32_MAX, INT32_MAX },
		      { (int64_t)UINT32_MAX + 1, 20 },
		      { 9, (int64_t)INT32_MAX + 1 },
		      { 5000000000000, 1ll << 40 },
		      { 0, 0 } };
	struct sums sums = { 0 }, all = { 0 };
	struct pfw_table_step_rows steps = { .user = &sums, .row = take_step };
	struct pfw_table_step_durations durations = { &sums, take_durations };
	struct made made;

	(void)unused;
	begin(&made);
	for (unsigned i = 0; i < 3 * 2 * 12; i++) {
		unsigned step = 1 + i / 24, pid = 1 + (step + i / 12) % 2, number = i % 12;

		add_read(&made, pid, step, number, calls[i % 6].ns, calls[i % 6].bytes);
		if (number == 11)
			add_step(&made, pid, step);
		if (i == 40)
			next_block(&made);
		all.self_ns += calls[i % 6].ns;
		all.bytes += calls[i % 6].bytes;
		all.calls_in += number % 3 == 1 ? 50 : 10 * pid + step;
	}
	end(&made);
	assert_int_equal(
		pfw_table_read_steps(&steps, ROW(made.more[0].data, made.more[0].bytes), true), 0);
	assert_int_equal(pfw_table_read_durations(&durations,
						  ROW(made.more[1].data, made.more[1].bytes), true),
			 0);
	/* Calls of 7 steps, and the spans of 6. */
	assert_int_equal(sums.rows, 7 + 6);
	assert_int_equal(sums.count, 72 + 6);
	assert_int_equal(sums.self_ns, all.self_ns + 6 * 3900000000);
	assert_int_equal(sums.bytes, all.bytes);
	assert_int_equal(sums.durations, 72);
	assert_int_equal(sums.calls_in, all.calls_in);
	release(&made);
}

/* A text is printed as it is, a list as Python prints it. */
static void shapes_as_text_are_others(void **unused)
{
	static const char *const shapes[] = { "[[1,2]]", "\"[[1,2]]\"", "[[1,2]]", "\"[[1,2]]\"" };
	struct sums sums = { 0 };
	struct pfw_table_rows rows = { .user = &sums, .row = take_row };
	struct made made;

	(void)unused;
	begin(&made);
	for (unsigned i = 0; i < 4; i++)
		add(&made,
		    "{\"id\":1,\"name\":\"aten::a\",\"cat\":\"PP\",\"pid\":1,\"tid\":1,\"ts\":%u.000,"
		    "\"dur\":1.000,\"ph\":\"X\",\"args\":{\"kind\":\"cpu_op\",\"input_shapes\":%s}}",
		    1000 + 10 * i, shapes[i]);
	end(&made);
	assert_int_equal(pfw_table_read_rows(&rows, ROW(made.rows.data, made.rows.bytes), true), 0);
	assert_int_equal(sums.rows, 2);
	release(&made);
}

/* Cut, or changed: refused, or read as something else, and no more. */
static void damage_is_harmless(void **unused)
{
	struct sums sums = { 0 };
	struct made made;

	(void)unused;
	begin(&made);
	for (unsigned i = 0; i < 50; i++)
		add_work(&made, i, 7 + i % 2);
	end(&made);
	for (unsigned i = 0; i < 4000; i++) {
		unsigned more = i / 2 % PFW_INDEX_MORES;
		const struct pfw_blob *row = i % 2 ? &made.more[more] : &made.rows;
		struct pfw_table_rows rows = { .user = &sums, .row = take_row };
		struct pfw_table_step_rows by_step = { .user = &sums,
						       .row = take_step,
						       .kind = take_kind };
		struct pfw_table_step_durations durations = { &sums, take_durations };
		struct pfw_table_thread_rows by_thread = { .user = &sums,
							   .row = take_thread_row,
							   .thread = take_thread };
		size_t bytes = any_below(2) ? row->bytes : any_below(row->bytes);
		uint8_t *copy = malloc(bytes + 1);

		sums = (struct sums){ 0 };
		memcpy(copy, row->data, bytes);
		for (uint64_t left = any_below(4); bytes && left; left--)
			copy[any_below(bytes)] = (uint8_t)any_below(256);
		if (i % 2 && more == 1)
			pfw_table_read_durations(&durations, ROW(copy, bytes), true);
		else if (i % 2)
			(more ? pfw_table_read_kinds
			      : pfw_table_read_steps)(&by_step, ROW(copy, bytes), true);
		else if (i % 4)
			pfw_table_read_rows(&rows, ROW(copy, bytes), true);
		else
			pfw_table_read_threads(&by_thread, ROW(copy, bytes), true);
		free(copy);
	}
	release(&made);
}

static void too_many_rows_are_not_kept(void **unused)
{
	struct pfw_table_step_rows by_step = { .row = take_step };
	struct pfw_table_rows rows = { .row = take_row };
	struct made made;

	(void)unused;
	begin(&made);
	for (unsigned i = 0; i < 65537; i++) {
		add(&made,
		    "{\"id\":1,\"name\":\"n%u\",\"cat\":\"app\",\"pid\":1,\"tid\":1,\"ts\":%u.000,"
		    "\"dur\":1.000,\"ph\":\"X\",\"args\":{}}",
		    i, 1000 + i);
		if (i % 4096 == 0)
			next_block(&made);
	}
	end(&made);
	assert_int_equal(pfw_table_read_rows(&rows, ROW(made.rows.data, made.rows.bytes), true),
			 -ENOENT);
	assert_int_equal(pfw_table_read_steps(&by_step, ROW(made.more[0].data, made.more[0].bytes),
					      true),
			 -ENOENT);
	release(&made);
}

static void too_many_threads_are_not_kept(void **unused)
{
	struct pfw_table_thread_rows by_thread = { .row = take_thread_row, .thread = take_thread };
	struct sums sums = { 0 };
	struct pfw_table_rows rows = { .user = &sums, .row = take_row };
	struct made made;

	(void)unused;
	begin(&made);
	for (unsigned i = 0; i < 20000; i++) {
		add(&made,
		    "{\"id\":1,\"name\":\"n\",\"cat\":\"app\",\"pid\":1,\"tid\":%u,\"ts\":%u.000,"
		    "\"dur\":1.000,\"ph\":\"X\",\"args\":{}}",
		    i, 1000 + i);
		if (i % 4096 == 0)
			next_block(&made);
	}
	end(&made);
	assert_int_equal(pfw_table_read_rows(&rows, ROW(made.rows.data, made.rows.bytes), true), 0);
	assert_int_equal(sums.count, 20000);
	assert_int_equal(pfw_table_read_threads(&by_thread, ROW(made.rows.data, made.rows.bytes),
						true),
			 -ENOENT);
	release(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_have_all),
		cmocka_unit_test(calls_of_any_size_are_in_their_steps),
		cmocka_unit_test(shapes_as_text_are_others),
		cmocka_unit_test(damage_is_harmless),
		cmocka_unit_test(too_many_rows_are_not_kept),
		cmocka_unit_test(too_many_threads_are_not_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
