/* recorder/spool/file.h - make the spool of a process, append chunks to it, and find others. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/format/spool.h"

#define PFW_SPOOL_PATH_MAX 512

/* A part of the file, and where it is mapped. */
#define PFW_SPOOL_PARTS 128u
struct pfw_spool_part {
	char *at;
	uint64_t offset, bytes;
};

struct pfw_spool {
	struct pfw_spool_header *header; /* mapped; NULL = no spool */
	uint64_t limit;			 /* bytes it may grow to */
	bool heap; /* no directory took it: anonymous memory, lost with the process */
	/* The file is allocated up to `made` and mapped up to `mapped`: chunks below `made`, and
	 * strings below `mapped`, need no descriptor. */
	uint64_t made, mapped;
	/* A chunk of `full_bytes` or more found no space: none is tried before `full_until_ns`
	 * (MONOTONIC), as every one of thousands of threads may want a ring. */
	uint64_t full_bytes, full_until_ns;
	char path[PFW_SPOOL_PATH_MAX]; /* "" if it never had a file */
	/* Of a spool that may leave its file (leave.h), all parts; more than PFW_SPOOL_PARTS: they
	 * are not all here, and it stays. */
	bool leaves;
	unsigned parts;
	struct pfw_spool_part part[PFW_SPOOL_PARTS];
};

/* Directories for spools, in order of preference, ended by NULL: only PFW_SPOOL_DIR if it is set,
 * else /dev/shm, $TMPDIR, the trace's directory. */
struct pfw_spool_dirs {
	const char *dir[4];
	char trace_dir[PFW_SPOOL_PATH_MAX];
};
void pfw_spool_dirs_find(struct pfw_spool_dirs *dirs, const char *spool_dir, const char *tmpdir,
			 const char *trace_path);

/* The path of a process's spool in a directory.  0, or -ENAMETOOLONG. */
int pfw_spool_path(char *out, size_t size, const char *dir, uint32_t uid, int32_t pid,
		   uint64_t start_time);

/* The owner of a spool, and the header's other contents before the file is visible. */
struct pfw_spool_owner {
	uint32_t uid;
	int32_t pid;
	uint64_t start_time;
	uint64_t pid_namespace; /* 0 = unknown */
	void (*fill)(struct pfw_spool_header *header,
		     void *user); /* NULL = nothing; may run twice */
	void *user;
	/* For the first chunks: bytes to allocate and to map together with the header. */
	uint64_t made_bytes, mapped_bytes;
	uint64_t asked_bytes; /* of memory, by the user; 0 = a small share */
	bool leaves;	      /* struct pfw_spool's */
};

/*
 * Make a spool in the first directory that takes it, else in anonymous memory.  Sets magic,
 * version, header_bytes, end, pid, pid_namespace, uid and start_time, and calls owner->fill; the
 * rest is zero.  No descriptor stays open.  0, or -ENOMEM.  Thread: init, or a forked child.
 */
int pfw_spool_create(struct pfw_spool *spool, const struct pfw_spool_dirs *dirs,
		     const struct pfw_spool_owner *owner);

/* For leave.h: a new file of `bytes` bytes where the spool's was, without a name if possible: its
 * descriptor or -errno.  Then give it the name: 0 or -errno. */
int pfw_spool_remake(struct pfw_spool *spool, uint64_t bytes);
int pfw_spool_name(struct pfw_spool *spool, int fd);

/* Open the spool for pfw_spool_append(): a descriptor of the calling thread's table, -1 if it is in
 * anonymous memory, or -errno. */
int pfw_spool_open(const struct pfw_spool *spool);

/* Append a zeroed, prefaulted chunk of `bytes`, rounded up to pages, with its head filled.
 * NULL: the limit is reached, or there is no space, or was none a moment ago.  Thread: drain. */
void *pfw_spool_append(struct pfw_spool *spool, int fd, enum pfw_chunk_kind kind, uint32_t index,
		       uint64_t bytes);

/* Whether pfw_spool_append() of such a chunk has a use for a descriptor.  Thread: drain. */
bool pfw_spool_needs_file(const struct pfw_spool *spool, enum pfw_chunk_kind kind, uint64_t bytes);

/* Whether there is room for such a chunk without one.  Thread: drain. */
bool pfw_spool_has_place(const struct pfw_spool *spool, enum pfw_chunk_kind kind, uint64_t bytes);

/* How many bytes of a chunk are allocated; allocate the rest: 0 or -errno.  Thread: drain. */
uint64_t pfw_spool_usable(const struct pfw_spool *spool, const struct pfw_chunk *chunk);
int pfw_spool_make_rest(struct pfw_spool *spool, int fd);

/* Remove the file; the mapping stays.  Thread: any. */
void pfw_spool_unlink(const struct pfw_spool *spool);

/* Copy the header of another process's spool; false if none has this version.  Thread: init. */
bool pfw_spool_peek(struct pfw_spool_header *header, const struct pfw_spool_dirs *dirs,
		    uint32_t uid, int32_t pid, uint64_t start_time);

/*
 * Which processes of a user have a spool, by listing each directory once.  `any`: every process may
 * have one, as a directory has too many names or cannot be listed.  Thread: init.
 */
struct pfw_spool_owners {
	int32_t pid[60];
	unsigned count;
	bool any;
};
void pfw_spool_owners_find(struct pfw_spool_owners *owners, const struct pfw_spool_dirs *dirs,
			   uint32_t uid);
bool pfw_spool_owners_hold(const struct pfw_spool_owners *owners, int32_t pid);

/* Map another process's header for the life of this process, to read it, or to write it, too;
 * NULL = no spool.  Thread: init. */
struct pfw_spool_header *pfw_spool_watch(const struct pfw_spool_dirs *dirs, uint32_t uid,
					 int32_t pid, uint64_t start_time, bool writes);
