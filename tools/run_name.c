/* run_name.c - what `pfw run` runs, and what its traces are called. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "config.h"
#include "run.h"
#include "store/paths.h"

extern char **environ;

static bool ends_with(const char *text, const char *end)
{
	size_t bytes = strlen(text), count = strlen(end);

	return bytes >= count && strcmp(text + bytes - count, end) == 0;
}

/* Bytes of a name without .pfw or .pfw.gz. */
static size_t stem_bytes(const char *name)
{
	size_t bytes = strlen(name);

	if (ends_with(name, ".pfw.gz"))
		return bytes - strlen(".pfw.gz");
	return ends_with(name, ".pfw") ? bytes - strlen(".pfw") : bytes;
}

/* ---- the program ---- */

/* The Python that `python3` means here: an activated environment's, else the PATH's. */
static const char *current_python(void)
{
	static char path[PATH_MAX];
	const char *environment = getenv("VIRTUAL_ENV");

	if (environment && *environment &&
	    (size_t)snprintf(path, sizeof(path), "%s/bin/python3", environment) < sizeof(path) &&
	    access(path, X_OK) == 0)
		return path;
	return "python3";
}

/* A script named by its path that brings an interpreter of its own runs by that. */
static bool runs_itself(const char *script)
{
	char begin[2] = { 0 };
	FILE *file;

	if (!strchr(script, '/') || access(script, X_OK) < 0)
		return false;
	file = fopen(script, "re");
	if (!file)
		return false;
	if (fread(begin, 1, 2, file) != 2)
		begin[0] = 0;
	fclose(file);
	return begin[0] == '#' && begin[1] == '!';
}

/* `train.py …` and `-m pkg …` get the current Python in front.  0 or -ENOMEM. */
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

/* Of Python's words the one that says what it runs: the script, or the module behind -m. */
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

/* What the trace is named after: the script or module of a Python, else the program. */
static void find_name(struct run *run)
{
	const char *subject = run_base_name(run->words[0]);
	size_t bytes;

	if (strncmp(subject, "python", 6) == 0 && python_subject(run))
		subject = run_base_name(python_subject(run));
	bytes = strlen(subject) - (ends_with(subject, ".py") ? 3 : 0);
	snprintf(run->name, sizeof(run->name), "%.*s", (int)bytes, subject);
	if (!run->name[0])
		snprintf(run->name, sizeof(run->name), "trace");
}

/* ---- the run's name and files ---- */

static bool is_preloaded(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return preload && strstr(preload, "libpfw_preload.so");
}

/* A name for this process that no other has had: host, pid and start time. */
static void unique_id(char *id, size_t size, pid_t pid)
{
	struct pfw_process process = { .start_time = (uint64_t)time(NULL) };
	char host[65] = "localhost";

	gethostname(host, sizeof(host) - 1);
	pfw_process_read(&process, pid);
	snprintf(id, size, "%s-%d-%" PRIu64, host, (int)pid, process.start_time);
}

/* Rank and run.  Processes that a launcher starts share the run by what the launcher tells them,
 * else by their parent. */
static void find_run(struct run *run)
{
	struct pfw_config config;
	char unique[128];
	bool many;

	setenv("DFTRACER_ENABLE", "1", 1); /* else pfw_config_read() looks at nothing */
	pfw_config_read(&config, environ, NULL, NULL);
	pfw_rank_find(&run->rank, &config, environ, run->count, run->words);
	many = run->rank.rank >= 0 && run->rank.world_size != 1;
	unique_id(unique, sizeof(unique), many ? getppid() : getpid());
	if (many || run->rank.launcher || config.run)
		pfw_run_find(run->id, sizeof(run->id), &config, environ, unique);
	else
		snprintf(run->id, sizeof(run->id), "%s", unique);
	run->inside = config.run && is_preloaded() && getenv("DFTRACER_LOG_FILE");
}

/* Whether a trace of that base, without suffix, is there already. */
static bool is_taken(const char *base)
{
	struct pfw_paths paths = { 0 };
	bool taken;

	pfw_paths_add_base(&paths, base);
	taken = paths.count > 0;
	pfw_paths_free(&paths);
	return taken;
}

/* Find the first of base, base.2, base.3 … that no trace has. */
static int pick_free(struct run *run)
{
	size_t stem = stem_bytes(run->base);
	const char *suffix = run->base + stem;
	char taken[PATH_MAX];

	snprintf(taken, sizeof(taken), "%.*s", (int)stem, run->base);
	for (unsigned n = 2; is_taken(taken); n++) {
		if ((size_t)snprintf(taken, sizeof(taken), "%.*s.%u", (int)stem, run->base, n) >=
		    sizeof(taken) - strlen(suffix))
			return -ENAMETOOLONG;
	}
	memcpy(run->found, taken, sizeof(taken));
	memmove(taken + strlen(taken), suffix, strlen(suffix) + 1);
	memcpy(run->base, taken, sizeof(taken));
	return 0;
}

/* Where the traces of a base with %-words will be: somewhere in its directory. */
static void find_directory(struct run *run)
{
	char *slash;

	snprintf(run->found, sizeof(run->found), "%s", run->base);
	slash = strchr(run->found, '%');
	if (slash)
		*slash = '\0';
	slash = strrchr(run->found, '/');
	slash[1] = '\0';
}

/* A default name: a directory of their own for several ranks. */
static int default_base(struct run *run)
{
	bool many = run->rank.launcher || (run->rank.rank >= 0 && run->rank.world_size != 1);
	char plain[NAME_MAX], path[PATH_MAX];
	size_t used = 0;
	int length;

	/* '%' begins a word of the base; ours is meant as it is. */
	for (const char *at = run->name; *at && used + 3 < sizeof(plain); at++) {
		plain[used++] = *at;
		if (*at == '%')
			plain[used++] = '%';
	}
	plain[used] = '\0';
	snprintf(path, sizeof(path), "%s-%s", run->name, run->id);
	if (many && mkdir(path, 0777) < 0 && errno != EEXIST)
		return -errno;
	if (many)
		length = snprintf(run->base, sizeof(run->base), "%s/%s-%s/%s", run->cwd, plain,
				  run->id, plain);
	else
		length = snprintf(run->base, sizeof(run->base), "%s/%s", run->cwd, plain);
	if ((size_t)length >= sizeof(run->base))
		return -ENAMETOOLONG;
	return 0;
}

/* Make run->base and run->found.  Return 0 or -errno of the directory that is in the way. */
static int find_base(struct run *run)
{
	const char *given = run->output ? run->output : getenv("DFTRACER_LOG_FILE");
	bool many = run->rank.launcher || (run->rank.rank >= 0 && run->rank.world_size != 1);
	char *slash;
	int error = 0;

	if (!given || !*given)
		error = default_base(run);
	else if ((size_t)snprintf(run->base, sizeof(run->base), "%s%s%s",
				  *given == '/' ? "" : run->cwd, *given == '/' ? "" : "/",
				  given) >= sizeof(run->base))
		error = -ENAMETOOLONG;
	if (error)
		return error;
	if (run->inside && !run->output)
		return 0; /* the outer run's base, which is absolute */
	if (strchr(run->base, '%')) {
		find_directory(run);
		return 0;
	}
	slash = strrchr(run->base, '/');
	*slash = '\0';
	if (run->base[0] && access(run->base, F_OK) < 0 && mkdir(run->base, 0777) < 0 &&
	    errno != EEXIST)
		error = -errno;
	else if (run->base[0] && access(run->base, W_OK | X_OK) < 0)
		error = -errno;
	if (error)
		return error;
	*slash = '/';
	if (!many)
		return pick_free(run);
	snprintf(run->found, sizeof(run->found), "%.*s", (int)stem_bytes(run->base), run->base);
	return 0;
}

int run_name(struct run *run)
{
	int error;

	if (!getcwd(run->cwd, sizeof(run->cwd))) {
		error = -errno;
		cli_error("run", "the current directory is not there: %s", strerror(-error));
		return error;
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
