/* combined.c - reads real files under, beside and across kernels, and says when it did.
 *
 * combined DIR KERNEL_NS [ROUNDS]: DIR has the files under, beside, end and begin; a kernel takes
 * KERNEL_NS.  Prints "FILE BEGIN END" of each read, by CLOCK_REALTIME in ns, when all is done.
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
#define SMALL (1u << 16)

enum { UNDER, BESIDE, END, BEGIN, FILES };
static const char *const names[FILES] = { "under", "beside", "end", "begin" };

static struct {
	int file;
	int64_t begin, end;
} reads[READS_MAX];
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

static void read_file(int file, size_t bytes)
{
	int64_t begin = now();
	ssize_t got = pread(fds[file], buffer, bytes, 0);

	if (got != (ssize_t)bytes || count == READS_MAX) {
		fprintf(stderr, "combined: %s: cannot be read\n", names[file]);
		exit(3);
	}
	reads[count].file = file;
	reads[count].begin = begin;
	reads[count++].end = now();
}

/* Return when the kernel is over at the latest. */
static int64_t launch(void)
{
	dim3 one = { 1, 1, 1 };

	if (cudaLaunchKernel("combined_kernel", one, one, NULL, 0, NULL))
		exit(4);
	return now() + kernel_ns + 1000000;
}

static void *read_large(void *file)
{
	read_file(*(int *)file, large);
	return NULL;
}

/* A kernel begins while another thread reads. */
static void across_begin(void)
{
	static int file = BEGIN;
	pthread_t thread;

	if (pthread_create(&thread, NULL, read_large, &file))
		exit(5);
	usleep(1000);
	wait_until(launch());
	pthread_join(thread, NULL);
}

static void one_round(void)
{
	int64_t over = launch();

	for (unsigned i = 0; i < 5; i++)
		read_file(UNDER, SMALL);
	wait_until(over);
	for (unsigned i = 0; i < 5; i++)
		read_file(BESIDE, SMALL);
	over = launch();
	wait_until(over - 3000000); /* 2 ms before it is over */
	read_file(END, large);
	wait_until(over);
	across_begin();
}

int main(int argc, char **argv)
{
	struct stat st;
	char path[4096];
	long rounds = argc > 3 ? atol(argv[3]) : 3;

	if (argc < 3)
		return 2;
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
	while (rounds--)
		one_round();
	for (unsigned i = 0; i < count; i++)
		printf("%s %" PRId64 " %" PRId64 "\n", names[reads[i].file], reads[i].begin,
		       reads[i].end);
	return 0;
}
