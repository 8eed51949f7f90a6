/* test_filter.c - which paths are traced, and how exclusions are counted. */
#include "recorder/probe/path_filter.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/format/spool.h"
#include "common/settings/config.h"
#include "remove_tree.h"

static _Atomic uint64_t counters[PFW_EXCLUDED_REASONS];

static int begin_with(const struct pfw_config *config, const char *exe, const char *venv)
{
	for (unsigned i = 0; i < PFW_EXCLUDED_REASONS; i++)
		atomic_store(&counters[i], 0);
	pfw_path_filter_count_into(counters);
	const struct pfw_path_filter_python python = { .exe = exe, .venv = venv };

	return pfw_path_filter_init(config, &python);
}

static void begin(const char *data_dir, const char *exe, const char *venv)
{
	begin_with(&(const struct pfw_config){ .data_dir = data_dir }, exe, venv);
}

static bool traced(const char *path)
{
	return pfw_path_filter_path(path, strlen(path));
}

/* The path is excluded for this reason only. */
static void assert_excluded(const char *path, enum pfw_excluded_reason reason)
{
	uint64_t before[PFW_EXCLUDED_REASONS];

	for (unsigned i = 0; i < PFW_EXCLUDED_REASONS; i++)
		before[i] = counters[i];
	if (traced(path))
		fail_msg("%s is traced", path);
	for (unsigned i = 0; i < PFW_EXCLUDED_REASONS; i++)
		assert_int_equal(counters[i] - before[i], i == (unsigned)reason);
}

static void assert_traced(const char *path)
{
	uint64_t sum = 0, after = 0;

	for (unsigned i = 0; i < PFW_EXCLUDED_REASONS; i++)
		sum += counters[i];
	if (!traced(path))
		fail_msg("%s is left out", path);
	for (unsigned i = 0; i < PFW_EXCLUDED_REASONS; i++)
		after += counters[i];
	assert_int_equal(sum, after);
}

static void the_default_leaves_the_system_out(void **state)
{
	static const char *const dirs[] = { "/proc",  "/sys",	"/dev",	   "/usr", "/lib",
					    "/lib32", "/lib64", "/libx32", "/etc" };
	char path[64];

	(void)state;
	begin(NULL, "/bin/cat", NULL);
	for (unsigned i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		assert_excluded(dirs[i], PFW_EXCLUDED_SYSTEM);
		snprintf(path, sizeof(path), "%s/x", dirs[i]);
		assert_excluded(path, PFW_EXCLUDED_SYSTEM);
		snprintf(path, sizeof(path), "%sx",
			 dirs[i]); /* only the name begins like the prefix */
		assert_traced(path);
		snprintf(path, sizeof(path), "/home%s", dirs[i]);
		assert_traced(path);
	}
	assert_traced("/data/train.bin");
	assert_traced("/");
	assert_traced("/tmp/a");
	assert_traced("/home/u/.config");
	assert_true(pfw_path_filter_nameless());
}

static void the_default_leaves_libraries_out(void **state)
{
	(void)state;
	begin(NULL, "/bin/cat", NULL);
	assert_excluded("/opt/x/libcuda.so", PFW_EXCLUDED_LIBRARY);
	assert_excluded("/opt/x/libcuda.so.1", PFW_EXCLUDED_LIBRARY);
	assert_excluded("/opt/x/libm-2.36.so.6.0", PFW_EXCLUDED_LIBRARY);
	assert_excluded("/data/_core.cpython-311-x86_64-linux-gnu.so", PFW_EXCLUDED_LIBRARY);
	assert_excluded("/data/x.sox.so", PFW_EXCLUDED_LIBRARY);
	assert_traced("/data/x.sock");
	assert_traced("/data/x.so_");
	assert_traced("/data/lib.so.d/x"); /* the directory's name does not matter */
	assert_traced("/data/so");
	assert_traced("/data/.s");
}

static void the_default_leaves_python_out(void **state)
{
	(void)state;
	begin(NULL, "/opt/conda/bin/python3.11", "/home/u/venv");
	assert_excluded("/opt/conda/lib/python3.11/os.py", PFW_EXCLUDED_PYTHON);
	assert_excluded("/opt/conda/x", PFW_EXCLUDED_PYTHON);
	assert_traced("/opt/condax");
	assert_excluded("/home/u/venv/pyvenv.cfg", PFW_EXCLUDED_PYTHON);
	assert_excluded("/home/u/project/__pycache__/m.cpython-311.pyc", PFW_EXCLUDED_PYTHON);
	assert_excluded("/srv/lib/site-packages/torch/x.py", PFW_EXCLUDED_PYTHON);
	assert_traced("/home/u/project/m.py");
	begin(NULL, "/usr/bin/pypy3", NULL);
	assert_excluded("/usr/x", PFW_EXCLUDED_SYSTEM); /* found first */
	begin(NULL, "/opt/conda/bin/cat", "relative");
	assert_traced("/opt/conda/x");
	begin(NULL, "/python3", NULL); /* a prefix would match everything */
	assert_traced("/data/x");
	begin(NULL, NULL, "");
	assert_traced("/data/x");
	assert_excluded("/srv/lib/site-packages", PFW_EXCLUDED_PYTHON); /* listed */
	assert_traced("/srv/lib/my-site-packages");
}

static void begin_python(const char *exe, const char *called, const char *data_dir)
{
	const struct pfw_path_filter_python python = { .exe = exe,
						       .called = called,
						       .cwd = "/home/x" };

	memset(counters, 0, sizeof(counters));
	pfw_path_filter_count_into(counters);
	pfw_path_filter_init(&(const struct pfw_config){ .data_dir = data_dir }, &python);
}

/* It is found by the way it was called, also relative and through a link. */
static void an_environment_need_not_be_activated(void **state)
{
	char dir[] = "/tmp/pfw-filter-XXXXXX", path[128], home[4096];

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_non_null(getcwd(home, sizeof(home)));
	snprintf(path, sizeof(path), "%s/bin", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	strcat(path, "/python3");
	begin_python("/opt/bin/python3.11", path, NULL);
	assert_traced(dir); /* not an environment yet */
	snprintf(path, sizeof(path), "%s/pyvenv.cfg", dir);
	fclose(fopen(path, "w"));
	begin_python("/opt/bin/python3.11", NULL, NULL);
	assert_traced(path);
	snprintf(path, sizeof(path), "%s/bin/python3", dir);
	begin_python("/opt/bin/python3.11", path, NULL);
	assert_excluded(path, PFW_EXCLUDED_PYTHON);
	assert_int_equal(chdir(dir), 0);
	begin_python("/opt/bin/python3.11", "bin/python3", NULL);
	assert_excluded(path, PFW_EXCLUDED_PYTHON);
	begin_python("/opt/bin/python3.11", "bin/perl", NULL);
	assert_traced(path);
	assert_int_equal(chdir(home), 0);
	unlink(path);
	assert_int_equal(remove_tree(dir), 0);
}

static void looks_at_the_first_directory_are_pythons(void **state)
{
	(void)state;
	begin_python("/opt/bin/python3.11", NULL, NULL);
	assert_true(pfw_path_filter_looks("/home/x", 7));
	assert_int_equal(counters[PFW_EXCLUDED_PYTHON], 1);
	assert_false(pfw_path_filter_looks("/home/x/y", 9));
	assert_false(pfw_path_filter_looks("/work", 5));
	assert_traced("/home/x");
	begin_python("/opt/bin/cat", NULL, NULL);
	assert_false(pfw_path_filter_looks("/home/x", 7));
	begin_python("/opt/bin/python3.11", NULL, "all");
	assert_false(pfw_path_filter_looks("/home/x", 7));
}

static void a_list_takes_only_what_is_below_it(void **state)
{
	(void)state;
	begin("/data/a:/data/b/::/usr/share", "/opt/conda/bin/python3", NULL);
	assert_traced("/data/a");
	assert_traced("/data/a/x");
	assert_traced("/data/b/x");
	assert_traced("/data/b");
	assert_traced("/usr/share/x.so"); /* listed explicitly: no default applies */
	assert_excluded("/data/ab", PFW_EXCLUDED_DATA_DIR);
	assert_excluded("/data", PFW_EXCLUDED_DATA_DIR);
	assert_excluded("/usr/lib/x", PFW_EXCLUDED_DATA_DIR);
	assert_false(pfw_path_filter_nameless());
	begin("/", NULL, NULL);
	assert_traced("/anything/at/all");
}

static void all_is_everything(void **state)
{
	(void)state;
	begin("all", "/opt/conda/bin/python3", NULL);
	assert_traced("/usr/lib/libc.so.6");
	assert_traced("/proc/self/maps");
	assert_true(pfw_path_filter_nameless());
}

static void dots_are_folded(void **state)
{
	(void)state;
	begin("/data/a", NULL, NULL);
	assert_traced("/data//a/x");
	assert_traced("/data/./a/x");
	assert_traced("/data/b/../a/x");
	assert_traced("/../data/a/.");
	assert_traced("/data/a/..x");
	assert_traced("/data/a/.x");
	assert_excluded("/data/a/../b", PFW_EXCLUDED_DATA_DIR);
	assert_excluded("/data/a/..", PFW_EXCLUDED_DATA_DIR);
	begin(NULL, NULL, NULL);
	assert_excluded("//usr/x", PFW_EXCLUDED_SYSTEM);
	assert_excluded("/data/../usr/x", PFW_EXCLUDED_SYSTEM);
}

/* A relative directory, and a symbolic link to one: files are opened by either name. */
static void directories_are_known_by_both_names(void **state)
{
	char dir[] = "/tmp/pfw-filter-XXXXXX", cwd[4096], path[128];

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_non_null(getcwd(cwd, sizeof(cwd)));
	assert_int_equal(chdir(dir), 0);
	assert_int_equal(mkdir("real", 0700), 0);
	assert_int_equal(symlink("real", "link"), 0);
	begin("./link", NULL, NULL);
	snprintf(path, sizeof(path), "%s/link/x", dir);
	assert_traced(path);
	snprintf(path, sizeof(path), "%s/real/x", dir);
	assert_traced(path);
	snprintf(path, sizeof(path), "%s/other/x", dir);
	assert_excluded(path, PFW_EXCLUDED_DATA_DIR);
	unlink("link");
	rmdir("real");
	assert_int_equal(chdir(cwd), 0);
	rmdir(dir);
}

static void the_trace_itself_is_never_traced(void **state)
{
	(void)state;
	begin("all", NULL, NULL);
	pfw_path_filter_set_trace("/data/t-rank0001.pfw.gz");
	assert_excluded("/data/t-rank0001.pfw.gz", PFW_EXCLUDED_TRACE);
	assert_excluded("/data/t-rank0001.2.pfw.gz", PFW_EXCLUDED_TRACE);
	assert_excluded("/data/t-rank0001-pid7.pfw", PFW_EXCLUDED_TRACE);
	assert_excluded("/data/other/..//t-rank0001.pfw.gz", PFW_EXCLUDED_TRACE);
	assert_traced("/data/t-rank0002.pfw.gz");
	assert_traced("/data/t-rank0001.bin");
	pfw_path_filter_set_trace("/data/u.pfw");
	assert_traced("/data/t-rank0001.pfw.gz");
	assert_excluded("/data/u.pfw", PFW_EXCLUDED_TRACE);
	pfw_path_filter_set_trace("");
	assert_traced("/data/u.pfw");
}

/* Directories beyond the room are ignored; those that fit still work. */
static void a_list_too_long_keeps_what_fits(void **state)
{
	static char list[64 * 300];
	size_t used = 0;

	(void)state;
	for (unsigned i = 0; i < 60; i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s/d%02u/%0200u",
					 i ? ":" : "", i, i);
	assert_int_equal(begin_with(&(const struct pfw_config){ .data_dir = list }, NULL, NULL),
			 -E2BIG);
	snprintf(list, sizeof(list), "/d%02u/%0200u/x", 0, 0);
	assert_traced(list);
	snprintf(list, sizeof(list), "/d%02u/%0200u/x", 30, 30);
	assert_traced(list);
	assert_excluded("/other", PFW_EXCLUDED_DATA_DIR);
}

static void bytes_count_and_not_a_nul(void **state)
{
	(void)state;
	begin(NULL, NULL, NULL);
	assert_true(pfw_path_filter_path("/data/x.so", 9));
	assert_false(pfw_path_filter_path("/usr/lib", 4));
	assert_true(pfw_path_filter_path("/usr/lib", 3));
	assert_true(pfw_path_filter_path("", 0));
	pfw_path_filter_count_into(NULL);
	assert_false(traced("/usr/lib")); /* there may be no counter */
}

static void globs_leave_files_out(void **state)
{
	const struct pfw_config all = { .data_dir = "all", .exclude = "*.tmp:/scratch:data/[0-9]" };
	const struct pfw_config listed = { .data_dir = "/data", .exclude = "cache" };

	(void)state;
	begin_with(&all, NULL, NULL);
	assert_excluded("/a/b/x.tmp", PFW_EXCLUDED_EXCLUDE);
	assert_excluded("/a/b.tmp/x", PFW_EXCLUDED_EXCLUDE); /* below */
	assert_excluded("/scratch", PFW_EXCLUDED_EXCLUDE);
	assert_excluded("/scratch/x/y", PFW_EXCLUDED_EXCLUDE);
	assert_excluded("/x/../scratch/x", PFW_EXCLUDED_EXCLUDE);
	assert_excluded("/x/data/7/y", PFW_EXCLUDED_EXCLUDE);
	assert_traced("/scratches/x");
	assert_traced("/x/scratch");
	assert_traced("/x/mydata/7");
	assert_traced("/x/data/77");
	assert_traced("/a/tmp");
	begin_with(&listed, NULL, NULL);
	assert_traced("/data/x");
	assert_excluded("/data/cache/x", PFW_EXCLUDED_EXCLUDE);
	assert_excluded("/other/x", PFW_EXCLUDED_DATA_DIR);
}

/* pfw_start() may replace the filter while threads ask it: each answer is from one whole filter,
 * and alternating takes no more memory. */
static _Atomic bool asking = true;

static void *ask(void *unused)
{
	uint64_t wrong = 0;

	(void)unused;
	while (asking) {
		wrong += !traced("/both/x");
		wrong += traced("/neither/x");
	}
	return (void *)wrong;
}

static void a_filter_is_replaced_while_it_is_read(void **state)
{
	static const char *const lists[] = { "/a:/both", "/both", "/b:/c:/both:/d" };
	pthread_t thread[2];
	char list[64];
	void *wrong;

	(void)state;
	begin(lists[0], NULL, NULL);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, ask, NULL), 0);
	for (unsigned i = 0; i < 20000; i++)
		begin(lists[i % 3], NULL, NULL);
	asking = false;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(thread[i], &wrong), 0);
		assert_null(wrong);
	}
	/* Ever new filters are refused at some point, and the last one stays. */
	for (unsigned i = 0; i < 64; i++) {
		struct pfw_config config = { .data_dir = list };

		snprintf(list, sizeof(list), "/both:/n%u", i);
		if (begin_with(&config, NULL, NULL) == -ENOSPC) {
			assert_true(i > 8 && traced("/both/x"));
			assert_false(traced(list + strlen("/both:")));
			return;
		}
	}
	fail_msg("64 filters were kept");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_default_leaves_the_system_out),
		cmocka_unit_test(the_default_leaves_libraries_out),
		cmocka_unit_test(the_default_leaves_python_out),
		cmocka_unit_test(an_environment_need_not_be_activated),
		cmocka_unit_test(looks_at_the_first_directory_are_pythons),
		cmocka_unit_test(a_list_takes_only_what_is_below_it),
		cmocka_unit_test(all_is_everything),
		cmocka_unit_test(dots_are_folded),
		cmocka_unit_test(directories_are_known_by_both_names),
		cmocka_unit_test(the_trace_itself_is_never_traced),
		cmocka_unit_test(a_list_too_long_keeps_what_fits),
		cmocka_unit_test(bytes_count_and_not_a_nul),
		cmocka_unit_test(globs_leave_files_out),
		cmocka_unit_test(a_filter_is_replaced_while_it_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
