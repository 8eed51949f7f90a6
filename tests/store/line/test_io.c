/* test_io.c - what a call did is one answer: its role from the cache, and the bytes that it moved. */
#include "store/line/io.h"

#include "store/line/step_name.h"
#include "trace_files.h"

static const struct pfw_io_call ret = { .role = PFW_ROLE_READ, .moves = PFW_MOVES_RET };
static const struct pfw_io_call items = { .role = PFW_ROLE_READ, .moves = PFW_MOVES_ITEMS };
static const struct pfw_io_call count = { .role = PFW_ROLE_WRITE, .moves = PFW_MOVES_COUNT };
static const struct pfw_io_call nothing = { .role = PFW_ROLE_OPEN, .moves = PFW_MOVES_NOTHING };

static void expect_moved(struct pfw_io_call call, int64_t result, int64_t factor, int64_t expected)
{
	uint64_t bytes = 77;
	bool known = pfw_io_moved(call, result, factor, &bytes);

	assert_int_equal(known, expected >= 0);
	assert_int_equal(bytes, expected >= 0 ? expected : 0);
}

static void test_bytes_follow_one_rule(void **state)
{
	(void)state;
	expect_moved(ret, 4096, 0, 4096);
	expect_moved(ret, 0, 0, 0);
	expect_moved(ret, -5, 0, -1);
	expect_moved(items, 3, 8, 24);
	expect_moved(items, 0, 8, 0);
	expect_moved(items, -1, 8, -1);
	expect_moved(items, 3, -1, -1);
	expect_moved(items, INT64_MAX / 2, 3, INT64_MAX);
	expect_moved(count, 1, 100, 100);
	expect_moved(count, -1, 100, -1);
	expect_moved(count, 1, -1, -1);
	expect_moved(nothing, 3, 0, -1);
}

static void expect_line(const char *args, struct pfw_io_call call, int64_t expected)
{
	struct pfw_entry entry;
	char line[256];
	int length = snprintf(line, sizeof(line), "{\"name\":\"x\",\"ts\":1,\"args\":%s}", args);

	pfw_entry_parse(&entry, line, (size_t)length);
	assert_int_equal(entry.kind, PFW_ENTRY_EVENT);
	expect_moved(call, pfw_arg_i64(&entry, "ret", -1), pfw_io_factor(call, &entry), expected);
}

static void test_bytes_of_lines(void **state)
{
	(void)state;
	expect_line("{\"ret\":7,\"size\":3}", ret, 7);
	expect_line("{\"ret\":7,\"size\":3}", items, 21);
	expect_line("{\"ret\":7}", items, -1);
	expect_line("{\"ret\":7,\"size\":-3}", items, -1);
	expect_line("{\"ret\":\"7\"}", ret, -1);
	expect_line("{}", ret, -1);
	expect_line("{\"ret\":1,\"count\":12}", count, 12);
}

/* Names that the cache has to tell apart, again and again. */
static void test_the_cache_never_changes_an_answer(void **state)
{
	static struct pfw_io_calls calls;
	char text[64];

	(void)state;
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 2000; i++) {
			static const char *const known[] = { "read", "pwrite", "fread",
							     "open", "fputs",  "lseek",
							     "dup",  "tee",    "copy_file_range",
							     "" };
			struct pfw_io_call found, wanted;
			struct pfw_slice name = { .at = text };

			name.bytes = (size_t)snprintf(text, sizeof(text), i % 3 ? "%s" : "%s%u",
						      known[i % 10], i * i % 1000003);
			if (i % 7 == 0)
				name.bytes = (size_t)snprintf(text, sizeof(text),
							      "a_name_that_no_cell_has_room_for_%u",
							      i);
			found = pfw_io_calls_find(&calls, &name);
			wanted = pfw_io_call_find("STDIO", 5, name.at, name.bytes);
			assert_int_equal(found.role, wanted.role);
			assert_int_equal(found.moves, wanted.moves);
		}
	}
}

static void test_args_of_any_line(void **state)
{
	/* The first is in our own key order, the second is not. */
	static const char *const lines[] = {
		"{\"id\":1,\"name\":\"a\",\"cat\":\"b\",\"pid\":1,\"tid\":1,\"ts\":1,\"ph\":\"i\","
		"\"args\":{\"n\":-3,\"text\":\"x\\u0041\",\"us\":1.5}}",
		"{\"args\":{\"n\":-3, \"text\":\"x\\u0041\",\"us\":1.5},\"name\":\"a\",\"ts\":1}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct pfw_entry entry;
		struct pfw_slice text = { .at = "kept", .bytes = 4 }, key;
		struct pfw_value value;
		struct pfw_args args;
		char keys[16] = "";

		pfw_entry_parse(&entry, lines[i], strlen(lines[i]));
		assert_int_equal(entry.fast, i == 0);
		assert_int_equal(pfw_arg_i64(&entry, "n", 9), -3);
		assert_int_equal(pfw_arg_u64(&entry, "n", 9), 9);
		assert_int_equal(pfw_arg_ns(&entry, "us", 9), 1500);
		assert_int_equal(pfw_arg_ns(&entry, "text", 9), 9);
		assert_false(pfw_arg_text(&entry, "n", &text));
		assert_int_equal(text.bytes, 4);
		assert_true(pfw_arg_text(&entry, "text", &text));
		assert_true(pfw_slice_is(&text, "xA"));
		pfw_args_init(&args, &entry);
		while (pfw_args_next(&args, &key, &value))
			strncat(keys, key.at, key.bytes);
		assert_string_equal(keys, "ntextus");
	}
}

static bool is_step(const char *name, uint64_t *number)
{
	return pfw_is_step_name(name, strlen(name), number);
}

static void test_names_of_steps_have_a_number(void **state)
{
	uint64_t number;

	(void)state;
	assert_true(is_step("ProfilerStep#0", &number));
	assert_int_equal(number, 0);
	assert_true(is_step("ProfilerStep#123456789012345678", &number));
	assert_int_equal(number, 123456789012345678);
	assert_false(is_step("ProfilerStep#1234567890123456789", &number));
	assert_false(is_step("ProfilerStep#", &number));
	assert_false(is_step("ProfilerStep#*", &number));
	assert_false(is_step("ProfilerStep#1x", &number));
	assert_false(is_step("ProfilerStop#1", &number));
	assert_false(is_step("Profiler", &number));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_follow_one_rule),
		cmocka_unit_test(test_bytes_of_lines),
		cmocka_unit_test(test_the_cache_never_changes_an_answer),
		cmocka_unit_test(test_args_of_any_line),
		cmocka_unit_test(test_names_of_steps_have_a_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
