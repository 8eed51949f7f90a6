/* store/summary/add.c - adds one line to a summary: the hot path. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "common/base/order.h"
#include "store/line/io.h"
#include "store/line/step_name.h"
#include "store/pass/fname_hashes.h"
#include "store/summary/rows.h"
#include "store/summary/summary.h"

/* ---- rows ---- */

/* The row of a name or cat that has escapes. */
static int64_t escaped_name_row(struct pfw_summary *summary, const struct pfw_entry *entry)
{
	size_t cat_bytes, name_bytes;
	char *text = malloc(entry->cat.bytes + entry->name.bytes + 2), *name;
	int64_t row;

	if (!text)
		return -ENOMEM;
	cat_bytes = pfw_slice_decode(&entry->cat, text, entry->cat.bytes + 1);
	name = text + cat_bytes + 1;
	name_bytes = pfw_slice_decode(&entry->name, name, entry->name.bytes + 1);
	row = pfw_summary_name_row(summary, text, cat_bytes, name, name_bytes, entry->ph);
	free(text);
	return row;
}

static inline bool is_step(const struct pfw_entry *entry)
{
	uint64_t number;

	return pfw_is_step_name(entry->name.at, entry->name.bytes, &number) &&
	       pfw_slice_is(&entry->cat, "PP");
}

static int64_t name_row(struct pfw_summary *summary, const struct pfw_entry *entry)
{
	static const char steps[] = PFW_SUMMARY_STEPS;

	if (is_step(entry))
		return pfw_summary_name_row(summary, entry->cat.at, entry->cat.bytes, steps,
					    sizeof(steps) - 1, entry->ph);
	if (entry->name.escaped || entry->cat.escaped)
		return escaped_name_row(summary, entry);
	return pfw_summary_name_row(summary, entry->cat.at, entry->cat.bytes, entry->name.at,
				    entry->name.bytes, entry->ph);
}

/* Fill the cell of a line's name.  0 or -ENOMEM. */
static __attribute__((noinline)) int find_name(struct pfw_summary *summary,
					       const struct pfw_entry *entry,
					       struct pfw_summary_recent *recent)
{
	int64_t row = name_row(summary, entry);
	struct pfw_io_call call;

	if (row < 0)
		return (int)row;
	call = (struct pfw_io_call){ summary->name[row].role, summary->name[row].moves };
	if (!row)
		call = pfw_summary_call(entry->cat.at, entry->cat.bytes, entry->name.at,
					entry->name.bytes);
	*recent =
		(struct pfw_summary_recent){ .named = entry->named,
					     .row = (uint32_t)row,
					     .ph = entry->ph,
					     .io = entry->ph == 'X' && call.role != PFW_ROLE_NONE &&
						   call.role != PFW_SUMMARY_STEP,
					     .role = call.role,
					     .moves = call.moves };
	return 0;
}

static int64_t file_row(struct pfw_summary *summary, const struct pfw_slice *fname)
{
	char *text;
	int64_t row;

	if (!fname->escaped)
		return pfw_summary_file_row(summary, fname->at, fname->bytes);
	text = malloc(fname->bytes + 1);
	if (!text)
		return -ENOMEM;
	row = pfw_summary_file_row(summary, text, pfw_slice_decode(fname, text, fname->bytes + 1));
	free(text);
	return row;
}

/* ---- args ---- */

/* The args that add_io() needs. */
struct io_args {
	struct pfw_value fname;
	int64_t ret;
	bool has_fname, has_ret;
};

/* Find them in a line whose args are not all in arg[]. */
static void search_args(struct io_args *args, const struct pfw_entry *entry)
{
	struct pfw_value ret;

	args->has_fname = pfw_entry_arg(entry, "fname", &args->fname);
	args->has_ret = pfw_entry_arg(entry, "ret", &ret) && pfw_value_i64(&ret, &args->ret);
}

static inline void find_args(struct io_args *args, struct pfw_summary_recent *recent,
			     const struct pfw_entry *entry)
{
	uint8_t fname = recent->fname, ret = recent->ret;
	struct pfw_slice unused;

	if (entry->args_more) {
		search_args(args, entry);
		return;
	}
	if (!entry->form || recent->form != entry->form) {
		fname = recent->fname = pfw_entry_place(entry, "fname");
		ret = recent->ret = pfw_entry_place(entry, "ret");
		recent->form = entry->named ? entry->form : 0;
	}
	args->has_fname = fname;
	if (fname)
		pfw_entry_pair(entry, fname - 1, &unused, &args->fname);
	args->has_ret = ret && pfw_entry_i64(entry, ret - 1, &args->ret);
}

/* ---- lines ---- */

static bool has_dur(const struct pfw_entry *entry)
{
	return (entry->has & ~entry->wrong & PFW_ENTRY_DUR) != 0;
}

static uint64_t duration_of(const struct pfw_entry *entry)
{
	return has_dur(entry) && entry->dur_ns > 0 ? (uint64_t)entry->dur_ns : 0;
}

void pfw_summary_add_calls(struct pfw_summary_file *file, struct pfw_io_call call, uint64_t count,
			   uint64_t ns, uint64_t bytes)
{
	if (call.moves != PFW_MOVES_NOTHING) {
		pfw_saturate_u64(&file->transfers, count);
		pfw_saturate_u64(&file->transfer_ns, ns);
	}
	switch (call.role) {
	case PFW_ROLE_OPEN:
		pfw_saturate_u64(&file->opens, count);
		pfw_saturate_u64(&file->open_ns, ns);
		break;
	case PFW_ROLE_READ:
	case PFW_ROLE_COPY:
		pfw_saturate_u64(&file->reads, count);
		pfw_saturate_u64(&file->read_ns, ns);
		pfw_saturate_u64(&file->read_bytes, bytes);
		break;
	case PFW_ROLE_WRITE:
		pfw_saturate_u64(&file->writes, count);
		pfw_saturate_u64(&file->write_ns, ns);
		pfw_saturate_u64(&file->written_bytes, bytes);
		break;
	default:
		pfw_saturate_u64(&file->others, count);
		pfw_saturate_u64(&file->other_ns, ns);
		break;
	}
}

/* Add the write half of a copy.  Its time counts for the file that was read. */
static int add_target(struct pfw_summary *summary, const struct pfw_entry *entry, uint64_t bytes)
{
	struct pfw_slice target;
	int64_t row;

	if (!pfw_arg_text(entry, "target", &target))
		return 0;
	row = file_row(summary, &target);
	if (row < 0)
		return (int)row;
	summary->file[row].writes++;
	summary->file[row].transfers++;
	pfw_saturate_u64(&summary->file[row].written_bytes, bytes);
	return 0;
}

static __attribute__((noinline)) int add_io(struct pfw_summary *summary,
					    const struct pfw_entry *entry,
					    struct pfw_summary_recent *recent)
{
	const struct pfw_io_call call = { recent->role, recent->moves };
	struct pfw_summary_last *last = &summary->last;
	struct pfw_slice fname = { .at = NULL };
	uint64_t bytes, ns = duration_of(entry);
	struct io_args args;
	int64_t row = 0, ret;

	find_args(&args, recent, entry);
	if ((args.has_fname ||
	     (summary->fnames && pfw_fname_hashes_find(summary->fnames, entry, &args.fname))) &&
	    args.fname.type == PFW_VALUE_STRING)
		fname = args.fname.text;
	last->call = args.has_ret;
	ret = args.has_ret ? args.ret : -1;
	last->call &= !entry->name.escaped;
	last->moved = pfw_io_moved(call, ret, pfw_io_factor(call, entry), &bytes);
	last->moves = call.moves != PFW_MOVES_NOTHING;
	last->bytes = bytes;
	last->ret = ret;
	last->fname = fname;
	if (call.moves != PFW_MOVES_NOTHING)
		pfw_summary_add_transfers(&summary->name[recent->row], 1, ns, bytes);
	else
		pfw_saturate_u64(&summary->name[recent->row].bytes, pfw_io_unmoved(entry));
	if (fname.at) {
		row = file_row(summary, &fname);
		if (row < 0)
			return (int)row;
		summary->file[row].lines++;
	}
	last->file = (uint32_t)row;
	pfw_summary_add_calls(&summary->file[row], call, 1, ns, bytes);
	return call.role == PFW_ROLE_COPY ? add_target(summary, entry, bytes) : 0;
}

#ifdef __SSE2__
/* Whether `"f` begins in one of these 16 bytes. */
static inline bool may_begin(const char *at)
{
	__m128i these = _mm_loadu_si128((const __m128i *)at);
	__m128i next = _mm_loadu_si128((const __m128i *)(at + 1));

	return _mm_movemask_epi8(_mm_and_si128(_mm_cmpeq_epi8(these, _mm_set1_epi8('"')),
					       _mm_cmpeq_epi8(next, _mm_set1_epi8('f'))));
}
#endif

/* Whether the unparsed args contain `"fname"`.  Most lines have none, so this must be fast. */
static bool has_fname(const struct pfw_slice *args)
{
	const char *at = args->at, *end = at + args->bytes;

#ifdef __SSE2__
	for (; end - at > 17 && !may_begin(at); at += 16)
		;
	if (end - at <= 17 && end - args->at > 17 && !may_begin(end - 17))
		return false;
#endif
	return memmem(at, (size_t)(end - at), "\"fname\"", 7) != NULL;
}

/* Lines other than libc calls may name a file, too. */
static int add_fname(struct pfw_summary *summary, const struct pfw_entry *entry)
{
	struct pfw_slice fname;
	int64_t row;

	if ((entry->args_more && !has_fname(&entry->args)) || !pfw_arg_text(entry, "fname", &fname))
		return 0;
	row = file_row(summary, &fname);
	if (row < 0)
		return (int)row;
	summary->file[row].lines++;
	return 0;
}

static void add_memory(struct pfw_summary_name *name, const struct pfw_entry *entry)
{
	uint64_t bytes;

	if (pfw_memory_moved(entry, &bytes))
		pfw_summary_add_transfers(name, 1, duration_of(entry), bytes);
}

static void add_times(struct pfw_summary *summary, const struct pfw_entry *entry, int64_t end_ns)
{
	PFW_LOWER(summary->least_ns, entry->ts_ns);
	PFW_RAISE(summary->greatest_ns, end_ns);
	if (entry->ph == 'M')
		return;
	if (summary->first_ns == INT64_MAX)
		summary->first_ns = entry->ts_ns;
	else if (entry->ts_ns < summary->last_ns)
		summary->sorted = false;
	summary->last_ns = entry->ts_ns;
}

static int add_thread(struct pfw_summary *summary, const struct pfw_entry *entry, int64_t end_ns,
		      bool call)
{
	struct pfw_summary_thread *thread = &summary->thread[summary->last_thread];
	int64_t row = summary->last_thread;

	if (!row || thread->tid != entry->tid || thread->pid != entry->pid) {
		row = pfw_summary_thread_row(summary, entry->pid, entry->tid);
		if (row < 0)
			return (int)row;
		thread = &summary->thread[row];
	}
	thread->lines++;
	if (entry->has & ~entry->wrong & PFW_ENTRY_TS) {
		PFW_LOWER(thread->first_ns, entry->ts_ns);
		PFW_RAISE(thread->last_ns, end_ns);
		if (call)
			pfw_summary_join_calls(summary, (uint32_t)row, entry->ts_ns, end_ns);
		add_times(summary, entry, end_ns);
	} else {
		summary->untimed = true;
	}
	return entry->ph == 'M' && pfw_slice_is(&entry->cat, "pfw")
		       ? pfw_summary_own_line(summary, entry, (uint32_t)row)
		       : 0;
}

static int add_duration(struct pfw_summary_name *name, int64_t ns)
{
	name->sum_ns += ns;
	PFW_LOWER(name->min_ns, ns);
	PFW_RAISE(name->max_ns, ns);
	return pfw_sketch_add(&name->durations, ns);
}

/* Whether no line of the form names a file, or says that it moved memory. */
static bool is_plain(const struct pfw_entry *entry)
{
	struct pfw_value value;
	uint64_t bytes;

	return entry->form && entry->named && !pfw_entry_varies(entry, "kind") &&
	       !pfw_memory_moved(entry, &bytes) && !pfw_entry_arg(entry, "bytes", &value) &&
	       !pfw_entry_arg(entry, "fname", &value) && entry->ph != 'M';
}

/* Add what lines of this name, which are no calls, have besides count and time. */
static __attribute__((noinline)) int add_args(struct pfw_summary *summary,
					      const struct pfw_entry *entry,
					      struct pfw_summary_recent *recent)
{
	struct pfw_summary_name *name = &summary->name[recent->row];
	int error = 0;

	if (recent->role != PFW_SUMMARY_STEP && is_plain(entry))
		recent->form = entry->form;
	if (pfw_io_is_mapping(entry))
		pfw_saturate_u64(&name->bytes, pfw_io_unmoved(entry));
	if (recent->moves == PFW_MOVES_BYTES)
		add_memory(name, entry);
	if (recent->role == PFW_SUMMARY_STEP)
		error = pfw_summary_step_line(summary, entry);
	return error ? error : add_fname(summary, entry);
}

int pfw_summary_add(struct pfw_summary *summary, const struct pfw_entry *entry)
{
	struct pfw_summary_recent *recent = &summary->recent[entry->named % PFW_ENTRY_NUMBERS];
	struct pfw_summary_last *last = &summary->last;
	struct pfw_summary_name *name;
	int64_t end_ns;
	int error = 0;

	if (!entry->named || recent->named != entry->named || recent->ph != entry->ph)
		error = find_name(summary, entry, recent);
	if (error)
		return error;
	summary->lines++;
	summary->events += entry->ph != 'M';
	last->name = recent->row;
	last->io = recent->io;
	last->moves = last->call = false;
	last->bytes = 0;
	name = &summary->name[recent->row];
	name->count++;
	if (has_dur(entry) && add_duration(name, entry->dur_ns))
		return -ENOMEM;
	if (__builtin_add_overflow(entry->ts_ns, entry->dur_ns, &end_ns))
		end_ns = INT64_MAX;
	error = add_thread(summary, entry, end_ns, recent->io);
	if (error)
		return error;
	if (recent->io)
		return add_io(summary, entry, recent);
	/* No line of a noted form has more. */
	return entry->form && recent->form == entry->form ? 0 : add_args(summary, entry, recent);
}
