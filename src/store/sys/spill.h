/* store/sys/spill.h - growable arrays: in memory up to a shared budget, then in temporary files.
 *
 * Files are mapped, so the kernel may write pages out and drop them: a trace larger than the
 * machine's memory slows a command down, but never ends it.
 */
#pragma once

#include <stddef.h>

/* The memory that a group of arrays may take before arrays that grow move to files. */
struct pfw_spill_budget {
	size_t bytes;
	size_t used;
};

/* So many bytes, but at most an eighth of what was available at the first call, within the process's cgroups,
 * and a MiB at least.  Thread: any. */
size_t pfw_spill_memory(size_t bytes);

/* A budget for one of the files that are worked on at a time, one for each processor: 64 MiB for up to
 * eight, 8 MiB from 64 on; less where the share of a processor of pfw_spill_memory() is less. */
size_t pfw_spill_share(void);

struct pfw_spill {
	void *at;
	size_t bytes; /* used; the caller may change it */
	size_t room;
	int fd; /* -1: in memory */
};

#define PFW_SPILL_EMPTY  \
	{                \
		.fd = -1 \
	}

/*
 * Reserve `bytes` more bytes after spill->bytes; spill->at may move.  Return 0, -ENOMEM, or why no
 * temporary file could be created or extended (-ENOSPC) in $TMPDIR, /var/tmp or /tmp.  Thread: one
 * at a time for a budget and all its arrays.
 */
int pfw_spill_reserve(struct pfw_spill *spill, size_t bytes, struct pfw_spill_budget *budget);

/* What comes after spill->bytes; NULL if nothing was ever reserved. */
static inline void *pfw_spill_end(const struct pfw_spill *spill)
{
	return spill->at ? (char *)spill->at + spill->bytes : NULL;
}

/* Append a copy; return values as above. */
int pfw_spill_add(struct pfw_spill *spill, const void *data, size_t bytes,
		  struct pfw_spill_budget *budget);

/* Open an unlinked file in one of these directories.  A descriptor or -errno.  Thread: any. */
int pfw_spill_open(void);
/* The same in this directory. */
int pfw_spill_open_in(const char *directory);

void pfw_spill_free(struct pfw_spill *spill, struct pfw_spill_budget *budget);
