/* store/table/line.h - one line as a table of averages counts it.
 *
 * Room store/table: the rows of `pfw table`: lines, keys, spans to be nested, and what an index keeps
 * of them.  It may use store/{nesting,index,pass,line,math,sys,kit}.  Start here; in_index.c is the
 * analysis that an index keeps.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/line/io.h"
#include "store/nesting/averages.h"

/* Rows of a section have the same columns and are shown in one table. */
enum pfw_table_section {
	PFW_TABLE_COMPUTE, /* cat PP and the program's own spans */
	PFW_TABLE_IO,	   /* POSIX, STDIO and NET */
	PFW_TABLE_SECTIONS,
	/* Nested with the others, but not shown. */
	PFW_TABLE_HIDDEN = PFW_TABLE_SECTIONS,
	PFW_TABLE_HIDDEN_IO,
};

/* A line of a table. */
struct pfw_table_line {
	enum pfw_table_section section;
	int device;	 /* torch's DeviceType: 0 CPU, 1 CUDA */
	bool annotation; /* of the user, not an operator */
	struct pfw_slice name, cat;
	int64_t start_ns, dur_ns;
	uint64_t launcher;		 /* the id by which GPU work names it, or 0 */
	uint64_t parent;		 /* the id of the span that it says to lie in, or 0 */
	uint64_t launched_by, otherwise; /* GPU work: ids of its launcher */
	bool has_extra, has_memory;
	struct pfw_span_extra extra;
	/* I/O calls: how many, how many of them move bytes, and the bytes. */
	uint64_t calls, transfers;
	int64_t bytes;
	uint64_t unmoved;		       /* pfw_io_unmoved() */
	bool summed;			       /* of many calls: their durations are unknown */
	bool untimed;			       /* it says no duration */
	struct pfw_slice shapes, stack, fname; /* at NULL: the line has none */
	struct pfw_slice target;	       /* the file that a copy wrote */
	struct pfw_slice owner;		       /* the operator, in a row of an index */
	struct pfw_slice kind;		       /* args.kind of a line that is no call */
	bool has_launch;		       /* it has args that say how a kernel was launched */
	bool shapes_text;		       /* `shapes` is a string, not an array */
	uint32_t said;			       /* pfw_table_said() of a line that is no call */
	int64_t step; /* -1: none, or not asked for; set by pfw_table_line_step() */
};

/* The numbers in args that link events to each other. */
#define PFW_TABLE_IDS 5u
struct pfw_table_ids {
	union {
		uint64_t id[PFW_TABLE_IDS];
		struct {
			uint64_t correlation, external_id, span, span_id, parent;
		};
	};
};

/* Events of one entry->form that are no calls, which differ only in their times, their links, their step and
 * their shapes. */
struct pfw_table_form {
	uint64_t form;
	struct pfw_table_line line; /* the last one of them */
	bool launch_varies;	    /* they differ in args by which an index has rows, too */
	/* Private to line.c. */
	unsigned kind;
	struct pfw_table_ids ids; /* without those that differ */
	uint8_t differ;		  /* how many */
	struct pfw_table_differs {
		uint8_t arg, id;
	} differs[PFW_TABLE_IDS];
	uint8_t step, shapes; /* the args, plus 1; 0: none */
	/* Most have at most one such number; the line links by this one alone. */
	struct pfw_table_link {
		bool one;
		uint8_t arg;   /* plus 1; 0: none */
		bool unknown;  /* it links by 0, too */
		uint64_t kind; /* pfw_launcher() of 0 */
	} link;
};

/* What a line of I/O adds to a row. */
struct pfw_table_call {
	int64_t start_ns, dur_ns, bytes;
	uint64_t calls, transfers;
	bool summed;
	bool untimed; /* the line says no duration */
};

static inline struct pfw_table_call pfw_table_call_of(const struct pfw_table_line *line)
{
	return (struct pfw_table_call){ .start_ns = line->start_ns,
					.dur_ns = line->dur_ns,
					.bytes = line->bytes,
					.calls = line->calls,
					.transfers = line->transfers,
					.summed = line->summed,
					.untimed = line->untimed };
}

/* Add a call to a row; `self`: no call lies in it; `sketch`: with its duration, for percentiles.  0 or
 * -ENOMEM.  Thread: one at a time for one row. */
int pfw_table_add_call(struct pfw_average *row, const struct pfw_table_call *call, bool self,
		       bool sketch);

/* What a line says that a trace may lack altogether, as bits. */
enum pfw_table_says {
	PFW_TABLE_SAYS_DEVICE = 1 << 0,
	PFW_TABLE_SAYS_MEMORY = 1 << 1,
	PFW_TABLE_SAYS_FLOPS = 1 << 2,
	PFW_TABLE_SAYS_ARGS = 1 << 3, /* args of GPU work, in a line that is none */
};

static inline unsigned pfw_table_says(const struct pfw_table_line *line)
{
	return (line->device > 0 ? PFW_TABLE_SAYS_DEVICE : 0u) |
	       (line->has_memory ? PFW_TABLE_SAYS_MEMORY : 0u) |
	       (line->extra.flops ? PFW_TABLE_SAYS_FLOPS : 0u) |
	       (line->has_launch && line->device <= 0 ? PFW_TABLE_SAYS_ARGS : 0u);
}

/* Whether an arg says how a kernel was launched: an index has rows by these and by args.kind. */
bool pfw_table_launch_key(const struct pfw_slice *key);

struct pfw_fname_hashes;

struct pfw_table_how {
	const struct pfw_fname_hashes *fnames; /* of DFTracer's traces, or NULL */
	bool plain;			       /* nothing is nested or joined */
	bool args; /* read all args; else, for I/O and plain lines, only what gives the bytes */
};

/* Read an event.  False: no table has a row for it.  Thread: any, each with its own `calls`. */
bool pfw_table_line_read(struct pfw_table_line *line, const struct pfw_entry *entry,
			 struct pfw_io_calls *calls, struct pfw_table_how how);

/* What span->note of a line is: the step that it says, plus 1; 0: none.  UINT32_MAX: it is too great, so
 * there will be no rows. */
uint32_t pfw_table_said(const struct pfw_entry *entry);

/* The same of a call; *args: whether it has args of GPU work: none that we know has. */
uint32_t pfw_table_call_said(const struct pfw_entry *entry, bool *args);

struct pfw_steps;

/* Read only the args of an event that is no call, into an empty line with its name: what
 * pfw_table_line_read() does after pfw_table_line_name(). */
void pfw_table_line_args(struct pfw_table_line *line, const struct pfw_entry *entry);

/* Learn the form of a line that was read.  False: it has none, or its lines differ in more. */
bool pfw_table_form_learn(struct pfw_table_form *form, const struct pfw_table_line *line,
			  const struct pfw_entry *entry);

/* Read another line of it into form->line, all but name and category.  False: it has no times. */
bool pfw_table_form_read(struct pfw_table_form *form, const struct pfw_entry *entry);

/* Whether an event has the times that a table needs; *line gets them. */
static inline bool pfw_table_line_times(struct pfw_table_line *line, const struct pfw_entry *entry)
{
	int64_t end;

	line->start_ns = entry->ts_ns;
	line->dur_ns = entry->dur_ns > 0 ? entry->dur_ns : 0;
	line->untimed = !(entry->has & ~entry->wrong & PFW_ENTRY_DUR);
	return !__builtin_add_overflow(line->start_ns, line->dur_ns, &end) &&
	       line->start_ns != INT64_MIN;
}

/* Set the step of an event that pfw_table_line_read() has read; `steps` may be NULL. */
void pfw_table_line_step(struct pfw_table_line *line, const struct pfw_steps *steps, size_t file,
			 const struct pfw_entry *entry);

/* The same as pfw_table_line_read() for an event with only a name and a category. */
bool pfw_table_line_name(struct pfw_table_line *line, const struct pfw_entry *entry, bool plain);
