/* patterns_index.h - how the files of a compacted trace are used, in its index. */
#ifndef PFW_PATTERNS_INDEX_H
#define PFW_PATTERNS_INDEX_H

#include "index_parts.h"

struct pfw_patterns;
struct pfw_pattern_counters;

extern const struct pfw_index_kind pfw_patterns_kind;

/* Add the row of an index to a rank's rows, and to *counters.  0; -ENOENT where it says nothing;
 * -ENOMEM or -EBADMSG. */
int pfw_patterns_read_row(struct pfw_patterns *patterns, int64_t rank,
			  struct pfw_pattern_counters *counters, const uint8_t *data, size_t bytes);

/* Add what is in an index of a rank's file; `alignment` and `small` are those that are kept, or it is
 * -ENOENT.  0 or -errno as pfw_index_parts(); then nothing was added, but for -ENOMEM.  Thread: as
 * for the index. */
int pfw_patterns_from_index(struct pfw_patterns *patterns, int64_t rank,
			    struct pfw_pattern_counters *counters, struct pfw_index *index);

#endif
