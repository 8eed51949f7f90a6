/* stdio.c - wrappers of the STDIO calls that a row of calls.def cannot say all about: those that
 * open and close, take a format, or tell failure otherwise than by -1.
 *
 * Streams without a descriptor (in memory, or made of the program's own functions) pass through.
 */
#define PFW_OS_NO_POISON
#include <string.h>

#include "calls.h"
#include "fd_table.h"
#include "posix.h"
#include "probe.h"
#include "select.h"

/* The open flags that a mode string stands for, read as libc has read it: 0 where it is none. */
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

/* ---- open and close ---- */

#define FOPEN(name)                                                                           \
	FILE *pfw_wrap_##name(const char *path, const char *mode)                             \
	{                                                                                     \
		struct pfw_open call = { .dirfd = AT_FDCWD, .path = path, .field_count = 1 }; \
		struct pfw_path_probe probe;                                                  \
		bool traced = pfw_probe_path(&probe, PFW_CALL_##name, AT_FDCWD, path);        \
		FILE *stream = pfw_real.name(path, mode);                                     \
                                                                                              \
		call.fd = pfw_stream_fd(stream);                                              \
		call.field[0] = traced ? mode_flags(mode) : 0;                                \
		pfw_open_end(&probe, traced, &call);                                          \
		return stream;                                                                \
	}

FOPEN(fopen)
FOPEN(fopen64)
#undef FOPEN

FILE *pfw_wrap_fdopen(int fd, const char *mode)
{
	struct pfw_probe probe;
	FILE *stream;

	if (!pfw_probe_fd(&probe, PFW_CALL_fdopen, fd))
		return pfw_real.fdopen(fd, mode);
	stream = pfw_real.fdopen(fd, mode);
	pfw_probe_end(&probe, !stream,
		      (const uint64_t[]){ stream ? (uint64_t)fd : (uint64_t)-1,
					  (uint64_t)(int64_t)fd, (uint64_t)mode_flags(mode) },
		      3);
	return stream;
}

/* freopen(NULL, ...) opens the stream's own file again, under the same number. */
static FILE *reopen_same(struct pfw_probe *probe, FILE *(*real)(const char *, const char *, FILE *),
			 const char *mode, FILE *stream)
{
	int fd = pfw_stream_fd(stream);
	bool traced = fd >= 0 && pfw_probe_fd(probe, pfw_selected[probe->call], fd);
	FILE *ret = real(NULL, mode, stream);

	if (traced)
		pfw_probe_end(probe, !ret,
			      (const uint64_t[]){ ret ? (uint64_t)pfw_stream_fd(ret) : (uint64_t)-1,
						  (uint64_t)fd, (uint64_t)mode_flags(mode) },
			      3);
	return ret;
}

/* freopen() closes the stream's descriptor, whether or not it can then open the path. */
#define FREOPEN(name)                                                                         \
	FILE *pfw_wrap_##name(const char *path, const char *mode, FILE *stream)               \
	{                                                                                     \
		struct pfw_open call = { .dirfd = AT_FDCWD, .path = path, .field_count = 1 }; \
		struct pfw_path_probe probe = { .probe.call = PFW_CALL_##name };              \
		int old = pfw_stream_fd(stream);                                              \
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
		call.fd = pfw_stream_fd(ret);                                                 \
		call.field[0] = traced ? mode_flags(mode) : 0;                                \
		pfw_open_end(&probe, traced, &call);                                          \
		if (kept && call.fd != old)                                                   \
			pfw_fd_close_end(old);                                                \
		return ret;                                                                   \
	}

FREOPEN(freopen)
FREOPEN(freopen64)
#undef FREOPEN

static int real_fclose(void *stream)
{
	return pfw_real.fclose(stream);
}

int pfw_wrap_fclose(FILE *stream)
{
	int fd = pfw_stream_fd(stream);

	return fd >= 0 ? pfw_close(PFW_CALL_fclose, fd, real_fclose, stream) : real_fclose(stream);
}

/* ---- read and write ---- */

/* What a stream and errno were before a call. */
struct before {
	int flags;
	int error;
};

static struct before look(const FILE *stream)
{
	return (struct before){ .flags = stream->_flags, .error = errno };
}

/* Whether the call that has just returned met an error: the stream's mark stays from earlier ones,
 * and fewer items than asked for may be the end of the file. */
static bool has_failed(const FILE *stream, struct before before)
{
	return (stream->_flags & _IO_ERR_SEEN) &&
	       (!(before.flags & _IO_ERR_SEEN) || errno != before.error);
}

#define ITEMS(name, params, args)                                                       \
	size_t pfw_wrap_##name params                                                   \
	{                                                                               \
		struct pfw_probe probe;                                                 \
		struct before before;                                                   \
		int fd = pfw_stream_fd(stream);                                         \
		size_t ret;                                                             \
                                                                                        \
		if (fd < 0 || !pfw_probe_fd(&probe, PFW_CALL_##name, fd))               \
			return pfw_real.name args;                                      \
		before = look(stream);                                                  \
		ret = pfw_real.name args;                                               \
		pfw_probe_end(&probe, ret < count && has_failed(stream, before),        \
			      (const uint64_t[]){ ret, (uint64_t)fd, size, count }, 4); \
		return ret;                                                             \
	}

ITEMS(fread, (void *buf, size_t size, size_t count, FILE *stream), (buf, size, count, stream))
ITEMS(fread_unlocked, (void *buf, size_t size, size_t count, FILE *stream),
      (buf, size, count, stream))
ITEMS(__fread_chk, (void *buf, size_t room, size_t size, size_t count, FILE *stream),
      (buf, room, size, count, stream))
ITEMS(__fread_unlocked_chk, (void *buf, size_t room, size_t size, size_t count, FILE *stream),
      (buf, room, size, count, stream))
ITEMS(fwrite, (const void *buf, size_t size, size_t count, FILE *stream),
      (buf, size, count, stream))
ITEMS(fwrite_unlocked, (const void *buf, size_t size, size_t count, FILE *stream),
      (buf, size, count, stream))
#undef ITEMS

#define FGETS(name, params, args)                                                          \
	char *pfw_wrap_##name params                                                       \
	{                                                                                  \
		struct pfw_probe probe;                                                    \
		struct before before;                                                      \
		int fd = pfw_stream_fd(stream);                                            \
		bool failed;                                                               \
		char *ret;                                                                 \
                                                                                           \
		if (fd < 0 || !pfw_probe_fd(&probe, PFW_CALL_##name, fd))                  \
			return pfw_real.name args;                                         \
		before = look(stream);                                                     \
		ret = pfw_real.name args;                                                  \
		failed = !ret && has_failed(stream, before);                               \
		pfw_probe_end(&probe, failed,                                              \
			      (const uint64_t[]){ failed ? (uint64_t)-1                    \
						  : ret	 ? strlen(ret)                     \
							 : 0,                               \
						  (uint64_t)fd, (uint64_t)(int64_t)size }, \
			      3);                                                          \
		return ret;                                                                \
	}

FGETS(fgets, (char *buf, int size, FILE *stream), (buf, size, stream))
FGETS(fgets_unlocked, (char *buf, int size, FILE *stream), (buf, size, stream))
FGETS(__fgets_chk, (char *buf, size_t room, int size, FILE *stream), (buf, room, size, stream))
FGETS(__fgets_unlocked_chk, (char *buf, size_t room, int size, FILE *stream),
      (buf, room, size, stream))
#undef FGETS

/* -1 without an error is the end of the file. */
static void line_end(const struct pfw_probe *probe, const FILE *stream, struct before before,
		     const uint64_t value[3], unsigned count)
{
	bool failed = (int64_t)value[0] == -1 &&
		      (!(stream->_flags & _IO_EOF_SEEN) || has_failed(stream, before));

	pfw_probe_end(probe, failed, value, count);
}

#define LINE(name, params, args, fields, field)                                                 \
	ssize_t pfw_wrap_##name params                                                          \
	{                                                                                       \
		struct pfw_probe probe;                                                         \
		struct before before;                                                           \
		int fd = pfw_stream_fd(stream);                                                 \
		ssize_t ret;                                                                    \
                                                                                                \
		if (fd < 0 || !pfw_probe_fd(&probe, PFW_CALL_##name, fd))                       \
			return pfw_real.name args;                                              \
		before = look(stream);                                                          \
		ret = pfw_real.name args;                                                       \
		line_end(&probe, stream, before,                                                \
			 (const uint64_t[]){ (uint64_t)ret, (uint64_t)fd, field }, 2 + fields); \
		return ret;                                                                     \
	}

LINE(getline, (char **line, size_t *room, FILE *stream), (line, room, stream), 0, 0)
LINE(getdelim, (char **line, size_t *room, int delimiter, FILE *stream),
     (line, room, delimiter, stream), 1, (uint64_t)(int64_t)delimiter)
LINE(__getdelim, (char **line, size_t *room, int delimiter, FILE *stream),
     (line, room, delimiter, stream), 1, (uint64_t)(int64_t)delimiter)
#undef LINE

/* ---- formats ---- */

/* PRINT(name, parameters, the last named one, descriptor, the call that takes a va_list): variable
 * arguments can be passed on in no other way. */
#define PRINT(name, params, last, descriptor, real_call)                                          \
	int pfw_wrap_##name params                                                                \
	{                                                                                         \
		struct pfw_probe probe;                                                           \
		int fd = descriptor, ret;                                                         \
		bool traced = fd >= 0 && pfw_probe_fd(&probe, PFW_CALL_##name, fd);               \
		va_list rest;                                                                     \
                                                                                                  \
		va_start(rest, last);                                                             \
		ret = pfw_real.real_call;                                                         \
		va_end(rest);                                                                     \
		if (traced)                                                                       \
			pfw_probe_end(&probe, ret < 0,                                            \
				      (const uint64_t[]){ (uint64_t)(int64_t)ret, (uint64_t)fd }, \
				      2);                                                         \
		return ret;                                                                       \
	}

PRINT(printf, (const char *format, ...), format, pfw_stream_fd(stdout), vprintf(format, rest))
PRINT(__printf_chk, (int flag, const char *format, ...), format, pfw_stream_fd(stdout),
      __vprintf_chk(flag, format, rest))
PRINT(fprintf, (FILE * stream, const char *format, ...), format, pfw_stream_fd(stream),
      vfprintf(stream, format, rest))
PRINT(__fprintf_chk, (FILE * stream, int flag, const char *format, ...), format,
      pfw_stream_fd(stream), __vfprintf_chk(stream, flag, format, rest))
PRINT(dprintf, (int file, const char *format, ...), format, file, vdprintf(file, format, rest))
PRINT(__dprintf_chk, (int file, int flag, const char *format, ...), format, file,
      __vdprintf_chk(file, flag, format, rest))
#undef PRINT
