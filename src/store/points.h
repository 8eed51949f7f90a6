/* points.h - where the text of a foreign gzip file can be begun to be read: places between two
 * deflate blocks, with the 32 KiB of text before each, which its matches may refer to.
 */
#ifndef PFW_POINTS_H
#define PFW_POINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PFW_POINT_SPACING (4u << 20) /* bytes of text from one to the next, at least */
#define PFW_POINT_WINDOW 32768u

struct pfw_point {
	uint64_t text_at; /* byte of the file's text that comes first */
	uint64_t file_at; /* byte of the file that is read first … */
	uint8_t bits;	  /* … but for so many highest bits of the byte before it */
	uint32_t window_bytes;
	void *window; /* compressed (zlib's format), by malloc; NULL: none is needed */
};

struct pfw_points {
	struct pfw_point *point; /* by text_at */
	size_t count;
};

/* Add one behind the last; its window becomes the list's.  0, -ENOMEM, or -EINVAL where it is not
 * behind the last one or its window is too long.  Thread: one at a time. */
int pfw_points_add(struct pfw_points *points, const struct pfw_point *point);
void pfw_points_free(struct pfw_points *points);

/* The last one at or before that byte of the text, or NULL: only the file's begin is.  Thread: any. */
const struct pfw_point *pfw_points_find(const struct pfw_points *points, uint64_t text_at);

/* Unpack a point's window; `window` has PFW_POINT_WINDOW bytes.  Their number, or -EBADMSG. */
int pfw_point_window(const struct pfw_point *point, unsigned char *window);

/* ---- while a file is read ---- */

struct pfw_points_maker {
	struct pfw_points made; /* whoever takes them empties it */
	uint64_t text_at;	/* byte of the text read so far */
	uint64_t last_at;	/* where the last point was, or the file's begin */
	size_t kept;
	unsigned char text[2 * PFW_POINT_WINDOW]; /* the last of it */
};

/* Text came. */
void pfw_points_note(struct pfw_points_maker *maker, const void *text, size_t bytes);

/* Whether the next border is wanted. */
static inline bool pfw_points_due(const struct pfw_points_maker *maker)
{
	return maker->text_at - maker->last_at >= PFW_POINT_SPACING;
}

/* It is here, so many bits of the file from its begin.  0 or -ENOMEM. */
int pfw_points_make(struct pfw_points_maker *maker, uint64_t file_bits);

#endif
