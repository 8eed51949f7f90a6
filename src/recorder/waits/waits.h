/* recorder/waits/waits.h - wrappers of locks and sleeps (PFW_CALLS=+sync).
 *
 * Room recorder/waits: records what a thread waits for in a lock, a condition, a barrier, a join or
 * a sleep.  It may use recorder/wrap and the rooms before it.
 *
 * The wrapper takes a free lock by its try function, without an event.  Waits shorter than
 * PFW_SYNC_MIN are summed.  As in every wrapper, the recorder holds no lock while the real call
 * runs, so a thread may be cancelled in the call, or a handler may jump out of it.
 */
#pragma once

/* After pfw_real is filled: `exe` is the path of this program.  Thread: init. */
void pfw_waits_init(const char *exe);
