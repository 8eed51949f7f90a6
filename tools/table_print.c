/* table_print.c - the rows of `pfw table` as text, in torch's layout, or Markdown; and what is shown of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grid.h"
#include "table_output.h"
#include "table_text.h"

#define GAP "  "
#define COLUMN_WIDTH 12u /* torch's */
#define SHAPES_WIDTH 80u
#define SOURCE_WIDTH 75u

/* A column as it is printed. */
struct cell_column {
	const struct table_column *column; /* NULL: field `field` of the key */
	unsigned field;
	enum table_field what;
	char header[64];
	size_t width;
	bool left;
};

struct sheet {
	const struct table_options *options;
	const struct table_view *view;
	struct cell_column column[TABLE_COLUMNS_MAX + TABLE_FIELDS + 1];
	unsigned columns;
};

/* ---- cells ---- */

/* Characters of UTF-8, as Python counts them. */
static size_t characters(const char *text, size_t bytes)
{
	size_t count = 0;

	for (size_t i = 0; i < bytes; i++)
		count += ((unsigned char)text[i] & 0xc0) != 0x80;
	return count;
}

/* The bytes of the first `count` characters. */
static size_t first(const char *text, size_t bytes, size_t count)
{
	size_t at = 0;

	for (; at < bytes; at++) {
		if (((unsigned char)text[at] & 0xc0) != 0x80 && count-- == 0)
			break;
	}
	return at;
}

static void put_text(const char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		/* What would steer a terminal does not come out of a trace. */
		putchar((unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i]);
}

static void put_cell(const char *text, size_t bytes, const char *behind,
		     const struct cell_column *column)
{
	size_t width = characters(text, bytes) + strlen(behind);
	int blanks = width < column->width ? (int)(column->width - width) : 0;

	printf("%*s", column->left ? 0 : blanks, "");
	put_text(text, bytes);
	printf("%s%*s" GAP, behind, column->left ? blanks : 0, "");
}

/* A name, cut where it is too long: at the end, three dots instead. */
static void put_name(const struct sheet *sheet, const char *text, size_t bytes,
		     const struct cell_column *column)
{
	unsigned limit = sheet->options->name_width;
	bool cut = limit && characters(text, bytes) + 3 >= limit;

	if (cut)
		bytes = first(text, bytes, limit > 3 ? limit - 3 : 0);
	put_cell(text, bytes, cut ? "..." : "", column);
}

/* A frame or a path, cut where it is too long: at its begin. */
static void put_tail(const struct cell_column *column, const char *text, size_t bytes)
{
	size_t count = characters(text, bytes), skip;
	char *line;

	if (count <= column->width) {
		put_cell(text, bytes, "", column);
		return;
	}
	skip = first(text, bytes, count - column->width + (column->width > 3 ? 3 : 0));
	line = malloc(bytes + 4);
	if (!line)
		return;
	sprintf(line, "%s%.*s", column->width > 3 ? "..." : "", (int)(bytes - skip), text + skip);
	put_cell(line, strlen(line), "", column);
	free(line);
}

/* ---- columns ---- */

static const char *const field_headers[TABLE_FIELDS] = {
	[TABLE_NAME] = "Name",
	[TABLE_CAT] = "Category",
	[TABLE_SHAPE] = "Input Shapes",
	[TABLE_STACK] = "Source Location",
	[TABLE_FNAME] = "File",
	[TABLE_RANK] = "Rank",
	[TABLE_STEP] = "Step",
	[TABLE_PID] = "Pid",
	[TABLE_TID] = "Tid",
};

static struct cell_column *add_column(struct sheet *sheet, const char *header, size_t width)
{
	struct cell_column *column = &sheet->column[sheet->columns++];

	*column = (struct cell_column){ .width = width };
	snprintf(column->header, sizeof(column->header), "%s", header);
	return column;
}

/* The rows that say how wide columns are: torch's way is all, also those beyond the limit. */
static size_t measured(const struct table_options *options, const struct table_view *view)
{
	size_t limit = options->row_limit < 0 ? SIZE_MAX : (size_t)options->row_limit;

	return view->section == TABLE_IO && limit < view->rows ? limit : view->rows;
}

/* The longest text of a field in any row; of a stack, its longest frame. */
static size_t longest(const struct sheet *sheet, unsigned field, bool lines)
{
	const struct table_view *view = sheet->view;
	size_t most = 0;

	for (size_t i = 0; i < measured(sheet->options, view); i++) {
		size_t bytes, count;
		const char *text = table_text(view->row[i], field, &bytes);

		while (bytes) {
			const char *end = lines ? memchr(text, '\n', bytes) : NULL;
			size_t line = end ? (size_t)(end - text) : bytes;

			count = characters(text, line);
			most = count > most ? count : most;
			text += line + (end != NULL);
			bytes -= line + (end != NULL);
		}
	}
	return most;
}

static size_t at_most(size_t width, size_t limit)
{
	return limit && width > limit ? limit : width;
}

static void add_field(struct sheet *sheet, unsigned field)
{
	const struct table_options *options = sheet->options;
	enum table_field what = options->field[field];
	size_t width = longest(sheet, field, what == TABLE_STACK);
	struct cell_column *column;

	/* torch has these columns only where some row has something in them. */
	if (what == TABLE_STACK && !width)
		return;
	if (what == TABLE_SHAPE && width <= 2)
		return;
	if (what == TABLE_SHAPE)
		width = at_most(width + 4, SHAPES_WIDTH);
	else if (what == TABLE_STACK)
		width = at_most(width + 4, SOURCE_WIDTH);
	else if (what == TABLE_NAME)
		width = at_most(width + 4, options->name_width);
	else
		width = at_most(width > 10 ? width + 2 : width, options->name_width);
	if (what != TABLE_NAME && width < strlen(field_headers[what]))
		width = strlen(field_headers[what]);
	column = add_column(sheet, field_headers[what], width);
	column->field = field;
	column->what = what;
	column->left = what == TABLE_STACK;
}

static void add_value(struct sheet *sheet, const struct table_column *value)
{
	struct cell_column *column = add_column(sheet, "", COLUMN_WIDTH);
	char text[64];

	column->column = value;
	table_column_header(value, sheet->view, column->header, sizeof(column->header));
	if (sheet->view->section != TABLE_IO)
		return;
	/* As wide as they must be: there are many. */
	column->width = strlen(column->header);
	for (size_t i = 0; i < measured(sheet->options, sheet->view); i++) {
		table_column_text(value, sheet->view->row[i], sheet->view, text, sizeof(text));
		column->width = strlen(text) > column->width ? strlen(text) : column->width;
	}
}

static bool is_behind(enum table_field what)
{
	return what == TABLE_SHAPE || what == TABLE_STACK;
}

/* torch's order: the key, the values, shapes, flops, source.  (Where a table has both, torch 2.15
 * writes the headers of the last two the wrong way round.) */
static void make_columns(struct sheet *sheet)
{
	const struct table_options *options = sheet->options;
	const struct table_column *value[TABLE_COLUMNS_MAX];
	unsigned values = table_columns_of(options, sheet->view, value);

	for (unsigned i = 0; i < options->fields; i++) {
		if (!is_behind(options->field[i]))
			add_field(sheet, i);
	}
	if (!options->by_name && sheet->view->section == TABLE_COMPUTE)
		add_column(sheet, "Device", 6)->what = TABLE_FIELDS;
	for (unsigned i = 0; i < values; i++) {
		if (options->columns || value[i]->kind != TABLE_FLOPS)
			add_value(sheet, value[i]);
	}
	for (unsigned i = 0; i < options->fields; i++) {
		if (options->field[i] == TABLE_SHAPE)
			add_field(sheet, i);
	}
	for (unsigned i = 0; i < values && !options->columns; i++) {
		if (value[i]->kind == TABLE_FLOPS)
			add_value(sheet, value[i]);
	}
	for (unsigned i = 0; i < options->fields; i++) {
		if (options->field[i] == TABLE_STACK)
			add_field(sheet, i);
	}
}

/* ---- lines of text ---- */

static void put_rule(const struct sheet *sheet)
{
	for (unsigned i = 0; i < sheet->columns; i++) {
		for (size_t j = 0; j < sheet->column[i].width; j++)
			putchar('-');
		fputs(GAP, stdout);
	}
	putchar('\n');
}

static void put_double_rule(const struct sheet *sheet)
{
	size_t width = 0;

	for (unsigned i = 0; i < sheet->columns; i++)
		width += sheet->column[i].width + strlen(GAP);
	for (size_t i = 0; i + strlen(GAP) < width; i++)
		putchar('=');
	putchar('\n');
}

static const char *device_name(int device)
{
	/* torch's DeviceType, those that compute. */
	switch (device) {
	case 0:
		return "CPU";
	case 12:
		return "XPU";
	case 15:
		return "HPU";
	case 19:
		return "MTIA";
	case 20:
		return "PRIVATEUSEONE";
	default:
		return "CUDA";
	}
}

/* The field of a row; of a stack its first frame. */
static void put_field(const struct sheet *sheet, const struct cell_column *column,
		      const struct pfw_average *row)
{
	const char *text, *end;
	size_t bytes;

	if (column->what == TABLE_FIELDS) {
		text = device_name(table_device(row));
		put_cell(text, strlen(text), "", column);
		return;
	}
	text = table_text(row, column->field, &bytes);
	end = memchr(text, '\n', bytes);
	if (column->what == TABLE_STACK)
		put_tail(column, text, end ? (size_t)(end - text) : bytes);
	else if (column->what == TABLE_FNAME)
		put_tail(column, text, bytes);
	else if (column->what == TABLE_SHAPE)
		put_cell(text, first(text, bytes, column->width), "", column);
	else
		put_name(sheet, text, bytes, column);
}

static void put_row(const struct sheet *sheet, const struct pfw_average *row)
{
	char text[64];

	for (unsigned i = 0; i < sheet->columns; i++) {
		const struct cell_column *column = &sheet->column[i];

		if (!column->column) {
			put_field(sheet, column, row);
			continue;
		}
		table_column_text(column->column, row, sheet->view, text, sizeof(text));
		put_cell(text, strlen(text), "", column);
	}
	putchar('\n');
}

/* Frames behind the first, a line each, and a blank one. */
static void put_frames(const struct sheet *sheet, const struct pfw_average *row)
{
	const struct cell_column *last = &sheet->column[sheet->columns - 1];
	size_t bytes;
	const char *text, *end;

	if (last->column || last->what != TABLE_STACK)
		return;
	text = table_text(row, last->field, &bytes);
	for (bool more = true; more;) {
		end = memchr(text, '\n', bytes);
		more = end != NULL;
		if (more) {
			bytes -= (size_t)(end + 1 - text);
			text = end + 1;
		}
		for (unsigned i = 0; i + 1 < sheet->columns; i++)
			printf("%*s" GAP, (int)sheet->column[i].width, "");
		end = more ? memchr(text, '\n', bytes) : NULL;
		put_tail(last, text, !more ? 0 : end ? (size_t)(end - text) : bytes);
		putchar('\n');
	}
}

static void put_headers(const struct sheet *sheet)
{
	for (unsigned i = 0; i < sheet->columns; i++)
		put_cell(sheet->column[i].header, strlen(sheet->column[i].header), "",
			 &sheet->column[i]);
	putchar('\n');
}

/* ---- lines of Markdown ---- */

/* Uncut; of a stack each frame in a line of its own. */
static void put_md_field(const struct cell_column *column, const struct pfw_average *row)
{
	const char *text, *end;
	size_t bytes;

	if (column->what == TABLE_FIELDS) {
		text = device_name(table_device(row));
		grid_put_md_cell(stdout, text, strlen(text));
		return;
	}
	text = table_text(row, column->field, &bytes);
	fputs("| ", stdout);
	while (column->what == TABLE_STACK && (end = memchr(text, '\n', bytes))) {
		grid_put_md(stdout, text, (size_t)(end - text));
		fputs("<br>", stdout);
		bytes -= (size_t)(end + 1 - text);
		text = end + 1;
	}
	grid_put_md(stdout, text, bytes);
	putchar(' ');
}

static void put_md_row(const struct sheet *sheet, const struct pfw_average *row)
{
	char text[64];

	for (unsigned i = 0; i < sheet->columns; i++) {
		const struct cell_column *column = &sheet->column[i];

		if (!column->column) {
			put_md_field(column, row);
			continue;
		}
		table_column_text(column->column, row, sheet->view, text, sizeof(text));
		grid_put_md_cell(stdout, text, strlen(text));
	}
	puts("|");
}

static void put_md_headers(const struct sheet *sheet)
{
	for (unsigned i = 0; i < sheet->columns; i++)
		grid_put_md_cell(stdout, sheet->column[i].header, strlen(sheet->column[i].header));
	puts("|");
	for (unsigned i = 0; i < sheet->columns; i++)
		fputs(sheet->column[i].column ? "|--:" : "|---", stdout);
	puts("|");
}

/* ---- all ---- */

static void put_head(const struct sheet *sheet, const char *title)
{
	bool md = sheet->options->format == CLI_MD;
	const char *top_level = "This report only display top-level ops statistics";

	if (sheet->view->section != TABLE_COMPUTE || !sheet->options->top_level_only)
		top_level = NULL;
	if (md) {
		printf("%s%s", title ? title : "", title ? "\n\n" : "");
		printf("%s%s", top_level ? top_level : "", top_level ? "\n\n" : "");
		put_md_headers(sheet);
		return;
	}
	if (title) {
		put_double_rule(sheet);
		puts(title);
	}
	if (top_level) {
		put_double_rule(sheet);
		puts(top_level);
	}
	put_rule(sheet);
	put_headers(sheet);
	put_rule(sheet);
}

static void put_totals(const struct table_view *view, const struct table_options *options)
{
	char text[64];

	table_time_text(view->section == TABLE_IO ? (double)view->all.total_ns / 1000.0
						  : view->self_us,
			text, sizeof(text));
	if (view->section == TABLE_IO) {
		printf("%s total: %s in %s %s%s, %s moved\n", options->plain ? "Time" : "I/O time",
		       text, cli_count(view->all.count), options->plain ? "event" : "call",
		       cli_plural(view->all.count),
		       cli_bytes(view->all.bytes > 0 ? (uint64_t)view->all.bytes : 0));
		return;
	}
	printf("Self CPU time total: %s\n", text);
	if (!view->has_device)
		return;
	table_time_text(view->self_device_us, text, sizeof(text));
	printf("%sSelf %s time total: %s\n", options->format == CLI_MD ? "\n" : "", view->device,
	       text);
}

void table_print_text(const struct table_options *options, const struct table_view *view,
		      const char *title)
{
	struct sheet sheet = { .options = options, .view = view };
	int64_t shown = 0;

	make_columns(&sheet);
	put_head(&sheet, title);
	for (size_t i = 0; i < view->rows && shown != options->row_limit; i++) {
		if (options->top_level_only && view->row[i]->sums.first_inside)
			continue;
		if (options->format == CLI_MD) {
			put_md_row(&sheet, view->row[i]);
		} else {
			put_row(&sheet, view->row[i]);
			put_frames(&sheet, view->row[i]);
		}
		shown++;
	}
	if (options->format == CLI_MD)
		putchar('\n');
	else
		put_rule(&sheet);
	put_totals(view, options);
}
