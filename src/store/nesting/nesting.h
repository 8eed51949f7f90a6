/* store/nesting/nesting.h - nests the spans of each thread: self times, and GPU work by span.
 *
 * Room store/nesting: nests spans by the rules of torch.profiler's key_averages(): sorted by start
 * (the longer first), a span lies in the innermost open span that ends no earlier; a span whose
 * only child has the same name replaces the child.  Of spans with identical times, that lies in the
 * other which says so, else the one that pfw_entry_outer() says.  Spans may come in any order; mixed
 * orders are slower.  It may use store/{sys,math,kit}.  Start with pfw_nesting_run(), then tree.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/nesting/launches.h"

/* Deeper spans count as spans without children; they are reported. */
#define PFW_NESTING_DEPTH 65536u

struct pfw_span {
	int64_t start_ns;
	int64_t dur_ns;
	uint64_t launcher; /* the identity that GPU work refers to, see launches.h; 0: none */
	/* Which of spans with identical times lies in which: the low bits of pfw_entry_outer() (0: none)
	 * and of the id of the span in which it lies, as PFW_LAUNCHER_SPAN (0: not known). */
	uint32_t outer, parent;
	uint32_t group; /* row number of the caller */
	uint32_t note;	/* another number of the caller */
	uint32_t extra; /* from pfw_nesting_extra(), 0 (all are 0), or the next: */
};

/* The event says nothing of memory: it has what its children have, and none itself. */
#define PFW_EXTRA_UNKNOWN UINT32_MAX

/* Figures that only few spans have. */
struct pfw_span_extra {
	int64_t cpu_memory, device_memory;
	uint64_t flops;
};

/* A span with the figures that follow from its place in the tree. */
struct pfw_nested {
	const struct pfw_span *span;
	struct pfw_span_extra extra;
	bool inside; /* has a parent */
	bool more;   /* some figure below self_ns or in `extra` may not be 0 */
	int64_t self_ns;
	int64_t device_ns, self_device_ns;
	int64_t self_cpu_memory, self_device_memory;
};

struct pfw_nesting;

/* Keep about `memory` bytes in memory, the rest in temporary files.  NULL: no memory.  Thread: one
 * at a time for one nesting, as all here. */
struct pfw_nesting *pfw_nesting_create(size_t memory);
void pfw_nesting_free(struct pfw_nesting *nesting);

/* The number of a process (entry->process), or of one of its threads, from 0; or
 * -ENOMEM. */
int64_t pfw_nesting_process(struct pfw_nesting *nesting, uint64_t process);
int64_t pfw_nesting_thread(struct pfw_nesting *nesting, uint32_t process, uint64_t tid);

/*
 * Add spans of a thread, the extra figures of one, or a piece of GPU work.  Errors: as pfw_spill_add().
 */
int pfw_nesting_add(struct pfw_nesting *nesting, uint32_t thread, const struct pfw_span *span,
		    size_t count);
int pfw_nesting_extra(struct pfw_nesting *nesting, const struct pfw_span_extra *extra,
		      uint32_t *number);
int pfw_nesting_launch(struct pfw_nesting *nesting, const struct pfw_launch *launch);

struct pfw_nesting_user {
	void *user;
	/* Each thread, by the number of its process, before its spans.  NULL: no matter. */
	void (*thread)(void *user, uint32_t process, uint64_t tid);
	/* Each span that counts, thread by thread; all of a process by one `worker` < jobs. */
	void (*span)(void *user, unsigned worker, const struct pfw_nested *nested);
	/* Whether the spans of two groups have the same name. */
	bool (*same)(void *user, uint32_t a, uint32_t b);
};

#define PFW_NO_GROUP UINT32_MAX

/* Nest all spans with `jobs` threads, once.  Return 0, or as pfw_spill_add().  *too_deep: the
 * number of spans deeper than PFW_NESTING_DEPTH. */
int pfw_nesting_run(struct pfw_nesting *nesting, const struct pfw_nesting_user *user, unsigned jobs,
		    uint64_t *too_deep);

/* After that: the group of the span whose work a piece of GPU work is, by its process and its launchers: the
 * launcher itself, of a call the span around it, or PFW_NO_GROUP.  Work comes best in order. */
uint32_t pfw_nesting_taker(const struct pfw_nesting *nesting, const struct pfw_launch *launch,
			   struct pfw_launches_hint *hint);
