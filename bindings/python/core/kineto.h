/* kineto.h - what torch.profiler has recorded, as its own C++ objects tell it. */
#pragma once

#include "core.h"

/* The getters of torch._C._autograd._KinetoEvent that are read.  Versions differ: start_ns() was start_us()
 * in older ones, and of the others any may be missing but name(). */
#define KINETO_GETTERS(X)           \
	X(name)                     \
	X(device_type)              \
	X(device_index)             \
	X(device_resource_id)       \
	X(correlation_id)           \
	X(linked_correlation_id)    \
	X(start_ns)                 \
	X(duration_ns)              \
	X(start_us)                 \
	X(duration_us)              \
	X(activity_type)            \
	X(is_python_function)       \
	X(is_user_annotation)       \
	X(scope)                    \
	X(start_thread_id)          \
	X(fwd_thread_id)            \
	X(sequence_nr)              \
	X(flops)                    \
	X(nbytes)                   \
	X(shapes)                   \
	X(dtypes)                   \
	X(structured_input_strides) \
	X(python_id)                \
	X(python_parent_id)

enum kineto_getter {
#define X(getter) KINETO_##getter,
	KINETO_GETTERS(X)
#undef X
		KINETO_GETTER_COUNT
};

/* torch's DeviceType */
enum { KINETO_CPU = 0, KINETO_CUDA = 1, KINETO_MKLDNN = 2, KINETO_IDEEP = 5 };

/* torch's RecordScope, of record_function() */
enum { KINETO_USER_SCOPE = 7 };

/* What every event is looked at for before the first is written. */
struct kineto_event {
	int64_t start_ns, end_ns;
	uint64_t lane;		   /* thread (tid), or stream of a device */
	uint64_t id;		   /* correlation_id: of an operator its own number */
	uint64_t operator_id;	   /* linked_correlation_id */
	int64_t step;		   /* -1: in none */
	int64_t device_ns;	   /* what it and what it called had the device do */
	uint32_t index;		   /* in the list */
	int32_t parent;		   /* the innermost operator or annotation around it; -1: none */
	uint8_t kind;		   /* enum pfw_kind */
	bool on_device, is_memory; /* not on the CPU; an allocation */
};

/* An allocation, or a range of them: sum is of all up to and with this one. */
struct kineto_memory {
	int64_t at_ns, cpu_bytes, device_bytes;
};

struct kineto {
	PyObject *list;	       /* borrowed; of _KinetoEvent, or what has its getters */
	PyObject *allocations; /* (start_ns, bytes): (addr, allocated, reserved) */
	PyTypeObject *type;    /* of the last: torch's; borrowed */
	PyObject *getter[KINETO_GETTER_COUNT]; /* that type's; NULL: this torch has none */
	struct kineto_event *event;	       /* by lane, then time, the outer before the inner */
	uint32_t *by_operator;		       /* hash table of `event`s that are operators, + 1 */
	struct kineto_memory *memory;	       /* by time */
	size_t count, memories, table;	       /* the table's size is a power of two */
	int64_t gpu_since_ns;	   /* GPU work from then on is in the trace already; 0: it is not */
	int64_t active_ns;	   /* what begins before is warm-up */
	int64_t cpu_ns, device_ns; /* all that the outermost did; all that devices did */
	bool shapes, stacks, flops; /* what is asked for */
	bool operators,
		others; /* what is written: what the CPU did in operators and ranges; the rest */
};

/* A getter's value: a new reference; NULL without an exception where there is no such getter, with one
 * where it failed. */
PyObject *kineto_get(const struct kineto *kineto, enum kineto_getter getter, PyObject *event);

/* The same as a number; `otherwise` where there is none (no exception stays). */
int64_t kineto_int(const struct kineto *kineto, enum kineto_getter getter, PyObject *event,
		   int64_t otherwise);

/* Look at all events: 0, or -1 with an exception. */
int kineto_read(struct kineto *kineto, PyObject *list);
void kineto_release(struct kineto *kineto);

/* The operator with that number; NULL: none. */
const struct kineto_event *kineto_operator(const struct kineto *kineto, uint64_t id);

/* Bytes taken less bytes given back within [start_ns, end_ns]. */
struct kineto_memory kineto_memory_in(const struct kineto *kineto, int64_t start_ns,
				      int64_t end_ns);

/* Write all of them; *written says how many.  0, or -1 with an exception. */
int kineto_write(const struct kineto *kineto, size_t *written);
