/* store/partial/partial.h - FILE.partial: what commands need of traces, without the traces.
 *
 * Room store/partial: the container that `pfw index --partial` writes (docs/index_format.rst): of
 * each trace its facts (text: store/traces/partials.h) and its index (store/index/alone.h), both
 * deflated.  This room does not interpret them.  It may use store/{kit,sys}.  Start here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define PFW_PARTIAL_SUFFIX ".partial"

/* Limits of the inflated facts and the inflated index of one trace. */
#define PFW_PARTIAL_FACTS_MAX (64u << 20)
#define PFW_PARTIAL_INDEX_MAX (256u << 20)

/* Whether a name is that of a partial. */
bool pfw_partial_is_name(const char *path);

/* Where a trace is in a partial. */
struct pfw_partial_unit {
	uint64_t at; /* of its facts; the index follows */
	uint32_t facts_packed, facts_bytes, index_packed, index_bytes;
	uint32_t facts_crc, index_crc; /* of the packed bytes */
};

/* ---- reading ---- */

struct pfw_partial {
	int fd;
	struct stat st;
	uint64_t units, bytes; /* as its header says */
	uint64_t unit, at;     /* the next one */
};

/* Open a partial for pfw_partial_close().  0; -EBADMSG: it is none, or cut; or -errno; with a
 * constant text in *why.  Thread: any, as all here. */
int pfw_partial_open(struct pfw_partial *partial, const char *path, const char **why);
void pfw_partial_close(struct pfw_partial *partial);

/* The next trace: 1, 0 after the last, or -EBADMSG. */
int pfw_partial_next(struct pfw_partial *partial, struct pfw_partial_unit *unit);

/* Inflate the facts or the index into *out, to be freed, with `padding` zero bytes after it.  0,
 * -EBADMSG or -errno. */
int pfw_partial_facts(const struct pfw_partial *partial, const struct pfw_partial_unit *unit,
		      size_t padding, char **out);
int pfw_partial_index(const char *path, const struct pfw_partial_unit *unit, unsigned char **out);

/* ---- writing ---- */

struct pfw_partial_writer; /* opaque: see write.c; one thread at a time */

/* Begin a file under a temporary name.  0 with *out for pfw_partial_end(), or -errno: -EEXIST if
 * there is a file of that name that is no partial. */
int pfw_partial_begin(struct pfw_partial_writer **out, const char *path);

/* Add a trace.  0 or -errno; -EFBIG: more than the above. */
int pfw_partial_add(struct pfw_partial_writer *writer, const char *facts, size_t facts_bytes,
		    const void *index, size_t index_bytes);

/* Add a trace of another partial as it is, after checking its CRC.  0, -EBADMSG or -errno. */
int pfw_partial_copy(struct pfw_partial_writer *writer, const char *path,
		     const struct pfw_partial_unit *unit);

/* Restrict the permissions to those of one more trace. */
void pfw_partial_mode(struct pfw_partial_writer *writer, mode_t mode);

/* Write the header, sync and rename; once.  0 or -errno. */
int pfw_partial_commit(struct pfw_partial_writer *writer);

/* Free the writer, and remove an unfinished file. */
void pfw_partial_end(struct pfw_partial_writer *writer);
