/* index_writer.h - an index while it is made, as the files index_*.c share it. */
#ifndef PFW_INDEX_WRITER_H
#define PFW_INDEX_WRITER_H

#include "index_db.h"
#include "index_parts.h"

/* A row on its way into a table. */
struct pfw_put {
	sqlite3_stmt *statement;
	int at;
};

struct pfw_index_writer {
	char *trace;
	char *path;	  /* while it is made */
	char *final_path; /* when it is whole */
	int fd; /* of path; locked, so that nobody takes it for a dead one's; -1: in memory */
	bool published;
	sqlite3 *db;
	struct pfw_put block, holds, point, part;
	struct pfw_summary total;
	struct pfw_blob threads, files, names;
	void *kind[PFW_INDEX_KINDS_MAX]; /* the file's, of each kind; NULL: not kept of it */
	struct pfw_blob data;
	uint32_t blocks, points;
	uint64_t lines;	       /* of all blocks, bad ones, too */
	struct pfw_block last; /* and first: what the proof is made of */
	struct pfw_block first;
};

/* Prepare an INSERT of that many columns.  0 or -errno; pairs with sqlite3_finalize().  Thread: as
 * for the writer, as all here. */
int pfw_put_begin(struct pfw_put *put, sqlite3 *db, const char *table, int columns);

/* The next column's value, which must last until pfw_put_row(); of times INT64_MAX and INT64_MIN
 * mean that there is none. */
void pfw_put_i64(struct pfw_put *put, int64_t value);
void pfw_put_u64(struct pfw_put *put, uint64_t value);
void pfw_put_i128(struct pfw_put *put, __int128 value);
void pfw_put_time(struct pfw_put *put, int64_t ns);
void pfw_put_text(struct pfw_put *put, const char *text, size_t bytes);
void pfw_put_string(struct pfw_put *put, const char *text); /* NULL: nothing */
void pfw_put_blob(struct pfw_put *put, const void *data, size_t bytes);

/* Write the row, and begin the next.  0 or -errno. */
int pfw_put_row(struct pfw_put *put);

/* Run a statement, or several.  0 or -errno. */
int pfw_index_run(struct pfw_index_writer *writer, const char *sql);

/* Put what was gathered of the block in hand (NULL: nothing) into the table `part`; what there is behind
 * the last one; and free all that.  0 or -errno. */
int pfw_index_take_parts(struct pfw_index_writer *writer, struct pfw_gather *gather);
int pfw_index_end_parts(struct pfw_index_writer *writer);
void pfw_index_free_parts(struct pfw_index_writer *writer);

/* Write all tables but those of blocks, and end the transaction.  0 or -errno. */
int pfw_index_put_totals(struct pfw_index_writer *writer, const struct pfw_index_trace *trace);

#endif
