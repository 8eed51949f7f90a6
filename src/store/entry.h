/* entry.h - one line of a trace, taken apart: ours or DFTracer's, any key order.
 *
 * A line in our own key order takes a fast path; anything else goes through a strict JSON reader
 * (RFC 8259, valid UTF-8, no lone surrogates, at most PFW_ENTRY_DEPTH levels) that never copies:
 * what is found points into the line.  Both give the same answer where both give one.
 */
#ifndef PFW_ENTRY_H
#define PFW_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PFW_ENTRY_DEPTH 128u

enum pfw_entry_kind {
	PFW_ENTRY_EVENT,   /* a JSON object: the members below say what is in it */
	PFW_ENTRY_BLANK,   /* nothing but white space */
	PFW_ENTRY_BRACKET, /* `[` or `]` alone: DFTracer 1.x and 2.0 frame their traces so */
	PFW_ENTRY_BAD,	   /* not one JSON object: `why` and `why_at` say where */
};

/* The keys that every reader needs; bits of has, wrong and repeated. */
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
	PFW_ENTRY_OTHER = 1 << 10, /* only in has: a key that is none of these */
};
#define PFW_ENTRY_KEYS 10

/* A stretch of the line.  Of a string: what is between its quotes, as it is written. */
struct pfw_slice {
	const char *at;
	size_t bytes;
	bool escaped; /* has backslashes: pfw_slice_decode() */
};

/* One key of args and its value; places are bytes of the line. */
struct pfw_entry_pair {
	uint32_t key, value, bytes; /* of a string with its quotes */
	uint8_t key_bytes;
	uint8_t type; /* enum pfw_value_type */
	bool escaped; /* the value has backslashes */
};

/* More than any line of the recorder has. */
#define PFW_ENTRY_ARGS_MAX 40

struct pfw_entry {
	enum pfw_entry_kind kind;
	uint16_t has;	   /* keys that are there */
	uint16_t wrong;	   /* there, with a value of a type or size that cannot be: value 0 */
	uint16_t repeated; /* there more than once: the last one counts */
	bool comma;	   /* the line ends in a comma (DFTracer 1.x) */
	bool integer_ph;   /* DFTracer 2.2; ph below is its letter */
	bool fast;	   /* in our own key order */
	char ph;	   /* X i C M, A for DFTracer's aggregates; '?' for any other text */
	uint64_t id, pid, tid;
	int64_t ts_ns, dur_ns; /* exact; decimals beyond a nanosecond are cut */
	struct pfw_slice name, cat;
	struct pfw_slice args; /* with its braces */
	const char *why;       /* BAD: what is wrong, a constant */
	size_t why_at;	       /* BAD: byte of the line */
	/* For pfw_entry_arg(). */
	const char *line;
	bool args_more; /* arg[] has not all of them, or not as they are */
	uint16_t arg_count;
	uint32_t arg_sizes; /* bit n: some key has n bytes, modulo 32 */
	struct pfw_entry_pair arg[PFW_ENTRY_ARGS_MAX + 1]; /* one is written to in vain */
};

/*
 * Take apart one line, without its '\n'.  `entry` points into it.  Any bytes are allowed.
 * Thread: any.  The two below are its halves, for tests: fast returns false where the line is not
 * in our key order or anything about it is unusual.
 */
void pfw_entry_parse(struct pfw_entry *entry, const char *line, size_t bytes);
bool pfw_entry_parse_fast(struct pfw_entry *entry, const char *line, size_t bytes);
void pfw_entry_parse_any(struct pfw_entry *entry, const char *line, size_t bytes);

/* What must be readable behind the text that pfw_entry_parse_next() is given, and be zeroes. */
#define PFW_ENTRY_PADDING 64

/*
 * Take apart the line at `line` in the text that ends at `end` (line < end): up to the '\n', which
 * it finds itself.  Return the end of the line, its '\n' or `end`.  Thread: any.
 */
const char *pfw_entry_parse_next(struct pfw_entry *entry, const char *line, const char *end);

/* What an event lacks that every reader needs: bits of enum pfw_entry_key.  Thread: any. */
unsigned pfw_entry_missing(const struct pfw_entry *entry);

/* The name of one bit of enum pfw_entry_key: "ts".  Thread: any. */
const char *pfw_entry_key_name(unsigned bit);

/* ---- what is inside args ---- */

enum pfw_value_type {
	PFW_VALUE_STRING,
	PFW_VALUE_NUMBER,
	PFW_VALUE_OBJECT,
	PFW_VALUE_ARRAY,
	PFW_VALUE_TRUE,
	PFW_VALUE_FALSE,
	PFW_VALUE_NULL,
};

struct pfw_value {
	enum pfw_value_type type;
	struct pfw_slice text; /* of a string without its quotes, else as it is written */
};

/* The last value of `key`, of `bytes` bytes, at the top of the entry's args.  Of a line of ours they
 * have been taken apart with it.  Return whether it is there.  Thread: any. */
bool pfw_entry_find(const struct pfw_entry *entry, const char *key, size_t bytes,
		    struct pfw_value *value);

/* Key and value of arg[i].  Thread: any. */
static inline void pfw_entry_pair(const struct pfw_entry *entry, unsigned i, struct pfw_slice *key,
				  struct pfw_value *value)
{
	const struct pfw_entry_pair *arg = &entry->arg[i];
	unsigned quote = arg->type == PFW_VALUE_STRING;

	*key = (struct pfw_slice){ .at = entry->line + arg->key, .bytes = arg->key_bytes };
	value->type = (enum pfw_value_type)arg->type;
	value->text = (struct pfw_slice){ .at = entry->line + arg->value + quote,
					  .bytes = arg->bytes - 2 * quote,
					  .escaped = arg->escaped };
}

static inline bool pfw_entry_arg(const struct pfw_entry *entry, const char *key,
				 struct pfw_value *value)
{
	size_t bytes = __builtin_strlen(key);

	if (!entry->args_more && !(entry->arg_sizes >> bytes % 32 & 1))
		return false;
	return pfw_entry_find(entry, key, bytes, value);
}

/* The last value of `key` in an object that pfw_entry_parse() has accepted (entry.args, or an
 * object found in it).  Return whether it is there.  Thread: any. */
bool pfw_object_find(const struct pfw_slice *object, const char *key, struct pfw_value *value);

/* Number of a value, or false: another type, negative, a fraction, more than 64 bits. */
bool pfw_value_u64(const struct pfw_value *value, uint64_t *number);
bool pfw_value_i64(const struct pfw_value *value, int64_t *number);

/* µs in decimal text to ns, exactly; false where it is no number or does not fit. */
bool pfw_slice_us(const struct pfw_slice *text, int64_t *ns);

/* The string's text with escapes resolved, NUL-terminated, cut at size - 1 bytes; a NUL inside
 * becomes U+FFFD.  Return the bytes written without the NUL.  Thread: any. */
size_t pfw_slice_decode(const struct pfw_slice *text, char *out, size_t size);

/* Whether the text of a string with escapes is `text` (at most 120 bytes) once they are resolved. */
bool pfw_slice_decodes_to(const struct pfw_slice *slice, const char *text);

/* Whether the string's text, escapes resolved, is `text`; inlined, so that a constant is compared by
 * words. */
static inline bool pfw_slice_is(const struct pfw_slice *slice, const char *text)
{
	size_t bytes = __builtin_strlen(text);

	if (__builtin_expect(slice->escaped, 0))
		return pfw_slice_decodes_to(slice, text);
	return slice->bytes == bytes && __builtin_memcmp(slice->at, text, bytes) == 0;
}

#endif
