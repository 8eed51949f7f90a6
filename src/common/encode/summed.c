/* common/encode/summed.c - the sums of short calls in the spool; see summed.h. */
#include "common/encode/summed.h"

#include <string.h>

#include "common/encode/encode.h"
#include "common/format/clock.h"

#define LOOKS_MAX 64 /* tries to read figures that change */

static uint64_t load(const _Atomic uint64_t *figure)
{
	return atomic_load_explicit(figure, memory_order_relaxed);
}

bool pfw_summed_since(const struct pfw_sum *sum, const struct pfw_sum_figures *known,
		      struct pfw_sum_news *news)
{
	const struct pfw_sum_figures *now;
	uint64_t turn;
	int looks = 0;

	do {
		turn = atomic_load_explicit(&sum->turn, memory_order_acquire);
		now = &sum->now[turn & 1];
		news->count = load(&now->count) - load(&known->count);
		news->failed = load(&now->failed) - load(&known->failed);
		news->ticks = load(&now->ticks) - load(&known->ticks);
		news->bytes = load(&now->bytes) - load(&known->bytes);
		atomic_thread_fence(memory_order_acquire);
	} while (load(&sum->turn) != turn && ++looks < LOOKS_MAX);
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
