/* store/recover/owner.h - the process that a spool names: host, boot, life, and its trace. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pfw_spool_header;

/* Whether the process is of this host and this boot; otherwise `why` says of which. */
bool pfw_spool_is_of_here(const struct pfw_spool_header *header, char *why, size_t size);

/* Whether the process runs, in any pid namespace; true in doubt.  `fd` is the spool. */
bool pfw_spool_process_lives(int fd, const struct pfw_spool_header *header);

/* The name of its program, without directories; "" if unknown. */
void pfw_spool_program(const struct pfw_spool_header *header, char *out, size_t size);

enum pfw_owner {
	PFW_TRACE_OURS,	   /* its first line names this process */
	PFW_TRACE_OTHER,   /* its first line is another's */
	PFW_TRACE_UNKNOWN, /* it has no complete first line */
};

/* Check the first line of the trace `fd`, whose file offset stays.  With `spool`, of the process's
 * spool, the line must name that file, too. */
struct stat;
enum pfw_owner pfw_owner_of(int fd, const struct pfw_spool_header *header,
			    const struct stat *spool);

/* What the first line of a trace says of its process. */
struct pfw_claim {
	bool any;	  /* there is a complete line */
	bool ours;	  /* and it is a `process` line */
	bool no_spool;	  /* which says that there is none */
	char spool[4096]; /* path, or "" */
	char host[72];
	char boot[40];
	uint64_t pid;
	int64_t start_ns; /* of the recorder */
};

/* Read the first line.  Return 0, also if it is no `process` line, or why it cannot be read. */
int pfw_claim_read(struct pfw_claim *claim, const char *path);

enum pfw_life {
	PFW_LIFE_DEAD,
	PFW_LIFE_ALIVE,
	PFW_LIFE_UNKNOWN, /* it cannot be known here, which is no reason to think it dead */
};

/* Whether a process may still write the trace at `path`.  Asked in turn: who has it locked or open
 * for writing; whether it is finished; the spool that its first line names; host, boot and pid of
 * that line.  `why` explains ALIVE and UNKNOWN. */
enum pfw_life pfw_life_of(const char *path, char *why, size_t size);
