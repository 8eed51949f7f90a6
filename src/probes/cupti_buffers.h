/* cupti_buffers.h - the buffers that CUPTI fills, and what is noted as soon as one is full.
 *
 * CUPTI asks for a buffer inside the program's own calls and gives it back on a thread of its own or
 * inside a flush.  Both may happen while it holds locks that a caller of CUPTI waits for: so nothing
 * here takes a lock, and a wait for a buffer has an end.  A finished buffer is read twice.  At once, for
 * what does not last: names of kernels die with their module, the library with the program, and the
 * span of a launch may come in a later buffer than its kernel.  Then by the writer, which makes lines
 * of it and asks CUPTI for nothing.
 */
#ifndef PFW_CUPTI_BUFFERS_H
#define PFW_CUPTI_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti_abi.h"

#define PFW_CUPTI_BUFFER_BYTES (1u << 20)
#define PFW_CUPTI_BUFFERS 16u

/* What did not go as it should; each is a key of the trace's `gpu` line. */
/* clang-format off */
#define PFW_CUPTI_FIGURES(X)                                                                      \
	X(waited)     /* launches that waited for a buffer */                                     \
	X(starved)    /* buffers that were not to be had: what CUPTI drops is counted as lost */  \
	X(discarded)  /* records in the buffer of last resort */                                  \
	X(unknown)    /* records of a kind that we do not know */                                 \
	X(unreadable) /* rests of buffers, behind what the library itself cannot step over */     \
	X(untimed)    /* records without a time */                                                \
	X(unfinished) /* kernels that had not ended */                                            \
	X(late)       /* launches that were seen after their kernel, which has no span */         \
	X(skewed)     /* kernels that began before their launch */                                \
	X(unnamed)    /* kernels whose name there was no room for */                              \
	X(yielded)    /* times that another client of CUPTI had the records */                    \
	X(yielded_us) /* and for how long */
/* clang-format on */

struct pfw_cupti_figures {
#define X(name) _Atomic uint64_t name;
	PFW_CUPTI_FIGURES(X)
#undef X
};
extern struct pfw_cupti_figures pfw_cupti_figures;

/* Prepare memory for the buffers; 0 or -ENOMEM.  Thread: any, one at a time. */
int pfw_cupti_buffers_init(bool drop);

/* Forget everything without touching it: a forked child's. */
void pfw_cupti_buffers_forget(void);

/* CUPTI's callbacks; the second is false where the buffer is not one of ours.  Thread: cupti, and any
 * that flushes. */
void pfw_cupti_requested_buffer(uint8_t **buffer, size_t *bytes, size_t *max_records);
bool pfw_cupti_completed_buffer(uint8_t *buffer, size_t valid_bytes);

/* How many finished buffers wait for the writer; the order number that the next one gets. */
unsigned pfw_cupti_buffers_waiting(void);
uint64_t pfw_cupti_buffers_order(void);

/* Rung with each finished buffer: a futex to wait on. */
extern _Atomic uint32_t pfw_cupti_bell;

/* The oldest finished buffer with an order number below `upto`, or NULL; where CUPTI is short of
 * buffers, also another.  It stays the caller's until pfw_cupti_buffer_free().  There is a record in
 * it.  Thread: drain. */
uint8_t *pfw_cupti_buffer_oldest(uint64_t upto);
void pfw_cupti_buffer_free(uint8_t *buffer);

/* ---- what was noted ---- */

/* The API call with this correlation. */
struct pfw_cupti_launch {
	uint64_t start_ns; /* 0 = not seen */
	uint64_t span;	   /* 0 = none */
	uint32_t thread;   /* that made the call; 0 = not seen */
};
struct pfw_cupti_launch pfw_cupti_launch_of(uint32_t correlation);

/* What the first reading wrote into the record itself: its kind shares a word with the way to the
 * record behind it, references stand in place of a kernel's name and of a call's process. */
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

#endif
