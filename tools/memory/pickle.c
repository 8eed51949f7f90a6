/* tools/memory/pickle.c - runs the stack machine of a pickle without all opcodes that could run
 * code.
 *
 * The opcodes are those of Python's pickletools.
 */
#include "memory/pickle.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/le.h"
#include "store/kit/grow.h"
#include "store/sys/full_io.h"
#include "store/sys/open.h"

#define PROTOCOL_MAX 5
#define KEYS_MAX 64

struct stack {
	struct pfw_pickle_value *item;
	size_t count, room;
};

struct machine {
	struct pfw_pickle *pickle;
	const unsigned char *at, *end, *op;
	struct stack stack, memo; /* memo entries that were never set are of kind NONE */
	size_t *mark;
	size_t marks, mark_room;
};

__attribute__((format(printf, 2, 3))) static int bad(struct machine *machine, const char *format,
						     ...)
{
	struct pfw_pickle *pickle = machine->pickle;
	va_list args;
	int used = snprintf(pickle->why, sizeof(pickle->why),
			    "byte %zu: ", (size_t)((const char *)machine->op - pickle->data));

	va_start(args, format);
	vsnprintf(pickle->why + used, sizeof(pickle->why) - (size_t)used, format, args);
	va_end(args);
	return -EINVAL;
}

/* ---- values ---- */

static int push(struct machine *machine, struct pfw_pickle_value value)
{
	struct stack *stack = &machine->stack;

	return PFW_PUSH(stack->item, stack->count, stack->room, value);
}

/* How many values are above the last mark: an opcode may take only those. */
static size_t above(const struct machine *machine)
{
	size_t below = machine->marks ? machine->mark[machine->marks - 1] : 0;

	return machine->stack.count - below;
}

static int push_whole(struct machine *machine, int64_t whole)
{
	return push(machine, (struct pfw_pickle_value){ .kind = PFW_PICKLE_WHOLE, .whole = whole });
}

static int append(struct pfw_pickle_items *items, const struct pfw_pickle_value *from, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (PFW_PUSH(items->item, items->count, items->room, from[i]))
			return -ENOMEM;
	}
	return 0;
}

/* Replace the last `count` values by a list or dict of them. */
static int push_items(struct machine *machine, enum pfw_pickle_kind kind, size_t count)
{
	struct pfw_pickle_items *items;
	struct pfw_pickle_value value = { .kind = kind };

	if (count > above(machine) || (kind == PFW_PICKLE_DICT && count % 2))
		return bad(machine, "values are missing");
	items = calloc(1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	items->next = machine->pickle->all;
	machine->pickle->all = items;
	machine->stack.count -= count;
	value.items = items;
	if (count && append(items, machine->stack.item + machine->stack.count, count))
		return -ENOMEM;
	return push(machine, value);
}

/* Add the last `count` values to what lies below them. */
static int add_items(struct machine *machine, enum pfw_pickle_kind kind, size_t count)
{
	struct stack *stack = &machine->stack;
	struct pfw_pickle_value *to;

	if (count + 1 > above(machine) || (kind == PFW_PICKLE_DICT && count % 2))
		return bad(machine, "values are missing");
	stack->count -= count;
	to = &stack->item[stack->count - 1];
	if (to->kind != kind)
		return bad(machine, "values for what is no %s",
			   kind == PFW_PICKLE_DICT ? "dict" : "list");
	return count ? append(to->items, stack->item + stack->count, count) : 0;
}

/* ---- marks and the memo ---- */

static int set_mark(struct machine *machine)
{
	return PFW_PUSH(machine->mark, machine->marks, machine->mark_room, machine->stack.count);
}

/* Remove the last mark.  Return how many values are above it, or -1 if there is none. */
static int64_t take_mark(struct machine *machine)
{
	return machine->marks ? (int64_t)(machine->stack.count - machine->mark[--machine->marks])
			      : -1;
}

static int remember(struct machine *machine, uint64_t number)
{
	struct stack *memo = &machine->memo;

	if (!above(machine))
		return bad(machine, "values are missing");
	/* Numbers come in order: a large one asks for memory that the file does not need. */
	if (number > machine->pickle->bytes)
		return bad(machine, "an index into its memo is too large");
	while (memo->count <= number) {
		if (PFW_PUSH(memo->item, memo->count, memo->room, (struct pfw_pickle_value){ 0 }))
			return -ENOMEM;
	}
	memo->item[number] = machine->stack.item[machine->stack.count - 1];
	return 0;
}

static int recall(struct machine *machine, uint64_t number)
{
	if (number >= machine->memo.count)
		return bad(machine, "an index that its memo does not have");
	return push(machine, machine->memo.item[number]);
}

/* ---- opcodes ---- */

/* A number of so many bytes after the opcode; false at the end of the file. */
static bool take_number(struct machine *machine, int bytes, uint64_t *number)
{
	if (machine->end - machine->at < bytes)
		return false;
	*number = pfw_le_get(machine->at, bytes);
	machine->at += bytes;
	return true;
}

static int cut(struct machine *machine)
{
	return bad(machine, "the file ends within a value");
}

/* A text or bytes after a length of so many bytes. */
static int push_text(struct machine *machine, int bytes)
{
	struct pfw_pickle_value value = { .kind = PFW_PICKLE_TEXT };
	uint64_t count;

	if (!take_number(machine, bytes, &count) || count > (uint64_t)(machine->end - machine->at))
		return cut(machine);
	if (count > UINT32_MAX)
		return bad(machine, "a text of more than 4 GiB");
	value.bytes = (uint32_t)count;
	value.text = (const char *)machine->at;
	machine->at += count;
	return push(machine, value);
}

static int push_fixed(struct machine *machine, int bytes, bool is_signed)
{
	uint64_t number;

	if (!take_number(machine, bytes, &number))
		return cut(machine);
	return push_whole(machine, is_signed ? (int32_t)number : (int64_t)number);
}

/* A number in two's complement, of any length. */
static int push_long(struct machine *machine, int count_bytes)
{
	uint64_t bytes, number = 0;

	if (!take_number(machine, count_bytes, &bytes) ||
	    bytes > (uint64_t)(machine->end - machine->at))
		return cut(machine);
	if (bytes && machine->at[bytes - 1] & 0x80)
		number = UINT64_MAX;
	for (uint64_t i = bytes < 8 ? bytes : 8; i--;)
		number = number << 8 | machine->at[i];
	machine->at += bytes;
	return push_whole(machine, (int64_t)number);
}

static int push_float(struct machine *machine)
{
	struct pfw_pickle_value value = { .kind = PFW_PICKLE_FLOAT };
	uint64_t bits;

	if (!take_number(machine, 8, &bits))
		return cut(machine);
	bits = __builtin_bswap64(bits); /* the one opcode that is big-endian */
	memcpy(&value.number, &bits, sizeof(bits));
	return push(machine, value);
}

static int numbered(struct machine *machine, int bytes,
		    int (*take)(struct machine *machine, uint64_t number))
{
	uint64_t number;

	return take_number(machine, bytes, &number) ? take(machine, number) : cut(machine);
}

/* Pass the number of values above the last mark. */
static int with_mark(struct machine *machine, enum pfw_pickle_kind kind,
		     int (*make)(struct machine *machine, enum pfw_pickle_kind kind, size_t count))
{
	int64_t count = take_mark(machine);

	return count < 0 ? bad(machine, "a mark is missing") : make(machine, kind, (size_t)count);
}

static int pop(struct machine *machine)
{
	if (!above(machine))
		return take_mark(machine) < 0 ? bad(machine, "values are missing") : 0;
	machine->stack.count--;
	return 0;
}

static int pop_mark(struct machine *machine)
{
	int64_t count = take_mark(machine);

	if (count < 0)
		return bad(machine, "a mark is missing");
	machine->stack.count -= (size_t)count;
	return 0;
}

static int check_protocol(struct machine *machine)
{
	uint64_t protocol;

	if (!take_number(machine, 1, &protocol))
		return cut(machine);
	return protocol > PROTOCOL_MAX ? bad(machine, "protocol %u is not known, only 0 to %d",
					     (unsigned)protocol, PROTOCOL_MAX)
				       : 0;
}

static int skip_frame(struct machine *machine)
{
	uint64_t bytes;

	return take_number(machine, 8, &bytes) ? 0 : cut(machine);
}

/* Opcodes that could run code, and those that plain data do not have. */
static int refuse(struct machine *machine)
{
	const char *name = (const char *)machine->at;
	size_t bytes = 0;

	switch (*machine->op) {
	case 'c': /* GLOBAL: module, line end, name, line end */
		while (name + bytes < (const char *)machine->end && bytes < 80 &&
		       name[bytes] > ' ' && name[bytes] < 0x7f)
			bytes++;
		return bad(machine,
			   "it needs Python's %.*s, which is not executed: plain data only",
			   (int)bytes, name);
	case 0x93: /* STACK_GLOBAL */
	case 'R':
	case 'i':
	case 'o':
	case 0x81:
	case 0x92:
	case 'b':
		return bad(machine,
			   "it needs a Python object, which is not created: plain data only");
	default:
		return bad(machine, "opcode 0x%02x, which plain data of torch do not have",
			   *machine->op);
	}
}

/* Numbers, texts and the memo. */
static int scalar(struct machine *machine)
{
	switch (*machine->op) {
	case 'N':
		return push(machine, (struct pfw_pickle_value){ 0 });
	case 0x88:
		return push_whole(machine, 1);
	case 0x89:
		return push_whole(machine, 0);
	case 'J':
		return push_fixed(machine, 4, true);
	case 'K':
		return push_fixed(machine, 1, false);
	case 'M':
		return push_fixed(machine, 2, false);
	case 0x8a:
		return push_long(machine, 1);
	case 0x8b:
		return push_long(machine, 4);
	case 'G':
		return push_float(machine);
	case 'U':
	case 'C':
	case 0x8c:
		return push_text(machine, 1);
	case 'T':
	case 'B':
	case 'X':
		return push_text(machine, 4);
	case 0x8d:
	case 0x8e:
		return push_text(machine, 8);
	case 'q':
		return numbered(machine, 1, remember);
	case 'r':
		return numbered(machine, 4, remember);
	case 0x94:
		return remember(machine, machine->memo.count);
	case 'h':
		return numbered(machine, 1, recall);
	case 'j':
		return numbered(machine, 4, recall);
	default:
		return refuse(machine);
	}
}

static int step(struct machine *machine)
{
	switch (*machine->op) {
	case 0x80:
		return check_protocol(machine);
	case 0x95:
		return skip_frame(machine);
	case '(':
		return set_mark(machine);
	case '0':
		return pop(machine);
	case '1':
		return pop_mark(machine);
	case '2':
		if (!above(machine))
			return bad(machine, "values are missing");
		return push(machine, machine->stack.item[machine->stack.count - 1]);
	case ')':
	case ']':
		return push_items(machine, PFW_PICKLE_LIST, 0);
	case 0x85:
	case 0x86:
	case 0x87:
		return push_items(machine, PFW_PICKLE_LIST, *machine->op - 0x84u);
	case 't':
	case 'l':
		return with_mark(machine, PFW_PICKLE_LIST, push_items);
	case '}':
		return push_items(machine, PFW_PICKLE_DICT, 0);
	case 'd':
		return with_mark(machine, PFW_PICKLE_DICT, push_items);
	case 'a':
		return add_items(machine, PFW_PICKLE_LIST, 1);
	case 'e':
		return with_mark(machine, PFW_PICKLE_LIST, add_items);
	case 's':
		return add_items(machine, PFW_PICKLE_DICT, 2);
	case 'u':
		return with_mark(machine, PFW_PICKLE_DICT, add_items);
	default:
		return scalar(machine);
	}
}

static int run(struct machine *machine)
{
	for (;;) {
		int error;

		machine->op = machine->at;
		if (machine->at == machine->end)
			return bad(machine, "the file ends before the pickle does");
		machine->at++;
		if (*machine->op == '.')
			break;
		error = step(machine);
		if (error)
			return error;
	}
	if (!above(machine))
		return bad(machine, "values are missing");
	machine->pickle->root = machine->stack.item[machine->stack.count - 1];
	return 0;
}

/* ---- files ---- */

int pfw_pickle_parse(struct pfw_pickle *pickle, char *data, size_t bytes)
{
	struct machine machine = { .pickle = pickle,
				   .at = (const unsigned char *)data,
				   .end = (const unsigned char *)data + bytes };
	int error;

	*pickle = (struct pfw_pickle){ .data = data, .bytes = bytes };
	error = run(&machine);
	free(machine.stack.item);
	free(machine.memo.item);
	free(machine.mark);
	return error;
}

bool pfw_pickle_is(const char *path)
{
	int fd = pfw_open_file(path, PFW_OPEN_LINK, NULL);
	unsigned char begin[2];
	bool is = fd >= 0 && pread(fd, begin, sizeof(begin), 0) == sizeof(begin) &&
		  begin[0] == 0x80 && begin[1] <= PROTOCOL_MAX;

	if (fd >= 0)
		close(fd);
	return is;
}

/* If somebody truncates the file meanwhile, the pickle ends too early. */
int pfw_pickle_open(struct pfw_pickle *pickle, const char *path)
{
	int fd = pfw_open_file(path, PFW_OPEN_LINK, NULL), error;
	char *data;
	size_t bytes;

	*pickle = (struct pfw_pickle){ 0 };
	if (fd < 0)
		return fd;
	error = pfw_full_read_file(fd, INT64_MAX, &data, &bytes);
	close(fd);
	return error ?: pfw_pickle_parse(pickle, data, bytes);
}

void pfw_pickle_release(struct pfw_pickle *pickle)
{
	while (pickle->all) {
		struct pfw_pickle_items *items = pickle->all;

		pickle->all = items->next;
		free(items->item);
		free(items);
	}
	free(pickle->data);
	pickle->data = NULL;
}

/* ---- values of a pickle ---- */

bool pfw_pickle_text_is(const struct pfw_pickle_value *value, const char *text)
{
	return value && value->kind == PFW_PICKLE_TEXT && value->bytes == strlen(text) &&
	       memcmp(value->text, text, value->bytes) == 0;
}

const struct pfw_pickle_value *pfw_pickle_get(const struct pfw_pickle_value *dict, const char *key)
{
	if (!dict || dict->kind != PFW_PICKLE_DICT)
		return NULL;
	/* From the end: of equal keys the last counts.  Limited: a dict may be in many places. */
	for (size_t i = dict->items->count, tries = KEYS_MAX; i >= 2 && tries; i -= 2, tries--) {
		if (pfw_pickle_text_is(&dict->items->item[i - 2], key))
			return &dict->items->item[i - 1];
	}
	return NULL;
}
