/* tools/run/launch.c - runs a program as a child, transparent to the shell. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run/run.h"
#include "ui/cli.h"

static const int forwarded[] = { SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,
				 SIGUSR2, SIGCONT, SIGTSTP, SIGWINCH };

static volatile sig_atomic_t child;

/* The actions of the signals and of SIGCHLD before; the child gets them back. */
static struct sigaction before[CLI_ARRAY_LEN(forwarded)];
static struct sigaction before_chld;

/* Forward a signal that a process sent to us.  A signal from the kernel (^C, ^Z, a resized or lost
 * terminal) goes to the whole foreground group, so the child has it already. */
static void forward(int signal, siginfo_t *info, void *context)
{
	int saved = errno;

	(void)context;
	if (child > 0 && info->si_code <= 0 && info->si_pid != child)
		kill((pid_t)child, signal);
	errno = saved;
}

/* Called with the signals blocked, before the fork. */
static void catch_signals(void)
{
	struct sigaction action = { .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigaction normal = { .sa_handler = SIG_DFL };

	action.sa_sigaction = forward;
	sigfillset(&action.sa_mask);
	/* if ignored, the kernel would discard the exit status */
	sigaction(SIGCHLD, &normal, &before_chld);
	for (size_t i = 0; i < CLI_ARRAY_LEN(forwarded); i++) {
		sigaction(forwarded[i], NULL, &before[i]);
		/* The child inherits ignored signals (nohup, a background job), so we ignore them,
		 * too. */
		if (before[i].sa_handler != SIG_IGN)
			sigaction(forwarded[i], &action, NULL);
	}
}

static void restore_signals(void)
{
	for (size_t i = 0; i < CLI_ARRAY_LEN(forwarded); i++)
		sigaction(forwarded[i], &before[i], NULL);
	sigaction(SIGCHLD, &before_chld, NULL);
}

/* In the child: exec the program, or send errno to the parent. */
static void become(char *const *argv, const sigset_t *mask, int pipe_end)
{
	int error;

	restore_signals();
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(argv[0], argv);
	error = errno;
	while (write(pipe_end, &error, sizeof(error)) < 0 && errno == EINTR)
		;
	_exit(127);
}

/* The errno of a failed exec, or 0: exec closed the pipe. */
static int exec_error(int pipe_end)
{
	int error = 0;
	ssize_t got;

	do
		got = read(pipe_end, &error, sizeof(error));
	while (got < 0 && errno == EINTR);
	return got == (ssize_t)sizeof(error) ? error : 0;
}

static bool is_job_stop(int signal)
{
	return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

/* Wait for the child's end.  Other children are orphans, which a container's pid 1 inherits. */
static int wait_for(int *status)
{
	for (;;) {
		pid_t pid = waitpid(-1, status, WUNTRACED);

		if (pid < 0 && errno != EINTR)
			return -errno;
		if (pid != child)
			continue;
		if (!WIFSTOPPED(*status))
			return 0;
		/* The shell watches this process, so stop as well.  SIGSTOP is excluded: a debugger
		 * sends it. */
		if (is_job_stop(WSTOPSIG(*status)))
			raise(SIGSTOP);
	}
}

int run_launch(char *const *argv, int *status)
{
	sigset_t all, mask;
	int ends[2], error;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &mask);
	catch_signals();
	pid = fork();
	if (pid == 0)
		become(argv, &mask, ends[1]);
	error = pid < 0 ? -errno : 0;
	child = pid;
	sigprocmask(SIG_SETMASK, &mask, NULL);
	close(ends[1]);
	if (!error)
		error = -exec_error(ends[0]);
	close(ends[0]);
	if (pid > 0) {
		int waited = wait_for(status);

		error = error ?: waited;
	}
	child = 0;
	return error;
}
