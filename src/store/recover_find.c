/* recover_find.c - the spools that lie in some directories, and what they belong to. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "paths.h"
#include "recover.h"
#include "spool_image.h"

/* pfw-….spool, or pfw-….spool.N */
static int is_spool_name(const struct dirent *entry)
{
	const char *suffix = strstr(entry->d_name, PFW_SPOOL_SUFFIX);

	if (strncmp(entry->d_name, PFW_SPOOL_PREFIX, strlen(PFW_SPOOL_PREFIX)) || !suffix)
		return 0;
	suffix += strlen(PFW_SPOOL_SUFFIX);
	return !*suffix || (*suffix == '.' && suffix[1] &&
			    strspn(suffix + 1, "0123456789") == strlen(suffix + 1));
}

/* The path with its directory resolved; a trace that is to be made has no path to resolve itself.
 * False where the directory is not there. */
static bool resolve(const char *path, char out[PATH_MAX])
{
	const char *slash = strrchr(path, '/');
	const char *last = slash ? slash + 1 : path;
	char dir[PATH_MAX], resolved[PATH_MAX];

	if (slash && (size_t)(slash - path) >= sizeof(dir))
		return false;
	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
	return realpath(dir, resolved) &&
	       snprintf(out, PATH_MAX, "%s/%s", strcmp(resolved, "/") ? resolved : "", last) <
		       PATH_MAX;
}

/* Whether `a`, which a spool names, is `b`, which is asked for; neither need be there. */
static bool same_trace(const char *a, const char *b)
{
	char whole_a[PATH_MAX], whole_b[PATH_MAX];
	struct stat st_a, st_b;

	if (!strcmp(a, b))
		return true;
	if (!stat(b, &st_b)) /* asked first: the other may be begun at any moment */
		return !stat(a, &st_a) && st_a.st_dev == st_b.st_dev && st_a.st_ino == st_b.st_ino;
	return resolve(a, whole_a) && resolve(b, whole_b) && !strcmp(whole_a, whole_b);
}

/* Whether a trace that was never begun on disk is one of the base name `base`; where that ends in a
 * slash, one of that directory. */
static bool trace_of_base(const char *trace, const char *base)
{
	char whole[PATH_MAX], whole_base[PATH_MAX];
	size_t bytes;

	if (pfw_paths_is_trace(base) || !access(trace, F_OK) || !resolve(trace, whole) ||
	    !resolve(base, whole_base))
		return false;
	bytes = (size_t)(strrchr(whole_base, '/') + 1 - whole_base);
	return !strncmp(whole, whole_base, bytes) && !strchr(whole + bytes, '/') &&
	       pfw_paths_of_base(whole + bytes, whole_base[bytes] ? whole_base + bytes : NULL);
}

bool pfw_recover_belongs(const char *path, const char *trace, const char *run)
{
	struct pfw_spool_image image;
	char why[PFW_SPOOL_WHY_BYTES];
	bool yes = false;
	int fd;

	if (!trace && !run)
		return true;
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	if (!pfw_spool_image_header(&image, fd, why))
		yes = (!trace || same_trace(pfw_spool_image_trace(&image), trace) ||
		       trace_of_base(pfw_spool_image_trace(&image), trace)) &&
		      (!run || !strncmp(image.header->run, run, sizeof(image.header->run)));
	pfw_spool_image_release(&image);
	close(fd);
	return yes;
}

/* ---- what lies in a directory ---- */

static void free_listing(struct pfw_spool_listing *listing)
{
	for (size_t i = 0; i < listing->count; i++)
		free(listing->name[i]);
	free(listing->name);
	free(listing->dir);
	*listing = (struct pfw_spool_listing){ 0 };
}

void pfw_spool_listings_free(struct pfw_spool_listings *listings)
{
	for (size_t i = 0; i < PFW_SPOOL_LISTINGS; i++)
		free_listing(&listings->listing[i]);
}

/* Nothing lies in a directory that cannot be read.  0 or -ENOMEM. */
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

/* The listing of a directory, first of all by now.  0 or -ENOMEM. */
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
		error = list(&found, dir);
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

struct wanted {
	const char *trace, *run; /* NULL: any */
	int (*each)(const char *spool_path, void *user);
	void *user;
};

static int find_in(const struct pfw_spool_listing *listing, const char *dir,
		   const struct wanted *wanted)
{
	char path[PATH_MAX];
	int result = 0;

	for (size_t i = 0; i < listing->count && !result; i++) {
		if (snprintf(path, sizeof(path), "%s/%s", dir, listing->name[i]) < PATH_MAX &&
		    pfw_recover_belongs(path, wanted->trace, wanted->run))
			result = wanted->each(path, wanted->user);
	}
	return result;
}

static int find(const struct pfw_spool_places *dirs, const struct wanted *wanted)
{
	int result = 0;

	for (const char *const *dir = dirs->dir; *dir && !result; dir++) {
		struct pfw_spool_listing listing;

		if (dirs->listings) {
			result = look_up(dirs->listings, *dir);
			if (!result)
				result = find_in(&dirs->listings->listing[0], *dir, wanted);
			continue;
		}
		result = list(&listing, *dir);
		if (!result)
			result = find_in(&listing, *dir, wanted);
		free_listing(&listing);
	}
	return result;
}

int pfw_recover_find_in(const struct pfw_spool_places *dirs, const char *trace_or_null,
			int (*each)(const char *spool_path, void *user), void *user)
{
	const struct wanted wanted = { .trace = trace_or_null, .each = each, .user = user };

	return find(dirs, &wanted);
}

int pfw_recover_find(const char *const *dirs, const char *trace_or_null, const char *run_or_null,
		     int (*each)(const char *spool_path, void *user), void *user)
{
	const struct pfw_spool_places in = { .dir = dirs };
	const struct wanted wanted = { trace_or_null, run_or_null, each, user };

	return find(&in, &wanted);
}
