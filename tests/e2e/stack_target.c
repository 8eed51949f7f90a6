/* stack_target.c - one thing done by a thread whose stack is a file, painted: who reads the file
 * afterwards knows how deep it went.
 *
 * stack_target STACK MODE [thread|signal]: STACK is made.  Signal: in a handler on that stack.  Each
 * mode does what it says as the thread's first traced thing; the stack also shows what a last call
 * (_exit, exec) took.  A child has a copy of the stack, which it leaves in STACK.child.  77: cannot be
 * done here.
 */
#define _GNU_SOURCE
#define PFW_OPTIONAL
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pfw/pfw.h>

#define PFW_OS_NO_POISON
#include "common/base/os.h"

#define STACK_BYTES 262144
#define HEAP_BYTES 65536

extern char **environ;
static const char *mode, *file;
static char *stack;
static char heap[HEAP_BYTES];

static int is(const char *name)
{
	return !strcmp(mode, name);
}

static void touch(void)
{
	int fd = open("/etc/passwd", O_RDONLY);
	char byte;

	if (pread(fd, &byte, 1, 0) != 1)
		_exit(9);
	close(fd);
}

static void reap(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) == pid && WIFSIGNALED(status))
		_exit(100 + WTERMSIG(status));
}

/* By system calls of its own, which take no stack of the tracer's. */
static void leave(const char *suffix, const char *bytes, size_t size)
{
	char name[4096];
	long fd;

	snprintf(name, sizeof(name), "%s%s", file, suffix);
	fd = pfw_syscall6(SYS_openat, AT_FDCWD, (long)name, O_WRONLY | O_CREAT, 0600, 0, 0);
	pfw_syscall6(SYS_write, fd, (long)bytes, (long)size, 0, 0, 0);
	pfw_syscall6(SYS_close, fd, 0, 0, 0, 0, 0);
}

static int child(void *unused)
{
	(void)unused;
	touch();
	leave(".child", heap, HEAP_BYTES);
	return 0;
}

static void many(void)
{
	int fd = open("/etc/passwd", O_RDONLY);
	char byte;

	for (int i = 0; i < 20000; i++)
		if (pread(fd, &byte, 1, 0) != 1)
			_exit(9);
	close(fd);
}

static void far_away(void)
{
	char *deep = heap;

	strcpy(deep, "/tmp");
	while (strlen(deep) < 3000)
		strcat(deep, "/.////////////////////////////////////////////////././././../tmp");
	close(open(deep, O_RDONLY | O_DIRECTORY));
	if (!chdir("/usr/lib"))
		access("relative/name", F_OK);
}

/* Spans whose arguments are more than a record holds. */
static void spans(void)
{
	struct pfw_span span;

	memset(heap, 'x', 4000);
	for (int i = 0; i < 5; i++) {
		pfw_span_begin(&span, i % 2 ? "inner" : heap, "app");
		for (int k = 0; k < 4 * i; k++)
			pfw_span_arg_str(&span, "key", heap);
		pfw_span_arg_int(&span, "n", i);
		pfw_span_arg_double(&span, "d", i);
		pfw_span_end(&span);
	}
	pfw_event("event", "app", 1700000000000000000, 5);
	pfw_instant("instant", NULL);
	pfw_counter("counter", "series", 1);
}

static void compute(void)
{
	struct pfw_compute event = { .struct_bytes = sizeof(event), .name = heap };

	memset(heap, 'x', 3000);
	event.fields = PFW_HAS(kind) | PFW_HAS(device) | PFW_HAS(stack) | PFW_HAS(input_shapes);
	event.stack = heap;
	event.input_shapes = "[[1,2],[3]]";
	pfw_compute_event(&event);
}

static void steps(void)
{
	const struct pfw_schedule schedule = { .active = 1, .warmup = 1, .repeat = 2 };

	pfw_set_schedule(&schedule);
	for (int i = 0; i < 6; i++) {
		touch();
		pfw_step();
	}
	pfw_set_schedule(NULL);
}

static void rename_it(void)
{
	char base[64];
	struct pfw_options options = { .bytes = sizeof(options),
				       .log_file = base,
				       .data_dir = "/etc:/tmp" };

	touch();
	snprintf(base, sizeof(base), "renamed-%d", getpid());
	pfw_start(&options);
	pfw_set_rank(1, 2);
	touch();
	pfw_flush();
	pfw_stop();
	pfw_start(NULL);
	touch();
}

static void processes(void)
{
	char *const arguments[] = { (char *)"true", NULL };
	pid_t pid;

	if (is("fork")) {
		pid = fork();
		if (!pid) {
			touch();
			leave(".child", stack, STACK_BYTES);
			_exit(0);
		}
		reap(pid);
	} else if (is("fork-many")) {
		pid = fork();
		if (!pid) {
			many();
			leave(".child", stack, STACK_BYTES);
			exit(0);
		}
		reap(pid);
	} else if (is("vfork")) {
		pid = vfork();
		if (!pid) {
			execv("/bin/true", arguments);
			_exit(1);
		}
		reap(pid);
	} else if (is("clone")) {
		memset(heap, 0x5a, sizeof(heap));
		reap(clone(child, heap + HEAP_BYTES, SIGCHLD, NULL));
	} else if (is("spawn")) {
		if (!posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ))
			reap(pid);
	} else if (is("system")) {
		touch();
		if (system("true"))
			_exit(9);
	} else if (is("popen")) {
		FILE *pipe = popen("true", "r");

		pclose(pipe);
	} else if (is("daemon")) {
		touch();
		if (daemon(1, 1))
			_exit(9);
		touch();
		leave(".child", stack, STACK_BYTES);
	}
}

static void last(void)
{
	if (is("first-exit")) {
		_exit(0);
	} else if (is("_exit")) {
		touch();
		_exit(0);
	} else if (is("exit")) {
		touch();
		exit(0);
	} else if (is("quick_exit")) {
		touch();
		quick_exit(0);
	} else if (is("exec")) {
		touch();
		execl("/bin/true", "true", (char *)NULL);
	} else if (is("exec-fails")) {
		touch();
		execl("/nowhere", "nowhere", (char *)NULL);
		touch();
	} else if (is("clean")) {
		char *const none[] = { NULL };

		touch();
		execle("/bin/true", "true", (char *)NULL, none);
	}
}

static void rights(void)
{
	if (is("setuid")) {
		touch();
		if (seteuid(geteuid()) || setresuid(-1, geteuid(), -1))
			_exit(9);
	} else if (is("unshare")) {
		touch();
		if (unshare(CLONE_NEWNS))
			_exit(77);
	} else if (is("chroot")) {
		touch();
		if (chroot("/"))
			_exit(77);
	} else if (is("prctl")) {
		touch();
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
			_exit(9);
	}
}

static void work(void)
{
	if (is("touch"))
		touch();
	else if (is("many"))
		many();
	else if (is("paths"))
		far_away();
	else if (is("spans"))
		spans();
	else if (is("compute"))
		compute();
	else if (is("steps"))
		steps();
	else if (is("rename"))
		rename_it();
	processes();
	last();
	rights();
}

static void *thread(void *unused)
{
	work();
	return unused;
}

static void handler(int number)
{
	(void)number;
	work();
}

static void on_stack(int in_handler)
{
	stack_t other = { .ss_sp = stack, .ss_size = STACK_BYTES };
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
	pthread_attr_t attr;
	pthread_t id;

	if (in_handler) {
		sigaltstack(&other, NULL);
		sigaction(SIGUSR1, &action, NULL);
		raise(SIGUSR1);
		return;
	}
	pthread_attr_init(&attr);
	if (pthread_attr_setstack(&attr, stack, STACK_BYTES) ||
	    pthread_create(&id, &attr, thread, NULL))
		_exit(9);
	pthread_join(id, NULL);
}

int main(int argc, char **argv)
{
	int fd, copied;

	if (argc < 3)
		return 9;
	file = argv[1];
	mode = argv[2];
	copied = is("fork") || is("fork-many") || is("clone") || is("daemon");
	fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || ftruncate(fd, STACK_BYTES))
		return 9;
	stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, copied ? MAP_PRIVATE : MAP_SHARED,
		     fd, 0);
	close(fd);
	memset(stack, 0x5a, STACK_BYTES);
	on_stack(argc > 3 && !strcmp(argv[3], "signal"));
	if (copied)
		leave("", stack, STACK_BYTES);
	return 0;
}
