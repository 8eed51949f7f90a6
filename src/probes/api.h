/* api.h - what session tells the API probe; its functions are those of pfw.h. */
#ifndef PFW_API_H
#define PFW_API_H

#include <stdbool.h>
#include <stdint.h>

#include <pfw/pfw.h>

struct pfw_record;
struct pfw_template_ids;

/* Thread: init. */
void pfw_api_templates(const struct pfw_template_ids *templates);

/* Names of spans that begin a step, globs joined by ','; kept.  Thread: init. */
void pfw_api_steps(const char *names);

/* Whether the calling thread records for the API.  Keeps errno.  Thread: app.  Signal: safe. */
bool pfw_api_on(void);

/* An operator of a thread, in ticks.  pfw_api_on() has said yes.  Thread: app.  Signal: safe. */
void pfw_api_operator(const char *name, enum pfw_kind kind, int32_t tid, uint64_t t0, uint64_t t1);

/* The record of a compute event, for who records by no ring: how many slots of *record it takes, 0 =
 * more than `slots`.  Thread: any.  Signal: safe. */
unsigned pfw_api_compute_record(struct pfw_record *record, unsigned slots,
				const struct pfw_compute *event);

/*
 * For spans of another probe (span.h begins and ends them; functions for arguments are those of pfw.h):
 * a number without a sign as argument; off this thread's nesting, since another thread may end it; its
 * end as a moment.  And the thread's number, 0 where it does not record.  Thread: app.  Signal: safe.
 */
void pfw_api_arg_u64(struct pfw_span *span, const char *key, uint64_t value);
void pfw_api_aside(const struct pfw_span *span);
void pfw_api_end_instant(struct pfw_span *span);
int32_t pfw_api_tid(void);

/* The lanes of a device, context or stream get a name: place->name; of the fields only these count.
 * Thread: app.  Signal: safe. */
void pfw_api_name_place(const struct pfw_compute *place);

#endif
