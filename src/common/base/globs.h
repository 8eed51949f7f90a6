/* common/base/globs.h - shell globs for names and paths: * ? [a-z] [!a-z], and \ as quote.
 *
 * fnmatch() would depend on the locale.  Time is at most the product of both lengths.
 * Thread: any.  Signal: safe, all of them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the glob matches the whole text.  * and ? also match '/'. */
bool pfw_glob_match(const char *glob, size_t glob_bytes, const char *text, size_t bytes);

/* Whether one glob of a list, separated by `separator`, matches the name. */
bool pfw_glob_list(const char *list, char separator, const char *name);

/* Which globs match the name: bit n for the nth; the last bit for the 64th and all after it. */
uint64_t pfw_glob_names(const char *list, char separator, const char *name);

/* Which globs of a ':' list match an absolute path or a directory above it; bits as above.  A glob
 * that begins with '/' matches from the start of the path, any other from any component; a glob
 * without '/' matches a single component: "*.tmp", "cache", "data/[0-9]*", "/scratch". */
uint64_t pfw_glob_path(const char *list, const char *path, size_t bytes);
