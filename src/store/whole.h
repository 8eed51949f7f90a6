/* whole.h - read or write all that is asked for, not what the kernel felt like. */
#ifndef PFW_WHOLE_H
#define PFW_WHOLE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Read up to `bytes` bytes from byte `at` of the file.  Their number, fewer where it ends, or -errno.
 * Thread: any, as below. */
ssize_t pfw_read_some(int fd, void *out, size_t bytes, uint64_t at);

/* Read all of them.  0, -EIO where the file ends before, or -errno. */
int pfw_read_whole(int fd, void *out, size_t bytes, uint64_t at);

/* Write them from byte *at on, and move *at behind what was written.  0 or -errno. */
int pfw_write_whole(int fd, const void *text, size_t bytes, uint64_t *at);

#endif
