/* tools/repair.c - `pfw repair`: finishes the traces of killed processes from their spools. */
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/text.h"
#include "share/adopt.h"
#include "store/recover/recover.h"
#include "store/traces/ends.h"
#include "store/traces/paths.h"
#include "ui/cli.h"

/* Of more traces, those that are finished are only counted. */
#define TRACES_SHOWN 16u

struct repair {
	const struct cli_command *command;
	bool quiet;
	const char *place; /* where the traces of the spools must be; NULL: anywhere */
	bool every;	   /* --all: ignore other users' spools and live processes */
	int status;
	uint64_t found; /* spools that were examined */
	bool few;	/* count the finished traces instead of naming them */
	uint64_t finished;
	/* The spools for traces in the directory `where`, listed once for all its traces. */
	char where[PATH_MAX], named[PATH_MAX];
	struct pfw_paths spools;
	struct pfw_spool_trace *trace; /* of each of these spools */
};

/* Print a message about a path and raise the exit status to at least `status`. */
__attribute__((format(printf, 4, 5))) static void say(struct repair *repair, int status,
						      const char *path, const char *format, ...)
{
	char text[1024];
	va_list values;

	va_start(values, format);
	vsnprintf(text, sizeof(text), format, values);
	va_end(values);
	cli_error(repair->command->name, "%s: %s", cli_name(path), text);
	if (repair->status < status)
		repair->status = status;
}

static void say_done(const struct repair *repair, const struct pfw_recovery *result)
{
	if (repair->quiet)
		return;
	printf("%s: %s event%s recovered, ", cli_name(result->trace), cli_count(result->recovered),
	       cli_plural(result->recovered));
	if (result->lost)
		printf("%s lost", cli_count(result->lost));
	else
		printf("nothing lost");
	if (result->torn)
		printf(" (%s unfinished)", cli_count(result->torn));
	if (result->cut_bytes)
		printf(", %s of an unfinished write cut off", cli_bytes(result->cut_bytes));
	printf("; process %d was killed, or the disk full\n", result->pid);
}

static void refuse(struct repair *repair, const struct pfw_recovery *result, const char *spool,
		   int status)
{
	say(repair, status, result->trace[0] ? result->trace : spool, "%s",
	    result->why[0] ? result->why : "left alone");
}

static int adopt(const char *spool, void *user)
{
	struct repair *repair = user;
	struct pfw_recovery result;
	struct stat st;

	if (repair->every && lstat(spool, &st) == 0 && st.st_uid != geteuid())
		return 0;
	repair->found++;
	pfw_recover_spool(spool, repair->place, &result);
	switch (result.status) {
	case PFW_RECOVER_DONE:
		say_done(repair, &result);
		break;
	case PFW_RECOVER_NOTHING:
		if (!repair->quiet)
			printf("%s: nothing was missing\n",
			       cli_name(result.trace[0] ? result.trace : spool));
		break;
	case PFW_RECOVER_LIVE:
		if (!repair->every)
			refuse(repair, &result, spool, CLI_PROBLEMS);
		break;
	case PFW_RECOVER_FOREIGN:
		refuse(repair, &result, spool, CLI_PROBLEMS);
		break;
	default:
		refuse(repair, &result, spool, CLI_USAGE);
		break;
	}
	return 0;
}

/* List the spools for traces in the directory of this one. */
static void find_spools(struct repair *repair, const char *trace)
{
	struct adopt_dirs dirs;

	adopt_dirs_find(&dirs, trace);
	if (!strcmp(repair->where, dirs.beside) && !strcmp(repair->named, dirs.named))
		return;
	snprintf(repair->where, sizeof(repair->where), "%s", dirs.beside);
	snprintf(repair->named, sizeof(repair->named), "%s", dirs.named);
	pfw_paths_free(&repair->spools);
	free(repair->trace);
	repair->trace = NULL;
	if (!adopt_spools_find(&repair->spools, &dirs))
		repair->trace = calloc(repair->spools.count + 1, sizeof(*repair->trace));
	if (!repair->trace) {
		say(repair, CLI_USAGE, trace, "no memory for the list of spools");
		pfw_paths_free(&repair->spools);
	}
	for (size_t i = 0; i < repair->spools.count; i++)
		repair->trace[i] = pfw_recover_trace(repair->spools.path[i]);
}

/* Adopt the spools of a trace, which need not exist.  Return their number. */
static uint64_t adopt_of(struct repair *repair, const char *trace)
{
	const struct pfw_spool_trace file = pfw_recover_file(trace);
	uint64_t before = repair->found;

	find_spools(repair, trace);
	repair->place = strcmp(repair->where, ".") == 0 ? "./" : repair->where;
	for (size_t i = 0; i < repair->spools.count; i++)
		if (pfw_recover_may(&repair->trace[i], &file) &&
		    pfw_recover_belongs(repair->spools.path[i], trace, NULL))
			adopt(repair->spools.path[i], repair);
	repair->place = NULL;
	return repair->found - before;
}

/* Report an unreadable spool (other version, damaged) of the trace's process.  False: none. */
static bool refuse_unreadable(struct repair *repair, const struct pfw_trace *trace)
{
	char start[64];

	snprintf(start, sizeof(start), "pfw-%u-%" PRIu64 "-", (unsigned)geteuid(), trace->pid);
	for (size_t i = 0; i < repair->spools.count; i++) {
		const char *slash = strrchr(repair->spools.path[i], '/');
		struct stat st;

		/* Anybody can give a file of his this name. */
		if (slash && !strncmp(slash + 1, start, strlen(start)) &&
		    lstat(repair->spools.path[i], &st) == 0 && st.st_uid == geteuid()) {
			adopt(repair->spools.path[i], repair);
			return true;
		}
	}
	return false;
}

/* Report a trace that has no spool. */
static void judge_trace(struct repair *repair, const char *path)
{
	struct pfw_trace trace;
	int error = pfw_trace_read(&trace, path);

	if (error) {
		say(repair, CLI_USAGE, path, "%s", strerror(-error));
	} else if (!trace.bytes && pfw_trace_remove_empty(path)) {
		if (!repair->quiet)
			printf("%s: empty, removed: its process ended before it wrote anything\n",
			       cli_name(path));
	} else if (!trace.ours) {
		say(repair, CLI_USAGE, path,
		    "not a trace of pfw (its first line is not `process`)");
	} else if (!trace.ended && refuse_unreadable(repair, &trace)) {
		return; /* already reported */
	} else if (!trace.ended) {
		say(repair, CLI_PROBLEMS, path,
		    "not finished, and there is no spool of its process %" PRIu64
		    " here: the process ran on %s, or its spool was removed; the file is valid as "
		    "far as it goes",
		    trace.pid, trace.host[0] ? trace.host : "another host");
	} else if (repair->few) {
		repair->finished++;
	} else if (!repair->quiet) {
		printf("%s: finished, nothing to do\n", cli_name(path));
	}
}

/* Adopt spools of processes that were killed before they made their trace: the argument is the
 * trace's path, its base name or its directory. */
static uint64_t adopt_unbegun(struct repair *repair, const char *argument)
{
	char path[PATH_MAX + 2];
	struct stat st;
	bool there = stat(argument, &st) == 0;

	if (strlen(argument) >= PATH_MAX || strcmp(argument, "-") == 0 ||
	    (there && !S_ISDIR(st.st_mode)))
		return 0;
	snprintf(path, sizeof(path), "%s%s", argument, there ? "/" : "");
	return adopt_of(repair, path);
}

static bool is_spool(const char *path)
{
	return strncmp(pfw_text_base(path), "pfw-", 4) == 0 && strstr(path, ".spool");
}

static void repair_argument(struct repair *repair, const char *argument)
{
	struct pfw_paths paths = { 0 };
	const char *why;
	int error;

	if (is_spool(argument)) {
		adopt(argument, repair);
		return;
	}
	error = pfw_paths_add(&paths, argument, &why);
	repair->few = paths.count > TRACES_SHOWN;
	repair->finished = 0;
	for (size_t i = 0; i < paths.count; i++) {
		if (strcmp(paths.path[i], "-") == 0) {
			say(repair, CLI_USAGE, "-", "a stream cannot be repaired");
		} else if (!adopt_of(repair, paths.path[i])) {
			judge_trace(repair, paths.path[i]);
		}
	}
	if (repair->finished && !repair->quiet)
		printf("%s of %s traces: finished, nothing to do\n", cli_count(repair->finished),
		       cli_count(paths.count));
	if (!adopt_unbegun(repair, argument) && error)
		say(repair, CLI_USAGE, argument, "%s", why);
	pfw_paths_free(&paths);
}

static const struct cli_option options[] = {
	{ "all", 'a', NULL, "adopt every spool of yours on this machine",
	  CLI_INTO(struct repair, every) },
	{ "quiet", 'q', NULL, "print only what could not be done", CLI_INTO(struct repair, quiet) },
	{ 0 },
};

static int repair_main(const struct cli_command *command, int argc, char **argv)
{
	struct repair repair = { .command = command };
	struct adopt_dirs dirs;
	struct cli_args args;
	int status = cli_read(&args, command, argc, argv, &repair, NULL);

	if (status >= 0)
		return status;
	if (!args.operands && !repair.every)
		return cli_error(command->name,
				 "name a trace, its base name, a directory or a spool; or --all");
	signal(SIGXFSZ, SIG_IGN); /* a write beyond RLIMIT_FSIZE is to fail */
	for (int i = 0; i < args.operands; i++)
		repair_argument(&repair, argv[i]);
	if (repair.every) {
		adopt_dirs_find(&dirs, NULL);
		pfw_recover_find(dirs.dir, NULL, NULL, adopt, &repair);
		if (!repair.found && !repair.quiet)
			puts("no spool of yours is left to recover");
	}
	pfw_paths_free(&repair.spools);
	free(repair.trace);
	return cli_finish(stdout, command, repair.status);
}

const struct cli_command cli_repair = {
	.name = "repair",
	.operands = "PATH...",
	.summary = "Finish the traces of killed processes with events that were not written",
	.options = options,
	.failure = CLI_USAGE,
	.main = repair_main,
	.details =
		"PATH is a trace, the base name of a run, a directory, or a spool (pfw-*.spool).\n"
		"Running processes, and spools of another host or boot, are left alone.\n"
		"exit status: 0 done, 1 something was left alone, 2 something is damaged\n",
};
