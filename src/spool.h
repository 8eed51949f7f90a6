/* spool.h - the layout of a process's spool: the one description of it, shared with recovery.
 *
 * The spool is a file (in /dev/shm where that works) that the process has mapped: it outlives
 * SIGKILL.  It holds a header (two pages, made at start-up whenever tracing is enabled: the control
 * page and the trace's path) and behind it chunks, one after the other, each beginning with struct
 * pfw_chunk.  Only the writer thread appends chunks: it writes the chunk, then stores `end`.  Header
 * and chunks are whole pages of the machine, which may be greater than PFW_PAGE_BYTES.
 *
 * Name: pfw-UID-PID-STARTTIME.spool[.N]; with a number where the name is taken, by what an earlier
 * program of this process left or by a process of another pid namespace.  Removed when the process
 * ends well; what is left behind belongs to a process that was killed, and `pfw repair`, `pfw run`
 * and `pfw compact` adopt it:
 *   1. the newest slot (generation) says how long the good part of the trace is: cut it there;
 *   2. for each ring, each record from saved_tail[generation & 1] to head that is committed
 *      is encoded and appended; what was reserved but not committed is counted as torn;
 *   3. losses counted in the header are written, then `end` with reason `recovered`.
 * A process has one writer at a time; it writes the file, then the other slot, then frees the
 * records: so a record is in the file's good part or in its ring, never in both, never in neither.
 */
#ifndef PFW_SPOOL_H
#define PFW_SPOOL_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#include "control.h"
#include "record.h"

#define PFW_SPOOL_MAGIC 0x4c4f4f5053574650ull /* "PFWSPOOL" */
#define PFW_SPOOL_VERSION 7u /* any change of this page's structs takes the next number */
#define PFW_PAGE_BYTES 4096u
#define PFW_SPOOL_HEADER_BYTES (2u * PFW_PAGE_BYTES)
#define PFW_PAGE_BYTES_MAX 65536u /* of a machine */
#define PFW_SPOOL_PREFIX "pfw-"
#define PFW_SPOOL_SUFFIX ".spool"

/* How ticks become time: ns = mono_ns + ((ticks - self.ticks) * mult >> shift), + real_offset. */
struct pfw_clock_pair {
	uint64_t ticks;
	uint64_t mono_ns;	/* CLOCK_MONOTONIC at `ticks` */
	int64_t real_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC */
	uint64_t mult;		/* ns per tick, fixed point; 1 << shift where ticks are ns */
};
#define PFW_CLOCK_SHIFT 32

/* Written after each write of the trace; the greater valid generation counts. */
struct pfw_slot {
	_Atomic uint64_t generation; /* 0 = never written; stored last (release) */
	uint64_t offset;	     /* bytes of the trace that are good */
	uint64_t next_id;	     /* the id of the next line */
	uint64_t events;	     /* lines written so far that are not ph M */
	uint64_t torn;		     /* counted so far; what comes after is found again */
	struct pfw_clock_pair first; /* the session's first pair, for long spans */
	struct pfw_clock_pair last;
};

/* Why records were not kept: an index of pfw_spool_header.lost. */
enum pfw_lost_reason {
	PFW_LOST_FULL,	    /* ring full and PFW_ON_FULL=drop, or nobody can drain it */
	PFW_LOST_NO_MEMORY, /* no ring could be had for a thread */
	PFW_LOST_NO_WRITER, /* the writer thread could not be started */
	PFW_LOST_TOO_LONG,  /* a record of more than PFW_RECORD_SLOTS_MAX slots */
	PFW_LOST_TORN,	    /* reserved and never committed (a handler jumped out of a probe) */
	PFW_LOST_WRITE,	    /* the trace could not be written and the rings were full */
	PFW_LOST_LIMIT,	    /* the trace has PFW_MAX_BYTES */
	PFW_LOST_GPU,	    /* CUPTI had no buffer for them */
	PFW_LOST_PROFILE,   /* left to a profile of torch.profiler that never came */
	PFW_LOST_REASONS
};
/* clang-format off */
#define PFW_LOST_NAMES { "full", "no_memory", "no_writer", "too_long", "torn", "write_error", "limit", "gpu", "profile" }
/* clang-format on */

/* Why an open or a path call was left out: an index of pfw_spool_header.excluded. */
enum pfw_excluded_reason {
	PFW_EXCLUDED_DATA_DIR, /* outside DFTRACER_DATA_DIR */
	PFW_EXCLUDED_SYSTEM,   /* /proc /sys /dev /usr /lib* /etc */
	PFW_EXCLUDED_PYTHON,   /* the interpreter's prefix, site-packages, __pycache__ */
	PFW_EXCLUDED_LIBRARY,  /* *.so* */
	PFW_EXCLUDED_TRACE,    /* the trace itself */
	PFW_EXCLUDED_EXCLUDE,  /* PFW_EXCLUDE */
	PFW_EXCLUDED_CHILDREN, /* a process that this one has forked: PFW_CHILDREN */
	PFW_EXCLUDED_REASONS
};
/* clang-format off */
#define PFW_EXCLUDED_NAMES { "data_dir", "system", "python", "library", "trace", "exclude", "children" }
/* clang-format on */

/* What the program handed to the kernel past libc: an index of pfw_spool_header.unrecorded. */
enum pfw_unrecorded_kind {
	PFW_UNRECORDED_OPERATIONS, /* taken from rings of io_uring: so many at least */
	PFW_UNRECORDED_RINGS,	   /* the rings */
	PFW_UNRECORDED_CONTEXTS,   /* of AIO (libaio); how much was submitted, they do not say */
	PFW_UNRECORDED_KINDS
};
/* clang-format off */
#define PFW_UNRECORDED_NAMES { "io_uring_operations", "io_uring_rings", "aio_contexts" }
/* clang-format on */

enum pfw_spool_state {
	PFW_SPOOL_LIVE,
	PFW_SPOOL_ADOPTED, /* somebody recovered it: the owner, if it lives, must not write again */
	PFW_SPOOL_DONE,	   /* the trace has its end; nothing to recover */
};

/* A figure that many threads add to. */
struct pfw_loss {
	_Atomic uint64_t count;
	_Atomic uint64_t first_ns; /* CLOCK_REALTIME; 0 = none yet */
	_Atomic uint64_t last_ns;
};

struct pfw_spool_header {
	uint64_t magic;
	uint32_t version;
	uint32_t header_bytes;	/* where the first chunk is; PFW_SPOOL_HEADER_BYTES or more */
	_Atomic uint64_t end;	/* bytes of the spool in use: where the next chunk goes */
	_Atomic uint32_t state; /* enum pfw_spool_state */
	int32_t pid;
	uint64_t start_time; /* clock ticks since boot, /proc/PID/stat; 0 = unknown */
	uint64_t start_ns;   /* CLOCK_REALTIME at the recorder's start */
	uint32_t uid;
	int32_t ppid;
	int32_t rank, world_size, local_rank;
	_Atomic uint32_t compressed; /* the trace is .pfw.gz */
	uint32_t whole_us;	     /* ts and dur in whole µs */
	uint32_t metadata;	     /* args are written */
	uint32_t disable_tids;	     /* tid = pid in every line */
	uint32_t child;		     /* named -pidNNN: has a traced ancestor of the same rank */
	uint32_t launcher;
	_Atomic uint32_t file_made; /* the trace exists under the path in the second page */
	char rank_source[32];
	char boot_id[40];
	char host[72];
	char run[128];
	char clock[16]; /* pfw_clock_name() */
	char version_text[16];
	struct pfw_slot slot[2];
	struct pfw_loss lost[PFW_LOST_REASONS];
	struct pfw_loss profiled; /* lost with reason PROFILE, unless the profile is written yet */
	struct pfw_loss waited; /* threads that waited for room: count; last_ns = total ns waited */
	_Atomic uint64_t excluded[PFW_EXCLUDED_REASONS];
	_Atomic uint64_t unrecorded[PFW_UNRECORDED_KINDS];
	_Atomic uint32_t reported; /* bit n: lost[n] up to now is in the trace */
	uint32_t template_count;
	struct pfw_control control;
	uint64_t pid_namespace; /* inode of /proc/self/ns/pid, 0 = unknown: whose number pid is */
	uint64_t base_hash;	/* of the base name in force: children of one run share it */
	char cmd[512];		/* the command line, cut to this; any bytes */
	char base[1024]; /* the base name in force, absolute, words expanded; "" = too long */
};
_Static_assert(sizeof(struct pfw_spool_header) <= PFW_PAGE_BYTES, "one control page");

/* The header's second page: the absolute path of the trace, NUL-terminated. */
static inline char *pfw_spool_trace_path(struct pfw_spool_header *header)
{
	return (char *)header + PFW_PAGE_BYTES;
}

enum pfw_chunk_kind {
	PFW_CHUNK_TEMPLATES = 1, /* one, the first chunk */
	PFW_CHUNK_STRINGS,	 /* up to PFW_STRING_SEGMENTS of them */
	PFW_CHUNK_RING,
	PFW_CHUNK_SUMS,	 /* of the ring with the same number */
	PFW_CHUNK_STEPS, /* at most one: the steps of a schedule */
};

/* The head of every chunk. */
struct pfw_chunk {
	uint32_t kind;	/* enum pfw_chunk_kind */
	uint32_t index; /* TEMPLATES: 0; STRINGS: segment number; RING: ring number */
	uint64_t bytes; /* of the whole chunk, this head included; a multiple of the page */
};

/* ---- templates ---- */

#define PFW_TEMPLATE_FIELDS 9
#define PFW_KEY_BYTES 24
#define PFW_KEYS_MAX 96

/* A key of args and how its value is written.  keys[0] is always {"fd", I64}. */
struct pfw_key {
	char name[PFW_KEY_BYTES - 1];
	uint8_t type;
};

struct pfw_template {
	char name[24];	  /* the line's name (canonical: open64 is "open"); "" for API and PP */
	char category[8]; /* POSIX | STDIO | PP | "" */
	uint8_t shape;	  /* enum pfw_shape */
	uint8_t field_count;
	/* Indices into keys[].  CALL: the fields behind ret, in order; ret itself is not listed. */
	uint8_t field[PFW_TEMPLATE_FIELDS];
	uint8_t flags; /* enum pfw_template_flags */
};

enum pfw_template_flags {
	PFW_TEMPLATE_RET_PID = 1, /* reserved for readers: ret is a process id */
};

struct pfw_template_chunk {
	struct pfw_chunk chunk;
	uint32_t key_count;
	uint32_t template_count;
	uint64_t unused;
	struct pfw_key key[PFW_KEYS_MAX];
	struct pfw_template template[]; /* template_count of them */
};

/* ---- strings ---- */

/*
 * A string's name is a 32-bit reference: generation << 16 | granule.  Segment = granule >> 12, and
 * within it byte (granule & 4095) * 16 counted from the segment's own start (its struct pfw_chunk
 * takes the first granules).  A reference is good while the generation found there is the same: the
 * space of a closed file's name is used again, and a late reference then reads "no name" instead of
 * another file's.  Reference 0 is none.
 */
#define PFW_STRING_GRANULE 16u
#define PFW_STRING_SEGMENT_BYTES 65536u
#define PFW_STRING_SEGMENTS 16u /* 1 MiB in all; beyond it names are written inline */

struct pfw_string {
	_Atomic uint16_t generation; /* even while free, odd while in use; never 0 in use */
	uint16_t bytes;		     /* length of the text */
	_Atomic uint32_t users;	     /* descriptors and tables that hold it */
	uint32_t next;		     /* free list */
	uint16_t granules;	     /* size of this cell: fixed once carved */
	uint16_t unused;
	char text[];
};

static inline uint32_t pfw_string_ref(uint32_t generation, uint32_t granule)
{
	return (generation & 0xffffu) << 16 | granule;
}

/* ---- steps ---- */

/*
 * When the last steps began, for the `step` and `phase` of what happened in them: events are given
 * theirs by time, when they are written, so that a probe need not know of steps.  mark[n &
 * (PFW_STEP_MARKS - 1)] is the n-th; the newest is head - 1.  What is older than the oldest mark
 * kept has no step.
 */
#define PFW_STEP_MARKS 1024u

struct pfw_step_mark {
	_Atomic uint64_t ticks;
	_Atomic uint64_t step; /* << 2 | enum pfw_phase; phase 0: not recorded, in no step */
};

struct pfw_steps_chunk {
	struct pfw_chunk chunk;
	_Atomic uint64_t head; /* stored last (release) */
	_Atomic uint64_t seen; /* marks that the writer no longer needs */
	struct pfw_step_mark mark[PFW_STEP_MARKS];
};

/* ---- rings ---- */

/*
 * One stretch of a thread's ring: `capacity` slots behind one page of head.  A ring that proves too
 * small gets a greater stretch; `order` says in which order the stretches of one ring were filled.
 * Positions count slots for the life of the stretch, and slot[position & (capacity - 1)] holds it.
 */
#define PFW_RING_CLOSED (1ull << 63) /* in head: the producer has moved to the next stretch */

struct pfw_ring_chunk {
	struct pfw_chunk chunk;	 /* index = ring number */
	uint64_t order;		 /* of this stretch within its ring */
	uint32_t capacity;	 /* slots, a power of two */
	_Atomic int32_t tid;	 /* whose records: 0 = free */
	char comm[16];		 /* the thread's name when it got the ring */
	uint64_t saved_tail[2];	 /* freed up to here, by the slot of the same parity */
	_Atomic uint32_t in_use; /* 0: stretch is on the free list, nothing in it counts */
	alignas(128) _Atomic uint64_t head;    /* reserved up to here; producer only */
	uint64_t tail_seen;		       /* the producer's last look at tail */
	alignas(128) _Atomic uint64_t tail;    /* free up to here; writer only */
	alignas(128) _Atomic uint64_t full_at; /* 1 + head when the producer last had no room */
};
_Static_assert(sizeof(struct pfw_ring_chunk) <= PFW_PAGE_BYTES, "head of a stretch is one page");

/* ---- sums ---- */

/*
 * Calls shorter than PFW_MIN_DUR, summed by the thread that makes them, per call and file: a table
 * for each ring.  Only the ring's owner takes, fills and frees an entry.  The writer notes beside it
 * what the trace has of it (`saved`, by the slot of the same parity): the difference is what
 * recovery still has to write.  An entry may be given to another file once both say the same.
 */
#define PFW_SUMS 256u
#define PFW_SUMS_SEEN 256u

struct pfw_sum_figures {
	_Atomic uint64_t count;
	_Atomic uint64_t failed;
	_Atomic uint64_t ticks;
	_Atomic uint64_t bytes;
};

struct pfw_sum {
	_Atomic uint32_t life; /* odd: in use; another number for each file it was ever given to */
	uint16_t call;	       /* template */
	uint16_t due;	       /* writer only: slots that do not have `told` yet */
	uint32_t name;	       /* string of the spool, held; 0 = none */
	uint32_t hash;	       /* of its text */
	_Atomic uint64_t turn; /* now[turn & 1] is whole: stored last */
	struct pfw_sum_figures now[2];
	alignas(64) struct pfw_sum_figures saved[2];
	struct pfw_sum_figures told; /* writer only: in the text so far */
};

/* What was found last, so that the same descriptor need not be looked for by name. */
struct pfw_sum_seen {
	uint32_t name;
	uint16_t call;
	uint16_t entry; /* its number + 1, 0 = nothing */
};

struct pfw_sums_chunk {
	struct pfw_chunk chunk;	 /* index = ring number */
	_Atomic uint32_t busy;	 /* the owner is at work: its signal handlers keep off */
	_Atomic uint32_t filled; /* anything was ever summed here */
	_Atomic uint64_t beyond; /* short calls that found no room and became lines of their own */
	uint32_t due;		 /* writer only: as the greatest of its entries */
	struct pfw_sum_seen seen[PFW_SUMS_SEEN];
	alignas(4096) struct pfw_sum sum[PFW_SUMS];
};
#define PFW_SUMS_BYTES ((uint64_t)sizeof(struct pfw_sums_chunk))
_Static_assert(sizeof(struct pfw_sums_chunk) % PFW_PAGE_BYTES == 0, "a chunk is whole pages");

static inline struct pfw_record *pfw_ring_slot(struct pfw_ring_chunk *stretch, uint64_t position)
{
	char *slots = (char *)stretch + PFW_PAGE_BYTES;

	return (struct pfw_record *)(slots + (position & (stretch->capacity - 1)) * PFW_SLOT_BYTES);
}

#endif
