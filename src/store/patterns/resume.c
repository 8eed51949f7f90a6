/* store/patterns/resume.c - what the operations that come later depend on, as bytes of an index: the
 * use of each file, open files, and operations that wait for earlier ones of other threads.
 */
#include <errno.h>
#include <stdlib.h>

#include "store/index/db.h"
#include "store/kit/grow.h"
#include "store/kit/varint.h"
#include "store/patterns/op.h"
#include "store/patterns/patterns.h"

/* The most operations that are kept, of some 15 bytes.  Lines that a trace gets later mostly begin after
 * these; otherwise its index is made anew. */
#define WAITING_MOST 8192u

/* ---- writing ---- */

/* The second numbers of all pairs, in order; NULL: no memory. */
static uint64_t *in_order(const struct pfw_pair_ids *ids)
{
	uint64_t *second = calloc(ids->count + 1, sizeof(*second));

	for (uint32_t i = 0; i < ids->slots && second; i++) {
		if (ids->slot[i].number)
			second[ids->slot[i].number - 1] = ids->slot[i].b;
	}
	return second;
}

static void put_use(struct pfw_blob *blob, uint64_t row, const struct pfw_pattern_use *use)
{
	uint64_t value[2 + 2 * 3] = { row, use->used | use->opened << 1 | use->moved << 2 |
						   use->side << 3 };
	size_t count = 2;

	for (unsigned i = 0; i < 2; i++) {
		const struct pfw_pattern_last *last = &use->last[i];

		value[1] |= (uint64_t)last->any << (4 + i) | (uint64_t)last->stepped << (6 + i);
		if (!last->any)
			continue;
		value[count++] = (uint64_t)last->begin;
		value[count++] = (uint64_t)last->end;
		if (last->stepped)
			value[count++] = pfw_varint_fold(last->step);
	}
	pfw_blob_put(blob, value, count);
}

static void put_uses(struct pfw_blob *blob, const struct pfw_patterns *patterns)
{
	size_t rows = patterns->rows < patterns->use_room ? patterns->rows : patterns->use_room;
	uint64_t count = 0;

	for (size_t i = 0; i < rows; i++)
		count += patterns->use[i].used;
	PFW_BLOB_PUT(blob, count);
	for (size_t i = 0; i < rows; i++) {
		if (patterns->use[i].used)
			put_use(blob, i, &patterns->use[i]);
	}
}

/* Descriptors, each with its open file, which those before it may share. */
static int put_descriptors(struct pfw_blob *blob, const struct pfw_patterns *patterns)
{
	uint64_t *fd = in_order(&patterns->descriptors), next = 0;
	uint64_t *number = calloc(patterns->opens + 1, sizeof(*number));
	int error = fd && number ? 0 : -ENOMEM;

	PFW_BLOB_PUT(blob, patterns->descriptors.count);
	for (uint32_t i = 0; i < patterns->descriptors.count && !error; i++) {
		uint32_t at = patterns->descriptor[i];
		const struct pfw_pattern_open *open = at ? &patterns->open[at - 1] : NULL;
		uint64_t value[4] = { pfw_varint_fold((int64_t)fd[i]) };
		bool fresh = open && !number[at];

		if (fresh)
			number[at] = ++next;
		value[1] = open ? number[at] : 0;
		if (fresh) {
			value[2] = open->known | open->append << 1;
			value[3] = open->known ? pfw_varint_fold(open->offset) : 0;
		}
		pfw_blob_put(blob, value, fresh ? 4 : 2);
	}
	free(fd);
	free(number);
	return error;
}

static void put_op(struct pfw_blob *blob, const struct pfw_pattern_op *op, int64_t since_ns)
{
	uint64_t flags = op->role | op->seek << 4 | op->summed << 8 | op->failed << 9 |
			 op->placed << 10 | op->append << 11 | op->moved << 12 |
			 op->target_of_copy << 13;

	PFW_BLOB_PUT(blob, pfw_varint_fold(op->ts_ns - since_ns), op->name, flags,
		     pfw_pattern_op_calls(op), op->bytes, op->touches ? (uint64_t)op->value : 0,
		     (uint64_t)op->ns, pfw_varint_fold(op->fd),
		     pfw_varint_fold(op->dups ? op->value : -1),
		     pfw_varint_fold(op->summed || op->touches || op->dups ? 0 : op->value));
}

/* The operations that wait, in order; then the figures of their files so far. */
static int put_waiting(struct pfw_blob *blob, const struct pfw_patterns *patterns)
{
	struct pfw_pattern_op *op = pfw_patterns_waiting(patterns);
	uint8_t *has = calloc(patterns->rows + 1, sizeof(*has));
	int64_t since_ns = 0;
	int error = op && has ? 0 : -ENOMEM;

	PFW_BLOB_PUT(blob, patterns->waiting);
	for (size_t i = 0; i < patterns->waiting && !error; i++) {
		put_op(blob, &op[i], since_ns);
		has[op[i].name] = 1;
		since_ns = op[i].ts_ns;
	}
	for (size_t i = 0; i < patterns->rows && !error; i++) {
		if (!has[i])
			continue;
		PFW_BLOB_PUT(blob, i);
		pfw_pattern_put_figures(blob, &patterns->row[i]);
	}
	free(op);
	free(has);
	return error;
}

int pfw_patterns_put_state(struct pfw_patterns *patterns, struct pfw_blob *blob, size_t most)
{
	int error = pfw_patterns_keep(patterns, WAITING_MOST);

	PFW_BLOB_PUT(blob, patterns->rows, patterns->begun, patterns->threads, patterns->tid,
		     (uint64_t)patterns->last_ns, pfw_varint_fold(patterns->taken_ns));
	put_uses(blob, patterns);
	error = error ? error : put_descriptors(blob, patterns);
	error = error ? error : put_waiting(blob, patterns);
	/* Late operations would come in another order if they were read with later blocks. */
	if (patterns->late || blob->bytes > most)
		blob->bytes = 0;
	return error;
}

/* ---- reading ---- */

static void get_last(struct pfw_varints *reader, struct pfw_pattern_last *last, bool stepped)
{
	last->any = true;
	last->stepped = stepped;
	last->begin = (int64_t)pfw_varints_next(reader);
	last->end = (int64_t)pfw_varints_next(reader);
	if (stepped)
		last->step = pfw_varint_unfold(pfw_varints_next(reader));
	reader->bad |= last->begin < 0 || last->end < last->begin;
}

static int get_uses(struct pfw_patterns *patterns, struct pfw_varints *reader)
{
	uint64_t count = pfw_varints_next(reader);

	while (count-- && !reader->bad) {
		uint64_t row = pfw_varints_next(reader), flags = pfw_varints_next(reader);
		struct pfw_pattern_use *use;

		if (row >= patterns->rows || flags >> 8)
			return -EBADMSG;
		if (PFW_REACH_MAPPED(patterns->use, row, patterns->use_room))
			return -ENOMEM;
		use = &patterns->use[row];
		*use = (struct pfw_pattern_use){ .process = 1,
						 .used = flags & 1,
						 .opened = flags >> 1 & 1,
						 .moved = flags >> 2 & 1,
						 .side = flags >> 3 & 1 };
		for (unsigned j = 0; j < 2; j++) {
			if (flags >> (4 + j) & 1)
				get_last(reader, &use->last[j], flags >> (6 + j) & 1);
		}
	}
	return reader->bad ? -EBADMSG : 0;
}

static int get_descriptors(struct pfw_patterns *patterns, struct pfw_varints *reader)
{
	uint64_t count = pfw_varints_next(reader);

	for (uint64_t i = 0; i < count && !reader->bad; i++) {
		int64_t fd = pfw_varint_unfold(pfw_varints_next(reader));
		uint64_t number = pfw_varints_next(reader), flags;

		if (number > patterns->opens + 1 || number > UINT32_MAX ||
		    pfw_pair_ids_of(&patterns->descriptors, 0, (uint64_t)fd) != (int64_t)i)
			return -EBADMSG;
		if (PFW_REACH(patterns->descriptor, i, patterns->descriptor_room))
			return -ENOMEM;
		patterns->descriptor[i] = (uint32_t)number;
		if (number == patterns->opens + 1) {
			struct pfw_pattern_open open = { .descriptors = 0 };

			flags = pfw_varints_next(reader);
			open.known = flags & 1;
			open.append = flags >> 1 & 1;
			open.offset = pfw_varint_unfold(pfw_varints_next(reader));
			if (PFW_PUSH(patterns->open, patterns->opens, patterns->open_room, open))
				return -ENOMEM;
		}
		if (number)
			patterns->open[number - 1].descriptors++;
	}
	return reader->bad ? -EBADMSG : 0;
}

static void get_op(const struct pfw_patterns *patterns, struct pfw_varints *reader,
		   struct pfw_pattern_op *op)
{
	uint64_t name, flags, calls, touched;
	int64_t dup, offset;

	op->ts_ns = (int64_t)((uint64_t)op->ts_ns +
			      (uint64_t)pfw_varint_unfold(pfw_varints_next(reader)));
	name = pfw_varints_next(reader);
	flags = pfw_varints_next(reader);
	op->name = (uint32_t)name;
	op->role = flags & 15;
	op->seek = flags >> 4 & 15;
	op->wanted = true;
	op->summed = flags >> 8 & 1;
	op->failed = flags >> 9 & 1;
	op->placed = flags >> 10 & 1;
	op->append = flags >> 11 & 1;
	op->moved = flags >> 12 & 1;
	op->target_of_copy = flags >> 13 & 1;
	calls = pfw_varints_next(reader);
	op->bytes = pfw_varints_next(reader);
	touched = pfw_varints_next(reader);
	op->ns = (int64_t)pfw_varints_next(reader);
	op->fd = pfw_varint_unfold(pfw_varints_next(reader));
	dup = pfw_varint_unfold(pfw_varints_next(reader));
	offset = pfw_varint_unfold(pfw_varints_next(reader));
	op->call = !op->summed && calls;
	op->touches = touched != 0;
	op->dups = dup >= 0;
	op->value = op->summed	  ? (int64_t)calls
		    : op->touches ? (int64_t)touched
		    : op->dups	  ? dup
				  : offset;
	reader->bad |= name >= patterns->rows || op->role > PFW_ROLE_OTHER ||
		       op->seek > PFW_SEEK_CLOSED || op->ns < 0 || op->bytes > INT64_MAX ||
		       (op->placed && op->value < 0);
}

static int get_waiting(struct pfw_patterns *patterns, struct pfw_varints *reader)
{
	uint64_t count = pfw_varints_next(reader);
	struct pfw_pattern_ops ops = { .count = 0 };
	struct pfw_pattern_op op = { .ts_ns = 0 };
	int error = 0;

	for (uint64_t i = 0; i < count && !error; i++) {
		int64_t before_ns = op.ts_ns;

		get_op(patterns, reader, &op);
		reader->bad |= i && op.ts_ns < before_ns;
		error = reader->bad ? -EBADMSG : pfw_pattern_ops_push(&ops, &op);
	}
	if (!error && ops.count)
		error = pfw_patterns_add_run(patterns, &ops);
	if (error || !ops.count)
		pfw_pattern_ops_release(&ops);
	while (!error && !reader->bad && reader->at < reader->end) {
		uint64_t row = pfw_varints_next(reader);

		if (row >= patterns->rows)
			return -EBADMSG;
		error = pfw_pattern_get_figures(reader, &patterns->row[row]);
	}
	return error;
}

int pfw_patterns_get_state(struct pfw_patterns *patterns, struct pfw_varints *reader)
{
	uint64_t rows = pfw_varints_next(reader);
	int error;

	patterns->begun = pfw_varints_next(reader) != 0;
	patterns->threads = pfw_varints_next(reader) != 0;
	patterns->tid = pfw_varints_next(reader);
	patterns->last_ns = (int64_t)pfw_varints_next(reader);
	patterns->taken_ns = pfw_varint_unfold(pfw_varints_next(reader));
	/* Files whose calls counted nothing are in no row. */
	if (reader->bad || rows != patterns->rows)
		return reader->bad ? -EBADMSG : -EAGAIN;
	error = get_uses(patterns, reader);
	error = error ? error : get_descriptors(patterns, reader);
	return error ? error : get_waiting(patterns, reader);
}
