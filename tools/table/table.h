/* tools/table/table.h - options and rows of `pfw table`.
 *
 * Room tools/table: `pfw table` shows what took the time, as PyTorch's key averages do.  It may use
 * tools/share, tools/ui and the store, whose store/nesting finds self times.  Start with table.c;
 * collect.c and lines.c read, nest.c joins, index.c, whole.c and by_thread.c ask indexes, columns.c has the
 * columns, print.c, text.c and data.c print.
 */
#pragma once

#include "share/survey.h"
#include "store/line/io.h"
#include "store/nesting/averages.h"
#include "store/table/key.h"
#include "ui/grid.h"

/* The fields that make a row, in the order of keys. */
enum table_field {
	TABLE_NAME,
	TABLE_CAT,
	TABLE_SHAPE,
	TABLE_STACK,
	TABLE_LINE,
	TABLE_FNAME,
	TABLE_PROCESS,
	TABLE_CMD,
	TABLE_OPERATOR,
	TABLE_ARG, /* and the next ones, in order of --group-by */
	TABLE_ARG_LAST = TABLE_ARG + 7,
	TABLE_RANK,
	TABLE_STEP,
	TABLE_PID,
	TABLE_TID,
	TABLE_FIELDS
};

/* Their keys and titles, but for args; see table_field_column(). */
extern const struct grid_column table_fields[TABLE_FIELDS];
#define TABLE_ARG_BYTES 64 /* of the key of an arg, with "args." */

struct table_column; /* opaque: see columns.h */

#define TABLE_COLUMNS_MAX 32

/* What the lines `process` say of all processes of the ranks that `reach` selects; nothing if the
 * traces can be read only once.  Free *out in any case.  0 or -errno.  Thread: main. */
struct table_processes;
struct pfw_entry;
int table_processes_read(struct table_processes **out, struct survey *survey,
			 struct survey_input *input, const struct pfw_select *reach);
void table_processes_free(struct table_processes *all);
/* Whether no two processes of a rank have one pid. */
bool table_processes_unique(const struct table_processes *all);

/* "PID COMMAND", of one that was forked "PID worker N of PARENT: COMMAND", of a DataLoader's "PID
 * DataLoader worker N ..."; or its command.  The bytes written, below `size`: 256 is enough.
 * Thread: any. */
size_t table_process_name(const struct table_processes *all, int64_t rank,
			  const struct pfw_entry *entry, char *out, size_t size);
size_t table_process_command(const struct table_processes *all, int64_t rank,
			     const struct pfw_entry *entry, char *out, size_t size);

struct table_options {
	struct survey *survey;
	struct table_processes *processes; /* rows are by process or command; else NULL */
	enum table_field field[TABLE_FIELDS];
	unsigned fields;
	char arg[TABLE_ARG_LAST - TABLE_ARG + 1][TABLE_ARG_BYTES]; /* "args.KEY" */
	unsigned args;
	bool by_name; /* one of them is the name */
	bool by_file; /* the file is the only one: rows of I/O */
	bool by_operator;
	bool by_step;	 /* one of them is the step */
	unsigned frames; /* of a stack */
	const char *sort_by;
	unsigned name_width; /* 0: no limit */
	bool top_level_only;
	bool percentiles; /* some column shows them */
	bool plain;	  /* all events in one table, without nesting */
	bool no_head;	  /* without the line of the wall time */
	/* If none: the usual columns. */
	const struct table_column *column[TABLE_COLUMNS_MAX];
	unsigned columns;
	double peak_flops;	  /* a second, of one device; 0: unknown */
	struct pfw_select reach;  /* lines that are read: times, ranks, processes, threads */
	struct pfw_select wanted; /* those of them that are shown */
	bool limited, filtered;	  /* `reach` or `wanted` has a condition */
};

#define TABLE_BIT(field) (1u << (field))
#define TABLE_BITS_ARGS (TABLE_BIT(TABLE_ARG_LAST + 1) - TABLE_BIT(TABLE_ARG))
#define TABLE_BITS_NAMES (TABLE_BIT(TABLE_NAME) | TABLE_BIT(TABLE_CAT) | TABLE_BIT(TABLE_RANK))
#define TABLE_BITS_PROCESSES (TABLE_BIT(TABLE_PROCESS) | TABLE_BIT(TABLE_CMD))

/* The fields as these bits. */
static inline unsigned table_bits(const struct table_options *options)
{
	unsigned bits = 0;

	for (unsigned i = 0; i < options->fields; i++)
		bits |= TABLE_BIT(options->field[i]);
	return bits;
}

/* The key and title of a field. */
static inline struct grid_column table_field_column(const struct table_options *options,
						    enum table_field field)
{
	const char *arg;

	if (field < TABLE_ARG || field > TABLE_ARG_LAST)
		return table_fields[field];
	arg = options->arg[field - TABLE_ARG];
	return (struct grid_column){ arg, arg, GRID_TEXT };
}

/* Take --group-by: a comma-separated list of the fields whose bits are in `fields`, which a message
 * calls `names`.  0, or -1 after saying what is wrong. */
int table_fields_parse(struct table_options *options, const char *list, unsigned fields,
		       const char *names);

/* A row's key: section, device (torch's DeviceType), whether it is an annotation; then length and
 * text of each field.  Without the name as a field, there is one row for each device. */

static inline enum pfw_table_section table_section(const struct pfw_average *row)
{
	return (enum pfw_table_section)row->key[0];
}

static inline int table_device(const struct pfw_average *row)
{
	return (signed char)row->key[1];
}

static inline bool table_annotation(const struct pfw_average *row)
{
	return row->key[2];
}

/* Make the key of the row that a line is added to, with the name that nesting needs; or of a row that is
 * nested, as those of indexes are.  Thread: one at a time for one key. */
void table_key_fields(struct pfw_table_key *key, const struct table_options *options,
		      const struct pfw_table_line *line, const struct pfw_entry *entry,
		      int64_t rank);
void table_key_make(struct pfw_table_key *key, const struct table_options *options,
		    const struct pfw_table_line *line, const struct pfw_entry *entry, int64_t rank);

/* An event without args, which stands for all of a name and category in an index.  Thread: any. */
struct pfw_entry table_event_named(struct pfw_slice name, struct pfw_slice cat);

/* The text of a row's n-th field.  Thread: any. */
const char *table_text(const struct pfw_average *row, unsigned n, size_t *bytes);

/* Least begin and greatest end of all lines; least > greatest: none. */
struct table_extent {
	int64_t least_ns, greatest_ns;
};

#define TABLE_EXTENT_NONE ((struct table_extent){ INT64_MAX, INT64_MIN })

static inline void table_extent_add(struct table_extent *extent, int64_t begin, int64_t end)
{
	extent->least_ns = begin < extent->least_ns ? begin : extent->least_ns;
	extent->greatest_ns = end > extent->greatest_ns ? end : extent->greatest_ns;
}

/* Calls whose time is told apart: on sockets and waiting for descriptors; in locks and sleeps. */
enum { TABLE_NET, TABLE_SYNC, TABLE_APART };

/* Add the time of calls of a category if it is told apart.  Thread: any. */
void table_add_apart(int64_t apart_ns[TABLE_APART], const struct pfw_slice *cat, int64_t ns);

/* Bytes of files that were mapped, and those of them that were touched, where that is known. */
enum { TABLE_MAPPED, TABLE_TOUCHED, TABLE_UNMOVED };

/* Add pfw_io_unmoved() of lines of this name.  Thread: any. */
static inline void table_add_memory(uint64_t memory[TABLE_UNMOVED], const struct pfw_slice *name,
				    uint64_t bytes)
{
	memory[pfw_io_tells_touched(name) ? TABLE_TOUCHED : TABLE_MAPPED] += bytes;
}

struct table {
	struct pfw_averages rows;
	const struct pfw_traces *traces;
	bool too_many;	       /* too many rows of calls for percentiles */
	bool late;	       /* rows of calls have no durations yet: table_read_durations() */
	struct pfw_tally rest; /* I/O of files that have no row */
	uint64_t memory[TABLE_UNMOVED]; /* bytes of mappings, which no row counts */
	int64_t apart_ns[TABLE_APART];	/* of the rows' time, what is no I/O of files */
	struct table_extent extent;
	const char *lacks; /* what the last index that could not answer does not know */
	unsigned says;	   /* enum pfw_table_says: of all lines, also those that are not shown */
	uint8_t **whole; /* of each file: which blocks are in the rows; NULL: see table_add_whole() */
};

/* Read the traces, and the lines in rings, into rows.  0 or -errno.  Thread: main. */
int table_collect(struct table *table, const struct table_options *options,
		  struct survey_input *input);

/* Rows of calls that have percentiles: a sketch takes some KiB. */
#define TABLE_SKETCHES_MAX 16384u

/* Leave the percentiles out if there are more rows of calls. */
void table_limit_sketches(struct table *table, const struct table_options *options);

/* The first condition but --rank on the lines or rows, for a message; NULL: none. */
static inline const char *table_condition(const struct table_options *options)
{
	const char *reach = select_args_but_rank(&options->reach);

	return reach ? reach : select_args_but_rank(&options->wanted);
}

/* The option that no index can answer, for a message; NULL: indexes may be able to answer. */
const char *table_needs_lines(const struct table_options *options);

/* Fill the rows from indexes.  1; 0: they cannot answer, so the traces have to be read; -ENOMEM.
 * Thread: main. */
int table_from_index(struct table *table, const struct table_options *options,
		     const struct pfw_traces *traces);

/* Add the blocks that lie in the window, where indexes have all that is asked for of them.
 * table->whole, also if it is NULL, is to be freed with table_free_whole().  0 or -ENOMEM.  Thread:
 * main. */
int table_add_whole(struct table *table, const struct table_options *options);
void table_free_whole(struct table *table);

/* Read the durations of the rows of calls in row[], from the indexes that made them.  0 or -errno.
 * Thread: main. */
int table_read_durations(struct table *table, const struct table_options *options,
			 const struct pfw_average *const *row, size_t rows);

/* Print the rows in the format of the options.  Thread: main. */
void table_print(struct table *table, const struct table_options *options);
