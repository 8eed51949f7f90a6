/* recorder/wrap/posix.h - the ends of calls that several wrappers share. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "recorder/probe/probe.h"

/* End a call whose fields are its arguments; it failed if value[0] is -1. */
static inline void pfw_end_fd(const struct pfw_probe *probe, const uint64_t *value, unsigned count)
{
	pfw_probe_end(probe, (int64_t)value[0] == -1, value, count);
}

/* The same for a call that returns an error number. */
static inline void pfw_end_number(const struct pfw_probe *probe, const uint64_t *value,
				  unsigned count)
{
	int before = errno;

	errno = (int)value[0];
	pfw_probe_end(probe, value[0] != 0, value, count);
	errno = before;
}

/* The same for a call that returns nothing, or does not return; value[0] is 0. */
void pfw_end_void(const struct pfw_probe *probe, const uint64_t *value, unsigned count);

/* Put the name of (dirfd, path) into *name.  Return `name`, or NULL if there is no name.  Thread:
 * app.  Signal: safe. */
const struct pfw_tail *pfw_path_text(struct pfw_path_probe *scratch, int dirfd, const char *path,
				     struct pfw_tail *name);

/* An open call with the program's arguments, whatever function was called. */
struct pfw_open {
	int dirfd;
	const char *path;
	int fd;		      /* the new descriptor, or that of the new stream or directory; -1 */
	unsigned field_count; /* of field[]: the row's fields after fd */
	int64_t field[2];
};

/* End an open call: add its descriptor to the fd table and, if the call is traced, record it.
 * Keeps errno, which is the call's if fd is -1.  Thread: app.  Signal: safe. */
void pfw_end_open(struct pfw_path_probe *probe, bool traced, const struct pfw_open *call);

/* Close fd by real(object): forget fd first and, if fd is traced, record the call as `call` (enum
 * pfw_call).  Return real's result.  Keeps errno.  Thread: app.  Signal: as real. */
int pfw_close(uint16_t call, int fd, int (*real)(void *object), void *object);

/* Whether open() takes a mode: O_TMPFILE is a set of bits, one of which is O_DIRECTORY. */
static inline bool pfw_takes_mode(int flags)
{
	return (flags & O_CREAT) || (flags & __O_TMPFILE) == __O_TMPFILE;
}

/*
 * End a call that made fd (-1: it failed) and whose name only the kernel knows: forget the old
 * meaning of the number and, if the call is traced, look the name up and record the call with the
 * values and texts of *ending.  Begun by pfw_probe_path() with any path.  Keeps errno, which is the
 * call's if it failed.  Thread: app.  Signal: safe.
 */
void pfw_made_end(struct pfw_path_probe *probe, bool traced, int fd, struct pfw_ending *ending);

/* Record a call on a program's path that has returned, or (flags: PFW_RECORD_NO_RET) is about to
 * replace or end the process.  Keeps errno.  Thread: app.  Signal: safe. */
void pfw_record_path(struct pfw_probe *probe, const char *path, const uint64_t *value,
		     unsigned count, int error, uint8_t flags);

/* Tell AddressSanitizer that this thread leaves its frames without returning.  Thread: app. */
void pfw_leave_frames(void);
