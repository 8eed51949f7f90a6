/* index_top.c - the files of several indexes with the most bytes, time or calls; see index.h.
 *
 * A look at the sums of all files, 17 bytes each, finds them: sums of the same name's hash are added
 * up, and only the rows of the greatest are read, with their names.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "index.h"
#include "index_open.h"

/* Files that are added up in one go; of more, one part of the hashes after the other. */
#define PART_FILES (1u << 20)
/* Files as great as the last that is wanted, from among which names choose. */
#define TIES_MAX 256u

/* A file, by the hash of its name. */
struct sum {
	uint64_t hash, value;
};

struct search {
	struct pfw_index *const *index;
	size_t count;
	enum pfw_index_order order;
	size_t limit;
	struct pfw_index_top *top; /* where all is added up */
	/* The part in hand: hashes with these upper bits. */
	unsigned part, part_bits;
	struct sum *slot; /* a hash table; value 0 and hash 0: empty */
	uint64_t mask, used;
	struct sum *best; /* at most 2 * kept */
	uint32_t *row_of; /* of `found`, by the number in best[]; 0: not seen */
	size_t bests, kept;
	uint64_t zeros; /* files whose value is 0 */
	struct pfw_summary found;
	struct pfw_index *reading;
	/* What finds a row of the file `found_in`. */
	struct pfw_index *found_in;
	struct pfw_index_row row;
};

static uint64_t calls_of(const struct pfw_summary_file *file)
{
	return file->opens + file->reads + file->writes + file->others;
}

static uint64_t value_of(const struct pfw_summary_file *file, enum pfw_index_order order)
{
	switch (order) {
	case PFW_INDEX_BY_BYTES:
		return file->read_bytes + file->written_bytes;
	case PFW_INDEX_BY_NS:
		return file->open_ns + file->read_ns + file->write_ns + file->other_ns;
	default:
		return calls_of(file);
	}
}

static uint64_t sum_of(const struct pfw_blob_sums *sums, enum pfw_index_order order)
{
	switch (order) {
	case PFW_INDEX_BY_BYTES:
		return sums->bytes;
	case PFW_INDEX_BY_NS:
		return sums->ns;
	default:
		return sums->calls;
	}
}

/* ---- the sums of all files ---- */

/* Sums that are read together, so that their slots come into the cache meanwhile. */
#define BATCH 16u

/* Call take() for each file of a blob but row 0.  0 or what ends it. */
static int each_of_blob(struct search *search, struct pfw_blob_reader reader, uint32_t *next,
			int (*take)(struct search *search, const struct pfw_blob_sums *sums,
				    uint32_t id))
{
	struct pfw_blob_sums sums[BATCH];
	int result = 1, error = 0;

	while (!error && result > 0) {
		unsigned count = 0;

		while (count < BATCH && (result = pfw_blob_next_sums(&reader, &sums[count])) > 0) {
			if (search->slot)
				__builtin_prefetch(&search->slot[sums[count].hash & search->mask],
						   1);
			count++;
		}
		for (unsigned i = 0; !error && i < count; i++, ++*next)
			error = *next ? take(search, &sums[i], *next) : 0;
	}
	return error ? error : result;
}

/* Call take() for each file of all indexes but row 0. */
static int each_sum(struct search *search,
		    int (*take)(struct search *search, const struct pfw_blob_sums *sums,
				uint32_t id))
{
	int result = 0, error = 0;

	for (size_t i = 0; !error && i < search->count; i++) {
		struct pfw_index_row row;
		uint32_t next = 0;

		search->reading = search->index[i];
		error = pfw_index_query(search->reading, &row,
					"SELECT * FROM file_sums ORDER BY first");
		while (!error && (result = pfw_index_next(&row)) > 0) {
			uint64_t first = pfw_index_u64(&row);
			size_t bytes;
			const uint8_t *data = pfw_index_blob(&row, &bytes);
			struct pfw_blob_reader reader = { .at = data, .end = data + bytes };

			error = first != next || row.bad
					? -EBADMSG
					: each_of_blob(search, reader, &next, take);
			if (!error && next > PFW_SUMMARY_FILES_MAX)
				error = -EBADMSG;
		}
		sqlite3_finalize(row.statement);
		error = error ? error : result;
	}
	return error;
}

/* How many files there are, counted once for each index. */
static int count_files(struct search *search)
{
	int error = 0;

	for (size_t i = 0; !error && i < search->count; i++) {
		struct pfw_index_row row;
		uint64_t files = 0;

		error = pfw_index_query(search->index[i], &row, "SELECT max(id) FROM file");
		error = error ? error : pfw_index_next(&row) == 1 ? 0 : -EBADMSG;
		if (!error)
			files = pfw_index_u64(&row);
		/* No writer has more; what comes is reckoned by this number. */
		if (!error && (row.bad || files > PFW_SUMMARY_FILES_MAX))
			error = -EBADMSG;
		search->used += files;
		sqlite3_finalize(row.statement);
	}
	return error;
}

static void add(uint64_t *sum, uint64_t value)
{
	if (__builtin_add_overflow(*sum, value, sum))
		*sum = UINT64_MAX;
}

static int add_sum(struct search *search, const struct pfw_blob_sums *sums, uint32_t id)
{
	uint64_t at = sums->hash, value = sum_of(sums, search->order);
	struct sum *sum;

	(void)id;
	if (!search->part) {
		add(&search->top->bytes, sums->bytes);
		add(&search->top->ns, sums->ns);
		add(&search->top->calls, sums->calls);
		search->zeros += !value;
	}
	if (!value || (search->part_bits && sums->hash >> (64 - search->part_bits) != search->part))
		return 0;
	for (;; at++) {
		sum = &search->slot[at & search->mask];
		if (!sum->value || sum->hash == sums->hash)
			break;
	}
	/* The table is as large as the mean part needs; hashes of a hostile index may be in one. */
	search->used += !sum->value;
	if (search->used > search->mask / 8 * 7)
		return -E2BIG;
	sum->hash = sums->hash;
	add(&sum->value, value);
	return 0;
}

/* ---- the greatest ---- */

static int by_value(const void *a, const void *b)
{
	const struct sum *x = a, *y = b;

	if (x->value != y->value)
		return x->value > y->value ? -1 : 1;
	return x->hash < y->hash ? -1 : x->hash > y->hash;
}

static int by_hash(const void *a, const void *b)
{
	const struct sum *x = a, *y = b;

	return x->hash < y->hash ? -1 : x->hash > y->hash;
}

/* Keep the greatest of `best` and those in the table. */
static void take_best(struct search *search)
{
	uint64_t least = 0;

	for (uint64_t i = 0; i <= search->mask; i++) {
		const struct sum *sum = &search->slot[i];

		if (!sum->value || sum->value < least)
			continue;
		search->best[search->bests++] = *sum;
		if (search->bests < 2 * search->kept)
			continue;
		qsort(search->best, search->bests, sizeof(*search->best), by_value);
		search->bests = search->kept;
		least = search->best[search->kept - 1].value;
	}
	qsort(search->best, search->bests, sizeof(*search->best), by_value);
	if (search->bests > search->kept)
		search->bests = search->kept;
}

/* Keep those that may be among the `limit` first by value and name.  0; -E2BIG: sums cannot tell. */
static int drop_lesser(struct search *search)
{
	uint64_t least;

	/* Names choose from among those whose value is 0. */
	if (search->bests < search->limit)
		return search->zeros ? -E2BIG : 0;
	least = search->limit ? search->best[search->limit - 1].value : UINT64_MAX;
	if (search->bests == search->kept && search->best[search->bests - 1].value == least)
		return -E2BIG;
	while (search->bests && search->best[search->bests - 1].value < least)
		search->bests--;
	return 0;
}

/* Find the hashes of the greatest, part by part. */
static int find_best(struct search *search)
{
	int error = count_files(search);

	if (search->limit > search->used)
		search->limit = search->used;
	if (error || !search->used)
		return error;
	search->kept = search->limit + TIES_MAX;
	while (search->used >> search->part_bits > PART_FILES)
		search->part_bits++;
	for (search->mask = 1023; search->mask / 4 * 3 < search->used >> search->part_bits;)
		search->mask = search->mask * 2 + 1;
	search->slot = malloc((search->mask + 1) * sizeof(*search->slot));
	search->best = malloc(2 * search->kept * sizeof(*search->best));
	if (!search->slot || !search->best)
		return -ENOMEM;
	for (; !error && search->part < 1u << search->part_bits; search->part++) {
		memset(search->slot, 0, (search->mask + 1) * sizeof(*search->slot));
		search->used = 0;
		error = each_sum(search, add_sum);
		take_best(search);
	}
	return error ? error : drop_lesser(search);
}

/* ---- their rows ---- */

/* The row of a file of the index that is being read. */
static int find_row(struct search *search, uint32_t id)
{
	int error = 0;

	if (search->found_in != search->reading) {
		sqlite3_finalize(search->row.statement);
		search->found_in = search->reading;
		error = pfw_index_query(search->reading, &search->row,
					"SELECT " PFW_INDEX_FILE_COLUMNS " FROM file WHERE id = ?");
	}
	if (error)
		return error;
	sqlite3_reset(search->row.statement);
	sqlite3_bind_int64(search->row.statement, 1, id);
	return pfw_index_next(&search->row) == 1 ? 0 : -EBADMSG;
}

/* Where a file is one of the greatest, add its row to that of its name. */
static int add_row(struct search *search, const struct pfw_blob_sums *sums, uint32_t id)
{
	struct sum *best = bsearch(sums, search->best, search->bests, sizeof(*best), by_hash);
	const char *name;
	uint32_t *seen;
	size_t bytes;
	int64_t to;
	int error;

	if (!best)
		return 0;
	seen = &search->row_of[best - search->best];
	error = find_row(search, id);
	if (error)
		return error;
	name = pfw_index_text(&search->row, &bytes);
	to = pfw_summary_file_row(&search->found, name, bytes);
	if (to < 0)
		return (int)to;
	/* Two names of one hash: the sums tell nothing. */
	if (!to || (*seen && *seen != to))
		return -E2BIG;
	*seen = (uint32_t)to;
	return pfw_index_take_file(&search->found.file[to], &search->row);
}

/* A row with the greatest first; of equal ones the first by name.  To have moved nothing is more than
 * to have moved data never; without any call a file is none of these. */
static int by_rank(const void *a, const void *b, void *order)
{
	const struct pfw_summary_file *x = a, *y = b;
	uint64_t m = value_of(x, *(const enum pfw_index_order *)order);
	uint64_t n = value_of(y, *(const enum pfw_index_order *)order);
	uint32_t bytes = x->name_bytes < y->name_bytes ? x->name_bytes : y->name_bytes;
	int differ;

	if (m != n)
		return m > n ? -1 : 1;
	if (!calls_of(x) != !calls_of(y))
		return calls_of(x) ? -1 : 1;
	if (*(const enum pfw_index_order *)order == PFW_INDEX_BY_BYTES &&
	    !x->transfers != !y->transfers)
		return x->transfers ? -1 : 1;
	differ = memcmp(x->name, y->name, bytes);
	return differ ? differ : x->name_bytes < y->name_bytes ? -1 : 1;
}

/* Put the `limit` greatest of these rows into *into, in order. */
static int put_best(struct pfw_summary *from, enum pfw_index_order order, size_t limit,
		    struct pfw_summary *into)
{
	/* What finds rows by name no longer does; nobody looks any more. */
	qsort_r(from->file + 1, from->files - 1, sizeof(*from->file), by_rank, &order);
	for (uint32_t i = 1; i < from->files && i <= limit; i++) {
		const struct pfw_summary_file *file = &from->file[i];
		int64_t row = pfw_summary_file_row(into, file->name, file->name_bytes);
		const char *name;

		if (row < 0)
			return (int)row;
		name = into->file[row].name;
		into->file[row] = *file;
		into->file[row].name = name;
	}
	return 0;
}

/* Rows 0 of all of them, which are no files. */
static int add_others(struct pfw_index *const *index, size_t count, struct pfw_summary *into)
{
	struct pfw_index_row row;
	size_t bytes;
	int error = 0;

	for (size_t i = 0; !error && i < count; i++) {
		error = pfw_index_query(index[i], &row,
					"SELECT " PFW_INDEX_FILE_COLUMNS " FROM file WHERE id = 0");
		if (!error && pfw_index_next(&row) == 1) {
			pfw_index_text(&row, &bytes);
			error = pfw_index_take_file(&into->file[0], &row);
		}
		sqlite3_finalize(row.statement);
	}
	return error;
}

static int top_by_sums(struct search *search, struct pfw_summary *into)
{
	int error = pfw_summary_init(&search->found);

	error = error ? error : find_best(search);
	if (!error && search->bests) {
		qsort(search->best, search->bests, sizeof(*search->best), by_hash);
		search->row_of = calloc(search->bests, sizeof(*search->row_of));
		error = search->row_of ? each_sum(search, add_row) : -ENOMEM;
	}
	error = error ? error : put_best(&search->found, search->order, search->limit, into);
	sqlite3_finalize(search->row.statement);
	free(search->slot);
	free(search->best);
	free(search->row_of);
	pfw_summary_release(&search->found);
	return error;
}

static void add_all(struct pfw_index_top *top, const struct pfw_summary_file *file)
{
	add(&top->bytes, value_of(file, PFW_INDEX_BY_BYTES));
	add(&top->ns, value_of(file, PFW_INDEX_BY_NS));
	add(&top->calls, calls_of(file));
}

/* The long way, where sums could not tell. */
static int top_of_all(const struct search *search, struct pfw_index_top *top,
		      struct pfw_summary *into)
{
	struct pfw_summary all;
	int error = pfw_summary_init(&all);

	top->bytes = top->ns = top->calls = 0;

	for (size_t i = 0; !error && i < search->count; i++)
		error = pfw_index_totals(search->index[i], PFW_INDEX_FILES, &all);
	/* More than one summary holds: some were added up in row 0. */
	if (!error && all.file[0].lines)
		error = -E2BIG;
	for (uint32_t i = 1; !error && i < all.files; i++)
		add_all(top, &all.file[i]);
	error = error ? error : put_best(&all, search->order, top->limit, into);
	pfw_summary_release(&all);
	return error;
}

int pfw_index_top_files(struct pfw_index *const *index, size_t count, struct pfw_index_top *top,
			struct pfw_summary *into)
{
	struct search search = {
		.index = index, .count = count, .order = top->order, .limit = top->limit, .top = top
	};
	int error;

	top->bytes = top->ns = top->calls = 0;
	error = top_by_sums(&search, into);
	if (error == -E2BIG)
		error = top_of_all(&search, top, into);
	error = error ? error : add_others(index, count, into);
	if (!error)
		add_all(top, &into->file[0]);
	return error;
}
