/* store/regex/regex.h - regular expressions: a pattern, compiled to an NFA and run as a lazy DFA.
 *
 * Jumps of the program are relative, so code can be moved and copied.  Its size bounds all work:
 * per byte of the pattern when parsing, per byte of the text when searching.
 *
 * Room store/regex: POSIX extended regular expressions in linear time.  Uses only libc.  Callers
 * need pfw_regex_init() and pfw_regex_find() only; the program is shared by parse.c and match.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PFW_REGEX_BYTES 1024 /* of a pattern */

struct pfw_regex_code;
struct pfw_regex_match;

/* POSIX extended in the C locale, plus GNU's \w \s \b \< \` etc., \d, and a leading (?i).  A
 * literal pattern, perhaps anchored by ^ or $, is compared directly.  Back references are errors,
 * and so are repetitions that make the program too large. */
struct pfw_regex {
	bool copied; /* literal and code are borrowed */
	bool plain;  /* literal only, see the next two: */
	bool from_start, to_end;
	char *literal;
	size_t literal_bytes;
	struct pfw_regex_code *code; /* if not plain */
	struct pfw_regex_match *match;
};

/* Compile a pattern.  Return 0, -ENOMEM, or -EINVAL with a message in why.  Thread: any. */
int pfw_regex_init(struct pfw_regex *regex, const char *pattern, size_t bytes, char *why,
		   size_t size);

/* A copy for another thread; `of` must outlive it. 0 or -ENOMEM. */
int pfw_regex_copy(struct pfw_regex *regex, const struct pfw_regex *of);
void pfw_regex_release(struct pfw_regex *regex);

/* Search the text.  Thread: one at a time for one regex. */
bool pfw_regex_find(const struct pfw_regex *regex, const char *text, size_t bytes);

/* ---- the program: parse.c, match.c ---- */

#define PFW_REGEX_SIZE 4000 /* operations, repetitions expanded */

enum pfw_regex_kind {
	PFW_REGEX_SET,	 /* consume a byte of set[arg], continue with the next operation */
	PFW_REGEX_FORK,	 /* continue with the next operation and the one at + arg */
	PFW_REGEX_JUMP,	 /* continue with the one at + arg */
	PFW_REGEX_PLACE, /* an anchor, enum pfw_regex_place */
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

/* A byte of \w: an ASCII letter or digit, or _. */
bool pfw_regex_is_word(uint8_t byte);

struct pfw_regex_code {
	struct pfw_regex_op *op;
	struct pfw_regex_set *set;
	unsigned ops, sets;
	bool words;	       /* it has anchors at word boundaries */
	uint8_t class_of[256]; /* bytes of one class are in the same sets */
	uint8_t byte_of[256];  /* a representative of each class */
	unsigned classes;
};

/* Parse a pattern of at most PFW_REGEX_BYTES.  Return 0 with *out for free(), -ENOMEM, or -EINVAL
 * with a static message in *why.  Thread: any. */
int pfw_regex_parse(struct pfw_regex_code **out, const char *pattern, size_t bytes,
		    const char **why);
