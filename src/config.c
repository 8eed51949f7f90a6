/* config.c - the variables of config.def: reads, checks and explains them.  See config.h. */
#include "config.h"

#include <errno.h>
#include <string.h>

#include "schedule.h"
#include "text.h"

#define KIB 1024ull
#define MIB (1024ull * 1024)
#define RANK_MAX 2147483647ull

#define SHOWN_VALUE_MAX 80 /* bytes of a value that a complaint repeats */
#define LINE_MAX_BYTES 768 /* name, value, meaning: the longest row stays below this */
#define NAME_MAX_BYTES 48  /* longer names are not compared with ours */

enum parsed {
	PARSED,
	BAD,
	NO_EFFECT, /* accepted, but the default holds: worth a line */
};

/* ---- the kinds of config.def: each checks `text` and stores through `out` ---- */

static enum parsed parse_flag(const char *text, void *out)
{
	static const char *const words[] = { "0", "1", "false", "true", "no", "yes", "off", "on" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (pfw_text_same(text, words[i])) {
			*(bool *)out = i % 2 == 1;
			return PARSED;
		}
	}
	return BAD;
}

static enum parsed parse_text(const char *text, void *out)
{
	*(const char **)out = text;
	return PARSED;
}

static enum parsed parse_init(const char *text, void *out)
{
	bool preload = pfw_text_same(text, "PRELOAD");

	if (!preload && !pfw_text_same(text, "FUNCTION"))
		return BAD;
	*(enum pfw_init *)out = preload ? PFW_INIT_PRELOAD : PFW_INIT_FUNCTION;
	return PARSED;
}

static enum parsed parse_on_full(const char *text, void *out)
{
	bool drop = pfw_text_same(text, "drop");

	if (!drop && !pfw_text_same(text, "block"))
		return BAD;
	*(enum pfw_on_full *)out = drop ? PFW_ON_FULL_DROP : PFW_ON_FULL_BLOCK;
	return PARSED;
}

static enum parsed parse_time_metric(const char *text, void *out)
{
	if (pfw_text_same(text, "US")) {
		*(bool *)out = true;
		return PARSED;
	}
	if (pfw_text_same(text, "NS") || pfw_text_same(text, "MS") || pfw_text_same(text, "SEC"))
		return NO_EFFECT;
	return BAD;
}

static enum parsed parse_log_level(const char *text, void *out)
{
	static const char *const words[] = { "ERROR", "WARN", "INFO", "DEBUG" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (pfw_text_same(text, words[i]))
			return parse_text(text, out);
	}
	return BAD;
}

/* The units that a size or a time may end with, and what one of them is. */
struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit byte_units[] = {
	{ "", 1 },	{ "K", KIB },	   { "KiB", KIB },	{ "M", MIB },
	{ "MiB", MIB }, { "G", KIB *MIB }, { "GiB", KIB *MIB }, { NULL, 0 },
};

static const struct unit time_units[] = {
	{ "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 }, { NULL, 0 },
};

static enum parsed parse_amount(const char *text, const struct unit *units, uint64_t *amount)
{
	uint64_t number;
	const char *end = pfw_text_u64(text, &number);

	if (!end)
		return BAD;
	for (const struct unit *unit = units; unit->name; unit++) {
		if (pfw_text_same(end, unit->name))
			return __builtin_mul_overflow(number, unit->factor, amount) ? BAD : PARSED;
	}
	return BAD;
}

static enum parsed parse_bytes_within(const char *text, uint64_t least, uint64_t most,
				      uint64_t *bytes)
{
	uint64_t value;

	if (parse_amount(text, byte_units, &value) == BAD || value < least || value > most)
		return BAD;
	*bytes = value;
	return PARSED;
}

static enum parsed parse_ring_bytes(const char *text, void *out)
{
	uint64_t bytes;

	if (parse_bytes_within(text, 32 * KIB, 64 * MIB, &bytes) == BAD)
		return BAD;
	/* Down to a power of two, so that a place in the ring is a mask and not a division. */
	*(uint64_t *)out = 1ull << (63 - __builtin_clzll(bytes));
	return PARSED;
}

static enum parsed parse_buffer_bytes(const char *text, void *out)
{
	return parse_bytes_within(text, 4 * KIB, MIB, out);
}

static enum parsed parse_max_bytes(const char *text, void *out)
{
	return parse_bytes_within(text, 64 * KIB, UINT64_MAX, out);
}

static enum parsed parse_flush_ms(const char *text, void *out)
{
	uint64_t ms;
	const char *end = pfw_text_u64(text, &ms);

	if (!end || *end != '\0' || ms < 1 || ms > 60000)
		return BAD;
	*(uint64_t *)out = ms * 1000000;
	return PARSED;
}

static enum parsed parse_duration(const char *text, void *out)
{
	return parse_amount(text, time_units, out);
}

static enum parsed parse_interval(const char *text, void *out)
{
	uint64_t ns;

	if (parse_amount(text, time_units, &ns) == BAD || ns < 10000000)
		return BAD;
	*(uint64_t *)out = ns;
	return PARSED;
}

static enum parsed parse_rank(const char *text, void *out)
{
	uint64_t rank;
	const char *end = pfw_text_u64(text, &rank);

	if (!end || *end != '\0' || rank > RANK_MAX)
		return BAD;
	*(int64_t *)out = (int64_t)rank;
	return PARSED;
}

static enum parsed parse_ranks(const char *text, void *out)
{
	return pfw_config_ranks_hold(text, 0) < 0 ? BAD : parse_text(text, out);
}

/* Bytes at the start of `text` that are letters or '_', or digits after the first. */
static size_t word_bytes(const char *text)
{
	size_t n = 0;

	while ((text[n] >= 'A' && text[n] <= 'Z') || (text[n] >= 'a' && text[n] <= 'z') ||
	       text[n] == '_' || (n > 0 && text[n] >= '0' && text[n] <= '9'))
		n++;
	return n;
}

static enum parsed parse_name(const char *text, void *out)
{
	size_t n = word_bytes(text);

	return n == 0 || text[n] != '\0' ? BAD : parse_text(text, out);
}

static uint32_t gpu_word(const char *word, size_t bytes)
{
	static const struct {
		const char *word;
		uint32_t bit;
	} words[] = {
#define X(bit, word) { word, bit },
		PFW_GPU_WORDS(X)
#undef X
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strlen(words[i].word) == bytes && !memcmp(words[i].word, word, bytes))
			return words[i].bit;
	return 0;
}

static enum parsed parse_gpu(const char *text, void *out)
{
	uint32_t bits = PFW_GPU_ASKED;
	bool flag;

	if (pfw_text_same(text, "auto")) {
		*(uint32_t *)out = PFW_GPU_USUAL;
		return PARSED;
	}
	if (parse_flag(text, &flag) == PARSED) {
		*(uint32_t *)out = flag ? PFW_GPU_ASKED | PFW_GPU_USUAL : 0;
		return PARSED;
	}
	for (const char *at = text;; at++) {
		size_t n = word_bytes(at);
		uint32_t bit = gpu_word(at, n);

		if (!bit)
			return BAD;
		bits |= bit;
		at += n;
		if (*at != '\0' && *at != ',')
			return BAD;
		if (*at == '\0')
			break;
	}
	*(uint32_t *)out = bits;
	return PARSED;
}

static enum parsed parse_schedule(const char *text, void *out)
{
	struct pfw_plan plan;

	if (!pfw_plan_parse(&plan, text))
		return BAD;
	memcpy(out, &plan, sizeof(plan));
	return PARSED;
}

/* ---- config.def, once for each thing that a row must become ---- */

#define NO_FIELD SIZE_MAX

struct rule {
	enum parsed (*parse)(const char *text, void *out);
	size_t field; /* offset in struct pfw_config, or NO_FIELD */
};

#define OURS(name)
#define VARIABLE(name, kind, field, accepts, fallback, meaning) ROW_##name,
#define ACCEPTED(name, kind, accepts, fallback, meaning) ROW_##name,
#define IGNORED(name, why) ROW_##name,
#define IGNORED_ALL(name, why) ROW_##name,
enum {
#include "config.def"
	ROW_COUNT
};
#undef VARIABLE
#undef ACCEPTED
#undef IGNORED
#undef IGNORED_ALL

#define VARIABLE(name, kind, field, accepts, fallback, meaning) \
	{ #name, accepts, fallback, meaning, PFW_CONFIG_BUILT },
#define ACCEPTED(name, kind, accepts, fallback, meaning) \
	{ #name, accepts, fallback, meaning, PFW_CONFIG_BUILT },
#define IGNORED(name, why) { #name, "anything", "unset", why, PFW_CONFIG_IGNORED },
#define IGNORED_ALL(name, why) { #name "*", "anything", "unset", why, PFW_CONFIG_IGNORED },
static const struct pfw_config_row rows[ROW_COUNT] = {
#include "config.def"
};
#undef VARIABLE
#undef ACCEPTED
#undef IGNORED
#undef IGNORED_ALL

#define VARIABLE(name, kind, field, accepts, fallback, meaning) \
	{ parse_##kind, offsetof(struct pfw_config, field) },
#define ACCEPTED(name, kind, accepts, fallback, meaning) { parse_##kind, NO_FIELD },
#define IGNORED(name, why) { parse_text, NO_FIELD },
#define IGNORED_ALL(name, why) { parse_text, NO_FIELD },
static const struct rule rules[ROW_COUNT] = {
#include "config.def"
};
#undef OURS
#undef VARIABLE
#undef ACCEPTED
#undef IGNORED
#undef IGNORED_ALL

#define OURS(name) #name,
#define VARIABLE(name, kind, field, accepts, fallback, meaning)
#define ACCEPTED(name, kind, accepts, fallback, meaning)
#define IGNORED(name, why)
#define IGNORED_ALL(name, why)
static const char *const ours[] = {
#include "config.def"
};
#undef OURS
#undef VARIABLE
#undef ACCEPTED
#undef IGNORED
#undef IGNORED_ALL

_Static_assert(ROW_COUNT <= 64, "struct reader.seen has one bit a row");

/* ---- what is said ---- */

struct reader {
	struct pfw_config *config;
	pfw_config_say *say;
	void *user;
	uint64_t seen; /* rows that were read: the first of two entries counts, as for getenv */
};

/* Append a value as it may be shown on a terminal: no control bytes, not too long. */
static void add_value(struct pfw_text *line, const char *value)
{
	size_t n = 0;

	for (; value[n] != '\0' && n < SHOWN_VALUE_MAX; n++) {
		char c = (unsigned char)value[n] < ' ' || value[n] == 127 ? '?' : value[n];

		pfw_text_add_bytes(line, &c, 1);
	}
	if (value[n] != '\0')
		pfw_text_add(line, "...");
}

static void begin_line(struct pfw_text *line, char *buf, const char *name, const char *value)
{
	pfw_text_init(line, buf, LINE_MAX_BYTES);
	add_value(line, name);
	pfw_text_add(line, "=");
	add_value(line, value);
	pfw_text_add(line, ": ");
}

static void say_bad(const struct reader *reader, const struct pfw_config_row *row,
		    const char *value)
{
	bool unset = strcmp(row->fallback, "unset") == 0;
	struct pfw_text line;
	char buf[LINE_MAX_BYTES];

	if (!reader->say)
		return;
	begin_line(&line, buf, row->name, value);
	pfw_text_add(&line, "bad value: takes ");
	pfw_text_add(&line, row->accepts);
	pfw_text_add(&line, unset ? "; going on as if it were unset" : "; using the default, ");
	pfw_text_add(&line, unset ? "" : row->fallback);
	reader->say(reader->user, buf);
}

/* NAME=VALUE and what row says of it: ignored, or without effect. */
static void say_meaning(const struct reader *reader, const struct pfw_config_row *row,
			const char *value, const char *why)
{
	struct pfw_text line;
	char buf[LINE_MAX_BYTES];

	if (!reader->say)
		return;
	begin_line(&line, buf, row->name, value);
	pfw_text_add(&line, why);
	pfw_text_add(&line, row->meaning);
	reader->say(reader->user, buf);
}

/* ---- "did you mean" ---- */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Edits (insert, remove, replace, swap neighbours) from a to b, both at most NAME_MAX_BYTES. */
static size_t edit_distance(const char *a, const char *b)
{
	uint8_t line[3][NAME_MAX_BYTES + 1];
	size_t a_bytes = strlen(a);
	size_t b_bytes = strlen(b);

	for (size_t j = 0; j <= b_bytes; j++)
		line[0][j] = (uint8_t)j;
	for (size_t i = 1; i <= a_bytes; i++) {
		uint8_t *now = line[i % 3];
		const uint8_t *last = line[(i + 2) % 3];
		const uint8_t *before = line[(i + 1) % 3];

		now[0] = (uint8_t)i;
		for (size_t j = 1; j <= b_bytes; j++) {
			size_t best = least(last[j], now[j - 1]) + 1u;

			best = least(best, last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				best = least(best, before[j - 2] + 1u);
			now[j] = (uint8_t)best;
		}
	}
	return line[a_bytes % 3][b_bytes];
}

/* The same, where a name inside the other (FLUSH for FLUSH_MS) is one edit. */
static size_t name_distance(const char *a, const char *b)
{
	if (strcmp(a, b) != 0 && strlen(a) >= 4 && (strstr(a, b) || strstr(b, a)))
		return 1;
	return edit_distance(a, b);
}

/* Bytes of the prefix that makes `name` one of ours to answer for; 0 = none. */
static size_t prefix_bytes(const char *name)
{
	if (strncmp(name, "PFW_", 4) == 0)
		return 4;
	return strncmp(name, "DFTRACER_", 9) == 0 ? 9 : 0;
}

/* The name most like `name`, or NULL.  A wrong prefix (PFW_LOG_FILE) counts as one edit. */
static const char *nearest_name(const char *name)
{
	size_t prefix = prefix_bytes(name);
	size_t bytes = strlen(name + prefix);
	size_t best = bytes <= 3 ? 1 : bytes <= 8 ? 2 : 3; /* edits that are still "near" */
	const char *nearest = NULL;

	for (size_t i = 0; i < ROW_COUNT; i++) {
		size_t other = prefix_bytes(rows[i].name);
		size_t edits = name_distance(name + prefix, rows[i].name + other);

		edits += prefix != other;
		if (strchr(rows[i].name, '*'))
			continue;
		if (edits < best || (edits == best && !nearest)) {
			best = edits;
			nearest = rows[i].name;
		}
	}
	return nearest;
}

/* `entry` is NAME=VALUE of which no row knows the name, name_bytes long. */
static void say_unknown(const struct reader *reader, const char *entry, size_t name_bytes)
{
	char name[NAME_MAX_BYTES + 1];
	const char *nearest = NULL;
	struct pfw_text line, part;
	char buf[LINE_MAX_BYTES];

	if (!reader->say)
		return;
	pfw_text_init(&part, name, sizeof(name));
	pfw_text_add_bytes(&part, entry, name_bytes);
	if (!part.cut)
		nearest = nearest_name(name);
	begin_line(&line, buf, name, entry + name_bytes + 1);
	if (nearest) {
		pfw_text_add(&line, "unknown variable; did you mean ");
		pfw_text_add(&line, nearest);
		pfw_text_add(&line, "?");
	} else {
		pfw_text_add(&line, "unknown variable; `pfw config` lists all");
	}
	reader->say(reader->user, buf);
}

/* ---- reading ---- */

/* Whether a row's name stands for this one; NAME_* stands for all that begin so. */
static bool is_name(const char *row, const char *name, size_t bytes)
{
	size_t same = strcspn(row, "*");

	return (row[same] ? same <= bytes : same == bytes) && memcmp(row, name, same) == 0;
}

static size_t find_row(const char *name, size_t bytes)
{
	size_t i = 0;

	while (i < ROW_COUNT && !is_name(rows[i].name, name, bytes))
		i++;
	return i;
}

static bool is_ours(const char *name, size_t bytes)
{
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		if (strncmp(ours[i], name, bytes) == 0 && ours[i][bytes] == '\0')
			return true;
	}
	return false;
}

static enum parsed parse_row(struct pfw_config *config, size_t index, const char *value)
{
	const struct rule *rule = &rules[index];
	uint64_t nowhere; /* as large as any field */

	if (rule->field == NO_FIELD)
		return rule->parse(value, &nowhere);
	return rule->parse(value, (char *)config + rule->field);
}

static void read_row(struct reader *reader, size_t index, const char *value)
{
	const struct pfw_config_row *row = &rows[index];
	enum parsed parsed;

	reader->seen |= 1ull << index;
	if (*value == '\0')
		return;
	if (row->state == PFW_CONFIG_IGNORED) {
		say_meaning(reader, row, value, "ignored: ");
		return;
	}
	parsed = parse_row(reader->config, index, value);
	if (parsed == BAD)
		say_bad(reader, row, value);
	else if (parsed == NO_EFFECT)
		say_meaning(reader, row, value, "no effect: ");
}

static void set_defaults(struct pfw_config *config)
{
	memset(config, 0, sizeof(*config));
	config->rank = -1;
	for (size_t i = 0; i < ROW_COUNT; i++) {
		if (strcmp(rows[i].fallback, "unset") != 0)
			parse_row(config, i, rows[i].fallback);
	}
}

/* DFTRACER_ENABLE alone. */
static void read_enable(struct reader *reader, char *const *environ)
{
	const char *value = pfw_config_lookup(environ, rows[ROW_DFTRACER_ENABLE].name);

	reader->config->enable_set = value && *value != '\0';
	if (value)
		read_row(reader, ROW_DFTRACER_ENABLE, value);
}

/* All but DFTRACER_ENABLE, in one pass over the environment. */
static void read_others(struct reader *reader, char *const *environ)
{
	for (; *environ; environ++) {
		const char *entry = *environ;
		const char *equals;
		size_t index;

		if (prefix_bytes(entry) == 0 || !(equals = strchr(entry, '=')))
			continue;
		index = find_row(entry, (size_t)(equals - entry));
		if (index < ROW_COUNT && !(reader->seen & 1ull << index))
			read_row(reader, index, equals + 1);
		else if (index == ROW_COUNT && !is_ours(entry, (size_t)(equals - entry)))
			say_unknown(reader, entry, (size_t)(equals - entry));
	}
}

/* PFW_QUIET first, without a word: who prints what read_others() says must know it by then. */
static void read_quiet(struct pfw_config *config, char *const *environ)
{
	const char *value = pfw_config_lookup(environ, rows[ROW_PFW_QUIET].name);

	if (value)
		parse_row(config, ROW_PFW_QUIET, value);
}

void pfw_config_read(struct pfw_config *config, char *const *environ, pfw_config_say *say,
		     void *user)
{
	struct reader reader = { config, say, user, 0 };

	set_defaults(config);
	read_quiet(config, environ);
	read_enable(&reader, environ);
	if (config->enable)
		read_others(&reader, environ);
}

void pfw_config_read_enabled(struct pfw_config *config, char *const *environ, pfw_config_say *say,
			     void *user)
{
	struct reader reader = { config, say, user, 0 };

	set_defaults(config);
	read_quiet(config, environ);
	read_enable(&reader, environ);
	config->enable = true;
	read_others(&reader, environ);
}

/* ---- questions ---- */

int pfw_config_ranks_hold(const char *ranks, uint64_t rank)
{
	bool held = false;

	for (;; ranks++) {
		uint64_t first, last;

		ranks = pfw_text_u64(ranks, &first);
		last = first;
		if (ranks && *ranks == '-')
			ranks = pfw_text_u64(ranks + 1, &last);
		if (!ranks || first > last || last > RANK_MAX)
			return -EINVAL;
		held |= first <= rank && rank <= last;
		if (*ranks == '\0')
			return held;
		if (*ranks != ',')
			return -EINVAL;
	}
}

const struct pfw_config_row *pfw_config_rows(size_t *count)
{
	*count = ROW_COUNT;
	return rows;
}

const char *pfw_config_lookup(char *const *environ, const char *name)
{
	size_t bytes = strlen(name);

	for (; *environ; environ++) {
		if (strncmp(*environ, name, bytes) == 0 && (*environ)[bytes] == '=')
			return *environ + bytes + 1;
	}
	return NULL;
}

static void add_bytes_value(struct pfw_text *text, uint64_t bytes)
{
	const char *unit = bytes % MIB == 0 ? "MiB" : bytes % KIB == 0 ? "KiB" : "";

	pfw_text_add_u64(text,
			 bytes % MIB == 0   ? bytes / MIB
			 : bytes % KIB == 0 ? bytes / KIB
					    : bytes,
			 1);
	pfw_text_add(text, unit);
}

bool pfw_config_value(const struct pfw_config_row *row, char *const *environ, char *buf,
		      size_t size)
{
	const char *value = pfw_config_lookup(environ, row->name);
	size_t index = find_row(row->name, strlen(row->name));
	struct pfw_config config;
	struct pfw_text text;

	pfw_text_init(&text, buf, size);
	set_defaults(&config);
	if (!value || *value == '\0' || row->state != PFW_CONFIG_BUILT ||
	    parse_row(&config, index, value) != PARSED) {
		pfw_text_add(&text, row->fallback);
		return false;
	}
	if (rules[index].parse == parse_flag)
		pfw_text_add(&text, *((bool *)((char *)&config + rules[index].field)) ? "1" : "0");
	else if (rules[index].parse == parse_ring_bytes || rules[index].parse == parse_buffer_bytes)
		add_bytes_value(&text, *(uint64_t *)((char *)&config + rules[index].field));
	else
		pfw_text_add(&text, value);
	return true;
}
