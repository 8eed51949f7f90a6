/* table.h - what the parts of `pfw table` share: what was asked for, and the rows that came of it.
 */
#ifndef TABLE_H
#define TABLE_H

#include "cli.h"
#include "store/averages.h"
#include "store/select.h"
#include "store/traces.h"
#include "table_steps.h"

/* What rows are made by, in the order of the keys. */
enum table_field {
	TABLE_NAME,
	TABLE_CAT,
	TABLE_SHAPE,
	TABLE_STACK,
	TABLE_FNAME,
	TABLE_RANK,
	TABLE_STEP,
	TABLE_PID,
	TABLE_TID,
	TABLE_FIELDS
};

/* Rows of a section have the same columns and are shown in one table. */
enum table_section {
	TABLE_COMPUTE, /* cat PP and the program's own spans */
	TABLE_IO,      /* POSIX and STDIO */
	TABLE_SECTIONS,
	TABLE_HIDDEN = TABLE_SECTIONS, /* nested with the others, and not asked for */
};

struct live_lines;
struct table_column; /* opaque: see table_columns.h */

#define TABLE_COLUMNS_MAX 32

struct table_options {
	const struct cli_command *command;
	enum table_field field[TABLE_FIELDS];
	unsigned fields;
	bool by_name;	 /* one of them is the name */
	bool by_file;	 /* the file alone: rows of I/O, of the calls on each */
	unsigned frames; /* of a stack */
	const char *sort_by;
	int64_t row_limit;   /* -1: none */
	unsigned name_width; /* 0: no limit */
	bool top_level_only;
	bool percentiles; /* some column has them */
	bool plain;	  /* events as their lines say, all in one table */
	bool all_runs, quiet;
	unsigned jobs;
	int format;
	/* Empty: what the rows have. */
	const struct table_column *column[TABLE_COLUMNS_MAX];
	unsigned columns;
	double peak_flops;	  /* a second, of one device; 0: not told */
	struct pfw_select reach;  /* which lines take part: times, ranks, processes, threads */
	struct pfw_select wanted; /* which of them are shown */
	bool limited, filtered;	  /* `reach`, `wanted` have any condition */
};

/* A row's key: section, device (torch's DeviceType), whether it is an annotation; then length and
 * text of each field.  Rows that are not made by name are one for each device. */
#define TABLE_KEY_HEAD 3u
#define TABLE_TEXT_MAX 65536u /* of a field */

static inline enum table_section table_section(const struct pfw_average *row)
{
	return (enum table_section)row->key[0];
}

static inline int table_device(const struct pfw_average *row)
{
	return (signed char)row->key[1];
}

static inline bool table_annotation(const struct pfw_average *row)
{
	return row->key[2];
}

/* The text of a row's n-th field.  Thread: any. */
const char *table_text(const struct pfw_average *row, unsigned n, size_t *bytes);

struct table {
	struct pfw_averages rows;
	const struct pfw_traces *traces;
	uint64_t problems;	  /* told on stderr */
	bool too_many;		  /* rows: none has percentiles */
	struct pfw_sums rest;	  /* of I/O: what no row has, as it would not be shown */
	struct table_steps steps; /* where rows or conditions are of steps */
};

/* Read the traces, and what is behind them, into rows.  Return 0, or -errno after saying why.  *stop ends it with -EINTR.
 * Thread: main. */
int table_collect(struct table *table, const struct table_options *options, struct live_lines *live,
		  const volatile bool *stop);

/* Whether indexes can have the answer. */
bool table_asks_indexes(const struct table_options *options);

/* The same from indexes.  1; 0 where they cannot answer, and the traces are to be read; -ENOMEM.
 * Thread: main. */
int table_from_index(struct table *table, const struct table_options *options,
		     const struct pfw_traces *traces);

/* Write them as asked for.  Thread: main. */
void table_print(const struct table *table, const struct table_options *options);

#endif
