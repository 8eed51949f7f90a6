/* tools/schedule.c - `pfw schedule`: prints what a schedule does in each step. */
#include <dlfcn.h>
#include <inttypes.h>
#include <string.h>

#include "common/settings/schedule.h"
#include "store/json/print.h"
#include "ui/cli.h"
#include "ui/fit.h"

#define STEPS_MAX 1000000u
#define BAR 80u /* steps per line of the picture */

struct asked {
	struct pfw_plan plan;
	uint64_t steps;
	int format;
};

/* The end of a row for a number of steps. */
#define INTO_STEPS(member) CLI_INTO(struct asked, plan.steps.member), .most = PFW_SCHEDULE_MAX

static const struct cli_option options[] = {
	{ "skip-first", 0, "N", "steps to skip at the start (default: 0)", INTO_STEPS(skip_first) },
	{ "skip-first-wait", 0, NULL, "skip the first cycle's wait", .id = 256 },
	{ "wait", 0, "N", "steps of each cycle that are not recorded (default: 0)",
	  INTO_STEPS(wait) },
	{ "warmup", 0, "N", "steps that are recorded as warm-up (default: 0)", INTO_STEPS(warmup) },
	{ "active", 0, "N", "steps that are recorded", INTO_STEPS(active) },
	{ "repeat", 0, "N", "number of cycles (default: 0, without end)", INTO_STEPS(repeat) },
	{ "steps", 0, "N",
	  "how many steps to print (default: two cycles and the steps before them)",
	  CLI_INTO(struct asked, steps), .most = STEPS_MAX },
	{ "format", 0, "text|ndjson", "a picture, or one JSON object per step",
	  CLI_INTO(struct asked, format) },
	{ 0 },
};

static const char *const action_name[] = { "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE" };
static const char action_letter[] = ".w#S";
static const enum cli_style action_style[] = { CLI_DIM, CLI_YELLOW, CLI_GREEN, CLI_BOLD };

static void print_bar(const struct pfw_schedule *schedule, uint64_t first, uint64_t end,
		      bool coloured)
{
	enum pfw_action last = PFW_ACTION_NONE;

	printf("%9" PRIu64 " ", first);
	for (uint64_t step = first; step < end; step++) {
		enum pfw_action action = pfw_schedule_action(schedule, step);

		if (step == first || action != last)
			fputs(cli_style(coloured, action_style[action]), stdout);
		putchar(action_letter[action]);
		last = action;
		if (step + 1 == end || pfw_schedule_action(schedule, step + 1) != action)
			fputs(cli_style(coloured, CLI_PLAIN), stdout);
	}
	putchar('\n');
}

static void print_picture(const struct pfw_schedule *schedule, uint64_t steps)
{
	bool coloured = cli_colours(stdout);
	uint64_t cycles = 0, last = 0;

	for (uint64_t first = 0; first < steps; first += BAR)
		print_bar(schedule, first, first + BAR < steps ? first + BAR : steps, coloured);
	for (uint64_t step = 0; step < steps; step++) {
		if (pfw_schedule_action(schedule, step) != PFW_ACTION_RECORD_AND_SAVE)
			continue;
		cycles++;
		last = step;
	}
	puts(". NONE   w WARMUP   # RECORD   S RECORD_AND_SAVE: the cycle is written after it");
	if (cycles)
		fit_words(stdout, 0, 0,
			  "%s cycle%s in %s steps; on_trace_ready is called in pfw_step() after "
			  "each S, last as step %" PRIu64 " begins",
			  cli_count(cycles), cli_plural(cycles), cli_count(steps), last + 1);
	else
		printf("no cycle ends in %s step%s\n", cli_count(steps), cli_plural(steps));
}

static int take_skip_first_wait(void *user, const struct cli_args *args, int option)
{
	struct asked *asked = user;

	(void)args;
	(void)option;
	asked->plan.steps.skip_first_wait = 1;
	return 0;
}

/* Two cycles and the steps before them, at most a million. */
static uint64_t enough_steps(const struct pfw_schedule *schedule)
{
	uint64_t steps = schedule->skip_first +
			 2 * ((uint64_t)schedule->wait + schedule->warmup + schedule->active);

	return steps < STEPS_MAX ? steps : STEPS_MAX;
}

/* Explain a plan that does not count steps. */
static int explain(const struct cli_command *command, const struct pfw_plan *plan)
{
	if (plan->kind == PFW_PLAN_TIME) {
		printf("records %g s, from %g s after the start on",
		       (double)plan->duration_ns / 1e9, (double)plan->delay_ns / 1e9);
		if (plan->every_ns)
			printf(", and again every %g s", (double)plan->every_ns / 1e9);
		puts("; each time is a cycle, which calls no hook");
		return cli_finish(stdout, command, CLI_OK);
	}
	fit_words(
		stdout, 0, 0,
		"records between cudaProfilerStart() and cudaProfilerStop(); each range is a cycle, "
		"and on_trace_ready is called as it ends");
	if (!dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL))
		puts("there is no CUDA here (no libcuda.so.1): nothing would be recorded");
	return cli_finish(stdout, command, CLI_OK);
}

/* Parse the operand as PFW_SCHEDULE.  False: it is invalid; a message has said so. */
static bool read_plan(const struct cli_args *args, const char *text, struct pfw_plan *plan)
{
	static const struct pfw_schedule none;

	if (args->operands > 1 || memcmp(&plan->steps, &none, sizeof(none)) != 0) {
		cli_error(args->command->name,
			  "%s: give one schedule, either by options or as one "
			  "word",
			  cli_name(text));
		return false;
	}
	if (pfw_plan_parse(plan, text))
		return true;
	cli_error(
		args->command->name,
		"%s: wants active=N, with wait=N,warmup=N,repeat=N,skip_first=N, or duration=TIME, "
		"with delay=TIME,every=TIME, or range",
		cli_name(text));
	return false;
}

static int run_schedule(const struct cli_command *command, int argc, char **argv)
{
	struct asked asked = { .plan = { .kind = PFW_PLAN_STEPS }, .steps = UINT64_MAX };
	const struct pfw_schedule *schedule = &asked.plan.steps;
	struct pfw_printer json = { .out = stdout };
	struct cli_args args;
	int status = cli_read(&args, command, argc, argv, &asked, take_skip_first_wait);

	if (status >= 0)
		return status;
	if (args.operands && !read_plan(&args, argv[0], &asked.plan))
		return CLI_USAGE;
	if (asked.plan.kind != PFW_PLAN_STEPS)
		return explain(command, &asked.plan);
	if (!pfw_schedule_valid(schedule))
		return cli_error(command->name,
				 PFW_SCHEDULE_INVALID ": --active is %u and must be 1 or more",
				 schedule->active);
	if (!schedule->warmup)
		cli_error(command->name, PFW_SCHEDULE_NO_WARMUP);
	if (asked.steps == UINT64_MAX)
		asked.steps = enough_steps(schedule);
	for (uint64_t step = 0; asked.format == CLI_NDJSON && step < asked.steps; step++)
		pfw_print(&json, "{'step':%" PRIu64 ",'action':%s}\n", step,
			  action_name[pfw_schedule_action(schedule, step)]);
	if (asked.format == CLI_TEXT)
		print_picture(schedule, asked.steps);
	return cli_finish(stdout, command, CLI_OK);
}

const struct cli_command cli_schedule = {
	.name = "schedule",
	.operands = "[SCHEDULE]",
	.summary = "Print which steps a schedule records",
	.details = "The options are those of torch.profiler.schedule(); SCHEDULE is a value of\n"
		   "PFW_SCHEDULE: wait=1,warmup=1,active=3,repeat=2, or\n"
		   "delay=60s,duration=30s,every=10m, or range\n",
	.options = options,
	.main = run_schedule,
};
