/* store/gzip/seek_points.c - seek points of a foreign gzip file; see seek_points.h. */
#include "store/gzip/seek_points.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/base/order.h"
#include "store/kit/grow.h"

int pfw_points_add(struct pfw_points *points, const struct pfw_point *point)
{
	size_t count = points->count;

	if (point->window_bytes > compressBound(PFW_POINT_WINDOW) ||
	    (count && point->text_at <= points->point[count - 1].text_at))
		return -EINVAL;
	return PFW_APPEND(points->point, points->count, *point);
}

void pfw_points_free(struct pfw_points *points)
{
	for (size_t i = 0; i < points->count; i++)
		free(points->point[i].window);
	free(points->point);
	*points = (struct pfw_points){ 0 };
}

const struct pfw_point *pfw_points_find(const struct pfw_points *points, uint64_t text_at)
{
	size_t behind = PFW_BISECT(at, points->count, points->point[at].text_at <= text_at);

	return behind ? &points->point[behind - 1] : NULL;
}

int pfw_point_window(const struct pfw_point *point, unsigned char *window)
{
	uLongf bytes = PFW_POINT_WINDOW;

	if (!point->window)
		return 0;
	if (uncompress(window, &bytes, point->window, point->window_bytes) != Z_OK)
		return -EBADMSG;
	return (int)bytes;
}

void pfw_points_note(struct pfw_points_maker *maker, const void *text, size_t bytes)
{
	maker->text_at += bytes;
	if (bytes >= PFW_POINT_WINDOW) {
		memcpy(maker->text, (const char *)text + bytes - PFW_POINT_WINDOW,
		       PFW_POINT_WINDOW);
		maker->kept = PFW_POINT_WINDOW;
		return;
	}
	if (maker->kept + bytes > sizeof(maker->text)) {
		memmove(maker->text, maker->text + maker->kept - PFW_POINT_WINDOW,
			PFW_POINT_WINDOW);
		maker->kept = PFW_POINT_WINDOW;
	}
	memcpy(maker->text + maker->kept, text, bytes);
	maker->kept += bytes;
}

int pfw_points_make(struct pfw_points_maker *maker, uint64_t file_bits)
{
	size_t bytes = maker->kept < PFW_POINT_WINDOW ? maker->kept : PFW_POINT_WINDOW;
	struct pfw_point point = { .text_at = maker->text_at,
				   .file_at = (file_bits + 7) / 8,
				   .bits = (uint8_t)(-file_bits & 7) };
	unsigned char packed[PFW_POINT_WINDOW + 1024];
	uLongf room = sizeof(packed);
	int error;

	if (compress2(packed, &room, maker->text + maker->kept - bytes, bytes, 1) != Z_OK)
		return -ENOMEM;
	point.window = malloc(room);
	if (!point.window)
		return -ENOMEM;
	memcpy(point.window, packed, room);
	point.window_bytes = (uint32_t)room;
	error = pfw_points_add(&maker->made, &point);
	if (error)
		free(point.window);
	maker->last_at = maker->text_at;
	return error;
}
