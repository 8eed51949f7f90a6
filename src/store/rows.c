/* rows.c - the lines of a block in order of ts; see rows.h. */
#include "rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "entry.h"
#include "linehash.h"

#define NO_TS (INT64_MIN + 1) /* to be taken from the neighbours */
#define SLACK 64u	      /* constants are compared beyond a line's end */
#define FIRST_ROOM 4096u

/* What the head of a line says. */
struct head {
	int64_t ts_ns, dur_ns;
	uint64_t pid;
	bool metadata;
	bool process; /* may be a `process` line of ours */
};

size_t pfw_rows_bytes(const struct pfw_rows *rows)
{
	return rows->text.bytes + rows->room * sizeof(*rows->row);
}

void pfw_rows_free(struct pfw_rows *rows)
{
	pfw_text_free(&rows->text);
	free(rows->row);
	*rows = (struct pfw_rows){ 0 };
}

/* ---- the head of a line of ours ---- */

/*
 * Every line ends in '\n', at which each of these stops, so no end is passed on.  A constant may be
 * compared up to SLACK bytes beyond it.
 */
__attribute__((always_inline)) static inline bool take(const char **at, const char *text)
{
	size_t bytes = strlen(text);

	if (memcmp(*at, text, bytes) != 0)
		return false;
	*at += bytes;
	return true;
}

/* A whole number of at most 18 digits. */
static inline bool take_number(const char **at, uint64_t *number)
{
	static const uint64_t tens[] = { 1, 10, 100, 1000, 10000, 100000, 1000000, 10000000 };
	const char *start = *at;
	uint64_t sum = 0;

	for (;;) {
		uint64_t word = pfw_bytes_load(*at);
		unsigned count = pfw_bytes_digits(word);

		*at += count;
		if (count < 8) {
			*number = count ? sum * tens[count] + pfw_bytes_number(word, count) : sum;
			return *at > start && *at - start <= 18;
		}
		if (*at - start > 16)
			return false;
		sum = sum * 100000000 + pfw_bytes_number(word, 8);
	}
}

/* µs with three decimals or none. */
__attribute__((always_inline)) static inline bool take_us(const char **at, int64_t *ns)
{
	uint64_t us, word;

	if (!take_number(at, &us) || us > INT64_MAX / 1000 - 1)
		return false;
	*ns = (int64_t)us * 1000;
	if (**at != '.')
		return true;
	word = pfw_bytes_load(*at + 1);
	if (pfw_bytes_digits(word) != 3)
		return false;
	*ns += (int64_t)pfw_bytes_number(word, 3);
	*at += 4;
	return true;
}

/* A string up to its closing quote; one with escapes is left to the parser. */
static inline bool skip_string(const char **at)
{
	const char *in = *at;
	unsigned plain;

	while ((plain = pfw_bytes_plain16(in)) == 16)
		in += 16;
	for (in += plain; *in != '"' && *in != '\\' && *in != '\n';)
		in++;
	*at = in + 1;
	return *in == '"';
}

static bool head_fast(const char *at, struct head *head)
{
	uint64_t unused;

	if (!take(&at, "{\"id\":") || !take_number(&at, &unused) || !take(&at, ",\"name\":\""))
		return false;
	head->process = memcmp(at, "process\"", 8) == 0;
	if (!skip_string(&at) || !take(&at, ",\"cat\":\"") || !skip_string(&at) ||
	    !take(&at, ",\"pid\":") || !take_number(&at, &head->pid) || !take(&at, ",\"tid\":") ||
	    !take_number(&at, &unused) || !take(&at, ",\"ts\":") || !take_us(&at, &head->ts_ns))
		return false;
	head->dur_ns = 0;
	if (take(&at, ",\"dur\":") && !take_us(&at, &head->dur_ns))
		return false;
	if (!take(&at, ",\"ph\":\"") || *at == '"' || *at == '\\' || at[1] != '"')
		return false;
	head->metadata = *at == 'M';
	return true;
}

/* ---- any line ---- */

struct scanner {
	struct pfw_rows *rows;
	const struct pfw_rows_want *want;
	struct pfw_problems *problems;
	uint64_t line;
	bool at_begin; /* only `process` lines before it in its file */
	bool untimed;  /* there are rows with NO_TS */
};

/* Parse a line in full.  Return whether it is an event; *bytes gets its length without what is
 * behind the object. */
static bool head_any(struct scanner *scanner, const char *text, size_t *bytes, struct head *head)
{
	struct pfw_entry entry;

	pfw_entry_parse(&entry, text, *bytes);
	if (entry.kind == PFW_ENTRY_BAD)
		pfw_problems_add(scanner->problems, scanner->line, 0, "%s at character %zu",
				 entry.why, entry.why_at + 1);
	if (entry.kind != PFW_ENTRY_EVENT)
		return false;
	if (entry.comma) {
		while (text[*bytes - 1] != '}')
			(*bytes)--;
	}
	head->ts_ns = NO_TS;
	if (entry.has & ~entry.wrong & PFW_ENTRY_TS)
		head->ts_ns = entry.ts_ns > NO_TS ? entry.ts_ns : NO_TS + 1;
	head->dur_ns = entry.dur_ns;
	head->pid = entry.pid;
	head->metadata = entry.ph == 'M';
	head->process = pfw_slice_is(&entry.name, "process");
	return true;
}

/* Whether it overlaps the window; an instant is in it from since on. */
static bool is_wanted(const struct pfw_rows_want *want, const struct pfw_row *row)
{
	if (row->metadata)
		return true;
	return row->ts_ns < want->until_ns &&
	       (row->end_ns > want->since_ns ||
		(row->end_ns == row->ts_ns && row->ts_ns >= want->since_ns));
}

static int make_room(struct pfw_rows *rows)
{
	size_t room = rows->room ? rows->room * 2 : FIRST_ROOM;
	struct pfw_row *bigger = realloc(rows->row, room * sizeof(*bigger));

	if (!bigger)
		return -ENOMEM;
	rows->row = bigger;
	rows->room = room;
	return 0;
}

/* Keep a line, if it is wanted.  `bytes` is without its '\n'. */
static int add_row(struct scanner *scanner, size_t at, size_t bytes, const struct head *head)
{
	struct pfw_rows *rows = scanner->rows;
	struct pfw_row row = { .ts_ns = head->ts_ns,
			       .order = scanner->want->order + scanner->line - 1,
			       .at = (uint32_t)at,
			       .bytes = (uint32_t)bytes + 1,
			       .metadata = head->metadata };

	if (head->dur_ns < 0 || __builtin_add_overflow(head->ts_ns, head->dur_ns, &row.end_ns))
		row.end_ns = head->ts_ns;
	scanner->at_begin = scanner->at_begin && head->metadata && head->process;
	if (scanner->at_begin)
		row.ts_ns = PFW_ROW_FIRST;
	scanner->untimed |= head->ts_ns == NO_TS && !scanner->at_begin;
	if (!is_wanted(scanner->want, &row) ||
	    (scanner->want->pid && scanner->want->pid != head->pid))
		return 0;
	if (rows->count == rows->room && make_room(rows))
		return -ENOMEM;
	if (rows->count == 0)
		rows->pid = head->pid;
	else if (rows->pid != head->pid)
		rows->pid = 0;
	row.hash = pfw_linehash(rows->text.data + at, bytes);
	/* Not by its bit fields: each page would be read before it is written. */
	memcpy(&rows->row[rows->count++], &row, sizeof(row));
	rows->metadata += head->metadata;
	rows->checksum += row.hash;
	return 0;
}

/* The line text.data[at..at + bytes), a '\n' behind it. */
static int scan_line(struct scanner *scanner, size_t at, size_t bytes)
{
	char *text = scanner->rows->text.data + at;
	struct head head;

	scanner->line++;
	if (bytes > PFW_SCAN_LINE_MAX) {
		pfw_problems_add_long(scanner->problems, scanner->line, 0, bytes);
		return 0;
	}
	/* Shorter ones could make a constant match across the end. */
	if (bytes < SLACK || text[bytes - 1] != '}' || !head_fast(text, &head)) {
		if (!head_any(scanner, text, &bytes, &head))
			return 0;
		if (text[bytes] != '\n') {
			text[bytes] = '\n';
			scanner->rows->mended = true;
		}
	}
	return add_row(scanner, at, bytes, &head);
}

/* Rows without a time get that of the row before; the first ones, of the first that has one. */
static void give_times(struct pfw_rows *rows)
{
	int64_t ts = 0;

	for (size_t i = rows->count; i-- > 0;) {
		if (rows->row[i].ts_ns > NO_TS)
			ts = rows->row[i].ts_ns;
	}
	for (size_t i = 0; i < rows->count; i++) {
		struct pfw_row *row = &rows->row[i];

		if (row->ts_ns == NO_TS)
			row->ts_ns = row->end_ns = ts;
		else if (row->ts_ns != PFW_ROW_FIRST)
			ts = row->ts_ns;
	}
}

/* ---- order ---- */

#define BY_INSERTION 24

static void insertion_sort(struct pfw_row *row, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		struct pfw_row moved = row[i];
		size_t to = i;

		for (; to > 0 && row[to - 1].ts_ns > moved.ts_ns; to--)
			row[to] = row[to - 1];
		row[to] = moved;
	}
}

/*
 * Stable merge sort for what is nearly sorted: halves in order already cost one comparison, and of
 * others only what overlaps is moved.  `spare` has room for half of the rows.
 */
static void sort_rows(struct pfw_row *row, size_t count, struct pfw_row *spare)
{
	size_t half = count / 2, left = 0, right = half, to;

	if (count <= BY_INSERTION) {
		insertion_sort(row, count);
		return;
	}
	sort_rows(row, half, spare);
	sort_rows(row + half, count - half, spare);
	if (row[half - 1].ts_ns <= row[half].ts_ns)
		return;
	while (row[left].ts_ns <= row[half].ts_ns)
		left++;
	memcpy(spare, row + left, (half - left) * sizeof(*row));
	for (to = left, left = 0, half -= to; left < half;) {
		if (right < count && row[right].ts_ns < spare[left].ts_ns)
			row[to++] = row[right++];
		else
			row[to++] = spare[left++];
	}
}

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
	sort_rows(rows->row, rows->count, spare);
	free(spare);
	return 0;
}

/* Have a '\n' behind the last line, too, which is to mend it, and what may be compared behind that. */
static int end_text(struct pfw_rows *rows, size_t begin)
{
	size_t end = rows->text.bytes;
	int error = pfw_text_room(&rows->text, end + SLACK);

	if (error)
		return error;
	memset(rows->text.data + end, 0, SLACK);
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
	return error ? error : put_in_order(rows);
}
