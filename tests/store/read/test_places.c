/* test_places.c - lines are read from where they stand to where they are wanted; a file that is no
 * longer what it was is told.
 */
#include "store/read/places.h"

#include <errno.h>

#include "store/kit/grow.h"
#include "trace_files.h"

#define LINES 4000u

/* A file of lines of 5 to `most` bytes; where each begins in at[], the last one's end behind it. */
static char *make_lines(const char *path, size_t most, size_t *at)
{
	char *text = malloc(LINES * most);
	size_t bytes = 0;

	assert_non_null(text);
	for (size_t i = 0; i < LINES; i++) {
		size_t line = 5 + i * 7919 % (most - 4);

		at[i] = bytes;
		memset(text + bytes, 'a' + (int)(i % 26), line - 1);
		bytes += line;
		text[bytes - 1] = '\n';
	}
	at[LINES] = bytes;
	write_file(path, text, bytes);
	return text;
}

/* Lines of `path` into the buffer, each `step` lines behind the one before; 0 or what add() said. */
static int add_lines(struct pfw_places *places, const char *path, uint32_t file, const size_t *at,
		     size_t step)
{
	uint32_t to = 0;
	int error = 0;

	for (size_t i = 0; i < LINES && !error; i++) {
		size_t line = i * step % LINES;
		const struct pfw_place place = { .path = path,
						 .file = file,
						 .to = to,
						 .bytes = (uint32_t)(at[line + 1] - at[line]),
						 .from = at[line] };

		error = PFW_PUSH(places->place, places->count, places->room, place);
		to += place.bytes;
	}
	return error;
}

static void expect_lines(const char *found, const char *text, const size_t *at, size_t step)
{
	for (size_t i = 0; i < LINES; i++) {
		size_t line = i * step % LINES, bytes = at[line + 1] - at[line];

		assert_memory_equal(found, text + at[line], bytes);
		found += bytes;
	}
}

/* Shorter than a chunk, across two of them, and longer than one; by one reader, which must not mix the
 * files up. */
static void any_order_and_length(void **state)
{
	const struct fixture *fixture = *state;
	static const size_t step[] = { 1, LINES - 1, 1237 }, most[] = { 300, 9000, 40000 };
	struct pfw_places_reader *reader = pfw_places_reader_new();
	char path[3][128];

	assert_non_null(reader);
	for (uint32_t i = 0; i < 3; i++) {
		size_t *at = calloc(LINES + 1, sizeof(*at));
		char *text, *found;

		snprintf(path[i], sizeof(path[i]), "%s%u", fixture->path, i);
		text = make_lines(path[i], most[i], at);
		found = malloc(at[LINES]);
		assert_non_null(found);
		for (size_t j = 0; j < 3; j++) {
			struct pfw_places places = { 0 };

			memset(found, 0, at[LINES]);
			assert_int_equal(add_lines(&places, path[i], i, at, step[j]), 0);
			assert_int_equal(pfw_places_read(reader, &places, found), 0);
			expect_lines(found, text, at, step[j]);
			pfw_places_free(&places);
		}
		free(found);
		free(text);
		free(at);
	}
	pfw_places_reader_free(reader);
}

static int read_changed(const char *path, const size_t *at, size_t step)
{
	struct pfw_places_reader *reader = pfw_places_reader_new();
	struct pfw_places places = { 0 };
	char *found = malloc(at[LINES]);
	int error;

	assert_non_null(reader);
	assert_non_null(found);
	assert_int_equal(add_lines(&places, path, 0, at, step), 0);
	error = pfw_places_read(reader, &places, found);
	pfw_places_free(&places);
	pfw_places_reader_free(reader);
	free(found);
	return error;
}

static void file_that_has_changed(void **state)
{
	const struct fixture *fixture = *state;
	static const size_t most[] = { 300, 9000 };

	for (size_t i = 0; i < 2; i++) {
		size_t *at = calloc(LINES + 1, sizeof(*at));
		char *text = make_lines(fixture->path, most[i], at);

		/* A byte more in front: the last lines still are all there. */
		assert_int_equal(read_changed(fixture->path, at, 1), 0);
		text = realloc(text, at[LINES] + 1);
		assert_non_null(text);
		memmove(text + 1, text, at[LINES]);
		write_file(fixture->path, text, at[LINES] + 1);
		assert_int_equal(read_changed(fixture->path, at, 1), -ESTALE);
		write_file(fixture->path, text + 1, at[LINES]);
		assert_int_equal(truncate(fixture->path, (off_t)at[LINES] - 3), 0);
		assert_int_equal(read_changed(fixture->path, at, 1), -ESTALE);
		assert_int_equal(unlink(fixture->path), 0);
		assert_int_equal(read_changed(fixture->path, at, 1), -ENOENT);
		free(text);
		free(at);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(any_order_and_length, set_up, tear_down),
		cmocka_unit_test_setup_teardown(file_that_has_changed, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
