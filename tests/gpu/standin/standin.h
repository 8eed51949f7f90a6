/* standin.h - what the stand-in driver, runtime and CUPTI know of each other, and how tests set them.
 *
 * They stand in for NVIDIA's libraries where there is no GPU: real structs through the real flow of
 * callbacks and buffers, compiled against NVIDIA's headers so that a wrong prototype does not build.
 * They also hold callers to the rules that the real ones punish with a crash or a hang: a call of
 * CUPTI before cuInit, in a forked child, or after the driver has gone aborts.
 *
 * The variable STANDIN holds words with blanks between them:
 *   devices=N      GPUs (1); 0: cuInit says there is none     stub        libcuda is CUDA's stub
 *   version=N      of CUPTI: strides and calls follow it      driver=N    CUDA version of the driver
 *   fail=CALL:CODE the call answers so (several times; CALL without "cupti"; ActivityEnable/10 is
 *                  that kind's)
 *   split          device records in other buffers than calls, delivered first
 *   untimed=N      each Nth kernel has no times               skewed=N    starts before its launch
 *   running=N      each Nth kernel has not ended: only a forced flush gives it
 *   deliver_ms=N   what it takes from a buffer's last record until we are handed it
 *   unknown=N      a record of a later kind after each Nth    invalid=N   one that cannot be stepped
 *   names=N        a device, a context and streams have names: known before (1) or behind (2) the
 *                  first kernel
 *   alone          no second subscriber                       clock=N     CUPTI's clock is N ns ahead
 *   kernel_ns=N    what a kernel takes (4000)
 *   slow_ns=N      what a launch takes at least               late_ready  the driver counts as
 *                  initialised only after its injection       context_ms=N  what creating one takes
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What CUPTI is told by the driver; the driver calls it only where somebody has set it. */
struct standin_call {
	int domain; /* CUpti_CallbackDomain */
	uint32_t cbid, correlation, thread, result;
	const char *name;
	uint64_t start, end;
};

struct standin_work {
	int kind; /* CUpti_ActivityKind */
	uint32_t device, context, stream, correlation;
	uint64_t start, end;
	const char *name; /* kernel */
	unsigned grid[3], block[3], dynamic_smem;
	uint32_t graph;
	uint64_t graph_node;
	unsigned copy_kind, src_kind, dst_kind, dst_device;
	uint64_t bytes, address;
	unsigned operation; /* memory: allocation or release; synchronization: its type */
	uint32_t event;
};

struct standin_tracer {
	void (*enter)(const struct standin_call *call);
	void (*work)(const struct standin_work *work);
	void (*leave)(const struct standin_call *call);
	void (*context)(void); /* one was created, in this thread */
};

#define STANDIN_EXPORT __attribute__((visibility("default")))

/* Of the driver. */
STANDIN_EXPORT extern const struct standin_tracer *standin_tracer;
STANDIN_EXPORT extern int standin_initialized; /* cuInit has succeeded, in this very process */
STANDIN_EXPORT extern int standin_gone;	       /* exit handlers have unloaded it */
STANDIN_EXPORT void standin_begin(struct standin_call *call, int domain, uint32_t cbid,
				  const char *name);
STANDIN_EXPORT void standin_finish(struct standin_call *call);
STANDIN_EXPORT void standin_do(const struct standin_call *call, struct standin_work *work);
STANDIN_EXPORT uint64_t standin_now(void);
/* Tells the time instead of CLOCK_REALTIME; NULL = nobody has asked for that. */
STANDIN_EXPORT extern uint64_t (*_Atomic standin_clock)(void);
/* The number behind "KEY=" in STANDIN, 1 for a bare KEY, else `otherwise`. */
STANDIN_EXPORT long standin_knob(const char *key, long otherwise);
