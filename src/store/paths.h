/* paths.h - what the PATH arguments of a command stand for: files, directories, globs, base names.
 */
#ifndef PFW_PATHS_H
#define PFW_PATHS_H

#include <stdbool.h>
#include <stddef.h>

struct pfw_paths {
	char **path;
	size_t count;
	size_t room;
};

/*
 * Add what `argument` stands for, sorted: "-", a file, all traces in a directory, what a glob
 * matches, or all files of a base name (t: t.pfw, t-rank0003.pfw.gz, t.2.pfw).  Indexes and
 * manifests are passed over, as the shell may have named them.  Return 0; -ENOENT where it stands
 * for nothing, with *why a constant text; -ENOMEM.  Thread: one at a time.
 */
int pfw_paths_add(struct pfw_paths *paths, const char *argument, const char **why);

/* Add one path as it is.  0 or -ENOMEM. */
int pfw_paths_add_path(struct pfw_paths *paths, const char *path);

/* All files of a base name that are there now; none is no error.  0 or -ENOMEM. */
int pfw_paths_add_base(struct pfw_paths *paths, const char *base);

/* The traces of the newest run in `directory`: of the file written last, and those that name the
 * same run.  0, -ENOENT where there is no trace, -ENOMEM, or why the directory cannot be read. */
int pfw_paths_add_newest(struct pfw_paths *paths, const char *directory);

void pfw_paths_free(struct pfw_paths *paths);

/* Whether a name ends as a trace's does: .pfw or .pfw.gz. */
bool pfw_paths_is_trace(const char *name);

/* Whether a name is that of a trace of base name `base`: base.pfw, base-….pfw, base.2.pfw; NULL =
 * any trace's. */
bool pfw_paths_of_base(const char *name, const char *base);

#endif
