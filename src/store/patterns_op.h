/* patterns_op.h - what a line does to a file, as patterns.c takes it; not for others. */
#ifndef PFW_PATTERNS_OP_H
#define PFW_PATTERNS_OP_H

#include <stdbool.h>
#include <stdint.h>

struct pfw_patterns_block;

enum pfw_seek { PFW_SEEK_NONE, PFW_SEEK_TO, PFW_SEEK_BY, PFW_SEEK_LOST };

struct pfw_pattern_op {
	uint64_t pid, calls, bytes;
	int64_t ts_ns, ns;
	int64_t fd, dup; /* -1: none; of an open what it returned */
	int64_t offset;	 /* where `placed`; of a seek */
	uint32_t name;	 /* of the block's */
	uint32_t order;	 /* among the lines of the block */
	uint8_t role, seek;
	bool wanted, summed, failed, placed, append;
	bool moved; /* `bytes` are known */
	bool target_of_copy;
};

/* In order of time: a raw trace has the lines of several threads one thread after the other. */
void pfw_pattern_ops_sort(struct pfw_patterns_block *block);

#endif
