/* test_trace_file.c - the output file: other files stay untouched, and errors are reported. */
#define PFW_OS_NO_POISON
#include "recorder/writer/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/settings/naming.h"
#include "remove_tree.h"

static char dir[32], path[PFW_PATH_MAX], said[8192];
static struct pfw_file_id id;

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/pfw-trace-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return remove_tree(dir);
}

static const char *in_dir(const char *name)
{
	static char text[PFW_PATH_MAX];

	snprintf(text, sizeof(text), "%s/%s", dir, name);
	return text;
}

static int create(const char *name)
{
	strcpy(path, in_dir(name));
	return pfw_output_create(path, &id);
}

static void assert_created(const char *wanted, const char *got)
{
	mode_t mask = umask(027);
	int fd = create(wanted);
	struct stat st;

	assert_true(fd >= 0);
	assert_string_equal(path, in_dir(got));
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(st.st_mode & 07777, 0666 & ~027);
	umask(mask);
	assert_true(st.st_dev == id.dev && st.st_ino == id.ino);
	close(fd);
}

static void a_taken_name_gets_a_number(void **state)
{
	(void)state;
	assert_created("t.pfw", "t.pfw");
	assert_created("t.pfw", "t.2.pfw");
	assert_created("t.pfw", "t.3.pfw");
	assert_created("t-rank0001.pfw.gz", "t-rank0001.pfw.gz");
	assert_created("t-rank0001.pfw.gz", "t-rank0001.2.pfw.gz");
}

static void directories_are_made(void **state)
{
	(void)state;
	assert_created("a/b/c/t.pfw", "a/b/c/t.pfw");
	assert_created("a/b/t.pfw", "a/b/t.pfw");
}

static void a_symbolic_link_is_not_followed(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(symlink(in_dir("victim"), "/tmp/pfw-link-test"), 0);
	assert_int_equal(rename("/tmp/pfw-link-test", in_dir("t.pfw")), 0);
	assert_created("t.pfw", "t.2.pfw");
	assert_int_equal(stat(in_dir("victim"), &st), -1);
	strcpy(path, in_dir("t.pfw"));
	assert_int_equal(pfw_output_reopen(path, &id, false), -ENOENT); /* a dangling link */
}

static void it_is_locked_while_open(void **state)
{
	int fd = create("t.pfw"), other;

	(void)state;
	assert_true(fd >= 0);
	other = open(path, O_RDONLY);
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), -1);
	assert_int_equal(pfw_output_reopen(path, &id, false), -EBUSY);
	close(fd);
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
	assert_int_equal(pfw_output_reopen(path, &id, false), -EBUSY);
	fd = pfw_output_reopen(path, &id, true);
	assert_true(fd >= 0);
	close(fd);
	close(other);
	fd = pfw_output_reopen(path, &id, false);
	assert_true(fd >= 0);
	close(fd);
}

static void another_file_is_stale(void **state)
{
	int fd = create("t.pfw");

	(void)state;
	close(fd);
	assert_int_equal(rename(path, in_dir("moved")), 0);
	assert_int_equal(pfw_output_reopen(path, &id, false), -ENOENT);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(pfw_output_reopen(path, &id, false), -ENOENT);
}

static void a_move_replaces_nothing(void **state)
{
	struct stat st;
	int fd = create("t.pfw");

	(void)state;
	close(fd);
	assert_int_equal(pfw_output_move(path, in_dir("new/u.pfw")), 0);
	assert_string_equal(path, in_dir("new/u.pfw"));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_ino, id.ino);
	close(create("t.pfw"));
	assert_int_equal(pfw_output_move(path, in_dir("new/u.pfw")), 0);
	assert_string_equal(path, in_dir("new/u.2.pfw"));
	strcpy(path, in_dir("nothing"));
	assert_int_equal(pfw_output_move(path, in_dir("v.pfw")), -ENOENT);
	assert_string_equal(path, in_dir("nothing"));
}

/* As gcsfuse and s3fs are. */
static void a_file_system_may_lack_flags_and_links(void **state)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_linkat, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[4])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof(code) / sizeof(*code), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
		skip();
		return;
	}
	close(create("probe"));
	assert_int_equal(linkat(AT_FDCWD, path, AT_FDCWD, in_dir("other"), 0), -1);
	a_move_replaces_nothing(state);
}

static void writes_go_where_they_should(void **state)
{
	struct rlimit limit, low;
	char text[16] = "";
	int fd = create("t.pfw");

	(void)state;
	assert_int_equal(pfw_output_write(fd, "world", 5, 6), 0);
	assert_int_equal(pfw_output_write(fd, "hello ", 6, 0), 0);
	assert_int_equal(pfw_output_write(fd, "", 0, 0), 0);
	getrlimit(RLIMIT_FSIZE, &limit);
	low = limit;
	low.rlim_cur = 12;
	setrlimit(RLIMIT_FSIZE, &low);
	assert_int_equal(pfw_output_write(fd, "!!", 2, 11), -EFBIG); /* and no SIGXFSZ */
	assert_int_equal(pfw_output_write(fd, "!", 1, 11), 0);
	setrlimit(RLIMIT_FSIZE, &limit);
	close(fd);
	fd = open(path, O_RDONLY);
	assert_int_equal(read(fd, text, sizeof(text)), 12);
	assert_string_equal(text, "hello world!");
	assert_int_equal(pfw_output_write(fd, "x", 1, 0), -EBADF);
	close(fd);
}

static void keep(const char *line)
{
	snprintf(said, sizeof(said), "%s", line);
}

static void errors_name_file_cause_and_cure(void **state)
{
	(void)state;
	pfw_output_say_error(keep, "/data/t.pfw", -ENOSPC, 1);
	assert_string_equal(said, "cannot write the trace /data/t.pfw: ENOSPC; events wait in "
				  "memory until there is room, then are counted as lost");
	pfw_output_say_error(keep, "/data/t.pfw", -EACCES, 0);
	assert_non_null(strstr(said, "cannot create the trace /data/t.pfw: EACCES;"));
	assert_non_null(strstr(said, "DFTRACER_LOG_FILE"));
	pfw_output_say_error(keep, "/data/t.pfw", -ENOENT, 1);
	assert_non_null(strstr(said, "recording stops"));
	pfw_output_say_error(keep, "/data/t.pfw", -9999, 1);
	assert_non_null(strstr(said, "unknown error"));
	assert_null(strchr(said, '\n'));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_taken_name_gets_a_number),
		TEST(directories_are_made),
		TEST(a_symbolic_link_is_not_followed),
		TEST(it_is_locked_while_open),
		TEST(another_file_is_stale),
		TEST(a_move_replaces_nothing),
		TEST(writes_go_where_they_should),
		TEST(errors_name_file_cause_and_cure),
		TEST(a_file_system_may_lack_flags_and_links), /* last: the filter stays */
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
