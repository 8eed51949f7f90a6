/* tools/top/print.c - the tables of `pfw top`. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/order.h"
#include "top/top.h"
#include "ui/grid.h"

/* A table's lines besides its rows: an empty one, its title, its head. */
#define FRAME_LINES 3u

struct page {
	const struct top *top;
	FILE *out;
	int format;
	size_t width, lines; /* lines: that are left; 0: no limit */
	bool limited;
};

/* A row of a table by name. */
struct row {
	const struct pfw_text_id *name;
	struct top_sums now, total;
};

static bool measured(const struct top *top)
{
	return top->looks > 1 && top->length_ns > 0;
}

static int64_t positive(int64_t number)
{
	return number > 0 ? number : 0;
}

static double per_second(const struct top *top, int64_t number)
{
	return (double)positive(number) * 1e9 / (double)top->length_ns;
}

/* ---- rows ---- */

static int compare_sums(enum top_sort sort, const struct top_sums *a, const struct top_sums *b)
{
	switch (sort) {
	case TOP_CALLS:
		return PFW_ORDER(b->calls, a->calls);
	case TOP_BYTES:
		return PFW_ORDER(b->bytes, a->bytes);
	case TOP_TIME:
		return PFW_ORDER(b->ns, a->ns);
	default:
		return 0;
	}
}

static int compare_rows(const void *a, const void *b, void *user)
{
	const enum top_sort *sort = user;
	const struct row *x = a, *y = b;

	return compare_sums(*sort, &x->now, &y->now) ?: compare_sums(*sort, &x->total, &y->total)
		       ?: strcmp(x->name->text, y->name->text);
}

static int compare_processes(const void *a, const void *b, void *user)
{
	const enum top_sort *sort = user;
	const struct top_process *x = *(struct top_process *const *)a,
				 *y = *(struct top_process *const *)b;

	return compare_sums(*sort, &x->now, &y->now) ?: PFW_ORDER(x->pid, y->pid);
}

static bool is_row(const struct row *row)
{
	return row->now.calls > 0 || row->total.calls > 0;
}

/* The rows of a tally, sorted; NULL: no memory. */
static struct row *rows_of(const struct top *top, const struct top_tally *now,
			   const struct top_tally *total, size_t *count)
{
	enum top_sort sort = top->sort;
	struct row *row = calloc((size_t)total->names.count + now->names.count + 1, sizeof(*row));

	*count = 0;
	for (uint32_t i = 0; row && i < total->names.count; i++) {
		struct row *new = &row[*count];

		*new = (struct row){ .name = &total->names.name[i], .total = total->sums[i] };
		new->now = top_tally_of(now, new->name);
		*count += is_row(new);
	}
	/* Beyond TOP_NAMES_MAX, the names of this interval are known all the same. */
	for (uint32_t i = 0; row && i < now->names.count; i++) {
		struct row *new = &row[*count];
		const struct pfw_text_id *name = &now->names.name[i];

		*new = (struct row){ .name = name, .now = now->sums[i] };
		*count += now->sums[i].calls > 0 &&
			  pfw_text_ids_find(&total->names, name->of, name->text, name->bytes) < 0;
	}
	if (row)
		qsort_r(row, *count, sizeof(*row), compare_rows, &sort);
	return row;
}

/* ---- cells ---- */

static void put_sums(struct grid *grid, const struct top *top, const struct top_sums *now)
{
	bool known = measured(top);
	const int64_t calls = positive(now->calls);

	GRID_PUT(grid, known ? (int64_t)(per_second(top, calls) + 0.5) : GRID_NO,
		 known ? (int64_t)per_second(top, now->bytes) : GRID_NO);
	if (known)
		grid_number(grid, GRID_PERCENT, per_second(top, now->ns) / 1e7);
	else
		grid_none(grid);
	GRID_PUT(grid, known ? calls : GRID_NO, known ? positive(now->bytes) : GRID_NO,
		 known ? positive(now->ns) : GRID_NO);
}

/* Calls and bytes per second, the share of the interval that calls took (more than 100 % with
 * threads), and for programs what these are made of. */
#define SUMS_COLUMNS                                                                        \
	{ "calls_per_s", "Calls/s", GRID_COUNT }, { "bytes_per_s", "Bytes/s", GRID_BYTES }, \
		{ "time_percent", "Time", GRID_PERCENT }, { "calls", NULL, GRID_COUNT },    \
		{ "bytes", NULL, GRID_BYTES },                                              \
	{                                                                                   \
		"time", NULL, GRID_NS                                                       \
	}

static void put_totals(struct grid *grid, const struct top *top, const struct top_sums *total)
{
	bool known = measured(top) || top->all;

	GRID_PUT(grid, known ? positive(total->calls) : GRID_NO,
		 known ? positive(total->bytes) : GRID_NO);
}

/* A text that is still escaped. */
static void put_escaped(struct grid *grid, const struct pfw_text_id *name)
{
	struct pfw_slice text = { .at = name->text, .bytes = name->bytes };
	char plain[8192];
	size_t bytes;

	text.escaped = memchr(text.at, '\\', text.bytes) != NULL;
	if (!text.escaped) {
		grid_text(grid, text.at, text.bytes);
		return;
	}
	bytes = pfw_slice_decode(&text, plain, sizeof(plain));
	grid_text(grid, plain, bytes);
}

/* A share of an interval; none if it was not measured. */
static void put_share(struct grid *grid, const struct top_rank *rank, int figure)
{
	if (!rank->wall_ns || rank->figure[figure] == OVERLAP_UNKNOWN)
		grid_none(grid);
	else
		grid_number(grid, GRID_PERCENT,
			    100.0 * (double)rank->figure[figure] / (double)rank->wall_ns);
}

/* ---- tables ---- */

/* How many of `count` rows a table may have, of a share of the lines that are left. */
static size_t rows_for(struct page *page, size_t count, size_t share)
{
	size_t most = page->top->row_limit < 0 ? SIZE_MAX : (size_t)page->top->row_limit;

	if (page->limited) {
		size_t room = page->lines / share;

		most = room > FRAME_LINES ? room - FRAME_LINES : 0;
		if (most > count)
			most = count;
		page->lines -= most ? most + FRAME_LINES : 0;
	}
	return count < most ? count : most;
}

static int print(struct page *page, struct grid *grid, const char *section, const char *title)
{
	bool rows = grid->cells != 0;
	int error;

	grid->none = "-";
	grid->kind = "type";
	grid->width = page->width;
	if (rows && cli_for_people(page->format))
		grid_title(page->out, page->format, title);
	if (rows)
		grid_print(grid, page->out, page->format, section);
	error = grid->failed ? -ENOMEM : 0;
	grid_release(grid);
	return error;
}

static int print_ranks(struct page *page)
{
	static const struct grid_column columns[] = {
		{ "rank", "Rank", GRID_ID },
		{ "processes", "Procs", GRID_COUNT },
		{ "step", "Step", GRID_ID },
		{ "steps_per_s", "Steps/s", GRID_NUMBER },
		{ "io_percent", "I/O", GRID_PERCENT },
		{ "unhidden_io_percent", "Unhidden I/O", GRID_PERCENT },
		{ "unhidden_io_per_step", "Unhidden/step", GRID_NS },
		{ "loader_wait_percent", "Loader wait", GRID_PERCENT },
		{ "gpu_busy_percent", "GPU busy", GRID_PERCENT },
		{ "run", "Run", GRID_TEXT },
	};
	struct grid grid = { .column = columns, .columns = CLI_ARRAY_LEN(columns) };
	const struct top *top = page->top;
	size_t shown = rows_for(page, top->ranks, 4);

	for (size_t i = 0; i < top->ranks && shown; i++) {
		const struct top_rank *rank = &top->rank[i];

		if (!rank->processes && !rank->added)
			continue;
		shown--;
		GRID_PUT(&grid, rank->rank >= 0 ? rank->rank : GRID_NO, rank->processes,
			 rank->step >= 0 ? rank->step : GRID_NO);
		grid_number(&grid, GRID_NUMBER,
			    rank->step < 0 || !measured(top) ? 0.0 / 0.0
							     : per_second(top, rank->steps));
		put_share(&grid, rank, OVERLAP_IO);
		put_share(&grid, rank, OVERLAP_IO_UNOVERLAPPED);
		grid_maybe(&grid, GRID_NS, rank->per_step_ns >= 0, rank->per_step_ns);
		put_share(&grid, rank, OVERLAP_LOAD);
		put_share(&grid, rank, OVERLAP_KERNELS);
		grid_text(&grid, rank->run, strlen(rank->run));
	}
	return print(page, &grid, "rank", "Ranks, in the interval before");
}

static const char *state_name(const struct top_process *process)
{
	static const char *const names[] = { "runs", "stopped", "paused", "ended", "killed" };

	return names[process->state];
}

static int print_processes(struct page *page)
{
	static const struct grid_column columns[] = {
		{ "pid", "Pid", GRID_ID },
		{ "program", "Program", GRID_TEXT },
		{ "rank", "Rank", GRID_ID },
		{ "state", "State", GRID_TEXT },
		SUMS_COLUMNS,
		{ "calls_total", "Calls", GRID_COUNT },
		{ "bytes_total", "Bytes", GRID_BYTES },
		{ "events", "Events", GRID_COUNT },
		{ "lost", "Lost", GRID_COUNT },
		{ "waited", NULL, GRID_COUNT },
		{ "waited_time", "Waited", GRID_NS },
		{ "step", NULL, GRID_ID },
		{ "complete", NULL, GRID_YES },
		{ "reason", NULL, GRID_TEXT },
		{ "trace", NULL, GRID_TEXT },
	};
	struct grid grid = { .column = columns, .columns = CLI_ARRAY_LEN(columns) };
	const struct top *top = page->top;
	size_t shown = rows_for(page, top->processes, 3);
	struct top_process **order = calloc(top->processes + 1, sizeof(struct top_process *));
	enum top_sort sort = top->sort;

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < top->processes; i++)
		order[i] = &top->process[i];
	qsort_r(order, top->processes, sizeof(*order), compare_processes, &sort);
	for (size_t i = 0; i < shown; i++) {
		const struct top_process *one = order[i];
		int64_t rank = top->rank[one->rank].rank;
		const char *state = state_name(one);

		grid_whole(&grid, GRID_ID, one->pid);
		grid_text(&grid, one->program, strlen(one->program));
		grid_maybe(&grid, GRID_ID, rank >= 0, rank);
		grid_text(&grid, state, strlen(state));
		put_sums(&grid, top, &one->now);
		put_totals(&grid, top, &one->total);
		GRID_PUT(&grid, one->events, one->lost, one->waited, one->waited_ns,
			 one->step >= 0 ? one->step : GRID_NO, !one->missed && !one->damaged);
		grid_text(&grid, *one->reason ? one->reason : NULL, strlen(one->reason));
		grid_text(&grid, one->path, strlen(one->path));
	}
	free(order);
	return print(page, &grid, "process", "Processes");
}

static void put_others(struct grid *grid, const struct top *top, const struct top_sums *now,
		       const struct top_sums *total, bool cat)
{
	static const char text[] = "(all other names)";

	if (now->calls <= 0 && total->calls <= 0)
		return;
	grid_text(grid, text, sizeof(text) - 1);
	if (cat)
		grid_none(grid);
	put_sums(grid, top, now);
	put_totals(grid, top, total);
}

static int print_names(struct page *page, bool calls, size_t share)
{
	static const struct grid_column call_columns[] = {
		{ "name", "Call", GRID_TEXT },
		{ "cat", "Cat", GRID_TEXT },
		SUMS_COLUMNS,
		{ "calls_total", "Calls", GRID_COUNT },
		{ "bytes_total", "Bytes", GRID_BYTES },
	};
	static const struct grid_column file_columns[] = {
		{ "fname", "File", GRID_TEXT },
		SUMS_COLUMNS,
		{ "calls_total", "Calls", GRID_COUNT },
		{ "bytes_total", "Bytes", GRID_BYTES },
	};
	struct grid grid = { .column = calls ? call_columns : file_columns,
			     .columns = calls ? CLI_ARRAY_LEN(call_columns)
					      : CLI_ARRAY_LEN(file_columns) };
	const struct top *top = page->top;
	const struct top_tally *now = calls ? &top->now.calls : &top->now.files;
	const struct top_tally *total = calls ? &top->total.calls : &top->total.files;
	size_t count, shown;
	struct row *row = rows_of(top, now, total, &count);

	if (!row)
		return -ENOMEM;
	shown = rows_for(page, count, share);
	for (size_t i = 0; i < shown; i++) {
		put_escaped(&grid, row[i].name);
		if (calls)
			put_escaped(&grid, &top->cats.name[row[i].name->of]);
		put_sums(&grid, top, &row[i].now);
		put_totals(&grid, top, &row[i].total);
	}
	if (shown == count)
		put_others(&grid, top, &now->others, &total->others, calls);
	free(row);
	return print(page, &grid, calls ? "call" : "file", calls ? "Calls" : "Files");
}

/* ---- the head ---- */

static uint64_t lost(const struct top *top)
{
	uint64_t sum = top->ended_lost;

	for (size_t i = 0; i < top->processes; i++)
		sum += top->process[i].lost;
	return sum;
}

size_t top_running(const struct top *top)
{
	size_t count = 0;

	for (size_t i = 0; i < top->processes; i++)
		count += top->process[i].state < TOP_ENDED;
	return count;
}

static int print_sample(struct page *page)
{
	static const struct grid_column columns[] = {
		{ "ts", NULL, GRID_TS },
		{ "interval", NULL, GRID_NS },
		{ "processes", NULL, GRID_COUNT },
		{ "events", NULL, GRID_COUNT },
		SUMS_COLUMNS,
		{ "lost", NULL, GRID_COUNT },
	};
	struct grid grid = { .column = columns, .columns = CLI_ARRAY_LEN(columns) };
	const struct top *top = page->top;

	GRID_PUT(&grid, top->looked_ns[0], measured(top) ? top->length_ns : GRID_NO,
		 top_running(top), measured(top) ? positive(top->events) : GRID_NO);
	put_sums(&grid, top, &top->sums);
	grid_u64(&grid, GRID_COUNT, lost(top));
	return print(page, &grid, "sample", NULL);
}

static void print_head(struct page *page)
{
	const struct top *top = page->top;
	time_t now = top->looked_ns[0] / 1000000000;
	bool coloured = cli_colours(stdout);
	char clock[16];
	struct tm tm;

	strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&now, &tm));
	fprintf(page->out, "%s  %s process%s", clock, cli_count(top_running(top)),
		top_running(top) == 1 ? "" : "es");
	if (measured(top))
		fprintf(page->out, ", %s calls/s, %s/s, %s events/s",
			cli_count((uint64_t)per_second(top, top->sums.calls)),
			cli_bytes((uint64_t)per_second(top, top->sums.bytes)),
			cli_count((uint64_t)per_second(top, top->events)));
	if (lost(top))
		fprintf(page->out, ", %s%s lost%s", cli_style(coloured, CLI_RED),
			cli_count(lost(top)), cli_style(coloured, CLI_PLAIN));
	if (page->limited)
		fprintf(page->out, "; by %s, every %s", top_sorts[top->sort],
			cli_seconds(top->interval_ns));
	fputc('\n', page->out);
}

int top_print(const struct top *top, FILE *out, int format, size_t width, size_t lines)
{
	struct page page = { .top = top, .out = out, .format = format, .width = width };
	int error = 0;

	page.limited = lines != 0;
	page.lines = lines ? lines - 1 : 0;
	if (cli_for_people(format))
		print_head(&page);
	else
		error = print_sample(&page);
	error = error ?: print_ranks(&page) ?: print_processes(&page);
	error = error ?: print_names(&page, true, 2);
	return error ?: print_names(&page, false, 1);
}
