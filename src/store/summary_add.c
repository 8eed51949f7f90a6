/* summary_add.c - adding one line to a summary: the part that is done for each of millions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "call.h"
#include "fnames.h"
#include "summary.h"
#include "summary_lines.h"
#include "summary_rows.h"

/* What a call's args say of a file and of bytes. */
struct io_args {
	struct pfw_slice fname; /* at NULL: none */
	bool has_ret;
	int64_t ret;
};

/* ---- rows ---- */

/* The row of a name or cat with escapes in it. */
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

/* Whether a line is a step.  Almost none is, so look at eight bytes first. */
static inline bool is_step(const struct pfw_entry *entry)
{
	static const char word[] = "Profiler";
	uint64_t number;

	return entry->name.bytes > 8 && memcmp(entry->name.at, word, 8) == 0 &&
	       pfw_summary_is_step(entry->name.at, entry->name.bytes, &number) &&
	       pfw_slice_is(&entry->cat, "PP");
}

static inline int64_t name_row(struct pfw_summary *summary, const struct pfw_entry *entry)
{
	static const char steps[] = PFW_SUMMARY_STEPS;

	if (__builtin_expect(is_step(entry), 0))
		return pfw_summary_name_row(summary, entry->cat.at, entry->cat.bytes, steps,
					    sizeof(steps) - 1, entry->ph);
	if (__builtin_expect(entry->name.escaped || entry->cat.escaped, 0))
		return escaped_name_row(summary, entry);
	return pfw_summary_name_row(summary, entry->cat.at, entry->cat.bytes, entry->name.at,
				    entry->name.bytes, entry->ph);
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

/* Inlined, so that the length and the comparison of a constant become constants too. */
__attribute__((always_inline)) static inline bool take(const char **at, const char *end,
						       const char *word, size_t bytes)
{
	if ((size_t)(end - *at) < bytes || memcmp(*at, word, bytes) != 0)
		return false;
	*at += bytes;
	return true;
}
#define TAKE(at, end, word) take(at, end, word, sizeof(word) - 1)

/* A whole number of at most 18 digits with a comma or brace behind it. */
static bool take_number(const char **at, const char *end, int64_t *number)
{
	bool negative = *at < end && **at == '-';
	const char *start = *at += negative;
	int64_t sum = 0;

	while (*at < end && (uint8_t)(**at - '0') < 10 && *at - start < 18)
		sum = sum * 10 + (*(*at)++ - '0');
	*number = negative ? -sum : sum;
	return *at > start && *at < end && (**at == ',' || **at == '}');
}

static inline bool is_key(const struct pfw_entry *entry, const struct pfw_entry_pair *arg,
			  const char *key, size_t bytes)
{
	return arg->key_bytes == bytes && memcmp(entry->line + arg->key, key, bytes) == 0;
}
#define IS_KEY(entry, arg, key) is_key(entry, arg, key, sizeof(key) - 1)

/* The args of a call as the recorder writes them: fname, fd where there is one, ret. */
static bool read_args_fast(const struct pfw_entry *entry, struct io_args *io)
{
	const struct pfw_entry_pair *arg = entry->arg, *end = arg + entry->arg_count;
	const char *at;

	io->fname.at = NULL;
	if (entry->args_more || end - arg < 2 || !IS_KEY(entry, arg, "fname"))
		return false;
	if (arg->type == PFW_VALUE_STRING)
		io->fname = (struct pfw_slice){ .at = entry->line + arg->value + 1,
						.bytes = arg->bytes - 2,
						.escaped = arg->escaped };
	else if (arg->type != PFW_VALUE_NULL)
		return false;
	arg++;
	arg += IS_KEY(entry, arg, "fd");
	io->has_ret = arg < end && IS_KEY(entry, arg, "ret");
	at = entry->line + arg->value;
	return io->has_ret && take_number(&at, entry->args.at + entry->args.bytes, &io->ret);
}

static void read_args(const struct pfw_entry *entry, struct io_args *io)
{
	struct pfw_value value;

	if (read_args_fast(entry, io))
		return;
	io->fname.at = NULL;
	if (pfw_entry_arg(entry, "fname", &value) && value.type == PFW_VALUE_STRING)
		io->fname = value.text;
	io->has_ret = pfw_entry_arg(entry, "ret", &value) && pfw_value_i64(&value, &io->ret);
}

static uint64_t arg_u64(const struct pfw_entry *entry, const char *key)
{
	struct pfw_value value;
	uint64_t number;

	return pfw_entry_arg(entry, key, &value) && pfw_value_u64(&value, &number) ? number : 0;
}

static uint64_t io_bytes(const struct pfw_entry *entry, uint8_t moves, const struct io_args *io)
{
	uint64_t bytes;

	if (!io->has_ret || io->ret < 0)
		return 0;
	switch (moves) {
	case PFW_MOVES_RET:
		return (uint64_t)io->ret;
	case PFW_MOVES_ITEMS:
		return __builtin_mul_overflow((uint64_t)io->ret, arg_u64(entry, "size"), &bytes)
			       ? 0
			       : bytes;
	case PFW_MOVES_COUNT:
		return arg_u64(entry, "count");
	default:
		return 0;
	}
}

/* ---- lines ---- */

static bool has_dur(const struct pfw_entry *entry)
{
	return (entry->has & ~entry->wrong & PFW_ENTRY_DUR) != 0;
}

void pfw_summary_add_calls(struct pfw_summary_file *file, struct pfw_call call, uint64_t count,
			   uint64_t ns, uint64_t bytes)
{
	if (call.moves != PFW_MOVES_NOTHING) {
		file->transfers += count;
		file->transfer_ns += ns;
	}
	switch (call.role) {
	case PFW_CALL_OPEN:
		file->opens += count;
		file->open_ns += ns;
		break;
	case PFW_CALL_READ:
	case PFW_CALL_COPY:
		file->reads += count;
		file->read_ns += ns;
		file->read_bytes += bytes;
		break;
	case PFW_CALL_WRITE:
		file->writes += count;
		file->write_ns += ns;
		file->written_bytes += bytes;
		break;
	default:
		file->others += count;
		file->other_ns += ns;
		break;
	}
}

/* What a copy wrote to; its time counts where it read from. */
static int add_target(struct pfw_summary *summary, const struct pfw_entry *entry, uint64_t bytes)
{
	struct pfw_value value;
	int64_t row;

	if (!pfw_entry_arg(entry, "target", &value) || value.type != PFW_VALUE_STRING)
		return 0;
	row = file_row(summary, &value.text);
	if (row < 0)
		return (int)row;
	summary->file[row].writes++;
	summary->file[row].transfers++;
	summary->file[row].written_bytes += bytes;
	return 0;
}

static int add_io(struct pfw_summary *summary, const struct pfw_entry *entry, uint32_t name,
		  struct pfw_call call)
{
	struct io_args io;
	struct pfw_value value;
	uint64_t bytes, ns = has_dur(entry) && entry->dur_ns > 0 ? (uint64_t)entry->dur_ns : 0;
	int64_t row = 0;

	read_args(entry, &io);
	if (!io.fname.at && summary->fnames && pfw_fnames_find(summary->fnames, entry, &value) &&
	    value.type == PFW_VALUE_STRING)
		io.fname = value.text;
	bytes = io_bytes(entry, call.moves, &io);
	summary->name[name].bytes += bytes;
	if (io.fname.at) {
		row = file_row(summary, &io.fname);
		if (row < 0)
			return (int)row;
		summary->file[row].lines++;
	}
	pfw_summary_add_calls(&summary->file[row], call, 1, ns, bytes);
	return call.role == PFW_CALL_COPY ? add_target(summary, entry, bytes) : 0;
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

/* Whether `"fname"` is anywhere in the args, which nobody has taken apart yet.  Most lines have none, so
 * this must be fast. */
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

/* A line that is no call of libc may name a file all the same. */
static int add_fname(struct pfw_summary *summary, const struct pfw_entry *entry)
{
	struct pfw_value value;
	int64_t row;

	if ((entry->args_more && !has_fname(&entry->args)) ||
	    !pfw_entry_arg(entry, "fname", &value) || value.type != PFW_VALUE_STRING)
		return 0;
	row = file_row(summary, &value.text);
	if (row < 0)
		return (int)row;
	summary->file[row].lines++;
	return 0;
}

/* The bytes of a copy, a set or a use of memory. */
static uint64_t memory_bytes(const struct pfw_entry *entry)
{
	const char *at = entry->args.at, *end = at + entry->args.bytes;
	struct pfw_value kind;

	/* As the recorder writes it the kind comes first. */
	if (TAKE(&at, end, "{\"kind\":\"") && at < end && *at != 'm')
		return 0;
	if (!pfw_entry_arg(entry, "kind", &kind) ||
	    !(pfw_slice_is(&kind.text, "memcpy") || pfw_slice_is(&kind.text, "memset") ||
	      pfw_slice_is(&kind.text, "memory")))
		return 0;
	return arg_u64(entry, "bytes");
}

static void add_times(struct pfw_summary *summary, const struct pfw_entry *entry, int64_t end_ns)
{
	if (entry->ts_ns < summary->least_ns)
		summary->least_ns = entry->ts_ns;
	if (end_ns > summary->greatest_ns)
		summary->greatest_ns = end_ns;
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
	int64_t row = pfw_summary_thread_row(summary, entry->pid, entry->tid);
	struct pfw_summary_thread *thread;

	if (row < 0)
		return (int)row;
	thread = &summary->thread[row];
	thread->lines++;
	if (entry->has & ~entry->wrong & PFW_ENTRY_TS) {
		if (entry->ts_ns < thread->first_ns)
			thread->first_ns = entry->ts_ns;
		if (end_ns > thread->last_ns)
			thread->last_ns = end_ns;
		if (call)
			pfw_summary_join_calls(summary, (uint32_t)row, entry->ts_ns, end_ns);
		add_times(summary, entry, end_ns);
	}
	return entry->ph == 'M' && pfw_slice_is(&entry->cat, "pfw")
		       ? pfw_summary_own_line(summary, entry, (uint32_t)row)
		       : 0;
}

static int add_duration(struct pfw_summary_name *name, int64_t ns)
{
	name->sum_ns += ns;
	if (ns < name->min_ns)
		name->min_ns = ns;
	if (ns > name->max_ns)
		name->max_ns = ns;
	return pfw_sketch_add(&name->durations, ns);
}

static struct pfw_call call_of(const struct pfw_summary *summary, const struct pfw_entry *entry,
			       uint32_t name)
{
	if (!name)
		return pfw_summary_call(entry->cat.at, entry->cat.bytes, entry->name.at,
					entry->name.bytes);
	return (struct pfw_call){ .role = summary->name[name].role,
				  .moves = summary->name[name].moves };
}

static bool is_io(struct pfw_call call)
{
	return call.role != PFW_CALL_NONE && call.role != PFW_SUMMARY_STEP;
}

/* What belongs to lines of this name, beyond its count and time. */
static int add_args(struct pfw_summary *summary, const struct pfw_entry *entry, uint32_t name,
		    struct pfw_call call)
{
	int error = 0;

	if (is_io(call) && entry->ph == 'X')
		return add_io(summary, entry, name, call);
	if (call.moves == PFW_MOVES_BYTES)
		summary->name[name].bytes += memory_bytes(entry);
	if (call.role == PFW_SUMMARY_STEP)
		error = pfw_summary_step_line(summary, entry);
	return error ? error : add_fname(summary, entry);
}

int pfw_summary_add(struct pfw_summary *summary, const struct pfw_entry *entry)
{
	int64_t row = name_row(summary, entry), end_ns;
	struct pfw_summary_name *name;
	struct pfw_call call;
	int error;

	if (row < 0)
		return (int)row;
	summary->lines++;
	summary->events += entry->ph != 'M';
	name = &summary->name[row];
	name->count++;
	if (has_dur(entry) && add_duration(name, entry->dur_ns))
		return -ENOMEM;
	if (__builtin_add_overflow(entry->ts_ns, entry->dur_ns, &end_ns))
		end_ns = INT64_MAX;
	call = call_of(summary, entry, (uint32_t)row);
	error = add_thread(summary, entry, end_ns, entry->ph == 'X' && is_io(call));
	return error ? error : add_args(summary, entry, (uint32_t)row, call);
}
