/* whole.c - read or write all that is asked for; see whole.h. */
#include "whole.h"

#include <errno.h>
#include <unistd.h>

int pfw_read_whole(int fd, void *out, size_t bytes, uint64_t at)
{
	char *next = out;

	while (bytes) {
		ssize_t n = pread(fd, next, bytes, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		next += n;
		bytes -= (size_t)n;
		at += (uint64_t)n;
	}
	return 0;
}

int pfw_write_whole(int fd, const void *text, size_t bytes, uint64_t *at)
{
	const char *next = text;

	while (bytes) {
		ssize_t n = pwrite(fd, next, bytes, (off_t)*at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		next += n;
		bytes -= (size_t)n;
		*at += (uint64_t)n;
	}
	return 0;
}
