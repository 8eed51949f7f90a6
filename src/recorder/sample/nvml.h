/* recorder/sample/nvml.h - samples the GPUs through NVML, NVIDIA's management library.
 *
 * The library keeps descriptors, which belong in the table of the writer's thread, and counts its
 * initializations.  So we load a copy of our own (dlmopen), which the program's use of the library
 * cannot affect.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pfw_counter_record;

/* Whether this machine has NVIDIA's driver.  Thread: any.  Signal: safe. */
bool pfw_nvml_driver(void);

/* Sample the devices that `visible` names (CUDA_VISIBLE_DEVICES; NULL: all).  Thread: init. */
void pfw_nvml_init(const char *visible);

/* Write a line for each figure of each device, once the process has loaded libcuda.  Thread: drain,
 * known to libc. */
void pfw_nvml_sample(uint64_t ts_ns, void (*put)(struct pfw_counter_record *line));

/* The thread ends, and its descriptors with it.  Thread: drain. */
void pfw_nvml_leave(void);

/* A forked child cannot use its parent's GPU.  Thread: the child's first. */
void pfw_nvml_forked(void);
