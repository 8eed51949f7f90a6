/* common/encode/encode.h - turns a record into a line of JSON: no I/O, no malloc.
 *
 * Room common/encode: lines of a trace from records, and the tracer's own lines; the writer and
 * recovery share it.  It uses common/base and common/format.  Start here, then encode.c.
 *
 * The keys of a line are id name cat pid tid ts dur ph args, in this order (docs/format.rst).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/format/clock.h"
#include "common/format/spool.h"
#include "common/format/stacks.h"

/* The longest line of a record: 255 slots of control bytes with six characters each, a name that is
 * not UTF-8 twice (escaped and as base64), and the fixed part.  Buffers need PFW_JSON_SLACK more,
 * for copies that write past the end of the line. */
#define PFW_JSON_LINE_MAX (160u * 1024u)
#define PFW_JSON_SLACK 256u

#define PFW_JSON_LANES 256 /* device streams with their own number and name */
#define PFW_JSON_MEMO 64   /* escaped names kept */

/* State of an encoder, one for each writer.  It can be rebuilt at any time by pfw_json_init(). */
struct pfw_json {
	const struct pfw_template_chunk *templates;
	const struct pfw_string_view *strings;
	const struct pfw_clock_map *clock;
	const struct pfw_steps_chunk *steps; /* NULL = no schedule */
	struct pfw_stacks_chunk *stacks;     /* NULL = none; gets the ids of its modules' lines */
	uint64_t step_hint;		     /* the mark that find() found last */
	uint64_t pid;
	uint64_t next_id;
	uint64_t events;   /* lines written that are not ph M */
	uint64_t untraced; /* children that are not traced */
	uint64_t negative; /* durations that were negative and became 0 */
	uint64_t least_ns; /* least ts and greatest end since pfw_json_window() */
	uint64_t greatest_ns;
	uint64_t lines; /* since pfw_json_window() */
	bool whole_us;
	bool metadata;
	bool disable_tids;
	struct pfw_json_cache *cache; /* ready texts: internal.h */
};

/* Size of the cache for so many templates. */
size_t pfw_json_cache_bytes(uint32_t template_count);

/* Finish *json: the caller has set templates, strings, clock, pid, next_id, whole_us, metadata and
 * disable_tids; cache_memory is pfw_json_cache_bytes() of zeroes.  Thread: drain.  Signal: safe. */
void pfw_json_init(struct pfw_json *json, void *cache_memory);

/* Start a new window for least_ns, greatest_ns and lines (a gzip member, a write). */
void pfw_json_window(struct pfw_json *json);

/* Write the line of a record, after a thread_name line if it is the first event of a device lane.
 * The tail is `tail_bytes` contiguous bytes.  Return the end of the text, at most PFW_JSON_LINE_MAX
 * after out; NULL if the record has no template or wrong lengths (the caller counts it).  A record
 * that is no event (PFW_RECORD_LANE_NAME) may write nothing and return out.
 * Thread: drain.  Signal: safe.  Any bytes in the record give a valid line or NULL. */
char *pfw_json_record(struct pfw_json *json, char *out, const struct pfw_record *record,
		      const void *tail, size_t tail_bytes, uint64_t tid);

/* Begin and end one of the tracer's own lines:
 * {"id":…,"name":NAME,"cat":"pfw","pid":…,"tid":…,"ts":…, "ph":PH,"args":{ and }}\n.  The functions
 * below append keys in between.  pfw_json_end() counts the line. */
char *pfw_json_begin(struct pfw_json *json, char *out, const char *name, const char *ph,
		     uint64_t tid, uint64_t epoch_ns);
char *pfw_json_end(struct pfw_json *json, char *out);

/* Append a key of args and its value, after a comma if it is not the first. */
char *pfw_json_key_u64(char *out, const char *key, uint64_t value);
char *pfw_json_key_i64(char *out, const char *key, int64_t value);
char *pfw_json_key_str(char *out, const char *key, const char *text, size_t bytes);
/* "fname", and "fname_b64" if the name is not UTF-8; text NULL: null. */
char *pfw_json_key_fname(char *out, const char *text, size_t bytes);
char *pfw_json_key_us(char *out, const char *key, uint64_t ns); /* µs with three decimals */

/* Append text as a JSON string with quotes; invalid UTF-8 becomes U+FFFD.  *valid (may be NULL):
 * whether the text was UTF-8.  Writes at most 6 * bytes + 2, and PFW_JSON_SLACK past the end. */
char *pfw_json_string(char *out, const char *text, size_t bytes, bool *valid);

/* Whether text is exactly one JSON value (RFC 8259) with a depth of at most 64.  False for values
 * that make readers refuse the whole file: lone surrogates, and numbers beyond a double. */
bool pfw_json_valid(const char *text, size_t bytes);
