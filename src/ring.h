/* ring.h - the records of one thread on their way to the writer.
 *
 * A ring is a list of stretches of the spool (struct pfw_ring_chunk), each twice as long as the one
 * before, up to PFW_RING_MAX: the producer fills the newest, the writer empties them in order.  One
 * producer, one consumer; a signal handler in the producer's thread may nest: slots are reserved by
 * a compare-and-swap (of this processor alone: no lock prefix), then filled, then committed.
 *
 * This file also holds the registry of all rings of the process, where writer and probes meet.
 */
#ifndef PFW_RING_H
#define PFW_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record.h"
#include "spool.h"

enum pfw_ring_state {
	PFW_RING_FREE,	/* empty and anybody's */
	PFW_RING_OWNED, /* a thread's */
	PFW_RING_DEAD,	/* its thread has ended: FREE once the writer has emptied it */
};

struct pfw_ring {
	/* The producer's stretch; replaced only by the producer. */
	struct pfw_ring_chunk *_Atomic stretch;
	/* A greater one, put here by the writer for the producer to move to; NULL = none. */
	struct pfw_ring_chunk *_Atomic spare;
	_Atomic uint32_t state; /* enum pfw_ring_state */
	uint32_t index;
	_Atomic uint64_t woke_at; /* 1 + the head at which the producer last woke the writer */
	_Atomic int32_t tid;
	struct pfw_operators *operators; /* torch_ops.c's, of whose ring it is; NULL = none yet */
	uint64_t spans;			 /* the next owner's first span id; 0 = it is the first */
	struct pfw_ring *next;		 /* registry; set before the ring is published */
	/* The writer's own. */
	struct pfw_ring_chunk *drain;	 /* the stretch being emptied */
	struct pfw_ring_chunk *upcoming; /* offered as spare, not yet being emptied */
	struct pfw_ring_chunk *retired;	 /* emptied, to be given back after the next write */
	uint64_t orders;		 /* of the next stretch */
	uint64_t drained;		 /* read up to here, in `drain`; not yet freed */
	uint64_t torn_upto;		 /* slots below are as old as the first of them */
	uint64_t torn_look_ns;		 /* when that was last looked at */
	uint64_t torn_ns;		 /* how long it has been held for */
	uint32_t torn_run;		 /* uncommitted slots passed over just before `drained` */
	bool tails;			 /* what clear_tails() is for was drained */
	struct pfw_sums_chunk *sums;	 /* the owner's short calls; NULL = none */
	_Atomic int32_t named_tid;	 /* the tid whose thread_name line is written */
};

/* What ring.c asks of the outside; set once by session. */
struct pfw_ring_host {
	/* There is something to drain, or a ring is wanted: start or wake the writer.  Keeps errno. */
	bool (*wake)(void);
	struct pfw_spool_header *header; /* losses and waits are counted here; NULL = nowhere */
	const _Atomic uint32_t *stalled; /* not 0: the trace cannot be written for now */
	bool drop;			 /* PFW_ON_FULL=drop */
};
extern struct pfw_ring_host pfw_ring_host;

/* ---- producer ---- */

/*
 * A ring for this thread: a free one, or one the writer makes on request (waits for it, 10 s at
 * most).  NULL: none to be had, counted as lost.  `spans` gets where span ids go on.
 * Thread: app.  Signal: safe.
 */
struct pfw_ring *pfw_ring_acquire(void);

/* Give a thread that has a ring another name, cut to 15 bytes: its next event tells it.  Thread: any. */
void pfw_ring_name_thread(int32_t tid, const char *name);

/* This thread is done with its ring.  Thread: owner.  Signal: safe. */
void pfw_ring_release(struct pfw_ring *ring);

/* ThreadSanitizer sees nothing of what assembly does. */
#if defined(__SANITIZE_THREAD__)
#define PFW_TSAN 1
#elif defined(__has_feature)
#define PFW_TSAN __has_feature(thread_sanitizer)
#else
#define PFW_TSAN 0
#endif

/*
 * Compare and swap against this thread's own signal handlers only: the writer never stores here, so
 * the bus lock, a third of a short probe's cost, can be left out.  Release: who sees a stretch closed
 * may give it to another ring, where nothing of ours must arrive late.
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

/* What pfw_ring_reserve() does where a record does not simply go behind the one before. */
struct pfw_record *pfw_ring_reserve_slow(struct pfw_ring *ring, unsigned slots, uint64_t *position);

/*
 * Room for a record of `slots` contiguous slots; fill it and hand it to pfw_ring_commit().  NULL:
 * no room after waiting (block) or at once (drop), and counted.  *position gets what commit needs.
 * Thread: owner.  Signal: safe.  Keeps errno.
 */
static inline struct pfw_record *pfw_ring_reserve(struct pfw_ring *ring, unsigned slots,
						  uint64_t *position)
{
	struct pfw_ring_chunk *stretch = atomic_load_explicit(&ring->stretch, memory_order_relaxed);
	uint64_t head = atomic_load_explicit(&stretch->head, memory_order_relaxed);
	uint64_t half = stretch->capacity / 2, end = head + slots;

	/* Within one half of the stretch: no padding, and nobody to wake.  A closed stretch's head is
	 * too great for any tail. */
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
	/* Publish after the copy: the writer reads every slot whose mark fits its position. */
	atomic_store_explicit(&record->committed, (uint32_t)(position + 1), memory_order_release);
}

/* Count events that could not be kept.  Thread: any.  Signal: safe. */
void pfw_ring_count_lost(enum pfw_lost_reason reason, uint64_t count);

/* Count an operator that is left to torch.profiler; `count` of those are in the trace now.
 * Thread: any.  Signal: safe. */
void pfw_ring_count_profiled(void);
void pfw_ring_profiled_written(uint64_t count);

/* ---- writer ---- */

/* All rings, newest first; follow ->next.  Thread: any. */
struct pfw_ring *pfw_ring_first(void);

/* Make a stretch the next of `ring`, wherever its positions stand.  Thread: drain. */
void pfw_ring_prepare(struct pfw_ring *ring, struct pfw_ring_chunk *stretch);

/* Make a ring out of a stretch and publish it as FREE.  `ring` is zeroed memory that stays.
 * Thread: drain. */
void pfw_ring_publish(struct pfw_ring *ring, struct pfw_ring_chunk *stretch, uint32_t index);

/* Lay a greater stretch ready for the producer to move to, where none waits and the producer's is
 * the one being emptied.  Thread: drain. */
void pfw_ring_offer(struct pfw_ring *ring, struct pfw_ring_chunk *stretch);

/* How many rings threads have asked for and not got.  Thread: drain. */
uint32_t pfw_ring_wanted(void);

/* Look at the oldest record not yet drained: NULL = none (yet).  *slots gets its length.  Moves on
 * to the next stretch by itself; padding and torn slots are passed over (torn ones once they have
 * held up others for a second, seen at least twice by `now_ns`, counted).  Thread: drain. */
const struct pfw_record *pfw_ring_peek(struct pfw_ring *ring, uint64_t now_ns, unsigned *slots);

/* The trace is about to end: what is torn now and holds others up is passed over by the next peek,
 * however young.  False: nothing is left at all.  Thread: drain. */
bool pfw_ring_last_look(struct pfw_ring *ring);

/* Pass over the record that peek gave.  Thread: drain. */
static inline void pfw_ring_advance(struct pfw_ring *ring, unsigned slots)
{
	ring->drained += slots;
	ring->tails |= slots > 1;
}

/* Whether anything drained is not freed yet: records, but also padding and torn slots; and the ring
 * itself, when its thread has ended. */
static inline bool pfw_ring_has_drained(const struct pfw_ring *ring)
{
	return ring->retired || atomic_load(&ring->state) == PFW_RING_DEAD ||
	       ring->drained != atomic_load_explicit(&ring->drain->tail, memory_order_relaxed);
}

/* Note how far the records are in the file, under the parity of the slot about to be written; then,
 * once that slot is written, free them.  The latter returns a stretch the ring is done with, or
 * NULL.  Thread: drain. */
void pfw_ring_save(struct pfw_ring *ring, unsigned parity);
struct pfw_ring_chunk *pfw_ring_free_drained(struct pfw_ring *ring);

/* Whether it is at least half full, counting what is drained but not freed.  Thread: drain. */
bool pfw_ring_half_full(const struct pfw_ring *ring);

/* Wake producers that wait for room or for a ring.  Thread: drain. */
void pfw_ring_space_made(void);

/* Forget all rings without touching them: a forked child's, whose rings are its parent's.
 * Thread: the child's only one. */
void pfw_ring_forget_all(void);

#endif
