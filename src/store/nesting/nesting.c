/* store/nesting/nesting.c - keeps the spans of all threads, then nests them; see nesting.h. */
#include "store/nesting/nesting.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "store/kit/grow.h"
#include "store/kit/nearly_sorted.h"
#include "store/kit/pair_ids.h"
#include "store/nesting/tree.h"
#include "store/sys/pool.h"

static inline bool pfw_ties_same_times(const struct pfw_span *a, const struct pfw_span *b)
{
	return a->start_ns == b->start_ns && a->dur_ns == b->dur_ns;
}

/* Whether the span says that it lies in the other. */
static inline bool pfw_ties_says(const struct pfw_span *span, const struct pfw_span *in)
{
	return span->parent && pfw_launcher_kind(in->launcher) == PFW_LAUNCHER_SPAN &&
	       span->parent == (uint32_t)in->launcher;
}

/* In more spans of identical times, what they say does not count. */
#define PARENTS_MAX 16u

static void move(struct pfw_span *span, size_t from, size_t to)
{
	const struct pfw_span moved = span[from];

	memmove(span + to + 1, span + to, (from - to) * sizeof(*span));
	span[to] = moved;
}

static bool lies_in_any(const struct pfw_span *span, size_t one, size_t first, size_t count)
{
	for (size_t i = first; i < count; i++) {
		if (i != one && pfw_ties_says(&span[one], &span[i]))
			return true;
	}
	return false;
}

static void order_group(struct pfw_span *span, size_t count)
{
	for (size_t i = 0; count <= PARENTS_MAX && i + 1 < count; i++) {
		size_t next = i;

		while (next < count && lies_in_any(span, next, i, count))
			next++;
		/* None: a circle. */
		if (next < count)
			move(span, next, i);
	}
}

/* Order the spans with identical times, the outermost first.  The spans of a thread come sorted by
 * start, the longer first, then the greater `outer` first. */
static void pfw_ties_settle(struct pfw_span *span, size_t count)
{
	for (size_t first = 0, end; first < count; first = end) {
		for (end = first + 1; end < count && pfw_ties_same_times(&span[first], &span[end]);)
			end++;
		if (end - first > 1)
			order_group(span + first, end - first);
	}
}

struct thread {
	uint64_t tid;
	uint32_t process;
	uint32_t arrived; /* spans; `outer` of one whose line has no id */
	bool unsorted;	  /* not sorted by start, the longer first, then the outer */
	bool end_before;  /* not sorted by end, the shorter first, then the inner */
	bool ties;	  /* spans with identical times follow each other */
	bool parents;	  /* and one says in which span it lies */
	struct pfw_spill spans;
};

struct pfw_nesting {
	struct pfw_spill_budget budget;
	struct pfw_pair_ids process_numbers, thread_numbers;
	struct thread *thread;
	uint32_t threads;
	struct pfw_spill extras; /* struct pfw_span_extra each */
	struct pfw_launches launches;
};

/* ---- what is kept ---- */

struct pfw_nesting *pfw_nesting_create(size_t memory)
{
	struct pfw_nesting *nesting = calloc(1, sizeof(*nesting));

	if (!nesting)
		return NULL;
	nesting->budget.bytes = memory;
	nesting->extras = (struct pfw_spill)PFW_SPILL_EMPTY;
	nesting->launches = (struct pfw_launches)PFW_LAUNCHES_EMPTY;
	return nesting;
}

void pfw_nesting_free(struct pfw_nesting *nesting)
{
	if (!nesting)
		return;
	for (uint32_t i = 0; i < nesting->threads; i++)
		pfw_spill_free(&nesting->thread[i].spans, &nesting->budget);
	pfw_spill_free(&nesting->extras, &nesting->budget);
	pfw_spill_free(&nesting->launches.launch, &nesting->budget);
	pfw_pair_ids_release(&nesting->process_numbers);
	pfw_pair_ids_release(&nesting->thread_numbers);
	free(nesting->thread);
	free(nesting);
}

int64_t pfw_nesting_process(struct pfw_nesting *nesting, uint64_t process)
{
	return pfw_pair_ids_of(&nesting->process_numbers, process, 0);
}

int64_t pfw_nesting_thread(struct pfw_nesting *nesting, uint32_t process, uint64_t tid)
{
	int64_t number = pfw_pair_ids_of(&nesting->thread_numbers, process, tid);

	if (number < 0 || number < nesting->threads)
		return number;
	if (PFW_APPEND(nesting->thread, nesting->threads,
		       (struct thread){ .tid = tid, .process = process, .spans = PFW_SPILL_EMPTY }))
		return -ENOMEM;
	return number;
}

static int64_t end_of(const struct pfw_span *span)
{
	return span->start_ns + span->dur_ns;
}

static bool starts_later(const struct pfw_span *a, const struct pfw_span *b)
{
	if (a->start_ns != b->start_ns)
		return a->start_ns > b->start_ns;
	return a->dur_ns != b->dur_ns ? a->dur_ns < b->dur_ns : a->outer < b->outer;
}

static inline void note_order(struct thread *thread, const struct pfw_span *last,
			      const struct pfw_span *span)
{
	/* Most spans end after the one before. */
	if (end_of(span) > end_of(last)) {
		thread->unsorted |= last->start_ns >= span->start_ns;
		return;
	}
	if (starts_later(last, span))
		thread->unsorted = true;
	if (end_of(span) < end_of(last) ||
	    (end_of(span) == end_of(last) && span->start_ns > last->start_ns))
		thread->end_before = true;
	if (!pfw_ties_same_times(span, last))
		return;
	thread->ties = true;
	thread->end_before |= span->outer < last->outer;
	thread->parents |= span->parent || last->parent;
}

int pfw_nesting_add(struct pfw_nesting *nesting, uint32_t number, const struct pfw_span *span,
		    size_t count)
{
	struct thread *thread = &nesting->thread[number];
	struct pfw_spill *spans = &thread->spans;
	struct pfw_span *added;
	int error = pfw_spill_reserve(spans, count * sizeof(*added), &nesting->budget);

	if (error)
		return error;
	added = (struct pfw_span *)((char *)spans->at + spans->bytes);
	memcpy(added, span, count * sizeof(*added));
	for (size_t i = 0; i < count; i++, added++) {
		thread->arrived++;
		if (!added->outer)
			added->outer = thread->arrived;
		if (i || spans->bytes)
			note_order(thread, added - 1, added);
	}
	spans->bytes += count * sizeof(*added);
	return 0;
}

int pfw_nesting_extra(struct pfw_nesting *nesting, const struct pfw_span_extra *extra,
		      uint32_t *number)
{
	*number = (uint32_t)(nesting->extras.bytes / sizeof(*extra)) + 1;
	return pfw_spill_add(&nesting->extras, extra, sizeof(*extra), &nesting->budget);
}

int pfw_nesting_launch(struct pfw_nesting *nesting, const struct pfw_launch *launch)
{
	return pfw_launches_add(&nesting->launches, launch, &nesting->budget);
}

/* ---- order ---- */

PFW_NEARLY_SORTED(spans, struct pfw_span, starts_later)

static int sort(struct thread *thread, size_t memory)
{
	struct pfw_spill_budget budget = { .bytes = memory };
	struct pfw_spill spare = PFW_SPILL_EMPTY;
	struct pfw_span *spans = thread->spans.at;
	size_t count = thread->spans.bytes / sizeof(*spans);
	int error;

	/* Sorted by end: backwards it is nearly in order. */
	for (size_t i = 0; !thread->end_before && i < count / 2; i++) {
		struct pfw_span span = spans[i];

		spans[i] = spans[count - 1 - i];
		spans[count - 1 - i] = span;
	}
	if (spans_insert(spans, count, 8 * count))
		return 0;
	error = pfw_spill_reserve(&spare, (count / 2 + 1) * sizeof(*spans), &budget);
	if (!error)
		spans_merge(spans, count, spare.at);
	pfw_spill_free(&spare, &budget);
	return error;
}

/* ---- nesting ---- */

struct run {
	struct pfw_nesting *nesting;
	const struct pfw_nesting_user *user;
	size_t memory;	       /* for the sort of one worker */
	_Atomic uint32_t next; /* the next process to nest */
	_Atomic uint64_t too_deep;
	_Atomic int error;
};

static int nest_thread(struct run *run, struct pfw_tree *tree, struct thread *thread)
{
	size_t count = thread->spans.bytes / sizeof(struct pfw_span);
	bool mirrored = thread->unsorted && !thread->end_before && !thread->parents &&
			pfw_tree_mirrors(tree, thread->spans.at, count);
	int error = thread->unsorted && !mirrored ? sort(thread, run->memory) : 0;

	if (error)
		return error;
	if (!mirrored && (thread->unsorted || thread->ties))
		pfw_ties_settle(thread->spans.at, count);
	tree->process = thread->process;
	if (run->user->thread)
		run->user->thread(run->user->user, thread->process, thread->tid);
	tree->hint = (struct pfw_launches_hint){ { 0 } };
	return pfw_tree_walk(tree, thread->spans.at, count, mirrored);
}

/* Nest one process after another.  A process has one worker, which alone may take its GPU work. */
static void work(void *user, unsigned worker)
{
	struct run *run = user;
	struct pfw_nesting *nesting = run->nesting;
	struct pfw_tree tree = { .user = run->user,
				 .worker = worker,
				 .extra = nesting->extras.at,
				 .launches = &nesting->launches };

	for (;;) {
		uint32_t process = atomic_fetch_add(&run->next, 1);

		if (process >= nesting->process_numbers.count || atomic_load(&run->error))
			break;
		for (uint32_t i = 0; i < nesting->threads; i++) {
			int error = 0;

			if (nesting->thread[i].process == process)
				error = nest_thread(run, &tree, &nesting->thread[i]);
			if (error)
				atomic_store(&run->error, error);
		}
	}
	atomic_fetch_add(&run->too_deep, tree.too_deep);
	pfw_tree_release(&tree);
}

/* Note which launchers are in the trace, so that all work has one that is. */
static int settle(struct pfw_nesting *nesting)
{
	pfw_launches_sort(&nesting->launches);
	for (uint32_t i = 0; nesting->launches.otherwise && i < nesting->threads; i++) {
		const struct thread *thread = &nesting->thread[i];
		const struct pfw_span *spans = thread->spans.at;
		size_t count = thread->spans.bytes / sizeof(*spans);
		struct pfw_launches_hint hint = { { 0 } };

		for (size_t j = 0; j < count; j++) {
			if (spans[j].launcher)
				pfw_launches_see(&nesting->launches, thread->process,
						 spans[j].launcher, &hint);
		}
	}
	return pfw_launches_settle(&nesting->launches, &nesting->budget);
}

static int by_tid(const void *a, const void *b)
{
	const struct thread *x = a, *y = b;

	return PFW_ORDER(x->process, y->process) ?: PFW_ORDER(x->tid, y->tid);
}

int pfw_nesting_run(struct pfw_nesting *nesting, const struct pfw_nesting_user *user, unsigned jobs,
		    uint64_t *too_deep)
{
	struct run run = { .nesting = nesting,
			   .user = user,
			   .memory = nesting->budget.bytes / (jobs ? jobs : 1) };
	int error;

	/* Of spans of several threads with one launcher, the first gets the work. */
	if (nesting->threads)
		qsort(nesting->thread, nesting->threads, sizeof(*nesting->thread), by_tid);
	error = settle(nesting);

	if (error)
		return error;
	pfw_pool_each(jobs, work, &run);
	*too_deep = run.too_deep;
	return run.error;
}

uint32_t pfw_nesting_taker(const struct pfw_nesting *nesting, const struct pfw_launch *launch,
			   struct pfw_launches_hint *hint)
{
	return pfw_launches_taker(&nesting->launches, launch, PFW_NO_GROUP, hint);
}
