/* tools/anonymise/line.c - replaces the names in one line; see anonymise.h.
 *
 * Every text in args is replaced, except for the values of the keys below, which are known to be
 * harmless.  Numbers, times and keys stay.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "anonymise/anonymise.h"
#include "store/json/walk.h"
#include "store/line/io.h"

/* A line that is copied up to `from`, with changes. */
struct change {
	const struct anonymise_rules *rules;
	const struct pfw_entry *entry;
	struct pfw_buffer *out, *scratch;
	const char *from;
	bool own;    /* a line of the recorder, not of the program */
	bool io;     /* a call */
	bool hashes; /* a line of DFTracer that explains a hash */
	int error;
};

static bool is_one_of(const struct pfw_slice *word, const char *const *words)
{
	for (; *words; words++)
		if (pfw_slice_is(word, *words))
			return true;
	return false;
}

/* Copy the line up to a text that is replaced; go on after it. */
static void skip_to(struct change *change, const struct pfw_slice *text)
{
	if (!change->error)
		change->error = pfw_buffer_add(change->out, change->from,
					       (size_t)(text->at - change->from));
	change->from = text->at + text->bytes;
}

static void replace(struct change *change, struct pfw_slice text, bool path)
{
	const char *at = text.at;
	size_t bytes = text.bytes;

	skip_to(change, &text);
	if (!change->error && text.escaped) {
		change->error = pfw_buffer_room(change->scratch, bytes + 4);
		if (change->error)
			return;
		at = change->scratch->data;
		bytes = pfw_slice_decode(&text, change->scratch->data, bytes + 4);
	}
	if (!change->error)
		change->error = (path ? anonymise_path : anonymise_text)(change->rules, change->out,
									 at, bytes);
}

/* DFTracer's hashes of names can be computed for a guessed name, so they are replaced. */
static void replace_number(struct change *change, const struct pfw_slice *text)
{
	uint64_t hash = anonymise_hash(change->rules->key, text->at, text->bytes);
	char number[24];

	skip_to(change, text);
	snprintf(number, sizeof(number), "%" PRIu64, hash >> 11);
	if (!change->error)
		change->error = pfw_buffer_add(change->out, number, strlen(number));
}

/* Remove a member that is not the first of its object. */
static void leave_out(struct change *change, const struct pfw_slice *key,
		      const struct pfw_value *value)
{
	const char *begin = key->at - 1;
	struct pfw_slice member;

	while (begin > change->from && *begin != ',')
		begin--;
	member = (struct pfw_slice){ .at = begin };
	skip_to(change, &member);
	change->from = value->text.at + value->text.bytes + 1;
}

/* Texts that have one of a few values, whatever the program. */
static bool is_kept(const struct change *change, const struct pfw_slice *key)
{
	static const char *const of_calls[] = { "errno",   "flags",  "whence", "cmd",
						"request", "prot",   "advice", "operation",
						"nstype",  "mode",   "call",   "ret",
						"count",   "offset", "size",   "length",
						NULL };
	static const char *const of_all[] = { "kind",  "phase",		  "dtypes", "reason",
					      "why",   "version",	  "clock",  "Input type",
					      "dtype", "Collective name", NULL };

	return (change->io && is_one_of(key, of_calls)) || (change->own && is_one_of(key, of_all));
}

static bool is_path(const struct change *change, const struct pfw_slice *key)
{
	static const char *const paths[] = { "fname", "target", NULL };
	static const char *const of_own[] = { "spool", "exec", NULL };

	return is_one_of(key, paths) || (change->own && is_one_of(key, of_own)) ||
	       (change->hashes && pfw_slice_is(&change->entry->name, "FH") &&
		pfw_slice_is(key, "name"));
}

static bool is_hash(const struct change *change, const struct pfw_slice *key)
{
	static const char *const words[] = { "fhash", "hhash", "shash", NULL };

	return is_one_of(key, words) || (change->hashes && pfw_slice_is(key, "value"));
}

/* The call of a line `summed`, and `GPU 0 stream 7`, which the program has not named. */
static bool is_known_name(const struct change *change, const struct pfw_slice *key,
			  const struct pfw_slice *text)
{
	const struct pfw_slice *line = &change->entry->name;

	if (!pfw_slice_is(&change->entry->cat, "pfw") || !pfw_slice_is(key, "name"))
		return false;
	return pfw_slice_is(line, "summed") ||
	       (pfw_slice_is(line, "thread_name") && pfw_slice_begins(text, "GPU ") &&
		!memchr(text->at, '(', text->bytes));
}

static void take_object(struct change *change, const struct pfw_slice *object);

static void take_value(struct change *change, const struct pfw_slice *key,
		       const struct pfw_value *value)
{
	struct pfw_value element;
	struct pfw_walk elements;

	if (value->type == PFW_VALUE_OBJECT) {
		take_object(change, &value->text);
	} else if (value->type == PFW_VALUE_ARRAY) {
		pfw_walk_init(&elements, &value->text);
		while (pfw_elements_next(&elements, &element))
			take_value(change, key, &element);
	} else if (value->type == PFW_VALUE_NUMBER && is_hash(change, key)) {
		replace_number(change, &value->text);
	} else if (value->type == PFW_VALUE_STRING && !is_kept(change, key) &&
		   !is_known_name(change, key, &value->text)) {
		replace(change, value->text, is_path(change, key));
	}
}

static void take_object(struct change *change, const struct pfw_slice *object)
{
	struct pfw_slice key;
	struct pfw_value value;
	struct pfw_walk members;

	pfw_walk_init(&members, object);
	while (pfw_walk_next(&members, &key, &value)) {
		/* The exact bytes of a name that is no UTF-8: its pseudonym needs none. */
		if (change->own && key.bytes > 4 &&
		    memcmp(key.at + key.bytes - 4, "_b64", 4) == 0 &&
		    value.type == PFW_VALUE_STRING && key.at > object->at + 2)
			leave_out(change, &key, &value);
		else
			take_value(change, &key, &value);
	}
}

/* Annotations that PyTorch makes itself: the commands know them by their names. */
static bool is_pytorchs(const struct pfw_slice *name)
{
	static const char *const begins[] = { "ProfilerStep#",
					      "enumerate(DataLoader)#",
					      "Optimizer.",
					      "nccl:",
					      "gloo:",
					      "mpi:",
					      "ucc:",
					      "c10d::",
					      "aten::",
					      "autograd::",
					      "DistributedDataParallel.",
					      "DataParallel.",
					      "record_param_comms" };

	for (size_t i = 0; i < sizeof(begins) / sizeof(*begins); i++)
		if (pfw_slice_begins(name, begins[i]))
			return true;
	return false;
}

static bool has_named(const struct pfw_entry *entry, const char *kind)
{
	struct pfw_value value;

	return pfw_entry_arg(entry, "kind", &value) && value.type == PFW_VALUE_STRING &&
	       pfw_slice_is(&value.text, kind);
}

/* Whether the name of the line is replaced. */
static bool is_secret(const struct change *change)
{
	const struct pfw_entry *entry = change->entry;
	const struct pfw_slice *name = &entry->name;

	if (!change->own)
		return !change->hashes && entry->ph != 'M' &&
		       (change->rules->names || memchr(name->at, '/', name->bytes));
	if (!pfw_slice_is(&entry->cat, "PP") || is_pytorchs(name))
		return false;
	/* A Python function is `train.py(12): step`. */
	return has_named(entry, "python_function") || memchr(name->at, '/', name->bytes) ||
	       (change->rules->names && has_named(entry, "annotation"));
}

static bool is_ours(const struct pfw_slice *cat)
{
	static const char *const cats[] = { "POSIX", "STDIO", "PP", "pfw", "COUNTER", NULL };

	return is_one_of(cat, cats);
}

int anonymise_line(const struct anonymise_rules *rules, struct pfw_buffer *out,
		   struct pfw_buffer *scratch, const struct pfw_entry *entry, const char *line,
		   size_t bytes)
{
	static const char *const explain[] = { "FH", "HH", "SH", NULL };
	static const char *const heads[] = { "id", "pid", "tid", "ts", "dur", "ph", "type", NULL };
	const struct pfw_slice all = { .at = line, .bytes = bytes };
	struct change change = {
		.rules = rules,
		.entry = entry,
		.out = out,
		.scratch = scratch,
		.from = line,
		.own = is_ours(&entry->cat),
		.io = pfw_is_io(&entry->cat),
		.hashes = entry->ph == 'M' && is_one_of(&entry->name, explain),
	};
	struct pfw_slice key;
	struct pfw_value value;
	struct pfw_walk members;

	pfw_walk_init(&members, &all);
	while (pfw_walk_next(&members, &key, &value)) {
		bool name = pfw_slice_is(&key, "name"), cat = pfw_slice_is(&key, "cat");

		if (is_one_of(&key, heads) || (name && !is_secret(&change)) ||
		    (cat && (change.own || !rules->names || entry->ph == 'M')))
			continue;
		take_value(&change, &key, &value);
	}
	if (!change.error)
		change.error =
			pfw_buffer_add(out, change.from, (size_t)(line + bytes - change.from));
	return change.error;
}
