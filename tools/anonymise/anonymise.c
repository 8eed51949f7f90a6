/* tools/anonymise/anonymise.c - `pfw anonymise`: copies of traces without the names in them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "anonymise/anonymise.h"
#include "share/survey.h"
#include "store/read/chain.h"
#include "store/sys/full_io.h"
#include "store/sys/open.h"

/* The copy of one trace. */
struct copy {
	char *path;
	uint64_t bytes; /* written so far */
	enum anonymise_form form;
};

struct anonymise {
	struct survey survey;
	struct pfw_select select; /* chooses everything */
	struct anonymise_rules rules;
	const char *out_path, *key_path;
	char *temporary; /* the directory until it is complete */
	const struct pfw_traces *traces;
	struct copy *copy; /* of each trace */
	struct anonymise_worker *worker;
	size_t open; /* the copy that `fd` is; only done() uses it */
	int fd;
};

static int fail(const struct anonymise *anonymise, const char *path, int error)
{
	cli_error(anonymise->survey.command->name, "%s: %s", cli_name(path), strerror(error));
	return CLI_USAGE;
}

/* ---- the key ---- */

static int make_key(struct anonymise *anonymise, uint64_t key[2])
{
	uint64_t at = 0;
	int fd, error;

	if (getrandom(key, ANONYMISE_KEY_BYTES, 0) != ANONYMISE_KEY_BYTES)
		return fail(anonymise, "getrandom()", errno);
	if (!anonymise->key_path)
		return CLI_OK;
	fd = pfw_open_new(anonymise->key_path, 0600);
	if (fd < 0)
		return fail(anonymise, anonymise->key_path, -fd);
	error = pfw_full_write(fd, key, ANONYMISE_KEY_BYTES, &at);
	if (close(fd) < 0 && !error)
		error = -errno;
	return error ? fail(anonymise, anonymise->key_path, -error) : CLI_OK;
}

/* Read the file of --key, or make a key. */
static int get_key(struct anonymise *anonymise)
{
	uint64_t *key = anonymise->rules.key;
	struct stat st;
	int error, fd = anonymise->key_path ? pfw_open_file(anonymise->key_path, PFW_OPEN_LINK, &st)
					    : -ENOENT;

	if (fd == -ENOENT)
		return make_key(anonymise, key);
	if (fd < 0)
		return fail(anonymise, anonymise->key_path, -fd);
	error = pfw_full_read_all(fd, key, ANONYMISE_KEY_BYTES, 0);
	close(fd);
	if (!error && st.st_size == ANONYMISE_KEY_BYTES)
		return CLI_OK;
	cli_error(anonymise->survey.command->name,
		  "%s: not a key of %u bytes: name a file that does not exist, and a key is made",
		  cli_name(anonymise->key_path), ANONYMISE_KEY_BYTES);
	return CLI_USAGE;
}

/* ---- the directory ---- */

/* trace-rank0003-pid4711.pfw.gz: as the recorder names files, without the user's part of the name. */
static char *name_of(const struct anonymise *anonymise, size_t number)
{
	const struct pfw_trace_file *file = &anonymise->traces->file[number];
	const char *base = strrchr(file->path, '/');
	char rank[32] = "", pid[32] = "", *path;

	if (file->head.rank >= 0 && file->head.world_size > 1)
		snprintf(rank, sizeof(rank), "-rank%04" PRId64, file->head.rank);
	snprintf(pid, sizeof(pid), "-pid%" PRIu64, file->head.pid);
	if (!strstr(base ? base : file->path, pid))
		*pid = '\0';
	for (unsigned i = 1;; i++) {
		char again[16] = "";

		if (i > 1)
			snprintf(again, sizeof(again), ".%u", i);
		if (asprintf(&path, "%s/trace%s%s%s.pfw%s", anonymise->temporary, rank, pid, again,
			     anonymise->copy[number].form == ANONYMISE_PLAIN ? "" : ".gz") < 0)
			return NULL;
		if (access(path, F_OK) < 0)
			return path;
		free(path);
	}
}

static enum anonymise_form form_of(const struct pfw_trace_file *file)
{
	size_t bytes = strlen(file->path);
	struct pfw_marks marks;

	if (file->blocks.layout == PFW_LAYOUT_MEMBERS &&
	    pfw_marks_read(&marks, file->path, &file->blocks) == 0 && marks.marked)
		return ANONYMISE_SORTED;
	return bytes > 3 && strcmp(file->path + bytes - 3, ".gz") == 0 ? ANONYMISE_GZIP
								       : ANONYMISE_PLAIN;
}

/* Make the directory with an empty file for each trace. */
static int make_copies(struct anonymise *anonymise)
{
	mode_t mode = pfw_traces_mode(anonymise->traces);

	if (asprintf(&anonymise->temporary, "%s.tmp%ld", anonymise->out_path, (long)getpid()) < 0) {
		anonymise->temporary = NULL;
		return fail(anonymise, anonymise->out_path, ENOMEM);
	}
	if (mkdir(anonymise->temporary, mode & 0077 ? 0777 : 0700) < 0)
		return fail(anonymise, anonymise->temporary, errno);
	for (size_t i = 0; i < anonymise->traces->count; i++) {
		struct copy *copy = &anonymise->copy[i];
		int fd;

		copy->form = form_of(&anonymise->traces->file[i]);
		copy->path = name_of(anonymise, i);
		fd = copy->path ? pfw_open_new(copy->path, mode) : -ENOMEM;
		if (fd < 0)
			return fail(anonymise, copy->path ? copy->path : anonymise->out_path, -fd);
		close(fd);
	}
	return CLI_OK;
}

/* Remove what was made, or give the directory its name. */
static int end_copies(struct anonymise *anonymise, int status)
{
	if (anonymise->fd >= 0)
		close(anonymise->fd);
	if (status <= CLI_PROBLEMS && renameat2(AT_FDCWD, anonymise->temporary, AT_FDCWD,
						anonymise->out_path, RENAME_NOREPLACE) < 0)
		status = fail(anonymise, anonymise->out_path, errno);
	for (size_t i = 0; i < anonymise->traces->count; i++) {
		if (status > CLI_PROBLEMS && anonymise->copy[i].path)
			unlink(anonymise->copy[i].path);
		free(anonymise->copy[i].path);
	}
	if (status > CLI_PROBLEMS && anonymise->temporary)
		rmdir(anonymise->temporary);
	free(anonymise->temporary);
	return status;
}

/* ---- the fold ---- */

static bool want(void *user, size_t file, const struct pfw_block *block)
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
	return error ? error : pfw_sorted_mark_read(link.header, link.header_bytes, mark);
}

static int work(void *user, const struct survey_worker *worker, struct pfw_pass_block *block)
{
	const struct anonymise *anonymise = user;
	enum anonymise_form form = anonymise->copy[block->file].form;
	struct pfw_sorted_mark mark = { 0 };
	int error = 0;

	if (form == ANONYMISE_SORTED)
		error = read_mark(&mark, anonymise->traces->file[block->file].path,
				  block->block->at);
	return error ? error
		     : anonymise_block(&anonymise->rules, &anonymise->worker[worker->number], form,
				       &mark, block, block->result);
}

/* Append to the copy; lines that are still in rings come after those of all files. */
static int done(void *user, struct pfw_pass_block *block)
{
	struct anonymise *anonymise = user;
	struct copy *copy = &anonymise->copy[block->file];
	const struct pfw_buffer *text = block->result;

	if (anonymise->fd < 0 || anonymise->open != block->file) {
		if (anonymise->fd >= 0 && close(anonymise->fd) < 0)
			return -errno;
		anonymise->open = block->file;
		anonymise->fd = pfw_open_file(copy->path, PFW_OPEN_WRITE, NULL);
		if (anonymise->fd < 0)
			return anonymise->fd;
	}
	return pfw_full_write(anonymise->fd, text->data, text->bytes, &copy->bytes);
}

static void drop(void *user, void *result)
{
	(void)user;
	pfw_buffer_free(result);
	free(result);
}

static int copy_all(struct anonymise *anonymise, struct survey_input *input)
{
	const struct survey_fold fold = { .user = anonymise,
					  .select = &anonymise->select,
					  .want = want,
					  .result_bytes = sizeof(struct pfw_buffer),
					  .work = work,
					  .done = done,
					  .drop = drop };
	unsigned jobs = survey_jobs(&anonymise->survey);
	int error;

	anonymise->worker = calloc(jobs, sizeof(*anonymise->worker));
	if (!anonymise->worker)
		return fail(anonymise, anonymise->out_path, ENOMEM);
	error = survey_read(&anonymise->survey, input, &fold, SURVEY_ALL);
	for (unsigned i = 0; i < jobs; i++)
		anonymise_worker_free(&anonymise->worker[i]);
	free(anonymise->worker);
	return survey_end(&anonymise->survey, error);
}

/* ---- the command ---- */

static int run(void *user, struct survey_input *input)
{
	struct anonymise *anonymise = user;
	int status = survey_attach(&anonymise->survey, input, NULL);

	if (status != CLI_OK)
		return status;
	anonymise->traces = &input->traces;
	anonymise->copy = calloc(input->traces.count, sizeof(*anonymise->copy));
	if (!anonymise->copy)
		return fail(anonymise, anonymise->out_path, ENOMEM);
	status = make_copies(anonymise);
	if (status == CLI_OK)
		status = copy_all(anonymise, input);
	if (status == CLI_OK && input->live.missing)
		status = CLI_PROBLEMS;
	status = end_copies(anonymise, status);
	free(anonymise->copy);
	return status;
}

static int begin(void *user, struct cli_args *args)
{
	struct anonymise *anonymise = user;
	struct stat st;

	(void)args;
	if (!anonymise->out_path)
		cli_error(anonymise->survey.command->name,
			  "the copies go to a new directory: give -o DIR");
	else if (lstat(anonymise->out_path, &st) == 0)
		cli_error(anonymise->survey.command->name, "%s exists already: give a new name",
			  cli_name(anonymise->out_path));
	else
		return get_key(anonymise) == CLI_OK ? -1 : CLI_USAGE;
	return CLI_USAGE;
}

enum { KEY = SURVEY_ALL_RANKS + 1, NAMES, KEEP };

static int take_keep(struct anonymise *anonymise, const char *words)
{
	while (*words) {
		size_t bytes = strcspn(words, ",");
		bool roots = bytes == 5 && memcmp(words, "roots", 5) == 0;
		bool extensions = bytes == 10 && memcmp(words, "extensions", 10) == 0;

		if (!roots && !extensions) {
			cli_error(anonymise->survey.command->name,
				  "--keep takes roots, extensions or both with a comma, not '%s'",
				  words);
			return -1;
		}
		anonymise->rules.roots |= roots;
		anonymise->rules.extensions |= extensions;
		words += bytes + (words[bytes] == ',');
	}
	return 0;
}

static int take(void *user, const struct cli_args *args, int option)
{
	struct anonymise *anonymise = user;

	switch (option) {
	case 'o':
		anonymise->out_path = args->value;
		return 0;
	case KEY:
		anonymise->key_path = args->value;
		return 0;
	case NAMES:
		anonymise->rules.names = true;
		return 0;
	case KEEP:
		return take_keep(anonymise, args->value);
	default:
		return survey_take(&anonymise->survey, &anonymise->select, args, option);
	}
}

static int anonymise_main(const struct cli_command *command, int argc, char **argv)
{
	struct anonymise anonymise = { .survey = { .command = command,
						   .jobs_most = 1024,
						   .no_index = true,
						   .user = &anonymise,
						   .take = take,
						   .begin = begin,
						   .open = pfw_traces_open,
						   .body = run },
				       .fd = -1 };
	int status = survey_main(&anonymise.survey, argc, argv);

	pfw_select_release(&anonymise.select);
	return status;
}

static const struct cli_option options[] = {
	{ "output", 'o', "DIR", "a new directory for the copies", 'o' },
	{ "key", 0, "FILE",
	  "the key of the pseudonyms, to have the same ones in another copy; made if FILE "
	  "does not exist. Whoever has the key can test guessed names",
	  KEY },
	{ "keep", 0, "roots,extensions",
	  "do not replace well-known directories (/usr/lib), or ends of names (.parquet)", KEEP },
	{ "names", 0, NULL, "also replace names of the program's own spans and annotations",
	  NAMES },
	SURVEY_OPTION_ALL_RUNS,
	{ "quiet", 'q', NULL, "print only problems on standard error", 'q' },
	{ "jobs", 'j', "N", "threads (default: one per CPU)", 'j' },
	{ 0 },
};

const struct cli_command cli_anonymise = {
	.name = "anonymise",
	.operands = "[PATH...]",
	.summary = "Copy traces without the names in them, to send to somebody else",
	.options = options,
	.main = anonymise_main,
	.details = "PATH: traces, directories, globs or base names; default: the newest run here.\n"
		   "Names of files, directories, hosts, threads and Python functions, command\n"
		   "lines, and all other texts of the program become pseudonyms. A name has the\n"
		   "same one everywhere, and a path keeps its directories. Times, sizes, counts,\n"
		   "ids and names of calls, operators and kernels stay.\n"
		   "The key is random, and lost when the command ends, unless --key is given.\n",
};
