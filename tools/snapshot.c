/* snapshot.c - the history of PyTorch's allocator as lines of a trace; see snapshot.h. */
#include "snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/averages.h"
#include "store/json_print.h"
#include "store/pickle.h"
#include "store/spill.h"

#define OWNER_BYTES 4096u
#define ANNOTATIONS_MAX 4096u /* under way at a time */
#define FRAMES_MAX 1000u
#define NS_IN_US 1000

/* An annotation that has begun. */
struct begun {
	const struct pfw_pickle_value *name;
	int64_t time_us, device;
};

/* Of a device. */
struct total {
	int64_t allocated, reserved;
};

struct snapshot {
	struct pfw_pickle pickle;
	FILE *out;
	uint64_t lines, items;
	int64_t least_us, greatest_us;
	struct pfw_averages owners; /* the first is "": allocations with no stack */
	const char *wrong;
};

/* ---- values ---- */

/* A whole number, or 0; `found` (may be NULL): whether there is one. */
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

/* Rubbish may overflow; nothing comes of it. */
static int64_t sum(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* What an event does to what is allocated, and to what is reserved. */
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

/* ---- who allocates ---- */

static bool is_python(const struct pfw_pickle_value *frame)
{
	const struct pfw_pickle_value *file = pfw_pickle_get(frame, "filename");

	return file && file->kind == PFW_PICKLE_TEXT && file->bytes > 3 &&
	       memcmp(file->text + file->bytes - 3, ".py", 3) == 0;
}

/* The innermost function of Python's, else the innermost one; the first of a stack is the innermost. */
static const struct pfw_pickle_value *innermost(const struct pfw_pickle_value *event)
{
	const struct pfw_pickle_value *frames = pfw_pickle_get(event, "frames");

	for (size_t i = 0; i < length(frames) && i < FRAMES_MAX; i++) {
		if (is_python(&frames->items->item[i]))
			return &frames->items->item[i];
	}
	return length(frames) ? &frames->items->item[0] : NULL;
}

/* The number of an event's owner, or -1: no memory. */
static int64_t owner_of(struct snapshot *snapshot, const struct pfw_pickle_value *event)
{
	const struct pfw_pickle_value *frame = innermost(event);
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

/* ---- lines ---- */

static void begin_line(struct snapshot *snapshot, const char *name, const char *cat, int64_t tid)
{
	fprintf(snapshot->out, "{\"id\":%" PRIu64 ",\"name\":", ++snapshot->lines);
	pfw_json_print_string(snapshot->out, name);
	fprintf(snapshot->out, ",\"cat\":\"%s\",\"pid\":1,\"tid\":%" PRId64, cat, tid + 1);
}

static void write_span(struct snapshot *snapshot, const char *name, int64_t tid, int64_t begin_us,
		       int64_t end_us)
{
	begin_line(snapshot, name, "PP", tid);
	fprintf(snapshot->out,
		",\"ts\":%" PRId64 ".000,\"dur\":%" PRId64 ".000,\"ph\":\"X\",\"args\":"
		"{\"kind\":\"annotation\",\"device\":0,\"device_index\":-1}}\n",
		begin_us, end_us > begin_us ? end_us - begin_us : 0);
}

static void write_allocation(struct snapshot *snapshot, const struct pfw_pickle_value *event,
			     int64_t time_us, size_t device, int64_t owner)
{
	if (snapshot->least_us > time_us)
		snapshot->least_us = time_us;
	if (snapshot->greatest_us < time_us)
		snapshot->greatest_us = time_us;
	begin_line(snapshot, "[memory]", "PP", owner);
	fprintf(snapshot->out,
		",\"ts\":%" PRId64 ".000,\"ph\":\"i\",\"args\":{\"kind\":\"memory\",\"device\":1,"
		"\"device_index\":%zu,\"stream\":%" PRId64 ",\"addr\":%" PRIu64,
		time_us, device, whole(event, "stream", NULL),
		(uint64_t)whole(event, "addr", NULL));
}

/* ---- devices ---- */

/* Lists may be in several places of a pickle, so that a short one may spell endless work: what is in it
 * takes this many bytes of the file at least. */
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

/* What the blocks of a segment hold that are in use. */
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

/* What there was when the snapshot was taken. */
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

/* Its size, where the event is one: 0 or -EINVAL. */
static int check_event(struct snapshot *snapshot, const struct pfw_pickle_value *event,
		       int64_t *size)
{
	const struct pfw_pickle_value *action = pfw_pickle_get(event, "action");
	bool found;

	*size = whole(event, "size", &found);
	if (action && action->kind == PFW_PICKLE_TEXT && found && *size >= 0)
		return 0;
	/* "snapshot" and "oom" have sizes, too. */
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
		/* Before 2.1 events had no times: only their order is known. */
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
		fprintf(snapshot->out,
			",\"bytes\":%" PRId64 ",\"total_allocated\":%" PRId64
			",\"total_reserved\":%" PRId64 "}}\n",
			allocates(event, size), total.allocated, total.reserved);
	}
	return 0;
}

/* From what there was at the end to what there was before the history begins. */
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
		error = error ? error : subtract_events(snapshot, events, &total[i]);
		error = error ? error : write_device(snapshot, events, i, total[i]);
	}
	free(total);
	return error;
}

/* ---- annotations ---- */

/* The innermost one that is under way, of the same name: where, or -1. */
static int64_t find_begun(const struct begun *begun, size_t count,
			  const struct pfw_pickle_value *name, int64_t device)
{
	for (size_t i = count; i--;) {
		if (begun[i].device == device && begun[i].name->bytes == name->bytes &&
		    memcmp(begun[i].name->text, name->text, name->bytes) == 0)
			return (int64_t)i;
	}
	return -1;
}

static void end_annotation(struct snapshot *snapshot, struct begun *begun, size_t *count,
			   int64_t at, int64_t end_us)
{
	char name[OWNER_BYTES];

	snprintf(name, sizeof(name), "%.*s",
		 begun[at].name->bytes < OWNER_BYTES ? (int)begun[at].name->bytes
						     : (int)OWNER_BYTES,
		 begun[at].name->text);
	write_span(snapshot, name, 0, begun[at].time_us, end_us);
	memmove(begun + at, begun + at + 1, (--*count - (size_t)at) * sizeof(*begun));
}

/* Ranges that record_function() marked own what has no stack. */
static int write_annotations(struct snapshot *snapshot)
{
	const struct pfw_pickle_value *all =
		pfw_pickle_get(&snapshot->pickle.root, "external_annotations");
	struct begun *begun = calloc(ANNOTATIONS_MAX, sizeof(*begun));
	size_t count = 0;

	if (!begun)
		return -ENOMEM;
	for (size_t i = 0; i < length(all); i++) {
		const struct pfw_pickle_value *one = &all->items->item[i];
		const struct pfw_pickle_value *name = pfw_pickle_get(one, "name");
		int64_t device = whole(one, "device", NULL);
		int64_t time_us = whole(one, "time_us", NULL), at;

		if (!name || name->kind != PFW_PICKLE_TEXT || time_us < 0 ||
		    time_us > INT64_MAX / NS_IN_US - 1)
			continue;
		if (pfw_pickle_text_is(pfw_pickle_get(one, "stage"), "START")) {
			/* So many at a time are no program's: the oldest goes. */
			if (count == ANNOTATIONS_MAX)
				memmove(begun, begun + 1, --count * sizeof(*begun));
			begun[count++] = (struct begun){ name, time_us, device };
			continue;
		}
		at = find_begun(begun, count, name, device);
		if (at >= 0)
			end_annotation(snapshot, begun, &count, at, time_us);
	}
	free(begun);
	return 0;
}

/* ---- the trace ---- */

/* `{name}-rank{N}-memory-*.pickle`: -1 where the name has none. */
static int64_t rank_of(const char *path)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	const char *at = strstr(name, "-rank");
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
	fprintf(snapshot->out,
		",\"ts\":0.000,\"ph\":\"M\",\"args\":{\"format\":1,\"version\":\"1\",\"run\":"
		"\"snapshot\",\"host\":\"\",\"boot\":\"\",\"rank\":%s,\"world_size\":1,"
		"\"local_rank\":null,\"rank_source\":\"imported\",\"ppid\":0,\"cmd\":\"snapshot\","
		"\"start_ts\":0,\"clock\":\"imported\",\"spool\":null}}\n",
		text);
}

static int write_trace(struct snapshot *snapshot, const char *path)
{
	int error;

	write_head(snapshot, path);
	error = write_devices(snapshot);
	error = error ? error : write_annotations(snapshot);
	for (uint32_t i = 1; i < snapshot->owners.count && !error; i++) {
		const struct pfw_average *owner = &snapshot->owners.row[i];
		char name[OWNER_BYTES];

		snprintf(name, sizeof(name), "%.*s", (int)owner->key_bytes, owner->key);
		write_span(snapshot, name, i, snapshot->least_us, snapshot->greatest_us);
	}
	begin_line(snapshot, "end", "pfw", 0);
	fprintf(snapshot->out,
		",\"ts\":%" PRId64 ".000,\"ph\":\"M\",\"args\":{\"events\":%" PRIu64
		",\"lost\":0,\"reason\":\"exit\"}}\n",
		snapshot->greatest_us, snapshot->lines - 2);
	if (!error && fflush(snapshot->out) != 0)
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
	snapshot->out = fdopen(fd, "w");
	if (!snapshot->out) {
		error = -errno;
		close(fd);
		return error;
	}
	error = write_trace(snapshot, path);
	if (error)
		fclose(snapshot->out);
	return error;
}

int snapshot_open(FILE **trace, const char *path, char *why, size_t size)
{
	struct snapshot snapshot = { .least_us = INT64_MAX };
	int error;

	pfw_averages_init(&snapshot.owners);
	error = pfw_averages_row(&snapshot.owners, "", 0) < 0 ? -ENOMEM : convert(&snapshot, path);
	if (error == -EINVAL)
		snprintf(why, size,
			 "no snapshot of memory, as torch.cuda.memory._dump_snapshot() writes: %s",
			 snapshot.wrong ? snapshot.wrong : snapshot.pickle.why);
	else if (error)
		snprintf(why, size, "%s", strerror(-error));
	*trace = error ? NULL : snapshot.out;
	pfw_averages_release(&snapshot.owners);
	pfw_pickle_release(&snapshot.pickle);
	return error;
}
