/* tools/share/unrecorded.h - what a trace may lack altogether, and what would record it.
 *
 * A figure of such a kind is not known: it is "-" for people and null for programs, never 0.
 */
#pragma once

#include <stdbool.h>

struct cli_command;

enum unrecorded {
	UNRECORDED_IO,
	UNRECORDED_OPERATORS,
	UNRECORDED_KERNELS,
	UNRECORDED_MEMORY,
	UNRECORDED_FLOPS,
	UNRECORDED_ALLOCATOR,
	UNRECORDED_KINDS
};

/* Print under a table why the figures are not known: one item of a list, whose first one follows an
 * empty line; *any says whether there was one.  With a condition of select_args_but_rank() it is not known
 * whether the rest of the traces has them.  Thread: main, as below. */
void unrecorded_say(const char *figures, enum unrecorded kind, const char *condition, bool *any);

/* Print on standard error that a table is empty: `what` ("calls are") in none of the traces, and
 * what would record it; or in nothing that the condition selects. */
void unrecorded_say_none(const struct cli_command *command, const char *what, const char *condition,
			 const char *remedy);
