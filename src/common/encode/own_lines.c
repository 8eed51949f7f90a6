/* common/encode/own_lines.c - the tracer's own lines: see own_lines.h. */
#include "common/encode/own_lines.h"

#include <string.h>

#include "common/encode/encode.h"
#include "common/encode/text.h"
#include "common/format/clock.h"

/* The header may be of a damaged spool: a member without a NUL ends with its array. */
static char *key_text(char *out, const char *key, const char *text, size_t size)
{
	return pfw_json_key_str(out, key, text, strnlen(text, size));
}

static uint64_t count_of(const _Atomic uint64_t *count)
{
	/* Each counter stands for itself, so no order is needed. */
	return atomic_load_explicit(count, memory_order_relaxed);
}

/* Own lines other than thread_name belong to the process: their tid is its pid. */
static char *begin(struct pfw_json *json, char *out, const char *name, uint64_t ts_ns)
{
	return pfw_json_begin(json, out, name, "M", json->pid, ts_ns);
}

static char *rank_keys(char *out, const struct pfw_spool_header *header)
{
	out = pfw_json_key_i64(out, "rank", header->rank);
	out = pfw_json_key_i64(out, "world_size", header->world_size);
	out = pfw_json_key_i64(out, "local_rank", header->local_rank);
	return key_text(out, "rank_source", header->rank_source, sizeof(header->rank_source));
}

char *pfw_line_process(struct pfw_json *json, char *out, const struct pfw_spool_header *header,
		       const char *spool, uint64_t tid)
{
	out = pfw_json_begin(json, out, "process", "M", tid, header->start_ns);
	out = pfw_json_key_u64(out, "format", PFW_TRACE_FORMAT);
	out = key_text(out, "version", header->version_text, sizeof(header->version_text));
	out = key_text(out, "run", header->run, sizeof(header->run));
	out = key_text(out, "host", header->host, sizeof(header->host));
	out = key_text(out, "boot", header->boot_id, sizeof(header->boot_id));
	out = rank_keys(out, header);
	out = pfw_json_key_i64(out, "ppid", header->ppid);
	out = key_text(out, "cmd", header->cmd, sizeof(header->cmd));
	out = pfw_json_key_us(out, "start_ts", header->start_ns);
	out = key_text(out, "clock", header->clock, sizeof(header->clock));
	if (spool)
		out = key_text(out, "spool", spool, PFW_PAGE_BYTES);
	if (header->stacks)
		out = pfw_append(out, ",\"stacks\":true");
	return pfw_json_end(json, out);
}

char *pfw_line_thread_name(struct pfw_json *json, char *out, uint64_t tid, const char comm[16],
			   uint64_t ts_ns)
{
	out = pfw_json_begin(json, out, "thread_name", "M", tid, ts_ns);
	out = key_text(out, "name", comm, 16);
	return pfw_json_end(json, out);
}

char *pfw_line_rank(struct pfw_json *json, char *out, const struct pfw_spool_header *header,
		    uint64_t ts_ns)
{
	out = begin(json, out, "rank", ts_ns);
	out = rank_keys(out, header);
	return pfw_json_end(json, out);
}

char *pfw_line_lost(struct pfw_json *json, char *out, unsigned reason, const struct pfw_loss *loss,
		    uint64_t ts_ns)
{
	static const char *const names[PFW_LOST_REASONS] = PFW_LOST_NAMES;
	const char *name = reason < PFW_LOST_REASONS ? names[reason] : "unknown";

	out = begin(json, out, "lost", ts_ns);
	out = key_text(out, "reason", name, sizeof("write_error"));
	out = pfw_json_key_u64(out, "count", count_of(&loss->count));
	out = pfw_json_key_us(out, "first_ts", count_of(&loss->first_ns));
	out = pfw_json_key_us(out, "last_ts", count_of(&loss->last_ns));
	return pfw_json_end(json, out);
}

char *pfw_line_waited(struct pfw_json *json, char *out, const struct pfw_loss *waited,
		      uint64_t ts_ns)
{
	if (!count_of(&waited->count))
		return out;
	out = begin(json, out, "waited", ts_ns);
	out = pfw_json_key_u64(out, "count", count_of(&waited->count));
	out = pfw_json_key_us(out, "total", count_of(&waited->last_ns));
	return pfw_json_end(json, out);
}

/* A line with a key for each count other than 0; none if all are 0. */
static char *counts_line(struct pfw_json *json, char *out, const char *line,
			 const _Atomic uint64_t *count, const char *const *name, unsigned names,
			 uint64_t ts_ns)
{
	uint64_t any = 0;

	for (unsigned i = 0; i < names; i++)
		any |= count_of(&count[i]);
	if (!any)
		return out;
	out = begin(json, out, line, ts_ns);
	for (unsigned i = 0; i < names; i++)
		if (count_of(&count[i]))
			out = pfw_json_key_u64(out, name[i], count_of(&count[i]));
	return pfw_json_end(json, out);
}

char *pfw_line_excluded(struct pfw_json *json, char *out,
			const _Atomic uint64_t excluded[PFW_EXCLUDED_REASONS], uint64_t ts_ns)
{
	static const char *const names[PFW_EXCLUDED_REASONS] = PFW_EXCLUDED_NAMES;

	return counts_line(json, out, "excluded", excluded, names, PFW_EXCLUDED_REASONS, ts_ns);
}

char *pfw_line_unrecorded(struct pfw_json *json, char *out,
			  const _Atomic uint64_t unrecorded[PFW_UNRECORDED_KINDS], uint64_t ts_ns)
{
	static const char *const names[PFW_UNRECORDED_KINDS] = PFW_UNRECORDED_NAMES;

	return counts_line(json, out, "unrecorded", unrecorded, names, PFW_UNRECORDED_KINDS, ts_ns);
}

char *pfw_line_stacks_lost(struct pfw_json *json, char *out,
			   const _Atomic uint64_t lost[PFW_STACKS_LOST_REASONS], uint64_t ts_ns)
{
	static const char *const names[PFW_STACKS_LOST_REASONS] = PFW_STACKS_LOST_NAMES;

	return counts_line(json, out, "stacks_lost", lost, names, PFW_STACKS_LOST_REASONS, ts_ns);
}

char *pfw_line_sums_full(struct pfw_json *json, char *out, uint64_t count, uint64_t ts_ns)
{
	if (!count)
		return out;
	out = begin(json, out, "sums_full", ts_ns);
	out = pfw_json_key_u64(out, "count", count);
	return pfw_json_end(json, out);
}

char *pfw_line_mapping(struct pfw_json *json, char *out, uint32_t name, uint64_t size,
		       uint64_t touched, uint64_t ts_ns)
{
	uint32_t bytes = 0;
	const char *fname = pfw_string_text(json->strings, name, &bytes);

	out = pfw_json_key_fname(begin(json, out, "mapping", ts_ns), fname, bytes);
	out = pfw_json_key_u64(out, "size", size);
	if (touched)
		out = pfw_json_key_u64(out, "touched", touched - 1);
	return pfw_json_end(json, out);
}

char *pfw_line_figures(struct pfw_json *json, char *out, const char *name,
		       const struct pfw_source_figure *figure, unsigned count, uint64_t ts_ns)
{
	if (!count)
		return out;
	out = begin(json, out, name, ts_ns);
	for (unsigned i = 0; i < count; i++)
		out = pfw_json_key_u64(out, figure[i].key, figure[i].value);
	return pfw_json_end(json, out);
}

char *pfw_line_clock_step(struct pfw_json *json, char *out, uint64_t from_ns, uint64_t to_ns)
{
	out = begin(json, out, "clock_step", to_ns);
	out = pfw_json_key_us(out, "from", from_ns);
	out = pfw_json_key_us(out, "to", to_ns);
	return pfw_json_end(json, out);
}

char *pfw_line_segment(struct pfw_json *json, char *out, uint64_t cycle, uint64_t first_step,
		       uint64_t steps, uint64_t first_id, uint64_t ts_ns)
{
	uint64_t last_id = json->next_id - 1;

	out = pfw_json_begin(json, out, "segment", "i", json->pid, ts_ns);
	out = pfw_json_key_u64(out, "cycle", cycle);
	out = pfw_json_key_u64(out, "first_step", first_step);
	out = pfw_json_key_u64(out, "steps", steps);
	out = pfw_json_key_u64(out, "first_id", first_id);
	out = pfw_json_key_u64(out, "last_id", last_id);
	return pfw_json_end(json, out);
}

char *pfw_line_dump(struct pfw_json *json, char *out, const struct pfw_dump_facts *facts,
		    uint64_t ts_ns)
{
	out = begin(json, out, "dump", ts_ns);
	out = key_text(out, "why", facts->why, PFW_DUMP_WHY_MAX);
	out = pfw_json_key_u64(out, "number", facts->number);
	out = pfw_json_key_us(out, "from_ts", facts->from_ns);
	out = pfw_json_key_u64(out, "overwritten", facts->overwritten);
	if (facts->refused)
		out = pfw_json_key_u64(out, "refused", facts->refused);
	return pfw_json_end(json, out);
}

void pfw_spool_profiled_lost(struct pfw_spool_header *header)
{
	struct pfw_loss *from = &header->profiled, *to = &header->lost[PFW_LOST_PROFILE];
	uint64_t count = atomic_exchange(&from->count, 0);

	if (!count)
		return;
	atomic_store(&to->first_ns, count_of(&from->first_ns));
	atomic_store(&to->last_ns, count_of(&from->last_ns));
	atomic_fetch_add(&to->count, count);
}

uint64_t pfw_spool_lost(const struct pfw_spool_header *header)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < PFW_LOST_REASONS; i++)
		sum += count_of(&header->lost[i].count);
	return sum;
}

char *pfw_line_end(struct pfw_json *json, char *out, const struct pfw_spool_header *header,
		   const char *reason, const char *exec_path, uint64_t ts_ns)
{
	out = begin(json, out, "end", ts_ns);
	out = pfw_json_key_u64(out, "events", json->events);
	out = pfw_json_key_u64(out, "lost", pfw_spool_lost(header));
	out = key_text(out, "reason", reason, 32);
	if (json->untraced)
		out = pfw_json_key_u64(out, "untraced_children", json->untraced);
	if (exec_path)
		out = key_text(out, "exec", exec_path, PFW_PAGE_BYTES);
	return pfw_json_end(json, out);
}

#define LOOKS_MAX 64 /* tries to read figures that change */

bool pfw_summed_since(const struct pfw_sum *sum, const struct pfw_sum_figures *known,
		      struct pfw_sum_news *news)
{
	const struct pfw_sum_figures *now;
	uint64_t turn;
	int looks = 0;

	do {
		turn = atomic_load_explicit(&sum->turn, memory_order_acquire);
		now = &sum->now[turn & 1];
		news->count = count_of(&now->count) - count_of(&known->count);
		news->failed = count_of(&now->failed) - count_of(&known->failed);
		news->ticks = count_of(&now->ticks) - count_of(&known->ticks);
		news->bytes = count_of(&now->bytes) - count_of(&known->bytes);
		atomic_thread_fence(memory_order_acquire);
	} while (count_of(&sum->turn) != turn && ++looks < LOOKS_MAX);
	return looks < LOOKS_MAX && news->count;
}

bool pfw_summed_left(const struct pfw_sum *sum, unsigned parity, struct pfw_sum_news *news)
{
	if (!(atomic_load_explicit(&sum->life, memory_order_relaxed) & 1) ||
	    !pfw_summed_since(sum, &sum->saved[parity], news))
		return false;
	news->call = sum->call;
	news->name = sum->name;
	/* Figures only grow: a negative difference means damage. */
	return (int64_t)news->count > 0 && (int64_t)news->failed >= 0 &&
	       (int64_t)news->ticks >= 0 && (int64_t)news->bytes >= 0;
}

char *pfw_summed_line(struct pfw_json *json, char *out, const struct pfw_sum_news *news,
		      uint64_t ts_ns)
{
	const char *name = json->templates->template[news->call].name, *fname;
	uint32_t bytes = 0;

	fname = pfw_string_text(json->strings, news->name, &bytes);
	out = pfw_json_begin(json, out, "summed", "M", json->pid, ts_ns);
	out = pfw_json_key_str(out, "name", name,
			       strnlen(name, sizeof(json->templates->template[0].name)));
	out = pfw_json_key_fname(out, fname, bytes);
	out = pfw_json_key_u64(out, "count", news->count);
	out = pfw_json_key_u64(out, "failed", news->failed);
	out = pfw_json_key_us(out, "dur", pfw_clock_map_ns(json->clock, news->ticks));
	out = pfw_json_key_u64(out, "bytes", news->bytes);
	return pfw_json_end(json, out);
}
