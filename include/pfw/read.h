/* pfw/read.h - traces as Arrow data: libpfwread.so.1.
 *
 * Gives the lines of traces that fulfil conditions as record batches, through Arrow's C stream
 * interface, which pyarrow, polars, duckdb, R, Julia, Rust and Arrow's own C++ and Go libraries take
 * as it is.  docs/read.rst has the columns, the options and a program.
 *
 *	struct pfw_read *read = pfw_read_new();
 *	struct ArrowArrayStream stream;
 *
 *	pfw_read_path(read, "t");
 *	pfw_read_set(read, "where", "args.ret < 0");
 *	if (pfw_read_stream(read, &stream))
 *		fprintf(stderr, "%s\n", pfw_read_error(read));
 *
 * The library needs libpfw.so.1 neither to build nor to run, records nothing and prints nothing.  It
 * reads with several threads, which have ended when a call returns.  Memory does not grow with the
 * traces.  Functions return 0 or -errno, with the text of the error in pfw_read_error().
 *
 * Threads: one at a time for one struct pfw_read and its streams; different ones may be used at the
 * same time.  A child made by fork() may not use what its parent has opened.
 *
 * What is here stays: functions are only added, and never change (symbols of version PFW_READ_1).
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

/* Everything of the newest run in the working directory, until the functions below say otherwise.  NULL:
 * no memory. */
PFW_READ_API struct pfw_read *pfw_read_new(void);

/* Free it; NULL: nothing.  Its streams stay, and are released by themselves. */
PFW_READ_API void pfw_read_free(struct pfw_read *read);

/* Add what PATH means to the commands: a file (.pfw, .pfw.gz, ours or DFTracer's), a directory, a
 * glob, the base name of a run, or "-".  -ENOMEM. */
PFW_READ_API int pfw_read_path(struct pfw_read *read, const char *path);

/*
 * Set an option; the value of a condition is a text as for the option of `pfw query` with that name:
 *
 *	since, until, min-dur           "50%", "+12s", "5ms"; the last one given counts
 *	cat, name, fname                globs; of several of one kind, one has to match
 *	rank, pid, tid, step            "0,8-15"; the same
 *	where                           an expression; of several, all have to be true
 *	meta, all-runs                  "1": also the tracer's own lines; also older runs
 *	columns                         "ts,dur,name,args.fname", in that order; "": all
 *	jobs                            how many threads read; "0": one for each CPU, at most 8
 *	part                            one part of pfw_read_divide(); "": all
 *
 * -EINVAL: no such option, or no such value; -ENOMEM.
 */
PFW_READ_API int pfw_read_set(struct pfw_read *read, const char *option, const char *value);

/* ---- reading ---- */

/*
 * Open the traces and give a stream of record batches, in the order of `pfw query`; each call gives a
 * stream from the begin.  *stream is the caller's, to be ended by stream->release().  Its get_next()
 * returns an errno, ENOMEM, only if no further batch can be given; what is damaged is left out and
 * counted: pfw_read_problems().  -ENOENT: no trace, or no such step; -ERANGE: a relative time, and no
 * line has one; -ENOMEM; after any error there is nothing to release.
 */
PFW_READ_API int pfw_read_stream(struct pfw_read *read, struct ArrowArrayStream *stream);

/*
 * Divide what is asked for, so that several processes, also of several machines, can read it.  each() is
 * called for each part, in order, with its name and with bounds of the ts of its lines (INT64_MIN,
 * INT64_MAX: unknown); it returns before the next call.  A part is up to `blocks` blocks, of about 1 MiB
 * of text each; a compressed file that is not of pfw is one part.  A reader with the same paths and
 * conditions and with the option "part" reads that part only, and the parts' lines, in order, are all
 * lines.  Its pfw_read_stream() returns -ESTALE if the traces have changed meanwhile.  Errors: as of
 * pfw_read_stream().
 */
typedef void pfw_read_each(void *user, const char *part, int64_t least_ns, int64_t greatest_ns);
PFW_READ_API int pfw_read_divide(struct pfw_read *read, uint64_t blocks, pfw_read_each *each,
				 void *user);

/*
 * Make the table of a command, "table", "overlap", "patterns", "memory" or "compare", and give it as a stream
 * of one record batch: the columns of `pfw COMMAND --format csv`, with durations as float64 in µs, moments (`ts`) as int64
 * in ns, counts and sizes as int64, texts as dictionaries.  `options` are those of the command that are no
 * conditions, name and value in turn, then NULL: { "group-by", "fname", "row-limit", "20", NULL }; of one
 * without a value "1".  NULL: none.  Without row-limit, all rows.  Conditions, all-runs and jobs are those of
 * pfw_read_set(), as far as the command has them.  "memory" has the option "rows", too: "device" (the
 * default), "step", "owner", "unfreed" or "time"; the sides of "compare" are two paths, or several with the path
 * "--" between them.  Nothing is written, and no index left behind.
 *
 * -EINVAL: there is no such command, option or value, or no trace; -EINTR: after pfw_read_stop(); else as
 * pfw_read_stream().
 */
PFW_READ_API int pfw_read_table(struct pfw_read *read, const char *command,
				const char *const *options, struct ArrowArrayStream *stream);

/* End what `read` does, and all that follows: pfw_read_table() returns -EINTR, get_next() of its streams EINTR.
 * Thread: any.  Signal: yes. */
PFW_READ_API void pfw_read_stop(struct pfw_read *read);

/* How much of the traces could not be read so far, by all streams of `read`: lines, members of gzip,
 * files.  Each of the first has a text, "FILE:LINE: what and why"; NULL: there is none of that number.
 * What a table leaves out has a text, too. */
PFW_READ_API uint64_t pfw_read_problems(const struct pfw_read *read);
PFW_READ_API const char *pfw_read_problem(const struct pfw_read *read, uint64_t number);

/* What went wrong in the last call that returned an error, valid until the next call. */
PFW_READ_API const char *pfw_read_error(const struct pfw_read *read);

/* The version of the library, as pfw_version(): "0.1.0". */
PFW_READ_API const char *pfw_read_version(void);

#ifdef __cplusplus
}
#endif

#endif
