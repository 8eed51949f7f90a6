/* live.h - what a process has recorded and not yet written: the lines behind a trace's end.
 *
 * A trace on disk ends where its writer was up to half a second ago (PFW_FLUSH_MS), or where a
 * killed process left it; the rest is in the process's spool.  Here both are read as one text, and
 * nothing is changed: of a living process each event whose call had returned when it was opened, and
 * perhaps some later ones, once; of a dead one what `pfw repair` would write.
 * Not to be had: what is in CUPTI's own buffers, and of a process without a spool (said in its
 * trace's first line).  The lines' ids go on behind the file's; the writer may number them otherwise.
 *
 *	struct pfw_live *live = NULL;
 *	int error = pfw_live_open(&live, path, &dirs, why);  // -ENOENT: the file is all there is
 *	error = pfw_live_scan(&scan, path, live);	     // live NULL: pfw_scan_open()
 *	…
 *	pfw_scan_close(&scan);
 *	if (live) pfw_live_close(live);
 */
#ifndef PFW_LIVE_H
#define PFW_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct pfw_live; /* opaque: see live.c */
struct pfw_paths;
struct pfw_scan;
struct pfw_spool_places;

#define PFW_LIVE_WHY_BYTES 256

/*
 * Look for the spool of the process whose trace this is: the one that the file's first line names,
 * or where there is no such line yet, one in `dirs` that names the trace.
 * Return 0 with *out for pfw_live_close(); -ENOENT: there is none, the file is all there is;
 * -EREMOTE, with `why`: its process is of another host or boot; -EPERM, with `why`: another user's;
 * -EBUSY: it is written to faster than it can be read; -EINVAL with `why`: damaged; -ENOMEM, or the
 * error of reading.  In all these cases the file alone can still be read.
 * Memory: the records that are not in the file, at most PFW_RING_MAX a thread.  Thread: any.
 */
int pfw_live_open(struct pfw_live **out, const char *trace, const struct pfw_spool_places *dirs,
		  char why[PFW_LIVE_WHY_BYTES]);
void pfw_live_close(struct pfw_live *live);

/* Bytes of the file that count: whole lines, or whole members.  What is behind them is being written,
 * and is among the lines. */
uint64_t pfw_live_offset(const struct pfw_live *live);

/* The file, for those who want its bytes: it may have another name by now.  -1: there is none yet. */
int pfw_live_fd(const struct pfw_live *live);

/* Whether the process lives; one that does not will have its `end` among the lines. */
bool pfw_live_runs(const struct pfw_live *live);
pid_t pfw_live_pid(const struct pfw_live *live); /* in its own pid namespace */
const char *pfw_live_spool(const struct pfw_live *live);

/*
 * The next bytes of the lines behind the file, plain text; begins with the `process` line where there
 * is no file.  Return their number, or 0 at the end.  Thread: one at a time.
 */
ssize_t pfw_live_read(struct pfw_live *live, void *buf, size_t size);

/* The same in whole lines, good until the next call, with PFW_ENTRY_PADDING zeroes behind them; not
 * for a `live` that the one above was called for. */
size_t pfw_live_next(struct pfw_live *live, const char **text);

/* Scan the file and the lines behind it as one; `live` NULL: the file at `path` alone.  Once. */
int pfw_live_scan(struct pfw_scan *scan, const char *path, struct pfw_live *live);

/* Add the traces that are not on disk yet, and that `argument` (a trace, base name or directory)
 * stands for; `dirs`: NULL-terminated.  0 or -ENOMEM. */
int pfw_live_paths(struct pfw_paths *paths, const char *argument, const char *const *dirs);

#endif
