/* grid.c - rows of cells for people and for programs; see grid.h. */
#include "grid.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "store/json_print.h"
#include "store/more.h"

#define TEXT_WIDTH 60u /* of a text, for people */
#define CELL_BYTES 512u

/* ---- cells ---- */

static struct grid_cell *add(struct grid *grid, enum grid_kind kind)
{
	static struct grid_cell nowhere;
	struct grid_cell *more = pfw_more(grid->cell, grid->cells, &grid->room, sizeof(*more));

	if (!more) {
		grid->failed = true;
		return &nowhere;
	}
	grid->cell = more;
	more[grid->cells] = (struct grid_cell){ .kind = kind };
	return &more[grid->cells++];
}

void grid_none(struct grid *grid)
{
	add(grid, GRID_NONE);
}

void grid_text(struct grid *grid, const char *text, size_t bytes)
{
	struct grid_cell *cell = add(grid, text ? GRID_TEXT : GRID_NONE);

	if (!text || grid->failed)
		return;
	cell->text = malloc(bytes + 1);
	if (!cell->text) {
		grid->failed = true;
		return;
	}
	memcpy(cell->text, text, bytes);
	cell->text[bytes] = '\0';
	cell->bytes = bytes;
}

void grid_whole(struct grid *grid, enum grid_kind kind, int64_t number)
{
	add(grid, kind)->whole = number;
}

void grid_number(struct grid *grid, enum grid_kind kind, double number)
{
	add(grid, isfinite(number) ? kind : GRID_NONE)->number = number;
}

void grid_release(struct grid *grid)
{
	for (size_t i = 0; i < grid->cells; i++)
		free(grid->cell[i].text);
	free(grid->cell);
	grid->cell = NULL;
	grid->cells = grid->room = 0;
}

/* ---- for people ---- */

static void show_ns(char *out, int64_t ns)
{
	double size = fabs((double)ns);
	const char *unit = "us";
	double value = (double)ns / 1e3;

	if (size >= 1e9) {
		unit = "s";
		value = (double)ns / 1e9;
	} else if (size >= 1e6) {
		unit = "ms";
		value = (double)ns / 1e6;
	}
	snprintf(out, CELL_BYTES, "%.3f %s", value, unit);
}

/* The end of a long text, which tells paths apart; control bytes would break the line. */
static void show_text(char *out, const struct grid_cell *cell, size_t width)
{
	const char *at = cell->text;
	size_t bytes = cell->bytes, used = 0;

	if (width && bytes > width) {
		at += bytes - (width - 3);
		bytes = width - 3;
		while (bytes && ((unsigned char)*at & 0xc0) == 0x80) {
			at++;
			bytes--;
		}
		used = (size_t)sprintf(out, "...");
	}
	for (size_t i = 0; i < bytes && used + 1 < CELL_BYTES; i++)
		out[used++] = (unsigned char)at[i] < ' ' || at[i] == 0x7f ? '?' : at[i];
	out[used] = '\0';
}

static void show(char *out, const struct grid_cell *cell, size_t width)
{
	*out = '\0';
	switch (cell->kind) {
	case GRID_NONE:
		break;
	case GRID_TEXT:
		show_text(out, cell, width);
		break;
	case GRID_COUNT:
	case GRID_BYTES:
		snprintf(out, CELL_BYTES, "%s%s", cell->whole < 0 ? "-" : "",
			 (cell->kind == GRID_COUNT ? cli_count : cli_bytes)(
				 cell->whole < 0 ? -(uint64_t)cell->whole : (uint64_t)cell->whole));
		break;
	case GRID_NS:
		show_ns(out, cell->whole);
		break;
	case GRID_PERCENT:
		snprintf(out, CELL_BYTES, "%.1f %%", cell->number);
		break;
	case GRID_CHANGE:
		snprintf(out, CELL_BYTES, "%+.1f %%", cell->number);
		break;
	case GRID_NUMBER:
		snprintf(out, CELL_BYTES, "%.4g", cell->number);
		break;
	case GRID_YES:
		snprintf(out, CELL_BYTES, "%s", cell->whole ? "yes" : "");
		break;
	}
}

static size_t characters(const char *text)
{
	size_t count = 0;

	for (; *text; text++)
		count += ((unsigned char)*text & 0xc0) != 0x80;
	return count;
}

/* A column of texts stands at the left. */
static bool is_text(const struct grid *grid, size_t column)
{
	for (size_t i = column; i < grid->cells; i += grid->columns) {
		if (grid->cell[i].kind != GRID_NONE)
			return grid->cell[i].kind == GRID_TEXT;
	}
	return true;
}

static void put_padded(FILE *out, const char *text, size_t width, bool left, bool last)
{
	size_t count = characters(text);
	int blanks = count < width ? (int)(width - count) : 0;

	fprintf(out, "%*s%s%*s", left ? 0 : blanks, "", text, left && !last ? blanks : 0, "");
}

static void print_text(const struct grid *grid, FILE *out)
{
	size_t *width = calloc(grid->columns, sizeof(*width)), shown = 0;
	bool bold = cli_colours(out);
	char text[CELL_BYTES];

	for (size_t i = 0; width && i < grid->columns; i++) {
		if (!grid->column[i].title)
			continue;
		width[i] = characters(grid->column[i].title);
		for (size_t j = i; j < grid->cells; j += grid->columns) {
			show(text, &grid->cell[j], TEXT_WIDTH);
			if (characters(text) > width[i])
				width[i] = characters(text);
		}
		fputs(shown++ ? "  " : cli_style(bold, CLI_BOLD), out);
		put_padded(out, grid->column[i].title, width[i], is_text(grid, i), false);
	}
	fprintf(out, "%s\n", cli_style(bold, CLI_PLAIN));
	for (size_t i = 0; width && i < grid->cells; i += grid->columns) {
		shown = 0;
		for (size_t j = 0; j < grid->columns; j++) {
			if (!grid->column[j].title)
				continue;
			show(text, &grid->cell[i + j], TEXT_WIDTH);
			fputs(shown++ ? "  " : "", out);
			put_padded(out, text, width[j], is_text(grid, j), j + 1 == grid->columns);
		}
		fputc('\n', out);
	}
	free(width);
}

void grid_put_md(FILE *out, const char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		unsigned char byte = (unsigned char)text[i];

		if (byte < ' ' || byte == 0x7f)
			byte = '?';
		if (strchr("|\\`*_<", byte))
			fputc('\\', out);
		fputc(byte, out);
	}
}

void grid_put_md_cell(FILE *out, const char *text, size_t bytes)
{
	fputs("| ", out);
	grid_put_md(out, text, bytes);
	fputc(' ', out);
}

static void print_md(const struct grid *grid, FILE *out)
{
	char text[CELL_BYTES];

	for (size_t i = 0; i < grid->columns; i++) {
		if (grid->column[i].title)
			fprintf(out, "| %s ", grid->column[i].title);
	}
	fputs("|\n", out);
	for (size_t i = 0; i < grid->columns; i++) {
		if (grid->column[i].title)
			fputs(is_text(grid, i) ? "|---" : "|--:", out);
	}
	fputs("|\n", out);
	for (size_t i = 0; i < grid->cells; i++) {
		if (grid->column[i % grid->columns].title) {
			show(text, &grid->cell[i], 0);
			grid_put_md_cell(out, text, strlen(text));
		}
		if ((i + 1) % grid->columns == 0)
			fputs("|\n", out);
	}
}

/* ---- for programs ---- */

/* A number as JSON and CSV have it; "" for none. */
static void number(char *out, const struct grid_cell *cell)
{
	uint64_t size = cell->whole < 0 ? -(uint64_t)cell->whole : (uint64_t)cell->whole;

	*out = '\0';
	switch (cell->kind) {
	case GRID_COUNT:
	case GRID_BYTES:
		snprintf(out, CELL_BYTES, "%" PRId64, cell->whole);
		break;
	case GRID_NS:
		snprintf(out, CELL_BYTES, "%s%" PRIu64 ".%03u", cell->whole < 0 ? "-" : "",
			 size / 1000, (unsigned)(size % 1000));
		break;
	case GRID_PERCENT:
	case GRID_CHANGE:
	case GRID_NUMBER:
		snprintf(out, CELL_BYTES, "%.12g", cell->number);
		break;
	case GRID_YES:
		snprintf(out, CELL_BYTES, "%s", cell->whole ? "true" : "false");
		break;
	default:
		break;
	}
}

static void print_ndjson(const struct grid *grid, FILE *out, const char *section)
{
	char text[CELL_BYTES];

	for (size_t i = 0; i < grid->cells; i++) {
		const struct grid_cell *cell = &grid->cell[i];
		size_t column = i % grid->columns;

		fputs(column ? "," : "{", out);
		if (!column && section)
			fprintf(out, "\"section\":\"%s\",", section);
		fprintf(out, "\"%s\":", grid->column[column].key);
		number(text, cell);
		if (cell->kind == GRID_TEXT)
			pfw_json_print_string(out, cell->text);
		else
			fputs(*text ? text : "null", out);
		if (column + 1 == grid->columns)
			fputs("}\n", out);
	}
}

static void put_field(FILE *out, const char *text, char comma)
{
	if (comma == '\t') {
		for (; *text; text++)
			fputc(strchr("\t\n\r", *text) ? ' ' : *text, out);
		return;
	}
	if (!strpbrk(text, ",\"\n\r")) {
		fputs(text, out);
		return;
	}
	fputc('"', out);
	for (; *text; text++)
		fprintf(out, *text == '"' ? "\"\"" : "%c", *text);
	fputc('"', out);
}

static void print_csv(const struct grid *grid, FILE *out, char comma, const char *section)
{
	char text[CELL_BYTES];

	if (section)
		fprintf(out, "section%c", comma);
	for (size_t i = 0; i < grid->columns; i++)
		fprintf(out, "%s%c", grid->column[i].key, i + 1 == grid->columns ? '\n' : comma);
	for (size_t i = 0; i < grid->cells; i++) {
		const struct grid_cell *cell = &grid->cell[i];

		if (section && i % grid->columns == 0)
			fprintf(out, "%s%c", section, comma);
		number(text, cell);
		put_field(out, cell->kind == GRID_TEXT ? cell->text : text, comma);
		fputc((i + 1) % grid->columns ? comma : '\n', out);
	}
}

void grid_print(const struct grid *grid, FILE *out, int format, const char *section)
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
}
