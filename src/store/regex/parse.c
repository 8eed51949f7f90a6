/* store/regex/parse.c - compiles POSIX extended regular expressions to an NFA; see regex.h.
 *
 * Patterns mean what they mean to glibc in the C locale, except \d, a leading (?i), and \d \w \s in
 * brackets, where glibc takes a backslash literally.  The parser emits code while it reads; an
 * operator moves or copies the code of its operand.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/regex/regex.h"

#define REPEAT_MAX 32767 /* RE_DUP_MAX */
#define WITHOUT_END UINT32_MAX
#define NO_ATOM UINT32_MAX

static const char too_large[] = "its repetitions make the pattern too large";

/* An open group; group 0 is the whole pattern. */
struct group {
	unsigned start, branch; /* first operation of the group, of its last alternative */
	bool alternatives;	/* it has more than one */
};

struct parser {
	const char *at, *end, *why;
	struct pfw_regex_code code; /* uses op[] and set[] below */
	unsigned atom;		    /* start of the operand of a repetition, or NO_ATOM */
	unsigned depth;
	bool fold; /* the pattern begins with (?i): letters match in both cases */
	struct group group[PFW_REGEX_BYTES + 1];
	struct pfw_regex_op op[PFW_REGEX_SIZE], unit[PFW_REGEX_SIZE];
	struct pfw_regex_set set[PFW_REGEX_BYTES];
};

bool pfw_regex_is_word(uint8_t byte)
{
	return byte < 128 && (isalnum(byte) || byte == '_');
}

static bool fail(struct parser *parser, const char *why)
{
	parser->why = why;
	return false;
}

/* ---- code ---- */

/* Make room for operations at `at`; one more stays free for PFW_REGEX_FOUND. */
static struct pfw_regex_op *insert(struct parser *parser, unsigned at, size_t count)
{
	struct pfw_regex_code *code = &parser->code;

	if (code->ops + count >= PFW_REGEX_SIZE) {
		parser->why = too_large;
		return NULL;
	}
	memmove(&code->op[at + count], &code->op[at], (code->ops - at) * sizeof(code->op[0]));
	code->ops += (unsigned)count;
	return &code->op[at];
}

static bool put(struct parser *parser, unsigned at, enum pfw_regex_kind kind, int arg)
{
	struct pfw_regex_op *op = insert(parser, at, 1);

	if (op)
		*op = (struct pfw_regex_op){ .kind = (uint16_t)kind, .arg = (int16_t)arg };
	return op != NULL;
}

static bool put_set(struct parser *parser, const struct pfw_regex_set *set)
{
	struct pfw_regex_code *code = &parser->code;
	unsigned i = 0;

	while (i < code->sets && memcmp(&code->set[i], set, sizeof(*set)) != 0)
		i++;
	if (i == code->sets)
		/* fits: each set takes at least one byte of the pattern */
		code->set[code->sets++] = *set;
	parser->atom = code->ops;
	return put(parser, code->ops, PFW_REGEX_SET, (int)i);
}

/* Add the other case of each ASCII letter. */
static void fold(const struct parser *parser, struct pfw_regex_set *set)
{
	for (int byte = 'A'; parser->fold && byte <= 'Z'; byte++) {
		if (pfw_regex_set_has(set, (uint8_t)byte))
			pfw_regex_set_add(set, (uint8_t)tolower(byte));
		else if (pfw_regex_set_has(set, (uint8_t)tolower(byte)))
			pfw_regex_set_add(set, (uint8_t)byte);
	}
}

static bool put_byte(struct parser *parser, char byte)
{
	struct pfw_regex_set set = { 0 };

	pfw_regex_set_add(&set, (uint8_t)byte);
	fold(parser, &set);
	return put_set(parser, &set);
}

/* An anchor cannot be repeated: ^* is an error. */
static bool put_place(struct parser *parser, enum pfw_regex_place place)
{
	parser->code.words |= place >= PFW_REGEX_WORD_BEGINS;
	parser->atom = NO_ATOM;
	return put(parser, parser->code.ops, PFW_REGEX_PLACE, (int)place);
}

/* ---- sets ---- */

static void invert(struct pfw_regex_set *set)
{
	for (size_t i = 0; i < 4; i++)
		set->bits[i] = ~set->bits[i];
}

static bool is_shorthand(char name)
{
	return name && strchr("dDwWsS", name);
}

/* \d \w \s, and their complements \D \W \S. */
static void add_shorthand(struct pfw_regex_set *set, char name)
{
	struct pfw_regex_set class = { 0 };

	for (int byte = 0; byte < 128; byte++) {
		if (name == 'd' || name == 'D'	 ? isdigit(byte)
		    : name == 'w' || name == 'W' ? pfw_regex_is_word((uint8_t)byte)
						 : isspace(byte))
			pfw_regex_set_add(&class, (uint8_t)byte);
	}
	if (isupper(name))
		invert(&class);
	for (size_t i = 0; i < 4; i++)
		set->bits[i] |= class.bits[i];
}

static bool add_class(struct parser *parser, struct pfw_regex_set *set, const char *name,
		      size_t bytes)
{
	static const struct {
		const char *name;
		int (*has)(int byte);
	} classes[] = {
		{ "alpha", isalpha }, { "digit", isdigit }, { "alnum", isalnum },
		{ "upper", isupper }, { "lower", islower }, { "space", isspace },
		{ "blank", isblank }, { "punct", ispunct }, { "print", isprint },
		{ "graph", isgraph }, { "cntrl", iscntrl }, { "xdigit", isxdigit },
	};

	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		if (bytes != strlen(classes[i].name) || memcmp(name, classes[i].name, bytes) != 0)
			continue;
		for (int byte = 0; byte < 128; byte++) {
			if (classes[i].has(byte))
				pfw_regex_set_add(set, (uint8_t)byte);
		}
		return true;
	}
	return fail(parser, "there is no such class of characters");
}

/* After a backslash in brackets: \\ is a backslash, \d etc. are classes (*byte -1), another
 * backslash is literal. */
static void take_set_escape(struct parser *parser, struct pfw_regex_set *set, int *byte)
{
	char next = parser->at < parser->end ? *parser->at : '\0';

	if (is_shorthand(next)) {
		add_shorthand(set, next);
		*byte = -1;
	}
	parser->at += next == '\\' || is_shorthand(next);
}

/* One element of a bracket expression: a byte, [.x.], or (*byte -1) [=x=] or a class. */
static bool take_element(struct parser *parser, struct pfw_regex_set *set, int *byte)
{
	const char *name, *end;

	*byte = (uint8_t)*parser->at;
	if (*parser->at != '[' || parser->end - parser->at < 2 ||
	    !memchr(".=:", parser->at[1], 3)) {
		if (*parser->at++ == '\\')
			take_set_escape(parser, set, byte);
		return true;
	}
	name = parser->at + 2;
	for (end = name; parser->end - end >= 2; end++) {
		if (*end == parser->at[1] && end[1] == ']')
			break;
	}
	if (parser->end - end < 2)
		return fail(parser, "unmatched [: [. [= or [");
	*byte = name[-1] == '.' ? (uint8_t)*name : -1;
	if (name[-1] != ':' && end - name != 1)
		return fail(parser, "there is no such character");
	if (name[-1] == '=')
		pfw_regex_set_add(set, (uint8_t)*name);
	parser->at = end + 2;
	return name[-1] != ':' || add_class(parser, set, name, (size_t)(end - name));
}

/* One element or a range. */
static bool take_range(struct parser *parser, struct pfw_regex_set *set, bool first)
{
	int low, high;

	/* A literal - stands first or last. */
	if (*parser->at == '-' && !first && parser->end - parser->at >= 2 && parser->at[1] != ']')
		return fail(parser, "a range has no begin or no end");
	if (!take_element(parser, set, &low))
		return false;
	high = low;
	if (low >= 0 && parser->end - parser->at >= 2 && *parser->at == '-' &&
	    parser->at[1] != ']') {
		parser->at++;
		if (!take_element(parser, set, &high))
			return false;
		if (high < low)
			return fail(parser, "a range ends before it begins");
	}
	for (; low >= 0 && low <= high; low++)
		pfw_regex_set_add(set, (uint8_t)low);
	return true;
}

/* After a [. */
static bool take_set(struct parser *parser)
{
	struct pfw_regex_set set = { 0 };
	bool no = parser->at < parser->end && *parser->at == '^', first = true;

	for (parser->at += no; parser->at < parser->end; first = false) {
		if (*parser->at == ']' && !first) {
			parser->at++;
			fold(parser, &set);
			if (no)
				invert(&set);
			return put_set(parser, &set);
		}
		if (!take_range(parser, &set, first))
			return false;
	}
	return fail(parser, "unmatched [");
}

/* ---- repetitions ---- */

/* Repeat the code after parser->atom `low` to `high` times. */
static bool repeat(struct parser *parser, unsigned low, unsigned high)
{
	struct pfw_regex_code *code = &parser->code;
	unsigned copies = high == WITHOUT_END ? low : high;
	int unit = (int)(code->ops - parser->atom);

	if (high == 0)
		code->ops = parser->atom;
	if (high == 0 || unit == 0)
		return true; /* an empty operand, or no repetition at all */
	if (high == WITHOUT_END && low == 0)
		return put(parser, parser->atom, PFW_REGEX_FORK, unit + 2) &&
		       put(parser, code->ops, PFW_REGEX_JUMP, -(unit + 1));
	memcpy(parser->unit, &code->op[parser->atom], (size_t)unit * sizeof(code->op[0]));
	for (unsigned i = 0; i < copies; i++) {
		struct pfw_regex_op *op;

		if (i >= low &&
		    !put(parser, i ? code->ops : parser->atom, PFW_REGEX_FORK, unit + 1))
			return false;
		op = i ? insert(parser, code->ops, (size_t)unit) : NULL;
		if (op)
			memcpy(op, parser->unit, (size_t)unit * sizeof(*op));
		if (i && !op)
			return false;
	}
	return high != WITHOUT_END || put(parser, code->ops, PFW_REGEX_FORK, -unit);
}

/* Read a number, clamped to REPEAT_MAX + 1; false: there is none. */
static bool take_number(struct parser *parser, unsigned *number)
{
	const char *start = parser->at;

	for (*number = 0; parser->at < parser->end && isdigit((uint8_t)*parser->at); parser->at++) {
		*number = *number * 10 + (unsigned)(*parser->at - '0');
		if (*number > REPEAT_MAX)
			*number = REPEAT_MAX + 1;
	}
	return parser->at > start;
}

/* After {: m} m,} ,n} m,n} or ,} */
static bool take_interval(struct parser *parser)
{
	unsigned low, high;
	bool any = take_number(parser, &low);

	high = low;
	if (parser->at < parser->end && *parser->at == ',') {
		any = true;
		parser->at++;
		if (!take_number(parser, &high))
			high = WITHOUT_END;
	}
	if (parser->at == parser->end)
		return fail(parser, "unmatched {");
	if (!any || *parser->at++ != '}' || high < low)
		return fail(parser, "{ } needs a number of repetitions, as in {2,5}");
	if (low > REPEAT_MAX || (high > REPEAT_MAX && high != WITHOUT_END))
		return fail(parser, too_large);
	return repeat(parser, low, high);
}

static bool take_repetition(struct parser *parser, char sign)
{
	if (parser->atom == NO_ATOM)
		return fail(parser, "nothing before * + ? or { can be repeated");
	if (sign == '{')
		return take_interval(parser);
	return repeat(parser, sign == '+', sign == '?' ? 1 : WITHOUT_END);
}

/* ---- groups ---- */

/* Join the alternatives so far into one. */
static bool join(struct parser *parser)
{
	struct group *group = &parser->group[parser->depth];
	int first = (int)(group->branch - group->start);
	int second = (int)(parser->code.ops - group->branch);

	return !group->alternatives || (put(parser, group->branch, PFW_REGEX_JUMP, second + 1) &&
					put(parser, group->start, PFW_REGEX_FORK, first + 2));
}

static bool take_alternative(struct parser *parser)
{
	struct group *group = &parser->group[parser->depth];

	if (!join(parser))
		return false;
	group->branch = parser->code.ops;
	group->alternatives = true;
	parser->atom = NO_ATOM;
	return true;
}

static void open_group(struct parser *parser)
{
	parser->group[++parser->depth] =
		(struct group){ .start = parser->code.ops, .branch = parser->code.ops };
	parser->atom = NO_ATOM;
}

static bool close_group(struct parser *parser)
{
	if (!parser->depth)
		return put_byte(parser, ')');
	if (!join(parser))
		return false;
	parser->atom = parser->group[parser->depth--].start;
	return true;
}

/* ---- the whole pattern ---- */

static bool take_escape(struct parser *parser)
{
	static const char places[] = "`'<>bB"; /* in the order of enum pfw_regex_place */
	const char *place;
	struct pfw_regex_set set = { 0 };
	char byte;

	if (parser->at == parser->end)
		return fail(parser, "nothing follows the last backslash");
	byte = *parser->at++;
	place = memchr(places, byte, sizeof(places) - 1);
	if (byte >= '1' && byte <= '9')
		return fail(parser, "references back are not supported");
	if (place)
		return put_place(parser, (enum pfw_regex_place)(place - places));
	if (!is_shorthand(byte))
		return put_byte(parser, byte);
	add_shorthand(&set, byte);
	return put_set(parser, &set);
}

static bool take(struct parser *parser, char byte)
{
	struct pfw_regex_set any = { { ~0ull, ~0ull, ~0ull, ~0ull } };

	switch (byte) {
	case '(':
		open_group(parser);
		return true;
	case ')':
		return close_group(parser);
	case '|':
		return take_alternative(parser);
	case '*':
	case '+':
	case '?':
	case '{':
		return take_repetition(parser, byte);
	case '^':
		return put_place(parser, PFW_REGEX_AT_START);
	case '$':
		return put_place(parser, PFW_REGEX_AT_END);
	case '.':
		return put_set(parser, &any);
	case '[':
		return take_set(parser);
	case '\\':
		return take_escape(parser);
	default:
		return put_byte(parser, byte);
	}
}

static bool parse(struct parser *parser)
{
	parser->fold = parser->end - parser->at >= 4 && memcmp(parser->at, "(?i)", 4) == 0;
	parser->at += parser->fold ? 4 : 0;
	while (parser->at < parser->end) {
		if (!take(parser, *parser->at++))
			return false;
	}
	if (parser->depth)
		return fail(parser, "unmatched (");
	if (!join(parser))
		return false;
	parser->code.op[parser->code.ops++] = (struct pfw_regex_op){ .kind = PFW_REGEX_FOUND };
	return true;
}

/* Split each class by membership in the set. */
static void split_classes(struct pfw_regex_code *code, const struct pfw_regex_set *set)
{
	int16_t within[256][2];

	memset(within, -1, sizeof(within));
	code->classes = 0;
	for (unsigned byte = 0; byte < 256; byte++) {
		int16_t *class =
			&within[code->class_of[byte]][pfw_regex_set_has(set, (uint8_t)byte)];

		if (*class < 0) {
			code->byte_of[code->classes] = (uint8_t)byte;
			*class = (int16_t)code->classes++;
		}
		code->class_of[byte] = (uint8_t) * class;
	}
}

static void find_classes(struct pfw_regex_code *code)
{
	struct pfw_regex_set words = { 0 };

	if (code->words)
		add_shorthand(&words, 'w');
	split_classes(code, &words);
	for (unsigned i = 0; i < code->sets; i++)
		split_classes(code, &code->set[i]);
}

/* Copy the code out of the parser. */
static struct pfw_regex_code *take_out(const struct pfw_regex_code *of)
{
	size_t set_bytes = of->sets * sizeof(of->set[0]), op_bytes = of->ops * sizeof(of->op[0]);
	struct pfw_regex_code *code = malloc(sizeof(*code) + set_bytes + op_bytes);

	if (!code)
		return NULL;
	*code = *of;
	code->set = (struct pfw_regex_set *)(code + 1);
	code->op = (struct pfw_regex_op *)(code->set + of->sets);
	memcpy(code->set, of->set, set_bytes);
	memcpy(code->op, of->op, op_bytes);
	find_classes(code);
	return code;
}

int pfw_regex_parse(struct pfw_regex_code **out, const char *pattern, size_t bytes,
		    const char **why)
{
	struct parser *parser = calloc(1, sizeof(*parser));
	int error = -ENOMEM;

	if (!parser)
		return error;
	parser->at = pattern;
	parser->end = pattern + bytes;
	parser->atom = NO_ATOM;
	parser->code.op = parser->op;
	parser->code.set = parser->set;
	if (parse(parser)) {
		*out = take_out(&parser->code);
		error = *out ? 0 : -ENOMEM;
	} else {
		*why = parser->why;
		error = -EINVAL;
	}
	free(parser);
	return error;
}
