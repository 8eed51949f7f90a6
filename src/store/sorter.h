/* sorter.h - records of one size, given in any order, taken in theirs, in bounded memory: what is too
 * much goes, sorted, to a temporary file, and is merged from there.
 */
#ifndef PFW_SORTER_H
#define PFW_SORTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pfw_sorter_run;

struct pfw_sorter {
	/* The caller's, before the first record. */
	size_t size;				      /* of a record */
	size_t budget;				      /* bytes of memory, about */
	int (*compare)(const void *a, const void *b); /* as for qsort(); equal ones: in any order */
	/* Private to sorter.c.  All zero, but for fd: empty. */
	char *record;
	size_t count, room;
	int fd; /* -1: no file yet */
	uint64_t bytes;
	struct pfw_sorter_run *run;
	size_t runs, next;
	uint32_t *heap; /* runs by their records in hand, the least first */
	size_t heaped;
	bool taken; /* the one that is in hand */
	int error;  /* of reading the file */
};

#define PFW_SORTER_EMPTY \
	{                \
		.fd = -1 \
	}

/* Add a copy of a record.  0, -ENOMEM, -EFBIG (budget squared), or why no temporary file could be had or grown, in $TMPDIR, else
 * /var/tmp, else /tmp.  Thread: one at a time, as all here. */
int pfw_sorter_add(struct pfw_sorter *sorter, const void *record);

/* All are in: begin to take them.  0 or -errno, as above. */
int pfw_sorter_begin(struct pfw_sorter *sorter);

/* The next one, until the call after this; NULL: there is none, or sorter->error says why not. */
const void *pfw_sorter_next(struct pfw_sorter *sorter);

void pfw_sorter_release(struct pfw_sorter *sorter);

#endif
