/* spill.h - arrays that grow: in memory up to a bound that they share, then in temporary files.
 *
 * What lies in a file is still addressed as memory, but the kernel may write it out and drop it:
 * a trace larger than the machine's memory makes a command slower, and never ends it.
 */
#ifndef PFW_SPILL_H
#define PFW_SPILL_H

#include <stddef.h>

/* What a group of arrays may take of memory before those that grow go to files. */
struct pfw_spill_budget {
	size_t bytes;
	size_t used;
};

struct pfw_spill {
	void *at;
	size_t bytes; /* used; the caller's */
	size_t room;
	int fd; /* -1: in memory */
};

#define PFW_SPILL_EMPTY  \
	{                \
		.fd = -1 \
	}

/*
 * Make room for `bytes` more behind spill->bytes.  spill->at may move.  Return 0, -ENOMEM, or why
 * no temporary file could be had or grown (-ENOSPC), in $TMPDIR, else /var/tmp, else /tmp.
 * Thread: one at a time for a budget and all its arrays.
 */
int pfw_spill_reserve(struct pfw_spill *spill, size_t bytes, struct pfw_spill_budget *budget);

/* Append a copy; returns as above. */
int pfw_spill_add(struct pfw_spill *spill, const void *data, size_t bytes,
		  struct pfw_spill_budget *budget);

/* A file without a name there.  Its descriptor or -errno.  Thread: any. */
int pfw_spill_open(void);

void pfw_spill_free(struct pfw_spill *spill, struct pfw_spill_budget *budget);

#endif
