/* filter.c - which paths are traced: DFTRACER_DATA_DIR, or the default exclusions. */
#include "filter.h"

#include <stdatomic.h>
#include <string.h>

#include "../config.h"
#include "../os.h"
#include "../spool.h"
#include "../text.h"

#define PREFIXES_MAX 64
#define OWN_MAX 4096

struct prefix {
	const char *text;
	uint16_t bytes;
	uint8_t reason;
};

static struct {
	bool all;    /* DFTRACER_DATA_DIR=all */
	bool listed; /* a list: only what begins with one of the prefixes */
	bool cut;    /* there was no room for all prefixes */
	struct prefix prefix[PREFIXES_MAX];
	unsigned count;
	char kept[8192]; /* what the prefixes point into */
	size_t used;
	char trace[OWN_MAX]; /* the trace, without its suffix */
	size_t trace_bytes;
	_Atomic uint64_t *counters;
} filter;

static const char *const system_dirs[] = { "/proc",  "/sys",   "/dev",	  "/usr", "/lib",
					   "/lib32", "/lib64", "/libx32", "/etc" };

static void add_prefix(const char *text, size_t bytes, enum pfw_excluded_reason reason)
{
	while (bytes > 1 && text[bytes - 1] == '/')
		bytes--;
	if (!bytes)
		return;
	if (filter.count == PREFIXES_MAX || filter.used + bytes > sizeof(filter.kept)) {
		filter.cut = true;
		return;
	}
	memcpy(filter.kept + filter.used, text, bytes);
	filter.prefix[filter.count++] =
		(struct prefix){ filter.kept + filter.used, (uint16_t)bytes, (uint8_t)reason };
	filter.used += bytes;
}

/*
 * Fold "/a/./b//../c" to "/a/c", by the text alone: where b is a symbolic link the file may lie
 * elsewhere.  Return the length, or 0 where the path is relative or out has not `bytes` of room.
 */
static size_t fold(char *out, size_t room, const char *path, size_t bytes)
{
	const char *at = path, *end = path + bytes;
	size_t used = 0;

	if (bytes > room || !bytes || *path != '/')
		return 0;
	while (at < end) {
		const char *slash = memchr(at, '/', (size_t)(end - at));
		size_t part = (size_t)((slash ? slash : end) - at);

		if (part == 2 && at[0] == '.' && at[1] == '.') {
			while (used && out[--used] != '/')
				;
		} else if (part && !(part == 1 && at[0] == '.')) {
			out[used++] = '/';
			memcpy(out + used, at, part);
			used += part;
		}
		at += part + 1;
	}
	if (!used)
		out[used++] = '/';
	return used;
}

/* The kernel's name of a directory, symbolic links followed; 0 where there is none, or a long one. */
static size_t real_name(char *out, size_t room, const char *path)
{
	int fd = pfw_os_open(path, O_PATH | O_DIRECTORY, 0);
	struct pfw_text text;
	char link[32];
	ssize_t n;

	if (fd < 0)
		return 0;
	pfw_text_init(&text, link, sizeof(link));
	pfw_text_add(&text, "/proc/self/fd/");
	pfw_text_add_u64(&text, (unsigned)fd, 1);
	n = pfw_os_readlink(link, out, room);
	pfw_os_close(fd);
	return n > 0 && (size_t)n < room && *out == '/' ? (size_t)n : 0;
}

/*
 * A directory as it was given, absolute, and by its real name: a program that has gone there with
 * chdir() opens its files by that one.
 */
static void add_directory(const char *text, size_t bytes)
{
	char path[2048], name[2048];
	ssize_t n = *text == '/' ? 0 : pfw_os_getcwd(path, sizeof(path));
	size_t used = n > 0 ? (size_t)n : 0;

	if (!bytes)
		return;
	if (n < 0 || used + bytes + 2 > sizeof(path)) {
		add_prefix(text, bytes, PFW_EXCLUDED_DATA_DIR);
		return;
	}
	if (used)
		path[used++] = '/';
	memcpy(path + used, text, bytes);
	path[used + bytes] = '\0';
	add_prefix(name, fold(name, sizeof(name), path, used + bytes), PFW_EXCLUDED_DATA_DIR);
	add_prefix(name, real_name(name, sizeof(name), path), PFW_EXCLUDED_DATA_DIR);
}

/* The directories of a ':' list; an empty one is none. */
static void add_list(const char *list)
{
	for (const char *at = list; at;) {
		const char *colon = strchr(at, ':');

		add_directory(at, colon ? (size_t)(colon - at) : strlen(at));
		at = colon ? colon + 1 : NULL;
	}
}

/* PREFIX of PREFIX/bin/python3.11, where exe is a Python. */
static void add_python(const char *exe)
{
	const char *slash = exe ? strrchr(exe, '/') : NULL;
	size_t bytes;

	if (!slash || (strncmp(slash + 1, "python", 6) && strncmp(slash + 1, "pypy", 4)))
		return;
	bytes = (size_t)(slash - exe);
	while (bytes && exe[bytes - 1] != '/')
		bytes--;
	if (bytes > 1)
		add_prefix(exe, bytes - 1, PFW_EXCLUDED_PYTHON);
}

bool pfw_filter_init(const struct pfw_config *config, const char *exe, const char *venv)
{
	_Atomic uint64_t *counters = filter.counters;

	memset(&filter, 0, sizeof(filter));
	filter.counters = counters;
	if (config->data_dir && !strcmp(config->data_dir, "all")) {
		filter.all = true;
		return true;
	}
	if (config->data_dir) {
		filter.listed = true;
		add_list(config->data_dir);
		return !filter.cut;
	}
	for (unsigned i = 0; i < PFW_ARRAY_LEN(system_dirs); i++)
		add_prefix(system_dirs[i], strlen(system_dirs[i]), PFW_EXCLUDED_SYSTEM);
	add_python(exe);
	if (venv && *venv == '/')
		add_prefix(venv, strlen(venv), PFW_EXCLUDED_PYTHON);
	return !filter.cut;
}

static bool count(enum pfw_excluded_reason reason)
{
	if (filter.counters)
		atomic_fetch_add_explicit(&filter.counters[reason], 1, memory_order_relaxed);
	return false;
}

/* /usr is /usr and /usr/x, but not /usrx. */
static const struct prefix *find_prefix(const char *path, size_t bytes)
{
	for (unsigned i = 0; i < filter.count; i++) {
		const struct prefix *prefix = &filter.prefix[i];

		if (bytes >= prefix->bytes && !memcmp(path, prefix->text, prefix->bytes) &&
		    (bytes == prefix->bytes || path[prefix->bytes] == '/' || prefix->bytes == 1))
			return prefix;
	}
	return NULL;
}

static bool contains(const char *path, size_t bytes, const char *part)
{
	return memmem(path, bytes, part, strlen(part)) != NULL;
}

/* libc.so.6, _core.cpython-311-x86_64-linux-gnu.so: ".so" at the end or before a dot. */
static bool is_library(const char *path, size_t bytes)
{
	const char *slash = memrchr(path, '/', bytes);
	const char *name = slash ? slash + 1 : path, *end = path + bytes;

	for (const char *at = name; at && at + 3 <= end; at++) {
		at = memmem(at, (size_t)(end - at), ".so", 3);
		if (!at)
			return false;
		if (at + 3 == end || at[3] == '.')
			return true;
	}
	return false;
}

static bool is_trace(const char *path, size_t bytes)
{
	return filter.trace_bytes && bytes >= filter.trace_bytes &&
	       !memcmp(path, filter.trace, filter.trace_bytes) &&
	       contains(path + filter.trace_bytes, bytes - filter.trace_bytes, ".pfw");
}

static bool filter_folded(const char *path, size_t bytes)
{
	const struct prefix *prefix;

	if (is_trace(path, bytes))
		return count(PFW_EXCLUDED_TRACE);
	if (filter.all)
		return true;
	prefix = find_prefix(path, bytes);
	if (filter.listed)
		return prefix ? true : count(PFW_EXCLUDED_DATA_DIR);
	if (prefix)
		return count((enum pfw_excluded_reason)prefix->reason);
	if (contains(path, bytes, "/site-packages/") || contains(path, bytes, "/__pycache__"))
		return count(PFW_EXCLUDED_PYTHON);
	return is_library(path, bytes) ? count(PFW_EXCLUDED_LIBRARY) : true;
}

/* Whether there is anything to fold: "//", "/./" or "/../"; "/.name" is looked at for nothing. */
static bool is_unfolded(const char *path, size_t bytes)
{
	const char *end = path + bytes - 1;

	for (const char *at = path; at < end && (at = memchr(at, '/', (size_t)(end - at))); at++)
		if (at[1] == '/' || at[1] == '.')
			return true;
	return false;
}

/* Out of line, so that the folded name is on the stack only where there is something to fold. */
static __attribute__((noinline)) bool filter_unfolded(const char *path, size_t bytes)
{
	char folded[512];
	size_t folded_bytes = fold(folded, sizeof(folded), path, bytes);

	return folded_bytes ? filter_folded(folded, folded_bytes) : filter_folded(path, bytes);
}

bool pfw_filter_path(const char *path, size_t bytes)
{
	if (bytes && is_unfolded(path, bytes))
		return filter_unfolded(path, bytes);
	return filter_folded(path, bytes);
}

bool pfw_filter_nameless(void)
{
	return !filter.listed;
}

void pfw_filter_count_into(_Atomic uint64_t *counters)
{
	filter.counters = counters;
}

void pfw_filter_set_trace(const char *path)
{
	size_t bytes = strlen(path);

	if (bytes > 3 && !memcmp(path + bytes - 3, ".gz", 3))
		bytes -= 3;
	if (bytes > 4 && !memcmp(path + bytes - 4, ".pfw", 4))
		bytes -= 4;
	if (bytes >= sizeof(filter.trace))
		bytes = 0;
	memcpy(filter.trace, path, bytes);
	filter.trace_bytes = bytes;
}
