/* chrome_place.c - what a line is on a timeline, and where it is shown; see export_chrome.h. */
#include <string.h>

#include "export_chrome.h"

static void take_number(const struct pfw_value *value, uint64_t *number, bool *has)
{
	bool found = pfw_value_u64(value, number);

	if (has)
		*has = found;
}

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
		take_number(value, &work->stream, &work->has_stream);
		break;
	case PFW_KINETO_KEY_correlation:
		take_number(value, &work->correlation, &work->has_correlation);
		break;
	case PFW_KINETO_KEY_static_smem:
		take_number(value, &work->static_smem, &work->smem);
		break;
	case PFW_KINETO_KEY_dynamic_smem:
		take_number(value, &work->dynamic_smem, &work->smem);
		break;
	case PFW_KINETO_KEY_sequence:
		take_number(value, &work->sequence, &work->has_sequence);
		break;
	case PFW_KINETO_KEY_fwd_tid:
		take_number(value, &work->fwd_tid, NULL);
		break;
	case PFW_KINETO_KEY_host_pid:
		take_number(value, &work->host_pid, NULL);
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
	/* The engine's own frame around it has the same number. */
	if (entry->name.bytes > 18 && memcmp(entry->name.at, "autograd::engine::", 18) == 0)
		return CHROME_NO_PASS;
	return CHROME_BACKWARD;
}

int chrome_place_find(struct chrome_place *place, struct chrome_rows *rows, size_t file,
		      const struct pfw_entry *entry, const struct chrome_work *work)
{
	bool on_device = pfw_kineto_on_device(work->kind) && work->device_index >= 0;
	int64_t process =
		chrome_process(rows, file, entry->pid, on_device ? work->device_index : -1);
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
		lane = pfw_track_place(&rows->thread[thread].track, entry->ts_ns, end_ns);
	if (lane < 0)
		return lane;
	*place = (struct chrome_place){ .process = (uint32_t)process,
					.thread = (uint32_t)thread,
					.lane = (uint32_t)lane,
					.pid = rows->process[process].pid,
					.tid = tid + (uint64_t)lane * EXPORT_LANE };
	return 0;
}
