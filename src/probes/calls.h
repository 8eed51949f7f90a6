/* calls.h - calls.def as types: an id, a real pointer and a wrapper for each wrapped call.
 *
 * calls.def has one row a call and is included once for each thing that a row must become; the
 * enum and the pointers come from here, templates from calls_table.c, regular wrappers from
 * calls.c, the exported names from preload.c.  Rows marked BY_HAND have their wrapper in posix.c
 * or stdio.c; a missing one does not link.
 */
#ifndef PFW_CALLS_H
#define PFW_CALLS_H

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>
#include <wchar.h>

/* Macros in the optimized headers of libc: they would be expanded in the rows' calls. */
#undef fread_unlocked
#undef fwrite_unlocked

/*
 * What glibc exports and no header declares without _FORTIFY_SOURCE, and the stat entry points of
 * programs linked before glibc 2.33.
 */
ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __pread_chk(int, void *, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void *, size_t, off64_t, size_t);
ssize_t __readlink_chk(const char *, char *, size_t, size_t);
ssize_t __readlinkat_chk(int, const char *, char *, size_t, size_t);
int __open_2(const char *, int);
int __open64_2(const char *, int);
int __openat_2(int, const char *, int);
int __openat64_2(int, const char *, int);
size_t __fread_chk(void *, size_t, size_t, size_t, FILE *);
size_t __fread_unlocked_chk(void *, size_t, size_t, size_t, FILE *);
char *__fgets_chk(char *, size_t, int, FILE *);
char *__fgets_unlocked_chk(char *, size_t, int, FILE *);
int __printf_chk(int, const char *, ...);
int __fprintf_chk(FILE *, int, const char *, ...);
int __vprintf_chk(int, const char *, va_list);
int __vfprintf_chk(FILE *, int, const char *, va_list);
int __dprintf_chk(int, int, const char *, ...);
int __vdprintf_chk(int, int, const char *, va_list);
int __xstat(int, const char *, struct stat *);
int __lxstat(int, const char *, struct stat *);
int __fxstat(int, int, struct stat *);
int __fxstatat(int, int, const char *, struct stat *, int);
int __xstat64(int, const char *, struct stat64 *);
int __lxstat64(int, const char *, struct stat64 *);
int __fxstat64(int, int, struct stat64 *);
int __fxstatat64(int, int, const char *, struct stat64 *, int);

enum pfw_call {
#define CALL_FD(category, ret, name, ...) PFW_CALL_##name,
#define CALL_PATH(category, ret, name, ...) PFW_CALL_##name,
#define CALL_STREAM(category, ret, name, ...) PFW_CALL_##name,
#define CALL_BY_HAND(category, ret, name, ...) PFW_CALL_##name,
#include "calls.def"
	PFW_CALL_COUNT
};

/* The next definition of each call behind ours, found by the preload object; NULL where this libc
 * has none.  Filled before any wrapper can run. */
struct pfw_real_calls {
#define CALL_FD(category, ret, name, ...) __typeof__(name) *name;
#define CALL_PATH(category, ret, name, ...) __typeof__(name) *name;
#define CALL_STREAM(category, ret, name, ...) __typeof__(name) *name;
#define CALL_BY_HAND(category, ret, name, ...) __typeof__(name) *name;
#include "calls.def"
};
extern struct pfw_real_calls pfw_real;

/* The wrappers: a prototype that differs from libc's does not compile. */
#define CALL_FD(category, ret, name, ...) __typeof__(name) pfw_wrap_##name;
#define CALL_PATH(category, ret, name, ...) __typeof__(name) pfw_wrap_##name;
#define CALL_STREAM(category, ret, name, ...) __typeof__(name) pfw_wrap_##name;
#define CALL_BY_HAND(category, ret, name, ...) __typeof__(name) pfw_wrap_##name;
#include "calls.def"

/* All wrappers, by id.  Thread: any. */
extern void *const pfw_wrappers[PFW_CALL_COUNT];

/* The descriptor behind a stream without calling into libc; -1 for memory and cookie streams. */
static inline int pfw_stream_fd(FILE *stream)
{
	return stream ? stream->_fileno : -1;
}

#endif
