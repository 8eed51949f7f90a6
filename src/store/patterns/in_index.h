/* store/patterns/in_index.h - reads the patterns of a trace from its index. */
#pragma once

#include "store/index/parts.h"
#include "store/patterns/patterns.h"

extern const struct pfw_index_kind pfw_patterns_kind;

/* Add the row of an index to a rank's rows, and to *counters.  0, -ENOENT if the row is empty,
 * -ENOMEM or -EBADMSG. */
int pfw_patterns_read_row(struct pfw_patterns *patterns, int64_t rank,
			  struct pfw_pattern_counters *counters, struct pfw_varints *row);

/* A file of an index.  Name and figures are those of the walk. */
struct pfw_pattern_file {
	const char *name;
	size_t name_bytes;
	uint64_t bytes[2], mapped;  /* read and written; mapped */
	struct pfw_varints figures; /* the other ones */
};

/* All figures of a file.  0 or -EBADMSG. */
int pfw_pattern_figures(const struct pfw_pattern_file *file, struct pfw_pattern *pattern);

/* Takes a file.  0 or -errno. */
typedef int pfw_pattern_take(void *user, const struct pfw_pattern_file *file);

/* What an index has of all its files together. */
struct pfw_pattern_totals {
	struct pfw_pattern sum;
	struct pfw_pattern_counters counters;
};

/* Call take() for each file of an index, once each; *totals gets their sums.  0 or -errno as
 * pfw_index_parts(), or the first of take(); before it, files may have been taken. */
int pfw_patterns_walk_index(struct pfw_index *index, struct pfw_pattern_totals *totals,
			    pfw_pattern_take *take, void *user);

/* The same in two steps: a copy of the row, whose data are to be freed, can be walked again. */
struct pfw_pattern_row {
	uint8_t *data;
	size_t bytes;
};
int pfw_patterns_copy_row(struct pfw_index *index, struct pfw_pattern_row *row);
int pfw_patterns_walk_row(const struct pfw_pattern_row *row, struct pfw_pattern_totals *totals,
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
