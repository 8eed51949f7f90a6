/* export_live.c - what traced processes have not written yet, as files that are merged like the others.
 *
 * It is bounded by the rings, 1 MiB a thread (PFW_RING_MAX), but may come once for each output and
 * once more where a header has lied: so it is kept in temporary files without a name.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "export.h"

struct export_live_file {
	size_t file;
	int fd;
	char path[32];
};

static int open_file(struct export_live *live, size_t file)
{
	const char *directory = getenv("TMPDIR");
	struct export_live_file *last;

	last = realloc(live->file, (live->count + 1) * sizeof(*last));
	if (!last)
		return -ENOMEM;
	live->file = last;
	last += live->count;
	last->file = file;
	last->fd = open(directory && *directory ? directory : "/var/tmp",
			O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (last->fd < 0)
		return -errno;
	live->count++;
	snprintf(last->path, sizeof(last->path), "/proc/self/fd/%d", last->fd);
	return 0;
}

static int take(void *user, size_t file, const char *text, size_t bytes)
{
	struct export_live *live = user;
	int error = 0;

	if (!live->count || live->file[live->count - 1].file != file)
		error = open_file(live, file);
	while (bytes && !error) {
		ssize_t wrote = write(live->file[live->count - 1].fd, text, bytes);

		if (wrote < 0 && errno != EINTR)
			error = -errno;
		text += wrote > 0 ? wrote : 0;
		bytes -= wrote > 0 ? (size_t)wrote : 0;
	}
	return error;
}

int export_live_read(struct export_live *live, const volatile bool *stop)
{
	int error = live_lines_read(&live->lines, stop, take, live);

	live->more = calloc(live->count + 1, sizeof(*live->more));
	if (!live->more)
		return -ENOMEM;
	for (size_t i = 0; i < live->count && !error; i++) {
		live->more[i].file = live->file[i].file;
		live->more[i].path = live->file[i].path;
		error = pfw_blocks_find(&live->more[i].blocks, live->file[i].path);
	}
	return error;
}

size_t export_live_of(const struct export_live *live, const size_t *file, size_t count,
		      struct pfw_ordered_more *more)
{
	size_t found = 0;

	for (size_t i = 0; i < live->count; i++) {
		for (size_t k = 0; k < count; k++) {
			if (live->more[i].file == file[k])
				more[found++] = live->more[i];
		}
	}
	return found;
}

void export_live_close(struct export_live *live)
{
	for (size_t i = 0; i < live->count; i++) {
		if (live->more)
			pfw_blocks_free(&live->more[i].blocks);
		close(live->file[i].fd);
	}
	free(live->more);
	free(live->file);
	live_lines_close(&live->lines);
}
