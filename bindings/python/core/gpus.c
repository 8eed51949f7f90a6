/* gpus.c - what NVIDIA's libraries are asked at the end of a program's section: no package is needed.
 * The recorder's own samples (src/recorder/sample/nvml.c) are of processes that use CUDA, and go to the trace. */
#include "core.h"

#include <dlfcn.h>

enum { SAMPLES_MAX = 256, OF_THE_GPU = 1 };

struct memory {
	unsigned long long total, free, used;
};
struct sample {
	unsigned long long ts_us;
	union {
		unsigned percent;
		unsigned long long whole;
	} value;
};

#define CALLS(X)                                                                                 \
	X(nvmlInit_v2, (void))                                                                   \
	X(nvmlDeviceGetCount_v2, (unsigned *count))                                              \
	X(nvmlDeviceGetHandleByIndex_v2, (unsigned index, void **device))                        \
	X(nvmlDeviceGetName, (void *device, char *name, unsigned bytes))                         \
	X(nvmlDeviceGetMemoryInfo, (void *device, struct memory *memory))                        \
	X(nvmlDeviceGetSamples, (void *device, int kind, unsigned long long since_us, int *type, \
				 unsigned *count, struct sample *sample))                        \
	X(nvmlDeviceGetUtilizationRates, (void *device, unsigned *gpu_and_memory))

static struct {
#define X(name, arguments) int(*name) arguments;
	CALLS(X)
#undef X
	bool tried, running;
} nvml;

/* With the GIL, so one thread at a time. */
static bool ready(void)
{
	void *handle;

	if (nvml.tried)
		return nvml.running;
	nvml.tried = true;
	handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	nvml.running = handle != NULL;
#define X(name, arguments) \
	nvml.running = nvml.running && (nvml.name = (int(*) arguments)dlsym(handle, #name));
	CALLS(X)
#undef X
	nvml.running = nvml.running && !nvml.nvmlInit_v2();
	return nvml.running;
}

/* The mean of the driver's own samples since then, of none what it says of this moment; below 0: neither. */
static double utilization(void *device, unsigned long long since_us)
{
	struct sample samples[SAMPLES_MAX];
	unsigned count = SAMPLES_MAX, taken = 0, now[2];
	double sum = 0;
	int type;

	if (!nvml.nvmlDeviceGetSamples(device, OF_THE_GPU, since_us, &type, &count, samples)) {
		for (unsigned i = 0; i < count && i < SAMPLES_MAX; i++) {
			if (samples[i].ts_us <= since_us)
				continue;
			sum += samples[i].value.percent;
			taken++;
		}
	}
	if (taken)
		return sum / taken;
	return nvml.nvmlDeviceGetUtilizationRates(device, now) ? -1.0 : (double)now[0];
}

static PyObject *describe(void *device, unsigned long long since_us)
{
	struct memory memory = { 0 };
	char name[96] = "";
	double percent = utilization(device, since_us);

	if (nvml.nvmlDeviceGetName(device, name, sizeof(name)))
		name[0] = 0;
	name[sizeof(name) - 1] = 0;
	if (nvml.nvmlDeviceGetMemoryInfo(device, &memory))
		memory.used = 0;
	if (percent < 0)
		return Py_BuildValue("sKO", name, memory.used, Py_None);
	return Py_BuildValue("sKd", name, memory.used, percent);
}

/* gpus(since_us) -> [(name, bytes in use, mean utilisation in % since then or None)]; [] without a driver. */
static PyObject *gpus(PyObject *module, PyObject *since)
{
	unsigned long long since_us = PyLong_AsUnsignedLongLong(since);
	PyObject *list = PyErr_Occurred() ? NULL : PyList_New(0), *found;
	unsigned count = 0;
	void *device;

	(void)module;
	if (!list || !ready() || nvml.nvmlDeviceGetCount_v2(&count))
		return list;
	for (unsigned i = 0; i < count; i++) {
		if (nvml.nvmlDeviceGetHandleByIndex_v2(i, &device))
			continue;
		found = describe(device, since_us);
		if (!found || PyList_Append(list, found) < 0) {
			Py_XDECREF(found);
			Py_DECREF(list);
			return NULL;
		}
		Py_DECREF(found);
	}
	return list;
}

/* The run-time library of the process, else the first there is. */
static void *cudart(void)
{
	static const char *const names[] = { "libcudart.so", "libcudart.so.13", "libcudart.so.12",
					     "libcudart.so.11.0" };
	void *handle = NULL;

	for (int load = 0; load < 2; load++)
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !handle; i++)
			handle = dlopen(names[i], RTLD_NOW | (load ? 0 : RTLD_NOLOAD));
	return handle;
}

/* cuda_profiler(start) -> "", or why nsys was not told where to begin or end. */
static PyObject *cuda_profiler(PyObject *module, PyObject *start)
{
	const char *name = PyObject_IsTrue(start) ? "cudaProfilerStart" : "cudaProfilerStop";
	void *handle = cudart();
	int (*call)(void) = handle ? (int (*)(void))dlsym(handle, name) : NULL;
	const char *(*say)(int) = handle ? (const char *(*)(int))dlsym(handle, "cudaGetErrorString")
					 : NULL;
	int error;

	(void)module;
	if (!call)
		return PyUnicode_FromFormat("%s: no libcudart is here", name);
	error = call();
	return error ? PyUnicode_FromFormat("%s: %s (error %d)", name, say ? say(error) : "failed",
					    error)
		     : PyUnicode_FromString("");
}

static PyMethodDef methods[] = {
	{ "gpus", gpus, METH_O, NULL },
	{ "cuda_profiler", cuda_profiler, METH_O, NULL },
	{ 0 },
};

int core_add_gpus(PyObject *module)
{
	return PyModule_AddFunctions(module, methods);
}
