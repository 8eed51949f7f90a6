/* tools/table/recent.h - a cache of rows by the name, category and file of a line.
 *
 * Most lines have one of few names, and making and looking up a key takes longer than reading the
 * line.
 */
#ifndef PFW_TOOLS_TABLE_RECENT_H
#define PFW_TOOLS_TABLE_RECENT_H

#include <stddef.h>

#include "store/table/line.h"

#define TABLE_RECENT 128u /* a power of two */

struct table_recent {
	uint32_t row;  /* plus 1; 0: empty */
	uint32_t kind; /* section, device, annotation */
	size_t file;
	uint8_t cat_bytes, name_bytes;
	char text[118]; /* of both */
};

/* The entry for a line, of TABLE_RECENT ones.  NULL: the line cannot be cached.  Thread: one at
 * a time, as all here. */
struct table_recent *table_recent_of(struct table_recent *recent,
				     const struct pfw_table_line *line);

/* Whether the entry is that of the line. */
bool table_recent_is(const struct table_recent *recent, const struct pfw_table_line *line,
		     size_t file);

void table_recent_note(struct table_recent *recent, const struct pfw_table_line *line, size_t file,
		       uint32_t row);

#endif
