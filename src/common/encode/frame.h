/* common/encode/frame.h - the frame of a line: id, tid, ts, dur, ph and the end. */
#pragma once

#include "common/encode/internal.h"

/* ---- time ---- */

/* Whether the clock line of the previous record holds for these ticks: nearly always. */
static inline bool pfw_json_line_holds(const struct pfw_json *json, uint64_t ticks)
{
	const struct pfw_clock_line *line = &json->cache->clock;

	return line->version == json->clock->version && ticks - line->ticks < line->reach;
}

/* Ticks to ns since the epoch; keeps the clock line for the next record. */
uint64_t pfw_json_epoch_ns(struct pfw_json *json, uint64_t ticks);

static inline uint64_t pfw_json_add_capped(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

static inline uint64_t pfw_json_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Both ends go through the clock's map, so that nested events stay nested. */
static inline struct pfw_json_times pfw_json_times_of(struct pfw_json *json,
						      const struct pfw_record *record)
{
	const unsigned int no_dur = PFW_RECORD_INSTANT | PFW_RECORD_COUNTER;
	uint64_t dur = PFW_UNLIKELY(record->flags & no_dur) ? 0 : record->dur;
	struct pfw_json_times times = { .negative = (int64_t)dur < 0 };
	uint64_t end;

	if (PFW_UNLIKELY(times.negative))
		dur = 0;
	end = pfw_json_add_capped(record->t0, dur);
	if (PFW_UNLIKELY(record->flags & PFW_RECORD_EPOCH_NS)) {
		times.start_ns = pfw_json_least(record->t0, INT64_MAX);
		times.end_ns = pfw_json_least(end, INT64_MAX);
	} else if (PFW_LIKELY(pfw_json_line_holds(json, record->t0) &&
			      pfw_json_line_holds(json, end))) {
		times.start_ns = pfw_clock_line_ns(&json->cache->clock, record->t0);
		times.end_ns = pfw_clock_line_ns(&json->cache->clock, end);
	} else {
		times.start_ns = pfw_json_epoch_ns(json, record->t0);
		times.end_ns = pfw_json_epoch_ns(json, end);
	}
	return times;
}

/* Make the digits of another millisecond.  False in the first one of 1970. */
bool pfw_json_new_ms(struct pfw_json_cache *cache, uint64_t ns);

/* Append ns since the epoch as µs, with three decimals unless whole_us. */
static inline char *pfw_json_put_ts(struct pfw_json *json, char *out, uint64_t ns)
{
	struct pfw_json_cache *cache = json->cache;
	uint64_t rest = ns - cache->ms_ns;
	const char *high, *middle, *low;

	if (PFW_UNLIKELY(rest >= PFW_JSON_MS)) {
		if (!pfw_json_new_ms(cache, ns))
			return json->whole_us ? pfw_append_u64(out, ns / 1000)
					      : pfw_append_us(out, ns);
		rest = ns - cache->ms_ns;
	}
	memcpy(out, cache->ms_text, 16);
	out += cache->ms_bytes;
	high = pfw_append_pair((uint32_t)rest / 10000);
	middle = pfw_append_pair((uint32_t)rest / 100 % 100);
	low = pfw_append_pair((uint32_t)rest % 100);
	memcpy(out, high, 2);
	out[2] = middle[0];
	if (PFW_UNLIKELY(json->whole_us))
		return out + 3;
	out[3] = '.';
	out[4] = middle[1];
	memcpy(out + 5, low, 2);
	return out + 7;
}

static inline char *pfw_json_put_dur(const struct pfw_json *json, char *out,
				     const struct pfw_json_times *times)
{
	if (PFW_UNLIKELY(json->whole_us))
		return pfw_append_u64(out, times->end_ns / 1000 - times->start_ns / 1000);
	return pfw_append_us(out, times->end_ns - times->start_ns);
}

/* ---- the frame of a line ---- */

/* Make the text of json->next_id. */
void pfw_json_new_id(struct pfw_json *json);
void pfw_json_new_tid(struct pfw_json_cache *cache, uint64_t tid);

static inline char *pfw_json_put_id(struct pfw_json *json, char *out)
{
	struct pfw_json_cache *cache = json->cache;
	char *last = cache->id_text + cache->id_bytes - 1;

	/* Nine times out of ten only the last digit changes. */
	if (PFW_LIKELY(json->next_id == cache->id + 1 && *last < '9')) {
		++*last;
		cache->id++;
	} else {
		pfw_json_new_id(json);
	}
	return pfw_append_32(out, cache->id_text, cache->id_bytes);
}

/* Append the frame from the tid to the brace of args. */
static inline char *pfw_json_put_when(const struct pfw_json_source *source, char *out, uint64_t tid,
				      const struct pfw_json_times *times)
{
	struct pfw_json *json = source->json;
	struct pfw_json_cache *cache = json->cache;

	if (PFW_UNLIKELY(json->disable_tids))
		tid = json->pid;
	if (PFW_UNLIKELY(cache->tid != tid))
		pfw_json_new_tid(cache, tid);
	out = pfw_append_32(out, cache->tid_text, cache->tid_bytes);
	out = pfw_json_put_ts(json, out, times->start_ns);
	if (PFW_UNLIKELY(source->record->flags & PFW_RECORD_COUNTER))
		return pfw_append(out, ",\"ph\":\"C\",\"args\":{");
	if (PFW_UNLIKELY(source->record->flags & PFW_RECORD_INSTANT))
		return pfw_append(out, ",\"ph\":\"i\",\"args\":{");
	out = pfw_append(out, ",\"dur\":");
	out = pfw_json_put_dur(json, out, times);
	return pfw_append(out, ",\"ph\":\"X\",\"args\":{");
}

static inline void pfw_json_count_times(struct pfw_json *json, const struct pfw_json_times *times)
{
	json->lines++;
	if (times->start_ns < json->least_ns)
		json->least_ns = times->start_ns;
	if (times->end_ns > json->greatest_ns)
		json->greatest_ns = times->end_ns;
}

static inline char *pfw_json_finish(struct pfw_json *json, char *out,
				    const struct pfw_json_times *times)
{
	out = pfw_append(out, "}}\n");
	json->next_id++;
	json->events++;
	json->negative += times->negative;
	pfw_json_count_times(json, times);
	return out;
}
