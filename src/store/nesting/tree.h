/* store/nesting/tree.h - the tree of one thread's spans, built during one walk; see nesting.h. */
#pragma once

#include "store/nesting/nesting.h"

struct pfw_tree_frame;

/* One walk over the spans of a thread.  Thread: one at a time for one walk. */
struct pfw_tree {
	const struct pfw_nesting_user *user;
	unsigned worker;
	const struct pfw_span_extra *extra;
	struct pfw_launches *launches;
	uint32_t process;
	uint64_t too_deep;
	/* Private to tree.c. */
	struct pfw_tree_frame *frame; /* a stack: the open spans, the innermost last */
	uint32_t depth;
	size_t room;
	struct pfw_launches_hint hint;
};

/* Nest `count` spans, sorted by start, the longer first; or `mirrored`: sorted by end, the shorter
 * first, and read backwards.  Return 0 or -ENOMEM. */
int pfw_tree_walk(struct pfw_tree *tree, const struct pfw_span *spans, size_t count, bool mirrored);

/* Whether a mirrored walk of spans sorted by end finds the same tree: no two spans overlap in part,
 * and no span of duration 0 lies on a border.  False also without memory. */
bool pfw_tree_mirrors(struct pfw_tree *tree, const struct pfw_span *spans, size_t count);

void pfw_tree_release(struct pfw_tree *tree);
