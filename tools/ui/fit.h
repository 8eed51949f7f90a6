/* tools/ui/fit.h - which columns of a table fit the terminal. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct fit_column {
	const char *title;
	size_t width; /* in characters */
	size_t least; /* a text may be cut to this width; 0: it may not */
	bool left;    /* alignment */
	unsigned drop; /* columns with the greatest are hidden first; 0: the rightmost, after those */
	bool together; /* hidden with all others of the same `drop` */
	bool empty;    /* no row has a value: hidden before all others */
	bool hidden;
};

/* The width of lines in characters: COLUMNS, else that of the terminal; 0, which is no limit, if
 * `out` is none.  Thread: main, as below. */
size_t fit_width(FILE *out);

/* Cut texts, and hide columns other than the first, until all have room in `limit` characters (0:
 * no limit) with `gap` blanks between them. */
void fit(struct fit_column *column, size_t count, size_t gap, size_t limit);

/* Print words from that column on: in the terminal's lines, later ones `indent` in; in one line if
 * `out` is no terminal. */
__attribute__((format(printf, 4, 5))) void fit_words(FILE *out, int column, int indent,
						     const char *format, ...);

/* Say which columns are hidden, if any are. */
void fit_say(FILE *out, const struct fit_column *column, size_t count);
