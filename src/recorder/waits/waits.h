/* recorder/waits/waits.h - wrappers of locks and sleeps (PFW_CALLS=+sync).
 *
 * Room recorder/waits: records what a thread waits for in a lock, a condition, a barrier, a join or
 * a sleep.  It may use recorder/wrap and the rooms before it.  Start with waits.c; object.c names
 * what was waited for.
 *
 * A lock that is free is taken by its try function and is no event.  What waited less than
 * PFW_SYNC_MIN is summed.  As in every wrapper nothing is held while the real call runs, so a
 * thread may be cancelled in it, or a handler may jump out of it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* After pfw_real is filled: `exe` is the path of this program.  Thread: init. */
void pfw_waits_init(const char *exe);

/* A name has at most this many bytes. */
#define PFW_WAIT_NAME_BYTES 192

/* "mutex:[libfoo.so.1+0x4120]" for a lock in the static data of an object, which addr2line and nm
 * understand; "mutex:[0x7f3a1c000b20]" for any other.  Return its length.  Thread: app.  Signal:
 * safe.  Keeps errno. */
size_t pfw_wait_name(const char *kind, uintptr_t address, char name[PFW_WAIT_NAME_BYTES]);
void pfw_wait_name_init(const char *exe);
