/* store/table/line.c - reads a line: its args, its links to GPU work, its I/O; see line.h. */
#include "store/table/line.h"

#include <stddef.h>
#include <string.h>

#include "store/kit/saturate.h"
#include "store/line/step_name.h"
#include "store/nesting/launches.h"
#include "store/pass/fname_hashes.h"
#include "store/pass/steps.h"

/* ---- the line ---- */

/* What args.kind says, as bits. */
enum {
	KIND_DEVICE = 1 << 0, /* of lines that mostly do not say their device */
	KIND_CALL = 1 << 1,   /* of the runtime or the driver */
	KIND_ANNOTATION = 1 << 2,
	KIND_SYNC = 1 << 3,
	KIND_PYTHON = 1 << 4,
};

/* args of a line of cat PP besides its texts. */
struct said {
	unsigned kind;
	int device; /* -1: none */
	bool has_memory;
	struct pfw_span_extra extra;
	struct pfw_table_ids ids;
};
#define SAID_NOTHING         \
	{                    \
		.device = -1 \
	}

static int device_of(const struct pfw_value *value)
{
	uint64_t number;

	if (!pfw_value_u64(value, &number))
		return 0;
	return number < 100 ? (int)number : 99;
}

static unsigned kind_of(const struct pfw_slice *kind)
{
	static const struct {
		const char *name;
		unsigned kind;
	} kinds[] = { { "kernel", KIND_DEVICE },
		      { "memcpy", KIND_DEVICE },
		      { "memset", KIND_DEVICE },
		      { "memory", KIND_DEVICE },
		      { "sync", KIND_DEVICE | KIND_SYNC },
		      { "runtime", KIND_CALL },
		      { "driver", KIND_CALL },
		      { "annotation", KIND_ANNOTATION },
		      { "step", KIND_ANNOTATION },
		      { "python_function", KIND_PYTHON } };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (pfw_slice_is(kind, kinds[i].name))
			return kinds[i].kind;
	}
	return 0;
}

/* The member that a key sets to its number; NULL: none. */
static uint64_t *number_of(const struct pfw_slice *key, struct said *said)
{
	switch (key->bytes) {
	case 4:
		return pfw_member_is(key, "span") ? &said->ids.span : NULL;
	case 5:
		return pfw_member_is(key, "flops") ? &said->extra.flops : NULL;
	case 6:
		return pfw_member_is(key, "parent") ? &said->ids.parent : NULL;
	case 7:
		return pfw_member_is(key, "span_id") ? &said->ids.span_id : NULL;
	case 11:
		if (pfw_member_is(key, "correlation"))
			return &said->ids.correlation;
		return pfw_member_is(key, "external_id") ? &said->ids.external_id : NULL;
	default:
		return NULL;
	}
}

bool pfw_table_launch_key(const struct pfw_slice *key)
{
	switch (key->bytes) {
	case 4:
		return pfw_member_is(key, "grid");
	case 5:
		return pfw_member_is(key, "block");
	case 9:
		return pfw_member_is(key, "registers") || pfw_member_is(key, "occupancy");
	case 11:
		return pfw_member_is(key, "static_smem");
	case 12:
		return pfw_member_is(key, "dynamic_smem");
	case 13:
		return pfw_member_is(key, "blocks_per_sm");
	default:
		return false;
	}
}

/* What take_arg() did with an arg: nothing, or it set a member of `said`, or a text of the line. */
enum took { TOOK_NOTHING, TOOK_VALUE, TOOK_TEXT };

static void take_shapes(const struct pfw_value *value, struct pfw_table_line *line)
{
	line->shapes = value->text;
	line->shapes_text = value->type == PFW_VALUE_STRING;
}

static enum took take_text(const struct pfw_slice *key, const struct pfw_value *value,
			   struct pfw_table_line *line)
{
	if (pfw_member_is(key, "stack")) {
		line->stack = value->text;
	} else if (pfw_member_is(key, "fname") && value->type == PFW_VALUE_STRING) {
		line->fname = value->text;
	} else if (pfw_member_is(key, "input_shapes")) {
		take_shapes(value, line);
	} else {
		return TOOK_NOTHING;
	}
	return TOOK_TEXT;
}

static unsigned take_kind(struct pfw_table_line *line, const struct pfw_value *value)
{
	line->kind = value->text;
	return kind_of(&line->kind);
}

/* By the length of its key first: most args are none of these. */
static enum took take_arg(const struct pfw_slice *key, const struct pfw_value *value,
			  struct pfw_table_line *line, struct said *said)
{
	uint64_t *number = number_of(key, said);

	if (number)
		pfw_value_u64(value, number);
	else if (key->bytes == 4 && pfw_member_is(key, "kind"))
		said->kind = take_kind(line, value);
	else if (key->bytes == 6 && pfw_member_is(key, "device"))
		said->device = device_of(value);
	else if (key->bytes == 10 && pfw_member_is(key, "cpu_memory"))
		said->has_memory |= pfw_value_i64(value, &said->extra.cpu_memory);
	else if (key->bytes == 19 && pfw_member_is(key, "device_memory_usage"))
		said->has_memory |= pfw_value_i64(value, &said->extra.device_memory);
	else if (key->bytes == 5 || key->bytes == 12)
		return take_text(key, value, line);
	else
		return TOOK_NOTHING;
	return TOOK_VALUE;
}

/* ---- args of a form ---- */

/* The values that all lines of a form share (most of them), and the args whose values differ. */
struct known {
	uint64_t form; /* entry->form; 0: none */
	uint32_t take; /* bits of args, in `shapes` of those that are input_shapes */
	uint32_t shapes;
	unsigned step; /* the arg that says the step, plus 1; 0: none */
	unsigned kind; /* the same of the kind */
	bool launch;   /* some arg says how a kernel was launched */
	bool launch_varies;
	bool more; /* lines differ in more than struct pfw_table_form can say */
	/* Of args in `take`: where in `said` its number belongs; 0: see take_arg(). */
	uint8_t number[PFW_ENTRY_ARGS_MAX];
	struct said said;
};
_Static_assert(sizeof(struct said) < 256, "known->number");

static _Thread_local struct known knowns[PFW_ENTRY_NUMBERS];

/* Which of struct pfw_table_ids an arg is; PFW_TABLE_IDS or more: none. */
static size_t id_of(const struct known *known, unsigned arg)
{
	return (known->number[arg] - offsetof(struct said, ids)) / sizeof(uint64_t);
}

/* Set known->form, unless a key repeats: then the last one counts. */
static void learn(struct known *known, const struct pfw_entry *entry)
{
	struct said varying = SAID_NOTHING;
	struct pfw_table_line unused;
	struct pfw_slice key, other;
	struct pfw_value value;

	*known = (struct known){ .said = SAID_NOTHING };
	for (unsigned i = 0; i < entry->arg_count; i++) {
		bool varies = entry->varies >> i & 1;
		enum took took;

		pfw_entry_pair(entry, i, &key, &value);
		took = take_arg(&key, &value, &unused, varies ? &varying : &known->said);
		if (took == TOOK_TEXT || (took == TOOK_VALUE && varies))
			known->take |= 1u << i;
		if (pfw_member_is(&key, "input_shapes"))
			known->shapes |= 1u << i;
		if (pfw_member_is(&key, "step"))
			known->step = i + 1;
		if (pfw_member_is(&key, "kind"))
			known->kind = i + 1;
		known->launch |= pfw_table_launch_key(&key);
		known->launch_varies |= varies && pfw_table_launch_key(&key);
		if (number_of(&key, &varying))
			known->number[i] =
				(uint8_t)((char *)number_of(&key, &varying) - (char *)&varying);
		known->more |= took == TOOK_VALUE && varies && id_of(known, i) >= PFW_TABLE_IDS;
		for (unsigned j = 0; j < i; j++) {
			pfw_entry_pair(entry, j, &other, &value);
			if (other.bytes == key.bytes && !memcmp(other.at, key.at, key.bytes))
				return;
		}
	}
	known->form = entry->form;
}

/* NULL: the line has no known form. */
static const struct known *find_known(const struct pfw_entry *entry)
{
	struct known *known = &knowns[entry->form % PFW_ENTRY_NUMBERS];

	if (!entry->form)
		return NULL;
	if (known->form != entry->form)
		learn(known, entry);
	return known->form ? known : NULL;
}

static uint32_t note_of(uint64_t step)
{
	return step < UINT32_MAX - 1 ? (uint32_t)step + 1 : UINT32_MAX;
}

/* The step that an arg says, by its number, plus 1; 0: none. */
static inline uint32_t step_in(const struct pfw_entry *entry, unsigned arg)
{
	uint64_t step;

	return arg && pfw_entry_u64(entry, arg - 1, &step) ? note_of(step) : 0;
}

static inline uint32_t said_step(const struct pfw_entry *entry, const struct known *known)
{
	uint64_t step;

	if (known)
		return step_in(entry, known->step);
	return pfw_says_step(entry, &step) ? note_of(step) : 0;
}

uint32_t pfw_table_said(const struct pfw_entry *entry)
{
	return said_step(entry, find_known(entry));
}

uint32_t pfw_table_call_said(const struct pfw_entry *entry, bool *args)
{
	const struct known *known = find_known(entry);

	*args = known && (known->kind || known->launch);
	return said_step(entry, known);
}

static void read_args(const struct pfw_entry *entry, struct pfw_table_line *line, struct said *said)
{
	const struct known *known = find_known(entry);
	struct pfw_slice key;
	struct pfw_value value;
	struct pfw_args args;

	if (known) {
		*said = known->said;
		for (uint32_t left = known->take; left; left &= left - 1) {
			unsigned i = (unsigned)__builtin_ctz(left);

			if (known->number[i]) {
				pfw_entry_u64(entry, i,
					      (uint64_t *)((char *)said + known->number[i]));
				continue;
			}
			pfw_entry_pair(entry, i, &key, &value);
			if (known->shapes >> i & 1)
				take_shapes(&value, line);
			else
				take_arg(&key, &value, line, said);
		}
		if (known->kind) {
			pfw_entry_pair(entry, known->kind - 1, &key, &value);
			line->kind = value.text;
		}
		line->has_launch = known->launch;
	} else {
		*said = (struct said)SAID_NOTHING;
		pfw_args_init(&args, entry);
		while (pfw_args_next(&args, &key, &value)) {
			take_arg(&key, &value, line, said);
			line->has_launch |= pfw_table_launch_key(&key);
		}
	}
	line->said = said_step(entry, known);
	line->device = said->device >= 0 ? said->device : (said->kind & KIND_DEVICE) != 0;
	line->extra = said->extra;
	line->has_memory = said->has_memory;
	line->has_extra = (line->extra.flops | (uint64_t)line->extra.cpu_memory |
			   (uint64_t)line->extra.device_memory) != 0;
}

/* Bookkeeping of torch.profiler and of autograd, which torch's own tables leave out. */
static bool is_bookkeeping(const struct pfw_slice *name)
{
	static const char *const names[] = { "profiler::_record_function_enter",
					     "profiler::_record_function_enter_new",
					     "profiler::_record_function_exit",
					     "aten::is_leaf",
					     "aten::output_nr",
					     "aten::_version" };

	if (!pfw_slice_begins(name, "profiler::") && !pfw_slice_begins(name, "aten::"))
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (pfw_slice_is(name, names[i]))
			return true;
	}
	return false;
}

/* Into a line without links. */
static inline void link_work(struct pfw_table_line *line, unsigned kind,
			     const struct pfw_table_ids *ids)
{
	uint64_t span = ids->span ? pfw_launcher(PFW_LAUNCHER_SPAN, ids->span) : 0;

	/* The work in an annotation has lines of its own; a wait is no work. */
	if (line->device && kind & (KIND_ANNOTATION | KIND_SYNC))
		return;
	if (!line->device) {
		if (kind & KIND_CALL)
			line->launcher = pfw_launcher(PFW_LAUNCHER_CALL, ids->correlation);
		else if (ids->external_id)
			line->launcher = pfw_launcher(PFW_LAUNCHER_OPERATOR, ids->external_id);
		else if (ids->span_id)
			line->launcher = pfw_launcher(PFW_LAUNCHER_SPAN, ids->span_id);
		if (ids->span_id)
			line->parent = ids->parent;
		return;
	}
	if (ids->external_id)
		line->launched_by = pfw_launcher(PFW_LAUNCHER_OPERATOR, ids->external_id);
	else if (ids->correlation)
		line->launched_by = pfw_launcher(PFW_LAUNCHER_CALL, ids->correlation);
	else
		line->launched_by = span;
	if (line->launched_by != span)
		line->otherwise = span;
}

/* ---- lines of a form ---- */

/* link_work() for work of which only a number that may differ is known. */
static struct pfw_table_link link_of(const struct pfw_table_form *form)
{
	struct pfw_table_line none = { .device = form->line.device }, one = none;
	struct pfw_table_ids ids = { { { 0 } } };
	struct pfw_table_link link = { .one = form->differ <= 1 &&
					      !memcmp(&ids, &form->ids, sizeof(ids)) };
	uint64_t launcher;

	link_work(&none, form->kind, &ids);
	ids.id[form->differs[0].id] = form->differ > 0;
	link_work(&one, form->kind, &ids);
	launcher = one.launcher | one.launched_by;
	link.kind = launcher & ~pfw_launcher(0, UINT64_MAX);
	link.unknown = none.launcher != 0;
	if (pfw_launcher(0, launcher))
		link.arg = (uint8_t)(form->differs[0].arg + 1);
	return link;
}

/* The same as link_work() into a line whose other links are 0. */
static inline void link_by_one(struct pfw_table_line *line, const struct pfw_table_link *link,
			       const struct pfw_entry *entry)
{
	uint64_t id = 0;

	if (link->arg)
		pfw_entry_u64(entry, link->arg - 1u, &id);
	id = id || link->unknown ? link->kind | pfw_launcher(0, id) : 0;
	if (line->device)
		line->launched_by = id;
	else
		line->launcher = id;
}

bool pfw_table_form_learn(struct pfw_table_form *form, const struct pfw_table_line *line,
			  const struct pfw_entry *entry)
{
	const struct known *known = find_known(entry);

	if (!known || known->more || line->has_extra)
		return false;
	*form = (struct pfw_table_form){ .form = entry->form,
					 .kind = known->said.kind,
					 .ids = known->said.ids,
					 .launch_varies = known->launch_varies,
					 .step = (uint8_t)known->step };
	for (uint32_t left = known->take; left; left &= left - 1) {
		unsigned i = (unsigned)__builtin_ctz(left);
		size_t id = id_of(known, i);

		if (known->shapes >> i & 1)
			form->shapes = (uint8_t)(i + 1);
		else if (id < PFW_TABLE_IDS)
			form->differs[form->differ++] =
				(struct pfw_table_differs){ (uint8_t)i, (uint8_t)id };
	}
	form->line = *line;
	form->link = link_of(form);
	form->line.launcher = form->line.parent = form->line.launched_by = form->line.otherwise = 0;
	/* The texts are those of another line. */
	form->line.name = form->line.cat = form->line.kind = form->line.stack = form->line.fname =
		(struct pfw_slice){ .at = NULL };
	return true;
}

static __attribute__((noinline)) void link_by_all(struct pfw_table_form *form,
						  const struct pfw_entry *entry)
{
	struct pfw_table_line *line = &form->line;
	struct pfw_table_ids ids = form->ids;

	for (unsigned i = 0; i < form->differ; i++)
		pfw_entry_u64(entry, form->differs[i].arg, &ids.id[form->differs[i].id]);
	line->launcher = line->parent = line->launched_by = line->otherwise = 0;
	link_work(line, form->kind, &ids);
}

bool pfw_table_form_read(struct pfw_table_form *form, const struct pfw_entry *entry)
{
	struct pfw_table_line *line = &form->line;
	struct pfw_slice key;
	struct pfw_value value;

	if (!pfw_table_line_times(line, entry))
		return false;
	if (form->link.one)
		link_by_one(line, &form->link, entry);
	else
		link_by_all(form, entry);
	if (form->shapes) {
		pfw_entry_pair(entry, form->shapes - 1u, &key, &value);
		take_shapes(&value, line);
	}
	line->said = step_in(entry, form->step);
	return true;
}

/* ---- I/O ---- */

/* What a call's args say of the bytes it moved; -1: nothing. */
struct amounts {
	int64_t ret, size, count;
};

/* Where lines of a form have these args, plus 1; 0: nowhere.  Of a key that repeats the last one counts. */
struct call_form {
	uint64_t form; /* 0: none */
	uint8_t ret, size, count, fname, stack;
};

static _Thread_local struct call_form call_forms[PFW_ENTRY_NUMBERS];

static uint8_t *call_arg(struct call_form *form, const struct pfw_slice *key)
{
	switch (key->bytes) {
	case 3:
		return pfw_member_is(key, "ret") ? &form->ret : NULL;
	case 4:
		return pfw_member_is(key, "size") ? &form->size : NULL;
	case 5:
		return pfw_member_is(key, "count")   ? &form->count
		       : pfw_member_is(key, "fname") ? &form->fname
		       : pfw_member_is(key, "stack") ? &form->stack
						     : NULL;
	default:
		return NULL;
	}
}

static const struct call_form *call_form_of(const struct pfw_entry *entry)
{
	struct call_form *form = &call_forms[entry->form % PFW_ENTRY_NUMBERS];
	struct pfw_slice key;
	struct pfw_value value;

	if (form->form == entry->form)
		return form;
	*form = (struct call_form){ .form = entry->form };
	for (unsigned i = 0; i < entry->arg_count; i++) {
		uint8_t *place;

		pfw_entry_pair(entry, i, &key, &value);
		place = call_arg(form, &key);
		if (place)
			*place = (uint8_t)(i + 1);
	}
	return form;
}

static void read_form_args(const struct pfw_entry *entry, struct pfw_table_line *line,
			   struct pfw_io_call call, struct amounts *amounts)
{
	const struct call_form *form = call_form_of(entry);
	struct pfw_slice key;
	struct pfw_value value;

	if (form->ret) {
		pfw_entry_pair(entry, form->ret - 1u, &key, &value);
		pfw_value_i64(&value, &amounts->ret);
	}
	/* Only some calls need these. */
	if (form->size && call.moves == PFW_MOVES_ITEMS) {
		pfw_entry_pair(entry, form->size - 1u, &key, &value);
		pfw_value_i64(&value, &amounts->size);
	}
	if (form->count && call.moves == PFW_MOVES_COUNT) {
		pfw_entry_pair(entry, form->count - 1u, &key, &value);
		pfw_value_i64(&value, &amounts->count);
	}
	if (form->fname) {
		pfw_entry_pair(entry, form->fname - 1u, &key, &value);
		if (value.type == PFW_VALUE_STRING)
			line->fname = value.text;
	}
	if (form->stack) {
		pfw_entry_pair(entry, form->stack - 1u, &key, &value);
		line->stack = value.text;
	}
}

static void read_call_args(const struct pfw_entry *entry, struct pfw_table_line *line,
			   struct pfw_io_call call, struct amounts *amounts)
{
	struct pfw_slice key;
	struct pfw_value value;
	struct pfw_args args;

	if (entry->form) {
		read_form_args(entry, line, call, amounts);
		return;
	}
	pfw_args_init(&args, entry);
	while (pfw_args_next(&args, &key, &value)) {
		if (pfw_member_is(&key, "ret"))
			pfw_value_i64(&value, &amounts->ret);
		else if (pfw_member_is(&key, "size"))
			pfw_value_i64(&value, &amounts->size);
		else if (pfw_member_is(&key, "count"))
			pfw_value_i64(&value, &amounts->count);
		else if (pfw_member_is(&key, "fname") && value.type == PFW_VALUE_STRING)
			line->fname = value.text;
		else if (pfw_member_is(&key, "stack"))
			line->stack = value.text;
	}
}

static void read_call(struct pfw_table_line *line, const struct pfw_entry *entry,
		      struct pfw_io_calls *calls, struct pfw_table_how how)
{
	struct pfw_io_call call = pfw_io_calls_find(calls, &line->name);
	struct amounts amounts = { -1, -1, -1 };
	struct pfw_value value;
	uint64_t bytes;

	line->calls = 1;
	line->transfers = call.moves != PFW_MOVES_NOTHING;
	if (how.args || line->transfers)
		read_call_args(entry, line, call, &amounts);
	if (how.args && call.role == PFW_ROLE_COPY)
		pfw_arg_text(entry, "target", &line->target);
	if (how.fnames && !line->fname.at && pfw_fname_hashes_find(how.fnames, entry, &value) &&
	    value.type == PFW_VALUE_STRING)
		line->fname = value.text;
	pfw_io_moved(call, amounts.ret,
		     call.moves == PFW_MOVES_ITEMS   ? amounts.size
		     : call.moves == PFW_MOVES_COUNT ? amounts.count
						     : 0,
		     &bytes);
	line->bytes = (int64_t)bytes;
	if (!line->transfers)
		line->unmoved = pfw_io_unmoved(entry);
}

/* A `summed` line, which stands for many short calls. */
static bool read_summed(struct pfw_table_line *line, const struct pfw_entry *entry)
{
	struct pfw_io_sums sums;

	if (!pfw_slice_is(&entry->cat, "pfw") || !pfw_slice_is(&entry->name, "summed") ||
	    !pfw_arg_text(entry, "name", &line->name) || !pfw_io_summed(entry, &sums))
		return false;
	line->section = PFW_TABLE_IO;
	line->summed = true;
	line->cat.at = pfw_io_call_cat(line->name.at, line->name.bytes);
	line->cat.bytes = strlen(line->cat.at);
	pfw_arg_text(entry, "fname", &line->fname);
	line->calls = sums.calls;
	line->dur_ns = sums.ns;
	line->bytes = sums.bytes;
	line->transfers =
		pfw_io_call_find(line->cat.at, line->cat.bytes, line->name.at, line->name.bytes)
					.moves != PFW_MOVES_NOTHING
			? line->calls
			: 0;
	return true;
}

bool pfw_table_line_name(struct pfw_table_line *line, const struct pfw_entry *entry, bool plain)
{
	bool call = pfw_is_io(&entry->cat);
	size_t bytes = sizeof(*line);

	/* The asm hides the size: for a known size the compiler uses `rep stos`, which starts
	 * slowly. */
	__asm__("" : "+r"(bytes));
	memset(line, 0, bytes);
	line->section = call || plain ? PFW_TABLE_IO : PFW_TABLE_COMPUTE;
	line->name = entry->name;
	line->cat = entry->cat;
	line->step = -1;
	return !pfw_slice_is(&entry->cat, "pfw") &&
	       (plain || !pfw_slice_is(&entry->cat, "PP") || !is_bookkeeping(&entry->name));
}

/* An event that is no I/O call, with --plain: copies and sets of memory have bytes. */
static void read_plain(struct pfw_table_line *line, const struct pfw_entry *entry, bool args)
{
	struct said said;
	uint64_t bytes;

	line->calls = 1;
	if (args)
		read_args(entry, line, &said);
	line->device = 0;
	if (!pfw_slice_is(&entry->cat, "PP") || !pfw_memory_moved(entry, &bytes))
		return;
	line->transfers = 1;
	line->bytes = bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX;
}

void pfw_table_line_args(struct pfw_table_line *line, const struct pfw_entry *entry)
{
	struct said said;

	read_args(entry, line, &said);
	line->annotation = (said.kind & KIND_ANNOTATION) != 0;
	link_work(line, said.kind, &said.ids);
	/* As in torch's tables: a Python function's time is no self time of its caller. */
	if (said.kind & KIND_PYTHON)
		line->section = PFW_TABLE_HIDDEN;
}

bool pfw_table_line_read(struct pfw_table_line *line, const struct pfw_entry *entry,
			 struct pfw_io_calls *calls, struct pfw_table_how how)
{
	bool known = pfw_table_line_name(line, entry, how.plain);
	bool timed = pfw_table_line_times(line, entry);

	if (entry->ph == 'M')
		return read_summed(line, entry);
	if (entry->ph != 'X' || !timed || !known)
		return false;
	if (pfw_is_io(&entry->cat))
		read_call(line, entry, calls, how);
	else if (how.plain)
		read_plain(line, entry, how.args);
	else
		pfw_table_line_args(line, entry);
	return true;
}

void pfw_table_line_step(struct pfw_table_line *line, const struct pfw_steps *steps, size_t file,
			 const struct pfw_entry *entry)
{
	uint64_t number;

	if (pfw_steps_find(steps, file, entry, &number))
		line->step = (int64_t)number;
}
