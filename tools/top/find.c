/* tools/top/find.c - finds traced processes by their spools. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/format/spool.h"
#include "store/kit/grow.h"
#include "store/recover/image.h"
#include "store/recover/owner.h"
#include "top/top.h"

/* A living process with a spool. */
struct candidate {
	const char *spool; /* in the list of paths */
	struct pfw_spool_image image;
	bool mine, wanted;
};

struct candidates {
	struct pfw_paths paths;
	struct candidate *at;
	size_t count;
};

/* ---- spools ---- */

static int add_candidate(struct candidates *all, const char *path)
{
	struct candidate new = { .spool = path };
	char why[PFW_SPOOL_WHY_BYTES];
	struct stat st;
	int fd = pfw_spool_image_open(path, false, &st);
	int error = 0;

	if (fd < 0)
		return 0;
	new.mine = st.st_uid == geteuid();
	if (!pfw_spool_image_header(&new.image, fd, why) &&
	    atomic_load_explicit(&new.image.header->state, memory_order_relaxed) ==
		    PFW_SPOOL_LIVE &&
	    pfw_spool_is_of_here(new.image.header, why, sizeof(why)) &&
	    pfw_spool_process_lives(fd, new.image.header))
		error = PFW_APPEND(all->at, all->count, new);
	else
		pfw_spool_image_release(&new.image);
	close(fd);
	return error;
}

static void release(struct candidates *all)
{
	for (size_t i = 0; i < all->count; i++)
		pfw_spool_image_release(&all->at[i].image);
	free(all->at);
	pfw_paths_free(&all->paths);
}

static int list(const struct top *top, struct candidates *all)
{
	int error = adopt_spools_find(&all->paths, &top->dirs);

	for (size_t i = 0; i < all->paths.count && !error; i++)
		error = add_candidate(all, all->paths.path[i]);
	return error;
}

/* ---- what the user wants ---- */

static bool read_pid(const char *word, int32_t *pid)
{
	char *end;
	long value = strtol(word, &end, 10);

	*pid = (int32_t)value;
	return *word >= '1' && *word <= '9' && !*end && value <= INT32_MAX &&
	       access(word, F_OK) != 0;
}

static bool has_pid(const struct top *top, int32_t pid)
{
	for (size_t i = 0; i < top->want.pids; i++) {
		if (top->want.pid[i] == pid)
			return true;
	}
	return false;
}

/* Whether a word is a candidate's trace, the base name or directory of it, or its run. */
static bool names(const char *word, const struct pfw_spool_header *header, const char *trace)
{
	char directory[PATH_MAX + 2];
	struct stat st, named;

	if (!strncmp(header->run, word, sizeof(header->run)))
		return true;
	if (stat(word, &st))
		return pfw_recover_is_in(trace, word);
	if (!S_ISDIR(st.st_mode))
		return !stat(trace, &named) && st.st_dev == named.st_dev &&
		       st.st_ino == named.st_ino;
	return snprintf(directory, sizeof(directory), "%s/", word) < (int)sizeof(directory) &&
	       pfw_recover_is_in(trace, directory);
}

static bool wants(const struct candidate *candidate, const char *word)
{
	const struct pfw_spool_header *header = candidate->image.header;
	int32_t pid;

	return read_pid(word, &pid)
		       ? header->pid == pid || header->root_pid == pid
		       : names(word, header, pfw_spool_trace_path(candidate->image.header));
}

/* Mark what the words name, and children of what is wanted.  0 or -ENOMEM. */
static int mark(struct top *top, struct candidates *all)
{
	bool more = top->want.words != 0;

	for (size_t i = 0; i < all->count; i++) {
		struct candidate *one = &all->at[i];

		one->wanted = !top->want.words && one->mine;
		for (size_t j = 0; j < top->want.words && !one->wanted; j++)
			one->wanted = wants(one, top->want.word[j]);
	}
	while (more) {
		more = false;
		for (size_t i = 0; i < all->count; i++) {
			struct candidate *one = &all->at[i];
			int32_t pid = one->image.header->pid;

			one->wanted |= has_pid(top, one->image.header->ppid);
			if (!one->wanted || has_pid(top, pid))
				continue;
			more = true;
			if (PFW_APPEND(top->want.pid, top->want.pids, pid))
				return -ENOMEM;
		}
	}
	return 0;
}

/* ---- messages ---- */

static void say_pid(const struct top *top, const char *word, int32_t pid)
{
	const char *name = top->command->name;
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (stat(path, &st))
		cli_error(name,
			  "%s: no such process; `pfw table` shows the trace of one that has "
			  "ended",
			  word);
	else if (geteuid() && st.st_uid != geteuid())
		cli_error(name, "%s: a process of user %u, which only that user and root can watch",
			  word, st.st_uid);
	else
		cli_error(name,
			  "%s: the process is not traced: start it with `pfw run -- COMMAND` (its "
			  "spool is looked for in PFW_SPOOL_DIR, /dev/shm, TMPDIR and /tmp)",
			  word);
}

static void say_none(const struct top *top, const char *word)
{
	const char *name = top->command->name;
	struct pfw_claim claim;
	struct stat st;
	int32_t pid;

	if (read_pid(word, &pid))
		say_pid(top, word, pid);
	else if (stat(word, &st))
		cli_error(name,
			  "%s: no process writes a trace or run of that name now; `pfw top` shows "
			  "all that are traced",
			  cli_name(word));
	else if (S_ISREG(st.st_mode) && !pfw_claim_read(&claim, word) && claim.no_spool)
		cli_error(name,
			  "%s: its process %" PRIu64 " has no spool that could be read; `pfw query "
			  "--follow` prints its lines",
			  cli_name(word), claim.pid);
	else
		cli_error(name,
			  "%s: no process is writing this trace; `pfw table %s` shows its "
			  "events",
			  cli_name(word), cli_name(word));
}

/* Say which words mean no process. */
static int check(const struct top *top, const struct candidates *all)
{
	int status = CLI_OK;

	for (size_t j = 0; j < top->want.words; j++) {
		bool any = false;

		for (size_t i = 0; i < all->count && !any; i++)
			any = wants(&all->at[i], top->want.word[j]);
		if (any)
			continue;
		say_none(top, top->want.word[j]);
		status = CLI_PROBLEMS;
	}
	for (size_t i = 0; i < all->count && status == CLI_OK; i++) {
		if (all->at[i].wanted)
			return CLI_OK;
	}
	if (status == CLI_OK)
		cli_error(top->command->name, "no process of yours is traced now: start one with "
					      "`pfw run -- COMMAND`");
	return CLI_PROBLEMS;
}

/* ---- watching ---- */

static bool watched(const struct top *top, const struct candidate *one)
{
	for (size_t i = 0; i < top->processes; i++) {
		if (top->process[i].start_ns == one->image.header->start_ns &&
		    !strcmp(top->process[i].spool, one->spool))
			return true;
	}
	return false;
}

static int watch(struct top *top, const struct candidate *one)
{
	const struct pfw_spool_header *header = one->image.header;
	struct top_process new = { .pid = header->pid,
				   .start_ns = header->start_ns,
				   .fd = -1,
				   .step = -1,
				   .from_now = !top->looks && !top->all,
				   .spool = strdup(one->spool),
				   .path = strdup(pfw_spool_trace_path(one->image.header)) };
	struct top_rank *rank = top_rank_of(top, header->run, header->rank);

	pfw_spool_program(header, new.program, sizeof(new.program));
	if (rank)
		new.rank = (size_t)(rank - top->rank);
	if (rank && new.spool &&new.path && !PFW_APPEND(top->process, top->processes, new))
		return 0;
	free(new.spool);
	free(new.path);
	return -ENOMEM;
}

int top_find(struct top *top)
{
	struct candidates all = { .count = 0 };
	int status = list(top, &all) ?: mark(top, &all);

	if (!status && !top->looks)
		status = check(top, &all);
	for (size_t i = 0; i < all.count && !status; i++) {
		if (all.at[i].wanted && !watched(top, &all.at[i]))
			status = watch(top, &all.at[i]);
	}
	release(&all);
	return status;
}
