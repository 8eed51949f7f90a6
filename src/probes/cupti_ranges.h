/* cupti_ranges.h - cudaProfilerStart() and -Stop() before CUPTI tells of them, or where it never does.
 *
 * CUPTI's callbacks tell of a range whoever calls (cupti_client); but CUPTI is begun only when the
 * program has initialised CUDA, which that very call may do, and not at all where another profiler holds
 * it.  So the calls are led through us where the program makes them through the dynamic linker.
 */
#ifndef PFW_CUPTI_RANGES_H
#define PFW_CUPTI_RANGES_H

#include <stdbool.h>

/* What the probe does then, in the program's thread: a range has begun, or is about to end.  To begin
 * what is begun changes nothing.  Set before the first look. */
extern void (*pfw_cupti_ranged)(bool begins);

/* Find the calls in what has been loaded since the last look.  Thread: any, one at a time.  Signal:
 * unsafe (dl_iterate_phdr). */
void pfw_cupti_ranges_look(void);

#endif
