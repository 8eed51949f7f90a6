/* export_perfetto.h - `pfw export --format perfetto`: the half that its parts share. */
#ifndef PFW_EXPORT_PERFETTO_H
#define PFW_EXPORT_PERFETTO_H

#include "export_chrome.h"

/* ---- texts that are told once (perfetto_names.c) ---- */

enum perfetto_text { PERFETTO_CATEGORY, PERFETTO_NAME, PERFETTO_KEY, PERFETTO_STRING };

struct perfetto_names {
	struct perfetto_slot {
		const char *text;
		uint64_t hash;
		uint32_t bytes, iid; /* iid 0: free */
	} * slot;
	uint32_t count, slots; /* a power of two */
	struct pfw_arena texts;
	struct pfw_text told; /* fields of InternedData that are still to be written */
	uint64_t seed;
};

int perfetto_names_init(struct perfetto_names *names);
void perfetto_names_free(struct perfetto_names *names);

/* The number of a text, as it stands in JSON; 0: no memory. */
uint32_t perfetto_iid(struct perfetto_names *names, enum perfetto_text kind, struct pfw_slice text);

/* Whether they should be forgotten, so that their memory is bounded; the reader is told, too. */
bool perfetto_names_full(const struct perfetto_names *names);
void perfetto_names_clear(struct perfetto_names *names);

/* ---- packets (perfetto_packet.c) ---- */

/* A span that is not over. */
struct perfetto_open {
	int64_t end_ns;
	uint64_t track;
};

struct perfetto {
	const struct export_job *job;
	struct chrome_rows rows;
	struct chrome_flows flows;
	struct export_args args;
	struct perfetto_names names;
	struct pfw_numbers tracks; /* uuids, less 1 */
	const char **told;	   /* of tracks of processes and threads: the name written last */
	size_t told_room;
	struct perfetto_open *open; /* a heap, the earliest end first */
	size_t open_count, open_room;
	int64_t now_ns; /* of the last packet */
	bool begun;
};

/* Begin the sequence, or forget all texts: times count from then on. */
int perfetto_begin(struct perfetto *perfetto, int64_t ts_ns);

/* Room for a packet with `bytes` of content. */
char *perfetto_room(struct perfetto *perfetto, size_t bytes);

/* The content of a packet of that time, of a track event in it. */
char *perfetto_stamp(char *at, struct perfetto *perfetto, int64_t ts_ns);

/* Keep a span's end until its time has come.  0 or -ENOMEM. */
int perfetto_open(struct perfetto *perfetto, int64_t end_ns, uint64_t track);

/* Write the ends up to `ts_ns`.  0 or -errno. */
int perfetto_close(struct perfetto *perfetto, int64_t ts_ns);

/* ---- who is shown where (perfetto_tracks.c) ---- */

/* The track of a place, a counter of a process: its uuid, told before it is first used; 0: *error. */
uint64_t perfetto_track(struct perfetto *perfetto, size_t file, const struct chrome_place *place,
			int *error);
uint64_t perfetto_counter(struct perfetto *perfetto, size_t file, uint32_t process,
			  struct pfw_slice name, struct pfw_slice key, int *error);

/* Tell the names that have become known since then.  0 or -errno. */
int perfetto_tracks_end(struct perfetto *perfetto);

#endif
