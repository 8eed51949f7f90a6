/* tools/partial.c - `pfw index --partial`: reduces traces and partials to one; see partial.h.
 *
 * A partial has the indexes of one file of each rank, which are made where they are missing.  Ranks in several
 * files, and damaged traces, are compacted first, into a directory beside the partial that is removed.
 */
#include "partial.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/text.h"
#include "share/survey.h"
#include "share/unasked.h"
#include "store/index/index.h"
#include "store/json/print.h"
#include "store/traces/partials.h"
#include "store/traces/traces.h"
#include "ui/interrupt.h"

extern char **environ;

/* A trace that becomes a part. */
struct source {
	const struct pfw_trace_file *file;
	char *name; /* of the trace in the partial */
};

struct making {
	const struct partial_options *options;
	int status;
	const _Atomic bool *stop;
	struct pfw_traces traces;      /* that are named */
	struct pfw_traces compacted;   /* made of the traces without a usable index */
	char directory[PATH_MAX + 16]; /* of these; "": none */
	struct source *source;
	size_t sources;
};

static void say(void *user, const char *path, const char *why)
{
	struct making *making = user;

	cli_error(making->options->command->name, "%s: %s", cli_name(path), why);
	making->status = CLI_USAGE;
}

/* ---- compacting ---- */

static bool have_indexes(const struct pfw_traces *traces)
{
	bool all = true;

	for (size_t i = 0; i < traces->count && all; i++)
		all = traces->file[i].partial || pfw_index_exists(traces->file[i].path);
	return all;
}

static bool is_compacted(const struct pfw_trace_file *file)
{
	struct pfw_marks marks;

	return file->blocks.layout == PFW_LAYOUT_MEMBERS &&
	       !pfw_marks_read(&marks, file->path, &file->blocks) && marks.marked;
}

/* Whether the index of a trace as it was recorded has all of it: no killed process has left events, and
 * there is no damage to report. */
static bool is_undamaged(const struct pfw_trace_file *file)
{
	struct pfw_index *index;
	bool whole;

	if (!file->head.ours || !unasked_is_whole(file->path) || pfw_index_of(&index, file))
		return false;
	whole = pfw_index_meta(index)->problems == 0;
	pfw_index_close(index);
	return whole;
}

/* Whether each trace may have an index of all of it. */
static bool may_have_index(const struct pfw_trace_file *file)
{
	return is_compacted(file) || (file->head.ours && unasked_is_whole(file->path));
}

static bool has_index(const struct pfw_trace_file *file)
{
	return pfw_index_exists(file->path) && (is_compacted(file) || is_undamaged(file));
}

/* Whether the traces, in order of rank, are one file of each rank, and all are good. */
static bool are_files(const struct pfw_traces *traces,
		      bool (*is_good)(const struct pfw_trace_file *file))
{
	const struct pfw_trace_file *last = NULL;

	for (size_t i = 0; i < traces->count; i++) {
		const struct pfw_trace_file *file = &traces->file[i];

		if (file->partial)
			continue;
		if ((last && last->head.rank == file->head.rank &&
		     strcmp(last->head.run, file->head.run) == 0) ||
		    !is_good(file))
			return false;
		last = file;
	}
	return true;
}

/* Wait for the child, which gets a signal that we get.  Its exit status, or -1. */
static int wait_for(struct making *making, pid_t child)
{
	const struct timespec rest = { .tv_nsec = 5000000 };
	bool told = false;
	int status;

	while (waitpid(child, &status, WNOHANG) == 0) {
		if (*making->stop && !told)
			told = kill(child, SIGTERM) == 0;
		nanosleep(&rest, NULL);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Run this program again.  Its exit status; CLI_USAGE after a message. */
static int run_self(struct making *making, char **word)
{
	pid_t child;
	int status, error = posix_spawn(&child, "/proc/self/exe", NULL, NULL, word, environ);

	if (error) {
		say(making, word[1],
		    error == E2BIG ? "too many files for one command: make several partials, then "
				     "one partial of these"
				   : strerror(error));
		return CLI_USAGE;
	}
	status = wait_for(making, child);
	return status < 0 ? CLI_USAGE : status;
}

/* Run `pfw compact` on all traces. */
static int run_compact(struct making *making)
{
	const struct partial_options *options = making->options;
	char jobs[16], **word = calloc(making->traces.count + 12, sizeof(*word));
	size_t count = 0;
	int status;

	if (!word)
		return CLI_USAGE;
	word[count++] = (char[]){ "pfw" };
	word[count++] = (char[]){ "compact" };
	word[count++] = (char[]){ "-q" };
	if (options->all_runs)
		word[count++] = (char[]){ "--all-runs" };
	snprintf(jobs, sizeof(jobs), "-j%u", options->jobs);
	if (options->jobs)
		word[count++] = jobs;
	word[count++] = (char[]){ "-o" };
	word[count++] = making->directory;
	word[count++] = (char[]){ "--" };
	for (size_t i = 0; i < making->traces.count; i++) {
		if (!making->traces.file[i].partial)
			word[count++] = making->traces.file[i].path;
	}
	status = run_self(making, word);
	free(word);
	return status;
}

/* Members that `pfw compact` has copied have no index yet. */
static int run_index(struct making *making)
{
	char *word[] = { (char[]){ "pfw" },	   (char[]){ "index" }, (char[]){ "-q" },
			 (char[]){ "--all-runs" }, making->directory,	NULL };

	return have_indexes(&making->compacted) ? CLI_OK : run_self(making, word);
}

/* Compact all traces into a directory beside the partial.  0, or -1 after a message. */
static int compact(struct making *making)
{
	char *directory = making->directory;
	int status;

	snprintf(directory, sizeof(making->directory), "%s.XXXXXX", making->options->out);
	if (!mkdtemp(directory)) {
		say(making, directory, strerror(errno));
		*directory = '\0';
		return -1;
	}
	status = run_compact(making);
	making->status = status > making->status ? status : making->status;
	if (status < CLI_USAGE &&
	    pfw_traces_open(&making->compacted, &directory, 1,
			    PFW_TRACES_ALL_RUNS | PFW_TRACES_EACH, say, making) == 0 &&
	    run_index(making) < CLI_USAGE)
		return 0;
	making->status = CLI_USAGE;
	return -1;
}

static void remove_directory(const char *path)
{
	DIR *dir = *path ? opendir(path) : NULL;
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	if (dir)
		closedir(dir);
	if (dir)
		rmdir(path);
}

/* ---- what becomes a part ---- */

/* "DIRECTORY/NAME", of the directory of `beside` or of --as. */
static char *name_of(const struct making *making, const char *beside, const char *path)
{
	const char *as = making->options->as, *name = pfw_text_base(path);
	const char *slash = strrchr(beside, '/');
	char *made = NULL;
	int bytes;

	if (as)
		bytes = asprintf(&made, "%s%s%s", as, *as ? "/" : "", name);
	else
		bytes = asprintf(&made, "%.*s%s", slash ? (int)(slash + 1 - beside) : 0, beside,
				 name);
	return bytes < 0 ? NULL : made;
}

static int add_sources(struct making *making, const struct pfw_traces *traces, bool partials,
		       bool others, const char *beside)
{
	for (size_t i = 0; i < traces->count; i++) {
		const struct pfw_trace_file *file = &traces->file[i];
		struct source *source = &making->source[making->sources];

		if (file->partial ? !partials : !others)
			continue;
		source->file = file;
		source->name = file->partial
				       ? strdup(file->path)
				       : name_of(making, beside ? beside : file->path, file->path);
		if (!source->name)
			return -ENOMEM;
		making->sources++;
	}
	return 0;
}

/* As traces are sorted that are opened, so that a partial does not depend on how it was merged. */
static int by_rank(const void *a, const void *b)
{
	const struct source *x = a, *y = b;
	int64_t m = x->file->head.rank, n = y->file->head.rank;

	return m != n ? (m < n ? -1 : 1) : strcmp(x->name, y->name);
}

static int find_sources(struct making *making)
{
	const struct unasked how = { .command = making->options->command,
				     .jobs = making->options->jobs,
				     .quiet = making->options->quiet,
				     .stop = making->stop };
	bool ready = are_files(&making->traces, has_index);
	const char *beside = NULL;
	int error;

	if (!ready && are_files(&making->traces, may_have_index)) {
		unasked_for_partial(&how, &making->traces);
		ready = are_files(&making->traces, has_index);
	}

	for (size_t i = 0; i < making->traces.count && !beside; i++)
		beside = making->traces.file[i].partial ? NULL : making->traces.file[i].path;
	if (!ready && compact(making))
		return -1;
	making->source =
		calloc(making->traces.count + making->compacted.count + 1, sizeof(*making->source));
	error = making->source ? 0 : -ENOMEM;
	error = error ?: add_sources(making, &making->traces, true, ready, NULL);
	error = error ?: add_sources(making, &making->compacted, false, true, beside);
	if (error)
		say(making, making->options->out, strerror(ENOMEM));
	else
		qsort(making->source, making->sources, sizeof(*making->source), by_rank);
	return error;
}

/* ---- writing ---- */

static int add_index(struct pfw_partial_writer *writer, const struct source *source,
		     struct pfw_index *index)
{
	uint8_t *image;
	size_t facts_bytes, bytes;
	char *facts = pfw_partials_facts(source->file, source->name, &facts_bytes);
	int error = facts ? pfw_index_alone(index, &image, &bytes) : -ENOMEM;

	if (!error) {
		error = pfw_partial_add(writer, facts, facts_bytes, image, bytes);
		free(image);
	}
	free(facts);
	return error;
}

static int add_source(struct making *making, struct pfw_partial_writer *writer,
		      const struct source *source)
{
	const struct pfw_trace_file *file = source->file;
	char why[PATH_MAX] = "";
	struct pfw_index *index;
	int error;

	pfw_partial_mode(writer, file->mode);
	if (file->partial) {
		error = pfw_partial_copy(writer, file->partial, &file->unit);
	} else {
		error = pfw_index_open(&index, file->path, why, sizeof(why));
		if (!error) {
			error = add_index(writer, source, index);
			pfw_index_close(index);
		}
	}
	if (error)
		say(making, file->partial ? file->partial : source->name,
		    error == -EBADMSG && !*why ? "damaged"
		    : *why		       ? why
					       : strerror(-error));
	return error;
}

static void print_result(const struct making *making)
{
	struct pfw_printer json = { .out = stdout };

	if (making->options->quiet)
		return;
	if (making->options->format == CLI_NDJSON)
		pfw_print(&json, "{'file':%s,'state':'partial','traces':%zu}\n",
			  making->options->out, making->sources);
	else
		printf("%s: a partial of %s trace%s\n", cli_name(making->options->out),
		       cli_count(making->sources), cli_plural(making->sources));
}

static int write_partial(struct making *making)
{
	struct pfw_partial_writer *writer;
	int error = pfw_partial_begin(&writer, making->options->out);

	if (error) {
		say(making, making->options->out,
		    error == -EEXIST ? "the file exists and is not a partial: not replaced"
				     : strerror(-error));
		return error;
	}
	for (size_t i = 0; i < making->sources && !error; i++)
		error = *making->stop ? -EINTR : add_source(making, writer, &making->source[i]);
	if (!error) {
		error = pfw_partial_commit(writer);
		if (error)
			say(making, making->options->out, strerror(-error));
	}
	pfw_partial_end(writer);
	return error;
}

/* ---- the command ---- */

static bool check_options(const struct partial_options *options)
{
	if (!options->out)
		cli_error(
			options->command->name,
			"--partial writes one file for all traces: give -o FILE" PFW_PARTIAL_SUFFIX);
	else if (!pfw_partial_is_name(options->out))
		cli_error(options->command->name,
			  "-o %s: the name of a partial ends in " PFW_PARTIAL_SUFFIX
			  ", by which other commands recognise it",
			  cli_name(options->out));
	return options->out && pfw_partial_is_name(options->out);
}

int partial_make(const struct partial_options *options, char **operand, int count)
{
	struct making making = { .options = options, .stop = stop_watch() };
	unsigned flags = PFW_TRACES_PARTIALS | options->all_runs * PFW_TRACES_ALL_RUNS;

	if (!check_options(options))
		return CLI_USAGE;
	if (pfw_traces_open(&making.traces, operand, (size_t)count, flags, say, &making)) {
		making.status = CLI_USAGE;
	} else {
		if (!options->quiet)
			survey_say_left_out(options->command, &making.traces);
		if (making.status < CLI_USAGE && find_sources(&making) == 0 &&
		    making.status < CLI_USAGE && write_partial(&making) == 0)
			print_result(&making);
	}
	for (size_t i = 0; i < making.sources; i++)
		free(making.source[i].name);
	free(making.source);
	pfw_traces_close(&making.traces);
	pfw_traces_close(&making.compacted);
	remove_directory(making.directory);
	stop_end();
	return cli_finish(stdout, options->command, making.status);
}
