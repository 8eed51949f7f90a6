/* validate.c - `pfw validate`: is every line of these traces what it must be, and is it all there?
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adopt.h"
#include "cli.h"
#include "store/index_build.h"
#include "store/json_print.h"
#include "store/live.h"
#include "store/manifest.h"
#include "store/paths.h"
#include "store/scan.h"
#include "validate_merged.h"

#define PROBLEMS_SHOWN 10 /* a file; one broken writer makes as many problems as lines */
#define REASONS_MAX 16
#define FORMAT 1 /* of the `process` line */

/* Totals of one `lost` reason: the last line of a reason counts. */
struct lost_reason {
	char name[32];
	uint64_t count;
};

/* One file, or all of them. */
struct tally {
	uint64_t files, lines, events, lost, waited, waited_us, problems;
	uint64_t uring_operations, aio_contexts; /* past libc, and not in the trace */
	uint64_t running;			 /* files whose processes go on */
};

struct check {
	const struct cli_command *command;
	int format;
	bool quiet;
	bool colours;
	int status;
	struct tally all;
	unsigned manifests;
	/* The file in hand. */
	struct pfw_scan scan;
	const char *name; /* as it is printed */
	struct tally file;
	struct lost_reason reason[REASONS_MAX];
	size_t reason_count;
	uint64_t first_id, last_id;
	bool any_id;
	struct pfw_live *live; /* what its process has not written yet; NULL = nothing */
	char live_why[PFW_LIVE_WHY_BYTES]; /* why that cannot be read; "" = there is none */
	bool is_merged;			   /* compacted: of many processes, in order of ts */
	struct merged merged;
	bool ended; /* the last line was an `end` */
	uint64_t end_events, end_lost;
};

/* ---- problems ---- */

#define NO_PLACE UINT64_MAX

static void print_problem(const struct check *check, uint64_t line, uint64_t at, const char *text)
{
	if (check->format == CLI_NDJSON) {
		fputs("{\"file\":", stdout);
		pfw_json_print_string(stdout, check->scan.path);
		if (line)
			printf(",\"line\":%" PRIu64, line);
		if (at != NO_PLACE)
			printf(",\"byte\":%" PRIu64, at);
		fputs(",\"problem\":", stdout);
		pfw_json_print_string(stdout, text);
		puts("}");
	} else if (line) {
		printf("%s:%" PRIu64 ": %s\n", check->name, line, text);
	} else if (at != NO_PLACE) {
		printf("%s: byte %" PRIu64 ": %s\n", check->name, at, text);
	} else {
		printf("%s: %s\n", check->name, text);
	}
}

static void say(struct check *check, uint64_t line, uint64_t at, const char *format, va_list values)
{
	char text[512];

	if (++check->file.problems > PROBLEMS_SHOWN)
		return;
	vsnprintf(text, sizeof(text), format, values);
	print_problem(check, line, at, text);
}

/* Say a problem of the line in hand. */
__attribute__((format(printf, 2, 3))) static void say_line(struct check *check, const char *format,
							   ...)
{
	va_list values;

	va_start(values, format);
	say(check, check->scan.line, check->scan.at, format, values);
	va_end(values);
}

/* Say a problem of the whole file. */
__attribute__((format(printf, 2, 3))) static void say_file(struct check *check, const char *format,
							   ...)
{
	va_list values;

	va_start(values, format);
	say(check, 0, NO_PLACE, format, values);
	va_end(values);
}

/* The names of the keys in a mask, as one text: "`ts`, `dur`". */
static const char *key_list(char *out, size_t size, unsigned mask)
{
	size_t used = 0;

	*out = '\0';
	for (unsigned left = mask; left && used < size; left &= left - 1)
		used += (size_t)snprintf(out + used, size - used, "%s`%s`", used ? ", " : "",
					 pfw_entry_key_name(left & -left));
	return out;
}

/* ---- one line ---- */

#define EVERY_LINE                                                                       \
	(PFW_ENTRY_ID | PFW_ENTRY_NAME | PFW_ENTRY_CAT | PFW_ENTRY_PID | PFW_ENTRY_TID | \
	 PFW_ENTRY_TS | PFW_ENTRY_PH | PFW_ENTRY_ARGS)

/* The keys that this line must have. */
static unsigned required(const struct check *check)
{
	unsigned span = check->scan.entry.ph == 'X' ? PFW_ENTRY_TS | PFW_ENTRY_DUR : 0;

	switch (check->scan.dialect) {
	case PFW_DIALECT_DFTRACER_1:
		return PFW_ENTRY_NAME | PFW_ENTRY_PID | PFW_ENTRY_TID | PFW_ENTRY_PH | span;
	case PFW_DIALECT_DFTRACER_2:
		return PFW_ENTRY_NAME | PFW_ENTRY_CAT | PFW_ENTRY_PID | PFW_ENTRY_TID |
		       PFW_ENTRY_PH | span | (span ? PFW_ENTRY_ID : 0);
	default:
		return EVERY_LINE | span;
	}
}

static void check_keys(struct check *check)
{
	const struct pfw_entry *entry = &check->scan.entry;
	unsigned missing = required(check) & ~(unsigned)entry->has, wrong = entry->wrong;
	char keys[160];

	/* DFTracer 1.x writes numbers as text there. */
	if (check->scan.dialect == PFW_DIALECT_DFTRACER_1)
		wrong &= ~(unsigned)PFW_ENTRY_ID;
	if (missing)
		say_line(check, "no %s", key_list(keys, sizeof(keys), missing));
	if (wrong)
		say_line(check, "%s: a value of the wrong type, or out of range",
			 key_list(keys, sizeof(keys), wrong));
	if (entry->repeated)
		say_line(check, "%s more than once: readers differ in which they take",
			 key_list(keys, sizeof(keys), entry->repeated));
	if (entry->has & ~entry->wrong & PFW_ENTRY_PH &&
	    (entry->ph == '?' ||
	     (check->scan.dialect == PFW_DIALECT_PFW && (entry->ph == 'A' || entry->integer_ph))))
		say_line(check, "`ph` is none of X, i, C, M");
	if (entry->ts_ns < 0)
		say_line(check, "`ts` is negative: before 1970");
	if (entry->dur_ns < 0)
		say_line(check, "`dur` is negative");
}

/* The number behind `key` in the args of the line in hand, or 0. */
static uint64_t arg(const struct check *check, const char *key)
{
	struct pfw_value value;
	int64_t number;

	if (!pfw_object_find(&check->scan.entry.args, key, &value) ||
	    value.type != PFW_VALUE_NUMBER || !pfw_slice_us(&value.text, &number) || number < 0)
		return 0;
	return (uint64_t)number / 1000; /* pfw_slice_us() scales by 1000 */
}

/* A `lost` line: totals since the process began, by reason. */
static void take_lost(struct check *check)
{
	struct pfw_value value;
	char name[sizeof(check->reason->name)] = "?";
	size_t i = 0;

	if (pfw_object_find(&check->scan.entry.args, "reason", &value) &&
	    value.type == PFW_VALUE_STRING)
		pfw_slice_decode(&value.text, name, sizeof(name));
	while (i < check->reason_count && strcmp(check->reason[i].name, name) != 0)
		i++;
	if (i == REASONS_MAX) {
		say_line(check, "`lost` for more reasons than there are");
		return;
	}
	if (i == check->reason_count)
		check->reason_count++;
	memcpy(check->reason[i].name, name, sizeof(name));
	check->reason[i].count = arg(check, "count");
}

static void check_process(struct check *check)
{
	uint64_t format = arg(check, "format");

	if (check->scan.line != 1 && !check->is_merged)
		say_line(check, "a second `process` line: two traces in one file?");
	else if (format != FORMAT)
		say_line(check, "format %" PRIu64 " and this pfw knows %d: take a newer pfw",
			 format, FORMAT);
}

/* What only our own lines promise. */
static void check_ours(struct check *check)
{
	const struct pfw_entry *entry = &check->scan.entry;

	if (entry->has & PFW_ENTRY_DUR && entry->ph != 'X')
		say_line(check, "`dur` in a line that is no span");
	if (entry->comma)
		say_line(check, "a comma behind the object: not JSON Lines");
	if (!check->is_merged && entry->has & ~entry->wrong & PFW_ENTRY_ID) {
		if (check->any_id && entry->id == check->last_id)
			say_line(check, "`id` %" PRIu64 " twice", entry->id);
		else if (check->any_id && entry->id < check->last_id)
			say_line(check, "`id` %" PRIu64 " behind %" PRIu64 ": they must increase",
				 entry->id, check->last_id);
		if (!check->any_id)
			check->first_id = entry->id;
		check->last_id = entry->id;
		check->any_id = true;
	}
	if (check->scan.line == 1 && !pfw_scan_is(&check->scan, "process"))
		say_line(check,
			 "the first line is no `process`: the begin of the trace is missing");
	check->ended = false;
	if (entry->ph != 'M' || !pfw_slice_is(&entry->cat, "pfw"))
		return;
	if (pfw_slice_is(&entry->name, "process")) {
		check_process(check);
	} else if (check->is_merged) {
		return; /* what processes say of themselves is merged_line()'s */
	} else if (pfw_slice_is(&entry->name, "lost")) {
		take_lost(check);
	} else if (pfw_slice_is(&entry->name, "waited")) {
		check->file.waited = arg(check, "count");
		check->file.waited_us = arg(check, "total");
	} else if (pfw_slice_is(&entry->name, "unrecorded")) {
		check->file.uring_operations = arg(check, "io_uring_operations");
		check->file.aio_contexts = arg(check, "aio_contexts");
	} else if (pfw_slice_is(&entry->name, "end")) {
		check->ended = true;
		check->end_events = arg(check, "events");
		check->end_lost = arg(check, "lost");
	}
}

/* What a compacted file promises. */
static void check_merged_line(struct check *check)
{
	const struct pfw_entry *entry = &check->scan.entry;
	const char *what = merged_line(&check->merged, check->scan.text, check->scan.bytes,
				       entry->kind == PFW_ENTRY_EVENT ? entry : NULL);

	if (what)
		say_line(check, "%s", what);
}

static void check_line(struct check *check)
{
	const struct pfw_entry *entry = &check->scan.entry;
	bool ours = check->scan.dialect == PFW_DIALECT_PFW;

	check->file.lines++;
	if (check->is_merged)
		check_merged_line(check);
	if (entry->kind == PFW_ENTRY_EVENT) {
		check->file.events += entry->ph != 'M';
		check_keys(check);
		if (ours)
			check_ours(check);
		return;
	}
	check->ended = false;
	if (entry->kind == PFW_ENTRY_BAD)
		say_line(check, "%s at character %zu%s", entry->why, entry->why_at + 1,
			 check->scan.unterminated ? ": the last line is cut" : "");
	else if (ours)
		say_line(check, entry->kind == PFW_ENTRY_BLANK ? "an empty line"
							       : "`[` or `]`: not JSON Lines");
}

/* ---- one file ---- */

static void check_merged_end(struct check *check)
{
	char text[160];

	for (size_t i = 0; i <= check->merged.count; i++) {
		const char *what = merged_problem(&check->merged, i, text, sizeof(text));

		if (what)
			say_file(check, "%s", what);
	}
	check->file.lost = check->merged.lost;
}

/* What is known once the last line is read. */
static void check_end(struct check *check)
{
	if (check->is_merged) {
		check_merged_end(check);
		return;
	}
	for (size_t i = 0; i < check->reason_count; i++)
		check->file.lost += check->reason[i].count;
	if (!check->scan.line) {
		say_file(check, "empty: its process ended before it wrote anything; `pfw repair` "
				"removes it");
		return;
	}
	if (check->scan.dialect != PFW_DIALECT_PFW)
		return;
	check->file.running = check->live && pfw_live_runs(check->live);
	if (check->file.running)
		return;
	if (!check->ended) {
		say_file(check, "not finished (no `end`): %s",
			 check->live_why[0] ? check->live_why
					    : "still being written, or its process was killed: "
					      "then `pfw repair` finishes it");
		return;
	}
	if (check->live)
		say_file(check,
			 "not finished: its process %d was killed, and its last lines are still in "
			 "%s: `pfw repair` puts them into the file",
			 pfw_live_pid(check->live), cli_name(pfw_live_spool(check->live)));
	/* A trace that goes on in another file (renamed across file systems) counts from the first. */
	if (check->first_id <= 1 && check->end_events != check->file.events)
		say_file(check, "its `end` says %" PRIu64 " events, and there are %" PRIu64,
			 check->end_events, check->file.events);
	if (check->end_lost > check->file.lost)
		check->file.lost = check->end_lost;
}

static void print_summary(const struct check *check, const char *name, const char *path,
			  const struct tally *tally)
{
	const char *begin = cli_style(check->colours, tally->problems ? CLI_RED : CLI_GREEN);
	const char *end = cli_style(check->colours, CLI_PLAIN);

	if (check->format == CLI_NDJSON) {
		fputs("{\"file\":", stdout);
		if (path)
			pfw_json_print_string(stdout, path);
		else
			printf("null,\"files\":%" PRIu64, tally->files);
		printf(",\"lines\":%" PRIu64 ",\"events\":%" PRIu64 ",\"lost\":%" PRIu64
		       ",\"waited\":%" PRIu64 ",\"waited_us\":%" PRIu64
		       ",\"io_uring_operations\":%" PRIu64 ",\"aio_contexts\":%" PRIu64
		       ",\"running\":%" PRIu64 ",\"problems\":%" PRIu64 "}\n",
		       tally->lines, tally->events, tally->lost, tally->waited, tally->waited_us,
		       tally->uring_operations, tally->aio_contexts, tally->running,
		       tally->problems);
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
	if (tally->waited)
		printf(", threads waited %s time%s (%s)", cli_count(tally->waited),
		       cli_plural(tally->waited), cli_seconds((int64_t)tally->waited_us * 1000));
	if (tally->uring_operations)
		printf(", %s operation%s of io_uring not recorded",
		       cli_count(tally->uring_operations), cli_plural(tally->uring_operations));
	if (tally->aio_contexts)
		printf(", %s AIO context%s not recorded", cli_count(tally->aio_contexts),
		       cli_plural(tally->aio_contexts));
	if (tally->running)
		fputs(", still being written", stdout);
	putchar('\n');
}

static void add_tally(struct tally *sum, const struct tally *one)
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
static void unusable(struct check *check, const char *path, const char *why)
{
	cli_error(check->command->name, "%s: %s", cli_name(path), why);
	check->status = CLI_USAGE;
}

static const char *open_error(int error)
{
	return error == -ENODEV ? "a device or a socket, not a trace" : strerror(-error);
}

static void finish_file(struct check *check)
{
	if (check->file.problems > PROBLEMS_SHOWN && check->format == CLI_TEXT)
		printf("%s: %s more problem%s\n", check->name,
		       cli_count(check->file.problems - PROBLEMS_SHOWN),
		       cli_plural(check->file.problems - PROBLEMS_SHOWN));
	if (!check->quiet)
		print_summary(check, check->name, check->scan.path, &check->file);
	if (check->file.problems && check->status == CLI_OK)
		check->status = CLI_PROBLEMS;
	add_tally(&check->all, &check->file);
}

/* Open the file, and what its process has not written yet. */
static int open_file(struct check *check, const char *path)
{
	struct adopt_dirs dirs;
	int error;

	adopt_dirs_find(&dirs, path);
	if (pfw_live_open(&check->live, path, dirs.dir, check->live_why))
		check->live = NULL;
	error = pfw_live_scan(&check->scan, path, check->live);
	if (error && check->live)
		pfw_live_close(check->live);
	return error;
}

/* The index beside it, where there is one: all that it says. */
static void check_index(struct check *check, const char *path)
{
	char how[256];
	bool differs;
	int error = pfw_index_check(path, &differs, how, sizeof(how));

	if (!error && differs)
		say_file(check, "its index is wrong (%s): `pfw index` makes it anew", how);
	else if (error && error != -ENOENT)
		say_file(check, "its index cannot be checked: %s", strerror(-error));
}

static void check_file(struct check *check, const char *path)
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
	check->file = (struct tally){ 0 };
	check->reason_count = 0;
	check->any_id = check->ended = false;
	check->is_merged = strcmp(path, "-") != 0 && merged_open(&check->merged, path);
	while ((result = pfw_scan_next(&check->scan)) != PFW_SCAN_END) {
		const struct pfw_scan_problem *problem = &check->scan.problem;

		if (result == PFW_SCAN_LINE) {
			check_line(check);
			continue;
		}
		check->ended = false;
		if (++check->file.problems <= PROBLEMS_SHOWN)
			print_problem(check, problem->line, problem->at, problem->text);
		if (result == PFW_SCAN_FAILED) {
			check->status = CLI_USAGE;
			break;
		}
	}
	check_end(check);
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
	struct check *check = user;

	check->file.problems++;
	print_problem(check, 0, NO_PLACE, text);
}

static void check_manifest(struct check *check, const char *path)
{
	char name[PATH_MAX];
	int error;

	snprintf(name, sizeof(name), "%s", cli_name(path));
	check->name = name;
	check->scan.path = path;
	check->file = (struct tally){ 0 };
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
static void check_manifests(struct check *check, const char *argument)
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

static void add_argument(struct check *check, struct pfw_paths *paths, const char *argument)
{
	const char *why;
	int error = pfw_paths_add(paths, argument, &why);

	if (!add_unbegun(paths, argument) && error)
		unusable(check, argument, why);
}

static int validate(const struct cli_command *command, int argc, char **argv)
{
	struct check check = { .command = command, .colours = cli_colours(stdout) };
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
		print_summary(&check, "all", NULL, &check.all);
	pfw_paths_free(&paths);
	return cli_finish(stdout, command, check.status);
}

const struct cli_command cli_validate = {
	.name = "validate",
	.operands = "[PATH...]",
	.summary = "Check every line of traces: JSON, keys, types, order, what is missing or lost",
	.options = options,
	.failure = CLI_USAGE,
	.main = validate,
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
