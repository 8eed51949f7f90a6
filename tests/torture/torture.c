/* torture.c - the program of the hard cases: torture DIRECTORY MODE [COUNT [MORE...]].
 *
 * DIRECTORY holds `witness` and `data` (see torture.h); the modes stand in the other files.
 */
#include "torture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define TICKERS_MAX 64

struct witness *witness;
int data_fd;
char *self, *directory;

static unsigned seed;
static pthread_t ticker[TICKERS_MAX];
static int tickers;
static long ticker_most;
static atomic_int stopping;

void must(int works, const char *what)
{
	if (works)
		return;
	perror(what);
	_exit(90);
}

void tick_through(ssize_t (*read_at)(int, void *, size_t, off_t))
{
	int kept = errno;
	uint64_t number = atomic_fetch_add(&witness->next, 1);
	char buf[TICK_BYTES];

	if (number >= TICKS_MAX)
		_exit(91);
	if (read_at(data_fd, buf, sizeof(buf), (off_t)(number * TICK_BYTES)) != TICK_BYTES)
		atomic_fetch_add(&witness->bad, 1);
	atomic_store(&witness->returned[number], 1);
	errno = kept;
}

void tick(void)
{
	tick_through(pread);
}

void ticks(long count)
{
	while (count-- > 0)
		tick();
}

void unwitnessed(void)
{
	char byte;

	must(pread(data_fd, &byte, 1, 0) == 1, "pread");
}

int wait_all(void)
{
	int status, failed = 0;
	pid_t pid;

	while ((pid = wait(&status)) > 0 || (pid < 0 && errno == EINTR))
		failed += pid > 0 && status != 0;
	return failed;
}

static void *tick_on(void *unused)
{
	long done = 0;

	(void)unused;
	for (; !atomic_load(&stopping) || done < ticker_most; done++)
		if (!ticker_most || done < ticker_most)
			tick();
		else
			usleep(1000);
	return NULL;
}

void start_tickers(int threads, long most)
{
	atomic_store(&stopping, 0);
	ticker_most = most;
	for (tickers = 0; tickers < threads; tickers++)
		must(!pthread_create(&ticker[tickers], NULL, tick_on, NULL), "pthread_create");
}

void stop_tickers(void)
{
	atomic_store(&stopping, 1);
	while (tickers)
		pthread_join(ticker[--tickers], NULL);
}

unsigned random_below(unsigned bound)
{
	return (unsigned)rand_r(&seed) % bound;
}

static void open_witness(void)
{
	char path[4200];
	int fd;

	snprintf(path, sizeof(path), "%s/witness", directory);
	fd = open(path, O_RDWR);
	witness = mmap(NULL, sizeof(*witness), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(witness != MAP_FAILED, path);
	close(fd);
	snprintf(path, sizeof(path), "%s/data", directory);
	data_fd = open(path, O_RDONLY | O_CLOEXEC);
	must(data_fd >= 0, path);
}

static const struct mode *find_mode(const char *name)
{
	const struct mode *const tables[] = { fork_modes,   end_modes,	 thread_modes,
					      signal_modes, limit_modes, file_modes };

	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		for (const struct mode *mode = tables[i]; mode->name; mode++)
			if (!strcmp(mode->name, name))
				return mode;
	return NULL;
}

int main(int argc, char **argv)
{
	const struct mode *mode = argc > 2 ? find_mode(argv[2]) : NULL;
	struct rlimit no_core = { 0, 0 };
	const char *text = getenv("TORTURE_SEED");

	if (!mode) {
		fprintf(stderr, "usage: torture DIRECTORY MODE [COUNT [MORE...]]\n");
		return 92;
	}
	setrlimit(RLIMIT_CORE, &no_core); /* dozens of modes die on purpose */
	self = argv[0];
	directory = argv[1];
	seed = text ? (unsigned)strtoul(text, NULL, 10) : 1;
	open_witness();
	return mode->run(argc > 3 ? strtol(argv[3], NULL, 10) : 0, argv + (argc > 4 ? 4 : argc));
}
