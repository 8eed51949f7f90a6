/* spool_home.h - where the process that a spool names is at home, and whether it lives. */
#ifndef PFW_SPOOL_HOME_H
#define PFW_SPOOL_HOME_H

#include <stdbool.h>
#include <stddef.h>

struct pfw_spool_header;

/* Whether it is, or was, a process of this host and this boot; else `why` says of which. */
bool pfw_spool_is_of_here(const struct pfw_spool_header *header, char *why, size_t size);

/* Whether the process runs, in whichever pid namespace; in doubt it does.  `fd` is the spool. */
bool pfw_spool_process_lives(int fd, const struct pfw_spool_header *header);

#endif
