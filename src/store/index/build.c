/* store/index/build.c - makes or checks the indexes of traces in one pass; see build.h. */
#include "store/index/build.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "store/index/index.h"
#include "store/index/parts.h"
#include "store/pass/fname_hashes.h"
#include "store/pass/pass.h"
#include "store/read/blocks.h"
#include "store/summary/summary.h"
#include "store/sys/pool.h"

#define FINISHING_MAX 16u /* files that are finished at the same time */

/* The summary of a block between work() and done(); afterwards it is a spare for other blocks. */
struct held {
	struct pfw_summary summary;
	struct pfw_gather gather;
	uint64_t lines;
	struct held *next;
};

/* The facts about a file that work() needs before the first block. */
struct named {
	bool known;
	struct pfw_fname_hashes *fnames; /* the names in a DFTracer file */
	bool sorted;			 /* its blocks are in order of time */
	uint64_t from;			 /* the first byte that is in no index yet */
	bool again;			 /* its index must be made anew: see build_again() */
};

/*
 * A file whose index is made.  done() adds its blocks, one at a time.  Then finish_writer() writes
 * the rest and syncs, in a thread of its own while the next file is read: it mostly waits for the
 * disk.  Several small files wait together, since the disk takes about as long for all as for one.
 */
struct making {
	size_t file; /* all earlier files are finished or finishing */
	bool begun;
	struct pfw_index_writer *writer; /* NULL: pfw_index_begin() failed */
	struct pfw_index_built built;
	struct stat before;
	int64_t since_ns;
	/* While it is finishing. */
	const struct pfw_index_build *build;
	pthread_t thread;
	bool threaded;
};

struct building {
	const struct pfw_index_build *build;
	struct pfw_traces traces;		/* those of `build`, some with other blocks */
	struct making now;			/* the current file */
	struct making finishing[FINISHING_MAX]; /* a ring, the oldest at `oldest` */
	unsigned oldest, finishings;
	pthread_mutex_t naming; /* protects `named` */
	struct named *named;	/* by file */
	pthread_mutex_t mutex;	/* protects `spare` */
	struct held *spare;
};

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* ---- blocks; in several threads ---- */

static struct held *take_spare(struct building *building)
{
	struct held *held;

	pthread_mutex_lock(&building->mutex);
	held = building->spare;
	if (held)
		building->spare = held->next;
	pthread_mutex_unlock(&building->mutex);
	if (held)
		return held;
	held = calloc(1, sizeof(*held));
	if (held && pfw_summary_init(&held->summary)) {
		free(held);
		held = NULL;
	}
	return held;
}

static void give_spare(struct building *building, struct held *held)
{
	pfw_summary_clear(&held->summary);
	pthread_mutex_lock(&building->mutex);
	held->next = building->spare;
	building->spare = held;
	pthread_mutex_unlock(&building->mutex);
}

static void drop(void *result)
{
	struct held *held = result;

	pfw_summary_release(&held->summary);
	pfw_gather_release(&held->gather);
	free(held);
}

/* Read the hashes of only this file, so that its index does not depend on other files. */
static int find_names(struct building *building, size_t file, struct pfw_fname_hashes **fnames)
{
	const struct pfw_traces traces = { .file = &building->build->traces->file[file],
					   .count = 1 };
	const struct pfw_extent_options options = { .jobs = 1, .stop = building->build->stop };

	return traces.file->head.ours ? 0 : pfw_fname_hashes_read(fnames, &traces, &options);
}

/* Whether a file is a compacted one that says to be sorted. */
static bool is_sorted(const struct pfw_trace_file *file)
{
	struct pfw_marks marks = { 0 };

	return file->blocks.layout == PFW_LAYOUT_MEMBERS &&
	       pfw_marks_read(&marks, file->path, &file->blocks) == 0 && marks.sorted;
}

/* Before the first block of a file, find its names and whether it is sorted. */
static int begin_block(struct building *building, size_t file, struct held *held)
{
	struct named *named = &building->named[file];
	int error = 0;

	pthread_mutex_lock(&building->naming);
	if (!named->known) {
		error = find_names(building, file, &named->fnames);
		named->sorted = is_sorted(&building->build->traces->file[file]);
	}
	named->known = !error;
	pthread_mutex_unlock(&building->naming);
	held->summary.fnames = named->fnames;
	return error ? error
		     : pfw_gather_begin(&held->gather, file, named->sorted, building->build->anew);
}

static int work(void *user, unsigned worker, struct pfw_pass_block *block)
{
	struct building *building = user;
	struct held *held = take_spare(building);
	struct pfw_pass_lines lines;
	int error;

	(void)worker;
	if (!held)
		return -ENOMEM;
	error = begin_block(building, block->file, held);
	pfw_pass_lines_init(&lines, block);
	lines.entry.numbered = true;
	while (!error && pfw_pass_lines_next(&lines)) {
		error = pfw_summary_add(&held->summary, &lines.entry);
		if (!error)
			error = pfw_gather_add(&held->gather, &lines.entry, &held->summary);
	}
	held->lines = block->lines;
	block->result = held;
	return error;
}

/* ---- what was indexed before ---- */

/* A grown index has other blocks of text than one that is made anew: check it with its own. */
static void take_blocks(struct pfw_trace_file *file)
{
	struct pfw_blocks blocks = { 0 };
	struct pfw_index *index;
	char why[128];

	if (file->blocks.layout != PFW_LAYOUT_TEXT ||
	    pfw_index_open(&index, file->path, why, sizeof(why)))
		return;
	if (pfw_index_meta(index)->layout == PFW_LAYOUT_TEXT &&
	    pfw_index_meta(index)->trace_bytes == file->blocks.file_bytes &&
	    pfw_index_blocks(index, &blocks) == 0)
		file->blocks = blocks;
	for (size_t i = 0; i < blocks.count; i++)
		blocks.block[i].summed = false; /* by what is being checked */
	pfw_index_close(index);
}

/* Leave out what the index of an earlier state has.  The names of other tools' files may be in
 * lines that are new. */
static void leave_out(struct building *building, size_t number)
{
	struct pfw_trace_file *file = &building->traces.file[number];
	struct pfw_index *older;

	if (building->build->anew || !file->head.ours || is_sorted(file) ||
	    pfw_index_open_shorter(&older, file->path))
		return;
	if (pfw_index_extend(older, file->path, &file->blocks) == 0)
		building->named[number].from = pfw_index_meta(older)->trace_bytes;
	pfw_index_close(older);
}

static bool want(void *user, size_t file, const struct pfw_block *block)
{
	return block->at >= ((const struct building *)user)->named[file].from;
}

/* Begin with the rows of the index of an earlier state of `from` bytes, unless another pfw has made
 * an index since.  0, -EAGAIN or -ENOMEM. */
static int resume(struct making *making, const char *path, uint64_t from)
{
	struct pfw_index *older;
	int error = pfw_index_open_shorter(&older, path);

	if (error)
		return -EAGAIN;
	if (pfw_index_meta(older)->trace_bytes == from)
		error = pfw_index_resume(making->writer, older);
	else
		error = -EAGAIN;
	making->built.blocks = pfw_index_meta(older)->blocks;
	making->built.lines = pfw_index_meta(older)->lines;
	making->built.grown = true;
	pfw_index_close(older);
	return error == -ENOMEM ? error : error ? -EAGAIN : 0;
}

/* ---- files; in order, one at a time ---- */

static void begin_file(struct building *building)
{
	const struct pfw_trace_file *file = &building->build->traces->file[building->now.file];
	enum pfw_index_place place = building->build->check	? PFW_INDEX_IN_MEMORY
				     : building->build->unasked ? PFW_INDEX_UNASKED
								: PFW_INDEX_ASKED;

	if (building->now.begun)
		return;
	building->now.begun = true;
	building->now.since_ns = now_ns();
	if (stat(file->path, &building->now.before) < 0)
		building->now.built.error = -errno;
	else
		building->now.built.error = pfw_index_begin(&building->now.writer, file->path,
							    (uint64_t)building->now.before.st_size,
							    place);
	if (!building->now.built.error && building->named[building->now.file].from)
		building->now.built.error = resume(&building->now, file->path,
						   building->named[building->now.file].from);
}

/* Whether the file has changed since its first block was read. */
static bool has_changed(const struct making *finishing, const char *path)
{
	const struct stat *before = &finishing->before;
	struct stat now;

	return stat(path, &now) < 0 || now.st_size != before->st_size ||
	       now.st_ino != before->st_ino || now.st_mtim.tv_sec != before->st_mtim.tv_sec ||
	       now.st_mtim.tv_nsec != before->st_mtim.tv_nsec;
}

static int finish_writer(struct making *finishing)
{
	const struct pfw_trace_file *file = &finishing->build->traces->file[finishing->file];
	struct pfw_index_built *built = &finishing->built;
	const struct pfw_index_trace trace = { .layout = file->blocks.layout,
					       .problems = built->problems,
					       .jobs = pfw_pass_jobs(finishing->build->jobs) };

	if (has_changed(finishing, file->path))
		return -ESTALE;
	if (!finishing->build->check)
		return pfw_index_commit(finishing->writer, &trace);
	return pfw_index_compare(finishing->writer, &trace, &built->differs, built->difference,
				 sizeof(built->difference));
}

static void *finish_in_thread(void *argument)
{
	struct making *finishing = argument;

	if (!finishing->built.error)
		finishing->built.error = finish_writer(finishing);
	finishing->built.ns = now_ns() - finishing->since_ns;
	return NULL;
}

/* Wait for the file that has been finishing for the longest time, and report it. */
static void settle_oldest(struct building *building)
{
	struct making *finishing = &building->finishing[building->oldest];

	if (finishing->threaded)
		pthread_join(finishing->thread, NULL);
	building->oldest = (building->oldest + 1) % FINISHING_MAX;
	building->finishings--;
	if (finishing->writer) {
		finishing->built.total = pfw_index_so_far(finishing->writer);
		finishing->built.cached = pfw_index_cached_at(finishing->writer);
	}
	building->named[finishing->file].again = finishing->built.error == -EAGAIN;
	if (finishing->built.error != -EAGAIN)
		finishing->build->built(finishing->build->user, finishing->file, &finishing->built);
	if (finishing->writer)
		pfw_index_end(finishing->writer);
}

static void settle(struct building *building)
{
	while (building->finishings)
		settle_oldest(building);
}

static void finish_file(struct building *building)
{
	struct making *finishing;

	begin_file(building); /* for files without blocks */
	/* The writer of a large file takes some MiB. */
	while (building->finishings == FINISHING_MAX ||
	       (building->finishings && building->now.built.blocks > 1))
		settle_oldest(building);
	finishing =
		&building->finishing[(building->oldest + building->finishings++) % FINISHING_MAX];
	*finishing = building->now;
	finishing->build = building->build;
	finishing->threaded = pfw_pass_jobs(finishing->build->jobs) > 1 &&
			      !pfw_pool_thread(&finishing->thread, finish_in_thread, finishing);
	if (!finishing->threaded)
		finish_in_thread(finishing);
	pfw_fname_hashes_free(building->named[finishing->file].fnames);
	building->named[finishing->file].fnames = NULL;
	building->now = (struct making){ .file = finishing->file + 1 };
}

/* Finish all files before that one. */
static void go_to(struct building *building, size_t file)
{
	while (building->now.file < file)
		finish_file(building);
	if (file < building->build->traces->count)
		begin_file(building);
}

static int done(void *user, struct pfw_pass_block *block)
{
	struct building *building = user;
	struct held *held = block->result;
	struct pfw_index_built *built = &building->now.built;
	struct pfw_block place = *block->block;

	go_to(building, block->file);
	place.lines = (uint32_t)held->lines;
	if (!built->error)
		built->error =
			pfw_index_add(building->now.writer, &place, &held->summary, &held->gather);
	built->blocks++;
	built->lines += held->lines;
	give_spare(building, held);
	block->result = NULL;
	if (building->build->unasked && built->error && built->error != -EAGAIN)
		return -ECANCELED;
	return built->error == -ENOMEM ? -ENOMEM : 0;
}

static int point(void *user, size_t file, const struct pfw_point *point)
{
	struct building *building = user;
	struct pfw_index_built *built = &building->now.built;

	go_to(building, file);
	if (!built->error)
		built->error = pfw_index_add_point(building->now.writer, point);
	return built->error == -ENOMEM ? -ENOMEM : 0;
}

static void problem(void *user, size_t file, const struct pfw_scan_problem *problem)
{
	struct building *building = user;

	go_to(building, file);
	settle(building); /* reports of a file come before those of the next */
	building->now.built.problems += 1 + problem->more;
	if (!building->now.built.error)
		building->now.built.error = pfw_index_add_problem(building->now.writer, problem);
	if (building->build->problem)
		building->build->problem(building->build->user, file, problem);
}

static void progress(void *user, uint64_t bytes, uint64_t all)
{
	struct building *building = user;

	if (building->build->progress)
		building->build->progress(building->build->user, bytes, all);
}

static int run_pass(struct building *building)
{
	const struct pfw_index_build *build = building->build;
	const struct pfw_pass pass = {
		.traces = &building->traces,
		.jobs = build->jobs,
		.user = building,
		.want = want,
		.work = work,
		.done = done,
		.drop = drop,
		.problem = problem,
		.point = point,
		.progress = progress,
		.stop = build->stop,
	};
	int error = pfw_pass_run(&pass);

	/* -EIO is a reported problem of some file; the readable part gets an index. */
	if (error == -EIO)
		error = 0;
	if (!error)
		go_to(building, build->traces->count);
	settle(building);
	if (building->now.writer)
		pfw_index_end(building->now.writer);
	return error;
}

static int begin(struct building *building)
{
	const struct pfw_traces *traces = building->build->traces;

	building->named = calloc(traces->count + 1, sizeof(*building->named));
	building->traces = *traces;
	building->traces.file = calloc(traces->count + 1, sizeof(*traces->file));
	if (!building->named || !building->traces.file)
		return -ENOMEM;
	for (size_t i = 0; i < traces->count; i++) {
		building->traces.file[i] = traces->file[i];
		if (building->build->check)
			take_blocks(&building->traces.file[i]);
		else
			leave_out(building, i);
	}
	return 0;
}

static void end(struct building *building)
{
	const struct pfw_traces *traces = building->build->traces;

	while (building->spare) {
		struct held *held = building->spare;

		building->spare = held->next;
		drop(held);
	}
	for (size_t i = 0; i < traces->count && building->named; i++)
		pfw_fname_hashes_free(building->named[i].fnames);
	for (size_t i = 0; i < traces->count && building->traces.file; i++) {
		if (building->traces.file[i].blocks.block != traces->file[i].blocks.block)
			free(building->traces.file[i].blocks.block);
	}
	free(building->named);
	free(building->traces.file);
}

/* ---- again, with what was indexed before, or what a kind left out; problems were reported ---- */

struct again {
	const struct pfw_index_build *build;
	size_t file;
};

static void built_again(void *user, size_t file, const struct pfw_index_built *built)
{
	const struct again *again = user;

	again->build->built(again->build->user, again->file + file, built);
}

static void progress_again(void *user, uint64_t bytes, uint64_t all)
{
	const struct again *again = user;

	if (again->build->progress)
		again->build->progress(again->build->user, bytes, all);
}

static int build_again(const struct pfw_index_build *build, size_t file)
{
	const struct pfw_traces one = { .file = &build->traces->file[file], .count = 1 };
	struct again again = { .build = build, .file = file };
	struct pfw_index_build anew = *build;

	anew.traces = &one;
	anew.anew = true;
	anew.user = &again;
	anew.built = built_again;
	anew.progress = progress_again;
	anew.problem = NULL;
	return pfw_index_build(&anew);
}

int pfw_index_build(const struct pfw_index_build *build)
{
	struct building building = { .build = build,
				     .naming = PTHREAD_MUTEX_INITIALIZER,
				     .mutex = PTHREAD_MUTEX_INITIALIZER };
	int error = begin(&building);

	error = error ? error : run_pass(&building);
	for (size_t i = 0; i < build->traces->count && !error; i++)
		error = building.named[i].again ? build_again(build, i) : 0;
	end(&building);
	return error;
}

/* ---- one file ---- */

static void keep_built(void *user, size_t file, const struct pfw_index_built *built)
{
	(void)file;
	*(struct pfw_index_built *)user = *built;
}

int pfw_index_check(const char *path, bool *differs, char *how, size_t size)
{
	struct pfw_trace_file file = { .path = (char *)path };
	const struct pfw_traces traces = { .file = &file, .count = 1 };
	struct pfw_index_built built = { 0 };
	const struct pfw_index_build build = {
		.traces = &traces, .check = true, .user = &built, .built = keep_built
	};
	struct pfw_index *index;
	int error = pfw_index_open(&index, path, how, size);

	*differs = error != 0;
	if (error)
		return error == -ENOENT || error == -ENOMEM ? error : 0;
	pfw_index_close(index);
	error = pfw_blocks_find(&file.blocks, path);
	error = error ? error : pfw_trace_head(&file.head, path);
	error = error ? error : pfw_processes_read(&file);
	error = error ? error : pfw_index_build(&build);
	pfw_blocks_free(&file.blocks);
	pfw_processes_free(file.processes);
	*differs = built.differs;
	if (built.differs)
		snprintf(how, size, "%s", built.difference);
	return error ? error : built.error;
}
