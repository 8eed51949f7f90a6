/* api.h - what session tells the API probe; its functions are those of pfw.h. */
#ifndef PFW_API_H
#define PFW_API_H

#include <stdint.h>

struct pfw_compute;
struct pfw_record;
struct pfw_template_ids;

/* Thread: init. */
void pfw_api_templates(const struct pfw_template_ids *templates);

/* The record of a compute event, for who records by no ring: how many slots of *record it takes, 0 =
 * more than `slots`.  Thread: any.  Signal: safe. */
unsigned pfw_api_compute_record(struct pfw_record *record, unsigned slots,
				const struct pfw_compute *event);

#endif
