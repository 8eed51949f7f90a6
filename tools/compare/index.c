/* tools/compare/index.c - fills the rows of a comparison from indexes alone, if they can answer. */
#include <errno.h>

#include "compare/compare.h"
#include "store/index/index.h"

struct answer {
	struct compare *compare;
	struct compare_side *side;
	struct pfw_select_state *wanted;
	struct pfw_table_key key;
	unsigned number; /* of the side */
	size_t file;
	bool filtered;
};

const char *compare_needs_lines(const struct compare *compare)
{
	const struct pfw_select *select = &compare->side[0].select;

	if (compare->survey.no_index)
		return "--no-index";
	if (table_bits(&compare->table) & ~TABLE_BITS_NAMES)
		return "--group-by fname, step or tid";
	return select_args_need_lines(select);
}

static int64_t row_of(struct answer *answer, const struct pfw_compare_found *found)
{
	const struct pfw_table_line line = {
		.section = PFW_TABLE_IO, .name = found->name, .cat = found->cat, .step = -1
	};
	const struct pfw_entry entry = table_event_named(found->name, found->cat);

	if (!pfw_select_entry(&answer->side->select, answer->wanted, answer->file, &entry))
		return -ENOENT;
	table_key_make(&answer->key, &answer->compare->table, &line, &entry,
		       answer->side->input.traces.file[answer->file].head.rank);
	return answer->key.failed
		       ? -ENOMEM
		       : compare_row_of(answer->compare, answer->key.text, answer->key.bytes);
}

static int add_row(void *user, const struct pfw_compare_found *found)
{
	struct answer *answer = user;
	struct compare *compare = answer->compare;
	int64_t row;

	/* The lines know which of the steps have a name that is asked for. */
	if (answer->side->select.name.count && pfw_slice_is(&found->name, "ProfilerStep*"))
		return -ENOENT;
	row = row_of(answer, found);
	if (row < 0)
		return row == -ENOENT ? 0 : (int)row;
	pfw_compare_add_sums(compare_cell_of(compare, row, answer->number, answer->file),
			     &found->sums);
	return compare->several
		       ? 0
		       : pfw_compare_read_sample(&compare->row[row].sampled[answer->number], found,
						 pfw_compare_most(compare->rows));
}

/* Whether the samples of an index are large enough: those of many names are small, also if few of
 * these are wanted. */
static bool are_samples_enough(const struct answer *answer, const struct pfw_compare_reader *reader)
{
	const unsigned both = TABLE_BIT(TABLE_NAME) | TABLE_BIT(TABLE_CAT);
	bool names = (table_bits(&answer->compare->table) & both) == both;

	return (names && !answer->filtered) || answer->compare->several ||
	       pfw_compare_most(reader->rows) == PFW_SAMPLED_MAX;
}

/* 1; 0: the index is not enough; -ENOMEM. */
static int add_index(struct answer *answer, struct pfw_index *index)
{
	const struct pfw_index_meta *meta = pfw_index_meta(index);
	struct pfw_compare_reader reader = { .user = answer, .row = add_row };
	int error;

	answer->compare->lacks = "what its damaged lines say";
	if (survey_keep_problems(&answer->compare->survey,
				 answer->side->input.traces.file[answer->file].path, index))
		return 0;
	answer->compare->lacks = "a comparison of so many names, or by the names of steps,";
	compare_widen(answer->side, answer->file, meta->least_ns, meta->greatest_ns);
	error = pfw_compare_from_index(index, &reader);
	if (error)
		return error == -ENOMEM ? error : 0;
	return are_samples_enough(answer, &reader);
}

static bool takes_part(void *user, size_t file)
{
	const struct answer *answer = user;

	return pfw_select_rank(&answer->side->select,
			       answer->side->input.traces.file[file].head.rank);
}

static int add_file(struct answer *answer, struct pfw_indexes_ahead *ahead)
{
	const struct pfw_trace_file *file = &answer->side->input.traces.file[answer->file];
	struct pfw_index *index;
	int answered;

	if (!takes_part(answer, answer->file))
		return 1;
	answer->compare->lacks = "what one rank in a file of several does";
	if (file->ranks)
		return 0;
	answer->compare->lacks = "what its damaged index had";
	if (pfw_index_ahead(ahead, answer->file, &index))
		return 0;
	answered = add_index(answer, index);
	pfw_index_close(index);
	return answered;
}

static int add_side(struct compare *compare, unsigned number)
{
	struct compare_side *side = &compare->side[number];
	struct answer answer = { .compare = compare,
				 .side = side,
				 .number = number,
				 .filtered = side->select.name.count || side->select.cat.count };
	struct pfw_indexes_ahead *ahead;
	int answered = 1;

	answer.wanted = pfw_select_state_create(&side->select);
	if (!answer.wanted)
		return -ENOMEM;
	if (pfw_indexes_ahead_open(&ahead, &side->input.traces, survey_jobs(&compare->survey),
				   &answer, takes_part, NULL)) {
		pfw_select_state_free(answer.wanted);
		return -ENOMEM;
	}
	for (; answer.file < side->input.traces.count && answered > 0; answer.file++)
		answered = add_file(&answer, ahead);
	pfw_indexes_ahead_close(ahead);
	pfw_table_key_release(&answer.key);
	pfw_select_state_free(answer.wanted);
	return answered;
}

int compare_from_index(struct compare *compare)
{
	int answered = add_side(compare, 0);

	answered = answered > 0 ? add_side(compare, 1) : answered;
	if (answered > 0) {
		survey_tell_problems(&compare->survey);
	} else {
		survey_forget_problems(&compare->survey);
		compare_clear(compare);
	}
	return answered;
}
