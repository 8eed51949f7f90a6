/* json.c - records to lines: one call a record, everything that repeats kept as ready text.
 *
 * A line is put together from pieces copied at fixed sizes (they write ahead of their end, into the
 * caller's slack) and a few numbers.  Nothing in a record is believed: it may come from the spool of
 * a process that was killed, or from a file that somebody made up.
 */
#include "json.h"

#include <string.h>

#include "json_text.h"
#include "os.h"

#define SECOND_NS 1000000000u
#define TAIL_MAX ((PFW_RECORD_SLOTS_MAX - 1) * PFW_SLOT_BYTES)
#define STRING_ROOM(bytes) (6u * (size_t)(bytes) + 2u)
/* What a line needs beside its strings: the head, 50 keys with numbers, the end. */
#define FIXED_ROOM 8192u
#define ARGS_ROOM 256u /* one key and number of the longest kind */
#define MEMO_TEXT_BYTES 248u
#define INT64_LIMIT ((uint64_t)INT64_MAX)

/* Lanes are numbered (device_index + 1) * 10^7 + context * 1000 + stream. */
#define LANE_DEVICE 10000000u
#define LANE_CONTEXT 1000u
#define LANE_DEVICES_MAX 100000u

/* `,"key":` as it stands in a line. */
struct key_text {
	uint8_t bytes; /* 0 = not made yet */
	uint8_t type;
	char text[158]; /* 22 bytes of control characters would fit */
};

/* What a template makes of its records. */
struct shape_text {
	uint8_t shape; /* enum pfw_shape; NONE = not looked at yet, COUNT = says nothing */
	uint8_t field_count;
	uint8_t has_fd; /* the first field is the descriptor, written before ret */
	uint8_t unused;
	uint8_t field[PFW_TEMPLATE_FIELDS];
	uint16_t prefix_bytes;
	char prefix[296]; /* from behind the id to the tid: ,"name":…,"cat":…,"pid":…,"tid": */
};

/*
 * An escaped string.  The slot follows from the reference's place, not its generation, and the whole
 * reference is compared: a cell that is used again takes the slot of what it held before, so a stale
 * text can only be found by a reference of 32768 lives earlier that nothing was written for.
 */
struct memo {
	uint32_t ref;
	uint8_t bytes;	   /* the string with its quotes */
	uint8_t b64_bytes; /* behind it: the exact bytes with quotes, where it was not UTF-8 */
	uint16_t unused;
	char text[MEMO_TEXT_BYTES];
};

struct lane {
	uint64_t tid; /* 0 = free */
	uint64_t device_index, context, stream;
};

struct pfw_json_cache {
	uint64_t second_ns; /* the second whose digits these are */
	uint32_t second_bytes;
	uint32_t template_count;
	char second_text[32];
	uint64_t tid; /* whose text this is: `123,"ts":` */
	uint64_t tid_bytes;
	char tid_text[32];
	bool own_is_event; /* the line begun with pfw_json_begin() is not ph M */
	uint32_t lane_count;
	char scratch[STRING_ROOM(MEMO_TEXT_BYTES) + MEMO_TEXT_BYTES * 2 + PFW_JSON_SLACK];
	struct memo memo[PFW_JSON_MEMO];
	struct lane lane[PFW_JSON_LANES];
	struct key_text key[PFW_KEYS_MAX];
	struct shape_text shape[]; /* template_count of them */
};

/* A record with its tail, and where strings must have ended. */
struct source {
	struct pfw_json *json;
	const struct pfw_record *record;
	const char *tail;
	size_t tail_bytes;
	const char *limit;
};

/* When a record was, in ns since the epoch. */
struct times {
	uint64_t start_ns;
	uint64_t end_ns;
	bool negative;
};

/* The keys of PP args with their commas and colons, in the order of the mask's bits. */
struct pp_key {
	char text[30];
	uint8_t bytes;
	uint8_t type;
};

static const struct pp_key pp_keys[PFW_PP_BITS] = {
#define X(name, kind) { ",\"" #name "\":", sizeof(",\"" #name "\":") - 1, PFW_TYPE_##kind },
	PFW_PP_FIELDS(X)
#undef X
};
_Static_assert(sizeof(struct pp_key) == 32, "a key is copied as 32 bytes");

/* ---- strings ---- */

const char *pfw_string_text(const struct pfw_string_view *view, uint32_t ref, uint32_t *bytes)
{
	const char *segment = view->segment[(ref & 0xffff) >> 12];
	uint32_t offset = (ref & 4095) * PFW_STRING_GRANULE;
	const struct pfw_string *string;
	uint32_t generation;

	if (!ref || !segment || offset < sizeof(struct pfw_chunk))
		return NULL;
	if (offset + sizeof(*string) > PFW_STRING_SEGMENT_BYTES)
		return NULL;
	string = (const struct pfw_string *)(segment + offset);
	/* Pairs with the release store of whoever filled or freed the cell. */
	generation = atomic_load_explicit(&string->generation, memory_order_acquire);
	if (generation != ref >> 16 || !(generation & 1))
		return NULL;
	*bytes = string->bytes;
	if (offset + sizeof(*string) + *bytes > PFW_STRING_SEGMENT_BYTES)
		return NULL;
	return string->text;
}

/* Append a string where it may not fit; NULL then. */
static char *put_string(char *out, const char *limit, const char *text, size_t bytes, bool *valid)
{
	if (STRING_ROOM(bytes) > (size_t)(limit - out))
		return NULL;
	return pfw_json_string(out, text, bytes, valid);
}

/* Escape a string of the spool into its slot.  Return false where it is stale or too long. */
static bool memo_fill(struct pfw_json *json, struct memo *memo, uint32_t ref)
{
	char *out = json->cache->scratch, *end;
	uint32_t bytes = 0, again = 0;
	const char *text = pfw_string_text(json->strings, ref, &bytes);
	bool valid;

	if (!text || bytes > MEMO_TEXT_BYTES - 2)
		return false;
	end = pfw_json_string(out, text, bytes, &valid);
	memo->bytes = (uint8_t)(end - out);
	if ((size_t)(end - out) > MEMO_TEXT_BYTES)
		return false;
	if (!valid)
		end = pfw_text_base64(end, text, bytes);
	if ((size_t)(end - out) > MEMO_TEXT_BYTES)
		return false;
	/* The cell may have been freed and filled anew meanwhile: then these are mixed bytes. */
	if (pfw_string_text(json->strings, ref, &again) != text || again != bytes)
		return false;
	memo->b64_bytes = (uint8_t)(end - out - memo->bytes);
	memcpy(memo->text, out, MEMO_TEXT_BYTES);
	memo->ref = ref;
	return true;
}

static inline struct memo *memo_slot(struct pfw_json_cache *cache, uint32_t ref)
{
	return &cache->memo[(ref & 0xffff) * 0x9e3779b1u >> 26];
}
_Static_assert(PFW_JSON_MEMO == 1 << (32 - 26), "the hash gives six bits");

/* The escaped string behind ref (not 0), or NULL where it is stale or too long to be kept. */
static inline const struct memo *memo_of(struct pfw_json *json, uint32_t ref)
{
	struct memo *memo = memo_slot(json->cache, ref);

	if (PFW_LIKELY(memo->ref == ref))
		return memo;
	memo->ref = 0;
	return memo_fill(json, memo, ref) ? memo : NULL;
}

static inline char *put_memo(char *out, const struct memo *memo)
{
	memcpy(out, memo->text, 64);
	if (PFW_UNLIKELY(memo->bytes > 64))
		memcpy(out + 64, memo->text + 64, MEMO_TEXT_BYTES - 64);
	return out + memo->bytes;
}

/* Append a string of the spool, or `otherwise` (JSON text) where there is none. */
static char *put_ref(struct source *source, char *out, uint32_t ref, const char *otherwise)
{
	const struct memo *memo = ref ? memo_of(source->json, ref) : NULL;
	const char *text;
	uint32_t bytes;

	if (memo)
		return put_memo(out, memo);
	text = pfw_string_text(source->json->strings, ref, &bytes);
	if (text)
		return put_string(out, source->limit, text, bytes, NULL);
	bytes = (uint32_t)strlen(otherwise);
	memcpy(out, otherwise, bytes);
	return out + bytes;
}

/* Append a file's name and, where that does not say it, its exact bytes. */
static char *put_name_bytes(struct source *source, char *out, const char *text, size_t bytes)
{
	bool valid = true;

	out = put_string(out, source->limit, text, bytes, &valid);
	if (!out || valid)
		return out;
	if (STRING_ROOM(bytes) > (size_t)(source->limit - out))
		return NULL;
	out = pfw_text_put(out, ",\"fname_b64\":");
	return pfw_text_base64(out, text, bytes);
}

/* The value of fname for a reference that is not in its slot as plain text. */
static __attribute__((noinline)) char *put_fname_slow(struct source *source, char *out,
						      uint32_t ref)
{
	const struct memo *memo = ref ? memo_of(source->json, ref) : NULL;
	const char *text;
	uint32_t bytes;

	if (memo) {
		out = put_memo(out, memo);
		if (!memo->b64_bytes)
			return out;
		out = pfw_text_put(out, ",\"fname_b64\":");
		memcpy(out, memo->text + memo->bytes, memo->b64_bytes);
		return out + memo->b64_bytes;
	}
	text = pfw_string_text(source->json->strings, ref, &bytes);
	if (text)
		return put_name_bytes(source, out, text, bytes);
	return pfw_text_put(out, "null");
}

static inline char *put_fname(struct source *source, char *out, uint32_t ref)
{
	const struct memo *memo = memo_slot(source->json->cache, ref);

	if (PFW_LIKELY(ref && memo->ref == ref && !memo->b64_bytes))
		return put_memo(out, memo);
	return put_fname_slow(source, out, ref);
}

/* ---- what templates say ---- */

static void make_key(struct key_text *text, const struct pfw_key *key)
{
	char *out = pfw_text_put(text->text, ",");
	size_t bytes = strnlen(key->name, sizeof(key->name));

	/* 23 bytes of six characters each: 141 at most, and the escape writes 8 ahead. */
	out = pfw_json_string(out, key->name, bytes, NULL);
	*out++ = ':';
	text->type = key->type;
	text->bytes = (uint8_t)(out - text->text);
}

/* Make the text of a template that is seen for the first time. */
static __attribute__((noinline)) void make_shape(struct pfw_json *json, uint32_t index)
{
	const struct pfw_template_chunk *chunk = json->templates;
	const struct pfw_template *template = &chunk->template[index];
	struct shape_text *text = &json->cache->shape[index];
	uint32_t key_count = chunk->key_count < PFW_KEYS_MAX ? chunk->key_count : PFW_KEYS_MAX;
	char *out = text->prefix;
	unsigned int i;

	text->shape = PFW_SHAPE_COUNT;
	if (template->shape == PFW_SHAPE_NONE || template->shape >= PFW_SHAPE_COUNT ||
	    template->field_count > PFW_TEMPLATE_FIELDS)
		return;
	for (i = 0; i < template->field_count; i++) {
		uint8_t key = template->field[i];

		if (key >= key_count || !chunk->key[key].type ||
		    chunk->key[key].type >= PFW_TYPE_COUNT)
			return;
		text->field[i] = key;
		if (!json->cache->key[key].bytes)
			make_key(&json->cache->key[key], &chunk->key[key]);
	}
	if (template->shape == PFW_SHAPE_CALL) {
		out = pfw_text_put(out, ",\"name\":");
		out = pfw_json_string(out, template->name,
				      strnlen(template->name, sizeof(template->name)), NULL);
		out = pfw_text_put(out, ",\"cat\":");
		out = pfw_json_string(out, template->category,
				      strnlen(template->category, sizeof(template->category)),
				      NULL);
		text->has_fd = template->field_count &&
			       !strncmp(chunk->key[template->field[0]].name, "fd", 3);
	} else if (template->shape == PFW_SHAPE_PP) {
		out = pfw_text_put(out, ",\"cat\":\"PP\"");
	}
	out = pfw_text_put(out, ",\"pid\":");
	out = pfw_text_u64(out, json->pid);
	out = pfw_text_put(out, ",\"tid\":");
	text->prefix_bytes = (uint16_t)(out - text->prefix);
	text->field_count = template->field_count;
	text->shape = template->shape;
}

static inline char *put_prefix(char *out, const struct shape_text *text)
{
	memcpy(out, text->prefix, 64);
	if (PFW_UNLIKELY(text->prefix_bytes > 64))
		memcpy(out + 64, text->prefix + 64, sizeof(text->prefix) - 64 - 8);
	return out + text->prefix_bytes;
}
_Static_assert(sizeof(((struct shape_text *)0)->prefix) - 8 <= 64 + PFW_JSON_SLACK, "written ahead");

/* ---- time ---- */

static inline uint64_t add_capped(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

static inline uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Both ends go through the clock's map, so that what was nested stays so. */
static inline struct times times_of(const struct pfw_json *json, const struct pfw_record *record)
{
	bool has_dur = !(record->flags & (PFW_RECORD_INSTANT | PFW_RECORD_COUNTER));
	uint64_t dur = has_dur ? record->dur : 0;
	struct times times;

	times.negative = (int64_t)dur < 0;
	if (PFW_UNLIKELY(times.negative))
		dur = 0;
	if (PFW_UNLIKELY(record->flags & PFW_RECORD_EPOCH_NS)) {
		times.start_ns = least(record->t0, INT64_LIMIT);
		times.end_ns = least(add_capped(record->t0, dur), INT64_LIMIT);
		return times;
	}
	times.start_ns = pfw_clock_map_epoch_ns(json->clock, record->t0);
	times.end_ns = times.start_ns;
	if (has_dur)
		times.end_ns =
			pfw_clock_map_epoch_ns(json->clock, add_capped(record->t0, dur));
	return times;
}

/* Another second than the last line's: make its digits.  False where it has none (1970). */
static __attribute__((noinline)) bool new_second(struct pfw_json_cache *cache, uint64_t ns)
{
	uint64_t second = ns / SECOND_NS;
	char *end = pfw_text_u64(cache->second_text, second);

	cache->second_ns = second * SECOND_NS;
	cache->second_bytes = (uint32_t)(end - cache->second_text);
	return second != 0;
}

/* Append ns since the epoch as µs, with three decimals unless whole_us. */
static inline char *put_ts(struct pfw_json *json, char *out, uint64_t ns)
{
	struct pfw_json_cache *cache = json->cache;
	uint64_t rest = ns - cache->second_ns, digits;
	uint32_t tenths;

	if (PFW_UNLIKELY(rest >= SECOND_NS || !cache->second_ns)) {
		if (!new_second(cache, ns))
			return json->whole_us ? pfw_text_u64(out, ns / 1000) :
						pfw_text_us(out, ns);
		rest = ns - cache->second_ns;
	}
	memcpy(out, cache->second_text, 16);
	out += cache->second_bytes;
	tenths = (uint32_t)rest / 10;
	digits = pfw_text_digits8(tenths) | PFW_TEXT_ZEROS;
	memcpy(out, &digits, 8); /* six digits of µs, then the first two decimals */
	if (PFW_UNLIKELY(json->whole_us))
		return out + 6;
	out[6] = '.';
	out[7] = (char)(digits >> 48);
	out[8] = (char)(digits >> 56);
	out[9] = (char)('0' + ((uint32_t)rest - tenths * 10));
	return out + 10;
}

static inline char *put_dur(const struct pfw_json *json, char *out, const struct times *times)
{
	if (PFW_UNLIKELY(json->whole_us))
		return pfw_text_u64(out, times->end_ns / 1000 - times->start_ns / 1000);
	return pfw_text_us(out, times->end_ns - times->start_ns);
}

/* ---- the fixed parts of a line ---- */

static __attribute__((noinline)) void new_tid(struct pfw_json_cache *cache, uint64_t tid)
{
	char *end = pfw_text_put(pfw_text_u64(cache->tid_text, tid), ",\"ts\":");

	cache->tid = tid;
	cache->tid_bytes = (uint64_t)(end - cache->tid_text);
}

static inline char *put_id(const struct pfw_json *json, char *out)
{
	memcpy(out, "{\"id\":\0", 8);
	return pfw_text_u64(out + 6, json->next_id);
}

/* From the tid to the end of dur, and ph. */
static inline char *put_when(struct source *source, char *out, uint64_t tid,
			     const struct times *times)
{
	struct pfw_json *json = source->json;
	struct pfw_json_cache *cache = json->cache;

	if (PFW_UNLIKELY(json->disable_tids))
		tid = json->pid;
	if (PFW_UNLIKELY(cache->tid != tid || !cache->tid_bytes))
		new_tid(cache, tid);
	out = pfw_text_put32(out, cache->tid_text, cache->tid_bytes);
	out = put_ts(json, out, times->start_ns);
	if (PFW_UNLIKELY(source->record->flags & (PFW_RECORD_INSTANT | PFW_RECORD_COUNTER))) {
		if (source->record->flags & PFW_RECORD_COUNTER)
			return pfw_text_put(out, ",\"ph\":\"C\",\"args\":{");
		return pfw_text_put(out, ",\"ph\":\"i\",\"args\":{");
	}
	out = pfw_text_put(out, ",\"dur\":");
	out = put_dur(json, out, times);
	return pfw_text_put(out, ",\"ph\":\"X\",\"args\":{");
}

static inline void count_times(struct pfw_json *json, const struct times *times)
{
	json->lines++;
	if (times->start_ns < json->least_ns)
		json->least_ns = times->start_ns;
	if (times->end_ns > json->greatest_ns)
		json->greatest_ns = times->end_ns;
}

static inline char *finish(struct pfw_json *json, char *out, const struct times *times)
{
	out = pfw_text_put(out, "}}\n");
	json->next_id++;
	json->events++;
	json->negative += times->negative;
	count_times(json, times);
	return out;
}

/* ---- values ---- */

/* Text that is one JSON value stands as it is, on one line; anything else as a string. */
static char *put_json(char *out, const char *text, size_t bytes)
{
	size_t i;

	if (!pfw_json_valid(text, bytes))
		return pfw_json_string(out, text, bytes, NULL);
	/* A line end can only be white space here: within a string it would not be JSON. */
	for (i = 0; i < bytes; i++)
		out[i] = text[i] == '\n' || text[i] == '\r' ? ' ' : text[i];
	return out + bytes;
}

static char *put_dim3(char *out, uint64_t value)
{
	*out++ = '[';
	out = pfw_text_u64(out, value & 0x7fffffff);
	*out++ = ',';
	out = pfw_text_u64(out, value >> 31 & 0xffff);
	*out++ = ',';
	out = pfw_text_u64(out, value >> 47 & 0xffff);
	*out++ = ']';
	return out;
}

static char *put_kind(char *out, uint64_t kind)
{
	const char *name = pfw_kind_name(kind);

	*out++ = '"';
	if (name)
		out = stpcpy(out, name);
	else
		out = pfw_text_u64(out, kind); /* a later version's kind */
	*out++ = '"';
	return out;
}

/* Append a value that is in one word. */
static char *put_word(char *out, unsigned int type, uint64_t value)
{
	switch (type) {
	case PFW_TYPE_U64:
		return pfw_text_u64(out, value);
	case PFW_TYPE_I64:
		return pfw_text_i64(out, (int64_t)value);
	case PFW_TYPE_F64:
		return pfw_text_f64(out, value);
	case PFW_TYPE_BOOL:
		return value ? pfw_text_put(out, "true") : pfw_text_put(out, "false");
	case PFW_TYPE_DIM3:
		return put_dim3(out, value);
	case PFW_TYPE_KIND:
		return put_kind(out, value);
	default:
		return pfw_text_put(out, "null");
	}
}

/* Append STRING or JSON: `value` bytes at *bytes_at of the tail, which moves behind them. */
static char *put_tail_text(struct source *source, char *out, unsigned int type, uint64_t value,
			   size_t *bytes_at)
{
	const char *text = source->tail + *bytes_at;

	if (value > source->tail_bytes - *bytes_at ||
	    STRING_ROOM(value) > (size_t)(source->limit - out))
		return NULL;
	*bytes_at += value;
	if (type == PFW_TYPE_JSON)
		return put_json(out, text, value);
	return pfw_json_string(out, text, value, NULL);
}

static inline bool is_text(unsigned int type)
{
	return type == PFW_TYPE_STRING || type == PFW_TYPE_JSON;
}

/* Value number `index` of a record whose tail is known to hold it. */
static inline uint64_t value_of(const struct source *source, unsigned int index)
{
	uint64_t value;

	if (index < PFW_RECORD_VALUES)
		return source->record->value[index];
	memcpy(&value, source->tail + (index - PFW_RECORD_VALUES) * 8, 8);
	return value;
}

/* Where the bytes behind the values begin, for that many values. */
static inline size_t values_end(unsigned int count)
{
	return count > PFW_RECORD_VALUES ? (count - PFW_RECORD_VALUES) * 8 : 0;
}

/* ---- intercepted calls ---- */

static __attribute__((noinline)) char *put_errno(char *out, int error)
{
	const char *name = pfw_errno_name(error);

	out = pfw_text_put(out, ",\"errno\":\"");
	if (name)
		out = stpcpy(out, name);
	else
		out = pfw_text_i64(out, error);
	*out++ = '"';
	return out;
}

static inline char *put_key(char *out, const struct key_text *key)
{
	memcpy(out, key->text, 32);
	if (PFW_UNLIKELY(key->bytes > 32))
		memcpy(out + 32, key->text + 32, sizeof(key->text) - 32);
	return out + key->bytes;
}

/* A field that is neither a plain number nor short. */
static __attribute__((noinline)) char *put_long_field(struct source *source, char *out,
						      unsigned int type, uint64_t value,
						      size_t *bytes_at)
{
	if (is_text(type))
		return put_tail_text(source, out, type, value, bytes_at);
	if (type == PFW_TYPE_REF)
		return put_ref(source, out, (uint32_t)value, "null");
	return put_word(out, type, value);
}

static char *put_call_args(struct source *source, char *out, const struct shape_text *text)
{
	const struct pfw_record *record = source->record;
	const struct key_text *keys = source->json->cache->key;
	unsigned int count = text->field_count, i = 0;
	size_t bytes_at = values_end(1 + count);

	out = pfw_text_put(out, "\"fname\":");
	if (PFW_UNLIKELY(record->flags & PFW_RECORD_NAME_INLINE)) {
		if (record->file > source->tail_bytes - bytes_at)
			return NULL;
		out = put_name_bytes(source, out, source->tail + bytes_at, record->file);
		bytes_at += record->file;
	} else {
		out = put_fname(source, out, record->file);
	}
	if (PFW_UNLIKELY(!out))
		return NULL;
	if (text->has_fd) {
		if (!(record->flags & PFW_RECORD_NO_FD))
			out = pfw_text_i64(pfw_text_put(out, ",\"fd\":"), (int64_t)record->value[1]);
		i = 1;
	}
	if (!(record->flags & PFW_RECORD_NO_RET))
		out = pfw_text_i64(pfw_text_put(out, ",\"ret\":"), (int64_t)record->value[0]);
	if (PFW_UNLIKELY(record->error))
		out = put_errno(out, record->error);
	for (; i < count && out; i++) {
		const struct key_text *key = &keys[text->field[i]];
		uint64_t value = value_of(source, i + 1);

		out = put_key(out, key);
		if (PFW_LIKELY(key->type == PFW_TYPE_I64 || key->type == PFW_TYPE_U64))
			out = key->type == PFW_TYPE_U64 ? pfw_text_u64(out, value) :
							  pfw_text_i64(out, (int64_t)value);
		else
			out = put_long_field(source, out, key->type, value, &bytes_at);
	}
	return out;
}

static inline char *call_line(struct source *source, char *out, const struct shape_text *text,
			      uint64_t tid)
{
	struct pfw_json *json = source->json;
	struct times times;

	if (values_end(1u + text->field_count) > source->tail_bytes)
		return NULL;
	times = times_of(json, source->record);
	out = put_prefix(put_id(json, out), text);
	out = put_when(source, out, tid, &times);
	if (PFW_LIKELY(json->metadata))
		out = put_call_args(source, out, text);
	return out ? finish(json, out, &times) : NULL;
}

/* ---- the program's own spans ---- */

/* Append a key of args: the first has no comma before it. */
static inline char *put_comma(char *out)
{
	if (out[-1] != '{')
		*out++ = ',';
	return out;
}

/* Append the arguments of a blob, all or only the numbers. */
static char *put_blob(struct source *source, char *out, size_t at, size_t end, bool numbers)
{
	struct pfw_arg arg;
	uint64_t value;

	for (; out && at < end; at += arg.value_bytes) {
		const char *key;

		if (end - at < sizeof(arg) || ARGS_ROOM > (size_t)(source->limit - out))
			return NULL;
		memcpy(&arg, source->tail + at, sizeof(arg));
		at += sizeof(arg);
		if (end - at < (size_t)arg.key_bytes + arg.value_bytes)
			return NULL;
		key = source->tail + at;
		at += arg.key_bytes;
		if (numbers && (arg.type < PFW_TYPE_I64 || arg.type > PFW_TYPE_F64))
			continue;
		out = put_string(put_comma(out), source->limit, key, arg.key_bytes, NULL);
		if (!out)
			return NULL;
		*out++ = ':';
		if (is_text(arg.type)) {
			size_t text_at = at;

			out = put_tail_text(source, out, arg.type, arg.value_bytes, &text_at);
		} else if (arg.value_bytes == 8 && arg.type >= PFW_TYPE_I64 &&
			   arg.type <= PFW_TYPE_BOOL) {
			memcpy(&value, source->tail + at, 8);
			out = put_word(out, arg.type, value);
		} else {
			return NULL;
		}
	}
	return out;
}

/* Append name or category: a reference, or `bytes` bytes of the tail, or what else it is called. */
static char *put_title(struct source *source, char *out, uint32_t ref, size_t at, size_t bytes,
		       const char *otherwise)
{
	if (ref || !bytes)
		return put_ref(source, out, ref, otherwise);
	return put_string(out, source->limit, source->tail + at, bytes, NULL);
}

static char *api_line(struct source *source, char *out, const struct shape_text *text, uint64_t tid)
{
	const struct pfw_record *record = source->record;
	struct pfw_json *json = source->json;
	uint32_t name = (uint32_t)record->value[0], category = (uint32_t)(record->value[0] >> 32);
	size_t name_bytes = name ? 0 : record->file & 0xffff;
	size_t titles = name_bytes + (category ? 0 : record->file >> 16);
	uint64_t blob = record->value[3];
	bool counter = record->flags & PFW_RECORD_COUNTER;
	struct times times;

	if (titles > source->tail_bytes || blob > source->tail_bytes - titles)
		return NULL;
	times = times_of(json, record);
	out = pfw_text_put(put_id(json, out), ",\"name\":");
	out = put_title(source, out, name, 0, name_bytes, "\"(unknown)\"");
	if (!out)
		return NULL;
	out = pfw_text_put(out, ",\"cat\":");
	out = put_title(source, out, category, name_bytes, titles - name_bytes,
			counter ? "\"COUNTER\"" : "\"app\"");
	if (!out)
		return NULL;
	out = put_when(source, put_prefix(out, text), tid, &times);
	if (json->metadata)
		out = put_blob(source, out, titles, titles + blob, counter);
	if (!out)
		return NULL;
	if (json->metadata && !(record->flags & (PFW_RECORD_INSTANT | PFW_RECORD_COUNTER))) {
		out = pfw_text_u64(pfw_text_put(put_comma(out), "\"span_id\":"), record->value[1]);
		if (record->value[2])
			out = pfw_text_u64(pfw_text_put(out, ",\"parent\":"), record->value[2]);
	}
	return finish(json, out, &times);
}

/* ---- compute events ---- */

/* Which value of the record stands for that bit of the mask. */
static inline uint64_t pp_value(const struct source *source, unsigned int bit)
{
	uint64_t below = source->record->value[1] & ((1ull << bit) - 1);

	return value_of(source, PFW_PP_HEAD + (unsigned int)__builtin_popcountll(below));
}

/* Check every length of a compute event.  Return false, or true with *bytes_at of its strings. */
static bool pp_fits(const struct source *source, size_t *bytes_at)
{
	const struct pfw_record *record = source->record;
	uint64_t mask = record->value[1], left;
	unsigned int count = PFW_PP_HEAD + (unsigned int)__builtin_popcountll(mask);
	size_t at = values_end(count);

	if (mask >> PFW_PP_BITS || at > source->tail_bytes)
		return false;
	*bytes_at = at;
	if (!(uint32_t)record->value[0]) {
		if (record->file > source->tail_bytes - at)
			return false;
		at += record->file;
	}
	for (left = mask; left; left &= left - 1) {
		unsigned int bit = (unsigned int)__builtin_ctzll(left);

		if (is_text(pp_keys[bit].type)) {
			uint64_t bytes = pp_value(source, bit);

			if (bytes > source->tail_bytes - at)
				return false;
			at += bytes;
		}
	}
	return true;
}

static bool lane_tid_taken(const struct pfw_json_cache *cache, uint64_t tid)
{
	unsigned int i;

	for (i = 0; i < PFW_JSON_LANES; i++)
		if (cache->lane[i].tid == tid)
			return true;
	return false;
}

/* Is there a lane for this event?  Fills in what it is of. */
static bool lane_wanted(const struct source *source, struct lane *lane)
{
	const struct pfw_record *record = source->record;
	const uint64_t needs = 1ull << PFW_PP_BIT_device_index | 1ull << PFW_PP_BIT_context |
			       1ull << PFW_PP_BIT_stream;

	if (source->json->disable_tids || record->value[2] || (record->value[1] & needs) != needs)
		return false;
	if ((record->value[1] & 1ull << PFW_PP_BIT_device) &&
	    !pp_value(source, PFW_PP_BIT_device))
		return false; /* the CPU */
	lane->device_index = pp_value(source, PFW_PP_BIT_device_index);
	lane->context = pp_value(source, PFW_PP_BIT_context);
	lane->stream = pp_value(source, PFW_PP_BIT_stream);
	return lane->device_index < LANE_DEVICES_MAX;
}

/*
 * The lane's place in the table: its own, or the free one where it goes.  NULL where the table is
 * full (256 streams): such a lane shares its number with whatever else has it, and has no name.
 */
static struct lane *lane_find(struct pfw_json_cache *cache, const struct lane *wanted)
{
	uint64_t hash = wanted->device_index * 31 + wanted->context * 7 + wanted->stream;
	unsigned int i;

	for (i = 0; i < PFW_JSON_LANES; i++) {
		struct lane *lane = &cache->lane[(hash + i) % PFW_JSON_LANES];

		if (!lane->tid || (lane->device_index == wanted->device_index &&
				   lane->context == wanted->context &&
				   lane->stream == wanted->stream))
			return lane;
	}
	return NULL;
}

static char *lane_line(struct pfw_json *json, char *out, const struct lane *lane, uint64_t ns)
{
	out = pfw_json_begin(json, out, "thread_name", "M", lane->tid, ns);
	out = pfw_text_put(out, "\"name\":\"GPU ");
	out = pfw_text_u64(out, lane->device_index);
	out = pfw_text_put(out, " stream ");
	out = pfw_text_u64(out, lane->stream);
	*out++ = '"';
	return pfw_json_end(json, out);
}

/* The tid of a compute event; before a lane's first one, its name. */
static char *pp_tid(struct source *source, char *out, uint64_t *tid, uint64_t ns)
{
	struct pfw_json_cache *cache = source->json->cache;
	struct lane wanted, *lane;

	if (source->record->value[2])
		*tid = source->record->value[2];
	if (!lane_wanted(source, &wanted))
		return out;
	lane = lane_find(cache, &wanted);
	if (lane && lane->tid) {
		*tid = lane->tid;
		return out;
	}
	wanted.tid = (wanted.device_index + 1) * LANE_DEVICE +
		     wanted.context % (LANE_DEVICE / LANE_CONTEXT) * LANE_CONTEXT +
		     wanted.stream % LANE_CONTEXT;
	*tid = wanted.tid;
	if (!lane)
		return out;
	while (lane_tid_taken(cache, wanted.tid))
		wanted.tid++;
	*lane = wanted;
	*tid = wanted.tid;
	return lane_line(source->json, out, lane, ns);
}

static char *put_pp_args(struct source *source, char *out, size_t bytes_at)
{
	const struct pfw_record *record = source->record;
	unsigned int index = PFW_PP_HEAD;
	char *brace = --out; /* each key begins with a comma: the first takes the brace's place */
	uint64_t left;

	for (left = record->value[1]; left; left &= left - 1) {
		const struct pp_key *key = &pp_keys[__builtin_ctzll(left)];
		uint64_t value = value_of(source, index++);

		out = pfw_text_put32(out, (const char *)key, key->bytes);
		if (is_text(key->type))
			out = put_tail_text(source, out, key->type, value, &bytes_at);
		else
			out = put_word(out, key->type, value);
		if (!out)
			return NULL;
	}
	if (record->flags & PFW_RECORD_WARMUP)
		out = pfw_text_put(out, ",\"phase\":\"warmup\"");
	else if (record->flags & PFW_RECORD_ACTIVE)
		out = pfw_text_put(out, ",\"phase\":\"active\"");
	if (out == brace)
		out++;
	*brace = '{';
	return out;
}

static char *pp_line(struct source *source, char *out, const struct shape_text *text, uint64_t tid)
{
	const struct pfw_record *record = source->record;
	struct pfw_json *json = source->json;
	uint32_t name = (uint32_t)record->value[0], bytes = 0;
	size_t bytes_at;
	struct times times;

	if (!pp_fits(source, &bytes_at))
		return NULL;
	/* A line must come of it, once a lane has been named: the strings fit at their longest. */
	pfw_string_text(source->json->strings, name, &bytes);
	if (STRING_ROOM(bytes + source->tail_bytes) + 2 * FIXED_ROOM > PFW_JSON_LINE_MAX)
		return NULL;
	times = times_of(json, record);
	out = pp_tid(source, out, &tid, times.start_ns);
	out = pfw_text_put(put_id(json, out), ",\"name\":");
	bytes = name ? 0 : record->file;
	out = put_title(source, out, name, bytes_at, bytes, "\"(unknown)\"");
	if (!out)
		return NULL;
	out = put_when(source, put_prefix(out, text), tid, &times);
	if (json->metadata)
		out = put_pp_args(source, out, bytes_at + bytes);
	return out ? finish(json, out, &times) : NULL;
}

/* ---- all of them ---- */

size_t pfw_json_cache_bytes(uint32_t template_count)
{
	return sizeof(struct pfw_json_cache) + template_count * sizeof(struct shape_text);
}

void pfw_json_init(struct pfw_json *json, void *cache_memory)
{
	json->cache = cache_memory;
	json->cache->template_count = json->templates->template_count;
	pfw_json_window(json);
}

void pfw_json_window(struct pfw_json *json)
{
	json->least_ns = UINT64_MAX;
	json->greatest_ns = 0;
	json->lines = 0;
}

char *pfw_json_record(struct pfw_json *json, char *out, const struct pfw_record *record,
		      const void *tail, size_t tail_bytes, uint64_t tid)
{
	struct source source = { json, record, tail, tail_bytes,
				 out + PFW_JSON_LINE_MAX - FIXED_ROOM };
	struct pfw_json_cache *cache = json->cache;
	struct shape_text *text;

	if (PFW_UNLIKELY(record->template >= cache->template_count || tail_bytes > TAIL_MAX))
		return NULL;
	text = &cache->shape[record->template];
	if (PFW_UNLIKELY(text->shape == PFW_SHAPE_NONE))
		make_shape(json, record->template);
	switch (text->shape) {
	case PFW_SHAPE_CALL:
		return call_line(&source, out, text, tid);
	case PFW_SHAPE_API:
		return api_line(&source, out, text, tid);
	case PFW_SHAPE_PP:
		return pp_line(&source, out, text, tid);
	default:
		return NULL;
	}
}

/* ---- the tracer's own lines ---- */

char *pfw_json_begin(struct pfw_json *json, char *out, const char *name, const char *ph,
		     uint64_t tid, uint64_t epoch_ns)
{
	const struct times times = { epoch_ns, epoch_ns, false };

	json->cache->own_is_event = *ph != 'M';
	count_times(json, &times);
	out = pfw_text_put(put_id(json, out), ",\"name\":");
	out = pfw_json_string(out, name, strlen(name), NULL);
	out = pfw_text_put(out, ",\"cat\":\"pfw\",\"pid\":");
	out = pfw_text_u64(out, json->pid);
	out = pfw_text_put(out, ",\"tid\":");
	out = pfw_text_u64(out, json->disable_tids ? json->pid : tid);
	out = put_ts(json, pfw_text_put(out, ",\"ts\":"), epoch_ns);
	out = pfw_text_put(out, ",\"ph\":");
	out = pfw_json_string(out, ph, strlen(ph), NULL);
	return pfw_text_put(out, ",\"args\":{");
}

char *pfw_json_end(struct pfw_json *json, char *out)
{
	json->next_id++;
	json->events += json->cache->own_is_event;
	return pfw_text_put(out, "}}\n");
}

static char *put_own_key(char *out, const char *key)
{
	out = pfw_json_string(put_comma(out), key, strlen(key), NULL);
	*out++ = ':';
	return out;
}

char *pfw_json_key_u64(char *out, const char *key, uint64_t value)
{
	return pfw_text_u64(put_own_key(out, key), value);
}

char *pfw_json_key_i64(char *out, const char *key, int64_t value)
{
	return pfw_text_i64(put_own_key(out, key), value);
}

char *pfw_json_key_str(char *out, const char *key, const char *text, size_t bytes)
{
	return pfw_json_string(put_own_key(out, key), text, bytes, NULL);
}

char *pfw_json_key_us(char *out, const char *key, uint64_t ns)
{
	return pfw_text_us(put_own_key(out, key), ns);
}
