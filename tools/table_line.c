/* table_line.c - what a line counts as in a table; see table_line.h. */
#include "table_line.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "store/call.h"
#include "store/fnames.h"
#include "store/hash.h"
#include "store/launches.h"
#include "store/members.h"

/* ---- the line ---- */

/* args that say whose work a line of cat PP is. */
struct links {
	struct pfw_slice kind;
	uint64_t correlation, external_id, span, span_id;
	uint64_t bytes;
};

/* The args that count. */
enum arg {
	ARG_OTHER,
	ARG_KIND,
	ARG_SPAN,
	ARG_STEP,
	ARG_BYTES,
	ARG_FLOPS,
	ARG_STACK,
	ARG_FNAME,
	ARG_DEVICE,
	ARG_SPAN_ID,
	ARG_CPU_MEMORY,
	ARG_CORRELATION,
	ARG_EXTERNAL_ID,
	ARG_INPUT_SHAPES,
	ARG_DEVICE_MEMORY,
};

static enum arg any_of(const struct pfw_slice *key, const char *one, enum arg first,
		       const char *other, enum arg second)
{
	if (pfw_hash_same(key->at, one, key->bytes))
		return first;
	return pfw_hash_same(key->at, other, key->bytes) ? second : ARG_OTHER;
}

/* By its length first: most keys are none of these. */
static enum arg arg_of(const struct pfw_slice *key)
{
	switch (key->bytes) {
	case 4:
		return pfw_member_is(key, "step") ? ARG_STEP
						  : any_of(key, "kind", ARG_KIND, "span", ARG_SPAN);
	case 5:
		if (pfw_member_is(key, "flops"))
			return ARG_FLOPS;
		return pfw_member_is(key, "bytes")
			       ? ARG_BYTES
			       : any_of(key, "stack", ARG_STACK, "fname", ARG_FNAME);
	case 6:
		return pfw_member_is(key, "device") ? ARG_DEVICE : ARG_OTHER;
	case 7:
		return pfw_member_is(key, "span_id") ? ARG_SPAN_ID : ARG_OTHER;
	case 10:
		return pfw_member_is(key, "cpu_memory") ? ARG_CPU_MEMORY : ARG_OTHER;
	case 11:
		return any_of(key, "correlation", ARG_CORRELATION, "external_id", ARG_EXTERNAL_ID);
	case 12:
		return pfw_member_is(key, "input_shapes") ? ARG_INPUT_SHAPES : ARG_OTHER;
	case 19:
		return pfw_member_is(key, "device_memory_usage") ? ARG_DEVICE_MEMORY : ARG_OTHER;
	default:
		return ARG_OTHER;
	}
}

static int device_of(const struct pfw_value *value)
{
	uint64_t number;

	if (!pfw_value_u64(value, &number))
		return 0;
	return number < 100 ? (int)number : 99;
}

/* What the kind says of the device, where the line does not. */
static int usual_device(const struct pfw_slice *kind)
{
	return pfw_member_is(kind, "kernel") || pfw_member_is(kind, "memcpy") ||
	       pfw_member_is(kind, "memset") || pfw_member_is(kind, "sync") ||
	       pfw_member_is(kind, "memory");
}

static void take_arg(enum arg arg, const struct pfw_value *value, struct table_line *line,
		     struct links *links)
{
	switch (arg) {
	case ARG_KIND:
		links->kind = value->text;
		break;
	case ARG_SPAN:
		pfw_value_u64(value, &links->span);
		break;
	case ARG_SPAN_ID:
		pfw_value_u64(value, &links->span_id);
		break;
	case ARG_CORRELATION:
		pfw_value_u64(value, &links->correlation);
		break;
	case ARG_EXTERNAL_ID:
		pfw_value_u64(value, &links->external_id);
		break;
	case ARG_STEP:
		if (value->type == PFW_VALUE_NUMBER)
			line->step = value->text;
		break;
	case ARG_BYTES:
		pfw_value_u64(value, &links->bytes);
		break;
	case ARG_FLOPS:
		pfw_value_u64(value, &line->extra.flops);
		break;
	case ARG_STACK:
		line->stack = value->text;
		break;
	case ARG_FNAME:
		if (value->type == PFW_VALUE_STRING)
			line->fname = value->text;
		break;
	case ARG_DEVICE:
		line->device = device_of(value);
		break;
	case ARG_CPU_MEMORY:
		pfw_value_i64(value, &line->extra.cpu_memory);
		break;
	case ARG_INPUT_SHAPES:
		line->shapes = value->text;
		line->shapes_text = value->type == PFW_VALUE_STRING;
		break;
	case ARG_DEVICE_MEMORY:
		pfw_value_i64(value, &line->extra.device_memory);
		break;
	case ARG_OTHER:
		break;
	}
}

/* The args of an entry, one by one: as the parser has found them, or else by a reader of their text. */
struct walk {
	const struct pfw_entry *entry;
	unsigned next;
	struct pfw_members members;
};

static void walk_args(struct walk *walk, const struct pfw_entry *entry)
{
	walk->entry = entry;
	walk->next = 0;
	if (entry->args_more)
		pfw_members_init(&walk->members, &entry->args);
}

static inline bool next_arg(struct walk *walk, struct pfw_slice *key, struct pfw_value *value)
{
	const struct pfw_entry *entry = walk->entry;

	if (entry->args_more)
		return pfw_members_next(&walk->members, key, value);
	if (walk->next == entry->arg_count)
		return false;
	pfw_entry_pair(entry, walk->next++, key, value);
	return true;
}

static void read_args(const struct pfw_entry *entry, struct table_line *line, struct links *links)
{
	struct pfw_slice key;
	struct pfw_value value;
	struct walk walk;
	bool device = false;

	walk_args(&walk, entry);
	while (next_arg(&walk, &key, &value)) {
		enum arg arg = arg_of(&key);

		device |= arg == ARG_DEVICE;
		take_arg(arg, &value, line, links);
	}
	if (!device)
		line->device = usual_device(&links->kind);
	line->has_extra = line->extra.flops || line->extra.cpu_memory || line->extra.device_memory;
}

__attribute__((always_inline)) static inline bool starts_with(const struct pfw_slice *text,
							      const char *word)
{
	size_t bytes = strlen(word);

	return text->bytes >= bytes && memcmp(text->at, word, bytes) == 0;
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

	if (!starts_with(name, "profiler::") && !starts_with(name, "aten::"))
		return false;
	for (size_t i = 0; i < CLI_ARRAY_LEN(names); i++) {
		if (pfw_slice_is(name, names[i]))
			return true;
	}
	return false;
}

static void link_work(struct table_line *line, const struct links *links)
{
	uint64_t span = links->span ? pfw_launcher(PFW_LAUNCHER_SPAN, links->span) : 0;
	bool call = pfw_member_is(&links->kind, "runtime") || pfw_member_is(&links->kind, "driver");

	line->annotation = pfw_member_is(&links->kind, "annotation") ||
			   pfw_member_is(&links->kind, "step");
	/* An annotation stands for work that is there, too; a wait is none. */
	if (line->device && (line->annotation || pfw_member_is(&links->kind, "sync")))
		return;
	if (!line->device && call)
		line->launcher = pfw_launcher(PFW_LAUNCHER_CALL, links->correlation);
	else if (!line->device && links->external_id)
		line->launcher = pfw_launcher(PFW_LAUNCHER_OPERATOR, links->external_id);
	else if (!line->device && links->span_id)
		line->launcher = pfw_launcher(PFW_LAUNCHER_SPAN, links->span_id);
	if (!line->device)
		return;
	if (links->external_id)
		line->launched_by = pfw_launcher(PFW_LAUNCHER_OPERATOR, links->external_id);
	else if (links->correlation)
		line->launched_by = pfw_launcher(PFW_LAUNCHER_CALL, links->correlation);
	else
		line->launched_by = span;
	if (line->launched_by != span)
		line->otherwise = span;
}

/* ---- I/O ---- */

static struct pfw_call find_call(struct table_calls *calls, const struct table_line *line)
{
	const struct pfw_slice *name = &line->name;
	struct table_call *recent;
	uint32_t head = 0;

	if (name->bytes < 4 || name->bytes > sizeof(recent->name))
		return pfw_call_find(line->cat.at, line->cat.bytes, name->at, name->bytes);
	memcpy(&head, name->at + name->bytes - 4, 4);
	recent = &calls->recent[(head * 0x9e3779b1u >> 26) ^ (name->bytes & 63)];
	if (recent->bytes != name->bytes || memcmp(recent->name, name->at, name->bytes) != 0) {
		recent->bytes = (uint8_t)name->bytes;
		memcpy(recent->name, name->at, name->bytes);
		recent->call = pfw_call_find(line->cat.at, line->cat.bytes, name->at, name->bytes);
	}
	return recent->call;
}

/* What a call's args say of the bytes it moved. */
struct amounts {
	int64_t ret, size, count;
	bool has_ret;
};

static void read_call_args(const struct pfw_entry *entry, struct table_line *line,
			   struct amounts *amounts)
{
	struct pfw_slice key;
	struct pfw_value value;
	struct walk walk;

	walk_args(&walk, entry);
	while (next_arg(&walk, &key, &value)) {
		if (pfw_member_is(&key, "ret"))
			amounts->has_ret = pfw_value_i64(&value, &amounts->ret);
		else if (pfw_member_is(&key, "size"))
			pfw_value_i64(&value, &amounts->size);
		else if (pfw_member_is(&key, "count"))
			pfw_value_i64(&value, &amounts->count);
		else if (pfw_member_is(&key, "fname") && value.type == PFW_VALUE_STRING)
			line->fname = value.text;
		else if (pfw_member_is(&key, "step") && value.type == PFW_VALUE_NUMBER)
			line->step = value.text;
	}
}

static int64_t moved(struct pfw_call call, const struct amounts *amounts)
{
	int64_t bytes = 0;

	if (!amounts->has_ret || amounts->ret < 0)
		return 0;
	if (call.moves == PFW_MOVES_RET)
		return amounts->ret;
	if (call.moves == PFW_MOVES_COUNT)
		return amounts->count > 0 ? amounts->count : 0;
	if (call.moves == PFW_MOVES_ITEMS && amounts->size > 0 &&
	    __builtin_mul_overflow(amounts->ret, amounts->size, &bytes))
		bytes = INT64_MAX;
	return bytes;
}

static void read_call(struct table_line *line, const struct pfw_entry *entry,
		      struct table_calls *calls, struct table_how how)
{
	struct pfw_call call = find_call(calls, line);
	struct amounts amounts = { .has_ret = false };
	struct pfw_value value;

	line->calls = 1;
	line->transfers = call.moves != PFW_MOVES_NOTHING;
	if (how.args || line->transfers)
		read_call_args(entry, line, &amounts);
	if (how.args && call.role == PFW_CALL_COPY && pfw_entry_arg(entry, "target", &value) &&
	    value.type == PFW_VALUE_STRING)
		line->target = value.text;
	if (how.fnames && !line->fname.at && pfw_fnames_find(how.fnames, entry, &value) &&
	    value.type == PFW_VALUE_STRING)
		line->fname = value.text;
	line->bytes = moved(call, &amounts);
}

/* Calls that were only summed: one line for many. */
static bool read_summed(struct table_line *line, const struct pfw_entry *entry)
{
	struct pfw_value value;

	if (!pfw_slice_is(&entry->cat, "pfw") || !pfw_slice_is(&entry->name, "summed") ||
	    !pfw_entry_arg(entry, "name", &value) || value.type != PFW_VALUE_STRING)
		return false;
	line->section = TABLE_IO;
	line->summed = true;
	line->name = value.text;
	line->cat.at = pfw_call_cat(value.text.at, value.text.bytes);
	line->cat.bytes = strlen(line->cat.at);
	if (pfw_entry_arg(entry, "fname", &value) && value.type == PFW_VALUE_STRING)
		line->fname = value.text;
	if (!pfw_entry_arg(entry, "count", &value) || !pfw_value_u64(&value, &line->calls) ||
	    !pfw_entry_arg(entry, "dur", &value) || !pfw_slice_us(&value.text, &line->dur_ns))
		return false;
	if (pfw_entry_arg(entry, "bytes", &value))
		pfw_value_i64(&value, &line->bytes);
	line->transfers =
		pfw_call_find(line->cat.at, line->cat.bytes, line->name.at, line->name.bytes)
					.moves != PFW_MOVES_NOTHING
			? line->calls
			: 0;
	return true;
}

bool table_line_name(struct table_line *line, const struct pfw_entry *entry, bool plain)
{
	bool call = pfw_call_is_io(&entry->cat);
	size_t bytes = sizeof(*line);

	/* Where it knows the size, the compiler takes `rep stos`, which begins slowly. */
	__asm__("" : "+r"(bytes));
	memset(line, 0, bytes);
	line->section = call || plain ? TABLE_IO : TABLE_COMPUTE;
	line->name = entry->name;
	line->cat = entry->cat;
	return !pfw_member_is(&entry->cat, "pfw") &&
	       (plain || !pfw_member_is(&entry->cat, "PP") || !is_bookkeeping(&entry->name));
}

/* An event that is no call, as its line says: of copies and sets of memory also their size. */
static void read_plain(struct table_line *line, const struct pfw_entry *entry, bool args)
{
	struct links links = { .kind = { .at = "" } };
	struct pfw_value value;

	line->calls = 1;
	if (!args && !pfw_entry_arg(entry, "bytes", &value))
		return;
	read_args(entry, line, &links);
	line->device = 0;
	if (pfw_member_is(&entry->cat, "PP") &&
	    (pfw_member_is(&links.kind, "memcpy") || pfw_member_is(&links.kind, "memset") ||
	     pfw_member_is(&links.kind, "memory")))
		line->bytes = links.bytes < INT64_MAX ? (int64_t)links.bytes : INT64_MAX;
	line->transfers = line->bytes != 0;
}

bool table_line_read(struct table_line *line, const struct pfw_entry *entry,
		     struct table_calls *calls, struct table_how how)
{
	struct links links = { .kind = { .at = "" } };
	bool known = table_line_name(line, entry, how.plain);
	int64_t end;

	line->start_ns = entry->ts_ns;
	line->dur_ns = entry->dur_ns > 0 ? entry->dur_ns : 0;
	if (entry->ph == 'M')
		return read_summed(line, entry);
	if (entry->ph != 'X' || __builtin_add_overflow(line->start_ns, line->dur_ns, &end) ||
	    line->start_ns == INT64_MIN || !known)
		return false;
	if (pfw_call_is_io(&entry->cat)) {
		read_call(line, entry, calls, how);
	} else if (how.plain) {
		read_plain(line, entry, how.args);
	} else {
		read_args(entry, line, &links);
		link_work(line, &links);
		/* As in torch's tables: what lies in a function of Python's is not its caller's own. */
		if (pfw_member_is(&links.kind, "python_function"))
			line->section = TABLE_HIDDEN;
	}
	return true;
}

/* ---- the key ---- */

int table_key_init(struct table_key *key)
{
	*key = (struct table_key){ .room = 2 * TABLE_TEXT_MAX };
	key->text = malloc(key->room);
	key->field = malloc(TABLE_TEXT_MAX);
	if (key->text && key->field)
		return 0;
	table_key_release(key);
	return -ENOMEM;
}

void table_key_release(struct table_key *key)
{
	free(key->text);
	free(key->field);
}

static int add_field(struct table_key *key, const char *text, size_t bytes)
{
	uint32_t length = (uint32_t)bytes;

	if (key->room - key->bytes < bytes + sizeof(length)) {
		char *more = realloc(key->text, key->room * 2);

		if (!more)
			return -ENOMEM;
		key->text = more;
		key->room *= 2;
	}
	memcpy(key->text + key->bytes, &length, sizeof(length));
	memcpy(key->text + key->bytes + sizeof(length), text, bytes);
	key->bytes += sizeof(length) + bytes;
	return 0;
}

static int add_slice(struct table_key *key, const struct pfw_slice *text)
{
	if (!text->escaped && text->bytes < TABLE_TEXT_MAX)
		return add_field(key, text->at ? text->at : "", text->bytes);
	return add_field(key, key->field, pfw_slice_decode(text, key->field, TABLE_TEXT_MAX));
}

static int add_number(struct table_key *key, int64_t number)
{
	char text[24];

	return add_field(key, text, (size_t)sprintf(text, "%" PRId64, number));
}

/* Steps have a number in their name: all of them are one row. */
static int add_name(struct table_key *key, const struct table_line *line)
{
	if (!pfw_member_is(&line->cat, "POSIX") && starts_with(&line->name, "ProfilerStep#"))
		return add_field(key, "ProfilerStep*", 13);
	return add_slice(key, &line->name);
}

/* As Python prints a list: a blank behind each comma, none elsewhere. */
static int add_shapes(struct table_key *key, const struct table_line *line)
{
	const struct pfw_slice *shapes = &line->shapes;
	size_t used = 0;

	if (!shapes->at)
		return add_field(key, "[]", 2);
	if (line->shapes_text)
		return add_slice(key, shapes);
	for (size_t i = 0; i < shapes->bytes && used < TABLE_TEXT_MAX - 2; i++) {
		if (shapes->at[i] == ' ')
			continue;
		key->field[used++] = shapes->at[i];
		if (shapes->at[i] == ',')
			key->field[used++] = ' ';
	}
	return add_field(key, key->field, used);
}

/* The innermost frames, one a line. */
static int add_stack(struct table_key *key, const struct table_line *line, unsigned frames)
{
	struct pfw_members members;
	struct pfw_value frame;
	size_t used = 0;

	if (line->stack.at && *line->stack.at == '[') {
		pfw_members_init(&members, &line->stack);
		while (frames-- && pfw_elements_next(&members, &frame) &&
		       used + 2 < TABLE_TEXT_MAX) {
			if (used)
				key->field[used++] = '\n';
			used += pfw_slice_decode(&frame.text, key->field + used,
						 TABLE_TEXT_MAX - used);
		}
	} else if (line->stack.at) {
		return add_slice(key, &line->stack);
	}
	return add_field(key, key->field, used);
}

static int add(struct table_key *key, enum table_field field, const struct table_options *options,
	       const struct table_line *line, const struct pfw_entry *entry, int64_t rank)
{
	switch (field) {
	case TABLE_NAME:
		return add_name(key, line);
	case TABLE_CAT:
		return add_slice(key, &line->cat);
	case TABLE_SHAPE:
		return add_shapes(key, line);
	case TABLE_STACK:
		return add_stack(key, line, options->frames);
	case TABLE_FNAME:
		return add_slice(key, &line->fname);
	case TABLE_RANK:
		return rank < 0 ? add_field(key, "", 0) : add_number(key, rank);
	case TABLE_STEP:
		return add_slice(key, &line->step);
	case TABLE_PID:
		return add_number(key, (int64_t)entry->pid);
	default:
		return add_number(key, (int64_t)entry->tid);
	}
}

int table_key_make(struct table_key *key, const struct table_options *options,
		   const struct table_line *line, const struct pfw_entry *entry, int64_t rank)
{
	int error = 0;

	key->text[0] = (char)line->section;
	key->text[1] = (char)line->device;
	key->text[2] = line->annotation && options->by_name;
	key->bytes = TABLE_KEY_HEAD;
	for (unsigned i = 0; i < options->fields && !error && line->section != TABLE_HIDDEN; i++)
		error = add(key, options->field[i], options, line, entry, rank);
	/* To nest spans takes their names, whatever their rows are made by. */
	if (!error && (line->section == TABLE_HIDDEN ||
		       (line->section == TABLE_COMPUTE && !options->by_name)))
		error = add_name(key, line);
	return error;
}

const char *table_text(const struct pfw_average *row, unsigned n, size_t *bytes)
{
	const char *at = row->key + TABLE_KEY_HEAD;
	uint32_t length;

	for (;; n--) {
		memcpy(&length, at, sizeof(length));
		at += sizeof(length);
		if (!n)
			break;
		at += length;
	}
	*bytes = length;
	return at;
}
