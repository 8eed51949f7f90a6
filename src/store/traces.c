/* traces.c - the traces that a command was given; see traces.h. */
#include "traces.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "more.h"
#include "paths.h"
#include "ranks.h"

/* A file that is there already. */
struct seen {
	uint64_t device, inode; /* inode 0: an empty slot */
};

struct opening {
	struct pfw_traces *traces;
	struct seen *seen; /* a table of a power of two, at most half full */
	size_t seen_room, seen_count;
	size_t room;
	bool all_runs;
	bool heads;		 /* nothing is laid out */
	const char *passed_over; /* an index or manifest among the arguments */
	void (*say)(void *user, const char *path, const char *why);
	void *user;
};

static void free_file(struct pfw_trace_file *file)
{
	pfw_blocks_free(&file->blocks);
	pfw_ranks_free(file->ranks);
	free(file->path);
}

void pfw_traces_close(struct pfw_traces *traces)
{
	for (size_t i = 0; i < traces->count; i++)
		free_file(&traces->file[i]);
	free(traces->file);
	*traces = (struct pfw_traces){ 0 };
}

/* ---- each file once ---- */

/* The slot of that file, or the empty one where it would be. */
static struct seen *find_seen(const struct opening *opening, uint64_t device, uint64_t inode)
{
	uint64_t hash = (inode ^ device << 32) * 0x9e3779b97f4a7c15u;
	size_t at = (size_t)(hash >> 20), mask = opening->seen_room - 1;

	for (;; at++) {
		struct seen *seen = &opening->seen[at & mask];

		if (!seen->inode || (seen->inode == inode && seen->device == device))
			return seen;
	}
}

static int grow_seen(struct opening *opening)
{
	const struct opening before = *opening;
	size_t room = before.seen_room ? before.seen_room * 2 : 64;
	struct seen *bigger = calloc(room, sizeof(*bigger));

	if (!bigger)
		return -ENOMEM;
	opening->seen = bigger;
	opening->seen_room = room;
	for (size_t i = 0; i < before.seen_room; i++) {
		if (before.seen[i].inode)
			*find_seen(opening, before.seen[i].device, before.seen[i].inode) =
				before.seen[i];
	}
	free(before.seen);
	return 0;
}

/* Note a file.  1: it was there already; 0 or -ENOMEM. */
static int note_seen(struct opening *opening, const struct stat *st)
{
	struct seen *seen;
	int error = opening->seen_count * 2 < opening->seen_room ? 0 : grow_seen(opening);

	if (error)
		return error;
	seen = find_seen(opening, st->st_dev, st->st_ino);
	if (seen->inode)
		return 1;
	*seen = (struct seen){ .device = st->st_dev, .inode = st->st_ino };
	opening->seen_count += seen->inode != 0;
	return 0;
}

/* ---- one file ---- */

static const char *why_not(int error)
{
	return error == -ENODEV ? "a device or a socket, not a trace" : strerror(-error);
}

/* Lay out one file, unless it is there already.  0 or -ENOMEM. */
static int add_file(struct opening *opening, const char *path)
{
	struct pfw_traces *traces = opening->traces;
	struct pfw_trace_file file = { .head = { .rank = -1 } }, *more;
	struct stat st = { 0 };
	int error = 0;

	more = pfw_more(traces->file, traces->count, &opening->room, sizeof(*more));
	if (!more)
		return -ENOMEM;
	traces->file = more;
	if (strcmp(path, "-") != 0 && stat(path, &st) == 0) {
		error = S_ISREG(st.st_mode) ? note_seen(opening, &st) : 0;
		if (error)
			return error < 0 ? error : 0;
		file.device = st.st_dev;
		file.inode = st.st_ino;
		file.changed_ns = st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec;
	}
	if (!opening->heads || !S_ISREG(st.st_mode))
		error = pfw_blocks_find(&file.blocks, path);
	/* What is no file can be read only once. */
	if (!error && S_ISREG(st.st_mode))
		error = pfw_trace_head(&file.head, path);
	file.path = strdup(path);
	if (error == -ENOMEM || !file.path) {
		free_file(&file);
		return -ENOMEM;
	}
	if (error) {
		opening->say(opening->user, path, why_not(error));
		free_file(&file);
		return 0;
	}
	traces->file[traces->count++] = file;
	return 0;
}

/* Of the files from `first` on, drop those of runs older than that of the file written last. */
static void keep_newest_run(struct pfw_traces *traces, size_t first)
{
	const struct pfw_trace_file *newest = NULL;
	char run[sizeof(newest->head.run)];
	size_t kept = first;

	for (size_t i = first; i < traces->count; i++) {
		if (traces->file[i].head.run[0] &&
		    (!newest || traces->file[i].changed_ns >= newest->changed_ns))
			newest = &traces->file[i];
	}
	if (!newest)
		return;
	memcpy(run, newest->head.run, sizeof(run));
	for (size_t i = first; i < traces->count; i++) {
		struct pfw_trace_file *file = &traces->file[i];

		if (!file->head.run[0] || strcmp(file->head.run, run) == 0) {
			traces->file[kept++] = *file;
		} else {
			free_file(file);
			traces->left_out++;
		}
	}
	traces->count = kept;
}

/* Whether an argument names one file, which is then taken whatever its run is. */
static bool is_one(const char *argument)
{
	struct stat st;

	return strcmp(argument, "-") == 0 ||
	       (lstat(argument, &st) == 0 && (stat(argument, &st) < 0 || !S_ISDIR(st.st_mode)));
}

static int add_argument(struct opening *opening, const char *argument)
{
	size_t first = opening->traces->count;
	struct pfw_paths paths = { 0 };
	const char *why;
	int error = pfw_paths_add(&paths, argument, &why);

	if (error && error != -ENOMEM) {
		opening->say(opening->user, argument, why);
		error = 0;
	} else if (!error && !paths.count) {
		opening->passed_over = argument;
	}
	for (size_t i = 0; !error && i < paths.count; i++)
		error = add_file(opening, paths.path[i]);
	if (!opening->all_runs && !is_one(argument))
		keep_newest_run(opening->traces, first);
	pfw_paths_free(&paths);
	return error;
}

static int add_newest(struct opening *opening)
{
	struct pfw_paths paths = { 0 };
	int error = pfw_paths_add_newest(&paths, ".");

	if (error && error != -ENOMEM) {
		opening->say(opening->user, ".",
			     error == -ENOENT ? "no *.pfw or *.pfw.gz here; name a trace"
					      : strerror(-error));
		error = 0;
	}
	for (size_t i = 0; !error && i < paths.count; i++)
		error = add_file(opening, paths.path[i]);
	pfw_paths_free(&paths);
	return error;
}

static int compare(const void *a, const void *b)
{
	const struct pfw_trace_file *x = a, *y = b;

	if (x->head.rank != y->head.rank)
		return x->head.rank < y->head.rank ? -1 : 1;
	return strcmp(x->path, y->path);
}

void pfw_traces_sort(struct pfw_traces *traces)
{
	int64_t first = -1;

	if (traces->count)
		qsort(traces->file, traces->count, sizeof(*traces->file), compare);
	for (size_t i = 0; i < traces->count; i++) {
		int64_t rank = traces->file[i].head.rank;

		if (first < 0)
			first = rank;
		traces->ranks |= rank != first;
	}
}

static int open_all(struct opening *opening, char *const *arguments, size_t count)
{
	struct pfw_traces *traces = opening->traces;
	int error = 0;

	*traces = (struct pfw_traces){ 0 };
	if (!count)
		error = opening->all_runs ? add_argument(opening, ".") : add_newest(opening);
	for (size_t i = 0; !error && i < count; i++)
		error = add_argument(opening, arguments[i]);
	free(opening->seen);
	/* Whose shell has put them among the traces does not want to hear of it. */
	if (!error && !traces->count && opening->passed_over)
		opening->say(opening->user, opening->passed_over,
			     "an index or manifest, not a trace");
	if (!error && !traces->count)
		error = -ENOENT;
	if (error)
		pfw_traces_close(traces);
	else
		pfw_traces_sort(traces);
	return error;
}

int pfw_traces_open(struct pfw_traces *traces, char *const *arguments, size_t count, bool all_runs,
		    void (*say)(void *user, const char *path, const char *why), void *user)
{
	struct opening opening = {
		.traces = traces, .all_runs = all_runs, .say = say, .user = user
	};

	return open_all(&opening, arguments, count);
}

int pfw_traces_open_ranks(struct pfw_traces *traces, char *const *arguments, size_t count,
			  bool all_runs, void (*say)(void *user, const char *path, const char *why),
			  void *user)
{
	int error = pfw_traces_open(traces, arguments, count, all_runs, say, user);

	if (!error && (error = pfw_ranks_part(traces, say, user)))
		pfw_traces_close(traces);
	return error;
}

int pfw_traces_open_heads(struct pfw_traces *traces, char *const *arguments, size_t count,
			  bool all_runs, void (*say)(void *user, const char *path, const char *why),
			  void *user)
{
	struct opening opening = {
		.traces = traces, .all_runs = all_runs, .heads = true, .say = say, .user = user
	};

	return open_all(&opening, arguments, count);
}

int pfw_traces_lay_out(struct pfw_traces *traces,
		       void (*say)(void *user, const char *path, const char *why), void *user)
{
	for (size_t i = 0; i < traces->count; i++) {
		int error;

		if (pfw_ranks_whole(traces, i) != i)
			continue;
		error = pfw_blocks_find(&traces->file[i].blocks, traces->file[i].path);

		if (error) {
			say(user, traces->file[i].path, why_not(error));
			return error;
		}
	}
	return 0;
}
