/* Ranks as each launcher tells them, launchers themselves, names of runs and of files. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/settings/config.h"
#include "common/settings/naming.h"
#include "common/settings/process.h"

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define ENTRIES 12

static struct pfw_config config_of(char *const *environ)
{
	struct pfw_config config;

	pfw_config_read_enabled(&config, environ, NULL, NULL);
	return config;
}

/* The rank of `python -u train.py`, or of `argv` where it is given. */
static struct pfw_rank find(const char *const *environ, const char *const *argv)
{
	static const char *const worker[] = { "/usr/bin/python", "-u", "train.py", NULL };
	struct pfw_config config = config_of((char *const *)environ);
	struct pfw_rank rank;
	int argc = 0;

	argv = argv ? argv : worker;
	while (argv[argc])
		argc++;
	memset(&rank, 0xa5, sizeof(rank));
	pfw_rank_find(&rank, &config, (char *const *)environ, argc, (char *const *)argv);
	return rank;
}

struct rank_case {
	const char *environ[ENTRIES];
	int rank, size, local;
	const char *source;
};

static void check_ranks(const struct rank_case *table, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct rank_case *row = &table[i];
		struct pfw_rank rank = find(row->environ, NULL);

		if (rank.rank != row->rank || rank.world_size != row->size ||
		    rank.local_rank != row->local || strcmp(rank.source, row->source) != 0)
			fail_msg("%s %s ...: rank %d of %d, local %d, by %s", row->environ[0],
				 row->environ[1], rank.rank, rank.world_size, rank.local_rank,
				 rank.source);
		assert_true(rank.recorded);
		assert_false(rank.launcher);
	}
}

static void test_each_launcher_family(void **state)
{
	static const struct rank_case table[] = {
		{ { "HOME=/" }, -1, 1, -1, "none" },
		{ { "RANK=3", "WORLD_SIZE=8", "LOCAL_RANK=1" }, 3, 8, 1, "RANK" },
		{ { "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=8",
		    "OMPI_COMM_WORLD_LOCAL_RANK=1" },
		  3,
		  8,
		  1,
		  "OMPI_COMM_WORLD_RANK" },
		{ { "PMIX_RANK=3" }, 3, 0, -1, "PMIX_RANK" },
		{ { "PMI_RANK=3", "PMI_SIZE=8", "MPI_LOCALRANKID=1" }, 3, 8, 1, "PMI_RANK" },
		{ { "PMI_RANK=3", "PMI_SIZE=8", "PMI_LOCAL_RANK=2" }, 3, 8, 2, "PMI_RANK" },
		{ { "MV2_COMM_WORLD_RANK=3", "MV2_COMM_WORLD_SIZE=8",
		    "MV2_COMM_WORLD_LOCAL_RANK=1" },
		  3,
		  8,
		  1,
		  "MV2_COMM_WORLD_RANK" },
		{ { "PALS_RANKID=3", "PALS_LOCAL_RANKID=1" }, 3, 0, 1, "PALS_RANKID" },
		{ { "FLUX_TASK_RANK=3", "FLUX_JOB_SIZE=8", "FLUX_TASK_LOCAL_ID=1" },
		  3,
		  8,
		  1,
		  "FLUX_TASK_RANK" },
		{ { "JSM_NAMESPACE_RANK=3", "JSM_NAMESPACE_SIZE=8", "JSM_NAMESPACE_LOCAL_RANK=1" },
		  3,
		  8,
		  1,
		  "JSM_NAMESPACE_RANK" },
		{ { "SLURM_PROCID=3", "SLURM_NTASKS=8", "SLURM_LOCALID=1" },
		  3,
		  8,
		  1,
		  "SLURM_PROCID" },
		{ { "SLURM_PROCID=3", "SLURM_NTASKS=8", "SLURM_TASK_PID=9", "SLURM_STEP_ID=0" },
		  3,
		  8,
		  -1,
		  "SLURM_PROCID" },
	};

	(void)state;
	check_ranks(table, LENGTH(table));
}

static void test_first_family_wins(void **state)
{
	static const char *const sources[] = {
		"RANK",		  "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
		"PMI_RANK",	  "MV2_COMM_WORLD_RANK",  "PALS_RANKID",
		"FLUX_TASK_RANK", "JSM_NAMESPACE_RANK",	  "SLURM_PROCID"
	};
	char text[LENGTH(sources)][40];
	const char *environ[LENGTH(sources) + 3] = { "WORLD_SIZE=64", "SLURM_NTASKS=64" };

	(void)state;
	/* Added from the last to the first: each new one must win over all those before. */
	for (size_t i = LENGTH(sources); i-- > 0;) {
		size_t at = LENGTH(sources) - 1 - i;
		struct pfw_rank rank;

		snprintf(text[i], sizeof(text[i]), "%s=%zu", sources[i], i + 1);
		environ[2 + at] = text[i];
		rank = find(environ, NULL);
		assert_string_equal(rank.source, sources[i]);
		assert_int_equal(rank.rank, i + 1);
		assert_int_equal(rank.world_size, 64);
	}
}

static void test_our_own_variables_come_first(void **state)
{
	static const struct rank_case table[] = {
		{ { "PFW_RANK=5", "RANK=3", "WORLD_SIZE=8" }, 5, 8, -1, "PFW_RANK" },
		{ { "PFW_RANK=5", "PFW_RANK_VAR=ME", "ME=6" }, 5, 0, -1, "PFW_RANK" },
		{ { "PFW_RANK_VAR=ME", "ME=6", "RANK=3", "WORLD_SIZE=8" }, 6, 8, -1, "ME" },
		{ { "PFW_RANK_VAR=ME", "RANK=3", "WORLD_SIZE=8" }, 3, 8, -1, "RANK" },
		{ { "PFW_RANK_VAR=ME", "ME=six", "RANK=3", "WORLD_SIZE=8" }, 3, 8, -1, "RANK" },
		{ { "PFW_RANK=0" }, 0, 0, -1, "PFW_RANK" },
		{ { "PFW_RANK=x", "RANK=3", "WORLD_SIZE=8" }, 3, 8, -1, "RANK" },
		{ { "PFW_RANK_VAR=A_NAME_OF_MORE_THAN_THIRTY_ONE_BYTES",
		    "A_NAME_OF_MORE_THAN_THIRTY_ONE_BYTES=1" },
		  1,
		  0,
		  -1,
		  "A_NAME_OF_MORE_THAN_THIRTY_ONE_" },
	};

	(void)state;
	check_ranks(table, LENGTH(table));
}

static void test_what_is_no_rank(void **state)
{
	static const struct rank_case table[] = {
		/* RANK alone is anybody's variable. */
		{ { "RANK=3" }, -1, 1, -1, "none" },
		{ { "RANK=3", "WORLD_SIZE=" }, -1, 1, -1, "none" },
		{ { "WORLD_SIZE=8" }, -1, 1, -1, "none" },
		/* A shell of an allocation, or a step of one task. */
		{ { "SLURM_PROCID=0", "SLURM_NTASKS=1" }, -1, 1, -1, "none" },
		{ { "SLURM_PROCID=0" }, -1, 1, -1, "none" },
		/* A batch script, whose variables tell of the steps to come. */
		{ { "SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_TASK_PID=9" }, -1, 1, -1, "none" },
		/* A rank outside its world. */
		{ { "RANK=8", "WORLD_SIZE=8" }, -1, 1, -1, "none" },
		{ { "PMI_RANK=9", "PMI_SIZE=8" }, -1, 1, -1, "none" },
		/* Not numbers. */
		{ { "RANK=-1", "WORLD_SIZE=8" }, -1, 1, -1, "none" },
		{ { "RANK=3x", "WORLD_SIZE=8" }, -1, 1, -1, "none" },
		{ { "RANK= 3", "WORLD_SIZE=8" }, -1, 1, -1, "none" },
		{ { "RANK=3", "WORLD_SIZE=many" }, -1, 1, -1, "none" },
		{ { "RANK=2147483648", "WORLD_SIZE=2147483647" }, -1, 1, -1, "none" },
		{ { "RANK=99999999999999999999", "WORLD_SIZE=8" }, -1, 1, -1, "none" },
	};

	(void)state;
	check_ranks(table, LENGTH(table));
}

static void test_bad_numbers_are_as_if_unset(void **state)
{
	static const struct rank_case table[] = {
		{ { "RANK=x", "WORLD_SIZE=8", "PMI_RANK=2", "PMI_SIZE=4" }, 2, 4, -1, "PMI_RANK" },
		{ { "RANK=3", "WORLD_SIZE=x", "SLURM_PROCID=2", "SLURM_NTASKS=4" },
		  2,
		  4,
		  -1,
		  "SLURM_PROCID" },
		{ { "RANK=3", "WORLD_SIZE=8", "LOCAL_RANK=x" }, 3, 8, -1, "RANK" },
		{ { "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=?" },
		  3,
		  0,
		  -1,
		  "OMPI_COMM_WORLD_RANK" },
	};

	(void)state;
	check_ranks(table, LENGTH(table));
}

static void test_a_family_without_size_borrows_one(void **state)
{
	static const struct rank_case table[] = {
		{ { "PMIX_RANK=3", "SLURM_PROCID=3", "SLURM_NTASKS=8", "SLURM_LOCALID=1" },
		  3,
		  8,
		  1,
		  "PMIX_RANK" },
		{ { "PALS_RANKID=3", "PALS_LOCAL_RANKID=2", "PMI_SIZE=8" }, 3, 8, 2, "PALS_RANKID" },
		/* The family that agrees on the rank knows better than one that comes earlier. */
		{ { "PMIX_RANK=3", "PMI_SIZE=6", "FLUX_TASK_RANK=3", "FLUX_JOB_SIZE=8" },
		  3,
		  8,
		  -1,
		  "PMIX_RANK" },
		{ { "PFW_RANK=3", "RANK=3", "WORLD_SIZE=8", "LOCAL_RANK=0" }, 3, 8, 0, "PFW_RANK" },
		/* Worlds that this rank is not in. */
		{ { "PFW_RANK=3", "WORLD_SIZE=2", "SLURM_NTASKS=3" }, 3, 0, -1, "PFW_RANK" },
		{ { "PFW_RANK=0", "SLURM_NTASKS=1", "PMI_SIZE=1" }, 0, 0, -1, "PFW_RANK" },
		{ { "PFW_RANK=0", "RANK=0", "WORLD_SIZE=1" }, 0, 1, -1, "PFW_RANK" },
	};

	(void)state;
	check_ranks(table, LENGTH(table));
}

static const char *const torchrun_under_srun[] = { "SLURM_PROCID=1",  "SLURM_NTASKS=2",
						   "SLURM_LOCALID=0", "SLURM_JOB_ID=77",
						   "SLURM_STEP_ID=0", NULL };

static void test_torchrun_under_srun(void **state)
{
	static const char *const agent[] = { "/usr/bin/python3", "/opt/bin/torchrun",
					     "--nproc-per-node=4", "train.py", NULL };
	static const char *const worker[] = { "SLURM_PROCID=1",
					      "SLURM_NTASKS=2",
					      "SLURM_LOCALID=0",
					      "RANK=6",
					      "WORLD_SIZE=8",
					      "LOCAL_RANK=2",
					      NULL };
	struct pfw_rank rank = find(torchrun_under_srun, agent);

	(void)state;
	assert_true(rank.launcher && rank.recorded);
	assert_int_equal(rank.rank, -1);
	assert_int_equal(rank.world_size, 1);
	assert_int_equal(rank.local_rank, -1);
	assert_string_equal(rank.source, "none");

	rank = find(worker, NULL);
	assert_false(rank.launcher);
	assert_int_equal(rank.rank, 6);
	assert_int_equal(rank.world_size, 8);
	assert_int_equal(rank.local_rank, 2);
	assert_string_equal(rank.source, "RANK");
}

static void test_launchers_by_command_line(void **state)
{
	static const struct {
		const char *argv[8];
		bool launcher;
	} table[] = {
		{ { "torchrun", "x.py" }, true },
		{ { "/usr/bin/torchrun" }, true },
		{ { "accelerate", "launch", "x.py" }, true },
		{ { "deepspeed", "x.py" }, true },
		{ { "mpirun", "-n", "2", "a" }, true },
		{ { "/opt/mpi/bin/mpiexec" }, true },
		{ { "mpirun.openmpi" }, true },
		{ { "mpiexec.hydra" }, true },
		{ { "hydra_pmi_proxy" }, true },
		{ { "orterun" }, true },
		{ { "prterun" }, true },
		{ { "srun", "a" }, true },
		{ { "flux", "run", "a" }, true },
		{ { "jsrun" }, true },
		{ { "aprun" }, true },
		{ { "python", "/v/bin/torchrun", "x.py" }, true },
		{ { "/usr/bin/python3.11", "-u", "/v/bin/accelerate", "launch" }, true },
		{ { "pypy3", "/v/bin/deepspeed" }, true },
		{ { "python", "-m", "torch.distributed.run", "x.py" }, true },
		{ { "python", "-m", "torch.distributed.launch", "x.py" }, true },
		{ { "python", "-m", "accelerate.commands.launch" }, true },
		{ { "python", "-m", "deepspeed.launcher.runner" }, true },
		{ { "python", "-u", "-m", "deepspeed.launcher.launch" }, true },
		{ { "python", "-um", "torch.distributed.run" }, true },
		{ { "python", "-mtorch.distributed.run" }, true },
		{ { "python", "-W", "ignore", "-X", "dev", "-m", "torch.distributed.run" }, true },
		{ { "python", "-Wignore", "-Xdev", "-OO", "/v/bin/torchrun" }, true },
		{ { "python", "--check-hash-based-pycs", "never", "/v/bin/torchrun" }, true },
		{ { "python", "-W", "/v/bin/torchrun", "x.py" }, false },
		{ { "python", "-u", "train.py" }, false },
		{ { "python", "train.py", "torchrun" }, false },
		{ { "python", "-c", "pass", "/v/bin/torchrun" }, false },
		{ { "python", "-uc", "torchrun" }, false },
		{ { "python", "-", "torchrun" }, false },
		{ { "python", "-m", "pkg", "torchrun" }, false },
		{ { "python", "-m" }, false },
		{ { "python", "-W" }, false },
		{ { "python", "-mpkg", "torchrun" }, false },
		{ { "python", "torchrun.py" }, false },
		{ { "python", "flux.py" }, false },
		{ { "python" }, false },
		{ { "./a.out", "torchrun" }, false },
		{ { "my_mpirun" }, false },
		{ { "srun2" }, false },
		{ { "/torchrun/a.out" }, false },
		{ { "" }, false },
		{ { NULL }, false },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(table); i++) {
		struct pfw_rank rank = find(torchrun_under_srun, table[i].argv);

		if (rank.launcher != table[i].launcher)
			fail_msg("%s %s ...: launcher is %d", table[i].argv[0], table[i].argv[1],
				 rank.launcher);
		assert_int_equal(rank.rank, table[i].launcher ? -1 : 1);
	}
}

static void test_ranks_chooses(void **state)
{
	static const struct {
		const char *ranks, *rank;
		bool recorded;
	} table[] = {
		{ "PFW_RANKS=0,8-15", "RANK=0", true },	  { "PFW_RANKS=0,8-15", "RANK=1", false },
		{ "PFW_RANKS=0,8-15", "RANK=8", true },	  { "PFW_RANKS=0,8-15", "RANK=15", true },
		{ "PFW_RANKS=0,8-15", "RANK=16", false }, { "PFW_RANKS=3", "RANK=3", true },
		{ "PFW_RANKS=0", "NONE=", true },	  { "PFW_RANKS=1", "NONE=", false },
		{ "PFW_RANKS=1-", "RANK=0", true },
	};
	static const char *const launcher[] = { "torchrun", NULL };

	(void)state;
	for (size_t i = 0; i < LENGTH(table); i++) {
		const char *environ[] = { table[i].ranks, table[i].rank, "WORLD_SIZE=32", NULL };

		assert_int_equal(find(environ, NULL).recorded, table[i].recorded);
		assert_int_equal(find(environ, launcher).recorded, i == LENGTH(table) - 1);
	}
}

/* A list that config.c let through by hand: nobody is left out because of it. */
static void test_bad_list_leaves_nobody_out(void **state)
{
	static const char *const environ[] = { "RANK=1", "WORLD_SIZE=2", NULL };
	struct pfw_config config = config_of((char *const *)environ);
	struct pfw_rank rank;

	(void)state;
	config.ranks = "0,";
	pfw_rank_find(&rank, &config, (char *const *)environ, 0, NULL);
	assert_true(rank.recorded);
}

static void test_runs(void **state)
{
	static const struct {
		const char *environ[ENTRIES];
		const char *run;
	} table[] = {
		{ { "HOME=/" }, "host_1-42-4711" },
		{ { "PFW_RUN=my run/1", "SLURM_JOB_ID=7" }, "my_run_1" },
		{ { "SLURM_JOB_ID=77" }, "slurm-77" },
		{ { "SLURM_JOBID=77", "SLURM_STEPID=2" }, "slurm-77.2" },
		{ { "SLURM_JOB_ID=77", "SLURM_STEP_ID=0" }, "slurm-77.0" },
		{ { "SLURM_JOB_ID=77", "PMIX_NAMESPACE=123" }, "slurm-77.123" },
		{ { "SLURM_JOB_ID=77", "PMIX_NAMESPACE=123", "SLURM_STEP_ID=0" }, "slurm-77.123" },
		{ { "SLURM_JOB_ID=77", "PMIX_NAMESPACE=slurm.pmix.77.0", "SLURM_STEP_ID=0" },
		  "slurm-77.0" },
		{ { "SLURM_JOB_ID=77", "SLURM_STEP_ID=0", "SLURM_RESTART_COUNT=0" }, "slurm-77.0" },
		{ { "SLURM_JOB_ID=77", "SLURM_STEP_ID=0", "SLURM_RESTART_COUNT=3" },
		  "slurm-77.0-r3" },
		{ { "SLURM_JOB_ID=77", "SLURM_STEP_ID=0", "TORCHELASTIC_RUN_ID=x",
		    "TORCHELASTIC_RESTART_COUNT=1" },
		  "slurm-77.0-e1" },
		{ { "SLURM_JOB_ID=", "TORCHELASTIC_RUN_ID=ab-1" }, "torch-ab-1" },
		{ { "TORCHELASTIC_RUN_ID=a b", "TORCHELASTIC_RESTART_COUNT=2" }, "torch-a_b-r2" },
		{ { "TORCHELASTIC_RUN_ID=none", "LOCAL_WORLD_SIZE=4", "WORLD_SIZE=4",
		    "MASTER_ADDR=h", "MASTER_PORT=29500" },
		  "host_1-42-4711" },
		{ { "TORCHELASTIC_RUN_ID=none", "LOCAL_WORLD_SIZE=4", "WORLD_SIZE=8",
		    "MASTER_ADDR=h", "MASTER_PORT=29500", "TORCHELASTIC_RESTART_COUNT=1" },
		  "torch-none-h:29500-r1" },
		{ { "TORCHELASTIC_RUN_ID=none" }, "host_1-42-4711" },
		{ { "PALS_APID=5d1c" }, "pals-5d1c" },
		{ { "FLUX_JOB_ID=f3xy" }, "flux-f3xy" },
		{ { "LSB_JOBID=12", "LSB_JOBINDEX=0" }, "lsf-12" },
		{ { "LSB_JOBID=12", "LSB_JOBINDEX=4" }, "lsf-12.4" },
		{ { "PMIX_NAMESPACE=prterun-h-12@1" }, "pmix-prterun-h-12@1" },
		{ { "PMIX_NAMESPACE=x", "LSB_JOBID=12" }, "lsf-12" },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(table); i++) {
		char *const *environ = (char *const *)table[i].environ;
		struct pfw_config config = config_of(environ);
		char run[64];

		pfw_run_find(run, sizeof(run), &config, environ, "host 1-42-4711");
		assert_string_equal(run, table[i].run);
	}
}

static void test_run_is_cut_to_its_buffer(void **state)
{
	char *environ[] = { "PFW_RUN=0123456789", NULL };
	struct pfw_config config = config_of(environ);
	char run[8];

	(void)state;
	pfw_run_find(run, sizeof(run), &config, environ, "-");
	assert_string_equal(run, "0123456");
}

static const struct pfw_rank no_world = { .rank = -1, .world_size = 1, .local_rank = -1 };
static const struct pfw_rank rank_3_of_8 = { .rank = 3, .world_size = 8 };
static const struct pfw_rank rank_3_of_some = { .rank = 3, .world_size = 0 };
static const struct pfw_rank rank_0_of_1 = { .rank = 0, .world_size = 1 };
static const struct pfw_rank rank_12345 = { .rank = 12345, .world_size = 20000 };
static const struct pfw_rank launcher = { .rank = -1, .world_size = 1, .launcher = true };

static char *name_environ[] = { "EXP=run7", "ABSOLUTE=/data", "E=", NULL };

static struct pfw_name name_of(const char *base, const struct pfw_rank *rank)
{
	return (struct pfw_name){ .base = base,
				  .cwd = "/home/u",
				  .host = "node1",
				  .rank = rank,
				  .environ = name_environ,
				  .pid = 4711 };
}

struct name_case {
	const char *base;
	const struct pfw_rank *rank;
	bool child, compression;
	const char *path;
};

static void check_names(const struct name_case *table, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct pfw_name name = name_of(table[i].base, table[i].rank);
		size_t bytes = strlen(table[i].path);
		char path[PFW_PATH_MAX];
		bool compressed;

		name.child = table[i].child;
		name.compression = table[i].compression;
		assert_int_equal(pfw_name_build(path, &name, &compressed), 0);
		assert_string_equal(path, table[i].path);
		assert_int_equal(compressed, strcmp(table[i].path + bytes - 3, ".gz") == 0);
	}
}

static void test_names(void **state)
{
	static const struct name_case table[] = {
		{ "t", &no_world, false, false, "/home/u/t.pfw" },
		{ "t", &no_world, false, true, "/home/u/t.pfw.gz" },
		{ "t", &no_world, true, false, "/home/u/t-pid4711.pfw" },
		{ "t", &rank_3_of_8, false, false, "/home/u/t-rank0003.pfw" },
		{ "t", &rank_3_of_8, true, true, "/home/u/t-rank0003-pid4711.pfw.gz" },
		{ "t", &rank_3_of_some, false, false, "/home/u/t-rank0003.pfw" },
		{ "t", &rank_12345, false, false, "/home/u/t-rank12345.pfw" },
		{ "t", &launcher, false, false, "/home/u/t-launcher-node1-pid4711.pfw" },
		{ "t", &launcher, true, true, "/home/u/t-launcher-node1-pid4711.pfw.gz" },
		/* A world of one is no world, for the name. */
		{ "t", &rank_0_of_1, false, false, "/home/u/t.pfw" },
		{ "t", &rank_0_of_1, true, false, "/home/u/t-pid4711.pfw" },
	};

	(void)state;
	check_names(table, LENGTH(table));
}

static void test_suffix_is_not_doubled_and_decides(void **state)
{
	static const struct name_case table[] = {
		{ "t.pfw", &no_world, false, true, "/home/u/t.pfw" },
		{ "t.pfw.gz", &no_world, false, false, "/home/u/t.pfw.gz" },
		{ "t.pfw.gz", &rank_3_of_8, true, false, "/home/u/t-rank0003-pid4711.pfw.gz" },
		{ "t.pfw", &launcher, false, true, "/home/u/t-launcher-node1-pid4711.pfw" },
		{ "t.gz", &no_world, false, false, "/home/u/t.gz.pfw" },
		{ "t.pfw.x", &no_world, false, false, "/home/u/t.pfw.x.pfw" },
		{ "a.pfw/t", &no_world, false, false, "/home/u/a.pfw/t.pfw" },
		{ "tpfw", &no_world, false, false, "/home/u/tpfw.pfw" },
		{ "t.2.pfw", &rank_3_of_8, false, false, "/home/u/t.2-rank0003.pfw" },
	};

	(void)state;
	check_names(table, LENGTH(table));
}

static void test_paths(void **state)
{
	static const struct name_case table[] = {
		{ "./t", &no_world, false, false, "/home/u/t.pfw" },
		{ ".//./t", &no_world, false, false, "/home/u/t.pfw" },
		{ "/abs/t", &no_world, false, false, "/abs/t.pfw" },
		{ "../t", &no_world, false, false, "/home/u/../t.pfw" },
		{ "a/b.c/t", &no_world, false, false, "/home/u/a/b.c/t.pfw" },
		{ ".t", &no_world, false, false, "/home/u/.t.pfw" },
		{ "out/", &no_world, false, false, "/home/u/out/trace.pfw" },
		{ "out/.pfw.gz", &rank_3_of_8, false, false, "/home/u/out/trace-rank0003.pfw.gz" },
		{ ".", &no_world, false, false, "/home/u/./trace.pfw" },
		{ "./", &no_world, false, false, "/home/u/trace.pfw" },
		{ "..", &no_world, false, false, "/home/u/../trace.pfw" },
		{ "/", &no_world, false, false, "/trace.pfw" },
		{ "a b\"c", &no_world, false, false, "/home/u/a b\"c.pfw" },
	};
	struct pfw_name name = name_of("t", &no_world);
	char path[PFW_PATH_MAX];
	bool compressed;

	(void)state;
	check_names(table, LENGTH(table));
	name.cwd = "/";
	assert_int_equal(pfw_name_build(path, &name, &compressed), 0);
	assert_string_equal(path, "/t.pfw");
}

static void test_words(void **state)
{
	static const struct name_case table[] = {
		{ "t-%p", &no_world, false, false, "/home/u/t-4711.pfw" },
		{ "%h/t", &no_world, false, false, "/home/u/node1/t.pfw" },
		{ "r%r", &no_world, false, false, "/home/u/r0.pfw" },
		{ "r%r/t", &rank_3_of_8, false, false, "/home/u/r3/t-rank0003.pfw" },
		{ "%r/t", &launcher, false, false,
		  "/home/u/launcher/t-launcher-node1-pid4711.pfw" },
		{ "%j", &no_world, false, false, "/home/u/nojob.pfw" },
		{ "%q{EXP}-%q{EXP}", &no_world, false, false, "/home/u/run7-run7.pfw" },
		{ "%q{ABSOLUTE}/t", &no_world, false, false, "/data/t.pfw" },
		{ "a%q{NOT_THERE}b%q{E}", &no_world, false, false, "/home/u/ab.pfw" },
		{ "100%%", &no_world, false, false, "/home/u/100%.pfw" },
		{ "%%p", &no_world, false, false, "/home/u/%p.pfw" },
		{ "%p%p.pfw.gz", &no_world, false, false, "/home/u/47114711.pfw.gz" },
	};
	struct pfw_name name = name_of("%j-%h", &no_world);
	char path[PFW_PATH_MAX];
	bool compressed;

	(void)state;
	check_names(table, LENGTH(table));
	name.job = "77/1";
	name.host = "bad/../host";
	assert_int_equal(pfw_name_build(path, &name, &compressed), 0);
	assert_string_equal(path, "/home/u/77_1-bad_.._host.pfw");
}

static void test_bad_words(void **state)
{
	static const char *const table[][2] = {
		{ "t%x/y", "%x" },   { "t%", "%" },	  { "t%q", "%q" },
		{ "t%q{A", "%q{A" }, { "t%q{}", "%q{}" }, { "t%qA}", "%qA}" },
		{ "%p%P", "%P" },    { "", "" },	  { "%q{NOT_THERE}", "" },
	};
	bool compressed;

	(void)state;
	for (size_t i = 0; i < LENGTH(table); i++) {
		struct pfw_name name = name_of(table[i][0], &no_world);
		char path[PFW_PATH_MAX] = "x";

		assert_int_equal(pfw_name_build(path, &name, &compressed), -EINVAL);
		assert_string_equal(path, table[i][1]);
	}
}

/* A base of `bytes` letters, below `directory`. */
static void fill(char *base, const char *directory, size_t bytes)
{
	size_t n = strlen(directory);

	memcpy(base, directory, n);
	memset(base + n, 'a', bytes);
	base[n + bytes] = '\0';
}

static void test_long_names(void **state)
{
	const size_t room = PFW_NAME_MAX - 1 - strlen("-rank0003.pfw");
	char base[2 * PFW_PATH_MAX] = "", path[PFW_PATH_MAX];
	struct pfw_name name = name_of(base, &rank_3_of_8);
	bool compressed;

	(void)state;
	fill(base, "/d/", room);
	assert_int_equal(pfw_name_build(path, &name, &compressed), 0);
	assert_int_equal(strlen(path), strlen("/d/") + PFW_NAME_MAX - 1);
	fill(base, "/d/", room + 1);
	assert_int_equal(pfw_name_build(path, &name, &compressed), -ENAMETOOLONG);
	fill(base, "/d/", PFW_PATH_MAX + 10);
	assert_int_equal(pfw_name_build(path, &name, &compressed), -ENAMETOOLONG);
	fill(base, "", PFW_PATH_MAX - 8);
	assert_int_equal(pfw_name_build(path, &name, &compressed), -ENAMETOOLONG);
}

static void test_long_paths(void **state)
{
	char base[2 * PFW_PATH_MAX] = "", path[PFW_PATH_MAX];
	struct pfw_name name = name_of(base, &no_world);
	bool compressed;
	int error;

	(void)state;
	/* Every length around the limit: what fits is whole, what does not is said. */
	for (size_t bytes = PFW_PATH_MAX - 30; bytes < PFW_PATH_MAX + 30; bytes++) {
		for (size_t i = 0; i < bytes; i++)
			base[i] = i % 100 == 0 ? '/' : 'a';
		base[bytes] = '\0';
		error = pfw_name_build(path, &name, &compressed);
		assert_int_equal(error, bytes + strlen(".pfw") < PFW_PATH_MAX ? 0 : -ENAMETOOLONG);
		base[0] = 'a';
		error = pfw_name_build(path, &name, &compressed);
		assert_int_equal(error,
				 bytes + strlen("/home/u/.pfw") < PFW_PATH_MAX ? 0 : -ENAMETOOLONG);
	}
}

static void test_numbered(void **state)
{
	static const struct {
		const char *path;
		unsigned n;
		const char *numbered;
	} table[] = {
		{ "/d/t.pfw", 2, "/d/t.2.pfw" },
		{ "/d/t-rank0003.pfw.gz", 2, "/d/t-rank0003.2.pfw.gz" },
		{ "/d/t-rank0003-pid7.pfw", 13, "/d/t-rank0003-pid7.13.pfw" },
		{ "/d/t.2.pfw", 3, "/d/t.2.3.pfw" },
		{ "/d.pfw/t", 2, "/d.pfw/t.2" },
	};
	char path[PFW_PATH_MAX], numbered[PFW_PATH_MAX];

	(void)state;
	for (size_t i = 0; i < LENGTH(table); i++) {
		assert_int_equal(pfw_name_numbered(numbered, table[i].path, table[i].n), 0);
		assert_string_equal(numbered, table[i].numbered);
	}
	fill(path, "/d/", PFW_NAME_MAX - 1 - strlen(".pfw"));
	strcat(path, ".pfw");
	assert_int_equal(pfw_name_numbered(numbered, path, 2), -ENAMETOOLONG);
}

static void test_process_of_our_own(void **state)
{
	struct pfw_process process, again;

	(void)state;
	assert_int_equal(pfw_process_read(&process, getpid()), 0);
	assert_int_equal(process.pid, getpid());
	assert_int_equal(process.ppid, getppid());
	/* qemu-user makes up a /proc/self/stat, without a session. */
	if (!getenv("PFW_EMULATED"))
		assert_int_equal(process.session, getsid(0));
	assert_true(process.start_time > 0);
	assert_int_equal(pfw_process_read(&again, getpid()), 0);
	assert_int_equal(again.start_time, process.start_time);
	assert_int_equal(pfw_process_read(&process, 0x7fffffff), -ENOENT);
}

/* A program may call itself anything: the fields behind the name must still be found. */
static void test_process_with_a_hostile_name(void **state)
{
	struct pfw_process process, parent;
	int up[2], down[2];
	char byte = 'x';
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(up), 0);
	assert_int_equal(pipe(down), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		FILE *comm = fopen("/proc/self/comm", "w");
		bool named = comm && fputs(") R 1 2) 3 (", comm) >= 0 && fclose(comm) == 0;

		if (!named || write(up[1], &byte, 1) != 1)
			_exit(1);
		close(down[1]);
		_exit(read(down[0], &byte, 1) == 0 ? 0 : 1);
	}
	assert_int_equal(read(up[0], &byte, 1), 1);
	assert_int_equal(pfw_process_read(&process, pid), 0);
	close(down[1]);
	assert_int_equal(process.ppid, getpid());
	/* qemu-user makes up a /proc/self/stat, without a session. */
	if (!getenv("PFW_EMULATED"))
		assert_int_equal(process.session, getsid(0));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(pfw_process_read(&parent, getpid()), 0);
	assert_true(process.start_time >= parent.start_time && parent.start_time > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_launcher_family),
		cmocka_unit_test(test_first_family_wins),
		cmocka_unit_test(test_our_own_variables_come_first),
		cmocka_unit_test(test_what_is_no_rank),
		cmocka_unit_test(test_bad_numbers_are_as_if_unset),
		cmocka_unit_test(test_a_family_without_size_borrows_one),
		cmocka_unit_test(test_torchrun_under_srun),
		cmocka_unit_test(test_launchers_by_command_line),
		cmocka_unit_test(test_ranks_chooses),
		cmocka_unit_test(test_bad_list_leaves_nobody_out),
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_run_is_cut_to_its_buffer),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_suffix_is_not_doubled_and_decides),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_bad_words),
		cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_long_paths),
		cmocka_unit_test(test_numbered),
		cmocka_unit_test(test_process_of_our_own),
		cmocka_unit_test(test_process_with_a_hostile_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
