/* summary_add.c - adding one line to a summary: the part that is done for each of millions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
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

static inline int64_t name_row(struct pfw_summary *summary, const struct pfw_entry *entry)
{
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

static bool take(const char **at, const char *end, const char *word, size_t bytes)
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

	while (*at < end && (uint8_t)(**at - '0') < 10)
		sum = sum * 10 + (*(*at)++ - '0');
	*number = negative ? -sum : sum;
	return *at > start && *at - start <= 18 && *at < end && (**at == ',' || **at == '}');
}

/* The text up to the quote that ends it. */
static bool take_text(const char **at, const char *end, struct pfw_slice *text)
{
	const char *quote = memchr(*at, '"', (size_t)(end - *at));

	/* With a backslash before it the quote may be part of the text: that takes a real reader. */
	if (!quote || (quote > *at && quote[-1] == '\\'))
		return false;
	text->at = *at;
	text->bytes = (size_t)(quote - *at);
	text->escaped = memchr(*at, '\\', text->bytes) != NULL;
	*at = quote + 1;
	return true;
}

/* The args of a call as the recorder writes them: fname, fd where there is one, ret. */
static bool read_args_fast(const struct pfw_slice *args, struct io_args *io)
{
	const char *at = args->at, *end = at + args->bytes;
	int64_t fd;

	io->fname.at = NULL;
	if (TAKE(&at, end, "{\"fname\":\"")) {
		if (!take_text(&at, end, &io->fname))
			return false;
	} else if (!TAKE(&at, end, "{\"fname\":null")) {
		return false;
	}
	if (TAKE(&at, end, ",\"fd\":") && !take_number(&at, end, &fd))
		return false;
	io->has_ret = TAKE(&at, end, ",\"ret\":");
	return io->has_ret && take_number(&at, end, &io->ret);
}

static void read_args(const struct pfw_entry *entry, struct io_args *io)
{
	struct pfw_value value;

	if (read_args_fast(&entry->args, io))
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

static void add_call(struct pfw_summary_file *file, uint8_t role, uint64_t ns, uint64_t bytes)
{
	file->lines++;
	switch (role) {
	case PFW_CALL_OPEN:
		file->opens++;
		file->open_ns += ns;
		break;
	case PFW_CALL_READ:
	case PFW_CALL_COPY:
		file->reads++;
		file->read_ns += ns;
		file->read_bytes += bytes;
		break;
	case PFW_CALL_WRITE:
		file->writes++;
		file->write_ns += ns;
		file->written_bytes += bytes;
		break;
	default:
		file->others++;
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
	summary->file[row].written_bytes += bytes;
	return 0;
}

static int add_io(struct pfw_summary *summary, const struct pfw_entry *entry, uint32_t name,
		  struct pfw_call call)
{
	struct io_args io;
	uint64_t bytes, ns = has_dur(entry) && entry->dur_ns > 0 ? (uint64_t)entry->dur_ns : 0;
	int64_t row;

	read_args(entry, &io);
	bytes = io_bytes(entry, call.moves, &io);
	summary->name[name].bytes += bytes;
	if (io.fname.at) {
		row = file_row(summary, &io.fname);
		if (row < 0)
			return (int)row;
		add_call(&summary->file[row], call.role, ns, bytes);
	}
	return call.role == PFW_CALL_COPY ? add_target(summary, entry, bytes) : 0;
}

/* A line that is no call of libc may name a file all the same. */
static int add_fname(struct pfw_summary *summary, const struct pfw_entry *entry)
{
	struct pfw_value value;
	int64_t row;

	if (entry->args.bytes < sizeof("{\"fname\":\"\"}") - 1 ||
	    !memmem(entry->args.at, entry->args.bytes, "\"fname\"", 7) ||
	    !pfw_entry_arg(entry, "fname", &value) || value.type != PFW_VALUE_STRING)
		return 0;
	row = file_row(summary, &value.text);
	if (row < 0)
		return (int)row;
	summary->file[row].lines++;
	return 0;
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

static int add_thread(struct pfw_summary *summary, const struct pfw_entry *entry, int64_t end_ns)
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
	call = (struct pfw_call){ .role = name->role, .moves = name->moves };
	if (!row && !entry->name.escaped && !entry->cat.escaped)
		call = pfw_call_find(entry->cat.at, entry->cat.bytes, entry->name.at,
				     entry->name.bytes);
	if (has_dur(entry) && add_duration(name, entry->dur_ns))
		return -ENOMEM;
	if (__builtin_add_overflow(entry->ts_ns, entry->dur_ns, &end_ns))
		end_ns = INT64_MAX;
	error = add_thread(summary, entry, end_ns);
	if (error)
		return error;
	if (call.role != PFW_CALL_NONE)
		return add_io(summary, entry, (uint32_t)row, call);
	if (call.moves == PFW_MOVES_BYTES) {
		/* Adding a row may have moved the rows. */
		summary->name[row].bytes += arg_u64(entry, "bytes");
		error = pfw_summary_step_line(summary, entry);
	}
	return error ? error : add_fname(summary, entry);
}
