/* tools/share/adopt.c - finds where the spools of killed processes may lie; see adopt.h. */
#include "share/adopt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/recover/owner.h"

/* Add a directory if it exists and is not in the list yet, under this path or another one. */
static void add(struct adopt_dirs *dirs, const char *path)
{
	struct stat st, other;
	size_t i = 0;

	if (!path || !*path || stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return;
	for (; dirs->dir[i]; i++) {
		if (stat(dirs->dir[i], &other) == 0 && other.st_dev == st.st_dev &&
		    other.st_ino == st.st_ino)
			return;
	}
	if (i + 1 < ADOPT_DIRS_MAX)
		dirs->dir[i] = path;
}

/* The directory of the spool that a trace names; a trace that does not exist names none. */
static void find_named(struct adopt_dirs *dirs, const char *trace)
{
	struct pfw_claim claim;

	*dirs->named = '\0';
	if (!trace || !strcmp(trace, "-") || pfw_claim_read(&claim, trace) || !*claim.spool)
		return;
	snprintf(dirs->named, sizeof(dirs->named), "%.*s",
		 (int)(strrchr(claim.spool, '/') + 1 - claim.spool), claim.spool);
}

void adopt_dirs_find(struct adopt_dirs *dirs, const char *trace)
{
	const char *slash = trace ? strrchr(trace, '/') : NULL;

	memset(dirs->dir, 0, sizeof(dirs->dir));
	if (slash)
		snprintf(dirs->beside, sizeof(dirs->beside), "%.*s", (int)(slash + 1 - trace),
			 trace);
	else
		snprintf(dirs->beside, sizeof(dirs->beside), ".");
	add(dirs, getenv("PFW_SPOOL_DIR"));
	add(dirs, "/dev/shm");
	add(dirs, getenv("TMPDIR"));
	add(dirs, "/tmp");
	if (trace)
		add(dirs, dirs->beside);
	find_named(dirs, trace);
	add(dirs, dirs->named);
}

static int keep_spool(const char *path, void *user)
{
	return pfw_paths_add_path(user, path);
}

int adopt_spools_find(struct pfw_paths *spools, const struct adopt_dirs *dirs)
{
	return pfw_recover_find(dirs->dir, NULL, NULL, keep_spool, spools) < 0 ? -ENOMEM : 0;
}
