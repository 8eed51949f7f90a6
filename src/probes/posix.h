/* posix.h - what the wrappers of posix.c share with those of the files beside it: the end of an open. */
#ifndef PFW_POSIX_H
#define PFW_POSIX_H

#include <stdbool.h>
#include <stdint.h>

struct pfw_ending;
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

/*
 * The call has made fd (-1: it failed), whose name only the kernel knows: what the number stood for
 * is forgotten and, if the call is traced, the new name found out and the call recorded, with the
 * values and texts of *ending.  Begun by pfw_probe_path(), with any path.  Keeps errno, which is
 * that of the call where it failed.  Thread: app.  Signal: safe.
 */
void pfw_made_end(struct pfw_path_probe *probe, bool traced, int fd, struct pfw_ending *ending);

#endif
