/* recorder/marks/span.h - begins and ends spans of the C API and of NVTX, inline.
 *
 * Two clock readings are most of a span's cost.  The inline code handles the usual case in as few
 * instructions as possible: a name that this thread has used before, no arguments, room in the
 * ring.  All other cases are out of line in api.c.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <pfw/pfw.h>

#include "recorder/gpu/spans.h"
#include "recorder/probe/probe.h"

#define PFW_SPAN_INLINE static inline __attribute__((always_inline))

/* Indices of struct pfw_span.state, for a span in progress. */
enum {
	/* pfw_switches->born of the process that began the span; 0 = not recorded */
	PFW_SPAN_LIVE,
	PFW_SPAN_START, /* ticks */
	PFW_SPAN_NAMES, /* string references: the name's, and << 32 the category's */
	PFW_SPAN_ID,
	PFW_SPAN_PARENT,
	PFW_SPAN_ARGS, /* bytes of arguments; << 32 the count of cut ones */
};

extern uint16_t pfw_span_template, pfw_compute_template;

static inline size_t pfw_api_name_bytes(const char *name)
{
	return strnlen(name, PFW_NAME_BYTES);
}

/*
 * The string of a name, interned on first use; 0 = the arena is full.  Thread: app.  Signal: safe.
 */
uint32_t pfw_api_intern(const char *name);

/* The slow paths.  Begin returns what pfw_span_begin() does; category NULL: an annotation of
 * another probe.  Thread: app.  Signal: safe. */
int pfw_span_begin_slow(struct pfw_span *span, const char *name, const char *category);
void pfw_span_end_slow(struct pfw_span *span, uint64_t live, uint64_t t1, uint8_t flags);

/* This thread's cache entry for a name, indexed by the name's address. */
PFW_SPAN_INLINE struct pfw_known_name *pfw_span_known(const char *name)
{
	return &pfw_thread.known[((uintptr_t)name >> 2) % PFW_KNOWN_NAMES];
}

/* The cached reference of a name, 0 = not cached.  A comparison costs less than measuring and
 * hashing. */
PFW_SPAN_INLINE uint32_t pfw_span_recall(const struct pfw_known_name *known, const char *name)
{
	return PFW_LIKELY(known->from == name && !strcmp(known->text, name)) ? known->ref : 0;
}

/* The id of a new span.  Atomic, since a signal handler may take an id between any two
 * instructions. */
PFW_SPAN_INLINE uint64_t pfw_span_new_id(void)
{
#if defined(__x86_64__)
	uint64_t id = PFW_SPAN_ID_STEP;

	__asm__ volatile("xaddq %0, %1" : "+r"(id), "+m"(pfw_thread.spans));
	return id;
#else
	return __atomic_fetch_add(&pfw_thread.spans, PFW_SPAN_ID_STEP, __ATOMIC_RELAXED);
#endif
}

/* Everything but the clock, which the caller reads last.  The thread records and both names are
 * interned. */
PFW_SPAN_INLINE void pfw_span_open(struct pfw_span *span, uint32_t name, uint32_t category)
{
	span->state[PFW_SPAN_LIVE] = pfw_thread.born;
	span->state[PFW_SPAN_NAMES] = name | (uint64_t)category << 32;
	span->state[PFW_SPAN_ID] = pfw_span_new_id();
	span->state[PFW_SPAN_PARENT] = pfw_thread.span;
	span->state[PFW_SPAN_ARGS] = 0;
	pfw_thread.span = span->state[PFW_SPAN_ID];
	if (PFW_UNLIKELY(atomic_load_explicit(&pfw_cupti_spans, memory_order_relaxed)))
		pfw_cupti_push(span->state[PFW_SPAN_ID], span->state[PFW_SPAN_PARENT]);
}

/* When the last span or operator ended, in ticks; noted only where names begin steps, because the
 * last step ends with it. */
extern _Atomic uint64_t pfw_span_last;

PFW_SPAN_INLINE void pfw_span_ended(uint64_t t1)
{
	atomic_store_explicit(&pfw_span_last, t1, memory_order_relaxed);
}

/* Whether this thread records for sure and no name can begin a step. */
PFW_SPAN_INLINE bool pfw_span_plain(void)
{
	uint64_t word = atomic_load_explicit(&pfw_switches->api, memory_order_relaxed);

	return PFW_LIKELY(word != 0 && word == pfw_thread.live && !(word & PFW_SWITCH_STEPS));
}

/* Begin an annotation: cat PP.  `name` is not NULL.  Thread: app.  Signal: safe. */
PFW_SPAN_INLINE void pfw_annotation_begin(struct pfw_span *span, const char *name)
{
	uint32_t category = pfw_thread.annotation;
	uint32_t ref = pfw_span_plain() ? pfw_span_recall(pfw_span_known(name), name) : 0;

	if (PFW_UNLIKELY(!ref || !category)) {
		pfw_span_begin_slow(span, name, NULL);
		return;
	}
	pfw_span_open(span, ref, category);
	span->state[PFW_SPAN_START] = pfw_clock_ticks();
}

/* The span no longer encloses what this thread does. */
PFW_SPAN_INLINE void pfw_span_leave(const struct pfw_span *span)
{
	if (pfw_thread.span != span->state[PFW_SPAN_ID])
		return;
	pfw_thread.span = span->state[PFW_SPAN_PARENT];
	if (PFW_UNLIKELY(atomic_load_explicit(&pfw_cupti_spans, memory_order_relaxed)))
		pfw_cupti_pop(span->state[PFW_SPAN_ID], span->state[PFW_SPAN_PARENT]);
}

/* Write the record of a span without arguments. */
PFW_SPAN_INLINE void pfw_span_put(const struct pfw_span *span, uint64_t t1, uint8_t flags)
{
	uint64_t position, start = span->state[PFW_SPAN_START];
	struct pfw_record *record = pfw_ring_reserve(pfw_thread.ring, 1, &position);

	if (PFW_UNLIKELY(!record))
		return;
	record->template = pfw_span_template;
	record->slots = 1;
	record->flags = flags;
	record->t0 = start;
	record->dur = t1 - start;
	record->file = 0;
	record->error = 0;
	record->value[0] = span->state[PFW_SPAN_NAMES];
	record->value[1] = span->state[PFW_SPAN_ID];
	record->value[2] = span->state[PFW_SPAN_PARENT];
	record->value[3] = 0;
	pfw_probe_commit(record, position);
}

/* End a span now or, with PFW_RECORD_INSTANT, at its begin.  Thread: app.  Signal: safe. */
PFW_SPAN_INLINE void pfw_span_close(struct pfw_span *span, uint8_t flags)
{
	uint64_t live = span->state[PFW_SPAN_LIVE], t1, word;

	if (PFW_UNLIKELY(!live))
		return;
	t1 = flags & PFW_RECORD_INSTANT ? span->state[PFW_SPAN_START] : pfw_clock_ticks();
	word = atomic_load_explicit(&pfw_switches->api, memory_order_relaxed);
	span->state[PFW_SPAN_LIVE] = 0;
	pfw_span_leave(span);
	if (PFW_UNLIKELY(word & PFW_SWITCH_STEPS))
		pfw_span_ended(t1);
	/* A span that was begun before a fork is the parent's to record. */
	if (PFW_LIKELY(word != 0 && word == pfw_thread.live && live == pfw_thread.born &&
		       !span->state[PFW_SPAN_ARGS]))
		pfw_span_put(span, t1, flags);
	else
		pfw_span_end_slow(span, live, t1, flags);
}
