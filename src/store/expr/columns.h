/* store/expr/columns.h - fields of a line as table cells: `--fields ts,dur,name,args.fname`. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/line/entry.h"

#define PFW_COLUMNS_MAX 256

struct pfw_expr;
struct pfw_fname_hashes;

struct pfw_columns {
	struct pfw_expr *expr; /* one node per column */
	size_t count;
	char **name;			       /* as given */
	const struct pfw_fname_hashes *fnames; /* set by the caller; may be NULL */
};

/* The value of one column of one line. */
struct pfw_cell {
	enum {
		PFW_CELL_NULL, /* null or missing */
		PFW_CELL_TEXT, /* a string, without quotes */
		PFW_CELL_JSON, /* anything else, as JSON */
	} kind;
	struct pfw_slice text;
	char digits[32]; /* private */
};

/* Parse a list of fields (see expr.h).  Return 0, -ENOMEM, or -EINVAL with a message in why, as
 * pfw_expr_compile().  Thread: any. */
int pfw_columns_parse(struct pfw_columns *columns, const char *list, char *why, size_t size);

/* Whether args.fname is in the list. */
bool pfw_columns_ask_fname(const struct pfw_columns *columns);
void pfw_columns_free(struct pfw_columns *columns);

/* Fill the cell of column i.  It points into the line or into itself. ts and dur are µs with three
 * decimals.  Thread: any. */
void pfw_columns_cell(const struct pfw_columns *columns, size_t i, const struct pfw_entry *entry,
		      int64_t rank, struct pfw_cell *cell);
