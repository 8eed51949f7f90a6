/* The variables: what each accepts, what is said about the rest, and what reading leaves alone. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/settings/config.h"

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define ENVIRON(...) ((char *[]){ __VA_ARGS__, NULL })
#define ENABLED(...) ENVIRON("DFTRACER_ENABLE=1", __VA_ARGS__)

/* Everything that one reading said. */
struct said {
	unsigned count;
	char lines[4096];
};

static void keep(void *user, const char *line)
{
	struct said *said = user;
	size_t used = strlen(said->lines);

	said->count++;
	assert_true(strlen(line) < sizeof(said->lines) - used);
	snprintf(said->lines + used, sizeof(said->lines) - used, "%s\n", line);
}

static struct pfw_config read_env(char **environ, struct said *said)
{
	struct pfw_config config;

	memset(&config, 0xa5, sizeof(config));
	memset(said, 0, sizeof(*said));
	errno = 4711;
	pfw_config_read(&config, environ, keep, said);
	assert_int_equal(errno, 4711);
	return config;
}

static struct pfw_config read_quietly(char **environ)
{
	struct said said;
	struct pfw_config config = read_env(environ, &said);

	assert_string_equal(said.lines, "");
	return config;
}

static void assert_said(char **environ, const char *expected)
{
	struct said said;

	read_env(environ, &said);
	assert_string_equal(said.lines, expected);
}

static void test_defaults(void **state)
{
	struct pfw_config config = read_quietly(ENABLED("HOME=/root"));

	(void)state;
	assert_true(config.enable && config.enable_set);
	assert_int_equal(config.init, PFW_INIT_FUNCTION);
	assert_string_equal(config.log_file, "./trace");
	assert_null(config.data_dir);
	assert_false(config.compression);
	assert_true(config.metadata);
	assert_false(config.disable_io || config.disable_posix || config.disable_stdio);
	assert_false(config.disable_tids || config.whole_us || config.quiet);
	assert_int_equal(config.on_full, PFW_ON_FULL_BLOCK);
	assert_int_equal(config.ring_max_bytes, 1 << 20);
	assert_int_equal(config.flush_ns, 500000000);
	assert_int_equal(config.write_buffer_bytes, 1 << 20);
	assert_null(config.spool_dir);
	assert_null(config.run);
	assert_int_equal(config.rank, -1);
	assert_null(config.rank_var);
	assert_null(config.ranks);
}

static void test_every_default_is_accepted(void **state)
{
	size_t count;
	const struct pfw_config_row *rows = pfw_config_rows(&count);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		char entry[256];

		if (rows[i].state == PFW_CONFIG_IGNORED || strcmp(rows[i].fallback, "unset") == 0)
			continue;
		snprintf(entry, sizeof(entry), "%s=%s", rows[i].name, rows[i].fallback);
		if (strcmp(rows[i].name, "DFTRACER_ENABLE") != 0)
			read_quietly(ENABLED(entry));
	}
}

static void test_rows_are_complete(void **state)
{
	size_t count;
	const struct pfw_config_row *rows = pfw_config_rows(&count);

	(void)state;
	assert_true(count > 40);
	for (size_t i = 0; i < count; i++) {
		assert_true(strncmp(rows[i].name, "DFTRACER_", 9) == 0 ||
			    strncmp(rows[i].name, "PFW_", 4) == 0);
		assert_true(*rows[i].accepts && *rows[i].fallback && *rows[i].meaning);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(rows[i].name, rows[j].name);
	}
}

static void test_disabled_looks_at_nothing_else(void **state)
{
	static const char *const off[] = { "DFTRACER_ENABLE=0", "DFTRACER_ENABLE=false",
					   "DFTRACER_ENABLE=", "HOME=/" };

	(void)state;
	for (size_t i = 0; i < LENGTH(off); i++) {
		struct pfw_config config = read_quietly(ENVIRON(
			(char *)off[i], "PFW_RING_MAX=x", "PFW_NO=1", "DFTRACER_LOG_FILE=/a"));

		assert_false(config.enable);
		assert_int_equal(config.enable_set, i < 2);
		assert_string_equal(config.log_file, "./trace");
	}
	read_quietly((char *[]){ NULL });
}

static void test_bad_enable_is_said(void **state)
{
	struct pfw_config config;
	struct said said;

	(void)state;
	config = read_env(ENVIRON("DFTRACER_ENABLE=maybe", "PFW_RING_MAX=x"), &said);
	assert_false(config.enable);
	assert_true(config.enable_set);
	assert_string_equal(said.lines, "DFTRACER_ENABLE=maybe: bad value: takes 0|1; "
					"using the default, 0\n");
}

static void test_read_enabled(void **state)
{
	struct pfw_config config;
	struct said said = { 0 };

	(void)state;
	pfw_config_read_enabled(&config, ENVIRON("PFW_FLUSH_MS=20", "PFW_X_Y_Z=1"), keep, &said);
	assert_true(config.enable);
	assert_false(config.enable_set);
	assert_int_equal(config.flush_ns, 20000000);
	assert_int_equal(said.count, 1);
	pfw_config_read_enabled(&config, ENVIRON("DFTRACER_ENABLE=0"), NULL, NULL);
	assert_true(config.enable && config.enable_set);
}

static void test_words_of_flags(void **state)
{
	static const struct {
		const char *text;
		int value; /* -1: bad */
	} table[] = {
		{ "1", 1 },   { "true", 1 }, { "TRUE", 1 }, { "yes", 1 },    { "Yes", 1 },
		{ "on", 1 },  { "oN", 1 },   { "0", 0 },    { "false", 0 },  { "False", 0 },
		{ "no", 0 },  { "NO", 0 },   { "off", 0 },  { "OFF", 0 },    { "2", -1 },
		{ "01", -1 }, { "-1", -1 },  { "y", -1 },   { "truee", -1 }, { " 1", -1 },
		{ "1 ", -1 }, { "tru", -1 },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(table); i++) {
		struct pfw_config config;
		struct said said;
		char io[64], metadata[64];

		snprintf(io, sizeof(io), "DFTRACER_DISABLE_IO=%s", table[i].text);
		snprintf(metadata, sizeof(metadata), "DFTRACER_INC_METADATA=%s", table[i].text);
		config = read_env(ENABLED(io, metadata), &said);
		assert_int_equal(config.disable_io, table[i].value == 1);
		assert_int_equal(config.metadata, table[i].value != 0);
		assert_int_equal(said.count, table[i].value < 0 ? 2 : 0);
	}
}

static void test_each_field(void **state)
{
	struct pfw_config config = read_quietly(ENABLED(
		"DFTRACER_INIT=preload", "DFTRACER_LOG_FILE=/t/x", "DFTRACER_DATA_DIR=all",
		"DFTRACER_TRACE_COMPRESSION=1", "DFTRACER_INC_METADATA=0", "DFTRACER_DISABLE_IO=1",
		"DFTRACER_DISABLE_POSIX=1", "DFTRACER_DISABLE_STDIO=1", "DFTRACER_DISABLE_TIDS=1",
		"DFTRACER_TIME_METRIC=us", "DFTRACER_WRITE_BUFFER_SIZE=65536",
		"DFTRACER_LOG_LEVEL=debug", "PFW_RUN=r1", "PFW_RING_MAX=256KiB", "PFW_ON_FULL=DROP",
		"PFW_FLUSH_MS=60000", "PFW_SPOOL_DIR=/s", "PFW_QUIET=1", "PFW_RANK=2147483647",
		"PFW_RANK_VAR=MY_RANK2", "PFW_RANKS=0,8-15"));

	(void)state;
	assert_int_equal(config.init, PFW_INIT_PRELOAD);
	assert_string_equal(config.log_file, "/t/x");
	assert_string_equal(config.data_dir, "all");
	assert_true(config.compression);
	assert_false(config.metadata);
	assert_true(config.disable_io && config.disable_posix && config.disable_stdio);
	assert_true(config.disable_tids && config.whole_us && config.quiet);
	assert_int_equal(config.write_buffer_bytes, 65536);
	assert_string_equal(config.run, "r1");
	assert_int_equal(config.ring_max_bytes, 256 << 10);
	assert_int_equal(config.on_full, PFW_ON_FULL_DROP);
	assert_int_equal(config.flush_ns, 60000000000);
	assert_string_equal(config.spool_dir, "/s");
	assert_int_equal(config.rank, INT32_MAX);
	assert_string_equal(config.rank_var, "MY_RANK2");
	assert_string_equal(config.ranks, "0,8-15");
}

static void test_sizes(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} table[] = {
		{ "32768", 32768 },	  { "32K", 32768 },	 { "32kib", 32768 },
		{ "32KiB", 32768 },	  { "1m", 1 << 20 },	 { "64MiB", 64 << 20 },
		{ "67108864", 64 << 20 }, { "100000", 65536 },	 { "65535", 32768 },
		{ "3MiB", 2 << 20 },	  { "63MiB", 32 << 20 }, { "0064K", 65536 },
		{ "1.5M", 1 << 20 },	  { "1MB", 1 << 19 },	 { "0.00004TB", 1 << 25 },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(table); i++) {
		char entry[64];

		snprintf(entry, sizeof(entry), "PFW_RING_MAX=%s", table[i].text);
		assert_int_equal(read_quietly(ENABLED(entry)).ring_max_bytes, table[i].bytes);
	}
}

/* Each with the kind of its variable: what is wrong is said, and the default stays. */
static void test_bad_values(void **state)
{
	static const char *const bad[] = {
		"PFW_RING_MAX=x",
		"PFW_RING_MAX=-1",
		"PFW_RING_MAX=1.0000001M",
		"PFW_RING_MAX=32767",
		"PFW_RING_MAX=65MiB",
		"PFW_RING_MAX=1ms",
		"PFW_RING_MAX=K",
		"PFW_RING_MAX= 64K",
		"PFW_RING_MAX=18446744073709551616",
		"PFW_RING_MAX=18446744073709617152", /* 64 KiB, had it wrapped */
		"PFW_RING_MAX=36028797018963969K",
		"PFW_RING_MAX=0x10000",
		"DFTRACER_WRITE_BUFFER_SIZE=-1",
		"DFTRACER_WRITE_BUFFER_SIZE=16777216",
		"DFTRACER_WRITE_BUFFER_SIZE=4095",
		"DFTRACER_WRITE_BUFFER_SIZE=abc",
		"PFW_FLUSH_MS=0",
		"PFW_FLUSH_MS=60001",
		"PFW_FLUSH_MS=5ms",
		"PFW_FLUSH_MS=99999999999999999999",
		"PFW_RANK=-1",
		"PFW_RANK=2147483648",
		"PFW_RANK=1x",
		"PFW_RANKS=1-",
		"PFW_RANKS=3-2",
		"PFW_RANKS=,1",
		"PFW_RANKS=1,",
		"PFW_RANKS=a",
		"PFW_RANKS=1;2",
		"PFW_RANKS=0-2147483648",
		"PFW_RANK_VAR=1A",
		"PFW_RANK_VAR=A-B",
		"PFW_RANK_VAR=$A",
		"PFW_ON_FULL=wait",
		"PFW_ON_FULL=blocked",
		"DFTRACER_INIT=NONE",
		"DFTRACER_TIME_METRIC=usec",
		"DFTRACER_LOG_LEVEL=verbose",
		"PFW_QUIET=maybe",
		"DFTRACER_TRACE_COMPRESSION=gzip",
		"PFW_SCHEDULE=wait=1",
		"PFW_SCHEDULE=active=0",
		"PFW_SCHEDULE=active",
		"PFW_SCHEDULE=active=1,",
		"PFW_SCHEDULE=active=1,skip=2",
		"PFW_SCHEDULE=active=x",
		"PFW_SCHEDULE=active=3,discard_warmup=2",
		"PFW_SCHEDULE=active=99999999999",
		"PFW_CUPTI=kernel,",
		"PFW_CUPTI=,kernel",
		"PFW_CUPTI=a b",
		"PFW_COUNTERS=500",
		"PFW_COUNTERS=5ms",
		"PFW_COUNTERS=1m5s",
		"PFW_COUNTERS=1MiB",
		"PFW_MIN_DUR=20",
		"PFW_MIN_DUR=us",
		"PFW_MAX_BYTES=1P",
		"PFW_MAX_BYTES=63KiB",
		"PFW_FOLLOW=2",
		"PFW_NVTX=2",
	};
	const struct pfw_config defaults = read_quietly(ENABLED("A=b"));

	(void)state;
	for (size_t i = 0; i < LENGTH(bad); i++) {
		struct said said;
		struct pfw_config config = read_env(ENABLED((char *)bad[i]), &said);

		if (said.count != 1 || strncmp(said.lines, bad[i], strlen(bad[i])) != 0 ||
		    !strstr(said.lines, ": bad value: takes "))
			fail_msg("%s: said \"%s\"", bad[i], said.lines);
		assert_memory_equal(&config, &defaults, sizeof(config));
	}
	assert_said(ENABLED("PFW_FLUSH_MS=5ms"), "PFW_FLUSH_MS=5ms: bad value: takes milliseconds, "
						 "1..60000; using the default, 500\n");
	assert_said(ENABLED("PFW_RANK=-1"), "PFW_RANK=-1: bad value: takes 0..2147483647; "
					    "going on as if it were unset\n");
}

static void test_time_metric_says_what_it_cannot_change(void **state)
{
	struct said said;

	(void)state;
	assert_false(read_env(ENABLED("DFTRACER_TIME_METRIC=NS"), &said).whole_us);
	assert_int_equal(said.count, 1);
	assert_non_null(strstr(said.lines, "DFTRACER_TIME_METRIC=NS: no effect: "));
	assert_non_null(strstr(said.lines, "US: times are whole microseconds"));
}

static void test_combinations(void **state)
{
	(void)state;
	assert_said(
		ENABLED("PFW_DUMP_ON=call>1s"),
		"PFW_DUMP_ON=call>1s: no effect: nothing is kept to be dumped; set PFW_KEEP=30s\n");
	read_quietly(ENABLED("PFW_DUMP_ON=call>1s", "PFW_KEEP=30s"));
	assert_said(ENABLED("PFW_STACK=every:2", "DFTRACER_INC_METADATA=0"),
		    "PFW_STACK=every:2: no effect: DFTRACER_INC_METADATA=0 leaves out all args, so "
		    "stacks; unset it\n");
	assert_said(
		ENABLED("PFW_RANK_VAR=MY_RANK", "MY_RANK=x3"),
		"MY_RANK=x3: bad value: PFW_RANK_VAR names it, and a rank is 0..2147483647; going "
		"on as if it were unset\n");
	read_quietly(ENABLED("PFW_RANK_VAR=MY_RANK", "MY_RANK=3"));
	read_quietly(ENABLED("PFW_RANK_VAR=MY_RANK"));
}

static void test_schedule(void **state)
{
	static const char value[] =
		"PFW_SCHEDULE=skip_first=0,wait=1,warmup=2,active=3,repeat=4,discard_warmup=1";
	struct said said;
	struct pfw_plan plan = read_env(ENABLED((char *)value), &said).plan;

	(void)state;
	assert_int_equal(said.count, 0);
	assert_int_equal(plan.kind, PFW_PLAN_STEPS);
	assert_int_equal(plan.steps.wait, 1);
	assert_int_equal(plan.steps.warmup, 2);
	assert_int_equal(plan.steps.active, 3);
	assert_int_equal(plan.steps.repeat, 4);
	assert_int_equal(plan.steps.discard_warmup, 1);
	plan = read_env(ENABLED("PFW_SCHEDULE=range"), &said).plan;
	assert_int_equal(said.count, 0);
	assert_int_equal(plan.kind, PFW_PLAN_RANGE);
}

static void test_gpu(void **state)
{
	static const struct {
		const char *entry;
		uint32_t gpu;
	} table[] = {
		{ "PFW_CUPTI=", PFW_GPU_USUAL },
		{ "PFW_CUPTI=auto", PFW_GPU_USUAL },
		{ "PFW_CUPTI=1", PFW_GPU_USUAL | PFW_GPU_ASKED },
		{ "PFW_CUPTI=off", 0 },
		{ "PFW_CUPTI=0", 0 },
		{ "PFW_CUPTI=kernel", PFW_GPU_KERNEL | PFW_GPU_ASKED },
		{ "PFW_CUPTI=graph,sync,event",
		  PFW_GPU_GRAPH | PFW_GPU_SYNC | PFW_GPU_EVENT | PFW_GPU_ASKED },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(table); i++)
		assert_int_equal(read_quietly(ENABLED((char *)table[i].entry)).gpu, table[i].gpu);
	assert_null(read_quietly(ENABLED("PFW_CUPTI_LIB=")).cupti_lib);
	assert_string_equal(read_quietly(ENABLED("PFW_CUPTI_LIB=/l")).cupti_lib, "/l");
}

static void test_every_ignored_variable_says_why(void **state)
{
	size_t count, ignored = 0;
	const struct pfw_config_row *rows = pfw_config_rows(&count);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		char entry[128], expected[512];

		if (rows[i].state != PFW_CONFIG_IGNORED)
			continue;
		ignored++;
		if (strchr(rows[i].name, '*'))
			continue;
		snprintf(entry, sizeof(entry), "%s=1", rows[i].name);
		snprintf(expected, sizeof(expected), "%s: ignored: %s\n", entry, rows[i].meaning);
		assert_said(ENABLED(entry), expected);
	}
	assert_int_equal(ignored, 25);
}

/* DFTracer's tools have a few dozen: one row answers for all, once. */
static void test_a_family_is_ignored_once(void **state)
{
	struct said said;

	(void)state;
	read_env(ENABLED("DFTRACER_UTILS_THREADS=4", "DFTRACER_UTILS_MONITOR=1"), &said);
	assert_int_equal(said.count, 1);
	assert_memory_equal(said.lines, "DFTRACER_UTILS_*=4: ignored: ", 29);
	read_env(ENABLED("DFTRACER_UTILZ=1"), &said);
	assert_null(strchr(said.lines, '*')); /* nobody means a family */
}

static void test_what_to_record(void **state)
{
	struct pfw_config config = read_quietly(ENVIRON("DFTRACER_ENABLE=1"));

	(void)state;
	assert_null(config.calls);
	assert_null(config.exclude);
	assert_int_equal(config.min_dur_ns, 0);
	assert_int_equal(config.max_bytes, 0);
	assert_string_equal(config.children, "all");
	assert_false(config.follow);
	config = read_quietly(ENABLED("PFW_CALLS=read,open*", "PFW_EXCLUDE=*.tmp:/scratch",
				      "PFW_MIN_DUR=20us", "PFW_MAX_BYTES=4GiB",
				      "PFW_CHILDREN=python*", "PFW_FOLLOW=1"));
	assert_string_equal(config.calls, "read,open*");
	assert_string_equal(config.exclude, "*.tmp:/scratch");
	assert_int_equal(config.min_dur_ns, 20000);
	assert_int_equal(config.max_bytes, 4ull << 30);
	assert_string_equal(config.children, "python*");
	assert_true(config.follow);
}

static void test_did_you_mean(void **state)
{
	static const struct {
		const char *given, *meant;
	} table[] = {
		{ "DFTRACER_LOGFILE", "DFTRACER_LOG_FILE" },
		{ "DFTRACER_ENABLED", "DFTRACER_ENABLE" },
		{ "DFTRACER_DATA_DIRS", "DFTRACER_DATA_DIR" },
		{ "DFTRACER_TRACE_COMPRESION", "DFTRACER_TRACE_COMPRESSION" },
		{ "PFW_LOG_FILE", "DFTRACER_LOG_FILE" },
		{ "DFTRACER_QUIET", "PFW_QUIET" },
		{ "DFTRACER_COMPRESSION", "DFTRACER_TRACE_COMPRESSION" },
		{ "PFW_ENABLE", "DFTRACER_ENABLE" },
		{ "PFW_RNAK", "PFW_RANK" },
		{ "PFW_FLUSH", "PFW_FLUSH_MS" },
		{ "PFW_SPOOLDIR", "PFW_SPOOL_DIR" },
		{ "PFW_ON_FUL", "PFW_ON_FULL" },
		{ "PFW_SCHEDUEL", "PFW_SCHEDULE" },
		{ "PFW_RNU", "PFW_RUN" },
		{ "DFTRACER_RUM", NULL },
		{ "PFW_XYZZY", NULL },
		{ "PFW_", NULL },
		{ "DFTRACER_", NULL },
		{ "DFTRACER_PERFECTLY_OTHER_THING", NULL },
		{ "PFW_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", NULL },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(table); i++) {
		char entry[128], question[128] = "`pfw config` lists all\n";
		struct said said;

		snprintf(entry, sizeof(entry), "%s=1", table[i].given);
		if (table[i].meant)
			snprintf(question, sizeof(question), "did you mean %s?\n", table[i].meant);
		read_env(ENABLED(entry), &said);
		assert_int_equal(said.count, 1);
		if (!strstr(said.lines, question))
			fail_msg("%s: said \"%s\"", entry, said.lines);
	}
	assert_said(ENABLED("PFW_QUIETT=x"),
		    "PFW_QUIETT=x: unknown variable; did you mean PFW_QUIET?\n");
}

static void test_other_peoples_variables(void **state)
{
	(void)state;
	read_quietly(ENABLED("PFWX=1", "XPFW_RUN=1", "pfw_rank=1", "PFW_RANK", "=x", "",
			     "DFTRACER=1", "PFW_BIN=/x/pfw", "PFW_SOURCE_DIR=/x"));
}

static void test_empty_counts_as_unset(void **state)
{
	struct pfw_config config =
		read_quietly(ENABLED("DFTRACER_LOG_FILE=", "DFTRACER_DATA_DIR=", "PFW_RANK=",
				     "PFW_ON_FULL=", "PFW_SCHEDULE=", "DFTRACER_CONFIGURATION="));

	(void)state;
	assert_string_equal(config.log_file, "./trace");
	assert_null(config.data_dir);
	assert_int_equal(config.rank, -1);
}

static void test_first_entry_counts(void **state)
{
	struct pfw_config config = read_quietly(ENABLED("PFW_RANK=3", "PFW_RANK=x"));

	(void)state;
	assert_int_equal(config.rank, 3);
}

static void test_shown_values_are_tame(void **state)
{
	char entry[4096] = "PFW_RING_MAX=\x1b[31m\n";
	struct said said;

	(void)state;
	memset(entry + strlen(entry), 'x', sizeof(entry) - 1 - strlen(entry));
	read_env(ENABLED(entry), &said);
	assert_int_equal(said.count, 1);
	assert_non_null(strstr(said.lines, "PFW_RING_MAX=?[31m?xxx"));
	assert_non_null(strstr(said.lines, "xxx...: bad value"));
	assert_true(strlen(said.lines) < 300);
}

static void quiet_is_known(void *user, const char *line)
{
	const struct pfw_config *config = user;

	(void)line;
	assert_true(config->quiet);
}

static void test_quiet_comes_first(void **state)
{
	struct pfw_config config;

	(void)state;
	pfw_config_read(&config, ENABLED("PFW_RANK=x", "PFW_QUIET=1"), quiet_is_known, &config);
	assert_true(config.quiet);
	pfw_config_read(&config, ENVIRON("DFTRACER_ENABLE=maybe", "PFW_QUIET=1"), quiet_is_known,
			&config);
	assert_true(config.quiet);
}

static const struct pfw_config_row *row_of(const char *name)
{
	size_t count;
	const struct pfw_config_row *rows = pfw_config_rows(&count);

	for (size_t i = 0; i < count; i++) {
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	}
	fail_msg("no row %s", name);
	return NULL;
}

static void test_values_in_effect(void **state)
{
	static const struct {
		const char *entry, *name, *value;
		bool set;
	} table[] = {
		{ "A=", "PFW_RING_MAX", "1MiB", false },
		{ "PFW_RING_MAX=100000", "PFW_RING_MAX", "64KiB", true },
		{ "PFW_RING_MAX=2m", "PFW_RING_MAX", "2MiB", true },
		{ "PFW_RING_MAX=2x", "PFW_RING_MAX", "1MiB", false },
		{ "DFTRACER_WRITE_BUFFER_SIZE=5000", "DFTRACER_WRITE_BUFFER_SIZE", "5000", true },
		{ "DFTRACER_ENABLE=yes", "DFTRACER_ENABLE", "1", true },
		{ "DFTRACER_INC_METADATA=no", "DFTRACER_INC_METADATA", "0", true },
		{ "DFTRACER_LOG_FILE=/a b", "DFTRACER_LOG_FILE", "/a b", true },
		{ "DFTRACER_LOG_FILE=", "DFTRACER_LOG_FILE", "./trace", false },
		{ "PFW_FLUSH_MS=20", "PFW_FLUSH_MS", "20", true },
		{ "PFW_CUPTI=kernel,graph", "PFW_CUPTI", "kernel,graph", true },
		{ "PFW_CUPTI=kernels", "PFW_CUPTI", "auto", false },
		{ "DFTRACER_ERROR=1", "DFTRACER_ERROR", "unset", false },
		{ "DFTRACER_TIME_METRIC=NS", "DFTRACER_TIME_METRIC", "unset", false },
		{ "PFW_SPOOL_DIR=0123456789012345678901234567890123", "PFW_SPOOL_DIR",
		  "0123456789012345678901234567890", true },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(table); i++) {
		char buf[32];
		bool set = pfw_config_value(row_of(table[i].name), ENVIRON((char *)table[i].entry),
					    buf, sizeof(buf));

		assert_string_equal(buf, table[i].value);
		assert_int_equal(set, table[i].set);
	}
}

static void test_lookup(void **state)
{
	char **environ = ENVIRON("AB=1", "A", "A=2=3", "A=4", "EMPTY=");

	(void)state;
	assert_string_equal(pfw_config_lookup(environ, "A"), "2=3");
	assert_string_equal(pfw_config_lookup(environ, "AB"), "1");
	assert_string_equal(pfw_config_lookup(environ, "EMPTY"), "");
	assert_null(pfw_config_lookup(environ, "B"));
	assert_null(pfw_config_lookup(NULL, "A"));
}

static void test_ranks_hold(void **state)
{
	static const struct {
		const char *ranks;
		uint64_t rank;
		int held;
	} table[] = {
		{ "0", 0, 1 },		 { "0", 1, 0 },		{ "0,8-15", 8, 1 },
		{ "0,8-15", 15, 1 },	 { "0,8-15", 7, 0 },	{ "0,8-15", 16, 0 },
		{ "3-3", 3, 1 },	 { "5,1,5", 1, 1 },	{ "", 0, -EINVAL },
		{ "-1", 0, -EINVAL },	 { "0,", 0, -EINVAL },	{ "0, 1", 0, -EINVAL },
		{ "0-1-2", 0, -EINVAL }, { "2-1", 2, -EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(table); i++)
		assert_int_equal(pfw_config_ranks_hold(table[i].ranks, table[i].rank),
				 table[i].held);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_every_default_is_accepted),
		cmocka_unit_test(test_rows_are_complete),
		cmocka_unit_test(test_disabled_looks_at_nothing_else),
		cmocka_unit_test(test_bad_enable_is_said),
		cmocka_unit_test(test_read_enabled),
		cmocka_unit_test(test_words_of_flags),
		cmocka_unit_test(test_each_field),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_bad_values),
		cmocka_unit_test(test_time_metric_says_what_it_cannot_change),
		cmocka_unit_test(test_combinations),
		cmocka_unit_test(test_schedule),
		cmocka_unit_test(test_gpu),
		cmocka_unit_test(test_every_ignored_variable_says_why),
		cmocka_unit_test(test_a_family_is_ignored_once),
		cmocka_unit_test(test_what_to_record),
		cmocka_unit_test(test_did_you_mean),
		cmocka_unit_test(test_other_peoples_variables),
		cmocka_unit_test(test_empty_counts_as_unset),
		cmocka_unit_test(test_first_entry_counts),
		cmocka_unit_test(test_shown_values_are_tame),
		cmocka_unit_test(test_quiet_comes_first),
		cmocka_unit_test(test_values_in_effect),
		cmocka_unit_test(test_lookup),
		cmocka_unit_test(test_ranks_hold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
