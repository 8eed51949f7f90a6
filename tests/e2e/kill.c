/* kill.c - a program to be killed: its threads read and open spans, and tell a witness after each.
 *
 * usage: kill WITNESS DATA THREADS COUNT END
 *
 * Each thread reads DATA through libc's pread; the offset of its n-th read is thread << 32 | n, so
 * the trace says exactly which reads it has.  Every fourth read is followed by a span with the same
 * number.  When a call has returned, the thread stores how many have in WITNESS (two 64-bit figures
 * a thread: reads, spans), a file mapped shared: what is stored there outlives SIGKILL.
 *
 * END "loop": go on for ever, in bursts of COUNT reads.  Else each thread does COUNT reads and the
 * program ends well by "return", "exit", "_exit", "quick_exit" or "exec" (of /bin/true), or badly by
 * "abort", "segv", "term" or "exit_group" (the system call).
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
#include <sys/syscall.h>
#include <unistd.h>

#include "pfw/pfw.h"

#define THREADS_MAX 64
#define SPAN_EVERY 4

struct witness {
	_Atomic uint64_t reads;
	_Atomic uint64_t spans;
};

static struct witness *witness;
static int data_fd;
static uint64_t count;
static int forever;

/* A record of one slot, or of several: the length goes round. */
static void one_span(struct witness *mine, uint64_t thread, uint64_t n)
{
	static const char text[] = "0123456789012345678901234567890123456789"
				   "0123456789012345678901234567890123456789";
	struct pfw_span span;

	pfw_span_begin(&span, "step", "kill");
	pfw_span_arg_int(&span, "n", (int64_t)(thread << 32 | n));
	pfw_span_arg_str(&span, "text", text + n % sizeof(text));
	pfw_span_end(&span);
	atomic_store_explicit(&mine->spans, n + 1, memory_order_release);
}

static void *work(void *arg)
{
	uint64_t thread = (uint64_t)(uintptr_t)arg, spans = 0;
	struct witness *mine = &witness[thread];
	char buf[8];

	for (uint64_t n = 0; forever || n < count; n++) {
		off_t at = (off_t)(thread << 32 | n);

		if (pread(data_fd, buf, sizeof(buf), at) != (ssize_t)sizeof(buf)) {
			fprintf(stderr, "kill: pread at %lld: %s\n", (long long)at,
				strerror(errno));
			_exit(3);
		}
		atomic_store_explicit(&mine->reads, n + 1, memory_order_release);
		if (n % SPAN_EVERY == SPAN_EVERY - 1)
			one_span(mine, thread, spans++);
		if (forever && n % count == count - 1)
			usleep(3000); /* the rings run dry, or their threads catch their breath */
	}
	return NULL;
}

static void run_threads(uint64_t threads)
{
	pthread_t thread[THREADS_MAX];

	for (uint64_t i = 1; i < threads; i++)
		if (pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)i))
			_exit(4);
	work(NULL);
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
	int witness_fd;

	if (!threads || threads > THREADS_MAX) {
		fprintf(stderr, "usage: kill WITNESS DATA THREADS COUNT END\n");
		return 2;
	}
	count = strtoull(argv[4], NULL, 10);
	forever = !strcmp(argv[5], "loop");
	witness_fd = open(argv[1], O_RDWR);
	data_fd = open(argv[2], O_RDONLY);
	witness = mmap(NULL, THREADS_MAX * sizeof(*witness), PROT_READ | PROT_WRITE, MAP_SHARED,
		       witness_fd, 0);
	if (data_fd < 0 || witness == MAP_FAILED) {
		perror("kill");
		return 2;
	}
	run_threads(threads);
	return end_by(argv[5]);
}
