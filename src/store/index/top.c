/* store/index/top.c - the files with the most bytes, time or calls of several indexes; see index.h.
 *
 * It reads the sums of all files (17 bytes each), adds those of equal name hashes, and reads full
 * rows with names only for the greatest.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/order.h"
#include "store/index/index.h"
#include "store/index/internal.h"
#include "store/kit/saturate.h"

/* Files per pass; more files take several passes, each over a part of the hashes. */
#define PART_FILES (1u << 20)
/* Candidates with the last value, among which names decide. */
#define TIES_MAX 256u

/* A file by its name's hash. */
struct sum {
	uint64_t hash, value;
};

/* Phase 1: the sums of a part of the hashes: those with the upper bits `part`. */
struct table {
	unsigned part, part_bits;
	struct sum *slot; /* open addressing; value 0: empty */
	uint64_t mask, used;
};

/* Phase 2: the greatest sums of all parts so far. */
struct best {
	struct sum *sum; /* room for 2 * kept */
	size_t count, kept;
	uint64_t zeros; /* files with value 0, which have no slot */
};

/* Phase 3: the rows of the greatest, added by name. */
struct rows {
	uint32_t *of; /* rows of `found`, parallel to best.sum[]; 0: not seen */
	struct pfw_summary found;
	struct pfw_index_row row; /* of the index that each_sum() reads */
	bool reading;		  /* there is one */
};

struct search {
	struct pfw_indexes *indexes;
	enum pfw_index_order order;
	size_t limit;
	uint64_t files;		   /* in all indexes; a name counts once per index */
	struct pfw_index_top *top; /* the totals of all files */
	struct pfw_index *reading; /* the index whose sums each_sum() reads */
	struct table table;
	struct best best;
	struct rows rows;
};

static struct pfw_blob_sums sums_of(const struct pfw_summary_file *file)
{
	return (struct pfw_blob_sums){
		.bytes = pfw_summary_file_bytes(file),
		.ns = pfw_summary_file_ns(file),
		.calls = pfw_summary_file_calls(file),
	};
}

static uint64_t value_of(const struct pfw_blob_sums *sums, enum pfw_index_order order)
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

static void add_total(struct pfw_index_top *top, const struct pfw_blob_sums *sums)
{
	pfw_saturate_u64(&top->bytes, sums->bytes);
	pfw_saturate_u64(&top->ns, sums->ns);
	pfw_saturate_u64(&top->calls, sums->calls);
}

/* ---- the sums of all files ---- */

/* Sums that are decoded together, so that their slots can be prefetched. */
#define BATCH 16u

/* Call take() for each file of a blob except row 0. 0 or the first error. */
static int each_of_blob(struct search *search, struct pfw_blob_reader reader, uint32_t *next,
			int (*take)(struct search *search, const struct pfw_blob_sums *sums,
				    uint32_t id))
{
	struct pfw_blob_sums sums[BATCH];
	int result = 1, error = 0;

	while (!error && result > 0) {
		unsigned count = 0;

		while (count < BATCH && (result = pfw_blob_next_sums(&reader, &sums[count])) > 0) {
			if (search->table.slot)
				__builtin_prefetch(
					&search->table.slot[sums[count].hash & search->table.mask],
					1);
			count++;
		}
		for (unsigned i = 0; !error && i < count; i++, ++*next)
			error = *next ? take(search, &sums[i], *next) : 0;
	}
	return error ? error : result;
}

/* Its index may be closed from here on. */
static void forget_row(struct rows *rows)
{
	if (rows->reading)
		pfw_index_done(&rows->row);
	rows->reading = false;
}

/* The same for each file of all indexes. */
static int each_sum(struct search *search,
		    int (*take)(struct search *search, const struct pfw_blob_sums *sums,
				uint32_t id))
{
	int result = 0, error = 0;

	for (size_t i = 0; !error && i < search->indexes->count; i++) {
		struct pfw_index_row row;
		uint32_t next = 0;

		error = pfw_indexes_get(search->indexes, i, &search->reading);
		if (error)
			break;
		error = pfw_index_query(search->reading, &row, PFW_TABLE_FILE_SUMS, INT64_MIN);
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
		pfw_index_done(&row);
		forget_row(&search->rows);
		error = error ? error : result;
	}
	return error;
}

/* Count the files of an index, and add its row 0: lines without a file. */
static int count_files(struct search *search, struct pfw_index *index, struct pfw_summary *into)
{
	struct pfw_index_row row;
	int64_t files = 0;
	size_t bytes;
	int error = pfw_index_query(index, &row, PFW_TABLE_FILE, 0);

	error = error ? error : pfw_index_find(&row, 0) == 1 ? 0 : -EBADMSG;
	if (!error) {
		pfw_index_skip(&row, 1); /* id */
		pfw_index_text(&row, &bytes);
		error = pfw_index_take_file(&into->file[0], &row);
	}
	if (!error && pfw_sqlite_last(&row.rows, &files) != 1)
		error = -EBADMSG;
	/* No writer stores more, and memory is allocated by this number. */
	if (!error && (row.bad || files < 0 || files > PFW_SUMMARY_FILES_MAX))
		error = -EBADMSG;
	search->files += error ? 0 : (uint64_t)files;
	pfw_index_done(&row);
	return error;
}

static int count_all(struct search *search, struct pfw_summary *into)
{
	int error = 0;

	for (size_t i = 0; !error && i < search->indexes->count; i++) {
		struct pfw_index *index;

		error = pfw_indexes_get(search->indexes, i, &index);
		error = error ? error : count_files(search, index, into);
	}
	return error;
}

static int add_sum(struct search *search, const struct pfw_blob_sums *sums, uint32_t id)
{
	uint64_t at = sums->hash, value = value_of(sums, search->order);
	struct sum *sum;

	(void)id;
	if (!search->table.part) {
		add_total(search->top, sums);
		search->best.zeros += !value;
	}
	if (!value || (search->table.part_bits &&
		       sums->hash >> (64 - search->table.part_bits) != search->table.part))
		return 0;
	for (;; at++) {
		sum = &search->table.slot[at & search->table.mask];
		if (!sum->value || sum->hash == sums->hash)
			break;
	}
	/*
	 * The table has room for an average part; hashes of a hostile index may all fall into one.
	 */
	search->table.used += !sum->value;
	if (search->table.used > search->table.mask / 8 * 7)
		return -E2BIG;
	sum->hash = sums->hash;
	pfw_saturate_u64(&sum->value, value);
	return 0;
}

/* ---- the greatest ---- */

static int by_hash(const void *a, const void *b)
{
	const struct sum *x = a, *y = b;

	return x->hash < y->hash ? -1 : x->hash > y->hash;
}

static int by_value(const void *a, const void *b)
{
	const struct sum *x = a, *y = b;

	return PFW_ORDER(y->value, x->value) ?: by_hash(a, b);
}

/* Keep the greatest of `best` and of the table, sorted. */
static void take_best(struct best *best, const struct table *table)
{
	uint64_t least = 0;

	for (uint64_t i = 0; i <= table->mask; i++) {
		const struct sum *sum = &table->slot[i];

		if (!sum->value || sum->value < least)
			continue;
		best->sum[best->count++] = *sum;
		if (best->count < 2 * best->kept)
			continue;
		qsort(best->sum, best->count, sizeof(*best->sum), by_value);
		best->count = best->kept;
		least = best->sum[best->kept - 1].value;
	}
	qsort(best->sum, best->count, sizeof(*best->sum), by_value);
	if (best->count > best->kept)
		best->count = best->kept;
}

/*
 * Keep sums that may be among the first `limit` by value and name. 0, or -E2BIG if sums do not
 * suffice because names decide: too many files have the last value, or files of value 0 are
 * requested.
 */
static int drop_lesser(const struct search *search, struct best *best)
{
	uint64_t least;

	if (best->count < search->limit)
		return best->zeros ? -E2BIG : 0;
	least = search->limit ? best->sum[search->limit - 1].value : UINT64_MAX;
	if (best->count == best->kept && best->sum[best->count - 1].value == least)
		return -E2BIG;
	while (best->count && best->sum[best->count - 1].value < least)
		best->count--;
	return 0;
}

/* Find the hashes of the greatest, part by part. */
static int find_best(struct search *search)
{
	struct table *table = &search->table;
	struct best *best = &search->best;
	int error = 0;

	if (search->limit > search->files)
		search->limit = search->files;
	if (!search->files)
		return 0;
	best->kept = search->limit + TIES_MAX;
	while (search->files >> table->part_bits > PART_FILES)
		table->part_bits++;
	for (table->mask = 1023; table->mask / 4 * 3 < search->files >> table->part_bits;)
		table->mask = table->mask * 2 + 1;
	table->slot = malloc((table->mask + 1) * sizeof(*table->slot));
	best->sum = malloc(2 * best->kept * sizeof(*best->sum));
	if (!table->slot || !best->sum)
		return -ENOMEM;
	for (; !error && table->part < 1u << table->part_bits; table->part++) {
		memset(table->slot, 0, (table->mask + 1) * sizeof(*table->slot));
		table->used = 0;
		error = each_sum(search, add_sum);
		take_best(best, table);
	}
	return error ? error : drop_lesser(search, best);
}

/* ---- their rows ---- */

/* Read a file's row from the index that each_sum() reads. */
static int find_row(struct search *search, uint32_t id)
{
	struct rows *rows = &search->rows;
	int error = 0;

	if (!rows->reading)
		error = pfw_index_query(search->reading, &rows->row, PFW_TABLE_FILE, id);
	rows->reading = true;
	if (!error && pfw_index_find(&rows->row, id) != 1)
		error = -EBADMSG;
	if (!error)
		pfw_index_skip(&rows->row, 1); /* id */
	return error;
}

/* If a file is one of the greatest, add its row to that of its name. */
static int add_row(struct search *search, const struct pfw_blob_sums *sums, uint32_t id)
{
	struct sum *best =
		bsearch(sums, search->best.sum, search->best.count, sizeof(*best), by_hash);
	const char *name;
	uint32_t *seen;
	size_t bytes;
	int64_t to;
	int error;

	if (!best)
		return 0;
	seen = &search->rows.of[best - search->best.sum];
	error = find_row(search, id);
	if (error)
		return error;
	name = pfw_index_text(&search->rows.row, &bytes);
	to = pfw_summary_file_row(&search->rows.found, name, bytes);
	if (to < 0)
		return (int)to;
	/* A hash collision of two names: their sums are useless. */
	if (!to || (*seen && *seen != to))
		return -E2BIG;
	*seen = (uint32_t)to;
	return pfw_index_take_file(&search->rows.found.file[to], &search->rows.row);
}

/* Greatest first.  Ties: files without calls are last; by bytes, files with transfers of 0 bytes
 * precede files without transfers; then by name. */
static int by_rank(const void *a, const void *b, void *user)
{
	const struct pfw_summary_file *x = a, *y = b;
	enum pfw_index_order order = *(const enum pfw_index_order *)user;
	struct pfw_blob_sums of_x = sums_of(x), of_y = sums_of(y);
	uint64_t m = value_of(&of_x, order), n = value_of(&of_y, order);
	uint32_t bytes = x->name_bytes < y->name_bytes ? x->name_bytes : y->name_bytes;
	int differ;

	if (m != n)
		return m > n ? -1 : 1;
	if (!of_x.calls != !of_y.calls)
		return of_x.calls ? -1 : 1;
	if (order == PFW_INDEX_BY_BYTES && !x->transfers != !y->transfers)
		return x->transfers ? -1 : 1;
	differ = memcmp(x->name, y->name, bytes);
	return differ ? differ : x->name_bytes < y->name_bytes ? -1 : 1;
}

/* Append the first `limit` rows in this order to *into. */
static int put_best(struct pfw_summary *from, enum pfw_index_order order, size_t limit,
		    struct pfw_summary *into)
{
	/* Sorting breaks lookups by name, which are over. */
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

/* Find the greatest by sums. 0 or -errno; -E2BIG: use top_of_all(). */
static int top_by_sums(struct search *search, struct pfw_summary *into)
{
	int error = pfw_summary_init(&search->rows.found);

	error = error ? error : find_best(search);
	if (!error && search->best.count) {
		qsort(search->best.sum, search->best.count, sizeof(*search->best.sum), by_hash);
		search->rows.of = calloc(search->best.count, sizeof(*search->rows.of));
		error = search->rows.of ? each_sum(search, add_row) : -ENOMEM;
	}
	error = error ? error : put_best(&search->rows.found, search->order, search->limit, into);
	free(search->table.slot);
	free(search->best.sum);
	free(search->rows.of);
	pfw_summary_release(&search->rows.found);
	return error;
}

static void add_file(struct pfw_index_top *top, const struct pfw_summary_file *file)
{
	struct pfw_blob_sums sums = sums_of(file);

	add_total(top, &sums);
}

/* Find the greatest by adding all rows of all files. */
static int top_of_all(const struct search *search, struct pfw_index_top *top,
		      struct pfw_summary *into)
{
	struct pfw_summary all;
	int error = pfw_summary_init(&all);

	top->bytes = top->ns = top->calls = 0;

	for (size_t i = 0; !error && i < search->indexes->count; i++) {
		struct pfw_index *index;

		error = pfw_indexes_get(search->indexes, i, &index);
		error = error ? error : pfw_index_totals(index, PFW_INDEX_FILES, &all);
	}
	/* Too many for a summary: some were added to row 0. */
	if (!error && all.file[0].lines)
		error = -E2BIG;
	for (uint32_t i = 1; !error && i < all.files; i++)
		add_file(top, &all.file[i]);
	error = error ? error : put_best(&all, search->order, top->limit, into);
	pfw_summary_release(&all);
	return error;
}

int pfw_index_top_files(struct pfw_indexes *indexes, struct pfw_index_top *top,
			struct pfw_summary *into)
{
	struct search search = {
		.indexes = indexes, .order = top->order, .limit = top->limit, .top = top
	};
	int error = count_all(&search, into);

	top->bytes = top->ns = top->calls = 0;
	if (!error)
		error = top_by_sums(&search, into);
	if (error == -E2BIG)
		error = top_of_all(&search, top, into);
	if (!error)
		add_file(top, &into->file[0]);
	return error;
}
