/* nesting.c - the spans of all threads, kept until all are there, then nested; see nesting.h. */
#include "nesting.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "nesting_tree.h"
#include "numbers.h"

struct thread {
	uint32_t process;
	bool unsorted;	 /* not in order of starts, the longer first */
	bool end_before; /* not in order of ends, the shorter first */
	struct pfw_spill spans;
};

struct pfw_nesting {
	struct pfw_spill_budget budget;
	struct pfw_numbers process_numbers, thread_numbers;
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
	pfw_numbers_release(&nesting->process_numbers);
	pfw_numbers_release(&nesting->thread_numbers);
	free(nesting->thread);
	free(nesting);
}

int64_t pfw_nesting_process(struct pfw_nesting *nesting, uint32_t file, uint64_t pid)
{
	return pfw_numbers_of(&nesting->process_numbers, file, pid);
}

int64_t pfw_nesting_thread(struct pfw_nesting *nesting, uint32_t process, uint64_t tid)
{
	int64_t number = pfw_numbers_of(&nesting->thread_numbers, process, tid);

	if (number < 0 || number < nesting->threads)
		return number;
	/* A power of two is full. */
	if ((number & (number - 1)) == 0) {
		size_t room = number ? (size_t)number * 2 : 1;
		struct thread *thread = realloc(nesting->thread, room * sizeof(*thread));

		if (!thread)
			return -ENOMEM;
		nesting->thread = thread;
	}
	nesting->thread[number] = (struct thread){ .process = process, .spans = PFW_SPILL_EMPTY };
	nesting->threads++;
	return number;
}

static int64_t end_of(const struct pfw_span *span)
{
	return span->start_ns + span->dur_ns;
}

static bool starts_later(const struct pfw_span *a, const struct pfw_span *b)
{
	return a->start_ns > b->start_ns || (a->start_ns == b->start_ns && a->dur_ns < b->dur_ns);
}

static void note_order(struct thread *thread, const struct pfw_span *span)
{
	const struct pfw_span *last;

	if (!thread->spans.bytes)
		return;
	last = (const struct pfw_span *)((char *)thread->spans.at + thread->spans.bytes) - 1;
	if (starts_later(last, span))
		thread->unsorted = true;
	if (end_of(span) < end_of(last) ||
	    (end_of(span) == end_of(last) && span->start_ns > last->start_ns))
		thread->end_before = true;
}

int pfw_nesting_add(struct pfw_nesting *nesting, uint32_t number, const struct pfw_span *span)
{
	struct thread *thread = &nesting->thread[number];

	note_order(thread, span);
	return pfw_spill_add(&thread->spans, span, sizeof(*span), &nesting->budget);
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

/* Put in order what nearly is: false once that takes more than a few moves a span. */
static bool insertion_sort(struct pfw_span *spans, size_t count)
{
	size_t moves = 8 * count;

	for (size_t i = 1; i < count; i++) {
		struct pfw_span span = spans[i];
		size_t j = i;

		for (; j && starts_later(&spans[j - 1], &span) && moves; j--, moves--)
			spans[j] = spans[j - 1];
		spans[j] = span;
		if (!moves)
			return false;
	}
	return true;
}

static void merge(const struct pfw_span *from, struct pfw_span *to, size_t middle, size_t count)
{
	size_t left = 0, right = middle;

	for (size_t i = 0; i < count; i++) {
		bool second = left == middle ||
			      (right < count && starts_later(&from[left], &from[right]));

		to[i] = second ? from[right++] : from[left++];
	}
}

/* Stable: of equal spans the first is the parent. */
static int merge_sort(struct pfw_span *spans, size_t count, size_t memory)
{
	struct pfw_spill_budget budget = { .bytes = memory };
	struct pfw_spill other = PFW_SPILL_EMPTY;
	struct pfw_span *from = spans, *to;
	int error = pfw_spill_reserve(&other, count * sizeof(*spans), &budget);

	if (error)
		return error;
	to = other.at;
	for (size_t width = 1; width < count; width *= 2) {
		struct pfw_span *swap = from;

		for (size_t at = 0; at < count; at += 2 * width) {
			size_t left = count - at;

			merge(from + at, to + at, left < width ? left : width,
			      left < 2 * width ? left : 2 * width);
		}
		from = to;
		to = swap;
	}
	if (from != spans)
		memcpy(spans, from, count * sizeof(*spans));
	pfw_spill_free(&other, &budget);
	return 0;
}

static int sort(struct thread *thread, size_t memory)
{
	struct pfw_span *spans = thread->spans.at;
	size_t count = thread->spans.bytes / sizeof(*spans);

	/* Ends in order: of two equal spans the later line is the outer one. */
	for (size_t i = 0; !thread->end_before && i < count / 2; i++) {
		struct pfw_span span = spans[i];

		spans[i] = spans[count - 1 - i];
		spans[count - 1 - i] = span;
	}
	return insertion_sort(spans, count) ? 0 : merge_sort(spans, count, memory);
}

/* ---- nesting ---- */

struct run {
	struct pfw_nesting *nesting;
	const struct pfw_nesting_user *user;
	size_t memory;	       /* of one worker's sort */
	_Atomic uint32_t next; /* process */
	_Atomic uint64_t too_deep;
	_Atomic int error;
};

struct worker {
	struct run *run;
	unsigned number;
	pthread_t thread;
};

static int nest_thread(struct run *run, struct pfw_tree *tree, struct thread *thread)
{
	size_t count = thread->spans.bytes / sizeof(struct pfw_span);
	bool mirrored = false;

	tree->process = thread->process;
	tree->hint = (struct pfw_launches_hint){ { 0 } };
	if (thread->unsorted) {
		mirrored = !thread->end_before && pfw_tree_mirrors(tree, thread->spans.at, count);
		if (!mirrored) {
			int error = sort(thread, run->memory);

			if (error)
				return error;
		}
	}
	return pfw_tree_walk(tree, thread->spans.at, count, mirrored);
}

/* Nest one process after the other: its work is found by who holds the process. */
static void *work(void *argument)
{
	struct worker *worker = argument;
	struct run *run = worker->run;
	struct pfw_nesting *nesting = run->nesting;
	struct pfw_tree tree = { .user = run->user,
				 .worker = worker->number,
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
	return NULL;
}

/* Which launchers there are, so that work finds the one that is. */
static int settle(struct pfw_nesting *nesting)
{
	pfw_launches_sort(&nesting->launches);
	for (uint32_t i = 0; nesting->launches.launch.bytes && i < nesting->threads; i++) {
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

int pfw_nesting_run(struct pfw_nesting *nesting, const struct pfw_nesting_user *user, unsigned jobs,
		    uint64_t *too_deep)
{
	struct run run = { .nesting = nesting,
			   .user = user,
			   .memory = nesting->budget.bytes / (jobs ? jobs : 1) };
	struct worker *workers = calloc(jobs, sizeof(*workers));
	unsigned started = 1;
	int error = workers ? settle(nesting) : -ENOMEM;

	if (error) {
		free(workers);
		return error;
	}
	for (unsigned i = 0; i < jobs; i++)
		workers[i] = (struct worker){ .run = &run, .number = i };
	while (started < jobs &&
	       pthread_create(&workers[started].thread, NULL, work, &workers[started]) == 0)
		started++;
	work(&workers[0]);
	for (unsigned i = 1; i < started; i++)
		pthread_join(workers[i].thread, NULL);
	free(workers);
	*too_deep = run.too_deep;
	return run.error;
}
