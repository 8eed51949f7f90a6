/* tools/anonymise/anonymise.c - `pfw anonymise`: copies of traces without the names in them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "anonymise/anonymise.h"
#include "common/base/text.h"
#include "copies/copies.h"
#include "store/sys/full_io.h"
#include "store/sys/open.h"

struct anonymise {
	struct survey survey;
	struct pfw_select select; /* chooses everything */
	struct anonymise_rules rules;
	const char *key_path;
	struct copies copies;
	struct pfw_buffer *scratch; /* of each thread */
};

static int fail(const struct anonymise *anonymise, const char *path, int error)
{
	return cli_error(anonymise->survey.command->name, "%s: %s", cli_name(path),
			 strerror(error));
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
	return cli_error(
		anonymise->survey.command->name,
		"%s: not a key of %u bytes: name a file that does not exist, and a key is made",
		cli_name(anonymise->key_path), ANONYMISE_KEY_BYTES);
}

/* ---- the copies ---- */

/* trace-rank0003-pid4711: as the recorder names files, without the user's part of the name. */
static char *stem(void *user, const struct pfw_trace_file *file)
{
	char rank[32] = "", pid[32] = "", *made;

	(void)user;
	if (file->head.rank >= 0 && file->head.world_size > 1)
		snprintf(rank, sizeof(rank), "-rank%04" PRId64, file->head.rank);
	snprintf(pid, sizeof(pid), "-pid%" PRIu64, file->head.pid);
	if (!strstr(pfw_text_base(file->path), pid))
		*pid = '\0';
	return asprintf(&made, "trace%s%s", rank, pid) < 0 ? NULL : made;
}

static int change(void *user, unsigned worker, struct pfw_buffer *out,
		  const struct pfw_pass_lines *line)
{
	struct anonymise *anonymise = user;

	return anonymise_line(&anonymise->rules, out, &anonymise->scratch[worker], &line->entry,
			      line->text, line->bytes);
}

/* ---- the command ---- */

static int run(void *user, struct survey_input *input)
{
	struct anonymise *anonymise = user;
	unsigned jobs = survey_jobs(&anonymise->survey);
	int status = survey_attach(&anonymise->survey, input, NULL);

	if (status != CLI_OK)
		return status;
	anonymise->scratch = calloc(jobs, sizeof(*anonymise->scratch));
	if (!anonymise->scratch)
		return fail(anonymise, anonymise->copies.path, ENOMEM);
	status = copies_write(&anonymise->copies, input);
	for (unsigned i = 0; i < jobs; i++)
		pfw_buffer_free(&anonymise->scratch[i]);
	free(anonymise->scratch);
	return status;
}

static int begin(void *user, struct cli_args *args)
{
	struct anonymise *anonymise = user;

	(void)args;
	if (!anonymise->copies.path)
		cli_error(anonymise->survey.command->name,
			  "the copies go to a new directory: give -o DIR");
	else if (copies_check(&anonymise->copies) == CLI_OK)
		return get_key(anonymise) == CLI_OK ? -1 : CLI_USAGE;
	return CLI_USAGE;
}

/* Take --keep. */
static int take(void *user, const struct cli_args *args, int option)
{
	struct anonymise *anonymise = user;
	const char *words = args->value;

	(void)option;
	while (*words) {
		size_t bytes = strcspn(words, ",");
		bool roots = bytes == 5 && memcmp(words, "roots", 5) == 0;
		bool extensions = bytes == 10 && memcmp(words, "extensions", 10) == 0;

		if (!roots && !extensions) {
			cli_error(args->command->name,
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

static int anonymise_main(const struct cli_command *command, int argc, char **argv)
{
	struct anonymise anonymise = { .survey = { .command = command,
						   .no_index = true,
						   .user = &anonymise,
						   .take = take,
						   .select = &anonymise.select,
						   .begin = begin,
						   .whole = true,
						   .body = run },
				       .copies = { .survey = &anonymise.survey,
						   .select = &anonymise.select,
						   .user = &anonymise,
						   .stem = stem,
						   .line = change } };

	return survey_main(&anonymise.survey, argc, argv);
}

static const struct cli_option options[] = {
	{ "output", 'o', "DIR", "a new directory for the copies",
	  CLI_INTO(struct anonymise, copies.path) },
	{ "key", 0, "FILE",
	  "the key of the pseudonyms, to have the same ones in another copy; made if FILE "
	  "does not exist. Whoever has the key can test guessed names",
	  CLI_INTO(struct anonymise, key_path) },
	{ "keep", 0, "roots,extensions",
	  "do not replace well-known directories (/usr/lib), or ends of names (.parquet)",
	  .id = 256 },
	{ "names", 0, NULL, "also replace names of the program's own spans and annotations",
	  CLI_INTO(struct anonymise, rules.names) },
	SURVEY_OPTION_ALL_RUNS,
	SURVEY_OPTION_QUIET,
	SURVEY_OPTION_JOBS,
	{ 0 },
};

const struct cli_command cli_anonymise = {
	.name = "anonymise",
	.operands = "[PATH...]",
	.summary = "Copy traces without the names in them, to send to somebody else",
	.options = options,
	.main = anonymise_main,
	.details = SURVEY_PATHS
	"Names of files, directories, hosts, threads and Python functions, command\n"
	"lines, and all other texts of the program become pseudonyms. A name has the\n"
	"same one everywhere, and a path keeps its directories. Times, sizes, counts,\n"
	"ids and names of calls, operators and kernels stay.\n"
	"The key is random, and lost when the command ends, unless --key is given.\n",
};
