/* tools/run/report.c - the summary that `pfw run` prints after its program has ended. */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>

#include "run/run.h"
#include "share/adopt.h"
#include "share/executable.h"
#include "store/sys/proc.h"
#include "store/traces/ends.h"
#include "store/traces/paths.h"
#include "ui/cli.h"

/* Sums over the traces and spools of the run. */
struct sums {
	const struct run *run;
	int status; /* as from wait() */
	int64_t wall_ns;
	const char *base, *shown; /* of the traces; the same as the user would write it */
	struct pfw_paths paths;	  /* the run's traces */
	uint64_t *pid;		  /* of each trace; after an exec one process has several */
	uint64_t bytes, events, lost, excluded, untraced;
	uint64_t unfinished;
	uint64_t killed, recovered; /* processes killed, events recovered from their spools */
	uint64_t broken; /* processes that are dead and whose traces cannot be finished */
	uint64_t cut;	 /* unfinished traces without a spool, of processes that are dead */
	uint64_t ranks, world_size; /* finished rank files, and ranks of the job */
	bool colours;
	char here[PATH_MAX + 1]; /* the working directory, ending in '/' */
};

/* Print one line, "pfw: ...", with its text in a style. */
__attribute__((format(printf, 3, 4))) static void
line(const struct sums *sums, enum cli_style style, const char *format, ...)
{
	char text[16384];
	va_list values;

	va_start(values, format);
	vsnprintf(text, sizeof(text), format, values);
	va_end(values);
	cli_clean(text);
	fprintf(stderr, "%spfw:%s %s%s%s\n", cli_style(sums->colours, CLI_BOLD),
		cli_style(sums->colours, CLI_PLAIN), cli_style(sums->colours, style), text,
		cli_style(sums->colours, CLI_PLAIN));
}

/* ---- killed processes ---- */

static int adopt_one(const char *spool, void *user)
{
	struct sums *sums = user;
	struct pfw_recovery result;

	pfw_recover_spool(spool, sums->base, &result);
	if (result.status == PFW_RECOVER_DONE) {
		sums->killed++;
		sums->recovered += result.recovered;
	} else if (result.status == PFW_RECOVER_BAD) {
		sums->broken++;
		line(sums, CLI_RED, "process %d has ended, and its trace cannot be finished: %s",
		     result.pid, result.why);
	}
	return 0;
}

static void adopt_killed(struct sums *sums)
{
	struct adopt_dirs dirs;

	adopt_dirs_find(&dirs, sums->base);
	pfw_recover_find(dirs.dir, NULL, sums->run->id, adopt_one, sums);
}

/* ---- traces ---- */

/* Whether the process of a trace is known to be dead, here and in containers below. */
static bool is_dead(const struct pfw_trace *trace)
{
	char boot[sizeof(trace->boot)];
	pid_t pid = (pid_t)trace->pid;

	pfw_proc_boot_id(boot, sizeof(boot));
	return boot[0] && !strcmp(boot, trace->boot) && !pfw_proc_alive(pid, 0) &&
	       !pfw_proc_alive_inside(pid, 0, 0);
}

/* Add a trace as number n if it belongs to this run; return whether it does. */
static bool add_trace(struct sums *sums, const char *path, size_t n)
{
	const struct run *run = sums->run;
	struct pfw_trace trace;

	if (pfw_trace_read(&trace, path) != 0 || !trace.ours || strcmp(trace.run, run->id) != 0)
		return false;
	/* With many ranks each reports its own traces, and rank 0 reports all. */
	if (run->rank.rank > 0 && trace.rank != run->rank.rank)
		return false;
	if (sums->pid)
		sums->pid[n] = trace.pid;
	sums->bytes += trace.bytes;
	sums->events += trace.events;
	sums->lost += trace.lost;
	sums->excluded += trace.excluded;
	sums->untraced += trace.untraced;
	sums->unfinished += !trace.ended;
	sums->cut += !trace.ended && is_dead(&trace);
	if (trace.rank >= 0 && trace.world_size > 1) {
		sums->ranks += trace.ended;
		sums->world_size = trace.world_size;
	}
	return true;
}

/* Whether the base has %-words, and the traces are where it says. */
static bool has_glob(const struct sums *sums)
{
	return sums->run->glob[0] && sums->base == sums->run->found;
}

/* The traces of a base with %-words. */
static void add_matches(struct pfw_paths *found, const char *glob)
{
	char path[PATH_MAX + 16];
	const char *why;

	for (int compressed = 0; compressed < 2; compressed++) {
		snprintf(path, sizeof(path), "%s*.pfw%s", glob, compressed ? ".gz" : "");
		pfw_paths_add(found, path, &why);
	}
}

static void find_traces(struct sums *sums)
{
	const char *base = sums->base, *why;
	struct pfw_paths found = { 0 };
	bool directory = base[strlen(base) - 1] == '/';
	size_t kept = 0;

	if (has_glob(sums))
		add_matches(&found, sums->run->glob);
	else if (directory)
		pfw_paths_add(&found, base, &why);
	else
		pfw_paths_add_base(&found, base);
	sums->pid = calloc(found.count + 1, sizeof(*sums->pid));
	for (size_t i = 0; i < found.count; i++) {
		if (add_trace(sums, found.path[i], kept)) {
			found.path[kept++] = found.path[i];
			continue;
		}
		/* Otherwise a live rank may own it, or the spool of a process for which there was no room. */
		if (!directory && sums->run->rank.rank < 0 && !sums->broken)
			pfw_trace_remove_empty(found.path[i]);
		free(found.path[i]);
	}
	found.count = kept;
	sums->paths = found;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t count_processes(const struct sums *sums)
{
	uint64_t count = 0;

	if (!sums->pid)
		return sums->paths.count;
	qsort(sums->pid, sums->paths.count, sizeof(*sums->pid), compare_u64);
	for (size_t i = 0; i < sums->paths.count; i++)
		count += i == 0 || sums->pid[i] != sums->pid[i - 1];
	return count;
}

/* ---- the lines ---- */

/* The word for a shell, quoted if necessary. */
static const char *shell_word(char *out, size_t size, const char *word)
{
	size_t used;

	if (*word && *word != '-' &&
	    !word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			       "0123456789_./:@%+=,-")])
		return word;
	used = (size_t)sprintf(out, "%s'", *word == '-' ? "./" : ""); /* else it is an option */
	for (; *word && used + 6 < size; word++) {
		if (*word == '\'')
			used += (size_t)sprintf(out + used, "'\\''");
		else
			out[used++] = *word;
	}
	out[used++] = '\'';
	out[used] = '\0';
	return out;
}

static bool records_all(void)
{
	const char *data_dir = getenv("DFTRACER_DATA_DIR");

	return data_dir && strcmp(data_dir, "all") == 0;
}

/* Print why a run may have left no trace. */
static void say_nothing_recorded(const struct sums *sums)
{
	struct target target;
	const char *schedule = getenv("PFW_SCHEDULE");

	target_look(&target, sums->run->words[0]);
	if (target.state > TARGET_NOT_EXECUTABLE)
		line(sums, CLI_YELLOW, "nothing was recorded: %s", target.why);
	else if (getenv("PFW_KEEP"))
		line(sums, CLI_PLAIN,
		     "no dump: nothing asked for one, and no process was killed (PFW_KEEP=%s)",
		     cli_name(getenv("PFW_KEEP")));
	else if (schedule && strcmp(schedule, "range") == 0)
		line(sums, CLI_YELLOW,
		     "nothing was recorded: no call of cudaProfilerStart() was seen; `pfw doctor` "
		     "says whether CUDA and CUPTI are found");
	else if (schedule && strstr(schedule, "active="))
		line(sums, CLI_YELLOW,
		     "nothing was recorded: the program reached none of the steps to record; "
		     "pfw_step(), --torch or --step NAME make steps");
	else if (schedule)
		line(sums, CLI_YELLOW,
		     "nothing was recorded: the program ended before PFW_SCHEDULE=%s began",
		     cli_name(schedule));
	else if (getenv("PFW_RANKS"))
		line(sums, CLI_YELLOW, "nothing was recorded: PFW_RANKS=%s has no rank of this job",
		     cli_name(getenv("PFW_RANKS")));
	else if (getenv("PFW_CALLS"))
		line(sums, CLI_YELLOW,
		     "nothing was recorded: the program made no call of PFW_CALLS=%s",
		     cli_name(getenv("PFW_CALLS")));
	else if (sums->run->no_io)
		line(sums, CLI_YELLOW,
		     "nothing was recorded: with --no-io only spans are recorded, and the program "
		     "made none");
	else if (records_all())
		line(sums, CLI_YELLOW,
		     "nothing was recorded: the program did no I/O through libc, unless a line "
		     "above says otherwise");
	else
		line(sums, CLI_YELLOW,
		     "nothing was recorded: all I/O was on files of the system, of Python, or "
		     "outside --data-dir, unless a line above says otherwise; try pfw run "
		     "--all");
}

static void say_events(const struct sums *sums)
{
	char ranks[96] = "", open[96] = "";
	uint64_t processes = count_processes(sums);

	if (sums->world_size > 1 && sums->ranks >= sums->world_size)
		snprintf(ranks, sizeof(ranks), ", all %" PRIu64 " ranks", sums->world_size);
	else if (sums->world_size > 1)
		snprintf(ranks, sizeof(ranks),
			 getenv("PFW_RANKS")
				 ? " (%" PRIu64 " of %" PRIu64 " ranks; PFW_RANKS chooses)"
				 : " (%" PRIu64 " of %" PRIu64 " ranks finished so far)",
			 sums->ranks, sums->world_size);
	else if (sums->unfinished)
		snprintf(open, sizeof(open), " (%" PRIu64 " %s, not counted)", sums->unfinished,
			 sums->broken || sums->cut ? "not finished" : "still running");
	line(sums, CLI_PLAIN, "%s event%s of %s process%s in %s%s%s", cli_count(sums->events),
	     cli_plural(sums->events), cli_count(processes), processes == 1 ? "" : "es",
	     cli_seconds(sums->wall_ns), ranks, open);
}

static void say_left_out(const struct sums *sums)
{
	if (!sums->excluded)
		line(sums, CLI_PLAIN, "nothing left out");
	else
		line(sums, CLI_PLAIN, "%s call%s on other files left out%s",
		     cli_count(sums->excluded), cli_plural(sums->excluded),
		     records_all() ? "" : ": --all records all of them");
}

static void say_lost(const struct sums *sums)
{
	char killed[128] = "";

	if (sums->killed)
		snprintf(killed, sizeof(killed), "; %s event%s recovered from %s killed process%s",
			 cli_count(sums->recovered), cli_plural(sums->recovered),
			 cli_count(sums->killed), sums->killed == 1 ? "" : "es");
	if (sums->lost)
		line(sums, CLI_YELLOW, "%s event%s LOST%s: `pfw validate` says in which file",
		     cli_count(sums->lost), cli_plural(sums->lost), killed);
	else if (sums->broken)
		line(sums, CLI_YELLOW,
		     "lost events are known when the trace is finished%s; until then `pfw "
		     "validate` counts them",
		     killed);
	else if (sums->cut)
		line(sums, CLI_YELLOW,
		     "%s trace%s cut short: how many events are lost is not known%s",
		     cli_count(sums->cut), sums->cut == 1 ? " is" : "s are", killed);
	else
		line(sums, CLI_PLAIN, "nothing lost%s", killed);
}

static void say_untraced(const struct sums *sums)
{
	if (sums->untraced)
		line(sums, CLI_YELLOW,
		     "%s child process%s not traced: pfw query --cat pfw --name untraced_child says why "
		     "(PFW_FOLLOW=1 follows into a cleaned environment)",
		     cli_count(sums->untraced), sums->untraced == 1 ? "" : "es");
}

/* A path as the user would write it: relative if it is below the current directory. */
static const char *shown(const struct run *run, const char *path)
{
	size_t bytes = strlen(run->cwd);

	if (bytes > 1 && strncmp(path, run->cwd, bytes) == 0 && path[bytes] == '/')
		return path[bytes + 1] ? path + bytes + 1 : "./";
	return path;
}

/* The name of the one file, or the base name or a glob of all, as the user wrote it. */
static void shown_name(const struct sums *sums, char *out, size_t size)
{
	size_t skip = strlen(sums->base);

	if (sums->paths.count > 1 && has_glob(sums))
		snprintf(out, size, "%s*", shown(sums->run, sums->run->glob));
	else if (sums->paths.count == 1 && strlen(sums->paths.path[0]) >= skip)
		snprintf(out, size, "%s%s", sums->shown, sums->paths.path[0] + skip);
	else
		snprintf(out, size, "%s", sums->shown);
}

#define JQ "'select(.cat==\"POSIX\")|[.name,.args.fname,.args.ret]|@tsv'"

static void say_where(const struct sums *sums)
{
	char name[8192];
	size_t count = sums->paths.count;

	shown_name(sums, name, sizeof(name));
	if (count == 1)
		line(sums, CLI_PLAIN, "%s (%s)", cli_name(name), cli_bytes(sums->bytes));
	else if (name[0] && name[strlen(name) - 1] == '/')
		line(sums, CLI_PLAIN, "%s files in %s (%s)", cli_count(count), cli_name(name),
		     cli_bytes(sums->bytes));
	else
		line(sums, CLI_PLAIN, "%s%s, %s files (%s)", cli_name(name),
		     has_glob(sums) ? "" : "*", cli_count(count), cli_bytes(sums->bytes));
	if (WIFSIGNALED(sums->status))
		line(sums, CLI_YELLOW, "%s was killed by signal %d (%s)",
		     cli_name(sums->run->words[0]), WTERMSIG(sums->status),
		     strsignal(WTERMSIG(sums->status)));
	else if (WEXITSTATUS(sums->status))
		line(sums, CLI_YELLOW, "%s ended with exit status %d",
		     cli_name(sums->run->words[0]), WEXITSTATUS(sums->status));
}

/* Suggest commands: a page, or what was lost; a table; and another. */
static void say_next(const struct sums *sums)
{
	char name[8192], quoted[8400], first[17000];
	const char *word;
	bool one = sums->paths.count == 1;

	shown_name(sums, name, sizeof(name));
	word = shell_word(quoted, sizeof(quoted), name);
	snprintf(first, sizeof(first), "next: pfw %s %s   or: pfw table %s",
		 sums->lost ? "validate" : "report", word, word);
	if (!one)
		line(sums, CLI_PLAIN, "%s   or: pfw patterns %s", first, word);
	else if (strlen(name) > 3 && strcmp(name + strlen(name) - 3, ".gz") == 0)
		line(sums, CLI_PLAIN, "%s   or: zcat %s | jq -r " JQ, first, word);
	else
		line(sums, CLI_PLAIN, "%s   or: jq -r " JQ " %s", first, word);
}

/* A program that names its trace itself (pfw_start(), initialize_log()) usually puts it into the
 * current directory. */
static void find_renamed(struct sums *sums)
{
	const char *base = sums->base, *as_given = sums->shown;

	if (sums->paths.count || sums->run->output)
		return;
	pfw_paths_free(&sums->paths);
	free(sums->pid);
	snprintf(sums->here, sizeof(sums->here), "%s/", sums->run->cwd);
	sums->base = sums->here;
	sums->shown = "./";
	find_traces(sums);
	if (sums->paths.count)
		return;
	sums->base = base;
	sums->shown = as_given;
}

void run_report(const struct run *run, int status, int64_t wall_ns)
{
	struct sums sums = { .run = run,
			     .status = status,
			     .wall_ns = wall_ns,
			     .base = run->found,
			     .shown = shown(run, run->found),
			     .colours = cli_colours(stderr) };

	signal(SIGXFSZ,
	       SIG_IGN); /* a write beyond RLIMIT_FSIZE is to fail; the program has ended */
	adopt_killed(&sums);
	run_repair(run);
	if (run->quiet)
		return;
	find_traces(&sums);
	find_renamed(&sums);
	if (run->rank.rank > 0) {
		if (sums.lost)
			line(&sums, CLI_YELLOW, "rank %" PRId32 ": %s event%s LOST, see %s*",
			     run->rank.rank, cli_count(sums.lost), cli_plural(sums.lost),
			     cli_name(sums.shown));
	} else if (!sums.paths.count) {
		if (!sums.broken)
			say_nothing_recorded(&sums);
	} else {
		say_events(&sums);
		say_left_out(&sums);
		say_untraced(&sums);
		say_lost(&sums);
		say_where(&sums);
		say_next(&sums);
	}
	pfw_paths_free(&sums.paths);
	free(sums.pid);
}
