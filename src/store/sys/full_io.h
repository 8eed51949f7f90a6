/* store/sys/full_io.h - read and write without short counts. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Read up to `bytes` bytes at offset `at`.  Return their number, fewer only at the end of the file,
 * or -errno.  Thread: any, as below. */
ssize_t pfw_full_read(int fd, void *out, size_t bytes, uint64_t at);

/* Read exactly `bytes` bytes. 0, -EIO at the end of the file, or -errno. */
int pfw_full_read_all(int fd, void *out, size_t bytes, uint64_t at);

/* Read a whole file into memory that the caller frees, with a '\0' behind it; fewer bytes if it is
 * truncated meanwhile.  0; -EFBIG: it has more than `most`; -ENOMEM or -errno, with *text NULL. */
int pfw_full_read_file(int fd, uint64_t most, char **text, size_t *bytes);

/* Write all bytes at offset *at, and advance *at. 0 or -errno. */
int pfw_full_write(int fd, const void *text, size_t bytes, uint64_t *at);
