/* store/patterns/order.c - takes the operations of blocks in order of time; see patterns.h.
 *
 * The writer of a raw trace drains the ring of one thread after another.  So the blocks of the last
 * seconds are kept as sorted runs, which are merged.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/kit/nearly_sorted.h"
#include "store/patterns/op.h"
#include "store/patterns/patterns.h"

/* By default the writer drains all rings twice a second. */
#define WAIT_NS 2000000000ll
/* The most operations in all runs, of some 100 bytes each. */
#define WAITING_MAX 524288u
/* Figures are prefetched this many operations ahead. */
#define FETCH_AHEAD 6u

static bool is_after(const struct pfw_pattern_op *a, const struct pfw_pattern_op *b)
{
	return a->ts_ns > b->ts_ns;
}

PFW_NEARLY_SORTED(ops, struct pfw_pattern_op, is_after)

/* Operations of one time stay in the order of their lines.  0 or -ENOMEM. */
static int sort(struct pfw_pattern_op *op, size_t count)
{
	struct pfw_pattern_op *spare;

	/* Mostly the lines of one thread follow each other, in order. */
	if (ops_insert(op, count, count / 4))
		return 0;
	spare = malloc((count / 2 + 1) * sizeof(*spare));
	if (!spare)
		return -ENOMEM;
	ops_merge(op, count, spare);
	free(spare);
	return 0;
}

/* The number of a process, which mostly is that of the operation before. */
static inline int64_t process_of(struct pfw_patterns *patterns, uint64_t process)
{
	int64_t number = patterns->recent - 1;

	if (number >= 0 && patterns->recent_process == process)
		return number;
	number = pfw_pair_ids_of(&patterns->processes, 0, process);
	patterns->recent = number < 0 ? 0 : number + 1;
	patterns->recent_process = process;
	return number;
}

static int take_op(struct pfw_patterns *patterns, const struct pfw_pattern_op *op)
{
	patterns->late |= op->ts_ns < patterns->taken_ns;
	patterns->taken_ns = op->ts_ns;
	return pfw_pattern_op_take(patterns, op);
}

/* ---- runs ---- */

/* Its memory is for the block that comes next. */
static void drop_run(struct pfw_patterns *patterns, size_t number)
{
	free(patterns->spare);
	patterns->spare = patterns->run[number].op;
	patterns->spare_room = patterns->run[number].room;
	patterns->runs--;
	for (size_t i = number; i < patterns->runs; i++)
		patterns->run[i] = patterns->run[i + 1];
}

/* The run with the earliest operation (of equal ones the first); *others: the earliest operation of
 * all other runs. */
static size_t find_first(const struct pfw_patterns *patterns, int64_t *others)
{
	size_t first = 0;

	*others = INT64_MAX;
	for (size_t i = 1; i < patterns->runs; i++) {
		const struct pfw_pattern_run *best = &patterns->run[first],
					     *run = &patterns->run[i];
		int64_t ts = run->op[run->next].ts_ns, least = best->op[best->next].ts_ns;

		if (ts < least)
			first = i;
		if ((ts < least ? least : ts) < *others)
			*others = ts < least ? least : ts;
	}
	return first;
}

/* Take operations of a run that come before those of all others, as take_until(). */
static int take_run(struct pfw_patterns *patterns, struct pfw_pattern_run *run, int64_t others,
		    int64_t until_ns, size_t wait)
{
	const struct pfw_pattern_op *first = &run->op[run->next], *end = &run->op[run->ops];
	const struct pfw_pattern_op *op = first;
	size_t more = patterns->waiting > wait ? patterns->waiting - wait : 0;
	int error;

	do {
		if ((size_t)(end - op) > FETCH_AHEAD)
			pfw_pattern_op_fetch(patterns, op + FETCH_AHEAD);
		error = take_op(patterns, op++);
		more -= more != 0;
	} while (!error && op < end && op->ts_ns < others && (op->ts_ns <= until_ns || more));
	run->next += (size_t)(op - first);
	patterns->waiting -= (size_t)(op - first);
	return error;
}

/* Take operations up to that time, and more until only `wait` are left. */
static int take_until(struct pfw_patterns *patterns, int64_t until_ns, size_t wait)
{
	int error = 0;

	while (patterns->runs && !error) {
		int64_t others;
		size_t number = find_first(patterns, &others);
		struct pfw_pattern_run *run = &patterns->run[number];

		if (run->op[run->next].ts_ns > until_ns && patterns->waiting <= wait)
			break;
		error = take_run(patterns, run, others, until_ns, wait);
		if (run->next == run->ops)
			drop_run(patterns, number);
	}
	return error;
}

/* The run takes the block's operations, and the block gets as much memory: that of a run that was counted. */
static int add_run(struct pfw_patterns *patterns, struct pfw_patterns_block *block)
{
	const struct pfw_pattern_run run = { .op = block->op,
					     .ops = block->ops,
					     .room = block->room };

	if (PFW_PUSH(patterns->run, patterns->runs, patterns->run_room, run))
		return -ENOMEM;
	patterns->waiting += block->ops;
	if (patterns->spare)
		block->room = patterns->spare_room;
	block->op = patterns->spare ? patterns->spare : malloc(block->room * sizeof(*block->op));
	if (!block->op)
		block->room = 0;
	block->ops = 0;
	patterns->spare = NULL;
	return 0;
}

/* ---- blocks ---- */

/* Operations get rows instead of names, and numbers of processes. */
static int number_ops(struct pfw_patterns *patterns, int64_t rank, struct pfw_patterns_block *block)
{
	if (PFW_REACH(block->row, block->names.count, block->row_room) ||
	    pfw_patterns_map(patterns, rank, &block->names, block->row))
		return -ENOMEM;
	for (size_t i = 0; i < block->ops; i++) {
		struct pfw_pattern_op *op = &block->op[i];
		int64_t process = process_of(patterns, op->process);

		if (process < 0)
			return (int)process;
		op->name = block->row[op->name];
		op->process = (uint64_t)process;
	}
	return 0;
}

/* Operations of one thread are in order, and those of a sorted trace. */
static bool may_come_late(struct pfw_patterns *patterns, const struct pfw_patterns_block *block)
{
	if (!patterns->begun)
		patterns->tid = block->tid;
	patterns->begun = true;
	patterns->threads |= block->threads || block->tid != patterns->tid;
	return patterns->threads && !patterns->sorted;
}

int pfw_patterns_take(struct pfw_patterns *patterns, uint64_t file, int64_t rank,
		      struct pfw_patterns_block *block)
{
	int error = 0;

	if (file != patterns->file) {
		error = pfw_patterns_end(patterns);
		patterns->file = file;
	}
	error = error ? error : number_ops(patterns, rank, block);
	if (error || !block->ops)
		return error;
	if (sort(block->op, block->ops))
		return -ENOMEM;
	if (may_come_late(patterns, block)) {
		int64_t last_ns = block->op[block->ops - 1].ts_ns;

		if (last_ns > patterns->last_ns)
			patterns->last_ns = last_ns;
		error = add_run(patterns, block);
		return error ? error
			     : take_until(patterns, patterns->last_ns - WAIT_NS, WAITING_MAX);
	}
	for (size_t i = 0; i < block->ops && !error; i++) {
		if (i + FETCH_AHEAD < block->ops)
			pfw_pattern_op_fetch(patterns, &block->op[i + FETCH_AHEAD]);
		error = take_op(patterns, &block->op[i]);
	}
	return error;
}

int pfw_patterns_keep(struct pfw_patterns *patterns, size_t most)
{
	return take_until(patterns, INT64_MIN, most);
}

struct pfw_pattern_op *pfw_patterns_waiting(const struct pfw_patterns *patterns)
{
	struct pfw_pattern_op *op = malloc((patterns->waiting + 1) * sizeof(*op));
	size_t count = 0;

	for (size_t i = 0; i < patterns->runs && op; i++) {
		const struct pfw_pattern_run *run = &patterns->run[i];

		for (size_t j = run->next; j < run->ops; j++)
			op[count++] = run->op[j];
	}
	if (op && sort(op, count)) {
		free(op);
		op = NULL;
	}
	return op;
}

int pfw_patterns_end(struct pfw_patterns *patterns)
{
	int error = take_until(patterns, INT64_MAX, 0);

	patterns->begun = patterns->threads = false;
	patterns->last_ns = 0;
	return error;
}
