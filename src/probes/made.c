/* made.c - wrappers of the calls that make a descriptor of something that the program has not named,
 * or only in part: pipes, memory, temporary files.
 */
#define PFW_OS_NO_POISON
#include <string.h>

#include "calls.h"
#include "fd_table.h"
#include "filter.h"
#include "posix.h"
#include "probe.h"
#include "select.h"

void pfw_made_end(struct pfw_path_probe *probe, bool traced, int fd, struct pfw_ending *ending)
{
	uint64_t entry;

	ending->t1 = pfw_clock_ticks();
	ending->error = fd < 0 ? errno : 0;
	ending->flags = fd < 0 ? PFW_RECORD_NO_FD : 0;
	if (fd >= 0 && (traced || pfw_probe_on()))
		pfw_fd_store(fd, PFW_FD_UNKNOWN, 0);
	if (!traced || (fd < 0 && !ending->name && !pfw_filter_nameless()))
		return;
	if (fd >= 0) {
		entry = pfw_fd_resolve(fd);
		if (pfw_fd_state(entry) == PFW_FD_UNTRACED)
			return;
		probe->probe.name = pfw_fd_name(entry);
	}
	pfw_probe_end_full(&probe->probe, ending);
}

/* MADE(type, name, parameters, arguments, the descriptor in `ret`, number of fields, fields) */
#define MADE(type, name, params, args, descriptor, count, ...)                             \
	type pfw_wrap_##name params                                                        \
	{                                                                                  \
		struct pfw_path_probe probe;                                               \
		bool traced = pfw_probe_path(&probe, PFW_CALL_##name, AT_FDCWD, NULL);     \
		type ret = pfw_real.name args;                                             \
		int fd = descriptor;                                                       \
		const uint64_t value[] = { (uint64_t)(int64_t)fd, (uint64_t)(int64_t)fd,   \
					   __VA_ARGS__ };                                  \
		struct pfw_ending ending = { .value = value, .value_count = 2 + (count) }; \
                                                                                           \
		pfw_made_end(&probe, traced, fd, &ending);                                 \
		return ret;                                                                \
	}

MADE(int, open_by_handle_at, (int mount, struct file_handle *handle, int flags),
     (mount, handle, flags), ret, 1, (uint64_t)(int64_t)flags)
MADE(int, memfd_create, (const char *name, unsigned flags), (name, flags), ret, 1, flags)
MADE(int, shm_open, (const char *name, int flags, mode_t mode), (name, flags, mode), ret, 2,
     (uint64_t)(int64_t)flags, mode)
MADE(FILE *, tmpfile, (void), (), pfw_stream_fd(ret), 0, 0)
MADE(FILE *, tmpfile64, (void), (), pfw_stream_fd(ret), 0, 0)
#undef MADE

/* Both ends, or -1: the numbers are the program's to read only where the call has worked. */
#define PIPE(name, params, args, count, ...)                                               \
	int pfw_wrap_##name params                                                         \
	{                                                                                  \
		struct pfw_path_probe probe;                                               \
		bool traced = pfw_probe_path(&probe, PFW_CALL_##name, AT_FDCWD, NULL);     \
		int ret = pfw_real.name args;                                              \
		int in = ret ? -1 : fds[0], out = ret ? -1 : fds[1];                       \
		const uint64_t value[] = { (uint64_t)(int64_t)ret, (uint64_t)(int64_t)in,  \
					   (uint64_t)(int64_t)out, __VA_ARGS__ };          \
		struct pfw_ending ending = { .value = value, .value_count = 3 + (count) }; \
                                                                                           \
		if (out >= 0 && (traced || pfw_probe_on()))                                \
			pfw_fd_store(out, PFW_FD_UNKNOWN, 0);                              \
		pfw_made_end(&probe, traced, in, &ending);                                 \
		return ret;                                                                \
	}

PIPE(pipe, (int fds[2]), (fds), 0, 0)
PIPE(__pipe, (int fds[2]), (fds), 0, 0)
PIPE(pipe2, (int fds[2], int flags), (fds, flags), 1, (uint64_t)(int64_t)flags)
#undef PIPE

/* The path is in the caller's template once the call has returned. */
#define MKSTEMP(name, params, args, flags)                                                    \
	int pfw_wrap_##name params                                                            \
	{                                                                                     \
		struct pfw_open call = {                                                      \
			.dirfd = AT_FDCWD, .path = path, .field_count = 1, .field = { flags } \
		};                                                                            \
		struct pfw_path_probe probe;                                                  \
		bool traced = pfw_probe_path(&probe, PFW_CALL_##name, AT_FDCWD, path);        \
                                                                                              \
		call.fd = pfw_real.name args;                                                 \
		pfw_open_end(&probe, traced, &call);                                          \
		return call.fd;                                                               \
	}

MKSTEMP(mkstemp, (char *path), (path), 0)
MKSTEMP(mkstemp64, (char *path), (path), 0)
MKSTEMP(mkostemp, (char *path, int flags), (path, flags), flags)
MKSTEMP(mkostemp64, (char *path, int flags), (path, flags), flags)
MKSTEMP(mkstemps, (char *path, int suffix), (path, suffix), 0)
MKSTEMP(mkstemps64, (char *path, int suffix), (path, suffix), 0)
MKSTEMP(mkostemps, (char *path, int suffix, int flags), (path, suffix, flags), flags)
MKSTEMP(mkostemps64, (char *path, int suffix, int flags), (path, suffix, flags), flags)
#undef MKSTEMP

/* The terminal becomes 0, 1 and 2, and its own number is closed, all inside libc. */
int pfw_wrap_login_tty(int fd)
{
	struct pfw_probe probe;
	bool traced = pfw_probe_fd(&probe, pfw_selected[PFW_CALL_login_tty], fd);
	int ret = pfw_real.login_tty(fd);

	if (traced)
		pfw_probe_end(&probe, ret < 0,
			      (const uint64_t[]){ (uint64_t)(int64_t)ret, (uint64_t)fd }, 2);
	if (ret < 0 || !pfw_probe_on())
		return ret;
	for (int i = 0; i < 3; i++)
		pfw_fd_store(i, PFW_FD_UNKNOWN, 0);
	if (fd > 2)
		pfw_fd_store(fd, PFW_FD_UNKNOWN, 0);
	return ret;
}
