/* tools/table/line.h - one line as a table counts it, and the key of its row. */
#ifndef PFW_TOOLS_TABLE_LINE_H
#define PFW_TOOLS_TABLE_LINE_H

#include "store/line/io.h"
#include "table/table.h"

/* A line of a table. */
struct table_line {
	enum table_section section;
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
	uint64_t mapped; /* bytes of a file that mmap() mapped, which are no bytes moved */
	bool summed;	 /* of many calls: their durations are unknown */
	struct pfw_slice shapes, stack, fname; /* at NULL: the line has none */
	struct pfw_slice target;	       /* the file that a copy wrote */
	bool shapes_text;		       /* `shapes` is a string, not an array */
	int64_t step; /* -1: none, or not asked for; set by table_line_step() */
};

struct pfw_fname_hashes;

struct table_how {
	const struct pfw_fname_hashes *fnames; /* of DFTracer's traces, or NULL */
	bool plain;			       /* nothing is nested or joined */
	bool args; /* read all args; else, for I/O and plain lines, only what gives the bytes */
};

/* Read an event.  False: no table has a row for it.  Thread: any, each with its own `calls`. */
bool table_line_read(struct table_line *line, const struct pfw_entry *entry,
		     struct pfw_io_calls *calls, struct table_how how);

struct pfw_steps;

/* Set the step of an event that table_line_read() has read; `steps` may be NULL. */
void table_line_step(struct table_line *line, const struct pfw_steps *steps, size_t file,
		     const struct pfw_entry *entry);

/* The same as table_line_read() for an event with only a name and a category. */
bool table_line_name(struct table_line *line, const struct pfw_entry *entry, bool plain);

/* The key of a line's row.  Thread: one at a time for one key. */
struct table_key {
	char *text;
	size_t bytes, room;
	char *field; /* TABLE_TEXT_MAX for one field */
};

int table_key_init(struct table_key *key);
void table_key_release(struct table_key *key);

/* Make the key of the row that the line is added to.  0 or -ENOMEM. */
int table_key_make(struct table_key *key, const struct table_options *options,
		   const struct table_line *line, const struct pfw_entry *entry, int64_t rank);

#endif
