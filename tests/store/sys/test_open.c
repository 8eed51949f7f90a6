/* test_open.c - a file or directory gets a free name, and takes none, on any file system. */
#include "store/sys/open.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "remove_tree.h"

static int refused; /* what the file system says to a flag; 0: it has the flags */

/* Instead of libc's. */
int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
	if (!flags || !refused)
		return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
	errno = refused;
	return -1;
}

static void make(const char *path, const char *text)
{
	int fd = pfw_open_new(path, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void assert_holds(const char *path, const char *text)
{
	char found[16] = "";
	int fd = pfw_open_file(path, 0, NULL);

	assert_true(fd >= 0);
	assert_true(read(fd, found, sizeof(found) - 1) >= 0);
	close(fd);
	assert_string_equal(found, text);
}

static void names_are_taken_only_if_free(void **state)
{
	static const int all[] = { 0, EINVAL, ENOSYS, EOPNOTSUPP };
	char top[] = "/tmp/pfw-open-XXXXXX";

	(void)state;
	assert_non_null(mkdtemp(top));
	assert_int_equal(chdir(top), 0);
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		refused = all[i];
		make("from", "new");
		assert_int_equal(pfw_rename_new("from", "free"), 0);
		assert_holds("free", "new");
		assert_int_equal(access("from", F_OK), -1);
		make("from", "newer");
		assert_int_equal(symlink("nowhere", "link"), 0);
		assert_int_equal(mkdir("empty", 0700), 0);
		assert_int_equal(pfw_rename_new("from", "free"), -EEXIST);
		assert_int_equal(pfw_rename_new("from", "link"), -EEXIST);
		assert_int_equal(pfw_rename_new("empty", "free"), -EEXIST);
		assert_int_equal(pfw_rename_new("none", "other"), -ENOENT);
		assert_int_equal(access("other", F_OK), -1);
		assert_holds("free", "new");
		assert_holds("from", "newer");
		assert_int_equal(mkdir("full", 0700), 0);
		make("full/file", "x");
		assert_int_equal(pfw_rename_new("full", "empty"), -EEXIST);
		assert_int_equal(pfw_rename_new("full", "moved"), 0);
		assert_holds("moved/file", "x");
		remove_tree(top);
		assert_int_equal(mkdir(top, 0700), 0);
		assert_int_equal(chdir(top), 0);
	}
	remove_tree(top);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(names_are_taken_only_if_free) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
