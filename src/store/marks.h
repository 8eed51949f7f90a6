/* marks.h - whether a file is compacted: every member says that it is sorted, and follows the one
 * before. */
#ifndef PFW_MARKS_H
#define PFW_MARKS_H

#include <stdbool.h>
#include <stdint.h>

#include "blocks.h"

struct pfw_marks {
	bool marked; /* every member has a mark */
	bool sorted; /* and no member begins before the one in front of it ends */
	bool one_pid;
	bool cut; /* by time: not all events are there */
	uint64_t lines, metadata, checksum;
};

/* Read the headers of all members.  Return 0, or why the file cannot be read.  Thread: any. */
int pfw_marks_read(struct pfw_marks *marks, const char *path, const struct pfw_blocks *blocks);

#endif
