/* store/line/entry.h - one parsed line of a trace, ours or DFTracer's, with its keys in any order.
 *
 * Room store/line: parses lines and gives their args, calls and bytes of I/O.  It may use
 * store/json, store/kit and common/calls.  Start here, then args.h; fast.c parses lines in our key
 * order.
 *
 * A line in our own key order takes a fast path; any other goes through the strict JSON reader,
 * which copies nothing: slices point into the line.  If both paths accept a line, the results are
 * equal.
 */
#pragma once

#include "store/json/swar.h"
#include "store/json/value.h"

enum pfw_entry_kind {
	PFW_ENTRY_EVENT,   /* a JSON object, in the members below */
	PFW_ENTRY_BLANK,   /* only white space */
	PFW_ENTRY_BRACKET, /* `[` or `]` alone, as in traces of DFTracer 1.x and 2.0 */
	PFW_ENTRY_BAD,	   /* not one JSON object; see `why` and `why_at` */
};

/* The keys that readers need; bits of has, wrong and repeated. */
enum pfw_entry_key {
	PFW_ENTRY_ID = 1 << 0,
	PFW_ENTRY_NAME = 1 << 1,
	PFW_ENTRY_CAT = 1 << 2,
	PFW_ENTRY_PID = 1 << 3,
	PFW_ENTRY_TID = 1 << 4,
	PFW_ENTRY_TS = 1 << 5,
	PFW_ENTRY_DUR = 1 << 6,
	PFW_ENTRY_PH = 1 << 7,
	PFW_ENTRY_ARGS = 1 << 8,
	PFW_ENTRY_TYPE = 1 << 9,   /* DFTracer 2.2 */
	PFW_ENTRY_OTHER = 1 << 10, /* only in has: any other key */
};
#define PFW_ENTRY_KEYS 10

/* The last time; INT64_MAX itself stands for none. */
#define PFW_ENTRY_TIME_MAX (INT64_MAX - 1)

/* One key of args and its value; offsets from the begin of args. */
struct pfw_entry_pair {
	uint32_t key, value, bytes; /* of a string with its quotes */
	uint8_t key_bytes;
	uint8_t type; /* enum pfw_value_type */
	/* The value has backslashes.  Two bytes, so that none of a pair is never written: move_pair() adds to
	 * words of it, after which memcheck takes all of a word for unwritten. */
	uint16_t escaped;
};

/* Numbers of `named` and `form` that are used at one time mostly differ modulo this. */
#define PFW_ENTRY_NUMBERS 256u

/* More than any line of the recorder has. */
#define PFW_ENTRY_ARGS_MAX 40

struct pfw_entry {
	enum pfw_entry_kind kind;
	uint16_t has;	   /* keys that are present */
	uint16_t wrong;	   /* their value has a wrong type or size, and is taken as 0 */
	uint16_t repeated; /* present more than once; the last value counts */
	bool comma;	   /* the line ends in a comma (DFTracer 1.x) */
	bool integer_ph;   /* DFTracer 2.2; ph is then the letter */
	bool fast;	   /* in our own key order */
	bool disordered;   /* not in it, although all keys are ours */
	char ph;	   /* X i C M, A for DFTracer's aggregates, '?' for any other text */
	uint64_t id, pid, tid;
	/* Set by the code that knows the file: see store/traces/processes.h. */
	uint64_t process;
	bool at_begin; /* its process wrote lines as spans began, not as they ended */
	/* Exact; digits below a nanosecond are cut, and a duration so that ts_ns + dur_ns is at
	 * most PFW_ENTRY_TIME_MAX. */
	int64_t ts_ns, dur_ns;
	struct pfw_slice name, cat;
	struct pfw_slice args; /* with its braces */
	const char *why;       /* BAD: what is wrong, a constant */
	size_t why_at;	       /* BAD: byte of the line */
	/* Lines with the same number here have the same name and cat.  Lines of one form have the
	 * same args in the same order, with the same values but for those in `varies` (bits of
	 * arg[]).  0: not known.  Other numbers are not used again; caches have PFW_ENTRY_NUMBERS
	 * cells for them. */
	uint64_t named, form;
	uint32_t varies;
	bool args_more; /* arg[] is incomplete, or has a key with escapes: use args */
	uint16_t arg_count;
	uint64_t arg_keys; /* pfw_entry_key_bit() of all keys, or more */
	/* Their pairs, until the thread parses another line.  They may be `own`: those of a copy are in
	 * the original. */
	const struct pfw_entry_pair *arg;
	struct pfw_entry_pair own[PFW_ENTRY_ARGS_MAX + 1]; /* the last one is a scratch cell */
	/* Set by the caller of pfw_entry_parse_next(), once: whether it finds `named`. */
	bool numbered;
};

/*
 * Parse one line, without its '\n'.  `entry` points into it.  Any bytes are allowed.  Thread: any.
 * The two functions below are its halves, for tests: fast returns false if the line is not in our
 * key order or is unusual in any way.
 */
void pfw_entry_parse(struct pfw_entry *entry, const char *line, size_t bytes);
bool pfw_entry_parse_fast(struct pfw_entry *entry, const char *line, size_t bytes);
void pfw_entry_parse_any(struct pfw_entry *entry, const char *line, size_t bytes);

/* So many readable zero bytes must follow the text given to pfw_entry_parse_next(). */
#define PFW_ENTRY_PADDING 64

/* Parse the line at `line` (below `end`, the end of the text), and find its '\n'.  Return the end
 * of the line, its '\n' or `end`.  Thread: any. */
const char *pfw_entry_parse_next(struct pfw_entry *entry, const char *line, const char *end);

/*
 * Parse only what is before the args: id, name, cat, pid, tid, ts_ns, dur_ns and ph are set,
 * nothing else.  `end` is the end of the line.  Return false if the line does not begin in our key
 * order.
 */
bool pfw_entry_parse_head(struct pfw_entry *entry, const char *line, const char *end);

/* Of spans of a thread with identical times, the one with the greatest value is the outermost. */
static inline uint64_t pfw_entry_outer(const struct pfw_entry *entry)
{
	return entry->at_begin ? ~entry->id : entry->id;
}

/* The required keys that an event lacks: bits of enum pfw_entry_key.  Thread: any. */
unsigned pfw_entry_missing(const struct pfw_entry *entry);

/* The name of one bit of enum pfw_entry_key: "ts".  Thread: any. */
const char *pfw_entry_key_name(unsigned bit);

/* ---- what is inside args ---- */

/* The last value of `key`, of `bytes` bytes, at the top level of args.  False: no such key.
 * Thread: any. */
bool pfw_entry_find(const struct pfw_entry *entry, const char *key, size_t bytes,
		    struct pfw_value *value);

/* Key and value of arg[i].  Thread: any. */
static inline void pfw_entry_pair(const struct pfw_entry *entry, unsigned i, struct pfw_slice *key,
				  struct pfw_value *value)
{
	const struct pfw_entry_pair *arg = &entry->arg[i];
	unsigned quote = arg->type == PFW_VALUE_STRING;

	*key = (struct pfw_slice){ .at = entry->args.at + arg->key, .bytes = arg->key_bytes };
	value->type = (enum pfw_value_type)arg->type;
	value->text = (struct pfw_slice){ .at = entry->args.at + arg->value + quote,
					  .bytes = arg->bytes - 2 * quote,
					  .escaped = arg->escaped };
}

/* The number that arg[i] is; false: as pfw_value_u64() and pfw_value_i64(). */
static inline bool pfw_entry_u64(const struct pfw_entry *entry, unsigned i, uint64_t *number)
{
	const struct pfw_entry_pair *arg = &entry->arg[i];
	const char *at = entry->args.at + arg->value;

	if (arg->type != PFW_VALUE_NUMBER)
		return false;
	/* The value and the bytes before it are at least eight bytes. */
	if (arg->bytes <= 8 &&
	    pfw_bytes_take_last_number(pfw_bytes_load(at + arg->bytes - 8), arg->bytes, number))
		return true;
	return pfw_number_u64(at, arg->bytes, number);
}

static inline bool pfw_entry_i64(const struct pfw_entry *entry, unsigned i, int64_t *number)
{
	const struct pfw_entry_pair *arg = &entry->arg[i];
	const char *at = entry->args.at + arg->value;
	uint64_t size;

	if (arg->type != PFW_VALUE_NUMBER)
		return false;
	if (arg->bytes <= 8 &&
	    pfw_bytes_take_last_number(pfw_bytes_load(at + arg->bytes - 8), arg->bytes, &size)) {
		*number = (int64_t)size;
		return true;
	}
	return pfw_number_i64(at, arg->bytes, number);
}

/* One of 64 bits for a key; few of the recorder's keys share a bit.  A constant for a constant key. */
static inline uint64_t pfw_entry_key_bit(const char *key, size_t bytes)
{
	return bytes ? 1ull << ((bytes + (unsigned char)key[0] * 8u +
				 (unsigned char)key[bytes - 1] * 11u) %
				64)
		     : 1;
}

/* Whether lines of the same entry->form may have another value of a key; true if there is no
 * form. */
static inline bool pfw_entry_varies(const struct pfw_entry *entry, const char *key)
{
	size_t bytes = __builtin_strlen(key);

	for (unsigned i = 0; entry->form && i < entry->arg_count; i++) {
		if (entry->varies >> i & 1 && entry->arg[i].key_bytes == bytes &&
		    __builtin_memcmp(entry->args.at + entry->arg[i].key, key, bytes) == 0)
			return true;
	}
	return !entry->form;
}

/* Where a key's last value is in arg[], plus 1, in all lines of the same entry->form; 0: in none. */
static inline uint8_t pfw_entry_place(const struct pfw_entry *entry, const char *key)
{
	size_t bytes = __builtin_strlen(key);
	unsigned i = entry->arg_count;

	while (i && (entry->arg[i - 1].key_bytes != bytes ||
		     __builtin_memcmp(entry->args.at + entry->arg[i - 1].key, key, bytes) != 0))
		i--;
	return (uint8_t)i;
}

static inline bool pfw_entry_arg(const struct pfw_entry *entry, const char *key,
				 struct pfw_value *value)
{
	size_t bytes = __builtin_strlen(key);

	if (!entry->args_more && !(entry->arg_keys & pfw_entry_key_bit(key, bytes)))
		return false;
	return pfw_entry_find(entry, key, bytes, value);
}
