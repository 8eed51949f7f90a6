/* nvml.c - a stand-in for libnvidia-ml.so.1: two devices with figures that a test knows.
 *
 * Compiled against NVIDIA's header, so that a wrong prototype does not build.  It holds a descriptor
 * while it is initialised, as theirs does, and every call fails where that is not the one it opened.
 */
#include <nvml.h>

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/sample/nvml_abi.h"

#define SAME(ours, theirs) _Static_assert(ours == theirs, #ours)
SAME(sizeof(struct pfw_nvml_utilization), sizeof(nvmlUtilization_t));
SAME(offsetof(struct pfw_nvml_utilization, memory), offsetof(nvmlUtilization_t, memory));
SAME(sizeof(struct pfw_nvml_memory), sizeof(nvmlMemory_t));
SAME(offsetof(struct pfw_nvml_memory, used), offsetof(nvmlMemory_t, used));
SAME(sizeof(struct pfw_nvml_field), sizeof(nvmlFieldValue_t));
SAME(offsetof(struct pfw_nvml_field, type), offsetof(nvmlFieldValue_t, valueType));
SAME(offsetof(struct pfw_nvml_field, result), offsetof(nvmlFieldValue_t, nvmlReturn));
SAME(offsetof(struct pfw_nvml_field, value), offsetof(nvmlFieldValue_t, value));
SAME((int)PFW_NVML_CLOCK_SM, (int)NVML_CLOCK_SM);
SAME((int)PFW_NVML_CLOCK_MEMORY, (int)NVML_CLOCK_MEM);
SAME((int)PFW_NVML_TYPE_U32, (int)NVML_VALUE_TYPE_UNSIGNED_INT);
SAME(PFW_NVML_NVLINK_TX_KIB, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX);
SAME(PFW_NVML_NVLINK_RX_KIB, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX);
SAME(PFW_NVML_PCIE_TX_BYTES, NVML_FI_DEV_PCIE_COUNT_TX_BYTES);
SAME(PFW_NVML_PCIE_RX_BYTES, NVML_FI_DEV_PCIE_COUNT_RX_BYTES);

#define DEVICES 2

static int held = -1;
static ino_t inode;
static unsigned sampled[DEVICES];

static nvmlReturn_t check(void)
{
	struct stat st;

	return held >= 0 && !fstat(held, &st) && st.st_ino == inode ? NVML_SUCCESS
								    : NVML_ERROR_UNINITIALIZED;
}

static unsigned number_of(nvmlDevice_t device)
{
	return (unsigned)(size_t)device - 1;
}

nvmlReturn_t nvmlInit_v2(void)
{
	struct stat st;

	held = open("/proc/self/exe", O_RDONLY);
	if (held < 0 || fstat(held, &st))
		return NVML_ERROR_DRIVER_NOT_LOADED;
	inode = st.st_ino;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlShutdown(void)
{
	nvmlReturn_t result = check();

	if (result == NVML_SUCCESS)
		close(held);
	held = -1;
	return result;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	*count = DEVICES;
	return check();
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	*device = (nvmlDevice_t)(size_t)(index + 1);
	return check();
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	snprintf(uuid, length, "GPU-%u2345678-aaaa", number_of(device));
	return check();
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
	utilization->gpu = 90 + number_of(device);
	utilization->memory = 40;
	return check();
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	*memory = (nvmlMemory_t){ .total = 80ull << 30, .free = 79ull << 30, .used = 1ull << 30 };
	(void)device;
	return check();
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *power)
{
	*power = 250500;
	(void)device;
	return check();
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)
{
	*clock = type == NVML_CLOCK_SM ? 1980 : 2619;
	(void)device;
	return check();
}

/* Device 1 has no NVLink, and counters of 32 bits that wrap at the third sample. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
	unsigned number = number_of(device), n = ++sampled[number];

	for (int i = 0; i < count; i++) {
		int nvlink = values[i].fieldId < NVML_FI_DEV_PCIE_COUNT_TX_BYTES;

		values[i].nvmlReturn = nvlink && (number || values[i].scopeId != ~0u)
					       ? NVML_ERROR_NOT_SUPPORTED
					       : NVML_SUCCESS;
		values[i].valueType = number ? NVML_VALUE_TYPE_UNSIGNED_INT
					     : NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
		values[i].value.ullVal = nvlink ? n * 3ull : n * 1000ull + (1ull << 40);
		if (number)
			values[i].value.ullVal = (0xfffff800u + n * 1000u) & 0xffffffffu;
	}
	return check();
}
