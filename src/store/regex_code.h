/* regex_code.h - a regular expression as a program: what regex_parse.c makes and regex_match.c runs.
 *
 * The program is a nondeterministic automaton.  Offsets are relative, so a part of it that is left only
 * at its end can be moved and repeated by copying it.  Its size bounds all work: parsing takes at most
 * so much for each byte of the pattern, matching for each byte of the text.
 */
#ifndef PFW_REGEX_CODE_H
#define PFW_REGEX_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PFW_REGEX_BYTES 1024 /* of a pattern */
#define PFW_REGEX_SIZE 4000  /* operations, what is repeated written out */

enum pfw_regex_kind {
	PFW_REGEX_SET,	 /* a byte of set[arg]; then the next operation, as without a word here */
	PFW_REGEX_FORK,	 /* the next operation and the one at + arg */
	PFW_REGEX_JUMP,	 /* the one at + arg only */
	PFW_REGEX_PLACE, /* nothing of the text, where it is at arg: enum pfw_regex_place */
	PFW_REGEX_FOUND,
};

enum pfw_regex_place {
	PFW_REGEX_AT_START,
	PFW_REGEX_AT_END,
	PFW_REGEX_WORD_BEGINS,
	PFW_REGEX_WORD_ENDS,
	PFW_REGEX_WORD_EDGE,
	PFW_REGEX_NO_WORD_EDGE,
};

struct pfw_regex_op {
	uint16_t kind;
	int16_t arg;
};

struct pfw_regex_set {
	uint64_t bits[4];
};

static inline bool pfw_regex_set_has(const struct pfw_regex_set *set, uint8_t byte)
{
	return set->bits[byte >> 6] >> (byte & 63) & 1;
}

static inline void pfw_regex_set_add(struct pfw_regex_set *set, uint8_t byte)
{
	set->bits[byte >> 6] |= (uint64_t)1 << (byte & 63);
}

/* What \w is, and what words are made of: letters and digits of ASCII, and _. */
bool pfw_regex_is_word(uint8_t byte);

struct pfw_regex_code {
	struct pfw_regex_op *op;
	struct pfw_regex_set *set;
	unsigned ops, sets;
	bool words;	       /* some place is one of words */
	uint8_t class_of[256]; /* bytes of one class are in the same sets */
	uint8_t byte_of[256];  /* one of each class */
	unsigned classes;
};

/* Parse a pattern of at most PFW_REGEX_BYTES.  Return 0 with *out for free(), -ENOMEM, or -EINVAL with
 * *why, which lasts.  Thread: any. */
int pfw_regex_parse(struct pfw_regex_code **out, const char *pattern, size_t bytes,
		    const char **why);

/* What one thread knows of a program: a deterministic automaton, made of it as texts ask for it, in bounded
 * room.  NULL: no memory.  The program must last. */
struct pfw_regex_match;
struct pfw_regex_match *pfw_regex_match_create(const struct pfw_regex_code *code);
void pfw_regex_match_free(struct pfw_regex_match *match);

/* Whether it is found in the text.  Thread: one at a time. */
bool pfw_regex_match_find(struct pfw_regex_match *match, const char *text, size_t bytes);

#endif
