/* tools/ui/preload.c - finds the preload object that belongs to this binary; see cli.h. */
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ui/cli.h"

#define PRELOAD "lib/libpfw_preload.so"

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

/* Look in PREFIX/lib. */
static bool find_in_lib(const char *prefix, char *path, size_t size)
{
	return (size_t)snprintf(path, size, "%s/" PRELOAD, prefix) < size &&
	       access(path, R_OK) == 0;
}

/* Look below the parent of the binary's directory: in lib/, or in a Python package if the binary is
 * bin/pfw of a Python environment. */
static bool find_below(const char *prefix, char *path, size_t size)
{
	return find_in_lib(prefix, path, size) ||
	       find_newest(prefix, "lib/python3*/*-packages/pfw/" PRELOAD, path, size) ||
	       find_newest(prefix, "lib64/python3*/*-packages/pfw/" PRELOAD, path, size) ||
	       find_newest(prefix, "pfw/" PRELOAD, path, size);
}

bool cli_find_preload(char *path, size_t size)
{
	char self[PATH_MAX];
	ssize_t bytes = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (bytes > 0) {
		self[bytes] = '\0';
		*strrchr(self, '/') = '\0'; /* the directory of the binary */
		if (strchr(self, '/')) {
			*strrchr(self, '/') = '\0';
			if (find_below(self, path, size))
				return true;
		}
	}
	return find_in_lib("/usr", path, size) || find_in_lib("/usr/local", path, size);
}
