/* read/arrow.h - schemas and finished batches as structs of Arrow's C data interface. */
#pragma once

#include "pfw/read.h"
#include "read/batch.h"

/* Zeros that columns without a value share, in all batches of a stream. */
struct pfw_read_zeros;

/* The schema of these columns.  0 or -ENOMEM. */
int pfw_read_arrow_schema(struct ArrowSchema *out, const struct pfw_read_columns *columns);

/* Move the batch into *out, which then owns its memory.  *zeros is NULL at first, and kept from call
 * to call.  0 or -ENOMEM, with *out released.  Thread: one at a time for one `zeros`; any thread may
 * then use *out. */
int pfw_read_arrow_batch(struct ArrowArray *out, const struct pfw_read_columns *columns,
			 struct pfw_read_batch *batch, struct pfw_read_zeros **zeros);

/* After the last batch of a stream; NULL: nothing. */
void pfw_read_zeros_drop(struct pfw_read_zeros *zeros);
