/* recorder/spool/leave.h - takes the memory of a spool out of its file, and into a new one later.
 *
 * A process that was detached from shall leave nothing in /dev/shm.  Its memory stays where it is,
 * since a thread may still be in a wrapper, but as memory of the process: the heads of what rings
 * and names lie in, a few hundred KiB.  The records themselves are written, and their room is given
 * back.
 */
#pragma once

#include <stdint.h>

struct pfw_spool;

/* Note a part of the file that was mapped.  Thread: drain, as all here. */
void pfw_spool_note(struct pfw_spool *spool, void *at, uint64_t offset, uint64_t bytes);

/* Leave and remove the file of a spool whose trace is complete: it is `heap` then.  If it cannot be
 * done, the file stays. */
void pfw_spool_leave(struct pfw_spool *spool);

/* Go on in a new file of the old name.  0, or -errno: in memory as before. */
int pfw_spool_return(struct pfw_spool *spool);
