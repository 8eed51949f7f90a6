/* cpus.h - how many CPUs this process may use: its affinity, and its cgroup's quota. */
#ifndef PFW_CPUS_H
#define PFW_CPUS_H

/* At least 1.  Thread: any. */
unsigned pfw_cpus(void);

#endif
