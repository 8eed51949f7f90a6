/* store/table/read.c - reads the rows that an index keeps; see in_index.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/table/code.h"
#include "store/table/in_index.h"

static void read_one(struct pfw_table_row *row, struct pfw_varints *reader)
{
	*row = (struct pfw_table_row){ .device = (signed char)pfw_varints_next(reader) };
	row->annotation = pfw_varints_next(reader) != 0;
	row->name = pfw_table_get_text(reader);
	row->cat = pfw_table_get_text(reader);
	row->shape = pfw_table_get_text(reader);
	row->kind = pfw_table_get_text(reader);
	pfw_table_get_tally(reader, &row->sums);
}

/* What the lines say, the rows, which *rows gets, and GPU work by its args.  0, -ENOENT or -EBADMSG. */
static int read_head(struct pfw_varints *reader, unsigned *says, struct pfw_varints *rows,
		     struct pfw_varints *works)
{
	if (reader->at == reader->end)
		return -ENOENT;
	*says |= (unsigned)pfw_varints_next(reader);
	*rows = pfw_varints_part(reader);
	*works = pfw_varints_part(reader);
	return reader->bad ? -EBADMSG : 0;
}

int pfw_table_read_rows(void *user, struct pfw_varints *reader, bool last)
{
	struct pfw_table_rows *rows = user;
	struct pfw_varints of, works;
	int error = read_head(reader, &rows->says, &of, &works);

	(void)last;
	while (!error && of.at < of.end) {
		struct pfw_table_row row;

		read_one(&row, &of);
		error = of.bad ? -EBADMSG : rows->row(rows->user, &row);
	}
	return error;
}

int pfw_table_from_index(struct pfw_index *index, struct pfw_table_rows *rows)
{
	return pfw_index_parts(index, &pfw_table_kind, PFW_INDEX_END, rows, pfw_table_read_rows);
}

/* ---- GPU work by its args ---- */

/* Texts after their number.  0, -ENOMEM or -EBADMSG; free *out in any case. */
static int get_texts(struct pfw_varints *reader, struct pfw_slice **out, uint64_t *count)
{
	*count = pfw_varints_next(reader);
	*out = NULL;
	if (reader->bad || *count > (size_t)(reader->end - reader->at))
		return -EBADMSG;
	*out = calloc(*count + 1, sizeof(**out));
	for (uint64_t i = 0; *out && i < *count; i++)
		(*out)[i] = pfw_table_get_text(reader);
	return !*out ? -ENOMEM : reader->bad ? -EBADMSG : 0;
}

/* What rows of GPU work refer to. */
struct refers {
	struct pfw_table_row *row;
	size_t rows, row_room;
	struct pfw_slice *args, *owner;
	uint64_t argss, operators;
};

static int read_work(struct pfw_table_work_rows *rows, const struct refers *refers,
		     struct pfw_varints *reader)
{
	uint64_t number = pfw_varints_next(reader), args = pfw_varints_next(reader);
	uint64_t owner = pfw_varints_next(reader);
	struct pfw_table_work_row row;

	if (reader->bad || number >= refers->rows || args >= refers->argss ||
	    owner > refers->operators)
		return -EBADMSG;
	row = (struct pfw_table_work_row){ .row = refers->row[number], .args = refers->args[args] };
	if (owner)
		row.owner = refers->owner[owner - 1];
	row.row.sums = (struct pfw_tally){ 0 };
	pfw_table_get_tally(reader, &row.row.sums);
	return reader->bad ? -EBADMSG : rows->row(rows->user, &row);
}

static int read_works(struct pfw_table_work_rows *rows, struct refers *refers,
		      struct pfw_varints *of, struct pfw_varints *reader)
{
	int error = 0;

	if (pfw_varints_next(reader) != 1)
		return reader->bad ? -EBADMSG : -ENOENT;
	while (!error && of->at < of->end) {
		struct pfw_table_row row;

		read_one(&row, of);
		error = of->bad ? -EBADMSG
				: PFW_PUSH(refers->row, refers->rows, refers->row_room, row);
	}
	error = error ? error : get_texts(reader, &refers->args, &refers->argss);
	error = error ? error : get_texts(reader, &refers->owner, &refers->operators);
	for (size_t i = 0; i < refers->rows && !error; i++) {
		if (refers->row[i].device <= 0)
			error = rows->row(rows->user,
					  &(struct pfw_table_work_row){ .row = refers->row[i] });
	}
	while (!error && reader->at < reader->end)
		error = read_work(rows, refers, reader);
	return error;
}

int pfw_table_read_works(void *user, struct pfw_varints *reader, bool last)
{
	struct pfw_table_work_rows *rows = user;
	struct refers refers = { .rows = 0 };
	struct pfw_varints of, works;
	int error = read_head(reader, &rows->says, &of, &works);

	(void)last;
	error = error ? error : read_works(rows, &refers, &of, &works);
	free(refers.row);
	free(refers.args);
	free(refers.owner);
	return error;
}

int pfw_table_works_from_index(struct pfw_index *index, struct pfw_table_work_rows *rows)
{
	return pfw_index_parts(index, &pfw_table_kind, PFW_INDEX_END, rows, pfw_table_read_works);
}

/* ---- threads ---- */

/* What rows by thread refer to. */
struct lanes {
	struct pfw_table_row *row;
	struct {
		uint64_t pid, tid;
	} * lane;
	size_t rows, row_room;
	uint64_t count;
};

static int read_lanes(struct lanes *lanes, struct pfw_table_thread_rows *rows,
		      struct pfw_varints *reader)
{
	int error = 0;

	lanes->count = pfw_varints_next(reader);
	if (reader->bad || lanes->count > (size_t)(reader->end - reader->at))
		return -EBADMSG;
	lanes->lane = calloc(lanes->count + 1, sizeof(*lanes->lane));
	if (!lanes->lane)
		return -ENOMEM;
	for (uint64_t i = 0; i < lanes->count && !error; i++) {
		unsigned says;

		lanes->lane[i].pid = pfw_varints_next(reader);
		lanes->lane[i].tid = pfw_varints_next(reader);
		says = (unsigned)pfw_varints_next(reader);
		error = reader->bad ? -EBADMSG
				    : rows->thread(rows->user, lanes->lane[i].pid,
						   lanes->lane[i].tid, says);
	}
	return error;
}

static int read_thread_rows(struct lanes *lanes, struct pfw_table_thread_rows *rows,
			    struct pfw_varints *reader, struct pfw_varints of)
{
	int error = 0;

	while (!error && of.at < of.end) {
		struct pfw_table_row row;

		read_one(&row, &of);
		error = of.bad ? -EBADMSG : PFW_PUSH(lanes->row, lanes->rows, lanes->row_room, row);
	}
	error = error ? error : read_lanes(lanes, rows, reader);
	while (!error && reader->at < reader->end) {
		struct pfw_table_thread_row row = { .section = PFW_TABLE_COMPUTE };
		uint64_t number = pfw_varints_next(reader), lane = pfw_varints_next(reader);

		if (reader->bad || number >= lanes->rows || lane >= lanes->count)
			return -EBADMSG;
		row.row = lanes->row[number];
		row.row.sums = (struct pfw_tally){ 0 };
		row.pid = lanes->lane[lane].pid;
		row.tid = lanes->lane[lane].tid;
		pfw_table_get_tally(reader, &row.row.sums);
		error = reader->bad ? -EBADMSG : rows->row(rows->user, &row);
	}
	return error;
}

int pfw_table_read_threads(void *user, struct pfw_varints *reader, bool last)
{
	struct lanes lanes = { .rows = 0 };
	struct pfw_varints of, works;
	unsigned says;
	int error = read_head(reader, &says, &of, &works);

	(void)last;
	if (!error && pfw_varints_next(reader) == 0)
		return -ENOENT;
	error = error ? error : read_thread_rows(&lanes, user, reader, of);
	free(lanes.row);
	free(lanes.lane);
	return error;
}

int pfw_table_threads_from_index(struct pfw_index *index, struct pfw_table_thread_rows *rows)
{
	return pfw_index_parts(index, &pfw_table_kind, PFW_INDEX_END, rows, pfw_table_read_threads);
}

/* ---- steps ---- */

/* The rows of a section and device. */
static int read_steps(struct pfw_table_step_rows *rows, struct pfw_varints *reader)
{
	uint64_t section = pfw_varints_next(reader), value[PFW_TABLE_COLUMNS];
	struct pfw_table_step_row row = { .section = (enum pfw_table_section)section,
					  .device = (signed char)pfw_varints_next(reader) };
	struct pfw_table_columns columns;
	int error = 0;

	pfw_table_get_columns(reader, PFW_TABLE_COLUMNS, &columns);
	if (reader->bad || section >= PFW_TABLE_SECTIONS)
		return -EBADMSG;
	memcpy(value, columns.least, sizeof(value));
	for (uint64_t i = 0; i < columns.rows && !error; i++) {
		pfw_table_row_of(&columns, i, value);
		row.step = (int64_t)(value[0] - 1);
		error = pfw_table_tally_of(&row.sums, value + 1) ? rows->row(rows->user, &row)
								 : -EBADMSG;
	}
	return error;
}

/* -ENOENT: they were too many. */
int pfw_table_read_kinds(void *user, struct pfw_varints *reader, bool last)
{
	struct pfw_table_step_rows *rows = user;
	struct pfw_slice *text = NULL;
	uint64_t texts = 0, step = 0;
	int64_t begin = 0;
	int error;

	(void)last;
	if (pfw_varints_next(reader) != 1)
		return reader->bad ? -EBADMSG : -ENOENT;
	error = get_texts(reader, &text, &texts);
	while (!error && reader->at < reader->end) {
		struct pfw_table_kind_row row;
		uint64_t kind;

		step += pfw_varints_next(reader);
		kind = pfw_varints_next(reader);
		row = (struct pfw_table_kind_row){ .step = (int64_t)step - 1 };
		row.device = (signed char)pfw_varints_next(reader);
		row.sums.count = pfw_varints_next(reader);
		row.sums.self_ns = pfw_varint_unfold(pfw_varints_next(reader));
		row.sums.self_device_ns = pfw_varint_unfold(pfw_varints_next(reader));
		begin = (int64_t)((uint64_t)begin +
				  (uint64_t)pfw_varint_unfold(pfw_varints_next(reader)));
		row.sums.first_ns = begin;
		row.sums.first_dur_ns = (int64_t)pfw_varints_next(reader);
		if (reader->bad || kind >= texts) {
			error = -EBADMSG;
			break;
		}
		row.kind = text[kind];
		error = rows->kind(rows->user, &row);
	}
	free(text);
	return error;
}

int pfw_table_read_steps(void *user, struct pfw_varints *reader, bool last)
{
	struct pfw_table_step_rows *rows = user;
	int error = 0;

	(void)last;
	if (reader->at == reader->end)
		return -ENOENT;
	rows->says = (unsigned)pfw_varints_next(reader);
	rows->followers = pfw_varints_next(reader) != 0;
	rows->leaders = (unsigned)pfw_varints_next(reader);
	while (!error && reader->at < reader->end)
		error = read_steps(rows, reader);
	return error;
}

int pfw_table_steps_from_index(struct pfw_index *index, struct pfw_table_step_rows *rows)
{
	int error =
		pfw_index_parts(index, &pfw_table_kind, PFW_INDEX_MORE, rows, pfw_table_read_steps);

	return error || !rows->kind ? error
				    : pfw_index_parts(index, &pfw_table_kind, PFW_INDEX_MORE + 2,
						      rows, pfw_table_read_kinds);
}

int pfw_table_read_durations(void *user, struct pfw_varints *reader, bool last)
{
	const struct pfw_table_step_durations *durations = user;
	struct pfw_table_columns columns;
	uint64_t value[PFW_TABLE_COLUMNS];
	struct pfw_varints sketches;
	int error = 0;

	(void)last;
	pfw_table_get_columns(reader, 2, &columns);
	sketches = pfw_varints_part(reader);
	memcpy(value, columns.least, sizeof(value));
	for (uint64_t i = 0; i < columns.rows && !error; i++) {
		struct pfw_varints of = { .at = sketches.at };

		pfw_table_row_of(&columns, i, value);
		if (value[1] > (size_t)(sketches.end - sketches.at))
			return -EBADMSG;
		of.end = value[1] ? of.at + value[1] : of.at;
		sketches.at = of.end;
		error = durations->step(durations->user, (int64_t)(value[0] - 1), of);
	}
	return error;
}

int pfw_table_durations_from_index(struct pfw_index *index,
				   struct pfw_table_step_durations *durations)
{
	return pfw_index_parts(index, &pfw_table_kind, PFW_INDEX_MORE + 1, durations,
			       pfw_table_read_durations);
}
