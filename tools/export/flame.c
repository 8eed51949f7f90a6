/* tools/export/flame.c - a flame graph as one SVG file, with its callers on top: `pfw export --format svg`.
 *
 * Without a script the picture is complete at 1,200 pixels.  A browser runs flame.js, which zooms, searches,
 * and fits the picture to the window.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "export/export.h"
#include "export/stacks.h"
#include "store/kit/hash.h"
#include "store/kit/saturate.h"
#include "ui/embed.h"

#define WIDTH 1200.0
#define HEAD 62u		 /* pixels above the frames */
#define ROW 17u			 /* pixels of a frame with the gap below it */
#define LETTER 7.25		 /* pixels of a character at 12 px */
#define LEAST (1 / (10 * WIDTH)) /* a frame below a tenth of a pixel is left out */

PFW_EMBED(export_flame_script, "export/flame.js");
PFW_EMBED(export_flame_style, "export/flame.css");

/* A stack in the picture.  Number 0 is the whole. */
struct frame {
	uint32_t stack, row;
	uint64_t weight; /* with the frames that it called */
	double x;	 /* in shares of the whole */
};

struct picture {
	const struct export_stacks *stacks;
	struct frame *frame; /* by stack */
	size_t count, shown;
	uint32_t rows;
};

/* ---- where frames stand ---- */

/* Frames of one caller next to each other, in order of weight; callers in order of their numbers. */
static int by_caller(const void *a, const void *b, void *user)
{
	const struct picture *picture = user;
	const struct frame *x = &picture->frame[*(const uint32_t *)a];
	const struct frame *y = &picture->frame[*(const uint32_t *)b];
	const struct export_stack *of_x = &picture->stacks->stack[x->stack];
	const struct export_stack *of_y = &picture->stacks->stack[y->stack];

	return PFW_ORDER(of_x->parent, of_y->parent) ?: PFW_ORDER(y->weight, x->weight) ?:
	       strcmp(picture->stacks->name[of_x->name], picture->stacks->name[of_y->name]);
}

static int by_place(const void *a, const void *b)
{
	const struct frame *x = a, *y = b;

	return PFW_ORDER(x->row, y->row) ?: PFW_ORDER(x->x, y->x);
}

/* A stack's number is larger than its caller's, so that one way back adds up all. */
static void add_up(struct picture *picture)
{
	const struct export_stacks *stacks = picture->stacks;

	for (size_t i = picture->count; i--;) {
		struct frame *frame = &picture->frame[i];

		frame->stack = (uint32_t)i;
		if (!i)
			break;
		pfw_saturate_u64(&frame->weight, export_stacks_weight(stacks, &stacks->stack[i]));
		pfw_saturate_u64(&picture->frame[stacks->stack[i].parent].weight, frame->weight);
	}
}

/* Place the frames of each caller from left to right; order[] and used[] have room for all. */
static void place(struct picture *picture, uint32_t *order, double *used)
{
	double whole = picture->frame[0].weight ? (double)picture->frame[0].weight : 1;

	for (uint32_t i = 1; i < picture->count; i++)
		order[i - 1] = i;
	qsort_r(order, picture->count - 1, sizeof(*order), by_caller, picture);
	for (size_t i = 0; i + 1 < picture->count; i++) {
		struct frame *frame = &picture->frame[order[i]];
		uint32_t caller = picture->stacks->stack[order[i]].parent;

		frame->row = picture->frame[caller].row + 1;
		frame->x = picture->frame[caller].x + used[caller];
		used[caller] += (double)frame->weight / whole;
	}
}

/* Keep the frames that are wide enough, in the order of the picture. */
static void keep_wide(struct picture *picture)
{
	double least = LEAST * (double)picture->frame[0].weight;

	for (size_t i = 0; i < picture->count; i++) {
		if (i && (!picture->frame[i].weight || (double)picture->frame[i].weight < least))
			continue;
		picture->frame[picture->shown++] = picture->frame[i];
		if (picture->frame[i].row >= picture->rows)
			picture->rows = picture->frame[i].row + 1;
	}
	qsort(picture->frame, picture->shown, sizeof(*picture->frame), by_place);
}

static int lay_out(struct picture *picture)
{
	uint32_t *order = malloc(picture->count * sizeof(*order));
	double *used = calloc(picture->count, sizeof(*used));
	int error = order && used ? 0 : -ENOMEM;

	if (!error) {
		add_up(picture);
		place(picture, order, used);
		keep_wide(picture);
	}
	free(order);
	free(used);
	return error;
}

/* ---- the file ---- */

/* Append a text for XML, which forbids U+FFFE and U+FFFF; six bytes a byte are enough. */
static char *put_xml(char *at, const char *text)
{
	for (; *text; text++) {
		if (strncmp(text, "\xef\xbf", 2) == 0 && (unsigned char)text[2] >= 0xbe) {
			at = pfw_emit(at, "\xef\xbf\xbd");
			text += 2;
			continue;
		}
		switch (*text) {
		case '&':
			at = pfw_emit(at, "&amp;");
			break;
		case '<':
			at = pfw_emit(at, "&lt;");
			break;
		case '>':
			at = pfw_emit(at, "&gt;");
			break;
		case '"':
			at = pfw_emit(at, "&quot;");
			break;
		default:
			*at++ = *text;
		}
	}
	return at;
}

static const char *amount(const struct picture *picture, uint64_t weight)
{
	if (*picture->stacks->job->options->weight == 'c')
		return cli_count(weight);
	return cli_time(weight > INT64_MAX ? INT64_MAX : (int64_t)weight);
}

static const char *class_of(const struct export_stacks *stacks, const struct frame *frame)
{
	static const char *const program[] = { "p0", "p1", "p2", "p3" };
	const struct export_stack *stack;
	const char *name;

	if (!frame->stack)
		return "all";
	stack = &stacks->stack[frame->stack];
	if (stack->kind != EXPORT_STACK_PROGRAM)
		return stack->kind == EXPORT_STACK_IO ? "io" : "device";
	name = stacks->name[stack->name];
	return program[pfw_hash_text(1, name, strlen(name)) % CLI_ARRAY_LEN(program)];
}

/* As much of a name as the frame has room for: whole characters, "…" for the rest. */
static void fit_name(char *text, size_t room, const char *name, double width)
{
	size_t letters = width > 6 ? (size_t)((width - 6) / LETTER) : 0, bytes = 0, cut = 0;

	*text = '\0';
	if (letters < 3)
		return;
	for (size_t seen = 0; name[bytes] && bytes < room - 4; bytes++) {
		if ((name[bytes] & 0xc0) != 0x80 && ++seen == letters)
			cut = bytes;
		if (seen > letters)
			break;
	}
	if (!name[bytes])
		snprintf(text, room, "%s", name);
	else
		snprintf(text, room, "%.*s…", (int)(cut ? cut : bytes), name);
}

static int write_frame(const struct picture *picture, const struct frame *frame)
{
	const struct export_stacks *stacks = picture->stacks;
	const struct export_stack *stack = frame->stack ? &stacks->stack[frame->stack] : NULL;
	const char *name = stack ? stacks->name[stack->name] : "all";
	double share = picture->frame[0].weight
			       ? (double)frame->weight / (double)picture->frame[0].weight
			       : 1;
	char *at = export_sink_room(stacks->job->sink, 12 * strlen(name) + 1024);
	char shown[256];

	if (!at)
		return -ENOMEM;
	fit_name(shown, sizeof(shown), name, share * WIDTH);
	at += sprintf(at, "<g data-x=\"%.10f\" data-w=\"%.10f\" data-y=\"%u\"><title>", frame->x,
		      share, frame->row);
	at = put_xml(at, name);
	at += sprintf(at, "\n%s, %.2f %% of all", amount(picture, frame->weight), 100 * share);
	if (stack && *stacks->job->options->weight != 'c')
		at += sprintf(at, ", itself %s, %s calls",
			      amount(picture, export_stacks_weight(stacks, stack)),
			      cli_count(stack->count));
	at += sprintf(at,
		      "</title><rect class=\"%s\" x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%u\" "
		      "rx=\"2\"/><text x=\"%.2f\" y=\"%u\">",
		      class_of(stacks, frame), frame->x * WIDTH, HEAD + frame->row * ROW,
		      share * WIDTH > 0.7 ? share * WIDTH - 0.5 : 0.2, ROW - 1,
		      frame->x * WIDTH + 3, HEAD + frame->row * ROW + 12);
	at = put_xml(at, shown);
	at = pfw_emit(at, "</text></g>\n");
	return export_sink_used(stacks->job->sink, at);
}

static const char *title_of(const struct picture *picture)
{
	switch (*picture->stacks->job->options->weight) {
	case 'd':
		return "Device time by stack";
	case 'c':
		return "Events by stack";
	default:
		return "Host time by stack";
	}
}

static int write_head(const struct picture *picture)
{
	char *at = export_sink_room(picture->stacks->job->sink, strlen(export_flame_style) + 2048);
	size_t left_out = picture->count - picture->shown;
	unsigned height = HEAD + picture->rows * ROW + 8;

	if (!at)
		return -ENOMEM;
	at += sprintf(
		at,
		"<svg class=\"pfw-flame\" xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
		"height=\"%u\" viewBox=\"0 0 %.0f %u\" role=\"img\" aria-label=\"%s\">\n<style>",
		WIDTH, height, WIDTH, height, title_of(picture));
	at = pfw_emit(at, export_flame_style);
	at += sprintf(
		at,
		"</style>\n<text class=\"title\" x=\"4\" y=\"20\">%s: %s</text>\n"
		"<text x=\"4\" y=\"38\">"
		"<tspan class=\"search\" tabindex=\"0\" role=\"button\">Search (/)</tspan>. "
		"Click or Enter: zoom. Esc: all. Orange: the program. Blue: I/O. Green: the device",
		title_of(picture), amount(picture, picture->frame[0].weight));
	if (left_out)
		at += sprintf(at, ". %s narrow frames are left out", cli_count(left_out));
	at = pfw_emit(at, "</text>\n<text class=\"status\" x=\"4\" y=\"55\"></text>\n");
	return export_sink_used(picture->stacks->job->sink, at);
}

static int write_picture(const struct picture *picture)
{
	struct export_sink *sink = picture->stacks->job->sink;
	int error = write_head(picture);

	for (size_t i = 0; i < picture->shown && !error; i++)
		error = write_frame(picture, &picture->frame[i]);
	error = error ?: export_sink_text(sink, "<script><![CDATA[\n");
	error = error ?: export_sink_text(sink, export_flame_script);
	return error ?: export_sink_text(sink, "]]></script>\n</svg>\n");
}

static int end(void *state)
{
	struct export_stacks *stacks = state;
	struct picture picture = { .stacks = stacks, .count = stacks->count + 1 };
	int error;

	export_stacks_close(stacks);
	picture.frame = calloc(picture.count, sizeof(*picture.frame));
	error = picture.frame ? lay_out(&picture) : -ENOMEM;
	error = error ?: write_picture(&picture);
	free(picture.frame);
	return error;
}

const struct export_format export_svg = {
	.name = "svg",
	.state_bytes = sizeof(struct export_stacks),
	.line = export_stacks_line,
	.end = end,
	.release = export_stacks_release,
};
