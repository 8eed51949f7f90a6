/* store/pass/fname_hashes.h - file names of DFTracer's traces, whose events have `fhash`, not
 * `fname`.
 *
 * An `FH` line gives the name of a hash once, perhaps after lines, blocks or files that use it.  So
 * the names are read first, if they are needed at all.
 */
#pragma once

#include "store/line/entry.h"
#include "store/pass/times.h"
#include "store/traces/traces.h"

#define PFW_FNAMES_MAX (1u << 20)
#define PFW_FNAMES_BYTES (128u << 20) /* of all names; more are ignored */

struct pfw_fname_hashes; /* opaque: see fname_hashes.c */

/* Read them from the files that are not ours.  *out is NULL if there are none.  Pipes are not read,
 * and damage is ignored, as in pfw_extent_find().  Return 0, -ENOMEM, -EINTR.  Thread: any. */
int pfw_fname_hashes_read(struct pfw_fname_hashes **out, const struct pfw_traces *traces,
			  const struct pfw_extent_options *options);
void pfw_fname_hashes_free(struct pfw_fname_hashes *fnames);

/* The args.fname of a line, or the name of its args.fhash; `fnames` may be NULL.  False: neither.
 * Thread: any. */
bool pfw_fname_hashes_find(const struct pfw_fname_hashes *fnames, const struct pfw_entry *entry,
			   struct pfw_value *value);
