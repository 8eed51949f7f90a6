/* common/settings/schedule.c - when to record: schedules as pure functions; see schedule.h. */
#include "common/settings/schedule.h"

#include <string.h>

#include "common/base/text.h"
#include "common/base/units.h"

bool pfw_schedule_valid(const struct pfw_schedule *schedule)
{
	return schedule->active > 0 && schedule->active <= PFW_SCHEDULE_MAX &&
	       schedule->skip_first <= PFW_SCHEDULE_MAX && schedule->wait <= PFW_SCHEDULE_MAX &&
	       schedule->warmup <= PFW_SCHEDULE_MAX && schedule->repeat <= PFW_SCHEDULE_MAX;
}

enum pfw_action pfw_schedule_action(const struct pfw_schedule *schedule, uint64_t step)
{
	uint64_t cycle = (uint64_t)schedule->wait + schedule->warmup + schedule->active, within;

	if (step < schedule->skip_first || !pfw_schedule_valid(schedule))
		return PFW_ACTION_NONE;
	step -= schedule->skip_first;
	if (schedule->skip_first_wait)
		step += schedule->wait;
	if (schedule->repeat && step / cycle >= schedule->repeat)
		return PFW_ACTION_NONE;
	within = step % cycle;
	if (within < schedule->wait)
		return PFW_ACTION_NONE;
	if (within < (uint64_t)schedule->wait + schedule->warmup)
		return PFW_ACTION_WARMUP;
	return within < cycle - 1 ? PFW_ACTION_RECORD : PFW_ACTION_RECORD_AND_SAVE;
}

/* ---- text ---- */

/* Skip "KEY=" at *at. */
static bool key_is(const char **at, const char *key)
{
	size_t bytes = strlen(key);

	if (strncmp(*at, key, bytes) || (*at)[bytes] != '=')
		return false;
	*at += bytes + 1;
	return true;
}

static bool flag(const char **at, int *out)
{
	if (**at != '0' && **at != '1')
		return false;
	*out = *(*at)++ == '1';
	return true;
}

static bool number(const char **at, uint32_t *out)
{
	uint64_t value;
	const char *end = pfw_text_read_u64(*at, &value);

	if (!end || value > PFW_SCHEDULE_MAX)
		return false;
	*out = (uint32_t)value;
	*at = end;
	return true;
}

static bool duration(const char **at, uint64_t *out_ns)
{
	size_t bytes = strcspn(*at, ",");
	uint64_t ns;

	if (!pfw_units_ns(*at, bytes, &ns) || ns > INT64_MAX / 4)
		return false;
	*out_ns = ns;
	*at += bytes;
	return true;
}

static bool step_part(struct pfw_schedule *steps, const char **at)
{
	return key_is(at, "skip_first")	       ? number(at, &steps->skip_first)
	       : key_is(at, "skip_first_wait") ? flag(at, &steps->skip_first_wait)
	       : key_is(at, "wait")	       ? number(at, &steps->wait)
	       : key_is(at, "warmup")	       ? number(at, &steps->warmup)
	       : key_is(at, "active")	       ? number(at, &steps->active)
	       : key_is(at, "repeat")	       ? number(at, &steps->repeat)
	       : key_is(at, "discard_warmup")  ? flag(at, &steps->discard_warmup)
					       : false;
}

static bool time_part(struct pfw_plan *plan, const char **at)
{
	return key_is(at, "delay")	? duration(at, &plan->delay_ns)
	       : key_is(at, "duration") ? duration(at, &plan->duration_ns)
	       : key_is(at, "every")	? duration(at, &plan->every_ns)
					: false;
}

static bool parts(struct pfw_plan *plan, const char *at)
{
	bool good;

	do
		good = plan->kind == PFW_PLAN_STEPS ? step_part(&plan->steps, &at)
						    : time_part(plan, &at);
	while (good && *at == ',' && at++);
	return good && !*at;
}

bool pfw_plan_parse(struct pfw_plan *plan, const char *text)
{
	struct pfw_plan steps = { .kind = PFW_PLAN_STEPS }, time = { .kind = PFW_PLAN_TIME };

	if (!strcmp(text, "range"))
		*plan = (struct pfw_plan){ .kind = PFW_PLAN_RANGE };
	else if (parts(&steps, text) && pfw_schedule_valid(&steps.steps))
		*plan = steps;
	else if (parts(&time, text) && time.duration_ns &&
		 (!time.every_ns || time.every_ns >= time.duration_ns))
		*plan = time;
	else
		return false;
	return true;
}

bool pfw_plan_records_at(const struct pfw_plan *plan, uint64_t elapsed_ns, uint64_t *until_ns)
{
	uint64_t begin = plan->delay_ns;

	if (elapsed_ns >= begin && plan->every_ns)
		begin += (elapsed_ns - begin) / plan->every_ns * plan->every_ns;
	if (elapsed_ns < begin) {
		*until_ns = begin;
		return false;
	}
	if (elapsed_ns - begin < plan->duration_ns) {
		/* Without a pause in between, recording never changes. */
		*until_ns = plan->every_ns == plan->duration_ns ? UINT64_MAX
								: begin + plan->duration_ns;
		return true;
	}
	*until_ns = plan->every_ns ? begin + plan->every_ns : UINT64_MAX;
	return false;
}
