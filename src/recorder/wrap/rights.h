/* recorder/wrap/rights.h - calls by which a thread gives up rights: the writer's thread does, too.
 *
 * These calls act on the calling thread alone, and a program without threads does not know of the
 * writer's thread.
 */
#pragma once

#include <stdbool.h>

/* NONE: another call, which needs no end.  SYNC: make it by pfw_rights_sync(). */
enum pfw_rights { PFW_RIGHTS_NONE, PFW_RIGHTS_TAKEN, PFW_RIGHTS_SYNC };

/* Before and after such a call, by number, with the arguments of the kernel.  Both keep errno.
 * Thread: app. */
enum pfw_rights pfw_rights_begin(long number, const long *arg);
void pfw_rights_end(long number, const long *arg, long ret);

/* Put the filter on the writer's thread, too.  False: the kernel cannot, make the call itself. */
bool pfw_rights_sync(long number, const long *arg, long *ret);
