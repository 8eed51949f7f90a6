/* symbolize_target.c - prints the stacks of two reads, as the recorder notes them: PATH+0xOFFSET a line. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The return addresses in this program, innermost first, then an empty line. */
__attribute__((noinline)) static void note(void)
{
	void *stack[64];
	int count = backtrace(stack, 64);

	for (int i = 1; i < count; i++) {
		struct link_map *map;
		Dl_info info;
		char path[4096] = "";

		if (!dladdr1(stack[i], &info, (void **)&map, RTLD_DL_LINKMAP))
			continue;
		if (!*map->l_name && readlink("/proc/self/exe", path, sizeof(path) - 1) < 0)
			_exit(1);
		printf("%s+0x%lx\n", *map->l_name ? map->l_name : path,
		       (unsigned long)stack[i] - map->l_addr);
	}
	putchar('\n');
}

static inline __attribute__((always_inline)) long load(int fd, char *to)
{
	note(); /* the slow read */
	return read(fd, to, 10);
}

__attribute__((noinline)) long epoch(int fd)
{
	char data[16];
	long got = load(fd, data); /* called here */

	__asm__ volatile("" ::: "memory");
	return got + 1;
}

static int compare(const void *a, const void *b)
{
	note(); /* in a callback of libc */
	return *(const int *)a - *(const int *)b;
}

int main(int argc, char **argv)
{
	int fd = open(argv[argc - 1], O_RDONLY), numbers[] = { 2, 1 };
	long got = epoch(fd); /* the epoch */

	qsort(numbers, 2, sizeof(int), compare); /* the sort */
	return got < 0;
}
