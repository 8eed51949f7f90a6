/* posix.h - what the wrappers of posix.c share with those of stdio.c: the end of an open. */
#ifndef PFW_POSIX_H
#define PFW_POSIX_H

#include <stdbool.h>
#include <stdint.h>

struct pfw_path_probe;

/* An open call as the program made it, whatever its name. */
struct pfw_open {
	int dirfd;
	const char *path;
	int fd;		      /* what it returned, or the descriptor of what it returned; -1 */
	unsigned field_count; /* of field[]: the row's fields behind fd */
	int64_t field[2];
};

/*
 * The call has returned: make its descriptor known to the table and, if the call is traced, record
 * it.  Keeps errno, which is that of the call where fd is -1.  Thread: app.  Signal: safe.
 */
void pfw_open_end(struct pfw_path_probe *probe, bool traced, const struct pfw_open *call);

/*
 * A call that closes fd: real(object), recorded as `call` (enum pfw_call) if fd is traced, with fd
 * forgotten before it.  Return what it returned.  Keeps its errno.  Thread: app.  Signal: as real.
 */
int pfw_close(uint16_t call, int fd, int (*real)(void *object), void *object);

#endif
