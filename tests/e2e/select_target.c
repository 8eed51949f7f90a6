/* select_target.c - does what its first argument says, for test_select. */
#include <pfw/pfw.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void check(int done, const char *what)
{
	if (done)
		return;
	perror(what);
	exit(3);
}

/* copy FROM TO */
static void copy(char **arg)
{
	char buf[64];
	struct stat st;
	int from = open(arg[0], O_RDONLY), to = open(arg[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ssize_t n;

	check(from >= 0 && to >= 0 && !fstat(from, &st), "copy");
	while ((n = read(from, buf, sizeof(buf))) > 0)
		check(write(to, buf, (size_t)n) == n, "write");
	close(from);
	close(to);
}

/* read FILE... */
static void read_files(char **arg)
{
	char buf[64];

	for (; *arg; arg++) {
		int fd = open(*arg, O_RDONLY);

		check(fd >= 0 && read(fd, buf, sizeof(buf)) >= 0, *arg);
		close(fd);
	}
}

/* preads THREADS COUNT FILE...: each thread reads 64 bytes of each file that often, then does so by
 * stat() too; "kill" as the last word: and then SIGKILL. */
static struct preads {
	long count;
	char **files;
} preads;

static void *pread_all(void *unused)
{
	char buf[64];
	struct stat st;

	for (char **file = preads.files; *file && strcmp(*file, "kill"); file++) {
		int fd = open(*file, O_RDONLY);

		for (long i = 0; i < preads.count; i++)
			check(pread(fd, buf, sizeof(buf), 0) == sizeof(buf) && !stat(*file, &st),
			      *file);
		check(pread(fd, buf, sizeof(buf), -1) < 0, "pread at -1");
		close(fd);
	}
	return unused;
}

static void pread_files(char **arg)
{
	pthread_t thread[64];
	long threads = atol(arg[0]);

	preads = (struct preads){ atol(arg[1]), arg + 2 };
	for (long i = 0; i < threads; i++)
		check(!pthread_create(&thread[i], NULL, pread_all, NULL), "thread");
	for (long i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	for (arg += 2; *arg; arg++)
		if (!strcmp(*arg, "kill"))
			raise(SIGKILL);
}

/* flush FILE [t] TRACE: what was summed gets into the trace, by pfw_flush() or by itself. */
static void flush(char **arg)
{
	static char text[1 << 20];
	ssize_t n = 0;

	preads = (struct preads){ 100, (char *[]){ arg[0], NULL } };
	pread_all(NULL);
	for (int tries = 0; tries < 1000 && !strstr(text, "\"summed\""); tries++) {
		int fd = open(arg[2], O_RDONLY);

		if (*arg[1])
			check(!pfw_flush(), "flush");
		else
			usleep(10000);
		n = fd < 0 ? 0 : pread(fd, text, sizeof(text) - 1, 0);
		text[n > 0 ? n : 0] = '\0';
		close(fd);
		check(tries < 3 || !*arg[1], "flush");
	}
	check(strstr(text, "\"summed\"") != NULL, arg[2]);
}

static int read_line(int fd)
{
	char buf[64];
	FILE *stream = fdopen(dup(fd), "r");
	int done = stream && fgets(buf, sizeof(buf), stream) && lseek(fd, 0, SEEK_SET) == 0 &&
		   read(fd, buf, sizeof(buf)) > 0;

	fclose(stream);
	return done;
}

/* reuse A B C: one descriptor after the other has the same number, by close and by dup2. */
static void reuse(char **arg)
{
	int first = open(arg[0], O_RDONLY), second, third;

	check(read_line(first), arg[0]);
	close(first);
	second = open(arg[1], O_RDONLY);
	check(second == first && read_line(second), arg[1]);
	third = open(arg[2], O_RDONLY);
	check(dup2(third, second) == first && read_line(first), arg[2]);
}

/* span _exit | span exec */
static void span(char **arg)
{
	{
		PFW_SPAN("work");
	}
	if (!strcmp(arg[0], "_exit"))
		_exit(0);
	execl("/bin/true", "true", NULL);
}

/* slots NAME...: where the preloaded object's jump of each leads. */
static void slots(char **arg)
{
	for (; *arg; arg++) {
		unsigned char *jump = dlsym(RTLD_DEFAULT, *arg);
		Dl_info info;
		int offset;
		void *to;

		check(jump != NULL, *arg);
		jump += 4; /* endbr64 */
		check(jump[0] == 0xff && jump[1] == 0x25, *arg);
		memcpy(&offset, jump + 2, sizeof(offset));
		memcpy(&to, jump + 6 + offset, sizeof(to));
		check(dladdr(to, &info), *arg);
		puts(strstr(info.dli_fname, "libpfw.so") ? "recorder" : "libc");
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(char **arg);
	} actions[] = {
		{ "copy", copy },   { "read", read_files },    { "reuse", reuse }, { "span", span },
		{ "slots", slots }, { "preads", pread_files }, { "flush", flush },
	};

	for (size_t i = 0; argc > 1 && i < sizeof(actions) / sizeof(actions[0]); i++) {
		if (strcmp(argv[1], actions[i].name))
			continue;
		actions[i].run(argv + 2);
		return 0;
	}
	return 2;
}
