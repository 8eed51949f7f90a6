/* store/overlap/block.c - assigns each line of a block to an activity; see overlap.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/kit/saturate.h"
#include "store/line/io.h"
#include "store/line/step_name.h"
#include "store/overlap/overlap.h"
#include "store/select/select.h"
#include "store/summary/summary.h"

/* The most bytes of a name with escapes that are matched against globs. */
#define PLAIN_BYTES 4096u
/* Not inline: few lines need this, and the code for every line then saves no registers. */
#define NOT_INLINE __attribute__((noinline))

struct pfw_overlap_block *pfw_overlap_block_create(void)
{
	struct pfw_overlap_block *block = calloc(1, sizeof(*block));

	if (block)
		pfw_overlap_block_clear(block);
	return block;
}

void pfw_overlap_block_clear(void *overlap_block)
{
	struct pfw_overlap_block *block = overlap_block;

	for (unsigned i = 0; i < PFW_ACTIVITIES; i++)
		pfw_intervals_clear(&block->active[i]);
	block->steps.count = block->launches.count = block->kernels.count = block->calls = 0;
	block->sums = (struct pfw_overlap_sums){ 0 };
	block->owner = (struct pfw_overlap_owner){ 0 };
	block->since_ns = block->greatest_ns = block->last_ns = INT64_MIN;
	block->until_ns = block->least_ns = INT64_MAX;
}

void pfw_overlap_block_release(void *overlap_block)
{
	struct pfw_overlap_block *block = overlap_block;

	for (unsigned i = 0; i < PFW_ACTIVITIES; i++)
		pfw_intervals_release(&block->active[i]);
	free(block->steps.at);
	free(block->launches.at);
	free(block->kernels.at);
	free(block->call);
}

void pfw_overlap_block_free(struct pfw_overlap_block *block)
{
	if (block)
		pfw_overlap_block_release(block);
	free(block);
}

/* Activities of a line are enum pfw_activity, NONE or -ENOMEM. */
#define NONE PFW_ACTIVITIES

/* ---- I/O ---- */

static uint64_t moved(struct pfw_overlap_block *block, const struct pfw_entry *entry)
{
	struct pfw_io_call call = pfw_io_calls_find(&block->io, &entry->name);
	uint64_t bytes;

	if (call.moves != PFW_MOVES_NOTHING &&
	    pfw_io_moved(call, pfw_arg_i64(entry, "ret", -1), pfw_io_factor(call, entry), &bytes))
		return bytes;
	return 0;
}

/* Add a call of which the summary does not know all, that is kept, or maybe on no file. */
static NOT_INLINE int add_call(struct pfw_overlap_block *block, const struct pfw_entry *entry,
			       const struct pfw_summary_last *known, int64_t begin, int64_t end)
{
	uint64_t bytes = block->no_bytes ? 0 : known ? known->bytes : moved(block, entry);
	struct pfw_slice fname = known ? known->fname : (struct pfw_slice){ 0 };
	bool named = known ? fname.at != NULL : pfw_arg_text(entry, "fname", &fname);

	block->sums.io_calls++;
	pfw_saturate_u64(&block->sums.io_bytes, bytes);
	if (block->keep_calls && PFW_PUSH(block->call, block->calls, block->call_room,
					  (struct pfw_overlap_call){ begin, end, bytes }))
		return -ENOMEM;
	if (named && !pfw_io_names_file(&fname))
		return 0;
	return pfw_intervals_add(&block->active[PFW_ACTIVITY_IO], begin, end);
}

static inline int add_io(struct pfw_overlap_block *block, const struct pfw_entry *entry,
			 const struct pfw_summary *summary, int64_t begin, int64_t end)
{
	const struct pfw_summary_last *known = summary && summary->last.call ? &summary->last
									     : NULL;
	const char *fname = known ? known->fname.at : NULL;

	/* Mostly it begins with '/', and a file has a name. */
	if (!known || block->no_bytes || block->keep_calls || (fname && *fname != '/'))
		return add_call(block, entry, known, begin, end);
	block->sums.io_calls++;
	pfw_saturate_u64(&block->sums.io_bytes, known->bytes);
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
	return pfw_slice_begins(name, "nvshmem");
}

/* As find_communication(), cached: names are long, and repeat. */
static bool communicates(struct pfw_overlap_block *block, const struct pfw_slice *name)
{
	struct pfw_overlap_kernel *known;

	if (!name->bytes || name->bytes > sizeof(known->text))
		return find_communication(name);
	known = &block->kernel[((unsigned char)name->at[name->bytes / 2] +
				(unsigned char)name->at[name->bytes / 4] * 3u + name->bytes) %
			       PFW_OVERLAP_KERNELS];
	if (known->bytes != name->bytes || memcmp(known->text, name->at, name->bytes) != 0) {
		memcpy(known->text, name->at, name->bytes);
		known->bytes = (uint8_t)name->bytes;
		known->communicates = find_communication(name);
	}
	return known->communicates;
}

/* Whether a call of the CUDA or HIP runtime or driver launches a kernel. */
static bool launches(const struct pfw_slice *name)
{
	static const char launch[] = "Launch";
	const size_t bytes = sizeof(launch) - 1;
	const char *at = name->at, *end = at + name->bytes;

	/* Mostly the first L is its begin; memmem() takes several times as long. */
	for (; (at = memchr(at, *launch, (size_t)(end - at))); at++) {
		if ((size_t)(end - at) >= bytes && memcmp(at, launch, bytes) == 0)
			return true;
	}
	return false;
}

/* ---- what a line is, by its name, cat, kind and device ---- */

enum what { IDLE, CALL, KERNEL, COMM, LAUNCH, COPY, STEP, CPU, LOAD, WAIT };

/* Lines of DFTracer's handler for torch's profiler have no kind, only the device. */
static enum what find_unkind(struct pfw_overlap_block *block, const struct pfw_entry *entry)
{
	const struct pfw_slice *name = &entry->name;

	if (pfw_arg_i64(entry, "device", 0) != 1)
		return pfw_slice_begins(name, "cuda") || pfw_slice_begins(name, "hip") ? IDLE : CPU;
	if (pfw_slice_begins(name, "Memcpy") || pfw_slice_begins(name, "Memset"))
		return COPY;
	return communicates(block, name) ? COMM : KERNEL;
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

/* Spans that the user declares to be compute: from the program, NVTX or torch. */
static enum what find_declared(const struct pfw_overlap_block *block, const struct pfw_entry *entry)
{
	if (!block->compute || !block->compute->count || pfw_arg_i64(entry, "device", 0) != 0)
		return IDLE;
	return matches(block->compute, &entry->name) || matches(block->compute, &entry->cat) ? CPU
											     : IDLE;
}

static enum what find_compute(struct pfw_overlap_block *block, const struct pfw_entry *entry)
{
	struct pfw_slice kind;
	uint64_t number;
	bool known = pfw_arg_text(entry, "kind", &kind);

	if (known && pfw_slice_is(&kind, "kernel"))
		return communicates(block, &entry->name) ? COMM : KERNEL;
	if (known && (pfw_slice_is(&kind, "runtime") || pfw_slice_is(&kind, "driver")))
		return launches(&entry->name) ? LAUNCH : IDLE;
	if (known && (pfw_slice_is(&kind, "memcpy") || pfw_slice_is(&kind, "memset")))
		return COPY;
	if (pfw_is_step_name(entry->name.at, entry->name.bytes, &number))
		return STEP;
	if (pfw_slice_begins(&entry->name, PFW_LOADER_NAME))
		return LOAD;
	if (known && pfw_slice_is(&kind, "annotation"))
		return find_declared(block, entry);
	if (known)
		return pfw_slice_is(&kind, "cpu_op") ? CPU : IDLE;
	return find_unkind(block, entry);
}

static enum what find_what(struct pfw_overlap_block *block, const struct pfw_entry *entry)
{
	if (pfw_slice_is(&entry->cat, "PP"))
		return find_compute(block, entry);
	if (pfw_is_file_io(&entry->cat))
		return CALL;
	if (pfw_is_io(&entry->cat)) /* a thread that waits for its peer is no file access */
		return pfw_slice_is(&entry->cat, "SYNC") ? WAIT : IDLE;
	/* DFTracer's categories for AI programs. */
	if (pfw_slice_is(&entry->cat, "dataloader") ||
	    pfw_slice_begins(&entry->name, PFW_LOADER_NAME))
		return LOAD;
	return pfw_slice_is(&entry->cat, "compute") ? CPU : find_declared(block, entry);
}

/* The same, which a cache keeps if lines of one form are alike; else *known is only of this line. */
static const struct pfw_overlap_known *learn(struct pfw_overlap_block *block,
					     const struct pfw_entry *entry,
					     struct pfw_overlap_known *known)
{
	struct pfw_overlap_known *cell = &block->known[entry->form % PFW_ENTRY_NUMBERS];

	*known = (struct pfw_overlap_known){ .what = find_what(block, entry) };
	if (!entry->named || pfw_entry_varies(entry, "kind") || pfw_entry_varies(entry, "device"))
		return known;
	*cell = *known;
	cell->named = entry->named;
	cell->form = entry->form;
	cell->correlation = pfw_entry_place(entry, "correlation");
	return cell;
}

/* The correlation of a launch and its kernels; 0: none. */
static inline int64_t correlation_of(const struct pfw_entry *entry,
				     const struct pfw_overlap_known *known)
{
	int64_t number;

	if (!known->form)
		return pfw_arg_i64(entry, "correlation", 0);
	return known->correlation && pfw_entry_i64(entry, known->correlation - 1u, &number) ? number
											    : 0;
}

/* A launch, or a kernel. */
static NOT_INLINE int add_gap_end(struct pfw_overlap_block *block, const struct pfw_entry *entry,
				  const struct pfw_overlap_known *known, int64_t begin, int64_t end)
{
	bool launch = known->what == LAUNCH;
	struct pfw_gap_ends *ends = launch ? &block->launches : &block->kernels;
	struct pfw_gap_end gap_end = { .process = entry->process,
				       .correlation = (uint64_t)correlation_of(entry, known),
				       .ns = entry->ts_ns };

	if (gap_end.correlation && PFW_PUSH(ends->at, ends->count, ends->room, gap_end))
		return -ENOMEM;
	if (launch)
		return 0;
	block->sums.kernels++;
	return pfw_intervals_add(
		&block->active[known->what == COMM ? PFW_ACTIVITY_COMM : PFW_ACTIVITY_GPU], begin,
		end);
}

static int add_active(struct pfw_overlap_block *block, enum pfw_activity activity, int64_t begin,
		      int64_t end)
{
	return pfw_intervals_add(&block->active[activity], begin, end);
}

static int add_copy(struct pfw_overlap_block *block, const struct pfw_entry *entry, int64_t begin,
		    int64_t end)
{
	int64_t bytes = pfw_arg_i64(entry, "bytes", 0);

	block->sums.copies++;
	pfw_saturate_u64(&block->sums.copy_bytes, bytes > 0 ? (uint64_t)bytes : 0);
	return add_active(block, PFW_ACTIVITY_COPY, begin, end);
}

static int add_step(struct pfw_overlap_block *block, const struct pfw_entry *entry, int64_t begin,
		    int64_t end)
{
	struct pfw_overlap_span step = { .begin = begin, .end = end };
	struct pfw_overlap_spans *steps = &block->steps;

	if (!pfw_is_step(entry, &step.number))
		return 0;
	return PFW_PUSH(steps->at, steps->count, steps->room, step);
}

/* Lines without a case of their own in add_known(), which runs for every line. */
static NOT_INLINE int add_rare(struct pfw_overlap_block *block, const struct pfw_entry *entry,
			       const struct pfw_overlap_known *known, int64_t begin, int64_t end)
{
	switch ((enum what)known->what) {
	case COPY:
		return add_copy(block, entry, begin, end);
	case STEP:
		return add_step(block, entry, begin, end);
	case LOAD:
		return add_active(block, PFW_ACTIVITY_LOAD, begin, end);
	case WAIT:
		return add_active(block, PFW_ACTIVITY_WAIT, begin, end);
	default:
		return 0;
	}
}

__attribute__((always_inline)) static inline int add_known(struct pfw_overlap_block *block,
							   const struct pfw_entry *entry,
							   const struct pfw_summary *summary,
							   const struct pfw_overlap_known *known,
							   int64_t begin, int64_t end)
{
	switch ((enum what)known->what) {
	case IDLE:
		return 0;
	case CPU:
		return pfw_intervals_add(&block->active[PFW_ACTIVITY_CPU], begin, end);
	case CALL:
		return add_io(block, entry, summary, begin, end);
	case KERNEL:
	case COMM:
	case LAUNCH:
		return add_gap_end(block, entry, known, begin, end);
	default:
		return add_rare(block, entry, known, begin, end);
	}
}

static NOT_INLINE int add_new(struct pfw_overlap_block *block, const struct pfw_entry *entry,
			      const struct pfw_summary *summary, int64_t begin, int64_t end)
{
	struct pfw_overlap_known alone;

	return add_known(block, entry, summary, learn(block, entry, &alone), begin, end);
}

/* ---- lines ---- */

/* Whether calls of that name are calls on files. */
static bool is_on_files(const struct pfw_slice *name)
{
	const char *text = pfw_io_call_cat(name->at, name->bytes);
	const struct pfw_slice cat = { .at = text, .bytes = (uint32_t)strlen(text) };

	return pfw_is_file_io(&cat);
}

/* The tracer's own lines: the owner of the trace, and calls too short for a line each. */
static NOT_INLINE int add_metadata(struct pfw_overlap_block *block, const struct pfw_entry *entry)
{
	struct pfw_io_sums sums;
	struct pfw_slice name;

	if (!pfw_slice_is(&entry->cat, "pfw"))
		return 0;
	if (pfw_slice_is(&entry->name, "process") || pfw_slice_is(&entry->name, "rank")) {
		const struct pfw_overlap_owner owner = { .known = true,
							 .rank = pfw_arg_i64(entry, "rank", -1) };

		if (owner.rank >= 0)
			pfw_overlap_add_owner(&block->owner, &owner);
	}
	if (!pfw_slice_is(&entry->name, "summed") || !pfw_io_summed(entry, &sums) ||
	    (pfw_arg_text(entry, "name", &name) && !is_on_files(&name)))
		return 0;
	pfw_saturate_u64(&block->sums.summed_calls, sums.calls);
	pfw_saturate_sum(&block->sums.summed_ns, sums.ns);
	return 0;
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

/* Add an event that is not all in the block's range, to which it is cut; a negative duration counts as 0. */
static NOT_INLINE int add_cut(struct pfw_overlap_block *block, const struct pfw_entry *entry,
			      const struct pfw_summary *summary, int64_t begin, int64_t end)
{
	if (begin >= block->until_ns || (end <= block->since_ns && begin < block->since_ns))
		return 0;
	begin = begin < block->since_ns ? block->since_ns : begin;
	end = end > block->until_ns ? block->until_ns : end < begin ? begin : end;
	note_times(block, begin, end);
	return entry->ph == 'X' ? add_new(block, entry, summary, begin, end) : 0;
}

int pfw_overlap_block_add(void *overlap_block, const struct pfw_entry *entry,
			  const struct pfw_summary *summary)
{
	struct pfw_overlap_block *block = overlap_block;
	const struct pfw_overlap_known *known = &block->known[entry->form % PFW_ENTRY_NUMBERS];
	int64_t begin = entry->ts_ns, end = pfw_saturate_add(entry->ts_ns, entry->dur_ns);

	if (entry->ph == 'M')
		return add_metadata(block, entry);
	if (!(entry->has & ~entry->wrong & PFW_ENTRY_TS))
		return 0;
	if (begin < block->since_ns || end < begin || end >= block->until_ns)
		return add_cut(block, entry, summary, begin, end);
	note_times(block, begin, end);
	if (entry->ph != 'X')
		return 0;
	if (!entry->form || known->form != entry->form || known->named != entry->named)
		return add_new(block, entry, summary, begin, end);
	return add_known(block, entry, summary, known, begin, end);
}
