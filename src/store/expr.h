/* expr.h - the language of `--where`: dur>1ms && args.fname=~"\.npz$"
 *
 *   fields     id name cat pid tid ts dur ph rank step args.X args.X.Y args."odd key"; what a line
 *              does not have is null
 *   numbers    exact thousandths, so ts and dur (in µs) are exact to the nanosecond; with units of
 *              time (ns us µs ms s m h: µs) or size (KiB MiB GiB TiB kB MB GB TB); what is finer, or
 *              beyond 128 bits, is a double
 *   text       "..." or '...' with JSON's escapes; compared byte by byte
 *   == !=      of any two values: of different types unequal
 *   < <= > >=  of two numbers or two texts, else false
 *   =~ !~      a POSIX extended regular expression found in a text, the backslash is its own; !~ is
 *              the contrary, also where there is no text
 *   in (...)   equal to one of these constants
 *   + - * /    of numbers, else null; so is a division by zero
 *   && || !    of conditions; an argument is one where it is `true`
 *   has(F)     whether it is there and not null
 *
 * Compiled once; a line is tested without a malloc of ours.
 */
#ifndef PFW_EXPR_H
#define PFW_EXPR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "entry.h"

#define PFW_EXPR_BYTES 65536 /* of its text */
#define PFW_EXPR_DEPTH 64
#define PFW_EXPR_NODES 4096

struct pfw_fnames;
struct pfw_expr; /* opaque: see expr_nodes.h */

/*
 * Compile it.  Return 0, -ENOMEM, or -EINVAL with what is wrong in why, three lines: the message
 * with its column, the text about it and a caret.  Thread: any.
 */
int pfw_expr_compile(struct pfw_expr **out, const char *text, char *why, size_t size);
void pfw_expr_free(struct pfw_expr *expr);

/* Whether it asks for lines of metadata by itself: speaks of ph, or of cat "pfw". */
bool pfw_expr_wants_meta(const struct pfw_expr *expr);

/* Whether it speaks of args.fname. */
bool pfw_expr_asks_fname(const struct pfw_expr *expr);

/* What a thread needs of its own (its regular expressions, room for text); NULL: no memory.  `expr`
 * and `fnames` (may be NULL) must last. */
struct pfw_expr_state;
struct pfw_expr_state *pfw_expr_state_create(const struct pfw_expr *expr,
					     const struct pfw_fnames *fnames);
void pfw_expr_state_free(struct pfw_expr_state *state);

/* Whether it is true of this line, in a trace of this rank (-1: null).  Thread: the state's. */
bool pfw_expr_test(struct pfw_expr_state *state, const struct pfw_entry *entry, int64_t rank);

/* What all of some lines that were not read have in common. */
#define PFW_EXPR_ANY_RANK (-2)

struct pfw_expr_facts {
	int64_t rank; /* -1: they have none */
	bool times;   /* every ts is at least least_ns, every ts + dur at most greatest_ns */
	int64_t least_ns, greatest_ns;
	/* Texts behind their escapes; at NULL: not known. */
	struct pfw_slice name, cat, fname;
	bool no_fname; /* none has one */
	char ph;       /* 0: not known */
	bool thread;   /* pid and tid are known */
	uint64_t pid, tid;
};

/* Whether it can be true of one of them.  Thread: one at a time for one expression. */
bool pfw_expr_may(const struct pfw_expr *expr, const struct pfw_expr_facts *facts);

/* No line with a shorter dur fulfils it; 0: nothing is known.  Thread: any. */
int64_t pfw_expr_least_dur(const struct pfw_expr *expr);

#endif
