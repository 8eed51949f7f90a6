/* tools/run/run.c - `pfw run`: runs a program traced, returns its status, prints a summary. */
#include "run/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/settings/config.h"
#include "common/settings/kinds.h"
#include "ui/cli.h"

/* Our own exit statuses, as those of env, nice and timeout. */
enum { RUN_FAILED = 125, RUN_NOT_EXECUTABLE = 126, RUN_NOT_FOUND = 127 };

static int say_exec_error(const struct run *run, int error)
{
	const char *program = run->words[0];
	char here[PATH_MAX];

	snprintf(here, sizeof(here), "./%s", program);
	if (error == -ENOENT && strpbrk(program, "|&;<>$ "))
		cli_error("run", "%s is no program; a shell runs a line: pfw run sh -c '...'",
			  cli_name(program));
	else if (error == -ENOENT && !strchr(program, '/') && access(here, X_OK) == 0)
		cli_error("run", "%s is not on the PATH; did you mean %s?", cli_name(program),
			  cli_name(here));
	else if (error == -ENOENT && !strchr(program, '/'))
		cli_error("run", "%s is not on the PATH", cli_name(program));
	else if (error == -ENOENT && access(program, F_OK) == 0)
		cli_error("run", "%s cannot be run: the interpreter in its first line is not there",
			  cli_name(program));
	else
		cli_error("run", "%s cannot be run: %s", cli_name(program), strerror(-error));
	return error == -ENOENT || error == -ENOTDIR  ? RUN_NOT_FOUND
	       : error == -EAGAIN || error == -ENOMEM ? RUN_FAILED
						      : RUN_NOT_EXECUTABLE;
}

static int run_program(struct run *run)
{
	int64_t start = run_now_ns();
	int status = 0, error = run_launch(run->words, &status);

	run_remove_links(run);
	if (error)
		return say_exec_error(run, error);
	/* Inside another `pfw run` the outer one prints the summary. */
	if (!run->inside || run->output)
		run_report(run, status, run_now_ns() - start);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

enum {
	OPTION_COMPAT = 256,
	OPTION_STEP,
	OPTION_STEPS,
	OPTION_TORCH,
	OPTION_SCHEDULE,
	OPTION_PY_CALLS,
	OPTION_KEEP,
	OPTION_STACK,
	OPTION_DUMP_ON
};

static const struct cli_option options[] = {
	{ "output", 'o', "BASE",
	  "name of the trace, without .pfw; default: the program's name here",
	  CLI_INTO(struct run, output) },
	{ "gzip", 'z', NULL, "write .pfw.gz", CLI_INTO(struct run, gzip) },
	{ "all", 0, NULL, "trace I/O on every file", CLI_INTO(struct run, all) },
	{ "data-dir", 0, "DIRS", "trace I/O only below these directories, separated by ':'",
	  CLI_INTO(struct run, data_dir) },
	{ "no-io", 0, NULL, "record no I/O, only spans and GPU work", CLI_INTO(struct run, no_io) },
	{ "no-gpu", 0, NULL, "record no GPU work", CLI_INTO(struct run, no_gpu) },
	{ "py-calls", 0, NULL, "also record calls of Python functions, as PFW_PY_CALLS selects",
	  .id = OPTION_PY_CALLS },
	{ "torch", 0, NULL, "record PyTorch's operators; each batch of a DataLoader is a step",
	  .id = OPTION_TORCH },
	{ "step", 0, "NAME",
	  "spans or NVTX ranges with this name begin the steps; auto: PyTorch's batches",
	  .id = OPTION_STEP },
	{ "steps", 0, "A-B", "record only steps A to B; the first one is 0", .id = OPTION_STEPS },
	{ "schedule", 0, "S", "record only some steps, or part of the time; see PFW_SCHEDULE",
	  .id = OPTION_SCHEDULE },
	{ "keep", 0, "K",
	  "keep only the newest events, in memory, for dumps: 30s, 64MiB; see PFW_KEEP",
	  .id = OPTION_KEEP },
	{ "dump-on", 0, "WHAT", "dump after a slow step or call: step>2x,call>1s; see PFW_DUMP_ON",
	  .id = OPTION_DUMP_ON },
	{ "stack", 0, "WHAT",
	  "take the call stacks of slow calls, or of each Nth: min:1ms, every:1000; see PFW_STACK",
	  .id = OPTION_STACK },
	{ "compat", 0, "M", "replace another tracer's Python package: dftracer",
	  .id = OPTION_COMPAT },
	{ "quiet", 'q', NULL, "print problems only", CLI_INTO(struct run, quiet) },
	{ 0 },
};

/* Options that set a variable.  Its value is checked here, before anything runs, rather than in each
 * process. */
static const struct checked {
	int option;
	const char *variable;
	pfw_parse *parse;
	const char *wants;
} checked[] = {
	{ OPTION_SCHEDULE, "PFW_SCHEDULE", pfw_parse_schedule,
	  "active=N, with wait=N,warmup=N,repeat=N,skip_first=N, or duration=TIME, with "
	  "delay=TIME,every=TIME, or range; `pfw schedule` prints one" },
	{ OPTION_KEEP, "PFW_KEEP", pfw_parse_keep,
	  "a time of 100ms or more, or a size of 1MiB or more, or both: 30s,64MiB" },
	{ OPTION_DUMP_ON, "PFW_DUMP_ON", pfw_parse_dump_on,
	  "step>Kx or call>TIME, with max=N: step>2x,call>1s" },
	{ OPTION_STACK, "PFW_STACK", pfw_parse_stack, "min:TIME or every:N: min:1ms, every:1000" },
};

static int take_checked(const struct cli_args *args, const struct checked *row)
{
	union {
		struct pfw_plan plan;
		struct pfw_keep keep;
		struct pfw_dump_on dump_on;
		struct pfw_stack_when stack;
	} value;

	if (row->parse(args->value, &value) == PFW_PARSED)
		return setenv(row->variable, args->value, 1);
	cli_error("run", "--%s %s: wants %s", args->row->name, cli_name(args->value), row->wants);
	return -1;
}

/* One step of warm-up before the first one, which is not recorded. */
static int take_steps(const char *text)
{
	unsigned first, last, warmup;
	char schedule[128], more;
	int read = sscanf(text, "%9u-%9u%c", &first, &last, &more);

	if (read == 1 && !strchr(text, '-'))
		last = first;
	if ((read != 2 && (read != 1 || strchr(text, '-'))) || last < first) {
		cli_error("run", "--steps %s: give the first and the last step: 10-20",
			  cli_name(text));
		return -1;
	}
	warmup = first > 0;
	snprintf(schedule, sizeof(schedule),
		 "skip_first=%u,warmup=%u,active=%u,repeat=1,discard_warmup=%u", first - warmup,
		 warmup, last - first + 1, warmup);
	return setenv("PFW_SCHEDULE", schedule, 1);
}

/* _startup.py puts our package in place of this one.  Its own readers read a decimal fraction as 0,
 * so times are whole µs. */
static int take_compat(const char *name)
{
	if (strcmp(name, "dftracer") != 0) {
		cli_error("run", "--compat %s: pfw replaces only dftracer", cli_name(name));
		return -1;
	}
	setenv("PFW_COMPAT", name, 1);
	setenv("DFTRACER_TIME_METRIC", "US", 0);
	return 0;
}

static int take_option(void *user, const struct cli_args *args, int option)
{
	struct run *run = user;

	for (size_t i = 0; i < CLI_ARRAY_LEN(checked); i++) {
		if (option == checked[i].option)
			return take_checked(args, &checked[i]);
	}
	if (option == OPTION_STEPS)
		return take_steps(args->value);
	if (option == OPTION_STEP)
		return setenv("PFW_STEP", args->value, 1);
	if (option == OPTION_TORCH)
		return setenv("PFW_TORCH_OPS", "1", 1) | setenv("PFW_STEP", "auto", 0);
	run->python = true;
	return option == OPTION_COMPAT ? take_compat(args->value) : setenv("PFW_PY_CALLS", "1", 0);
}

static int run_main(const struct cli_command *command, int argc, char **argv)
{
	struct run run = { 0 };
	struct cli_args args;
	int status = cli_read(&args, command, argc, argv, &run, take_option);

	if (status >= 0)
		return status;
	run.words = argv + args.next;
	run.count = argc - args.next;
	if (!run.count || !*run.words[0]) {
		cli_error("run", "no program to run; `pfw run [options] PROGRAM [ARGUMENT...]`");
		return RUN_FAILED;
	}
	if (run.output && pfw_name_is_directory(run.output)) {
		cli_error("run", "-o wants a base name, and %s is none", cli_name(run.output));
		return RUN_FAILED;
	}
	if (run_refuse(run.count, run.words))
		return RUN_FAILED;
	if (getenv("PFW_PY_CALLS") && !run.python && !getenv("PFW_RUN"))
		cli_error("run", "PFW_PY_CALLS does nothing without --py-calls");
	status = run_name(&run) || run_environment(&run) ? RUN_FAILED : run_program(&run);
	if (status == RUN_FAILED)
		run_remove_links(&run);
	free(run.completed);
	return status;
}

const struct cli_command cli_run = {
	.name = "run",
	.operands = "[--] PROGRAM [ARGUMENT...]",
	.summary = "Run a program traced, then print a summary",
	.options = options,
	.stops = true,
	.failure = RUN_FAILED,
	.main = run_main,
	.details =
		"PROGRAM may be a Python script (train.py) or -m MODULE.  Then python3 runs it:\n"
		"that of the active virtual environment, or of the one whose bin/pfw was called.\n"
		"BASE may hold %p pid, %h host, %r rank, %j job, %q{VAR}, %%.\n"
		"exit status: the program's; 128+n when signal n killed it; 125 pfw itself\n"
		"failed, 126 PROGRAM cannot be executed, 127 it was not found\n",
};
