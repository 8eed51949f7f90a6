/* store/select/wanted.c - tests blocks and lines against a selection; see select.h. */
#include "common/base/order.h"
#include "store/select/select.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/globs.h"
#include "store/expr/expr.h"
#include "store/line/io.h"
#include "store/pass/fname_hashes.h"
#include "store/pass/steps.h"
#include "store/read/scan.h"

/* ---- a block ---- */

/* The answer of the file's index, if it has the block; NULL. */
static const struct pfw_select_may *may_of(const struct pfw_select *select, size_t file,
					   const struct pfw_block *block)
{
	const struct pfw_select_may *may = file < select->may_count ? &select->may[file] : NULL;

	return may && may->may && block >= may->block && block < may->block + may->count ? may
											 : NULL;
}

static bool index_may(const struct pfw_select *select, size_t file, const struct pfw_block *block)
{
	const struct pfw_select_may *may = may_of(select, file, block);

	return !may || may->may[block - may->block];
}

bool pfw_select_longest(const struct pfw_select *select, size_t file, const struct pfw_block *block,
			int64_t *longest_ns)
{
	const struct pfw_select_may *may = may_of(select, file, block);

	if (!may || !may->longest_ns)
		return false;
	*longest_ns = may->longest_ns[block - may->block];
	return true;
}

/* Whether the times in a block's summary allow a selected line. */
static bool times_may(const struct pfw_select *select, const struct pfw_select_window *window,
		      const struct pfw_block *block)
{
	bool none = block->least_ns > block->greatest_ns;
	int64_t longest;

	if (select->times &&
	    (none || block->least_ns >= window->until_ns || block->greatest_ns < window->since_ns))
		return false;
	if (!select->has_min_dur)
		return true;
	return !none && (__builtin_sub_overflow(block->greatest_ns, block->least_ns, &longest) ||
			 longest >= select->min_dur_ns);
}

bool pfw_select_ranks_block(const struct pfw_select *select, size_t file,
			    const struct pfw_block *block)
{
	const struct pfw_select_others *others = file < select->others_count ? &select->others[file]
									     : NULL;

	return select->window[file].wanted &&
	       !(others && others->count &&
		 bsearch(&block->at, others->at, others->count, sizeof(*others->at),
			 pfw_order_i64)); /* offsets in a file */
}

bool pfw_select_where_may(const struct pfw_select *select, const struct pfw_expr_facts *facts)
{
	for (size_t i = 0; i < select->where_count; i++) {
		if (!pfw_expr_may(select->where[i], facts))
			return false;
	}
	return true;
}

bool pfw_select_block(const struct pfw_select *select, size_t file, const struct pfw_block *block)
{
	const struct pfw_select_window *window = &select->window[file];
	struct pfw_expr_facts facts = { .rank = window->rank,
					.times = block->summed,
					.least_ns = block->least_ns,
					.greatest_ns = block->greatest_ns };

	return pfw_select_ranks_block(select, file, block) && index_may(select, file, block) &&
	       (!block->summed || times_may(select, window, block)) &&
	       pfw_select_where_may(select, &facts);
}

/* ---- a line ---- */

bool pfw_select_in_ranges(const struct pfw_select_ranges *ranges, uint64_t number)
{
	for (size_t i = 0; i < ranges->count; i++) {
		if (number >= ranges->range[i].first && number <= ranges->range[i].last)
			return true;
	}
	return !ranges->count;
}

struct pfw_select_state {
	size_t count;
	char *room; /* for unescaped texts */
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

static bool matches(const struct pfw_select_glob *glob, struct pfw_slice text)
{
	return glob->plain
		       ? glob->bytes == text.bytes && memcmp(glob->text, text.at, text.bytes) == 0
		       : pfw_glob_match(glob->text, glob->bytes, text.at, text.bytes);
}

bool pfw_select_globs_match(const struct pfw_select_globs *globs, struct pfw_slice text)
{
	bool asks = false, wanted = false;

	for (size_t i = 0; i < globs->count; i++) {
		const struct pfw_select_glob *glob = &globs->glob[i];

		if (glob->out && matches(glob, text))
			return false;
		asks |= !glob->out;
		wanted = wanted || (!glob->out && matches(glob, text));
	}
	return wanted || (globs->count && !asks);
}

static bool match_globs(const struct pfw_select_globs *globs, struct pfw_select_state *state,
			struct pfw_slice text)
{
	return !globs->count || pfw_select_globs_match(globs, pfw_scratch_plain(text, state->room));
}

/* Whether it overlaps [since, until); an instant does if it is at `since` or later. */
static bool in_window(const struct pfw_select_window *window, const struct pfw_entry *entry)
{
	int64_t end;

	if (!(entry->has & ~entry->wrong & PFW_ENTRY_TS) || entry->ts_ns >= window->until_ns)
		return false;
	if (entry->ts_ns >= window->since_ns)
		return true;
	return __builtin_add_overflow(entry->ts_ns, entry->dur_ns, &end) || end > window->since_ns;
}

static bool in_steps(const struct pfw_select *select, size_t file, const struct pfw_entry *entry)
{
	uint64_t step;

	return !select->step.count || (pfw_steps_find(select->steps, file, entry, &step) &&
				       pfw_select_in_ranges(&select->step, step));
}

static bool of_file(const struct pfw_select *select, struct pfw_select_state *state,
		    const struct pfw_entry *entry)
{
	struct pfw_slice target;
	struct pfw_value value;

	return !select->fname.count ||
	       (pfw_fname_hashes_find(select->fnames, entry, &value) &&
		value.type == PFW_VALUE_STRING && match_globs(&select->fname, state, value.text)) ||
	       (pfw_io_target(entry, &target) && match_globs(&select->fname, state, target));
}

/* --since, --until, --min-dur: lines without a time or duration never match. */
static bool times_wanted(const struct pfw_select *select, const struct pfw_select_window *window,
			 const struct pfw_entry *entry)
{
	if (select->times && !in_window(window, entry))
		return false;
	return !select->has_min_dur ||
	       (entry->has & ~entry->wrong & PFW_ENTRY_DUR && entry->dur_ns >= select->min_dur_ns);
}

bool pfw_select_entry(const struct pfw_select *select, struct pfw_select_state *state, size_t file,
		      const struct pfw_entry *entry)
{
	const struct pfw_select_window *window = &select->window[file];

	if (!window->wanted || (entry->ph == 'M' && !select->meta) ||
	    !times_wanted(select, window, entry))
		return false;
	if ((select->pid.count && !pfw_select_in_ranges(&select->pid, entry->pid)) ||
	    (select->tid.count && !pfw_select_in_ranges(&select->tid, entry->tid)))
		return false;
	if (!match_globs(&select->cat, state, entry->cat) ||
	    !match_globs(&select->name, state, entry->name))
		return false;
	/* These parse the args, which takes longer. */
	if (!in_steps(select, file, entry) || !of_file(select, state, entry))
		return false;
	for (size_t i = 0; i < select->where_count; i++) {
		if (!pfw_expr_test(state->where[i], entry, window->rank))
			return false;
	}
	return true;
}
