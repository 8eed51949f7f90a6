/* store/select/by_index.c - asks the indexes of traces which blocks may match; see select.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/expr/expr.h"
#include "store/index/index.h"
#include "store/select/select.h"
#include "store/traces/ranks.h"

/* User data of the filter's callbacks. */
struct asking {
	const struct pfw_select *select;
	int64_t rank;
	bool ours;		       /* if not, its files may be known by their hashes only */
	char ph;		       /* lines with another one are not wanted; 0: all are */
	const struct pfw_ranks *ranks; /* for pid_may() */
};

static bool name_may(void *user, const char *cat, size_t cat_bytes, const char *name,
		     size_t name_bytes, char ph)
{
	const struct asking *asking = user;
	const struct pfw_select *select = asking->select;
	struct pfw_expr_facts facts = { .rank = asking->rank,
					.cat = { .at = cat, .bytes = cat_bytes },
					.name = { .at = name, .bytes = name_bytes },
					.ph = ph };

	if ((ph == 'M' && !select->meta) || (asking->ph && ph != asking->ph))
		return false;
	/* Short calls that were only summed: commands that add up calls take them as calls. */
	if (ph == 's')
		facts.ph = 'X';
	if ((select->cat.count && !pfw_select_globs_match(&select->cat, facts.cat)) ||
	    (select->name.count && !pfw_select_globs_match(&select->name, facts.name)))
		return false;
	return pfw_select_where_may(select, &facts);
}

static bool file_may(void *user, const char *name, size_t bytes)
{
	const struct asking *asking = user;
	const struct pfw_select *select = asking->select;
	struct pfw_expr_facts facts = { .rank = asking->rank,
					.fname = { .at = name, .bytes = bytes } };

	return (!select->fname.count || pfw_select_globs_match(&select->fname, facts.fname)) &&
	       pfw_select_where_may(select, &facts);
}

static bool thread_may(void *user, uint64_t pid, uint64_t tid)
{
	const struct asking *asking = user;
	const struct pfw_select *select = asking->select;
	struct pfw_expr_facts facts = {
		.rank = asking->rank, .thread = true, .pid = pid, .tid = tid
	};

	return pfw_select_in_ranges(&select->pid, pid) && pfw_select_in_ranges(&select->tid, tid) &&
	       pfw_select_where_may(select, &facts);
}

static struct pfw_index_filter filter_of(struct asking *asking)
{
	const struct pfw_select *select = asking->select;
	struct pfw_expr_facts no_file = { .rank = asking->rank, .no_fname = true };
	struct pfw_index_filter filter = { .user = asking, .name = name_may };

	if (select->has_min_dur)
		filter.least_dur_ns = select->min_dur_ns;
	for (size_t i = 0; i < select->where_count; i++) {
		int64_t least = pfw_expr_least_dur(select->where[i]);

		if (least > filter.least_dur_ns)
			filter.least_dur_ns = least;
	}
	/* Lines without a file or a thread are not in these tables. */
	if (asking->ours && (select->fname.count || !pfw_select_where_may(select, &no_file)))
		filter.file = file_may;
	if (select->pid.count || select->tid.count || select->where_count)
		filter.thread = thread_may;
	return filter;
}

/* Whether an index can exclude more than the members' headers can. */
static bool is_of_use(const struct pfw_select *select, const struct pfw_trace_file *file)
{
	if (file->once)
		return false;
	if (select->cat.count || select->name.count || select->fname.count || select->pid.count ||
	    select->tid.count || select->where_count || select->has_min_dur ||
	    select->ask_longest || select->ph)
		return true;
	for (size_t i = 0; i < file->blocks.count; i++) {
		if (!file->blocks.block[i].summed)
			return true;
	}
	return file->blocks.layout == PFW_LAYOUT_STREAM;
}

void pfw_select_free_may(struct pfw_select_may *may)
{
	if (!may->shared) {
		free(may->may);
		free(may->longest_ns);
	}
	*may = (struct pfw_select_may){ .block = NULL };
}

static int use_index(struct pfw_select *select, struct pfw_trace_file *file,
		     struct pfw_select_may *may, char *why, size_t size)
{
	struct asking asking = { .select = select,
				 .rank = file->ranks ? PFW_EXPR_ANY_RANK : file->head.rank,
				 .ours = file->head.ours };
	struct pfw_index_filter filter = filter_of(&asking);
	struct pfw_index *index = NULL;
	int error = pfw_index_open(&index, file->path, why, size);

	if (error)
		return error;
	/* The code that reads the trace reports its damage. */
	asking.ph = pfw_index_meta(index)->problems ? 0 : select->ph;
	error = pfw_index_blocks(index, &file->blocks);
	if (!error) {
		may->block = file->blocks.block;
		may->count = file->blocks.count;
		may->may = malloc(may->count + 1);
		if (select->ask_longest && !pfw_index_meta(index)->problems)
			may->longest_ns = malloc((may->count + 1) * sizeof(*may->longest_ns));
		error = may->may ? pfw_index_match(index, &filter, may->may, may->longest_ns)
				 : -ENOMEM;
	}
	if (error)
		pfw_select_free_may(may);
	if (error && error != -ENOMEM)
		snprintf(why, size, "damaged");
	pfw_index_close(index);
	return error;
}

/* The answer for a file of several ranks holds for each of its parts. */
static void share_with_parts(struct pfw_select *select, const struct pfw_ranks *ranks)
{
	for (size_t i = 1; i < ranks->count; i++) {
		select->may[ranks->file[i]] = select->may[ranks->file[0]];
		select->may[ranks->file[i]].shared = true;
	}
}

int pfw_select_use_indexes(struct pfw_select *select, struct pfw_traces *traces,
			   void (*say)(void *user, const char *path, const char *why), void *user)
{
	select->may = calloc(traces->count + 1, sizeof(*select->may));
	if (!select->may)
		return -ENOMEM;
	select->may_count = traces->count;
	for (size_t i = 0; i < traces->count; i++) {
		char why[256] = "";
		int error;

		if (pfw_ranks_whole(traces, i) != i || !is_of_use(select, &traces->file[i]))
			continue;
		error = use_index(select, &traces->file[i], &select->may[i], why, sizeof(why));
		if (!error && traces->file[i].ranks)
			share_with_parts(select, traces->file[i].ranks);
		if (error == -ENOMEM)
			return error;
		if (error && error != -ENOENT)
			say(user, traces->file[i].path, why);
	}
	return 0;
}

/* ---- the ranks of a file of several ---- */

/* Whether a process of this pid is of a wanted rank; a line of none known is of the whole's. */
static bool pid_may(void *user, uint64_t pid, uint64_t tid)
{
	const struct asking *asking = user;
	const struct pfw_ranks *ranks = asking->ranks;
	const struct pfw_processes *processes = ranks->processes;
	const struct pfw_traced_process *process = pfw_processes_find(processes, pid, INT64_MIN);
	const struct pfw_traced_process *end = processes->process + processes->count;

	(void)tid;
	if (!process)
		return pfw_select_file(asking->select, ranks->file[0]);
	for (; process < end && process->pid == pid; process++) {
		if (pfw_select_file(asking->select, ranks->file[process->part]))
			return true;
	}
	return false;
}

/* Keep the places of the blocks that have no line of a wanted rank. */
static int keep_others(struct pfw_select_others *others, const struct pfw_blocks *blocks,
		       const uint8_t *may)
{
	others->at = malloc((blocks->count + 1) * sizeof(*others->at));
	if (!others->at)
		return -ENOMEM;
	for (size_t i = 0; i < blocks->count; i++) {
		if (!may[i])
			others->at[others->count++] = blocks->block[i].at;
	}
	return 0;
}

static int find_others(const struct pfw_select *select, const struct pfw_trace_file *file,
		       struct pfw_select_others *others)
{
	struct asking asking = { .select = select, .ranks = file->ranks };
	const struct pfw_index_filter filter = { .user = &asking, .thread = pid_may };
	struct pfw_blocks blocks = { .layout = PFW_LAYOUT_STREAM };
	struct pfw_index *index = NULL;
	char why[256];
	uint8_t *may = NULL;
	int error = pfw_index_open(&index, file->path, why, sizeof(why));

	if (error)
		return error;
	error = pfw_index_blocks(index, &blocks);
	if (!error && !(may = malloc(blocks.count + 1)))
		error = -ENOMEM;
	error = error ?: pfw_index_match(index, &filter, may, NULL);
	if (!error && blocks.layout == PFW_LAYOUT_MEMBERS)
		error = keep_others(others, &blocks, may);
	free(may);
	pfw_blocks_free(&blocks);
	pfw_index_close(index);
	return error;
}

void pfw_select_free_others(struct pfw_select *select)
{
	for (size_t i = 0; i < select->others_count; i++)
		free(select->others[i].shared ? NULL : select->others[i].at);
	free(select->others);
	select->others = NULL;
	select->others_count = 0;
}

int pfw_select_find_others(struct pfw_select *select, const struct pfw_traces *traces)
{
	pfw_select_free_others(select);
	if (!select->rank.count)
		return 0;
	select->others = calloc(traces->count + 1, sizeof(*select->others));
	if (!select->others)
		return -ENOMEM;
	select->others_count = traces->count;
	for (size_t i = 0; i < traces->count; i++) {
		const struct pfw_trace_file *file = &traces->file[i];
		/* Without an index that can be used, all blocks are read. */
		bool asks = file->ranks && pfw_ranks_whole(traces, i) == i;

		if (asks && find_others(select, file, &select->others[i]) == -ENOMEM)
			return -ENOMEM;
		for (size_t j = 1; asks && j < file->ranks->count; j++) {
			select->others[file->ranks->file[j]] = select->others[i];
			select->others[file->ranks->file[j]].shared = true;
		}
	}
	return 0;
}
