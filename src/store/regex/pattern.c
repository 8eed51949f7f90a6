/* store/regex/pattern.c - literal patterns are compared, others searched; see regex.h. */
#include "store/regex/regex.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	regex->match = pfw_regex_match_create(regex->code);
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
	regex->match = pfw_regex_match_create(of->code);
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
	return pfw_regex_match_find(regex->match, text, bytes);
}
