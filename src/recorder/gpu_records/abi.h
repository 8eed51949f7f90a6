/* recorder/gpu_records/abi.h - CUPTI's numbers, records and calls, as far as the recorder uses
 * them.
 *
 * The recorder is built without CUDA and runs with every CUPTI from 12.0 on.  CUPTI never changes
 * the layout of a record type and only appends to a family of records.  Each struct here is
 * therefore the part that 12.0 has; later members are read only if the library is new enough
 * (PFW_CUPTI_13_1).  Records are never stepped by sizeof: the library knows their stride.
 * tests/gpu/conformance.c compares every number, offset and prototype here with NVIDIA's headers
 * where the headers are installed.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* CUptiResult.  Do not ask for an error's text before cuInit() has succeeded: 13.2 then recurses
 * for ever. */
enum {
	PFW_CUPTI_OK = 0,
	PFW_CUPTI_MAX_LIMIT_REACHED = 12,
	PFW_CUPTI_NOT_INITIALIZED = 15,
	PFW_CUPTI_INVALID_KIND = 21,
	PFW_CUPTI_INSUFFICIENT_PRIVILEGES = 35,
	PFW_CUPTI_MULTIPLE_SUBSCRIBERS = 39,
	PFW_CUPTI_VIRTUALIZED_PRIVILEGES = 40,
	PFW_CUPTI_UNKNOWN = 999,
};

/* Values of cuptiGetVersion(). */
enum {
	PFW_CUPTI_12_9_1 = 28, /* accepts "no buffer" as an answer */
	PFW_CUPTI_13_0 = 130000,
	PFW_CUPTI_13_1 = 130100, /* kernel records have a priority */
	PFW_CUPTI_13_3 = 130300, /* several subscribers, each with its own buffers */
};

/* CUpti_ActivityKind */
enum {
	PFW_CUPTI_KIND_MEMCPY = 1,
	PFW_CUPTI_KIND_MEMSET = 2,
	PFW_CUPTI_KIND_DRIVER = 4,
	PFW_CUPTI_KIND_RUNTIME = 5,
	PFW_CUPTI_KIND_KERNEL = 10, /* CONCURRENT_KERNEL; KERNEL (3) would serialise kernels */
	PFW_CUPTI_KIND_NAME = 11,
	PFW_CUPTI_KIND_OVERHEAD = 17,
	PFW_CUPTI_KIND_MEMCPY_P2P = 22, /* MEMCPY2 */
	PFW_CUPTI_KIND_CUDA_EVENT = 36,
	PFW_CUPTI_KIND_SYNC = 38,
	PFW_CUPTI_KIND_EXTERNAL = 39,
	PFW_CUPTI_KIND_MEMORY = 49, /* MEMORY2 */
	PFW_CUPTI_KIND_MEMORY_POOL = 50,
	PFW_CUPTI_KIND_GRAPH = 51,
	PFW_CUPTI_KIND_JIT = 52,
};

enum {
	PFW_CUPTI_DOMAIN_DRIVER = 1,
	PFW_CUPTI_DOMAIN_RUNTIME = 2,
	PFW_CUPTI_DOMAIN_RESOURCE = 3,
	PFW_CUPTI_RESOURCE_CONTEXT_CREATED = 1, /* CUpti_CallbackIdResource */
	PFW_CUPTI_SITE_ENTER = 0,		/* CUpti_ApiCallbackSite */
	PFW_CUPTI_EXTERNAL_CUSTOM2 = 5,		/* CUpti_ExternalCorrelationKind */
	PFW_CUPTI_THREAD_ID_SYSTEM = 1,		/* CUpti_ActivityThreadIdType */
	PFW_CUPTI_ATTR_PER_THREAD_BUFFER = 9,	/* CUpti_ActivityAttribute */
	PFW_CUPTI_FLUSH_FORCED = 1,		/* CUpti_ActivityFlag */
	PFW_CUPTI_OBJECT_DEVICE = 3,		/* CUpti_ActivityObjectKind */
	PFW_CUPTI_OBJECT_CONTEXT = 4,
	PFW_CUPTI_OBJECT_STREAM = 5,
	PFW_CUPTI_ALLOCATION = 1,      /* CUpti_ActivityMemoryOperationType */
	PFW_CUPTI_MEMORY_PAGEABLE = 1, /* CUpti_ActivityMemoryKind: of the host, as is the next */
	PFW_CUPTI_MEMORY_PINNED = 2,
	PFW_CUPTI_MEMORY_DEVICE_STATIC = 6, /* variables of modules, as is the next */
	PFW_CUPTI_MEMORY_MANAGED_STATIC = 7,
	PFW_CUPTI_POOL_CREATED = 1,    /* CUpti_ActivityMemoryPoolOperationType */
	PFW_CUPTI_OLD_NAME_BYTES = 64, /* CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN */
};

/* Runtime calls (CUpti_runtime_api_trace_cbid) that do no work for the program: they are not
 * recorded. */
#define PFW_CUPTI_RUNTIME_NOISE(X)             \
	X(cudaGetLastError_v3020, 10)          \
	X(cudaSetDevice_v3020, 16)             \
	X(cudaGetDevice_v3020, 17)             \
	X(cudaEventCreate_v3020, 133)          \
	X(cudaEventCreateWithFlags_v3020, 134) \
	X(cudaEventDestroy_v3020, 136)

/* Driver calls (CUpti_driver_api_trace_cbid) that free the names of kernels. */
#define PFW_CUPTI_DRIVER_UNLOADS(X)          \
	X(cuCtxDestroy, 11)                  \
	X(cuModuleUnload, 22)                \
	X(cuCtxDestroy_v2, 322)              \
	X(cuDevicePrimaryCtxRelease, 387)    \
	X(cuDevicePrimaryCtxReset, 389)      \
	X(cuDevicePrimaryCtxRelease_v2, 544) \
	X(cuDevicePrimaryCtxReset_v2, 545)   \
	X(cuLibraryUnload, 680)

/* Driver calls that mark a range. cudaProfilerStart() and cudaProfilerStop() arrive here, too. */
#define PFW_CUPTI_DRIVER_RANGES(X) \
	X(cuProfilerStart, 308)    \
	X(cuProfilerStop, 309)

/* ---- records ---- */

/* Where on a GPU an activity ran. */
struct pfw_cupti_place {
	uint32_t device, context, stream;
};

struct pfw_cupti_kernel { /* CUpti_ActivityKernel9 */
	uint32_t kind;
	uint8_t cache_config, smem_config;
	uint16_t registers;
	uint32_t cache_requested, cache_executed;
	uint64_t start, end, completed;
	struct pfw_cupti_place at;
	int32_t grid[3], block[3];
	int32_t static_smem, dynamic_smem;
	uint32_t local_mem, local_mem_total;
	uint32_t correlation;
	int64_t grid_id;
	const char *name;
	void *reserved;
	uint64_t queued, submitted;
	uint8_t launch_type, carveout_requested, carveout, padding;
	uint32_t smem_executed;
	uint64_t graph_node;
	uint32_t smem_limit;
	uint32_t graph;
	void *access_policy;
	uint32_t channel, channel_type;
	uint32_t cluster[3], cluster_policy;
	uint64_t local_mem_total_v2;
	uint32_t cluster_potential, cluster_active;
};

/* Offset of a member of CUpti_ActivityKernel11 (13.1), after the end of the struct above. */
#define PFW_CUPTI_KERNEL_PRIORITY_AT 216

struct pfw_cupti_memcpy { /* CUpti_ActivityMemcpy5 */
	uint32_t kind;
	uint8_t copy_kind, src_kind, dst_kind, flags;
	uint64_t bytes, start, end;
	struct pfw_cupti_place at;
	uint32_t correlation, runtime_correlation, pad;
	void *reserved;
	uint64_t graph_node;
	uint32_t graph;
	uint32_t channel, channel_type, pad2;
};

struct pfw_cupti_memcpy_p2p { /* CUpti_ActivityMemcpyPtoP4 */
	uint32_t kind;
	uint8_t copy_kind, src_kind, dst_kind, flags;
	uint64_t bytes, start, end;
	struct pfw_cupti_place at;
	uint32_t src_device, src_context, dst_device, dst_context;
	uint32_t correlation;
	void *reserved;
	uint64_t graph_node;
	uint32_t graph;
	uint32_t channel, channel_type;
};

struct pfw_cupti_memset { /* CUpti_ActivityMemset4 */
	uint32_t kind;
	uint32_t value;
	uint64_t bytes, start, end;
	struct pfw_cupti_place at;
	uint32_t correlation;
	uint16_t flags, memory_kind;
	uint32_t pad;
	void *reserved;
	uint64_t graph_node;
	uint32_t graph;
	uint32_t channel, channel_type, pad2;
};

struct pfw_cupti_api { /* CUpti_ActivityAPI: RUNTIME and DRIVER */
	uint32_t kind, cbid;
	uint64_t start, end;
	uint32_t process, thread, correlation, result;
};

struct pfw_cupti_external { /* CUpti_ActivityExternalCorrelation */
	uint32_t kind, external_kind;
	uint64_t id;
	uint32_t correlation, reserved;
};

struct pfw_cupti_sync { /* CUpti_ActivitySynchronization */
	uint32_t kind, type;
	uint64_t start, end;
	uint32_t correlation, context, stream, event;
};

struct pfw_cupti_event { /* CUpti_ActivityCudaEvent */
	uint32_t kind, correlation, context, stream, event, pad;
};

struct pfw_cupti_overhead { /* CUpti_ActivityOverhead */
	uint32_t kind, overhead, object_kind;
	uint32_t object[3]; /* process, thread; or device, context, stream */
	uint64_t start, end;
};

struct pfw_cupti_name { /* CUpti_ActivityName */
	uint32_t kind, object_kind;
	/* the device, context or stream that has the name; unused members are 0 */
	struct pfw_cupti_place at;
	uint32_t pad;
	const char *name;
};

struct pfw_cupti_memory { /* CUpti_ActivityMemory3 */
	uint32_t kind, operation, memory_kind, correlation;
	uint64_t address, bytes, timestamp, pc;
	uint32_t process, device, context, stream;
	const char *source;
	uint32_t is_async, pad;
};

struct pfw_cupti_pool { /* CUpti_ActivityMemoryPool2 */
	uint32_t kind, operation, pool_type, correlation, process, device;
	uint64_t keep, address, bytes, release_threshold, timestamp, used;
};

struct pfw_cupti_graph { /* CUpti_ActivityGraphTrace */
	uint32_t kind, correlation;
	uint64_t start, end;
	uint32_t device, graph, context, stream;
	void *reserved;
};

struct pfw_cupti_jit { /* CUpti_ActivityJit */
	uint32_t kind, entry, operation, device;
	uint64_t start, end;
	uint32_t correlation, padding;
	uint64_t operation_correlation, cache_bytes;
	const char *cache_path;
};

/* ---- arguments of callbacks ---- */

struct pfw_cupti_call { /* CUpti_CallbackData */
	uint32_t site;
	const char *function;
};

typedef void pfw_cupti_callback(void *user, uint32_t domain, uint32_t cbid, const void *data);
typedef void pfw_cupti_requested(uint8_t **buffer, size_t *bytes, size_t *max_records);
typedef void pfw_cupti_completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
				 size_t valid_bytes);
typedef void pfw_cupti_requested_v2(uint8_t **buffer, size_t *bytes, size_t *max_records,
				    void *info);
typedef void pfw_cupti_completed_v2(uint8_t *buffer, size_t bytes, size_t valid_bytes, void *info);

struct pfw_cupti_subscriber { /* CUpti_SubscriberParams */
	size_t struct_bytes;
	const char *name;
	char *old_name;
	size_t old_name_bytes;
	uint8_t several, padding[7];
};

/* ---- calls: X(name after "cupti", parameters) ---- */

/* Every CUPTI from 12.0 on has these. */
#define PFW_CUPTI_CALLS(X)                                                                     \
	X(GetVersion, (uint32_t * version))                                                    \
	X(GetTimestamp, (uint64_t * ns))                                                       \
	X(GetResultString, (uint32_t result, const char **text))                               \
	X(GetCallbackName, (uint32_t domain, uint32_t cbid, const char **name))                \
	X(Subscribe, (void **subscriber, pfw_cupti_callback *callback, void *user))            \
	X(Unsubscribe, (void *subscriber))                                                     \
	X(EnableCallback, (uint32_t enable, void *subscriber, uint32_t domain, uint32_t cbid)) \
	X(EnableDomain, (uint32_t enable, void *subscriber, uint32_t domain))                  \
	X(EnableAllDomains, (uint32_t enable, void *subscriber))                               \
	X(SetThreadIdType, (uint32_t type))                                                    \
	X(ActivityRegisterCallbacks,                                                           \
	  (pfw_cupti_requested * requested, pfw_cupti_completed * completed))                  \
	X(ActivityEnable, (uint32_t kind))                                                     \
	X(ActivityDisable, (uint32_t kind))                                                    \
	X(ActivityFlushAll, (uint32_t flag))                                                   \
	X(ActivityGetNextRecord, (uint8_t * buffer, size_t bytes, void **record))              \
	X(ActivityGetNumDroppedRecords, (void *context, uint32_t stream, size_t *dropped))     \
	X(ActivitySetAttribute, (uint32_t attribute, size_t * bytes, void *value))             \
	X(ActivityPushExternalCorrelationId, (uint32_t kind, uint64_t id))                     \
	X(ActivityPopExternalCorrelationId, (uint32_t kind, uint64_t * id))

/* Calls of later versions, and calls that are optional; NULL if the library has none. */
#define PFW_CUPTI_LATER_CALLS(X)                                                      \
	X(ActivityEnableRuntimeApi, (uint32_t cbid, uint8_t enable))                  \
	X(ActivityRegisterTimestampCallback, (uint64_t(*clock)(void)))                \
	X(Finalize, (void))                                                           \
	X(GetContextId, (void *context, uint32_t *id))                                \
	X(GetDeviceId, (void *context, uint32_t *id))                                 \
	X(GetStreamIdEx, (void *context, void *stream, uint8_t own, uint32_t *id))    \
	X(Subscribe_v2, (void **subscriber, pfw_cupti_callback *callback, void *user, \
			 struct pfw_cupti_subscriber *how))

/* Calls of 13.3 for one of several subscribers.  A library has all of them or none. */
#define PFW_CUPTI_SHARED_CALLS(X)                                                               \
	X(ActivityRegisterCallbacks_v2, (void *subscriber, pfw_cupti_requested_v2 *requested,   \
					 pfw_cupti_completed_v2 *completed))                    \
	X(ActivityEnable_v2, (void *subscriber, uint32_t kind, void *config))                   \
	X(ActivityDisable_v2, (void *subscriber, uint32_t kind, void *config))                  \
	X(ActivityGetNextRecord_v2,                                                             \
	  (void *subscriber, uint8_t *buffer, size_t bytes, void **record))                     \
	X(ActivityGetNumDroppedRecords_v2,                                                      \
	  (void *subscriber, void *context, uint32_t stream, size_t *dropped))                  \
	X(ActivitySetAttribute_v2,                                                              \
	  (void *subscriber, uint32_t attribute, size_t *bytes, void *value))                   \
	X(ActivityPushExternalCorrelationId_v2, (void *subscriber, uint32_t kind, uint64_t id)) \
	X(ActivityPopExternalCorrelationId_v2, (void *subscriber, uint32_t kind, uint64_t *id)) \
	X(ActivityEnableRuntimeApi_v2, (void *subscriber, uint32_t cbid, uint8_t enable))       \
	X(GetTimestamp_v2, (void *subscriber, uint64_t *ns))

struct pfw_cupti_calls {
#define X(name, parameters) uint32_t(*name) parameters;
	PFW_CUPTI_CALLS(X)
	PFW_CUPTI_LATER_CALLS(X)
	PFW_CUPTI_SHARED_CALLS(X)
#undef X
};

/* ---- the driver ---- */

enum {
	PFW_CUDA_OK = 0,
	PFW_CUDA_NOT_INITIALIZED = 3,
	PFW_CUDA_DEINITIALIZED = 4, /* the program ends */
	PFW_CUDA_STUB_LIBRARY = 34,
	PFW_CUDA_NO_DEVICE = 100,
};

/* CUdevice_attribute: the inputs of the occupancy. */
#define PFW_CUDA_ATTRIBUTES(X)                             \
	X(MULTIPROCESSOR_COUNT, sms, 16)                   \
	X(MAX_THREADS_PER_MULTIPROCESSOR, threads, 39)     \
	X(COMPUTE_CAPABILITY_MAJOR, major, 75)             \
	X(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, smem, 81)  \
	X(MAX_REGISTERS_PER_MULTIPROCESSOR, registers, 82) \
	X(MAX_BLOCKS_PER_MULTIPROCESSOR, blocks, 106)      \
	X(RESERVED_SHARED_MEMORY_PER_BLOCK, reserved_smem, 111)
