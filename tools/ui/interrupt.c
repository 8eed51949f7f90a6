/* tools/ui/interrupt.c - Ctrl-C for commands that must clean up; see interrupt.h. */
#include "ui/interrupt.h"

#include <signal.h>
#include <stddef.h>

#include "ui/host.h"
#include "ui/progress.h"

static _Atomic bool stopped;
static volatile sig_atomic_t by;

static void note(int number)
{
	by = number;
	stopped = true;
}

const _Atomic bool *stop_watch(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	/* No SA_RESTART: a blocked call must return so that its caller sees the flag. */
	struct sigaction action = { .sa_handler = note, .sa_flags = (int)SA_RESETHAND }, old;

	if (cli_host)
		return cli_host->stop;
	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	}
	return &stopped;
}

void stop_end(void)
{
	if (!stopped)
		return;
	progress_hide();
	signal(by, SIG_DFL);
	raise(by);
}
