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
FOPEN(_IO_fopen)
FOPEN(setmntent)
FOPEN(__setmntent)
#undef FOPEN

#define FDOPEN(name)                                                                    \
	FILE *pfw_wrap_##name(int fd, const char *mode)                                 \
	{                                                                               \
		struct pfw_probe probe;                                                 \
		FILE *stream;                                                           \
                                                                                        \
		if (!pfw_probe_fd(&probe, PFW_CALL_##name, fd))                         \
			return pfw_real.name(fd, mode);                                 \
		stream = pfw_real.name(fd, mode);                                       \
		pfw_probe_end(&probe, !stream,                                          \
			      (const uint64_t[]){ stream ? (uint64_t)fd : (uint64_t)-1, \
						  (uint64_t)(int64_t)fd,                \
						  (uint64_t)mode_flags(mode) },         \
			      3);                                                       \
		return stream;                                                          \
	}

FDOPEN(fdopen)
FDOPEN(_IO_fdopen)
#undef FDOPEN

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

/* Headers say that the stream cannot be NULL, but endmntent() takes it. */
#define FCLOSE(name)                                                                 \
	static int real_##name(void *stream)                                         \
	{                                                                            \
		return pfw_real.name(stream);                                        \
	}                                                                            \
	int pfw_wrap_##name(FILE *stream)                                            \
	{                                                                            \
		void *object = stream;                                               \
		int fd;                                                              \
                                                                                     \
		__asm__("" : "+r"(object));                                          \
		fd = pfw_stream_fd(object);                                          \
		return fd >= 0 ? pfw_close(PFW_CALL_##name, fd, real_##name, object) \
			       : real_##name(object);                                \
	}

FCLOSE(fclose)
FCLOSE(_IO_fclose)
FCLOSE(endmntent)
FCLOSE(__endmntent)
FCLOSE(pclose)
#undef FCLOSE

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
ITEMS(_IO_fread, (void *buf, size_t size, size_t count, FILE *stream), (buf, size, count, stream))
ITEMS(fread_unlocked, (void *buf, size_t size, size_t count, FILE *stream),
      (buf, size, count, stream))
ITEMS(__fread_chk, (void *buf, size_t room, size_t size, size_t count, FILE *stream),
      (buf, room, size, count, stream))
ITEMS(__fread_unlocked_chk, (void *buf, size_t room, size_t size, size_t count, FILE *stream),
      (buf, room, size, count, stream))
ITEMS(fwrite, (const void *buf, size_t size, size_t count, FILE *stream),
      (buf, size, count, stream))
ITEMS(_IO_fwrite, (const void *buf, size_t size, size_t count, FILE *stream),
      (buf, size, count, stream))
ITEMS(fwrite_unlocked, (const void *buf, size_t size, size_t count, FILE *stream),
      (buf, size, count, stream))
#undef ITEMS

#define FGETS(type, name, params, args, length)                                            \
	type *pfw_wrap_##name params                                                       \
	{                                                                                  \
		struct pfw_probe probe;                                                    \
		struct before before;                                                      \
		int fd = pfw_stream_fd(stream);                                            \
		bool failed;                                                               \
		type *ret;                                                                 \
                                                                                           \
		if (fd < 0 || !pfw_probe_fd(&probe, PFW_CALL_##name, fd))                  \
			return pfw_real.name args;                                         \
		before = look(stream);                                                     \
		ret = pfw_real.name args;                                                  \
		failed = !ret && has_failed(stream, before);                               \
		pfw_probe_end(&probe, failed,                                              \
			      (const uint64_t[]){ failed ? (uint64_t)-1                    \
						  : ret	 ? length(ret)                     \
							 : 0,                               \
						  (uint64_t)fd, (uint64_t)(int64_t)size }, \
			      3);                                                          \
		return ret;                                                                \
	}

FGETS(char, fgets, (char *buf, int size, FILE *stream), (buf, size, stream), strlen)
FGETS(char, _IO_fgets, (char *buf, int size, FILE *stream), (buf, size, stream), strlen)
FGETS(char, fgets_unlocked, (char *buf, int size, FILE *stream), (buf, size, stream), strlen)
FGETS(char, __fgets_chk, (char *buf, size_t room, int size, FILE *stream),
      (buf, room, size, stream), strlen)
FGETS(char, __fgets_unlocked_chk, (char *buf, size_t room, int size, FILE *stream),
      (buf, room, size, stream), strlen)
FGETS(wchar_t, fgetws, (wchar_t * buf, int size, FILE *stream), (buf, size, stream), wcslen)
FGETS(wchar_t, fgetws_unlocked, (wchar_t * buf, int size, FILE *stream), (buf, size, stream),
      wcslen)
FGETS(wchar_t, __fgetws_chk, (wchar_t * buf, size_t room, int size, FILE *stream),
      (buf, room, size, stream), wcslen)
FGETS(wchar_t, __fgetws_unlocked_chk, (wchar_t * buf, size_t room, int size, FILE *stream),
      (buf, room, size, stream), wcslen)
#undef FGETS

/* Of calls that give -1 at the end of the file as well, and fail without touching the stream, too. */
static bool not_at_end(const FILE *stream, struct before before)
{
	return !(stream->_flags & _IO_EOF_SEEN) || has_failed(stream, before);
}

#define LINE(name, params, args, fields, field)                                         \
	ssize_t pfw_wrap_##name params                                                  \
	{                                                                               \
		struct pfw_probe probe;                                                 \
		struct before before;                                                   \
		int fd = pfw_stream_fd(stream);                                         \
		ssize_t ret;                                                            \
                                                                                        \
		if (fd < 0 || !pfw_probe_fd(&probe, PFW_CALL_##name, fd))               \
			return pfw_real.name args;                                      \
		before = look(stream);                                                  \
		ret = pfw_real.name args;                                               \
		pfw_probe_end(&probe, ret == -1 && not_at_end(stream, before),          \
			      (const uint64_t[]){ (uint64_t)ret, (uint64_t)fd, field }, \
			      2 + fields);                                              \
		return ret;                                                             \
	}

LINE(getline, (char **line, size_t *room, FILE *stream), (line, room, stream), 0, 0)
LINE(getdelim, (char **line, size_t *room, int delimiter, FILE *stream),
     (line, room, delimiter, stream), 1, (uint64_t)(int64_t)delimiter)
LINE(__getdelim, (char **line, size_t *room, int delimiter, FILE *stream),
     (line, room, delimiter, stream), 1, (uint64_t)(int64_t)delimiter)
#undef LINE

/* Of standard input, without a bound. */
#define GETS(name, params, args)                                          \
	char *pfw_wrap_##name params                                      \
	{                                                                 \
		struct pfw_probe probe;                                   \
		struct before before;                                     \
		int fd = pfw_stream_fd(stdin);                            \
		bool failed;                                              \
		char *ret;                                                \
                                                                          \
		if (fd < 0 || !pfw_probe_fd(&probe, PFW_CALL_##name, fd)) \
			return pfw_real.name args;                        \
		before = look(stdin);                                     \
		ret = pfw_real.name args;                                 \
		failed = !ret && has_failed(stdin, before);               \
		pfw_probe_end(&probe, failed,                             \
			      (const uint64_t[]){ failed ? (uint64_t)-1   \
						  : ret	 ? strlen(ret)    \
							 : 0,              \
						  (uint64_t)fd },         \
			      2);                                         \
		return ret;                                               \
	}

GETS(gets, (char *buf), (buf))
GETS(_IO_gets, (char *buf), (buf))
GETS(__gets_chk, (char *buf, size_t room), (buf, room))
#undef GETS

/*
 * One character, read or (wide) written.  The call on a stream that is not traced leaves before
 * anything is saved, as in calls.c: it is made for every byte of a file.
 */
#define CHARACTER(type, name, params, args, on) TOLD(type, name, params, args, on, has_failed)
#define TOLD(type, name, params, args, on, failed)                                                 \
	static __attribute__((noinline)) type traced_##name params                                 \
	{                                                                                          \
		struct pfw_probe probe;                                                            \
		struct before before;                                                              \
		int fd = pfw_stream_fd(on);                                                        \
		type ret;                                                                          \
                                                                                                   \
		if (!pfw_probe_fd(&probe, PFW_CALL_##name, fd))                                    \
			return pfw_real.name args;                                                 \
		before = look(on);                                                                 \
		ret = pfw_real.name args;                                                          \
		pfw_probe_end(&probe, (int)ret == -1 && failed(on, before),                        \
			      (const uint64_t[]){ (uint64_t)(int64_t)(int)ret, (uint64_t)fd }, 2); \
		return ret;                                                                        \
	}                                                                                          \
	type pfw_wrap_##name params                                                                \
	{                                                                                          \
		int fd = pfw_stream_fd(on);                                                        \
                                                                                                   \
		if (fd < 0 || pfw_probe_fd_passes(fd))                                             \
			return pfw_real.name args;                                                 \
		return traced_##name args;                                                         \
	}

CHARACTER(int, fgetc, (FILE * stream), (stream), stream)
CHARACTER(int, fgetc_unlocked, (FILE * stream), (stream), stream)
CHARACTER(int, getc, (FILE * stream), (stream), stream)
CHARACTER(int, getc_unlocked, (FILE * stream), (stream), stream)
CHARACTER(int, _IO_getc, (FILE * stream), (stream), stream)
CHARACTER(int, __uflow, (FILE * stream), (stream), stream)
CHARACTER(int, getchar, (void), (), stdin)
CHARACTER(int, getchar_unlocked, (void), (), stdin)
CHARACTER(int, getw, (FILE * stream), (stream), stream)
CHARACTER(wint_t, fgetwc, (FILE * stream), (stream), stream)
CHARACTER(wint_t, fgetwc_unlocked, (FILE * stream), (stream), stream)
CHARACTER(wint_t, getwc, (FILE * stream), (stream), stream)
CHARACTER(wint_t, getwc_unlocked, (FILE * stream), (stream), stream)
CHARACTER(wint_t, __wuflow, (FILE * stream), (stream), stream)
CHARACTER(wint_t, getwchar, (void), (), stdin)
CHARACTER(wint_t, getwchar_unlocked, (void), (), stdin)
CHARACTER(wint_t, fputwc, (wchar_t character, FILE *stream), (character, stream), stream)
CHARACTER(wint_t, fputwc_unlocked, (wchar_t character, FILE *stream), (character, stream), stream)
CHARACTER(wint_t, putwc, (wchar_t character, FILE *stream), (character, stream), stream)
CHARACTER(wint_t, putwc_unlocked, (wchar_t character, FILE *stream), (character, stream), stream)
CHARACTER(wint_t, __woverflow, (FILE * stream, wint_t character), (stream, character), stream)
CHARACTER(wint_t, putwchar, (wchar_t character), (character), stdout)
CHARACTER(wint_t, putwchar_unlocked, (wchar_t character), (character), stdout)
CHARACTER(wint_t, ungetwc, (wint_t character, FILE *stream), (character, stream), stream)
CHARACTER(int, ungetc, (int character, FILE *stream), (character, stream), stream)
CHARACTER(int, _IO_ungetc, (int character, FILE *stream), (character, stream), stream)
#undef CHARACTER

/* ---- buffers and positions: calls that return nothing, or fail without errno ---- */

#define SETVBUF(name)                                                                           \
	int pfw_wrap_##name(FILE *stream, char *buf, int mode, size_t size)                     \
	{                                                                                       \
		struct pfw_probe probe;                                                         \
		int fd = pfw_stream_fd(stream);                                                 \
		bool traced = fd >= 0 && pfw_probe_fd(&probe, PFW_CALL_##name, fd);             \
		int ret = pfw_real.name(stream, buf, mode, size);                               \
                                                                                                \
		if (traced)                                                                     \
			pfw_probe_end(&probe, false,                                            \
				      (const uint64_t[]){ (uint64_t)(int64_t)ret, (uint64_t)fd, \
							  (uint64_t)(int64_t)mode, size },      \
				      4);                                                       \
		return ret;                                                                     \
	}

SETVBUF(setvbuf)
SETVBUF(_IO_setvbuf)
#undef SETVBUF

#define VOID(name, params, args, count, ...)                                        \
	void pfw_wrap_##name params                                                 \
	{                                                                           \
		struct pfw_probe probe;                                             \
		int fd = pfw_stream_fd(stream);                                     \
		const uint64_t value[] = { 0, (uint64_t)fd, __VA_ARGS__ };          \
		const struct pfw_ending ending = { .value = value,                  \
						   .value_count = 2 + (count),      \
						   .flags = PFW_RECORD_NO_RET };    \
		bool traced = fd >= 0 && pfw_probe_fd(&probe, PFW_CALL_##name, fd); \
                                                                                    \
		pfw_real.name args;                                                 \
		if (traced)                                                         \
			pfw_probe_end_full(&probe, &ending);                        \
	}

VOID(rewind, (FILE * stream), (stream), 0, 0)
VOID(setbuf, (FILE * stream, char *buf), (stream, buf), 0, 0)
VOID(setbuffer, (FILE * stream, char *buf, size_t size), (stream, buf, size), 1, size)
VOID(_IO_setbuffer, (FILE * stream, char *buf, size_t size), (stream, buf, size), 1, size)
VOID(setlinebuf, (FILE * stream), (stream), 0, 0)
#undef VOID

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
PRINT(_IO_printf, (const char *format, ...), format, pfw_stream_fd(stdout), vprintf(format, rest))
PRINT(fprintf, (FILE * stream, const char *format, ...), format, pfw_stream_fd(stream),
      vfprintf(stream, format, rest))
PRINT(__fprintf_chk, (FILE * stream, int flag, const char *format, ...), format,
      pfw_stream_fd(stream), __vfprintf_chk(stream, flag, format, rest))
PRINT(_IO_fprintf, (FILE * stream, const char *format, ...), format, pfw_stream_fd(stream),
      vfprintf(stream, format, rest))
PRINT(wprintf, (const wchar_t *format, ...), format, pfw_stream_fd(stdout), vwprintf(format, rest))
PRINT(__wprintf_chk, (int flag, const wchar_t *format, ...), format, pfw_stream_fd(stdout),
      __vwprintf_chk(flag, format, rest))
PRINT(fwprintf, (FILE * stream, const wchar_t *format, ...), format, pfw_stream_fd(stream),
      vfwprintf(stream, format, rest))
PRINT(__fwprintf_chk, (FILE * stream, int flag, const wchar_t *format, ...), format,
      pfw_stream_fd(stream), __vfwprintf_chk(stream, flag, format, rest))
PRINT(dprintf, (int file, const char *format, ...), format, file, vdprintf(file, format, rest))
PRINT(__dprintf_chk, (int file, int flag, const char *format, ...), format, file,
      __vdprintf_chk(file, flag, format, rest))
#undef PRINT

/* SCAN(standard, w: of wide characters): both calls that have a list, then those that come to them. */
#define SCAN(standard, wide, character)                                                            \
	TOLD(int, standard##v##wide##scanf, (const character *format, va_list args),               \
	     (format, args), stdin, not_at_end)                                                    \
	TOLD(int, standard##vf##wide##scanf,                                                       \
	     (FILE * stream, const character *format, va_list args), (stream, format, args),       \
	     stream, not_at_end)                                                                   \
	SCAN_REST(standard##wide##scanf, (const character *format, ...), stdin,                    \
		  standard##v##wide##scanf(format, rest))                                          \
	SCAN_REST(standard##f##wide##scanf, (FILE * stream, const character *format, ...), stream, \
		  standard##vf##wide##scanf(stream, format, rest))

#define SCAN_REST(name, params, on, real_call)                                                    \
	int pfw_wrap_##name params                                                                \
	{                                                                                         \
		struct pfw_probe probe;                                                           \
		struct before before = look(on);                                                  \
		int fd = pfw_stream_fd(on), ret;                                                  \
		bool traced = fd >= 0 && pfw_probe_fd(&probe, PFW_CALL_##name, fd);               \
		va_list rest;                                                                     \
                                                                                                  \
		va_start(rest, format);                                                           \
		ret = pfw_real.real_call;                                                         \
		va_end(rest);                                                                     \
		if (traced)                                                                       \
			pfw_probe_end(&probe, ret == -1 && not_at_end(on, before),                \
				      (const uint64_t[]){ (uint64_t)(int64_t)ret, (uint64_t)fd }, \
				      2);                                                         \
		return ret;                                                                       \
	}

SCAN(, , char)
SCAN(, w, wchar_t)
SCAN(__isoc99_, , char)
SCAN(__isoc99_, w, wchar_t)
SCAN(__isoc23_, , char)
SCAN(__isoc23_, w, wchar_t)
#undef SCAN
#undef SCAN_REST
#undef TOLD
