/* tools/patterns/print.c - prints the use of files: of all, by rank, by file. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "patterns/patterns.h"
#include "share/survey.h"
#include "share/unrecorded.h"
#include "ui/cli.h"
#include "ui/fit.h"
#include "ui/grid.h"

/* ---- rows ---- */

/* A file of all ranks: its figures are in the row of the first of them. */
struct joined {
	uint32_t row, ranks;
};

static uint64_t moved(const struct pfw_pattern *pattern)
{
	return pattern->side[0].bytes + pattern->side[1].bytes;
}

static int by_bytes(const void *a, const void *b, void *user)
{
	const struct pfw_patterns *found = user;
	uint32_t x = ((const struct joined *)a)->row, y = ((const struct joined *)b)->row;
	uint64_t of_x = moved(&found->row[x]), of_y = moved(&found->row[y]);
	size_t bytes, other_bytes;
	const char *name = pfw_patterns_name(found, x, &bytes);
	const char *other = pfw_patterns_name(found, y, &other_bytes);
	int order;

	if (of_x != of_y)
		return of_x < of_y ? 1 : -1;
	order = memcmp(name, other, bytes < other_bytes ? bytes : other_bytes);
	return order ? order : (bytes > other_bytes) - (bytes < other_bytes);
}

void patterns_add(struct patterns_row *row, const struct pfw_pattern *pattern)
{
	pfw_pattern_add(&row->sum, pattern);
	row->files++;
	row->ranks++;
}

/* A file that only has calls which the conditions leave out is in no row. */
static bool is_counted(const struct patterns *patterns, size_t number)
{
	const struct pfw_select_globs *fname = &patterns->select.fname;
	const struct pfw_pattern *row = &patterns->found.row[number];
	struct pfw_slice name = { .escaped = false };

	name.at = pfw_patterns_name(&patterns->found, number, &name.bytes);
	/* --fname may select only one file of a copy. */
	return pfw_pattern_counted(row) && (!fname->count || pfw_select_globs_match(fname, name));
}

/* Merge the files of all ranks by name, each into its first row: a copy of all rows would double
 * the memory.  Return their number, or -ENOMEM. */
static ssize_t join_files(struct patterns *patterns, struct joined *file)
{
	struct pfw_patterns *found = &patterns->found;
	struct pfw_text_ids names = { 0 };
	ssize_t result = 0;

	for (uint32_t i = 0; i < found->rows && result >= 0; i++) {
		size_t bytes;
		const char *name = pfw_patterns_name(found, i, &bytes);
		int64_t number;

		if (!is_counted(patterns, i))
			continue;
		number = pfw_text_ids_of(&names, 0, name, bytes);
		if (number < 0) {
			result = -ENOMEM;
			break;
		}
		if (file[number].ranks++)
			pfw_pattern_add(&found->row[file[number].row], &found->row[i]);
		else
			file[number].row = i;
		result = names.count;
	}
	pfw_text_ids_release(&names);
	return result;
}

static struct patterns_row row_of(const struct pfw_patterns *found, const struct joined *file)
{
	struct patterns_row row = { .section = "file",
				    .rank = -1,
				    .files = 1,
				    .ranks = file->ranks,
				    .sum = found->row[file->row] };

	row.name = pfw_patterns_name(found, file->row, &row.bytes);
	if (file->ranks == 1)
		row.rank = pfw_patterns_rank(found, file->row);
	return row;
}

static int by_rank(const void *key, const void *row)
{
	int64_t rank = *(const int64_t *)key, other = ((const struct patterns_row *)row)->rank;

	return (rank > other) - (rank < other);
}

/* Merge the files of each rank; row[] is all zero, and has one for each. */
static void join_ranks(const struct patterns *patterns, struct patterns_row *row)
{
	for (size_t i = 0; i < patterns->ranks; i++)
		row[i].rank = patterns->rank[i].rank;
	for (size_t i = 0; i < patterns->found.rows; i++) {
		int64_t rank = pfw_patterns_rank(&patterns->found, i);
		struct patterns_row *its =
			bsearch(&rank, row, patterns->ranks, sizeof(*row), by_rank);

		if (its && is_counted(patterns, i)) {
			patterns_add(its, &patterns->found.row[i]);
			its->ranks = 1;
		}
	}
}

static int64_t io_ns(const struct patterns_row *row)
{
	return row->sum.metadata_ns + row->sum.side[0].ns + row->sum.side[1].ns;
}

/* ---- columns ---- */

static const struct grid_column columns[] = {
	{ "section", NULL, GRID_TEXT },
	{ "fname", "File", GRID_TEXT },
	{ "rank", NULL, GRID_COUNT },
	{ "files", NULL, GRID_COUNT },
	{ "ranks", "Ranks", GRID_COUNT },
	{ "processes", NULL, GRID_COUNT },
	{ "opens", "Opens", GRID_COUNT },
	{ "opens_again", "Again", GRID_COUNT },
	{ "metadata_calls", NULL, GRID_COUNT },
	{ "metadata_us", "Metadata", GRID_NS },
	{ "data_us", "Data", GRID_NS },
	{ "reads", "Reads", GRID_COUNT },
	{ "read_bytes", "Read", GRID_BYTES },
	{ "writes", "Writes", GRID_COUNT },
	{ "written_bytes", "Written", GRID_BYTES },
	{ "consecutive", "Consec.", GRID_PERCENT },
	{ "strided", "Strided", GRID_PERCENT },
	{ "sequential", "Forward", GRID_PERCENT },
	{ "random", "Random", GRID_PERCENT },
	{ "small", "Small", GRID_PERCENT },
	{ "unaligned", "Unaligned", GRID_PERCENT },
	{ "switches", NULL, GRID_COUNT },
	{ "mapped_bytes", NULL, GRID_BYTES },
	{ "touched_bytes", NULL, GRID_BYTES },
#define SIDE(side)                                                                               \
	{ side "_first", NULL, GRID_COUNT }, { side "_consecutive", NULL, GRID_COUNT },          \
		{ side "_strided", NULL, GRID_COUNT }, { side "_sequential", NULL, GRID_COUNT }, \
		{ side "_random", NULL, GRID_COUNT }, { side "_unplaced", NULL, GRID_COUNT },    \
		{ side "_behind", NULL, GRID_COUNT }, { side "_small", NULL, GRID_COUNT },       \
		{ side "_unaligned", NULL, GRID_COUNT }, { side "_max_byte", NULL, GRID_BYTES }, \
		{ side "_us", NULL, GRID_NS }, { "size_" side "_0_100", NULL, GRID_COUNT },      \
		{ "size_" side "_100_1k", NULL, GRID_COUNT },                                    \
		{ "size_" side "_1k_10k", NULL, GRID_COUNT },                                    \
		{ "size_" side "_10k_100k", NULL, GRID_COUNT },                                  \
		{ "size_" side "_100k_1m", NULL, GRID_COUNT },                                   \
		{ "size_" side "_1m_4m", NULL, GRID_COUNT },                                     \
		{ "size_" side "_4m_10m", NULL, GRID_COUNT },                                    \
		{ "size_" side "_10m_100m", NULL, GRID_COUNT },                                  \
		{ "size_" side "_100m_1g", NULL, GRID_COUNT },                                   \
	{                                                                                        \
		"size_" side "_1g_plus", NULL, GRID_COUNT                                        \
	}
	SIDE("read"),
	SIDE("write"),
#undef SIDE
	{ "calls_read_bytes", NULL, GRID_BYTES },
	{ "calls_written_bytes", NULL, GRID_BYTES },
	{ "storage_read_bytes", NULL, GRID_BYTES },
	{ "storage_written_bytes", NULL, GRID_BYTES },
};

static void put_share(struct grid *grid, uint64_t part, uint64_t all)
{
	grid_number(grid, GRID_PERCENT, all ? 100.0 * (double)part / (double)all : NAN);
}

static uint64_t both(const struct pfw_pattern *sum, enum pfw_access access)
{
	return sum->side[0].access[access] + sum->side[1].access[access];
}

/* Shares among the accesses that have a predecessor and a known offset. */
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

static void put_side(struct grid *grid, const struct pfw_pattern_side *side)
{
	for (unsigned i = 0; i < PFW_ACCESSES; i++)
		GRID_PUT(grid, side->access[i]);
	GRID_PUT(grid, side->behind, side->small, side->unaligned,
		 side->end ? (int64_t)side->end - 1 : GRID_NO, side->ns);
	for (unsigned i = 0; i < PFW_PATTERN_SIZES; i++)
		GRID_PUT(grid, side->size[i]);
}

static void put_name(struct grid *grid, const struct patterns_row *row)
{
	char text[32];

	grid_text(grid, row->section, strlen(row->section));
	if (row->name) {
		grid_text(grid, row->name, row->bytes);
		return;
	}
	if (row->section[0] != 'r')
		snprintf(text, sizeof(text), "(all files)");
	else if (row->rank < 0)
		snprintf(text, sizeof(text), "(no rank)");
	else
		snprintf(text, sizeof(text), "(rank %" PRId64 ")", row->rank);
	grid_text(grid, text, strlen(text));
}

static void put_row(struct grid *grid, const struct patterns_row *row)
{
	const struct pfw_pattern *sum = &row->sum;

	put_name(grid, row);
	GRID_PUT(grid, row->rank >= 0 ? row->rank : GRID_NO, row->files, row->ranks);
	/* Only for a file, since a process uses many files. */
	GRID_PUT(grid, row->name ? (int64_t)sum->processes : GRID_NO, sum->opens, sum->again,
		 sum->others, sum->metadata_ns, sum->side[0].ns + sum->side[1].ns);
	for (unsigned i = 0; i < 2; i++) {
		GRID_PUT(grid, sum->side[i].calls, sum->side[i].bytes);
	}
	put_shares(grid, sum);
	GRID_PUT(grid, sum->switches, sum->mapped, sum->looked ? (int64_t)sum->touched : GRID_NO);
	put_side(grid, &sum->side[0]);
	put_side(grid, &sum->side[1]);
	for (unsigned i = 0; i < 4; i++)
		GRID_PUT(grid, row->counters.any
				       ? (i < 2 ? row->counters.io : row->counters.storage)[i % 2]
				       : GRID_NO);
}

/* ---- sizes, for people ---- */

static void print_sizes(const struct patterns_row *all, const struct survey *survey)
{
	static const struct grid_column size_columns[] = { { "size", "Size of one", GRID_TEXT },
							   { "reads", "Reads", GRID_COUNT },
							   { "read_share", "Share", GRID_PERCENT },
							   { "writes", "Writes", GRID_COUNT },
							   { "write_share", "Share",
							     GRID_PERCENT } };
	static const char *const names[PFW_PATTERN_SIZES] = {
		"up to 100 B", "to 1 KiB",  "to 10 KiB",  "to 100 KiB", "to 1 MiB",
		"to 4 MiB",    "to 10 MiB", "to 100 MiB", "to 1 GiB",	"more"
	};
	struct grid grid = { .column = size_columns, .columns = 5, .width = survey->width };

	for (unsigned i = 0; i < PFW_PATTERN_SIZES; i++) {
		if (!all->sum.side[0].size[i] && !all->sum.side[1].size[i])
			continue;
		grid_text(&grid, names[i], strlen(names[i]));
		for (unsigned j = 0; j < 2; j++) {
			const struct pfw_pattern_side *side = &all->sum.side[j];

			grid_u64(&grid, GRID_COUNT, side->size[i]);
			put_share(&grid, side->size[i], side->accesses);
		}
	}
	putchar('\n');
	if (!grid.failed)
		grid_print(&grid, stdout, survey->format, NULL);
	grid_release(&grid);
}

static void print_counters(const struct patterns_row *all)
{
	const uint64_t *io = all->counters.io, *storage = all->counters.storage;

	if (!all->counters.any)
		return;
	printf("\nBy /proc/self/io: %s read by calls, %s of that from storage; ", cli_bytes(io[0]),
	       cli_bytes(storage[0]));
	printf("%s written by calls, %s to storage.\n", cli_bytes(io[1]), cli_bytes(storage[1]));
}

/* ---- mapped files, for people ---- */

static int by_mapped(const void *a, const void *b, void *user)
{
	const struct pfw_patterns *found = user;
	uint64_t x = found->row[((const struct joined *)a)->row].mapped;
	uint64_t y = found->row[((const struct joined *)b)->row].mapped;

	return PFW_ORDER(y, x) ?: by_bytes(a, b, user);
}

/* ", 2.0 MiB touched", or nothing where no mapping was looked at. */
static const char *touched_of(const struct pfw_pattern *sum, char text[static 48])
{
	text[0] = '\0';
	if (sum->looked)
		snprintf(text, 48, ", %s touched", cli_bytes(sum->touched));
	return text;
}

/* "16.1 MiB of 2 files mapped, 2.0 MiB touched, not counted: /a (16.0 MiB, 2.0 MiB touched), /b
 * (100.0 KiB)". */
static void print_mapped(const struct patterns_few *few, const struct pfw_pattern *all)
{
	char touched[48];
	char names[PATTERNS_MAPPED_SHOWN * 2112] = "";
	size_t used = 0;

	for (size_t i = 0; i < few->mapped_shown && used < sizeof(names); i++) {
		const struct patterns_row *mapped = &few->mapped[i];
		char name[512];

		snprintf(name, sizeof(name), "%.*s", (int)mapped->bytes, mapped->name);
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s %s (%s%s)",
					 i ? "," : "", cli_name(name),
					 cli_bytes(mapped->sum.mapped),
					 touched_of(&mapped->sum, touched));
	}
	if (few->mapped_files) {
		putchar('\n');
		fit_words(stdout, 0, 0, "%s of %s file%s mapped%s, not counted:%s%s",
			  cli_bytes(few->mapped_bytes), cli_count(few->mapped_files),
			  cli_plural(few->mapped_files), touched_of(all, touched), names,
			  few->mapped_files > PATTERNS_MAPPED_SHOWN ? ", ..." : "");
	}
}

/* The files with most bytes mapped; file[] gets another order.  0 or -ENOMEM. */
static int find_mapped(struct pfw_patterns *found, struct joined *file, struct patterns_few *few)
{
	size_t count = 0;

	few->mapped = calloc(PATTERNS_MAPPED_SHOWN, sizeof(*few->mapped));
	if (!few->mapped)
		return -ENOMEM;
	for (size_t i = 0; i < few->files; i++) {
		few->mapped_bytes += found->row[file[i].row].mapped;
		if (found->row[file[i].row].mapped)
			file[count++] = file[i];
	}
	if (count)
		qsort_r(file, count, sizeof(*file), by_mapped, found);
	few->mapped_files = count;
	for (; few->mapped_shown < count && few->mapped_shown < PATTERNS_MAPPED_SHOWN;
	     few->mapped_shown++)
		few->mapped[few->mapped_shown] = row_of(found, &file[few->mapped_shown]);
	return 0;
}

/* ---- all of it ---- */

/* The rows of ranks with a counted call, or of the slowest of them.  0 or -ENOMEM. */
static int put_ranks(const struct patterns *patterns, struct grid *grid,
		     const struct patterns_row *rank)
{
	int64_t *score = calloc(patterns->ranks + 1, sizeof(*score));
	bool *shown;

	for (size_t i = 0; score && i < patterns->ranks; i++)
		score[i] = rank[i].files ? io_ns(&rank[i]) : -1;
	shown = score ? slowest_ranks(&patterns->survey, score, patterns->ranks) : NULL;
	for (size_t i = 0; shown && i < patterns->ranks; i++) {
		if (shown[i] && rank[i].files)
			put_row(grid, &rank[i]);
	}
	free(score);
	free(shown);
	return shown ? 0 : -ENOMEM;
}

static void put_rows(const struct patterns *patterns, const struct patterns_few *few,
		     struct grid *grid, const struct patterns_row *all)
{
	put_row(grid, all);
	if (patterns->ranks > 1 && put_ranks(patterns, grid, few->rank))
		grid->failed = true;
	for (size_t i = 0; i < few->shown; i++)
		put_row(grid, &few->file[i]);
}

/* The rows of the files that are shown.  0 or -ENOMEM. */
static int show_files(struct patterns *patterns, struct joined *file, struct patterns_few *few)
{
	int64_t limit = patterns->survey.row_limit;
	ssize_t files = join_files(patterns, file);

	if (files < 0)
		return -ENOMEM;
	few->files = few->shown = (size_t)files;
	if (limit >= 0 && (uint64_t)limit < few->files)
		few->shown = (size_t)limit;
	few->file = calloc(few->shown + 1, sizeof(*few->file));
	if (!few->file)
		return -ENOMEM;
	qsort_r(file, few->files, sizeof(*file), by_bytes, &patterns->found);
	for (size_t i = 0; i < few->shown; i++)
		few->file[i] = row_of(&patterns->found, &file[i]);
	return find_mapped(&patterns->found, file, few);
}

/* Join what was found to all files and all ranks.  0 or -ENOMEM. */
static int join(struct patterns *patterns, struct patterns_few *few)
{
	struct joined *file = calloc(patterns->found.rows + 1, sizeof(*file));
	int error = -ENOMEM;

	few->rank = calloc(patterns->ranks + 1, sizeof(*few->rank));
	if (file && few->rank) {
		join_ranks(patterns, few->rank);
		error = show_files(patterns, file, few);
	}
	free(file);
	return error;
}

/* The row of all files, from those of ranks. */
static struct patterns_row find_all(const struct patterns *patterns, struct patterns_few *few)
{
	struct patterns_row all = { .section = "all", .rank = -1 };

	for (size_t i = 0; i < patterns->ranks; i++) {
		few->rank[i].section = "rank";
		few->rank[i].rank = patterns->rank[i].rank;
		few->rank[i].counters = patterns->rank[i].counters;
		pfw_pattern_merge(&all.sum, &few->rank[i].sum);
		pfw_pattern_add_counters(&all.counters, &few->rank[i].counters);
		all.ranks += few->rank[i].ranks;
	}
	all.files = few->files;
	return all;
}

static int print(const struct patterns *patterns, struct patterns_few *few)
{
	static const char *const names[] = { "Ranks",	 "Strided",   "Forward", "Consec.",
					     "Again",	 "Unaligned", "Writes",	 "Reads",
					     "Metadata", "Small",     "Random",	 NULL };
	struct grid grid = { .column = columns,
			     .columns = CLI_ARRAY_LEN(columns),
			     .none = "-",
			     .width = patterns->survey.width,
			     .few = names };
	struct patterns_row all = find_all(patterns, few);
	bool people = cli_for_people(patterns->survey.format);
	int error;

	put_rows(patterns, few, &grid, &all);
	error = grid.failed ? -ENOMEM : 0;
	if (!error && people && !few->files) {
		if (!patterns->survey.quiet)
			unrecorded_say_none(
				patterns->survey.command, "call on a file is",
				select_args_but_rank(&patterns->select),
				": DFTRACER_DISABLE_IO=0, DFTRACER_DATA_DIR and PFW_CALLS record "
				"them");
		print_counters(&all);
	} else if (!error) {
		grid_print(&grid, stdout, patterns->survey.format, NULL);
	}
	if (!error && few->files && slowest_only(&patterns->survey, patterns->ranks))
		printf("\nThe %u ranks with most I/O time are shown: --all-ranks shows each\n",
		       SLOWEST_SHOWN);
	if (!error && people && few->files) {
		print_sizes(&all, &patterns->survey);
		print_counters(&all);
		print_mapped(few, &all.sum);
	}
	grid_release(&grid);
	return error;
}

int patterns_print(struct patterns *patterns)
{
	struct patterns_few joined = { .known = false };
	int error;

	if (patterns->few.known)
		return print(patterns, &patterns->few);
	error = join(patterns, &joined) ?: print(patterns, &joined);
	free(joined.file);
	free(joined.rank);
	free(joined.mapped);
	return error;
}
