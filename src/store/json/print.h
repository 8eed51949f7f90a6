/* store/json/print.h - writes JSON to a stream by templates and adds commas, quotes and escapes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct pfw_printer {
	FILE *out;
	bool comma; /* before the next key or value */
};

/*
 * Write JSON as printf() would, with ' for ".  A comma is written before it unless it follows {, [
 * or a line break, or begins with } or ].  A line break at the begin of the template comes after
 * that comma.  %s is a quoted string, null if the pointer is NULL, and bytes that are not UTF-8
 * become U+FFFD.  '%s' is a string that is escaped already.  Conversions: s, d and u with l or z, f
 * and g with a precision.
 *
 * 	pfw_print(&json, "{'file':%s", path);
 * 	pfw_print(&json, "'line':%" PRIu64, line);
 * 	pfw_print(&json, "}\n");
 *
 * Thread: one at a time for one stream, as all here.
 */
__attribute__((format(printf, 2, 3))) void pfw_print(struct pfw_printer *printer,
						     const char *template, ...);

/* Write a key, which must need no escapes, and a value: JSON, or a text. */
void pfw_print_json(struct pfw_printer *printer, const char *key, const char *json, size_t bytes);
void pfw_print_text(struct pfw_printer *printer, const char *key, const char *text, size_t bytes);
