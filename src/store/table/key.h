/* store/table/key.h - the key of a row of averages: a head, then length and text of each field. */
#pragma once

#include <stddef.h>

#include "store/nesting/averages.h"
#include "store/table/line.h"

/* The head: section, device (torch's DeviceType), whether it is an annotation. */
#define PFW_TABLE_KEY_HEAD 3u
#define PFW_TABLE_TEXT_MAX 65536u /* of a field */

/* The fields of the keys of an index: in_index.c. */
enum {
	PFW_TABLE_INDEX_NAME,
	PFW_TABLE_INDEX_CAT,
	PFW_TABLE_INDEX_SHAPE,
	PFW_TABLE_INDEX_KIND, /* args.kind, as it is written */
	PFW_TABLE_INDEX_FIELDS
};

/* All zero: empty.  Thread: one at a time for one key, as all here. */
struct pfw_table_key {
	char *text;
	size_t bytes, room;
	bool failed;			/* no memory for a field since the begin */
	char field[PFW_TABLE_TEXT_MAX]; /* for one field, while it is made */
};

void pfw_table_key_release(struct pfw_table_key *key);

/* Begin a key by its head: that of a line's row. */
void pfw_table_key_head(struct pfw_table_key *key, const char head[PFW_TABLE_KEY_HEAD]);
void pfw_table_key_begin(struct pfw_table_key *key, const struct pfw_table_line *line);

/* Append a field: a text, the text of a slice, a number; the line's name, where all steps are one;
 * its shapes as Python prints a list. */
void pfw_table_key_text(struct pfw_table_key *key, const char *text, size_t bytes);
void pfw_table_key_slice(struct pfw_table_key *key, const struct pfw_slice *text);
void pfw_table_key_number(struct pfw_table_key *key, int64_t number);
void pfw_table_key_name(struct pfw_table_key *key, const struct pfw_table_line *line);
void pfw_table_key_shapes(struct pfw_table_key *key, const struct pfw_table_line *line);

/* The number of its row, which is added if there is none; or -ENOMEM, also if the key has failed. */
int64_t pfw_table_key_row(const struct pfw_table_key *key, struct pfw_averages *rows);

/* The text of the n-th field of a key.  Thread: any. */
const char *pfw_table_key_field(const char *key, unsigned n, size_t *bytes);
