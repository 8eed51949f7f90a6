/* tools/report/advice.c - the rules; see advice.h. */
#include "report/advice.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "ui/cli.h"

/* ---- figures ---- */

/* X(key): of all ranks, by `pfw overlap` */
#define OVERLAP_FIGURES(X)   \
	X(wall)              \
	X(io)                \
	X(compute)           \
	X(load)              \
	X(io_unoverlapped)   \
	X(comm_unoverlapped) \
	X(idle)              \
	X(idle_copy)         \
	X(idle_load)         \
	X(idle_io)           \
	X(idle_launch)       \
	X(launches)

/* X(key): of all files, by `pfw patterns` */
#define PATTERNS_FIGURES(X) \
	X(opens)            \
	X(opens_again)      \
	X(metadata_calls)   \
	X(metadata_us)      \
	X(data_us)          \
	X(reads)            \
	X(writes)           \
	X(read_us)          \
	X(write_us)         \
	X(read_random)      \
	X(size_read_0_100)  \
	X(size_read_100_1k) \
	X(size_write_0_100) \
	X(size_write_100_1k)

enum figure {
#define X(key) F_##key,
	OVERLAP_FIGURES(X) PATTERNS_FIGURES(X)
	/* What else a row says. */
	X(rank) X(step) X(steps_own) X(fname) X(section)
#undef X
		COLUMNS,
	F_PATTERNS = F_opens, /* the first one of patterns */
	FIGURES = F_rank
};

static const char *const keys[COLUMNS] = {
#define X(key) [F_##key] = #key,
	OVERLAP_FIGURES(X) PATTERNS_FIGURES(X) X(rank) X(step) X(steps_own) X(fname) X(section)
#undef X
};

_Static_assert(COLUMNS == ADVICE_COLUMNS && FIGURES == ADVICE_FIGURES, "as in advice.h");

#define UNKNOWN INT64_MIN

/* Find the columns of a grid, unless it is of the same section as the one before: a command may print each
 * row by itself. */
static void find_columns(struct advice *advice, const struct grid *grid, const char *section)
{
	const char *name = section ? section : "";

	if (advice->columns == grid->column && strcmp(advice->section, name) == 0)
		return;
	advice->columns = grid->column;
	snprintf(advice->section, sizeof(advice->section), "%s", name);
	for (unsigned i = 0; i < COLUMNS; i++) {
		advice->place[i] = SIZE_MAX;
		for (size_t j = 0; j < grid->columns; j++) {
			if (strcmp(grid->column[j].key, keys[i]) == 0)
				advice->place[i] = j;
		}
	}
}

/* A cell, or NULL: there is no such column, or it has no value. */
static const struct grid_cell *cell_of(const struct advice *advice, const struct grid_cell *row,
				       enum figure which)
{
	size_t place = advice->place[which];

	return place == SIZE_MAX || row[place].kind == GRID_NONE ? NULL : &row[place];
}

static void take_figures(const struct advice *advice, int64_t figure[FIGURES],
			 const struct grid_cell *row, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		const struct grid_cell *cell = cell_of(advice, row, i);

		figure[i] = cell ? cell->whole : UNKNOWN;
	}
}

static int add_time(struct advice_time **time, size_t *count, size_t *room, int64_t rank,
		    int64_t step, const struct grid_cell *cell)
{
	const struct advice_time one = { rank, step, cell ? cell->whole : 0 };

	return cell ? PFW_PUSH(*time, *count, *room, one) : 0;
}

/* Note how long a step of a rank took, and add what was in it. */
static int take_step(struct advice *advice, const struct grid_cell *row, int64_t rank)
{
	const struct grid_cell *step = cell_of(advice, row, F_step);

	if (!step)
		return 0;
	for (unsigned i = 0; i < F_PATTERNS; i++) {
		const struct grid_cell *cell = cell_of(advice, row, i);

		if (cell)
			pfw_saturate_sum(&advice->in_steps[i], cell->whole);
	}
	return add_time(&advice->step, &advice->steps, &advice->step_room, rank, step->whole,
			cell_of(advice, row, F_wall));
}

/* The file with the most time in its calls. */
static void take_file(struct advice *advice, const struct grid *grid, const struct grid_cell *row)
{
	const struct grid_cell *name = cell_of(advice, row, F_fname);
	const struct grid_cell *data = cell_of(advice, row, F_data_us);
	const struct grid_cell *metadata = cell_of(advice, row, F_metadata_us);
	int64_t ns = (data ? data->whole : 0) + (metadata ? metadata->whole : 0);

	if (!name || !name->bytes || ns <= advice->top_ns)
		return;
	advice->top_ns = ns;
	snprintf(advice->top_file, sizeof(advice->top_file), "%.*s", (int)name->bytes,
		 grid->text.data + name->text);
}

static bool is_of(const struct advice *advice, const struct grid *grid, const struct grid_cell *row,
		  const char *section, const char *wanted)
{
	const struct grid_cell *cell = section ? NULL : cell_of(advice, row, F_section);

	if (!cell)
		return section && strcmp(section, wanted) == 0;
	return cell->bytes == strlen(wanted) &&
	       memcmp(grid->text.data + cell->text, wanted, cell->bytes) == 0;
}

static void take_patterns(struct advice *advice, const struct grid *grid,
			  const struct grid_cell *row, const char *section)
{
	if (is_of(advice, grid, row, section, "all"))
		take_figures(advice, advice->figure, row, F_PATTERNS, FIGURES);
	else if (is_of(advice, grid, row, section, "file"))
		take_file(advice, grid, row);
}

static int take_overlap(struct advice *advice, const struct grid *grid, const struct grid_cell *row,
			const char *section)
{
	const struct grid_cell *rank = cell_of(advice, row, F_rank);
	int64_t number = rank && rank->kind != GRID_TEXT ? rank->whole : -1;

	if (is_of(advice, grid, row, section, "all")) {
		take_figures(advice, advice->figure, row, 0, F_PATTERNS);
		advice->any = true;
	} else if (is_of(advice, grid, row, section, "rank")) {
		return add_time(&advice->rank, &advice->ranks, &advice->rank_room, number, -1,
				cell_of(advice, row, F_steps_own));
	} else if (is_of(advice, grid, row, section, "step")) {
		return take_step(advice, row, number);
	}
	return 0;
}

int advice_take(struct advice *advice, const char *command, const struct grid *grid,
		const char *section)
{
	bool overlap = strcmp(command, "overlap") == 0, patterns = strcmp(command, "patterns") == 0;
	int error = 0;

	if (!overlap && !patterns)
		return 0;
	find_columns(advice, grid, section);
	for (size_t i = 0; i < grid->cells && !error; i += grid->columns) {
		if (overlap)
			error = take_overlap(advice, grid, &grid->cell[i], section);
		else
			take_patterns(advice, grid, &grid->cell[i], section);
	}
	return error;
}

/* Where there are steps, what counts is what happens in them, not how long the program took to start. */
static void use_steps(struct advice *advice)
{
	for (unsigned i = 0; i < F_launches && advice->steps; i++) {
		if (advice->figure[i] != UNKNOWN)
			advice->figure[i] = advice->in_steps[i];
	}
}

/* ---- rules ---- */

struct search {
	struct advice *advice;
	struct finding *found;
	size_t count;
	int64_t explained_ns; /* of I/O that no compute hides: by a finding that says why */
};

static int64_t figure(const struct search *search, enum figure which)
{
	int64_t value = search->advice->figure[which];

	return value == UNKNOWN ? 0 : value;
}

static double share(const struct search *search, int64_t ns)
{
	int64_t wall = figure(search, F_wall);

	return wall > 0 ? (double)ns / (double)wall : 0;
}

/* What can be gained of the time of I/O calls at most: what no compute hides. */
static int64_t gain(const struct search *search, int64_t ns)
{
	int64_t most = figure(
		search, search->advice->figure[F_compute] == UNKNOWN ? F_io : F_io_unoverlapped);

	return ns < most ? ns : most;
}

/* Less is gone in the noise of a run. */
#define LEAST_NS INT64_C(10000000)

/* Add a finding that costs `ns`. */
__attribute__((format(printf, 6, 7))) static void add(struct search *search, const char *rule,
						      int64_t ns, const char *remedy,
						      const char *query, const char *format, ...)
{
	struct finding *one = &search->found[search->count];
	va_list values;
	int bytes;

	if (ns < LEAST_NS)
		return;
	search->count++;
	*one = (struct finding){ .rule = rule, .cost_ns = ns, .remedy = remedy, .query = query };
	va_start(values, format);
	bytes = vsnprintf(one->text, sizeof(one->text), format, values);
	va_end(values);
	if (bytes >= 0 && (size_t)bytes < sizeof(one->text))
		snprintf(one->text + bytes, sizeof(one->text) - (size_t)bytes,
			 ": %s, %.1f %% of the time of all %s", cli_seconds(ns),
			 100 * share(search, ns), search->advice->steps ? "steps" : "ranks");
	cli_clean(one->text);
}

/* A tenth of the time is worth a look; below, what is gained is mostly noise. */
#define WORTH 0.1

static void find_io(struct search *search)
{
	int64_t alone = figure(search, F_io_unoverlapped);
	int64_t reads = figure(search, F_read_us), writes = figure(search, F_write_us);

	/* Without compute nothing could hide it: this is what the program does. */
	if (search->advice->figure[F_compute] == UNKNOWN || share(search, alone) < WORTH ||
	    search->explained_ns >= alone / 2)
		return;
	add(search, "io_alone", alone,
	    "Read ahead (more DataLoader workers, prefetch_factor), write checkpoints in the background.",
	    "pfw overlap --steps",
	    "No compute hides I/O; of reads (%s) and writes (%s), %s takes the most",
	    cli_seconds(reads), cli_seconds(writes),
	    *search->advice->top_file ? search->advice->top_file : "files without a name");
}

static void find_loading(struct search *search)
{
	int64_t load = figure(search, F_load);

	if (share(search, load) >= WORTH)
		add(search, "loader", load,
		    "Give the DataLoader more workers (num_workers), or less to do for each batch.",
		    "pfw overlap --steps", "The steps wait for the DataLoader");
}

static void find_communication(struct search *search)
{
	int64_t alone = figure(search, F_comm_unoverlapped);

	if (share(search, alone) >= WORTH)
		add(search, "communication", alone,
		    "Overlap gradients' all-reduce with the backward pass (larger buckets, no_sync for accumulation).",
		    "pfw overlap", "No compute hides the communication");
}

/* What the GPU waits for, if it idles a fifth of the time. */
static void find_idle(struct search *search)
{
	int64_t idle = figure(search, F_idle), launch = figure(search, F_idle_launch);

	if (share(search, idle) < 2 * WORTH)
		return;
	if (share(search, figure(search, F_idle_copy)) >= WORTH)
		add(search, "copies", figure(search, F_idle_copy),
		    "Pin the host's memory (pin_memory=True), copy with non_blocking=True, keep data on the device.",
		    "pfw overlap", "The GPU idles while data is copied");
	if (share(search, launch) >= 2 * WORTH && figure(search, F_launches) > 0)
		add(search, "launch_bound", launch,
		    "Launch less: larger batches, torch.compile, CUDA graphs, fused optimizers.",
		    "pfw overlap", "The GPU waits for the host to launch its next kernel");
}

static int by_ns(const void *a, const void *b)
{
	const struct advice_time *x = a, *y = b;

	return (x->ns > y->ns) - (x->ns < y->ns);
}

/* A rank that takes a tenth longer than the median of three or more. */
static void find_slow_rank(struct search *search)
{
	struct advice *advice = search->advice;
	const struct advice_time *slowest, *middle;

	if (advice->ranks < 3)
		return;
	qsort(advice->rank, advice->ranks, sizeof(*advice->rank), by_ns);
	slowest = &advice->rank[advice->ranks - 1];
	middle = &advice->rank[(advice->ranks - 1) / 2];
	if ((double)slowest->ns < 1.1 * (double)middle->ns)
		return;
	/* All others wait for it. */
	add(search, "slow_rank", (slowest->ns - middle->ns) * (int64_t)advice->ranks,
	    "Look at what that rank does and where it runs: its data, its node, its GPU's clock.",
	    "pfw overlap --steps",
	    "Rank %" PRId64
	    " takes %.0f %% longer in its steps than the median rank, and the others wait",
	    slowest->rank, 100 * ((double)slowest->ns / (double)middle->ns - 1));
}

static int by_rank(const void *a, const void *b)
{
	const struct advice_time *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return by_ns(a, b);
}

/* Steps of more than twice the median of their rank, of ten or more; the first one warms up. */
static void find_slow_steps(struct search *search)
{
	struct advice *advice = search->advice;
	const struct advice_time *longest = NULL;
	int64_t cost = 0;
	size_t slow = 0;

	if (advice->steps)
		qsort(advice->step, advice->steps, sizeof(*advice->step), by_rank);
	for (size_t i = 0, end; i < advice->steps; i = end) {
		int64_t middle;

		for (end = i;
		     end < advice->steps && advice->step[end].rank == advice->step[i].rank;)
			end++;
		middle = advice->step[i + (end - i - 1) / 2].ns;
		for (size_t j = end; end - i >= 10 && j > i && advice->step[j - 1].ns / 2 > middle;
		     j--) {
			cost += advice->step[j - 1].ns - middle;
			slow++;
			if (!longest || advice->step[j - 1].ns > longest->ns)
				longest = &advice->step[j - 1];
		}
	}
	if (longest && share(search, cost) >= WORTH)
		add(search, "slow_steps", cost,
		    "Compare such a step with another one: pfw table --step N, and pfw view --since step:N.",
		    "pfw overlap --steps",
		    "%s step%s more than twice as long as the median, the longest is step %" PRId64
		    " with %s",
		    cli_count(slow), slow == 1 ? " is" : "s are", longest->step,
		    cli_seconds(longest->ns));
}

static void find_small(struct search *search)
{
	int64_t small = figure(search, F_size_read_0_100) + figure(search, F_size_read_100_1k) +
			figure(search, F_size_write_0_100) + figure(search, F_size_write_100_1k);
	int64_t calls = figure(search, F_reads) + figure(search, F_writes);
	int64_t ns = gain(search, figure(search, F_data_us));

	if (calls < 1000 || small < calls / 2 || share(search, ns) < WORTH / 2)
		return;
	search->explained_ns = ns;
	add(search, "small_calls", ns,
	    "Read and write more at a time: buffered I/O, one file of many samples, larger chunks.",
	    "pfw patterns", "%s of %s reads and writes move less than 1 KB",
	    cli_count((uint64_t)small), cli_count((uint64_t)calls));
}

static void find_random(struct search *search)
{
	int64_t reads = figure(search, F_reads), ns = gain(search, figure(search, F_read_us));

	if (reads < 1000 || figure(search, F_read_random) < reads / 4 ||
	    share(search, ns) < WORTH / 2)
		return;
	search->explained_ns = ns;
	add(search, "random_reads", ns,
	    "Read in order of the file, or shuffle samples by blocks that are read whole.",
	    "pfw patterns", "%s of %s reads go back in their file",
	    cli_count((uint64_t)figure(search, F_read_random)), cli_count((uint64_t)reads));
}

static void find_metadata(struct search *search)
{
	int64_t ns = gain(search, figure(search, F_metadata_us));
	int64_t again = figure(search, F_opens_again), opens = figure(search, F_opens);
	bool repeated = again >= 100 && again > opens / 2;

	if (share(search, ns) < WORTH || figure(search, F_metadata_calls) < 1000 ||
	    (!repeated && figure(search, F_metadata_us) <= figure(search, F_data_us)))
		return;
	search->explained_ns = ns;
	if (repeated)
		add(search, "opened_again", ns, "Keep files open, or what was read from them.",
		    "pfw patterns",
		    "%s of %s opens are of a file that the process had opened before",
		    cli_count((uint64_t)again), cli_count((uint64_t)opens));
	else
		add(search, "metadata", ns,
		    "Put many small files into one, keep directory listings, stat less.",
		    "pfw patterns",
		    "%s calls that move no data (opens, stats, listings) take longer than reads and writes",
		    cli_count((uint64_t)figure(search, F_metadata_calls)));
}

static int by_cost(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;

	if (x->cost_ns != y->cost_ns)
		return x->cost_ns > y->cost_ns ? -1 : 1;
	return strcmp(x->rule, y->rule);
}

size_t advice_find(struct advice *advice, struct finding found[ADVICE_RULES])
{
	static void (*const rules[])(struct search *) = {
		find_loading, find_communication, find_idle,	 find_slow_rank, find_slow_steps,
		find_small,   find_random,	  find_metadata, find_io, /* the last: it has no cause */
	};
	struct search search = { .advice = advice, .found = found };

	use_steps(advice);
	for (size_t i = 0; advice->any && i < CLI_ARRAY_LEN(rules); i++)
		rules[i](&search);
	if (search.count)
		qsort(found, search.count, sizeof(*found), by_cost);
	return search.count;
}

void advice_release(struct advice *advice)
{
	free(advice->rank);
	free(advice->step);
	*advice = (struct advice){ .any = false };
}
