/* schedule_target.c - a loop that says pfw_step(), for test_schedule.
 *
 * Arguments, done in their order:
 *   steps N         N times: read the file that was opened first, "work" as an API span, pfw_step()
 *   named N NAME    N times: an API span named after NAME, with its number for %ld, and in it the same
 *                   without pfw_step()
 *   threads N       from now on, so many threads read it all the time
 *   hook            say when the trace is ready: one line for each call
 *   schedule a,...  pfw_set_schedule() with skip_first,wait,warmup,active,repeat,skip_first_wait,
 *                   discard_warmup
 *   record          pfw_set_schedule(NULL)
 *   fork            a child that reads it, and calls pfw_step() too
 *   exec PATH       of a program; it goes on where that fails
 *   sleep MS, stop, start, kill, _exit
 *   hang            exit in another thread than that whose hook never ends
 */
#include <pfw/pfw.h>

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int file;
static _Atomic int hanging;
static long step; /* the number of the step that is open */

static void work(void)
{
	struct pfw_span span;
	char byte;

	pfw_span_begin(&span, "work", "app");
	pfw_span_arg_int(&span, "n", step);
	if (pread(file, &byte, 1, step) < 0)
		exit(4);
	pfw_span_end(&span);
}

static void named(long n, const char *name)
{
	struct pfw_span span;
	char text[100];

	for (; n > 0; n--) {
		snprintf(text, sizeof(text), name, step);
		pfw_span_begin(&span, text, "app");
		work();
		pfw_span_end(&span);
		step++;
	}
}

static void *reader(void *unused)
{
	char byte;

	(void)unused;
	for (;;)
		if (pread(file, &byte, 1, 0) < 0)
			exit(4);
	return NULL;
}

static void ready(const struct pfw_segment *segment, void *user)
{
	printf("ready %ld %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
	       " %s\n",
	       step, segment->step, segment->cycle, segment->first_step, segment->steps,
	       segment->first_id, segment->last_id, segment->path);
	fflush(stdout);
	access("data", R_OK);
	if (hanging) {
		atomic_store(&hanging, 2);
		for (;;)
			pause();
	}
	if (strcmp(user, "user") || !pfw_step || pfw_step() == 0)
		printf("wrong\n");
}

static void set_schedule(const char *text)
{
	struct pfw_schedule s = { 0 };

	sscanf(text, "%u,%u,%u,%u,%u,%d,%d", &s.skip_first, &s.wait, &s.warmup, &s.active,
	       &s.repeat, &s.skip_first_wait, &s.discard_warmup);
	printf("schedule %d\n", pfw_set_schedule(&s));
	step = 0;
}

static void fork_child(void)
{
	pid_t child = fork();

	if (!child) {
		work();
		exit(pfw_step() != 0);
	}
	int status;
	if (waitpid(child, &status, 0) != child || status)
		printf("child: %d\n", status);
}

static void *steps(void *unused)
{
	(void)unused;
	for (;;)
		pfw_step();
	return NULL;
}

static void hang(void)
{
	pthread_t thread;

	atomic_store(&hanging, 1);
	pthread_create(&thread, NULL, steps, NULL);
	while (atomic_load(&hanging) != 2)
		usleep(1000);
	exit(0);
}

static int one(char **arg)
{
	pthread_t thread;

	if (!strcmp(*arg, "steps")) {
		for (long n = atol(arg[1]); n > 0; n--) {
			work();
			step++;
			pfw_step();
		}
		return 2;
	}
	if (!strcmp(*arg, "named")) {
		named(atol(arg[1]), arg[2]);
		return 3;
	}
	if (!strcmp(*arg, "threads")) {
		for (long n = atol(arg[1]); n > 0; n--)
			pthread_create(&thread, NULL, reader, NULL);
		return 2;
	}
	if (!strcmp(*arg, "schedule")) {
		set_schedule(arg[1]);
		return 2;
	}
	if (!strcmp(*arg, "sleep")) {
		usleep(1000 * (useconds_t)atol(arg[1]));
		return 2;
	}
	if (!strcmp(*arg, "exec")) {
		execl(arg[1], arg[1], (char *)NULL);
		return 2;
	}
	if (!strcmp(*arg, "hook"))
		pfw_on_trace_ready(ready, "user");
	else if (!strcmp(*arg, "record"))
		pfw_set_schedule(NULL);
	else if (!strcmp(*arg, "fork"))
		fork_child();
	else if (!strcmp(*arg, "stop"))
		pfw_stop();
	else if (!strcmp(*arg, "start"))
		pfw_start(NULL);
	else if (!strcmp(*arg, "hang"))
		hang();
	else if (!strcmp(*arg, "_exit"))
		_exit(0);
	else if (!strcmp(*arg, "kill"))
		raise(SIGKILL);
	else
		exit(5);
	return 1;
}

int main(int argc, char **argv)
{
	(void)argc;
	file = open("data", O_RDONLY);
	if (file < 0)
		return 3;
	for (char **arg = argv + 1; *arg;)
		arg += one(arg);
	fflush(stdout);
	return 0;
}
