/* fds_target.c - programs that try what the tracer knows of descriptors.
 *
 * fds_target MODE DIR...: works in DIR.  So that a trace can be checked line by line, a file is
 * named f-N and read with count N + 1 (or written with that many bytes): a line whose name and count
 * do not agree names the wrong file.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static void fail(const char *what)
{
	dprintf(2, "fds_target: %s: %s\n", what, strerror(errno));
	_exit(3);
}

static int open_file(unsigned n, int flags)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "f-%u", n);
	fd = open(name, flags, 0644);
	if (fd < 0)
		fail(name);
	return fd;
}

static void read_file(int fd, unsigned n)
{
	char buffer[8192];

	if (pread(fd, buffer, n + 1, 0) < 0)
		fail("pread");
}

static void make_files(unsigned count)
{
	for (unsigned n = 0; n < count; n++)
		close(open_file(n, O_CREAT | O_WRONLY));
}

/* ---- reuse: threads close and open, and get each other's numbers ---- */

#define THREADS 4
#define ROUNDS 3000
#define FILES 64

static void *reuse(void *argument)
{
	unsigned n = (unsigned)(size_t)argument;

	for (unsigned i = 0; i < ROUNDS; i++) {
		int fd = open_file(n % FILES, O_RDONLY), copy;

		read_file(fd, n % FILES);
		copy = dup(fd);
		close(fd);
		read_file(copy, n % FILES);
		close(copy);
		n += 7;
	}
	return NULL;
}

static void mode_reuse(void)
{
	pthread_t thread[THREADS];

	make_files(FILES);
	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, reuse, (void *)(i * 16));
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

/* ---- dups: a number stands for what was put there last ---- */

static void mode_dups(void)
{
	int one, two;

	make_files(3);
	one = open_file(1, O_RDONLY);
	two = open_file(2, O_RDONLY);
	dup2(one, 50);
	dup2(50, 60);
	close(one);
	close(50);
	read_file(60, 1);
	dup3(two, 60, O_CLOEXEC);
	read_file(60, 2);
	dup2(60, 60);
	read_file(60, 2);
	dup2(999, 60); /* fails: 60 stays what it is */
	read_file(60, 2);
	one = fcntl(60, F_DUPFD, 70);
	close(60);
	close(two);
	read_file(one, 2);
	two = open_file(0, O_RDONLY);
	read_file(two, 0);
	dup2(two, one);
	read_file(one, 0);
	close(two);
	close(one);
}

/* ---- exec: what comes through is named again, what does not is forgotten ---- */

static void mode_exec(char *self, char *dir)
{
	int closed, kept;

	make_files(4);
	closed = open_file(1, O_RDONLY | O_CLOEXEC);
	kept = open_file(2, O_RDONLY);
	read_file(closed, 1);
	read_file(kept, 2);
	if (dup2(closed, 40) != 40 || dup2(kept, 41) != 41 || close(closed) < 0 ||
	    close(kept) < 0 || fcntl(40, F_SETFD, FD_CLOEXEC) < 0)
		fail("dup2");
	execl(self, self, "successor", dir, NULL);
	fail("exec");
}

static void mode_successor(void)
{
	char byte;
	int other;

	if (read(40, &byte, 1) >= 0 || errno != EBADF)
		fail("descriptor 40 came through");
	read_file(41, 2);
	other = open_file(3, O_RDONLY);
	if (dup2(other, 40) != 40)
		fail("dup2");
	read_file(40, 3);
}

/* ---- many: 2,000 descriptors at once ---- */

#define MANY 2000

static void mode_many(void)
{
	struct rlimit limit;
	int fd[MANY];

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		fail("getrlimit");
	if (limit.rlim_cur < MANY + 100) {
		limit.rlim_cur = MANY + 100;
		if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
			fail("setrlimit");
	}
	for (unsigned n = 0; n < MANY; n++)
		fd[n] = open_file(n, O_CREAT | O_RDWR);
	for (unsigned n = 0; n < MANY; n++)
		read_file(fd[n], n);
	for (unsigned n = 0; n < MANY; n += 2)
		close(fd[n]);
	for (unsigned n = 0; n < MANY; n += 2)
		fd[n] = open_file(MANY - 1 - n, O_RDONLY);
	for (unsigned n = 0; n < MANY; n++)
		read_file(fd[n], n % 2 ? n : MANY - 1 - n);
}

/* ---- bare: started with 0, 1 and 2 closed ---- */

static void mode_bare(void)
{
	for (int n = 0; n < 3; n++) {
		int fd = open_file((unsigned)n, O_CREAT | O_RDWR);

		if (fd != n)
			_exit(4);
		if (write(fd, "xyz", (size_t)n + 1) != n + 1)
			_exit(5);
		read_file(fd, (unsigned)n);
	}
	for (int fd = 0; fd < 3; fd++)
		if (close(fd) < 0)
			_exit(6);
}

/* ---- odd: commands and descriptors without a file ---- */

static void mode_odd(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	int pipes[2], memory, other;

	if (pipe(pipes) < 0)
		fail("pipe");
	dprintf(1, "pipe size %d\n", fcntl(pipes[0], F_SETPIPE_SZ, 65536 * 2));
	dprintf(1, "pipe size %d\n", fcntl(pipes[0], F_GETPIPE_SZ));
	dprintf(1, "write %zd\n", write(pipes[1], "abc", 3));
	memory = memfd_create("memory", MFD_ALLOW_SEALING);
	dprintf(1, "write %zd\n", write(memory, "abc", 3));
	dprintf(1, "seal %d\n", fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE));
	dprintf(1, "seals %d\n", fcntl(memory, F_GET_SEALS));
	dprintf(1, "write %zd errno %d\n", write(memory, "abc", 3), errno);
	make_files(1);
	memory = open_file(0, O_RDWR);
	other = open_file(0, O_RDWR);
	dprintf(1, "lock %d\n", fcntl(memory, F_OFD_SETLK, &lock));
	dprintf(1, "lock %d errno %d\n", fcntl(other, F_OFD_SETLK, &lock), errno);
	dprintf(1, "flags %d\n", fcntl(other, F_GETFD));
}

/* ---- paths: open and close each argument ---- */

static void mode_paths(int count, char **paths)
{
	for (int i = 0; i < count; i++) {
		int fd = open(paths[i], O_RDONLY);

		dprintf(1, "%d %d\n", fd, fd < 0 ? errno : 0);
		if (fd < 0)
			continue;
		read_file(fd, 0);
		close(fd);
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "";

	if (argc < 3 || syscall(SYS_chdir, argv[2]) < 0)
		fail("usage: fds_target MODE DIR");
	if (!strcmp(mode, "reuse"))
		mode_reuse();
	else if (!strcmp(mode, "dups"))
		mode_dups();
	else if (!strcmp(mode, "exec"))
		mode_exec(argv[0], argv[2]);
	else if (!strcmp(mode, "successor"))
		mode_successor();
	else if (!strcmp(mode, "many"))
		mode_many();
	else if (!strcmp(mode, "bare"))
		mode_bare();
	else if (!strcmp(mode, "odd"))
		mode_odd();
	else if (!strcmp(mode, "paths"))
		mode_paths(argc - 3, argv + 3);
	else
		fail("no such mode");
	return 0;
}
