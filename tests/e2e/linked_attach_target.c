/* linked_attach_target.c - a program that begins and ends its trace itself: what test_attach.py builds
 * in several ways and looks into while it runs.
 *
 * attach_target MODE [PATH...]; words(when) writes the process's memory map and the words named in
 * the file "words" (lines of "object offset") to words.WHEN, by syscall().
 */
#define _GNU_SOURCE
#include <pfw/pfw.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* In data, as sqlite has them. */
static const struct {
	int (*open)(const char *path, int flags, ...);
	ssize_t (*read)(int fd, void *buf, size_t bytes);
	int (*close)(int fd);
} by_table = { open, read, close };

static void check(int condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "attach_target: %s: errno %d\n", what, errno);
	exit(3);
}

static void use(const char *path)
{
	char buf[16];
	int fd = open(path, O_RDONLY | O_CREAT, 0600);

	check(fd >= 0 && read(fd, buf, sizeof(buf)) >= 0 && close(fd) == 0, path);
}

static void use_table(const char *path)
{
	char buf[16];
	int fd = by_table.open(path, O_RDONLY | O_CREAT, 0600);

	check(fd >= 0 && by_table.read(fd, buf, sizeof(buf)) >= 0 && by_table.close(fd) == 0, path);
}

/* ---- looking into the process ---- */

static char *raw_file(const char *name)
{
	static char text[1 << 20];
	long fd = syscall(SYS_openat, AT_FDCWD, name, O_RDONLY, 0), n;
	size_t used = 0;

	check(fd >= 0, name);
	while ((n = syscall(SYS_read, fd, text + used, sizeof(text) - 1 - used)) > 0)
		used += (size_t)n;
	syscall(SYS_close, fd);
	text[used] = '\0';
	return text;
}

struct object {
	const char *name;
	uintptr_t base;
};

static int find_object(struct dl_phdr_info *info, size_t size, void *user)
{
	struct object *object = user;
	const char *slash = strrchr(info->dlpi_name, '/');

	(void)size;
	if (strcmp(*info->dlpi_name ? (slash ? slash + 1 : info->dlpi_name) : "program",
		   object->name))
		return 0;
	object->base = info->dlpi_addr;
	return 1;
}

static void words(const char *when)
{
	static char out[1 << 20], list[1 << 20];
	char name[64], object_name[128];
	unsigned long offset;
	size_t used = 0;
	int length;
	long fd;

	strcpy(list, raw_file("words"));
	for (char *at = list; sscanf(at, "%127s %lx\n%n", object_name, &offset, &length) == 2;
	     at += length) {
		struct object object = { object_name, 0 };

		if (dl_iterate_phdr(find_object, &object))
			used += (size_t)snprintf(out + used, sizeof(out) - used, "%s %lx %lx %lx\n",
						 object_name, offset, object.base + offset,
						 *(unsigned long *)(object.base + offset));
	}
	used += (size_t)snprintf(out + used, sizeof(out) - used, "\n%s",
				 raw_file("/proc/self/maps"));
	snprintf(name, sizeof(name), "words.%s", when);
	fd = syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	check(syscall(SYS_write, fd, out, used) == (long)used, name);
	syscall(SYS_close, fd);
}

/* ---- modes ---- */

static void *load(const char *path, const char *function)
{
	void *library = dlopen(path, RTLD_NOW), *found;

	if (!library)
		fprintf(stderr, "%s\n", dlerror());
	check(library != NULL, path);
	found = dlsym(library, function);
	check(found != NULL, function);
	return found;
}

static void unload(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);

	check(library && !dlclose(library) && !dlclose(library), "dlclose");
	check(!dlopen(path, RTLD_NOW | RTLD_NOLOAD), "still there");
}

/* Everything once: needed.so, which was there before, and late.so, which comes and goes. */
static void all(char **paths)
{
	void (*needed)(const char *) = load(paths[0], "library_use");
	void (*late)(const char *);

	use("resolved");
	words("before");
	pfw_start(NULL);
	words("during");
	use("program");
	use_table("table");
	needed("needed");
	for (int i = 0; i < 3; i++) {
		late = load(paths[1], "library_use");
		late("late");
		if (i < 2)
			unload(paths[1]);
	}
	words("loaded");
	pfw_stop();
	words("after");
	use("unseen");
	needed("unseen");
	late("unseen");
	pfw_start(NULL);
	use("again");
	unload(paths[1]);
	pfw_stop();
	words("end");
	unload(paths[0]);
	use("unseen");
}

/* Found by the writer: nobody tells of an object without start-up code. */
static void untold(char **paths)
{
	void (*late)(const char *);
	char name[32];

	pfw_start(NULL);
	use("first"); /* now there is a writer */
	late = load(paths[0], "library_use");
	for (int i = 0; i < 150; i++) {
		snprintf(name, sizeof(name), "untold%d", i);
		late(name);
		use("program");
		usleep(20000);
	}
}

static void children(char **paths)
{
	pid_t pid;

	(void)paths;
	pfw_start(NULL);
	use("parent");
	pid = fork();
	if (!pid) {
		use("child");
		exit(0);
	}
	waitpid(pid, NULL, 0);
	pid = vfork();
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	use("after vfork");
}

static volatile int running = 1;

struct busy {
	char name[16];
	volatile unsigned rounds;
};

static void *be_busy(void *arg)
{
	struct busy *busy = arg;

	while (running) {
		use(busy->name);
		busy->rounds++;
		usleep(100);
	}
	return NULL;
}

/* On a loaded machine a thread may not run at all for a while: until it has made a whole round. */
static void wait_for_round(const struct busy *busy)
{
	unsigned first = busy->rounds;

	while (busy->rounds - first < 2)
		usleep(100);
}

/* Slots are rewritten while threads call through them. */
static void threads(char **paths)
{
	pthread_t thread[4];
	struct busy busy[4] = { 0 };
	void (*late)(const char *);

	for (int i = 0; i < 4; i++) {
		snprintf(busy[i].name, sizeof(busy[i].name), "busy%d", i);
		pthread_create(&thread[i], NULL, be_busy, &busy[i]);
	}
	for (int i = 0; i < 40; i++) {
		pfw_start(NULL);
		late = load(paths[0], "library_use");
		late("late");
		unload(paths[0]);
		usleep(1000);
		for (int k = 0; k < 4 && i == 20; k++)
			wait_for_round(&busy[k]);
		pfw_stop();
	}
	running = 0;
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
}

/* A child is forked while another thread loads objects and has them redirected. */
static void forks(char **paths)
{
	pthread_t thread;
	struct busy busy = { "busy", 0 };

	pfw_start(NULL);
	pthread_create(&thread, NULL, be_busy, &busy);
	for (int i = 0; i < 50; i++) {
		pid_t pid = fork();
		int status = 1;

		if (!pid) {
			void (*late)(const char *) = load(paths[0], "library_use");

			late("child");
			exit(0);
		}
		check(waitpid(pid, &status, 0) == pid && !status, "child");
		(void)load(paths[0], "library_use");
		unload(paths[0]);
	}
	running = 0;
	pthread_join(thread, NULL);
}

/* No descriptor for /proc/self/maps: said; and the next start finds one. */
static void full(char **paths)
{
	struct rlimit old, none = { 3, 3 };

	(void)paths;
	getrlimit(RLIMIT_NOFILE, &old);
	none.rlim_max = old.rlim_max;
	setrlimit(RLIMIT_NOFILE, &none);
	pfw_start(NULL);
	setrlimit(RLIMIT_NOFILE, &old);
	use("unseen");
	pfw_start(NULL);
	use("seen");
}

static void once(char **paths)
{
	pfw_start(NULL);
	for (; *paths; paths++)
		use(*paths);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(char **paths);
	} modes[] = { { "all", all },	      { "untold", untold }, { "children", children },
		      { "threads", threads }, { "forks", forks },   { "full", full },
		      { "once", once } };

	for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (!strcmp(modes[i].name, argv[1])) {
			modes[i].run(argv + 2);
			return 0;
		}
	}
	return 2;
}
