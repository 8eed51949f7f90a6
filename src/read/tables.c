/* read/tables.c - the tables of commands as streams of one batch: pfw_read_table(); see pfw/read.h.
 *
 * A table is what the command computes, so the command computes it: it runs in the calling thread,
 * with a host (tools/ui/host.h) that takes its rows and its messages.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "read/arrow.h"
#include "read/internal.h"
#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "ui/cli.h"
#include "ui/host.h"

/* A table while it is made, and the stream that gives it. */
struct table {
	struct pfw_read *read;
	const struct cli_command *command;
	char **word; /* of the command */
	size_t words, room;
	/* Its rows. */
	struct pfw_read_known known[PFW_READ_COLUMNS];
	struct pfw_read_columns columns;
	struct pfw_read_batch *batch; /* NULL: no row or column yet; or given */
	struct pfw_read_texts texts;
	bool sections;	    /* the first column */
	const char *wanted; /* the section that is given; NULL: all */
	/* Its messages: the last one says why there is no table. */
	char **message;
	size_t messages;
	int error;
};

static const struct cli_command *const commands[] = { &cli_table, &cli_overlap, &cli_patterns,
						      &cli_memory, &cli_compare };

static const char *const memory_sections[] = { "device", "step", "owner", "unfreed", "time" };

/* ---- rows ---- */

static void add_column(struct table *table, const char *name, enum grid_kind of)
{
	static const uint8_t kinds[] = { [GRID_TYPE_TEXT] = PFW_READ_TEXT,
					 [GRID_TYPE_WHOLE] = PFW_READ_INT,
					 [GRID_TYPE_REAL] = PFW_READ_REAL,
					 [GRID_TYPE_FLAG] = PFW_READ_FLAG };
	struct pfw_read_columns *columns = &table->columns;

	if (columns->count == PFW_READ_COLUMNS) {
		table->error = -EOVERFLOW;
		return;
	}
	table->known[columns->count] =
		(struct pfw_read_known){ .name = name, .kind = kinds[grid_type(of)] };
	columns->column[columns->count] = columns->count;
	columns->count++;
}

/* The columns are those of the first grid: a table has one. */
static void begin(struct table *table, const struct grid *grid, const char *section)
{
	table->columns.known = table->known;
	table->sections = section != NULL;
	if (section)
		add_column(table, grid->kind ? grid->kind : "section", GRID_TEXT);
	for (size_t i = 0; i < grid->columns; i++)
		add_column(table, grid->column[i].key, grid->column[i].kind);
	if (!table->error && !(table->batch = pfw_read_batch_new(&table->columns, 0, NULL)))
		table->error = -ENOMEM;
}

static bool is_double(enum grid_kind kind)
{
	return kind == GRID_PERCENT || kind == GRID_CHANGE || kind == GRID_NUMBER ||
	       kind == GRID_SIX || kind == GRID_FIXED || kind == GRID_WHOLE;
}

static void put_whole(struct table *table, unsigned place, const struct grid *grid,
		      const struct grid_cell *cell)
{
	char digits[24];

	if (cell->kind == GRID_DIGITS && cell->bytes < sizeof(digits)) {
		memcpy(digits, grid->text.data + cell->text, cell->bytes);
		digits[cell->bytes] = '\0';
		pfw_read_batch_int(table->batch, place, strtoll(digits, NULL, 10));
	} else if (is_double(cell->kind)) {
		pfw_read_batch_int(table->batch, place, pfw_saturate_whole(cell->number));
	} else if (cell->kind != GRID_TEXT && cell->kind != GRID_DIGITS) {
		pfw_read_batch_int(table->batch, place, cell->whole);
	}
}

static void put(struct table *table, unsigned place, const struct grid *grid,
		const struct grid_cell *cell)
{
	enum pfw_read_kind kind = table->known[place].kind;
	bool text = cell->kind == GRID_TEXT || cell->kind == GRID_DIGITS;

	if (cell->kind == GRID_NONE)
		return;
	if (kind == PFW_READ_TEXT && text)
		pfw_read_batch_text(table->batch, &table->texts, place,
				    grid->text.data + cell->text, cell->bytes);
	else if (kind == PFW_READ_INT)
		put_whole(table, place, grid, cell);
	else if (kind == PFW_READ_REAL && !text)
		pfw_read_batch_real(table->batch, place,
				    is_double(cell->kind)   ? cell->number
				    : cell->kind == GRID_NS ? (double)cell->whole / 1000.0
							    : (double)cell->whole);
	else if (kind == PFW_READ_FLAG && !text)
		pfw_read_batch_flag(table->batch, place, cell->whole);
}

static void rows(void *user, const struct grid *grid, const char *section)
{
	struct table *table = user;

	if (table->wanted && strcmp(table->wanted, section) != 0)
		return;
	if (!table->batch && !table->error)
		begin(table, grid, section);
	for (size_t i = 0; i < grid->cells && !table->error; i++) {
		unsigned place = (unsigned)(i % grid->columns);

		if (!place)
			pfw_read_batch_row(table->batch);
		if (!place && table->sections)
			pfw_read_batch_text(table->batch, &table->texts, 0, section,
					    strlen(section));
		put(table, place + table->sections, grid, &grid->cell[i]);
		table->error = table->batch->error;
	}
}

static void say(void *user, const char *text)
{
	struct table *table = user;
	char *copy = strdup(text);

	if (!copy || PFW_APPEND(table->message, table->messages, copy)) {
		free(copy);
		table->error = -ENOMEM;
	}
}

/* ---- the command's words ---- */

static void add_word(struct table *table, const char *before, const char *name, const char *value)
{
	char *word = NULL;

	if (asprintf(&word, "%s%s%s%s", before, name, value ? "=" : "", value ? value : "") < 0)
		word = NULL;
	if (!word || PFW_PUSH(table->word, table->words, table->room, word)) {
		free(word);
		table->error = -ENOMEM;
	}
}

/* How a table is printed is not asked. */
static bool is_of_text(const char *name)
{
	return strcmp(name, "format") == 0 || strcmp(name, "quiet") == 0 ||
	       strcmp(name, "jobs") == 0;
}

/* `pfw memory` has tables of several kinds. */
static int want_section(struct table *table, const char *name)
{
	for (size_t i = 0; i < CLI_ARRAY_LEN(memory_sections); i++) {
		if (strcmp(name, memory_sections[i]) == 0) {
			table->wanted = memory_sections[i];
			return 0;
		}
	}
	return pfw_read_fail(table->read, -EINVAL,
			     "%s: rows %s: want device, step, owner, unfreed or time",
			     table->command->name, name);
}

static int refuse(const struct table *table, const char *name)
{
	const struct cli_option *option = table->command->options;
	char names[800] = "";
	size_t used = 0;

	for (; option->name && used < sizeof(names); option++) {
		if (!is_of_text(option->name))
			used += (size_t)snprintf(names + used, sizeof(names) - used, " %s",
						 option->name);
	}
	return pfw_read_fail(table->read, -EINVAL, "%s: there is no option %s:%s",
			     table->command->name, name, names);
}

static int add_option(struct table *table, const char *name, const char *value)
{
	const struct cli_option *option = table->command->options;

	if (table->wanted && strcmp(name, "rows") == 0)
		return want_section(table, value);
	while (option->name && strcmp(option->name, name) != 0)
		option++;
	if (!option->name || is_of_text(name))
		return refuse(table, name);
	if (!option->argument && strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
		return pfw_read_fail(table->read, -EINVAL, "%s: %s %s: want 0 or 1",
				     table->command->name, name, value);
	if (option->argument)
		add_word(table, "--", name, value);
	else if (*value == '1')
		add_word(table, "--", name, NULL);
	return 0;
}

/* The options of pfw_read_set(), as far as the command has them. */
static int add_conditions(struct table *table)
{
	const struct pfw_read *read = table->read;
	int error = 0;

	for (size_t i = 0; i < read->conditions && !error; i++)
		error = add_option(table, pfw_read_condition_name(read->condition[i].option),
				   read->condition[i].value);
	if (!error && read->all_runs)
		error = add_option(table, "all-runs", "1");
	if (!error && read->meta)
		error = add_option(table, "meta", "1");
	if (!error && (read->columns || read->part.to))
		error = pfw_read_fail(table->read, -EINVAL,
				      "%s: there is no option %s of pfw_read_set() for tables",
				      table->command->name, read->columns ? "columns" : "part");
	return error;
}

/* A path is no option, whatever it begins with; `--` separates two sides. */
static void add_paths(struct table *table)
{
	for (size_t i = 0; i < table->read->paths; i++) {
		const char *path = table->read->path[i];
		bool plain = *path != '-' || !path[1] || strcmp(path, "--") == 0;

		add_word(table, plain ? "" : "./", path, NULL);
	}
}

static int make_words(struct table *table, const char *const *options)
{
	char jobs[16];
	int error = 0;

	snprintf(jobs, sizeof(jobs), "%u", pfw_read_jobs(table->read));
	add_word(table, "--", "quiet", NULL);
	table->wanted = table->command == &cli_memory ? memory_sections[0] : NULL;
	/* One table for all rows; for `memory` all its tables, of which one is chosen. */
	add_word(table, "--", "format", table->wanted ? "ndjson" : "csv");
	add_word(table, "--", "jobs", jobs);
	for (const struct cli_option *row = table->command->options; row->name; row++) {
		if (strcmp(row->name, "row-limit") == 0)
			add_word(table, "--", row->name, "-1");
	}
	for (size_t i = 0; options && options[i] && !error; i += 2) {
		if (!options[i + 1])
			return pfw_read_fail(table->read, -EINVAL, "%s: %s: has no value",
					     table->command->name, options[i]);
		error = add_option(table, options[i], options[i + 1]);
	}
	error = error ?: add_conditions(table);
	add_paths(table);
	return error ?: table->error ? pfw_read_fail(table->read, table->error, NULL) : 0;
}

/* ---- the command ---- */

static int run(struct table *table)
{
	const struct host host = {
		.user = table, .say = say, .stop = &table->read->stop, .rows = rows
	};
	struct host_words words = { .count = 0 };
	int status;

	/* The command moves its words about. */
	host_list(&words, (const char *const *)table->word, table->words);
	status = host_run(&host, table->command, &words);
	if (table->batch) {
		pfw_read_batch_end(table->batch, &table->columns, &table->texts);
		table->error = table->error ? table->error : table->batch->error;
	}
	if (table->error)
		return pfw_read_fail(table->read, table->error, NULL);
	if (status == CLI_OK || status == CLI_PROBLEMS) {
		for (size_t i = 0; i < table->messages; i++)
			pfw_read_add_problem(table->read, 0, "%s", table->message[i]);
		return 0;
	}
	if (table->read->stop)
		return pfw_read_fail(table->read, -EINTR, NULL);
	return pfw_read_fail(table->read, -EINVAL, "%s: %s", table->command->name,
			     table->messages ? table->message[table->messages - 1] : "failed");
}

/* ---- the stream ---- */

static void free_table(struct table *table)
{
	for (size_t i = 0; i < table->words; i++)
		free(table->word[i]);
	free(table->word);
	for (size_t i = 0; i < table->messages; i++)
		free(table->message[i]);
	free(table->message);
	pfw_read_texts_release(&table->texts);
	if (table->batch)
		pfw_read_batch_free(table->batch);
	pfw_read_drop(table->read);
	free(table);
}

static int get_schema(struct ArrowArrayStream *arrow, struct ArrowSchema *out)
{
	struct table *table = arrow->private_data;
	int error = pfw_read_arrow_schema(out, &table->columns);

	return error ? -pfw_read_fail(table->read, error, NULL) : 0;
}

static int get_next(struct ArrowArrayStream *arrow, struct ArrowArray *out)
{
	struct table *table = arrow->private_data;
	struct pfw_read_batch *batch = table->batch;
	struct pfw_read_zeros *zeros = NULL;
	int error = 0;

	*out = (struct ArrowArray){ .release = NULL };
	table->batch = NULL;
	if (batch)
		error = pfw_read_arrow_batch(out, &table->columns, batch, &zeros);
	pfw_read_zeros_drop(zeros);
	return error ? -pfw_read_fail(table->read, error, NULL) : 0;
}

static const char *get_last_error(struct ArrowArrayStream *arrow)
{
	return pfw_read_error(((const struct table *)arrow->private_data)->read);
}

static void release(struct ArrowArrayStream *arrow)
{
	free_table(arrow->private_data);
	arrow->release = NULL;
}

static const struct cli_command *find(const char *name)
{
	for (size_t i = 0; i < CLI_ARRAY_LEN(commands); i++) {
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	}
	return NULL;
}

int pfw_read_table(struct pfw_read *read, const char *command, const char *const *options,
		   struct ArrowArrayStream *stream)
{
	struct table *table = calloc(1, sizeof(*table));
	int error;

	*stream = (struct ArrowArrayStream){ .release = NULL };
	if (!table)
		return pfw_read_fail(read, -ENOMEM, NULL);
	atomic_fetch_add(&read->users, 1);
	table->read = read;
	table->command = find(command);
	error = table->command
			? make_words(table, options)
			: pfw_read_fail(read, -EINVAL,
					"there is no table %s: table overlap patterns memory "
					"compare",
					command);
	error = error ?: run(table);
	if (error)
		free_table(table);
	else
		*stream = (struct ArrowArrayStream){ get_schema, get_next, get_last_error, release,
						     table };
	return error;
}
