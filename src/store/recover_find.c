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

static bool same_trace(const char *a, const char *b)
{
	char whole_a[PATH_MAX], whole_b[PATH_MAX];
	struct stat st_a, st_b;

	if (!strcmp(a, b))
		return true;
	if (!stat(a, &st_a) && !stat(b, &st_b))
		return st_a.st_dev == st_b.st_dev && st_a.st_ino == st_b.st_ino;
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

int pfw_recover_find(const char *const *dirs, const char *trace_or_null, const char *run_or_null,
		     int (*each)(const char *spool_path, void *user), void *user)
{
	int result = 0;

	for (; *dirs && !result; dirs++) {
		struct dirent **entry;
		int count = scandir(*dirs, &entry, is_spool_name, alphasort);

		if (count < 0 && errno == ENOMEM)
			return -ENOMEM;
		for (int i = 0; i < count; i++) {
			char path[PATH_MAX];

			if (!result &&
			    snprintf(path, sizeof(path), "%s/%s", *dirs, entry[i]->d_name) <
				    PATH_MAX &&
			    pfw_recover_belongs(path, trace_or_null, run_or_null))
				result = each(path, user);
			free(entry[i]);
		}
		if (count >= 0)
			free(entry);
	}
	return result;
}
