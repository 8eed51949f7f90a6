/* tools/perfetto/perfetto.h - the parts of `pfw export --format perfetto`.
 *
 * Room tools/perfetto: timelines in Perfetto's protobuf form.  It may use tools/chrome (placing of
 * events), tools/export and the rooms before them.  Start with perfetto.c, then wire.h.
 */
#pragma once

#include "chrome/chrome.h"
#include "store/kit/text_ids.h"

/* ---- interned texts (packet.c) ---- */

enum perfetto_text { PERFETTO_CATEGORY, PERFETTO_NAME, PERFETTO_KEY, PERFETTO_STRING };

struct perfetto_names {
	struct pfw_text_ids texts; /* of each kind; iids are numbers + 1 */
	struct pfw_buffer told;	   /* fields of InternedData not written yet */
};

void perfetto_names_free(struct perfetto_names *names);

/* The number of a text, given as JSON has it; 0: no memory. */
uint32_t perfetto_iid(struct perfetto_names *names, enum perfetto_text kind, struct pfw_slice text);

/* Whether the texts should be forgotten, to bound their memory; the trace then says so. */
bool perfetto_names_full(const struct perfetto_names *names);

/* ---- packets (packet.c) ---- */

/* A span that has not ended. */
struct perfetto_open {
	int64_t end_ns;
	uint64_t track;
};

struct perfetto {
	const struct export_job *job;
	struct chrome_rows rows;
	struct chrome_flows launches, passes;
	struct export_args args;
	struct perfetto_names names;
	struct pfw_pair_ids tracks; /* uuids, minus 1 */
	const char **told;	    /* the name last written of a process's or thread's track */
	size_t told_room;
	struct perfetto_open *open; /* a heap by end */
	size_t open_count, open_room;
	int64_t now_ns; /* the last packet's time */
	bool begun;
};

/* Begin the sequence, or forget all texts: times count from ts_ns. */
int perfetto_begin(struct perfetto *perfetto, int64_t ts_ns);

/* Room for a packet with `bytes` of content. */
char *perfetto_room(struct perfetto *perfetto, size_t bytes);

/* Begin the content of a packet at that time, or of a track event in it. */
char *perfetto_stamp(char *at, struct perfetto *perfetto, int64_t ts_ns);

/* Keep a span's end until its time comes. 0 or -ENOMEM. */
int perfetto_open(struct perfetto *perfetto, int64_t end_ns, uint64_t track);

/* Write the ends up to `ts_ns`.  0 or -errno. */
int perfetto_close(struct perfetto *perfetto, int64_t ts_ns);

/* ---- tracks (tracks.c) ---- */

/* The uuid of the track of a place or a process's counter, defined before its use; 0: *error. */
uint64_t perfetto_track(struct perfetto *perfetto, size_t file, const struct chrome_place *place,
			int *error);
uint64_t perfetto_counter(struct perfetto *perfetto, size_t file, uint32_t process,
			  struct pfw_slice name, struct pfw_slice key, int *error);

/* Write the names that became known later. 0 or -errno. */
int perfetto_tracks_end(struct perfetto *perfetto);
