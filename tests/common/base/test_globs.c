/* test_globs.c - what a glob matches. */
#include "common/base/globs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fnmatch.h>

static bool match(const char *glob, const char *text)
{
	return pfw_glob_match(glob, strlen(glob), text, strlen(text));
}

static void text_and_wildcards(void **state)
{
	(void)state;
	assert_true(match("", ""));
	assert_false(match("", "a"));
	assert_true(match("*", ""));
	assert_true(match("a*b*c", "aXbbYbc"));
	assert_false(match("a*b*c", "aXbYcd"));
	assert_true(match("?at", "cat"));
	assert_false(match("?at", "at"));
	assert_true(match("\\*", "*"));
	assert_false(match("\\*", "x"));
	assert_true(match("a\\", "a\\"));
	assert_true(match("[a-c]x", "bx"));
	assert_false(match("[a-c]x", "dx"));
	assert_true(match("[!a-c]x", "dx"));
	assert_true(match("[]]", "]"));
	assert_true(match("[a-]", "-"));
	assert_true(match("[a", "[a"));
	assert_false(match("[a", "a"));
}

static void lists_of_names(void **state)
{
	(void)state;
	assert_true(pfw_glob_list("read,write", ',', "write"));
	assert_true(pfw_glob_list("read,p*", ',', "pread"));
	assert_false(pfw_glob_list("read,write", ',', "readv"));
	assert_false(pfw_glob_list("", ',', "read"));
}

static bool path(const char *list, const char *name)
{
	return pfw_glob_path(list, name, strlen(name));
}

static void numbers_of_globs(void **state)
{
	char list[256] = "x";

	(void)state;
	assert_int_equal(pfw_glob_names("read,p*,,*d", ',', "pread"), 0xa);
	assert_int_equal(pfw_glob_names("read", ',', "pread"), 0);
	assert_int_equal(pfw_glob_path("a:/a/b:c:*.d:", "/a/b/x.d", 8), 0xb);
	for (unsigned i = 1; i < 70; i++)
		strcat(list, i == 63 ? ":y" : i == 68 ? ":z" : ":x");
	assert_true(pfw_glob_path(list, "/y", 2) == 1ull << 63);
	assert_true(pfw_glob_path(list, "/z", 2) == 1ull << 63);
	assert_true(pfw_glob_path(list, "/x", 2) == ~0ull);
}

static void paths_and_what_is_below(void **state)
{
	(void)state;
	assert_true(path("/a/b", "/a/b"));
	assert_true(path("/a/b", "/a/b/c/d"));
	assert_false(path("/a/b", "/a/bc"));
	assert_false(path("/a/b", "/x/a/b"));
	assert_true(path("/a/*/c", "/a/x/y/c"));
	assert_true(path("b", "/a/b/c"));
	assert_false(path("b", "/a/bc"));
	assert_true(path("a/b", "/x/a/b/c"));
	assert_false(path("a/b", "/xa/b"));
	assert_true(path("x:*.tmp", "/a/y.tmp"));
	assert_false(path("a*z", "/abc/xyz")); /* one component */
	assert_true(path("a*/z", "/abc/xyz/z"));
	assert_false(path("", "/a"));
	assert_false(path(":", "/a"));
	assert_false(path("/", "/a"));
	assert_true(path("/a/", "/a/x"));
	assert_true(path("b/", "/a/b"));
	assert_false(path("*", "/"));
	assert_false(path("*", ""));
}

/* The same answers as libc's, over all short globs and texts of a few letters. */
static void as_libc_says(void **state)
{
	static const char letters[] = "ab*?", texts[] = "ab";
	char glob[6], text[6];

	(void)state;
	for (unsigned g = 0; g < 4 * 4 * 4 * 4 * 4; g++) {
		for (unsigned i = 0, rest = g; i < 5; i++, rest /= 4)
			glob[i] = letters[rest % 4];
		for (unsigned bytes = 0; bytes <= 5; bytes++) {
			glob[5] = glob[bytes] = '\0';
			for (unsigned t = 0; t < 32; t++) {
				for (unsigned i = 0; i < 5; i++)
					text[i] = texts[t >> i & 1];
				text[g % 6] = '\0';
				if (match(glob, text) != !fnmatch(glob, text, 0))
					fail_msg("%s and %s", glob, text);
			}
		}
	}
}

/* Time is bounded: a backtracking matcher would need 2^n steps. */
static void many_stars(void **state)
{
	static char glob[2001], text[4097];

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		memcpy(glob + 2 * i, "*a", 2);
	memset(text, 'a', 4096);
	text[4095] = 'b';
	assert_false(match(glob, text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_and_wildcards), cmocka_unit_test(lists_of_names),
		cmocka_unit_test(numbers_of_globs),   cmocka_unit_test(paths_and_what_is_below),
		cmocka_unit_test(as_libc_says),	      cmocka_unit_test(many_stars),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
