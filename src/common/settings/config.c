/* common/settings/config.c - reads, checks and explains the variables; see config.h. */
#include "common/settings/config.h"

#include <string.h>

#include "common/base/text.h"
#include "common/settings/kinds.h"

#define KIB 1024ull
#define MIB (1024ull * 1024)

#define SHOWN_VALUE_MAX 80 /* bytes of a value that a message repeats */
#define LINE_MAX_BYTES 768 /* name, value, meaning: the longest row stays below this */
#define NAME_MAX_BYTES 48  /* longer names are not compared with ours */

/* ---- config.def, once for each table ---- */

#define NO_FIELD SIZE_MAX

struct rule {
	pfw_parse *parse;
	size_t field; /* offset in struct pfw_config, or NO_FIELD */
};

enum {
#define VARIABLE(name, ...) ROW_##name,
#define ACCEPTED(name, ...) ROW_##name,
#define IGNORED(name, why) ROW_##name,
#include "common/settings/config.def"
	ROW_COUNT
};

static const struct pfw_config_row rows[ROW_COUNT] = {
#define VARIABLE(name, kind, field, accepts, fallback, meaning) \
	{ #name, accepts, fallback, meaning, PFW_CONFIG_BUILT },
#define ACCEPTED(name, kind, accepts, fallback, meaning) \
	{ #name, accepts, fallback, meaning, PFW_CONFIG_BUILT },
#define IGNORED(name, why) { #name, "anything", "unset", why, PFW_CONFIG_IGNORED },
#define IGNORED_ALL(name, why) { #name "*", "anything", "unset", why, PFW_CONFIG_IGNORED },
#include "common/settings/config.def"
};

static const struct rule rules[ROW_COUNT] = {
#define VARIABLE(name, kind, field, ...) { pfw_parse_##kind, offsetof(struct pfw_config, field) },
#define ACCEPTED(name, kind, ...) { pfw_parse_##kind, NO_FIELD },
#define IGNORED(name, why) { pfw_parse_text, NO_FIELD },
#include "common/settings/config.def"
};

static const char *const ours[] = {
#define OURS(name) #name,
#include "common/settings/config.def"
};

/* ---- messages ---- */

struct reader {
	struct pfw_config *config;
	pfw_config_say *say;
	void *user;
	bool seen[ROW_COUNT]; /* the first of two entries counts, as for getenv */
};

/* Append a value for a terminal: without control bytes, and cut. */
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

/* Say NAME=VALUE and what is wrong, in up to four parts. */
static void say(const struct reader *reader, const char *name, const char *value,
		const char *const parts[4])
{
	struct pfw_text line;
	char buf[LINE_MAX_BYTES];

	if (!reader->say)
		return;
	pfw_text_init(&line, buf, sizeof(buf));
	add_value(&line, name);
	pfw_text_add(&line, "=");
	add_value(&line, value);
	pfw_text_add(&line, ": ");
	for (unsigned i = 0; i < 4 && parts[i]; i++)
		pfw_text_add(&line, parts[i]);
	reader->say(reader->user, buf);
}

static void say_bad(const struct reader *reader, const struct pfw_config_row *row,
		    const char *value)
{
	bool unset = strcmp(row->fallback, "unset") == 0;
	const char *const parts[4] = { "bad value: takes ", row->accepts,
				       unset ? "; going on as if it were unset"
					     : "; using the default, ",
				       unset ? NULL : row->fallback };

	say(reader, row->name, value, parts);
}

/* Say why it is ignored or has no effect. */
static void say_meaning(const struct reader *reader, const struct pfw_config_row *row,
			const char *value, const char *why)
{
	say(reader, row->name, value, (const char *const[4]){ why, row->meaning });
}

/* ---- "did you mean" ---- */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t pfw_edit_distance(const char *a, const char *b)
{
	uint8_t line[3][NAME_MAX_BYTES + 1];
	size_t a_bytes = strlen(a);
	size_t b_bytes = strlen(b);

	if (a_bytes > NAME_MAX_BYTES || b_bytes > NAME_MAX_BYTES)
		return SIZE_MAX;
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

/* The same, but 1 if one name contains the other (FLUSH, FLUSH_MS). */
static size_t name_distance(const char *a, const char *b)
{
	if (strcmp(a, b) != 0 && strlen(a) >= 4 && (strstr(a, b) || strstr(b, a)))
		return 1;
	return pfw_edit_distance(a, b);
}

/* Length of the prefix PFW_ or DFTRACER_; 0 = none. */
static size_t prefix_bytes(const char *name)
{
	if (strncmp(name, "PFW_", 4) == 0)
		return 4;
	return strncmp(name, "DFTRACER_", 9) == 0 ? 9 : 0;
}

/* The nearest name, or NULL.  A wrong prefix (PFW_LOG_FILE) counts as one edit. */
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

/* `entry` is NAME=VALUE with an unknown name of name_bytes. */
static void say_unknown(const struct reader *reader, const char *entry, size_t name_bytes)
{
	char name[NAME_MAX_BYTES + 1];
	const char *parts[4] = { "unknown variable; `pfw config` lists all" };
	const char *nearest;
	struct pfw_text part;

	if (!reader->say)
		return;
	pfw_text_init(&part, name, sizeof(name));
	pfw_text_add_bytes(&part, entry, name_bytes);
	nearest = part.cut ? NULL : nearest_name(name);
	if (nearest) {
		parts[0] = "unknown variable; did you mean ";
		parts[1] = nearest;
		parts[2] = "?";
	}
	say(reader, name, entry + name_bytes + 1, parts);
}

/* ---- reading ---- */

/* Whether a row's name matches; NAME_* matches all names with that prefix. */
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

static enum pfw_parsed parse_row(struct pfw_config *config, size_t index, const char *value)
{
	const struct rule *rule = &rules[index];
	uint64_t nowhere; /* as large as any field without one */

	if (rule->field == NO_FIELD)
		return rule->parse(value, &nowhere);
	return rule->parse(value, (char *)config + rule->field);
}

static void read_row(struct reader *reader, size_t index, const char *value)
{
	const struct pfw_config_row *row = &rows[index];
	enum pfw_parsed parsed;

	reader->seen[index] = true;
	if (*value == '\0')
		return;
	if (row->state == PFW_CONFIG_IGNORED) {
		say_meaning(reader, row, value, "ignored: ");
		return;
	}
	parsed = parse_row(reader->config, index, value);
	if (parsed == PFW_PARSED_BAD)
		say_bad(reader, row, value);
	else if (parsed == PFW_PARSED_NO_EFFECT)
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

/* Read DFTRACER_ENABLE; and before it, silently, PFW_QUIET, on which say() depends. */
static void read_first(struct reader *reader, char *const *environ)
{
	const char *quiet = pfw_config_lookup(environ, rows[ROW_PFW_QUIET].name);
	const char *enable = pfw_config_lookup(environ, rows[ROW_DFTRACER_ENABLE].name);

	set_defaults(reader->config);
	if (quiet)
		parse_row(reader->config, ROW_PFW_QUIET, quiet);
	reader->config->enable_set = enable && *enable != '\0';
	if (enable)
		read_row(reader, ROW_DFTRACER_ENABLE, enable);
}

static void say_without_effect(const struct reader *reader, char *const *environ, size_t index,
			       const char *why)
{
	const char *name = rows[index].name;

	say(reader, name, pfw_config_lookup(environ, name),
	    (const char *const[4]){ "no effect: ", why });
}

/* Checks of variables that depend on each other. */
static void say_combinations(const struct reader *reader, char *const *environ)
{
	const struct pfw_config *config = reader->config;
	const char *rank = config->rank_var ? pfw_config_lookup(environ, config->rank_var) : NULL;

	if ((config->dump_on.step_thousandths || config->dump_on.call_ns) && !config->keep.bytes)
		say_without_effect(reader, environ, ROW_PFW_DUMP_ON,
				   "nothing is kept to be dumped; set PFW_KEEP=30s");
	if ((config->stack.min_ns || config->stack.every) && !config->metadata)
		say_without_effect(
			reader, environ, ROW_PFW_STACK,
			"DFTRACER_INC_METADATA=0 leaves out all args, so stacks; unset it");
	if (rank && *rank && pfw_config_number(environ, config->rank_var) < 0)
		say(reader, config->rank_var, rank,
		    (const char *const[4]){ "bad value: PFW_RANK_VAR names it, and a rank is "
					    "0..2147483647; going on as if it were unset" });
}

/* Read all variables but DFTRACER_ENABLE, in one pass over the environment. */
static void read_others(struct reader *reader, char *const *environ)
{
	char *const *first = environ;

	for (; environ && *environ; environ++) {
		const char *entry = *environ;
		const char *equals;
		size_t index;

		if (prefix_bytes(entry) == 0 || !(equals = strchr(entry, '=')))
			continue;
		index = find_row(entry, (size_t)(equals - entry));
		if (index < ROW_COUNT && !reader->seen[index])
			read_row(reader, index, equals + 1);
		else if (index == ROW_COUNT && !is_ours(entry, (size_t)(equals - entry)))
			say_unknown(reader, entry, (size_t)(equals - entry));
	}
	say_combinations(reader, first);
}

void pfw_config_read(struct pfw_config *config, char *const *environ, pfw_config_say *say,
		     void *user)
{
	struct reader reader = { .config = config, .say = say, .user = user };

	read_first(&reader, environ);
	if (config->enable)
		read_others(&reader, environ);
}

void pfw_config_read_enabled(struct pfw_config *config, char *const *environ, pfw_config_say *say,
			     void *user)
{
	struct reader reader = { .config = config, .say = say, .user = user };

	read_first(&reader, environ);
	config->enable = true;
	read_others(&reader, environ);
}

/* ---- queries ---- */

const struct pfw_config_row *pfw_config_rows(size_t *count)
{
	*count = ROW_COUNT;
	return rows;
}

const char *pfw_config_lookup(char *const *environ, const char *name)
{
	size_t bytes = strlen(name);

	/* The first byte spares most calls of strncmp(): each start looks up some fifty names. */
	for (; environ && *environ; environ++) {
		if (**environ == *name && strncmp(*environ, name, bytes) == 0 &&
		    (*environ)[bytes] == '=')
			return *environ + bytes + 1;
	}
	return NULL;
}

int32_t pfw_config_number(char *const *environ, const char *name)
{
	const char *text = name ? pfw_config_lookup(environ, name) : NULL;
	const char *end;
	uint64_t value;

	if (!text)
		return -1;
	end = pfw_text_read_u64(text, &value);
	return end && *end == '\0' && value <= INT32_MAX ? (int32_t)value : -1;
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
	    parse_row(&config, index, value) != PFW_PARSED) {
		pfw_text_add(&text, row->fallback);
		return false;
	}
	if (rules[index].parse == pfw_parse_flag)
		pfw_text_add(&text, *((bool *)((char *)&config + rules[index].field)) ? "1" : "0");
	else if (rules[index].parse == pfw_parse_ring_bytes ||
		 rules[index].parse == pfw_parse_buffer_bytes)
		add_bytes_value(&text, *(uint64_t *)((char *)&config + rules[index].field));
	else
		pfw_text_add(&text, value);
	return true;
}
