/* common/settings/naming.c - names of runs and of files; see naming.h. */
#include "common/settings/naming.h"

#include <errno.h>
#include <string.h>

#include "common/base/globs.h"
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
	const char *launch = value_of(environ, "PMIX_NAMESPACE");

	if (!add_value(run, environ, "slurm-", "SLURM_JOB_ID") &&
	    !add_value(run, environ, "slurm-", "SLURM_JOBID"))
		return false;
	/* Ranks of mpirun have no step on mpirun's own node, and the daemons' step on other nodes.
	 * The namespace of a step is slurm.pmix.JOB.STEP. */
	if (launch && strncmp(launch, "slurm.", 6) != 0)
		add_value(run, environ, ".", "PMIX_NAMESPACE");
	else if (!add_value(run, environ, ".", "SLURM_STEP_ID"))
		add_value(run, environ, ".", "SLURM_STEPID");
	add_restarts(run, environ, "-r", "SLURM_RESTART_COUNT");
	add_restarts(run, environ, "-e", "TORCHELASTIC_RESTART_COUNT");
	return true;
}

/* torchrun's id is "none" by default.  Then on one host the fallback (of the agent, the root
 * process) identifies the run.  On several hosts the fallback would differ by host: their
 * rendezvous address identifies the run. */
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

void pfw_name_add_path(struct pfw_text *base, const char *path)
{
	for (; *path; path++)
		pfw_text_add_bytes(base, *path == '%' ? "%%" : path, *path == '%' ? 2 : 1);
}

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
static size_t suffix_bytes(const char *path)
{
	return pfw_text_ends(path, ".pfw.gz") ? 7 : pfw_text_ends(path, ".pfw") ? 4 : 0;
}

bool pfw_name_is_directory(const char *base)
{
	const char *last = pfw_text_base(base);

	return !*last || strcmp(last, ".") == 0 || strcmp(last, "..") == 0;
}

void pfw_name_complete(struct pfw_text *out)
{
	if (pfw_name_is_directory(out->start))
		pfw_text_add(out, *pfw_text_base(out->start) ? "/trace" : "trace");
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
	suffix = suffix_bytes(out);
	*compressed = suffix > 0 ? suffix == strlen(".pfw.gz") : name->compression;
	text.at -= suffix;
	*text.at = '\0';
	pfw_name_complete(&text);
	add_who(&text, name);
	pfw_text_add(&text, *compressed ? ".pfw.gz" : ".pfw");
	return check_length(&text);
}

static int insert_number(char *out, const char *path, const char *before, unsigned n)
{
	size_t stem = strlen(path) - suffix_bytes(path);
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

/* ---- rank ---- */

/* Variables that one kind of launcher sets. */
struct family {
	const char *rank;
	const char *size; /* NULL: not set */
	const char *local_rank[2];
	int32_t least_size; /* 0: a rank without a size counts, too */
};

/* In order of preference.  torchrun is first: its workers inherit the variables of the launcher of
 * the agent.  SLURM_PROCID is last: below an agent under srun it is the number of the node.  It
 * needs SLURM_NTASKS of 2 or more, as a program started by hand in an allocation has it, too. */
static const struct family families[] = {
	{ "RANK", "WORLD_SIZE", { "LOCAL_RANK" }, 1 },
	{ "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", { "OMPI_COMM_WORLD_LOCAL_RANK" }, 0 },
	{ "PMIX_RANK", NULL, { NULL }, 0 },
	{ "PMI_RANK", "PMI_SIZE", { "MPI_LOCALRANKID", "PMI_LOCAL_RANK" }, 0 },
	{ "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", { "MV2_COMM_WORLD_LOCAL_RANK" }, 0 },
	{ "PALS_RANKID", NULL, { "PALS_LOCAL_RANKID" }, 0 },
	{ "FLUX_TASK_RANK", "FLUX_JOB_SIZE", { "FLUX_TASK_LOCAL_ID" }, 0 },
	{ "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", { "JSM_NAMESPACE_LOCAL_RANK" }, 0 },
	{ "SLURM_PROCID", "SLURM_NTASKS", { "SLURM_LOCALID" }, 2 },
};

static int32_t local_rank_of(char *const *environ, const struct family *family)
{
	int32_t local = pfw_config_number(environ, family->local_rank[0]);

	return local >= 0 ? local : pfw_config_number(environ, family->local_rank[1]);
}

/* The world size by this family, if it is plausible for the rank; or 0. */
static int32_t size_of(char *const *environ, const struct family *family, int32_t rank)
{
	int32_t size = pfw_config_number(environ, family->size);

	return size > rank && size >= family->least_size ? size : 0;
}

/* The rank is known, its world size is not.  Take it from a family that has the same rank, else
 * from any other family; a size of 1 of the latter means that it does not know this world. */
static void borrow_world(struct pfw_rank *rank, char *const *environ)
{
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < PFW_ARRAY_LEN(families); i++) {
			const struct family *family = &families[i];
			bool agrees = pfw_config_number(environ, family->rank) == rank->rank;
			int32_t size = size_of(environ, family, rank->rank);

			if (size == 0 || (pass == 0 ? !agrees : size == 1))
				continue;
			rank->world_size = size;
			if (rank->local_rank < 0)
				rank->local_rank = local_rank_of(environ, family);
			return;
		}
	}
}

static bool take_rank(struct pfw_rank *rank, int64_t number, const char *source)
{
	struct pfw_text text;

	if (number < 0)
		return false;
	pfw_text_init(&text, rank->source, sizeof(rank->source));
	pfw_text_add(&text, source);
	rank->rank = (int32_t)number;
	rank->world_size = 0;
	return true;
}

static bool take_family(struct pfw_rank *rank, char *const *environ, const struct family *family)
{
	int32_t number = pfw_config_number(environ, family->rank);
	int32_t size = size_of(environ, family, number);

	/* A rank outside its world size is invalid. */
	if (number < 0 || (size == 0 && (family->least_size > 0 ||
					 pfw_config_number(environ, family->size) >= 0)))
		return false;
	take_rank(rank, number, family->rank);
	rank->world_size = size;
	rank->local_rank = local_rank_of(environ, family);
	return true;
}

/* A task of Slurm, but in no step.  sbatch gives its script SLURM_PROCID=0, and the SLURM_NTASKS of the
 * steps that the script is to start.  Who sets these two without Slurm sets no SLURM_TASK_PID. */
static bool is_batch_script(char *const *environ)
{
	return value_of(environ, "SLURM_TASK_PID") && !value_of(environ, "SLURM_STEP_ID") &&
	       !value_of(environ, "SLURM_STEPID");
}

/* The first variable that is set wins. */
static void find_rank(struct pfw_rank *rank, const struct pfw_config *config, char *const *environ)
{
	size_t count = PFW_ARRAY_LEN(families) - is_batch_script(environ); /* Slurm's is last */
	bool found = take_rank(rank, config->rank, "PFW_RANK");

	if (!found && config->rank_var)
		found = take_rank(rank, pfw_config_number(environ, config->rank_var),
				  config->rank_var);
	for (size_t i = 0; !found && i < count; i++)
		found = take_family(rank, environ, &families[i]);
	if (found && rank->world_size == 0)
		borrow_world(rank, environ);
}

/* ---- launchers ---- */

static bool is_launcher_program(const char *path)
{
	/* Distributions append the implementation: mpirun.openmpi, mpiexec.hydra.  The last four
	 * are daemons of mpirun that start the ranks of a node. */
	return pfw_glob_list("torchrun accelerate deepspeed mpirun mpirun.* mpiexec mpiexec.* "
			     "orterun prterun srun flux jsrun aprun "
			     "hydra_pmi_proxy hydra_bstrap_proxy orted prted",
			     ' ', pfw_text_base(path));
}

static bool is_launcher_module(const char *module)
{
	return pfw_glob_list("torch.distributed.run torch.distributed.launch "
			     "accelerate.commands.launch accelerate.commands.accelerate_cli "
			     "deepspeed.launcher.runner deepspeed.launcher.launch",
			     ' ', module);
}

/* Whether Python runs a launcher: the module after -m, or the script.  Short options of Python may
 * be joined ("-um"); words after -c, -m or the script belong to the program. */
static bool python_launches(int argc, char *const *argv)
{
	for (int i = 1; i < argc && argv[i]; i++) {
		const char *letter = argv[i];

		if (*letter != '-')
			return is_launcher_program(letter);
		if (letter[1] == '-') {
			i += strcmp(letter, "--check-hash-based-pycs") == 0;
			continue;
		}
		while (*++letter != '\0' && !strchr("cmWX", *letter))
			;
		if (*letter == 'c' || strcmp(argv[i], "-") == 0)
			return false;
		if (*letter == '\0')
			continue;
		if (*letter == 'm' && letter[1] != '\0')
			return is_launcher_module(letter + 1);
		if (letter[1] != '\0') /* -Wignore, -Xdev */
			continue;
		i++;
		if (*letter == 'm')
			return i < argc && argv[i] && is_launcher_module(argv[i]);
	}
	return false;
}

static bool is_launcher(int argc, char *const *argv)
{
	const char *name;

	if (argc < 1 || !argv[0])
		return false;
	name = pfw_text_base(argv[0]);
	if (strncmp(name, "python", 6) == 0 || strncmp(name, "pypy", 4) == 0)
		return python_launches(argc, argv);
	return is_launcher_program(name);
}

void pfw_rank_find(struct pfw_rank *rank, const struct pfw_config *config, char *const *environ,
		   int argc, char *const *argv)
{
	*rank = (struct pfw_rank){
		.rank = -1, .world_size = 1, .local_rank = -1, .recorded = true, .source = "none"
	};
	rank->launcher = is_launcher(argc, argv);
	if (!rank->launcher)
		find_rank(rank, config, environ);
	if (!config->ranks)
		return;
	/* A process without a world is its own rank 0; a launcher is no rank.  An invalid list
	 * excludes nobody: config.c has reported it. */
	rank->recorded = !rank->launcher &&
			 pfw_config_ranks_hold(config->ranks,
					       rank->rank < 0 ? 0 : (uint64_t)rank->rank) != 0;
}
