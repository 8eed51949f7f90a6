/* tools/ui/cells.c - the text of one cell of a table; see cells.h. */
#include "ui/cells.h"

#include <string.h>

#include "ui/cli.h"

/* Before a time; fewer than it has room for. */
#define BLANKS 32u

size_t cell_width(const char *text, size_t bytes)
{
	size_t count = 0;

	for (size_t i = 0; i < bytes; i++)
		count += ((unsigned char)text[i] & 0xc0) != 0x80;
	return count;
}

size_t cell_columns(const struct cell *cell)
{
	return (cell->number ? cell->bytes : cell_width(cell->text, cell->bytes)) +
	       (cell->before ? strlen(cell->before) : 0) +
	       (cell->behind ? strlen(cell->behind) : 0) + cell_width(cell->rest, cell->rest_bytes);
}

size_t cell_first(const char *text, size_t bytes, size_t count)
{
	size_t at = 0;

	for (; at < bytes; at++) {
		if (((unsigned char)text[at] & 0xc0) != 0x80 && count-- == 0)
			break;
	}
	return at;
}

struct cell cell_tail(const char *text, size_t bytes, size_t width)
{
	size_t count = cell_width(text, bytes), dots = width > 3 ? 3 : 0, skip;

	if (count <= width)
		return (struct cell){ .text = text, .bytes = bytes };
	skip = cell_first(text, bytes, count - width + dots);
	return (struct cell){ .text = text + skip,
			      .bytes = bytes - skip,
			      .before = dots ? "..." : NULL };
}

struct cell cell_cut(const char *text, size_t bytes, size_t width)
{
	size_t count = cell_width(text, bytes), tail = width / 3, rest;

	if (count <= width || width < 12 || (memchr(text, '/', bytes) && !memchr(text, '(', bytes)))
		return cell_tail(text, bytes, width);
	rest = cell_first(text, bytes, count - tail);
	return (struct cell){ .text = text,
			      .bytes = cell_first(text, bytes, width - 3 - tail),
			      .behind = "...",
			      .rest = text + rest,
			      .rest_bytes = bytes - rest };
}

/* Whether byte `i` is of a control character; U+0080 to U+009F has two bytes. */
static bool is_control(const char *text, size_t bytes, size_t i)
{
	unsigned char byte = (unsigned char)text[i];
	unsigned char before = i ? (unsigned char)text[i - 1] : 0;
	unsigned char next = i + 1 < bytes ? (unsigned char)text[i + 1] : 0;

	return byte < ' ' || byte == 0x7f || (byte == 0xc2 && (next & 0xe0) == 0x80) ||
	       (before == 0xc2 && (byte & 0xe0) == 0x80);
}

void cell_blanks(struct cell_line *line, size_t count)
{
	line->blanks += count;
}

void cell_flush(struct cell_line *line)
{
	fwrite_unlocked(line->text, 1, line->bytes, line->out);
	line->bytes = 0;
}

/* Write text that ends with no blank, after the blanks that wait for it. */
static void put_word(struct cell_line *line, const char *text, size_t bytes)
{
	size_t blanks = line->blanks;

	line->blanks = 0;
	if (blanks + bytes > sizeof(line->text) - line->bytes)
		cell_flush(line);
	if (blanks + bytes <= sizeof(line->text)) {
		memset(line->text + line->bytes, ' ', blanks);
		memcpy(line->text + line->bytes + blanks, text, bytes);
		line->bytes += blanks + bytes;
		return;
	}
	for (; blanks; blanks--)
		putc_unlocked(' ', line->out);
	fwrite_unlocked(text, 1, bytes, line->out);
}

static void put_text(struct cell_line *line, const char *text, size_t bytes)
{
	size_t from = 0;

	for (size_t i = 0; i < bytes; i++) {
		bool blank = text[i] == ' ';

		if (!blank && !is_control(text, bytes, i))
			continue;
		if (i > from)
			put_word(line, text + from, i - from);
		from = i + 1;
		if (blank)
			line->blanks++;
		else
			put_word(line, "?", 1);
	}
	if (bytes > from)
		put_word(line, text + from, bytes - from);
}

void cell_put(struct cell_line *line, const struct cell *cell, size_t width, enum cell_side side)
{
	size_t used = cell_columns(cell);
	size_t blanks = used < width ? width - used : 0;

	cell_blanks(line, side == CELL_RIGHT ? blanks : 0);
	if (cell->number && cell->bytes)
		put_word(line, cell->text, cell->bytes);
	if (cell->before)
		put_text(line, cell->before, strlen(cell->before));
	if (!cell->number)
		put_text(line, cell->text, cell->bytes);
	if (cell->behind)
		put_text(line, cell->behind, strlen(cell->behind));
	put_text(line, cell->rest, cell->rest_bytes);
	cell_blanks(line, side == CELL_LEFT ? blanks : 0);
}

void cell_put_number(struct cell_line *line, const char *text, size_t bytes, size_t width)
{
	line->blanks += bytes < width ? width - bytes : 0;
	put_word(line, text, bytes);
}

/* Most cells of large tables are times: they are written where they stay. */
void cell_put_time(struct cell_line *line, int64_t ns, size_t bytes, size_t width)
{
	size_t blanks = line->blanks + (bytes < width ? width - bytes : 0);
	char text[CLI_FIGURE_BYTES], *at;

	if (blanks > BLANKS || blanks + CLI_FIGURE_BYTES > sizeof(line->text) - line->bytes) {
		cli_put_time(text, ns);
		cell_put_number(line, text, bytes, width);
		return;
	}
	at = line->text + line->bytes;
	memset(at, ' ', BLANKS);
	line->bytes += blanks + cli_put_time(at + blanks, ns);
	line->blanks = 0;
}

void cell_end(struct cell_line *line)
{
	line->blanks = 0;
	put_word(line, "\n", 1);
	cell_flush(line);
}

void cell_put_md(FILE *out, const char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		char byte = is_control(text, bytes, i) ? '?' : text[i];

		if (strchr("|\\`*_<", byte))
			putc('\\', out);
		putc(byte, out);
	}
}

static bool has_any(const char *text, size_t bytes, const char *special)
{
	for (; *special; special++) {
		if (memchr(text, *special, bytes))
			return true;
	}
	return false;
}

char *cell_quoted(char *at, const char *text, size_t bytes)
{
	*at++ = '"';
	for (size_t i = 0; i < bytes; i++) {
		if (text[i] == '"')
			*at++ = '"';
		*at++ = text[i];
	}
	*at++ = '"';
	return at;
}

char *cell_csv(char *at, const char *text, size_t bytes)
{
	if (!bytes ||
	    (text[0] != ' ' && text[bytes - 1] != ' ' && !has_any(text, bytes, ",\"\r\n\t"))) {
		memcpy(at, text, bytes);
		return at + bytes;
	}
	return cell_quoted(at, text, bytes);
}

char *cell_tsv(char *at, const char *text, size_t bytes)
{
	static const char from[] = "\t\n\r\\", to[] = "tnr\\";

	if (!has_any(text, bytes, from)) {
		memcpy(at, text, bytes);
		return at + bytes;
	}
	for (size_t i = 0; i < bytes; i++) {
		const char *special = memchr(from, text[i], sizeof(from) - 1);

		if (special)
			*at++ = '\\';
		*at++ = special ? to[special - from] : text[i];
	}
	return at;
}
