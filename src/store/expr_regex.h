/* expr_regex.h - one regular expression of `--where`.
 *
 * POSIX extended, in the C locale, with GNU's \w \s \b \< \` and the like; what is only a text with ^ or $
 * about it is compared directly.  Work is bounded: see regex_code.h.  References back are refused, and
 * repetitions that make the pattern too large.
 */
#ifndef PFW_EXPR_REGEX_H
#define PFW_EXPR_REGEX_H

#include <stdbool.h>
#include <stddef.h>

struct pfw_regex_code;
struct pfw_regex_match;

struct pfw_regex {
	bool copied; /* literal and code are another's */
	bool plain;  /* text (literal) only: */
	bool from_start, to_end;
	char *literal;
	size_t literal_bytes;
	struct pfw_regex_code *code; /* where not plain */
	struct pfw_regex_match *match;
};

/* Make one of `pattern`.  Return 0, -ENOMEM, or -EINVAL with what is wrong in why.  Thread: any. */
int pfw_regex_init(struct pfw_regex *regex, const char *pattern, size_t bytes, char *why,
		   size_t size);

/* Another one of the same pattern, for another thread; `of` must last.  0 or -ENOMEM. */
int pfw_regex_copy(struct pfw_regex *regex, const struct pfw_regex *of);
void pfw_regex_release(struct pfw_regex *regex);

/* Whether it is found in the text.  Thread: one at a time for one regex. */
bool pfw_regex_find(const struct pfw_regex *regex, const char *text, size_t bytes);

#endif
