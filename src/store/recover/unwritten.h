/* store/recover/unwritten.h - events that a process has recorded but not written yet.
 *
 * A trace on disk ends where its writer was up to half a second ago (PFW_FLUSH_MS), or where a
 * killed process left it; the rest is in the process's spool.  Here both are read as one text, and
 * nothing is changed.  Of a living process, each event whose call had returned at the opening is
 * read once, and possibly later ones; of a dead process, what `pfw repair` would write.
 * Not included: records in CUPTI's own buffers, and a process without a spool (its trace's first
 * line says so).  Ids continue the file's; the writer may assign other ones later.
 *
 *	struct pfw_unwritten *live = NULL;
 *	int error = pfw_unwritten_open(&live, path, &dirs, why);  // -ENOENT: there is only the file
 *	error = pfw_unwritten_scan(&scan, path, live);	     // live NULL: pfw_scan_open()
 *	...
 *	pfw_scan_close(&scan);
 *	if (live) pfw_unwritten_close(live);
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct pfw_unwritten; /* opaque: see unwritten.c */
struct pfw_paths;
struct pfw_scan;
struct pfw_spool_places;

#define PFW_LIVE_WHY_BYTES 256

/* Find the spool of a trace's process: the one that the trace's first line names or, without a
 * first line, one in `dirs` that names the trace.  Return 0 with *out, for pfw_unwritten_close();
 * -ENOENT: there is none; -EREMOTE: its process is of another host or boot; -EPERM: another user's;
 * -EBUSY: it is written faster than it can be read; -EINVAL: damaged; -ENOMEM or the error of
 * reading.  `why` explains -EREMOTE, -EPERM and -EINVAL.  After any error the file alone can still
 * be read.  Memory: the records not in the file, at most PFW_RING_MAX per thread.  Thread: any. */
int pfw_unwritten_open(struct pfw_unwritten **out, const char *trace,
		       const struct pfw_spool_places *dirs, char why[PFW_LIVE_WHY_BYTES]);
void pfw_unwritten_close(struct pfw_unwritten *live);

/* The good part of the file: whole lines or members.  Bytes after it are being written, and are
 * among the lines. */
uint64_t pfw_unwritten_offset(const struct pfw_unwritten *live);

/* Whether the process lives; a dead process's lines include its `end`. */
bool pfw_unwritten_runs(const struct pfw_unwritten *live);
pid_t pfw_unwritten_pid(const struct pfw_unwritten *live); /* in its own pid namespace */
const char *pfw_unwritten_spool(const struct pfw_unwritten *live);

/* A copy of the spool's header, of the moment to which the offset belongs. */
struct pfw_spool_header;
const struct pfw_spool_header *pfw_unwritten_header(const struct pfw_unwritten *live);

/* The next bytes of the lines after the file, as plain text, beginning with `process` if there is
 * no file.  Return their number, 0 at the end.  Thread: one at a time. */
ssize_t pfw_unwritten_read(struct pfw_unwritten *live, void *buf, size_t size);

/* The same in whole lines followed by PFW_ENTRY_PADDING zeroes, valid until the next call.  Not to
 * be mixed with pfw_unwritten_read(). */
size_t pfw_unwritten_next(struct pfw_unwritten *live, const char **text);

/* Scan the file and the lines after it as one; `live` NULL: the file alone.  Only once. */
int pfw_unwritten_scan(struct pfw_scan *scan, const char *path, struct pfw_unwritten *live);

/* Add the traces that `argument` (a trace, base name or directory) means and that are not on disk
 * yet; `dirs` is NULL-terminated. 0 or -ENOMEM. */
int pfw_unwritten_paths(struct pfw_paths *paths, const char *argument, const char *const *dirs);
