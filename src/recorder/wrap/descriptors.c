/* recorder/wrap/descriptors.c - wrappers of calls that close, copy or control descriptors. */
#define PFW_OS_NO_POISON
#include "recorder/wrap/posix.h"

#include <limits.h>
#include <linux/close_range.h>

#include "recorder/guest/own_fds.h"
#include "recorder/probe/call_filter.h"
#include "recorder/probe/fd_table.h"
#include "recorder/spool/strings.h"
#include "recorder/wrap/calls.h"

/* The arena is full, so the name is not stored: read it from /proc while fd is open. */
static __attribute__((noinline)) int close_by_link(struct pfw_probe *probe, int fd,
						   int (*real)(void *object), void *object)
{
	char path[512];
	ssize_t n = pfw_fd_read_link(fd, path, sizeof(path));
	bool named = n > 0 && (size_t)n < sizeof(path);
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
	value[0] = (uint64_t)ret;
	ending.error = ret == -1 ? errno : 0;
	probe->name = 0;
	pfw_probe_end_full(probe, &ending);
	pfw_fd_close_end(fd);
	return ret;
}

int pfw_close(uint16_t call, int fd, int (*real)(void *object), void *object)
{
	struct pfw_probe probe;
	bool traced = pfw_probe_fd(&probe, pfw_call_filter[call], fd), held;
	int ret;

	if (!traced && !pfw_probe_on())
		return real(object);
	if (PFW_UNLIKELY(traced && probe.name == PFW_NAME_BY_LINK))
		return close_by_link(&probe, fd, real, object);
	/*
	 * Forget fd before the call: once the kernel has closed it, another thread may get the
	 * number.  Hold the name until the record is written, which may take long if close() waits.
	 */
	held = traced && pfw_string_hold(probe.name);
	pfw_fd_close_begin(fd);
	ret = real(object);
	if (traced)
		pfw_end_fd(&probe, PFW_VALUES((uint64_t)ret, (uint64_t)fd));
	if (held)
		pfw_string_drop(probe.name);
	pfw_fd_close_end(fd);
	return ret;
}

/* Whether fd is a descriptor of ours in the program's table.  A vfork child may close it, since its
 * table is a copy. */
static bool is_ours(int fd)
{
	return PFW_UNLIKELY(pfw_own_fds(fd)) && !pfw_thread.vfork_child;
}

static int close_theirs(int fd, int (*real)(int fd))
{
	bool entered = pfw_own_fds_enter();
	int ret = -1;

	if (is_ours(fd))
		errno = EBADF;
	else
		ret = real(fd);
	pfw_own_fds_leave(entered);
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

/* Call `change` for every descriptor of the range that the fd table may contain. */
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

/* The real call, except on our descriptors. */
static int close_around(unsigned first, unsigned last, int flags)
{
	int ours = -1, ret;

	while (!pfw_thread.vfork_child && (ours = pfw_own_fds_within(first, last)) >= 0) {
		ret = (unsigned)ours > first
			      ? pfw_real.close_range(first, (unsigned)ours - 1, flags)
			      : 0;
		if (ret || (unsigned)ours == last)
			return ret;
		first = (unsigned)ours + 1;
	}
	return pfw_real.close_range(first, last, flags);
}

/* closefrom() cannot fail.  Without close_range(), close the descriptors below ours one by one. */
static void closefrom_around(int first)
{
	int ours;

	first = first < 0 ? 0 : first;
	while (!pfw_thread.vfork_child &&
	       (ours = pfw_own_fds_within((unsigned)first, UINT_MAX)) >= 0) {
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
	entered = pfw_own_fds_enter();
	ret = close_around(first, last, flags);
	pfw_own_fds_leave(entered);
	if (traced)
		pfw_end_fd(&probe, PFW_VALUES((uint64_t)ret, first, last, (uint64_t)flags));
	if (closes)
		each_known(first, last, pfw_fd_close_end);
	return ret;
}

void pfw_wrap_closefrom(int first)
{
	struct pfw_probe probe;
	bool traced = pfw_probe_bare(&probe, PFW_CALL_closefrom), closes = pfw_probe_on();
	bool entered;

	if (closes)
		each_known(first < 0 ? 0 : (unsigned)first, UINT_MAX, pfw_fd_close_begin);
	entered = pfw_own_fds_enter();
	closefrom_around(first);
	pfw_own_fds_leave(entered);
	if (traced)
		pfw_end_void(&probe, PFW_VALUES(0, (uint64_t)first));
	if (closes)
		each_known(first < 0 ? 0 : (unsigned)first, UINT_MAX, pfw_fd_close_end);
}

int pfw_wrap_dup(int fd)
{
	struct pfw_probe probe;
	bool traced = pfw_probe_fd(&probe, pfw_call_filter[PFW_CALL_dup], fd);
	int ret = pfw_real.dup(fd);

	if (traced)
		pfw_end_fd(&probe, PFW_VALUES((uint64_t)ret, (uint64_t)fd));
	if (ret >= 0 && (traced || pfw_probe_on()))
		pfw_fd_copy(fd, ret);
	return ret;
}

/* dup2() and dup3() close newfd as close() does, unless both numbers are equal.  Return the
 * argument for pfw_own_fds_leave(). */
static bool replace_begin(int fd, int newfd)
{
	bool entered = pfw_own_fds_enter();

	while (fd != newfd && is_ours(newfd)) {
		pfw_own_fds_leave(entered);
		pfw_probe_host.make_way(newfd);
		entered = pfw_own_fds_enter();
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

#define DUP2(name, params, args, ...)                                                     \
	int pfw_wrap_##name params                                                        \
	{                                                                                 \
		struct pfw_probe probe;                                                   \
		bool traced = pfw_probe_fd(&probe, pfw_call_filter[PFW_CALL_##name], fd); \
		bool entered = replace_begin(fd, newfd);                                  \
		int ret = pfw_real.name args;                                             \
                                                                                          \
		pfw_own_fds_leave(entered);                                               \
		if (traced)                                                               \
			pfw_end_fd(&probe, PFW_VALUES((uint64_t)ret, (uint64_t)fd,        \
						      (uint64_t)newfd, __VA_ARGS__));     \
		replace_end(fd, newfd, ret);                                              \
		return ret;                                                               \
	}

DUP2(dup2, (int fd, int newfd), (fd, newfd))
DUP2(__dup2, (int fd, int newfd), (fd, newfd))
DUP2(dup3, (int fd, int newfd, int flags), (fd, newfd, flags), (uint64_t)flags)
#undef DUP2

/* The argument of a command that takes a number; 0 if the command takes a pointer or nothing. */
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

/* Always read and pass on one `void *`, which holds the argument of any command, known or not. */
#define FCNTL(name)                                                                               \
	int pfw_wrap_##name(int fd, int cmd, ...)                                                 \
	{                                                                                         \
		struct pfw_probe probe;                                                           \
		bool traced = pfw_probe_fd(&probe, pfw_call_filter[PFW_CALL_##name], fd);         \
		va_list rest;                                                                     \
		void *arg;                                                                        \
		int ret;                                                                          \
                                                                                                  \
		va_start(rest, cmd);                                                              \
		arg = va_arg(rest, void *);                                                       \
		va_end(rest);                                                                     \
		ret = pfw_real.name(fd, cmd, arg);                                                \
		if (traced)                                                                       \
			pfw_end_fd(&probe, PFW_VALUES((uint64_t)ret, (uint64_t)fd, (uint64_t)cmd, \
						      (uint64_t)fcntl_number(cmd, arg)));         \
		if ((cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC) && ret >= 0 && pfw_probe_on())     \
			pfw_fd_copy(fd, ret);                                                     \
		return ret;                                                                       \
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
		pfw_end_fd(&probe, PFW_VALUES((uint64_t)ret, (uint64_t)fd, request));
	return ret;
}
