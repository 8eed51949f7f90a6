/* overlap_index.h - the overlaps of a compacted trace in its index. */
#ifndef PFW_OVERLAP_INDEX_H
#define PFW_OVERLAP_INDEX_H

#include "index_parts.h"

struct pfw_overlap;

extern const struct pfw_index_kind pfw_overlap_kind;

/* Add a row to *overlap; `last`: the one behind all blocks.  0, -ENOMEM or -EBADMSG. */
int pfw_overlap_read_row(struct pfw_overlap *overlap, const uint8_t *data, size_t bytes, bool last);

/* Fill *overlap, which is empty, as pfw_overlap_end() leaves it.  0 or -errno as pfw_index_parts().
 * Thread: as for the index. */
int pfw_overlap_from_index(struct pfw_overlap *overlap, struct pfw_index *index);

#endif
