/* combined.c - reads real files under, beside and across kernels, and says when it did.
 *
 * combined DIR KERNEL_NS ROUNDS: DIR has the files under, beside, end and begin; a kernel takes
 * KERNEL_NS and begins START_NS behind its launch.  Reads each file so often in each round that it was
 * ROUND_READS times just where it belongs, whatever else the machine does.  When all is done prints
 * "FILE BEGIN END PLACED" of each read, times by CLOCK_REALTIME in ns.
 */
#include <cuda_runtime_api.h>

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define READS_MAX 4096
#define ROUND_READS 3
#define SMALL (1u << 16)
#define START_NS 1500 /* of the stand-in */

enum { UNDER, BESIDE, END, BEGIN, FILES };
static const char *const names[FILES] = { "under", "beside", "end", "begin" };

struct read {
	int file, placed;
	int64_t begin, end;
};

/* A launch lies between these. */
struct launch {
	int64_t before, behind;
};

static struct read reads[READS_MAX];
static unsigned count;
static int fds[FILES];
static size_t large;
static char *buffer;
static int64_t kernel_ns;

static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static void wait_until(int64_t ns)
{
	int64_t left;

	while ((left = ns - now()) > 0)
		if (left > 300000)
			usleep((useconds_t)(left / 2000));
}

static struct read *read_file(int file, size_t bytes)
{
	struct read *read = &reads[count];

	if (count == READS_MAX) {
		fprintf(stderr, "combined: %s: is never read where it belongs\n", names[file]);
		exit(3);
	}
	read->file = file;
	read->begin = now();
	if (pread(fds[file], buffer, bytes, 0) != (ssize_t)bytes)
		exit(4);
	read->end = now();
	count++;
	return read;
}

static struct launch launch(void)
{
	dim3 one = { 1, 1, 1 };
	struct launch launch = { .before = now() };

	if (cudaLaunchKernel("combined_kernel", one, one, NULL, 0, NULL))
		exit(5);
	launch.behind = now();
	return launch;
}

/* No kernel runs any more. */
static void let_end(const struct launch *launch)
{
	wait_until(launch->behind + START_NS + kernel_ns + 500000);
}

static int under(void)
{
	struct launch kernel = launch();
	struct read *read;

	wait_until(kernel.behind + START_NS + 1000);
	read = read_file(UNDER, SMALL);
	read->placed = read->end < kernel.before + START_NS + kernel_ns;
	let_end(&kernel);
	return read->placed;
}

static int beside(void)
{
	return read_file(BESIDE, SMALL)->placed = 1;
}

static int across_end(void)
{
	struct launch kernel = launch();
	struct read *read;

	wait_until(kernel.behind + kernel_ns - 2000000);
	read = read_file(END, large);
	read->placed = read->begin < kernel.before + START_NS + kernel_ns &&
		       read->end > kernel.behind + START_NS + kernel_ns;
	let_end(&kernel);
	return read->placed;
}

static void *read_large(void *read)
{
	*(struct read **)read = read_file(BEGIN, large);
	return NULL;
}

/* A kernel begins while another thread reads. */
static int across_begin(void)
{
	struct read *read = NULL;
	struct launch kernel;
	pthread_t thread;

	if (pthread_create(&thread, NULL, read_large, &read))
		exit(6);
	usleep(1000);
	kernel = launch();
	pthread_join(thread, NULL);
	read->placed = read->begin < kernel.before && read->end > kernel.behind + START_NS;
	let_end(&kernel);
	return read->placed;
}

int main(int argc, char **argv)
{
	struct stat st;
	char path[4096];
	long rounds;

	if (argc < 4)
		return 2;
	rounds = atol(argv[3]);
	kernel_ns = atoll(argv[2]);
	for (int i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "%s/%s", argv[1], names[i]);
		fds[i] = open(path, O_RDONLY);
		if (fds[i] < 0 || fstat(fds[i], &st) < 0)
			return 2;
	}
	large = (size_t)st.st_size;
	buffer = malloc(large);
	if (!buffer)
		return 2;
	while (rounds--) {
		static int (*const places[])(void) = { under, beside, across_end, across_begin };

		for (int i = 0; i < FILES; i++)
			for (int left = ROUND_READS; left;)
				left -= places[i]();
	}
	for (unsigned i = 0; i < count; i++)
		printf("%s %" PRId64 " %" PRId64 " %d\n", names[reads[i].file], reads[i].begin,
		       reads[i].end, reads[i].placed);
	return 0;
}
