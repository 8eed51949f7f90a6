/* running_target.c - programs that run already when test_attach_running.py attaches to them.
 *
 * running_target MODE FILE [N]: until SIGTERM, do what the mode says and check each result; then
 * print "N ok" or what was wrong.  The mode `count` makes N numbered writes into FILE.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#ifdef __clang__
#define OPAQUE __attribute__((noinline, optnone))
#else
#define OPAQUE __attribute__((noipa))
#endif

static volatile sig_atomic_t over;
static _Atomic unsigned long done, wrong;

static void stop(int number)
{
	(void)number;
	over = 1;
}

static void check(int good)
{
	done++;
	if (!good)
		wrong++;
}

/* Values in the vector registers across each call. */
static void read_tight(const char *path)
{
	char first[4096], now[4096];
	int fd = open(path, O_RDONLY);
	ssize_t bytes = pread(fd, first, sizeof(first), 0);

	for (unsigned long i = 0; !over; i++) {
#if defined(__x86_64__)
		__m128i kept = _mm_set1_epi64x((long long)i);
#endif
		double before = (double)i * 1.5;

		check(pread(fd, now, sizeof(now), 0) == bytes &&
		      !memcmp(first, now, (size_t)bytes));
#if defined(__x86_64__)
		check(_mm_cvtsi128_si64(kept) == (long long)i);
#endif
		check(before == (double)i * 1.5);
	}
	close(fd);
}

/* A leaf with values in its red zone, in all general registers, in flags and in vector registers. */
OPAQUE static uint64_t mix(uint64_t seed, double *sum)
{
	volatile uint64_t kept[8];
	uint64_t a = seed, b = seed ^ 0x9e3779b97f4a7c15u, c = seed + 3, d = seed * 5, e = ~seed;

	for (unsigned i = 0; i < 8; i++)
		kept[i] = seed + i;
	for (unsigned i = 0; i < 1000; i++) {
		a = (a << 13 | a >> 51) + b;
		b = (b ^ a) * 0xff51afd7ed558ccdu + kept[i % 8];
		c += a < b ? d : e;
		d = d * 3 + c;
		e ^= c >> 7;
		*sum = *sum * 0.999 + (double)(c & 1023);
	}
	for (unsigned i = 0; i < 8; i++)
		a += kept[i] - seed - i;
	return a ^ b ^ c ^ d ^ e;
}

/* No system call at all. */
static void compute(const char *path)
{
	double first = 0, sum;
	uint64_t wanted = mix(1, &first);

	(void)path;
	while (!over) {
		sum = 0;
		check(mix(1, &sum) == wanted && sum == first);
	}
}

static void *compute_on(void *path)
{
	compute(path);
	return NULL;
}

static void compute_in_threads(const char *path)
{
	pthread_t thread;

	pthread_create(&thread, NULL, compute_on, NULL);
	compute(path);
	pthread_join(thread, NULL);
}

static void *read_whole(void *path)
{
	char first[4096], now[4096];
	ssize_t bytes;
	int fd = open(path, O_RDONLY);

	bytes = read(fd, first, sizeof(first));
	close(fd);
	while (!over) {
		char *copy = malloc(4096 + (size_t)(done % 100000));

		fd = open(path, O_RDONLY);
		check(read(fd, now, sizeof(now)) == bytes && !memcmp(first, now, (size_t)bytes));
		check(close(fd) == 0);
		free(copy);
	}
	return NULL;
}

static void read_in_threads(const char *path)
{
	pthread_t thread[6];

	for (int i = 0; i < 6; i++)
		pthread_create(&thread[i], NULL, read_whole, (void *)path);
	for (int i = 0; i < 6; i++)
		pthread_join(thread[i], NULL);
}

/* No wait may end before a signal, or earlier than it should. */
static void wait_in_calls(const char *path)
{
	int queue = epoll_create1(0);
	struct epoll_event event;

	(void)path;
	while (!over) {
		struct timespec begin, end, pause = { .tv_nsec = 30000000 };

		check(epoll_wait(queue, &event, 1, 30) == 0 || over);
		check(poll(NULL, 0, 30) == 0 || over);
		clock_gettime(CLOCK_MONOTONIC, &begin);
		check(nanosleep(&pause, NULL) == 0 || over);
		clock_gettime(CLOCK_MONOTONIC, &end);
		check((end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec >=
			      30000000 ||
		      over);
	}
	close(queue);
}

/* A filter that kills for a call which the recorder makes and this program does not. */
static void read_filtered(const char *path)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
	read_tight(path);
}

/* Numbered writes, one a millisecond: which of them the trace has can be told by their offsets. */
static void count(const char *path)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	while (!over) {
		check(pwrite(fd, "x", 1, (off_t)done) == 1);
		nanosleep(&pause, NULL);
	}
	close(fd);
}

/* At SIGUSR1 it takes the address of pread() anew, as its slot has it then, and calls that from then on.
 * At SIGUSR2 it waits in a read() until it gets a signal more. */
static volatile sig_atomic_t take, rest;

static void note(int number)
{
	*(number == SIGUSR1 ? &take : &rest) = 1;
}

typedef ssize_t call(int, void *, size_t, off_t);

/* A function, so that the compiler does not read the slot once and for all. */
OPAQUE static call *address_now(void)
{
	return pread;
}

static void keep_addresses(const char *path)
{
	call *volatile kept = address_now();
	const struct sigaction noted = { .sa_handler = note };
	char first[4096], now[4096];
	int fd = open(path, O_RDONLY), ends[2];
	ssize_t bytes = kept(fd, first, sizeof(first), 0);

	sigaction(SIGUSR1, &noted, NULL);
	sigaction(SIGUSR2, &noted, NULL);
	check(pipe(ends) == 0);
	while (!over) {
		check(kept(fd, now, sizeof(now), 0) == bytes && !memcmp(first, now, (size_t)bytes));
		if (take)
			kept = address_now();
		take = 0;
		if (rest)
			check(read(ends[0], now, 1) < 0 && errno == EINTR);
		rest = 0;
	}
	close(fd);
}

static const char *handled;

static void handle(int number)
{
	(void)number;
	wait_in_calls(handled);
}

/* All in a signal handler, which came when signals were unblocked, as in processes of postgres. */
static void wait_in_handler(const char *path)
{
	const struct sigaction action = { .sa_handler = handle };
	sigset_t one;

	handled = path;
	sigemptyset(&one);
	sigaddset(&one, SIGALRM);
	sigaction(SIGALRM, &action, NULL);
	sigprocmask(SIG_BLOCK, &one, NULL);
	raise(SIGALRM);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
}

/* vfork() waits as for a disk: nothing interrupts it. */
static void wait_for_children(const char *path)
{
	char byte;
	int fd = open(path, O_RDONLY);

	while (!over) {
		pid_t child = vfork();

		if (!child) {
			usleep(150000);
			_exit(0);
		}
		while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
			;
		for (int i = 0; i < 3000 && !over; i++)
			check(pread(fd, &byte, 1, 0) == 1);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(const char *path);
	} modes[] = { { "tight", read_tight },		 { "threads", read_in_threads },
		      { "waits", wait_in_calls },	 { "handler", wait_in_handler },
		      { "children", wait_for_children }, { "keeps", keep_addresses },
		      { "computes", compute },		 { "both", compute_in_threads },
		      { "filtered", read_filtered },	 { "count", count } };
	const struct sigaction action = { .sa_handler = stop };

	sigaction(SIGTERM, &action, NULL);
	for (size_t i = 0; argc == 3 && i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(argv[1], modes[i].name))
			modes[i].run(argv[2]);
	if (wrong)
		printf("%lu wrong of %lu\n", (unsigned long)wrong, (unsigned long)done);
	else
		printf("%s\n", done ? "ok" : "nothing done");
	return wrong != 0;
}
