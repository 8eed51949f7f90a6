/* spool_file.h - making a process's spool and adding chunks to it. */
#ifndef PFW_SPOOL_FILE_H
#define PFW_SPOOL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spool.h"

#define PFW_SPOOL_PATH_MAX 512

struct pfw_spool {
	struct pfw_spool_header *header; /* mapped; NULL = none */
	uint64_t limit;			 /* bytes it may grow to */
	bool heap; /* no directory would have it: in memory, and gone with the process */
	/* Behind the header there is room up to `made`, and of strings up to `mapped`, when it is asked
	 * for: chunks that come to lie there need no descriptor.  0: there is none. */
	uint64_t made, mapped;
	char path[PFW_SPOOL_PATH_MAX]; /* "" while heap */
};

/* Where spools may be, in order of preference, ended by NULL: PFW_SPOOL_DIR alone where it is set,
 * else /dev/shm, $TMPDIR, the trace's directory. */
struct pfw_spool_dirs {
	const char *dir[4];
	char trace_dir[PFW_SPOOL_PATH_MAX];
};
void pfw_spool_dirs_find(struct pfw_spool_dirs *dirs, const char *spool_dir, const char *tmpdir,
			 const char *trace_path);

/* The name a process's spool has in a directory.  -ENAMETOOLONG where it does not fit. */
int pfw_spool_path(char *out, size_t size, const char *dir, uint32_t uid, int32_t pid,
		   uint64_t start_time);

/* Whose spool it is, and what else its header says before anybody can see it. */
struct pfw_spool_owner {
	uint32_t uid;
	int32_t pid;
	uint64_t start_time;
	uint64_t pid_namespace; /* 0 = not known */
	void (*fill)(struct pfw_spool_header *header,
		     void *user); /* NULL = nothing; may run twice */
	void *user;
	/* Chunks that are sure to come: so many bytes are made with the header, in one piece, and so
	 * many mapped, if there is room for them. */
	uint64_t made_bytes, mapped_bytes;
};

/*
 * Make the header of a spool in the first directory that takes it, or on the heap.  header->magic,
 * version, header_bytes, end, pid, pid_namespace, uid and start_time are set, then what owner->fill
 * sets; the rest is zero.  A descriptor is open only while this runs.  0, or -ENOMEM.
 * Thread: init, or a forked child.
 */
int pfw_spool_create(struct pfw_spool *spool, const struct pfw_spool_dirs *dirs,
		     const struct pfw_spool_owner *owner);

/* Open the spool for pfw_spool_append(): a descriptor of the calling thread's table, -1 for a heap
 * one (nothing to open), or -errno. */
int pfw_spool_open(const struct pfw_spool *spool);

/*
 * Add a chunk of `bytes`, made up to whole pages, zeroed and prefaulted, with its head filled.
 * NULL: the limit is reached or there is no space.  Thread: drain.
 */
void *pfw_spool_append(struct pfw_spool *spool, int fd, enum pfw_chunk_kind kind, uint32_t index,
		       uint64_t bytes);

/* Whether such a chunk has its place already, and needs no descriptor.  Thread: drain. */
bool pfw_spool_has_place(const struct pfw_spool *spool, enum pfw_chunk_kind kind, uint64_t bytes);

/* How much of a chunk may be touched; and make all of it: 0 or -errno.  Thread: drain. */
uint64_t pfw_spool_usable(const struct pfw_spool *spool, const struct pfw_chunk *chunk);
int pfw_spool_make_rest(struct pfw_spool *spool, int fd);

/* Remove the file; the mapping stays.  Thread: any. */
void pfw_spool_unlink(const struct pfw_spool *spool);

/*
 * Read another process's header: true where a spool of that process exists in one of the
 * directories and is of this version.  *header gets a copy.  Thread: init.
 */
bool pfw_spool_peek(struct pfw_spool_header *header, const struct pfw_spool_dirs *dirs,
		    uint32_t uid, int32_t pid, uint64_t start_time);

/*
 * Which processes of a user have a spool in one of the directories, by one look at each.  `any`: who
 * has one cannot be told, for a directory has very many names, or may not be listed.  Thread: init.
 */
struct pfw_spool_owners {
	int32_t pid[60];
	unsigned count;
	bool any;
};
void pfw_spool_owners_find(struct pfw_spool_owners *owners, const struct pfw_spool_dirs *dirs,
			   uint32_t uid);
bool pfw_spool_owners_hold(const struct pfw_spool_owners *owners, int32_t pid);

/* Map it, to look at for as long as this process lives; NULL where there is none.  Thread: init. */
const struct pfw_spool_header *pfw_spool_watch(const struct pfw_spool_dirs *dirs, uint32_t uid,
					       int32_t pid, uint64_t start_time);

#endif
