/* conformance.c - what cupti_abi.h says of CUPTI, against NVIDIA's headers: it compiles, or something is
 * wrong.  Built once with the headers of each generation that is at hand; nothing runs.
 */
#include <cuda.h>
#include <cupti_result.h>
#include <cupti_version.h>

#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_runtime_cbid.h>
#include <stddef.h>

#include "recorder/gpu_records/abi.h"

/* ---- records: the same place, and the same size ---- */

#define FIELD(ours, field, theirs, member)                                                   \
	_Static_assert(offsetof(struct pfw_cupti_##ours, field) == offsetof(theirs, member), \
		       #ours "." #field ": place");                                          \
	_Static_assert(sizeof(((struct pfw_cupti_##ours *)0)->field) >=                      \
			       sizeof(((theirs *)0)->member),                                \
		       #ours "." #field ": size")

FIELD(kernel, kind, CUpti_ActivityKernel9, kind);
FIELD(kernel, registers, CUpti_ActivityKernel9, registersPerThread);
FIELD(kernel, start, CUpti_ActivityKernel9, start);
FIELD(kernel, end, CUpti_ActivityKernel9, end);
FIELD(kernel, at.device, CUpti_ActivityKernel9, deviceId);
FIELD(kernel, at.context, CUpti_ActivityKernel9, contextId);
FIELD(kernel, at.stream, CUpti_ActivityKernel9, streamId);
FIELD(kernel, grid, CUpti_ActivityKernel9, gridX);
FIELD(kernel, block, CUpti_ActivityKernel9, blockX);
FIELD(kernel, static_smem, CUpti_ActivityKernel9, staticSharedMemory);
FIELD(kernel, dynamic_smem, CUpti_ActivityKernel9, dynamicSharedMemory);
FIELD(kernel, local_mem, CUpti_ActivityKernel9, localMemoryPerThread);
FIELD(kernel, correlation, CUpti_ActivityKernel9, correlationId);
FIELD(kernel, name, CUpti_ActivityKernel9, name);
FIELD(kernel, queued, CUpti_ActivityKernel9, queued);
FIELD(kernel, graph_node, CUpti_ActivityKernel9, graphNodeId);
FIELD(kernel, graph, CUpti_ActivityKernel9, graphId);
FIELD(kernel, channel, CUpti_ActivityKernel9, channelID);
FIELD(kernel, channel_type, CUpti_ActivityKernel9, channelType);
FIELD(kernel, cluster_active, CUpti_ActivityKernel9, maxActiveClusters);

FIELD(memcpy, kind, CUpti_ActivityMemcpy5, kind);
FIELD(memcpy, copy_kind, CUpti_ActivityMemcpy5, copyKind);
FIELD(memcpy, src_kind, CUpti_ActivityMemcpy5, srcKind);
FIELD(memcpy, dst_kind, CUpti_ActivityMemcpy5, dstKind);
FIELD(memcpy, bytes, CUpti_ActivityMemcpy5, bytes);
FIELD(memcpy, start, CUpti_ActivityMemcpy5, start);
FIELD(memcpy, end, CUpti_ActivityMemcpy5, end);
FIELD(memcpy, at.device, CUpti_ActivityMemcpy5, deviceId);
FIELD(memcpy, at.context, CUpti_ActivityMemcpy5, contextId);
FIELD(memcpy, at.stream, CUpti_ActivityMemcpy5, streamId);
FIELD(memcpy, correlation, CUpti_ActivityMemcpy5, correlationId);
FIELD(memcpy, graph_node, CUpti_ActivityMemcpy5, graphNodeId);
FIELD(memcpy, graph, CUpti_ActivityMemcpy5, graphId);

FIELD(memcpy_p2p, kind, CUpti_ActivityMemcpyPtoP4, kind);
FIELD(memcpy_p2p, copy_kind, CUpti_ActivityMemcpyPtoP4, copyKind);
FIELD(memcpy_p2p, src_kind, CUpti_ActivityMemcpyPtoP4, srcKind);
FIELD(memcpy_p2p, dst_kind, CUpti_ActivityMemcpyPtoP4, dstKind);
FIELD(memcpy_p2p, bytes, CUpti_ActivityMemcpyPtoP4, bytes);
FIELD(memcpy_p2p, start, CUpti_ActivityMemcpyPtoP4, start);
FIELD(memcpy_p2p, end, CUpti_ActivityMemcpyPtoP4, end);
FIELD(memcpy_p2p, at.device, CUpti_ActivityMemcpyPtoP4, deviceId);
FIELD(memcpy_p2p, at.context, CUpti_ActivityMemcpyPtoP4, contextId);
FIELD(memcpy_p2p, at.stream, CUpti_ActivityMemcpyPtoP4, streamId);
FIELD(memcpy_p2p, src_device, CUpti_ActivityMemcpyPtoP4, srcDeviceId);
FIELD(memcpy_p2p, dst_device, CUpti_ActivityMemcpyPtoP4, dstDeviceId);
FIELD(memcpy_p2p, correlation, CUpti_ActivityMemcpyPtoP4, correlationId);
FIELD(memcpy_p2p, graph_node, CUpti_ActivityMemcpyPtoP4, graphNodeId);
FIELD(memcpy_p2p, graph, CUpti_ActivityMemcpyPtoP4, graphId);

FIELD(memset, kind, CUpti_ActivityMemset4, kind);
FIELD(memset, bytes, CUpti_ActivityMemset4, bytes);
FIELD(memset, start, CUpti_ActivityMemset4, start);
FIELD(memset, end, CUpti_ActivityMemset4, end);
FIELD(memset, at.device, CUpti_ActivityMemset4, deviceId);
FIELD(memset, at.context, CUpti_ActivityMemset4, contextId);
FIELD(memset, at.stream, CUpti_ActivityMemset4, streamId);
FIELD(memset, correlation, CUpti_ActivityMemset4, correlationId);
FIELD(memset, memory_kind, CUpti_ActivityMemset4, memoryKind);
FIELD(memset, graph_node, CUpti_ActivityMemset4, graphNodeId);
FIELD(memset, graph, CUpti_ActivityMemset4, graphId);

FIELD(api, kind, CUpti_ActivityAPI, kind);
FIELD(api, cbid, CUpti_ActivityAPI, cbid);
FIELD(api, start, CUpti_ActivityAPI, start);
FIELD(api, end, CUpti_ActivityAPI, end);
FIELD(api, process, CUpti_ActivityAPI, processId);
FIELD(api, thread, CUpti_ActivityAPI, threadId);
FIELD(api, correlation, CUpti_ActivityAPI, correlationId);

FIELD(external, kind, CUpti_ActivityExternalCorrelation, kind);
FIELD(external, external_kind, CUpti_ActivityExternalCorrelation, externalKind);
FIELD(external, id, CUpti_ActivityExternalCorrelation, externalId);
FIELD(external, correlation, CUpti_ActivityExternalCorrelation, correlationId);

FIELD(sync, kind, CUpti_ActivitySynchronization, kind);
FIELD(sync, type, CUpti_ActivitySynchronization, type);
FIELD(sync, start, CUpti_ActivitySynchronization, start);
FIELD(sync, end, CUpti_ActivitySynchronization, end);
FIELD(sync, correlation, CUpti_ActivitySynchronization, correlationId);
FIELD(sync, context, CUpti_ActivitySynchronization, contextId);
FIELD(sync, stream, CUpti_ActivitySynchronization, streamId);
FIELD(sync, event, CUpti_ActivitySynchronization, cudaEventId);

FIELD(event, kind, CUpti_ActivityCudaEvent, kind);
FIELD(event, correlation, CUpti_ActivityCudaEvent, correlationId);
FIELD(event, context, CUpti_ActivityCudaEvent, contextId);
FIELD(event, stream, CUpti_ActivityCudaEvent, streamId);
FIELD(event, event, CUpti_ActivityCudaEvent, eventId);

FIELD(overhead, kind, CUpti_ActivityOverhead, kind);
FIELD(overhead, overhead, CUpti_ActivityOverhead, overheadKind);
FIELD(overhead, object_kind, CUpti_ActivityOverhead, objectKind);
FIELD(overhead, object, CUpti_ActivityOverhead, objectId);
FIELD(overhead, start, CUpti_ActivityOverhead, start);
FIELD(overhead, end, CUpti_ActivityOverhead, end);

FIELD(name, kind, CUpti_ActivityName, kind);
FIELD(name, object_kind, CUpti_ActivityName, objectKind);
FIELD(name, at.device, CUpti_ActivityName, objectId.dcs.deviceId);
FIELD(name, at.context, CUpti_ActivityName, objectId.dcs.contextId);
FIELD(name, at.stream, CUpti_ActivityName, objectId.dcs.streamId);
FIELD(name, name, CUpti_ActivityName, name);

FIELD(memory, kind, CUpti_ActivityMemory3, kind);
FIELD(memory, operation, CUpti_ActivityMemory3, memoryOperationType);
FIELD(memory, memory_kind, CUpti_ActivityMemory3, memoryKind);
FIELD(memory, correlation, CUpti_ActivityMemory3, correlationId);
FIELD(memory, address, CUpti_ActivityMemory3, address);
FIELD(memory, bytes, CUpti_ActivityMemory3, bytes);
FIELD(memory, timestamp, CUpti_ActivityMemory3, timestamp);
FIELD(memory, device, CUpti_ActivityMemory3, deviceId);
FIELD(memory, context, CUpti_ActivityMemory3, contextId);
FIELD(memory, stream, CUpti_ActivityMemory3, streamId);
FIELD(memory, is_async, CUpti_ActivityMemory3, isAsync);

FIELD(pool, kind, CUpti_ActivityMemoryPool2, kind);
FIELD(pool, operation, CUpti_ActivityMemoryPool2, memoryPoolOperationType);
FIELD(pool, correlation, CUpti_ActivityMemoryPool2, correlationId);
FIELD(pool, device, CUpti_ActivityMemoryPool2, deviceId);
FIELD(pool, address, CUpti_ActivityMemoryPool2, address);
FIELD(pool, bytes, CUpti_ActivityMemoryPool2, size);
FIELD(pool, timestamp, CUpti_ActivityMemoryPool2, timestamp);

FIELD(graph, kind, CUpti_ActivityGraphTrace, kind);
FIELD(graph, correlation, CUpti_ActivityGraphTrace, correlationId);
FIELD(graph, start, CUpti_ActivityGraphTrace, start);
FIELD(graph, end, CUpti_ActivityGraphTrace, end);
FIELD(graph, device, CUpti_ActivityGraphTrace, deviceId);
FIELD(graph, graph, CUpti_ActivityGraphTrace, graphId);
FIELD(graph, context, CUpti_ActivityGraphTrace, contextId);
FIELD(graph, stream, CUpti_ActivityGraphTrace, streamId);

FIELD(jit, kind, CUpti_ActivityJit, kind);
FIELD(jit, operation, CUpti_ActivityJit, jitOperationType);
FIELD(jit, start, CUpti_ActivityJit, start);
FIELD(jit, end, CUpti_ActivityJit, end);
FIELD(jit, correlation, CUpti_ActivityJit, correlationId);
FIELD(jit, cache_bytes, CUpti_ActivityJit, cacheSize);

FIELD(call, site, CUpti_CallbackData, callbackSite);
FIELD(call, function, CUpti_CallbackData, functionName);

/* Nothing of ours reaches behind the end of the oldest struct. */
#define WITHIN(ours, theirs) \
	_Static_assert(sizeof(struct pfw_cupti_##ours) <= sizeof(theirs), #ours ": size")
WITHIN(kernel, CUpti_ActivityKernel9);
WITHIN(memcpy, CUpti_ActivityMemcpy5);
WITHIN(memcpy_p2p, CUpti_ActivityMemcpyPtoP4);
WITHIN(memset, CUpti_ActivityMemset4);
WITHIN(api, CUpti_ActivityAPI);
WITHIN(external, CUpti_ActivityExternalCorrelation);
WITHIN(sync, CUpti_ActivitySynchronization);
WITHIN(event, CUpti_ActivityCudaEvent);
WITHIN(overhead, CUpti_ActivityOverhead);
WITHIN(memory, CUpti_ActivityMemory3);
WITHIN(pool, CUpti_ActivityMemoryPool2);
WITHIN(graph, CUpti_ActivityGraphTrace);
WITHIN(jit, CUpti_ActivityJit);

/* grid and block are three numbers in a row; P2P's devices have their contexts between them. */
_Static_assert(offsetof(CUpti_ActivityKernel9, gridZ) == offsetof(CUpti_ActivityKernel9, gridX) + 8,
	       "");
_Static_assert(offsetof(CUpti_ActivityKernel9, blockZ) ==
		       offsetof(CUpti_ActivityKernel9, blockX) + 8,
	       "");
#if CUPTI_API_VERSION >= 130100
_Static_assert(offsetof(CUpti_ActivityKernel11, priority) == PFW_CUPTI_KERNEL_PRIORITY_AT,
	       "priority");
#endif
#if CUPTI_API_VERSION >= 130000
_Static_assert(offsetof(CUpti_SubscriberParams, structSize) ==
		       offsetof(struct pfw_cupti_subscriber, struct_bytes),
	       "");
_Static_assert(offsetof(CUpti_SubscriberParams, oldSubscriberName) ==
		       offsetof(struct pfw_cupti_subscriber, old_name),
	       "");
_Static_assert(offsetof(CUpti_SubscriberParams, oldSubscriberSize) ==
		       offsetof(struct pfw_cupti_subscriber, old_name_bytes),
	       "");
_Static_assert(sizeof(CUpti_SubscriberParams) <= sizeof(struct pfw_cupti_subscriber), "");
#endif
#if CUPTI_API_VERSION >= 130300
_Static_assert(offsetof(CUpti_SubscriberParams, allowMultipleSubscribers) ==
		       offsetof(struct pfw_cupti_subscriber, several),
	       "");
_Static_assert(PFW_CUPTI_OLD_NAME_BYTES >= CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN, "");
#endif

/* ---- numbers ---- */

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME(PFW_CUPTI_OK, CUPTI_SUCCESS);
SAME(PFW_CUPTI_MAX_LIMIT_REACHED, CUPTI_ERROR_MAX_LIMIT_REACHED);
SAME(PFW_CUPTI_NOT_INITIALIZED, CUPTI_ERROR_NOT_INITIALIZED);
SAME(PFW_CUPTI_INVALID_KIND, CUPTI_ERROR_INVALID_KIND);
SAME(PFW_CUPTI_INSUFFICIENT_PRIVILEGES, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
SAME(PFW_CUPTI_MULTIPLE_SUBSCRIBERS, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
SAME(PFW_CUPTI_VIRTUALIZED_PRIVILEGES, CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
SAME(PFW_CUPTI_UNKNOWN, CUPTI_ERROR_UNKNOWN);
SAME(PFW_CUPTI_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY);
SAME(PFW_CUPTI_KIND_MEMSET, CUPTI_ACTIVITY_KIND_MEMSET);
SAME(PFW_CUPTI_KIND_DRIVER, CUPTI_ACTIVITY_KIND_DRIVER);
SAME(PFW_CUPTI_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_RUNTIME);
SAME(PFW_CUPTI_KIND_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
SAME(PFW_CUPTI_KIND_OVERHEAD, CUPTI_ACTIVITY_KIND_OVERHEAD);
SAME(PFW_CUPTI_KIND_MEMCPY_P2P, CUPTI_ACTIVITY_KIND_MEMCPY2);
SAME(PFW_CUPTI_KIND_CUDA_EVENT, CUPTI_ACTIVITY_KIND_CUDA_EVENT);
SAME(PFW_CUPTI_KIND_SYNC, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
SAME(PFW_CUPTI_KIND_EXTERNAL, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
SAME(PFW_CUPTI_KIND_MEMORY, CUPTI_ACTIVITY_KIND_MEMORY2);
SAME(PFW_CUPTI_KIND_MEMORY_POOL, CUPTI_ACTIVITY_KIND_MEMORY_POOL);
SAME(PFW_CUPTI_KIND_GRAPH, CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
SAME(PFW_CUPTI_KIND_JIT, CUPTI_ACTIVITY_KIND_JIT);
SAME(PFW_CUPTI_DOMAIN_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API);
SAME(PFW_CUPTI_DOMAIN_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API);
SAME(PFW_CUPTI_DOMAIN_RESOURCE, CUPTI_CB_DOMAIN_RESOURCE);
SAME(PFW_CUPTI_RESOURCE_CONTEXT_CREATED, CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
SAME(PFW_CUPTI_SITE_ENTER, CUPTI_API_ENTER);
SAME(PFW_CUPTI_EXTERNAL_CUSTOM2, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2);
SAME(PFW_CUPTI_THREAD_ID_SYSTEM, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
SAME(PFW_CUPTI_FLUSH_FORCED, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
SAME(PFW_CUPTI_ALLOCATION, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION);
SAME(PFW_CUPTI_MEMORY_PAGEABLE, CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE);
SAME(PFW_CUPTI_MEMORY_PINNED, CUPTI_ACTIVITY_MEMORY_KIND_PINNED);
SAME(PFW_CUPTI_MEMORY_DEVICE_STATIC, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC);
SAME(PFW_CUPTI_MEMORY_MANAGED_STATIC, CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC);
SAME(PFW_CUPTI_POOL_CREATED, CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED);
SAME(PFW_CUDA_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME(PFW_CUDA_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY);
SAME(PFW_CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
#if CUPTI_API_VERSION >= 21
SAME(PFW_CUPTI_ATTR_PER_THREAD_BUFFER, CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER);
#endif

#define X(name, number) SAME(number, CUPTI_RUNTIME_TRACE_CBID_##name);
PFW_CUPTI_RUNTIME_NOISE(X)
#undef X
#define X(name, number) SAME(number, CUPTI_DRIVER_TRACE_CBID_##name);
PFW_CUPTI_DRIVER_UNLOADS(X)
PFW_CUPTI_DRIVER_RANGES(X)
#undef X
#define X(name, member, number) SAME(number, CU_DEVICE_ATTRIBUTE_##name);
PFW_CUDA_ATTRIBUTES(X)
#undef X

/* ---- calls: as many arguments, each passed as ours is ---- */

/* In C an enum is an unsigned int where nothing in it is negative, and pointers are pointers: what is
 * left to go wrong is the number of arguments and their widths.  Each call is made here as we make
 * it, with the header's prototype. */
struct arguments {
	void *pointer;
	uint32_t u32;
	uint8_t u8;
	uint64_t u64;
	size_t size;
};

__attribute__((unused)) static void calls(struct arguments *a)
{
	struct pfw_cupti_calls ours = { 0 };
	void *p = a->pointer;

	cuptiGetVersion(p);
	ours.GetVersion(p);
	cuptiGetTimestamp(p);
	ours.GetTimestamp(p);
	cuptiGetResultString(a->u32, p);
	ours.GetResultString(a->u32, p);
	cuptiGetCallbackName(a->u32, a->u32, p);
	ours.GetCallbackName(a->u32, a->u32, p);
	cuptiSubscribe(p, p, p);
	ours.Subscribe(p, p, p);
	cuptiUnsubscribe(p);
	ours.Unsubscribe(p);
	cuptiEnableCallback(a->u32, p, a->u32, a->u32);
	ours.EnableCallback(a->u32, p, a->u32, a->u32);
	cuptiSetThreadIdType(a->u32);
	ours.SetThreadIdType(a->u32);
	cuptiActivityRegisterCallbacks(p, p);
	ours.ActivityRegisterCallbacks(p, p);
	cuptiActivityEnable(a->u32);
	ours.ActivityEnable(a->u32);
	cuptiActivityDisable(a->u32);
	ours.ActivityDisable(a->u32);
	cuptiActivityFlushAll(a->u32);
	ours.ActivityFlushAll(a->u32);
	cuptiActivityGetNextRecord(p, a->size, p);
	ours.ActivityGetNextRecord(p, a->size, p);
	cuptiActivityGetNumDroppedRecords(p, a->u32, p);
	ours.ActivityGetNumDroppedRecords(p, a->u32, p);
	cuptiActivitySetAttribute(a->u32, p, p);
	ours.ActivitySetAttribute(a->u32, p, p);
	cuptiActivityPushExternalCorrelationId(a->u32, a->u64);
	ours.ActivityPushExternalCorrelationId(a->u32, a->u64);
	cuptiActivityPopExternalCorrelationId(a->u32, p);
	ours.ActivityPopExternalCorrelationId(a->u32, p);
#if CUPTI_API_VERSION >= 23
	cuptiActivityEnableRuntimeApi(a->u32, a->u8);
	ours.ActivityEnableRuntimeApi(a->u32, a->u8);
#endif
#if CUPTI_API_VERSION >= 130000
	cuptiSubscribe_v2(p, p, p, p);
	ours.Subscribe_v2(p, p, p, p);
#endif
#if CUPTI_API_VERSION >= 130300
	cuptiActivityRegisterCallbacks_v2(p, p, p);
	ours.ActivityRegisterCallbacks_v2(p, p, p);
	cuptiActivityEnable_v2(p, a->u32, p);
	ours.ActivityEnable_v2(p, a->u32, p);
	cuptiActivityDisable_v2(p, a->u32, p);
	ours.ActivityDisable_v2(p, a->u32, p);
	cuptiActivityGetNextRecord_v2(p, p, a->size, p);
	ours.ActivityGetNextRecord_v2(p, p, a->size, p);
	cuptiActivityGetNumDroppedRecords_v2(p, p, a->u32, p);
	ours.ActivityGetNumDroppedRecords_v2(p, p, a->u32, p);
	cuptiActivitySetAttribute_v2(p, a->u32, p, p);
	ours.ActivitySetAttribute_v2(p, a->u32, p, p);
	cuptiActivityPushExternalCorrelationId_v2(p, a->u32, a->u64);
	ours.ActivityPushExternalCorrelationId_v2(p, a->u32, a->u64);
	cuptiActivityPopExternalCorrelationId_v2(p, a->u32, p);
	ours.ActivityPopExternalCorrelationId_v2(p, a->u32, p);
	cuptiActivityEnableRuntimeApi_v2(p, a->u32, a->u8);
	ours.ActivityEnableRuntimeApi_v2(p, a->u32, a->u8);
	cuptiGetTimestamp_v2(p, p);
	ours.GetTimestamp_v2(p, p);
#endif
}
