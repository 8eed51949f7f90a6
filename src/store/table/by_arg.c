/* store/table/by_arg.c - adds up by args; see by_arg.h. */
#include "store/table/by_arg.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/line/args.h"
#include "store/table/code.h"
#include "store/table/key.h"

/* A block keeps the args of the blocks before, which mostly are the same, up to so many. */
#define ARGS_KEPT 4096u

/* Sums of a kind in a step and of a device. */
struct kind_row {
	struct pfw_table_of_kind sums;
	uint32_t kind;
	uint32_t next; /* another kind of these, plus 1; 0: none */
};

/* GPU work of a row with the same args and the same operator. */
struct work_row {
	uint32_t row, args, owner; /* its number in `operators`, plus 1; 0: none */
	struct pfw_tally sums;
};

struct pfw_table_by_arg {
	uint32_t number;       /* unique in this process, from 1 on */
	struct pfw_spill work; /* struct pfw_table_work each */
	struct pfw_spill_budget budget;
	struct pfw_text_ids args, operators, kinds;
	/* Of each row: its number in `kinds`, and in `operators`, plus 1; 0: not known yet. */
	uint32_t *kind_of, *operator_of;
	size_t kind_room, operator_room;
	struct kind_row *kind;
	struct work_row *row;
	uint32_t *first; /* of each step and device: its last kind, plus 1; 0: none */
	uint32_t kinds_of_steps;
	struct pfw_pair_ids row_ids;
	size_t first_room, kind_row_room, row_room;
	bool no_kinds;
};

/* ---- GPU work of a block ---- */

/* The args by which rows are made: the kind, and of kernels how they were launched. */
static bool makes_rows(const struct pfw_slice *key)
{
	return (key->bytes == 4 && pfw_member_is(key, "kind")) || pfw_table_launch_key(key);
}

#define ARGS_BYTES 512u

/* Append to the text; args that are too long make it -1, and so the rows incomplete. */
static int append(char text[ARGS_BYTES], int used, const char *more, size_t bytes)
{
	if (used < 0 || (size_t)used + bytes > ARGS_BYTES)
		return -1;
	memcpy(text + used, more, bytes);
	return used + (int)bytes;
}

static int append_arg(char text[ARGS_BYTES], int used, const struct pfw_slice *key,
		      const struct pfw_value *value)
{
	bool quoted = value->type == PFW_VALUE_STRING;

	used = used == 1 ? append(text, used, "\"", 1) : append(text, used, ",\"", 2);
	used = append(text, used, key->at, key->bytes);
	used = append(text, used, "\":\"", quoted ? 3 : 2);
	used = append(text, used, value->text.at, value->text.bytes);
	return append(text, used, "\"", quoted);
}

/* The places of these args in a form: runs of args that follow each other in the line. */
#define RUNS 4u
struct form_runs {
	uint64_t form;
	unsigned runs; /* more than RUNS: too many */
	struct {
		uint8_t first, last;
	} run[RUNS];
};

static const struct form_runs *runs_of_form(const struct pfw_entry *entry)
{
	static _Thread_local struct form_runs forms[PFW_ENTRY_NUMBERS];
	struct form_runs *form = &forms[entry->form % PFW_ENTRY_NUMBERS];
	struct pfw_slice key;
	struct pfw_value value;

	if (form->form == entry->form)
		return form;
	*form = (struct form_runs){ .form = entry->form };
	for (unsigned i = 0; i < entry->arg_count; i++) {
		pfw_entry_pair(entry, i, &key, &value);
		if (!makes_rows(&key))
			continue;
		if (!form->runs || form->runs > RUNS || form->run[form->runs - 1].last + 1u != i) {
			if (form->runs++ >= RUNS)
				continue;
			form->run[form->runs - 1].first = (uint8_t)i;
		}
		form->run[form->runs - 1].last = (uint8_t)i;
	}
	return form;
}
_Static_assert(PFW_ENTRY_ARGS_MAX <= UINT8_MAX, "struct form_runs");

/* The text of a run. */
static struct pfw_slice run_of(const struct form_runs *form, unsigned run,
			       const struct pfw_entry *entry)
{
	const struct pfw_entry_pair *last = &entry->arg[form->run[run].last];
	size_t begin = entry->arg[form->run[run].first].key - 1;

	return (struct pfw_slice){ .at = entry->args.at + begin,
				   .bytes = last->value + last->bytes - begin };
}

/* The bytes of an object with these args, or -1; `form` NULL: it has none. */
static int write_args(char text[ARGS_BYTES], const struct pfw_entry *entry,
		      const struct form_runs *form)
{
	struct pfw_slice key;
	struct pfw_value value;
	struct pfw_args args;
	int used = append(text, 0, "{", 1);

	for (unsigned i = 0; form && i < form->runs; i++) {
		struct pfw_slice run = run_of(form, i, entry);

		used = append(text, used, ",", i > 0);
		used = append(text, used, run.at, run.bytes);
	}
	if (form)
		return append(text, used, "}", 1);
	pfw_args_init(&args, entry);
	while (pfw_args_next(&args, &key, &value)) {
		if (makes_rows(&key))
			used = append_arg(text, used, &key, &value);
	}
	return append(text, used, "}", 1);
}

/* Whether it would write this text. */
static bool are_args(const struct pfw_text_id *text, const struct pfw_entry *entry,
		     const struct form_runs *form)
{
	const char *at = text->text, *end = at + text->bytes;

	for (unsigned i = 0; i < form->runs; i++) {
		struct pfw_slice run = run_of(form, i, entry);

		if ((size_t)(end - at) < run.bytes + 2 || (i && *at != ',') ||
		    memcmp(at + 1, run.at, run.bytes) != 0)
			return false;
		at += 1 + run.bytes;
	}
	return form->runs && end - at == 1;
}

int64_t pfw_table_works_args(struct pfw_table_works *works, const struct pfw_entry *entry)
{
	const struct form_runs *form = entry->form ? runs_of_form(entry) : NULL;
	struct pfw_table_args *last = works->known ? &works->known[works->last] : NULL;
	char text[ARGS_BYTES];
	int64_t number;
	int bytes;

	if (form && form->runs > RUNS)
		form = NULL;
	/* The same work mostly comes in the same order again. */
	if (form && last && last->after &&
	    are_args(&works->args.name[last->after - 1], entry, form)) {
		works->last = last->after - 1;
		return works->last;
	}
	bytes = write_args(text, entry, form);
	/* An empty text: the args are too long to be kept. */
	number = pfw_text_ids_of(&works->args, 0, text, bytes < 0 ? 0 : (size_t)bytes);
	if (number < 0 || PFW_REACH(works->known, (size_t)number, works->known_room))
		return -ENOMEM;
	works->known[works->last].after = (uint32_t)number + 1;
	works->last = (uint32_t)number;
	return number;
}

int pfw_table_works_add(struct pfw_table_works *works, const struct pfw_entry *entry,
			const struct pfw_table_line *line, uint32_t row, uint32_t args)
{
	return PFW_PUSH(works->work, works->works, works->room,
			(struct pfw_table_work){ .start_ns = line->start_ns,
						 .dur_ns = line->dur_ns,
						 .launcher = line->launched_by,
						 .otherwise = line->otherwise,
						 .process = entry->process,
						 .row = row,
						 .args = args,
						 .said = line->said,
						 .device = (uint8_t)line->device,
						 .hidden = line->section != PFW_TABLE_COMPUTE });
}

void pfw_table_works_clear(struct pfw_table_works *works)
{
	if (works->args.count > ARGS_KEPT) {
		pfw_text_ids_clear(&works->args);
		memset(works->known, 0, works->known_room * sizeof(*works->known));
		works->last = 0;
	}
	works->works = 0;
}

void pfw_table_works_release(struct pfw_table_works *works)
{
	pfw_text_ids_release(&works->args);
	free(works->known);
	free(works->work);
	*works = (struct pfw_table_works){ .works = 0 };
}

/* ---- of a file ---- */

struct pfw_table_by_arg *pfw_table_by_arg_create(void)
{
	static _Atomic uint32_t files;
	struct pfw_table_by_arg *by_arg = calloc(1, sizeof(*by_arg));

	if (by_arg) {
		by_arg->number = atomic_fetch_add(&files, 1) + 1;
		by_arg->work = (struct pfw_spill)PFW_SPILL_EMPTY;
		by_arg->budget.bytes = pfw_spill_share();
	}
	return by_arg;
}

void pfw_table_by_arg_free(struct pfw_table_by_arg *by_arg)
{
	if (!by_arg)
		return;
	pfw_spill_free(&by_arg->work, &by_arg->budget);
	pfw_text_ids_release(&by_arg->args);
	pfw_text_ids_release(&by_arg->operators);
	pfw_text_ids_release(&by_arg->kinds);
	pfw_pair_ids_release(&by_arg->row_ids);
	free(by_arg->kind_of);
	free(by_arg->operator_of);
	PFW_FREE_MAPPED(by_arg->kind, by_arg->kind_row_room);
	PFW_FREE_MAPPED(by_arg->first, by_arg->first_room);
	free(by_arg->row);
	free(by_arg);
}

static int launch(struct pfw_nesting *nesting, const struct pfw_table_work *work)
{
	return work->launcher ? pfw_nesting_launch(
					nesting,
					&(struct pfw_launch){ .launcher = work->launcher,
							      .otherwise = work->otherwise,
							      .ns = work->dur_ns,
							      .process = (uint32_t)work->process })
			      : 0;
}

/* The file's number of some args of a block, or -ENOMEM.  The block knows that of the file to which it was
 * given last. */
static int64_t map_args(struct pfw_table_by_arg *by_arg, struct pfw_table_works *works,
			uint32_t args)
{
	const struct pfw_text_id *text = &works->args.name[args];
	struct pfw_table_args *known = &works->known[args];
	int64_t number;

	if (known->file == by_arg->number)
		return known->of_file;
	number = pfw_text_ids_of(&by_arg->args, 0, text->text, text->bytes);
	if (number < 0)
		return number;
	known->file = by_arg->number;
	known->of_file = (uint32_t)number;
	return number;
}

int pfw_table_by_arg_take(struct pfw_table_by_arg *by_arg, struct pfw_table_works *works,
			  const struct pfw_averages *rows, struct pfw_nesting *nesting)
{
	size_t bytes = works->works * sizeof(struct pfw_table_work);
	struct pfw_table_work *work = NULL;
	int64_t process = 0, args;
	int error;

	if (!works->works)
		return 0;
	error = pfw_spill_reserve(&by_arg->work, bytes, &by_arg->budget);
	if (!error)
		work = pfw_spill_end(&by_arg->work);
	for (size_t i = 0; i < works->works && !error; i++, work++) {
		*work = works->work[i];
		if (!i || work->process != works->work[i - 1].process)
			process = pfw_nesting_process(nesting, work->process);
		args = work->hidden ? 0 : map_args(by_arg, works, work->args);
		if (process < 0 || args < 0)
			return -ENOMEM;
		work->process = (uint64_t)process;
		work->row = rows->row[work->row].merged;
		work->args = (uint32_t)args;
		error = launch(nesting, work);
	}
	by_arg->work.bytes += error ? 0 : bytes;
	return error;
}

const struct pfw_table_work *pfw_table_by_arg_works(const struct pfw_table_by_arg *by_arg,
						    size_t *count)
{
	*count = by_arg->work.bytes / sizeof(struct pfw_table_work);
	return by_arg->work.at;
}

/* ---- kinds by step ---- */

static int64_t kind_of(struct pfw_table_by_arg *by_arg, const struct pfw_average *rows,
		       uint32_t row)
{
	size_t bytes;
	const char *text;
	int64_t kind;

	if (PFW_REACH(by_arg->kind_of, row, by_arg->kind_room))
		return -ENOMEM;
	if (by_arg->kind_of[row])
		return by_arg->kind_of[row] - 1;
	text = pfw_table_key_field(rows[row].key, PFW_TABLE_INDEX_KIND, &bytes);
	kind = pfw_text_ids_of(&by_arg->kinds, 0, text, bytes);
	if (kind >= 0)
		by_arg->kind_of[row] = (uint32_t)kind + 1;
	return kind;
}

static struct kind_row *add_kind(struct pfw_table_by_arg *by_arg, uint32_t kind, uint32_t in)
{
	uint32_t number = by_arg->kinds_of_steps;
	struct kind_row *row;

	if (number >= PFW_TABLE_ARG_ROWS ||
	    PFW_REACH_MAPPED(by_arg->first, in, by_arg->first_room) ||
	    PFW_REACH_MAPPED(by_arg->kind, number, by_arg->kind_row_room))
		return NULL;
	row = &by_arg->kind[number];
	row->kind = kind;
	row->next = by_arg->first[in];
	by_arg->first[in] = ++by_arg->kinds_of_steps;
	return row;
}

struct pfw_table_of_kind *pfw_table_by_arg_kind(struct pfw_table_by_arg *by_arg,
						const struct pfw_average *rows, uint32_t row,
						uint32_t in)
{
	int64_t kind = by_arg->no_kinds ? -1 : kind_of(by_arg, rows, row);
	uint32_t number = in < by_arg->first_room ? by_arg->first[in] : 0;
	struct kind_row *found = NULL;

	for (; number && kind >= 0; number = found->next) {
		found = &by_arg->kind[number - 1];
		if (found->kind == kind)
			return &found->sums;
	}
	found = kind < 0 ? NULL : add_kind(by_arg, (uint32_t)kind, in);
	by_arg->no_kinds |= !found;
	return found ? &found->sums : NULL;
}

static void put_texts(struct pfw_blob *data, const struct pfw_text_ids *texts)
{
	PFW_BLOB_PUT(data, texts->count);
	for (uint32_t i = 0; i < texts->count; i++)
		pfw_blob_bytes(data, texts->name[i].text, texts->name[i].bytes);
}

bool pfw_table_by_arg_put_kinds(const struct pfw_table_by_arg *by_arg, struct pfw_blob *data)
{
	PFW_BLOB_PUT(data, !by_arg->no_kinds);
	if (!by_arg->no_kinds)
		put_texts(data, &by_arg->kinds);
	return !by_arg->no_kinds;
}

void pfw_table_by_arg_put_kinds_of(const struct pfw_table_by_arg *by_arg,
				   struct pfw_table_kinds_of *of, struct pfw_blob *data)
{
	uint32_t number = of->in < by_arg->first_room ? by_arg->first[of->in] : 0;

	for (; number; number = by_arg->kind[number - 1].next) {
		const struct kind_row *row = &by_arg->kind[number - 1];
		const struct pfw_table_of_kind *sums = &row->sums;

		PFW_BLOB_PUT(data, of->step - of->last_step, row->kind, of->device, sums->count,
			     pfw_varint_fold(sums->self_ns), pfw_varint_fold(sums->self_device_ns),
			     pfw_varint_fold(
				     (int64_t)((uint64_t)sums->first_ns - (uint64_t)of->last_ns)),
			     (uint64_t)sums->first_dur_ns);
		of->last_step = of->step;
		of->last_ns = sums->first_ns;
	}
}

/* ---- GPU work by launch ---- */

/* The number of an operator's name, plus 1, or -ENOMEM; 0: there is none. */
static int64_t operator_of(struct pfw_table_by_arg *by_arg, const struct pfw_averages *rows,
			   uint32_t group)
{
	size_t bytes;
	const char *name;
	int64_t number;

	if (group == PFW_NO_GROUP)
		return 0;
	if (PFW_REACH(by_arg->operator_of, group, by_arg->operator_room))
		return -ENOMEM;
	if (by_arg->operator_of[group])
		return by_arg->operator_of[group];
	name = pfw_table_key_field(rows->row[group].key, PFW_TABLE_INDEX_NAME, &bytes);
	number = pfw_text_ids_of(&by_arg->operators, 0, name, bytes);
	if (number >= 0)
		by_arg->operator_of[group] = (uint32_t)number + 1;
	return number < 0 ? number : number + 1;
}

static struct work_row *work_row_of(struct pfw_table_by_arg *by_arg,
				    const struct pfw_table_work *work, uint32_t owner)
{
	int64_t number =
		pfw_pair_ids_of(&by_arg->row_ids, (uint64_t)work->row << 32 | work->args, owner);
	struct work_row *row;

	if (number < 0 || PFW_REACH(by_arg->row, (size_t)number, by_arg->row_room))
		return NULL;
	row = &by_arg->row[number];
	row->row = work->row;
	row->args = work->args;
	row->owner = owner;
	return row;
}

/* 0, or -ENOMEM. */
static int add_works(struct pfw_table_by_arg *by_arg, const struct pfw_nesting *nesting,
		     const struct pfw_averages *rows)
{
	size_t count;
	const struct pfw_table_work *work = pfw_table_by_arg_works(by_arg, &count);
	struct pfw_launches_hint hint = { { 0 } };

	for (size_t i = 0; i < count && by_arg->row_ids.count <= PFW_TABLE_ARG_ROWS; i++) {
		const struct pfw_launch launch = { .launcher = work[i].launcher,
						   .otherwise = work[i].otherwise,
						   .process = (uint32_t)work[i].process };
		struct work_row *row;
		int64_t owner;

		if (work[i].hidden)
			continue;
		owner = operator_of(by_arg, rows, pfw_nesting_taker(nesting, &launch, &hint));
		row = owner < 0 ? NULL : work_row_of(by_arg, &work[i], (uint32_t)owner);
		if (!row)
			return -ENOMEM;
		pfw_tally_device(&row->sums, work[i].start_ns, work[i].dur_ns);
	}
	return 0;
}

/* Whether all args could be kept. */
static bool has_all(const struct pfw_table_by_arg *by_arg)
{
	return by_arg->row_ids.count <= PFW_TABLE_ARG_ROWS &&
	       pfw_text_ids_find(&by_arg->args, 0, "", 0) < 0;
}

int pfw_table_by_arg_put(struct pfw_table_by_arg *by_arg, const struct pfw_nesting *nesting,
			 const struct pfw_averages *rows, const uint32_t *number,
			 struct pfw_blob *data)
{
	int error = add_works(by_arg, nesting, rows);

	PFW_BLOB_PUT(data, has_all(by_arg));
	if (error || !has_all(by_arg))
		return error;
	put_texts(data, &by_arg->args);
	put_texts(data, &by_arg->operators);
	for (uint32_t i = 0; i < by_arg->row_ids.count; i++) {
		const struct work_row *row = &by_arg->row[i];

		if (!number[row->row])
			continue;
		PFW_BLOB_PUT(data, number[row->row] - 1, row->args, row->owner);
		pfw_table_put_tally(data, &row->sums);
	}
	return 0;
}
