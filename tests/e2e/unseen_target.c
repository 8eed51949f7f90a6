/* unseen_target.c - programs that look for the tracer: at their descriptors, locks and threads, in
 * other namespaces and roots, and under filters that refuse system calls.
 *
 * unseen_target MODE DIR [ARGUMENT...]: works in DIR and prints what it sees, which must be the same
 * when it is traced.  The last line is "preads N": so many lines of that call the trace must have.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Reads between two looks: with PFW_FLUSH_MS=1 the writer is at work. */
static unsigned portion = 500;
static unsigned preads;
static int data = -1; /* a file that stays open where the mode allows it */

static void fail(const char *what)
{
	dprintf(2, "unseen_target: %s: %s\n", what, strerror(errno));
	_exit(3);
}

static void say(const char *what, long value)
{
	printf("%s %ld\n", what, value);
}

/* What a call returned, with errno where it failed. */
static void say_result(const char *what, long value)
{
	int error = errno;

	if (value == -1)
		printf("%s -1 errno %d\n", what, error);
	else
		say(what, value);
}

static void nap(void)
{
	struct timespec ms = { 0, 1000000 };

	nanosleep(&ms, NULL);
}

static void read_on(int fd)
{
	char byte;

	for (unsigned i = 0; i < portion; i++) {
		if (pread(fd, &byte, 1, 0) != 1)
			fail("pread");
		preads++;
		if (i % 100 == 0)
			nap();
	}
}

static int open_data(void)
{
	int fd = open("data", O_RDWR | O_CREAT, 0666);

	if (fd < 0 || pwrite(fd, "x", 1, 0) != 1)
		fail("data");
	return fd;
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* The numbers in /proc/self/fd or /proc/self/task, sorted, without the one it is read by. */
static int numbers(const char *path, int *found, int room)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int count = 0;

	if (!dir)
		fail(path);
	while ((entry = readdir(dir)) && count < room)
		if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(dir))
			found[count++] = atoi(entry->d_name);
	closedir(dir);
	qsort(found, (size_t)count, sizeof(*found), compare);
	return count;
}

static void say_fds(const char *when)
{
	int most = getenv("MOST") ? atoi(getenv("MOST")) : 1 << 30;
	static int found[20000];
	int count = numbers("/proc/self/fd", found, 20000);

	printf("%s:", when);
	for (int i = 0; i < count; i++)
		if (found[i] < most)
			printf(" %d", found[i]);
	printf("\n");
}

static int threads(void)
{
	int found[64];

	return numbers("/proc/self/task", found, 64);
}

static void say_status(const char *what, pid_t pid)
{
	int status = 0;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		fail(what);
	say(what, status);
}

/* ---- close: everything, in each of the ways there are ---- */

static void close_listed(void)
{
	static int found[20000];
	int count = numbers("/proc/self/fd", found, 20000);

	for (int i = 0; i < count; i++)
		if (found[i] > 2 && close(found[i]) < 0 && errno != EBADF)
			fail("close");
}

static void close_how(const char *how)
{
	if (!strcmp(how, "loop")) {
		int closed = 0;

		for (int fd = 3; fd < 65536; fd++)
			closed += close(fd) == 0;
		say("closed", closed);
	} else if (!strcmp(how, "close_range")) {
		say_result("close_range", close_range(3, ~0u, 0));
	} else if (!strcmp(how, "unshare")) {
		say_result("close_range", close_range(3, ~0u, CLOSE_RANGE_UNSHARE));
	} else if (!strcmp(how, "closefrom")) {
		closefrom(3);
	} else if (!strcmp(how, "listed")) {
		close_listed();
	} else if (!strcmp(how, "dup2")) {
		for (int fd = 3; fd < 1024; fd++)
			if (dup2(2, fd) != fd)
				fail("dup2");
		for (int fd = 3; fd < 1024; fd++)
			if (close(fd) < 0)
				fail("close");
	} else if (!strcmp(how, "dup3")) {
		say_result("dup3", dup3(2, 1023, O_CLOEXEC));
		say_result("dup2", dup2(2, 1022));
		closefrom(3);
	} else {
		fail("no such way");
	}
}

static void mode_close(const char *how)
{
	int fd = open_data();

	read_on(fd);
	say_fds("before");
	close_how(how);
	say_fds("after");
	fd = open_data();
	say("opened", fd);
	read_on(fd);
	say_fds("open");
	close_how(how);
	fd = open_data();
	read_on(fd);
	say_fds("end");
}

/* ---- numbers: the lowest free one, each time ---- */

static void mode_numbers(void)
{
	int high = dup(data), wrong = 0;

	for (int i = 0; i < 3000; i++) {
		int fd = open("data", O_RDONLY), copy = dup(fd);

		wrong += fd != high + 1 || copy != high + 2;
		close(fd);
		close(copy);
		if (i % 100 == 0)
			read_on(high);
	}
	say("wrong numbers", wrong);
	if (wrong)
		_exit(5);
}

/* ---- limit: how many it takes until EMFILE ---- */

static void mode_limit(const char *how_many)
{
	rlim_t most = (rlim_t)atoi(how_many);
	struct rlimit limit = { most, most };
	int *fd = calloc(most, sizeof(*fd)), count = 0;

	if (!fd || setrlimit(RLIMIT_NOFILE, &limit) < 0)
		fail("setrlimit");
	do {
		fd[count] = open("data", O_RDONLY);
	} while (fd[count] >= 0 && ++count < (int)most);
	say_result("last", fd[count]);
	say("opened", count);
	for (int i = 0; i < 3; i++)
		read_on(data);
	while (count > 0)
		close(fd[--count]);
	say("again", open("data", O_RDONLY));
	free(fd);
}

/* ---- hold: many files at once ---- */

static void mode_hold(const char *how_many)
{
	int most = atoi(how_many);
	struct rlimit limit = { (rlim_t)most + 64, (rlim_t)most + 64 };
	int wrong = 0;

	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		fail("setrlimit");
	for (int i = 0; i < most; i++) {
		wrong += open("data", O_RDONLY) != data + 1 + i;
		if (i % 2000 == 0)
			read_on(data);
	}
	say("wrong numbers", wrong);
	read_on(data + most);
	read_on(data + most / 2);
	closefrom(data + 1);
	say("next", open("data", O_RDONLY));
}

/* ---- locks: they stay, and others see them, whatever the writer does ---- */

/* Another process's look at the three locks. */
static void say_locks(const char *when)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	pid_t parent = getpid(), pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int fd = open("data", O_RDWR);

		printf("%s: flock %d", when, flock(fd, LOCK_EX | LOCK_NB));
		fcntl(fd, F_GETLK, &lock);
		printf(" posix %d mine %d", lock.l_type, lock.l_pid == parent);
		lock = (struct flock){ .l_type = F_WRLCK, .l_start = 10, .l_len = 1 };
		printf(" ofd %d\n", fcntl(fd, F_OFD_SETLK, &lock));
		fflush(stdout);
		_exit(0);
	}
	say_status("child", pid);
}

static void mode_locks(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };

	say_result("posix", fcntl(data, F_SETLK, &lock));
	lock = (struct flock){ .l_type = F_WRLCK, .l_start = 10, .l_len = 1 };
	say_result("ofd", fcntl(data, F_OFD_SETLK, &lock));
	say_result("flock", flock(data, LOCK_EX));
	say_locks("fresh");
	read_on(data);
	say_locks("busy");
	for (int i = 0; i < 3; i++)
		nap();
	execl("/no/such/program", "x", (char *)NULL);
	say_locks("after an exec that failed");
	read_on(data);
	say_result("unlock", flock(data, LOCK_UN));
	say_locks("unlocked");
	read_on(data);
}

/* ---- threads: one, around fork and unshare ---- */

static void mode_threads(void)
{
	for (int i = 0; i < 5; i++) {
		pid_t pid;

		read_on(data);
		fflush(stdout);
		pid = fork();
		if (pid == 0)
			_exit(threads());
		say("after fork", threads());
		say_status("in the child", pid);
	}
}

/* Each in a child: what it changes cannot be changed back. */
static void try_unshare(const char *what, int flags)
{
	pid_t pid;

	read_on(data);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		preads = 0;
		read_on(data);
		say_result(what, unshare(flags));
		read_on(data);
		fflush(stdout);
		exit(0);
	}
	say_status("child", pid);
	preads += 2 * portion;
}

static void try_setns(const char *name, int type)
{
	char path[64];
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int fd;

		snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
		fd = open(path, O_RDONLY);
		preads = 0;
		read_on(data);
		printf("%s: ", name);
		say_result("setns", setns(fd, type));
		read_on(data);
		fflush(stdout);
		exit(0);
	}
	say_status("child", pid);
	preads += 2 * portion;
}

static void mode_unshare(void)
{
	try_unshare("files", CLONE_FILES);
	try_unshare("fs", CLONE_FS);
	try_unshare("user", CLONE_NEWUSER);
	try_unshare("user and mounts", CLONE_NEWUSER | CLONE_NEWNS);
	try_unshare("mounts", CLONE_NEWNS);
	try_unshare("pids", CLONE_NEWPID);
	try_unshare("names", CLONE_NEWUTS);
	try_unshare("thread", CLONE_THREAD);
	try_unshare("memory", CLONE_VM);
	try_unshare("nonsense", 1);
	try_setns("mnt", CLONE_NEWNS);
	try_setns("mnt", 0);
	try_setns("user", CLONE_NEWUSER);
	try_setns("uts", 0);
	try_setns("uts", CLONE_NEWUSER);
}

/* ---- roots: the trace is where it was, the program elsewhere ---- */

static void idle(void)
{
	for (int i = 0; i < 2600; i++) /* the writer goes home after two seconds */
		nap();
}

/* The program goes on: in place, after a rest, with a child, with an exec that fails. */
static void live_on(const char *how)
{
	pid_t pid;

	read_on(data);
	if (strchr(how, 'i')) {
		idle();
		read_on(data);
	}
	if (strchr(how, 'x')) {
		execl("/no/such/program", "x", (char *)NULL);
		read_on(data);
	}
	if (strchr(how, 'f')) {
		fflush(stdout);
		pid = fork();
		if (pid == 0)
			_exit(0);
		say_status("child", pid);
		read_on(data);
	}
}

/* As setpriv does: another user, with capabilities that are kept for the groups and then given up.
 * They are a thread's own, so libc, which has every thread that it knows change its user, kills a
 * program where one of them has not kept them. */
static void give_up_and_keep(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct caps[2];

	say_result("keep", prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
	say_result("setresuid", setresuid(65534, 65534, 65534));
	if (syscall(SYS_capget, &header, caps))
		fail("capget");
	caps[0].effective = caps[0].permitted;
	caps[1].effective = caps[1].permitted;
	say_result("capset", syscall(SYS_capset, &header, caps));
	say_result("setresgid", setresgid(65534, 65534, 65534));
	say_result("setgroups", setgroups(0, NULL));
	memset(caps, 0, sizeof(caps));
	say_result("capset", syscall(SYS_capset, &header, caps));
}

static void mode_root(const char *how)
{
	if (!strchr(how, 'n')) /* nothing recorded before */
		read_on(data);
	if (strchr(how, 'm')) {
		say_result("unshare", unshare(CLONE_NEWNS));
		say_result("private", mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
		say_result("mount", mount("none", "/dev/shm", "tmpfs", 0, NULL));
		if (getenv("HIDE"))
			say_result("hide", mount("none", getenv("HIDE"), "tmpfs", 0, NULL));
	}
	if (strchr(how, 'c'))
		say_result("chroot", chroot("."));
	if (strchr(how, 'd'))
		say_result("chdir", chdir("/"));
	if (strchr(how, 'u')) {
		say_result("setgroups", setgroups(0, NULL));
		say_result("setgid", setgid(65534));
		say_result("setuid", setuid(65534));
	}
	if (strchr(how, 'k'))
		give_up_and_keep();
	live_on(how);
}

/* A child that is process 1 of a new pid namespace, /proc being the old one's. */
static void mode_pids(void)
{
	pid_t pid[2];

	read_on(data);
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		if (pid[i] == 0) {
			preads = 0;
			if (unshare(CLONE_NEWPID) < 0)
				fail("unshare");
			pid[0] = fork();
			if (pid[0] == 0) {
				say("pid", getpid());
				read_on(data);
				read_on(data);
				fflush(stdout);
				exit(0);
			}
			waitpid(pid[0], NULL, 0);
			_exit(0);
		}
		preads += 2 * portion;
	}
	say_status("first", pid[0]);
	say_status("second", pid[1]);
	read_on(data);
}

/* ---- filter: a mode under a filter that answers some system calls with an error ---- */

/* What the tracer calls for itself. */
/* clang-format off */
static const struct {
	const char *name;
	unsigned number;
} calls[] = {
#define CALL(name)                \
	{                         \
#name, SYS_##name \
	}
	CALL(clock_gettime),
	CALL(clock_nanosleep),
	CALL(clone), /* neither a thread nor a child */
	CALL(clone3),
	CALL(close),
	CALL(close_range),
	CALL(fallocate),
	CALL(fcntl),
	CALL(flock),
	CALL(fstatfs),
	CALL(ftruncate),
	CALL(futex),
	CALL(getcwd),
	CALL(geteuid),
	CALL(getpeername),
	CALL(getpid),
	CALL(getppid),
	CALL(getsid),
	CALL(getsockname),
	CALL(getsockopt),
	CALL(gettid),
	CALL(linkat),
	CALL(madvise),
	CALL(memfd_create),
	CALL(mkdirat),
	CALL(mmap),
	CALL(munmap),
	CALL(newfstatat),
	CALL(openat),
	CALL(pidfd_getfd),
	CALL(pidfd_open),
	CALL(prctl),
	CALL(prlimit64),
	CALL(pwrite64),
	CALL(read),
	CALL(readlinkat),
	CALL(renameat2),
	CALL(rt_sigprocmask),
	CALL(tgkill),
	CALL(uname),
	CALL(process_vm_readv),
	CALL(unlinkat),
	CALL(unshare),
	CALL(write),
#undef CALL
};
/* clang-format on */

static unsigned number_of(const char *name)
{
	for (unsigned i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (!strcmp(calls[i].name, name))
			return calls[i].number;
	errno = ENOENT;
	fail(name);
	return 0;
}

#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void install(int error, char **call, int count)
{
	struct sock_filter filter[64];
	struct sock_fprog program = { 0, filter };
	unsigned n = 0;

	filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						   offsetof(struct seccomp_data, nr));
	for (int i = 0; i < count && n + 4 < 64; i++) {
		filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							   number_of(call[i]), 0, 1);
		filter[n++] = (struct sock_filter)BPF_STMT(
			BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((unsigned)error & SECCOMP_RET_DATA));
	}
	filter[n++] = (struct sock_filter)ALLOW;
	program.len = (unsigned short)n;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
		fail("seccomp");
}

/* filter DIR ERRNO NAME... -- PROGRAM ARGUMENT... */
static void mode_filter(int count, char **argument)
{
	int calls = 1;

	while (calls < count && strcmp(argument[calls], "--") != 0)
		calls++;
	if (calls + 1 >= count)
		fail("usage: filter DIR ERRNO NAME... -- PROGRAM ARGUMENT...");
	install(atoi(argument[0]), argument + 1, calls - 1);
	execv(argument[calls + 1], argument + calls + 1);
	fail("exec");
}

/* The same filter, put on by the program itself in the middle of its work. */
static void mode_late(int count, char **argument)
{
	pid_t pid;

	read_on(data);
	install(atoi(argument[0]), argument + 1, count - 1);
	read_on(data);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(0);
	say_status("child", pid);
	read_on(data);
}

/* Some of everything, under a filter. */
static void mode_work(void)
{
	FILE *stream;
	pid_t pid;

	read_on(data);
	stream = fopen("stream", "w");
	say("printed", stream ? fprintf(stream, "%d\n", 12345) : -1);
	say_result("fclose", stream ? fclose(stream) : -1);
	say_result("rename", rename("stream", "river"));
	say_result("unlink", unlink("river"));
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		read_on(data);
		_exit(0);
	}
	if (pid > 0) { /* or no process can be made */
		say_status("child", pid);
		preads += portion;
	}
	read_on(data);
}

/* ---- halves: so much, then a byte from standard input, then as much again ---- */

static void wait_in_the_middle(void)
{
	char byte;

	if (write(1, "half\n", 5) != 5 || read(0, &byte, 1) < 0)
		fail("the middle");
}

static void mode_halves(const char *half)
{
	portion = (unsigned)atoi(half);
	read_on(data);
	wait_in_the_middle();
	read_on(data);
}

/* The parent is killed in the middle; the child, made without fork()'s handlers, goes on. */
static void mode_orphan(const char *child)
{
	pid_t pid;

	read_on(data);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid < 0)
		fail("clone");
	if (pid > 0)
		for (;;)
			pause();
	preads = 0;
	if (!strcmp(child, "works"))
		read_on(data);
	wait_in_the_middle();
	read_on(data);
}

/* calls: the names that a filter may be made of. */
static void mode_calls(void)
{
	for (unsigned i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		printf("%s\n", calls[i].name);
	exit(fflush(stdout));
}

static void run_mode(const char *mode, int count, char **argument)
{
	if (!strcmp(mode, "numbers"))
		mode_numbers();
	else if (!strcmp(mode, "limit"))
		mode_limit(argument[0]);
	else if (!strcmp(mode, "hold"))
		mode_hold(argument[0]);
	else if (!strcmp(mode, "locks"))
		mode_locks();
	else if (!strcmp(mode, "threads"))
		mode_threads();
	else if (!strcmp(mode, "unshare"))
		mode_unshare();
	else if (!strcmp(mode, "root"))
		mode_root(argument[0]);
	else if (!strcmp(mode, "pids"))
		mode_pids();
	else if (!strcmp(mode, "begun"))
		read_on(data);
	else if (!strcmp(mode, "halves"))
		mode_halves(argument[0]);
	else if (!strcmp(mode, "orphan"))
		mode_orphan(argument[0]);
	else if (!strcmp(mode, "late"))
		mode_late(count, argument);
	else if (!strcmp(mode, "work"))
		mode_work();
	else
		fail("no such mode");
}

int main(int argc, char **argv)
{
	if (argc < 3 || chdir(argv[2]) < 0)
		fail("usage: unseen_target MODE DIR [ARGUMENT...]");
	if (!strcmp(argv[1], "filter"))
		mode_filter(argc - 3, argv + 3);
	if (!strcmp(argv[1], "calls"))
		mode_calls();
	if (!strcmp(argv[1], "begun")) /* nothing but a spool without events */
		wait_in_the_middle();
	if (!strcmp(argv[1], "close")) {
		mode_close(argc > 3 ? argv[3] : "");
	} else {
		data = open_data();
		run_mode(argv[1], argc - 3, argv + 3);
	}
	say("preads", preads);
	return fflush(stdout) ? 4 : 0;
}
