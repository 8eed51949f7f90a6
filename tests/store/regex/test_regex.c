/* test_regex.c - the regular expressions of --where: what is found, what is refused, that it is what libc
 * says, and that no pattern takes long. */
#include "store/regex/regex.h"

#include <errno.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void make(struct pfw_regex *regex, const char *pattern)
{
	char why[128] = "";

	if (pfw_regex_init(regex, pattern, strlen(pattern), why, sizeof(why)))
		fail_msg("%s: %s", pattern, why);
}

static bool found(const char *pattern, const char *text)
{
	struct pfw_regex regex;
	bool result;

	make(&regex, pattern);
	result = pfw_regex_find(&regex, text, strlen(text));
	/* What was learned from a text changes nothing. */
	assert_true(pfw_regex_find(&regex, text, strlen(text)) == result);
	pfw_regex_release(&regex);
	return result;
}

/* Patterns with texts that they are found in, and texts that they are not. */
static const struct {
	const char *pattern, *yes[4], *no[4];
} cases[] = {
	{ "", { "", "a" }, { NULL } },
	{ "ab", { "ab", "xaby" }, { "", "a", "ba" } },
	{ "^ab", { "abc" }, { "xab" } },
	{ "ab$", { "xab" }, { "abx" } },
	{ "^ab$", { "ab" }, { "abab", "" } },
	{ "^$", { "" }, { "a", "\n" } },
	{ "a.c",
	  { "abc", "a\nc",
	    "a\xff"
	    "c" },
	  { "ac" } },
	{ "a\\.c\\$\\/", { "a.c$/" }, { "abc$/" } },
	{ "ab*c", { "ac", "abbbc" }, { "adc" } },
	{ "ab+c", { "abc", "abbbc" }, { "ac" } },
	{ "ab?c", { "abc", "ac" }, { "abbc" } },
	{ "^(ab){2}$", { "abab" }, { "ab", "ababab" } },
	{ "^(ab){2,}$", { "abab", "abababab" }, { "ab", "" } },
	{ "^(ab){,2}$", { "", "ab", "abab" }, { "ababab" } },
	{ "^(ab){1,3}$", { "ab", "abab", "ababab" }, { "", "abababab" } },
	{ "^a{,}b{0}c{0,0}$", { "", "aaa" }, { "b", "c" } },
	{ "^(a{2}){2}b{3}{2}$", { "aaaabbbbbb" }, { "aaaabbbbb", "aaabbbbbb" } },
	{ "^(a|bc|)d$", { "ad", "bcd", "d" }, { "abcd", "cd" } },
	{ "^(|a)(b||c)(d|)$", { "", "abd", "cd" }, { "da", "bc" } },
	{ "^a|b$|c", { "ax", "xb", "xcx" }, { "xax", "bx", "" } },
	{ "(^|/)x($|/)", { "x", "/x", "a/x/b" }, { "ax", "xb" } },
	{ "a^b|c$d|e(^)f|g($)h", { NULL }, { "a^b", "ab", "c$d", "ef" } },
	{ "(^a)*b(c$)?", { "b", "ab", "xbc" }, { "a" } },
	{ "()*(){3}a", { "a" }, { "b" } },
	{ "^((a*)*)*$", { "", "aaa" }, { "b" } },
	{ "^((a*)+b?|c){2,4}$", { "", "aabca" }, { "d" } },
	{ "^[abc]+$", { "cab" }, { "d", "" } },
	{ "^[^abc]+$", { "d\n" }, { "da" } },
	{ "^[]a]+$", { "]a" }, { "b" } },
	{ "^[^]a]+$", { "b[" }, { "]", "a" } },
	{ "^[a-c-]+$", { "a-c" }, { "d" } },
	{ "^[-a]+$", { "-a" }, { "b" } },
	{ "^[%--]+$", { "%+-" }, { "$", "." } },
	{ "^[a^$.*\\]+$", { "a^$.*\\" }, { "b" } },
	{ "^[[:alpha:]_[:digit:]-]+$", { "aZ_09-" }, { " ", "\xe9" } },
	{ "^[[:upper:][:blank:]]+$", { "A\tB " }, { "a", "\n" } },
	{ "^[[:xdigit:][:punct:]]+$", { "fF09.!" }, { "g", " " } },
	{ "^[[:space:][:lower:]]+$", { "a\n\v\f\r" }, { "A" } },
	{ "^[[:graph:]]+$", { "a!~" }, { " ", "\x7f" } },
	{ "^[[:print:]]+$", { "a ~" }, { "\n", "\x80" } },
	{ "^[[:cntrl:]]+$", { "\x01\x7f" }, { " " } },
	{ "^[[:alnum:]]+$", { "aZ9" }, { "_" } },
	{ "^[[.-.][=a=][.].]]+$", { "-a]" }, { "b", "=" } },
	{ "^[[.a.]-c[.+.]-[.-.]]+$", { "abc+,-" }, { "*", "d" } },
	{ "^[[a]+$", { "[a" }, { "b" } },
	{ "^\\w+$", { "aZ_9" }, { "-", "\xe9" } },
	{ "^\\W+$", { " -\xe9" }, { "a", "_" } },
	{ "^\\s+\\S$", { " \t\nx" }, { "x", "  " } },
	{ "^\\d+\\D$", { "09x", "1\xe9" }, { "d", "12", "/x" } },
	{ "^[\\d.]+$", { "1.5" }, { "d", "\\", "1e" } },
	{ "^[^\\d\\s]+$", { "ad\\s" }, { "a1", "a b" } },
	{ "^[\\w-]+$", { "a-_9" }, { "w ", "\\" } },
	{ "^[\\D]+$", { "ab\xff" }, { "1" } },
	{ "^[\\W\\S]$", { "a", " " }, { "" } },
	{ "^[\\.]+$", { "\\." }, { "a" } },
	{ "^[\\\\d]+$", { "\\d" }, { "1" } },
	{ "^[\\\\\\d]+$", { "\\1" }, { "d" } },
	{ "^[\\]+$", { "\\" }, { "]", "d" } },
	{ "(?i)read\\d+", { "read1", "pREAD64", "Read2" }, { "read", "1read" } },
	{ "(?i)^[a-c]+[^X]$", { "aBCd", "ABCY" }, { "abx", "ABX", "ad\xe9" } },
	{ "(?i)^[[:upper:]]\\S[\\D]$", { "abc", "A-C" }, { "ab1", "1bc" } },
	{ "(?i)", { "", "a" }, { NULL } },
	{ "(?i)@[`k]", { "@`", "@K", "@k" }, { "``", "@@", "@{" } },
	{ "(?i)(ab|c{2})$", { "AB", "xcC" }, { "ac", "c" } },
	{ "\\bab\\b", { "ab", "x ab.", "-ab\xff" }, { "xab", "ab_", "ab9" } },
	{ "\\Bb\\B", { "abc" }, { "b", "ab", "bc" } },
	{ "\\<a", { "a", " a" }, { "ba" } },
	{ "a\\>", { "a", "a " }, { "ab" } },
	{ "^\\B$", { "" }, { "a" } },
	{ "\\b", { "a" }, { "", " -" } },
	{ "x\\>.*\\<y", { "x y", "x-zzy y" }, { "xy", "x zy" } },
	{ "\\`a\\'", { "a" }, { "ab", "ba" } },
	{ "a)b}c", { "a)b}c" }, { "abc" } },
	{ "\\{\\(\\|\\*\\n", { "{(|*n" }, { "\n" } },
	{ "(ab|cd+)*e{2,3}$", { "abcdddee", "eeee" }, { "abe", "eex" } },
	{ "[0-9]+\\.npz$", { "/data/12.npz" }, { "/data/a.npz", "1.npz2" } },
	{ "(pre|p)ad|write", { "pread", "xpadx", "pwrite" }, { "read", "wrte" } },
};

static void what_is_found(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (size_t j = 0; j < 4; j++) {
			if (cases[i].yes[j] && !found(cases[i].pattern, cases[i].yes[j]))
				fail_msg("%s not in: %s", cases[i].pattern, cases[i].yes[j]);
			if (cases[i].no[j] && found(cases[i].pattern, cases[i].no[j]))
				fail_msg("%s in: %s", cases[i].pattern, cases[i].no[j]);
		}
	}
}

static void a_nul_is_a_byte(void **state)
{
	struct pfw_regex regex;

	(void)state;
	make(&regex, "^a.b[^c]$");
	assert_true(pfw_regex_find(&regex, "a\0b\0", 4));
	assert_false(pfw_regex_find(&regex, "a\0bc", 4));
	assert_false(pfw_regex_find(&regex, "a\0b\0\0", 5));
	pfw_regex_release(&regex);
}

static const char *refusal(const char *pattern, size_t bytes)
{
	static char why[128];
	struct pfw_regex regex;

	why[0] = '\0';
	if (pfw_regex_init(&regex, pattern, bytes, why, sizeof(why)) == 0) {
		pfw_regex_release(&regex);
		return "";
	}
	assert_true(why[0] && !strchr(why, '\n'));
	return why;
}

static void what_is_refused(void **state)
{
	static const char *const wrongs[][2] = {
		{ "(a", "unmatched (" },
		{ "a(b|(c)", "unmatched (" },
		{ "[a", "unmatched [" },
		{ "[]", "unmatched [" },
		{ "[", "unmatched [" },
		{ "[^", "unmatched [" },
		{ "[a-", "unmatched [" },
		{ "[[:alpha:", "unmatched [:" },
		{ "[[.a]", "unmatched [:" },
		{ "[[:]", "unmatched [:" },
		{ "[[:letter:]]", "no such class" },
		{ "[[..]]", "no such character" },
		{ "[[=ab=]]", "no such character" },
		{ "[b-a]", "ends before" },
		{ "[a-[:alpha:]]", "ends before" },
		{ "[a-b-c]", "no begin" },
		{ "[[:alpha:]-z]", "no begin" },
		{ "a{", "unmatched {" },
		{ "a{1", "unmatched {" },
		{ "a{1,", "unmatched {" },
		{ "a{x}", "number of repetitions" },
		{ "a{}", "number of repetitions" },
		{ "a{2,1}", "number of repetitions" },
		{ "a{1,2,3}", "number of repetitions" },
		{ "*a", "nothing before" },
		{ "a|+", "nothing before" },
		{ "(?)", "nothing before" },
		{ "a(?i)", "nothing before" },
		{ "(?i)(?i)a", "nothing before" },
		{ "(?i)*", "nothing before" },
		{ "[a-\\d]", "ends before" },
		{ "[\\d-z]", "no begin" },
		{ "[\\d", "unmatched [" },
		{ "{1}", "nothing before" },
		{ "^*", "nothing before" },
		{ "a\\b{2}", "nothing before" },
		{ "a\\", "backslash" },
		{ "(a)\\1", "references back" },
		{ "(x{0,500}){0,500}", "too large" },
		{ "((a{100}){100}){100}", "too large" },
		{ "a{32768}", "too large" },
		{ "(){99999999999999999999}", "too large" },
		{ ".{4000}", "too large" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
		const char *why = refusal(wrongs[i][0], strlen(wrongs[i][0]));

		if (!strstr(why, wrongs[i][1]))
			fail_msg("%s: %s", wrongs[i][0], why);
	}
	assert_string_equal(refusal(".{3999}", 7), "");
}

/* `first`, then the same byte up to `bytes`. */
static char *filled(const char *first, char byte, size_t bytes)
{
	char *text = malloc(bytes + 1);

	assert_non_null(text);
	memset(text, byte, bytes);
	memcpy(text, first, strlen(first));
	text[bytes] = '\0';
	return text;
}

static void sizes_are_bounded(void **state)
{
	static const char fills[] = "(|*+?)a";

	(void)state;
	for (const char *fill = fills; *fill; fill++) {
		char *pattern = filled("a", *fill, 1025);

		assert_non_null(strstr(refusal(pattern, 1025), "1024 bytes"));
		assert_string_equal(refusal(pattern, 1024), *fill == '(' ? "unmatched (" : "");
		free(pattern);
	}
}

/* Each took libc's regcomp from seconds to more than anyone waits for. */
static void no_pattern_takes_long(void **state)
{
	static const struct {
		const char *pattern;
		bool aaab; /* is it in that */
	} slow[] = {
		{ "^:*+++++0*", true },
		{ "^:*+++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++0*$",
		  false },
		{ "(a\x9f"
		  "0}\xff\xff)**\x05\xaa*na\"*$:*++++++++++\x9b+0*\x1e",
		  false },
		{ "((a*)*)*", true },
		{ "(((((((((a*)+)+)+)+)+)+)+)+)+c", false },
		{ "((((((((((((a*){1,}){1,}){1,}){1,}){1,}){1,}){1,}){1,}){1,}){1,}){1,})$", true },
		{ "(a|aa)+$", false },
		{ "(a|a|a|a)*(a*a*a*)*$", true },
		{ "^(a?){300}a{300}", true },
		{ "(.*.*.*.*=)+.*=", false },
		{ "(x{1,50}){1,30}$", false },
		{ "a.{3000}b$", true },
	};
	char *text = filled("", 'a', 1u << 18);

	(void)state;
	text[(1u << 18) - 1] = 'b';
	for (size_t i = 0; i < sizeof(slow) / sizeof(slow[0]); i++) {
		if (found(slow[i].pattern, text) != slow[i].aaab)
			fail_msg("%s", slow[i].pattern);
	}
	free(text);
}

/* Numbers that look like chance and are the same in every run. */
static uint32_t chance(uint32_t below)
{
	static uint64_t seed = 1;

	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % below;
}

/* A pattern that wants more states than are kept: what is forgotten is found again. */
static void states_are_forgotten(void **state)
{
	struct pfw_regex regex, copy;
	char text[300];

	(void)state;
	make(&regex, "a[ab]{14}c$|\\bcb[ab]{13}c$");
	assert_int_equal(pfw_regex_copy(&copy, &regex), 0);
	for (size_t i = 0; i < 500; i++) {
		size_t bytes = 17 + chance(sizeof(text) - 17);
		bool yes;

		for (size_t j = 0; j < bytes; j++)
			text[j] = "ab"[chance(2)];
		text[bytes - 1] = 'c';
		if (i % 4 == 0)
			memcpy(text + bytes - 17, i % 8 ? "-cb" : "acb", 3);
		yes = text[bytes - 16] == 'a' || memcmp(text + bytes - 17, "-cb", 3) == 0;
		assert_true(pfw_regex_find(&regex, text, bytes) == yes);
		assert_true(pfw_regex_find(&copy, text, bytes) == yes);
	}
	pfw_regex_release(&copy);
	assert_true(pfw_regex_find(&regex, "xabababababababac", 17));
	pfw_regex_release(&regex);
}

/* ---- as libc has it ---- */

static const char texts_of[] = "aaabbbx_1 -\xe9\n";

static void compare_texts(const char *pattern, const struct pfw_regex *regex, const regex_t *libc)
{
	/* To some states of libc a line break is where $ and ^ are, though REG_NEWLINE was not given. */
	uint32_t bytes_of = sizeof(texts_of) - (strpbrk(pattern, "^$") ? 2 : 1);
	char text[16];

	for (size_t i = 0; i < 12; i++) {
		size_t bytes = chance(i < 6 ? 4 : sizeof(text));

		for (size_t j = 0; j < bytes; j++)
			text[j] = texts_of[chance(bytes_of)];
		text[bytes] = '\0';
		if (pfw_regex_find(regex, text, bytes) == (regexec(libc, text, 0, NULL, 0) != 0))
			fail_msg("pattern %s text %s: not as libc", pattern, text);
	}
}

/* The same patterns are refused, and the others found in the same texts; true: it was compared. */
static bool compare(const char *pattern)
{
	struct pfw_regex regex;
	char why[128] = "";
	int error = pfw_regex_init(&regex, pattern, strlen(pattern), why, sizeof(why));
	regex_t libc;
	int other;

	if (error && (strstr(why, "too large") || strstr(why, "references back")))
		return false;
	other = regcomp(&libc, pattern, REG_EXTENDED | REG_NOSUB);
	if ((error == 0) != (other == 0))
		fail_msg("pattern %s: %s, %d of libc", pattern, why, other);
	if (error)
		return true;
	compare_texts(pattern, &regex, &libc);
	pfw_regex_release(&regex);
	regfree(&libc);
	return true;
}

struct made {
	char text[200];
	size_t used;
};

static void say(struct made *made, const char *part)
{
	made->used += (size_t)snprintf(made->text + made->used, sizeof(made->text) - made->used,
				       "%s", part);
	assert_true(made->used < sizeof(made->text));
}

/* What was said: what it is that + and { are not put behind. */
enum { NOTHING = 1, PLACE = 2 };

static unsigned say_group(struct made *made, unsigned depth);

static unsigned say_atom(struct made *made, unsigned depth)
{
	static const char *const atoms[] = { "a",	"b",	"x",	 ".",
					     "[ab]",	"[^a]", "[a-x]", "[[:alpha:]_]",
					     "1",	"\\w",	"\\W",	 "\\s",
					     "\\S",	"_",	"-",	 "[]b-]",
					     "[[.a.]]", "b",	"a" };
	unsigned said;

	if (depth && chance(4) == 0) {
		say(made, "(");
		said = say_group(made, depth - 1);
		say(made, ")");
		return said;
	}
	say(made, atoms[chance(sizeof(atoms) / sizeof(atoms[0]))]);
	return 0;
}

/* What libc writes out several times is what it takes for ever with where that can be nothing, and where it
 * forgets places: to it (a\>){2} is in axa. */
static unsigned say_piece(struct made *made, unsigned depth)
{
	static const char *const places[] = { "^", "$", "\\b", "\\B", "\\<", "\\>", "\\`", "\\'" };
	static const char *const times[] = { "*",   "?",    "{0}",   "{,2}", "{0,1}", "+",
					     "{2}", "{1,}", "{1,3}", "{2,}", "{2,3}" };
	unsigned said;
	size_t i;

	if (chance(8) == 0) {
		say(made, places[chance(8)]);
		return NOTHING | PLACE;
	}
	said = say_atom(made, depth);
	if (chance(3))
		return said;
	i = chance(said ? 2 : 11);
	say(made, times[i]);
	return said | (i < 5 ? NOTHING : 0);
}

static unsigned say_group(struct made *made, unsigned depth)
{
	unsigned said = 0;

	do {
		unsigned branch = NOTHING;

		for (uint32_t pieces = chance(4); pieces && made->used < 60; pieces--) {
			unsigned piece = say_piece(made, depth);

			branch = (branch & piece & NOTHING) | ((branch | piece) & PLACE);
		}
		said |= branch;
	} while (chance(4) == 0 && made->used < 60 && (say(made, "|"), true));
	return said;
}

static void answers_are_those_of_libc(void **state)
{
	(void)state;
	for (size_t i = 0; i < 6000; i++) {
		struct made made = { .used = 0 };

		say_group(&made, 3);
		assert_true(compare(made.text));
	}
}

/* Any bytes that mean something, so short that libc takes no time. */
static void what_is_refused_is_what_libc_refuses(void **state)
{
	static const char bytes[] = "ab1,()[]{}|*+?^$\\.-:=";
	size_t compared = 0;

	(void)state;
	for (size_t i = 0; i < 30000; i++) {
		char pattern[8] = "";

		for (size_t j = chance(sizeof(pattern)); j; j--)
			pattern[j - 1] = bytes[chance(sizeof(bytes) - 1)];
		/* libc takes a{1\,2} for a{1,2}. */
		if (!strstr(pattern, "\\,"))
			compared += compare(pattern);
	}
	assert_true(compared > 20000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_found),
		cmocka_unit_test(a_nul_is_a_byte),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(sizes_are_bounded),
		cmocka_unit_test(no_pattern_takes_long),
		cmocka_unit_test(states_are_forgotten),
		cmocka_unit_test(answers_are_those_of_libc),
		cmocka_unit_test(what_is_refused_is_what_libc_refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
