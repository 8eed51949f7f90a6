/* expr_regex.h - one regular expression of `--where`.
 *
 * POSIX extended, of libc, but that what is only a text with ^ or $ about it is compared directly.
 * What would take libc unbounded memory or time (references back, huge repetitions) is refused.
 */
#ifndef PFW_EXPR_REGEX_H
#define PFW_EXPR_REGEX_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>

#define PFW_REGEX_BYTES 1024
/* With all that is repeated written out.  Where a repetition can be of nothing, libc takes the square of
 * that: a second and a half at the most. */
#define PFW_REGEX_SIZE 2000u

struct pfw_regex {
	char *pattern;
	bool plain; /* text (literal) only: */
	bool from_start, to_end;
	char *literal;
	size_t literal_bytes;
	bool compiled;
	regex_t regex; /* where not plain */
};

/* Make one of `pattern`.  Return 0, -ENOMEM, or -EINVAL with what is wrong in why.  Thread: any. */
int pfw_regex_init(struct pfw_regex *regex, const char *pattern, size_t bytes, char *why,
		   size_t size);

/* Another one of the same pattern, for another thread: libc locks each.  0 or -ENOMEM. */
int pfw_regex_copy(struct pfw_regex *regex, const struct pfw_regex *of);
void pfw_regex_release(struct pfw_regex *regex);

/* Whether it is found in the text.  `scratch`: see scratch.h, not where the text is; libc wants a
 * NUL behind it.  Thread: one at a time for one regex. */
bool pfw_regex_find(const struct pfw_regex *regex, const char *text, size_t bytes, char *scratch);

#endif
