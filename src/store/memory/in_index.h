/* store/memory/in_index.h - the allocations of a trace in its index: docs/index_format.rst. */
#pragma once

#include "store/index/parts.h"

struct pfw_memory;
struct pfw_trace_file;

extern const struct pfw_index_kind pfw_memory_kind;

/* What to add from the index of a file, and what it says. */
struct pfw_memory_from {
	const struct pfw_trace_file *file; /* its processes are read */
	size_t number;			   /* in the traces */
	bool none;	       /* the answer is needed only if there are no events: -ENOENT else */
	uint64_t unfreed_most; /* the greatest blocks that are not freed; UINT64_MAX: all */
	/* Out: */
	unsigned leaders; /* how many processes have steps; 2: several */
	bool followers;	  /* as in struct pfw_memory */
};

/* Add a row of an index to *memory, which lives_most was set in; then see pfw_memory_settle().  0;
 * -ENOENT if the lines must be read; -ENOMEM or -EBADMSG; after an error *memory is incomplete. */
int pfw_memory_read_row(struct pfw_memory *memory, struct pfw_memory_from *from,
			struct pfw_varints *row);

/* The same of an index.  Errors also as pfw_index_parts().  Thread: as for the index. */
int pfw_memory_from_index(struct pfw_memory *memory, struct pfw_memory_from *from,
			  struct pfw_index *index);
