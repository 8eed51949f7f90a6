/* tools/share/unrecorded.h - what a trace may lack altogether, and what would record it.
 *
 * A figure of such a kind is not known: it is "-" for people and null for programs, never 0.
 */
#pragma once

#include <stdbool.h>

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
 * empty line; *any says whether there was one.  Thread: main. */
void unrecorded_say(const char *figures, enum unrecorded kind, bool *any);
