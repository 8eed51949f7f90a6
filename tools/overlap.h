/* overlap.h - what the parts of `pfw overlap` share: what was asked for, the ranks, the figures. */
#ifndef OVERLAP_H
#define OVERLAP_H

#include "cli.h"
#include "store/overlap.h"
#include "store/select.h"
#include "store/traces.h"

/* A stretch of time of all ranks alike, for series. */
struct overlap_bin {
	uint64_t io_calls; /* that begin in it */
	uint64_t io_bytes; /* a call's, spread evenly over its time */
	int64_t io_ns, cpu_ns, gpu_ns, copy_ns;
};

/* A rank of one run, with all its processes. */
struct overlap_rank {
	int64_t rank; /* -1: none */
	const char *run;
	size_t files, last; /* how many, and the last of them */
	bool indexed;	    /* from an index; nothing is read */
	struct pfw_overlap overlap;
	struct overlap_bin *bin;
	const struct overlap_options *options;
};

struct overlap_options {
	const struct cli_command *command;
	struct pfw_select reach;
	bool limited;		   /* it has a condition beside ranks */
	struct pfw_select compute; /* its names: spans that compute, too */
	bool steps, all_runs, quiet;
	unsigned jobs;
	int format;
	/* Series: so many bins, or bins of that length. */
	uint64_t bins;
	int64_t bin_ns;
	int64_t first_ns; /* of the first bin */
};

#define OVERLAP_NO_RANK UINT32_MAX

struct overlap {
	struct overlap_rank *rank;
	size_t ranks;
	uint32_t *rank_of; /* of each file; OVERLAP_NO_RANK: not wanted */
	uint64_t problems;
};

/* Bins of a series at most. */
#define OVERLAP_BINS_MAX 1000000u

struct live_lines;

/* Fill in all ranks.  0, or -errno after saying why.  Thread: main. */
int overlap_collect(struct overlap *overlap, struct overlap_options *options,
		    struct live_lines *live, const volatile bool *stop);
void overlap_release(struct overlap *overlap);

/* ---- figures ---- */

/* One of a rank, a step, or of all together: the time in which something of `any` went on (sets; 0:
 * whatever), all of `all`, and nothing of `none`. */
struct overlap_figure {
	const char *key, *header;
	unsigned any, all, none;
	bool device; /* only where kernels ran */
};

#define OVERLAP_FIGURES 33
extern const struct overlap_figure overlap_figures[OVERLAP_FIGURES];

/* The place of the one with that key. */
unsigned overlap_figure(const char *key);

/* All of them in their order, of time by set. */
void overlap_measure(const int64_t set_ns[PFW_OVERLAP_SETS], int64_t figure[OVERLAP_FIGURES]);

/* A step of a rank. */
struct overlap_step {
	const struct overlap_rank *rank;
	uint64_t number;
	int64_t begin;
	uint32_t first, count; /* of the rank's steps by `order` */
};

/* Steps of all ranks, by number, then rank; parts of one step are together. */
struct overlap_steps {
	struct overlap_step *step;
	uint32_t *part; /* places in rank->overlap.step */
	size_t count;
};

/* 0 or -ENOMEM. */
int overlap_steps_find(struct overlap_steps *steps, const struct overlap *overlap);
void overlap_steps_release(struct overlap_steps *steps);

/* Its figures. */
void overlap_measure_step(const struct overlap_steps *steps, const struct overlap_step *step,
			  int64_t figure[OVERLAP_FIGURES]);

/* How a rank goes behind the others. */
struct overlap_straggler {
	uint64_t steps;	   /* that others have, too */
	uint64_t slowest;  /* in which its own time is the longest */
	int64_t own_ns;	   /* in all of these */
	int64_t behind_ns; /* of those in which it is the slowest: its own time less the median */
};

/* Of each rank; NULL: no memory, or there are no steps to compare. */
struct overlap_straggler *overlap_stragglers(const struct overlap *overlap,
					     const struct overlap_steps *steps);

/* Write it as asked for.  0 or -ENOMEM.  Thread: main. */
int overlap_print(const struct overlap *overlap, const struct overlap_options *options);

#endif
