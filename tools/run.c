/* run.c - `pfw run`: run a program traced, pass its status on, and say what was recorded. */
#include "run.h"
#include "schedule.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "launch.h"
#include "outside.h"
#include "report.h"

/* Statuses of our own: what env, nice and timeout use for the same. */
enum { RUN_FAILED = 125, RUN_NOT_EXECUTABLE = 126, RUN_NOT_FOUND = 127 };

static int say_exec_error(const struct run *run, int error)
{
	const char *program = run->words[0];
	char here[PATH_MAX];

	snprintf(here, sizeof(here), "./%s", program);
	if (error == -ENOENT && !strchr(program, '/') && access(here, X_OK) == 0)
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

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* The path as the user would write it: relative where it is below the current directory. */
static const char *shown(const struct run *run, const char *path)
{
	size_t bytes = strlen(run->cwd);

	if (bytes > 1 && strncmp(path, run->cwd, bytes) == 0 && path[bytes] == '/')
		return path[bytes + 1] ? path + bytes + 1 : "./";
	return path;
}

static int run_program(struct run *run)
{
	struct report report = { .run = run->id,
				 .base = run->found,
				 .cwd = run->output ? NULL : run->cwd,
				 .program = run->words[0],
				 .rank = run->rank.rank,
				 .quiet = run->quiet,
				 .no_io = run->no_io };
	int64_t start = now_ns();
	const char *data_dir;
	int error, status = 0;

	error = launch(run->words, &status);
	run_remove_links(run);
	if (error)
		return say_exec_error(run, error);
	data_dir = getenv("DFTRACER_DATA_DIR");
	report.all = data_dir && strcmp(data_dir, "all") == 0;
	report.wall_ns = now_ns() - start;
	report.status = status;
	report.shown = shown(run, run->found);
	/* Inside another run the outer one knows all, and says it once. */
	if (!run->inside || run->output)
		report_run(&report);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

enum {
	OPTION_COMPAT = 256,
	OPTION_SCHEDULE,
	OPTION_NO_IO,
	OPTION_NO_GPU,
	OPTION_DATA_DIR,
	OPTION_ALL,
	OPTION_PY_CALLS
};

static const struct cli_option options[] = {
	{ "output", 'o', "BASE",
	  "name of the trace, without .pfw; default: the program's name here", 'o' },
	{ "gzip", 'z', NULL, "write .pfw.gz", 'z' },
	{ "all", 0, NULL, "trace I/O on every file", OPTION_ALL },
	{ "data-dir", 0, "LIST", "trace I/O below these directories only (: between them)",
	  OPTION_DATA_DIR },
	{ "no-io", 0, NULL, "leave I/O out: only what the program itself marks", OPTION_NO_IO },
	{ "no-gpu", 0, NULL, "leave GPU work out", OPTION_NO_GPU },
	{ "py-calls", 0, NULL, "record calls of Python's functions too; PFW_PY_CALLS says which",
	  OPTION_PY_CALLS },
	{ "schedule", 0, "S", "record some steps, or some of the time, only; as PFW_SCHEDULE",
	  OPTION_SCHEDULE },
	{ "compat", 0, "M", "stand in for another tracer's Python package: dftracer",
	  OPTION_COMPAT },
	{ "quiet", 'q', NULL, "say nothing but what goes wrong", 'q' },
	{ 0 },
};

/* Here, where it is said at once and nothing has run, not in each process. */
static bool take_schedule(const char *text)
{
	struct pfw_plan plan;

	if (!pfw_plan_parse(&plan, text)) {
		cli_error(
			"run",
			"--schedule %s: wants active=N, with wait=N,warmup=N,repeat=N,skip_first=N, "
			"or duration=TIME, with delay=TIME,every=TIME, or range; `pfw schedule` prints "
			"one",
			cli_name(text));
		return false;
	}
	setenv("PFW_SCHEDULE", text, 1);
	return true;
}

/* The package that _startup.py puts in the real one's place; its readers take decimals for 0. */
static bool take_compat(const char *name)
{
	if (strcmp(name, "dftracer") != 0) {
		cli_error("run",
			  "--compat %s: there is no stand-in for it; there is one for dftracer",
			  cli_name(name));
		return false;
	}
	setenv("PFW_COMPAT", name, 1);
	setenv("DFTRACER_TIME_METRIC", "US", 0);
	return true;
}

/* One option; false: its value is none, which has been said. */
static bool take_option(struct run *run, int option, const char *value)
{
	switch (option) {
	case 'o':
		run->output = value;
		break;
	case 'z':
		run->gzip = true;
		break;
	case 'q':
		run->quiet = true;
		break;
	case OPTION_ALL:
		run->all = true;
		break;
	case OPTION_DATA_DIR:
		run->data_dir = value;
		break;
	case OPTION_NO_IO:
		run->no_io = true;
		break;
	case OPTION_NO_GPU:
		run->no_gpu = true;
		break;
	case OPTION_PY_CALLS:
		run->python = true;
		return setenv("PFW_PY_CALLS", "1", 0) == 0;
	case OPTION_SCHEDULE:
		return take_schedule(value);
	default:
		run->python = true;
		return take_compat(value);
	}
	return true;
}

static int run_main(const struct cli_command *command, int argc, char **argv)
{
	struct run run = { 0 };
	struct cli_args args;
	int option, status;

	cli_args_init(&args, command, argc, argv);
	while ((option = cli_next(&args)) >= 0) {
		if (!take_option(&run, option, args.value))
			return RUN_FAILED;
	}
	if (option != CLI_DONE)
		return cli_ended(&args, option);
	run.words = argv + args.next;
	run.count = argc - args.next;
	if (!run.count || !*run.words[0]) {
		cli_error("run", "no program to run; `pfw run [options] PROGRAM [ARGUMENT...]`");
		return RUN_FAILED;
	}
	if (run.output && (!*run.output || run.output[strlen(run.output) - 1] == '/')) {
		cli_error("run", "-o wants a base name, and %s is none", cli_name(run.output));
		return RUN_FAILED;
	}
	if (outside_refuse(run.count, run.words))
		return RUN_FAILED;
	status = run_name(&run) || run_environment(&run) ? RUN_FAILED : run_program(&run);
	if (status == RUN_FAILED)
		run_remove_links(&run);
	free(run.completed);
	return status;
}

const struct cli_command cli_run = {
	.name = "run",
	.operands = "[--] PROGRAM [ARGUMENT...]",
	.summary = "Run a program traced, then say what was recorded",
	.options = options,
	.stops = true,
	.failure = RUN_FAILED,
	.main = run_main,
	.details =
		"PROGRAM may be a Python script (train.py) or -m MODULE: the current python3 runs\n"
		"it.  BASE may hold %p pid, %h host, %r rank, %j job, %q{VAR}, %%.\n"
		"exit status: the program's; 128+n when signal n killed it; 125 pfw itself failed,\n"
		"126 PROGRAM cannot be executed, 127 it was not found\n",
};
