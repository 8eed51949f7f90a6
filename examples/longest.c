/* longest.c - prints the longest event of a trace, by libpfwread and Arrow's C data interface.
 *
 *	cc longest.c $(pkg-config --cflags --libs pfwread) -o longest && ./longest t 'cat == "POSIX"'
 */
#include <pfw/read.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	struct pfw_read *read = pfw_read_new();
	struct ArrowArrayStream stream;
	struct ArrowArray batch;
	char longest[200] = "nothing";
	int64_t most = -1;
	int error = pfw_read_set(read, "columns", "name,dur");

	if (!error && argc > 1)
		error = pfw_read_path(read, argv[1]);
	if (!error && argc > 2)
		error = pfw_read_set(read, "where", argv[2]);
	if (error || pfw_read_stream(read, &stream))
		return fprintf(stderr, "%s\n", pfw_read_error(read)), 2;
	while (!(error = stream.get_next(&stream, &batch)) && batch.release) {
		const struct ArrowArray *name = batch.children[0], *dur = batch.children[1];
		const unsigned char *valid = dur->buffers[0]; /* NULL: all are */
		const int64_t *ns = dur->buffers[1];
		const int32_t *number = name->buffers[1], *begin = name->dictionary->buffers[1];
		const char *text = name->dictionary->buffers[2];

		for (int64_t i = 0; i < batch.length; i++) {
			if ((valid && !(valid[i / 8] >> i % 8 & 1)) || ns[i] <= most)
				continue;
			most = ns[i];
			snprintf(longest, sizeof(longest), "%.*s",
				 begin[number[i] + 1] - begin[number[i]], text + begin[number[i]]);
		}
		batch.release(&batch);
	}
	if (error)
		fprintf(stderr, "%s\n", stream.get_last_error(&stream));
	for (uint64_t i = 0; pfw_read_problem(read, i); i++)
		fprintf(stderr, "%s\n", pfw_read_problem(read, i));
	printf("%s: %.3f us\n", longest, (double)most / 1000);
	stream.release(&stream);
	pfw_read_free(read);
	return error != 0;
}
