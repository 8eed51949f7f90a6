/* common/base/os.h - raw system calls for tracer code, in place of interposed functions.
 *
 * Room common/base: helpers that are safe inside a traced program: system calls, text, units,
 * globs.  It uses nothing but libc's headers.  Start here, then text.h.
 *
 * If tracer code called libc's `open` or `write`, the call would reach our own wrapper and count as
 * the program's; another preload might also replace it.  The functions below enter the kernel
 * directly, never touch errno and return -errno on failure.
 * Thread: any.  Signal: safe, all of them.  Fork: no state.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "common/base/maps.h"
#include "common/base/tsan.h"

#define PFW_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define PFW_LIKELY(x) __builtin_expect(!!(x), 1)
#define PFW_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* The same number on all processors; older headers lack it. */
#define PFW_SYS_LANDLOCK_RESTRICT_SELF 446

/* One system call with up to six arguments; returns the kernel's result, -errno on failure. */
static inline long pfw_syscall6(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	long result;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
#else
#error "pfw: no raw system call for this processor yet: add it to src/common/base/os.h"
#endif
}

static inline int pfw_os_close(int fd)
{
	return (int)pfw_syscall6(SYS_close, fd, 0, 0, 0, 0, 0);
}

/* The thread that has a descriptor table of its own (recorder/writer/files.c), and a thread that it
 * created, which shares the table; 0 = none. */
extern _Atomic int32_t pfw_os_own_table, pfw_os_own_table_guest;

/* Never returns 0, 1 or 2 of the program's table: it may still write there if it closed them. */
static inline int pfw_os_open(const char *path, int flags, mode_t mode)
{
	int low =
		(int)pfw_syscall6(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, mode, 0, 0);
	int fd = low;

	if (low >= 0 && low <= 2 &&
	    pfw_os_own_table != (int32_t)pfw_syscall6(SYS_gettid, 0, 0, 0, 0, 0, 0)) {
		fd = (int)pfw_syscall6(SYS_fcntl, low, F_DUPFD_CLOEXEC, 3, 0, 0, 0);
		pfw_os_close(low);
		if (fd < 0 && flags & O_EXCL) /* we created it: nobody else knows it */
			pfw_syscall6(SYS_unlinkat, AT_FDCWD, (long)path, 0, 0, 0, 0);
	}
	return fd;
}

static inline ssize_t pfw_os_read(int fd, void *buf, size_t count)
{
	return pfw_syscall6(SYS_read, fd, (long)buf, (long)count, 0, 0, 0);
}

static inline ssize_t pfw_os_pread(int fd, void *buf, size_t count, uint64_t offset)
{
	return pfw_syscall6(SYS_pread64, fd, (long)buf, (long)count, (long)offset, 0, 0);
}

static inline ssize_t pfw_os_pwrite(int fd, const void *buf, size_t count, uint64_t offset)
{
	return pfw_syscall6(SYS_pwrite64, fd, (long)buf, (long)count, (long)offset, 0, 0);
}

static inline int pfw_os_fstat(int fd, struct stat *st)
{
	return (int)pfw_syscall6(SYS_newfstatat, fd, (long)"", (long)st, AT_EMPTY_PATH, 0, 0);
}

static inline int pfw_os_ftruncate(int fd, uint64_t size)
{
	return (int)pfw_syscall6(SYS_ftruncate, fd, (long)size, 0, 0, 0, 0);
}

static inline int pfw_os_fallocate(int fd, uint64_t offset, uint64_t bytes)
{
	return (int)pfw_syscall6(SYS_fallocate, fd, 0, (long)offset, (long)bytes, 0, 0);
}

static inline int pfw_os_unlink(const char *path)
{
	return (int)pfw_syscall6(SYS_unlinkat, AT_FDCWD, (long)path, 0, 0, 0, 0);
}

/* Rename without replacing; -ENOSYS or -EINVAL where the file system cannot promise that. */
static inline int pfw_os_rename_noreplace(const char *from, const char *to)
{
	return (int)pfw_syscall6(SYS_renameat2, AT_FDCWD, (long)from, AT_FDCWD, (long)to, 1, 0);
}

static inline int pfw_os_link(int fd, const char *from, const char *to, int flags)
{
	return (int)pfw_syscall6(SYS_linkat, fd, (long)from, AT_FDCWD, (long)to, flags, 0);
}

static inline ssize_t pfw_os_readlink(const char *path, char *buf, size_t size)
{
	return pfw_syscall6(SYS_readlinkat, AT_FDCWD, (long)path, (long)buf, (long)size, 0, 0);
}

/* Write the working directory into buf; return its length without the NUL, or -errno. */
static inline ssize_t pfw_os_getcwd(char *buf, size_t size)
{
	long n = pfw_syscall6(SYS_getcwd, (long)buf, (long)size, 0, 0, 0, 0);

	return n > 0 ? n - 1 : n;
}

static inline void *pfw_os_mmap(size_t bytes, int prot, int flags, int fd, uint64_t offset)
{
	long p = pfw_syscall6(SYS_mmap, 0, (long)bytes, prot, flags, fd, (long)offset);

	if (p < 0 && p > -4096)
		return NULL;
	pfw_maps_add((void *)p, bytes);
	return (void *)p;
}

/* Zeroed memory of this process. */
static inline void *pfw_os_map(size_t bytes)
{
	return pfw_os_mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static inline int pfw_os_munmap(void *p, size_t bytes)
{
	pfw_maps_remove(p); /* before another thread's mapping can be there */
	return (int)pfw_syscall6(SYS_munmap, (long)p, (long)bytes, 0, 0, 0, 0);
}

static inline int pfw_os_madvise(void *p, size_t bytes, int advice)
{
	return (int)pfw_syscall6(SYS_madvise, (long)p, (long)bytes, advice, 0, 0, 0);
}

static inline int pfw_os_mprotect(void *p, size_t bytes, int prot)
{
	return (int)pfw_syscall6(SYS_mprotect, (long)p, (long)bytes, prot, 0, 0, 0);
}

/* Page size of this machine: 4, 16 or 64 KiB. */
static inline size_t pfw_os_page_bytes(void)
{
	return (size_t)getpagesize(); /* from the auxiliary vector: no system call */
}

static inline size_t pfw_os_whole_pages(size_t bytes)
{
	return (bytes + pfw_os_page_bytes() - 1) & ~(pfw_os_page_bytes() - 1);
}

static inline pid_t pfw_os_getpid(void)
{
	return (pid_t)pfw_syscall6(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

static inline pid_t pfw_os_getppid(void)
{
	return (pid_t)pfw_syscall6(SYS_getppid, 0, 0, 0, 0, 0, 0);
}

static inline pid_t pfw_os_gettid(void)
{
	return (pid_t)pfw_syscall6(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

/* Sleep while *word == expected, at most timeout_ns (0 = no limit).  May return early. */
static inline void pfw_os_futex_wait_as(const uint32_t *word, int operation, uint32_t expected,
					uint64_t timeout_ns)
{
	struct timespec ts = { (time_t)(timeout_ns / 1000000000), (long)(timeout_ns % 1000000000) };

	pfw_syscall6(SYS_futex, (long)word, operation, expected, (long)(timeout_ns ? &ts : NULL), 0,
		     0);
}

static inline void pfw_os_futex_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
	pfw_os_futex_wait_as(word, FUTEX_WAIT_PRIVATE, expected, timeout_ns);
}

static inline void pfw_os_futex_wake(const uint32_t *word, int count)
{
	pfw_syscall6(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, count, 0, 0, 0);
}

/* A lock: 0 free, 1 held, 2 held and perhaps wanted.  Who has waited takes it as 2, as others may
 * still wait: so each release wakes the next one.  The time limit is long, as of thousands of
 * threads that wait each one would use it. */
static inline void pfw_os_lock(_Atomic uint32_t *lock)
{
	uint32_t none = 0;

	if (atomic_compare_exchange_strong(lock, &none, 1))
		return;
	while (atomic_exchange(lock, 2))
		pfw_os_futex_wait((const uint32_t *)lock, 2, 1000000000);
}

static inline void pfw_os_unlock(_Atomic uint32_t *lock)
{
	if (atomic_exchange(lock, 0) == 2)
		pfw_os_futex_wake((const uint32_t *)lock, 1);
}

/* Futexes shared between processes. */
static inline void pfw_os_futex_wake_shared(const uint32_t *word, int count)
{
	pfw_syscall6(SYS_futex, (long)word, FUTEX_WAKE, count, 0, 0, 0);
}

static inline void pfw_os_futex_wait_shared(const uint32_t *word, uint32_t expected,
					    uint64_t timeout_ns)
{
	pfw_os_futex_wait_as(word, FUTEX_WAIT, expected, timeout_ns);
}

/* Wait on two shared futexes until `until` (CLOCK_MONOTONIC; NULL = no limit).  Linux 5.16; before
 * that -ENOSYS. */
static inline long pfw_os_futex_wait_two(const uint32_t *a, uint32_t seen_a, const uint32_t *b,
					 uint32_t seen_b, const struct timespec *until)
{
	struct {
		uint64_t value, word;
		uint32_t flags, unused;
	} waiter[2] = { { seen_a, (uintptr_t)a, 2 /* FUTEX_32 */, 0 },
			{ seen_b, (uintptr_t)b, 2, 0 } };

	return pfw_syscall6(449 /* futex_waitv */, (long)waiter, 2, 0, (long)until, CLOCK_MONOTONIC,
			    0);
}

static inline void pfw_os_sleep_ns(uint64_t ns)
{
	struct timespec ts = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

	pfw_syscall6(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&ts, 0, 0, 0);
}

/* Block all signals but the two that libc needs (32 and 33), and return the mask before.  Unlike
 * pthread_sigmask() with its sigset_t of 128 bytes, this takes next to no stack. */
static inline uint64_t pfw_os_block_signals(void)
{
	const uint64_t all = ~(3ull << 31);
	uint64_t old = 0;

	pfw_syscall6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&old, sizeof(all), 0, 0);
	return old;
}

static inline void pfw_os_restore_signals(uint64_t mask)
{
	pfw_syscall6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, sizeof(mask), 0, 0);
}

/* Write one line to standard error (fd) without side effects on the program.  All signals are
 * blocked, so it gets no SIGPIPE from a pipe without a reader, no SIGXFSZ from a file at
 * RLIMIT_FSIZE and no SIGTTOU from a terminal that stops background writers.  If a full pipe is not
 * emptied within a second, the line is dropped. */
static inline long pfw_os_say(int fd, const struct iovec *parts, int count)
{
	struct pollfd ready = { fd, POLLOUT, 0 };
	struct timespec second = { 1, 0 }, none = { 0, 0 };
	const uint64_t all = ~0ull;
	uint64_t old = 0, pending = 0, caused = 1ull << (SIGPIPE - 1) | 1ull << (SIGXFSZ - 1);
	long result = -EAGAIN;

	pfw_syscall6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&old, 8, 0, 0);
	pfw_syscall6(SYS_rt_sigpending, (long)&pending, 8, 0, 0, 0, 0);
	if (pfw_syscall6(SYS_ppoll, (long)&ready, 1, (long)&second, 0, 8, 0))
		result = pfw_syscall6(SYS_writev, fd, (long)parts, count, 0, 0, 0);
	caused &= ~pending;
	if (result == -EPIPE || result == -EFBIG)
		pfw_syscall6(SYS_rt_sigtimedwait, (long)&caused, 0, (long)&none, 8, 0, 0);
	pfw_syscall6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&old, 0, 8, 0, 0);
	return result;
}

/* Read a small file of /proc or /sys into buf, NUL-terminated.
 * Return its length, at most size - 1, or -errno and "". */
static inline ssize_t pfw_os_read_file(const char *path, char *buf, size_t size)
{
	int fd = pfw_os_open(path, O_RDONLY, 0);
	size_t used = 0;
	ssize_t n = 0;

	buf[0] = '\0';
	if (fd < 0)
		return fd;
	while (used + 1 < size && (n = pfw_os_read(fd, buf + used, size - 1 - used)) > 0)
		used += (size_t)n;
	pfw_os_close(fd);
	buf[n < 0 ? 0 : used] = '\0';
	return n < 0 ? n : (ssize_t)used;
}

/* Read a file and call `take` for each line that fits in buf; at *end is a NUL instead of '\n'.
 * Return 0 or -errno. */
static inline int pfw_os_read_lines(const char *path, char *buf, size_t size,
				    void (*take)(void *user, const char *line, const char *end),
				    void *user)
{
	int fd = pfw_os_open(path, O_RDONLY, 0);
	size_t used = 0;
	ssize_t n;

	if (fd < 0)
		return fd;
	while ((n = pfw_os_read(fd, buf + used, size - used)) > 0) {
		char *line = buf, *end;

		used += (size_t)n;
		for (; (end = memchr(line, '\n', used)); line = end + 1) {
			*end = '\0';
			used -= (size_t)(end + 1 - line);
			take(user, line, end);
		}
		memmove(buf, line, used);
		if (used == size)
			used = 0; /* the rest of a line that does not fit is taken as a line */
	}
	pfw_os_close(fd);
	return (int)n;
}

/* After this line a call of an interposed function does not compile. */
#ifndef PFW_OS_NO_POISON
#pragma GCC poison open openat read write pread pwrite close fopen fwrite fread fclose getenv setenv
#endif
