/* tests/security/sandbox_target.c - a program that gives up rights, one word of its arguments at a time. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int capset(cap_user_header_t, const cap_user_data_t);

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	_exit(1);
}

static void must(int ok, const char *what)
{
	if (!ok)
		fail(what);
}

static void work(int times)
{
	while (times--)
		must(!access("/", F_OK), "access");
}

/* The word, then for each thread a line: what it may do.  By system calls, so that it is no event. */
static void threads(void)
{
	static const char *const keys[] = { "CapPrm", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp" };
	char entries[4096], path[300], text[8192];
	int dir = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY);
	long bytes = syscall(SYS_getdents64, dir, entries, sizeof(entries));

	printf("threads\n");
	for (long at = 0; at < bytes; at += *(uint16_t *)(void *)(entries + at + 16)) {
		const char *tid = entries + at + 19;
		long fd, n = 0;

		if (*tid == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", tid);
		fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
		must(fd >= 0, path);
		n = syscall(SYS_read, fd, text, sizeof(text) - 1);
		must(n > 0, path);
		text[n] = '\0';
		syscall(SYS_close, fd);
		for (unsigned i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
			const char *value = strstr(text, keys[i]);

			must(value != NULL, keys[i]);
			printf(" %.*s", (int)strcspn(value, "\n"), value);
		}
		printf("\n");
	}
	syscall(SYS_close, dir);
}

/* ---- capabilities ---- */

static void caps(int by_number)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, (int)getpid() };
	struct __user_cap_data_struct none[2] = { { 0 } };

	must(!(by_number ? (int)syscall(SYS_capset, &header, none) : capset(&header, none)),
	     "capset");
}

static void no_caps(void)
{
	caps(0);
}

static void change_root(void)
{
	must(!chroot("/proc/self/fdinfo"), "chroot");
}

static void become_nobody(void)
{
	must(!setuid(65534), "setuid");
}

static void set(int option, unsigned long value)
{
	must(!prctl(option, value, 0UL, 0UL, 0UL), "prctl");
}

/* ---- Landlock ---- */

static void landlock(uint32_t flags)
{
	uint64_t all =
		(1ull << 13) - 1; /* the rights of the first version, and nothing is allowed */
	int fd = (int)syscall(444 /* landlock_create_ruleset */, &all, sizeof(all), 0);

	must(fd >= 0, "landlock_create_ruleset");
	set(PR_SET_NO_NEW_PRIVS, 1);
	must(!syscall(446 /* landlock_restrict_self */, fd, flags), "landlock_restrict_self");
	close(fd);
	must(access("/", F_OK) == 0 && open("/", O_RDONLY | O_DIRECTORY) < 0, "Landlock");
}

/* ---- seccomp ---- */

static void put_on(struct sock_filter *code, unsigned short count, int by_number, unsigned flags)
{
	struct sock_fprog program = { count, code };

	set(PR_SET_NO_NEW_PRIVS, 1);
	must(!(by_number ? (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program)
			 : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0UL, 0UL)),
	     "seccomp");
}

/* This answer for one call, if `argument` is its first; all else is allowed. */
static void refuse(int number, uint32_t argument, uint32_t answer, int by_number, unsigned flags)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, argument, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, answer),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	put_on(code, sizeof(code) / sizeof(*code), by_number, flags);
}

/* What this program needs, and nothing else: any other call kills it. */
static void whitelist(void)
{
	static const int own[] = {
#ifdef SYS_access
		SYS_access,
#endif
		SYS_faccessat,	SYS_faccessat2, SYS_write,	     SYS_clock_nanosleep,
		SYS_exit_group, SYS_clone,	SYS_wait4,	     SYS_rseq,
		SYS_gettid,	SYS_newfstatat, SYS_set_robust_list,
	};
	struct sock_filter code[64] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr)) };
	unsigned short n = 1;

	for (unsigned i = 0; i < sizeof(own) / sizeof(*own); i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							 (uint32_t)own[i], 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	put_on(code, n, 1, 0);
}

static void *rest(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void another_thread(void)
{
	pthread_t thread;

	must(!pthread_create(&thread, NULL, rest, NULL), "pthread_create");
}

static void child(void (*first)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (first)
			first();
		work(10);
		_exit(0);
	}
	must(waitpid(pid, &status, 0) == pid && status == 0, "child");
}

int main(int count, char **word)
{
	for (int i = 1; i < count; i++) {
		if (atoi(word[i]))
			work(atoi(word[i]));
		else if (!strcmp(word[i], "idle"))
			usleep(2600000); /* the writer's thread goes home after two seconds */
		else if (!strcmp(word[i], "threads"))
			threads();
		else if (!strcmp(word[i], "child"))
			child(NULL);
		else if (!strcmp(word[i], "child-user"))
			child(become_nobody);
		else if (!strcmp(word[i], "child-caps"))
			child(no_caps);
		else if (!strcmp(word[i], "child-root"))
			child(change_root);
		else if (!strcmp(word[i], "user"))
			become_nobody();
		else if (!strcmp(word[i], "caps"))
			caps(0);
		else if (!strcmp(word[i], "caps-by-number"))
			caps(1);
		else if (!strcmp(word[i], "bound"))
			set(PR_CAPBSET_DROP, CAP_SYS_ADMIN);
		else if (!strcmp(word[i], "no-new-privileges"))
			set(PR_SET_NO_NEW_PRIVS, 1);
		else if (!strcmp(word[i], "no-new-privileges-by-number"))
			must(!syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl");
		else if (!strcmp(word[i], "landlock"))
			landlock(0);
		else if (!strcmp(word[i], "filter"))
			refuse(SYS_socket, 1, SECCOMP_RET_ERRNO | EPERM, 0, 0);
		else if (!strcmp(word[i], "filter-by-number"))
			refuse(SYS_socket, 1, SECCOMP_RET_ERRNO | EPERM, 1, 0);
		else if (!strcmp(word[i], "filter-all-threads"))
			refuse(SYS_socket, 1, SECCOMP_RET_ERRNO | EPERM, 1,
			       SECCOMP_FILTER_FLAG_TSYNC);
		else if (!strcmp(word[i], "kill-other"))
			refuse(SYS_ptrace, 1, SECCOMP_RET_KILL_PROCESS, 1, 0);
		else if (!strcmp(word[i], "kill-writing-to-7"))
			refuse(SYS_pwrite64, 7, SECCOMP_RET_KILL_PROCESS, 0, 0);
		else if (!strcmp(word[i], "refuse-open"))
			refuse(SYS_openat, (uint32_t)AT_FDCWD, SECCOMP_RET_ERRNO | EPERM, 0, 0);
		else if (!strcmp(word[i], "refuse-pwrite"))
			refuse(SYS_pwrite64, 7, SECCOMP_RET_ERRNO | EPERM, 0, 0);
		else if (!strcmp(word[i], "whitelist"))
			whitelist();
		else if (!strcmp(word[i], "strict"))
			must(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0UL, 0UL, 0UL), "strict");
		else if (!strcmp(word[i], "bad-filter"))
			must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 16UL, 0UL, 0UL) < 0 &&
				     errno == EFAULT,
			     "bad filter");
		else if (!strcmp(word[i], "thread"))
			another_thread();
		else if (!strcmp(word[i], "raw-exit"))
			syscall(SYS_exit, 3);
		else
			fail(word[i]);
	}
	return 0;
}
