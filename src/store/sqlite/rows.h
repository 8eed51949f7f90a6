/* store/sqlite/rows.h - the rows of a table of an SQLite database, read without SQLite.
 *
 * Room store/sqlite: an index is opened a thousand times as often as it is written (maker.h), and
 * SQLite takes 0.2 ms to read a schema and to compile a statement.  This room follows the file format
 * ("Database File Format" of SQLite) as far as indexes need it: tables by rowid, no page with reserved
 * bytes, UTF-8.  A file may be damaged or hostile: each row has a greater id than the row before, so no
 * cycle of pages is endless.  It may use store/{kit,sys}.  Start here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes of a file that say of which format it is. */
#define PFW_SQLITE_HEADER 100u
/* No table is deeper, in SQLite neither. */
#define PFW_SQLITE_DEPTH 20u

struct pfw_sqlite {
	int fd;		/* -1: all pages are in `image` */
	uint8_t *image; /* NULL: pages are read when they are needed */
	uint32_t page_bytes, pages;
};

/* Begin reading a file of `bytes` bytes whose header is known to be SQLite's.  The database owns the
 * descriptor from here on, also after an error.  Return 0 for pfw_sqlite_close(), -EBADMSG or -errno.
 * Thread: one at a time, as all here. */
int pfw_sqlite_open(struct pfw_sqlite *db, int fd, uint64_t bytes);
/* The same for a file in memory, which is freed by pfw_sqlite_close(). */
int pfw_sqlite_open_image(struct pfw_sqlite *db, uint8_t *image, uint64_t bytes);
void pfw_sqlite_close(struct pfw_sqlite *db);

enum pfw_sqlite_type {
	PFW_SQLITE_NULL,
	PFW_SQLITE_INTEGER,
	PFW_SQLITE_REAL, /* its value is not read */
	PFW_SQLITE_TEXT,
	PFW_SQLITE_BLOB,
};

struct pfw_sqlite_value {
	enum pfw_sqlite_type type;
	int64_t integer;
	const uint8_t *data; /* of a text or blob, until the next row */
	size_t bytes;
};

/* A page on the way from the root to a row. */
struct pfw_sqlite_level {
	uint32_t number;     /* of the page; 0: none */
	const uint8_t *page; /* NULL: not read */
	uint8_t *own;	     /* its room, if there is no image */
	const uint8_t *cell; /* pointers of 2 bytes to the cells */
	unsigned cells, at;  /* of an inner page: the child, `cells` is the last one */
	bool leaf;
};

/* Rows of one table in order of their ids.  {0} with `db` and `root` before the first use. */
struct pfw_sqlite_rows {
	const struct pfw_sqlite *db;
	uint32_t root; /* the table's first page */
	int64_t id;    /* of the row */
	/* The row: the types of the columns that are not taken yet, and their data. */
	const uint8_t *type, *types_end, *value, *end;
	struct pfw_sqlite_level level[PFW_SQLITE_DEPTH];
	unsigned depth;			/* levels in use */
	bool any, damaged;		/* a row was read; bytes that no row can have */
	struct pfw_sqlite_room *joined; /* a row of several pages */
};

/* Go before the first row whose id is at least `first`.  0, -EBADMSG or -errno. */
int pfw_sqlite_seek(struct pfw_sqlite_rows *rows, int64_t first);
/* The next row: 1; 0 after the last; -EBADMSG or -errno. */
int pfw_sqlite_next(struct pfw_sqlite_rows *rows);
/* The next column of the row; NULL after the last, as for SQLite.  false: the row is damaged. */
bool pfw_sqlite_value(struct pfw_sqlite_rows *rows, struct pfw_sqlite_value *value);
/* The greatest id of the table: 1; 0: there is no row; or -errno.  Seek before other rows are read. */
int pfw_sqlite_last(struct pfw_sqlite_rows *rows, int64_t *id);
/* Free what reading took; the rows can be read again. */
void pfw_sqlite_end(struct pfw_sqlite_rows *rows);
