/* tools/overlap/overlap.h - options, ranks, figures and results of `pfw overlap`.
 *
 * Room tools/overlap: `pfw overlap` shows when I/O, compute and communication overlap and why a GPU
 * idles.  It may use tools/share, tools/ui and the store, whose store/overlap does the sweep.
 * Start with overlap.c; collect.c reads, figures.c computes, print.c and data.c print.
 */
#pragma once

#include "share/survey.h"
#include "store/overlap/overlap.h"
#include "ui/grid.h"

#define OVERLAP_BIN_TIMES 4u

/* A stretch of time for series, the same for all ranks. */
struct overlap_bin {
	uint64_t io_calls;	       /* that begin in it */
	uint64_t io_bytes;	       /* spread evenly over the time of a call */
	int64_t ns[OVERLAP_BIN_TIMES]; /* of I/O, the CPU, kernels, copies */
};

/* A rank of one run, with all its processes. */
struct overlap_rank {
	int64_t rank; /* -1: none */
	const char *run;
	size_t files, first, last; /* number of files, and the first and the last one */
	bool indexed;		   /* from an index; nothing is read */
	unsigned known;		   /* the set of activities that were recorded */
	uint64_t unknown;	   /* as overlap_unknown() says */
	struct pfw_overlap overlap;
	struct pfw_overlap_window *window; /* what is known of it without lines; or NULL */
	struct overlap_bin *bin;
	struct overlap_series *series; /* the bins but for what lines say; or NULL */
	const struct overlap_options *options;
};

struct overlap_options {
	struct survey survey;
	struct pfw_select reach;
	struct pfw_select compute; /* names of spans that count as compute */
	bool steps;
	/* Series: a number of bins, or their length. */
	uint64_t bins;
	int64_t bin_ns;
	int64_t first_ns; /* of the first bin */
};

#define OVERLAP_NO_RANK UINT32_MAX

struct overlap {
	struct overlap_rank *rank;
	size_t ranks;
	uint32_t *rank_of; /* of each file; OVERLAP_NO_RANK: not wanted */
	/* What is kept of a directory; NULL: not asked yet. */
	struct pfw_overlaps *kept;
	char *directory;
};

/* The most bins of a series. */
#define OVERLAP_BINS_MAX 1000000u

/* Whether indexes have what is asked for. */
bool overlap_asks_indexes(const struct overlap_options *options);

/* Fill in all ranks.  CLI_OK, or the exit status after an error message.  Thread: main. */
int overlap_collect(struct overlap *overlap, struct overlap_options *options,
		    struct survey_input *input);
void overlap_release(struct overlap *overlap);

/* ---- windows ---- */

/* ---- time series ---- */

/* Compute the length or the number of bins from the extent of the traces.  0; -E2BIG: too many; or another
 * -errno. */
int overlap_series_lay_out(struct overlap_options *options, struct survey_input *input);
/* Whether indexes have bins, but for the blocks that they cut. */
bool overlap_series_asks(const struct overlap_options *options);
/* Take the bins of each rank from its index, but for the blocks that they cut.  0 or -ENOMEM. */
int overlap_find_series(struct overlap *overlap, const struct overlap_options *options,
			const struct survey_input *input);
/* Before the first line of a rank.  0 or -ENOMEM. */
int overlap_series_begin(struct overlap_rank *rank);
void overlap_series_call(struct overlap_rank *rank, const struct pfw_overlap_call *call);
/* Whether no line of a block is needed. */
bool overlap_series_skips(const struct overlap_rank *rank, size_t block);
/* After pfw_overlap_end(): complete the bins.  0 or -ENOMEM. */
int overlap_series_end(struct overlap_rank *rank);
void overlap_series_release(struct overlap_rank *rank);

/* ---- ranks in several files ---- */

/* Fill in the overlap of a rank in several files if it is kept.  1, 0 or -ENOMEM. */
int overlap_find_kept(struct overlap *overlap, size_t number, struct survey *survey,
		      const struct survey_input *input);
/* Keep the overlaps that were computed from lines, if they are of many events. */
void overlap_keep(struct overlap *overlap, struct survey *survey, const struct survey_input *input);

/* ---- figures ---- */

/* The figures, in the order of their columns. */
#define OVERLAP_BIT(number) (UINT64_C(1) << (number))
#define OVERLAP_ALL (OVERLAP_BIT(OVERLAP_FIGURES) - 1)

/* The time in which an activity of `any` (0: anything), all of `all` and none of `none` ran. */
struct overlap_figure {
	const char *key, *header;
	unsigned any, all, none;
	bool device; /* only if kernels ran */
};

enum {
	OVERLAP_WALL,
	OVERLAP_IO,
	OVERLAP_COMPUTE,
	OVERLAP_CPU,
	OVERLAP_GPU,
	OVERLAP_COMM,
	OVERLAP_COPY,
	OVERLAP_LOAD,
	OVERLAP_KERNELS,
	OVERLAP_IO_COMPUTE,
	OVERLAP_IO_CPU,
	OVERLAP_IO_GPU,
	OVERLAP_IO_COMM,
	OVERLAP_IO_COPY,
	OVERLAP_IO_LOAD,
	OVERLAP_CPU_GPU,
	OVERLAP_CPU_COMM,
	OVERLAP_CPU_COPY,
	OVERLAP_CPU_LOAD,
	OVERLAP_GPU_COMM,
	OVERLAP_GPU_COPY,
	OVERLAP_GPU_LOAD,
	OVERLAP_COMM_COPY,
	OVERLAP_COMM_LOAD,
	OVERLAP_COPY_LOAD,
	OVERLAP_IO_UNOVERLAPPED,
	OVERLAP_COMM_UNOVERLAPPED,
	OVERLAP_WAIT,
	OVERLAP_WAIT_UNOVERLAPPED,
	OVERLAP_IDLE,
	OVERLAP_IDLE_COPY,
	OVERLAP_IDLE_QUEUED,
	OVERLAP_IDLE_LOAD,
	OVERLAP_IDLE_IO,
	OVERLAP_IDLE_LAUNCH,
	OVERLAP_FIGURES,
};
extern const struct overlap_figure overlap_figures[OVERLAP_FIGURES];

/* The activities of overlap_bin.ns. */
extern const unsigned overlap_bin_sets[OVERLAP_BIN_TIMES];

/* A figure of activities that were not recorded. */
#define OVERLAP_UNKNOWN (-1)

/* The set of activities that a rank has events of, or would have if there had been any. */
unsigned overlap_known(const struct pfw_overlap *overlap);

/* The figures that need others, as bits: a figure is known if all of its activities are, and of alternatives one.
 * I/O that no recorded compute hides is known without compute. */
uint64_t overlap_unknown(unsigned known);

/* Compute all figures of a rank from the time of each set. */
void overlap_measure(const struct pfw_overlap *overlap, uint64_t unknown,
		     int64_t figure[OVERLAP_FIGURES]);

/* A step of a rank. */
struct overlap_step {
	const struct overlap_rank *rank;
	uint64_t number;
	int64_t begin;
	uint32_t first, count; /* of overlap_steps.part */
};

/* Steps of all ranks, by number, then rank; the parts of a step are adjacent. */
struct overlap_steps {
	struct overlap_step *step;
	uint32_t *part; /* indexes of rank->overlap.step */
	size_t count;
};

/* 0 or -ENOMEM. */
int overlap_steps_find(struct overlap_steps *steps, const struct overlap *overlap);
void overlap_steps_release(struct overlap_steps *steps);

/* Compute the figures of a step that are wanted, as bits; the others are 0. */
void overlap_measure_step(const struct overlap_steps *steps, const struct overlap_step *step,
			  uint64_t wanted, int64_t figure[OVERLAP_FIGURES]);

/* How a rank delays the others. */
struct overlap_straggler {
	uint64_t steps;	   /* that other ranks have, too */
	uint64_t slowest;  /* in which its own time is the longest */
	int64_t own_ns;	   /* in all of these */
	int64_t behind_ns; /* own time minus the median, in steps where it is the slowest */
};

/* An array with an element for each rank; NULL: no memory, or no steps to compare. */
struct overlap_straggler *overlap_stragglers(const struct overlap *overlap,
					     const struct overlap_steps *steps);

/* Nanoseconds over `count`, rounded; 0 of nothing. */
static inline int64_t overlap_mean(int64_t ns, uint64_t count)
{
	return count ? (int64_t)(((unsigned __int128)ns * 2 + count) /
				 ((unsigned __int128)count * 2))
		     : 0;
}

/* ---- results ---- */

/* Sums of all ranks, each figure of the ranks that have it. */
struct overlap_totals {
	int64_t figure[OVERLAP_FIGURES];
	struct pfw_overlap_sums sums;
	struct pfw_launch_gaps gaps;
	uint64_t steps_left_out;
};

struct overlap_answer {
	struct overlap_totals totals;
	struct overlap_steps steps;	     /* if asked for or compared */
	struct overlap_straggler *straggler; /* of each rank; NULL: nothing to compare */
};

/* Add a cell with the number of a rank, or "all" for NULL. */
void overlap_put_rank(struct grid *grid, const struct overlap_rank *rank);

/* Print NDJSON or CSV: times in µs, sizes in bytes.  0 or -ENOMEM.  Thread: main. */
int overlap_print_data(const struct overlap *overlap, const struct overlap_options *options,
		       const struct overlap_answer *answer);

/* Print the result.  0 or -ENOMEM.  Thread: main. */
int overlap_print(const struct overlap *overlap, const struct overlap_options *options);
