/* store/index/match.c - finds the blocks that can have a wanted line; see index.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "store/index/index.h"
#include "store/index/internal.h"
#include "store/kit/grow.h"

/* Which rows of a table are wanted, a byte each. */
struct wanted {
	const struct pfw_index_filter *filter;
	uint8_t *row;
	uint32_t rows;
	uint32_t steps_row; /* of names: the row of PFW_SUMMARY_STEPS, or 0 */
};

struct match {
	const struct pfw_index_filter *filter;
	struct wanted names, threads, files;
	uint64_t blocks, next;
	uint8_t *may;
	int64_t *longest_ns; /* NULL: not asked */
};

/* Add the next row.  Row 0 is always wanted, because its contents are unknown. */
static int add_row(struct wanted *wanted, bool is)
{
	if (wanted->rows == UINT32_MAX)
		return -ENOMEM;
	is |= !wanted->rows;
	return PFW_APPEND(wanted->row, wanted->rows, is);
}

static int take_name(void *user, struct pfw_index_row *row)
{
	struct wanted *wanted = user;
	const struct pfw_index_filter *filter = wanted->filter;
	size_t cat_bytes, name_bytes, ph_bytes;
	const char *cat = pfw_index_text(row, &cat_bytes);
	const char *name = pfw_index_text(row, &name_bytes);
	const char *ph = pfw_index_text(row, &ph_bytes);

	if (row->bad || ph_bytes != 1)
		return -EBADMSG;
	if (*ph == 'X' && cat_bytes == 2 && memcmp(cat, "PP", 2) == 0 &&
	    name_bytes == sizeof(PFW_SUMMARY_STEPS) - 1 &&
	    memcmp(name, PFW_SUMMARY_STEPS, name_bytes) == 0)
		wanted->steps_row = wanted->rows;
	return add_row(wanted, !filter->name || filter->name(filter->user, cat, cat_bytes, name,
							     name_bytes, *ph));
}

static int take_file(void *user, struct pfw_index_row *row)
{
	struct wanted *wanted = user;
	size_t bytes;
	const char *name = pfw_index_text(row, &bytes);

	return row->bad ? -EBADMSG
			: add_row(wanted, wanted->filter->file(wanted->filter->user, name, bytes));
}

static int take_thread(void *user, struct pfw_index_row *row)
{
	struct wanted *wanted = user;
	uint64_t pid = pfw_index_u64(row), tid = pfw_index_u64(row);

	return row->bad ? -EBADMSG
			: add_row(wanted, wanted->filter->thread(wanted->filter->user, pid, tid));
}

/* All steps share one row; their numbers are in the table `step`. */
static int take_step(void *user, struct pfw_index_row *row)
{
	struct wanted *names = user;
	const struct pfw_index_filter *filter = names->filter;
	uint8_t *any = &names->row[names->steps_row];
	char name[40];

	pfw_index_skip(row, 2); /* pid, tid */
	if (!*any) {
		int bytes =
			snprintf(name, sizeof(name), "ProfilerStep#%" PRIu64, pfw_index_u64(row));

		*any = filter->name(filter->user, "PP", 2, name, (size_t)bytes, 'X');
	}
	return 0;
}

/* If the row of all steps is not wanted, find out whether a single step is. */
static int match_steps(struct pfw_index *index, struct match *match)
{
	struct wanted *names = &match->names;
	uint32_t row = names->steps_row;

	if (!names->filter->name || !row || names->row[row])
		return 0;
	names->row[row] = index->left_out != 0;
	return pfw_index_rows(index, PFW_TABLE_STEP, names, take_step);
}

/* Whether a blob has a wanted row: 1, 0 or -EBADMSG. */
static int any_row(const struct wanted *wanted, struct pfw_blob_reader reader)
{
	uint32_t row;
	int result;

	while ((result = pfw_blob_next_row(&reader, wanted->rows, &row)) > 0) {
		if (wanted->row[row])
			return 1;
	}
	return result;
}

/* The same for names; a line of the name must also be as long as wanted.  *longest_ns, if not NULL, is
 * raised to the longest. */
static int any_name(const struct match *match, struct pfw_blob_reader reader, int64_t *longest_ns)
{
	struct pfw_blob_name name;
	int any = 0, result;

	while ((result = pfw_blob_next_name(&reader, match->names.rows, &name)) > 0) {
		if (!match->names.row[name.row] ||
		    (match->filter->least_dur_ns > 0 && name.max_ns < match->filter->least_dur_ns))
			continue;
		if (!longest_ns)
			return 1;
		any = 1;
		PFW_RAISE(*longest_ns, name.max_ns);
	}
	return result < 0 ? result : any;
}

static struct pfw_blob_reader read_blob(struct pfw_index_row *row)
{
	size_t bytes;
	const uint8_t *data = pfw_index_blob(row, &bytes);

	return (struct pfw_blob_reader){ .at = data, .end = data + bytes };
}

static bool asks_names(const struct match *match)
{
	return match->filter->name || match->filter->least_dur_ns > 0 || match->longest_ns;
}

static int take_block(void *user, struct pfw_index_row *row)
{
	struct match *match = user;
	struct pfw_blob_reader threads = read_blob(row), files = read_blob(row);
	struct pfw_blob_reader names = read_blob(row);
	int64_t *longest_ns = NULL;
	int may = 1;

	if (row->bad || row->number >= match->blocks)
		return -EBADMSG;
	if (match->longest_ns) {
		longest_ns = &match->longest_ns[row->number];
		*longest_ns = INT64_MIN;
	}
	if (match->filter->thread)
		may = any_row(&match->threads, threads);
	if (may > 0 && match->filter->file)
		may = any_row(&match->files, files);
	if (may > 0 && asks_names(match))
		may = any_name(match, names, longest_ns);
	match->may[row->number] = may > 0;
	match->next = row->number + 1;
	return may < 0 ? may : 0;
}

int pfw_index_match(struct pfw_index *index, const struct pfw_index_filter *filter, uint8_t *may,
		    int64_t *longest_ns)
{
	struct match match = {
		.filter = filter,
		.names = { .filter = filter },
		.threads = { .filter = filter },
		.files = { .filter = filter },
		.blocks = index->meta.blocks,
		.may = may,
		.longest_ns = longest_ns,
	};
	int error = 0;

	if (asks_names(&match))
		error = pfw_index_rows(index, PFW_TABLE_NAME, &match.names, take_name);
	error = error ? error : match_steps(index, &match);
	if (!error && filter->thread)
		error = pfw_index_rows(index, PFW_TABLE_THREAD, &match.threads, take_thread);
	if (!error && filter->file)
		error = pfw_index_rows(index, PFW_TABLE_FILE, &match.files, take_file);
	if (!error)
		error = pfw_index_rows(index, PFW_TABLE_BLOCK_HOLDS, &match, take_block);
	if (!error && match.next != match.blocks)
		error = -EBADMSG;
	free(match.names.row);
	free(match.threads.row);
	free(match.files.row);
	return error;
}
