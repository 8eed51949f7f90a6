/* faults_target.c - a program whose output says everything that it can tell of its calls.
 *
 * Threads, fork, exec, stdio, pfw.h; each result, errno (also that of calls that succeeded), each
 * descriptor's number and a checksum of what was read back is printed.  Run with and without the
 * recorder, and with the recorder's own calls failing, it has to print the same.
 */
#include <pfw/pfw.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEPT 77	   /* no call of these sets it */
#define WRITES 700 /* more than a first ring holds */

static uint64_t sum = 0xcbf29ce484222325u;

static void add(const void *data, size_t bytes)
{
	const unsigned char *at = data;

	while (bytes--)
		sum = (sum ^ *at++) * 0x100000001b3u;
}

/* A call, its result, and the errno that it left. */
#define TELL(call)                                                        \
	({                                                                \
		long result_;                                             \
		errno = KEPT;                                             \
		result_ = (long)(call);                                   \
		dprintf(1, "%s: %ld %s\n", #call, result_,                \
			errno == KEPT ? "kept" : strerrorname_np(errno)); \
		result_;                                                  \
	})

/* The lowest free descriptor, and how many are open. */
static void tell_descriptors(void)
{
	int lowest = dup(1), open = 0;

	close(lowest);
	for (int fd = 0; fd < 24; fd++)
		open += fcntl(fd, F_GETFD) >= 0;
	dprintf(1, "descriptors: lowest %d, open %d\n", lowest, open);
}

static void use_files(void)
{
	char block[4096], name[700];
	struct stat st;
	int fd;

	memset(block, 'x', sizeof(block));
	fd = (int)TELL(open("a", O_RDWR | O_CREAT | O_TRUNC, 0600));
	for (int i = 0; i < WRITES; i++) {
		memcpy(block, &i, sizeof(i));
		if (pwrite(fd, block, 64, i * 64) != 64)
			dprintf(1, "pwrite %d: %s\n", i, strerrorname_np(errno));
	}
	TELL(lseek(fd, 100, SEEK_SET));
	TELL(read(fd, block, sizeof(block)));
	add(block, sizeof(block));
	TELL(fstat(fd, &st));
	TELL(ftruncate(fd, 1000));
	TELL(close(fd));
	TELL(close(fd));
	TELL(read(fd, block, 1));
	TELL(open("none", O_RDONLY));
	TELL(open((const char *)8, O_RDONLY));
	TELL(mkdir("d", 0700));
	TELL(mkdir("d", 0700));
	TELL(rename("a", "d/b"));
	TELL(unlink("a"));
	TELL(stat("d/b", &st));
	/* Longer than what a probe keeps on its stack. */
	memset(name, 'n', sizeof(name));
	memcpy(name, "d/./", 4);
	for (int i = 100; i < 600; i += 100)
		memcpy(name + i, "/../", 4);
	strcpy(name + 600, "/b");
	TELL(open(name, O_RDONLY));
	TELL(dup2(1, 20));
	TELL(close(20));
}

static void use_stdio(void)
{
	char line[64];
	FILE *file = fopen("s", "w+");

	for (int i = 0; file && i < 20; i++)
		fprintf(file, "line %d\n", i);
	TELL(fflush(file));
	TELL(fseek(file, 7, SEEK_SET));
	TELL(fread(line, 1, sizeof(line), file));
	add(line, sizeof(line));
	TELL(fclose(file));
	errno = KEPT;
	file = fopen("none/s", "r");
	dprintf(1, "fopen: %d %s\n", file != NULL, strerrorname_np(errno));
}

static void *in_thread(void *name)
{
	char block[64];
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);

	memset(block, ((char *)name)[1], sizeof(block));
	for (int i = 0; i < 40; i++)
		if (write(fd, block, sizeof(block)) != sizeof(block))
			return (void *)1l;
	if (pread(fd, block, 32, 64) != 32 || close(fd))
		return (void *)2l;
	return NULL;
}

static void use_threads(void)
{
	static char name[2][4] = { "t0", "t1" };
	pthread_t thread[2];
	void *result[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, in_thread, name[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], &result[i]);
	dprintf(1, "threads: %ld %ld\n", (long)result[0], (long)result[1]);
}

static void use_api(void)
{
	static const char text[] =
		"a value that makes a span's arguments longer than what it holds";
	char key[16];

	errno = KEPT;
	pfw_instant("point", "app");
	pfw_counter("count", "series", 1.5);
	{
		PFW_SPAN("span");
		struct pfw_span *span = &(struct pfw_span){ 0 };

		pfw_span_begin(span, "more", "app");
		for (int i = 0; i < 20; i++) {
			snprintf(key, sizeof(key), "key%d", i);
			pfw_span_arg_str(span, key, text);
		}
		pfw_span_end(span);
	}
	pfw_flush();
	pfw_set_rank(1, 4);
	pfw_stop();
	pfw_start(NULL);
	dprintf(1, "pfw.h: errno %s\n", errno == KEPT ? "kept" : strerrorname_np(errno));
}

/* Each child does some I/O; how it ends is printed by its parent. */
static void use_children(char *self)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		in_thread((char[]){ "f0" });
		tell_descriptors();
		_exit(sum & 1 ? 11 : 12);
	}
	waitpid(pid, &status, 0);
	dprintf(1, "fork: %d\n", status);
	pid = vfork();
	if (!pid) {
		close(0);
		_exit(13);
	}
	waitpid(pid, &status, 0);
	dprintf(1, "vfork: %d\n", status);
	pid = fork();
	if (!pid) {
		use_stdio();
		TELL(execl("none", "none", (char *)NULL));
		execl(self, self, "exec", (char *)NULL);
		_exit(14);
	}
	waitpid(pid, &status, 0);
	dprintf(1, "exec: %d\n", status);
}

int main(int argc, char **argv)
{
	struct timespec now;
	sigset_t mask;

	tell_descriptors();
	/* The first call began the recording; shim.c sets the recorder's clock after this. */
	clock_gettime(CLOCK_REALTIME, &now);
	if (argc > 1) {
		use_stdio();
		tell_descriptors();
		exit(15);
	}
	use_files();
	use_stdio();
	use_threads();
	tell_descriptors();
	use_api();
	use_children(argv[0]);
	tell_descriptors();
	sigprocmask(SIG_SETMASK, NULL, &mask);
	add(&mask, 8);
	dprintf(1, "sum %016llx\n", (unsigned long long)sum);
	return 3;
}
