/* attach/frames.h - whether a thread that computes may be led away: who has called it, by its stack. */
#pragma once

#include <stdbool.h>

struct thread;
struct tracee;

/* What is needed to follow stacks of the process, read while it runs; NULL: that cannot be done (no
 * libdw, an allocator that is not libc's and may be anywhere). */
struct frames *frames_open(const struct tracee *tracee);
void frames_close(struct frames *frames);

/* Whether no function of libc's, of the dynamic linker's or of ours is among the stopped thread's
 * callers but those that have started it: so it holds none of their locks.  False in doubt. */
bool frames_are_free(struct frames *frames, const struct thread *thread);
