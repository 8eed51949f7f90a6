/* fnames.h - the names of files in DFTracer's traces, whose events have `fhash` instead of `fname`.
 *
 * A line of metadata (`FH`) tells once which name a hash stands for; other lines, blocks and files
 * may come to be read before it.  So the names are read first, where somebody asks for names at all.
 */
#ifndef PFW_FNAMES_H
#define PFW_FNAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "entry.h"
#include "times.h"
#include "traces.h"

#define PFW_FNAMES_MAX (1u << 20)
#define PFW_FNAMES_BYTES (128u << 20) /* of all names; what is beyond is not known */

struct pfw_fnames; /* opaque: see fnames.c */

/*
 * Read them from the files that are not ours.  *out is NULL where there are none; what can be read
 * only once (a pipe) is left alone, and damage is passed over, as pfw_extent_find() does.  Return 0,
 * -ENOMEM, -EINTR.  Thread: any.
 */
int pfw_fnames_read(struct pfw_fnames **out, const struct pfw_traces *traces,
		    const struct pfw_extent_options *options);
void pfw_fnames_free(struct pfw_fnames *fnames);

/* The args.fname of a line, or what its args.fhash stands for; `fnames` may be NULL.  False: there
 * is none.  Thread: any. */
bool pfw_fnames_find(const struct pfw_fnames *fnames, const struct pfw_entry *entry,
		     struct pfw_value *value);

#endif
