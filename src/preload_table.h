/* preload_table.h - what the preload object and the recorder tell each other, once.
 *
 * The preload object (preload.c) exports libc's names and pfw.h's as jumps through slots.  At first
 * every slot leads to the next definition of the name; the recorder, when it is found and wanted,
 * gives its wrappers for them.  Both come from one build: `abi` is compared as text.
 */
#ifndef PFW_PRELOAD_TABLE_H
#define PFW_PRELOAD_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The functions of pfw.h, in the order of their slots. */
#define PFW_API_FUNCTIONS(X)    \
	X(pfw_start)            \
	X(pfw_stop)             \
	X(pfw_flush)            \
	X(pfw_set_rank)         \
	X(pfw_span_begin)       \
	X(pfw_span_end)         \
	X(pfw_span_end_as)      \
	X(pfw_span_drop)        \
	X(pfw_span_arg_int)     \
	X(pfw_span_arg_double)  \
	X(pfw_span_arg_str)     \
	X(pfw_span_current)     \
	X(pfw_span_set_current) \
	X(pfw_enabled)          \
	X(pfw_event)            \
	X(pfw_instant)          \
	X(pfw_counter)          \
	X(pfw_compute_event)    \
	X(pfw_schedule_action)  \
	X(pfw_set_schedule)     \
	X(pfw_step)             \
	X(pfw_on_trace_ready)   \
	X(pfw_torch_profile)    \
	X(pfw_stats)            \
	X(pfw_version)

enum pfw_api_slot {
#define X(name) PFW_SLOT_##name,
	PFW_API_FUNCTIONS(X)
#undef X
		PFW_API_SLOTS
};

/* What the preload object hands over. */
struct pfw_preload {
	const char *abi;
	void *const *real;	    /* the next definition of each call, NULL = none */
	void *_Atomic *const *slot; /* what the exported names jump through, in the same order */
	void *_Atomic *const *api;  /* the same for pfw.h's functions, PFW_API_SLOTS of them */
	uint32_t call_count;
	bool asked; /* by pfw_start(): record even if DFTRACER_ENABLE is not set */
};

/*
 * Exported by libpfw.so.1 for the preload object.  The API's slots are filled in any case; the
 * calls' slots when tracing is enabled.  0; -EINVAL where abi differs (nothing is touched).
 * Thread: init.
 */
typedef int pfw_preload_attach_fn(const struct pfw_preload *preload);
__attribute__((visibility("default"))) int pfw_preload_attach(const struct pfw_preload *preload);

/* Exported by the preload object for the recorder: hand over (pfw_preload_attach, asked), if that has
 * not been done.  Whether it could.  Thread: app. */
typedef bool pfw_preload_take_fn(void);
__attribute__((visibility("default"))) bool pfw_preload_take(void);

#endif
