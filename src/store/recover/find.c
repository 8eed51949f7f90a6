/* store/recover/find.c - finds the spools of a trace or run in some directories. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/recover/image.h"
#include "store/recover/recover.h"
#include "store/sys/open.h"
#include "store/traces/paths.h"

/* pfw-....spool or pfw-....spool.N */
static int is_spool_name(const struct dirent *entry)
{
	const char *suffix = strstr(entry->d_name, PFW_SPOOL_SUFFIX);

	if (strncmp(entry->d_name, PFW_SPOOL_PREFIX, strlen(PFW_SPOOL_PREFIX)) || !suffix)
		return 0;
	suffix += strlen(PFW_SPOOL_SUFFIX);
	return !*suffix || (*suffix == '.' && suffix[1] &&
			    strspn(suffix + 1, "0123456789") == strlen(suffix + 1));
}

/* Whether `a`, named by a spool, is `b`, the one looked for; neither need exist. */
static bool same_trace(const char *a, const char *b)
{
	char *whole_a, *whole_b;
	struct stat st_a, st_b;
	bool same;

	if (!strcmp(a, b))
		return true;
	if (!stat(b, &st_b)) /* `b` first: `a` may be created at any moment */
		return !stat(a, &st_a) && st_a.st_dev == st_b.st_dev && st_a.st_ino == st_b.st_ino;
	whole_a = pfw_whole_path(a);
	whole_b = pfw_whole_path(b);
	same = whole_a && whole_b && !strcmp(whole_a, whole_b);
	free(whole_a);
	free(whole_b);
	return same;
}

bool pfw_recover_is_in(const char *trace, const char *base)
{
	char *whole = pfw_whole_path(trace), *whole_base = pfw_whole_path(base);
	size_t bytes = whole_base ? (size_t)(strrchr(whole_base, '/') + 1 - whole_base) : 0;
	bool is = whole && whole_base && !strncmp(whole, whole_base, bytes) &&
		  !strchr(whole + bytes, '/') &&
		  pfw_paths_of_base(whole + bytes, whole_base[bytes] ? whole_base + bytes : NULL);

	free(whole);
	free(whole_base);
	return is;
}

/* Whether a trace that was never created belongs to the base name `base`. */
static bool trace_of_base(const char *trace, const char *base)
{
	return !pfw_paths_is_trace(base) && access(trace, F_OK) && pfw_recover_is_in(trace, base);
}

/* Whether the user of a spool may have made the trace: the trace is the user's, or the user could
 * create it.  Any user can put a spool into /dev/shm that names any trace; such a spool is ignored. */
static bool may_be_of(uid_t user, const char *trace)
{
	char directory[PATH_MAX];
	size_t bytes;
	const char *from = pfw_directory_of(trace, &bytes);
	struct stat st;

	if (!lstat(trace, &st) && S_ISREG(st.st_mode))
		return st.st_uid == user;
	snprintf(directory, sizeof(directory), "%.*s", (int)bytes, from);
	return !stat(directory, &st) && (st.st_uid == user || st.st_mode & 022);
}

bool pfw_recover_belongs(const char *path, const char *trace, const char *run)
{
	struct pfw_spool_image image;
	char why[PFW_SPOOL_WHY_BYTES];
	struct stat st;
	bool yes = false;
	int fd;

	if (!trace && !run)
		return true;
	fd = pfw_spool_image_open(path, false, &st);
	if (fd < 0)
		return false;
	if (!pfw_spool_image_header(&image, fd, why) &&
	    (!trace || may_be_of(st.st_uid, pfw_spool_trace_path(image.header))))
		yes = (!trace || same_trace(pfw_spool_trace_path(image.header), trace) ||
		       trace_of_base(pfw_spool_trace_path(image.header), trace)) &&
		      (!run || !strncmp(image.header->run, run, sizeof(image.header->run)));
	pfw_spool_image_release(&image);
	close(fd);
	return yes;
}

struct pfw_spool_trace pfw_recover_trace(const char *spool_path)
{
	struct pfw_spool_trace trace = { .there = false };
	struct pfw_spool_image image;
	char why[PFW_SPOOL_WHY_BYTES];
	struct stat st;
	int fd = pfw_spool_image_open(spool_path, false, &st);

	if (fd < 0)
		return trace;
	if (!pfw_spool_image_header(&image, fd, why) &&
	    !stat(pfw_spool_trace_path(image.header), &st))
		trace = (struct pfw_spool_trace){ true, st.st_dev, st.st_ino };
	pfw_spool_image_release(&image);
	close(fd);
	return trace;
}

struct pfw_spool_trace pfw_recover_file(const char *path)
{
	struct stat st;

	return pfw_paths_is_trace(path) && !stat(path, &st) && S_ISREG(st.st_mode)
		       ? (struct pfw_spool_trace){ true, st.st_dev, st.st_ino }
		       : (struct pfw_spool_trace){ .there = false };
}

/* ---- listing a directory ---- */

static void free_listing(struct pfw_spool_listing *listing)
{
	for (size_t i = 0; i < listing->count; i++)
		free(listing->name[i]);
	free(listing->name);
	free(listing->trace);
	free(listing->dir);
	*listing = (struct pfw_spool_listing){ 0 };
}

void pfw_spool_listings_free(struct pfw_spool_listings *listings)
{
	for (size_t i = 0; i < PFW_SPOOL_LISTINGS; i++)
		free_listing(&listings->listing[i]);
}

/* A directory that cannot be read has no spools. 0 or -ENOMEM. */
static int list(struct pfw_spool_listing *listing, const char *dir)
{
	struct dirent **entry;
	int count = scandir(dir, &entry, is_spool_name, alphasort), error = 0;

	*listing = (struct pfw_spool_listing){ 0 };
	if (count < 0)
		return errno == ENOMEM ? -ENOMEM : 0;
	listing->name = calloc((size_t)count + 1, sizeof(*listing->name));
	for (int i = 0; i < count; i++) {
		if (listing->name)
			listing->name[listing->count] = strdup(entry[i]->d_name);
		if (listing->name && listing->name[listing->count])
			listing->count++;
		else
			error = -ENOMEM;
		free(entry[i]);
	}
	free(entry);
	return listing->name ? error : -ENOMEM;
}

/* Find the traces of a listing's spools. 0 or -ENOMEM. */
static int find_traces(struct pfw_spool_listing *listing, const char *dir)
{
	char path[PATH_MAX];

	listing->trace = calloc(listing->count + 1, sizeof(*listing->trace));
	for (size_t i = 0; listing->trace && i < listing->count; i++) {
		if (snprintf(path, sizeof(path), "%s/%s", dir, listing->name[i]) < PATH_MAX)
			listing->trace[i] = pfw_recover_trace(path);
	}
	return listing->trace ? 0 : -ENOMEM;
}

/* Put a directory's listing first. 0 or -ENOMEM. */
static int look_up(struct pfw_spool_listings *listings, const char *dir)
{
	struct pfw_spool_listing *all = listings->listing, found = { 0 };
	size_t i = 0;
	int error = 0;

	while (i < PFW_SPOOL_LISTINGS - 1 && all[i].dir && strcmp(all[i].dir, dir) != 0)
		i++;
	if (all[i].dir && strcmp(all[i].dir, dir) == 0) {
		found = all[i];
	} else {
		free_listing(&all[i]);
		error = list(&found, dir) ?: find_traces(&found, dir);
		found.dir = error ? NULL : strdup(dir);
	}
	if (!found.dir) {
		free_listing(&found);
		return -ENOMEM;
	}
	memmove(all + 1, all, i * sizeof(*all));
	all[0] = found;
	return 0;
}

/* ---- finding ---- */

static int find_in(const struct pfw_spool_listing *listing, const char *dir, const char *trace,
		   const char *run, int (*each)(const char *spool_path, void *user), void *user)
{
	struct pfw_spool_trace file = { .there = false };
	char path[PATH_MAX];
	int result = 0;

	if (listing->trace && trace)
		file = pfw_recover_file(trace);
	for (size_t i = 0; i < listing->count && !result; i++) {
		if (listing->trace && !pfw_recover_may(&listing->trace[i], &file))
			continue;
		if (snprintf(path, sizeof(path), "%s/%s", dir, listing->name[i]) < PATH_MAX &&
		    pfw_recover_belongs(path, trace, run))
			result = each(path, user);
	}
	return result;
}

int pfw_recover_find_in(const struct pfw_spool_places *dirs, const char *trace_or_null,
			const char *run_or_null, int (*each)(const char *spool_path, void *user),
			void *user)
{
	int result = 0;

	for (const char *const *dir = dirs->dir; *dir && !result; dir++) {
		struct pfw_spool_listing once = { 0 };
		const struct pfw_spool_listing *listing = &once;

		if (dirs->listings) {
			result = look_up(dirs->listings, *dir);
			listing = dirs->listings->listing;
		} else {
			result = list(&once, *dir);
		}
		result = result ?: find_in(listing, *dir, trace_or_null, run_or_null, each, user);
		free_listing(&once);
	}
	return result;
}

int pfw_recover_find(const char *const *dirs, const char *trace_or_null, const char *run_or_null,
		     int (*each)(const char *spool_path, void *user), void *user)
{
	return pfw_recover_find_in(&(struct pfw_spool_places){ .dir = dirs }, trace_or_null,
				   run_or_null, each, user);
}
