/* store/patterns/patterns.c - the places of reads and writes, one after another; see patterns.h. */
#include "store/patterns/patterns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/patterns/op.h"

#define CACHE_LINE 64u

void pfw_patterns_init(struct pfw_patterns *patterns)
{
	*patterns = (struct pfw_patterns){ .alignment = 4096,
					   .small = 1u << 20,
					   .taken_ns = INT64_MIN };
}

void pfw_patterns_close(struct pfw_patterns *patterns)
{
	pfw_pair_ids_release(&patterns->processes);
	pfw_pair_ids_release(&patterns->descriptors);
	pfw_pair_ids_release(&patterns->others);
	for (size_t i = 0; i < patterns->runs; i++)
		free(patterns->run[i].op);
	free(patterns->run);
	free(patterns->spare);
	free(patterns->descriptor);
	free(patterns->open);
	free(patterns->use);
	free(patterns->other);
	patterns->run = NULL;
	patterns->spare = NULL;
	patterns->descriptor = NULL;
	patterns->open = NULL;
	patterns->use = patterns->other = NULL;
	patterns->descriptor_room = patterns->open_room = patterns->opens = 0;
	patterns->use_room = patterns->other_room = 0;
	memset(patterns->recent_fd, 0, sizeof(patterns->recent_fd));
	patterns->runs = patterns->run_room = 0;
	patterns->free_open = 0;
	patterns->recent = 0;
}

void pfw_patterns_release(struct pfw_patterns *patterns)
{
	pfw_patterns_close(patterns);
	pfw_text_ids_release(&patterns->keys);
	free(patterns->row);
}

/* ---- rows ---- */

/* Add a row for each new key. */
static int add_rows(struct pfw_patterns *patterns)
{
	for (; patterns->rows < patterns->keys.count; patterns->rows++) {
		if (PFW_REACH(patterns->row, patterns->rows, patterns->room))
			return -ENOMEM;
	}
	return 0;
}

int64_t pfw_patterns_row(struct pfw_patterns *patterns, int64_t rank, const char *name,
			 size_t bytes)
{
	int64_t row = pfw_text_ids_of(&patterns->keys, rank, name, bytes);

	return row >= 0 && add_rows(patterns) ? -ENOMEM : row;
}

int pfw_patterns_map(struct pfw_patterns *patterns, int64_t rank, const struct pfw_text_ids *names,
		     uint32_t *row)
{
	int error = pfw_text_ids_map(&patterns->keys, rank, names, row);

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
	int64_t metadata_ns = pfw_saturate_add(into->metadata_ns, from->metadata_ns), ns[2];
	uint64_t processes = into->processes > from->processes ? into->processes : from->processes;
	uint64_t end[2];

	for (unsigned i = 0; i < 2; i++) {
		const struct pfw_pattern_side *a = &into->side[i], *b = &from->side[i];

		ns[i] = pfw_saturate_add(a->ns, b->ns);
		end[i] = a->end > b->end ? a->end : b->end;
	}
	for (unsigned i = 0; i < PFW_PATTERN_FIGURES; i++) {
		if (from->figure[i]) /* most are 0 */
			pfw_saturate_u64(&into->figure[i], from->figure[i]);
	}
	into->metadata_ns = metadata_ns;
	into->processes = processes;
	for (unsigned i = 0; i < 2; i++) {
		into->side[i].ns = ns[i];
		into->side[i].end = end[i];
	}
}

void pfw_pattern_add(struct pfw_pattern *into, const struct pfw_pattern *from)
{
	uint64_t processes = into->processes + from->processes;

	pfw_pattern_merge(into, from);
	into->processes = processes;
}

bool pfw_pattern_counted(const struct pfw_pattern *pattern)
{
	return pattern->opens || pattern->others || pattern->looked || pattern->side[0].calls ||
	       pattern->side[1].calls;
}

void pfw_pattern_add_counters(struct pfw_pattern_counters *into,
			      const struct pfw_pattern_counters *from)
{
	for (unsigned i = 0; i < 2; i++) {
		pfw_saturate_u64(&into->io[i], from->io[i]);
		pfw_saturate_u64(&into->storage[i], from->storage[i]);
	}
	into->any |= from->any;
}

/* ---- one operation ---- */

/* The row, the process's use of the file, and the open file of an operation. */
struct place {
	struct pfw_pattern *row;
	struct pfw_pattern_use *use;
	struct pfw_pattern_open *open; /* NULL: no descriptor */
};

/* The number + 1 of a new open file with unknown offset; 0: no memory. */
static uint32_t make_open(struct pfw_patterns *patterns)
{
	uint32_t number = patterns->free_open;

	if (number) {
		patterns->free_open = patterns->open[number - 1].next_free;
	} else {
		if (patterns->opens == UINT32_MAX ||
		    PFW_REACH(patterns->open, patterns->opens, patterns->open_room))
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

/* The number + 1 of the open file of a process's descriptor; NULL: no memory. */
static uint32_t *number_descriptor(struct pfw_patterns *patterns, uint64_t process, int64_t fd,
				   struct pfw_pattern_recent *recent)
{
	int64_t number = pfw_pair_ids_of(&patterns->descriptors, process, (uint64_t)fd);

	if (number < 0 ||
	    PFW_REACH(patterns->descriptor, (size_t)number, patterns->descriptor_room))
		return NULL;
	*recent = (struct pfw_pattern_recent){ process, fd, (uint32_t)number + 1 };
	return &patterns->descriptor[number];
}

/* The same by a cache. */
static inline uint32_t *find_descriptor(struct pfw_patterns *patterns, uint64_t process, int64_t fd)
{
	struct pfw_pattern_recent *recent = &patterns->recent_fd[(uint64_t)fd % PFW_PATTERN_FDS];

	return recent->number && recent->fd == fd && recent->process == process
		       ? &patterns->descriptor[recent->number - 1]
		       : number_descriptor(patterns, process, fd, recent);
}

/* The number + 1 of the open file of a descriptor, `fresh`: of a new one; 0: no memory. */
static inline uint32_t find_open(struct pfw_patterns *patterns, uint64_t process, int64_t fd,
				 bool fresh)
{
	uint32_t *open = find_descriptor(patterns, process, fd);

	if (!open)
		return 0;
	if (*open && fresh) {
		drop_open(patterns, *open);
		*open = 0;
	}
	if (!*open)
		*open = make_open(patterns);
	return *open;
}

/* NULL: no memory. */
static struct pfw_pattern_use *find_use(struct pfw_patterns *patterns, uint64_t process,
					uint32_t row)
{
	struct pfw_pattern_use *use;
	int64_t other;

	if (PFW_REACH(patterns->use, row, patterns->use_room))
		return NULL;
	use = &patterns->use[row];
	if (!use->process)
		use->process = (uint32_t)process + 1;
	if (use->process == process + 1)
		return use;
	other = pfw_pair_ids_of(&patterns->others, process, row);
	if (other < 0 || PFW_REACH(patterns->other, (size_t)other, patterns->other_room))
		return NULL;
	return &patterns->other[other];
}

static int find_place(struct pfw_patterns *patterns, const struct pfw_pattern_op *op,
		      struct place *place)
{
	struct pfw_pattern_use *use = find_use(patterns, op->process, op->name);
	bool opens = op->role == PFW_ROLE_OPEN && !op->failed;
	uint32_t open = 0;

	if (!use)
		return -ENOMEM;
	if (op->fd >= 0) {
		open = find_open(patterns, op->process, op->fd, opens);
		if (!open)
			return -ENOMEM;
	}
	*place = (struct place){ .row = &patterns->row[op->name],
				 .use = use,
				 .open = open ? &patterns->open[open - 1] : NULL };
	return 0;
}

/* Let a descriptor have the open file number + 1, or none: 0. */
static int set_open(struct pfw_patterns *patterns, uint64_t process, int64_t fd, uint32_t open)
{
	uint32_t *descriptor = find_descriptor(patterns, process, fd);

	if (!descriptor)
		return -ENOMEM;
	if (*descriptor)
		drop_open(patterns, *descriptor);
	*descriptor = open;
	return 0;
}

/* `dup` becomes a duplicate of `fd`. */
static int copy_descriptor(struct pfw_patterns *patterns, uint64_t process, int64_t fd, int64_t dup)
{
	uint32_t open;

	if (fd < 0 || fd == dup)
		return 0;
	open = find_open(patterns, process, fd, false);
	if (!open)
		return -ENOMEM;
	patterns->open[open - 1].descriptors++;
	return set_open(patterns, process, dup, open);
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

/* Add a read or a write of known size; a negative `offset` is unknown. */
static void add_access(const struct pfw_patterns *patterns, const struct place *place,
		       enum pfw_side number, const struct pfw_pattern_op *op, int64_t offset)
{
	struct pfw_pattern_last *last = &place->use->last[number];
	enum pfw_access access = offset < 0 ? PFW_ACCESS_UNPLACED : access_of(last, offset);
	struct pfw_pattern_side *side = &place->row->side[number];

	if (op->wanted) {
		side->accesses++;
		pfw_saturate_u64(&side->bytes, op->bytes);
		side->size[size_of(op->bytes)]++;
		side->small += op->bytes < patterns->small;
		side->access[access]++;
		side->unaligned += offset >= 0 && (uint64_t)offset % patterns->alignment != 0;
		/* Darshan compares the first access with end 0; its "last byte" is `end` - 1. */
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

/* Return the offset of an access, and move the descriptor to its end. */
static int64_t move(const struct place *place, enum pfw_side side, const struct pfw_pattern_op *op)
{
	struct pfw_pattern_open *open = place->open;
	/* Nobody knows where the end of the file is; Linux's pwrite() appends, too. */
	bool appends = side == PFW_SIDE_WRITE && (op->append || (open && open->append));
	int64_t offset;

	if (op->placed)
		return appends ? -1 : op->value;
	if (!open)
		return -1;
	open->known = open->known && !appends;
	if (!open->known)
		return -1;
	offset = open->offset;
	if (__builtin_add_overflow(offset, (int64_t)op->bytes, &open->offset))
		open->known = false;
	return offset;
}

static void add_side(const struct pfw_patterns *patterns, const struct place *place,
		     enum pfw_side number, const struct pfw_pattern_op *op)
{
	struct pfw_pattern_side *side = &place->row->side[number];

	if (op->wanted) {
		pfw_saturate_u64(&side->calls, pfw_pattern_op_calls(op));
		if (!op->target_of_copy)
			pfw_saturate_sum(&side->ns, op->ns);
	}
	if (op->summed)
		pfw_saturate_u64(&side->bytes, op->wanted ? op->bytes : 0);
	else if (op->moved)
		add_access(patterns, place, number, op, move(place, number, op));
	else if (place->open && !op->failed)
		place->open->known = false; /* it moved by an unknown number of bytes */
}

static void seek(const struct place *place, const struct pfw_pattern_op *op)
{
	struct pfw_pattern_open *open = place->open;

	if (!open || op->failed)
		return;
	if (op->seek == PFW_SEEK_FLAGS) {
		open->append = op->append;
		return;
	}
	if (op->seek == PFW_SEEK_BY && open->known) {
		open->offset = pfw_saturate_add(open->offset, op->value);
		return;
	}
	open->known = op->seek == PFW_SEEK_TO;
	open->offset = op->value;
}

static void add_other(const struct place *place, const struct pfw_pattern_op *op)
{
	bool opened = op->role == PFW_ROLE_OPEN && !op->failed;
	uint64_t calls = pfw_pattern_op_calls(op);

	if (op->wanted) {
		pfw_saturate_sum(&place->row->metadata_ns, op->ns);
		pfw_saturate_u64(&place->row->opens, opened ? calls : 0);
		pfw_saturate_u64(&place->row->again, opened && place->use->opened ? calls : 0);
		pfw_saturate_u64(&place->row->others, opened ? 0 : calls);
		pfw_saturate_u64(&place->row->mapped, op->summed ? 0 : op->bytes);
		place->row->looked += op->touches;
		pfw_saturate_u64(&place->row->touched, op->touches ? (uint64_t)op->value - 1 : 0);
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

void pfw_pattern_op_fetch(const struct pfw_patterns *patterns, const struct pfw_pattern_op *op)
{
	const struct pfw_pattern *row = &patterns->row[op->name];
	const char *side = (const char *)&row->side[op->role == PFW_ROLE_WRITE];

	if (op->name < patterns->use_room)
		__builtin_prefetch(&patterns->use[op->name], 1);
	__builtin_prefetch(row, 1);
	for (size_t at = 0; at < sizeof(row->side[0]); at += CACHE_LINE)
		__builtin_prefetch(side + at, 1);
}

int pfw_pattern_op_take(struct pfw_patterns *patterns, const struct pfw_pattern_op *op)
{
	uint64_t process = op->process;
	bool reads = op->role == PFW_ROLE_READ || op->role == PFW_ROLE_COPY;
	struct place place;
	int error = find_place(patterns, op, &place);

	if (error)
		return error;
	if (op->wanted && !place.use->used) {
		place.use->used = true;
		place.row->processes++;
	}
	if (op->seek && op->seek != PFW_SEEK_CLOSED)
		seek(&place, op);
	if (reads || op->role == PFW_ROLE_WRITE)
		add_side(patterns, &place, reads ? PFW_SIDE_READ : PFW_SIDE_WRITE, op);
	else
		add_other(&place, op);
	if (op->dups)
		return copy_descriptor(patterns, process, op->fd, op->value);
	return op->seek == PFW_SEEK_CLOSED && op->fd >= 0 ? set_open(patterns, process, op->fd, 0)
							  : 0;
}
