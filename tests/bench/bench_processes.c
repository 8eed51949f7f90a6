/*
 * bench_processes.c - what a process's life takes, from its making to its end as its parent sees it.
 *
 * bench_processes fork COUNT FILE: children that read once from FILE and end by _exit.
 * bench_processes spawn COUNT PROGRAM [NAME=VALUE]...: PROGRAM, in an environment of these alone.
 * One line of JSON: the tenth percentile and the median, in microseconds.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static pid_t fork_reader(int fd)
{
	pid_t pid = fork();
	char byte;

	if (pid == 0)
		_exit(pread(fd, &byte, 1, 0) != 1);
	return pid;
}

static pid_t spawn(char **argv)
{
	char *program[] = { argv[0], NULL };
	pid_t pid;

	return posix_spawn(&pid, argv[0], NULL, NULL, program, argv + 1) ? -1 : pid;
}

int main(int argc, char **argv)
{
	size_t count = argc > 3 ? strtoul(argv[2], NULL, 10) : 0;
	double *took = calloc(count ? count : 1, sizeof(*took));
	int forks = argc > 3 && !strcmp(argv[1], "fork");
	int fd = forks ? open(argv[3], O_RDONLY) : -1, status;

	if (!count || !took || (!forks && strcmp(argv[1], "spawn") != 0)) {
		fputs("usage: bench_processes fork COUNT FILE | spawn COUNT PROGRAM [NAME=VALUE]...\n",
		      stderr);
		return 2;
	}
	for (size_t i = 0; i < count; i++) {
		double begun = now_us();
		pid_t pid = forks ? fork_reader(fd) : spawn(argv + 3);

		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			die(argv[1]);
		took[i] = now_us() - begun;
	}
	qsort(took, count, sizeof(*took), compare);
	printf("{\"tenth_us\":%.1f,\"median_us\":%.1f}\n", took[count / 10], took[count / 2]);
	return 0;
}
