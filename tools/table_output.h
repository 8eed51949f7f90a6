/* table_output.h - how a section of `pfw table` is written: as text, or for programs. */
#ifndef TABLE_OUTPUT_H
#define TABLE_OUTPUT_H

#include "table_columns.h"

/* A section in torch's layout, or as a table of Markdown, with a title where there are several.  Thread: main, as below. */
void table_print_text(const struct table_options *options, const struct table_view *view,
		      const char *title);

/* All sections as NDJSON, CSV or TSV: times in µs, sizes in bytes, rates in bytes a second. */
void table_print_data(const struct table_options *options, const struct table_view *view,
		      size_t views);

/* The name of a field in the keys of NDJSON and the header of CSV. */
const char *table_field_name(enum table_field field);

#endif
