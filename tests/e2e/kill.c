/* kill.c - a program to be killed: its threads read and open spans, and tell a witness after each.
 *
 * usage: kill WITNESS DATA THREADS COUNT END
 *
 * Each thread reads DATA through libc's pread; the offset of its n-th read is thread << 24 | n, so
 * the trace says exactly which reads it has.  Every fourth read is followed by a span, which
 * has its number as an argument.  When a call has returned, the thread stores how many have in WITNESS (two 64-bit figures
 * a thread: reads, spans), a file mapped shared: what is stored there outlives SIGKILL.
 *
 * END "loop": go on for ever, in bursts of COUNT reads.  "churn": the same, each burst in a thread of
 * its own.  "signals": the same, while a handler interrupts the first thread wherever it is, and
 * reads as if it were thread number THREADS.  "behind": the first thread calls quick_exit after COUNT
 * reads, the others go on.  Else each thread does COUNT reads and the program ends
 * well by "return", "exit", "_exit", "quick_exit" or "exec" (of /bin/true), or badly by "abort",
 * "segv", "term" or "exit_group" (the system call).
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "pfw/pfw.h"

#define THREADS_MAX 64
#define SPAN_EVERY 4
#define ENOUGH 1000000u /* so that a target nobody kills does not fill the disk */

struct witness {
	_Atomic uint64_t reads;
	_Atomic uint64_t spans;
};

/* What is done under one number: by one thread, or by several one after the other. */
struct worker {
	uint64_t number;
	uint64_t reads, spans;
};

static struct witness *witness;
static struct worker worker[THREADS_MAX];
static int data_fd;
static uint64_t count;
static int forever, churn, behind;

/* A record of one slot, or of several: the length goes round. */
static void one_span(struct worker *self)
{
	static const char text[] = "0123456789012345678901234567890123456789"
				   "0123456789012345678901234567890123456789";
	struct pfw_span span;

	pfw_span_begin(&span, "step", "kill");
	pfw_span_arg_int(&span, "n", (int64_t)(self->number << 24 | self->spans));
	pfw_span_arg_str(&span, "text", text + self->spans % sizeof(text));
	pfw_span_end(&span);
	self->spans++;
	atomic_store_explicit(&witness[self->number].spans, self->spans, memory_order_release);
}

/* Safe in a signal handler. */
static void one_read(struct worker *self)
{
	off_t at = (off_t)(self->number << 24 | self->reads);
	char buf[8];

	if (pread(data_fd, buf, sizeof(buf), at) != (ssize_t)sizeof(buf))
		_exit(3);
	self->reads++;
	atomic_store_explicit(&witness[self->number].reads, self->reads, memory_order_release);
}

static void burst(struct worker *self)
{
	for (uint64_t i = 0; i < count; i++) {
		one_read(self);
		if (self->reads % SPAN_EVERY == 0)
			one_span(self);
	}
}

static void *work(void *arg)
{
	struct worker *self = arg;
	pthread_t next;

	do {
		burst(self);
		if (forever)
			usleep(3000); /* the rings run dry, or their threads catch their breath */
		while (forever && self->reads >= ENOUGH)
			pause();
	} while (forever && !churn && !(behind && !self->number));
	if (churn && (pthread_create(&next, NULL, work, self) || pthread_detach(next)))
		_exit(4);
	return NULL;
}

static void interrupt(int number)
{
	int kept = errno;

	(void)number;
	one_read(&worker[THREADS_MAX - 1]);
	errno = kept;
}

/* Interrupt the first thread, and no other, every 100 µs. */
static void start_signals(uint64_t threads)
{
	struct sigaction action = { .sa_handler = interrupt, .sa_flags = SA_RESTART };
	struct itimerval often = { { 0, 100 }, { 0, 100 } };

	worker[THREADS_MAX - 1].number = threads;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
}

static void run_threads(uint64_t threads, int signals)
{
	pthread_t thread[THREADS_MAX];
	sigset_t alarm;

	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm, NULL);
	for (uint64_t i = 0; i < threads; i++)
		worker[i].number = i;
	for (uint64_t i = 1; i < threads; i++)
		if (pthread_create(&thread[i], NULL, work, &worker[i]))
			_exit(4);
	if (signals)
		start_signals(threads);
	pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
	work(&worker[0]);
	if (behind)
		quick_exit(0); /* in which a test's handler stays */
	if (churn)
		pthread_exit(NULL); /* the process goes on */
	for (uint64_t i = 1; i < threads; i++)
		pthread_join(thread[i], NULL);
}

static int end_by(const char *end)
{
	char *argv[] = { "true", NULL };

	if (!strcmp(end, "exit"))
		exit(0);
	if (!strcmp(end, "_exit"))
		_exit(0);
	if (!strcmp(end, "quick_exit"))
		quick_exit(0);
	if (!strcmp(end, "exec")) {
		execv("/bin/true", argv);
		return 5;
	}
	if (!strcmp(end, "abort"))
		abort();
	if (!strcmp(end, "segv"))
		raise(SIGSEGV);
	if (!strcmp(end, "term"))
		raise(SIGTERM);
	if (!strcmp(end, "exit_group"))
		syscall(SYS_exit_group, 0);
	return strcmp(end, "return") ? 6 : 0;
}

int main(int argc, char **argv)
{
	uint64_t threads = argc == 6 ? strtoull(argv[3], NULL, 10) : 0;
	int witness_fd, signals;

	if (!threads || threads >= THREADS_MAX) {
		fprintf(stderr, "usage: kill WITNESS DATA THREADS COUNT END\n");
		return 2;
	}
	count = strtoull(argv[4], NULL, 10);
	signals = !strcmp(argv[5], "signals");
	churn = !strcmp(argv[5], "churn");
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* one that runs for ever must not outlive its test */
	behind = !strcmp(argv[5], "behind");
	forever = signals || churn || behind || !strcmp(argv[5], "loop");
	witness_fd = open(argv[1], O_RDWR);
	data_fd = open(argv[2], O_RDONLY);
	witness = mmap(NULL, THREADS_MAX * sizeof(*witness), PROT_READ | PROT_WRITE, MAP_SHARED,
		       witness_fd, 0);
	if (data_fd < 0 || witness == MAP_FAILED) {
		perror("kill");
		return 2;
	}
	run_threads(threads, signals);
	return end_by(argv[5]);
}
