/* store/patterns/order.c - takes the operations of blocks in order of time; see patterns.h.
 *
 * The writer of a raw trace drains the ring of one thread after another.  So the blocks of the last
 * seconds are kept as sorted runs, which are merged.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/base/order.h"
#include "store/kit/grow.h"
#include "store/kit/nearly_sorted.h"
#include "store/patterns/op.h"
#include "store/patterns/patterns.h"

/* By default the writer drains all rings twice a second. */
#define WAIT_NS 2000000000ll
/* The most operations in all runs, of 32 bytes, or some 100 if they are wide. */
#define WAITING_MAX 524288u

static bool is_after(const struct pfw_pattern_packed *a, const struct pfw_pattern_packed *b)
{
	return a->ts_ns > b->ts_ns;
}

static bool op_is_after(const struct pfw_pattern_op *a, const struct pfw_pattern_op *b)
{
	return a->ts_ns > b->ts_ns;
}

PFW_NEARLY_SORTED(packed, struct pfw_pattern_packed, is_after)
PFW_NEARLY_SORTED(ops, struct pfw_pattern_op, op_is_after)

/* Operations of one time stay in the order of their lines.  0 or -ENOMEM. */
static int sort(struct pfw_pattern_packed *op, size_t count)
{
	struct pfw_pattern_packed *spare;

	/* Mostly the lines of one thread follow each other, in order. */
	if (packed_insert(op, count, count / 4))
		return 0;
	spare = malloc((count / 2 + 1) * sizeof(*spare));
	if (!spare)
		return -ENOMEM;
	packed_merge(op, count, spare);
	free(spare);
	return 0;
}

/* ---- lists of operations ---- */

int pfw_pattern_ops_push(struct pfw_pattern_ops *ops, const struct pfw_pattern_op *op)
{
	struct pfw_pattern_packed packed = pfw_pattern_pack(op);

	if (!ops->count)
		ops->process = op->process;
	if (op->process != ops->process || !pfw_pattern_fits(op->fd, op->ns, op->bytes)) {
		packed.fd = PFW_PATTERN_WIDE;
		packed.value = (int64_t)ops->wides;
		if (PFW_PUSH(ops->wide, ops->wides, ops->wide_room, *op))
			return -ENOMEM;
	}
	return PFW_PUSH(ops->at, ops->count, ops->room, packed);
}

void pfw_pattern_ops_clear(struct pfw_pattern_ops *ops)
{
	ops->count = ops->wides = 0;
}

void pfw_pattern_ops_release(struct pfw_pattern_ops *ops)
{
	free(ops->at);
	free(ops->wide);
	*ops = (struct pfw_pattern_ops){ .count = 0 };
}

/* ---- operations in order ---- */

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

/* ---- runs ---- */

/* Its memory is for the block that comes next. */
static void drop_run(struct pfw_patterns *patterns, size_t number)
{
	pfw_pattern_ops_release(&patterns->spare);
	patterns->spare = patterns->run[number].ops;
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
		int64_t ts = patterns->run[i].next_ns, least = patterns->run[first].next_ns;

		if (ts < least)
			first = i;
		if ((ts < least ? least : ts) < *others)
			*others = ts < least ? least : ts;
	}
	return first;
}

/* Take the first operation of a run, and those that come before all others, as take_until(). */
static int take_run(struct pfw_patterns *patterns, struct pfw_pattern_run *run, int64_t others,
		    int64_t until_ns, size_t wait)
{
	const struct pfw_pattern_packed *op = &run->ops.at[run->next];
	size_t most = run->ops.count - run->next;
	size_t more = patterns->waiting > wait ? patterns->waiting - wait : 1, count;
	int error;

	most = 1 + PFW_BISECT(i, most - 1, op[i + 1].ts_ns < others);
	count = 1 + PFW_BISECT(i, most - 1, op[i + 1].ts_ns <= until_ns);
	if (count < more)
		count = more < most ? more : most;
	error = pfw_pattern_ops_take(patterns, &run->ops, run->next, count);
	run->next += count;
	if (run->next < run->ops.count)
		run->next_ns = run->ops.at[run->next].ts_ns;
	patterns->waiting -= count;
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

		if (run->next_ns > until_ns && patterns->waiting <= wait)
			break;
		error = take_run(patterns, run, others, until_ns, wait);
		if (run->next == run->ops.count)
			drop_run(patterns, number);
	}
	return error;
}

int pfw_patterns_add_run(struct pfw_patterns *patterns, const struct pfw_pattern_ops *ops)
{
	const struct pfw_pattern_run run = { .ops = *ops, .next_ns = ops->at[0].ts_ns };

	if (PFW_PUSH(patterns->run, patterns->runs, patterns->run_room, run))
		return -ENOMEM;
	patterns->waiting += ops->count;
	return 0;
}

/* The run takes the block's operations, and the block gets as much memory: that of a run that was counted. */
static int add_block(struct pfw_patterns *patterns, struct pfw_patterns_block *block)
{
	struct pfw_pattern_ops ops = patterns->spare;

	if (pfw_patterns_add_run(patterns, &block->ops))
		return -ENOMEM;
	if (!ops.at) {
		ops.at = malloc(block->ops.room * sizeof(*ops.at));
		ops.room = ops.at ? block->ops.room : 0;
	}
	pfw_pattern_ops_clear(&ops);
	block->ops = ops;
	patterns->spare = (struct pfw_pattern_ops){ .count = 0 };
	return 0;
}

/* ---- blocks ---- */

/* Write to the pages of rows that are new: one that is read before takes two faults. */
static int touch_rows(struct pfw_patterns *patterns, size_t first)
{
	if (first < patterns->rows &&
	    PFW_REACH_MAPPED(patterns->use, patterns->rows - 1, patterns->use_room))
		return -ENOMEM;
	for (size_t i = first; i < patterns->rows; i++) {
		patterns->row[i].figure[0] = 0;
		patterns->use[i].process = 0;
	}
	return 0;
}

/* Operations get rows instead of names, and numbers of processes. */
static int number_ops(struct pfw_patterns *patterns, int64_t rank, struct pfw_patterns_block *block)
{
	struct pfw_pattern_ops *ops = &block->ops;
	size_t rows = patterns->rows;
	int64_t process;

	if (pfw_patterns_map(patterns, rank, block) || touch_rows(patterns, rows))
		return -ENOMEM;
	if (!ops->count)
		return 0;
	process = process_of(patterns, ops->process);
	ops->process = (uint64_t)process;
	for (size_t i = 0; i < ops->count; i++)
		ops->at[i].name = block->row[ops->at[i].name];
	for (size_t i = 0; i < ops->wides && process >= 0; i++) {
		struct pfw_pattern_op *op = &ops->wide[i];

		process = process_of(patterns, op->process);
		op->process = (uint64_t)process;
		op->name = block->row[op->name];
	}
	return process < 0 ? (int)process : 0;
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
	const struct pfw_pattern_ops *ops = &block->ops;
	int error = 0;

	if (file != patterns->file) {
		error = pfw_patterns_end(patterns);
		patterns->file = file;
	}
	error = error ? error : number_ops(patterns, rank, block);
	if (error || !ops->count)
		return error;
	if (sort(ops->at, ops->count))
		return -ENOMEM;
	if (may_come_late(patterns, block)) {
		int64_t last_ns = ops->at[ops->count - 1].ts_ns;

		if (last_ns > patterns->last_ns)
			patterns->last_ns = last_ns;
		error = add_block(patterns, block);
		return error ? error
			     : take_until(patterns, patterns->last_ns - WAIT_NS, WAITING_MAX);
	}
	return pfw_pattern_ops_take(patterns, ops, 0, ops->count);
}

int pfw_patterns_keep(struct pfw_patterns *patterns, size_t most)
{
	return take_until(patterns, INT64_MIN, most);
}

struct pfw_pattern_op *pfw_patterns_waiting(const struct pfw_patterns *patterns)
{
	size_t most = patterns->waiting + 1, count = 0;
	struct pfw_pattern_op *op = malloc(most * sizeof(*op)), *spare = malloc(most * sizeof(*op));

	for (size_t i = 0; i < patterns->runs && op && spare; i++) {
		const struct pfw_pattern_run *run = &patterns->run[i];

		for (size_t j = run->next; j < run->ops.count; j++) {
			const struct pfw_pattern_packed *packed = &run->ops.at[j];

			op[count++] = packed->fd == PFW_PATTERN_WIDE
					      ? run->ops.wide[packed->value]
					      : pfw_pattern_unpack(packed, run->ops.process);
		}
	}
	if (spare && op) {
		ops_merge(op, count, spare);
	} else {
		free(op);
		op = NULL;
	}
	free(spare);
	return op;
}

int pfw_patterns_end(struct pfw_patterns *patterns)
{
	int error = take_until(patterns, INT64_MAX, 0);

	patterns->begun = patterns->threads = false;
	patterns->last_ns = 0;
	return error;
}
