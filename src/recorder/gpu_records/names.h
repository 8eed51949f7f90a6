/* recorder/gpu_records/names.h - readable names of kernels and calls, each kept once. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The reference of a kernel's name, demangled if the process has a demangler; 0 if there is no
 * room.  Thread: cupti, any number at a time. */
uint32_t pfw_cupti_name(const char *mangled);

/* The reference of the name of a runtime or driver call.  Thread: cupti, any number at a time. */
uint32_t pfw_cupti_call_name(bool driver, uint32_t cbid);

/*
 * Look for libstdc++'s demangler in the process until it is found.  Not to be called inside a
 * callback of CUPTI: the holder of the dynamic linker's lock may wait for CUPTI.  Thread: one at a
 * time.
 */
void pfw_cupti_find_demangler(void);

/* Fork: forget all references, since a child's arena is empty. */
void pfw_cupti_names_forget(void);
