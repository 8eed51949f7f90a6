/* recorder/wrap/posix.c - wrappers of POSIX calls on two files, on directories, and without errno.
 *
 * Twins (readdir and readdir64, ...) differ in a type or a symbol only; a local macro makes both.
 */
#define PFW_OS_NO_POISON
#include "recorder/wrap/posix.h"

#include <string.h>

#include "recorder/probe/fd_table.h"
#include "recorder/wrap/calls.h"

void pfw_end_void(const struct pfw_probe *probe, const uint64_t *value, unsigned count)
{
	const struct pfw_ending ending = { .value = value,
					   .value_count = count,
					   .flags = PFW_RECORD_NO_RET };

	pfw_probe_end_full(probe, &ending);
}

/* ---- calls that return an error number ---- */

#define NUMBER(name, params, args, ...)                                                       \
	int pfw_wrap_##name params                                                            \
	{                                                                                     \
		struct pfw_probe probe;                                                       \
		bool traced = pfw_probe_fd(&probe, PFW_CALL_##name, fd);                      \
		int ret = pfw_real.name args;                                                 \
                                                                                              \
		if (traced)                                                                   \
			pfw_end_number(&probe,                                                \
				       PFW_VALUES((uint64_t)ret, (uint64_t)fd, __VA_ARGS__)); \
		return ret;                                                                   \
	}

NUMBER(posix_fallocate, (int fd, off_t offset, off_t length), (fd, offset, length),
       (uint64_t)offset, (uint64_t)length)
NUMBER(posix_fallocate64, (int fd, off64_t offset, off64_t length), (fd, offset, length),
       (uint64_t)offset, (uint64_t)length)
NUMBER(posix_fadvise, (int fd, off_t offset, off_t length, int advice),
       (fd, offset, length, advice), (uint64_t)offset, (uint64_t)length, (uint64_t)advice)
NUMBER(posix_fadvise64, (int fd, off64_t offset, off64_t length, int advice),
       (fd, offset, length, advice), (uint64_t)offset, (uint64_t)length, (uint64_t)advice)
#undef NUMBER

/* sync() concerns all files: no object. */
void pfw_wrap_sync(void)
{
	struct pfw_probe probe;
	bool traced = pfw_probe_bare(&probe, PFW_CALL_sync);

	pfw_real.sync();
	if (traced)
		pfw_end_void(&probe, PFW_VALUES(0));
}

/* ---- two files ---- */

struct two_paths {
	int dirfd;
	const char *path; /* fname */
	int target_dirfd;
	const char *target;
	bool raw; /* the target is text, not a name: symlink() */
};

/* End a call on two paths: record it if the filter accepts either. */
static __attribute__((noinline)) void two_end(struct pfw_path_probe *probe, int ret,
					      const struct two_paths *paths, const int *flags)
{
	const uint64_t value[] = { (uint64_t)ret, 0, flags ? (uint64_t)*flags : 0 };
	struct pfw_tail name, target = { .text = "" };
	struct pfw_ending ending = {
		.value = value,
		.value_count = flags ? 3 : 2,
		.text = &target,
		.text_count = 1,
		.error = ret == -1 ? errno : 0,
		.t1 = pfw_clock_ticks(),
		.any_name = true,
	};
	struct pfw_path_probe scratch;
	bool traced = false;

	/* EFAULT: one of the two is unreadable, and the other one has a name. */
	probe->error = scratch.error = ending.error;
	if (paths->path)
		ending.name = pfw_path_text(probe, paths->dirfd, paths->path, &name);
	if (!paths->raw && paths->target)
		traced = pfw_probe_text_traced(
			pfw_path_text(&scratch, paths->target_dirfd, paths->target, &target));
	else if (paths->raw && ending.error != EFAULT)
		target = (struct pfw_tail){ .text = paths->target,
					    .text_bytes = (uint32_t)strlen(paths->target) };
	if (traced || pfw_probe_text_traced(ending.name))
		pfw_probe_end_full(&probe->probe, &ending);
}

#define TWO(name, params, args, flags, ...)                                            \
	int pfw_wrap_##name params                                                     \
	{                                                                              \
		const struct two_paths paths = { __VA_ARGS__ };                        \
		struct pfw_path_probe probe;                                           \
		int ret;                                                               \
		if (!pfw_probe_path(&probe, PFW_CALL_##name, paths.dirfd, paths.path)) \
			return pfw_real.name args;                                     \
		ret = pfw_real.name args;                                              \
		two_end(&probe, ret, &paths, flags);                                   \
		return ret;                                                            \
	}

TWO(rename, (const char *from, const char *to), (from, to), NULL, AT_FDCWD, from, AT_FDCWD, to,
    false)
TWO(renameat, (int from_dirfd, const char *from, int to_dirfd, const char *to),
    (from_dirfd, from, to_dirfd, to), NULL, from_dirfd, from, to_dirfd, to, false)
TWO(renameat2, (int from_dirfd, const char *from, int to_dirfd, const char *to, unsigned flags),
    (from_dirfd, from, to_dirfd, to, flags), &(const int){ (int)flags }, from_dirfd, from, to_dirfd,
    to, false)
TWO(link, (const char *from, const char *to), (from, to), NULL, AT_FDCWD, from, AT_FDCWD, to, false)
TWO(linkat, (int from_dirfd, const char *from, int to_dirfd, const char *to, int flags),
    (from_dirfd, from, to_dirfd, to, flags), &flags, from_dirfd, from, to_dirfd, to, false)
TWO(symlink, (const char *text, const char *path), (text, path), NULL, AT_FDCWD, path, AT_FDCWD,
    text, true)
TWO(symlinkat, (const char *text, int dirfd, const char *path), (text, dirfd, path), NULL, dirfd,
    path, AT_FDCWD, text, true)
#undef TWO

/* A copy is traced if either descriptor is. */
static bool copy_begin(struct pfw_probe *probe, uint16_t call, int from, int to)
{
	if (pfw_probe_fd(probe, call, from))
		return true;
	if (!pfw_probe_fd(probe, call, to))
		return false;
	probe->name = 0; /* fname is the source, which the filter excludes */
	return true;
}

/* The string that names a descriptor, or 0. */
static uint64_t fd_string(int fd)
{
	uint64_t entry = pfw_fd_load(fd);

	if (pfw_fd_state(entry) == PFW_FD_UNKNOWN || pfw_fd_state(entry) == PFW_FD_CLOSING)
		entry = pfw_fd_resolve(fd);
	return pfw_fd_state(entry) == PFW_FD_TRACED ? pfw_fd_name(entry) : 0;
}

/* The offset at which a copy began: the kernel has advanced *offset by the bytes copied and so has
 * read it. -1: at the file's own position, or unknown. */
static uint64_t copy_offset(const off64_t *offset, ssize_t copied)
{
	return offset && copied >= 0 ? (uint64_t)(*offset - copied) : (uint64_t)-1;
}

#define COPY(name)                                                                                 \
	ssize_t pfw_wrap_##name(int from, off64_t *from_offset, int to, off64_t *to_offset,        \
				size_t count, unsigned flags)                                      \
	{                                                                                          \
		struct pfw_probe probe;                                                            \
		ssize_t ret;                                                                       \
		if (!copy_begin(&probe, PFW_CALL_##name, from, to))                                \
			return pfw_real.name(from, from_offset, to, to_offset, count, flags);      \
		ret = pfw_real.name(from, from_offset, to, to_offset, count, flags);               \
		pfw_end_fd(&probe, PFW_VALUES((uint64_t)ret, (uint64_t)from, (uint64_t)to, count,  \
					      copy_offset(from_offset, ret),                       \
					      copy_offset(to_offset, ret), flags, fd_string(to))); \
		return ret;                                                                        \
	}

COPY(copy_file_range)
COPY(splice)
#undef COPY

ssize_t pfw_wrap_tee(int from, int to, size_t count, unsigned flags)
{
	struct pfw_probe probe;
	ssize_t ret;

	if (!copy_begin(&probe, PFW_CALL_tee, from, to))
		return pfw_real.tee(from, to, count, flags);
	ret = pfw_real.tee(from, to, count, flags);
	pfw_end_fd(&probe, PFW_VALUES((uint64_t)ret, (uint64_t)from, (uint64_t)to, count, flags,
				      fd_string(to)));
	return ret;
}

#define SENDFILE(name, type)                                                                      \
	ssize_t pfw_wrap_##name(int to, int from, type *offset, size_t count)                     \
	{                                                                                         \
		struct pfw_probe probe;                                                           \
		ssize_t ret;                                                                      \
		if (!copy_begin(&probe, PFW_CALL_##name, from, to))                               \
			return pfw_real.name(to, from, offset, count);                            \
		ret = pfw_real.name(to, from, offset, count);                                     \
		pfw_end_fd(&probe, PFW_VALUES((uint64_t)ret, (uint64_t)from, (uint64_t)to, count, \
					      copy_offset(offset, ret), fd_string(to)));          \
		return ret;                                                                       \
	}

SENDFILE(sendfile, off_t)
SENDFILE(sendfile64, off64_t)
#undef SENDFILE

/* ---- directories ---- */

DIR *pfw_wrap_fdopendir(int fd)
{
	struct pfw_probe probe;
	DIR *dir;

	if (!pfw_probe_fd(&probe, PFW_CALL_fdopendir, fd))
		return pfw_real.fdopendir(fd);
	dir = pfw_real.fdopendir(fd);
	pfw_end_fd(&probe, PFW_VALUES(dir ? (uint64_t)fd : (uint64_t)-1, (uint64_t)fd));
	return dir;
}

/* The end of a directory and an error differ only in errno, which the end does not set. */
#define READDIR(name, type)                                          \
	type *pfw_wrap_##name(DIR *dir)                              \
	{                                                            \
		struct pfw_probe probe;                              \
		int fd = dirfd(dir), before = errno, error;          \
		type *entry;                                         \
		if (!pfw_probe_fd(&probe, PFW_CALL_##name, fd))      \
			return pfw_real.name(dir);                   \
		errno = 0;                                           \
		entry = pfw_real.name(dir);                          \
		error = errno;                                       \
		if (!error)                                          \
			errno = before;                              \
		pfw_end_fd(&probe, PFW_VALUES(entry   ? 1            \
					      : error ? (uint64_t)-1 \
						      : 0,           \
					      (uint64_t)fd));        \
		return entry;                                        \
	}

READDIR(readdir, struct dirent)
READDIR(readdir64, struct dirent64)
#undef READDIR

/* closedir(NULL) returns an error. libc's header declares the argument nonnull, so hide its value
 * from the compiler. */
static void *hidden(void *pointer)
{
	__asm__("" : "+r"(pointer));
	return pointer;
}

static int real_closedir(void *dir)
{
	return pfw_real.closedir(hidden(dir));
}

int pfw_wrap_closedir(DIR *dir)
{
	return hidden(dir) ? pfw_close(PFW_CALL_closedir, dirfd(dir), real_closedir, dir)
			   : real_closedir(dir);
}
