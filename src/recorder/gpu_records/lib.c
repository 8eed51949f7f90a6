/* recorder/gpu_records/lib.c - the driver and the libcupti of this process. */
#include "recorder/gpu_records/lib.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "common/base/os.h"
#include "common/base/text.h"
#include "common/format/clock.h"

struct pfw_cupti_lib pfw_cupti_lib;

#define PATH_BYTES 4096u
#define LOCK_WAIT_NS 1000000000ull

/* held while the dynamic linker works for us, and while the program forks */
static _Atomic uint32_t lock;

bool pfw_cupti_lib_lock(void)
{
	uint64_t deadline = pfw_clock_ns(CLOCK_MONOTONIC) + LOCK_WAIT_NS;

	while (atomic_exchange(&lock, 1)) {
		if (pfw_clock_ns(CLOCK_MONOTONIC) > deadline)
			return false;
		pfw_os_sleep_ns(20000);
	}
	return true;
}

void pfw_cupti_lib_unlock(void)
{
	atomic_store(&lock, 0);
}

/* ---- the driver ---- */

static void read_device(int (*get)(int *value, int attribute, int device), int number)
{
	struct pfw_cuda_device *device = &pfw_cupti_lib.device[number];

#define X(name, member, attribute) get(&device->member, attribute, number);
	PFW_CUDA_ATTRIBUTES(X)
#undef X
}

static int is_driver(struct dl_phdr_info *info, size_t size, void *user)
{
	static const char stem[] = "libcuda.so";

	(void)size;
	(void)user;
	return !strncmp(pfw_text_base(info->dlpi_name), stem, sizeof(stem) - 1);
}

bool pfw_cuda_loaded(void)
{
	return dl_iterate_phdr(is_driver, NULL);
}

/* The library that the program has loaded; we never load a driver.  Where there is none, which is
 * asked for again and again, dlopen() would take 3 KiB of stack. */
static void *find_driver(void)
{
	return pfw_cuda_loaded() ? dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;
}

enum pfw_cuda_state pfw_cuda_look(int *error)
{
	void *cuda = find_driver();
	int (*count_devices)(int *count), (*driver_version)(int *version);
	int (*get)(int *value, int attribute, int device);
	int count = 0;

	if (!cuda)
		return PFW_CUDA_ABSENT;
	*(void **)&count_devices = dlsym(cuda, "cuDeviceGetCount");
	*(void **)&driver_version = dlsym(cuda, "cuDriverGetVersion");
	*(void **)&get = dlsym(cuda, "cuDeviceGetAttribute");
	*error = count_devices && driver_version && get ? count_devices(&count)
							: PFW_CUDA_STUB_LIBRARY;
	if (*error == PFW_CUDA_NOT_INITIALIZED || *error == PFW_CUDA_DEINITIALIZED)
		return PFW_CUDA_WAITING;
	if (!*error && count < 1)
		*error = PFW_CUDA_NO_DEVICE;
	if (*error)
		return PFW_CUDA_USELESS;
	driver_version(&pfw_cupti_lib.driver);
	pfw_cupti_lib.device_count = count < PFW_CUDA_DEVICES ? (unsigned)count : PFW_CUDA_DEVICES;
	for (int i = 0; i < (int)pfw_cupti_lib.device_count; i++)
		read_device(get, i);
	return PFW_CUDA_READY;
}

/* ---- the library ---- */

/* A search by dl_iterate_phdr(): the first object whose file name begins with `prefix`. */
struct search {
	const char *prefix;
	char path[PATH_BYTES];
};

static int find_object(struct dl_phdr_info *info, size_t size, void *user)
{
	struct search *search = user;

	(void)size;
	if (strncmp(pfw_text_base(info->dlpi_name), search->prefix, strlen(search->prefix)) ||
	    strlen(info->dlpi_name) >= sizeof(search->path))
		return 0;
	strcpy(search->path, info->dlpi_name);
	return 1;
}

/* A second copy would conflict with the first.  So a copy that is loaded already is used, whoever
 * loaded it. */
static void *find_loaded(void)
{
	static struct search search = { "libcupti.so", "" };

	if (!dl_iterate_phdr(find_object, &search))
		return NULL;
	return dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD);
}

/* Open DIRECTORY/BELOW/libcupti.so.MAJOR, where DIRECTORY is the first `count` bytes. */
static void *open_in(const char *directory, size_t count, const char *below, int major)
{
	char path[PATH_BYTES];
	struct pfw_text text;

	pfw_text_init(&text, path, sizeof(path));
	pfw_text_add_bytes(&text, directory, count);
	PFW_TEXT_ADD(&text, below, "libcupti.so.");
	pfw_text_add_u64(&text, (uint64_t)major, 1);
	return text.cut ? NULL : dlopen(path, RTLD_LAZY | RTLD_LOCAL);
}

/* NVIDIA's wheels have it beside the CUDA runtime or in the folder next to the runtime's. */
static void *open_beside_runtime(int major)
{
	static struct search search = { "libcudart.so", "" };
	size_t directory;
	void *found;

	if (!dl_iterate_phdr(find_object, &search))
		return NULL;
	directory = (size_t)(pfw_text_base(search.path) - search.path);
	found = open_in(search.path, directory, "", major);
	return found ? found : open_in(search.path, directory, "../../cuda_cupti/lib/", major);
}

static void *open_major(int major)
{
	static const char *const directories[] = {
		"/usr/local/cuda/extras/CUPTI/lib64/",
		"/usr/local/cuda/lib64/",
		"/opt/cuda/extras/CUPTI/lib64/",
	};
	void *found = open_beside_runtime(major);

	if (!found)
		found = open_in("", 0, "", major);
	for (size_t i = 0; !found && i < PFW_ARRAY_LEN(directories); i++)
		found = open_in(directories[i], strlen(directories[i]), "", major);
	return found;
}

/* An older CUPTI works with a newer driver; a newer CUPTI does not work with an older driver. */
static void *open_fitting(void)
{
	void *found = NULL;

	for (int major = pfw_cupti_lib.driver / 1000; !found && major >= 12; major--)
		found = open_major(major);
	return found;
}

static bool take_calls(void *library)
{
	struct pfw_cupti_calls *calls = &pfw_cupti_lib.calls;
	bool whole = true, shares = true;

#define X(name, parameters) *(void **)&calls->name = dlsym(library, "cupti" #name);
	PFW_CUPTI_CALLS(X)
	PFW_CUPTI_LATER_CALLS(X)
	PFW_CUPTI_SHARED_CALLS(X)
#undef X
#define X(name, parameters) whole &= calls->name != NULL;
	PFW_CUPTI_CALLS(X)
#undef X
#define X(name, parameters) shares &= calls->name != NULL;
	PFW_CUPTI_SHARED_CALLS(X)
#undef X
	pfw_cupti_lib.shares = shares && calls->Subscribe_v2;
	return whole;
}

static int take(void *library, const char *path)
{
	Dl_info info;

	if (!library)
		return -ENOENT;
	pfw_cupti_lib.path = path;
	if (!take_calls(library))
		return -ELIBBAD;
	if (dladdr(*(void **)&pfw_cupti_lib.calls.GetVersion, &info) && info.dli_fname)
		pfw_cupti_lib.path = info.dli_fname;
	return 0;
}

int pfw_cupti_load_present(void)
{
	return take(find_loaded(), "libcupti");
}

int pfw_cupti_load(const char *chosen)
{
	int error;

	if (chosen)
		return take(dlopen(chosen, RTLD_LAZY | RTLD_LOCAL), chosen);
	error = pfw_cupti_load_present();
	return error == -ENOENT ? take(open_fitting(), "libcupti") : error;
}
