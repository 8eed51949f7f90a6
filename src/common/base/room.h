/* common/base/room.h - how much memory this process may still take without harm to others. */
#pragma once

#include <stdint.h>

/* Bytes that are available in the machine, within the limits of the process's cgroups (version 2, and the
 * one that a container of version 1 sees); 0 = unknown.  Thread: any.  Signal: safe. */
uint64_t pfw_room(void);
