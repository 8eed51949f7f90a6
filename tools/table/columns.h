/* tools/table/columns.h - the columns of `pfw table`: their keys, headers and values.
 */
#pragma once

#include "share/unrecorded.h"
#include "store/index/index.h"
#include "table/table.h"
#include "ui/grid.h"

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
	TABLE_SHARE,	  /* a percentage, shown even if it is small */
	TABLE_YES,	  /* 1, or not known */
};

/* A section: its rows and the figures that all rows share. */
struct table_view {
	const struct table *table;
	const struct table_options *options;
	const struct pfw_average **row; /* in the order shown */
	size_t rows;
	enum pfw_table_section section;
	double self_us, self_device_us; /* of all rows, also of those not shown */
	struct pfw_tally all;
	const char *device; /* "CUDA" */
	bool has_device, has_memory, has_device_memory, has_flops, has_percentiles;
	bool is_sorted;			 /* some row has a value of the column to sort by */
	int64_t least_flops, most_flops; /* of the rows that have FLOPs */
};

struct table_column {
	const char *key;    /* torch's attribute; "" = a column of I/O only */
	const char *io_key; /* "" = a column of compute only */
	const char *header; /* a `*` stands for the device's name */
	const char *io_header;
	enum table_kind kind;
	unsigned when; /* condition under which it is shown by default: see columns.c */
	/* A row's value; NAN: it has none. */
	double (*value)(const struct table_column *column, const struct pfw_average *row,
			const struct table_view *view);
	size_t member; /* offset of value()'s member in struct pfw_tally */
};

/* The column with this key in a section; torch's older names (cuda_time_total) are keys, too.
 * NULL: none. */
const struct table_column *table_column_find(const char *key, enum pfw_table_section section);

/* Write all keys, for messages: "count, cpu_time, ...".  Return `out`. */
#define TABLE_KEYS_BYTES 1024
const char *table_column_keys(char out[TABLE_KEYS_BYTES]);

/* Parse a comma-separated list of keys and presets. 0, or -1 after a message. */
int table_columns_parse(struct table_options *options, const char *list);

/* Whether percentiles are shown. */
bool table_columns_percentiles(const struct table_options *options);

/* Whether rows are sorted by a percentile. */
bool table_columns_sort_by_percentile(const struct table_options *options);

/* Whether some column shown or sorted by needs the durations of steps. */
bool table_columns_ask_steps(const struct table_options *options);

/*
 * Whether an index's sums of files have all columns that are shown and sorted by; *order: by which.
 */
bool table_columns_of_files(const struct table_options *options, enum pfw_index_order *order);

/* Fill column[] with the columns of a section: those asked for, or those that its rows have.
 * Return their number. */
unsigned table_columns_of(const struct table_options *options, const struct table_view *view,
			  const struct table_column **column);

/* The kind of data (enum unrecorded) that a column shows and the whole trace lacks.  UNRECORDED_KINDS:
 * none, or the lines have such data. */
enum unrecorded table_column_lacks(const struct table_column *column,
				   const struct table_view *view);

/* A row's value; NAN: it has none, or nothing of the kind was recorded. */
double table_column_value(const struct table_column *column, const struct pfw_average *row,
			  const struct table_view *view);

/* The same of a column that shows a sum, exactly: in ns, bytes or FLOPs.  False: it does not. */
bool table_column_sum(const struct table_column *column, const struct pfw_average *row,
		      int64_t *sum);

/* A column's key in a section. */
const char *table_column_key(const struct table_column *column, enum pfw_table_section section);

/*
 * How a column's values are written for programs: µs with three decimals, bytes, counts, percents.
 */
enum grid_kind table_column_kind(const struct table_column *column);

/* ---- output: of a section, for people or for programs ---- */

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
