/* read/rows.h - a line of a trace becomes a row of a batch. */
#pragma once

#include "read/batch.h"
#include "store/line/entry.h"

struct pfw_fname_hashes;

/* What all rows need; the same for all threads. */
struct pfw_read_rows {
	const struct pfw_read_columns *columns;
	const struct pfw_fname_hashes *fnames; /* of DFTracer's traces; may be NULL */
};

/* Add a line; errors are in the batch.  Thread: that of `batch` and `texts`. */
void pfw_read_rows_add(const struct pfw_read_rows *rows, struct pfw_read_batch *batch,
		       struct pfw_read_texts *texts, const struct pfw_entry *entry, int64_t rank);
