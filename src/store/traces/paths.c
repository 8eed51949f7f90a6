/* store/traces/paths.c - the files that PATH arguments name; see paths.h. */
#include "store/traces/paths.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/order.h"
#include "common/base/text.h"
#include "store/kit/grow.h"
#include "store/partial/partial.h"
#include "store/sys/open.h"
#include "store/traces/ends.h"

bool pfw_paths_is_trace(const char *name)
{
	return pfw_text_ends(name, ".pfw") || pfw_text_ends(name, ".pfw.gz");
}

const char *pfw_paths_stem(const char *path, size_t *bytes)
{
	const char *name = pfw_text_base(path);

	*bytes = strlen(name);
	if (*bytes > 3 && memcmp(name + *bytes - 3, ".gz", 3) == 0)
		*bytes -= 3;
	if (*bytes > 4 && memcmp(name + *bytes - 4, ".pfw", 4) == 0)
		*bytes -= 4;
	return name;
}

/* Files next to traces that are no traces. */
static bool is_companion(const char *name)
{
	return pfw_text_ends(name, ".pfw.idx") || pfw_text_ends(name, ".pfw.gz.idx") ||
	       pfw_text_ends(name, ".manifest.json");
}

int pfw_paths_add_path(struct pfw_paths *paths, const char *path)
{
	if (PFW_PUSH(paths->path, paths->count, paths->room, strdup(path)))
		return -ENOMEM;
	return paths->path[paths->count - 1] ? 0 : (paths->count--, -ENOMEM);
}

void pfw_paths_free(struct pfw_paths *paths)
{
	for (size_t i = 0; i < paths->count; i++)
		free(paths->path[i]);
	free(paths->path);
	*paths = (struct pfw_paths){ 0 };
}

/* Sort the paths added since `first`. */
static void sort_from(struct pfw_paths *paths, size_t first)
{
	if (paths->count > first)
		qsort(paths->path + first, paths->count - first, sizeof(*paths->path),
		      pfw_order_text);
}

bool pfw_paths_of_base(const char *name, const char *base)
{
	size_t bytes;

	if (!pfw_paths_is_trace(name))
		return false;
	if (!base)
		return true;
	bytes = strlen(base);
	if (strncmp(name, base, bytes) != 0)
		return false;
	name += bytes;
	while (*name == '.' && (bytes = strspn(name + 1, "0123456789")))
		name += 1 + bytes;
	return *name == '-' || strcmp(name, ".pfw") == 0 || strcmp(name, ".pfw.gz") == 0;
}

static bool is_partial(const char *name, const char *base)
{
	(void)base;
	return pfw_partial_is_name(name);
}

/* Add the regular files of `directory` that are, by is(), of `base`; paths begin with `prefix`. */
static int add_those(struct pfw_paths *paths, const char *directory, const char *prefix,
		     const char *base, bool (*is)(const char *name, const char *base))
{
	DIR *dir = opendir(directory);
	size_t first = paths->count;
	struct dirent *entry;
	int error = 0;

	if (!dir)
		return -errno;
	while (!error && (entry = readdir(dir))) {
		char path[4096];
		struct stat st;

		if (!is(entry->d_name, base) ||
		    (size_t)snprintf(path, sizeof(path), "%s%s", prefix, entry->d_name) >=
			    sizeof(path) ||
		    stat(path, &st) < 0 || !S_ISREG(st.st_mode))
			continue;
		error = pfw_paths_add_path(paths, path);
	}
	closedir(dir);
	sort_from(paths, first);
	return error;
}

static int add_directory(struct pfw_paths *paths, const char *directory, const char *prefix,
			 const char *base)
{
	return add_those(paths, directory, prefix, base, pfw_paths_of_base);
}

int pfw_paths_add_base(struct pfw_paths *paths, const char *base)
{
	const char *slash = strrchr(base, '/');
	char directory[4096] = ".", prefix[4096] = "";
	int error;

	if (strlen(base) >= sizeof(prefix))
		return 0;
	if (slash) {
		snprintf(prefix, sizeof(prefix), "%.*s", (int)(slash + 1 - base), base);
		snprintf(directory, sizeof(directory), "%s", prefix);
		base = slash + 1;
	}
	error = *base ? add_directory(paths, directory, prefix, base) : 0;
	return error == -ENOMEM ? error : 0;
}

static int add_glob(struct pfw_paths *paths, const char *pattern)
{
	size_t first = paths->count;
	glob_t found;
	int error = 0;

	if (glob(pattern, 0, NULL, &found) != 0)
		return 0;
	for (size_t i = 0; i < found.gl_pathc && !error; i++) {
		if (!is_companion(found.gl_pathv[i]))
			error = pfw_paths_add_path(paths, found.gl_pathv[i]);
	}
	globfree(&found);
	sort_from(paths, first);
	return error;
}

int pfw_paths_add(struct pfw_paths *paths, const char *argument, const char **why)
{
	size_t before = paths->count;
	char prefix[4096];
	struct stat st;
	int error = 0;

	*why = "there is no such file, directory or base name of traces";
	if (is_companion(argument))
		return 0;
	if (strcmp(argument, "-") == 0)
		return pfw_paths_add_path(paths, argument);
	if (stat(argument, &st) == 0 && S_ISDIR(st.st_mode)) {
		*why = "no *.pfw or *.pfw.gz in this directory";
		snprintf(prefix, sizeof(prefix), "%s%s", argument,
			 pfw_text_ends(argument, "/") || strcmp(argument, "/") == 0 ? "" : "/");
		error = add_directory(paths, argument, prefix, NULL);
		/* Partials are for where the traces are not. */
		if (!error && paths->count == before)
			error = add_those(paths, argument, prefix, NULL, is_partial);
	} else if (lstat(argument, &st) == 0) {
		return pfw_paths_add_path(paths, argument); /* whoever opens it reports the error */
	} else if (strpbrk(argument, "*?[")) {
		*why = "no file matches";
		error = add_glob(paths, argument);
	}
	if (!error && paths->count == before && stat(argument, &st) != 0)
		error = pfw_paths_add_base(paths, argument);
	if (error)
		*why = strerror(-error);
	return error ?: paths->count > before ? 0 : -ENOENT;
}

/* The first line of a trace; its time is that of the file if the line has none. */
static void read_head(struct pfw_trace *head, const char *path)
{
	struct stat st;

	if (pfw_trace_head(head, path) || !head->run[0]) {
		*head = (struct pfw_trace){ 0 };
		if (stat(path, &st) == 0)
			head->start_ns = pfw_changed_ns(&st);
	}
}

int pfw_paths_add_newest(struct pfw_paths *paths, const char *directory, size_t *left_out)
{
	size_t first = paths->count, newest, kept = first, all;
	bool here = strcmp(directory, ".") == 0;
	struct pfw_trace *head;
	char prefix[4096];
	int error;

	snprintf(prefix, sizeof(prefix), "%s/", directory);
	*left_out = 0;
	error = add_directory(paths, directory, here ? "" : prefix, NULL);
	all = paths->count;
	if (error || all == first)
		return error ?: -ENOENT;
	head = calloc(all, sizeof(*head));
	if (!head)
		return -ENOMEM;
	for (size_t i = first; i < all; i++)
		read_head(&head[i], paths->path[i]);
	newest = first + pfw_trace_newest(head + first, sizeof(*head), all - first);
	for (size_t i = first; i < all; i++) {
		/* One without a run is taken alone. */
		if (i == newest || (head[i].run[0] && !strcmp(head[i].run, head[newest].run)))
			paths->path[kept++] = paths->path[i];
		else
			free(paths->path[i]);
	}
	free(head);
	paths->count = kept;
	*left_out = all - kept;
	return 0;
}
