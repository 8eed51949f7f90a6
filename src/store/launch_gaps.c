/* launch_gaps.c - from the call that launches a kernel to its start; see launch_gaps.h. */
#include "launch_gaps.h"

#include <errno.h>
#include <stdlib.h>

#include "more.h"
#include "saturate.h"

#define CALLS_MIN 1024u
#define CALLS_MAX (1u << 17)
/* Calls and kernels are told in buffers of their own: blocks that a kernel may come before its call. */
#define EARLY_BLOCKS 8u
#define EARLY_MAX 65536u

int pfw_gap_ends_add(struct pfw_gap_ends *ends, const struct pfw_gap_end *end)
{
	struct pfw_gap_end *more = pfw_more(ends->at, ends->count, &ends->room, sizeof(*more));

	if (!more)
		return -ENOMEM;
	ends->at = more;
	more[ends->count++] = *end;
	return 0;
}

/* ---- calls ---- */

/* Correlations of a process count up, so that the last ones lie side by side. */
static struct pfw_gap_end *place(const struct pfw_launch_gaps *gaps, uint64_t pid,
				 uint64_t correlation)
{
	return &gaps->call[(correlation + pid * 0x9e3779b1u) & (gaps->calls - 1)];
}

static int grow(struct pfw_launch_gaps *gaps)
{
	struct pfw_launch_gaps bigger = { .calls = gaps->calls ? gaps->calls * 2 : CALLS_MIN };

	bigger.call = calloc(bigger.calls, sizeof(*bigger.call));
	if (!bigger.call)
		return -ENOMEM;
	for (size_t i = 0; i < gaps->calls; i++) {
		const struct pfw_gap_end *call = &gaps->call[i];

		if (call->correlation)
			*place(&bigger, call->pid, call->correlation) = *call;
	}
	free(gaps->call);
	gaps->call = bigger.call;
	gaps->calls = bigger.calls;
	return 0;
}

static int add_call(struct pfw_launch_gaps *gaps, const struct pfw_gap_end *call)
{
	struct pfw_gap_end *at;

	if (!gaps->calls && grow(gaps))
		return -ENOMEM;
	for (;;) {
		at = place(gaps, call->pid, call->correlation);
		if (at->correlation == call->correlation && at->pid == call->pid) {
			/* The driver's call lies in the runtime's: the earlier one launches. */
			if (call->ns < at->ns)
				at->ns = call->ns;
			return 0;
		}
		if (!at->correlation || gaps->calls == CALLS_MAX)
			break;
		if (grow(gaps))
			return -ENOMEM;
	}
	*at = *call;
	return 0;
}

/* ---- kernels ---- */

/* 1; 0 where its call is not known; -ENOMEM. */
static int match(struct pfw_launch_gaps *gaps, const struct pfw_gap_end *kernel,
		 struct pfw_intervals *queued)
{
	const struct pfw_gap_end *call;
	int64_t ns;

	if (!gaps->calls)
		return 0;
	call = place(gaps, kernel->pid, kernel->correlation);
	if (call->correlation != kernel->correlation || call->pid != kernel->pid)
		return 0;
	ns = kernel->ns > call->ns ? pfw_saturate_sub(kernel->ns, call->ns) : 0;
	gaps->count++;
	gaps->sum_ns = pfw_saturate_add(gaps->sum_ns, ns);
	if (ns > gaps->max_ns)
		gaps->max_ns = ns;
	if (pfw_sketch_add(&gaps->gap, ns) || pfw_intervals_add(queued, call->ns, kernel->ns))
		return -ENOMEM;
	return 1;
}

/* Keep a kernel for the next blocks. */
static int keep(struct pfw_launch_gaps *gaps, const struct pfw_gap_end *kernel)
{
	if (gaps->early.count == EARLY_MAX) {
		gaps->unmatched++;
		return 0;
	}
	if (pfw_gap_ends_add(&gaps->early, kernel))
		return -ENOMEM;
	if (gaps->tries_room < gaps->early.room) {
		uint64_t *bigger = realloc(gaps->tries, gaps->early.room * sizeof(*bigger));

		if (!bigger)
			return -ENOMEM;
		gaps->tries = bigger;
		gaps->tries_room = gaps->early.room;
	}
	gaps->tries[gaps->early.count - 1] = 0;
	return 0;
}

/* Look again for the calls of kernels that came before them. */
static int retry(struct pfw_launch_gaps *gaps, struct pfw_intervals *queued)
{
	struct pfw_gap_end *at = gaps->early.at;
	size_t kept = 0;

	for (size_t i = 0; i < gaps->early.count; i++) {
		int matched = match(gaps, &at[i], queued);

		if (matched < 0)
			return matched;
		if (matched)
			continue;
		if (gaps->tries[i] == EARLY_BLOCKS) {
			gaps->unmatched++;
			continue;
		}
		gaps->tries[kept] = gaps->tries[i] + 1;
		at[kept++] = at[i];
	}
	gaps->early.count = kept;
	return 0;
}

int pfw_launch_gaps_add(struct pfw_launch_gaps *gaps, const struct pfw_gap_ends *calls,
			const struct pfw_gap_ends *kernels, struct pfw_intervals *queued)
{
	int error = 0;

	for (size_t i = 0; i < calls->count && !error; i++)
		error = add_call(gaps, &calls->at[i]);
	error = error ? error : retry(gaps, queued);
	for (size_t i = 0; i < kernels->count && !error; i++) {
		int matched = match(gaps, &kernels->at[i], queued);

		error = matched < 0 ? matched : matched ? 0 : keep(gaps, &kernels->at[i]);
	}
	return error;
}

void pfw_launch_gaps_end(struct pfw_launch_gaps *gaps)
{
	gaps->unmatched += gaps->early.count;
	gaps->early.count = 0;
}

void pfw_launch_gaps_release(struct pfw_launch_gaps *gaps)
{
	pfw_sketch_release(&gaps->gap);
	free(gaps->call);
	free(gaps->early.at);
	free(gaps->tries);
	*gaps = (struct pfw_launch_gaps){ 0 };
}
