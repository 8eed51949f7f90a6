/* snapshot.h - a snapshot of PyTorch's allocator (torch.cuda.memory._dump_snapshot) as a trace. */
#ifndef SNAPSHOT_H
#define SNAPSHOT_H

#include <stddef.h>
#include <stdio.h>

/*
 * Write a trace of the pickle at `path` to a temporary file without a name, which is gone when the caller
 * closes it.  0, or -errno after saying why in `why`.  Each function that allocates is a thread of its
 * own there, with one span of its name: allocations are told with it, and belong to a thread's spans.
 * Thread: main.
 */
int snapshot_open(FILE **trace, const char *path, char *why, size_t size);

#endif
