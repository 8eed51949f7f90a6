/* spool_image.h - a spool, read into memory and checked; of a living process: spool_live.h.
 *
 * A spool may be cut, damaged or made by somebody who wishes us ill, and its owner may change it
 * while we look.  So nothing is mapped: it is copied by pread, and only the copy is believed, after
 * every length and index in it has been checked.  Memory: the templates, 1 MiB of strings, and the
 * slots of one stretch at a time.
 */
#ifndef PFW_SPOOL_IMAGE_H
#define PFW_SPOOL_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json.h"
#include "spool.h"

#define PFW_SPOOL_WHY_BYTES 256

/* A stretch whose records are not in the trace yet: positions tail to head. */
struct pfw_spool_stretch {
	uint64_t at;		  /* of its first slot, in the file */
	struct pfw_record *slots; /* a copy, from position `first` on; NULL = read when needed */
	uint64_t first;
	uint32_t ring;
	uint32_t capacity;
	uint64_t order;
	uint64_t tail;
	uint64_t head;
	int32_t tid;
	char comm[16];
};

/* A table of short calls that was ever used. */
struct pfw_spool_sums {
	uint64_t at;		     /* in the file */
	struct pfw_sums_chunk *copy; /* NULL = read when needed */
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
	struct pfw_spool_sums *sums;
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

/* The slots of a stretch from position `first` to head, once, for free(); NULL where memory or the
 * file does not have them. */
struct pfw_record *pfw_spool_image_slots(const struct pfw_spool_image *image,
					 struct pfw_spool_stretch *stretch);

/* Table number `n` of short calls, once, for free(); NULL as above. */
struct pfw_sums_chunk *pfw_spool_image_sums(const struct pfw_spool_image *image, size_t n);

/* ---- the same, a piece at a time: for spool_live.c ---- */

/* Read the header anew: as pfw_spool_image_header(), and what else was read stays. */
int pfw_spool_image_reread(struct pfw_spool_image *image, char *why);

/* Whether a chunk begins at `at`, and its head.  False before the end: the rest is damaged. */
bool pfw_spool_image_chunk(const struct pfw_spool_image *image, uint64_t at,
			   struct pfw_chunk *chunk);

/* Take what is no ring.  0 or -errno. */
int pfw_spool_image_take(struct pfw_spool_image *image, const struct pfw_chunk *chunk, uint64_t at);

/* Whether its figures can be those of a stretch in that chunk; counted where not. */
bool pfw_spool_stretch_is_sound(struct pfw_spool_image *image,
				const struct pfw_spool_stretch *stretch,
				const struct pfw_chunk *chunk);

/* Add a stretch, slots and all.  0 or -ENOMEM. */
int pfw_spool_image_add(struct pfw_spool_image *image, const struct pfw_spool_stretch *stretch);

/* Put the stretches in order.  Return 0, or -EINVAL with `why` where they cannot be read. */
int pfw_spool_image_order(struct pfw_spool_image *image, char *why);

/* Read exactly `bytes` at `at`.  Return 0, -ENODATA where the file ends before, or -errno. */
int pfw_spool_read(int fd, void *to, size_t bytes, uint64_t at);

/* The trace's path in the copy of the header: checked to end within its page. */
const char *pfw_spool_image_trace(const struct pfw_spool_image *image);

/* Free everything but the descriptor. */
void pfw_spool_image_release(struct pfw_spool_image *image);

#endif
