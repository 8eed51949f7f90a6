/* tools/table/print.c - prints rows of `pfw table` as text in torch's layout, or as Markdown. */
#include <stdio.h>
#include <string.h>

#include "table/columns.h"
#include "ui/cells.h"
#include "ui/fit.h"

#define GAP 2u
#define COLUMN_WIDTH 12u /* torch's */
#define SHAPES_WIDTH 80u
#define SOURCE_WIDTH 75u

/* A printed column. */
struct cell_column {
	const struct table_column *column; /* NULL: field `field` of the key */
	unsigned field;
	enum table_field what;
	char header[64];
	size_t width;
	bool left;
	bool cut; /* narrower than its texts, since the terminal is */
};

struct sheet {
	const struct table_options *options;
	const struct table_view *view;
	struct cell_column column[TABLE_COLUMNS_MAX + TABLE_FIELDS + 1];
	unsigned columns;
	struct cell_line line; /* that is being written */
};

/* ---- cells ---- */

static void put_cell(struct sheet *sheet, const struct cell_column *column, const struct cell *cell)
{
	cell_put(&sheet->line, cell, column->width, column->left ? CELL_LEFT : CELL_RIGHT);
	cell_blanks(&sheet->line, GAP);
}

static bool is_md(const struct sheet *sheet)
{
	return sheet->options->survey->format == CLI_MD;
}

static void put_text(struct sheet *sheet, const struct cell_column *column, const char *text)
{
	if (is_md(sheet)) {
		fputs("| ", stdout);
		cell_put_md(stdout, text, strlen(text));
		putchar(' ');
	} else {
		put_cell(sheet, column, &(struct cell){ .text = text, .bytes = strlen(text) });
	}
}

static void end_line(struct sheet *sheet)
{
	if (is_md(sheet))
		putchar('|');
	cell_end(&sheet->line);
}

/* A name; one that is too long ends with three dots. */
static void put_name(struct sheet *sheet, const struct cell_column *column, const char *text,
		     size_t bytes)
{
	unsigned limit = column->cut ? (unsigned)column->width : sheet->options->name_width;
	struct cell cell = { .text = text, .bytes = bytes };

	if (limit && cell_width(text, bytes) + (column->cut ? 0 : 3) > limit - !column->cut) {
		cell.bytes = cell_first(text, bytes, limit > 3 ? limit - 3 : 0);
		cell.behind = "...";
	}
	put_cell(sheet, column, &cell);
}

/* A process or a command; one that is too long loses the directories of its program first. */
static void put_command(struct sheet *sheet, const struct cell_column *column, const char *text,
			size_t bytes)
{
	const char *program = text, *end = text + bytes, *name;
	char line[1024];
	int used;

	if (column->what == TABLE_PROCESS) { /* the pid comes before it */
		name = memchr(text, ' ', bytes);
		program = name ? name + 1 : text;
	}
	name = memchr(program, ' ', (size_t)(end - program));
	name = memrchr(program, '/', (size_t)((name ? name : end) - program));
	if (!column->cut || !name || cell_width(text, bytes) <= column->width) {
		put_name(sheet, column, text, bytes);
		return;
	}
	used = snprintf(line, sizeof(line), "%.*s%.*s", (int)(program - text), text,
			(int)(end - name - 1), name + 1);
	put_name(sheet, column, line,
		 (size_t)used < sizeof(line) ? (size_t)used : sizeof(line) - 1);
}

/* A frame or a path; one that is too long loses its beginning. */
static void put_tail(struct sheet *sheet, const struct cell_column *column, const char *text,
		     size_t bytes)
{
	struct cell cell = cell_tail(text, bytes, column->width);

	put_cell(sheet, column, &cell);
}

/* ---- columns ---- */

static struct cell_column *add_column(struct sheet *sheet, const char *header, size_t width)
{
	struct cell_column *column = &sheet->column[sheet->columns++];

	*column = (struct cell_column){ .width = width };
	snprintf(column->header, sizeof(column->header), "%s", header);
	return column;
}

/* A field of a row for people. */
static const char *field_text(const struct sheet *sheet, const struct pfw_average *row,
			      unsigned field, size_t *bytes)
{
	static const char *const none[] = {
		[TABLE_LINE] = "(no stack)", [TABLE_FNAME] = "(no file)", [TABLE_OPERATOR] = "-",
		[TABLE_RANK] = "(no rank)",  [TABLE_STEP] = "(no step)",  [TABLE_FIELDS] = NULL
	};
	const char *text = table_text(row, field, bytes);
	enum table_field what = sheet->options->field[field];

	if (*bytes || !none[what])
		return text;
	*bytes = strlen(none[what]);
	return none[what];
}

/* How many rows decide the widths of columns: like torch all, also those beyond the limit. */
static size_t measured(const struct table_options *options, const struct table_view *view)
{
	size_t limit = options->survey->row_limit < 0 ? SIZE_MAX
						      : (size_t)options->survey->row_limit;

	return view->section == PFW_TABLE_IO && limit < view->rows ? limit : view->rows;
}

/* Width of a field's longest text; with `lines`, of its longest line. */
static size_t longest(const struct sheet *sheet, unsigned field, bool lines)
{
	const struct table_view *view = sheet->view;
	size_t most = 0;

	for (size_t i = 0; i < measured(sheet->options, view); i++) {
		size_t bytes, count;
		const char *text = field_text(sheet, view->row[i], field, &bytes);

		while (bytes) {
			const char *end = lines ? memchr(text, '\n', bytes) : NULL;
			size_t line = end ? (size_t)(end - text) : bytes;

			count = cell_width(text, line);
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
	const char *title = table_field_column(options, what).title;
	struct cell_column *column;

	/* torch omits these columns if they are empty. */
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
	if (what != TABLE_NAME && width < strlen(title))
		width = strlen(title);
	column = add_column(sheet, title, width);
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
	if (sheet->view->section != PFW_TABLE_IO)
		return;
	/* Only as wide as needed, since there are many columns. */
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

/* Torch's order: key, values, shapes, flops, source.  (torch 2.15 swaps the headers of the last two
 * if a table has both.) */
static void make_columns(struct sheet *sheet)
{
	const struct table_options *options = sheet->options;
	const struct table_column *value[TABLE_COLUMNS_MAX];
	unsigned values = table_columns_of(options, sheet->view, value);

	for (unsigned i = 0; i < options->fields; i++) {
		if (!is_behind(options->field[i]))
			add_field(sheet, i);
	}
	if (!options->by_name && sheet->view->section == PFW_TABLE_COMPUTE)
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

/* ---- the terminal's width ---- */

#define FIELD_LEAST 20u
/* Kernels have long names that begin alike: all fields together keep this part of a wide terminal. */
#define FIELDS_PART 4

/* Keys of values in the order in which a narrow terminal loses them; the one that rows are sorted by stays. */
static unsigned drop_of(const struct sheet *sheet, const struct table_column *column)
{
	static const char *const last[] = { "count",
					    "self",
					    "self_cpu_time_total",
					    "self_device_time_total",
					    "self_cpu_percent",
					    "bytes",
					    "total",
					    "cpu_time_total",
					    "device_time_total",
					    "avg",
					    "max",
					    "bandwidth",
					    "total_percent",
					    "total_cpu_percent",
					    "p95" };
	const char *sort_by = sheet->options->sort_by;
	unsigned number = 0;

	if (sort_by && table_column_find(sort_by, sheet->view->section) == column)
		return 0;
	while (number < CLI_ARRAY_LEN(last) && strcmp(last[number], column->key) != 0 &&
	       strcmp(last[number], column->io_key) != 0)
		number++;
	return number + 1;
}

/* Keep the columns of `whole` that the terminal has room for; columns[] says what is hidden. */
static void fit_sheet(struct sheet *sheet, const struct sheet *whole, struct fit_column *columns)
{
	size_t width = whole->options->survey->width, least;
	unsigned shown = 0, fields = 0;

	for (unsigned i = 0; i < whole->columns; i++)
		fields += !whole->column[i].column && whole->column[i].width > FIELD_LEAST;
	least = width / FIELDS_PART / (fields ? fields : 1);
	for (unsigned i = 0; i < whole->columns; i++) {
		const struct cell_column *column = &whole->column[i];

		columns[i] = (struct fit_column){
			.title = column->header,
			.width = column->width,
			.least = column->column	       ? 0
				 : least > FIELD_LEAST ? least
						       : FIELD_LEAST,
			.drop = column->column ? drop_of(whole, column->column) : 0,
		};
	}
	fit(columns, whole->columns, GAP, width);
	for (unsigned i = 0; i < whole->columns; i++) {
		if (columns[i].hidden)
			continue;
		sheet->column[shown] = whole->column[i];
		sheet->column[shown].cut = whole->column[i].width > columns[i].width;
		sheet->column[shown++].width = columns[i].width;
	}
	sheet->columns = shown;
}

/* ---- lines of text ---- */

static void put_rule(struct sheet *sheet)
{
	for (unsigned i = 0; i < sheet->columns; i++) {
		printf("%*s", i ? (int)GAP : 0, "");
		for (size_t j = 0; j < sheet->column[i].width; j++)
			putchar('-');
	}
	putchar('\n');
}

static void put_double_rule(const struct sheet *sheet)
{
	size_t width = 0;

	for (unsigned i = 0; i < sheet->columns; i++)
		width += sheet->column[i].width + GAP;
	for (size_t i = 0; i + GAP < width; i++)
		putchar('=');
	putchar('\n');
}

/* A field of a row; the first frame of a stack. */
static void put_field(struct sheet *sheet, const struct cell_column *column,
		      const struct pfw_average *row)
{
	size_t bytes;
	const char *text = field_text(sheet, row, column->field, &bytes);
	const char *end = memchr(text, '\n', bytes);
	if (column->what == TABLE_STACK)
		put_tail(sheet, column, text, end ? (size_t)(end - text) : bytes);
	else if (column->what == TABLE_FNAME || column->what == TABLE_LINE)
		put_tail(sheet, column, text, bytes);
	else if (column->what == TABLE_PROCESS || column->what == TABLE_CMD)
		put_command(sheet, column, text, bytes);
	else if (column->what == TABLE_SHAPE)
		put_cell(sheet, column,
			 &(struct cell){ .text = text,
					 .bytes = cell_first(text, bytes, column->width) });
	else
		put_name(sheet, column, text, bytes);
}

/* Not cut; each frame of a stack in a line of its own. */
static void put_md_field(const struct sheet *sheet, const struct cell_column *column,
			 const struct pfw_average *row)
{
	size_t bytes;
	const char *text = field_text(sheet, row, column->field, &bytes), *end;

	fputs("| ", stdout);
	while (column->what == TABLE_STACK && (end = memchr(text, '\n', bytes))) {
		cell_put_md(stdout, text, (size_t)(end - text));
		fputs("<br>", stdout);
		bytes -= (size_t)(end + 1 - text);
		text = end + 1;
	}
	cell_put_md(stdout, text, bytes);
	putchar(' ');
}

static void put_row(struct sheet *sheet, const struct pfw_average *row)
{
	char text[64];

	for (unsigned i = 0; i < sheet->columns; i++) {
		const struct cell_column *column = &sheet->column[i];

		if (column->column) {
			table_column_text(column->column, row, sheet->view, text, sizeof(text));
			put_text(sheet, column, text);
		} else if (column->what == TABLE_FIELDS) {
			put_text(sheet, column, table_device_name(table_device(row)));
		} else if (is_md(sheet)) {
			put_md_field(sheet, column, row);
		} else {
			put_field(sheet, column, row);
		}
	}
	end_line(sheet);
}

/* The frames after the first, a line each, and an empty line. */
static void put_frames(struct sheet *sheet, const struct pfw_average *row)
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
			cell_blanks(&sheet->line, sheet->column[i].width + GAP);
		end = more ? memchr(text, '\n', bytes) : NULL;
		put_tail(sheet, last, text, !more ? 0 : end ? (size_t)(end - text) : bytes);
		cell_end(&sheet->line);
	}
}

static void put_headers(struct sheet *sheet)
{
	for (unsigned i = 0; i < sheet->columns; i++)
		put_text(sheet, &sheet->column[i], sheet->column[i].header);
	end_line(sheet);
	if (!is_md(sheet))
		return;
	for (unsigned i = 0; i < sheet->columns; i++)
		fputs(sheet->column[i].column ? "|--:" : "|---", stdout);
	puts("|");
}

/* ---- what was not recorded ---- */

/* The headers of the columns that lack it, with commas. */
static bool name_columns(const struct sheet *sheet, enum unrecorded kind, char *out, size_t size)
{
	size_t used = 0;

	for (unsigned i = 0; i < sheet->columns && used < size; i++) {
		const struct cell_column *column = &sheet->column[i];

		if (column->column && table_column_lacks(column->column, sheet->view) == kind)
			used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "",
						 column->header);
	}
	return used;
}

static void put_unrecorded(const struct sheet *sheet)
{
	char names[1024];
	bool any = false;

	for (unsigned kind = 0; kind < UNRECORDED_KINDS; kind++) {
		if (name_columns(sheet, kind, names, sizeof(names)))
			unrecorded_say(names, kind, table_condition(sheet->options), &any);
	}
}

/* ---- all ---- */

static void put_head(struct sheet *sheet, const char *title)
{
	const char *top_level = "This report only display top-level ops statistics";

	if (sheet->view->section != PFW_TABLE_COMPUTE || !sheet->options->top_level_only)
		top_level = NULL;
	if (is_md(sheet)) {
		printf("%s%s", title ? title : "", title ? "\n\n" : "");
		printf("%s%s", top_level ? top_level : "", top_level ? "\n\n" : "");
		put_headers(sheet);
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

static void put_memory(const uint64_t memory[TABLE_UNMOVED], const struct table_options *options)
{
	printf("%s%s mapped", options->survey->format == CLI_MD ? "\n" : "",
	       cli_bytes(memory[TABLE_MAPPED]));
	if (memory[TABLE_TOUCHED])
		printf(", %s touched", cli_bytes(memory[TABLE_TOUCHED]));
	printf(", not counted: pfw patterns says of which files\n");
}

static void put_totals(const struct table_view *view, const struct table_options *options)
{
	char text[64];

	table_time_text(view->self_us, text, sizeof(text));
	if (view->section == PFW_TABLE_IO) {
		printf("%s total: %s in %s %s%s, %s moved\n", options->plain ? "Time" : "I/O time",
		       text, cli_count(view->all.count), options->plain ? "event" : "call",
		       cli_plural(view->all.count),
		       cli_bytes(view->all.bytes > 0 ? (uint64_t)view->all.bytes : 0));
		for (unsigned i = 0; i < TABLE_APART; i++)
			if (view->table->apart_ns[i])
				printf("%s%s of it %s: no I/O of files\n",
				       options->survey->format == CLI_MD ? "\n" : "",
				       cli_time(view->table->apart_ns[i]),
				       i == TABLE_NET ? "on sockets and waiting"
						      : "in locks and sleeps");
		if (view->table->memory[TABLE_MAPPED])
			put_memory(view->table->memory, options);
		return;
	}
	printf("Self CPU time total: %s\n", text);
	if (!view->has_device)
		return;
	table_time_text(view->self_device_us, text, sizeof(text));
	printf("%sSelf %s time total: %s\n", options->survey->format == CLI_MD ? "\n" : "",
	       view->device, text);
}

void table_print_text(const struct table_options *options, const struct table_view *view,
		      const char *title)
{
	struct sheet sheet = { .options = options, .view = view, .line = { .out = stdout } };
	struct fit_column columns[CLI_ARRAY_LEN(sheet.column)];
	struct sheet whole;
	int64_t shown = 0;

	make_columns(&sheet);
	whole = sheet;
	fit_sheet(&sheet, &whole, columns);
	put_head(&sheet, title);
	for (size_t i = 0; i < view->rows && shown != options->survey->row_limit; i++) {
		if (!table_is_shown(options, view->row[i]))
			continue;
		put_row(&sheet, view->row[i]);
		if (!is_md(&sheet))
			put_frames(&sheet, view->row[i]);
		shown++;
	}
	if (is_md(&sheet))
		putchar('\n');
	else
		put_rule(&sheet);
	fit_say(stdout, columns, whole.columns);
	put_totals(view, options);
	put_unrecorded(&sheet);
}
