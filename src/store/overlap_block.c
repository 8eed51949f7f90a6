/* overlap_block.c - which activity a line is; see overlap.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "more.h"
#include "overlap.h"
#include "saturate.h"
#include "select.h"
#include "summary_lines.h"

/* torch's name of the wait for the next batch goes on with the loader's class. */
#define LOADER "enumerate(DataLoader)#"
/* Of a name with escapes that is held against globs. */
#define PLAIN_BYTES 4096u

struct pfw_overlap_block *pfw_overlap_block_create(void)
{
	struct pfw_overlap_block *block = calloc(1, sizeof(*block));

	if (!block)
		return NULL;
	block->since_ns = INT64_MIN;
	block->until_ns = INT64_MAX;
	pfw_overlap_block_clear(block);
	return block;
}

void pfw_overlap_block_clear(struct pfw_overlap_block *block)
{
	for (unsigned i = 0; i < PFW_ACTIVITIES; i++)
		pfw_intervals_clear(&block->active[i]);
	block->steps.count = block->launches.count = block->kernels.count = block->calls = 0;
	block->sums = (struct pfw_overlap_sums){ 0 };
	block->owner = (struct pfw_overlap_owner){ 0 };
	block->least_ns = INT64_MAX;
	block->greatest_ns = block->last_ns = INT64_MIN;
}

void pfw_overlap_block_free(struct pfw_overlap_block *block)
{
	if (!block)
		return;
	for (unsigned i = 0; i < PFW_ACTIVITIES; i++)
		pfw_intervals_release(&block->active[i]);
	free(block->steps.at);
	free(block->launches.at);
	free(block->kernels.at);
	free(block->call);
	free(block);
}

/* ---- args ---- */

static bool is(const struct pfw_slice *slice, const char *word)
{
	size_t bytes = strlen(word);

	return slice->bytes == bytes && memcmp(slice->at, word, bytes) == 0;
}

static bool begins(const struct pfw_slice *slice, const char *word)
{
	size_t bytes = strlen(word);

	return slice->bytes >= bytes && memcmp(slice->at, word, bytes) == 0;
}

static bool has(const struct pfw_slice *slice, const char *word)
{
	return memmem(slice->at, slice->bytes, word, strlen(word)) != NULL;
}

static int64_t arg_i64(const struct pfw_entry *entry, const char *key, int64_t otherwise)
{
	struct pfw_value value;
	int64_t number;

	return pfw_entry_arg(entry, key, &value) && pfw_value_i64(&value, &number) ? number
										   : otherwise;
}

/* ---- I/O ---- */

/* What a call does; the same few names come again and again. */
static struct pfw_call find_call(struct pfw_overlap_block *block, const struct pfw_entry *entry)
{
	const struct pfw_slice *name = &entry->name;
	struct pfw_overlap_name *known;

	if (!name->bytes || name->bytes > sizeof(known->text))
		return pfw_call_find(entry->cat.at, entry->cat.bytes, name->at, name->bytes);
	known = &block->name[((unsigned char)name->at[0] + name->bytes * 7 +
			      (unsigned char)name->at[name->bytes / 2] * 3) %
			     PFW_OVERLAP_NAMES];
	if (known->bytes != name->bytes || memcmp(known->text, name->at, name->bytes) != 0) {
		memcpy(known->text, name->at, name->bytes);
		known->bytes = (uint8_t)name->bytes;
		known->call = pfw_call_find(entry->cat.at, entry->cat.bytes, name->at, name->bytes);
	}
	return known->call;
}

static uint64_t moved(const struct pfw_entry *entry, struct pfw_call call)
{
	int64_t ret, bytes;

	if (call.moves == PFW_MOVES_NOTHING)
		return 0;
	ret = arg_i64(entry, "ret", -1);
	if (ret <= 0 && call.moves != PFW_MOVES_COUNT)
		return 0;
	if (call.moves == PFW_MOVES_RET)
		return (uint64_t)ret;
	bytes = arg_i64(entry, call.moves == PFW_MOVES_ITEMS ? "size" : "count", 0);
	if (ret < 0 || bytes <= 0)
		return 0;
	if (call.moves == PFW_MOVES_COUNT)
		return (uint64_t)bytes;
	return __builtin_mul_overflow(ret, bytes, &bytes) ? INT64_MAX : (uint64_t)bytes;
}

static int keep_call(struct pfw_overlap_block *block, const struct pfw_overlap_call *call)
{
	struct pfw_overlap_call *more =
		pfw_more(block->call, block->calls, &block->call_room, sizeof(*more));

	if (!more)
		return -ENOMEM;
	block->call = more;
	more[block->calls++] = *call;
	return 0;
}

static int add_io(struct pfw_overlap_block *block, const struct pfw_entry *entry, int64_t begin,
		  int64_t end)
{
	const struct pfw_overlap_call call = { .begin = begin,
					       .end = end,
					       .bytes = moved(entry, find_call(block, entry)) };

	block->sums.io_calls++;
	block->sums.io_bytes += call.bytes;
	if (block->keep_calls && keep_call(block, &call))
		return -ENOMEM;
	return pfw_intervals_add(&block->active[PFW_ACTIVITY_IO], begin, end);
}

/* ---- compute ---- */

/* Kernels of NCCL, RCCL, oneCCL, MSCCL, HCCL and NVSHMEM. */
static bool find_communication(const struct pfw_slice *name)
{
	const char *at = name->at, *end = name->at + name->bytes;

	while ((at = memmem(at, (size_t)(end - at), "ccl", 3))) {
		if (at > name->at && strchr("nreshNRESH", at[-1]))
			return true;
		at += 3;
	}
	return begins(name, "nvshmem");
}

/* The same; names are long, and come again and again. */
static bool communicates(struct pfw_overlap_block *block, const struct pfw_slice *name)
{
	struct pfw_overlap_kernel *known;

	if (!name->bytes || name->bytes > sizeof(known->text))
		return find_communication(name);
	known = &block->kernel[((unsigned char)name->at[name->bytes / 2] + name->bytes) %
			       PFW_OVERLAP_KERNELS];
	if (known->bytes != name->bytes || memcmp(known->text, name->at, name->bytes) != 0) {
		memcpy(known->text, name->at, name->bytes);
		known->bytes = (uint8_t)name->bytes;
		known->communicates = find_communication(name);
	}
	return known->communicates;
}

/* Of calls of CUDA's and HIP's runtimes and drivers. */
static bool launches(const struct pfw_slice *name)
{
	return begins(name, "cudaLaunch") || has(name, "Launch");
}

static int add_gap_end(struct pfw_gap_ends *ends, const struct pfw_entry *entry)
{
	const struct pfw_gap_end end = { .pid = entry->pid,
					 .correlation = (uint64_t)arg_i64(entry, "correlation", 0),
					 .ns = entry->ts_ns };

	return end.correlation ? pfw_gap_ends_add(ends, &end) : 0;
}

static int add_kernel(struct pfw_overlap_block *block, const struct pfw_entry *entry, int64_t begin,
		      int64_t end)
{
	enum pfw_activity activity = communicates(block, &entry->name) ? PFW_ACTIVITY_COMM
								       : PFW_ACTIVITY_GPU;

	block->sums.kernels++;
	if (add_gap_end(&block->kernels, entry))
		return -ENOMEM;
	return pfw_intervals_add(&block->active[activity], begin, end);
}

static int add_copy(struct pfw_overlap_block *block, const struct pfw_entry *entry, int64_t begin,
		    int64_t end)
{
	int64_t bytes = arg_i64(entry, "bytes", 0);

	block->sums.copies++;
	block->sums.copy_bytes += bytes > 0 ? (uint64_t)bytes : 0;
	return pfw_intervals_add(&block->active[PFW_ACTIVITY_COPY], begin, end);
}

static int add_step(struct pfw_overlap_block *block, uint64_t number, int64_t begin, int64_t end)
{
	struct pfw_overlap_spans *steps = &block->steps;
	struct pfw_overlap_span *more =
		pfw_more(steps->at, steps->count, &steps->room, sizeof(*more));

	if (!more)
		return -ENOMEM;
	steps->at = more;
	more[steps->count++] = (struct pfw_overlap_span){ number, begin, end };
	return 0;
}

/* What DFTracer's handler of torch's profiler writes has no kind: only where it ran. */
static int add_unkind(struct pfw_overlap_block *block, const struct pfw_entry *entry, bool device,
		      int64_t begin, int64_t end)
{
	if (!device)
		return begins(&entry->name, "cuda") || begins(&entry->name, "hip")
			       ? 0
			       : pfw_intervals_add(&block->active[PFW_ACTIVITY_CPU], begin, end);
	if (begins(&entry->name, "Memcpy") || begins(&entry->name, "Memset"))
		return add_copy(block, entry, begin, end);
	return add_kernel(block, entry, begin, end);
}

static bool matches(const struct pfw_select_globs *globs, const struct pfw_slice *text)
{
	char plain[PLAIN_BYTES];

	if (!memchr(text->at, '\\', text->bytes))
		return pfw_select_globs_match(globs, *text);
	return pfw_select_globs_match(
		globs, (struct pfw_slice){ .at = plain,
					   .bytes = pfw_slice_decode(text, plain, sizeof(plain)) });
}

/* Spans that are told to be compute: the program's own, or marked through NVTX or torch. */
static int add_told(struct pfw_overlap_block *block, const struct pfw_entry *entry, int64_t begin,
		    int64_t end)
{
	if (!block->compute || !block->compute->count || arg_i64(entry, "device", 0) != 0 ||
	    (!matches(block->compute, &entry->name) && !matches(block->compute, &entry->cat)))
		return 0;
	return pfw_intervals_add(&block->active[PFW_ACTIVITY_CPU], begin, end);
}

static int add_compute(struct pfw_overlap_block *block, const struct pfw_entry *entry,
		       int64_t begin, int64_t end)
{
	struct pfw_value kind = { 0 };
	const struct pfw_slice *text = &kind.text;
	uint64_t number;
	bool known = pfw_entry_arg(entry, "kind", &kind) && kind.type == PFW_VALUE_STRING;

	if (known && is(text, "kernel"))
		return add_kernel(block, entry, begin, end);
	if (known && (is(text, "runtime") || is(text, "driver")))
		return launches(&entry->name) ? add_gap_end(&block->launches, entry) : 0;
	if (known && (is(text, "memcpy") || is(text, "memset")))
		return add_copy(block, entry, begin, end);
	if (begins(&entry->name, "ProfilerStep#") &&
	    pfw_summary_is_step(entry->name.at, entry->name.bytes, &number)) {
		/* torch shows each a second time, on the device. */
		return arg_i64(entry, "device", 0) == 1 ? 0 : add_step(block, number, begin, end);
	}
	if (begins(&entry->name, LOADER))
		return pfw_intervals_add(&block->active[PFW_ACTIVITY_LOAD], begin, end);
	if (known && is(text, "annotation"))
		return add_told(block, entry, begin, end);
	if (known)
		return is(text, "cpu_op")
			       ? pfw_intervals_add(&block->active[PFW_ACTIVITY_CPU], begin, end)
			       : 0;
	return add_unkind(block, entry, arg_i64(entry, "device", 0) == 1, begin, end);
}

/* ---- lines ---- */

/* The tracer's own lines: whose the trace is; calls that were too short for a line each. */
static void add_metadata(struct pfw_overlap_block *block, const struct pfw_entry *entry)
{
	struct pfw_value value;
	int64_t ns;

	if (!is(&entry->cat, "pfw"))
		return;
	if (is(&entry->name, "process") || is(&entry->name, "rank")) {
		const struct pfw_overlap_owner owner = { .known = true,
							 .rank = arg_i64(entry, "rank", -1) };

		if (owner.rank >= 0)
			pfw_overlap_add_owner(&block->owner, &owner);
	}
	if (!is(&entry->name, "summed"))
		return;
	block->sums.summed_calls += (uint64_t)arg_i64(entry, "count", 0);
	if (pfw_entry_arg(entry, "dur", &value) && pfw_slice_us(&value.text, &ns))
		block->sums.summed_ns = pfw_saturate_add(block->sums.summed_ns, ns);
}

static void note_times(struct pfw_overlap_block *block, int64_t begin, int64_t end)
{
	block->sums.events++;
	if (begin < block->least_ns)
		block->least_ns = begin;
	if (begin > block->last_ns)
		block->last_ns = begin;
	if (end > block->greatest_ns)
		block->greatest_ns = end;
}

int pfw_overlap_block_add(struct pfw_overlap_block *block, const struct pfw_entry *entry)
{
	int64_t begin = entry->ts_ns, end = pfw_saturate_add(entry->ts_ns, entry->dur_ns);

	if (entry->ph == 'M') {
		add_metadata(block, entry);
		return 0;
	}
	if (!(entry->has & ~entry->wrong & PFW_ENTRY_TS))
		return 0;
	/* What overlaps [since, until), as everywhere. */
	if (begin >= block->until_ns || (end <= block->since_ns && begin < block->since_ns))
		return 0;
	begin = begin < block->since_ns ? block->since_ns : begin;
	end = end > block->until_ns ? block->until_ns : end < begin ? begin : end;
	note_times(block, begin, end);
	if (entry->ph != 'X')
		return 0;
	if (pfw_call_is_io(&entry->cat))
		return add_io(block, entry, begin, end);
	if (is(&entry->cat, "PP"))
		return add_compute(block, entry, begin, end);
	/* DFTracer's names for what AI programs do. */
	if (is(&entry->cat, "dataloader") || begins(&entry->name, LOADER))
		return pfw_intervals_add(&block->active[PFW_ACTIVITY_LOAD], begin, end);
	if (is(&entry->cat, "compute"))
		return pfw_intervals_add(&block->active[PFW_ACTIVITY_CPU], begin, end);
	return add_told(block, entry, begin, end);
}
