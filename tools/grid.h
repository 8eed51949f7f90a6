/* grid.h - rows of cells, shown to people (text, md) or given to programs (ndjson, csv, tsv). */
#ifndef GRID_H
#define GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum grid_kind {
	GRID_NONE,    /* nothing known: empty; null */
	GRID_TEXT,    /* may be cut at its begin to fit a terminal */
	GRID_COUNT,   /* 12,345 */
	GRID_BYTES,   /* 1.2 MiB */
	GRID_NS,      /* 1.2 ms; for programs µs */
	GRID_PERCENT, /* 12.3 % */
	GRID_CHANGE,  /* +12.3 % */
	GRID_NUMBER,  /* four digits that count */
	GRID_YES,     /* yes or nothing; true or false */
};

struct grid_column {
	const char *key;   /* for programs: "read_bytes"; of times in µs */
	const char *title; /* for people; NULL: for programs only */
};

struct grid_cell {
	enum grid_kind kind;
	double number;
	int64_t whole; /* COUNT, BYTES, NS, YES */
	char *text;
	size_t bytes;
};

struct grid {
	const struct grid_column *column;
	size_t columns;
	struct grid_cell *cell; /* row by row */
	size_t cells, room;
	bool failed; /* no memory for some cell */
};

/* Add the next cell; a row is `columns` of them.  Texts are copied; one that is NULL is none.
 * Thread: one at a time for one grid, as all here. */
void grid_none(struct grid *grid);
void grid_text(struct grid *grid, const char *text, size_t bytes);
void grid_whole(struct grid *grid, enum grid_kind kind, int64_t number);
/* A number that is not finite is none. */
void grid_number(struct grid *grid, enum grid_kind kind, double number);

/* Write all rows in a format of enum cli_format.  `section`, unless NULL, is the first key of each
 * object for programs, which tells several grids apart; of csv and tsv the first column. */
void grid_print(const struct grid *grid, FILE *out, int format, const char *section);

void grid_release(struct grid *grid);

/* Text in a cell of a Markdown table: what would mean something there does not, and control bytes are
 * question marks.  For tables that are no grids. */
void grid_put_md(FILE *out, const char *text, size_t bytes);

/* A cell of it, with the | before it. */
void grid_put_md_cell(FILE *out, const char *text, size_t bytes);

#endif
