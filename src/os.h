/* os.h - raw system calls: what tracer code calls instead of the functions it interposes.
 *
 * A call made through libc's `open` or `write` from inside the traced program would arrive at our
 * own wrapper, be counted as the program's, and may be replaced by another preload.  These go
 * straight to the kernel, never touch errno and return -errno on failure.
 * Thread: any.  Signal: safe, all of them.  Fork: no state.
 */
#ifndef PFW_OS_H
#define PFW_OS_H

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define PFW_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define PFW_LIKELY(x) __builtin_expect(!!(x), 1)
#define PFW_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* One system call with up to six arguments; the kernel's own -errno comes back as it is. */
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
#error "pfw: no raw system call for this processor yet: add it to src/os.h"
#endif
}

static inline int pfw_os_close(int fd)
{
	return (int)pfw_syscall6(SYS_close, fd, 0, 0, 0, 0, 0);
}

/* The thread whose descriptor table is our own (writer_files.c), and one that it has made, which
 * shares it; 0 = none. */
extern _Atomic int32_t pfw_os_own_table, pfw_os_own_table_guest;

/* Never 0, 1 or 2 of the program's table: one that has closed them may still write there. */
static inline int pfw_os_openat(int dirfd, const char *path, int flags, mode_t mode)
{
	int low = (int)pfw_syscall6(SYS_openat, dirfd, (long)path, flags | O_CLOEXEC, mode, 0, 0);
	int fd = low;

	if (low >= 0 && low <= 2 &&
	    pfw_os_own_table != (int32_t)pfw_syscall6(SYS_gettid, 0, 0, 0, 0, 0, 0)) {
		fd = (int)pfw_syscall6(SYS_fcntl, low, F_DUPFD_CLOEXEC, 3, 0, 0, 0);
		pfw_os_close(low);
		if (fd < 0 && flags & O_EXCL) /* made just now, by us: nobody knows it */
			pfw_syscall6(SYS_unlinkat, dirfd, (long)path, 0, 0, 0, 0);
	}
	return fd;
}

static inline int pfw_os_open(const char *path, int flags, mode_t mode)
{
	return pfw_os_openat(AT_FDCWD, path, flags, mode);
}

static inline ssize_t pfw_os_read(int fd, void *buf, size_t count)
{
	return pfw_syscall6(SYS_read, fd, (long)buf, (long)count, 0, 0, 0);
}

static inline ssize_t pfw_os_write(int fd, const void *buf, size_t count)
{
	return pfw_syscall6(SYS_write, fd, (long)buf, (long)count, 0, 0, 0);
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

static inline int pfw_os_flock(int fd, int operation)
{
	return (int)pfw_syscall6(SYS_flock, fd, operation, 0, 0, 0, 0);
}

static inline int pfw_os_unlink(const char *path)
{
	return (int)pfw_syscall6(SYS_unlinkat, AT_FDCWD, (long)path, 0, 0, 0, 0);
}

static inline int pfw_os_mkdir(const char *path, mode_t mode)
{
	return (int)pfw_syscall6(SYS_mkdirat, AT_FDCWD, (long)path, mode, 0, 0, 0);
}

/* Rename without replacing; -ENOSYS or -EINVAL where the file system cannot promise that. */
static inline int pfw_os_rename_noreplace(const char *from, const char *to)
{
	return (int)pfw_syscall6(SYS_renameat2, AT_FDCWD, (long)from, AT_FDCWD, (long)to, 1, 0);
}

static inline int pfw_os_link(const char *from, const char *to)
{
	return (int)pfw_syscall6(SYS_linkat, AT_FDCWD, (long)from, AT_FDCWD, (long)to, 0, 0);
}

static inline int pfw_os_link_open(int fd, const char *to)
{
	return (int)pfw_syscall6(SYS_linkat, fd, (long)"", AT_FDCWD, (long)to, AT_EMPTY_PATH, 0);
}

/* Name the file behind a descriptor through `proc_fd`, "/proc/self/fd/N". */
static inline int pfw_os_link_followed(const char *proc_fd, const char *to)
{
	return (int)pfw_syscall6(SYS_linkat, AT_FDCWD, (long)proc_fd, AT_FDCWD, (long)to,
				 AT_SYMLINK_FOLLOW, 0);
}

static inline ssize_t pfw_os_readlink(const char *path, char *buf, size_t size)
{
	return pfw_syscall6(SYS_readlinkat, AT_FDCWD, (long)path, (long)buf, (long)size, 0, 0);
}

/* Length of the working directory without its final NUL, which is in buf; or -errno. */
static inline ssize_t pfw_os_getcwd(char *buf, size_t size)
{
	long n = pfw_syscall6(SYS_getcwd, (long)buf, (long)size, 0, 0, 0, 0);

	return n > 0 ? n - 1 : n;
}

static inline void *pfw_os_mmap(size_t bytes, int prot, int flags, int fd, uint64_t offset)
{
	long p = pfw_syscall6(SYS_mmap, 0, (long)bytes, prot, flags, fd, (long)offset);

	return p < 0 && p > -4096 ? NULL : (void *)p;
}

static inline int pfw_os_munmap(void *p, size_t bytes)
{
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

/* A page of this machine: 4, 16 or 64 KiB. */
static inline size_t pfw_os_page_bytes(void)
{
	return (size_t)getpagesize(); /* libc has it from the auxiliary vector */
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

/* Signal 0 asks only whether the thread exists: 0, or -ESRCH. */
static inline int pfw_os_tgkill(pid_t pid, pid_t tid, int signal)
{
	return (int)pfw_syscall6(SYS_tgkill, pid, tid, signal, 0, 0, 0);
}

/* Sleep while *word == expected, at most timeout_ns (0 = for ever).  Spurious returns happen. */
static inline void pfw_os_futex_wait(const uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
	struct timespec ts = { (time_t)(timeout_ns / 1000000000), (long)(timeout_ns % 1000000000) };

	pfw_syscall6(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, expected,
		     (long)(timeout_ns ? &ts : NULL), 0, 0);
}

static inline void pfw_os_futex_wake(const uint32_t *word, int count)
{
	pfw_syscall6(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, count, 0, 0, 0);
}

static inline int pfw_os_kill(int32_t pid, int signal)
{
	return (int)pfw_syscall6(SYS_kill, pid, signal, 0, 0, 0, 0);
}

/* The same between processes. */
static inline void pfw_os_futex_wake_shared(const uint32_t *word, int count)
{
	pfw_syscall6(SYS_futex, (long)word, FUTEX_WAKE, count, 0, 0, 0);
}

static inline void pfw_os_futex_wait_shared(const uint32_t *word, uint32_t expected,
					    uint64_t timeout_ns)
{
	struct timespec ts = { (time_t)(timeout_ns / 1000000000), (long)(timeout_ns % 1000000000) };

	pfw_syscall6(SYS_futex, (long)word, FUTEX_WAIT, expected, (long)(timeout_ns ? &ts : NULL),
		     0, 0);
}

/* Wait on two, both shared, until `until` (CLOCK_MONOTONIC; NULL = for ever).  -ENOSYS before Linux
 * 5.16. */
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

/*
 * Write to standard error (fd) without the program noticing: no signal reaches it (SIGPIPE where nobody
 * reads any more, SIGTTOU where a terminal stops those in the background), and where nobody empties
 * a pipe it is not held up for more than a second: then the line is dropped.
 */
static inline long pfw_os_say(int fd, const char *line, size_t bytes)
{
	struct pollfd ready = { fd, POLLOUT, 0 };
	struct timespec second = { 1, 0 }, none = { 0, 0 };
	const uint64_t all = ~0ull, broken_pipe = 1ull << (SIGPIPE - 1);
	uint64_t old = 0, pending = 0;
	long result = -EAGAIN;

	pfw_syscall6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&old, 8, 0, 0);
	pfw_syscall6(SYS_rt_sigpending, (long)&pending, 8, 0, 0, 0, 0);
	if (pfw_syscall6(SYS_ppoll, (long)&ready, 1, (long)&second, 0, 8, 0))
		result = pfw_os_write(fd, line, bytes);
	if (result == -EPIPE && !(pending & broken_pipe))
		pfw_syscall6(SYS_rt_sigtimedwait, (long)&broken_pipe, 0, (long)&none, 8, 0, 0);
	pfw_syscall6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&old, 0, 8, 0, 0);
	return result;
}

/*
 * Read a whole small file (one of /proc or /sys) into buf, NUL-terminated.
 * Return its length, at most size - 1, or -errno and "".
 */
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

/* Any call below this line that would reach an interposed function is an error at compile time. */
#ifndef PFW_OS_NO_POISON
#pragma GCC poison open openat read write pread pwrite close fopen fwrite fread fclose getenv setenv
#endif

#endif
