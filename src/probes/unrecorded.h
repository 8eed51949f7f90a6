/* unrecorded.h - what the program hands to the kernel past libc, counted: io_uring, and libaio.
 *
 * liburing, and libaio before 0.3.111, make their system calls themselves, where no wrapper sees them.
 * But what they share with the kernel is mapped and can be found in /proc, and a ring of io_uring
 * counts what was taken from it.  Rings that are made and closed between two looks are not found.
 */
#ifndef PFW_UNRECORDED_H
#define PFW_UNRECORDED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../spool.h"

/*
 * Look, unless the last look was just now; `last`: in any case.  The totals of this process go to
 * counts.  True where there is something that another look may find more of.
 * Thread: drain, or the one that ends the trace.  Opens files of /proc for a moment.
 */
bool pfw_unrecorded_look(_Atomic uint64_t counts[PFW_UNRECORDED_KINDS], bool last);

/* So many operations of some ring, or those of this AIO context, are in the trace, since the program
 * submitted them through syscall().  Thread: app.  Signal: safe. */
void pfw_unrecorded_entered(uint64_t operations);
void pfw_unrecorded_submitted(uint64_t context);

/* Fork: what there is belongs to the parent. */
void pfw_unrecorded_forked(void);

#endif
