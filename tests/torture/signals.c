/* signals.c - handlers that do I/O, wherever they come: in a probe, in malloc, in each other. */
#include "torture.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t handled;

static void tick_in_handler(int number)
{
	(void)number;
	tick();
	handled++;
}

static void handle(int number, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	sigaction(number, &action, NULL);
}

static void every_us(long us)
{
	struct itimerval often = { { 0, us }, { 0, us } };

	setitimer(ITIMER_REAL, &often, NULL);
}

static void once_in_us(long us)
{
	struct itimerval once = { { 0, 0 }, { 0, us } };

	setitimer(ITIMER_REAL, &once, NULL);
}

/* One thread, interrupted wherever it is. */
static int run_storm(long count, char **rest)
{
	handle(SIGALRM, tick_in_handler, SA_RESTART | (rest[0] ? SA_NODEFER : 0));
	every_us(100);
	while (handled < count)
		tick();
	every_us(0);
	return 0;
}

static atomic_int storming;

static void *stormed(void *unused)
{
	while (atomic_load(&storming))
		tick();
	return unused;
}

static int run_storm_threads(long count, char **rest)
{
	pthread_t thread[4];

	(void)rest;
	handle(SIGUSR1, tick_in_handler, SA_RESTART);
	atomic_store(&storming, 1);
	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, stormed, NULL);
	for (long i = 0; i < count; i++) {
		pthread_kill(thread[i % 4], SIGUSR1);
		usleep(50);
	}
	atomic_store(&storming, 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	return 0;
}

static void *sits(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void *allocates(void *unused)
{
	while (!handled) {
		free(malloc(1500 + random_below(30000)));
		free(calloc(1, 2000));
	}
	return unused;
}

static sigset_t only(int number)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, number);
	return set;
}

/* The first event of a process, in a handler that has interrupted malloc: nothing that the tracer
 * does now may need malloc, or a lock that the interrupted thread, or one that waits for it, holds. */
static void first_in_handler(void)
{
	sigset_t alarm = only(SIGALRM);
	pthread_t thread;

	pthread_sigmask(SIG_BLOCK, &alarm, NULL);
	pthread_create(&thread, NULL, sits, NULL); /* malloc takes locks from now on */
	pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
	handle(SIGALRM, tick_in_handler, SA_RESTART);
	once_in_us(50 + (long)random_below(300));
	allocates(NULL);
	_exit(0);
}

static int run_first_in_handler(long count, char **rest)
{
	int failed = 0;

	(void)rest;
	for (long i = 0; i < count; i++) {
		random_below(2);
		if (!fork())
			first_in_handler();
		failed += wait_all();
	}
	printf("%d failed\n", failed);
	return failed != 0;
}

/* All events of a process are in handlers: more than a ring holds. */
static int run_only_in_handlers(long count, char **rest)
{
	pthread_t thread;

	(void)rest;
	pthread_create(&thread, NULL, sits, NULL);
	handle(SIGUSR1, tick_in_handler, SA_RESTART);
	while (handled < count)
		raise(SIGUSR1);
	return 0;
}

static sigjmp_buf back;

static void jump_out(int number)
{
	(void)number;
	tick();
	handled++;
	siglongjmp(back, 1);
}

static int run_longjmp(long count, char **rest)
{
	(void)rest;
	handle(SIGALRM, jump_out, 0);
	every_us(100);
	sigsetjmp(back, 1);
	while (handled < count)
		tick();
	every_us(0);
	return 0;
}

static int run_altstack(long count, char **rest)
{
	char *memory =
		mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t stack = { .ss_sp = memory + 4096, .ss_size = 8192 };

	(void)rest;
	mprotect(memory, 4096, PROT_NONE); /* who needs more dies here */
	must(!sigaltstack(&stack, NULL), "sigaltstack");
	handle(SIGUSR1, tick_in_handler, SA_ONSTACK);
	while (handled < count)
		raise(SIGUSR1);
	return 0;
}

static atomic_int taken; /* signals that the thread has had: a second one of a kind is none */

static void *waits_for_signals(void *arg)
{
	sigset_t set = only(SIGUSR1);
	int number;

	for (long i = 0; i < (long)(intptr_t)arg; i++) {
		must(!sigwait(&set, &number) && number == SIGUSR1, "sigwait");
		tick();
		atomic_fetch_add(&taken, 1);
	}
	return NULL;
}

/* A signal that all threads block is for the one that waits for it: a thread of ours must not. */
static int run_sigwait(long count, char **rest)
{
	sigset_t set = only(SIGUSR1);
	pthread_t thread;

	(void)rest;
	sigprocmask(SIG_BLOCK, &set, NULL);
	handle(SIGUSR1, tick_in_handler, 0);
	tick();
	pthread_create(&thread, NULL, waits_for_signals, (void *)(intptr_t)count);
	for (long i = 0; i < count; i++) {
		tick();
		kill(getpid(), SIGUSR1);
		while (atomic_load(&taken) == i && !handled)
			usleep(100);
	}
	pthread_join(thread, NULL);
	printf("%d went to the handler\n", (int)handled);
	return 0;
}

static int run_eintr(long count, char **rest)
{
	int end[2], interrupted = 0;
	char byte;

	(void)rest;
	must(!pipe(end), "pipe");
	handle(SIGALRM, tick_in_handler, 0);
	for (long i = 0; i < count; i++) {
		once_in_us(1000);
		interrupted += read(end[0], &byte, 1) < 0 && errno == EINTR;
	}
	printf("%d of %ld interrupted\n", interrupted, count);
	return 0;
}

static void fork_in_handler(int number)
{
	(void)number;
	tick();
	if (!_Fork()) {
		ticks(2);
		_exit(0);
	}
	handled++;
}

static int run_fork_in_handler(long count, char **rest)
{
	(void)rest;
	handle(SIGALRM, fork_in_handler, SA_RESTART);
	every_us(3000);
	while (handled < count)
		tick();
	every_us(0);
	printf("%d failed\n", wait_all());
	return 0;
}

static void leave_in_handler(int number)
{
	(void)number;
	tick();
	_exit(0);
}

/* _exit in a handler that has interrupted malloc, in a process that has a trace. */
static int run_exit_in_handler(long count, char **rest)
{
	int failed = 0;

	(void)rest;
	for (long i = 0; i < count; i++) {
		random_below(2);
		if (!fork()) {
			start_tickers(1, 200);
			handle(SIGALRM, leave_in_handler, 0);
			once_in_us(50 + (long)random_below(2000));
			allocates(NULL);
		}
		failed += wait_all();
	}
	printf("%d failed\n", failed);
	return failed != 0;
}

/* The child does I/O until the pipe is closed at its other end. */
static void tick_until_closed(const int ends[2])
{
	char none;

	close(ends[1]);
	start_tickers(2, 3000);
	must(read(ends[0], &none, 1) == 0, "read of a pipe");
	stop_tickers();
	exit(0);
}

static int run_stop(long count, char **rest)
{
	int status, ends[2];
	pid_t pid;

	(void)rest;
	for (long i = 0; i < count; i++) {
		must(pipe(ends) == 0, "pipe");
		pid = fork();
		if (!pid)
			tick_until_closed(ends);
		close(ends[0]);
		for (int n = 0; n < 5; n++) {
			usleep(random_below(5000));
			kill(pid, SIGSTOP);
			must(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status), "stop");
			usleep(random_below(3000));
			kill(pid, SIGCONT);
		}
		usleep(100000);
		close(ends[1]);
		must(waitpid(pid, &status, 0) == pid && !status, "end");
	}
	return 0;
}

const struct mode signal_modes[] = {
	{ "storm", run_storm },
	{ "storm-threads", run_storm_threads },
	{ "first-in-handler", run_first_in_handler },
	{ "only-in-handlers", run_only_in_handlers },
	{ "longjmp", run_longjmp },
	{ "altstack", run_altstack },
	{ "sigwait", run_sigwait },
	{ "eintr", run_eintr },
	{ "fork-in-handler", run_fork_in_handler },
	{ "exit-in-handler", run_exit_in_handler },
	{ "stop", run_stop },
	{ NULL, NULL },
};
