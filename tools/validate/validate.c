/* tools/validate/validate.c - `pfw validate`: checks every line of traces, and for missing ones. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/text.h"
#include "share/adopt.h"
#include "share/survey.h"
#include "store/index/build.h"
#include "store/json/print.h"
#include "store/manifest/manifest.h"
#include "store/traces/paths.h"
#include "ui/cli.h"
#include "validate/validate.h"

/* Print a problem; line 0 and VALIDATE_NO_PLACE: unknown place. */
static void print_problem(const struct validate *check, uint64_t line, uint64_t at,
			  const char *text)
{
	struct pfw_printer json = { .out = stdout };

	if (check->format == CLI_NDJSON) {
		pfw_print(&json, "{'file':%s", check->scan.path);
		if (line)
			pfw_print(&json, "'line':%" PRIu64, line);
		if (at != VALIDATE_NO_PLACE)
			pfw_print(&json, "'byte':%" PRIu64, at);
		pfw_print(&json, "'problem':%s}\n", text);
	} else if (line) {
		printf("%s:%" PRIu64 ": %s\n", check->name, line, text);
	} else if (at != VALIDATE_NO_PLACE) {
		printf("%s: byte %" PRIu64 ": %s\n", check->name, at, text);
	} else {
		printf("%s: %s\n", check->name, text);
	}
}

static void say(struct validate *check, uint64_t line, uint64_t at, const char *format,
		va_list values)
{
	char text[512];

	if (++check->file.problems > VALIDATE_SHOWN)
		return;
	vsnprintf(text, sizeof(text), format, values);
	print_problem(check, line, at, text);
}

void validate_say_line(struct validate *check, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	say(check, check->scan.line, check->scan.at, format, values);
	va_end(values);
}

void validate_say_file(struct validate *check, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	say(check, 0, VALIDATE_NO_PLACE, format, values);
	va_end(values);
}

void validate_say_place(struct validate *check, uint64_t at, const char *text)
{
	if (++check->file.problems <= VALIDATE_SHOWN)
		print_problem(check, 0, at, text);
}

/* Print the line of one file; path NULL: of all files. */
static void print_summary(const struct validate *check, const char *name, const char *path,
			  const struct validate_tally *tally)
{
	const char *begin = cli_style(check->colours, tally->problems ? CLI_RED : CLI_GREEN);
	const char *end = cli_style(check->colours, CLI_PLAIN);
	struct pfw_printer json = { .out = stdout };

	if (check->format == CLI_NDJSON) {
		pfw_print(&json, "{'file':%s", path);
		if (!path)
			pfw_print(&json, "'files':%" PRIu64, tally->files);
		pfw_print(&json,
			  "'lines':%" PRIu64 ",'events':%" PRIu64 ",'lost':%" PRIu64
			  ",'waited':%" PRIu64 ",'waited_us':%" PRIu64
			  ",'io_uring_operations':%" PRIu64 ",'aio_contexts':%" PRIu64
			  ",'early_calls':%" PRIu64 ",'aggregates':%" PRIu64 ",'gpu_us':%" PRIu64
			  ",'running':%" PRIu64 ",'problems':%" PRIu64 "}\n",
			  tally->lines, tally->events, tally->lost, tally->said.waited,
			  tally->said.waited_us, tally->said.uring_operations,
			  tally->said.aio_contexts, tally->said.early_calls, tally->aggregates,
			  tally->said.gpu_us, tally->running, tally->problems);
		return;
	}
	printf("%s: ", name);
	if (tally->problems)
		printf("%s%s problem%s%s", begin, cli_count(tally->problems),
		       cli_plural(tally->problems), end);
	else
		printf("%sok%s", begin, end);
	printf(", %s line%s, %s event%s, ", cli_count(tally->lines), cli_plural(tally->lines),
	       cli_count(tally->events), cli_plural(tally->events));
	if (tally->lost)
		printf("%s%s lost%s", cli_style(check->colours, CLI_YELLOW), cli_count(tally->lost),
		       end);
	else
		printf("nothing lost");
	if (tally->said.waited)
		printf(", threads waited %s time%s (%s)", cli_count(tally->said.waited),
		       cli_plural(tally->said.waited),
		       cli_seconds((int64_t)tally->said.waited_us * 1000));
	if (tally->said.uring_operations)
		printf(", %s operation%s of io_uring not recorded",
		       cli_count(tally->said.uring_operations),
		       cli_plural(tally->said.uring_operations));
	if (tally->said.aio_contexts)
		printf(", %s AIO context%s not recorded", cli_count(tally->said.aio_contexts),
		       cli_plural(tally->said.aio_contexts));
	if (tally->said.early_calls)
		printf(", %s call%s before the start not recorded",
		       cli_count(tally->said.early_calls), cli_plural(tally->said.early_calls));
	if (tally->aggregates)
		printf(", %s call%s summed by DFTracer, which other commands do not count",
		       cli_count(tally->aggregates), cli_plural(tally->aggregates));
	if (tally->said.gpu_us)
		printf(", GPU work of the last %s before the kill not recorded",
		       cli_seconds((int64_t)tally->said.gpu_us * 1000));
	if (tally->running)
		fputs(", still being written", stdout);
	putchar('\n');
}

/* ---- one file ---- */

static void add_tally(struct validate_tally *sum, const struct validate_tally *one)
{
	sum->files++;
	sum->lines += one->lines;
	sum->running += one->running;
	sum->events += one->events;
	sum->lost += one->lost;
	sum->aggregates += one->aggregates;
	merged_said_add(&sum->said, &one->said);
	sum->problems += one->problems;
}

/* Report a file that cannot be opened. */
static void unusable(struct validate *check, const char *path, const char *why)
{
	cli_error(check->command->name, "%s: %s", cli_name(path), why);
	check->status = CLI_USAGE;
}

static const char *open_error(int error)
{
	return error == -ENODEV ? "a device or a socket, not a trace" : strerror(-error);
}

/* Whether there is nothing to say of a file but how long it is. */
static bool in_order(const struct validate_tally *file)
{
	return !file->problems && !file->lost && !file->running && !file->said.uring_operations &&
	       !file->said.aio_contexts && !file->said.early_calls && !file->aggregates &&
	       !file->said.gpu_us;
}

static void finish_file(struct validate *check)
{
	if (check->file.problems > VALIDATE_SHOWN && check->format == CLI_TEXT)
		printf("%s: %s more problem%s\n", check->name,
		       cli_count(check->file.problems - VALIDATE_SHOWN),
		       cli_plural(check->file.problems - VALIDATE_SHOWN));
	if (check->few && in_order(&check->file))
		check->unshown++;
	else if (!check->quiet)
		print_summary(check, check->name, check->scan.path, &check->file);
	if (check->file.problems && check->status == CLI_OK)
		check->status = CLI_PROBLEMS;
	add_tally(&check->all, &check->file);
}

/* Open the file, and the unwritten lines of its process. */
static int open_file(struct validate *check, const char *path)
{
	struct adopt_dirs dirs;
	const struct pfw_spool_places spools = { .dir = dirs.dir, .listings = &check->spools };
	int error;

	adopt_dirs_find(&dirs, path);
	if (pfw_unwritten_open(&check->live, path, &spools, check->live_why))
		check->live = NULL;
	error = pfw_unwritten_scan(&check->scan, path, check->live);
	if (error && check->live)
		pfw_unwritten_close(check->live);
	return error;
}

/* Check all of the file's index, if there is one. */
static void check_index(struct validate *check, const char *path)
{
	char how[256];
	bool differs;
	int error = pfw_index_check(path, &differs, how, sizeof(how));

	if (!error && differs)
		validate_say_file(check, "its index is wrong (%s): `pfw index` makes it again",
				  how);
	else if (error && error != -ENOENT)
		validate_say_file(check, "its index cannot be checked: %s", strerror(-error));
}

static void check_file(struct validate *check, const char *path)
{
	enum pfw_scan_result result;
	char name[8192];
	int error = open_file(check, path);

	if (error) {
		unusable(check, path, open_error(error));
		return;
	}
	snprintf(name, sizeof(name), "%s", strcmp(path, "-") ? cli_name(path) : "standard input");
	check->name = name;
	check->file = (struct validate_tally){ 0 };
	check->reason_count = 0;
	check->any_id = check->ended = check->began = check->stepped = false;
	check->early = 0;
	check->is_merged = strcmp(path, "-") != 0 && merged_open(&check->merged, path);
	while ((result = pfw_scan_next(&check->scan)) != PFW_SCAN_END) {
		const struct pfw_scan_problem *problem = &check->scan.problem;

		if (result == PFW_SCAN_LINE) {
			validate_line(check);
			continue;
		}
		check->ended = false;
		if (++check->file.problems <= VALIDATE_SHOWN)
			print_problem(check, problem->line, problem->at, problem->text);
		if (result == PFW_SCAN_FAILED) {
			check->status = CLI_USAGE;
			break;
		}
	}
	validate_end(check);
	if (!check->live && result == PFW_SCAN_END && strcmp(path, "-")) {
		validate_members(check, path);
		check_index(check, path);
	}
	finish_file(check);
	merged_release(&check->merged);
	pfw_scan_close(&check->scan);
	if (check->live)
		pfw_unwritten_close(check->live);
}

/* ---- the command ---- */

static const struct cli_option options[] = {
	{ "quiet", 'q', NULL, "print problems only, no summary", CLI_INTO(struct validate, quiet) },
	{ "all", 'a', NULL, "a line for each file, also if there are more than 16",
	  CLI_INTO(struct validate, every) },
	{ "format", 0, "text|ndjson", "text, or one JSON object per problem and per file",
	  CLI_INTO(struct validate, format) },
	{ 0 },
};

/* Add the traces of the argument that have no file yet.  Return their number. */
static size_t add_unbegun(struct pfw_paths *paths, const char *argument)
{
	size_t before = paths->count;
	struct adopt_dirs dirs;
	char inside[PATH_MAX];

	/* For a directory: the traces inside, not beside it. */
	snprintf(inside, sizeof(inside), "%s/.", argument);
	adopt_dirs_find(&dirs, access(inside, F_OK) ? argument : inside);
	pfw_unwritten_paths(paths, argument, dirs.dir);
	return paths->count - before;
}

/* ---- manifests ---- */

static void say_manifest(void *user, const char *text)
{
	struct validate *check = user;

	check->file.problems++;
	print_problem(check, 0, VALIDATE_NO_PLACE, text);
}

static void check_manifest(struct validate *check, const char *path)
{
	char name[PATH_MAX];
	int error;

	snprintf(name, sizeof(name), "%s", cli_name(path));
	check->name = name;
	check->scan.path = path;
	check->file = (struct validate_tally){ 0 };
	error = pfw_manifest_check(path, say_manifest, check);
	if (error)
		unusable(check, path, open_error(error));
	else if (check->file.problems && check->status == CLI_OK)
		check->status = CLI_PROBLEMS;
	else if (!check->quiet && !check->file.problems && check->format == CLI_TEXT)
		printf("%s: ok\n", name);
	check->manifests++;
	check->all.problems += check->file.problems;
}

/* Check a manifest, or all manifests of a directory in order of name. */
static void check_manifests(struct validate *check, const char *argument)
{
	char pattern[PATH_MAX];
	struct dirent **entry;
	int count;

	if (pfw_text_ends(argument, PFW_MANIFEST_SUFFIX)) {
		check_manifest(check, argument);
		return;
	}
	count = scandir(argument, &entry, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		if (pfw_text_ends(entry[i]->d_name, PFW_MANIFEST_SUFFIX) &&
		    snprintf(pattern, sizeof(pattern), "%s/%s", argument, entry[i]->d_name) <
			    (int)sizeof(pattern))
			check_manifest(check, pattern);
		free(entry[i]);
	}
	if (count >= 0)
		free(entry);
}

/* A file that cannot be opened is reported when it is checked. */
static void say_shared(void *user, const char *path, const char *why)
{
	struct validate *check = user;
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s", cli_name(path));
	check->name = name;
	check->scan.path = path;
	check->all.problems++;
	if (check->status == CLI_OK)
		check->status = CLI_PROBLEMS;
	print_problem(check, 0, VALIDATE_NO_PLACE, why);
}

/* Other commands read one of several files with the same processes, not if they share only some. */
static void say_doubles(struct validate *check, const struct pfw_paths *paths)
{
	struct pfw_traces traces;

	for (size_t i = 0; i < paths->count; i++) {
		if (strcmp(paths->path[i], "-") == 0) /* it can be read only once */
			return;
	}
	if (paths->count < 2 ||
	    pfw_traces_open(&traces, paths->path, paths->count,
			    PFW_TRACES_ALL_RUNS | PFW_TRACES_HEADS, pfw_traces_say_nothing, NULL))
		return;
	survey_say_doubles(check->command, &traces,
			   check->quiet ? NULL : "left out by other commands", say_shared, check);
	pfw_traces_close(&traces);
}

static int validate_main(const struct cli_command *command, int argc, char **argv)
{
	struct validate check = { .command = command, .colours = cli_colours(stdout) };
	struct pfw_paths paths = { 0 };
	size_t left_out = 0;
	struct cli_args args;
	int status = cli_read(&args, command, argc, argv, &check, NULL);

	if (status >= 0)
		return status;
	for (int i = 0; i < args.operands; i++) {
		const char *why;
		int error = pfw_paths_add(&paths, argv[i], &why);

		if (!add_unbegun(&paths, argv[i]) && error)
			unusable(&check, argv[i], why);
	}
	if (!args.operands && pfw_paths_add_newest(&paths, ".", &left_out) &&
	    !add_unbegun(&paths, "."))
		unusable(&check, ".", "no *.pfw or *.pfw.gz here; name a trace");
	if (left_out && !check.quiet)
		cli_error("validate", "the newest run is taken; %s file%s of older runs left out",
			  cli_count(left_out), cli_plural(left_out));
	for (int i = 0; i < args.operands; i++)
		check_manifests(&check, argv[i]);
	if (args.operands && !paths.count && !check.manifests && check.status == CLI_OK)
		unusable(&check, argv[0], "an index or manifest, not a trace");
	check.few = paths.count > VALIDATE_FILES && check.format == CLI_TEXT && !check.every;
	for (size_t i = 0; i < paths.count; i++)
		check_file(&check, paths.path[i]);
	say_doubles(&check, &paths);
	if (check.unshown && !check.quiet)
		printf("%s of %s files: ok, nothing lost (--all: a line each)\n",
		       cli_count(check.unshown), cli_count(check.all.files));
	if (paths.count > 1 && !check.quiet)
		print_summary(&check, "all", NULL, &check.all);
	pfw_paths_free(&paths);
	pfw_spool_listings_free(&check.spools);
	return cli_finish(stdout, command, check.status);
}

const struct cli_command cli_validate = {
	.name = "validate",
	.operands = "[PATH...]",
	.summary = "Check every line of traces: JSON, keys, types, order, missing and lost events",
	.options = options,
	.failure = CLI_USAGE,
	.main = validate_main,
	.details =
		"PATH is a file (.pfw or .pfw.gz, ours or DFTracer's), a directory, a glob, the\n"
		"base name of a run, or - for standard input; none: the newest run here.  A\n"
		"problem is one line, FILE:LINE: or FILE: byte N:, at most 10 per file; the rest\n"
		"are counted.  Lost events are not problems of the file: the summary counts them.\n"
		"If there are more than 16 files, those without problems are only counted;\n"
		"--all and --format ndjson print a line for each.\n"
		"Events that a process has recorded but not written yet are read with its file.\n"
		"An index is compared with its file, row by row.  In compacted files, order and\n"
		"checksums are checked, too.  A manifest (NAME.manifest.json, and those of a\n"
		"directory) is compared with its files.\n"
		"exit status: 0 ok, 1 problems, 2 something could not be read\n",
};
