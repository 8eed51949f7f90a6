/* store/gzip/seek_points.h - seek points of a foreign gzip file: where reading its text can begin.
 *
 * A seek point is a border between two deflate blocks, with the 32 KiB of text before it, to which
 * matches may refer.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PFW_POINT_SPACING (4u << 20) /* least distance of two points, in bytes of text */
#define PFW_POINT_WINDOW 32768u

struct pfw_point {
	uint64_t text_at; /* offset in the file's text */
	uint64_t file_at; /* offset in the file of the first whole byte ... */
	uint8_t bits;	  /* ... and how many high bits of the byte before it are needed */
	uint32_t window_bytes;
	void *window; /* compressed (zlib's format), by malloc; NULL: not needed */
};

struct pfw_points {
	struct pfw_point *point; /* sorted by text_at */
	size_t count;
};

/* Append a point; its window becomes the list's. 0, -ENOMEM, or -EINVAL if it is not after the last
 * one or its window is too long.  Thread: one at a time. */
int pfw_points_add(struct pfw_points *points, const struct pfw_point *point);
void pfw_points_free(struct pfw_points *points);

/* The last point at or before an offset in the text; NULL: the file's begin.  Thread: any. */
const struct pfw_point *pfw_points_find(const struct pfw_points *points, uint64_t text_at);

/* Decompress a point's window into PFW_POINT_WINDOW bytes.  Return their number, or -EBADMSG. */
int pfw_point_window(const struct pfw_point *point, unsigned char *window);

/* ---- making points while a file is read ---- */

struct pfw_points_maker {
	struct pfw_points made; /* a caller that takes points empties the list */
	uint64_t text_at;	/* bytes of text read so far */
	uint64_t last_at;	/* the last point, or the file's begin */
	size_t kept;
	unsigned char text[2 * PFW_POINT_WINDOW]; /* the last text read */
};

/* Note text that was read. */
void pfw_points_note(struct pfw_points_maker *maker, const void *text, size_t bytes);

/* Whether the next block border should become a point. */
static inline bool pfw_points_due(const struct pfw_points_maker *maker)
{
	return maker->text_at - maker->last_at >= PFW_POINT_SPACING;
}

/* Make a point at this bit of the file. 0 or -ENOMEM. */
int pfw_points_make(struct pfw_points_maker *maker, uint64_t file_bits);
