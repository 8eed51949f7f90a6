/* tools/attach/session.c - a child in a session of its own does the work: see session.h. */
#include "attach/session.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ui/host.h"

static volatile pid_t worker;

static void pass_on(int number)
{
	int error = errno;

	kill(worker, number);
	errno = error;
}

static int await(pid_t child)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = pass_on, .sa_flags = SA_RESTART }, old;
	int status = 0;

	sigemptyset(&action.sa_mask);
	worker = child;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	return EXIT_FAILURE;
}

int session_run(const struct wish *wish, int (*run)(const struct wish *wish))
{
	pid_t parent = getpid(), child = cli_host ? -1 : fork();

	if (child > 0)
		return await(child);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(EXIT_FAILURE);
		setsid();
	}
	return run(wish);
}
