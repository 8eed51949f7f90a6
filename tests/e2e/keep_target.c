/* keep_target.c - makes numbered calls and says which have returned: for test_keep.
 *
 * usage: keep_target STATE MODE [N]; a call is a pread() of "data" at its number, plus 10^12 for each
 * thread before it.  STATE, a mapped file, has the number of finished calls of thread n at n * 8.
 *
 *	run N     N threads, until killed; pace N: with pauses of 20 us
 *	steps     N steps of 10 calls and 20 ms; step N - 3 takes 60 ms
 *	slow      N calls; one before the last three reads from a pipe that is filled after 30 ms
 *	ask       N calls, pfw_dump("first"), N calls, pfw_dump(NULL), N calls
 *	threads   N threads, one after the other, of 10 calls each
 *	fork      N calls, then a child with N calls; each dumps
 *	files     opens N files of different names, reads each once
 *	chroot    N calls, chroot("spools"), a dump; setuid: setuid(65534) in place of chroot()
 *	wait      N calls, writes "x" to 1, and waits for its input to end
 */
#define _GNU_SOURCE
#include <pfw/pfw.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 16

static volatile unsigned long *done;
static int data;
static bool paced;

static void call(unsigned long thread)
{
	char byte;

	if (pread(data, &byte, 1, (off_t)(thread * 1000000000000 + done[thread])) < 0)
		exit(3);
	done[thread]++;
}

static void calls(unsigned long count)
{
	while (count--)
		call(0);
}

static void *call_on(void *thread)
{
	for (;;) {
		call((unsigned long)thread);
		if (paced)
			nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
	}
	return NULL;
}

static void *call_ten(void *unused)
{
	calls(10);
	return unused;
}

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

static void *fill(void *pipe)
{
	pause_ms(30);
	if (write(*(int *)pipe, "x", 1) != 1)
		exit(3);
	return NULL;
}

static void read_slowly(void)
{
	pthread_t thread;
	int ends[2];
	char byte;

	if (pipe(ends) || pthread_create(&thread, NULL, fill, &ends[1]) ||
	    read(ends[0], &byte, 1) != 1)
		exit(3);
	pthread_join(thread, NULL);
}

static void start_threads(unsigned long count)
{
	pthread_t thread;

	for (unsigned long i = 1; i < count; i++)
		if (pthread_create(&thread, NULL, call_on, (void *)i))
			exit(3);
	call_on(NULL);
}

static void make_steps(unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		calls(10);
		pause_ms(i + 3 == count ? 60 : 20);
		pfw_step();
	}
}

static void join_threads(unsigned long count)
{
	pthread_t thread;

	while (count--)
		if (pthread_create(&thread, NULL, call_ten, NULL) || pthread_join(thread, NULL))
			exit(3);
}

static void fork_once(unsigned long count)
{
	int status = 0;
	pid_t child;

	calls(count);
	child = fork();
	calls(child ? 0 : count);
	if (pfw_dump(child ? "parent" : "child"))
		exit(4);
	if (child && (waitpid(child, &status, 0) != child || status))
		exit(4);
}

static void open_files(unsigned long count)
{
	char name[64];

	while (count--) {
		char byte;
		int fd;

		snprintf(name, sizeof(name), "a-file-of-many-%lu", count);
		fd = open(name, O_RDWR | O_CREAT, 0600);
		if (fd < 0 || pread(fd, &byte, 1, (off_t)count) < 0 || close(fd) || unlink(name))
			exit(3);
	}
}

static int ask(unsigned long count)
{
	int error;

	calls(count);
	error = pfw_dump("first");
	calls(count);
	error |= pfw_dump(NULL);
	calls(count);
	return error;
}

static int give_up(const char *mode, unsigned long count)
{
	calls(count);
	if (mode[0] == 'c' ? chroot("spools") || chdir("/") : setuid(65534))
		exit(3);
	calls(count);
	return pfw_dump(mode);
}

int main(int argc, char **argv)
{
	int state = open(argv[1], O_RDWR | O_CREAT, 0600);
	unsigned long count = strtoul(argv[argc - 1], NULL, 10);
	const char *mode = argv[2];
	char byte;

	if (ftruncate(state, THREADS_MAX * sizeof(*done)))
		return 3;
	done = mmap(NULL, THREADS_MAX * sizeof(*done), PROT_READ | PROT_WRITE, MAP_SHARED, state,
		    0);
	data = open("data", O_RDONLY);
	paced = !strcmp(mode, "pace");
	if (!strcmp(mode, "run") || paced)
		start_threads(count);
	else if (!strcmp(mode, "steps"))
		make_steps(count);
	else if (!strcmp(mode, "threads"))
		join_threads(count);
	else if (!strcmp(mode, "fork"))
		fork_once(count);
	else if (!strcmp(mode, "files"))
		open_files(count);
	else
		calls(strchr("acs", mode[0]) && strcmp(mode, "slow") ? 0 : count);
	if (!strcmp(mode, "chroot") || !strcmp(mode, "setuid"))
		return give_up(mode, count) ? 4 : 0;
	if (!strcmp(mode, "ask"))
		return ask(count) ? 4 : 0;
	if (!strcmp(mode, "slow")) {
		read_slowly();
		calls(3);
	}
	if (!strcmp(mode, "wait"))
		return write(1, "x", 1) == 1 && read(0, &byte, 1) == 0 ? 0 : 3;
	return mode[0] == 'f' && mode[1] == 'i' && pfw_dump("files") ? 4 : 0;
}
