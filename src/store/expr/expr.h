/* store/expr/expr.h - the language of `--where`: dur>1ms && args.fname=~"\.npz$"
 *
 *   fields     id name cat pid tid ts dur ph rank step args.X args.X.Y args."odd key"; a missing
 *              field is null
 *   numbers    exact thousandths, so ts and dur (in µs) are exact to the nanosecond; with units of
 *              time (ns us µs ms s m h: µs) or size (KiB MiB GiB TiB kB MB GB TB); a double if
 *              finer or beyond 128 bits
 *   text       "..." or '...' with JSON's escapes; compared byte by byte
 *   == !=      any two values; values of different types are unequal
 *   < <= > >=  two numbers or two texts, else false
 *   =~ !~      search a text for a POSIX extended regular expression, without JSON's escapes; !~
 *              is the negation, also true if there is no text
 *   in (...)   equal to one of these constants
 *   + - * /    numbers, else null; division by zero is null
 *   && || !    conditions; an argument is true if it is `true`
 *   has(F)     exists and is not null
 *
 * An expression is compiled once; testing a line allocates nothing.
 *
 * Room store/expr: the expression language: parse.c and leaf.c compile, eval.c tests lines, may.c
 * tests whole blocks and index rows.  Uses store/regex, store/line and store/pass.  Start here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/line/entry.h"

#define PFW_EXPR_BYTES 65536 /* of the text */
#define PFW_EXPR_DEPTH 64
#define PFW_EXPR_NODES 4096

struct pfw_fname_hashes;
struct pfw_expr; /* opaque: see internal.h */

/* Compile an expression.  Return 0, -ENOMEM, or -EINVAL with three lines in why: the message with
 * its column, the text around it, and a caret.  Thread: any. */
int pfw_expr_compile(struct pfw_expr **out, const char *text, char *why, size_t size);
void pfw_expr_free(struct pfw_expr *expr);

/* Whether it selects metadata lines by itself: it mentions ph, or cat "pfw". */
bool pfw_expr_wants_meta(const struct pfw_expr *expr);

/* Whether it mentions args.fname. */
bool pfw_expr_asks_fname(const struct pfw_expr *expr);

/* Whether it mentions name. */
bool pfw_expr_asks_name(const struct pfw_expr *expr);

/* Whether it mentions no fields but cat and name, and only args whose keys are `known`. */
struct pfw_slice;
bool pfw_expr_asks_only(const struct pfw_expr *expr, bool (*known)(const struct pfw_slice *key));

/* The state of one thread (regular expressions, text buffers); NULL: no memory.  `expr` and
 * `fnames` (may be NULL) must outlive it. */
struct pfw_expr_state;
struct pfw_expr_state *pfw_expr_state_create(const struct pfw_expr *expr,
					     const struct pfw_fname_hashes *fnames);
void pfw_expr_state_free(struct pfw_expr_state *state);

/* Whether it is true for this line of a trace of this rank (-1: null).  Thread: the state's. */
bool pfw_expr_test(struct pfw_expr_state *state, const struct pfw_entry *entry, int64_t rank);

/* Facts that hold for all of some lines that were not read. */
#define PFW_EXPR_ANY_RANK (-2)

struct pfw_expr_facts {
	int64_t rank; /* -1: null */
	bool times;   /* every ts is at least least_ns, every ts + dur at most greatest_ns */
	int64_t least_ns, greatest_ns;
	/* Unescaped texts; at NULL: unknown. */
	struct pfw_slice name, cat, fname;
	bool no_fname; /* no line has one */
	char ph;       /* 0: unknown */
	bool thread;   /* pid and tid are known */
	uint64_t pid, tid;
};

/* Whether it may be true for one of these lines.  Thread: one at a time for one expression. */
bool pfw_expr_may(const struct pfw_expr *expr, const struct pfw_expr_facts *facts);

/* A lower bound of dur for lines that match; 0: none is known.  Thread: any. */
int64_t pfw_expr_least_dur(const struct pfw_expr *expr);
