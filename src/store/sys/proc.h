/* store/sys/proc.h - identity of this host, its live processes, and CPUs for this one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The host name and the boot id, as the recorder writes them into a spool; "" if unknown. */
void pfw_proc_host(char *out, size_t size);
void pfw_proc_boot_id(char *out, size_t size);

/* Whether the process with this pid and start time (0: unknown) is alive; a zombie is not. */
bool pfw_proc_alive(pid_t pid, uint64_t start_time);

/*
 * Whether a process with this pid is alive in pid namespace `pid_namespace` (0: any) inside ours.
 */
bool pfw_proc_alive_inside(pid_t pid, uint64_t start_time, uint64_t pid_namespace);

/* The inode of our pid namespace, as in a spool's header; 0: unknown.  PFW_PROC_NAMESPACE_ALL is
 * the initial namespace, which sees all processes. */
uint64_t pfw_proc_namespace(void);
#define PFW_PROC_NAMESPACE_ALL 0xeffffffcu

/* The CPUs that this process may use, by affinity and cgroup quota; at least 1.  Thread: any. */
unsigned pfw_cpus(void);
