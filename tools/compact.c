/* compact.c - `pfw compact`: the traces of a run -> one sorted, compressed, indexed file a rank. */
#include "compact.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "progress.h"
#include "select_args.h"
#include "stop.h"
#include "store/cpus.h"
#include "store/index.h"
#include "store/json_print.h"

#define JOBS_MAX 16u /* more would not fit into the memory that is promised */

const volatile bool *compact_stop;

void compact_say(struct compact *compact, int status, const char *path, const char *format, ...)
{
	char text[2048];
	va_list values;

	va_start(values, format);
	vsnprintf(text, sizeof(text), format, values);
	va_end(values);
	cli_error(compact->command->name, "%s: %s", cli_name(path), text);
	if (compact->status < status)
		compact->status = status;
}

/* A full disk, or a limit, is to be an error of write(), not the end. */
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
	/* Blocks are given back when they are freed, not kept in arenas a thread each. */
	mallopt(M_MMAP_THRESHOLD, 512 * 1024);
	mallopt(M_ARENA_MAX, 2);
	mallopt(M_TRIM_THRESHOLD, 64 << 20); /* the next rank's rows take the place of this one's */
}

/* ---- the result ---- */

static void print_group(const struct compact *compact, const struct compact_group *group)
{
	const struct pfw_pack_sum *sum = &group->sum;
	uint64_t events = sum->lines - sum->metadata;

	if (compact->format == CLI_NDJSON) {
		fputs("{\"file\":", stdout);
		pfw_json_print_string(stdout, group->name);
		printf(",\"rank\":%" PRId64 ",\"originals\":%zu,\"lines\":%" PRIu64
		       ",\"events\":%" PRIu64 ",\"bytes_before\":%" PRIu64 ",\"bytes\":%" PRIu64
		       ",\"members\":%" PRIu64 ",\"copied\":%" PRIu64 ",\"damaged\":%s}\n",
		       group->rank, group->count, sum->lines, events, group->bytes_before,
		       sum->bytes, sum->members, sum->copied, group->damaged ? "true" : "false");
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
}

/* ---- one directory ---- */

/* What lies beside an original goes with it. */
static int add_beside(struct pfw_commit *commit, const char *stem, const char *suffix)
{
	char path[PATH_MAX];
	struct stat st;

	if (snprintf(path, sizeof(path), "%s%s", stem, suffix) >= (int)sizeof(path) ||
	    lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	return pfw_commit_remove(commit, path, st.st_dev, st.st_ino, (uint64_t)st.st_size,
				 st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec);
}

/* Whether the originals go. */
static bool removes_originals(const struct compact *compact, const struct compact_group *group)
{
	return !compact->keep && !compact->cut && !group->damaged;
}

static int add_originals(struct compact *compact, const struct compact_group *group,
			 struct pfw_commit *commit)
{
	int error = 0;

	if (!removes_originals(compact, group))
		return 0;
	for (size_t i = 0; i < group->count && !error; i++) {
		const struct pfw_trace_file *file = group->file[i];

		error = pfw_commit_remove(commit, file->path, file->device, file->inode,
					  file->blocks.file_bytes, file->changed_ns);
		if (!error)
			error = add_beside(commit, file->path, PFW_INDEX_SUFFIX);
		if (error)
			compact_say(compact, CLI_USAGE, file->path, "%s", strerror(-error));
	}
	return error;
}

/* Whether a file that was taken apart by process is all there: no line is of a process unknown. */
static int check_split(struct compact *compact, size_t first, size_t end)
{
	for (size_t i = first; i < end && !compact->cut; i++) {
		const struct compact_group *group = &compact->group[i];
		uint64_t lines = 0;

		for (size_t j = first; group->pid && j < end; j++) {
			if (compact->group[j].file[0] == group->file[0])
				lines += compact->group[j].sum.lines;
		}
		if (!group->pid || lines == group->split_lines)
			continue;
		compact_say(compact, CLI_USAGE, group->file[0]->path,
			    "%" PRIu64 " lines are of processes without a `process` line at its "
			    "begin: it cannot be taken apart",
			    group->split_lines - lines);
		return -EBADMSG;
	}
	return 0;
}

/* Whether all ranks can be in one file: lines are told apart by their process. */
static int check_ranks(struct compact *compact, const struct pfw_manifest *manifest,
		       const struct compact_group *group)
{
	uint64_t pid;
	int mixed = compact->split == COMPACT_INTO_ONE ? pfw_manifest_mixed(manifest, &pid) : 0;

	if (mixed <= 0)
		return mixed;
	compact_say(compact, CLI_USAGE, group->name,
		    "two hosts have a process %" PRIu64
		    ", of different ranks: in one file nobody could "
		    "tell their lines apart; leave a file for each rank",
		    pid);
	return -EBADMSG;
}

/* Groups [first, end) have one base name. */
static int write_base(struct compact *compact, size_t first, size_t end, struct pfw_commit *commit)
{
	struct pfw_manifest *manifest = pfw_manifest_new(compact->group[first].run);
	struct compact_group *gone = NULL;
	struct compact_writing *before = NULL, *now;
	int error = manifest ? 0 : -ENOMEM, result;

	for (size_t i = first; i < end && !error; i++) {
		struct compact_group *group = &compact->group[i];

		error = compact_write(compact, group, commit, manifest, &now);
		compact->done += group->bytes_before;
		result = compact_check(before);
		error = error ? error : result;
		before = now;
		if (!error && !group->dropped)
			error = add_originals(compact, group, commit);
		if (removes_originals(compact, group) && !gone)
			gone = group;
	}
	result = compact_check(before);
	error = error ? error : result;
	if (!error)
		error = check_split(compact, first, end);
	if (!error)
		error = check_ranks(compact, manifest, &compact->group[first]);
	if (!error && gone)
		error = compact_manifest_left(gone, commit);
	if (!error)
		error = compact_manifest(compact, commit, compact->group[first].base, manifest);
	pfw_manifest_free(manifest);
	return error;
}

/* Groups [first, end) have one directory: all of them, or nothing. */
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
	for (size_t i = first; i < end && !error; i++) {
		compact_write_left(compact, &compact->group[i]);
		if (!compact->group[i].dropped)
			print_group(compact, &compact->group[i]);
	}
	pfw_commit_end(&commit);
	return error;
}

static int compare_groups(const void *a, const void *b)
{
	const struct compact_group *x = a, *y = b;
	int order = strcmp(x->directory, y->directory);

	if (!order)
		order = strcmp(x->base, y->base);
	if (!order && x->rank != y->rank)
		order = x->rank < y->rank ? -1 : 1;
	return order ? order : strcmp(x->name, y->name);
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

/* ---- the command ---- */

enum {
	OPTION_LEVEL = 256,
	OPTION_KEEP,
	OPTION_FORCE,
	OPTION_SPLIT,
	OPTION_ALL_RUNS,
	OPTION_FORMAT
};

static const struct cli_option options[] = {
	{ "output", 'o', "DIR", "write there instead of beside the originals", 'o' },
	{ "level", 0, "1-9", "compress harder: 9 is smaller than gzip -9 in half its time",
	  OPTION_LEVEL },
	{ "keep", 0, NULL, "keep the originals", OPTION_KEEP },
	{ "force", 0, NULL,
	  "replace what has a result's name; go on where a process of another "
	  "host may have left something",
	  OPTION_FORCE },
	{ "split-by", 0, "rank|process|none",
	  "a file for each rank (default), for each process, or "
	  "one for all",
	  OPTION_SPLIT },
	SELECT_ARGS_TIMES,
	{ "all-runs", 0, NULL, "all runs of a directory, each for itself, not the newest only",
	  OPTION_ALL_RUNS },
	{ "jobs", 'j', "N", "threads (default: one a CPU, at most 16)", 'j' },
	{ "quiet", 'q', NULL, "say only what is wrong", 'q' },
	{ "format", 0, "text|ndjson", "one JSON object a result instead of text", OPTION_FORMAT },
	{ 0 },
};

static bool take_split(struct compact *compact, const char *text)
{
	static const char *const names[] = { "rank", "process", "none" };

	for (size_t i = 0; i < CLI_ARRAY_LEN(names); i++) {
		if (strcmp(text, names[i]) == 0) {
			compact->split = (enum compact_split)i;
			return true;
		}
	}
	cli_error(compact->command->name, "--split-by %s is none of rank, process, none",
		  cli_name(text));
	return false;
}

static bool take_option(struct compact *compact, int option, const char *value)
{
	int64_t number;

	switch (option) {
	case 'o':
		compact->out = value;
		return true;
	case 'q':
		return compact->quiet = true;
	case 'j':
		return cli_jobs(compact->command, value, 1024, &compact->jobs) == 0;
	case OPTION_KEEP:
		return compact->keep = true;
	case OPTION_FORCE:
		return compact->force = true;
	case OPTION_ALL_RUNS:
		return compact->all_runs = true;
	case OPTION_SPLIT:
		return take_split(compact, value);
	case OPTION_LEVEL:
		if (cli_whole(compact->command, "level", value, 1, PFW_LEVEL_MOST, &number))
			return false;
		compact->level = (int)number;
		return true;
	default:
		compact->format = cli_format(compact->command, value, 2);
		return compact->format >= 0;
	}
}

static void say_open(void *user, const char *path, const char *why)
{
	compact_say(user, CLI_USAGE, path, "%s", why);
}

/* A stream cannot be read a second time, nor removed. */
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

/* Finish what a killed predecessor had begun in a directory. */
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

/* In those of the traces, and of the results. */
static bool settle(struct compact *compact, bool *changed)
{
	bool good = !compact->out || settle_directory(compact, compact->out, changed);
	char *last = NULL;

	for (size_t i = 0; i < compact->traces.count && good; i++) {
		char *directory = compact_directory(compact->traces.file[i].path);

		if (!directory)
			good = false;
		else if (!last || strcmp(last, directory) != 0)
			good = settle_directory(compact, directory, changed);
		free(last);
		last = directory;
	}
	free(last);
	return good;
}

/* Open the traces, and once more where killed processes had left something: of the recorder, which is
 * added to them, or of a compact. */
static bool open_traces(struct compact *compact, char **argv, int count)
{
	bool changed = true;

	for (int round = 0; changed && round < 4; round++) {
		pfw_traces_close(&compact->traces);
		if (pfw_traces_open(&compact->traces, argv, (size_t)count, compact->all_runs,
				    say_open, compact))
			return false;
		changed = false;
		if (compact->status >= CLI_USAGE || !check_files(compact) ||
		    !settle(compact, &changed))
			return false;
		if (!changed && !compact_recover(compact, &changed))
			return false;
	}
	return true;
}

/* From when to when each trace is taken. */
static bool resolve_times(struct compact *compact)
{
	const struct pfw_extent_options options = { .jobs = pfw_pool_jobs(compact->pool),
						    .stop = compact_stop };
	int status;

	/* Its originals hold more than the result: they stay, and so it needs another place. */
	if (compact->cut && !compact->out) {
		cli_error(compact->command->name, "--since and --until leave the originals as they "
						  "are: say with -o DIR where the part is to go");
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

/* Whether originals that are to go can go: a result beside them that stay would be all lines twice. */
static bool check_originals(struct compact *compact)
{
	char *last = NULL, *directory;
	bool good = true;

	for (size_t i = 0; i < compact->groups && good && !compact->keep && !compact->cut; i++) {
		directory = compact_directory(compact->group[i].file[0]->path);
		good = directory && ((last && strcmp(last, directory) == 0) ||
				     access(directory, W_OK | X_OK) == 0);
		if (!good)
			compact_say(compact, CLI_USAGE, compact->group[i].file[0]->path,
				    "cannot be removed once it is compacted: %s: --keep leaves it, "
				    "-o DIR writes elsewhere",
				    directory ? strerror(errno) : "no memory");
		free(last);
		last = directory;
	}
	free(last);
	return good;
}

static void run(struct compact *compact, char **argv, int count)
{
	unsigned cpus = compact->jobs ? compact->jobs : pfw_cpus();

	if (compact->out && mkdir(compact->out, 0700) < 0 && errno != EEXIST) {
		compact_say(compact, CLI_USAGE, compact->out, "%s", strerror(errno));
		return;
	}
	if (!open_traces(compact, argv, count) || !compact_find_groups(compact) ||
	    !check_originals(compact))
		return;
	if (pfw_pool_open(&compact->pool, cpus < JOBS_MAX ? cpus : JOBS_MAX)) {
		compact_say(compact, CLI_USAGE, "compact", "no memory");
		return;
	}
	if (resolve_times(compact))
		write_all(compact);
	pfw_pool_close(compact->pool);
}

static int compact_main(const struct cli_command *command, int argc, char **argv)
{
	struct compact compact = { .command = command, .level = PFW_LEVEL_FAST };
	struct cli_args args;
	int option;

	cli_args_init(&args, command, argc, argv);
	while ((option = cli_next(&args)) >= 0) {
		int taken = select_args_take(&compact.select, &args, option);

		compact.cut |= taken > 0;
		if (taken < 0 || (!taken && !take_option(&compact, option, args.value)))
			return CLI_USAGE;
	}
	if (option != CLI_DONE)
		return cli_ended(&args, option);
	set_up_process();
	run(&compact, argv, args.operands);
	pfw_select_release(&compact.select);
	compact_free_groups(&compact);
	pfw_traces_close(&compact.traces);
	/* Not where it came too late to end anything. */
	if (compact.interrupted)
		stop_end();
	return cli_finish(stdout, command, compact.status);
}

const struct cli_command cli_compact = {
	.name = "compact",
	.operands = "[PATH...]",
	.summary = "Merge a run's traces into one sorted, compressed, indexed file a rank",
	.options = options,
	.failure = CLI_USAGE,
	.main = compact_main,
	.details =
		"PATH is a trace, a directory, a glob or the base name of a run; none: the newest run\n"
		"here.  Lines stay as they are.  The result, BASE-rankNNNN.pfw.gz or BASE.pfw.gz, is\n"
		"written beside the traces, read back and compared; then they are removed.  Killed at\n"
		"any moment, either they are there or the result is; run it again to finish.\n"
		"exit status: 0 ok, 1 something could not be read, 2 nothing was done\n",
};
