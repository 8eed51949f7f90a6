/* common/settings/rank.h - the rank of a process, from the variables of its launcher. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pfw_config;

/* The place of a process in its world. */
struct pfw_rank {
	int32_t rank;	    /* -1: no world */
	int32_t world_size; /* 1: no world; 0: unknown size */
	int32_t local_rank; /* -1: unknown */
	bool launcher;	    /* torchrun, mpirun, srun, ...: has a trace name of its own */
	bool recorded;	    /* false: PFW_RANKS excludes this rank */
	char source[32];    /* the variable that gave the rank, "pfw_set_rank", or "none" */
};

/*
 * Find the rank: PFW_RANK, else the variable PFW_RANK_VAR (both in config), else the variables of
 * launchers in the order of rank.c.  argc/argv of the process (from /proc/self/cmdline) distinguish
 * launchers from ranks: a torchrun agent under srun has SLURM_PROCID but is no rank.  Without a
 * rank the result is rank -1, world_size 1.
 * Thread: init.  Signal: safe (no malloc, no stdio).
 */
void pfw_rank_find(struct pfw_rank *rank, const struct pfw_config *config, char *const *environ,
		   int argc, char *const *argv);
