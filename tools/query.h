/* query.h - `pfw query`: the half that its parts share. */
#ifndef PFW_QUERY_H
#define PFW_QUERY_H

#include <stdbool.h>
#include <stdint.h>

#include "cli.h"
#include "live_lines.h"
#include "output.h"
#include "store/columns.h"
#include "store/select.h"
#include "store/stream.h"
#include "store/traces.h"

/* ---- what a wanted line becomes (query_lines.c) ---- */

enum query_format { QUERY_NDJSON, QUERY_TSV, QUERY_CSV };

struct query_lines {
	enum query_format format;
	struct pfw_columns columns; /* none: whole lines */
	bool ranks;		    /* whole lines get a "rank" in front */
};

/* Append what this line (`line`: as it stands in the trace) becomes, with its '\n'.  `scratch`: the
 * thread's own, see scratch.h.  0 or -ENOMEM.  Thread: any. */
int query_lines_add(const struct query_lines *lines, struct pfw_text *out, char *scratch,
		    const struct pfw_entry *entry, struct pfw_slice line, int64_t rank);

/* Append the line of names above the columns. */
int query_lines_head(const struct query_lines *lines, struct pfw_text *out);

/* ---- the first N by ts or dur (query_top.c) ---- */

/* More than these texts and their keys take together is refused, not swapped. */
#define QUERY_TOP_BYTES (256u << 20)

struct query_key {
	bool dur;	 /* else ts */
	bool descending; /* the greatest first; what has no such key is last in both */
};

struct query_top_item {
	int64_t key;
	uint64_t number; /* of arrival: equal ones stay in order */
	char *text;
	size_t bytes;
};

struct query_top {
	uint64_t limit;
	struct query_top_item *item; /* a heap with the last one on top */
	size_t count, room, bytes;
	uint64_t number;
	_Atomic int64_t worst; /* what is not below it need not be added */
};

/* Where this line stands, the least first. */
int64_t query_key_of(const struct query_key *key, const struct pfw_entry *entry);

/* Whether a line with that key may still be among them.  Thread: any. */
bool query_top_wants(const struct query_top *top, int64_t key);

/* Add one.  0, -ENOMEM, or -E2BIG: see QUERY_TOP_BYTES.  Thread: one at a time, as the next two. */
int query_top_add(struct query_top *top, int64_t key, const char *text, size_t bytes);

/* Put them in order; they then stand in top->item. */
void query_top_sort(struct query_top *top);
void query_top_free(struct query_top *top);

/* ---- the options (query_options.c) ---- */

struct query;

extern const struct cli_option query_options[];

/* Take all of them.  *ended: that was all, with the exit status that is returned. */
int query_read_options(struct query *query, struct cli_args *args, bool *ended);

/* ---- the command (query.c) ---- */

#define QUERY_NO_LIMIT UINT64_MAX

struct query {
	const struct cli_command *command;
	char **paths;
	size_t path_count;
	bool all_runs, count, follow, quiet, force, sorted;
	unsigned jobs;
	const char *out_path;
	uint64_t limit;
	struct query_key key;
	struct query_lines lines;
	struct pfw_select select;
	struct pfw_traces traces;
	struct live_lines live;
	struct output output;
	const volatile bool *stop;
	struct query_worker *worker;
	struct query_top top;
	uint64_t given;	  /* lines, so far */
	size_t told_file; /* of the last problem, and how many of that file were told */
	unsigned told;
	uint64_t untold;
	int status;
};

/* What a thread has of its own. */
struct query_worker {
	struct pfw_select_state *state;
	char *scratch;
};

int query_worker_init(struct query_worker *worker, const struct query *query);
void query_worker_release(struct query_worker *worker);

/* The names above the columns, where the format has them.  0, -ENOMEM, -EIO. */
int query_write_head(struct query *query);

/* Follow the traces until they end (query_follow.c).  The exit status. */
int query_follow(struct query *query);

/* Take lines that are in no block, as the pass takes those of blocks.  0, or what ends the pass. */
int query_take_text(struct query *query, size_t file, const char *text, size_t bytes);

/* Say why not, and return CLI_USAGE. */
int query_refuse(const struct query *query, const char *why);

/* Say that a trace cannot be used; for pfw_traces_open(). */
void query_say(void *user, const char *path, const char *why);

#endif
