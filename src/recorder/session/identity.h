/* recorder/session/identity.h - who this process is (pid, host, rank, run) and its trace's name. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/settings/naming.h"
#include "common/settings/process.h"
#include "recorder/spool/file.h"

struct pfw_config;

struct pfw_identity {
	struct pfw_process process;
	uint32_t uid;
	struct pfw_rank rank;
	struct pfw_spool_dirs dirs;
	char *const *environ; /* a copy that is never freed */
	char host[72];
	char boot_id[40];
	char run[128];
	char exe[PFW_PATH_MAX];
	char called[1024]; /* the program's path as called, maybe a link; "" = unknown */
	char cwd[PFW_PATH_MAX];
	char cmd[512];
	char base[PFW_BASE_MAX]; /* absolute, % words not expanded; "" = none can be made */
	int base_error; /* why: -ENAMETOOLONG; -ENOENT: relative, and no current directory */
	/* of the base as given: a child with the same hash is of the same run */
	uint64_t base_hash;
	bool child; /* a traced ancestor of the same rank and base exists */
	/* An ancestor that is paused or counts steps: a child of the same rank follows it; pid 0 =
	 * none. */
	struct pfw_process leader;
	struct pfw_process root;	  /* the first traced process of the run, maybe this one */
	uint64_t matched[PFW_GLOB_LISTS]; /* of a root that was traced before an exec */
	bool descendant; /* a traced ancestor exists, or this process was traced before an exec */
};

/* Fill it from /proc, uname, the environment and the spools of traced ancestors.  Thread: init.
 * Signal: safe (no malloc, no stdio). */
void pfw_identity_find(struct pfw_identity *identity, const struct pfw_config *config,
		       char *const *environ);

/* The same process after a fork: pid and parent are new, and it is a child.  pfw_process_forked()
 * explains the times. */
void pfw_identity_forked(struct pfw_identity *identity, uint64_t after_ns, uint64_t before_ns);

/* Set another base name (pfw_start), or another rank (pfw_set_rank). */
void pfw_identity_set_base(struct pfw_identity *identity, const char *base);
void pfw_identity_set_rank(struct pfw_identity *identity, const struct pfw_config *config,
			   int32_t rank, int32_t world_size);

/* The trace's absolute path (PFW_PATH_MAX bytes), as by pfw_name_build(). */
int pfw_identity_trace(const struct pfw_identity *identity, const struct pfw_config *config,
		       char *path, bool *compressed);

/* Fill the fields of a spool's header that describe the process. */
void pfw_identity_header(const struct pfw_identity *identity, struct pfw_spool_header *header);
