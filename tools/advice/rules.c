/* tools/advice/rules.c - the rules; see advice.h. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "advice/advice.h"
#include "common/base/order.h"

/* ---- figures ---- */

static int by_ns(const void *a, const void *b)
{
	const struct advice_time *x = a, *y = b;

	return PFW_ORDER(x->ns, y->ns);
}

/* Whether an edge's step is the program's start or end as well: over twice the median's time. */
static bool stands_out(const struct advice_edge *edge, int64_t median)
{
	return edge->ranks && edge->in[F_wall] / (int64_t)edge->ranks / 2 > median;
}

/* Where there are steps, what counts is what happens in them, not how long the program took to
 * start or to end. */
static void use_steps(struct advice *advice)
{
	bool first, last;
	int64_t median;

	if (!advice->steps)
		return;
	qsort(advice->step, advice->steps, sizeof(*advice->step), by_ns);
	median = advice->step[(advice->steps - 1) / 2].ns;
	first = stands_out(&advice->first, median);
	last = stands_out(&advice->last, median);
	for (unsigned i = 0; i < F_launches; i++)
		if (advice->figure[i] != UNKNOWN)
			advice->figure[i] = advice->in_steps[i] -
					    (first ? advice->first.in[i] : 0) -
					    (last ? advice->last.in[i] : 0);
}

/* ---- rules ---- */

struct search {
	struct advice *advice;
	struct finding *found;
	size_t count;
	int64_t explained_ns; /* of I/O that no compute hides: by a finding that says why */
	int64_t stalls_ns;    /* by a finding that says which steps are long */
	char line[ADVICE_LINE + 64];
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

/* The most time that a change of I/O calls can save: the I/O that no compute hides. */
static int64_t gain(const struct search *search, int64_t ns)
{
	int64_t most = figure(
		search, search->advice->figure[F_compute] == UNKNOWN ? F_io : F_io_unoverlapped);

	return ns < most ? ns : most;
}

/* ", most of those with a stack in FILE(LINE): FUNCTION": the line of code that spent most time in
 * such calls; "": none has a stack.  `calls`: bits of enum advice_calls.  Lasts until the next. */
static const char *in_line(struct search *search, unsigned calls)
{
	const struct advice_line *most = NULL;
	int64_t most_ns = 0;

	for (size_t i = 0; i < search->advice->lines; i++) {
		const struct advice_line *line = &search->advice->line[i];
		int64_t ns = 0;

		for (unsigned j = 0; j < ADVICE_CALLS; j++)
			ns += calls >> j & 1 ? line->ns[j] / ADVICE_CALLS : 0;
		if (ns > most_ns) {
			most_ns = ns;
			most = line;
		}
	}
	if (!most)
		return "";
	snprintf(search->line, sizeof(search->line), ", most of those with a stack in %s",
		 most->text);
	return search->line;
}

/* A smaller cost disappears in the noise of a run. */
#define LEAST_NS INT64_C(10000000)

/* Add a finding that costs `ns`; a cost that is not measured is not said. */
__attribute__((format(printf, 6, 7))) static void add(struct search *search, const char *rule,
						      int64_t ns, const char *remedy,
						      const char *query, const char *format, ...)
{
	struct finding *one = &search->found[search->count];
	va_list values;
	int bytes;

	if (ns != ADVICE_NO_COST && ns < LEAST_NS)
		return;
	search->count++;
	*one = (struct finding){ .rule = rule,
				 .cost_ns = ns,
				 .share = ns == ADVICE_NO_COST ? 0 : share(search, ns),
				 .remedy = remedy,
				 .query = query };
	va_start(values, format);
	bytes = vsnprintf(one->text, sizeof(one->text), format, values);
	va_end(values);
	if (ns != ADVICE_NO_COST && bytes >= 0 && (size_t)bytes < sizeof(one->text))
		snprintf(one->text + bytes, sizeof(one->text) - (size_t)bytes,
			 ": %s, %.1f %% of the time of all %s", cli_seconds(ns),
			 100 * share(search, ns), search->advice->steps ? "steps" : "ranks");
	cli_clean(one->text);
}

/* A tenth of the time is worth a look; smaller gains are mostly noise. */
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
	    "No compute hides I/O; of reads (%s) and writes (%s), %s takes the most%s",
	    cli_seconds(reads), cli_seconds(writes),
	    *search->advice->top_file ? search->advice->top_file : "files without a name",
	    in_line(search, ~0u));
}

/* Of three workers or more, one whose I/O takes twice the median's: its batches come last. */
static bool find_slow_worker(struct search *search, int64_t load)
{
	struct advice *advice = search->advice;
	int64_t slowest, middle;

	if (advice->workers < 3)
		return false;
	qsort(advice->worker, advice->workers, sizeof(*advice->worker), by_ns);
	slowest = advice->worker[advice->workers - 1].ns;
	middle = advice->worker[(advice->workers - 1) / 2].ns;
	if (slowest / 2 < middle || slowest - middle < load / 2)
		return false;
	add(search, "slow_worker", slowest - middle < load ? slowest - middle : load,
	    "Look at which samples that worker reads, and where from; shuffle large samples among workers.",
	    "pfw table --group-by=process",
	    "The steps wait for one worker: the I/O of process %s takes %s, of the median worker %s",
	    advice->top_worker, cli_seconds(slowest), cli_seconds(middle));
	return true;
}

static void find_loading(struct search *search)
{
	int64_t load = figure(search, F_load);
	size_t workers = search->advice->workers;

	if (share(search, load) < WORTH)
		return;
	PFW_RAISE(search->explained_ns, figure(search, F_io_load)); /* it is how they wait */
	if (find_slow_worker(search, load))
		return;
	add(search, "loader", load,
	    "Give the DataLoader more workers (num_workers), or less to do for each batch.",
	    "pfw overlap --steps",
	    "The steps wait for the DataLoader, of which %s process%s %s forked",
	    workers ? cli_count(workers) : "no", workers > 1 ? "es" : "",
	    workers > 1 ? "were" : "was");
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

	return PFW_ORDER(x->rank, y->rank) ?: by_ns(a, b);
}

/* Whether a step is the first of these, which warms up, or the last: the program may end in it. */
static bool is_edge(int64_t number, const struct advice_time *step, size_t count)
{
	bool first = true, last = true;

	for (size_t i = 0; i < count; i++) {
		first &= step[i].step >= number;
		last &= step[i].step <= number;
	}
	return first || last;
}

/* Steps of more than twice the median of their rank, of ten or more. */
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
			if (is_edge(advice->step[j - 1].step, &advice->step[i], end - i))
				continue;
			cost += advice->step[j - 1].ns - middle;
			slow++;
			if (!longest || advice->step[j - 1].ns > longest->ns)
				longest = &advice->step[j - 1];
		}
	}
	if (longest && share(search, cost) >= WORTH && search->stalls_ns < cost / 2)
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
	PFW_RAISE(search->explained_ns, ns);
	add(search, "small_calls", ns,
	    "Read and write more at a time: buffered I/O, one file of many samples, larger chunks.",
	    "pfw patterns", "%s of %s reads and writes move less than 1 KB%s",
	    cli_count((uint64_t)small), cli_count((uint64_t)calls),
	    in_line(search, ADVICE_READS | ADVICE_WRITES));
}

static void find_random(struct search *search)
{
	int64_t reads = figure(search, F_reads), ns = gain(search, figure(search, F_read_us));

	if (reads < 1000 || figure(search, F_read_random) < reads / 4 ||
	    share(search, ns) < WORTH / 2)
		return;
	PFW_RAISE(search->explained_ns, ns);
	add(search, "random_reads", ns,
	    "Read in order of the file, or shuffle samples by blocks that are read whole.",
	    "pfw patterns", "%s of %s reads go back in their file%s",
	    cli_count((uint64_t)figure(search, F_read_random)), cli_count((uint64_t)reads),
	    in_line(search, ADVICE_READS));
}

/* Reads and writes at odd places, which file systems and direct I/O round up; in a row they are in
 * the page cache already. */
static void find_unaligned(struct search *search)
{
	int64_t calls = figure(search, F_reads) + figure(search, F_writes);
	int64_t odd = figure(search, F_read_unaligned) + figure(search, F_write_unaligned);
	int64_t in_a_row = figure(search, F_read_consecutive) + figure(search, F_write_consecutive);
	int64_t placed = calls - figure(search, F_read_unplaced) - figure(search, F_write_unplaced);
	int64_t ns = gain(search, figure(search, F_data_us));

	if (placed < 1000 || odd < placed / 2 || in_a_row >= placed / 2 ||
	    search->explained_ns >= ns / 2 || share(search, ns) < WORTH)
		return;
	PFW_RAISE(search->explained_ns, ns);
	add(search, "unaligned", ns,
	    "Begin records at multiples of 4 KiB, or read and write whole blocks of the file.",
	    "pfw patterns", "%s of %s reads and writes do not begin at a multiple of 4 KiB%s",
	    cli_count((uint64_t)odd), cli_count((uint64_t)placed),
	    in_line(search, ADVICE_READS | ADVICE_WRITES));
}

/* Bytes that had to come from storage, while nothing was computed. */
static void find_page_cache(struct search *search)
{
	int64_t storage = figure(search, F_storage_read_bytes);
	int64_t calls = figure(search, F_calls_read_bytes),
		ns = gain(search, figure(search, F_read_us));

	if (storage < INT64_C(16) << 20 || storage < calls / 2 || share(search, ns) < WORTH ||
	    search->explained_ns >= ns / 2)
		return;
	PFW_RAISE(search->explained_ns, ns);
	add(search, "page_cache", ns,
	    "Keep the data on a faster disk or in memory, read ahead, or read each file once.",
	    "pfw patterns", "The page cache misses: of %s that calls read, %s came from storage%s",
	    cli_bytes((uint64_t)calls), cli_bytes((uint64_t)storage),
	    in_line(search, ADVICE_READS));
}

static void find_locks(struct search *search)
{
	int64_t ns = gain(search, figure(search, F_lock_ns));

	if (share(search, ns) < WORTH)
		return;
	PFW_RAISE(search->explained_ns, ns);
	add(search, "lock_wait", ns, "Hold locks shorter, or give each process a file of its own.",
	    "pfw query --where 'name =~ \"^(flock|lockf|fcntl)$\"' --sort-by=-dur --limit=20",
	    "%s calls of flock, lockf and fcntl wait for locks, on average %s%s",
	    cli_count((uint64_t)figure(search, F_lock_calls)),
	    cli_time(figure(search, F_lock_ns) / figure(search, F_lock_calls)),
	    in_line(search, ADVICE_LOCKS));
}

/* Several threads may wait at one time, which is gained once. */
static void find_mutexes(struct search *search)
{
	int64_t ns = figure(search, F_mutex_ns), any = figure(search, F_wait);

	PFW_LOWER(ns, any);
	if (share(search, ns) < WORTH)
		return;
	add(search, "thread_lock_wait", ns,
	    "Hold the lock shorter, give each thread data of its own, or use more than one lock.",
	    "pfw table --cat SYNC --group-by=fname,name",
	    "%s calls wait for locks that other threads of the process hold, on average %s%s",
	    cli_count((uint64_t)figure(search, F_mutex_calls)),
	    cli_time(figure(search, F_mutex_ns) / figure(search, F_mutex_calls)),
	    in_line(search, ADVICE_MUTEXES));
}

/* Large writes, and waiting until they are on storage. */
static void find_checkpoints(struct search *search)
{
	int64_t writes = figure(search, F_writes), sync = figure(search, F_sync_ns);
	int64_t all = figure(search, F_write_us) + sync, ns = gain(search, all);

	if ((!search->advice->steps && search->advice->figure[F_compute] == UNKNOWN) ||
	    share(search, ns) < WORTH || ns < gain(search, INT64_MAX) / 2 || !writes ||
	    figure(search, F_written_bytes) / writes < 64 << 10)
		return;
	PFW_RAISE(search->explained_ns, ns);
	search->stalls_ns = ns;
	add(search, "checkpoint", ns,
	    "Write checkpoints in the background (torch.distributed.checkpoint.async_save), less often, or to a faster disk.",
	    "pfw table --group-by=fname --sort-by=total",
	    "The program waits for its checkpoints: %s writes of %s take %s, %s syncs %s%s",
	    cli_count((uint64_t)writes), cli_bytes((uint64_t)figure(search, F_written_bytes)),
	    cli_seconds(figure(search, F_write_us)),
	    cli_count((uint64_t)figure(search, F_sync_calls)), cli_seconds(sync),
	    in_line(search, ADVICE_WRITES));
}

static void find_metadata(struct search *search)
{
	/* Locks and syncs have rules of their own. */
	int64_t all = figure(search, F_metadata_us) - figure(search, F_lock_ns) -
		      figure(search, F_sync_ns);
	int64_t ns = gain(search, all);
	int64_t again = figure(search, F_opens_again), opens = figure(search, F_opens);
	bool repeated = again >= 100 && again > opens / 2;

	if (share(search, ns) < WORTH || figure(search, F_metadata_calls) < 1000 ||
	    (!repeated && all <= figure(search, F_data_us)))
		return;
	PFW_RAISE(search->explained_ns, ns);
	if (repeated)
		add(search, "opened_again", ns, "Keep files open, or what was read from them.",
		    "pfw patterns",
		    "%s of %s opens are of a file that the process had opened before%s",
		    cli_count((uint64_t)again), cli_count((uint64_t)opens),
		    in_line(search, ADVICE_OPENS));
	else
		add(search, "metadata", ns,
		    "Put many small files into one, keep directory listings, stat less.",
		    "pfw patterns",
		    "%s calls that move no data (opens, stats, listings) take longer than reads and writes%s",
		    cli_count((uint64_t)figure(search, F_metadata_calls)),
		    in_line(search, ADVICE_OPENS | ADVICE_OTHERS));
}

/* Mapped input makes no calls; only page faults show that the program waits for it. */
static void find_faults(struct search *search)
{
	int64_t faults = figure(search, F_major_faults), wall = figure(search, F_wall);
	const struct advice *advice = search->advice;
	bool many = faults >= 1000 && faults / 10 >= wall / INT64_C(1000000000);

	if (advice->mapped >= INT64_C(64) << 20 && advice->mapped > figure(search, F_read_bytes))
		add(search, "mapped_input", ADVICE_NO_COST,
		    "Read large files by calls, which can be timed and made ahead (readahead, madvise help mapped ones).",
		    "pfw patterns",
		    "%s of files are mapped, more than calls read, most of it of %s; of %s major page faults "
		    "no time is known",
		    cli_bytes((uint64_t)advice->mapped), advice->mapped_file,
		    many ? cli_count((uint64_t)faults) : "their");
	else if (many)
		add(search, "page_faults", ADVICE_NO_COST,
		    "Give the program more memory, or let it need less: it swaps, or its mapped files leave memory.",
		    "pfw counters --name 'page faults'",
		    "The program waited for storage in %s major page faults",
		    cli_count((uint64_t)faults));
}

/* A leak: in nearly each step, or in all the second half of the run. */
static void find_growth(struct search *search)
{
	int64_t seen = figure(search, F_steps_seen), grown = figure(search, F_steps_grown);
	int64_t bytes = figure(search, F_grown_bytes), rss = figure(search, F_rss_grown);
	const char *remedy =
		"Look for what keeps results: lists of losses with their graphs (use loss.item()), caches.";

	if (seen >= 8 && grown >= seen / 10 * 9 && bytes >= 64 << 20)
		add(search, "memory_growth", ADVICE_NO_COST, remedy, "pfw memory",
		    "Memory grows in %s of %s steps, by %s a step", cli_count((uint64_t)grown),
		    cli_count((uint64_t)seen), cli_bytes((uint64_t)(bytes / seen)));
	else if (rss >= 64 << 20 && rss >= figure(search, F_rss_last) / 10)
		add(search, "memory_growth", ADVICE_NO_COST, remedy, "pfw counters --name memory",
		    "The memory of process %" PRId64
		    " grows in all of the second half of the time, by %s to %s",
		    figure(search, F_rss_pid), cli_bytes((uint64_t)rss),
		    cli_bytes((uint64_t)figure(search, F_rss_last)));
}

static int by_cost(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;

	return PFW_ORDER(y->cost_ns, x->cost_ns) ?: strcmp(x->rule, y->rule);
}

size_t advice_find(struct advice *advice, struct finding found[ADVICE_RULES])
{
	static void (*const rules[])(struct search *) = {
		find_loading,	  find_communication, find_idle,       find_slow_rank,
		find_small,	  find_random,	      find_metadata,   find_locks,
		find_checkpoints, find_page_cache,    find_unaligned,  find_mutexes,
		find_faults,	  find_growth,	      find_slow_steps, /* unless they are explained */
		find_io,
	};
	struct search search = { .advice = advice, .found = found };

	use_steps(advice);
	for (size_t i = 0; advice->any && i < CLI_ARRAY_LEN(rules); i++)
		rules[i](&search);
	if (search.count)
		qsort(found, search.count, sizeof(*found), by_cost);
	return search.count;
}
