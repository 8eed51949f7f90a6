/* tools/compact/recover.c - before a merge: finishes traces, and refuses those still written. */
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "compact/compact.h"
#include "share/adopt.h"
#include "store/read/blocks.h"
#include "store/recover/owner.h"

/* ---- spools ---- */

/* Adopt a spool of one of the traces.  False: it cannot be adopted here and now. */
static bool adopt(struct compact *compact, const char *spool, const char *place, bool *recovered)
{
	struct pfw_recovery result;
	const char *what;

	pfw_recover_spool(spool, place, &result);
	what = result.trace[0] ? result.trace : spool;
	switch (result.status) {
	case PFW_RECOVER_DONE:
		*recovered = true;
		if (!compact->quiet)
			fprintf(stderr,
				"pfw compact: %s: process %d was killed; %s event%s recovered\n",
				cli_name(what), result.pid, cli_count(result.recovered),
				cli_plural(result.recovered));
		return true;
	case PFW_RECOVER_NOTHING:
		return true;
	case PFW_RECOVER_LIVE:
		compact_say(compact, CLI_USAGE, what, "is still being written: %s", result.why);
		return false;
	case PFW_RECOVER_FOREIGN:
		compact_say(compact, compact->force ? CLI_PROBLEMS : CLI_USAGE, what, "%s%s",
			    result.why, compact->force ? "" : ", or --force to do without it");
		return compact->force;
	default:
		compact_say(compact, CLI_USAGE, what, "%s", result.why);
		return false;
	}
}

/* Whether a spool belongs to one of the traces in `directory`, or to a process of their run there
 * that was killed before it made its trace. */
static bool is_wanted(const struct compact *compact, const char *spool, const char *directory)
{
	const struct pfw_spool_trace trace = pfw_recover_trace(spool);
	const char *run = NULL; /* of the trace before, since most traces are of one run */
	bool of_run = false;

	for (size_t i = 0; i < compact->traces.count; i++) {
		const struct pfw_trace_file *file = &compact->traces.file[i];
		const struct pfw_spool_trace it = { true, file->device, file->inode };
		bool first = !run || strcmp(run, file->head.run) != 0;

		if (!file->head.ours)
			continue;
		run = file->head.run;
		if (first)
			of_run = pfw_recover_belongs(spool, NULL, run);
		if (of_run && ((first && pfw_recover_belongs(spool, directory, NULL)) ||
			       (pfw_recover_may(&trace, &it) &&
				pfw_recover_belongs(spool, file->path, NULL))))
			return true;
	}
	return false;
}

static bool recover_in(struct compact *compact, const char *trace, bool *recovered)
{
	struct pfw_paths spools = { 0 };
	const char *place;
	struct adopt_dirs dirs;
	bool good = true;

	adopt_dirs_find(&dirs, trace);
	place = strcmp(dirs.beside, ".") == 0 ? "./" : dirs.beside;
	if (adopt_spools_find(&spools, &dirs)) {
		compact_say(compact, CLI_USAGE, trace, "no memory for the list of spools");
		good = false;
	}
	for (size_t i = 0; i < spools.count && good; i++) {
		if (is_wanted(compact, spools.path[i], place))
			good = adopt(compact, spools.path[i], place, recovered);
	}
	pfw_paths_free(&spools);
	return good;
}

/* ---- traces ---- */

/* Report that a trace was not finished, though no process writes it.  Whether it is compacted all the same. */
static bool say_unfinished(struct compact *compact, const struct pfw_trace_file *file)
{
	struct pfw_claim claim;
	struct pfw_marks marks;
	struct pfw_trace trace;

	if (!file->head.ours || pfw_trace_read(&trace, file->path) || trace.ended)
		return true;
	/* The last line of a compacted file is of the process that wrote last. */
	if (pfw_marks_read(&marks, file->path, &file->blocks) == 0 && marks.marked)
		return true;
	if (!pfw_claim_read(&claim, file->path) && *claim.spool && access(claim.spool, F_OK) == 0) {
		compact_say(compact, compact->force ? CLI_PROBLEMS : CLI_USAGE, file->path,
			    "not finished: process %" PRIu64 " was killed, and its spool %s has "
			    "not been recovered: run `pfw repair`%s",
			    trace.pid, cli_name(claim.spool),
			    compact->force ? "" : ", or --force to do without it");
		return compact->force;
	}
	compact_say(compact, CLI_PROBLEMS, file->path,
		    "not finished: process %" PRIu64 " of %s was killed and its spool is gone; "
		    "what the file holds is taken",
		    trace.pid, trace.host);
	return true;
}

/* Whether certainly no process writes a trace any more.  In doubt the user decides (--force). */
static bool check_trace(struct compact *compact, const struct pfw_trace_file *file)
{
	char why[256];

	switch (pfw_life_of(file->path, why, sizeof(why))) {
	case PFW_LIFE_ALIVE:
		compact_say(compact, CLI_USAGE, file->path,
			    "is still being written: %s: compact it when its process has ended",
			    why);
		return false;
	case PFW_LIFE_UNKNOWN:
		if (compact->force)
			break;
		compact_say(compact, CLI_USAGE, file->path,
			    "%s: `pfw repair` it where its process was, or --force where it is "
			    "dead",
			    why);
		return false;
	default:
		break;
	}
	return say_unfinished(compact, file);
}

static bool check_traces(struct compact *compact)
{
	bool good = true;

	for (size_t i = 0; i < compact->traces.count; i++)
		good = check_trace(compact, &compact->traces.file[i]) && good;
	return good;
}

bool compact_recover(struct compact *compact, bool *recovered)
{
	char directory[PATH_MAX] = "";
	bool good = true;

	*recovered = false;
	for (size_t i = 0; i < compact->traces.count && good; i++) {
		const struct pfw_trace_file *file = &compact->traces.file[i];

		if (file->head.ours && compact_directory(directory, file->path))
			good = recover_in(compact, file->path, recovered);
	}
	return good && (*recovered || check_traces(compact));
}
