/* json_line.h - what the parts of the encoder share: json.c (calls, the frame of a line) and
 * json_spans.c (the program's own spans, compute events).
 */
#ifndef PFW_JSON_LINE_H
#define PFW_JSON_LINE_H

#include <string.h>

#include "json.h"
#include "json_text.h"
#include "os.h"

_Static_assert(PFW_TYPE_I64 < PFW_TYPE_U64 && PFW_TYPE_U64 == 2, "whole numbers come first");

#define PFW_JSON_STRING_ROOM(bytes) (6u * (size_t)(bytes) + 2u)
/* What a line needs beside its strings: the head, 50 keys with numbers, the end. */
#define PFW_JSON_FIXED_ROOM 8192u
#define PFW_JSON_MEMO_BYTES 248u
#define PFW_JSON_PIECE_BYTES 52u
#define PFW_JSON_MS 1000000u
#define PFW_JSON_NO_MS (1ull << 63) /* no time is within a millisecond of it */

/*
 * `,"key":` with the text of a value behind it.  Most values of a program's calls and kernels are
 * those of the one before (descriptor, count, result; grid, stream): a copy then stands for both.
 */
struct pfw_json_piece {
	uint64_t value; /* whose text it is */
	uint64_t seen;	/* the last value that had none: the second time it gets one */
	uint8_t bytes;
	uint8_t key_bytes; /* 0: no value of one word, or the key is too long */
	uint8_t type;
	uint8_t key; /* number of the key, for what pieces cannot do */
	char text[PFW_JSON_PIECE_BYTES];
};

/* `,"key":` of any length: 23 bytes of six characters each at most. */
struct pfw_json_key {
	uint8_t bytes; /* 0 = not made yet */
	uint8_t type;
	char text[158];
};

/* What a template makes of its records. */
struct pfw_json_shape {
	uint8_t shape; /* enum pfw_shape; NONE = not looked at yet, COUNT = says nothing */
	uint8_t field_count;
	uint8_t has_fd; /* the first field is the descriptor, written before ret */
	uint8_t unused;
	uint32_t prefix_bytes;
	char prefix[296]; /* from behind the id to the tid: ,"name":…,"cat":…,"pid":…,"tid": */
	/* ret, then the fields; of the program's own spans, [1] is parent. */
	struct pfw_json_piece piece[1 + PFW_TEMPLATE_FIELDS];
};

/*
 * An escaped string.  The slot follows from the reference's place, not its generation, and the whole
 * reference is compared: a cell that is used again takes the slot of what it held before, so a stale
 * text can only be found by a reference of 32768 lives earlier that nothing was written for.
 */
struct pfw_json_memo {
	uint32_t ref;
	uint8_t bytes;	   /* the string with its quotes */
	uint8_t b64_bytes; /* behind it: the exact bytes with quotes, where it was not UTF-8 */
	uint16_t unused;
	char text[PFW_JSON_MEMO_BYTES];
};

struct pfw_json_lane {
	uint64_t tid; /* 0 = free */
	uint64_t device_index, context, stream;
	uint64_t channel; /* of its last kernel, + 1 */
	uint32_t name;	  /* string of the spool, 0 = none */
	bool told;	  /* its line is written */
	bool tells;	  /* its tid says which device, context and stream it is of */
};

/* A device, or one of its contexts, that has a name. */
#define PFW_JSON_PLACES 32
struct pfw_json_place {
	uint64_t device_index, context;
	uint32_t name; /* 0 = free */
};

#define PFW_JSON_SHAPES 1024u /* kernels whose occupancy has been told */

/* PFW_TYPE_DIM3 without the ones at its end: [256], [8,8]. */
#define PFW_JSON_DIMS PFW_TYPE_COUNT

/* A compute event taken apart: the values of the bits in its mask, and where its strings begin. */
struct pfw_json_pp {
	uint64_t mask;
	uint64_t value[PFW_PP_BITS];
	size_t bytes_at;
	struct pfw_json_lane *lane; /* it is on; NULL = on none, or on one that has no room here */
};

struct pfw_json_cache {
	uint64_t id; /* whose text this is: `{"id":12` */
	uint64_t id_bytes;
	char id_text[32];
	uint64_t tid; /* `123,"ts":` */
	uint64_t tid_bytes;
	char tid_text[32];
	uint64_t ms_ns; /* the millisecond whose digits these are */
	uint64_t ms_bytes;
	char ms_text[32];
	struct pfw_clock_line clock;
	bool own_is_event; /* the line begun with pfw_json_begin() is not ph M */
	uint32_t template_count;
	char scratch[PFW_JSON_STRING_ROOM(PFW_JSON_MEMO_BYTES) + PFW_JSON_MEMO_BYTES * 2 +
		     PFW_JSON_SLACK];
	struct pfw_json_memo memo[PFW_JSON_MEMO];
	struct pfw_json_lane lane[PFW_JSON_LANES];
	struct pfw_json_place place[PFW_JSON_PLACES];
	struct pfw_json_key key[PFW_KEYS_MAX];
	struct pfw_json_piece pp[PFW_PP_BITS];
	struct pfw_json_piece terse[PFW_PP_BITS]; /* of GPU work */
	uint64_t shape_told[PFW_JSON_SHAPES];
	struct pfw_json_shape shape[]; /* template_count of them */
};

/* A record with its tail, and where strings must have ended. */
struct pfw_json_source {
	struct pfw_json *json;
	const struct pfw_record *record;
	const char *tail;
	size_t tail_bytes;
	const char *limit;
	uint64_t tid;
};

/* When a record was, in ns since the epoch. */
struct pfw_json_times {
	uint64_t start_ns;
	uint64_t end_ns;
	bool negative;
};

/* ---- json_spans.c: lines of the other two shapes; as pfw_json_record() ---- */

char *pfw_json_api_line(struct pfw_json_source *source, char *out, struct pfw_json_shape *shape);
char *pfw_json_pp_line(struct pfw_json_source *source, char *out,
		       const struct pfw_json_shape *shape);

/* ---- json_lanes.c: the lanes of GPU streams ---- */

/* The tid of a compute event in *tid, where it is not the source's, and pp->lane; before a lane's first
 * one its name is appended. */
char *pfw_json_pp_tid(struct pfw_json_source *source, struct pfw_json_pp *pp, char *out,
		      uint64_t *tid, uint64_t ns);

/* Give the stream, context or device of the event its name.  No line is due, which is the rule; but a
 * stream whose lane has had its line gets another one. */
char *pfw_json_name_lane(struct pfw_json_source *source, const struct pfw_json_pp *pp, char *out,
			 uint64_t ns);

/* ---- json_usual.c ---- */

/* Bits that are left out of a terse record's line (PFW_RECORD_TERSE). */
uint64_t pfw_json_usual(const struct pfw_json_source *source, const struct pfw_json_pp *pp);

/* ---- json_value.c: strings of the spool and values that are not plain numbers ---- */

/* Append a string where it may not fit; NULL then. */
char *pfw_json_put_string(char *out, const char *limit, const char *text, size_t bytes,
			  bool *valid);

/* The escaped string behind ref (not 0), made now; NULL where it is stale or too long to keep. */
const struct pfw_json_memo *pfw_json_make_memo(struct pfw_json *json, uint32_t ref);

/* Append a string of the spool, or `otherwise` (JSON text) where there is none. */
char *pfw_json_put_ref(struct pfw_json_source *source, char *out, uint32_t ref,
		       const char *otherwise);

/* Append the value of fname, and fname_b64 where that does not say it exactly; NULL = no room. */
char *pfw_json_put_name(struct pfw_json_source *source, char *out, const char *text, size_t bytes);
char *pfw_json_put_name_ref(struct pfw_json_source *source, char *out, uint32_t ref);

/* Append a value that is in one word. */
char *pfw_json_put_word(char *out, unsigned int type, uint64_t value);

/* Append STRING or JSON: `value` bytes at *bytes_at of the tail, which moves behind them. */
char *pfw_json_put_tail(struct pfw_json_source *source, char *out, unsigned int type,
			uint64_t value, size_t *bytes_at);

/* Make a piece for that key (with its comma and colon), where it is one for pieces. */
void pfw_json_make_piece(struct pfw_json_piece *piece, const char *key, size_t key_bytes,
			 unsigned int type);
/* Give a piece the text of that value, where there is room for it. */
void pfw_json_fill_piece(struct pfw_json_piece *piece, uint64_t value);

/* ---- small things ---- */

static inline bool pfw_json_is_text(unsigned int type)
{
	return type == PFW_TYPE_STRING || type == PFW_TYPE_JSON;
}

/* Value number `index` of a record whose tail is known to hold it. */
static inline uint64_t pfw_json_value(const struct pfw_json_source *source, unsigned int index)
{
	uint64_t value;

	if (index < PFW_RECORD_VALUES)
		return source->record->value[index];
	memcpy(&value, source->tail + (index - PFW_RECORD_VALUES) * 8, 8);
	return value;
}

/* Where the bytes behind the values begin, for that many values. */
static inline size_t pfw_json_values_end(unsigned int count)
{
	return count > PFW_RECORD_VALUES ? (count - PFW_RECORD_VALUES) * 8 : 0;
}

/* The slot of a reference: its place in the strings, hashed. */
static inline struct pfw_json_memo *pfw_json_memo_slot(struct pfw_json_cache *cache, uint32_t ref)
{
	return &cache->memo[(ref & 0xffff) * 0x9e3779b1u >> 26];
}
_Static_assert(PFW_JSON_MEMO == 1 << (32 - 26), "the hash gives six bits");

static inline char *pfw_json_put_memo(char *out, const struct pfw_json_memo *memo)
{
	memcpy(out, memo->text, 64);
	if (PFW_UNLIKELY(memo->bytes > 64))
		memcpy(out + 64, memo->text + 64, PFW_JSON_MEMO_BYTES - 64);
	return out + memo->bytes;
}

/* Append `,"key":VALUE` by way of the piece that has it. */
static inline char *pfw_json_put_piece(char *out, struct pfw_json_piece *piece, uint64_t value)
{
	if (PFW_UNLIKELY(value != piece->value)) {
		if (value != piece->seen) {
			piece->seen = value;
			out = pfw_text_put32(out, piece->text, piece->key_bytes);
			/* Not below zero, I64 and U64 are the same digits. */
			if (PFW_LIKELY(piece->type <= PFW_TYPE_U64 && value <= INT64_MAX))
				return pfw_text_u64(out, value);
			return pfw_json_put_word(out, piece->type, value);
		}
		pfw_json_fill_piece(piece, value);
	}
	memcpy(out, piece->text, 32);
	if (PFW_UNLIKELY(piece->bytes > 32))
		memcpy(out + 32, piece->text + 32, PFW_JSON_PIECE_BYTES - 32);
	return out + piece->bytes;
}

static inline char *pfw_json_put_prefix(char *out, const struct pfw_json_shape *shape)
{
	memcpy(out, shape->prefix, 64);
	if (PFW_UNLIKELY(shape->prefix_bytes > 64))
		memcpy(out + 64, shape->prefix + 64, sizeof(shape->prefix) - 64);
	return out + shape->prefix_bytes;
}

/* ---- time ---- */

/* Does the line of the clock's map that held last time hold here?  It nearly always does. */
static inline bool pfw_json_line_holds(const struct pfw_json *json, uint64_t ticks)
{
	const struct pfw_clock_line *line = &json->cache->clock;

	return line->version == json->clock->version && ticks - line->ticks < line->reach;
}

/* Ticks to ns, by way of the line that will hold next time. */
uint64_t pfw_json_epoch_ns(struct pfw_json *json, uint64_t ticks);

static inline uint64_t pfw_json_add_capped(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

static inline uint64_t pfw_json_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Both ends go through the clock's map, so that what was nested stays so. */
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

/* Another millisecond than the last line's: make its digits.  False in the first one of 1970. */
bool pfw_json_new_ms(struct pfw_json_cache *cache, uint64_t ns);

/* Append ns since the epoch as µs, with three decimals unless whole_us. */
static inline char *pfw_json_put_ts(struct pfw_json *json, char *out, uint64_t ns)
{
	struct pfw_json_cache *cache = json->cache;
	uint64_t rest = ns - cache->ms_ns;
	const char *high, *middle, *low;

	if (PFW_UNLIKELY(rest >= PFW_JSON_MS)) {
		if (!pfw_json_new_ms(cache, ns))
			return json->whole_us ? pfw_text_u64(out, ns / 1000) : pfw_text_us(out, ns);
		rest = ns - cache->ms_ns;
	}
	memcpy(out, cache->ms_text, 16);
	out += cache->ms_bytes;
	high = pfw_text_pair((uint32_t)rest / 10000);
	middle = pfw_text_pair((uint32_t)rest / 100 % 100);
	low = pfw_text_pair((uint32_t)rest % 100);
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
		return pfw_text_u64(out, times->end_ns / 1000 - times->start_ns / 1000);
	return pfw_text_us(out, times->end_ns - times->start_ns);
}

/* ---- the frame of a line ---- */

/* Make the text of json->next_id where it is not that of the id before plus one. */
void pfw_json_new_id(struct pfw_json *json);
void pfw_json_new_tid(struct pfw_json_cache *cache, uint64_t tid);

static inline char *pfw_json_put_id(struct pfw_json *json, char *out)
{
	struct pfw_json_cache *cache = json->cache;
	char *last = cache->id_text + cache->id_bytes - 1;

	/* Nine times of ten the last digit is all that changes. */
	if (PFW_LIKELY(json->next_id == cache->id + 1 && *last < '9')) {
		++*last;
		cache->id++;
	} else {
		pfw_json_new_id(json);
	}
	return pfw_text_put32(out, cache->id_text, cache->id_bytes);
}

/* From the tid to the brace of args. */
static inline char *pfw_json_put_when(const struct pfw_json_source *source, char *out, uint64_t tid,
				      const struct pfw_json_times *times)
{
	struct pfw_json *json = source->json;
	struct pfw_json_cache *cache = json->cache;

	if (PFW_UNLIKELY(json->disable_tids))
		tid = json->pid;
	if (PFW_UNLIKELY(cache->tid != tid))
		pfw_json_new_tid(cache, tid);
	out = pfw_text_put32(out, cache->tid_text, cache->tid_bytes);
	out = pfw_json_put_ts(json, out, times->start_ns);
	if (PFW_UNLIKELY(source->record->flags & PFW_RECORD_COUNTER))
		return pfw_text_put(out, ",\"ph\":\"C\",\"args\":{");
	if (PFW_UNLIKELY(source->record->flags & PFW_RECORD_INSTANT))
		return pfw_text_put(out, ",\"ph\":\"i\",\"args\":{");
	out = pfw_text_put(out, ",\"dur\":");
	out = pfw_json_put_dur(json, out, times);
	return pfw_text_put(out, ",\"ph\":\"X\",\"args\":{");
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
	out = pfw_text_put(out, "}}\n");
	json->next_id++;
	json->events++;
	json->negative += times->negative;
	pfw_json_count_times(json, times);
	return out;
}

/* Append the step that the record began in, and its phase; what the record says itself stays. */
enum { PFW_JSON_HAS_STEP = 1, PFW_JSON_TERSE = 2 /* phase "active" is left out */ };
char *pfw_json_put_step(struct pfw_json *json, char *out, const struct pfw_record *record,
			unsigned int how);

/* The comma before a key of args, unless it is the first. */
static inline char *pfw_json_put_comma(char *out)
{
	if (out[-1] != '{')
		*out++ = ',';
	return out;
}

#endif
