/* tools/patterns/few.c - the files that are shown, from indexes in bounded memory; see patterns.h.
 *
 * The first walk through all indexes adds up ranks, and bytes by the hash of each name: then it is
 * known how many bytes each file has in all.  The second one keeps the names and figures of those
 * with most.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "patterns/patterns.h"
#include "store/index/index.h"
#include "store/kit/grow.h"
#include "store/kit/hash.h"
#include "store/kit/saturate.h"
#include "store/line/hash.h"
#include "store/patterns/in_index.h"

/* Of more rows than that, all files are kept. */
#define LIMIT_MOST 1000
/* Opening the indexes of thousands of small traces again would take longer than all else. */
#define ROWS_BYTES (48u << 20)

/* The sums of a name.  Two names of one hash would be one file: of a million, at odds of 1 in
 * 10^7. */
struct sum {
	uint64_t hash;
	uint64_t moved, mapped;
	size_t rank; /* number + 1 of the last rank that has it */
};

struct kept {
	uint64_t most, moved; /* what it is kept for; then its bytes */
	size_t rank;	      /* as above */
	struct patterns_row row;
};

/* The best of the files so far, the best first. */
struct best {
	struct kept *kept;
	size_t count, limit;
};

/* A name whose sums are to be added to. */
struct share {
	uint64_t hash;
	uint64_t moved, mapped;
};

/* So many wait while their slots come into the cache. */
#define WAITING 16u

struct walk {
	struct patterns *patterns;
	const struct pfw_traces *traces;
	/* In the order in which the walks meet the names, so that most are in a cache. */
	struct sum *sum;
	size_t files, room, next;    /* the one after the last one that was found */
	struct pfw_hash_slots slots; /* their numbers + 1 by hash */
	struct share waiting[WAITING];
	size_t waits;
	struct best moved, mapped;
	size_t rank; /* number of the current one */
	bool again;  /* the second walk */
	/* For the second walk: the indexes of the first files, which stay open, since reading a large row again takes
	 * less time than memory for it; of the others their rows, up to ROWS_BYTES.  No bytes: it is opened again. */
	struct pfw_index *open[PFW_INDEXES_OPEN];
	struct pfw_pattern_row *rows;
	size_t rows_bytes;
};

/* ---- sums by name ---- */

/* NULL: none yet. */
static struct sum *find_sum(struct walk *walk, uint64_t hash)
{
	uint32_t at = (uint32_t)hash, number = (uint32_t)walk->next + 1;

	/* The names of an index come in one order, so that mostly the next one is it. */
	if (walk->next >= walk->files || walk->sum[walk->next].hash != hash) {
		while ((number = pfw_hash_slots_next(&walk->slots, (uint32_t)hash, &at))) {
			if (walk->sum[number - 1].hash == hash)
				break;
		}
	}
	walk->next = number;
	return number ? &walk->sum[number - 1] : NULL;
}

/* NULL: no memory. */
static struct sum *add_sum(struct walk *walk, uint64_t hash)
{
	if (walk->files >= UINT32_MAX - 1 || pfw_hash_slots_reserve(&walk->slots) ||
	    PFW_PUSH(walk->sum, walk->files, walk->room, (struct sum){ .hash = hash }))
		return NULL;
	pfw_hash_slots_add(&walk->slots, (uint32_t)hash, (uint32_t)walk->files);
	return &walk->sum[walk->files - 1];
}

static int add_share(struct walk *walk, const struct share *share)
{
	struct patterns_row *rank = &walk->patterns->few.rank[walk->rank];
	struct sum *sum = find_sum(walk, share->hash);

	sum = sum ? sum : add_sum(walk, share->hash);
	if (!sum)
		return -ENOMEM;
	pfw_saturate_u64(&sum->moved, share->moved);
	pfw_saturate_u64(&sum->mapped, share->mapped);
	rank->files += sum->rank != walk->rank + 1;
	rank->ranks = 1;
	sum->rank = walk->rank + 1;
	return 0;
}

static int add_waiting(struct walk *walk)
{
	int error = 0;

	for (size_t i = 0; i < walk->waits && !error; i++)
		error = add_share(walk, &walk->waiting[i]);
	walk->waits = 0;
	return error;
}

/* The first walk. */
static int add_sums(struct walk *walk, const struct pfw_pattern_file *file)
{
	struct share *share = &walk->waiting[walk->waits++];

	*share = (struct share){ .hash = pfw_linehash(file->name, file->name_bytes),
				 .moved = file->bytes[0] + file->bytes[1],
				 .mapped = file->mapped };
	__builtin_prefetch(&walk->slots.slot[(uint32_t)share->hash & walk->slots.mask]);
	return walk->waits == WAITING ? add_waiting(walk) : 0;
}

/* ---- the best ---- */

/* Above 0: the file comes after that one. */
static int compare(uint64_t most, uint64_t moved, const char *name, size_t bytes,
		   const struct kept *other)
{
	size_t least = bytes < other->row.bytes ? bytes : other->row.bytes;
	int order;

	if (most != other->most)
		return most < other->most ? 1 : -1;
	if (moved != other->moved)
		return moved < other->moved ? 1 : -1;
	order = memcmp(name, other->row.name, least);
	return order ? order : (bytes > other->row.bytes) - (bytes < other->row.bytes);
}

static void drop_last(struct best *best)
{
	free((char *)best->kept[--best->count].row.name);
}

/* Its place among the best, `found` if it is there. */
static size_t find_kept(const struct best *best, uint64_t most, uint64_t moved, const char *name,
			size_t bytes, bool *found)
{
	size_t low = 0, high = best->count;

	*found = false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = compare(most, moved, name, bytes, &best->kept[middle]);

		*found |= !order;
		if (order > 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Add a rank's share of a file, if it is one of the best.  A file that others have pushed out never
 * comes back, since its sums do not change. */
static int offer(struct best *best, const struct walk *walk, uint64_t most, uint64_t moved,
		 const struct pfw_pattern_file *file)
{
	int64_t rank = walk->patterns->rank[walk->rank].rank;
	size_t bytes = file->name_bytes, at;
	struct pfw_pattern pattern;
	struct kept *kept;
	bool found;

	if (best->count == best->limit && best->limit && most < best->kept[best->count - 1].most)
		return 0;
	at = find_kept(best, most, moved, file->name, bytes, &found);
	kept = &best->kept[at];
	if (at == best->limit)
		return 0;
	if (pfw_pattern_figures(file, &pattern))
		return -EBADMSG;
	if (!found) {
		char *text = malloc(bytes + 1);

		if (!text)
			return -ENOMEM;
		memcpy(text, file->name, bytes);
		if (best->count == best->limit)
			drop_last(best);
		memmove(kept + 1, kept, (best->count++ - at) * sizeof(*kept));
		*kept = (struct kept){
			.most = most,
			.moved = moved,
			.row = { .section = "file", .name = text, .bytes = bytes, .rank = rank }
		};
	}
	patterns_add(&kept->row, &pattern);
	kept->row.ranks -= kept->rank == walk->rank + 1;
	kept->rank = walk->rank + 1;
	kept->row.rank = kept->row.ranks > 1 ? -1 : rank;
	kept->row.files = 1;
	return 0;
}

/* The second walk. */
static int keep(struct walk *walk, const struct pfw_pattern_file *file)
{
	const struct sum *sum = find_sum(walk, pfw_linehash(file->name, file->name_bytes));
	int error;

	if (!sum)
		return -ESTALE; /* the index is another one now */
	error = offer(&walk->moved, walk, sum->moved, 0, file);
	if (!error && sum->mapped)
		error = offer(&walk->mapped, walk, sum->mapped, sum->moved, file);
	return error;
}

/* ---- the walks ---- */

static int take(void *user, const struct pfw_pattern_file *file)
{
	struct walk *walk = user;

	return walk->again ? keep(walk, file) : add_sums(walk, file);
}

/* The sums of an index are those of its rank. */
static void add_totals(struct walk *walk, struct patterns_rank *rank,
		       const struct pfw_pattern_totals *totals)
{
	if (walk->again)
		return;
	pfw_pattern_add(&walk->patterns->few.rank[walk->rank].sum, &totals->sum);
	pfw_pattern_add_counters(&rank->counters, &totals->counters);
}

static void drop_row(struct pfw_pattern_row *row)
{
	free(row->data);
	*row = (struct pfw_pattern_row){ .data = NULL };
}

static bool is_open(const struct walk *walk, size_t file)
{
	return file < PFW_INDEXES_OPEN && walk->open[file];
}

/* Keep the row of a file, or its index.  0 or -errno. */
static int open_file(struct walk *walk, struct pfw_indexes_ahead *ahead, size_t number)
{
	const struct pfw_trace_file *file = &walk->traces->file[number];
	struct pfw_index *index;
	int error = file->ranks ? -ENOENT : 0; /* an index covers its whole file */

	if (!error)
		error = pfw_index_ahead(ahead, number, &index);
	if (error)
		return error;
	if (!walk->again)
		error = survey_keep_problems(&walk->patterns->survey, file->path, index);
	/* Of a partial it is in memory. */
	if (!error && number < PFW_INDEXES_OPEN && !file->partial) {
		walk->open[number] = index;
		return 0;
	}
	error = error ?: pfw_patterns_copy_row(index, &walk->rows[number]);
	pfw_index_close(index);
	return error;
}

static int walk_file(struct walk *walk, struct pfw_indexes_ahead *ahead, size_t number)
{
	struct pfw_pattern_row *row = &walk->rows[number];
	struct patterns_rank *rank =
		patterns_find_rank(walk->patterns, walk->traces->file[number].head.rank);
	struct pfw_pattern_totals totals;
	int error = rank ? 0 : -ENOMEM;

	if (!error && !row->bytes && !is_open(walk, number))
		error = open_file(walk, ahead, number);
	if (error)
		return error;
	walk->rank = (size_t)(rank - walk->patterns->rank);
	error = is_open(walk, number)
			? pfw_patterns_walk_index(walk->open[number], &totals, take, walk)
			: pfw_patterns_walk_row(row, &totals, take, walk);
	error = error ?: add_waiting(walk);
	if (!walk->again)
		walk->rows_bytes += row->bytes;
	if (walk->rows_bytes > ROWS_BYTES)
		drop_row(row);
	if (!error)
		add_totals(walk, rank, &totals);
	return error;
}

/* Whether the row of a file has to be read. */
static bool wants(void *user, size_t file)
{
	const struct walk *walk = user;

	return pfw_select_file(&walk->patterns->select, file) && !walk->rows[file].bytes &&
	       !is_open(walk, file);
}

/* Files come in order of rank, so that those of a rank follow each other. */
static int walk_all(struct walk *walk)
{
	struct pfw_indexes_ahead *ahead;
	int error = pfw_indexes_ahead_open(&ahead, walk->traces,
					   survey_jobs(&walk->patterns->survey), walk, wants, NULL);

	if (error)
		return error;
	for (size_t i = 0; i < walk->traces->count && !error; i++) {
		if (pfw_select_file(&walk->patterns->select, i))
			error = walk_file(walk, ahead, i);
	}
	pfw_indexes_ahead_close(ahead);
	return error;
}

/* ---- results ---- */

static struct patterns_row *rows_of(struct best *best)
{
	struct patterns_row *row = calloc(best->count + 1, sizeof(*row));

	for (size_t i = 0; row && i < best->count; i++)
		row[i] = best->kept[i].row;
	return row;
}

/* Move what was found to the results. */
static int give(struct walk *walk)
{
	struct patterns_few *few = &walk->patterns->few;

	few->files = walk->files;
	for (size_t i = 0; i < walk->files; i++) {
		few->mapped_files += walk->sum[i].mapped != 0;
		pfw_saturate_u64(&few->mapped_bytes, walk->sum[i].mapped);
	}
	few->file = rows_of(&walk->moved);
	few->mapped = few->file ? rows_of(&walk->mapped) : NULL;
	if (!few->mapped) {
		free(few->file);
		few->file = NULL;
		return -ENOMEM;
	}
	few->shown = walk->moved.count;
	few->mapped_shown = walk->mapped.count;
	walk->moved.count = walk->mapped.count = 0; /* their names are the rows' */
	few->known = true;
	return 0;
}

void patterns_free_few(struct patterns_few *few)
{
	for (size_t i = 0; i < few->shown; i++)
		free((char *)few->file[i].name);
	for (size_t i = 0; i < few->mapped_shown; i++)
		free((char *)few->mapped[i].name);
	free(few->file);
	free(few->mapped);
	free(few->rank);
	*few = (struct patterns_few){ .known = false };
}

static int make_room(struct walk *walk)
{
	walk->moved.limit = (size_t)walk->patterns->survey.row_limit;
	walk->mapped.limit = PATTERNS_MAPPED_SHOWN;
	walk->moved.kept = calloc(walk->moved.limit + 1, sizeof(struct kept));
	walk->mapped.kept = calloc(walk->mapped.limit + 1, sizeof(struct kept));
	walk->patterns->few.rank = calloc(walk->traces->count + 1, sizeof(struct patterns_row));
	walk->rows = calloc(walk->traces->count + 1, sizeof(*walk->rows));
	return pfw_hash_slots_init(&walk->slots) || !walk->moved.kept || !walk->mapped.kept ||
			       !walk->patterns->few.rank || !walk->rows
		       ? -ENOMEM
		       : 0;
}

static void free_walk(struct walk *walk)
{
	while (walk->moved.count)
		drop_last(&walk->moved);
	while (walk->mapped.count)
		drop_last(&walk->mapped);
	free(walk->moved.kept);
	free(walk->mapped.kept);
	for (size_t i = 0; walk->rows && i < walk->traces->count; i++)
		drop_row(&walk->rows[i]);
	for (size_t i = 0; i < PFW_INDEXES_OPEN; i++) {
		if (walk->open[i])
			pfw_index_close(walk->open[i]);
	}
	free(walk->rows);
	free(walk->sum);
	pfw_hash_slots_release(&walk->slots);
}

int patterns_find_few(struct patterns *patterns, const struct pfw_traces *traces)
{
	struct walk walk = { .patterns = patterns, .traces = traces };
	int error;

	if (patterns->survey.row_limit < 0 || patterns->survey.row_limit > LIMIT_MOST ||
	    !pfw_patterns_indexable(&patterns->found))
		return 0;
	error = make_room(&walk) ?: walk_all(&walk);
	walk.again = true;
	if (!error && walk.files)
		error = walk_all(&walk);
	if (!error)
		error = give(&walk);
	free_walk(&walk);
	if (!error)
		survey_tell_problems(&patterns->survey);
	if (error) {
		survey_forget_problems(&patterns->survey);
		/* Some index is missing: begin again, with the lines. */
		patterns_free_few(&patterns->few);
		patterns->ranks = 0;
	}
	return error == -ENOMEM ? error : 0;
}
