/* tools/export/export.c - `pfw export`: writes traces in the formats of other tools. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export/export.h"
#include "share/external.h"
#include "store/kit/grow.h"
#include "store/sys/full_io.h"
#include "store/sys/spill.h"
#include "ui/progress.h"

/* ---- lines still in rings of traced processes, copied to temporary files ----
 *
 * The files are merged like traces.  Memory would not do: several outputs may need the lines, each
 * up to twice, and a thread's ring has up to 1 MiB (PFW_RING_MAX).
 */

struct export_live_file {
	struct pfw_ordered_more more;
	int fd;
	uint64_t bytes; /* written so far */
	char path[32];
};

/* All zero: empty. */
struct export_live {
	struct export_live_file *file;
	size_t count;
};

static int open_file(struct export_live *live, size_t file)
{
	struct export_live_file one = { .more.file = file, .fd = pfw_spill_open() };

	if (one.fd < 0)
		return one.fd;
	snprintf(one.path, sizeof(one.path), "/proc/self/fd/%d", one.fd);
	if (!PFW_APPEND(live->file, live->count, one))
		return 0;
	close(one.fd);
	return -ENOMEM;
}

static int take_text(void *user, size_t file, const char *text, size_t bytes)
{
	struct export_live *live = user;
	struct export_live_file *last;
	int error = 0;

	if (!live->count || live->file[live->count - 1].more.file != file)
		error = open_file(live, file);
	if (error)
		return error;
	last = &live->file[live->count - 1];
	return pfw_full_write(last->fd, text, bytes, &last->bytes);
}

/* Copy the lines to temporary files.  0 or -errno. */
static int read_rings(struct export_live *live, struct pfw_live_lines *lines,
		      const _Atomic bool *stop)
{
	int error = pfw_live_lines_read(lines, stop, take_text, live);

	for (size_t i = 0; i < live->count && !error; i++) {
		struct export_live_file *file = &live->file[i];

		file->more.path = file->path;
		error = pfw_blocks_find(&file->more.blocks, file->path);
	}
	return error;
}

/* Fill more[], which has room for all, with the temporary files of those traces; their number. */
static size_t rings_of(const struct export_live *live, const size_t *file, size_t count,
		       struct pfw_ordered_more *more)
{
	size_t found = 0;

	for (size_t i = 0; i < live->count; i++) {
		for (size_t k = 0; k < count; k++) {
			if (live->file[i].more.file == file[k])
				more[found++] = live->file[i].more;
		}
	}
	return found;
}

static void close_rings(struct export_live *live)
{
	for (size_t i = 0; i < live->count; i++) {
		pfw_blocks_free(&live->file[i].more.blocks);
		close(live->file[i].fd);
	}
	free(live->file);
}

#define PROBLEMS_SHOWN 10 /* per run */

static const struct export_format *const formats[] = { &export_chrome,	    &export_perfetto,
						       &export_tensorboard, &export_folded,
						       &export_svg,	    &export_speedscope,
						       &export_csv,	    &export_dftracer };
#define FORMATS "chrome, perfetto, tensorboard, folded, svg, speedscope, csv, dftracer or parquet"

struct export
{
	struct survey survey;
	const struct export_format *format;
	struct export_options options;
	const char *out_path;
	char **words; /* of the command line */
	bool force;
	bool parquet; /* by pfw-parquet: tools/parquet, or of the Python package */
	struct pfw_select select;
	struct survey_input *input;
	struct export_live live;
	uint64_t problems;
	int status;
};

/* An output file that is being written. */
struct writing {
	struct export *export;
	struct export_job job;
	struct export_sink sink;
	struct output output;
	void *state;
};

static int refuse(const struct export *export, const char *why)
{
	return cli_error(export->survey.command->name, "%s", why);
}

/* ---- one output file ---- */

static void problem(void *user, size_t file, const struct pfw_scan_problem *what)
{
	struct writing *writing = user;
	struct export *export = writing->export;

	if (export->status == CLI_OK)
		export->status = CLI_PROBLEMS;
	if (export->problems < PROBLEMS_SHOWN)
		cli_problem(export->survey.command->name, export->input->traces.file[file].path,
			    what);
	export->problems += 1 + what->more;
}

static int give_line(void *user, size_t file, const struct pfw_entry *entry)
{
	struct writing *writing = user;

	return writing->export->format->line(writing->state, file, entry);
}

static void free_state(struct writing *writing)
{
	if (writing->state && writing->export->format->release)
		writing->export->format->release(writing->state);
	free(writing->state);
}

static int begin(struct writing *writing)
{
	const struct export_format *format = writing->export->format;

	writing->state = calloc(1, format->state_bytes);
	if (!writing->state)
		return -ENOMEM;
	*(const struct export_job **)writing->state = &writing->job;
	return format->begin ? format->begin(writing->state) : 0;
}

static int again(void *user)
{
	struct writing *writing = user;
	int error = export_sink_again(&writing->sink);

	if (error)
		return error;
	free_state(writing);
	return begin(writing);
}

static int run(struct writing *writing, const char **where)
{
	struct export *export = writing->export;
	struct pfw_ordered ordered = {
		.traces = &export->input->traces,
		.file = writing->job.file,
		.count = writing->job.count,
		.select = &export->select,
		.jobs = export->survey.jobs,
		.stop = export->survey.stop,
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
	ordered.more_count = rings_of(&export->live, ordered.file, ordered.count, more);
	error = begin(writing) ?: pfw_ordered_run(&ordered, where);
	free(more);
	if (!error && export->format->end)
		error = export->format->end(writing->state);
	error = error ?: export_sink_end(&writing->sink);
	free_state(writing);
	return error;
}

/* Write the lines of those files to `path`. */
static int write_file(struct export *export, const size_t *file, size_t count, const char *path)
{
	struct writing writing = {
		.export = export,
		.output = { .command = export->survey.command },
		.job = { .options = &export->options,
			 .traces = &export->input->traces,
			 .fnames = export->select.fnames,
			 .file = file,
			 .count = count,
			 .sink = &writing.sink },
	};
	const char *where = NULL;
	int error, status;

	if (export->format->binary && (!path || strcmp(path, "-") == 0) && isatty(STDOUT_FILENO))
		return refuse(export,
			      "this format is binary, not for a terminal: -o FILE, or a pipe");
	status = export_sink_open(&writing.sink, &writing.output, path, export->force);

	if (status != CLI_OK)
		return status;
	output_set_mode(&writing.output, pfw_traces_mode(&export->input->traces));
	error = run(&writing, &where);
	progress_hide();
	export_sink_free(&writing.sink);
	if (error == 0 || writing.output.gone)
		return output_finish(&writing.output, export->status);
	output_abandon(&writing.output);
	if (error == -EINTR)
		return 130;
	if (error == -E2BIG)
		return refuse(export, "the distinct stacks take more than 256 MiB: select fewer "
				      "events by --name, --cat or --since");
	if (error == -ESPIPE && !where)
		return refuse(export, "the header of a gzip member is wrong, so the file must be "
				      "rewritten: give -o FILE");
	if (!writing.output.failed)
		cli_error(export->survey.command->name, "%s%s%s", where ? cli_name(where) : "",
			  where ? ": " : "", strerror(-error));
	return CLI_USAGE;
}

/* ---- all output files ---- */

/* The files of the wanted ranks. */
static size_t *wanted_files(const struct export *export, size_t *count, bool *ranks)
{
	size_t *file = malloc((export->input->traces.count + 1) * sizeof(*file));

	*count = 0;
	*ranks = false;
	for (size_t i = 0; file && i < export->input->traces.count; i++) {
		if (!pfw_select_file(&export->select, i))
			continue;
		*ranks |= *count && export->input->traces.file[i].head.rank !=
					    export->input->traces.file[file[0]].head.rank;
		file[(*count)++] = i;
	}
	return file;
}

/* Write a file for one rank.  A sanitised host name keeps its path in the directory. */
static int write_rank(struct export *export, const size_t *file, size_t count)
{
	const struct pfw_traces *traces = &export->input->traces;
	uint64_t number;
	const struct pfw_trace *first = pfw_processes_first(traces, file, count, &number);
	const struct pfw_trace *head = first ? first : &traces->file[*file].head;
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
	const struct pfw_trace_file *traces = export->input->traces.file;
	int status = CLI_OK;

	if (!export->out_path)
		return refuse(export, "--format tensorboard writes one file per rank: give -o DIR");
	if (mkdir(export->out_path, 0777) < 0 && errno != EEXIST)
		return cli_error(export->survey.command->name, "%s: %s", cli_name(export->out_path),
				 strerror(errno));
	/* Move the files of one rank to the front, write them, and go on with the rest. */
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
	if (ranks && export->format->one_rank && !export->options.merge)
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
	struct survey *survey = &export->survey;
	struct pfw_live_lines *lines = &export->input->live;
	int status, error = pfw_live_lines_open(lines);

	error = error ?: read_rings(&export->live, lines, survey->stop);
	if (error)
		return refuse(export, strerror(-error));
	if (lines->missing && export->status == CLI_OK)
		export->status = CLI_PROBLEMS;
	export->select.ask_fnames = true;
	export->select.meta |= export->format->meta;
	status = survey_resolve(survey, export->input, &export->select);
	status = status ?: survey_check_output(survey, export->input, export->out_path);
	if (status != CLI_OK)
		return status;
	progress_begin("export", survey->quiet, !export->out_path);
	status = write_all(export);
	if (export->problems > PROBLEMS_SHOWN)
		cli_error(survey->command->name, "%s more problems",
			  cli_count(export->problems - PROBLEMS_SHOWN));
	return status;
}

static int run_export(void *user, struct survey_input *input)
{
	struct export *export = user;
	int status;

	export->input = input;
	export->status = export->survey.problems ? CLI_USAGE : CLI_OK;
	status = resolve_and_write(export);
	close_rings(&export->live);
	return status;
}

/* ---- the command ---- */

static const struct cli_option options[] = {
	{ "format", 0, "chrome|perfetto|tensorboard|folded|svg|speedscope|csv|dftracer",
	  "default: chrome; or parquet, see below", .id = 256 },
	{ "output", 'o', "FILE", "write FILE (.gz: compressed); it appears when it is complete",
	  CLI_INTO(struct export, out_path) },
	{ "merge", 0, NULL, "put several ranks on one timeline",
	  CLI_INTO(struct export, options.merge) },
	{ "absolute", 0, NULL, "times since the epoch, which a double stores only to 0.25 µs",
	  CLI_INTO(struct export, options.absolute) },
	{ "weight", 0, "host|device|count",
	  "folded, svg, speedscope: host time (ns), device time, or number of events",
	  CLI_INTO(struct export, options.weight) },
	SELECT_ARGS_TIMES,
	SELECT_ARGS_FILTERS,
	{ "all-runs", 0, NULL, "not only the newest run", SURVEY_INTO(all_runs) },
	{ "force", 0, NULL, "replace FILE", CLI_INTO(struct export, force) },
	SURVEY_OPTION_JOBS,
	SURVEY_OPTION_QUIET,
	{ 0 },
};

/* Take --format. */
static int take(void *user, const struct cli_args *args, int option)
{
	struct export *export = user;
	const char *name = args->value;

	(void)option;
	export->parquet = strcmp(name, "parquet") == 0;
	if (export->parquet)
		return CLI_OK;
	for (size_t i = 0; i < CLI_ARRAY_LEN(formats); i++) {
		if (strcmp(formats[i]->name, name) == 0) {
			export->format = formats[i];
			return CLI_OK;
		}
	}
	return cli_error(export->survey.command->name, "--format %s: want " FORMATS,
			 cli_name(name));
}

/* Let pfw-parquet write parquet, with the same words. */
static int begin_export(void *user, struct cli_args *args)
{
	struct export *export = user;

	if (export->parquet) {
		external_run("parquet", export->words); /* returns only if it is not there */
		return refuse(export, "--format parquet needs the Python package: pip install "
				      "'pfwtrace[arrow]'; or build with -DPFW_PARQUET=ON");
	}
	if (export->out_path && strcmp(export->out_path, "-") == 0)
		export->out_path = NULL;
	if (!export->format->directory &&
	    output_check(args->command, export->out_path, export->force) != CLI_OK)
		return CLI_USAGE;
	return -1;
}

static int export_main(const struct cli_command *command, int argc, char **argv)
{
	struct export export = { .survey = { .command = command,
					     .jobs_most = 64,
					     .user = &export,
					     .take = take,
					     .select = &export.select,
					     .begin = begin_export,
					     .body = run_export },
				 .format = &export_chrome,
				 .options = { .weight = "host" },
				 .words = calloc((size_t)argc + 2, sizeof(*export.words)) };
	int status;

	if (!export.words)
		return refuse(&export, strerror(ENOMEM));
	export.words[0] = (char *)(uintptr_t)command->name;
	memcpy(export.words + 1, argv, (size_t)argc * sizeof(*export.words));
	status = survey_main(&export.survey, argc, argv);
	free(export.words);
	return status;
}

const struct cli_command cli_export = {
	.name = "export",
	.operands = "[PATH...]",
	.summary = "Write traces in the formats of Perfetto, TensorBoard and other tools",
	.options = options,
	.failure = CLI_USAGE,
	.main = export_main,
	.details =
		"PATH is a file (.pfw or .pfw.gz, ours or DFTracer's), a directory, a glob, or\n"
		"the base name of a run; none: the newest run here.\n"
		"\n"
		"chrome: one timeline as PyTorch's profiler writes it, for Perfetto,\n"
		"chrome://tracing and HolisticTraceAnalysis.  perfetto: the same in a third of\n"
		"the bytes, for Perfetto alone.\n"
		"tensorboard: a folder of chrome timelines, one per rank.  svg: a flame graph for\n"
		"a browser, with zoom and search.  speedscope: for https://speedscope.app.\n"
		"folded: for flamegraph.pl.\n"
		"csv: one row per line, times in ns.  dftracer: DFTracer 2.x's own format.\n"
		"parquet: a new directory (-o DIR) with the columns of docs/read.rst, by rank.\n"
		"The Python package makes it: pip install 'pfwtrace[arrow]'; or -DPFW_PARQUET=ON.\n"
		"\n"
		"  pfw export t -o t.json.gz\n"
		"  pfw export --merge --since 50% t -o t.json.gz\n"
		"  pfw export --format svg t -o t.svg\n"
		"  pfw export --format folded --weight device t | sort\n"
		"exit status: 0 ok, 1 something in the traces is damaged, 2 usage or input error\n",
};
