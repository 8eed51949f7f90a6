/* recorder/spool/templates.h - templates in the spool that describe the records of each call. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct pfw_template_chunk;

/* The templates of this build: wrapped calls in the order of enum pfw_call, then API, PP, UNTRACED.
 * *bytes gets the length.  NULL = no memory.  Thread: init. */
const struct pfw_template_chunk *pfw_templates_make(size_t *bytes);

/* Numbers of the templates after the wrapped calls. */
struct pfw_template_ids {
	uint16_t api, pp, untraced;
};

struct pfw_template_ids pfw_templates_ids(void);
