/* store/merge/rows.c - the lines of a block in order of ts; see rows.h. */
#include "store/merge/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/kit/nearly_sorted.h"
#include "store/line/entry.h"
#include "store/line/hash.h"

void pfw_rows_free(struct pfw_rows *rows)
{
	pfw_buffer_free(&rows->text);
	free(rows->row);
	*rows = (struct pfw_rows){ 0 };
}

/* ---- lines ---- */

struct scanner {
	struct pfw_rows *rows;
	const struct pfw_rows_want *want;
	struct pfw_problems *problems;
	uint64_t line;
	bool at_begin; /* only `process` lines precede it in its file */
	bool untimed;  /* there are rows with PFW_ROW_NO_TS */
};

/* Parse a line in full.  Return whether it is an event; *bytes becomes the length of its object. */
static bool parse_any(struct scanner *scanner, const char *text, size_t *bytes,
		      struct pfw_entry *entry)
{
	pfw_entry_parse(entry, text, *bytes);
	if (entry->kind == PFW_ENTRY_BAD)
		pfw_problems_add(scanner->problems, scanner->line, 0, "%s at character %zu",
				 entry->why, entry->why_at + 1);
	if (entry->kind != PFW_ENTRY_EVENT)
		return false;
	if (entry->comma) {
		while (text[*bytes - 1] != '}')
			(*bytes)--;
	}
	if (!(entry->has & ~entry->wrong & PFW_ENTRY_TS))
		entry->ts_ns = PFW_ROW_NO_TS;
	else if (entry->ts_ns <= PFW_ROW_NO_TS)
		entry->ts_ns = PFW_ROW_NO_TS + 1;
	return true;
}

/* Whether it overlaps the window; an instant does if it is at `since` or later. */
static bool is_wanted(const struct pfw_rows_want *want, const struct pfw_row *row)
{
	if (row->metadata)
		return true;
	return row->ts_ns < want->until_ns &&
	       (row->end_ns > want->since_ns ||
		(row->end_ns == row->ts_ns && row->ts_ns >= want->since_ns));
}

/* Add a line if it is selected.  `bytes` excludes its '\n'. */
static int add_row(struct scanner *scanner, size_t at, size_t bytes, const struct pfw_entry *entry)
{
	struct pfw_rows *rows = scanner->rows;
	bool metadata = entry->ph == 'M';
	struct pfw_row row = { .ts_ns = entry->ts_ns,
			       .order = scanner->want->order + scanner->line - 1,
			       .at = (uint32_t)at,
			       .bytes = (uint32_t)bytes + 1,
			       .metadata = metadata };

	if (entry->dur_ns < 0 || __builtin_add_overflow(entry->ts_ns, entry->dur_ns, &row.end_ns))
		row.end_ns = entry->ts_ns;
	scanner->at_begin = scanner->at_begin && metadata && pfw_slice_is(&entry->name, "process");
	if (scanner->at_begin)
		row.ts_ns = PFW_ROW_FIRST;
	scanner->untimed |= entry->ts_ns == PFW_ROW_NO_TS && !scanner->at_begin;
	if (!is_wanted(scanner->want, &row) ||
	    (scanner->want->pid && scanner->want->pid != entry->pid))
		return 0;
	if (PFW_ROOM(rows->row, rows->count, rows->room))
		return -ENOMEM;
	if (rows->count == 0)
		rows->pid = entry->pid;
	else if (rows->pid != entry->pid)
		rows->pid = 0;
	row.hash = pfw_linehash(rows->text.data + at, bytes);
	/* Storing bit fields would read each new page before writing it. */
	memcpy(&rows->row[rows->count++], &row, sizeof(row));
	rows->metadata += metadata;
	rows->checksum += row.hash;
	return 0;
}

/* Scan the line text.data[at..at + bytes), which a '\n' follows. */
static int scan_line(struct scanner *scanner, size_t at, size_t bytes)
{
	char *text = scanner->rows->text.data + at;
	struct pfw_entry entry;

	scanner->line++;
	if (bytes > PFW_SCAN_LINE_MAX) {
		pfw_problems_add_long(scanner->problems, scanner->line, 0, bytes);
		return 0;
	}
	if (!bytes || text[bytes - 1] != '}' || !pfw_entry_parse_head(&entry, text, text + bytes)) {
		if (!parse_any(scanner, text, &bytes, &entry))
			return 0;
		if (text[bytes] != '\n') {
			text[bytes] = '\n';
			scanner->rows->mended = true;
		}
	}
	return add_row(scanner, at, bytes, &entry);
}

/* A row without a time gets that of the previous row; leading ones, that of the first with one. */
static void give_times(struct pfw_rows *rows)
{
	int64_t ts = 0;

	for (size_t i = rows->count; i-- > 0;) {
		if (rows->row[i].ts_ns > PFW_ROW_NO_TS)
			ts = rows->row[i].ts_ns;
	}
	for (size_t i = 0; i < rows->count; i++) {
		struct pfw_row *row = &rows->row[i];

		if (row->ts_ns == PFW_ROW_NO_TS)
			row->ts_ns = row->end_ns = ts;
		else if (row->ts_ns != PFW_ROW_FIRST)
			ts = row->ts_ns;
	}
}

/* ---- order ---- */

static bool is_after(const struct pfw_row *a, const struct pfw_row *b)
{
	return a->ts_ns > b->ts_ns;
}

PFW_NEARLY_SORTED(rows, struct pfw_row, is_after)

static int put_in_order(struct pfw_rows *rows)
{
	struct pfw_row *spare;
	size_t i = 1;

	while (i < rows->count && rows->row[i - 1].ts_ns <= rows->row[i].ts_ns)
		i++;
	if (i >= rows->count)
		return 0;
	spare = malloc((rows->count / 2 + 1) * sizeof(*spare));
	if (!spare)
		return -ENOMEM;
	rows_merge(rows->row, rows->count, spare);
	free(spare);
	return 0;
}

/* Append the padding that entry.h requires, and a '\n' if the last line has none. */
static int end_text(struct pfw_rows *rows, size_t begin)
{
	size_t end = rows->text.bytes;
	int error = pfw_buffer_room(&rows->text, end + 1 + PFW_ENTRY_PADDING);

	if (error)
		return error;
	memset(rows->text.data + end, 0, 1 + PFW_ENTRY_PADDING);
	rows->mended = end > begin && rows->text.data[end - 1] != '\n';
	if (rows->mended)
		rows->text.data[rows->text.bytes++] = '\n';
	return 0;
}

int pfw_rows_scan(struct pfw_rows *rows, size_t begin, const struct pfw_rows_want *want,
		  struct pfw_problems *problems)
{
	struct scanner scanner = {
		.rows = rows, .want = want, .problems = problems, .at_begin = want->begins_file
	};
	int error = end_text(rows, begin);
	size_t end = rows->text.bytes;

	rows->count = rows->metadata = 0;
	rows->checksum = rows->pid = 0;
	while (begin < end && !error) {
		const char *newline = memchr(rows->text.data + begin, '\n', end - begin);
		size_t bytes = (size_t)(newline - rows->text.data) - begin;

		error = scan_line(&scanner, begin, bytes);
		begin += bytes + 1;
	}
	if (scanner.untimed)
		give_times(rows);
	return error ?: put_in_order(rows);
}
