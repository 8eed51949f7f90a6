/* index_build.c - the indexes of traces, made or checked in one pass; see index_build.h. */
#include "index_build.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "fnames.h"
#include "index.h"
#include "index_parts.h"
#include "marks.h"
#include "pass.h"
#include "summary.h"

#define FINISHING_MAX 16u /* files that are being finished at one time */

/* The summary of a block on its way from work() to done(); kept for other blocks behind it. */
struct held {
	struct pfw_summary summary;
	struct pfw_gather gather;
	uint64_t lines;
	struct held *next;
};

/* What is to be known of a file before its first block. */
struct named {
	bool known;
	struct pfw_fnames *fnames; /* the names of one of DFTracer's */
	unsigned kinds;		   /* of parts: see index_parts.h */
};

/* A file whose blocks are all there: its index is being made whole, by a thread of its own where there
 * may be more than one, since that mostly waits for the disk, while the next file is read.  Of small
 * files several wait at one time: the disk takes about as long for all of them as for one. */
struct finishing {
	const struct pfw_index_build *build;
	pthread_t thread;
	bool threaded;
	size_t file;
	struct pfw_index_writer *writer; /* NULL: it could not be begun */
	struct pfw_index_built built;
	struct stat before;
	int64_t since_ns;
};

struct building {
	const struct pfw_index_build *build;
	struct finishing finishing[FINISHING_MAX]; /* the oldest first, from `oldest` on, round */
	unsigned oldest, finishings;
	pthread_mutex_t naming; /* over `named`, and while a file's names are read */
	struct named *named;	/* by file */
	pthread_mutex_t mutex;	/* over `spare`: work() is several threads' */
	struct held *spare;
	/* The file in hand: done()'s, which is called one at a time. */
	size_t file; /* all before it are built */
	bool begun;
	struct pfw_index_writer *writer;
	struct pfw_index_built built;
	struct stat before;
	int64_t since_ns;
};

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* ---- blocks; by several threads ---- */

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

static void free_held(struct held *held)
{
	pfw_summary_release(&held->summary);
	pfw_gather_release(&held->gather);
	free(held);
}

static void drop(void *user, void *result)
{
	(void)user;
	free_held(result);
}

/* What the hashes of a file stand for: of that file alone, so that its index does not depend on the
 * others. */
static int find_names(struct building *building, size_t file, struct pfw_fnames **fnames)
{
	const struct pfw_traces traces = { .file = &building->build->traces->file[file],
					   .count = 1 };
	const struct pfw_extent_options options = { .jobs = 1, .stop = building->build->stop };

	return traces.file->head.ours ? 0 : pfw_fnames_read(fnames, &traces, &options);
}

/* Which parts are kept of a file: those that need order, of compacted ones. */
static unsigned find_kinds(const struct pfw_trace_file *file)
{
	struct pfw_marks marks = { 0 };

	if (file->blocks.layout == PFW_LAYOUT_MEMBERS &&
	    pfw_marks_read(&marks, file->path, &file->blocks))
		marks.sorted = false;
	return pfw_index_kinds(marks.sorted);
}

/* Begin a block: what is to be known of its file is found before the first one. */
static int begin_block(struct building *building, size_t file, struct held *held)
{
	struct named *named = &building->named[file];
	int error = 0;

	pthread_mutex_lock(&building->naming);
	if (!named->known) {
		error = find_names(building, file, &named->fnames);
		named->kinds = find_kinds(&building->build->traces->file[file]);
	}
	named->known = !error;
	pthread_mutex_unlock(&building->naming);
	held->summary.fnames = named->fnames;
	return error ? error : pfw_gather_begin(&held->gather, named->kinds);
}

static int work(void *user, unsigned worker, struct pfw_pass_block *block)
{
	struct building *building = user;
	struct held *held = take_spare(building);
	struct pfw_lines lines;
	int error;

	(void)worker;
	if (!held)
		return -ENOMEM;
	error = begin_block(building, block->file, held);
	pfw_lines_init(&lines, block);
	while (!error && pfw_lines_next(&lines)) {
		error = pfw_summary_add(&held->summary, &lines.entry);
		if (!error && held->gather.kinds)
			error = pfw_gather_add(&held->gather, &lines.entry, held->summary.fnames);
	}
	held->lines = block->lines;
	block->result = held;
	return error;
}

/* ---- files; in order, one at a time ---- */

static void begin_file(struct building *building)
{
	const struct pfw_trace_file *file = &building->build->traces->file[building->file];

	if (building->begun)
		return;
	building->begun = true;
	building->built = (struct pfw_index_built){ 0 };
	building->since_ns = now_ns();
	if (stat(file->path, &building->before) < 0)
		building->built.error = -errno;
	else
		building->built.error = pfw_index_begin(&building->writer, file->path,
							(uint64_t)building->before.st_size,
							building->build->check);
}

/* Whether the file is what it was when its first block was read. */
static bool has_changed(const struct finishing *finishing, const char *path)
{
	const struct stat *before = &finishing->before;
	struct stat now;

	return stat(path, &now) < 0 || now.st_size != before->st_size ||
	       now.st_ino != before->st_ino || now.st_mtim.tv_sec != before->st_mtim.tv_sec ||
	       now.st_mtim.tv_nsec != before->st_mtim.tv_nsec;
}

static int finish_writer(struct finishing *finishing)
{
	const struct pfw_trace_file *file = &finishing->build->traces->file[finishing->file];
	struct pfw_index_built *built = &finishing->built;
	const struct pfw_index_trace trace = { .layout = file->blocks.layout,
					       .problems = built->problems };

	if (has_changed(finishing, file->path))
		return -ESTALE;
	if (!finishing->build->check)
		return pfw_index_commit(finishing->writer, &trace);
	return pfw_index_compare(finishing->writer, &trace, &built->differs, built->difference,
				 sizeof(built->difference));
}

static void *finish_in_thread(void *argument)
{
	struct finishing *finishing = argument;

	if (!finishing->built.error)
		finishing->built.error = finish_writer(finishing);
	finishing->built.ns = now_ns() - finishing->since_ns;
	return NULL;
}

/* Wait for the file that has been finished for the longest time, and tell of it. */
static void settle_oldest(struct building *building)
{
	struct finishing *finishing = &building->finishing[building->oldest];

	if (finishing->threaded)
		pthread_join(finishing->thread, NULL);
	building->oldest = (building->oldest + 1) % FINISHING_MAX;
	building->finishings--;
	if (finishing->writer)
		finishing->built.total = pfw_index_so_far(finishing->writer);
	finishing->build->built(finishing->build->user, finishing->file, &finishing->built);
	if (finishing->writer)
		pfw_index_end(finishing->writer);
}

static void settle(struct building *building)
{
	while (building->finishings)
		settle_oldest(building);
}

/* Signals are for the thread that the command runs in. */
static void start_finishing(struct finishing *finishing)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	finishing->threaded =
		pfw_pass_jobs(finishing->build->jobs) > 1 &&
		!pthread_create(&finishing->thread, NULL, finish_in_thread, finishing);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!finishing->threaded)
		finish_in_thread(finishing);
}

static void finish_file(struct building *building)
{
	struct finishing *finishing;

	begin_file(building); /* of a file without any block */
	/* A large file's writer has some MiB. */
	while (building->finishings == FINISHING_MAX ||
	       (building->finishings && building->built.blocks > 1))
		settle_oldest(building);
	finishing =
		&building->finishing[(building->oldest + building->finishings++) % FINISHING_MAX];
	*finishing = (struct finishing){ .build = building->build,
					 .file = building->file,
					 .writer = building->writer,
					 .built = building->built,
					 .before = building->before,
					 .since_ns = building->since_ns };
	start_finishing(finishing);
	building->writer = NULL;
	building->begun = false;
	pfw_fnames_free(building->named[building->file].fnames);
	building->named[building->file].fnames = NULL;
	building->file++;
}

/* Finish all files before that one. */
static void go_to(struct building *building, size_t file)
{
	while (building->file < file)
		finish_file(building);
	if (file < building->build->traces->count)
		begin_file(building);
}

static int done(void *user, struct pfw_pass_block *block)
{
	struct building *building = user;
	struct held *held = block->result;
	struct pfw_index_built *built = &building->built;
	struct pfw_block place = *block->block;

	go_to(building, block->file);
	place.lines = (uint32_t)held->lines;
	if (!built->error)
		built->error =
			pfw_index_add(building->writer, &place, &held->summary, &held->gather);
	built->blocks++;
	built->lines += held->lines;
	give_spare(building, held);
	return built->error == -ENOMEM ? -ENOMEM : 0;
}

static int point(void *user, size_t file, const struct pfw_point *point)
{
	struct building *building = user;
	struct pfw_index_built *built = &building->built;

	go_to(building, file);
	if (!built->error)
		built->error = pfw_index_add_point(building->writer, point);
	return built->error == -ENOMEM ? -ENOMEM : 0;
}

static void problem(void *user, size_t file, const struct pfw_scan_problem *problem)
{
	struct building *building = user;

	go_to(building, file);
	settle(building); /* what is told of a file comes before what is told of the next */
	building->built.problems += 1 + problem->more;
	building->build->problem(building->build->user, file, problem);
}

static void progress(void *user, uint64_t bytes, uint64_t all)
{
	struct building *building = user;

	if (building->build->progress)
		building->build->progress(building->build->user, bytes, all);
}

int pfw_index_build(const struct pfw_index_build *build)
{
	struct building building = { .build = build,
				     .naming = PTHREAD_MUTEX_INITIALIZER,
				     .mutex = PTHREAD_MUTEX_INITIALIZER };
	const struct pfw_pass pass = {
		.traces = build->traces,
		.jobs = build->jobs,
		.user = &building,
		.work = work,
		.done = done,
		.drop = drop,
		.problem = problem,
		.point = point,
		.progress = progress,
		.stop = build->stop,
	};
	int error;

	building.named = calloc(build->traces->count + 1, sizeof(*building.named));
	if (!building.named)
		return -ENOMEM;
	error = pfw_pass_run(&pass);

	/* -EIO is some file's problem, and was told; what could be read of it is worth an index. */
	if (!error || error == -EIO)
		go_to(&building, build->traces->count);
	settle(&building);
	if (building.writer)
		pfw_index_end(building.writer);
	while (building.spare) {
		struct held *held = building.spare;

		building.spare = held->next;
		free_held(held);
	}
	for (size_t i = 0; i < build->traces->count; i++)
		pfw_fnames_free(building.named[i].fnames);
	free(building.named);
	return error == -EIO ? 0 : error;
}

/* ---- one file ---- */

static void keep_built(void *user, size_t file, const struct pfw_index_built *built)
{
	(void)file;
	*(struct pfw_index_built *)user = *built;
}

static void ignore_problem(void *user, size_t file, const struct pfw_scan_problem *problem)
{
	(void)user;
	(void)file;
	(void)problem;
}

int pfw_index_check(const char *path, bool *differs, char *how, size_t size)
{
	struct pfw_trace_file file = { .path = (char *)path };
	const struct pfw_traces traces = { .file = &file, .count = 1 };
	struct pfw_index_built built = { 0 };
	const struct pfw_index_build build = { .traces = &traces,
					       .check = true,
					       .user = &built,
					       .built = keep_built,
					       .problem = ignore_problem };
	struct pfw_index *index;
	int error = pfw_index_open(&index, path, how, size);

	*differs = error != 0;
	if (error)
		return error == -ENOENT || error == -ENOMEM ? error : 0;
	pfw_index_close(index);
	error = pfw_blocks_find(&file.blocks, path);
	error = error ? error : pfw_index_build(&build);
	pfw_blocks_free(&file.blocks);
	*differs = built.differs;
	if (built.differs)
		snprintf(how, size, "%s", built.difference);
	return error ? error : built.error;
}
