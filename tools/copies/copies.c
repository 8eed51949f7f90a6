/* tools/copies/copies.c - the files of copies; see copies.h. */
#include "copies/copies.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/gzip/member.h"
#include "store/sys/full_io.h"
#include "store/sys/open.h"

/* The copy of one trace. */
struct copies_copy {
	char *path;
	uint64_t bytes; /* written so far */
	enum copies_form form;
};

static int fail(const struct copies *copies, const char *path, int error)
{
	return cli_error(copies->survey->command->name, "%s: %s", cli_name(path), strerror(error));
}

/* ---- the files ---- */

/* STEM.pfw in the directory; STEM.2.pfw if another copy has that name. */
static char *name_of(const struct copies *copies, size_t number)
{
	const char *suffix = copies->copy[number].form == COPIES_PLAIN ? "" : ".gz";
	char *stem, *path = NULL;

	if (copies->single)
		return strdup(copies->temporary);
	stem = copies->stem(copies->user, &copies->traces->file[number]);
	for (unsigned i = 1; stem; i++) {
		char again[16] = "";

		if (i > 1)
			snprintf(again, sizeof(again), ".%u", i);
		if (asprintf(&path, "%s/%s%s.pfw%s", copies->temporary, stem, again, suffix) < 0)
			path = NULL;
		if (!path || access(path, F_OK) < 0)
			break;
		free(path);
	}
	free(stem);
	return path;
}

static bool is_gzip(const char *path)
{
	size_t bytes = strlen(path);

	return bytes > 3 && strcmp(path + bytes - 3, ".gz") == 0;
}

static enum copies_form form_of(const struct copies *copies, const struct pfw_trace_file *file)
{
	struct pfw_marks marks;

	if (copies->single && !is_gzip(copies->path))
		return COPIES_PLAIN;
	if (file->blocks.layout == PFW_LAYOUT_MEMBERS &&
	    pfw_marks_read(&marks, file->path, &file->blocks) == 0 && marks.marked)
		return COPIES_SORTED;
	return copies->single || is_gzip(file->path) ? COPIES_GZIP : COPIES_PLAIN;
}

/* Make the directory with an empty file for each trace. */
static int make_copies(struct copies *copies)
{
	mode_t mode = pfw_traces_mode(copies->traces);

	if (asprintf(&copies->temporary, "%s.tmp%ld", copies->path, (long)getpid()) < 0) {
		copies->temporary = NULL;
		return fail(copies, copies->path, ENOMEM);
	}
	if (!copies->single && mkdir(copies->temporary, mode & 0077 ? 0777 : 0700) < 0)
		return fail(copies, copies->temporary, errno);
	for (size_t i = 0; i < copies->traces->count; i++) {
		struct copies_copy *copy = &copies->copy[i];
		int fd;

		copy->form = form_of(copies, &copies->traces->file[i]);
		copy->path = name_of(copies, i);
		fd = copy->path ? pfw_open_new(copy->path, mode) : -ENOMEM;
		if (fd < 0)
			return fail(copies, copy->path ? copy->path : copies->path, -fd);
		close(fd);
	}
	return CLI_OK;
}

/* Close the copy that is open: some file systems say only now that there is no room. */
static int close_copy(struct copies *copies)
{
	int error = copies->fd >= 0 && close(copies->fd) < 0 ? -errno : 0;

	copies->fd = -1;
	return error;
}

/* Remove what was made, or give it its name. */
static int end_copies(struct copies *copies, int status)
{
	int error = close_copy(copies);

	if (!error && status <= CLI_PROBLEMS)
		error = pfw_rename_new(copies->temporary, copies->path);
	if (error)
		status = fail(copies, copies->path, -error);
	for (size_t i = 0; i < copies->traces->count; i++) {
		if (status > CLI_PROBLEMS && copies->copy[i].path)
			unlink(copies->copy[i].path);
		free(copies->copy[i].path);
	}
	if (status > CLI_PROBLEMS && copies->temporary && !copies->single)
		rmdir(copies->temporary);
	free(copies->temporary);
	return status;
}

/* ---- the fold ---- */

bool copies_want(void *user, size_t file, const struct pfw_block *block)
{
	(void)user;
	(void)file;
	(void)block;
	return true;
}

/* The mark of a member of a compacted file. */
static int read_mark(struct pfw_sorted_mark *mark, const char *path, uint64_t at)
{
	int error, fd = pfw_open_file(path, PFW_OPEN_LINK, NULL);
	struct pfw_link link;

	if (fd < 0)
		return fd;
	error = pfw_chain_look(&link, fd, at);
	close(fd);
	return error ?: pfw_sorted_mark_read(link.header, link.header_bytes, mark);
}

static int work(void *user, const struct survey_worker *worker, struct pfw_pass_block *block)
{
	const struct copies *copies = user;
	enum copies_form form = copies->copy[block->file].form;
	struct pfw_sorted_mark mark = { 0 };
	int error = 0;

	if (form == COPIES_SORTED)
		error = read_mark(&mark, copies->traces->file[block->file].path, block->block->at);
	return error ? error
		     : copies_block(copies, worker->number, form, &mark, block, block->result);
}

/* Append to the copy; lines that are still in rings come after those of all files. */
static int done(void *user, struct pfw_pass_block *block)
{
	struct copies *copies = user;
	struct copies_copy *copy = &copies->copy[block->file];
	const struct pfw_buffer *text = block->result;

	int error = 0;

	if (copies->fd < 0 || copies->open != block->file) {
		error = close_copy(copies);
		copies->open = block->file;
		copies->fd = pfw_open_file(copy->path, PFW_OPEN_WRITE, NULL);
		if (!error && copies->fd < 0)
			error = copies->fd;
	}
	if (!error)
		error = pfw_full_write(copies->fd, text->data, text->bytes, &copy->bytes);
	if (!error)
		return 0;
	fail(copies, copies->path, -error);
	return -EINTR; /* it is said */
}

static void drop(void *result)
{
	pfw_buffer_free(result);
	free(result);
}

static int copy_all(struct copies *copies, struct survey_input *input)
{
	const struct survey_fold fold = { .user = copies,
					  .select = copies->select,
					  .want = copies_want,
					  .result_bytes = sizeof(struct pfw_buffer),
					  .work = work,
					  .done = done,
					  .drop = drop };
	unsigned jobs = survey_jobs(copies->survey);
	int error;

	copies->worker = calloc(jobs, sizeof(*copies->worker));
	if (!copies->worker)
		return fail(copies, copies->path, ENOMEM);
	error = survey_read(copies->survey, input, &fold, SURVEY_ALL);
	for (unsigned i = 0; i < jobs; i++) {
		pfw_gzip_close(copies->worker[i].gzip);
		pfw_member_close(copies->worker[i].member);
		pfw_buffer_free(&copies->worker[i].text);
	}
	free(copies->worker);
	return survey_end(copies->survey, error);
}

/* ---- all of it ---- */

int copies_check(const struct copies *copies)
{
	struct stat st;

	if (lstat(copies->path, &st) < 0)
		return CLI_OK;
	return cli_error(copies->survey->command->name, "%s exists already: give a new name",
			 cli_name(copies->path));
}

int copies_write(struct copies *copies, struct survey_input *input)
{
	int status;

	copies->fd = -1;
	copies->traces = &input->traces;
	if (copies->single && input->traces.count > 1)
		return cli_error(
			copies->survey->command->name,
			"%s: the copies of %zu traces go to a directory: give a name without .pfw",
			cli_name(copies->path), input->traces.count);
	copies->copy = calloc(input->traces.count, sizeof(*copies->copy));
	if (!copies->copy)
		return fail(copies, copies->path, ENOMEM);
	status = make_copies(copies) ?: copy_all(copies, input);
	if (status == CLI_OK && input->live.missing)
		status = CLI_PROBLEMS;
	status = end_copies(copies, status);
	free(copies->copy);
	return status;
}
