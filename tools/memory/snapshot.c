/* tools/memory/snapshot.c - converts a snapshot of PyTorch's allocator to the lines of a trace. */
#include "common/base/order.h"
#include "common/base/text.h"
#include "memory/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory/pickle.h"
#include "store/json/print.h"
#include "store/kit/grow.h"
#include "store/kit/pair_ids.h"
#include "store/kit/text_ids.h"
#include "store/nesting/averages.h"
#include "store/sys/spill.h"

#define OWNER_BYTES 4096u
#define FRAMES_MAX 1000u
#define NS_IN_US 1000

/* An annotation that has begun and not ended. */
struct begun {
	const struct pfw_pickle_value *name;
	int64_t time_us;
	uint32_t outer; /* the one of the same name and device around it, + 1; 0: none */
};

/* The open annotations.  Names are numbered by where they are in the file, then by their text: each
 * text of the file is looked at once, however many annotations have it. */
struct annotations {
	struct pfw_pair_ids places; /* texts by place and length */
	uint32_t *text;		    /* of each place: number of its text */
	size_t place_count, place_room;
	struct pfw_text_ids texts;
	struct pfw_pair_ids kinds; /* text and device */
	uint32_t *innermost;	   /* of each kind: in begun[], + 1 */
	size_t kind_count, kind_room;
	struct begun *begun;
	size_t count, room;
};

/* Bytes of a device. */
struct total {
	int64_t allocated, reserved;
};

struct snapshot {
	struct pfw_pickle pickle;
	struct pfw_printer json;
	uint64_t lines, items;
	int64_t least_us, greatest_us;
	struct pfw_averages owners; /* the first is "": allocations without a stack */
	const char *wrong;
	const _Atomic bool *stop;
};

/* ---- values ---- */

/* A whole number, or 0; `found` (may be NULL) gets whether there is one. */
static int64_t whole(const struct pfw_pickle_value *dict, const char *key, bool *found)
{
	const struct pfw_pickle_value *value = pfw_pickle_get(dict, key);
	bool is = value && value->kind == PFW_PICKLE_WHOLE;

	if (found)
		*found = is;
	return is ? value->whole : 0;
}

static size_t length(const struct pfw_pickle_value *list)
{
	return list && list->kind == PFW_PICKLE_LIST ? list->items->count : 0;
}

/* The sum of numbers from a damaged file may wrap around, which does no harm. */
static int64_t sum(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* How an event changes the allocated and the reserved bytes. */
static int64_t allocates(const struct pfw_pickle_value *event, int64_t size)
{
	const struct pfw_pickle_value *action = pfw_pickle_get(event, "action");

	return pfw_pickle_text_is(action, "alloc")	      ? size
	       : pfw_pickle_text_is(action, "free_completed") ? -size
							      : 0;
}

static int64_t reserves(const struct pfw_pickle_value *event, int64_t size)
{
	static const char *const more[] = { "segment_alloc", "segment_map" };
	static const char *const less[] = { "segment_free", "segment_unmap" };
	const struct pfw_pickle_value *action = pfw_pickle_get(event, "action");

	for (size_t i = 0; i < 2; i++) {
		if (pfw_pickle_text_is(action, more[i]))
			return size;
		if (pfw_pickle_text_is(action, less[i]))
			return -size;
	}
	return 0;
}

/* ---- owners ---- */

/* Whether it is a Python function's.  The answer is noted in the frame, which is in many stacks. */
static bool is_python(const struct pfw_pickle_value *frame)
{
	const struct pfw_pickle_value *file;
	bool is;

	if (frame->kind != PFW_PICKLE_DICT)
		return false;
	if (!frame->items->note) {
		file = pfw_pickle_get(frame, "filename");
		is = file && file->kind == PFW_PICKLE_TEXT && file->bytes > 3 &&
		     memcmp(file->text + file->bytes - 3, ".py", 3) == 0;
		frame->items->note = is ? 1 : -1;
	}
	return frame->items->note > 0;
}

/* The innermost Python function, else the innermost one.  A stack begins with the innermost. */
static const struct pfw_pickle_value *innermost(const struct pfw_pickle_value *frames)
{
	for (size_t i = 0; i < length(frames) && i < FRAMES_MAX; i++) {
		if (is_python(&frames->items->item[i]))
			return &frames->items->item[i];
	}
	return length(frames) ? &frames->items->item[0] : NULL;
}

static int64_t owner_of_stack(struct snapshot *snapshot, const struct pfw_pickle_value *frames)
{
	const struct pfw_pickle_value *frame = innermost(frames);
	const struct pfw_pickle_value *file = pfw_pickle_get(frame, "filename");
	const struct pfw_pickle_value *name = pfw_pickle_get(frame, "name");
	char text[OWNER_BYTES];

	if (!file || !name || file->kind != PFW_PICKLE_TEXT || name->kind != PFW_PICKLE_TEXT)
		return pfw_averages_row(&snapshot->owners, "", 0);
	snprintf(text, sizeof(text), "%.*s(%" PRId64 "): %.*s",
		 file->bytes < OWNER_BYTES / 2 ? (int)file->bytes : (int)OWNER_BYTES / 2,
		 file->text, whole(frame, "line", NULL),
		 name->bytes < OWNER_BYTES / 4 ? (int)name->bytes : (int)OWNER_BYTES / 4,
		 name->text);
	return pfw_averages_row(&snapshot->owners, text, strlen(text));
}

/* The number of an event's owner, or -1 without memory.  It is noted in the stack, which may be
 * many events'. */
static int64_t owner_of(struct snapshot *snapshot, const struct pfw_pickle_value *event)
{
	const struct pfw_pickle_value *frames = pfw_pickle_get(event, "frames");
	int64_t owner;

	if (!frames || frames->kind != PFW_PICKLE_LIST)
		return owner_of_stack(snapshot, NULL);
	if (!frames->items->note) {
		owner = owner_of_stack(snapshot, frames);
		if (owner < 0)
			return owner;
		frames->items->note = owner + 1;
	}
	return frames->items->note - 1;
}

/* ---- lines ---- */

static void begin_line(struct snapshot *snapshot, const char *name, const char *cat, int64_t tid)
{
	pfw_print(&snapshot->json, "{'id':%" PRIu64 ",'name':%s,'cat':'%s','pid':1,'tid':%" PRId64,
		  ++snapshot->lines, name, cat, tid + 1);
}

static void write_span(struct snapshot *snapshot, const char *name, int64_t tid, int64_t begin_us,
		       int64_t end_us)
{
	begin_line(snapshot, name, "PP", tid);
	pfw_print(&snapshot->json,
		  "'ts':%" PRId64 ".000,'dur':%" PRId64 ".000,'ph':'X','args':"
		  "{'kind':'annotation','device':0,'device_index':-1}}\n",
		  begin_us, end_us > begin_us ? end_us - begin_us : 0);
}

static void write_allocation(struct snapshot *snapshot, const struct pfw_pickle_value *event,
			     int64_t time_us, size_t device, int64_t owner)
{
	PFW_LOWER(snapshot->least_us, time_us);
	PFW_RAISE(snapshot->greatest_us, time_us);
	begin_line(snapshot, "[memory]", "PP", owner);
	pfw_print(&snapshot->json,
		  "'ts':%" PRId64 ".000,'ph':'i','args':{'kind':'memory','device':1,"
		  "'device_index':%zu,'stream':%" PRId64 ",'addr':%" PRIu64,
		  time_us, device, whole(event, "stream", NULL),
		  (uint64_t)whole(event, "addr", NULL));
}

/* ---- devices ---- */

/* One list may be in many places of a pickle, so that a short file could cause endless work.  Each
 * item takes at least this many bytes of the file. */
#define ITEM_BYTES 16

static int wrong(struct snapshot *snapshot, const char *why)
{
	snapshot->wrong = why;
	return -EINVAL;
}

static int count_items(struct snapshot *snapshot, size_t count)
{
	snapshot->items += count;
	return snapshot->items > snapshot->pickle.bytes / ITEM_BYTES
		       ? wrong(snapshot, "it has more events and blocks than its bytes can hold")
		       : 0;
}

/* The bytes of a segment's blocks that are in use. */
static int64_t in_use(const struct pfw_pickle_value *blocks)
{
	int64_t total = 0;

	for (size_t i = 0; i < length(blocks); i++) {
		const struct pfw_pickle_value *block = &blocks->items->item[i];
		const struct pfw_pickle_value *state = pfw_pickle_get(block, "state");
		bool found;
		int64_t size = whole(block, "requested_size", &found);

		if (state && state->kind == PFW_PICKLE_TEXT && state->bytes > 7 &&
		    memcmp(state->text, "active_", 7) == 0)
			total = sum(total, found ? size : whole(block, "size", NULL));
	}
	return total;
}

/* Add the bytes at the time of the snapshot. */
static int add_segments(struct snapshot *snapshot, struct total *device, size_t devices)
{
	const struct pfw_pickle_value *all = pfw_pickle_get(&snapshot->pickle.root, "segments");
	int error = count_items(snapshot, length(all));

	for (size_t i = 0; i < length(all) && !error; i++) {
		const struct pfw_pickle_value *segment = &all->items->item[i];
		const struct pfw_pickle_value *blocks = pfw_pickle_get(segment, "blocks");
		int64_t number = whole(segment, "device", NULL);

		error = count_items(snapshot, length(blocks));
		if (error || number < 0 || (uint64_t)number >= devices)
			continue;
		device[number].reserved =
			sum(device[number].reserved, whole(segment, "total_size", NULL));
		device[number].allocated = sum(device[number].allocated, in_use(blocks));
	}
	return error;
}

/* Store the size of an event.  0, or -EINVAL if it is none. */
static int check_event(struct snapshot *snapshot, const struct pfw_pickle_value *event,
		       int64_t *size)
{
	const struct pfw_pickle_value *action = pfw_pickle_get(event, "action");
	bool found;

	*size = whole(event, "size", &found);
	if (action && action->kind == PFW_PICKLE_TEXT && found && *size >= 0)
		return 0;
	/* Events "snapshot" and "oom" have a size, too. */
	return wrong(snapshot, "an event of `device_traces` has no `action` or `size`");
}

static int write_device(struct snapshot *snapshot, const struct pfw_pickle_value *events,
			size_t device, struct total total)
{
	int64_t time_us = 0, size;

	for (size_t i = 0; i < length(events); i++) {
		const struct pfw_pickle_value *event = &events->items->item[i];
		bool timed;
		int64_t at_us = whole(event, "time_us", &timed), owner;

		if (check_event(snapshot, event, &size))
			return -EINVAL;
		if (*snapshot->stop)
			return -EINTR;
		/* Events of torch before 2.1 have no times, only an order. */
		time_us = timed ? at_us : time_us + 1;
		if (time_us < 0 || time_us > INT64_MAX / NS_IN_US - 1)
			time_us = 0;
		total.reserved = sum(total.reserved, reserves(event, size));
		if (!allocates(event, size))
			continue;
		total.allocated = sum(total.allocated, allocates(event, size));
		owner = owner_of(snapshot, event);
		if (owner < 0)
			return -ENOMEM;
		write_allocation(snapshot, event, time_us, device, owner);
		pfw_print(&snapshot->json,
			  "'bytes':%" PRId64 ",'total_allocated':%" PRId64
			  ",'total_reserved':%" PRId64 "}}\n",
			  allocates(event, size), total.allocated, total.reserved);
	}
	return 0;
}

/* Get from the totals at the end to those before the first event. */
static int subtract_events(struct snapshot *snapshot, const struct pfw_pickle_value *events,
			   struct total *total)
{
	int error = count_items(snapshot, length(events));
	int64_t size;

	for (size_t i = 0; i < length(events) && !error; i++) {
		const struct pfw_pickle_value *event = &events->items->item[i];

		error = check_event(snapshot, event, &size);
		if (error)
			break;
		total->allocated = sum(total->allocated, -allocates(event, size));
		total->reserved = sum(total->reserved, -reserves(event, size));
	}
	return error;
}

static int write_devices(struct snapshot *snapshot)
{
	const struct pfw_pickle_value *devices =
		pfw_pickle_get(&snapshot->pickle.root, "device_traces");
	struct total *total;
	int error;

	if (!devices || devices->kind != PFW_PICKLE_LIST)
		return wrong(snapshot, "it has no `device_traces`");
	total = calloc(length(devices) + 1, sizeof(*total));
	if (!total)
		return -ENOMEM;
	error = add_segments(snapshot, total, length(devices));
	for (size_t i = 0; i < length(devices) && !error; i++) {
		const struct pfw_pickle_value *events = &devices->items->item[i];

		if (events->kind != PFW_PICKLE_LIST)
			error = wrong(snapshot, "`device_traces` are no lists");
		error = error ?: subtract_events(snapshot, events, &total[i]);
		error = error ?: write_device(snapshot, events, i, total[i]);
	}
	free(total);
	return error;
}

/* ---- annotations ---- */

/* The number of a name's text, or -ENOMEM. */
static int64_t text_of(struct annotations *open, const struct pfw_pickle_value *name)
{
	int64_t place =
		pfw_pair_ids_of(&open->places, (uint64_t)(uintptr_t)name->text, name->bytes);
	int64_t text;

	if (place < 0 || (size_t)place < open->place_count)
		return place < 0 ? place : (int64_t)open->text[place];
	text = pfw_text_ids_of(&open->texts, 0, name->text, name->bytes);
	if (text < 0 || PFW_PUSH(open->text, open->place_count, open->place_room, (uint32_t)text))
		return -ENOMEM;
	return text;
}

/* Where the innermost open annotation of that name and device is kept; NULL: no memory. */
static uint32_t *innermost_of(struct annotations *open, const struct pfw_pickle_value *name,
			      int64_t device)
{
	int64_t text = text_of(open, name);
	int64_t kind = text < 0 ? text
				: pfw_pair_ids_of(&open->kinds, (uint64_t)text, (uint64_t)device);

	if (kind < 0 || ((size_t)kind == open->kind_count &&
			 PFW_PUSH(open->innermost, open->kind_count, open->kind_room, 0)))
		return NULL;
	return &open->innermost[kind];
}

static void end_annotation(struct snapshot *snapshot, const struct begun *begun, int64_t end_us)
{
	char name[OWNER_BYTES];

	snprintf(name, sizeof(name), "%.*s",
		 begun->name->bytes < OWNER_BYTES ? (int)begun->name->bytes : (int)OWNER_BYTES,
		 begun->name->text);
	write_span(snapshot, name, 0, begun->time_us, end_us);
}

static int take_annotation(struct snapshot *snapshot, struct annotations *open,
			   const struct pfw_pickle_value *one)
{
	const struct pfw_pickle_value *name = pfw_pickle_get(one, "name");
	int64_t time_us = whole(one, "time_us", NULL);
	uint32_t *innermost;

	if (!name || name->kind != PFW_PICKLE_TEXT || time_us < 0 ||
	    time_us > INT64_MAX / NS_IN_US - 1)
		return 0;
	innermost = innermost_of(open, name, whole(one, "device", NULL));
	if (!innermost)
		return -ENOMEM;
	if (pfw_pickle_text_is(pfw_pickle_get(one, "stage"), "START")) {
		const struct begun begun = { name, time_us, *innermost };

		if (PFW_PUSH(open->begun, open->count, open->room, begun))
			return -ENOMEM;
		*innermost = (uint32_t)open->count;
	} else if (*innermost) {
		const struct begun *begun = &open->begun[*innermost - 1];

		*innermost = begun->outer;
		end_annotation(snapshot, begun, time_us);
	}
	return 0;
}

/* Ranges of record_function() own allocations without a stack. */
static int write_annotations(struct snapshot *snapshot)
{
	const struct pfw_pickle_value *all =
		pfw_pickle_get(&snapshot->pickle.root, "external_annotations");
	struct annotations open = { 0 };
	int error = count_items(snapshot, length(all));

	for (size_t i = 0; i < length(all) && !error; i++) {
		error = take_annotation(snapshot, &open, &all->items->item[i]);
		if (!error && *snapshot->stop)
			error = -EINTR;
	}
	pfw_pair_ids_release(&open.places);
	pfw_pair_ids_release(&open.kinds);
	pfw_text_ids_release(&open.texts);
	free(open.text);
	free(open.innermost);
	free(open.begun);
	return error;
}

/* ---- the trace ---- */

/* The rank in `{name}-rank{N}-memory-*.pickle`, or -1. */
static int64_t rank_of(const char *path)
{
	const char *at = strstr(pfw_text_base(path), "-rank");
	char *end;
	long rank = at ? strtol(at + 5, &end, 10) : -1;

	return at && end > at + 5 && rank >= 0 && rank <= INT_MAX ? rank : -1;
}

static void write_head(struct snapshot *snapshot, const char *path)
{
	int64_t rank = rank_of(path);
	char text[24] = "null";

	if (rank >= 0)
		snprintf(text, sizeof(text), "%" PRId64, rank);
	begin_line(snapshot, "process", "pfw", 0);
	pfw_print(&snapshot->json, "'ts':0.000,'ph':'M','args':{'format':1,'version':'1','run':"
				   "'snapshot','host':'','boot':''");
	pfw_print_json(&snapshot->json, "rank", text, strlen(text));
	pfw_print(&snapshot->json,
		  "'world_size':1,'local_rank':null,'rank_source':'imported','ppid':0,"
		  "'cmd':'snapshot','start_ts':0,'clock':'imported','spool':null}}\n");
}

static int write_trace(struct snapshot *snapshot, const char *path)
{
	int error;

	write_head(snapshot, path);
	error = write_devices(snapshot) ?: write_annotations(snapshot);
	for (uint32_t i = 1; i < snapshot->owners.count && !error; i++) {
		const struct pfw_average *owner = &snapshot->owners.row[i];
		char name[OWNER_BYTES];

		snprintf(name, sizeof(name), "%.*s", (int)owner->key_bytes, owner->key);
		write_span(snapshot, name, i, snapshot->least_us, snapshot->greatest_us);
	}
	begin_line(snapshot, "end", "pfw", 0);
	pfw_print(&snapshot->json,
		  "'ts':%" PRId64 ".000,'ph':'M','args':{'events':%" PRIu64
		  ",'lost':0,'reason':'exit'}}\n",
		  snapshot->greatest_us, snapshot->lines - 2);
	if (!error && fflush(snapshot->json.out) != 0)
		error = -errno;
	return error;
}

static int convert(struct snapshot *snapshot, const char *path)
{
	int error = pfw_pickle_open(&snapshot->pickle, path), fd;

	if (error)
		return error;
	fd = pfw_spill_open();
	if (fd < 0)
		return fd;
	snapshot->json.out = fdopen(fd, "w");
	if (!snapshot->json.out) {
		error = -errno;
		close(fd);
		return error;
	}
	error = write_trace(snapshot, path);
	if (error)
		fclose(snapshot->json.out);
	return error;
}

int snapshot_open(FILE **trace, const char *path, const _Atomic bool *stop, char *why, size_t size)
{
	struct snapshot snapshot = { .least_us = INT64_MAX, .stop = stop };
	int error = pfw_averages_row(&snapshot.owners, "", 0) < 0 ? -ENOMEM
								  : convert(&snapshot, path);

	if (error == -EINVAL)
		snprintf(why, size,
			 "no snapshot of memory, as torch.cuda.memory._dump_snapshot() writes: %s",
			 snapshot.wrong ? snapshot.wrong : snapshot.pickle.why);
	else if (error)
		snprintf(why, size, "%s", strerror(-error));
	*trace = error ? NULL : snapshot.json.out;
	pfw_averages_release(&snapshot.owners);
	pfw_pickle_release(&snapshot.pickle);
	return error;
}
