/* table_data.c - the rows of `pfw table` for programs: NDJSON, CSV, TSV. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/json_print.h"
#include "table_output.h"

static const char *section_name(const struct table_options *options, const struct table_view *view)
{
	if (options->plain)
		return "all";
	return view->section == TABLE_IO ? "io" : "compute";
}

/* Whether a row is shown: torch's rule for tables of the top level. */
static bool is_shown(const struct table_options *options, const struct pfw_average *row)
{
	return !options->top_level_only || !row->sums.first_inside;
}

static void put_json_text(const char *text, size_t bytes)
{
	char *copy = strndup(text, bytes);

	pfw_json_print_string(stdout, copy ? copy : "");
	free(copy);
}

/* ---- NDJSON ---- */

static void put_object(const struct table_options *options, const struct table_view *view,
		       const struct pfw_average *row)
{
	const struct table_column *column[TABLE_COLUMNS_MAX];
	unsigned columns = table_columns_of(options, view, column);

	printf("{\"section\":\"%s\"", section_name(options, view));
	for (unsigned i = 0; i < options->fields; i++) {
		size_t bytes;
		const char *text = table_text(row, i, &bytes);

		printf(",\"%s\":", table_field_name(options->field[i]));
		if (bytes && options->field[i] >= TABLE_RANK)
			printf("%.*s", (int)bytes, text);
		else
			put_json_text(text, bytes);
	}
	if (view->section == TABLE_COMPUTE)
		printf(",\"device\":%d", table_device(row));
	for (unsigned i = 0; i < columns; i++) {
		char text[64];

		table_column_number(column[i], row, view, text, sizeof(text));
		printf(",\"%s\":%s", table_column_key(column[i], view->section),
		       *text ? text : "null");
	}
	puts("}");
}

/* ---- CSV, TSV ---- */

static void put_csv(const struct table_options *options, const char *text, size_t bytes)
{
	if (options->format == CLI_TSV) {
		for (size_t i = 0; i < bytes; i++)
			putchar(text[i] == '\t' || text[i] == '\n' || text[i] == '\r' ? ' '
										      : text[i]);
		return;
	}
	if (!memchr(text, ',', bytes) && !memchr(text, '"', bytes) && !memchr(text, '\n', bytes) &&
	    !memchr(text, '\r', bytes)) {
		fwrite(text, 1, bytes, stdout);
		return;
	}
	putchar('"');
	for (size_t i = 0; i < bytes; i++) {
		if (text[i] == '"')
			putchar('"');
		putchar(text[i]);
	}
	putchar('"');
}

/* The columns of all sections, each key once. */
struct header {
	const char *key[2 * TABLE_COLUMNS_MAX];
	unsigned keys;
};

static void collect_keys(const struct table_options *options, const struct table_view *view,
			 struct header *header)
{
	const struct table_column *column[TABLE_COLUMNS_MAX];
	unsigned columns = table_columns_of(options, view, column);

	for (unsigned i = 0; i < columns; i++) {
		const char *key = table_column_key(column[i], view->section);
		unsigned j = 0;

		while (j < header->keys && strcmp(header->key[j], key) != 0)
			j++;
		if (j == header->keys)
			header->key[header->keys++] = key;
	}
}

static void put_line(const struct table_options *options, const struct table_view *view,
		     const struct header *header, const struct pfw_average *row)
{
	char comma = options->format == CLI_TSV ? '\t' : ',';
	const struct table_column *column[TABLE_COLUMNS_MAX];
	unsigned columns = table_columns_of(options, view, column);

	fputs(section_name(options, view), stdout);
	for (unsigned i = 0; i < options->fields; i++) {
		size_t bytes;
		const char *text = table_text(row, i, &bytes);

		putchar(comma);
		put_csv(options, text, bytes);
	}
	printf("%c%d", comma, table_device(row));
	for (unsigned i = 0; i < header->keys; i++) {
		char text[64] = "";

		for (unsigned j = 0; j < columns; j++) {
			if (strcmp(table_column_key(column[j], view->section), header->key[i]) == 0)
				table_column_number(column[j], row, view, text, sizeof(text));
		}
		printf("%c%s", comma, text);
	}
	putchar('\n');
}

static void put_header(const struct table_options *options, const struct header *header)
{
	char comma = options->format == CLI_TSV ? '\t' : ',';

	fputs("section", stdout);
	for (unsigned i = 0; i < options->fields; i++)
		printf("%c%s", comma, table_field_name(options->field[i]));
	printf("%cdevice", comma);
	for (unsigned i = 0; i < header->keys; i++)
		printf("%c%s", comma, header->key[i]);
	putchar('\n');
}

void table_print_data(const struct table_options *options, const struct table_view *view,
		      size_t views)
{
	struct header header = { .keys = 0 };

	for (size_t i = 0; i < views; i++)
		collect_keys(options, &view[i], &header);
	if (options->format != CLI_NDJSON)
		put_header(options, &header);
	for (size_t i = 0; i < views; i++) {
		int64_t shown = 0;

		for (size_t j = 0; j < view[i].rows && shown != options->row_limit; j++) {
			if (!is_shown(options, view[i].row[j]))
				continue;
			shown++;
			if (options->format == CLI_NDJSON)
				put_object(options, &view[i], view[i].row[j]);
			else
				put_line(options, &view[i], &header, view[i].row[j]);
		}
	}
}
