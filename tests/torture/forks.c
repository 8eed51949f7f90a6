/* forks.c - processes that are made: by every route, from every place; and replaced by exec. */
#include "torture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define CHILD_TICKS 3

static pid_t raw_fork(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

/* `count` children of `make`, one after the other; a tick of the parent's after each. */
static int children(long count, pid_t (*make)(void))
{
	int status, failed = 0;

	for (long i = 0; i < count; i++) {
		pid_t pid = make();

		must(pid >= 0, "fork");
		if (!pid) {
			ticks(CHILD_TICKS);
			_exit(0);
		}
		tick();
		waitpid(pid, &status, 0);
		failed += status != 0;
	}
	printf("%d children failed\n", failed);
	return failed != 0;
}

static int run_fork(long count, char **rest)
{
	(void)rest;
	ticks(1);
	return children(count, fork);
}

/* Nothing has happened in the parent yet. */
static int run_fork_first(long count, char **rest)
{
	(void)rest;
	return children(count, fork);
}

static int run_fork_raw(long count, char **rest)
{
	(void)rest;
	ticks(1);
	return children(count, raw_fork);
}

static int run__Fork(long count, char **rest)
{
	(void)rest;
	ticks(1);
	return children(count, _Fork);
}

static int cloned(void *unused)
{
	(void)unused;
	ticks(CHILD_TICKS);
	return 0;
}

/* glibc's clone() on a stack of the caller's: with the semantics of fork, then of vfork. */
static int run_clone(long count, char **rest)
{
	char *stack = malloc(256 << 10);
	int failed = 0, status;

	(void)rest;
	ticks(1);
	for (long i = 0; i < count; i++) {
		pid_t pid = clone(cloned, stack + (256 << 10), SIGCHLD, NULL);

		must(pid > 0, "clone");
		waitpid(pid, &status, 0);
		failed += status != 0;
		tick();
	}
	printf("%d children failed\n", failed);
	return failed != 0;
}

/* The child closes, dups and opens in its own table, but in our memory. */
static int run_vfork(long count, char **rest)
{
	static volatile int fd, failed;
	int status;
	char buf[64];

	(void)rest;
	ticks(1);
	for (long i = 0; i < count; i++) {
		pid_t pid = vfork();

		must(pid >= 0, "vfork");
		if (!pid) {
			dup2(data_fd, 60);
			close(data_fd);
			fd = open("/dev/null", O_WRONLY);
			if (fd != data_fd || write(fd, "x", 1) != 1 || close(60) || close(1))
				_exit(3);
			_exit(i % 3 == 0 ? 7 : 0);
		}
		waitpid(pid, &status, 0);
		failed += WEXITSTATUS(status) != (i % 3 == 0 ? 7 : 0);
		tick();
	}
	snprintf(buf, sizeof(buf), "%d failed, fd 60 %s\n", failed,
		 fcntl(60, F_GETFD) < 0 ? "closed" : "open");
	return write(1, buf, strlen(buf)) < 0 || failed;
}

static char **words(const char *mode, const char *count)
{
	static char *argv[5];

	argv[0] = self;
	argv[1] = directory;
	argv[2] = (char *)(uintptr_t)mode;
	argv[3] = (char *)(uintptr_t)count;
	return argv;
}

static int run_vfork_exec(long count, char **rest)
{
	static volatile int failed;
	char **argv = words("ticks", "3");
	int status;

	(void)rest;
	ticks(1);
	for (long i = 0; i < count; i++) {
		pid_t pid = vfork();

		if (!pid) {
			execv(i % 2 ? "/nowhere/at/all" : self, argv);
			_exit(7);
		}
		waitpid(pid, &status, 0);
		failed += WEXITSTATUS(status) != (i % 2 ? 7 : 0);
		tick();
	}
	printf("%d failed\n", failed);
	return failed != 0;
}

static int run_spawn(long count, char **rest)
{
	posix_spawn_file_actions_t actions;
	int status, failed = 0;
	pid_t pid;

	(void)rest;
	ticks(1);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, 1, 70);
	posix_spawn_file_actions_addclose(&actions, 0);
	for (long i = 0; i < count; i++) {
		must(!posix_spawn(&pid, self, &actions, NULL, words("ticks", "3"), environ),
		     "posix_spawn");
		waitpid(pid, &status, 0);
		failed += status != 0;
		tick();
	}
	printf("%d failed, then %s\n", failed,
	       strerror(posix_spawn(&pid, "/nowhere", NULL, NULL, words("ticks", "3"), environ)));
	return failed != 0;
}

static int run_system(long count, char **rest)
{
	char command[9000], line[64] = "";
	int failed = 0;
	FILE *pipe;

	(void)rest;
	ticks(1);
	snprintf(command, sizeof(command), "'%s' '%s' ticks 3", self, directory);
	for (long i = 0; i < count; i++) {
		failed += system(command) != 0;
		pipe = popen(command, "r");
		failed += !fgets(line, sizeof(line), pipe) || pclose(pipe) != 0;
		tick();
	}
	printf("%d failed, popen said %s", failed, line);
	return failed != 0;
}

/* daemon() by a child: its own parent leaves by _exit, it closes 0 to 2, and nobody waits for it but
 * by the end of a pipe. */
static int run_daemon(long count, char **rest)
{
	int end[2];
	char byte;

	(void)rest;
	ticks(2);
	must(!pipe(end), "pipe");
	for (long i = 0; i < count; i++)
		if (!fork()) {
			tick();
			must(!daemon(i % 2, 0), "daemon");
			ticks(CHILD_TICKS);
			exit(0);
		}
	wait_all();
	close(end[1]);
	printf("the pipe ends: %zd\n", read(end[0], &byte, 1));
	return 0;
}

/* Thousands, dozens at a time. */
static int run_fork_storm(long count, char **rest)
{
	int status, failed = 0, alive = 0;

	(void)rest;
	tick();
	for (long i = 0; i < count || alive; i++) {
		if (alive == 32 || i >= count) {
			must(wait(&status) > 0, "wait");
			failed += status != 0;
			alive--;
		}
		if (i >= count)
			continue;
		if (!fork()) {
			tick();
			_exit(0);
		}
		alive++;
	}
	printf("%d failed\n", failed);
	return failed != 0;
}

static int run_fork_nested(long count, char **rest)
{
	int status = 0;

	(void)rest;
	ticks(CHILD_TICKS);
	if (count <= 1)
		return 0;
	fflush(stdout);
	if (!fork())
		exit(run_fork_nested(count - 1, rest));
	wait(&status);
	tick();
	return status != 0;
}

/* Children that leave by exit, and have an exit handler and threads of their own. */
static int run_fork_exit(long count, char **rest)
{
	(void)rest;
	tick();
	for (long i = 0; i < count; i++) {
		if (!fork()) {
			atexit(tick);
			start_tickers(2, 5);
			usleep(2000);
			stop_tickers();
			exit(0);
		}
		must(wait_all() == 0, "child");
	}
	return 0;
}

static int run_fork_threads(long count, char **rest)
{
	int failed;

	(void)rest;
	start_tickers(4, 4000);
	failed = children(count, fork);
	stop_tickers();
	return failed;
}

static void *fork_some(void *arg)
{
	long count = (long)(intptr_t)arg;
	int status;

	for (long i = 0; i < count; i++) {
		pid_t pid = fork();

		must(pid >= 0, "fork");
		if (!pid) {
			ticks(CHILD_TICKS);
			_exit(0);
		}
		tick();
		waitpid(pid, &status, 0);
		must(status == 0, "child");
	}
	return NULL;
}

static int run_fork_from_threads(long count, char **rest)
{
	pthread_t thread[4];

	(void)rest;
	start_tickers(2, 2000);
	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, fork_some, (void *)(intptr_t)(count / 4));
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	stop_tickers();
	return 0;
}

static atomic_int churning;

static void *churn_memory(void *unused)
{
	(void)unused;
	while (atomic_load(&churning)) {
		free(malloc(20000));
		free(calloc(1, 3000));
	}
	return NULL;
}

/* Nobody resets malloc's locks in such a child: it may do what a handler may, and we no more. */
static int forks_past_libc(long count, pid_t (*make)(void))
{
	pthread_t thread[4];
	int failed;

	atomic_store(&churning, 1);
	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, churn_memory, NULL);
	start_tickers(1, 3000);
	failed = children(count, make);
	stop_tickers();
	atomic_store(&churning, 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	return failed;
}

static int run_fork_raw_threads(long count, char **rest)
{
	(void)rest;
	return forks_past_libc(count, raw_fork);
}

static int run__Fork_threads(long count, char **rest)
{
	(void)rest;
	return forks_past_libc(count, _Fork);
}

/* Such a child that goes on to more than a ring holds. */
static int run_fork_raw_long(long count, char **rest)
{
	int status;
	pid_t pid;

	(void)rest;
	start_tickers(2, 1000);
	pid = raw_fork();
	if (!pid) {
		ticks(count);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	stop_tickers();
	printf("status %d\n", status);
	return status != 0;
}

/* How long one fork takes whose child does one traced call: "ms" goes to the runner's eyes only. */
static int run_fork_cost(long count, char **rest)
{
	struct timespec start, end;
	FILE *out;
	char path[4200];
	int status, failed = 0;

	(void)rest;
	tick();
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (long i = 0; i < count; i++) {
		pid_t pid = fork();

		must(pid >= 0, "fork");
		if (!pid) {
			tick();
			_exit(0);
		}
		waitpid(pid, &status, 0);
		failed += status != 0;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	snprintf(path, sizeof(path), "%s/cost", directory);
	out = fopen(path, "w");
	fprintf(out, "%.4f\n",
		((double)(end.tv_sec - start.tv_sec) * 1e3 +
		 (double)(end.tv_nsec - start.tv_nsec) / 1e6) /
			(double)count);
	fclose(out);
	return failed != 0;
}

/* ---- exec ---- */

static int run_ticks(long count, char **rest)
{
	(void)rest;
	ticks(count);
	printf("%ld ticks\n", count);
	return 0;
}

static int run_exec_chain(long count, char **rest)
{
	char number[32];

	(void)rest;
	ticks(CHILD_TICKS);
	if (count <= 1)
		return 0;
	snprintf(number, sizeof(number), "%ld", count - 1);
	switch (count % 5) {
	case 0:
		execl(self, self, directory, "exec-chain", number, (char *)NULL);
		break;
	case 1:
		execle(self, self, directory, "exec-chain", number, (char *)NULL, environ);
		break;
	case 2:
		execlp(self, self, directory, "exec-chain", number, (char *)NULL);
		break;
	case 3:
		fexecve(open(self, O_RDONLY | O_CLOEXEC), words("exec-chain", number), environ);
		break;
	default:
		execv(self, words("exec-chain", number));
	}
	return 1;
}

static int run_exec_fails(long count, char **rest)
{
	const char *volatile nowhere = (const char *)8;
	char *none[] = { NULL };

	(void)rest;
	for (long i = 0; i < count; i++) {
		int results[4];

		tick();
		results[0] = execv("/nowhere/at/all", none) ? errno : 0;
		results[1] = execv("/etc/passwd", none) ? errno : 0;
		results[2] = execv("/etc/", none) ? errno : 0;
		results[3] = execv(nowhere, none) ? errno : 0;
		tick();
		if (!i)
			printf("%d %d %d %d\n", results[0], results[1], results[2], results[3]);
	}
	return 0;
}

/* Nobody is told to trace: what comes then is not ours to see. */
static int run_unwitnessed(long count, char **rest)
{
	(void)rest;
	for (char **at = environ; *at; at++)
		printf("%s\n", *at);
	while (count-- > 0)
		unwitnessed();
	return 0;
}

static int run_exec_clean(long count, char **rest)
{
	char *none[] = { "LC_ALL=C", NULL };

	(void)rest;
	ticks(count);
	execve(self, words("unwitnessed", "3"), none);
	return 1;
}

static void *exec_here(void *unused)
{
	(void)unused;
	usleep(5000);
	execv(self, words("ticks", "3"));
	return NULL;
}

/* By another thread than the first, while others are at work: they vanish in the middle of it. */
static int run_exec_thread(long count, char **rest)
{
	pthread_t thread;
	int status, failed = 0;

	(void)rest;
	for (long i = 0; i < count; i++) {
		if (!fork()) {
			start_tickers(3, 1000);
			pthread_create(&thread, NULL, exec_here, NULL);
			pause();
		}
		wait(&status);
		failed += status != 0;
	}
	printf("%d failed\n", failed);
	return failed != 0;
}

/* Processes that all begin at the same moment, with the same trace name. */
static int run_crowd(long count, char **rest)
{
	char rank[32], size[32];
	int gate[2], failed;
	char byte;

	must(!pipe(gate), "pipe");
	snprintf(size, sizeof(size), "%ld", count);
	for (long i = 0; i < count; i++) {
		if (fork())
			continue;
		close(gate[1]);
		if (rest[0]) {
			snprintf(rank, sizeof(rank), "%ld", i);
			setenv("RANK", rank, 1);
			setenv("WORLD_SIZE", size, 1);
			setenv("LOCAL_RANK", rank, 1);
		}
		must(read(gate[0], &byte, 1) == 0, "gate");
		execv(self, words("ticks", "3"));
		_exit(1);
	}
	close(gate[0]);
	close(gate[1]);
	failed = wait_all();
	return failed != 0;
}

/* The same pid again and again: in a pid namespace of our own, the next one can be chosen. */
static int run_pid_again(long count, char **rest)
{
	int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
	pid_t first = 0;
	long same = 0;

	(void)rest;
	must(fd >= 0, "ns_last_pid");
	tick();
	for (long i = 0; i < count; i++) {
		pid_t pid;

		must(pwrite(fd, "700", 3, 0) == 3, "ns_last_pid");
		pid = fork();
		if (!pid) {
			ticks(CHILD_TICKS);
			_exit(0);
		}
		must(waitpid(pid, NULL, 0) == pid, "wait");
		first = first ? first : pid;
		same += pid == first;
	}
	printf("%ld of %ld had the same pid\n", same, count);
	return 0;
}

const struct mode fork_modes[] = {
	{ "fork", run_fork },
	{ "fork-first", run_fork_first },
	{ "fork-raw", run_fork_raw },
	{ "_Fork", run__Fork },
	{ "clone", run_clone },
	{ "vfork", run_vfork },
	{ "vfork-exec", run_vfork_exec },
	{ "spawn", run_spawn },
	{ "system", run_system },
	{ "daemon", run_daemon },
	{ "fork-storm", run_fork_storm },
	{ "fork-nested", run_fork_nested },
	{ "fork-exit", run_fork_exit },
	{ "fork-threads", run_fork_threads },
	{ "fork-from-threads", run_fork_from_threads },
	{ "fork-raw-threads", run_fork_raw_threads },
	{ "_Fork-threads", run__Fork_threads },
	{ "fork-raw-long", run_fork_raw_long },
	{ "fork-cost", run_fork_cost },
	{ "ticks", run_ticks },
	{ "exec-chain", run_exec_chain },
	{ "exec-fails", run_exec_fails },
	{ "exec-clean", run_exec_clean },
	{ "exec-thread", run_exec_thread },
	{ "unwitnessed", run_unwitnessed },
	{ "crowd", run_crowd },
	{ "pid-again", run_pid_again },
	{ NULL, NULL },
};
