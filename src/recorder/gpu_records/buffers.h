/* recorder/gpu_records/buffers.h - the buffers that CUPTI fills, and the first reading of a full
 * one.
 *
 * Room recorder/gpu_records: CUPTI's library, and CUPTI's records as records of ours.  It may use
 * the rooms of src/common and recorder/{guest,spool,probe}; no call of CUPTI that begins or ends a
 * collection is here (recorder/gpu has them).  Start with source.c, then decode.c.
 *
 * CUPTI asks for a buffer inside the program's own calls.  It gives the buffer back on a thread of
 * its own or inside a flush.  Both may happen while CUPTI holds locks that a caller of CUPTI waits
 * for.  So no function here takes a lock, and each wait for a buffer has a limit.
 *
 * A finished buffer is read twice.  The first reading happens at once and keeps what does not last:
 * the names of kernels are freed with their module, the library is unloaded with the program, and
 * the span of a launch may be in a later buffer than its kernel.  The second reading is the
 * writer's: it makes lines of the records and calls nothing of CUPTI.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/gpu_records/abi.h"

#define PFW_CUPTI_BUFFER_BYTES (1u << 20)
#define PFW_CUPTI_BUFFERS 16u

/* Counts of irregularities; each is a key of the trace's `gpu` line. */
/* clang-format off */
#define PFW_CUPTI_FIGURES(X)                                                                      \
	X(waited)     /* launches that waited for a buffer */                                     \
	X(starved)    /* requests for a buffer that failed: what CUPTI drops is counted as lost */ \
	X(discarded)  /* records in a buffer of last resort */                                    \
	X(unknown)    /* records of an unknown kind */                                            \
	X(unreadable) /* buffers whose rest the library itself cannot step over */                \
	X(untimed)    /* records without a time */                                                \
	X(unfinished) /* kernels without an end */                                                \
	X(late)       /* launches read after their kernel, which so has no span */                \
	X(skewed)     /* kernels that began before their launch */                                \
	X(unnamed)    /* kernels whose name found no room */                                      \
	X(yielded)    /* times that another client of CUPTI took the records */                   \
	X(yielded_us) /* how long the other client had them */
/* clang-format on */

struct pfw_cupti_figures {
#define X(name) _Atomic uint64_t name;
	PFW_CUPTI_FIGURES(X)
#undef X
};
extern struct pfw_cupti_figures pfw_cupti_figures;

/* Map the memory of the buffers. 0 or -ENOMEM.  Thread: any, one at a time. */
int pfw_cupti_buffers_init(bool drop);

/* Forget all buffers without touching their memory.  Fork: for a child. */
void pfw_cupti_buffers_forget(void);

/* CUPTI's callbacks.  The second returns false if the buffer is not ours.  Thread: cupti, and any
 * that flushes. */
void pfw_cupti_requested_buffer(uint8_t **buffer, size_t *bytes, size_t *max_records);
bool pfw_cupti_completed_buffer(uint8_t *buffer, size_t valid_bytes);

/* The number of finished buffers that wait for the writer; the order number of the next finished
 * one. */
unsigned pfw_cupti_buffers_waiting(void);
uint64_t pfw_cupti_buffers_order(void);

/* CLOCK_REALTIME time at which CUPTI got the earliest of the buffers that it has; UINT64_MAX = it
 * has none.  All earlier records are in finished buffers.  Thread: any. */
uint64_t pfw_cupti_buffers_held_since(void);

/* A futex that changes with each finished buffer. */
extern _Atomic uint32_t pfw_cupti_bell;

/*
 * The oldest finished buffer with an order number below `upto`, or NULL.  If CUPTI is short of
 * buffers, it may be another finished one.  The buffer has at least one record and is the caller's
 * until pfw_cupti_buffer_free().  Thread: drain.
 */
uint8_t *pfw_cupti_buffer_oldest(uint64_t upto);
void pfw_cupti_buffer_free(uint8_t *buffer);

/* ---- results of the first reading ---- */

/* The API call with this correlation. */
struct pfw_cupti_launch {
	uint64_t start_ns; /* 0 = not seen */
	uint64_t span;	   /* 0 = no span */
	uint32_t thread;   /* the thread that made the call; 0 = not seen */
};
struct pfw_cupti_launch pfw_cupti_launch_of(uint32_t correlation);

/* The first reading writes into the record itself: its kind shares a word with the distance to the
 * next record, and string references replace a kernel's name and a call's process. */
static inline uint32_t pfw_cupti_noted_kind(const void *record)
{
	return *(const uint32_t *)record & 0xffff;
}

static inline const void *pfw_cupti_noted_next(const void *record)
{
	uint32_t stride = *(const uint32_t *)record >> 16;

	return stride ? (const char *)record + stride : NULL;
}

static inline uint32_t pfw_cupti_noted_name(const struct pfw_cupti_kernel *kernel)
{
	return (uint32_t)(uintptr_t)kernel->name;
}

static inline uint32_t pfw_cupti_noted_call(const struct pfw_cupti_api *api)
{
	return api->process;
}
