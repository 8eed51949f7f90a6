/* api.h - what session tells the API probe; its functions are those of pfw.h. */
#ifndef PFW_API_H
#define PFW_API_H

#include <stdint.h>

/* Indices of the two templates that no wrapped call has. */
struct pfw_template_ids {
	uint16_t api;
	uint16_t pp;
};

/* Thread: init. */
void pfw_api_templates(const struct pfw_template_ids *templates);

#endif
