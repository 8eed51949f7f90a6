/* recorder/wrap/unnamed_files.c - wrappers of calls that open a file without a full name.
 *
 * Pipes, memory files, nameless temporary files.
 */
#define PFW_OS_NO_POISON
#include "recorder/probe/call_filter.h"
#include "recorder/probe/fd_table.h"
#include "recorder/probe/path_filter.h"
#include "recorder/wrap/calls.h"
#include "recorder/wrap/posix.h"

void pfw_made_end(struct pfw_path_probe *probe, bool traced, int fd, struct pfw_ending *ending)
{
	uint64_t entry;

	ending->t1 = pfw_clock_ticks();
	ending->error = fd < 0 ? errno : 0;
	ending->flags = fd < 0 ? PFW_RECORD_NO_FD : 0;
	if (fd >= 0 && (traced || pfw_probe_on()))
		pfw_fd_store(fd, PFW_FD_UNKNOWN, 0);
	if (!traced || (fd < 0 && !ending->name && !pfw_path_filter_nameless()))
		return;
	if (fd >= 0) {
		entry = pfw_fd_resolve(fd);
		if (pfw_fd_state(entry) == PFW_FD_UNTRACED)
			return;
		probe->probe.name = pfw_fd_name(entry);
	}
	pfw_probe_end_full(&probe->probe, ending);
}

/* MADE(type, name, parameters, arguments, the descriptor in `ret`, fields) */
#define MADE(type, name, params, args, descriptor, ...)                                \
	type pfw_wrap_##name params                                                    \
	{                                                                              \
		struct pfw_path_probe probe;                                           \
		bool traced = pfw_probe_path(&probe, PFW_CALL_##name, AT_FDCWD, NULL); \
		type ret = pfw_real.name args;                                         \
		int fd = descriptor;                                                   \
		const uint64_t value[] = { (uint64_t)fd, (uint64_t)fd, __VA_ARGS__ };  \
		struct pfw_ending ending = { .value = value,                           \
					     .value_count = PFW_ARRAY_LEN(value) };    \
                                                                                       \
		pfw_made_end(&probe, traced, fd, &ending);                             \
		return ret;                                                            \
	}

MADE(int, open_by_handle_at, (int mount, struct file_handle *handle, int flags),
     (mount, handle, flags), ret, (uint64_t)flags)
MADE(int, memfd_create, (const char *name, unsigned flags), (name, flags), ret, flags)
MADE(int, shm_open, (const char *name, int flags, mode_t mode), (name, flags, mode), ret,
     (uint64_t)flags, mode)
MADE(FILE *, tmpfile, (void), (), pfw_stdio_fd(ret))
MADE(FILE *, tmpfile64, (void), (), pfw_stdio_fd(ret))
#undef MADE

/* Both ends, or -1: the numbers may be read only if the call succeeded. */
#define PIPE(name, params, args, ...)                                                  \
	int pfw_wrap_##name params                                                     \
	{                                                                              \
		struct pfw_path_probe probe;                                           \
		bool traced = pfw_probe_path(&probe, PFW_CALL_##name, AT_FDCWD, NULL); \
		int ret = pfw_real.name args;                                          \
		int in = ret ? -1 : fds[0], out = ret ? -1 : fds[1];                   \
		const uint64_t value[] = { (uint64_t)ret, (uint64_t)in, (uint64_t)out, \
					   __VA_ARGS__ };                              \
		struct pfw_ending ending = { .value = value,                           \
					     .value_count = PFW_ARRAY_LEN(value) };    \
                                                                                       \
		if (out >= 0 && (traced || pfw_probe_on()))                            \
			pfw_fd_store(out, PFW_FD_UNKNOWN, 0);                          \
		pfw_made_end(&probe, traced, in, &ending);                             \
		return ret;                                                            \
	}

PIPE(pipe, (int fds[2]), (fds))
PIPE(__pipe, (int fds[2]), (fds))
PIPE(pipe2, (int fds[2], int flags), (fds, flags), (uint64_t)flags)
#undef PIPE

/* libc makes the terminal descriptors 0, 1 and 2 and closes its own number. */
int pfw_wrap_login_tty(int fd)
{
	struct pfw_probe probe;
	bool traced = pfw_probe_fd(&probe, pfw_call_filter[PFW_CALL_login_tty], fd);
	int ret = pfw_real.login_tty(fd);

	if (traced)
		pfw_probe_end(&probe, ret < 0, PFW_VALUES((uint64_t)ret, (uint64_t)fd));
	if (ret < 0 || !pfw_probe_on())
		return ret;
	for (int i = 0; i < 3; i++)
		pfw_fd_store(i, PFW_FD_UNKNOWN, 0);
	if (fd > 2)
		pfw_fd_store(fd, PFW_FD_UNKNOWN, 0);
	return ret;
}
