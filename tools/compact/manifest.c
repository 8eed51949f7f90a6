/* tools/compact/manifest.c - the manifest of the results. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compact/compact.h"

/* ---- files that an older manifest names ---- */

struct older {
	const struct pfw_commit *commit;
	const char *directory; /* of the manifest */
};

/* Whether the commit neither replaces nor removes a file. */
static bool is_left(const struct older *older, const char *name, const struct stat *st)
{
	const struct pfw_commit *commit = older->commit;

	for (size_t i = 0; i < commit->made_count; i++) {
		if (strcmp(strrchr(commit->made[i].name, '/') + 1, name) == 0)
			return false;
	}
	for (size_t i = 0; i < commit->old_count; i++) {
		if (commit->old[i].device == st->st_dev && commit->old[i].inode == st->st_ino)
			return false;
	}
	return true;
}

/* Whether a file is as the manifest describes it and stays. */
static bool stays(void *user, const char *name, uint64_t bytes)
{
	const struct older *older = user;
	struct stat st;
	char *path;
	bool same;

	if (asprintf(&path, "%s/%s", older->directory, name) < 0)
		return false;
	same = lstat(path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == bytes;
	free(path);
	return same && is_left(older, name, &st);
}

static char *path_of(const char *directory, const char *base)
{
	char *path;

	return asprintf(&path, "%s/%s" PFW_MANIFEST_SUFFIX, directory, base) < 0 ? NULL : path;
}

/* ---- beside the results ---- */

/* Add the manifest to the commit as a new file. */
static int put(struct pfw_commit *commit, const char *base, struct pfw_manifest *manifest,
	       mode_t mode)
{
	char *name = NULL;
	FILE *out = NULL;
	int fd = -ENOMEM, error;

	if (asprintf(&name, "%s" PFW_MANIFEST_SUFFIX, base) >= 0)
		fd = pfw_commit_add(commit, name, true);
	if (fd >= 0) {
		fd = fchmod(fd, mode | 0600) < 0 ? -1 : dup(fd);
		out = fd < 0 ? NULL : fdopen(fd, "w");
	}
	error = out ? pfw_manifest_write(manifest, out) : fd < 0 ? fd : -errno;
	if (out && fclose(out))
		error = -errno;
	free(name);
	return error;
}

int compact_manifest(struct compact *compact, struct pfw_commit *commit, const char *base,
		     struct pfw_manifest *manifest)
{
	struct older older = { .commit = commit, .directory = commit->directory };
	char *path = path_of(commit->directory, base);
	int error = path ? pfw_manifest_keep(manifest, path, stays, &older) : -ENOMEM;

	if (!error)
		error = put(commit, base, manifest, pfw_traces_mode(&compact->traces));
	if (error)
		compact_say(compact, CLI_USAGE, path ? path : base, "%s", strerror(-error));
	free(path);
	return error;
}
