/* tools/top/top.c - `pfw top`: what traced processes do now. */
#include "top/top.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "common/format/clock.h"
#include "store/gzip/member.h"
#include "ui/fit.h"
#include "ui/interrupt.h"

#define INTERVAL_LEAST 0.1
#define INTERVAL_MOST 3600.0

static const struct cli_option options[] = {
	{ "interval", 'i', "SECONDS", "time between two updates, 0.1 to 3600 (default: 1)",
	  .id = 'i' },
	{ "once", 0, NULL, "print one interval and end", CLI_INTO(struct top, once) },
	{ "all", 'a', NULL,
	  "count totals from the begin of the traces, which are then read; default: from now on",
	  CLI_INTO(struct top, all) },
	{ "sort-by", 's', "calls|bytes|time|name", "order of rows (default: calls)",
	  CLI_INTO(struct top, sort) },
	{ "row-limit", 0, "N", "rows of a table, unless on a terminal (default: 20); -1: all",
	  CLI_INTO(struct top, row_limit), .least = -1, .most = INT32_MAX },
	{ "format", 0, "text|ndjson", "output; ndjson prints a row per line, all with `type`",
	  CLI_INTO(struct top, format) },
	{ 0 },
};

const char *const top_sorts[] = { "calls", "bytes", "time", "name" };

/* ---- options ---- */

static int take_interval(void *user, const struct cli_args *args, int option)
{
	const char *text = args->value;
	struct top *top = user;
	char *end;
	double seconds = strtod(text, &end);

	(void)option;
	if (!*text || *end || !(seconds >= INTERVAL_LEAST && seconds <= INTERVAL_MOST)) {
		cli_error(top->command->name,
			  "--interval takes seconds from 0.1 to 3600, not \"%s\"", cli_name(text));
		return -1;
	}
	top->interval_ns = llround(seconds * 1e9);
	return 0;
}

/* ---- looking ---- */

int top_wait(struct top *top, int64_t until_ns, int fd)
{
	struct pollfd input = { .fd = fd, .events = POLLIN };
	int64_t left = until_ns - (int64_t)pfw_clock_ns(CLOCK_MONOTONIC);

	if (left < 0)
		left = 0;
	/* The signals that end the command interrupt it. */
	if (!*top->stop && poll(&input, 1, (int)((left + 999999) / 1000000)) != 0 && !*top->stop)
		return 1;
	return *top->stop ? -EINTR : 0;
}

static int print(struct top *top)
{
	int error = top_print(top, stdout, top->format, fit_width(stdout), 0);

	if (!error && (fflush(stdout) || ferror(stdout)))
		error = -EPIPE;
	return error;
}

int top_next(struct top *top)
{
	top_drop_ended(top);
	return top_find(top) ?: top_look(top);
}

bool top_is_over(struct top *top, int *error)
{
	if (top_running(top))
		return false;
	top_drop_ended(top);
	*error = top_find(top);
	return !top->processes;
}

/* Print tables each interval, or once: its shares need an interval to end, and the next one. */
static int print_all(struct top *top)
{
	int64_t next = (int64_t)pfw_clock_ns(CLOCK_MONOTONIC);
	int error = top_look(top);

	while (!error) {
		next += top->interval_ns;
		error = top_wait(top, next, -1) ?: top_next(top);
		if (error || (top->once && top->looks < 3 && top_running(top)))
			continue;
		error = print(top);
		if (error || top->once || top_is_over(top, &error))
			break;
		if (cli_for_people(top->format))
			fputc('\n', stdout);
	}
	return error;
}

static int run(struct top *top)
{
	int error = top_find(top);

	if (error > 0)
		return error;
	if (!error)
		error = !top->once && top->format == CLI_TEXT && top_screen_can() ? top_screen(top)
										  : print_all(top);
	if (error == -ENOMEM)
		cli_error(top->command->name, "%s", strerror(ENOMEM));
	return error == -ENOMEM ? CLI_USAGE : CLI_OK;
}

static void release(struct top *top)
{
	struct top_tallies *tallies[] = { &top->now, &top->total, &top->rings };

	top_processes_release(top);
	top_ranks_release(top);
	for (size_t i = 0; i < CLI_ARRAY_LEN(tallies); i++) {
		top_tally_release(&tallies[i]->calls);
		top_tally_release(&tallies[i]->files);
	}
	pfw_text_ids_release(&top->cats);
	pfw_buffer_free(&top->text);
	pfw_buffer_free(&top->member);
	pfw_unzip_free(top->unzip);
	free(top->want.pid);
}

static int run_top(const struct cli_command *command, int argc, char **argv)
{
	struct top top = {
		.command = command, .format = CLI_TEXT, .interval_ns = 1000000000, .row_limit = 20
	};
	struct cli_args args;
	int status = cli_read(&args, command, argc, argv, &top, take_interval);

	if (status >= 0)
		return status;
	top.want.word = argv;
	top.want.words = (size_t)args.operands;
	adopt_dirs_find(&top.dirs, args.operands ? argv[0] : NULL);
	top.stop = stop_watch();
	top.unzip = pfw_unzip_new();
	if (top.unzip) {
		status = run(&top);
	} else {
		cli_error(command->name, "%s", strerror(ENOMEM));
		status = CLI_USAGE;
	}
	release(&top);
	stop_end();
	return cli_finish(stdout, command, status);
}

const struct cli_command cli_top = {
	.name = "top",
	.operands = "[PID | PATH | RUN]...",
	.summary = "Show what traced processes do now: calls, files, steps, losses",
	.details = "Without operands: all traced processes of this user.  A PID is shown with its\n"
		   "children.  On a terminal the view is updated in place: q ends, c b t n sort,\n"
		   "+ - set the interval, space pauses.  Other outputs get a table per interval.\n"
		   "The traced processes are not stopped, and take no extra time.\n"
		   "Figures of ranks are for the previous interval, because a call is known only\n"
		   "when it has returned.\n",
	.options = options,
	.main = run_top,
};
