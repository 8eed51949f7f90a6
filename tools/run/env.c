/* tools/run/env.c - the environment in which `pfw run` runs its program. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/text.h"
#include "common/settings/config.h"
#include "run/run.h"
#include "ui/cli.h"

#define PRELOAD "libpfw_preload.so"
#define PRELOAD_SYNC "libpfw_preload_sync.so"

static int link_into(const char *directory, const char *target)
{
	char path[PATH_MAX + 64];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, pfw_text_base(target)) >=
	    sizeof(path))
		return -ENAMETOOLONG;
	return symlink(target, path) < 0 ? -errno : 0;
}

/* The path of libpfw.so.1, which lies beside the preload object. */
static void recorder_beside(char recorder[PATH_MAX + 16], const char *preload)
{
	snprintf(recorder, PATH_MAX + 16, "%.*slibpfw.so.1",
		 (int)(pfw_text_base(preload) - preload), preload);
}

/* LD_PRELOAD splits at spaces and colons, so a path that contains one is reached by a symbolic
 * link.  The recorder is linked in the same directory, where the preload object looks for it. */
static int link_preload(struct run *run, char *path, size_t size)
{
	const char *tmp = getenv("TMPDIR");
	char recorder[PATH_MAX + 16], *name;
	int error;

	if (!tmp || !*tmp || strpbrk(tmp, " :") || strlen(tmp) > PATH_MAX / 2 ||
	    access(tmp, W_OK | X_OK) < 0)
		tmp = "/tmp";
	snprintf(run->links, sizeof(run->links), "%s/pfw-XXXXXX", tmp);
	if (!mkdtemp(run->links)) {
		run->links[0] = '\0';
		return -errno;
	}
	recorder_beside(recorder, path);
	error = link_into(run->links, path) ?: link_into(run->links, recorder);
	name = strdup(pfw_text_base(path));
	if (!name || (size_t)snprintf(path, size, "%s/%s", run->links, name) >= size)
		error = -ENAMETOOLONG;
	free(name);
	return error;
}

void run_remove_links(const struct run *run)
{
	static const char *const names[] = { PRELOAD, PRELOAD_SYNC, "libpfw.so.1" };
	char path[PATH_MAX + 64];

	if (!run->links[0])
		return;
	for (size_t i = 0; i < CLI_ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", run->links, names[i]);
		unlink(path);
	}
	rmdir(run->links);
}

/* Put an entry in front of a variable's list. */
static int prepend(const char *variable, const char *entry)
{
	const char *others = getenv(variable);
	char *joined;

	if (asprintf(&joined, "%s%s%s", entry, others && *others ? ":" : "", others ? others : "") <
	    0)
		return -ENOMEM;
	setenv(variable, joined, 1);
	free(joined);
	return 0;
}

/* The object that also has the names of locks and sleeps, which would cost others a jump for each
 * lock. */
static int take_sync(char path[PATH_MAX])
{
	size_t used = (size_t)(pfw_text_base(path) - path);

	if (used + sizeof(PRELOAD_SYNC) > PATH_MAX)
		return -ENAMETOOLONG;
	strcpy(path + used, PRELOAD_SYNC);
	return access(path, R_OK) < 0 ? -errno : 0;
}

/* Put the preload object in front of LD_PRELOAD, once. */
static int set_preload(struct run *run)
{
	char path[PATH_MAX];
	int error = 0;

	if (run->inside)
		return 0;
	if (!cli_find_preload(path, sizeof(path))) {
		cli_error("run",
			  "libpfw_preload.so is neither in ../lib beside pfw nor in /usr/lib or "
			  "/usr/local/lib: install it there, or build it");
		return -ENOENT;
	}
	if (pfw_calls_adds(getenv("PFW_CALLS")) && take_sync(path)) {
		cli_error("run",
			  "PFW_CALLS=%s needs " PRELOAD_SYNC ", which is not beside " PRELOAD
			  ": install both of one build",
			  getenv("PFW_CALLS"));
		return -ENOENT;
	}
	if (strpbrk(path, " :"))
		error = link_preload(run, path, sizeof(path));
	if (error) {
		cli_error("run",
			  "no link to libpfw_preload.so, whose path has a space or colon, can be "
			  "made in $TMPDIR or /tmp: %s",
			  strerror(-error));
		return error;
	}
	return prepend("LD_PRELOAD", path);
}

/* Keep another tool's value. */
static void name_recorder(const char *variable)
{
	const char *others = getenv(variable);
	char path[PATH_MAX], recorder[PATH_MAX + 16];

	if ((others && *others) || !cli_find_preload(path, sizeof(path)))
		return;
	recorder_beside(recorder, path);
	setenv(variable, recorder, 1);
}

/*
 * At the end of cuInit the driver loads the library that the first variable names.  The recorder
 * then sees the first kernel; if the variable names another tool, the recorder starts at its next
 * look.  NVTX's header loads what the second variable names.
 */
static void set_injection(struct run *run)
{
	struct pfw_config config;

	if (run->no_gpu)
		setenv("PFW_CUPTI", "0", 1);
	pfw_config_read_enabled(&config, environ, NULL, NULL);
	if (config.gpu)
		name_recorder("CUDA_INJECTION64_PATH");
	if (config.nvtx)
		name_recorder("NVTX_INJECTION64_PATH");
}

/* Make each prefix of --data-dir absolute, since the recorder compares absolute paths. */
static int set_data_dir(struct run *run)
{
	char list[32768];
	size_t used = 0;

	for (const char *at = run->data_dir; *at;) {
		size_t bytes = strcspn(at, ":");

		if (bytes && *at != '/' && !run->cwd[0]) {
			cli_error("run", "--data-dir %s: the current directory is not there",
				  cli_name(run->data_dir));
			return -ENOENT;
		}
		if (bytes && used < sizeof(list))
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s%s%.*s",
						 used ? ":" : "", *at == '/' ? "" : run->cwd,
						 *at == '/' ? "" : "/", (int)bytes, at);
		at += bytes;
		at += *at == ':';
	}
	if (!used || used >= sizeof(list)) {
		cli_error("run", "--data-dir %s: give one or more directories, with : between them",
			  cli_name(run->data_dir));
		return -EINVAL;
	}
	return setenv("DFTRACER_DATA_DIR", list, 1) < 0 ? -errno : 0;
}

/* Make each Python run the package's _site. */
static int set_python(void)
{
	char site[PATH_MAX];

	if (!cli_find_site(site, sizeof(site))) {
		cli_error("run",
			  "--py-calls and --compat: they need the Python package, whose _site is "
			  "missing: install it (pip install pfwtrace, Debian: python3-pfw) and run "
			  "its pfw");
		return -ENOENT;
	}
	if (strchr(site, ':')) {
		cli_error(
			"run",
			"--py-calls and --compat: %s has a colon: install the Python package elsewhere",
			cli_name(site));
		return -ENOENT;
	}
	return prepend("PYTHONPATH", site);
}

int run_environment(struct run *run)
{
	int error = set_preload(run);

	if (!error && run->python)
		error = set_python();
	if (!error && run->all)
		setenv("DFTRACER_DATA_DIR", "all", 1);
	else if (!error && run->data_dir)
		error = set_data_dir(run);
	if (error)
		return error;
	set_injection(run);
	setenv("DFTRACER_INIT", "PRELOAD", 1);
	setenv("DFTRACER_LOG_FILE", run->base, 1);
	setenv("PFW_RUN", run->id, 1);
	if (run->output)
		setenv("PFW_KEEP_NAME", "1", 1);
	if (run->gzip)
		setenv("DFTRACER_TRACE_COMPRESSION", "1", 1);
	if (run->no_io)
		setenv("DFTRACER_DISABLE_IO", "1", 1);
	return 0;
}
