/* store/read/places.h - reads lines by their places in files into a buffer, in another order.
 *
 * A sort that does not fit in memory keeps the places of lines, and reads each text once, to where
 * it belongs.  Most lines are near the one before them, so they are read by chunks that stay in the
 * processor's cache.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* File numbers of one list are below this. */
#define PFW_PLACES_FILES 32u

struct pfw_place {
	const char *path; /* lasts */
	uint32_t file;
	uint32_t to, bytes; /* in the buffer; whole lines */
	uint64_t from;	    /* place in the file */
};

/* In order of `to`. */
struct pfw_places {
	struct pfw_place *place;
	size_t count, room;
};

void pfw_places_free(struct pfw_places *places);

struct pfw_places_reader; /* opaque: see places.c */

/* NULL: no memory.  Thread: one at a time for one reader, as below. */
struct pfw_places_reader *pfw_places_reader_new(void);
void pfw_places_reader_free(struct pfw_places_reader *reader);

/* Read the lines into `text`.  0, -ESTALE if a line no longer ends with '\n', or -errno. */
int pfw_places_read(struct pfw_places_reader *reader, const struct pfw_places *places, char *text);
