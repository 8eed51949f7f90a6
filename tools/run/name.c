/* tools/run/name.c - the program of `pfw run` and the name of its traces. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/text.h"
#include "common/settings/config.h"
#include "common/settings/process.h"
#include "run/run.h"
#include "store/sys/open.h"
#include "store/traces/paths.h"
#include "ui/cli.h"

extern char **environ;

static bool ends_with(const char *text, const char *end)
{
	size_t bytes = strlen(text), count = strlen(end);

	return bytes >= count && strcmp(text + bytes - count, end) == 0;
}

/* Length of a name without .pfw or .pfw.gz. */
static size_t stem_bytes(const char *name)
{
	size_t bytes = strlen(name);

	if (ends_with(name, ".pfw.gz"))
		return bytes - strlen(".pfw.gz");
	return ends_with(name, ".pfw") ? bytes - strlen(".pfw") : bytes;
}

/* ---- the program ---- */

/*
 * The Python that `python3` means: an activated environment's, else that of the environment whose
 * bin/pfw was called by its path, else the first in PATH. What pipx links into PATH has an
 * environment, too, but not the user's.
 */
static const char *current_python(void)
{
	static char path[PATH_MAX];
	const char *environment = getenv("VIRTUAL_ENV");
	const char *slash = strrchr(program_invocation_name, '/');
	int bytes = slash ? (int)(slash - program_invocation_name) : 0;

	if (environment && *environment &&
	    (size_t)snprintf(path, sizeof(path), "%s/bin/python3", environment) < sizeof(path) &&
	    access(path, X_OK) == 0)
		return path;
	if (bytes &&
	    (size_t)snprintf(path, sizeof(path), "%.*s/../pyvenv.cfg", bytes,
			     program_invocation_name) < sizeof(path) &&
	    access(path, R_OK) == 0) {
		snprintf(path, sizeof(path), "%.*s/python3", bytes, program_invocation_name);
		return path;
	}
	return "python3";
}

/* Whether a script given as a path is executable and has a `#!` line. */
static bool runs_itself(const char *script)
{
	char begin[2] = { 0 };
	int fd;

	if (!strchr(script, '/') || access(script, X_OK) < 0)
		return false;
	fd = pfw_open_file(script, PFW_OPEN_LINK, NULL);
	if (fd < 0)
		return false;
	if (read(fd, begin, 2) != 2)
		begin[0] = 0;
	close(fd);
	return begin[0] == '#' && begin[1] == '!';
}

/* Put the current Python before `train.py ...` and `-m pkg ...`. 0 or -ENOMEM. */
static int complete_words(struct run *run)
{
	const char *first = run->words[0];
	char **words;

	if (strcmp(first, "-m") != 0 && (!ends_with(first, ".py") || runs_itself(first)))
		return 0;
	words = calloc((size_t)run->count + 2, sizeof(*words));
	if (!words)
		return -ENOMEM;
	words[0] = (char *)current_python();
	memcpy(words + 1, run->words, (size_t)run->count * sizeof(*words));
	run->words = run->completed = words;
	run->count++;
	return 0;
}

/* The script, or the module after -m, among Python's words. */
static const char *python_subject(const struct run *run)
{
	for (int i = 1; i < run->count; i++) {
		if (strcmp(run->words[i], "-m") == 0 && i + 1 < run->count)
			return run->words[i + 1];
		if (strcmp(run->words[i], "-c") == 0)
			return NULL;
		if (strcmp(run->words[i], "-W") == 0 || strcmp(run->words[i], "-X") == 0)
			i++;
		else if (run->words[i][0] != '-')
			return run->words[i];
	}
	return NULL;
}

/* Name the trace after Python's script or module, else after the program. */
static void find_name(struct run *run)
{
	const char *subject = pfw_text_base(run->words[0]);
	size_t bytes;

	if (strncmp(subject, "python", 6) == 0 && python_subject(run))
		subject = pfw_text_base(python_subject(run));
	bytes = strlen(subject) - (ends_with(subject, ".py") ? 3 : 0);
	snprintf(run->name, sizeof(run->name), "%.*s", (int)bytes, subject);
	if (!run->name[0])
		snprintf(run->name, sizeof(run->name), "trace");
}

/* ---- the run's name and files ---- */

static bool is_preloaded(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return preload && strstr(preload, "/libpfw_preload");
}

/* An id that no other process has had: host, pid and start time. */
static void unique_id(char *id, size_t size, pid_t pid)
{
	struct pfw_process process = { .start_time = (uint64_t)time(NULL) };
	char host[65] = "localhost";

	gethostname(host, sizeof(host) - 1);
	pfw_process_read(&process, pid);
	snprintf(id, size, "%s-%d-%" PRIu64, host, (int)pid, process.start_time);
}

/* Find rank and run.  Processes of one launcher share the run id that the launcher gives them, else
 * their parent's. */
static void find_run(struct run *run)
{
	struct pfw_config config;
	char unique[128];

	setenv("DFTRACER_ENABLE", "1", 1); /* otherwise pfw_config_read() reads nothing */
	pfw_config_read(&config, environ, NULL, NULL);
	pfw_rank_find(&run->rank, &config, environ, run->count, run->words);
	run->many = run->rank.rank >= 0 && run->rank.world_size != 1;
	unique_id(unique, sizeof(unique), run->many ? getppid() : getpid());
	run->many |= run->rank.launcher;
	if (run->many || config.run)
		pfw_run_find(run->id, sizeof(run->id), &config, environ, unique);
	else
		snprintf(run->id, sizeof(run->id), "%s", unique);
	run->inside = config.run && is_preloaded() && getenv("DFTRACER_LOG_FILE");
}

/* Whether a trace with this base (without suffix) exists. */
static bool is_taken(const char *base)
{
	struct pfw_paths paths = { 0 };
	bool taken;

	pfw_paths_add_base(&paths, base);
	taken = paths.count > 0;
	pfw_paths_free(&paths);
	return taken;
}

/* Take the first of base, base.2, base.3 ... without a trace; `plain` is the base without %-words. */
static int pick_free(struct run *run, const char *plain)
{
	size_t stem = stem_bytes(plain), end = stem_bytes(run->base), bytes;

	snprintf(run->found, sizeof(run->found), "%.*s", (int)stem, plain);
	for (unsigned n = 2; is_taken(run->found); n++)
		if ((size_t)snprintf(run->found + stem, sizeof(run->found) - stem, ".%u", n) >=
		    sizeof(run->found) - stem)
			return -ENAMETOOLONG;
	bytes = (size_t)snprintf(run->base + end, sizeof(run->base) - end, "%s%s",
				 run->found + stem, plain + stem);
	return end + bytes < sizeof(run->base) ? 0 : -ENAMETOOLONG;
}

/* The length of the %-word at the begin of a text, 0: there is none. */
static size_t word_bytes(const char *at)
{
	return *at != '%' ? 0 : at[1] == 'q' ? strcspn(at, "}") + 1 : strnlen(at, 2);
}

/* Make of a base with %-words a directory and a glob. */
static int find_glob(struct run *run)
{
	const char *end = run->base + stem_bytes(run->base), *at = run->base;
	struct pfw_text glob, directory;

	pfw_text_init(&glob, run->glob, sizeof(run->glob));
	pfw_text_init(&directory, run->found, sizeof(run->found));
	while (at < end) {
		size_t bytes = word_bytes(at);

		if (bytes && at[1] != '%') {
			pfw_text_add(&glob, "*");
			at += bytes;
			continue;
		}
		if (strchr("*?[\\", *at))
			pfw_text_add(&glob, "\\");
		pfw_text_add_bytes(&glob, at, 1);
		if (!strchr(run->glob, '*'))
			pfw_text_add_bytes(&directory, at, 1);
		at += bytes ?: 1;
	}
	*(strrchr(run->found, '/') + 1) = '\0';
	return glob.cut || directory.cut ? -ENAMETOOLONG : 0;
}

/* The base up to the first %-word.  Whether it has none. */
static bool is_plain(char *out, const char *base)
{
	size_t bytes;

	while ((bytes = word_bytes(base)) == 0 || base[1] == '%') {
		*out = *base;
		if (!*base)
			return true;
		out++;
		base += bytes ?: 1;
	}
	*out = '\0';
	return false;
}

/* The default base; several ranks get a directory of their own. */
static int default_base(struct run *run, struct pfw_text *base)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s-%s", run->name, run->id);
	if (run->many && mkdir(path, 0777) < 0 && errno != EEXIST)
		return -errno;
	if (run->many) {
		pfw_name_add_path(base, path);
		pfw_text_add(base, "/");
	}
	pfw_name_add_path(base, run->name);
	return 0;
}

/* The base that -o or the environment gives, or NULL. */
static const char *given_base(const struct run *run)
{
	return run->output ? run->output : getenv("DFTRACER_LOG_FILE");
}

/* Make run->base.  0 or -errno. */
static int make_base(struct run *run)
{
	const char *given = given_base(run);
	bool unnamed = !given || !*given;
	struct pfw_text base;
	int error = 0;

	pfw_text_init(&base, run->base, sizeof(run->base));
	if (unnamed || *given != '/') {
		pfw_name_add_path(&base, run->cwd);
		pfw_text_add(&base, "/");
	}
	if (unnamed)
		error = default_base(run, &base);
	else
		pfw_text_add(&base, given);
	pfw_name_complete(&base);
	return error ?: base.cut || strlen(run->base) >= PFW_BASE_MAX ? -ENAMETOOLONG : 0;
}

/* Make run->base and run->found.  Return 0 or the -errno of a directory that cannot be used. */
static int find_base(struct run *run)
{
	char plain[PATH_MAX], *name, first;
	int error = make_base(run);

	if (error)
		return error;
	if (run->inside && !run->output)
		return 0; /* the outer run's base, which is absolute */
	if (!is_plain(plain, run->base))
		return find_glob(run);
	name = strrchr(plain, '/') + 1;
	first = *name;
	*name = '\0'; /* with its '/': ENOTDIR if a file is there */
	if ((access(plain, F_OK) < 0 && mkdir(plain, 0777) < 0 && errno != EEXIST) ||
	    access(plain, W_OK | X_OK) < 0)
		return -errno;
	*name = first;
	if (!run->many)
		return pick_free(run, plain);
	snprintf(run->found, sizeof(run->found), "%.*s", (int)stem_bytes(plain), plain);
	return 0;
}

int run_name(struct run *run)
{
	const char *given = given_base(run);
	int error;

	if (!getcwd(run->cwd, sizeof(run->cwd))) {
		error = -errno;
		run->cwd[0] = '\0';
		if (!given || *given != '/') {
			cli_error(
				"run",
				"the current directory is not there: %s; give -o an absolute path",
				strerror(-error));
			return error;
		}
	}
	error = complete_words(run);
	if (error) {
		cli_error("run", "%s", strerror(-error));
		return error;
	}
	find_name(run);
	find_run(run);
	error = find_base(run);
	if (error)
		cli_error("run", "no trace can be written as %s: %s; give another name with -o",
			  cli_name(run->output ? run->output : run->base), strerror(-error));
	return error;
}
