/* store/patterns/patterns.h - sizes and places of reads and writes of each file, as in Darshan.
 *
 * Room store/patterns: turns lines of I/O calls into operations (block.c, in any thread) and counts
 * them in order of time for each file (order.c, then patterns.c), since the place of an access
 * follows from the accesses before it.  It may use store/{index,pass,line,kit}.  Start with
 * pfw_patterns_take().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/kit/pair_ids.h"
#include "store/kit/text_ids.h"
#include "store/line/io.h"

struct pfw_blob;
struct pfw_summary;
struct pfw_varints;
struct pfw_fname_hashes;

#define PFW_PATTERN_SIZES \
	10 /* Darshan's: up to 100, 1 Ki, 10 Ki, 100 Ki, 1 Mi, 4, 10, 100 Mi, 1 Gi */

/*
 * Where a read lies compared with the last read of the same process on the same file; writes alike.
 */
enum pfw_access {
	PFW_ACCESS_FIRST,	/* no access before it */
	PFW_ACCESS_CONSECUTIVE, /* at the end of the last */
	PFW_ACCESS_STRIDED,	/* the same distance from begin to begin as the last two */
	PFW_ACCESS_SEQUENTIAL,	/* after the end of the last */
	PFW_ACCESS_RANDOM,	/* before the end of the last */
	PFW_ACCESS_UNPLACED,	/* offset unknown */
	PFW_ACCESSES
};

enum pfw_side { PFW_SIDE_READ, PFW_SIDE_WRITE };

struct pfw_pattern_side {
	uint64_t calls;	   /* also calls that failed, or of unknown size */
	uint64_t accesses; /* of known size: those in size[] and in access[] */
	uint64_t bytes;
	int64_t ns;
	uint64_t behind;    /* Darshan's SEQ: begin after the end of the access before */
	uint64_t unaligned; /* begin at no multiple of `alignment` */
	uint64_t small;	    /* of less than `small` bytes */
	uint64_t end;	    /* the greatest end, or 0 */
	uint64_t size[PFW_PATTERN_SIZES];
	uint64_t access[PFW_ACCESSES];
};

#define PFW_PATTERN_FIGURES (9 + 2 * sizeof(struct pfw_pattern_side) / sizeof(uint64_t))

/* How a file is used.  A row of an index has all members, 64 bits each, in this order: a change
 * needs a new version of pfw_patterns_kind. */
struct pfw_pattern {
	union {
		uint64_t figure[PFW_PATTERN_FIGURES];
		struct {
			uint64_t opens;	 /* that returned a descriptor */
			uint64_t again;	 /* opens by a process that had opened the file before */
			uint64_t others; /* all other calls, such as those on metadata */
			int64_t metadata_ns; /* of opens and others */
			uint64_t processes;  /* that read, wrote or opened it */
			uint64_t switches;   /* a process reads after it wrote, or vice versa */
			uint64_t mapped;     /* bytes that mmap() mapped */
			uint64_t looked;     /* mappings whose touched bytes are known */
			uint64_t touched;    /* the bytes of these that the process touched */
			struct pfw_pattern_side side[2];
		};
	};
};

/* Counts of /proc/self/io of a rank's processes, from lines of cat COUNTER. */
struct pfw_pattern_counters {
	bool any;
	uint64_t io[2], storage[2]; /* bytes through calls; bytes to and from storage */
};

/* ---- a block's operations ---- */

struct pfw_pattern_op;
struct pfw_pattern_packed;

/* Operations, packed, of which up to half a million wait for others; see op.h. */
struct pfw_pattern_ops {
	struct pfw_pattern_packed *at;
	size_t count, room;
	struct pfw_pattern_op *wide; /* those that do not fit */
	size_t wides, wide_room;
	uint64_t process; /* of those that fit: that of the first; later its number */
};

#define PFW_PATTERN_LAST 16u
#define PFW_PATTERN_FDS 64u

struct pfw_patterns_block {
	struct pfw_text_ids names; /* of files; `of` is the row of a file of the summary, or 0 */
	/* The summary to which those numbers belong; it stays until the block is taken.  NULL: none. */
	const struct pfw_summary *summary;
	struct pfw_pattern_ops ops;
	uint64_t pid, tid; /* of the first operation */
	bool threads;	   /* of more than one thread */
	bool pids;	   /* of more than one pid */
	bool begins;	   /* a process: a line says so */
	struct pfw_pattern_counters counters;
	uint32_t *row; /* rows of the names, found when the block is taken */
	size_t row_room;
	uint32_t *of_row; /* number + 1 of the name of a summary's file */
	size_t of_row_room;
	uint32_t last[PFW_PATTERN_LAST]; /* by descriptor: number + 1 of its last name */
	struct pfw_io_calls io;
	struct pfw_patterns_known { /* a cache: what lines are, by entry->named and form */
		uint64_t named, form;
		uint8_t what;		   /* private to block.c */
		uint8_t fd, offset, flags; /* their pfw_entry_place() */
		/* Of calls on files with no effects but those that add_usual() knows: the bits of
		 * their operations; 0: of others. */
		uint16_t usual;
		/* The flags of an open that came last, and whether O_APPEND is in them. */
		bool append;
		uint8_t text_bytes;
		char text[32];
	} known[PFW_ENTRY_NUMBERS];
};

/* Of a struct pfw_patterns_block, all zero: empty; the types are those of struct pfw_index_kind. */
void pfw_patterns_block_clear(void *patterns_block);
void pfw_patterns_block_release(void *patterns_block);

/* Add a line.  If it is not `wanted`, it is not counted but still moves a descriptor.  0 or
 * -ENOMEM.  Thread: the one that has the block. */
int pfw_patterns_block_add(struct pfw_patterns_block *block, const struct pfw_entry *entry,
			   const struct pfw_fname_hashes *fnames, bool wanted);

/* The same for a wanted line that was added to a summary of the block last, which knows most of it.  If the
 * summary is merged before the block is taken, it is into the same one for all blocks. */
int pfw_patterns_block_add_summed(void *block, const struct pfw_entry *entry,
				  const struct pfw_summary *summary);

/* ---- all files ---- */

struct pfw_patterns {
	uint64_t alignment, small; /* set by the caller */
	bool sorted;		   /* set by the caller: the blocks are in order of time */
	struct pfw_text_ids keys;  /* of the rows: rank and name */
	struct pfw_pattern *row;
	size_t rows, room;
	/* Private to the room: open files, and the last access of each process. */
	struct pfw_pair_ids processes, descriptors, others; /* others: of process and row */
	uint64_t recent_process;
	int64_t recent;	      /* its number + 1; 0: none */
	uint32_t *descriptor; /* number + 1 of the open file of each */
	struct pfw_pattern_open *open;
	struct pfw_pattern_use *use, *other; /* of each row by its first process, and by others */
	size_t descriptor_room, open_room, use_room, other_room, opens;
	uint32_t *of_file; /* number + 1 of the row of a file of the summary of all blocks */
	size_t of_file_room;
	struct pfw_pattern_recent { /* a cache: numbers of descriptors */
		uint64_t process;
		int64_t fd;
		uint32_t number; /* + 1; 0: none */
	} recent_fd[PFW_PATTERN_FDS];
	uint32_t free_open; /* head of the free list, + 1 */
	/* Sorted runs of operations that still wait for earlier ones of other threads. */
	struct pfw_pattern_run *run;
	size_t runs, run_room, waiting;
	struct pfw_pattern_ops spare; /* room of a run that was counted */
	int64_t last_ns;	      /* the greatest time so far */
	int64_t taken_ns;	      /* of what was counted */
	bool late;		      /* something began before that */
	uint64_t file, tid;	      /* the current file; its first thread */
	bool begun, threads;
};

void pfw_patterns_init(struct pfw_patterns *patterns);
void pfw_patterns_release(struct pfw_patterns *patterns);
/* Nothing more is taken: free all but the rows. */
void pfw_patterns_close(struct pfw_patterns *patterns);

/* Take the next block of a trace of that rank; after the last block of all, take all operations
 * that wait.  0 or -ENOMEM.  Thread: one at a time. */
int pfw_patterns_take(struct pfw_patterns *patterns, uint64_t file, int64_t rank,
		      struct pfw_patterns_block *block);
int pfw_patterns_end(struct pfw_patterns *patterns);

/*
 * The state on which later operations depend, for a trace of one process whose rows and figures are
 * kept elsewhere.  Write it before pfw_patterns_end(): *blob becomes empty if the state is not known, or
 * would take more than `most` bytes.  Read it after the rows; -EAGAIN: rows are missing.  Blocks taken
 * afterwards must be of the same process.  0 or -errno.
 */
int pfw_patterns_put_state(struct pfw_patterns *patterns, struct pfw_blob *blob, size_t most);
int pfw_patterns_get_state(struct pfw_patterns *patterns, struct pfw_varints *reader);

/* The row of that rank and name, which is added if it does not exist, or -ENOMEM. */
int64_t pfw_patterns_row(struct pfw_patterns *patterns, int64_t rank, const char *name,
			 size_t bytes);

/* The rank and the name of a row. */
int64_t pfw_patterns_rank(const struct pfw_patterns *patterns, size_t row);
const char *pfw_patterns_name(const struct pfw_patterns *patterns, size_t row, size_t *bytes);

/* Add figures.  `processes` becomes the greater one, since both may have the same processes. */
void pfw_pattern_merge(struct pfw_pattern *into, const struct pfw_pattern *from);
/* Add figures of other processes: of another rank or trace. */
void pfw_pattern_add(struct pfw_pattern *into, const struct pfw_pattern *from);
/* Whether a call of the file was counted. */
bool pfw_pattern_counted(const struct pfw_pattern *pattern);
void pfw_pattern_add_counters(struct pfw_pattern_counters *into,
			      const struct pfw_pattern_counters *from);
