/* patterns_print.c - how files are used: in all, by rank, by file. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "grid.h"
#include "patterns.h"

/* ---- rows ---- */

struct row {
	const char *section; /* all, rank, file */
	int64_t rank;
	const char *name; /* of a file */
	size_t bytes;
	uint64_t files, ranks;
	struct pfw_pattern sum;
	struct pfw_pattern_counters counters;
};

static uint64_t moved(const struct row *row)
{
	return row->sum.side[0].bytes + row->sum.side[1].bytes;
}

static int by_bytes(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	size_t least = x->bytes < y->bytes ? x->bytes : y->bytes;
	int order;

	if (moved(x) != moved(y))
		return moved(x) < moved(y) ? 1 : -1;
	order = memcmp(x->name, y->name, least);
	return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* The processes of several ranks are others. */
static void add(struct row *row, const struct pfw_pattern *pattern)
{
	uint64_t processes = row->sum.processes + pattern->processes;

	pfw_pattern_merge(&row->sum, pattern);
	row->sum.processes = processes;
	row->files++;
	row->ranks++;
}

/* Files of all ranks, by name.  Their number, or -ENOMEM. */
static ssize_t join_files(const struct pfw_patterns *found, struct row *row)
{
	struct pfw_names names = { 0 };
	ssize_t result = 0;

	for (size_t i = 0; i < found->rows && result >= 0; i++) {
		size_t bytes;
		const char *name = pfw_patterns_name(found, i, &bytes);
		int64_t number = pfw_names_of(&names, 0, name, bytes);

		if (number < 0) {
			result = -ENOMEM;
			break;
		}
		row[number].section = "file";
		row[number].name = name;
		row[number].bytes = bytes;
		row[number].rank = row[number].ranks ? -1 : pfw_patterns_rank(found, i);
		add(&row[number], &found->row[i]);
		row[number].files = 1;
		result = names.count;
	}
	pfw_names_release(&names);
	return result;
}

static void add_counters(struct row *row, const struct pfw_pattern_counters *counters)
{
	for (unsigned i = 0; i < 2; i++) {
		row->counters.io[i] += counters->io[i];
		row->counters.storage[i] += counters->storage[i];
	}
	row->counters.any |= counters->any;
}

static void join_rank(const struct patterns *patterns, size_t number, struct row *row)
{
	const struct patterns_rank *rank = &patterns->rank[number];

	row->section = "rank";
	row->rank = rank->rank;
	add_counters(row, &rank->counters);
	for (size_t i = 0; i < patterns->found.rows; i++) {
		if (pfw_patterns_rank(&patterns->found, i) == rank->rank)
			add(row, &patterns->found.row[i]);
	}
	row->ranks = 1;
}

/* ---- columns ---- */

static const struct grid_column columns[] = {
	{ "section", NULL },
	{ "fname", "File" },
	{ "rank", NULL },
	{ "files", NULL },
	{ "ranks", "Ranks" },
	{ "processes", NULL },
	{ "opens", "Opens" },
	{ "opens_again", "Again" },
	{ "metadata_calls", NULL },
	{ "metadata_us", "Metadata" },
	{ "data_us", "Data" },
	{ "reads", "Reads" },
	{ "read_bytes", "Read" },
	{ "writes", "Writes" },
	{ "written_bytes", "Written" },
	{ "consecutive", "Consec." },
	{ "strided", "Strided" },
	{ "sequential", "Forward" },
	{ "random", "Random" },
	{ "small", "Small" },
	{ "unaligned", "Unaligned" },
	{ "switches", NULL },
#define SIDE(side)                                                                             \
	{ side "_first", NULL }, { side "_consecutive", NULL }, { side "_strided", NULL },     \
		{ side "_sequential", NULL }, { side "_random", NULL },                        \
		{ side "_unplaced", NULL }, { side "_behind", NULL }, { side "_small", NULL }, \
		{ side "_unaligned", NULL }, { side "_max_byte", NULL }, { side "_us", NULL }, \
		{ "size_" side "_0_100", NULL }, { "size_" side "_100_1k", NULL },             \
		{ "size_" side "_1k_10k", NULL }, { "size_" side "_10k_100k", NULL },          \
		{ "size_" side "_100k_1m", NULL }, { "size_" side "_1m_4m", NULL },            \
		{ "size_" side "_4m_10m", NULL }, { "size_" side "_10m_100m", NULL },          \
		{ "size_" side "_100m_1g", NULL },                                             \
	{                                                                                      \
		"size_" side "_1g_plus", NULL                                                  \
	}
	SIDE("read"),
	SIDE("write"),
#undef SIDE
	{ "calls_read_bytes", NULL },
	{ "calls_written_bytes", NULL },
	{ "storage_read_bytes", NULL },
	{ "storage_written_bytes", NULL },
};

static void put_share(struct grid *grid, uint64_t part, uint64_t all)
{
	grid_number(grid, GRID_PERCENT, all ? 100.0 * (double)part / (double)all : NAN);
}

static uint64_t both(const struct pfw_pattern *sum, enum pfw_access access)
{
	return sum->side[0].access[access] + sum->side[1].access[access];
}

/* Of the accesses that have one before them, and whose place is known. */
static void put_shares(struct grid *grid, const struct pfw_pattern *sum)
{
	static const enum pfw_access kinds[] = { PFW_ACCESS_CONSECUTIVE, PFW_ACCESS_STRIDED,
						 PFW_ACCESS_SEQUENTIAL, PFW_ACCESS_RANDOM };
	uint64_t accesses = sum->side[0].accesses + sum->side[1].accesses, followers = 0;
	uint64_t placed = accesses - both(sum, PFW_ACCESS_UNPLACED);

	for (unsigned i = 0; i < 4; i++)
		followers += both(sum, kinds[i]);
	for (unsigned i = 0; i < 4; i++)
		put_share(grid, both(sum, kinds[i]), followers);
	put_share(grid, sum->side[0].small + sum->side[1].small, accesses);
	put_share(grid, sum->side[0].unaligned + sum->side[1].unaligned, placed);
}

static void put_count(struct grid *grid, uint64_t count)
{
	grid_whole(grid, GRID_COUNT, count > INT64_MAX ? INT64_MAX : (int64_t)count);
}

static void put_bytes(struct grid *grid, uint64_t bytes)
{
	grid_whole(grid, GRID_BYTES, bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes);
}

static void put_side(struct grid *grid, const struct pfw_pattern_side *side)
{
	for (unsigned i = 0; i < PFW_ACCESSES; i++)
		put_count(grid, side->access[i]);
	put_count(grid, side->behind);
	put_count(grid, side->small);
	put_count(grid, side->unaligned);
	if (side->end)
		put_bytes(grid, side->end - 1);
	else
		grid_none(grid);
	grid_whole(grid, GRID_NS, side->ns);
	for (unsigned i = 0; i < PFW_PATTERN_SIZES; i++)
		put_count(grid, side->size[i]);
}

static void put_name(struct grid *grid, const struct row *row)
{
	char text[32];

	grid_text(grid, row->section, strlen(row->section));
	if (row->name) {
		grid_text(grid, row->name, row->bytes);
		return;
	}
	snprintf(text, sizeof(text), row->section[0] == 'r' ? "(rank %" PRId64 ")" : "(all files)",
		 row->rank);
	grid_text(grid, text, strlen(text));
}

static void put_row(struct grid *grid, const struct row *row)
{
	const struct pfw_pattern *sum = &row->sum;

	put_name(grid, row);
	if (row->rank >= 0)
		grid_whole(grid, GRID_COUNT, row->rank);
	else
		grid_none(grid);
	put_count(grid, row->files);
	put_count(grid, row->ranks);
	if (row->name)
		put_count(grid, sum->processes);
	else
		grid_none(grid); /* one process uses many files */
	put_count(grid, sum->opens);
	put_count(grid, sum->again);
	put_count(grid, sum->others);
	grid_whole(grid, GRID_NS, sum->metadata_ns);
	grid_whole(grid, GRID_NS, sum->side[0].ns + sum->side[1].ns);
	for (unsigned i = 0; i < 2; i++) {
		put_count(grid, sum->side[i].calls);
		put_bytes(grid, sum->side[i].bytes);
	}
	put_shares(grid, sum);
	put_count(grid, sum->switches);
	put_side(grid, &sum->side[0]);
	put_side(grid, &sum->side[1]);
	for (unsigned i = 0; i < 4; i++) {
		if (row->counters.any)
			put_bytes(grid, (i < 2 ? row->counters.io : row->counters.storage)[i % 2]);
		else
			grid_none(grid);
	}
}

/* ---- sizes, for people ---- */

static void print_sizes(const struct row *all, int format)
{
	static const struct grid_column size_columns[] = { { "size", "Size of one" },
							   { "reads", "Reads" },
							   { "read_share", "Share" },
							   { "writes", "Writes" },
							   { "write_share", "Share" } };
	static const char *const names[PFW_PATTERN_SIZES] = {
		"up to 100 bytes", "to 1 KiB",	"to 10 KiB",  "to 100 KiB", "to 1 MiB",
		"to 4 MiB",	   "to 10 MiB", "to 100 MiB", "to 1 GiB",   "more"
	};
	struct grid grid = { .column = size_columns, .columns = 5 };

	for (unsigned i = 0; i < PFW_PATTERN_SIZES; i++) {
		if (!all->sum.side[0].size[i] && !all->sum.side[1].size[i])
			continue;
		grid_text(&grid, names[i], strlen(names[i]));
		for (unsigned j = 0; j < 2; j++) {
			const struct pfw_pattern_side *side = &all->sum.side[j];

			put_count(&grid, side->size[i]);
			put_share(&grid, side->size[i], side->accesses);
		}
	}
	putchar('\n');
	if (!grid.failed)
		grid_print(&grid, stdout, format, NULL);
	grid_release(&grid);
}

static void print_counters(const struct row *all)
{
	const uint64_t *io = all->counters.io, *storage = all->counters.storage;

	if (!all->counters.any)
		return;
	printf("\nBy /proc/self/io: %s read by calls, %s of that from storage; ", cli_bytes(io[0]),
	       cli_bytes(storage[0]));
	printf("%s written by calls, %s to storage.\n", cli_bytes(io[1]), cli_bytes(storage[1]));
}

/* ---- all of it ---- */

static void put_rows(const struct patterns *patterns, struct grid *grid, struct row *all,
		     const struct row *file, size_t files)
{
	for (size_t i = 0; i < files; i++)
		add(all, &file[i].sum);
	for (size_t i = 0; i < patterns->ranks; i++)
		add_counters(all, &patterns->rank[i].counters);
	all->files = files;
	all->ranks = patterns->ranks;
	put_row(grid, all);
	for (size_t i = 0; i < patterns->ranks && patterns->ranks > 1; i++) {
		struct row rank = { 0 };

		join_rank(patterns, i, &rank);
		put_row(grid, &rank);
	}
	for (size_t i = 0; i < files; i++) {
		if (patterns->row_limit >= 0 && i >= (size_t)patterns->row_limit)
			break;
		put_row(grid, &file[i]);
	}
}

int patterns_print(const struct patterns *patterns)
{
	struct grid grid = { .column = columns, .columns = CLI_ARRAY_LEN(columns) };
	struct row *file = calloc(patterns->found.rows + 1, sizeof(*file));
	struct row all = { .section = "all", .rank = -1 };
	ssize_t files = file ? join_files(&patterns->found, file) : -ENOMEM;
	int error = files < 0 ? -ENOMEM : 0;

	if (!error) {
		qsort(file, (size_t)files, sizeof(*file), by_bytes);
		put_rows(patterns, &grid, &all, file, (size_t)files);
		error = grid.failed ? -ENOMEM : 0;
	}
	if (!error)
		grid_print(&grid, stdout, patterns->format, NULL);
	if (!error && (patterns->format == CLI_TEXT || patterns->format == CLI_MD)) {
		print_sizes(&all, patterns->format);
		print_counters(&all);
	}
	grid_release(&grid);
	free(file);
	return error;
}
