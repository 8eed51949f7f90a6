/* sketch.c - quantiles of durations, to 1 %, in bounded memory; see sketch.h. */
#include "sketch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "varint.h"

/* Cells by which a window grows: a few octaves come soon, and most names need no more. */
#define STEP 32u

int pfw_sketch_reach(struct pfw_sketch *sketch, uint32_t bucket)
{
	uint32_t low = bucket / STEP * STEP, high = low + STEP;
	uint32_t before = 0;
	uint64_t *count = sketch->count;

	if (sketch->room) {
		low = low < sketch->first ? low : sketch->first;
		before = sketch->first - low;
		if (high < sketch->first + sketch->room)
			high = sketch->first + sketch->room;
	}
	if (high - low > sketch->capacity) {
		count = realloc(count, (high - low) * sizeof(*count));
		if (!count)
			return -ENOMEM;
		sketch->count = count;
		sketch->capacity = high - low;
	}
	if (before)
		memmove(count + before, count, sketch->room * sizeof(*count));
	memset(count, 0, before * sizeof(*count));
	memset(count + before + sketch->room, 0,
	       (high - low - before - sketch->room) * sizeof(*count));
	sketch->first = low;
	sketch->room = high - low;
	return 0;
}

/* The window without the empty cells at its ends: count[*begin] to count[*end - 1]. */
static void used(const struct pfw_sketch *sketch, uint32_t *begin, uint32_t *end)
{
	*begin = 0;
	*end = sketch->room;
	while (*begin < *end && !sketch->count[*begin])
		++*begin;
	while (*begin < *end && !sketch->count[*end - 1])
		--*end;
}

int pfw_sketch_merge(struct pfw_sketch *into, const struct pfw_sketch *from, bool widen)
{
	uint32_t begin, end, last;

	used(from, &begin, &end);
	if (begin == end)
		return 0;
	if (!into->room && pfw_sketch_reach(into, from->first + begin))
		return -ENOMEM;
	if (widen &&
	    ((from->first + begin < into->first && pfw_sketch_reach(into, from->first + begin)) ||
	     (from->first + end > into->first + into->room &&
	      pfw_sketch_reach(into, from->first + end - 1))))
		return -ENOMEM;
	last = into->room - 1;
	for (uint32_t i = begin; i < end; i++) {
		uint32_t bucket = from->first + i;
		uint32_t cell = bucket > into->first ? bucket - into->first : 0;

		into->count[cell < last ? cell : last] += from->count[i];
	}
	into->total += from->total;
	return 0;
}

/* The least duration of that bucket or of one above it. */
static int64_t least_of(uint32_t bucket)
{
	uint64_t low = 1, high = INT64_MAX;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (pfw_sketch_bucket((int64_t)middle) >= bucket)
			high = middle;
		else
			low = middle + 1;
	}
	return (int64_t)low;
}

/* What stands for all durations of a bucket: at most 1 % from each of them. */
static int64_t middle_of(uint32_t bucket)
{
	double low, high;

	if (bucket == 0)
		return 0;
	low = (double)least_of(bucket);
	high = bucket + 1 < PFW_SKETCH_BUCKETS ? (double)(least_of(bucket + 1) - 1) : 0x1p63;
	low = 2 * low * high / (low + high) + .5;
	return low < 0x1p63 ? (int64_t)low : INT64_MAX;
}

int64_t pfw_sketch_quantile(const struct pfw_sketch *sketch, double quantile)
{
	uint64_t rank, below = 0;

	if (!sketch->total)
		return 0;
	rank = quantile > 0 ? (uint64_t)(quantile * (double)(sketch->total - 1)) : 0;
	if (rank > sketch->total - 1)
		rank = sketch->total - 1;
	for (uint32_t i = 0; i < sketch->room; i++) {
		below += sketch->count[i];
		if (below > rank)
			return middle_of(sketch->first + i);
	}
	return 0;
}

/* For each bucket that is not empty: how many are between it and the last one, twice, and 1 more
 * where its count does not follow because it is 1. */
size_t pfw_sketch_encode(const struct pfw_sketch *sketch, uint8_t *out)
{
	uint32_t next = 0;
	uint8_t *at = out;

	for (uint32_t i = 0; i < sketch->room; i++) {
		uint64_t count = sketch->count[i];

		if (!count)
			continue;
		at = pfw_varint_put(at, (uint64_t)(sketch->first + i - next) << 1 | (count == 1));
		if (count != 1)
			at = pfw_varint_put(at, count);
		next = sketch->first + i + 1;
	}
	return (size_t)(at - out);
}

/* Read the next bucket and its count; false: they cannot have been written. */
static bool read_bucket(const uint8_t **at, const uint8_t *end, uint32_t *bucket, uint64_t *count)
{
	uint64_t step;

	*count = 1;
	if (!pfw_varint_get(at, end, &step) || step >> 1 >= PFW_SKETCH_BUCKETS - *bucket)
		return false;
	*bucket += (uint32_t)(step >> 1);
	return step & 1 || (pfw_varint_get(at, end, count) && *count > 1);
}

int pfw_sketch_decode(struct pfw_sketch *sketch, const uint8_t *data, size_t bytes)
{
	const uint8_t *at = data, *end = data + bytes;
	uint64_t count, total = sketch->total;
	uint32_t bucket = 0;

	/* First look whether all of it is right, and make room for it. */
	for (; at < end; bucket++) {
		if (!read_bucket(&at, end, &bucket, &count) ||
		    __builtin_add_overflow(total, count, &total))
			return -EBADMSG;
		if (bucket - sketch->first >= sketch->room && pfw_sketch_reach(sketch, bucket))
			return -ENOMEM;
	}
	for (at = data, bucket = 0; at < end; bucket++) {
		read_bucket(&at, end, &bucket, &count);
		sketch->count[bucket - sketch->first] += count;
	}
	sketch->total = total;
	return 0;
}

void pfw_sketch_clear(struct pfw_sketch *sketch)
{
	sketch->total = 0;
	sketch->first = sketch->room = 0;
}

void pfw_sketch_release(struct pfw_sketch *sketch)
{
	free(sketch->count);
	*sketch = (struct pfw_sketch){ 0 };
}
