/* store/sys/sorter.h - external merge sort of fixed-size records in bounded memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pfw_sorter_run;

struct pfw_sorter {
	/* Set by the caller before the first record. */
	size_t size;				      /* of a record */
	size_t budget;				      /* bytes of memory, approximately */
	int (*compare)(const void *a, const void *b); /* as for qsort(); not stable */
	/* Sorts records in memory, if qsort() is not the fastest way; NULL: qsort(). */
	void (*sort)(void *record, size_t count);
	/* Private to sorter.c.  Empty: all zero except fd. */
	char *record;
	size_t count, room;
	int fd; /* -1: no file yet */
	uint64_t bytes;
	struct pfw_sorter_run *run;
	size_t runs, next;
	uint32_t *heap; /* runs by their current records, the least first */
	size_t heaped;
	bool taken; /* the current record was returned */
	int error;  /* of a read */
};

#define PFW_SORTER_EMPTY \
	{                \
		.fd = -1 \
	}

/*
 * Add copies of records. 0, -ENOMEM, -EFBIG (more than the budget squared), or why no temporary
 * file could be created or extended in $TMPDIR, /var/tmp or /tmp.  Thread: one at a time, as all
 * here.
 */
int pfw_sorter_add_all(struct pfw_sorter *sorter, const void *record, size_t count);
static inline int pfw_sorter_add(struct pfw_sorter *sorter, const void *record)
{
	return pfw_sorter_add_all(sorter, record, 1);
}

/* End of input: sort. 0 or -errno, as above. */
int pfw_sorter_begin(struct pfw_sorter *sorter);

/* The next record, valid until the next call; NULL: no more, or sorter->error is set. */
const void *pfw_sorter_next(struct pfw_sorter *sorter);

void pfw_sorter_release(struct pfw_sorter *sorter);
