/* recorder/waits/waits.h - wrappers of locks and sleeps (PFW_CALLS=+sync).
 *
 * Room recorder/waits: records what a thread waits for in a lock, a condition, a barrier, a join or
 * a sleep.  It may use recorder/wrap and the rooms before it.
 *
 * A lock that is free is taken by its try function and is no event.  What waited less than
 * PFW_SYNC_MIN is summed.  As in every wrapper nothing is held while the real call runs, so a
 * thread may be cancelled in it, or a handler may jump out of it.
 */
#pragma once

/* After pfw_real is filled: `exe` is the path of this program.  Thread: init. */
void pfw_waits_init(const char *exe);
