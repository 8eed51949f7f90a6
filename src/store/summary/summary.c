/* store/summary/summary.c - the tables of a summary, and the search for rows; see summary.h. */
#include "store/summary/summary.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/line/io.h"
#include "store/summary/rows.h"

/* ---- tables of rows ---- */

/* Whether a table may have another row, with that many bytes of text. */
static bool may_add(const struct pfw_summary *summary, uint32_t rows, uint32_t most, size_t bytes)
{
	return rows < most && bytes <= PFW_SUMMARY_TEXT_MAX &&
	       summary->texts.bytes + bytes <= PFW_SUMMARY_TEXTS_MAX;
}

/* ---- names ---- */

static int64_t add_name(struct pfw_summary *summary, const struct pfw_summary_key *key)
{
	uint32_t row = summary->names;
	struct pfw_summary_name *name;
	struct pfw_sketch durations;
	struct pfw_io_call call;
	char *text;

	if (row && !may_add(summary, row, PFW_SUMMARY_NAMES_MAX, key->cat_bytes + key->name_bytes))
		return 0;
	if (PFW_REACH(summary->name, row, summary->name_room) ||
	    pfw_hash_slots_reserve(&summary->by_name))
		return -ENOMEM;
	text = pfw_arena_take(&summary->texts, key->cat_bytes + key->name_bytes);
	if (!text)
		return -ENOMEM;
	memcpy(text, key->cat, key->cat_bytes);
	memcpy(text + key->cat_bytes, key->name, key->name_bytes);
	call = pfw_summary_call(key->cat, key->cat_bytes, key->name, key->name_bytes);
	name = &summary->name[row];
	durations = name->durations; /* of a row before pfw_summary_clear(): its memory is reused */
	*name = (struct pfw_summary_name){
		.cat = text,
		.name = text + key->cat_bytes,
		.cat_bytes = key->cat_bytes,
		.name_bytes = key->name_bytes,
		.ph = key->ph,
		.min_ns = INT64_MAX,
		.max_ns = INT64_MIN,
		.durations = durations,
		.hash = key->hash,
		.role = call.role,
		.moves = call.moves,
	};
	if (row)
		pfw_hash_slots_add(&summary->by_name, key->hash, row);
	summary->names++;
	return row;
}

static inline bool is_name(const struct pfw_summary_name *name, const struct pfw_summary_key *key)
{
	return name->name_bytes == key->name_bytes && name->cat_bytes == key->cat_bytes &&
	       name->ph == key->ph && pfw_hash_same(name->name, key->name, key->name_bytes) &&
	       pfw_hash_same(name->cat, key->cat, key->cat_bytes);
}

int64_t pfw_summary_find_name(struct pfw_summary *summary, const struct pfw_summary_key *key)
{
	uint32_t at = key->hash, row;

	while ((row = pfw_hash_slots_next(&summary->by_name, key->hash, &at))) {
		if (is_name(&summary->name[row], key))
			return row;
	}
	return add_name(summary, key);
}

int64_t pfw_summary_name_row(struct pfw_summary *summary, const char *cat, size_t cat_bytes,
			     const char *name, size_t name_bytes, char ph)
{
	struct pfw_summary_key key = { .cat = cat, .name = name, .ph = ph };
	uint64_t hash;

	if (cat_bytes + name_bytes > PFW_SUMMARY_TEXT_MAX)
		return 0;
	key.cat_bytes = (uint32_t)cat_bytes;
	key.name_bytes = (uint32_t)name_bytes;
	hash = pfw_hash_pair(summary->seed + (uint8_t)ph, cat, cat_bytes, name, name_bytes);
	key.hash = (uint32_t)(hash ^ hash >> 32);
	return pfw_summary_find_name(summary, &key);
}

/* ---- files ---- */

static int64_t add_file(struct pfw_summary *summary, const char *text, size_t bytes, uint32_t hash)
{
	uint32_t row = summary->files;
	char *copy;

	if (row && !may_add(summary, row, PFW_SUMMARY_FILES_MAX, bytes))
		return 0;
	if (PFW_REACH_MAPPED(summary->file, row, summary->file_room) ||
	    pfw_hash_slots_reserve(&summary->by_file))
		return -ENOMEM;
	copy = pfw_arena_take(&summary->texts, bytes);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, text, bytes);
	summary->file[row] = (struct pfw_summary_file){ .name = copy,
							.name_bytes = (uint32_t)bytes,
							.hash = hash };
	if (row)
		pfw_hash_slots_add(&summary->by_file, hash, row);
	summary->files++;
	return row;
}

int64_t pfw_summary_find_file(struct pfw_summary *summary, const char *text, size_t bytes,
			      uint32_t hash)
{
	uint32_t at = hash, row;

	while ((row = pfw_hash_slots_next(&summary->by_file, hash, &at))) {
		if (summary->file[row].name_bytes == bytes &&
		    pfw_hash_same(summary->file[row].name, text, bytes))
			return row;
	}
	return add_file(summary, text, bytes, hash);
}

/* The cache slot of a file: names of files mostly differ near their ends.  `bytes` is not 0. */
static inline uint32_t *recent_file(struct pfw_summary *summary, const char *name, size_t bytes)
{
	size_t few = bytes < 8 ? bytes : 8;

	return &summary->recent_file[pfw_hash_load(name + bytes - few, few) * 0x9e3779b97f4a7c15u >>
					     32 &
				     (PFW_SUMMARY_RECENT - 1)];
}

int64_t pfw_summary_file_row(struct pfw_summary *summary, const char *name, size_t bytes)
{
	const struct pfw_summary_file *file;
	uint32_t *recent;
	uint64_t hash;
	int64_t row;

	if (!bytes || bytes > PFW_SUMMARY_TEXT_MAX)
		return 0;
	/* Calls on one file mostly come in sequence. */
	recent = recent_file(summary, name, bytes);
	file = &summary->file[*recent];
	if (*recent && file->name_bytes == bytes && pfw_hash_same(file->name, name, bytes))
		return *recent;
	hash = pfw_hash_text(summary->seed, name, bytes);
	row = pfw_summary_find_file(summary, name, bytes, (uint32_t)(hash ^ hash >> 32));
	if (row > 0)
		*recent = (uint32_t)row;
	return row;
}

/* ---- threads ---- */

static int64_t add_thread(struct pfw_summary *summary, uint64_t pid, uint64_t tid, uint32_t hash)
{
	uint32_t row = summary->threads;

	if (row && !may_add(summary, row, PFW_SUMMARY_THREADS_MAX, 0))
		return 0;
	if (PFW_REACH(summary->thread, row, summary->thread_room) ||
	    pfw_hash_slots_reserve(&summary->by_thread))
		return -ENOMEM;
	summary->thread[row] = (struct pfw_summary_thread){ .pid = pid,
							    .tid = tid,
							    .name = "",
							    .first_ns = INT64_MAX,
							    .last_ns = INT64_MIN,
							    .call_ns = INT64_MAX,
							    .calls_end_ns = INT64_MIN };
	if (row)
		pfw_hash_slots_add(&summary->by_thread, hash, row);
	summary->threads++;
	return row;
}

int64_t pfw_summary_thread_row(struct pfw_summary *summary, uint64_t pid, uint64_t tid)
{
	uint64_t mixed;
	uint32_t hash, at, row;
	int64_t added;

	mixed = pfw_hash_mix(pid ^ summary->seed, 0x9e3779b97f4a7c15u);
	mixed = pfw_hash_mix(tid ^ mixed, 0xd6e8feb86659fd93u ^ summary->seed);
	hash = at = (uint32_t)(mixed ^ mixed >> 32);
	while ((row = pfw_hash_slots_next(&summary->by_thread, hash, &at))) {
		if (summary->thread[row].tid == tid && summary->thread[row].pid == pid)
			break;
	}
	added = row ? row : add_thread(summary, pid, tid, hash);
	if (added > 0)
		summary->last_thread = (uint32_t)added;
	return added;
}

int pfw_summary_name_thread(struct pfw_summary *summary, uint32_t row, const char *name,
			    size_t bytes)
{
	struct pfw_summary_thread *thread = &summary->thread[row];
	char *copy;

	if (!row || (thread->name_bytes == bytes && memcmp(thread->name, name, bytes) == 0) ||
	    !may_add(summary, 0, 1, bytes))
		return 0;
	copy = pfw_arena_copy(&summary->texts, name, bytes);
	if (!copy)
		return -ENOMEM;
	thread->name = copy;
	thread->name_bytes = (uint32_t)bytes;
	return 0;
}

/* ---- the rest ---- */

/* A terminated copy of a text; "" beyond the limit. */
static const char *keep(struct pfw_summary *summary, const char *text)
{
	size_t bytes = text ? strlen(text) : 0;

	return may_add(summary, 0, 1, bytes)
		       ? pfw_arena_copy(&summary->texts, text ? text : "", bytes)
		       : "";
}

int pfw_summary_add_process(struct pfw_summary *summary, const struct pfw_summary_process *process)
{
	struct pfw_summary_process *to;

	if (summary->processes == PFW_SUMMARY_PROCESSES_MAX) {
		summary->left_out++;
		return 0;
	}
	if (PFW_REACH(summary->process, summary->processes, summary->process_room))
		return -ENOMEM;
	to = &summary->process[summary->processes];
	*to = *process;
	to->run = keep(summary, process->run);
	to->host = keep(summary, process->host);
	to->command = keep(summary, process->command);
	to->reason = process->reason ? keep(summary, process->reason) : NULL;
	if (!to->run || !to->host || !to->command || (process->reason && !to->reason))
		return -ENOMEM;
	summary->processes++;
	return 0;
}

int pfw_summary_update_process(struct pfw_summary *summary, const struct pfw_summary_process *news)
{
	uint32_t i = summary->processes;
	struct pfw_summary_process *process;
	const char *reason;

	while (i && summary->process[i - 1].pid != news->pid)
		i--;
	/* Its `process` line is in an earlier block, or missing. */
	if (!i)
		return pfw_summary_add_process(summary, news);
	process = &summary->process[i - 1];
	if (news->rank != PFW_SUMMARY_NO_RANK)
		process->rank = news->rank;
	if (!news->reason)
		return 0;
	reason = keep(summary, news->reason);
	if (!reason)
		return -ENOMEM;
	process->reason = reason;
	process->end_ns = news->end_ns;
	process->events = news->events;
	process->lost = news->lost;
	return 0;
}

int pfw_summary_add_step(struct pfw_summary *summary, const struct pfw_summary_step *step)
{
	if (summary->steps == PFW_SUMMARY_STEPS_MAX) {
		summary->left_out++;
		return 0;
	}
	if (PFW_REACH(summary->step, summary->steps, summary->step_room))
		return -ENOMEM;
	summary->step[summary->steps++] = *step;
	return 0;
}

/* Whether each line of a kind counts anew; lines of all other kinds are running totals. */
static bool adds_up(const char *kind)
{
	return strcmp(kind, "untraced_child") == 0 || strcmp(kind, "clock_step") == 0;
}

int pfw_summary_add_loss(struct pfw_summary *summary, const struct pfw_summary_loss *loss)
{
	struct pfw_summary_loss *to;

	for (uint32_t i = summary->losses; i-- > 0;) {
		to = &summary->loss[i];
		if (to->pid != loss->pid || strcmp(to->kind, loss->kind) != 0 ||
		    strcmp(to->reason, loss->reason) != 0)
			continue;
		to->count = loss->count + (adds_up(to->kind) ? to->count : 0);
		to->total_ns = loss->total_ns;
		to->last_ns = loss->last_ns;
		return 0;
	}
	if (summary->losses == PFW_SUMMARY_LOSSES_MAX) {
		summary->left_out++;
		return 0;
	}
	if (PFW_REACH(summary->loss, summary->losses, summary->loss_room))
		return -ENOMEM;
	to = &summary->loss[summary->losses];
	*to = *loss;
	to->kind = keep(summary, loss->kind);
	to->reason = keep(summary, loss->reason);
	if (!to->kind || !to->reason)
		return -ENOMEM;
	summary->losses++;
	return 0;
}

/* ---- a whole one ---- */

/* Add row 0 of each table. */
static int add_others(struct pfw_summary *summary)
{
	const struct pfw_summary_key nothing = { .cat = "", .name = "", .ph = '?' };

	if (add_name(summary, &nothing) < 0 || add_file(summary, "", 0, 0) < 0 ||
	    add_thread(summary, 0, 0, 0) < 0)
		return -ENOMEM;
	return 0;
}

static void reset(struct pfw_summary *summary)
{
	summary->lines = summary->events = summary->left_out = 0;
	summary->least_ns = INT64_MAX;
	summary->greatest_ns = INT64_MIN;
	summary->sorted = true;
	summary->nested = summary->untimed = false;
	summary->first_ns = INT64_MAX;
	summary->last_ns = INT64_MIN;
	summary->names = summary->files = summary->threads = 0;
	summary->processes = summary->steps = summary->losses = 0;
	summary->last_thread = 0;
	memset(summary->recent, 0, sizeof(summary->recent));
	memset(summary->recent_file, 0, sizeof(summary->recent_file));
}

int pfw_summary_init(struct pfw_summary *summary)
{
	*summary = (struct pfw_summary){ .seed = pfw_hash_seed() };
	reset(summary);
	if (pfw_hash_slots_init(&summary->by_name) || pfw_hash_slots_init(&summary->by_file) ||
	    pfw_hash_slots_init(&summary->by_thread) || add_others(summary)) {
		pfw_summary_release(summary);
		return -ENOMEM;
	}
	return 0;
}

void pfw_summary_clear(struct pfw_summary *summary)
{
	for (uint32_t i = 0; i < summary->names; i++)
		pfw_sketch_clear(&summary->name[i].durations);
	pfw_hash_slots_clear(&summary->by_name);
	pfw_hash_slots_clear(&summary->by_file);
	pfw_hash_slots_clear(&summary->by_thread);
	pfw_arena_clear(&summary->texts);
	reset(summary);
	add_others(summary); /* cannot fail: the memory is there */
}

void pfw_summary_release(struct pfw_summary *summary)
{
	for (uint32_t i = 0; i < summary->name_room; i++)
		pfw_sketch_release(&summary->name[i].durations);
	pfw_hash_slots_release(&summary->by_name);
	pfw_hash_slots_release(&summary->by_file);
	pfw_hash_slots_release(&summary->by_thread);
	free(summary->name);
	PFW_FREE_MAPPED(summary->file, summary->file_room);
	free(summary->thread);
	free(summary->process);
	free(summary->step);
	free(summary->loss);
	pfw_arena_release(&summary->texts);
	*summary = (struct pfw_summary){ 0 };
}

bool pfw_summary_has_calls_only(const struct pfw_summary *summary)
{
	for (uint32_t i = 1; i < summary->names; i++) {
		const struct pfw_summary_name *name = &summary->name[i];
		const struct pfw_slice cat = { .at = name->cat, .bytes = name->cat_bytes };

		if (name->ph != 'M' && name->ph != 's' && !pfw_is_io(&cat))
			return false;
	}
	return true;
}
