/* test_select.c - which lines and which blocks are wanted. */
#include "store/select/select.h"

#include <errno.h>

#include "trace_files.h"

/* A selection over files of ranks -1 and 3. */
struct world {
	struct pfw_trace_file file[2];
	struct pfw_traces traces;
	struct pfw_select select;
	struct pfw_select_state *state;
};

static void add(struct world *world, enum pfw_select_option option, const char *value)
{
	char why[512] = "";

	if (pfw_select_add(&world->select, option, value, why, sizeof(why)))
		fail_msg("%s: %s", value, why);
}

static void begin(struct world *world)
{
	*world = (struct world){ .select.absent_ranks = true };
	world->file[0].path = world->file[1].path = (char *)"/nowhere";
	world->file[0].head.rank = -1;
	world->file[1].head.rank = 3;
	world->file[0].head.ours = world->file[1].head.ours = true;
	world->traces.file = world->file;
	world->traces.count = 2;
}

static void resolve(struct world *world)
{
	char why[256] = "";

	if (pfw_select_resolve(&world->select, &world->traces, &(struct pfw_extent_options){ 0 },
			       why, sizeof(why)))
		fail_msg("%s", why);
	world->state = pfw_select_state_create(&world->select);
	assert_non_null(world->state);
}

static void end(struct world *world)
{
	pfw_select_state_free(world->state);
	pfw_select_release(&world->select);
}

static bool wanted(struct world *world, size_t file, const char *line)
{
	struct pfw_entry entry;

	pfw_entry_parse(&entry, line, strlen(line));
	assert_int_equal(entry.kind, PFW_ENTRY_EVENT);
	return pfw_select_entry(&world->select, world->state, file, &entry);
}

/* Whether the line is wanted by this one condition. */
static bool by(enum pfw_select_option option, const char *value, size_t file, const char *line)
{
	struct world world;
	bool result;

	begin(&world);
	add(&world, option, value);
	resolve(&world);
	result = wanted(&world, file, line);
	end(&world);
	return result;
}

static const char span[] =
	"{\"id\":12,\"name\":\"pread\",\"cat\":\"POSIX\",\"pid\":8978,\"tid\":8979,\"ts\":100.000,"
	"\"dur\":10.500,\"ph\":\"X\",\"args\":{\"fname\":\"/data/a\\\"b.npz\",\"step\":7}}";
static const char instant[] = "{\"id\":13,\"name\":\"mark\",\"cat\":\"app\",\"pid\":1,\"tid\":2,"
			      "\"ts\":100.000,\"ph\":\"i\",\"args\":{\"fname\":3}}";
static const char meta[] = "{\"id\":14,\"name\":\"end\",\"cat\":\"pfw\",\"pid\":1,\"tid\":2,"
			   "\"ts\":100.000,\"ph\":\"M\",\"args\":{}}";

static const struct {
	enum pfw_select_option option;
	const char *value;
	bool span, instant, meta;
} conditions[] = {
	{ PFW_SELECT_CAT, "POSIX", true, false, false },
	{ PFW_SELECT_CAT, "P*", true, false, false },
	{ PFW_SELECT_CAT, "POSI", false, false, false },
	{ PFW_SELECT_CAT, "pfw", false, false, true },
	{ PFW_SELECT_CAT, "*", true, true, true },
	{ PFW_SELECT_NAME, "p[or]ead", true, false, false },
	{ PFW_SELECT_NAME, "mark", false, true, false },
	{ PFW_SELECT_FNAME, "*.npz", true, false, false },
	{ PFW_SELECT_FNAME, "/data/a\"b.npz", true, false, false },
	{ PFW_SELECT_FNAME, "a*", false, false, false },
	{ PFW_SELECT_PID, "8978", true, false, false },
	{ PFW_SELECT_PID, "1-3,8000-9000", true, true, false },
	{ PFW_SELECT_TID, "2", false, true, false },
	{ PFW_SELECT_STEP, "5-7", true, false, false },
	{ PFW_SELECT_STEP, "8", false, false, false },
	{ PFW_SELECT_MIN_DUR, "10.5", true, false, false },
	{ PFW_SELECT_MIN_DUR, "10501ns", false, false, false },
	{ PFW_SELECT_MIN_DUR, "0us", true, false, false },
	{ PFW_SELECT_SINCE, "100", true, true, false },
	{ PFW_SELECT_SINCE, "100.001", true, false, false },
	{ PFW_SELECT_SINCE, "110.499", true, false, false },
	{ PFW_SELECT_SINCE, "110.500", false, false, false },
	{ PFW_SELECT_UNTIL, "100", false, false, false },
	{ PFW_SELECT_UNTIL, "100.001", true, true, false },
	{ PFW_SELECT_WHERE, "dur > 10us || name=='mark'", true, true, false },
	{ PFW_SELECT_WHERE, "ph == 'M'", false, false, true },
	{ PFW_SELECT_WHERE, "cat == \"pfw\"", false, false, true },
	{ PFW_SELECT_WHERE, "id > 0", true, true, false },
};

static void lines(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(conditions) / sizeof(conditions[0]); i++) {
		enum pfw_select_option option = conditions[i].option;
		const char *value = conditions[i].value;

		if (by(option, value, 0, span) != conditions[i].span ||
		    by(option, value, 1, instant) != conditions[i].instant ||
		    by(option, value, 1, meta) != conditions[i].meta)
			fail_msg("%d %s", option, value);
	}
}

static void ranks_are_the_files(void **state)
{
	(void)state;
	assert_true(by(PFW_SELECT_RANK, "0-3", 1, span));
	assert_false(by(PFW_SELECT_RANK, "0-3", 0, span));
	assert_false(by(PFW_SELECT_RANK, "0,4-9", 1, span));
	assert_true(by(PFW_SELECT_WHERE, "rank == 3", 1, span));
	assert_true(by(PFW_SELECT_WHERE, "rank == null", 0, span));
}

/* Which ranks there are is said, as far as there is room for them. */
static void ranks_that_are_not_there(void **state)
{
	struct world world;
	struct pfw_trace_file odd[100];
	char why[256] = "";

	(void)state;
	begin(&world);
	world.select.absent_ranks = false;
	add(&world, PFW_SELECT_RANK, "0,4-9");
	assert_int_equal(pfw_select_resolve(&world.select, &world.traces,
					    &(struct pfw_extent_options){ 0 }, why, sizeof(why)),
			 -ENOENT);
	assert_string_equal(why, "--rank 0, 4-9: these traces are of rank 3");
	for (size_t i = 0; i < 100; i++) {
		odd[i] = world.file[1];
		odd[i].head.rank = (int64_t)(i / 2 * 1000 + 10 + i % 2);
	}
	world.traces.file = odd;
	world.traces.count = 100;
	assert_int_equal(pfw_select_resolve(&world.select, &world.traces,
					    &(struct pfw_extent_options){ 0 }, why, sizeof(why)),
			 -ENOENT);
	assert_non_null(strstr(why, "of rank 10-11, 1010-1011, 2010-2011, "));
	assert_string_equal(why + strlen(why) - 5, ", ...");
	end(&world);
}

static void all_kinds_must_hold_and_any_of_one_kind(void **state)
{
	struct world world;

	(void)state;
	begin(&world);
	add(&world, PFW_SELECT_NAME, "read");
	add(&world, PFW_SELECT_NAME, "pread");
	add(&world, PFW_SELECT_CAT, "POSIX");
	resolve(&world);
	assert_true(wanted(&world, 0, span));
	assert_false(wanted(&world, 0, instant));
	end(&world);
	begin(&world);
	add(&world, PFW_SELECT_NAME, "pread");
	add(&world, PFW_SELECT_CAT, "STDIO");
	resolve(&world);
	assert_false(wanted(&world, 0, span));
	end(&world);
	begin(&world);
	add(&world, PFW_SELECT_WHERE, "id > 0");
	add(&world, PFW_SELECT_WHERE, "pid == 1");
	resolve(&world);
	assert_false(wanted(&world, 0, span));
	assert_true(wanted(&world, 0, instant));
	end(&world);
}

/* Whether a block from `least` to `greatest` (µs) of the file of rank 3 has to be read. */
static bool read_block(enum pfw_select_option option, const char *value, int64_t least,
		       int64_t greatest)
{
	struct pfw_block block = { .summed = true,
				   .least_ns = least * 1000,
				   .greatest_ns = greatest * 1000 };
	struct pfw_block unknown = { 0 };
	struct world world;
	bool result;

	begin(&world);
	add(&world, option, value);
	resolve(&world);
	result = pfw_select_block(&world.select, 1, &block);
	assert_true(pfw_select_block(&world.select, 1, &unknown) ||
		    !pfw_select_file(&world.select, 1));
	end(&world);
	return result;
}

static void blocks(void **state)
{
	(void)state;
	assert_true(read_block(PFW_SELECT_SINCE, "200", 100, 200));
	assert_false(read_block(PFW_SELECT_SINCE, "200.001", 100, 200));
	assert_true(read_block(PFW_SELECT_UNTIL, "100.001", 100, 200));
	assert_false(read_block(PFW_SELECT_UNTIL, "100", 100, 200));
	assert_true(read_block(PFW_SELECT_MIN_DUR, "100", 100, 200));
	assert_false(read_block(PFW_SELECT_MIN_DUR, "100.001", 100, 200));
	assert_false(read_block(PFW_SELECT_MIN_DUR, "0", 1, 0)); /* no times in it */
	assert_false(read_block(PFW_SELECT_RANK, "2", 100, 200));
	assert_true(read_block(PFW_SELECT_RANK, "3", 100, 200));
	assert_false(read_block(PFW_SELECT_WHERE, "ts > 200", 100, 200));
	assert_true(read_block(PFW_SELECT_WHERE, "ts > 199", 100, 200));
	assert_true(read_block(PFW_SELECT_NAME, "x", 100, 200));
}

static void what_is_refused(void **state)
{
	static const struct {
		enum pfw_select_option option;
		const char *value;
	} bads[] = {
		{ PFW_SELECT_RANK, "" },       { PFW_SELECT_RANK, "-1" },
		{ PFW_SELECT_RANK, "3-1" },    { PFW_SELECT_PID, "1," },
		{ PFW_SELECT_PID, "x" },       { PFW_SELECT_TID, "1-" },
		{ PFW_SELECT_STEP, "1 2" },    { PFW_SELECT_MIN_DUR, "" },
		{ PFW_SELECT_MIN_DUR, "5x" },  { PFW_SELECT_MIN_DUR, "-5us" },
		{ PFW_SELECT_SINCE, "12s" },   { PFW_SELECT_UNTIL, "" },
		{ PFW_SELECT_WHERE, "dur >" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++) {
		struct pfw_select select = { 0 };
		char why[512] = "";

		if (pfw_select_add(&select, bads[i].option, bads[i].value, why, sizeof(why)) !=
		    -EINVAL)
			fail_msg("accepted: %s", bads[i].value);
		assert_true(strlen(why) > 5);
		pfw_select_release(&select);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines),
		cmocka_unit_test(ranks_are_the_files),
		cmocka_unit_test(ranks_that_are_not_there),
		cmocka_unit_test(all_kinds_must_hold_and_any_of_one_kind),
		cmocka_unit_test(blocks),
		cmocka_unit_test(what_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
