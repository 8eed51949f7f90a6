/* memory.c - `pfw memory`: allocations: peaks, growth in each step, who allocates, what is not freed. */
#include "memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "select_args.h"
#include "snapshot.h"
#include "stop.h"
#include "store/pickle.h"

#define ROW_LIMIT 20
#define BINS_MAX 100000
#define FORMATS (1u << CLI_TEXT | 1u << CLI_NDJSON | 1u << CLI_CSV | 1u << CLI_TSV | 1u << CLI_MD)

enum { ALL_RUNS = 256, ROW_LIMIT_OPTION, FORMAT };

static int take(void *user, const struct cli_args *args, int option)
{
	struct memory *memory = user;
	int64_t number;

	switch (option) {
	case 'b':
		if (cli_whole(memory->command, "bins", args->value, 1, BINS_MAX, &number))
			return -1;
		memory->bins = (uint64_t)number;
		return 0;
	case ROW_LIMIT_OPTION:
		return cli_whole(memory->command, "row-limit", args->value, -1, INT32_MAX,
				 &memory->row_limit);
	case ALL_RUNS:
		memory->all_runs = true;
		return 0;
	case 'q':
		memory->quiet = true;
		return 0;
	case 'j':
		return cli_jobs(memory->command, args->value, 1024, &memory->jobs);
	case FORMAT:
		memory->format = cli_format_of(memory->command, args->value, FORMATS);
		return memory->format < 0 ? -1 : 0;
	default:
		return select_args_take(&memory->select, args, option) > 0 ? 0 : -1;
	}
}

/* ---- the command ---- */

static void say_trace(void *user, const char *path, const char *why)
{
	struct memory *memory = user;
	cli_error(memory->command->name, "%s: %s", cli_name(path), why);
	memory->problems++;
}

static int read_and_print(struct memory *memory, struct live_lines *live, const volatile bool *stop)
{
	const struct pfw_extent_options extent = { .jobs = memory->jobs, .stop = stop };
	int error = live_lines_open(live), status;

	memory->problems += live->missing;
	if (error) {
		cli_error(memory->command->name, "%s", strerror(-error));
		return CLI_USAGE;
	}
	status = select_args_resolve(&memory->select, memory->command, live->traces, &extent);
	if (status != CLI_OK)
		return status;
	if (memory_collect(memory, live, stop))
		return CLI_USAGE;
	error = memory_count(memory);
	error = error ? error : memory_print(memory);
	if (error) {
		cli_error(memory->command->name, "%s", strerror(-error));
		return CLI_USAGE;
	}
	if (!memory->events && !memory->quiet)
		cli_error(memory->command->name,
			  "no allocations are in these traces: record them with PFW_CUPTI=memory, "
			  "torch.profiler's profile_memory=True, or, for a snapshot, "
			  "torch.cuda.memory._record_memory_history()");
	return cli_finish(stdout, memory->command, memory->problems ? CLI_PROBLEMS : CLI_OK);
}

/* By its name or its begin: what is called a pickle and is none, or of Python 2, is told as one. */
static bool is_snapshot(const char *path)
{
	const char *suffix = strrchr(path, '.');

	return (suffix && strcmp(suffix, ".pickle") == 0) || pfw_pickle_is(path);
}

/* Snapshots of torch's allocator among the operands become traces without names, gone with
 * close_snapshots().  0 or -1, which was said. */
static int open_snapshots(struct memory *memory, struct cli_args *args)
{
	char why[256];

	memory->snapshot = calloc((size_t)args->operands + 1, sizeof(*memory->snapshot));
	for (int i = 0; memory->snapshot && i < args->operands; i++) {
		struct memory_snapshot *snapshot = &memory->snapshot[memory->snapshots];

		if (!is_snapshot(args->argv[i]))
			continue;
		if (snapshot_open(&snapshot->trace, args->argv[i], why, sizeof(why))) {
			cli_error(memory->command->name, "%s: %s", cli_name(args->argv[i]), why);
			return -1;
		}
		memory->snapshots++;
		snprintf(snapshot->path, sizeof(snapshot->path), "/proc/self/fd/%d",
			 fileno(snapshot->trace));
		args->argv[i] = snapshot->path;
	}
	if (memory->snapshot)
		return 0;
	cli_error(memory->command->name, "%s", strerror(ENOMEM));
	return -1;
}

static void close_snapshots(struct memory *memory)
{
	for (size_t i = 0; i < memory->snapshots; i++)
		fclose(memory->snapshot[i].trace);
	free(memory->snapshot);
}

static int run(struct memory *memory, struct cli_args *args)
{
	const volatile bool *stop = stop_watch();
	struct pfw_traces traces;
	struct live_lines live = { .command = memory->command, .traces = &traces };
	int status;

	if (memory->row_limit < -1)
		memory->row_limit =
			memory->format == CLI_TEXT || memory->format == CLI_MD ? ROW_LIMIT : -1;
	if (open_snapshots(memory, args))
		return CLI_USAGE;
	if (pfw_traces_open_ranks(&traces, args->argv, (size_t)args->operands, memory->all_runs,
				  say_trace, memory))
		return CLI_USAGE;
	status = read_and_print(memory, &live, stop);
	live_lines_close(&live);
	pfw_traces_close(&traces);
	stop_end();
	return status;
}

static void release(struct memory *memory)
{
	pfw_select_release(&memory->select);
	pfw_numbers_release(&memory->processes);
	pfw_numbers_release(&memory->pool_numbers);
	pfw_averages_release(&memory->names);
	pfw_sorter_release(&memory->items);
	for (size_t i = 0; i < memory->pools; i++)
		free(memory->pool[i].bin);
	free(memory->pool);
	free(memory->step);
	free(memory->owner);
	free(memory->blocks.slot);
	close_snapshots(memory);
}

static int memory_main(const struct cli_command *command, int argc, char **argv)
{
	struct memory memory = { .command = command, .row_limit = -2, .items = PFW_SORTER_EMPTY };
	struct cli_args args;
	int status;

	pfw_averages_init(&memory.names);
	cli_args_init(&args, command, argc, argv);
	status = cli_take_options(&args, &memory, take);
	if (status < 0)
		status = run(&memory, &args);
	release(&memory);
	return status;
}

static const struct cli_option memory_options[] = {
	{ "bins", 'b', "N", "the course of it, too, in so many stretches of time", 'b' },
	{ "row-limit", 0, "N",
	  "of who allocates and what is not freed, 20 by default in text and md; -1: all",
	  ROW_LIMIT_OPTION },
	SELECT_ARGS_TIMES,
	{ "rank", 'r', "LIST", "ranks: 0,8-15", SELECT_ARGS + PFW_SELECT_RANK },
	{ "pid", 0, "LIST", "processes", SELECT_ARGS + PFW_SELECT_PID },
	{ "step", 0, "LIST", "what belongs to these steps", SELECT_ARGS + PFW_SELECT_STEP },
	{ "where", 'w', "EXPR", "an expression over any field: args.bytes > 1048576",
	  SELECT_ARGS + PFW_SELECT_WHERE },
	{ "all-runs", 0, NULL, "not only the newest run of a directory", ALL_RUNS },
	{ "quiet", 'q', NULL, "problems only on standard error", 'q' },
	{ "jobs", 'j', "N", "threads; by default one for each CPU", 'j' },
	{ "format", 0, "FORMAT",
	  "text, ndjson, csv, tsv or md: times in µs, sizes in bytes; csv and tsv have the devices only",
	  FORMAT },
	{ 0 },
};

const struct cli_command cli_memory = {
	.name = "memory",
	.operands = "[PATH...]",
	.summary = "Show allocations: peaks, growth in each step, who allocates, what is not freed",
	.options = memory_options,
	.details =
		"PATH: traces, directories, globs or base names; the newest run here where there is "
		"none.\nFrom events of kind memory: PyTorch's (profile_memory=True) and CUPTI's "
		"(PFW_CUPTI=memory).  A snapshot of torch.cuda.memory._dump_snapshot(), a pickle, is read\n"
		"as a trace is; nothing in it is run.\ndocs/analysis.rst defines the terms.\n",
	.main = memory_main,
};
