/* cupti_build.h - a PP record being put together from one of CUPTI's. */
#ifndef PFW_CUPTI_BUILD_H
#define PFW_CUPTI_BUILD_H

#include <pfw/pfw.h>
#include <string.h>

#include "../record.h"
#include "cupti_buffers.h"

#define PFW_BUILD_CUDA 1 /* torch's DeviceType */
#define PFW_BUILD_TEXTS 3u

/* The record under construction.  Values are put in the order of their bits.  There is one at a time.
 * Thread of all: drain. */
struct pfw_build {
	uint64_t mask;
	uint64_t *at;
	const char *text[PFW_BUILD_TEXTS];
	unsigned texts;
};

static inline void pfw_build_put(struct pfw_build *build, enum pfw_pp_bit bit, uint64_t value)
{
	build->mask |= 1ull << bit;
	*build->at++ = value;
}

/* What is 0 is left out: most kernels use no graph, no local memory. */
static inline void pfw_build_some(struct pfw_build *build, enum pfw_pp_bit bit, uint64_t value)
{
	if (value)
		pfw_build_put(build, bit, value);
}

static inline void pfw_build_text(struct pfw_build *build, enum pfw_pp_bit bit, const char *text)
{
	pfw_build_put(build, bit, strlen(text));
	build->text[build->texts++] = text;
}

/* The same: 0 is left out. */
static inline void pfw_build_f64(struct pfw_build *build, enum pfw_pp_bit bit, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	pfw_build_some(build, bit, bits);
}

/* Begin one of this kind; `name` is a string of the spool. */
struct pfw_build pfw_build_begin(enum pfw_kind kind, uint32_t name);

/* It is no event, but names this device, context or stream. */
void pfw_build_lane_name(struct pfw_build *build, const struct pfw_cupti_name *name);

/* It is of this thread. */
void pfw_build_thread(uint32_t thread);

/* Where on a GPU it was, and what made it.  Gives what is known of its launch. */
struct pfw_cupti_launch pfw_build_place(struct pfw_build *build, const struct pfw_cupti_place *at,
					uint32_t correlation);

/* A call of the program's: on its thread, on no GPU. */
void pfw_build_host(struct pfw_build *build, uint32_t thread, uint32_t correlation);

/*
 * When it was.  Both 0: CUPTI had no room to note the time.  Only the end: it had not come when the
 * program ended.  Either is an instant, at its launch where that is known, never a span of 1970.
 */
void pfw_build_times(uint64_t start, uint64_t end, const struct pfw_cupti_launch *launch);

/* It has no length.  0: now. */
void pfw_build_instant(uint64_t ns);

/* Hand it over, *slots long; good until the next pfw_build_begin(). */
const struct pfw_record *pfw_build_finish(const struct pfw_build *build, unsigned *slots);

#endif
