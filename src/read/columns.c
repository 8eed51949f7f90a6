/* read/columns.c - the columns by name and by key; see columns.h. */
#include "read/columns.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "store/kit/hash.h"

const struct pfw_read_known pfw_read_known[PFW_READ_COLUMNS] = {
#define LINE(text, of) [PFW_READ_COLUMN_##text] = { .name = #text, .kind = PFW_READ_##of },
#define WITH_KEY(text, of) .key = text, .key_bytes = sizeof(text) - 1, .kind = PFW_READ_##of
#define SAID(text, of) [PFW_READ_COLUMN_##text] = { .name = #text, WITH_KEY(#text, of) },
#define ARG(text, of) [PFW_READ_ARG_##text] = { .name = "args." #text, WITH_KEY(#text, of) },
#define REST(text) [PFW_READ_COLUMN_##text] = { .name = #text, .kind = PFW_READ_REST },
#include "read/columns.def"
#undef LINE
#undef SAID
#undef ARG
#undef REST
};

/* ---- by key ---- */

static unsigned cell_of(const char *key, size_t bytes)
{
	const uint8_t *at = (const uint8_t *)key;

	return (unsigned)((at[0] + 19u * at[bytes / 2] + 31u * at[bytes - 1] + 8 * bytes) %
			  PFW_READ_CELLS);
}

static void add_key(struct pfw_read_columns *columns, unsigned number)
{
	unsigned cell = cell_of(pfw_read_known[number].key, pfw_read_known[number].key_bytes);

	while (columns->cell[cell])
		cell = (cell + 1) % PFW_READ_CELLS;
	columns->cell[cell] = (uint8_t)(number + 1);
}

int pfw_read_columns_find(const struct pfw_read_columns *columns, const char *key, size_t bytes)
{
	if (!bytes)
		return -1;
	for (unsigned cell = cell_of(key, bytes); columns->cell[cell];
	     cell = (cell + 1) % PFW_READ_CELLS) {
		const struct pfw_read_known *known = &pfw_read_known[columns->cell[cell] - 1];

		if (known->key_bytes == bytes && pfw_hash_same(known->key, key, bytes))
			return columns->cell[cell] - 1;
	}
	return -1;
}

/* ---- by name ---- */

static int add_column(struct pfw_read_columns *columns, unsigned number)
{
	if (columns->place[number] >= 0)
		return -EEXIST;
	columns->place[number] = (int8_t)columns->count;
	columns->args += pfw_read_known[number].key != NULL;
	columns->column[columns->count++] = (uint8_t)number;
	return 0;
}

static unsigned number_of(const char *name, size_t bytes)
{
	unsigned number = 0;

	while (number < PFW_READ_COLUMNS && (strlen(pfw_read_known[number].name) != bytes ||
					     memcmp(pfw_read_known[number].name, name, bytes) != 0))
		number++;
	return number;
}

static int add_named(struct pfw_read_columns *columns, const char *name, size_t bytes, char *why,
		     size_t size)
{
	unsigned number = number_of(name, bytes);

	if (number == PFW_READ_COLUMNS) {
		snprintf(why, size,
			 "there is no column %.*s: docs/read.rst lists them, and all other args "
			 "are in args_json",
			 bytes > 100 ? 100 : (int)bytes, name);
		return -EINVAL;
	}
	if (add_column(columns, number) == 0)
		return 0;
	snprintf(why, size, "column %s is in the list twice", pfw_read_known[number].name);
	return -EINVAL;
}

int pfw_read_columns_parse(struct pfw_read_columns *columns, const char *list, char *why,
			   size_t size)
{
	int error = 0;

	*columns = (struct pfw_read_columns){ .known = pfw_read_known };
	memset(columns->place, -1, sizeof(columns->place));
	for (unsigned i = 0; i < PFW_READ_COLUMNS; i++) {
		if (pfw_read_known[i].key)
			add_key(columns, i);
		if (!list)
			add_column(columns, i);
	}
	while (list && !error) {
		size_t bytes = strcspn(list, ",");

		error = add_named(columns, list, bytes, why, size);
		list = list[bytes] ? list + bytes + 1 : NULL;
	}
	return error;
}
