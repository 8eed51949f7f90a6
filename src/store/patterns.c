/* patterns.c - how files are used: places of reads and writes, from one to the next; see patterns.h. */
#include "patterns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "patterns_op.h"
#include "saturate.h"

#define CACHE_LINE 64u

/* An open file, which those of a process's descriptors share that were made of each other. */
struct pfw_pattern_open {
	bool known;  /* `offset` is */
	bool append; /* each write goes to the end */
	int64_t offset;
	uint32_t descriptors;
	uint32_t next_free; /* where there are none: + 1 */
};

/* What a process has done with a file. */
struct pfw_pattern_use {
	bool used, opened;
	bool moved; /* something: by `side` last */
	uint8_t side;
	struct pfw_pattern_last {
		bool any, stepped;
		int64_t begin, end, step; /* of the last one; how far from the one before */
	} last[2];
};

void pfw_patterns_init(struct pfw_patterns *patterns)
{
	*patterns = (struct pfw_patterns){ .alignment = 4096, .small = 1u << 20 };
}

void pfw_patterns_release(struct pfw_patterns *patterns)
{
	pfw_names_release(&patterns->keys);
	pfw_numbers_release(&patterns->processes);
	pfw_numbers_release(&patterns->descriptors);
	pfw_numbers_release(&patterns->uses);
	for (size_t i = 0; i < patterns->runs; i++)
		free(patterns->run[i].op);
	free(patterns->run);
	free(patterns->row);
	free(patterns->descriptor);
	free(patterns->open);
	free(patterns->use);
}

/* ---- rows ---- */

/* Room for an item of that number, zeroed. */
static int reach(void **array, size_t *room, size_t number, size_t size)
{
	size_t more = *room ? *room * 2 : 64;
	char *bigger;

	if (number < *room)
		return 0;
	bigger = realloc(*array, more * size);
	if (!bigger)
		return -ENOMEM;
	memset(bigger + *room * size, 0, (more - *room) * size);
	*array = bigger;
	*room = more;
	return 0;
}

/* Have a row for each key. */
static int add_rows(struct pfw_patterns *patterns)
{
	for (; patterns->rows < patterns->keys.count; patterns->rows++) {
		if (reach((void **)&patterns->row, &patterns->room, patterns->rows,
			  sizeof(*patterns->row)))
			return -ENOMEM;
	}
	return 0;
}

int64_t pfw_patterns_row(struct pfw_patterns *patterns, int64_t rank, const char *name,
			 size_t bytes)
{
	int64_t row = pfw_names_of(&patterns->keys, rank, name, bytes);

	return row >= 0 && add_rows(patterns) ? -ENOMEM : row;
}

int pfw_patterns_map(struct pfw_patterns *patterns, int64_t rank, const struct pfw_names *names,
		     uint32_t *row)
{
	int error = pfw_names_map(&patterns->keys, rank, names, row);

	return error ? error : add_rows(patterns);
}

int64_t pfw_patterns_rank(const struct pfw_patterns *patterns, size_t row)
{
	return patterns->keys.name[row].of;
}

const char *pfw_patterns_name(const struct pfw_patterns *patterns, size_t row, size_t *bytes)
{
	*bytes = patterns->keys.name[row].bytes;
	return patterns->keys.name[row].text;
}

void pfw_pattern_merge(struct pfw_pattern *into, const struct pfw_pattern *from)
{
	into->opens += from->opens;
	into->again += from->again;
	into->others += from->others;
	into->switches += from->switches;
	into->metadata_ns = pfw_saturate_add(into->metadata_ns, from->metadata_ns);
	if (from->processes > into->processes)
		into->processes = from->processes;
	for (unsigned i = 0; i < 2; i++) {
		struct pfw_pattern_side *side = &into->side[i];
		const struct pfw_pattern_side *more = &from->side[i];

		side->calls += more->calls;
		side->accesses += more->accesses;
		side->bytes += more->bytes;
		side->ns = pfw_saturate_add(side->ns, more->ns);
		for (unsigned j = 0; j < PFW_PATTERN_SIZES; j++)
			side->size[j] += more->size[j];
		for (unsigned j = 0; j < PFW_ACCESSES; j++)
			side->access[j] += more->access[j];
		side->behind += more->behind;
		if (more->end > side->end)
			side->end = more->end;
		side->unaligned += more->unaligned;
		side->small += more->small;
	}
}

/* ---- one operation ---- */

/* What it is done by and to. */
struct place {
	struct pfw_pattern *row;
	struct pfw_pattern_use *use;
	struct pfw_pattern_open *open; /* NULL: it has no descriptor */
};

/* An open file of which nothing is known yet, + 1; 0: no memory. */
static uint32_t make_open(struct pfw_patterns *patterns)
{
	uint32_t number = patterns->free_open;

	if (number) {
		patterns->free_open = patterns->open[number - 1].next_free;
	} else {
		if (patterns->opens == UINT32_MAX ||
		    reach((void **)&patterns->open, &patterns->open_room, patterns->opens,
			  sizeof(*patterns->open)))
			return 0;
		number = (uint32_t)++patterns->opens;
	}
	patterns->open[number - 1] = (struct pfw_pattern_open){ .descriptors = 1 };
	return number;
}

static void drop_open(struct pfw_patterns *patterns, uint32_t number)
{
	struct pfw_pattern_open *open = &patterns->open[number - 1];

	if (--open->descriptors)
		return;
	open->next_free = patterns->free_open;
	patterns->free_open = number;
}

/* The number of a process's descriptor, or -ENOMEM. */
static int64_t find_descriptor(struct pfw_patterns *patterns, uint64_t process, int64_t fd)
{
	int64_t number = pfw_numbers_of(&patterns->descriptors, process, (uint64_t)fd);

	if (number < 0 || reach((void **)&patterns->descriptor, &patterns->descriptor_room,
				(size_t)number, sizeof(*patterns->descriptor)))
		return -ENOMEM;
	return number;
}

/* The open file of a descriptor, + 1, `fresh`: another one than it had; 0: no memory. */
static uint32_t find_open(struct pfw_patterns *patterns, uint64_t process, int64_t fd, bool fresh)
{
	int64_t number = find_descriptor(patterns, process, fd);
	uint32_t *open;

	if (number < 0)
		return 0;
	open = &patterns->descriptor[number];
	if (*open && fresh) {
		drop_open(patterns, *open);
		*open = 0;
	}
	if (!*open)
		*open = make_open(patterns);
	return *open;
}

static int find_place(struct pfw_patterns *patterns, uint64_t process,
		      const struct pfw_pattern_op *op, struct place *place)
{
	int64_t use = pfw_numbers_of(&patterns->uses, process, op->name);
	bool opens = op->role == PFW_CALL_OPEN && !op->failed;
	uint32_t open = 0;

	if (use < 0 || reach((void **)&patterns->use, &patterns->use_room, (size_t)use,
			     sizeof(*patterns->use)))
		return -ENOMEM;
	if (op->fd >= 0) {
		open = find_open(patterns, process, op->fd, opens);
		if (!open)
			return -ENOMEM;
	}
	*place = (struct place){ .row = &patterns->row[op->name],
				 .use = &patterns->use[use],
				 .open = open ? &patterns->open[open - 1] : NULL };
	return 0;
}

/* `dup` is another name of what `fd` has open. */
static int copy_descriptor(struct pfw_patterns *patterns, uint64_t process, int64_t fd, int64_t dup)
{
	int64_t number;
	uint32_t open;

	if (fd < 0 || fd == dup)
		return 0;
	open = find_open(patterns, process, fd, false);
	number = open ? find_descriptor(patterns, process, dup) : -ENOMEM;
	if (number < 0)
		return (int)number;
	patterns->open[open - 1].descriptors++;
	if (patterns->descriptor[number])
		drop_open(patterns, patterns->descriptor[number]);
	patterns->descriptor[number] = open;
	return 0;
}

static int close_descriptor(struct pfw_patterns *patterns, uint64_t process, int64_t fd)
{
	int64_t number = fd < 0 ? 0 : find_descriptor(patterns, process, fd);

	if (fd < 0 || number < 0)
		return (int)number;
	if (patterns->descriptor[number])
		drop_open(patterns, patterns->descriptor[number]);
	patterns->descriptor[number] = 0;
	return 0;
}

static unsigned size_of(uint64_t bytes)
{
	static const uint64_t most[PFW_PATTERN_SIZES - 1] = {
		100,	  1u << 10,  10u << 10,	 100u << 10, 1u << 20,
		4u << 20, 10u << 20, 100u << 20, 1u << 30,
	};
	unsigned i = 0;

	while (i < PFW_PATTERN_SIZES - 1 && bytes > most[i])
		i++;
	return i;
}

static enum pfw_access access_of(const struct pfw_pattern_last *last, int64_t offset)
{
	if (!last->any)
		return PFW_ACCESS_FIRST;
	if (offset == last->end)
		return PFW_ACCESS_CONSECUTIVE;
	if (last->stepped && offset - last->begin == last->step)
		return PFW_ACCESS_STRIDED;
	return offset > last->end ? PFW_ACCESS_SEQUENTIAL : PFW_ACCESS_RANDOM;
}

/* A read or a write of known size; `offset` negative: nobody knows where. */
static void add_access(const struct pfw_patterns *patterns, const struct place *place,
		       enum pfw_side number, const struct pfw_pattern_op *op, int64_t offset)
{
	struct pfw_pattern_last *last = &place->use->last[number];
	enum pfw_access access = offset < 0 ? PFW_ACCESS_UNPLACED : access_of(last, offset);
	struct pfw_pattern_side *side = &place->row->side[number];

	if (op->wanted) {
		side->accesses++;
		side->bytes += op->bytes;
		side->size[size_of(op->bytes)]++;
		side->small += op->bytes < patterns->small;
		side->access[access]++;
		side->unaligned += offset >= 0 && (uint64_t)offset % patterns->alignment != 0;
		/* Darshan's first one is behind an end of 0; `end` is what it calls the last byte, and
		 * one more. */
		side->behind += offset >= 0 && offset > (last->any ? last->end - 1 : 0);
		place->row->switches += place->use->moved && place->use->side != number;
	}
	place->use->moved = true;
	place->use->side = (uint8_t)number;
	if (offset < 0)
		return;
	last->stepped = last->any;
	last->step = offset - last->begin;
	last->any = true;
	last->begin = offset;
	last->end = offset > INT64_MAX - (int64_t)op->bytes ? INT64_MAX
							    : offset + (int64_t)op->bytes;
	if (op->wanted && (uint64_t)last->end > side->end)
		side->end = (uint64_t)last->end;
}

/* Where it begins, and where the descriptor stands behind it. */
static int64_t move(const struct place *place, enum pfw_side side, const struct pfw_pattern_op *op)
{
	struct pfw_pattern_open *open = place->open;
	int64_t offset;

	if (op->placed)
		return op->offset;
	if (!open)
		return -1;
	/* The file's end: as far as this process has come. */
	if (side == PFW_SIDE_WRITE && open->append) {
		open->offset = place->use->last[side].end;
		open->known = place->use->last[side].any;
	}
	if (!open->known)
		return -1;
	offset = open->offset;
	if (__builtin_add_overflow(offset, (int64_t)op->bytes, &open->offset))
		open->known = false;
	return offset;
}

static void add_side(const struct pfw_patterns *patterns, const struct place *place,
		     enum pfw_side number, const struct pfw_pattern_op *op, bool timed)
{
	struct pfw_pattern_side *side = &place->row->side[number];

	if (op->wanted) {
		side->calls += op->calls;
		side->ns = timed ? pfw_saturate_add(side->ns, op->ns) : side->ns;
	}
	if (op->summed)
		side->bytes += op->wanted ? op->bytes : 0;
	else if (op->moved)
		add_access(patterns, place, number, op, move(place, number, op));
	else if (place->open && !op->failed)
		place->open->known = false; /* it went on, nobody knows how far */
}

static void seek(const struct place *place, const struct pfw_pattern_op *op)
{
	struct pfw_pattern_open *open = place->open;

	if (!open || op->failed)
		return;
	if (op->seek == PFW_SEEK_BY && open->known) {
		open->offset += op->offset;
		return;
	}
	open->known = op->seek == PFW_SEEK_TO;
	open->offset = op->offset;
}

static void add_other(const struct place *place, const struct pfw_pattern_op *op)
{
	bool opened = op->role == PFW_CALL_OPEN && !op->failed;

	if (op->wanted) {
		place->row->metadata_ns = pfw_saturate_add(place->row->metadata_ns, op->ns);
		place->row->opens += opened ? op->calls : 0;
		place->row->again += opened && place->use->opened ? op->calls : 0;
		place->row->others += opened ? 0 : op->calls;
	}
	if (!opened)
		return;
	place->use->opened = true;
	if (place->open) {
		place->open->known = true;
		place->open->append = op->append;
		place->open->offset = 0;
	}
}

void pfw_pattern_op_fetch(const struct pfw_patterns *patterns, uint64_t process,
			  const struct pfw_pattern_op *op)
{
	const struct pfw_pattern *row = &patterns->row[op->name];
	const char *side = (const char *)&row->side[op->role == PFW_CALL_WRITE];

	pfw_numbers_fetch(&patterns->uses, process, op->name);
	__builtin_prefetch(row, 1);
	for (size_t at = 0; at < sizeof(row->side[0]); at += CACHE_LINE)
		__builtin_prefetch(side + at, 1);
}

int pfw_pattern_op_take(struct pfw_patterns *patterns, uint64_t process,
			const struct pfw_pattern_op *op)
{
	bool reads = op->role == PFW_CALL_READ || op->role == PFW_CALL_COPY;
	struct place place;
	int error = find_place(patterns, process, op, &place);

	if (error)
		return error;
	if (op->wanted && !place.use->used && (reads || op->role != PFW_CALL_OTHER)) {
		place.use->used = true;
		place.row->processes++;
	}
	if (op->seek && op->seek != PFW_SEEK_CLOSED)
		seek(&place, op);
	if (reads)
		add_side(patterns, &place, PFW_SIDE_READ, op, true);
	else if (op->role == PFW_CALL_WRITE)
		add_side(patterns, &place, PFW_SIDE_WRITE, op, !op->target_of_copy);
	else
		add_other(&place, op);
	if (op->dup >= 0)
		return copy_descriptor(patterns, process, op->fd, op->dup);
	return op->seek == PFW_SEEK_CLOSED ? close_descriptor(patterns, process, op->fd) : 0;
}
