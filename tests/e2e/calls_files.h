/* calls_files.h - the cases of calls_target.c on what a file is, has and may, and on whole trees. */
#pragma once

#include <linux/falloc.h>
#include <sys/sysmacros.h>

#include "calls_harness.h"

/* Close what has a name that given() has not given. */
static void closed(int fd, const char *fname)
{
	if (FN(close)(fd) < 0)
		fail("cannot close", now->symbol);
	expect_head("close", "POSIX");
	expect_args(fname, fd, 0, false);
	expect_fields("%s", "");
}

/* What the trace must say of a call that returned an error number. */
#define EXPECT_NUMBER(fname, fd, ...)                       \
	do {                                                \
		error = (int)result;                        \
		expect_head(now->canonical, now->category); \
		expect_args(fname, fd, result, result > 0); \
		expect_fields(__VA_ARGS__);                 \
	} while (0)

/* After a call that returns nothing; errno is kept all the same. */
#define CALL_VOID(...)                                     \
	do {                                               \
		errno = SENTINEL;                          \
		__VA_ARGS__;                               \
		say("%s: errno %d\n", now->symbol, errno); \
	} while (0)

static void expect_void(const char *fname, int fd, const char *fields)
{
	expect_head(now->canonical, now->category);
	if (fname)
		put_expected("'fname':'%s',", fname);
	if (fd != NO_FD)
		put_expected("'fd':%d%s", fd, *fields ? "," : "");
	put_expected("%s}}\n", fields);
}

/* ---- made without a path ---- */

/* A number that stood for a file which was closed unseen: what comes next must not have its name. */
static void stale_number(void)
{
	make("data", "content");
	syscall(SYS_close, given("data", O_RDONLY));
}

static void case_open_by_handle_at(void)
{
	static struct {
		struct file_handle head;
		char room[128];
	} handle;
	int mount = 0, here = given(".", O_RDONLY | O_DIRECTORY);

	make("data", "content");
	handle.head.handle_bytes = sizeof(handle.room);
	syscall(SYS_name_to_handle_at, AT_FDCWD, in("data"), &handle, &mount, 0);
	CALL(THIS(open_by_handle_at)(here, &handle.head, O_RDONLY));
	EXPECT(result < 0 ? NULL : in("data"), result < 0 ? NO_FD : (int)result, "'flags':0");
	if (result >= 0)
		done((int)result, "data");
	handle.head.handle_bytes = 100000;
	CALL(THIS(open_by_handle_at)(here, &handle.head, O_RDONLY));
	EXPECT(NULL, NO_FD, "'flags':0");
	done(here, ".");
}

static void case_memfd_create(void)
{
	stale_number();
	CALL(THIS(memfd_create)("some \"name\"", MFD_CLOEXEC));
	EXPECT("/memfd:some \\\"name\\\"", (int)result, "'flags':%d", MFD_CLOEXEC);
	closed((int)result, "/memfd:some \\\"name\\\"");
	CALL(THIS(memfd_create)("name", 0x8000)); /* no such flag */
	EXPECT(NULL, NO_FD, "'flags':%d", 0x8000);
}

static const char *shared_name(bool path)
{
	static char name[64];

	snprintf(name, sizeof(name), "%s/pfw-calls-target-%d", path ? "/dev/shm" : "", getpid());
	return name;
}

static void case_shm_open(void)
{
	stale_number();
	CALL(THIS(shm_open)(shared_name(false), O_RDWR | O_CREAT | O_EXCL, 0600));
	EXPECT(shared_name(true), (int)result, "'flags':%d,'mode':%d", O_RDWR | O_CREAT | O_EXCL,
	       0600);
	closed((int)result, shared_name(true));
	CALL(THIS(shm_open)(shared_name(false), O_RDWR | O_CREAT | O_EXCL, 0600));
	EXPECT(NULL, NO_FD, "'flags':%d,'mode':%d", O_RDWR | O_CREAT | O_EXCL, 0600);
	syscall(SYS_unlinkat, AT_FDCWD, shared_name(true), 0);
}

static void case_shm_unlink(void)
{
	syscall(SYS_close,
		syscall(SYS_openat, AT_FDCWD, shared_name(true), O_CREAT | O_RDWR, 0600));
	CALL(THIS(shm_unlink)(shared_name(false)));
	EXPECT(shared_name(true), NO_FD, "%s", "");
	CALL(THIS(shm_unlink)(shared_name(false)));
	EXPECT(shared_name(true), NO_FD, "%s", "");
	CALL(THIS(shm_unlink)("/in/a/directory"));
	EXPECT(NULL, NO_FD, "%s", "");
}

static int make_pipe(int *fds, int flags)
{
	if (!strcmp(now->symbol, "pipe2"))
		return THIS(pipe2)(fds, flags);
	return THIS(pipe)(fds);
}

static void case_pipe(void)
{
	const char *fields = strcmp(now->symbol, "pipe2") ? "" : ",'flags':524288";
	int fds[2] = { -1, -1 };

	stale_number();
	CALL(make_pipe(fds, O_CLOEXEC));
	EXPECT(PIPE, fds[0], "'fd_out':%d%s", fds[1], fields);
	if (FN(write)(fds[1], "x", 1) != 1)
		fail("cannot write", "a pipe");
	expect_head("write", "POSIX");
	expect_args(PIPE, fds[1], 1, false);
	expect_fields("'count':1");
	closed(fds[0], PIPE);
	closed(fds[1], PIPE);
	CALL(make_pipe((int *)BAD, O_CLOEXEC));
	EXPECT(NULL, NO_FD, "'fd_out':-1%s", fields);
}

/* Any of the family, with or without a suffix. */
static int make_temporary(char *path, const char *suffix, int flags)
{
	bool takes_flags = strstr(now->symbol, "mko"), takes_suffix = strstr(now->symbol, "temps");

	if (takes_suffix)
		strcat(path, suffix);
	if (takes_flags && takes_suffix)
		return THIS(mkostemps)(path, (int)strlen(suffix), flags);
	if (takes_flags)
		return THIS(mkostemp)(path, flags);
	return takes_suffix ? THIS(mkstemps)(path, (int)strlen(suffix)) : THIS(mkstemp)(path);
}

static void case_mkstemp(void)
{
	int flags = strstr(now->symbol, "mko") ? O_APPEND : 0;
	char path[PATH_MAX] = "dataXXXXXX";

	CALL(make_temporary(path, ".text", O_APPEND));
	EXPECT(in(path), (int)result, "'flags':%d", flags);
	say("flags %lx\n", syscall(SYS_fcntl, (int)result, F_GETFL));
	done((int)result, path);
	syscall(SYS_unlinkat, AT_FDCWD, in(path), 0);
	strcpy(path, "absent/dataXXXXXX");
	CALL(make_temporary(path, "", O_APPEND));
	EXPECT(in(path), NO_FD, "'flags':%d", flags);
	strcpy(path, "not a template");
	CALL(make_temporary(path, "", O_APPEND));
	EXPECT(in(path), NO_FD, "'flags':%d", flags);
}

static void case_mkdtemp(void)
{
	char path[64] = "dirXXXXXX", *ret;

	CALL_POINTER(ret, THIS(mkdtemp)(path));
	result = 0;
	EXPECT(in(path), NO_FD, "%s", "");
	say("%d\n", ret == path);
	syscall(SYS_unlinkat, AT_FDCWD, in(path), AT_REMOVEDIR);
	strcpy(path, "not a template");
	CALL_POINTER(ret, THIS(mkdtemp)(path));
	result = -1;
	EXPECT(in(path), NO_FD, "%s", "");
}

static void case_tmpfile(void)
{
	char link[64], name[PATH_MAX] = "";
	FILE *file;
	char *mark;
	int fd;

	stale_number();
	CALL_POINTER(file, THIS(tmpfile)());
	if (!file)
		fail("no temporary file", now->symbol);
	result = fd = fileno(file);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	syscall(SYS_readlinkat, AT_FDCWD, link, name, sizeof(name) - 1);
	mark = strstr(name, " (deleted)");
	if (mark)
		*mark = '\0';
	EXPECT(name, fd, "%s", "");
	if (FN(fclose)(file) < 0)
		fail("cannot close", now->symbol);
	expect_head("fclose", "STDIO");
	expect_args(name, fd, 0, false);
	expect_fields("%s", "");
}

static void case_login_tty(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDWR);
	CALL(THIS(login_tty)(fd)); /* it is no terminal */
	EXPECT(in("data"), fd, "%s", "");
	done(fd, "data");
}

/* ---- space, advice, locks ---- */

static void case_fallocate(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDWR);
	CALL(THIS(fallocate)(fd, FALLOC_FL_KEEP_SIZE, 1, 100));
	EXPECT(in("data"), fd, "'mode':%d,'offset':1,'length':100", FALLOC_FL_KEEP_SIZE);
	CALL(THIS(fallocate)(fd, 0, -1, 5ll << 32));
	EXPECT(in("data"), fd, "'mode':0,'offset':-1,'length':%lld", 5ll << 32);
	done(fd, "data");
}

static void case_posix_fallocate(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDWR);
	CALL(THIS(posix_fallocate)(fd, 2, 100));
	EXPECT_NUMBER(in("data"), fd, "'offset':2,'length':100");
	CALL(THIS(posix_fallocate)(fd, -1, 100));
	EXPECT_NUMBER(in("data"), fd, "'offset':-1,'length':100");
	done(fd, "data");
}

static void case_posix_fadvise(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDWR);
	CALL(THIS(posix_fadvise)(fd, 1, 100, POSIX_FADV_DONTNEED));
	EXPECT_NUMBER(in("data"), fd, "'offset':1,'length':100,'advice':%d", POSIX_FADV_DONTNEED);
	CALL(THIS(posix_fadvise)(fd, 1, 100, 77)); /* no such advice */
	EXPECT_NUMBER(in("data"), fd, "'offset':1,'length':100,'advice':77");
	done(fd, "data");
	CALL(THIS(posix_fadvise)(999, 1, 100, 0));
	EXPECT_NUMBER(NULL, 999, "'offset':1,'length':100,'advice':0");
}

static void case_readahead(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	CALL(THIS(readahead)(fd, 2, 100));
	EXPECT(in("data"), fd, "'offset':2,'count':100");
	done(fd, "data");
	fd = given("data", O_WRONLY);
	CALL(THIS(readahead)(fd, 2, 100));
	EXPECT(in("data"), fd, "'offset':2,'count':100");
	done(fd, "data");
}

static void case_sync_file_range(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDWR);
	CALL(THIS(sync_file_range)(fd, 1, 5, SYNC_FILE_RANGE_WRITE));
	EXPECT(in("data"), fd, "'offset':1,'length':5,'flags':%d", SYNC_FILE_RANGE_WRITE);
	CALL(THIS(sync_file_range)(fd, -1, 5, 0));
	EXPECT(in("data"), fd, "'offset':-1,'length':5,'flags':0");
	done(fd, "data");
}

static void case_sync(void)
{
	CALL_VOID(THIS(sync)());
	expect_void(NULL, NO_FD, "");
}

static void case_truncate(void)
{
	make("data", "content");
	CALL(THIS(truncate)("data", 4));
	EXPECT(in("data"), NO_FD, "'length':4");
	say("%s\n", content("data"));
	CALL(THIS(truncate)(in("absent"), 4));
	EXPECT(in("absent"), NO_FD, "'length':4");
	CALL(THIS(truncate)(BAD, -1)); /* refused before the path is looked at */
	EXPECT(NULL, NO_FD, "'length':-1");
}

static void case_flock(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	CALL(THIS(flock)(fd, LOCK_EX | LOCK_NB));
	EXPECT(in("data"), fd, "'operation':%d", LOCK_EX | LOCK_NB);
	CALL(THIS(flock)(fd, 77));
	EXPECT(in("data"), fd, "'operation':77");
	done(fd, "data");
}

static void case_lockf(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDWR);
	CALL(THIS(lockf)(fd, F_TLOCK, 5));
	EXPECT(in("data"), fd, "'cmd':%d,'length':5", F_TLOCK);
	CALL(THIS(lockf)(fd, 77, 5));
	EXPECT(in("data"), fd, "'cmd':77,'length':5");
	done(fd, "data");
}

/* The argument must arrive, whatever it is. */
static void case_ioctl(void)
{
	int fd, there = -1;

	make("data", "content");
	fd = given("data", O_RDONLY);
	CALL(THIS(ioctl)(fd, FIONREAD, &there));
	EXPECT(in("data"), fd, "'request':%lu", (unsigned long)FIONREAD);
	say("%d\n", there);
	CALL(THIS(ioctl)(fd, FIOCLEX));
	EXPECT(in("data"), fd, "'request':%lu", (unsigned long)FIOCLEX);
	say("%ld\n", syscall(SYS_fcntl, fd, F_GETFD));
	CALL(THIS(ioctl)(fd, FIONREAD, BAD));
	EXPECT(in("data"), fd, "'request':%lu", (unsigned long)FIONREAD);
	done(fd, "data");
}

/* ---- pipes ---- */

static void raw_pipe(int *fds)
{
	if (syscall(SYS_pipe2, fds, 0) < 0)
		fail("no pipe", now->symbol);
}

static void case_splice(void)
{
	off64_t at = 2;
	int from, fds[2];

	make("data", "content");
	from = given("data", O_RDONLY);
	raw_pipe(fds);
	CALL(THIS(splice)(from, &at, fds[1], NULL, 3, 0));
	EXPECT(in("data"), from,
	       "'fd_out':%d,'count':3,'offset':2,'offset_out':-1,'flags':0,'target':'" PIPE "'",
	       fds[1]);
	say("%ld\n", (long)at);
	CALL(THIS(splice)(from, NULL, fds[1], &at, 3, 0)); /* a pipe has no position */
	EXPECT(in("data"), from,
	       "'fd_out':%d,'count':3,'offset':-1,'offset_out':-1,'flags':0,'target':'" PIPE "'",
	       fds[1]);
	closed(fds[0], PIPE);
	closed(fds[1], PIPE);
	done(from, "data");
}

static void case_tee(void)
{
	int one[2], two[2];

	raw_pipe(one);
	raw_pipe(two);
	syscall(SYS_write, one[1], "content", 7);
	CALL(THIS(tee)(one[0], two[1], 5, 0));
	EXPECT(PIPE, one[0], "'fd_out':%d,'count':5,'flags':0,'target':'" PIPE "'", two[1]);
	CALL(THIS(tee)(one[0], one[0], 5, 0));
	EXPECT(PIPE, one[0], "'fd_out':%d,'count':5,'flags':0,'target':'" PIPE "'", one[0]);
	for (int i = 0; i < 2; i++) {
		closed(one[i], PIPE);
		closed(two[i], PIPE);
	}
}

static void case_vmsplice(void)
{
	static struct iovec iov[] = { { (void *)(uintptr_t) "content", 7 } };
	int fds[2];

	raw_pipe(fds);
	CALL(THIS(vmsplice)(fds[1], iov, 1, 0));
	EXPECT(PIPE, fds[1], "'iovcnt':1,'flags':0");
	CALL(THIS(vmsplice)(fds[1], (struct iovec *)BAD, 1, 0));
	EXPECT(PIPE, fds[1], "'iovcnt':1,'flags':0");
	closed(fds[0], PIPE);
	closed(fds[1], PIPE);
}

/* ---- asking ---- */

/* statfs() and statvfs(), by their names. */
static void case_statfs(void)
{
	union {
		struct statfs64 fs;
		struct statvfs64 vfs;
	} st;

	CALL(THIS(statfs)(".", (struct statfs *)&st));
	EXPECT(in("."), NO_FD, "%s", "");
	CALL(THIS(statfs)("absent", (struct statfs *)&st));
	EXPECT(in("absent"), NO_FD, "%s", "");
}

static void case_fstatfs(void)
{
	union {
		struct statfs64 fs;
		struct statvfs64 vfs;
	} st;
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	CALL(THIS(fstatfs)(fd, (struct statfs *)&st));
	EXPECT(in("data"), fd, "%s", "");
	done(fd, "data");
	CALL(THIS(fstatfs)(999, (struct statfs *)&st));
	EXPECT(NULL, 999, "%s", "");
}

static void case_name_to_handle_at(void)
{
	/* Room for the second call, which is told of as much as the first one has asked for. */
	union {
		struct file_handle head;
		char room[sizeof(struct file_handle) + 128];
	} handle = { .room = { 0 } };
	int mount = 0;

	make("data", "content");
	CALL(THIS(name_to_handle_at)(AT_FDCWD, "data", &handle.head, &mount, 0)); /* too small */
	EXPECT(in("data"), NO_FD, "'flags':0");
	CALL(THIS(name_to_handle_at)(AT_FDCWD, "absent", &handle.head, &mount, 0));
	EXPECT(in("absent"), NO_FD, "'flags':0");
}

static char *whole(const char *path, char *buf)
{
	if (!strcmp(now->symbol, "realpath"))
		return THIS(realpath)(path, buf);
	if (!strcmp(now->symbol, "__realpath_chk"))
		return THIS(__realpath_chk)(path, buf, PATH_MAX);
	return THIS(canonicalize_file_name)(path);
}

/* NULL; the compiler does not know. */
static char *volatile nothing;

static void case_realpath(void)
{
	char buf[PATH_MAX], *ret;

	make("data", "content");
	CALL_POINTER(ret, whole("x/../data", buf)); /* x is not there */
	result = -1;
	EXPECT(in("x/../data"), NO_FD, "'target':''");
	CALL_POINTER(ret, whole("data", buf));
	result = 0;
	EXPECT(in("data"), NO_FD, "'target':'%s'", in("data"));
	say("%d\n", ret && !strcmp(ret, in("data")));
	if (ret != buf)
		free(ret);
	CALL_POINTER(ret, whole(nothing, buf));
	result = -1;
	EXPECT(NULL, NO_FD, "'target':''");
}

/* ---- attributes ---- */

/* Extended ones: not on every file system, and then they fail alike. */
static void case_xattr_path(void)
{
	const char *name = now->symbol + (now->symbol[0] == 'l' && strncmp(now->symbol, "list", 4));
	char buf[100] = "value";

	make("data", "content");
	for (int i = 0; i < 2; i++) {
		const char *path = i ? "absent" : "data";

		if (!strcmp(name, "setxattr")) {
			CALL(THIS(setxattr)(path, "user.name", buf, 5, 0));
			EXPECT(in(path), NO_FD, "'size':5,'flags':0");
		} else if (!strcmp(name, "getxattr")) {
			CALL(THIS(getxattr)(path, "user.name", buf, sizeof(buf)));
			EXPECT(in(path), NO_FD, "'size':100");
		} else if (!strcmp(name, "listxattr")) {
			CALL(THIS(listxattr)(path, buf, sizeof(buf)));
			EXPECT(in(path), NO_FD, "'size':100");
		} else {
			CALL(THIS(removexattr)(path, "user.name"));
			EXPECT(in(path), NO_FD, "%s", "");
		}
	}
}

static void case_xattr_fd(void)
{
	const char *name = now->symbol;
	char buf[100] = "value";
	int fd;

	make("data", "content");
	fd = given("data", O_RDWR);
	if (!strcmp(name, "fsetxattr")) {
		CALL(THIS(fsetxattr)(fd, "user.name", buf, 5, 0));
		EXPECT(in("data"), fd, "'size':5,'flags':0");
	} else if (!strcmp(name, "fgetxattr")) {
		CALL(THIS(fgetxattr)(fd, "user.name", buf, sizeof(buf)));
		EXPECT(in("data"), fd, "'size':100");
	} else if (!strcmp(name, "flistxattr")) {
		CALL(THIS(flistxattr)(fd, buf, sizeof(buf)));
		EXPECT(in("data"), fd, "'size':100");
	} else {
		CALL(THIS(fremovexattr)(fd, "user.name"));
		EXPECT(in("data"), fd, "%s", "");
	}
	done(fd, "data");
}

static void case_chmod(void)
{
	make("data", "content");
	CALL(THIS(chmod)("data", 0604));
	EXPECT(in("data"), NO_FD, "'mode':%d", 0604);
	say("mode %o\n", mode_of("data"));
	CALL(THIS(chmod)("absent", 0600));
	EXPECT(in("absent"), NO_FD, "'mode':%d", 0600);
}

static void case_fchmod(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	CALL(THIS(fchmod)(fd, 0640));
	EXPECT(in("data"), fd, "'mode':%d", 0640);
	say("mode %o\n", mode_of("data"));
	done(fd, "data");
}

static void case_fchmodat(void)
{
	make("data", "content");
	CALL(THIS(fchmodat)(AT_FDCWD, "data", 0604, 0));
	EXPECT(in("data"), NO_FD, "'mode':%d,'flags':0", 0604);
	CALL(THIS(fchmodat)(AT_FDCWD, "absent", 0604, 0));
	EXPECT(in("absent"), NO_FD, "'mode':%d,'flags':0", 0604);
	CALL(THIS(fchmodat)(AT_FDCWD, BAD, 0604, 77)); /* no such flags */
	EXPECT(NULL, NO_FD, "'mode':%d,'flags':77", 0604);
}

static void case_chown(void)
{
	make("data", "content");
	CALL(THIS(chown)("data", (uid_t)-1, getgid()));
	EXPECT(in("data"), NO_FD, "'uid':-1,'gid':%d", getgid());
	CALL(THIS(chown)("absent", 1, 2));
	EXPECT(in("absent"), NO_FD, "'uid':1,'gid':2");
}

static void case_fchown(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	CALL(THIS(fchown)(fd, (uid_t)-1, (gid_t)-1));
	EXPECT(in("data"), fd, "'uid':-1,'gid':-1");
	done(fd, "data");
}

static void case_fchownat(void)
{
	make("data", "content");
	CALL(THIS(fchownat)(AT_FDCWD, "data", getuid(), (gid_t)-1, AT_SYMLINK_NOFOLLOW));
	EXPECT(in("data"), NO_FD, "'uid':%d,'gid':-1,'flags':%d", getuid(), AT_SYMLINK_NOFOLLOW);
	CALL(THIS(fchownat)(AT_FDCWD, "absent", 1, 1, 0));
	EXPECT(in("absent"), NO_FD, "'uid':1,'gid':1,'flags':0");
}

/* utime(), utimes() and lutimes(): the second argument points to nothing. */
static void case_utimes(void)
{
	make("data", "content");
	CALL(THIS(utimes)("data", NULL));
	EXPECT(in("data"), NO_FD, "%s", "");
	CALL(THIS(utimes)("absent", NULL));
	EXPECT(in("absent"), NO_FD, "%s", "");
	CALL(THIS(utimes)(BAD, NULL));
	EXPECT(NULL, NO_FD, "%s", "");
}

static void case_futimesat(void)
{
	int here = given(".", O_RDONLY | O_DIRECTORY);

	make("data", "content");
	CALL(THIS(futimesat)(here, "data", NULL));
	EXPECT(in("./data"), NO_FD, "%s", "");
	CALL(THIS(futimesat)(AT_FDCWD, "absent", NULL));
	EXPECT(in("absent"), NO_FD, "%s", "");
	done(here, ".");
}

static void case_utimensat(void)
{
	static const struct timespec times[2] = { { 1, 2 }, { 3, 4 } };

	make("data", "content");
	CALL(THIS(utimensat)(AT_FDCWD, "data", times, 0));
	EXPECT(in("data"), NO_FD, "'flags':0");
	CALL(THIS(utimensat)(AT_FDCWD, "absent", times, AT_SYMLINK_NOFOLLOW));
	EXPECT(in("absent"), NO_FD, "'flags':%d", AT_SYMLINK_NOFOLLOW);
}

static void case_futimes(void)
{
	int fd;

	make("data", "content");
	fd = given("data", O_RDONLY);
	CALL(THIS(futimes)(fd, NULL));
	EXPECT(in("data"), fd, "%s", "");
	done(fd, "data");
	CALL(THIS(futimes)(999, NULL));
	EXPECT(NULL, 999, "%s", "");
}

/* ---- nodes ---- */

static int make_node(const char *path, mode_t mode)
{
	dev_t none = 0;

	if (!strcmp(now->symbol, "mknod"))
		return THIS(mknod)(path, mode | S_IFREG, none);
	if (!strcmp(now->symbol, "mknodat"))
		return THIS(mknodat)(AT_FDCWD, path, mode | S_IFREG, none);
	if (!strcmp(now->symbol, "__xmknod"))
		return THIS(__xmknod)(0, path, mode | S_IFREG, &none);
	if (!strcmp(now->symbol, "__xmknodat"))
		return THIS(__xmknodat)(0, AT_FDCWD, path, mode | S_IFREG, &none);
	if (!strcmp(now->symbol, "mkfifo"))
		return THIS(mkfifo)(path, mode);
	return THIS(mkfifoat)(AT_FDCWD, path, mode);
}

static void case_node(void)
{
	bool fifo = strstr(now->symbol, "fifo"), dev = !strncmp(now->symbol, "mknod", 5);
	int mode = fifo ? 0600 : S_IFREG | 0600;

	CALL(make_node("node", 0600));
	EXPECT(in("node"), NO_FD, "'mode':%d%s", mode, dev ? ",'dev':0" : "");
	say("mode %o\n", mode_of("node"));
	CALL(make_node("node", 0600)); /* it is there */
	EXPECT(in("node"), NO_FD, "'mode':%d%s", mode, dev ? ",'dev':0" : "");
	syscall(SYS_unlinkat, AT_FDCWD, in("node"), 0);
}

/* ---- directories ---- */

static void case_chdir(void)
{
	make_directory("sub");
	CALL(THIS(chdir)("./sub"));
	EXPECT(in("sub"), NO_FD, "%s", "");
	syscall(SYS_chdir, dir);
	CALL(THIS(chdir)("absent"));
	EXPECT(in("absent"), NO_FD, "%s", "");
	CALL(THIS(chdir)(BAD));
	EXPECT(NULL, NO_FD, "%s", "");
	syscall(SYS_unlinkat, AT_FDCWD, in("sub"), AT_REMOVEDIR);
}

static void case_fchdir(void)
{
	int fd = given(".", O_RDONLY | O_DIRECTORY);

	CALL(THIS(fchdir)(fd));
	EXPECT(in("."), fd, "%s", "");
	done(fd, ".");
	CALL(THIS(fchdir)(999));
	EXPECT(NULL, 999, "%s", "");
}

/* Never one that works. */
static void case_chroot(void)
{
	CALL(THIS(chroot)("absent"));
	EXPECT(in("absent"), NO_FD, "%s", "");
	CALL(THIS(chroot)(BAD));
	EXPECT(NULL, NO_FD, "%s", "");
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void case_readdir_r(void)
{
	DIR *open_dir = directory();
	struct dirent *entry, room;
	int fd = dirfd(open_dir);
	long other;

	for (int i = 0; i < 4; i++) {
		CALL(THIS(readdir_r)(open_dir, &room, &entry));
		say("%d\n", entry != NULL);
		result = i < 3;
		EXPECT(in("sub"), fd, "%s", "");
	}
	UNSEEN(rewinddir)(open_dir);
	other = syscall(SYS_openat, AT_FDCWD, in("sub/data"), O_RDONLY, 0);
	syscall(SYS_dup3, other, fd, 0);
	CALL(THIS(readdir_r)(open_dir, &room, &entry));
	error = (int)result;
	result = -1;
	EXPECT(in("sub"), fd, "%s", "");
	syscall(SYS_close, other);
	directory_done(open_dir);
}
#pragma GCC diagnostic pop

static void case_rewinddir(void)
{
	DIR *open_dir = directory();
	int fd = dirfd(open_dir);

	if (!strcmp(now->symbol, "seekdir")) {
		CALL_VOID(THIS(seekdir)(open_dir, 0));
		expect_void(in("sub"), fd, "'offset':0");
	} else {
		CALL_VOID(THIS(rewinddir)(open_dir));
		expect_void(in("sub"), fd, "");
	}
	directory_done(open_dir);
}

static ssize_t read_entries(int fd, char *buf, size_t size)
{
	off_t base = 0;

	if (!strcmp(now->symbol, "getdents64"))
		return THIS(getdents64)(fd, buf, size);
	return THIS(getdirentries)(fd, buf, size, &base);
}

static void case_getdents(void)
{
	static char buf[4096];
	int fd;

	make_directory("sub");
	fd = given("sub", O_RDONLY);
	CALL(read_entries(fd, buf, sizeof(buf)));
	EXPECT(in("sub"), fd, "'count':4096");
	CALL(read_entries(fd, buf, sizeof(buf))); /* the end */
	EXPECT(in("sub"), fd, "'count':4096");
	done(fd, "sub");
	CALL(read_entries(999, buf, sizeof(buf)));
	EXPECT(NULL, 999, "'count':4096");
	syscall(SYS_unlinkat, AT_FDCWD, in("sub"), AT_REMOVEDIR);
}

/* ---- trees ---- */

static void make_tree(void)
{
	make_directory("tree");
	make("tree/data", "content");
}

static void remove_tree(void)
{
	syscall(SYS_unlinkat, AT_FDCWD, in("tree/data"), 0);
	syscall(SYS_unlinkat, AT_FDCWD, in("tree"), AT_REMOVEDIR);
}

static int scan(const char *path, struct dirent ***list)
{
	if (strstr(now->symbol, "at"))
		return THIS(scandirat)(AT_FDCWD, path, list, NULL, alphasort);
	return THIS(scandir)(path, list, NULL, alphasort);
}

static void case_scandir(void)
{
	struct dirent **list = NULL;

	make_tree();
	CALL(scan("tree", &list));
	EXPECT(in("tree"), NO_FD, "%s", "");
	for (long i = 0; i < result; i++)
		free(list[i]);
	free(list);
	CALL(scan("absent", &list));
	EXPECT(in("absent"), NO_FD, "%s", "");
	remove_tree();
}

static int visited;

static int visit(const char *path, const struct stat *st, int flag)
{
	(void)path;
	(void)st;
	(void)flag;
	visited++;
	return 0;
}

static int visit_more(const char *path, const struct stat *st, int flag, struct FTW *where)
{
	(void)where;
	return visit(path, st, flag);
}

static int walk(const char *path)
{
	if (now->symbol[0] == 'n')
		return THIS(nftw)(path, visit_more, 4, FTW_PHYS);
	return THIS(ftw)(path, visit, 4);
}

static void case_ftw(void)
{
	char fields[32] = "";

	if (now->symbol[0] == 'n')
		snprintf(fields, sizeof(fields), "'flags':%d", FTW_PHYS);
	make_tree();
	visited = 0;
	CALL(walk("tree"));
	EXPECT(in("tree"), NO_FD, "%s", fields);
	say("%d\n", visited);
	CALL(walk("absent"));
	EXPECT(in("absent"), NO_FD, "%s", fields);
	remove_tree();
}

static void case_glob(void)
{
	glob_t found;

	make_tree();
	CALL(THIS(glob)("tree/*", GLOB_MARK, NULL, &found));
	EXPECT(in("tree/*"), NO_FD, "'flags':%d", GLOB_MARK);
	say("%zu\n", found.gl_pathc);
	globfree(&found);
	CALL(THIS(glob)("absent*", 0, NULL, &found)); /* GLOB_NOMATCH: no error of the system's */
	EXPECT(in("absent*"), NO_FD, "'flags':0");
	remove_tree();
}

/* Any call on a tree that is open: `there`, with the file's name if it has one. */
static void expect_fts(const char *name, const char *fname, int ret)
{
	expect_head(name, "POSIX");
	expect_args(fname, NO_FD, ret, false);
	expect_fields("%s", "");
}

static FTS *open_tree(int flags)
{
	static char path[] = "tree", *roots[] = { path, NULL };
	bool large = strstr(now->symbol, "64");
	FTS *fts = large ? (FTS *)FN(fts64_open)(roots, flags, NULL)
			 : FN(fts_open)(roots, flags, NULL);

	if (!fts)
		fail("cannot open", "tree");
	expect_head("fts_open", "POSIX");
	expect_args(in("tree"), NO_FD, 0, false);
	expect_fields("'flags':%d", flags);
	return fts;
}

static void close_tree(FTS *fts)
{
	FN(fts_close)(fts);
	expect_fts("fts_close", NULL, 0);
}

static void case_fts_open(void)
{
	char path[] = "tree", none[] = "", *roots[] = { path, NULL }, *bad_roots[] = { none, NULL };
	FTS *fts;

	make_tree();
	CALL_POINTER(fts, THIS(fts_open)(roots, FTS_PHYSICAL, NULL));
	result = 0;
	EXPECT(in("tree"), NO_FD, "'flags':%d", FTS_PHYSICAL);
	close_tree(fts);
	CALL_POINTER(fts, THIS(fts_open)((char **)BAD, ~0, NULL)); /* no such flags */
	result = -1;
	EXPECT(NULL, NO_FD, "'flags':-1");
	CALL_POINTER(fts, THIS(fts_open)(bad_roots, FTS_PHYSICAL, NULL));
	EXPECT(NULL, NO_FD, "'flags':%d", FTS_PHYSICAL);
	remove_tree();
}

/* The directory, the file, the directory again, the end, and once more the end: with fts changing
 * the working directory, and without. */
static void case_fts_read(void)
{
	static const int flags[] = { FTS_PHYSICAL, FTS_PHYSICAL | FTS_NOCHDIR };
	const char *names[] = { in("tree"), in("tree/data"), in("tree"), NULL, NULL };
	FTSENT *entry;
	FTS *fts;

	make_tree();
	for (int i = 0; i < 2; i++) {
		fts = open_tree(flags[i]);
		for (int j = 0; j < 5; j++) {
			CALL_POINTER(entry, THIS(fts_read)(fts));
			expect_fts("fts_read", names[j], names[j] != NULL);
		}
		close_tree(fts);
	}
	remove_tree();
}

static void case_fts_children(void)
{
	FTSENT *entry;
	FTS *fts;

	make_tree();
	fts = open_tree(FTS_PHYSICAL);
	CALL_POINTER(entry, THIS(fts_children)(fts, 0));
	expect_fts("fts_children", NULL, 1);
	CALL_POINTER(entry, THIS(fts_children)(fts, 77)); /* no such flags */
	result = -1;
	EXPECT(NULL, NO_FD, "%s", "");
	close_tree(fts);
	remove_tree();
}

static void case_fts_close(void)
{
	FTS *fts;

	make_tree();
	fts = open_tree(FTS_PHYSICAL);
	CALL(THIS(fts_close)(fts));
	EXPECT(NULL, NO_FD, "%s", "");
	remove_tree();
}

/* ---- mappings ---- */

/* madvise() and posix_madvise(). */
static void case_madvise(void)
{
	bool number = now->symbol[0] == 'p';
	char *at = mapping(2 * 4096);

	CALL(THIS(madvise)(at, 4096, MADV_WILLNEED));
	EXPECT(in("data"), NO_FD, "'addr':%lu,'length':4096,'advice':%d", (unsigned long)at,
	       MADV_WILLNEED);
	CALL(THIS(madvise)(at, 4096, 7777)); /* no such advice */
	if (number)
		EXPECT_NUMBER(in("data"), NO_FD, "'addr':%lu,'length':4096,'advice':7777",
			      (unsigned long)at);
	else
		EXPECT(in("data"), NO_FD, "'addr':%lu,'length':4096,'advice':7777",
		       (unsigned long)at);
	CALL(FN(munmap)(at, 2 * 4096));
	expect_call("munmap", in("data"));
	expect_fields("'addr':%lu,'length':8192", (unsigned long)at);
	CALL(THIS(madvise)(at, 4096, MADV_WILLNEED)); /* nothing is there: not recorded */
}

static void case_mremap(void)
{
	char *at = mapping(2 * 4096), *to, *memory;

	CALL_POINTER(to, THIS(mremap)(at, 4096, 3 * 4096, MREMAP_MAYMOVE));
	result = (long)to;
	EXPECT(in("data"), NO_FD, "'addr':%lu,'length':4096,'size':12288,'flags':%d",
	       (unsigned long)at, MREMAP_MAYMOVE);
	CALL(THIS(mremap)(to, 4096, 4096, 77)); /* no such flags: all stays */
	EXPECT(in("data"), NO_FD, "'addr':%lu,'length':4096,'size':4096,'flags':77",
	       (unsigned long)to);
	CALL(FN(munmap)(to, 3 * 4096));
	expect_call("munmap", in("data"));
	expect_fields("'addr':%lu,'length':12288", (unsigned long)to);
	/* Of the first mapping only what was not moved is left. */
	CALL(FN(munmap)(at, 4096));
	CALL(FN(munmap)(at + 4096, 4096));
	expect_call("munmap", in("data"));
	expect_fields("'addr':%lu,'length':4096", (unsigned long)at + 4096);
	/* Memory is no I/O. */
	memory = FN(mmap)(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CALL_POINTER(to, THIS(mremap)(memory, 4096, 8192, MREMAP_MAYMOVE));
	CALL(FN(munmap)(to, 8192));
}
