/* tools/compact/compact.h - what the parts of `pfw compact` share.
 *
 * Room tools/compact: merges the traces of a run.  It may use tools/ui, tools/share and the store
 * (merge, pack, commit, manifest).  Start with compact.c; then groups.c (which files become which),
 * recover.c (spools of killed processes), originals.c (which are removed), write.c (one result).
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/commit/commit.h"
#include "store/manifest/manifest.h"
#include "store/pack/pack.h"
#include "store/select/select.h"
#include "store/sys/pool.h"
#include "store/traces/traces.h"
#include "ui/cli.h"

/* As --split-by lists them. */
enum compact_split { COMPACT_BY_RANK, COMPACT_BY_PROCESS, COMPACT_INTO_ONE };

/* The files that become one result. */
struct compact_group {
	const char *run;	      /* "" for another tool's traces */
	int64_t rank;		      /* -1: none or several */
	char *directory;	      /* of the result */
	char *name;		      /* of the result, without directory */
	char *base;		      /* name of the run's manifest without suffix */
	struct pfw_trace_file **file; /* by rank */
	int64_t *rank_of;	      /* of each file */
	size_t count;
	uint64_t pid;	      /* take only the lines of this process; 0: all lines */
	uint64_t split_lines; /* lines of the whole split file */
	bool replaces;	      /* one of the files has the name of the result */
	/* Set by compact_write(). */
	bool damaged; /* part of the input is unreadable, so the originals stay */
	bool dropped; /* there is no result */
	uint64_t bytes_before;
	struct pfw_pack_sum sum;
	struct pfw_manifest_file *entry; /* in the manifest */
};

struct compact {
	const struct cli_command *command;
	const char *out; /* -o; NULL: write beside the originals */
	int64_t level;
	unsigned jobs;
	int format;
	bool all_ranks; /* a line for each of very many results, too */
	bool keep, force, quiet, all_runs, no_index;
	enum compact_split split;
	struct pfw_select select; /* --since, --until */
	int status;
	bool interrupted;
	bool made_out; /* the directory of -o did not exist */
	struct pfw_traces traces;
	struct compact_group *group;
	size_t groups;
	uint64_t done, all; /* progress: bytes of input */
	struct pfw_pool *pool;
};

/* Set by SIGINT, SIGTERM or SIGHUP. */
extern const _Atomic bool *compact_stop;

/* Print a message about a path and raise the exit status to at least `status`. */
__attribute__((format(printf, 4, 5))) void compact_say(struct compact *compact, int status,
						       const char *path, const char *format, ...);

/* Write the directory of a path.  Return whether it differs from the one in `directory` before. */
bool compact_directory(char directory[PATH_MAX], const char *path);

/* Whether originals are removed: not with --keep, nor if the result goes elsewhere. */
bool compact_removes(const struct compact *compact);

/* Leave out, after a message, what must not be merged: symbolic links, where originals are removed,
 * and files that are no traces.  False: nothing is left. */
bool compact_leave_out(struct compact *compact);

/* Check that all originals can be removed: if one stayed, its lines would exist twice. */
bool compact_check_originals(struct compact *compact);

/* Have the commit remove the originals of a group that is written, and their indexes.  0 or -errno
 * after a message. */
int compact_remove_originals(struct compact *compact, const struct compact_group *group,
			     struct pfw_commit *commit);

/* How many of the originals of a group were removed. */
size_t compact_removed(const struct compact *compact, const struct compact_group *group);

/* Print what was removed. */
void compact_print_removed(const struct compact *compact, const struct compact_group *group);

/* Group the traces.  False: they must not be merged; a message has said why. */
bool compact_find_groups(struct compact *compact);
void compact_free_groups(struct compact *compact);

/* Finish the traces of killed processes.  *recovered: the traces have grown.  False, after a
 * message: a process still writes, or its trace must be finished on another host. */
bool compact_recover(struct compact *compact, bool *recovered);

struct compact_writing; /* a result that is being written; opaque: see write.c */

/* Write the result of a group under a temporary name.  Return 0 with *writing for compact_check(),
 * or -errno after a message.  group->dropped: damaged input gives no result, which is no error. */
int compact_write(struct compact *compact, struct compact_group *group, struct pfw_commit *commit,
		  struct pfw_manifest *manifest, struct compact_writing **writing);

/* Wait until the result is on the disk, verify it and free `writing`, which may be NULL.  Return 0,
 * or -errno after a message. */
int compact_check(struct compact_writing *writing);
