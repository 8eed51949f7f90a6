/* common/base/globs.c - shell globs for names and paths; see globs.h. */
#include "common/base/globs.h"

#include <string.h>

/* Match c with the set at *glob; a match moves *glob past it.  A '[' without ']' matches itself. */
static bool match_set(const char **glob, const char *end, char c)
{
	const char *at = *glob + 1;
	bool negated = at < end && (*at == '!' || *at == '^'), found = false;
	const char *first;

	at += negated;
	for (first = at; at < end && (*at != ']' || at == first); at++) {
		unsigned char low = (unsigned char)*at, high = low;

		if (at + 2 < end && at[1] == '-' && at[2] != ']') {
			high = (unsigned char)at[2];
			at += 2;
		}
		found |= low <= (unsigned char)c && (unsigned char)c <= high;
	}
	if (at >= end) {
		*glob += c == '[';
		return c == '[';
	}
	if (found != negated)
		*glob = at + 1;
	return found != negated;
}

static bool match_one(const char **glob, const char *end, char c)
{
	const char *at = *glob;

	if (*at == '[')
		return match_set(glob, end, c);
	if (*at == '?') {
		*glob = at + 1;
		return true;
	}
	if (*at == '\\' && at + 1 < end)
		at++;
	if (*at != c)
		return false;
	*glob = at + 1;
	return true;
}

/* As pfw_glob_match(); `below`: the text may continue after a '/'.  Backtracking to the last star
 * is enough: the last star can match whatever an earlier one could match in addition. */
static bool match(const char *glob, const char *glob_end, const char *text, const char *end,
		  bool below)
{
	const char *star = NULL, *star_text = NULL;

	for (;;) {
		if (glob == glob_end && (text == end || (below && *text == '/')))
			return true;
		if (glob < glob_end && *glob == '*') {
			star = ++glob;
			star_text = text;
		} else if (glob < glob_end && text < end && match_one(&glob, glob_end, *text)) {
			text++;
		} else if (star && star_text < end) {
			glob = star;
			text = ++star_text;
		} else {
			return false;
		}
	}
}

bool pfw_glob_match(const char *glob, size_t glob_bytes, const char *text, size_t bytes)
{
	return match(glob, glob + glob_bytes, text, text + bytes, false);
}

/* The end of the first glob of a list; *next gets the next one, NULL at the end. */
static const char *glob_end(const char *list, char separator, const char **next)
{
	const char *end = strchr(list, separator);

	*next = end ? end + 1 : NULL;
	return end ? end : list + strlen(list);
}

bool pfw_glob_list(const char *list, char separator, const char *name)
{
	const char *end = name + strlen(name);

	for (const char *next; list; list = next)
		if (match(list, glob_end(list, separator, &next), name, end, false))
			return true;
	return false;
}

static uint64_t bit_of(unsigned glob)
{
	return 1ull << (glob < 63 ? glob : 63);
}

uint64_t pfw_glob_names(const char *list, char separator, const char *name)
{
	const char *end = name + strlen(name);
	uint64_t matched = 0;
	unsigned glob = 0;

	for (const char *next; list; list = next, glob++)
		if (match(list, glob_end(list, separator, &next), name, end, false))
			matched |= bit_of(glob);
	return matched;
}

static bool match_path(const char *glob, const char *glob_end, const char *path, const char *end)
{
	bool whole;

	/* "cache/" means the directory, as "cache" does. */
	while (glob_end > glob && glob_end[-1] == '/')
		glob_end--;
	whole = memchr(glob, '/', (size_t)(glob_end - glob)) != NULL;
	if (glob == glob_end)
		return false;
	if (*glob == '/')
		return match(glob, glob_end, path, end, true);
	for (const char *at = path; at < end;) {
		const char *start = at + (*at == '/');
		const char *slash = memchr(start, '/', (size_t)(end - start));

		at = slash ? slash : end;
		if (start < at && match(glob, glob_end, start, whole ? end : at, whole))
			return true;
	}
	return false;
}

uint64_t pfw_glob_path(const char *list, const char *path, size_t bytes)
{
	uint64_t matched = 0;
	unsigned glob = 0;

	for (const char *next; list; list = next, glob++) {
		const char *end = glob_end(list, ':', &next);

		if (match_path(list, end, path, path + bytes))
			matched |= bit_of(glob);
	}
	return matched;
}
