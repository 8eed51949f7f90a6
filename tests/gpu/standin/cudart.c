/* cudart.c - a stand-in for libcudart: the runtime's calls that the tests' programs make. */
#include <cuda_runtime_api.h>

#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_runtime_cbid.h>
#include <unistd.h>

#include "standin.h"

#define BEGIN(call, name, version)                          \
	standin_begin(&(call), CUPTI_CB_DOMAIN_RUNTIME_API, \
		      CUPTI_RUNTIME_TRACE_CBID_##name##_v##version, #name)

static uint32_t stream_of(cudaStream_t stream)
{
	return (uint32_t)(uintptr_t)stream + 7;
}

/* The runtime initialises the driver with its first call, and makes a context. */
static void initialize(void)
{
	static atomic_bool context;

	if (!standin_initialized)
		cuInit(0);
	if (atomic_exchange(&context, true))
		return;
	usleep((useconds_t)standin_knob("context_ms", 0) * 1000);
	if (standin_tracer)
		standin_tracer->context();
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t smem,
			     cudaStream_t stream)
{
	struct standin_work work = { .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
				     .context = 1,
				     .stream = stream_of(stream),
				     .name = function,
				     .grid = { grid.x, grid.y, grid.z },
				     .block = { block.x, block.y, block.z },
				     .dynamic_smem = (unsigned)smem };
	struct standin_call call;

	(void)args;
	initialize();
	BEGIN(call, cudaLaunchKernel, 7000);
	standin_do(&call, &work);
	standin_finish(&call);
	return cudaSuccess;
}

/* A graph of three kernels: all with the launch's correlation. */
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
	struct standin_call call;

	initialize();
	BEGIN(call, cudaGraphLaunch, 10000);
	for (unsigned node = 0; node < 3; node++) {
		struct standin_work work = { .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
					     .context = 1,
					     .stream = stream_of(stream),
					     .name = "graph_kernel",
					     .grid = { 1, 1, 1 },
					     .block = { 32, 1, 1 },
					     .start = call.start + 1000 + node * 5000,
					     .end = call.start + 5000 + node * 5000,
					     .graph = (uint32_t)(uintptr_t)graph,
					     .graph_node = 40 + node };

		standin_do(&call, &work);
	}
	standin_finish(&call);
	return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
			    cudaStream_t stream)
{
	bool up = kind == cudaMemcpyHostToDevice;
	struct standin_work work = {
		.kind = CUPTI_ACTIVITY_KIND_MEMCPY,
		.context = 1,
		.stream = stream_of(stream),
		.bytes = bytes,
		.copy_kind = up ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOD : CUPTI_ACTIVITY_MEMCPY_KIND_DTOH,
		.src_kind = up ? CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE
			       : CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
		.dst_kind = up ? CUPTI_ACTIVITY_MEMORY_KIND_DEVICE
			       : CUPTI_ACTIVITY_MEMORY_KIND_PINNED,
	};
	struct standin_call call;

	(void)to;
	(void)from;
	initialize();
	BEGIN(call, cudaMemcpyAsync, 3020);
	standin_do(&call, &work);
	standin_finish(&call);
	return cudaSuccess;
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
				size_t bytes, cudaStream_t stream)
{
	struct standin_work work = { .kind = CUPTI_ACTIVITY_KIND_MEMCPY2,
				     .device = (uint32_t)from_device,
				     .dst_device = (unsigned)to_device,
				     .context = 1,
				     .stream = stream_of(stream),
				     .bytes = bytes,
				     .copy_kind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP,
				     .src_kind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
				     .dst_kind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE };
	struct standin_call call;

	(void)to;
	(void)from;
	initialize();
	BEGIN(call, cudaMemcpyPeerAsync, 4000);
	standin_do(&call, &work);
	standin_finish(&call);
	return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
	struct standin_work work = { .kind = CUPTI_ACTIVITY_KIND_MEMSET,
				     .context = 1,
				     .stream = stream_of(stream),
				     .bytes = bytes,
				     .dst_kind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE };
	struct standin_call call;

	(void)to;
	(void)value;
	initialize();
	BEGIN(call, cudaMemsetAsync, 3020);
	standin_do(&call, &work);
	standin_finish(&call);
	return cudaSuccess;
}

static void memory(struct standin_call *call, unsigned operation, void *address, size_t bytes)
{
	struct standin_work work = { .kind = CUPTI_ACTIVITY_KIND_MEMORY2,
				     .context = 1,
				     .operation = operation,
				     .address = (uint64_t)(uintptr_t)address,
				     .bytes = bytes };

	standin_do(call, &work);
}

cudaError_t cudaMalloc(void **address, size_t bytes)
{
	static uintptr_t next = 0x7f0000000000;
	struct standin_call call;

	initialize();
	BEGIN(call, cudaMalloc, 3020);
	*address = (void *)next;
	next += bytes;
	memory(&call, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, *address, bytes);
	standin_finish(&call);
	return cudaSuccess;
}

cudaError_t cudaFree(void *address)
{
	struct standin_call call;

	initialize();
	BEGIN(call, cudaFree, 3020);
	memory(&call, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, address, 4096);
	standin_finish(&call);
	return cudaSuccess;
}

static void synchronize(struct standin_call *call, unsigned type, uint32_t stream, uint32_t event)
{
	struct standin_work work = { .kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
				     .context = 1,
				     .operation = type,
				     .stream = stream,
				     .event = event };

	standin_do(call, &work);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	struct standin_call call;

	initialize();
	BEGIN(call, cudaStreamSynchronize, 3020);
	synchronize(&call, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE,
		    stream_of(stream), ~0u);
	standin_finish(&call);
	return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
	struct standin_call call;

	initialize();
	BEGIN(call, cudaDeviceSynchronize, 3020);
	synchronize(&call, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE, ~0u, ~0u);
	standin_finish(&call);
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	struct standin_work work = { .kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT,
				     .context = 1,
				     .stream = stream_of(stream),
				     .event = (uint32_t)(uintptr_t)event };
	struct standin_call call;

	initialize();
	BEGIN(call, cudaEventRecord, 3020);
	standin_do(&call, &work);
	standin_finish(&call);
	return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
	struct standin_call call;

	(void)flags;
	initialize();
	BEGIN(call, cudaStreamWaitEvent, 3020);
	synchronize(&call, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT, stream_of(stream),
		    (uint32_t)(uintptr_t)event);
	standin_finish(&call);
	return cudaSuccess;
}

/* As the real ones: through the driver's.  Declared in headers of another wheel. */
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);

cudaError_t cudaProfilerStart(void)
{
	struct standin_call call;

	initialize();
	BEGIN(call, cudaProfilerStart, 4000);
	cuProfilerStart();
	standin_finish(&call);
	return cudaSuccess;
}

cudaError_t cudaProfilerStop(void)
{
	struct standin_call call;

	initialize();
	BEGIN(call, cudaProfilerStop, 4000);
	cuProfilerStop();
	standin_finish(&call);
	return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
	struct standin_call call;

	initialize();
	BEGIN(call, cudaGetDevice, 3020);
	*device = 0;
	standin_finish(&call);
	return cudaSuccess;
}
