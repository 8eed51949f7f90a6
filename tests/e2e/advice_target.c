/* advice_target.c - a small training loop with one problem, for test_advise.py.
 *
 * advice_target PROBLEM DIRECTORY SCALE [CUDART]: twelve steps of 20 ms times SCALE, in which nothing but the problem
 * takes long; "none" has none.  With CUDART, a libcudart of tests/gpu/standin, GPU work is launched there, and takes
 * what STANDIN says; else the program itself says what a GPU would have done.
 */
#include <pfw/pfw.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STEPS 12
#define COLD_BYTES (32 << 20)

static char block[1 << 20];
static char data[4096], checkpoint[4096], locked[4096], cold[4096];
static long scale;

static void check(bool failed, const char *what)
{
	if (!failed)
		return;
	perror(what);
	exit(1);
}

static int opened(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	check(fd < 0, path);
	return fd;
}

static void wait_ms(double ms)
{
	long ns = (long)(ms * 1e6);
	struct timespec left = { ns / 1000000000, ns % 1000000000 };

	while (nanosleep(&left, &left))
		;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* As long as what a step computes, or a bit longer. */
static bool is_over(uint64_t begin_ns)
{
	return now_ns() - begin_ns > (uint64_t)scale * 20000000;
}

static void compute(double ms)
{
	PFW_SPAN_CAT("forward", "compute");
	wait_ms(ms * (double)scale);
}

/* ---- the problems: each is done in every step ---- */

/* The last rank of four takes twice as long: by RANK. */
static void slow_rank(int step)
{
	(void)step;
	if (strcmp(getenv("RANK"), "3") == 0)
		compute(20);
}

static void tiny_reads(int step)
{
	int fd = opened(data, O_RDONLY);
	uint64_t begin = now_ns();

	(void)step;
	for (long i = 0; i % 100 || !is_over(begin); i++)
		check(pread(fd, block, 64, i % 1000 * 64) != 64, "pread");
	close(fd);
}

/* One process makes the next batch when it is asked to. */
static void one_worker(int step)
{
	static int ask[2], answer[2];
	char byte = 0;

	if (!step && !(pipe(ask) || pipe(answer)) && !fork()) {
		close(ask[1]);
		while (read(ask[0], &byte, 1) == 1) {
			int fd = opened(data, O_RDONLY);

			check(read(fd, block, 65536) != 65536, "read");
			close(fd);
			wait_ms(20 * (double)scale);
			check(write(answer[1], &byte, 1) != 1, "write");
		}
		_exit(0);
	}
	PFW_SPAN_CAT("next", "dataloader");
	check(write(ask[1], &byte, 1) != 1 || read(answer[0], &byte, 1) != 1, "next");
}

/* Files that are in storage only: what is cached is dropped, where the file system does. */
static void cache_misses(int step)
{
	int fd = opened(cold, O_RDONLY);
	uint64_t begin = now_ns();

	(void)step;
	while (!is_over(begin)) {
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		for (long at = 0; at < COLD_BYTES; at += (long)sizeof(block))
			check(pread(fd, block, sizeof(block), at) != sizeof(block), "pread");
	}
	close(fd);
}

/* CUDA's functions, by its own prototypes: its headers may be absent here. */
struct dim3 {
	unsigned x, y, z;
};
static int (*cuda_launch)(const void *, struct dim3, struct dim3, void **, size_t, void *);
static int (*cuda_copy)(void *, const void *, size_t, int, void *);

static void open_cuda(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);

	check(!library, path);
	*(void **)&cuda_launch = dlsym(library, "cudaLaunchKernel");
	*(void **)&cuda_copy = dlsym(library, "cudaMemcpyAsync");
	check(!cuda_launch || !cuda_copy, path);
}

/* A kernel, then a copy, which begins when the kernel ends. */
static void launch_work(double kernel, double copy)
{
	const struct dim3 one = { 1, 1, 1 };

	check(cuda_launch("gemm", one, one, NULL, 0, NULL), "cudaLaunchKernel");
	wait_ms(kernel * (double)scale);
	if (copy > 0)
		check(cuda_copy(block, block + 4096, 4096, 1, NULL), "cudaMemcpyAsync");
	wait_ms((2 - kernel) * (double)scale);
}

/* Work of a GPU, 2 ms apart: a kernel of `kernel` ms after a call, then a copy of `copy` ms.  A loaded machine makes
 * the 2 ms longer, and what the program says of the work with them. */
static void gpu_work(double kernel, double copy)
{
	static uint64_t number;
	uint64_t at = now_ns();
	double waited;
	struct pfw_compute event = { .struct_bytes = sizeof(event),
				     .fields = PFW_HAS(kind) | PFW_HAS(device) |
					       PFW_HAS(device_index) | PFW_HAS(correlation),
				     .name = "cudaLaunchKernel",
				     .ts_ns = at,
				     .dur_ns = 10000,
				     .kind = PFW_KIND_RUNTIME,
				     .device_index = -1,
				     .correlation = ++number };

	if (cuda_launch) {
		launch_work(kernel, copy);
		return;
	}
	wait_ms(2 * (double)scale);
	waited = (double)(now_ns() - at);
	pfw_compute_event(&event);
	event.name = "gemm";
	event.ts_ns = at + 10000;
	event.dur_ns = (uint64_t)(kernel / 2 * waited);
	event.kind = PFW_KIND_KERNEL;
	event.device = 1;
	event.device_index = 0;
	event.stream = 7;
	event.fields |= PFW_HAS(stream);
	pfw_compute_event(&event);
	if (copy <= 0)
		return;
	event.name = "Memcpy HtoD";
	event.ts_ns += event.dur_ns;
	event.dur_ns = (uint64_t)(copy / 2 * waited);
	event.kind = PFW_KIND_MEMCPY;
	event.correlation = ++number;
	pfw_compute_event(&event);
}

static void launch_bound(int step)
{
	(void)step;
	for (int i = 0; i < 10; i++)
		gpu_work(0.5, 0);
}

static void copies(int step)
{
	(void)step;
	for (int i = 0; i < 10; i++)
		gpu_work(0.9, 0.9);
}

static void opened_again(int step)
{
	uint64_t begin = now_ns();

	(void)step;
	while (!is_over(begin))
		close(opened(data, O_RDONLY));
}

/* Another process holds the lock most of the time. */
static void lock_wait(int step)
{
	static int ready[2];
	int fd = opened(locked, O_RDWR);
	char byte = 0;

	check(pipe(ready), "pipe");
	if (!fork()) {
		int mine = opened(locked, O_RDWR);

		(void)step;
		flock(mine, LOCK_EX);
		check(write(ready[1], &byte, 1) != 1, "write");
		wait_ms(20 * (double)scale);
		_exit(0);
	}
	check(read(ready[0], &byte, 1) != 1, "read");
	flock(fd, LOCK_EX);
	wait(NULL);
	close(fd);
	close(ready[0]);
	close(ready[1]);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool holds;

static void *hold(void *unused)
{
	pthread_mutex_lock(&mutex);
	holds = true;
	wait_ms(20 * (double)scale);
	pthread_mutex_unlock(&mutex);
	return unused;
}

/* Another thread holds the lock most of the time. */
static void thread_lock_wait(int step)
{
	pthread_t thread;

	(void)step;
	holds = false;
	check(pthread_create(&thread, NULL, hold, NULL), "pthread_create");
	while (!holds)
		sched_yield();
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
	pthread_join(thread, NULL);
}

static void checkpoint_stall(int step)
{
	uint64_t begin = now_ns();
	int fd;

	if (step % 2)
		return;
	fd = opened(checkpoint, O_WRONLY | O_CREAT | O_TRUNC);
	for (long i = 0; i % 8 || !is_over(begin); i++)
		check(pwrite(fd, block, sizeof(block), i % 8 << 20) != sizeof(block), "write");
	fsync(fd);
	close(fd);
}

static void memory_growth(int step)
{
	(void)step;
	check(mmap(NULL, 24 << 20, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) == MAP_FAILED,
	      "mmap");
}

/* A kernel after the other, and data that is there. */
static void none(int step)
{
	int fd = opened(data, O_RDONLY);

	check(pread(fd, block, 65536, step * 65536) != 65536, "pread");
	close(fd);
	for (int i = 0; i < 10; i++)
		gpu_work(1.9, 0);
}

static const struct {
	const char *name;
	void (*problem)(int step);
} problems[] = {
	{ "none", none },
	{ "slow_rank", slow_rank },
	{ "small_calls", tiny_reads },
	{ "loader", one_worker },
	{ "page_cache", cache_misses },
	{ "launch_bound", launch_bound },
	{ "copies", copies },
	{ "opened_again", opened_again },
	{ "lock_wait", lock_wait },
	{ "thread_lock_wait", thread_lock_wait },
	{ "checkpoint", checkpoint_stall },
	{ "memory_growth", memory_growth },
};

static void prepare(const char *directory)
{
	int fd;

	snprintf(data, sizeof(data), "%s/data", directory);
	snprintf(checkpoint, sizeof(checkpoint), "%s/checkpoint", directory);
	snprintf(locked, sizeof(locked), "%s/locked", directory);
	snprintf(cold, sizeof(cold), "%s/cold", directory);
	fd = opened(data, O_RDONLY);
	close(fd);
}

static bool has_gpu(void (*problem)(int step))
{
	return problem == none || problem == launch_bound || problem == copies;
}

int main(int argc, char **argv)
{
	size_t which = 0;

	if (argc < 4 || (scale = atol(argv[3])) < 1)
		return fprintf(stderr, "usage: advice_target PROBLEM DIRECTORY SCALE [CUDART]\n"),
		       2;
	while (which < sizeof(problems) / sizeof(*problems) &&
	       strcmp(problems[which].name, argv[1]) != 0)
		which++;
	if (which == sizeof(problems) / sizeof(*problems))
		return fprintf(stderr, "advice_target: no problem %s\n", argv[1]), 2;
	prepare(argv[2]);
	if (argc > 4)
		open_cuda(argv[4]);
	for (int step = 0; step < STEPS; step++) {
		pfw_step();
		problems[which].problem(step);
		if (!has_gpu(problems[which].problem))
			compute(20);
	}
	return 0;
}
