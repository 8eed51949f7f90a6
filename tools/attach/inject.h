/* attach/inject.h - runs the recorder's entry in a thread of its own inside another process. */
#pragma once

#include <stdint.h>

#include "attach/tracee.h"
#include "common/format/attach.h"

/*
 * Start a thread in the process that calls pfw_attached() of `block->library` with what *block
 * holds, and wait for its answer, which then is in *block.  One thread of the process is stopped for
 * a moment, at a system call; everything that runs in the process goes on without this command, so
 * that it may be killed at any time.  0, or -1 and tracee->why.
 */
int inject(struct tracee *tracee, struct pfw_attach_block *block);

/* End what commands that were killed have left in a process that has no recorder, as inject() does. */
void inject_clear(struct tracee *tracee);
