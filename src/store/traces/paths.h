/* store/traces/paths.h - the files that PATH arguments name (files, directories, globs, bases). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct pfw_paths {
	char **path;
	size_t count;
	size_t room;
};

/* Add the paths that `argument` names, sorted: "-", a file, all traces in a directory, the matches
 * of a glob, or all files of a base name (t: t.pfw, t-rank0003.pfw.gz, t.2.pfw).  Indexes and
 * manifests are ignored, because a shell's glob may name them.  Return 0; -ENOENT with a constant
 * text in *why if it names nothing; -ENOMEM.  Thread: one at a time. */
int pfw_paths_add(struct pfw_paths *paths, const char *argument, const char **why);

/* Add one path as it is.  0 or -ENOMEM. */
int pfw_paths_add_path(struct pfw_paths *paths, const char *path);

/* Add the existing files of a base name; none is no error.  0 or -ENOMEM. */
int pfw_paths_add_base(struct pfw_paths *paths, const char *base);

/* Add the traces of the newest run in `directory`: of the process that began last, as the first
 * lines say (a copy has a new time), and all others of its run; *left_out is how many are not.  0,
 * -ENOENT if there is no trace, -ENOMEM, or the error of the directory. */
int pfw_paths_add_newest(struct pfw_paths *paths, const char *directory, size_t *left_out);

void pfw_paths_free(struct pfw_paths *paths);

/* Whether a name ends in .pfw or .pfw.gz. */
bool pfw_paths_is_trace(const char *name);

/* The name of a trace without directory and suffix: *bytes bytes. */
const char *pfw_paths_stem(const char *path, size_t *bytes);

/* Whether a name is a trace of base name `base`: base.pfw, base-….pfw, base.2.pfw, base.2-….pfw;
 * NULL = any trace. */
bool pfw_paths_of_base(const char *name, const char *base);
