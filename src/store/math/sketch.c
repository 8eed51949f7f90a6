/* store/math/sketch.c - quantile sketches of durations; see sketch.h. */
#include "store/math/sketch.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/varint.h"

/* Cells by which a window grows: most names need only a few octaves. */
#define STEP 32u

/* Widen the window to include this bucket.  Return 0 or -ENOMEM. */
static int reach(struct pfw_sketch *sketch, uint32_t bucket)
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

/* ---- few durations ---- */

#define INSERT_MAX 32u

static bool is_few(const struct pfw_sketch *sketch)
{
	return !sketch->room;
}

/* Count a duration in its bucket, or without `widen` in the nearest one of the window. */
static int count_in(struct pfw_sketch *sketch, uint64_t ns, bool widen)
{
	uint32_t bucket = pfw_sketch_bucket((int64_t)ns), last;

	if (bucket - sketch->first >= sketch->room && (widen || !sketch->room) &&
	    reach(sketch, bucket))
		return -ENOMEM;
	last = sketch->first + sketch->room - 1;
	bucket = bucket < sketch->first ? sketch->first : bucket < last ? bucket : last;
	sketch->count[bucket - sketch->first]++;
	return 0;
}

/* Replace the durations by their buckets. */
static int make_buckets(struct pfw_sketch *sketch, bool widen)
{
	uint64_t ns[PFW_SKETCH_FEW];
	int error = 0;

	memcpy(ns, sketch->count, sketch->total * sizeof(*ns));
	sketch->unsorted = false;
	for (uint64_t i = 0; i < sketch->total && !error; i++)
		error = count_in(sketch, ns[i], widen);
	return error;
}

/* Sort by the byte at `shift`; equal ones stay in order. */
static void sort_by_byte(uint64_t *into, const uint64_t *ns, uint64_t total, unsigned shift)
{
	uint16_t end[257] = { 0 };

	for (uint64_t i = 0; i < total; i++)
		end[(ns[i] >> shift & 255) + 1]++;
	for (unsigned i = 1; i < 256; i++)
		end[i] = (uint16_t)(end[i] + end[i - 1]);
	for (uint64_t i = 0; i < total; i++)
		into[end[ns[i] >> shift & 255]++] = ns[i];
}

/* Sort the durations: few by insertion, others byte by byte, which has no branch that cannot be
 * predicted.  The sketch stays the same one. */
static void sort_few(const struct pfw_sketch *sketch)
{
	uint64_t spare[PFW_SKETCH_FEW], *ns = sketch->count, *from = ns, any = 0;

	if (!sketch->unsorted)
		return;
	((struct pfw_sketch *)sketch)->unsorted = false;
	for (uint64_t i = 0; i < sketch->total; i++)
		any |= ns[i];
	for (unsigned shift = 0; sketch->total > INSERT_MAX && shift < 64 && any >> shift;
	     shift += 8) {
		uint64_t *into = from == ns ? spare : ns;

		sort_by_byte(into, from, sketch->total, shift);
		from = into;
	}
	if (from == spare)
		memcpy(ns, spare, sketch->total * sizeof(*ns));
	for (size_t i = 1; i < sketch->total && sketch->total <= INSERT_MAX; i++) {
		uint64_t one = ns[i];
		size_t at = i;

		for (; at && ns[at - 1] > one; at--)
			ns[at] = ns[at - 1];
		ns[at] = one;
	}
}

/* Keep a duration, if there may be one more.  1; 0: there may not; -ENOMEM. */
static int keep(struct pfw_sketch *sketch, uint64_t ns, bool widen)
{
	if (sketch->total == sketch->capacity) {
		uint32_t room = sketch->capacity ? 2 * sketch->capacity : STEP;
		uint64_t *more;

		if (sketch->capacity && !widen)
			return 0;
		more = realloc(sketch->count, room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		sketch->count = more;
		sketch->capacity = room;
	}
	sketch->unsorted |= sketch->total && ns < sketch->count[sketch->total - 1];
	sketch->count[sketch->total++] = ns;
	return 1;
}

static int add(struct pfw_sketch *sketch, int64_t ns, bool widen)
{
	uint64_t duration = ns > 0 ? (uint64_t)ns : 0;
	int error = 0, kept;

	if (is_few(sketch) && sketch->total < PFW_SKETCH_FEW) {
		kept = keep(sketch, duration, widen);
		if (kept)
			return kept < 0 ? kept : 0;
	}
	if (is_few(sketch))
		error = make_buckets(sketch, widen);
	if (!error)
		error = count_in(sketch, duration, widen);
	sketch->total += !error;
	return error;
}

int pfw_sketch_add_outside(struct pfw_sketch *sketch, int64_t ns)
{
	return add(sketch, ns, true);
}

/* ---- all ---- */

/* Trim empty cells at both ends: the rest is count[*begin] to count[*end - 1]. */
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

	for (uint64_t i = 0; i < from->total && is_few(from); i++) {
		int64_t ns = (int64_t)from->count[i];

		if (widen ? pfw_sketch_add(into, ns) : add(into, ns, false))
			return -ENOMEM;
	}
	used(from, &begin, &end);
	if (begin == end)
		return 0;
	if (is_few(into) && into->total && make_buckets(into, widen))
		return -ENOMEM;
	if (!into->room && reach(into, from->first + begin))
		return -ENOMEM;
	if (widen &&
	    ((from->first + begin < into->first && reach(into, from->first + begin)) ||
	     (from->first + end > into->first + into->room && reach(into, from->first + end - 1))))
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

/* The least duration of this bucket, or of the next one that has any. */
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

/* The duration that represents a bucket, at most 1 % from each duration in it. */
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
	double at = quantile * (double)sketch->total;

	if (!sketch->total)
		return 0;
	/* 0.07 * 100 is a little more than 7. */
	at = ceil(at - 1e-6);
	rank = at > 1 ? (uint64_t)at - 1 : 0;
	if (rank > sketch->total - 1)
		rank = sketch->total - 1;
	sort_few(sketch);
	if (is_few(sketch))
		return (int64_t)sketch->count[rank];
	for (uint32_t i = 0; i < sketch->room; i++) {
		below += sketch->count[i];
		if (below > rank)
			return middle_of(sketch->first + i);
	}
	return 0;
}

/* ---- the written form ---- */

static uint8_t *put_bucket(uint8_t *at, uint32_t step, uint64_t count)
{
	at = pfw_varint_put(at, (uint64_t)step << 1 | (count == 1));
	return count != 1 ? pfw_varint_put(at, count) : at;
}

/* Put the buckets of few durations: counting them is faster than sorting. */
static uint8_t *put_few(uint8_t *at, const struct pfw_sketch *sketch)
{
	uint16_t count[PFW_SKETCH_BUCKETS], bucket[PFW_SKETCH_FEW];
	uint32_t low = PFW_SKETCH_BUCKETS - 1, high = 0, next = 0;

	for (uint64_t i = 0; i < sketch->total; i++) {
		bucket[i] = (uint16_t)pfw_sketch_bucket((int64_t)sketch->count[i]);
		low = bucket[i] < low ? bucket[i] : low;
		high = bucket[i] > high ? bucket[i] : high;
	}
	for (uint32_t i = low; i <= high; i++)
		count[i] = 0;
	for (uint64_t i = 0; i < sketch->total; i++)
		count[bucket[i]]++;
	for (uint32_t i = low; i <= high; i++) {
		if (!count[i])
			continue;
		at = put_bucket(at, i - next, count[i]);
		next = i + 1;
	}
	return at;
}

/* Of a block: names that are rare stay exact when the blocks of an interval are added up. */
#define FEW_OF_BLOCK 8u

/* 0, then for each bucket that is not empty: 2 * (buckets skipped since the previous one), plus 1 if
 * its count is 1; otherwise its count follows. */
static size_t encode_buckets(const struct pfw_sketch *sketch, uint8_t *out)
{
	uint8_t *at = out;
	uint32_t next = 0;

	if (sketch->total)
		at = pfw_varint_put(at, 0);
	if (sketch->total && is_few(sketch))
		at = put_few(at, sketch);
	for (uint32_t i = 0; i < sketch->room; i++) {
		if (!sketch->count[i])
			continue;
		at = put_bucket(at, sketch->first + i - next, sketch->count[i]);
		next = sketch->first + i + 1;
	}
	return (size_t)(at - out);
}

/* The number of durations, then each minus the one before. */
size_t pfw_sketch_encode(const struct pfw_sketch *sketch, uint8_t *out)
{
	uint8_t *at = out;

	if (!sketch->total || !is_few(sketch))
		return encode_buckets(sketch, out);
	sort_few(sketch);
	at = pfw_varint_put(at, sketch->total);
	for (uint64_t i = 0; i < sketch->total; i++)
		at = pfw_varint_put(at, sketch->count[i] - (i ? sketch->count[i - 1] : 0));
	return (size_t)(at - out);
}

size_t pfw_sketch_encode_block(const struct pfw_sketch *sketch, uint8_t *out)
{
	return sketch->total <= FEW_OF_BLOCK ? pfw_sketch_encode(sketch, out)
					     : encode_buckets(sketch, out);
}

/* Read the next bucket and its count; false: invalid. */
static bool read_bucket(const uint8_t **at, const uint8_t *end, uint32_t *bucket, uint64_t *count)
{
	uint64_t step;

	*count = 1;
	if (!pfw_varint_get(at, end, &step) || step >> 1 >= PFW_SKETCH_BUCKETS - *bucket)
		return false;
	*bucket += (uint32_t)(step >> 1);
	return step & 1 || (pfw_varint_get(at, end, count) && *count > 1);
}

/* Read `count` durations; check them first. */
static int decode_few(struct pfw_sketch *sketch, const uint8_t *data, const uint8_t *end,
		      uint64_t count)
{
	uint64_t step, ns = 0;
	const uint8_t *at = data;
	int error = 0;

	for (uint64_t i = 0; i < count; i++) {
		if (!pfw_varint_get(&at, end, &step) || step > INT64_MAX - ns)
			return -EBADMSG;
		ns += step;
	}
	if (at != end)
		return -EBADMSG;
	for (ns = 0; count && !error; count--) {
		pfw_varint_get(&data, end, &step);
		ns += step;
		error = pfw_sketch_add(sketch, (int64_t)ns);
	}
	return error;
}

static int decode_buckets(struct pfw_sketch *sketch, const uint8_t *data, const uint8_t *end)
{
	const uint8_t *at = data;
	uint64_t count, total = sketch->total;
	uint32_t bucket = 0;

	/* First pass: validate everything and reserve room. */
	for (; at < end; bucket++) {
		if (!read_bucket(&at, end, &bucket, &count) ||
		    __builtin_add_overflow(total, count, &total))
			return -EBADMSG;
		if (is_few(sketch) && sketch->total && make_buckets(sketch, true))
			return -ENOMEM;
		if (bucket - sketch->first >= sketch->room && reach(sketch, bucket))
			return -ENOMEM;
	}
	for (at = data, bucket = 0; at < end; bucket++) {
		read_bucket(&at, end, &bucket, &count);
		sketch->count[bucket - sketch->first] += count;
	}
	sketch->total = total;
	return 0;
}

int pfw_sketch_decode(struct pfw_sketch *sketch, const uint8_t *data, size_t bytes)
{
	const uint8_t *at = data, *end = data + bytes;
	uint64_t few;

	if (!bytes)
		return 0;
	if (!pfw_varint_get(&at, end, &few) || few > PFW_SKETCH_FEW)
		return -EBADMSG;
	return few ? decode_few(sketch, at, end, few) : decode_buckets(sketch, at, end);
}

void pfw_sketch_clear(struct pfw_sketch *sketch)
{
	sketch->total = 0;
	sketch->first = sketch->room = 0;
	sketch->unsorted = false;
}

void pfw_sketch_release(struct pfw_sketch *sketch)
{
	free(sketch->count);
	*sketch = (struct pfw_sketch){ 0 };
}
