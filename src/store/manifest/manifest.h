/* store/manifest/manifest.h - BASE.manifest.json: what a compacted run consists of.
 *
 * Room store/manifest: writes, reads and checks manifests, for people, scripts and `pfw validate`.
 * It may use the store rooms before it.  Start here.
 *
 * One JSON object, with a line for each file and each process.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "store/pack/pack.h"

#define PFW_MANIFEST_FORMAT 1
#define PFW_MANIFEST_SUFFIX ".manifest.json"

struct pfw_manifest; /* opaque: see manifest.c */

/* A file of the run; the caller fills in the members that are not private. */
struct pfw_manifest_file {
	char *name; /* relative to the manifest's directory */
	int64_t rank;
	struct pfw_pack_sum sum;
	size_t processes; /* its `process` lines; set by pfw_manifest_line() */
	/* Private to manifest.c. */
	size_t number;
	struct pfw_manifest *manifest;
};

/* Make one for pfw_manifest_free(), or NULL without memory.  `run`: "" if unknown.  Thread: one at
 * a time per manifest, for all functions here. */
struct pfw_manifest *pfw_manifest_new(const char *run);
void pfw_manifest_free(struct pfw_manifest *manifest);

/* Add a file, which the manifest owns.  NULL: no memory. */
struct pfw_manifest_file *pfw_manifest_add(struct pfw_manifest *manifest, const char *name,
					   int64_t rank);

/* Remove the file that was added last. */
void pfw_manifest_drop(struct pfw_manifest *manifest);

/* Take a metadata line of a file, with its '\n', in any order.  0 or -ENOMEM. */
int pfw_manifest_line(struct pfw_manifest_file *file, const char *line, size_t bytes);

/* Whether one file has two processes with the same pid, of two ranks on two hosts, whose lines
 * cannot be told apart. 0; 1 with *pid; -ENOMEM. */
int pfw_manifest_mixed(const struct pfw_manifest *manifest, uint64_t *pid);

/* If the manifest at `path` is of the same run, take over the entries of those of its files for
 * which keep(user, name, bytes) is true.  Return 0, also if there is no manifest, or -ENOMEM. */
int pfw_manifest_keep(struct pfw_manifest *manifest, const char *path,
		      bool (*keep)(void *user, const char *name, uint64_t bytes), void *user);

/* Write it, files by rank, processes by file and start.  Then only free it.  0 or -errno. */
int pfw_manifest_write(struct pfw_manifest *manifest, FILE *out);

/* Check that the files named by a manifest are in its directory and that the headers of their
 * members agree with it; tell() gets each problem.  Return 0, or why the manifest cannot be read.
 * Thread: any. */
int pfw_manifest_check(const char *path, void (*tell)(void *user, const char *text), void *user);
