/* tools/query/lines.c - writes a wanted line as it is, or some of its fields; see query.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/encode/encode.h"
#include "query/query.h"
#include "store/read/scan.h"
#include "ui/cells.h"

/* ---- text ---- */

/* Make room for `bytes` more; returns their place, or NULL. */
static char *room(struct pfw_buffer *out, size_t bytes)
{
	return pfw_buffer_room(out, out->bytes + bytes) ? NULL : out->data + out->bytes;
}

static int put_char(struct pfw_buffer *out, char c)
{
	return pfw_buffer_add(out, &c, 1);
}

/* ---- whole lines ---- */

/* True if the line has a "rank" already, as output of another query has. */
static bool has_rank(const struct pfw_entry *entry, struct pfw_slice line)
{
	struct pfw_value value;

	return (entry->has & PFW_ENTRY_OTHER) && pfw_slice_find(&line, "rank", &value);
}

/* The object without white space and DFTracer's comma. */
static struct pfw_slice trimmed(struct pfw_slice line)
{
	while (line.bytes && *line.at != '{') {
		line.at++;
		line.bytes--;
	}
	while (line.bytes && line.at[line.bytes - 1] != '}')
		line.bytes--;
	return line;
}

static int add_whole(const struct query_lines *lines, struct pfw_buffer *out,
		     const struct pfw_entry *entry, struct pfw_slice line, int64_t rank)
{
	char number[48];
	int bytes;

	line = trimmed(line);
	if (!lines->ranks || has_rank(entry, line))
		return pfw_buffer_add(out, line.at, line.bytes) || put_char(out, '\n') ? -ENOMEM
										       : 0;
	if (rank < 0)
		bytes = snprintf(number, sizeof(number), "{\"rank\":null");
	else
		bytes = snprintf(number, sizeof(number), "{\"rank\":%" PRId64, rank);
	if (pfw_buffer_add(out, number, (size_t)bytes) || (entry->has && put_char(out, ',')) ||
	    pfw_buffer_add(out, line.at + 1, line.bytes - 1) || put_char(out, '\n'))
		return -ENOMEM;
	return 0;
}

/* ---- columns ---- */

/* A cell of CSV or TSV, as tools/ui/cells.h quotes it; in CSV an empty text, which is not null, has
 * quotes, too. */
static int put_text(const struct query_lines *lines, struct pfw_buffer *out, struct pfw_slice text)
{
	bool csv = lines->format == QUERY_CSV;
	char *at, *end;

	if (csv && !text.bytes)
		return pfw_buffer_add(out, "\"\"", 2);
	at = room(out, 2 * text.bytes + 2);
	if (!at)
		return -ENOMEM;
	end = csv ? cell_csv(at, text.at, text.bytes) : cell_tsv(at, text.at, text.bytes);
	out->bytes = (size_t)(end - out->data);
	return 0;
}

static int put_json(struct pfw_buffer *out, const struct pfw_cell *cell)
{
	if (cell->kind == PFW_CELL_NULL)
		return pfw_buffer_add(out, "null", 4);
	if (cell->kind == PFW_CELL_JSON)
		return pfw_buffer_add(out, cell->text.at, cell->text.bytes);
	return put_char(out, '"') || pfw_buffer_add(out, cell->text.at, cell->text.bytes) ||
			       put_char(out, '"')
		       ? -ENOMEM
		       : 0;
}

/* The column's name as a key: `{"name":` */
static int put_key(struct pfw_buffer *out, const char *name, bool first)
{
	size_t bytes = strlen(name);
	char *at = room(out, 6 * bytes + 8 + PFW_JSON_SLACK), *end;

	if (!at)
		return -ENOMEM;
	*at++ = first ? '{' : ',';
	end = pfw_json_string(at, name, bytes, NULL);
	*end++ = ':';
	out->bytes = (size_t)(end - out->data);
	return 0;
}

static int put_cell(const struct query_lines *lines, struct pfw_buffer *out, char *scratch,
		    size_t i, const struct pfw_cell *cell)
{
	struct pfw_slice text = cell->text;

	if (lines->format == QUERY_NDJSON)
		return put_key(out, lines->columns.name[i], i == 0) || put_json(out, cell) ? -ENOMEM
											   : 0;
	if (i && put_char(out, lines->format == QUERY_CSV ? ',' : '\t'))
		return -ENOMEM;
	if (cell->kind == PFW_CELL_NULL)
		return 0;
	if (cell->kind == PFW_CELL_TEXT)
		text = pfw_scratch_plain(text, scratch);
	return put_text(lines, out, text);
}

int query_lines_add(const struct query_lines *lines, struct pfw_buffer *out, char *scratch,
		    const struct pfw_entry *entry, struct pfw_slice line, int64_t rank)
{
	struct pfw_cell cell;

	if (!lines->columns.count)
		return add_whole(lines, out, entry, line, rank);
	for (size_t i = 0; i < lines->columns.count; i++) {
		pfw_columns_cell(&lines->columns, i, entry, rank, &cell);
		if (put_cell(lines, out, scratch, i, &cell))
			return -ENOMEM;
	}
	if (lines->format == QUERY_NDJSON && put_char(out, '}'))
		return -ENOMEM;
	return put_char(out, '\n');
}

int query_lines_head(const struct query_lines *lines, struct pfw_buffer *out)
{
	for (size_t i = 0; i < lines->columns.count; i++) {
		struct pfw_slice name = { .at = lines->columns.name[i],
					  .bytes = strlen(lines->columns.name[i]) };

		if (i && put_char(out, lines->format == QUERY_CSV ? ',' : '\t'))
			return -ENOMEM;
		if (put_text(lines, out, name))
			return -ENOMEM;
	}
	return put_char(out, '\n');
}
