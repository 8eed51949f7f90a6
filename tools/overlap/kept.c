/* tools/overlap/kept.c - finds and keeps the overlaps of ranks in several files; see overlap.h. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "overlap/overlap.h"
#include "share/unasked.h"
#include "store/index/db.h"
#include "store/index/index.h"
#include "store/overlap/kept.h"
#include "store/sys/open.h"
#include "ui/host.h"

static bool is_in(const char *path, const char *directory)
{
	size_t bytes;
	const char *own = pfw_directory_of(path, &bytes);

	return strlen(directory) == bytes && !memcmp(own, directory, bytes);
}

static char *copy_directory(const char *path)
{
	size_t bytes;
	const char *directory = pfw_directory_of(path, &bytes);

	return strndup(directory, bytes);
}

/* Add a file of the rank to *files, if its index is of what was opened.  The problems that the index knows
 * are kept. */
static int add_file(struct survey *survey, const struct pfw_trace_file *file,
		    struct pfw_blob *files)
{
	struct pfw_index *index;
	struct stat st;
	int error = pfw_index_of(&index, file);

	if (error)
		return error;
	if (stat(file->path, &st) < 0 || st.st_ino != file->inode || st.st_dev != file->device ||
	    pfw_changed_ns(&st) != file->changed_ns)
		error = -ESTALE;
	error = error ?: survey_keep_problems(survey, file->path, index);
	if (!error)
		pfw_overlaps_add_file(files, file->path, index);
	pfw_index_close(index);
	return error ?: files->failed ? -ENOMEM : 0;
}

/* What names the files of a rank: all are in the directory that is open, and none has lines in a ring.
 * 0 or -errno. */
static int name_files(const struct overlap *overlap, size_t number, struct survey *survey,
		      const struct survey_input *input, struct pfw_blob *files)
{
	const struct overlap_rank *rank = &overlap->rank[number];
	int error = 0;

	for (size_t i = rank->first; i <= rank->last && !error; i++) {
		const struct pfw_trace_file *file = &input->traces.file[i];

		if (overlap->rank_of[i] != number)
			continue;
		if (file->partial || file->ranks || file->once || input->live.live[i] ||
		    !is_in(file->path, overlap->directory))
			error = -ENOTSUP;
		error = error ?: add_file(survey, file, files);
	}
	return error;
}

/* Have open what is kept of the directory of a file.  0, -ENOENT: another one is open; -ENOMEM. */
static int open_kept(struct overlap *overlap, const char *path)
{
	if (overlap->kept)
		return is_in(path, overlap->directory) ? 0 : -ENOENT;
	overlap->directory = copy_directory(path);
	return overlap->directory ? pfw_overlaps_open(&overlap->kept, overlap->directory) : -ENOMEM;
}

static bool is_apart(const struct overlap_rank *rank, const struct survey_input *input)
{
	const struct pfw_trace_file *file = &input->traces.file[rank->first];

	return rank->files > 1 && !rank->indexed && !file->ranks && !file->partial;
}

int overlap_find_kept(struct overlap *overlap, size_t number, struct survey *survey,
		      const struct survey_input *input)
{
	struct overlap_rank *rank = &overlap->rank[number];
	struct pfw_blob files = { .data = NULL };
	int error;

	if (!is_apart(rank, input))
		return 0;
	error = open_kept(overlap, input->traces.file[rank->first].path);
	if (!error && !pfw_overlaps_count(overlap->kept))
		return 0;
	error = error ?: name_files(overlap, number, survey, input, &files);
	error = error ?: pfw_overlaps_find(overlap->kept, &files, &rank->overlap);
	pfw_blob_free(&files);
	if (!error) {
		survey_tell_problems(survey);
		return 1;
	}
	survey_forget_problems(survey);
	pfw_overlap_release(&rank->overlap);
	pfw_overlap_init(&rank->overlap);
	return error == -ENOMEM ? error : 0;
}

/* ---- keeping ---- */

/* Keep that of a rank. */
static int keep(struct overlap *overlap, size_t number, struct survey *survey,
		const struct survey_input *input)
{
	struct overlap_rank *rank = &overlap->rank[number];
	struct pfw_blob files = { .data = NULL };
	int error = open_kept(overlap, input->traces.file[rank->first].path);

	error = error ?: name_files(overlap, number, survey, input, &files);
	survey_forget_problems(survey);
	if (!error)
		error = pfw_overlaps_keep(overlap->kept, &files, &rank->overlap);
	pfw_blob_free(&files);
	return error;
}

/* A file size limit is an error of write() here: it must not end the command. */
static void write_kept(struct overlap *overlap, struct survey *survey,
		       const struct survey_input *input, const char *trace)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, before;
	char where[PATH_MAX];
	int error;

	sigaction(SIGXFSZ, &ignore, &before);
	error = pfw_overlaps_write(overlap->kept, trace, pfw_traces_mode(&input->traces), where);
	sigaction(SIGXFSZ, &before, NULL);
	if (!error && !survey->quiet)
		unasked_say(survey->command, where, 0);
}

void overlap_keep(struct overlap *overlap, struct survey *survey, const struct survey_input *input)
{
	const char *trace = NULL;
	uint64_t events = 0;

	for (size_t i = 0; i < overlap->ranks; i++) {
		if (is_apart(&overlap->rank[i], input))
			events += overlap->rank[i].overlap.sums.events;
	}
	if (cli_host || !unasked_wants(events))
		return;
	for (size_t i = 0; i < overlap->ranks; i++) {
		struct overlap_rank *rank = &overlap->rank[i];

		if (is_apart(rank, input) && !rank->overlap.inexact &&
		    keep(overlap, i, survey, input) == 0)
			trace = input->traces.file[rank->first].path;
	}
	if (trace)
		write_kept(overlap, survey, input, trace);
}
