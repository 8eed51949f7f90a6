/* read/stream.c - one stream of record batches: a pass over the traces in pieces; see pfw/read.h.
 *
 * get_next() gives the next batch of a queue.  If that is empty, it lets the pass go on until the
 * queue is full again.  Each of its threads makes batches of groups of blocks; small ones are
 * joined, in order, since each column of each batch costs its reader some 0.1 ms.  After the files
 * come the lines that are still in rings of traced processes.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "read/arrow.h"
#include "read/internal.h"
#include "read/rows.h"
#include "store/pass/pass.h"
#include "store/read/scan.h"
#include "store/recover/live_lines.h"
#include "store/recover/unwritten.h"

/* The size of a full queue: large enough that threads are not started and joined for each small
 * batch.  A batch of all columns is larger, and starting threads takes a thousandth of its time. */
#define QUEUE_BATCHES 16u /* for each thread */
#define QUEUE_BYTES (8u << 20)

/* A batch ends before it has more rows, more values, or rows of more text, unless the program wants
 * more rows; one block is never divided.  A program and the queue hold some five of them. */
#define BATCH_ROWS 65536u
#define BATCH_VALUES (3u << 20)
#define BATCH_BYTES (32u << 20)

/* A batch that rows are added to. */
struct filling {
	struct pfw_read_batch *batch; /* NULL: none */
	size_t room;		      /* for the next one, as the one before needed; 0: unknown */
	struct pfw_read_texts texts;
};

/* Room differs little between batches, so that they can use the memory of others again. */
#define ROOM_STEP 8192u

/* Of one thread. */
struct worker {
	struct pfw_select_state *state;
	struct filling own;
};

struct stream {
	struct pfw_read *read;
	struct pfw_traces traces;
	struct pfw_live_lines live;
	size_t live_file; /* the next one with lines in rings */
	struct pfw_select select;
	struct pfw_read_places places;
	struct pfw_read_range part; /* to 0: all */
	struct pfw_read_columns columns;
	struct pfw_read_rows rows;
	bool conditions; /* most lines may be unwanted */
	struct worker *worker;
	struct pfw_pass pass;
	struct pfw_pass_run *run; /* NULL: the files are read */
	struct filling joined;	  /* of small batches */
	struct pfw_read_numbers numbers;
	size_t group_rows, group_blocks; /* of the group that is taken */
	struct pfw_read_batch *first, **last;
	size_t batches, bytes; /* in the queue */
	struct pfw_read_memory *memory;
	struct pfw_read_zeros *zeros;
	int error; /* of an earlier call */
};

/* ---- the pass ---- */

static bool want(void *user, size_t file, const struct pfw_block *block)
{
	const struct stream *stream = user;

	return (!stream->part.to ||
		pfw_read_places_in(&stream->places, &stream->traces, &stream->part, file, block)) &&
	       pfw_select_block(&stream->select, file, block);
}

/* The number of lines of a block of text, as far as it is known. */
static size_t lines_of(const struct pfw_block *block, size_t bytes)
{
	return block->summed && block->lines <= bytes / 64 ? block->lines : bytes / 256;
}

static size_t most_rows(const struct stream *stream)
{
	size_t rows = BATCH_VALUES / stream->columns.count;

	return rows < BATCH_ROWS ? rows : BATCH_ROWS;
}

/* A group makes about one batch. */
static bool joins(void *user, size_t file, const struct pfw_block *block, bool first)
{
	struct stream *stream = user;
	size_t before = first ? 0 : stream->group_rows;

	(void)file;
	stream->group_rows = before + (stream->conditions ? 0 : lines_of(block, PFW_BLOCK_TEXT));
	stream->group_blocks = first ? 1 : stream->group_blocks + 1;
	return before < stream->read->batch_rows ||
	       (stream->group_rows <= most_rows(stream) &&
		stream->group_blocks <= BATCH_BYTES / PFW_BLOCK_TEXT);
}

static void give(struct stream *stream, struct pfw_read_batch *batch)
{
	*stream->last = batch;
	stream->last = &batch->next;
	stream->batches++;
	stream->bytes += batch->bytes;
}

/* Take the batch, if it has rows, and append it to a list of batches. */
static int end_batch(const struct stream *stream, struct filling *filling,
		     struct pfw_read_batch **list)
{
	struct pfw_read_batch *batch = filling->batch;

	if (!batch || !batch->rows)
		return 0;
	filling->batch = NULL;
	filling->room = (batch->rows / ROOM_STEP + 1) * ROOM_STEP;
	pfw_read_batch_end(batch, &stream->columns, &filling->texts);
	while (*list)
		list = &(*list)->next;
	*list = batch;
	return batch->error;
}

static int open_batch(const struct stream *stream, struct filling *filling, size_t rows)
{
	if (!filling->batch)
		filling->batch = pfw_read_batch_new(
			&stream->columns, filling->room ? filling->room : rows, stream->memory);
	return filling->batch ? 0 : -ENOMEM;
}

/* Whether `rows` more, of so many bytes of text, have no room in a batch. */
static bool is_full(const struct stream *stream, const struct pfw_read_batch *batch, size_t rows,
		    size_t bytes)
{
	return batch && batch->rows >= stream->read->batch_rows &&
	       (batch->rows + rows > most_rows(stream) || batch->text + bytes > BATCH_BYTES);
}

static int add_rows(struct stream *stream, struct worker *worker, struct pfw_pass_block *block)
{
	struct pfw_read_batch *batch = worker->own.batch;
	struct pfw_pass_lines line;

	batch->text += block->bytes;
	pfw_pass_lines_init(&line, block);
	line.entry.numbered = true;
	while (!batch->error && pfw_pass_lines_next(&line))
		if (pfw_select_entry(&stream->select, worker->state, line.file, &line.entry))
			pfw_read_rows_add(&stream->rows, batch, &worker->own.texts, &line.entry,
					  stream->select.window[line.file].rank);
	return batch->error;
}

/* The result is a list of the batches that have ended.  One thread alone does not end them with
 * their groups, as all blocks are in its order. */
static int work(void *user, unsigned number, struct pfw_pass_block *block)
{
	struct stream *stream = user;
	struct worker *worker = &stream->worker[number];
	size_t lines = lines_of(block->block, block->bytes);
	struct pfw_read_batch *list = NULL;
	int error = is_full(stream, worker->own.batch, lines, block->bytes)
			    ? end_batch(stream, &worker->own, &list)
			    : 0;

	if (!error)
		error = open_batch(stream, &worker->own,
				   stream->conditions ? 0 : stream->read->batch_rows + lines);
	error = error ?: add_rows(stream, worker, block);
	if (!error && block->last && stream->pass.jobs > 1)
		error = end_batch(stream, &worker->own, &list);
	block->result = list;
	return error;
}

static void drop(void *result)
{
	struct pfw_read_batch *batch = result, *next;

	for (; batch; batch = next) {
		next = batch->next;
		pfw_read_batch_free(batch);
	}
}

/* Give the batch that was joined, if there is one. */
static int give_joined(struct stream *stream)
{
	struct pfw_read_batch *batch = NULL;
	int error = end_batch(stream, &stream->joined, &batch);

	if (error)
		pfw_read_batch_free(batch);
	else if (batch)
		give(stream, batch);
	return error;
}

/* Whether a batch is large enough to be given by itself, after the joined ones. */
static bool is_large(const struct stream *stream, const struct pfw_read_batch *batch)
{
	size_t least = stream->read->batch_rows;

	return batch->rows > most_rows(stream) / 2 && batch->rows >= least &&
	       (!stream->joined.batch || stream->joined.batch->rows >= least);
}

/* Append the rows of a batch. */
static int join(struct stream *stream, const struct pfw_read_batch *batch)
{
	struct filling *joined = &stream->joined;
	int error = is_full(stream, joined->batch, batch->rows, batch->text) ? give_joined(stream)
									     : 0;

	error = error ?: open_batch(stream, joined, 4 * batch->rows);
	if (error)
		return error;
	pfw_read_batch_append(joined->batch, &joined->texts, batch, &stream->columns,
			      &stream->numbers);
	return joined->batch->error;
}

/* Give or join, and free, the batches of a list, as far as there is no error. */
static int accept_batches(struct stream *stream, struct pfw_read_batch **list)
{
	int error = 0;

	while (*list && !error) {
		struct pfw_read_batch *batch = *list;

		*list = batch->next;
		batch->next = NULL;
		if (is_large(stream, batch) && !(error = give_joined(stream))) {
			give(stream, batch);
			continue;
		}
		error = error ?: join(stream, batch);
		pfw_read_batch_free(batch);
	}
	return error;
}

static int done(void *user, struct pfw_pass_block *block)
{
	struct stream *stream = user;
	struct pfw_read_batch *list = block->result;
	int error = accept_batches(stream, &list);

	block->result = list;
	if (error)
		return error;
	return stream->batches >= QUEUE_BATCHES * stream->pass.jobs || stream->bytes >= QUEUE_BYTES
		       ? PFW_PASS_PAUSE
		       : 0;
}

static void problem(void *user, size_t file, const struct pfw_scan_problem *what)
{
	const struct stream *stream = user;
	const char *path = stream->traces.file[file].path;

	if (what->line)
		pfw_read_add_problem(stream->read, what->more, "%s:%" PRIu64 ": %s", path,
				     what->line, what->text);
	else
		pfw_read_add_problem(stream->read, what->more, "%s: byte %" PRIu64 ": %s", path,
				     what->at, what->text);
}

/* ---- the next batch ---- */

/* Give the lines that come after all blocks. */
static int give_last(struct stream *stream)
{
	struct pfw_read_batch *list = NULL;
	int error = end_batch(stream, &stream->worker[0].own, &list);

	error = error ?: accept_batches(stream, &list);
	drop(list);
	return error ?: give_joined(stream);
}

/* Make batches of the next lines that are in rings.  *end: there are none. */
static int read_rings(struct stream *stream, bool *end)
{
	struct pfw_live_lines *live = &stream->live;
	const char *text;
	size_t bytes;
	int error;

	for (; stream->live_file < stream->traces.count; stream->live_file++) {
		struct pfw_unwritten *file = live->live[stream->live_file];

		if (!file || !(bytes = pfw_unwritten_next(file, &text)))
			continue;
		error = pfw_pass_text(&stream->pass, stream->live_file, text, bytes);
		return error < 0 ? error : 0;
	}
	*end = true;
	return give_last(stream);
}

static int fill(struct stream *stream)
{
	bool end = false;
	int error = 0;

	while (!stream->first && !end && !error) {
		if (!stream->run) {
			error = read_rings(stream, &end);
			continue;
		}
		error = pfw_pass_go(stream->run);
		if (error == PFW_PASS_PAUSE) {
			error = 0;
			continue;
		}
		/* A file that cannot be read is a problem, and counted. */
		error = error == -EIO ? 0 : error;
		pfw_pass_close(stream->run);
		stream->run = NULL;
	}
	return error;
}

static struct pfw_read_batch *take(struct stream *stream)
{
	struct pfw_read_batch *batch = stream->first;

	stream->first = batch->next;
	if (!stream->first)
		stream->last = &stream->first;
	stream->batches--;
	stream->bytes -= batch->bytes;
	return batch;
}

static int get_next(struct ArrowArrayStream *arrow, struct ArrowArray *out)
{
	struct stream *stream = arrow->private_data;

	out->release = NULL;
	if (!stream->error)
		stream->error = stream->read->stop ? -EINTR : fill(stream);
	if (!stream->error && stream->first)
		stream->error =
			pfw_read_arrow_batch(out, &stream->columns, take(stream), &stream->zeros);
	if (stream->error)
		pfw_read_fail(stream->read, stream->error, NULL);
	return -stream->error;
}

static int get_schema(struct ArrowArrayStream *arrow, struct ArrowSchema *out)
{
	struct stream *stream = arrow->private_data;
	int error = pfw_read_arrow_schema(out, &stream->columns);

	return error ? -pfw_read_fail(stream->read, error, NULL) : 0;
}

static const char *get_last_error(struct ArrowArrayStream *arrow)
{
	const struct stream *stream = arrow->private_data;

	return pfw_read_error(stream->read);
}

/* ---- opening and closing ---- */

static void free_filling(struct filling *filling)
{
	pfw_read_batch_free(filling->batch);
	pfw_read_texts_release(&filling->texts);
}

static void close_stream(struct stream *stream)
{
	pfw_pass_close(stream->run);
	while (stream->first)
		pfw_read_batch_free(take(stream));
	for (unsigned i = 0; stream->worker && i < stream->pass.jobs; i++) {
		struct worker *worker = &stream->worker[i];

		pfw_select_state_free(worker->state);
		free_filling(&worker->own);
	}
	free(stream->worker);
	free_filling(&stream->joined);
	free(stream->numbers.number);
	pfw_read_memory_close(stream->memory);
	pfw_read_zeros_drop(stream->zeros);
	if (stream->live.traces)
		pfw_live_lines_close(&stream->live);
	pfw_read_places_free(&stream->places);
	pfw_select_release(&stream->select);
	pfw_traces_close(&stream->traces);
	pfw_read_drop(stream->read);
	free(stream);
}

static void release(struct ArrowArrayStream *arrow)
{
	close_stream(arrow->private_data);
	arrow->release = NULL;
}

static void say(void *user, const char *path, const char *why)
{
	pfw_read_add_problem(user, 0, "%s: %s", path, why);
}

static int set_select(struct stream *stream)
{
	const struct pfw_read *read = stream->read;
	const struct pfw_extent_options extent = { .jobs = stream->pass.jobs,
						   .more = pfw_live_lines_more,
						   .user = &stream->live };
	char why[1024] = "";
	int error = 0;

	stream->select.meta = read->meta;
	stream->select.absent_ranks = true;
	stream->select.ask_fnames = stream->columns.place[PFW_READ_ARG_fname] >= 0;
	for (size_t i = 0; i < read->conditions && !error; i++)
		error = pfw_select_add(&stream->select, read->condition[i].option,
				       read->condition[i].value, why, sizeof(why));
	if (!error) /* an index that is of no use costs time only */
		error = pfw_select_use_indexes(&stream->select, &stream->traces,
					       pfw_traces_say_nothing, NULL);
	error = error ?: pfw_live_lines_open(&stream->live);
	if (!error)
		error = pfw_select_resolve(&stream->select, &stream->traces, &extent, why,
					   sizeof(why));
	stream->conditions = read->conditions;
	return error ? pfw_read_fail(stream->read, error, *why ? "%s" : NULL, why) : 0;
}

/* Leave out what is in other parts. */
static int set_part(struct stream *stream)
{
	struct pfw_traces *traces = &stream->traces;
	const struct pfw_read_range part = stream->read->part;

	stream->part = part;
	if (!part.to)
		return 0;
	if (pfw_read_places_set(&stream->places, traces))
		return pfw_read_fail(stream->read, -ENOMEM, NULL);
	if (part.layout != stream->places.layout)
		return pfw_read_fail(stream->read, -ESTALE,
				     "part %" PRIu64 "-%" PRIu64 ": the traces are not the ones "
				     "that were divided, or have grown: divide them again",
				     part.from, part.to);
	for (size_t i = 0; i < traces->count; i++) {
		struct pfw_blocks *blocks = &traces->file[i].blocks;

		/* Without blocks it is not opened. */
		if (blocks->layout == PFW_LAYOUT_STREAM &&
		    !pfw_read_places_in(&stream->places, traces, &part, i, NULL)) {
			blocks->layout = PFW_LAYOUT_MEMBERS;
			blocks->count = 0;
		}
	}
	if (!pfw_read_places_last(&stream->places, &part))
		stream->live_file = traces->count;
	return 0;
}

static int set_workers(struct stream *stream)
{
	stream->worker = calloc(stream->pass.jobs, sizeof(*stream->worker));
	stream->memory = pfw_read_memory_new();
	if (!stream->memory || !pfw_read_texts_init(&stream->joined.texts))
		return pfw_read_fail(stream->read, -ENOMEM, NULL);
	for (unsigned i = 0; i < stream->pass.jobs; i++) {
		struct worker *worker = stream->worker ? &stream->worker[i] : NULL;

		if (!worker || !(worker->state = pfw_select_state_create(&stream->select)) ||
		    !pfw_read_texts_init(&worker->own.texts))
			return pfw_read_fail(stream->read, -ENOMEM, NULL);
	}
	return pfw_pass_open(&stream->run, &stream->pass)
		       ? pfw_read_fail(stream->read, -ENOMEM, NULL)
		       : 0;
}

static int open_traces(struct stream *stream)
{
	struct pfw_read *read = stream->read;
	uint64_t problems = read->problems;
	const char *first;
	int error = pfw_traces_open(&stream->traces, read->path, read->paths,
				    read->all_runs * PFW_TRACES_ALL_RUNS | PFW_TRACES_RANKS, say,
				    read);

	stream->live.traces = error ? NULL : &stream->traces;
	for (size_t i = 0; !error && i < stream->traces.doubles; i++) {
		const struct pfw_traces_double *twice = &stream->traces.twice[i];

		if (twice->partly)
			pfw_read_add_problem(read, 0,
					     "%s: shares processes with %s: they count twice",
					     twice->left_out, twice->used);
	}
	if (!error)
		return 0;
	first = read->problems > problems ? pfw_read_problem(read, problems) : NULL;
	return pfw_read_fail(read, error, first ? "%s" : NULL, first);
}

/* Open the traces that `read` asks for; close_stream() also after an error. */
static int open_stream(struct stream *stream, struct pfw_read *read)
{
	char why[256] = "";
	unsigned jobs = pfw_read_jobs(read);
	int error;

	atomic_fetch_add(&read->users, 1);
	stream->read = read;
	stream->last = &stream->first;
	stream->live = (struct pfw_live_lines){ .say = say, .user = read };
	stream->pass = (struct pfw_pass){ .traces = &stream->traces,
					  .jobs = jobs,
					  .whole = true,
					  .user = stream,
					  .want = want,
					  .joins = joins,
					  .work = work,
					  .done = done,
					  .drop = drop,
					  .problem = problem,
					  .stop = &read->stop };
	pfw_read_columns_parse(&stream->columns, read->columns, why, sizeof(why));
	error = open_traces(stream) ?: set_select(stream);
	stream->rows = (struct pfw_read_rows){ &stream->columns, stream->select.fnames };
	return error;
}

int pfw_read_stream(struct pfw_read *read, struct ArrowArrayStream *arrow)
{
	struct stream *stream = calloc(1, sizeof(*stream));
	int error;

	*arrow = (struct ArrowArrayStream){ .release = NULL };
	if (!stream)
		return pfw_read_fail(read, -ENOMEM, NULL);
	error = open_stream(stream, read) ?: set_part(stream) ?: set_workers(stream);
	if (error) {
		close_stream(stream);
		return error;
	}
	*arrow = (struct ArrowArrayStream){ get_schema, get_next, get_last_error, release, stream };
	return 0;
}

int pfw_read_divide(struct pfw_read *read, uint64_t blocks, pfw_read_each *each, void *user)
{
	struct stream *stream = calloc(1, sizeof(*stream));
	int error;

	if (!stream)
		return pfw_read_fail(read, -ENOMEM, NULL);
	error = open_stream(stream, read);
	if (!error && pfw_read_places_set(&stream->places, &stream->traces))
		error = pfw_read_fail(read, -ENOMEM, NULL);
	/* Times of blocks are those of events; the times of lines in rings are not known. */
	if (!error)
		pfw_read_places_divide(&stream->places, &stream->traces, &stream->select,
				       !read->meta && !stream->live.any, blocks, each, user);
	close_stream(stream);
	return error;
}
