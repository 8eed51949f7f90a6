/* read/parts.h - parts of traces: ranges of their blocks, each for another process to read. */
#pragma once

#include "pfw/read.h"
#include "store/select/select.h"

/* Blocks [from, to) of all files, in order.  A STREAM counts as one block. */
struct pfw_read_range {
	uint64_t from, to; /* to 0: all */
	uint64_t layout;   /* pfw_read_places.layout of the traces that were divided */
};

/* The numbers of the blocks of some traces. */
struct pfw_read_places {
	uint64_t *first; /* of each file */
	uint64_t blocks;
	uint64_t layout; /* a hash of where all blocks begin: other files, other number */
};

/* "FROM-TO/LAYOUT".  False: it is not. */
bool pfw_read_range_parse(struct pfw_read_range *range, const char *text);

/* 0 or -ENOMEM.  Thread: any, as all here. */
int pfw_read_places_set(struct pfw_read_places *places, const struct pfw_traces *traces);
void pfw_read_places_free(struct pfw_read_places *places);

/* Whether a block of `file` is in the range. */
bool pfw_read_places_in(const struct pfw_read_places *places, const struct pfw_traces *traces,
			const struct pfw_read_range *range, size_t file,
			const struct pfw_block *block);

/* Whether the last block is: lines that are in no block are read with it. */
bool pfw_read_places_last(const struct pfw_read_places *places, const struct pfw_read_range *range);

/* Give each part with a block that may have a selected line, or else one part.  `timed`: the times
 * of blocks are those of all selected lines. */
void pfw_read_places_divide(const struct pfw_read_places *places, const struct pfw_traces *traces,
			    const struct pfw_select *select, bool timed, uint64_t most,
			    pfw_read_each *each, void *user);
