/* patterns_op.h - what a line does to a file, as patterns.c takes it; not for others. */
#ifndef PFW_PATTERNS_OP_H
#define PFW_PATTERNS_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pfw_seek { PFW_SEEK_NONE, PFW_SEEK_TO, PFW_SEEK_BY, PFW_SEEK_LOST, PFW_SEEK_CLOSED };

struct pfw_pattern_op {
	uint64_t pid, calls, bytes;
	int64_t ts_ns, ns;
	int64_t fd, dup; /* -1: none; of an open what it returned */
	int64_t offset;	 /* where `placed`; of a seek */
	uint32_t name;	 /* of the block's; once it is taken, the row */
	uint32_t order;	 /* among the lines of the block */
	uint8_t role, seek;
	bool wanted, summed, failed, placed, append;
	bool moved; /* `bytes` are known */
	bool target_of_copy;
};

/* A block's operations in order of time, of which those before `next` were taken. */
struct pfw_pattern_run {
	struct pfw_pattern_op *op;
	size_t ops, next;
	uint64_t file;
};

struct pfw_names;
struct pfw_patterns;

/* The rows of all these names, as pfw_patterns_row() has them, into row[].  0 or -ENOMEM. */
int pfw_patterns_map(struct pfw_patterns *patterns, int64_t rank, const struct pfw_names *names,
		     uint32_t *row);

/* An operation will be counted soon: have its figures on their way to the cache, of which there are more
 * than it holds. */
void pfw_pattern_op_fetch(const struct pfw_patterns *patterns, uint64_t process,
			  const struct pfw_pattern_op *op);

/* Count an operation, whose `name` is a row, as what follows those that were counted so far.  0 or
 * -ENOMEM.  Thread: one at a time. */
int pfw_pattern_op_take(struct pfw_patterns *patterns, uint64_t process,
			const struct pfw_pattern_op *op);

#endif
