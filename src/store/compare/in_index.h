/* store/compare/in_index.h - the rows of a comparison in an index: docs/index_format.rst. */
#pragma once

#include "store/compare/rows.h"
#include "store/index/parts.h"

extern const struct pfw_index_kind pfw_compare_kind;

/* All calls of a category and name; all steps are ProfilerStep*. */
struct pfw_compare_found {
	struct pfw_slice cat, name; /* without escapes */
	struct pfw_compare_sums sums;
	struct pfw_varints sample; /* for pfw_compare_read_sample() */
};

struct pfw_compare_reader {
	void *user;
	/* Take a row.  0, or an error that ends reading.  NULL: none is wanted. */
	int (*row)(void *user, const struct pfw_compare_found *row);
	/* Out: how many rows there are; whether some line is an allocation or a free. */
	size_t rows;
	bool memory;
};

/* Read all rows.  0; -ENOENT if the lines must be read; or -errno as pfw_index_parts().  Thread: as
 * for the index. */
int pfw_compare_from_index(struct pfw_index *index, struct pfw_compare_reader *reader);

/* Add the sample of a row to one of at most `most` calls.  0, -ENOMEM or -EBADMSG. */
int pfw_compare_read_sample(struct pfw_sampled *into, const struct pfw_compare_found *row,
			    uint32_t most);
