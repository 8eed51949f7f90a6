/* select.c - which lines of which traces are wanted; see select.h. */
#include "select.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expr.h"
#include "fnames.h"
#include "globs.h"
#include "scratch.h"

/* ---- options ---- */

static int add_glob(struct pfw_select_globs *globs, const char *value)
{
	struct pfw_select_glob *more = realloc(globs->glob, (globs->count + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	globs->glob = more;
	more[globs->count] = (struct pfw_select_glob){ .text = strdup(value),
						       .bytes = strlen(value),
						       .plain = !strpbrk(value, "*?[\\") };
	return more[globs->count].text ? (int)(globs->count++, 0) : -ENOMEM;
}

static int add_range(struct pfw_select_ranges *ranges, uint64_t first, uint64_t last)
{
	struct pfw_select_range *more = realloc(ranges->range, (ranges->count + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	ranges->range = more;
	more[ranges->count++] = (struct pfw_select_range){ first, last };
	return 0;
}

/* A whole number of at most 18 digits at *at, which moves behind it. */
static bool take_number(const char **at, uint64_t *number)
{
	size_t digits = strspn(*at, "0123456789");

	if (!digits || digits > 18)
		return false;
	*number = strtoull(*at, NULL, 10);
	*at += digits;
	return true;
}

static int add_ranges(struct pfw_select_ranges *ranges, const char *value, char *why, size_t size)
{
	const char *at = value;

	for (;;) {
		uint64_t first, last;
		int error;

		if (!take_number(&at, &first))
			break;
		last = first;
		if (*at == '-' && (at++, !take_number(&at, &last)))
			break;
		if (last < first)
			break;
		error = add_range(ranges, first, last);
		if (error || *at == '\0')
			return error;
		if (*at++ != ',')
			break;
	}
	snprintf(why, size, "want numbers and ranges: 0,8-15");
	return -EINVAL;
}

static int set_time(struct pfw_time *time, const char *value, char *why, size_t size)
{
	const char *text = "";
	int error = pfw_time_parse(time, value, &text);

	if (error)
		snprintf(why, size, "%s", text);
	return error;
}

static int set_min_dur(struct pfw_select *select, const char *value, char *why, size_t size)
{
	bool unit;

	select->has_min_dur = true;
	if (pfw_times_number(value, strlen(value), false, &select->min_dur_ns, &unit) ==
		    strlen(value) &&
	    *value)
		return 0;
	snprintf(why, size, "want 20us, 5ms, 1.5s, or a number of µs");
	return -EINVAL;
}

static int add_where(struct pfw_select *select, const char *value, char *why, size_t size)
{
	struct pfw_expr **more =
		realloc(select->where, (select->where_count + 1) * sizeof(struct pfw_expr *));
	int error;

	if (!more)
		return -ENOMEM;
	select->where = more;
	error = pfw_expr_compile(&more[select->where_count], value, why, size);
	if (error)
		return error;
	select->meta |= pfw_expr_wants_meta(more[select->where_count]);
	select->ask_fnames |= pfw_expr_asks_fname(more[select->where_count++]);
	return 0;
}

static int add(struct pfw_select *select, enum pfw_select_option option, const char *value,
	       char *why, size_t size)
{
	switch (option) {
	case PFW_SELECT_SINCE:
		return set_time(&select->since, value, why, size);
	case PFW_SELECT_UNTIL:
		return set_time(&select->until, value, why, size);
	case PFW_SELECT_CAT:
		select->meta |= pfw_glob_match(value, strlen(value), "pfw", 3);
		return add_glob(&select->cat, value);
	case PFW_SELECT_NAME:
		return add_glob(&select->name, value);
	case PFW_SELECT_FNAME:
		select->ask_fnames = true;
		return add_glob(&select->fname, value);
	case PFW_SELECT_RANK:
		return add_ranges(&select->rank, value, why, size);
	case PFW_SELECT_PID:
		return add_ranges(&select->pid, value, why, size);
	case PFW_SELECT_TID:
		return add_ranges(&select->tid, value, why, size);
	case PFW_SELECT_STEP:
		return add_ranges(&select->step, value, why, size);
	case PFW_SELECT_MIN_DUR:
		return set_min_dur(select, value, why, size);
	default:
		return add_where(select, value, why, size);
	}
}

int pfw_select_add(struct pfw_select *select, enum pfw_select_option option, const char *value,
		   char *why, size_t size)
{
	int error = add(select, option, value, why, size);

	if (error == -ENOMEM)
		snprintf(why, size, "%s", strerror(ENOMEM));
	return error;
}

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
	pfw_fnames_free(select->fnames);
	for (size_t i = 0; i < select->may_count; i++)
		free(select->may[i].may);
	free(select->may);
	*select = (struct pfw_select){ 0 };
}

/* ---- the traces ---- */

bool pfw_select_in_ranges(const struct pfw_select_ranges *ranges, uint64_t number)
{
	for (size_t i = 0; i < ranges->count; i++) {
		if (number >= ranges->range[i].first && number <= ranges->range[i].last)
			return true;
	}
	return false;
}

static bool relative(const struct pfw_time *time)
{
	return time->kind > PFW_TIME_EPOCH;
}

/* One limit of one file. */
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

static bool rank_wanted(const struct pfw_select *select, int64_t rank)
{
	return !select->rank.count ||
	       (rank >= 0 && pfw_select_in_ranges(&select->rank, (uint64_t)rank));
}

static int set_windows(struct pfw_select *select, const struct pfw_traces *traces,
		       const struct pfw_extent *extent, char *why, size_t size)
{
	for (size_t i = 0; i < traces->count; i++) {
		struct pfw_select_window *window = &select->window[i];
		int64_t rank = traces->file[i].head.rank;
		int error;

		*window = (struct pfw_select_window){ .since_ns = INT64_MIN,
						      .until_ns = INT64_MAX,
						      .rank = rank };
		window->wanted = rank_wanted(select, rank);
		if (!window->wanted)
			continue;
		error = set_limit(&select->since, extent, rank, &window->since_ns, why, size);
		if (!error)
			error = set_limit(&select->until, extent, rank, &window->until_ns, why,
					  size);
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
	int error = 0;

	free(select->window);
	select->files = traces->count;
	select->window = calloc(traces->count + 1, sizeof(*select->window));
	select->times = select->since.kind != PFW_TIME_NONE || select->until.kind != PFW_TIME_NONE;
	wanted.steps = select->since.kind == PFW_TIME_STEP || select->until.kind == PFW_TIME_STEP;
	if (!select->window)
		error = -ENOMEM;
	else if (relative(&select->since) || relative(&select->until))
		error = pfw_extent_find(&extent, traces, &wanted);
	if (!error && select->ask_fnames)
		error = pfw_fnames_read(&select->fnames, traces, options);
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
	more[select->files].wanted = rank_wanted(select, rank);
	*number = select->files++;
	return 0;
}

bool pfw_select_file(const struct pfw_select *select, size_t file)
{
	return select->window[file].wanted;
}

/* ---- a block ---- */

/* What the file's index says. */
static bool index_may(const struct pfw_select *select, size_t file, const struct pfw_block *block)
{
	const struct pfw_select_may *may = file < select->may_count ? &select->may[file] : NULL;

	return !may || !may->may || block < may->block || block >= may->block + may->count ||
	       may->may[block - may->block];
}

bool pfw_select_block(const struct pfw_select *select, size_t file, const struct pfw_block *block)
{
	const struct pfw_select_window *window = &select->window[file];
	struct pfw_expr_facts facts = { .rank = window->rank,
					.times = block->summed,
					.least_ns = block->least_ns,
					.greatest_ns = block->greatest_ns };
	int64_t longest;

	if (!window->wanted || !index_may(select, file, block))
		return false;
	if (block->summed) {
		bool none = block->least_ns > block->greatest_ns;

		if (select->times && (none || block->least_ns >= window->until_ns ||
				      block->greatest_ns < window->since_ns))
			return false;
		if (select->has_min_dur &&
		    (none ||
		     (!__builtin_sub_overflow(block->greatest_ns, block->least_ns, &longest) &&
		      longest < select->min_dur_ns)))
			return false;
	}
	for (size_t i = 0; i < select->where_count; i++) {
		if (!pfw_expr_may(select->where[i], &facts))
			return false;
	}
	return true;
}

/* ---- a line ---- */

struct pfw_select_state {
	size_t count;
	char *room; /* for texts without their escapes */
	bool has_step;
	uint64_t step; /* of entries that do not say theirs */
	struct pfw_expr_state *where[];
};

struct pfw_select_state *pfw_select_state_create(const struct pfw_select *select)
{
	struct pfw_select_state *state =
		calloc(1, sizeof(*state) + select->where_count * sizeof(state->where[0]));

	if (!state)
		return NULL;
	state->room = pfw_scratch_new();
	for (; state->count < select->where_count; state->count++) {
		state->where[state->count] =
			pfw_expr_state_create(select->where[state->count], select->fnames);
		if (!state->where[state->count])
			break;
	}
	if (state->room && state->count == select->where_count)
		return state;
	pfw_select_state_free(state);
	return NULL;
}

void pfw_select_state_free(struct pfw_select_state *state)
{
	if (!state)
		return;
	for (size_t i = 0; i < state->count; i++)
		pfw_expr_state_free(state->where[i]);
	pfw_scratch_free(state->room);
	free(state);
}

bool pfw_select_globs_match(const struct pfw_select_globs *globs, struct pfw_slice text)
{
	for (size_t i = 0; i < globs->count; i++) {
		const struct pfw_select_glob *glob = &globs->glob[i];

		if (glob->plain ? glob->bytes == text.bytes &&
					  memcmp(glob->text, text.at, text.bytes) == 0
				: pfw_glob_match(glob->text, glob->bytes, text.at, text.bytes))
			return true;
	}
	return false;
}

static bool match_globs(const struct pfw_select_globs *globs, struct pfw_select_state *state,
			struct pfw_slice text)
{
	return pfw_select_globs_match(globs, pfw_scratch_plain(text, state->room));
}

/* Whether it overlaps [since, until); what takes no time does from since on. */
static bool in_window(const struct pfw_select_window *window, const struct pfw_entry *entry)
{
	int64_t end;

	if (!(entry->has & ~entry->wrong & PFW_ENTRY_TS) || entry->ts_ns >= window->until_ns)
		return false;
	if (entry->ts_ns >= window->since_ns)
		return true;
	return __builtin_add_overflow(entry->ts_ns, entry->dur_ns, &end) || end > window->since_ns;
}

static bool in_steps(const struct pfw_select *select, const struct pfw_select_state *state,
		     const struct pfw_entry *entry)
{
	struct pfw_value value;
	uint64_t step = state->step;

	if (pfw_entry_arg(entry, "step", &value)) {
		if (!pfw_value_u64(&value, &step))
			return false;
	} else if (!state->has_step) {
		return false;
	}
	return pfw_select_in_ranges(&select->step, step);
}

void pfw_select_state_step(struct pfw_select_state *state, const uint64_t *step)
{
	state->has_step = step;
	state->step = step ? *step : 0;
}

static bool of_file(const struct pfw_select *select, struct pfw_select_state *state,
		    const struct pfw_entry *entry)
{
	struct pfw_value value;

	return pfw_fnames_find(select->fnames, entry, &value) && value.type == PFW_VALUE_STRING &&
	       match_globs(&select->fname, state, value.text);
}

bool pfw_select_entry(const struct pfw_select *select, struct pfw_select_state *state, size_t file,
		      const struct pfw_entry *entry)
{
	const struct pfw_select_window *window = &select->window[file];

	if (!window->wanted || (select->times && !in_window(window, entry)) ||
	    (entry->ph == 'M' && !select->meta))
		return false;
	if (select->has_min_dur &&
	    (!(entry->has & ~entry->wrong & PFW_ENTRY_DUR) || entry->dur_ns < select->min_dur_ns))
		return false;
	if ((select->pid.count && !pfw_select_in_ranges(&select->pid, entry->pid)) ||
	    (select->tid.count && !pfw_select_in_ranges(&select->tid, entry->tid)) ||
	    (select->cat.count && !match_globs(&select->cat, state, entry->cat)) ||
	    (select->name.count && !match_globs(&select->name, state, entry->name)) ||
	    (select->step.count && !in_steps(select, state, entry)) ||
	    (select->fname.count && !of_file(select, state, entry)))
		return false;
	for (size_t i = 0; i < select->where_count; i++) {
		if (!pfw_expr_test(state->where[i], entry, window->rank))
			return false;
	}
	return true;
}
