/* tools/config.c - `pfw config`: prints the variables and their values, or compiler flags. */
#include <limits.h>
#include <string.h>

#include "common/settings/config.h"
#include "store/json/print.h"
#include "ui/cli.h"
#include "ui/fit.h"

extern char **environ;

#define INDENT 6
#define LINE_BYTES 1024
#define VALUE_BYTES 4096

static void keep_line(void *user, const char *line)
{
	snprintf(user, LINE_BYTES, "%s", line);
}

/* Check one entry of the environment alone, so that the message is about it. */
static bool find_problem(char problem[LINE_BYTES], const char *entry)
{
	char *const alone[] = { (char *)entry, NULL };
	struct pfw_config config;

	problem[0] = '\0';
	pfw_config_read_enabled(&config, alone, keep_line, problem);
	return problem[0] != '\0';
}

static bool find_problem_of_row(char problem[LINE_BYTES], const struct pfw_config_row *row)
{
	const char *value = pfw_config_lookup(environ, row->name);

	problem[0] = '\0';
	return value && find_problem(problem, value - strlen(row->name) - 1);
}

static bool is_row(const char *entry)
{
	size_t count;
	const struct pfw_config_row *rows = pfw_config_rows(&count);
	size_t bytes = strcspn(entry, "=");

	for (size_t i = 0; i < count; i++) {
		/* NAME_* stands for all names with that prefix */
		size_t same = strcspn(rows[i].name, "*");

		if ((rows[i].name[same] ? same <= bytes : same == bytes) &&
		    memcmp(rows[i].name, entry, same) == 0)
			return true;
	}
	return false;
}

/* The next entry of the environment with an unknown variable of ours; NULL at the end. */
static const char *next_unknown(char *const **entries, char problem[LINE_BYTES])
{
	while (**entries) {
		const char *entry = *(*entries)++;

		if (!is_row(entry) && find_problem(problem, entry))
			return entry;
	}
	return NULL;
}

/* ---- for people ---- */

static bool print_text_row(const struct pfw_config_row *row)
{
	bool coloured = cli_colours(stdout);
	char value[VALUE_BYTES], text[LINE_BYTES];
	bool set = pfw_config_value(row, environ, value, sizeof(value));
	char problem[LINE_BYTES];
	bool bad = find_problem_of_row(problem, row);

	printf("%c %s%s%s = %s", set ? '*' : ' ', cli_style(coloured, CLI_BOLD), row->name,
	       cli_style(coloured, CLI_PLAIN), cli_name(value));
	if (set)
		printf("   (default %s)", row->fallback);
	putchar('\n');
	if (bad)
		printf("%*s%s", INDENT, "", cli_style(coloured, CLI_YELLOW));
	fit_words(stdout, INDENT, INDENT, "%s", cli_name(problem));
	fputs(cli_style(coloured, CLI_PLAIN), stdout);
	snprintf(text, sizeof(text), "%s Takes %s.", row->meaning, row->accepts);
	printf("%*s", INDENT, "");
	cli_wrapped(stdout, row->state == PFW_CONFIG_IGNORED ? row->meaning : text, INDENT, INDENT,
		    CLI_WIDTH);
	return bad;
}

static int print_text(void)
{
	size_t count;
	const struct pfw_config_row *rows = pfw_config_rows(&count);
	char problem[LINE_BYTES];
	bool bad = false;

	for (size_t i = 0; i < count; i++) {
		if (i == 0 || rows[i].state != rows[i - 1].state)
			printf("%s%s\n\n", i == 0 ? "" : "\n",
			       rows[i].state == PFW_CONFIG_IGNORED
				       ? "DFTracer's, ignored: answered with a line when set"
				       : "Variables (* = set)");
		bad |= print_text_row(&rows[i]);
	}
	for (char *const *entries = environ; next_unknown(&entries, problem);) {
		printf("\n%s\n", cli_name(problem));
		bad = true;
	}
	return bad ? CLI_PROBLEMS : CLI_OK;
}

/* ---- for programs ---- */

static void print_default(struct pfw_printer *json, const char *key, const char *text)
{
	pfw_print(json, "'%s':%s", key, strcmp(text, "unset") == 0 ? NULL : text);
}

static bool print_ndjson_row(const struct pfw_config_row *row)
{
	struct pfw_printer json = { .out = stdout };
	char value[VALUE_BYTES];
	bool set = pfw_config_value(row, environ, value, sizeof(value));
	char problem[LINE_BYTES];
	bool bad = find_problem_of_row(problem, row);

	pfw_print(&json, "{'name':%s", row->name);
	if (set)
		pfw_print(&json, "'value':%s", value);
	else
		print_default(&json, "value", value);
	pfw_print(&json, set ? "'set':true" : "'set':false");
	print_default(&json, "default", row->fallback);
	pfw_print(&json, "'accepts':%s,'meaning':%s,'state':%s", row->accepts, row->meaning,
		  row->state == PFW_CONFIG_IGNORED ? "ignored" : "built");
	if (bad)
		pfw_print(&json, "'problem':%s", problem);
	pfw_print(&json, "}\n");
	return bad;
}

static int print_ndjson(void)
{
	size_t count;
	const struct pfw_config_row *rows = pfw_config_rows(&count);
	struct pfw_printer json = { .out = stdout };
	char problem[LINE_BYTES];
	char *const *entries = environ;
	const char *entry;
	bool bad = false;

	for (size_t i = 0; i < count; i++)
		bad |= print_ndjson_row(&rows[i]);
	while ((entry = next_unknown(&entries, problem))) {
		char name[LINE_BYTES];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(entry, "="), entry);
		pfw_print(&json,
			  "{'name':%s,'value':%s,'set':true,'state':'unknown','problem':%s}\n",
			  name, strchr(entry, '=') + 1, problem);
		bad = true;
	}
	return bad ? CLI_PROBLEMS : CLI_OK;
}

/* ---- for docs/variables.rst ---- */

static bool is_word_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

#define RST_INDENT "       " /* of a cell */
#define RST_WIDTH 114

/* Escape plain text for reStructuredText, in lines of that width; `code` gets double backquotes. */
static void print_rst(const char *text, size_t column)
{
	for (; *text != '\0'; text++, column++) {
		if (*text == ' ' && column + strcspn(text + 1, " ") > RST_WIDTH) {
			fputs("\n" RST_INDENT, stdout);
			column = sizeof(RST_INDENT) - 2;
			continue;
		}
		if (*text == '`')
			putchar('`');
		else if (strchr("*|\\", *text) || (*text == '_' && !is_word_byte(text[1])))
			putchar('\\');
		putchar(*text);
	}
	putchar('\n');
}

static void print_rst_row(const struct pfw_config_row *row)
{
	bool unset = strcmp(row->fallback, "unset") == 0;

	printf("   * - ``%s``\n     - ", row->name);
	print_rst(row->accepts, sizeof(RST_INDENT));
	printf(unset ? "     - %s\n     - " : "     - ``%s``\n     - ", row->fallback);
	if (row->state == PFW_CONFIG_IGNORED)
		fputs("*Ignored:* ", stdout);
	print_rst(row->meaning, sizeof(RST_INDENT "*Ignored:*"));
}

static int print_rst_table(void)
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
	      stdout);
	for (size_t i = 0; i < count; i++)
		print_rst_row(&rows[i]);
	return CLI_OK;
}

/* ---- for compilers ---- */

struct config {
	int format;
	unsigned wanted; /* places, as bits */
};

enum { OPTION_CFLAGS, OPTION_LIBS, OPTION_PRELOAD, OPTION_CMAKE, OPTION_END };

static const struct cli_option options[] = {
	{ "format", 0, "text|ndjson|rst",
	  "a table, one JSON object per variable, or the table of docs/variables.rst",
	  CLI_INTO(struct config, format) },
	{ "cflags", 0, NULL, "print the compiler options for pfw/pfw.h", .id = OPTION_CFLAGS },
	{ "libs", 0, NULL, "print the linker options for libpfw", .id = OPTION_LIBS },
	{ "preload", 0, NULL, "print the path of libpfw_preload.so, for LD_PRELOAD",
	  .id = OPTION_PRELOAD },
	{ "cmake-dir", 0, NULL,
	  "print the directory for CMake's find_package(pfw): -Dpfw_DIR=", .id = OPTION_CMAKE },
	{ 0 },
};

/* --as-needed would drop libpfw for weak references, or if it is named before the sources. */
#define LINK_LIBPFW "-Wl,--push-state,--no-as-needed -lpfw -Wl,--pop-state"

static void print_place(int option, const char *libraries, const char *prefix)
{
	if (option == OPTION_PRELOAD)
		printf("%s/libpfw_preload.so\n", libraries);
	else if (option == OPTION_CFLAGS)
		printf("-I%s/include\n", prefix);
	else if (option == OPTION_CMAKE)
		printf("%s/cmake/pfw\n", libraries);
	else
		printf("-L%s -Wl,-rpath,%s " LINK_LIBPFW "\n", libraries, libraries);
}

/* Print a line for each given option, in the order of the table. */
static int print_places(const struct cli_command *command, unsigned wanted)
{
	char libraries[PATH_MAX], prefix[PATH_MAX];

	if (!cli_find_libraries(libraries, prefix)) {
		cli_error(command->name, "libpfw_preload.so is neither in ../lib beside pfw nor in "
					 "/usr/lib or /usr/local/lib");
		return CLI_PROBLEMS;
	}
	for (int option = OPTION_CFLAGS; option < OPTION_END; option++) {
		if (wanted & 1u << option)
			print_place(option, libraries, prefix);
	}
	return CLI_OK;
}

/* Take an option that asks for a place. */
static int take_place(void *user, const struct cli_args *args, int option)
{
	struct config *config = user;

	(void)args;
	config->wanted |= 1u << option;
	return 0;
}

static int config_main(const struct cli_command *command, int argc, char **argv)
{
	struct config config = { .format = CLI_TEXT };
	struct cli_args args;
	int status = cli_read(&args, command, argc, argv, &config, take_place);

	if (status >= 0)
		return status;
	if (config.wanted)
		status = print_places(command, config.wanted);
	else
		status = (config.format == CLI_TEXT	? print_text
			  : config.format == CLI_NDJSON ? print_ndjson
							: print_rst_table)();
	return cli_finish(stdout, command, status);
}

const struct cli_command cli_config = {
	.name = "config",
	.operands = "",
	.summary = "List the variables, their meaning and their present values",
	.options = options,
	.main = config_main,
	.details = "exit status: 0 ok, 1 a variable has a bad value or an unknown name\n",
};
