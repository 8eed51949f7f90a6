/* export_folded.c - folded stacks, for flamegraph.pl and speedscope: `a;b;c N`, N in ns.
 *
 * A span lies in the innermost earlier one of its thread that ends no sooner, as in `pfw table`; what
 * has args.stack stands on that instead.  Time of a device goes to what launched the work.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export.h"
#include "store/arena.h"
#include "store/emit.h"
#include "store/hash.h"
#include "store/kineto.h"
#include "store/members.h"
#include "store/more.h"
#include "store/numbers.h"

#define NAME_MAX_BYTES 1024u	/* of a frame; more is cut */
#define MEMORY (256u << 20)	/* of frames; more stacks than that show nothing to anybody */
#define LAUNCHES_MAX (1u << 20) /* that wait for their work */
#define DEPTH_MAX 4096u

/* A frame on a frame; 0 stands for the ground. */
struct node {
	uint32_t parent, name;
	uint64_t host_ns, device_ns, count;
};

/* A span that is not over. */
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
	struct pfw_numbers name_numbers, node_numbers, thread_numbers, launch_numbers;
	const char **name;
	struct node *node;
	struct thread *thread;
	uint32_t *launch; /* node of the call of a correlation */
	size_t name_room, node_room, thread_room, launch_room;
	size_t names, nodes, threads;
};

/* ---- frames ---- */

/* Room for entry `number` of an array, zeroed. */
static int have(void *array, size_t number, size_t *room, size_t size)
{
	size_t wanted = number < 64 ? 64 : 2 * number;
	char **at = array, *more;

	if (number < *room)
		return 0;
	more = realloc(*at, wanted * size);
	if (!more)
		return -ENOMEM;
	memset(more + *room * size, 0, (wanted - *room) * size);
	*at = more;
	*room = wanted;
	return 0;
}

/* The number of a frame's name: what would break the format is replaced. */
static int64_t name_of(struct folded *folded, struct pfw_slice text)
{
	char name[NAME_MAX_BYTES];
	size_t bytes = pfw_slice_decode(&text, name, sizeof(name));
	int64_t number;
	const char *copy;

	for (size_t i = 0; i < bytes; i++) {
		if (name[i] == ';')
			name[i] = ':';
		else if ((unsigned char)name[i] < ' ')
			name[i] = ' ';
	}
	/* Steps have a number in their name; as in `pfw table`, all are one. */
	if (bytes > 13 && memcmp(name, "ProfilerStep#", 13) == 0)
		bytes = (size_t)snprintf(name, sizeof(name), "ProfilerStep*");
	if (!bytes)
		bytes = (size_t)snprintf(name, sizeof(name), "(no name)");
	number = pfw_numbers_of(&folded->name_numbers, pfw_hash_text(1, name, bytes),
				pfw_hash_text(2, name, bytes));
	if (number < 0 || (size_t)number < folded->names)
		return number;
	copy = pfw_arena_copy(&folded->texts, name, bytes);
	if (!copy || have(&folded->name, (size_t)number, &folded->name_room, sizeof(*folded->name)))
		return -ENOMEM;
	folded->name[folded->names++] = copy;
	return number;
}

/* That frame on `parent`. */
static int64_t node_on(struct folded *folded, uint32_t parent, struct pfw_slice text)
{
	int64_t name = name_of(folded, text), number;

	if (name < 0)
		return name;
	number = pfw_numbers_of(&folded->node_numbers, parent, (uint64_t)name);
	if (number < 0)
		return number;
	number++; /* 0 is the ground */
	if ((size_t)number <= folded->nodes)
		return number;
	if (folded->nodes * sizeof(struct node) + folded->texts.bytes > MEMORY)
		return -E2BIG;
	if (have(&folded->node, (size_t)number, &folded->node_room, sizeof(*folded->node)))
		return -ENOMEM;
	folded->nodes++;
	folded->node[number] = (struct node){ .parent = parent, .name = (uint32_t)name };
	return number;
}

static int64_t node_on_text(struct folded *folded, uint32_t parent, const char *text)
{
	return node_on(folded, parent, (struct pfw_slice){ .at = text, .bytes = strlen(text) });
}

/* What all of a rank stands on. */
static int64_t ground(struct folded *folded, size_t file)
{
	int64_t rank = folded->job->traces->file[file].head.rank;
	char text[40];

	if (!folded->job->traces->ranks || rank < 0)
		return 0;
	snprintf(text, sizeof(text), "rank %" PRId64, rank);
	return node_on_text(folded, 0, text);
}

/* The frames of args.stack, innermost first, from the outermost. */
static int64_t stack_on(struct folded *folded, int64_t parent, const struct pfw_slice *stack)
{
	struct pfw_value frame[256];
	struct pfw_members frames;
	size_t count = 0;

	pfw_members_init(&frames, stack);
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

/* Take off what is over, wherever it stands: a later one may end sooner. */
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

static int64_t thread_of(struct folded *folded, size_t file, const struct pfw_entry *entry)
{
	int64_t number = pfw_numbers_of(&folded->thread_numbers, (uint64_t)file << 44 ^ entry->pid,
					entry->tid);

	if (number >= 0 &&
	    have(&folded->thread, (size_t)number, &folded->thread_room, sizeof(*folded->thread)))
		return -ENOMEM;
	if (number >= (int64_t)folded->threads)
		folded->threads = (size_t)number + 1;
	return number;
}

/* Put a span where it lies; its frame, or -errno. */
static int64_t open_span(struct folded *folded, size_t file, const struct pfw_entry *entry,
			 const struct export_arg *stack)
{
	int64_t thread_number = thread_of(folded, file, entry), node = ground(folded, file);
	struct thread *thread;
	struct open *more;
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
	more = pfw_more(thread->open, thread->count, &thread->room, sizeof(*more));
	if (!more)
		return -ENOMEM;
	thread->open = more;
	/* Deeper ones are nobody's children. */
	if (thread->count < DEPTH_MAX)
		thread->open[thread->count++] =
			(struct open){ end_ns, (uint32_t)node, (uint64_t)(end_ns - entry->ts_ns) };
	else
		folded->node[node].host_ns += (uint64_t)(end_ns - entry->ts_ns);
	folded->node[node].count++;
	return node;
}

/* ---- work of devices ---- */

static int note_launch(struct folded *folded, size_t file, const struct pfw_entry *entry,
		       uint64_t id, bool operator_id, int64_t node)
{
	int64_t number;

	if (folded->launch_numbers.count >= LAUNCHES_MAX) {
		/* Whose work has not come by now is forgotten. */
		pfw_numbers_release(&folded->launch_numbers);
		folded->launch_numbers = (struct pfw_numbers){ 0 };
	}
	number = pfw_numbers_of(&folded->launch_numbers, id,
				(uint64_t)file << 44 ^ entry->pid << 1 ^ operator_id);
	if (number < 0 ||
	    have(&folded->launch, (size_t)number, &folded->launch_room, sizeof(*folded->launch)))
		return -ENOMEM;
	folded->launch[number] = (uint32_t)node;
	return 0;
}

/* The frame that launched it, or 0. */
static uint32_t launcher(struct folded *folded, size_t file, const struct pfw_entry *entry,
			 uint64_t id, bool operator_id)
{
	uint32_t before = folded->launch_numbers.count;
	int64_t number = pfw_numbers_of(&folded->launch_numbers, id,
					(uint64_t)file << 44 ^ entry->pid << 1 ^ operator_id);

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
	int64_t node = correlation ? launcher(folded, file, entry, correlation, false) : 0;
	char text[64];

	if (!node && operator_id)
		node = launcher(folded, file, entry, operator_id, true);
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
		error = note_launch(folded, file, entry, correlation, false, node);
	if (!error && operator_id && !correlation)
		error = note_launch(folded, file, entry, operator_id, true, node);
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
	/* Waits and annotations of a device are no work, and lie over it. */
	if (pfw_kineto_on_device(which) ||
	    (which == PFW_KINETO_annotation && number_arg(&folded->args, "device")))
		return 0;
	return host_span(folded, file, entry);
}

/* ---- the stacks ---- */

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
	at = pfw_emit_u64(at, weight);
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

static void free_state(void *state)
{
	struct folded *folded = state;

	for (size_t i = 0; i < folded->threads; i++)
		free(folded->thread[i].open);
	export_args_free(&folded->args);
	pfw_arena_release(&folded->texts);
	pfw_numbers_release(&folded->name_numbers);
	pfw_numbers_release(&folded->node_numbers);
	pfw_numbers_release(&folded->thread_numbers);
	pfw_numbers_release(&folded->launch_numbers);
	free(folded->name);
	free(folded->node);
	free(folded->thread);
	free(folded->launch);
	free(folded);
}

static void *begin(const struct export_job *job)
{
	struct folded *folded = calloc(1, sizeof(*folded));

	if (folded)
		folded->job = job;
	return folded;
}

const struct export_format export_folded = {
	.name = "folded",
	.begin = begin,
	.line = line,
	.end = end,
	.free = free_state,
};
