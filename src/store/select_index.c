/* select_index.c - what the indexes of traces say of a selection; see select.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expr.h"
#include "index.h"
#include "ranks.h"
#include "select.h"

/* What a filter is asked about. */
struct asking {
	const struct pfw_select *select;
	int64_t rank;
	bool ours; /* else its files may be known by their hashes only */
};

static bool where_may(const struct asking *asking, const struct pfw_expr_facts *facts)
{
	for (size_t i = 0; i < asking->select->where_count; i++) {
		if (!pfw_expr_may(asking->select->where[i], facts))
			return false;
	}
	return true;
}

static bool name_may(void *user, const char *cat, size_t cat_bytes, const char *name,
		     size_t name_bytes, char ph)
{
	const struct asking *asking = user;
	const struct pfw_select *select = asking->select;
	struct pfw_expr_facts facts = { .rank = asking->rank,
					.cat = { .at = cat, .bytes = cat_bytes },
					.name = { .at = name, .bytes = name_bytes },
					.ph = ph };

	/* 's': calls that are no lines. */
	if (ph == 's' || (ph == 'M' && !select->meta))
		return false;
	if ((select->cat.count && !pfw_select_globs_match(&select->cat, facts.cat)) ||
	    (select->name.count && !pfw_select_globs_match(&select->name, facts.name)))
		return false;
	return where_may(asking, &facts);
}

static bool file_may(void *user, const char *name, size_t bytes)
{
	const struct asking *asking = user;
	const struct pfw_select *select = asking->select;
	struct pfw_expr_facts facts = { .rank = asking->rank,
					.fname = { .at = name, .bytes = bytes } };

	return (!select->fname.count || pfw_select_globs_match(&select->fname, facts.fname)) &&
	       where_may(asking, &facts);
}

static bool thread_may(void *user, uint64_t pid, uint64_t tid)
{
	const struct asking *asking = user;
	const struct pfw_select *select = asking->select;
	struct pfw_expr_facts facts = {
		.rank = asking->rank, .thread = true, .pid = pid, .tid = tid
	};

	return (!select->pid.count || pfw_select_in_ranges(&select->pid, pid)) &&
	       (!select->tid.count || pfw_select_in_ranges(&select->tid, tid)) &&
	       where_may(asking, &facts);
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
	/* Lines without a file, or of no thread, are in neither table. */
	if (asking->ours && (select->fname.count || !where_may(asking, &no_file)))
		filter.file = file_may;
	if (select->pid.count || select->tid.count || select->where_count)
		filter.thread = thread_may;
	return filter;
}

/* Whether an index can say more than the members' own headers do. */
static bool is_of_use(const struct pfw_select *select, const struct pfw_trace_file *file)
{
	if (strcmp(file->path, "-") == 0)
		return false;
	if (select->cat.count || select->name.count || select->fname.count || select->pid.count ||
	    select->tid.count || select->where_count || select->has_min_dur)
		return true;
	for (size_t i = 0; i < file->blocks.count; i++) {
		if (!file->blocks.block[i].summed)
			return true;
	}
	return file->blocks.layout == PFW_LAYOUT_STREAM;
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
	error = pfw_index_blocks(index, &file->blocks);
	if (!error) {
		may->block = file->blocks.block;
		may->count = file->blocks.count;
		may->may = malloc(may->count + 1);
		error = may->may ? pfw_index_match(index, &filter, may->may) : -ENOMEM;
	}
	if (error) {
		free(may->may);
		may->may = NULL;
	}
	if (error && error != -ENOMEM)
		snprintf(why, size, "damaged");
	pfw_index_close(index);
	return error;
}

/* What is known of a file of several ranks holds for each of its parts. */
static int share_with_parts(struct pfw_select *select, const struct pfw_ranks *ranks)
{
	const struct pfw_select_may *whole = &select->may[ranks->file[0]];

	for (size_t i = 1; whole->may && i < ranks->count; i++) {
		struct pfw_select_may *part = &select->may[ranks->file[i]];

		*part = *whole;
		part->may = malloc(whole->count + 1);
		if (!part->may)
			return -ENOMEM;
		memcpy(part->may, whole->may, whole->count);
	}
	return 0;
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
			error = share_with_parts(select, traces->file[i].ranks);
		if (error == -ENOMEM)
			return error;
		if (error && error != -ENOENT)
			say(user, traces->file[i].path, why);
	}
	return 0;
}
