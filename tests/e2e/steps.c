/* steps.c - does what its arguments say, one step after the other: for test_names, test_failopen.
 *
 * Not linked to libpfw: where no recorder is preloaded, the steps of pfw.h do nothing.
 */
#include <pfw/pfw.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char *self;

static void print(const char *text)
{
	if (write(1, text, strlen(text)) < 0)
		exit(4);
}

static void check(int error, const char *step)
{
	char line[256];

	if (!error)
		return;
	snprintf(line, sizeof(line), "%s: %d\n", step, error);
	print(line);
}

/* ---- the steps: each takes its arguments and returns those that follow ---- */

static char **step_write(char **arg)
{
	int fd = open(arg[0], O_WRONLY | O_CREAT | O_APPEND, 0600);

	check(fd < 0 || write(fd, "step\n", 5) != 5 || close(fd) ? errno : 0, "write");
	return arg + 1;
}

/* Many 64-byte writes to one file, and a line when one of them failed. */
static char **step_writes(char **arg)
{
	static const char block[64];
	int fd = open(arg[0], O_WRONLY | O_CREAT | O_TRUNC, 0600), error = 0;

	for (long left = atol(arg[1]); left > 0 && !error; left--)
		if (pwrite(fd, block, sizeof(block), 0) != sizeof(block))
			error = errno;
	check(error, "writes");
	close(fd);
	return arg + 2;
}

static void *write_in_thread(void *path)
{
	step_write(&(char *){ path });
	return NULL;
}

static char **step_thread(char **arg)
{
	pthread_t thread;

	check(pthread_create(&thread, NULL, write_in_thread, arg[0]), "thread");
	pthread_join(thread, NULL);
	return arg + 1;
}

/* The rest is done by a child; the parent waits and ends as it did. */
static char **step_fork(char **arg)
{
	pid_t pid = fork();
	int status = 0;

	if (!pid)
		return arg;
	waitpid(pid, &status, 0);
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static char **step_exec(char **arg)
{
	arg[-1] = self;
	execv("/proc/self/exe", arg - 1);
	check(errno, "exec");
	exit(5);
}

static char **step_chdir(char **arg)
{
	check(chdir(arg[0]) ? errno : 0, "chdir");
	return arg + 1;
}

static char **step_rank(char **arg)
{
	check(pfw_set_rank(atoi(arg[0]), atoi(arg[1])), "rank");
	return arg + 2;
}

static char **step_start(char **arg)
{
	struct pfw_options options = { .bytes = sizeof(options), .log_file = arg[0] };

	check(pfw_start(&options), "start");
	return arg + 1;
}

static char **step_begin(char **arg)
{
	check(pfw_start(NULL), "begin");
	return arg;
}

static char **step_stop(char **arg)
{
	check(pfw_stop(), "stop");
	return arg;
}

static char **step_flush(char **arg)
{
	check(pfw_flush(), "flush");
	return arg;
}

static char **step_span(char **arg)
{
	PFW_SPAN(arg[0]);
	return arg + 1;
}

static char **step_print(char **arg)
{
	print(arg[0]);
	print("\n");
	return arg + 1;
}

static char **step_say(char **arg)
{
	check(write(2, arg[0], strlen(arg[0])) < 0 ? errno : 0, "say");
	return arg + 1;
}

/* The descriptors of this process, without the one that lists them. */
static char **step_fds(char **arg)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	char line[288];

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || atoi(entry->d_name) == dirfd(dir))
			continue;
		snprintf(line, sizeof(line), "fd %s\n", entry->d_name);
		print(line);
	}
	closedir(dir);
	return arg;
}

static char **step_lowest(char **arg)
{
	int fd = dup(0);
	char line[32];

	snprintf(line, sizeof(line), "lowest %d\n", fd);
	close(fd);
	print(line);
	return arg;
}

static char **step_closeall(char **arg)
{
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	return arg;
}

/* Tasks of this process: a disabled tracer has none of its own. */
static char **step_threads(char **arg)
{
	DIR *dir = opendir("/proc/self/task");
	char line[32];
	int count = 0;

	for (struct dirent *entry; dir && (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	closedir(dir);
	snprintf(line, sizeof(line), "threads %d\n", count);
	print(line);
	return arg;
}

static char **step_limit(char **arg)
{
	struct rlimit limit = { strtoul(arg[0], NULL, 0), RLIM_INFINITY };

	check(setrlimit(RLIMIT_FSIZE, &limit) ? errno : 0, "limit");
	return arg + 1;
}

static char **step_status(char **arg)
{
	exit(atoi(arg[0]));
}

/* Without exit's handlers. */
static char **step_leave(char **arg)
{
	(void)arg;
	_exit(0);
}

static char **step_kill(char **arg)
{
	raise(atoi(arg[0]));
	return arg + 1;
}

static const struct {
	const char *name;
	char **(*step)(char **arg);
} steps[] = {
	{ "write", step_write },   { "writes", step_writes },	  { "thread", step_thread },
	{ "fork", step_fork },	   { "exec", step_exec },	  { "chdir", step_chdir },
	{ "rank", step_rank },	   { "start", step_start },	  { "begin", step_begin },
	{ "stop", step_stop },	   { "flush", step_flush },	  { "span", step_span },
	{ "print", step_print },   { "say", step_say },		  { "fds", step_fds },
	{ "lowest", step_lowest }, { "closeall", step_closeall }, { "threads", step_threads },
	{ "limit", step_limit },   { "status", step_status },	  { "kill", step_kill },
	{ "leave", step_leave },
};

int main(int argc, char **argv)
{
	char **arg = argv + 1;

	(void)argc;
	self = argv[0];
	while (*arg) {
		size_t i = 0;

		while (i < sizeof(steps) / sizeof(*steps) && strcmp(steps[i].name, *arg))
			i++;
		if (i == sizeof(steps) / sizeof(*steps)) {
			fprintf(stderr, "steps: no step %s\n", *arg);
			return 2;
		}
		arg = steps[i].step(arg + 1);
	}
	return 0;
}
