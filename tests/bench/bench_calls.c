/*
 * bench_calls.c - one workload, timed from inside: what tests/bench/run runs untraced and traced.
 *
 * bench_calls WORKLOAD FILE EVENTS THREADS [burst=N] [pause_us=N] [idle=shared|own] [stop=1]
 *
 * WORKLOAD is pread (4 KiB of the page cache), empty (pread of no bytes), lseek (to where it is),
 * openclose, write (64 bytes) or span.  FILE exists and holds 1 MiB; the threads write to FILE.0,
 * FILE.1, ...  EVENTS is what all threads make together: an open and a close are two.  lseek turns
 * between the program's own name for it and libc's function, found past any preload object: the
 * difference is what a wrapper costs, free of what differs between two processes.
 *
 * burst, pause_us: sleep pause_us after each N events; only the bursts are timed, and the first
 * WARM_BURSTS of them run untimed, so that a ring has grown to what the bursts need.
 * idle: keep a second thread that does nothing, on the same descriptor table or on its own.
 * stop: begin a trace and stop it again before the loop (pfw only).
 *
 * Built with -DBENCH_DFTRACER and DFTracer's headers, span uses DFTracer's C API instead of pfw's.
 * Prints one line of JSON: sums over the threads, but for wall_ns, the slowest thread's.  made_all
 * counts untimed events too.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef BENCH_DFTRACER
#include <dftracer/dftracer.h>
#else
#include <pfw/pfw.h>
#endif

#define PAGE 4096
#define PAGES 256 /* of FILE */
#define SLICES 64 /* a loop without bursts is timed in so many pieces */
#define WARM_BURSTS 20
#define THREADS_MAX 64

struct options {
	const char *file;
	void (*work)(struct options *options, unsigned thread, uint64_t events);
	uint64_t events, burst, pause_us;
	unsigned threads;
	bool writes;
	bool direct; /* the lseek in the next slice is libc's */
	off_t (*lseek)(int fd, off_t offset, int whence);
	int fd[THREADS_MAX];
};

struct timed {
	pthread_t thread;
	struct options *options;
	unsigned number;
	uint64_t cpu_ns, wall_ns;
	double least_ns;	/* an event of the fastest slice */
	double least_direct_ns; /* the same of the slices that call libc directly; 0 = none */
	uint64_t made;
};

static pthread_barrier_t barrier;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- workloads: so many events, nothing else in the loop ---- */

static void work_pread(struct options *options, unsigned thread, uint64_t events)
{
	static __thread char buf[PAGE];
	int fd = options->fd[thread];

	for (uint64_t i = 0; i < events; i++)
		if (pread(fd, buf, PAGE, (off_t)(i % PAGES * PAGE)) != PAGE)
			die("pread");
}

static void work_empty(struct options *options, unsigned thread, uint64_t events)
{
	static __thread char buf[1];
	int fd = options->fd[thread];

	for (uint64_t i = 0; i < events; i++)
		if (pread(fd, buf, 0, 0) != 0)
			die("pread");
}

static void work_lseek(struct options *options, unsigned thread, uint64_t events)
{
	off_t (*call)(int fd, off_t offset, int whence) = options->direct ? options->lseek : lseek;
	int fd = options->fd[thread];

	for (uint64_t i = 0; i < events; i++)
		if (call(fd, 0, SEEK_CUR))
			die("lseek");
}

static void work_openclose(struct options *options, unsigned thread, uint64_t events)
{
	(void)thread;
	for (uint64_t i = 0; i < events; i += 2) {
		int fd = open(options->file, O_RDONLY);

		if (fd < 0 || close(fd))
			die(options->file);
	}
}

/* Back to the start each MiB: what is measured is the call, not the disk. */
static void work_write(struct options *options, unsigned thread, uint64_t events)
{
	static const char line[64] = "about as long as a line of a log";
	int fd = options->fd[thread];

	for (uint64_t i = 0; i < events; i++) {
		if (i % (PAGE * PAGES / sizeof(line)) == 0 && lseek(fd, 0, SEEK_SET))
			die("lseek");
		if (write(fd, line, sizeof(line)) != sizeof(line))
			die("write");
	}
}

#ifdef BENCH_DFTRACER
static void work_span(struct options *options, unsigned thread, uint64_t events)
{
	(void)options;
	(void)thread;
	for (uint64_t i = 0; i < events; i++) {
		struct DFTracerData *span = initialize_region("forward", "app", DF_DATA_EVENT);

		finalize_region(span);
	}
}

static void trace_begin(const struct options *options, bool stop)
{
	const char *base = getenv("DFTRACER_LOG_FILE");

	/* Only where the spans are its events: elsewhere its preload object traces. */
	if (options->work == work_span && !stop && base)
		initialize_no_bind(base, "all", NULL);
}

static void trace_end(const struct options *options)
{
	if (options->work == work_span && getenv("DFTRACER_LOG_FILE"))
		finalize();
}
#else
static void work_span(struct options *options, unsigned thread, uint64_t events)
{
	(void)options;
	(void)thread;
	for (uint64_t i = 0; i < events; i++) {
		struct pfw_span span;

		pfw_span_begin(&span, "forward", "app");
		pfw_span_end(&span);
	}
}

static void trace_begin(const struct options *options, bool stop)
{
	(void)options;
	if (stop && (pfw_start(NULL) || pfw_stop()))
		die("pfw_stop");
}

static void trace_end(const struct options *options)
{
	(void)options;
}
#endif

static const struct workload {
	const char *name;
	void (*work)(struct options *options, unsigned thread, uint64_t events);
	bool writes;
} workloads[] = {
	{ "pread", work_pread, false }, { "empty", work_empty, false },
	{ "lseek", work_lseek, false }, { "openclose", work_openclose, false },
	{ "write", work_write, true },	{ "span", work_span, false },
};

/* ---- timing ---- */

static void time_slice(struct timed *timed, uint64_t events)
{
	struct options *options = timed->options;
	uint64_t wall_ns = now_ns(CLOCK_MONOTONIC), cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
	double event_ns, *least_ns = options->direct ? &timed->least_direct_ns : &timed->least_ns;

	options->work(options, timed->number, events);
	cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	wall_ns = now_ns(CLOCK_MONOTONIC) - wall_ns;
	event_ns = (double)cpu_ns / (double)events;
	if (*least_ns == 0 || event_ns < *least_ns)
		*least_ns = event_ns;
	timed->cpu_ns += cpu_ns;
	timed->wall_ns += wall_ns;
	timed->made += events;
}

static void *thread_main(void *arg)
{
	struct timed *timed = arg;
	struct options *options = timed->options;
	uint64_t left = options->events / options->threads / 2 * 2;
	uint64_t slice = options->burst ? options->burst : (left / SLICES + 1) / 2 * 2;

	pthread_barrier_wait(&barrier);
	for (int i = 0; options->burst && i < WARM_BURSTS; i++) {
		options->work(options, timed->number, slice);
		timed->made += slice;
		usleep((useconds_t)options->pause_us);
	}
	while (left) {
		uint64_t events = slice && slice < left ? slice : left;

		time_slice(timed, events);
		left -= events;
		options->direct = options->lseek && !options->direct;
		if (options->burst)
			usleep((useconds_t)options->pause_us);
	}
	return NULL;
}

static void *idle_main(void *arg)
{
	if (!strcmp(arg, "own") && unshare(CLONE_FILES))
		die("unshare");
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
	return NULL;
}

static void open_files(struct options *options)
{
	char path[4096];

	for (unsigned i = 0; i < options->threads; i++) {
		snprintf(path, sizeof(path), "%s.%u", options->file, i);
		options->fd[i] = options->writes ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600)
						 : open(options->file, O_RDONLY);
		if (options->fd[i] < 0)
			die(path);
	}
}

static void run(struct options *options, const char *idle)
{
	struct timed timed[THREADS_MAX] = { 0 }, all = { 0 };
	pthread_t sleeper;

	pthread_barrier_init(&barrier, NULL, options->threads + (idle ? 1 : 0));
	if (idle && pthread_create(&sleeper, NULL, idle_main, (void *)(uintptr_t)idle))
		die("pthread_create");
	for (unsigned i = 0; i < options->threads; i++) {
		timed[i].options = options;
		timed[i].number = i;
		if (i && pthread_create(&timed[i].thread, NULL, thread_main, &timed[i]))
			die("pthread_create");
	}
	thread_main(&timed[0]); /* a process of one thread stays one */
	for (unsigned i = 0; i < options->threads; i++) {
		if (i)
			pthread_join(timed[i].thread, NULL);
		all.cpu_ns += timed[i].cpu_ns;
		all.wall_ns = timed[i].wall_ns > all.wall_ns ? timed[i].wall_ns : all.wall_ns;
		all.made += timed[i].made;
		if (!i || timed[i].least_ns < all.least_ns)
			all.least_ns = timed[i].least_ns;
	}
	printf("{\"events\":%" PRIu64 ",\"made_all\":%" PRIu64 ",\"cpu_ns\":%" PRIu64
	       ",\"wall_ns\":%" PRIu64 ",\"least_ns\":%.3f,\"least_direct_ns\":%.3f}\n",
	       options->events / options->threads / 2 * 2 * options->threads, all.made, all.cpu_ns,
	       all.wall_ns, all.least_ns, timed[0].least_direct_ns);
}

/* libc's own, not the first of the name. */
static void find_lseek(struct options *options)
{
	void *libc = dlopen("libc.so.6", RTLD_NOLOAD | RTLD_LAZY);

	options->lseek = libc ? (off_t(*)(int, off_t, int))dlsym(libc, "lseek") : NULL;
	if (!options->lseek) {
		fputs("bench_calls: libc.so.6 has no lseek\n", stderr);
		exit(1);
	}
}

static void usage(void)
{
	fputs("usage: bench_calls pread|empty|lseek|openclose|write|span FILE EVENTS THREADS "
	      "[burst=N] [pause_us=N] [idle=shared|own] [stop=1]\n",
	      stderr);
	exit(2);
}

int main(int argc, char **argv)
{
	struct options options = { 0 };
	const char *idle = NULL;
	bool stop = false;

	if (argc < 5)
		usage();
	for (size_t i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++) {
		if (!strcmp(argv[1], workloads[i].name)) {
			options.work = workloads[i].work;
			options.writes = workloads[i].writes;
		}
	}
	options.file = argv[2];
	options.events = strtoull(argv[3], NULL, 10);
	options.threads = (unsigned)strtoul(argv[4], NULL, 10);
	for (int i = 5; i < argc; i++) {
		if (!strncmp(argv[i], "burst=", 6))
			options.burst = strtoull(argv[i] + 6, NULL, 10);
		else if (!strncmp(argv[i], "pause_us=", 9))
			options.pause_us = strtoull(argv[i] + 9, NULL, 10);
		else if (!strncmp(argv[i], "idle=", 5))
			idle = argv[i] + 5;
		else if (!strcmp(argv[i], "stop=1"))
			stop = true;
		else
			usage();
	}
	if (!options.work || !options.events || !options.threads || options.threads > THREADS_MAX)
		usage();
	if (options.work == work_lseek)
		find_lseek(&options);
	trace_begin(&options, stop);
	open_files(&options);
	run(&options, idle);
	trace_end(&options);
	return 0;
}
