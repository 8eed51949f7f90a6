/* store/index/place.c - finds the place of an index, and keeps the cache small; see place.h. */
#include "store/index/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/order.h"
#include "store/index/internal.h"
#include "store/kit/grow.h"
#include "store/kit/hash.h"

#define CACHE_BYTES_MAX (1ull << 30)
#define HASH_DIGITS 16
#define LINK_SUFFIX ".trace"
/* Unfinished files older than this are left-overs of a killed pfw: no index takes a day to make. */
#define LEFT_SECONDS 86400

/* ---- the cache ---- */

static bool is_mine(const char *directory)
{
	struct stat st;

	return stat(directory, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

/* Make a missing directory inside a directory of this user: root makes none in other users' homes. */
static void make_directory(const char *path)
{
	char parent[PATH_MAX];
	const char *slash = strrchr(path, '/');

	snprintf(parent, sizeof(parent), "%.*s", slash > path ? (int)(slash - path) : 1, path);
	if (access(path, F_OK) < 0 && is_mine(parent))
		mkdir(path, 0700);
}

/* The directory of the cache.  False: there is none. */
static bool find_cache(char out[PATH_MAX], bool make)
{
	const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	char parent[PATH_MAX];
	struct stat st;
	int bytes = -1;

	if (base && *base == '/')
		bytes = snprintf(parent, sizeof(parent), "%s", base);
	else if (home && *home == '/')
		bytes = snprintf(parent, sizeof(parent), "%s/.cache", home);
	if (bytes < 0 || bytes >= (int)sizeof(parent))
		return false;
	if (make)
		make_directory(parent);
	if (!is_mine(parent) || snprintf(out, PATH_MAX, "%s/pfw", parent) >= PATH_MAX)
		return false;
	if (make)
		make_directory(out);
	return lstat(out, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & 022);
}

char *pfw_index_in_cache(const char *trace, bool make)
{
	char directory[PATH_MAX], *real, *stem = NULL;

	if (!find_cache(directory, make))
		return NULL;
	real = realpath(trace, NULL);
	/* The seed is no secret: if two paths had one hash, they would only replace each other's index. */
	if (real && asprintf(&stem, "%s/%016llx", directory,
			     (unsigned long long)pfw_hash_text(0, real, strlen(real))) < 0)
		stem = NULL;
	free(real);
	return stem;
}

int pfw_index_cache_link(const char *stem, const char *trace)
{
	char *real = realpath(trace, NULL), *link = pfw_index_path(stem, LINK_SUFFIX);
	int error = real && link ? 0 : -ENOMEM;

	if (!error && unlink(link) < 0 && errno != ENOENT)
		error = -errno;
	if (!error && symlink(real, link) < 0)
		error = -errno;
	free(real);
	free(link);
	return error;
}

/* ---- keeping it small ---- */

struct cached {
	char stem[HASH_DIGITS + 1];
	uint64_t bytes;
	struct timespec made;
};

struct cached_list {
	const char *directory;
	struct cached *row;
	size_t count, room;
};

/* Remove DIRECTORY/STEM.SUFFIX. */
static void discard(const char *directory, const char *stem, const char *suffix)
{
	char path[PATH_MAX + HASH_DIGITS + 16];

	snprintf(path, sizeof(path), "%s/%s%s", directory, stem, suffix);
	unlink(path);
}

/* Whether DIRECTORY/STEM.SUFFIX exists, or with `follow` what it leads to. */
static bool exists(const char *directory, const char *stem, const char *suffix, bool follow)
{
	char path[PATH_MAX + HASH_DIGITS + 16];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s%s", directory, stem, suffix);
	return (follow ? stat(path, &st) : lstat(path, &st)) == 0 || errno != ENOENT;
}

/* Look at one file of ours: keep it in the list, or remove it. */
static int look_at(struct cached_list *list, const char *stem, const char *suffix,
		   const struct stat *st)
{
	struct cached row = { .bytes = (uint64_t)st->st_size, .made = st->st_mtim };

	memcpy(row.stem, stem, HASH_DIGITS);
	if (strcmp(suffix, PFW_INDEX_SUFFIX) == 0) {
		if (exists(list->directory, row.stem, LINK_SUFFIX, true))
			return PFW_PUSH(list->row, list->count, list->room, row);
		discard(list->directory, row.stem, PFW_INDEX_SUFFIX);
		discard(list->directory, row.stem, LINK_SUFFIX);
	} else if (time(NULL) - st->st_mtim.tv_sec > LEFT_SECONDS &&
		   !exists(list->directory, row.stem, PFW_INDEX_SUFFIX, false)) {
		discard(list->directory, row.stem, suffix);
	}
	return 0;
}

static int list_cache(struct cached_list *list)
{
	DIR *dir = opendir(list->directory);
	struct dirent *entry;
	struct stat st;
	int error = 0;

	while (dir && !error && (entry = readdir(dir))) {
		const char *suffix = entry->d_name + HASH_DIGITS;

		if (strspn(entry->d_name, "0123456789abcdef") == HASH_DIGITS &&
		    (strcmp(suffix, PFW_INDEX_SUFFIX) == 0 ||
		     strcmp(suffix, PFW_INDEX_UNFINISHED) == 0 ||
		     strcmp(suffix, LINK_SUFFIX) == 0) &&
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			error = look_at(list, entry->d_name, suffix, &st);
	}
	if (dir)
		closedir(dir);
	return error;
}

static int by_age(const void *a, const void *b)
{
	const struct timespec *x = &((const struct cached *)a)->made;
	const struct timespec *y = &((const struct cached *)b)->made;

	return PFW_ORDER(x->tv_sec, y->tv_sec) ?: PFW_ORDER(x->tv_nsec, y->tv_nsec);
}

void pfw_index_cache_trim(const char *stem)
{
	char directory[PATH_MAX];
	struct cached_list list = { .directory = directory };
	const char *slash = strrchr(stem, '/');
	uint64_t bytes = 0;

	snprintf(directory, sizeof(directory), "%.*s", (int)(slash - stem), stem);
	if (list_cache(&list) == 0 && list.count)
		qsort(list.row, list.count, sizeof(*list.row), by_age);
	for (size_t i = 0; i < list.count; i++)
		bytes += list.row[i].bytes;
	for (size_t i = 0; i < list.count && bytes > CACHE_BYTES_MAX; i++) {
		if (strcmp(list.row[i].stem, slash + 1) == 0)
			continue;
		bytes -= list.row[i].bytes;
		discard(directory, list.row[i].stem, PFW_INDEX_SUFFIX);
		discard(directory, list.row[i].stem, LINK_SUFFIX);
	}
	free(list.row);
}

/* ---- beside the trace ---- */

/* Root's files stay root's only where nobody else can rename them. */
static bool is_safe_for_root(const char *trace)
{
	char directory[PATH_MAX];
	const char *slash = strrchr(trace, '/');
	struct stat st;

	snprintf(directory, sizeof(directory), "%.*s/.", slash ? (int)(slash - trace) : 1,
		 slash ? trace : ".");
	return stat(directory, &st) == 0 && st.st_uid == 0 &&
	       (!(st.st_mode & 022) || st.st_mode & S_ISVTX);
}

bool pfw_index_may_be_beside(const char *trace)
{
	char *path = pfw_index_path(trace, PFW_INDEX_SUFFIX);
	struct stat st;
	uint32_t format;
	bool may = path && stat(trace, &st) == 0 && st.st_uid == geteuid() &&
		   (geteuid() != 0 || is_safe_for_root(trace));

	/* An older pfw leaves the index of a newer one alone; else the two would replace it in turn. */
	if (may && (lstat(path, &st) == 0 || errno != ENOENT))
		may = pfw_index_format_of(path, &format, &st) == 0 && st.st_uid == geteuid() &&
		      format <= PFW_INDEX_FORMAT;
	free(path);
	return may;
}
