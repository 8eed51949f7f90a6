/* store/sys/full_io.c - read() and write() without short counts; see full_io.h. */
#include "store/sys/full_io.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

ssize_t pfw_full_read(int fd, void *out, size_t bytes, uint64_t at)
{
	size_t got = 0;

	while (got < bytes) {
		ssize_t n = pread(fd, (char *)out + got, bytes - got, (off_t)(at + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

int pfw_full_read_all(int fd, void *out, size_t bytes, uint64_t at)
{
	ssize_t got = pfw_full_read(fd, out, bytes, at);

	return got < 0 ? (int)got : (size_t)got < bytes ? -EIO : 0;
}

int pfw_full_read_file(int fd, uint64_t most, char **text, size_t *bytes)
{
	struct stat st;
	ssize_t got;

	*text = NULL;
	if (fstat(fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size > most)
		return -EFBIG;
	*text = malloc((size_t)st.st_size + 1);
	if (!*text)
		return -ENOMEM;
	got = pfw_full_read(fd, *text, (size_t)st.st_size, 0);
	*bytes = got < 0 ? 0 : (size_t)got;
	(*text)[*bytes] = '\0';
	if (got >= 0)
		return 0;
	free(*text);
	*text = NULL;
	return (int)got;
}

int pfw_full_write(int fd, const void *text, size_t bytes, uint64_t *at)
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
