/* strings.h - names in the spool: interned once or held by open descriptors, bounded at 1 MiB.
 *
 * Two uses of one arena of cells (spool.h): names of files live as long as a descriptor holds them,
 * names of spans, categories and kernels are interned by content and stay.  Everything is lock-free,
 * since an open() in a signal handler may interrupt an open().
 */
#ifndef PFW_STRINGS_H
#define PFW_STRINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spool.h"

struct pfw_string_view;

/* Longest text; longer ones are written inline. */
#define PFW_STRING_MAX 4096u

/* Start afresh: no segments, nothing interned.  Thread: init, or a forked child's only one. */
void pfw_strings_reset(void);

/* The same in a forked child, which may still ask what its parent called something: copy the text of
 * the parent's reference to `text` and return its length; 0 where there is none, or it does not fit.
 * The parent goes on using its arena.  Thread: a forked child's only one; app. */
void pfw_strings_forked(void);
size_t pfw_strings_inherited(uint32_t ref, char *text, size_t room);

/* Hand over segment number `index` (the next one; PFW_STRING_SEGMENT_BYTES, its struct pfw_chunk
 * filled), of which the first `usable` bytes may be touched; or more of the last one.  Thread: drain. */
void pfw_strings_add_segment(char *segment, unsigned index, size_t usable);

/* Whether another segment, or the rest of the last, should be added soon.  Thread: drain. */
bool pfw_strings_low(void);

/* Where the segments are mapped, for json.h.  Thread: any. */
const struct pfw_string_view *pfw_strings_view(void);

/* The text behind a reference, or NULL where it is stale.  *bytes gets its length.  Thread: any.
 * Signal: safe. */
const char *pfw_strings_text(uint32_t ref, uint32_t *bytes);

/*
 * A new string, directory + '/' + text (directory_bytes 0: text alone), with one user.  Return its
 * reference, or 0 where there is no room or it is too long.  Thread: app.  Signal: safe.
 */
uint32_t pfw_string_create(const char *directory, size_t directory_bytes, const char *text,
			   size_t bytes);

/* One user more; false where the reference is stale.  Thread: app.  Signal: safe. */
bool pfw_string_hold(uint32_t ref);

/* One user less; the last one gives the cell back, once no record can name it any more.
 * Stale references and 0 are nothing.  Thread: app.  Signal: safe. */
void pfw_string_drop(uint32_t ref);

/* The reference of a text that stays, or 0 where there is no room: write it inline.
 * Thread: app.  Signal: safe. */
uint32_t pfw_string_intern(const char *text, size_t bytes);

/* Call after each look at all rings, once what was found there is written and freed: cells dropped
 * two looks ago are given back.  Thread: drain. */
void pfw_strings_reclaim(void);

#endif
