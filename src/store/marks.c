/* marks.c - whether a file is compacted; see marks.h. */
#include "marks.h"

#include <sys/types.h>
#include <unistd.h>

#include "input.h"
#include "member.h"

/* Add one member.  False: it has no mark. */
static bool add(struct pfw_marks *marks, int fd, const struct pfw_block *block, int64_t *last_ns,
		uint64_t *pid)
{
	unsigned char header[PFW_MEMBER_HEADER_BYTES];
	struct pfw_mark mark;

	if (!block->summed ||
	    pread(fd, header, sizeof(header), (off_t)block->at) != (ssize_t)sizeof(header) ||
	    pfw_mark_read(header, sizeof(header), &mark))
		return false;
	if (mark.least_ns <= mark.greatest_ns) {
		marks->sorted = marks->sorted && mark.least_ns >= *last_ns;
		*last_ns = mark.greatest_ns;
	}
	marks->sorted = marks->sorted && (!mark.first || !marks->lines);
	if (!marks->lines)
		*pid = mark.pid;
	marks->one_pid = marks->one_pid && mark.pid && mark.pid == *pid;
	marks->cut = marks->cut || mark.cut;
	marks->lines += block->lines;
	marks->metadata += mark.metadata;
	marks->checksum += mark.checksum;
	return true;
}

int pfw_marks_read(struct pfw_marks *marks, const char *path, const struct pfw_blocks *blocks)
{
	int64_t last_ns = INT64_MIN;
	uint64_t pid = 0;
	int fd;

	*marks = (struct pfw_marks){ 0 };
	if (blocks->layout != PFW_LAYOUT_MEMBERS || !blocks->count)
		return 0;
	fd = pfw_input_open_fd(path);
	if (fd < 0)
		return fd;
	marks->marked = marks->sorted = marks->one_pid = true;
	for (size_t i = 0; i < blocks->count && marks->marked; i++)
		marks->marked = add(marks, fd, &blocks->block[i], &last_ns, &pid);
	close(fd);
	if (!marks->marked)
		marks->sorted = marks->one_pid = false;
	return 0;
}
