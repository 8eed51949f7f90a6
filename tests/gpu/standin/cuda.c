/* cuda.c - a stand-in for libcuda.so.1: devices that do everything in no time. */
#include <cuda.h>

#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "standin.h"

#define KERNEL_NS 4000
#define LAUNCH_NS 1500

const struct standin_tracer *standin_tracer;
int standin_initialized, standin_gone;
static _Atomic uint32_t correlations;

long standin_knob(const char *key, long otherwise)
{
	const char *at = getenv("STANDIN");
	size_t bytes = strlen(key);

	for (; at && *at; at += strcspn(at, " "), at += strspn(at, " ")) {
		if (strncmp(at, key, bytes))
			continue;
		if (at[bytes] == '=')
			return strtol(at + bytes + 1, NULL, 10);
		if (!at[bytes] || at[bytes] == ' ')
			return 1;
	}
	return otherwise;
}

uint64_t (*_Atomic standin_clock)(void);

uint64_t standin_now(void)
{
	uint64_t (*chosen)(void) = atomic_load(&standin_clock);
	struct timespec ts;

	if (chosen)
		return chosen();
	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void standin_begin(struct standin_call *call, int domain, uint32_t cbid, const char *name)
{
	*call = (struct standin_call){ .domain = domain,
				       .cbid = cbid,
				       .name = name,
				       .correlation = atomic_fetch_add(&correlations, 1) + 1,
				       .thread = (uint32_t)gettid(),
				       .start = standin_now() };
	if (standin_tracer)
		standin_tracer->enter(call);
}

void standin_finish(struct standin_call *call)
{
	static long slow_ns = -1;

	if (slow_ns < 0)
		slow_ns = standin_knob("slow_ns", 0);
	do
		call->end = standin_now();
	while (slow_ns && call->end - call->start < (uint64_t)slow_ns);
	if (standin_tracer)
		standin_tracer->leave(call);
}

void standin_do(const struct standin_call *call, struct standin_work *work)
{
	static long kernel_ns = -1;

	if (kernel_ns < 0)
		kernel_ns = standin_knob("kernel_ns", KERNEL_NS);
	work->correlation = call->correlation;
	if (!work->start) {
		work->start = call->start + LAUNCH_NS;
		work->end = work->start + (uint64_t)kernel_ns;
	}
	if (standin_tracer)
		standin_tracer->work(work);
}

/* ---- the driver's own calls ---- */

/* As the driver does at the end of cuInit. */
static void inject(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *library = path && *path ? dlopen(path, RTLD_NOW) : NULL;
	int (*initialize)(void) = NULL;

	if (library)
		*(void **)&initialize = dlsym(library, "InitializeInjection");
	if (initialize)
		initialize();
}

static void unload(void)
{
	standin_gone = 1;
}

static void forked(void)
{
	standin_initialized = 0;
	standin_tracer = NULL;
}

CUresult cuInit(unsigned flags)
{
	static bool hooked;

	(void)flags;
	if (standin_knob("stub", 0))
		return CUDA_ERROR_STUB_LIBRARY;
	if (!standin_knob("devices", 1))
		return CUDA_ERROR_NO_DEVICE;
	if (standin_initialized)
		return CUDA_SUCCESS;
	if (!hooked) {
		atexit(unload);
		pthread_atfork(NULL, NULL, forked);
	}
	hooked = true;
	standin_initialized = !standin_knob("late_ready", 0);
	inject();
	standin_initialized = 1;
	return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
	*version = (int)standin_knob("driver", CUDA_VERSION);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
	if (standin_knob("stub", 0))
		return CUDA_ERROR_STUB_LIBRARY;
	if (!standin_knob("devices", 1))
		return CUDA_ERROR_NO_DEVICE;
	if (!standin_initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	*count = (int)standin_knob("devices", 1);
	return CUDA_SUCCESS;
}

/* An H200's. */
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	(void)device;
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		*value = 132;
		break;
	case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
		*value = 2048;
		break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		*value = 9;
		break;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
		*value = 233472;
		break;
	case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
		*value = 65536;
		break;
	case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
		*value = 32;
		break;
	case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
		*value = 1024;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

/* A module is a page of its own that holds the names of its kernels. */
CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	snprintf(page, 4096, "%s", (const char *)image);
	*module = (CUmodule)page;
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	if (strcmp((char *)module, name))
		return CUDA_ERROR_NOT_FOUND;
	*function = (CUfunction)module;
	return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
	struct standin_call call;

	standin_begin(&call, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuModuleUnload,
		      "cuModuleUnload");
	munmap(module, 4096); /* the names are gone */
	standin_finish(&call);
	return CUDA_SUCCESS;
}

/* There is one. */
CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
	(void)stream;
	*context = (CUcontext)(uintptr_t)1;
	return standin_initialized ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

/* Declared in headers of another wheel. */
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);

CUresult cuProfilerStart(void)
{
	struct standin_call call;

	standin_begin(&call, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuProfilerStart,
		      "cuProfilerStart");
	standin_finish(&call);
	return CUDA_SUCCESS;
}

CUresult cuProfilerStop(void)
{
	struct standin_call call;

	standin_begin(&call, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuProfilerStop,
		      "cuProfilerStop");
	standin_finish(&call);
	return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			unsigned by, unsigned bz, unsigned smem, CUstream stream, void **params,
			void **extra)
{
	struct standin_work work = { .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
				     .context = 1,
				     .stream = (uint32_t)(uintptr_t)stream + 7,
				     .name = (const char *)function,
				     .grid = { gx, gy, gz },
				     .block = { bx, by, bz },
				     .dynamic_smem = smem };
	struct standin_call call;

	(void)params;
	(void)extra;
	standin_begin(&call, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
		      "cuLaunchKernel");
	standin_do(&call, &work);
	standin_finish(&call);
	return CUDA_SUCCESS;
}
