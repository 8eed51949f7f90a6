/* recorder/wrap/directories.c - wrappers of calls on directories and trees that need code. */
#define PFW_OS_NO_POISON
#include <string.h>

#include "recorder/wrap/calls.h"
#include "recorder/wrap/posix.h"

/* After a successful call, relative paths count from the new directory. */
int pfw_wrap_chdir(const char *path)
{
	struct pfw_path_probe probe;
	bool traced = pfw_probe_path(&probe, PFW_CALL_chdir, AT_FDCWD, path);
	int ret = pfw_real.chdir(path);

	if (traced)
		pfw_probe_path_end(&probe, ret == -1, AT_FDCWD, ret == 0 ? NULL : path,
				   PFW_VALUES((uint64_t)ret));
	return ret;
}

/* The call turns the template into the name. */
char *pfw_wrap_mkdtemp(char *path)
{
	struct pfw_path_probe probe;
	bool traced = pfw_probe_path(&probe, PFW_CALL_mkdtemp, AT_FDCWD, path);
	char *ret = pfw_real.mkdtemp(path);

	if (traced)
		pfw_probe_path_end(&probe, !ret, AT_FDCWD, path,
				   PFW_VALUES(ret ? 0 : (uint64_t)-1));
	return ret;
}

/* The name is one in /dev/shm, with or without a leading slash. */
int pfw_wrap_shm_unlink(const char *name)
{
	struct pfw_path_probe probe;
	bool traced = pfw_probe_path(&probe, PFW_CALL_shm_unlink, AT_FDCWD, name);
	int ret = pfw_real.shm_unlink(name);
	const uint64_t value[] = { (uint64_t)ret };
	struct pfw_tail path = { .directory = "/dev/shm", .directory_bytes = 8 };
	struct pfw_ending ending = { .value = value, .value_count = 1 };

	if (!traced)
		return ret;
	ending.t1 = pfw_clock_ticks();
	ending.error = ret == -1 ? errno : 0;
	if (ret == 0 || errno == ENOENT || errno == EACCES) {
		path.text = name + strspn(name, "/");
		path.text_bytes = (uint32_t)strlen(path.text);
		ending.name = strchr(path.text, '/') ? NULL : &path; /* libc refuses it */
	}
	pfw_probe_end_full(&probe.probe, &ending);
	return ret;
}

/* ---- absolute names ---- */

static void whole_end(struct pfw_path_probe *probe, const char *path, const char *whole)
{
	const uint64_t value[] = { whole ? 0 : (uint64_t)-1, 0 };
	struct pfw_tail name, target = { .text = whole ? whole : "" };
	struct pfw_ending ending = {
		.value = value, .value_count = 2, .text = &target, .text_count = 1
	};

	ending.t1 = pfw_clock_ticks();
	ending.error = probe->error = whole ? 0 : errno;
	target.text_bytes = (uint32_t)strlen(target.text);
	if (path && ending.error != EFAULT) {
		pfw_probe_path_text(probe, AT_FDCWD, path, &name);
		if (name.text_bytes || name.directory_bytes)
			ending.name = &name;
	}
	pfw_probe_end_full(&probe->probe, &ending);
}

#define WHOLE(name, params, args)                                                      \
	char *pfw_wrap_##name params                                                   \
	{                                                                              \
		struct pfw_path_probe probe;                                           \
		bool traced = pfw_probe_path(&probe, PFW_CALL_##name, AT_FDCWD, path); \
		char *ret = pfw_real.name args;                                        \
                                                                                       \
		if (traced)                                                            \
			whole_end(&probe, path, ret);                                  \
		return ret;                                                            \
	}

WHOLE(realpath, (const char *path, char *buf), (path, buf))
WHOLE(__realpath_chk, (const char *path, char *buf, size_t room), (path, buf, room))
WHOLE(canonicalize_file_name, (const char *path), (path))
#undef WHOLE

/* ---- one directory ---- */

#define READDIR_R(name, type)                                    \
	int pfw_wrap_##name(DIR *dir, type *room, type **entry)  \
	{                                                        \
		struct pfw_probe probe;                          \
		int fd = dirfd(dir), before, ret;                \
                                                                 \
		if (!pfw_probe_fd(&probe, PFW_CALL_##name, fd))  \
			return pfw_real.name(dir, room, entry);  \
		ret = pfw_real.name(dir, room, entry);           \
		before = errno;                                  \
		errno = ret;                                     \
		pfw_probe_end(&probe, ret != 0,                  \
			      PFW_VALUES(ret	  ? (uint64_t)-1 \
					 : *entry ? 1            \
						  : 0,           \
					 (uint64_t)fd));         \
		errno = before;                                  \
		return ret;                                      \
	}

READDIR_R(readdir_r, struct dirent)
READDIR_R(readdir64_r, struct dirent64)
#undef READDIR_R

#define POSITION(name, params, args, ...)                                               \
	void pfw_wrap_##name params                                                     \
	{                                                                               \
		struct pfw_probe probe;                                                 \
		int fd = dirfd(dir);                                                    \
		bool traced = pfw_probe_fd(&probe, PFW_CALL_##name, fd);                \
                                                                                        \
		pfw_real.name args;                                                     \
		if (traced)                                                             \
			pfw_end_void(&probe, PFW_VALUES(0, (uint64_t)fd, __VA_ARGS__)); \
	}

POSITION(rewinddir, (DIR * dir), (dir))
POSITION(seekdir, (DIR * dir, long offset), (dir, offset), (uint64_t)offset)
#undef POSITION

/* ---- fts ---- */

/* A value that is no errno, to see whether a call has set errno at all. */
#define UNTOUCHED (-1)

/* End a call that has set errno to 0, to an error, or not at all (then restore `before`).  The name
 * is looked up only if `named`. */
static void fts_end(struct pfw_path_probe *probe, bool there, int before, const char *path,
		    bool named)
{
	int error = errno == UNTOUCHED ? 0 : errno;
	const uint64_t value[] = { there ? 1 : error ? (uint64_t)-1 : 0 };
	struct pfw_ending ending = { .value = value, .value_count = 1 };
	struct pfw_tail name;

	ending.t1 = pfw_clock_ticks();
	ending.error = there ? 0 : error;
	if (errno == UNTOUCHED)
		errno = before;
	if (path) {
		probe->error = 0;
		pfw_probe_path_text(probe, AT_FDCWD, path, &name);
		if (!named && !pfw_probe_text_traced(&name))
			return;
		ending.name = named ? &name : NULL;
	}
	pfw_probe_end_full(&probe->probe, &ending);
}

static void fts_open_end(struct pfw_path_probe *probe, bool opened, char *const *roots, int flags)
{
	const uint64_t value[] = { opened ? 0 : (uint64_t)-1, (uint64_t)flags };
	struct pfw_ending ending = { .value = value, .value_count = 2 };
	struct pfw_tail name;

	ending.t1 = pfw_clock_ticks();
	ending.error = probe->error = opened ? 0 : errno;
	if (ending.error != EINVAL && roots[0]) /* EINVAL: libc has not read the roots */
		ending.name = pfw_path_text(probe, AT_FDCWD, roots[0], &name);
	pfw_probe_end_full(&probe->probe, &ending);
}

/* fts_accpath is the path from the working directory, which fts may change; the path in the tree
 * decides whether a file without a name of its own is traced. */
#define FTS_CALLS(suffix)                                                                          \
	FTS##suffix *pfw_wrap_fts##suffix##_open(char *const *roots, int flags,                    \
						 int (*compare)(const FTSENT##suffix **,           \
								const FTSENT##suffix **))          \
	{                                                                                          \
		struct pfw_path_probe probe;                                                       \
		bool traced = pfw_probe_path(&probe, PFW_CALL_fts##suffix##_open, AT_FDCWD, NULL); \
		FTS##suffix *ret = pfw_real.fts##suffix##_open(roots, flags, compare);             \
                                                                                                   \
		if (traced)                                                                        \
			fts_open_end(&probe, ret != NULL, roots, flags);                           \
		return ret;                                                                        \
	}                                                                                          \
	FTSENT##suffix *pfw_wrap_fts##suffix##_read(FTS##suffix *fts)                              \
	{                                                                                          \
		struct pfw_path_probe probe;                                                       \
		int before = errno;                                                                \
		FTSENT##suffix *ret;                                                               \
                                                                                                   \
		if (!pfw_probe_path(&probe, PFW_CALL_fts##suffix##_read, AT_FDCWD, NULL))          \
			return pfw_real.fts##suffix##_read(fts);                                   \
		errno = UNTOUCHED;                                                                 \
		ret = pfw_real.fts##suffix##_read(fts);                                            \
		fts_end(&probe, ret != NULL, before, ret ? ret->fts_accpath : fts->fts_path,       \
			ret != NULL);                                                              \
		return ret;                                                                        \
	}                                                                                          \
	FTSENT##suffix *pfw_wrap_fts##suffix##_children(FTS##suffix *fts, int flags)               \
	{                                                                                          \
		struct pfw_path_probe probe;                                                       \
		int before = errno;                                                                \
		FTSENT##suffix *ret;                                                               \
                                                                                                   \
		if (!pfw_probe_path(&probe, PFW_CALL_fts##suffix##_children, AT_FDCWD, NULL))      \
			return pfw_real.fts##suffix##_children(fts, flags);                        \
		errno = UNTOUCHED;                                                                 \
		ret = pfw_real.fts##suffix##_children(fts, flags);                                 \
		fts_end(&probe, ret != NULL, before, fts->fts_path, false);                        \
		return ret;                                                                        \
	}                                                                                          \
	int pfw_wrap_fts##suffix##_close(FTS##suffix *fts)                                         \
	{                                                                                          \
		struct pfw_path_probe probe;                                                       \
		bool traced =                                                                      \
			pfw_probe_path(&probe, PFW_CALL_fts##suffix##_close, AT_FDCWD, NULL);      \
		int ret = pfw_real.fts##suffix##_close(fts);                                       \
                                                                                                   \
		if (traced)                                                                        \
			pfw_probe_path_end(&probe, ret == -1, -1, NULL,                            \
					   PFW_VALUES((uint64_t)ret));                             \
		return ret;                                                                        \
	}

FTS_CALLS()
FTS_CALLS(64)
#undef FTS_CALLS
