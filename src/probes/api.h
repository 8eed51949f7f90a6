/* api.h - what session tells the API probe; its functions are those of pfw.h. */
#ifndef PFW_API_H
#define PFW_API_H

#include <stdint.h>

struct pfw_template_ids;

/* Thread: init. */
void pfw_api_templates(const struct pfw_template_ids *templates);

#endif
