/* store/line/fast.c - parses lines in our own key order at the speed of memory; see entry.h.
 *
 * It accepts only lines as the recorder writes them, without white space.  If it refuses a line,
 * the general path (entry.c) finds out why.
 */
#include "store/line/entry.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "store/json/swar.h"
#include "store/line/take.h"

/* ---- forms ---- */

#define FORM_TEXT 384u
#define FORM_PAIRS 16u
/* The form is learned from so many lines at once, then from one line of FORM_PATIENCE. */
#define FORM_EAGER 12u
#define FORM_PATIENCE 32u

/* Text that is equal in each line, and the number of pairs inside it. */
struct constant {
	uint16_t at, bytes;
	uint8_t pairs;
};

/* The args that lines of one name have in common: constants, and after each but the last a value
 * that varies.  A constant has been validated once, so an equal text only needs a comparison. */
struct form {
	uint8_t constants; /* 0: nothing is known */
	uint8_t pairs;
	uint8_t eager, patience;
	uint64_t keys;	 /* as entry->arg_keys */
	uint32_t varies; /* bits of pairs */
	uint64_t number; /* see entry->form */
	struct constant constant[FORM_PAIRS + 1];
	struct pfw_entry_pair pair[FORM_PAIRS]; /* of text */
	struct pfw_entry_pair last[FORM_PAIRS]; /* of the line before: entry->arg */
	char text[FORM_TEXT + 16];		/* the args of the line that was learned last */
};

/* A name, and the text between it and tid, usually equal in all lines of one name in a process. */
#define BETWEEN_TEXT 64u
#define NAME_TEXT 192u

struct between {
	uint8_t bytes;	    /* 0: nothing is known */
	uint8_t name_bytes; /* 0: any name */
	bool cat_escaped;
	uint32_t cat_bytes;
	uint64_t number; /* see entry->named */
	uint64_t pid;
	char text[BETWEEN_TEXT + 16];
	char name[NAME_TEXT + 16];
};

/* ---- guesses ---- */

/*
 * Lengths in earlier lines.  The begin of a token depends on the length of the one before it.  With
 * a guessed length the processor predicts that the guess is right, and parses several tokens in
 * parallel.  A wrong guess costs only time.
 */
#define GUESS_ROWS PFW_ENTRY_NUMBERS /* lines of one name have equal keys; some names share a row */

/* An object or array that was found valid; its text ends by itself. */
#define NESTED 64u
#define NESTED_TEXT 96u

struct nested {
	uint8_t bytes; /* 0: none */
	char text[NESTED_TEXT + 16];
};

struct guess {
	uint8_t id, pid;
	struct instant ts;
	uint8_t tid[GUESS_ROWS]; /* of GPU streams longer than of threads */
	struct between between[GUESS_ROWS];
	struct form form[GUESS_ROWS];
	struct nested nested[NESTED];
};

/* Looked up once for each line: in a shared library each access is a call. */
static __attribute__((noinline)) struct guess *guess_of_thread(void)
{
	static _Thread_local struct guess guesses;

	return &guesses;
}

/* Threads have guesses of their own, but readers keep what they know of a number for other
 * threads. */
static uint64_t new_number(unsigned row)
{
	static _Atomic uint64_t last;

	return (atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1) * GUESS_ROWS + row;
}

/* By the first and last eight bytes of the name; padded text.  For a shorter name they include the
 * text around it, which is the same for all names. */
INLINE unsigned guess_row(const struct pfw_slice *name)
{
	uint64_t first = pfw_bytes_load(name->at);
	uint64_t last = pfw_bytes_load(name->at + name->bytes - 8);

	return (unsigned)(((first ^ last * 31) + name->bytes) * 0x9e3779b97f4a7c15u >> 56) %
	       GUESS_ROWS;
}

/* The zeroes after the end of the text match no form, so this cannot run past them. */
INLINE bool is_constant(const char *at, const char *text, unsigned bytes)
{
	for (; bytes > 16; at += 16, text += 16, bytes -= 16) {
		if (UNLIKELY(!pfw_bytes_same16(at, text, 16)))
			return false;
	}
	return LIKELY(pfw_bytes_same16(at, text, bytes));
}

/* ---- args ---- */

/* An object or array, of padded text.  Shapes and grids repeat: those seen before are compared. */
static __attribute__((noinline)) const char *take_known_nested(const char *at, const char *end,
							       struct nested *seen)
{
	uint64_t first = pfw_bytes_load(at), next = pfw_bytes_load(at + 8);
	struct nested *nested =
		&seen[(first ^ next * 31) * 0x9e3779b97f4a7c15u >> 56 & (NESTED - 1)];
	const char *stop;

	if (LIKELY(nested->bytes) && LIKELY(is_constant(at, nested->text, nested->bytes)))
		return at + nested->bytes;
	stop = take_nested_padded(at, end);
	if (stop && stop - at <= (ptrdiff_t)NESTED_TEXT) {
		nested->bytes = (uint8_t)(stop - at);
		memcpy(nested->text, at, nested->bytes);
	}
	return stop;
}

/* Parse the value at `at` into *arg, except its begin.  `guess`: where it may end, `seen`: what it may
 * be; or NULL. */
INLINE const char *take_value(const char *at, const char *end, struct pfw_entry_pair *arg,
			      const char *guess, struct nested *seen, bool padded)
{
	const char *start = at;
	bool escaped = false;

	if (UNLIKELY(!room(at, end, 1, padded)))
		return NULL;
	if (UNLIKELY(*at == '{' || *at == '[')) {
		arg->type = *at == '{' ? PFW_VALUE_OBJECT : PFW_VALUE_ARRAY;
		at = seen     ? take_known_nested(at, end, seen)
		     : padded ? take_nested_padded(at, end)
			      : take_nested_bare(at, end);
	} else {
		at = take_scalar(at, end, guess, &arg->type, &escaped, padded);
	}
	arg->escaped = escaped;
	if (LIKELY(at))
		arg->bytes = (uint32_t)(at - start);
	return at;
}

/* Parse one `"key":value` into *arg.  *odd: the key does not fit arg, or has escapes. */
INLINE const char *take_arg(const char *at, const char *end, const char *args,
			    struct pfw_entry_pair *arg, bool *odd, bool padded)
{
	const char *key = at + 1;
	bool escaped;

	if (UNLIKELY(!at_char(at, end, '"', padded)))
		return NULL;
	at = take_string(key, end, NULL, &escaped, padded);
	if (UNLIKELY(!at || !at_char(at, end, ':', padded)))
		return NULL;
	*odd = escaped || at - 1 - key > UINT8_MAX;
	arg->key = (uint32_t)(key - args);
	arg->key_bytes = (uint8_t)(at - 1 - key);
	arg->value = (uint32_t)(at + 1 - args);
	return take_value(at + 1, end, arg, NULL, NULL, padded);
}

INLINE const char *take_args(const char *at, const char *end, struct pfw_entry *entry, bool padded)
{
	struct pfw_entry_pair *arg = entry->own;
	unsigned count = 0;
	uint64_t keys = 0;
	bool odd;

	entry->args.at = at;
	entry->args.escaped = false;
	entry->args_more = false;
	entry->arg = arg;
	if (UNLIKELY(!at_char(at, end, '{', padded)))
		return NULL;
	at++;
	if (at_char(at, end, '}', padded)) {
		entry->arg_count = 0;
		entry->arg_keys = 0;
		entry->args.bytes = 2;
		return at + 1;
	}
	for (;;) {
		at = take_arg(at, end, entry->args.at, &arg[count], &odd, padded);
		if (UNLIKELY(!at))
			return NULL;
		if (padded)
			keys |= pfw_entry_key_bit(entry->args.at + arg[count].key,
						  arg[count].key_bytes);
		if (LIKELY(count < PFW_ENTRY_ARGS_MAX))
			count++;
		if (UNLIKELY(count == PFW_ENTRY_ARGS_MAX || odd))
			entry->args_more = true;
		if (!at_char(at, end, ',', padded))
			break;
		at++;
	}
	entry->arg_count = (uint16_t)count;
	entry->arg_keys = padded ? keys
				 : UINT64_MAX; /* whoever parses one line asks for few args */
	if (UNLIKELY(!at_char(at, end, '}', padded)))
		return NULL;
	at++;
	entry->args.bytes = (size_t)(at - entry->args.at);
	return at;
}

/* ---- args of a known form ---- */

/* Note the values that differ from the form's.  False: the keys differ. */
static bool compare_form(struct form *form, const struct pfw_entry *entry)
{
	if (!form->constants || form->pairs != entry->arg_count)
		return false;
	for (unsigned i = 0; i < form->pairs; i++) {
		const struct pfw_entry_pair *known = &form->pair[i], *arg = &entry->arg[i];
		const char *value = entry->args.at + arg->value;

		if (known->key_bytes != arg->key_bytes ||
		    memcmp(form->text + known->key, entry->args.at + arg->key, arg->key_bytes) != 0)
			return false;
		if (known->bytes != arg->bytes ||
		    memcmp(form->text + known->value, value, arg->bytes) != 0)
			form->varies |= 1u << i;
	}
	return true;
}

static void set_constants(struct form *form, size_t bytes)
{
	struct constant *constant = form->constant;

	*constant = (struct constant){ 0 };
	for (unsigned i = 0; i < form->pairs; i++) {
		const struct pfw_entry_pair *pair = &form->pair[i];

		if (!(form->varies >> i & 1)) {
			constant->pairs++;
			continue;
		}
		constant->bytes = (uint16_t)(pair->value - constant->at);
		*++constant = (struct constant){ .at = (uint16_t)(pair->value + pair->bytes) };
	}
	constant->bytes = (uint16_t)(bytes - constant->at);
	form->constants = (uint8_t)(constant - form->constant + 1);
}

/* Learn the form of the parsed args. */
static void learn_form(struct form *form, const struct pfw_entry *entry, unsigned row)
{
	uint32_t varied;
	bool same;

	if (form->patience) {
		form->patience--;
		return;
	}
	if (form->eager < FORM_EAGER)
		form->eager++;
	else
		form->patience = FORM_PATIENCE;
	if (entry->args_more || entry->arg_count > FORM_PAIRS || entry->args.bytes > FORM_TEXT)
		return;
	varied = form->varies;
	same = compare_form(form, entry);
	if (!same)
		form->varies = 0;
	if (!same || form->varies != varied)
		form->number = new_number(row);
	memcpy(form->text, entry->args.at, entry->args.bytes);
	form->pairs = (uint8_t)entry->arg_count;
	form->keys = entry->arg_keys;
	memcpy(form->pair, entry->arg, form->pairs * sizeof(*form->pair));
	memcpy(form->last, form->pair, sizeof(form->last));
	set_constants(form, entry->args.bytes);
}

static __attribute__((noinline)) const char *take_new_args(const char *at, const char *end,
							   struct pfw_entry *entry,
							   struct guess *guess, unsigned row)
{
	struct form *form = &guess->form[row];

	memcpy(form->last, form->pair, sizeof(form->last)); /* it may have changed in part */
	at = take_args(at, end, entry, true);
	if (at)
		learn_form(form, entry, row);
	return at;
}

/* A pair lies so many bytes further on: its first two words grow. */
INLINE void move_pair(struct pfw_entry_pair *pair, uint32_t moved)
{
	typedef uint32_t words __attribute__((vector_size(16)));
	words word;

	_Static_assert(sizeof(*pair) == sizeof(word) && !offsetof(struct pfw_entry_pair, key) &&
			       offsetof(struct pfw_entry_pair, value) == sizeof(uint32_t) &&
			       offsetof(struct pfw_entry_pair, escaped) + sizeof(pair->escaped) ==
				       sizeof(word),
		       "key and value are the first words, and no byte is padding");
	memcpy(&word, pair, sizeof(word));
	word += (words){ moved, moved };
	memcpy(pair, &word, sizeof(word));
}

/*
 * Parse args of the form that was seen before, or return NULL.  The text is padded.  The pairs of
 * the line before become those of this line: mostly all values have the same lengths, so nothing
 * moves.
 */
INLINE const char *take_known_args(const char *at, const char *end, struct pfw_entry *entry,
				   struct guess *guess, struct form *form)
{
	const struct constant *constant = form->constant, *last = constant + form->constants - 1;
	struct pfw_entry_pair *arg = form->last;
	uint32_t moved = 0;

	if (UNLIKELY(!form->constants))
		return NULL;
	entry->args.at = at;
	for (;; constant++) {
		struct pfw_entry_pair *varies = arg + constant->pairs;
		uint32_t bytes;

		if (UNLIKELY(!is_constant(at, form->text + constant->at, constant->bytes)))
			return NULL;
		at += constant->bytes;
		for (; moved && arg < varies; arg++)
			move_pair(arg, moved);
		arg = varies;
		if (constant == last)
			break;
		bytes = arg->bytes;
		at = take_value(at, end, arg, at + bytes, guess->nested, true);
		if (UNLIKELY(!at))
			return NULL;
		if (moved)
			move_pair(arg, moved);
		moved += arg->bytes - bytes;
		arg++;
	}
	entry->args.bytes = (size_t)(at - entry->args.at);
	entry->args.escaped = entry->args_more = false;
	entry->arg = form->last;
	entry->arg_count = form->pairs;
	entry->arg_keys = form->keys;
	entry->form = form->number;
	entry->varies = form->varies;
	return at;
}

/* ---- a line ---- */

#define FAST_KEYS                                                                        \
	(PFW_ENTRY_ID | PFW_ENTRY_NAME | PFW_ENTRY_CAT | PFW_ENTRY_PID | PFW_ENTRY_TID | \
	 PFW_ENTRY_TS | PFW_ENTRY_PH | PFW_ENTRY_ARGS)

/* Does a step, and returns NULL if it fails. */
#define AND(step)                    \
	do {                         \
		at = step;           \
		if (!at)             \
			return NULL; \
	} while (0)

#define BEHIND_NAME ",\"cat\":\""

/* Parse from the end of the name to the tid. */
INLINE const char *take_between(const char *at, const char *end, struct pfw_entry *entry,
				struct guess *guess, bool padded)
{
	AND(take(at, end, BEHIND_NAME, padded));
	AND(take_text(at, end, &entry->cat, padded));
	AND(take(at, end, ",\"pid\":", padded));
	AND(take_u64(at, end, &entry->pid, &guess->pid, padded));
	return take(at, end, ",\"tid\":", padded);
}

static __attribute__((noinline)) const char *take_new_between(const char *at, const char *end,
							      struct pfw_entry *entry,
							      struct guess *guess, unsigned row)
{
	struct between *between = &guess->between[row];
	const char *begin = at;
	size_t bytes = entry->name.bytes;

	at = take_between(at, end, entry, guess, true);
	if (!at || at - begin > (ptrdiff_t)BETWEEN_TEXT)
		return at;
	bytes = bytes <= NAME_TEXT ? bytes : 0;
	if (!between->number || between->name_bytes != bytes ||
	    memcmp(between->name, entry->name.at, bytes) != 0 ||
	    between->cat_bytes != entry->cat.bytes ||
	    memcmp(between->text + strlen(BEHIND_NAME), entry->cat.at, entry->cat.bytes) != 0)
		between->number = bytes ? new_number(row) : 0;
	between->name_bytes = (uint8_t)bytes;
	memcpy(between->name, entry->name.at, bytes);
	memcpy(between->text, begin, (size_t)(at - begin));
	between->bytes = (uint8_t)(at - begin);
	between->cat_bytes = (uint32_t)entry->cat.bytes;
	between->cat_escaped = entry->cat.escaped;
	between->pid = entry->pid;
	return at;
}

INLINE bool is_named(const struct between *between, const struct pfw_slice *name)
{
	return !between->name_bytes || (between->name_bytes == name->bytes &&
					is_constant(name->at, between->name, between->name_bytes));
}

/* The same of padded text, by comparison with the line of such a name before. */
INLINE const char *take_known_between(const char *at, const char *end, struct pfw_entry *entry,
				      struct guess *guess, unsigned row)
{
	const struct between *between = &guess->between[row];

	if (UNLIKELY(!between->bytes || !is_constant(at, between->text, between->bytes) ||
		     (entry->numbered && !is_named(between, &entry->name))))
		return take_new_between(at, end, entry, guess, row);
	entry->named = entry->numbered ? between->number : 0;
	entry->cat = (struct pfw_slice){ .at = at + strlen(BEHIND_NAME),
					 .bytes = between->cat_bytes,
					 .escaped = between->cat_escaped };
	entry->pid = between->pid;
	return at + between->bytes;
}

/* Parse up to the args. */
INLINE const char *take_head(const char *at, const char *end, struct pfw_entry *entry,
			     struct guess *guess, unsigned *row, bool padded)
{
	AND(take(at, end, "{\"id\":", padded));
	AND(take_u64(at, end, &entry->id, &guess->id, padded));
	AND(take(at, end, ",\"name\":\"", padded));
	AND(take_text(at, end, &entry->name, padded));
	*row = padded ? guess_row(&entry->name) : 0;
	AND(padded ? take_known_between(at, end, entry, guess, *row)
		   : take_between(at, end, entry, guess, false));
	AND(take_u64(at, end, &entry->tid, &guess->tid[*row], padded));
	AND(take(at, end, ",\"ts\":", padded));
	AND(take_ts(at, end, &entry->ts_ns, &guess->ts, padded));
	entry->has = FAST_KEYS;
	entry->dur_ns = 0;
	if (take(at, end, ",\"dur\":", padded)) {
		entry->has |= PFW_ENTRY_DUR;
		AND(take_dur(at + strlen(",\"dur\":"), end, &entry->dur_ns, padded));
		if (UNLIKELY(entry->dur_ns > PFW_ENTRY_TIME_MAX - entry->ts_ns))
			entry->dur_ns = PFW_ENTRY_TIME_MAX - entry->ts_ns;
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
	struct guess *guess = guess_of_thread();
	const char *at = line;
	unsigned row;

	entry->kind = PFW_ENTRY_EVENT;
	entry->wrong = entry->repeated = 0;
	entry->comma = entry->integer_ph = entry->disordered = false;
	entry->fast = true;
	entry->named = entry->form = 0;
	AND(take_head(at, end, entry, guess, &row, padded));
	if (padded) {
		const char *known = take_known_args(at, end, entry, guess, &guess->form[row]);

		at = LIKELY(known) ? known : take_new_args(at, end, entry, guess, row);
	} else {
		at = take_args(at, end, entry, false);
	}
	return at ? take(at, end, "}", padded) : NULL;
}

bool pfw_entry_parse_fast(struct pfw_entry *entry, const char *line, size_t bytes)
{
	/* Offsets in the line have 32 bits. */
	return bytes <= UINT32_MAX && take_line(entry, line, line + bytes, false) == line + bytes;
}

bool pfw_entry_parse_head(struct pfw_entry *entry, const char *line, const char *end)
{
	unsigned row;

	entry->numbered = false;
	return take_head(line, end, entry, guess_of_thread(), &row, true) != NULL;
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
