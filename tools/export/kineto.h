/* tools/export/kineto.h - names in Kineto's traces (torch.profiler's exports) and in ours.
 *
 * Our compute events (cat PP) have their kind in args; in Kineto's traces it is the category.  Keys
 * of args without another name stay as they are, in both directions.
 */
#pragma once

#include <stdbool.h>

#include "store/line/entry.h"

/* X(our kind, Kineto's category, whether it is device work) */
#define PFW_KINETO_KINDS(X)                          \
	X(cpu_op, "cpu_op", false)                   \
	X(kernel, "kernel", true)                    \
	X(memcpy, "gpu_memcpy", true)                \
	X(memset, "gpu_memset", true)                \
	X(runtime, "cuda_runtime", false)            \
	X(driver, "cuda_driver", false)              \
	X(sync, "cuda_sync", true)                   \
	X(annotation, "user_annotation", false)      \
	X(overhead, "overhead", false)               \
	X(memory, "cpu_instant_event", false)        \
	X(python_function, "python_function", false) \
	X(step, "user_annotation", false)            \
	X(device_annotation, "gpu_user_annotation", true)

enum pfw_kineto_kind {
	PFW_KINETO_NONE, /* no compute event or an unknown kind: the category stays */
#define X(name, category, device) PFW_KINETO_##name,
	PFW_KINETO_KINDS(X)
#undef X
};

/* X(our key, Kineto's key): keys that differ only in name. */
#define PFW_KINETO_KEYS(X)                        \
	X(external_id, "External id")             \
	X(registers, "registers per thread")      \
	X(blocks_per_sm, "blocks per SM")         \
	X(gbps, "memory bandwidth (GB/s)")        \
	X(graph, "graph id")                      \
	X(graph_node, "graph node id")            \
	X(wait_on_event, "wait_on_cuda_event_id") \
	X(src_device, "fromDevice")               \
	X(dst_device, "toDevice")                 \
	X(input_shapes, "Input Dims")             \
	X(dtypes, "Input type")                   \
	X(strides, "Input Strides")               \
	X(sequence, "Sequence number")            \
	X(fwd_tid, "Fwd thread id")               \
	X(module, "Module Hierarchy")             \
	X(addr, "Addr")                           \
	X(total_allocated, "Total Allocated")     \
	X(total_reserved, "Total Reserved")

/* Keys whose values need a conversion, or that place an event. */
enum pfw_kineto_key {
	PFW_KINETO_KEY_OTHER,
	PFW_KINETO_KEY_kind,
	PFW_KINETO_KEY_device,
	PFW_KINETO_KEY_device_index,
	PFW_KINETO_KEY_context,
	PFW_KINETO_KEY_stream,
	PFW_KINETO_KEY_correlation,
	PFW_KINETO_KEY_static_smem,
	PFW_KINETO_KEY_dynamic_smem,
	PFW_KINETO_KEY_occupancy,
	PFW_KINETO_KEY_bytes,
	PFW_KINETO_KEY_stack,
	PFW_KINETO_KEY_host_pid,
#define X(name, theirs) PFW_KINETO_KEY_##name,
	PFW_KINETO_KEYS(X)
#undef X
};

/* Kineto's names of such keys. */
#define PFW_KINETO_SHARED_MEMORY "shared memory"
#define PFW_KINETO_OCCUPANCY "est. achieved occupancy %"
#define PFW_KINETO_STACK "Call stack"
#define PFW_KINETO_BYTES "Bytes"
#define PFW_KINETO_DEVICE_ID "Device Id"
#define PFW_KINETO_DEVICE_TYPE "Device Type"
#define PFW_KINETO_SYNC_KIND "cuda_sync_kind"
/* For `python_id` and `parent` of Python functions only: other events use these keys otherwise. */
#define PFW_KINETO_PYTHON_ID "Python id"
#define PFW_KINETO_PYTHON_PARENT "Python parent id"
/* A key of our own exports: the process whose work a device row shows. */
#define PFW_KINETO_HOST_PID "host_pid"

/* A trace's base time is a multiple of this, so that a double holds its ns exactly. */
#define PFW_KINETO_BASE_NS (7889238 * INT64_C(1000000000))

/* The kind with that name in args.kind.  Thread: any, as for all functions here. */
enum pfw_kineto_kind pfw_kineto_kind(const struct pfw_slice *name);

/* Its category in Kineto's traces, and whether it is shown on a device row. */
const char *pfw_kineto_category(enum pfw_kineto_kind kind);
bool pfw_kineto_on_device(enum pfw_kineto_kind kind);

/* The kind with that category, and its name in args.kind. */
enum pfw_kineto_kind pfw_kineto_kind_of_category(const struct pfw_slice *category);
const char *pfw_kineto_kind_name(enum pfw_kineto_kind kind);

/* Which key of ours a text is, and its name in Kineto's traces; NULL: it has no such name or needs
 * a conversion. */
enum pfw_kineto_key pfw_kineto_key(const struct pfw_slice *key);
const char *pfw_kineto_key_theirs(enum pfw_kineto_key key);

/* Our name of a key of Kineto's, or NULL. */
const char *pfw_kineto_key_ours(const struct pfw_slice *theirs);

/* Whether a call of that name launches device work, so that an arrow starts at it. */
bool pfw_kineto_launches(const struct pfw_slice *name);
