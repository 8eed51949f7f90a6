/* recorder/wrap/stdio.c - wrappers of STDIO calls that need code.
 *
 * These calls close, take a format, or report failure otherwise than by -1.  Streams
 * without a descriptor (in memory, or with functions of the program) pass through.
 */
#define PFW_OS_NO_POISON
#include <string.h>

#include "recorder/wrap/calls.h"
#include "recorder/wrap/posix.h"

/* ---- close ---- */

/* Headers declare the stream nonnull, but endmntent() accepts NULL. */
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
		fd = pfw_stdio_fd(object);                                           \
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

/* The state of a stream and errno before a call. */
struct before {
	int flags;
	int error;
};

static struct before look(const FILE *stream)
{
	return (struct before){ .flags = stream->_flags, .error = errno };
}

/* Whether the call that has just returned failed.  The stream's error flag stays set from earlier
 * errors, and a short count may mean the end of the file. */
static bool has_failed(const FILE *stream, struct before before)
{
	return (stream->_flags & _IO_ERR_SEEN) &&
	       (!(before.flags & _IO_ERR_SEEN) || errno != before.error);
}

/* A call with its own rule for `failure`, an expression of `ret` and of `before`. */
#define LOOKED(type, name, params, args, on, failure, ...)                \
	type pfw_wrap_##name params                                       \
	{                                                                 \
		struct pfw_probe probe;                                   \
		struct before before;                                     \
		int fd = pfw_stdio_fd(on);                                \
		bool failed;                                              \
		type ret;                                                 \
                                                                          \
		if (fd < 0 || !pfw_probe_fd(&probe, PFW_CALL_##name, fd)) \
			return pfw_real.name args;                        \
		before = look(on);                                        \
		ret = pfw_real.name args;                                 \
		failed = failure;                                         \
		pfw_probe_end(&probe, failed, PFW_VALUES(__VA_ARGS__));   \
		return ret;                                               \
	}

#define ITEMS(name, params, args)                                                                  \
	LOOKED(size_t, name, params, args, stream, ret < count && has_failed(stream, before), ret, \
	       (uint64_t)fd, size, count)

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

#define FGETS(type, name, params, args, length)                                        \
	LOOKED(type *, name, params, args, stream, !ret && has_failed(stream, before), \
	       failed ? (uint64_t)-1                                                   \
	       : ret  ? length(ret)                                                    \
		      : 0,                                                              \
	       (uint64_t)fd, (uint64_t)size)

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

/*
 * For calls that return -1 also at the end of the file, and may fail without touching the stream.
 */
static bool not_at_end(const FILE *stream, struct before before)
{
	return !(stream->_flags & _IO_EOF_SEEN) || has_failed(stream, before);
}

#define LINE(name, params, args, ...)                                                        \
	LOOKED(ssize_t, name, params, args, stream, ret == -1 && not_at_end(stream, before), \
	       (uint64_t)ret, (uint64_t)fd, __VA_ARGS__)

LINE(getline, (char **line, size_t *room, FILE *stream), (line, room, stream))
LINE(getdelim, (char **line, size_t *room, int delimiter, FILE *stream),
     (line, room, delimiter, stream), (uint64_t)delimiter)
LINE(__getdelim, (char **line, size_t *room, int delimiter, FILE *stream),
     (line, room, delimiter, stream), (uint64_t)delimiter)
#undef LINE

/* gets() reads standard input, without a bound. */
#define GETS(name, params, args)                                                     \
	LOOKED(char *, name, params, args, stdin, !ret && has_failed(stdin, before), \
	       failed ? (uint64_t)-1                                                 \
	       : ret  ? strlen(ret)                                                  \
		      : 0,                                                            \
	       (uint64_t)fd)

GETS(gets, (char *buf), (buf))
GETS(_IO_gets, (char *buf), (buf))
GETS(__gets_chk, (char *buf, size_t room), (buf, room))
#undef GETS
#undef LOOKED

/* One character, read or (wide) written.  An untraced call leaves before any register is saved, as
 * in calls.c, since programs call these for every byte of a file. */
#define CHARACTER(type, name, params, args, on) TOLD(type, name, params, args, on, has_failed)
#define TOLD(type, name, params, args, on, failed)                           \
	static __attribute__((noinline)) type traced_##name params           \
	{                                                                    \
		struct pfw_probe probe;                                      \
		struct before before;                                        \
		int fd = pfw_stdio_fd(on);                                   \
		type ret;                                                    \
                                                                             \
		if (!pfw_probe_fd(&probe, PFW_CALL_##name, fd))              \
			return pfw_real.name args;                           \
		before = look(on);                                           \
		ret = pfw_real.name args;                                    \
		pfw_probe_end(&probe, (int)ret == -1 && failed(on, before),  \
			      PFW_VALUES((uint64_t)(int)ret, (uint64_t)fd)); \
		return ret;                                                  \
	}                                                                    \
	type pfw_wrap_##name params                                          \
	{                                                                    \
		int fd = pfw_stdio_fd(on);                                   \
                                                                             \
		if (fd < 0 || pfw_probe_fd_passes(fd))                       \
			return pfw_real.name args;                           \
		return traced_##name args;                                   \
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

/* ---- buffers and positions: calls without a result, or that fail without errno ---- */

#define SETVBUF(name)                                                                         \
	int pfw_wrap_##name(FILE *stream, char *buf, int mode, size_t size)                   \
	{                                                                                     \
		struct pfw_probe probe;                                                       \
		int fd = pfw_stdio_fd(stream);                                                \
		bool traced = fd >= 0 && pfw_probe_fd(&probe, PFW_CALL_##name, fd);           \
		int ret = pfw_real.name(stream, buf, mode, size);                             \
                                                                                              \
		if (traced)                                                                   \
			pfw_probe_end(&probe, false,                                          \
				      PFW_VALUES((uint64_t)ret, (uint64_t)fd, (uint64_t)mode, \
						 size));                                      \
		return ret;                                                                   \
	}

SETVBUF(setvbuf)
SETVBUF(_IO_setvbuf)
#undef SETVBUF

#define VOID(name, params, args, ...)                                                   \
	void pfw_wrap_##name params                                                     \
	{                                                                               \
		struct pfw_probe probe;                                                 \
		int fd = pfw_stdio_fd(stream);                                          \
		bool traced = fd >= 0 && pfw_probe_fd(&probe, PFW_CALL_##name, fd);     \
                                                                                        \
		pfw_real.name args;                                                     \
		if (traced)                                                             \
			pfw_end_void(&probe, PFW_VALUES(0, (uint64_t)fd, __VA_ARGS__)); \
	}

VOID(rewind, (FILE * stream), (stream))
VOID(setbuf, (FILE * stream, char *buf), (stream, buf))
VOID(setbuffer, (FILE * stream, char *buf, size_t size), (stream, buf, size), size)
VOID(_IO_setbuffer, (FILE * stream, char *buf, size_t size), (stream, buf, size), size)
VOID(setlinebuf, (FILE * stream), (stream))
#undef VOID

/* ---- formats ---- */

/* PRINT(name, parameters, descriptor, call that takes a va_list): variable
 * arguments can be passed on only as a va_list. */
#define PRINT(name, params, descriptor, real_call)                                               \
	int pfw_wrap_##name params                                                               \
	{                                                                                        \
		struct pfw_probe probe;                                                          \
		int fd = descriptor, ret;                                                        \
		bool traced = fd >= 0 && pfw_probe_fd(&probe, PFW_CALL_##name, fd);              \
		va_list rest;                                                                    \
                                                                                                 \
		va_start(rest, format);                                                          \
		ret = pfw_real.real_call;                                                        \
		va_end(rest);                                                                    \
		if (traced)                                                                      \
			pfw_probe_end(&probe, ret < 0, PFW_VALUES((uint64_t)ret, (uint64_t)fd)); \
		return ret;                                                                      \
	}

PRINT(printf, (const char *format, ...), pfw_stdio_fd(stdout), vprintf(format, rest))
PRINT(__printf_chk, (int flag, const char *format, ...), pfw_stdio_fd(stdout),
      __vprintf_chk(flag, format, rest))
PRINT(_IO_printf, (const char *format, ...), pfw_stdio_fd(stdout), vprintf(format, rest))
PRINT(fprintf, (FILE * stream, const char *format, ...), pfw_stdio_fd(stream),
      vfprintf(stream, format, rest))
PRINT(__fprintf_chk, (FILE * stream, int flag, const char *format, ...), pfw_stdio_fd(stream),
      __vfprintf_chk(stream, flag, format, rest))
PRINT(_IO_fprintf, (FILE * stream, const char *format, ...), pfw_stdio_fd(stream),
      vfprintf(stream, format, rest))
PRINT(wprintf, (const wchar_t *format, ...), pfw_stdio_fd(stdout), vwprintf(format, rest))
PRINT(__wprintf_chk, (int flag, const wchar_t *format, ...), pfw_stdio_fd(stdout),
      __vwprintf_chk(flag, format, rest))
PRINT(fwprintf, (FILE * stream, const wchar_t *format, ...), pfw_stdio_fd(stream),
      vfwprintf(stream, format, rest))
PRINT(__fwprintf_chk, (FILE * stream, int flag, const wchar_t *format, ...), pfw_stdio_fd(stream),
      __vfwprintf_chk(stream, flag, format, rest))
PRINT(dprintf, (int file, const char *format, ...), file, vdprintf(file, format, rest))
PRINT(__dprintf_chk, (int file, int flag, const char *format, ...), file,
      __vdprintf_chk(file, flag, format, rest))
#undef PRINT

/* SCAN(standard, w for wide characters): both calls that take a va_list, then the variadic ones. */
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

#define SCAN_REST(name, params, on, real_call)                                      \
	int pfw_wrap_##name params                                                  \
	{                                                                           \
		struct pfw_probe probe;                                             \
		struct before before = look(on);                                    \
		int fd = pfw_stdio_fd(on), ret;                                     \
		bool traced = fd >= 0 && pfw_probe_fd(&probe, PFW_CALL_##name, fd); \
		va_list rest;                                                       \
                                                                                    \
		va_start(rest, format);                                             \
		ret = pfw_real.real_call;                                           \
		va_end(rest);                                                       \
		if (traced)                                                         \
			pfw_probe_end(&probe, ret == -1 && not_at_end(on, before),  \
				      PFW_VALUES((uint64_t)ret, (uint64_t)fd));     \
		return ret;                                                         \
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
