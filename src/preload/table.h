/* preload/table.h - the interface between the preload object and the recorder.
 *
 * Room preload: libpfw_preload.so, which exports libc's names and jumps to their next definition or
 * to the recorder's wrapper.  It is in every traced program and uses only libc, common/calls,
 * common/base/os and the declarations in recorder/wrap/calls.h.  Start with preload.c.
 *
 * The names of libc and of pfw.h are jumps through slots.  A slot leads to the next definition of
 * the name, until the recorder replaces it by a wrapper.  Both objects must be of one build: they
 * compare `abi` as text.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The functions of pfw.h in the order of their slots: X(name, what it does without a recorder). */
#define PFW_API_FUNCTIONS(X)             \
	X(pfw_start, start)              \
	X(pfw_stop, nothing)             \
	X(pfw_flush, nothing)            \
	X(pfw_set_rank, nothing)         \
	X(pfw_span_begin, span_begin)    \
	X(pfw_span_end, nothing)         \
	X(pfw_span_end_as, nothing)      \
	X(pfw_span_drop, nothing)        \
	X(pfw_span_arg_int, nothing)     \
	X(pfw_span_arg_double, nothing)  \
	X(pfw_span_arg_str, nothing)     \
	X(pfw_span_current, nothing)     \
	X(pfw_span_set_current, nothing) \
	X(pfw_enabled, nothing)          \
	X(pfw_event, nothing)            \
	X(pfw_instant, nothing)          \
	X(pfw_counter, nothing)          \
	X(pfw_compute_event, nothing)    \
	X(pfw_schedule_action, nothing)  \
	X(pfw_set_schedule, nothing)     \
	X(pfw_step, nothing)             \
	X(pfw_on_trace_ready, nothing)   \
	X(pfw_torch_profile, nothing)    \
	X(pfw_stats, stats)              \
	X(pfw_version, nothing)          \
	X(pfw_dump, nothing)

enum pfw_api_slot {
#define X(name, absent) PFW_SLOT_##name,
	PFW_API_FUNCTIONS(X)
#undef X
		PFW_API_SLOTS
};

/* What the preload object passes to the recorder. */
struct pfw_preload {
	const char *abi;
	void *const *real; /* the next definition of each call, NULL = none */
	void *_Atomic *const
		*slot; /* slots of the exported names, in the same order; NULL = not exported */
	void *_Atomic *const *api; /* slots of pfw.h's functions, PFW_API_SLOTS */
	_Atomic uint32_t *early;   /* how often each call was made before the constructor */
	uint32_t call_count;
	bool asked; /* by pfw_start(): record even without DFTRACER_ENABLE */
};

/*
 * Exported by libpfw.so.1 for the preload object.  Fills the slots of the API, and if tracing is
 * enabled those of the calls.  Return 0, or -EINVAL if abi differs (nothing is changed).
 * Thread: init.
 */
typedef int pfw_preload_attach_fn(const struct pfw_preload *preload);
__attribute__((visibility("default"))) int pfw_preload_attach(const struct pfw_preload *preload);

/* Exported by the preload object for the recorder: call pfw_preload_attach() with `asked`.  Return
 * whether that succeeded.  Thread: app. */
typedef bool pfw_preload_take_fn(void);
__attribute__((visibility("default"))) bool pfw_preload_take(void);
