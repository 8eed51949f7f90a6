/* recorder/wrap/aio.c - wrappers of calls that submit asynchronous I/O, and of syscall().
 *
 * The trace has the submission as an event.  A submission without libc (liburing makes its own
 * system calls) reaches no wrapper: see unrecorded.c.
 */
#define PFW_OS_NO_POISON
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>

#include "recorder/guest/own_fds.h"
#include "recorder/probe/call_filter.h"
#include "recorder/probe/probe.h"
#include "recorder/wrap/calls.h"
#include "recorder/wrap/posix.h"
#include "recorder/wrap/rights.h"
#include "recorder/wrap/unrecorded.h"

/* ---- POSIX ---- */

/* Read the control block before the call: after the call the operation may be complete and another
 * thread may free the block. */
#define SUBMIT(name, params, args, block, ...)                                         \
	int pfw_wrap_##name params                                                     \
	{                                                                              \
		struct pfw_probe probe;                                                \
		int fd = block->aio_fildes, ret;                                       \
		uint64_t value[] = { 0, (uint64_t)fd, __VA_ARGS__ };                   \
		bool traced = pfw_probe_fd(&probe, PFW_CALL_##name, fd);               \
                                                                                       \
		ret = pfw_real.name args;                                              \
		value[0] = (uint64_t)ret;                                              \
		if (traced)                                                            \
			pfw_probe_end(&probe, ret == -1, value, PFW_ARRAY_LEN(value)); \
		return ret;                                                            \
	}

#define AIO_CALLS(suffix)                                                                          \
	SUBMIT(aio_read##suffix, (struct aiocb##suffix * block), (block), block,                   \
	       block->aio_nbytes, (uint64_t)block->aio_offset)                                     \
	SUBMIT(aio_write##suffix, (struct aiocb##suffix * block), (block), block,                  \
	       block->aio_nbytes, (uint64_t)block->aio_offset)                                     \
	SUBMIT(aio_fsync##suffix, (int operation, struct aiocb##suffix *block),                    \
	       (operation, block), block, (uint64_t)operation)                                     \
	ssize_t pfw_wrap_aio_return##suffix(struct aiocb##suffix *block)                           \
	{                                                                                          \
		struct pfw_probe probe;                                                            \
		int fd = block->aio_fildes, error = block->__error_code, before;                   \
		bool traced = pfw_probe_fd(&probe, PFW_CALL_aio_return##suffix, fd);               \
		ssize_t ret = pfw_real.aio_return##suffix(block);                                  \
                                                                                                   \
		before = errno;                                                                    \
		errno = error; /* the operation's; the call itself sets none */                    \
		if (traced)                                                                        \
			pfw_probe_end(&probe, ret == -1, PFW_VALUES((uint64_t)ret, (uint64_t)fd)); \
		errno = before;                                                                    \
		return ret;                                                                        \
	}                                                                                          \
	int pfw_wrap_aio_cancel##suffix(int fd, struct aiocb##suffix *block)                       \
	{                                                                                          \
		struct pfw_probe probe;                                                            \
		bool traced = pfw_probe_fd(&probe, PFW_CALL_aio_cancel##suffix, fd);               \
		int ret = pfw_real.aio_cancel##suffix(fd, block);                                  \
                                                                                                   \
		if (traced)                                                                        \
			pfw_probe_end(&probe, ret == -1, PFW_VALUES((uint64_t)ret, (uint64_t)fd)); \
		return ret;                                                                        \
	}                                                                                          \
	int pfw_wrap_aio_suspend##suffix(const struct aiocb##suffix *const list[], int count,      \
					 const struct timespec *timeout)                           \
	{                                                                                          \
		struct pfw_probe probe;                                                            \
		bool traced = pfw_probe_bare(&probe, PFW_CALL_aio_suspend##suffix);                \
		int ret = pfw_real.aio_suspend##suffix(list, count, timeout);                      \
                                                                                                   \
		if (traced)                                                                        \
			pfw_probe_end(&probe, ret == -1,                                           \
				      PFW_VALUES((uint64_t)ret, (uint64_t)count));                 \
		return ret;                                                                        \
	}                                                                                          \
	int pfw_wrap_lio_listio##suffix(int mode, struct aiocb##suffix *const list[], int count,   \
					struct sigevent *notify)                                   \
	{                                                                                          \
		struct pfw_probe probe;                                                            \
		bool traced = pfw_probe_bare(&probe, PFW_CALL_lio_listio##suffix);                 \
		uint64_t operations = 0;                                                           \
		int ret;                                                                           \
                                                                                                   \
		for (int i = 0; traced && i < count; i++)                                          \
			operations += list[i] && list[i]->aio_lio_opcode != LIO_NOP;               \
		ret = pfw_real.lio_listio##suffix(mode, list, count, notify);                      \
		if (traced)                                                                        \
			pfw_probe_end(&probe, ret == -1,                                           \
				      PFW_VALUES((uint64_t)ret, (uint64_t)mode, operations));      \
		return ret;                                                                        \
	}

AIO_CALLS()
AIO_CALLS(64)
#undef AIO_CALLS
#undef SUBMIT

/* ---- syscall() ---- */

/* A system call by number, with its arguments. */
struct raw_call {
	const char *name;
	long number;
	long arg[6];
	uint64_t count; /* operations submitted or wanted */
	enum pfw_rights rights;
};

static long real_call(const struct raw_call *call)
{
	const long *arg = call->arg;
	long ret;

	if (call->rights == PFW_RIGHTS_SYNC && pfw_rights_sync(call->number, arg, &ret))
		return ret;
	return pfw_real.syscall(call->number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

/* openat2 and io_uring_setup: the result is a new descriptor. */
static long make_raw(const struct raw_call *call, const char *path)
{
	struct pfw_path_probe probe;
	int dirfd = path ? (int)call->arg[0] : AT_FDCWD;
	bool traced = pfw_probe_path(&probe, PFW_CALL_syscall, dirfd, path);
	long ret = real_call(call);
	const uint64_t value[] = { (uint64_t)ret, (uint64_t)ret, 0, call->count };
	struct pfw_tail name,
		text = { .text = call->name, .text_bytes = (uint32_t)strlen(call->name) };
	struct pfw_ending ending = {
		.value = value, .value_count = 4, .text = &text, .text_count = 1
	};

	probe.error = errno;
	if (traced && ret < 0 && path && errno != EFAULT) {
		pfw_probe_path_text(&probe, dirfd, path, &name);
		if (name.text_bytes || name.directory_bytes)
			ending.name = &name;
	}
	pfw_made_end(&probe, traced, (int)ret, &ending);
	return ret;
}

/* All other calls; fd is -1 if the call has none. */
static long do_raw(const struct raw_call *call, int fd)
{
	struct pfw_probe probe;
	bool traced = fd < 0 ? pfw_probe_bare(&probe, PFW_CALL_syscall)
			     : pfw_probe_fd(&probe, pfw_call_filter[PFW_CALL_syscall], fd);
	long ret = real_call(call);
	const uint64_t value[] = { (uint64_t)ret, (uint64_t)fd, 0, call->count };
	struct pfw_tail text = { .text = call->name, .text_bytes = (uint32_t)strlen(call->name) };
	struct pfw_ending ending = {
		.value = value,
		.value_count = 4,
		.text = &text,
		.text_count = 1,
		.error = ret == -1 ? errno : 0,
		.flags = fd < 0 ? PFW_RECORD_NO_FD : 0,
	};

	/* This wrapper runs also where syscall() is not recorded. */
	if (!traced || probe.call == PFW_CALL_NONE)
		return ret;
	if (ret > 0 && call->number == SYS_io_uring_enter)
		pfw_unrecorded_entered((uint64_t)ret);
	else if (call->number == SYS_io_submit)
		pfw_unrecorded_submitted((uint64_t)call->arg[0]);
	pfw_probe_end_full(&probe, &ending);
	return ret;
}

/* A call that may take rights from this thread. */
static long rights_raw(struct raw_call *call)
{
	long ret;

	call->rights = pfw_rights_begin(call->number, call->arg);
	ret = call->rights && call->name ? do_raw(call, -1) : real_call(call);
	if (call->rights)
		pfw_rights_end(call->number, call->arg, ret);
	return ret;
}

/*
 * Calls that runtimes make by number although libc has them (libuv: close, statx, copy_file_range)
 * are recorded as by name: an unseen close would leave its name to the descriptor's next file.
 * value[] is that of the row; ret is filled in here.
 */
static long fd_raw(const struct raw_call *call, uint16_t id, int fd, uint64_t *value,
		   unsigned count)
{
	struct pfw_probe probe;
	bool traced = pfw_probe_fd(&probe, id, fd);
	long ret = real_call(call);

	value[0] = (uint64_t)ret;
	if (traced)
		pfw_end_fd(&probe, value, count);
	return ret;
}

static long path_raw(const struct raw_call *call, uint16_t id, uint64_t *value, unsigned count)
{
	const char *path = (const char *)call->arg[1];
	struct pfw_path_probe probe;
	bool traced = pfw_probe_path(&probe, id, (int)call->arg[0], path);
	long ret = real_call(call);

	value[0] = (uint64_t)ret;
	if (traced)
		pfw_probe_path_end(&probe, ret == -1, (int)call->arg[0], path, value, count);
	return ret;
}

static long open_raw(const struct raw_call *call, uint16_t id, int dirfd, const long *arg)
{
	const char *path = (const char *)arg[0];
	struct pfw_path_probe probe;
	bool traced = pfw_probe_path(&probe, id, dirfd, path);
	struct pfw_open opened = { .dirfd = dirfd, .path = path, .field_count = 2 };

	opened.field[0] = (int)arg[1];
	opened.field[1] = pfw_takes_mode((int)arg[1]) ? (int)arg[2] : 0;
	opened.fd = (int)real_call(call);
	pfw_end_open(&probe, traced, &opened);
	return opened.fd;
}

static int close_raw(void *call)
{
	return (int)real_call(call);
}

/* Calls that make or end descriptors are seen even where they are not recorded.  Return whether the
 * call was made. */
static bool do_keeping(struct raw_call *call, long *ret)
{
	const long *arg = call->arg;

	switch (call->number) {
	case SYS_close:
		if (pfw_own_fds((int)arg[0]))
			*ret = pfw_wrap_close((int)arg[0]);
		else
			*ret = pfw_close(PFW_CALL_close, (int)arg[0], close_raw, call);
		return true;
	case SYS_close_range:
		*ret = pfw_wrap_close_range((unsigned)arg[0], (unsigned)arg[1], (int)arg[2]);
		return true;
	case SYS_dup:
		*ret = pfw_wrap_dup((int)arg[0]);
		return true;
	case SYS_dup3:
		*ret = pfw_wrap_dup3((int)arg[0], (int)arg[1], (int)arg[2]);
		return true;
	case SYS_openat:
		*ret = open_raw(call, PFW_CALL_openat, (int)arg[0], arg + 1);
		return true;
#ifdef SYS_open
	case SYS_dup2:
		*ret = pfw_wrap_dup2((int)arg[0], (int)arg[1]);
		return true;
	case SYS_open:
		*ret = open_raw(call, PFW_CALL_open, AT_FDCWD, arg);
		return true;
#endif
	default:
		return false;
	}
}

static bool do_named(const struct raw_call *call, long *ret)
{
	const long *arg = call->arg;
	int state;

	switch (call->number) {
#define NAMED(number, name, function, ...)                             \
	case SYS_##number:                                             \
		if (pfw_call_filter[PFW_CALL_##name] == PFW_CALL_NONE) \
			return false;                                  \
		*ret = function(call, PFW_CALL_##name, __VA_ARGS__);   \
		return true;
#define VALUES(...) (uint64_t[]){ 0, __VA_ARGS__ }, PFW_ARRAY_LEN(((uint64_t[]){ 0, __VA_ARGS__ }))
#define FD(number, name, ...) \
	NAMED(number, name, fd_raw, (int)arg[0], VALUES((uint64_t)(int)arg[0], __VA_ARGS__))
#define PATH(number, name, ...) NAMED(number, name, path_raw, VALUES(__VA_ARGS__))
		FD(read, read, arg[2])
		FD(write, write, arg[2])
		FD(pread64, pread, arg[2], arg[3])
		FD(pwrite64, pwrite, arg[2], arg[3])
		FD(readv, readv, (int)arg[2])
		FD(writev, writev, (int)arg[2])
		FD(preadv, preadv, (int)arg[2], arg[3])
		FD(pwritev, pwritev, (int)arg[2], arg[3])
		FD(lseek, lseek, arg[1], (int)arg[2])
		NAMED(fsync, fsync, fd_raw, (int)arg[0], VALUES((int)arg[0]))
		NAMED(fdatasync, fdatasync, fd_raw, (int)arg[0], VALUES((int)arg[0]))
		FD(ftruncate, ftruncate, arg[1])
		FD(fallocate, fallocate, (int)arg[1], arg[2], arg[3])
		PATH(statx, statx, (int)arg[2], (unsigned)arg[3])
		PATH(newfstatat, fstatat, (int)arg[3])
		PATH(unlinkat, unlinkat, (int)arg[2])
#undef PATH
#undef FD
#undef VALUES
#undef NAMED
	case SYS_copy_file_range:
		if (pfw_call_filter[PFW_CALL_copy_file_range] == PFW_CALL_NONE)
			return false;
		/* libc's function is a cancellation point, and syscall() is none. */
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
		*ret = pfw_wrap_copy_file_range((int)arg[0], (void *)arg[1], (int)arg[2],
						(void *)arg[3], (size_t)arg[4], (unsigned)arg[5]);
		pthread_setcancelstate(state, NULL);
		return true;
	default:
		return false;
	}
}

/* glibc has no openat2(), so programs open by number. */
long pfw_wrap_syscall(long number, ...)
{
	struct raw_call call = { .number = number };
	va_list rest;
	long ret;

	va_start(rest, number);
	for (int i = 0; i < 6; i++)
		call.arg[i] = va_arg(rest, long);
	va_end(rest);
	switch (number) {
	case SYS_openat2:
		call.name = "openat2";
		return make_raw(&call, (const char *)call.arg[1]);
	case SYS_io_uring_setup:
		call.name = "io_uring_setup";
		call.count = (unsigned)call.arg[0];
		return make_raw(&call, NULL);
	case SYS_io_uring_enter:
		call.name = "io_uring_enter";
		call.count = (unsigned)call.arg[1];
		return do_raw(&call, (int)call.arg[0]);
	case SYS_io_submit:
		call.name = "io_submit";
		call.count = (uint64_t)call.arg[1];
		return do_raw(&call, -1);
	case SYS_io_getevents:
	case SYS_io_pgetevents:
		call.name = "io_getevents";
		call.count = (uint64_t)call.arg[2];
		return do_raw(&call, -1);
	case SYS_seccomp:
		call.name = "seccomp";
		return rights_raw(&call);
	case PFW_SYS_LANDLOCK_RESTRICT_SELF:
		call.name = "landlock_restrict_self";
		return rights_raw(&call);
	default:
		return do_keeping(&call, &ret) || do_named(&call, &ret) ? ret : rights_raw(&call);
	}
}
