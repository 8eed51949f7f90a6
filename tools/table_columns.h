/* table_columns.h - the columns of `pfw table`: their keys, headers and values.
 */
#ifndef TABLE_COLUMNS_H
#define TABLE_COLUMNS_H

#include "store/index.h"
#include "table.h"

enum table_kind {
	TABLE_TIME, /* µs */
	TABLE_PERCENT,
	TABLE_MEMORY, /* bytes, as torch writes them */
	TABLE_COUNT,
	TABLE_BYTES,
	TABLE_RATE,	  /* bytes a second */
	TABLE_FLOPS,	  /* scaled as the header says */
	TABLE_SELF_FLOPS, /* with their unit */
	TABLE_SPEED,	  /* FLOPs a second */
	TABLE_SHARE,	  /* percent, however few */
};

/* What a section's rows have in common. */
struct table_view {
	const struct table *table;
	const struct table_options *options;
	const struct pfw_average **row; /* in the order in which they are shown */
	size_t rows;
	enum table_section section;
	double self_us, self_device_us; /* of all rows, and of the rest */
	struct pfw_sums all;
	const char *device; /* "CUDA" */
	bool has_device, has_memory, has_device_memory, has_flops, has_percentiles;
	int64_t least_flops, most_flops; /* of rows that have any */
};

struct table_column {
	const char *key;    /* torch's attribute; "" = I/O has it only */
	const char *io_key; /* "" = compute has it only */
	const char *header; /* a `*` stands for the device's name */
	const char *io_header;
	enum table_kind kind;
	double (*value)(const struct pfw_average *row, const struct table_view *view);
};

/* The column of that key in a section, torch's older names (cuda_time_total) included; NULL: none. */
const struct table_column *table_column_find(const char *key, enum table_section section);

/* All keys, for messages: "count, cpu_time, ...".  One static buffer. */
const char *table_column_keys(void);

/* Take a comma-separated list of keys and presets.  0, or -1 after saying what is wrong. */
int table_columns_parse(struct table_options *options, const char *list);

/* Whether percentiles are shown. */
bool table_columns_percentiles(const struct table_options *options);

/* Whether an index's sums of files give all that is shown and sorted by; in that order. */
bool table_columns_of_files(const struct table_options *options, enum pfw_index_order *order);

/* Fill column[] with those of a section: what was asked for, or what the rows have.  Returns how
 * many. */
unsigned table_columns_of(const struct table_options *options, const struct table_view *view,
			  const struct table_column **column);

/* A column's key in a section. */
const char *table_column_key(const struct table_column *column, enum table_section section);

/* A value for programs: µs with three decimals, bytes, counts, percents; "" = none. */
void table_column_number(const struct table_column *column, const struct pfw_average *row,
			 const struct table_view *view, char *out, size_t size);

#endif
