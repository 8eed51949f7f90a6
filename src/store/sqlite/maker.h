/* store/sqlite/maker.h - makes an SQLite database without SQLite.
 *
 * The rows of a table come in the order of their ids, so each page is written once, when it is full,
 * and nothing is searched: SQLite takes ten times as long.  Pages of several tables may alternate.
 */
#pragma once

#include "store/sqlite/rows.h"

/* All zero, but for `fd` and `page_bytes`, a power of two from 512 to 32768. */
struct pfw_sqlite_maker {
	int fd; /* an empty file, which the caller closes; -1: make `image` */
	uint32_t page_bytes;
	uint8_t *image; /* to be freed */
	/* Private. */
	uint32_t pages;
	size_t room;
	uint8_t *overflow;
};

/* A page that will be in an inner page, with the greatest id below it. */
struct pfw_sqlite_child {
	uint32_t page; /* 0: none */
	int64_t id;
};

/* A page that is filled from its end. */
struct pfw_sqlite_filling {
	uint8_t *page;
	uint32_t cells, begin; /* of the cells */
	struct pfw_sqlite_child before,
		last; /* of an inner page: the last two, not in a cell yet */
};

/* A table.  All zero, but for `maker`. */
struct pfw_sqlite_table {
	struct pfw_sqlite_maker *maker;
	struct pfw_sqlite_filling level[PFW_SQLITE_DEPTH]; /* from the leaves up */
	unsigned levels;
	bool any; /* there is a row */
	int64_t id;
};

#define PFW_SQLITE_COLUMNS 32u

/* Add a row, whose id is greater than all before; of a column that is the id the value is NULL.  0;
 * -EINVAL: its id is not, or it has a value of another type or too many; or -errno.  Thread: one at a
 * time for a maker, as all here. */
int pfw_sqlite_add(struct pfw_sqlite_table *table, int64_t id, const struct pfw_sqlite_value *value,
		   unsigned columns);

/* The row of a table in the database's schema. */
struct pfw_sqlite_schema {
	const char *name, *sql;
};

/* Write the rest of all tables, then the first page.  0 or -errno. */
int pfw_sqlite_finish(struct pfw_sqlite_maker *maker, struct pfw_sqlite_table *table,
		      const struct pfw_sqlite_schema *schema, size_t tables, uint32_t application,
		      uint32_t version);

/* Free what a table took; the maker, but for its image. */
void pfw_sqlite_release_table(struct pfw_sqlite_table *table);
void pfw_sqlite_release_maker(struct pfw_sqlite_maker *maker);
