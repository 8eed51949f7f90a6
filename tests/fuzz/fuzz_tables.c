/* fuzz_tables.c - any options of the tables: an error with its reason, or columns as Arrow specifies them.
 *
 * The first byte chooses the table, each line after it is NAME=VALUE: a condition or an option.
 */
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pfw/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OPTIONS_MOST 16

static const char lines[] =
	"{\"id\":1,\"name\":\"read\",\"cat\":\"POSIX\",\"pid\":1,\"tid\":1,\"ts\":10.000,\"dur\":5.000,"
	"\"ph\":\"X\",\"args\":{\"fname\":\"/a\",\"ret\":7,\"step\":1}}\n"
	"{\"id\":2,\"name\":\"aten::mm\",\"cat\":\"PP\",\"pid\":1,\"tid\":1,\"ts\":12.000,\"dur\":9.000,"
	"\"ph\":\"X\",\"args\":{\"kind\":\"cpu_op\",\"device\":0,\"flops\":50,\"step\":2}}\n"
	"{\"id\":3,\"name\":\"[memory]\",\"cat\":\"PP\",\"pid\":1,\"tid\":1,\"ts\":15.000,\"ph\":\"i\","
	"\"args\":{\"kind\":\"memory\",\"device\":1,\"device_index\":0,\"addr\":5,\"bytes\":100}}\n";

static char path[] = "/tmp/pfw-fuzz-tables-XXXXXX";

static void remove_trace(void)
{
	unlink(path);
}

static void write_trace(void)
{
	int fd = mkstemp(path);

	assert(fd >= 0 && write(fd, lines, sizeof(lines) - 1) == sizeof(lines) - 1);
	close(fd);
	atexit(remove_trace);
}

static void check_column(const struct ArrowArray *array, int64_t rows)
{
	const uint8_t *valid = array->buffers[0];
	int64_t nulls = 0;

	assert(array->length == rows && array->n_buffers == 2 && array->buffers[1]);
	for (int64_t i = 0; i < rows; i++) {
		bool null = array->null_count && !(valid[i / 8] >> i % 8 & 1);

		nulls += null;
		if (!null && array->dictionary)
			assert(((const int32_t *)array->buffers[1])[i] < array->dictionary->length);
	}
	assert(nulls == array->null_count);
}

static void check_stream(struct ArrowArrayStream *stream)
{
	struct ArrowSchema schema;
	struct ArrowArray batch;

	assert(stream->get_schema(stream, &schema) == 0);
	assert(stream->get_next(stream, &batch) == 0);
	for (int64_t i = 0; batch.release && i < batch.n_children; i++)
		check_column(batch.children[i], batch.length);
	assert(!batch.release || batch.n_children == schema.n_children);
	if (batch.release)
		batch.release(&batch);
	schema.release(&schema);
	stream->release(stream);
}

/* The pairs of a text, in place, of which conditions are set at once. */
static void take_options(struct pfw_read *read, char *text, const char **option)
{
	size_t count = 0;

	for (char *line = text, *next; line && count + 2 < OPTIONS_MOST; line = next) {
		char *value = strchr(line, '=');

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (!value || (next && value >= next))
			continue;
		*value++ = '\0';
		if (strcmp(line, "jobs") == 0 || pfw_read_set(read, line, value) == 0)
			continue;
		option[count++] = line;
		option[count++] = value;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const tables[] = { "table", "overlap", "patterns", "memory", "compare" };
	const char *option[OPTIONS_MOST] = { NULL };
	unsigned table = size ? (*data + 2u) % 5 : 0; /* '0' is the first */
	struct ArrowArrayStream stream;
	struct pfw_read *read;
	static bool written;
	char *text;

	if (!size)
		return 0;
	if (!written)
		write_trace();
	written = true;
	text = strndup((const char *)data + 1, size - 1);
	read = pfw_read_new();
	assert(text && read);
	assert(!pfw_read_path(read, path) && (table != 4 || !pfw_read_path(read, path)));
	assert(!pfw_read_set(read, "jobs", "1"));
	take_options(read, text, option);
	if (pfw_read_table(read, tables[table], option, &stream) == 0)
		check_stream(&stream);
	else
		assert(!stream.release && *pfw_read_error(read));
	pfw_read_free(read);
	free(text);
	return 0;
}
