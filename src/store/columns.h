/* columns.h - some fields of a line, as a table's columns: `--fields ts,dur,name,args.fname`.
 */
#ifndef PFW_COLUMNS_H
#define PFW_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "entry.h"

#define PFW_COLUMNS_MAX 256

struct pfw_expr;
struct pfw_fnames;

struct pfw_columns {
	struct pfw_expr *expr; /* a node each */
	size_t count;
	char **name;			 /* as they were given */
	const struct pfw_fnames *fnames; /* to be set by who has them; may be NULL */
};

/* What stands in one column of one line. */
struct pfw_cell {
	enum {
		PFW_CELL_NULL, /* null, or not there */
		PFW_CELL_TEXT, /* a string: without its quotes */
		PFW_CELL_JSON, /* anything else, as JSON */
	} kind;
	struct pfw_slice text;
	char digits[32]; /* private */
};

/* Read the list: fields as in expr.h.  Return 0, -ENOMEM, or -EINVAL with what is wrong in why, as
 * pfw_expr_compile().  Thread: any. */
int pfw_columns_parse(struct pfw_columns *columns, const char *list, char *why, size_t size);

/* Whether args.fname is among them. */
bool pfw_columns_ask_fname(const struct pfw_columns *columns);
void pfw_columns_free(struct pfw_columns *columns);

/* The cell of column i.  It points into the line, or into itself.  ts and dur are µs with three
 * decimals.  Thread: any. */
void pfw_columns_cell(const struct pfw_columns *columns, size_t i, const struct pfw_entry *entry,
		      int64_t rank, struct pfw_cell *cell);

#endif
