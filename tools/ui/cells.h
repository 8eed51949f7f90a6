/* tools/ui/cells.h - the text of one cell of a table: width, padding, quoting. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Characters of UTF-8, as Python counts them.  Thread: any, as all here. */
size_t cell_width(const char *text, size_t bytes);

/* The bytes of the first `count` characters. */
size_t cell_first(const char *text, size_t bytes, size_t count);

struct cell {
	const char *text;
	size_t bytes;
	const char *before, *behind; /* dots where the text was cut; NULL: none */
	const char *rest;	     /* what follows the dots behind */
	size_t rest_bytes;
	bool number; /* ASCII without control bytes, and no blank at an end */
};

/* The width of a cell with its dots. */
size_t cell_columns(const struct cell *cell);

/* Cut the begin of a text that is wider than `width`: paths differ at their ends. */
struct cell cell_tail(const char *text, size_t bytes, size_t width);

/* Cut a path so, and any other text in its middle: names of kernels begin with what they do, those of operators
 * end with it. */
struct cell cell_cut(const char *text, size_t bytes, size_t width);

enum cell_side { CELL_RIGHT, CELL_LEFT };

/* A line of cells for people.  Blanks wait for what follows, so that no line ends with them. */
struct cell_line {
	FILE *out;
	size_t blanks;
	size_t bytes; /* of `text`, which is not written yet */
	char text[512];
};

void cell_blanks(struct cell_line *line, size_t count);

/* Write a cell, padded to `width`.  Control bytes become question marks: a trace must not steer a
 * terminal or break a line. */
void cell_put(struct cell_line *line, const struct cell *cell, size_t width, enum cell_side side);

/* The same for a number, right-aligned: its text ends with no blank, and has no control bytes. */
void cell_put_number(struct cell_line *line, const char *text, size_t bytes, size_t width);

/* The same for a time, of cli_time_bytes(). */
void cell_put_time(struct cell_line *line, int64_t ns, size_t bytes, size_t width);

/* Write what waits, before something else is written to the same file. */
void cell_flush(struct cell_line *line);

/* End the line; the next one can begin. */
void cell_end(struct cell_line *line);

/* Write text in a cell of a Markdown table: markup is escaped, control bytes are question marks. */
void cell_put_md(FILE *out, const char *text, size_t bytes);

/* Append a CSV value (RFC 4180): quoted where it has a quote, a comma, a tab or a line break, or a
 * blank at an end, which some readers drop.  At most 2 * bytes + 2 bytes.  Returns their end. */
char *cell_csv(char *at, const char *text, size_t bytes);

/* The same, quoted in any case. */
char *cell_quoted(char *at, const char *text, size_t bytes);

/* Append a TSV value: tab, line breaks, backslash become \t \n \r \\.  At most 2 * bytes bytes. */
char *cell_tsv(char *at, const char *text, size_t bytes);
