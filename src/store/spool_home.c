/* spool_home.c - where the process that a spool names is at home, and whether it lives. */
#include "spool_home.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "proc.h"
#include "spool.h"

bool pfw_spool_is_of_here(const struct pfw_spool_header *header, char *why, size_t size)
{
	char here[72], boot[40];

	pfw_proc_host(here, sizeof(here));
	pfw_proc_boot_id(boot, sizeof(boot));
	/* What the process could not find out about its machine tells it from no other. */
	if (header->host[0] && strncmp(header->host, here, sizeof(here))) {
		snprintf(why, size, "it is of host %.71s and this is %s: repair it there",
			 header->host, here);
		return false;
	}
	if (header->boot_id[0] && strncmp(header->boot_id, boot, sizeof(boot))) {
		snprintf(why, size,
			 "it is of an earlier boot of %s (%.39s): its trace is good as far as it "
			 "goes; remove the spool",
			 here, header->boot_id);
		return false;
	}
	return true;
}

/*
 * Whether nobody else has the spool open or mapped, in whichever namespace he is: only then does the
 * kernel lease it.  A process has its spool mapped for as long as it lives, and so have its children.
 */
static bool is_in_use(int fd)
{
	if (fcntl(fd, F_SETLEASE, F_WRLCK) < 0)
		return true;
	fcntl(fd, F_SETLEASE, F_UNLCK);
	return false;
}

/*
 * In its own pid namespace a number says whether it lives.  From outside its namespace it is looked
 * for by what it is called inside; where not all processes are to be seen, what it holds decides:
 * the trace's lock, but that only while there is something to write.
 */
bool pfw_spool_process_lives(int fd, const struct pfw_spool_header *header)
{
	uint64_t here = pfw_proc_namespace();

	if (pfw_proc_alive(header->pid, header->start_time))
		return true;
	if (here == header->pid_namespace && here)
		return false;
	if (pfw_proc_alive_inside(header->pid, header->start_time, header->pid_namespace))
		return true;
	return here != PFW_PROC_NAMESPACE_ALL && is_in_use(fd);
}
