/* store/table/in_index.h - the compute rows of a trace in its index: spans nested, GPU work joined. */
#ifndef PFW_STORE_TABLE_IN_INDEX_H
#define PFW_STORE_TABLE_IN_INDEX_H

#include "store/index/parts.h"
#include "store/nesting/averages.h"
#include "store/table/line.h"

extern const struct pfw_index_kind pfw_table_kind;

/* A row: all spans, or all GPU work, of a name, category and shapes. */
struct pfw_table_row {
	int device;
	bool annotation;
	struct pfw_slice name, cat, shape; /* without escapes; all steps are ProfilerStep* */
	struct pfw_tally sums;
};

struct pfw_table_rows {
	void *user;
	/* Take a row.  0, or an error that ends reading. */
	int (*row)(void *user, const struct pfw_table_row *row);
	unsigned says; /* out: enum pfw_table_says, of all lines, also those without a row */
};

/* Read all rows.  0; -ENOENT if the lines must be read; or -errno as pfw_index_parts().  Thread: as for
 * the index. */
int pfw_table_from_index(struct pfw_index *index, struct pfw_table_rows *rows);

#endif
