/* recorder/writer/trace_file.h - the output file: created once, locked, never overwritten. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Tells open files apart, whatever their names. */
struct pfw_file_id {
	dev_t dev;
	ino_t ino;
};

/* 0 or -errno. */
int pfw_file_id_get(int fd, struct pfw_file_id *id);

static inline bool pfw_file_id_is(const struct pfw_file_id *a, const struct pfw_file_id *b)
{
	return a->dev == b->dev && a->ino == b->ino;
}

/*
 * Create the trace (O_EXCL, O_NOFOLLOW, 0666 & ~umask) and its parent directories, and lock it.  A
 * taken name gets ".2", ".3" … before its suffix; `path` (PFW_PATH_MAX bytes) gets the name used.
 * Return a descriptor or -errno.  Thread: drain, or a finishing one.
 */
int pfw_output_create(char *path, struct pfw_file_id *id);

/* Whether pfw_output_create() has the rights it needs: 0 or -errno.  Nothing is made.  Thread: any. */
int pfw_output_may_create(const char *path);

/* Open it again.  -ENOENT: the name is gone or another file now; -EBUSY: another process holds the
 * lock (`ours`: the lock may be our own). */
int pfw_output_reopen(const char *path, const struct pfw_file_id *id, bool ours);

/* Write all bytes at `offset`.  0 or -errno; RLIMIT_FSIZE gives -EFBIG, never a signal. */
int pfw_output_write(int fd, const void *data, size_t bytes, uint64_t offset);

/* Rename to `to` (a taken name gets a number); `from` (PFW_PATH_MAX bytes) gets the name used.
 * 0 or -errno, -EXDEV across file systems. */
int pfw_output_move(char *from, const char *to);

/* Whether an error (-errno) of a trace file is of a limit, of space, files or memory, that may be
 * gone later.  Thread: any. */
bool pfw_output_lacks_room(int error);

/* Print what failed, which file, why, and what to do.  `made`: the file exists. */
void pfw_output_say_error(void (*say)(const char *line), const char *path, int error, int made);

/* The same of a close() that failed: what was written may be lost. */
void pfw_output_say_unclosed(void (*say)(const char *line), const char *path, int error);
