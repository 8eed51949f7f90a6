/* tools/share/unasked.c - leaves indexes of large, finished traces; see unasked.h. */
#include "share/unasked.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/format/gzip_header.h"
#include "common/settings/kinds.h"
#include "store/index/build.h"
#include "store/index/index.h"
#include "store/recover/owner.h"
#include "store/recover/recover.h"
#include "store/recover/unwritten.h"
#include "store/sys/open.h"
#include "ui/host.h"
#include "ui/progress.h"

#define EVENTS 1000000 /* the default of PFW_INDEX_EVENTS, see config.def */
/* Writing an index takes as long as reading some 20,000 lines, so it does not pay for many small
 * files: more files than this must have a tenth of the number above on average. */
#define FILES_MOST 10
/* About the size of a line in other tools' compressed traces; it only decides what is large. */
#define PACKED_LINE_BYTES 12

/* ---- how large ---- */

/* 0: never. */
static uint64_t threshold(void)
{
	const char *value = getenv("PFW_INDEX_EVENTS");
	int64_t events;

	if (!value || pfw_parse_rank(value, &events) != PFW_PARSED)
		return EVENTS;
	return (uint64_t)events;
}

/* About how many lines a text has, by its first ones. */
static uint64_t lines_of_text(const char *text, size_t bytes, uint64_t all)
{
	uint64_t lines = 0;

	for (size_t i = 0; i < bytes; i++)
		lines += text[i] == '\n';
	return bytes ? (uint64_t)((double)all / (double)bytes * (double)lines) : 0;
}

/* Members of ours say how many lines they have. */
static uint64_t lines_of_members(const char *path, uint64_t bytes)
{
	struct pfw_blocks blocks = { 0 };
	uint64_t lines = 0;

	if (pfw_blocks_find(&blocks, path))
		return 0;
	for (size_t i = 0; i < blocks.count; i++)
		lines += blocks.block[i].lines;
	pfw_blocks_free(&blocks);
	return lines ? lines : bytes / PACKED_LINE_BYTES;
}

static uint64_t estimate(const char *path)
{
	char text[65536];
	struct stat st;
	ssize_t got;
	int fd = pfw_open_file(path, PFW_OPEN_LINK, &st);

	if (fd < 0)
		return 0;
	got = pread(fd, text, sizeof(text), 0);
	close(fd);
	if (got > 0 && pfw_is_gzip((const unsigned char *)text, (size_t)got))
		return lines_of_members(path, (uint64_t)st.st_size);
	return got > 0 ? lines_of_text(text, (size_t)got, (uint64_t)st.st_size) : 0;
}

bool unasked_wants(uint64_t events)
{
	uint64_t least = threshold();

	return least && events >= least;
}

static bool are_large(char *const *path, size_t count)
{
	uint64_t least = threshold(), events = 0;

	if (!least)
		return false;
	if (count > FILES_MOST)
		least = (least + FILES_MOST - 1) / FILES_MOST * count;
	for (size_t i = 0; i < count && events < least; i++)
		events += estimate(path[i]);
	return events >= least;
}

/* ---- which ---- */

bool unasked_is_whole(const char *path)
{
	static const char *const no_dir[] = { NULL };
	const struct pfw_spool_places nowhere = { .dir = no_dir };
	char why[PFW_LIVE_WHY_BYTES];
	struct pfw_unwritten *left;

	if (pfw_life_of(path, why, sizeof(why)) != PFW_LIFE_DEAD)
		return false;
	if (pfw_unwritten_open(&left, path, &nowhere, why) == 0) {
		pfw_unwritten_close(left);
		return false;
	}
	return !*why;
}

/* Open the files that lack an index and may have one.  0, or -errno: there are none. */
static int open_lacking(struct pfw_traces *traces, char *const *path, size_t count)
{
	char **lacking = calloc(count + 1, sizeof(*lacking));
	size_t found = 0;
	int error = lacking ? -ENOENT : -ENOMEM;

	for (size_t i = 0; i < count && lacking; i++) {
		if (!pfw_index_exists(path[i]) && unasked_is_whole(path[i]))
			lacking[found++] = path[i];
	}
	if (found)
		error = pfw_traces_open(traces, lacking, found,
					PFW_TRACES_ALL_RUNS | PFW_TRACES_EACH,
					pfw_traces_say_nothing, NULL);
	free(lacking);
	return error;
}

/* ---- making ---- */

struct made {
	const struct pfw_traces *traces;
	size_t count;
	char where[PATH_MAX]; /* of the first */
};

static void built(void *user, size_t file, const struct pfw_index_built *one)
{
	struct made *made = user;

	if (one->error || made->count++)
		return;
	snprintf(made->where, sizeof(made->where), "%s%s",
		 one->cached ? one->cached : made->traces->file[file].path,
		 one->cached ? "" : PFW_INDEX_SUFFIX);
}

void unasked_say(const struct cli_command *command, const char *where, size_t others)
{
	char more[48] = "";

	if (others)
		snprintf(more, sizeof(more), " and %s more", cli_count(others));
	cli_error(command->name,
		  "made %s%s: the next answers come at once (PFW_INDEX_EVENTS=0: make none)",
		  cli_name(where), more);
}

/* A file size limit is an error of write() here, as a full disk is: it must not end the command. */
static int build(const struct unasked *how, const struct pfw_traces *traces, struct made *made)
{
	const struct pfw_index_build build = {
		.traces = traces,
		.jobs = how->jobs,
		.unasked = true,
		.user = made,
		.built = built,
		.progress = progress_of_pass,
		.stop = how->stop,
	};
	struct sigaction ignore = { .sa_handler = SIG_IGN }, before;
	int error;

	sigaction(SIGXFSZ, &ignore, &before);
	progress_begin("index", how->quiet, false);
	error = pfw_index_build(&build);
	progress_hide();
	sigaction(SIGXFSZ, &before, NULL);
	return error;
}

/* Make those that are lacking. */
static void make(const struct unasked *how, char *const *path, size_t count, struct made *made)
{
	struct pfw_traces traces = { 0 };

	made->traces = &traces;
	if (open_lacking(&traces, path, count) == 0 && traces.count)
		build(how, &traces, made);
	pfw_traces_close(&traces);
}

size_t unasked_indexes(const struct unasked *how, char *const *path, size_t count)
{
	struct made made = { 0 };

	if (are_large(path, count))
		make(how, path, count, &made);
	if (made.count && !how->quiet)
		unasked_say(how->command, made.where, made.count - 1);
	return made.count;
}

void unasked_for_partial(const struct unasked *how, const struct pfw_traces *traces)
{
	char **path = calloc(traces->count + 1, sizeof(*path));
	struct made made = { 0 };
	size_t count = 0;

	for (size_t i = 0; i < traces->count && path; i++) {
		if (!traces->file[i].partial)
			path[count++] = traces->file[i].path;
	}
	if (count)
		make(how, path, count, &made);
	free(path);
}

size_t unasked_of_survey(struct survey *survey, const struct pfw_traces *traces)
{
	const struct unasked how = { .command = survey->command,
				     .jobs = survey->jobs,
				     .quiet = survey->quiet,
				     .stop = survey->stop };
	char **path = calloc(traces->count + 1, sizeof(*path));
	size_t count = 0, made = 0;

	for (size_t i = 0; i < traces->count && path && !survey->no_index && !cli_host; i++) {
		/* The parts of a file with several ranks are one file. */
		if (pfw_ranks_whole(traces, i) == i && !traces->file[i].partial &&
		    !traces->file[i].once)
			path[count++] = traces->file[i].path;
	}
	if (count)
		made = unasked_indexes(&how, path, count);
	free(path);
	return made;
}
