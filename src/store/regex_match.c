/* regex_match.c - whether a regular expression is found in a text; see regex_code.h.
 *
 * A state of the deterministic automaton is the set of the operations that the program may be at, before
 * what needs no byte is followed: whether a place is one (^, \b) is known with the next byte only.  What
 * follows on a state and a class of bytes is found once, and forgotten when there are too many states.
 */
#include <stdlib.h>
#include <string.h>

#include "regex_code.h"

#define STATES 256
#define NOT_KNOWN 0xffff
#define IS_FOUND 0xfffe

/* What is on one side of a place. */
enum side {
	NOTHING, /* the text ends */
	WORD,
	OTHER,
};

struct pfw_regex_match {
	const struct pfw_regex_code *code;
	size_t words; /* 64 operations each */
	size_t width; /* of a row: the classes, and the end of the text */
	unsigned states;
	uint64_t *set;	/* of each state */
	uint16_t *next; /* a row for each state */
	uint8_t before[STATES];
	uint64_t hash[STATES];
	uint64_t *reached, *stepped; /* sets */
	uint16_t *stack;
};

/* ---- one step of the program ---- */

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

/* Follow what needs no byte, between what is on the two sides.  Whether the pattern is found. */
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

/* All that is reached from a state; a match may begin anywhere, so at operation 0, too. */
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

/* From what is reached to what is behind this byte. */
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

/* The state that is what was stepped to, made where there is none yet. */
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
		state = 1; /* the first one stays */
		begin_row(match, 0);
	}
	match->states = state + 1;
	match->hash[state] = hash;
	match->before[state] = (uint8_t)before;
	memcpy(match->set + state * match->words, match->stepped, bytes);
	begin_row(match, state);
	return state;
}

/* What comes behind a state when a byte of that class does, or the end. */
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
		next = state; /* any other than found */
	} else {
		step(match, code->byte_of[class]);
		next = state_of(match, side);
	}
	if (match->states >= states) /* else `state` is forgotten */
		match->next[state * match->width + class] = (uint16_t)next;
	return next;
}

/* ---- for others ---- */

struct pfw_regex_match *pfw_regex_match_create(const struct pfw_regex_code *code)
{
	struct pfw_regex_match *match = calloc(1, sizeof(*match));

	if (!match)
		return NULL;
	match->code = code;
	match->words = (code->ops + 63) / 64;
	match->width = code->classes + 1;
	match->set = malloc(STATES * match->words * sizeof(*match->set));
	match->next = malloc(STATES * match->width * sizeof(*match->next));
	match->reached = malloc(match->words * sizeof(*match->reached));
	match->stepped = calloc(match->words, sizeof(*match->stepped));
	match->stack = malloc(code->ops * sizeof(*match->stack));
	if (!match->set || !match->next || !match->reached || !match->stepped || !match->stack) {
		pfw_regex_match_free(match);
		return NULL;
	}
	state_of(match, NOTHING); /* 0, where every text begins */
	return match;
}

void pfw_regex_match_free(struct pfw_regex_match *match)
{
	if (!match)
		return;
	free(match->set);
	free(match->next);
	free(match->reached);
	free(match->stepped);
	free(match->stack);
	free(match);
}

bool pfw_regex_match_find(struct pfw_regex_match *match, const char *text, size_t bytes)
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
