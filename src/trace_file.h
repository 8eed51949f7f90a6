/* trace_file.h - the output file: made once, never shared, never overwritten. */
#ifndef PFW_TRACE_FILE_H
#define PFW_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Create the trace (O_EXCL, O_NOFOLLOW, 0600 & ~umask, parent directories made) and lock it.  A
 * taken name gets ".2", ".3" … before its suffix; `path` (PFW_PATH_MAX bytes) then holds the name
 * used.  Return a descriptor or -errno.  Thread: drain, or finishing.
 */
int pfw_trace_create(char *path, dev_t *dev, ino_t *ino);

/* Open it again: -ESTALE where the name now is another file, or none; -EBUSY where it is locked,
 * unless `ours` says that the lock may be our own. */
int pfw_trace_reopen(const char *path, dev_t dev, ino_t ino, bool ours);

/* Write all of it at `offset`.  0 or -errno; RLIMIT_FSIZE is -EFBIG and never a signal. */
int pfw_trace_write(int fd, const void *data, size_t bytes, uint64_t offset);

/* Move a trace to `to` (numbered if taken); `from` (PFW_PATH_MAX) then holds the name used.
 * 0 or -errno, -EXDEV across file systems. */
int pfw_trace_move(char *from, const char *to);

/* One line about an error: what, which file, why, what to do.  `made`: the file exists. */
void pfw_trace_say_error(void (*say)(const char *line), const char *path, int error, int made);

#endif
