/* tools/export/stacks.c - adds up spans by their stacks.
 *
 * The parent of a span is the innermost earlier span of its thread that ends no sooner, as in `pfw
 * table`.  If a span has args.stack, its frames are the parents.  Device time counts for the frame
 * that launched the work.
 */
#include "export/stacks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/encode/text.h"
#include "export/kineto.h"
#include "store/json/walk.h"
#include "store/kit/grow.h"
#include "store/kit/hash.h"
#include "store/line/io.h"
#include "store/line/step_name.h"

#define NAME_MAX_BYTES 1024u	/* of a frame; the rest is cut */
#define MEMORY (256u << 20)	/* of frames; more stacks are unreadable anyway */
#define OPEN_MAX 4096u		/* spans of a thread at once */
#define LAUNCHES_MAX (1u << 20) /* remembered for their device work */

/* A span that has not ended. */
struct open {
	int64_t end_ns;
	int64_t covered_ns; /* until then spans in it have run; they may overlap each other */
	uint32_t node;
	uint64_t self_ns;
};

struct export_stack_thread {
	struct open *open;
	size_t count, room;
};

/* ---- frames ---- */

/* The number of a frame's name.  Characters that would break the format are replaced. */
static int64_t name_of(struct export_stacks *stacks, struct pfw_slice text)
{
	char name[NAME_MAX_BYTES];
	size_t bytes = pfw_slice_decode(&text, name, sizeof(name));
	uint64_t step;
	int64_t number;
	const char *copy;

	for (size_t i = 0; i < bytes;) {
		int length = pfw_append_utf8(name + i, bytes - i);

		if (name[i] == ';')
			name[i] = ':';
		else if ((unsigned char)name[i] < ' ')
			name[i] = ' ';
		/* The text is valid, but its last character may be cut. */
		if (length < 0)
			bytes = i;
		i += (size_t)length;
	}
	/* Count all steps as one frame, as `pfw table` does. */
	if (pfw_is_step_name(name, bytes, &step))
		bytes = (size_t)snprintf(name, sizeof(name), "ProfilerStep*");
	if (!bytes)
		bytes = (size_t)snprintf(name, sizeof(name), "(no name)");
	number = pfw_pair_ids_of(&stacks->name_numbers, pfw_hash_text(1, name, bytes),
				 pfw_hash_text(2, name, bytes));
	if (number < 0 || (size_t)number < stacks->names)
		return number;
	copy = pfw_arena_copy(&stacks->texts, name, bytes);
	if (!copy || PFW_REACH(stacks->name, (size_t)number, stacks->name_room))
		return -ENOMEM;
	stacks->name[stacks->names++] = copy;
	return number;
}

/* Find or add the node of a frame under `parent`. */
static int64_t node_on(struct export_stacks *stacks, uint32_t parent, struct pfw_slice text)
{
	int64_t name = name_of(stacks, text), number;

	if (name < 0)
		return name;
	number = pfw_pair_ids_of(&stacks->stack_numbers, parent, (uint64_t)name);
	if (number < 0)
		return number;
	number++; /* 0 is the root */
	if ((size_t)number <= stacks->count)
		return number;
	if (stacks->count * sizeof(struct export_stack) + stacks->texts.bytes > MEMORY)
		return -E2BIG;
	if (PFW_REACH(stacks->stack, (size_t)number, stacks->stack_room))
		return -ENOMEM;
	stacks->count++;
	stacks->stack[number] = (struct export_stack){ .parent = parent, .name = (uint32_t)name };
	return number;
}

static int64_t node_on_text(struct export_stacks *stacks, uint32_t parent, const char *text)
{
	return node_on(stacks, parent, (struct pfw_slice){ .at = text, .bytes = strlen(text) });
}

/* The root of all stacks of a rank. */
static int64_t ground(struct export_stacks *stacks, size_t file)
{
	int64_t rank = stacks->job->traces->file[file].head.rank;
	char text[40];

	if (!stacks->job->traces->ranks || rank < 0)
		return 0;
	snprintf(text, sizeof(text), "rank %" PRId64, rank);
	return node_on_text(stacks, 0, text);
}

/* Add the frames of args.stack, which are listed innermost first. */
static int64_t stack_on(struct export_stacks *stacks, int64_t parent, const struct pfw_slice *stack)
{
	struct pfw_value frame[256];
	struct pfw_walk frames;
	size_t count = 0;

	pfw_walk_init(&frames, stack);
	while (count < 256 && pfw_elements_next(&frames, &frame[count]))
		count++;
	while (count-- && parent >= 0) {
		if (frame[count].type == PFW_VALUE_STRING)
			parent = node_on(stacks, (uint32_t)parent, frame[count].text);
	}
	return parent;
}

/* ---- spans ---- */

/* Remove the spans that have ended, at any depth: an inner span may end after an outer one. */
static void close_until(struct export_stacks *stacks, struct export_stack_thread *thread,
			int64_t ts_ns)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < thread->count; i++) {
		const struct open *open = &thread->open[i];

		if (open->end_ns <= ts_ns)
			stacks->stack[open->node].host_ns += open->self_ns;
		else
			thread->open[kept++] = *open;
	}
	thread->count = kept;
}

static int64_t thread_of(struct export_stacks *stacks, const struct pfw_entry *entry)
{
	int64_t number = pfw_pair_ids_of(&stacks->thread_numbers, entry->process, entry->tid);

	if (number >= 0 && PFW_REACH(stacks->thread, (size_t)number, stacks->thread_room))
		return -ENOMEM;
	if (number >= (int64_t)stacks->threads)
		stacks->threads = (size_t)number + 1;
	return number;
}

/* Add a span to the stack of its thread.  Return its node or -errno. */
static int64_t open_span(struct export_stacks *stacks, size_t file, const struct pfw_entry *entry,
			 const struct export_arg *stack)
{
	int64_t thread_number = thread_of(stacks, entry), node = ground(stacks, file);
	struct export_stack_thread *thread;
	uint32_t in;
	int64_t end_ns;

	if (thread_number < 0 || node < 0)
		return thread_number < 0 ? thread_number : node;
	if (__builtin_add_overflow(entry->ts_ns, entry->dur_ns, &end_ns))
		end_ns = INT64_MAX;
	thread = &stacks->thread[thread_number];
	close_until(stacks, thread, entry->ts_ns);
	for (in = thread->count; in && thread->open[in - 1].end_ns < end_ns;)
		in--;
	if (in) {
		struct open *parent = &thread->open[in - 1];
		int64_t from = entry->ts_ns > parent->covered_ns ? entry->ts_ns
								 : parent->covered_ns;

		if (end_ns > from) {
			parent->self_ns -= (uint64_t)(end_ns - from);
			parent->covered_ns = end_ns;
		}
		node = parent->node;
	}
	if (stack && stack->value.type == PFW_VALUE_ARRAY && stack->value.text.bytes > 2)
		node = stack_on(stacks, ground(stacks, file), &stack->value.text);
	if (node >= 0)
		node = node_on(stacks, (uint32_t)node, entry->name);
	if (node < 0)
		return node;
	if (PFW_ROOM(thread->open, thread->count, thread->room))
		return -ENOMEM;
	/* A deeper span gets no children. */
	if (thread->count < OPEN_MAX)
		thread->open[thread->count++] = (struct open){ end_ns, entry->ts_ns, (uint32_t)node,
							       (uint64_t)(end_ns - entry->ts_ns) };
	else
		stacks->stack[node].host_ns += (uint64_t)(end_ns - entry->ts_ns);
	if (pfw_is_io(&entry->cat))
		stacks->stack[node].kind = EXPORT_STACK_IO;
	stacks->stack[node].count++;
	return node;
}

/* ---- device work ---- */

static int note_launch(struct export_stacks *stacks, const struct pfw_entry *entry, uint64_t id,
		       bool operator_id, int64_t node)
{
	int64_t number;

	if (stacks->launch_numbers.count >= LAUNCHES_MAX) {
		/* Forget all launches; work that has not come by now is unlikely to come. */
		pfw_pair_ids_release(&stacks->launch_numbers);
		stacks->launch_numbers = (struct pfw_pair_ids){ 0 };
	}
	number = pfw_pair_ids_of(&stacks->launch_numbers, id, entry->process << 1 ^ operator_id);
	if (number < 0 || PFW_REACH(stacks->launch, (size_t)number, stacks->launch_room))
		return -ENOMEM;
	stacks->launch[number] = (uint32_t)node;
	return 0;
}

/* The node of the launching call, or 0. */
static uint32_t launcher(struct export_stacks *stacks, const struct pfw_entry *entry, uint64_t id,
			 bool operator_id)
{
	uint32_t before = stacks->launch_numbers.count;
	int64_t number =
		pfw_pair_ids_of(&stacks->launch_numbers, id, entry->process << 1 ^ operator_id);

	if (number < 0 || (uint32_t)number >= before || (size_t)number >= stacks->launch_room)
		return 0;
	return stacks->launch[number];
}

static uint64_t number_arg(const struct export_args *args, const char *key)
{
	const struct export_arg *arg = export_args_find(args, key);
	uint64_t number = 0;

	if (arg)
		pfw_value_u64(&arg->value, &number);
	return number;
}

static int device_work(struct export_stacks *stacks, size_t file, const struct pfw_entry *entry)
{
	uint64_t correlation = number_arg(&stacks->args, "correlation");
	uint64_t operator_id = number_arg(&stacks->args, "external_id");
	int64_t node = correlation ? launcher(stacks, entry, correlation, false) : 0;
	char text[64];

	if (!node && operator_id)
		node = launcher(stacks, entry, operator_id, true);
	if (!node) {
		snprintf(text, sizeof(text), "GPU %" PRIu64 " stream %" PRIu64,
			 number_arg(&stacks->args, "device_index"),
			 number_arg(&stacks->args, "stream"));
		node = ground(stacks, file);
		if (node >= 0)
			node = node_on_text(stacks, (uint32_t)node, text);
	}
	if (node >= 0)
		node = node_on(stacks, (uint32_t)node, entry->name);
	if (node < 0)
		return (int)node;
	stacks->stack[node].kind = EXPORT_STACK_DEVICE;
	stacks->stack[node].device_ns += (uint64_t)entry->dur_ns;
	stacks->stack[node].count++;
	return 0;
}

static int host_span(struct export_stacks *stacks, size_t file, const struct pfw_entry *entry)
{
	uint64_t correlation = number_arg(&stacks->args, "correlation");
	uint64_t operator_id = number_arg(&stacks->args, "external_id");
	int64_t node = open_span(stacks, file, entry, export_args_find(&stacks->args, "stack"));
	int error = node < 0 ? (int)node : 0;

	if (!error && correlation)
		error = note_launch(stacks, entry, correlation, false, node);
	if (!error && operator_id && !correlation)
		error = note_launch(stacks, entry, operator_id, true, node);
	return error;
}

int export_stacks_line(void *state, size_t file, const struct pfw_entry *entry)
{
	struct export_stacks *stacks = state;
	const struct export_arg *kind;
	enum pfw_kineto_kind which = PFW_KINETO_NONE;
	int error;

	if (entry->ph != 'X' || !(entry->has & PFW_ENTRY_TS) || entry->dur_ns < 0)
		return 0;
	error = export_args_read(&stacks->args, entry);
	kind = error ? NULL : export_args_find(&stacks->args, "kind");
	if (error)
		return error;
	if (kind && pfw_slice_is(&entry->cat, "PP"))
		which = pfw_kineto_kind(&kind->value.text);
	if (which == PFW_KINETO_kernel || which == PFW_KINETO_memcpy || which == PFW_KINETO_memset)
		return device_work(stacks, file, entry);
	/* Waits and annotations on a device overlap the work, so they do not count. */
	if (pfw_kineto_on_device(which) ||
	    ((which == PFW_KINETO_annotation || which == PFW_KINETO_step) &&
	     number_arg(&stacks->args, "device")))
		return 0;
	return host_span(stacks, file, entry);
}

/* ---- after the last line ---- */

void export_stacks_close(struct export_stacks *stacks)
{
	for (size_t i = 0; i < stacks->threads; i++)
		close_until(stacks, &stacks->thread[i], INT64_MAX);
}

uint64_t export_stacks_weight(const struct export_stacks *stacks, const struct export_stack *stack)
{
	const char *weight = stacks->job->options->weight;

	if (*weight == 'd')
		return stack->device_ns;
	return *weight == 'c' ? stack->count : stack->host_ns;
}

size_t export_stacks_frames(const struct export_stacks *stacks, size_t number,
			    uint32_t frame[EXPORT_STACK_DEPTH])
{
	size_t depth = 0;

	for (uint32_t up = (uint32_t)number; up && depth < EXPORT_STACK_DEPTH;
	     up = stacks->stack[up].parent)
		frame[depth++] = up;
	return depth;
}

void export_stacks_release(void *state)
{
	struct export_stacks *stacks = state;

	for (size_t i = 0; i < stacks->threads; i++)
		free(stacks->thread[i].open);
	export_args_free(&stacks->args);
	pfw_arena_release(&stacks->texts);
	pfw_pair_ids_release(&stacks->name_numbers);
	pfw_pair_ids_release(&stacks->stack_numbers);
	pfw_pair_ids_release(&stacks->thread_numbers);
	pfw_pair_ids_release(&stacks->launch_numbers);
	free(stacks->name);
	free(stacks->stack);
	free(stacks->thread);
	free(stacks->launch);
}
