/* recorder/gpu_records/decode.c - converts one of CUPTI's records to one of ours. */
#define PFW_BUILDING
#include "recorder/gpu_records/decode.h"

#include <string.h>

#include "common/base/os.h"
#include "common/base/text.h"
#include "recorder/gpu_records/build.h"
#include "recorder/gpu_records/lib.h"
#include "recorder/gpu_records/occupancy.h"
#include "recorder/spool/strings.h"

#define NO_STREAM 0xffffffffu

static uint32_t intern(const char *text)
{
	return pfw_string_intern(text, strlen(text));
}

/* ---- the device of a context, and the stream of an event ---- */

#define CONTEXTS 64u
#define EVENTS 1024u

static uint32_t device_of_context[CONTEXTS]; /* device + 1; 0 = unknown */
static struct {
	uint32_t event, stream;
} event_in[EVENTS];

static void note_context(const struct pfw_cupti_place *at)
{
	device_of_context[at->context % CONTEXTS] = at->device + 1;
}

/* ---- kernels ---- */

static uint64_t dim3(const int32_t dim[3])
{
	return ((uint64_t)dim[0] & 0x7fffffff) | ((uint64_t)dim[1] & 0xffff) << 31 |
	       ((uint64_t)dim[2] & 0xffff) << 47;
}

static const struct pfw_record *decode_kernel(const struct pfw_cupti_kernel *kernel,
					      unsigned *slots)
{
	struct pfw_build build = pfw_build_begin(PFW_KIND_KERNEL, pfw_cupti_noted_name(kernel));
	struct pfw_cupti_launch launch;
	double occupancy, blocks;
	int32_t priority;

	launch = pfw_build_place(&build, &kernel->at, kernel->correlation);
	note_context(&kernel->at);
	pfw_build_put(&build, PFW_PP_BIT_grid, dim3(kernel->grid));
	pfw_build_put(&build, PFW_PP_BIT_block, dim3(kernel->block));
	pfw_build_put(&build, PFW_PP_BIT_registers, kernel->registers);
	pfw_build_put(&build, PFW_PP_BIT_static_smem, (uint32_t)kernel->static_smem);
	pfw_build_put(&build, PFW_PP_BIT_dynamic_smem, (uint32_t)kernel->dynamic_smem);
	pfw_build_put(&build, PFW_PP_BIT_local_mem, kernel->local_mem);
	if (pfw_cupti_occupancy(kernel, &occupancy))
		pfw_build_f64(&build, PFW_PP_BIT_occupancy, occupancy);
	if (pfw_cupti_lib.version >= PFW_CUPTI_13_1) {
		memcpy(&priority, (const char *)kernel + PFW_CUPTI_KERNEL_PRIORITY_AT,
		       sizeof(priority));
		pfw_build_put(&build, PFW_PP_BIT_priority, (uint64_t)(int64_t)priority);
	}
	if (kernel->queued && kernel->start >= kernel->queued)
		pfw_build_put(&build, PFW_PP_BIT_queued, kernel->start - kernel->queued);
	if (kernel->channel_type)
		pfw_build_put(&build, PFW_PP_BIT_channel, kernel->channel);
	pfw_build_put(&build, PFW_PP_BIT_graph, kernel->graph);
	pfw_build_put(&build, PFW_PP_BIT_graph_node, kernel->graph_node);
	if (pfw_cupti_blocks_per_sm(kernel, &blocks))
		pfw_build_f64(&build, PFW_PP_BIT_blocks_per_sm, blocks);
	pfw_build_times(kernel->start, kernel->end, &launch);
	return pfw_build_finish(&build, slots);
}

/* The launch of a whole graph, if its nodes are not recorded one by one. */
static const struct pfw_record *decode_graph(const struct pfw_cupti_graph *graph, unsigned *slots)
{
	const struct pfw_cupti_place place = { graph->device, graph->context, graph->stream };
	struct pfw_build build = pfw_build_begin(PFW_KIND_KERNEL, intern("CUDA graph"));
	struct pfw_cupti_launch launch = pfw_build_place(&build, &place, graph->correlation);

	pfw_build_put(&build, PFW_PP_BIT_graph, graph->graph);
	pfw_build_times(graph->start, graph->end, &launch);
	return pfw_build_finish(&build, slots);
}

/* ---- copies ---- */

static const char *const copy_kinds[] = { "unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
					  "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP" };
static const char *const memory_kinds[] = { "unknown", "pageable", "pinned", "device",
					    "array",   "managed",  "static", "managed static" };
/* The kinds of memory as copy_name() writes them. */
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
	PFW_TEXT_ADD(&text, "Memcpy ", copy_kinds[copy], " (", memory_names[from], " -> ",
		     memory_names[to], ")");
	return *name = intern(buf);
}

/* GB/s equal bytes per ns; three decimals are enough. */
static void put_rate(struct pfw_build *build, uint64_t bytes, uint64_t start, uint64_t end)
{
	if (start && end > start)
		pfw_build_f64(build, PFW_PP_BIT_gbps,
			      (double)(bytes * 1000 / (end - start)) / 1000);
}

/* What the records of both kinds of copies begin with. */
_Static_assert(offsetof(struct pfw_cupti_memcpy, correlation) ==
		       offsetof(struct pfw_cupti_memcpy_p2p, src_device),
	       "the same members before it");

static const struct pfw_record *decode_copy(const struct pfw_cupti_memcpy *copy,
					    const struct pfw_cupti_memcpy_p2p *peers,
					    unsigned *slots)
{
	unsigned kind = copy->copy_kind < COPY_KINDS ? copy->copy_kind : 0;
	unsigned from = memory_kind(copy->src_kind), to = memory_kind(copy->dst_kind);
	struct pfw_build build = pfw_build_begin(PFW_KIND_MEMCPY, copy_name(kind, from, to));
	struct pfw_cupti_launch launch =
		pfw_build_place(&build, &copy->at, peers ? peers->correlation : copy->correlation);

	if (!peers)
		note_context(&copy->at);
	pfw_build_put(&build, PFW_PP_BIT_graph, peers ? peers->graph : copy->graph);
	pfw_build_put(&build, PFW_PP_BIT_graph_node, peers ? peers->graph_node : copy->graph_node);
	pfw_build_put(&build, PFW_PP_BIT_bytes, copy->bytes);
	pfw_build_text(&build, PFW_PP_BIT_copy_kind, copy_kinds[kind]);
	pfw_build_text(&build, PFW_PP_BIT_src_kind, memory_kinds[from]);
	pfw_build_text(&build, PFW_PP_BIT_dst_kind, memory_kinds[to]);
	if (peers) {
		pfw_build_put(&build, PFW_PP_BIT_src_device, peers->src_device);
		pfw_build_put(&build, PFW_PP_BIT_dst_device, peers->dst_device);
	}
	put_rate(&build, copy->bytes, copy->start, copy->end);
	pfw_build_times(copy->start, copy->end, &launch);
	return pfw_build_finish(&build, slots);
}

static const struct pfw_record *decode_memset(const struct pfw_cupti_memset *set, unsigned *slots)
{
	static uint32_t names[MEMORY_KINDS];
	unsigned kind = memory_kind(set->memory_kind);
	struct pfw_cupti_launch launch;
	struct pfw_build build;
	char buf[40];
	struct pfw_text text;

	if (!names[kind]) {
		pfw_text_init(&text, buf, sizeof(buf));
		PFW_TEXT_ADD(&text, "Memset (", memory_names[kind], ")");
		names[kind] = intern(buf);
	}
	build = pfw_build_begin(PFW_KIND_MEMSET, names[kind]);
	launch = pfw_build_place(&build, &set->at, set->correlation);
	pfw_build_put(&build, PFW_PP_BIT_graph, set->graph);
	pfw_build_put(&build, PFW_PP_BIT_graph_node, set->graph_node);
	pfw_build_put(&build, PFW_PP_BIT_bytes, set->bytes);
	pfw_build_text(&build, PFW_PP_BIT_dst_kind, memory_kinds[kind]);
	put_rate(&build, set->bytes, set->start, set->end);
	pfw_build_times(set->start, set->end, &launch);
	return pfw_build_finish(&build, slots);
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

/* Whether this call of the driver gives the GPU work. */
static bool is_launch(uint32_t call)
{
	static const char *const begins[] = { "cuLaunch", "cuGraphLaunch", "cuMemcpy", "cuMemset" };
	uint32_t bytes = 0;
	const char *name = pfw_strings_text(call, &bytes);

	for (unsigned i = 0; name && i < PFW_ARRAY_LEN(begins); i++)
		if (bytes >= strlen(begins[i]) && !memcmp(name, begins[i], strlen(begins[i])))
			return true;
	return false;
}

static const struct pfw_record *decode_api(const struct pfw_cupti_api *api, unsigned *slots)
{
	bool driver = pfw_cupti_noted_kind(api) == PFW_CUPTI_KIND_DRIVER;
	struct pfw_build build;

	if (driver ? !pfw_cupti_decoding.driver && !is_launch(pfw_cupti_noted_call(api))
		   : is_noise(api->cbid))
		return NULL;
	build = pfw_build_begin(driver ? PFW_KIND_DRIVER : PFW_KIND_RUNTIME,
				pfw_cupti_noted_call(api));
	pfw_build_host(&build, api->thread, api->correlation);
	pfw_build_put(&build, PFW_PP_BIT_cbid, api->cbid);
	pfw_build_times(api->start, api->end, NULL);
	return pfw_build_finish(&build, slots);
}

/* ---- waiting ---- */

static const struct pfw_record *decode_event(const struct pfw_cupti_event *event, unsigned *slots)
{
	uint32_t device = device_of_context[event->context % CONTEXTS];
	struct pfw_cupti_place place = { device ? device - 1 : 0, event->context, event->stream };
	struct pfw_cupti_launch launch;
	struct pfw_build build = pfw_build_begin(PFW_KIND_SYNC, intern("Event Record"));

	event_in[event->event % EVENTS].event = event->event;
	event_in[event->event % EVENTS].stream = event->stream;
	launch = pfw_build_place(&build, &place, event->correlation);
	pfw_build_put(&build, PFW_PP_BIT_wait_on_event, event->event);
	pfw_build_instant(launch.start_ns);
	return pfw_build_finish(&build, slots);
}

/* The event is on the lane of the thread that waits, where it overlaps no kernel. */
static const struct pfw_record *decode_sync(const struct pfw_cupti_sync *sync, unsigned *slots)
{
	static const char *const names[] = { "Sync", "Event Sync", "Stream Wait Event",
					     "Stream Sync", "Context Sync" };
	struct pfw_build build = pfw_build_begin(
		PFW_KIND_SYNC, intern(names[sync->type < PFW_ARRAY_LEN(names) ? sync->type : 0]));
	struct pfw_cupti_launch launch = pfw_cupti_launch_of(sync->correlation);
	bool stream = sync->stream != NO_STREAM, event = sync->event != NO_STREAM;
	unsigned place = sync->event % EVENTS;

	pfw_build_thread(launch.thread);
	pfw_build_put(&build, PFW_PP_BIT_context, sync->context);
	if (stream)
		pfw_build_put(&build, PFW_PP_BIT_stream, sync->stream);
	pfw_build_put(&build, PFW_PP_BIT_correlation, sync->correlation);
	pfw_build_some(&build, PFW_PP_BIT_span, launch.span);
	if (event && event_in[place].event == sync->event)
		pfw_build_put(&build, PFW_PP_BIT_wait_on_stream, event_in[place].stream);
	if (event)
		pfw_build_put(&build, PFW_PP_BIT_wait_on_event, sync->event);
	pfw_build_times(sync->start, sync->end, NULL);
	return pfw_build_finish(&build, slots);
}

/* ---- CUDA's own overhead ---- */

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
	struct pfw_build build =
		pfw_build_begin(PFW_KIND_OVERHEAD, intern(overhead_name(overhead->overhead)));
	bool thread = overhead->object_kind == 2; /* CUPTI_ACTIVITY_OBJECT_THREAD */

	pfw_build_host(&build, thread ? overhead->object[1] : 0, 0);
	pfw_build_times(overhead->start, overhead->end, NULL);
	return pfw_build_finish(&build, slots);
}

static const struct pfw_record *decode_jit(const struct pfw_cupti_jit *jit, unsigned *slots)
{
	static const char *const names[] = { "JIT", "JIT Cache Load", "JIT Cache Store",
					     "JIT Compile" };
	unsigned operation = jit->operation < PFW_ARRAY_LEN(names) ? jit->operation : 0;
	struct pfw_build build = pfw_build_begin(PFW_KIND_OVERHEAD, intern(names[operation]));

	pfw_build_host(&build, pfw_cupti_launch_of(jit->correlation).thread, jit->correlation);
	pfw_build_put(&build, PFW_PP_BIT_bytes, jit->cache_bytes);
	pfw_build_times(jit->start, jit->end, NULL);
	return pfw_build_finish(&build, slots);
}

/* ---- memory ---- */

static const struct pfw_record *decode_memory(const struct pfw_cupti_memory *memory,
					      unsigned *slots)
{
	bool taken = memory->operation == PFW_CUPTI_ALLOCATION;
	struct pfw_cupti_launch launch = pfw_cupti_launch_of(memory->correlation);
	/* CUPTI names a device for the host's memory, too. */
	bool host = memory->memory_kind == PFW_CUPTI_MEMORY_PAGEABLE ||
		    memory->memory_kind == PFW_CUPTI_MEMORY_PINNED;
	struct pfw_build build;

	/* The static variables of a module that is loaded: hundreds in a program of PyTorch. */
	if (memory->memory_kind == PFW_CUPTI_MEMORY_DEVICE_STATIC ||
	    memory->memory_kind == PFW_CUPTI_MEMORY_MANAGED_STATIC)
		return NULL;
	build = pfw_build_begin(PFW_KIND_MEMORY, intern(taken ? "Memory Alloc" : "Memory Free"));
	pfw_build_thread(launch.thread);
	pfw_build_put(&build, PFW_PP_BIT_device, host ? 0 : PFW_BUILD_CUDA);
	pfw_build_put(&build, PFW_PP_BIT_device_index, host ? (uint64_t)-1 : memory->device);
	pfw_build_put(&build, PFW_PP_BIT_context, memory->context);
	if (memory->is_async)
		pfw_build_put(&build, PFW_PP_BIT_stream, memory->stream);
	pfw_build_put(&build, PFW_PP_BIT_correlation, memory->correlation);
	pfw_build_some(&build, PFW_PP_BIT_span, launch.span);
	pfw_build_put(&build, PFW_PP_BIT_bytes, taken ? memory->bytes : 0 - memory->bytes);
	pfw_build_text(&build, PFW_PP_BIT_dst_kind, memory_kinds[memory_kind(memory->memory_kind)]);
	pfw_build_put(&build, PFW_PP_BIT_addr, memory->address);
	pfw_build_instant(memory->timestamp);
	return pfw_build_finish(&build, slots);
}

static const struct pfw_record *decode_pool(const struct pfw_cupti_pool *pool, unsigned *slots)
{
	static const char *const names[] = { "Memory Pool", "Memory Pool Created",
					     "Memory Pool Destroyed", "Memory Pool Trimmed" };
	unsigned operation = pool->operation < PFW_ARRAY_LEN(names) ? pool->operation : 0;
	struct pfw_build build = pfw_build_begin(PFW_KIND_MEMORY, intern(names[operation]));

	pfw_build_thread(pfw_cupti_launch_of(pool->correlation).thread);
	pfw_build_put(&build, PFW_PP_BIT_device, PFW_BUILD_CUDA);
	pfw_build_put(&build, PFW_PP_BIT_device_index, pool->device);
	pfw_build_put(&build, PFW_PP_BIT_correlation, pool->correlation);
	pfw_build_put(&build, PFW_PP_BIT_bytes, pool->bytes);
	pfw_build_put(&build, PFW_PP_BIT_addr, pool->address);
	pfw_build_instant(pool->timestamp);
	return pfw_build_finish(&build, slots);
}

/* ---- names ---- */

/* Threads and processes get their names from other records. */
static const struct pfw_record *decode_name(const struct pfw_cupti_name *name, unsigned *slots)
{
	uint32_t ref = (uint32_t)(uintptr_t)name->name;
	struct pfw_build build;

	if (!ref || name->object_kind < PFW_CUPTI_OBJECT_DEVICE ||
	    name->object_kind > PFW_CUPTI_OBJECT_STREAM)
		return NULL;
	build = pfw_build_begin(PFW_KIND_KERNEL, ref);
	pfw_build_lane_name(&build, name);
	return pfw_build_finish(&build, slots);
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
		return decode_copy(record, NULL, slots);
	case PFW_CUPTI_KIND_MEMCPY_P2P:
		return decode_copy(record, record, slots);
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
	case PFW_CUPTI_KIND_NAME:
		return decode_name(record, slots);
	case PFW_CUPTI_KIND_EXTERNAL:
		return NULL;
	default:
		atomic_fetch_add_explicit(&pfw_cupti_figures.unknown, 1, memory_order_relaxed);
		return NULL;
	}
}
