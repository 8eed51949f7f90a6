/* json_print.h - text as JSON, to a stream. */
#ifndef PFW_JSON_PRINT_H
#define PFW_JSON_PRINT_H

#include <stdio.h>

/* `text` as a JSON string with its quotes, what is not UTF-8 as U+FFFD; "" where there is no
 * memory.  Thread: one at a time for one stream. */
void pfw_json_print_string(FILE *out, const char *text);

#endif
