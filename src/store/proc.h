/* proc.h - which machine this is and which processes live on it, as recovery must know. */
#ifndef PFW_PROC_H
#define PFW_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The host's name and boot id, as the recorder writes them into a spool; "" where unknown. */
void pfw_proc_host(char *out, size_t size);
void pfw_proc_boot_id(char *out, size_t size);

/* Whether the process with this pid and start time (0: it could not find out its own) runs; a
 * zombie that only waits for its parent does not. */
bool pfw_proc_alive(pid_t pid, uint64_t start_time);

/* Whether a process runs in this pid namespace (0: any) inside ours that has this pid there. */
bool pfw_proc_alive_inside(pid_t pid, uint64_t start_time, uint64_t pid_namespace);

/* Our pid namespace, as a spool's header names it; 0 = unknown.  And the one that sees them all. */
uint64_t pfw_proc_namespace(void);
#define PFW_PROC_NAMESPACE_ALL 0xeffffffcu

#endif
