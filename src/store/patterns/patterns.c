/* store/patterns/patterns.c - the places of reads and writes, one after another; see patterns.h. */
#include "store/patterns/patterns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/patterns/op.h"
#include "store/summary/summary.h"

/* Not inline: few operations need this, and the code for every operation stays small. */
#define NOT_INLINE __attribute__((noinline))
/* Functions with a parameter `usual` are compiled twice: is_usual() is true for most operations. */
#define TWICE __attribute__((always_inline)) static inline
/* Figures are prefetched this many operations ahead. */
#define FETCH_AHEAD 8
#define CACHE_LINE 64u /* bytes */

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
		pfw_pattern_ops_release(&patterns->run[i].ops);
	free(patterns->run);
	pfw_pattern_ops_release(&patterns->spare);
	free(patterns->descriptor);
	free(patterns->open);
	PFW_FREE_MAPPED(patterns->use, patterns->use_room);
	free(patterns->other);
	free(patterns->of_file);
	patterns->run = NULL;
	patterns->descriptor = NULL;
	patterns->open = NULL;
	patterns->use = patterns->other = NULL;
	patterns->descriptor_room = patterns->open_room = patterns->opens = 0;
	patterns->of_file = NULL;
	patterns->use_room = patterns->other_room = patterns->of_file_room = 0;
	memset(patterns->recent_fd, 0, sizeof(patterns->recent_fd));
	patterns->runs = patterns->run_room = 0;
	patterns->free_open = 0;
	patterns->recent = 0;
}

void pfw_patterns_release(struct pfw_patterns *patterns)
{
	pfw_patterns_close(patterns);
	pfw_text_ids_release(&patterns->keys);
	PFW_FREE_MAPPED(patterns->row, patterns->room);
}

/* ---- rows ---- */

/* Add a row for each new key. */
static int add_rows(struct pfw_patterns *patterns)
{
	for (; patterns->rows < patterns->keys.count; patterns->rows++) {
		if (PFW_REACH_MAPPED(patterns->row, patterns->rows, patterns->room))
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

/* The row of a name of a file that may have a row in the summary of all blocks. */
static int64_t map_file(struct pfw_patterns *patterns, int64_t rank, const struct pfw_text_id *name,
			uint32_t file)
{
	int64_t row;

	if (PFW_REACH(patterns->of_file, file, patterns->of_file_room))
		return -ENOMEM;
	if (patterns->of_file[file])
		return (int64_t)patterns->of_file[file] - 1;
	row = pfw_text_ids_like(&patterns->keys, rank, name);
	if (row >= 0 && file)
		patterns->of_file[file] = (uint32_t)row + 1;
	return row;
}

/* The summary has searched for its files, whose names are in no cache. */
static int map_files(struct pfw_patterns *patterns, int64_t rank, struct pfw_patterns_block *block)
{
	for (uint32_t i = 0; i < block->names.count; i++) {
		const struct pfw_text_id *name = &block->names.name[i];
		int64_t row = map_file(patterns, rank, name, block->summary->file[name->of].merged);

		if (row < 0)
			return (int)row;
		block->row[i] = (uint32_t)row;
	}
	return 0;
}

int pfw_patterns_map(struct pfw_patterns *patterns, int64_t rank, struct pfw_patterns_block *block)
{
	int error = PFW_REACH(block->row, block->names.count, block->row_room);

	if (!error)
		error = block->summary ? map_files(patterns, rank, block)
				       : pfw_text_ids_map(&patterns->keys, rank, &block->names,
							  block->row);
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

/* Two numbers, where numbers may begin. */
typedef uint64_t pair __attribute__((vector_size(16), aligned(8), may_alias));

/* Add figures, which are at most INT64_MAX unless they come out of a damaged file. */
static void add_figures(uint64_t *into, const uint64_t *from)
{
	const unsigned last = PFW_PATTERN_FIGURES - 1;
	uint64_t sum[PFW_PATTERN_FIGURES];
	pair all = { into[last] + from[last], from[last] };

	_Static_assert(PFW_PATTERN_FIGURES % 2 == 1, "pairs and one");
	sum[last] = all[0];
	for (unsigned i = 0; i < last; i += 2) {
		pair more = *(const pair *)&from[i], now = *(const pair *)&into[i] + more;

		*(pair *)&sum[i] = now;
		all |= more | now;
	}
	if ((all[0] | all[1]) <= INT64_MAX) {
		memcpy(into, sum, sizeof(sum));
		return;
	}
	for (unsigned i = 0; i < PFW_PATTERN_FIGURES; i++)
		pfw_saturate_u64(&into[i], from[i]);
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
	add_figures(into->figure, from->figure);
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
static NOT_INLINE uint32_t *number_descriptor(struct pfw_patterns *patterns, uint64_t process,
					      int64_t fd, struct pfw_pattern_recent *recent)
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

/* Of a process that is not known as the first of the row.  NULL: no memory. */
static NOT_INLINE struct pfw_pattern_use *number_use(struct pfw_patterns *patterns,
						     uint64_t process, uint32_t row)
{
	struct pfw_pattern_use *use;
	int64_t other;

	if (PFW_REACH_MAPPED(patterns->use, row, patterns->use_room))
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

static inline struct pfw_pattern_use *find_use(struct pfw_patterns *patterns, uint64_t process,
					       uint32_t row)
{
	struct pfw_pattern_use *use = row < patterns->use_room ? &patterns->use[row] : NULL;

	return use && use->process == process + 1 ? use : number_use(patterns, process, row);
}

TWICE int find_place(struct pfw_patterns *patterns, const struct pfw_pattern_op *op, bool usual,
		     struct place *place)
{
	bool opens = op->role == PFW_ROLE_OPEN && (usual || !op->failed);
	uint32_t open;

	place->row = &patterns->row[op->name];
	place->open = NULL;
	place->use = find_use(patterns, op->process, op->name);
	if (!place->use)
		return -ENOMEM;
	if (op->fd < 0)
		return 0;
	open = find_open(patterns, op->process, op->fd, opens);
	if (!open)
		return -ENOMEM;
	place->open = &patterns->open[open - 1];
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
	/* By powers of two: the least that it can be. */
	static const uint8_t least[] = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3,
					 3, 3, 4, 4, 4, 5, 5, 6, 6, 7, 7, 7, 8, 8, 8, 9 };
	unsigned power = bytes > 1 ? 64 - (unsigned)__builtin_clzll(bytes - 1) : 0;
	unsigned i = power < sizeof(least) ? least[power] : PFW_PATTERN_SIZES - 1;

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

static inline bool is_aligned(const struct pfw_patterns *patterns, uint64_t offset)
{
	uint64_t alignment = patterns->alignment, low = alignment - 1;

	/* A division takes as long as all the rest. */
	return !(alignment & low) ? !(offset & low) : offset % alignment == 0;
}

/* Count a read or a write of known size, which is wanted; a negative `offset` is unknown. */
TWICE void count_access(const struct pfw_patterns *patterns, const struct place *place,
			enum pfw_side number, uint64_t bytes, int64_t offset)
{
	const struct pfw_pattern_last *last = &place->use->last[number];
	struct pfw_pattern_side *side = &place->row->side[number];

	side->accesses++;
	pfw_saturate_u64(&side->bytes, bytes);
	side->size[size_of(bytes)]++;
	side->small += bytes < patterns->small;
	place->row->switches += place->use->moved && place->use->side != number;
	if (offset < 0) {
		side->access[PFW_ACCESS_UNPLACED]++;
		return;
	}
	side->access[access_of(last, offset)]++;
	side->unaligned += !is_aligned(patterns, (uint64_t)offset);
	/* Darshan's "last byte" is `end` - 1, but 0 before the first access, whose `end` is 0. */
	side->behind += offset >= last->end + !last->any;
}

TWICE void add_access(const struct pfw_patterns *patterns, const struct place *place,
		      enum pfw_side number, const struct pfw_pattern_op *op, bool usual,
		      int64_t offset)
{
	struct pfw_pattern_last *last = &place->use->last[number];
	struct pfw_pattern_side *side = &place->row->side[number];
	uint64_t bytes = op->bytes;

	if (usual || op->wanted)
		count_access(patterns, place, number, bytes, offset);
	place->use->moved = true;
	place->use->side = number != PFW_SIDE_READ;
	if (offset < 0)
		return;
	last->stepped = last->any;
	last->step = offset - last->begin;
	last->any = true;
	last->begin = offset;
	last->end = offset > INT64_MAX - (int64_t)bytes ? INT64_MAX : offset + (int64_t)bytes;
	if ((usual || op->wanted) && (uint64_t)last->end > side->end)
		side->end = (uint64_t)last->end;
}

/* Return the offset of an access, and move the descriptor to its end. */
TWICE int64_t move(const struct place *place, enum pfw_side side, const struct pfw_pattern_op *op,
		   bool usual)
{
	struct pfw_pattern_open *open = place->open;
	/* Nobody knows where the end of the file is; Linux's pwrite() appends, too. */
	bool appends = side == PFW_SIDE_WRITE && ((!usual && op->append) || (open && open->append));
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

TWICE void add_side(const struct pfw_patterns *patterns, const struct place *place,
		    enum pfw_side number, const struct pfw_pattern_op *op, bool usual)
{
	struct pfw_pattern_side *side = &place->row->side[number];

	if (usual || op->wanted) {
		pfw_saturate_u64(&side->calls, usual ? 1 : pfw_pattern_op_calls(op));
		if (usual || !op->target_of_copy)
			pfw_saturate_sum(&side->ns, op->ns);
	}
	if (!usual && op->summed)
		pfw_saturate_u64(&side->bytes, op->wanted ? op->bytes : 0);
	else if (op->moved)
		add_access(patterns, place, number, op, usual, move(place, number, op, usual));
	else if (place->open && (usual || !op->failed))
		place->open->known = false; /* it moved by an unknown number of bytes */
}

static NOT_INLINE void seek(struct pfw_pattern_open *open, enum pfw_seek how, int64_t value,
			    bool append)
{
	if (how == PFW_SEEK_FLAGS) {
		open->append = append;
		return;
	}
	if (how == PFW_SEEK_BY && open->known) {
		open->offset = pfw_saturate_add(open->offset, value);
		return;
	}
	open->known = how == PFW_SEEK_TO;
	open->offset = value;
}

TWICE void count_other(const struct place *place, const struct pfw_pattern_op *op, bool usual,
		       bool opened)
{
	uint64_t calls = usual ? 1 : pfw_pattern_op_calls(op);
	struct pfw_pattern *row = place->row;

	pfw_saturate_sum(&row->metadata_ns, op->ns);
	pfw_saturate_u64(opened ? &row->opens : &row->others, calls);
	if (opened && place->use->opened)
		pfw_saturate_u64(&row->again, calls);
	if (op->bytes && (usual || !op->summed))
		pfw_saturate_u64(&row->mapped, op->bytes);
	if (!usual && op->touches) {
		row->looked++;
		pfw_saturate_u64(&row->touched, (uint64_t)op->value - 1);
	}
}

TWICE void add_other(const struct place *place, const struct pfw_pattern_op *op, bool usual)
{
	bool opened = op->role == PFW_ROLE_OPEN && (usual || !op->failed);

	if (usual || op->wanted)
		count_other(place, op, usual, opened);
	if (!opened)
		return;
	place->use->opened = true;
	if (place->open) {
		place->open->known = true;
		place->open->append = !usual && op->append;
		place->open->offset = 0;
	}
}

/* A call that is no access: only those move, copy and close descriptors. */
TWICE int take_other(struct pfw_patterns *patterns, const struct pfw_pattern_op *op, bool usual,
		     const struct place *place)
{
	bool closes = op->seek == PFW_SEEK_CLOSED;

	if (op->seek && !closes && place->open && (usual || !op->failed))
		seek(place->open, op->seek, op->value, op->append);
	add_other(place, op, usual);
	if (!usual && op->dups)
		return copy_descriptor(patterns, op->process, op->fd, op->value);
	return closes && op->fd >= 0 ? set_open(patterns, op->process, op->fd, 0) : 0;
}

TWICE int take(struct pfw_patterns *patterns, const struct pfw_pattern_op *op, bool usual)
{
	struct place place;
	int error = find_place(patterns, op, usual, &place);

	if (error)
		return error;
	if ((usual || op->wanted) && !place.use->used) {
		place.use->used = true;
		place.row->processes++;
	}
	if (op->role != PFW_ROLE_READ && op->role != PFW_ROLE_WRITE && op->role != PFW_ROLE_COPY)
		return take_other(patterns, op, usual, &place);
	add_side(patterns, &place, op->role == PFW_ROLE_WRITE ? PFW_SIDE_WRITE : PFW_SIDE_READ, op,
		 usual);
	return 0;
}

static NOT_INLINE int take_unusual(struct pfw_patterns *patterns, const struct pfw_pattern_ops *ops,
				   const struct pfw_pattern_packed *packed)
{
	const struct pfw_pattern_op narrow = pfw_pattern_unpack(packed, ops->process);

	return take(patterns, packed->fd == PFW_PATTERN_WIDE ? &ops->wide[packed->value] : &narrow,
		    false);
}

/* Most operations: a call that is wanted, did not fail, and needs no more than its bytes and its offset. */
static inline bool is_usual(const struct pfw_pattern_packed *op)
{
	static const struct pfw_pattern_packed usual = { .wanted = 1, .call = 1 }, any = {
		.role = 7, .seek = 7, .placed = 1, .moved = 1
	};

	return (op->bits & ~any.bits) == usual.bits;
}

/* Prefetch the figures of an operation that will be counted soon, unless it is on the file of the one before: all
 * figures together exceed the cache.  Inlined at once: GCC removes calls of what only prefetches. */
__attribute__((always_inline)) static inline void fetch(const struct pfw_patterns *patterns,
							const struct pfw_pattern_packed *op)
{
	const struct pfw_pattern *row = &patterns->row[op->name];
	const char *side = (const char *)&row->side[op->role == PFW_ROLE_WRITE];

	if (op->name == op[-1].name)
		return;
	if (op->name < patterns->use_room)
		__builtin_prefetch(&patterns->use[op->name], 1);
	__builtin_prefetch(row, 1);
	for (size_t at = 0; at < sizeof(row->side[0]); at += CACHE_LINE)
		__builtin_prefetch(side + at, 1);
}

int pfw_pattern_ops_take(struct pfw_patterns *patterns, const struct pfw_pattern_ops *ops,
			 size_t first, size_t count)
{
	const struct pfw_pattern_packed *packed = ops->at + first, *end = packed + count;
	int error = 0;

	patterns->late |= packed->ts_ns < patterns->taken_ns;
	patterns->taken_ns = end[-1].ts_ns;
	for (; packed < end && !error; packed++) {
		const struct pfw_pattern_op op = pfw_pattern_unpack(packed, ops->process);

		if (end - packed > FETCH_AHEAD)
			fetch(patterns, packed + FETCH_AHEAD);
		error = packed->fd == PFW_PATTERN_WIDE || !is_usual(packed)
				? take_unusual(patterns, ops, packed)
				: take(patterns, &op, true);
	}
	return error;
}
