/* nesting_tree.h - the tree of one thread's spans, built while they are walked: see nesting.h. */
#ifndef PFW_NESTING_TREE_H
#define PFW_NESTING_TREE_H

#include "nesting.h"

struct pfw_tree_frame;

/* One walk over the spans of a thread.  Thread: one at a time for one walk. */
struct pfw_tree {
	const struct pfw_nesting_user *user;
	unsigned worker;
	const struct pfw_span_extra *extra;
	struct pfw_launches *launches;
	uint32_t process;
	uint64_t too_deep;
	/* Private to nesting_tree.c. */
	struct pfw_tree_frame *frame; /* the spans that are open, the innermost last */
	uint32_t depth;
	size_t room;
	struct pfw_launches_hint hint;
};

/* Add up `count` spans, in order of their starts, the longer first; or `mirrored`: in order of
 * their ends, the shorter first, read from the back.  Return 0 or -ENOMEM. */
int pfw_tree_walk(struct pfw_tree *tree, const struct pfw_span *spans, size_t count, bool mirrored);

/* Whether a mirrored walk of spans in order of their ends finds the same tree: none overlaps another
 * in part, and none without a duration lies on a border.  False, too, without memory. */
bool pfw_tree_mirrors(struct pfw_tree *tree, const struct pfw_span *spans, size_t count);

void pfw_tree_release(struct pfw_tree *tree);

#endif
