/* read/stream, read/arrow: whose memory is whose.  The values are compared in tests/oracle/test_read.py. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "pfw/read.h"

#define LINES 60000

static char path[] = "/tmp/pfw-test-stream-XXXXXX";

static int set_up(void **state)
{
	int fd = mkstemp(path);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	(void)state;
	assert_non_null(file);
	for (int i = 0; i < LINES; i++)
		fprintf(file,
			"{\"id\":%d,\"name\":\"n%d\",\"cat\":\"c\",\"pid\":1,\"tid\":1,\"ts\":%d.000,"
			"\"dur\":1.000,\"ph\":\"X\",\"args\":{\"fname\":\"/f%d\",\"ret\":%d,"
			"\"grid\":[%d],\"occupancy\":0.5,\"own\":{\"a\":\"%064d\"}}}\n",
			i, i % 7, i, i, i, i, i);
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
	assert_true(count > 5 && count < 64);
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
		cmocka_unit_test(test_children_that_are_moved),
		cmocka_unit_test(test_stream_that_is_left),
		cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
