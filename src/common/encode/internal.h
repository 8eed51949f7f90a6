/* common/encode/internal.h - what the parts of the encoder share.
 *
 * encode.c takes a record and makes the lines of calls, spans.c those of the program's own spans
 * and of compute events.  Both put a line together from its frame (frame.h) and from the texts that
 * its template has made (shapes.h).
 */
#pragma once

#include <string.h>

#include "common/base/os.h"
#include "common/encode/encode.h"
#include "common/encode/text.h"

_Static_assert(PFW_TYPE_I64 < PFW_TYPE_U64 && PFW_TYPE_U64 == 2, "whole numbers come first");

#define PFW_JSON_STRING_ROOM(bytes) (6u * (size_t)(bytes) + 2u)
/* Room of a line without its strings: the frame and 50 keys with numbers. */
#define PFW_JSON_FIXED_ROOM 8192u
#define PFW_JSON_MEMO_BYTES 248u
#define PFW_JSON_PIECE_BYTES 52u
#define PFW_JSON_MS 1000000u
#define PFW_JSON_NO_MS (1ull << 63) /* no time is within a millisecond of it */

/* `,"key":VALUE` as ready text.  Most values are those of the previous call or kernel (descriptor,
 * count, result; grid, stream): then one copy appends key and value. */
struct pfw_json_piece {
	uint64_t value; /* the value in the text */
	uint64_t seen;	/* the last other value; its text is kept when it comes again */
	uint8_t bytes;
	uint8_t key_bytes; /* 0: the value is not one word, or the key is too long */
	uint8_t type;
	uint8_t key; /* index of the key, for values that are no pieces */
	char text[PFW_JSON_PIECE_BYTES];
};

/* `,"key":` of at most 23 bytes with six characters each. */
struct pfw_json_key {
	uint8_t bytes; /* 0 = not made yet */
	uint8_t type;
	char text[158];
};

/* Ready texts of a template. */
struct pfw_json_shape {
	uint8_t shape; /* enum pfw_shape; NONE = not made yet, COUNT = invalid template */
	uint8_t field_count;
	uint8_t has_fd; /* the first field is the descriptor, written before ret */
	uint8_t unused;
	uint32_t prefix_bytes;
	char prefix[296]; /* ,"name":…,"cat":…,"pid":…,"tid": */
	/* ret, then the fields; API: [1] is parent. */
	struct pfw_json_piece piece[1 + PFW_TEMPLATE_FIELDS];
};

/* An escaped string.  The slot depends on the granule of the reference, not on its generation, and
 * the whole reference is compared.  So a reused cell replaces its old text; a stale hit needs the
 * same cell reused exactly 32,768 times with no line written for it in between. */
struct pfw_json_memo {
	uint32_t ref;
	uint8_t bytes;	   /* the string with its quotes */
	uint8_t b64_bytes; /* then the base64 text with its quotes, if it was not UTF-8 */
	uint16_t unused;
	char text[PFW_JSON_MEMO_BYTES];
};

struct pfw_json_lane {
	uint64_t tid; /* 0 = free */
	uint64_t device_index, context, stream;
	uint32_t name; /* reference to a string, 0 = none */
	bool named;    /* its thread_name line is written */
};

/* A named device, or a named context of a device. */
#define PFW_JSON_PLACES 32
struct pfw_json_place {
	uint64_t device_index, context;
	uint32_t name; /* 0 = free */
};

/* A decoded compute event: the values of its mask, and the offset of its strings in the tail. */
struct pfw_json_pp {
	uint64_t mask;
	uint64_t value[PFW_PP_BITS];
	size_t bytes_at;
};

struct pfw_json_cache {
	uint64_t id; /* the id in the text `{"id":12` */
	uint64_t id_bytes;
	char id_text[32];
	uint64_t tid; /* `123,"ts":` */
	uint64_t tid_bytes;
	char tid_text[32];
	uint64_t ms_ns; /* the millisecond in the text */
	uint64_t ms_bytes;
	char ms_text[32];
	struct pfw_clock_line clock;
	bool own_is_event; /* the line of pfw_json_begin() is not ph M */
	uint32_t template_count;
	char scratch[PFW_JSON_STRING_ROOM(PFW_JSON_MEMO_BYTES) + PFW_JSON_MEMO_BYTES * 2 +
		     PFW_JSON_SLACK];
	struct pfw_json_memo memo[PFW_JSON_MEMO];
	struct pfw_json_lane lane[PFW_JSON_LANES];
	struct pfw_json_place place[PFW_JSON_PLACES];
	struct pfw_json_key key[PFW_KEYS_MAX];
	struct pfw_json_piece pp[PFW_PP_BITS];
	struct pfw_json_shape shape[]; /* template_count of them */
};

/* A record with its tail. */
struct pfw_json_source {
	struct pfw_json *json;
	const struct pfw_record *record;
	const char *tail;
	size_t tail_bytes;
	const char *limit; /* strings must end before it */
	uint64_t tid;
};

/* Begin and end of a record in ns since the epoch. */
struct pfw_json_times {
	uint64_t start_ns;
	uint64_t end_ns;
	bool negative;
};

/* ---- spans.c: lines of two shapes; results as pfw_json_record() ---- */

char *pfw_json_api_line(struct pfw_json_source *source, char *out, struct pfw_json_shape *shape);
char *pfw_json_pp_line(struct pfw_json_source *source, char *out,
		       const struct pfw_json_shape *shape);

/* ---- lanes.c: the lanes of GPU streams ---- */

/* Set *tid if the event has another tid than the source.  Append the thread_name line before the
 * first event of a lane. */
char *pfw_json_pp_tid(struct pfw_json_source *source, const struct pfw_json_pp *pp, char *out,
		      uint64_t *tid, uint64_t ns);

/* Store the name of a stream, context or device.  Appends a line only if the thread_name line of
 * the stream's lane was written already. */
char *pfw_json_name_lane(struct pfw_json_source *source, const struct pfw_json_pp *pp, char *out,
			 uint64_t ns);

/* ---- value.c: strings of the spool and values that are not plain numbers ---- */

/* Append a string; NULL if it may not fit. */
char *pfw_json_put_string(char *out, const char *limit, const char *text, size_t bytes,
			  bool *valid);

/* Append a string of the spool, or the JSON text `otherwise` if there is none. */
char *pfw_json_put_ref(struct pfw_json_source *source, char *out, uint32_t ref,
		       const char *otherwise);

/* Append the value of fname, and fname_b64 if it is not UTF-8; NULL = no room. */
char *pfw_json_put_name(struct pfw_json_source *source, char *out, const char *text, size_t bytes);
char *pfw_json_put_name_ref(struct pfw_json_source *source, char *out, uint32_t ref);

/* Append a value of one word. */
char *pfw_json_put_word(char *out, unsigned int type, uint64_t value);

/* Append STRING or JSON: `value` bytes at *bytes_at of the tail.  Advances *bytes_at. */
char *pfw_json_put_tail(struct pfw_json_source *source, char *out, unsigned int type,
			uint64_t value, size_t *bytes_at);

/* ---- encode.c: steps ---- */

/* Append the step that the record began in and its phase, unless the record has its own. */
char *pfw_json_put_step(struct pfw_json *json, char *out, const struct pfw_record *record,
			bool has_step, bool has_phase);

/* ---- stack.c ---- */

/* Append lines for the modules of a stack that have none yet. */
char *pfw_json_put_modules(struct pfw_json_source *source, char *out, uint32_t stack,
			   uint64_t ts_ns);

/* Append the key `stack`; frames that do not fit are left out, and "..." says so. */
char *pfw_json_put_stack(struct pfw_json_source *source, char *out, uint32_t stack);

/* ---- small things ---- */

static inline bool pfw_json_is_text(unsigned int type)
{
	return type == PFW_TYPE_STRING || type == PFW_TYPE_JSON;
}

/* Value number `index`; the caller has checked that the tail holds it. */
static inline uint64_t pfw_json_value(const struct pfw_json_source *source, unsigned int index)
{
	uint64_t value;

	if (index < PFW_RECORD_VALUES)
		return source->record->value[index];
	memcpy(&value, source->tail + (index - PFW_RECORD_VALUES) * 8, 8);
	return value;
}

/* The offset in the tail of the bytes after so many values. */
static inline size_t pfw_json_values_end(unsigned int count)
{
	return count > PFW_RECORD_VALUES ? (count - PFW_RECORD_VALUES) * 8 : 0;
}

/* The slot of a reference, by a hash of its granule. */
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

/* The comma before a key of args, unless it is the first. */
static inline char *pfw_json_put_comma(char *out)
{
	if (out[-1] != '{')
		*out++ = ',';
	return out;
}
