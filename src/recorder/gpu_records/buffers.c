/* recorder/gpu_records/buffers.c - the buffers that CUPTI fills, and the first reading of a full
 * one.
 */
#include "recorder/gpu_records/buffers.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/os.h"
#include "common/format/clock.h"
#include "recorder/gpu_records/lib.h"
#include "recorder/gpu_records/names.h"
#include "recorder/spool/ring.h"
#include "recorder/spool/strings.h"

/* The longest wait of a program's thread for a free buffer.  After the wait its records are
 * dropped. */
#define WRITER_WAIT_NS 10000000000ull
#define CUPTI_WAIT_NS 500000000ull
#define WAIT_STEP_NS 2000000ull
#define PATIENCE_NS 200000000ull

/* Buffers whose pages are touched in advance.  The pages of the others are touched on first use. */
#define PREPARED 4u

#define LANE_NAME 200u /* bytes kept of a stream's name */

/* Launches remembered: more than all buffers together hold if each launch has one kernel. */
#define LAUNCHES (1u << 17)

/*
 * There are two tables, each written by records of one kind only: the two records of one call may
 * be in two buffers, which two threads may hand over at once.  The members after `correlation` are
 * valid while `correlation` stays the same.
 */
struct span_of {
	_Atomic uint32_t correlation; /* 0 = free */
	/* the last correlation that a kernel asked for in vain: its record comes late */
	_Atomic uint32_t asked;
	_Atomic uint64_t span;
};

struct start_of {
	_Atomic uint32_t correlation;
	_Atomic uint32_t thread;
	_Atomic uint64_t start_ns;
};

struct launches {
	struct span_of span[LAUNCHES];
	struct start_of start[LAUNCHES];
};

_Static_assert(PFW_CUPTI_BUFFERS < 32, "a bit each");
#define ALL ((1u << PFW_CUPTI_BUFFERS) - 1)

static struct {
	uint8_t *bytes;		   /* all buffers, one after the other */
	struct launches *launches; /* indexed by the low bits of the correlation */
	bool set_up;
	bool drop;		  /* PFW_ON_FULL=drop: no thread waits */
	_Atomic uint32_t free;	  /* bit n: buffer n is free */
	_Atomic uint32_t full;	  /* bit n: buffer n waits for the writer */
	_Atomic bool busy;	  /* the writer reads a buffer */
	_Atomic uint32_t freed;	  /* futex; changes each time a buffer is freed */
	_Atomic uint32_t waiters; /* threads that wait for a buffer */
	/* CLOCK_MONOTONIC time at which the first of them began to wait */
	_Atomic uint64_t waiting_since;
	_Atomic bool hopeless; /* the last wait timed out: nobody waits until a buffer is freed */
	/* buffers handed to CUPTI; buffers that CUPTI has finished */
	_Atomic uint64_t taken, order;
	_Atomic uint64_t taken_as[PFW_CUPTI_BUFFERS];
	/* CLOCK_REALTIME time at which CUPTI got a buffer; 0 = CUPTI does not have it */
	_Atomic uint64_t taken_ns[PFW_CUPTI_BUFFERS];
	uint64_t order_of[PFW_CUPTI_BUFFERS];
} buffers;

struct pfw_cupti_figures pfw_cupti_figures;
_Atomic uint32_t pfw_cupti_bell;

/* CUPTI before 12.9 cannot go on without a buffer.  The records that it puts into a last resort are
 * only counted. */
#define LAST_RESORTS 31u
#define LAST_RESORT_BYTES 32768u
static _Alignas(8) uint8_t last_resort[LAST_RESORTS][LAST_RESORT_BYTES];
static _Atomic uint32_t resorts_used; /* bit n: CUPTI holds last resort n */

static void count(_Atomic uint64_t *figure, uint64_t more)
{
	atomic_fetch_add_explicit(figure, more, memory_order_relaxed);
}

int pfw_cupti_buffers_init(bool drop)
{
	size_t bytes = (size_t)PFW_CUPTI_BUFFERS * PFW_CUPTI_BUFFER_BYTES;

	buffers.drop = drop;
	if (!buffers.bytes)
		buffers.bytes = pfw_os_mmap(bytes, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!buffers.launches)
		buffers.launches = pfw_os_mmap(sizeof(struct launches), PROT_READ | PROT_WRITE,
					       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!buffers.bytes || !buffers.launches)
		return -ENOMEM;
	pfw_os_madvise(buffers.bytes, PREPARED * PFW_CUPTI_BUFFER_BYTES,
		       23 /* MADV_POPULATE_WRITE; older kernels populate at the first touch */);
	/* Only once: a buffer that CUPTI still holds from an earlier time must not be handed out
	 * again. */
	if (!buffers.set_up)
		atomic_store(&buffers.free, ALL);
	buffers.set_up = true;
	return 0;
}

void pfw_cupti_buffers_forget(void)
{
	memset(&buffers, 0, sizeof(buffers));
	memset(&pfw_cupti_figures, 0, sizeof(pfw_cupti_figures));
}

/* ---- buffers ---- */

static uint8_t *take_free(void)
{
	uint32_t free = atomic_load(&buffers.free);
	unsigned number;

	/* Take the lowest one, so that no more memory is touched than the program needs. */
	while (free)
		if (atomic_compare_exchange_weak(&buffers.free, &free, free & (free - 1))) {
			number = (unsigned)__builtin_ctz(free);
			atomic_store(&buffers.taken_as[number],
				     atomic_fetch_add(&buffers.taken, 1));
			atomic_store(&buffers.taken_ns[number], pfw_clock_ns(CLOCK_REALTIME));
			return buffers.bytes + (size_t)number * PFW_CUPTI_BUFFER_BYTES;
		}
	return NULL;
}

/* Whether all threads wait for the writer.  Otherwise CUPTI holds the buffers itself and may need a
 * lock that our caller holds. */
static bool writer_is_behind(void)
{
	return atomic_load(&buffers.full) || atomic_load(&buffers.busy);
}

/* Wait for a buffer as a thread waits for room in its ring, as long as buffers are freed at all. */
static uint8_t *wait_while_hopeful(void)
{
	uint64_t since = pfw_clock_ns(CLOCK_MONOTONIC), now = since;
	uint32_t at_first = atomic_load(&buffers.freed), seen;
	uint8_t *buffer = NULL;

	while (pfw_ring_host.wake && pfw_ring_host.wake() &&
	       now - since < (writer_is_behind() ? WRITER_WAIT_NS : CUPTI_WAIT_NS)) {
		seen = atomic_load(&buffers.freed);
		buffer = take_free();
		if (buffer)
			break;
		pfw_os_futex_wait((const uint32_t *)&buffers.freed, seen, WAIT_STEP_NS);
		now = pfw_clock_ns(CLOCK_MONOTONIC);
		if (seen != at_first)
			since = now;
		at_first = seen;
	}
	return buffer;
}

static uint8_t *wait_for_free(void)
{
	uint8_t *buffer;

	if (buffers.drop || atomic_load(&buffers.hopeless))
		return NULL;
	count(&pfw_cupti_figures.waited, 1);
	if (!atomic_load(&buffers.waiters))
		atomic_store(&buffers.waiting_since, pfw_clock_ns(CLOCK_MONOTONIC));
	atomic_fetch_add(&buffers.waiters, 1);
	buffer = wait_while_hopeful();
	atomic_fetch_sub(&buffers.waiters, 1);
	if (!buffer)
		atomic_store(&buffers.hopeless, true);
	return buffer;
}

/* If all last resorts are in use, the last one is overwritten and its records are not counted. */
static uint8_t *take_last_resort(void)
{
	uint32_t used = atomic_load(&resorts_used), number;

	do
		number = used + 1 == 1u << LAST_RESORTS ? LAST_RESORTS - 1
							: (uint32_t)__builtin_ctz(~used);
	while (!atomic_compare_exchange_weak(&resorts_used, &used, used | 1u << number));
	return last_resort[number];
}

void pfw_cupti_requested_buffer(uint8_t **buffer, size_t *bytes, size_t *max_records)
{
	int error = errno;

	*max_records = 0; /* 0 = as many as fit */
	*bytes = PFW_CUPTI_BUFFER_BYTES;
	*buffer = take_free();
	if (!*buffer)
		*buffer = wait_for_free();
	if (!*buffer) {
		bool needs = pfw_cupti_lib.version < PFW_CUPTI_12_9_1;

		count(&pfw_cupti_figures.starved, 1);
		*buffer = needs ? take_last_resort() : NULL;
		*bytes = needs ? LAST_RESORT_BYTES : 0;
	}
	errno = error;
}

static void give_back(uint8_t *buffer)
{
	size_t number = (size_t)(buffer - buffers.bytes) / PFW_CUPTI_BUFFER_BYTES;

	atomic_store(&buffers.hopeless, false);
	atomic_fetch_or(&buffers.free, 1u << number);
	atomic_fetch_add(&buffers.freed, 1);
	pfw_os_futex_wake((const uint32_t *)&buffers.freed, INT32_MAX);
}

void pfw_cupti_buffer_free(uint8_t *buffer)
{
	give_back(buffer);
	atomic_store(&buffers.busy, false);
}

unsigned pfw_cupti_buffers_waiting(void)
{
	return (unsigned)__builtin_popcount(atomic_load(&buffers.full));
}

/* Whether CUPTI has no free buffer left, or soon will not. */
static bool are_short(void)
{
	return atomic_load(&buffers.waiters) ||
	       pfw_cupti_buffers_waiting() >= PFW_CUPTI_BUFFERS / 4 * 3;
}

/* Whether a thread of the program has waited so long that a record without its span is the lesser
 * loss. */
static bool are_urgent(void)
{
	return atomic_load(&buffers.waiters) &&
	       pfw_clock_ns(CLOCK_MONOTONIC) - atomic_load(&buffers.waiting_since) > PATIENCE_NS;
}

uint64_t pfw_cupti_buffers_held_since(void)
{
	uint64_t since = UINT64_MAX;

	for (unsigned i = 0; i < PFW_CUPTI_BUFFERS; i++) {
		uint64_t taken = atomic_load(&buffers.taken_ns[i]);

		if (taken && taken < since)
			since = taken;
	}
	return since;
}

uint64_t pfw_cupti_buffers_order(void)
{
	return atomic_load(&buffers.order);
}

/* The buffer of the mask that was handed to CUPTI first. */
static unsigned first_taken(uint32_t mask)
{
	unsigned first = PFW_CUPTI_BUFFERS;
	uint64_t taken = UINT64_MAX;

	for (; mask; mask &= mask - 1) {
		unsigned number = (unsigned)__builtin_ctz(mask);

		if (atomic_load(&buffers.taken_as[number]) < taken) {
			taken = atomic_load(&buffers.taken_as[number]);
			first = number;
		}
	}
	return first;
}

/* The buffers of `full` that may be read: no record that belongs to theirs is still to come. */
static uint32_t ready_of(uint32_t full, uint64_t upto)
{
	uint32_t ready = 0;

	for (uint32_t mask = full; mask; mask &= mask - 1) {
		unsigned number = (unsigned)__builtin_ctz(mask);

		if (buffers.order_of[number] < upto)
			ready |= 1u << number;
	}
	return ready;
}

/*
 * CUPTI fills buffers in the order in which it asked for them, but several threads may hand them
 * back in another order.  If CUPTI is short of buffers, the first full one is read, unless an
 * earlier one is still being filled.
 */
uint8_t *pfw_cupti_buffer_oldest(uint64_t upto)
{
	uint32_t full = atomic_load_explicit(&buffers.full, memory_order_acquire);
	uint32_t ready = ready_of(full, upto);
	unsigned first;

	if (!ready && full && are_short()) {
		/* All buffers that are not free: full ones and ones that CUPTI holds. */
		first = first_taken(ALL & ~atomic_load(&buffers.free));
		ready = are_urgent() ? full : full & 1u << first;
	}
	if (!ready)
		return NULL;
	first = first_taken(ready);
	atomic_store(&buffers.busy, true);
	atomic_fetch_and(&buffers.full, ~(1u << first));
	return buffers.bytes + (size_t)first * PFW_CUPTI_BUFFER_BYTES;
}

/* ---- launches ---- */

static void note_span(const struct pfw_cupti_external *external)
{
	uint32_t correlation = external->correlation;
	struct span_of *entry = &buffers.launches->span[correlation % LAUNCHES];

	if (external->external_kind != PFW_CUPTI_EXTERNAL_CUSTOM2 || !correlation)
		return;
	atomic_store_explicit(&entry->correlation, 0, memory_order_relaxed);
	atomic_store_explicit(&entry->span, external->id, memory_order_release);
	atomic_store_explicit(&entry->correlation, correlation, memory_order_release);
	if (atomic_load_explicit(&entry->asked, memory_order_relaxed) == correlation)
		count(&pfw_cupti_figures.late, 1);
}

/*
 * A runtime call and the driver call inside it have one correlation.  The outer call began first.
 */
static void note_start(const struct pfw_cupti_api *api)
{
	struct start_of *entry = &buffers.launches->start[api->correlation % LAUNCHES];

	if (!api->correlation || !api->start ||
	    (atomic_load_explicit(&entry->correlation, memory_order_relaxed) == api->correlation &&
	     atomic_load_explicit(&entry->start_ns, memory_order_relaxed) <= api->start))
		return;
	atomic_store_explicit(&entry->correlation, 0, memory_order_relaxed);
	atomic_store_explicit(&entry->start_ns, api->start, memory_order_release);
	atomic_store_explicit(&entry->thread, api->thread, memory_order_release);
	atomic_store_explicit(&entry->correlation, api->correlation, memory_order_release);
}

static uint64_t span_of(uint32_t correlation)
{
	struct span_of *entry = &buffers.launches->span[correlation % LAUNCHES];
	uint64_t span;

	if (atomic_load_explicit(&entry->correlation, memory_order_acquire) == correlation) {
		span = atomic_load_explicit(&entry->span, memory_order_acquire);
		if (atomic_load_explicit(&entry->correlation, memory_order_relaxed) == correlation)
			return span;
	}
	atomic_store_explicit(&entry->asked, correlation, memory_order_relaxed);
	return 0;
}

struct pfw_cupti_launch pfw_cupti_launch_of(uint32_t correlation)
{
	struct start_of *entry = &buffers.launches->start[correlation % LAUNCHES];
	struct pfw_cupti_launch found = { 0, 0, 0 };

	if (!correlation)
		return found;
	found.span = span_of(correlation);
	if (atomic_load_explicit(&entry->correlation, memory_order_acquire) != correlation)
		return found;
	found.start_ns = atomic_load_explicit(&entry->start_ns, memory_order_acquire);
	found.thread = atomic_load_explicit(&entry->thread, memory_order_acquire);
	if (atomic_load_explicit(&entry->correlation, memory_order_relaxed) != correlation)
		found.start_ns = found.thread = 0;
	return found;
}

/* ---- finished buffers ---- */

/* Let the library step to the record after *record (NULL: to the first).  Any result but 0 ends the
 * buffer. */
static uint32_t step(uint8_t *buffer, size_t valid_bytes, void **record)
{
	const struct pfw_cupti_calls *calls = &pfw_cupti_lib.calls;

	if (pfw_cupti_lib.subscriber)
		return calls->ActivityGetNextRecord_v2(pfw_cupti_lib.subscriber, buffer,
						       valid_bytes, record);
	return calls->ActivityGetNextRecord(buffer, valid_bytes, record);
}

static void note_name(struct pfw_cupti_kernel *kernel)
{
	uint32_t ref = kernel->name ? pfw_cupti_name(kernel->name) : 0;

	if (!ref)
		count(&pfw_cupti_figures.unnamed, 1);
	kernel->name = (const char *)(uintptr_t)ref;
}

static void note_lane_name(struct pfw_cupti_name *name)
{
	uint32_t ref = name->name ? pfw_string_intern(name->name, strnlen(name->name, LANE_NAME))
				  : 0;

	name->name = (const char *)(uintptr_t)ref;
}

static void note_call(struct pfw_cupti_api *api, bool driver)
{
	api->process = pfw_cupti_call_name(driver, api->cbid);
	note_start(api);
}

static void note_record(void *record, uint32_t kind)
{
	switch (kind) {
	case PFW_CUPTI_KIND_KERNEL:
		note_name(record);
		break;
	case PFW_CUPTI_KIND_NAME:
		note_lane_name(record);
		break;
	case PFW_CUPTI_KIND_EXTERNAL:
		note_span(record);
		break;
	case PFW_CUPTI_KIND_RUNTIME:
	case PFW_CUPTI_KIND_DRIVER:
		note_call(record, kind == PFW_CUPTI_KIND_DRIVER);
		break;
	}
}

/* Store the distance to the next record in the upper half of a record's kind; 0 for the last
 * record. */
static void note_stride(void *record, const void *behind)
{
	uint32_t *kind = record;

	if (record && behind)
		*kind |= (uint32_t)((const char *)behind - (const char *)record) << 16;
}

/* The first reading, the only one that calls CUPTI: keep what does not last, and mark where each
 * record begins.  Return whether there is a record at all. */
static bool note(uint8_t *buffer, size_t valid_bytes)
{
	void *record = NULL, *behind = NULL;
	uint32_t result, kind;

	while (!(result = step(buffer, valid_bytes, &behind))) {
		kind = *(const uint32_t *)behind;
		note_stride(record, behind);
		record = behind;
		note_record(record, kind);
	}
	if (result != PFW_CUPTI_MAX_LIMIT_REACHED)
		count(&pfw_cupti_figures.unreadable, 1);
	return record;
}

/* If the buffer is a last resort, count its records and free it.  False: it is none. */
static bool count_discarded(uint8_t *buffer, size_t valid_bytes)
{
	size_t number = (size_t)(buffer - last_resort[0]) / LAST_RESORT_BYTES;
	void *record = NULL;

	if (buffer < last_resort[0] || number >= LAST_RESORTS)
		return false;
	while (!step(buffer, valid_bytes, &record))
		count(&pfw_cupti_figures.discarded, 1);
	atomic_fetch_and(&resorts_used, ~(1u << number));
	return true;
}

bool pfw_cupti_completed_buffer(uint8_t *buffer, size_t valid_bytes)
{
	size_t number = (size_t)(buffer - buffers.bytes) / PFW_CUPTI_BUFFER_BYTES;
	int error = errno;

	if (count_discarded(buffer, valid_bytes)) {
		errno = error;
		return true;
	}
	if (buffer < buffers.bytes || number >= PFW_CUPTI_BUFFERS)
		return false;
	atomic_store(&buffers.taken_ns[number], 0);
	if (!valid_bytes || !note(buffer, valid_bytes)) {
		give_back(buffer);
	} else {
		buffers.order_of[number] = atomic_fetch_add(&buffers.order, 1);
		/* Pairs with the acquire in pfw_cupti_buffer_oldest(). */
		atomic_fetch_or_explicit(&buffers.full, 1u << number, memory_order_release);
		atomic_fetch_add(&pfw_cupti_bell, 1);
		pfw_os_futex_wake((const uint32_t *)&pfw_cupti_bell, 1);
	}
	errno = error;
	return true;
}
