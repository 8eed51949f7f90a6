/* store/nesting/tree.c - the tree of one thread's spans; see tree.h. */
#include "store/nesting/tree.h"

#include <errno.h>
#include <stdlib.h>

#include "store/kit/grow.h"
#include "store/kit/saturate.h"

/* Sums over the children of a span. */
struct sums {
	uint32_t children;
	int64_t ns, device_ns;
	int64_t cpu_memory, device_memory;
	int64_t launched_ns; /* GPU work that the span itself launched */
};

struct pfw_tree_frame {
	int64_t start, end; /* if mirrored: of the mirrored span */
	int64_t covered;    /* where its last child ends: children may overlap in part */
	struct pfw_nested nested;
	struct sums sums;
	/* Its only child so far, of the same name: the span may replace it. */
	bool held;
	struct pfw_nested child;
	struct sums child_sums;
};

static struct pfw_tree_frame *push(struct pfw_tree *tree)
{
	return PFW_ROOM(tree->frame, tree->depth, tree->room) ? NULL : &tree->frame[tree->depth++];
}

static void emit(const struct pfw_tree *tree, const struct pfw_nested *nested)
{
	tree->user->span(tree->user->user, tree->worker, nested);
}

/* The time of a child that no child before it covers.  Children come by their starts, and each ends
 * after the one before: what an earlier one covers is not taken from the parent twice. */
static int64_t uncovered(const struct pfw_tree_frame *parent, const struct pfw_tree_frame *child)
{
	if (!parent->sums.children || parent->covered <= child->start)
		return child->nested.span.dur_ns;
	return child->end - parent->covered;
}

/* Add the closed span to its parent as a child. */
static void join_parent(const struct pfw_tree *tree, struct pfw_tree_frame *parent,
			const struct pfw_tree_frame *closed)
{
	const struct pfw_nested *nested = &closed->nested;

	if (parent->held)
		emit(tree, &parent->child);
	parent->held =
		!parent->sums.children &&
		tree->user->same(tree->user->user, parent->nested.span.group, nested->span.group);
	if (parent->held) {
		parent->child = *nested;
		parent->child_sums = closed->sums;
	} else {
		emit(tree, nested);
	}
	pfw_saturate_sum(&parent->sums.ns, uncovered(parent, closed));
	parent->sums.children++;
	parent->covered = closed->end;
	pfw_saturate_sum(&parent->sums.device_ns, nested->device_ns);
	pfw_saturate_sum(&parent->sums.cpu_memory, nested->extra.cpu_memory);
	pfw_saturate_sum(&parent->sums.device_memory, nested->extra.device_memory);
}

/* The group of the innermost open span that is no call, of `frame` and those around it. */
static uint32_t worker_of(const struct pfw_tree *tree, const struct pfw_tree_frame *frame)
{
	for (; frame >= tree->frame; frame--) {
		if (pfw_launcher_kind(frame->nested.span.launcher) != PFW_LAUNCHER_CALL)
			return frame->nested.span.group;
	}
	return PFW_NO_GROUP;
}

/*
 * Take the GPU work that the span itself launched.  The work of a runtime call goes to its caller.
 */
static void take_launched(struct pfw_tree *tree, struct pfw_tree_frame *frame,
			  struct pfw_tree_frame *parent)
{
	uint64_t launcher = frame->nested.span.launcher;

	if (tree->launches->kinds[pfw_launcher_kind(launcher)])
		pfw_saturate_sum(&frame->sums.launched_ns,
				 pfw_launches_take(tree->launches, tree->process, launcher,
						   worker_of(tree, frame), &tree->hint));
	if (pfw_launcher_kind(launcher) != PFW_LAUNCHER_CALL)
		return;
	if (parent)
		pfw_saturate_sum(&parent->sums.launched_ns, frame->sums.launched_ns);
	frame->sums.launched_ns = 0;
}

static void close_span(struct pfw_tree *tree)
{
	struct pfw_tree_frame *frame = &tree->frame[--tree->depth];
	struct pfw_tree_frame *parent = tree->depth ? frame - 1 : NULL;
	struct pfw_nested *nested = &frame->nested;

	take_launched(tree, frame, parent);
	if (frame->held)
		frame->sums = frame->child_sums;
	nested->self_ns = pfw_saturate_sub(nested->span.dur_ns, frame->sums.ns);
	nested->self_device_ns = frame->sums.launched_ns;
	nested->device_ns = pfw_saturate_add(frame->sums.launched_ns, frame->sums.device_ns);
	if (nested->span.extra == PFW_EXTRA_UNKNOWN) {
		nested->extra.cpu_memory = frame->sums.cpu_memory;
		nested->extra.device_memory = frame->sums.device_memory;
	}
	nested->self_cpu_memory =
		pfw_saturate_sub(nested->extra.cpu_memory, frame->sums.cpu_memory);
	nested->self_device_memory =
		pfw_saturate_sub(nested->extra.device_memory, frame->sums.device_memory);
	if (parent)
		join_parent(tree, parent, frame);
	else
		emit(tree, nested);
}

static void set_frame(const struct pfw_tree *tree, struct pfw_tree_frame *frame,
		      const struct pfw_span *span, bool inside)
{
	/* Member by member: what the child holds has 200 bytes, and is set before it is read. */
	frame->nested = (struct pfw_nested){
		.span = *span, .process = tree->process, .tid = tree->tid, .inside = inside
	};
	frame->sums = (struct sums){ 0 };
	frame->held = false;
	if (span->extra && span->extra != PFW_EXTRA_UNKNOWN)
		frame->nested.extra = tree->extra[span->extra - 1];
}

/* Emit a span beyond the maximum depth as if it had no children. */
static void emit_alone(struct pfw_tree *tree, const struct pfw_span *span)
{
	struct pfw_tree_frame alone;

	set_frame(tree, &alone, span, true);
	alone.nested.self_ns = span->dur_ns;
	alone.nested.self_cpu_memory = alone.nested.extra.cpu_memory;
	alone.nested.self_device_memory = alone.nested.extra.device_memory;
	tree->too_deep++;
	emit(tree, &alone.nested);
}

static void set_times(const struct pfw_span *span, bool mirrored, int64_t *start, int64_t *end)
{
	int64_t span_end = span->start_ns + span->dur_ns;

	*start = mirrored ? -span_end : span->start_ns;
	*end = mirrored ? -span->start_ns : span_end;
}

int pfw_tree_walk(struct pfw_tree *tree, const struct pfw_span *spans, size_t count, bool mirrored)
{
	for (size_t i = 0; i < count; i++) {
		const struct pfw_span *span = &spans[mirrored ? count - 1 - i : i];
		struct pfw_tree_frame *frame;
		int64_t start, end;

		set_times(span, mirrored, &start, &end);
		while (tree->depth && (start >= tree->frame[tree->depth - 1].end ||
				       end > tree->frame[tree->depth - 1].end))
			close_span(tree);
		if (tree->depth == PFW_NESTING_DEPTH) {
			emit_alone(tree, span);
			continue;
		}
		frame = push(tree);
		if (!frame)
			return -ENOMEM;
		set_frame(tree, frame, span, tree->depth > 1);
		frame->start = start;
		frame->end = end;
	}
	while (tree->depth)
		close_span(tree);
	return 0;
}

bool pfw_tree_mirrors(struct pfw_tree *tree, const struct pfw_span *spans, size_t count)
{
	bool mirrors = true;

	for (size_t i = count; mirrors && i-- > 0;) {
		struct pfw_tree_frame *top;
		int64_t start, end;

		set_times(&spans[i], true, &start, &end);
		for (; tree->depth; tree->depth--) {
			top = &tree->frame[tree->depth - 1];
			if (start == end && (start == top->start || start == top->end))
				mirrors = false;
			if (start < top->end)
				break;
		}
		if (tree->depth && end > tree->frame[tree->depth - 1].end)
			mirrors = false;
		if (tree->depth == PFW_NESTING_DEPTH || !(top = push(tree))) {
			mirrors = false;
		} else {
			top->start = start;
			top->end = end;
		}
	}
	tree->depth = 0;
	return mirrors;
}

void pfw_tree_release(struct pfw_tree *tree)
{
	free(tree->frame);
	tree->frame = NULL;
	tree->room = 0;
}
