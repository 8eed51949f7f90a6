/* read/rows.c - a line of a trace becomes a row of a batch; see rows.h. */
#include "read/rows.h"

#include <string.h>

#include "store/json/walk.h"
#include "store/line/args.h"
#include "store/pass/fname_hashes.h"
#include "store/read/scan.h"

/* Up to so many wanted args are searched for by name; for more, all args of the line are walked. */
#define FEW_ARGS 4

/* One line on its way into a row. */
struct row {
	const struct pfw_read_rows *rows;
	struct pfw_read_batch *batch;
	struct pfw_read_texts *texts;
	const struct pfw_entry *entry;
};

/* ---- what every line has ---- */

static inline void put_int(struct pfw_read_batch *batch, int place, bool known, uint64_t number)
{
	if (place >= 0 && known && number <= INT64_MAX)
		pfw_read_batch_int(batch, (unsigned)place, (int64_t)number);
}

static inline void put_text(const struct row *row, unsigned place, const struct pfw_slice *text)
{
	struct pfw_slice plain;

	if (__builtin_expect(!text->escaped, 1)) {
		pfw_read_batch_text(row->batch, row->texts, place, text->at, text->bytes);
		return;
	}
	plain = pfw_scratch_plain(*text, row->texts->scratch);
	pfw_read_batch_text(row->batch, row->texts, place, plain.at, plain.bytes);
}

static inline void put_known_text(const struct row *row, enum pfw_read_column column, bool known,
				  const struct pfw_slice *text)
{
	int place = row->rows->columns->place[column];

	if (place >= 0 && known)
		put_text(row, (unsigned)place, text);
}

/* The last row's number of a text; 0: the column is not wanted. */
static int32_t number_in(const struct row *row, enum pfw_read_column column)
{
	int place = row->rows->columns->place[column];
	const int32_t *value = place < 0 ? NULL : row->batch->cells[place].value;

	return value ? value[row->batch->rows - 1] : 0;
}

static inline void put_number(const struct row *row, enum pfw_read_column column, int32_t number)
{
	int place = row->rows->columns->place[column];
	int32_t *value =
		place < 0 ? NULL : pfw_read_batch_cell(row->batch, (unsigned)place, sizeof(*value));

	if (value)
		*value = number;
}

/* Most lines have the name and the cat of an earlier line. */
static inline void put_name(const struct row *row, unsigned has)
{
	const struct pfw_entry *entry = row->entry;
	struct pfw_read_named *known = &row->texts->named[entry->named % PFW_READ_NUMBERS];

	if (entry->named && known->number == entry->named && known->batch == row->texts->batch) {
		put_number(row, PFW_READ_COLUMN_cat, known->cat);
		put_number(row, PFW_READ_COLUMN_name, known->name);
		return;
	}
	put_known_text(row, PFW_READ_COLUMN_cat, has & PFW_ENTRY_CAT, &entry->cat);
	put_known_text(row, PFW_READ_COLUMN_name, has & PFW_ENTRY_NAME, &entry->name);
	if (entry->named && !row->batch->error)
		*known = (struct pfw_read_named){ entry->named, row->texts->batch,
						  number_in(row, PFW_READ_COLUMN_name),
						  number_in(row, PFW_READ_COLUMN_cat) };
}

static inline void put_ph(const struct row *row, unsigned has)
{
	const struct pfw_slice ph = { .at = &row->entry->ph, .bytes = 1 };
	struct pfw_read_texts *texts = row->texts;
	unsigned letter = (unsigned char)*ph.at % 32;

	if (!(has & PFW_ENTRY_PH))
		return;
	if (texts->ph[letter].batch == texts->batch + 1) {
		put_number(row, PFW_READ_COLUMN_ph, texts->ph[letter].number);
		return;
	}
	put_known_text(row, PFW_READ_COLUMN_ph, true, &ph);
	if (row->batch->error)
		return;
	texts->ph[letter].batch = texts->batch + 1;
	texts->ph[letter].number = number_in(row, PFW_READ_COLUMN_ph);
}

static void put_line(const struct row *row, int64_t rank)
{
	const struct pfw_entry *entry = row->entry;
	const int8_t *place = row->rows->columns->place;
	struct pfw_read_batch *batch = row->batch;
	unsigned has = entry->has & ~(unsigned)entry->wrong;

	/* A negative rank is none. */
	put_int(batch, place[PFW_READ_COLUMN_rank], true, (uint64_t)rank);
	put_int(batch, place[PFW_READ_COLUMN_pid], has & PFW_ENTRY_PID, entry->pid);
	put_int(batch, place[PFW_READ_COLUMN_tid], has & PFW_ENTRY_TID, entry->tid);
	put_int(batch, place[PFW_READ_COLUMN_id], has & PFW_ENTRY_ID, entry->id);
	if (has & PFW_ENTRY_TS && place[PFW_READ_COLUMN_ts] >= 0)
		pfw_read_batch_int(batch, (unsigned)place[PFW_READ_COLUMN_ts], entry->ts_ns);
	if (has & PFW_ENTRY_DUR && place[PFW_READ_COLUMN_dur] >= 0)
		pfw_read_batch_int(batch, (unsigned)place[PFW_READ_COLUMN_dur], entry->dur_ns);
	put_ph(row, has);
	put_name(row, has);
}

/* ---- args ---- */

/* [x], [x,y] or [x,y,z]; those that are missing are 1, as older versions wrote them. */
static bool read_dim3(const struct pfw_value *value, int32_t number[3])
{
	struct pfw_value one;
	struct pfw_walk walk;
	unsigned count = 0;
	int64_t wide;

	if (value->type != PFW_VALUE_ARRAY)
		return false;
	number[0] = number[1] = number[2] = 1;
	pfw_walk_init(&walk, &value->text);
	for (; pfw_elements_next(&walk, &one); count++) {
		if (count == 3 || !pfw_value_i64(&one, &wide) || wide < 0 || wide > INT32_MAX)
			return false;
		number[count] = (int32_t)wide;
	}
	return count;
}

/* Set the cell of an arg; place -1: there is none.  False: it is not of the column's kind. */
static bool put_value(const struct row *row, int place, enum pfw_read_kind kind,
		      const struct pfw_value *value)
{
	int32_t three[3];
	int64_t number = 0;

	if (kind == PFW_READ_INT    ? !pfw_value_i64(value, &number)
	    : kind == PFW_READ_REAL ? value->type != PFW_VALUE_NUMBER
	    : kind == PFW_READ_TEXT ? value->type != PFW_VALUE_STRING
	    : kind == PFW_READ_LIST ? value->type != PFW_VALUE_ARRAY
				    : !read_dim3(value, three))
		return false;
	if (place < 0)
		return true;
	if (kind == PFW_READ_INT)
		pfw_read_batch_int(row->batch, (unsigned)place, number);
	else if (kind == PFW_READ_REAL)
		pfw_read_batch_real(row->batch, (unsigned)place, pfw_slice_f64(&value->text));
	else if (kind == PFW_READ_DIM3)
		pfw_read_batch_dim3(row->batch, (unsigned)place, three);
	else
		put_text(row, (unsigned)place, &value->text);
	return true;
}

/* `"key":value` into args_json, as the line has them. */
static void put_rest(const struct row *row, const struct pfw_slice *key,
		     const struct pfw_value *value, bool *begun)
{
	int place = row->rows->columns->place[PFW_READ_COLUMN_args_json];
	unsigned quote = value->type == PFW_VALUE_STRING;

	if (place < 0)
		return;
	pfw_read_batch_rest(row->batch, (unsigned)place, *begun ? ",\"" : "{\"", 2);
	pfw_read_batch_rest(row->batch, (unsigned)place, key->at, key->bytes);
	pfw_read_batch_rest(row->batch, (unsigned)place, "\":", 2);
	pfw_read_batch_rest(row->batch, (unsigned)place, value->text.at - quote,
			    value->text.bytes + 2 * quote);
	*begun = true;
}

/* `before`: the column of the arg before.  Args come in the same order, mostly. */
static int column_of(const struct row *row, int before, const struct pfw_slice *key)
{
	uint8_t *after = &row->texts->after[before + 1];
	const struct pfw_read_known *guess = &pfw_read_known[*after];
	char plain[32];
	int column;

	if (guess->key && guess->key_bytes == key->bytes &&
	    pfw_hash_same(guess->key, key->at, key->bytes))
		return *after;

	if (row->entry->args_more && memchr(key->at, '\\', key->bytes)) {
		const struct pfw_slice escaped = { key->at, key->bytes, true };

		/* A key that was cut is longer than the key of any column. */
		return pfw_read_columns_find(row->rows->columns, plain,
					     pfw_slice_decode(&escaped, plain, sizeof(plain)));
	}
	column = pfw_read_columns_find(row->rows->columns, key->at, key->bytes);
	if (column >= 0)
		*after = (uint8_t)column;
	return column;
}

/* Put an arg into its column, -1 for none, or into args_json.  True: it does not belong there. */
static bool put_arg(const struct row *row, int column, const struct pfw_slice *key,
		    const struct pfw_value *value, bool *begun)
{
	int place = column < 0 ? -1 : row->rows->columns->place[column];

	if (column >= 0 && value->type != PFW_VALUE_NULL &&
	    put_value(row, place, pfw_read_known[column].kind, value))
		return true;
	if (place >= 0) /* if a key is there twice, the last value counts */
		pfw_read_batch_unset(row->batch, (unsigned)place);
	if (column >= 0 && value->type == PFW_VALUE_NULL)
		return true;
	put_rest(row, key, value, begun);
	return false;
}

static void end_rest(const struct row *row, bool begun)
{
	if (begun)
		pfw_read_batch_rest(row->batch,
				    (unsigned)row->rows->columns->place[PFW_READ_COLUMN_args_json],
				    "}", 1);
}

static void put_args(const struct row *row)
{
	struct pfw_value value;
	struct pfw_slice key;
	struct pfw_args args;
	bool begun = false;
	int column = -1;

	pfw_args_init(&args, row->entry);
	while (pfw_args_next(&args, &key, &value)) {
		column = column_of(row, column, &key);
		put_arg(row, column, &key, &value, &begun);
	}
	end_rest(row, begun);
}

/* ---- args of lines of one form ---- */

/* Note where arg i went, which the last row has.  `fits`: its value belongs into a column.  False:
 * its key is there twice. */
static bool learn(const struct row *row, struct pfw_read_form *form, unsigned i, int column,
		  bool fits)
{
	const struct pfw_read_columns *columns = row->rows->columns;
	int place = column < 0 ? -1 : columns->place[column];
	bool differs = row->entry->varies >> i & 1;
	struct pfw_read_put *put = &form->put[form->puts];
	const struct pfw_read_cells *cells;

	for (unsigned j = 0; place >= 0 && j < form->puts; j++) {
		if (form->put[j].place == place)
			return false;
	}
	if (place < 0 && (columns->place[PFW_READ_COLUMN_args_json] < 0 || (fits && !differs)))
		return true;
	*put = (struct pfw_read_put){ .arg = (uint8_t)i,
				      .place = (int8_t)place,
				      .column = (int16_t)column };
	form->puts++;
	cells = place < 0 ? NULL : &row->batch->cells[place];
	if (differs || !fits || !cells || !pfw_read_cells_set(row->batch, cells))
		return true;
	put->size = cells->size;
	memcpy(put->value, (const char *)cells->value + (row->batch->rows - 1) * cells->size,
	       cells->size);
	return true;
}

static void put_new_form(const struct row *row, struct pfw_read_form *form)
{
	const struct pfw_entry *entry = row->entry;
	bool begun = false, known = true;
	int column = -1;

	form->puts = 0;
	for (unsigned i = 0; i < entry->arg_count; i++) {
		struct pfw_value value;
		struct pfw_slice key;
		bool fits;

		pfw_entry_pair(entry, i, &key, &value);
		column = column_of(row, column, &key);
		fits = put_arg(row, column, &key, &value, &begun);
		known = known && learn(row, form, i, column, fits);
	}
	end_rest(row, begun);
	form->number = known && !row->batch->error ? entry->form : 0;
	form->batch = row->texts->batch;
}

/* Put a value that differs, if it is a whole number or a text of its column. */
static inline bool put_plain(const struct row *row, const struct pfw_read_put *put)
{
	const struct pfw_entry_pair *arg = &row->entry->arg[put->arg];
	enum pfw_read_kind kind;
	int64_t number;

	if (put->place < 0)
		return false;
	kind = pfw_read_known[put->column].kind;
	if (kind == PFW_READ_INT && pfw_entry_i64(row->entry, put->arg, &number)) {
		pfw_read_batch_int(row->batch, (unsigned)put->place, number);
		return true;
	}
	if (kind != PFW_READ_TEXT || arg->type != PFW_VALUE_STRING || arg->escaped)
		return false;
	pfw_read_batch_text(row->batch, row->texts, (unsigned)put->place,
			    row->entry->args.at + arg->value + 1, arg->bytes - 2);
	return true;
}

/* Lines of one form differ in few values: the others are known. */
static void put_form(const struct row *row)
{
	const struct pfw_entry *entry = row->entry;
	struct pfw_read_form *form = &row->texts->form[entry->form % PFW_READ_NUMBERS];
	bool begun = false;

	if (form->number != entry->form || form->batch != row->texts->batch) {
		put_new_form(row, form);
		return;
	}
	for (const struct pfw_read_put *put = form->put; put < form->put + form->puts; put++) {
		struct pfw_value value;
		struct pfw_slice key;
		char *cell;

		if (!put->size) {
			if (put_plain(row, put))
				continue;
			pfw_entry_pair(entry, put->arg, &key, &value);
			put_arg(row, put->column, &key, &value, &begun);
			continue;
		}
		cell = pfw_read_batch_cell(row->batch, (unsigned)put->place, put->size);
		if (cell && put->size == sizeof(int64_t))
			memcpy(cell, put->value, sizeof(int64_t));
		else if (cell)
			memcpy(cell, put->value, put->size);
	}
	end_rest(row, begun);
}

static void put_few_args(const struct row *row)
{
	const struct pfw_read_columns *columns = row->rows->columns;
	const struct pfw_entry *entry = row->entry;

	for (unsigned place = 0; place < columns->count; place++) {
		const struct pfw_read_known *known = &pfw_read_known[columns->column[place]];
		struct pfw_value value;

		if (!known->key ||
		    (!entry->args_more &&
		     !(entry->arg_keys & pfw_entry_key_bit(known->key, known->key_bytes))))
			continue;
		if (pfw_entry_find(entry, known->key, known->key_bytes, &value))
			put_value(row, (int)place, known->kind, &value);
	}
}

/* DFTracer's lines have a hash in place of the name. */
static void put_hashed_fname(const struct row *row)
{
	int place = row->rows->columns->place[PFW_READ_ARG_fname];
	struct pfw_value value;

	if (place >= 0 && pfw_fname_hashes_find(row->rows->fnames, row->entry, &value) &&
	    value.type == PFW_VALUE_STRING)
		put_text(row, (unsigned)place, &value.text);
}

void pfw_read_rows_add(const struct pfw_read_rows *rows, struct pfw_read_batch *batch,
		       struct pfw_read_texts *texts, const struct pfw_entry *entry, int64_t rank)
{
	const struct row row = { rows, batch, texts, entry };

	pfw_read_batch_row(batch);
	if (batch->error)
		return;
	put_line(&row, rank);
	if (entry->form && entry->arg_count <= PFW_READ_PUTS &&
	    (rows->columns->args || rows->columns->place[PFW_READ_COLUMN_args_json] >= 0))
		put_form(&row);
	else if (rows->columns->place[PFW_READ_COLUMN_args_json] >= 0 ||
		 rows->columns->args > FEW_ARGS)
		put_args(&row);
	else if (rows->columns->args)
		put_few_args(&row);
	if (rows->fnames)
		put_hashed_fname(&row);
}
