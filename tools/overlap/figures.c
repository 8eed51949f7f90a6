/* tools/overlap/figures.c - computes figures, steps and stragglers from the time of each set of
 * activities.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "overlap/overlap.h"
#include "store/kit/nearly_sorted.h"
#include "store/kit/saturate.h"

#define IO (1u << PFW_ACTIVITY_IO)
#define CPU (1u << PFW_ACTIVITY_CPU)
#define GPU (1u << PFW_ACTIVITY_GPU)
#define COMM (1u << PFW_ACTIVITY_COMM)
#define COPY (1u << PFW_ACTIVITY_COPY)
#define LOAD (1u << PFW_ACTIVITY_LOAD)
#define QUEUED (1u << PFW_ACTIVITY_QUEUED)
#define WAIT (1u << PFW_ACTIVITY_WAIT)
#define COMPUTE (CPU | GPU)
#define KERNELS (GPU | COMM)
#define EVERY (PFW_OVERLAP_SETS - 1)

/* key, header, sets: any, all, none; only with kernels */
const struct overlap_figure overlap_figures[OVERLAP_FIGURES] = {
	[OVERLAP_WALL] = { "wall", "Wall", 0, 0, 0, false },
	[OVERLAP_IO] = { "io", "I/O", 0, IO, 0, false },
	[OVERLAP_COMPUTE] = { "compute", "Compute", COMPUTE, 0, 0, false },
	[OVERLAP_CPU] = { "cpu", "CPU ops", 0, CPU, 0, false },
	[OVERLAP_GPU] = { "gpu", "GPU", 0, GPU, 0, true },
	[OVERLAP_COMM] = { "comm", "Comm", 0, COMM, 0, true },
	[OVERLAP_COPY] = { "copy", "Copies", 0, COPY, 0, false },
	[OVERLAP_LOAD] = { "load", "Loading", 0, LOAD, 0, false },
	[OVERLAP_KERNELS] = { "kernels", "Kernels", KERNELS, 0, 0, true },
	[OVERLAP_IO_COMPUTE] = { "io_compute", "I/O+compute", COMPUTE, IO, 0, false },
	[OVERLAP_IO_CPU] = { "io_cpu", "I/O+CPU", 0, IO | CPU, 0, false },
	[OVERLAP_IO_GPU] = { "io_gpu", "I/O+GPU", 0, IO | GPU, 0, true },
	[OVERLAP_IO_COMM] = { "io_comm", "I/O+comm", 0, IO | COMM, 0, true },
	[OVERLAP_IO_COPY] = { "io_copy", "I/O+copies", 0, IO | COPY, 0, false },
	[OVERLAP_IO_LOAD] = { "io_load", "I/O+loading", 0, IO | LOAD, 0, false },
	[OVERLAP_CPU_GPU] = { "cpu_gpu", "CPU+GPU", 0, CPU | GPU, 0, true },
	[OVERLAP_CPU_COMM] = { "cpu_comm", "CPU+comm", 0, CPU | COMM, 0, true },
	[OVERLAP_CPU_COPY] = { "cpu_copy", "CPU+copies", 0, CPU | COPY, 0, false },
	[OVERLAP_CPU_LOAD] = { "cpu_load", "CPU+loading", 0, CPU | LOAD, 0, false },
	[OVERLAP_GPU_COMM] = { "gpu_comm", "GPU+comm", 0, GPU | COMM, 0, true },
	[OVERLAP_GPU_COPY] = { "gpu_copy", "GPU+copies", 0, GPU | COPY, 0, true },
	[OVERLAP_GPU_LOAD] = { "gpu_load", "GPU+loading", 0, GPU | LOAD, 0, true },
	[OVERLAP_COMM_COPY] = { "comm_copy", "Comm+copies", 0, COMM | COPY, 0, true },
	[OVERLAP_COMM_LOAD] = { "comm_load", "Comm+loading", 0, COMM | LOAD, 0, true },
	[OVERLAP_COPY_LOAD] = { "copy_load", "Copies+loading", 0, COPY | LOAD, 0, false },
	[OVERLAP_IO_UNOVERLAPPED] = { "io_unoverlapped", "I/O alone", 0, IO, COMPUTE, false },
	[OVERLAP_COMM_UNOVERLAPPED] = { "comm_unoverlapped", "Comm alone", 0, COMM, GPU, true },
	[OVERLAP_WAIT] = { "wait", "Waits", 0, WAIT, 0, false },
	[OVERLAP_WAIT_UNOVERLAPPED] = { "wait_unoverlapped", "Waits alone", 0, WAIT,
					IO | COMPUTE | COMM | COPY | LOAD, false },
	[OVERLAP_IDLE] = { "idle", "GPU idle", 0, 0, KERNELS, true },
	[OVERLAP_IDLE_COPY] = { "idle_copy", "Copy", 0, COPY, KERNELS, true },
	[OVERLAP_IDLE_QUEUED] = { "idle_queued", "Start", 0, QUEUED, KERNELS | COPY, true },
	[OVERLAP_IDLE_LOAD] = { "idle_load", "Loader", 0, LOAD, KERNELS | COPY | QUEUED, true },
	[OVERLAP_IDLE_IO] = { "idle_io", "I/O", 0, IO, KERNELS | COPY | QUEUED | LOAD, true },
	[OVERLAP_IDLE_LAUNCH] = { "idle_launch", "Launch", 0, 0,
				  KERNELS | COPY | QUEUED | LOAD | IO, true },
};

const unsigned overlap_bin_sets[OVERLAP_BIN_TIMES] = { IO, CPU, KERNELS, COPY };

/* ---- measuring ---- */

/* The figures that contain the time of each set, as bits. */
static uint64_t parts_of[PFW_OVERLAP_SETS];

static void fill_parts(void)
{
	for (unsigned set = 0; set < PFW_OVERLAP_SETS; set++) {
		for (unsigned i = 0; i < OVERLAP_FIGURES; i++) {
			const struct overlap_figure *figure = &overlap_figures[i];

			if ((!figure->any || (set & figure->any)) &&
			    (set & figure->all) == figure->all && !(set & figure->none))
				parts_of[set] |= OVERLAP_BIT(i);
		}
	}
}

static const uint64_t *figures_of_sets(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, fill_parts);
	return parts_of;
}

static void add_time(int64_t *figure, uint64_t parts, int64_t ns)
{
	for (; parts; parts &= parts - 1) {
		int64_t *part = &figure[__builtin_ctzll(parts)];

		*part = pfw_saturate_add(*part, ns);
	}
}

unsigned overlap_known(const struct pfw_overlap *overlap)
{
	const struct pfw_overlap_sums *sums = &overlap->sums;
	unsigned known = sums->io_calls ? IO : 0, ran = 0;

	for (size_t i = 0; i < overlap->times; i++)
		ran |= overlap->time[i].ns ? overlap->time[i].set : 0;
	known |= sums->kernels ? KERNELS | COPY | QUEUED : 0;
	known |= sums->copies ? COPY : 0;
	/* Who records operators records the loader, too. */
	return known | (ran & (LOAD | WAIT)) | (ran & CPU ? CPU | LOAD : 0);
}

uint64_t overlap_unknown(unsigned known)
{
	uint64_t unknown = 0;

	for (unsigned i = 0; i < OVERLAP_FIGURES && known != EVERY; i++) {
		const struct overlap_figure *of = &overlap_figures[i];

		if ((of->device && !(known & GPU)) || (known & of->all) != of->all ||
		    (of->any && !(known & of->any)))
			unknown |= OVERLAP_BIT(i);
	}
	return unknown;
}

static void forget(uint64_t unknown, int64_t figure[OVERLAP_FIGURES])
{
	for (; unknown; unknown &= unknown - 1)
		figure[__builtin_ctzll(unknown)] = OVERLAP_UNKNOWN;
}

void overlap_measure(const struct pfw_overlap *overlap, uint64_t unknown,
		     int64_t figure[OVERLAP_FIGURES])
{
	const uint64_t *parts = figures_of_sets();

	memset(figure, 0, OVERLAP_FIGURES * sizeof(*figure));
	for (size_t i = 0; i < overlap->times; i++)
		add_time(figure, parts[overlap->time[i].set], overlap->time[i].ns);
	forget(unknown, figure);
}

/* ---- steps ---- */

/* A part of a step, for sorting. */
struct part {
	uint64_t number;
	uint32_t rank, at;
};

static int compare_parts(const struct part *left, const struct part *right)
{
	return PFW_ORDER(left->number, right->number) ?: PFW_ORDER(left->rank, right->rank) ?:
	       PFW_ORDER(left->at, right->at);
}

static bool is_after(const struct part *a, const struct part *b)
{
	return compare_parts(a, b) > 0;
}

PFW_NEARLY_SORTED(parts, struct part, is_after)

/* Sort the parts of all ranks, whose own are mostly in order; `spare` has room for half of them. */
static size_t gather_parts(struct part *part, struct part *spare, const struct overlap *overlap)
{
	size_t count = 0;

	for (size_t i = 0; i < overlap->ranks; i++) {
		const struct overlap_rank *rank = &overlap->rank[i];

		for (size_t j = 0; j < rank->overlap.steps; j++)
			part[count++] = (struct part){ rank->overlap.step[j].number, (uint32_t)i,
						       (uint32_t)j };
	}
	parts_merge(part, count, spare);
	return count;
}

int overlap_steps_find(struct overlap_steps *steps, const struct overlap *overlap)
{
	size_t count = 0;
	struct part *part;

	*steps = (struct overlap_steps){ 0 };
	for (size_t i = 0; i < overlap->ranks; i++)
		count += overlap->rank[i].overlap.steps;
	part = malloc((count + count / 2 + 1) * sizeof(*part));
	steps->step = calloc(count + 1, sizeof(*steps->step));
	steps->part = calloc(count + 1, sizeof(*steps->part));
	if (!part || !steps->step || !steps->part) {
		free(part);
		overlap_steps_release(steps);
		return -ENOMEM;
	}
	gather_parts(part, part + count, overlap);
	for (size_t i = 0; i < count; i++) {
		const struct overlap_rank *rank = &overlap->rank[part[i].rank];
		const struct pfw_overlap_step *from = &rank->overlap.step[part[i].at];
		struct overlap_step *last = steps->count ? &steps->step[steps->count - 1] : NULL;

		steps->part[i] = part[i].at;
		if (last && last->number == part[i].number && last->rank == rank) {
			last->count++;
			continue;
		}
		steps->step[steps->count++] = (struct overlap_step){ .rank = rank,
								     .number = part[i].number,
								     .begin = from->begin,
								     .first = (uint32_t)i,
								     .count = 1 };
	}
	free(part);
	return 0;
}

void overlap_steps_release(struct overlap_steps *steps)
{
	free(steps->step);
	free(steps->part);
	*steps = (struct overlap_steps){ 0 };
}

void overlap_measure_step(const struct overlap_steps *steps, const struct overlap_step *step,
			  uint64_t wanted, int64_t figure[OVERLAP_FIGURES])
{
	const struct pfw_overlap *overlap = &step->rank->overlap;
	const uint64_t *parts = figures_of_sets();

	memset(figure, 0, OVERLAP_FIGURES * sizeof(*figure));
	for (uint32_t i = 0; i < step->count; i++) {
		const struct pfw_overlap_step *part = &overlap->step[steps->part[step->first + i]];

		for (const uint64_t *cell = overlap->cell + part->first;
		     cell < overlap->cell + part->first + part->cells; cell++)
			add_time(figure, parts[*cell % PFW_OVERLAP_SETS] & wanted,
				 (int64_t)(*cell >> PFW_ACTIVITIES));
	}
	forget(step->rank->unknown & wanted, figure);
}

/* ---- stragglers ---- */

/* A rank's own time: without the time in which only communication ran, since it may have waited. */
static int64_t own_time(const struct overlap_steps *steps, const struct overlap_step *step)
{
	const struct pfw_overlap *overlap = &step->rank->overlap;
	int64_t own_ns = 0;

	for (uint32_t i = 0; i < step->count; i++) {
		const struct pfw_overlap_step *part = &overlap->step[steps->part[step->first + i]];
		const uint64_t *cell = overlap->cell + part->first, *end = cell + part->cells;

		for (; cell < end; cell++) {
			if ((*cell & KERNELS) != COMM)
				own_ns = pfw_saturate_add(own_ns,
							  (int64_t)(*cell >> PFW_ACTIVITIES));
		}
	}
	return own_ns;
}

/* The ranks of one step, step[0..count), with their own times in own[] and room for as many after
 * them. */
static void compare_ranks(struct overlap_straggler *straggler, const struct overlap *overlap,
			  const struct overlap_step *step, size_t count, int64_t *own)
{
	int64_t *sorted = own + count, median;
	size_t slowest = 0;

	memcpy(sorted, own, count * sizeof(*own));
	qsort(sorted, count, sizeof(*own), pfw_order_i64);
	/* The lower one of an even number, so that two ranks are compared with each other. */
	median = sorted[(count - 1) / 2];
	for (size_t i = 0; i < count; i++) {
		struct overlap_straggler *of = &straggler[step[i].rank - overlap->rank];

		of->steps++;
		of->own_ns = pfw_saturate_add(of->own_ns, own[i]);
		if (own[i] > own[slowest])
			slowest = i;
	}
	straggler[step[slowest].rank - overlap->rank].slowest++;
	straggler[step[slowest].rank - overlap->rank].behind_ns += own[slowest] - median;
}

struct overlap_straggler *overlap_stragglers(const struct overlap *overlap,
					     const struct overlap_steps *steps)
{
	struct overlap_straggler *straggler = calloc(overlap->ranks + 1, sizeof(*straggler));
	int64_t *own = calloc(2 * overlap->ranks + 1, sizeof(*own));
	size_t first = 0, compared = 0;

	for (size_t i = 1; straggler && own && i <= steps->count; i++) {
		if (i < steps->count && steps->step[i].number == steps->step[first].number)
			continue;
		for (size_t j = first; j < i; j++)
			own[j - first] = own_time(steps, &steps->step[j]);
		if (i - first > 1) {
			compare_ranks(straggler, overlap, &steps->step[first], i - first, own);
			compared++;
		}
		first = i;
	}
	free(own);
	if (compared)
		return straggler;
	free(straggler);
	return NULL;
}
