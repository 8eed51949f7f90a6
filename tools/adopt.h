/* adopt.h - finding and adopting what killed processes left behind: for `run`, `repair`, `doctor`.
 */
#ifndef PFW_ADOPT_H
#define PFW_ADOPT_H

#include <limits.h>

#include "store/recover.h"

#define ADOPT_DIRS_MAX 6

/* Where spools may lie; dir[] ends with NULL and is what pfw_recover_find() takes. */
struct adopt_dirs {
	const char *dir[ADOPT_DIRS_MAX];
	char beside[PATH_MAX]; /* the directory of a trace */
};

/* $PFW_SPOOL_DIR, /dev/shm, $TMPDIR, /tmp and the directory of `trace` (NULL: none), each once. */
void adopt_dirs_find(struct adopt_dirs *dirs, const char *trace);

#endif
