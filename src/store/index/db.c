/* store/index/db.c - the schema of an index, its proof, and SQLite's errors; see db.h. */
#include "store/index/db.h"

#include <errno.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/sys/full_io.h"

/* Documented in docs/index_format.rst.  Each change needs a new PFW_INDEX_FORMAT. */
/* clang-format off */
#define TABLE(name, columns) { #name, "CREATE TABLE " #name " (" columns ") STRICT" }
/* clang-format on */

const struct pfw_sqlite_schema pfw_index_tables[] = {
	[PFW_TABLE_META] = TABLE(
		meta, "trace_bytes INTEGER, first_bytes INTEGER, first_crc INTEGER,"
		      " last_bytes INTEGER, last_crc INTEGER, layout TEXT, blocks INTEGER,"
		      " lines INTEGER, events INTEGER, problems INTEGER, least_ns INTEGER,"
		      " greatest_ns INTEGER, first_ns INTEGER, last_ns INTEGER, sorted INTEGER,"
		      " left_out INTEGER, nested INTEGER, untimed INTEGER"),
	[PFW_TABLE_BLOCK] =
		TABLE(block, "id INTEGER PRIMARY KEY, at INTEGER, bytes INTEGER, lines INTEGER,"
			     " events INTEGER, least_ns INTEGER, greatest_ns INTEGER"),
	[PFW_TABLE_BLOCK_HOLDS] = TABLE(
		block_holds, "block INTEGER PRIMARY KEY, threads BLOB, files BLOB, names BLOB"),
	[PFW_TABLE_POINT] = TABLE(
		point, "id INTEGER PRIMARY KEY, text_at INTEGER, file_at INTEGER, bits INTEGER,"
		       " window BLOB"),
	[PFW_TABLE_PART] =
		TABLE(part, "id INTEGER PRIMARY KEY, kind TEXT, version INTEGER, block INTEGER,"
			    " data BLOB"),
	[PFW_TABLE_NAME] = TABLE(
		name, "id INTEGER PRIMARY KEY, cat TEXT, name TEXT, ph TEXT, count INTEGER,"
		      " timed INTEGER, sum_ns ANY, min_ns INTEGER, max_ns INTEGER, bytes INTEGER,"
		      " transfers INTEGER, transfer_ns INTEGER, durations BLOB"),
	[PFW_TABLE_FILE] = TABLE(
		file, "id INTEGER PRIMARY KEY, fname TEXT, lines INTEGER, opens INTEGER,"
		      " reads INTEGER, writes INTEGER, others INTEGER, read_bytes INTEGER,"
		      " written_bytes INTEGER, open_ns INTEGER, read_ns INTEGER, write_ns INTEGER,"
		      " other_ns INTEGER, transfers INTEGER, transfer_ns INTEGER"),
	[PFW_TABLE_FILE_SUMS] = TABLE(file_sums, "first INTEGER PRIMARY KEY, sums BLOB"),
	[PFW_TABLE_THREAD] = TABLE(thread,
				   "id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, name TEXT,"
				   " lines INTEGER, first_ns INTEGER, last_ns INTEGER"),
	[PFW_TABLE_PROCESS] = TABLE(
		process, "id INTEGER PRIMARY KEY, pid INTEGER, ppid INTEGER, start_ns INTEGER,"
			 " rank INTEGER, local_rank INTEGER, world_size INTEGER, run TEXT,"
			 " host TEXT, cmd TEXT, reason TEXT, end_ns INTEGER, events INTEGER,"
			 " lost INTEGER"),
	[PFW_TABLE_STEP] = TABLE(step,
				 "id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, number INTEGER,"
				 " begin_ns INTEGER, end_ns INTEGER"),
	[PFW_TABLE_LOSS] = TABLE(
		loss, "id INTEGER PRIMARY KEY, pid INTEGER, kind TEXT, reason TEXT, count INTEGER,"
		      " total_ns INTEGER, last_ns INTEGER"),
	[PFW_TABLE_PROBLEM] =
		TABLE(problem,
		      "id INTEGER PRIMARY KEY, line INTEGER, at INTEGER, more INTEGER, text TEXT"),
};

static const char *const layouts[] = {
	[PFW_LAYOUT_TEXT] = "text",
	[PFW_LAYOUT_MEMBERS] = "members",
	[PFW_LAYOUT_STREAM] = "stream",
};

const char *pfw_index_layout_name(enum pfw_layout layout)
{
	return layouts[layout];
}

bool pfw_index_layout_of(const char *name, enum pfw_layout *layout)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		if (strcmp(name, layouts[i]) == 0) {
			*layout = (enum pfw_layout)i;
			return true;
		}
	}
	return false;
}

unsigned pfw_index_columns(enum pfw_index_tables table)
{
	unsigned columns = 1;

	for (const char *at = pfw_index_tables[table].sql; (at = strchr(at, ',')); at++)
		columns++;
	return columns;
}

char *pfw_index_path(const char *trace, const char *suffix)
{
	size_t bytes = strlen(trace) + strlen(suffix) + 1;
	char *path = malloc(bytes);

	if (path)
		snprintf(path, bytes, "%s%s", trace, suffix);
	return path;
}

/* ---- proof of the trace ---- */

static int crc_of(uint32_t *crc, int fd, uint64_t at, uint32_t bytes)
{
	/* malloc() maps larger ones anew each time. */
	static const size_t room = 64u << 10;
	char *text = malloc(room);
	int error = text ? 0 : -ENOMEM;

	*crc = 0;
	while (!error && bytes) {
		ssize_t got = pfw_full_read(fd, text, bytes < room ? bytes : room, at);

		if (got <= 0) {
			error = got < 0 ? (int)got : -ESTALE;
			break;
		}
		*crc = libdeflate_crc32(*crc, text, (size_t)got);
		at += (uint64_t)got;
		bytes -= (uint32_t)got;
	}
	free(text);
	return error;
}

int pfw_index_prove(struct pfw_index_proof *proof, int fd)
{
	int error;

	if (proof->first_bytes > proof->trace_bytes || proof->last_bytes > proof->trace_bytes)
		return -ESTALE;
	error = crc_of(&proof->first_crc, fd, 0, proof->first_bytes);
	/* A small trace is one block. */
	proof->last_crc = proof->first_crc;
	if (!error && proof->first_bytes == proof->trace_bytes &&
	    proof->last_bytes == proof->trace_bytes)
		return 0;
	return error ? error
		     : crc_of(&proof->last_crc, fd, proof->trace_bytes - proof->last_bytes,
			      proof->last_bytes);
}
