/* tools/query/query.h - the parts of `pfw query`: options, lines, order, following.
 *
 * Room tools/query: `pfw query` prints the lines of traces that fulfil conditions.  It may use
 * tools/share, tools/ui and the store, whose store/select and store/expr decide.  Start with
 * query.c; lines.c formats, top.c sorts, follow.c waits for more.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "share/survey.h"
#include "store/expr/columns.h"
#include "store/read/stream.h"
#include "ui/output.h"

/* ---- output of a wanted line (lines.c) ---- */

/* As --format lists them. */
enum query_format { QUERY_NDJSON, QUERY_TSV, QUERY_CSV, QUERY_FORMATS };

struct query_lines {
	enum query_format format;
	struct pfw_columns columns; /* none: whole lines */
	bool ranks;		    /* whole lines get a "rank" first */
};

/* Append the output of a line of a trace, with '\n'.  `scratch` is the thread's own:
 * store/read/scan.h.  0 or -ENOMEM.  Thread: any. */
int query_lines_add(const struct query_lines *lines, struct pfw_buffer *out, char *scratch,
		    const struct pfw_entry *entry, struct pfw_slice line, int64_t rank);

/* Append the header of the columns. */
int query_lines_head(const struct query_lines *lines, struct pfw_buffer *out);

/* ---- the order of lines ---- */

/* Where a line stands: by rank, then time; of equal times by process, then id. */
struct query_place {
	int64_t rank, ts_ns;
	uint64_t process, id;
};

/* A line in the text of a block's hits. */
struct query_mark {
	int64_t key;
	struct query_place place;
	size_t end; /* of its text */
};

/* ---- the first N by ts or dur (top.c) ---- */

/* If texts and keys need more memory, the command fails instead of swapping. */
#define QUERY_TOP_BYTES (256u << 20)

struct query_key {
	bool dur;	 /* else ts */
	bool descending; /* the greatest first; lines without the key are last */
};

struct query_top_item {
	int64_t key;
	struct query_place place; /* orders those of equal keys */
	uint64_t number;	  /* of arrival */
	char *text;
	size_t bytes;
};

struct query_top {
	uint64_t limit;
	struct query_top_item *item; /* a heap with the last item on top */
	size_t count, room, bytes;
	uint64_t number;
	_Atomic int64_t worst; /* greater keys need not be added */
};

/* The sort key of a line; the least is first. */
int64_t query_key_of(const struct query_key *key, const struct pfw_entry *entry);

/* Whether a line with that key may still be among the first.  Thread: any. */
bool query_top_wants(const struct query_top *top, int64_t key);

/* Add one.  0, -ENOMEM, or -E2BIG: see QUERY_TOP_BYTES.  Thread: one at a time, as the next two. */
int query_top_add(struct query_top *top, const struct query_mark *mark, const char *text,
		  size_t bytes);

/* Sort top->item. */
void query_top_sort(struct query_top *top);
void query_top_free(struct query_top *top);

/* ---- the command (query.c) ---- */

#define QUERY_NO_LIMIT UINT64_MAX

struct query {
	struct survey survey;
	char **paths;
	size_t path_count;
	bool count, follow, force;
	/* As --sort-by lists them; each descending one follows. */
	enum { QUERY_BY_TS, QUERY_BY_DUR = 2, QUERY_UNSORTED = 4 } sort;
	bool sorted;
	const char *out_path;
	uint64_t limit;
	struct query_key key;
	struct query_lines lines;
	struct pfw_select select;
	struct survey_input *input;
	struct output output;
	struct query_worker *worker;
	struct query_top top;
	uint64_t given;	  /* lines */
	size_t told_file; /* file of the last problem, problems printed for it */
	unsigned told;
	uint64_t untold;
	int status;
};

/* State of one thread. */
struct query_worker {
	struct pfw_select_state *state;
	char *scratch;
};

int query_worker_init(struct query_worker *worker, const struct query *query);
void query_worker_release(struct query_worker *worker);

/* Write the header if the format has one.  0, -ENOMEM, -EIO. */
int query_write_head(struct query *query);

/* Follow the traces until they end (follow.c).  The exit status. */
int query_follow(struct query *query);

/* Print why a trace cannot be used. */
void query_say(struct query *query, const char *path, const char *why);
