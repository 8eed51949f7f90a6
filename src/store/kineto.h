/* kineto.h - the words of Kineto's traces (torch.profiler's exports) and ours for the same.
 *
 * A compute event (cat PP) has its kind in args; there it is the category.  Most keys of args have
 * another name there; one that has none stays as it is, in both directions.
 */
#ifndef PFW_KINETO_H
#define PFW_KINETO_H

#include <stdbool.h>
#include <stddef.h>

#include "entry.h"

/* X(our kind, their category, whether it is work of a device) */
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
	PFW_KINETO_NONE, /* no compute event, or of no known kind: its category is its own */
#define X(name, category, device) PFW_KINETO_##name,
	PFW_KINETO_KINDS(X)
#undef X
};

/* X(our key, their key): keys that differ in their names only. */
#define PFW_KINETO_KEYS(X)                        \
	X(external_id, "External id")             \
	X(registers, "registers per thread")      \
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

/* Keys that need more than another name, and those that say whose work it is. */
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

/* What these keys are called there. */
#define PFW_KINETO_SHARED_MEMORY "shared memory"
#define PFW_KINETO_OCCUPANCY "est. achieved occupancy %"
#define PFW_KINETO_STACK "Call stack"
#define PFW_KINETO_BYTES "Bytes"
#define PFW_KINETO_DEVICE_ID "Device Id"
#define PFW_KINETO_DEVICE_TYPE "Device Type"
#define PFW_KINETO_SYNC_KIND "cuda_sync_kind"
/* Of Python's functions: `python_id` and `parent`, which others have for something else. */
#define PFW_KINETO_PYTHON_ID "Python id"
#define PFW_KINETO_PYTHON_PARENT "Python parent id"
/* One that only ours have: the process of work that a device's row shows. */
#define PFW_KINETO_HOST_PID "host_pid"

/* The times of a trace count from a multiple of so many seconds, so that a double holds the ns. */
#define PFW_KINETO_BASE_NS (7889238 * INT64_C(1000000000))

/* The kind of that name (of args.kind).  Thread: any, as all here. */
enum pfw_kineto_kind pfw_kineto_kind(const struct pfw_slice *name);

/* Their category for it, and whether it is shown on a device's row. */
const char *pfw_kineto_category(enum pfw_kineto_kind kind);
bool pfw_kineto_on_device(enum pfw_kineto_kind kind);

/* The kind whose category that is, and its name in args.kind. */
enum pfw_kineto_kind pfw_kineto_kind_of_category(const struct pfw_slice *category);
const char *pfw_kineto_kind_name(enum pfw_kineto_kind kind);

/* Which key of ours that is, and what it is called there (NULL: needs more than that). */
enum pfw_kineto_key pfw_kineto_key(const struct pfw_slice *key);
const char *pfw_kineto_key_theirs(enum pfw_kineto_key key);

/* What one of their keys is called here, or NULL. */
const char *pfw_kineto_key_ours(const struct pfw_slice *theirs);

/* Whether a call of that name starts work on a device, so that an arrow goes from it. */
bool pfw_kineto_launches(const struct pfw_slice *name);

#endif
