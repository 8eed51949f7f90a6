/* table_line.h - what a line counts as in a table: its row, its span, its GPU work. */
#ifndef TABLE_LINE_H
#define TABLE_LINE_H

#include "store/call.h"
#include "table.h"

/* One line that counts, taken apart. */
struct table_line {
	enum table_section section;
	int device;	 /* torch's DeviceType: 0 CPU, 1 CUDA */
	bool annotation; /* of the user, not an operator */
	struct pfw_slice name, cat;
	int64_t start_ns, dur_ns;
	uint64_t launcher;		 /* as what it launches GPU work, or 0 */
	uint64_t launched_by, otherwise; /* GPU work: who launched it, or 0 */
	bool has_extra;
	struct pfw_span_extra extra;
	/* I/O: what was moved, by how many calls of what duration. */
	uint64_t calls, transfers;
	int64_t bytes;
	bool summed; /* many calls in one: no single duration is known */
	struct pfw_slice shapes, stack, fname, step; /* text NULL: the line has none */
	struct pfw_slice target;		     /* what a copy wrote to, as `fname` */
	bool shapes_text;			     /* a string, not an array */
};

/* What the calls seen last do: finding that out anew for each line would cost more than reading it.
 * All zero: none. */
struct table_calls {
	struct table_call {
		char name[24]; /* "" = none */
		uint8_t bytes;
		struct pfw_call call;
	} recent[64];
};

struct pfw_fnames;

struct table_how {
	const struct pfw_fnames *fnames; /* of DFTracer's traces, or NULL */
	bool plain; /* as the line says: all of one kind, nothing is nested or joined */
	bool args; /* all that args say; else, of a call and of plain lines, the bytes moved only */
};

/* Take apart an event.  False where a table has no row for it.  Thread: any, with `calls` of its
 * own. */
bool table_line_read(struct table_line *line, const struct pfw_entry *entry,
		     struct table_calls *calls, struct table_how how);

/* The same of an event of which its name and category are known. */
bool table_line_name(struct table_line *line, const struct pfw_entry *entry, bool plain);

/* Where a line's key is put together.  Thread: one at a time for one key. */
struct table_key {
	char *text;
	size_t bytes, room;
	char *field; /* TABLE_TEXT_MAX for one field */
};

int table_key_init(struct table_key *key);
void table_key_release(struct table_key *key);

/* The key of the row that the line is added to.  Return 0 or -ENOMEM. */
int table_key_make(struct table_key *key, const struct table_options *options,
		   const struct table_line *line, const struct pfw_entry *entry, int64_t rank);

#endif
