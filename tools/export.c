/* export.c - `pfw export`: traces in the formats of other people's tools. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "export.h"
#include "progress.h"
#include "select_args.h"
#include "stop.h"

#define PROBLEMS_SHOWN 10 /* a run */

static const struct export_format *const formats[] = { &export_chrome,	    &export_perfetto,
						       &export_tensorboard, &export_folded,
						       &export_csv,	    &export_dftracer };
#define FORMATS "chrome, perfetto, tensorboard, folded, csv or dftracer"

struct export
{
	const struct cli_command *command;
	const struct export_format *format;
	struct export_options options;
	const char *out_path;
	bool all_runs, force, quiet;
	unsigned jobs;
	struct pfw_select select;
	struct pfw_traces traces;
	struct export_live live;
	const volatile bool *stop;
	uint64_t problems;
	int status;
};

/* One file of output while it is written. */
struct writing {
	struct export *export;
	struct export_job job;
	struct export_sink sink;
	struct output output;
	void *state;
};

static int refuse(const struct export *export, const char *why)
{
	cli_error(export->command->name, "%s", why);
	return CLI_USAGE;
}

static void say(void *user, const char *path, const char *why)
{
	struct export *export = user;

	cli_error(export->command->name, "%s: %s", cli_name(path), why);
	export->status = CLI_USAGE;
}

/* ---- one file of output ---- */

static void problem(void *user, size_t file, const struct pfw_scan_problem *what)
{
	struct writing *writing = user;
	struct export *export = writing->export;

	if (export->status == CLI_OK)
		export->status = CLI_PROBLEMS;
	if (export->problems < PROBLEMS_SHOWN)
		cli_problem(export->command->name, export->traces.file[file].path, what);
	export->problems += 1 + what->more;
}

static int give_line(void *user, size_t file, const struct pfw_entry *entry)
{
	struct writing *writing = user;

	return writing->export->format->line(writing->state, file, entry);
}

static int again(void *user)
{
	struct writing *writing = user;
	const struct export_format *format = writing->export->format;
	int error = export_sink_again(&writing->sink);

	if (error)
		return error;
	format->free(writing->state);
	writing->state = format->begin(&writing->job);
	return writing->state ? 0 : -ENOMEM;
}

static int run(struct writing *writing, const char **where)
{
	struct export *export = writing->export;
	struct pfw_ordered ordered = {
		.traces = &export->traces,
		.file = writing->job.file,
		.count = writing->job.count,
		.select = &export->select,
		.jobs = export->jobs,
		.stop = export->stop,
		.user = writing,
		.again = again,
		.line = give_line,
		.problem = problem,
		.progress = progress_of_pass,
	};
	struct pfw_ordered_more *more = calloc(export->live.count + 1, sizeof(*more));
	int error;

	if (!more)
		return -ENOMEM;
	ordered.more = more;
	ordered.more_count = export_live_of(&export->live, ordered.file, ordered.count, more);
	writing->state = export->format->begin(&writing->job);
	error = writing->state ? pfw_ordered_run(&ordered, where) : -ENOMEM;
	free(more);
	if (!error)
		error = export->format->end(writing->state);
	if (!error)
		error = export_sink_end(&writing->sink);
	if (writing->state)
		export->format->free(writing->state);
	return error;
}

/* Write those files' lines to `path`. */
static int write_file(struct export *export, const size_t *file, size_t count, const char *path)
{
	struct writing writing = {
		.export = export,
		.output = { .command = export->command },
		.job = { .options = &export->options,
			 .traces = &export->traces,
			 .fnames = export->select.fnames,
			 .file = file,
			 .count = count,
			 .sink = &writing.sink },
	};
	const char *where = NULL;
	int error, status = export_sink_open(&writing.sink, &writing.output, path, export->force);

	if (status != CLI_OK)
		return status;
	error = run(&writing, &where);
	progress_hide();
	export_sink_free(&writing.sink);
	if (error == 0 || writing.output.gone)
		return output_finish(&writing.output, export->status);
	output_abandon(&writing.output);
	if (error == -EINTR)
		return 130;
	if (error == -E2BIG)
		return refuse(export, "so many different stacks take more than 256 MiB: choose by "
				      "--name, --cat or --since");
	if (error == -ESPIPE && !where)
		return refuse(export,
			      "a member's header is wrong, so that all has to be written anew: "
			      "give -o FILE");
	if (error != -EIO || where)
		cli_error(export->command->name, "%s%s%s", where ? cli_name(where) : "",
			  where ? ": " : "", strerror(-error));
	return CLI_USAGE;
}

/* ---- all of it ---- */

/* -o must not be one of the traces, not even with --force. */
static int check_output(const struct export *export)
{
	struct stat st;

	if (!export->out_path || stat(export->out_path, &st) < 0)
		return CLI_OK;
	for (size_t i = 0; i < export->traces.count; i++) {
		const struct pfw_trace_file *file = &export->traces.file[i];

		if (file->inode == st.st_ino && file->device == st.st_dev) {
			cli_error(export->command->name, "%s is one of the traces that are read",
				  cli_name(export->out_path));
			return CLI_USAGE;
		}
	}
	return CLI_OK;
}

/* The files whose ranks are wanted. */
static size_t *wanted_files(const struct export *export, size_t *count, bool *ranks)
{
	size_t *file = malloc((export->traces.count + 1) * sizeof(*file));

	*count = 0;
	*ranks = false;
	for (size_t i = 0; file && i < export->traces.count; i++) {
		if (!pfw_select_file(&export->select, i))
			continue;
		*ranks |= *count && export->traces.file[i].head.rank !=
					    export->traces.file[file[0]].head.rank;
		file[(*count)++] = i;
	}
	return file;
}

/* A file for each rank.  The host's name must not lead out of the folder. */
static int write_rank(struct export *export, const size_t *file, size_t count)
{
	const struct pfw_trace *head = &export->traces.file[*file].head;
	char *path, host[sizeof(head->host)];
	int status;

	strcpy(host, *head->host ? head->host : "host");
	for (char *at = host; *at; at++) {
		if (*at == '/' || (unsigned char)*at <= ' ' || (at == host && *at == '.'))
			*at = '_';
	}
	if (asprintf(&path, "%s/%s_%" PRIu64 ".%" PRId64 ".pt.trace.json.gz", export->out_path,
		     host, head->pid, head->start_ns) < 0)
		return refuse(export, strerror(ENOMEM));
	status = write_file(export, file, count, path);
	free(path);
	return status;
}

static bool same_rank(const struct pfw_trace *a, const struct pfw_trace *b)
{
	return a->rank == b->rank && strcmp(a->host, b->host) == 0;
}

static int write_directory(struct export *export, size_t *file, size_t count)
{
	const struct pfw_trace_file *traces = export->traces.file;
	int status = CLI_OK;

	if (!export->out_path)
		return refuse(export, "--format tensorboard makes files, one a rank: give -o DIR");
	if (mkdir(export->out_path, 0777) < 0 && errno != EEXIST) {
		cli_error(export->command->name, "%s: %s", cli_name(export->out_path),
			  strerror(errno));
		return CLI_USAGE;
	}
	/* The files of a rank to the front, one rank after the other. */
	while (count && status <= CLI_PROBLEMS) {
		size_t same = 1;

		for (size_t i = 1; i < count; i++) {
			if (same_rank(&traces[file[i]].head, &traces[file[0]].head)) {
				size_t other = file[same];

				file[same++] = file[i];
				file[i] = other;
			}
		}
		status = write_rank(export, file, same);
		file += same;
		count -= same;
	}
	return status;
}

static int write_all(struct export *export)
{
	size_t count;
	bool ranks;
	size_t *file = wanted_files(export, &count, &ranks);
	int status;

	if (!file)
		return refuse(export, strerror(ENOMEM));
	if (!count)
		status = refuse(export, "--rank: none of the traces is of such a rank");
	else if (ranks && export->format->one_rank && !export->options.merge)
		status = refuse(export,
				"several ranks: --merge puts them on one timeline, --rank N "
				"takes one");
	else if (export->format->directory)
		status = write_directory(export, file, count);
	else
		status = write_file(export, file, count, export->out_path);
	free(file);
	return status;
}

static int resolve_and_write(struct export *export)
{
	struct pfw_extent_options options = { .jobs = export->jobs,
					      .stop = export->stop,
					      .more = live_lines_more,
					      .user = &export->live.lines };
	int status, error = live_lines_open(&export->live.lines);

	error = error ? error : export_live_read(&export->live, export->stop);
	if (error)
		return refuse(export, strerror(-error));
	if (export->live.lines.missing && export->status == CLI_OK)
		export->status = CLI_PROBLEMS;
	export->select.ask_fnames = true;
	export->select.meta |= export->format->meta;
	status = select_args_resolve(&export->select, export->command, &export->traces, &options);
	if (status == CLI_OK)
		status = check_output(export);
	if (status != CLI_OK)
		return status;
	progress_begin("export", export->quiet, !export->out_path);
	status = write_all(export);
	if (export->problems > PROBLEMS_SHOWN)
		cli_error(export->command->name, "%s more problems",
			  cli_count(export->problems - PROBLEMS_SHOWN));
	return status;
}

/* ---- the command ---- */

enum { FORMAT = 256, MERGE, ABSOLUTE, WEIGHT, ALL_RUNS, FORCE };

static const struct cli_option options[] = {
	{ "format", 0, "NAME", FORMATS "; chrome", FORMAT },
	{ "output", 'o', "FILE", "write there (.gz: compressed); it appears when it is whole",
	  'o' },
	{ "merge", 0, NULL, "several ranks on one timeline", MERGE },
	{ "absolute", 0, NULL, "times since the epoch; a double holds them to 0.25 µs only",
	  ABSOLUTE },
	{ "weight", 0, "host|device|count",
	  "of folded stacks: time of the host (ns), of devices, or how many", WEIGHT },
	SELECT_ARGS_TIMES,
	SELECT_ARGS_FILTERS,
	{ "all-runs", 0, NULL, "not only the newest run", ALL_RUNS },
	{ "force", 0, NULL, "replace FILE", FORCE },
	{ "jobs", 'j', "N", "threads; as many as there are CPUs", 'j' },
	{ "quiet", 'q', NULL, "problems only on standard error", 'q' },
	{ 0 },
};

static int take_format(struct export *export, const char *name)
{
	for (size_t i = 0; i < CLI_ARRAY_LEN(formats); i++) {
		if (strcmp(formats[i]->name, name) == 0) {
			export->format = formats[i];
			return CLI_OK;
		}
	}
	if (strcmp(name, "parquet") == 0)
		return refuse(export,
			      "--format parquet: by Python, pfw.read(PATH).to_parquet(FILE)");
	cli_error(export->command->name, "--format %s: want " FORMATS, cli_name(name));
	return CLI_USAGE;
}

static int take_weight(struct export *export, const char *name)
{
	if (strcmp(name, "host") != 0 && strcmp(name, "device") != 0 &&
	    strcmp(name, "count") != 0) {
		cli_error(export->command->name, "--weight %s: want host, device or count",
			  cli_name(name));
		return CLI_USAGE;
	}
	export->options.weight = name;
	return CLI_OK;
}

static int take_option(struct export *export, const struct cli_args *args, int option)
{
	switch (option) {
	case FORMAT:
		return take_format(export, args->value);
	case MERGE:
		export->options.merge = true;
		return CLI_OK;
	case ABSOLUTE:
		export->options.absolute = true;
		return CLI_OK;
	case WEIGHT:
		return take_weight(export, args->value);
	case ALL_RUNS:
		export->all_runs = true;
		return CLI_OK;
	case FORCE:
		export->force = true;
		return CLI_OK;
	case 'o':
		export->out_path = strcmp(args->value, "-") == 0 ? NULL : args->value;
		return CLI_OK;
	case 'j':
		return cli_jobs(export->command, args->value, 64, &export->jobs) ? CLI_USAGE
										 : CLI_OK;
	case 'q':
		export->quiet = true;
		return CLI_OK;
	default:
		return select_args_take(&export->select, args, option) < 0 ? CLI_USAGE : CLI_OK;
	}
}

static int export_main(const struct cli_command *command, int argc, char **argv)
{
	struct export export = { .command = command,
				 .format = &export_chrome,
				 .options = { .weight = "host" } };
	struct cli_args args;
	int option, status = CLI_OK;

	cli_args_init(&args, command, argc, argv);
	while (status == CLI_OK && (option = cli_next(&args)) >= 0)
		status = take_option(&export, &args, option);
	if (status != CLI_OK || option != CLI_DONE) {
		pfw_select_release(&export.select);
		return status != CLI_OK ? status : cli_ended(&args, option);
	}
	export.stop = stop_watch();
	export.live.lines = (struct live_lines){ .command = command, .traces = &export.traces };
	if (pfw_traces_open_ranks(&export.traces, args.argv, (size_t)args.operands, export.all_runs,
				  say, &export) == 0) {
		if (export.traces.left_out && !export.quiet)
			cli_error(command->name, "%s file%s of older runs left out (--all-runs)",
				  cli_count(export.traces.left_out),
				  cli_plural(export.traces.left_out));
		status = resolve_and_write(&export);
	} else {
		status = CLI_USAGE;
	}
	export_live_close(&export.live);
	pfw_traces_close(&export.traces);
	stop_end();
	pfw_select_release(&export.select);
	return status;
}

const struct cli_command cli_export = {
	.name = "export",
	.operands = "[PATH...]",
	.summary = "Write traces in the formats of other tools: Perfetto, TensorBoard, ...",
	.options = options,
	.failure = CLI_USAGE,
	.main = export_main,
	.details =
		"PATH is a file (.pfw or .pfw.gz, ours or DFTracer's), a directory, a glob, or the base\n"
		"name of a run; none: the newest run here.\n"
		"\n"
		"chrome: one timeline as PyTorch's profiler writes it, for Perfetto, chrome://tracing and\n"
		"HolisticTraceAnalysis.  perfetto: the same in a third of the bytes, for Perfetto alone.\n"
		"tensorboard: a folder of chrome's, one a rank.  folded: stacks for flamegraph.pl.\n"
		"csv: a row a line, times in ns.  dftracer: as DFTracer 2.x writes.\n"
		"\n"
		"  pfw export t -o t.json.gz\n"
		"  pfw export --merge --since 50% t -o t.json.gz\n"
		"  pfw export --format folded --weight device t | flamegraph.pl --countname=ns > t.svg\n"
		"exit status: 0 ok, 1 something in the traces is damaged, 2 usage or input error\n",
};
