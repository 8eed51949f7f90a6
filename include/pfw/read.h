/* pfw/read.h - traces as Arrow data: libpfwread.so.1.
 *
 * The library gives the lines of traces that meet conditions as record batches, through Arrow's C
 * stream interface.  pyarrow, polars, duckdb, R, Julia, Rust and Arrow's own C++ and Go libraries
 * read such a stream.  docs/read.rst has the columns, the options and a program.
 *
 *	struct pfw_read *read = pfw_read_new();
 *	struct ArrowArrayStream stream;
 *
 *	pfw_read_path(read, "t");
 *	pfw_read_set(read, "where", "args.ret < 0");
 *	if (pfw_read_stream(read, &stream))
 *		fprintf(stderr, "%s\n", pfw_read_error(read));
 *
 * The library does not need libpfw.so.1.  It records nothing and prints nothing.  It reads with
 * several threads, which end before a call returns.  Its memory does not grow with the traces.
 * Functions return 0 or -errno; pfw_read_error() then has the text of the error.
 *
 * Threads: one at a time for one struct pfw_read and its streams.  Several may be in use at a time.
 * After fork() the child may not use those of its parent.
 *
 * Functions are only added: none is removed or changed (symbols of version PFW_READ_1).
 */
#ifndef PFW_READ_H
#define PFW_READ_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef PFW_READ_API
#define PFW_READ_API __attribute__((visibility("default")))
#endif

/* ---- Arrow's C data interface and C stream interface, as Arrow specifies them ---- */

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
	const char *format;
	const char *name;
	const char *metadata;
	int64_t flags;
	int64_t n_children;
	struct ArrowSchema **children;
	struct ArrowSchema *dictionary;
	void (*release)(struct ArrowSchema *);
	void *private_data;
};

struct ArrowArray {
	int64_t length;
	int64_t null_count;
	int64_t offset;
	int64_t n_buffers;
	int64_t n_children;
	const void **buffers;
	struct ArrowArray **children;
	struct ArrowArray *dictionary;
	void (*release)(struct ArrowArray *);
	void *private_data;
};

#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
	int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
	int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
	const char *(*get_last_error)(struct ArrowArrayStream *);
	void (*release)(struct ArrowArrayStream *);
	void *private_data;
};

#endif

/* ---- what to read ---- */

struct pfw_read; /* opaque */

/* Make a reader of all lines of the newest run in the working directory.  The functions below
 * change what it reads.  Return NULL if there is no memory. */
PFW_READ_API struct pfw_read *pfw_read_new(void);

/* Free a reader; NULL is allowed.  Its streams stay valid: each has a release() of its own. */
PFW_READ_API void pfw_read_free(struct pfw_read *read);

/* Add a PATH, as the commands take it: a file (.pfw, .pfw.gz, ours or DFTracer's), a directory, a
 * glob, the base name of a run, or "-" (standard input).  Return 0 or -ENOMEM. */
PFW_READ_API int pfw_read_path(struct pfw_read *read, const char *path);

/*
 * Set an option.  Conditions have the names and values of the options of `pfw query`:
 *
 *	since, until, min-dur           "50%", "+12s", "5ms"; the last value counts
 *	cat, name, fname                globs; of several of one option, one must match
 *	rank, pid, tid, step            "0,8-15"; the same
 *	where                           an expression; of several, all must be true
 *	meta, all-runs                  "1": also the tracer's own lines; also older runs
 *	columns                         "ts,dur,name,args.fname", in that order; "": all
 *	jobs                            how many threads read; "0": one for each CPU, at most 8
 *	batch-rows                      the least rows of each batch but the last; "0": any
 *	part                            one part of pfw_read_divide(); "": all
 *
 * Return 0; -EINVAL if there is no such option or value; -ENOMEM.
 */
PFW_READ_API int pfw_read_set(struct pfw_read *read, const char *option, const char *value);

/* ---- reading ---- */

/*
 * Open the traces and make a stream of record batches, in the order of `pfw query`.  Each call
 * makes a stream from the first line on.  The caller ends it by stream->release().  Damaged lines
 * are left out and counted: see pfw_read_problems().  get_next() returns an errno (ENOMEM, EINTR)
 * only if there can be no further batch.  Return 0; -ENOENT if there is no trace, or no such step;
 * -ERANGE if a time is relative and no line has a time; -ESTALE if `part` is of traces that have
 * changed; -ENOMEM.  After an error there is nothing to release.
 */
PFW_READ_API int pfw_read_stream(struct pfw_read *read, struct ArrowArrayStream *stream);

/*
 * Divide the lines into parts, which several processes, also on several machines, can read.  each()
 * is called for one part after the other, in order, with its name and with bounds of the ts of its
 * lines (INT64_MIN, INT64_MAX: unknown).  A part has up to `blocks` blocks of about 1 MiB of text;
 * a compressed file of another program is one part.  A reader with the same paths and conditions,
 * and with the option "part", reads that part only.  All parts, in order, have all lines.
 * pfw_read_stream() of a part returns -ESTALE if the traces have changed.  Errors: as for
 * pfw_read_stream().
 */
typedef void pfw_read_each(void *user, const char *part, int64_t least_ns, int64_t greatest_ns);
PFW_READ_API int pfw_read_divide(struct pfw_read *read, uint64_t blocks, pfw_read_each *each,
				 void *user);

/*
 * Make the table of a command as a stream of one record batch.  The commands are "table",
 * "overlap", "patterns", "memory" and "compare".  The columns are those of `pfw COMMAND --format
 * csv`: durations are float64 in µs, moments (`ts`) int64 in ns, counts and sizes int64, texts
 * dictionaries.  `options` has names and values of the command's options in turn, then NULL:
 * { "group-by", "fname", "row-limit", "20", NULL }; an option without a value has "1".  NULL: none.
 * Without row-limit there are all rows.  Conditions, all-runs and jobs are set by pfw_read_set(),
 * as far as the command has them.  "memory" also has the option "rows": "device" (the default),
 * "step", "owner", "unfreed" or "time".  The sides of "compare" are two paths, or several with the
 * path "--" between them.  The call writes no file, and no index.
 *
 * -EINVAL: there is no such command, option or value, or no trace; -EINTR: pfw_read_stop() was
 * called; other errors as for pfw_read_stream().
 */
PFW_READ_API int pfw_read_table(struct pfw_read *read, const char *command,
				const char *const *options, struct ArrowArrayStream *stream);

/* Stop all reading of `read`, now and later: pfw_read_table() returns -EINTR, and get_next() of its
 * streams returns EINTR.  Thread: any.  Signal: safe. */
PFW_READ_API void pfw_read_stop(struct pfw_read *read);

/* The number of lines, gzip members and files that the streams of `read` could not read so far,
 * and of messages of pfw_read_table().  pfw_read_problem() returns the text of one of the first
 * 100, "FILE:LINE: what and why", counted from 0, or NULL.  The text is valid until
 * pfw_read_free(). */
PFW_READ_API uint64_t pfw_read_problems(const struct pfw_read *read);
PFW_READ_API const char *pfw_read_problem(const struct pfw_read *read, uint64_t number);

/* The text of the last error, or "".  It is valid until the next call with `read`. */
PFW_READ_API const char *pfw_read_error(const struct pfw_read *read);

/* The version of the library, as pfw_version(): "0.1.0".  Thread: any. */
PFW_READ_API const char *pfw_read_version(void);

#ifdef __cplusplus
}
#endif

#endif
