/* files.c - many descriptors, odd names, and descriptors that are no files. */
#include "torture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* So many at once, and a tick through each. */
static int run_many_open(long count, char **rest)
{
	struct rlimit limit = { (rlim_t)count + 64, (rlim_t)count + 64 };
	int first = data_fd, last = 0;
	char path[4200];

	(void)rest;
	must(!setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
	snprintf(path, sizeof(path), "%s/data", directory);
	for (long i = 0; i < count; i++) {
		data_fd = open(path, O_RDONLY);
		must(data_fd >= 0, path);
		last = data_fd;
		tick();
	}
	printf("%d to %d\n", first, last);
	for (int fd = first + 1; fd <= last; fd++)
		must(!close(fd), "close");
	data_fd = first;
	tick();
	return 0;
}

/* Each byte that a name may have, in names of 200; a tick through each file. */
static int run_odd_names(long count, char **rest)
{
	char name[201];
	int kept = data_fd;

	(void)rest;
	for (long i = 0; i < count; i++) {
		for (int n = 0; n < 200; n++) {
			int byte = (int)(1 + (i * 200 + n) % 255);

			name[n] = (char)(byte == '/' ? '"' : byte);
		}
		name[200] = '\0';
		data_fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
		must(data_fd >= 0 && !ftruncate(data_fd, TICKS_MAX), name);
		tick();
		must(!close(data_fd) && !unlink(name), "unlink");
	}
	data_fd = kept;
	return 0;
}

/* A path as long as the kernel takes: 4,095 bytes. */
static int run_long_path(long count, char **rest)
{
	char path[5000] = "", part[128];
	int kept = data_fd, top = open(".", O_RDONLY | O_DIRECTORY);

	(void)rest;
	memset(part, '\\', sizeof(part));
	part[126] = '/';
	part[127] = '\0';
	while (strlen(path) + 127 < 4095) {
		must(!mkdir(part, 0700) && !chdir(part), part);
		strcat(path, part);
	}
	must(!fchdir(top), "fchdir");
	memset(path + strlen(path), '"', 4095 - strlen(path));
	for (long i = 0; i < count; i++) {
		data_fd = open(path, O_RDWR | O_CREAT, 0600);
		must(data_fd >= 0 && !ftruncate(data_fd, TICKS_MAX), "long");
		tick();
		close(data_fd);
	}
	path[4095] = 'x';
	path[4096] = '\0';
	printf("one more: %s\n", open(path, O_RDONLY) < 0 ? strerror(errno) : "open");
	data_fd = kept;
	tick();
	return 0;
}

/* The name goes, the file stays. */
static int run_renamed(long count, char **rest)
{
	int kept = data_fd;

	(void)rest;
	for (long i = 0; i < count; i++) {
		data_fd = open("before", O_RDWR | O_CREAT, 0600);
		must(data_fd >= 0 && !ftruncate(data_fd, TICKS_MAX), "before");
		tick();
		must(!rename("before", "after"), "rename");
		tick();
		must(!unlink("after"), "unlink");
		tick();
		close(data_fd);
	}
	data_fd = kept;
	return 0;
}

/* Pipes, sockets, memory: no name, but calls like any other. */
static int run_nameless(long count, char **rest)
{
	int end[2], pair[2], memory = memfd_create("memory", 0), kept = data_fd;
	char buf[8];

	(void)rest;
	must(!pipe(end) && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "pair");
	for (long i = 0; i < count; i++) {
		must(write(end[1], "12345678", 8) == 8 && read(end[0], buf, 8) == 8, "pipe");
		must(write(pair[0], "12345678", 8) == 8 && read(pair[1], buf, 8) == 8, "socket");
		must(!ftruncate(memory, TICKS_MAX), "memory");
		data_fd = memory;
		tick();
		data_fd = kept;
	}
	printf("on a pipe: %zd", pread(end[0], buf, 1, 0));
	printf(" %d\n", errno);
	return 0;
}

const struct mode file_modes[] = {
	{ "many-open", run_many_open }, { "odd-names", run_odd_names },
	{ "long-path", run_long_path }, { "renamed", run_renamed },
	{ "nameless", run_nameless },	{ NULL, NULL },
};
