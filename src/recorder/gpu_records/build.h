/* recorder/gpu_records/build.h - puts together a PP record from the values of one CUPTI record. */
#pragma once

#include <pfw/pfw.h>
#include <string.h>

#include "common/format/record.h"
#include "recorder/gpu_records/buffers.h"

#define PFW_BUILD_CUDA 1 /* torch's DeviceType */
#define PFW_BUILD_TEXTS 3u

/* The record under construction.  There is only one at a time.  Values are added in the order of
 * their bits.  Thread of all functions: drain. */
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

/* 0 means that there is none: no span, no correlation. */
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

static inline void pfw_build_f64(struct pfw_build *build, enum pfw_pp_bit bit, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	pfw_build_put(build, bit, bits);
}

/* Begin a record of this kind; `name` is a string of the spool. */
struct pfw_build pfw_build_begin(enum pfw_kind kind, uint32_t name);

/* Make the record name a device, context or stream instead of an event. */
void pfw_build_lane_name(struct pfw_build *build, const struct pfw_cupti_name *name);

/* Set the thread of the event. */
void pfw_build_thread(uint32_t thread);

/* Set where on a GPU the event ran and which call made it.  Return what is known of that launch. */
struct pfw_cupti_launch pfw_build_place(struct pfw_build *build, const struct pfw_cupti_place *at,
					uint32_t correlation);

/* Make the event a call of the program: on its thread, on no GPU. */
void pfw_build_host(struct pfw_build *build, uint32_t thread, uint32_t correlation);

/*
 * Set the times.  Both 0: CUPTI had no room for them.  Only the end 0: the event had not ended when
 * the program did.  Either makes an instant, at the launch if that is known, never a span of 1970.
 */
void pfw_build_times(uint64_t start, uint64_t end, const struct pfw_cupti_launch *launch);

/* Make the event an instant at `ns`; 0 = now. */
void pfw_build_instant(uint64_t ns);

/* The finished record, *slots long; valid until the next pfw_build_begin(). */
const struct pfw_record *pfw_build_finish(const struct pfw_build *build, unsigned *slots);
