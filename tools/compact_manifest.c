/* compact_manifest.c - the manifest of what was written, and of what stays where originals go. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compact.h"

/* ---- files that an older manifest speaks of ---- */

struct older {
	const struct pfw_commit *commit;
	const char *directory; /* of the manifest */
	bool target;	       /* the new files go there */
};

/* Whether the change leaves a file as it is. */
static bool is_left(const struct older *older, const char *name, const struct stat *st)
{
	const struct pfw_commit *commit = older->commit;

	for (size_t i = 0; older->target && i < commit->made_count; i++) {
		if (strcmp(strrchr(commit->made[i].name, '/') + 1, name) == 0)
			return false;
	}
	for (size_t i = 0; i < commit->old_count; i++) {
		if (commit->old[i].device == st->st_dev && commit->old[i].inode == st->st_ino)
			return false;
	}
	return true;
}

/* Whether a file is there as the manifest has it, and stays. */
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

/* The manifest as a new file of the commit. */
static int put(struct pfw_commit *commit, const char *base, struct pfw_manifest *manifest)
{
	char *name = NULL;
	FILE *out = NULL;
	int fd = -ENOMEM, error;

	if (asprintf(&name, "%s" PFW_MANIFEST_SUFFIX, base) >= 0)
		fd = pfw_commit_add(commit, name, true);
	if (fd >= 0) {
		fd = dup(fd);
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
	struct older older = { .commit = commit, .directory = commit->directory, .target = true };
	char *path = path_of(commit->directory, base);
	int error = path ? pfw_manifest_keep(manifest, path, stays, &older) : -ENOMEM;

	if (!error)
		error = put(commit, base, manifest);
	if (error)
		compact_say(compact, CLI_USAGE, path ? path : base, "%s", strerror(-error));
	free(path);
	return error;
}

/* ---- where originals go ---- */

/* A file that goes with the originals, if it is there. */
static int remove_file(struct pfw_commit *commit, const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	return pfw_commit_remove(commit, path, st.st_dev, st.st_ino, (uint64_t)st.st_size,
				 st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec);
}

static bool is_directory(const struct pfw_commit *commit, const char *path)
{
	char whole[PATH_MAX];

	return realpath(path, whole) && strcmp(whole, commit->directory) == 0;
}

int compact_manifest_left(struct compact_group *group, struct pfw_commit *commit)
{
	char *directory = compact_directory(group->file[0]->path);
	char *path = directory ? path_of(directory, group->base) : NULL;
	struct pfw_manifest *left = pfw_manifest_new(group->run);
	struct older older = { .commit = commit, .directory = directory };
	int error = path && left ? 0 : -ENOMEM;

	/* The new one takes its place. */
	if (!error && !is_directory(commit, directory)) {
		error = pfw_manifest_keep(left, path, stays, &older);
		if (!error && pfw_manifest_count(left)) {
			group->left = left;
			left = NULL;
		} else if (!error) {
			error = remove_file(commit, path);
		}
	}
	pfw_manifest_free(left);
	free(directory);
	free(path);
	return error;
}

void compact_write_left(struct compact *compact, struct compact_group *group)
{
	char *directory = group->left ? compact_directory(group->file[0]->path) : NULL;
	struct pfw_commit commit;
	unsigned carried, kept;
	int error;

	if (!directory)
		return;
	error = pfw_commit_begin(&commit, directory, &carried);
	if (!error)
		error = put(&commit, group->base, group->left);
	if (!error)
		error = pfw_commit_run(&commit, &kept);
	if (error)
		compact_say(compact, CLI_PROBLEMS, directory,
			    "the manifest still names what was taken from here: %s",
			    commit.why[0] ? commit.why : strerror(-error));
	pfw_commit_end(&commit);
	free(directory);
}
