/* follow_target.c - HOW PROGRAM ARG...: starts it in every way, for test_follow.
 *
 * Its environment is what stands before "--": NAME=VALUE...; where a call takes none, the process's
 * own is made so first.  "bad" in place of the environment is a pointer that cannot be read.  Ways to
 * exec begin with "fork+", "vfork+", "clone+", or nothing: then this process becomes the program.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char **words, **list; /* the program's */
static const char *how;

static int do_exec(void *unused)
{
	(void)unused;
	if (!strcmp(how, "execve"))
		execve(words[0], words, list);
	else if (!strcmp(how, "execv"))
		execv(words[0], words);
	else if (!strcmp(how, "execvp"))
		execvp(words[0], words);
	else if (!strcmp(how, "execvpe"))
		execvpe(words[0], words, list);
	else if (!strcmp(how, "execl"))
		execl(words[0], words[0], words[1], words[2], NULL);
	else if (!strcmp(how, "execlp"))
		execlp(words[0], words[0], words[1], words[2], NULL);
	else if (!strcmp(how, "execle"))
		execle(words[0], words[0], words[1], words[2], NULL, list);
	else if (!strcmp(how, "fexecve"))
		fexecve(open(words[0], O_RDONLY | O_CLOEXEC), words, list);
	else if (!strcmp(how, "execveat"))
		execveat(AT_FDCWD, words[0], words, list, 0);
	_exit(errno == EFAULT ? 101 : errno == ENOENT ? 102 : 103);
}

static int wait_for(pid_t pid)
{
	int status = 0;

	if (waitpid(pid, &status, 0) < 0)
		return 104;
	return WEXITSTATUS(status);
}

static int start(void)
{
	static char stack[65536];
	pid_t pid;
	FILE *pipe;
	int c;

	if (!strncmp(how, "fork+", 5)) {
		how += 5;
		pid = fork();
		if (!pid)
			do_exec(NULL);
		return wait_for(pid);
	}
	if (!strncmp(how, "vfork+", 6)) {
		how += 6;
		pid = vfork();
		if (!pid)
			do_exec(NULL);
		return wait_for(pid);
	}
	if (!strncmp(how, "clone+", 6)) {
		how += 6;
		return wait_for(clone(do_exec, stack + sizeof(stack),
				      CLONE_VM | CLONE_VFORK | SIGCHLD, NULL));
	}
	if (!strcmp(how, "posix_spawn"))
		return posix_spawn(&pid, words[0], NULL, NULL, words, list) ? 105 : wait_for(pid);
	if (!strcmp(how, "posix_spawnp"))
		return posix_spawnp(NULL, words[0], NULL, NULL, words, list) ? 105 : wait_for(-1);
	if (!strcmp(how, "system"))
		return WEXITSTATUS(system(words[2]));
	if (!strcmp(how, "popen")) {
		pipe = popen(words[2], "r");
		while ((c = getc(pipe)) >= 0)
			putchar(c);
		return WEXITSTATUS(pclose(pipe));
	}
	return do_exec(NULL);
}

int main(int argc, char **argv)
{
	char **end = argv + 2;

	if (argc < 4)
		return 2;
	how = argv[1];
	list = end;
	while (strcmp(*end, "--"))
		end++;
	*end = NULL;
	words = end + 1;
	close(open("/dev/null", O_RDONLY)); /* something to record */
	if (*list && !strcmp(*list, "bad"))
		list = (char **)8;
	else if (*list && !strcmp(*list, "same"))
		list = environ;
	else
		environ = list;
	return start();
}
