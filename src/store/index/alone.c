/* store/index/alone.c - indexes without their traces, in partials; see index.h. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "store/index/index.h"
#include "store/index/internal.h"
#include "store/sys/full_io.h"
#include "store/sys/pool.h"
#include "store/traces/traces.h"

/* ---- writing ---- */

/* Our longest text or blob: PFW_SUMMARY_TEXT_MAX, or all names of a block. */
#define LENGTH_MAX (32 << 20)

/* Restrict what an untrusted file can make SQLite do. */
static int restrain(sqlite3 *db)
{
	int result = SQLITE_OK;

	result |= sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	result |= sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	result |= sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	result |= sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, LENGTH_MAX);
	if (!result)
		result = sqlite3_exec(db, "PRAGMA cell_size_check=1", NULL, NULL, NULL);
	return result ? -EBADMSG : 0;
}

/* Open a copy of an index in memory, which can be changed. */
static int open_copy(sqlite3 **db, const struct pfw_index *index)
{
	uint64_t bytes = (uint64_t)index->db.pages * index->db.page_bytes;
	unsigned char *image = sqlite3_malloc64(bytes);
	int error = image ? 0 : -ENOMEM;

	if (image && index->db.image)
		memcpy(image, index->db.image, bytes);
	else if (image)
		error = pfw_full_read_all(index->db.fd, image, bytes, 0);
	error = error ? error
		      : pfw_index_error(sqlite3_open_v2(
				":memory:", db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL));
	if (error) {
		sqlite3_free(image);
		return error;
	}
	/* The database owns the image from here on. */
	error = pfw_index_error(sqlite3_deserialize(
		*db, "main", image, (sqlite3_int64)bytes, (sqlite3_int64)bytes,
		SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE));
	return error ? error : restrain(*db);
}

/* Drop the proof of the trace: the same lines, compressed again, may give other bytes. */
int pfw_index_alone(struct pfw_index *index, unsigned char **image, size_t *bytes)
{
	sqlite3_int64 size = 0;
	sqlite3 *db = NULL;
	int error = open_copy(&db, index);

	_Static_assert(PFW_INDEX_STATE == 4, "the rows that are deleted");
	if (!error)
		error = pfw_index_error(
			sqlite3_exec(db,
				     "PRAGMA temp_store=MEMORY; DELETE FROM block;"
				     "DELETE FROM block_holds; DELETE FROM point;"
				     "DELETE FROM part WHERE block = (SELECT blocks + 4 FROM meta);"
				     "UPDATE meta SET trace_bytes = blocks, first_bytes = 0,"
				     " first_crc = 0, last_bytes = 0, last_crc = 0; VACUUM",
				     NULL, NULL, NULL));
	if (!error) {
		*image = sqlite3_serialize(db, "main", &size, 0);
		*bytes = (size_t)size;
		error = *image ? 0 : -ENOMEM;
	}
	sqlite3_close(db);
	return error;
}

/* ---- reading ---- */

static int open_alone(struct pfw_index *index, const struct pfw_trace_file *file)
{
	char why[128];
	size_t bytes = file->unit.index_bytes;
	unsigned char *image;
	int error = pfw_partial_index(file->partial, &file->unit, &image);

	if (error)
		return error;
	/* The index owns the image from here on. */
	error = pfw_sqlite_open_image(&index->db, image, bytes);
	if (bytes > PFW_SQLITE_HEADER) {
		int differs = pfw_index_check_header(image, bytes, why, sizeof(why));

		error = differs ? differs : error;
	}
	return error ? error : pfw_index_look(index);
}

int pfw_index_of(struct pfw_index **out, const struct pfw_trace_file *file)
{
	struct pfw_index *index;
	char why[PATH_MAX];
	int error;

	if (!file->partial)
		return pfw_index_open(out, file->path, why, sizeof(why));
	index = calloc(1, sizeof(*index));
	if (index)
		index->db.fd = -1;
	error = index ? open_alone(index, file) : -ENOMEM;
	if (error && index)
		pfw_index_close(index);
	else
		*out = index;
	return error;
}

/* ---- many ---- */

int pfw_indexes_get(struct pfw_indexes *indexes, size_t file, struct pfw_index **out)
{
	bool kept = file < PFW_INDEXES_OPEN;
	struct pfw_index **slot = kept ? &indexes->open[file] : &indexes->other;
	int error = 0;

	if (!kept && *slot && indexes->number != file) {
		pfw_index_close(*slot);
		*slot = NULL;
	}
	if (!*slot)
		error = pfw_index_of(slot, &indexes->file[file]);
	if (error)
		*slot = NULL;
	else if (!kept)
		indexes->number = file;
	*out = *slot;
	return error;
}

void pfw_indexes_close(struct pfw_indexes *indexes)
{
	for (size_t i = 0; i < PFW_INDEXES_OPEN; i++) {
		if (indexes->open[i])
			pfw_index_close(indexes->open[i]);
	}
	if (indexes->other)
		pfw_index_close(indexes->other);
}

/* ---- ahead ---- */

/* Open at a time: each takes two descriptors. */
#define AHEAD 32u

struct opening {
	struct pfw_task task;
	const struct pfw_trace_file *file;
	struct pfw_index *index;
	int error;
};

struct pfw_indexes_ahead {
	const struct pfw_traces *traces;
	struct pfw_pool *pool;
	void *user;
	bool (*want)(void *user, size_t file);
	struct opening opening[AHEAD]; /* a ring */
	size_t first, opened;	       /* the oldest of the ring, and the one after the newest */
	size_t next;		       /* file that is looked at next */
};

static void open_one(struct pfw_task *task, unsigned worker)
{
	struct opening *opening = (struct opening *)task;

	(void)worker;
	opening->error = pfw_index_of(&opening->index, opening->file);
}

/* Fill the ring. */
static void open_more(struct pfw_indexes_ahead *ahead)
{
	for (; ahead->next < ahead->traces->count && ahead->opened - ahead->first < AHEAD;
	     ahead->next++) {
		struct opening *opening = &ahead->opening[ahead->opened % AHEAD];

		if (!ahead->want(ahead->user, ahead->next))
			continue;
		*opening = (struct opening){ .task.run = open_one,
					     .file = &ahead->traces->file[ahead->next] };
		pfw_pool_start(ahead->pool, &opening->task);
		ahead->opened++;
	}
}

/* Take the oldest of the ring, which is not empty. */
static struct opening *take_oldest(struct pfw_indexes_ahead *ahead)
{
	struct opening *opening = &ahead->opening[ahead->first++ % AHEAD];

	pfw_pool_wait(ahead->pool, &opening->task);
	return opening;
}

void pfw_indexes_alone(void)
{
	sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

int pfw_indexes_ahead_open(struct pfw_indexes_ahead **out, const struct pfw_traces *traces,
			   unsigned jobs, void *user, bool (*want)(void *user, size_t file))
{
	struct pfw_indexes_ahead *ahead = calloc(1, sizeof(*ahead));

	if (!ahead)
		return -ENOMEM;
	*ahead = (struct pfw_indexes_ahead){ .traces = traces, .user = user, .want = want };
	if (pfw_pool_open(&ahead->pool, jobs < traces->count ? jobs : 1)) {
		free(ahead);
		return -ENOMEM;
	}
	*out = ahead;
	return 0;
}

int pfw_index_ahead(struct pfw_indexes_ahead *ahead, size_t file, struct pfw_index **out)
{
	struct opening *opening;

	do {
		open_more(ahead);
		opening = take_oldest(ahead);
		if (opening->file != &ahead->traces->file[file] && !opening->error)
			pfw_index_close(opening->index);
	} while (opening->file != &ahead->traces->file[file]);
	*out = opening->index;
	return opening->error;
}

void pfw_indexes_ahead_close(struct pfw_indexes_ahead *ahead)
{
	if (!ahead)
		return;
	while (ahead->first < ahead->opened) {
		struct opening *opening = take_oldest(ahead);

		if (!opening->error)
			pfw_index_close(opening->index);
	}
	pfw_pool_close(ahead->pool);
	free(ahead);
}
