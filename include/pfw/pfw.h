/*
 * pfw.h - the C API of pfw: spans, compute events and counters in the trace of this process.
 *
 * A program links with -lpfw.  `pfw run` or libpfw_preload.so in LD_PRELOAD record its children,
 * too.  A program that must also run where libpfw is absent defines PFW_OPTIONAL before it includes
 * this file.  Then every function is a weak symbol, nothing is linked, and each call tests an
 * address.  A program built with -fno-pic -no-pie cannot use weak symbols: it must link.
 *
 * Functions return 0 or a negative errno value, and keep errno.  They never exit or abort.  They
 * print at most one line, to standard error, if pfw cannot do what the caller asked for.  Any
 * thread may call them at any time, also before main() and during exit().  If recording is off,
 * they do nothing and return 0.  Times are nanoseconds since the epoch (CLOCK_REALTIME).  Names and
 * keys are UTF-8 of at most PFW_NAME_BYTES; U+FFFD replaces bytes that are not.  "Signal: safe": a
 * signal handler may call the function.
 */
#ifndef PFW_PFW_H
#define PFW_PFW_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PFW_VERSION "0.1.0"
#define PFW_NAME_BYTES 4096

#if defined(PFW_BUILDING)
#define PFW_API __attribute__((visibility("default")))
#elif defined(PFW_OPTIONAL)
#define PFW_API __attribute__((weak))
#else
#define PFW_API /* strong: a weak reference alone would let --as-needed drop the library */
#endif

/* Options of pfw_start().  A member that is 0 means: as the variable says. */
struct pfw_options {
	size_t bytes;	      /* sizeof(struct pfw_options): lets later versions add members */
	const char *log_file; /* base name of the trace, as DFTRACER_LOG_FILE */
	const char *data_dir; /* as DFTRACER_DATA_DIR */
	int compression;      /* 0: as the variable says; 1: on; -1: off */
	int whole_us;	      /* 1: whole microseconds, as DFTRACER_TIME_METRIC=US */
};

/*
 * Start recording, unless DFTRACER_ENABLE is 0.  options may be NULL.  I/O calls are recorded, too.
 * Without the preload object this call redirects the I/O calls of all loaded objects, and of those
 * that dlopen() loads later.  It does not reach function addresses that the program took before,
 * nor programs that it runs.  A trace that has begun under another name is renamed, unless `pfw run
 * -o` named it.  A second start changes nothing.  Return 0, or -EINVAL for a bad option, after a
 * message.  Signal: unsafe.
 */
PFW_API int pfw_start(const struct pfw_options *options);

/* Stop recording, and write all recorded events and the line `end` to the trace.  A later
 * pfw_start() continues in the same file, which then gets another `end`.  The calls that
 * pfw_start() redirected lead to libc again.  Signal: unsafe. */
PFW_API int pfw_stop(void);

/* Write the events that all threads have recorded so far to the trace.  Return 0, -ETIMEDOUT after
 * 10 s, or the error of a write.  Signal: unsafe. */
PFW_API int pfw_flush(void);

/*
 * With PFW_KEEP, write the kept events to a trace of their own, and return when it is complete.
 * Its line `dump` has `why`, cut to 199 bytes (NULL: "pfw_dump()").  Without PFW_KEEP do nothing:
 * every event is in the trace.  Return 0, -ETIMEDOUT after 60 s, or the error of a write.  Signal:
 * unsafe.
 */
PFW_API int pfw_dump(const char *why);

/*
 * Set this process's rank and the number of ranks, if the environment does not have them.  The
 * trace gets a name with the rank.  Return 0, or -EINVAL unless 0 <= rank < world_size.  Signal:
 * unsafe.
 */
PFW_API int pfw_set_rank(int rank, int world_size);

/* ---- spans ---- */

/*
 * An open span, in memory of the caller.  Opaque.  It must not be copied or moved while it is open.
 */
struct pfw_span {
	uint64_t state[6];
	unsigned char args[144];
};

/*
 * Begin and end a span.  name and category are copied; category NULL is "app".  A span that begins
 * while recording is off is not recorded.  Spans of one thread nest: their lines have args.span_id,
 * and args.parent if they are inside another span.  Another thread may end a span.  For the thread
 * that began it, the span then stays the parent of new spans until an enclosing span ends.  A span
 * costs two clock readings and a record of 64 bytes.  Signal: safe (both), except in a handler that
 * may interrupt a CUDA call while GPU work is recorded: CUPTI gets the span of each launch.
 */
PFW_API int pfw_span_begin(struct pfw_span *span, const char *name, const char *category);
PFW_API int pfw_span_end(struct pfw_span *span);

/*
 * End a span, but record it as a span that began at ts_ns and took dur_ns.  If dur_ns is
 * PFW_INSTANT, record an instant.  This is pfw_event() with arguments.  Signal: as pfw_span_end().
 */
#define PFW_INSTANT UINT64_MAX
PFW_API int pfw_span_end_as(struct pfw_span *span, uint64_t ts_ns, uint64_t dur_ns);

/* End a span without recording it.  Events inside it, and GPU work launched in it, still have its
 * span_id.  Signal: as pfw_span_end(). */
PFW_API int pfw_span_drop(struct pfw_span *span);

/*
 * Add an argument to an open span.  A key that is added twice is written twice.  Arguments that do
 * not fit into struct pfw_span are kept in the heap.  Return 0; -EINVAL if key is NULL; -E2BIG if
 * the span has 12 KiB of arguments: args.args_cut is then the number of those left out.  Signal:
 * unsafe (may allocate).
 */
PFW_API int pfw_span_arg_int(struct pfw_span *span, const char *key, int64_t value);
PFW_API int pfw_span_arg_double(struct pfw_span *span, const char *key, double value);
PFW_API int pfw_span_arg_str(struct pfw_span *span, const char *key, const char *value);

/* Return the span_id of the calling thread's innermost open span, or 0.  Signal: safe. */
PFW_API uint64_t pfw_span_current(void);

/*
 * Make an open span the current one of the calling thread; 0: none.  An event loop uses this when
 * it switches tasks, whose spans do not nest in each other.  Return the span_id that was current.
 * Signal: as pfw_span_begin().
 */
PFW_API uint64_t pfw_span_set_current(uint64_t span_id);

/* Whether spans and events of the calling thread are recorded now: 1 or 0.  Signal: safe. */
PFW_API int pfw_enabled(void);

/*
 * Record a span of the calling thread that began at ts_ns and took dur_ns.  Return 0, or -EINVAL if
 * name is NULL.  Signal: safe.
 */
PFW_API int pfw_event(const char *name, const char *category, uint64_t ts_ns, uint64_t dur_ns);

/* Record an instant (ph "i") at the present time.  Return 0, or -EINVAL if name is NULL.  Signal:
 * safe. */
PFW_API int pfw_instant(const char *name, const char *category);

/* Record a sample of a counter (ph "C", cat COUNTER); its args are {series: value}.  series is cut
 * to 256 bytes.  Return 0, or -EINVAL if name or series is NULL.  Signal: safe. */
PFW_API int pfw_counter(const char *name, const char *series, double value);

/* ---- compute events ---- */

#define PFW_KINDS(X)                \
	X(CPU_OP, "cpu_op")         \
	X(KERNEL, "kernel")         \
	X(MEMCPY, "memcpy")         \
	X(MEMSET, "memset")         \
	X(RUNTIME, "runtime")       \
	X(DRIVER, "driver")         \
	X(SYNC, "sync")             \
	X(ANNOTATION, "annotation") \
	X(STEP, "step")             \
	X(OVERHEAD, "overhead")     \
	X(MEMORY, "memory")         \
	X(PYTHON_FUNCTION, "python_function")

enum pfw_kind {
#define X(name, text) PFW_KIND_##name,
	PFW_KINDS(X)
#undef X
		PFW_KIND_COUNT
};

enum pfw_phase { PFW_PHASE_NONE, PFW_PHASE_WARMUP, PFW_PHASE_ACTIVE };

/* pfw_compute.fields: which of the members hold a value; one bit each, PFW_HAS_x for member x. */
/* clang-format off */
#define PFW_COMPUTE_FIELDS(X)                                                                     \
	X(kind) X(device) X(device_index) X(context) X(stream) X(correlation) X(external_id)      \
	X(span) X(step) X(grid) X(block) X(registers) X(static_smem) X(dynamic_smem) X(local_mem) \
	X(occupancy) X(priority) X(queued) X(channel) X(graph) X(graph_node) X(cbid) X(bytes)     \
	X(copy_kind) X(src_kind) X(dst_kind) X(src_device) X(dst_device) X(gbps)                  \
	X(wait_on_stream) X(wait_on_event) X(cpu_memory) X(device_memory_usage) X(is_remote)      \
	X(input_size) X(input_shapes) X(dtypes) X(strides) X(flops) X(sequence) X(fwd_tid)        \
	X(module) X(python_id) X(parent) X(total_cpu_percent) X(total_device_percent) X(stack)    \
	X(addr) X(total_allocated) X(total_reserved) X(blocks_per_sm)
/* clang-format on */

enum pfw_compute_bit {
#define X(name) PFW_COMPUTE_BIT_##name,
	PFW_COMPUTE_FIELDS(X)
#undef X
		PFW_COMPUTE_BITS
};
#define PFW_HAS(member) (1ull << PFW_COMPUTE_BIT_##member)

/* A compute event, cat PP.  A member whose bit is not in `fields` is neither read nor written;
 * struct_bytes, name, ts_ns, dur_ns, tid and phase have no bits and are always read. */
struct pfw_compute {
	size_t struct_bytes; /* sizeof(struct pfw_compute) */
	uint64_t fields;     /* PFW_HAS(stream) | PFW_HAS(grid) | … */
	const char *name;    /* required: "aten::linear", a kernel's demangled name */
	uint64_t ts_ns;	     /* start, ns since the epoch */
	uint64_t dur_ns;
	uint64_t tid; /* 0: the lane of (device_index, context, stream), or without these the
		       * calling thread */
	enum pfw_phase phase;
	enum pfw_kind kind;
	int32_t device;	      /* torch's DeviceType: 0 CPU, 1 CUDA */
	int32_t device_index; /* -1 on the CPU */
	uint32_t context;
	uint32_t stream;
	uint64_t correlation; /* joins a launch and its kernel */
	uint64_t external_id;
	uint64_t span; /* span_id of the API span that launched it */
	int64_t step;
	uint32_t grid[3];			       /* blocks; x < 2^31, y and z < 2^16 */
	uint32_t block[3];			       /* threads */
	uint32_t registers;			       /* a thread */
	uint64_t static_smem, dynamic_smem, local_mem; /* bytes */
	double occupancy;			       /* 0..1 */
	int32_t priority;
	uint64_t queued; /* ns between queueing and start */
	uint32_t channel;
	uint64_t graph, graph_node;
	uint32_t cbid; /* CUPTI's number of the API function */
	int64_t bytes;
	const char *copy_kind; /* "HtoD" */
	const char *src_kind;  /* "pageable", "pinned", "device", … */
	const char *dst_kind;
	int32_t src_device, dst_device;
	double gbps; /* bytes per ns */
	uint64_t wait_on_stream, wait_on_event;
	int64_t cpu_memory, device_memory_usage; /* bytes, may be negative */
	int64_t is_remote;
	int64_t input_size;	  /* number of input dimensions, as DFTracer's key */
	const char *input_shapes; /* JSON: [[8,16],[16]] */
	const char *dtypes;	  /* JSON: ["float","float"] */
	const char *strides;	  /* JSON */
	uint64_t flops;
	int64_t sequence; /* torch's sequence number: joins forward and backward */
	uint64_t fwd_tid;
	const char *module;
	uint64_t python_id, parent;
	double total_cpu_percent, total_device_percent;
	const char *stack; /* JSON: an array of frames, innermost first */
	uint64_t addr;
	int64_t total_allocated, total_reserved; /* bytes */
	double blocks_per_sm;			 /* blocks of the grid / multiprocessors */
};

/*
 * Record a compute event.  Strings are copied.  A member for JSON whose text is no JSON is written
 * as a string.  Return 0; -EINVAL if event, its name or its struct_bytes is not usable; -E2BIG if
 * its texts have more than 12,000 bytes together: the event counts as lost.  Signal: safe.
 */
PFW_API int pfw_compute_event(const struct pfw_compute *event);

/* ---- the schedule ---- */

/*
 * Which steps to record, as in torch.profiler.schedule().  The first `skip_first` steps are not
 * recorded.  Then come `repeat` cycles (0: without end).  In each cycle `wait` steps are not
 * recorded, `warmup` steps are recorded with phase "warmup" (with discard_warmup: not recorded),
 * and `active` steps are recorded.  skip_first_wait leaves out the wait of the first cycle.  Each
 * number is at most 2^31 - 1, and active is at least 1.
 */
struct pfw_schedule {
	uint32_t skip_first, wait, warmup, active, repeat;
	int skip_first_wait;
	int discard_warmup;
};

/* What happens in a step; the values are those of torch.profiler.ProfilerAction. */
enum pfw_action {
	PFW_ACTION_NONE,
	PFW_ACTION_WARMUP,
	PFW_ACTION_RECORD,
	PFW_ACTION_RECORD_AND_SAVE /* the last active step of a cycle */
};

/* Return what a schedule does in a step, counted from 0; NONE if the schedule is not valid.  The
 * function has no side effect.  Signal: safe. */
PFW_API enum pfw_action pfw_schedule_action(const struct pfw_schedule *schedule, uint64_t step);

/*
 * Set the schedule; NULL: record every step.  Step 0 begins now; if nothing is recorded, with the
 * next pfw_start() (but the preload object loads no recorder before, if DFTRACER_ENABLE is off, and
 * forgets the schedule).  PFW_SCHEDULE does the same when the program starts.  Return 0; -EINVAL if
 * the schedule is not valid, after a message; -EDEADLK if the hook calls it.  Signal: unsafe.
 */
PFW_API int pfw_set_schedule(const struct pfw_schedule *schedule);

/*
 * End a step of the process (a batch, an iteration) and begin the next one.  A recorded step is a
 * compute event "ProfilerStep#N" of kind step; events that begin in it have args.step.  Without a
 * schedule every step is recorded, and step 0 lasts until the first call.  Return 0, or -EDEADLK if
 * the hook calls it.  Signal: unsafe.
 */
PFW_API int pfw_step(void);

/* A finished cycle of the schedule, for the hook. */
struct pfw_segment {
	size_t struct_bytes;
	const char *path;    /* the trace; valid during the call */
	uint64_t cycle;	     /* from 0 */
	uint64_t first_step; /* first active step */
	uint64_t steps;	     /* active steps in it */
	uint64_t step;	     /* the step that begins now */
	uint64_t first_id;   /* ids of its lines in the trace */
	uint64_t last_id;
	uint64_t events; /* lines so far that are not metadata, of the whole trace */
	uint64_t lost;	 /* events lost so far */
};
typedef void pfw_trace_ready(const struct pfw_segment *segment, void *user);

/*
 * Call `hook` after each cycle, when its events are in the trace; NULL: no hook.  The call comes
 * from the pfw_step() that ends the cycle's last active step, in its thread, or from pfw_stop() if
 * that ends the cycle early.  With PFW_SCHEDULE=range it comes from cudaProfilerStop(), and the
 * hook must not call CUDA.  A program that exits without pfw_stop() gets no call for its last
 * cycle.  Return 0, or -EDEADLK if the hook calls it.  Signal: unsafe.
 */
PFW_API int pfw_on_trace_ready(pfw_trace_ready *hook, void *user);

/* ---- PyTorch's operators beside torch.profiler ---- */

enum pfw_profile {
	PFW_PROFILE_ENDS,
	PFW_PROFILE_BEGINS,	       /* in threads for which torch's profilerEnabled() is true */
	PFW_PROFILE_BEGINS_EVERYWHERE, /* in all threads */
	PFW_PROFILE_WRITTEN,
	PFW_PROFILE_ASKS,
	PFW_PROFILE_GPU_SINCE
};

/*
 * For a library that writes the events of torch.profiler to the trace, as pfw.torch does.  Between
 * BEGINS and ENDS, PFW_TORCH_OPS does not record operators that torch.profiler records, so that
 * none is in the trace twice.  ENDS returns the number of these operators.  WRITTEN says that
 * `count` of them are in the trace now; those that are not there at its end count as lost, reason
 * "profile".  ASKS returns 1 if PFW_TORCH_OPS records operators now.  GPU_SINCE returns since when
 * GPU work is recorded beside torch.profiler, in ns since the epoch; 0: it is not recorded now.
 * Otherwise `count` and the result are 0.  Thread: any, one at a time.  Signal: unsafe.
 */
PFW_API uint64_t pfw_torch_profile(enum pfw_profile what, uint64_t count);

/* ---- what happened so far ---- */

struct pfw_stats {
	size_t struct_bytes; /* sizeof(struct pfw_stats), set by the caller */
	uint64_t events;     /* lines in the trace that are not metadata */
	uint64_t lost;	     /* events that are in no trace, for any reason */
	uint64_t waits;	     /* times a thread waited for room */
	uint64_t waited_ns;
	uint64_t trace_bytes; /* length of the trace */
	int enabled;	      /* recording now */
	char path[4096];      /* the trace, or "" while there is none */
};

/* In C++ the function hides the constructor of the structure, as stat() does. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
/* Fill *stats.  The numbers are at most PFW_FLUSH_MS old.  Return 0, or -EINVAL if stats is NULL or
 * its struct_bytes is too small.  Signal: safe. */
PFW_API int pfw_stats(struct pfw_stats *stats);
#pragma GCC diagnostic pop

/* The version of the library, "0.1.0"; NULL if there is no library (PFW_OPTIONAL).  The text lasts
 * as long as the library is loaded.  Signal: safe. */
PFW_API const char *pfw_version(void);

#if !defined(PFW_BUILDING)
static inline int pfw_stats_absent(struct pfw_stats *stats)
{
	stats->events = stats->lost = stats->waits = stats->waited_ns = stats->trace_bytes = 0;
	stats->enabled = 0;
	stats->path[0] = '\0';
	return 0;
}
#endif

#if !defined(PFW_BUILDING) && defined(PFW_OPTIONAL)
/* The library may be absent: each call tests the address of the weak symbol. */
#define pfw_start(...) (pfw_start ? pfw_start(__VA_ARGS__) : 0)
#define pfw_stop() (pfw_stop ? pfw_stop() : 0)
#define pfw_flush() (pfw_flush ? pfw_flush() : 0)
#define pfw_dump(...) (pfw_dump ? pfw_dump(__VA_ARGS__) : 0)
#define pfw_set_rank(...) (pfw_set_rank ? pfw_set_rank(__VA_ARGS__) : 0)
#define pfw_span_begin(...) (pfw_span_begin ? pfw_span_begin(__VA_ARGS__) : 0)
#define pfw_span_end(...) (pfw_span_end ? pfw_span_end(__VA_ARGS__) : 0)
#define pfw_span_end_as(...) (pfw_span_end_as ? pfw_span_end_as(__VA_ARGS__) : 0)
#define pfw_span_drop(...) (pfw_span_drop ? pfw_span_drop(__VA_ARGS__) : 0)
#define pfw_span_set_current(...) (pfw_span_set_current ? pfw_span_set_current(__VA_ARGS__) : 0)
#define pfw_enabled() (pfw_enabled ? pfw_enabled() : 0)
#define pfw_span_arg_int(...) (pfw_span_arg_int ? pfw_span_arg_int(__VA_ARGS__) : 0)
#define pfw_span_arg_double(...) (pfw_span_arg_double ? pfw_span_arg_double(__VA_ARGS__) : 0)
#define pfw_span_arg_str(...) (pfw_span_arg_str ? pfw_span_arg_str(__VA_ARGS__) : 0)
#define pfw_span_current() (pfw_span_current ? pfw_span_current() : 0)
#define pfw_event(...) (pfw_event ? pfw_event(__VA_ARGS__) : 0)
#define pfw_instant(...) (pfw_instant ? pfw_instant(__VA_ARGS__) : 0)
#define pfw_counter(...) (pfw_counter ? pfw_counter(__VA_ARGS__) : 0)
#define pfw_compute_event(...) (pfw_compute_event ? pfw_compute_event(__VA_ARGS__) : 0)
#define pfw_set_schedule(schedule) (pfw_set_schedule ? pfw_set_schedule(schedule) : 0)
#define pfw_step() (pfw_step ? pfw_step() : 0)
#define pfw_on_trace_ready(...) (pfw_on_trace_ready ? pfw_on_trace_ready(__VA_ARGS__) : 0)
#define pfw_schedule_action(...) \
	(pfw_schedule_action ? pfw_schedule_action(__VA_ARGS__) : PFW_ACTION_NONE)
#define pfw_torch_profile(...) (pfw_torch_profile ? pfw_torch_profile(__VA_ARGS__) : 0)
#define pfw_stats(stats) (pfw_stats ? pfw_stats(stats) : pfw_stats_absent(stats))
#define pfw_version() (pfw_version ? pfw_version() : NULL)
#endif

#if !defined(PFW_BUILDING)
static inline void pfw_span_cleanup(struct pfw_span *span)
{
	pfw_span_end(span);
}

static inline struct pfw_span pfw_span_opened(const char *name, const char *category)
{
	struct pfw_span span;

	span.state[0] = 0;
	pfw_span_begin(&span, name, category);
	return span;
}

/* A span of category "app" from here to the end of the enclosing block. */
#define PFW_SPAN(name) PFW_SPAN_CAT(name, NULL)
#define PFW_SPAN_CAT(name, category) PFW_SPAN_AT(name, category, __COUNTER__)
#define PFW_SPAN_AT(name, category, n) PFW_SPAN_VARIABLE(name, category, n)
#define PFW_SPAN_VARIABLE(name, category, n)                                              \
	struct pfw_span pfw_span_##n __attribute__((cleanup(pfw_span_cleanup), unused)) = \
		pfw_span_opened(name, category)
#endif

#ifdef __cplusplus
}
#endif

#endif
