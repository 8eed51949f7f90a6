/* recorder/guest/own_fds.c - which numbers of the program's descriptor table are our files. */
#include "recorder/guest/own_fds.h"

#include <sys/resource.h>

#define HIGH_MAX 1023 /* a higher number would make the table larger than most programs' */
#define HIGH_TRIES 64

_Atomic int pfw_own_fds_fd[PFW_OWN_FDS_MAX];
_Atomic uint32_t pfw_own_fds_count;
_Atomic uint32_t pfw_own_fds_shared;
static _Atomic uint32_t opening; /* the writer opens a file, or waits to do so */
static _Atomic uint32_t closing; /* calls of the program that close or replace, running */

#define LOOK_NS 20000ull
#define LOOKS_MAX 500u

void pfw_own_fds_begin(void)
{
	atomic_store(&opening, 1);
	for (unsigned i = 0; i < LOOKS_MAX && atomic_load(&closing); i++)
		pfw_os_sleep_ns(LOOK_NS);
}

void pfw_own_fds_end(void)
{
	atomic_store(&opening, 0);
}

void pfw_own_fds_enter_slow(void)
{
	atomic_fetch_add(&closing, 1);
	for (unsigned i = 0; i < LOOKS_MAX && atomic_load(&opening); i++) {
		/* Pairs with begin: at least one of the two sees the other. */
		atomic_fetch_sub(&closing, 1);
		pfw_os_sleep_ns(LOOK_NS);
		atomic_fetch_add(&closing, 1);
	}
}

void pfw_own_fds_leave_slow(void)
{
	atomic_fetch_sub(&closing, 1);
}

int pfw_own_fds_within(unsigned first, unsigned last)
{
	int least = -1;

	if (!atomic_load_explicit(&pfw_own_fds_count, memory_order_relaxed))
		return -1;
	for (unsigned i = 0; i < PFW_OWN_FDS_MAX; i++) {
		int fd = atomic_load(&pfw_own_fds_fd[i]) - 1;

		if (fd >= 0 && (unsigned)fd >= first && (unsigned)fd <= last &&
		    (least < 0 || fd < least))
			least = fd;
	}
	return least;
}

int pfw_own_fds_add(int fd)
{
	for (int i = 0; i < (int)PFW_OWN_FDS_MAX; i++) {
		int none = 0;

		if (!atomic_compare_exchange_strong(&pfw_own_fds_fd[i], &none, fd + 1))
			continue;
		atomic_fetch_add(&pfw_own_fds_count, 1);
		return i;
	}
	return -1;
}

void pfw_own_fds_remove(int entry)
{
	if (entry < 0 || !atomic_exchange(&pfw_own_fds_fd[entry], 0))
		return;
	atomic_fetch_sub(&pfw_own_fds_count, 1);
}

int pfw_own_fds_at(int entry)
{
	return entry < 0 ? -1 : atomic_load(&pfw_own_fds_fd[entry]) - 1;
}

static int highest(void)
{
	struct rlimit limit = { HIGH_MAX + 1, HIGH_MAX + 1 };

	pfw_syscall6(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, (long)&limit, 0, 0);
	return limit.rlim_cur <= HIGH_MAX ? (int)limit.rlim_cur - 1 : HIGH_MAX;
}

bool pfw_own_fds_room(void)
{
	int from = highest();

	for (int i = 0; i < HIGH_TRIES && from > 2; i++, from--)
		if (pfw_syscall6(SYS_fcntl, from, F_GETFD, 0, 0, 0, 0) == -EBADF)
			return true;
	return false;
}

/* A copy of fd with a high number, or -errno. */
static int copy_high(int fd)
{
	int from = highest(), copy = -EMFILE;

	for (int i = 0; i < HIGH_TRIES && from > 2; i++, from--) {
		copy = (int)pfw_syscall6(SYS_fcntl, fd, F_DUPFD_CLOEXEC, from, 0, 0, 0);
		if (copy >= 0 && copy <= HIGH_MAX)
			return copy;
		if (copy >= 0)
			pfw_os_close(copy);
		else if (copy != -EMFILE)
			return copy;
	}
	return -EMFILE;
}

int pfw_own_fds_high(int fd)
{
	int copy = copy_high(fd);

	if (copy < 0)
		return fd;
	pfw_os_close(fd);
	return copy;
}

void pfw_own_fds_move(int fd)
{
	int copy = -1;

	for (unsigned i = 0; i < PFW_OWN_FDS_MAX; i++) {
		if (atomic_load(&pfw_own_fds_fd[i]) != fd + 1)
			continue;
		copy = copy_high(fd);
		/* -1: pfw_own_fds_at() then gives no number, and the file is opened anew. */
		atomic_store(&pfw_own_fds_fd[i], copy < 0 ? -1 : copy + 1);
	}
}

int pfw_own_fds_borrow(int fd)
{
	int process = (int)pfw_syscall6(SYS_pidfd_open, pfw_os_getpid(), 0, 0, 0, 0, 0), copy;

	if (process < 0)
		return process;
	copy = (int)pfw_syscall6(SYS_pidfd_getfd, process, fd, 0, 0, 0, 0);
	pfw_os_close(process);
	return copy;
}

void pfw_own_fds_close(void)
{
	for (unsigned i = 0; i < PFW_OWN_FDS_MAX; i++) {
		int fd = atomic_exchange(&pfw_own_fds_fd[i], 0) - 1;

		if (fd >= 0)
			pfw_os_close(fd);
	}
	atomic_store(&pfw_own_fds_count, 0);
	atomic_store(&pfw_own_fds_shared, 0);
	atomic_store(&opening, 0);
	atomic_store(&closing, 0);
}
