/* tools/table/output.h - writes the sections of `pfw table` for people or for programs. */
#pragma once

#include "table/columns.h"

/* Print a section in torch's layout or as Markdown; title may be NULL.  Thread: main, as below. */
void table_print_text(const struct table_options *options, const struct table_view *view,
		      const char *title);

/* Torch's rule for --top-level-only. */
static inline bool table_is_shown(const struct table_options *options,
				  const struct pfw_average *row)
{
	return !options->top_level_only || !row->sums.first_inside;
}

/* Print all sections as NDJSON, CSV or TSV: times in µs, sizes in bytes, rates in bytes a second.
 * Return 0 or -ENOMEM. */
int table_print_data(const struct table_options *options, const struct table_view *view,
		     size_t views);

/* The name of torch's DeviceType: 0 is "CPU", an unknown one "CUDA". */
const char *table_device_name(int device);

/* ---- headers and cells for people, as torch prints them (text.c) ---- */

/* A column's header in a section. */
void table_column_header(const struct table_column *column, const struct table_view *view,
			 char *out, size_t size);

/* A value, with its unit. */
void table_column_text(const struct table_column *column, const struct pfw_average *row,
		       const struct table_view *view, char *out, size_t size);

/* 12.345us, 12.345ms, 12.345s */
void table_time_text(double us, char *out, size_t size);
