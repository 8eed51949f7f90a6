/* recorder/marks/api.h - the probe behind pfw.h: spans, instants, counters, compute events.
 *
 * Room recorder/marks: what the program or its frameworks say themselves: the C API, NVTX,
 * PyTorch's operators.  It may use recorder/gpu (spans of launches), recorder/probe and the rooms
 * before them.  Start with span.h, then api.c and compute.c.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <pfw/pfw.h>

struct pfw_record;
struct pfw_template_ids;

/* Set the templates of spans and compute events.  Thread: init. */
void pfw_api_templates(const struct pfw_template_ids *templates);

/* Set the names of spans that begin a step: globs joined by ','.  The text must last.  Thread:
 * init. */
void pfw_api_steps(const char *names);

/* Whether the calling thread records for the API.  Keeps errno.  Thread: app.  Signal: safe. */
bool pfw_api_on(void);

/* Record an operator of a thread; times in ticks.  Only after pfw_api_on() returned true.  Thread:
 * app.  Signal: safe. */
void pfw_api_operator(const char *name, enum pfw_kind kind, int32_t tid, uint64_t t0, uint64_t t1);

/* Put a compute event into *record, for a caller that uses no ring.  Return the slots it takes; 0 =
 * more than `slots`.  Thread: any.  Signal: safe. */
unsigned pfw_api_compute_record(struct pfw_record *record, unsigned slots,
				const struct pfw_compute *event);

/*
 * For spans of another probe, which begins and ends them by span.h and adds arguments by pfw.h: add
 * an unsigned argument; take a span off this thread's nesting, because another thread may end it;
 * end a span as an instant.  And the thread's number, 0 if the thread does not record.  Thread:
 * app.  Signal: safe.
 */
void pfw_api_arg_u64(struct pfw_span *span, const char *key, uint64_t value);
void pfw_api_aside(const struct pfw_span *span);
void pfw_api_end_instant(struct pfw_span *span);
int32_t pfw_api_tid(void);

/* Name the lanes of a device, context or stream: place->name; only the fields that are set count.
 * Thread: app.  Signal: safe. */
void pfw_api_name_place(const struct pfw_compute *place);
