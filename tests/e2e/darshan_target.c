/* darshan_target.c - calls that Darshan's posix module and `pfw patterns` must count alike.
 *
 * It uses what both wrap; glibc's own stat, which Darshan 3.4 does not see, is not among it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define SIZE 200000

static char buffer[SIZE];

static void must(ssize_t result)
{
	if (result < 0) {
		perror("darshan_target");
		exit(1);
	}
}

static int make(const char *directory, const char *name, int flags)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, flags, 0600);
	must(fd);
	return fd;
}

/* In order, forwards with gaps, backwards; of all sizes. */
static void places(const char *directory)
{
	static const size_t size[] = { 1, 100, 101, 1024, 1025, 10240, 10241, 102400, 102401 };
	int fd = make(directory, "places", O_RDWR | O_CREAT | O_TRUNC);

	for (unsigned i = 0; i < 9; i++)
		must(write(fd, buffer, size[i]));
	for (int i = 0; i < 20; i++)
		must(pread(fd, buffer, 500, i * 8192));
	for (int i = 20; i-- > 0;)
		must(pread(fd, buffer, 4096, i * 4096));
	must(lseek(fd, 4096, SEEK_SET));
	for (int i = 0; i < 10; i++)
		must(read(fd, buffer, 4096));
	must(lseek(fd, 10, SEEK_CUR));
	must(read(fd, buffer, 100));
	must(lseek(fd, 0, SEEK_END));
	must(read(fd, buffer, 100));
	must(close(fd));
}

/* Descriptors that share a place. */
static void copies(const char *directory)
{
	int fd = make(directory, "copies", O_RDWR | O_CREAT | O_TRUNC), copy = dup(fd);

	must(copy);
	for (int i = 0; i < 8; i++)
		must(write(i % 2 ? copy : fd, buffer, 4096));
	must(lseek(copy, 0, SEEK_SET));
	for (int i = 0; i < 8; i++)
		must(read(i % 2 ? copy : fd, buffer, 4096));
	must(pwrite(fd, buffer, 10, 5));
	must(close(fd));
	must(close(copy));
}

/* Reads and writes in turn, and in pieces. */
static void turns(const char *directory)
{
	int fd = make(directory, "turns", O_RDWR | O_CREAT | O_TRUNC);
	struct iovec piece[2] = { { buffer, 100 }, { buffer + 100, 200 } };

	for (int i = 0; i < 5; i++) {
		must(pwrite(fd, buffer, 8192, i * 8192));
		must(pread(fd, buffer, 8192, i * 8192));
	}
	must(lseek(fd, 0, SEEK_SET));
	must(writev(fd, piece, 2));
	must(readv(fd, piece, 2));
	must(fsync(fd));
	must(close(fd));
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	places(argv[1]);
	copies(argv[1]);
	turns(argv[1]);
	return 0;
}
