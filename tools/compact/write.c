/* tools/compact/write.c - writes one result: merges, compresses, syncs and reads it back.
 *
 * A thread finishes the index of one result and syncs it while the next result is merged.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compact/compact.h"
#include "share/select_args.h"
#include "store/index/index.h"
#include "store/merge/merge.h"
#include "store/pass/fname_hashes.h"
#include "store/read/places.h"
#include "ui/progress.h"

#define PROBLEMS_SHOWN 10
/* Memory of the whole command except for the pool's threads and members in flight. */
#define MEMORY (216u << 20)
#define MEMORY_OF_A_JOB (6u << 20)
#define MEMORY_LEAST (64u << 20)

struct compact_writing {
	struct compact *compact;
	struct compact_group *group;
	struct pfw_pack *pack;
	struct pfw_index_writer *index; /* NULL: none */
	struct pfw_processes *processes;
	struct pfw_fname_hashes *fnames; /* the names in DFTracer's files; NULL: none */
	struct pfw_merge merge;
	struct pfw_merge_file *input;
	size_t first, end; /* of the input: the rank that is merged */
	uint64_t problems;
	uint64_t read; /* bytes of the originals */
	struct pfw_commit *commit;
	size_t made; /* index of its file in the commit */
	/* For the finishing thread. */
	pthread_t finishing;
	bool in_thread;
	int fd, index_error, sync_error;
};

static void was_read(void *user, uint64_t bytes)
{
	struct compact_writing *writing = user;
	uint64_t share = writing->group->bytes_before;

	writing->read += bytes;
	progress_show(writing->compact->done + (writing->read < share ? writing->read : share),
		      writing->compact->all);
}

/* ---- callbacks of the merge ---- */

static int put_rows(void *user, const struct pfw_rows *rows, size_t first, size_t count)
{
	struct compact_writing *writing = user;
	struct pfw_rows numbered = *rows;

	numbered.file += (uint32_t)writing->first; /* of all ranks, for the reader of places */
	return pfw_pack_rows(writing->pack, &numbered, first, count);
}

static int put_member(void *user, size_t file, const struct pfw_block *block,
		      const struct pfw_sorted_mark *mark)
{
	struct compact_writing *writing = user;

	return pfw_pack_member(writing->pack, writing->input[writing->first + file].path, block,
			       mark);
}

static int put_apart(void *user)
{
	return pfw_pack_apart(((struct compact_writing *)user)->pack);
}

static int take_metadata(void *user, size_t file, const char *line, size_t bytes)
{
	struct compact_writing *writing = user;

	(void)file;
	return pfw_manifest_line(writing->group->entry, line, bytes);
}

static void take_problem(void *user, size_t file, const struct pfw_scan_problem *problem)
{
	struct compact_writing *writing = user;

	writing->problems += 1 + problem->more;
	writing->group->damaged = true;
	if (writing->problems <= PROBLEMS_SHOWN)
		compact_say(writing->compact, CLI_PROBLEMS,
			    writing->input[writing->first + file].path, "byte %" PRIu64 ": %s",
			    problem->at, problem->text);
}

/* ---- merging ---- */

/* Whether a file has several ranks, each in members of its own. */
static bool is_by_rank(const struct pfw_trace_file *file)
{
	const struct pfw_processes *processes = file->processes;
	struct pfw_marks marks;
	size_t i = 1;

	while (processes && i < processes->count &&
	       processes->head[i].rank == processes->head[0].rank)
		i++;
	return processes && i < processes->count &&
	       !pfw_marks_read(&marks, file->path, &file->blocks) && !marks.sorted;
}

static bool any_by_rank(const struct compact_group *group, size_t first, size_t end)
{
	while (first < end && !is_by_rank(group->file[first]))
		first++;
	return first < end;
}

static void init_merge(struct compact_writing *writing, bool distrust)
{
	struct compact *compact = writing->compact;
	unsigned jobs = pfw_pool_jobs(compact->pool);
	size_t taken = (size_t)jobs * MEMORY_OF_A_JOB;

	writing->merge = (struct pfw_merge){
		.file = writing->input + writing->first,
		.count = writing->end - writing->first,
		.pool = compact->pool,
		.budget = taken + MEMORY_LEAST < MEMORY ? MEMORY - taken : MEMORY_LEAST,
		.directory = writing->group->directory,
		.stop = compact_stop,
		.loose = compact->split == COMPACT_INTO_ONE,
		.distrust = distrust,
		.in_place = writing->group->count <= PFW_PLACES_FILES,
		.user = writing,
		.rows = put_rows,
		.apart = any_by_rank(writing->group, writing->first, writing->end) ? put_apart
										   : NULL,
		.member = compact->level == PFW_LEVEL_FAST ? put_member : NULL,
		.metadata = take_metadata,
		.problem = take_problem,
		.progress = was_read,
	};
}

/* Read the names of DFTracer's files, which lines of an index have.  0 or -errno. */
static int read_names(struct compact_writing *writing)
{
	const struct compact_group *group = writing->group;
	const struct pfw_extent_options options = { .jobs = pfw_pool_jobs(writing->compact->pool),
						    .stop = compact_stop };
	struct pfw_traces foreign = { .file = calloc(group->count, sizeof(*foreign.file)) };
	int error = foreign.file ? 0 : -ENOMEM;

	for (size_t i = 0; i < group->count && !error; i++) {
		if (!group->file[i]->head.ours)
			foreign.file[foreign.count++] = *group->file[i];
	}
	if (foreign.count && !writing->fnames)
		error = pfw_fname_hashes_read(&writing->fnames, &foreign, &options);
	free(foreign.file);
	return error;
}

/* Begin the file and, unless --no-index, its index.  Without one the file is still written. */
static int begin(struct compact_writing *writing, const struct pfw_commit_new *made)
{
	struct compact *compact = writing->compact;
	const struct compact_group *group = writing->group;
	int error = ftruncate(made->fd, 0) < 0 ? -errno : 0;

	if (!error)
		error = pfw_pack_open(&writing->pack, made->fd, (int)compact->level, compact->pool);
	if (error) {
		compact_say(compact, CLI_USAGE, group->name, "%s",
			    error == -ENOENT ? "neither libisal.so.2 nor libz.so.1 is there"
					     : strerror(-error));
		return error;
	}
	if (select_args_any(&compact->select))
		pfw_pack_cut(writing->pack);
	if (compact->no_index)
		return 0;
	error = read_names(writing);
	error = error ? error
		      : pfw_index_begin(&writing->index, made->temporary, group->bytes_before,
					PFW_INDEX_BESIDE);
	if (error)
		compact_say(compact, CLI_PROBLEMS, group->name, "no index: %s", strerror(-error));
	else
		pfw_pack_index(writing->pack, writing->index, writing->processes, writing->fnames,
			       group->rank_of[0] == group->rank_of[group->count - 1] &&
				       !any_by_rank(group, 0, group->count));
	return 0;
}

static void forget(struct compact_writing *writing)
{
	if (writing->index)
		pfw_index_end(writing->index);
	pfw_pack_close(writing->pack);
	writing->index = NULL;
	writing->pack = NULL;
}

/* Merge one rank after the other, so that each member holds lines of one rank only. */
static int merge_ranks(struct compact_writing *writing, bool distrust, const char **where)
{
	const struct compact_group *group = writing->group;
	int error = 0;

	for (writing->end = 0; writing->end < group->count && !error;) {
		writing->first = writing->end++;
		while (writing->end < group->count &&
		       group->rank_of[writing->end] == group->rank_of[writing->first])
			writing->end++;
		init_merge(writing, distrust);
		error = pfw_merge_run(&writing->merge, where) ?: pfw_pack_apart(writing->pack);
	}
	return error ?: pfw_pack_flush(writing->pack);
}

static int merge(struct compact_writing *writing, const struct pfw_commit_new *made)
{
	struct compact *compact = writing->compact;
	const char *where = "";
	bool distrust = false;
	int error;

	for (;; distrust = true) {
		error = begin(writing, made);
		if (error)
			return error;
		error = merge_ranks(writing, distrust, &where);
		if (error != -ESTALE || distrust)
			break;
		/* A member's header is wrong: merge again and read every block beforehand. */
		forget(writing);
		writing->read = 0;
	}
	if (error && error != -EINTR)
		compact_say(compact, CLI_USAGE, error == -EBUSY ? where : writing->group->name,
			    "%s: %s", cli_name(where), strerror(-error));
	return error;
}

/* ---- to the disk and back ---- */

static void *finish(void *user)
{
	struct compact_writing *writing = user;
	const struct pfw_index_trace trace = { .layout = PFW_LAYOUT_MEMBERS,
					       .problems = pfw_pack_sum(writing->pack)->problems,
					       .jobs = pfw_pool_jobs(writing->compact->pool) };

	if (writing->index)
		writing->index_error = pfw_index_commit(writing->index, &trace);
	/* Drop the pages from the cache, so that the check reads the disk. */
	if (fsync(writing->fd) < 0)
		writing->sync_error = -errno;
	posix_fadvise(writing->fd, 0, 0, POSIX_FADV_DONTNEED);
	posix_fadvise(writing->fd, 0, 0, POSIX_FADV_WILLNEED);
	return NULL;
}

/* Compare the lines and checksums of the input with those of the output. */
static int compare(const struct compact_writing *writing)
{
	const struct pfw_pack_sum *sum = pfw_pack_sum(writing->pack);
	uint64_t lines = 0, checksum = 0;

	for (size_t i = 0; i < writing->group->count; i++) {
		lines += writing->input[i].sum.lines;
		checksum += writing->input[i].sum.checksum;
	}
	return sum->lines == lines && sum->checksum == checksum ? 0 : -EBADMSG;
}

static int say_unchanged(const struct compact_writing *writing, int error)
{
	if (error && error != -EINTR)
		compact_say(writing->compact, CLI_USAGE, writing->group->name,
			    "%s; nothing was changed",
			    error == -EBADMSG ? "reading back gave other data than was written: "
						"the disk or memory is faulty"
					      : strerror(-error));
	return error;
}

/* ---- one group ---- */

static bool prepare(struct compact_writing *writing)
{
	struct compact *compact = writing->compact;
	struct compact_group *group = writing->group;
	const struct pfw_select_window *window;

	writing->processes =
		pfw_processes_join((const struct pfw_trace_file *const *)group->file, group->count);
	writing->input = calloc(group->count, sizeof(*writing->input));
	for (size_t i = 0; writing->input && i < group->count; i++) {
		writing->input[i].path = group->file[i]->path;
		writing->input[i].blocks = &group->file[i]->blocks;
		window = &compact->select.window[group->file[i] - compact->traces.file];
		writing->input[i].since_ns = window->since_ns;
		writing->input[i].until_ns = window->until_ns;
		writing->input[i].pid = group->pid;
	}
	return writing->input && writing->processes;
}

/* Write what can be read of damaged input, and keep the originals. */
static void judge(struct compact *compact, struct compact_group *group)
{
	if (group->sum.problems)
		compact_say(compact, CLI_PROBLEMS, group->name,
			    "%" PRIu64 " line%s kept that are invalid: `pfw validate` says why",
			    group->sum.problems, cli_plural(group->sum.problems));
	if (group->damaged && group->replaces) {
		compact_say(
			compact, CLI_PROBLEMS, group->name,
			"left unchanged, since part of it cannot be read; -o DIR writes the rest");
		group->dropped = true;
	} else if (group->damaged && compact_removes(compact)) {
		compact_say(compact, CLI_PROBLEMS, group->name,
			    "written without what could not be read; the originals are kept");
	}
}

static void add_index(struct compact_writing *writing)
{
	int error = writing->index_error;

	if (!writing->index)
		return;
	pfw_index_end(writing->index); /* releases its lock, too */
	writing->index = NULL;
	error = error ?: pfw_commit_add_beside(writing->commit, writing->made, PFW_INDEX_SUFFIX);
	if (error)
		compact_say(writing->compact, CLI_PROBLEMS, writing->group->name, "no index: %s",
			    strerror(-error));
}

/* Merge the group and start to finish its file, which is the commit's last one. */
static int write_group(struct compact_writing *writing)
{
	const struct pfw_commit_new made = writing->commit->made[writing->made];
	struct compact_group *group = writing->group;
	int error = prepare(writing) ? merge(writing, &made) : -ENOMEM;

	error = error ?: say_unchanged(writing, compare(writing));
	if (error)
		return error;
	group->sum = group->entry->sum = *pfw_pack_sum(writing->pack);
	judge(writing->compact, group);
	if (group->dropped)
		return 0;
	/* Copied members were not read, and of a text of several processes only the first was known
	 * when the lines were indexed: their file has no index yet. */
	if (writing->index &&
	    (group->sum.copied || group->entry->processes > writing->processes->count)) {
		pfw_index_end(writing->index);
		writing->index = NULL;
	}
	writing->fd = made.fd;
	if (fchmod(made.fd, pfw_traces_mode(&writing->compact->traces) | 0600) < 0)
		return say_unchanged(writing, -errno);
	/* Use a thread, since finishing mostly waits; if none can be made, finish here. */
	writing->in_thread = !pfw_pool_thread(&writing->finishing, finish, writing);
	if (!writing->in_thread)
		finish(writing);
	return 0;
}

static void free_writing(struct compact_writing *writing)
{
	forget(writing);
	pfw_processes_free(writing->processes);
	pfw_fname_hashes_free(writing->fnames);
	free(writing->input);
	free(writing);
}

int compact_write(struct compact *compact, struct compact_group *group, struct pfw_commit *commit,
		  struct pfw_manifest *manifest, struct compact_writing **out)
{
	struct compact_writing *writing = calloc(1, sizeof(*writing));
	int fd = writing ? pfw_commit_add(commit, group->name, compact->force || group->replaces)
			 : -ENOMEM;
	int error = fd < 0 ? fd : 0;

	*out = NULL;
	if (error) {
		compact_say(compact, CLI_USAGE, group->name, "%s%s",
			    writing ? commit->why : strerror(-error),
			    error == -EEXIST ? ": give -o DIR, or --force to replace it" : "");
		free(writing);
		return error;
	}
	*writing = (struct compact_writing){
		.compact = compact, .group = group, .commit = commit, .made = commit->made_count - 1
	};
	group->entry = pfw_manifest_add(manifest, group->name, group->rank);
	error = group->entry ? write_group(writing) : -ENOMEM;
	if (!error && !group->dropped) {
		*out = writing;
		return 0;
	}
	free_writing(writing);
	if (group->dropped) {
		pfw_manifest_drop(manifest);
		group->entry = NULL;
		pfw_commit_drop(commit);
	}
	return error;
}

int compact_check(struct compact_writing *writing)
{
	int error;

	if (!writing)
		return 0;
	if (writing->in_thread)
		pthread_join(writing->finishing, NULL);
	add_index(writing);
	error = writing->sync_error ?: pfw_pack_verify(writing->pack, compact_stop);
	say_unchanged(writing, error);
	free_writing(writing);
	return error;
}
