/* tools/compact/compact.c - `pfw compact`: merges a run into one sorted, indexed file per rank. */
#include "compact/compact.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/order.h"
#include "share/select_args.h"
#include "share/survey.h"
#include "share/unasked.h"
#include "store/json/print.h"
#include "store/sys/proc.h"
#include "ui/interrupt.h"
#include "ui/progress.h"

/* ---- files that an older manifest names ---- */

struct older {
	const struct pfw_commit *commit;
	const char *directory; /* of the manifest */
};

/* Whether the commit neither replaces nor removes a file. */
static bool is_left(const struct older *older, const char *name, const struct stat *st)
{
	const struct pfw_commit *commit = older->commit;

	for (size_t i = 0; i < commit->made_count; i++) {
		if (strcmp(strrchr(commit->made[i].name, '/') + 1, name) == 0)
			return false;
	}
	for (size_t i = 0; i < commit->old_count; i++) {
		if (commit->old[i].device == st->st_dev && commit->old[i].inode == st->st_ino)
			return false;
	}
	return true;
}

/* Whether a file is as the manifest describes it and stays. */
static bool stays(void *user, const char *name, uint64_t bytes)
{
	const struct older *older = user;
	struct stat st;
	char *path;
	bool same;

	if (asprintf(&path, "%s/%s", older->directory, name) < 0)
		return false;
	same = lstat(path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == bytes;
	free(path);
	return same && is_left(older, name, &st);
}

/* ---- beside the results ---- */

/* Add the manifest to the commit as a new file. */
static int put(struct pfw_commit *commit, const char *base, struct pfw_manifest *manifest,
	       mode_t mode)
{
	char *name = NULL;
	FILE *out = NULL;
	int fd = -ENOMEM, error;

	if (asprintf(&name, "%s" PFW_MANIFEST_SUFFIX, base) >= 0)
		fd = pfw_commit_add(commit, name, true);
	if (fd >= 0) {
		fd = fchmod(fd, mode | 0600) < 0 ? -1 : dup(fd);
		out = fd < 0 ? NULL : fdopen(fd, "w");
	}
	error = out ? pfw_manifest_write(manifest, out) : fd < 0 ? fd : -errno;
	if (out && fclose(out))
		error = -errno;
	free(name);
	return error;
}

/* Add the run's manifest to the commit, with the entries of an older manifest for files that stay.
 * Return 0, or -errno after a message. */
static int put_manifest(struct compact *compact, struct pfw_commit *commit, const char *base,
			struct pfw_manifest *manifest)
{
	struct older older = { .commit = commit, .directory = commit->directory };
	char *path;
	int error = -ENOMEM;

	if (asprintf(&path, "%s/%s" PFW_MANIFEST_SUFFIX, commit->directory, base) < 0)
		path = NULL;
	else
		error = pfw_manifest_keep(manifest, path, stays, &older);
	error = error ?: put(commit, base, manifest, pfw_traces_mode(&compact->traces));
	if (error)
		compact_say(compact, CLI_USAGE, path ? path : base, "%s", strerror(-error));
	free(path);
	return error;
}

#define JOBS_MAX 16u /* more threads would exceed the promised memory */

const _Atomic bool *compact_stop;

void compact_say(struct compact *compact, int status, const char *path, const char *format, ...)
{
	char text[2048];
	va_list values;

	va_start(values, format);
	vsnprintf(text, sizeof(text), format, values);
	va_end(values);
	cli_error(compact->command->name, "%s: %s", cli_name(path), text);
	PFW_RAISE(compact->status, status);
}

/* Make a full disk or a file size limit an error of write() instead of a signal. */
static void set_up_process(void)
{
	struct rlimit limit;

	compact_stop = stop_watch();
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* ---- the result ---- */

static void print_group(const struct compact *compact, const struct compact_group *group)
{
	const struct pfw_pack_sum *sum = &group->sum;
	uint64_t events = sum->lines - sum->metadata;
	struct pfw_printer json = { .out = stdout };

	if (compact->format == CLI_NDJSON) {
		pfw_print(&json,
			  "{'file':%s,'rank':%" PRId64 ",'originals':%zu,'lines':%" PRIu64
			  ",'events':%" PRIu64 ",'bytes_before':%" PRIu64 ",'bytes':%" PRIu64
			  ",'members':%" PRIu64 ",'copied':%" PRIu64,
			  group->name, group->rank, group->count, sum->lines, events,
			  group->bytes_before, sum->bytes, sum->members, sum->copied);
		pfw_print(&json, group->damaged ? "'damaged':true}\n" : "'damaged':false}\n");
		return;
	}
	if (compact->quiet)
		return;
	printf("%s: %s event%s", cli_name(group->name), cli_count(events), cli_plural(events));
	if (group->count > 1)
		printf(" of %zu traces", group->count);
	printf(", %s -> %s", cli_bytes(group->bytes_before), cli_bytes(sum->bytes));
	if (sum->bytes && sum->copied == 0)
		printf(" (%.1f times smaller)", (double)group->bytes_before / (double)sum->bytes);
	putchar('\n');
	compact_print_removed(compact, group);
}

/* Of more results people see the largest, and the sum. */
#define RESULTS_MAX 16u
#define RESULTS_SHOWN 10u

static int by_bytes(const void *a, const void *b)
{
	const struct compact_group *x = *(const struct compact_group *const *)a;
	const struct compact_group *y = *(const struct compact_group *const *)b;

	return PFW_ORDER(y->sum.bytes, x->sum.bytes) ?: strcmp(x->name, y->name);
}

/* One line for all, as print_group() has one for each. */
static void print_sum(const struct compact *compact, struct compact_group *const *group,
		      size_t count)
{
	uint64_t events = 0, before = 0, bytes = 0, traces = 0, removed = 0;

	for (size_t i = 0; i < count; i++) {
		events += group[i]->sum.lines - group[i]->sum.metadata;
		before += group[i]->bytes_before;
		bytes += group[i]->sum.bytes;
		traces += group[i]->count;
		removed += compact_removed(compact, group[i]);
	}
	printf("%s files: %s event%s", cli_count(count), cli_count(events), cli_plural(events));
	printf(" of %s traces, %s -> ", cli_count(traces), cli_bytes(before));
	printf("%s", cli_bytes(bytes));
	if (removed)
		printf(", %s removed", cli_count(removed));
	printf("; the %u largest (--all-ranks: all):\n", RESULTS_SHOWN);
}

/* Print the results of a directory.  0 or -ENOMEM. */
static int print_groups(const struct compact *compact, size_t first, size_t end)
{
	struct compact_group **group = malloc((end - first) * sizeof(struct compact_group *));
	size_t count = 0;

	if (!group)
		return -ENOMEM;
	for (size_t i = first; i < end; i++) {
		if (!compact->group[i].dropped)
			group[count++] = &compact->group[i];
	}
	if (count > RESULTS_MAX && !compact->all_ranks && compact->format != CLI_NDJSON) {
		if (!compact->quiet)
			print_sum(compact, group, count);
		qsort(group, count, sizeof(struct compact_group *), by_bytes);
		count = RESULTS_SHOWN;
	}
	for (size_t i = 0; i < count; i++)
		print_group(compact, group[i]);
	free(group);
	return 0;
}

/* ---- one directory ---- */

/* Check that the groups of a split file hold all of its lines. */
static int check_split(struct compact *compact, size_t first, size_t end)
{
	for (size_t i = first; i < end && !select_args_any(&compact->select); i++) {
		const struct compact_group *group = &compact->group[i];
		uint64_t lines = 0;

		for (size_t j = first; group->pid && j < end; j++) {
			if (compact->group[j].file[0] == group->file[0])
				lines += compact->group[j].sum.lines;
		}
		if (!group->pid || lines == group->split_lines)
			continue;
		compact_say(compact, CLI_USAGE, group->file[0]->path,
			    "%" PRIu64 " lines are of processes without a `process` line at the "
			    "begin of the file: it cannot be split",
			    group->split_lines - lines);
		return -EBADMSG;
	}
	return 0;
}

/* In one file for all ranks only the pid tells whose a line is, so no two hosts may share one. */
static int check_ranks(struct compact *compact, const struct pfw_manifest *manifest,
		       const struct compact_group *group)
{
	uint64_t pid;
	int mixed = compact->split == COMPACT_INTO_ONE ? pfw_manifest_mixed(manifest, &pid) : 0;

	if (mixed <= 0)
		return mixed;
	compact_say(compact, CLI_USAGE, group->name,
		    "two hosts have a process %" PRIu64
		    ", of different ranks: their lines could not be distinguished in one file; "
		    "write one file per rank",
		    pid);
	return -EBADMSG;
}

/* Write the groups [first, end), which have one base name. */
static int write_base(struct compact *compact, size_t first, size_t end, struct pfw_commit *commit)
{
	struct pfw_manifest *manifest = pfw_manifest_new(compact->group[first].run);
	struct compact_writing *before = NULL, *now;
	int error = manifest ? 0 : -ENOMEM, result;

	for (size_t i = first; i < end && !error; i++) {
		struct compact_group *group = &compact->group[i];

		error = compact_write(compact, group, commit, manifest, &now);
		compact->done += group->bytes_before;
		result = compact_check(before);
		error = error ?: result;
		before = now;
		if (!error && !group->dropped)
			error = compact_remove_originals(compact, group, commit);
	}
	result = compact_check(before);
	error = error ?: result ?: check_split(compact, first, end);
	error = error ?: check_ranks(compact, manifest, &compact->group[first]);
	error = error ?: put_manifest(compact, commit, compact->group[first].base, manifest);
	pfw_manifest_free(manifest);
	return error;
}

/* Write the groups [first, end), which have one directory: either all or none. */
static int write_directory(struct compact *compact, size_t first, size_t end)
{
	struct pfw_commit commit;
	unsigned carried, kept = 0;
	int error = pfw_commit_begin(&commit, compact->group[first].directory, &carried);

	if (error)
		compact_say(compact, CLI_USAGE, compact->group[first].directory, "%s", commit.why);
	for (size_t i = first, last; i < end && !error; i = last) {
		for (last = i + 1;
		     last < end && strcmp(compact->group[i].base, compact->group[last].base) == 0;)
			last++;
		error = write_base(compact, i, last, &commit);
	}
	if (!error) {
		error = pfw_commit_run(&commit, &kept);
		if (error || kept)
			compact_say(compact, error ? CLI_USAGE : CLI_PROBLEMS,
				    compact->group[first].directory, "%s", commit.why);
	}
	progress_hide();
	error = error ?: print_groups(compact, first, end);
	pfw_commit_end(&commit);
	return error;
}

static int compare_groups(const void *a, const void *b)
{
	const struct compact_group *x = a, *y = b;

	return strcmp(x->directory, y->directory) ?: strcmp(x->base, y->base) ?:
	       PFW_ORDER(x->rank, y->rank) ?: strcmp(x->name, y->name);
}

static void write_all(struct compact *compact)
{
	int error = 0;

	qsort(compact->group, compact->groups, sizeof(*compact->group), compare_groups);
	for (size_t i = 0; i < compact->groups; i++)
		compact->all += compact->group[i].bytes_before;
	progress_begin("compact", compact->quiet, false);
	for (size_t i = 0, end; i < compact->groups && !error; i = end) {
		for (end = i + 1;
		     end < compact->groups &&
		     strcmp(compact->group[i].directory, compact->group[end].directory) == 0;)
			end++;
		error = write_directory(compact, i, end);
	}
	compact->interrupted = error == -EINTR;
	if (error && compact->status < CLI_USAGE)
		compact->status = CLI_USAGE;
}

/* Results with copied members, which were not read, have no index yet. */
static void leave_indexes(struct compact *compact)
{
	const struct unasked how = { .command = compact->command,
				     .jobs = compact->jobs,
				     .quiet = compact->quiet,
				     .stop = compact_stop };
	char **path = calloc(compact->groups + 1, sizeof(*path));
	size_t count = 0;

	for (size_t i = 0; i < compact->groups && path && !compact->no_index; i++) {
		const struct compact_group *group = &compact->group[i];

		if (!group->dropped && group->sum.copied &&
		    asprintf(&path[count], "%s/%s", group->directory, group->name) >= 0)
			count++;
	}
	if (count)
		unasked_indexes(&how, path, count);
	while (count)
		free(path[--count]);
	free(path);
}

/* ---- the command ---- */

static const struct cli_option options[] = {
	{ "output", 'o', "DIR", "write into DIR; the originals stay",
	  CLI_INTO(struct compact, out) },
	{ "level", 0, "1-9", "compress harder: 9 is smaller than gzip -9 in half its time",
	  CLI_INTO(struct compact, level), .least = 1, .most = PFW_LEVEL_MOST },
	{ "keep", 0, NULL, "keep the originals: without it or -o they are removed",
	  CLI_INTO(struct compact, keep) },
	{ "force", 0, NULL,
	  "replace existing results; continue although a process of another host "
	  "may have left unwritten events",
	  CLI_INTO(struct compact, force) },
	{ "split-by", 0, "rank|process|none",
	  "one file per rank (default), per process, or for all", CLI_INTO(struct compact, split) },
	SELECT_ARGS_TIMES,
	{ "all-runs", 0, NULL,
	  "compact all runs of a directory, each by itself, not only the newest",
	  CLI_INTO(struct compact, all_runs) },
	{ "all-ranks", 0, NULL,
	  "a line for each result, not only for the ten largest of more than 16",
	  CLI_INTO(struct compact, all_ranks) },
	{ "no-index", 0, NULL, "make no index of the results", CLI_INTO(struct compact, no_index) },
	{ "jobs", 'j', "N", "threads (default: one per CPU, at most 16)",
	  CLI_INTO(struct compact, jobs) },
	{ "quiet", 'q', NULL, "print problems only", CLI_INTO(struct compact, quiet) },
	{ "format", 0, "text|ndjson", "text, or one JSON object per result",
	  CLI_INTO(struct compact, format) },
	{ 0 },
};

static int take_time(void *user, const struct cli_args *args, int option)
{
	struct compact *compact = user;

	return select_args_take(&compact->select, args, option);
}

static void say_open(void *user, const char *path, const char *why)
{
	compact_say(user, CLI_USAGE, path, "%s", why);
}

/* A stream can be neither read twice nor removed. */
static bool check_files(struct compact *compact)
{
	for (size_t i = 0; i < compact->traces.count; i++) {
		const struct pfw_trace_file *file = &compact->traces.file[i];

		if (file->blocks.layout != PFW_LAYOUT_STREAM || file->blocks.file_bytes)
			continue;
		compact_say(compact, CLI_USAGE, file->path, "not a file: compact takes files only");
		return false;
	}
	return true;
}

/* Finish the commit that a killed `pfw compact` left in a directory. */
static bool settle_directory(struct compact *compact, const char *directory, bool *changed)
{
	struct pfw_commit commit;
	unsigned carried = 0;
	int error = pfw_commit_begin(&commit, directory, &carried);

	if (error)
		compact_say(compact, CLI_USAGE, directory, "%s", commit.why);
	pfw_commit_end(&commit);
	*changed |= carried > 0;
	return !error;
}

/* The same for the directories of all traces and results. */
static bool settle(struct compact *compact, bool *changed)
{
	bool good = !compact->out || settle_directory(compact, compact->out, changed);
	char directory[PATH_MAX] = "";

	for (size_t i = 0; i < compact->traces.count && good; i++) {
		if (compact_directory(directory, compact->traces.file[i].path))
			good = settle_directory(compact, directory, changed);
	}
	return good;
}

/* Open the traces.  Open them again if a killed compact or killed recorders had left something,
 * which is now in the traces. */
static bool open_traces(struct compact *compact, char **argv, int count)
{
	bool changed = true;

	for (int round = 0; changed && round < 4; round++) {
		pfw_traces_close(&compact->traces);
		if (pfw_traces_open(&compact->traces, argv, (size_t)count,
				    compact->all_runs * PFW_TRACES_ALL_RUNS | PFW_TRACES_EACH,
				    say_open, compact))
			return false;
		changed = false;
		if (compact->status >= CLI_USAGE || !check_files(compact) ||
		    !settle(compact, &changed) || !compact_leave_out(compact))
			return false;
		if (!changed && !compact_recover(compact, &changed))
			return false;
	}
	if (!compact->quiet)
		survey_say_left_out(compact->command, &compact->traces);
	return true;
}

/* Find the time window of each trace. */
static bool resolve_times(struct compact *compact)
{
	const struct pfw_extent_options options = { .jobs = pfw_pool_jobs(compact->pool),
						    .stop = compact_stop };
	int status;

	/* The originals hold more than the result: they stay, and it needs another place. */
	if (select_args_any(&compact->select) && !compact->out) {
		cli_error(compact->command->name, "--since and --until keep the originals: give -o "
						  "DIR for the part that is cut out");
		compact->status = CLI_USAGE;
		return false;
	}
	status =
		select_args_resolve(&compact->select, compact->command, &compact->traces, &options);
	compact->interrupted = status == 130;
	if (status && compact->status < CLI_USAGE)
		compact->status = CLI_USAGE;
	return !status;
}

static void run(struct compact *compact, char **argv, int count)
{
	unsigned cpus = compact->jobs ? compact->jobs : pfw_cpus();

	compact->made_out = compact->out && mkdir(compact->out, 0700) == 0;
	if (compact->out && !compact->made_out && errno != EEXIST) {
		compact_say(compact, CLI_USAGE, compact->out, "%s", strerror(errno));
		return;
	}
	if (!open_traces(compact, argv, count) || !compact_find_groups(compact) ||
	    !compact_check_originals(compact))
		return;
	if (pfw_pool_open(&compact->pool, cpus < JOBS_MAX ? cpus : JOBS_MAX)) {
		compact_say(compact, CLI_USAGE, "compact", "no memory");
		return;
	}
	if (resolve_times(compact))
		write_all(compact);
	pfw_pool_close(compact->pool);
	if (compact->status < CLI_USAGE && !compact->interrupted)
		leave_indexes(compact);
}

static int compact_main(const struct cli_command *command, int argc, char **argv)
{
	struct compact compact = { .command = command, .level = PFW_LEVEL_FAST };
	struct cli_args args;
	int status = cli_read(&args, command, argc, argv, &compact, take_time);

	if (status >= 0)
		return status;
	set_up_process();
	run(&compact, argv, args.operands);
	pfw_select_release(&compact.select);
	compact_free_groups(&compact);
	pfw_traces_close(&compact.traces);
	/* Fails where there is a result. */
	if (compact.made_out)
		rmdir(compact.out);
	/* A signal that came after the work was complete does not end the process. */
	if (compact.interrupted)
		stop_end();
	return cli_finish(stdout, command, compact.status);
}

const struct cli_command cli_compact = {
	.name = "compact",
	.operands = "[PATH...]",
	.summary = "Merge a run's traces into one sorted, compressed, indexed file per rank",
	.options = options,
	.failure = CLI_USAGE,
	.main = compact_main,
	.details =
		"PATH is a trace, a directory, a glob or the base name of a run; none: the\n"
		"newest run here.  Lines stay as they are.  The result, BASE-rankNNNN.pfw.gz or\n"
		"BASE.pfw.gz, is written beside the traces, read back and compared.  Then they\n"
		"are REMOVED, unless -o or --keep is given.  If the command is killed, either\n"
		"the traces or the result are complete: run it again to finish.  Symbolic links\n"
		"are never removed, nor the files that they lead to.\n"
		"exit status: 0 ok, 1 something could not be read, 2 nothing was done\n",
};
