/* uring_target.c - work handed to the kernel past libc: io_uring and AIO by bare system calls.
 *
 * uring_target raw|libc uring|aio COUNT [stay|close|fork|kill]: submits COUNT writes of one byte to
 * the file `data`, in two halves, by system calls of its own (raw: as liburing and libaio do) or
 * through syscall().  Leaves the ring or the context open, closes it and goes on for a moment, has a
 * child that does no such thing, or kills itself.  77: the kernel refuses.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PFW_OS_NO_POISON
#include "common/base/os.h"

static int through_libc;

/* One that must work; but where it is the first, the kernel may refuse it. */
static long call(long number, long a, long b, long c, long d, long e, long f)
{
	long result = through_libc ? syscall(number, a, b, c, d, e, f)
				   : pfw_syscall6(number, a, b, c, d, e, f);

	if (through_libc && result == -1)
		result = -errno;
	if ((number == SYS_io_uring_setup || number == SYS_io_setup) &&
	    (result == -EPERM || result == -ENOSYS || result == -EACCES))
		exit(77);
	if (result < 0) {
		dprintf(2, "uring_target: system call %ld: %s\n", number, strerror((int)-result));
		_exit(3);
	}
	return result;
}

/* ---- io_uring ---- */

#define ENTRIES 8u

static struct {
	int fd;
	size_t bytes;
	char *memory;
	struct io_uring_sqe *entry;
	struct io_uring_params params;
} ring;

static unsigned *word(unsigned offset)
{
	return (unsigned *)(ring.memory + offset);
}

static void make_ring(void)
{
	struct io_uring_params *p = &ring.params;

	ring.fd = (int)call(SYS_io_uring_setup, ENTRIES, (long)p, 0, 0, 0, 0);
	ring.bytes = p->sq_off.array + p->sq_entries * sizeof(unsigned);
	if (p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe) > ring.bytes)
		ring.bytes = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);
	ring.memory = (char *)pfw_syscall6(SYS_mmap, 0, (long)ring.bytes, PROT_READ | PROT_WRITE,
					   MAP_SHARED, ring.fd, IORING_OFF_SQ_RING);
	ring.entry = (struct io_uring_sqe *)pfw_syscall6(SYS_mmap, 0, ENTRIES * sizeof(*ring.entry),
							 PROT_READ | PROT_WRITE, MAP_SHARED,
							 ring.fd, IORING_OFF_SQES);
}

static void ring_write(int fd, const char *byte, unsigned at)
{
	unsigned tail = *word(ring.params.sq_off.tail), slot = tail & (ENTRIES - 1);

	memset(&ring.entry[slot], 0, sizeof(ring.entry[slot]));
	ring.entry[slot].opcode = IORING_OP_WRITE;
	ring.entry[slot].fd = fd;
	ring.entry[slot].addr = (uintptr_t)byte;
	ring.entry[slot].len = 1;
	ring.entry[slot].off = at;
	word(ring.params.sq_off.array)[slot] = slot;
	__atomic_store_n(word(ring.params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
	call(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, 0, 0);
	__atomic_store_n(word(ring.params.cq_off.head),
			 __atomic_load_n(word(ring.params.cq_off.tail), __ATOMIC_ACQUIRE),
			 __ATOMIC_RELEASE);
}

static void close_ring(void)
{
	pfw_syscall6(SYS_munmap, (long)ring.memory, (long)ring.bytes, 0, 0, 0, 0);
	pfw_syscall6(SYS_munmap, (long)ring.entry, ENTRIES * sizeof(*ring.entry), 0, 0, 0, 0);
	pfw_syscall6(SYS_close, ring.fd, 0, 0, 0, 0, 0);
}

/* ---- AIO ---- */

static aio_context_t context;

static void aio_write_one(int fd, const char *byte, unsigned at)
{
	struct iocb block = { .aio_lio_opcode = IOCB_CMD_PWRITE,
			      .aio_fildes = (unsigned)fd,
			      .aio_buf = (uintptr_t)byte,
			      .aio_nbytes = 1,
			      .aio_offset = at };
	struct iocb *list[] = { &block };
	struct io_event done;

	call(SYS_io_submit, (long)context, 1, (long)list, 0, 0, 0);
	call(SYS_io_getevents, (long)context, 1, 1, (long)&done, 0, 0);
}

/* ---- all of it ---- */

static void submit(int uring, int fd, unsigned from, unsigned to)
{
	for (unsigned at = from; at < to; at++) {
		if (uring)
			ring_write(fd, "u", at);
		else
			aio_write_one(fd, "a", at);
	}
}

int main(int argc, char **argv)
{
	int uring = argc > 4 && !strcmp(argv[2], "uring");
	unsigned count = argc > 4 ? (unsigned)atoi(argv[3]) : 0;
	const char *end = argc > 4 ? argv[4] : "";
	int fd = open("data", O_RDWR | O_CREAT | O_TRUNC, 0644);

	through_libc = argc > 4 && !strcmp(argv[1], "libc");
	if (fd < 0 || argc != 5)
		return 2;
	if (uring)
		make_ring();
	else
		call(SYS_io_setup, ENTRIES, (long)&context, 0, 0, 0, 0);
	submit(uring, fd, 0, count / 2);
	usleep(300000);
	submit(uring, fd, count / 2, count);
	if (!strcmp(end, "close") || !strcmp(end, "kill")) {
		sleep(3); /* it is looked for once a second, on a loaded machine a little later */
		if (!strcmp(end, "kill"))
			kill(getpid(), SIGKILL);
		if (uring)
			close_ring();
		else
			call(SYS_io_destroy, (long)context, 0, 0, 0, 0, 0);
		usleep(300000);
	}
	if (!strcmp(end, "fork")) {
		sleep(3);
		if (!fork()) {
			close(open("data", O_RDONLY));
			usleep(300000);
			exit(0);
		}
		wait(NULL);
	}
	return close(fd);
}
