/* templates.h - what records mean, as the spool keeps it: one template a wrapped call, and three. */
#ifndef PFW_TEMPLATES_H
#define PFW_TEMPLATES_H

#include <stddef.h>
#include <stdint.h>

struct pfw_template_chunk;

/*
 * The templates of this build, in enum pfw_call's order with API, PP and UNTRACED behind them, made once; NULL
 * where there is no memory.  *bytes gets the length.  Thread: init.
 */
const struct pfw_template_chunk *pfw_templates_make(size_t *bytes);

/* Templates that no wrapped call has. */
struct pfw_template_ids {
	uint16_t api, pp, untraced;
};

struct pfw_template_ids pfw_templates_ids(void);

#endif
