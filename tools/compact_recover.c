/* compact_recover.c - before traces are merged: nobody writes them, and what killed processes left
 * in their spools is in them.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adopt.h"
#include "compact.h"
#include "store/marks.h"
#include "store/proc.h"

struct spools {
	char **path;
	size_t count;
};

static int keep_spool(const char *path, void *user)
{
	struct spools *spools = user;
	char **bigger = realloc(spools->path, (spools->count + 1) * sizeof(char *));

	if (!bigger)
		return -ENOMEM;
	spools->path = bigger;
	bigger[spools->count] = strdup(path);
	return bigger[spools->count] ? (spools->count++, 0) : -ENOMEM;
}

static void free_spools(struct spools *spools)
{
	for (size_t i = 0; i < spools->count; i++)
		free(spools->path[i]);
	free(spools->path);
	*spools = (struct spools){ 0 };
}

/* ---- spools ---- */

/* Adopt a spool that belongs to one of the traces.  False: it cannot be done here and now. */
static bool adopt(struct compact *compact, const char *spool, bool *recovered)
{
	struct pfw_recovery result;
	const char *what;

	pfw_recover_spool(spool, &result);
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

/* Whether a spool is of one of the traces in `directory`, or of their run there and never begun. */
static bool is_wanted(const struct compact *compact, const char *spool, const char *directory)
{
	const char *run = NULL; /* of the trace before: most are of one */
	bool of_run = false;

	for (size_t i = 0; i < compact->traces.count; i++) {
		const struct pfw_trace_file *file = &compact->traces.file[i];
		bool first = !run || strcmp(run, file->head.run) != 0;

		if (!file->head.ours)
			continue;
		run = file->head.run;
		if (first)
			of_run = pfw_recover_belongs(spool, NULL, run);
		if (of_run && ((first && pfw_recover_belongs(spool, directory, NULL)) ||
			       pfw_recover_belongs(spool, file->path, NULL)))
			return true;
	}
	return false;
}

/* The spools for traces in one directory. */
static bool recover_in(struct compact *compact, const char *trace, bool *recovered)
{
	struct spools spools = { 0 };
	struct adopt_dirs dirs;
	bool good = true;

	adopt_dirs_find(&dirs, trace);
	if (pfw_recover_find(dirs.dir, NULL, NULL, keep_spool, &spools) < 0) {
		compact_say(compact, CLI_USAGE, trace, "no memory for the list of spools");
		good = false;
	}
	for (size_t i = 0; i < spools.count && good; i++) {
		if (is_wanted(compact, spools.path[i],
			      strcmp(dirs.beside, ".") == 0 ? "./" : dirs.beside))
			good = adopt(compact, spools.path[i], recovered);
	}
	free_spools(&spools);
	return good;
}

/* ---- traces ---- */

static bool is_locked(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	bool locked = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;

	if (fd >= 0)
		close(fd);
	return locked;
}

/*
 * A trace that nobody has locked and that has no `end`: of a process that died with its spool, or of
 * one on another host, where it may live: locks are not seen across all file systems.
 */
static bool check_end(struct compact *compact, const struct pfw_trace_file *file)
{
	struct pfw_marks marks;
	struct pfw_trace trace;
	char here[72];

	if (!file->head.ours || pfw_trace_read(&trace, file->path) || trace.ended)
		return true;
	/* Compacted: its last line is that of whichever process wrote last. */
	if (pfw_marks_read(&marks, file->path, &file->blocks) == 0 && marks.marked)
		return true;
	pfw_proc_host(here, sizeof(here));
	if (strcmp(here, trace.host) == 0 || compact->force) {
		compact_say(compact, CLI_PROBLEMS, file->path,
			    "not finished: process %" PRIu64 " of %s was killed and its spool is "
			    "gone; what the file holds is taken",
			    trace.pid, cli_name(trace.host));
		return true;
	}
	compact_say(compact, CLI_USAGE, file->path,
		    "not finished by process %" PRIu64 " of host %s, which cannot be seen from %s: "
		    "`pfw repair` it there, or --force where it is dead",
		    trace.pid, cli_name(trace.host), here);
	return false;
}

static bool check_traces(struct compact *compact)
{
	bool good = true;

	for (size_t i = 0; i < compact->traces.count; i++) {
		const struct pfw_trace_file *file = &compact->traces.file[i];

		if (is_locked(file->path)) {
			compact_say(compact, CLI_USAGE, file->path,
				    "is still being written: compact it when its process has "
				    "ended");
			good = false;
		} else if (!check_end(compact, file)) {
			good = false;
		}
	}
	return good;
}

bool compact_recover(struct compact *compact, bool *recovered)
{
	char *last = NULL;
	bool good = true;

	*recovered = false;
	for (size_t i = 0; i < compact->traces.count && good; i++) {
		const char *path = compact->traces.file[i].path, *slash = strrchr(path, '/');
		size_t bytes = slash ? (size_t)(slash - path) : 0;

		if (!compact->traces.file[i].head.ours ||
		    (last && strlen(last) == bytes && strncmp(last, path, bytes) == 0))
			continue;
		free(last);
		last = strndup(path, bytes);
		good = recover_in(compact, path, recovered);
	}
	free(last);
	return good && (*recovered || check_traces(compact));
}
