/* common/format/spool.h - layout of a process's spool, for the recorder and for recovery.
 *
 * Room common/format: formats that the recorder and the tools share: spool, record, control page,
 * clock pairs, gzip members.  It uses common/base.  Start here, then record.h.
 *
 * The spool is a file (in /dev/shm if possible) that the process maps, so it survives SIGKILL.  A
 * header of two pages (the control page and the trace's path) is made at start-up if tracing is
 * enabled.  Chunks follow it, each beginning with struct pfw_chunk.  Only the writer thread appends
 * chunks: it writes the chunk, then stores `end`.  Header and chunks are whole pages of the
 * machine, which may be larger than PFW_PAGE_BYTES.
 *
 * Name: pfw-UID-PID-STARTTIME.spool[.N].  N is used if the name is taken: by an earlier program of
 * this process, or by a process of another pid namespace.  A process that ends normally removes its
 * spool.  `pfw repair`, `pfw run` and `pfw compact` adopt the spool of a killed process:
 *   1. the newest slot (generation) gives the length of the good part of the trace: cut it there;
 *   2. for each ring, encode and append each committed record from saved_tail[generation & 1] to
 *      head; records that were reserved and not committed count as torn;
 *   3. write the losses counted in the header, then `end` with reason `recovered`.
 * A process has one writer at a time.  It writes the file, then the other slot, then frees the
 * records: so each record is either in the good part of the file or in its ring, never in both.
 *
 * A flight recorder's rings keep many stretches, of which its writer frees the oldest unwritten.
 * It is recovered in the same way.
 */
#pragma once

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#include "common/format/control.h"
#include "common/format/record.h"

#define PFW_SPOOL_MAGIC 0x4c4f4f5053574650ull /* "PFWSPOOL" */
#define PFW_SPOOL_VERSION 15u		      /* increased by any change of a struct below */
#define PFW_PAGE_BYTES 4096u
#define PFW_SPOOL_HEADER_BYTES (2u * PFW_PAGE_BYTES)
#define PFW_PAGE_BYTES_MAX 65536u /* of a machine */
#define PFW_SPOOL_PREFIX "pfw-"
#define PFW_SPOOL_SUFFIX ".spool"

/* Ticks to time: ns = mono_ns + ((ticks - self.ticks) * mult >> shift) + real_offset_ns. */
struct pfw_clock_pair {
	uint64_t ticks;
	uint64_t mono_ns;	/* CLOCK_MONOTONIC at `ticks` */
	int64_t real_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC */
	uint64_t mult;		/* ns per tick, fixed point; 1 << shift if ticks are ns */
};
#define PFW_CLOCK_SHIFT 32

/* Written after each write of the trace; the valid slot with the greater generation counts. */
struct pfw_slot {
	_Atomic uint64_t generation; /* 0 = never written; stored last (release) */
	uint64_t offset;	     /* bytes of the trace that are good */
	uint64_t next_id;	     /* the id of the next line */
	uint64_t events;	     /* lines written so far that are not ph M */
	uint64_t torn;		     /* counted so far; recovery finds later ones again */
	struct pfw_clock_pair first; /* the session's first pair, for long spans */
	struct pfw_clock_pair last;
};

/* Why records were lost: an index of pfw_spool_header.lost. */
enum pfw_lost_reason {
	PFW_LOST_FULL,	    /* ring full and PFW_ON_FULL=drop, or no writer drains it */
	PFW_LOST_NO_MEMORY, /* no memory for the ring of a thread */
	PFW_LOST_NO_WRITER, /* the writer thread could not be started */
	PFW_LOST_TOO_LONG,  /* a record of more than PFW_RECORD_SLOTS_MAX slots */
	PFW_LOST_TORN,	    /* reserved and never committed (a handler jumped out of a probe) */
	PFW_LOST_WRITE,	    /* the trace could not be written and the rings were full */
	PFW_LOST_LIMIT,	    /* the trace has PFW_MAX_BYTES */
	PFW_LOST_GPU,	    /* CUPTI had no buffer for them */
	PFW_LOST_PROFILE,   /* left to a torch.profiler profile that was never written */
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
	PFW_EXCLUDED_CHILDREN, /* forked children: PFW_CHILDREN */
	PFW_EXCLUDED_REASONS
};
/* clang-format off */
#define PFW_EXCLUDED_NAMES { "data_dir", "system", "python", "library", "trace", "exclude", "children" }
/* clang-format on */

/* I/O that no wrapper saw: an index of pfw_spool_header.unrecorded. */
enum pfw_unrecorded_kind {
	PFW_UNRECORDED_OPERATIONS, /* taken from io_uring rings: a lower bound */
	PFW_UNRECORDED_RINGS,	   /* io_uring rings */
	PFW_UNRECORDED_CONTEXTS,   /* of AIO (libaio); they do not count their operations */
	PFW_UNRECORDED_EARLY,  /* calls before the recorder's constructor, whatever their file */
	PFW_UNRECORDED_GPU_US, /* time before a kill whose GPU work CUPTI had not handed over */
	PFW_UNRECORDED_KINDS
};
/* clang-format off */
#define PFW_UNRECORDED_NAMES { "io_uring_operations", "io_uring_rings", "aio_contexts", "early_calls", "gpu_us" }
/* clang-format on */

/* Why a call that was to have its stack has none: an index of pfw_spool_header.stacks_lost. */
enum pfw_stacks_lost_reason {
	PFW_STACKS_LOST_FULL,	/* no room for another distinct stack */
	PFW_STACKS_LOST_FAILED, /* no frame of it could be told */
	PFW_STACKS_LOST_REASONS
};
/* clang-format off */
#define PFW_STACKS_LOST_NAMES { "full", "failed" }
/* clang-format on */

/* Variables that are lists of globs: an index of pfw_spool_header.matched. */
enum pfw_glob_list_of { PFW_GLOBS_EXCLUDE, PFW_GLOBS_CHILDREN, PFW_GLOB_LISTS };

enum pfw_spool_state {
	PFW_SPOOL_LIVE,
	PFW_SPOOL_ADOPTED, /* recovered: the owner must not write again, if it lives */
	PFW_SPOOL_DONE,	   /* the trace has its `end` line: nothing to recover */
};

/* A counter that many threads add to. */
struct pfw_loss {
	_Atomic uint64_t count;
	_Atomic uint64_t first_ns; /* CLOCK_REALTIME; 0 = none yet */
	_Atomic uint64_t last_ns;
};

struct pfw_spool_header {
	uint64_t magic;
	uint32_t version;
	uint32_t header_bytes;	/* offset of the first chunk; PFW_SPOOL_HEADER_BYTES or more */
	_Atomic uint64_t end;	/* bytes in use: offset of the next chunk */
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
	uint32_t stacks;	     /* PFW_STACK is set */
	uint32_t child; /* its trace is named -pidNNN: a traced ancestor has the same rank */
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
	struct pfw_loss profiled; /* becomes lost[PROFILE] unless the profile is written */
	struct pfw_loss waited;	  /* threads that waited for room; last_ns = total ns waited */
	_Atomic uint64_t excluded[PFW_EXCLUDED_REASONS];
	_Atomic uint64_t unrecorded[PFW_UNRECORDED_KINDS];
	/* CLOCK_REALTIME: earlier GPU work is recorded; 0 = there is no later one to record */
	_Atomic uint64_t gpu_since_ns;
	_Atomic uint32_t reported; /* bit n: the trace has lost[n] up to now */
	uint32_t template_count;
	struct pfw_control control;
	uint64_t pid_namespace; /* of pid: inode of /proc/self/ns/pid, 0 = unknown */
	uint64_t base_hash;	/* of `base`: children of one run share it */
	char cmd[512];		/* the command line, cut to this; any bytes */
	char base[1024]; /* base name of the trace, absolute, words expanded; "" = too long */
	/* The first traced process of the run, maybe this one.  Its header has, for each list of
	 * globs, a bit for each that has matched something in any process; see pfw_glob_path(). */
	uint64_t root_start;
	int32_t root_pid;
	_Atomic uint64_t matched[PFW_GLOB_LISTS];
	/* A flight recorder (PFW_KEEP): the rings hold the newest events, of so many bytes and so
	 * much time; its next trace is a dump of them.  keep_bytes 0: an ordinary trace. */
	uint64_t keep_bytes, keep_ns;
	_Atomic uint64_t overwritten; /* events, since the dump before */
	_Atomic uint64_t whole_ticks; /* what ended since is all there; 0 = from the beginning */
	_Atomic uint32_t dumps;	      /* finished so far */
	_Atomic uint64_t stacks_lost[PFW_STACKS_LOST_REASONS];
};
_Static_assert(sizeof(struct pfw_spool_header) <= PFW_PAGE_BYTES, "one control page");

/* The header's second page: the absolute path of the trace, NUL-terminated. */
static inline char *pfw_spool_trace_path(struct pfw_spool_header *header)
{
	return (char *)header + PFW_PAGE_BYTES;
}

enum pfw_chunk_kind {
	PFW_CHUNK_TEMPLATES = 1, /* exactly one, the first chunk */
	PFW_CHUNK_STRINGS,	 /* at most PFW_STRING_SEGMENTS */
	PFW_CHUNK_RING,
	PFW_CHUNK_SUMS,	  /* for the ring with the same number */
	PFW_CHUNK_STEPS,  /* at most one: the steps of a schedule */
	PFW_CHUNK_STACKS, /* at most one: stacks.h */
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

/* A key of args and the type of its value.  keys[0] is always {"fd", I64}. */
struct pfw_key {
	char name[PFW_KEY_BYTES - 1];
	uint8_t type;
};

struct pfw_template {
	char name[28];	  /* the line's name (canonical: open64 is "open"); "" for API and PP */
	char category[8]; /* POSIX | STDIO | NET | SYNC | PP | "" */
	uint8_t shape;	  /* enum pfw_shape */
	uint8_t field_count;
	/* Indices into keys[].  CALL: the fields after ret, in order. */
	uint8_t field[PFW_TEMPLATE_FIELDS];
	uint8_t unused;
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

/* A reference to a string has 32 bits: generation << 16 | granule.  The segment is granule >> 12;
 * the offset in it is (granule & 4095) * 16, counted from its struct pfw_chunk.  A reference is
 * valid while the cell has the same generation: the cell of a closed file's name is reused, and a
 * late reference then finds no name instead of another file's.  Reference 0 is no string. */
#define PFW_STRING_GRANULE 16u
#define PFW_STRING_SEGMENT_BYTES 65536u
#define PFW_STRING_SEGMENTS 16u /* 1 MiB in all; further names are stored in their records */

struct pfw_string {
	_Atomic uint16_t generation; /* even while free, odd while in use; never 0 in use */
	uint16_t bytes;		     /* length of the text */
	_Atomic uint32_t users;	     /* reference count: descriptors and tables */
	uint32_t next;		     /* free list */
	uint16_t granules;	     /* size of this cell; never changes */
	uint16_t unused;
	char text[];
};

static inline uint32_t pfw_string_ref(uint32_t generation, uint32_t granule)
{
	return (generation & 0xffffu) << 16 | granule;
}

/* The mapped string segments of a spool; NULL = not there. */
struct pfw_string_view {
	const char *segment[PFW_STRING_SEGMENTS];
};

/* The text of a reference and its length; NULL if the reference is stale or out of bounds.
 * Thread: any.  Signal: safe. */
const char *pfw_string_text(const struct pfw_string_view *view, uint32_t ref, uint32_t *bytes);

/* ---- steps ---- */

/* When the last steps began.  The writer derives `step` and `phase` of an event from its time, so
 * that probes need not know of steps.  mark[n & (PFW_STEP_MARKS - 1)] is the n-th mark; the newest
 * is head - 1.  Events older than the oldest mark get no step. */
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

/* One stretch of a thread's ring: a page of head, then `capacity` slots.  A ring that is too small
 * gets a larger stretch; `order` is the order in which the stretches of a ring were filled.
 * Positions count slots for the life of the stretch; position p is in slot[p & (capacity - 1)]. */
#define PFW_RING_CLOSED (1ull << 63) /* in head: the producer has moved to the next stretch */

struct pfw_ring_chunk {
	struct pfw_chunk chunk;		    /* index = ring number */
	uint64_t order;			    /* of this stretch within its ring */
	uint32_t capacity;		    /* slots; a power of two */
	_Atomic int32_t tid;		    /* owner; 0 = free */
	char comm[16];			    /* the thread's name when it got the ring */
	uint64_t saved_tail[2];		    /* freed up to here, for the slot of the same parity */
	_Atomic uint32_t in_use;	    /* 0: the stretch is on the free list */
	struct pfw_ring_chunk *next;	    /* writer only: what its ring fills after it */
	uint64_t made_ticks, closed_ticks;  /* writer only: laid ready; seen to be full */
	alignas(128) _Atomic uint64_t head; /* reserved up to here; producer only */
	uint64_t tail_seen;		    /* tail as the producer last read it */
	alignas(128) _Atomic uint64_t tail; /* free up to here; writer only */
	alignas(128) _Atomic uint64_t full_at; /* 1 + head when the producer last had no room */
};
_Static_assert(sizeof(struct pfw_ring_chunk) <= PFW_PAGE_BYTES, "head of a stretch is one page");

/* ---- sums ---- */

/* Calls shorter than PFW_MIN_DUR, summed by call and file: one table for each ring.  Only the owner
 * of the ring takes, fills and frees an entry.  The writer stores in `saved` (for the slot of the
 * same parity) the sums that the trace has; recovery writes the difference.  An entry can be reused
 * for another file once both are equal. */
#define PFW_SUMS 256u
#define PFW_SUMS_SEEN 256u

struct pfw_sum_figures {
	_Atomic uint64_t count;
	_Atomic uint64_t failed;
	_Atomic uint64_t ticks;
	_Atomic uint64_t bytes;
};

struct pfw_sum {
	_Atomic uint32_t life; /* odd: in use; incremented for each file it is given to */
	uint16_t call;	       /* template */
	uint16_t due;	       /* writer only: header slots that lack `reported` */
	uint32_t name;	       /* string of the spool, held; 0 = none */
	uint32_t hash;	       /* of its text */
	_Atomic uint64_t turn; /* stored last: now[turn & 1] is complete */
	struct pfw_sum_figures now[2];
	alignas(64) struct pfw_sum_figures saved[2];
	struct pfw_sum_figures reported; /* writer only: sums in the text so far */
};

/* Cache of the entry found last: the same descriptor needs no search by name. */
struct pfw_sum_seen {
	uint32_t name;
	uint16_t call;
	uint16_t entry; /* its number + 1, 0 = nothing */
};

struct pfw_sums_chunk {
	struct pfw_chunk chunk;	 /* index = ring number */
	_Atomic uint32_t busy;	 /* the owner is changing the table: its signal handlers skip it */
	_Atomic uint32_t filled; /* a call was summed here */
	_Atomic uint64_t beyond; /* short calls that found no free entry and became lines */
	uint32_t due;		 /* writer only: the maximum of its entries */
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
