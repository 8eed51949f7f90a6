/* nesting.h - which span lies in which, in each thread: self times, and whose the GPU work is.
 *
 * The rules are those of torch.profiler's key_averages(): of the spans of a thread in order of
 * their starts (the longer first), each lies in the innermost earlier one that is not over and ends
 * no sooner; one whose only child has its own name takes the child's place.  The spans may come in
 * any order: by their ends as a recorder writes them, by their starts as compact sorts them, or
 * mixed, which is slower.
 */
#ifndef PFW_NESTING_H
#define PFW_NESTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launches.h"

/* Deeper spans are taken for top-level ones without children, and counted. */
#define PFW_NESTING_DEPTH 65536u

struct pfw_span {
	int64_t start_ns;
	int64_t dur_ns;
	uint64_t launcher; /* what GPU work calls it, see launches.h; 0: nothing */
	uint32_t group;	   /* its row: the caller's */
	uint32_t extra;	   /* pfw_nesting_extra()'s, or 0 */
};

/* What few spans have. */
struct pfw_span_extra {
	int64_t cpu_memory, device_memory;
	uint64_t flops;
};

/* A span with what its place makes of it. */
struct pfw_nested {
	struct pfw_span span;
	struct pfw_span_extra extra;
	bool inside; /* has a parent */
	int64_t self_ns;
	int64_t device_ns, self_device_ns;
	int64_t self_cpu_memory, self_device_memory;
};

struct pfw_nesting;

/* One that keeps about `memory` bytes in memory, the rest in temporary files.  NULL: no memory.
 * Thread: one at a time for one nesting, as all here. */
struct pfw_nesting *pfw_nesting_create(size_t memory);
void pfw_nesting_free(struct pfw_nesting *nesting);

/* The numbers of a process (`file`: its trace) and of one of its threads, from 0 on; or -ENOMEM. */
int64_t pfw_nesting_process(struct pfw_nesting *nesting, uint32_t file, uint64_t pid);
int64_t pfw_nesting_thread(struct pfw_nesting *nesting, uint32_t process, uint64_t tid);

/* Add a span of a thread; what it has besides; a piece of GPU work.  As pfw_spill_add(). */
int pfw_nesting_add(struct pfw_nesting *nesting, uint32_t thread, const struct pfw_span *span);
int pfw_nesting_extra(struct pfw_nesting *nesting, const struct pfw_span_extra *extra,
		      uint32_t *number);
int pfw_nesting_launch(struct pfw_nesting *nesting, const struct pfw_launch *launch);

struct pfw_nesting_user {
	void *user;
	/* Each span that counts, in no order; of one process always in one thread, `worker` < jobs. */
	void (*span)(void *user, unsigned worker, const struct pfw_nested *nested);
	/* Whether the spans of two groups have the same name. */
	bool (*same)(void *user, uint32_t a, uint32_t b);
};

/*
 * Nest all that was added, with `jobs` threads.  Return 0, or as pfw_spill_add(); *too_deep counts
 * the spans that lie deeper than PFW_NESTING_DEPTH.  To be called once.
 */
int pfw_nesting_run(struct pfw_nesting *nesting, const struct pfw_nesting_user *user, unsigned jobs,
		    uint64_t *too_deep);

#endif
