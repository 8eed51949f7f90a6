/* tools/table/data.c - prints the rows of `pfw table` as NDJSON, CSV or TSV. */
#include <errno.h>
#include <string.h>

#include "table/columns.h"

/* The columns of one or all sections, each key once. */
struct sheet {
	const struct table_options *options;
	struct grid_column column[TABLE_FIELDS + 1 + 2 * TABLE_COLUMNS_MAX];
	unsigned values; /* the last ones of them */
	bool device;
	struct grid grid;
};

static void add_column(struct sheet *sheet, const char *key, enum grid_kind kind)
{
	sheet->column[sheet->grid.columns++] = (struct grid_column){ .key = key, .kind = kind };
}

static void begin(struct sheet *sheet, const struct table_options *options, bool device)
{
	grid_release(&sheet->grid);
	*sheet = (struct sheet){ .options = options, .device = device };
	sheet->grid.column = sheet->column;
	for (unsigned i = 0; i < options->fields; i++)
		sheet->column[sheet->grid.columns++] =
			table_field_column(options, options->field[i]);
	if (device)
		add_column(sheet, "device", GRID_COUNT);
}

static void add_values(struct sheet *sheet, const struct table_view *view)
{
	const struct table_column *column[TABLE_COLUMNS_MAX];
	unsigned columns = table_columns_of(sheet->options, view, column);

	for (unsigned i = 0; i < columns; i++) {
		const char *key = table_column_key(column[i], view->section);
		size_t j = sheet->grid.columns - sheet->values;

		while (j < sheet->grid.columns && strcmp(sheet->column[j].key, key) != 0)
			j++;
		if (j < sheet->grid.columns)
			continue;
		add_column(sheet, key, table_column_kind(column[i]));
		sheet->values++;
	}
}

static void put_fields(struct sheet *sheet, const struct pfw_average *row)
{
	const struct table_options *options = sheet->options;

	for (unsigned i = 0; i < options->fields; i++) {
		size_t bytes;
		const char *text = table_text(row, i, &bytes);

		if (bytes && options->field[i] >= TABLE_RANK)
			grid_digits(&sheet->grid, text, bytes);
		else
			grid_text(&sheet->grid, text, bytes);
	}
	if (sheet->device)
		grid_whole(&sheet->grid, GRID_COUNT, table_device(row));
}

static const char *section_name(const struct table_options *options, const struct table_view *view)
{
	if (options->plain)
		return "all";
	return view->section == PFW_TABLE_IO ? "io" : "compute";
}

/* A sum is written exactly, where a double has 53 bits. */
static void put_value(struct sheet *sheet, const struct table_view *view,
		      const struct table_column *column, const struct pfw_average *row)
{
	double value = table_column_value(column, row, view);
	int64_t sum;

	if (column->kind == TABLE_YES)
		grid_maybe(&sheet->grid, GRID_YES, value == value, 1);
	else if (value == value && table_column_sum(column, row, &sum))
		grid_whole(&sheet->grid, column->kind == TABLE_TIME ? GRID_NS : GRID_ID, sum);
	else
		grid_number(&sheet->grid, table_column_kind(column), value);
}

/* Columns that only the other section has stay empty. */
static void put_row(struct sheet *sheet, const struct table_view *view,
		    const struct table_column *const *column, unsigned columns,
		    const struct pfw_average *row)
{
	put_fields(sheet, row);
	for (size_t i = sheet->grid.columns - sheet->values; i < sheet->grid.columns; i++) {
		unsigned j = 0;

		while (j < columns && strcmp(table_column_key(column[j], view->section),
					     sheet->column[i].key) != 0)
			j++;
		if (j < columns)
			put_value(sheet, view, column[j], row);
		else
			grid_none(&sheet->grid);
	}
}

static int put_rows(struct sheet *sheet, const struct table_view *view)
{
	const struct table_options *options = sheet->options;
	const struct table_column *column[TABLE_COLUMNS_MAX];
	unsigned columns = table_columns_of(options, view, column);
	const char *section = section_name(options, view);
	int64_t shown = 0;

	for (size_t i = 0; i < view->rows && shown != options->survey->row_limit; i++) {
		if (!table_is_shown(options, view->row[i]))
			continue;
		shown++;
		put_row(sheet, view, column, columns, view->row[i]);
		if (sheet->grid.failed)
			return -ENOMEM;
		grid_print(&sheet->grid, stdout, options->survey->format, section);
	}
	return 0;
}

int table_print_data(const struct table_options *options, const struct table_view *view,
		     size_t views)
{
	bool objects = options->survey->format == CLI_NDJSON;
	struct sheet sheet = { 0 };
	int error = 0;

	begin(&sheet, options, true);
	for (size_t i = 0; i < views && !objects; i++)
		add_values(&sheet, &view[i]);
	grid_print(&sheet.grid, stdout, options->survey->format, ""); /* the line of keys */
	for (size_t i = 0; i < views && !error; i++) {
		/* An object has the keys of its section, a line of CSV those of all sections. */
		if (objects) {
			begin(&sheet, options, view[i].section == PFW_TABLE_COMPUTE);
			add_values(&sheet, &view[i]);
		}
		error = put_rows(&sheet, &view[i]);
	}
	grid_release(&sheet.grid);
	return error;
}
