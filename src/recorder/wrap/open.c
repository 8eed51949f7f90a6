/* recorder/wrap/open.c - wrappers of calls that open; the end of every call that opens. */
#define PFW_OS_NO_POISON
#include "recorder/wrap/posix.h"

#include "recorder/probe/call_filter.h"
#include "recorder/probe/fd_table.h"
#include "recorder/probe/path_filter.h"
#include "recorder/wrap/calls.h"

const struct pfw_tail *pfw_path_text(struct pfw_path_probe *scratch, int dirfd, const char *path,
				     struct pfw_tail *name)
{
	pfw_probe_path_text(scratch, dirfd, path, name);
	return name->text_bytes || name->directory_bytes ? name : NULL;
}

/* Record an open, with the string that the fd table now holds or with the name inline. */
static void open_record(struct pfw_path_probe *probe, const struct pfw_open *call, uint64_t t1)
{
	uint64_t value[2 + PFW_ARRAY_LEN(call->field)] = { (uint64_t)call->fd, (uint64_t)call->fd };
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
	/* EFAULT: the path itself may be unreadable. */
	probe->error = ending.error;
	if (!probe->probe.name && ending.error != EFAULT)
		ending.name = pfw_path_text(probe, call->dirfd, call->path, &name);
	pfw_probe_end_full(&probe->probe, &ending);
}

void pfw_end_open(struct pfw_path_probe *probe, bool traced, const struct pfw_open *call)
{
	uint64_t t1 = traced ? pfw_clock_ticks() : 0;

	probe->probe.name = 0;
	if (call->fd >= 0 && (traced || pfw_probe_on()))
		probe->probe.name =
			pfw_probe_opened(probe, call->fd, call->dirfd, call->path, traced);
	/* PFW_CALL_NONE: the filter excludes this file. */
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
		if (pfw_takes_mode(flags)) {                                                   \
			va_start(rest, flags);                                                 \
			mode = va_arg(rest, mode_t);                                           \
			va_end(rest);                                                          \
		}                                                                              \
		call.field[0] = flags;                                                         \
		call.field[1] = mode;                                                          \
		call.fd = pfw_real.name args;                                                  \
		pfw_end_open(&probe, traced, &call);                                           \
		return call.fd;                                                                \
	}

OPEN(open, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPEN(__open, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPEN(__open64, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPEN(openat, (int dirfd, const char *path, int flags, ...), dirfd, (dirfd, path, flags, mode))
OPEN(openat64, (int dirfd, const char *path, int flags, ...), dirfd, (dirfd, path, flags, mode))
#undef OPEN

/* All others: the descriptor of `ret`, then the fields. */
#define OPEN(type, name, params, directory, args, descriptor, ...)                           \
	type pfw_wrap_##name params                                                          \
	{                                                                                    \
		struct pfw_path_probe probe;                                                 \
		bool traced = pfw_probe_path(&probe, PFW_CALL_##name, directory, path);      \
		type ret = pfw_real.name args;                                               \
		const struct pfw_open call = { directory,                                    \
					       path,                                         \
					       descriptor,                                   \
					       sizeof((int[]){ __VA_ARGS__ }) / sizeof(int), \
					       { __VA_ARGS__ } };                            \
                                                                                             \
		pfw_end_open(&probe, traced, &call);                                         \
		return ret;                                                                  \
	}

OPEN(int, __open_2, (const char *path, int flags), AT_FDCWD, (path, flags), ret, flags, 0)
OPEN(int, __open64_2, (const char *path, int flags), AT_FDCWD, (path, flags), ret, flags, 0)
OPEN(int, __openat_2, (int dirfd, const char *path, int flags), dirfd, (dirfd, path, flags), ret,
     flags, 0)
OPEN(int, __openat64_2, (int dirfd, const char *path, int flags), dirfd, (dirfd, path, flags), ret,
     flags, 0)
OPEN(int, creat, (const char *path, mode_t mode), AT_FDCWD, (path, mode), ret, mode)
OPEN(int, creat64, (const char *path, mode_t mode), AT_FDCWD, (path, mode), ret, mode)

/* The call turns the caller's template into the path. */
OPEN(int, mkstemp, (char *path), AT_FDCWD, (path), ret, 0)
OPEN(int, mkstemp64, (char *path), AT_FDCWD, (path), ret, 0)
OPEN(int, mkostemp, (char *path, int flags), AT_FDCWD, (path, flags), ret, flags)
OPEN(int, mkostemp64, (char *path, int flags), AT_FDCWD, (path, flags), ret, flags)
OPEN(int, mkstemps, (char *path, int suffix), AT_FDCWD, (path, suffix), ret, 0)
OPEN(int, mkstemps64, (char *path, int suffix), AT_FDCWD, (path, suffix), ret, 0)
OPEN(int, mkostemps, (char *path, int suffix, int flags), AT_FDCWD, (path, suffix, flags), ret,
     flags)
OPEN(int, mkostemps64, (char *path, int suffix, int flags), AT_FDCWD, (path, suffix, flags), ret,
     flags)

/* dirfd() reads a field: it cannot fail for an open directory. */
OPEN(DIR *, opendir, (const char *path), AT_FDCWD, (path), ret ? dirfd(ret) : -1)

/* ---- streams ---- */

/* The open flags of a mode string, parsed as libc does; 0 if it is not valid. */
static int mode_flags(const char *mode)
{
	int flags;

	switch (*mode) {
	case 'r':
		flags = O_RDONLY;
		break;
	case 'w':
		flags = O_WRONLY | O_CREAT | O_TRUNC;
		break;
	case 'a':
		flags = O_WRONLY | O_CREAT | O_APPEND;
		break;
	default:
		return 0;
	}
	for (int i = 1; i < 7 && mode[i]; i++) {
		if (mode[i] == '+')
			flags = (flags & ~O_ACCMODE) | O_RDWR;
		else if (mode[i] == 'x')
			flags |= O_EXCL;
		else if (mode[i] == 'e')
			flags |= O_CLOEXEC;
	}
	return flags;
}

#define FOPEN(name)                                                                      \
	OPEN(FILE *, name, (const char *path, const char *mode), AT_FDCWD, (path, mode), \
	     pfw_stdio_fd(ret), traced ? mode_flags(mode) : 0)

FOPEN(fopen)
FOPEN(fopen64)
FOPEN(_IO_fopen)
FOPEN(setmntent)
FOPEN(__setmntent)
#undef FOPEN
#undef OPEN

#define FDOPEN(name)                                                                         \
	FILE *pfw_wrap_##name(int fd, const char *mode)                                      \
	{                                                                                    \
		struct pfw_probe probe;                                                      \
		FILE *stream;                                                                \
                                                                                             \
		if (!pfw_probe_fd(&probe, PFW_CALL_##name, fd))                              \
			return pfw_real.name(fd, mode);                                      \
		stream = pfw_real.name(fd, mode);                                            \
		pfw_probe_end(&probe, !stream,                                               \
			      PFW_VALUES(stream ? (uint64_t)fd : (uint64_t)-1, (uint64_t)fd, \
					 (uint64_t)mode_flags(mode)));                       \
		return stream;                                                               \
	}

FDOPEN(fdopen)
FDOPEN(_IO_fdopen)
#undef FDOPEN

/* freopen(NULL, ...) opens the stream's own file again, with the same descriptor number. */
static FILE *reopen_same(struct pfw_probe *probe, FILE *(*real)(const char *, const char *, FILE *),
			 const char *mode, FILE *stream)
{
	int fd = pfw_stdio_fd(stream);
	bool traced = fd >= 0 && pfw_probe_fd(probe, pfw_call_filter[probe->call], fd);
	FILE *ret = real(NULL, mode, stream);

	if (traced)
		pfw_probe_end(probe, !ret,
			      PFW_VALUES(ret ? (uint64_t)pfw_stdio_fd(ret) : (uint64_t)-1,
					 (uint64_t)fd, (uint64_t)mode_flags(mode)));
	return ret;
}

/* freopen() closes the stream's descriptor even if it then cannot open the path. */
#define FREOPEN(name)                                                                         \
	FILE *pfw_wrap_##name(const char *path, const char *mode, FILE *stream)               \
	{                                                                                     \
		struct pfw_open call = { .dirfd = AT_FDCWD, .path = path, .field_count = 1 }; \
		struct pfw_path_probe probe = { .probe.call = PFW_CALL_##name };              \
		int old = pfw_stdio_fd(stream);                                               \
		bool traced, kept;                                                            \
		FILE *ret;                                                                    \
                                                                                              \
		if (!path)                                                                    \
			return reopen_same(&probe.probe, pfw_real.name, mode, stream);        \
		traced = pfw_probe_path(&probe, PFW_CALL_##name, AT_FDCWD, path);             \
		kept = old >= 0 && (traced || pfw_probe_on());                                \
		if (kept)                                                                     \
			pfw_fd_close_begin(old);                                              \
		ret = pfw_real.name(path, mode, stream);                                      \
		call.fd = pfw_stdio_fd(ret);                                                  \
		call.field[0] = traced ? mode_flags(mode) : 0;                                \
		pfw_end_open(&probe, traced, &call);                                          \
		if (kept && call.fd != old)                                                   \
			pfw_fd_close_end(old);                                                \
		return ret;                                                                   \
	}

FREOPEN(freopen)
FREOPEN(freopen64)
#undef FREOPEN

/* ---- without a full name: pipes, sockets, memory files, nameless temporary files ---- */

void pfw_made_end(struct pfw_path_probe *probe, bool traced, int fd, struct pfw_ending *ending)
{
	uint64_t entry;

	ending->t1 = pfw_clock_ticks();
	ending->error = fd < 0 ? errno : 0;
	ending->flags = fd < 0 ? PFW_RECORD_NO_FD : 0;
	if (fd >= 0 && (traced || pfw_probe_on()))
		pfw_fd_store(fd, PFW_FD_UNKNOWN, 0);
	if (!traced || (fd < 0 && !ending->name && !pfw_path_filter_nameless()))
		return;
	if (fd >= 0) {
		entry = pfw_fd_resolve(fd);
		if (pfw_fd_state(entry) == PFW_FD_UNTRACED)
			return;
		probe->probe.name = pfw_fd_name(entry);
	}
	pfw_probe_end_full(&probe->probe, ending);
}

/* MADE(type, name, parameters, arguments, the descriptor in `ret`, fields) */
#define MADE(type, name, params, args, descriptor, ...)                                \
	type pfw_wrap_##name params                                                    \
	{                                                                              \
		struct pfw_path_probe probe;                                           \
		bool traced = pfw_probe_path(&probe, PFW_CALL_##name, AT_FDCWD, NULL); \
		type ret = pfw_real.name args;                                         \
		int fd = descriptor;                                                   \
		const uint64_t value[] = { (uint64_t)fd, (uint64_t)fd, __VA_ARGS__ };  \
		struct pfw_ending ending = { .value = value,                           \
					     .value_count = PFW_ARRAY_LEN(value) };    \
                                                                                       \
		pfw_made_end(&probe, traced, fd, &ending);                             \
		return ret;                                                            \
	}

MADE(int, open_by_handle_at, (int mount, struct file_handle *handle, int flags),
     (mount, handle, flags), ret, (uint64_t)flags)
MADE(int, memfd_create, (const char *name, unsigned flags), (name, flags), ret, flags)
MADE(int, shm_open, (const char *name, int flags, mode_t mode), (name, flags, mode), ret,
     (uint64_t)flags, mode)
MADE(int, socket, (int domain, int type, int protocol), (domain, type, protocol), ret)
MADE(int, eventfd, (unsigned count, int flags), (count, flags), ret)
MADE(FILE *, tmpfile, (void), (), pfw_stdio_fd(ret))
MADE(FILE *, tmpfile64, (void), (), pfw_stdio_fd(ret))
#undef MADE

/* Both ends, or -1: the numbers may be read only if the call succeeded. */
#define PIPE(name, params, args, ...)                                                  \
	int pfw_wrap_##name params                                                     \
	{                                                                              \
		struct pfw_path_probe probe;                                           \
		bool traced = pfw_probe_path(&probe, PFW_CALL_##name, AT_FDCWD, NULL); \
		int ret = pfw_real.name args;                                          \
		int in = ret ? -1 : fds[0], out = ret ? -1 : fds[1];                   \
		const uint64_t value[] = { (uint64_t)ret, (uint64_t)in, (uint64_t)out, \
					   __VA_ARGS__ };                              \
		struct pfw_ending ending = { .value = value,                           \
					     .value_count = PFW_ARRAY_LEN(value) };    \
                                                                                       \
		if (out >= 0 && (traced || pfw_probe_on()))                            \
			pfw_fd_store(out, PFW_FD_UNKNOWN, 0);                          \
		pfw_made_end(&probe, traced, in, &ending);                             \
		return ret;                                                            \
	}

PIPE(pipe, (int fds[2]), (fds))
PIPE(__pipe, (int fds[2]), (fds))
PIPE(pipe2, (int fds[2], int flags), (fds, flags), (uint64_t)flags)
PIPE(socketpair, (int domain, int type, int protocol, int fds[2]), (domain, type, protocol, fds))
#undef PIPE

/* libc makes the terminal descriptors 0, 1 and 2 and closes its own number. */
int pfw_wrap_login_tty(int fd)
{
	struct pfw_probe probe;
	bool traced = pfw_probe_fd(&probe, pfw_call_filter[PFW_CALL_login_tty], fd);
	int ret = pfw_real.login_tty(fd);

	if (traced)
		pfw_probe_end(&probe, ret < 0, PFW_VALUES((uint64_t)ret, (uint64_t)fd));
	if (ret < 0 || !pfw_probe_on())
		return ret;
	for (int i = 0; i < 3; i++)
		pfw_fd_store(i, PFW_FD_UNKNOWN, 0);
	if (fd > 2)
		pfw_fd_store(fd, PFW_FD_UNKNOWN, 0);
	return ret;
}
