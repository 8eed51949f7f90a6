/* tools/export/speedscope.c - stacks for https://speedscope.app: a "sampled" profile, a sample a stack.
 *
 * Source: speedscope's file-format-schema.json.  The order of samples is no order of time.
 */
#include <errno.h>
#include <string.h>

#include "export/export.h"
#include "export/stacks.h"
#include "store/kit/saturate.h"

#define HEAD                                                                     \
	"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n" \
	"\"exporter\":\"pfw\",\"shared\":{\"frames\":["

/* A name: valid UTF-8 without control bytes (stacks.h), so that two characters need escapes. */
static int write_name(struct export_sink *sink, const char *name, bool first)
{
	char *at = export_sink_room(sink, 2 * strlen(name) + 32);

	if (!at)
		return -ENOMEM;
	at = pfw_emit(at, first ? "\n{\"name\":\"" : ",\n{\"name\":\"");
	for (; *name; name++) {
		if (*name == '"' || *name == '\\')
			*at++ = '\\';
		*at++ = *name;
	}
	return export_sink_used(sink, pfw_emit(at, "\"}"));
}

static int write_sample(const struct export_stacks *stacks, size_t number, bool first)
{
	uint32_t frame[EXPORT_STACK_DEPTH];
	size_t depth = export_stacks_frames(stacks, number, frame);
	char *at = export_sink_room(stacks->job->sink, 24 * depth + 64);

	if (!at)
		return -ENOMEM;
	at = pfw_emit(at, first ? "\n[" : ",\n[");
	while (depth--) {
		at = pfw_append_u64(at, stacks->stack[frame[depth]].name);
		if (depth)
			*at++ = ',';
	}
	*at++ = ']';
	return export_sink_used(stacks->job->sink, at);
}

static int write_weight(const struct export_stacks *stacks, uint64_t weight, bool first)
{
	char *at = export_sink_room(stacks->job->sink, 64);

	if (!at)
		return -ENOMEM;
	if (!first)
		*at++ = ',';
	return export_sink_used(stacks->job->sink, pfw_append_u64(at, weight));
}

/* The samples, or their weights. */
static int write_all(const struct export_stacks *stacks, bool weights)
{
	bool first = true;
	int error = 0;

	for (size_t i = 1; i <= stacks->count && !error; i++) {
		uint64_t weight = export_stacks_weight(stacks, &stacks->stack[i]);

		if (!weight)
			continue;
		error = weights ? write_weight(stacks, weight, first)
				: write_sample(stacks, i, first);
		first = false;
	}
	return error;
}

static int write_profile(const struct export_stacks *stacks)
{
	struct export_sink *sink = stacks->job->sink;
	const char *weight = stacks->job->options->weight;
	uint64_t whole = 0;
	char *at = export_sink_room(sink, 256);

	if (!at)
		return -ENOMEM;
	for (size_t i = 1; i <= stacks->count; i++)
		pfw_saturate_u64(&whole, export_stacks_weight(stacks, &stacks->stack[i]));
	at = pfw_emit(at, "]},\n\"profiles\":[{\"type\":\"sampled\",\"name\":\"");
	at = pfw_emit(at, weight);
	at = pfw_emit(at, *weight == 'c' ? "\",\"unit\":\"none\"" : "\",\"unit\":\"nanoseconds\"");
	at = pfw_emit(at, ",\"startValue\":0,\"endValue\":");
	at = pfw_append_u64(at, whole);
	return export_sink_used(sink, pfw_emit(at, ",\n\"samples\":["));
}

static int end(void *state)
{
	struct export_stacks *stacks = state;
	struct export_sink *sink = stacks->job->sink;
	int error = export_sink_text(sink, HEAD);

	export_stacks_close(stacks);
	for (size_t i = 0; i < stacks->names && !error; i++)
		error = write_name(sink, stacks->name[i], i == 0);
	error = error ?: write_profile(stacks) ?: write_all(stacks, false);
	error = error ?: export_sink_text(sink, "],\n\"weights\":[") ?: write_all(stacks, true);
	return error ?: export_sink_text(sink, "]}]}\n");
}

const struct export_format export_speedscope = {
	.name = "speedscope",
	.state_bytes = sizeof(struct export_stacks),
	.line = export_stacks_line,
	.end = end,
	.release = export_stacks_release,
};
