/* tools/table/whole.c - blocks that a window does not cut, from the sums that indexes have of them; see
 * table.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "table/answer.h"

/* The blocks of one file. */
struct choosing {
	struct answer *answer;
	struct pfw_index *index;
	const struct pfw_trace_file *file;
	uint8_t *whole, *other; /* of each block */
	struct pfw_summary sums;
};

/* Whether sums by name are enough, in a window. */
static bool asks_sums(const struct table_options *options)
{
	struct pfw_select reach = options->reach, wanted = options->wanted;

	wanted.where_count = table_where_of_names(options) ? 0 : wanted.where_count;
	reach.since.kind = reach.until.kind = PFW_TIME_NONE;
	/* No sum has the begin of its first call. */
	return !(table_bits(options) & ~TABLE_BITS_NAMES) && options->reach.times &&
	       !options->survey->no_index && !select_args_but_rank(&reach) &&
	       !select_args_need_lines(&wanted) &&
	       !(options->sort_by && strcmp(options->sort_by, "none") == 0);
}

/* Note the blocks in the window.  Whether there are some. */
static bool mark_whole(const struct choosing *choosing, const struct pfw_select_window *window)
{
	const struct pfw_blocks *blocks = &choosing->file->blocks;
	bool any = false;

	for (size_t i = 0; i < blocks->count && window->wanted; i++) {
		const struct pfw_block *block = &blocks->block[i];

		choosing->whole[i] = block->least_ns <= block->greatest_ns &&
				     block->least_ns >= window->since_ns &&
				     block->greatest_ns < window->until_ns;
		any |= choosing->whole[i];
	}
	return any;
}

/* Leave out the blocks that have certain names. */
static int leave_out(const struct choosing *choosing,
		     bool (*name)(void *user, const char *cat, size_t cat_bytes, const char *name,
				  size_t name_bytes, char ph))
{
	const struct pfw_index_filter filter = { .user = (void *)choosing, .name = name };
	int error = pfw_index_match(choosing->index, &filter, choosing->other, NULL);

	for (size_t i = 0; i < choosing->file->blocks.count && !error; i++)
		choosing->whole[i] &= !choosing->other[i];
	return error;
}

/* Spans and work of devices are nested and joined; the lines know which of the steps have a name. */
static bool needs_lines(void *user, const char *cat, size_t cat_bytes, const char *name,
			size_t name_bytes, char ph)
{
	const struct table_options *options = ((const struct choosing *)user)->answer->options;
	const struct pfw_slice of = { .at = cat, .bytes = cat_bytes };
	const struct pfw_slice its = { .at = name, .bytes = name_bytes };
	struct pfw_entry entry = table_event_named(its, of);
	struct pfw_table_line line;

	if (ph != 'X' && ph != 's')
		return false;
	if (table_asks_names(options) && pfw_slice_is(&its, PFW_SUMMARY_STEPS))
		return true;
	if (options->wanted.where_count && (!cat_bytes || !name_bytes))
		return true;
	return pfw_table_line_name(&line, &entry, options->plain) && line.section != PFW_TABLE_IO;
}

/* Whether the percentiles of a name would not be those of its few durations. */
static bool is_inexact(void *user, const char *cat, size_t cat_bytes, const char *name,
		       size_t name_bytes, char ph)
{
	struct pfw_summary *sums = &((struct choosing *)user)->sums;
	int64_t row = pfw_summary_name_row(sums, cat, cat_bytes, name, name_bytes, ph);

	return row < 0 || !pfw_sketch_is_exact(&sums->name[row].durations);
}

static bool any_inexact(const struct pfw_summary *sums)
{
	uint32_t i = 0;

	while (i < sums->names && pfw_sketch_is_exact(&sums->name[i].durations))
		i++;
	return i < sums->names;
}

/* Add up the blocks; those that make percentiles inexact are left out. */
static int add_up(struct choosing *choosing)
{
	int error = leave_out(choosing, needs_lines);

	error = error ? error
		      : pfw_index_block_totals(choosing->index, choosing->whole, &choosing->sums);
	while (!error && choosing->answer->options->percentiles && any_inexact(&choosing->sums)) {
		error = leave_out(choosing, is_inexact);
		pfw_summary_clear(&choosing->sums);
		error = error ? error
			      : pfw_index_block_totals(choosing->index, choosing->whole,
						       &choosing->sums);
	}
	return error;
}

/* 1: the blocks in `whole` are added; 0: none; -ENOMEM. */
static int add_blocks(struct choosing *choosing, const struct pfw_select_window *window)
{
	const struct pfw_blocks *blocks = &choosing->file->blocks;
	struct answer *answer = choosing->answer;
	int error;

	if ((!answer->options->plain && pfw_index_meta(choosing->index)->nested) ||
	    !pfw_index_has_blocks(choosing->index, blocks) || !mark_whole(choosing, window))
		return 0;
	error = add_up(choosing);
	if (error)
		return error == -ENOMEM ? error : 0;
	for (size_t i = 0; i < blocks->count; i++) {
		if (choosing->whole[i])
			table_extent_add(&answer->table->extent, blocks->block[i].least_ns,
					 blocks->block[i].greatest_ns);
	}
	answer->rank = choosing->file->head.rank;
	return table_add_names(answer, &choosing->sums);
}

static int add_file(struct answer *answer, size_t number)
{
	struct table *table = answer->table;
	struct choosing choosing = { .answer = answer, .file = &table->traces->file[number] };
	size_t blocks = choosing.file->blocks.count;
	int added = -ENOMEM;

	if (choosing.file->ranks || !blocks || pfw_index_of(&choosing.index, choosing.file))
		return 0;
	choosing.whole = calloc(blocks, 1);
	choosing.other = calloc(blocks, 1);
	if (choosing.whole && choosing.other && !pfw_summary_init(&choosing.sums)) {
		added = add_blocks(&choosing, &answer->options->reach.window[number]);
		pfw_summary_release(&choosing.sums);
	}
	if (added > 0)
		table->whole[number] = choosing.whole;
	else
		free(choosing.whole);
	free(choosing.other);
	pfw_index_close(choosing.index);
	return added < 0 ? added : 0;
}

int table_add_whole(struct table *table, const struct table_options *options)
{
	struct answer answer = { .options = options, .table = table };
	int error;

	if (!asks_sums(options))
		return 0;
	table->whole = calloc(table->traces->count, sizeof(*table->whole));
	answer.wanted = pfw_select_state_create(&options->wanted);
	error = table->whole && answer.wanted ? 0 : -ENOMEM;
	for (size_t i = 0; i < table->traces->count && !error; i++)
		error = add_file(&answer, i);
	pfw_table_key_release(&answer.key);
	pfw_select_state_free(answer.wanted);
	return error;
}

void table_free_whole(struct table *table)
{
	for (size_t i = 0; i < table->traces->count && table->whole; i++)
		free(table->whole[i]);
	free(table->whole);
	table->whole = NULL;
}
