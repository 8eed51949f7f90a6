/* store/read/fetch.c - the text of one block of a file; see fetch.h. */
#include "store/read/fetch.h"

#include <errno.h>
#include <string.h>

#include "common/format/gzip.h"
#include "store/gzip/member.h"
#include "store/read/input.h"
#include "store/sys/full_io.h"

/* Bytes read at once to find the end of the last line of a block; most lines are shorter. */
#define TAIL 4096u
/* Bytes read before a block of text.  The last of them tells whether a line begins there.  The others are
 * for the kernel, which copies with `rep movsb`: on AMD Zen that takes four times as long where the
 * target lies 1 to 31 bytes further in its page than the source.  A large buffer of malloc() begins at
 * byte 16 of a page, and most blocks begin with a page. */
#define BEFORE 32u
/* The most text that is read of a damaged member; a problem reports more. */
#define SALVAGE_MAX (PFW_GZIP_TEXT_MAX + PFW_SCAN_LINE_MAX)

void pfw_fetch_free(struct pfw_fetch *fetch)
{
	pfw_unzip_free(fetch->unzip);
	pfw_buffer_free(&fetch->packed);
	pfw_input_close(fetch->input);
	*fetch = (struct pfw_fetch){ 0 };
}

/* Read up to `bytes` bytes at `at`.  Return their number, fewer at the end of the file, or -errno,
 * which is reported as a problem. */
static ssize_t read_at(int fd, void *buf, size_t bytes, uint64_t at, struct pfw_problems *problems)
{
	ssize_t got = pfw_full_read(fd, buf, bytes, at);

	if (got < 0)
		pfw_problems_add(problems, 0, at, PFW_PROBLEM_CANNOT "read: %s",
				 strerror((int)-got));
	return got;
}

static void tell_cut(struct pfw_problems *problems, uint64_t at)
{
	pfw_problems_add(problems, 0, at, "the file was cut while it was read");
}

/* ---- plain text ---- */

/* The line at text->data[begin..], at byte `at` of the file, is too long: find its end. */
static int skip_long(int fd, struct pfw_buffer *text, size_t begin, uint64_t at,
		     struct pfw_problems *problems)
{
	uint64_t bytes = text->bytes - begin;

	text->bytes = begin;
	for (;;) {
		size_t size = text->room - begin;
		ssize_t got = read_at(fd, text->data + begin, size, at + bytes, problems);
		char *end;

		if (got < 0)
			return (int)got;
		end = memchr(text->data + begin, '\n', (size_t)got);
		bytes += end ? (size_t)(end - text->data) - begin : (size_t)got;
		if (end || (size_t)got < size)
			break;
	}
	pfw_problems_add_long(problems, 1, at, bytes);
	return 0;
}

/* Read up to the end of the last line; text->data[0] is byte `at` of the file. */
static int read_tail(int fd, struct pfw_buffer *text, size_t begin, uint64_t at,
		     struct pfw_problems *problems)
{
	char *last = memrchr(text->data + begin, '\n', text->bytes - begin);
	size_t step = TAIL;

	begin = last ? (size_t)(last - text->data) + 1 : begin;
	for (; begin < text->bytes; step *= 2) {
		int error = pfw_buffer_room(text, text->bytes + step);
		ssize_t got;
		char *end;

		if (error)
			return error;
		got = read_at(fd, text->data + text->bytes, step, at + text->bytes, problems);
		if (got < 0)
			return (int)got;
		end = memchr(text->data + text->bytes, '\n', (size_t)got);
		text->bytes = end ? (size_t)(end + 1 - text->data) : text->bytes + (size_t)got;
		if (end || (size_t)got < step)
			return 0;
		if (text->bytes - begin > PFW_SCAN_LINE_MAX)
			return skip_long(fd, text, begin, at + begin, problems);
	}
	return 0;
}

/* Where the lines begin that begin in a block: after the first '\n' from the byte before it on. */
static size_t first_line(const struct pfw_buffer *text, size_t before)
{
	const char *newline = NULL;

	if (!before)
		return 0;
	if (text->bytes >= before)
		newline = memchr(text->data + before - 1, '\n', text->bytes - (before - 1));
	return newline ? (size_t)(newline - text->data) + 1 : text->bytes;
}

static int fetch_text(int fd, const struct pfw_block *block, struct pfw_fetched *fetched,
		      struct pfw_problems *problems)
{
	struct pfw_buffer *text = &fetched->text;
	size_t before = block->at < BEFORE ? (size_t)block->at : BEFORE;
	size_t bytes = before + (size_t)block->bytes;
	uint64_t at = block->at - before;
	int error = pfw_buffer_room(text, bytes + TAIL);
	ssize_t got;

	if (error)
		return error;
	got = read_at(fd, text->data, bytes, at, problems);
	if (got < 0)
		return (int)got;
	text->bytes = (size_t)got;
	fetched->begin = first_line(text, before);
	fetched->at = at + fetched->begin;
	if (text->bytes < bytes) {
		tell_cut(problems, at + text->bytes);
		return 0;
	}
	return read_tail(fd, text, fetched->begin, at, problems);
}

/* ---- members ---- */

/* Read what can be read of a damaged member and of those it hides, up to the block's end. */
static int salvage(const char *path, const struct pfw_block *block, struct pfw_buffer *text,
		   struct pfw_problems *problems)
{
	struct pfw_stream stream = { 0 };
	size_t before = problems->count;
	int error = pfw_input_open(&stream.input, path);

	text->bytes = 0;
	if (error)
		return error;
	error = pfw_input_range(stream.input, block->at, block->at + block->bytes);
	while (!error && !stream.ended && text->bytes < SALVAGE_MAX)
		error = pfw_stream_read(&stream, text, PFW_BLOCK_TEXT, problems);
	for (size_t i = before; i < problems->count; i++) {
		/* The line number counts from somewhere inside this member: only the place of the
		 * member is certain. */
		if (problems->problem[i].line)
			problems->problem[i].at = block->at;
		problems->problem[i].line = 0;
	}
	if (!error && !stream.ended)
		pfw_problems_add(
			problems, 0, block->at,
			"a gzip member of more than %u bytes of text: the rest is left out",
			SALVAGE_MAX);
	pfw_stream_close(&stream);
	return error;
}

static int fetch_member(struct pfw_fetch *fetch, const char *path, int fd,
			const struct pfw_block *block, struct pfw_buffer *text,
			struct pfw_problems *problems)
{
	size_t bytes = (size_t)block->bytes, text_bytes;
	int error = 0;
	ssize_t got;

	if (!block->summed) /* cut */
		return salvage(path, block, text, problems);
	error = pfw_buffer_room(&fetch->packed, bytes);
	if (error)
		return error;
	got = read_at(fd, fetch->packed.data, bytes, block->at, problems);
	if (got < 0)
		return (int)got;
	if ((size_t)got < bytes)
		return salvage(path, block, text, problems);
	text_bytes = pfw_unzip_bytes(fetch->packed.data, bytes);
	/* The size was checked in blocks.c; the file may have been written to since. */
	if (text_bytes > SALVAGE_MAX)
		return salvage(path, block, text, problems);
	error = pfw_buffer_room(text, text_bytes + 1);
	if (!error && !fetch->unzip && !(fetch->unzip = pfw_unzip_new()))
		error = -ENOMEM;
	if (error)
		return error;
	if (pfw_unzip_member(fetch->unzip, fetch->packed.data, bytes, text->data, text_bytes))
		return salvage(path, block, text, problems);
	text->bytes = text_bytes;
	return 0;
}

int pfw_fetch_block(struct pfw_fetch *fetch, const char *path, int fd, enum pfw_layout layout,
		    const struct pfw_block *block, struct pfw_fetched *fetched,
		    struct pfw_problems *problems)
{
	fetched->text.bytes = fetched->begin = 0;
	fetched->at = 0;
	if (layout == PFW_LAYOUT_TEXT)
		return fetch_text(fd, block, fetched, problems);
	return fetch_member(fetch, path, fd, block, &fetched->text, problems);
}

/* ---- streams with points ---- */

/* Move the input to the nearest place that is not after that byte of the text. */
static int approach(struct pfw_fetch *fetch, const char *path, const struct pfw_points *points,
		    uint64_t text_at)
{
	const struct pfw_point *point = pfw_points_find(points, text_at);
	uint64_t nearest = point ? point->text_at : 0;
	int error;

	if (fetch->input && fetch->path == path && fetch->text_at <= text_at &&
	    fetch->text_at >= nearest)
		return 0;
	pfw_input_close(fetch->input);
	fetch->input = NULL;
	error = pfw_input_open(&fetch->input, path);
	if (!error && point)
		error = pfw_input_resume(fetch->input, point);
	fetch->path = path;
	fetch->text_at = nearest;
	return error;
}

/* Read up to `end` of the text, and keep what is at or after `begin`. */
static int read_streamed(struct pfw_fetch *fetch, uint64_t begin, uint64_t end,
			 struct pfw_buffer *text)
{
	while (fetch->text_at < end) {
		bool keep = fetch->text_at >= begin;
		uint64_t size = (keep ? end : begin) - fetch->text_at;
		size_t piece = size < PFW_BLOCK_TEXT ? (size_t)size : PFW_BLOCK_TEXT;
		int error = pfw_buffer_room(text, text->bytes + piece);
		ssize_t got;

		if (error)
			return error;
		got = pfw_input_read(fetch->input, text->data + text->bytes, piece);
		if (got <= 0)
			return got ? (int)got : -ENODATA;
		fetch->text_at += (uint64_t)got;
		if (keep)
			text->bytes += (size_t)got;
	}
	return 0;
}

int pfw_fetch_streamed(struct pfw_fetch *fetch, const char *path, const struct pfw_points *points,
		       const struct pfw_block *block, struct pfw_fetched *fetched,
		       struct pfw_problems *problems)
{
	int error = approach(fetch, path, points, block->at);

	fetched->text.bytes = fetched->begin = 0;
	fetched->at = block->at;
	error = error ?: read_streamed(fetch, block->at, block->at + block->bytes, &fetched->text);
	if (!error)
		return 0;
	if (error == -EBADMSG && fetch->input)
		pfw_problems_add(problems, 0, pfw_input_problem_at(fetch->input), "%s",
				 pfw_input_problem(fetch->input));
	else if (error == -ENODATA)
		tell_cut(problems, pfw_input_at(fetch->input));
	else if (error != -ENOMEM)
		pfw_problems_add(problems, 0, 0, PFW_PROBLEM_CANNOT "read: %s", strerror(-error));
	pfw_input_close(fetch->input);
	fetch->input = NULL;
	return error == -EBADMSG || error == -ENODATA ? 0 : error;
}
