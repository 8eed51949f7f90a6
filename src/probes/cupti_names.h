/* cupti_names.h - names of kernels and calls, kept once, as people read them. */
#ifndef PFW_CUPTI_NAMES_H
#define PFW_CUPTI_NAMES_H

#include <stdbool.h>
#include <stdint.h>

/* Reference of a kernel's name, demangled where something in the process can do that; 0 where there
 * is no room.  Thread: cupti, any number at a time. */
uint32_t pfw_cupti_name(const char *mangled);

/* Reference of the name of a call of the runtime or the driver.  Thread: cupti, as above. */
uint32_t pfw_cupti_call_name(bool driver, uint32_t cbid);

/* Look for libstdc++'s demangler in the process, unless it is found.  Never inside a callback of
 * CUPTI: whoever holds the dynamic linker's lock may wait for CUPTI.  Thread: one at a time. */
void pfw_cupti_find_demangler(void);

/* A forked child's arena is empty. */
void pfw_cupti_names_forget(void);

#endif
