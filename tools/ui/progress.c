/* tools/ui/progress.c - the progress bar of a command; see progress.h. */
#include "ui/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "common/format/clock.h"
#include "ui/cli.h"
#include "ui/host.h"

#define FIRST_NS 500000000
#define EACH_NS 100000000
#define COLUMNS_MAX 200
#define BAR_MAX 40

static struct {
	const char *what;
	bool wanted;
	bool shown; /* on the terminal now */
	int64_t begun_ns, drawn_ns;
} bar;

/* Columns of the terminal, 80 if unknown. */
static int columns(void)
{
	struct winsize size = { 0 };

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_col)
		return 80;
	return size.ws_col < COLUMNS_MAX ? size.ws_col : COLUMNS_MAX;
}

void progress_begin(const char *what, bool quiet, bool prints)
{
	const char *term = getenv("TERM");

	if (cli_host)
		return;
	bar.what = what;
	bar.begun_ns = (int64_t)pfw_clock_ns(CLOCK_MONOTONIC);
	bar.wanted = !quiet && isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0 &&
		     !(prints && isatty(STDOUT_FILENO));
}

/* One write(), so that no other output comes in between. */
static void put(const char *text, size_t bytes)
{
	ssize_t written = write(STDERR_FILENO, text, bytes);

	(void)written; /* a bar is not worth an error */
}

/* "[####......]  42 %", or the percentage alone if there is no room. */
static void draw_bar(char *out, size_t size, uint64_t done, uint64_t all, int room)
{
	int width = room > BAR_MAX ? BAR_MAX : room;
	int filled = (int)((double)done / (double)all * width);
	char text[BAR_MAX + 1];

	if (width < 5) {
		snprintf(out, size, "%3d %%", (int)(100.0 * (double)done / (double)all));
		return;
	}
	memset(text, '.', sizeof(text));
	memset(text, '#', (size_t)filled);
	text[width] = '\0';
	snprintf(out, size, "[%s] %3d %%", text, (int)(100.0 * (double)done / (double)all));
}

static void draw(uint64_t done, uint64_t all, int64_t spent_ns)
{
	double rate = (double)done / ((double)spent_ns / 1e9);
	char share[BAR_MAX + 16] = "", figures[160], line[COLUMNS_MAX + 16];
	int used, most = columns() - 1; /* the last column would wrap */

	if (all && done <= all)
		used = snprintf(figures, sizeof(figures), "%s of %s, %s/s, %s left",
				cli_bytes(done), cli_bytes(all), cli_bytes((uint64_t)rate),
				done ? cli_seconds((int64_t)((double)(all - done) / rate * 1e9))
				     : "?");
	else
		used = snprintf(figures, sizeof(figures), "%s, %s/s", cli_bytes(done),
				cli_bytes((uint64_t)rate));
	if (all && done <= all)
		draw_bar(share, sizeof(share), done, all, most - used - (int)strlen(bar.what) - 14);
	used = snprintf(line + 1, COLUMNS_MAX, "%s  %s%s%s", bar.what, share, *share ? "  " : "",
			figures);
	if (used > most)
		used = most;
	line[0] = '\r';
	memcpy(line + 1 + used, "\033[K", 3); /* the rest of a longer line */
	put(line, (size_t)used + 4);
	bar.shown = true;
}

void progress_show(uint64_t done, uint64_t all)
{
	int64_t now;

	if (!bar.wanted)
		return;
	now = (int64_t)pfw_clock_ns(CLOCK_MONOTONIC);
	if (now - bar.begun_ns < FIRST_NS || now - bar.drawn_ns < EACH_NS)
		return;
	bar.drawn_ns = now;
	draw(done, all, now - bar.begun_ns);
}

void progress_of_pass(void *user, uint64_t done, uint64_t all)
{
	(void)user;
	progress_show(done, all);
}

void progress_hide(void)
{
	if (!bar.shown)
		return;
	put("\r\033[K", 4);
	bar.shown = false;
}
