/* test_entry.c - lines taken apart: made-up ones of every kind, and broken ones, by both paths of
 * entry.h and by jansson, with one result. */
#include "store/line/entry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>
#include <stddef.h>

#include "entry_judge.h"

#define LINES 20000

static uint32_t seed = 1;

static uint32_t chance(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

static const char *one_of(const char *const *texts, size_t count)
{
	return texts[chance((uint32_t)count)];
}

#define ONE_OF(...)                                  \
	one_of((const char *const[]){ __VA_ARGS__ }, \
	       sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

/* Text for between two quotes: of any length, with what needs a second look now and then. */
static char *put_text(char *out)
{
	for (uint32_t left = chance(40); left; left--) {
		if (chance(60) == 0)
			out = stpcpy(out, ONE_OF("\\n", "\\\"", "\\u00e9", "\\ud83d\\ude00", "é",
						 "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\x7f"));
		else
			*out++ = (char)('#' + chance('[' - '#'));
	}
	*out = '\0';
	return out;
}

static char *put_string(char *out)
{
	*out++ = '"';
	out = put_text(out);
	return stpcpy(out, "\"");
}

static char *put_value(char *out, int depth)
{
	switch (chance(depth < 3 ? 10 : 7)) {
	case 0:
	case 1:
	case 2:
		return out + sprintf(out, "%u", chance(1 << 20));
	case 3:
		return stpcpy(out,
			      ONE_OF("0", "-1", "0.25", "-0.5e-3", "1E9", "9223372036854775807",
				     "18446744073709551615", "4e2", "12345678", "123456789"));
	case 4:
		return stpcpy(out, ONE_OF("null", "true", "false"));
	case 5:
	case 6:
		return put_string(out);
	case 7:
		return stpcpy(out, ONE_OF("[]", "{}", "[[64,512],[],[1.5]]", "[\"a\",null]"));
	case 8:
		*out++ = '[';
		for (uint32_t left = chance(4); left; left--)
			out = stpcpy(put_value(out, depth + 1), ",");
		return stpcpy(put_value(out, depth + 1), "]");
	default:
		out = stpcpy(put_string(stpcpy(out, "{")), ":");
		return stpcpy(put_value(out, depth + 1), "}");
	}
}

static char *put_args(char *out)
{
	uint32_t count = chance(20) ? chance(8) : chance(60); /* more than an entry keeps */

	out = stpcpy(out, "{");
	for (uint32_t i = 0; i < count; i++) {
		if (chance(3))
			out += sprintf(out, "\"%s\"",
				       ONE_OF("fname", "fd", "ret", "kind", "count"));
		else
			out = put_string(out);
		out = put_value(stpcpy(out, ":"), 0);
		out = stpcpy(out, i + 1 < count ? "," : "");
	}
	return stpcpy(out, "}");
}

/* A line as the recorder writes it, but for what is in it. */
static size_t make_line(char *line)
{
	char *out = line;

	out += sprintf(out, "{\"id\":%u,\"name\":", chance(1u << chance(24)));
	out = put_string(out);
	out = put_string(stpcpy(out, ",\"cat\":"));
	out += sprintf(out, ",\"pid\":%u,\"tid\":%u,\"ts\":", chance(1 << 22), chance(1 << 22));
	out += chance(10) ? sprintf(out, "17952308%08u.%03u", chance(100000000), chance(1000))
			  : sprintf(out, "%s",
				    ONE_OF("0", "1.5", "-3.000", "1e3", "12.3456", "007",
					   "99999999999999999999", "1234567.000"));
	if (chance(4))
		out += sprintf(out, ",\"dur\":%u.%03u", chance(1u << chance(23)), chance(1000));
	out += sprintf(out, ",\"ph\":\"%s\",\"args\":", ONE_OF("X", "X", "i", "C", "M", "A", ""));
	out = stpcpy(put_args(out), "}");
	return (size_t)(out - line);
}

/* Change, add or take out a byte or two. */
static size_t break_line(char *line, size_t bytes)
{
	static const char odd[] = "\"\\{}[]:,.-+eE0179 \t\r\x01\x80\xff\0";

	for (uint32_t times = 1 + chance(2); times && bytes; times--) {
		size_t at = chance((uint32_t)bytes);

		if (chance(3) == 0) {
			memmove(line + at, line + at + 1, --bytes - at);
		} else {
			if (chance(2)) {
				memmove(line + at + 1, line + at, bytes++ - at);
			}
			line[at] = odd[chance(sizeof(odd))];
		}
	}
	return bytes;
}

static void test_made_up_lines(void **state)
{
	static char line[65536];
	unsigned fast = 0;

	(void)state;
	for (int i = 0; i < LINES; i++) {
		size_t bytes = make_line(line);
		struct pfw_entry entry;

		check_line((const uint8_t *)line, bytes);
		fast += pfw_entry_parse_fast(&entry, line, bytes);
		line[bytes] = '\n';
		check_text((const uint8_t *)line, bytes + 1);
	}
	/* The odd times, letters and nesting apart, they are ours. */
	assert_in_range(fast, LINES / 2, LINES);
}

static void test_broken_lines(void **state)
{
	static char line[65536];

	(void)state;
	for (int i = 0; i < LINES; i++) {
		size_t bytes = break_line(line, make_line(line));

		check_line((const uint8_t *)line, bytes);
		check_text((const uint8_t *)line, bytes);
	}
}

/* Lines of a few names with the args of that name, most of whose values are those of the line before: as a
 * program makes them. */
static char *put_similar(char *out, char value[][8][512])
{
	static const char *const keys[] = { "fname",	    "fd",
					    "ret",	    "a_key_of_20_letters",
					    "offset",	    "r\\u0065t",
					    "device_index", "count" };
	uint32_t name = chance(3), count = 1 + name * 3 + (chance(20) == 0);

	out += sprintf(out, "{\"id\":%u,\"name\":\"name%u\",\"cat\":\"%s\",\"pid\":%u,\"tid\":%u,",
		       chance(1000), name, ONE_OF("POSIX", "POSIX", "PP"), chance(2), chance(3));
	out += sprintf(out, "\"ts\":%u.%03u,\"ph\":\"i\",\"args\":{", chance(1u << 20),
		       chance(1000));
	for (uint32_t i = 0; i < count; i++) {
		const char *key = keys[(name + i) % 8];

		if (!value[name][i][0] || chance(i == 1 ? 2 : 10) == 0) {
			do {
				put_value(value[name][i], 2);
			} while (strlen(value[name][i]) > 200);
		}
		if (chance(40) == 0)
			key = "other";
		out += sprintf(out, "%s\"%s\":%s", i ? "," : "", key, value[name][i]);
	}
	return stpcpy(out, "}}");
}

static void test_similar_lines(void **state)
{
	static char text[262144], value[3][8][512];

	(void)state;
	for (int i = 0; i < LINES / 50; i++) {
		char *out = text;

		for (int line = 0; line < 50; line++) {
			char *end = put_similar(out, value);

			out += chance(20) ? (size_t)(end - out)
					  : break_line(out, (size_t)(end - out));
			*out++ = '\n';
		}
		/* Sometimes cut in the middle of a line. */
		check_text((const uint8_t *)text,
			   (size_t)(out - text) - (chance(2) ? chance(300) : 0));
	}
}

/* Parse a line of a name with three args. */
static void parse_call(struct pfw_entry *entry, const char *name, const char *mode, unsigned ret)
{
	static char line[256 + PFW_ENTRY_PADDING];
	const char *end;

	memset(line, 0, sizeof(line));
	end = line +
	      sprintf(line,
		      "{\"id\":1,\"name\":\"%s\",\"cat\":\"POSIX\",\"pid\":1,\"tid\":1,"
		      "\"ts\":1.000,\"ph\":\"i\",\"args\":{\"fd\":3,\"mode\":\"%s\",\"ret\":%u}}",
		      name, mode, ret);
	entry->numbered = true;
	assert_ptr_equal(pfw_entry_parse_next(entry, line, end), end);
	assert_true(entry->fast);
}

static void test_lines_of_one_form(void **state)
{
	struct pfw_entry entry, other;

	(void)state;
	for (unsigned ret = 0; ret < 100; ret++) /* learned at times only */
		parse_call(&entry, "same_form", "r", ret);
	assert_true(entry.named && entry.form);
	assert_int_equal(entry.varies, 1 << 2);
	parse_call(&other, "same_form", "r", 12345);
	assert_true(other.named == entry.named && other.form == entry.form);
	/* Another value where there was always one. */
	parse_call(&other, "same_form", "w", 1);
	assert_true(other.named == entry.named && other.form != entry.form);
	parse_call(&other, "other_name", "r", 1);
	assert_true(other.named != entry.named && other.form != entry.form);
}

static void test_last_of_two_args_counts(void **state)
{
	static const char line[] =
		"{\"id\":1,\"name\":\"a\",\"cat\":\"b\",\"pid\":1,\"tid\":1,\"ts\":1.000,\"ph\":"
		"\"i\",\"args\":{\"ret\":1,\"fd\":\"x\",\"ret\":{\"ret\":3},\"r\\u0065t2\":4}}";
	struct pfw_entry entry;
	struct pfw_value value;

	(void)state;
	pfw_entry_parse(&entry, line, sizeof(line) - 1);
	assert_true(entry.fast);
	assert_true(pfw_entry_arg(&entry, "ret", &value));
	assert_int_equal(value.type, PFW_VALUE_OBJECT);
	assert_int_equal(value.text.bytes, 9);
	assert_true(pfw_entry_arg(&entry, "fd", &value));
	assert_int_equal(value.text.bytes, 1);
	assert_true(pfw_entry_arg(&entry, "ret2", &value)); /* its key is escaped */
	assert_false(pfw_entry_arg(&entry, "re", &value));
	assert_false(pfw_entry_arg(&entry, "", &value));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_made_up_lines),
		cmocka_unit_test(test_broken_lines),
		cmocka_unit_test(test_similar_lines),
		cmocka_unit_test(test_lines_of_one_form),
		cmocka_unit_test(test_last_of_two_args_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
