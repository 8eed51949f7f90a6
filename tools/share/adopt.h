/* tools/share/adopt.h - directories that may hold spools of killed processes. */
#pragma once

#include <limits.h>

#include "store/recover/recover.h"
#include "store/traces/paths.h"

#define ADOPT_DIRS_MAX 7

/* Directories that may hold spools; dir[] ends with NULL, as pfw_recover_find() wants it. */
struct adopt_dirs {
	const char *dir[ADOPT_DIRS_MAX];
	char beside[PATH_MAX]; /* the directory of a trace */
	char named[PATH_MAX];  /* that of the spool which its first line names, or "" */
};

/* $PFW_SPOOL_DIR, /dev/shm, $TMPDIR, /tmp, the directory of `trace` (NULL: none) and that of the
 * spool it names, without duplicates: the variables may have been the traced program's alone. */
void adopt_dirs_find(struct adopt_dirs *dirs, const char *trace);

/* Add all spools in these directories.  0 or -ENOMEM. */
int adopt_spools_find(struct pfw_paths *spools, const struct adopt_dirs *dirs);
