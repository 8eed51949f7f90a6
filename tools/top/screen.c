/* tools/top/screen.c - the live view: draws the tables on a terminal and takes keys.
 *
 * Nothing but sequences that all terminals of today know: another screen, home, clear to the end of a
 * line.  Whatever ends the view, the terminal is put back first: keys, signals (the loop sees the
 * flag), the end of the processes, errors.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "common/format/clock.h"
#include "top/top.h"

#define ENTER "\033[?1049h\033[?25l\033[?7l" /* another screen, no cursor, no wrapping */
#define LEAVE "\033[?7h\033[?25h\033[?1049l"
#define HOME "\033[H"
#define LINE_END "\033[K"
#define REST "\033[J"

#define INTERVAL_LEAST_NS 100000000
#define INTERVAL_MOST_NS 64000000000
#define PAUSED_NS 3600000000000
#define CONTROL_Z 0x1a

struct screen {
	struct top *top;
	struct termios before;
	bool keys; /* standard input is the terminal */
	bool paused, quit;
};

bool top_screen_can(void)
{
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

/* ---- the terminal ---- */

static void put(const char *text)
{
	fputs(text, stdout);
	fflush(stdout);
}

/* Keys come one by one and are not shown; Ctrl-C stays a signal, Ctrl-Z becomes a key. */
static void enter(struct screen *screen)
{
	struct termios now = screen->before;

	if (screen->keys) {
		now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		now.c_cc[VMIN] = 0;
		now.c_cc[VTIME] = 0;
		now.c_cc[VSUSP] = now.c_cc[VQUIT] = _POSIX_VDISABLE;
		tcsetattr(STDIN_FILENO, TCSANOW, &now);
	}
	put(ENTER);
}

static void leave(const struct screen *screen)
{
	put(LEAVE);
	if (screen->keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
}

/* A new size must end the wait; nothing else is to be done. */
static void wake(int number)
{
	(void)number;
}

static void catch_resize(void)
{
	struct sigaction action = { .sa_handler = wake };

	sigemptyset(&action.sa_mask);
	sigaction(SIGWINCH, &action, NULL);
}

/* ---- drawing ---- */

static void find_size(size_t *width, size_t *lines)
{
	struct winsize size = { 0 };

	*width = 80;
	*lines = 24;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col || !size.ws_row)
		return;
	*width = size.ws_col;
	*lines = size.ws_row;
}

static void put_frame(const struct screen *screen, const char *text, size_t lines)
{
	bool coloured = cli_colours(stdout);
	const char *end;

	fputs(HOME, stdout);
	for (size_t i = 1; i < lines; i++) {
		end = strchrnul(text, '\n');
		fwrite(text, 1, (size_t)(end - text), stdout);
		fputs(LINE_END "\n\r", stdout);
		text = end + (*end != '\0');
	}
	fprintf(stdout,
		"%s%sq quit  c calls  b bytes  t time  n name  + - interval  space %s%s" REST,
		cli_style(coloured, CLI_DIM), LINE_END, screen->paused ? "go on" : "pause",
		cli_style(coloured, CLI_PLAIN));
	fflush(stdout);
}

/* 0; -ENOMEM; -EPIPE: the terminal is gone. */
static int draw(const struct screen *screen)
{
	char *text = NULL;
	size_t bytes, width, lines;
	FILE *frame = open_memstream(&text, &bytes);
	int error;

	if (!frame)
		return -ENOMEM;
	find_size(&width, &lines);
	error = top_print(screen->top, frame, CLI_TEXT, width, lines - 1 ? lines - 1 : 1);
	if (fclose(frame))
		error = -ENOMEM;
	if (!error)
		put_frame(screen, text, lines);
	free(text);
	return !error && ferror(stdout) ? -EPIPE : error;
}

/* ---- keys ---- */

static void scale_interval(struct top *top, bool longer)
{
	int64_t ns = longer ? top->interval_ns * 2 : top->interval_ns / 2;

	if (ns >= INTERVAL_LEAST_NS && ns <= INTERVAL_MOST_NS)
		top->interval_ns = ns;
}

static void take_key(struct screen *screen, char key)
{
	static const char sorts[] = "cbtn"; /* in the order of enum top_sort */
	struct top *top = screen->top;
	const char *sort = key ? strchr(sorts, key) : NULL;

	if (sort)
		top->sort = (enum top_sort)(sort - sorts);
	else if (key == 'q')
		screen->quit = true;
	else if (key == '+' || key == '-')
		scale_interval(top, key == '+');
	else if (key == ' ')
		screen->paused = !screen->paused;
	if (key != CONTROL_Z)
		return;
	/* As the terminal's driver would. */
	leave(screen);
	raise(SIGTSTP);
	enter(screen);
}

static void take_keys(struct screen *screen)
{
	char keys[64];
	ssize_t count = read(STDIN_FILENO, keys, sizeof(keys));

	/* The other end is gone; a signal may have come instead of a key. */
	if (count < 0 && errno != EINTR && errno != EAGAIN)
		screen->quit = true;
	for (ssize_t i = 0; i < count; i++)
		take_key(screen, keys[i]);
}

/* ---- the view ---- */

/* Look and draw until something ends it.  0 or -errno. */
static int view(struct screen *screen)
{
	struct top *top = screen->top;
	int64_t last = (int64_t)pfw_clock_ns(CLOCK_MONOTONIC);
	int error = top_look(top);

	while (!error && !screen->quit) {
		error = draw(screen);
		if (error || (!top_running(top) && top_is_over(top, &error)))
			break;
		switch (top_wait(top, last + (screen->paused ? PAUSED_NS : top->interval_ns),
				 screen->keys ? STDIN_FILENO : -1)) {
		case 0:
			last = (int64_t)pfw_clock_ns(CLOCK_MONOTONIC);
			error = top_next(top);
			break;
		case 1:
			if (screen->keys)
				take_keys(screen);
			break;
		default:
			return 0;
		}
	}
	return error;
}

int top_screen(struct top *top)
{
	struct screen screen = { .top = top };
	int error;

	screen.keys = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &screen.before);
	catch_resize();
	enter(&screen);
	error = view(&screen);
	leave(&screen);
	if (!error && !screen.quit && !*top->stop)
		puts("the last of the traced processes has ended; `pfw table` shows their traces");
	return error;
}
