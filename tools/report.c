/* report.c - what `pfw run` says when its program has ended; see report.h. */
#include "report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adopt.h"
#include "cli.h"
#include "store/paths.h"
#include "store/trace.h"
#include "target.h"

/* What the run's traces and spools add up to. */
struct sums {
	const struct report *report;
	struct pfw_paths paths; /* the run's traces */
	uint64_t *pid;		/* of each trace: exec begins another in the same process */
	uint64_t bytes, events, lost, excluded;
	uint64_t unfinished;
	uint64_t killed, recovered; /* processes, and events from their spools */
	uint64_t ranks, world_size; /* rank files that are finished, and ranks there are */
	bool colours;
};

/* One line, "pfw: …": what it is about in a style. */
__attribute__((format(printf, 3, 4))) static void
line(const struct sums *sums, enum cli_style style, const char *format, ...)
{
	char text[16384];
	va_list values;

	va_start(values, format);
	vsnprintf(text, sizeof(text), format, values);
	va_end(values);
	fprintf(stderr, "%spfw:%s %s%s%s\n", cli_style(sums->colours, CLI_BOLD),
		cli_style(sums->colours, CLI_PLAIN), cli_style(sums->colours, style), text,
		cli_style(sums->colours, CLI_PLAIN));
}

/* ---- killed processes ---- */

static int adopt_one(const char *spool, void *user)
{
	struct sums *sums = user;
	struct pfw_recovery result;

	pfw_recover_spool(spool, &result);
	if (result.status == PFW_RECOVER_DONE) {
		sums->killed++;
		sums->recovered += result.recovered;
	} else if (result.status == PFW_RECOVER_BAD && !sums->report->quiet) {
		line(sums, CLI_RED, "process %d was killed, and its last events cannot be read: %s",
		     result.pid, result.why);
	}
	return 0;
}

static void adopt_killed(struct sums *sums)
{
	struct adopt_dirs dirs;

	adopt_dirs_find(&dirs, sums->report->base);
	pfw_recover_find(dirs.dir, NULL, sums->report->run, adopt_one, sums);
}

/* ---- traces ---- */

/* Add a trace where it is of this run, as number n; says whether it is. */
static bool add_trace(struct sums *sums, const char *path, size_t n)
{
	const struct report *report = sums->report;
	struct pfw_trace trace;

	if (pfw_trace_read(&trace, path) != 0 || !trace.ours || strcmp(trace.run, report->run) != 0)
		return false;
	/* Of many ranks each looks after its own, and rank 0 sums up. */
	if (report->rank > 0 && trace.rank != report->rank)
		return false;
	if (sums->pid)
		sums->pid[n] = trace.pid;
	sums->bytes += trace.bytes;
	sums->events += trace.events;
	sums->lost += trace.lost;
	sums->excluded += trace.excluded;
	sums->unfinished += !trace.ended;
	if (trace.rank >= 0 && trace.world_size > 1) {
		sums->ranks += trace.ended;
		sums->world_size = trace.world_size;
	}
	return true;
}

static void find_traces(struct sums *sums)
{
	const char *base = sums->report->base, *why;
	struct pfw_paths found = { 0 };
	bool directory = base[strlen(base) - 1] == '/';
	size_t kept = 0;

	if (directory)
		pfw_paths_add(&found, base, &why);
	else
		pfw_paths_add_base(&found, base);
	sums->pid = calloc(found.count + 1, sizeof(*sums->pid));
	for (size_t i = 0; i < found.count; i++) {
		if (add_trace(sums, found.path[i], kept)) {
			found.path[kept++] = found.path[i];
			continue;
		}
		if (!directory && sums->report->rank < 0) /* else it may be of a rank that lives */
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

/* A word for a shell: quoted where it needs it. */
static const char *shell_word(char *out, size_t size, const char *word)
{
	size_t used = 0;

	if (*word && !word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					"0123456789_./:@%+=,-")])
		return word;
	out[used++] = '\'';
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

/* Why a run has left no trace, as far as can be told. */
static void say_nothing_recorded(const struct sums *sums)
{
	const struct report *report = sums->report;
	struct target target;

	const char *schedule = getenv("PFW_SCHEDULE");

	target_look(&target, report->program);
	if (target.state > TARGET_NOT_EXECUTABLE)
		line(sums, CLI_YELLOW, "nothing was recorded: %s", target.why);
	else if (schedule && strcmp(schedule, "range") == 0)
		line(sums, CLI_YELLOW,
		     "nothing was recorded: the program made no cudaProfilerStart() that could be "
		     "seen; pfw doctor says whether CUDA and CUPTI are here");
	else if (report->no_io)
		line(sums, CLI_YELLOW,
		     "nothing was recorded: --no-io leaves the program's own "
		     "spans, and it made none");
	else if (report->all)
		line(sums, CLI_YELLOW, "nothing was recorded: the program did no I/O by libc");
	else
		line(sums, CLI_YELLOW,
		     "nothing was recorded: no I/O but on system files, Python's "
		     "own and what --data-dir leaves out; try pfw run --all");
}

static void say_events(const struct sums *sums)
{
	char ranks[96] = "", running[64] = "";
	uint64_t processes = count_processes(sums);

	if (sums->world_size > 1 && sums->ranks >= sums->world_size)
		snprintf(ranks, sizeof(ranks), ", all %" PRIu64 " ranks", sums->world_size);
	else if (sums->world_size > 1)
		snprintf(ranks, sizeof(ranks),
			 " (%" PRIu64 " of %" PRIu64 " ranks finished so far)", sums->ranks,
			 sums->world_size);
	else if (sums->unfinished)
		snprintf(running, sizeof(running), " (%" PRIu64 " still running, not counted)",
			 sums->unfinished);
	line(sums, CLI_PLAIN, "%s event%s of %s process%s in %s%s%s", cli_count(sums->events),
	     cli_plural(sums->events), cli_count(processes), processes == 1 ? "" : "es",
	     cli_seconds(sums->report->wall_ns), ranks, running);
}

static void say_left_out(const struct sums *sums)
{
	if (!sums->excluded)
		line(sums, CLI_PLAIN, "nothing left out");
	else
		line(sums, CLI_PLAIN, "%s call%s on other files left out%s",
		     cli_count(sums->excluded), cli_plural(sums->excluded),
		     sums->report->all ? "" : ": --all records all of them");
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
	else
		line(sums, CLI_PLAIN, "nothing lost%s", killed);
}

/* The one file, or the name that stands for all, as the user would write it. */
static void shown_name(const struct sums *sums, char *out, size_t size)
{
	const struct report *report = sums->report;
	size_t skip = strlen(report->base);

	if (sums->paths.count == 1 && strlen(sums->paths.path[0]) >= skip)
		snprintf(out, size, "%s%s", report->shown, sums->paths.path[0] + skip);
	else
		snprintf(out, size, "%s", report->shown);
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
		line(sums, CLI_PLAIN, "%s*, %s files (%s)", cli_name(name), cli_count(count),
		     cli_bytes(sums->bytes));
	if (WIFSIGNALED(sums->report->status))
		line(sums, CLI_YELLOW, "%s was killed by signal %d (%s)",
		     cli_name(sums->report->program), WTERMSIG(sums->report->status),
		     strsignal(WTERMSIG(sums->report->status)));
	else if (WEXITSTATUS(sums->report->status))
		line(sums, CLI_YELLOW, "%s ended with exit status %d",
		     cli_name(sums->report->program), WEXITSTATUS(sums->report->status));
}

/* The command that answers what one wants to know next: what took the time, or, where something is
 * missing, what.  And another one. */
static void say_next(const struct sums *sums)
{
	char name[8192], quoted[8400];
	const char *next = sums->lost ? "validate" : "table", *word;

	shown_name(sums, name, sizeof(name));
	word = shell_word(quoted, sizeof(quoted), name);
	if (sums->paths.count > 1)
		line(sums, CLI_PLAIN, "next: pfw %s %s   or: pfw compact %s", next, word, word);
	else if (strlen(name) > 3 && strcmp(name + strlen(name) - 3, ".gz") == 0)
		line(sums, CLI_PLAIN, "next: pfw %s %s   or: zcat %s | jq -r " JQ, next, word,
		     word);
	else
		line(sums, CLI_PLAIN, "next: pfw %s %s   or: jq -r " JQ " %s", next, word, word);
}

/* Where the program has named its trace itself (pfw_start(), initialize_log()) it is mostly here. */
static void find_renamed(struct sums *sums, struct report *here)
{
	const struct report *report = sums->report;
	char *directory = NULL;

	if (sums->paths.count || !report->cwd || asprintf(&directory, "%s/", report->cwd) < 0)
		return;
	pfw_paths_free(&sums->paths);
	free(sums->pid);
	*here = *report;
	here->base = directory;
	here->shown = "./";
	sums->report = here;
	find_traces(sums);
	if (!sums->paths.count)
		sums->report = report;
}

void report_run(const struct report *report)
{
	struct sums sums = { .report = report, .colours = cli_colours(stderr) };
	struct report here = { 0 };

	adopt_killed(&sums);
	if (report->quiet)
		return;
	find_traces(&sums);
	find_renamed(&sums, &here);
	if (report->rank > 0) {
		if (sums.lost)
			line(&sums, CLI_YELLOW, "rank %" PRId64 ": %s event%s LOST, see %s*",
			     report->rank, cli_count(sums.lost), cli_plural(sums.lost),
			     cli_name(report->shown));
	} else if (!sums.paths.count) {
		say_nothing_recorded(&sums);
	} else {
		say_events(&sums);
		say_left_out(&sums);
		say_lost(&sums);
		say_where(&sums);
		say_next(&sums);
	}
	pfw_paths_free(&sums.paths);
	free(sums.pid);
	free((char *)here.base);
}
