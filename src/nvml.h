/* nvml.h - what the GPUs do, sampled through NVIDIA's management library, where a process uses CUDA.
 *
 * The library keeps descriptors, which belong to the writer's thread's own table, and counts who has
 * initialised it: so ours is a copy of its own (dlmopen), and what the program does with the
 * library never meets it.
 */
#ifndef PFW_NVML_H
#define PFW_NVML_H

#include <stdbool.h>
#include <stdint.h>

struct pfw_counter_record;

/* Whether this machine has NVIDIA's driver.  Thread: any.  Signal: safe. */
bool pfw_nvml_driver(void);

/* Sample the devices that `visible` (CUDA_VISIBLE_DEVICES, kept; NULL: all) names.  Thread: init. */
void pfw_nvml_init(const char *visible);

/* A line for each figure of each device, once the process has loaded libcuda.  Thread: drain, one that
 * libc knows. */
void pfw_nvml_sample(uint64_t ts_ns, void (*put)(struct pfw_counter_record *line));

/* The thread goes, and with it its descriptors.  Thread: drain. */
void pfw_nvml_leave(void);

/* A forked child has no GPU that its parent has used.  Thread: the child's first. */
void pfw_nvml_forked(void);

#endif
