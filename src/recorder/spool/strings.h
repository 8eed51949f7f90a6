/* recorder/spool/strings.h - names in the spool, 1 MiB at most: interned, or counted by users.
 *
 * Both share one arena of cells (common/format/spool.h).  A file name lives as long as a descriptor
 * holds it; names of spans, categories and kernels are interned by content and stay.  Everything is
 * lock-free, since an open() in a signal handler may interrupt an open().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/format/spool.h"

/* Longest text; a longer one is written into the record. */
#define PFW_STRING_MAX 4096u

/* Drop all segments and names.  Thread: init, or a forked child's only one. */
void pfw_strings_reset(void);

/* The same in a forked child, which may still look up references of its parent: copy the text and
 * return its length; 0 if the reference is stale or the text does not fit.  The parent keeps
 * changing its arena.  Thread: a forked child's only one; app. */
void pfw_strings_forked(void);
size_t pfw_strings_inherited(uint32_t ref, char *text, size_t room);

/* Add segment `index` (the next one; PFW_STRING_SEGMENT_BYTES, its struct pfw_chunk filled), of
 * which `usable` bytes are allocated; or raise `usable` of the last one.  Thread: drain. */
void pfw_strings_add_segment(char *segment, unsigned index, size_t usable);

/* Whether another segment, or the rest of the last one, is needed soon.  Thread: drain. */
bool pfw_strings_low(void);

/* Where the segments are mapped, for pfw_string_text().  Thread: any. */
const struct pfw_string_view *pfw_strings_view(void);

/* The text of a reference, or NULL if it is stale.  *bytes gets its length.  Thread: any.
 * Signal: safe. */
const char *pfw_strings_text(uint32_t ref, uint32_t *bytes);

/* Make a string of directory + '/' + text (directory_bytes 0: only text) with one user.  Return its
 * reference, or 0 if it is too long or there is no room.  Thread: app.  Signal: safe. */
uint32_t pfw_string_create(const char *directory, size_t directory_bytes, const char *text,
			   size_t bytes);

/* Add a user; false if the reference is stale.  Thread: app.  Signal: safe. */
bool pfw_string_hold(uint32_t ref);

/* Remove a user.  After the last one the cell is freed once no record can name it.  Ignores stale
 * references and 0.  Thread: app.  Signal: safe. */
void pfw_string_drop(uint32_t ref);

/* Intern a text for good.  Return its reference, or 0 if there is no room: write it into the
 * record.  Thread: app.  Signal: safe. */
uint32_t pfw_string_intern(const char *text, size_t bytes);

/* Call once a pass over all rings is written and its records are freed: frees the cells that were
 * dropped two passes ago.  Thread: drain. */
void pfw_strings_reclaim(void);

/*
 * The same for a flight recorder, whose records stay: frees the cells that were dropped before
 * `oldest_ticks`, the end of the oldest record.  Thread: drain.
 */
void pfw_strings_reclaim_before(uint64_t now_ticks, uint64_t oldest_ticks);

/* Whether a text has found no room since the last call.  If so, and if names wait for their records
 * to go: when the older half of them was dropped, else 0.  Thread: drain. */
uint64_t pfw_strings_scarce(void);
