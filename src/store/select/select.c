/* store/select/select.c - resolves a selection against traces; see select.h. */
#include "store/select/select.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/expr/expr.h"
#include "store/pass/fname_hashes.h"
#include "store/pass/steps.h"

static void release_globs(struct pfw_select_globs *globs)
{
	for (size_t i = 0; i < globs->count; i++)
		free(globs->glob[i].text);
	free(globs->glob);
}

void pfw_select_release(struct pfw_select *select)
{
	release_globs(&select->cat);
	release_globs(&select->name);
	release_globs(&select->fname);
	free(select->rank.range);
	free(select->pid.range);
	free(select->tid.range);
	free(select->step.range);
	for (size_t i = 0; i < select->where_count; i++)
		pfw_expr_free(select->where[i]);
	free(select->where);
	free(select->window);
	pfw_fname_hashes_free(select->fnames);
	pfw_steps_free(select->steps);
	for (size_t i = 0; i < select->may_count; i++)
		pfw_select_free_may(&select->may[i]);
	free(select->may);
	pfw_select_free_others(select);
	*select = (struct pfw_select){ 0 };
}

/* ---- the traces ---- */

static bool relative(const struct pfw_time *time)
{
	return time->kind > PFW_TIME_EPOCH;
}

/* Resolve one limit for one file. */
static int set_limit(const struct pfw_time *time, const struct pfw_extent *extent, int64_t rank,
		     int64_t *ns, char *why, size_t size)
{
	int64_t has;
	int error;

	if (time->kind == PFW_TIME_NONE)
		return 0;
	error = pfw_time_resolve(time, extent, rank, ns, &has);
	if (error == -ERANGE)
		snprintf(why, size, "no line of these traces has a time");
	else if (error == -ENOENT && has < 0)
		snprintf(why, size, "step:%" PRId64 ": these traces have no steps", time->value);
	else if (error == -ENOENT)
		snprintf(why, size, "step:%" PRId64 ": the last step%s is %" PRId64, time->value,
			 rank >= 0 ? " of its rank" : "", has);
	return error;
}

bool pfw_select_rank(const struct pfw_select *select, int64_t rank)
{
	return !select->rank.count ||
	       (rank >= 0 && pfw_select_in_ranges(&select->rank, (uint64_t)rank));
}

/* Find the files, and in a file of several ranks the blocks, of the selected ranks. */
static int find_ranks(struct pfw_select *select, const struct pfw_traces *traces)
{
	free(select->window);
	select->files = traces->count;
	select->window = calloc(traces->count + 1, sizeof(*select->window));
	if (!select->window)
		return -ENOMEM;
	for (size_t i = 0; i < traces->count; i++) {
		int64_t rank = traces->file[i].head.rank;

		select->window[i] =
			(struct pfw_select_window){ .since_ns = INT64_MIN,
						    .until_ns = INT64_MAX,
						    .rank = rank,
						    .wanted = pfw_select_rank(select, rank) };
	}
	return pfw_select_find_others(select, traces);
}

/* Add "FIRST", "FIRST-LAST" or nothing, if there is no room for it and for what says so. */
static void add_range(char *text, size_t size, uint64_t first, uint64_t last)
{
	static const char cut[] = ", ...";
	size_t used = strlen(text);
	char range[64];
	int bytes = snprintf(range, sizeof(range),
			     first == last ? "%s%" PRIu64 : "%s%" PRIu64 "-%" PRIu64,
			     used ? ", " : "", first, last);

	if (used + (size_t)bytes + sizeof(cut) <= size)
		memcpy(text + used, range, (size_t)bytes + 1);
	else if (used >= sizeof(cut) && strcmp(text + used - (sizeof(cut) - 1), cut) != 0)
		memcpy(text + used, cut, sizeof(cut));
}

int pfw_select_check_ranks(const struct pfw_select *select, const struct pfw_traces *traces,
			   char *why, size_t size)
{
	char asked[64] = "", here[128] = "";
	size_t end;

	for (size_t i = 0; i < traces->count; i++) {
		if (pfw_select_rank(select, traces->file[i].head.rank))
			return 0;
	}
	for (size_t i = 0; i < select->rank.count; i++)
		add_range(asked, sizeof(asked), select->rank.range[i].first,
			  select->rank.range[i].last);
	/* The traces are in order of rank, those without one first. */
	for (size_t i = 0; i < traces->count; i = end) {
		int64_t first = traces->file[i].head.rank, last = first;

		for (end = i + 1; end < traces->count; end++) {
			if (first < 0 || traces->file[end].head.rank > last + 1)
				break;
			last = traces->file[end].head.rank;
		}
		if (first >= 0)
			add_range(here, sizeof(here), (uint64_t)first, (uint64_t)last);
	}
	snprintf(why, size, "--rank %s: these traces are of %s%s", asked,
		 *here ? "rank " : "no rank", here);
	return -ENOENT;
}

static bool of_wanted_rank(const void *select, size_t file, const struct pfw_block *block)
{
	return pfw_select_ranks_block(select, file, block);
}

static int set_windows(struct pfw_select *select, const struct pfw_traces *traces,
		       const struct pfw_extent *extent, char *why, size_t size)
{
	for (size_t i = 0; i < traces->count; i++) {
		struct pfw_select_window *window = &select->window[i];
		int error;

		if (!window->wanted)
			continue;
		error = set_limit(&select->since, extent, window->rank, &window->since_ns, why,
				  size);
		if (!error)
			error = set_limit(&select->until, extent, window->rank, &window->until_ns,
					  why, size);
		if (!error && window->until_ns < window->since_ns) {
			snprintf(why, size, "--until is a time before --since");
			error = -EINVAL;
		}
		if (error)
			return error;
	}
	return 0;
}

int pfw_select_resolve(struct pfw_select *select, const struct pfw_traces *traces,
		       const struct pfw_extent_options *options, char *why, size_t size)
{
	struct pfw_extent_options wanted = *options;
	struct pfw_extent extent = { .least_ns = INT64_MAX, .greatest_ns = INT64_MIN };
	int error = find_ranks(select, traces);

	if (!error && !select->absent_ranks && pfw_select_check_ranks(select, traces, why, size))
		return -ENOENT;
	wanted.select = select;
	wanted.want = of_wanted_rank;
	select->times = select->since.kind != PFW_TIME_NONE || select->until.kind != PFW_TIME_NONE;
	wanted.steps = select->since.kind == PFW_TIME_STEP || select->until.kind == PFW_TIME_STEP;
	if (!error && (relative(&select->since) || relative(&select->until)))
		error = pfw_extent_find(&extent, traces, &wanted);
	if (!error && select->ask_fnames)
		error = pfw_fname_hashes_read(&select->fnames, traces, options);
	if (!error && select->ask_steps)
		error = pfw_steps_read(&select->steps, traces, &wanted);
	if (error) {
		snprintf(why, size, "%s",
			 error == -ESPIPE ? "standard input or a pipe can be read only once: give "
					    "--since and --until in µs since the epoch"
					  : strerror(-error));
		pfw_extent_free(&extent);
		return error;
	}
	error = set_windows(select, traces, &extent, why, size);
	pfw_extent_free(&extent);
	return error;
}

int pfw_select_add_file(struct pfw_select *select, int64_t rank, size_t *number)
{
	struct pfw_select_window *more =
		realloc(select->window, (select->files + 1) * sizeof(*more));
	size_t like = 0;

	if (!more)
		return -ENOMEM;
	select->window = more;
	while (like < select->files && more[like].rank != rank)
		like++;
	more[select->files] = more[like < select->files ? like : 0];
	more[select->files].rank = rank;
	more[select->files].wanted = pfw_select_rank(select, rank);
	*number = select->files++;
	return 0;
}

bool pfw_select_file(const struct pfw_select *select, size_t file)
{
	return select->window[file].wanted;
}
