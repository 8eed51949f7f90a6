/* tools/share/unrecorded.c - says what a trace lacks altogether; see unrecorded.h. */
#include "share/unrecorded.h"

#include <stdio.h>
#include <string.h>

#include "ui/cli.h"
#include "ui/fit.h"

static const char *const why[UNRECORDED_KINDS] = {
	[UNRECORDED_IO] = "no call was recorded (DFTRACER_DISABLE_IO=0, PFW_CALLS)",
	[UNRECORDED_OPERATORS] =
		"no operator was recorded (PFW_TORCH_OPS=1, or a profile of pfw.torch)",
	[UNRECORDED_KERNELS] =
		("no kernel was recorded (PFW_CUPTI; `pfw doctor` says what is missing; a profile of "
		 "torch.profiler has its own)"),
	[UNRECORDED_MEMORY] = "no operator reports its memory (profile_memory=True of pfw.torch)",
	[UNRECORDED_FLOPS] = "no operator reports its FLOPs (with_flops=True of pfw.torch)",
	[UNRECORDED_ALLOCATOR] =
		"no allocation reports its allocator's totals (profile_memory=True of pfw.torch)",
};

void unrecorded_say(const char *figures, enum unrecorded kind, const char *condition, bool *any)
{
	fputs(*any ? "" : "\n", stdout);
	if (condition)
		fit_words(stdout, 0, 2, "- %s: %.*s in what %s selects", figures,
			  (int)strcspn(why[kind], "(") - 1, why[kind], condition);
	else
		fit_words(stdout, 0, 2, "- %s: %s", figures, why[kind]);
	*any = true;
}

void unrecorded_say_none(const struct cli_command *command, const char *what, const char *condition,
			 const char *remedy)
{
	if (condition)
		cli_error(command->name, "no %s in what %s selects", what, condition);
	else
		cli_error(command->name, "no %s in these traces%s", what, remedy);
}
