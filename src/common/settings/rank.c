/* common/settings/rank.c - ranks from the variables of launchers; see rank.h. */
#include "common/settings/rank.h"

#include <string.h>

#include "common/base/globs.h"
#include "common/base/os.h"
#include "common/base/text.h"
#include "common/settings/config.h"

/* ---- rank ---- */

/* Variables that one kind of launcher sets. */
struct family {
	const char *rank;
	const char *size; /* NULL: not set */
	const char *local_rank[2];
	int32_t least_size; /* 0: a rank without a size counts, too */
};

/*
 * In order of preference.  torchrun is first: its workers inherit the variables of the launcher of
 * the agent.  SLURM_PROCID is last: below an agent under srun it is the number of the node.  It
 * needs SLURM_NTASKS of 2 or more, because a program started by hand in an allocation has it, too.
 */
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

/*
 * The rank is known, its world size is not.  Take it from a family that has the same rank, else
 * from any other family; a size of 1 of the latter means that it does not know this world.
 */
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

/* The first variable that is set wins. */
static void find_rank(struct pfw_rank *rank, const struct pfw_config *config, char *const *environ)
{
	bool found = take_rank(rank, config->rank, "PFW_RANK");

	if (!found && config->rank_var)
		found = take_rank(rank, pfw_config_number(environ, config->rank_var),
				  config->rank_var);
	for (size_t i = 0; !found && i < PFW_ARRAY_LEN(families); i++)
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

/*
 * Whether Python runs a launcher: the module after -m, or the script.  Short options of Python may
 * be joined ("-um"); words after -c, -m or the script belong to the program.
 */
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
