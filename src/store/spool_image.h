/* spool_image.h - a dead process's spool, read into memory and checked.
 *
 * A spool may be cut, damaged or made by somebody who wishes us ill, and its owner may change it
 * while we look.  So nothing is mapped: it is copied by pread, and only the copy is believed, after
 * every length and index in it has been checked.  Memory: the templates, 1 MiB of strings, and the
 * slots of one stretch at a time.
 */
#ifndef PFW_SPOOL_IMAGE_H
#define PFW_SPOOL_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "json.h"
#include "spool.h"

#define PFW_SPOOL_WHY_BYTES 256

/* A stretch whose records are not in the trace yet: positions tail to head. */
struct pfw_spool_stretch {
	uint64_t at; /* of its first slot, in the file */
	uint32_t ring;
	uint32_t capacity;
	uint64_t order;
	uint64_t tail;
	uint64_t head;
	int32_t tid;
	char comm[16];
};

struct pfw_spool_image {
	int fd;				 /* borrowed */
	uint64_t bytes;			 /* of the file */
	struct pfw_spool_header *header; /* both pages */
	struct pfw_slot slot;		 /* the newest; generation 0 = nothing was written yet */
	struct pfw_template_chunk *templates;
	struct pfw_steps_chunk *steps; /* NULL = none */
	struct pfw_string_view strings;
	struct pfw_spool_stretch *stretch; /* by ring, then order */
	size_t stretch_count;
	uint64_t *sums; /* where in the file tables of short calls are that were ever used */
	size_t sums_count;
	uint64_t damaged; /* chunks and stretches that make no sense and were left out */
};

/*
 * Read the header's two pages: magic, version, lengths and path are checked.  Return 0;
 * -ENODATA for a spool whose process died while making it; -EINVAL with `why` saying what is wrong;
 * -ENOMEM or the error of reading.  Always followed by pfw_spool_image_release().
 */
int pfw_spool_image_header(struct pfw_spool_image *image, int fd, char *why);

/* Read the rest, behind a header that was read well.  Return as above. */
int pfw_spool_image_chunks(struct pfw_spool_image *image, char *why);

/* A copy of a stretch's slots, for free(); NULL where memory or the file does not have them. */
struct pfw_record *pfw_spool_image_slots(const struct pfw_spool_image *image,
					 const struct pfw_spool_stretch *stretch);

/* A copy of table number `n` of short calls, for free(); NULL as above. */
struct pfw_sums_chunk *pfw_spool_image_sums(const struct pfw_spool_image *image, size_t n);

/* The trace's path in the copy of the header: checked to end within its page. */
const char *pfw_spool_image_trace(const struct pfw_spool_image *image);

/* Free everything but the descriptor. */
void pfw_spool_image_release(struct pfw_spool_image *image);

#endif
