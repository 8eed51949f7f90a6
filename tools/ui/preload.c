/* tools/ui/preload.c - finds the preload object that belongs to this binary; see cli.h. */
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ui/cli.h"

/* Where this installation has its libraries; the build tree and a wheel have them in lib/. */
#ifndef PFW_LIB
#define PFW_LIB "lib"
#endif

#define PRELOAD "libpfw_preload.so"
#define PACKAGE "python3*/*-packages/pfw/"

/* Find the newest file that matches a pattern below `prefix`: several Pythons may share it. */
static bool find_newest(const char *prefix, const char *pattern, char *path, size_t size)
{
	char whole[2 * PATH_MAX + 64];
	struct stat st;
	time_t newest = 0;
	size_t used = 0;
	glob_t found;

	for (const char *at = prefix; *at && used < 2 * PATH_MAX; at++) {
		if (strchr("*?[\\", *at))
			whole[used++] = '\\';
		whole[used++] = *at;
	}
	snprintf(whole + used, sizeof(whole) - used, "/%s", pattern);
	if (glob(whole, 0, NULL, &found) != 0)
		return false;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		if (stat(found.gl_pathv[i], &st) == 0 && st.st_mtime >= newest &&
		    (size_t)snprintf(path, size, "%s", found.gl_pathv[i]) < size)
			newest = st.st_mtime;
	}
	globfree(&found);
	return newest != 0;
}

static bool find_in(const char *prefix, const char *lib, char *path, size_t size)
{
	return (size_t)snprintf(path, size, "%s/%s/" PRELOAD, prefix, lib) < size &&
	       access(path, R_OK) == 0;
}

static bool find_in_lib(const char *prefix, char *path, size_t size)
{
	return find_in(prefix, PFW_LIB, path, size) || find_in(prefix, "lib", path, size);
}

bool cli_self(char path[PATH_MAX])
{
	ssize_t bytes = readlink("/proc/self/exe", path, PATH_MAX - 1);

	if (bytes > 0)
		path[bytes] = '\0';
	return bytes > 0;
}

/* The parent of the binary's directory. */
static bool find_prefix(char self[PATH_MAX])
{
	char *slash;

	if (!cli_self(self))
		return false;
	*strrchr(self, '/') = '\0'; /* the directory of the binary */
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	return slash;
}

bool cli_find_preload(char *path, size_t size)
{
	char prefix[PATH_MAX];

	/* The last three: bin/pfw of a Python environment. */
	if (find_prefix(prefix) &&
	    (find_in_lib(prefix, path, size) ||
	     find_newest(prefix, "lib/" PACKAGE "lib/" PRELOAD, path, size) ||
	     find_newest(prefix, "lib64/" PACKAGE "lib/" PRELOAD, path, size) ||
	     find_newest(prefix, "pfw/lib/" PRELOAD, path, size)))
		return true;
	return find_in_lib("/usr", path, size) || find_in_lib("/usr/local", path, size);
}

bool cli_find_libraries(char libraries[PATH_MAX], char prefix[PATH_MAX])
{
	size_t bytes, tail = strlen("/" PFW_LIB);

	if (!cli_find_preload(libraries, PATH_MAX))
		return false;
	*strrchr(libraries, '/') = '\0';
	strcpy(prefix, libraries);
	bytes = strlen(prefix);
	if (bytes > tail && strcmp(prefix + bytes - tail, "/" PFW_LIB) == 0)
		prefix[bytes - tail] = '\0';
	else
		*strrchr(prefix, '/') = '\0';
	return true;
}

bool cli_find_site(char *path, size_t size)
{
	char libraries[PATH_MAX], prefix[PATH_MAX];

	if (!cli_find_libraries(libraries, prefix))
		return false;
	return ((size_t)snprintf(path, size, "%s/_site", prefix) < size &&
		access(path, R_OK) == 0) ||
	       find_newest(prefix, "lib/" PACKAGE "_site", path, size) ||
	       find_newest(prefix, "lib64/" PACKAGE "_site", path, size);
}
