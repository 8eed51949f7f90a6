/* span.h - the beginning and the end of a span, inline: of the C API's and of NVTX's.
 *
 * Two readings of the clock are most of what a span costs; what stands here is the rest, in as few
 * instructions as it takes where nothing is out of the ordinary: a name that this thread has used
 * before, no arguments, room in the ring.  All else is out of line, in api.c.
 */
#ifndef PFW_SPAN_H
#define PFW_SPAN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <pfw/pfw.h>

#include "cupti_spans.h"
#include "probe.h"

#define PFW_SPAN_INLINE static inline __attribute__((always_inline))

/* struct pfw_span.state: what a span in progress remembers. */
enum {
	PFW_SPAN_LIVE,	/* pfw_live->born of the process that began it; 0 = not recorded */
	PFW_SPAN_START, /* ticks */
	PFW_SPAN_NAMES, /* strings: the name's, << 32 the category's */
	PFW_SPAN_ID,
	PFW_SPAN_PARENT,
	PFW_SPAN_ARGS, /* bytes of arguments; << 32 how many did not fit */
};

extern uint16_t pfw_span_template;

/* Out of line: whatever is unusual.  Begin returns 0 or what pfw_span_begin() does; category NULL: an
 * annotation of another probe.  Thread: app.  Signal: safe. */
int pfw_span_begin_slow(struct pfw_span *span, const char *name, const char *category);
void pfw_span_end_slow(struct pfw_span *span, uint64_t live, uint64_t t1, uint8_t flags);

/* Where this thread keeps a name: found by its address, believed after a comparison. */
PFW_SPAN_INLINE struct pfw_known_name *pfw_span_known(const char *name)
{
	return &pfw_thread.known[((uintptr_t)name >> 2) % PFW_KNOWN_NAMES];
}

/* The string of a name that this thread has used, 0 = it has not.  Comparing costs less than measuring
 * and hashing. */
PFW_SPAN_INLINE uint32_t pfw_span_recall(const struct pfw_known_name *known, const char *name)
{
	return PFW_LIKELY(known->from == name && !strcmp(known->text, name)) ? known->ref : 0;
}

/* The id of a new span.  A signal handler may take one between any two instructions. */
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

/* All but the clock, whose reading comes last.  The thread records, and the names are there. */
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

/* Whether this thread records, for sure, and no name begins a step. */
PFW_SPAN_INLINE bool pfw_span_plain(void)
{
	uint64_t word = atomic_load_explicit(&pfw_live->api, memory_order_relaxed);

	return PFW_LIKELY(word != 0 && word == pfw_thread.live && !(word & PFW_LIVE_STEPS));
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

/* It is no longer around what this thread does. */
PFW_SPAN_INLINE void pfw_span_leave(const struct pfw_span *span)
{
	if (pfw_thread.span != span->state[PFW_SPAN_ID])
		return;
	pfw_thread.span = span->state[PFW_SPAN_PARENT];
	if (PFW_UNLIKELY(atomic_load_explicit(&pfw_cupti_spans, memory_order_relaxed)))
		pfw_cupti_pop(span->state[PFW_SPAN_ID], span->state[PFW_SPAN_PARENT]);
}

/* The usual span's record. */
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

/* End a span, now or (PFW_RECORD_INSTANT) when it began.  Thread: app.  Signal: safe. */
PFW_SPAN_INLINE void pfw_span_close(struct pfw_span *span, uint8_t flags)
{
	uint64_t live = span->state[PFW_SPAN_LIVE], t1, word;

	if (PFW_UNLIKELY(!live))
		return;
	t1 = flags & PFW_RECORD_INSTANT ? span->state[PFW_SPAN_START] : pfw_clock_ticks();
	word = atomic_load_explicit(&pfw_live->api, memory_order_relaxed);
	span->state[PFW_SPAN_LIVE] = 0;
	pfw_span_leave(span);
	/* Begun before a fork: the line is the parent's. */
	if (PFW_LIKELY(word != 0 && word == pfw_thread.live && live == pfw_thread.born &&
		       !span->state[PFW_SPAN_ARGS]))
		pfw_span_put(span, t1, flags);
	else
		pfw_span_end_slow(span, live, t1, flags);
}

#endif
