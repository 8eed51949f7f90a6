/* bursts.c - THREADS threads make SPANS spans each, as fast as they can: for test_live.
 *
 * Prints the process's peak resident memory in KiB, before and after.
 */
#include <pfw/pfw.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static long spans;

static long peak_kib(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

static void *work(void *unused)
{
	for (long i = 0; i < spans; i++) {
		struct pfw_span span;

		pfw_span_begin(&span, "burst", "test");
		pfw_span_end(&span);
	}
	return unused;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	long before = peak_kib();
	pthread_t *thread = calloc((size_t)threads, sizeof(*thread));

	spans = argc > 2 ? atol(argv[2]) : 1000;
	for (int i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, work, NULL))
			return 1;
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	free(thread);
	printf("%ld %ld\n", before, peak_kib());
	return 0;
}
