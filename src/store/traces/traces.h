/* store/traces/traces.h - the traces that a command reads: files, ranks, runs.
 *
 * Room store/traces: turns arguments into traces, and says which run, rank and process each is of.
 * It may use store/{read,partial,line,json,sys,kit}.  Start here; paths.h finds files, ends.h reads
 * their first and last lines, ranks.h splits files of several ranks, partials.h reads what stands
 * for them.
 */
#pragma once

#include <sys/types.h>

#include "store/partial/partial.h"
#include "store/read/blocks.h"
#include "store/traces/ends.h"
#include "store/traces/processes.h"
#include "store/traces/ranks.h"

struct pfw_trace_file {
	char *path;
	struct pfw_trace head; /* from its first line; the `end` is not read */
	struct pfw_blocks blocks;
	bool due;		/* pfw_traces_lay_out() has to find the blocks */
	uint64_t process_lines; /* as its index says; 0: unknown */
	/* When it was found; 0 for standard input. */
	uint64_t device, inode;
	int64_t changed_ns;
	mode_t mode; /* 0666 for standard input and pipes */
	bool once;   /* it can be read only once: standard input, or a pipe */
	/* For one rank of a file that holds several (see ranks.h), else NULL. */
	struct pfw_ranks *ranks;
	struct pfw_processes *processes; /* NULL: none, or not read yet */
	/* The partial that has the index of this trace, which need not exist, and where; NULL: the
	 * trace itself.  `path` is then only its name. */
	char *partial;
	struct pfw_partial_unit unit;
};

/* A pfw_traces_say for whom problems with traces do not matter. */
void pfw_traces_say_nothing(void *user, const char *path, const char *why);

/* What is opened, besides the traces of the newest run, and how. */
enum pfw_traces_flags {
	/* Files of a directory or base name that belong to older runs. */
	PFW_TRACES_ALL_RUNS = 1 << 0,
	/* Partials, as the traces in them; else they are left out, with a message. */
	PFW_TRACES_PARTIALS = 1 << 1,
	/* All files that are named, also those whose processes are in others: for a command that
	 * treats each file by itself. */
	PFW_TRACES_EACH = 1 << 2,
	/* `blocks` of all files are empty until pfw_traces_lay_out(), since an index may be enough. */
	PFW_TRACES_HEADS = 1 << 3,
	/* Files of several ranks are split: see pfw_ranks_part(). */
	PFW_TRACES_RANKS = 1 << 4,
};

/* Files of one run that are left out, since all their processes are in other files, too.  If only
 * some of their processes are, `partly` is set. */
struct pfw_traces_double {
	char run[128];
	size_t count;
	bool partly;	       /* none is left out: those processes count twice */
	char *left_out, *used; /* the first such file, and the file that is used for it */
	bool several;	       /* other files are used for others */
};

struct pfw_traces {
	struct pfw_trace_file *file;
	size_t count;
	size_t left_out;		 /* files of older runs */
	bool ranks;			 /* more than one rank is among them */
	struct pfw_traces_double *twice; /* of each run with such files */
	size_t doubles;
};

/* Open the traces that `arguments` name (see paths.h; none: the newest run in this directory), and
 * find their blocks.  They are in order of rank (none first), then path, without duplicates.  Files
 * of a directory or base name that belong to older runs are left out unless a flag says so; files
 * without a run (of other tools) stay.  If two files hold the same process (as after `pfw compact
 * --keep`), one is used: see processes.h.  A file that cannot be opened is left out after say(user,
 * path, error).  Return 0; -ENOENT after a message if nothing is left; -ENOMEM.  Thread: any. */
int pfw_traces_open(struct pfw_traces *traces, char *const *arguments, size_t count, unsigned flags,
		    pfw_traces_say *say, void *user);

/* How many `process` lines a file has, as its index says; 0: unknown.  Thread: any. */
typedef uint64_t pfw_traces_count(const char *path);

/* The same for a command that indexes may be enough for.  Where count() knows the number, no header of a
 * member is read after the last of these lines, and `blocks` are empty until pfw_traces_lay_out(). */
int pfw_traces_open_indexed(struct pfw_traces *traces, char *const *arguments, size_t count,
			    unsigned flags, pfw_traces_count *count_processes, pfw_traces_say *say,
			    void *user);

/* Find the blocks that are due.  0, or -errno after a message.  Thread: any. */
int pfw_traces_lay_out(struct pfw_traces *traces, pfw_traces_say *say, void *user);

/* Of the files from `first` on, drop those of other runs than the process that began last. */
void pfw_traces_keep_newest(struct pfw_traces *traces, size_t first);

/* If the files of `others` are whole runs that are among these, beside other runs, drop them: base
 * name `t` also stands for the later runs t.2 and t.3, which the user has named by themselves.
 * Whether files were dropped. */
bool pfw_traces_leave_to(struct pfw_traces *traces, const struct pfw_traces *others);

/* The first one that is in a partial; NULL: none. */
const struct pfw_trace_file *pfw_traces_partial(const struct pfw_traces *traces);

/* Sort them again, and set `ranks` again. */
void pfw_traces_sort(struct pfw_traces *traces);

/* The permissions that each of them has: what is made from them may have no others. */
mode_t pfw_traces_mode(const struct pfw_traces *traces);

/* Whether one of them can be read only once. */
bool pfw_traces_once(const struct pfw_traces *traces);

/* Take one out. */
void pfw_traces_drop(struct pfw_traces *traces, size_t number);

void pfw_traces_close(struct pfw_traces *traces);

/* Free what one file has. */
void pfw_trace_file_free(struct pfw_trace_file *file);
