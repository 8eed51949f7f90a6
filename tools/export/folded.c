/* tools/export/folded.c - folded stacks for flamegraph.pl and speedscope: `a;b;c N`.
 *
 * The parent of a span is the innermost earlier span of its thread that ends no sooner, as in `pfw
 * table`.  If a span has args.stack, its frames are the parents.  Device time counts for the frame
 * that launched the work.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/export.h"
#include "export/kineto.h"
#include "store/json/walk.h"
#include "store/kit/arena.h"
#include "store/kit/grow.h"
#include "store/kit/hash.h"
#include "store/kit/pair_ids.h"
#include "store/line/step_name.h"

#define NAME_MAX_BYTES 1024u	/* of a frame; the rest is cut */
#define MEMORY (256u << 20)	/* of frames; more stacks are unreadable anyway */
#define LAUNCHES_MAX (1u << 20) /* remembered for their device work */
#define DEPTH_MAX 4096u

/* A frame and its parent; 0 is the root. */
struct node {
	uint32_t parent, name;
	uint64_t host_ns, device_ns, count;
};

/* A span that has not ended. */
struct open {
	int64_t end_ns;
	uint32_t node;
	uint64_t self_ns;
};

struct thread {
	struct open *open;
	size_t count, room;
};

struct folded {
	const struct export_job *job;
	struct export_args args;
	struct pfw_arena texts;
	struct pfw_pair_ids name_numbers, node_numbers, thread_numbers, launch_numbers;
	const char **name;
	struct node *node;
	struct thread *thread;
	uint32_t *launch; /* node of the launching call, by correlation */
	size_t name_room, node_room, thread_room, launch_room;
	size_t names, nodes, threads;
};

/* ---- frames ---- */

/* The number of a frame's name.  Characters that would break the format are replaced. */
static int64_t name_of(struct folded *folded, struct pfw_slice text)
{
	char name[NAME_MAX_BYTES];
	size_t bytes = pfw_slice_decode(&text, name, sizeof(name));
	uint64_t step;
	int64_t number;
	const char *copy;

	for (size_t i = 0; i < bytes; i++) {
		if (name[i] == ';')
			name[i] = ':';
		else if ((unsigned char)name[i] < ' ')
			name[i] = ' ';
	}
	/* Count all steps as one frame, as `pfw table` does. */
	if (pfw_is_step_name(name, bytes, &step))
		bytes = (size_t)snprintf(name, sizeof(name), "ProfilerStep*");
	if (!bytes)
		bytes = (size_t)snprintf(name, sizeof(name), "(no name)");
	number = pfw_pair_ids_of(&folded->name_numbers, pfw_hash_text(1, name, bytes),
				 pfw_hash_text(2, name, bytes));
	if (number < 0 || (size_t)number < folded->names)
		return number;
	copy = pfw_arena_copy(&folded->texts, name, bytes);
	if (!copy || PFW_REACH(folded->name, (size_t)number, folded->name_room))
		return -ENOMEM;
	folded->name[folded->names++] = copy;
	return number;
}

/* Find or add the node of a frame under `parent`. */
static int64_t node_on(struct folded *folded, uint32_t parent, struct pfw_slice text)
{
	int64_t name = name_of(folded, text), number;

	if (name < 0)
		return name;
	number = pfw_pair_ids_of(&folded->node_numbers, parent, (uint64_t)name);
	if (number < 0)
		return number;
	number++; /* 0 is the root */
	if ((size_t)number <= folded->nodes)
		return number;
	if (folded->nodes * sizeof(struct node) + folded->texts.bytes > MEMORY)
		return -E2BIG;
	if (PFW_REACH(folded->node, (size_t)number, folded->node_room))
		return -ENOMEM;
	folded->nodes++;
	folded->node[number] = (struct node){ .parent = parent, .name = (uint32_t)name };
	return number;
}

static int64_t node_on_text(struct folded *folded, uint32_t parent, const char *text)
{
	return node_on(folded, parent, (struct pfw_slice){ .at = text, .bytes = strlen(text) });
}

/* The root of all stacks of a rank. */
static int64_t ground(struct folded *folded, size_t file)
{
	int64_t rank = folded->job->traces->file[file].head.rank;
	char text[40];

	if (!folded->job->traces->ranks || rank < 0)
		return 0;
	snprintf(text, sizeof(text), "rank %" PRId64, rank);
	return node_on_text(folded, 0, text);
}

/* Add the frames of args.stack, which are listed innermost first. */
static int64_t stack_on(struct folded *folded, int64_t parent, const struct pfw_slice *stack)
{
	struct pfw_value frame[256];
	struct pfw_walk frames;
	size_t count = 0;

	pfw_walk_init(&frames, stack);
	while (count < 256 && pfw_elements_next(&frames, &frame[count]))
		count++;
	while (count-- && parent >= 0) {
		if (frame[count].type == PFW_VALUE_STRING)
			parent = node_on(folded, (uint32_t)parent, frame[count].text);
	}
	return parent;
}

/* ---- spans ---- */

static void close_span(struct folded *folded, const struct open *open)
{
	folded->node[open->node].host_ns += open->self_ns;
}

/* Remove the spans that have ended, at any depth: an inner span may end after an outer one. */
static void close_until(struct folded *folded, struct thread *thread, int64_t ts_ns)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < thread->count; i++) {
		if (thread->open[i].end_ns <= ts_ns)
			close_span(folded, &thread->open[i]);
		else
			thread->open[kept++] = thread->open[i];
	}
	thread->count = kept;
}

static int64_t thread_of(struct folded *folded, const struct pfw_entry *entry)
{
	int64_t number = pfw_pair_ids_of(&folded->thread_numbers, entry->process, entry->tid);

	if (number >= 0 && PFW_REACH(folded->thread, (size_t)number, folded->thread_room))
		return -ENOMEM;
	if (number >= (int64_t)folded->threads)
		folded->threads = (size_t)number + 1;
	return number;
}

/* Add a span to the stack of its thread.  Return its node or -errno. */
static int64_t open_span(struct folded *folded, size_t file, const struct pfw_entry *entry,
			 const struct export_arg *stack)
{
	int64_t thread_number = thread_of(folded, entry), node = ground(folded, file);
	struct thread *thread;
	uint32_t in;
	int64_t end_ns;

	if (thread_number < 0 || node < 0)
		return thread_number < 0 ? thread_number : node;
	if (__builtin_add_overflow(entry->ts_ns, entry->dur_ns, &end_ns))
		end_ns = INT64_MAX;
	thread = &folded->thread[thread_number];
	close_until(folded, thread, entry->ts_ns);
	for (in = thread->count; in && thread->open[in - 1].end_ns < end_ns;)
		in--;
	if (in) {
		struct open *parent = &thread->open[in - 1];
		uint64_t dur = (uint64_t)(end_ns - entry->ts_ns);

		parent->self_ns -= parent->self_ns < dur ? parent->self_ns : dur;
		node = parent->node;
	}
	if (stack && stack->value.type == PFW_VALUE_ARRAY && stack->value.text.bytes > 2)
		node = stack_on(folded, ground(folded, file), &stack->value.text);
	if (node >= 0)
		node = node_on(folded, (uint32_t)node, entry->name);
	if (node < 0)
		return node;
	if (PFW_ROOM(thread->open, thread->count, thread->room))
		return -ENOMEM;
	/* A deeper span gets no children. */
	if (thread->count < DEPTH_MAX)
		thread->open[thread->count++] =
			(struct open){ end_ns, (uint32_t)node, (uint64_t)(end_ns - entry->ts_ns) };
	else
		folded->node[node].host_ns += (uint64_t)(end_ns - entry->ts_ns);
	folded->node[node].count++;
	return node;
}

/* ---- device work ---- */

static int note_launch(struct folded *folded, const struct pfw_entry *entry, uint64_t id,
		       bool operator_id, int64_t node)
{
	int64_t number;

	if (folded->launch_numbers.count >= LAUNCHES_MAX) {
		/* Forget all launches; work that has not come by now is unlikely to come. */
		pfw_pair_ids_release(&folded->launch_numbers);
		folded->launch_numbers = (struct pfw_pair_ids){ 0 };
	}
	number = pfw_pair_ids_of(&folded->launch_numbers, id, entry->process << 1 ^ operator_id);
	if (number < 0 || PFW_REACH(folded->launch, (size_t)number, folded->launch_room))
		return -ENOMEM;
	folded->launch[number] = (uint32_t)node;
	return 0;
}

/* The node of the launching call, or 0. */
static uint32_t launcher(struct folded *folded, const struct pfw_entry *entry, uint64_t id,
			 bool operator_id)
{
	uint32_t before = folded->launch_numbers.count;
	int64_t number =
		pfw_pair_ids_of(&folded->launch_numbers, id, entry->process << 1 ^ operator_id);

	if (number < 0 || (uint32_t)number >= before || (size_t)number >= folded->launch_room)
		return 0;
	return folded->launch[number];
}

static uint64_t number_arg(const struct export_args *args, const char *key)
{
	const struct export_arg *arg = export_args_find(args, key);
	uint64_t number = 0;

	if (arg)
		pfw_value_u64(&arg->value, &number);
	return number;
}

static int device_work(struct folded *folded, size_t file, const struct pfw_entry *entry)
{
	uint64_t correlation = number_arg(&folded->args, "correlation");
	uint64_t operator_id = number_arg(&folded->args, "external_id");
	int64_t node = correlation ? launcher(folded, entry, correlation, false) : 0;
	char text[64];

	if (!node && operator_id)
		node = launcher(folded, entry, operator_id, true);
	if (!node) {
		snprintf(text, sizeof(text), "GPU %" PRIu64 " stream %" PRIu64,
			 number_arg(&folded->args, "device_index"),
			 number_arg(&folded->args, "stream"));
		node = ground(folded, file);
		if (node >= 0)
			node = node_on_text(folded, (uint32_t)node, text);
	}
	if (node >= 0)
		node = node_on(folded, (uint32_t)node, entry->name);
	if (node < 0)
		return (int)node;
	folded->node[node].device_ns += (uint64_t)entry->dur_ns;
	folded->node[node].count++;
	return 0;
}

static int host_span(struct folded *folded, size_t file, const struct pfw_entry *entry)
{
	uint64_t correlation = number_arg(&folded->args, "correlation");
	uint64_t operator_id = number_arg(&folded->args, "external_id");
	int64_t node = open_span(folded, file, entry, export_args_find(&folded->args, "stack"));
	int error = node < 0 ? (int)node : 0;

	if (!error && correlation)
		error = note_launch(folded, entry, correlation, false, node);
	if (!error && operator_id && !correlation)
		error = note_launch(folded, entry, operator_id, true, node);
	return error;
}

static int line(void *state, size_t file, const struct pfw_entry *entry)
{
	struct folded *folded = state;
	const struct export_arg *kind;
	enum pfw_kineto_kind which = PFW_KINETO_NONE;
	int error;

	if (entry->ph != 'X' || !(entry->has & PFW_ENTRY_TS) || entry->dur_ns < 0)
		return 0;
	error = export_args_read(&folded->args, entry);
	kind = error ? NULL : export_args_find(&folded->args, "kind");
	if (error)
		return error;
	if (kind && pfw_slice_is(&entry->cat, "PP"))
		which = pfw_kineto_kind(&kind->value.text);
	if (which == PFW_KINETO_kernel || which == PFW_KINETO_memcpy || which == PFW_KINETO_memset)
		return device_work(folded, file, entry);
	/* Waits and annotations on a device overlap the work, so they do not count. */
	if (pfw_kineto_on_device(which) ||
	    (which == PFW_KINETO_annotation && number_arg(&folded->args, "device")))
		return 0;
	return host_span(folded, file, entry);
}

/* ---- output ---- */

static int write_stack(struct folded *folded, const struct node *node, uint64_t weight)
{
	uint32_t path[DEPTH_MAX + 512], depth = 0;
	size_t bytes = 64;
	char *at;

	for (const struct node *up = node; depth < CLI_ARRAY_LEN(path);
	     up = &folded->node[up->parent]) {
		path[depth++] = up->name;
		bytes += strlen(folded->name[up->name]) + 1;
		if (!up->parent)
			break;
	}
	at = export_sink_room(folded->job->sink, bytes);
	if (!at)
		return -ENOMEM;
	while (depth--) {
		const char *name = folded->name[path[depth]];

		at = pfw_emit_bytes(at, name, strlen(name));
		*at++ = depth ? ';' : ' ';
	}
	at = pfw_append_u64(at, weight);
	*at++ = '\n';
	return export_sink_used(folded->job->sink, at);
}

static int end(void *state)
{
	struct folded *folded = state;
	const char *weight = folded->job->options->weight;
	int error = 0;

	for (size_t i = 0; i < folded->threads; i++)
		close_until(folded, &folded->thread[i], INT64_MAX);
	for (size_t i = 1; i <= folded->nodes && !error; i++) {
		const struct node *node = &folded->node[i];
		uint64_t amount = *weight == 'd'   ? node->device_ns
				  : *weight == 'c' ? node->count
						   : node->host_ns;

		if (amount)
			error = write_stack(folded, node, amount);
	}
	return error;
}

static void release(void *state)
{
	struct folded *folded = state;

	for (size_t i = 0; i < folded->threads; i++)
		free(folded->thread[i].open);
	export_args_free(&folded->args);
	pfw_arena_release(&folded->texts);
	pfw_pair_ids_release(&folded->name_numbers);
	pfw_pair_ids_release(&folded->node_numbers);
	pfw_pair_ids_release(&folded->thread_numbers);
	pfw_pair_ids_release(&folded->launch_numbers);
	free(folded->name);
	free(folded->node);
	free(folded->thread);
	free(folded->launch);
}

const struct export_format export_folded = {
	.name = "folded",
	.state_bytes = sizeof(struct folded),
	.line = line,
	.end = end,
	.release = release,
};
