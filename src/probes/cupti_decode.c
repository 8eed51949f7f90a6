/* cupti_decode.c - one of CUPTI's records to one of ours. */
#define PFW_BUILDING
#include "cupti_decode.h"

#include <pfw/pfw.h>
#include <string.h>

#include "../os.h"
#include "../strings.h"
#include "../text.h"
#include "cupti_buffers.h"
#include "cupti_lib.h"
#include "cupti_occupancy.h"

struct pfw_cupti_decoding pfw_cupti_decoding;

#define TORCH_CUDA 1 /* torch's DeviceType */
#define NO_STREAM 0xffffffffu

/* ---- putting a record together ---- */

#define TEXTS 3u
#define VALUES 32u

/* One at a time, so it may be static: the head's last value and the tail are one run of words. */
static struct {
	_Alignas(64) struct pfw_record record;
	uint64_t tail[VALUES + TEXTS * 16 / 3];
} made;

/* The record under construction.  Values are put in the order of their bits. */
struct build {
	uint64_t mask;
	uint64_t *at;
	const char *text[TEXTS];
	unsigned texts;
};

static void put(struct build *build, enum pfw_pp_bit bit, uint64_t value)
{
	build->mask |= 1ull << bit;
	*build->at++ = value;
}

/* What is 0 is left out: most kernels use no graph, no local memory. */
static void put_some(struct build *build, enum pfw_pp_bit bit, uint64_t value)
{
	if (value)
		put(build, bit, value);
}

static void put_text(struct build *build, enum pfw_pp_bit bit, const char *text)
{
	put(build, bit, strlen(text));
	build->text[build->texts++] = text;
}

static void put_f64(struct build *build, enum pfw_pp_bit bit, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	put(build, bit, bits);
}

static uint64_t dim3(const int32_t dim[3])
{
	return ((uint64_t)dim[0] & 0x7fffffff) | ((uint64_t)dim[1] & 0xffff) << 31 |
	       ((uint64_t)dim[2] & 0xffff) << 47;
}

static struct build begin(enum pfw_kind kind, uint32_t name)
{
	struct build build = { .at = &made.record.value[PFW_PP_HEAD] };

	made.record.template = pfw_cupti_decoding.template;
	made.record.flags = PFW_RECORD_EPOCH_NS;
	made.record.file = 0;
	made.record.error = 0;
	made.record.value[0] = name;
	made.record.value[2] = 0;
	put(&build, PFW_PP_BIT_kind, kind);
	return build;
}

/* Where on a GPU it was, and what made it.  Gives what is known of its launch. */
static struct pfw_cupti_launch put_place(struct build *build, const struct pfw_cupti_place *at,
					 uint32_t correlation)
{
	struct pfw_cupti_launch launch = pfw_cupti_launch_of(correlation);

	put(build, PFW_PP_BIT_device, TORCH_CUDA);
	put(build, PFW_PP_BIT_device_index, at->device);
	put(build, PFW_PP_BIT_context, at->context);
	put(build, PFW_PP_BIT_stream, at->stream);
	put(build, PFW_PP_BIT_correlation, correlation);
	put_some(build, PFW_PP_BIT_span, launch.span);
	return launch;
}

/* A call of the program's: on its thread, on no GPU. */
static void put_host(struct build *build, uint32_t thread, uint32_t correlation)
{
	struct pfw_cupti_launch launch = pfw_cupti_launch_of(correlation);

	made.record.value[2] = thread;
	put(build, PFW_PP_BIT_device, 0);
	put(build, PFW_PP_BIT_device_index, (uint64_t)-1);
	put_some(build, PFW_PP_BIT_correlation, correlation);
	put_some(build, PFW_PP_BIT_span, launch.span);
}

static uint64_t epoch_ns(uint64_t ns)
{
	return ns + (uint64_t)pfw_cupti_decoding.clock_offset_ns;
}

static void count(_Atomic uint64_t *figure)
{
	atomic_fetch_add_explicit(figure, 1, memory_order_relaxed);
}

static void set_instant(uint64_t ns)
{
	made.record.flags |= PFW_RECORD_INSTANT;
	made.record.t0 = ns;
	made.record.dur = 0;
}

/*
 * When it was.  Both 0: CUPTI had no room to note the time.  Only the end: it had not come when the
 * program ended.  Either is an instant, at its launch where that is known, never a span of 1970.
 */
static void set_times(uint64_t start, uint64_t end, const struct pfw_cupti_launch *launch)
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
	start = start ? start : launched;
	set_instant(start ? epoch_ns(start) : pfw_cupti_decoding.now_ns);
}

static const struct pfw_record *finish(const struct build *build, unsigned *slots)
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

static uint32_t intern(const char *text)
{
	return pfw_string_intern(text, strlen(text));
}

/* ---- which device a context is of, and which stream an event was recorded in ---- */

#define CONTEXTS 64u
#define EVENTS 1024u

static uint32_t device_of_context[CONTEXTS]; /* + 1; 0 = not known */
static struct {
	uint32_t event, stream;
} event_in[EVENTS];

static void note_context(const struct pfw_cupti_place *at)
{
	device_of_context[at->context % CONTEXTS] = at->device + 1;
}

/* ---- kernels ---- */

static const struct pfw_record *decode_kernel(const struct pfw_cupti_kernel *kernel,
					      unsigned *slots)
{
	struct build build = begin(PFW_KIND_KERNEL, pfw_cupti_noted_name(kernel));
	struct pfw_cupti_launch launch;
	int32_t priority = 0;

	launch = put_place(&build, &kernel->at, kernel->correlation);
	note_context(&kernel->at);
	put(&build, PFW_PP_BIT_grid, dim3(kernel->grid));
	put(&build, PFW_PP_BIT_block, dim3(kernel->block));
	put(&build, PFW_PP_BIT_registers, kernel->registers);
	put_some(&build, PFW_PP_BIT_static_smem, (uint32_t)kernel->static_smem);
	put_some(&build, PFW_PP_BIT_dynamic_smem, (uint32_t)kernel->dynamic_smem);
	put_some(&build, PFW_PP_BIT_local_mem, kernel->local_mem);
	put_f64(&build, PFW_PP_BIT_occupancy, pfw_cupti_occupancy(kernel));
	if (pfw_cupti_lib.version >= PFW_CUPTI_13_1)
		memcpy(&priority, (const char *)kernel + PFW_CUPTI_KERNEL_PRIORITY_AT,
		       sizeof(priority));
	put_some(&build, PFW_PP_BIT_priority, (uint64_t)(int64_t)priority);
	if (kernel->queued && kernel->start >= kernel->queued)
		put(&build, PFW_PP_BIT_queued, kernel->start - kernel->queued);
	if (kernel->channel_type)
		put(&build, PFW_PP_BIT_channel, kernel->channel);
	put_some(&build, PFW_PP_BIT_graph, kernel->graph);
	put_some(&build, PFW_PP_BIT_graph_node, kernel->graph_node);
	set_times(kernel->start, kernel->end, &launch);
	return finish(&build, slots);
}

/* A graph's launch, where its nodes are not recorded one by one. */
static const struct pfw_record *decode_graph(const struct pfw_cupti_graph *graph, unsigned *slots)
{
	const struct pfw_cupti_place place = { graph->device, graph->context, graph->stream };
	struct build build = begin(PFW_KIND_KERNEL, intern("CUDA graph"));
	struct pfw_cupti_launch launch = put_place(&build, &place, graph->correlation);

	put(&build, PFW_PP_BIT_graph, graph->graph);
	set_times(graph->start, graph->end, &launch);
	return finish(&build, slots);
}

/* ---- copies ---- */

static const char *const copy_kinds[] = { "unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
					  "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP" };
static const char *const memory_kinds[] = { "unknown", "pageable", "pinned", "device",
					    "array",   "managed",  "static", "managed static" };
/* The same as a name has them. */
static const char *const memory_names[] = { "Unknown", "Pageable", "Pinned", "Device",
					    "Array",   "Managed",  "Static", "Managed Static" };
#define MEMORY_KINDS PFW_ARRAY_LEN(memory_kinds)
#define COPY_KINDS PFW_ARRAY_LEN(copy_kinds)

static unsigned memory_kind(unsigned kind)
{
	return kind < MEMORY_KINDS ? kind : 0;
}

/* "Memcpy HtoD (Pageable -> Device)", as torch calls it. */
static uint32_t copy_name(unsigned copy, unsigned from, unsigned to)
{
	static uint32_t names[COPY_KINDS][MEMORY_KINDS][MEMORY_KINDS];
	uint32_t *name = &names[copy][from][to];
	char buf[80];
	struct pfw_text text;

	if (*name)
		return *name;
	pfw_text_init(&text, buf, sizeof(buf));
	pfw_text_add(&text, "Memcpy ");
	pfw_text_add(&text, copy_kinds[copy]);
	pfw_text_add(&text, " (");
	pfw_text_add(&text, memory_names[from]);
	pfw_text_add(&text, " -> ");
	pfw_text_add(&text, memory_names[to]);
	pfw_text_add(&text, ")");
	return *name = intern(buf);
}

/* GB/s are bytes a ns; a thousandth is enough. */
static void put_rate(struct build *build, uint64_t bytes, uint64_t start, uint64_t end)
{
	if (start && end > start)
		put_f64(build, PFW_PP_BIT_gbps, (double)(bytes * 1000 / (end - start)) / 1000);
}

static const struct pfw_record *decode_memcpy(const struct pfw_cupti_memcpy *memcpy_,
					      unsigned *slots)
{
	unsigned copy = memcpy_->copy_kind < COPY_KINDS ? memcpy_->copy_kind : 0;
	unsigned from = memory_kind(memcpy_->src_kind), to = memory_kind(memcpy_->dst_kind);
	struct build build = begin(PFW_KIND_MEMCPY, copy_name(copy, from, to));
	struct pfw_cupti_launch launch = put_place(&build, &memcpy_->at, memcpy_->correlation);

	note_context(&memcpy_->at);
	put_some(&build, PFW_PP_BIT_graph, memcpy_->graph);
	put_some(&build, PFW_PP_BIT_graph_node, memcpy_->graph_node);
	put(&build, PFW_PP_BIT_bytes, memcpy_->bytes);
	put_text(&build, PFW_PP_BIT_copy_kind, copy_kinds[copy]);
	put_text(&build, PFW_PP_BIT_src_kind, memory_kinds[from]);
	put_text(&build, PFW_PP_BIT_dst_kind, memory_kinds[to]);
	put_rate(&build, memcpy_->bytes, memcpy_->start, memcpy_->end);
	set_times(memcpy_->start, memcpy_->end, &launch);
	return finish(&build, slots);
}

static const struct pfw_record *decode_memcpy_p2p(const struct pfw_cupti_memcpy_p2p *copy,
						  unsigned *slots)
{
	unsigned from = memory_kind(copy->src_kind), to = memory_kind(copy->dst_kind);
	unsigned kind = copy->copy_kind < COPY_KINDS ? copy->copy_kind : 0;
	struct build build = begin(PFW_KIND_MEMCPY, copy_name(kind, from, to));
	struct pfw_cupti_launch launch = put_place(&build, &copy->at, copy->correlation);

	put_some(&build, PFW_PP_BIT_graph, copy->graph);
	put_some(&build, PFW_PP_BIT_graph_node, copy->graph_node);
	put(&build, PFW_PP_BIT_bytes, copy->bytes);
	put_text(&build, PFW_PP_BIT_copy_kind, copy_kinds[kind]);
	put_text(&build, PFW_PP_BIT_src_kind, memory_kinds[from]);
	put_text(&build, PFW_PP_BIT_dst_kind, memory_kinds[to]);
	put(&build, PFW_PP_BIT_src_device, copy->src_device);
	put(&build, PFW_PP_BIT_dst_device, copy->dst_device);
	put_rate(&build, copy->bytes, copy->start, copy->end);
	set_times(copy->start, copy->end, &launch);
	return finish(&build, slots);
}

static const struct pfw_record *decode_memset(const struct pfw_cupti_memset *set, unsigned *slots)
{
	static uint32_t names[MEMORY_KINDS];
	unsigned kind = memory_kind(set->memory_kind);
	struct pfw_cupti_launch launch;
	struct build build;
	char buf[40];
	struct pfw_text text;

	if (!names[kind]) {
		pfw_text_init(&text, buf, sizeof(buf));
		pfw_text_add(&text, "Memset (");
		pfw_text_add(&text, memory_names[kind]);
		pfw_text_add(&text, ")");
		names[kind] = intern(buf);
	}
	build = begin(PFW_KIND_MEMSET, names[kind]);
	launch = put_place(&build, &set->at, set->correlation);
	put_some(&build, PFW_PP_BIT_graph, set->graph);
	put_some(&build, PFW_PP_BIT_graph_node, set->graph_node);
	put(&build, PFW_PP_BIT_bytes, set->bytes);
	put_text(&build, PFW_PP_BIT_dst_kind, memory_kinds[kind]);
	put_rate(&build, set->bytes, set->start, set->end);
	set_times(set->start, set->end, &launch);
	return finish(&build, slots);
}

/* ---- calls ---- */

static bool is_noise(uint32_t cbid)
{
	switch (cbid) {
#define X(name, number) case number:
		PFW_CUPTI_RUNTIME_NOISE(X)
#undef X
		return true;
	default:
		return false;
	}
}

static const struct pfw_record *decode_api(const struct pfw_cupti_api *api, unsigned *slots)
{
	bool driver = pfw_cupti_noted_kind(api) == PFW_CUPTI_KIND_DRIVER;
	struct build build;

	if (!driver && is_noise(api->cbid))
		return NULL;
	build = begin(driver ? PFW_KIND_DRIVER : PFW_KIND_RUNTIME, pfw_cupti_noted_call(api));
	put_host(&build, api->thread, api->correlation);
	put(&build, PFW_PP_BIT_cbid, api->cbid);
	set_times(api->start, api->end, NULL);
	return finish(&build, slots);
}

/* ---- waiting ---- */

static const struct pfw_record *decode_event(const struct pfw_cupti_event *event, unsigned *slots)
{
	uint32_t device = device_of_context[event->context % CONTEXTS];
	struct pfw_cupti_place place = { device ? device - 1 : 0, event->context, event->stream };
	struct pfw_cupti_launch launch;
	struct build build = begin(PFW_KIND_SYNC, intern("Event Record"));

	event_in[event->event % EVENTS].event = event->event;
	event_in[event->event % EVENTS].stream = event->stream;
	launch = put_place(&build, &place, event->correlation);
	put(&build, PFW_PP_BIT_wait_on_event, event->event);
	set_instant(launch.start_ns ? epoch_ns(launch.start_ns) : pfw_cupti_decoding.now_ns);
	return finish(&build, slots);
}

/* Who waits is the program's thread, on whose lane it does not overlap kernels. */
static const struct pfw_record *decode_sync(const struct pfw_cupti_sync *sync, unsigned *slots)
{
	static const char *const names[] = { "Sync", "Event Sync", "Stream Wait Event",
					     "Stream Sync", "Context Sync" };
	struct build build = begin(
		PFW_KIND_SYNC, intern(names[sync->type < PFW_ARRAY_LEN(names) ? sync->type : 0]));
	struct pfw_cupti_launch launch = pfw_cupti_launch_of(sync->correlation);
	bool stream = sync->stream != NO_STREAM, event = sync->event != NO_STREAM;
	unsigned place = sync->event % EVENTS;

	made.record.value[2] = launch.thread;
	put(&build, PFW_PP_BIT_context, sync->context);
	if (stream)
		put(&build, PFW_PP_BIT_stream, sync->stream);
	put(&build, PFW_PP_BIT_correlation, sync->correlation);
	put_some(&build, PFW_PP_BIT_span, launch.span);
	if (event && event_in[place].event == sync->event)
		put(&build, PFW_PP_BIT_wait_on_stream, event_in[place].stream);
	if (event)
		put(&build, PFW_PP_BIT_wait_on_event, sync->event);
	set_times(sync->start, sync->end, NULL);
	return finish(&build, slots);
}

/* ---- what CUDA itself costs ---- */

static const char *overhead_name(uint32_t overhead)
{
	static const char *const names[] = { "Overhead",
					     "Buffer Flush",
					     "Instrumentation",
					     "Resource",
					     "Runtime Triggered Module Loading",
					     "Lazy Function Loading",
					     "Command Buffer Full",
					     "Activity Buffer Request",
					     "UVM Activity Init" };

	if (overhead == 1)
		return "Driver Compiler";
	overhead >>= 16;
	return names[overhead < PFW_ARRAY_LEN(names) ? overhead : 0];
}

static const struct pfw_record *decode_overhead(const struct pfw_cupti_overhead *overhead,
						unsigned *slots)
{
	struct build build = begin(PFW_KIND_OVERHEAD, intern(overhead_name(overhead->overhead)));
	bool thread = overhead->object_kind == 2; /* CUPTI_ACTIVITY_OBJECT_THREAD */

	put_host(&build, thread ? overhead->object[1] : 0, 0);
	set_times(overhead->start, overhead->end, NULL);
	return finish(&build, slots);
}

static const struct pfw_record *decode_jit(const struct pfw_cupti_jit *jit, unsigned *slots)
{
	static const char *const names[] = { "JIT", "JIT Cache Load", "JIT Cache Store",
					     "JIT Compile" };
	unsigned operation = jit->operation < PFW_ARRAY_LEN(names) ? jit->operation : 0;
	struct build build = begin(PFW_KIND_OVERHEAD, intern(names[operation]));

	put_host(&build, pfw_cupti_launch_of(jit->correlation).thread, jit->correlation);
	put_some(&build, PFW_PP_BIT_bytes, jit->cache_bytes);
	set_times(jit->start, jit->end, NULL);
	return finish(&build, slots);
}

/* ---- memory ---- */

static const struct pfw_record *decode_memory(const struct pfw_cupti_memory *memory,
					      unsigned *slots)
{
	bool taken = memory->operation == PFW_CUPTI_ALLOCATION;
	struct build build = begin(PFW_KIND_MEMORY, intern(taken ? "Memory Alloc" : "Memory Free"));
	struct pfw_cupti_launch launch = pfw_cupti_launch_of(memory->correlation);

	made.record.value[2] = launch.thread;
	put(&build, PFW_PP_BIT_device, TORCH_CUDA);
	put(&build, PFW_PP_BIT_device_index, memory->device);
	put(&build, PFW_PP_BIT_context, memory->context);
	if (memory->is_async)
		put(&build, PFW_PP_BIT_stream, memory->stream);
	put(&build, PFW_PP_BIT_correlation, memory->correlation);
	put_some(&build, PFW_PP_BIT_span, launch.span);
	put(&build, PFW_PP_BIT_bytes, taken ? memory->bytes : 0 - memory->bytes);
	put_text(&build, PFW_PP_BIT_dst_kind, memory_kinds[memory_kind(memory->memory_kind)]);
	put(&build, PFW_PP_BIT_addr, memory->address);
	set_instant(epoch_ns(memory->timestamp));
	return finish(&build, slots);
}

static const struct pfw_record *decode_pool(const struct pfw_cupti_pool *pool, unsigned *slots)
{
	static const char *const names[] = { "Memory Pool", "Memory Pool Created",
					     "Memory Pool Destroyed", "Memory Pool Trimmed" };
	unsigned operation = pool->operation < PFW_ARRAY_LEN(names) ? pool->operation : 0;
	struct build build = begin(PFW_KIND_MEMORY, intern(names[operation]));

	made.record.value[2] = pfw_cupti_launch_of(pool->correlation).thread;
	put(&build, PFW_PP_BIT_device, TORCH_CUDA);
	put(&build, PFW_PP_BIT_device_index, pool->device);
	put(&build, PFW_PP_BIT_correlation, pool->correlation);
	put(&build, PFW_PP_BIT_bytes, pool->bytes);
	put(&build, PFW_PP_BIT_addr, pool->address);
	set_instant(epoch_ns(pool->timestamp));
	return finish(&build, slots);
}

const struct pfw_record *pfw_cupti_decode(const void *record, unsigned *slots)
{
	switch (pfw_cupti_noted_kind(record)) {
	case PFW_CUPTI_KIND_KERNEL:
		return decode_kernel(record, slots);
	case PFW_CUPTI_KIND_RUNTIME:
	case PFW_CUPTI_KIND_DRIVER:
		return decode_api(record, slots);
	case PFW_CUPTI_KIND_MEMCPY:
		return decode_memcpy(record, slots);
	case PFW_CUPTI_KIND_MEMCPY_P2P:
		return decode_memcpy_p2p(record, slots);
	case PFW_CUPTI_KIND_MEMSET:
		return decode_memset(record, slots);
	case PFW_CUPTI_KIND_SYNC:
		return decode_sync(record, slots);
	case PFW_CUPTI_KIND_CUDA_EVENT:
		return decode_event(record, slots);
	case PFW_CUPTI_KIND_OVERHEAD:
		return decode_overhead(record, slots);
	case PFW_CUPTI_KIND_MEMORY:
		return decode_memory(record, slots);
	case PFW_CUPTI_KIND_MEMORY_POOL:
		return decode_pool(record, slots);
	case PFW_CUPTI_KIND_GRAPH:
		return decode_graph(record, slots);
	case PFW_CUPTI_KIND_JIT:
		return decode_jit(record, slots);
	case PFW_CUPTI_KIND_EXTERNAL:
		return NULL;
	default:
		count(&pfw_cupti_figures.unknown);
		return NULL;
	}
}
