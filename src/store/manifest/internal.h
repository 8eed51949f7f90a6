/* store/manifest/internal.h - what the files of this room share. */
#pragma once

#include "store/json/walk.h"
#include "store/manifest/manifest.h"

/* A `process` line. */
struct manifest_process {
	struct pfw_manifest_file *file;
	uint64_t pid;
	int64_t ts_ns;
	char *args; /* as in the line */
	char *host; /* as in the line, without quotes */
	int64_t rank;
	/* Of its last `end`; NULL: none. */
	char *reason;
	uint64_t end_id, events;
	bool ended;
};

/* An `end` or a `lost` line, kept until all processes are known. */
struct manifest_fact {
	struct pfw_manifest_file *file;
	uint64_t pid, id, count;
	int64_t ts_ns;
	char *reason;
	bool end;
};

struct pfw_manifest {
	char *run;
	struct pfw_manifest_file **file;
	size_t files, file_room;
	struct manifest_process *process;
	size_t processes;
	struct manifest_fact *fact;
	size_t facts;
};

/* ---- remake.c: what a manifest should be ---- */

/* Add a compacted file to a manifest, with what its headers and metadata lines say.  0 or -errno.
 * Thread: any; starts others. */
int pfw_manifest_remake(struct pfw_manifest *manifest, const char *name, int64_t rank,
			const char *path, const struct pfw_blocks *blocks,
			const struct pfw_marks *marks);

/* A file that has another rank than its processes; NULL: none. */
const struct pfw_manifest_file *pfw_manifest_wrong_rank(const struct pfw_manifest *manifest);

/* ---- text.c: the text of a manifest, which is not trusted ---- */

struct pfw_manifest_text {
	char *json;
	struct pfw_slice whole; /* the outer object */
};

/* Read a manifest.  Return 0, for pfw_manifest_text_free(), or -errno; -EBADMSG: not a manifest, or
 * of an unknown format, with a line in `why`.  Thread: any, for all functions here. */
int pfw_manifest_text_read(struct pfw_manifest_text *text, const char *path, char *why,
			   size_t size);
/* The same of a text in memory, which it takes over. */
int pfw_manifest_text_take(struct pfw_manifest_text *text, char *json, size_t bytes, char *why,
			   size_t size);
void pfw_manifest_text_free(struct pfw_manifest_text *text);

/* Begin a list of it, `files` or `processes`, for pfw_elements_next().  False: there is none. */
bool pfw_manifest_text_list(const struct pfw_manifest_text *text, const char *key,
			    struct pfw_walk *list);

/* A member of an object: a number; a string that is not empty and fits. */
bool pfw_manifest_text_u64(const struct pfw_slice *object, const char *key, uint64_t *number);
bool pfw_manifest_text_string(const struct pfw_slice *object, const char *key, char *out,
			      size_t size);

/* Whether a file's name leads out of the manifest's directory: a hostile manifest must not make us
 * read other files. */
bool pfw_manifest_text_leads_out(const char *name);
