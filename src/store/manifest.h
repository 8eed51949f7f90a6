/* manifest.h - BASE.manifest.json: what a compacted run consists of, for people, scripts and
 * `pfw validate`.
 *
 * One JSON object; each file and each process on a line of its own.
 */
#ifndef PFW_MANIFEST_H
#define PFW_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "pack.h"

#define PFW_MANIFEST_FORMAT 1
#define PFW_MANIFEST_SUFFIX ".manifest.json"

struct pfw_manifest; /* opaque: see manifest.c */

/* One of its files; the caller fills in what is not private. */
struct pfw_manifest_file {
	char *name; /* in the manifest's directory */
	int64_t rank;
	struct pfw_pack_sum sum;
	/* Private to manifest.c. */
	size_t number;
	struct pfw_manifest *manifest;
};

/* Return one for pfw_manifest_free(), or NULL where there is no memory.  `run`: "" where none is
 * known.  Thread: one at a time for one manifest, as all here. */
struct pfw_manifest *pfw_manifest_new(const char *run);
void pfw_manifest_free(struct pfw_manifest *manifest);

/* Add a file; it is the manifest's.  NULL: no memory. */
struct pfw_manifest_file *pfw_manifest_add(struct pfw_manifest *manifest, const char *name,
					   int64_t rank);

/* The file added last is not to be in it. */
void pfw_manifest_drop(struct pfw_manifest *manifest);

/* Take a metadata line of a file, with its '\n', in any order.  0 or -ENOMEM. */
int pfw_manifest_line(struct pfw_manifest_file *file, const char *line, size_t bytes);

/* Whether two processes of one pid, of two ranks on two hosts, are in one of its files: their lines cannot
 * be told apart.  0; 1 with *pid; -ENOMEM. */
int pfw_manifest_mixed(const struct pfw_manifest *manifest, uint64_t *pid);

/* How many files it has. */
size_t pfw_manifest_count(const struct pfw_manifest *manifest);

/* Take over what the manifest at `path` says, where it is one of the same run, of the files for which
 * keep(user, name, bytes) says so, of their processes and losses.  Return 0, also where there is none,
 * or -ENOMEM. */
int pfw_manifest_keep(struct pfw_manifest *manifest, const char *path,
		      bool (*keep)(void *user, const char *name, uint64_t bytes), void *user);

/* Write it, files by rank, processes by file and start; it is done with then.  0 or -errno. */
int pfw_manifest_write(struct pfw_manifest *manifest, FILE *out);

/*
 * Whether the files that it names are there, in its own directory, and what the headers of their
 * members say is what it says; each thing that is wrong is told.  Return 0, also then, or why it
 * cannot be read.  Thread: any.
 */
int pfw_manifest_check(const char *path, void (*tell)(void *user, const char *text), void *user);

#endif
