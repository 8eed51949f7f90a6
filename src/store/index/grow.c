/* store/index/grow.c - adds to an index when its trace has grown; see index.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/index/internal.h"
#include "store/sys/open.h"

/* ---- which index can be added to ---- */

/* Whether the last line that was indexed is a whole one. */
static bool ends_with_line(const char *trace, uint64_t bytes)
{
	int fd = pfw_open_file(trace, PFW_OPEN_LINK, NULL);
	char last = 0;
	bool is = fd >= 0 && pread(fd, &last, 1, (off_t)(bytes - 1)) == 1 && last == '\n';

	if (fd >= 0)
		close(fd);
	return is;
}

/* `user`: NULL, if the row may have anything. */
static int take_nothing(void *user, struct pfw_varints *row, bool last)
{
	(void)last;
	return user && row->at < row->end ? -ENOTSUP : 0;
}

static bool can_resume(struct pfw_index *older, const struct pfw_index_kind *kind)
{
	return kind->resume && (!kind->state || pfw_index_parts(older, kind, PFW_INDEX_STATE, NULL,
								take_nothing) == 0);
}

/* Whether no table had more than it keeps, and the kinds can go on from nothing. */
static int check_totals(struct pfw_index *older)
{
	struct pfw_summary total;
	struct pfw_index_row row;
	int error = pfw_summary_init(&total);

	if (error)
		return error;
	error = pfw_index_totals(older, PFW_INDEX_NAMES | PFW_INDEX_THREADS, &total);
	if (!error && (total.name[0].count || total.thread[0].lines || total.left_out))
		error = -ENOTSUP;
	for (size_t i = 0; i < pfw_index_kind_count && !error; i++) {
		const struct pfw_index_kind *kind = pfw_index_kind_table[i];

		if (can_resume(older, kind))
			continue;
		if (!kind->untouched || !kind->untouched(&total) ||
		    (kind->more[0] &&
		     pfw_index_parts(older, kind, PFW_INDEX_MORE, &total, take_nothing)))
			error = -ENOTSUP;
	}
	pfw_summary_release(&total);
	if (error)
		return error;
	error = pfw_index_query(older, &row, PFW_TABLE_FILE, 0);
	error = error ? error : pfw_index_find(&row, 0) == 1 ? 0 : -ENOTSUP;
	pfw_index_skip(&row, 2); /* id, fname */
	if (!error && (pfw_index_u64(&row) || row.bad))
		error = -ENOTSUP;
	pfw_index_done(&row);
	return error;
}

/* Keep the blocks of the index, and cut what follows into new ones.  An index that often grew by a
 * little has too many. */
static int lay_out_text(struct pfw_index *older, struct pfw_blocks *blocks)
{
	uint64_t at = older->meta.trace_bytes, end = blocks->file_bytes;
	size_t room = older->meta.blocks + (end - at) / PFW_BLOCK_TEXT + 1;
	struct pfw_blocks old = { 0 };
	struct pfw_block *block;
	int error = room > 2 * (end / PFW_BLOCK_TEXT) + 16 ? -ENOTSUP : 0;

	error = error ? error : pfw_index_blocks(older, &old);
	if (error)
		return error;
	block = realloc(old.block, room * sizeof(*block));
	if (!block) {
		pfw_blocks_free(&old);
		return -ENOMEM;
	}
	for (; at < end; at += PFW_BLOCK_TEXT)
		block[old.count++] = (struct pfw_block){
			.at = at, .bytes = end - at < PFW_BLOCK_TEXT ? end - at : PFW_BLOCK_TEXT
		};
	blocks->block = block;
	blocks->count = old.count;
	return 0;
}

int pfw_index_extend(struct pfw_index *older, const char *trace, struct pfw_blocks *blocks)
{
	const struct pfw_index_meta *meta = &older->meta;
	int error;

	if (meta->problems || !meta->blocks || meta->layout != blocks->layout ||
	    meta->trace_bytes >= blocks->file_bytes)
		return -ENOTSUP;
	error = check_totals(older);
	if (error)
		return error;
	if (meta->layout == PFW_LAYOUT_TEXT)
		return ends_with_line(trace, meta->trace_bytes) ? lay_out_text(older, blocks)
								: -ENOTSUP;
	if (meta->layout != PFW_LAYOUT_MEMBERS || meta->blocks >= blocks->count ||
	    blocks->block[meta->blocks].at != meta->trace_bytes)
		return -ENOTSUP;
	return 0;
}

/* ---- going on ---- */

/* Copy all rows of a table of blocks. */
static int copy_rows(struct pfw_index_writer *writer, struct pfw_index *older,
		     enum pfw_index_tables table)
{
	const unsigned columns = pfw_index_columns(table);
	struct pfw_index_row row;
	uint64_t count = 0;
	int result = 0, error = pfw_index_query(older, &row, table, INT64_MIN);

	while (!error && (result = pfw_index_next(&row)) > 0 && count <= older->meta.blocks) {
		struct pfw_put *put = pfw_put_begin(&writer->maker, table);

		error = pfw_put_copy(put, &row, columns);
		error = error ? error : pfw_put_row(put);
		count++;
	}
	pfw_index_done(&row);
	if (!error && !result && count != older->meta.blocks)
		error = -EBADMSG;
	writer->blocks = (uint32_t)count;
	return error ? error : result < 0 ? result : 0;
}

/* A file's struct of a kind, which is given its last row, or the state before that. */
struct resuming {
	const struct pfw_index_kind *kind;
	void *file;
};

static int resume_kind(void *user, struct pfw_varints *row, bool last)
{
	const struct resuming *resuming = user;

	return last ? resuming->kind->resume(resuming->file, row) : 0;
}

static int resume_more(void *user, struct pfw_varints *row, bool last)
{
	const struct resuming *resuming = user;

	(void)last;
	return resuming->kind->resume_more(resuming->file, row);
}

static int resume_kinds(struct pfw_index_writer *writer, struct pfw_index *older)
{
	int error = 0;

	for (size_t i = 0; i < pfw_index_kind_count && !error; i++) {
		const struct pfw_index_kind *kind = pfw_index_kind_table[i];
		struct resuming resuming = { .kind = kind };

		if (!kind->resume)
			continue;
		resuming.file = writer->kind[i] = pfw_index_new_file(kind);
		if (!resuming.file)
			return -ENOMEM;
		error = pfw_index_parts(older, kind, PFW_INDEX_END, &resuming, resume_kind);
		if (!error && kind->state)
			error = pfw_index_parts(older, kind, PFW_INDEX_STATE, &resuming,
						resume_more);
	}
	return error;
}

int pfw_index_resume(struct pfw_index_writer *writer, struct pfw_index *older)
{
	struct pfw_blocks blocks = { 0 };
	int error = pfw_index_totals(older, PFW_INDEX_ALL, &writer->total);

	error = error ? error : pfw_index_blocks(older, &blocks);
	error = error ? error : copy_rows(writer, older, PFW_TABLE_BLOCK);
	error = error ? error : copy_rows(writer, older, PFW_TABLE_BLOCK_HOLDS);
	error = error ? error : resume_kinds(writer, older);
	if (!error) {
		writer->first = blocks.block[0];
		writer->last = blocks.block[blocks.count - 1];
	}
	writer->lines = older->meta.lines;
	writer->grows = true;
	writer->was_nested = older->meta.nested;
	/* An index does not keep when a thread's last call ended; it ended no later than the last line. */
	for (uint32_t i = 1; i < writer->total.threads; i++)
		writer->total.thread[i].calls_end_ns = writer->total.thread[i].last_ns;
	pfw_blocks_free(&blocks);
	return error;
}
