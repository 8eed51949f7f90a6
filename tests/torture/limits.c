/* limits.c - limits at their floors, filters, other roots and other users. */
#include "torture.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

static void limit(int which, rlim_t value)
{
	struct rlimit both = { value, value };

	must(!setrlimit(which, &both), "setrlimit");
}

/* From the start: exec with so many descriptors; the loader needs one, the case one at a time. */
static int run_nofile_exec(long count, char **rest)
{
	char number[32];

	limit(RLIMIT_NOFILE, (rlim_t)atol(rest[0]));
	snprintf(number, sizeof(number), "%ld", count);
	close(data_fd);
	execl(self, self, directory, "ticks", number, (char *)NULL);
	return 1;
}

/* On the way: every descriptor is taken before the first event, and more than a ring holds comes. */
static int run_nofile(long count, char **rest)
{
	int taken = 0;

	(void)rest;
	limit(RLIMIT_NOFILE, 64);
	while (dup(2) >= 0)
		taken++;
	printf("%d left, then %s\n", taken, strerror(errno));
	ticks(count);
	printf("%s\n", open("/dev/null", O_RDONLY) < 0 ? strerror(errno) : "open");
	return 0;
}

/* Not a page is left. */
static int run_as(long count, char **rest)
{
	FILE *statm = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	must(fscanf(statm, "%lu", &pages) == 1, "statm");
	fclose(statm);
	limit(RLIMIT_AS, (pages << 12) + (rlim_t)(atol(rest[0]) << 10));
	ticks(count);
	return 0;
}

static void count_signal(int number)
{
	char text[] = "SIGXFSZ\n";

	(void)number;
	if (write(1, text, sizeof(text) - 1) < 0)
		_exit(95);
}

/* No SIGXFSZ but the program's own. */
static int run_fsize(long count, char **rest)
{
	char path[4200];
	int fd;

	snprintf(path, sizeof(path), "%s/grown", directory);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	signal(SIGXFSZ, count_signal);
	limit(RLIMIT_FSIZE, (rlim_t)atol(rest[0]));
	ticks(count);
	printf("past the limit: %zd", pwrite(fd, "x", 1, atol(rest[0])));
	printf(" %d\n", errno);
	return 0;
}

static int run_core(long count, char **rest)
{
	(void)rest;
	limit(RLIMIT_CORE, 0);
	ticks(count);
	abort();
}

static void become_nobody(void)
{
	must(!setgroups(0, NULL) && !setresgid(NOBODY, NOBODY, NOBODY) &&
		     !setresuid(NOBODY, NOBODY, NOBODY),
	     "setresuid");
}

static void *nothing(void *unused)
{
	return unused;
}

/* Neither a thread nor a process more. */
static int run_nproc(long count, char **rest)
{
	pthread_t thread;

	(void)rest;
	limit(RLIMIT_NPROC, 0);
	ticks(count);
	printf("fork: %d, thread: %s\n", fork(),
	       strerror(pthread_create(&thread, NULL, nothing, NULL)));
	ticks(1);
	return 0;
}

/* As a daemon does: it began as root. */
static int run_drop(long count, char **rest)
{
	(void)rest;
	ticks(count);
	become_nobody();
	ticks(count);
	printf("uid %d %d\n", (int)getuid(), (int)geteuid());
	if (rest[0] && !strcmp(rest[0], "idle"))
		sleep(3); /* the tracer's thread has gone to rest by then */
	ticks(count);
	if (rest[0] && !strcmp(rest[0], "fork")) {
		if (!fork()) {
			unwitnessed(); /* it has a trace of its own, which it may not be able to make */
			_exit(0);
		}
		must(wait_all() == 0, "child");
		ticks(count);
	}
	return 0;
}

static int run_chroot(long count, char **rest)
{
	char path[4200];

	(void)rest;
	ticks(count);
	snprintf(path, sizeof(path), "%s/root", directory);
	must(!mkdir(path, 0755) && !chroot(path) && !chdir("/"), "chroot");
	ticks(count);
	printf("%s\n", access("/data", R_OK) ? "another root" : "the same root");
	return 0;
}

/* A user namespace of one's own is refused to a process with two threads. */
static int run_unshare(long count, char **rest)
{
	(void)rest;
	ticks(count);
	printf("unshare: %d\n", unshare(CLONE_NEWUSER | CLONE_NEWNS));
	ticks(count);
	return 0;
}

static int run_umask(long count, char **rest)
{
	struct stat st;
	char path[4200];

	(void)rest;
	umask(0);
	ticks(count);
	snprintf(path, sizeof(path), "%s/mode", directory);
	close(open(path, O_CREAT | O_WRONLY, 0666));
	stat(path, &st);
	printf("%o, umask %o\n", st.st_mode & 0777, umask(0077));
	umask(0777);
	ticks(count);
	printf("umask %o\n", umask(0022));
	return 0;
}

static int run_cwd(long count, char **rest)
{
	char path[4200], cwd[4200];

	(void)rest;
	snprintf(path, sizeof(path), "%s/gone", directory);
	must(!mkdir(path, 0700) && !chdir(path) && !rmdir(path), path);
	ticks(count);
	printf("%s, %s\n", getcwd(cwd, sizeof(cwd)) ? cwd : strerror(errno),
	       open("relative", O_RDONLY) < 0 ? strerror(errno) : "open");
	return 0;
}

static int run_locale(long count, char **rest)
{
	(void)rest;
	printf("%s\n", setlocale(LC_ALL, "") ? "set" : "not set");
	ticks(count);
	printf("%s %.2f\n", setlocale(LC_ALL, NULL), 1234.5);
	return 0;
}

/* ---- seccomp ---- */

struct rule {
	long number;
	unsigned action;
};

/* Each of these calls has its action; all others are allowed. */
static void filter(const struct rule *rule, int count, unsigned flags)
{
	struct sock_filter code[64] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr)) };
	struct sock_fprog program = { .filter = code };
	int at = 1;

	for (int i = 0; i < count; i++) {
		code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							  (unsigned)rule[i].number, 0, 1);
		code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, rule[i].action);
	}
	code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = (unsigned short)at;
	must(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
	must(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program), "seccomp");
}

#define REFUSE(error) (SECCOMP_RET_ERRNO | (error))

static const struct rule no_table[] = { { SYS_close_range, REFUSE(ENOSYS) },
					{ SYS_unshare, REFUSE(EPERM) } };
static const struct rule no_thread[] = { { SYS_clone, REFUSE(EPERM) },
					 { SYS_clone3, REFUSE(ENOSYS) } };
static const struct rule no_extras[] = {
	{ SYS_close_range, REFUSE(ENOSYS) },	 { SYS_unshare, REFUSE(EPERM) },
	{ SYS_process_vm_readv, REFUSE(EPERM) }, { SYS_fallocate, REFUSE(EOPNOTSUPP) },
	{ SYS_flock, REFUSE(ENOSYS) },		 { SYS_prlimit64, REFUSE(EPERM) },
	{ SYS_renameat2, REFUSE(ENOSYS) },	 { SYS_fstatfs, REFUSE(EPERM) },
	{ SYS_statx, REFUSE(ENOSYS) },		 { SYS_madvise, REFUSE(EPERM) },
	{ SYS_clock_nanosleep, REFUSE(ENOSYS) },
};

/* From the start (exec'd under the filter), or put on between two events. */
static int run_seccomp(long count, char **rest)
{
	char number[32];
	int from_start = rest[1] != NULL;

	if (!from_start)
		ticks(count);
	if (!strcmp(rest[0], "table"))
		filter(no_table, 2, 0);
	else if (!strcmp(rest[0], "thread"))
		filter(no_thread, 2, 0);
	else
		filter(no_extras, sizeof(no_extras) / sizeof(*no_extras), 0);
	snprintf(number, sizeof(number), "%ld", count);
	if (from_start) {
		execl(self, self, directory, "ticks", number, (char *)NULL);
		return 1;
	}
	ticks(count);
	return 0;
}

const struct mode limit_modes[] = {
	{ "nofile", run_nofile },   { "nofile-exec", run_nofile_exec },
	{ "as", run_as },	    { "fsize", run_fsize },
	{ "core", run_core },	    { "nproc", run_nproc },
	{ "drop", run_drop },	    { "chroot", run_chroot },
	{ "unshare", run_unshare }, { "umask", run_umask },
	{ "cwd", run_cwd },	    { "locale", run_locale },
	{ "seccomp", run_seccomp }, { NULL, NULL },
};
