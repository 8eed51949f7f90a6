/* ends.c - every way in which a process may end. */
#include "torture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void *exit_here(void *unused)
{
	(void)unused;
	ticks(2);
	exit(5);
}

static void *last_ticks(void *unused)
{
	(void)unused;
	usleep(20000); /* main is gone by now */
	ticks(10);
	printf("a line that waits for exit"); /* main's threads are gone: that is one */
	return NULL;
}

static void main_leaves(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, last_ticks, NULL);
	pthread_exit(NULL);
}

static void from_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, exit_here, NULL);
	pthread_join(thread, NULL);
}

static void late_ticks(void)
{
	ticks(4);
}

static void by_raw_exit(void)
{
	syscall(SYS_exit, 5);
}

static void by_raw_exit_group(void)
{
	syscall(SYS_exit_group, 5);
}

static void by_exit(void)
{
	exit(5);
}

static void by__exit(void)
{
	_exit(5);
}

static void by__Exit(void)
{
	_Exit(5);
}

static void by_quick_exit(void)
{
	at_quick_exit(late_ticks);
	quick_exit(5);
}

static void by_atexit(void)
{
	atexit(late_ticks);
	exit(5);
}

static void by_return(void)
{
}

static const struct {
	const char *name;
	void (*how)(void);
} ends[] = {
	{ "return", by_return },
	{ "exit", by_exit },
	{ "_exit", by__exit },
	{ "_Exit", by__Exit },
	{ "quick_exit", by_quick_exit },
	{ "raw-exit", by_raw_exit },
	{ "raw-exit_group", by_raw_exit_group },
	{ "abort", abort },
	{ "pthread_exit", main_leaves },
	{ "exit-in-thread", from_thread },
	{ "atexit", by_atexit },
};

static int run_end(long count, char **rest)
{
	ticks(count);
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		if (!strcmp(ends[i].name, rest[0])) {
			ends[i].how();
			return 0;
		}
	return 93;
}

/* ---- signals that end a process ---- */

static void tick_and_die(int number)
{
	ticks(3);
	signal(number, SIG_DFL);
	raise(number);
}

static void tick_and_leave(int number)
{
	ticks(3);
	_exit(number);
}

/* signal COUNT NUMBER default|handled|left */
static int run_signal(long count, char **rest)
{
	int number = atoi(rest[0]);
	sigset_t set;

	ticks(count);
	if (strcmp(rest[1], "default"))
		signal(number, strcmp(rest[1], "left") ? tick_and_die : tick_and_leave);
	kill(getpid(), number);
	sigemptyset(&set);
	for (int i = 0; i < 100; i++)
		usleep(10000); /* it must come */
	return 94;
}

static int overflow(volatile char *above);
static int (*volatile deeper)(volatile char *) = overflow;

static int overflow(volatile char *above)
{
	volatile char frame[4096];

	frame[0] = above ? above[0] : 1;
	return deeper(frame) + frame[0];
}

static int run_stack_overflow(long count, char **rest)
{
	static char other[64 << 10];
	stack_t stack = { .ss_sp = other, .ss_size = sizeof(other) };
	struct sigaction action = { .sa_handler = tick_and_leave, .sa_flags = SA_ONSTACK };

	ticks(count);
	if (rest[0]) {
		sigaltstack(&stack, NULL);
		sigaction(SIGSEGV, &action, NULL);
	}
	return overflow(NULL);
}

/* The reader is gone: SIGPIPE kills, or is ignored and the call says EPIPE. */
static int run_pipe_broken(long count, char **rest)
{
	int end[2];

	ticks(count);
	must(!pipe(end), "pipe");
	close(end[0]);
	if (rest[0])
		signal(SIGPIPE, SIG_IGN);
	printf("%zd", write(end[1], "x", 1));
	printf(" %d\n", errno);
	ticks(1);
	return 0;
}

/* ---- races ---- */

static void by_sigkill(void)
{
	kill(getpid(), SIGKILL);
}

static void by_sigterm(void)
{
	raise(SIGTERM);
}

static void by_exec(void)
{
	execl(self, self, directory, "ticks", "1", (char *)NULL);
}

static void by_threads_end(void)
{
	stop_tickers();
	pthread_exit(NULL);
}

static void (*const ways[])(void) = {
	by_exit,    by_exit,	by__exit, by_quick_exit, by_raw_exit_group, abort,
	by_sigkill, by_sigterm, by_exec,  from_thread,	 by_threads_end,
};

/* A child's end at a random moment, by a random way, while its threads are at work. */
static void race(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	start_tickers(3, 1500);
	usleep(random_below(3000));
	ways[random_below(sizeof(ways) / sizeof(*ways))]();
	exit(0);
}

static int run_exit_races(long count, char **rest)
{
	(void)rest;
	tick();
	for (long i = 0; i < count; i++) {
		pid_t pid = fork();

		must(pid >= 0, "fork");
		random_below(1 + (unsigned)i % 7); /* another sequence in each child */
		if (!pid)
			race();
		must(waitpid(pid, NULL, 0) == pid, "wait");
	}
	return 0;
}

/* One process, to be killed by somebody else: its threads tick for ever, or it sits there idle. */
static int run_busy(long count, char **rest)
{
	(void)rest;
	start_tickers(3, count);
	for (;;)
		pause();
	return 0;
}

static int run_idle(long count, char **rest)
{
	(void)rest;
	ticks(count);
	for (;;)
		pause();
	return 0;
}

const struct mode end_modes[] = {
	{ "end", run_end },
	{ "signal", run_signal },
	{ "stack-overflow", run_stack_overflow },
	{ "pipe-broken", run_pipe_broken },
	{ "exit-races", run_exit_races },
	{ "busy", run_busy },
	{ "idle", run_idle },
	{ NULL, NULL },
};
