/* calls_paths.h - the cases of calls_target.c on names and directories. */
#pragma once

#include "calls_harness.h"

/* ---- asking ---- */

static void case_stat(void)
{
	struct stat st = { 0 };

	make("data", "content");
	CALL(THIS(stat)("data", &st));
	EXPECT(in("data"), NO_FD, "%s", "");
	say("size %ld\n", (long)st.st_size);
	CALL(THIS(stat)(in("absent"), &st));
	EXPECT(in("absent"), NO_FD, "%s", "");
	CALL(THIS(stat)(BAD, &st));
	EXPECT(NULL, NO_FD, "%s", "");
	CALL(THIS(stat)("", &st)); /* not the directory that it would start from */
	EXPECT(NULL, NO_FD, "%s", "");
	CALL(THIS(stat)("data/below", &st));
	EXPECT(in("data/below"), NO_FD, "%s", "");
}

static void case_xstat(void)
{
	struct stat st = { 0 };

	make("data", "content");
	CALL(THIS(__xstat)(1, "data", &st));
	EXPECT(in("data"), NO_FD, "%s", "");
	say("size %ld\n", (long)st.st_size);
	CALL(THIS(__xstat)(1, "absent", &st));
	EXPECT(in("absent"), NO_FD, "%s", "");
	CALL(THIS(__xstat)(77, "data", &st)); /* no such version */
	EXPECT(in("data"), NO_FD, "%s", "");
}

/* As fstatat(), with or without a version. */
static int stat_at(int dirfd, const char *path, struct stat *st, int flags)
{
	if (now->symbol[0] == '_')
		return THIS(__fxstatat)(1, dirfd, path, st, flags);
	return THIS(fstatat)(dirfd, path, st, flags);
}

static void case_fstatat(void)
{
	struct stat st = { 0 };
	int here;

	make_directory("sub");
	make("sub/data", "content");
	here = given("sub", O_RDONLY | O_DIRECTORY);
	CALL(stat_at(here, "data", &st, 0));
	EXPECT(in("sub/data"), NO_FD, "'flags':0");
	say("size %ld\n", (long)st.st_size);
	CALL(stat_at(here, "", &st, AT_EMPTY_PATH)); /* the directory itself */
	EXPECT(in("sub"), NO_FD, "'flags':%d", AT_EMPTY_PATH);
	CALL(stat_at(AT_FDCWD, "sub/absent", &st, AT_SYMLINK_NOFOLLOW));
	EXPECT(in("sub/absent"), NO_FD, "'flags':%d", AT_SYMLINK_NOFOLLOW);
	CALL(stat_at(here, BAD, &st, 0x4000000)); /* no such flag */
	EXPECT(NULL, NO_FD, "'flags':%d", 0x4000000);
	done(here, "sub");
	syscall(SYS_unlinkat, AT_FDCWD, in("sub/data"), 0);
	syscall(SYS_unlinkat, AT_FDCWD, in("sub"), AT_REMOVEDIR);
}

static void case_statx(void)
{
	struct statx st = { 0 };
	int fd;

	make("data", "content");
	CALL(THIS(statx)(AT_FDCWD, "data", 0, STATX_SIZE, &st));
	EXPECT(in("data"), NO_FD, "'flags':0,'mask':%u", STATX_SIZE);
	say("size %ld\n", (long)st.stx_size);
	fd = given("data", O_RDONLY);
	CALL(THIS(statx)(fd, "", AT_EMPTY_PATH, STATX_ALL, &st));
	EXPECT(in("data"), NO_FD, "'flags':%d,'mask':%u", AT_EMPTY_PATH, STATX_ALL);
	done(fd, "data");
	CALL(THIS(statx)(AT_FDCWD, "absent", 0, STATX_SIZE, &st));
	EXPECT(in("absent"), NO_FD, "'flags':0,'mask':%u", STATX_SIZE);
}

static void case_access(void)
{
	make("data", "content");
	CALL(THIS(access)("data", R_OK | W_OK));
	EXPECT(in("data"), NO_FD, "'mode':%d", R_OK | W_OK);
	CALL(THIS(access)("absent", F_OK));
	EXPECT(in("absent"), NO_FD, "'mode':%d", F_OK);
	CALL(THIS(access)(BAD, 077)); /* no such mode: refused before the path is looked at */
	EXPECT(NULL, NO_FD, "'mode':%d", 077);
}

static void case_faccessat(void)
{
	make("data", "content");
	CALL(THIS(faccessat)(AT_FDCWD, "data", R_OK, AT_EACCESS));
	EXPECT(in("data"), NO_FD, "'mode':%d,'flags':%d", R_OK, AT_EACCESS);
	CALL(THIS(faccessat)(999, "data", R_OK, 0)); /* relative to no directory: as it was given */
	EXPECT("data", NO_FD, "'mode':%d,'flags':0", R_OK);
	CALL(THIS(faccessat)(AT_FDCWD, "absent", F_OK, AT_SYMLINK_NOFOLLOW));
	EXPECT(in("absent"), NO_FD, "'mode':%d,'flags':%d", F_OK, AT_SYMLINK_NOFOLLOW);
}

/* Length of a link's text, by any of the family. */
static ssize_t read_link(const char *path, char *buf, size_t size)
{
	bool at = strstr(now->symbol, "at"), chk = strstr(now->symbol, "chk");

	if (at && chk)
		return THIS(__readlinkat_chk)(AT_FDCWD, path, buf, size, 4096);
	if (at)
		return THIS(readlinkat)(AT_FDCWD, path, buf, size);
	if (chk)
		return THIS(__readlink_chk)(path, buf, size, 4096);
	return THIS(readlink)(path, buf, size);
}

static void case_readlink(void)
{
	char text[4096];

	make("data", "content");
	syscall(SYS_symlinkat, "where it goes", AT_FDCWD, in("link"));
	CALL(read_link("link", text, sizeof(text)));
	EXPECT(in("link"), NO_FD, "'size':4096");
	say("%.13s\n", text);
	CALL(read_link("link", text, 3));
	EXPECT(in("link"), NO_FD, "'size':3");
	CALL(read_link("data", text, sizeof(text)));
	EXPECT(in("data"), NO_FD, "'size':4096");
	CALL(read_link(BAD, text, 0)); /* no room: refused before the path is looked at */
	EXPECT(NULL, NO_FD, "'size':0");
	syscall(SYS_unlinkat, AT_FDCWD, in("link"), 0);
}

/* ---- changing the tree ---- */

static void case_rename(void)
{
	const char *volatile none = NULL;

	make("data", "content");
	CALL(THIS(rename)("data", in("moved")));
	EXPECT(in("data"), NO_FD, "'target':'%s'", in("moved"));
	say("%s %s\n", content("data"), content("moved"));
	CALL(THIS(rename)("absent", "data"));
	EXPECT(in("absent"), NO_FD, "'target':'%s'", in("data"));
	CALL(THIS(rename)("moved", BAD));
	EXPECT(in("moved"), NO_FD, "'target':''");
	CALL(THIS(rename)("moved", none));
	EXPECT(in("moved"), NO_FD, "'target':''");
	CALL(THIS(rename)(BAD, "moved"));
	EXPECT(NULL, NO_FD, "'target':'%s'", in("moved"));
}

static void case_renameat(void)
{
	int here;

	make_directory("sub");
	make("data", "content");
	here = given("sub", O_RDONLY | O_DIRECTORY);
	CALL(THIS(renameat)(AT_FDCWD, "data", here, "moved"));
	EXPECT(in("data"), NO_FD, "'target':'%s'", in("sub/moved"));
	say("%s\n", content("sub/moved"));
	CALL(THIS(renameat)(here, "absent", AT_FDCWD, "data"));
	EXPECT(in("sub/absent"), NO_FD, "'target':'%s'", in("data"));
	done(here, "sub");
	syscall(SYS_unlinkat, AT_FDCWD, in("sub/moved"), 0);
	syscall(SYS_unlinkat, AT_FDCWD, in("sub"), AT_REMOVEDIR);
}

static void case_renameat2(void)
{
	make("data", "content");
	make("other", "different");
	CALL(THIS(renameat2)(AT_FDCWD, "data", AT_FDCWD, "other", RENAME_EXCHANGE));
	EXPECT(in("data"), NO_FD, "'target':'%s','flags':%d", in("other"), RENAME_EXCHANGE);
	say("%s\n", content("data"));
	CALL(THIS(renameat2)(AT_FDCWD, "data", AT_FDCWD, "other", RENAME_NOREPLACE));
	EXPECT(in("data"), NO_FD, "'target':'%s','flags':%d", in("other"), RENAME_NOREPLACE);
	/* No such flags: refused before the paths are looked at. */
	CALL(THIS(renameat2)(AT_FDCWD, BAD, AT_FDCWD, BAD, 255));
	EXPECT(NULL, NO_FD, "'target':'','flags':255");
}

static void case_link(void)
{
	make("data", "content");
	syscall(SYS_unlinkat, AT_FDCWD, in("hard"), 0);
	CALL(THIS(link)("data", "hard"));
	EXPECT(in("data"), NO_FD, "'target':'%s'", in("hard"));
	say("%s\n", content("hard"));
	CALL(THIS(link)("data", "hard"));
	EXPECT(in("data"), NO_FD, "'target':'%s'", in("hard"));
}

static void case_linkat(void)
{
	make("data", "content");
	syscall(SYS_unlinkat, AT_FDCWD, in("hard"), 0);
	CALL(THIS(linkat)(AT_FDCWD, "data", AT_FDCWD, "hard", AT_SYMLINK_FOLLOW));
	EXPECT(in("data"), NO_FD, "'target':'%s','flags':%d", in("hard"), AT_SYMLINK_FOLLOW);
	CALL(THIS(linkat)(AT_FDCWD, BAD, AT_FDCWD, BAD, 1)); /* no such flag */
	EXPECT(NULL, NO_FD, "'target':'','flags':1");
}

static void case_symlink(void)
{
	CALL(THIS(symlink)("any text/../at all", "link"));
	EXPECT(in("link"), NO_FD, "'target':'any text/../at all'");
	CALL(THIS(symlink)("again", "link"));
	EXPECT(in("link"), NO_FD, "'target':'again'");
	CALL(THIS(symlink)(BAD, "link"));
	EXPECT(in("link"), NO_FD, "'target':''");
	syscall(SYS_unlinkat, AT_FDCWD, in("link"), 0);
}

static void case_symlinkat(void)
{
	CALL(THIS(symlinkat)("text", AT_FDCWD, "link"));
	EXPECT(in("link"), NO_FD, "'target':'text'");
	CALL(THIS(symlinkat)("text", AT_FDCWD, in("absent/link")));
	EXPECT(in("absent/link"), NO_FD, "'target':'text'");
	syscall(SYS_unlinkat, AT_FDCWD, in("link"), 0);
}

/* unlink() and remove(). */
static void case_unlink(void)
{
	make("data", "content");
	CALL(THIS(unlink)("data"));
	EXPECT(in("data"), NO_FD, "%s", "");
	say("%s\n", content("data"));
	CALL(THIS(unlink)("data"));
	EXPECT(in("data"), NO_FD, "%s", "");
}

static void case_unlinkat(void)
{
	make("data", "content");
	make_directory("sub");
	CALL(THIS(unlinkat)(AT_FDCWD, "data", 0));
	EXPECT(in("data"), NO_FD, "'flags':0");
	CALL(THIS(unlinkat)(AT_FDCWD, in("sub"), AT_REMOVEDIR));
	EXPECT(in("sub"), NO_FD, "'flags':%d", AT_REMOVEDIR);
	CALL(THIS(unlinkat)(AT_FDCWD, BAD, 1)); /* no such flag */
	EXPECT(NULL, NO_FD, "'flags':1");
}

static void case_rmdir(void)
{
	make_directory("sub");
	CALL(THIS(rmdir)("sub"));
	EXPECT(in("sub"), NO_FD, "%s", "");
	CALL(THIS(rmdir)("sub"));
	EXPECT(in("sub"), NO_FD, "%s", "");
}

static void case_mkdir(void)
{
	CALL(THIS(mkdir)("sub", 0710));
	EXPECT(in("sub"), NO_FD, "'mode':%d", 0710);
	CALL(THIS(mkdir)("sub", 0700));
	EXPECT(in("sub"), NO_FD, "'mode':%d", 0700);
	syscall(SYS_unlinkat, AT_FDCWD, in("sub"), AT_REMOVEDIR);
}

static void case_mkdirat(void)
{
	int here;

	make_directory("sub");
	here = given("sub", O_RDONLY | O_DIRECTORY);
	CALL(THIS(mkdirat)(here, "below", 0700));
	EXPECT(in("sub/below"), NO_FD, "'mode':%d", 0700);
	CALL(THIS(mkdirat)(here, "absent/below", 0700));
	EXPECT(in("sub/absent/below"), NO_FD, "'mode':%d", 0700);
	done(here, "sub");
	syscall(SYS_unlinkat, AT_FDCWD, in("sub/below"), AT_REMOVEDIR);
	syscall(SYS_unlinkat, AT_FDCWD, in("sub"), AT_REMOVEDIR);
}

/* ---- directories ---- */

/* An open directory with one entry beside "." and "..". */
static DIR *directory(void)
{
	DIR *open_dir;

	make_directory("sub");
	make("sub/data", "content");
	open_dir = FN(opendir)("sub");
	if (!open_dir)
		fail("cannot open", "sub");
	expect_head("opendir", "POSIX");
	expect_args(in("sub"), dirfd(open_dir), dirfd(open_dir), false);
	expect_fields("%s", "");
	return open_dir;
}

static void directory_done(DIR *open_dir)
{
	int fd = dirfd(open_dir);

	if (FN(closedir)(open_dir) < 0)
		fail("cannot close", "sub");
	expect_head("closedir", "POSIX");
	expect_args(in("sub"), fd, 0, false);
	expect_fields("%s", "");
	syscall(SYS_unlinkat, AT_FDCWD, in("sub/data"), 0);
	syscall(SYS_unlinkat, AT_FDCWD, in("sub"), AT_REMOVEDIR);
}

static void case_opendir(void)
{
	DIR *open_dir;

	make_directory("sub");
	make("sub/data", "content");
	CALL_POINTER(open_dir, THIS(opendir)("sub"));
	result = dirfd(open_dir);
	EXPECT(in("sub"), (int)result, "%s", "");
	directory_done(open_dir);
	CALL_POINTER(open_dir, THIS(opendir)("absent"));
	result = -1;
	EXPECT(in("absent"), NO_FD, "%s", "");
}

static void case_fdopendir(void)
{
	DIR *open_dir;
	int fd;

	make_directory("sub");
	make("sub/data", "content");
	fd = given("sub", O_RDONLY);
	CALL_POINTER(open_dir, THIS(fdopendir)(fd));
	result = fd;
	EXPECT(in("sub"), fd, "%s", "");
	directory_done(open_dir);
	make("data", "content");
	fd = given("data", O_RDONLY);
	CALL_POINTER(open_dir, THIS(fdopendir)(fd));
	result = -1;
	EXPECT(in("data"), fd, "%s", "");
	done(fd, "data");
}

static void case_readdir(void)
{
	DIR *open_dir = directory();
	struct dirent *entry;
	int fd = dirfd(open_dir);

	for (int i = 0; i < 4; i++) {
		CALL_POINTER(entry, THIS(readdir)(open_dir));
		result = i < 3;
		EXPECT(in("sub"), fd, "%s", "");
	}
	directory_done(open_dir);
}

/* An error is told from the end by errno alone: the directory's descriptor is replaced unseen. */
static void case_readdir_failing(void)
{
	DIR *open_dir;
	struct dirent *entry;
	long other;

	case_readdir();
	open_dir = directory();
	other = syscall(SYS_openat, AT_FDCWD, in("sub/data"), O_RDONLY, 0);
	syscall(SYS_dup3, other, dirfd(open_dir), 0);
	CALL_POINTER(entry, THIS(readdir)(open_dir));
	result = entry ? 1 : -1;
	EXPECT(in("sub"), dirfd(open_dir), "%s", "");
	syscall(SYS_close, other);
	directory_done(open_dir);
}

static void case_closedir(void)
{
	DIR *open_dir = directory();
	int fd = dirfd(open_dir);
	__typeof__(&closedir) call = symbol(now->symbol);

	CALL(call(open_dir));
	EXPECT(in("sub"), fd, "%s", "");
	open_dir = NULL;
	__asm__("" : "+r"(open_dir)); /* the header says that it cannot be NULL */
	CALL(call(open_dir));	      /* an error, and not recorded: there is no descriptor */
	syscall(SYS_unlinkat, AT_FDCWD, in("sub/data"), 0);
	syscall(SYS_unlinkat, AT_FDCWD, in("sub"), AT_REMOVEDIR);
}
