/* store/regex/match.c - searches texts with a lazily built DFA; see regex.h.
 *
 * A DFA state is a set of NFA operations before its epsilon closure: whether an anchor (^, \b)
 * holds depends on the next byte.  Transitions are cached per state and byte class; when the cache
 * is full, it is flushed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/regex/regex.h"

#define STATES 256
#define NOT_KNOWN 0xffff
#define IS_FOUND 0xfffe

/* The neighbour of a place between two bytes. */
enum side {
	NOTHING, /* start or end of the text */
	WORD,
	OTHER,
};

struct pfw_regex_match {
	const struct pfw_regex_code *code;
	size_t words; /* of a set, 64 operations each */
	size_t width; /* of a row: the byte classes, and the end of the text */
	unsigned states;
	uint64_t *set;	/* of each state */
	uint16_t *next; /* a row for each state */
	uint8_t before[STATES];
	uint64_t hash[STATES];
	uint64_t *reached, *stepped; /* bit sets */
	uint16_t *stack;
};

/* ---- one step of the NFA ---- */

static bool is_place(enum pfw_regex_place place, enum side before, enum side after)
{
	switch (place) {
	case PFW_REGEX_AT_START:
		return before == NOTHING;
	case PFW_REGEX_AT_END:
		return after == NOTHING;
	case PFW_REGEX_WORD_BEGINS:
		return before != WORD && after == WORD;
	case PFW_REGEX_WORD_ENDS:
		return before == WORD && after != WORD;
	case PFW_REGEX_WORD_EDGE:
		return (before == WORD) != (after == WORD);
	default:
		return (before == WORD) == (after == WORD);
	}
}

static void reach(struct pfw_regex_match *match, size_t *used, size_t at)
{
	uint64_t bit = (uint64_t)1 << (at & 63);

	if (!(match->reached[at >> 6] & bit))
		match->stack[(*used)++] = (uint16_t)at;
	match->reached[at >> 6] |= bit;
}

/* Add the epsilon closure at a place between `before` and `after`.  True: the pattern is found. */
static bool follow(struct pfw_regex_match *match, size_t used, enum side before, enum side after)
{
	while (used) {
		size_t at = match->stack[--used];
		struct pfw_regex_op op = match->code->op[at];

		switch ((enum pfw_regex_kind)op.kind) {
		case PFW_REGEX_SET:
			break;
		case PFW_REGEX_FORK:
			reach(match, &used, at + 1);
			reach(match, &used, at + (size_t)op.arg);
			break;
		case PFW_REGEX_JUMP:
			reach(match, &used, at + (size_t)op.arg);
			break;
		case PFW_REGEX_PLACE:
			if (is_place((enum pfw_regex_place)op.arg, before, after))
				reach(match, &used, at + 1);
			break;
		case PFW_REGEX_FOUND:
			return true;
		}
	}
	return false;
}

/* The closure of a state, and of operation 0: a match may begin anywhere. */
static bool follow_state(struct pfw_regex_match *match, unsigned state, enum side after)
{
	const uint64_t *set = match->set + state * match->words;
	size_t used = 0;

	memset(match->reached, 0, match->words * sizeof(*set));
	for (size_t word = 0; word < match->words; word++) {
		for (uint64_t bits = set[word]; bits; bits &= bits - 1)
			reach(match, &used, word * 64 + (size_t)__builtin_ctzll(bits));
	}
	reach(match, &used, 0);
	return follow(match, used, (enum side)match->before[state], after);
}

/* From the closure, step over a byte. */
static void step(struct pfw_regex_match *match, uint8_t byte)
{
	const struct pfw_regex_code *code = match->code;

	memset(match->stepped, 0, match->words * sizeof(*match->stepped));
	for (size_t word = 0; word < match->words; word++) {
		for (uint64_t bits = match->reached[word]; bits; bits &= bits - 1) {
			size_t at = word * 64 + (size_t)__builtin_ctzll(bits);

			if (code->op[at].kind == PFW_REGEX_SET &&
			    pfw_regex_set_has(&code->set[code->op[at].arg], byte))
				match->stepped[(at + 1) >> 6] |= (uint64_t)1 << ((at + 1) & 63);
		}
	}
}

/* ---- states ---- */

static uint64_t hash_of(const struct pfw_regex_match *match, enum side before)
{
	uint64_t hash = before;

	for (size_t word = 0; word < match->words; word++)
		hash = (hash ^ match->stepped[word]) * 0x9e3779b97f4a7c15u;
	return hash;
}

static void begin_row(struct pfw_regex_match *match, unsigned state)
{
	for (size_t i = 0; i < match->width; i++)
		match->next[state * match->width + i] = NOT_KNOWN;
}

/* The state whose set was stepped to; create it if it is new. */
static unsigned state_of(struct pfw_regex_match *match, enum side before)
{
	size_t bytes = match->words * sizeof(*match->set);
	uint64_t hash = hash_of(match, before);
	unsigned state = 0;

	for (; state < match->states; state++) {
		if (match->hash[state] == hash && match->before[state] == before &&
		    memcmp(match->set + state * match->words, match->stepped, bytes) == 0)
			return state;
	}
	if (state == STATES) {
		state = 1; /* flush all but the start state */
		begin_row(match, 0);
	}
	match->states = state + 1;
	match->hash[state] = hash;
	match->before[state] = (uint8_t)before;
	memcpy(match->set + state * match->words, match->stepped, bytes);
	begin_row(match, state);
	return state;
}

/* Find the transition of a state on a byte class, or at the end of the text, and cache it. */
static unsigned advance(struct pfw_regex_match *match, unsigned state, unsigned class)
{
	const struct pfw_regex_code *code = match->code;
	enum side side = NOTHING;
	unsigned states = match->states, next;

	if (class < code->classes)
		side = code->words && pfw_regex_is_word(code->byte_of[class]) ? WORD : OTHER;
	if (follow_state(match, state, side)) {
		next = IS_FOUND;
	} else if (class == code->classes) {
		next = state; /* any state but IS_FOUND */
	} else {
		step(match, code->byte_of[class]);
		next = state_of(match, side);
	}
	if (match->states >= states) /* else `state` was flushed */
		match->next[state * match->width + class] = (uint16_t)next;
	return next;
}

/* ---- interface ---- */

/* A thread's DFA for a program, built lazily in bounded memory, for free(); NULL: no memory.
 * The program must outlive it. */
static struct pfw_regex_match *match_create(const struct pfw_regex_code *code)
{
	size_t words = (code->ops + 63) / 64, width = code->classes + 1;
	size_t sets = (STATES + 2) * words * sizeof(uint64_t);
	struct pfw_regex_match *match =
		calloc(1, sizeof(*match) + sets + (STATES * width + code->ops) * sizeof(uint16_t));

	if (!match)
		return NULL;
	match->code = code;
	match->words = words;
	match->width = width;
	match->set = (uint64_t *)(match + 1);
	match->reached = match->set + STATES * words;
	match->stepped = match->reached + words;
	match->next = (uint16_t *)(match->stepped + words);
	match->stack = match->next + STATES * width;
	state_of(match, NOTHING); /* state 0: the start */
	return match;
}

/* Search the text.  Thread: one at a time. */
static bool match_find(struct pfw_regex_match *match, const char *text, size_t bytes)
{
	const uint8_t *class_of = match->code->class_of;
	unsigned state = 0;

	for (size_t i = 0; i <= bytes; i++) {
		unsigned class = i < bytes ? class_of[(uint8_t)text[i]] : match->code->classes;
		unsigned next = match->next[state * match->width + class];

		if (next == NOT_KNOWN)
			next = advance(match, state, class);
		if (next == IS_FOUND)
			return true;
		state = next;
	}
	return false;
}

/* Extract the literal if the pattern is a literal text, perhaps anchored by ^ or $. */
static void look_for_text(struct pfw_regex *regex, const char *pattern, size_t bytes)
{
	static const char special[] = "\\.[]()*+?{}|^$", escaped[] = ".[]()*+?{}|^$\\/\"-";
	const char *at = pattern, *end = pattern + bytes;
	size_t used = 0;

	regex->from_start = bytes && *at == '^';
	for (at += regex->from_start; at < end; at++) {
		if (*at == '$' && at + 1 == end) {
			regex->to_end = true;
			break;
		}
		if (*at == '\\' && at + 1 < end && memchr(escaped, at[1], sizeof(escaped) - 1))
			at++;
		else if (memchr(special, *at, sizeof(special) - 1))
			return;
		regex->literal[used++] = *at;
	}
	regex->literal_bytes = used;
	regex->plain = true;
}

static int compile(struct pfw_regex *regex, const char *pattern, size_t bytes, const char **why)
{
	int error;

	regex->literal = malloc(bytes + 1);
	if (!regex->literal)
		return -ENOMEM;
	look_for_text(regex, pattern, bytes);
	if (regex->plain)
		return 0;
	error = pfw_regex_parse(&regex->code, pattern, bytes, why);
	if (error)
		return error;
	regex->match = match_create(regex->code);
	return regex->match ? 0 : -ENOMEM;
}

int pfw_regex_init(struct pfw_regex *regex, const char *pattern, size_t bytes, char *why,
		   size_t size)
{
	const char *no = "a pattern has at most 1024 bytes";
	int error;

	*regex = (struct pfw_regex){ 0 };
	error = bytes > PFW_REGEX_BYTES ? -EINVAL : compile(regex, pattern, bytes, &no);
	if (error == -EINVAL)
		snprintf(why, size, "%s", no);
	if (error)
		pfw_regex_release(regex);
	return error;
}

int pfw_regex_copy(struct pfw_regex *regex, const struct pfw_regex *of)
{
	*regex = *of;
	regex->copied = true;
	if (regex->plain)
		return 0;
	regex->match = match_create(of->code);
	return regex->match ? 0 : -ENOMEM;
}

void pfw_regex_release(struct pfw_regex *regex)
{
	free(regex->match);
	if (!regex->copied) {
		free(regex->literal);
		free(regex->code);
	}
	*regex = (struct pfw_regex){ 0 };
}

static bool find_text(const struct pfw_regex *regex, const char *text, size_t bytes)
{
	size_t wanted = regex->literal_bytes;

	if (wanted > bytes || (regex->from_start && regex->to_end && wanted != bytes))
		return false;
	if (regex->from_start)
		return memcmp(text, regex->literal, wanted) == 0;
	if (regex->to_end)
		return memcmp(text + bytes - wanted, regex->literal, wanted) == 0;
	return memmem(text, bytes, regex->literal, wanted) != NULL;
}

bool pfw_regex_find(const struct pfw_regex *regex, const char *text, size_t bytes)
{
	if (regex->plain)
		return find_text(regex, text, bytes);
	return match_find(regex->match, text, bytes);
}
