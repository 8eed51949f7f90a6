/* recorder/wrap/rights.h - calls by which a thread gives up rights: the writer's thread does, too.
 *
 * They act on the calling thread alone, and a program without threads knows of no other.
 */
#ifndef PFW_RECORDER_WRAP_RIGHTS_H
#define PFW_RECORDER_WRAP_RIGHTS_H

#include <stdbool.h>

/* Before and after such a call, by number, with the arguments of the kernel.  Begin returns false
 * if it is another call, which needs no end.  Both keep errno.  Thread: app. */
bool pfw_rights_begin(long number, const long *arg);
void pfw_rights_end(long number, const long *arg, long ret);

#endif
