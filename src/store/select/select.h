/* store/select/select.h - selects lines of traces: `--since --cat --name --where` and others.
 *
 * Add options one by one, resolve them against the traces, then test blocks by their summaries and
 * lines, cheapest condition first.
 *
 * Room store/select: the selection options that all commands share.  Uses store/expr, store/index
 * and store/pass.  Start here: options.c, select.c and wanted.c are the three steps.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/line/entry.h"
#include "store/pass/times.h"
#include "store/traces/traces.h"

struct pfw_expr;
struct pfw_expr_facts;
struct pfw_fname_hashes;
struct pfw_steps;

enum pfw_select_option {
	PFW_SELECT_SINCE, /* a time, see store/pass/times.h */
	PFW_SELECT_UNTIL, /* lines that overlap [since, until) */
	PFW_SELECT_CAT,	  /* a glob; if repeated, one of them must match */
	PFW_SELECT_NAME,  /* the same */
	PFW_SELECT_FNAME, /* the same, for the files of a line; * matches '/', too */
	PFW_SELECT_RANK,  /* 0,8-15; if repeated, one of them must match; so the next three */
	PFW_SELECT_PID,
	PFW_SELECT_TID,
	PFW_SELECT_STEP,    /* the steps of events: see store/pass/steps.h */
	PFW_SELECT_MIN_DUR, /* µs, or with a unit; instants have no duration */
	/* an expression, see store/expr/expr.h; if repeated, all must be true */
	PFW_SELECT_WHERE,
};

struct pfw_select_glob {
	char *text;
	size_t bytes;
	bool plain; /* no wildcard: compare with `text` */
	bool out;   /* "!GLOB": what matches is not wanted */
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
	bool wanted;		    /* its rank is selected */
	int64_t rank;
};

/* Of one file: which of its blocks may hold a selected line. */
struct pfw_select_may {
	const struct pfw_block *block;
	size_t count;
	uint8_t *may;	     /* of each block; NULL: unknown */
	int64_t *longest_ns; /* of each block; NULL: not asked, or the trace is damaged */
	bool shared;	     /* `may` and `longest_ns` belong to another file */
};

/* Of one file of several ranks: the places of blocks without a line of a selected rank. */
struct pfw_select_others {
	uint64_t *at; /* rising */
	size_t count;
	bool shared; /* `at` belongs to another file */
};

/* All zero: every event.  Callers read it, and change it only by the calls below, except
 * ask_fnames, ask_steps, ask_longest, absent_ranks, meta and ph. */
struct pfw_select {
	struct pfw_select_globs cat, name, fname;
	struct pfw_select_ranges rank, pid, tid, step;
	bool has_min_dur;
	int64_t min_dur_ns;
	struct pfw_time since, until;
	struct pfw_expr **where;
	size_t where_count;
	bool ask_fnames;  /* set by callers that need names, or by a condition on args.fname */
	bool ask_steps;	  /* set by callers that need steps, or by a condition on them */
	bool ask_longest; /* set by callers that need pfw_select_longest() */
	bool absent_ranks; /* set by callers that give lines, as data: no trace need be of the ranks */
	/* also lines with ph M; set by callers, or by a --cat or --where that mentions them */
	bool meta;
	char ph; /* set by callers that take lines with this ph only: may exclude blocks; 0: any */
	/* From pfw_select_use_indexes(), of each file; NULL: none. */
	struct pfw_select_may *may;
	size_t may_count;
	/* From pfw_select_resolve(). */
	struct pfw_fname_hashes *fnames;  /* NULL: not requested, or none exist */
	struct pfw_steps *steps;	  /* NULL: not requested */
	bool times;			  /* some file has a limit */
	struct pfw_select_window *window; /* of each file */
	size_t files;
	struct pfw_select_others *others; /* of each file; NULL: no --rank */
	size_t others_count;
};

/* Add a condition.  Return 0, or -EINVAL or -ENOMEM with a message in why: one line, or three for
 * --where (message, text, caret).  Thread: one at a time, as the next two. */
int pfw_select_add(struct pfw_select *select, enum pfw_select_option option, const char *value,
		   char *why, size_t size);

/* Use the indexes next to the traces: their blocks have summaries and replace those found, and
 * blocks that cannot hold a selected line are skipped.  A stale or damaged index is reported by
 * say(user, path, why) and ignored.  Optional, before pfw_select_resolve().  0 or -ENOMEM. */
int pfw_select_use_indexes(struct pfw_select *select, struct pfw_traces *traces,
			   void (*say)(void *user, const char *path, const char *why), void *user);

/* Whether one of the globs matches the whole unescaped text and none of the excluding globs does; if all
 * globs exclude, whether none matches.  False without globs.  Thread: any. */
bool pfw_select_globs_match(const struct pfw_select_globs *globs, struct pfw_slice text);
/* Whether a number is in one of the ranges; true if there are none. */
bool pfw_select_in_ranges(const struct pfw_select_ranges *ranges, uint64_t number);

/* Resolve times and ranks; required once.  The index of a file of several ranks says which blocks
 * have none of the selected ones.  It may have to read the traces: it returns the errors of
 * pfw_extent_find(), and -ENOENT (no such step or rank), -EINVAL (until before since) or -ERANGE
 * (no times at all) with a message in why. */
int pfw_select_resolve(struct pfw_select *select, const struct pfw_traces *traces,
		       const struct pfw_extent_options *options, char *why, size_t size);

/* Whether a trace is of a selected rank, as the above asks unless absent_ranks: 0, or -ENOENT with a
 * message that says which ranks there are. */
int pfw_select_check_ranks(const struct pfw_select *select, const struct pfw_traces *traces,
			   char *why, size_t size);

/* Add a file after pfw_select_resolve(): *number is its number for the calls below.  It gets the
 * limits of the first file of its rank, or else of the first file. 0 or -ENOMEM. */
int pfw_select_add_file(struct pfw_select *select, int64_t rank, size_t *number);
void pfw_select_release(struct pfw_select *select);

/* Parts of those above. */
void pfw_select_free_may(struct pfw_select_may *may);
int pfw_select_find_others(struct pfw_select *select, const struct pfw_traces *traces);
void pfw_select_free_others(struct pfw_select *select);

/* Whether any line of this rank or file, with these facts or of this block may be selected.
 * Thread: any. */
bool pfw_select_rank(const struct pfw_select *select, int64_t rank);
bool pfw_select_file(const struct pfw_select *select, size_t file);
bool pfw_select_where_may(const struct pfw_select *select, const struct pfw_expr_facts *facts);
bool pfw_select_block(const struct pfw_select *select, size_t file, const struct pfw_block *block);
/* By its index, the longest `dur` of a block's lines that may be selected; INT64_MIN: none has one.  False:
 * unknown, or the trace has damage, which only readers of the block report.  Thread: any. */
bool pfw_select_longest(const struct pfw_select *select, size_t file, const struct pfw_block *block,
			int64_t *longest_ns);
/* Whether any line of a block is of a selected rank: for callers that need all lines of a rank. */
bool pfw_select_ranks_block(const struct pfw_select *select, size_t file,
			    const struct pfw_block *block);

/* The state of one thread that tests lines; NULL: no memory. */
struct pfw_select_state;
struct pfw_select_state *pfw_select_state_create(const struct pfw_select *select);
void pfw_select_state_free(struct pfw_select_state *state);

/* Whether this line is selected.  Thread: the one that owns `state`. */
bool pfw_select_entry(const struct pfw_select *select, struct pfw_select_state *state, size_t file,
		      const struct pfw_entry *entry);
