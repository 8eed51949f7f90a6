/* calls_aio.h - the cases of calls_target.c on work that goes on after the call. */
#pragma once

#include <linux/io_uring.h>
#include <linux/openat2.h>
#include <sched.h>

#include "calls_files.h"

/* struct aiocb and struct aiocb64 are the same where off_t has 64 bits. */
static struct aiocb block;

static struct aiocb *block_on(int fd, size_t count, off_t offset)
{
	memset(&block, 0, sizeof(block));
	block.aio_fildes = fd;
	block.aio_buf = buffer;
	block.aio_nbytes = count;
	block.aio_offset = offset;
	block.aio_sigevent.sigev_notify = SIGEV_NONE;
	return &block;
}

static void wait_for_block(void)
{
	while (aio_error(&block) == EINPROGRESS)
		sched_yield();
}

/* Until the operation is over, and what became of it. */
static void reap_block(const char *fname)
{
	ssize_t ret;

	wait_for_block();
	error = aio_error(&block);
	ret = FN(aio_return)(&block);
	expect_head("aio_return", "POSIX");
	expect_args(fname, block.aio_fildes, ret, ret == -1);
	expect_fields("%s", "");
}

static void case_aio_read(void)
{
	bool fsync = strstr(now->symbol, "fsync"), write = strstr(now->symbol, "write");
	int fd;

	make("data", "content");
	memcpy(buffer, "CON", 3);
	fd = given("data", O_RDWR);
	block_on(fd, 3, 1);
	if (fsync) {
		CALL(THIS(aio_fsync)(O_SYNC, &block));
		EXPECT(in("data"), fd, "'operation':%d", O_SYNC);
	} else {
		CALL(THIS(aio_read)(&block));
		EXPECT(in("data"), fd, "'count':3,'offset':1");
	}
	reap_block(in("data"));
	say("%.3s %s\n", buffer, content("data"));
	if (!fsync) {
		block_on(fd, 3, -1); /* the operation fails, not the call */
		CALL(THIS(aio_read)(&block));
		EXPECT(in("data"), fd, "'count':3,'offset':-1");
		reap_block(in("data"));
	} else {
		CALL(THIS(aio_fsync)(77, block_on(fd, 0, 0)));
		EXPECT(in("data"), fd, "'operation':77");
	}
	if (!fsync && !write) {
		block_on(fd, 3, 0)->aio_reqprio = 1000000;
		CALL(THIS(aio_read)(&block));
		EXPECT(in("data"), fd, "'count':3,'offset':0");
	}
	done(fd, "data");
}

static void submitted(int fd, off_t offset)
{
	if (FN(aio_read)(block_on(fd, 3, offset)) < 0)
		fail("no asynchronous read", now->symbol);
	expect_head("aio_read", "POSIX");
	expect_args(in("data"), fd, 0, false);
	expect_fields("'count':3,'offset':%ld", (long)offset);
	wait_for_block();
}

static void case_aio_return(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	submitted(fd, 0);
	CALL(THIS(aio_return)(&block));
	EXPECT(in("data"), fd, "%s", "");
	submitted(fd, -1);
	CALL(THIS(aio_return)(&block));
	error = aio_error(&block);
	EXPECT(in("data"), fd, "%s", "");
	done(fd, "data");
}

static void case_aio_cancel(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	CALL(THIS(aio_cancel)(fd, NULL)); /* nothing is under way */
	EXPECT(in("data"), fd, "%s", "");
	done(fd, "data");
	CALL(THIS(aio_cancel)(999, NULL));
	EXPECT(NULL, 999, "%s", "");
}

static void case_aio_suspend(void)
{
	const struct aiocb *list[] = { &block };
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	submitted(fd, 0);
	CALL(THIS(aio_suspend)(list, 1, NULL));
	EXPECT(NULL, NO_FD, "'count':1");
	reap_block(in("data"));
	done(fd, "data");
	CALL(THIS(aio_suspend)(list, -1, NULL));
	EXPECT(NULL, NO_FD, "'count':18446744073709551615");
}

static void case_lio_listio(void)
{
	struct aiocb none = { .aio_lio_opcode = LIO_NOP }, *list[] = { &block, NULL, &none };
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	block_on(fd, 3, 0)->aio_lio_opcode = LIO_READ;
	CALL(THIS(lio_listio)(LIO_WAIT, list, 3, NULL));
	expect_head("aio_read", "POSIX"); /* the operation */
	expect_args(in("data"), fd, 0, false);
	expect_fields("'count':3,'offset':0");
	EXPECT(NULL, NO_FD, "'mode':%d,'count':1", LIO_WAIT);
	reap_block(in("data"));
	CALL(THIS(lio_listio)(77, list, 3, NULL)); /* no such mode */
	EXPECT(NULL, NO_FD, "'mode':77,'count':1");
	done(fd, "data");
}

/* ---- syscall() ---- */

static void raw_opens(void)
{
	struct open_how how = { .flags = O_RDONLY, .resolve = RESOLVE_BENEATH };
	int here = given(".", O_RDONLY | O_DIRECTORY);

	make("data", "content");
	CALL(THIS(syscall)(SYS_openat2, here, "data", &how, sizeof(how)));
	EXPECT(result < 0 ? in("./data") : in("data"), result < 0 ? NO_FD : (int)result,
	       "'call':'openat2','count':0");
	if (result >= 0)
		done((int)result, "data");
	CALL(THIS(syscall)(SYS_openat2, AT_FDCWD, "absent", &how, sizeof(how)));
	EXPECT(in("absent"), NO_FD, "'call':'openat2','count':0");
	CALL(THIS(syscall)(SYS_openat2, AT_FDCWD, BAD, &how, sizeof(how)));
	EXPECT(NULL, NO_FD, "'call':'openat2','count':0");
	done(here, ".");
}

/* What libuv makes by number, although libc has it: as the calls by name. */
static void raw_named(void)
{
	struct statx st;
	char text[8];
	int fd, other;

	CALL(THIS(syscall)(SYS_openat, AT_FDCWD, in("data"), O_RDWR, 0));
	fd = (int)result;
	expect_head("openat", "POSIX");
	expect_args(in("data"), fd, fd, false);
	expect_fields("'flags':%d,'mode':0", O_RDWR);
	CALL(THIS(syscall)(SYS_statx, AT_FDCWD, "data", 0, STATX_SIZE, &st));
	expect_head("statx", "POSIX");
	expect_args(in("data"), NO_FD, 0, false);
	expect_fields("'flags':0,'mask':%d", STATX_SIZE);
	CALL(THIS(syscall)(SYS_pread64, fd, text, 8, 1l));
	expect_head("pread", "POSIX");
	expect_args(in("data"), fd, 6, false);
	expect_fields("'count':8,'offset':1");
	CALL(THIS(syscall)(SYS_close, fd));
	expect_head("close", "POSIX");
	expect_args(in("data"), fd, 0, false);
	expect_fields("%s", "");
	CALL(THIS(syscall)(SYS_close, fd));
	expect_head("close", "POSIX");
	expect_args(NULL, fd, -1, true);
	expect_fields("%s", "");
	other = (int)syscall(SYS_memfd_create, "m", 0); /* the number again, for a file not seen */
	say("%d\n", other == fd);
	CALL(THIS(syscall)(SYS_lseek, other, 0l, SEEK_SET));
	expect_head("lseek", "POSIX");
	expect_args("/memfd:m", other, 0, false);
	expect_fields("'offset':0,'whence':%d", SEEK_SET);
	syscall(SYS_close, other);
}

static void case_syscall(void)
{
	struct io_uring_params params = { 0 };
	int ring;

	CALL(THIS(syscall)(SYS_getppid)); /* libc has a function for it: not recorded */
	raw_opens();
	raw_named();
	CALL(THIS(syscall)(SYS_io_uring_setup, 4, &params)); /* forbidden in some containers */
	EXPECT(result < 0 ? NULL : "anon_inode:[io_uring]", result < 0 ? NO_FD : (int)result,
	       "'call':'io_uring_setup','count':4");
	if (result >= 0) {
		ring = (int)result;
		CALL(THIS(syscall)(SYS_io_uring_enter, ring, 2, 0, 0, NULL, 0));
		EXPECT("anon_inode:[io_uring]", ring, "'call':'io_uring_enter','count':2");
		closed(ring, "anon_inode:[io_uring]");
	}
	CALL(THIS(syscall)(SYS_io_submit, 0ul, 3l, NULL)); /* no such context */
	EXPECT(NULL, NO_FD, "'call':'io_submit','count':3");
	CALL(THIS(syscall)(SYS_io_getevents, 0ul, 1l, 5l, NULL, NULL));
	EXPECT(NULL, NO_FD, "'call':'io_getevents','count':5");
}
