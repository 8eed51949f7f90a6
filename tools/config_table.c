/* config_table.c - prints the rows of config.def.  See config_table.h. */
#include "config_table.h"

#include <stdbool.h>
#include <string.h>

#include "config.h"
#include "store/json_print.h"

#define INDENT 6
#define LINE_BYTES 1024
#define VALUE_BYTES 4096

/* What pfw_config_read() says of one variable; at most one line. */
struct problem {
	char line[LINE_BYTES];
};

static void keep_line(void *user, const char *line)
{
	struct problem *problem = user;

	snprintf(problem->line, sizeof(problem->line), "%s", line);
}

/* Ask of one entry of the environment alone, so that the line is about that one. */
static bool find_problem(struct problem *problem, const char *entry)
{
	char *const alone[] = { (char *)entry, NULL };
	struct pfw_config config;

	problem->line[0] = '\0';
	pfw_config_read_enabled(&config, alone, keep_line, problem);
	return problem->line[0] != '\0';
}

static bool find_problem_of_row(struct problem *problem, const struct pfw_config_row *row,
				char *const *environ)
{
	const char *value = pfw_config_lookup(environ, row->name);

	problem->line[0] = '\0';
	return value && find_problem(problem, value - strlen(row->name) - 1);
}

static bool is_row(const char *entry)
{
	size_t count;
	const struct pfw_config_row *rows = pfw_config_rows(&count);
	size_t bytes = strcspn(entry, "=");

	for (size_t i = 0; i < count; i++) {
		size_t same = strcspn(rows[i].name, "*"); /* NAME_*: all that begin so */

		if ((rows[i].name[same] ? same <= bytes : same == bytes) &&
		    memcmp(rows[i].name, entry, same) == 0)
			return true;
	}
	return false;
}

/* The next entry of the environment that names a variable which no row knows; NULL at the end. */
static const char *next_unknown(char *const **environ, struct problem *problem)
{
	while (**environ) {
		const char *entry = *(*environ)++;

		if (!is_row(entry) && find_problem(problem, entry))
			return entry;
	}
	return NULL;
}

/* ---- for people ---- */

static const char *heading(enum pfw_config_state state)
{
	switch (state) {
	case PFW_CONFIG_IGNORED:
		return "DFTracer's, ignored: answered with a line when set";
	case PFW_CONFIG_BUILT:
		break;
	}
	return "Variables (* = set)";
}

/* Print text below its heading, broken at spaces before CLI_WIDTH. */
static void print_wrapped(FILE *out, const char *text)
{
	const size_t room = CLI_WIDTH - INDENT;

	while (*text != '\0') {
		size_t bytes = strlen(text);

		if (bytes > room) {
			for (bytes = room; bytes > 0 && text[bytes] != ' '; bytes--)
				;
			if (bytes == 0)
				bytes = strcspn(text, " ");
		}
		fprintf(out, "%*s%.*s\n", INDENT, "", (int)bytes, text);
		text += bytes;
		text += strspn(text, " ");
	}
}

static void print_problem(FILE *out, const struct problem *problem, bool coloured)
{
	fprintf(out, "%*s%s%s%s\n", INDENT, "", cli_style(coloured, CLI_YELLOW),
		cli_name(problem->line), cli_style(coloured, CLI_PLAIN));
}

static bool print_text_row(FILE *out, const struct pfw_config_row *row, char *const *environ)
{
	bool coloured = cli_colours(out);
	char value[VALUE_BYTES], text[LINE_BYTES];
	bool set = pfw_config_value(row, environ, value, sizeof(value));
	struct problem problem;
	bool bad = find_problem_of_row(&problem, row, environ);

	fprintf(out, "%c %s%s%s = %s", set ? '*' : ' ', cli_style(coloured, CLI_BOLD), row->name,
		cli_style(coloured, CLI_PLAIN), cli_name(value));
	if (set)
		fprintf(out, "   (default %s)", row->fallback);
	fputc('\n', out);
	if (bad)
		print_problem(out, &problem, coloured);
	snprintf(text, sizeof(text), "%s Takes %s.", row->meaning, row->accepts);
	print_wrapped(out, row->state == PFW_CONFIG_IGNORED ? row->meaning : text);
	return bad;
}

static int print_text(FILE *out, char *const *environ)
{
	size_t count;
	const struct pfw_config_row *rows = pfw_config_rows(&count);
	struct problem problem;
	bool bad = false;

	for (size_t i = 0; i < count; i++) {
		if (i == 0 || rows[i].state != rows[i - 1].state)
			fprintf(out, "%s%s\n\n", i == 0 ? "" : "\n", heading(rows[i].state));
		bad |= print_text_row(out, &rows[i], environ);
	}
	while (next_unknown(&environ, &problem)) {
		fprintf(out, "\n%s\n", cli_name(problem.line));
		bad = true;
	}
	return bad ? CLI_PROBLEMS : CLI_OK;
}

/* ---- for programs ---- */

static void print_key(FILE *out, const char *key, const char *text)
{
	fprintf(out, ",\"%s\":", key);
	if (text)
		pfw_json_print_string(out, text);
	else
		fputs("null", out);
}

static const char *null_if_unset(const char *text)
{
	return strcmp(text, "unset") == 0 ? NULL : text;
}

static bool print_ndjson_row(FILE *out, const struct pfw_config_row *row, char *const *environ)
{
	static const char *const states[] = {
		[PFW_CONFIG_BUILT] = "built",
		[PFW_CONFIG_IGNORED] = "ignored",
	};
	char value[VALUE_BYTES];
	bool set = pfw_config_value(row, environ, value, sizeof(value));
	struct problem problem;
	bool bad = find_problem_of_row(&problem, row, environ);

	fputs("{\"name\":", out);
	pfw_json_print_string(out, row->name);
	print_key(out, "value", set ? value : null_if_unset(value));
	fprintf(out, ",\"set\":%s", set ? "true" : "false");
	print_key(out, "default", null_if_unset(row->fallback));
	print_key(out, "accepts", row->accepts);
	print_key(out, "meaning", row->meaning);
	print_key(out, "state", states[row->state]);
	if (bad)
		print_key(out, "problem", problem.line);
	fputs("}\n", out);
	return bad;
}

static int print_ndjson(FILE *out, char *const *environ)
{
	size_t count;
	const struct pfw_config_row *rows = pfw_config_rows(&count);
	struct problem problem;
	const char *entry;
	bool bad = false;

	for (size_t i = 0; i < count; i++)
		bad |= print_ndjson_row(out, &rows[i], environ);
	while ((entry = next_unknown(&environ, &problem))) {
		char name[LINE_BYTES];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(entry, "="), entry);
		fputs("{\"name\":", out);
		pfw_json_print_string(out, name);
		print_key(out, "value", strchr(entry, '=') + 1);
		fputs(",\"set\":true", out);
		print_key(out, "state", "unknown");
		print_key(out, "problem", problem.line);
		fputs("}\n", out);
		bad = true;
	}
	return bad ? CLI_PROBLEMS : CLI_OK;
}

/* ---- for README.rst ---- */

static bool is_word_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Plain text as reStructuredText: `code` gets its second pair of ticks, markup is escaped. */
static void print_rst(FILE *out, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == '`')
			fputc('`', out);
		else if (strchr("*|\\", *text) || (*text == '_' && !is_word_byte(text[1])))
			fputc('\\', out);
		fputc(*text, out);
	}
	fputc('\n', out);
}

static void print_rst_row(FILE *out, const struct pfw_config_row *row)
{
	bool unset = strcmp(row->fallback, "unset") == 0;

	fprintf(out, "   * - ``%s``\n     - ", row->name);
	print_rst(out, row->accepts);
	fprintf(out, unset ? "     - %s\n     - " : "     - ``%s``\n     - ", row->fallback);
	if (row->state == PFW_CONFIG_IGNORED)
		fputs("*Ignored:* ", out);
	print_rst(out, row->meaning);
}

static void print_rst_table(FILE *out)
{
	size_t count;
	const struct pfw_config_row *rows = pfw_config_rows(&count);

	fputs(".. list-table::\n"
	      "   :header-rows: 1\n"
	      "   :widths: 25 20 10 45\n"
	      "\n"
	      "   * - Variable\n"
	      "     - Takes\n"
	      "     - Default\n"
	      "     - Meaning\n",
	      out);
	for (size_t i = 0; i < count; i++)
		print_rst_row(out, &rows[i]);
}

int config_print_table(FILE *out, char *const *environ, enum cli_format format)
{
	switch (format) {
	case CLI_RST:
		print_rst_table(out);
		return CLI_OK;
	case CLI_NDJSON:
		return print_ndjson(out, environ);
	default:
		break;
	}
	return print_text(out, environ);
}
