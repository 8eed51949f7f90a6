/* store/pass/times.c - times on the command line, and the time range of traces; see times.h. */
#include "store/pass/times.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "common/base/units.h"
#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/line/step_name.h"
#include "store/pass/pass.h"

/* ---- one time ---- */

static const char wanted[] = "want +12s or -5s (" PFW_UNITS_OF_TIME
			     "), 50%, step:100, or µs since the "
			     "epoch, exact to the nanosecond";

static int parse_percent(struct pfw_time *time, const char *text, size_t bytes)
{
	int64_t value;
	bool unit;

	/* More than 100 000 thousandths of a percent is after the end. */
	if (!bytes || pfw_units_read(text, bytes, PFW_UNITS_TIME, &value, &unit) != bytes || unit ||
	    value > 100000)
		return -EINVAL;
	*time = (struct pfw_time){ PFW_TIME_PERCENT, value };
	return 0;
}

static int parse_step(struct pfw_time *time, const char *text)
{
	size_t digits = strspn(text, "0123456789");

	if (!digits || digits > 18 || text[digits])
		return -EINVAL;
	*time = (struct pfw_time){ PFW_TIME_STEP, strtoll(text, NULL, 10) };
	return 0;
}

int pfw_time_parse(struct pfw_time *time, const char *text, const char **why)
{
	size_t bytes = strlen(text);
	enum pfw_time_kind kind = *text == '+'	 ? PFW_TIME_BEGIN
				  : *text == '-' ? PFW_TIME_END
						 : PFW_TIME_EPOCH;
	size_t sign = kind != PFW_TIME_EPOCH;
	int64_t ns;
	bool unit;

	*why = wanted;
	if (strncmp(text, "step:", 5) == 0)
		return parse_step(time, text + 5);
	if (bytes && text[bytes - 1] == '%')
		return parse_percent(time, text, bytes - 1);
	if (bytes == sign ||
	    pfw_units_read(text + sign, bytes - sign, PFW_UNITS_TIME, &ns, &unit) != bytes - sign)
		return -EINVAL;
	if (sign && !unit) {
		*why = "want a unit: +12s, -500ms (" PFW_UNITS_OF_TIME ")";
		return -EINVAL;
	}
	if (!sign && unit) {
		*why = "want a sign: +12s after the begin, -12s before the end";
		return -EINVAL;
	}
	*time = (struct pfw_time){ kind, ns };
	return 0;
}

/* ---- the time range of traces ---- */

/* The result of one thread. */
struct found {
	struct pfw_extent extent;
	size_t room;
};

struct search {
	const struct pfw_traces *traces;
	bool steps;
	struct found *found; /* of each worker */
};

static void widen(struct pfw_extent *extent, int64_t low, int64_t high)
{
	extent->least_ns = low < extent->least_ns ? low : extent->least_ns;
	extent->greatest_ns = high > extent->greatest_ns ? high : extent->greatest_ns;
}

static int add_step(struct found *found, const struct pfw_step_span *step)
{
	/* Each step has a line; no real training has so many. */
	if (found->extent.step_count == 1u << 24)
		return -ENOMEM;
	return PFW_PUSH(found->extent.step, found->extent.step_count, found->room, *step);
}

static int look(void *user, unsigned worker, struct pfw_pass_block *block)
{
	const struct search *search = user;
	struct found *found = &search->found[worker];
	struct pfw_step_span step = { .rank = search->traces->file[block->file].head.rank };
	struct pfw_pass_lines lines;
	uint64_t number;
	int error = 0;

	pfw_pass_lines_init(&lines, block);
	while (!error && pfw_pass_lines_next(&lines)) {
		const struct pfw_entry *entry = &lines.entry;

		if (!(entry->has & ~entry->wrong & PFW_ENTRY_TS))
			continue;
		step.begin_ns = entry->ts_ns;
		if (__builtin_add_overflow(entry->ts_ns, entry->dur_ns > 0 ? entry->dur_ns : 0,
					   &step.end_ns))
			step.end_ns = INT64_MAX;
		widen(&found->extent, step.begin_ns, step.end_ns);
		if (search->steps && pfw_is_step(entry, &number)) {
			step.step = (int64_t)number; /* of 18 digits at most */
			error = add_step(found, &step);
		}
	}
	return error;
}

static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct search *search = user;

	(void)file;
	return search->steps || !block->summed;
}

/* Add up the summaries; *missing: some block has none.  -ESPIPE: a file without summaries can be
 * read only once. */
static int sum_up(struct pfw_extent *extent, const struct pfw_traces *traces, bool *missing)
{
	for (size_t f = 0; f < traces->count; f++) {
		const struct pfw_trace_file *file = &traces->file[f];
		/* A stream has blocks only from an index. */
		bool unknown = file->blocks.layout == PFW_LAYOUT_STREAM && !file->blocks.count;

		for (size_t i = 0; i < file->blocks.count; i++) {
			const struct pfw_block *block = &file->blocks.block[i];

			unknown |= !block->summed;
			if (block->summed && block->least_ns <= block->greatest_ns)
				widen(extent, block->least_ns, block->greatest_ns);
		}
		if (unknown && file->once)
			return -ESPIPE;
		*missing |= unknown;
	}
	return 0;
}

static int by_rank_and_step(const void *left, const void *right)
{
	const struct pfw_step_span *a = left, *b = right;

	return PFW_ORDER(a->rank, b->rank) ?: PFW_ORDER(a->step, b->step) ?:
	       PFW_ORDER(a->begin_ns, b->begin_ns);
}

/* Look at lines that are in no file. */
static int look_at_text(void *user, size_t file, const char *text, size_t bytes)
{
	struct pfw_problems problems = { 0 };
	struct pfw_pass_block block = {
		.file = file, .text = text, .bytes = bytes, .problems = &problems
	};
	int error = look(user, 0, &block);

	pfw_problems_free(&problems);
	return error;
}

/* Merge the results of the threads. */
static int join(struct pfw_extent *extent, struct found *found, unsigned jobs)
{
	struct found all = { .extent = *extent };
	int error = 0;

	for (unsigned i = 0; i < jobs; i++) {
		const struct pfw_extent *one = &found[i].extent;

		widen(&all.extent, one->least_ns, one->greatest_ns);
		for (size_t j = 0; j < one->step_count && !error; j++)
			error = add_step(&all, &one->step[j]);
	}
	*extent = all.extent;
	if (extent->step_count)
		qsort(extent->step, extent->step_count, sizeof(*extent->step), by_rank_and_step);
	return error;
}

static int read_on(struct pfw_extent *extent, const struct pfw_traces *traces,
		   const struct pfw_extent_options *options)
{
	struct search search = { .traces = traces, .steps = options->steps };
	struct pfw_pass pass = {
		.traces = traces,
		.jobs = pfw_pass_jobs(options->jobs),
		.user = &search,
		.want = want,
		.work = look,
		.stop = options->stop,
	};
	int error;

	search.found = calloc(pass.jobs, sizeof(*search.found));
	if (!search.found)
		return -ENOMEM;
	for (unsigned i = 0; i < pass.jobs; i++)
		search.found[i].extent = *extent;
	error = pfw_pass_run(&pass);
	if (error == -EIO) /* a damaged file has times, too */
		error = 0;
	if (!error && options->more)
		error = options->more(options->user, look_at_text, &search);
	if (!error)
		error = join(extent, search.found, pass.jobs);
	for (unsigned i = 0; i < pass.jobs; i++)
		pfw_extent_free(&search.found[i].extent);
	free(search.found);
	return error;
}

int pfw_extent_find(struct pfw_extent *extent, const struct pfw_traces *traces,
		    const struct pfw_extent_options *options)
{
	bool missing = false;
	int error;

	*extent = (struct pfw_extent){ .least_ns = INT64_MAX, .greatest_ns = INT64_MIN };
	error = sum_up(extent, traces, &missing);
	if (!error && (missing || options->steps || options->more))
		error = read_on(extent, traces, options);
	if (error)
		pfw_extent_free(extent);
	return error;
}

void pfw_extent_free(struct pfw_extent *extent)
{
	free(extent->step);
	extent->step = NULL;
	extent->step_count = 0;
}

/* ---- a time in a range ---- */

/* The first step that is not before that step of that rank. */
static size_t first_step(const struct pfw_extent *extent, int64_t rank, int64_t step)
{
	const struct pfw_step_span *span = extent->step;

	return PFW_BISECT(at, extent->step_count,
			  span[at].rank < rank || (span[at].rank == rank && span[at].step < step));
}

/* The begin of a step of one rank; for the step after the last one, the end of the last. */
static bool step_of_rank(const struct pfw_extent *extent, int64_t rank, int64_t step, int64_t *ns,
			 int64_t *has)
{
	size_t i = first_step(extent, rank, step);
	const struct pfw_step_span *last = i ? &extent->step[i - 1] : NULL;

	if (i < extent->step_count && extent->step[i].rank == rank) {
		*ns = extent->step[i].begin_ns;
		return true;
	}
	if (!last || last->rank != rank)
		return false;
	PFW_RAISE(*has, last->step);
	*ns = last->end_ns;
	return step == last->step + 1;
}

static int resolve_step(const struct pfw_extent *extent, int64_t rank, int64_t step, int64_t *ns,
			int64_t *has)
{
	int64_t one, least = INT64_MAX;
	bool found = false;

	*has = -1;
	if (step_of_rank(extent, rank, step, ns, has))
		return 0;
	if (*has >= 0) /* this rank has steps of its own */
		return -ENOENT;
	for (size_t i = 0; i < extent->step_count;) {
		int64_t other = extent->step[i].rank;

		if (step_of_rank(extent, other, step, &one, has)) {
			least = one < least ? one : least;
			found = true;
		}
		i = first_step(extent, other + 1, INT64_MIN);
	}
	*ns = least;
	return found ? 0 : -ENOENT;
}

int pfw_time_resolve(const struct pfw_time *time, const struct pfw_extent *extent, int64_t rank,
		     int64_t *ns, int64_t *has)
{
	__int128 length = (__int128)extent->greatest_ns - extent->least_ns;

	if (time->kind == PFW_TIME_EPOCH) {
		*ns = time->value;
		return 0;
	}
	if (extent->least_ns > extent->greatest_ns)
		return -ERANGE;
	if (time->kind == PFW_TIME_STEP)
		return resolve_step(extent, rank, time->value, ns, has);
	/* 100% is after all events, also those without a duration */
	if (time->kind == PFW_TIME_PERCENT)
		*ns = pfw_saturate_i128(extent->least_ns + length * time->value / 100000 +
					(time->value == 100000));
	else if (time->kind == PFW_TIME_BEGIN)
		*ns = pfw_saturate_i128((__int128)extent->least_ns + time->value);
	else
		*ns = pfw_saturate_i128((__int128)extent->greatest_ns - time->value);
	return 0;
}
