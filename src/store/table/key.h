/* store/table/key.h - the key of a row of averages: a head, then length and text of each field. */
#pragma once

#include <stddef.h>

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

/* Thread: one at a time for one key, as all here. */
struct pfw_table_key {
	char *text;
	size_t bytes, room;
	char *field; /* PFW_TABLE_TEXT_MAX for one field */
};

int pfw_table_key_init(struct pfw_table_key *key);
void pfw_table_key_release(struct pfw_table_key *key);

/* Begin the key of a line's row, with its head. */
void pfw_table_key_begin(struct pfw_table_key *key, const struct pfw_table_line *line);

/* Append a field: a text, the text of a slice, a number; the line's name, where all steps are one;
 * its shapes as Python prints a list.  0 or -ENOMEM. */
int pfw_table_key_text(struct pfw_table_key *key, const char *text, size_t bytes);
int pfw_table_key_slice(struct pfw_table_key *key, const struct pfw_slice *text);
int pfw_table_key_number(struct pfw_table_key *key, int64_t number);
int pfw_table_key_name(struct pfw_table_key *key, const struct pfw_table_line *line);
int pfw_table_key_shapes(struct pfw_table_key *key, const struct pfw_table_line *line);

/* The text of the n-th field of a key.  Thread: any. */
const char *pfw_table_key_field(const char *key, unsigned n, size_t *bytes);
