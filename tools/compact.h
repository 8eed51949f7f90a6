/* compact.h - what the parts of `pfw compact` share: which files become which (compact_groups.c),
 * finishing what killed processes left (compact_recover.c), writing one file (compact_write.c), the
 * manifests (compact_manifest.c), and the command itself (compact.c).
 */
#ifndef PFW_COMPACT_H
#define PFW_COMPACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli.h"
#include "store/commit.h"
#include "store/manifest.h"
#include "store/pack.h"
#include "store/pool.h"
#include "store/select.h"
#include "store/traces.h"

enum compact_split { COMPACT_BY_RANK, COMPACT_BY_PROCESS, COMPACT_INTO_ONE };

/* The files that become one. */
struct compact_group {
	const char *run; /* "": another tool's */
	int64_t rank;	 /* -1: none, or several */
	char *directory; /* of the result */
	char *name;	 /* of the result, without directory */
	char *base;	 /* of the run: of the manifest */
	struct pfw_trace_file **file;
	size_t count;
	uint64_t pid;	      /* its lines only, of a file with several; 0: all */
	uint64_t split_lines; /* of that file */
	bool replaces;	      /* one of the files has the result's name */
	/* Filled in by writing it. */
	bool damaged; /* something could not be read: the originals stay */
	bool dropped; /* there is no result */
	uint64_t bytes_before;
	struct pfw_pack_sum sum;
	struct pfw_manifest_file *entry; /* in the manifest */
	struct pfw_manifest *left; /* of what stays where the originals go; NULL: none is needed */
};

struct compact {
	const struct cli_command *command;
	const char *out; /* -o, or NULL: beside the originals */
	int level;
	unsigned jobs;
	int format;
	bool keep, force, quiet, all_runs;
	enum compact_split split;
	struct pfw_select select; /* --since, --until */
	bool cut;
	int status;
	bool interrupted;
	struct pfw_traces traces;
	struct compact_group *group;
	size_t groups;
	uint64_t done, all; /* for the bar: bytes of the traces of groups */
	struct pfw_pool *pool;
};

/* Set by SIGINT, SIGTERM and SIGHUP. */
extern const volatile bool *compact_stop;

/* Say what is wrong with a path; the status becomes at least `status`. */
__attribute__((format(printf, 4, 5))) void compact_say(struct compact *compact, int status,
						       const char *path, const char *format, ...);

/* The directory that a path is in; to be freed; NULL: no memory. */
char *compact_directory(const char *path);

/* Put the traces in groups.  Return whether that makes sense; if not, it was said. */
bool compact_find_groups(struct compact *compact);
void compact_free_groups(struct compact *compact);

/* Finish the traces of killed processes; *recovered: there is more to read than before.  False: a
 * process still writes, or must be finished elsewhere, which was said. */
bool compact_recover(struct compact *compact, bool *recovered);

struct compact_writing; /* a result that is on its way to the disk; opaque: see compact_write.c */

/* Write one group's result under a temporary name.  Return 0 with *writing for compact_check(), or
 * -errno after saying why; group->dropped where there is none though that is no reason to stop. */
int compact_write(struct compact *compact, struct compact_group *group, struct pfw_commit *commit,
		  struct pfw_manifest *manifest, struct compact_writing **writing);

/* Wait until it is on the disk, read it back, and free it; NULL: nothing.  0, or -errno after saying
 * why. */
int compact_check(struct compact_writing *writing);

/* Put the manifest of the groups with that base name among the new files: `manifest`, with what an
 * older one in its place says of files that stay.  0, or -errno after saying why. */
int compact_manifest(struct compact *compact, struct pfw_commit *commit, const char *base,
		     struct pfw_manifest *manifest);

/* The group's originals go to another directory: have the manifest beside them removed, or group->left
 * made, where files that it names stay.  0 or -errno. */
int compact_manifest_left(struct compact_group *group, struct pfw_commit *commit);
/* Once they are gone, put it in its place. */
void compact_write_left(struct compact *compact, struct compact_group *group);

#endif
