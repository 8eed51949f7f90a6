/* store/patterns/in_index.h - reads the patterns of a compacted trace from its index. */
#ifndef PFW_STORE_PATTERNS_IN_INDEX_H
#define PFW_STORE_PATTERNS_IN_INDEX_H

#include "store/index/parts.h"

struct pfw_pattern;
struct pfw_patterns;
struct pfw_pattern_counters;

extern const struct pfw_index_kind pfw_patterns_kind;

/* Add the row of an index to a rank's rows, and to *counters.  0, -ENOENT if the row is empty,
 * -ENOMEM or -EBADMSG. */
int pfw_patterns_read_row(struct pfw_patterns *patterns, int64_t rank,
			  struct pfw_pattern_counters *counters, const uint8_t *data, size_t bytes);

/* Takes the figures of a file.  0 or -errno. */
typedef int pfw_pattern_take(void *user, const char *name, size_t bytes,
			     const struct pfw_pattern *pattern);

/* Call take() for each file of an index, once each, and add to *counters.  0 or -errno as
 * pfw_index_parts(), or the first of take(); before it, files may have been taken. */
int pfw_patterns_walk_index(struct pfw_index *index, struct pfw_pattern_counters *counters,
			    pfw_pattern_take *take, void *user);

/* Whether `alignment` and `small` are those of indexes.  Thread: any. */
bool pfw_patterns_indexable(const struct pfw_patterns *patterns);

/*
 * Add the row of the index of a rank's file.  -ENOENT if `alignment` or `small` differ from those
 * of indexes; 0 or -errno as pfw_index_parts().  On errors but -ENOMEM nothing was added.  Thread:
 * as for the index.
 */
int pfw_patterns_from_index(struct pfw_patterns *patterns, int64_t rank,
			    struct pfw_pattern_counters *counters, struct pfw_index *index);

#endif
