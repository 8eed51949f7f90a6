/* entry_fast.c - a line in our own key order, taken apart at the speed of memory; see entry.h.
 *
 * What is here takes no space between values and no surprise: the lines that the recorder writes.
 * It never says what is wrong with a line; it says that the general path (entry.c) must look.
 *
 * Each function is handed the place where it begins and returns the one behind what it took, or
 * NULL.  `padded`, a constant where they are inlined: PFW_ENTRY_PADDING bytes behind `end` can be
 * read, so that no place needs to be compared with it.  Nothing runs over it, nor over a '\n': no
 * token has one.
 */
#include <string.h>

#include "bytes.h"
#include "entry.h"
#include "jsonread.h"

#define INLINE __attribute__((always_inline)) static inline
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

INLINE bool room(const char *at, const char *end, size_t bytes, bool padded)
{
	return padded || (size_t)(end - at) >= bytes;
}

/* Whether the first `bytes` (1 to 8) of eight bytes are those of a literal: no loop, so that what is
 * wanted becomes a constant. */
INLINE bool same(uint64_t word, const char *text, size_t bytes)
{
#define BYTE(i) ((i) < bytes ? (uint64_t)(unsigned char)text[i] << 8 * (i) : 0)
	uint64_t wanted = BYTE(0) | BYTE(1) | BYTE(2) | BYTE(3) | BYTE(4) | BYTE(5) | BYTE(6) |
			  BYTE(7);
#undef BYTE

	return (word ^ wanted) << (64 - 8 * bytes) == 0;
}

/* A literal of at most 16 bytes. */
INLINE const char *take(const char *at, const char *end, const char *text, bool padded)
{
	size_t bytes = strlen(text);

	if (!padded)
		return room(at, end, bytes, false) && memcmp(at, text, bytes) == 0 ? at + bytes
										   : NULL;
	if (UNLIKELY(!same(pfw_bytes_load(at), text, bytes < 8 ? bytes : 8)))
		return NULL;
	if (bytes > 8 && UNLIKELY(!same(pfw_bytes_load(at + 8), text + 8, bytes - 8)))
		return NULL;
	return at + bytes;
}

INLINE bool at_char(const char *at, const char *end, char c, bool padded)
{
	return room(at, end, 1, padded) && *at == c;
}

/* ---- guesses ---- */

/*
 * How long things were in the lines before.  To know where the next thing begins, the processor would
 * have to wait until it is known where this one ends; where that is guessed, it only has to predict
 * that the guess is right, and takes several things apart at once.  A wrong guess costs time alone.
 */
#define GUESS_ROWS 64u /* lines of one name have the same keys: a row for some names each */
#define GUESS_PAIRS 16u

struct guess {
	uint8_t id, pid, tid;
	uint8_t cat[GUESS_ROWS];
	uint8_t pair[GUESS_ROWS][2 * GUESS_PAIRS]; /* of a key, and of the text behind it */
};
static _Thread_local struct guess guesses;

INLINE unsigned guess_row(const struct pfw_slice *name)
{
	/* One byte behind the name is its quote. */
	return ((unsigned)name->bytes * 5 + (unsigned char)name->at[0] +
		(unsigned char)name->at[name->bytes / 2] * 3) %
	       GUESS_ROWS;
}

/* `at` + `count`, by a guess. */
INLINE const char *skip_guessed(const char *at, unsigned count, uint8_t *guess)
{
	unsigned guessed = *guess;

	if (LIKELY(count == guessed)) {
		/* The compiler must not take `count`, which is the same, and not known yet. */
		__asm__("" : "+r"(guessed));
		return at + guessed;
	}
	*guess = (uint8_t)count;
	return at + count;
}

/* ---- strings ---- */

/* A string with an escape, or text that is not ASCII; `at` behind its opening quote. */
static __attribute__((noinline)) const char *take_odd_string(const char *at, const char *end,
							     bool *escaped)
{
	struct pfw_reader reader = { .at = at, .end = end };

	if (!pfw_reader_string(&reader))
		return NULL;
	*escaped = reader.escaped;
	return reader.at;
}

/* The rest of a string, behind its opening quote. */
INLINE const char *take_string(const char *at, const char *end, uint8_t *guess, bool *escaped,
			       bool padded)
{
	const char *start = at;

	*escaped = false;
	while (room(at, end, 16, padded)) {
		unsigned plain = pfw_bytes_plain16(at);

		if (LIKELY(plain < 16)) {
			if (UNLIKELY(at[plain] != '"'))
				break;
			return (guess ? skip_guessed(at, plain, guess) : at + plain) + 1;
		}
		at += 16; /* a prediction, where `plain` would have to be waited for */
	}
	return take_odd_string(start, end, escaped);
}

INLINE const char *take_text(const char *at, const char *end, struct pfw_slice *slice,
			     uint8_t *guess, bool padded)
{
	slice->at = at;
	at = take_string(at, end, guess, &slice->escaped, padded);
	if (LIKELY(at))
		slice->bytes = (size_t)(at - 1 - slice->at);
	return at;
}

/* ---- numbers ---- */

/* A whole number of at most 18 digits, which cannot overflow. */
INLINE const char *take_u64(const char *at, const char *end, uint64_t *number, uint8_t *guess,
			    bool padded)
{
	const char *start = at;
	uint64_t sum = 0;

	for (;;) {
		static const uint64_t tens[] = { 1,	 10,	  100,	    1000,     10000,
						 100000, 1000000, 10000000, 100000000 };
		unsigned count;
		uint64_t word;

		if (!room(at, end, 8, padded))
			return NULL;
		word = pfw_bytes_load(at);
		count = pfw_bytes_digits(word);
		if (!count)
			break;
		sum = sum * tens[count] + pfw_bytes_number(word, count);
		if (count < 8) {
			at = guess ? skip_guessed(at, count, guess) : at + count;
			break;
		}
		at += 8;
		if (at - start > 18)
			return NULL;
	}
	*number = sum;
	return LIKELY(at > start && at - start <= 18 && (*start != '0' || at - start == 1)) ? at
											    : NULL;
}

/* µs with three decimals or none, to ns. */
INLINE const char *take_us(const char *at, const char *end, int64_t *ns, bool padded)
{
	uint64_t whole, word;

	at = take_u64(at, end, &whole, NULL, padded);
	if (UNLIKELY(!at || whole > INT64_MAX / 1000 - 1))
		return NULL;
	*ns = (int64_t)whole * 1000;
	if (!at_char(at, end, '.', padded))
		return at;
	at++;
	if (!room(at, end, 8, padded))
		return NULL;
	word = pfw_bytes_load(at);
	if (UNLIKELY(pfw_bytes_digits(word) != 3))
		return NULL;
	*ns += (int64_t)pfw_bytes_number(word, 3);
	return at + 3;
}

static inline bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* At least one digit. */
INLINE const char *take_digits(const char *at, const char *end, bool padded)
{
	const char *start = at;

	/* One by one: how many there are is predicted, where counting them has to be waited for. */
	while (room(at, end, 1, padded) && is_digit(*at))
		at++;
	return at > start ? at : NULL;
}

/* Any number. */
INLINE const char *take_number(const char *at, const char *end, bool padded)
{
	const char *first = at + (*at == '-');

	at = take_digits(first, end, padded);
	if (UNLIKELY(!at || (*first == '0' && at - first > 1)))
		return NULL;
	if (at_char(at, end, '.', padded)) {
		at = take_digits(at + 1, end, padded);
		if (!at)
			return NULL;
	}
	if (UNLIKELY(room(at, end, 1, padded) && (*at | 0x20) == 'e')) {
		at++;
		at += at_char(at, end, '+', padded) || at_char(at, end, '-', padded);
		return take_digits(at, end, padded);
	}
	return at;
}

/* ---- values ---- */

/* A value that holds no others.  *escaped is set for strings only. */
INLINE const char *take_scalar(const char *at, const char *end, uint8_t *guess, uint8_t *type,
			       bool *escaped, bool padded)
{
	/* No table of jumps: strings and numbers are nearly all there is. */
	if (LIKELY(*at == '"')) {
		*type = PFW_VALUE_STRING;
		return take_string(at + 1, end, guess, escaped, padded);
	}
	if (LIKELY(*at <= '9')) {
		*type = PFW_VALUE_NUMBER;
		return take_number(at, end, padded);
	}
	switch (*at) {
	case 't':
		*type = PFW_VALUE_TRUE;
		return take(at, end, "true", padded);
	case 'f':
		*type = PFW_VALUE_FALSE;
		return take(at, end, "false", padded);
	case 'n':
		*type = PFW_VALUE_NULL;
		return take(at, end, "null", padded);
	default:
		return NULL;
	}
}

/* `"key":` inside something nested. */
INLINE const char *take_key(const char *at, const char *end, bool padded)
{
	bool escaped;

	if (!at_char(at, end, '"', padded))
		return NULL;
	at = take_string(at + 1, end, NULL, &escaped, padded);
	return at && at_char(at, end, ':', padded) ? at + 1 : NULL;
}

/* An object or array of whatever is in it; at most 63 levels, a bit each, 1 = object. */
INLINE const char *take_nested(const char *at, const char *end, bool padded)
{
	uint64_t objects = 1;

	for (;;) {
		bool escaped, object;
		uint8_t type;

		if (!room(at, end, 1, padded))
			return NULL;
		object = *at == '{';
		if (object || *at == '[') {
			if (objects >> 63)
				return NULL;
			at++;
			objects = objects << 1 | object;
			if (!at_char(at, end, object ? '}' : ']', padded)) {
				at = object ? take_key(at, end, padded) : at;
				if (!at)
					return NULL;
				continue;
			}
		} else {
			at = take_scalar(at, end, NULL, &type, &escaped, padded);
			if (!at)
				return NULL;
		}
		/* Behind a value: close what is closed. */
		while (at_char(at, end, objects & 1 ? '}' : ']', padded)) {
			at++;
			objects >>= 1;
			if (objects == 1)
				return at;
		}
		if (!at_char(at, end, ',', padded))
			return NULL;
		at++;
		if (objects & 1)
			at = take_key(at, end, padded);
		if (!at)
			return NULL;
	}
}

static __attribute__((noinline)) const char *take_nested_padded(const char *at, const char *end)
{
	return take_nested(at, end, true);
}

static __attribute__((noinline)) const char *take_nested_bare(const char *at, const char *end)
{
	return take_nested(at, end, false);
}

/* ---- args ---- */

/* One `"key":value`, into *arg.  *odd: what it has room for does not tell which key it is. */
INLINE const char *take_arg(const char *at, const char *end, const char *line,
			    struct pfw_entry_pair *arg, uint8_t *guess, bool *odd, bool padded)
{
	const char *key = at + 1;
	bool escaped;

	if (UNLIKELY(!at_char(at, end, '"', padded)))
		return NULL;
	at = take_string(key, end, guess, &escaped, padded);
	if (UNLIKELY(!at || !at_char(at, end, ':', padded)))
		return NULL;
	*odd = escaped || at - 1 - key > UINT8_MAX;
	arg->key = (uint32_t)(key - line);
	arg->key_bytes = (uint8_t)(at - 1 - key);
	at++;
	arg->value = (uint32_t)(at - line);
	if (UNLIKELY(!room(at, end, 1, padded)))
		return NULL;
	escaped = false;
	if (UNLIKELY(*at == '{' || *at == '[')) {
		arg->type = *at == '{' ? PFW_VALUE_OBJECT : PFW_VALUE_ARRAY;
		at = padded ? take_nested_padded(at, end) : take_nested_bare(at, end);
	} else {
		at = take_scalar(at, end, guess + 1, &arg->type, &escaped, padded);
	}
	arg->escaped = escaped;
	if (LIKELY(at))
		arg->bytes = (uint32_t)(at - line) - arg->value;
	return at;
}

INLINE const char *take_args(const char *at, const char *end, struct pfw_entry *entry,
			     uint8_t guess[2 * GUESS_PAIRS], bool padded)
{
	unsigned count = 0;
	uint32_t sizes = 0;
	bool odd;

	entry->args.at = at;
	entry->args.escaped = false;
	entry->args_more = false;
	if (UNLIKELY(!at_char(at, end, '{', padded)))
		return NULL;
	at++;
	if (at_char(at, end, '}', padded)) {
		entry->arg_count = 0;
		entry->arg_sizes = 0;
		entry->args.bytes = 2;
		return at + 1;
	}
	for (;;) {
		at = take_arg(at, end, entry->line, &entry->arg[count],
			      &guess[count % GUESS_PAIRS * 2], &odd, padded);
		if (UNLIKELY(!at))
			return NULL;
		sizes |= 1u << entry->arg[count].key_bytes % 32;
		if (LIKELY(count < PFW_ENTRY_ARGS_MAX))
			count++;
		if (UNLIKELY(count == PFW_ENTRY_ARGS_MAX || odd))
			entry->args_more = true;
		if (!at_char(at, end, ',', padded))
			break;
		at++;
	}
	entry->arg_count = (uint16_t)count;
	entry->arg_sizes = sizes;
	if (UNLIKELY(!at_char(at, end, '}', padded)))
		return NULL;
	at++;
	entry->args.bytes = (size_t)(at - entry->args.at);
	return at;
}

/* ---- a line ---- */

#define FAST_KEYS                                                                        \
	(PFW_ENTRY_ID | PFW_ENTRY_NAME | PFW_ENTRY_CAT | PFW_ENTRY_PID | PFW_ENTRY_TID | \
	 PFW_ENTRY_TS | PFW_ENTRY_PH | PFW_ENTRY_ARGS)

/* Goes on behind a step that may have failed. */
#define AND(step)                    \
	do {                         \
		at = step;           \
		if (!at)             \
			return NULL; \
	} while (0)

/* What stands in front of the args. */
INLINE const char *take_head(const char *at, const char *end, struct pfw_entry *entry,
			     unsigned *row, bool padded)
{
	AND(take(at, end, "{\"id\":", padded));
	AND(take_u64(at, end, &entry->id, &guesses.id, padded));
	AND(take(at, end, ",\"name\":\"", padded));
	AND(take_text(at, end, &entry->name, NULL, padded));
	AND(take(at, end, ",\"cat\":\"", padded));
	*row = guess_row(&entry->name);
	AND(take_text(at, end, &entry->cat, &guesses.cat[*row], padded));
	AND(take(at, end, ",\"pid\":", padded));
	AND(take_u64(at, end, &entry->pid, &guesses.pid, padded));
	AND(take(at, end, ",\"tid\":", padded));
	AND(take_u64(at, end, &entry->tid, &guesses.tid, padded));
	AND(take(at, end, ",\"ts\":", padded));
	AND(take_us(at, end, &entry->ts_ns, padded));
	entry->has = FAST_KEYS;
	entry->dur_ns = 0;
	if (take(at, end, ",\"dur\":", padded)) {
		entry->has |= PFW_ENTRY_DUR;
		AND(take_us(at + strlen(",\"dur\":"), end, &entry->dur_ns, padded));
	}
	AND(take(at, end, ",\"ph\":\"", padded));
	if (!room(at, end, 1, padded) || !(*at == 'X' || *at == 'i' || *at == 'C' || *at == 'M'))
		return NULL;
	entry->ph = *at;
	return take(at + 1, end, "\",\"args\":", padded);
}

INLINE const char *take_line(struct pfw_entry *entry, const char *line, const char *end,
			     bool padded)
{
	const char *at = line;
	unsigned row;

	entry->kind = PFW_ENTRY_EVENT;
	entry->wrong = entry->repeated = 0;
	entry->comma = entry->integer_ph = false;
	entry->fast = true;
	entry->line = line;
	AND(take_head(at, end, entry, &row, padded));
	AND(take_args(at, end, entry, guesses.pair[row], padded));
	return take(at, end, "}", padded);
}

bool pfw_entry_parse_fast(struct pfw_entry *entry, const char *line, size_t bytes)
{
	/* Places in the line are kept in 32 bits. */
	return bytes <= UINT32_MAX && take_line(entry, line, line + bytes, false) == line + bytes;
}

const char *pfw_entry_parse_next(struct pfw_entry *entry, const char *line, const char *end)
{
	const char *at = take_line(entry, line, end, true);

	if (LIKELY(at && at < end && *at == '\n'))
		return at;
	if (at == end)
		return end;
	at = memchr(line, '\n', (size_t)(end - line));
	if (!at)
		at = end;
	pfw_entry_parse_any(entry, line, (size_t)(at - line));
	return at;
}
