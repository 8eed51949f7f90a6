/* tools/chrome/place.c - kind, place and arrows of a line on a timeline; see chrome.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "chrome/chrome.h"
#include "store/kit/grow.h"

static void take_arg(struct chrome_work *work, enum pfw_kineto_key key,
		     const struct pfw_value *value)
{
	switch (key) {
	case PFW_KINETO_KEY_kind:
		work->kind = pfw_kineto_kind(&value->text);
		break;
	case PFW_KINETO_KEY_device:
		pfw_value_i64(value, &work->device);
		break;
	case PFW_KINETO_KEY_device_index:
		pfw_value_i64(value, &work->device_index);
		break;
	case PFW_KINETO_KEY_stream:
		work->has_stream = pfw_value_u64(value, &work->stream);
		break;
	case PFW_KINETO_KEY_correlation:
		work->has_correlation = pfw_value_u64(value, &work->correlation);
		break;
	case PFW_KINETO_KEY_static_smem:
		work->smem = pfw_value_u64(value, &work->static_smem);
		break;
	case PFW_KINETO_KEY_dynamic_smem:
		work->smem = pfw_value_u64(value, &work->dynamic_smem);
		break;
	case PFW_KINETO_KEY_sequence:
		work->has_sequence = pfw_value_u64(value, &work->sequence);
		break;
	case PFW_KINETO_KEY_fwd_tid:
		pfw_value_u64(value, &work->fwd_tid);
		break;
	case PFW_KINETO_KEY_host_pid:
		pfw_value_u64(value, &work->host_pid);
		break;
	default:
		break;
	}
}

void chrome_work_read(struct chrome_work *work, const struct export_args *args)
{
	*work = (struct chrome_work)CHROME_NO_WORK;
	for (size_t i = 0; i < args->count; i++)
		take_arg(work, pfw_kineto_key(&args->arg[i].key), &args->arg[i].value);
	if (work->kind == PFW_KINETO_annotation && work->device > 0)
		work->kind = PFW_KINETO_device_annotation;
}

bool chrome_is_instant(const struct pfw_entry *entry, const struct chrome_work *work)
{
	return entry->ph == 'i' ||
	       (work->kind == PFW_KINETO_memory && entry->ph == 'X' && !entry->dur_ns);
}

enum chrome_launch chrome_launch(const struct pfw_entry *entry, const struct chrome_work *work)
{
	if (!work->has_correlation || !work->correlation || entry->ph != 'X')
		return CHROME_NO_LAUNCH;
	switch (work->kind) {
	case PFW_KINETO_runtime:
	case PFW_KINETO_driver:
		return pfw_kineto_launches(&entry->name) ? CHROME_LAUNCHES : CHROME_NO_LAUNCH;
	case PFW_KINETO_kernel:
	case PFW_KINETO_memcpy:
	case PFW_KINETO_memset:
		return CHROME_LAUNCHED;
	default:
		return CHROME_NO_LAUNCH;
	}
}

enum chrome_pass chrome_pass(const struct pfw_entry *entry, const struct chrome_work *work)
{
	if (work->kind != PFW_KINETO_cpu_op || !work->has_sequence || entry->ph != 'X')
		return CHROME_NO_PASS;
	if (!work->fwd_tid)
		return CHROME_FORWARD;
	/* The autograd engine's own frame has the same number. */
	if (entry->name.bytes > 18 && memcmp(entry->name.at, "autograd::engine::", 18) == 0)
		return CHROME_NO_PASS;
	return CHROME_BACKWARD;
}

/* ---- places ---- */

/* Remove the ended spans of a lane; then return whether the new span nests in the open ones. */
static bool fits(struct chrome_lane *lane, int64_t start_ns, int64_t end_ns)
{
	while (lane->depth && lane->end_ns[lane->depth - 1] <= start_ns)
		lane->depth--;
	return !lane->depth || lane->end_ns[lane->depth - 1] >= end_ns;
}

static int place_on_lane(struct chrome_track *track, int64_t start_ns, int64_t end_ns)
{
	struct chrome_lane *lane;
	uint32_t number = 0;

	while (number < track->lanes && !fits(&track->lane[number], start_ns, end_ns))
		number++;
	if (number == CHROME_LANES)
		return (int)number - 1;
	if (number == track->lanes &&
	    PFW_APPEND(track->lane, track->lanes, (struct chrome_lane){ 0 }))
		return -ENOMEM;
	lane = &track->lane[number];
	return PFW_PUSH(lane->end_ns, lane->depth, lane->room, end_ns) ? -ENOMEM : (int)number;
}

int chrome_place_find(struct chrome_place *place, struct chrome_rows *rows, size_t file,
		      const struct pfw_entry *entry, const struct chrome_work *work)
{
	bool on_device = pfw_kineto_on_device(work->kind) && work->device_index >= 0;
	int64_t process = chrome_process(rows, file, entry, on_device ? work->device_index : -1);
	uint64_t tid = entry->tid;
	int64_t thread, end_ns;
	int lane = 0;

	if (process < 0)
		return (int)process;
	if (on_device && work->has_stream)
		tid = work->stream;
	thread = chrome_thread(rows, (uint32_t)process, tid);
	if (thread < 0)
		return (int)thread;
	if (entry->ph == 'X' && !__builtin_add_overflow(entry->ts_ns, entry->dur_ns, &end_ns))
		lane = place_on_lane(&rows->thread[thread].track, entry->ts_ns, end_ns);
	if (lane < 0)
		return lane;
	*place = (struct chrome_place){ .process = (uint32_t)process,
					.thread = (uint32_t)thread,
					.lane = (uint32_t)lane,
					.pid = rows->process[process].pid,
					.tid = tid + (uint64_t)lane * EXPORT_LANE };
	return 0;
}

/* ---- arrows ---- */

/* Begins that wait for an end, in each half: 20 MiB of them. */
#define FLOWS_MAX (1u << 18)

static void free_half(struct chrome_flows_half *half)
{
	pfw_pair_ids_release(&half->numbers);
	free(half->begin);
	*half = (struct chrome_flows_half){ 0 };
}

int chrome_flows_begin(struct chrome_flows *flows, uint32_t process, uint64_t number,
		       const struct chrome_end *at)
{
	struct chrome_flows_half *half = &flows->newer;
	int64_t place;

	/* Forget the older ones: most of them will have no end. */
	if (half->numbers.count == FLOWS_MAX) {
		free_half(&flows->older);
		flows->older = *half;
		*half = (struct chrome_flows_half){ 0 };
	}
	if (PFW_ROOM(half->begin, half->numbers.count, half->room))
		return -ENOMEM;
	place = pfw_pair_ids_of(&half->numbers, process, number);
	if (place < 0)
		return (int)place;
	half->begin[place] = (struct chrome_begin){ .at = *at };
	return 0;
}

struct chrome_begin *chrome_flows_find(struct chrome_flows *flows, uint32_t process,
				       uint64_t number)
{
	struct chrome_flows_half *half = &flows->newer;
	int64_t place = pfw_pair_ids_find(&half->numbers, process, number);

	if (place < 0) {
		half = &flows->older;
		place = pfw_pair_ids_find(&half->numbers, process, number);
	}
	return place < 0 ? NULL : &half->begin[place];
}

void chrome_flows_free(struct chrome_flows *flows)
{
	free_half(&flows->newer);
	free_half(&flows->older);
}
