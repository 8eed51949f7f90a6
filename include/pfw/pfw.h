/*
 * pfw.h - the C API of pfw: spans, compute events and counters in the trace of this process.
 *
 * Include it, build, and run: with `pfw run`, or with libpfw_preload.so in LD_PRELOAD, or linked
 * with -lpfw.  A program links with -lpfw.  One that must also run where libpfw is not, or that only
 * `pfw run` shall trace, defines PFW_OPTIONAL before this line: then every function is a weak symbol,
 * nothing is linked, and each call below is one test of an address.  (A program built with -fno-pic
 * -no-pie cannot bind weakly: it must link.)
 *
 * All functions return 0 or a negative errno value, never exit, abort or print more than one line
 * (to standard error, when tracing cannot do what was asked), keep errno, and may be called from
 * any thread at any time, also before main and after exit has begun.  Disabled, they do nothing and
 * return 0.  Times are nanoseconds since the epoch (CLOCK_REALTIME); names and keys are UTF-8, at
 * most PFW_NAME_BYTES; anything else is written with U+FFFD in place of bad bytes.
 * "Signal: safe" marks what a signal handler may call.
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

/* What pfw_start() may be told; zero means "as the variable says". */
struct pfw_options {
	size_t bytes;	      /* sizeof(struct pfw_options): lets later versions add members */
	const char *log_file; /* base name of the trace, as DFTRACER_LOG_FILE */
	const char *data_dir; /* as DFTRACER_DATA_DIR */
	int compression;      /* 0: as the variable says; 1: on; -1: off */
	int whole_us;	      /* 1: whole microseconds, as DFTRACER_TIME_METRIC=US */
};

/*
 * Start recording, unless DFTRACER_ENABLE is 0.  options may be NULL.  I/O calls too: without the
 * preload object those of all loaded objects, and of what they dlopen, are redirected from now on
 * (not addresses that the program has taken before, and not programs that it runs).  When a trace
 * has begun already under another name, it is renamed; one that `pfw run -o` has named keeps its
 * name.  Return 0; -EINVAL for a bad option (said on standard error); -EALREADY is never returned:
 * starting twice is harmless.  Signal: unsafe.
 */
PFW_API int pfw_start(const struct pfw_options *options);

/* Stop recording: what was recorded is written and the trace gets its end.  pfw_start() continues
 * in the same file, which then gets another end.  What was redirected is put back.
 * Signal: unsafe. */
PFW_API int pfw_stop(void);

/* Write everything recorded so far by any thread to the file.  Return 0, or -ETIMEDOUT after 10 s,
 * or the error that writing had.  Signal: unsafe. */
PFW_API int pfw_flush(void);

/*
 * With PFW_KEEP, write the events that are kept to a trace of their own, and wait until that is
 * done; its line `dump` has `why`, cut to 199 bytes (NULL: "pfw_dump()").  Without PFW_KEEP nothing
 * is done, as every event is in the trace.  Return 0, or -ETIMEDOUT after 60 s, or the error that
 * writing had.  Signal: unsafe.
 */
PFW_API int pfw_dump(const char *why);

/*
 * Say which rank of how many this process is, when the environment could not.  The file is renamed
 * to carry it.  0 <= rank < world_size; -EINVAL otherwise.  Signal: unsafe.
 */
PFW_API int pfw_set_rank(int rank, int world_size);

/* ---- spans ---- */

/*
 * One span in progress, on the caller's stack or in its object.  Opaque: nobody but these functions
 * reads it.  Not copyable while open.
 */
struct pfw_span {
	uint64_t state[6];
	unsigned char args[144];
};

/*
 * Begin and end a span.  category may be NULL ("app").  Begun while disabled, a span stays a no-op.
 * Spans of one thread nest: the line carries args.span_id and, inside another, args.parent.  A span
 * may be ended by another thread than began it; to the thread that began it, it stays the parent of
 * new spans until that thread ends one around it.  The cost is two clock readings and a 64-byte
 * record.  name and category are copied.  Signal: safe (both), unless GPU work is recorded and
 * the handler may interrupt a call of CUDA: CUPTI is told which span a launch is made in.
 */
PFW_API int pfw_span_begin(struct pfw_span *span, const char *name, const char *category);
PFW_API int pfw_span_end(struct pfw_span *span);

/*
 * End a span as one that began at ts_ns and took dur_ns; PFW_INSTANT in place of dur_ns: as a
 * moment.  For what is over when it is told, and has arguments.  Signal: as pfw_span_end().
 */
#define PFW_INSTANT UINT64_MAX
PFW_API int pfw_span_end_as(struct pfw_span *span, uint64_t ts_ns, uint64_t dur_ns);

/* End a span without a line; what lies within it, or was launched in it, still names it.  Signal:
 * as pfw_span_end(). */
PFW_API int pfw_span_drop(struct pfw_span *span);

/*
 * Give an open span an argument; a key given twice appears twice.  Arguments that do not fit into
 * the span itself go to the heap, at most 12 KiB a span: then -E2BIG, and the line has
 * args.args_cut, the number left out.  Return -EINVAL where key is NULL.
 * Signal: unsafe (may allocate).
 */
PFW_API int pfw_span_arg_int(struct pfw_span *span, const char *key, int64_t value);
PFW_API int pfw_span_arg_double(struct pfw_span *span, const char *key, double value);
PFW_API int pfw_span_arg_str(struct pfw_span *span, const char *key, const char *value);

/* The span_id of the innermost open span of the calling thread, or 0.  Signal: safe. */
PFW_API uint64_t pfw_span_current(void);

/*
 * Say that the calling thread goes on inside the open span of that span_id, 0: inside none.  For
 * who runs several tasks in one thread, whose spans do not nest in each other.  Return what
 * pfw_span_current() was.  Signal: as pfw_span_begin().
 */
PFW_API uint64_t pfw_span_set_current(uint64_t span_id);

/* Whether spans and events of the calling thread are recorded now: 1 or 0.  Signal: safe. */
PFW_API int pfw_enabled(void);

/*
 * A finished span: it began at ts_ns and took dur_ns.  Written with the calling thread's tid.
 * Return 0, or -EINVAL where name is NULL.  Signal: safe.
 */
PFW_API int pfw_event(const char *name, const char *category, uint64_t ts_ns, uint64_t dur_ns);

/* A moment without duration (ph "i"), now.  Signal: safe. */
PFW_API int pfw_instant(const char *name, const char *category);

/* One sample of a counter (ph "C", cat COUNTER): args is {series: value}.  Signal: safe. */
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

/* A compute event, cat PP.  Members without their bit in `fields` are not read and not written. */
struct pfw_compute {
	size_t struct_bytes; /* sizeof(struct pfw_compute) */
	uint64_t fields;     /* PFW_HAS(stream) | PFW_HAS(grid) | … */
	const char *name;    /* required: "aten::linear", a kernel's demangled name */
	uint64_t ts_ns;	     /* start, ns since the epoch */
	uint64_t dur_ns;
	uint64_t tid; /* 0: the lane of (device_index, context, stream) where those are
				 * there, else the calling thread */
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
	double gbps;
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
	double blocks_per_sm;			 /* the grid by the device's multiprocessors */
};

/*
 * Write a compute event.  Return 0; -EINVAL where event, its name or struct_bytes is not usable;
 * -E2BIG where its texts together are more than 12,000 bytes (counted as lost).  Strings are copied;
 * text that is not JSON is written as a string.  Signal: safe.
 */
PFW_API int pfw_compute_event(const struct pfw_compute *event);

/* ---- the schedule ---- */

/*
 * Which steps to record: torch.profiler.schedule()'s arguments and meaning.  Of the steps from
 * `skip_first` on, `wait` are not recorded, `warmup` are marked phase "warmup" (or, with
 * discard_warmup, not recorded), `active` are recorded, and so on `repeat` times, 0 = for ever.
 * skip_first_wait leaves out the first cycle's wait.  Each figure is at most 2^31 - 1; active > 0.
 */
struct pfw_schedule {
	uint32_t skip_first, wait, warmup, active, repeat;
	int skip_first_wait;
	int discard_warmup;
};

/* What is done in a step; torch.profiler.ProfilerAction's values. */
enum pfw_action {
	PFW_ACTION_NONE,
	PFW_ACTION_WARMUP,
	PFW_ACTION_RECORD,
	PFW_ACTION_RECORD_AND_SAVE, /* the last active step of a cycle */
};

/* What a schedule does in a step, counted from 0; NONE where the schedule is not valid.  A pure
 * function.  Signal: safe. */
PFW_API enum pfw_action pfw_schedule_action(const struct pfw_schedule *schedule, uint64_t step);

/*
 * Put a schedule in force; NULL: record every step.  Step 0 begins now.  PFW_SCHEDULE does the same
 * when the program starts.  Return 0; -EINVAL where it is not valid (said on standard error);
 * -EDEADLK from inside the hook.  Signal: unsafe.
 */
PFW_API int pfw_set_schedule(const struct pfw_schedule *schedule);

/*
 * A step of the program (a batch, an iteration) has ended and the next one begins.  A recorded step
 * is a compute event "ProfilerStep#N" of kind step; what begins in it carries args.step.  Without a
 * schedule every step is recorded, and step 0 is what happened before the first call.  Any thread
 * may call it; steps are the process's.  Return 0; -EDEADLK from inside the hook.  Signal: unsafe.
 */
PFW_API int pfw_step(void);

/* A finished cycle of the schedule, as the hook is told. */
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
 * Have `hook` called each time that a cycle has been written to the trace: inside the pfw_step()
 * behind the cycle's last active step, in its thread, or inside pfw_stop() for a cycle that is cut
 * short; and with PFW_SCHEDULE=range inside each cudaProfilerStop() that ends one, where the hook
 * must not call CUDA.  NULL: no hook.  Not called when the program exits without pfw_stop().
 * Return 0; -EDEADLK from inside the hook.  Signal: unsafe.
 */
PFW_API int pfw_on_trace_ready(pfw_trace_ready *hook, void *user);

/* ---- PyTorch's operators beside torch.profiler ---- */

enum pfw_profile {
	PFW_PROFILE_ENDS,
	PFW_PROFILE_BEGINS,	       /* in threads that torch's profilerEnabled() tells of */
	PFW_PROFILE_BEGINS_EVERYWHERE, /* in all threads */
	PFW_PROFILE_WRITTEN,
	PFW_PROFILE_ASKS,
	PFW_PROFILE_GPU_SINCE
};

/*
 * For who writes what torch.profiler has recorded (pfw.torch does).  From BEGINS to ENDS, PFW_TORCH_OPS
 * leaves operators that torch.profiler sees to it, so that none is in the trace twice.  ENDS returns
 * how many those were, WRITTEN says that `count` of such are in the trace now, and ASKS returns 1
 * where PFW_TORCH_OPS records operators now; otherwise `count` is 0 and so is the result.  What the
 * trace ends without is lost, reason "profile".  GPU_SINCE returns the time, in ns since the epoch,
 * from which on GPU work is recorded beside torch.profiler; 0: it is not, or not meanwhile.
 * Thread: any, one at a time.  Signal: unsafe.
 */
PFW_API uint64_t pfw_torch_profile(enum pfw_profile what, uint64_t count);

/* ---- what happened so far ---- */

struct pfw_stats {
	size_t struct_bytes; /* sizeof(struct pfw_stats), set by the caller */
	uint64_t events;     /* lines in the trace that are not metadata */
	uint64_t lost;	     /* events that could not be kept, all reasons */
	uint64_t waits;	     /* times a thread waited for room */
	uint64_t waited_ns;
	uint64_t trace_bytes; /* length of the trace */
	int enabled;	      /* recording now */
	char path[4096];      /* the trace, or "" while there is none */
};

/* Fill *stats; figures lag the threads by at most PFW_FLUSH_MS.  Return 0 or -EINVAL. */
PFW_API int pfw_stats(struct pfw_stats *stats);

/* The version of the library that answers, "0.1.0"; NULL where there is none. */
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
/* Absent library: each call tests the weak symbol's address. */
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
