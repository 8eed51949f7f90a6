/* recorder/spool/templates.h - templates in the spool that describe the records of each call. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct pfw_template_chunk;

/* The templates of this build: wrapped calls in the order of enum pfw_call, then API, PP, UNTRACED.
 * Made at the first call: most short processes record nothing.  NULL = no memory.
 * Thread: one at a time, as a trace begins. */
const struct pfw_template_chunk *pfw_templates_make(void);

/* The length of what it makes.  Thread: any.  Signal: safe. */
size_t pfw_templates_bytes(void);

/* Numbers of the templates after the wrapped calls. */
struct pfw_template_ids {
	uint16_t api, pp, untraced;
};

struct pfw_template_ids pfw_templates_ids(void);
