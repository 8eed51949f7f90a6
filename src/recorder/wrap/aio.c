/* recorder/wrap/aio.c - wrappers of calls that submit asynchronous I/O, and of syscall().
 *
 * The trace has the submission as an event, and each operation of a list.  A submission without
 * libc (liburing makes its own system calls) reaches no wrapper: see unrecorded.c.
 */
#define PFW_OS_NO_POISON
#include <limits.h>
#include <linux/aio_abi.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "recorder/guest/own_fds.h"
#include "recorder/guest/peek.h"
#include "recorder/probe/call_filter.h"
#include "recorder/probe/probe.h"
#include "recorder/wrap/calls.h"
#include "recorder/wrap/posix.h"
#include "recorder/wrap/rights.h"
#include "recorder/wrap/unrecorded.h"

/* ---- lists of operations ---- */

/* An operation that a list submits, as aio_read(), aio_write() or aio_fsync() would.  It is read
 * before the call: afterwards the operation may be complete, and its block another thread's. */
struct operation {
	struct pfw_probe probe;
	uint64_t value[4];
	unsigned value_count;
};

#define OWN_OPERATIONS 12u /* a probe may take at most 1 KiB of stack */
#define OPERATIONS_MAX 65536u

struct operations {
	struct operation *at, own[OWN_OPERATIONS];
	unsigned count;
	uint64_t room;
};

static void begin_operations(struct operations *list, uint64_t count)
{
	list->at = list->own;
	list->count = 0;
	list->room = OWN_OPERATIONS;
	if (count <= OWN_OPERATIONS || count > OPERATIONS_MAX)
		return;
	list->at = pfw_os_map(count * sizeof(*list->at));
	if (list->at)
		list->room = count;
	else
		list->at = list->own;
}

static void add_operation(struct operations *list, uint16_t call, int fd, uint64_t first,
			  uint64_t offset)
{
	struct operation *one = &list->at[list->count];

	if (list->count == list->room) {
		pfw_ring_count_lost(PFW_LOST_NO_MEMORY, 1);
		return;
	}
	list->count++;
	if (call == PFW_CALL_NONE || !pfw_probe_fd(&one->probe, pfw_call_filter[call], fd))
		one->probe.call = PFW_CALL_NONE;
	one->value[0] = 0;
	one->value[1] = (uint64_t)fd;
	one->value[2] = first;
	one->value[3] = offset;
	one->value_count = call == PFW_CALL_aio_fsync ? 3 : 4;
}

/* The first ones of the list were accepted: each is an event without a duration, which is that of the
 * call.  Call it before the end of the call's own event, as events stand by their ends. */
static void end_operations(struct operations *list, uint64_t accepted)
{
	for (unsigned i = 0; i < list->count && i < accepted; i++) {
		const struct operation *one = &list->at[i];
		struct pfw_ending ending = { .value = one->value,
					     .value_count = one->value_count,
					     .t1 = one->probe.t0 };

		if (one->probe.call != PFW_CALL_NONE)
			pfw_probe_end_full(&one->probe, &ending);
	}
	if (list->at != list->own)
		pfw_os_munmap(list->at, list->room * sizeof(*list->at));
}

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
		struct operations operations;                                                      \
		int ret;                                                                           \
                                                                                                   \
		begin_operations(&operations, count > 0 ? (uint64_t)count : 0);                    \
		for (int i = 0; traced && i < count; i++)                                          \
			if (list[i] && list[i]->aio_lio_opcode != LIO_NOP)                         \
				add_operation(&operations,                                         \
					      list[i]->aio_lio_opcode == LIO_READ                  \
						      ? PFW_CALL_aio_read##suffix                  \
						      : PFW_CALL_aio_write##suffix,                \
					      list[i]->aio_fildes, list[i]->aio_nbytes,            \
					      (uint64_t)list[i]->aio_offset);                      \
		ret = pfw_real.lio_listio##suffix(mode, list, count, notify);                      \
		/* EIO: some have failed, but all were submitted. */                               \
		end_operations(&operations, ret == 0 || errno == EIO ? operations.count : 0);      \
		if (traced)                                                                        \
			pfw_probe_end(&probe, ret == -1,                                           \
				      PFW_VALUES((uint64_t)ret, (uint64_t)mode,                    \
						 operations.count));                               \
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
	struct operations *operations;
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

	if (call->operations)
		end_operations(call->operations, ret > 0 ? (uint64_t)ret : 0);
	/* This wrapper also runs if syscall() is not recorded. */
	if (!traced || probe.call == PFW_CALL_NONE)
		return ret;
	if (ret > 0 && call->number == SYS_io_uring_enter)
		pfw_unrecorded_entered((uint64_t)ret);
	else if (call->number == SYS_io_submit)
		pfw_unrecorded_submitted((uint64_t)call->arg[0]);
	pfw_probe_end_full(&probe, &ending);
	return ret;
}

/* The bytes of all parts of a list. */
static uint64_t parts_bytes(const struct iovec *part, uint64_t count)
{
	struct iovec one;
	uint64_t bytes = 0;

	for (uint64_t i = 0; i < count && i < IOV_MAX && pfw_peek(&one, part + i, sizeof(one)); i++)
		bytes += one.iov_len;
	return bytes;
}

static void add_block(struct operations *list, const struct iocb *block)
{
	uint64_t bytes = block->aio_nbytes;
	int fd = (int)block->aio_fildes;

	switch (block->aio_lio_opcode) {
	case IOCB_CMD_PREADV:
	case IOCB_CMD_PWRITEV:
		bytes = parts_bytes((const struct iovec *)block->aio_buf, bytes);
		__attribute__((fallthrough));
	case IOCB_CMD_PREAD:
	case IOCB_CMD_PWRITE:
		add_operation(list,
			      block->aio_lio_opcode == IOCB_CMD_PREAD ||
					      block->aio_lio_opcode == IOCB_CMD_PREADV
				      ? PFW_CALL_aio_read
				      : PFW_CALL_aio_write,
			      fd, bytes, (uint64_t)block->aio_offset);
		break;
	case IOCB_CMD_FSYNC:
	case IOCB_CMD_FDSYNC:
		add_operation(list, PFW_CALL_aio_fsync, fd,
			      block->aio_lio_opcode == IOCB_CMD_FSYNC ? O_SYNC : O_DSYNC, 0);
		break;
	default: /* waits for a descriptor, or does nothing: it counts, since others follow */
		add_operation(list, PFW_CALL_NONE, fd, 0, 0);
		break;
	}
}

/* io_submit(): the kernel has not read the list yet, and refuses what cannot be read. */
static long submit_raw(struct raw_call *call)
{
	struct iocb *const *list = (struct iocb *const *)call->arg[2], *at, block;
	struct operations operations;

	if (pfw_call_filter[PFW_CALL_syscall] == PFW_CALL_NONE || !pfw_probe_on() ||
	    call->count > OPERATIONS_MAX)
		return do_raw(call, -1);
	begin_operations(&operations, call->count);
	for (uint64_t i = 0; i < call->count && pfw_peek(&at, list + i, sizeof(at)) &&
			     pfw_peek(&block, at, sizeof(block));
	     i++)
		add_block(&operations, &block);
	call->operations = &operations;
	return do_raw(call, -1);
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
		return submit_raw(&call);
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
