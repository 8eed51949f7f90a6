/* recorder/spool/ring.c - a ring buffer takes the records of one thread to the writer. */
#include "recorder/spool/ring.h"

#include <string.h>

#include "common/base/os.h"
#include "common/format/clock.h"

struct pfw_ring_host pfw_ring_host;

static struct pfw_ring *_Atomic registry;
static _Atomic uint32_t wanted;	    /* number of threads that wait for a ring */
static _Atomic uint32_t space_made; /* futex: counts pfw_ring_space_made() */

#define SECOND_NS 1000000000ull
#define WAIT_STEP_NS 1000000ull		 /* longest sleep of a producer without room */
#define LOOK_NS_MAX (SECOND_NS / 10 * 6) /* PFW_FLUSH_MS is 500 by default: its gap counts whole */
#define RING_WAIT_NS (10 * SECOND_NS)	 /* a writer that takes longer is broken */

/* ---- producer ---- */

static void count_loss(struct pfw_loss *loss, uint64_t count)
{
	uint64_t now = pfw_clock_ns(CLOCK_REALTIME), none = 0;

	atomic_compare_exchange_strong(&loss->first_ns, &none, now);
	atomic_store(&loss->last_ns, now);
	atomic_fetch_add(&loss->count, count);
}

void pfw_ring_count_lost(enum pfw_lost_reason reason, uint64_t count)
{
	if (pfw_ring_host.header && count)
		count_loss(&pfw_ring_host.header->lost[reason], count);
}

void pfw_ring_count_profiled(void)
{
	if (pfw_ring_host.header)
		count_loss(&pfw_ring_host.header->profiled, 1);
}

void pfw_ring_profiled_written(uint64_t count)
{
	struct pfw_spool_header *header = pfw_ring_host.header;
	uint64_t left = header ? atomic_load(&header->profiled.count) : 0;

	/* May be fewer than `count`: an `end` of the trace has reported them as lost. */
	while (left && !atomic_compare_exchange_weak(&header->profiled.count, &left,
						     left > count ? left - count : 0))
		;
	if (left && left <= count)
		atomic_store(&header->profiled.first_ns, 0);
}

static void count_wait(uint64_t waited_ns)
{
	struct pfw_spool_header *header = pfw_ring_host.header;

	if (!header)
		return;
	atomic_fetch_add(&header->waited.count, 1);
	atomic_fetch_add(&header->waited.last_ns, waited_ns);
}

static struct pfw_ring *take_free(void)
{
	struct pfw_ring *ring = atomic_load_explicit(&registry, memory_order_acquire);

	for (; ring; ring = ring->next) {
		uint32_t state = PFW_RING_FREE;

		if (atomic_load_explicit(&ring->state, memory_order_relaxed) == PFW_RING_FREE &&
		    atomic_compare_exchange_strong_explicit(&ring->state, &state, PFW_RING_OWNED,
							    memory_order_acq_rel,
							    memory_order_relaxed))
			return ring;
	}
	return NULL;
}

/* The host makes the ring at once, or the writer's thread makes it soon. */
static struct pfw_ring *wait_for_ring(void)
{
	uint64_t deadline = pfw_clock_ns(CLOCK_MONOTONIC) + RING_WAIT_NS;
	struct pfw_ring *ring = NULL;
	bool going = true;

	atomic_fetch_add(&wanted, 1);
	while (!ring && going) {
		uint32_t seen = atomic_load(&space_made);

		going = pfw_ring_host.wake && pfw_ring_host.wake() &&
			pfw_clock_ns(CLOCK_MONOTONIC) < deadline;
		ring = take_free();
		if (!ring && going)
			pfw_os_futex_wait((const uint32_t *)&space_made, seen, 10 * WAIT_STEP_NS);
	}
	atomic_fetch_sub(&wanted, 1);
	return ring;
}

struct pfw_ring *pfw_ring_acquire(void)
{
	struct pfw_ring *ring = take_free();
	struct pfw_ring_chunk *stretch;

	if (!ring)
		ring = wait_for_ring();
	if (!ring)
		return NULL;
	stretch = atomic_load_explicit(&ring->stretch, memory_order_acquire);
	pfw_syscall6(SYS_prctl, 16 /* PR_GET_NAME */, (long)stretch->comm, 0, 0, 0, 0);
	atomic_store(&ring->tid, pfw_os_gettid());
	atomic_store(&stretch->tid, atomic_load(&ring->tid));
	return ring;
}

void pfw_ring_name_thread(int32_t tid, const char *name)
{
	char comm[sizeof(((struct pfw_ring_chunk *)0)->comm)] = { 0 };

	memcpy(comm, name, strnlen(name, sizeof(comm) - 1));
	for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = ring->next) {
		if (atomic_load(&ring->tid) != tid)
			continue;
		memcpy(atomic_load(&ring->stretch)->comm, comm, sizeof(comm));
		if (atomic_load(&ring->drain->tid) ==
		    tid) /* else an ended thread's, which is kept */
			memcpy(ring->drain->comm, comm, sizeof(comm));
		atomic_store(&ring->named_tid, 0);
	}
}

void pfw_ring_release(struct pfw_ring *ring)
{
	atomic_store_explicit(&ring->state, PFW_RING_DEAD, memory_order_release);
}

/* The stretch to move to from `full`, or NULL.  A signal handler that interrupts move_on() may
 * already be in the spare. */
static struct pfw_ring_chunk *spare_for(struct pfw_ring *ring, const struct pfw_ring_chunk *full)
{
	struct pfw_ring_chunk *spare = atomic_load_explicit(&ring->spare, memory_order_acquire);

	return spare == full ? NULL : spare;
}

/* Close the producer's stretch and go on in the spare, if there is one. */
static bool move_on(struct pfw_ring *ring, struct pfw_ring_chunk *full)
{
	struct pfw_ring_chunk *spare = spare_for(ring, full), *taken = spare;
	uint64_t head = atomic_load_explicit(&full->head, memory_order_relaxed);

	if (!spare)
		return false;
	while (!(head & PFW_RING_CLOSED) &&
	       !pfw_ring_cas(&full->head, &head, head | PFW_RING_CLOSED))
		;
	memcpy(spare->comm, full->comm, sizeof(spare->comm));
	atomic_store_explicit(&spare->tid, atomic_load(&ring->tid), memory_order_relaxed);
	/* A signal handler may have moved on between any two of these lines, filled the spare, and
	 * the writer may have offered another one, which must stay. */
	if (atomic_compare_exchange_strong_explicit(&ring->stretch, &full, spare,
						    memory_order_release, memory_order_relaxed))
		atomic_compare_exchange_strong_explicit(&ring->spare, &taken, NULL,
							memory_order_release, memory_order_relaxed);
	return true;
}

/* Wait until `slots` fit, if PFW_ON_FULL says so.  False: the record is lost, and counted. */
static bool wait_for_room(struct pfw_ring *ring, struct pfw_ring_chunk *stretch, uint64_t slots)
{
	uint64_t start = pfw_clock_ns(CLOCK_MONOTONIC);
	bool room = false;

	while (!room) {
		uint32_t seen = atomic_load(&space_made);
		uint64_t head = atomic_load_explicit(&stretch->head, memory_order_relaxed);

		/* For holds_up(): a torn slot may leave no room to commit anything after it. */
		atomic_store_explicit(&stretch->full_at, head + 1, memory_order_relaxed);
		if (pfw_ring_host.drop || !pfw_ring_host.wake || !pfw_ring_host.wake()) {
			pfw_ring_count_lost(pfw_ring_host.stalled &&
							    atomic_load(pfw_ring_host.stalled)
						    ? PFW_LOST_WRITE
						    : PFW_LOST_FULL,
					    1);
			return false;
		}
		stretch->tail_seen = atomic_load_explicit(&stretch->tail, memory_order_acquire);
		room = (head & PFW_RING_CLOSED) ||
		       head + slots - stretch->tail_seen <= stretch->capacity ||
		       spare_for(ring, stretch);
		if (!room)
			pfw_os_futex_wait((const uint32_t *)&space_made, seen, WAIT_STEP_NS);
	}
	count_wait(pfw_clock_ns(CLOCK_MONOTONIC) - start);
	return true;
}

static void fill_padding(struct pfw_ring_chunk *stretch, uint64_t position, uint64_t slots)
{
	struct pfw_record *padding = pfw_ring_slot(stretch, position);

	padding->template = PFW_TEMPLATE_PADDING;
	padding->slots = (uint8_t)slots;
	pfw_ring_commit(padding, position);
}

struct pfw_record *pfw_ring_reserve_slow(struct pfw_ring *ring, unsigned slots, uint64_t *position)
{
	bool woken = false;

	for (;;) {
		struct pfw_ring_chunk *stretch =
			atomic_load_explicit(&ring->stretch, memory_order_relaxed);
		uint64_t head = atomic_load_explicit(&stretch->head, memory_order_relaxed);
		uint64_t offset = head & (stretch->capacity - 1);
		uint64_t padding = offset + slots > stretch->capacity ? stretch->capacity - offset
								      : 0;
		uint64_t end = head + padding + slots;

		if (PFW_UNLIKELY(end - stretch->tail_seen > stretch->capacity)) {
			/* Or a signal handler has moved on meanwhile. */
			if (move_on(ring, stretch) ||
			    atomic_load_explicit(&ring->stretch, memory_order_relaxed) != stretch)
				continue;
			stretch->tail_seen =
				atomic_load_explicit(&stretch->tail, memory_order_acquire);
			if (end - stretch->tail_seen > stretch->capacity) {
				if (!wait_for_room(ring, stretch, padding + slots))
					return NULL;
				continue;
			}
		}
		/* Each half wakes the writer once.  Wake before reserving: waking takes long, and a
		 * signal that arrives meanwhile may end the process. */
		if ((head ^ end) & (stretch->capacity / 2) && !woken && pfw_ring_host.wake) {
			woken = true;
			atomic_store_explicit(&ring->woke_at, head + 1, memory_order_relaxed);
			pfw_ring_host.wake();
			continue;
		}
		if (!pfw_ring_cas(&stretch->head, &head, end))
			continue;
		if (PFW_UNLIKELY(padding))
			fill_padding(stretch, head, padding);
		*position = head + padding;
		return pfw_ring_slot(stretch, *position);
	}
}

/* ---- writer ---- */

struct pfw_ring *pfw_ring_first(void)
{
	return atomic_load_explicit(&registry, memory_order_acquire);
}

/* A reused stretch starts one slot further on (ABA): a frame of its former producer that is still
 * interrupted before its compare-and-swap must not find the head that it expects. */
void pfw_ring_prepare(struct pfw_ring *ring, struct pfw_ring_chunk *stretch)
{
	uint64_t head = atomic_load(&stretch->head);
	uint64_t start = head & PFW_RING_CLOSED ? (head & ~PFW_RING_CLOSED) + 1 : head;

	stretch->chunk.index = ring->index;
	stretch->order = ring->orders++;
	stretch->saved_tail[0] = stretch->saved_tail[1] = start;
	stretch->tail_seen = start;
	stretch->next = NULL;
	stretch->made_ticks = pfw_clock_ticks();
	stretch->closed_ticks = 0;
	atomic_store(&stretch->full_at, 0);
	atomic_store(&stretch->tail, start);
	atomic_store(&stretch->head, start);
	atomic_store(&stretch->tid, atomic_load(&ring->tid));
	atomic_store(&stretch->in_use, 1);
}

void pfw_ring_publish(struct pfw_ring *ring, struct pfw_ring_chunk *stretch, uint32_t index)
{
	ring->index = index;
	pfw_ring_prepare(ring, stretch);
	ring->drain = ring->last = stretch;
	ring->drained = atomic_load(&stretch->tail);
	atomic_store(&ring->stretch, stretch);
	ring->next = atomic_load(&registry);
	atomic_store_explicit(&registry, ring, memory_order_release);
}

void pfw_ring_offer(struct pfw_ring *ring, struct pfw_ring_chunk *stretch)
{
	pfw_ring_prepare(ring, stretch);
	ring->last->next = stretch;
	ring->last = stretch;
	if (!ring->upcoming)
		ring->upcoming = stretch;
	atomic_store_explicit(&ring->spare, stretch, memory_order_release);
}

bool pfw_ring_wants_more(const struct pfw_ring *ring)
{
	const struct pfw_ring_chunk *stretch = ring->last;
	uint64_t word = atomic_load_explicit(&stretch->head, memory_order_relaxed);

	if (atomic_load(&ring->stretch) != stretch)
		return false;
	return word - atomic_load_explicit(&stretch->tail, memory_order_relaxed) >=
		       stretch->capacity / 2 ||
	       atomic_load_explicit(&ring->woke_at, memory_order_relaxed) == word + 1 ||
	       atomic_load_explicit(&stretch->full_at, memory_order_relaxed) == word + 1;
}

void pfw_ring_renew(struct pfw_ring *ring, struct pfw_ring_chunk *stretch)
{
	atomic_fetch_or(&atomic_load(&ring->stretch)->head, PFW_RING_CLOSED);
	if (stretch)
		pfw_ring_offer(ring, stretch);
	atomic_store(&ring->stretch, ring->last);
	atomic_store(&ring->spare, NULL);
	atomic_store(&ring->state, PFW_RING_FREE);
}

bool pfw_ring_put(struct pfw_ring *ring, const struct pfw_record *record, unsigned slots)
{
	for (;;) {
		struct pfw_ring_chunk *stretch = atomic_load(&ring->stretch);
		uint64_t head = atomic_load_explicit(&stretch->head, memory_order_relaxed);
		uint64_t offset = head & (stretch->capacity - 1);
		uint64_t padding = offset + slots > stretch->capacity ? stretch->capacity - offset
								      : 0;
		struct pfw_record *copy = pfw_ring_slot(stretch, head + padding);

		if (head + padding + slots - atomic_load(&stretch->tail) > stretch->capacity) {
			if (!move_on(ring, stretch))
				return false;
			continue;
		}
		atomic_store(&stretch->head, head + padding + slots);
		if (padding)
			fill_padding(stretch, head, padding);
		memcpy((char *)copy + sizeof(copy->committed),
		       (const char *)record + sizeof(record->committed),
		       slots * PFW_SLOT_BYTES - sizeof(record->committed));
		pfw_ring_commit(copy, head + padding);
		return true;
	}
}

bool pfw_ring_is_blocked(const struct pfw_ring *ring)
{
	uint64_t word = atomic_load_explicit(&ring->drain->head, memory_order_acquire);

	return ring->drained != (word & ~PFW_RING_CLOSED);
}

uint32_t pfw_ring_wanted(void)
{
	return atomic_load(&wanted);
}

/*
 * Whether the uncommitted slot at `ring->drained` blocks others: records of a signal handler that
 * interrupted its probe, or of a thread that jumped out of the probe; or that thread, which waits
 * for room.  The result is a guess, hidden from ThreadSanitizer: the function may read the tail of
 * a record that is being filled.
 */
__attribute__((no_sanitize("thread"))) static bool holds_up(const struct pfw_ring *ring,
							    uint64_t word)
{
	for (uint64_t position = ring->drained + 1; position < (word & ~PFW_RING_CLOSED);
	     position++)
		if (atomic_load_explicit(&pfw_ring_slot(ring->drain, position)->committed,
					 memory_order_relaxed) == (uint32_t)(position + 1))
			return true;
	return word & PFW_RING_CLOSED ||
	       atomic_load_explicit(&ring->drain->full_at, memory_order_relaxed) == word + 1;
}

/*
 * The slot at `ring->drained` is reserved but not committed.  True: skip it.  All slots that were
 * reserved when the first one was seen count as old as that one.  After a stop (Ctrl-Z, a debugger)
 * the clock is far ahead while the thread is still inside a record: so the last record is never
 * skipped, and the gap between two looks counts LOOK_NS_MAX at most.
 */
static bool torn(struct pfw_ring *ring, uint64_t word, uint64_t now_ns)
{
	uint64_t gap = now_ns - ring->torn_look_ns;

	ring->torn_look_ns = now_ns;
	if (ring->drained >= ring->torn_upto || !holds_up(ring, word)) {
		ring->torn_upto = word & ~PFW_RING_CLOSED;
		ring->torn_ns = 0;
		return false;
	}
	ring->torn_ns += gap < LOOK_NS_MAX ? gap : LOOK_NS_MAX;
	return ring->torn_ns > SECOND_NS;
}

bool pfw_ring_last_look(struct pfw_ring *ring)
{
	uint64_t word = atomic_load_explicit(&ring->drain->head, memory_order_acquire);

	if (ring->drained == word) /* if it were closed, another stretch would follow */
		return false;
	ring->torn_upto = word & ~PFW_RING_CLOSED;
	ring->torn_ns = 2 * SECOND_NS;
	return true;
}

/* False: there is none, or the one before is not freed yet. */
static bool next_stretch(struct pfw_ring *ring)
{
	if (ring->retired || !ring->upcoming)
		return false;
	ring->retired = ring->drain;
	ring->drain = ring->upcoming;
	ring->upcoming = ring->drain->next;
	ring->drained = atomic_load(&ring->drain->tail);
	ring->torn_upto = 0;
	return true;
}

const struct pfw_record *pfw_ring_peek(struct pfw_ring *ring, uint64_t now_ns, unsigned *slots)
{
	for (;;) {
		struct pfw_ring_chunk *stretch = ring->drain;
		uint64_t word = atomic_load_explicit(&stretch->head, memory_order_acquire);
		uint64_t head = word & ~PFW_RING_CLOSED;
		struct pfw_record *record = pfw_ring_slot(stretch, ring->drained);

		if (ring->drained == head) {
			if (word == head || !next_stretch(ring))
				return NULL;
			continue;
		}
		/* Pairs with the release in pfw_ring_commit(). */
		if (atomic_load_explicit(&record->committed, memory_order_acquire) !=
		    (uint32_t)(ring->drained + 1)) {
			if (!torn(ring, word, now_ns))
				return NULL;
			pfw_ring_count_lost(PFW_LOST_TORN, ring->torn_run++ ? 0 : 1);
			ring->drained++;
			ring->tails = true;
			continue;
		}
		ring->torn_run = 0;
		*slots = record->slots ? record->slots : 1;
		if (record->template != PFW_TEMPLATE_PADDING)
			return record;
		ring->drained += *slots;
	}
}

void pfw_ring_save(struct pfw_ring *ring, unsigned parity)
{
	ring->drain->saved_tail[parity] = ring->drained;
	if (ring->retired)
		ring->retired->saved_tail[parity] = atomic_load(&ring->retired->head) &
						    ~PFW_RING_CLOSED;
}

/*
 * Slots in a record's tail hold bytes of the program where a first slot holds `committed`: a lap
 * later they could look like the mark of a record that is not filled yet.  So clear them before the
 * slots are free again; not earlier, as recovery needs them until the text is in the file.
 */
static void clear_tails(struct pfw_ring_chunk *stretch, uint64_t upto)
{
	uint64_t position = atomic_load_explicit(&stretch->tail, memory_order_relaxed);

	while (position < upto) {
		struct pfw_record *record = pfw_ring_slot(stretch, position);
		bool whole = atomic_load_explicit(&record->committed, memory_order_relaxed) ==
			     (uint32_t)(position + 1);
		uint64_t end = position + (whole && record->slots ? record->slots : 1);

		/* Release: a reader of a live spool (image_live.c) sees the header slot first. */
		for (position += whole; position < end; position++)
			atomic_store_explicit(&pfw_ring_slot(stretch, position)->committed, 0,
					      memory_order_release);
	}
}

struct pfw_ring_chunk *pfw_ring_free_drained(struct pfw_ring *ring)
{
	struct pfw_ring_chunk *retired = ring->retired;
	uint32_t dead = PFW_RING_DEAD;

	if (retired && ring->tails)
		clear_tails(retired, atomic_load(&retired->head) & ~PFW_RING_CLOSED);
	if (ring->tails)
		clear_tails(ring->drain, ring->drained);
	ring->tails = false;
	/* Pairs with the producer's acquire of tail: our reads come first. */
	atomic_store_explicit(&ring->drain->tail, ring->drained, memory_order_release);
	if (retired)
		atomic_store(&retired->in_use, 0);
	ring->retired = NULL;
	if (atomic_load(&ring->state) == PFW_RING_DEAD &&
	    ring->drained == atomic_load(&ring->drain->head))
		atomic_compare_exchange_strong(&ring->state, &dead, PFW_RING_FREE);
	return retired;
}

bool pfw_ring_half_full(const struct pfw_ring *ring)
{
	const struct pfw_ring_chunk *stretch = ring->drain;
	uint64_t word = atomic_load_explicit(&stretch->head, memory_order_relaxed);
	uint64_t used = (word & ~PFW_RING_CLOSED) -
			atomic_load_explicit(&stretch->tail, memory_order_relaxed);

	return used >= stretch->capacity / 2 ||
	       atomic_load_explicit(&ring->woke_at, memory_order_relaxed) == word + 1 ||
	       atomic_load_explicit(&stretch->full_at, memory_order_relaxed) == word + 1;
}

void pfw_ring_space_made(void)
{
	atomic_fetch_add(&space_made, 1);
	pfw_os_futex_wake((const uint32_t *)&space_made, INT32_MAX);
}

static void skip(struct pfw_ring *ring)
{
	struct pfw_ring_chunk *stretch = atomic_load(&ring->stretch);
	uint64_t head = atomic_load(&stretch->head), next = head + stretch->capacity;

	if (ring->drain != stretch || head & PFW_RING_CLOSED)
		return;
	ring->drained = next;
	stretch->saved_tail[0] = stretch->saved_tail[1] = next;
	stretch->tail_seen = next;
	atomic_store(&stretch->tail, next);
	atomic_store(&stretch->head, next);
}

void pfw_ring_skip_all(void)
{
	for (struct pfw_ring *ring = pfw_ring_first(); ring; ring = ring->next)
		skip(ring);
}

void pfw_ring_forget_all(void)
{
	atomic_store(&registry, NULL);
	atomic_store(&wanted, 0);
}
