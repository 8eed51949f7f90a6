/* store/nesting/ties.h - which of several spans with identical times lies in which. */
#pragma once

#include "store/nesting/nesting.h"

static inline bool pfw_ties_same_times(const struct pfw_span *a, const struct pfw_span *b)
{
	return a->start_ns == b->start_ns && a->dur_ns == b->dur_ns;
}

/* Whether the span says that it lies in the other. */
static inline bool pfw_ties_says(const struct pfw_span *span, const struct pfw_span *in)
{
	return span->parent && pfw_launcher_kind(in->launcher) == PFW_LAUNCHER_SPAN &&
	       span->parent == (uint32_t)in->launcher;
}

/* Order the spans with identical times, the outermost first.  The spans of a thread come sorted by
 * start, the longer first, then the greater `outer` first. */
void pfw_ties_settle(struct pfw_span *span, size_t count);
