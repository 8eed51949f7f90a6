/* calls_posix.h - the cases of calls_target.c on descriptors and paths. */
#pragma once

#include "calls_harness.h"

/* ---- opening and closing ---- */

static mode_t mode_of(const char *name)
{
	struct stat st;

	return syscall(SYS_newfstatat, AT_FDCWD, in(name), &st, 0) < 0 ? 0 : st.st_mode;
}

static void case_open(void)
{
	__typeof__(&open) call = symbol(now->symbol);
	mode_t before = umask(0);

	make("data", "content");
	CALL(call("data", O_RDONLY));
	EXPECT(in("data"), (int)result, "'flags':0,'mode':0");
	done((int)result, "data");
	CALL(call(in("made"), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0642));
	EXPECT(in("made"), (int)result, "'flags':%d,'mode':%d",
	       O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0642);
	say("mode %o\n", mode_of("made"));
	done((int)result, "made");
	CALL(call("made", O_CREAT | O_EXCL | O_RDWR, 0600));
	EXPECT(in("made"), NO_FD, "'flags':%d,'mode':%d", O_CREAT | O_EXCL | O_RDWR, 0600);
	CALL(call("absent", O_RDONLY));
	EXPECT(in("absent"), NO_FD, "'flags':0,'mode':0");
	CALL(call(BAD, O_RDONLY));
	EXPECT(NULL, NO_FD, "'flags':0,'mode':0");
	CALL(call(BAD, O_TMPFILE | O_RDONLY, 0600)); /* refused before the path is looked at */
	EXPECT(NULL, NO_FD, "'flags':%d,'mode':%d", O_TMPFILE | O_RDONLY, 0600);
	syscall(SYS_unlinkat, AT_FDCWD, in("made"), 0);
	umask(before);
}

/* O_TMPFILE takes a mode, too. */
static void case_open_tmpfile(void)
{
	__typeof__(&open) call = symbol(now->symbol);
	mode_t before = umask(0);
	struct stat st = { 0 };

	case_open();
	CALL(call(dir, O_TMPFILE | O_RDWR, 0604));
	EXPECT(dir, result < 0 ? NO_FD : (int)result, "'flags':%d,'mode':%d", O_TMPFILE | O_RDWR,
	       0604);
	if (result >= 0) {
		syscall(SYS_newfstatat, (int)result, "", &st, AT_EMPTY_PATH);
		say("mode %o\n", st.st_mode);
		FN(close)((int)result);
		expect_head("close", "POSIX");
		expect_args(dir, (int)result, 0, false);
		expect_fields("%s", "");
	}
	umask(before);
}

static void case_openat(void)
{
	__typeof__(&openat) call = symbol(now->symbol);
	int here;

	make_directory("sub");
	make("sub/data", "content");
	here = given("sub", O_RDONLY | O_DIRECTORY);
	CALL(call(here, "data", O_RDONLY));
	EXPECT(in("sub/data"), (int)result, "'flags':0,'mode':0");
	done((int)result, "sub/data");
	CALL(call(here, "new", O_CREAT | O_WRONLY, 0600));
	EXPECT(in("sub/new"), (int)result, "'flags':%d,'mode':%d", O_CREAT | O_WRONLY, 0600);
	say("mode %o\n", mode_of("sub/new"));
	done((int)result, "sub/new");
	CALL(call(AT_FDCWD, "./sub/data", O_RDONLY));
	EXPECT(in("sub/data"), (int)result, "'flags':0,'mode':0");
	done((int)result, "sub/data");
	CALL(call(here, in("absent"), O_RDONLY));
	EXPECT(in("absent"), NO_FD, "'flags':0,'mode':0");
	CALL(call(here, BAD, O_RDONLY));
	EXPECT(NULL, NO_FD, "'flags':0,'mode':0");
	done(here, "sub");
	syscall(SYS_unlinkat, AT_FDCWD, in("sub/data"), 0);
	syscall(SYS_unlinkat, AT_FDCWD, in("sub/new"), 0);
	syscall(SYS_unlinkat, AT_FDCWD, in("sub"), AT_REMOVEDIR);
}

static void case_open_2(void)
{
	__typeof__(&__open_2) call = symbol(now->symbol);

	make("data", "content");
	CALL(call("data", O_RDWR));
	EXPECT(in("data"), (int)result, "'flags':%d,'mode':0", O_RDWR);
	done((int)result, "data");
	CALL(call("absent", O_RDONLY));
	EXPECT(in("absent"), NO_FD, "'flags':0,'mode':0");
}

static void case_openat_2(void)
{
	__typeof__(&__openat_2) call = symbol(now->symbol);

	make("data", "content");
	CALL(call(AT_FDCWD, "data", O_RDWR));
	EXPECT(in("data"), (int)result, "'flags':%d,'mode':0", O_RDWR);
	done((int)result, "data");
	CALL(call(AT_FDCWD, "data/below", O_RDONLY));
	EXPECT(in("data/below"), NO_FD, "'flags':0,'mode':0");
}

static void case_creat(void)
{
	__typeof__(&creat) call = symbol(now->symbol);
	mode_t before = umask(0);

	CALL(call("made", 0605));
	EXPECT(in("made"), (int)result, "'mode':%d", 0605);
	say("mode %o\n", mode_of("made"));
	done((int)result, "made");
	CALL(call("absent/made", 0600));
	EXPECT(in("absent/made"), NO_FD, "'mode':%d", 0600);
	syscall(SYS_unlinkat, AT_FDCWD, in("made"), 0);
	umask(before);
}

static void case_close(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	CALL(THIS(close)(fd));
	EXPECT(in("data"), fd, "%s", "");
	CALL(THIS(close)(fd));
	EXPECT(NULL, fd, "%s", "");
	CALL(THIS(close)(-1));
	EXPECT(NULL, -1, "%s", "");
}

/* Open two files, close them by `close_both`, and find that the numbers stand for others. */
static void closed_together(void (*close_both)(int first, int last))
{
	int one, two;

	make("data", "content");
	make("other", "more content");
	one = given("data", O_RDONLY);
	two = given("data", O_RDONLY);
	close_both(one, two);
	say("%d %d\n", given("other", O_RDONLY) == one, given("other", O_RDONLY) == two);
	done(one, "other");
	syscall(SYS_close, two); /* unseen; what comes next has a name again */
	FN(dup2)(given("other", O_RDONLY), two);
	expect_head("dup2", "POSIX");
	expect_args(in("other"), one, two, false);
	expect_fields("'newfd':%d", two);
	close_both(one, two);
	syscall(SYS_pipe2, (int[2]){ 0 }, 0); /* takes both numbers, and has no name */
	result = FN(read)(two, NULL, 0);
	error = errno;
	expect_head("read", "POSIX");
	expect_args(PIPE, two, result, result == -1);
	expect_fields("'count':0");
	syscall(SYS_close, one);
	FN(close)(two);
	expect_head("close", "POSIX");
	expect_args(PIPE, two, 0, false);
	expect_fields("%s", "");
}

static void by_range(int first, int last)
{
	CALL(THIS(close_range)(first, last, 0));
	EXPECT(NULL, NO_FD, "'first':%d,'last':%d,'flags':0", first, last);
}

static void case_close_range(void)
{
	closed_together(by_range);
	CALL(THIS(close_range)(9, 3, 0)); /* no range */
	EXPECT(NULL, NO_FD, "'first':9,'last':3,'flags':0");
	CALL(THIS(close_range)(900, ~0u, 4)); /* CLOSE_RANGE_CLOEXEC closes nothing */
	EXPECT(NULL, NO_FD, "'first':900,'last':%u,'flags':4", ~0u);
}

static void from_first(int first, int last)
{
	(void)last;
	errno = SENTINEL;
	FN(closefrom)(first);
	say("%s: errno %d\n", now->symbol, errno);
	expect_head(now->canonical, now->category);
	put_expected("'first':%d}}\n", first);
}

static void case_closefrom(void)
{
	closed_together(from_first);
}

/* ---- reading ---- */

static char buffer[4096];

/* More parts than the kernel takes; the compiler does not know. */
static volatile int too_many = 5000;
#define TOO_MANY too_many

/* Read to the end and past it, then from a descriptor that is not for reading. */
static void reading(ssize_t (*call)(int fd, void *buf, size_t count))
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	CALL(call(fd, buffer, 4));
	EXPECT(in("data"), fd, "'count':4");
	say("%.4s\n", buffer);
	CALL(call(fd, buffer, 100));
	EXPECT(in("data"), fd, "'count':100");
	CALL(call(fd, buffer, 100));
	EXPECT(in("data"), fd, "'count':100");
	CALL(call(fd, BAD, 0));
	EXPECT(in("data"), fd, "'count':0");
	done(fd, "data");
	fd = given("data", O_WRONLY);
	CALL(call(fd, buffer, 5));
	EXPECT(in("data"), fd, "'count':5");
	done(fd, "data");
	CALL(call(999, buffer, 5));
	EXPECT(NULL, 999, "'count':5");
}

static void case_read(void)
{
	reading(symbol(now->symbol));
}

static ssize_t read_chk(int fd, void *buf, size_t count)
{
	return FN(__read_chk)(fd, buf, count, sizeof(buffer));
}

static void case_read_chk(void)
{
	reading(read_chk);
}

static void reading_at(ssize_t (*call)(int fd, void *buf, size_t count, off_t offset))
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	CALL(call(fd, buffer, 4, 2));
	EXPECT(in("data"), fd, "'count':4,'offset':2");
	say("%.4s\n", buffer);
	CALL(call(fd, buffer, 4, 1ll << 40));
	EXPECT(in("data"), fd, "'count':4,'offset':%lld", 1ll << 40);
	CALL(call(fd, buffer, 4, -3));
	EXPECT(in("data"), fd, "'count':4,'offset':-3");
	done(fd, "data");
}

static void case_pread(void)
{
	reading_at(symbol(now->symbol));
}

static ssize_t pread_chk(int fd, void *buf, size_t count, off_t offset)
{
	return THIS(__pread_chk)(fd, buf, count, offset, sizeof(buffer));
}

static void case_pread_chk(void)
{
	reading_at(pread_chk);
}

static const struct iovec *two_parts(void)
{
	static struct iovec iov[2];

	iov[0] = (struct iovec){ buffer, 3 };
	iov[1] = (struct iovec){ buffer + 10, 100 };
	return iov;
}

static void case_readv(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	CALL(THIS(readv)(fd, two_parts(), 2));
	EXPECT(in("data"), fd, "'iovcnt':2");
	say("%.3s %.4s\n", buffer, buffer + 10);
	CALL(THIS(readv)(fd, (struct iovec *)BAD, 2));
	EXPECT(in("data"), fd, "'iovcnt':2");
	CALL(THIS(readv)(fd, two_parts(), TOO_MANY));
	EXPECT(in("data"), fd, "'iovcnt':5000");
	done(fd, "data");
}

static void case_preadv(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	CALL(THIS(preadv)(fd, two_parts(), 2, 1));
	EXPECT(in("data"), fd, "'iovcnt':2,'offset':1");
	say("%.3s %.3s\n", buffer, buffer + 10);
	CALL(THIS(preadv)(fd, two_parts(), 1, -1));
	EXPECT(in("data"), fd, "'iovcnt':1,'offset':-1");
	done(fd, "data");
}

static void case_preadv2(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	CALL(THIS(preadv2)(fd, two_parts(), 2, -1, 0)); /* -1: the file's own position */
	EXPECT(in("data"), fd, "'iovcnt':2,'offset':-1,'flags':0");
	CALL(THIS(preadv2)(fd, two_parts(), 2, 3, RWF_HIPRI));
	EXPECT(in("data"), fd, "'iovcnt':2,'offset':3,'flags':%d", RWF_HIPRI);
	CALL(THIS(preadv2)(fd, two_parts(), 2, -5, 0));
	EXPECT(in("data"), fd, "'iovcnt':2,'offset':-5,'flags':0");
	done(fd, "data");
}

/* ---- writing ---- */

static void case_write(void)
{
	int fd;

	make("data", "");
	fd = given("data", O_WRONLY);
	CALL(THIS(write)(fd, "four", 4));
	EXPECT(in("data"), fd, "'count':4");
	CALL(THIS(write)(fd, BAD, 4));
	EXPECT(in("data"), fd, "'count':4");
	done(fd, "data");
	say("%s\n", content("data"));
	fd = given("data", O_RDONLY);
	CALL(THIS(write)(fd, "four", 4));
	EXPECT(in("data"), fd, "'count':4");
	done(fd, "data");
}

static void case_pwrite(void)
{
	int fd;

	make("data", "");
	fd = given("data", O_WRONLY);
	CALL(THIS(pwrite)(fd, "four", 4, 0));
	EXPECT(in("data"), fd, "'count':4,'offset':0");
	CALL(THIS(pwrite)(fd, "more", 2, 3));
	EXPECT(in("data"), fd, "'count':2,'offset':3");
	CALL(THIS(pwrite)(fd, "four", 4, -1));
	EXPECT(in("data"), fd, "'count':4,'offset':-1");
	done(fd, "data");
	say("%s\n", content("data"));
}

static const struct iovec *two_words(void)
{
	static struct iovec iov[2];

	iov[0] = (struct iovec){ (char *)"one ", 4 };
	iov[1] = (struct iovec){ (char *)"two", 3 };
	return iov;
}

static void case_writev(void)
{
	int fd;

	make("data", "");
	fd = given("data", O_WRONLY);
	CALL(THIS(writev)(fd, two_words(), 2));
	EXPECT(in("data"), fd, "'iovcnt':2");
	CALL(THIS(writev)(fd, two_words(), TOO_MANY));
	EXPECT(in("data"), fd, "'iovcnt':5000");
	done(fd, "data");
	say("%s\n", content("data"));
}

static void case_pwritev(void)
{
	int fd;

	make("data", "0123456789");
	fd = given("data", O_WRONLY);
	CALL(THIS(pwritev)(fd, two_words(), 2, 2));
	EXPECT(in("data"), fd, "'iovcnt':2,'offset':2");
	CALL(THIS(pwritev)(fd, two_words(), 2, -2));
	EXPECT(in("data"), fd, "'iovcnt':2,'offset':-2");
	done(fd, "data");
	say("%s\n", content("data"));
}

static void case_pwritev2(void)
{
	int fd;

	make("data", "0123456789");
	fd = given("data", O_WRONLY);
	CALL(THIS(pwritev2)(fd, two_words(), 2, 0, RWF_APPEND));
	EXPECT(in("data"), fd, "'iovcnt':2,'offset':0,'flags':%d", RWF_APPEND);
	CALL(THIS(pwritev2)(fd, two_words(), 2, 0, 1 << 30));
	EXPECT(in("data"), fd, "'iovcnt':2,'offset':0,'flags':%d", 1 << 30);
	done(fd, "data");
	say("%s\n", content("data"));
}

/* ---- the rest on a descriptor ---- */

static void case_lseek(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	CALL(THIS(lseek)(fd, -2, SEEK_END));
	EXPECT(in("data"), fd, "'offset':-2,'whence':%d", SEEK_END);
	CALL(THIS(lseek)(fd, 5ll << 32, SEEK_SET));
	EXPECT(in("data"), fd, "'offset':%lld,'whence':%d", 5ll << 32, SEEK_SET);
	CALL(THIS(lseek)(fd, -1, SEEK_SET));
	EXPECT(in("data"), fd, "'offset':-1,'whence':%d", SEEK_SET);
	done(fd, "data");
}

static void case_fsync(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDWR);
	CALL(THIS(fsync)(fd));
	EXPECT(in("data"), fd, "%s", "");
	done(fd, "data");
	CALL(THIS(fsync)(999));
	EXPECT(NULL, 999, "%s", "");
}

static void case_ftruncate(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDWR);
	CALL(THIS(ftruncate)(fd, 4));
	EXPECT(in("data"), fd, "'length':4");
	CALL(THIS(ftruncate)(fd, -1));
	EXPECT(in("data"), fd, "'length':-1");
	done(fd, "data");
	say("%s\n", content("data"));
}

static void case_fstat(void)
{
	struct stat st = { 0 };
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	CALL(THIS(fstat)(fd, &st));
	EXPECT(in("data"), fd, "%s", "");
	say("size %ld\n", (long)st.st_size);
	CALL(THIS(fstat)(fd, (struct stat *)BAD));
	EXPECT(in("data"), fd, "%s", "");
	done(fd, "data");
	CALL(THIS(fstat)(999, &st));
	EXPECT(NULL, 999, "%s", "");
}

static void case_fxstat(void)
{
	struct stat st = { 0 };
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	CALL(THIS(__fxstat)(1, fd, &st));
	EXPECT(in("data"), fd, "%s", "");
	say("size %ld\n", (long)st.st_size);
	CALL(THIS(__fxstat)(77, fd, &st)); /* no such version */
	EXPECT(in("data"), fd, "%s", "");
	done(fd, "data");
}

static void case_copy_file_range(void)
{
	off64_t from_at = 2, to_at = 1;
	int from, to;

	make("data", "content");
	make("copy", "");
	from = given("data", O_RDONLY);
	to = given("copy", O_WRONLY);
	CALL(THIS(copy_file_range)(from, &from_at, to, &to_at, 3, 0));
	EXPECT(in("data"), from,
	       "'fd_out':%d,'count':3,'offset':2,'offset_out':1,'flags':0,'target':'%s'", to,
	       in("copy"));
	say("%ld %ld\n", (long)from_at, (long)to_at);
	CALL(THIS(copy_file_range)(from, NULL, to, NULL, 2, 0));
	EXPECT(in("data"), from,
	       "'fd_out':%d,'count':2,'offset':-1,'offset_out':-1,'flags':0,'target':'%s'", to,
	       in("copy"));
	CALL(THIS(copy_file_range)(from, NULL, to, NULL, 2, 1));
	EXPECT(in("data"), from,
	       "'fd_out':%d,'count':2,'offset':-1,'offset_out':-1,'flags':1,'target':'%s'", to,
	       in("copy"));
	CALL(THIS(copy_file_range)(from, (off64_t *)BAD, to, NULL, 2, 0));
	EXPECT(in("data"), from,
	       "'fd_out':%d,'count':2,'offset':-1,'offset_out':-1,'flags':0,'target':'%s'", to,
	       in("copy"));
	done(from, "data");
	done(to, "copy");
	say("%s\n", content("copy") + 1);
}

static void case_sendfile(void)
{
	off_t at = 3;
	int from, to;

	make("data", "content");
	make("copy", "");
	from = given("data", O_RDONLY);
	to = given("copy", O_WRONLY);
	CALL(THIS(sendfile)(to, from, &at, 2));
	EXPECT(in("data"), from, "'fd_out':%d,'count':2,'offset':3,'target':'%s'", to, in("copy"));
	say("%ld\n", (long)at);
	CALL(THIS(sendfile)(to, from, NULL, 100));
	EXPECT(in("data"), from, "'fd_out':%d,'count':100,'offset':-1,'target':'%s'", to,
	       in("copy"));
	done(to, "copy");
	CALL(THIS(sendfile)(to, from, NULL, 100));
	EXPECT(in("data"), from, "'fd_out':%d,'count':100,'offset':-1,'target':null", to);
	done(from, "data");
	say("%s\n", content("copy"));
}

/* dup: the copy has the name of the first, and outlives it. */
static void copied(int fd, int copy)
{
	done(fd, "data");
	if (FN(read)(copy, buffer, 3) != 3)
		fail("cannot read from a copy", now->symbol);
	expect_head("read", "POSIX");
	expect_args(in("data"), copy, 3, false);
	expect_fields("'count':3");
	done(copy, "data");
}

static void case_dup(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	CALL(THIS(dup)(fd));
	EXPECT(in("data"), fd, "%s", "");
	copied(fd, (int)result);
	CALL(THIS(dup)(999));
	EXPECT(NULL, 999, "%s", "");
}

static void case_dup2(void)
{
	int fd, other;

	make("data", "content");
	make("other", "content");
	fd = given("data", O_RDONLY);
	other = given("other", O_RDONLY);
	CALL(THIS(dup2)(fd, fd));
	EXPECT(in("data"), fd, "'newfd':%d", fd);
	CALL(THIS(dup2)(fd, other)); /* closes other */
	EXPECT(in("data"), fd, "'newfd':%d", other);
	CALL(THIS(dup2)(999, other));
	EXPECT(NULL, 999, "'newfd':%d", other);
	copied(fd, other);
}

static void case_dup3(void)
{
	int fd, other;

	make("data", "content");
	make("other", "content");
	fd = given("data", O_RDONLY);
	other = given("other", O_RDONLY);
	CALL(THIS(dup3)(fd, fd, 0));
	EXPECT(in("data"), fd, "'newfd':%d,'flags':0", fd);
	CALL(THIS(dup3)(fd, other, O_CLOEXEC));
	EXPECT(in("data"), fd, "'newfd':%d,'flags':%d", other, O_CLOEXEC);
	say("%ld\n", syscall(SYS_fcntl, other, F_GETFD));
	copied(fd, other);
}

static void case_fcntl(void)
{
	__typeof__(&fcntl) call = symbol(now->symbol);
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	int fd;

	make("data", "content");
	fd = given("data", O_RDWR);
	CALL(call(fd, F_GETFL));
	EXPECT(in("data"), fd, "'cmd':%d,'arg':0", F_GETFL);
	CALL(call(fd, F_SETFL, O_APPEND));
	EXPECT(in("data"), fd, "'cmd':%d,'arg':%d", F_SETFL, O_APPEND);
	CALL(call(fd, F_OFD_SETLK, &lock));
	EXPECT(in("data"), fd, "'cmd':%d,'arg':0", F_OFD_SETLK);
	CALL(call(fd, 123456, 7)); /* no such command: passed on as it is */
	EXPECT(in("data"), fd, "'cmd':123456,'arg':0");
	CALL(call(fd, F_GETLK, BAD));
	EXPECT(in("data"), fd, "'cmd':%d,'arg':0", F_GETLK);
	CALL(call(fd, F_DUPFD, 50));
	EXPECT(in("data"), fd, "'cmd':%d,'arg':50", F_DUPFD);
	done((int)result, "data");
	CALL(call(fd, F_DUPFD_CLOEXEC, 60));
	EXPECT(in("data"), fd, "'cmd':%d,'arg':60", F_DUPFD_CLOEXEC);
	say("%ld\n", syscall(SYS_fcntl, (int)result, F_GETFD));
	copied(fd, (int)result);
}

/* ---- mappings ---- */

static void expect_call(const char *name, const char *fname)
{
	expect_head(name, "POSIX");
	expect_args(fname, NO_FD, result, result == -1);
}

static void case_mmap(void)
{
	__typeof__(&mmap) call = symbol(now->symbol);
	char *at, *other;
	int fd;

	make("data", "content");
	fd = given("data", O_RDWR);
	CALL_POINTER(at, call(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	result = (long)at;
	EXPECT(in("data"), fd, "'length':8192,'prot':%d,'flags':%d,'offset':0",
	       PROT_READ | PROT_WRITE, MAP_SHARED);
	say("%.7s\n", at);
	CALL(call(NULL, 4096, PROT_READ, MAP_SHARED, fd, 1));
	EXPECT(in("data"), fd, "'length':4096,'prot':%d,'flags':%d,'offset':1", PROT_READ,
	       MAP_SHARED);
	done(fd, "data");
	/* Memory is no I/O, whatever is done with it. */
	CALL_POINTER(other, call(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	CALL(FN(munmap)(other, 4096));
	CALL(FN(munmap)(at, 8192));
	expect_call("munmap", in("data"));
	expect_fields("'addr':%lu,'length':8192", (unsigned long)at);
}

/* A mapping, its descriptor closed; all recorded. */
static char *mapping(size_t length)
{
	int fd;
	char *at;

	make("data", "content");
	fd = given("data", O_RDWR);
	at = FN(mmap)(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		fail("cannot map", "data");
	expect_head("mmap", "POSIX");
	expect_args(in("data"), fd, (long)at, false);
	expect_fields("'length':%zu,'prot':%d,'flags':%d,'offset':0", length,
		      PROT_READ | PROT_WRITE, MAP_SHARED);
	done(fd, "data");
	return at;
}

static void case_munmap(void)
{
	char *at = mapping(5 * 4096), *memory;

	CALL(THIS(munmap)(at + 1, 4096)); /* refused: nothing is unmapped */
	EXPECT(in("data"), NO_FD, "'addr':%lu,'length':4096", (unsigned long)at + 1);
	CALL(THIS(munmap)(at, 0));
	EXPECT(in("data"), NO_FD, "'addr':%lu,'length':0", (unsigned long)at);
	CALL(THIS(munmap)(at + 2 * 4096, 4096)); /* a hole in the middle */
	EXPECT(in("data"), NO_FD, "'addr':%lu,'length':4096", (unsigned long)at + 2 * 4096);
	memory = FN(mmap)(at + 2 * 4096, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
			  -1, 0);
	CALL(THIS(munmap)(memory, 4096)); /* is memory now: not recorded */
	CALL(THIS(munmap)(at, 4096));
	EXPECT(in("data"), NO_FD, "'addr':%lu,'length':4096", (unsigned long)at);
	CALL(THIS(munmap)(at + 4096, 1));
	EXPECT(in("data"), NO_FD, "'addr':%lu,'length':1", (unsigned long)at + 4096);
	CALL(THIS(munmap)(at, 5 * 4096)); /* what is left of it, and what is not */
	EXPECT(in("data"), NO_FD, "'addr':%lu,'length':%d", (unsigned long)at, 5 * 4096);
	CALL(THIS(munmap)(at, 5 * 4096)); /* nothing is there any more: not recorded */
}

static void case_msync(void)
{
	char *at = mapping(2 * 4096);

	CALL(THIS(msync)(at, 4096, MS_SYNC));
	EXPECT(in("data"), NO_FD, "'addr':%lu,'length':4096,'flags':%d", (unsigned long)at,
	       MS_SYNC);
	CALL(THIS(msync)(at + 4096, 4096, MS_ASYNC | MS_SYNC));
	EXPECT(in("data"), NO_FD, "'addr':%lu,'length':4096,'flags':%d", (unsigned long)at + 4096,
	       MS_ASYNC | MS_SYNC);
	CALL(FN(munmap)(at, 2 * 4096));
	expect_call("munmap", in("data"));
	expect_fields("'addr':%lu,'length':%d", (unsigned long)at, 2 * 4096);
	CALL(THIS(msync)(at, 4096, MS_SYNC)); /* nothing is there any more: not recorded */
}
