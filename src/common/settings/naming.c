/* common/settings/naming.c - names of runs and of files; see naming.h. */
#include "common/settings/naming.h"

#include <errno.h>
#include <string.h>

#include "common/base/os.h"
#include "common/base/text.h"
#include "common/settings/config.h"

/* ---- run ---- */

static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("._:@-", c));
}

/* Append with unsafe characters as '_': names of runs and hosts become part of file names. */
static void add_plain(struct pfw_text *text, const char *string)
{
	for (; *string != '\0'; string++)
		pfw_text_add_bytes(text, is_plain(*string) ? string : "_", 1);
}

/* The value of a variable; NULL if it is unset or empty. */
static const char *value_of(char *const *environ, const char *name)
{
	const char *value = pfw_config_lookup(environ, name);

	return value && *value != '\0' ? value : NULL;
}

/* Append `before` and the value of a variable, if it has one; return whether. */
static bool add_value(struct pfw_text *run, char *const *environ, const char *before,
		      const char *name)
{
	const char *value = value_of(environ, name);

	if (!value)
		return false;
	pfw_text_add(run, before);
	add_plain(run, value);
	return true;
}

/* Append the number of restarts: the ranks of a restarted job are another run. */
static void add_restarts(struct pfw_text *run, char *const *environ, const char *before,
			 const char *name)
{
	if (pfw_config_number(environ, name) > 0)
		add_value(run, environ, before, name);
}

static bool add_slurm(struct pfw_text *run, char *const *environ)
{
	if (!add_value(run, environ, "slurm-", "SLURM_JOB_ID") &&
	    !add_value(run, environ, "slurm-", "SLURM_JOBID"))
		return false;
	if (!add_value(run, environ, ".", "SLURM_STEP_ID"))
		add_value(run, environ, ".", "SLURM_STEPID");
	add_restarts(run, environ, "-r", "SLURM_RESTART_COUNT");
	add_restarts(run, environ, "-e", "TORCHELASTIC_RESTART_COUNT");
	return true;
}

/*
 * torchrun's id is "none" by default.  Then on one host the fallback (of the agent, the root
 * process) identifies the run.  On several hosts the fallback would differ by host: their
 * rendezvous address identifies the run.
 */
static bool add_torchelastic(struct pfw_text *run, char *const *environ)
{
	const char *id = value_of(environ, "TORCHELASTIC_RUN_ID");
	bool named = id && strcmp(id, "none") != 0;
	int32_t here = pfw_config_number(environ, "LOCAL_WORLD_SIZE");

	if (!id || (!named && (here < 0 || here >= pfw_config_number(environ, "WORLD_SIZE"))))
		return false;
	add_value(run, environ, "torch-", "TORCHELASTIC_RUN_ID");
	if (!named) {
		add_value(run, environ, "-", "MASTER_ADDR");
		add_value(run, environ, ":", "MASTER_PORT");
	}
	add_restarts(run, environ, "-r", "TORCHELASTIC_RESTART_COUNT");
	return true;
}

static bool add_scheduler(struct pfw_text *run, char *const *environ)
{
	if (add_value(run, environ, "pals-", "PALS_APID") ||
	    add_value(run, environ, "flux-", "FLUX_JOB_ID"))
		return true;
	if (add_value(run, environ, "lsf-", "LSB_JOBID")) {
		add_restarts(run, environ, ".", "LSB_JOBINDEX"); /* 0: the job is no array */
		return true;
	}
	return add_value(run, environ, "pmix-", "PMIX_NAMESPACE");
}

void pfw_run_find(char *run, size_t size, const struct pfw_config *config, char *const *environ,
		  const char *fallback)
{
	struct pfw_text text;

	pfw_text_init(&text, run, size);
	if (config->run)
		add_plain(&text, config->run);
	else if (!add_slurm(&text, environ) && !add_torchelastic(&text, environ) &&
		 !add_scheduler(&text, environ))
		add_plain(&text, fallback);
}

/* ---- file names ---- */

/* Append the expansion of a one-letter word; false if there is no such word. */
static bool add_word(struct pfw_text *out, const struct pfw_name *name, char letter)
{
	switch (letter) {
	case '%':
		pfw_text_add(out, "%");
		return true;
	case 'p':
		pfw_text_add_u64(out, (uint64_t)name->pid, 1);
		return true;
	case 'h':
		add_plain(out, name->host);
		return true;
	case 'j':
		add_plain(out, name->job ? name->job : "nojob");
		return true;
	case 'r':
		if (name->rank->launcher)
			pfw_text_add(out, "launcher");
		else
			pfw_text_add_u64(out, name->rank->rank < 0 ? 0 : (uint64_t)name->rank->rank,
					 1);
		return true;
	}
	return false;
}

/* Append the value of VAR in "%q{VAR}"; return the length of the word, 0 for a bad one. */
static size_t add_variable(struct pfw_text *out, const struct pfw_name *name, const char *word)
{
	const char *start = word + strlen("%q{");
	const char *close_brace = strchr(word, '}');
	size_t bytes;

	if (word[2] != '{' || !close_brace || close_brace == start)
		return 0;
	bytes = (size_t)(close_brace - start);
	for (char *const *entry = name->environ; *entry; entry++) {
		if (strncmp(*entry, start, bytes) == 0 && (*entry)[bytes] == '=') {
			pfw_text_add(out, *entry + bytes + 1);
			break;
		}
	}
	return (size_t)(close_brace + 1 - word);
}

/* Append the base with words expanded; for a bad word: replace out by it, return -EINVAL. */
static int expand(struct pfw_text *out, const struct pfw_name *name)
{
	for (const char *at = name->base; *at != '\0';) {
		size_t bytes = strcspn(at, "%");

		pfw_text_add_bytes(out, at, bytes);
		at += bytes;
		if (*at == '\0')
			break;
		bytes = at[1] == 'q'		     ? add_variable(out, name, at)
			: add_word(out, name, at[1]) ? 2
						     : 0;
		if (bytes == 0) {
			pfw_text_init(out, out->start, (size_t)(out->end - out->start) + 1);
			pfw_text_add_bytes(out, at, at[1] == 'q' ? strlen(at) : strnlen(at, 2));
			return -EINVAL;
		}
		at += bytes;
	}
	return out->at == out->start ? -EINVAL : 0;
}

/* Prepend the working directory to a relative path, and drop a leading "./". */
static void make_absolute(struct pfw_text *out, const char *cwd)
{
	const char *path = out->start;
	size_t cwd_bytes = strlen(cwd);
	size_t bytes;

	if (*path == '/')
		return;
	while (path[0] == '.' && path[1] == '/') {
		path += 2;
		path += strspn(path, "/");
	}
	cwd_bytes -= cwd_bytes > 0 && cwd[cwd_bytes - 1] == '/';
	bytes = (size_t)(out->at - path);
	if (cwd_bytes + 1 + bytes > (size_t)(out->end - out->start)) {
		out->cut = true;
		return;
	}
	memmove(out->start + cwd_bytes + 1, path, bytes + 1);
	memcpy(out->start, cwd, cwd_bytes);
	out->start[cwd_bytes] = '/';
	out->at = out->start + cwd_bytes + 1 + bytes;
}

/* Length of a trace's suffix at the end of a path; 0 = none. */
static size_t suffix_bytes(const char *path, size_t bytes)
{
	static const char *const suffixes[] = { ".pfw.gz", ".pfw" };

	for (size_t i = 0; i < PFW_ARRAY_LEN(suffixes); i++) {
		size_t n = strlen(suffixes[i]);

		if (bytes >= n && memcmp(path + bytes - n, suffixes[i], n) == 0)
			return n;
	}
	return 0;
}

/* Append "trace" to a base that names a directory ("out/", ".", ".."). */
static void complete_directory(struct pfw_text *out)
{
	const char *last = pfw_text_base(out->start);

	if (strcmp(last, ".") == 0 || strcmp(last, "..") == 0)
		pfw_text_add(out, "/");
	if (*pfw_text_base(out->start) == '\0')
		pfw_text_add(out, "trace");
}

static void add_who(struct pfw_text *out, const struct pfw_name *name)
{
	const struct pfw_rank *rank = name->rank;

	if (rank->launcher) {
		pfw_text_add(out, "-launcher-");
		add_plain(out, name->host);
	} else if (rank->rank >= 0 && rank->world_size != 1) {
		pfw_text_add(out, "-rank");
		pfw_text_add_u64(out, (uint64_t)rank->rank, 4);
	}
	if (rank->launcher || name->child) {
		pfw_text_add(out, "-pid");
		pfw_text_add_u64(out, (uint64_t)name->pid, 1);
	}
}

static int check_length(const struct pfw_text *out)
{
	return out->cut || strlen(pfw_text_base(out->start)) >= PFW_NAME_MAX ? -ENAMETOOLONG : 0;
}

int pfw_name_build(char *out, const struct pfw_name *name, bool *compressed)
{
	struct pfw_text text;
	size_t suffix;
	int error;

	pfw_text_init(&text, out, PFW_PATH_MAX);
	error = name->base ? expand(&text, name) : -EINVAL;
	if (error)
		return error;
	make_absolute(&text, name->cwd);
	suffix = suffix_bytes(out, (size_t)(text.at - out));
	*compressed = suffix > 0 ? suffix == strlen(".pfw.gz") : name->compression;
	text.at -= suffix;
	*text.at = '\0';
	complete_directory(&text);
	add_who(&text, name);
	pfw_text_add(&text, *compressed ? ".pfw.gz" : ".pfw");
	return check_length(&text);
}

static int insert_number(char *out, const char *path, const char *before, unsigned n)
{
	size_t bytes = strlen(path);
	size_t stem = bytes - suffix_bytes(path, bytes);
	struct pfw_text text;

	pfw_text_init(&text, out, PFW_PATH_MAX);
	pfw_text_add_bytes(&text, path, stem);
	pfw_text_add(&text, before);
	pfw_text_add_u64(&text, n, 1);
	pfw_text_add(&text, path + stem);
	return check_length(&text);
}

int pfw_name_numbered(char *out, const char *path, unsigned n)
{
	return insert_number(out, path, ".", n);
}

int pfw_name_dump(char *out, const char *path, unsigned n)
{
	return insert_number(out, path, "-dump", n);
}
