/* select.h - which calls are recorded: PFW_CALLS and DFTRACER_DISABLE_*. */
#ifndef PFW_SELECT_H
#define PFW_SELECT_H

#include <stdbool.h>
#include <stdint.h>

#include "calls_table.h"

struct pfw_config;

/*
 * By call (enum pfw_call): the call itself where it is recorded, else PFW_CALL_NONE.  Looked at by
 * the wrappers that run in any case (CALL_KEEPS); those of other calls that are not recorded are not
 * in place at all.
 */
extern uint16_t pfw_selected[PFW_CALLS_MAX];

/* Choose by the variables.  False: PFW_CALLS matches no call at all.  Thread: init. */
bool pfw_select_init(const struct pfw_config *config);

/* Whether a call needs its wrapper.  Thread: init. */
bool pfw_select_wraps(unsigned call);

#endif
