/* recorder/gpu_records/build.c - puts together a PP record: see build.h. */
#define PFW_BUILDING
#include "recorder/gpu_records/build.h"

#include "common/base/os.h"
#include "recorder/gpu_records/decode.h"

#define VALUES 32u

struct pfw_cupti_decoding pfw_cupti_decoding;

/* Static, since only one record is built at a time.  The head's last value and the tail are
 * contiguous words. */
static struct {
	_Alignas(64) struct pfw_record record;
	uint64_t tail[VALUES + PFW_BUILD_TEXTS * 16 / 3];
} made;

struct pfw_build pfw_build_begin(enum pfw_kind kind, uint32_t name)
{
	struct pfw_build build = { .at = &made.record.value[PFW_PP_HEAD] };

	made.record.template = pfw_cupti_decoding.template;
	made.record.flags = PFW_RECORD_EPOCH_NS;
	made.record.file = 0;
	made.record.error = 0;
	made.record.value[0] = name;
	made.record.value[2] = 0;
	pfw_build_put(&build, PFW_PP_BIT_kind, kind);
	return build;
}

void pfw_build_lane_name(struct pfw_build *build, const struct pfw_cupti_name *name)
{
	made.record.flags |= PFW_RECORD_LANE_NAME | PFW_RECORD_INSTANT;
	made.record.t0 = pfw_cupti_decoding.now_ns;
	pfw_build_put(build, PFW_PP_BIT_device_index, name->at.device);
	if (name->object_kind >= PFW_CUPTI_OBJECT_CONTEXT)
		pfw_build_put(build, PFW_PP_BIT_context, name->at.context);
	if (name->object_kind == PFW_CUPTI_OBJECT_STREAM)
		pfw_build_put(build, PFW_PP_BIT_stream, name->at.stream);
}

void pfw_build_thread(uint32_t thread)
{
	made.record.value[2] = thread;
}

struct pfw_cupti_launch pfw_build_place(struct pfw_build *build, const struct pfw_cupti_place *at,
					uint32_t correlation)
{
	struct pfw_cupti_launch launch = pfw_cupti_launch_of(correlation);

	pfw_build_put(build, PFW_PP_BIT_device, PFW_BUILD_CUDA);
	pfw_build_put(build, PFW_PP_BIT_device_index, at->device);
	pfw_build_put(build, PFW_PP_BIT_context, at->context);
	pfw_build_put(build, PFW_PP_BIT_stream, at->stream);
	pfw_build_put(build, PFW_PP_BIT_correlation, correlation);
	pfw_build_some(build, PFW_PP_BIT_span, launch.span);
	return launch;
}

void pfw_build_host(struct pfw_build *build, uint32_t thread, uint32_t correlation)
{
	struct pfw_cupti_launch launch = pfw_cupti_launch_of(correlation);

	pfw_build_thread(thread);
	pfw_build_put(build, PFW_PP_BIT_device, 0);
	pfw_build_put(build, PFW_PP_BIT_device_index, (uint64_t)-1);
	pfw_build_some(build, PFW_PP_BIT_correlation, correlation);
	pfw_build_some(build, PFW_PP_BIT_span, launch.span);
}

static uint64_t epoch_ns(uint64_t ns)
{
	return ns + (uint64_t)pfw_cupti_decoding.clock_offset_ns;
}

static void count(_Atomic uint64_t *figure)
{
	atomic_fetch_add_explicit(figure, 1, memory_order_relaxed);
}

void pfw_build_instant(uint64_t ns)
{
	made.record.flags |= PFW_RECORD_INSTANT;
	made.record.t0 = ns ? epoch_ns(ns) : pfw_cupti_decoding.now_ns;
	made.record.dur = 0;
}

void pfw_build_times(uint64_t start, uint64_t end, const struct pfw_cupti_launch *launch)
{
	uint64_t launched = launch ? launch->start_ns : 0;

	if (start && end >= start) {
		made.record.t0 = epoch_ns(start);
		made.record.dur = end - start;
		if (launched > start)
			count(&pfw_cupti_figures.skewed);
		return;
	}
	count(start ? &pfw_cupti_figures.unfinished : &pfw_cupti_figures.untimed);
	pfw_build_instant(start ? start : launched);
}

const struct pfw_record *pfw_build_finish(const struct pfw_build *build, unsigned *slots)
{
	char *out = (char *)build->at;
	size_t bytes;

	for (unsigned i = 0; i < build->texts; i++)
		out = stpcpy(out, build->text[i]);
	bytes = (size_t)(out - (char *)&made.record);
	*slots = (unsigned)((bytes + PFW_SLOT_BYTES - 1) / PFW_SLOT_BYTES);
	made.record.slots = (uint8_t)*slots;
	made.record.value[1] = build->mask;
	return &made.record;
}
