/* tools/ui/grid.c - a table of cells for people and for programs; see grid.h. */
#include "ui/grid.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "store/json/emit.h"
#include "store/json/print.h"
#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/sys/pool.h"
#include "ui/cells.h"
#include "ui/cli.h"
#include "ui/fit.h"
#include "ui/host.h"

#define TEXT_WIDTH 60u	/* of a text, for people */
#define TEXT_LEAST 24u	/* where the terminal is narrow */
#define NUMBER_BYTES 64 /* of any other cell */
#define GAP 2u		/* blanks between columns */

/* ---- cells ---- */

static struct grid_cell *add(struct grid *grid, enum grid_kind kind)
{
	if (PFW_PUSH(grid->cell, grid->cells, grid->room, (struct grid_cell){ .kind = kind })) {
		grid->failed = true;
		return &grid->nowhere;
	}
	return &grid->cell[grid->cells - 1];
}

struct grid_cell *grid_extend(struct grid *grid, size_t rows)
{
	size_t cells = rows * grid->columns;
	struct grid_cell *first;

	if (PFW_RESERVE(grid->cell, grid->cells + cells, grid->room)) {
		grid->failed = true;
		return NULL;
	}
	first = grid->cell + grid->cells;
	pfw_grow_populate(first, cells * sizeof(*first));
	grid->cells += cells;
	return first;
}

void grid_none(struct grid *grid)
{
	add(grid, GRID_NONE);
}

/* Keep the text of a cell.  False: no memory. */
static bool keep(struct grid *grid, struct grid_cell *cell, const char *text, size_t bytes)
{
	size_t at = grid->text.bytes;

	if (bytes > UINT32_MAX || pfw_buffer_add(&grid->text, text, bytes))
		return false;
	cell->text = at;
	cell->bytes = (uint32_t)bytes;
	return true;
}

static void add_text(struct grid *grid, enum grid_kind kind, const char *text, size_t bytes)
{
	struct grid_cell *cell = add(grid, text ? kind : GRID_NONE);

	grid->failed |= text && !keep(grid, cell, text, bytes);
}

void grid_text(struct grid *grid, const char *text, size_t bytes)
{
	add_text(grid, GRID_TEXT, text, bytes);
}

void grid_digits(struct grid *grid, const char *text, size_t bytes)
{
	add_text(grid, GRID_DIGITS, text, bytes);
}

void grid_whole(struct grid *grid, enum grid_kind kind, int64_t number)
{
	add(grid, kind)->whole = number;
}

void grid_maybe(struct grid *grid, enum grid_kind kind, bool known, int64_t number)
{
	add(grid, known ? kind : GRID_NONE)->whole = number;
}

void grid_u64(struct grid *grid, enum grid_kind kind, uint64_t number)
{
	grid_whole(grid, kind, pfw_saturate_i128(number));
}

void grid_put(struct grid *grid, const __int128 *number, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		enum grid_kind kind = grid->column[grid->cells % grid->columns].kind;

		grid_maybe(grid, kind == GRID_TS ? GRID_NS : kind, number[i] != GRID_NO,
			   pfw_saturate_i128(number[i]));
	}
}

void grid_number(struct grid *grid, enum grid_kind kind, double number)
{
	add(grid, isfinite(number) ? kind : GRID_NONE)->number = number;
}

static void clear(struct grid *grid)
{
	grid->cells = grid->text.bytes = 0;
}

void grid_release(struct grid *grid)
{
	free(grid->cell);
	pfw_buffer_free(&grid->text);
	grid->cell = NULL;
	grid->room = 0;
	clear(grid);
}

static bool has_text(const struct grid_cell *cell)
{
	return cell->kind == GRID_TEXT || cell->kind == GRID_DIGITS;
}

/* ---- for people ---- */

/* With few digits and a unit. */
static const char *show_number(const struct grid_cell *cell, char *out)
{
	uint64_t size = cell->whole < 0 ? -(uint64_t)cell->whole : (uint64_t)cell->whole;

	switch (cell->kind) {
	case GRID_COUNT:
	case GRID_BYTES:
		out[0] = '-';
		strcpy(out + (cell->whole < 0),
		       cell->kind == GRID_COUNT ? cli_count(size) : cli_bytes(size));
		return out;
	case GRID_ID:
		*pfw_append_i64(out, cell->whole) = '\0';
		return out;
	case GRID_NS:
		return cli_time(cell->whole);
	case GRID_PERCENT:
	case GRID_CHANGE:
		snprintf(out, NUMBER_BYTES, cell->kind == GRID_CHANGE ? "%+.1f%%" : "%.1f%%",
			 cell->number);
		return out;
	case GRID_YES:
		return cell->whole ? "yes" : "";
	default:
		snprintf(out, NUMBER_BYTES, "%.4g", cell->number);
		return out;
	}
}

/* The text of a cell; a grid whose texts all are empty has no room for them. */
static inline const char *text_of(const struct grid *grid, const struct grid_cell *cell)
{
	return cell->bytes ? grid->text.data + cell->text : "";
}

/* The cell for people; width 0: no limit. */
static inline struct cell show(const struct grid *grid, const struct grid_cell *cell, size_t width,
			       char *out)
{
	const char *text = grid->none ? grid->none : "";

	if (cell->shown)
		return (struct cell){ .text = text_of(grid, cell),
				      .bytes = cell->bytes,
				      .number = true };
	if (has_text(cell))
		return cell_cut(text_of(grid, cell), cell->bytes, width ? width : cell->bytes);
	if (cell->kind != GRID_NONE)
		text = show_number(cell, out);
	return (struct cell){ .text = text, .bytes = strlen(text) };
}

/* Columns of texts are left-aligned; the first value decides. */
static bool is_text(const struct grid *grid, size_t column)
{
	for (size_t i = column; i < grid->cells; i += grid->columns) {
		if (grid->cell[i].kind != GRID_NONE)
			return grid->cell[i].kind == GRID_TEXT;
	}
	return !grid->none;
}

/* How wide a cell is.  A number is formatted once, and kept, if there is memory; of a time, as most cells of large
 * tables are, only its length is. */
static size_t measure_cell(struct grid *grid, struct grid_cell *cell)
{
	char number[NUMBER_BYTES];
	struct cell shown;

	if (cell->kind == GRID_NS)
		return cell->bytes = (uint32_t)cli_time_bytes(cell->whole);
	if (!has_text(cell) && cell->kind != GRID_NONE) {
		const char *text = show_number(cell, number);

		cell->shown = keep(grid, cell, text, strlen(text));
	}
	shown = show(grid, cell, TEXT_WIDTH, number);
	return shown.number ? shown.bytes : cell_columns(&shown);
}

/* Measure the columns: the width of the widest cell of each, and whether it has a value.  Row by
 * row, as the cells lie in memory. */
static void measure(struct grid *grid, struct fit_column *column)
{
	for (size_t i = 0, at = 0; i < grid->cells; i++, at = at + 1 < grid->columns ? at + 1 : 0) {
		struct fit_column *fit = &column[at];

		if (fit->hidden)
			continue;
		PFW_RAISE(fit->width, measure_cell(grid, &grid->cell[i]));
		fit->empty &= grid->cell[i].kind == GRID_NONE;
	}
}

/* Whether this is the title, or has it on one side of its '|'. */
static bool has_title(const char *few, const char *title)
{
	size_t first = strcspn(few, "|"), bytes = strlen(title);

	return (first == bytes && memcmp(few, title, bytes) == 0) ||
	       (few[first] && strcmp(few + first + 1, title) == 0);
}

/* How early a narrow terminal loses the column. */
static unsigned drop_of(const struct grid *grid, const char *title)
{
	unsigned left = 0;

	for (const char *const *few = grid->few; few && *few; few++) {
		if (left || has_title(*few, title))
			left++;
	}
	return left;
}

/* How the columns are shown; NULL: no memory. */
static struct fit_column *make_columns(struct grid *grid)
{
	struct fit_column *column = calloc(grid->columns, sizeof(*column));

	for (size_t i = 0; column && i < grid->columns; i++) {
		column[i].title = grid->column[i].title;
		column[i].hidden = !column[i].title;
		if (column[i].hidden)
			continue;
		column[i].drop = drop_of(grid, column[i].title);
		column[i].together = column[i].drop > 0;
		column[i].empty = true;
		column[i].width = cell_width(column[i].title, strlen(column[i].title));
		column[i].left = is_text(grid, i);
		column[i].least = column[i].left ? TEXT_LEAST : 0;
	}
	if (column)
		measure(grid, column);
	return column;
}

static void put_titles(const struct grid *grid, struct cell_line *line,
		       const struct fit_column *column)
{
	bool colours = cli_colours(line->out);

	fputs(cli_style(colours, CLI_BOLD), line->out);
	for (size_t i = 0, shown = 0; i < grid->columns; i++) {
		if (column[i].hidden)
			continue;
		cell_blanks(line, shown++ ? GAP : 0);
		cell_put(line,
			 &(struct cell){ .text = column[i].title,
					 .bytes = strlen(column[i].title) },
			 column[i].width, column[i].left ? CELL_LEFT : CELL_RIGHT);
	}
	cell_flush(line);
	fputs(cli_style(colours, CLI_PLAIN), line->out);
	cell_end(line);
}

static void put_row(const struct grid *grid, struct cell_line *line, const struct grid_cell *row,
		    const struct fit_column *column)
{
	char number[NUMBER_BYTES];

	for (size_t i = 0, shown = 0; i < grid->columns; i++) {
		size_t width = column[i].width;
		struct cell cell;

		if (column[i].hidden)
			continue;
		cell_blanks(line, shown++ ? GAP : 0);
		if (row[i].kind == GRID_NS && !column[i].left) {
			cell_put_time(line, row[i].whole, row[i].bytes, width);
			continue;
		}
		if (row[i].shown && row[i].bytes && !column[i].left) {
			cell_put_number(line, text_of(grid, &row[i]), row[i].bytes, width);
			continue;
		}
		cell = show(grid, &row[i], width < TEXT_WIDTH ? width : TEXT_WIDTH, number);
		cell_put(line, &cell, width, column[i].left ? CELL_LEFT : CELL_RIGHT);
	}
	cell_end(line);
}

static void put_md_line(const struct grid *grid, FILE *out, const struct grid_cell *row)
{
	char number[NUMBER_BYTES];

	for (size_t i = 0; i < grid->columns; i++) {
		struct cell cell = { .text = grid->column[i].title };

		if (!cell.text)
			continue;
		cell.bytes = strlen(cell.text);
		if (row)
			cell = show(grid, &row[i], 0, number);
		fputs("| ", out);
		cell_put_md(out, cell.text, cell.bytes);
		fputc(' ', out);
	}
	fputs("|\n", out);
}

static void print_md(const struct grid *grid, FILE *out)
{
	put_md_line(grid, out, NULL);
	for (size_t i = 0; i < grid->columns; i++) {
		if (grid->column[i].title)
			fputs(is_text(grid, i) ? "|---" : "|--:", out);
	}
	fputs("|\n", out);
	for (size_t i = 0; i < grid->cells; i += grid->columns)
		put_md_line(grid, out, &grid->cell[i]);
}

/* ---- rows that several threads write ---- */

#define PART_ROWS 1024u

/* Parts of the rows, of which each is written to memory first. */
struct writing {
	const struct grid *grid;
	const struct fit_column *column;
	struct part {
		char *text; /* NULL: not written */
		size_t bytes;
	} * part;
	size_t parts;
};

static void put_part(const struct writing *writing, size_t part, FILE *out)
{
	const struct grid *grid = writing->grid;
	const struct grid_cell *row = grid->cell + part * PART_ROWS * grid->columns;
	const struct grid_cell *end = row + PART_ROWS * grid->columns;
	struct cell_line line = { .out = out };

	for (; row < end && row < grid->cell + grid->cells; row += grid->columns)
		put_row(grid, &line, row, writing->column);
}

static void write_part(void *user, size_t number)
{
	const struct writing *writing = user;
	struct part *part = &writing->part[number];
	FILE *out = open_memstream(&part->text, &part->bytes);

	if (!out)
		return;
	put_part(writing, number, out);
	if (fclose(out)) {
		free(part->text);
		part->text = NULL;
	}
}

static void put_rows(const struct grid *grid, const struct fit_column *column, FILE *out)
{
	size_t rows = grid->columns ? grid->cells / grid->columns : 0;
	struct writing writing = { .grid = grid,
				   .column = column,
				   .parts = (rows + PART_ROWS - 1) / PART_ROWS };

	if (grid->jobs > 1 && writing.parts > 2)
		writing.part = calloc(writing.parts, sizeof(*writing.part));
	if (writing.part)
		pfw_pool_share(grid->jobs, writing.parts, write_part, &writing);
	for (size_t i = 0; i < writing.parts; i++) {
		if (writing.part && writing.part[i].text) {
			fwrite(writing.part[i].text, 1, writing.part[i].bytes, out);
			free(writing.part[i].text);
		} else {
			put_part(&writing, i, out);
		}
	}
	free(writing.part);
}

static void print_text(struct grid *grid, FILE *out)
{
	struct cell_line line = { .out = out };
	struct fit_column *column = make_columns(grid);

	if (!column)
		return;
	fit(column, grid->columns, GAP, grid->width);
	put_titles(grid, &line, column);
	put_rows(grid, column, out);
	fit_say(out, column, grid->columns);
	free(column);
}

void grid_title(FILE *out, int format, const char *title)
{
	bool bold = format != CLI_MD && cli_colours(out);

	fprintf(out, "\n%s%s%s\n%s", cli_style(bold, CLI_BOLD), title, cli_style(bold, CLI_PLAIN),
		format == CLI_MD ? "\n" : "");
}

/* ---- for programs ---- */

/* A number as JSON and CSV write it; "" for none. */
static void number_text(const struct grid_cell *cell, char *out)
{
	static const char *const formats[] = {
		[GRID_PERCENT] = "%.12g", [GRID_CHANGE] = "%.12g", [GRID_NUMBER] = "%.12g",
		[GRID_SIX] = "%.6g",	  [GRID_WHOLE] = "%.0f",   [GRID_FIXED] = "%.3f"
	};

	switch (cell->kind) {
	case GRID_NONE:
		*out = '\0';
		break;
	case GRID_COUNT:
	case GRID_ID:
	case GRID_BYTES:
		*pfw_append_i64(out, cell->whole) = '\0';
		break;
	case GRID_NS:
		*pfw_emit_us(out, cell->whole) = '\0';
		break;
	case GRID_YES:
		strcpy(out, cell->whole ? "true" : "false");
		break;
	default:
		snprintf(out, NUMBER_BYTES, formats[cell->kind], cell->number);
	}
}

static void print_ndjson(const struct grid *grid, FILE *out, const char *section)
{
	struct pfw_printer json = { .out = out };
	char number[NUMBER_BYTES];

	for (size_t i = 0; i < grid->cells; i++) {
		const struct grid_cell *cell = &grid->cell[i];
		const char *key = grid->column[i % grid->columns].key;

		if (i % grid->columns == 0) {
			pfw_print(&json, "{");
			if (section)
				pfw_print_text(&json, grid->kind ? grid->kind : "section", section,
					       strlen(section));
		}
		if (has_text(cell)) {
			(cell->kind == GRID_TEXT ? pfw_print_text : pfw_print_json)(
				&json, key, text_of(grid, cell), cell->bytes);
		} else {
			number_text(cell, number);
			pfw_print_json(&json, key, *number ? number : "null",
				       *number ? strlen(number) : 4);
		}
		if ((i + 1) % grid->columns == 0)
			pfw_print(&json, "}\n");
	}
}

static void put_text(FILE *out, const char *text, size_t bytes, char comma)
{
	char *quoted = malloc(2 * bytes + 2), *end;

	if (!quoted)
		return;
	end = comma == '\t' ? cell_tsv(quoted, text, bytes) : cell_csv(quoted, text, bytes);
	fwrite_unlocked(quoted, 1, (size_t)(end - quoted), out);
	free(quoted);
}

static void print_csv(struct grid *grid, FILE *out, char comma, const char *section)
{
	char number[NUMBER_BYTES];

	if (section && !grid->headed)
		fprintf(out, "section%c", comma);
	for (size_t i = 0; i < grid->columns && !grid->headed; i++)
		fprintf(out, "%s%c", grid->column[i].key, i + 1 == grid->columns ? '\n' : comma);
	grid->headed = true;
	for (size_t i = 0; i < grid->cells; i++) {
		const struct grid_cell *cell = &grid->cell[i];

		if (section && i % grid->columns == 0)
			fprintf(out, "%s%c", section, comma);
		if (has_text(cell)) {
			put_text(out, text_of(grid, cell), cell->bytes, comma);
		} else {
			number_text(cell, number);
			fputs_unlocked(number, out);
		}
		putc_unlocked((i + 1) % grid->columns ? comma : '\n', out);
	}
}

enum grid_type grid_type(enum grid_kind kind)
{
	switch (kind) {
	case GRID_NONE:
	case GRID_TEXT:
		return GRID_TYPE_TEXT;
	case GRID_COUNT:
	case GRID_ID:
	case GRID_BYTES:
	case GRID_WHOLE:
	case GRID_DIGITS:
	case GRID_TS:
		return GRID_TYPE_WHOLE;
	case GRID_YES:
		return GRID_TYPE_FLAG;
	default:
		return GRID_TYPE_REAL;
	}
}

void grid_print(struct grid *grid, FILE *out, int format, const char *section)
{
	if (cli_host) {
		cli_host->rows(cli_host->user, grid, section);
		clear(grid);
	} else {
		grid_write(grid, out, format, section);
	}
}

int grid_end(struct grid *grid, FILE *out, int format, const char *section)
{
	int error = grid->failed ? -ENOMEM : 0;

	if (!error)
		grid_print(grid, out, format, section);
	grid_release(grid);
	return error;
}

void grid_write(struct grid *grid, FILE *out, int format, const char *section)
{
	switch (format) {
	case CLI_NDJSON:
		print_ndjson(grid, out, section);
		break;
	case CLI_CSV:
	case CLI_TSV:
		print_csv(grid, out, format == CLI_TSV ? '\t' : ',', section);
		break;
	case CLI_MD:
		print_md(grid, out);
		break;
	default:
		print_text(grid, out);
		break;
	}
	clear(grid);
}

/* ---- reading ---- */

size_t grid_place(const struct grid *grid, const char *key)
{
	size_t place = 0;

	while (place < grid->columns && strcmp(grid->column[place].key, key) != 0)
		place++;
	return place;
}

int64_t grid_number_at(const struct grid *grid, const struct grid_cell *row, size_t place,
		       int64_t otherwise)
{
	const struct grid_cell *cell = place < grid->columns ? &row[place] : NULL;

	if (!cell || cell->kind == GRID_NONE || has_text(cell))
		return otherwise;
	return cell->kind == GRID_NUMBER ? (int64_t)cell->number : cell->whole;
}
