/* store/overlap/in_index.h - reads the overlaps of a trace from its index. */
#pragma once

#include "store/index/parts.h"

struct pfw_overlap;

extern const struct pfw_index_kind pfw_overlap_kind;

/* Add a row to a struct pfw_overlap; `last`: the row after all blocks.  0, -ENOENT if it says that the lines must
 * be read, -ENOMEM or -EBADMSG. */
pfw_index_take pfw_overlap_read_row;

/* Append that last row, of an overlap that has ended. */
void pfw_overlap_put_row(const struct pfw_overlap *overlap, struct pfw_blob *row);

/* Fill *overlap, which must be empty, as pfw_overlap_end() leaves it.  0 or -errno as
 * pfw_index_parts().  Thread: as for the index. */
int pfw_overlap_from_index(struct pfw_overlap *overlap, struct pfw_index *index);
