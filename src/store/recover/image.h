/* store/recover/image.h - a spool, read into memory and checked.
 *
 * A spool may be cut, damaged or hostile, and its owner may change it meanwhile.  So it is not
 * mapped but copied by pread, and every length and index of the copy is checked before use.
 * Memory: the templates, 1 MiB of strings, and the slots of one chunk at a time, or, for a live
 * process, the slots of all chunks.  A sparse file can claim more records than it holds.  So all
 * copies together have at most PFW_SPOOL_COPIES times the bytes that the file takes on its disk, or
 * PFW_SPOOL_COPIED_LEAST if that is more.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/encode/encode.h"
#include "common/format/spool.h"
#include "common/format/stacks.h"

#define PFW_SPOOL_WHY_BYTES 256
#define PFW_SPOOL_COPIES 16u
#define PFW_SPOOL_COPIED_LEAST (64u << 20) /* some file systems count a file's blocks late */

/* A chunk of a ring with records that are not in the trace yet: positions tail to head. */
struct pfw_spool_stretch {
	uint64_t at;		  /* offset of its first slot in the file */
	struct pfw_record *slots; /* a copy from position `first` on; NULL = read when needed */
	uint64_t first;
	uint32_t ring;
	uint32_t capacity;
	uint64_t order;
	uint64_t tail;
	uint64_t head;
	int32_t tid;
	char comm[16];
};

/* A table of short calls that was used. */
struct pfw_spool_sums {
	uint64_t at;		     /* offset in the file */
	struct pfw_sums_chunk *copy; /* NULL = read when needed */
};

struct pfw_spool_image {
	int fd;				 /* borrowed */
	uint64_t budget;		 /* bytes of records that may still be copied */
	uint64_t bytes;			 /* size of the file */
	struct pfw_spool_header *header; /* a copy of both pages */
	struct pfw_slot slot;		 /* the newest; generation 0 = nothing written yet */
	struct pfw_template_chunk *templates;
	struct pfw_steps_chunk *steps; /* NULL = none */
	struct pfw_string_view strings;
	struct pfw_stacks_chunk *stacks;   /* NULL = none */
	struct pfw_spool_stretch *stretch; /* by ring, then in order of filling */
	size_t stretch_count;
	struct pfw_spool_sums *sums;
	size_t sums_count;
	uint64_t damaged; /* invalid chunks, which were left out */
};

/* Open a spool, which must be this user's; root may open anybody's.  Fill *st.  Return as
 * pfw_open_file().  Thread: any, as all here. */
struct stat;
int pfw_spool_image_open(const char *path, bool write, struct stat *st);

/* Read the header's two pages and check magic, version, lengths and path.  Return 0; -ENODATA: the
 * process died while making the spool; -EINVAL: `why` says what is wrong; -ENOMEM or the error of
 * reading.  Always call pfw_spool_image_release() afterwards. */
int pfw_spool_image_header(struct pfw_spool_image *image, int fd, char *why);

/* Read the rest after a header that was read without error.  Return as above. */
int pfw_spool_image_chunks(struct pfw_spool_image *image, char *why);

/* The same of a living or dead process's spool, which is neither stopped nor touched.  While we
 * copy, its writer may write the file, advance tails and free slots.  So slots, names and short
 * calls are copied first.  Only then the header slot is read, which says how far the file is, and
 * the tails that belong to it.  A record that was copied and is not in the file by that slot cannot
 * have been overwritten.  So each event is whole, and is in the file or in the image.  The image
 * has every event whose call had returned before, possibly later ones, and none whose call has not
 * returned.  -EBUSY: the writer was always faster. */
int pfw_spool_image_live(struct pfw_spool_image *image, char *why);

/* The slots of a chunk from position `first` to head, only once, to be freed; NULL if memory or the
 * file lacks them. */
struct pfw_record *pfw_spool_image_slots(const struct pfw_spool_image *image,
					 struct pfw_spool_stretch *stretch);

/* Table `n` of short calls, only once, to be freed; NULL as above. */
struct pfw_sums_chunk *pfw_spool_image_sums(const struct pfw_spool_image *image, size_t n);

/* ---- single steps, for image_live.c ---- */

/* As pfw_spool_image_header(), again; keeps everything else that was read. */
int pfw_spool_image_reread(struct pfw_spool_image *image, char *why);

/* Read the chunk head at `at`.  False: there is none; before the end, then the rest is damaged. */
bool pfw_spool_image_chunk(const struct pfw_spool_image *image, uint64_t at,
			   struct pfw_chunk *chunk);

/* Take a chunk that is not a ring's. 0 or -errno. */
int pfw_spool_image_take(struct pfw_spool_image *image, const struct pfw_chunk *chunk, uint64_t at);

/* Whether the numbers are possible for a ring's chunk; if not, count it as damaged. */
bool pfw_spool_stretch_is_sound(struct pfw_spool_image *image,
				const struct pfw_spool_stretch *stretch,
				const struct pfw_chunk *chunk);

/* Sort the chunks.  Return 0, or -EINVAL with `why` if they cannot be read. */
int pfw_spool_image_order(struct pfw_spool_image *image, char *why);

/* Read exactly `bytes` at `at`.  Return 0, -ENODATA if the file ends earlier, or -errno. */
int pfw_spool_read(int fd, void *to, size_t bytes, uint64_t at);

/* Free everything but the descriptor. */
void pfw_spool_image_release(struct pfw_spool_image *image);
