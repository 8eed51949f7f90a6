/* read/columns.h - the columns of a trace as Arrow data, and those that a reader has asked for.
 *
 * Room read: libpfwread.so.1, traces as Arrow record batches (include/pfw/read.h).  It may use the
 * store and src/common, and nothing of the recorder.  Start here and with columns.def; read.c is
 * what a program calls, stream.c opens traces and gives batches, rows.c makes rows of lines,
 * batch.c holds them, arrow.c hands them over.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the metadata of each schema; see columns.def. */
#define PFW_READ_SCHEMA "2"

enum pfw_read_kind {
	PFW_READ_INT,
	PFW_READ_REAL,
	PFW_READ_TEXT,
	PFW_READ_LIST,
	PFW_READ_DIM3,
	PFW_READ_REST,
	PFW_READ_FLAG /* of tables only */
};

enum pfw_read_column {
#define LINE(name, kind) PFW_READ_COLUMN_##name,
#define SAID(name, kind) PFW_READ_COLUMN_##name,
#define ARG(name, kind) PFW_READ_ARG_##name,
#define REST(name) PFW_READ_COLUMN_##name,
#include "read/columns.def"
#undef LINE
#undef SAID
#undef ARG
#undef REST
	PFW_READ_COLUMNS
};

/* One column. */
struct pfw_read_known {
	const char *name;
	const char *key; /* of the arg; NULL: of none */
	uint8_t key_bytes;
	uint8_t kind; /* enum pfw_read_kind */
};
extern const struct pfw_read_known pfw_read_known[PFW_READ_COLUMNS];

/* Whether a kind has a dictionary of texts. */
static inline bool pfw_read_has_texts(enum pfw_read_kind kind)
{
	return kind == PFW_READ_TEXT || kind == PFW_READ_LIST;
}

/* A power of two, large enough that few keys share a cell. */
#define PFW_READ_CELLS 512u

/* The columns that are wanted, in order. */
struct pfw_read_columns {
	const struct pfw_read_known *known; /* pfw_read_known[], or those of a table */
	uint8_t column[PFW_READ_COLUMNS];   /* their places there: enum pfw_read_column */
	uint8_t count;
	uint8_t args;			/* how many of them are of args */
	int8_t place[PFW_READ_COLUMNS]; /* of each in column[]; -1: not wanted */
	/* An open-addressed hash table from the key of an arg to its column plus 1.  It has all
	 * args with a column, also unwanted ones: these are never in args_json. */
	uint8_t cell[PFW_READ_CELLS];
};

/* Set from a list such as "ts,dur,args.fname"; NULL: all.  0, or -EINVAL with a message in why.
 * Thread: any, as all here. */
int pfw_read_columns_parse(struct pfw_read_columns *columns, const char *list, char *why,
			   size_t size);

/* The column of an arg, by its key without escapes, or -1. */
int pfw_read_columns_find(const struct pfw_read_columns *columns, const char *key, size_t bytes);
