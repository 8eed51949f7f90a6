/* tools/patterns/few.c - the files that are shown, from indexes in bounded memory; see patterns.h.
 *
 * The first walk through all indexes adds up ranks, and bytes by the hash of each name: then it is
 * known how many bytes each file has in all.  The second one keeps the names and figures of those
 * with most.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "patterns/patterns.h"
#include "store/index/index.h"
#include "store/kit/saturate.h"
#include "store/line/hash.h"
#include "store/patterns/in_index.h"

/* Of more rows than that, all files are kept. */
#define LIMIT_MOST 1000

/* The sums of a name.  Two names of one hash would be one file: of a million, at odds of 1 in 10^7. */
struct sum {
	uint64_t hash; /* 0: free */
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

struct walk {
	struct patterns *patterns;
	const struct pfw_traces *traces;
	struct sum *sum;
	size_t files, mask; /* mask + 1 slots */
	struct best moved, mapped;
	size_t rank; /* number of the current one */
	bool again;  /* the second walk */
};

/* ---- sums by name ---- */

static struct sum *find_slot(struct sum *sum, size_t mask, uint64_t hash)
{
	size_t at = hash & mask;

	while (sum[at].hash && sum[at].hash != hash)
		at = (at + 1) & mask;
	return &sum[at];
}

static bool grow(struct walk *walk)
{
	size_t mask = walk->mask ? 2 * walk->mask + 1 : 1023;
	struct sum *more = calloc(mask + 1, sizeof(*more));

	for (size_t i = 0; more && walk->sum && i <= walk->mask; i++) {
		if (walk->sum[i].hash)
			*find_slot(more, mask, walk->sum[i].hash) = walk->sum[i];
	}
	if (!more)
		return false;
	free(walk->sum);
	walk->sum = more;
	walk->mask = mask;
	return true;
}

static uint64_t moved_by(const struct pfw_pattern *pattern)
{
	return pattern->side[0].bytes + pattern->side[1].bytes;
}

static uint64_t hash_of(const char *name, size_t bytes)
{
	uint64_t hash = pfw_linehash(name, bytes);

	return hash ? hash : 1;
}

/* The first walk. */
static int add_sums(struct walk *walk, const char *name, size_t bytes,
		    const struct pfw_pattern *pattern)
{
	struct patterns_row *rank = &walk->patterns->few.rank[walk->rank];
	struct sum *sum;

	if (walk->files >= walk->mask / 2 && !grow(walk))
		return -ENOMEM;
	sum = find_slot(walk->sum, walk->mask, hash_of(name, bytes));
	if (!sum->hash) {
		sum->hash = hash_of(name, bytes);
		walk->files++;
	}
	pfw_saturate_u64(&sum->moved, moved_by(pattern));
	pfw_saturate_u64(&sum->mapped, pattern->mapped);
	patterns_add(rank, pattern);
	rank->files -= sum->rank == walk->rank + 1;
	rank->ranks = 1;
	sum->rank = walk->rank + 1;
	return 0;
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
		 const char *name, size_t bytes, const struct pfw_pattern *pattern)
{
	int64_t rank = walk->patterns->rank[walk->rank].rank;
	bool found;
	size_t at = find_kept(best, most, moved, name, bytes, &found);
	struct kept *kept = &best->kept[at];

	if (at == best->limit)
		return 0;
	if (!found) {
		char *text = malloc(bytes + 1);

		if (!text)
			return -ENOMEM;
		memcpy(text, name, bytes);
		if (best->count == best->limit)
			drop_last(best);
		memmove(kept + 1, kept, (best->count++ - at) * sizeof(*kept));
		*kept = (struct kept){
			.most = most,
			.moved = moved,
			.row = { .section = "file", .name = text, .bytes = bytes, .rank = rank }
		};
	}
	patterns_add(&kept->row, pattern);
	kept->row.ranks -= kept->rank == walk->rank + 1;
	kept->rank = walk->rank + 1;
	kept->row.rank = kept->row.ranks > 1 ? -1 : rank;
	kept->row.files = 1;
	return 0;
}

/* The second walk. */
static int keep(struct walk *walk, const char *name, size_t bytes,
		const struct pfw_pattern *pattern)
{
	const struct sum *sum = find_slot(walk->sum, walk->mask, hash_of(name, bytes));
	int error;

	if (!sum->hash)
		return -ESTALE; /* the index is another one now */
	error = offer(&walk->moved, walk, sum->moved, 0, name, bytes, pattern);
	if (!error && sum->mapped)
		error = offer(&walk->mapped, walk, sum->mapped, sum->moved, name, bytes, pattern);
	return error;
}

/* ---- the walks ---- */

static int take(void *user, const char *name, size_t bytes, const struct pfw_pattern *pattern)
{
	struct walk *walk = user;

	if (!patterns_counted(pattern))
		return 0;
	return walk->again ? keep(walk, name, bytes, pattern)
			   : add_sums(walk, name, bytes, pattern);
}

static int walk_file(struct walk *walk, const struct pfw_trace_file *file)
{
	struct patterns_rank *rank = patterns_find_rank(walk->patterns, file->head.rank);
	struct pfw_pattern_counters again = { .any = false };
	struct pfw_index *index;
	char why[PATH_MAX];
	int error = rank ? 0 : -ENOMEM;

	if (!error && file->ranks)
		error = -ENOENT; /* an index covers its whole file */
	if (!error)
		error = pfw_index_of(&index, file, why, sizeof(why));
	if (error)
		return error;
	walk->rank = (size_t)(rank - walk->patterns->rank);
	/* Reading the lines reports their problems. */
	error = pfw_index_meta(index)->problems
			? -ENOENT
			: pfw_patterns_walk_index(index, walk->again ? &again : &rank->counters,
						  take, walk);
	pfw_index_close(index);
	return error;
}

/* Files come in order of rank, so that those of a rank follow each other. */
static int walk_all(struct walk *walk)
{
	int error = 0;

	for (size_t i = 0; i < walk->traces->count && !error; i++) {
		if (pfw_select_file(&walk->patterns->select, i))
			error = walk_file(walk, &walk->traces->file[i]);
	}
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
	for (size_t i = 0; walk->sum && i <= walk->mask; i++) {
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
	return walk->moved.kept && walk->mapped.kept && walk->patterns->few.rank ? 0 : -ENOMEM;
}

static void free_walk(struct walk *walk)
{
	while (walk->moved.count)
		drop_last(&walk->moved);
	while (walk->mapped.count)
		drop_last(&walk->mapped);
	free(walk->moved.kept);
	free(walk->mapped.kept);
	free(walk->sum);
}

int patterns_find_few(struct patterns *patterns, const struct pfw_traces *traces)
{
	struct walk walk = { .patterns = patterns, .traces = traces };
	int error;

	if (patterns->survey.row_limit < 0 || patterns->survey.row_limit > LIMIT_MOST ||
	    !pfw_patterns_indexable(&patterns->found))
		return 0;
	error = make_room(&walk);
	if (!error)
		error = walk_all(&walk);
	walk.again = true;
	if (!error && walk.files)
		error = walk_all(&walk);
	if (!error)
		error = give(&walk);
	free_walk(&walk);
	if (error) {
		/* Some index is missing: begin again, with the lines. */
		patterns_free_few(&patterns->few);
		patterns->ranks = 0;
	}
	return error == -ENOMEM ? error : 0;
}
