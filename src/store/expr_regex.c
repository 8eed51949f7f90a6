/* expr_regex.c - one regular expression of `--where`; see expr_regex.h. */
#include "expr_regex.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scratch.h"

/* ---- what libc is not asked to do ---- */

/* How often libc writes out what the repetition that begins behind `{` is of; 0: it is none. */
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
		return low + 1; /* so often, and any number more */
	high = strtoul(end + 1, &end, 10);
	return high > low ? high : low;
}

/* The ] of the set that begins at `at`, or the end of the pattern. */
static const char *end_of_set(const char *at)
{
	at += at[1] == '^' ? 2 : 1;
	at += *at == ']';
	for (; *at && *at != ']'; at++) {
		if (*at == '[' && at[1] && strchr(":.=", at[1])) { /* [:alpha:] */
			char kind = at[1];

			for (at += 2; *at && !(*at == kind && at[1] == ']'); at++)
				;
			at += *at != '\0';
		}
		if (!*at)
			break;
	}
	return at;
}

/* How large libc makes a pattern: it writes out what is repeated, + as one and any number more. */
struct extent {
	size_t outer[PFW_REGEX_BYTES]; /* of the groups that are open, what was before them */
	size_t depth, sum, last;
};

static void add_atom(struct extent *extent, size_t size)
{
	extent->sum += extent->last;
	extent->last = size;
}

static void take_special(struct extent *extent, const char *at)
{
	unsigned long count;

	switch (*at) {
	case '(':
		add_atom(extent, 0);
		extent->outer[extent->depth++] = extent->sum;
		extent->sum = 0;
		break;
	case ')':
		if (extent->depth) {
			extent->last += extent->sum + 1;
			extent->sum = extent->outer[--extent->depth];
		}
		break;
	case '+':
		extent->last *= 2;
		break;
	case '{':
		count = repeats(at + 1);
		extent->last *= count > PFW_REGEX_SIZE ? PFW_REGEX_SIZE : count ? count : 1;
		break;
	case '*':
	case '?':
		break;
	default:
		add_atom(extent, 1);
	}
}

static const char *refused(const char *pattern)
{
	struct extent extent = { 0 };

	for (const char *at = pattern; *at; at++) {
		if (*at == '\\' && at[1]) {
			at++;
			if (*at >= '1' && *at <= '9')
				return "references back are not supported";
			add_atom(&extent, 1);
		} else if (*at == '[') {
			at = end_of_set(at);
			add_atom(&extent, 1);
			if (!*at)
				break;
		} else {
			take_special(&extent, at);
		}
		if (extent.last > PFW_REGEX_SIZE || extent.sum > PFW_REGEX_SIZE)
			return "its repetitions make the pattern too large";
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

bool pfw_regex_find(const struct pfw_regex *regex, const char *text, size_t bytes, char *scratch)
{
	if (regex->plain)
		return find_text(regex, text, bytes);
	if (bytes >= PFW_SCRATCH_BYTES)
		bytes = PFW_SCRATCH_BYTES - 1;
	/* REG_STARTEND would do without a copy, but not for AddressSanitizer, which looks for a NUL. */
	memcpy(scratch, text, bytes);
	scratch[bytes] = '\0';
	return regexec(&regex->regex, scratch, 0, NULL, 0) == 0;
}
