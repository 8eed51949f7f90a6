/* test_times.c - points in time: how they are written, and what they are in traces with and without
 * summaries. */
#include "store/pass/times.h"

#include <errno.h>
#include <sys/stat.h>

#include "trace_files.h"

static const struct {
	const char *text;
	enum pfw_time_kind kind;
	int64_t value;
} goods[] = {
	{ "+12s", PFW_TIME_BEGIN, 12000000000 },
	{ "+0.5ms", PFW_TIME_BEGIN, 500000 },
	{ "-5s", PFW_TIME_END, 5000000000 },
	{ "-1.5h", PFW_TIME_END, 5400000000000 },
	{ "+7ns", PFW_TIME_BEGIN, 7 },
	{ "+7us", PFW_TIME_BEGIN, 7000 },
	{ "+7\xc2\xb5s", PFW_TIME_BEGIN, 7000 },
	{ "+7\xce\xbcs", PFW_TIME_BEGIN, 7000 },
	{ "+2m", PFW_TIME_BEGIN, 120000000000 },
	{ "50%", PFW_TIME_PERCENT, 50000 },
	{ "0.001%", PFW_TIME_PERCENT, 1 },
	{ "100%", PFW_TIME_PERCENT, 100000 },
	{ "step:100", PFW_TIME_STEP, 100 },
	{ "1795230878627639.123", PFW_TIME_EPOCH, 1795230878627639123 },
	{ "0", PFW_TIME_EPOCH, 0 },
};

static const char *const bads[] = {
	"",
	"+",
	"-",
	"12s",
	"+12",
	"+12x",
	"+1..2s",
	"+.5s",
	"101%",
	"%",
	"-5%",
	"5s%",
	"step:",
	"step:x",
	"step:-1",
	"step:1 ",
	"1e5",
	"+1e5s",
	"+12 s",
	"+0.1ns",
	"nan",
	"+12KiB",
	"1234567890123456789012",
	"1.0001",
	" 5",
	"5 ",
	"+99999999h",
};

static void how_they_are_written(void **state)
{
	struct pfw_time time;
	const char *why;

	(void)state;
	for (size_t i = 0; i < sizeof(goods) / sizeof(goods[0]); i++) {
		if (pfw_time_parse(&time, goods[i].text, &why))
			fail_msg("%s: %s", goods[i].text, why);
		assert_int_equal(time.kind, goods[i].kind);
		if (time.value != goods[i].value)
			fail_msg("%s: %lld", goods[i].text, (long long)time.value);
	}
	for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++) {
		why = NULL;
		if (pfw_time_parse(&time, bads[i], &why) != -EINVAL)
			fail_msg("accepted: %s", bads[i]);
		assert_non_null(why);
	}
}

/* ---- in traces ---- */

#define LINE(ts, dur, args) NAMED("x", ts, dur, args)
#define NAMED(name, ts, dur, args)                                                      \
	"{\"id\":1,\"name\":\"" name "\",\"cat\":\"PP\",\"pid\":1,\"tid\":1,\"ts\":" ts \
	",\"dur\":" dur ",\"ph\":\"X\",\"args\":{" args "}}\n"
#define PROCESS(rank)                                                                           \
	"{\"id\":1,\"name\":\"process\",\"cat\":\"pfw\",\"pid\":1,\"tid\":1,\"ts\":1000.000,"   \
	"\"ph\":\"M\",\"args\":{\"format\":1,\"run\":\"r\",\"rank\":" rank ",\"world_size\":2," \
	"\"start_ts\":1000.000}}\n"
#define STEP(n, ts, dur) NAMED("ProfilerStep#" n, ts, dur, "\"kind\":\"step\"")

static void say(void *user, const char *path, const char *why)
{
	(void)user;
	fail_msg("%s: %s", path, why);
}

static void open_traces(struct pfw_traces *traces, const char *path)
{
	char *argument = (char *)path;

	assert_int_equal(pfw_traces_open(traces, &argument, 1, true, say, NULL), 0);
}

static int64_t resolved(const char *text, const struct pfw_extent *extent, int64_t rank)
{
	struct pfw_time time;
	const char *why;
	int64_t ns = -1, has;

	assert_int_equal(pfw_time_parse(&time, text, &why), 0);
	if (pfw_time_resolve(&time, extent, rank, &ns, &has))
		return -1;
	return ns;
}

/* The earliest begin and the latest end are in lines that nothing points at. */
static const char middle[] = LINE("2000.000", "1.000", "") LINE("1500.000", "9000.500", "")
	LINE("999.999", "1.000", "") LINE("3000.000", "1.000", "");

static void of_raw_files_every_line_is_looked_at(void **state)
{
	struct fixture *fixture = *state;
	struct pfw_extent extent;
	struct pfw_traces traces;

	write_file(fixture->path, middle, strlen(middle));
	open_traces(&traces, fixture->path);
	assert_int_equal(pfw_extent_find(&extent, &traces, &(struct pfw_extent_options){ 0 }), 0);
	assert_int_equal(extent.least_ns, 999999);
	assert_int_equal(extent.greatest_ns, 10500500);
	assert_int_equal(resolved("+1us", &extent, -1), 1000999);
	assert_int_equal(resolved("-1us", &extent, -1), 10499500);
	assert_int_equal(resolved("0%", &extent, -1), 999999);
	assert_int_equal(resolved("100%", &extent, -1), 10500501);
	assert_int_equal(resolved("50%", &extent, -1), 999999 + (10500500 - 999999) / 2);
	assert_int_equal(resolved("7.001", &extent, -1), 7001);
	pfw_extent_free(&extent);
	pfw_traces_close(&traces);
}

/* The summaries of members are believed: the text of this one says something else. */
static void of_our_members_the_summary_is(void **state)
{
	struct fixture *fixture = *state;
	unsigned char bytes[4096];
	struct pfw_extent extent;
	struct pfw_traces traces;
	size_t count;
	char path[128];

	count = member(bytes, sizeof(bytes), middle, strlen(middle), 4);
	memset(bytes + 24, 0, 16);
	bytes[24] = 5;
	bytes[32] = 9;
	snprintf(path, sizeof(path), "%s.gz", fixture->path);
	write_file(path, bytes, count);
	open_traces(&traces, path);
	assert_int_equal(pfw_extent_find(&extent, &traces, &(struct pfw_extent_options){ 0 }), 0);
	assert_int_equal(extent.least_ns, 5);
	assert_int_equal(extent.greatest_ns, 9);
	pfw_extent_free(&extent);
	pfw_traces_close(&traces);
}

static void steps_are_each_rank_s_own(void **state)
{
	static const char first[] = PROCESS("0") STEP("3", "2000.000", "10.000")
		STEP("5", "2020.000", "10.000");
	static const char second[] = PROCESS("1") STEP("3", "2100.000", "10.000")
		STEP("4", "2110.000", "10.000");
	struct pfw_extent_options options = { .steps = true };
	struct fixture *fixture = *state;
	struct pfw_extent extent;
	struct pfw_traces traces;
	char path[128];

	snprintf(path, sizeof(path), "%s/t-rank0000.pfw", fixture->directory);
	write_file(path, first, strlen(first));
	snprintf(path, sizeof(path), "%s/t-rank0001.pfw", fixture->directory);
	write_file(path, second, strlen(second));
	open_traces(&traces, fixture->directory);
	assert_int_equal(pfw_extent_find(&extent, &traces, &options), 0);
	assert_int_equal(extent.step_count, 4);
	assert_int_equal(resolved("step:3", &extent, 0), 2000000);
	assert_int_equal(resolved("step:3", &extent, 1), 2100000);
	assert_int_equal(resolved("step:4", &extent, 0), 2020000); /* not recorded: the next */
	assert_int_equal(resolved("step:6", &extent, 0), 2030000); /* the end of the last */
	assert_int_equal(resolved("step:7", &extent, 0), -1);
	assert_int_equal(resolved("step:6", &extent, 1), -1);
	assert_int_equal(resolved("step:3", &extent, -1), 2000000); /* the least of all */
	pfw_extent_free(&extent);
	pfw_traces_close(&traces);
}

static void what_cannot_be_known(void **state)
{
	struct fixture *fixture = *state;
	struct pfw_extent extent;
	struct pfw_traces traces;
	char path[128];

	write_file(fixture->path, "{\"name\":\"x\"}\n", 13);
	open_traces(&traces, fixture->path);
	assert_int_equal(pfw_extent_find(&extent, &traces, &(struct pfw_extent_options){ 0 }), 0);
	assert_int_equal(resolved("+1us", &extent, -1), -1);
	assert_int_equal(resolved("1", &extent, -1), 1000);
	pfw_extent_free(&extent);
	pfw_traces_close(&traces);
	snprintf(path, sizeof(path), "-");
	open_traces(&traces, path);
	assert_int_equal(pfw_extent_find(&extent, &traces, &(struct pfw_extent_options){ 0 }),
			 -ESPIPE);
	pfw_traces_close(&traces);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(how_they_are_written),
		cmocka_unit_test_setup_teardown(of_raw_files_every_line_is_looked_at, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(of_our_members_the_summary_is, set_up, tear_down),
		cmocka_unit_test_setup_teardown(steps_are_each_rank_s_own, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_cannot_be_known, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
