/* tests/e2e/memlock_target.c - locks its memory, works, and says how much more it may map.
 *
 * memlock_target LIMIT FLAGS BEFORE: RLIMIT_MEMLOCK in KiB, those of mlockall(), calls before it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static void work(int times)
{
	while (times--)
		access("/", F_OK);
}

int main(int count, char **argument)
{
	struct rlimit limit;
	size_t most = 0, step = 16u << 10;

	if (count != 4)
		return 2;
	limit.rlim_cur = limit.rlim_max = (rlim_t)atol(argument[1]) << 10;
	if (setrlimit(RLIMIT_MEMLOCK, &limit))
		return 3;
	work(atoi(argument[3]));
	if (mlockall(atoi(argument[2])))
		return 4;
	work(20000);
	usleep(300000);
	work(20000);
	for (size_t bytes = step; bytes <= limit.rlim_cur; bytes += step) {
		void *at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (at == MAP_FAILED)
			break;
		munmap(at, bytes);
		most = bytes;
	}
	if (munlockall())
		return 5;
	work(10);
	printf("%zu\n", most);
	return 0;
}
