/*
 * bench_spawn.c - run a command and say what it took: bench_spawn [NAME=VALUE]... COMMAND [ARG]...
 *
 * The variables are the command's alone.  After its own output, one line of JSON: exit status, CPU
 * of the whole process (also of a tracer's threads), wall time and greatest resident set.  This is
 * no job for the script: what its own process holds would count as the command's peak (an exec
 * keeps the peak of the process before it), and Python holds more than a command.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t time_ns(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_usec * 1000u;
}

static void become(char **argv)
{
	for (; *argv && strchr(*argv, '='); argv++)
		putenv(*argv);
	if (*argv)
		execvp(*argv, argv);
	perror(*argv ? *argv : "bench_spawn: no command");
	_exit(127);
}

int main(int argc, char **argv)
{
	struct rusage usage;
	uint64_t start = now_ns();
	int status;
	pid_t pid;

	(void)argc;
	pid = fork();
	if (pid == 0)
		become(argv + 1);
	if (pid < 0 || wait4(pid, &status, 0, &usage) != pid) {
		perror("bench_spawn");
		return 1;
	}
	printf("{\"status\":%d,\"cpu_ns\":%" PRIu64 ",\"wall_ns\":%" PRIu64 ",\"peak_kib\":%ld}\n",
	       WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
	       time_ns(usage.ru_utime) + time_ns(usage.ru_stime), now_ns() - start,
	       usage.ru_maxrss);
	return 0;
}
