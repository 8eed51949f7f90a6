/* store/line/entry.c - parses a line of any JSON; see entry.h. */
#include "store/line/entry.h"

#include <string.h>

#include "store/json/reader.h"
#include "store/kit/hash.h"
#include "store/kit/saturate.h"

/* ---- the keys of a line ---- */

static const char *const key_names[PFW_ENTRY_KEYS] = { "id", "name", "cat", "pid",  "tid",
						       "ts", "dur",  "ph",  "args", "type" };

const char *pfw_entry_key_name(unsigned bit)
{
	return bit && __builtin_ctz(bit) < PFW_ENTRY_KEYS ? key_names[__builtin_ctz(bit)] : "?";
}

static unsigned key_bit(const struct pfw_slice *key)
{
	for (unsigned i = 0; i < PFW_ENTRY_KEYS; i++) {
		if (pfw_slice_is(key, key_names[i]))
			return 1u << i;
	}
	return PFW_ENTRY_OTHER;
}

/* The letter that ph's text stands for; DFTracer 2.2 writes the numbers 1 to 4. */
static char ph_letter(const struct pfw_value *value)
{
	static const char by_number[] = "?XCAM";
	char plain[8];
	uint64_t number;

	if (value->type == PFW_VALUE_NUMBER)
		return pfw_value_u64(value, &number) && number < 5 ? by_number[number] : '?';
	if (pfw_slice_decode(&value->text, plain, sizeof(plain)) != 1)
		return '?';
	return strchr("XiCMA", plain[0]) ? plain[0] : '?';
}

static bool set_text(struct pfw_slice *slice, const struct pfw_value *value,
		     enum pfw_value_type type)
{
	if (value->type != type)
		return false;
	*slice = value->text;
	return true;
}

/* Store a key's value; false: it cannot be the value of this key. */
static bool set_value(struct pfw_entry *entry, unsigned bit, const struct pfw_value *value)
{
	uint64_t unused;

	switch (bit) {
	case PFW_ENTRY_ID:
		return pfw_value_u64(value, &entry->id);
	case PFW_ENTRY_NAME:
		return set_text(&entry->name, value, PFW_VALUE_STRING);
	case PFW_ENTRY_CAT:
		return set_text(&entry->cat, value, PFW_VALUE_STRING);
	case PFW_ENTRY_PID:
		return pfw_value_u64(value, &entry->pid);
	case PFW_ENTRY_TID:
		return pfw_value_u64(value, &entry->tid);
	case PFW_ENTRY_TS:
		return pfw_value_ns(value, &entry->ts_ns) && entry->ts_ns <= PFW_ENTRY_TIME_MAX;
	case PFW_ENTRY_DUR:
		return pfw_value_ns(value, &entry->dur_ns);
	case PFW_ENTRY_PH:
		entry->integer_ph = value->type == PFW_VALUE_NUMBER;
		if (value->type != PFW_VALUE_STRING && value->type != PFW_VALUE_NUMBER)
			return false;
		entry->ph = ph_letter(value);
		return true;
	case PFW_ENTRY_ARGS:
		return set_text(&entry->args, value, PFW_VALUE_OBJECT);
	case PFW_ENTRY_TYPE:
		return pfw_value_u64(value, &unused);
	default:
		return true;
	}
}

/* Reset a key, because a later value replaces it or its value is wrong. */
static void clear_value(struct pfw_entry *entry, unsigned bit)
{
	static const struct pfw_value zero = { PFW_VALUE_NUMBER, { .at = "0", .bytes = 1 } };

	entry->wrong &= (uint16_t)~bit;
	if (bit == PFW_ENTRY_NAME)
		entry->name = (struct pfw_slice){ .at = "" };
	else if (bit == PFW_ENTRY_CAT)
		entry->cat = (struct pfw_slice){ .at = "" };
	else if (bit == PFW_ENTRY_ARGS)
		entry->args = (struct pfw_slice){ .at = "{}", .bytes = 2 };
	else if (bit == PFW_ENTRY_PH)
		entry->ph = '?';
	else
		set_value(entry, bit, &zero);
}

/* One `"key":value` of the line's object. */
static bool read_member(struct pfw_reader *reader, struct pfw_entry *entry)
{
	struct pfw_slice key;
	struct pfw_value value;
	unsigned bit;

	if (!pfw_reader_key(reader, &key) || !pfw_reader_value(reader, &value))
		return false;
	bit = key_bit(&key);
	entry->disordered |= entry->has > bit;
	if (entry->has & bit) {
		entry->repeated |= (uint16_t)(bit & ~PFW_ENTRY_OTHER);
		clear_value(entry, bit);
	}
	entry->has |= (uint16_t)bit;
	if (!set_value(entry, bit, &value)) {
		clear_value(entry, bit);
		entry->wrong |= (uint16_t)bit;
	}
	return true;
}

static bool read_object(struct pfw_reader *reader, struct pfw_entry *entry)
{
	reader->at++;
	pfw_reader_space(reader);
	if (pfw_reader_take(reader, '}'))
		return true;
	for (;;) {
		if (!read_member(reader, entry))
			return false;
		pfw_reader_space(reader);
		if (pfw_reader_take(reader, '}'))
			return true;
		if (!pfw_reader_take(reader, ','))
			return pfw_reader_fail(reader, reader->at,
					       reader->at >= reader->end
						       ? "the line ends inside its object"
						       : "no comma between two values");
		pfw_reader_space(reader);
	}
}

/* ---- a line ---- */

static void cut_duration(struct pfw_entry *entry)
{
	int64_t end = pfw_saturate_add(entry->ts_ns, entry->dur_ns);

	end = end > PFW_ENTRY_TIME_MAX ? PFW_ENTRY_TIME_MAX : end;
	entry->dur_ns = pfw_saturate_sub(end, entry->ts_ns);
}

static void init_entry(struct pfw_entry *entry)
{
	memset(entry, 0, offsetof(struct pfw_entry, own));
	entry->kind = PFW_ENTRY_EVENT;
	entry->ph = '?';
	entry->name.at = entry->cat.at = "";
	entry->args = (struct pfw_slice){ .at = "{}", .bytes = 2 };
	entry->args_more = true; /* pfw_entry_find() looks at args itself */
}

/* Why a line that is no object is bad. */
static const char *no_object(const char *at, const char *end)
{
	if (end - at >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
		return "a byte-order mark in front of the object";
	if (*at == '\0')
		return "NUL bytes instead of an object";
	return "not a JSON object";
}

static void set_bad(struct pfw_entry *entry, const char *why, size_t at)
{
	init_entry(entry);
	entry->kind = PFW_ENTRY_BAD;
	entry->why = why;
	entry->why_at = at;
}

void pfw_entry_parse_any(struct pfw_entry *entry, const char *line, size_t bytes)
{
	struct pfw_reader reader = { .at = line, .end = line + bytes };

	init_entry(entry);
	pfw_reader_space(&reader);
	if (reader.at == reader.end) {
		entry->kind = PFW_ENTRY_BLANK;
		return;
	}
	if (*reader.at == '[' || *reader.at == ']') {
		const char *bracket = reader.at++;

		entry->comma = pfw_reader_take(&reader, ',');
		pfw_reader_space(&reader);
		if (reader.at == reader.end)
			entry->kind = PFW_ENTRY_BRACKET;
		else
			set_bad(entry, "not a JSON object", (size_t)(bracket - line));
		return;
	}
	if (*reader.at != '{') {
		set_bad(entry, no_object(reader.at, reader.end), (size_t)(reader.at - line));
		return;
	}
	if (read_object(&reader, entry)) {
		cut_duration(entry);
		pfw_reader_space(&reader);
		entry->comma = pfw_reader_take(&reader, ',');
		pfw_reader_space(&reader);
		if (reader.at == reader.end)
			return;
		pfw_reader_fail(&reader, reader.at, "something after the object");
	}
	set_bad(entry, reader.why, (size_t)(reader.why_at - line));
}

/* ---- either ---- */

void pfw_entry_parse(struct pfw_entry *entry, const char *line, size_t bytes)
{
	if (!pfw_entry_parse_fast(entry, line, bytes))
		pfw_entry_parse_any(entry, line, bytes);
}

/* Whether the key of `arg` is these bytes; the first byte differs for most. */
static inline bool is_key(const struct pfw_entry *entry, const struct pfw_entry_pair *arg,
			  const char *key, size_t bytes)
{
	const char *at = entry->args.at + arg->key;

	return arg->key_bytes == bytes && at[0] == key[0] && pfw_hash_same(at, key, bytes);
}

unsigned pfw_entry_missing(const struct pfw_entry *entry)
{
	unsigned needed = PFW_ENTRY_NAME;

	if (entry->ph != 'M') /* DFTracer's metadata have no times */
		needed |= PFW_ENTRY_TS;
	if (entry->ph == 'X')
		needed |= PFW_ENTRY_DUR;
	return needed & ~(unsigned)entry->has;
}

bool pfw_entry_find(const struct pfw_entry *entry, const char *key, size_t bytes,
		    struct pfw_value *value)
{
	struct pfw_slice name;

	if (entry->args_more || !bytes)
		return pfw_slice_find(&entry->args, key, value);
	for (unsigned i = entry->arg_count; i-- > 0;) {
		if (is_key(entry, &entry->arg[i], key, bytes)) {
			pfw_entry_pair(entry, i, &name, value);
			return true;
		}
	}
	return false;
}
