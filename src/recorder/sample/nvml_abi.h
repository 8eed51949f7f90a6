/* recorder/sample/nvml_abi.h - the part of NVIDIA's management library that the recorder uses.
 *
 * Written from its documentation, so that building needs no NVIDIA header.  The tests' stand-in
 * checks it against the real header.
 */
#pragma once

struct pfw_nvml_utilization {
	unsigned gpu, memory; /* percent of the time with a running kernel, with memory access */
};

struct pfw_nvml_memory {
	unsigned long long total, free, used;
};

enum { PFW_NVML_CLOCK_SM = 1, PFW_NVML_CLOCK_MEMORY = 2 };

/* A counter that only grows; those of 32 bits wrap. */
struct pfw_nvml_field {
	unsigned id, scope;
	long long timestamp, latency_us;
	int type, result;
	union {
		unsigned u32;
		unsigned long ul;
		unsigned long long u64;
		double f64;
	} value;
};

enum { PFW_NVML_TYPE_U32 = 1 };
enum {
	PFW_NVML_NVLINK_TX_KIB = 138, /* scope: a link, or all */
	PFW_NVML_NVLINK_RX_KIB = 139,
	PFW_NVML_PCIE_TX_BYTES = 197,
	PFW_NVML_PCIE_RX_BYTES = 198,
};
#define PFW_NVML_ALL_LINKS (~0u)

/* X(name, arguments): each returns 0 on success. */
#define PFW_NVML_CALLS(X)                                                                          \
	X(nvmlInit_v2, (void))                                                                     \
	X(nvmlShutdown, (void))                                                                    \
	X(nvmlDeviceGetCount_v2, (unsigned *count))                                                \
	X(nvmlDeviceGetHandleByIndex_v2, (unsigned index, void **device))                          \
	X(nvmlDeviceGetUUID, (void *device, char *uuid, unsigned bytes))                           \
	X(nvmlDeviceGetUtilizationRates, (void *device, struct pfw_nvml_utilization *utilization)) \
	X(nvmlDeviceGetMemoryInfo, (void *device, struct pfw_nvml_memory *memory))                 \
	X(nvmlDeviceGetPowerUsage, (void *device, unsigned *milliwatts))                           \
	X(nvmlDeviceGetClockInfo, (void *device, int clock, unsigned *mhz))                        \
	X(nvmlDeviceGetFieldValues, (void *device, int count, struct pfw_nvml_field *field))
