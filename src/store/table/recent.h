/* store/table/recent.h - a cache of rows by the name, category and file of a line.
 *
 * Most lines have one of few names, and making and looking up a key takes longer than reading the
 * line.
 */
#ifndef PFW_STORE_TABLE_RECENT_H
#define PFW_STORE_TABLE_RECENT_H

#include <stddef.h>

#include "store/table/line.h"

#define PFW_TABLE_RECENT 128u /* a power of two */

struct pfw_table_recent {
	uint32_t row;  /* plus 1; 0: empty */
	uint32_t kind; /* section, device, annotation */
	size_t file;
	uint8_t cat_bytes, name_bytes;
	char text[118]; /* of both */
};

/* The entry for a line, of PFW_TABLE_RECENT ones.  NULL: the line cannot be cached.  Thread: one at
 * a time, as all here. */
struct pfw_table_recent *pfw_table_recent_of(struct pfw_table_recent *recent,
					     const struct pfw_table_line *line);

/* Whether the entry is that of the line. */
bool pfw_table_recent_is(const struct pfw_table_recent *recent, const struct pfw_table_line *line,
			 size_t file);

void pfw_table_recent_note(struct pfw_table_recent *recent, const struct pfw_table_line *line,
			   size_t file, uint32_t row);

#endif
