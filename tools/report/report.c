/* tools/report/report.c - `pfw report`: one page with what took the time, made by the other commands. */
#include "report/report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pfw/pfw.h"
#include "share/unasked.h"
#include "store/index/index.h"
#include "store/json/print.h"
#include "store/kit/pair_ids.h"
#include "store/sys/open.h"
#include "ui/embed.h"
#include "ui/output.h"
#include "ui/progress.h"

PFW_EMBED(report_style, "report/page.css");
PFW_EMBED(report_script, "report/page.js");

#define DEFAULT_NAME "report.html"
/* The first line of a page, by which an older one is known. */
#define FIRST_LINE "<!DOCTYPE html><!-- pfw report -->\n"

/* ---- what ran ---- */

/* The sum of what the ends of finished traces say; unfinished ones, and those without an end, are counted. */
struct ends {
	uint64_t lost, untraced, known, unfinished;
};

/* Read what the index of a file knows; without an index, nothing is known.  False: no memory. */
static bool read_totals(const struct pfw_trace_file *file, unsigned kinds,
			struct pfw_summary *summary)
{
	struct pfw_index *index;

	if (pfw_summary_init(summary))
		return false;
	if (pfw_index_of(&index, file))
		return true;
	if (pfw_index_totals(index, kinds, summary))
		pfw_summary_clear(summary);
	pfw_index_close(index);
	return true;
}

/* Of a file with several processes, which its index knows. */
static void add_ends(struct ends *ends, const struct pfw_trace_file *file)
{
	struct pfw_summary summary;

	if (!read_totals(file, PFW_INDEX_PROCESSES | PFW_INDEX_LOSSES, &summary))
		return;
	for (uint32_t i = 0; i < summary.processes; i++) {
		ends->known += !!summary.process[i].reason;
		ends->unfinished += !summary.process[i].reason;
		ends->lost += summary.process[i].lost;
	}
	for (uint32_t i = 0; i < summary.losses; i++) {
		if (strcmp(summary.loss[i].kind, "untraced_child") == 0)
			ends->untraced += summary.loss[i].count;
	}
	pfw_summary_release(&summary);
}

static void add_end(struct ends *ends, const struct pfw_trace_file *file)
{
	struct pfw_trace trace;

	if (file->partial || (file->processes && file->processes->compacted)) {
		add_ends(ends, file);
		return;
	}
	if (file->once || pfw_trace_read(&trace, file->path) || !trace.ours)
		return;
	if (!trace.ended) {
		ends->unfinished++;
		return;
	}
	ends->known++;
	ends->lost += trace.lost;
	ends->untraced += trace.untraced;
}

static size_t count_ranks(const struct pfw_traces *traces)
{
	size_t ranks = 0;

	/* The rows are in order of rank. */
	for (size_t i = 0; i < traces->count; i++)
		ranks += traces->file[i].head.rank >= 0 &&
			 (!i || traces->file[i].head.rank != traces->file[i - 1].head.rank);
	return ranks;
}

/* The pids in a file that does not name its processes, as its index knows them; 1 without one. */
static uint64_t count_pids(const struct pfw_trace_file *file)
{
	struct pfw_pair_ids pids = { 0 };
	struct pfw_summary summary;
	uint64_t count;

	if (!read_totals(file, PFW_INDEX_THREADS, &summary))
		return 1;
	/* The counters of a machine have pid 0. */
	for (uint32_t i = 1; i < summary.threads; i++) {
		if (summary.thread[i].pid)
			pfw_pair_ids_of(&pids, summary.thread[i].pid, 0);
	}
	pfw_summary_release(&summary);
	count = pids.count;
	pfw_pair_ids_release(&pids);
	return count ? count : 1;
}

static uint64_t count_processes(const struct pfw_traces *traces)
{
	uint64_t most = 0, unknown = 0;

	for (size_t i = 0; i < traces->count; i++) {
		const struct pfw_processes *processes = traces->file[i].processes;

		for (size_t j = 0; processes && j < processes->count; j++) {
			if (processes->process[j].number >= most)
				most = processes->process[j].number + 1;
		}
		unknown += processes ? 0 : count_pids(&traces->file[i]);
	}
	return most + unknown;
}

static bool has_host(const struct pfw_traces *traces, size_t number)
{
	for (size_t i = 0; i < number; i++) {
		if (strcmp(traces->file[i].head.host, traces->file[number].head.host) == 0)
			return true;
	}
	return !*traces->file[number].head.host;
}

#define HOSTS_SHOWN 20u

static void put_run(struct report *report, const struct survey_input *input)
{
	const struct pfw_traces *traces = &input->traces;
	struct pfw_printer json = { .out = report->json };
	struct ends ends = { 0 };
	size_t hosts = 0;

	for (size_t i = 0; i < traces->count; i++)
		add_end(&ends, &traces->file[i]);
	pfw_print(&json, "{'version':%s,'files':%zu,'ranks':%zu,'processes':%" PRIu64 ",'run':%s",
		  PFW_VERSION, traces->count, count_ranks(traces), count_processes(traces),
		  traces->count ? traces->file[0].head.run : "");
	pfw_print(&json,
		  "'ended':%" PRIu64 ",'unfinished':%" PRIu64 ",'lost':%" PRIu64
		  ",'untraced':%" PRIu64,
		  ends.known, ends.unfinished, ends.lost, ends.untraced);
	if (report->against)
		pfw_print(&json, "'against':%s", report->against);
	pfw_print(&json, "'first':%s,'hosts':[", traces->count ? traces->file[0].path : "");
	for (size_t i = 0; i < traces->count && hosts < HOSTS_SHOWN; i++) {
		if (has_host(traces, i))
			continue;
		pfw_print(&json, "%s", traces->file[i].head.host);
		hosts++;
	}
	pfw_print(&json, "]}");
}

static void note_message(void *user, const char *text)
{
	struct report *report = user;

	advice_note(&report->notes, text);
}

/* Ask what no sheet has, and write the findings. */
static int put_findings(struct report *report)
{
	const struct advice_asking asking = { .advice = &report->advice,
					      .words = &report->words,
					      .stop = report->survey.stop,
					      .user = report,
					      .say = note_message };
	struct pfw_printer json = { .out = report->json };
	struct finding found[ADVICE_RULES];
	int status = advice_ask_more(&asking);
	size_t count = advice_find(&report->advice, found);

	fputs("\n\"findings\":[", report->json);
	for (size_t i = 0; i < count; i++) {
		pfw_print(&json, "\n{'rule':%s,'text':%s", found[i].rule, found[i].text);
		if (found[i].cost_ns == ADVICE_NO_COST)
			pfw_print(&json, "'cost_ns':null");
		else
			pfw_print(&json, "'cost_ns':%" PRId64, found[i].cost_ns);
		pfw_print(&json, "'remedy':%s,'query':%s}", found[i].remedy, found[i].query);
	}
	fputs("],", report->json);
	return status;
}

static bool is_html(const struct report *report)
{
	return strcmp(report->format, "html") == 0;
}

/* Totals for the page if it shows only some of the steps. */
static void put_steps(struct report *report)
{
	const struct report_steps *steps = &report->steps;
	struct pfw_printer json = { .out = report->json };

	fputs("\n\"steps\":", report->json);
	pfw_print(&json, "{'rows':%" PRIu64 ",'wall_us':%.15g", steps->rows, steps->wall_ns / 1e3);
	pfw_print(&json, "'every':%" PRIu64 ",'slowest':%zu},", steps->every, steps->slowest);
}

/* {"run":{...},"sheets":{...},"findings":[...],"notes":[...]} */
static int put_data(struct report *report, struct survey_input *input)
{
	struct pfw_printer json = { .out = report->json };
	int status, more;

	report->packed = is_html(report);
	fputs("{\"run\":", report->json);
	put_run(report, input);
	fputs(",\n\"sheets\":{", report->json);
	status = report_sheets(report);
	fputs("},", report->json);
	put_steps(report);
	if (status <= CLI_PROBLEMS && is_html(report))
		report_flame(report, input->traces.count);
	advice_see(&report->advice, &input->traces);
	more = status > CLI_PROBLEMS ? status : put_findings(report);
	fputs("\n\"notes\":[", report->json);
	for (size_t i = 0; i < report->notes.count; i++)
		pfw_print(&json, "%s", report->notes.note[i]);
	fputs("]}\n", report->json);
	return more > status ? more : status;
}

static void say_notes(const struct report *report)
{
	for (size_t i = 0; i < report->notes.count; i++)
		cli_error(report->survey.command->name, "%s", report->notes.note[i]);
}

/* ---- the page ---- */

/* JSON inside of a script element: "<" is in its strings only, and could end the element. */
static void put_json_in_html(FILE *out, const char *text)
{
	for (const char *at; (at = strchr(text, '<')); text = at + 1)
		fprintf(out, "%.*s\\u003c", (int)(at - text), text);
	fputs(text, out);
}

static void put_page(FILE *out, const char *data, const char *flame)
{
	fputs(FIRST_LINE
	      "<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
	      "<title>pfw report</title>\n<style>\n",
	      out);
	fputs(report_style, out);
	fputs("</style></head>\n<body><main id=\"page\"><noscript>This page draws its tables by a script: "
	      "allow it, or use pfw report --format json.</noscript></main>\n"
	      "<script type=\"application/json\" id=\"data\">\n",
	      out);
	put_json_in_html(out, data);
	fprintf(out, "</script>\n<div id=\"flame\" hidden>%s</div>\n<script>\n",
		flame ? flame : "");
	fputs(report_script, out);
	fputs("</script></body></html>\n", out);
}

static bool is_page(const char *path)
{
	char text[sizeof(FIRST_LINE) - 1];
	int fd = pfw_open_file(path, PFW_OPEN_MINE, NULL);
	bool is = fd >= 0 && read(fd, text, sizeof(text)) == (ssize_t)sizeof(text) &&
		  memcmp(text, FIRST_LINE, sizeof(text)) == 0;

	if (fd >= 0)
		close(fd);
	return is;
}

/* Where there is a desktop, show the page. */
static void open_browser(const char *path)
{
	char *const argv[] = { (char[]){ "xdg-open" }, (char *)(uintptr_t)path, NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid;

	if ((!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY")) || !isatty(STDERR_FILENO) ||
	    posix_spawn_file_actions_init(&actions))
		return;
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
}

static const char *path_of(const struct report *report)
{
	return report->out_path ? report->out_path : is_html(report) ? DEFAULT_NAME : NULL;
}

/* Its own page is replaced without being asked. */
static bool may_replace(const struct report *report)
{
	return report->force || (!report->out_path && is_html(report) && is_page(DEFAULT_NAME));
}

static int write_result(struct report *report, struct survey_input *input, const char *data,
			int status)
{
	bool page = is_html(report);
	const char *path = path_of(report);
	struct output output;
	int written = CLI_OK, opened = survey_check_output(&report->survey, input, path);

	if (opened == CLI_OK)
		opened = output_open(&output, report->survey.command, path, may_replace(report));
	if (opened != CLI_OK)
		return opened;
	output_set_mode(&output, pfw_traces_mode(&input->traces));
	if (page)
		put_page(output.file, data, report->flame);
	else if (strcmp(report->format, "md") == 0)
		written = report_markdown(report, output.file,
					  *input->traces.file->head.run
						  ? input->traces.file->head.run
						  : input->traces.file->path);
	else
		fputs(data, output.file);
	status = written > status ? written : status;
	if (written > CLI_PROBLEMS || output_flush(&output)) {
		output_abandon(&output);
		return CLI_USAGE;
	}
	status = output_finish(&output, status);
	if (page && path && strcmp(path, "-") != 0 && status <= CLI_PROBLEMS) {
		if (!report->survey.quiet)
			say_notes(report);
		if (!report->survey.quiet)
			fprintf(stderr, "pfw report: %s\n", cli_name(path));
		open_browser(path);
	}
	return status;
}

/* ---- the command ---- */

static void say_against(void *command, const char *path, const char *why)
{
	cli_error(((const struct cli_command *)command)->name, "--against %s: %s", cli_name(path),
		  why);
}

/* Find the files of `--against t t.2`: base name t stands for t.2, too.  0, or -errno after a message. */
static int find_before(struct report *report, const struct survey_input *input)
{
	char *against = (char *)(uintptr_t)report->against;
	const unsigned flags = PFW_TRACES_ALL_RUNS | PFW_TRACES_HEADS;
	int error =
		pfw_traces_open(&report->before, &against, 1, flags, pfw_traces_say_nothing, NULL);

	if (error)
		return pfw_traces_open(&report->before, &against, 1, flags, say_against,
				       (void *)(uintptr_t)report->survey.command);
	if (!pfw_traces_leave_to(&report->before, &input->traces))
		pfw_traces_close(&report->before);
	else if (!report->survey.all_runs)
		pfw_traces_keep_newest(&report->before, 0);
	return 0;
}

static int body(void *user, struct survey_input *input)
{
	struct report *report = user;
	char *data = NULL;
	size_t bytes;
	int status;

	if (select_args_check_ranks(&report->select, report->survey.command, &input->traces))
		return CLI_USAGE;
	unasked_of_survey(&report->survey, &input->traces);
	if (report->against && find_before(report, input))
		return CLI_USAGE;
	report->json = open_memstream(&data, &bytes);
	if (!report->json)
		return cli_error(report->survey.command->name, "%s", strerror(ENOMEM));
	progress_begin("report", report->survey.quiet, false);
	status = put_data(report, input);
	progress_hide();
	if (fclose(report->json) == 0 && status <= CLI_PROBLEMS) {
		status = write_result(report, input, data, status);
	} else {
		say_notes(report);
		status = CLI_USAGE;
	}
	free(data);
	return status;
}

enum { PEAK = 256 };

static const struct cli_option options[] = {
	{ "output", 'o', "FILE",
	  "write FILE (default: " DEFAULT_NAME "; md, json: standard output)",
	  CLI_INTO(struct report, out_path) },
	{ "format", 0, "html|md|json",
	  "default: html, one page that needs nothing else; md: to paste",
	  CLI_INTO(struct report, format) },
	SELECT_ARGS_TIMES,
	SELECT_ARGS_PROCESSES,
	SURVEY_OPTION_ALL_RUNS,
	{ "against", 0, "OLD", "compare PATH with the run OLD", CLI_INTO(struct report, against) },
	{ "peak-tflops", 0, "N", "show FLOP/s as a share of N * 10^12, the peak of one device",
	  .id = PEAK },
	{ "force", 0, NULL, "replace FILE", CLI_INTO(struct report, force) },
	SURVEY_OPTIONS,
	{ 0 },
};

static int take(void *user, const struct cli_args *args, int option)
{
	struct report *report = user;

	if (option != PEAK)
		return select_args_take(&report->select, args, option) ||
				       advice_pass_option(&report->words, args)
			       ? -1
			       : 0;
	free(report->peak);
	if (asprintf(&report->peak, "--peak-tflops=%s", args->value) < 0)
		report->peak = NULL;
	return report->peak ? 0 : -1;
}

static int begin(void *user, struct cli_args *args)
{
	struct report *report = user;

	if (advice_pass_survey(&report->words, &report->survey))
		return survey_end(&report->survey, -ENOMEM);
	report->options = report->words.count;
	if (report->against && !args->operands)
		return cli_error(
			args->command->name,
			"--against %s: name the other run, too: pfw report --against OLD NEW",
			cli_name(report->against));
	if (output_check(args->command, path_of(report), may_replace(report)) != CLI_OK)
		return CLI_USAGE;
	return advice_pass_operands(&report->words, args);
}

static int report_main(const struct cli_command *command, int argc, char **argv)
{
	struct report report = { .survey = { .command = command,
					     .user = &report,
					     .take = take,
					     .begin = begin,
					     .body = body },
				 .format = "html" };
	int status = survey_main(&report.survey, argc, argv);

	pfw_select_release(&report.select);
	report_steps_release(&report.steps);
	advice_words_release(&report.words);
	pfw_traces_close(&report.before);
	advice_notes_release(&report.notes);
	free(report.flame);
	free(report.peak);
	advice_release(&report.advice);
	return status;
}

const struct cli_command cli_report = {
	.name = "report",
	.operands = "[PATH...]",
	.summary = "Make one page of a run: steps, ranks, files, operators, I/O",
	.options = options,
	.details = SURVEY_PATHS
	"The page is one file, works without a network, and shows the results of pfw\n"
	"overlap, table, patterns and memory; --format json prints them for programs.  On\n"
	"a desktop the browser opens the page.  docs/analysis.rst describes it.\n",
	.main = report_main,
};
