/* tools/ui/grid.h - a table of cells, for people (text, md) or for programs (ndjson, csv, tsv). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "store/read/stream.h"

enum grid_kind {
	GRID_NONE,    /* no value: empty; null */
	GRID_TEXT,    /* text for people cuts its begin */
	GRID_COUNT,   /* 12,345 */
	GRID_ID,      /* 12345 */
	GRID_BYTES,   /* 1.2 MiB */
	GRID_NS,      /* 1.234 ms; for programs µs */
	GRID_PERCENT, /* 12.3 % */
	GRID_CHANGE,  /* +12.3 % */
	GRID_NUMBER,  /* four significant digits; for programs twelve */
	GRID_SIX,     /* six significant digits */
	GRID_WHOLE,   /* no decimals */
	GRID_FIXED,   /* three decimals */
	GRID_DIGITS,  /* a text that is a number: 7 */
	GRID_YES,     /* "yes" or empty; true or false */
	GRID_TS,      /* of a column: its times are moments, not durations */
};

struct grid_column {
	const char *key;     /* for programs: "read_bytes"; of times in µs */
	const char *title;   /* for people; NULL: for programs only */
	enum grid_kind kind; /* of its values; see grid_type() */
};

/* What a column's values are in a program's memory: the same whether it has some or not. */
enum grid_type {
	GRID_TYPE_TEXT,
	GRID_TYPE_WHOLE, /* counts, sizes, numbers; moments in ns */
	GRID_TYPE_REAL,	 /* durations in µs, rates, percentages */
	GRID_TYPE_FLAG,
};

/* By the kind of a column; GRID_NONE: text. */
enum grid_type grid_type(enum grid_kind kind);

/* There may be a million. */
struct grid_cell {
	union {
		double number;
		int64_t whole; /* COUNT, ID, BYTES, NS, YES */
		size_t text;   /* TEXT, DIGITS, if `shown` all: its place in grid->text */
	};
	uint32_t bytes; /* of the text; of a time for people */
	enum grid_kind kind : 8;
	bool shown; /* a number, of which grid->text now has what people see */
};

struct grid {
	const struct grid_column *column;
	size_t columns;
	const char *kind; /* the key of `section`; NULL: "section" */
	const char *none; /* for people in a cell without a value; NULL: nothing */
	size_t width;	  /* of the terminal; 0: no limit */
	unsigned jobs;	  /* threads that write many rows for people; 0: the caller alone */
	/* Titles that a narrow terminal loses, the first of them first; two at once: "Calls A|Calls B". */
	const char *const *few;
	struct grid_cell *cell; /* row by row */
	size_t cells, room;
	struct pfw_buffer text;
	bool headed;		  /* the line of keys is written */
	bool failed;		  /* no memory for some cell */
	struct grid_cell nowhere; /* which is then this one */
};

/* A cell of a whole number, or none where it is not known. */
static inline struct grid_cell grid_cell(enum grid_kind kind, bool known, int64_t number)
{
	return (struct grid_cell){ .kind = known ? kind : GRID_NONE, .whole = number };
}

/* Add so many rows, whose cells the caller fills, in any threads.  NULL: no memory; the grid has failed. */
struct grid_cell *grid_extend(struct grid *grid, size_t rows);

/* Add the next cell; a row has `columns` cells.  Texts are copied; NULL is GRID_NONE.
 * Thread: one at a time for one grid, as all here. */
void grid_none(struct grid *grid);
void grid_text(struct grid *grid, const char *text, size_t bytes);
void grid_digits(struct grid *grid, const char *text, size_t bytes);
void grid_whole(struct grid *grid, enum grid_kind kind, int64_t number);

/* The number, or none where it is not known. */
void grid_maybe(struct grid *grid, enum grid_kind kind, bool known, int64_t number);

/* A count or a size, at most INT64_MAX. */
void grid_u64(struct grid *grid, enum grid_kind kind, uint64_t number);

/* Whole numbers for the next columns, each of the kind of its own; GRID_NO where it is not known. */
#define GRID_NO ((__int128)1 << 100)
#define GRID_PUT(grid, ...)                               \
	grid_put(grid, (const __int128[]){ __VA_ARGS__ }, \
		 sizeof((const __int128[]){ __VA_ARGS__ }) / sizeof(__int128))
void grid_put(struct grid *grid, const __int128 *number, size_t count);

/* A number that is not finite is GRID_NONE. */
void grid_number(struct grid *grid, enum grid_kind kind, double number);

/* Write an empty line and the title of a table. */
void grid_title(FILE *out, int format, const char *title);

/* Write all rows in a format of enum cli_format, and drop them.  Formats for programs can be
 * written row by row with repeated calls, so that memory holds one row.  `section`, unless NULL, is
 * the first member of each object and the first column of csv and tsv: it tells several grids of
 * one output apart. */
void grid_print(struct grid *grid, FILE *out, int format, const char *section);

/* The same for a host that has the rows already: it does not get them again. */
void grid_write(struct grid *grid, FILE *out, int format, const char *section);

/* The place of a column; `columns` of the grid: it has none of that key. */
size_t grid_place(const struct grid *grid, const char *key);

/* The number in a cell of a row, or `otherwise`: there is no such place, or no number. */
int64_t grid_number_at(const struct grid *grid, const struct grid_cell *row, size_t place,
		       int64_t otherwise);

/* Print it as grid_print() unless memory for some cell was lacking, and release it.  0 or -ENOMEM. */
int grid_end(struct grid *grid, FILE *out, int format, const char *section);

void grid_release(struct grid *grid);
