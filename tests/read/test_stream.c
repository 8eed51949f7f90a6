/* read/stream, read/arrow: whose memory is whose.  The values are compared in tests/oracle/test_read.py. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "pfw/read.h"

#define LINES 200000
#define HAS_ARGS(i) ((i) % 5 != 2)

static char path[] = "/tmp/pfw-test-stream-XXXXXX";

static int set_up(void **state)
{
	int fd = mkstemp(path);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	(void)state;
	assert_non_null(file);
	for (int i = 0; i < LINES; i++) {
		fprintf(file,
			"{\"id\":%d,\"name\":\"n%d\",\"cat\":\"c\",\"pid\":1,\"tid\":1,\"ts\":%d.000,"
			"\"dur\":1.000,\"ph\":\"X\",\"args\":{",
			i, i % 7, i);
		if (HAS_ARGS(i))
			fprintf(file,
				"\"fname\":\"/f%d\",\"ret\":%d,\"grid\":[%d],\"occupancy\":0.5,"
				"\"own\":{\"a\":\"%064d\"}",
				i, i, i, i);
		fputs("}}\n", file);
	}
	return fclose(file);
}

static int tear_down(void **state)
{
	(void)state;
	return unlink(path);
}

static struct pfw_read *open_stream(struct ArrowArrayStream *stream, const char *columns)
{
	struct pfw_read *read = pfw_read_new();

	assert_non_null(read);
	assert_int_equal(pfw_read_path(read, path), 0);
	assert_int_equal(pfw_read_set(read, "columns", columns), 0);
	assert_int_equal(pfw_read_set(read, "jobs", "3"), 0);
	assert_int_equal(pfw_read_stream(read, stream), 0);
	return read;
}

/* Batches that outlive the stream and its reader. */
static void test_batches_outlive_all(void **state)
{
	struct ArrowArrayStream stream;
	struct pfw_read *read = open_stream(&stream, "");
	struct ArrowArray batch[64];
	int64_t rows = 0;
	int count = 0;

	(void)state;
	for (; count < 64; count++) {
		assert_int_equal(stream.get_next(&stream, &batch[count]), 0);
		if (!batch[count].release)
			break;
		rows += batch[count].length;
	}
	assert_int_equal(rows, LINES);
	assert_true(count > 3 && count < 64);
	/* After the end there is nothing more. */
	assert_int_equal(stream.get_next(&stream, &batch[63]), 0);
	assert_null(batch[63].release);
	pfw_read_free(read);
	stream.release(&stream);
	assert_null(stream.release);
	while (count--) {
		const int64_t *id = batch[count].children[3]->buffers[1];

		rows -= batch[count].length;
		assert_int_equal(id[0], rows);
		batch[count].release(&batch[count]);
		assert_null(batch[count].release);
	}
}

static bool is_set(const struct ArrowArray *column, int64_t row)
{
	const uint8_t *valid = column->buffers[0];

	return !valid || (valid[row / 8] >> row % 8 & 1);
}

static void check_text(const struct ArrowArray *texts, int64_t number, const char *wanted)
{
	const int32_t *offset = texts->buffers[1];

	assert_int_equal(offset[number + 1] - offset[number], strlen(wanted));
	assert_memory_equal((const char *)texts->buffers[2] + offset[number], wanted,
			    strlen(wanted));
}

/* Of "name,args.fname,args.ret,args.grid,args.occupancy,args_json", what line i has. */
static void check_row(const struct ArrowArray *batch, int64_t row, int i)
{
	struct ArrowArray **column = batch->children;
	char text[128];

	snprintf(text, sizeof(text), "n%d", i % 7);
	check_text(column[0]->dictionary, ((const int32_t *)column[0]->buffers[1])[row], text);
	for (int j = 1; j < 6; j++)
		assert_int_equal(is_set(column[j], row), HAS_ARGS(i));
	snprintf(text, sizeof(text), "{\"own\":{\"a\":\"%064d\"}}", i);
	check_text(column[5], row, HAS_ARGS(i) ? text : "");
	if (!HAS_ARGS(i))
		return;
	snprintf(text, sizeof(text), "/f%d", i);
	check_text(column[1]->dictionary, ((const int32_t *)column[1]->buffers[1])[row], text);
	assert_int_equal(((const int64_t *)column[2]->buffers[1])[row], i);
	assert_int_equal(((const int32_t *)column[3]->children[0]->buffers[1])[3 * row], i);
	assert_true(((const double *)column[4]->buffers[1])[row] == 0.5);
}

/* Rows of many blocks are in one batch. */
static void test_rows_of_joined_blocks(void **state)
{
	struct ArrowArrayStream stream;
	struct pfw_read *read =
		open_stream(&stream, "name,args.fname,args.ret,args.grid,args.occupancy,args_json");
	struct ArrowArray batch;
	int64_t nulls = 0, most = 0;
	int line = 0;

	(void)state;
	while (stream.get_next(&stream, &batch) == 0 && batch.release) {
		for (int64_t row = 0; row < batch.length; row++)
			check_row(&batch, row, line++);
		for (int j = 1; j < 6; j++)
			nulls += batch.children[j]->null_count;
		most = batch.length > most ? batch.length : most;
		batch.release(&batch);
	}
	assert_int_equal(line, LINES);
	assert_int_equal(nulls, 5 * LINES / 5);
	assert_in_range(most, 40000, 65536);
	stream.release(&stream);
	pfw_read_free(read);
}

/* A consumer may move children, and what is inside, and release all in any order. */
static void test_children_that_are_moved(void **state)
{
	struct ArrowArrayStream stream;
	struct pfw_read *read = open_stream(&stream, "name,args.grid,args.kind,args_json");
	struct ArrowArray batch, moved[3], words;
	struct ArrowSchema schema, name;

	(void)state;
	assert_int_equal(stream.get_next(&stream, &batch), 0);
	assert_int_equal(stream.get_schema(&stream, &schema), 0);
	stream.release(&stream);
	pfw_read_free(read);
	name = *schema.children[0];
	schema.children[0]->release = NULL;
	schema.release(&schema);
	assert_string_equal(name.name, "name");
	assert_string_equal(name.dictionary->format, "u");
	name.release(&name);
	for (int i = 0; i < 3; i++) {
		moved[i] = *batch.children[i];
		batch.children[i]->release = NULL;
	}
	batch.release(&batch);
	words = *moved[0].dictionary;
	moved[0].dictionary->release = NULL;
	assert_int_equal(words.length, 7);
	assert_memory_equal(words.buffers[2], "n0n1n2n3n4n5n6", 14);
	moved[0].release(&moved[0]);
	words.release(&words);
	assert_int_equal(((const int32_t *)moved[1].children[0]->buffers[1])[3 * 5], 5);
	assert_int_equal(moved[2].null_count, moved[2].length);
	moved[2].release(&moved[2]);
	moved[1].release(&moved[1]);
}

static void test_stream_that_is_left(void **state)
{
	(void)state;
	for (int batches = 0; batches < 3; batches++) {
		struct ArrowArrayStream stream;
		struct pfw_read *read = open_stream(&stream, "args_json,name,args.fname");

		for (int i = 0; i < batches; i++) {
			struct ArrowArray batch;

			assert_int_equal(stream.get_next(&stream, &batch), 0);
			batch.release(&batch);
		}
		stream.release(&stream);
		pfw_read_free(read);
	}
}

struct reading {
	int64_t rows;
	int parts;
};

static void read_part(void *user, const char *part, int64_t least_ns, int64_t greatest_ns)
{
	struct reading *reading = user;
	struct pfw_read *read = pfw_read_new();
	struct ArrowArrayStream stream;
	struct ArrowArray batch;

	assert_true(least_ns == INT64_MIN &&
		    greatest_ns == INT64_MAX); /* of a file without an index */
	reading->parts++;
	assert_int_equal(pfw_read_path(read, path), 0);
	assert_int_equal(pfw_read_set(read, "columns", "id"), 0);
	assert_int_equal(pfw_read_set(read, "part", part), 0);
	assert_int_equal(pfw_read_stream(read, &stream), 0);
	pfw_read_free(read);
	while (stream.get_next(&stream, &batch) == 0 && batch.release) {
		const int64_t *id = batch.children[0]->buffers[1];

		assert_int_equal(id[0], reading->rows);
		reading->rows += batch.length;
		batch.release(&batch);
	}
	stream.release(&stream);
}

static void test_parts(void **state)
{
	struct pfw_read *read = pfw_read_new();
	struct reading reading = { .rows = 0 };
	struct ArrowArrayStream stream;

	(void)state;
	assert_int_equal(pfw_read_path(read, path), 0);
	assert_int_equal(pfw_read_divide(read, 4, read_part, &reading), 0);
	assert_int_equal(reading.rows, LINES);
	assert_true(reading.parts > 2);
	assert_int_equal(pfw_read_set(read, "part", "0-1/0123456789abcdef"), 0);
	assert_int_equal(pfw_read_stream(read, &stream), -ESTALE);
	pfw_read_free(read);
}

/* A table is made when it is asked for, and outlives its reader and its stream. */
static void test_tables(void **state)
{
	static const struct {
		const char *command, *option[3];
		int error;
	} tables[] = {
		{ "table", { "group-by", "name,tid", NULL }, 0 },
		{ "overlap", { "steps", "1", NULL }, 0 },
		{ "patterns", { "row-limit", "5", NULL }, 0 },
		{ "memory", { "rows", "owner", NULL }, 0 },
		{ "compare", { "group-by", "name", NULL }, 0 },
		{ "table", { "group-by", "colour", NULL }, -EINVAL },
		{ "table", { "colour", "1", NULL }, -EINVAL },
		{ "table", { "plain", NULL, NULL }, -EINVAL },
		{ "query", { NULL, NULL, NULL }, -EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		struct pfw_read *read = pfw_read_new();
		struct ArrowArrayStream stream;
		struct ArrowArray batch;
		int error;

		assert_int_equal(pfw_read_path(read, path), 0);
		if (strcmp(tables[i].command, "compare") == 0) /* with itself */
			assert_int_equal(pfw_read_path(read, path), 0);
		error = pfw_read_table(read, tables[i].command, tables[i].option, &stream);
		assert_int_equal(error, tables[i].error);
		if (error)
			assert_null(stream.release);
		else
			assert_int_equal(stream.get_next(&stream, &batch), 0);
		pfw_read_free(read);
		if (error)
			continue;
		stream.release(&stream);
		assert_true(batch.n_children > 2);
		batch.release(&batch);
	}
}

static void test_table_that_is_stopped(void **state)
{
	struct pfw_read *read = pfw_read_new();
	struct ArrowArrayStream stream;

	(void)state;
	assert_int_equal(pfw_read_path(read, path), 0);
	pfw_read_stop(read);
	for (int i = 0; i < 5; i++) {
		static const char *const tables[] = { "table", "overlap", "patterns", "memory",
						      "compare" };

		if (i == 4)
			assert_int_equal(pfw_read_path(read, path), 0);
		assert_int_equal(pfw_read_table(read, tables[i], NULL, &stream), -EINTR);
		assert_null(stream.release);
	}
	pfw_read_free(read);
}

/* Before its first batch, and between two: nothing more comes, with the reason. */
static void test_stream_that_is_stopped(void **state)
{
	(void)state;
	for (int batches = 0; batches < 2; batches++) {
		struct ArrowArrayStream stream;
		struct pfw_read *read = open_stream(&stream, "args_json");
		struct ArrowArray batch;

		for (int i = 0; i < batches; i++) {
			assert_int_equal(stream.get_next(&stream, &batch), 0);
			batch.release(&batch);
		}
		pfw_read_stop(read);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(stream.get_next(&stream, &batch), EINTR);
			assert_null(batch.release);
		}
		assert_non_null(strstr(stream.get_last_error(&stream), strerror(EINTR)));
		stream.release(&stream);
		pfw_read_free(read);
	}
}

static void test_errors(void **state)
{
	struct pfw_read *read = pfw_read_new();
	struct ArrowArrayStream stream = { .release = (void (*)(struct ArrowArrayStream *))1 };

	(void)state;
	assert_int_equal(pfw_read_set(read, "where", "("), -EINVAL);
	assert_non_null(strstr(pfw_read_error(read), "where"));
	assert_int_equal(pfw_read_path(read, "/no/such.pfw"), 0);
	assert_int_equal(pfw_read_stream(read, &stream), -ENOENT);
	assert_null(stream.release);
	assert_non_null(strstr(pfw_read_error(read), "/no/such.pfw"));
	assert_null(pfw_read_problem(read, 5));
	pfw_read_free(read);
	pfw_read_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_batches_outlive_all),
		cmocka_unit_test(test_rows_of_joined_blocks),
		cmocka_unit_test(test_children_that_are_moved),
		cmocka_unit_test(test_stream_that_is_left),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_table_that_is_stopped),
		cmocka_unit_test(test_stream_that_is_stopped),
		cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
