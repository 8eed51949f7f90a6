/* manifest_parts.h - what the parts of a manifest share: manifest.c (what is taken in), manifest_keep.c
 * (what an older one says), manifest_write.c.
 */
#ifndef PFW_MANIFEST_PARTS_H
#define PFW_MANIFEST_PARTS_H

#include "manifest.h"

/* A `process` line. */
struct manifest_process {
	struct pfw_manifest_file *file;
	uint64_t pid;
	int64_t ts_ns;
	char *args; /* as it is written */
	char *host; /* as it is written, without quotes */
	int64_t rank;
	/* Of its last `end`; NULL: none. */
	char *reason;
	uint64_t end_id, events;
	bool ended;
};

/* An `end` or a `lost`, until all processes are known. */
struct manifest_fact {
	struct pfw_manifest_file *file;
	uint64_t pid, id, count;
	int64_t ts_ns;
	char *reason;
	bool end;
};

struct manifest_list {
	void *item;
	size_t count, room;
};

struct pfw_manifest {
	char *run;
	struct pfw_manifest_file **file;
	size_t files, file_room;
	struct manifest_list processes, facts;
};

/* One more, zeroed but for its file, to be filled in; NULL: no memory. */
struct manifest_process *pfw_manifest_add_process(struct pfw_manifest_file *file);
struct manifest_fact *pfw_manifest_add_fact(struct pfw_manifest_file *file);

#endif
