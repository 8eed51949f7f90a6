/* tools/advice/figures.c - takes the figures from the rows of commands; see figures.h. */
#include "advice/figures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/line/io.h"
#include "store/traces/traces.h"

static const char *const keys[COLUMNS] = {
#define X(key) [C_##key] = #key,
	OVERLAP_FIGURES(X) PATTERNS_FIGURES(X) OTHER_COLUMNS(X)
#undef X
};

/* The figures come first among the columns, in the same order. */
_Static_assert((int)F_storage_read_bytes == (int)C_storage_read_bytes, "figures are columns");

/* Find the columns of a grid, unless it is of the same section as the one before: a command may
 * print each row by itself. */
static void find_columns(struct advice *advice, const struct grid *grid, const char *section)
{
	const char *name = section ? section : "";

	if (advice->columns == grid->column && strcmp(advice->section, name) == 0)
		return;
	advice->columns = grid->column;
	snprintf(advice->section, sizeof(advice->section), "%s", name);
	for (unsigned i = 0; i < COLUMNS; i++)
		advice->place[i] = grid_place(grid, keys[i]);
}

/* A row, and where its texts are. */
struct row {
	struct advice *advice;
	const struct grid *grid;
	const struct grid_cell *cell;
	const char *section; /* NULL: a column says it */
};

static int64_t whole_of(const struct row *row, unsigned which, int64_t otherwise)
{
	return grid_number_at(row->grid, row->cell, row->advice->place[which], otherwise);
}

/* The text of a cell, cut; "" where there is none. */
static void text_of(const struct row *row, unsigned which, char *out, size_t size)
{
	size_t place = row->advice->place[which];
	const struct grid_cell *cell = place < row->grid->columns ? &row->cell[place] : NULL;
	bool text = cell && (cell->kind == GRID_TEXT || cell->kind == GRID_DIGITS);

	snprintf(out, size, "%.*s", text ? (int)cell->bytes : 0,
		 text ? row->grid->text.data + cell->text : "");
}

static bool is_of(const struct row *row, const char *wanted)
{
	char text[16];

	if (row->section)
		return strcmp(row->section, wanted) == 0;
	text_of(row, C_section, text, sizeof(text));
	return strcmp(text, wanted) == 0;
}

static void take_figures(const struct row *row, int64_t figure[FIGURES], unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		figure[i] = whole_of(row, i, UNKNOWN);
}

static void add_figure(struct advice *advice, enum figure which, int64_t value)
{
	pfw_saturate_sum(&advice->figure[which], value);
}

static int add_time(struct advice_time **time, size_t *count, size_t *room, int64_t rank,
		    int64_t step, int64_t ns)
{
	const struct advice_time one = { rank, step, ns };

	return ns == UNKNOWN ? 0 : PFW_PUSH(*time, *count, *room, one);
}

/* ---- pfw overlap ---- */

/* Add the figures of a step to those of an edge, if the step is that edge. */
static void add_edge(const struct row *row, struct advice_edge *edge, int64_t step, bool farther)
{
	if (!edge->ranks || farther)
		*edge = (struct advice_edge){ .step = step };
	if (step != edge->step)
		return;
	edge->ranks++;
	for (unsigned i = 0; i < F_PATTERNS; i++)
		pfw_saturate_sum(&edge->in[i], whole_of(row, i, 0));
}

/* Note how long a step of a rank took, and add what was in it. */
static int take_step(const struct row *row, int64_t rank)
{
	struct advice *advice = row->advice;
	int64_t step = whole_of(row, C_step, UNKNOWN);

	if (step == UNKNOWN)
		return 0;
	add_edge(row, &advice->first, step, step < advice->first.step);
	add_edge(row, &advice->last, step, step > advice->last.step);
	for (unsigned i = 0; i < F_PATTERNS; i++)
		pfw_saturate_sum(&advice->in_steps[i], whole_of(row, i, 0));
	return add_time(&advice->step, &advice->steps, &advice->step_room, rank, step,
			whole_of(row, C_wall, UNKNOWN));
}

static int take_overlap(const struct row *row)
{
	struct advice *advice = row->advice;
	int64_t rank = whole_of(row, C_rank, -1);

	if (is_of(row, "all")) {
		take_figures(row, advice->figure, 0, F_PATTERNS);
		advice->any = true;
	} else if (is_of(row, "rank")) {
		return add_time(&advice->rank, &advice->ranks, &advice->rank_room, rank, -1,
				whole_of(row, C_steps_own, UNKNOWN));
	} else if (is_of(row, "step")) {
		return take_step(row, rank);
	}
	return 0;
}

/* ---- pfw patterns ---- */

/* Programs map their libraries, which are no input. */
static bool is_library(const char *name)
{
	const char *at = strstr(name, ".so");

	return at && (at[3] == '\0' || at[3] == '.');
}

/* The file with the most time in its calls, and what is mapped. */
static int take_patterns(const struct row *row)
{
	struct advice *advice = row->advice;
	int64_t ns, mapped;
	char name[sizeof(advice->top_file)];

	if (is_of(row, "all"))
		take_figures(row, advice->figure, F_PATTERNS, F_OTHER);
	if (!is_of(row, "file"))
		return 0;
	text_of(row, C_fname, name, sizeof(name));
	ns = whole_of(row, C_data_us, 0) + whole_of(row, C_metadata_us, 0);
	if (*name && ns > advice->top_ns) {
		advice->top_ns = ns;
		memcpy(advice->top_file, name, sizeof(name));
	}
	mapped = is_library(name) ? 0 : whole_of(row, C_mapped_bytes, 0);
	pfw_saturate_sum(&advice->mapped, mapped);
	if (mapped > advice->mapped_top) {
		advice->mapped_top = mapped;
		memcpy(advice->mapped_file, name, sizeof(name));
	}
	return 0;
}

/* ---- pfw table ---- */

static bool is_one(const char *name, const char *const *names)
{
	while (*names && strcmp(name, *names) != 0)
		names++;
	return *names;
}

static const char *const locks[] = { "flock", "lockf", "fcntl", NULL };
static const char *const syncs[] = {
	"fsync", "fdatasync", "sync_file_range", "syncfs", "sync", NULL
};

/* Locks among the threads of a process. */
static bool is_mutex(const char *name)
{
	return !strncmp(name, "pthread_mutex_", 14) || !strncmp(name, "pthread_rwlock_", 15);
}

static void take_call(const struct row *row, const char *name)
{
	int64_t count = whole_of(row, C_count, 0), ns = whole_of(row, C_total, 0);

	if (is_one(name, locks)) {
		add_figure(row->advice, F_lock_calls, count);
		add_figure(row->advice, F_lock_ns, ns);
	} else if (is_mutex(name)) {
		add_figure(row->advice, F_mutex_calls, count);
		add_figure(row->advice, F_mutex_ns, ns);
	} else if (is_one(name, syncs)) {
		add_figure(row->advice, F_sync_calls, count);
		add_figure(row->advice, F_sync_ns, ns);
	}
}

/* The kind of a call: the place of its bit in enum advice_calls. */
static unsigned calls_of(const char *name)
{
	const struct pfw_slice text = { .at = name, .bytes = strlen(name) };
	static const unsigned char bits[] = { [PFW_ROLE_OPEN] = ADVICE_OPENS,
					      [PFW_ROLE_READ] = ADVICE_READS,
					      [PFW_ROLE_WRITE] = ADVICE_WRITES,
					      [PFW_ROLE_COPY] = ADVICE_READS,
					      [PFW_ROLE_OTHER] = ADVICE_OTHERS };
	enum pfw_call_role role = pfw_io_call_named(&text).role;

	if (is_one(name, locks))
		return (unsigned)__builtin_ctz(ADVICE_LOCKS);
	if (is_mutex(name))
		return (unsigned)__builtin_ctz(ADVICE_MUTEXES);
	if (is_one(name, syncs))
		return (unsigned)__builtin_ctz(ADVICE_WRITES);
	return (unsigned)__builtin_ctz(bits[role] ? bits[role] : ADVICE_OTHERS);
}

/* Add the time of calls to their line of code. */
static int take_line(const struct row *row, const char *name)
{
	struct advice *advice = row->advice;
	struct advice_line found = { .ns = { 0 } };
	size_t i = 0;

	text_of(row, C_line, found.text, sizeof(found.text));
	if (!*found.text)
		return 0;
	while (i < advice->lines && strcmp(advice->line[i].text, found.text) != 0)
		i++;
	if (i == advice->lines && PFW_PUSH(advice->line, advice->lines, advice->line_room, found))
		return -ENOMEM;
	pfw_saturate_sum(&advice->line[i].ns[calls_of(name)], whole_of(row, C_total, 0));
	return 0;
}

/* A worker: a process that its parent forked; if some are known to be a DataLoader's, only those. */
static int take_process(const struct row *row, const char *name)
{
	struct advice *advice = row->advice;
	int64_t ns = whole_of(row, C_total, 0);
	bool loader = strstr(name, "DataLoader worker ");

	if (!strstr(name, " worker ") || (advice->loaders && !loader))
		return 0;
	if (loader && !advice->loaders) {
		advice->loaders = true;
		advice->workers = 0;
		advice->top_worker_ns = 0;
	}
	if (ns > advice->top_worker_ns) {
		advice->top_worker_ns = ns;
		snprintf(advice->top_worker, sizeof(advice->top_worker), "%s", name);
	}
	return add_time(&advice->worker, &advice->workers, &advice->worker_room, -1, -1, ns);
}

static int take_table(const struct row *row)
{
	char name[128];

	if (!is_of(row, "io"))
		return 0;
	text_of(row, C_name, name, sizeof(name));
	if (row->advice->place[C_line] < row->grid->columns)
		return take_line(row, name);
	if (*name)
		take_call(row, name);
	text_of(row, C_process, name, sizeof(name));
	return *name ? take_process(row, name) : 0;
}

/* ---- pfw memory, pfw counters ---- */

/* The first two steps of a device make what later ones use again. */
static int take_memory(const struct row *row)
{
	struct advice *advice = row->advice;
	int64_t step = whole_of(row, C_step, UNKNOWN), growth = whole_of(row, C_growth_bytes, 0);

	if (!is_of(row, "step") || step == UNKNOWN)
		return 0;
	if (advice->growth_steps && step <= advice->growth_step)
		advice->growth_steps = 0;
	advice->growth_step = step;
	if (++advice->growth_steps <= 2)
		return 0;
	add_figure(advice, F_steps_seen, 1);
	add_figure(advice, F_steps_grown, growth > 0);
	add_figure(advice, F_grown_bytes, growth);
	return 0;
}

/* The process that grows most, if it grows all the time: half of the growth is reached in the mean,
 * and the last quarter is never far below that mean.  Steps of a loaded machine vary in time. */
static int take_rss(const struct row *row)
{
	struct advice *advice = row->advice;
	const struct advice_growth now = { .rank = whole_of(row, C_rank, -1),
					   .pid = whole_of(row, C_pid, 0),
					   .least = whole_of(row, C_min, 0),
					   .mean = whole_of(row, C_mean, 0),
					   .last = whole_of(row, C_last, 0) };
	const struct advice_growth *half = advice->half;
	int64_t grown;

	while (half && half < advice->half + advice->halves &&
	       (half->pid != now.pid || half->rank != now.rank))
		half++;
	if (!half || half == advice->half + advice->halves)
		return PFW_PUSH(advice->half, advice->halves, advice->half_room, now);
	grown = half->last - half->least;
	if (half->mean - half->least >= grown / 4 && half->mean - half->least <= grown / 4 * 3 &&
	    now.least >= half->mean - grown / 4 && grown > advice->figure[F_rss_grown]) {
		advice->figure[F_rss_grown] = grown;
		advice->figure[F_rss_last] = half->last;
		advice->figure[F_rss_pid] = half->pid;
	}
	return 0;
}

static int take_counters(const struct row *row)
{
	char name[32], key[16];

	text_of(row, C_name, name, sizeof(name));
	text_of(row, C_key, key, sizeof(key));
	if (strcmp(name, "page faults") == 0 && strcmp(key, "major") == 0)
		add_figure(row->advice, F_major_faults, whole_of(row, C_total, 0));
	else if (strcmp(name, "memory") == 0 && strcmp(key, "rss") == 0)
		return take_rss(row);
	return 0;
}

void advice_see(struct advice *advice, const struct pfw_traces *traces)
{
	for (size_t i = 0; i < traces->count; i++)
		advice->stacks |= traces->file[i].head.stacks;
}

int advice_take(struct advice *advice, const char *command, const struct grid *grid,
		const char *section)
{
	static const struct {
		const char *command;
		int (*take)(const struct row *row);
	} commands[] = { { "overlap", take_overlap },
			 { "patterns", take_patterns },
			 { "table", take_table },
			 { "memory", take_memory },
			 { "counters", take_counters } };
	struct row row = { .advice = advice, .grid = grid, .section = section };
	size_t which = 0;
	int error = 0;

	while (which < CLI_ARRAY_LEN(commands) && strcmp(commands[which].command, command) != 0)
		which++;
	if (which == CLI_ARRAY_LEN(commands))
		return 0;
	find_columns(advice, grid, section);
	for (size_t i = 0; i < grid->cells && !error; i += grid->columns) {
		row.cell = &grid->cell[i];
		error = commands[which].take(&row);
	}
	return error;
}

void advice_release(struct advice *advice)
{
	free(advice->rank);
	free(advice->step);
	free(advice->worker);
	free(advice->half);
	free(advice->line);
	*advice = (struct advice){ .any = false };
}
