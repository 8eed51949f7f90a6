/* filter.c - which paths are traced: DFTRACER_DATA_DIR, or the default exclusions. */
#include "filter.h"

#include <stdatomic.h>
#include <string.h>

#include "../config.h"
#include "../os.h"
#include "../spool.h"

#define PREFIXES_MAX 64
#define OWN_MAX 4096

struct prefix {
	const char *text;
	uint16_t bytes;
	uint8_t reason;
};

static struct {
	bool all;	      /* DFTRACER_DATA_DIR=all */
	bool listed;	      /* a list: only what begins with one of the prefixes */
	struct prefix prefix[PREFIXES_MAX];
	unsigned count;
	char kept[8192];      /* what the prefixes point into */
	size_t used;
	char trace[OWN_MAX];  /* the trace, without its suffix */
	size_t trace_bytes;
	_Atomic uint64_t *counters;
} filter;

static const char *const system_dirs[] = { "/proc", "/sys",   "/dev",	"/usr",	   "/lib",
					   "/lib32", "/lib64", "/libx32", "/etc" };

static void add_prefix(const char *text, size_t bytes, enum pfw_excluded_reason reason)
{
	while (bytes > 1 && text[bytes - 1] == '/')
		bytes--;
	if (!bytes || filter.count == PREFIXES_MAX || filter.used + bytes > sizeof(filter.kept))
		return;
	memcpy(filter.kept + filter.used, text, bytes);
	filter.prefix[filter.count++] = (struct prefix){ filter.kept + filter.used,
							 (uint16_t)bytes, (uint8_t)reason };
	filter.used += bytes;
}

/* The directories of a ':' list; an empty one is none. */
static void add_list(const char *list)
{
	for (const char *at = list; at;) {
		const char *colon = strchr(at, ':');

		add_prefix(at, colon ? (size_t)(colon - at) : strlen(at), PFW_EXCLUDED_DATA_DIR);
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

void pfw_filter_init(const struct pfw_config *config, const char *exe, const char *venv)
{
	_Atomic uint64_t *counters = filter.counters;

	memset(&filter, 0, sizeof(filter));
	filter.counters = counters;
	if (config->data_dir && !strcmp(config->data_dir, "all")) {
		filter.all = true;
		return;
	}
	if (config->data_dir) {
		filter.listed = true;
		add_list(config->data_dir);
		return;
	}
	for (unsigned i = 0; i < PFW_ARRAY_LEN(system_dirs); i++)
		add_prefix(system_dirs[i], strlen(system_dirs[i]), PFW_EXCLUDED_SYSTEM);
	add_python(exe);
	if (venv && *venv == '/')
		add_prefix(venv, strlen(venv), PFW_EXCLUDED_PYTHON);
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

bool pfw_filter_path(const char *path, size_t bytes)
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
