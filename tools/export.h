/* export.h - `pfw export`: the half that its formats share. */
#ifndef PFW_EXPORT_H
#define PFW_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "cli.h"
#include "live_lines.h"
#include "output.h"
#include "store/entry.h"
#include "store/ordered.h"
#include "store/select.h"
#include "store/stream.h"
#include "store/traces.h"

/* Lanes of one thread lie so far apart: more than any Linux tid. */
#define EXPORT_LANE 10000000u

/* ---- where the text goes (export_sink.c) ---- */

struct export_gzip;

struct export_sink {
	struct output *output;
	struct pfw_text text;	  /* not written yet */
	struct export_gzip *gzip; /* NULL: plain */
};

/* The file at `path` (NULL: standard output), gzip where its name ends in .gz.  CLI_OK, or CLI_USAGE
 * after saying why. */
int export_sink_open(struct export_sink *sink, struct output *output, const char *path, bool force);

/* Room for `bytes` more, or NULL: no memory.  What was put there counts from export_sink_used() on:
 * 0, or -errno (said). */
char *export_sink_room(struct export_sink *sink, size_t bytes);
int export_sink_used(struct export_sink *sink, const char *end);

int export_sink_text(struct export_sink *sink, const char *text);

/* Begin the file anew; -ESPIPE where that cannot be. */
int export_sink_again(struct export_sink *sink);

/* Write all that is left.  0 or -errno. */
int export_sink_end(struct export_sink *sink);
void export_sink_free(struct export_sink *sink);

/* ---- what has not been written yet (export_live.c) ---- */

struct export_live_file;

/* Fill in lines.command and .traces, and open the lines; all else zero. */
struct export_live {
	struct live_lines lines;
	struct export_live_file *file;
	struct pfw_ordered_more *more; /* of each */
	size_t count;
};

/* Have the lines in temporary files.  0 or -errno. */
int export_live_read(struct export_live *live, const volatile bool *stop);

/* Those of some files of the traces: how many there are in more[], which has room for all. */
size_t export_live_of(const struct export_live *live, const size_t *file, size_t count,
		      struct pfw_ordered_more *more);
void export_live_close(struct export_live *live);

/* ---- the formats ---- */

struct export_options {
	bool merge, absolute;
	const char *weight; /* of folded stacks: host, device or count */
};

/* What one file of output is made of. */
struct export_job {
	const struct export_options *options;
	const struct pfw_traces *traces;
	const struct pfw_fnames *fnames; /* of DFTracer's traces, or NULL */
	const size_t *file;		 /* of traces */
	size_t count;
	struct export_sink *sink;
};

struct export_format {
	const char *name;
	bool meta;	/* wants lines of metadata, too */
	bool one_rank;	/* ranks make one timeline with --merge only */
	bool directory; /* -o is a folder, with a file for each rank */
	/* Begin: a state for the three below, or NULL: no memory. */
	void *(*begin)(const struct export_job *job);
	/* A line, in order of ts, a span before what lies in it.  0 or -errno. */
	int (*line)(void *state, size_t file, const struct pfw_entry *entry);
	/* All were given. */
	int (*end)(void *state);
	void (*free)(void *state);
};

extern const struct export_format export_chrome, export_csv, export_dftracer, export_folded,
	export_perfetto, export_tensorboard;

/* ---- what they share (export_args.c) ---- */

/* The args of a line, however many. */
struct export_arg {
	struct pfw_slice key;
	struct pfw_value value;
};

#define EXPORT_SHAPES 1024u
struct export_args {
	struct export_arg *arg;
	size_t count, room;
	char usual[256]; /* text of what has been put back */
	struct export_shape {
		uint64_t hash;
		uint8_t bytes;
		char text[15];
	} shape[EXPORT_SHAPES]; /* of kernels, and their occupancy */
};

/* Take them out of the entry; what lines of GPU work leave out is put back.  0 or -ENOMEM. */
int export_args_read(struct export_args *args, const struct pfw_entry *entry);

/* The same, as they stand. */
int export_args_read_raw(struct export_args *args, const struct pfw_entry *entry);

/* Its parts: one more, which is kept as it is; the one of that key, or NULL; what is left out. */
int export_args_add(struct export_args *args, struct pfw_slice key, const struct pfw_value *value);
struct export_arg *export_args_find(const struct export_args *args, const char *key);
int export_args_complete(struct export_args *args, const struct pfw_entry *entry);
void export_args_free(struct export_args *args);

/* Append the value as it stands in the line. */
char *export_value(char *at, const struct pfw_value *value);

/* Append `"key":` and the value. */
char *export_arg_as_is(char *at, const struct export_arg *arg);

#endif
