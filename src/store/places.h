/* places.h - lines that still stand in their files, by their places, read into a buffer in another order.
 *
 * Who sorts lines that take more room than there is keeps what is known of them, and reads their
 * text once, to where it is wanted.  Most lines stand near the one before them: they are read by
 * chunks, which then are in the processor's cache.
 */
#ifndef PFW_PLACES_H
#define PFW_PLACES_H

#include <stddef.h>
#include <stdint.h>

/* So many files at most are named by one list, as file numbers below it. */
#define PFW_PLACES_FILES 32u

struct pfw_place {
	const char *path; /* lasts */
	uint32_t file;
	uint32_t to, bytes; /* of the buffer; whole lines */
	uint64_t from;	    /* byte of the file */
};

/* In order of `to`. */
struct pfw_places {
	struct pfw_place *place;
	size_t count, room;
};

/* Append one.  0 or -ENOMEM.  Thread: one at a time. */
int pfw_places_add(struct pfw_places *places, const struct pfw_place *place);
void pfw_places_free(struct pfw_places *places);

struct pfw_places_reader; /* opaque: see places.c */

/* NULL: no memory.  Thread: any; one reader by one at a time, as below. */
struct pfw_places_reader *pfw_places_reader_new(void);
void pfw_places_reader_free(struct pfw_places_reader *reader);

/* Read them into `text`.  0, -ESTALE where no line ends as it did when it was found, or -errno. */
int pfw_places_read(struct pfw_places_reader *reader, const struct pfw_places *places, char *text);

#endif
