/* common/encode/steps.c - the step of an event: the last one begun before the event. */
#include "common/encode/frame.h"

/* The begin of the n-th step in the record's unit of time. */
static uint64_t began(struct pfw_json *json, const struct pfw_record *record, uint64_t n)
{
	const struct pfw_step_mark *mark = &json->steps->mark[n & (PFW_STEP_MARKS - 1)];
	uint64_t ticks = atomic_load_explicit(&mark->ticks, memory_order_relaxed);

	return record->flags & PFW_RECORD_EPOCH_NS ? pfw_json_epoch_ns(json, ticks) : ticks;
}

/*
 * The step and phase of a record: `step << 2 | phase`, 0 = none.  Records are nearly in order, so
 * the search starts at the mark found last.  The program may overwrite the oldest marks meanwhile:
 * the result counts only if its mark is still kept afterwards.
 */
static uint64_t find(struct pfw_json *json, const struct pfw_record *record)
{
	const struct pfw_steps_chunk *steps = json->steps;
	uint64_t head = atomic_load_explicit(&steps->head, memory_order_acquire), n, word;
	uint64_t oldest = head > PFW_STEP_MARKS - 1 ? head - (PFW_STEP_MARKS - 1) : 0;

	if (!head)
		return 0;
	n = json->step_hint < oldest ? oldest : json->step_hint < head ? json->step_hint : head - 1;
	while (n + 1 < head && began(json, record, n + 1) <= record->t0)
		n++;
	while (n > oldest && began(json, record, n) > record->t0)
		n--;
	json->step_hint = n;
	if (began(json, record, n) > record->t0)
		return 0;
	word = atomic_load_explicit(&steps->mark[n & (PFW_STEP_MARKS - 1)].step,
				    memory_order_relaxed);
	/* Pairs with the release of head: if the mark was being overwritten, head shows it. */
	atomic_thread_fence(memory_order_acquire);
	head = atomic_load_explicit(&steps->head, memory_order_relaxed);
	return head - n < PFW_STEP_MARKS ? word : 0;
}

char *pfw_json_put_step(struct pfw_json *json, char *out, const struct pfw_record *record,
			bool has_step, bool has_phase)
{
	uint64_t word = find(json, record);

	if (!(word & 3) || (record->flags & PFW_RECORD_COUNTER))
		return out;
	if (!has_step)
		out = pfw_append_u64(pfw_append(pfw_json_put_comma(out), "\"step\":"), word >> 2);
	if (has_phase)
		return out;
	return pfw_append(pfw_json_put_comma(out),
			  (word & 3) == 1 ? "\"phase\":\"warmup\"" : "\"phase\":\"active\"");
}
