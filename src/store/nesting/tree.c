/* store/nesting/tree.c - the tree of one thread's spans; see tree.h. */
#include "store/nesting/tree.h"

#include <errno.h>
#include <stdlib.h>

#include "store/kit/grow.h"
#include "store/kit/saturate.h"

/* Sums over the children of a span. */
struct sums {
	int64_t ns, device_ns;
	int64_t cpu_memory, device_memory;
	int64_t launched_ns; /* GPU work that the span itself launched */
	uint32_t children;
};

struct pfw_tree_frame {
	int64_t start, end; /* if mirrored: of the mirrored span */
	int64_t covered;    /* where its last child ends: children may overlap in part */
	const struct pfw_span *span;
	struct sums sums;
	/* Its only child so far, of the same name: the span may replace it.  NULL: none. */
	const struct pfw_span *child;
	struct sums child_sums;
};

static struct pfw_tree_frame *push(struct pfw_tree *tree)
{
	return PFW_ROOM(tree->frame, tree->depth, tree->room) ? NULL : &tree->frame[tree->depth++];
}

/* Figures other than CPU times; most spans have none. */
static __attribute__((noinline)) void set_more(const struct pfw_tree *tree,
					       struct pfw_nested *nested, const struct sums *sums)
{
	uint32_t extra = nested->span->extra;

	nested->more = true;
	nested->self_device_ns = sums->launched_ns;
	nested->device_ns = pfw_saturate_add(sums->launched_ns, sums->device_ns);
	if (extra == PFW_EXTRA_UNKNOWN) {
		nested->extra.cpu_memory = sums->cpu_memory;
		nested->extra.device_memory = sums->device_memory;
	} else if (extra) {
		nested->extra = tree->extra[extra - 1];
	}
	nested->self_cpu_memory = pfw_saturate_sub(nested->extra.cpu_memory, sums->cpu_memory);
	nested->self_device_memory =
		pfw_saturate_sub(nested->extra.device_memory, sums->device_memory);
}

/* The figures of a span, by the sums over its children. */
static inline void set_figures(const struct pfw_tree *tree, struct pfw_nested *nested,
			       const struct pfw_span *span, const struct sums *sums)
{
	*nested = (struct pfw_nested){ .span = span,
				       .self_ns = pfw_saturate_sub(span->dur_ns, sums->ns) };
	if ((sums->launched_ns | sums->device_ns | sums->cpu_memory | sums->device_memory) ||
	    (span->extra && span->extra != PFW_EXTRA_UNKNOWN))
		set_more(tree, nested, sums);
}

static inline void emit(const struct pfw_tree *tree, struct pfw_nested *nested, bool inside)
{
	nested->inside = inside;
	tree->user->span(tree->user->user, tree->worker, nested);
}

/* The child that a span does not replace. */
static void emit_held(const struct pfw_tree *tree, struct pfw_tree_frame *frame)
{
	struct pfw_nested nested;

	set_figures(tree, &nested, frame->child, &frame->child_sums);
	emit(tree, &nested, true);
	frame->child = NULL;
}

/* Add a closed span, whose `frame` has its times, to its parent as a child. */
static inline void join_parent(const struct pfw_tree *tree, struct pfw_tree_frame *parent,
			       const struct pfw_tree_frame *frame)
{
	const struct pfw_span *span = frame->span;
	struct sums *into = &parent->sums;
	struct pfw_nested nested;
	/* The time that no child before it covers.  Children come by their starts, and each ends after the
	 * one before: what an earlier one covers is not taken from the parent twice. */
	int64_t uncovered = !into->children || parent->covered <= frame->start
				    ? span->dur_ns
				    : frame->end - parent->covered;

	if (parent->child)
		emit_held(tree, parent);
	set_figures(tree, &nested, span, &frame->sums);
	if (!into->children++ &&
	    tree->user->same(tree->user->user, parent->span->group, span->group)) {
		parent->child = span;
		parent->child_sums = frame->sums;
	} else {
		emit(tree, &nested, true);
	}
	pfw_saturate_sum(&into->ns, uncovered);
	parent->covered = frame->end;
	if (!nested.more)
		return;
	pfw_saturate_sum(&into->device_ns, nested.device_ns);
	pfw_saturate_sum(&into->cpu_memory, nested.extra.cpu_memory);
	pfw_saturate_sum(&into->device_memory, nested.extra.device_memory);
}

/* The group of the innermost open span that is no call, of this one and those around it. */
static uint32_t worker_of(const struct pfw_tree *tree, const struct pfw_span *span)
{
	for (uint32_t i = tree->depth;; span = tree->frame[i].span) {
		if (pfw_launcher_kind(span->launcher) != PFW_LAUNCHER_CALL)
			return span->group;
		if (!i--)
			return PFW_NO_GROUP;
	}
}

/* Take the GPU work that the span itself launched.  The work of a runtime call goes to its caller. */
static inline void take_launched(struct pfw_tree *tree, struct pfw_tree_frame *frame,
				 struct pfw_tree_frame *parent)
{
	uint64_t launcher = frame->span->launcher;

	if (tree->launches->kinds[pfw_launcher_kind(launcher)])
		pfw_saturate_sum(&frame->sums.launched_ns,
				 pfw_launches_take(tree->launches, tree->process, launcher,
						   worker_of(tree, frame->span), &tree->hint));
	if (pfw_launcher_kind(launcher) != PFW_LAUNCHER_CALL)
		return;
	if (parent)
		pfw_saturate_sum(&parent->sums.launched_ns, frame->sums.launched_ns);
	frame->sums.launched_ns = 0;
}

/* Close a span that lies in the innermost open one. */
static inline void close_in(struct pfw_tree *tree, struct pfw_tree_frame *frame)
{
	struct pfw_tree_frame *parent = tree->depth ? &tree->frame[tree->depth - 1] : NULL;
	struct pfw_nested nested;

	take_launched(tree, frame, parent);
	if (frame->child)
		frame->sums = frame->child_sums;
	if (parent) {
		join_parent(tree, parent, frame);
		return;
	}
	set_figures(tree, &nested, frame->span, &frame->sums);
	emit(tree, &nested, false);
}

static void close_span(struct pfw_tree *tree)
{
	tree->depth--;
	close_in(tree, &tree->frame[tree->depth]);
}

/* Emit a span beyond the maximum depth as if it had no children. */
static void emit_alone(struct pfw_tree *tree, const struct pfw_span *span)
{
	struct pfw_nested alone;

	set_figures(tree, &alone, span, &(struct sums){ 0 });
	tree->too_deep++;
	emit(tree, &alone, true);
}

struct times {
	int64_t start, end;
};

static inline struct times times_of(const struct pfw_span *span, bool mirrored)
{
	int64_t end = span->start_ns + span->dur_ns;

	return mirrored ? (struct times){ -end, -span->start_ns }
			: (struct times){ span->start_ns, end };
}

/* Whether a span that follows another does not lie in it. */
static inline bool lies_outside(const struct times *next, int64_t end)
{
	return next->start >= end || next->end > end;
}

int pfw_tree_walk(struct pfw_tree *tree, const struct pfw_span *spans, size_t count, bool mirrored)
{
	const struct pfw_span *span = count && mirrored ? spans + count - 1 : spans;
	struct times next = count ? times_of(span, mirrored) : (struct times){ 0 };

	for (; count; count--, span += mirrored ? -1 : 1) {
		const struct times times = next;
		struct pfw_tree_frame leaf, *frame = &leaf;
		bool last = count == 1;

		if (!last)
			next = times_of(mirrored ? span - 1 : span + 1, mirrored);
		while (tree->depth && lies_outside(&times, tree->frame[tree->depth - 1].end))
			close_span(tree);
		if (tree->depth == PFW_NESTING_DEPTH) {
			emit_alone(tree, span);
			continue;
		}
		/* Most spans have no children, and need not be kept until they end. */
		last = last || lies_outside(&next, times.end);
		if (!last && !(frame = push(tree)))
			return -ENOMEM;
		frame->start = times.start;
		frame->end = times.end;
		frame->span = span;
		frame->sums = (struct sums){ 0 };
		frame->child = NULL;
		if (last)
			close_in(tree, frame);
	}
	while (tree->depth)
		close_span(tree);
	return 0;
}

/* Whether a span of duration 0 lies on a border of another. */
static inline bool touches(const struct times *times, int64_t start, int64_t end)
{
	return times->start == times->end && (times->start == start || times->start == end);
}

bool pfw_tree_mirrors(struct pfw_tree *tree, const struct pfw_span *spans, size_t count)
{
	struct times last = count ? times_of(&spans[count - 1], true) : (struct times){ 0 };
	const struct pfw_tree_frame *top = NULL;
	uint32_t depth = 0;

	for (size_t i = count; i-- > 1;) {
		const struct times times = times_of(&spans[i - 1], true);

		if (touches(&times, last.start, last.end))
			return false;
		if (times.start < last.end) {
			if (times.end > last.end || depth >= PFW_NESTING_DEPTH - 1 ||
			    PFW_ROOM(tree->frame, depth, tree->room))
				return false;
			top = &tree->frame[depth];
			tree->frame[depth].start = last.start;
			tree->frame[depth++].end = last.end;
		}
		for (; depth; top--, depth--) {
			if (touches(&times, top->start, top->end))
				return false;
			if (times.start < top->end)
				break;
		}
		if (depth && times.end > top->end)
			return false;
		last = times;
	}
	return true;
}

void pfw_tree_release(struct pfw_tree *tree)
{
	free(tree->frame);
	tree->frame = NULL;
	tree->room = 0;
}
