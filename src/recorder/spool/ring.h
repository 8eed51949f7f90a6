/* recorder/spool/ring.h - a ring buffer takes the records of one thread to the writer.
 *
 * Room recorder/spool: the memory-mapped file that outlives a killed process, and what probes fill
 * in it: rings, names (strings.h), sums of short calls (short_sums.h); file.h makes it.  It may
 * use recorder/guest and common.  Start with its layout in common/format/spool.h.
 *
 * A ring is a list of stretches of the spool (struct pfw_ring_chunk), each twice as long as the one
 * before, up to PFW_RING_MAX: the producer fills the newest, the writer drains them in order.  One
 * producer, one consumer.  Signal handlers of the producer's thread may nest: a compare-and-swap
 * without lock prefix reserves slots; then they are filled, then committed.
 *
 * The registry of all rings of the process is here, too: probes and writer meet in it.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/tsan.h"
#include "common/format/record.h"
#include "common/format/spool.h"

enum pfw_ring_state {
	PFW_RING_FREE,	/* empty, without an owner */
	PFW_RING_OWNED, /* a thread fills it */
	PFW_RING_DEAD,	/* its thread has ended; FREE once the writer has drained it */
};

struct pfw_ring {
	/* The producer's stretch; replaced only by the producer. */
	struct pfw_ring_chunk *_Atomic stretch;
	/* A longer one, laid ready by the writer for the producer; NULL = none. */
	struct pfw_ring_chunk *_Atomic spare;
	_Atomic uint32_t state; /* enum pfw_ring_state */
	uint32_t index;
	_Atomic uint64_t woke_at; /* 1 + the head at which the producer last woke the writer */
	_Atomic int32_t tid;
	struct pfw_operators
		*operators;    /* open operators of recorder/marks/torch_ops.c; NULL = none yet */
	uint64_t spans;	       /* the next owner's first span id; 0 = never owned */
	struct pfw_ring *next; /* in the registry; constant once published */
	/* Only the writer's. */
	struct pfw_ring_chunk *drain;	 /* the stretch being drained */
	struct pfw_ring_chunk *upcoming; /* offered as spare, not drained yet */
	struct pfw_ring_chunk *last;	 /* of the list from `upcoming` on */
	struct pfw_ring_chunk *retired;	 /* drained, free after the next commit */
	uint64_t cut_ticks;	     /* of a flight recorder: no record that ended before is left */
	uint64_t orders;	     /* `order` of the next stretch */
	uint64_t drained;	     /* position in `drain` up to which it is read */
	uint64_t torn_upto;	     /* slots below were reserved when the first was seen */
	uint64_t torn_look_ns;	     /* time of the last look at that first slot */
	uint64_t torn_ns;	     /* for how long it has been uncommitted */
	uint32_t torn_run;	     /* uncommitted slots skipped just before `drained` */
	bool tails;		     /* a record of several slots was drained: clear_tails() */
	struct pfw_sums_chunk *sums; /* the owner's short calls; NULL = none */
	_Atomic int32_t named_tid;   /* the tid whose thread_name line is written */
};

/* Set once by session. */
struct pfw_ring_host {
	/* There are records to drain, or a thread wants a ring: start or wake the writer.  False:
	 * waiting is in vain.  Keeps errno. */
	bool (*wake)(void);
	struct pfw_spool_header *header; /* counts losses and waits; NULL = nobody does */
	const _Atomic uint32_t *stalled; /* not 0: the trace cannot be written now */
	bool drop;			 /* PFW_ON_FULL=drop */
};
extern struct pfw_ring_host pfw_ring_host;

/* ---- producer ---- */

/* A ring for this thread: a free one, or one that the writer makes on request (waits 10 s at most);
 * NULL = none.  Thread: app.  Signal: safe. */
struct pfw_ring *pfw_ring_acquire(void);

/* Rename a thread that has a ring (cut to 15 bytes); a new thread_name line comes before its next
 * event.  Thread: any. */
void pfw_ring_name_thread(int32_t tid, const char *name);

/* Give the ring up.  Thread: owner.  Signal: safe. */
void pfw_ring_release(struct pfw_ring *ring);

/*
 * Compare-and-swap without lock prefix, which costs a third of a short probe: only signal handlers
 * of this thread store here, never the writer.  Release: the writer may give a closed stretch to
 * another ring, and no older store of ours may arrive there.
 */
static inline bool pfw_ring_cas(_Atomic uint64_t *word, uint64_t *expected, uint64_t desired)
{
#if defined(__x86_64__) && !PFW_TSAN
	bool done;

	__asm__ volatile("cmpxchgq %3, %1"
			 : "=@ccz"(done), "+m"(*word), "+a"(*expected)
			 : "r"(desired)
			 : "memory");
	return done;
#else
	return atomic_compare_exchange_strong_explicit(word, expected, desired,
						       memory_order_release, memory_order_relaxed);
#endif
}

/* The rest of pfw_ring_reserve(): padding, another stretch, a wait, waking the writer. */
struct pfw_record *pfw_ring_reserve_slow(struct pfw_ring *ring, unsigned slots, uint64_t *position);

/*
 * Reserve `slots` contiguous slots for a record; fill them, then call pfw_ring_commit() with
 * *position.  NULL: no room after waiting (block) or at once (drop); the loss is counted.  Thread:
 * owner.  Signal: safe.  Keeps errno.
 */
static inline struct pfw_record *pfw_ring_reserve(struct pfw_ring *ring, unsigned slots,
						  uint64_t *position)
{
	struct pfw_ring_chunk *stretch = atomic_load_explicit(&ring->stretch, memory_order_relaxed);
	uint64_t head = atomic_load_explicit(&stretch->head, memory_order_relaxed);
	uint64_t half = stretch->capacity / 2, end = head + slots;

	/* Within one half of the stretch there is no padding and nobody to wake.  The closed bit
	 * makes the head too great for any tail. */
	if (__builtin_expect(((head ^ end) & half) ||
				     end - stretch->tail_seen > stretch->capacity ||
				     !pfw_ring_cas(&stretch->head, &head, end),
			     0))
		return pfw_ring_reserve_slow(ring, slots, position);
	*position = head;
	return pfw_ring_slot(stretch, head);
}

static inline void pfw_ring_commit(struct pfw_record *record, uint64_t position)
{
	/* Release after the copy: the writer reads each slot whose mark matches its position. */
	atomic_store_explicit(&record->committed, (uint32_t)(position + 1), memory_order_release);
}

/* Count lost events.  Thread: any.  Signal: safe. */
void pfw_ring_count_lost(enum pfw_lost_reason reason, uint64_t count);

/* Count an operator that torch.profiler will record; `count` of them have come into the trace.
 * Thread: any.  Signal: safe. */
void pfw_ring_count_profiled(void);
void pfw_ring_profiled_written(uint64_t count);

/* ---- writer ---- */

/* All rings, newest first; follow ->next.  Thread: any. */
struct pfw_ring *pfw_ring_first(void);

/* Make a stretch, new or from another ring, the next one of `ring`.  Thread: drain. */
void pfw_ring_prepare(struct pfw_ring *ring, struct pfw_ring_chunk *stretch);

/* Publish a FREE ring with this stretch.  `ring` is zeroed memory that is never unmapped.
 * Thread: drain. */
void pfw_ring_publish(struct pfw_ring *ring, struct pfw_ring_chunk *stretch, uint32_t index);

/* Lay another stretch ready for the producer, who is in the last one.  Thread: drain. */
void pfw_ring_offer(struct pfw_ring *ring, struct pfw_ring_chunk *stretch);

/* Whether the producer is in the last stretch, and fills its second half.  Thread: drain. */
bool pfw_ring_wants_more(const struct pfw_ring *ring);

/* Free a DEAD ring for another thread, which will fill this stretch, or the spare if NULL; the ring
 * keeps its records.  Thread: drain. */
void pfw_ring_renew(struct pfw_ring *ring, struct pfw_ring_chunk *stretch);

/* Copy a record into a ring whose producer is the writer.  False: there is no room.
 * Thread: drain. */
bool pfw_ring_put(struct pfw_ring *ring, const struct pfw_record *record, unsigned slots);

/* Whether peek finds no record because one is not committed yet.  Thread: drain. */
bool pfw_ring_is_blocked(const struct pfw_ring *ring);

/* The number of threads that wait for a ring.  Thread: drain. */
uint32_t pfw_ring_wanted(void);

/* The oldest record that is not drained; NULL = none.  *slots gets its length.  Skips padding, goes
 * on to the next stretch, and skips and counts torn slots once two looks (at `now_ns`) have seen
 * that they held up other records for a second.  Thread: drain. */
const struct pfw_record *pfw_ring_peek(struct pfw_ring *ring, uint64_t now_ns, unsigned *slots);

/* Before the end of a trace: let the next peek skip torn slots that hold up others at once.  False:
 * the ring is empty.  Thread: drain. */
bool pfw_ring_last_look(struct pfw_ring *ring);

/* Skip the record that peek returned.  Thread: drain. */
static inline void pfw_ring_advance(struct pfw_ring *ring, unsigned slots)
{
	ring->drained += slots;
	ring->tails |= slots > 1;
}

/* Whether a commit would free records, padding, torn slots, or the ring of an ended thread. */
static inline bool pfw_ring_has_drained(const struct pfw_ring *ring)
{
	return ring->retired || atomic_load(&ring->state) == PFW_RING_DEAD ||
	       ring->drained != atomic_load_explicit(&ring->drain->tail, memory_order_relaxed);
}

/* Note which records are in the file, for the header slot of this parity; once it is written, free
 * them.  The latter returns a stretch that the ring no longer needs, or NULL.  Thread: drain. */
void pfw_ring_save(struct pfw_ring *ring, unsigned parity);
struct pfw_ring_chunk *pfw_ring_free_drained(struct pfw_ring *ring);

/* Whether it is half full at least, with records that are drained but not freed.  Thread: drain. */
bool pfw_ring_half_full(const struct pfw_ring *ring);

/* Wake all producers that wait for room or for a ring.  Thread: drain. */
void pfw_ring_space_made(void);

/* Empty all rings, whose records came after the trace was complete, and give them positions that no
 * thread knows which was interrupted then (leave.h).  Nothing may be recorded meanwhile. */
void pfw_ring_skip_all(void);

/* Empty the registry without touching the rings, which are the parent's.
 * Thread: a forked child's only one. */
void pfw_ring_forget_all(void);
