/* test_identity.c - who a process is, and the name of its trace that follows. */
#define PFW_OS_NO_POISON
#include "recorder/session/identity.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/settings/config.h"
#include "remove_tree.h"

static char dir[32], cwd[4096];
static struct pfw_config config;
static struct pfw_identity identity;
static char variable[3][128];
static char *variables[4];

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/pfw-id-XXXXXX");
	if (!mkdtemp(dir) || !getcwd(cwd, sizeof(cwd)))
		return -1;
	snprintf(variable[0], sizeof(variable[0]), "PFW_SPOOL_DIR=%s", dir);
	snprintf(variable[1], sizeof(variable[1]), "DFTRACER_LOG_FILE=base");
	for (unsigned i = 0; i < 4; i++)
		variables[i] = i < 2 ? variable[i] : NULL;
	pfw_config_read_enabled(&config, variables, NULL, NULL);
	return chdir(dir);
}

static int teardown(void **state)
{
	(void)state;
	return chdir(cwd) || remove_tree(dir);
}

static void assert_trace(const char *name)
{
	char path[PFW_PATH_MAX], expected[PFW_PATH_MAX];
	bool compressed;

	assert_int_equal(pfw_identity_trace(&identity, &config, path, &compressed), 0);
	snprintf(expected, sizeof(expected), "%s/%s", dir, name);
	assert_string_equal(path, expected);
}

static void a_process_knows_itself(void **state)
{
	struct pfw_spool_header header = { 0 };

	(void)state;
	pfw_identity_find(&identity, &config, variables);
	assert_int_equal(identity.process.pid, getpid());
	assert_int_equal(identity.process.ppid, getppid());
	assert_int_equal(identity.uid, geteuid());
	assert_string_equal(identity.cwd, dir);
	assert_non_null(strstr(identity.exe, "test_identity"));
	assert_non_null(strstr(identity.cmd, "test_identity"));
	assert_null(strchr(identity.boot_id, '\n'));
	assert_int_equal(strlen(identity.boot_id), 36);
	assert_int_equal(identity.rank.rank, -1);
	assert_false(identity.child);
	assert_true(identity.run[0]);
	assert_trace("base.pfw");
	pfw_identity_header(&identity, &header);
	assert_string_equal(header.host, identity.host);
	assert_string_equal(header.cmd, identity.cmd);
	assert_string_equal(header.base, identity.base);
	assert_int_equal(header.base_hash, identity.base_hash);
	assert_int_equal(header.rank, -1);
}

static void variables_are_copied(void **state)
{
	(void)state;
	strcpy(variable[2], "WORD=first");
	variables[2] = variable[2];
	pfw_identity_find(&identity, &config, variables);
	pfw_identity_set_base(&identity, "t-%q{WORD}");
	strcpy(variable[2], "WORD=later");
	variables[0] = NULL;
	assert_trace("t-first.pfw");
}

/* A forked child of a traced process takes its run and base, and its name has the child's pid. */
static void a_child_of_a_traced_process_is_found(void **state)
{
	struct pfw_spool_owner owner;
	struct pfw_process parent;
	struct pfw_spool spool;
	char name[64];

	(void)state;
	pfw_identity_find(&identity, &config, variables);
	assert_int_equal(pfw_process_read(&parent, getppid()), 0);
	owner = (struct pfw_spool_owner){ .uid = identity.uid,
					  .pid = parent.pid,
					  .start_time = parent.start_time };
	assert_int_equal(pfw_spool_create(&spool, &identity.dirs, &owner), 0);
	pfw_identity_header(&identity, spool.header);
	strcpy(spool.header->run, "the-run");
	assert_int_equal(chdir("/"), 0); /* its relative base is still the parent's */
	pfw_identity_find(&identity, &config, variables);
	assert_int_equal(chdir(dir), 0);
	assert_true(identity.child);
	assert_string_equal(identity.run, "the-run");
	snprintf(name, sizeof(name), "base-pid%d.pfw", (int)getpid());
	assert_trace(name);
	spool.header->rank = 5; /* another rank's: of the same run, but no child in its name */
	pfw_identity_find(&identity, &config, variables);
	assert_false(identity.child);
	assert_string_equal(identity.run, "the-run");
	spool.header->rank = -1;
	spool.header->base_hash++; /* another base */
	pfw_identity_find(&identity, &config, variables);
	assert_false(identity.child);
	assert_trace("base.pfw");
	pfw_spool_unlink(&spool);
	pfw_identity_find(&identity, &config, variables);
	assert_string_not_equal(identity.run, "the-run");
}

static void a_forked_process_is_a_child(void **state)
{
	char name[64];

	(void)state;
	pfw_identity_find(&identity, &config, variables);
	pfw_identity_forked(&identity, 0, 0);
	assert_true(identity.child);
	snprintf(name, sizeof(name), "base-pid%d.pfw", (int)getpid());
	assert_trace(name);
}

static void a_late_rank_is_in_the_name(void **state)
{
	(void)state;
	pfw_identity_find(&identity, &config, variables);
	pfw_identity_set_rank(&identity, &config, 3, 8);
	assert_string_equal(identity.rank.source, "pfw_set_rank");
	assert_int_equal(identity.rank.world_size, 8);
	assert_true(identity.rank.recorded);
	assert_trace("base-rank0003.pfw");
	config.ranks = "0-2";
	pfw_identity_set_rank(&identity, &config, 3, 8);
	assert_false(identity.rank.recorded);
	pfw_identity_set_rank(&identity, &config, 2, 8);
	assert_true(identity.rank.recorded);
}

static void a_percent_in_a_directory_is_no_word(void **state)
{
	(void)state;
	assert_int_equal(mkdir("100%p", 0700), 0);
	assert_int_equal(chdir("100%p"), 0);
	pfw_identity_find(&identity, &config, variables);
	assert_int_equal(chdir(dir), 0);
	assert_trace("100%p/base.pfw");
}

static void a_base_too_long_is_none(void **state)
{
	static char base[2048];
	char path[PFW_PATH_MAX];
	bool compressed;

	(void)state;
	memset(base, 'b', sizeof(base) - 1);
	pfw_identity_find(&identity, &config, variables);
	pfw_identity_set_base(&identity, base);
	assert_string_equal(identity.base, "");
	assert_int_equal(pfw_identity_trace(&identity, &config, path, &compressed), -ENAMETOOLONG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_process_knows_itself),
		TEST(variables_are_copied),
		TEST(a_child_of_a_traced_process_is_found),
		TEST(a_forked_process_is_a_child),
		TEST(a_late_rank_is_in_the_name),
		TEST(a_percent_in_a_directory_is_no_word),
		TEST(a_base_too_long_is_none),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
