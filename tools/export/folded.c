/* tools/export/folded.c - folded stacks for flamegraph.pl and speedscope: `a;b;c N`. */
#include <errno.h>
#include <string.h>

#include "export/export.h"
#include "export/stacks.h"

static int write_stack(const struct export_stacks *stacks, size_t number, uint64_t weight)
{
	uint32_t frame[EXPORT_STACK_DEPTH];
	size_t depth = export_stacks_frames(stacks, number, frame), bytes = 64;
	char *at;

	for (size_t i = 0; i < depth; i++)
		bytes += strlen(stacks->name[stacks->stack[frame[i]].name]) + 1;
	at = export_sink_room(stacks->job->sink, bytes);
	if (!at)
		return -ENOMEM;
	while (depth--) {
		at = pfw_emit(at, stacks->name[stacks->stack[frame[depth]].name]);
		*at++ = depth ? ';' : ' ';
	}
	at = pfw_append_u64(at, weight);
	*at++ = '\n';
	return export_sink_used(stacks->job->sink, at);
}

static int end(void *state)
{
	struct export_stacks *stacks = state;
	int error = 0;

	export_stacks_close(stacks);
	for (size_t i = 1; i <= stacks->count && !error; i++) {
		uint64_t weight = export_stacks_weight(stacks, &stacks->stack[i]);

		if (weight)
			error = write_stack(stacks, i, weight);
	}
	return error;
}

const struct export_format export_folded = {
	.name = "folded",
	.state_bytes = sizeof(struct export_stacks),
	.line = export_stacks_line,
	.end = end,
	.release = export_stacks_release,
};
