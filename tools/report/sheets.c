/* tools/report/sheets.c - runs commands and keeps their rows: lines of ndjson, as the commands print them. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "report/report.h"
#include "share/survey.h"
#include "store/json/reader.h"
#include "store/kit/grow.h"
#include "store/kit/text_ids.h"

/* Of the rows, these parts are of the slowest steps. */
#define SLOWEST_PART 4u

/* Add the row of a step of a rank.  0 or -ENOMEM, as the next. */
static int add_step(struct report_steps *steps, int64_t number, int64_t wall_ns)
{
	int64_t place = pfw_pair_ids_of(&steps->numbers, (uint64_t)number, 0);

	if (place < 0 || PFW_REACH(steps->step, (size_t)place, steps->room))
		return -ENOMEM;
	steps->rows++;
	steps->wall_ns += (double)wall_ns;
	steps->step[place].number = number;
	PFW_RAISE(steps->step[place].wall_ns, wall_ns);
	return 0;
}

static int by_number(const void *a, const void *b)
{
	const struct report_step *const *x = a, *const *y = b;

	return PFW_ORDER((*x)->number, (*y)->number);
}

static int by_wall(const void *a, const void *b)
{
	const struct report_step *const *x = a, *const *y = b;

	return PFW_ORDER((*y)->wall_ns, (*x)->wall_ns) ?: by_number(a, b);
}

/* After all rows: choose steps that have about `most` of them. */
static int choose_steps(struct report_steps *steps, uint64_t most)
{
	size_t count = steps->numbers.count, slowest;
	struct report_step **order;

	steps->every = 1;
	if (steps->rows <= most)
		return 0;
	order = malloc(count * sizeof(*order));
	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		order[i] = &steps->step[i];
	steps->every = steps->rows / (most - most / SLOWEST_PART) + 1;
	qsort(order, count, sizeof(*order), by_number);
	for (size_t i = 0; i < count; i += steps->every)
		order[i]->kept = true;
	/* All ranks of a step are kept. */
	slowest = (size_t)(most / SLOWEST_PART * count / steps->rows);
	qsort(order, count, sizeof(*order), by_wall);
	for (size_t i = 0; i < slowest && i < count; i++)
		order[i]->kept = true;
	steps->slowest = slowest;
	free(order);
	return 0;
}

/* Whether rows of a step are kept; those of steps that were not added are. */
static bool has_step(const struct report_steps *steps, int64_t number)
{
	int64_t place;

	if (steps->every <= 1)
		return true;
	place = pfw_pair_ids_find(&steps->numbers, (uint64_t)number, 0);
	return place < 0 || steps->step[place].kept;
}

void report_steps_release(struct report_steps *steps)
{
	pfw_pair_ids_release(&steps->numbers);
	free(steps->step);
	*steps = (struct report_steps){ .rows = 0 };
}

/* With `out` set: no row yet.  Thread: one at a time. */
struct report_pack {
	FILE *out;
	bool rows;		/* some are written */
	struct pfw_reader last; /* the row that said the keys */
};

/* The key and the value of the next member, as written; false after the last one. */
static bool next(struct pfw_reader *reader, struct pfw_slice *key, struct pfw_slice *value)
{
	if (!pfw_reader_take(reader, '{') && !pfw_reader_take(reader, ','))
		return false;
	if (!pfw_reader_key(reader, key))
		return false;
	value->at = reader->at;
	if (!pfw_reader_skip(reader))
		return false;
	value->bytes = (size_t)(reader->at - value->at);
	return true;
}

static bool same_keys(struct pfw_reader row, struct pfw_reader last)
{
	struct pfw_slice key, other, value;

	while (next(&row, &key, &value)) {
		if (!next(&last, &other, &value) || key.bytes != other.bytes ||
		    memcmp(key.at, other.at, key.bytes) != 0)
			return false;
	}
	return !next(&last, &other, &value);
}

/* Write a row, an object; its text must stay until the last one. */
static void report_pack_row(struct report_pack *pack, const char *row, size_t bytes)
{
	const struct pfw_reader begin = { .at = row, .end = row + bytes };
	struct pfw_reader reader = begin;
	struct pfw_slice key, value;
	const char *between = "";

	if (!pack->last.at || !same_keys(begin, pack->last)) {
		fprintf(pack->out, "%s\n{\"keys\":[", pack->rows ? "," : "");
		for (; next(&reader, &key, &value); between = ",")
			fprintf(pack->out, "%s\"%.*s\"", between, (int)key.bytes, key.at);
		fputs("]}", pack->out);
		pack->last = reader = begin;
		pack->rows = true;
	}
	fputs(",\n", pack->out);
	for (between = "["; next(&reader, &key, &value); between = ",")
		fprintf(pack->out, "%s%.*s", between, (int)value.bytes, value.at);
	fputs("]", pack->out);
}

/* The commands and options of the sheets. */
struct sheet {
	const char *name;
	const struct cli_command *command;
	const char *word[4];
	bool rules; /* the rules of tools/advice look at it */
	bool lines; /* no index has it: only of a run of few lines, or if it is asked for */
	bool steps; /* its rows are of steps */
	bool peak;  /* --peak-tflops is for it, and asks for it */
	enum report_of of;
};

/* As TensorBoard's views of operators and kernels, and, of I/O, all columns. */
#define NAMES_COLUMNS                                                                                 \
	"--columns=count,self_cpu_time_total,self_cpu_percent,cpu_time_total,total_percent,cpu_time," \
	"min,p50,p95,p99,max,self_device_time_total,total_device_percent,device_time_total,"          \
	"device_time,flops,tensor_cores,bytes,mean_size,bandwidth"
#define SHAPES_COLUMNS                                                                  \
	"--columns=count,self_device_time_total,device_time_total,self_cpu_time_total," \
	"cpu_time_total"

static const struct sheet sheets[] = {
	{ "overlap", &cli_overlap, { "--steps", "--bins=120" }, .rules = true, .steps = true },
	{ "names", &cli_table, { "--row-limit=500", NAMES_COLUMNS }, .rules = true },
	{ "shapes",
	  &cli_table,
	  { "--group-by=shape", SHAPES_COLUMNS, "--row-limit=500" },
	  .rules = false },
	{ "launches",
	  &cli_table,
	  { "--group-by=name,operator,args.grid,args.block,args.registers,args.static_smem,args.dynamic_smem,"
	    "args.occupancy,args.blocks_per_sm",
	    "--columns=tensor_cores,count,device_time_total,device_time,max,min",
	    "--where=args.kind == 'kernel'", "--row-limit=500" },
	  .lines = true },
	{ "kinds",
	  &cli_table,
	  { "--group-by=step,args.kind",
	    "--columns=count,self_cpu_time_total,self_device_time_total", "--row-limit=-1" },
	  .lines = true,
	  .steps = true },
	{ "flops",
	  &cli_table,
	  { "--group-by=step", "--columns=self_flops,flops_per_second,peak_percent",
	    "--row-limit=500" },
	  .lines = true,
	  .peak = true },
	{ "files", &cli_table, { "--group-by=fname", "--row-limit=500" }, .rules = true },
	{ "patterns", &cli_patterns, { "--row-limit=500" }, .rules = true },
	{ "memory", &cli_memory, { "--bins=120", "--blocks=500" }, .rules = true },
	{ "compare", &cli_compare, { "--row-limit=500" }, .of = OF_BOTH },
	{ "before", &cli_overlap, { "--steps" }, .of = OF_BEFORE },
};

#define NO_STEP INT64_MIN

/* Of one command while it runs. */
struct running {
	struct report *report;
	const struct sheet *sheet;
	struct text {
		char *at;
		size_t bytes;
		FILE *out;
	} kinds, rows;		  /* of the columns: "key":"kind",...; lines of ndjson */
	struct pfw_text_ids keys; /* that are in `kinds` */
	/* How slow each rank is, and, of many, which are shown. */
	int64_t *rank, *score;
	bool *shown;
	size_t ranks, rank_room, score_room;
	size_t recent; /* the rank of the last step */
	int64_t *step; /* of each row; NO_STEP: it is of none */
	size_t lines, step_room;
	int error;
};

/* ---- rows ---- */

static const char *kind_name(enum grid_kind kind)
{
	switch (kind) {
	case GRID_NS:
		return "time";
	case GRID_TS:
		return "moment";
	case GRID_BYTES:
		return "bytes";
	case GRID_PERCENT:
		return "percent";
	case GRID_COUNT:
		return "count";
	case GRID_ID:
	case GRID_DIGITS:
		return "id";
	case GRID_NONE:
	case GRID_TEXT:
		return "text";
	default:
		return "number";
	}
}

/* Say of each column once what its values are. */
static int put_kinds(struct running *running, const struct grid *grid)
{
	for (size_t i = 0; i < grid->columns; i++) {
		const char *key = grid->column[i].key;
		uint32_t known = running->keys.count;
		int64_t number = pfw_text_ids_of(&running->keys, 0, key, strlen(key));

		if (number < 0)
			return (int)number;
		if (number == known)
			fprintf(running->kinds.out, "%s\"%s\":\"%s\"", known ? "," : "", key,
				kind_name(grid->column[i].kind));
	}
	return 0;
}

static int64_t number_of(const struct grid *grid, const struct grid_cell *row, const char *key)
{
	return grid_number_at(grid, row, grid_place(grid, key), -1);
}

/* How slow a rank is: by the time of its steps without waiting for others, else by its time. */
static int note_rank(struct running *running, const struct grid *grid, const struct grid_cell *row)
{
	int64_t rank = number_of(grid, row, "rank"), own = number_of(grid, row, "steps_own");

	if (rank < 0)
		return 0;
	if (PFW_ROOM(running->score, running->ranks, running->score_room) ||
	    PFW_ROOM(running->rank, running->ranks, running->rank_room))
		return -ENOMEM;
	running->rank[running->ranks] = rank;
	running->score[running->ranks++] = own > 0 ? own : number_of(grid, row, "wall");
	return 0;
}

static int note_ranks(struct running *running, const struct grid *grid)
{
	const struct survey people = { .format = CLI_TEXT };
	int error = 0;

	for (size_t i = 0; i < grid->cells && !error; i += grid->columns)
		error = note_rank(running, grid, &grid->cell[i]);
	if (!error && slowest_only(&people, running->ranks)) {
		free(running->shown);
		running->shown = slowest_ranks(&people, running->score, running->ranks);
		error = running->shown ? 0 : -ENOMEM;
	}
	return error;
}

static bool is_shown(struct running *running, const struct grid *grid, const struct grid_cell *row)
{
	size_t place = running->recent;
	int64_t rank = number_of(grid, row, "rank");

	/* The next row is mostly of the same rank or of the next one. */
	for (size_t i = 0; i < running->ranks; i++, place = (place + 1) % running->ranks) {
		if (running->rank[place] == rank) {
			running->recent = place;
			return running->shown[place];
		}
	}
	return true;
}

/* The rows of steps and bins of the slowest ranks; *grid gets cells of its own. */
static int keep_slow(struct running *running, struct grid *grid)
{
	struct grid_cell *cell = malloc((grid->cells + 1) * sizeof(*cell));
	size_t kept = 0;

	if (!cell)
		return -ENOMEM;
	for (size_t i = 0; i < grid->cells; i += grid->columns) {
		if (!is_shown(running, grid, &grid->cell[i]))
			continue;
		memcpy(cell + kept, grid->cell + i, grid->columns * sizeof(*cell));
		kept += grid->columns;
	}
	grid->cell = cell;
	grid->cells = kept;
	return 0;
}

/* A step is a number in rows of pfw overlap, and digits, or nothing, in those of pfw table. */
static int64_t step_at(const struct grid *grid, const struct grid_cell *row, size_t place)
{
	char digits[24];

	if (place == grid->columns || row[place].kind != GRID_DIGITS)
		return grid_number_at(grid, row, place, NO_STEP);
	if (!row[place].bytes || row[place].bytes >= sizeof(digits))
		return NO_STEP;
	memcpy(digits, grid->text.data + row[place].text, row[place].bytes);
	digits[row[place].bytes] = '\0';
	return strtoll(digits, NULL, 10);
}

/* Note the steps of rows, of which the page may have only some. */
static int note_steps(struct running *running, const struct grid *grid, const char *section)
{
	bool overlap = running->sheet == sheets;
	size_t place = overlap && strcmp(section, "step") != 0 ? grid->columns
							       : grid_place(grid, "step");
	int error = 0;

	for (size_t i = 0; i < grid->cells && !error; i += grid->columns) {
		const struct grid_cell *row = &grid->cell[i];
		int64_t step = running->sheet->steps ? step_at(grid, row, place) : NO_STEP;

		error = PFW_PUSH(running->step, running->lines, running->step_room, step);
		if (!error && overlap && step != NO_STEP)
			error = add_step(&running->report->steps, step,
					 number_of(grid, row, "wall"));
	}
	return error;
}

static void take_rows(void *user, const struct grid *grid, const char *section)
{
	struct running *running = user;
	struct grid copy = *grid; /* grid_write() forgets its cells */

	if (!running->error)
		running->error = put_kinds(running, grid);
	if (!running->error && running->sheet->rules)
		running->error = advice_take(&running->report->advice,
					     running->sheet->command->name, grid, section);
	if (!running->error && section && strcmp(section, "rank") == 0)
		running->error = note_ranks(running, grid);
	if (section && strcmp(section, "all") == 0 && running->sheet == sheets && grid->cells)
		running->report->events = number_of(grid, grid->cell, "events");
	if (!running->error && running->shown && section &&
	    (strcmp(section, "step") == 0 || strcmp(section, "bin") == 0))
		running->error = keep_slow(running, &copy);
	if (!running->error)
		running->error = note_steps(running, &copy, section ? section : "");
	if (running->error)
		return;
	grid_write(&copy, running->rows.out, CLI_NDJSON, section);
	if (copy.cell != grid->cell)
		free(copy.cell);
}

static void take_message(void *user, const char *text)
{
	advice_note(&((struct running *)user)->report->notes, text);
}

/* ---- a command ---- */

void report_put_words(const struct report *report, enum report_of of, struct host_words *words)
{
	for (size_t i = 0; i < report->options; i++) {
		/* This command always reads all runs. */
		if (of != OF_BOTH || strcmp(report->words.word[i], "--all-runs") != 0)
			host_word(words, report->words.word[i]);
	}
	for (size_t i = 0; i < report->before.count && of != OF_RUN; i++)
		host_word(words, report->before.file[i].path);
	if (of != OF_RUN && !report->before.count)
		host_word(words, report->against);
	if (of == OF_BOTH)
		host_word(words, "--");
	if (of != OF_BEFORE)
		host_list(words, report->words.word + report->options,
			  report->words.count - report->options);
}

/* Whether it may read all lines of a large run: only if it was asked for. */
static bool may_read(void *user, const char *lacks)
{
	const struct running *running = user;
	const struct report *report = running->report;
	const char *group = running->sheet->word[0];
	char text[300];

	if (report->events <= REPORT_LINES || (running->sheet->peak && report->peak))
		return true;
	snprintf(
		text, sizeof(text),
		"%s is in no index, and this run is too large to read it whole each time: pfw table %s shows it",
		lacks ? lacks : "a trace without an index", group);
	advice_note(&running->report->notes, text);
	return false;
}

static int run_command(struct running *running)
{
	struct report *report = running->report;
	const struct sheet *sheet = running->sheet;
	const struct host host = { .user = running,
				   .say = take_message,
				   .stop = report->survey.stop,
				   .rows = take_rows,
				   .lines = sheet->lines ? may_read : NULL };
	struct host_words words = { .count = 0 };

	host_word(&words, "--format=ndjson");
	host_list(&words, sheet->word, CLI_ARRAY_LEN(sheet->word));
	if (sheet->peak && report->peak)
		host_word(&words, report->peak);
	report_put_words(report, sheet->of, &words);
	report->advice.columns = NULL;
	return host_run(&host, sheet->command, &words);
}

/* The rows as an array: at most REPORT_ROWS of them, of the chosen steps. */
static void put_rows(struct running *running)
{
	struct report *report = running->report;
	struct report_pack pack = { .out = report->json };
	size_t rows = 0, left_out = 0, line = 0;

	fprintf(report->json, "%s\n\"%s\":{\"command\":\"%s\",\"kinds\":{%s},\"rows\":[",
		running->sheet == sheets ? "" : ",", running->sheet->name,
		running->sheet->command->name, running->kinds.at);
	for (char *at = running->rows.at, *end; (end = strchr(at, '\n')); at = end + 1) {
		int64_t step = running->step[line++];

		if (rows == REPORT_ROWS || (step != NO_STEP && !has_step(&report->steps, step))) {
			left_out++;
			continue;
		}
		if (report->packed)
			report_pack_row(&pack, at, (size_t)(end - at));
		else
			fprintf(report->json, "%s\n%.*s", rows ? "," : "", (int)(end - at), at);
		rows++;
	}
	fprintf(report->json, "],\"left_out\":%zu}", left_out);
}

static int open_text(struct text *text)
{
	text->out = open_memstream(&text->at, &text->bytes);
	return text->out ? 0 : -ENOMEM;
}

static int close_text(struct text *text)
{
	return !text->out || fclose(text->out) ? -ENOMEM : 0;
}

static int make_sheet(struct report *report, const struct sheet *sheet)
{
	struct running running = { .report = report, .sheet = sheet };
	int status = CLI_USAGE;

	running.error = open_text(&running.kinds);
	if (open_text(&running.rows) == 0 && !running.error)
		status = run_command(&running);
	if (close_text(&running.kinds) | close_text(&running.rows))
		running.error = -ENOMEM;
	if (running.error && status <= CLI_PROBLEMS) {
		advice_note(&report->notes, strerror(-running.error));
		status = CLI_USAGE;
	}
	if (status <= CLI_PROBLEMS && sheet == sheets &&
	    choose_steps(&report->steps, REPORT_STEP_ROWS)) {
		advice_note(&report->notes, strerror(ENOMEM));
		status = CLI_USAGE;
	}
	if (status <= CLI_PROBLEMS)
		put_rows(&running);
	free(running.step);
	free(running.kinds.at);
	free(running.rows.at);
	free(running.rank);
	free(running.score);
	free(running.shown);
	pfw_text_ids_release(&running.keys);
	return status;
}

int report_sheets(struct report *report)
{
	bool md = strcmp(report->format, "md") == 0;
	int worst = CLI_OK;

	for (size_t i = 0; i < CLI_ARRAY_LEN(sheets); i++) {
		int status = CLI_OK;

		/* Markdown has no such table, or the command prints it. */
		if (md && (sheets[i].of != OF_RUN ||
			   (sheets[i].lines && !(sheets[i].peak && report->peak))))
			continue;
		if (sheets[i].of == OF_RUN || report->against)
			status = make_sheet(report, &sheets[i]);

		if (status > CLI_PROBLEMS)
			return status;
		PFW_RAISE(worst, status);
	}
	return worst;
}
