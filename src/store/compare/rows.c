/* store/compare/rows.c - adds calls to the rows of a comparison; see rows.h. */
#include "store/compare/rows.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/order.h"
#include "store/kit/grow.h"
#include "store/line/io.h"

/* Calls in the samples of all rows: 32 MiB. */
#define SAMPLES_MAX (1u << 21)
/* Smaller samples are of no use. */
#define SAMPLED_MIN 128u

uint32_t pfw_compare_most(size_t rows)
{
	uint32_t most = PFW_SAMPLED_MAX;

	while (most >= SAMPLED_MIN && rows > SAMPLES_MAX / most)
		most /= 2;
	return most >= SAMPLED_MIN ? most : 0;
}

int64_t pfw_compare_row_of(struct pfw_compare_rows *rows, const char *key, size_t bytes)
{
	uint32_t count = rows->keys.count;
	int64_t number = pfw_text_ids_of(&rows->keys, 0, key, bytes);

	if (number < count)
		return number;
	if (PFW_REACH(rows->row, (size_t)number, rows->room))
		return -ENOMEM;
	rows->most = pfw_compare_most((size_t)number + 1);
	for (uint32_t i = 0; i < count && rows->most < pfw_compare_most((size_t)number); i++)
		pfw_sampled_limit(&rows->row[i].sampled, rows->most);
	return number;
}

enum pfw_compare_kind pfw_compare_kind_of(const struct pfw_entry *entry,
					  const struct pfw_slice *cat)
{
	static const char *const gpu[] = { "kernel", "memcpy", "memset", "runtime",
					   "driver", "sync",   NULL };
	struct pfw_value kind;

	if (pfw_is_io(cat))
		return PFW_COMPARE_IO;
	if (!pfw_slice_is(cat, "PP") || !pfw_entry_arg(entry, "kind", &kind))
		return PFW_COMPARE_OTHER;
	if (pfw_slice_is(&kind.text, "cpu_op"))
		return PFW_COMPARE_OPERATOR;
	if (pfw_slice_is(&kind.text, "memory"))
		return PFW_COMPARE_MEMORY;
	for (const char *const *name = gpu; *name; name++) {
		if (pfw_slice_is(&kind.text, *name))
			return PFW_COMPARE_GPU;
	}
	return PFW_COMPARE_OTHER;
}

void pfw_compare_add_sums(struct pfw_compare_sums *into, const struct pfw_compare_sums *from)
{
	if (from->samples && (!into->samples || from->first_ns < into->first_ns))
		into->first_ns = from->first_ns;
	if (from->samples && (!into->samples || from->last_ns > into->last_ns))
		into->last_ns = from->last_ns;
	pfw_saturate_u64(&into->count, from->count);
	pfw_saturate_sum(&into->total_ns, from->total_ns);
	into->samples += from->samples;
	into->log_sum += from->log_sum;
	into->kinds |= from->kinds;
}

int pfw_compare_add(struct pfw_compare_rows *rows, int64_t number, enum pfw_compare_kind kind,
		    const struct pfw_compare_call *call, size_t count)
{
	struct pfw_compare_row *row = &rows->row[number];
	struct pfw_compare_sums sums = { .first_ns = INT64_MAX, .last_ns = INT64_MIN };
	struct pfw_sample *sample;
	int64_t log_sum = 0;

	if (pfw_sampled_reserve(&row->sampled, count))
		return -ENOMEM;
	sample = row->sampled.sample + row->sampled.count;
	for (const struct pfw_compare_call *end = call + count; call < end; call++) {
		unsigned level = pfw_sample_level((uint64_t)call->ts_ns, call->who);
		int64_t dur_ns = call->dur_ns, unused;

		if (call->ts_ns == INT64_MIN ||
		    __builtin_add_overflow(call->ts_ns, dur_ns, &unused))
			continue;
		PFW_LOWER(sums.first_ns, call->ts_ns);
		PFW_RAISE(sums.last_ns, call->ts_ns);
		pfw_saturate_sum(&sums.total_ns, dur_ns);
		sums.count++;
		log_sum += pfw_log_ns(dur_ns);
		dur_ns = dur_ns < PFW_SAMPLE_NS_MAX ? dur_ns : PFW_SAMPLE_NS_MAX;
		*sample = pfw_sample_of(call->ts_ns, level, (uint64_t)dur_ns);
		sample += level >= row->sampled.level;
	}
	row->sampled.count = (uint32_t)(sample - row->sampled.sample);
	pfw_sampled_limit(&row->sampled, rows->most);
	sums.log_sum = log_sum; /* each is below 2^38 */
	sums.samples = sums.count;
	sums.kinds = sums.count ? 1u << kind : 0;
	pfw_compare_add_sums(&row->sums, &sums);
	return 0;
}

void pfw_compare_add_summed(struct pfw_compare_rows *rows, int64_t number,
			    const struct pfw_table_line *line)
{
	const struct pfw_compare_sums sums = { .count = line->calls,
					       .total_ns = line->dur_ns,
					       .kinds = 1u << PFW_COMPARE_IO };

	pfw_compare_add_sums(&rows->row[number].sums, &sums);
}

void pfw_compare_rows_clear(struct pfw_compare_rows *rows)
{
	for (uint32_t i = 0; i < rows->keys.count; i++) {
		rows->row[i].sums = (struct pfw_compare_sums){ 0 };
		rows->row[i].sampled.count = rows->row[i].sampled.level = 0;
	}
	pfw_text_ids_clear(&rows->keys);
}

void pfw_compare_rows_release(struct pfw_compare_rows *rows)
{
	for (size_t i = 0; i < rows->room; i++)
		pfw_sampled_release(&rows->row[i].sampled);
	free(rows->row);
	pfw_text_ids_release(&rows->keys);
	*rows = (struct pfw_compare_rows){ 0 };
}
