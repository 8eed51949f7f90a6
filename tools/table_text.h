/* table_text.h - headers and cells of `pfw table`, for people: as torch prints them.
 */
#ifndef TABLE_TEXT_H
#define TABLE_TEXT_H

#include "table_columns.h"

/* A column's header in a section. */
void table_column_header(const struct table_column *column, const struct table_view *view,
			 char *out, size_t size);

/* A value, with its unit. */
void table_column_text(const struct table_column *column, const struct pfw_average *row,
		       const struct table_view *view, char *out, size_t size);

/* 12.345us, 12.345ms, 12.345s */
void table_time_text(double us, char *out, size_t size);

#endif
