/* recorder/probe/path_filter.c - builds the filter of paths from the variables, and asks it. */
#include "recorder/probe/path_filter.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "common/base/globs.h"
#include "common/base/os.h"
#include "common/format/spool.h"
#include "common/settings/config.h"
#include "recorder/probe/fd_table.h"

#define PREFIXES_MAX 64
#define FILTERS_MAX 32

struct prefix {
	uint16_t at; /* in filter.kept */
	uint16_t bytes;
	uint8_t reason;
};

/* A filter in force is never changed or freed, since a thread may be reading it when pfw_start()
 * replaces it.  An equal one is found again, so a program that alternates takes no more memory. */
struct filter {
	struct filter *older;
	size_t bytes; /* of this mapping */
	/* From here on, filters of equal variables are equal byte by byte. */
	bool all;    /* DFTRACER_DATA_DIR=all */
	bool listed; /* a list: take only paths with one of the prefixes */
	bool cut;    /* there was no room for all prefixes */
	struct prefix prefix[PREFIXES_MAX];
	unsigned count;
	struct prefix start; /* the directory a Python was started in; bytes 0: no Python */
	char kept[8192];     /* text of the prefixes */
	size_t used;
	char exclude[]; /* globs, NUL-terminated */
};

static const struct filter takes_all = { .all = true };
static const struct filter *_Atomic current = &takes_all;
static struct filter *all_filters;
static unsigned filters;

/* The trace without its suffix: length and hash in one word, so that a rename is one store. */
static _Atomic uint64_t trace;
#define TRACE_BYTES_BITS 16

static _Atomic uint64_t *_Atomic excluded;
static _Atomic uint64_t *_Atomic matched;

static const struct filter *in_force(void)
{
	/* Pairs with the release in pfw_path_filter_init(). */
	return atomic_load_explicit(&current, memory_order_acquire);
}

static const char *const system_dirs[] = { "/proc",  "/sys",   "/dev",	  "/usr", "/lib",
					   "/lib32", "/lib64", "/libx32", "/etc" };

/* Set members one by one: the padding stays 0 (see struct filter). */
static bool keep(struct filter *filter, struct prefix *prefix, const char *text, size_t bytes)
{
	if (filter->used + bytes > sizeof(filter->kept))
		return false;
	memcpy(filter->kept + filter->used, text, bytes);
	prefix->at = (uint16_t)filter->used;
	prefix->bytes = (uint16_t)bytes;
	filter->used += bytes;
	return true;
}

static void add_prefix(struct filter *filter, const char *text, size_t bytes,
		       enum pfw_excluded_reason reason)
{
	while (bytes > 1 && text[bytes - 1] == '/')
		bytes--;
	if (!bytes)
		return;
	if (filter->count == PREFIXES_MAX ||
	    !keep(filter, &filter->prefix[filter->count], text, bytes))
		filter->cut = true;
	else
		filter->prefix[filter->count++].reason = (uint8_t)reason;
}

/* Fold "/a/./b//../c" to "/a/c", by the text alone: if b is a symbolic link the file may be
 * elsewhere.  Return the length; 0: the path is relative, or out has less than `bytes` of room. */
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

/* The kernel's name of a directory, with symbolic links resolved; 0: none, or too long. */
static size_t real_name(char *out, size_t room, const char *path)
{
	int fd = pfw_os_open(path, O_PATH | O_DIRECTORY, 0);
	ssize_t n;

	if (fd < 0)
		return 0;
	n = pfw_fd_read_link(fd, out, room);
	pfw_os_close(fd);
	return n > 0 && (size_t)n < room && *out == '/' ? (size_t)n : 0;
}

/* A directory as given, made absolute, and by its real name: after a chdir() to it, the program
 * opens its files by the real name. */
static void add_directory(struct filter *filter, const char *text, size_t bytes,
			  enum pfw_excluded_reason reason)
{
	char path[2048], name[2048];
	ssize_t n = *text == '/' ? 0 : pfw_os_getcwd(path, sizeof(path));
	size_t used = n > 0 ? (size_t)n : 0;

	if (!bytes)
		return;
	if (n < 0 || used + bytes + 2 > sizeof(path)) {
		add_prefix(filter, text, bytes, reason);
		return;
	}
	if (used)
		path[used++] = '/';
	memcpy(path + used, text, bytes);
	path[used + bytes] = '\0';
	add_prefix(filter, name, fold(name, sizeof(name), path, used + bytes), reason);
	add_prefix(filter, name, real_name(name, sizeof(name), path), reason);
}

/* The directories of a ':' list; empty ones are skipped. */
static void add_list(struct filter *filter, const char *list)
{
	for (const char *at = list; at;) {
		const char *colon = strchr(at, ':');

		add_directory(filter, at, colon ? (size_t)(colon - at) : strlen(at),
			      PFW_EXCLUDED_DATA_DIR);
		at = colon ? colon + 1 : NULL;
	}
}

/* The last slash of DIR/python3.11; NULL: not a Python. */
static const char *python_in(const char *program)
{
	const char *slash = program ? strrchr(program, '/') : NULL;

	return slash && (!strncmp(slash + 1, "python", 6) || !strncmp(slash + 1, "pypy", 4)) ? slash
											     : NULL;
}

/* PREFIX of PREFIX/bin/python3.11. */
static void add_python(struct filter *filter, const char *exe)
{
	const char *slash = python_in(exe);
	size_t bytes = slash ? (size_t)(slash - exe) : 0;

	while (bytes && exe[bytes - 1] != '/')
		bytes--;
	if (bytes > 1)
		add_prefix(filter, exe, bytes - 1, PFW_EXCLUDED_PYTHON);
}

/* The virtual environment of the called Python, activated or not: PREFIX/pyvenv.cfg exists. */
static void add_environment(struct filter *filter, const char *called)
{
	const char *slash = python_in(called);
	char path[1100];
	size_t bytes = slash ? (size_t)(slash - called) : 0;

	if (!bytes || bytes + sizeof("/../pyvenv.cfg") > sizeof(path))
		return;
	memcpy(path, called, bytes);
	memcpy(path + bytes, "/../pyvenv.cfg", sizeof("/../pyvenv.cfg"));
	if (!pfw_syscall6(SYS_faccessat, AT_FDCWD, (long)path, R_OK, 0, 0, 0))
		add_directory(filter, path, bytes + strlen("/.."), PFW_EXCLUDED_PYTHON);
}

static void fill(struct filter *filter, const struct pfw_config *config,
		 const struct pfw_path_filter_python *python)
{
	const char *venv = python->venv;

	if (config->exclude)
		memcpy(filter->exclude, config->exclude, strlen(config->exclude));
	filter->all = config->data_dir && !strcmp(config->data_dir, "all");
	filter->listed = config->data_dir && !filter->all;
	if (filter->listed)
		add_list(filter, config->data_dir);
	if (config->data_dir)
		return;
	for (unsigned i = 0; i < PFW_ARRAY_LEN(system_dirs); i++)
		add_prefix(filter, system_dirs[i], strlen(system_dirs[i]), PFW_EXCLUDED_SYSTEM);
	add_python(filter, python->exe);
	add_environment(filter, python->called);
	if (python_in(python->exe) && python->cwd)
		keep(filter, &filter->start, python->cwd, strlen(python->cwd));
	if (venv && *venv == '/')
		add_prefix(filter, venv, strlen(venv), PFW_EXCLUDED_PYTHON);
}

static struct filter *find_same(const struct filter *filter)
{
	size_t from = offsetof(struct filter, all);

	for (struct filter *old = all_filters; old; old = old->older)
		if (old->bytes == filter->bytes &&
		    !memcmp((const char *)old + from, (const char *)filter + from,
			    old->bytes - from))
			return old;
	return NULL;
}

int pfw_path_filter_init(const struct pfw_config *config,
			 const struct pfw_path_filter_python *python)
{
	size_t bytes = sizeof(struct filter) + (config->exclude ? strlen(config->exclude) : 0) + 1;
	struct filter *filter = pfw_os_map(bytes);
	struct filter *same;

	if (!filter)
		return -ENOMEM;
	filter->bytes = bytes;
	fill(filter, config, python);
	same = find_same(filter);
	if (same || filters == FILTERS_MAX) {
		pfw_os_munmap(filter, bytes);
		filter = same;
	} else {
		filter->older = all_filters;
		all_filters = filter;
		filters++;
	}
	if (!filter)
		return -ENOSPC;
	atomic_store_explicit(&current, filter, memory_order_release);
	return filter->cut ? -E2BIG : 0;
}

static bool count(enum pfw_excluded_reason reason)
{
	_Atomic uint64_t *counters = atomic_load_explicit(&excluded, memory_order_acquire);

	if (counters)
		atomic_fetch_add_explicit(&counters[reason], 1, memory_order_relaxed);
	return false;
}

/* Whether PFW_EXCLUDE leaves the path out.  All of its globs are looked at, so that the end of the
 * run can name those that never matched; a bit is mostly set already, and the page other processes'
 * too. */
static bool is_left_out(const struct filter *filter, const char *path, size_t bytes)
{
	_Atomic uint64_t *marks = atomic_load_explicit(&matched, memory_order_acquire);
	uint64_t globs = filter->exclude[0] ? pfw_glob_path(filter->exclude, path, bytes) : 0;

	if (marks && (globs & ~atomic_load_explicit(marks, memory_order_relaxed)))
		atomic_fetch_or_explicit(marks, globs, memory_order_relaxed);
	return globs;
}

/* The prefix /usr matches /usr and /usr/x, but not /usrx. */
static const struct prefix *find_prefix(const struct filter *filter, const char *path, size_t bytes)
{
	for (unsigned i = 0; i < filter->count; i++) {
		const struct prefix *prefix = &filter->prefix[i];

		if (bytes >= prefix->bytes &&
		    !memcmp(path, filter->kept + prefix->at, prefix->bytes) &&
		    (bytes == prefix->bytes || path[prefix->bytes] == '/' || prefix->bytes == 1))
			return prefix;
	}
	return NULL;
}

static bool contains(const char *path, size_t bytes, const char *part)
{
	return memmem(path, bytes, part, strlen(part)) != NULL;
}

static bool ends(const char *path, size_t bytes, const char *part)
{
	size_t length = strlen(part);

	return bytes >= length && !memcmp(path + bytes - length, part, length);
}

/* ".so" at the end or before a dot: libc.so.6, _core.cpython-311-x86_64-linux-gnu.so. */
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

static uint64_t trace_word(const char *path, size_t bytes)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ (unsigned char)path[i]) * 0x100000001b3u;
	return hash << TRACE_BYTES_BITS | bytes;
}

/* The length of a trace's name without its suffix; 0: no such suffix. */
static size_t trace_stem(const char *path, size_t bytes)
{
	if (bytes > 3 && !memcmp(path + bytes - 3, ".gz", 3))
		bytes -= 3;
	return bytes > 4 && !memcmp(path + bytes - 4, ".pfw", 4) ? bytes - 4 : 0;
}

/* Our trace, a child's, or the numbered name that ours got because its own was taken. */
static bool is_trace(const char *path, size_t bytes)
{
	uint64_t word = atomic_load_explicit(&trace, memory_order_relaxed);
	size_t ours = word & ((1u << TRACE_BYTES_BITS) - 1);

	return ours && trace_stem(path, bytes) >= ours && trace_word(path, ours) == word;
}

static bool filter_folded(const struct filter *filter, const char *path, size_t bytes)
{
	const struct prefix *prefix;

	if (is_trace(path, bytes))
		return count(PFW_EXCLUDED_TRACE);
	if (is_left_out(filter, path, bytes))
		return count(PFW_EXCLUDED_EXCLUDE);
	if (filter->all)
		return true;
	prefix = find_prefix(filter, path, bytes);
	if (filter->listed)
		return prefix ? true : count(PFW_EXCLUDED_DATA_DIR);
	if (prefix)
		return count((enum pfw_excluded_reason)prefix->reason);
	if (contains(path, bytes, "/site-packages/") || contains(path, bytes, "/__pycache__") ||
	    ends(path, bytes, "/site-packages"))
		return count(PFW_EXCLUDED_PYTHON);
	return is_library(path, bytes) ? count(PFW_EXCLUDED_LIBRARY) : true;
}

/* Whether the path has "//", "/./" or "/../"; "/.name" is a harmless false positive. */
static bool is_unfolded(const char *path, size_t bytes)
{
	const char *end = path + bytes - 1;

	for (const char *at = path; at < end && (at = memchr(at, '/', (size_t)(end - at))); at++)
		if (at[1] == '/' || at[1] == '.')
			return true;
	return false;
}

/* Out of line, so that the buffer takes stack only if there is something to fold. */
static __attribute__((noinline)) bool filter_unfolded(const struct filter *filter, const char *path,
						      size_t bytes)
{
	char folded[512];
	size_t folded_bytes = fold(folded, sizeof(folded), path, bytes);

	return folded_bytes ? filter_folded(filter, folded, folded_bytes)
			    : filter_folded(filter, path, bytes);
}

bool pfw_path_filter_path(const char *path, size_t bytes)
{
	const struct filter *filter = in_force();

	if (bytes && is_unfolded(path, bytes))
		return filter_unfolded(filter, path, bytes);
	return filter_folded(filter, path, bytes);
}

bool pfw_path_filter_looks(const char *path, size_t bytes)
{
	const struct filter *filter = in_force();

	if (!filter->start.bytes || bytes != filter->start.bytes ||
	    memcmp(path, filter->kept + filter->start.at, bytes))
		return false;
	count(PFW_EXCLUDED_PYTHON);
	return true;
}

bool pfw_path_filter_nameless(void)
{
	return !in_force()->listed;
}

void pfw_path_filter_count_into(_Atomic uint64_t *counters)
{
	atomic_store_explicit(&excluded, counters, memory_order_release);
}

void pfw_path_filter_mark_into(_Atomic uint64_t *marks)
{
	atomic_store_explicit(&matched, marks, memory_order_release);
}

void pfw_path_filter_set_trace(const char *path)
{
	size_t bytes = trace_stem(path, strlen(path));

	atomic_store_explicit(&trace, bytes >> TRACE_BYTES_BITS ? 0 : trace_word(path, bytes),
			      memory_order_relaxed);
}
