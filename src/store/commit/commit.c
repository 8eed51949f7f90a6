/* store/commit/commit.c - replaces originals by finished files, all or nothing; see commit.h. */
#include "store/commit/commit.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/commit/internal.h"
#include "store/kit/grow.h"
#include "store/sys/full_io.h"
#include "store/sys/open.h"

#define SUFFIX ".part" /* a name ending in .pfw would be taken for a trace */
#define JOURNAL_PREFIX ".pfw-compact-journal-"

static char *join(const char *directory, const char *prefix, const char *name, const char *suffix)
{
	char *path;

	return asprintf(&path, "%s/%s%s%s", directory, prefix, name, suffix) < 0 ? NULL : path;
}

struct pfw_commit_new *pfw_commit_add_new(struct pfw_commit *commit, const char *temporary,
					  const char *name)
{
	struct pfw_commit_new made = {
		.temporary = strdup(temporary), .name = strdup(name), .fd = -1, .replace = true
	};

	if (made.temporary && made.name && !PFW_APPEND(commit->made, commit->made_count, made))
		return &commit->made[commit->made_count - 1];
	free(made.temporary);
	free(made.name);
	return NULL;
}

int pfw_commit_remove(struct pfw_commit *commit, const char *path, uint64_t device, uint64_t inode,
		      uint64_t bytes, int64_t changed_ns)
{
	struct pfw_commit_old old = {
		.device = device, .inode = inode, .bytes = bytes, .changed_ns = changed_ns
	};

	/* Another process may carry the change out from another directory.  The last name is not
	 * resolved: nothing is removed through a link. */
	old.path = pfw_whole_path(path);
	if (!old.path)
		return -errno;
	if (!PFW_APPEND(commit->old, commit->old_count, old))
		return 0;
	free(old.path);
	return -ENOMEM;
}

static void free_lists(struct pfw_commit *commit)
{
	for (size_t i = 0; i < commit->made_count; i++) {
		free(commit->made[i].temporary);
		free(commit->made[i].name);
		if (commit->made[i].fd >= 0)
			close(commit->made[i].fd);
	}
	for (size_t i = 0; i < commit->old_count; i++)
		free(commit->old[i].path);
	free(commit->made);
	free(commit->old);
	commit->made = NULL;
	commit->old = NULL;
	commit->made_count = commit->old_count = 0;
}

/* ---- leftovers of killed predecessors ---- */

/* Carry an unlocked journal out if it is complete. */
static int take_journal(struct pfw_commit *commit, const char *path, unsigned *carried)
{
	struct pfw_commit found = { .directory = commit->directory };
	struct pfw_journal journal = { 0 };
	unsigned kept = 0;
	int fd = pfw_commit_open_locked(path, false, false), error;

	if (fd < 0)
		return 0; /* its owner is at work, or it is gone or not ours */
	error = pfw_journal_read(fd, &journal);
	if (!error && pfw_journal_is_whole(&journal)) {
		error = pfw_journal_parse(&found, &journal) ?: pfw_commit_give_names(&found);
		error = error ?: pfw_commit_remove_old(&found, &kept);
		*carried += !error;
	}
	if (!error)
		unlink(path);
	else if (error == -EPERM)
		error = 0;
	else
		pfw_commit_fail(commit, error,
				"%.300s: a change that was begun cannot be carried through: %s",
				path, found.why[0] ? found.why : strerror(-error));
	free(journal.text);
	free_lists(&found);
	close(fd);
	return error;
}

static bool is_mine(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid();
}

/* Remove an unlocked temporary file that no journal lists. */
static void take_temporary(const char *path)
{
	int fd = is_mine(path) ? pfw_commit_open_locked(path, false, false) : -1;

	if (fd < 0)
		return;
	unlink(path);
	close(fd);
}

/* Journals first: a file that a journal lists is no leftover. */
static int look(struct pfw_commit *commit, bool journals, unsigned *carried)
{
	DIR *dir = opendir(commit->directory);
	struct dirent *entry;
	int error = 0;

	if (!dir)
		return pfw_commit_fail_path(commit, "cannot read", commit->directory);
	while (!error && (entry = readdir(dir))) {
		char *path;

		if (strncmp(entry->d_name, PFW_COMMIT_PREFIX, strlen(PFW_COMMIT_PREFIX)) != 0 ||
		    (strncmp(entry->d_name, JOURNAL_PREFIX, strlen(JOURNAL_PREFIX)) == 0) !=
			    journals)
			continue;
		path = join(commit->directory, "", entry->d_name, "");
		if (!path)
			error = -ENOMEM;
		else if (journals)
			error = take_journal(commit, path, carried);
		else
			take_temporary(path);
		free(path);
	}
	closedir(dir);
	return error;
}

int pfw_commit_begin(struct pfw_commit *commit, const char *directory, unsigned *carried)
{
	char whole[PATH_MAX];

	*commit = (struct pfw_commit){ 0 };
	*carried = 0;
	if (!realpath(directory, whole))
		return pfw_commit_fail_path(commit, "cannot use", directory);
	commit->directory = strdup(whole);
	if (!commit->directory)
		return pfw_commit_fail(commit, -ENOMEM, "no memory");
	return look(commit, true, carried) ?: look(commit, false, carried);
}

/* ---- new files ---- */

/* Mode 0600, as a trace: never wider than the originals. */
static int make_temporary(struct pfw_commit *commit, const char *path)
{
	int fd;

	for (;;) {
		fd = pfw_open_new(path, 0600);
		if (fd != -EEXIST)
			break;
		/* A killed command has left the file since the check, or a running one writes it. */
		fd = is_mine(path) ? pfw_commit_open_locked(path, false, false) : -EBUSY;
		if (fd == -ENOENT)
			continue;
		if (fd < 0)
			return pfw_commit_fail(commit, -EBUSY,
					       "%.300s: another pfw compact is at work on it",
					       path);
		unlink(path);
		close(fd);
	}
	if (fd < 0)
		return pfw_commit_fail(commit, fd, "cannot write %.300s: %s", path, strerror(-fd));
	/* Between creation and lock another process may have removed it as a leftover. */
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
		close(fd);
		return pfw_commit_fail(commit, -EBUSY,
				       "%.300s: another pfw compact is at work on it", path);
	}
	return fd;
}

/* Note an open new file, which the commit then owns.  0 or -ENOMEM. */
static int note(struct pfw_commit *commit, int fd, const char *temporary, const char *path,
		bool replace)
{
	struct stat st;
	struct pfw_commit_new *made =
		fstat(fd, &st) < 0 ? NULL : pfw_commit_add_new(commit, temporary, path);

	if (!made)
		return -ENOMEM;
	made->fd = fd;
	made->replace = replace;
	made->device = st.st_dev;
	made->inode = st.st_ino;
	return 0;
}

int pfw_commit_add(struct pfw_commit *commit, const char *name, bool replace)
{
	char *temporary = join(commit->directory, PFW_COMMIT_PREFIX, name, SUFFIX);
	char *path = join(commit->directory, "", name, "");
	struct stat st;
	int fd = -ENOMEM;

	if (temporary && path)
		fd = !replace && lstat(path, &st) == 0
			     ? pfw_commit_fail(commit, -EEXIST, "%.300s is there already", path)
			     : make_temporary(commit, temporary);
	if (fd >= 0 && note(commit, fd, temporary, path, replace)) {
		unlink(temporary);
		close(fd);
		fd = -ENOMEM;
	}
	free(temporary);
	free(path);
	return fd;
}

int pfw_commit_add_beside(struct pfw_commit *commit, size_t number, const char *suffix)
{
	const struct pfw_commit_new *main = &commit->made[number];
	char *temporary = NULL, *path = NULL;
	int fd = -ENOMEM;

	if (asprintf(&temporary, "%s%s", main->temporary, suffix) < 0)
		temporary = NULL;
	if (asprintf(&path, "%s%s", main->name, suffix) < 0)
		path = NULL;
	if (temporary && path)
		fd = pfw_commit_open_locked(temporary, false, false);
	if (fd >= 0 && note(commit, fd, temporary, path, true)) {
		close(fd);
		fd = -ENOMEM;
	}
	free(temporary);
	free(path);
	return fd < 0 ? fd : 0;
}

void pfw_commit_drop(struct pfw_commit *commit)
{
	struct pfw_commit_new *made = &commit->made[--commit->made_count];

	unlink(made->temporary);
	close(made->fd);
	free(made->temporary);
	free(made->name);
}

/* ---- the whole change ---- */

/* Sync all files, the journal and the directory: from here on the change can be carried out. */
static int write_journal(struct pfw_commit *commit, int fd)
{
	uint64_t at = 0;
	size_t bytes;
	char *text;
	int error;

	for (size_t i = 0; i < commit->made_count; i++) {
		if (fsync(commit->made[i].fd) < 0)
			return pfw_commit_fail_path(commit, "cannot write",
						    commit->made[i].temporary);
	}
	error = pfw_commit_sync(commit->directory);
	text = error ? NULL : pfw_journal_make(commit, &bytes);
	if (!error && !text)
		error = -ENOMEM;
	error = error ?: pfw_full_write(fd, text, bytes, &at);
	if (!error && fsync(fd) < 0)
		error = -errno;
	error = error ?: pfw_commit_sync(commit->directory);
	free(text);
	return error ? pfw_commit_fail(commit, error, "cannot write the journal in %.300s: %s",
				       commit->directory, strerror(-error))
		     : 0;
}

/* A name may have been taken since it was found free. */
static int check_names(struct pfw_commit *commit)
{
	for (size_t i = 0; i < commit->made_count; i++) {
		struct stat st;

		if (!commit->made[i].replace && lstat(commit->made[i].name, &st) == 0)
			return pfw_commit_fail(commit, -EEXIST, "%.300s is there already",
					       commit->made[i].name);
	}
	return 0;
}

int pfw_commit_run(struct pfw_commit *commit, unsigned *kept)
{
	char name[64];
	char *path;
	int fd, error;

	*kept = 0;
	snprintf(name, sizeof(name), "%ld", (long)getpid());
	path = join(commit->directory, JOURNAL_PREFIX, name, "");
	if (!path)
		return pfw_commit_fail(commit, -ENOMEM, "no memory");
	fd = pfw_commit_open_locked(path, true, true);
	error = fd < 0 ? pfw_commit_fail(commit, fd, "cannot write %.300s: %s", path, strerror(-fd))
		       : check_names(commit);
	if (!error) {
		error = write_journal(commit, fd);
		if (error && ftruncate(fd, 0) < 0)
			error = -errno;
	}
	if (error) {
		if (fd >= 0)
			unlink(path);
	} else {
		error = pfw_commit_give_names(commit) ?: pfw_commit_remove_old(commit, kept);
		if (!error)
			unlink(path);
		/* Carried out, now or by the next process: no file is left for us to remove. */
		free_lists(commit);
	}
	if (fd >= 0)
		close(fd);
	free(path);
	return error;
}

void pfw_commit_end(struct pfw_commit *commit)
{
	for (size_t i = 0; i < commit->made_count; i++)
		unlink(commit->made[i].temporary);
	free_lists(commit);
	free(commit->directory);
	commit->directory = NULL;
}
