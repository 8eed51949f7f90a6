/* test_filter.c - which paths are traced, and how the others are counted. */
#include "probes/filter.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* After the ones above, which it needs. */
#include <cmocka.h>

#include "config.h"
#include "spool.h"

static _Atomic uint64_t excluded[PFW_EXCLUDED_REASONS];

static void set_up(const char *data_dir, const char *exe, const char *venv)
{
	struct pfw_config config = { .data_dir = data_dir };

	memset((void *)excluded, 0, sizeof(excluded));
	pfw_filter_count_into(excluded);
	pfw_filter_init(&config, exe, venv);
}

static bool takes(const char *path)
{
	return pfw_filter_path(path, strlen(path));
}

static void all_is_all(void **state)
{
	(void)state;
	set_up("all", "/usr/bin/python3", NULL);
	assert_true(takes("/etc/passwd"));
	assert_true(takes("/usr/lib/libc.so.6"));
	assert_true(takes("/a/../b"));
	assert_true(takes("relative"));
	assert_true(takes(""));
	assert_true(pfw_filter_nameless());
}

static void list_holds_whole_components(void **state)
{
	(void)state;
	set_up("/data:/other/deep/", "/bin/cp", NULL);
	assert_true(takes("/data"));
	assert_true(takes("/data/a"));
	assert_true(takes("/other/deep/a"));
	assert_false(takes("/database"));
	assert_false(takes("/other/a"));
	assert_false(takes("/"));
	assert_false(takes(""));
	assert_false(pfw_filter_nameless());
	assert_int_equal(excluded[PFW_EXCLUDED_DATA_DIR], 4);
	set_up("/", "/bin/cp", NULL);
	assert_true(takes("/any/thing"));
}

static void dots_are_folded(void **state)
{
	char longer[1024];

	(void)state;
	set_up("/data/set", "/bin/cp", NULL);
	assert_true(takes("/other/../data/set/a"));
	assert_true(takes("/data/./set//a"));
	assert_true(takes("//data/set"));
	assert_true(takes("/../../data/set/.hidden"));
	assert_true(takes("/data/set/.../a")); /* that is a name */
	assert_false(takes("/data/set/../a"));
	assert_false(takes("/data/set/.."));
	assert_true(takes("/data/set/b/.."));
	assert_false(takes("/data/set/../../../../.."));
	/* Longer than there is room to fold: taken as it stands. */
	memset(longer, 'x', sizeof(longer));
	memcpy(longer, "/data/set/../", 13);
	assert_true(pfw_filter_path(longer, sizeof(longer)));
}

static void default_leaves_out_the_system(void **state)
{
	(void)state;
	set_up(NULL, "/opt/py/bin/python3.11", "/home/u/venv/");
	assert_true(takes("/home/u/data.bin"));
	assert_true(takes("/usrdata/a"));
	assert_true(takes("/data/x.sob"));
	assert_true(pfw_filter_nameless());
	assert_false(takes("/usr/share/a"));
	assert_false(takes("/etc/passwd"));
	assert_false(takes("/proc/self/maps"));
	assert_int_equal(excluded[PFW_EXCLUDED_SYSTEM], 3);
	assert_false(takes("/opt/py/lib/os.py"));
	assert_false(takes("/home/u/venv/bin/activate"));
	assert_false(takes("/data/__pycache__/a.pyc"));
	assert_false(takes("/data/site-packages/a.py"));
	assert_int_equal(excluded[PFW_EXCLUDED_PYTHON], 4);
	assert_false(takes("/data/libx.so"));
	assert_false(takes("/data/libx.so.1.2"));
	assert_false(takes("/data/core.cpython-311.so"));
	assert_int_equal(excluded[PFW_EXCLUDED_LIBRARY], 3);
}

static void trace_is_never_traced(void **state)
{
	(void)state;
	set_up("all", "/bin/cp", NULL);
	pfw_filter_set_trace("/tmp/t.pfw.gz");
	assert_false(takes("/tmp/t.pfw"));
	assert_false(takes("/tmp/t.pfw.gz"));
	assert_false(takes("/tmp/t-pid12.pfw"));
	assert_true(takes("/tmp/t"));
	assert_true(takes("/tmp/two"));
	assert_int_equal(excluded[PFW_EXCLUDED_TRACE], 3);
}

/* A prefix is known by its real name as well, and a relative one counts from where we are. */
static void directories_have_two_names(void **state)
{
	char top[] = "/tmp/pfw-filter-XXXXXX", here[PATH_MAX], list[PATH_MAX], path[PATH_MAX];

	(void)state;
	assert_non_null(mkdtemp(top));
	assert_non_null(getcwd(here, sizeof(here)));
	assert_int_equal(chdir(top), 0);
	assert_int_equal(mkdir("real", 0700), 0);
	assert_int_equal(symlink("real", "link"), 0);
	snprintf(list, sizeof(list), "%s/link", top);
	set_up(list, "/bin/cp", NULL);
	snprintf(path, sizeof(path), "%s/link/a", top);
	assert_true(takes(path));
	snprintf(path, sizeof(path), "%s/real/a", top);
	assert_true(takes(path));
	set_up("./real:later", "/bin/cp", NULL);
	assert_true(takes(path));
	snprintf(path, sizeof(path), "%s/later/a", top);
	assert_true(takes(path));
	snprintf(path, sizeof(path), "%s/a", top);
	assert_false(takes(path));
	assert_int_equal(unlink("link"), 0);
	assert_int_equal(rmdir("real"), 0);
	assert_int_equal(chdir(here), 0);
	assert_int_equal(rmdir(top), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_is_all),
		cmocka_unit_test(list_holds_whole_components),
		cmocka_unit_test(dots_are_folded),
		cmocka_unit_test(default_leaves_out_the_system),
		cmocka_unit_test(trace_is_never_traced),
		cmocka_unit_test(directories_have_two_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
