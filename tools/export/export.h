/* tools/export/export.h - what the formats of `pfw export` share.
 *
 * Room tools/export: lines in order of time, and the formats csv, dftracer, folded, svg and
 * speedscope.  It may use tools/ui, tools/share and the store.  tools/chrome and tools/perfetto are
 * further formats on top of it.  Start with export.c, then ordered.c and a format.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "share/survey.h"
#include "store/json/emit.h"
#include "store/line/entry.h"
#include "store/read/blocks.h"
#include "store/read/scan.h"
#include "store/read/stream.h"
#include "store/select/select.h"
#include "store/traces/traces.h"
#include "ui/cli.h"
#include "ui/output.h"

/* ---- the wanted lines of many traces in order of ts (ordered.c) ----
 *
 * Of lines with the same ts the longest span comes first, so that a span precedes the spans in it;
 * of spans with identical times the outer one.
 */

/* More lines of one of the traces, in another file. */
struct pfw_ordered_more {
	size_t file; /* index of the trace */
	const char *path;
	struct pfw_blocks blocks;
};

struct pfw_ordered {
	const struct pfw_traces *traces;
	const size_t *file; /* indices of the traces to read; NULL: all */
	size_t count;
	const struct pfw_ordered_more *more; /* only for traces that are read */
	size_t more_count;
	const struct pfw_select *select; /* resolved */
	unsigned jobs;
	const _Atomic bool *stop; /* set by a signal handler; may be NULL */
	void *user;
	/* Forget all lines taken so far: they come again.  An -errno ends the run. */
	int (*again)(void *user);
	/* Take a line.  An -errno ends the run. */
	int (*line)(void *user, size_t file, const struct pfw_entry *entry);
	void (*problem)(void *user, size_t file, const struct pfw_scan_problem *problem);
	void (*progress)(void *user, uint64_t bytes, uint64_t all); /* may be NULL */
};

/* Run it in about 160 MiB of memory; more data goes to a temporary file.  Metadata lines (ph M) are
 * included if select->meta is set.  Return 0, -EINTR, -ENOMEM, the result of a callback, or the
 * error of the file *where.  Thread: any; starts jobs - 1 threads and joins them. */
int pfw_ordered_run(const struct pfw_ordered *ordered, const char **where);

/* Distance between the lanes of one thread: larger than any Linux tid. */
#define EXPORT_LANE 10000000u

/* ---- the output file (sink.c) ---- */

struct export_gzip;

struct export_sink {
	struct output *output;
	struct pfw_buffer text;	  /* not written yet */
	struct export_gzip *gzip; /* NULL: no compression */
};

/* Open the file at `path` (NULL: standard output), compressed if it ends in .gz.  Return CLI_OK, or
 * CLI_USAGE after a message. */
int export_sink_open(struct export_sink *sink, struct output *output, const char *path, bool force);

/* Room for `bytes` more, or NULL without memory.  export_sink_used() takes what was put there, up
 * to `end`: 0, or -errno after a message. */
char *export_sink_room(struct export_sink *sink, size_t bytes);
int export_sink_used(struct export_sink *sink, const char *end);

int export_sink_text(struct export_sink *sink, const char *text);

/* Truncate the file to write it anew; -ESPIPE: it is no regular file. */
int export_sink_again(struct export_sink *sink);

/* Write the rest.  0 or -errno. */
int export_sink_end(struct export_sink *sink);
void export_sink_free(struct export_sink *sink);

/* ---- the formats ---- */

struct export_options {
	bool merge, absolute;
	const char *weight; /* of stacks: host, device or count */
};

/* What goes into one output file. */
struct export_job {
	const struct export_options *options;
	const struct pfw_traces *traces;
	const struct pfw_fname_hashes *fnames; /* for DFTracer's traces; else NULL */
	const size_t *file;		       /* indices of traces */
	size_t count;
	struct export_sink *sink;
};

struct export_format {
	const char *name;
	bool meta;	/* also takes metadata lines */
	bool binary;	/* not for a terminal */
	bool one_rank;	/* takes several ranks only with --merge */
	bool directory; /* -o is a directory with a file per rank */
	/* Of the state for the functions below: all zero but for the job, its first member. */
	size_t state_bytes;
	/* Begin; NULL: nothing to do.  0 or -ENOMEM. */
	int (*begin)(void *state);
	/* Take a line.  They come in order of ts, a span before those inside it.  0 or -errno. */
	int (*line)(void *state, size_t file, const struct pfw_entry *entry);
	/* Finish after the last line; NULL: nothing to do.  0 or -errno. */
	int (*end)(void *state);
	/* Free what the state holds, also after begin() has failed; NULL: nothing. */
	void (*release)(void *state);
};

extern const struct export_format export_chrome, export_csv, export_dftracer, export_folded,
	export_perfetto, export_speedscope, export_svg, export_tensorboard;

/* ---- args of a line (args.c) ---- */

/* All args of a line. */
struct export_arg {
	struct pfw_slice key;
	struct pfw_value value;
};

struct export_args {
	struct export_arg *arg;
	size_t count, room;
};

/* Read the args of an entry.  0 or -ENOMEM. */
int export_args_read(struct export_args *args, const struct pfw_entry *entry);

/* Add args.fname to an event of DFTracer, which names its file by a hash.  0 or -ENOMEM. */
int export_args_fname(struct export_args *args, const struct export_job *job,
		      const struct pfw_entry *entry);

/* The arg of a key, or NULL. */
struct export_arg *export_args_find(const struct export_args *args, const char *key);
/* A number as a double. */
double export_double(const struct pfw_value *value);

void export_args_free(struct export_args *args);

/* Append `"name":`. */
static inline char *export_key(char *at, const char *name)
{
	*at++ = '"';
	at = pfw_emit(at, name);
	return pfw_emit(at, "\":");
}

/* Append a value as it stands in the line; append `"key":` and the value. */
char *export_value(char *at, const struct pfw_value *value);
char *export_arg_as_is(char *at, const struct export_arg *arg);
