/* test_expr.c - the language of --where: what is true of a line, what is wrong with an expression,
 * which blocks need not be read. */
#include "store/expr/expr.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char span[] =
	"{\"id\":12,\"name\":\"pread\",\"cat\":\"POSIX\",\"pid\":8978,\"tid\":8979,"
	"\"ts\":1795230878627639.123,\"dur\":1000.412,\"ph\":\"X\",\"args\":{\"fname\":"
	"\"/data/a\\u0062c \\\"q\\\".npz\",\"ret\":4096,\"errno\":\"EIO\",\"ok\":true,\"no\":false,"
	"\"nil\":null,\"deep\":{\"er\":{\"x\":7}},\"list\":[1],\"tenth\":0.1000,\"exp\":1e-1,"
	"\"big\":18446744073709551615,\"fine\":0.00001,\"odd key\":\"\\u00e9\",\"step\":3,"
	"\"huge\":1e999,\"neg\":-5}}";
static const char instant[] = "{\"id\":13,\"name\":\"mark\",\"cat\":\"app\",\"pid\":1,\"tid\":2,"
			      "\"ts\":5.000,\"ph\":\"i\",\"args\":{}}";

static bool is_true(const char *text, const char *line, int64_t rank)
{
	char why[1024] = "";
	struct pfw_expr *expr = NULL;
	struct pfw_expr_state *state;
	struct pfw_entry entry;
	bool result;

	if (pfw_expr_compile(&expr, text, why, sizeof(why)))
		fail_msg("%s\n%s", text, why);
	state = pfw_expr_state_create(expr, NULL);
	assert_non_null(state);
	pfw_entry_parse(&entry, line, strlen(line));
	assert_int_equal(entry.kind, PFW_ENTRY_EVENT);
	result = pfw_expr_test(state, &entry, rank);
	/* Nothing is left over from the line before. */
	assert_true(pfw_expr_test(state, &entry, rank) == result);
	pfw_expr_state_free(state);
	pfw_expr_free(expr);
	return result;
}

/* Each is true of the span, of rank 4. */
static const char *const truths[] = {
	"name==\"pread\"",
	"name == 'pread' && cat=='POSIX'",
	"ts == 1795230878627639.123",
	"ts > 1795230878627639.122 && ts < 1795230878627639.124",
	"dur == 1000.412 && dur == 1000412ns && dur > 1ms && dur < 1.001ms",
	"1000.412 == dur",
	"ts + dur == 1795230878628639.535",
	"id==12 && pid==8978 && tid-pid==1 && rank==4 && step==3 && ph=='X'",
	"args.ret >= 4KiB && args.ret <= 4.096kB && args.ret != 4MiB",
	"args.fname == \"/data/abc \\\"q\\\".npz\"",
	"args.fname =~ \"\\.npz$\" && args.fname !~ \"\\.npy$\"",
	"name =~ '(?i)^PRE\\w+$' && name !~ '\\d' && args.fname =~ '(?i)^[/\\w]+\\s\"Q\"\\.'",
	"args.fname =~ '^/data/abc' && args.fname =~ 'c \"q\".npz$'",
	"args.fname =~ '^(/[[:alpha:]]+)+/[]a{}]*b+c{1,900} (.|[^+]){1,20}$'",
	"args.fname =~ \"a(b|x)c\" && args.fname !~ \"a[^b]c\"",
	"name =~ 'a++++++++++++++++++++++++' && name !~ '^:*+++++0*$'",
	"args.fname > '/data' && args.fname < '/datb'",
	"args.\"odd key\" == \"\\u00e9\" && args.'odd key' == '\xc3\xa9'",
	"args.deep.er.x == 7 && args.deep.er != 7 && args.deep != args.deep",
	"args.none == null && args.nil == null && args.deep.none.x == null && args.ret.x == null",
	"has(args.errno) && !has(args.none) && !has(args.nil) && has(dur) && has(args.deep)",
	"args.ok && !args.no && !(args.errno) && !args.none && args.ok == true",
	"args.none != 5 && !(args.none < 5) && !(args.none >= 5) && !(args.errno < 5)",
	"args.none !~ 'x' && args.ret !~ '4096'",
	"args.tenth == 0.1 && args.tenth == args.exp && args.tenth*3 == 0.3",
	"args.big == 18446744073709551615 && args.big - 1 < args.big && args.big + 1 > args.big",
	"args.fine == 1e-5 && args.fine*1e5 > 0.99 && args.fine > 0 && args.fine < 0.001",
	"args.huge > 1e300 && args.huge == args.huge && args.neg == -5 && -args.neg == 5",
	"args.neg*2 - 1 == -(11) && 7/2 == 3.5 && 1/0 == null && args.none+1 == null",
	"1/3 < 0.334 && 1/3 > 0.333 && 2*(3+4)-6/4 == 12.5",
	"name in ('read', 'pread') && pid in (1, 8978) && !(rank in (0,-1)) && step in (null,3)",
	"args.list != 1 && has(args.list) && (args.ok || args.no) == true",
	"true",
	"args.errno != 5ns && (true || false)",
	"!(false)&&!!true",
	"name=='pread'&&dur>1000||ts<0",
	"ts<0||dur>1000&&name=='pread'",
};

static void what_is_true(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(truths) / sizeof(truths[0]); i++) {
		char text[512];

		if (!is_true(truths[i], span, 4))
			fail_msg("not true: %s", truths[i]);
		snprintf(text, sizeof(text), "!(%s)", truths[i]);
		if (is_true(text, span, 4))
			fail_msg("true: %s", text);
	}
}

static void what_a_line_does_not_have_is_null(void **state)
{
	(void)state;
	assert_true(is_true("dur == null && rank == null && step == null", instant, -1));
	assert_true(is_true("dur != 5 && !(dur > 0) && !(dur <= 0) && !has(dur)", instant, -1));
	assert_true(is_true("rank == 0", instant, 0));
	assert_true(is_true("ph == 'i' && args.x !~ 'x'", instant, -1));
	assert_true(is_true("has(ts) && !has(name)", "{\"ts\":5,\"name\":7}", -1));
	assert_true(is_true("tid == null && pid == 7", "{\"pid\":7,\"tid\":\"x\"}", -1));
}

static const struct {
	const char *text;
	unsigned column;
	const char *why;
} wrongs[] = {
	{ "", 1, "empty" },
	{ "   ", 4, "empty" },
	{ "dur >", 6, "missing" },
	{ "dur > \"x\"", 5, "a number is never compared with a text" },
	{ "name == 5", 6, "a text is never compared with a number" },
	{ "dur", 1, "a condition is expected here, and this is a number" },
	{ "name && true", 1, "this is a text" },
	{ "true && 5", 9, "this is a number" },
	{ "!dur > 5", 2, "a condition" },
	{ "dura > 5", 1, "no field dura" },
	{ "dur = 5", 5, "`=` is no operator" },
	{ "dur == 5 & true", 10, "&& or ||" },
	{ "dur == 5 true", 10, "an operator is expected" },
	{ "(dur == 5", 10, "a ) is expected here, for the ( at column 1" },
	{ "1 < dur < 5", 9, "do not chain" },
	{ "name =~ 'a(b'", 9, "nmatched (" },
	{ "name =~ name", 9, "a \"pattern\"" },
	{ "dur =~ 'x'", 1, "a text is expected" },
	{ "name =~ '(a)\\1'", 9, "references back" },
	{ "name =~ '(a{200}){200}'", 9, "repetitions" },
	{ "name =~ '.{4000}'", 9, "repetitions" },
	{ "name =~ '*a'", 9, "nothing before * + ? or {" },
	{ "name == 'x", 9, "no ' ends" },
	{ "name == 'x\\q'", 11, "unknown escape \\q" },
	{ "name == '\\ud800'", 10, "\\uXXXX" },
	{ "pid in (1, dur)", 12, "constants only" },
	{ "pid in 1", 8, "a ( is expected" },
	{ "has(5)", 5, "a field is expected" },
	{ "args == 1", 5, "which of args" },
	{ "args. == 1", 6, "a key" },
	{ "dur > 5 parsecs", 9, "an operator" },
	{ "dur > 5parsecs", 7, "no number" },
	{ "dur > 1.2.3", 7, "no number" },
	{ "name + 1 == 2", 1, "a number is expected" },
	{ "name == '\xc3\xa9' $", 13, "an operator" },
};

static void what_is_wrong(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
		struct pfw_expr *expr = NULL;
		char why[1024] = "", place[32], *last;

		if (pfw_expr_compile(&expr, wrongs[i].text, why, sizeof(why)) != -EINVAL)
			fail_msg("nothing wrong: %s", wrongs[i].text);
		snprintf(place, sizeof(place), "column %u: ", wrongs[i].column);
		if (strncmp(why, place, strlen(place)) != 0 || !strstr(why, wrongs[i].why))
			fail_msg("%s: %s", wrongs[i].text, why);
		/* The caret stands under the column. */
		last = strrchr(why, '\n');
		assert_non_null(last);
		assert_int_equal(strlen(last + 1), wrongs[i].column + 2);
		assert_int_equal(last[strlen(last) - 1], '^');
	}
}

static void long_texts_show_the_place_only(void **state)
{
	struct pfw_expr *expr = NULL;
	char text[1200], why[1024] = "";

	(void)state;
	memset(text, ' ', sizeof(text));
	memcpy(text, "true &&", 7);
	memcpy(text + 1000, "false $ true", 13);
	assert_int_equal(pfw_expr_compile(&expr, text, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "column 1007: "));
	assert_non_null(strstr(why, "false $ true\n"));
	assert_true(strlen(why) < 300);
}

/* `count` times `part`, between two others. */
static char *repeated(const char *before, const char *part, size_t count, const char *behind)
{
	char *text = calloc(1, strlen(before) + count * strlen(part) + strlen(behind) + 1);

	assert_non_null(text);
	strcat(text, before);
	for (size_t i = 0, used = strlen(text); i < count; i++, used += strlen(part))
		strcpy(text + used, part);
	strcat(text, behind);
	return text;
}

static void depth_and_size_are_bounded(void **state)
{
	static const struct {
		const char *before, *part;
		size_t count;
		const char *behind, *why;
	} cases[] = {
		{ "", "(", 60000, "", "too deeply" },
		{ "", "!", 60000, "true", "too deeply" },
		{ "", "-", 60000, "1", "too deeply" },
		{ "true", "||true", 8000, "", "too long" },
		{ "1", "+dur", 8000, "==1", "too long" },
		{ "", " ", 70000, "", "65536 bytes" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text =
			repeated(cases[i].before, cases[i].part, cases[i].count, cases[i].behind);
		struct pfw_expr *expr = NULL;
		char why[1024] = "";

		assert_int_equal(pfw_expr_compile(&expr, text, why, sizeof(why)), -EINVAL);
		if (!strstr(why, cases[i].why))
			fail_msg("%s: %s", cases[i].part, why);
		free(text);
	}
}

static bool may(const char *text, int64_t rank, int64_t least_us, int64_t greatest_us)
{
	struct pfw_expr_facts facts = { .rank = rank,
					.times = true,
					.least_ns = least_us * 1000,
					.greatest_ns = greatest_us * 1000 };
	struct pfw_expr *expr = NULL;
	char why[1024] = "";
	bool result;

	if (pfw_expr_compile(&expr, text, why, sizeof(why)))
		fail_msg("%s\n%s", text, why);
	result = pfw_expr_may(expr, &facts);
	pfw_expr_free(expr);
	return result;
}

static void blocks_that_need_not_be_read(void **state)
{
	(void)state;
	assert_true(may("ts < 101", 0, 100, 200));
	assert_false(may("ts < 100", 0, 100, 200));
	assert_true(may("ts >= 200", 0, 100, 200));
	assert_false(may("ts > 200", 0, 100, 200));
	assert_false(may("ts == 99", 0, 100, 200));
	assert_true(may("ts != 99", 0, 100, 200));
	assert_true(may("!(ts == 150)", 0, 100, 200));
	assert_true(may("dur >= 100", 0, 100, 200));
	assert_false(may("dur > 100", 0, 100, 200));
	assert_true(may("dur < 1", 0, 100, 200));
	assert_false(may("dur > 100 && name=='x'", 0, 100, 200));
	assert_true(may("dur > 100 || name=='x'", 0, 100, 200));
	assert_false(may("rank == 3", 0, 100, 200));
	assert_true(may("rank == 3", 3, 100, 200));
	assert_true(may("rank == null", -1, 100, 200));
	assert_false(may("rank in (1,2)", 3, 100, 200));
	assert_true(may("rank in (1,3)", 3, 100, 200));
	assert_false(may("false", 3, 100, 200));
	assert_false(may("ts > 0", 0, 1, 0)); /* no line has a time */
	assert_true(may("has(args.x)", 0, 1, 0));
}

/* Whether it may be true of a line of that name and category, of that file, of that thread. */
static bool may_of(const char *text, const char *cat, const char *name, const char *fname,
		   uint64_t pid)
{
	struct pfw_expr_facts facts = { .rank = -1,
					.cat = { .at = cat, .bytes = strlen(cat) },
					.name = { .at = name, .bytes = strlen(name) },
					.fname = { .at = fname,
						   .bytes = fname ? strlen(fname) : 0 },
					.no_fname = !fname,
					.ph = 'X',
					.thread = pid != 0,
					.pid = pid,
					.tid = pid };
	struct pfw_expr *expr = NULL;
	char why[1024] = "";
	bool result;

	if (pfw_expr_compile(&expr, text, why, sizeof(why)))
		fail_msg("%s\n%s", text, why);
	result = pfw_expr_may(expr, &facts);
	pfw_expr_free(expr);
	return result;
}

static void what_an_index_rules_out(void **state)
{
	static const struct {
		const char *text;
		bool read, write; /* of POSIX and process 7 on /a, of STDIO and process 8 on none */
	} cases[] = {
		{ "name == 'read'", true, false },
		{ "'read' == name", true, false },
		{ "name != 'read'", false, true },
		{ "!(name == 'read')", false, true },
		{ "name in ('x', 'write')", false, true },
		{ "name =~ '^r' || cat =~ 'IO$'", true, true },
		{ "name =~ '^r' && cat =~ '^S'", false, false },
		{ "name !~ '^r'", false, true },
		{ "name == 'read' && dur > 5", true, false },
		{ "!(name == 'read' || dur > 5)", false, true },
		{ "pid == 8 && tid == 8", false, true },
		{ "ph == 'M'", false, false },
		{ "args.fname == '/a'", true, false },
		{ "has(args.fname)", true, false },
		{ "!has(args.fname) && ts > 5", false, true },
		{ "args.fname.x == null", true, true },
		{ "args.x == 5 && args.fname < '/b'", true, false },
		{ "args.ok", true, true },
		{ "has(rank)", false, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (may_of(cases[i].text, "POSIX", "read", "/a", 7) != cases[i].read ||
		    may_of(cases[i].text, "STDIO", "write", NULL, 8) != cases[i].write)
			fail_msg("%s", cases[i].text);
	}
	/* An empty text and a 0 may stand for null: nothing is ruled out. */
	assert_true(may_of("name == null && cat == null && args.fname != 'x'", "", "", "", 0));
	assert_true(may_of("pid == 0 || pid == null", "", "", "", 0));
}

static void shortest_durations(void **state)
{
	static const struct {
		const char *text;
		int64_t ns;
	} cases[] = {
		{ "dur > 5", 5000 },
		{ "dur >= 5 && dur > 7", 7000 },
		{ "dur == 5 && name == 'x'", 5000 },
		{ "dur > 5 || dur > 7", 5000 },
		{ "dur > 5 || name == 'x'", 0 },
		{ "dur < 5", 0 },
		{ "!(dur > 5)", 0 },
		{ "ts > 5", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pfw_expr *expr = NULL;
		char why[1024] = "";

		assert_int_equal(pfw_expr_compile(&expr, cases[i].text, why, sizeof(why)), 0);
		if (pfw_expr_least_dur(expr) != cases[i].ns)
			fail_msg("%s: %lld", cases[i].text, (long long)pfw_expr_least_dur(expr));
		pfw_expr_free(expr);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_true),
		cmocka_unit_test(what_a_line_does_not_have_is_null),
		cmocka_unit_test(what_is_wrong),
		cmocka_unit_test(long_texts_show_the_place_only),
		cmocka_unit_test(depth_and_size_are_bounded),
		cmocka_unit_test(blocks_that_need_not_be_read),
		cmocka_unit_test(what_an_index_rules_out),
		cmocka_unit_test(shortest_durations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
