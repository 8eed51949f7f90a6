/* cli.c - options, help and messages of all commands; see cli.h. */
#include "cli.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "progress.h"
#include "store/scan.h"

/* ---- options ---- */

void cli_args_init(struct cli_args *args, const struct cli_command *command, int argc, char **argv)
{
	*args = (struct cli_args){ .command = command, .argc = argc, .argv = argv };
}

static int bad(const struct cli_args *args, const char *what, const char *word)
{
	cli_error(args->command->name, "%s %s; `pfw %s --help` lists the options", what,
		  cli_name(word), args->command->name);
	return CLI_BAD;
}

/* The row of that long name, up to a '='; a unique beginning will do. */
static const struct cli_option *find_long(const struct cli_args *args, const char *name,
					  size_t bytes)
{
	const struct cli_option *found = NULL;
	int count = 0;

	for (const struct cli_option *row = args->command->options; row->name; row++) {
		if (strncmp(row->name, name, bytes) != 0)
			continue;
		if (row->name[bytes] == '\0')
			return row;
		found = row;
		count++;
	}
	return count == 1 && bytes > 1 ? found : NULL;
}

static const struct cli_option *find_letter(const struct cli_args *args, char letter)
{
	for (const struct cli_option *row = args->command->options; row->name; row++) {
		if (row->letter && row->letter == letter)
			return row;
	}
	return NULL;
}

/* The argument that a row wants stands in the next word. */
static int next_word(struct cli_args *args, const struct cli_option *row)
{
	if (args->next >= args->argc) {
		cli_error(args->command->name, "--%s wants %s behind it", row->name, row->argument);
		return CLI_BAD;
	}
	args->value = args->argv[args->next++];
	return row->id;
}

static int long_option(struct cli_args *args, const char *word)
{
	const char *equals = strchr(word, '=');
	size_t bytes = equals ? (size_t)(equals - word) : strlen(word);
	const struct cli_option *row;
	char name[64];
	const char *names[32];
	size_t count = 0;

	if (strcmp(word, "help") == 0) {
		cli_help(stdout, args->command);
		return CLI_HELP;
	}
	row = find_long(args, word, bytes);
	if (row && !equals)
		return row->argument ? next_word(args, row) : row->id;
	if (row && row->argument) {
		args->value = equals + 1;
		return row->id;
	}
	if (row)
		return bad(args, "no argument belongs to option", word - 2);
	snprintf(name, sizeof(name), "%.*s", (int)(bytes < 60 ? bytes : 60), word);
	for (row = args->command->options; row->name && count < CLI_ARRAY_LEN(names) - 1; row++)
		names[count++] = row->name;
	names[count] = NULL;
	if (!cli_nearest(name, names))
		return bad(args, "there is no option", word - 2);
	cli_error(args->command->name, "there is no option --%s; did you mean --%s?",
		  cli_name(name), cli_nearest(name, names));
	return CLI_BAD;
}

/* One letter of a word like -qo. */
static int short_option(struct cli_args *args)
{
	const char *at = args->rest;
	const struct cli_option *row = find_letter(args, *at);
	char word[3] = { '-', *at, '\0' };

	if (!row && *at == 'h') {
		cli_help(stdout, args->command);
		return CLI_HELP;
	}
	if (!row)
		return bad(args, "there is no option", word);
	args->rest = at[1] ? at + 1 : NULL;
	if (!row->argument)
		return row->id;
	if (!args->rest)
		return next_word(args, row);
	args->value = args->rest;
	args->rest = NULL;
	return row->id;
}

int cli_next(struct cli_args *args)
{
	if (args->rest)
		return short_option(args);
	while (args->next < args->argc) {
		char *word = args->argv[args->next];

		if (args->literal || word[0] != '-' || word[1] == '\0') {
			if (args->command->stops)
				return CLI_DONE;
			args->argv[args->operands++] = word;
			args->next++;
			continue;
		}
		/* `pfw run -m pkg`: the program's own words begin here. */
		if (args->command->stops && strcmp(word, "-m") == 0)
			return CLI_DONE;
		args->next++;
		if (strcmp(word, "--") == 0) {
			args->literal = true;
			args->before = args->operands;
			continue;
		}
		if (word[1] == '-')
			return long_option(args, word + 2);
		args->rest = word + 1;
		return short_option(args);
	}
	return CLI_DONE;
}

int cli_take_options(struct cli_args *args, void *user,
		     int (*take)(void *user, const struct cli_args *args, int option))
{
	int option;

	while ((option = cli_next(args)) != CLI_DONE) {
		if (option == CLI_BAD || option == CLI_HELP)
			return cli_ended(args, option);
		if (take(user, args, option))
			return CLI_USAGE;
	}
	return -1;
}

int cli_whole(const struct cli_command *command, const char *name, const char *text, int64_t least,
	      int64_t most, int64_t *number)
{
	const char *digits = text + (*text == '-');
	char limit[32] = "";
	char *end;

	errno = 0;
	*number = strtoll(text, &end, 10);
	if (*digits >= '0' && *digits <= '9' && !*end && !errno && *number >= least &&
	    *number <= most)
		return 0;
	if (most < INT32_MAX)
		snprintf(limit, sizeof(limit), " to %" PRId64, most);
	if (least < 0)
		cli_error(command->name, "--%s %s: takes a whole number, -1 for no limit", name,
			  cli_name(text));
	else
		cli_error(command->name, "--%s %s: takes a whole number from %" PRId64 "%s", name,
			  cli_name(text), least, *limit ? limit : " on");
	return -1;
}

int cli_jobs(const struct cli_command *command, const char *text, unsigned most, unsigned *jobs)
{
	int64_t number;

	if (cli_whole(command, "jobs", text, 1, INT32_MAX, &number))
		return -1;
	*jobs = number < most ? (unsigned)number : most;
	return 0;
}

int cli_ended(const struct cli_args *args, int result)
{
	int failure = args->command->failure;

	return result == CLI_HELP ? CLI_OK : failure ? failure : CLI_USAGE;
}

/* ---- help ---- */

/* Text in lines of CLI_WIDTH, the second and later ones `indent` in. */
static void print_wrapped(FILE *out, const char *text, int column, int indent)
{
	while (*text) {
		size_t word = strcspn(text, " ");

		if (column > indent && column + (int)word + 1 > CLI_WIDTH) {
			fprintf(out, "\n%*s", indent, "");
			column = indent;
		} else if (column > indent) {
			fputc(' ', out);
			column++;
		}
		fprintf(out, "%.*s", (int)word, text);
		column += (int)word;
		text += word;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

#define OPTION_COLUMN 28

static void print_option(FILE *out, const struct cli_option *row)
{
	char left[80];
	int used;

	used = snprintf(left, sizeof(left), "  %c%c%s --%s%s%s", row->letter ? '-' : ' ',
			row->letter ? row->letter : ' ', row->letter ? "," : " ", row->name,
			row->argument ? " " : "", row->argument ? row->argument : "");
	fputs(left, out);
	if (used > OPTION_COLUMN - 2)
		fprintf(out, "\n%*s", OPTION_COLUMN, "");
	else
		fprintf(out, "%*s", OPTION_COLUMN - used, "");
	print_wrapped(out, row->help, OPTION_COLUMN, OPTION_COLUMN);
}

void cli_help(FILE *out, const struct cli_command *command)
{
	static const struct cli_option help = { "help", 'h', NULL, "print this help", 'h' };

	fprintf(out, "usage: pfw %s [options] %s\n\n%s.\n\noptions:\n", command->name,
		command->operands, command->summary);
	for (const struct cli_option *row = command->options; row->name; row++)
		print_option(out, row);
	print_option(out, &help);
	if (command->details)
		fprintf(out, "\n%s", command->details);
}

/* ---- messages ---- */

void cli_error(const char *name, const char *format, ...)
{
	char text[8192];
	va_list values;

	va_start(values, format);
	vsnprintf(text, sizeof(text), format, values);
	va_end(values);
	progress_hide();
	fprintf(stderr, "pfw%s%s: %s\n", name ? " " : "", name ? name : "", text);
}

void cli_problem(const char *name, const char *path, const struct pfw_scan_problem *problem)
{
	path = cli_name(path);
	if (problem->line)
		cli_error(name, "%s:%" PRIu64 ": %s", path, problem->line, problem->text);
	else
		cli_error(name, "%s: byte %" PRIu64 ": %s", path, problem->at, problem->text);
}

/* One of four buffers in turn, so that four figures can stand in one printf. */
static char *turn_buffer(size_t size)
{
	static char buffers[4][PATH_MAX + 512];
	static unsigned turn;

	return size <= sizeof(buffers[0]) ? buffers[turn++ % 4] : NULL;
}

const char *cli_name(const char *text)
{
	char *out = turn_buffer(PATH_MAX), *end = out + PATH_MAX + 500;
	char *start = out;
	bool plain = true;

	for (const char *at = text; *at; at++)
		plain = plain && (unsigned char)*at >= 0x20 && *at != 0x7f;
	for (const char *at = text; *at && out < end - 5; at++) {
		if ((unsigned char)*at < 0x20 || *at == 0x7f || (!plain && (*at & 0x80)))
			out += sprintf(out, "\\x%02x", (unsigned char)*at);
		else
			*out++ = *at;
	}
	*out = '\0';
	return start;
}

bool cli_colours(FILE *out)
{
	const char *none = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(fileno(out)) && !(none && *none) && term && strcmp(term, "dumb") != 0;
}

const char *cli_style(bool coloured, enum cli_style style)
{
	static const char *const sequences[] = { "\033[0m",  "\033[1m",	 "\033[31m",
						 "\033[32m", "\033[33m", "\033[2m" };

	return coloured ? sequences[style] : "";
}

const char *cli_count(uint64_t number)
{
	char digits[24], *out = turn_buffer(40), *at = out;
	int count = snprintf(digits, sizeof(digits), "%" PRIu64, number);

	for (int i = 0; i < count; i++) {
		if (i && (count - i) % 3 == 0)
			*at++ = ',';
		*at++ = digits[i];
	}
	*at = '\0';
	return out;
}

const char *cli_bytes(uint64_t bytes)
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB" };
	char *out = turn_buffer(40);
	double size = (double)bytes;
	size_t unit = 0;

	while (size >= 1024 && unit + 1 < CLI_ARRAY_LEN(units)) {
		size /= 1024;
		unit++;
	}
	sprintf(out, unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
	return out;
}

const char *cli_seconds(int64_t ns)
{
	char *out = turn_buffer(40);
	double seconds = ns > 0 ? (double)ns / 1e9 : 0;

	if (seconds < 1)
		sprintf(out, "%.0f ms", seconds * 1e3);
	else if (seconds < 120)
		sprintf(out, "%.2f s", seconds);
	else
		sprintf(out, "%.0f min %.0f s", (double)(int)(seconds / 60),
			seconds - 60 * (double)(int)(seconds / 60));
	return out;
}

const char *cli_plural(uint64_t number)
{
	return number == 1 ? "" : "s";
}

/* ---- the nearest word ---- */

#define WORD_MAX 40

/* Edits between two words, a swap of neighbours counting as one. */
static unsigned distance(const char *a, const char *b)
{
	unsigned rows[3][WORD_MAX + 1];
	size_t m = strlen(a), n = strlen(b);

	if (m > WORD_MAX || n > WORD_MAX)
		return UINT_MAX;
	for (size_t j = 0; j <= n; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= m; i++) {
		unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *two = rows[(i + 1) % 3];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= n; j++) {
			unsigned best = above[j - 1] + (a[i - 1] != b[j - 1]);

			best = above[j] + 1 < best ? above[j] + 1 : best;
			best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    two[j - 2] + 1 < best)
				best = two[j - 2] + 1;
			row[j] = best;
		}
	}
	return rows[m % 3][n];
}

const char *cli_nearest(const char *word, const char *const *names)
{
	const char *nearest = NULL;
	unsigned least = UINT_MAX;

	for (; *names; names++) {
		unsigned edits = distance(word, *names);
		size_t longer = strlen(*names) > strlen(word) ? strlen(*names) : strlen(word);

		/* More than a third of the word is another word. */
		if (edits < least && edits * 3 <= longer) {
			least = edits;
			nearest = *names;
		}
	}
	return nearest;
}

/* ---- output ---- */

int cli_format(const struct cli_command *command, const char *name, int count)
{
	return cli_format_of(command, name, (1u << count) - 1);
}

int cli_format_of(const struct cli_command *command, const char *name, unsigned formats)
{
	static const char *const names[] = { "text", "ndjson", "rst", "csv", "tsv", "md" };
	char accepted[64] = "";

	for (size_t i = 0; i < CLI_ARRAY_LEN(names); i++) {
		if (!(formats & 1u << i))
			continue;
		if (strcmp(name, names[i]) == 0)
			return (int)i;
		strcat(strcat(accepted, *accepted ? ", " : ""), names[i]);
	}
	cli_error(command->name, "--format %s is none of %s", cli_name(name), accepted);
	return -1;
}

int cli_finish(FILE *out, const struct cli_command *command, int status)
{
	progress_hide();
	if (fflush(out) == 0 && !ferror(out))
		return status;
	if (errno == EPIPE) /* `pfw calls | head`: the reader has what it wants */
		return status;
	cli_error(command->name, "the output cannot be written: %s", strerror(errno));
	return CLI_USAGE;
}

/* ---- where things are ---- */

#define PRELOAD "lib/libpfw_preload.so"

/* The match that was written last, of a pattern below `prefix`: several Pythons may share one. */
static bool find_newest(const char *prefix, const char *pattern, char *path, size_t size)
{
	char whole[2 * PATH_MAX + 64];
	struct stat st;
	time_t newest = 0;
	size_t used = 0;
	glob_t found;

	for (const char *at = prefix; *at && used < 2 * PATH_MAX; at++) {
		if (strchr("*?[\\", *at))
			whole[used++] = '\\';
		whole[used++] = *at;
	}
	snprintf(whole + used, sizeof(whole) - used, "/%s", pattern);
	if (glob(whole, 0, NULL, &found) != 0)
		return false;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		if (stat(found.gl_pathv[i], &st) == 0 && st.st_mtime >= newest &&
		    (size_t)snprintf(path, size, "%s", found.gl_pathv[i]) < size)
			newest = st.st_mtime;
	}
	globfree(&found);
	return newest != 0;
}

/* Below the directory that holds the binary's: beside it, or in a Python package, where the binary
 * is the environment's bin/pfw. */
static bool find_below(const char *prefix, char *path, size_t size)
{
	if ((size_t)snprintf(path, size, "%s/" PRELOAD, prefix) < size && access(path, R_OK) == 0)
		return true;
	return find_newest(prefix, "lib/python3*/*-packages/pfw/" PRELOAD, path, size) ||
	       find_newest(prefix, "lib64/python3*/*-packages/pfw/" PRELOAD, path, size) ||
	       find_newest(prefix, "pfw/" PRELOAD, path, size);
}

bool cli_find_preload(char *path, size_t size)
{
	char self[PATH_MAX];
	ssize_t bytes = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (bytes > 0) {
		self[bytes] = '\0';
		*strrchr(self, '/') = '\0'; /* the directory of the binary */
		if (strchr(self, '/')) {
			*strrchr(self, '/') = '\0';
			if (find_below(self, path, size))
				return true;
		}
	}
	if ((size_t)snprintf(path, size, "/usr/" PRELOAD) < size && access(path, R_OK) == 0)
		return true;
	return (size_t)snprintf(path, size, "/usr/local/" PRELOAD) < size &&
	       access(path, R_OK) == 0;
}
