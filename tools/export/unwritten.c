/* tools/export/unwritten.c - lines still in rings of traced processes, copied to temporary files.
 *
 * The files are merged like traces.  Memory would not do: several outputs may need the lines, each
 * up to twice, and a thread's ring has up to 1 MiB (PFW_RING_MAX).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "export/export.h"
#include "store/kit/grow.h"
#include "store/sys/full_io.h"
#include "store/sys/spill.h"

struct export_live_file {
	struct pfw_ordered_more more;
	int fd;
	uint64_t bytes; /* written so far */
	char path[32];
};

static int open_file(struct export_live *live, size_t file)
{
	struct export_live_file one = { .more.file = file, .fd = pfw_spill_open() };

	if (one.fd < 0)
		return one.fd;
	snprintf(one.path, sizeof(one.path), "/proc/self/fd/%d", one.fd);
	if (!PFW_APPEND(live->file, live->count, one))
		return 0;
	close(one.fd);
	return -ENOMEM;
}

static int take(void *user, size_t file, const char *text, size_t bytes)
{
	struct export_live *live = user;
	struct export_live_file *last;
	int error = 0;

	if (!live->count || live->file[live->count - 1].more.file != file)
		error = open_file(live, file);
	if (error)
		return error;
	last = &live->file[live->count - 1];
	return pfw_full_write(last->fd, text, bytes, &last->bytes);
}

int export_live_read(struct export_live *live, struct pfw_live_lines *lines,
		     const _Atomic bool *stop)
{
	int error = pfw_live_lines_read(lines, stop, take, live);

	for (size_t i = 0; i < live->count && !error; i++) {
		struct export_live_file *file = &live->file[i];

		file->more.path = file->path;
		error = pfw_blocks_find(&file->more.blocks, file->path);
	}
	return error;
}

size_t export_live_of(const struct export_live *live, const size_t *file, size_t count,
		      struct pfw_ordered_more *more)
{
	size_t found = 0;

	for (size_t i = 0; i < live->count; i++) {
		for (size_t k = 0; k < count; k++) {
			if (live->file[i].more.file == file[k])
				more[found++] = live->file[i].more;
		}
	}
	return found;
}

void export_live_close(struct export_live *live)
{
	for (size_t i = 0; i < live->count; i++) {
		pfw_blocks_free(&live->file[i].more.blocks);
		close(live->file[i].fd);
	}
	free(live->file);
}
