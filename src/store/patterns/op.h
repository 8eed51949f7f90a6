/* store/patterns/op.h - an operation on a file; private to the room. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/patterns/patterns.h"

enum pfw_seek {
	PFW_SEEK_NONE,
	PFW_SEEK_TO,
	PFW_SEEK_BY,
	PFW_SEEK_LOST,
	PFW_SEEK_FLAGS, /* it stays, and writes `append` from now on, or do not */
	PFW_SEEK_CLOSED
};

/* clang-format off */
#define PFW_PATTERN_BITS                                                        \
	union {                                                                 \
		struct {                                                        \
			uint16_t role : 3, seek : 3;                            \
			uint16_t wanted : 1, summed : 1, touches : 1, dups : 1; \
			uint16_t failed : 1, placed : 1, append : 1;            \
			uint16_t moved : 1; /* `bytes` are known */             \
			uint16_t target_of_copy : 1;                            \
			uint16_t call : 1; /* one */                            \
		};                                                              \
		uint16_t bits;                                                  \
	}
/* clang-format on */

struct pfw_pattern_op {
	uint64_t process; /* later its number */
	uint64_t bytes;
	int64_t ts_ns, ns;
	int64_t fd; /* -1: none; of an open: its result */
	/* If `summed`: the number of calls; if it `touches`: the bytes + 1 that were touched; if it
	 * `dups`: the new descriptor; else the offset, if `placed` or of a seek. */
	int64_t value;
	uint32_t name; /* number of the block's name; later the row */
	PFW_PATTERN_BITS;
};

static inline uint64_t pfw_pattern_op_calls(const struct pfw_pattern_op *op)
{
	return op->summed ? (uint64_t)op->value : op->call;
}

/* The same in less memory, in a struct pfw_pattern_ops. */
struct pfw_pattern_packed {
	int64_t ts_ns;
	int64_t value; /* of a wide one: its number */
	uint32_t name;
	uint32_t ns, bytes;
	int16_t fd; /* PFW_PATTERN_WIDE: all but ts_ns and name is in its wide form */
	PFW_PATTERN_BITS;
};
#define PFW_PATTERN_WIDE INT16_MIN
#define PFW_PATTERN_BIT(...) ((struct pfw_pattern_packed){ __VA_ARGS__ }.bits)

/* Whether an operation of the usual process fits. */
static inline bool pfw_pattern_fits(int64_t fd, int64_t ns, uint64_t bytes)
{
	return ((uint64_t)ns | bytes) <= UINT32_MAX && fd == (int16_t)fd && fd != PFW_PATTERN_WIDE;
}

static inline struct pfw_pattern_packed pfw_pattern_pack(const struct pfw_pattern_op *op)
{
	return (struct pfw_pattern_packed){ .ts_ns = op->ts_ns,
					    .value = op->value,
					    .name = op->name,
					    .ns = (uint32_t)op->ns,
					    .bytes = (uint32_t)op->bytes,
					    .fd = (int16_t)op->fd,
					    .bits = op->bits };
}

/* Of one that fits. */
static inline struct pfw_pattern_op pfw_pattern_unpack(const struct pfw_pattern_packed *packed,
						       uint64_t process)
{
	return (struct pfw_pattern_op){ .process = process,
					.bytes = packed->bytes,
					.ts_ns = packed->ts_ns,
					.ns = packed->ns,
					.fd = packed->fd,
					.value = packed->value,
					.name = packed->name,
					.bits = packed->bits };
}

/* Append an operation.  0 or -ENOMEM. */
int pfw_pattern_ops_push(struct pfw_pattern_ops *ops, const struct pfw_pattern_op *op);
void pfw_pattern_ops_clear(struct pfw_pattern_ops *ops);
void pfw_pattern_ops_release(struct pfw_pattern_ops *ops);

/* Operations sorted by time; those before `next` were taken. */
struct pfw_pattern_run {
	struct pfw_pattern_ops ops;
	size_t next;
	int64_t next_ns; /* the time of operation `next`, if there is one: all runs are compared by this time */
};

/* An open file description: a descriptor and its duplicates share it. */
struct pfw_pattern_open {
	bool known;  /* `offset` is known */
	bool append; /* O_APPEND: each write goes to the end of the file */
	int64_t offset;
	uint32_t descriptors;
	uint32_t next_free; /* number + 1 of the next in the free list */
};

/* What a process did with a file. */
struct pfw_pattern_use {
	uint32_t process; /* its number + 1; 0: none yet */
	bool used, opened;
	bool moved; /* data; last on side `side` */
	bool side;
	struct pfw_pattern_last {
		bool any, stepped;
		int64_t begin, end, step; /* of the last access; distance between the last two */
	} last[2];
};

struct pfw_blob;
struct pfw_text_ids;
struct pfw_varints;

/* Write the rows of all names of a block, as pfw_patterns_row(), to block->row[].  0 or -ENOMEM. */
int pfw_patterns_map(struct pfw_patterns *patterns, int64_t rank, struct pfw_patterns_block *block);

/* Append all figures, or read what was appended.  0, -ENOMEM or -EBADMSG. */
void pfw_pattern_put_figures(struct pfw_blob *blob, const struct pfw_pattern *pattern);
int pfw_pattern_get_figures(struct pfw_varints *reader, struct pfw_pattern *pattern);

/* Let operations, at least one, sorted by time, wait as a run, which then owns them.  0 or -ENOMEM. */
int pfw_patterns_add_run(struct pfw_patterns *patterns, const struct pfw_pattern_ops *ops);

/* Count operations early until at most so many wait.  0 or -ENOMEM. */
int pfw_patterns_keep(struct pfw_patterns *patterns, size_t most);

/* A copy of the operations that wait, in order of time, to be freed; NULL: no memory. */
struct pfw_pattern_op *pfw_patterns_waiting(const struct pfw_patterns *patterns);

/* Count operations from `first` on, at least one, which are in order, and whose names are rows and processes
 * numbers, after all operations counted so far.  0 or -ENOMEM.  Thread: one at a time. */
int pfw_pattern_ops_take(struct pfw_patterns *patterns, const struct pfw_pattern_ops *ops,
			 size_t first, size_t count);
