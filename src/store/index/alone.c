/* store/index/alone.c - indexes without their traces, in partials; see index.h. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "store/index/index.h"
#include "store/index/internal.h"
#include "store/sys/pool.h"
#include "store/traces/traces.h"

/* ---- writing ---- */

/* A column of the table `part`. */
enum { PART_BLOCK = 3 };

/* Whether a table serves to find lines. */
static bool finds_lines(enum pfw_index_tables table)
{
	return table == PFW_TABLE_BLOCK || table == PFW_TABLE_BLOCK_HOLDS ||
	       table == PFW_TABLE_POINT;
}

/* The same lines, compressed again, may give other bytes: what proves the trace is left out. */
static void drop_proof(struct pfw_sqlite_value *meta, uint64_t blocks)
{
	for (int i = 0; i < 5; i++)
		meta[i] = (struct pfw_sqlite_value){ .type = PFW_SQLITE_INTEGER };
	meta[0].integer = (int64_t)blocks; /* trace_bytes */
}

/* Copy a table, but not the state that serves to go on when the trace grows. */
static int copy_table(struct pfw_index *index, struct pfw_index_maker *maker,
		      enum pfw_index_tables table)
{
	const int64_t state = (int64_t)index->meta.blocks + PFW_INDEX_STATE;
	const unsigned columns = pfw_index_columns(table);
	struct pfw_index_row row;
	int result = 0, error = pfw_index_query(index, &row, table, INT64_MIN);

	while (!error && (result = pfw_index_next(&row)) > 0) {
		struct pfw_put *put = pfw_put_begin(maker, table);

		error = pfw_put_copy(put, &row, columns);
		if (table == PFW_TABLE_META)
			drop_proof(put->value, index->meta.blocks);
		if (!error && (table != PFW_TABLE_PART || put->value[PART_BLOCK].integer != state))
			error = pfw_put_row(put);
	}
	pfw_index_done(&row);
	return error ? error : result;
}

int pfw_index_alone(struct pfw_index *index, uint8_t **image, size_t *bytes)
{
	struct pfw_index_maker maker;
	int error = 0;

	pfw_index_maker_begin(&maker, -1, index->db.page_bytes);
	for (size_t i = 0; i < PFW_TABLES && !error; i++)
		error = finds_lines(i) ? 0 : copy_table(index, &maker, i);
	error = error ? error : pfw_index_maker_finish(&maker);
	if (!error) {
		*image = maker.db.image;
		*bytes = (size_t)maker.db.pages * maker.db.page_bytes;
		maker.db.image = NULL;
	}
	pfw_index_maker_release(&maker);
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

/* With fewer bytes the headers of all members take no longer to read than the index. */
#define LARGE_BYTES (4u << 20)

uint64_t pfw_index_process_lines(const char *trace)
{
	struct pfw_index_row row = { .text = NULL };
	struct pfw_index *index;
	char why[PATH_MAX];
	struct stat st;
	int64_t last;
	int found;

	if (stat(trace, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < LARGE_BYTES ||
	    pfw_index_open(&index, trace, why, sizeof(why)))
		return 0;
	row.rows = (struct pfw_sqlite_rows){ .db = &index->db,
					     .root = index->root[PFW_TABLE_PROCESS] };
	/* A process that ended without having begun has a row, too: then they never are all found. */
	found = index->meta.layout == PFW_LAYOUT_MEMBERS && !index->left_out
			? pfw_sqlite_last(&row.rows, &last)
			: 0;
	pfw_index_done(&row);
	pfw_index_close(index);
	return found == 1 ? (uint64_t)last + 1 : 0;
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
	struct pfw_indexes_ahead *ahead;
	size_t number; /* of the file */
	struct pfw_index *index;
	int error;
};

struct pfw_indexes_ahead {
	const struct pfw_traces *traces;
	struct pfw_pool *pool;
	void *user;
	bool (*want)(void *user, size_t file);
	int (*read)(void *user, size_t file, struct pfw_index *index);
	struct opening opening[AHEAD]; /* a ring */
	size_t first, opened;	       /* the oldest of the ring, and the one after the newest */
	size_t next;		       /* file that is looked at next */
};

static void open_one(struct pfw_task *task, unsigned worker)
{
	struct opening *opening = (struct opening *)task;
	struct pfw_indexes_ahead *ahead = opening->ahead;

	(void)worker;
	opening->error = pfw_index_of(&opening->index, &ahead->traces->file[opening->number]);
	if (opening->error || !ahead->read)
		return;
	opening->error = ahead->read(ahead->user, opening->number, opening->index);
	if (opening->error)
		pfw_index_close(opening->index);
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
					     .ahead = ahead,
					     .number = ahead->next };
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

int pfw_indexes_ahead_open(struct pfw_indexes_ahead **out, const struct pfw_traces *traces,
			   unsigned jobs, void *user, bool (*want)(void *user, size_t file),
			   int (*read)(void *user, size_t file, struct pfw_index *index))
{
	struct pfw_indexes_ahead *ahead = calloc(1, sizeof(*ahead));

	if (!ahead)
		return -ENOMEM;
	*ahead = (struct pfw_indexes_ahead){
		.traces = traces, .user = user, .want = want, .read = read
	};
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
		if (opening->number != file && !opening->error)
			pfw_index_close(opening->index);
	} while (opening->number != file);
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
