/* store/traces/traces.c - finds and opens the traces that arguments name; see traces.h. */
#include "store/traces/traces.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/order.h"
#include "store/kit/grow.h"
#include "store/kit/pair_ids.h"
#include "store/sys/open.h"
#include "store/sys/pool.h"
#include "store/sys/proc.h"
#include "store/traces/partials.h"
#include "store/traces/paths.h"
#include "store/traces/ranks.h"

struct opening {
	struct pfw_traces *traces;
	struct pfw_pair_ids seen; /* devices and inodes of files */
	size_t room;
	unsigned flags;
	pfw_traces_count *count_processes; /* or NULL */
	const char *passed_over;	   /* an index or manifest among the arguments */
	pfw_traces_say *say;
	void *user;
};

void pfw_trace_file_free(struct pfw_trace_file *file)
{
	pfw_blocks_free(&file->blocks);
	pfw_ranks_free(file->ranks);
	pfw_processes_free(file->processes);
	free(file->path);
	free(file->partial);
}

void pfw_traces_say_nothing(void *user, const char *path, const char *why)
{
	(void)user;
	(void)path;
	(void)why;
}

void pfw_traces_close(struct pfw_traces *traces)
{
	for (size_t i = 0; i < traces->count; i++)
		pfw_trace_file_free(&traces->file[i]);
	for (size_t i = 0; i < traces->doubles; i++) {
		free(traces->twice[i].left_out);
		free(traces->twice[i].used);
	}
	free(traces->twice);
	free(traces->file);
	*traces = (struct pfw_traces){ 0 };
}

mode_t pfw_traces_mode(const struct pfw_traces *traces)
{
	mode_t mode = 0666;

	for (size_t i = 0; i < traces->count; i++)
		mode &= traces->file[i].mode;
	return mode;
}

bool pfw_traces_once(const struct pfw_traces *traces)
{
	bool once = false;

	for (size_t i = 0; i < traces->count; i++)
		once |= traces->file[i].once;
	return once;
}

void pfw_traces_drop(struct pfw_traces *traces, size_t number)
{
	pfw_trace_file_free(&traces->file[number]);
	traces->count--;
	memmove(&traces->file[number], &traces->file[number + 1],
		(traces->count - number) * sizeof(*traces->file));
}

/* ---- duplicates ---- */

/* Note a file.  1: a duplicate; 0 or -ENOMEM. */
static int note_seen(struct pfw_pair_ids *seen, const struct stat *st)
{
	uint32_t count = seen->count;
	int64_t number;

	if (!st->st_ino) /* some file systems have no inode numbers */
		return 0;
	number = pfw_pair_ids_of(seen, st->st_dev, st->st_ino);
	return number < 0 ? (int)number : number < count;
}

/* ---- one file ---- */

static const char *why_not(int error)
{
	return error == -ENODEV ? "a device or a socket, not a trace"
	       : error == -EDOM
		       ? "its `time_metric` is not US, and times are read as µs: record with DFTRACER_TIME_METRIC=US"
		       : strerror(-error);
}

/* Add the traces in a partial.  0 or -ENOMEM. */
static int add_partial(struct opening *opening, const char *path)
{
	const char *why =
		"a partial: only table, overlap, patterns, memory, compare and index --partial read it, "
		"others need the traces themselves";
	int error = -EINVAL;

	if (opening->flags & PFW_TRACES_PARTIALS)
		error = pfw_partials_add(opening->traces, &opening->room, path, &why);
	if (error && error != -ENOMEM)
		opening->say(opening->user, path, why);
	return error == -ENOMEM ? error : 0;
}

/* What is read of a file before it is added. */
struct look {
	struct pfw_trace head;
	struct pfw_blocks blocks;
	uint64_t process_lines;
	int error;
	bool due, done;
};

/* Look at a regular file. */
static void look_at(struct look *look, const char *path, const struct opening *opening)
{
	look->done = true;
	if (opening->count_processes)
		look->process_lines = opening->count_processes(path);
	look->due = look->process_lines || opening->flags & PFW_TRACES_HEADS;
	if (!look->due)
		look->error = pfw_blocks_find(&look->blocks, path);
	if (!look->error)
		look->error = pfw_trace_head(&look->head, path);
}

/* Of so many files threads read the heads, which is most of the work of opening traces. */
#define FEW 4u
#define LOOK_AHEAD 512u

struct looking {
	struct look *look;
	char *const *path;
	size_t count;
	const struct opening *opening;
};

static void look_ahead(void *user, size_t number)
{
	const struct looking *looking = user;
	const char *path = looking->path[number];
	struct stat st;

	looking->look[number] = (struct look){ .done = false };
	if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && !pfw_partial_is_name(path))
		look_at(&looking->look[number], path, looking->opening);
}

/* Add one file, unless it is a duplicate.  `look` may be done already.  0 or -ENOMEM. */
static int add_file(struct opening *opening, const char *path, struct look *look)
{
	struct pfw_traces *traces = opening->traces;
	struct pfw_trace_file file = { .head = { .rank = -1 }, .mode = 0666, .once = true };
	struct stat st = { 0 };
	int error = 0;

	if (pfw_partial_is_name(path))
		return add_partial(opening, path);
	if (PFW_ROOM(traces->file, traces->count, opening->room))
		return -ENOMEM;
	if (strcmp(path, "-") != 0 && stat(path, &st) == 0) {
		file.once = !S_ISREG(st.st_mode);
		error = file.once ? 0 : note_seen(&opening->seen, &st);
		if (error)
			return error < 0 ? error : 0;
		if (!file.once)
			file.mode = st.st_mode & 0666;
		file.device = st.st_dev;
		file.inode = st.st_ino;
		file.changed_ns = pfw_changed_ns(&st);
	}
	if (file.once) {
		error = pfw_blocks_find(&file.blocks, path);
	} else {
		if (!look->done)
			look_at(look, path, opening);
		error = look->error;
		file.head = look->head;
		file.blocks = look->blocks;
		file.due = look->due;
		file.process_lines = look->process_lines;
		look->blocks = (struct pfw_blocks){ .block = NULL };
	}
	file.path = strdup(path);
	if (!file.path)
		error = -ENOMEM;
	if (!error) {
		traces->file[traces->count++] = file;
		return 0;
	}
	pfw_trace_file_free(&file);
	if (error != -ENOMEM)
		opening->say(opening->user, path, why_not(error));
	return error == -ENOMEM ? error : 0;
}

void pfw_traces_keep_newest(struct pfw_traces *traces, size_t first)
{
	char run[sizeof(traces->file->head.run)];
	size_t kept = first, newest;

	if (first == traces->count)
		return;
	newest = first + pfw_trace_newest(&traces->file[first].head, sizeof(*traces->file),
					  traces->count - first);
	memcpy(run, traces->file[newest].head.run, sizeof(run));
	if (!run[0])
		return;
	for (size_t i = first; i < traces->count; i++) {
		struct pfw_trace_file *file = &traces->file[i];

		if (!file->head.run[0] || strcmp(file->head.run, run) == 0) {
			traces->file[kept++] = *file;
		} else {
			pfw_trace_file_free(file);
			traces->left_out++;
		}
	}
	traces->count = kept;
}

/* Whether an argument names one file, which is taken whatever its run is. */
static bool is_one(const char *argument)
{
	struct stat st;

	return strcmp(argument, "-") == 0 ||
	       (lstat(argument, &st) == 0 && (stat(argument, &st) < 0 || !S_ISDIR(st.st_mode)));
}

/* Add the files, and free their paths. */
static int add_files(struct opening *opening, struct pfw_paths *paths, int error)
{
	struct looking looking = { .opening = opening };

	looking.look = calloc(LOOK_AHEAD, sizeof(*looking.look));
	if (!looking.look && !error)
		error = -ENOMEM;
	for (size_t i = 0; !error && i < paths->count; i += looking.count) {
		looking.path = paths->path + i;
		looking.count = paths->count - i < LOOK_AHEAD ? paths->count - i : LOOK_AHEAD;
		if (paths->count >= FEW)
			pfw_pool_share(pfw_cpus(), looking.count, look_ahead, &looking);
		for (size_t j = 0; j < looking.count; j++) {
			if (!error)
				error = add_file(opening, looking.path[j], &looking.look[j]);
			pfw_blocks_free(&looking.look[j].blocks);
		}
	}
	free(looking.look);
	pfw_paths_free(paths);
	return error;
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
	error = add_files(opening, &paths, error);
	if (!(opening->flags & PFW_TRACES_ALL_RUNS) && !is_one(argument))
		pfw_traces_keep_newest(opening->traces, first);
	return error;
}

static int add_newest(struct opening *opening)
{
	struct pfw_paths paths = { 0 };
	int error = pfw_paths_add_newest(&paths, ".", &opening->traces->left_out);

	if (error && error != -ENOMEM) {
		opening->say(opening->user, ".",
			     error == -ENOENT ? "no *.pfw or *.pfw.gz here; name a trace"
					      : strerror(-error));
		error = 0;
	}
	return add_files(opening, &paths, error);
}

static int compare(const void *a, const void *b)
{
	const struct pfw_trace_file *x = a, *y = b;

	return PFW_ORDER(x->head.rank, y->head.rank) ?: strcmp(x->path, y->path);
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

struct knowing {
	struct pfw_traces *traces;
	_Atomic int error;
};

static void read_processes(void *user, size_t number)
{
	struct knowing *knowing = user;
	int error = pfw_processes_read(&knowing->traces->file[number]);

	if (error)
		atomic_store_explicit(&knowing->error, error, memory_order_relaxed);
}

/* Read the processes of all files; use one of several files with the same process. */
static int know_processes(struct opening *opening)
{
	struct pfw_traces *traces = opening->traces;
	struct knowing knowing = { .traces = traces };
	int error;

	/* An index may be enough to answer for one file. */
	if (opening->flags & PFW_TRACES_HEADS && traces->count == 1)
		return 0;
	pfw_pool_share(traces->count < FEW ? 1 : pfw_cpus(), traces->count, read_processes,
		       &knowing);
	error = knowing.error;
	if (!error && !(opening->flags & PFW_TRACES_EACH))
		error = pfw_processes_drop_doubles(traces);
	return error ?: pfw_processes_number(traces);
}

int pfw_traces_open(struct pfw_traces *traces, char *const *arguments, size_t count, unsigned flags,
		    pfw_traces_say *say, void *user)
{
	return pfw_traces_open_indexed(traces, arguments, count, flags, NULL, say, user);
}

int pfw_traces_open_indexed(struct pfw_traces *traces, char *const *arguments, size_t count,
			    unsigned flags, pfw_traces_count *count_processes, pfw_traces_say *say,
			    void *user)
{
	struct opening opening = { .traces = traces,
				   .flags = flags,
				   .count_processes = count_processes,
				   .say = say,
				   .user = user };
	int error = 0;

	*traces = (struct pfw_traces){ 0 };
	if (!count)
		error = flags & PFW_TRACES_ALL_RUNS ? add_argument(&opening, ".")
						    : add_newest(&opening);
	for (size_t i = 0; !error && i < count; i++)
		error = add_argument(&opening, arguments[i]);
	pfw_pair_ids_release(&opening.seen);
	/* If there are other traces, the shell's glob has probably named it: no message. */
	if (!error && !traces->count && opening.passed_over)
		say(user, opening.passed_over, "an index or manifest, not a trace");
	if (!error && !traces->count)
		error = -ENOENT;
	if (!error) {
		pfw_traces_sort(traces);
		pfw_partials_drop_doubles(traces);
		error = know_processes(&opening);
	}
	if (!error && flags & PFW_TRACES_RANKS)
		error = pfw_ranks_part(traces, say, user);
	if (error)
		pfw_traces_close(traces);
	return error;
}

static bool has_file(const struct pfw_traces *traces, const struct pfw_trace_file *file)
{
	for (size_t i = 0; i < traces->count; i++) {
		if (file->inode && traces->file[i].inode == file->inode &&
		    traces->file[i].device == file->device)
			return true;
	}
	return false;
}

/* Whether a file is of a run of which some are among the traces. */
static bool has_run(const struct pfw_traces *traces, const struct pfw_trace_file *file)
{
	for (size_t i = 0; i < traces->count; i++) {
		if (strcmp(traces->file[i].head.run, file->head.run) == 0)
			return true;
	}
	return false;
}

bool pfw_traces_leave_to(struct pfw_traces *traces, const struct pfw_traces *others)
{
	size_t common = 0, kept = 0;

	for (size_t i = 0; i < others->count; i++) {
		if (!has_file(traces, &others->file[i]))
			return false;
	}
	for (size_t i = 0; i < traces->count; i++) {
		bool is_common = has_file(others, &traces->file[i]);

		common += is_common;
		if (!is_common && has_run(others, &traces->file[i]))
			return false;
	}
	if (!common || common == traces->count)
		return false;
	for (size_t i = 0; i < traces->count; i++) {
		if (has_file(others, &traces->file[i]))
			pfw_trace_file_free(&traces->file[i]);
		else
			traces->file[kept++] = traces->file[i];
	}
	traces->count = kept;
	return true;
}

const struct pfw_trace_file *pfw_traces_partial(const struct pfw_traces *traces)
{
	for (size_t i = 0; i < traces->count; i++) {
		if (traces->file[i].partial)
			return &traces->file[i];
	}
	return NULL;
}

int pfw_traces_lay_out(struct pfw_traces *traces, pfw_traces_say *say, void *user)
{
	for (size_t i = 0; i < traces->count; i++) {
		struct pfw_trace_file *file = &traces->file[i];
		bool due = file->due && pfw_ranks_whole(traces, i) == i;
		int error = due ? pfw_blocks_find(&file->blocks, file->path) : 0;

		file->due = false;
		error = error ?: pfw_processes_read(file);
		if (error) {
			say(user, file->path, why_not(error));
			return error;
		}
	}
	/* Those of one file alone have no numbers yet. */
	return pfw_processes_number(traces);
}
