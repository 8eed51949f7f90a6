/* globs.h - patterns of names and paths, as in a shell: * ? [a-z] [!a-z] and \ before one of them.
 *
 * Not fnmatch(): that depends on the locale.  Time is bounded by the product of both lengths.
 * Thread: any.  Signal: safe, all of them.
 */
#ifndef PFW_GLOBS_H
#define PFW_GLOBS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the glob is the whole text.  * and ? also match '/'. */
bool pfw_glob_match(const char *glob, size_t glob_bytes, const char *text, size_t bytes);

/* Whether a name is matched by one of a list of globs with `separator` between them. */
bool pfw_glob_list(const char *list, char separator, const char *name);

/*
 * Whether an absolute path is matched by one of a ':' list of globs, or lies below a directory that
 * is.  A glob that begins with '/' is the path from its start on, any other the path from any
 * component on; one without '/' is a single component: "*.tmp", "cache", "data/[0-9]*", "/scratch".
 */
bool pfw_glob_path(const char *list, const char *path, size_t bytes);

#endif
