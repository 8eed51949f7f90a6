/* commit.c - finished files take the place of those they were made from; see commit.h. */
#include "commit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "linehash.h"
#include "whole.h"

#define PREFIX ".pfw-compact-"
#define SUFFIX ".part" /* else it would be taken for a trace */
#define JOURNAL_PREFIX ".pfw-compact-journal-"
#define JOURNAL_MAX (256u << 20) /* 10,000 originals of 4 KiB of path, many times */
#define MAGIC "pfw compact journal 1"

__attribute__((format(printf, 3, 4))) static int fail(struct pfw_commit *commit, int error,
						      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(commit->why, sizeof(commit->why), format, args);
	va_end(args);
	return error;
}

static int fail_path(struct pfw_commit *commit, const char *what, const char *path)
{
	int error = errno ? errno : EIO;

	return fail(commit, -error, "%s %.300s: %s", what, path, strerror(error));
}

static char *join(const char *directory, const char *prefix, const char *name, const char *suffix)
{
	char *path;

	return asprintf(&path, "%s/%s%s%s", directory, prefix, name, suffix) < 0 ? NULL : path;
}

static int sync_directory(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), error = 0;

	if (fd < 0)
		return -errno;
	/* Some file systems have no such thing as syncing a directory. */
	if (fsync(fd) < 0 && errno != EINVAL && errno != EROFS)
		error = -errno;
	close(fd);
	return error;
}

/* The directory that a path is in. */
static void directory_of(char *out, size_t size, const char *path)
{
	const char *slash = strrchr(path, '/');

	if (slash)
		snprintf(out, size, "%.*s", slash == path ? 1 : (int)(slash - path), path);
	else
		snprintf(out, size, ".");
}

/* ---- carrying it through ---- */

static bool is_same(const struct stat *st, const struct pfw_commit_old *old)
{
	return S_ISREG(st->st_mode) && st->st_dev == old->device && st->st_ino == old->inode &&
	       (uint64_t)st->st_size == old->bytes &&
	       st->st_mtim.tv_sec * 1000000000ll + st->st_mtim.tv_nsec == old->changed_ns;
}

/* Whether nobody writes it: a trace's writer has it locked. */
static bool is_locked(const char *path)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	bool locked = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;

	if (fd >= 0)
		close(fd);
	return locked;
}

/* Remove the originals that are as they were.  What has one of their names by now is another. */
static int remove_old(struct pfw_commit *commit, unsigned *kept)
{
	char directory[PATH_MAX], last[PATH_MAX] = "";

	for (size_t i = 0; i < commit->old_count; i++) {
		const struct pfw_commit_old *old = &commit->old[i];
		struct stat st;

		if (lstat(old->path, &st) < 0 || st.st_ino != old->inode ||
		    st.st_dev != old->device)
			continue;
		if (!is_same(&st, old) || is_locked(old->path)) {
			fail(commit, 0, "%.300s has changed since it was read: kept", old->path);
			(*kept)++;
			continue;
		}
		if (unlink(old->path) < 0 && errno != ENOENT)
			return fail_path(commit, "cannot remove", old->path);
		directory_of(directory, sizeof(directory), old->path);
		if (strcmp(directory, last) != 0 && *last)
			sync_directory(last);
		memcpy(last, directory, sizeof(last));
	}
	if (*last)
		sync_directory(last);
	return 0;
}

static bool is_file(const char *path, const struct pfw_commit_new *made)
{
	struct stat st;

	return lstat(path, &st) == 0 && st.st_dev == made->device && st.st_ino == made->inode;
}

/* Give the new files their names; one that has it already was named before we were killed. */
static int give_names(struct pfw_commit *commit)
{
	/* Nothing is replaced unless all of it is there. */
	for (size_t i = 0; i < commit->made_count; i++) {
		const struct pfw_commit_new *made = &commit->made[i];

		if (!is_file(made->temporary, made) && !is_file(made->name, made))
			return fail(commit, -ENOENT, "%.300s is gone", made->temporary);
	}
	for (size_t i = 0; i < commit->made_count; i++) {
		const struct pfw_commit_new *made = &commit->made[i];

		if (!is_file(made->name, made) && rename(made->temporary, made->name) < 0)
			return fail_path(commit, "cannot give its name to", made->name);
	}
	return sync_directory(commit->directory);
}

/* ---- the journal ---- */

/* Fields end in NUL, for a path may hold anything else. */
static bool put_journal(FILE *out, const struct pfw_commit *commit)
{
	fprintf(out, MAGIC "%c", 0);
	for (size_t i = 0; i < commit->made_count; i++)
		fprintf(out, "name%c%s%c%s%c%" PRIu64 " %" PRIu64 "%c", 0,
			commit->made[i].temporary, 0, commit->made[i].name, 0,
			commit->made[i].device, commit->made[i].inode, 0);
	for (size_t i = 0; i < commit->old_count; i++) {
		const struct pfw_commit_old *old = &commit->old[i];

		fprintf(out, "remove%c%s%c%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 "%c", 0,
			old->path, 0, old->device, old->inode, old->bytes, old->changed_ns, 0);
	}
	return !ferror(out);
}

/* The whole text of the journal, its hash last. */
static char *make_journal(const struct pfw_commit *commit, size_t *bytes)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, bytes);

	if (!out)
		return NULL;
	if (!put_journal(out, commit) || fflush(out) ||
	    fprintf(out, "end%c%016" PRIx64 "%c", 0, pfw_linehash(text, *bytes), 0) < 0 ||
	    fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

/* Open and lock a file of that path, made if need be; it is still that path's once it is locked. */
static int open_locked(const char *path, int flags, bool wait)
{
	for (;;) {
		int fd = open(path, flags | O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
		struct stat opened, named;
		int error = 0;

		if (fd < 0)
			return -errno;
		while (flock(fd, wait ? LOCK_EX : LOCK_EX | LOCK_NB) < 0 && !error)
			error = errno == EINTR ? 0 : -errno;
		if (!error && fstat(fd, &opened) == 0 && lstat(path, &named) == 0 &&
		    opened.st_dev == named.st_dev && opened.st_ino == named.st_ino)
			return fd;
		close(fd);
		if (error)
			return error == -EWOULDBLOCK ? -EBUSY : error;
		if (!(flags & O_CREAT))
			return -ENOENT;
	}
}

struct journal {
	char *text;
	size_t bytes;
	const char *at;
};

static const char *next_field(struct journal *journal)
{
	const char *field = journal->at, *end = journal->text + journal->bytes;
	const char *nul = field < end ? memchr(field, 0, (size_t)(end - field)) : NULL;

	journal->at = nul ? nul + 1 : end;
	return nul ? field : NULL;
}

/* Whether it is whole: it ends in the hash of what is before. */
static bool is_whole(const struct journal *journal)
{
	char end[32];
	size_t tail = 4 + 17;

	if (journal->bytes < tail + sizeof(MAGIC) || strcmp(journal->text, MAGIC) != 0)
		return false;
	snprintf(end, sizeof(end), "%016" PRIx64,
		 pfw_linehash(journal->text, journal->bytes - tail));
	return memcmp(journal->text + journal->bytes - tail, "end", 4) == 0 &&
	       memcmp(journal->text + journal->bytes - 17, end, 17) == 0;
}

/* Append one, to be filled in, with copies of these. */
static struct pfw_commit_new *add_new(struct pfw_commit *commit, const char *temporary,
				      const char *name)
{
	size_t count = commit->made_count;
	struct pfw_commit_new *bigger = realloc(commit->made, (count + 1) * sizeof(*commit->made));

	if (!bigger)
		return NULL;
	commit->made = bigger;
	bigger[count] = (struct pfw_commit_new){
		.temporary = strdup(temporary), .name = strdup(name), .fd = -1, .replace = true
	};
	if (!bigger[count].temporary || !bigger[count].name) {
		free(bigger[count].temporary);
		free(bigger[count].name);
		return NULL;
	}
	commit->made_count++;
	return &bigger[count];
}

int pfw_commit_remove(struct pfw_commit *commit, const char *path, uint64_t device, uint64_t inode,
		      uint64_t bytes, int64_t changed_ns)
{
	size_t count = commit->old_count;
	struct pfw_commit_old *bigger = commit->old;
	char whole[PATH_MAX];

	/* Doubled at each power of two. */
	if (!(count & (count - 1)))
		bigger = realloc(commit->old, (count ? 2 * count : 1) * sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	commit->old = bigger;
	/* Whoever carries it through may stand elsewhere. */
	if (!realpath(path, whole))
		return -errno;
	bigger[count] = (struct pfw_commit_old){ .path = strdup(whole),
						 .device = device,
						 .inode = inode,
						 .bytes = bytes,
						 .changed_ns = changed_ns };
	if (!bigger[count].path)
		return -ENOMEM;
	commit->old_count++;
	return 0;
}

/* Whether a name in a journal is one that a journal in this directory may change. */
static bool is_inside(const struct pfw_commit *commit, const char *path, const char *prefix)
{
	size_t bytes = strlen(commit->directory);

	return strncmp(path, commit->directory, bytes) == 0 && path[bytes] == '/' &&
	       !strchr(path + bytes + 1, '/') &&
	       strncmp(path + bytes + 1, prefix, strlen(prefix)) == 0;
}

static int parse_name(struct pfw_commit *commit, struct journal *journal)
{
	const char *temporary = next_field(journal), *name = next_field(journal);
	const char *figures = next_field(journal);
	struct pfw_commit_new *made;
	uint64_t device, inode;

	if (!figures || !is_inside(commit, temporary, PREFIX) || !is_inside(commit, name, "") ||
	    sscanf(figures, "%" SCNu64 " %" SCNu64, &device, &inode) != 2)
		return -EINVAL;
	made = add_new(commit, temporary, name);
	if (!made)
		return -ENOMEM;
	made->device = device;
	made->inode = inode;
	return 0;
}

static int parse_remove(struct pfw_commit *commit, struct journal *journal)
{
	const char *path = next_field(journal), *figures = next_field(journal);
	uint64_t device, inode, bytes;
	int64_t changed_ns;
	int error;

	if (!figures || sscanf(figures, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNd64, &device,
			       &inode, &bytes, &changed_ns) != 4)
		return -EINVAL;
	error = pfw_commit_remove(commit, path, device, inode, bytes, changed_ns);
	/* It may have been removed before we were killed. */
	return error == -ENOENT || error == -ENOTDIR ? 0 : error;
}

static int parse_journal(struct pfw_commit *commit, struct journal *journal)
{
	const char *field;
	int error = 0;

	journal->at = journal->text;
	next_field(journal);
	while (!error && (field = next_field(journal)) && strcmp(field, "end") != 0)
		error = strcmp(field, "name") == 0     ? parse_name(commit, journal)
			: strcmp(field, "remove") == 0 ? parse_remove(commit, journal)
						       : -EINVAL;
	return error;
}

/* ---- what predecessors left ---- */

static int read_journal(int fd, struct journal *journal)
{
	struct stat st;
	ssize_t got;

	/* Only what nobody else can have written says what to remove. */
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 077) || (uint64_t)st.st_size > JOURNAL_MAX)
		return -EPERM;
	journal->text = malloc((size_t)st.st_size + 1);
	if (!journal->text)
		return -ENOMEM;
	got = pread(fd, journal->text, (size_t)st.st_size, 0);
	journal->bytes = got > 0 ? (size_t)got : 0;
	journal->text[journal->bytes] = '\0';
	return 0;
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

/* A journal that nobody has locked: carry it through where it is whole. */
static int take_journal(struct pfw_commit *commit, const char *path, unsigned *carried)
{
	struct pfw_commit found = { .directory = commit->directory };
	struct journal journal = { 0 };
	unsigned kept = 0;
	int fd = open_locked(path, 0, false), error;

	if (fd < 0)
		return 0; /* at work, gone, or not ours */
	error = read_journal(fd, &journal);
	if (!error && is_whole(&journal)) {
		error = parse_journal(&found, &journal);
		if (!error)
			error = give_names(&found);
		if (!error)
			error = remove_old(&found, &kept);
		*carried += !error;
	}
	if (!error)
		unlink(path);
	else if (error == -EPERM)
		error = 0;
	else
		fail(commit, error, "%.300s: a change that was begun cannot be carried through: %s",
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

/* A temporary file that nobody has locked, and no journal speaks of. */
static void take_temporary(const char *path)
{
	int fd = is_mine(path) ? open_locked(path, 0, false) : -1;

	if (fd < 0)
		return;
	unlink(path);
	close(fd);
}

/* Journals first: what they list is no leavings. */
static int look(struct pfw_commit *commit, bool journals, unsigned *carried)
{
	DIR *dir = opendir(commit->directory);
	struct dirent *entry;
	int error = 0;

	if (!dir)
		return fail_path(commit, "cannot read", commit->directory);
	while (!error && (entry = readdir(dir))) {
		char *path;

		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0 ||
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
	int error;

	*commit = (struct pfw_commit){ 0 };
	*carried = 0;
	if (!realpath(directory, whole))
		return fail_path(commit, "cannot use", directory);
	commit->directory = strdup(whole);
	if (!commit->directory)
		return fail(commit, -ENOMEM, "no memory");
	error = look(commit, true, carried);
	return error ? error : look(commit, false, carried);
}

/* ---- new files ---- */

/* 0600 as a trace has it: never wider than what it is made from. */
static int make_temporary(struct pfw_commit *commit, const char *path)
{
	int fd;

	for (;;) {
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd >= 0 || errno != EEXIST)
			break;
		/* Left since we looked, or somebody's who is at work. */
		fd = is_mine(path) ? open_locked(path, 0, false) : -EBUSY;
		if (fd == -ENOENT)
			continue;
		if (fd < 0)
			return fail(commit, -EBUSY, "%.300s: another pfw compact is at work on it",
				    path);
		unlink(path);
		close(fd);
	}
	if (fd < 0)
		return fail_path(commit, "cannot write", path);
	/* Between making and locking another may have taken it for leavings. */
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
		close(fd);
		return fail(commit, -EBUSY, "%.300s: another pfw compact is at work on it", path);
	}
	return fd;
}

int pfw_commit_add(struct pfw_commit *commit, const char *name, bool replace)
{
	char *temporary = join(commit->directory, PREFIX, name, SUFFIX);
	char *path = join(commit->directory, "", name, "");
	struct pfw_commit_new *made;
	struct stat st;
	int fd = -ENOMEM;

	if (temporary && path)
		fd = !replace && lstat(path, &st) == 0
			     ? fail(commit, -EEXIST, "%.300s is there already", path)
			     : make_temporary(commit, temporary);
	if (fd >= 0) {
		made = fstat(fd, &st) < 0 ? NULL : add_new(commit, temporary, path);
		if (made) {
			made->fd = fd;
			made->replace = replace;
			made->device = st.st_dev;
			made->inode = st.st_ino;
		} else {
			unlink(temporary);
			close(fd);
			fd = -ENOMEM;
		}
	}
	free(temporary);
	free(path);
	return fd;
}

int pfw_commit_add_beside(struct pfw_commit *commit, const char *suffix)
{
	const struct pfw_commit_new *main = &commit->made[commit->made_count - 1];
	char *temporary = NULL, *path = NULL;
	struct pfw_commit_new *made;
	int fd = -ENOMEM;
	struct stat st;

	if (asprintf(&temporary, "%s%s", main->temporary, suffix) < 0)
		temporary = NULL;
	if (asprintf(&path, "%s%s", main->name, suffix) < 0)
		path = NULL;
	if (temporary && path)
		fd = open_locked(temporary, 0, false);
	made = fd < 0 || fstat(fd, &st) < 0 ? NULL : add_new(commit, temporary, path);
	if (made) {
		made->fd = fd;
		made->device = st.st_dev;
		made->inode = st.st_ino;
	} else if (fd >= 0) {
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

/* ---- all of it ---- */

/* Everything on the disk, then the journal, then the directory: now it can be carried through. */
static int write_journal(struct pfw_commit *commit, int fd)
{
	uint64_t at = 0;
	size_t bytes;
	char *text;
	int error;

	for (size_t i = 0; i < commit->made_count; i++) {
		if (fsync(commit->made[i].fd) < 0)
			return fail_path(commit, "cannot write", commit->made[i].temporary);
	}
	error = sync_directory(commit->directory);
	text = error ? NULL : make_journal(commit, &bytes);
	if (!error && !text)
		error = -ENOMEM;
	if (!error)
		error = pfw_write_whole(fd, text, bytes, &at);
	if (!error && fsync(fd) < 0)
		error = -errno;
	if (!error)
		error = sync_directory(commit->directory);
	free(text);
	return error ? fail(commit, error, "cannot write the journal in %.300s: %s",
			    commit->directory, strerror(-error))
		     : 0;
}

/* Somebody may have taken a name since it was found free. */
static int check_names(struct pfw_commit *commit)
{
	for (size_t i = 0; i < commit->made_count; i++) {
		struct stat st;

		if (!commit->made[i].replace && lstat(commit->made[i].name, &st) == 0)
			return fail(commit, -EEXIST, "%.300s is there already",
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
		return fail(commit, -ENOMEM, "no memory");
	fd = open_locked(path, O_CREAT, true);
	error = fd < 0 ? fail(commit, fd, "cannot write %.300s: %s", path, strerror(-fd))
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
		error = give_names(commit);
		if (!error)
			error = remove_old(commit, kept);
		if (!error)
			unlink(path);
		/* Carried through, now or by the next one: nothing is ours to remove. */
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
