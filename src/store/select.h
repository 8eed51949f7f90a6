/* select.h - which lines of which traces are wanted: `--since --cat --name --where` and the like.
 *
 * Options are added one by one, then resolved against the traces; then blocks are asked for by their
 * summaries, and lines are tested, cheapest condition first.
 */
#ifndef PFW_SELECT_H
#define PFW_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "entry.h"
#include "times.h"
#include "traces.h"

struct pfw_expr;
struct pfw_fnames;
struct pfw_expr_state;

enum pfw_select_option {
	PFW_SELECT_SINCE, /* a time, see times.h */
	PFW_SELECT_UNTIL, /* what overlaps [since, until) */
	PFW_SELECT_CAT,	  /* a glob; more than one: any of them */
	PFW_SELECT_NAME,  /* the same */
	PFW_SELECT_FNAME, /* the same, of args.fname; * matches '/', too */
	PFW_SELECT_RANK,  /* 0,8-15; more than one: any of them; so the four below */
	PFW_SELECT_PID,
	PFW_SELECT_TID,
	PFW_SELECT_STEP,    /* args.step */
	PFW_SELECT_MIN_DUR, /* µs, or with a unit; instants have none */
	PFW_SELECT_WHERE,   /* an expression, see expr.h; more than one: all of them */
};

struct pfw_select_glob {
	char *text;
	size_t bytes;
	bool plain; /* no wildcard: `text` is what is wanted */
};

struct pfw_select_globs {
	struct pfw_select_glob *glob;
	size_t count;
};

struct pfw_select_range {
	uint64_t first, last;
};

struct pfw_select_ranges {
	struct pfw_select_range *range;
	size_t count;
};

/* Of one file. */
struct pfw_select_window {
	int64_t since_ns, until_ns; /* INT64_MIN, INT64_MAX: no limit */
	bool wanted;		    /* its rank is */
	int64_t rank;
};

/* Of one file: which of its blocks can hold a wanted line. */
struct pfw_select_may {
	const struct pfw_block *block;
	size_t count;
	uint8_t *may; /* of each; NULL: nothing is known */
};

/* All zero: every event.  Read only but through the calls below. */
struct pfw_select {
	struct pfw_select_globs cat, name, fname;
	struct pfw_select_ranges rank, pid, tid, step;
	bool has_min_dur;
	int64_t min_dur_ns;
	struct pfw_time since, until;
	struct pfw_expr **where;
	size_t where_count;
	bool ask_fnames; /* by who wants them; else where a condition speaks of them */
	bool meta; /* lines with ph M are wanted, too; also where a --cat or --where is about them */
	/* From pfw_select_use_indexes(), of each file; NULL: nothing. */
	struct pfw_select_may *may;
	size_t may_count;
	/* From pfw_select_resolve(). */
	struct pfw_fnames *fnames;	  /* NULL: not asked for, or there are none */
	bool times;			  /* some file has a limit */
	struct pfw_select_window *window; /* of each file */
	size_t files;
};

/* Add a condition.  Return 0, or -EINVAL or -ENOMEM with what is wrong in why: one line, of --where
 * three, the second and third showing the place.  Thread: one at a time, as the next two. */
int pfw_select_add(struct pfw_select *select, enum pfw_select_option option, const char *value,
		   char *why, size_t size);

/*
 * Use the indexes that lie beside the traces: their blocks, which have summaries, take the place of
 * those that were found, and what cannot hold a wanted line will not be read.  An index that is stale
 * or damaged is told to say(user, path, why) and passed over.  Before pfw_select_resolve(); may be
 * left out.  0 or -ENOMEM.  Thread: one at a time.
 */
int pfw_select_use_indexes(struct pfw_select *select, struct pfw_traces *traces,
			   void (*say)(void *user, const char *path, const char *why), void *user);

/* Whether one of the globs is the whole text, which has no escapes.  Thread: any. */
bool pfw_select_globs_match(const struct pfw_select_globs *globs, struct pfw_slice text);
bool pfw_select_in_ranges(const struct pfw_select_ranges *ranges, uint64_t number);

/*
 * Find what times and ranks are in these traces; call it always, once.  It may have to read them:
 * see pfw_extent_find(), whose errors it returns.  -ENOENT, -ERANGE: a step that there is not, or no
 * time at all, said in why.
 */
int pfw_select_resolve(struct pfw_select *select, const struct pfw_traces *traces,
		       const struct pfw_extent_options *options, char *why, size_t size);

/* One more file, which came when the others were resolved already: *number is what the calls below
 * know it by.  Its limits are those of the first file of its rank, else of the first.  0 or -ENOMEM. */
int pfw_select_add_file(struct pfw_select *select, int64_t rank, size_t *number);
void pfw_select_release(struct pfw_select *select);

/* Whether any line of this file, of this block may be wanted.  Thread: any. */
bool pfw_select_file(const struct pfw_select *select, size_t file);
bool pfw_select_block(const struct pfw_select *select, size_t file, const struct pfw_block *block);

/* What a thread needs of its own to test lines; NULL: no memory. */
struct pfw_select_state;
struct pfw_select_state *pfw_select_state_create(const struct pfw_select *select);
void pfw_select_state_free(struct pfw_select_state *state);

/* The step of entries whose args have none, from now on; NULL: they are of no step. */
void pfw_select_state_step(struct pfw_select_state *state, const uint64_t *step);

/* Whether this line is wanted.  Thread: the one that has `state`. */
bool pfw_select_entry(const struct pfw_select *select, struct pfw_select_state *state, size_t file,
		      const struct pfw_entry *entry);

#endif
