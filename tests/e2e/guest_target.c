/* guest_target.c - what programs do that live with a tracer in them; see test_guest.py.
 *
 * guest_target MODE ARGUMENTS:
 *	clone N		N children of libc's clone(), one after the other
 *	shared N	N children of clone() in our memory while we run; they end by exec and _exit
 *	modes 1		the permissions of the files in $PFW_SPOOL_DIR, into the file `modes`
 *	clearenv 1	starts programs and the recorder without an environment, as clearenv() leaves it
 *	keys N		all keys of thread-local data but N taken, then pfw_start() and I/O
 */
#define _GNU_SOURCE
#define PFW_OPTIONAL
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pfw/pfw.h>

#define STACK_BYTES 65536

static int fail(const char *what)
{
	perror(what);
	exit(9);
}

static void reads(int count)
{
	int fd = open("/etc/passwd", O_RDONLY);
	char byte;

	for (int i = 0; i < count; i++)
		if (pread(fd, &byte, 1, 0) != 1)
			fail("pread");
	close(fd);
}

/* ---- clone ---- */

static int child(void *number)
{
	reads(20);
	return *(int *)number;
}

static int run_clone(int count)
{
	char *stack = malloc(STACK_BYTES);
	int status, ends;

	for (int i = 0; i < count; i++) {
		pid_t pid;

		ends = i % 100;
		pid = clone(child, stack + STACK_BYTES, SIGCHLD, &ends);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != ends << 8)
			fail("clone");
	}
	return 0;
}

/* ---- shared ---- */

/* A start that fails and then one that works; every other child leaves by _exit(). */
static int child_in_our_memory(void *number)
{
	char *const argv[] = { "true", NULL };

	reads(5);
	execv("/nowhere/true", argv);
	if (*(int *)number % 2 == 0)
		execv("/bin/true", argv);
	_exit(0);
}

static int run_shared(int count)
{
	char *stack = malloc(STACK_BYTES);
	int status;

	for (int i = 0; i < count; i++) {
		pid_t pid = clone(child_in_our_memory, stack + STACK_BYTES, CLONE_VM | SIGCHLD, &i);

		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			fail("clone");
		reads(20);
	}
	return 0;
}

/* ---- modes ---- */

static int run_modes(void)
{
	reads(3);
	return system("stat -c %a \"$PFW_SPOOL_DIR\"/* | sort -u | tr -d '\\n' > modes") ? 1 : 0;
}

/* ---- clearenv ---- */

static int started(void (*start)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		start();
		_exit(9);
	}
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

static void start_by_list(void)
{
	execlp("true", "true", NULL);
}

static void start_by_array(void)
{
	char *const argv[] = { "true", NULL };

	execvp("true", argv);
}

static int run_clearenv(void)
{
	clearenv();
	pfw_start(NULL);
	reads(3);
	return started(start_by_list) || started(start_by_array) || system("true");
}

/* ---- keys ---- */

static void *other(void *unused)
{
	reads(3);
	return unused;
}

static int run_keys(int left)
{
	pthread_key_t key[PTHREAD_KEYS_MAX];
	static char mine[PTHREAD_KEYS_MAX];
	pthread_t id;
	int count = 0;

	while (count < PTHREAD_KEYS_MAX && !pthread_key_create(&key[count], NULL))
		count++;
	for (int i = 0; i < left && count; i++)
		pthread_key_delete(key[--count]);
	for (int i = 0; i < count; i++)
		pthread_setspecific(key[i], &mine[i]);
	pfw_start(NULL);
	reads(3);
	pthread_create(&id, NULL, other, NULL);
	pthread_join(id, NULL);
	for (int i = 0; i < count; i++)
		if (pthread_getspecific(key[i]) != &mine[i])
			return 1;
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "";

	if (!strcmp(mode, "clone"))
		return run_clone(atoi(argv[2]));
	if (!strcmp(mode, "shared"))
		return run_shared(atoi(argv[2]));
	if (!strcmp(mode, "modes"))
		return run_modes();
	if (!strcmp(mode, "clearenv"))
		return run_clearenv();
	if (!strcmp(mode, "keys"))
		return run_keys(atoi(argv[2]));
	return 9;
}
