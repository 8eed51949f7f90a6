/* recorder/wrap/calls.h - calls.def as types: an id, a real function and a wrapper per call.
 *
 * Room recorder/wrap: one wrapper for each wrapped call.  It may use recorder/probe and the rooms
 * before it, never the writer or the encoder.  Start with calls.c (regular wrappers), then open.c.
 *
 * common/calls/calls.def has one row per call and is included once for each thing that a row
 * becomes: the enum and the pointers here, templates in common/calls/table.c, regular wrappers in
 * calls.c, exported names in preload/preload.c.  Each row marked BY_HAND has its wrapper in another
 * file of this room; a missing wrapper does not link.
 */
#pragma once

#include <aio.h>
#include <dirent.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <linux/capability.h>
#include <mntent.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>
#include <utmp.h>
#include <wchar.h>

/* libc's optimising headers define these as macros, which would expand in the rows' calls. */
#undef fread_unlocked
#undef fwrite_unlocked
#undef getc
#undef putc

/*
 * Functions that glibc exports without a declaration: targets of _FORTIFY_SOURCE and of macros and
 * redirections in headers, entry points of old programs, and other names that libc and related
 * libraries call.
 */
ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __pread_chk(int, void *, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void *, size_t, off64_t, size_t);
ssize_t __readlink_chk(const char *, char *, size_t, size_t);
ssize_t __readlinkat_chk(int, const char *, char *, size_t, size_t);
char *__realpath_chk(const char *, char *, size_t);
int __open_2(const char *, int);
int __open64_2(const char *, int);
int __openat_2(int, const char *, int);
int __openat64_2(int, const char *, int);
size_t __fread_chk(void *, size_t, size_t, size_t, FILE *);
size_t __fread_unlocked_chk(void *, size_t, size_t, size_t, FILE *);
char *__fgets_chk(char *, size_t, int, FILE *);
char *__fgets_unlocked_chk(char *, size_t, int, FILE *);
char *__gets_chk(char *, size_t);
char *gets(char *);
wchar_t *__fgetws_chk(wchar_t *, size_t, int, FILE *);
wchar_t *__fgetws_unlocked_chk(wchar_t *, size_t, int, FILE *);
int __printf_chk(int, const char *, ...);
int __fprintf_chk(FILE *, int, const char *, ...);
int __vprintf_chk(int, const char *, va_list);
int __vfprintf_chk(FILE *, int, const char *, va_list);
int __dprintf_chk(int, int, const char *, ...);
int __vdprintf_chk(int, int, const char *, va_list);
int __wprintf_chk(int, const wchar_t *, ...);
int __fwprintf_chk(FILE *, int, const wchar_t *, ...);
int __vwprintf_chk(int, const wchar_t *, va_list);
int __vfwprintf_chk(FILE *, int, const wchar_t *, va_list);

/* The C standard that a program is compiled for selects one of these. */
#define SCANF_OF(standard)                                         \
	int __##standard##_scanf(const char *, ...);               \
	int __##standard##_fscanf(FILE *, const char *, ...);      \
	int __##standard##_vscanf(const char *, va_list);          \
	int __##standard##_vfscanf(FILE *, const char *, va_list); \
	int __##standard##_wscanf(const wchar_t *, ...);           \
	int __##standard##_fwscanf(FILE *, const wchar_t *, ...);  \
	int __##standard##_vwscanf(const wchar_t *, va_list);      \
	int __##standard##_vfwscanf(FILE *, const wchar_t *, va_list);
SCANF_OF(isoc99)
SCANF_OF(isoc23)
#undef SCANF_OF

int __xstat(int, const char *, struct stat *);
int __lxstat(int, const char *, struct stat *);
int __fxstat(int, int, struct stat *);
int __fxstatat(int, int, const char *, struct stat *, int);
int __xstat64(int, const char *, struct stat64 *);
int __lxstat64(int, const char *, struct stat64 *);
int __fxstat64(int, int, struct stat64 *);
int __fxstatat64(int, int, const char *, struct stat64 *, int);
int __xmknod(int, const char *, mode_t, dev_t *);
int __xmknodat(int, int, const char *, mode_t, dev_t *);

ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, __SOCKADDR_ARG, socklen_t *);
int __poll_chk(struct pollfd *, nfds_t, int, size_t);
int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);
int __poll(struct pollfd *, nfds_t, int);
int __select(int, fd_set *, fd_set *, fd_set *, struct timeval *);
int __connect(int, __CONST_SOCKADDR_ARG, socklen_t);
ssize_t __send(int, const void *, size_t, int);

int __open(const char *, int, ...);
int __open64(const char *, int, ...);
int __close(int);
ssize_t __read(int, void *, size_t);
ssize_t __write(int, const void *, size_t);
ssize_t __pread64(int, void *, size_t, off64_t);
ssize_t __pwrite64(int, const void *, size_t, off64_t);
off_t __lseek(int, off_t, int);
int __fcntl(int, int, ...);
int __dup2(int, int);
int __pipe(int[2]);
int __statfs(const char *, struct statfs *);
pid_t __fork(void);
pid_t __vfork(void) __attribute__((returns_twice));
int __clone(int (*)(void *), void *, int, void *, ...);
FILE *__setmntent(const char *, const char *);
int __endmntent(FILE *);
int capset(cap_user_header_t, const cap_user_data_t);
FILE *_IO_fopen(const char *, const char *);
FILE *_IO_fdopen(int, const char *);
FILE *_IO_popen(const char *, const char *);
int _IO_fclose(FILE *);
int _IO_fflush(FILE *);
long _IO_ftell(FILE *);
size_t _IO_fread(void *, size_t, size_t, FILE *);
size_t _IO_fwrite(const void *, size_t, size_t, FILE *);
char *_IO_fgets(char *, int, FILE *);
char *_IO_gets(char *);
int _IO_fputs(const char *, FILE *);
int _IO_puts(const char *);
int _IO_getc(FILE *);
int _IO_putc(int, FILE *);
int _IO_ungetc(int, FILE *);
int _IO_fgetpos(FILE *, fpos_t *);
int _IO_fgetpos64(FILE *, fpos64_t *);
int _IO_fsetpos(FILE *, const fpos_t *);
int _IO_fsetpos64(FILE *, const fpos64_t *);
int _IO_setvbuf(FILE *, char *, int, size_t);
void _IO_setbuffer(FILE *, char *, size_t);
int _IO_printf(const char *, ...);
int _IO_fprintf(FILE *, const char *, ...);
int _IO_vfprintf(FILE *, const char *, va_list);
int __uflow(FILE *);
int __overflow(FILE *, int);
wint_t __wuflow(FILE *);
wint_t __woverflow(FILE *, wint_t);

enum pfw_call {
#define CALL_ANY(category, ret, name, ...) PFW_CALL_##name,
#include "common/calls/calls.def"
	PFW_CALL_COUNT
};

/* The next definition of each call after ours, found by the preload object; NULL if this libc has
 * none.  Filled before any wrapper can run. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* programs call them in spite of it */
struct pfw_real_calls {
#define CALL_ANY(category, ret, name, ...) __typeof__(name) *name;
#include "common/calls/calls.def"
};
extern struct pfw_real_calls pfw_real;

/* The wrappers.  A prototype that differs from libc's does not compile. */
#define CALL_ANY(category, ret, name, ...) __typeof__(name) pfw_wrap_##name;
#include "common/calls/calls.def"
#pragma GCC diagnostic pop

/* All wrappers, by id.  Thread: any. */
extern void *const pfw_wrappers[PFW_CALL_COUNT];

/* The descriptor of a stream, without a call of libc; -1 for memory and cookie streams. */
static inline int pfw_stdio_fd(FILE *stream)
{
	return stream ? stream->_fileno : -1;
}

/* The values of a record, and how many there are: two arguments. */
#define PFW_VALUES(...)                    \
	(const uint64_t[]){ __VA_ARGS__ }, \
		sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t)
