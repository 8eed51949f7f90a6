/* tools/memory/memory.h - what `pfw memory` is asked and finds.
 *
 * Room tools/memory: `pfw memory` shows peaks, growth and owners of allocations.  It may use
 * tools/share, tools/ui and the store.  Start with memory.c; index.c asks indexes,
 * store/memory adds up, print.c prints; snapshot.c and pickle.c read snapshots of PyTorch's
 * allocator.
 */
#pragma once

#include <stdio.h>

#include "share/survey.h"
#include "store/memory/memory.h"

/* A snapshot of torch's allocator as a temporary trace. */
struct memory_snapshot {
	FILE *trace;
	char path[32];
};

struct memory {
	struct survey survey;
	/* Options. */
	struct pfw_select select;
	uint64_t bins;	     /* of the timeline; 0: none */
	uint64_t lives_most; /* the greatest blocks that are shown; 0: none */
	struct memory_snapshot *snapshot;
	size_t snapshots;
	const char *lacks; /* why indexes are not enough; NULL: there is none */
	struct pfw_memory sums;
};

/* Whether indexes may have the answer: conditions on other than ranks need lines. */
bool memory_asks_indexes(const struct memory *memory);

/* Number the processes of traces whose heads were read, and split files of several ranks.  0 or
 * -errno.  Thread: main, as all here. */
int memory_part_ranks(struct memory *memory, struct pfw_traces *traces);

/* Add up from indexes, and make those that are missing if the traces are large.  1; 0 if the lines must
 * be read; -errno. */
int memory_ask_indexes(struct memory *memory, const struct pfw_traces *traces);

/* 0 or -ENOMEM. */
int memory_print(const struct memory *memory);

/* Write a snapshot of PyTorch's allocator (torch.cuda.memory._dump_snapshot), the pickle at `path`,
 * as a trace to a temporary file without a name, which the caller closes.  0, or -errno with `why`.
 * Each function that allocates becomes a thread with one span of its name, since allocations belong
 * to their thread's spans.  Time and memory are linear in the file, whatever its values share: at
 * most 256 bytes of trace, and 100 of memory, for each of its bytes.  -EINTR if *stop is set. */
int snapshot_open(FILE **trace, const char *path, const _Atomic bool *stop, char *why, size_t size);
