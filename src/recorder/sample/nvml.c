/* recorder/sample/nvml.c - samples the GPUs of a process through NVIDIA's management library. */
#include "recorder/sample/nvml.h"

#include <dlfcn.h>
#include <string.h>

#include "common/base/os.h"
#include "common/base/text.h"
#include "recorder/sample/counters.h"
#include "recorder/sample/nvml_abi.h"

#define DEVICES_MAX 16u
#define UUID_BYTES 96

/* Fields read by one call. */
enum { NVLINK_TX, NVLINK_RX, PCIE_TX, PCIE_RX, FIELDS };

struct device {
	void *handle;
	unsigned index;
	bool has_base[FIELDS];
	uint64_t base[FIELDS]; /* at the sample before */
};

static struct {
#define X(name, arguments) int(*name) arguments;
	PFW_NVML_CALLS(X)
#undef X
	bool tried;   /* loading was tried */
	bool loaded;  /* every function above is found */
	bool running; /* initialized, in this thread */
	bool over;    /* it failed, or a parent process used it */
	char visible[256];
	bool all;
	unsigned count;
	struct device device[DEVICES_MAX];
} nvml;

bool pfw_nvml_driver(void)
{
	struct stat st;

	return !pfw_syscall6(SYS_newfstatat, AT_FDCWD, (long)"/dev/nvidiactl", (long)&st, 0, 0,
			     0) ||
	       !pfw_syscall6(SYS_newfstatat, AT_FDCWD, (long)"/proc/driver/nvidia/version",
			     (long)&st, 0, 0, 0);
}

void pfw_nvml_init(const char *visible)
{
	size_t bytes = visible ? strlen(visible) : 0;

	nvml.all = !visible || bytes >= sizeof(nvml.visible);
	if (!nvml.all)
		memcpy(nvml.visible, visible, bytes + 1);
}

/* ---- the library ---- */

static bool uses_cuda(void)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);

	if (cuda)
		dlclose(cuda);
	return cuda != NULL;
}

static void load(void)
{
	void *handle = dlmopen(LM_ID_NEWLM, "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	nvml.tried = true;
	nvml.loaded = handle != NULL;
	if (!handle)
		return;
#define X(name, arguments) \
	nvml.loaded &= (nvml.name = (int(*) arguments)dlsym(handle, #name)) != NULL;
	PFW_NVML_CALLS(X)
#undef X
}

/* Whether a word of CUDA_VISIBLE_DEVICES (a number or the start of a UUID) names this device. */
static bool names_device(const char *word, size_t bytes, unsigned index, void *handle)
{
	char uuid[UUID_BYTES] = "";
	uint64_t number = 0;

	if (pfw_text_read_u64(word, &number) == word + bytes)
		return number == index;
	return bytes > 4 && !memcmp(word, "GPU-", 4) &&
	       !nvml.nvmlDeviceGetUUID(handle, uuid, sizeof(uuid)) && !strncmp(uuid, word, bytes);
}

static bool is_visible(unsigned index, void *handle)
{
	size_t bytes;

	for (const char *at = nvml.visible; !nvml.all && *at; at += bytes + (at[bytes] == ',')) {
		bytes = strcspn(at, ",");
		if (names_device(at, bytes, index, handle))
			return true;
	}
	return nvml.all;
}

static void find_devices(void)
{
	unsigned count = 0;
	void *handle;

	nvml.count = 0;
	if (nvml.nvmlDeviceGetCount_v2(&count))
		return;
	for (unsigned i = 0; i < count && nvml.count < DEVICES_MAX; i++)
		if (!nvml.nvmlDeviceGetHandleByIndex_v2(i, &handle) && is_visible(i, handle))
			nvml.device[nvml.count++] = (struct device){ .handle = handle, .index = i };
}

static bool ready(void)
{
	if (nvml.running || nvml.over)
		return nvml.running;
	if (!uses_cuda())
		return false;
	if (!nvml.tried)
		load();
	nvml.running = nvml.loaded && !nvml.nvmlInit_v2();
	nvml.over = !nvml.running;
	if (nvml.running)
		find_devices();
	return nvml.running;
}

void pfw_nvml_leave(void)
{
	if (nvml.running)
		nvml.nvmlShutdown();
	nvml.running = false;
}

void pfw_nvml_forked(void)
{
	nvml.over |= nvml.tried;
	nvml.running = false;
}

/* ---- lines ---- */

static void begin(struct pfw_counter_record *line, const struct device *device, const char *what,
		  uint64_t ts_ns)
{
	struct pfw_text text;
	char name[48];

	pfw_text_init(&text, name, sizeof(name));
	pfw_text_add(&text, "gpu ");
	pfw_text_add_u64(&text, device->index, 1);
	PFW_TEXT_ADD(&text, " ", what);
	pfw_counter_begin(line, name, ts_ns);
}

static void put_now(const struct device *device, uint64_t ts_ns,
		    void (*put)(struct pfw_counter_record *line))
{
	struct pfw_nvml_utilization utilization;
	struct pfw_nvml_memory memory;
	struct pfw_counter_record line;
	unsigned sm, mhz, milliwatts;

	if (!nvml.nvmlDeviceGetUtilizationRates(device->handle, &utilization)) {
		begin(&line, device, "utilization", ts_ns);
		pfw_counter_u64(&line, "gpu", utilization.gpu);
		pfw_counter_u64(&line, "memory", utilization.memory);
		put(&line);
	}
	if (!nvml.nvmlDeviceGetMemoryInfo(device->handle, &memory)) {
		begin(&line, device, "memory", ts_ns);
		pfw_counter_u64(&line, "used", memory.used);
		put(&line);
	}
	if (!nvml.nvmlDeviceGetPowerUsage(device->handle, &milliwatts)) {
		begin(&line, device, "power", ts_ns);
		pfw_counter_f64(&line, "watts", milliwatts / 1000.0);
		put(&line);
	}
	if (!nvml.nvmlDeviceGetClockInfo(device->handle, PFW_NVML_CLOCK_SM, &sm) &&
	    !nvml.nvmlDeviceGetClockInfo(device->handle, PFW_NVML_CLOCK_MEMORY, &mhz)) {
		begin(&line, device, "clocks", ts_ns);
		pfw_counter_u64(&line, "sm", sm);
		pfw_counter_u64(&line, "memory", mhz);
		put(&line);
	}
}

/* The growth of a counter; false: no base yet. */
static bool growth(struct device *device, unsigned which, const struct pfw_nvml_field *field,
		   uint64_t *grown)
{
	bool narrow = field->type == PFW_NVML_TYPE_U32, known = device->has_base[which];
	uint64_t value = narrow ? field->value.u32 : field->value.u64;

	device->has_base[which] = !field->result;
	if (field->result)
		return false;
	*grown = narrow ? (uint32_t)(value - device->base[which]) : value - device->base[which];
	device->base[which] = value;
	return known;
}

static void put_link(struct device *device, const struct pfw_nvml_field *field, unsigned tx,
		     uint64_t unit, struct pfw_counter_record *line)
{
	uint64_t sent = 0, received;
	bool both = growth(device, tx, &field[tx], &sent);

	if (growth(device, tx + 1, &field[tx + 1], &received) && both) {
		pfw_counter_u64(line, "tx", sent * unit);
		pfw_counter_u64(line, "rx", received * unit);
	}
}

static void put_links(struct device *device, uint64_t ts_ns,
		      void (*put)(struct pfw_counter_record *line))
{
	struct pfw_nvml_field field[FIELDS] = {
		[NVLINK_TX] = { .id = PFW_NVML_NVLINK_TX_KIB, .scope = PFW_NVML_ALL_LINKS },
		[NVLINK_RX] = { .id = PFW_NVML_NVLINK_RX_KIB, .scope = PFW_NVML_ALL_LINKS },
		[PCIE_TX] = { .id = PFW_NVML_PCIE_TX_BYTES },
		[PCIE_RX] = { .id = PFW_NVML_PCIE_RX_BYTES },
	};
	struct pfw_counter_record line;

	if (nvml.nvmlDeviceGetFieldValues(device->handle, FIELDS, field))
		return;
	begin(&line, device, "nvlink", ts_ns);
	put_link(device, field, NVLINK_TX, 1024, &line);
	if (line.used > line.name_bytes)
		put(&line);
	begin(&line, device, "pcie", ts_ns);
	put_link(device, field, PCIE_TX, 1, &line);
	if (line.used > line.name_bytes)
		put(&line);
}

void pfw_nvml_sample(uint64_t ts_ns, void (*put)(struct pfw_counter_record *line))
{
	if (!ready())
		return;
	for (unsigned i = 0; i < nvml.count; i++) {
		put_now(&nvml.device[i], ts_ns, put);
		put_links(&nvml.device[i], ts_ns, put);
	}
}
