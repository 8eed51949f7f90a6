/* repair.c - `pfw repair`: finish the traces of killed processes from the spools they left behind.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adopt.h"
#include "cli.h"
#include "store/paths.h"
#include "store/recover.h"
#include "store/trace.h"

struct repair {
	const struct cli_command *command;
	bool quiet;
	bool every; /* --all: others' spools and living processes are none of our business */
	int status;
	uint64_t found; /* spools that were looked at */
	/* Those that there are for traces in the directory `where`: a directory is read once, however
	 * many traces it has. */
	char where[PATH_MAX];
	char **spool;
	size_t spools;
};

static void set_status(struct repair *repair, int status)
{
	if (repair->status < status)
		repair->status = status;
}

/* What was recovered of one trace. */
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
	printf("; process %d was killed\n", result->pid);
}

static void refuse(struct repair *repair, const struct pfw_recovery *result, const char *spool,
		   int status)
{
	const char *what = result->trace[0] ? result->trace : spool;

	cli_error(repair->command->name, "%s: %s", cli_name(what),
		  result->why[0] ? result->why : "left alone");
	set_status(repair, status);
}

static int adopt(const char *spool, void *user)
{
	struct repair *repair = user;
	struct pfw_recovery result;
	struct stat st;

	if (repair->every && stat(spool, &st) == 0 && st.st_uid != geteuid())
		return 0;
	repair->found++;
	pfw_recover_spool(spool, &result);
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

static void forget_spools(struct repair *repair)
{
	for (size_t i = 0; i < repair->spools; i++)
		free(repair->spool[i]);
	free(repair->spool);
	repair->spool = NULL;
	repair->spools = 0;
}

static int keep_spool(const char *spool, void *user)
{
	struct repair *repair = user;
	char **grown = realloc(repair->spool, (repair->spools + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	repair->spool = grown;
	grown[repair->spools] = strdup(spool);
	if (!grown[repair->spools])
		return -ENOMEM;
	repair->spools++;
	return 0;
}

/* Know the spools for traces that lie where this one does. */
static void find_spools(struct repair *repair, const char *trace)
{
	struct adopt_dirs dirs;

	adopt_dirs_find(&dirs, trace);
	if (!strcmp(repair->where, dirs.beside))
		return;
	snprintf(repair->where, sizeof(repair->where), "%s", dirs.beside);
	forget_spools(repair);
	if (pfw_recover_find(dirs.dir, NULL, NULL, keep_spool, repair) < 0) {
		cli_error(repair->command->name, "no memory for the list of spools");
		set_status(repair, CLI_USAGE);
	}
}

/* Adopt the spools that name this trace, whether the trace is there or not. */
static uint64_t adopt_of(struct repair *repair, const char *trace)
{
	uint64_t before = repair->found;

	find_spools(repair, trace);
	for (size_t i = 0; i < repair->spools; i++)
		if (pfw_recover_belongs(repair->spool[i], trace, NULL))
			adopt(repair->spool[i], repair);
	return repair->found - before;
}

/* One of the process that wrote the trace, which does not say whose it is: of another version, or
 * damaged.  False: there is none. */
static bool refuse_unreadable(struct repair *repair, const struct pfw_trace *trace)
{
	char start[64];

	snprintf(start, sizeof(start), "pfw-%u-%" PRIu64 "-", (unsigned)geteuid(), trace->pid);
	for (size_t i = 0; i < repair->spools; i++) {
		const char *slash = strrchr(repair->spool[i], '/');

		if (slash && !strncmp(slash + 1, start, strlen(start)) &&
		    access(repair->spool[i], F_OK) == 0) {
			adopt(repair->spool[i], repair);
			return true;
		}
	}
	return false;
}

/* A trace without a spool: finished, or beyond what can be done here. */
static void judge_trace(struct repair *repair, const char *path)
{
	struct pfw_trace trace;
	int error = pfw_trace_read(&trace, path);

	if (error) {
		cli_error(repair->command->name, "%s: %s", cli_name(path), strerror(-error));
		set_status(repair, CLI_USAGE);
	} else if (!trace.bytes && pfw_trace_remove_empty(path)) {
		if (!repair->quiet)
			printf("%s: empty, removed: its process ended before it wrote anything\n",
			       cli_name(path));
	} else if (!trace.ours) {
		cli_error(repair->command->name,
			  "%s: no trace of ours (its first line is no `process`)", cli_name(path));
		set_status(repair, CLI_USAGE);
	} else if (!trace.ended && refuse_unreadable(repair, &trace)) {
		return; /* said */
	} else if (!trace.ended) {
		cli_error(repair->command->name,
			  "%s: not finished, and there is no spool of its process %" PRIu64
			  " here: it lived on %s, or its spool was removed; what the file holds is "
			  "good",
			  cli_name(path), trace.pid, trace.host[0] ? trace.host : "another host");
		set_status(repair, CLI_PROBLEMS);
	} else if (!repair->quiet) {
		printf("%s: finished, nothing to do\n", cli_name(path));
	}
}

/* Processes that were killed before their trace was begun on disk: of the trace, base name or
 * directory that the argument stands for. */
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
	const char *slash = strrchr(path, '/');

	return strncmp(slash ? slash + 1 : path, "pfw-", 4) == 0 && strstr(path, ".spool");
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
	for (size_t i = 0; i < paths.count; i++) {
		if (strcmp(paths.path[i], "-") == 0) {
			cli_error(repair->command->name, "-: a stream cannot be repaired");
			set_status(repair, CLI_USAGE);
		} else if (!adopt_of(repair, paths.path[i])) {
			judge_trace(repair, paths.path[i]);
		}
	}
	if (!adopt_unbegun(repair, argument) && error) {
		cli_error(repair->command->name, "%s: %s", cli_name(argument), why);
		set_status(repair, CLI_USAGE);
	}
	pfw_paths_free(&paths);
}

static const struct cli_option options[] = {
	{ "all", 'a', NULL, "adopt every spool of yours on this machine", 'a' },
	{ "quiet", 'q', NULL, "say only what could not be done", 'q' },
	{ 0 },
};

static int repair_main(const struct cli_command *command, int argc, char **argv)
{
	struct repair repair = { .command = command };
	struct adopt_dirs dirs;
	struct cli_args args;
	int option;

	cli_args_init(&args, command, argc, argv);
	while ((option = cli_next(&args)) >= 0) {
		repair.every |= option == 'a';
		repair.quiet |= option == 'q';
	}
	if (option != CLI_DONE)
		return cli_ended(&args, option);
	if (!args.operands && !repair.every) {
		cli_error(command->name,
			  "name a trace, its base name, a directory or a spool; or --all");
		return CLI_USAGE;
	}
	for (int i = 0; i < args.operands; i++)
		repair_argument(&repair, argv[i]);
	if (repair.every) {
		adopt_dirs_find(&dirs, NULL);
		pfw_recover_find(dirs.dir, NULL, NULL, adopt, &repair);
		if (!repair.found && !repair.quiet)
			puts("no process of yours has left anything to recover");
	}
	forget_spools(&repair);
	return cli_finish(stdout, command, repair.status);
}

const struct cli_command cli_repair = {
	.name = "repair",
	.operands = "PATH...",
	.summary = "Finish the traces of killed processes from what they left in memory",
	.options = options,
	.failure = CLI_USAGE,
	.main = repair_main,
	.details =
		"PATH is a trace, the base name of a run, a directory, or a spool (pfw-*.spool).\n"
		"A process that still writes, and spools of another host or boot, are left alone.\n"
		"exit status: 0 done, 1 something was left alone, 2 something is damaged\n",
};
