/* common/base/available.h - how much memory a process may still take. */
#pragma once

#include <stdint.h>

/* Bytes that are available in the machine, within the limits of the process's cgroups; `unknown` if the
 * machine does not say.  It reads some ten files.  Thread: any.  Signal: safe. */
uint64_t pfw_available(uint64_t unknown);
