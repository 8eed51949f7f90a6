/* store/table/read.c - reads the rows that an index keeps; see in_index.h. */
#include <errno.h>

#include "store/table/code.h"
#include "store/table/in_index.h"

int pfw_table_read_rows(struct pfw_table_rows *rows, const uint8_t *data, size_t bytes)
{
	struct pfw_varints reader = pfw_varints(data, bytes);
	int error = 0;

	if (!bytes)
		return -ENOENT;
	rows->says |= (unsigned)pfw_varints_next(&reader);
	while (!error && !reader.bad && reader.at < reader.end) {
		struct pfw_table_row row = { .device = (signed char)pfw_varints_next(&reader) };

		row.annotation = pfw_varints_next(&reader) != 0;
		row.name = pfw_table_get_text(&reader);
		row.cat = pfw_table_get_text(&reader);
		row.shape = pfw_table_get_text(&reader);
		pfw_table_get_tally(&reader, &row.sums);
		error = reader.bad ? -EBADMSG : rows->row(rows->user, &row);
	}
	return reader.bad ? -EBADMSG : error;
}

static int read_row(void *user, const uint8_t *data, size_t bytes, bool last)
{
	return last ? pfw_table_read_rows(user, data, bytes) : 0;
}

int pfw_table_from_index(struct pfw_index *index, struct pfw_table_rows *rows)
{
	return pfw_index_parts(index, &pfw_table_kind, rows, read_row);
}

/* ---- steps ---- */

int pfw_table_step_sums(const struct pfw_table_step_row *row, struct pfw_tally *sums)
{
	struct pfw_varints reader = pfw_varints((const uint8_t *)row->sums.at, row->sums.bytes);

	pfw_table_get_tally(&reader, sums);
	return reader.bad ? -EBADMSG : 0;
}

static int read_step(struct pfw_table_step_rows *rows, struct pfw_varints *reader)
{
	uint64_t section = pfw_varints_next(reader);
	struct pfw_table_step_row row = { .section = (enum pfw_table_section)section,
					  .device = (signed char)pfw_varints_next(reader) };
	struct pfw_slice durations;

	row.step = (int64_t)(pfw_varints_next(reader) - 1);
	row.sums = pfw_table_get_text(reader);
	if (reader->bad || section >= PFW_TABLE_SECTIONS)
		return -EBADMSG;
	if (section == PFW_TABLE_IO) {
		durations = pfw_table_get_text(reader);
		row.durations = (const uint8_t *)durations.at;
		row.durations_bytes = durations.bytes;
	}
	return reader->bad ? -EBADMSG : rows->row(rows->user, &row);
}

int pfw_table_read_steps(struct pfw_table_step_rows *rows, const uint8_t *data, size_t bytes)
{
	struct pfw_varints reader = pfw_varints(data, bytes);
	int error = 0;

	if (!bytes)
		return -ENOENT;
	rows->says = (unsigned)pfw_varints_next(&reader);
	rows->followers = pfw_varints_next(&reader) != 0;
	rows->leaders = (unsigned)pfw_varints_next(&reader);
	while (!error && reader.at < reader.end)
		error = read_step(rows, &reader);
	return reader.bad ? -EBADMSG : error;
}

static int read_steps(void *user, const uint8_t *data, size_t bytes, bool last)
{
	(void)last;
	return pfw_table_read_steps(user, data, bytes);
}

int pfw_table_steps_from_index(struct pfw_index *index, struct pfw_table_step_rows *rows)
{
	return pfw_index_more(index, &pfw_table_kind, rows, read_steps);
}
