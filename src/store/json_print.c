/* json_print.c - text as JSON, to a stream; see json_print.h. */
#include "json_print.h"

#include <stdlib.h>
#include <string.h>

#include "json.h"

void pfw_json_print_string(FILE *out, const char *text)
{
	size_t bytes = strlen(text);
	char *line = malloc(6 * bytes + 2 + PFW_JSON_SLACK), *end;

	if (!line) {
		fputs("\"\"", out);
		return;
	}
	end = pfw_json_string(line, text, bytes, NULL);
	fwrite(line, 1, (size_t)(end - line), out);
	free(line);
}
