/* store/json/print.c - writes JSON to a stream; see print.h. */
#include "store/json/print.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "store/json/emit.h"

#define NUMBER_BYTES 64
#define SPEC_BYTES 16
#define PENDING_BYTES 1024

/* Buffered text: one call of stdio for each piece would cost more than the piece. */
struct pending {
	FILE *out;
	char *at;
	char text[PENDING_BYTES];
};

static void flush(struct pending *pending)
{
	fwrite_unlocked(pending->text, 1, (size_t)(pending->at - pending->text), pending->out);
	pending->at = pending->text;
}

static void begin(struct pending *pending, const struct pfw_printer *printer, bool comma)
{
	pending->out = printer->out;
	pending->at = pending->text;
	if (comma)
		*pending->at++ = ',';
}

/* Have room for `bytes`, at most PENDING_BYTES. */
static void make_room(struct pending *pending, size_t bytes)
{
	if (pending->at + bytes > pending->text + PENDING_BYTES)
		flush(pending);
}

static void put(struct pending *pending, const char *text, size_t bytes)
{
	make_room(pending, bytes);
	if (bytes > PENDING_BYTES)
		fwrite_unlocked(text, 1, bytes, pending->out);
	else
		pending->at = pfw_emit_bytes(pending->at, text, bytes);
}

/* Writes "" if there is no memory for a long text. */
static void put_string(struct pending *pending, const char *text, size_t bytes)
{
	size_t room = 6 * bytes + 2 + PFW_JSON_SLACK;
	char *line = room <= PENDING_BYTES ? NULL : malloc(room);

	make_room(pending, room);
	if (room <= PENDING_BYTES)
		pending->at = pfw_json_string(pending->at, text, bytes, NULL);
	else if (line)
		put(pending, line, (size_t)(pfw_json_string(line, text, bytes, NULL) - line));
	else
		put(pending, "\"\"", 2);
	free(line);
}

static void put_text(struct pending *pending, const char *text, bool escaped)
{
	if (!text)
		put(pending, "null", 4);
	else if (escaped)
		put(pending, text, strlen(text));
	else
		put_string(pending, text, strlen(text));
}

/* Writes the value of the conversion at `spec`.  A string gets no quotes if it is escaped already.
 * Returns the end of the conversion. */
static const char *put_value(struct pending *pending, const char *spec, bool escaped,
			     va_list *values)
{
	bool wide = spec[1] == 'l' || spec[1] == 'z';
	const char *type = spec + 1 + wide;
	char one[SPEC_BYTES];

	make_room(pending, NUMBER_BYTES);
	if (*type == 's') {
		put_text(pending, va_arg(*values, const char *), escaped);
	} else if (*type == 'd') {
		pending->at = pfw_append_i64(pending->at,
					     wide ? va_arg(*values, long) : va_arg(*values, int));
	} else if (*type == 'u') {
		pending->at = pfw_append_u64(pending->at, wide ? va_arg(*values, unsigned long)
							       : va_arg(*values, unsigned));
	} else {
		type += strcspn(type, "fg");
		snprintf(one, sizeof(one), "%.*s", (int)(type + 1 - spec), spec);
		pending->at += snprintf(pending->at, NUMBER_BYTES, one, va_arg(*values, double));
	}
	return type + 1;
}

void pfw_print(struct pfw_printer *printer, const char *template, ...)
{
	const char *at = template;
	struct pending pending;
	va_list values;

	begin(&pending, printer, printer->comma && !strchr("]}", at[*at == '\n']));
	va_start(values, template);
	while (*at) {
		if (*at == '%') {
			at = put_value(&pending, at, at > template && at[-1] == '\'', &values);
			continue;
		}
		make_room(&pending, 1);
		*pending.at++ = *at == '\'' ? '"' : *at;
		at++;
	}
	va_end(values);
	flush(&pending);
	printer->comma = !strchr("{[\n", at[-1]);
}

static void put_key(struct pending *pending, struct pfw_printer *printer, const char *key)
{
	begin(pending, printer, printer->comma);
	printer->comma = true;
	*pending->at++ = '"';
	put(pending, key, strlen(key));
	put(pending, "\":", 2);
}

void pfw_print_json(struct pfw_printer *printer, const char *key, const char *json, size_t bytes)
{
	struct pending pending;

	put_key(&pending, printer, key);
	put(&pending, json, bytes);
	flush(&pending);
}

void pfw_print_text(struct pfw_printer *printer, const char *key, const char *text, size_t bytes)
{
	struct pending pending;

	put_key(&pending, printer, key);
	put_string(&pending, text, bytes);
	flush(&pending);
}
