/* validate.c - `pfw validate`: is every line of these traces what it must be, and is it all there?
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adopt.h"
#include "cli.h"
#include "store/index_build.h"
#include "store/manifest.h"
#include "store/paths.h"
#include "validate.h"

/* ---- one file ---- */

static void add_tally(struct validate_tally *sum, const struct validate_tally *one)
{
	sum->files++;
	sum->lines += one->lines;
	sum->running += one->running;
	sum->events += one->events;
	sum->lost += one->lost;
	sum->waited += one->waited;
	sum->waited_us += one->waited_us;
	sum->uring_operations += one->uring_operations;
	sum->aio_contexts += one->aio_contexts;
	sum->problems += one->problems;
}

/* A file that cannot be opened. */
static void unusable(struct validate *check, const char *path, const char *why)
{
	cli_error(check->command->name, "%s: %s", cli_name(path), why);
	check->status = CLI_USAGE;
}

static const char *open_error(int error)
{
	return error == -ENODEV ? "a device or a socket, not a trace" : strerror(-error);
}

static void finish_file(struct validate *check)
{
	if (check->file.problems > VALIDATE_SHOWN && check->format == CLI_TEXT)
		printf("%s: %s more problem%s\n", check->name,
		       cli_count(check->file.problems - VALIDATE_SHOWN),
		       cli_plural(check->file.problems - VALIDATE_SHOWN));
	if (!check->quiet)
		validate_print_summary(check, check->name, check->scan.path, &check->file);
	if (check->file.problems && check->status == CLI_OK)
		check->status = CLI_PROBLEMS;
	add_tally(&check->all, &check->file);
}

/* Open the file, and what its process has not written yet. */
static int open_file(struct validate *check, const char *path)
{
	struct adopt_dirs dirs;
	const struct pfw_spool_places spools = { .dir = dirs.dir, .listings = &check->spools };
	int error;

	adopt_dirs_find(&dirs, path);
	if (pfw_live_open(&check->live, path, &spools, check->live_why))
		check->live = NULL;
	error = pfw_live_scan(&check->scan, path, check->live);
	if (error && check->live)
		pfw_live_close(check->live);
	return error;
}

/* The index beside it, where there is one: all that it says. */
static void check_index(struct validate *check, const char *path)
{
	char how[256];
	bool differs;
	int error = pfw_index_check(path, &differs, how, sizeof(how));

	if (!error && differs)
		validate_say_file(check, "its index is wrong (%s): `pfw index` makes it anew", how);
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
	check->any_id = check->ended = false;
	check->is_merged = strcmp(path, "-") != 0 && merged_open(&check->merged, path);
	while ((result = pfw_scan_next(&check->scan)) != PFW_SCAN_END) {
		const struct pfw_scan_problem *problem = &check->scan.problem;

		if (result == PFW_SCAN_LINE) {
			validate_line(check);
			continue;
		}
		check->ended = false;
		if (++check->file.problems <= VALIDATE_SHOWN)
			validate_print_problem(check, problem->line, problem->at, problem->text);
		if (result == PFW_SCAN_FAILED) {
			check->status = CLI_USAGE;
			break;
		}
	}
	validate_end(check);
	if (!check->live && result == PFW_SCAN_END && strcmp(path, "-"))
		check_index(check, path);
	finish_file(check);
	merged_release(&check->merged);
	pfw_scan_close(&check->scan);
	if (check->live)
		pfw_live_close(check->live);
}

/* ---- the command ---- */

static const struct cli_option options[] = {
	{ "quiet", 'q', NULL, "print problems only, no summary", 'q' },
	{ "format", 0, "text|ndjson", "one JSON object a problem and a file instead of text", 256 },
	{ 0 },
};

/* The traces that are not on disk yet, of what the argument stands for.  Their number. */
static size_t add_unbegun(struct pfw_paths *paths, const char *argument)
{
	size_t before = paths->count;
	struct adopt_dirs dirs;
	char inside[PATH_MAX];

	/* Of a directory: what lies in it, not beside it. */
	snprintf(inside, sizeof(inside), "%s/.", argument);
	adopt_dirs_find(&dirs, access(inside, F_OK) ? argument : inside);
	pfw_live_paths(paths, argument, dirs.dir);
	return paths->count - before;
}

/* ---- manifests ---- */

static void say_manifest(void *user, const char *text)
{
	struct validate *check = user;

	check->file.problems++;
	validate_print_problem(check, 0, VALIDATE_NO_PLACE, text);
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

static bool is_manifest(const char *path)
{
	size_t bytes = strlen(path), suffix = strlen(PFW_MANIFEST_SUFFIX);

	return bytes > suffix && strcmp(path + bytes - suffix, PFW_MANIFEST_SUFFIX) == 0;
}

/* A manifest, or those of a directory, in order of their names. */
static void check_manifests(struct validate *check, const char *argument)
{
	char pattern[PATH_MAX];
	struct dirent **entry;
	int count;

	if (is_manifest(argument)) {
		check_manifest(check, argument);
		return;
	}
	count = scandir(argument, &entry, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		if (is_manifest(entry[i]->d_name) &&
		    snprintf(pattern, sizeof(pattern), "%s/%s", argument, entry[i]->d_name) <
			    (int)sizeof(pattern))
			check_manifest(check, pattern);
		free(entry[i]);
	}
	if (count >= 0)
		free(entry);
}

static void add_argument(struct validate *check, struct pfw_paths *paths, const char *argument)
{
	const char *why;
	int error = pfw_paths_add(paths, argument, &why);

	if (!add_unbegun(paths, argument) && error)
		unusable(check, argument, why);
}

static int validate_main(const struct cli_command *command, int argc, char **argv)
{
	struct validate check = { .command = command, .colours = cli_colours(stdout) };
	struct pfw_paths paths = { 0 };
	struct cli_args args;
	int option;

	cli_args_init(&args, command, argc, argv);
	while ((option = cli_next(&args)) >= 0) {
		if (option == 'q')
			check.quiet = true;
		else if ((check.format = cli_format(command, args.value, 2)) < 0)
			return CLI_USAGE;
	}
	if (option != CLI_DONE)
		return cli_ended(&args, option);
	for (int i = 0; i < args.operands; i++)
		add_argument(&check, &paths, argv[i]);
	if (!args.operands && pfw_paths_add_newest(&paths, ".") && !add_unbegun(&paths, "."))
		unusable(&check, ".", "no *.pfw or *.pfw.gz here; name a trace");
	for (int i = 0; i < args.operands; i++)
		check_manifests(&check, argv[i]);
	if (args.operands && !paths.count && !check.manifests && check.status == CLI_OK)
		unusable(&check, argv[0], "an index or manifest, not a trace");
	for (size_t i = 0; i < paths.count; i++)
		check_file(&check, paths.path[i]);
	if (paths.count > 1 && !check.quiet)
		validate_print_summary(&check, "all", NULL, &check.all);
	pfw_paths_free(&paths);
	pfw_spool_listings_free(&check.spools);
	return cli_finish(stdout, command, check.status);
}

const struct cli_command cli_validate = {
	.name = "validate",
	.operands = "[PATH...]",
	.summary = "Check every line of traces: JSON, keys, types, order, what is missing or lost",
	.options = options,
	.failure = CLI_USAGE,
	.main = validate_main,
	.details =
		"PATH is a file (.pfw or .pfw.gz, ours or DFTracer's), a directory, a glob, the\n"
		"base name of a run, or - for standard input; none: the newest run here.\n"
		"A problem is one line, FILE:LINE: or FILE: byte N:, at most 10 a file, the rest\n"
		"counted.  Lost events are no problem of the file: the summary counts them.\n"
		"What a process has recorded and not yet written is read with its file.\n"
		"The index beside a file is compared with it, row by row.  Of a compacted file, order\n"
		"and checksums; of a manifest (NAME.manifest.json, and those of a directory), its files.\n"
		"exit status: 0 ok, 1 problems, 2 something could not be read\n",
};
