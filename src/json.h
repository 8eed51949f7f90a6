/* json.h - record <-> one line; no I/O, no malloc, every string escaped.
 *
 * The writer and recovery turn records into lines with the same code.  Lines are DESIGN section 3's:
 * keys id name cat pid tid ts dur ph args, in this order.
 */
#ifndef PFW_JSON_H
#define PFW_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clock.h"
#include "spool.h"

/* Longest line one record can make: 255 slots of control bytes, six characters each, and twice
 * (raw and base64) for names that are not UTF-8; with the fixed part.  A caller's buffer must have
 * this much room, and PFW_JSON_SLACK behind it for the copies that write ahead. */
#define PFW_JSON_LINE_MAX (160u * 1024u)
#define PFW_JSON_SLACK 256u

#define PFW_JSON_LANES 256 /* device streams with a number and a name of their own */
#define PFW_JSON_MEMO 64   /* escaped names kept */

/* Where strings are: the segments of a spool, as mapped here.  NULL = not there. */
struct pfw_string_view {
	const char *segment[PFW_STRING_SEGMENTS];
};

/* The text behind a reference, or NULL where it is stale or out of bounds.  *bytes gets its length.
 * Thread: any.  Signal: safe. */
const char *pfw_string_text(const struct pfw_string_view *view, uint32_t ref, uint32_t *bytes);

/* All that turns records into lines; one a writer.  Everything in it is derived: it may be rebuilt
 * at any time with pfw_json_init(). */
struct pfw_json {
	const struct pfw_template_chunk *templates;
	const struct pfw_string_view *strings;
	const struct pfw_clock_map *clock;
	const struct pfw_steps_chunk *steps; /* NULL = no schedule */
	uint64_t step_hint;		     /* the mark found last */
	uint64_t pid;
	uint64_t next_id;
	uint64_t events;   /* lines written that are not ph M */
	uint64_t negative; /* durations that were negative and became 0 */
	uint64_t least_ns; /* least ts and greatest end since pfw_json_window() */
	uint64_t greatest_ns;
	uint64_t lines; /* since pfw_json_window() */
	bool whole_us;
	bool metadata;
	bool disable_tids;
	struct pfw_json_cache *cache; /* prefixes, escaped names, lanes, seconds: json.c */
};

/* Bytes of memory that pfw_json_init() needs for the caches, for that many templates. */
size_t pfw_json_cache_bytes(uint32_t template_count);

/*
 * Make *json ready; the caller has set templates, strings, clock, pid, next_id, whole_us, metadata
 * and disable_tids, and gives pfw_json_cache_bytes() of zeroed memory.  Thread: drain.  Signal: safe.
 */
void pfw_json_init(struct pfw_json *json, void *cache_memory);

/* Start a new window for least_ns, greatest_ns and lines (a gzip member, a write). */
void pfw_json_window(struct pfw_json *json);

/*
 * Write the line (and, for the first event of a device lane, the thread_name line before it) of the
 * record that begins at `record`, whose tail is `tail_bytes` bytes at `tail` (contiguous).  Return
 * the end of what was written, at most PFW_JSON_LINE_MAX behind out.  A record that no template
 * explains, or whose lengths do not fit, writes nothing and returns NULL: the caller counts it.  One
 * that is no event (PFW_RECORD_LANE_NAME) may write nothing and return out.
 * Thread: drain.  Signal: safe.  Any bytes in the record make a valid line or NULL.
 */
char *pfw_json_record(struct pfw_json *json, char *out, const struct pfw_record *record,
		      const void *tail, size_t tail_bytes, uint64_t tid);

/*
 * The head and the tail of a line of the tracer's own: {"id":…,"name":NAME,"cat":"pfw","pid":…,
 * "tid":…,"ts":…,"ph":PH,"args":{ then the caller's keys with the helpers below, then }}\n.
 * pfw_json_end() counts the line.
 */
char *pfw_json_begin(struct pfw_json *json, char *out, const char *name, const char *ph,
		     uint64_t tid, uint64_t epoch_ns);
char *pfw_json_end(struct pfw_json *json, char *out);

/* One more key of args, with the comma where one is due. */
char *pfw_json_key_u64(char *out, const char *key, uint64_t value);
char *pfw_json_key_i64(char *out, const char *key, int64_t value);
char *pfw_json_key_str(char *out, const char *key, const char *text, size_t bytes);
/* "fname", and "fname_b64" where that does not say it exactly; text NULL: null. */
char *pfw_json_key_fname(char *out, const char *text, size_t bytes);
char *pfw_json_key_us(char *out, const char *key, uint64_t ns); /* µs with three decimals */

/* Append text as a JSON string with its quotes; invalid UTF-8 becomes U+FFFD.  *valid (may be NULL)
 * says whether it was valid UTF-8.  At most 6 * bytes + 2 written, and PFW_JSON_SLACK ahead. */
char *pfw_json_string(char *out, const char *text, size_t bytes, bool *valid);

/* Append a number in decimal; 20 digits at most, 8 bytes of slack. */
char *pfw_json_u64(char *out, uint64_t value);
char *pfw_json_i64(char *out, int64_t value);

/* Whether text is exactly one JSON value (RFC 8259), nested at most 64 deep.  Not so what makes
 * readers refuse the whole file: lone surrogates, and numbers that a double cannot hold. */
bool pfw_json_valid(const char *text, size_t bytes);

/* errno's name ("ENOENT"), or NULL for a number that Linux does not have. */
const char *pfw_errno_name(int error);

/* The name of an enum pfw_kind of pfw.h, or NULL. */
const char *pfw_kind_name(uint64_t kind);

#endif
