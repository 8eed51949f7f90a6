/* test_pickle.c - pickles by hand: what each opcode makes, and that none runs anything. */
#include "memory/pickle.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BYTES(text) text, sizeof(text) - 1

static int parse(struct pfw_pickle *pickle, const char *bytes, size_t count)
{
	char *copy =
		malloc(count + 1); /* exactly as long, so that a sanitizer sees what is behind */

	assert_non_null(copy);
	memcpy(copy, bytes, count);
	copy = realloc(copy, count ? count : 1);
	return pfw_pickle_parse(pickle, copy, count);
}

/* What the pickle is: that number. */
static void check_whole(const char *bytes, size_t count, int64_t wanted)
{
	struct pfw_pickle pickle;

	assert_int_equal(parse(&pickle, bytes, count), 0);
	assert_int_equal(pickle.root.kind, PFW_PICKLE_WHOLE);
	assert_true(pickle.root.whole == wanted);
	pfw_pickle_release(&pickle);
}

static void check_bad(const char *bytes, size_t count, const char *why)
{
	struct pfw_pickle pickle;

	assert_int_equal(parse(&pickle, bytes, count), -EINVAL);
	if (!strstr(pickle.why, why))
		fail_msg("%s, not %s", pickle.why, why);
	pfw_pickle_release(&pickle);
}

static void test_numbers(void **state)
{
	(void)state;
	check_whole(BYTES("\x80\x02K\xff."), 255);
	check_whole(BYTES("\x80\x02M\x01\x02."), 0x201);
	check_whole(BYTES("\x80\x02J\xfe\xff\xff\xff."), -2);
	check_whole(BYTES("\x80\x02\x8a\x00."), 0);
	check_whole(BYTES("\x80\x02\x8a\x05\x01\x02\x03\x04\x05."), 0x504030201);
	check_whole(BYTES("\x80\x02\x8a\x01\xff."), -1);
	/* An address above 2^63 takes nine bytes. */
	check_whole(BYTES("\x80\x02\x8a\x09\x01\x00\x00\x00\x00\x00\x00\x80\x00."), INT64_MIN + 1);
	check_whole(BYTES("\x80\x02\x88."), 1);
}

static void test_dict(void **state)
{
	struct pfw_pickle pickle;
	const struct pfw_pickle_value *list;

	(void)state;
	/* {"a": [1, (2, 3), 1.5], "b": "a"}: the second "a" out of the memo. */
	assert_int_equal(parse(&pickle,
			       BYTES("\x80\x04}(\x8c\x01"
				     "a\x94](K\x01K\x02K\x03\x86G\x3f\xf8\x00\x00\x00\x00\x00\x00"
				     "eX\x01\x00\x00\x00"
				     "bh\x00u.")),
			 0);
	assert_true(pfw_pickle_text_is(pfw_pickle_get(&pickle.root, "b"), "a"));
	list = pfw_pickle_get(&pickle.root, "a");
	assert_int_equal(list->kind, PFW_PICKLE_LIST);
	assert_int_equal(list->items->count, 3);
	assert_int_equal(list->items->item[1].items->item[1].whole, 3);
	assert_true(list->items->item[2].number == 1.5);
	assert_null(pfw_pickle_get(&pickle.root, "c"));
	assert_null(pfw_pickle_get(list, "a"));
	pfw_pickle_release(&pickle);
}

static void test_nothing_is_run(void **state)
{
	(void)state;
	check_bad(BYTES("\x80\x02"
			"cos\nsystem\n(X\x02\x00\x00\x00lstR."),
		  "Python's os");
	check_bad(BYTES("\x80\x04\x8c\x02os\x8c\x06system\x93."), "a Python object");
	check_bad(BYTES("\x80\x02}b."), "a Python object");
	check_bad(BYTES("\x80\x02I1\n."), "opcode 0x49");
	check_bad(BYTES("\x80\x06N."), "protocol 6");
}

/* What takes more than there is, and what ends too early. */
static void test_what_is_missing(void **state)
{
	static const struct {
		const char *text;
		size_t bytes;
	} bad[] = {
		{ BYTES("") },
		{ BYTES("N") },
		{ BYTES(".") },
		{ BYTES("(.") },
		{ BYTES("u.") },
		{ BYTES("s.") },
		{ BYTES("a.") },
		{ BYTES("e.") },
		{ BYTES("t.") },
		{ BYTES("0.") },
		{ BYTES("1.") },
		{ BYTES("2.") },
		{ BYTES("\x86.") },
		{ BYTES("}K\x01s.") },
		{ BYTES("}(a.") },
		{ BYTES("}(K\x01u.") },
		{ BYTES("](K\x01u.") },
		{ BYTES("]K\x01K\x02s.") },
		{ BYTES("K\x01K\x02"
			"a.") },
		{ BYTES("K\x01(K\x02\x86.") },
		{ BYTES("h\x00.") },
		{ BYTES("q\x00.") },
		{ BYTES("Nr\xff\xff\xff\x7f.") },
		{ BYTES("J\x01\x02\x03") },
		{ BYTES("\x8a\x05\x01.") },
		{ BYTES("X\x09\x00\x00\x00"
			"abc.") },
		{ BYTES("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
			"abc.") },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check_bad(bad[i].text, bad[i].bytes, "byte ");
}

static void test_holds_itself(void **state)
{
	struct pfw_pickle pickle;

	(void)state;
	assert_int_equal(parse(&pickle, BYTES("\x80\x04]\x94h\x00"
					      "a.")),
			 0);
	assert_ptr_equal(pickle.root.items->item[0].items, pickle.root.items);
	pfw_pickle_release(&pickle);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),	       cmocka_unit_test(test_dict),
		cmocka_unit_test(test_nothing_is_run), cmocka_unit_test(test_what_is_missing),
		cmocka_unit_test(test_holds_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
