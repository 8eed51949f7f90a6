/* recorder/wrap/unrecorded.h - counts I/O that bypasses libc: io_uring and libaio.
 *
 * liburing, and libaio before 0.3.111, make their own system calls, which no wrapper sees.  But the
 * memory that they share with the kernel is visible in /proc, and a ring of io_uring counts the
 * operations consumed from it.  A ring that exists only between two looks is not found, unless the
 * program unmaps it by libc.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/format/spool.h"

/*
 * Look, unless the last look was just now; `last`: always.  Store the totals of this process in
 * counts.  True if another look may find more.  Thread: drain, or the one that ends the trace.
 * Opens files of /proc for a moment.
 */
bool pfw_unrecorded_look(_Atomic uint64_t counts[PFW_UNRECORDED_KINDS], bool last);

/* A mapping of the file `name` (a string of the spool) is about to be unmapped: if it is a ring's, look
 * now.  Thread: app. */
void pfw_unrecorded_goes(uint32_t name);

/* Operations of a ring, or those of this AIO context, are in the trace, because the program
 * submitted them by syscall().  Thread: app.  Signal: safe. */
void pfw_unrecorded_entered(uint64_t operations);
void pfw_unrecorded_submitted(uint64_t context);

/* Fork: the rings and contexts found so far are the parent's. */
void pfw_unrecorded_forked(void);
