/* scratch.h - room for the longest text of a line, without its escapes; untouched it costs nothing.
 */
#ifndef PFW_SCRATCH_H
#define PFW_SCRATCH_H

#include "scan.h"

#define PFW_SCRATCH_BYTES (PFW_SCAN_LINE_MAX + 1)

/* Map one, or NULL.  Thread: any. */
char *pfw_scratch_new(void);
void pfw_scratch_free(char *scratch);

/* The text of a string as it is meant: the slice itself where nothing is escaped, else decoded into
 * `scratch`. */
struct pfw_slice pfw_scratch_plain(struct pfw_slice text, char *scratch);

#endif
