/* longest.c - prints the longest event of a trace, by libpfwread and Arrow's C data interface.
 *	cc longest.c $(pkg-config --cflags --libs pfwread) -o longest && ./longest t 'cat == "POSIX"'
 */
#include <pfw/read.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	struct pfw_read *read = pfw_read_new();
	struct ArrowArrayStream stream;
	struct ArrowArray batch;
	char longest[200] = "nothing";
	int64_t error, most = -1;

	if (pfw_read_set(read, "columns", "name,dur") || pfw_read_set(read, "min-dur", "0us") ||
	    (argc > 1 && pfw_read_path(read, argv[1])) ||
	    (argc > 2 && pfw_read_set(read, "where", argv[2])) || pfw_read_stream(read, &stream))
		return fprintf(stderr, "%s\n", pfw_read_error(read)), 2;
	while (!(error = stream.get_next(&stream, &batch)) && batch.release) {
		const int64_t *ns = batch.children[1]->buffers[1]; /* min-dur: none is null */
		const int32_t *word = batch.children[0]->buffers[1];
		const struct ArrowArray *words = batch.children[0]->dictionary;
		const int32_t *begin = words->buffers[1];

		for (int64_t i = 0; i < batch.length; i++) {
			if (ns[i] > most)
				snprintf(longest, sizeof(longest), "%.*s",
					 begin[word[i] + 1] - begin[word[i]],
					 (const char *)words->buffers[2] + begin[word[i]]);
			most = ns[i] > most ? ns[i] : most;
		}
		batch.release(&batch);
	}
	for (uint64_t i = 0; pfw_read_problem(read, i); i++)
		fprintf(stderr, "%s\n", pfw_read_problem(read, i));
	printf("%s: %.3f us\n", longest, (double)most / 1000);
	stream.release(&stream);
	pfw_read_free(read);
	return error != 0;
}
