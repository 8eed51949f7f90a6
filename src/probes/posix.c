/* posix.c - wrappers of the POSIX calls that a row of calls.def cannot say all about: those with
 * variable arguments, two files, or an effect on what a descriptor or an address stands for.
 *
 * Twins (open and open64, ...) differ in a type or a symbol only; a local macro makes both.
 */
#define PFW_OS_NO_POISON
#include "posix.h"

#include <limits.h>
#include <linux/close_range.h>
#include <string.h>

#include "../hidden.h"
#include "../strings.h"
#include "calls.h"
#include "fd_table.h"
#include "mappings.h"
#include "probe.h"
#include "select.h"

/* ---- open ---- */

/* Whether open() takes a mode: O_TMPFILE is a set of bits, one of which is O_DIRECTORY. */
static bool takes_mode(int flags)
{
	return (flags & O_CREAT) || (flags & __O_TMPFILE) == __O_TMPFILE;
}

/* The name of (dirfd, path) in *name, or NULL where there is none to be had. */
static const struct pfw_tail *name_text(struct pfw_path_probe *scratch, int dirfd, const char *path,
					struct pfw_tail *name)
{
	pfw_probe_path_text(scratch, dirfd, path, name);
	return name->text_bytes || name->directory_bytes ? name : NULL;
}

/* The record of an open: by the string that the table now holds, or with the name in it. */
static void open_record(struct pfw_path_probe *probe, const struct pfw_open *call, uint64_t t1)
{
	uint64_t value[2 + PFW_ARRAY_LEN(call->field)] = { (uint64_t)(int64_t)call->fd,
							   (uint64_t)(int64_t)call->fd };
	struct pfw_ending ending = {
		.value = value,
		.value_count = 2 + call->field_count,
		.error = call->fd < 0 ? errno : 0,
		.t1 = t1,
		.flags = call->fd < 0 ? PFW_RECORD_NO_FD : 0,
	};
	struct pfw_tail name;

	for (unsigned i = 0; i < call->field_count; i++)
		value[2 + i] = (uint64_t)call->field[i];
	/* EFAULT: the path itself may be what cannot be read. */
	probe->error = ending.error;
	if (!probe->probe.name && ending.error != EFAULT)
		ending.name = name_text(probe, call->dirfd, call->path, &name);
	pfw_probe_end_full(&probe->probe, &ending);
}

void pfw_open_end(struct pfw_path_probe *probe, bool traced, const struct pfw_open *call)
{
	uint64_t t1 = traced ? pfw_clock_ticks() : 0;

	probe->probe.name = 0;
	if (call->fd >= 0 && (traced || pfw_probe_on()))
		probe->probe.name =
			pfw_probe_opened(probe, call->fd, call->dirfd, call->path, traced);
	/* PFW_CALL_NONE: the filter leaves this file out. */
	if (traced && probe->probe.call != PFW_CALL_NONE)
		open_record(probe, call, t1);
}

#define OPEN(name, params, directory, args)                                                    \
	int pfw_wrap_##name params                                                             \
	{                                                                                      \
		struct pfw_open call = { .dirfd = directory, .path = path, .field_count = 2 }; \
		struct pfw_path_probe probe;                                                   \
		bool traced = pfw_probe_path(&probe, PFW_CALL_##name, directory, path);        \
		mode_t mode = 0;                                                               \
		va_list rest;                                                                  \
                                                                                               \
		if (takes_mode(flags)) {                                                       \
			va_start(rest, flags);                                                 \
			mode = va_arg(rest, mode_t);                                           \
			va_end(rest);                                                          \
		}                                                                              \
		call.field[0] = flags;                                                         \
		call.field[1] = mode;                                                          \
		call.fd = pfw_real.name args;                                                  \
		pfw_open_end(&probe, traced, &call);                                           \
		return call.fd;                                                                \
	}

OPEN(open, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPEN(__open, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPEN(__open64, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPEN(openat, (int dirfd, const char *path, int flags, ...), dirfd, (dirfd, path, flags, mode))
OPEN(openat64, (int dirfd, const char *path, int flags, ...), dirfd, (dirfd, path, flags, mode))
#undef OPEN

/* The rest of the family: all arguments are named. */
#define OPEN(name, params, directory, args, fields, first, second)                      \
	int pfw_wrap_##name params                                                      \
	{                                                                               \
		struct pfw_open call = { .dirfd = directory,                            \
					 .path = path,                                  \
					 .field_count = fields,                         \
					 .field = { first, second } };                  \
		struct pfw_path_probe probe;                                            \
		bool traced = pfw_probe_path(&probe, PFW_CALL_##name, directory, path); \
                                                                                        \
		call.fd = pfw_real.name args;                                           \
		pfw_open_end(&probe, traced, &call);                                    \
		return call.fd;                                                         \
	}

OPEN(__open_2, (const char *path, int flags), AT_FDCWD, (path, flags), 2, flags, 0)
OPEN(__open64_2, (const char *path, int flags), AT_FDCWD, (path, flags), 2, flags, 0)
OPEN(__openat_2, (int dirfd, const char *path, int flags), dirfd, (dirfd, path, flags), 2, flags, 0)
OPEN(__openat64_2, (int dirfd, const char *path, int flags), dirfd, (dirfd, path, flags), 2, flags,
     0)
OPEN(creat, (const char *path, mode_t mode), AT_FDCWD, (path, mode), 1, mode, 0)
OPEN(creat64, (const char *path, mode_t mode), AT_FDCWD, (path, mode), 1, mode, 0)
#undef OPEN

/* ---- descriptors ---- */

/* End a call whose fields are its arguments. */
static void end_fd(const struct pfw_probe *probe, const uint64_t *value, unsigned count)
{
	pfw_probe_end(probe, (int64_t)value[0] == -1, value, count);
}

/* The name is not kept anywhere (the arena is full): it must be asked for while fd is open. */
static __attribute__((noinline)) int close_by_link(struct pfw_probe *probe, int fd,
						   int (*real)(void *object), void *object)
{
	char path[512];
	ssize_t n = pfw_fd_read_link(fd, path, sizeof(path));
	bool named = n > 0 && (size_t)n < sizeof(path) && path[0] == '/';
	struct pfw_tail name = { .text = path, .text_bytes = named ? (uint32_t)n : 0 };
	uint64_t value[2] = { 0, (uint64_t)fd };
	struct pfw_ending ending = {
		.value = value,
		.value_count = 2,
		.name = named ? &name : NULL,
		.any_name = true,
	};
	int ret;

	pfw_fd_close_begin(fd);
	ret = real(object);
	value[0] = (uint64_t)(int64_t)ret;
	ending.error = ret == -1 ? errno : 0;
	probe->name = 0;
	pfw_probe_end_full(probe, &ending);
	pfw_fd_close_end(fd);
	return ret;
}

int pfw_close(uint16_t call, int fd, int (*real)(void *object), void *object)
{
	struct pfw_probe probe;
	bool traced = pfw_probe_fd(&probe, pfw_selected[call], fd), held;
	int ret;

	if (!traced && !pfw_probe_on())
		return real(object);
	if (PFW_UNLIKELY(traced && probe.name == PFW_NAME_BY_LINK))
		return close_by_link(&probe, fd, real, object);
	/* Forgotten first: once the kernel has closed it, the number may be another thread's.  The
	 * name is held until the record is there, which may take long where close() waits. */
	held = traced && pfw_string_hold(probe.name);
	pfw_fd_close_begin(fd);
	ret = real(object);
	if (traced)
		end_fd(&probe, (const uint64_t[]){ (uint64_t)(int64_t)ret, (uint64_t)fd }, 2);
	if (held)
		pfw_string_drop(probe.name);
	pfw_fd_close_end(fd);
	return ret;
}

/* Whether fd is a descriptor of ours in the program's own table.  A vfork child may close it: what
 * it has is a copy. */
static bool is_ours(int fd)
{
	return PFW_UNLIKELY(pfw_hidden(fd)) && !pfw_thread.vfork_child;
}

static int close_theirs(int fd, int (*real)(int fd))
{
	bool entered = pfw_hidden_enter();
	int ret = -1;

	if (is_ours(fd))
		errno = EBADF;
	else
		ret = real(fd);
	pfw_hidden_leave(entered);
	return ret;
}

#define CLOSE(name)                                                                       \
	static int real_##name(void *fd)                                                  \
	{                                                                                 \
		return close_theirs((int)(intptr_t)fd, pfw_real.name);                    \
	}                                                                                 \
	int pfw_wrap_##name(int fd)                                                       \
	{                                                                                 \
		return pfw_close(PFW_CALL_##name, fd, real_##name, (void *)(intptr_t)fd); \
	}

CLOSE(close)
CLOSE(__close)
#undef CLOSE

/* Call `change` for every descriptor of the range that the table may know. */
static void each_known(unsigned first, unsigned last, void (*change)(int fd))
{
	for (unsigned page = first / PFW_FD_PAGE; page < PFW_FD_PAGES && page <= last / PFW_FD_PAGE;
	     page++) {
		unsigned from = page * PFW_FD_PAGE, to = from + PFW_FD_PAGE - 1;

		if (!atomic_load_explicit(&pfw_fd_pages[page], memory_order_relaxed))
			continue;
		from = from < first ? first : from;
		to = to > last ? last : to;
		for (unsigned fd = from; fd <= to; fd++)
			change((int)fd);
	}
}

/* The real call, around what is ours. */
static int close_around(unsigned first, unsigned last, int flags)
{
	int ours = -1, ret;

	while (!pfw_thread.vfork_child && (ours = pfw_hidden_within(first, last)) >= 0) {
		ret = (unsigned)ours > first
			      ? pfw_real.close_range(first, (unsigned)ours - 1, flags)
			      : 0;
		if (ret || (unsigned)ours == last)
			return ret;
		first = (unsigned)ours + 1;
	}
	return pfw_real.close_range(first, last, flags);
}

/* closefrom() cannot fail: where there is no close_range(), one by one up to ours. */
static void closefrom_around(int first)
{
	int ours;

	first = first < 0 ? 0 : first;
	while (!pfw_thread.vfork_child &&
	       (ours = pfw_hidden_within((unsigned)first, UINT_MAX)) >= 0) {
		if (ours > first &&
		    pfw_real.close_range((unsigned)first, (unsigned)ours - 1, 0) < 0)
			for (int fd = first; fd < ours; fd++)
				pfw_os_close(fd);
		first = ours + 1;
	}
	pfw_real.closefrom(first);
}

int pfw_wrap_close_range(unsigned first, unsigned last, int flags)
{
	struct pfw_probe probe;
	bool traced = pfw_probe_bare(&probe, PFW_CALL_close_range);
	bool closes = pfw_probe_on() && !(flags & CLOSE_RANGE_CLOEXEC), entered;
	int ret;

	if (closes)
		each_known(first, last, pfw_fd_close_begin);
	entered = pfw_hidden_enter();
	ret = close_around(first, last, flags);
	pfw_hidden_leave(entered);
	if (traced)
		end_fd(&probe,
		       (const uint64_t[]){ (uint64_t)(int64_t)ret, first, last,
					   (uint64_t)(int64_t)flags },
		       4);
	if (closes)
		each_known(first, last, pfw_fd_close_end);
	return ret;
}

void pfw_wrap_closefrom(int first)
{
	struct pfw_probe probe;
	bool traced = pfw_probe_bare(&probe, PFW_CALL_closefrom), closes = pfw_probe_on();
	bool entered;
	const uint64_t value[] = { 0, (uint64_t)(int64_t)first };
	struct pfw_ending ending = {
		.value = value,
		.value_count = 2,
		.flags = PFW_RECORD_NO_RET,
	};

	if (closes)
		each_known(first < 0 ? 0 : (unsigned)first, UINT_MAX, pfw_fd_close_begin);
	entered = pfw_hidden_enter();
	closefrom_around(first);
	pfw_hidden_leave(entered);
	if (traced)
		pfw_probe_end_full(&probe, &ending);
	if (closes)
		each_known(first < 0 ? 0 : (unsigned)first, UINT_MAX, pfw_fd_close_end);
}

int pfw_wrap_dup(int fd)
{
	struct pfw_probe probe;
	bool traced = pfw_probe_fd(&probe, pfw_selected[PFW_CALL_dup], fd);
	int ret = pfw_real.dup(fd);

	if (traced)
		end_fd(&probe, (const uint64_t[]){ (uint64_t)(int64_t)ret, (uint64_t)fd }, 2);
	if (ret >= 0 && (traced || pfw_probe_on()))
		pfw_fd_copy(fd, ret);
	return ret;
}

/*
 * dup2() and dup3() close newfd, as close() does; nothing changes where it is the same number.
 * Return what pfw_hidden_leave() is to be given.
 */
static bool replace_begin(int fd, int newfd)
{
	bool entered = pfw_hidden_enter();

	while (fd != newfd && is_ours(newfd)) {
		pfw_hidden_leave(entered);
		pfw_probe_host.make_way(newfd);
		entered = pfw_hidden_enter();
	}
	if (fd != newfd && pfw_probe_on())
		pfw_fd_close_begin(newfd);
	return entered;
}

static void replace_end(int fd, int newfd, int ret)
{
	if (fd == newfd || !pfw_probe_on())
		return;
	if (ret >= 0)
		pfw_fd_copy(fd, newfd);
	else
		pfw_fd_close_end(newfd);
}

#define DUP2(name)                                                                       \
	int pfw_wrap_##name(int fd, int newfd)                                           \
	{                                                                                \
		struct pfw_probe probe;                                                  \
		bool traced = pfw_probe_fd(&probe, pfw_selected[PFW_CALL_##name], fd);   \
		bool entered = replace_begin(fd, newfd);                                 \
		int ret = pfw_real.name(fd, newfd);                                      \
                                                                                         \
		pfw_hidden_leave(entered);                                               \
		if (traced)                                                              \
			end_fd(&probe,                                                   \
			       (const uint64_t[]){ (uint64_t)(int64_t)ret, (uint64_t)fd, \
						   (uint64_t)(int64_t)newfd },           \
			       3);                                                       \
		replace_end(fd, newfd, ret);                                             \
		return ret;                                                              \
	}

DUP2(dup2)
DUP2(__dup2)
#undef DUP2

int pfw_wrap_dup3(int fd, int newfd, int flags)
{
	struct pfw_probe probe;
	bool traced = pfw_probe_fd(&probe, pfw_selected[PFW_CALL_dup3], fd), entered;
	int ret;

	entered = replace_begin(fd, newfd);
	ret = pfw_real.dup3(fd, newfd, flags);
	pfw_hidden_leave(entered);
	if (traced)
		end_fd(&probe,
		       (const uint64_t[]){ (uint64_t)(int64_t)ret, (uint64_t)fd,
					   (uint64_t)(int64_t)newfd, (uint64_t)(int64_t)flags },
		       4);
	replace_end(fd, newfd, ret);
	return ret;
}

/* The argument of a command that takes a number; 0 where it takes a pointer or none. */
static int64_t fcntl_number(int cmd, void *arg)
{
	switch (cmd) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
	case F_SETFD:
	case F_SETFL:
	case F_SETOWN:
	case F_SETSIG:
	case F_SETLEASE:
	case F_NOTIFY:
	case F_SETPIPE_SZ:
	case F_ADD_SEALS:
		return (int)(intptr_t)arg;
	default:
		return 0;
	}
}

/* One `void *` is always read and passed on: it holds whatever a command, known or not, takes. */
#define FCNTL(name)                                                                           \
	int pfw_wrap_##name(int fd, int cmd, ...)                                             \
	{                                                                                     \
		struct pfw_probe probe;                                                       \
		bool traced = pfw_probe_fd(&probe, pfw_selected[PFW_CALL_##name], fd);        \
		va_list rest;                                                                 \
		void *arg;                                                                    \
		int ret;                                                                      \
                                                                                              \
		va_start(rest, cmd);                                                          \
		arg = va_arg(rest, void *);                                                   \
		va_end(rest);                                                                 \
		ret = pfw_real.name(fd, cmd, arg);                                            \
		if (traced)                                                                   \
			end_fd(&probe,                                                        \
			       (const uint64_t[]){ (uint64_t)(int64_t)ret, (uint64_t)fd,      \
						   (uint64_t)(int64_t)cmd,                    \
						   (uint64_t)fcntl_number(cmd, arg) },        \
			       4);                                                            \
		if ((cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC) && ret >= 0 && pfw_probe_on()) \
			pfw_fd_copy(fd, ret);                                                 \
		return ret;                                                                   \
	}

FCNTL(fcntl)
FCNTL(fcntl64)
FCNTL(__fcntl)
#undef FCNTL

int pfw_wrap_ioctl(int fd, unsigned long request, ...)
{
	struct pfw_probe probe;
	bool traced = pfw_probe_fd(&probe, PFW_CALL_ioctl, fd);
	va_list rest;
	void *arg;
	int ret;

	va_start(rest, request);
	arg = va_arg(rest, void *);
	va_end(rest);
	ret = pfw_real.ioctl(fd, request, arg);
	if (traced)
		end_fd(&probe, (const uint64_t[]){ (uint64_t)(int64_t)ret, (uint64_t)fd, request },
		       3);
	return ret;
}

/* ---- calls that return an error number ---- */

static void end_number(const struct pfw_probe *probe, const uint64_t *value, unsigned count)
{
	int before = errno;

	errno = (int)value[0];
	pfw_probe_end(probe, value[0] != 0, value, count);
	errno = before;
}

#define NUMBER(name, params, args, count, ...)                                               \
	int pfw_wrap_##name params                                                           \
	{                                                                                    \
		struct pfw_probe probe;                                                      \
		bool traced = pfw_probe_fd(&probe, PFW_CALL_##name, fd);                     \
		int ret = pfw_real.name args;                                                \
                                                                                             \
		if (traced)                                                                  \
			end_number(&probe,                                                   \
				   (const uint64_t[]){ (uint64_t)(int64_t)ret, (uint64_t)fd, \
						       __VA_ARGS__ },                        \
				   2 + (count));                                             \
		return ret;                                                                  \
	}

NUMBER(posix_fallocate, (int fd, off_t offset, off_t length), (fd, offset, length), 2,
       (uint64_t)offset, (uint64_t)length)
NUMBER(posix_fallocate64, (int fd, off64_t offset, off64_t length), (fd, offset, length), 2,
       (uint64_t)offset, (uint64_t)length)
NUMBER(posix_fadvise, (int fd, off_t offset, off_t length, int advice),
       (fd, offset, length, advice), 3, (uint64_t)offset, (uint64_t)length,
       (uint64_t)(int64_t)advice)
NUMBER(posix_fadvise64, (int fd, off64_t offset, off64_t length, int advice),
       (fd, offset, length, advice), 3, (uint64_t)offset, (uint64_t)length,
       (uint64_t)(int64_t)advice)
#undef NUMBER

/* All of the system's files: no object. */
void pfw_wrap_sync(void)
{
	struct pfw_probe probe;
	const uint64_t value[] = { 0 };
	struct pfw_ending ending = { .value = value, .value_count = 1, .flags = PFW_RECORD_NO_RET };
	bool traced = pfw_probe_bare(&probe, PFW_CALL_sync);

	pfw_real.sync();
	if (traced)
		pfw_probe_end_full(&probe, &ending);
}

/* ---- two files ---- */

struct two_paths {
	int dirfd;
	const char *path; /* fname */
	int target_dirfd;
	const char *target;
	bool raw; /* the target is text, not a name: symlink() */
};

/* Begin a call on two paths; its end decides whether either is traced. */
static bool two_begin(struct pfw_path_probe *probe, uint16_t call, const struct two_paths *paths)
{
	return pfw_probe_path(probe, call, paths->dirfd, paths->path);
}

/* End a call on two paths: recorded where the filter takes either. */
static __attribute__((noinline)) void two_end(struct pfw_path_probe *probe, int ret,
					      const struct two_paths *paths, const int *flags)
{
	const uint64_t value[] = { (uint64_t)(int64_t)ret, 0,
				   flags ? (uint64_t)(int64_t)*flags : 0 };
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

	/* EFAULT: one of the two cannot be read, and which one is not said. */
	probe->error = scratch.error = ending.error;
	if (ending.error != EFAULT) {
		ending.name = name_text(probe, paths->dirfd, paths->path, &name);
		if (paths->raw)
			target = (struct pfw_tail){ .text = paths->target,
						    .text_bytes = (uint32_t)strlen(paths->target) };
		else
			traced = pfw_probe_text_traced(
				name_text(&scratch, paths->target_dirfd, paths->target, &target));
	}
	if (traced || pfw_probe_text_traced(ending.name))
		pfw_probe_end_full(&probe->probe, &ending);
}

#define TWO(name, params, args, flags, ...)                      \
	int pfw_wrap_##name params                               \
	{                                                        \
		const struct two_paths paths = { __VA_ARGS__ };  \
		struct pfw_path_probe probe;                     \
		int ret;                                         \
		if (!two_begin(&probe, PFW_CALL_##name, &paths)) \
			return pfw_real.name args;               \
		ret = pfw_real.name args;                        \
		two_end(&probe, ret, &paths, flags);             \
		return ret;                                      \
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

/* Traced where either descriptor is. */
static bool copy_begin(struct pfw_probe *probe, uint16_t call, int from, int to)
{
	if (pfw_probe_fd(probe, call, from))
		return true;
	if (!pfw_probe_fd(probe, call, to))
		return false;
	probe->name = 0; /* fname is the source, which the filter leaves out */
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

/* Where a copy began: the kernel has moved *offset by what was copied, so that it can be read.
 * -1: at the file's own position, or not known. */
static uint64_t copy_offset(const off64_t *offset, ssize_t copied)
{
	return offset && copied >= 0 ? (uint64_t)(*offset - copied) : (uint64_t)-1;
}

#define COPY(name)                                                                              \
	ssize_t pfw_wrap_##name(int from, off64_t *from_offset, int to, off64_t *to_offset,     \
				size_t count, unsigned flags)                                   \
	{                                                                                       \
		struct pfw_probe probe;                                                         \
		ssize_t ret;                                                                    \
		if (!copy_begin(&probe, PFW_CALL_##name, from, to))                             \
			return pfw_real.name(from, from_offset, to, to_offset, count, flags);   \
		ret = pfw_real.name(from, from_offset, to, to_offset, count, flags);            \
		end_fd(&probe,                                                                  \
		       (const uint64_t[]){ (uint64_t)ret, (uint64_t)(int64_t)from,              \
					   (uint64_t)(int64_t)to, count,                        \
					   copy_offset(from_offset, ret),                       \
					   copy_offset(to_offset, ret), flags, fd_string(to) }, \
		       8);                                                                      \
		return ret;                                                                     \
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
	end_fd(&probe,
	       (const uint64_t[]){ (uint64_t)ret, (uint64_t)(int64_t)from, (uint64_t)(int64_t)to,
				   count, flags, fd_string(to) },
	       6);
	return ret;
}

#define SENDFILE(name, type)                                                                       \
	ssize_t pfw_wrap_##name(int to, int from, type *offset, size_t count)                      \
	{                                                                                          \
		struct pfw_probe probe;                                                            \
		ssize_t ret;                                                                       \
		if (!copy_begin(&probe, PFW_CALL_##name, from, to))                                \
			return pfw_real.name(to, from, offset, count);                             \
		ret = pfw_real.name(to, from, offset, count);                                      \
		end_fd(&probe,                                                                     \
		       (const uint64_t[]){ (uint64_t)ret, (uint64_t)(int64_t)from,                 \
					   (uint64_t)(int64_t)to, count, copy_offset(offset, ret), \
					   fd_string(to) },                                        \
		       6);                                                                         \
		return ret;                                                                        \
	}

SENDFILE(sendfile, off_t)
SENDFILE(sendfile64, off64_t)
#undef SENDFILE

/* ---- directories ---- */

DIR *pfw_wrap_opendir(const char *path)
{
	struct pfw_open call = { .dirfd = AT_FDCWD, .path = path, .fd = -1 };
	struct pfw_path_probe probe;
	bool traced = pfw_probe_path(&probe, PFW_CALL_opendir, AT_FDCWD, path);
	DIR *dir = pfw_real.opendir(path);

	/* dirfd() reads a field: it cannot fail for a directory that is open. */
	if (dir)
		call.fd = dirfd(dir);
	pfw_open_end(&probe, traced, &call);
	return dir;
}

DIR *pfw_wrap_fdopendir(int fd)
{
	struct pfw_probe probe;
	DIR *dir;

	if (!pfw_probe_fd(&probe, PFW_CALL_fdopendir, fd))
		return pfw_real.fdopendir(fd);
	dir = pfw_real.fdopendir(fd);
	end_fd(&probe,
	       (const uint64_t[]){ dir ? (uint64_t)fd : (uint64_t)-1, (uint64_t)(int64_t)fd }, 2);
	return dir;
}

/* The end of a directory and an error look alike but for errno, which the end leaves as it was. */
#define READDIR(name, type)                                       \
	type *pfw_wrap_##name(DIR *dir)                           \
	{                                                         \
		struct pfw_probe probe;                           \
		int fd = dirfd(dir), before = errno, error;       \
		type *entry;                                      \
		if (!pfw_probe_fd(&probe, PFW_CALL_##name, fd))   \
			return pfw_real.name(dir);                \
		errno = 0;                                        \
		entry = pfw_real.name(dir);                       \
		error = errno;                                    \
		if (!error)                                       \
			errno = before;                           \
		end_fd(&probe,                                    \
		       (const uint64_t[]){ entry   ? 1            \
					   : error ? (uint64_t)-1 \
						   : 0,           \
					   (uint64_t)fd },        \
		       2);                                        \
		return entry;                                     \
	}

READDIR(readdir, struct dirent)
READDIR(readdir64, struct dirent64)
#undef READDIR

/* closedir(NULL) is an error, not a crash; libc's header says it cannot be, so hide it. */
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

/* ---- mappings ---- */

/* A mapping has been made: what lay there before is gone, and a traced file is remembered. */
static void mapped(void *at, size_t length, const struct pfw_probe *file)
{
	uint32_t name;

	if (at == MAP_FAILED || !(file || pfw_mappings_any()) || !pfw_probe_on())
		return;
	pfw_mappings_cut((uintptr_t)at, length, &name);
	if (file)
		pfw_mappings_add((uintptr_t)at, length,
				 file->name == PFW_NAME_BY_LINK ? 0 : file->name);
}

#define MMAP(name, type)                                                                           \
	void *pfw_wrap_##name(void *addr, size_t length, int prot, int flags, int fd, type offset) \
	{                                                                                          \
		struct pfw_probe probe;                                                            \
		bool traced = fd >= 0 && !(flags & MAP_ANONYMOUS) &&                               \
			      pfw_probe_fd(&probe, pfw_selected[PFW_CALL_##name], fd);             \
		void *at = pfw_real.name(addr, length, prot, flags, fd, offset);                   \
		if (traced)                                                                        \
			end_fd(&probe,                                                             \
			       (const uint64_t[]){ (uint64_t)at, (uint64_t)fd, length,             \
						   (uint64_t)(int64_t)prot,                        \
						   (uint64_t)(int64_t)flags, (uint64_t)offset },   \
			       6);                                                                 \
		mapped(at, length, traced ? &probe : NULL);                                        \
		return at;                                                                         \
	}

MMAP(mmap, off_t)
MMAP(mmap64, off64_t)
#undef MMAP

int pfw_wrap_munmap(void *addr, size_t length)
{
	struct pfw_probe probe;
	uint32_t name = 0;
	bool traced = false;
	int ret;

	/* A call that the kernel will refuse takes nothing away. */
	if (pfw_mappings_any() && pfw_probe_on())
		traced = length && !((uintptr_t)addr & (pfw_os_page_bytes() - 1))
				 ? pfw_mappings_cut((uintptr_t)addr, length, &name)
				 : pfw_mappings_find((uintptr_t)addr, length, &name);
	traced = traced && pfw_probe_bare(&probe, PFW_CALL_munmap);
	ret = pfw_real.munmap(addr, length);
	if (!traced)
		return ret;
	probe.name = name;
	end_fd(&probe, (const uint64_t[]){ (uint64_t)(int64_t)ret, (uintptr_t)addr, length }, 3);
	return ret;
}

#define ON_MAPPING(call, end)                                                            \
	int pfw_wrap_##call(void *addr, size_t length, int how)                          \
	{                                                                                \
		struct pfw_probe probe;                                                  \
		uint32_t file = 0;                                                       \
		int ret;                                                                 \
                                                                                         \
		if (!pfw_mappings_any() || !pfw_probe_on() ||                            \
		    !pfw_mappings_find((uintptr_t)addr, length, &file) ||                \
		    !pfw_probe_bare(&probe, PFW_CALL_##call))                            \
			return pfw_real.call(addr, length, how);                         \
		ret = pfw_real.call(addr, length, how);                                  \
		probe.name = file;                                                       \
		end(&probe,                                                              \
		    (const uint64_t[]){ (uint64_t)(int64_t)ret, (uintptr_t)addr, length, \
					(uint64_t)(int64_t)how },                        \
		    4);                                                                  \
		return ret;                                                              \
	}

ON_MAPPING(msync, end_fd)
ON_MAPPING(madvise, end_fd)
ON_MAPPING(posix_madvise, end_number)
#undef ON_MAPPING

/* A mapping moves: forgotten before the call, as by munmap(), and put back where it failed.  The old
 * one stays too where its old length is 0. */
void *pfw_wrap_mremap(void *addr, size_t length, size_t size, int flags, ...)
{
	struct pfw_probe probe;
	uint32_t name = 0, gone;
	bool found, traced;
	va_list rest;
	void *to, *at;

	va_start(rest, flags);
	to = va_arg(rest, void *);
	va_end(rest);
	found = pfw_mappings_any() && pfw_probe_on() &&
		pfw_mappings_find((uintptr_t)addr, length, &name);
	traced = found && pfw_probe_bare(&probe, PFW_CALL_mremap);
	if (found && name && !pfw_string_hold(name))
		name = 0;
	if (found && length && !(flags & MREMAP_DONTUNMAP))
		pfw_mappings_cut((uintptr_t)addr, length, &gone);
	at = pfw_real.mremap(addr, length, size, flags, to);
	if (traced) {
		probe.name = name;
		end_fd(&probe,
		       (const uint64_t[]){ (uint64_t)at, (uintptr_t)addr, length, size,
					   (uint64_t)(int64_t)flags },
		       5);
	}
	if (found && at == MAP_FAILED && length)
		pfw_mappings_add((uintptr_t)addr, length, name);
	probe.name = name;
	mapped(at, size, found ? &probe : NULL);
	if (found)
		pfw_string_drop(name);
	return at;
}
