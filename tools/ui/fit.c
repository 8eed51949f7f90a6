/* tools/ui/fit.c - which columns of a table fit the terminal; see fit.h. */
#include "ui/fit.h"

#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ui/cli.h"

#define USUAL_WIDTH 80u

size_t fit_width(FILE *out)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size = { 0 };

	if (columns && atoi(columns) > 0)
		return (size_t)atoi(columns);
	if (!isatty(fileno(out)))
		return 0;
	return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col
									 : USUAL_WIDTH;
}

static size_t total(const struct fit_column *column, size_t count, size_t gap)
{
	size_t width = 0;

	for (size_t i = 0; i < count; i++)
		width += column[i].hidden ? 0 : column[i].width + (width ? gap : 0);
	return width;
}

/* Cut the widest of the texts as far as is needed.  False: none can be cut. */
static bool cut(struct fit_column *column, size_t count, size_t excess)
{
	struct fit_column *widest = NULL;
	size_t room;

	for (size_t i = 0; i < count; i++) {
		struct fit_column *one = &column[i];

		if (!one->hidden && one->least && one->width > one->least &&
		    (!widest || one->width > widest->width))
			widest = one;
	}
	if (!widest)
		return false;
	room = widest->width - widest->least;
	widest->width -= room < excess ? room : excess;
	return true;
}

/* The column to hide next, or NULL.  With `empty` only columns without a value. */
static struct fit_column *least_important(struct fit_column *column, size_t count, bool empty)
{
	struct fit_column *least = NULL;

	for (size_t i = 1; i < count; i++) {
		struct fit_column *one = &column[i];

		if (!one->hidden && (one->empty || !empty) && (!least || one->drop >= least->drop))
			least = one;
	}
	return least;
}

/* Hide a column, and of these those that go with it. */
static void hide(struct fit_column *column, size_t count, struct fit_column *one)
{
	one->hidden = true;
	for (size_t i = 0; i < count && one->together; i++)
		column[i].hidden |= column[i].together && column[i].drop == one->drop;
}

void fit(struct fit_column *column, size_t count, size_t gap, size_t limit)
{
	size_t width, first = count ? column->width : 0;

	while (limit && (width = total(column, count, gap)) > limit) {
		struct fit_column *next = least_important(column, count, true);

		if (!next && cut(column, count, width - limit))
			continue;
		next = next ? next : least_important(column, count, false);
		if (!next)
			return;
		hide(column, next->empty ? 0 : count, next);
	}
	/* The room that the last hidden column leaves goes to the first column, if that was cut. */
	if (limit && count && column->width < first) {
		column->width += limit - width;
		column->width = column->width < first ? column->width : first;
	}
}

#define WORDS_BYTES 32768

void fit_words(FILE *out, int column, int indent, const char *format, ...)
{
	size_t width = fit_width(out);
	char text[WORDS_BYTES];
	va_list values;

	va_start(values, format);
	vsnprintf(text, sizeof(text), format, values);
	va_end(values);
	if (width)
		cli_wrapped(out, text, column, indent, (int)width);
	else
		fprintf(out, "%s\n", text);
}

void fit_say(FILE *out, const struct fit_column *column, size_t count)
{
	bool dim = cli_colours(out);
	char titles[1024] = "";
	size_t used = 0;

	for (size_t i = 0; i < count && used < sizeof(titles); i++) {
		if (column[i].hidden && column[i].title)
			used += (size_t)snprintf(titles + used, sizeof(titles) - used, "%s%s",
						 used ? ", " : "", column[i].title);
	}
	if (!used)
		return;
	fputs(cli_style(dim, CLI_DIM), out);
	fit_words(out, 0, 0, "not shown: %s (--wide)", titles);
	fputs(cli_style(dim, CLI_PLAIN), out);
}
