/* expr_regex.c - one regular expression of `--where`; see expr_regex.h. */
#include "expr_regex.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what libc is not asked to do ---- */

/* The upper bound of the repetition that begins behind `{`; 0: it is none. */
static unsigned long repeats(const char *at)
{
	char *end;
	unsigned long low, high;

	if ((*at < '0' || *at > '9') && *at != ',')
		return 0;
	low = strtoul(at, &end, 10);
	if (*end == '}')
		return low;
	if (*end != ',')
		return 0;
	if (end[1] == '}')
		return low;
	high = strtoul(end + 1, &end, 10);
	return high > low ? high : low;
}

static const char *refused(const char *pattern)
{
	unsigned long product = 1;

	for (const char *at = pattern; *at; at++) {
		if (*at == '\\' && at[1]) {
			at++;
			if (*at >= '1' && *at <= '9')
				return "references back are not supported";
		} else if (*at == '{') {
			unsigned long count = repeats(at + 1);

			product *= count ? count : 1;
			if (count > PFW_REGEX_REPEATS || product > PFW_REGEX_REPEATS)
				return "repetitions of more than 1000 in all are not supported";
		}
	}
	return NULL;
}

/* ---- plain text ---- */

/* Whether the pattern is a text with ^ in front or $ behind at most; then take the text out. */
static void look_for_text(struct pfw_regex *regex, const char *pattern)
{
	const char *at = pattern;
	size_t used = 0;

	regex->from_start = *at == '^';
	for (at += regex->from_start; *at; at++) {
		if (*at == '$' && !at[1]) {
			regex->to_end = true;
			break;
		}
		if (*at == '\\' && at[1] && strchr(".[]()*+?{}|^$\\/\"-", at[1]))
			at++;
		else if (strchr("\\.[]()*+?{}|^$", *at))
			return;
		regex->literal[used++] = *at;
	}
	regex->literal_bytes = used;
	regex->plain = true;
}

/* ---- for others ---- */

static int compile(struct pfw_regex *regex, char *why, size_t size)
{
	int error = regcomp(&regex->regex, regex->pattern, REG_EXTENDED | REG_NOSUB);

	regex->compiled = error == 0;
	if (error && why)
		regerror(error, &regex->regex, why, size);
	return error == 0 ? 0 : error == REG_ESPACE ? -ENOMEM : -EINVAL;
}

int pfw_regex_init(struct pfw_regex *regex, const char *pattern, size_t bytes, char *why,
		   size_t size)
{
	const char *no = bytes > PFW_REGEX_BYTES ? "a pattern has at most 1024 bytes" : NULL;
	int error;

	*regex = (struct pfw_regex){ .pattern = strndup(pattern, bytes),
				     .literal = malloc(bytes + 1) };
	if (!regex->pattern || !regex->literal) {
		pfw_regex_release(regex);
		return -ENOMEM;
	}
	if (!no)
		no = refused(regex->pattern);
	if (no) {
		snprintf(why, size, "%s", no);
		pfw_regex_release(regex);
		return -EINVAL;
	}
	look_for_text(regex, regex->pattern);
	error = regex->plain ? 0 : compile(regex, why, size);
	if (error)
		pfw_regex_release(regex);
	return error;
}

int pfw_regex_copy(struct pfw_regex *regex, const struct pfw_regex *of)
{
	char why[128];

	return pfw_regex_init(regex, of->pattern, strlen(of->pattern), why, sizeof(why));
}

void pfw_regex_release(struct pfw_regex *regex)
{
	if (regex->compiled)
		regfree(&regex->regex);
	free(regex->pattern);
	free(regex->literal);
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
	regmatch_t match = { .rm_so = 0, .rm_eo = (regoff_t)bytes };

	if (regex->plain)
		return find_text(regex, text, bytes);
	return regexec(&regex->regex, text, 1, &match, REG_STARTEND) == 0;
}
