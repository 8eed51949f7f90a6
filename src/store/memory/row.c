/* store/memory/row.c - writes and reads the row of a trace's allocations: docs/index_format.rst. */
#include "store/memory/row.h"

#include <errno.h>
#include <stdlib.h>

#include "store/index/db.h"
#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/kit/varint.h"
#include "store/memory/in_index.h"
#include "store/memory/memory.h"
#include "store/table/code.h"

/* Differences of any two numbers wrap around, and so does adding them again. */
static uint64_t since(int64_t value, int64_t base)
{
	return pfw_varint_fold((int64_t)((uint64_t)value - (uint64_t)base));
}

static int64_t get_since(struct pfw_varints *reader, int64_t base)
{
	return (int64_t)((uint64_t)base + (uint64_t)pfw_varint_unfold(pfw_varints_next(reader)));
}

/* A size or a sum of sizes. */
static int64_t get_whole(struct pfw_varints *reader)
{
	uint64_t value = pfw_varints_next(reader);

	reader->bad |= value > INT64_MAX;
	return reader->bad ? 0 : (int64_t)value;
}

static uint32_t get_number(struct pfw_varints *reader, uint64_t below)
{
	uint64_t value = pfw_varints_next(reader);

	reader->bad |= value >= below;
	return reader->bad ? 0 : (uint32_t)value;
}

/* ---- writing ---- */

static void put_pools(const struct pfw_memory *memory, struct pfw_blob *data)
{
	PFW_BLOB_PUT(data, memory->pools);
	for (size_t i = 0; i < memory->pools; i++) {
		const struct pfw_memory_pool *pool = &memory->pool[i];

		PFW_BLOB_PUT(data, pool->pid, pfw_varint_fold(pool->device),
			     pfw_varint_fold(pool->device_index),
			     since(pool->first_ns, memory->least_ns), pool->allocations,
			     pool->frees, pool->unknown, (uint64_t)pool->allocated_bytes,
			     (uint64_t)pool->freed_bytes, pfw_varint_fold(pool->live),
			     (uint64_t)pool->peak, since(pool->peak_ts_ns, pool->first_ns),
			     since(pool->most_allocated, 0), since(pool->most_reserved, 0),
			     pool->unfreed, (uint64_t)pool->unfreed_bytes);
	}
}

/* Only those that allocate; number[] gets the number of each. */
static void put_owners(const struct pfw_memory *memory, uint32_t *number, struct pfw_blob *data)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < memory->names.count; i++)
		number[i] = memory->owner[i].allocations ? count++ : 0;
	PFW_BLOB_PUT(data, count);
	for (uint32_t i = 0; i < memory->names.count; i++) {
		const struct pfw_text_id *name = &memory->names.name[i];
		const struct pfw_memory_owner *owner = &memory->owner[i];

		if (!owner->allocations)
			continue;
		pfw_blob_bytes(data, name->text, name->bytes);
		PFW_BLOB_PUT(data, owner->allocations, (uint64_t)owner->bytes,
			     (uint64_t)owner->greatest, owner->unfreed,
			     (uint64_t)owner->unfreed_bytes);
	}
}

static void put_steps(const struct pfw_memory *memory, struct pfw_blob *data)
{
	struct pfw_memory_step before = { .first_ns = memory->least_ns };

	PFW_BLOB_PUT(data, memory->steps);
	for (size_t i = 0; i < memory->steps; i++) {
		const struct pfw_memory_step *step = &memory->step[i];

		PFW_BLOB_PUT(data, (uint64_t)step->pool << 1 | step->begins_free,
			     since((int64_t)step->step, (int64_t)before.step),
			     since(step->first_ns, before.first_ns), step->allocations,
			     pfw_varint_fold(step->growth), pfw_varint_fold(step->peak),
			     pfw_varint_fold(step->live));
		before = *step;
	}
}

/* `before`: the one before, or one of all zero. */
static void put_block(const struct pfw_memory_block *block, const struct pfw_memory_block *before,
		      const uint32_t *number, struct pfw_blob *data)
{
	PFW_BLOB_PUT(data, since(block->bytes, before->bytes), since(block->ts_ns, before->ts_ns),
		     since((int64_t)block->addr, (int64_t)before->addr),
		     block->step + 1, /* 0: none */
		     block->pool, number[block->owner]);
}

/* How many there are, how many follow, and these. */
static void put_unfreed(const struct pfw_memory *memory, const uint32_t *number, uint64_t most,
			struct pfw_blob *data)
{
	uint64_t kept = memory->unfreeds < most ? memory->unfreeds : most;
	struct pfw_memory_block before = { .ts_ns = memory->least_ns };

	PFW_BLOB_PUT(data, memory->unfreeds, kept);
	for (size_t i = 0; i < kept; i++) {
		put_block(&memory->unfreed[i], &before, number, data);
		before = memory->unfreed[i];
	}
}

/* How many follow, whether that is all, and these. */
static void put_lives(const struct pfw_memory *memory, const uint32_t *number,
		      struct pfw_blob *data)
{
	struct pfw_memory_block before = { .ts_ns = memory->least_ns };

	PFW_BLOB_PUT(data, memory->lives, memory->lives < memory->lives_most);
	for (size_t i = 0; i < memory->lives; i++) {
		const struct pfw_memory_life *life = &memory->life[i];

		put_block(&life->block, &before, number, data);
		PFW_BLOB_PUT(data, life->freed,
			     life->freed ? (uint64_t)life->freed_ns - (uint64_t)life->block.ts_ns
					 : 0);
		before = life->block;
	}
}

int pfw_memory_put_row(const struct pfw_memory *memory, unsigned leaders, uint64_t most,
		       struct pfw_blob *data)
{
	uint32_t *number = calloc((size_t)memory->names.count + 1, sizeof(*number));

	if (!number)
		return -ENOMEM;
	PFW_BLOB_PUT(data, memory->events, leaders, memory->followers,
		     pfw_varint_fold(memory->least_ns),
		     (uint64_t)memory->greatest_ns - (uint64_t)memory->least_ns);
	put_pools(memory, data);
	put_owners(memory, number, data);
	put_steps(memory, data);
	put_unfreed(memory, number, most, data);
	put_lives(memory, number, data);
	free(number);
	return 0;
}

/* ---- reading ---- */

struct reading {
	struct pfw_memory *memory;
	struct pfw_memory_from *from;
	struct pfw_varints *reader;
	int64_t least_ns;
	size_t first_pool, pools; /* of the file in memory->pool */
	uint32_t *name;		  /* numbers in memory->names */
	size_t names;
};

/* A process by its pid and one of its times, as the process of a line is found. */
static uint64_t process_of(const struct pfw_memory_from *from, uint64_t pid, int64_t ts_ns)
{
	struct pfw_entry entry = { .pid = pid, .ts_ns = ts_ns };
	struct pfw_processes_recent recent;

	pfw_processes_look(from->file->processes, from->number, &entry, &recent);
	return recent.process;
}

static int read_pool(struct reading *reading)
{
	struct pfw_varints *reader = reading->reader;
	struct pfw_memory_pool pool = { .rank = reading->from->file->head.rank };

	pool.pid = pfw_varints_next(reader);
	pool.device = pfw_varint_unfold(pfw_varints_next(reader));
	pool.device_index = pfw_varint_unfold(pfw_varints_next(reader));
	pool.first_ns = get_since(reader, reading->least_ns);
	pool.allocations = pfw_varints_next(reader);
	pool.frees = pfw_varints_next(reader);
	pool.unknown = pfw_varints_next(reader);
	pool.allocated_bytes = get_whole(reader);
	pool.freed_bytes = get_whole(reader);
	pool.live = pfw_varint_unfold(pfw_varints_next(reader));
	pool.peak = get_whole(reader);
	pool.peak_ts_ns = get_since(reader, pool.first_ns);
	pool.most_allocated = get_since(reader, 0);
	pool.most_reserved = get_since(reader, 0);
	pool.unfreed = pfw_varints_next(reader);
	pool.unfreed_bytes = get_whole(reader);
	pool.process = process_of(reading->from, pool.pid, pool.first_ns);
	return reader->bad ? -EBADMSG
			   : PFW_PUSH(reading->memory->pool, reading->memory->pools,
				      reading->memory->pool_room, pool);
}

static int read_owner(struct reading *reading)
{
	struct pfw_varints *reader = reading->reader;
	struct pfw_memory *memory = reading->memory;
	struct pfw_slice text = pfw_table_get_text(reader);
	int64_t number = pfw_text_ids_of(&memory->names, 0, text.at, text.bytes);
	struct pfw_memory_owner *owner;
	int64_t greatest;

	if (number < 0 || PFW_REACH(memory->owner, (size_t)number, memory->owner_room))
		return -ENOMEM;
	owner = &memory->owner[number];
	pfw_saturate_u64(&owner->allocations, pfw_varints_next(reader));
	pfw_saturate_sum(&owner->bytes, get_whole(reader));
	greatest = get_whole(reader);
	owner->greatest = greatest > owner->greatest ? greatest : owner->greatest;
	pfw_saturate_u64(&owner->unfreed, pfw_varints_next(reader));
	pfw_saturate_sum(&owner->unfreed_bytes, get_whole(reader));
	reading->name[reading->names++] = (uint32_t)number;
	return reader->bad ? -EBADMSG : 0;
}

static int read_step(struct reading *reading, struct pfw_memory_step *step)
{
	struct pfw_varints *reader = reading->reader;
	struct pfw_memory *memory = reading->memory;
	uint32_t pool = get_number(reader, 2 * reading->pools);

	step->pool = (uint32_t)reading->first_pool + pool / 2;
	step->begins_free = pool & 1;
	step->step = (uint64_t)get_since(reader, (int64_t)step->step);
	step->first_ns = get_since(reader, step->first_ns);
	step->allocations = pfw_varints_next(reader);
	step->growth = pfw_varint_unfold(pfw_varints_next(reader));
	step->peak = pfw_varint_unfold(pfw_varints_next(reader));
	step->live = pfw_varint_unfold(pfw_varints_next(reader));
	return reader->bad ? -EBADMSG
			   : PFW_PUSH(memory->step, memory->steps, memory->step_room, *step);
}

/* *before: the one before. */
static void read_block(struct reading *reading, struct pfw_memory_block *before)
{
	struct pfw_varints *reader = reading->reader;

	before->bytes = get_since(reader, before->bytes);
	before->ts_ns = get_since(reader, before->ts_ns);
	before->addr = (uint64_t)get_since(reader, (int64_t)before->addr);
	before->step = pfw_varints_next(reader) - 1;
	before->pool = (uint32_t)reading->first_pool + get_number(reader, reading->pools);
	before->owner = get_number(reader, reading->names);
}

static int read_unfreed(struct reading *reading)
{
	struct pfw_varints *reader = reading->reader;
	struct pfw_memory *memory = reading->memory;
	uint64_t all = pfw_varints_next(reader), kept = pfw_varints_next(reader);
	uint64_t most = reading->from->unfreed_most;
	struct pfw_memory_block block = { .ts_ns = reading->least_ns };
	int error = 0;

	if (!reader->bad && kept < all && most > kept)
		return -ENOENT;
	for (uint64_t i = 0; i < kept && !reader->bad && !error; i++) {
		struct pfw_memory_block one;

		read_block(reading, &block);
		if (i >= most || reader->bad)
			continue;
		one = block;
		one.owner = reading->name[block.owner];
		error = PFW_PUSH(memory->unfreed, memory->unfreeds, memory->unfreed_room, one);
	}
	return reader->bad ? -EBADMSG : error;
}

static int read_lives(struct reading *reading)
{
	struct pfw_varints *reader = reading->reader;
	struct pfw_memory *memory = reading->memory;
	uint64_t kept = pfw_varints_next(reader);
	bool all = pfw_varints_next(reader) != 0;
	struct pfw_memory_life life = { .block.ts_ns = reading->least_ns };
	int error = 0;

	if (!reader->bad && !all && memory->lives_most > kept)
		return -ENOENT;
	for (uint64_t i = 0; i < kept && i < memory->lives_most && !reader->bad && !error; i++) {
		struct pfw_memory_life one;

		read_block(reading, &life.block);
		life.freed = pfw_varints_next(reader) != 0;
		life.freed_ns = (int64_t)((uint64_t)life.block.ts_ns + pfw_varints_next(reader));
		if (reader->bad)
			break;
		one = life;
		one.block.owner = reading->name[life.block.owner];
		error = PFW_PUSH(memory->life, memory->lives, memory->life_room, one);
	}
	return reader->bad ? -EBADMSG : error;
}

/* Each row has at least a byte. */
static uint64_t get_count(struct pfw_varints *reader)
{
	return get_number(reader, (uint64_t)(reader->end - reader->at));
}

static int read_tables(struct reading *reading)
{
	struct pfw_varints *reader = reading->reader;
	struct pfw_memory_step step = { .first_ns = reading->least_ns };
	uint64_t count;
	int error = 0;

	reading->first_pool = reading->memory->pools;
	reading->pools = count = get_count(reader);
	while (count-- && !error)
		error = read_pool(reading);
	count = get_count(reader);
	reading->name = calloc(count + 1, sizeof(*reading->name));
	if (!reading->name)
		return -ENOMEM;
	while (count-- && !error)
		error = read_owner(reading);
	for (count = error ? 0 : get_count(reader); count && !error; count--)
		error = read_step(reading, &step);
	error = error ? error : read_unfreed(reading);
	if (!error && reading->memory->lives_most)
		error = read_lives(reading);
	free(reading->name);
	return error;
}

int pfw_memory_read_row(struct pfw_memory *memory, struct pfw_memory_from *from,
			struct pfw_varints *row)
{
	struct reading reading = { .memory = memory, .from = from, .reader = row };
	bool empty = row->at == row->end;
	uint64_t events = empty ? 0 : pfw_varints_next(row);
	int64_t greatest_ns;

	if (empty || (events && from->none))
		return -ENOENT;
	from->leaders = (unsigned)get_number(row, 3);
	if (!events)
		return row->bad ? -EBADMSG : 0;
	from->followers = pfw_varints_next(row) != 0;
	reading.least_ns = pfw_varint_unfold(pfw_varints_next(row));
	greatest_ns = (int64_t)((uint64_t)reading.least_ns + pfw_varints_next(row));
	if (!memory->events || reading.least_ns < memory->least_ns)
		memory->least_ns = reading.least_ns;
	if (!memory->events || greatest_ns > memory->greatest_ns)
		memory->greatest_ns = greatest_ns;
	pfw_saturate_u64(&memory->events, events);
	return row->bad ? -EBADMSG : read_tables(&reading);
}

/* ---- a reader ---- */

struct asked {
	struct pfw_memory *memory;
	struct pfw_memory_from *from;
};

static int read_row(void *user, struct pfw_varints *row, bool last)
{
	const struct asked *asked = user;

	(void)last;
	return pfw_memory_read_row(asked->memory, asked->from, row);
}

int pfw_memory_from_index(struct pfw_memory *memory, struct pfw_memory_from *from,
			  struct pfw_index *index)
{
	struct asked asked = { .memory = memory, .from = from };

	return pfw_index_parts(index, &pfw_memory_kind, PFW_INDEX_END, &asked, read_row);
}
