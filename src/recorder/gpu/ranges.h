/* recorder/gpu/ranges.h - redirects cudaProfilerStart() and cudaProfilerStop() while CUPTI does not
 * report them.
 *
 * CUPTI's callbacks report a range, whoever calls (client.c).  But CUPTI is begun only after the
 * program has initialised CUDA, which that very call may do, and it is never begun while another
 * profiler holds it.  So calls that go through the dynamic linker are redirected to us.
 */
#pragma once

#include <stdbool.h>

/* The probe's reaction, in the program's thread: a range has begun or is about to end.  Beginning
 * twice changes nothing.  Set before the first look. */
extern void (*pfw_cupti_ranged)(bool begins);

/* Redirect the calls of objects that were loaded since the last look.  Thread: any, one at a time.
 * Signal: unsafe (dl_iterate_phdr). */
void pfw_cupti_ranges_look(void);
