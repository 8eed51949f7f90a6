/* store/memory/row.h - the row of a trace's allocations as bytes. */
#pragma once

#include <stdint.h>

struct pfw_blob;
struct pfw_memory;

/* Append it, after pfw_memory_count(), with the `most` greatest blocks that are not freed.  0 or -ENOMEM.
 * Thread: any. */
int pfw_memory_put_row(const struct pfw_memory *memory, unsigned leaders, uint64_t most,
		       struct pfw_blob *data);
