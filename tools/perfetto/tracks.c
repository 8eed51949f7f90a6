/* tools/perfetto/tracks.c - the tracks of processes, threads, streams and counters; see perfetto.h.
 *
 * A thread's first lane is one of Perfetto's own process and thread tracks.  A device is a child
 * track of its rank's first process, a stream a child of the device.  Lanes of a stream share one
 * name, so that the page shows them together.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "perfetto/perfetto.h"
#include "perfetto/wire.h"
#include "store/kit/grow.h"
#include "store/kit/hash.h"

enum { OF_PROCESS, OF_COUNTER, OF_LANE }; /* larger numbers: lanes */

struct track {
	uint64_t uuid, parent; /* parent 0: no parent */
	bool known;
	const char *name;	   /* as the trace's JSON has it, or NULL */
	char *packet, *descriptor; /* the messages that begin_track() opened */
};

/* Find a track's number, and whether the track is defined. */
static int find(struct perfetto *perfetto, struct track *track, uint64_t what, uint64_t which)
{
	uint32_t before = perfetto->tracks.count;
	int64_t number = pfw_pair_ids_of(&perfetto->tracks, what, which);

	*track = (struct track){ .uuid = (uint64_t)number + 1, .known = number < before };
	return number < 0 ? (int)number : 0;
}

/* Remember which name was written. */
static int note(struct perfetto *perfetto, const struct track *track)
{
	if (PFW_REACH(perfetto->told, track->uuid, perfetto->told_room))
		return -ENOMEM;
	perfetto->told[track->uuid] = track->name;
	return 0;
}

/* Begin a packet that defines a track. */
static char *begin_track(struct perfetto *perfetto, struct track *track, size_t bytes)
{
	char *at = perfetto_room(perfetto, bytes + 256);

	if (!at)
		return NULL;
	track->packet = wire_open(at, TRACE_PACKET);
	at = wire_u64(track->packet, PACKET_SEQUENCE_ID, 1);
	track->descriptor = wire_open(at, PACKET_TRACK_DESCRIPTOR);
	at = wire_u64(track->descriptor, TRACK_UUID, track->uuid);
	return track->parent ? wire_u64(at, TRACK_PARENT, track->parent) : at;
}

static int end_track(struct perfetto *perfetto, const struct track *track, char *at)
{
	at = wire_close(track->packet, wire_close(track->descriptor, at));
	return export_sink_used(perfetto->job->sink, at);
}

/* Append a field: a name between two texts. */
static char *put_name(char *at, unsigned field, const char *before, const char *name,
		      const char *behind)
{
	const struct pfw_slice text = { .at = name, .bytes = strlen(name), .escaped = true };
	char *content = wire_open(at, field);

	at = content + strlen(before);
	memcpy(content, before, strlen(before));
	at += pfw_slice_decode(&text, at, text.bytes + 1);
	memcpy(at, behind, strlen(behind));
	return wire_close(content, at + strlen(behind));
}

/* ---- processes and devices ---- */

static int process_track(struct perfetto *perfetto, size_t file, uint32_t process,
			 struct track *track);

static int tell_process(struct perfetto *perfetto, const struct chrome_process *process,
			struct track *track)
{
	const struct chrome_group *group = &perfetto->rows.groups[process->group];
	const char *name = track->name ? track->name : "process";
	char *part, *at, rank[192] = "";

	if (perfetto->job->options->merge && group->rank >= 0)
		snprintf(rank, sizeof(rank), "rank %" PRId64 "%s%s: ", group->rank,
			 *group->host ? " on " : "", group->host);
	at = begin_track(perfetto, track, strlen(name));
	if (!at)
		return -ENOMEM;
	if (process->pid > INT32_MAX)
		return end_track(perfetto, track, put_name(at, TRACK_NAME, rank, name, ""));
	part = wire_open(at, TRACK_PROCESS);
	at = wire_u64(part, PROCESS_PID, process->pid);
	at = put_name(at, PROCESS_NAME, rank, name, "");
	return end_track(perfetto, track, wire_close(part, at));
}

static int tell_device(struct perfetto *perfetto, const struct chrome_process *process,
		       struct track *track)
{
	char *at, name[32];

	snprintf(name, sizeof(name), "GPU %" PRId64, process->device);
	at = begin_track(perfetto, track, 0);
	return at ? end_track(perfetto, track, wire_text(at, TRACK_NAME, name)) : -ENOMEM;
}

/* A device is shown in its rank's first process. */
static int find_parent(struct perfetto *perfetto, size_t file, uint32_t process,
		       struct track *track)
{
	int64_t parent =
		chrome_first_process(&perfetto->rows, perfetto->rows.process[process].group);
	struct track other;
	int error = parent < 0 ? (int)parent
			       : process_track(perfetto, file, (uint32_t)parent, &other);

	track->parent = other.uuid;
	return error;
}

static int process_track(struct perfetto *perfetto, size_t file, uint32_t process,
			 struct track *track)
{
	const struct chrome_process *row = &perfetto->rows.process[process];
	int error = find(perfetto, track, OF_PROCESS, process);

	if (error || track->known)
		return error;
	if (row->device >= 0) {
		error = find_parent(perfetto, file, process, track);
		row = &perfetto->rows.process[process];
		return error ?: tell_device(perfetto, row, track);
	}
	track->name = row->name;
	return note(perfetto, track) ?: tell_process(perfetto, row, track);
}

/* ---- threads and streams ---- */

static int tell_thread(struct perfetto *perfetto, const struct chrome_thread *thread, uint32_t lane,
		       struct track *track)
{
	const struct chrome_process *process = &perfetto->rows.process[thread->process];
	char *part, *at, behind[32] = "", number[40];
	bool stream = process->device >= 0;
	const char *name = stream || !track->name ? number : track->name;

	snprintf(number, sizeof(number), "%s %" PRIu64, stream ? "stream" : "thread", thread->tid);
	if (lane && !stream)
		snprintf(behind, sizeof(behind), " (lane %u)", lane + 1);
	at = begin_track(perfetto, track, strlen(name));
	if (!at)
		return -ENOMEM;
	if (track->parent)
		return end_track(perfetto, track, put_name(at, TRACK_NAME, "", name, behind));
	part = wire_open(at, TRACK_THREAD);
	at = wire_u64(part, THREAD_PID, process->pid);
	at = wire_u64(at, THREAD_TID, thread->tid);
	if (track->name)
		at = put_name(at, THREAD_NAME, "", name, "");
	return end_track(perfetto, track, wire_close(part, at));
}

/* Perfetto's thread ids have 31 bits. */
static bool is_thread(const struct perfetto *perfetto, const struct chrome_thread *thread)
{
	const struct chrome_process *process = &perfetto->rows.process[thread->process];

	return process->device < 0 && process->pid <= INT32_MAX && thread->tid <= INT32_MAX;
}

static int lane_track(struct perfetto *perfetto, size_t file, uint32_t thread, uint32_t lane,
		      struct track *track)
{
	const struct chrome_thread *row = &perfetto->rows.thread[thread];
	struct track parent;
	int error = find(perfetto, track, OF_LANE + (uint64_t)lane, thread);

	if (error || track->known)
		return error;
	error = process_track(perfetto, file, row->process, &parent);
	row = &perfetto->rows.thread[thread];
	if (!error && lane && is_thread(perfetto, row))
		error = lane_track(perfetto, file, thread, 0, &parent);
	if (lane || !is_thread(perfetto, row))
		track->parent = parent.uuid;
	track->name = row->name;
	if (!error && !lane)
		error = note(perfetto, track);
	return error ?: tell_thread(perfetto, row, lane, track);
}

uint64_t perfetto_track(struct perfetto *perfetto, size_t file, const struct chrome_place *place,
			int *error)
{
	struct track track;

	*error = lane_track(perfetto, file, place->thread, place->lane, &track);
	return *error ? 0 : track.uuid;
}

/* ---- counters ---- */

uint64_t perfetto_counter(struct perfetto *perfetto, size_t file, uint32_t process,
			  struct pfw_slice name, struct pfw_slice key, int *error)
{
	uint64_t hash = pfw_hash_pair(pfw_hash_seed(), key.at, key.bytes, name.at, name.bytes);
	struct track track, parent;
	char *part, *at;

	*error = find(perfetto, &track, OF_COUNTER | (uint64_t)process << 32, hash);
	if (*error || track.known)
		return *error ? 0 : track.uuid;
	*error = process_track(perfetto, file, process, &parent);
	if (*error)
		return 0;
	track.parent = parent.uuid;
	at = begin_track(perfetto, &track, name.bytes + key.bytes);
	if (!at) {
		*error = -ENOMEM;
		return 0;
	}
	part = wire_open(at, TRACK_NAME);
	at = part + pfw_slice_decode(&name, part, name.bytes + 1);
	*at++ = ' ';
	at += pfw_slice_decode(&key, at, key.bytes + 1);
	at = wire_close(part, at);
	at = wire_bytes(at, TRACK_COUNTER, "", 0);
	*error = end_track(perfetto, &track, at);
	return *error ? 0 : track.uuid;
}

/* ---- names that became known late ---- */

int perfetto_tracks_end(struct perfetto *perfetto)
{
	const struct chrome_rows *rows = &perfetto->rows;
	struct track track;
	int error = 0;

	for (uint32_t i = 0; i < rows->process_count && !error; i++) {
		if (rows->process[i].device >= 0)
			continue;
		error = find(perfetto, &track, OF_PROCESS, i);
		track.name = rows->process[i].name;
		if (!error && track.name && track.known && track.name != perfetto->told[track.uuid])
			error = tell_process(perfetto, &rows->process[i], &track);
	}
	for (uint32_t i = 0; i < rows->thread_count && !error; i++) {
		error = find(perfetto, &track, OF_LANE, i);
		track.name = rows->thread[i].name;
		if (!error && track.name && track.known && is_thread(perfetto, &rows->thread[i]) &&
		    track.name != perfetto->told[track.uuid])
			error = tell_thread(perfetto, &rows->thread[i], 0, &track);
	}
	return error;
}
