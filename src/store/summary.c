/* summary.c - the tables of a summary: their rows, and adding two of them up; see summary.h. */
#include "summary.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "hash.h"
#include "summary_lines.h"
#include "summary_rows.h"

#define FIRST_SLOTS 256u
/* Files by which merging runs ahead of itself. */
#define FETCH_AHEAD 4u

/* ---- tables of rows ---- */

static int table_init(struct pfw_summary_table *table)
{
	table->mask = FIRST_SLOTS - 1;
	table->slot = calloc(FIRST_SLOTS, sizeof(*table->slot));
	return table->slot ? 0 : -ENOMEM;
}

static void table_clear(struct pfw_summary_table *table)
{
	if (table->used)
		memset(table->slot, 0, ((size_t)table->mask + 1) * sizeof(*table->slot));
	table->used = 0;
}

static void table_put(uint64_t *slot, uint32_t mask, uint64_t value)
{
	uint32_t at = (uint32_t)(value >> 32) & mask;

	while (slot[at])
		at = (at + 1) & mask;
	slot[at] = value;
}

/* Have room for one more row. */
static int table_reserve(struct pfw_summary_table *table)
{
	uint32_t mask = table->mask * 2 + 1;
	uint64_t *slot;

	if (table->used < table->mask / 2)
		return 0;
	slot = calloc((size_t)mask + 1, sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	for (uint32_t i = 0; i <= table->mask; i++) {
		if (table->slot[i])
			table_put(slot, mask, table->slot[i]);
	}
	free(table->slot);
	table->slot = slot;
	table->mask = mask;
	return 0;
}

static void table_add(struct pfw_summary_table *table, uint32_t hash, uint32_t row)
{
	table_put(table->slot, table->mask, (uint64_t)hash << 32 | row);
	table->used++;
}

/* The next row with that hash, from *at on, which is the hash at first; 0: there is none. */
static inline uint32_t table_next(const struct pfw_summary_table *table, uint32_t hash,
				  uint32_t *at)
{
	for (;; ++*at) {
		uint64_t slot = table->slot[*at & table->mask];

		if (!slot)
			return 0;
		if ((uint32_t)(slot >> 32) == hash) {
			++*at;
			return (uint32_t)slot;
		}
	}
}

int pfw_rows_reserve(void **rows, uint32_t count, uint32_t *room, size_t size)
{
	uint32_t bigger = *room ? *room * 2 : 64;
	char *moved;

	if (count < *room)
		return 0;
	moved = realloc(*rows, bigger * size);
	if (!moved)
		return -ENOMEM;
	memset(moved + *room * size, 0, (bigger - *room) * size);
	*rows = moved;
	*room = bigger;
	return 0;
}

/* Whether a table may have another row, whose text has that many bytes. */
static bool may_add(const struct pfw_summary *summary, uint32_t rows, uint32_t most, size_t bytes)
{
	return rows < most && bytes <= PFW_SUMMARY_TEXT_MAX &&
	       summary->texts.bytes + bytes <= PFW_SUMMARY_TEXTS_MAX;
}

/* ---- names ---- */

/* What a row is found by. */
struct name_key {
	const char *cat, *name;
	uint32_t cat_bytes, name_bytes, hash;
	char ph;
};

static int64_t add_name(struct pfw_summary *summary, const struct name_key *key)
{
	uint32_t row = summary->names;
	struct pfw_summary_name *name;
	struct pfw_sketch durations;
	struct pfw_call call;
	char *text;

	if (row && !may_add(summary, row, PFW_SUMMARY_NAMES_MAX, key->cat_bytes + key->name_bytes))
		return 0;
	if (pfw_rows_reserve((void **)&summary->name, row, &summary->name_room, sizeof(*name)) ||
	    table_reserve(&summary->by_name))
		return -ENOMEM;
	text = pfw_arena_take(&summary->texts, key->cat_bytes + key->name_bytes);
	if (!text)
		return -ENOMEM;
	memcpy(text, key->cat, key->cat_bytes);
	memcpy(text + key->cat_bytes, key->name, key->name_bytes);
	call = pfw_summary_call(key->cat, key->cat_bytes, key->name, key->name_bytes);
	name = &summary->name[row];
	durations = name->durations; /* of a row before pfw_summary_clear(): its memory is kept */
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
		table_add(&summary->by_name, key->hash, row);
	summary->names++;
	return row;
}

static inline bool is_name(const struct pfw_summary_name *name, const struct name_key *key)
{
	return name->name_bytes == key->name_bytes && name->cat_bytes == key->cat_bytes &&
	       name->ph == key->ph && pfw_hash_same(name->name, key->name, key->name_bytes) &&
	       pfw_hash_same(name->cat, key->cat, key->cat_bytes);
}

static int64_t find_name(struct pfw_summary *summary, const struct name_key *key)
{
	uint32_t at = key->hash, row;

	while ((row = table_next(&summary->by_name, key->hash, &at))) {
		if (is_name(&summary->name[row], key))
			return row;
	}
	return add_name(summary, key);
}

/* Where the row of such a name may have been noted: names of one trace rarely share a place. */
static inline uint32_t *recent_name(struct pfw_summary *summary, const struct name_key *key)
{
	uint32_t bytes = key->name_bytes;

	if (!bytes)
		return &summary->recent[0];
	return &summary->recent[(bytes * 5 + (uint8_t)key->name[0] +
				 (uint8_t)key->name[bytes / 2] * 3u +
				 (uint8_t)key->name[bytes - 1] * 7u) %
				PFW_SUMMARY_RECENT];
}

int64_t pfw_summary_name_row(struct pfw_summary *summary, const char *cat, size_t cat_bytes,
			     const char *name, size_t name_bytes, char ph)
{
	struct name_key key = { .cat = cat, .name = name, .ph = ph };
	uint32_t *recent;
	uint64_t hash;
	int64_t row;

	if (cat_bytes + name_bytes > PFW_SUMMARY_TEXT_MAX)
		return 0;
	key.cat_bytes = (uint32_t)cat_bytes;
	key.name_bytes = (uint32_t)name_bytes;
	recent = recent_name(summary, &key);
	if (*recent && is_name(&summary->name[*recent], &key))
		return *recent;
	hash = pfw_hash_pair(summary->seed + (uint8_t)ph, cat, cat_bytes, name, name_bytes);
	key.hash = (uint32_t)(hash ^ hash >> 32);
	row = find_name(summary, &key);
	if (row > 0)
		*recent = (uint32_t)row;
	return row;
}

/* ---- files ---- */

static int64_t add_file(struct pfw_summary *summary, const char *text, size_t bytes, uint32_t hash)
{
	uint32_t row = summary->files;
	char *copy;

	if (row && !may_add(summary, row, PFW_SUMMARY_FILES_MAX, bytes))
		return 0;
	if (pfw_rows_reserve((void **)&summary->file, row, &summary->file_room,
			     sizeof(*summary->file)) ||
	    table_reserve(&summary->by_file))
		return -ENOMEM;
	copy = pfw_arena_take(&summary->texts, bytes);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, text, bytes);
	summary->file[row] = (struct pfw_summary_file){ .name = copy,
							.name_bytes = (uint32_t)bytes,
							.hash = hash };
	if (row)
		table_add(&summary->by_file, hash, row);
	summary->files++;
	return row;
}

static int64_t find_file(struct pfw_summary *summary, const char *text, size_t bytes, uint32_t hash)
{
	uint32_t at = hash, row;

	while ((row = table_next(&summary->by_file, hash, &at))) {
		if (summary->file[row].name_bytes == bytes &&
		    pfw_hash_same(summary->file[row].name, text, bytes))
			return row;
	}
	return add_file(summary, text, bytes, hash);
}

int64_t pfw_summary_file_row(struct pfw_summary *summary, const char *name, size_t bytes)
{
	const struct pfw_summary_file *last = &summary->file[summary->last_file];
	uint64_t hash;
	int64_t row;

	/* Calls on one file come in a row. */
	if (summary->last_file && last->name_bytes == bytes &&
	    pfw_hash_same(last->name, name, bytes))
		return summary->last_file;
	if (!bytes || bytes > PFW_SUMMARY_TEXT_MAX)
		return 0;
	hash = pfw_hash_text(summary->seed, name, bytes);
	row = find_file(summary, name, bytes, (uint32_t)(hash ^ hash >> 32));
	if (row > 0)
		summary->last_file = (uint32_t)row;
	return row;
}

/* ---- threads ---- */

static int64_t add_thread(struct pfw_summary *summary, uint64_t pid, uint64_t tid, uint32_t hash)
{
	uint32_t row = summary->threads;

	if (row && !may_add(summary, row, PFW_SUMMARY_THREADS_MAX, 0))
		return 0;
	if (pfw_rows_reserve((void **)&summary->thread, row, &summary->thread_room,
			     sizeof(*summary->thread)) ||
	    table_reserve(&summary->by_thread))
		return -ENOMEM;
	summary->thread[row] = (struct pfw_summary_thread){ .pid = pid,
							    .tid = tid,
							    .name = "",
							    .first_ns = INT64_MAX,
							    .last_ns = INT64_MIN,
							    .call_ns = INT64_MAX,
							    .calls_end_ns = INT64_MIN };
	if (row)
		table_add(&summary->by_thread, hash, row);
	summary->threads++;
	return row;
}

int64_t pfw_summary_thread_row(struct pfw_summary *summary, uint64_t pid, uint64_t tid)
{
	const struct pfw_summary_thread *last = &summary->thread[summary->last_thread];
	uint64_t mixed;
	uint32_t hash, at, row;
	int64_t added;

	if (summary->last_thread && last->tid == tid && last->pid == pid)
		return summary->last_thread;
	mixed = pfw_hash_mix(pid ^ summary->seed, 0x9e3779b97f4a7c15u);
	mixed = pfw_hash_mix(tid ^ mixed, 0xd6e8feb86659fd93u ^ summary->seed);
	hash = at = (uint32_t)(mixed ^ mixed >> 32);
	while ((row = table_next(&summary->by_thread, hash, &at))) {
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

/* A copy of a text that is terminated; past the limit "". */
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
	if (pfw_rows_reserve((void **)&summary->process, summary->processes, &summary->process_room,
			     sizeof(*to)))
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
	/* Its `process` line is in a block before this one, or nowhere. */
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
	if (pfw_rows_reserve((void **)&summary->step, summary->steps, &summary->step_room,
			     sizeof(*step)))
		return -ENOMEM;
	summary->step[summary->steps++] = *step;
	return 0;
}

/* Kinds that are told anew each time; all others are running totals. */
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
	if (pfw_rows_reserve((void **)&summary->loss, summary->losses, &summary->loss_room,
			     sizeof(*to)))
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

/* ---- adding up ---- */

static int merge_durations(struct pfw_summary *into, struct pfw_sketch *to,
			   const struct pfw_sketch *from)
{
	uint32_t before = to->capacity;
	int error = pfw_sketch_merge(to, from, into->cells < PFW_SUMMARY_CELLS_MAX);

	into->cells += to->capacity - before;
	return error;
}

static int merge_names(struct pfw_summary *into, struct pfw_summary *from)
{
	for (uint32_t i = 0; i < from->names; i++) {
		struct pfw_summary_name *name = &from->name[i], *to;
		const struct name_key key = { .cat = name->cat,
					      .name = name->name,
					      .cat_bytes = name->cat_bytes,
					      .name_bytes = name->name_bytes,
					      .hash = name->hash,
					      .ph = name->ph };
		int64_t row = i ? find_name(into, &key) : 0;

		if (row < 0)
			return (int)row;
		to = &into->name[row];
		name->merged = (uint32_t)row;
		to->count += name->count;
		to->sum_ns += name->sum_ns;
		to->bytes += name->bytes;
		if (name->min_ns < to->min_ns)
			to->min_ns = name->min_ns;
		if (name->max_ns > to->max_ns)
			to->max_ns = name->max_ns;
		if (merge_durations(into, &to->durations, &name->durations))
			return -ENOMEM;
	}
	return 0;
}

/* Of a run's files few are still in a cache when the next block names them: ask for the slots, the
 * rows and the texts of those to come. */
static inline void fetch_file(const struct pfw_summary *into, const struct pfw_summary *from,
			      uint32_t i)
{
	const struct pfw_summary_table *table = &into->by_file;
	uint64_t slot;

	if (i + 3 * FETCH_AHEAD < from->files)
		__builtin_prefetch(
			&table->slot[from->file[i + 3 * FETCH_AHEAD].hash & table->mask]);
	if (i + 2 * FETCH_AHEAD < from->files) {
		slot = table->slot[from->file[i + 2 * FETCH_AHEAD].hash & table->mask];
		__builtin_prefetch(&into->file[(uint32_t)slot], 1);
		__builtin_prefetch((const char *)(&into->file[(uint32_t)slot] + 1) - 1, 1);
	}
	if (i + FETCH_AHEAD < from->files) {
		slot = table->slot[from->file[i + FETCH_AHEAD].hash & table->mask];
		for (uint32_t at = 0; at < into->file[(uint32_t)slot].name_bytes; at += 64)
			__builtin_prefetch(into->file[(uint32_t)slot].name + at);
	}
}

static int merge_files(struct pfw_summary *into, struct pfw_summary *from)
{
	for (uint32_t i = 0; i < from->files; i++) {
		struct pfw_summary_file *file = &from->file[i], *to;
		int64_t row;

		fetch_file(into, from, i);
		row = i ? find_file(into, file->name, file->name_bytes, file->hash) : 0;
		if (row < 0)
			return (int)row;
		to = &into->file[row];
		file->merged = (uint32_t)row;
		to->opens += file->opens;
		to->reads += file->reads;
		to->writes += file->writes;
		to->others += file->others;
		to->lines += file->lines;
		to->read_bytes += file->read_bytes;
		to->written_bytes += file->written_bytes;
		to->open_ns += file->open_ns;
		to->read_ns += file->read_ns;
		to->write_ns += file->write_ns;
		to->other_ns += file->other_ns;
		to->transfers += file->transfers;
		to->transfer_ns += file->transfer_ns;
	}
	return 0;
}

void pfw_summary_join_calls(struct pfw_summary *summary, uint32_t row, int64_t start_ns,
			    int64_t end_ns)
{
	struct pfw_summary_thread *thread = &summary->thread[row];

	if (start_ns == INT64_MAX)
		return;
	/* Row 0 stands for many threads. */
	if (!row || start_ns < thread->calls_end_ns)
		summary->nested = true;
	if (thread->call_ns == INT64_MAX)
		thread->call_ns = start_ns;
	if (end_ns > thread->calls_end_ns)
		thread->calls_end_ns = end_ns;
}

static int merge_threads(struct pfw_summary *into, struct pfw_summary *from)
{
	for (uint32_t i = 0; i < from->threads; i++) {
		struct pfw_summary_thread *thread = &from->thread[i], *to;
		int64_t row = i ? pfw_summary_thread_row(into, thread->pid, thread->tid) : 0;

		if (row < 0)
			return (int)row;
		to = &into->thread[row];
		thread->merged = (uint32_t)row;
		to->lines += thread->lines;
		if (thread->first_ns < to->first_ns)
			to->first_ns = thread->first_ns;
		if (thread->last_ns > to->last_ns)
			to->last_ns = thread->last_ns;
		pfw_summary_join_calls(into, (uint32_t)row, thread->call_ns, thread->calls_end_ns);
		if (thread->name_bytes &&
		    pfw_summary_name_thread(into, (uint32_t)row, thread->name, thread->name_bytes))
			return -ENOMEM;
	}
	return 0;
}

static int merge_lists(struct pfw_summary *into, const struct pfw_summary *from)
{
	int error = 0;

	for (uint32_t i = 0; i < from->processes && !error; i++) {
		const struct pfw_summary_process *process = &from->process[i];

		error = process->start_ns == PFW_SUMMARY_NO_START
				? pfw_summary_update_process(into, process)
				: pfw_summary_add_process(into, process);
	}
	for (uint32_t i = 0; i < from->steps && !error; i++)
		error = pfw_summary_add_step(into, &from->step[i]);
	for (uint32_t i = 0; i < from->losses && !error; i++)
		error = pfw_summary_add_loss(into, &from->loss[i]);
	into->left_out += from->left_out;
	return error;
}

void pfw_summary_merge_times(struct pfw_summary *into, const struct pfw_summary *from)
{
	into->lines += from->lines;
	into->events += from->events;
	if (from->least_ns < into->least_ns)
		into->least_ns = from->least_ns;
	if (from->greatest_ns > into->greatest_ns)
		into->greatest_ns = from->greatest_ns;
	into->sorted = into->sorted && from->sorted;
	into->nested = into->nested || from->nested;
	if (from->first_ns == INT64_MAX)
		return;
	if (into->first_ns == INT64_MAX)
		into->first_ns = from->first_ns;
	else if (into->last_ns > from->first_ns)
		into->sorted = false;
	into->last_ns = from->last_ns;
}

int pfw_summary_merge(struct pfw_summary *into, struct pfw_summary *from)
{
	int error = merge_names(into, from);

	error = error ? error : merge_files(into, from);
	error = error ? error : merge_threads(into, from);
	error = error ? error : merge_lists(into, from);
	pfw_summary_merge_times(into, from);
	return error;
}

/* ---- a whole one ---- */

/* The rows 0. */
static int add_others(struct pfw_summary *summary)
{
	const struct name_key nothing = { .cat = "", .name = "", .ph = '?' };

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
	summary->nested = false;
	summary->first_ns = INT64_MAX;
	summary->last_ns = INT64_MIN;
	summary->names = summary->files = summary->threads = 0;
	summary->processes = summary->steps = summary->losses = 0;
	summary->last_thread = summary->last_file = 0;
	memset(summary->recent, 0, sizeof(summary->recent));
}

int pfw_summary_init(struct pfw_summary *summary)
{
	*summary = (struct pfw_summary){ .seed = pfw_hash_seed() };
	reset(summary);
	if (table_init(&summary->by_name) || table_init(&summary->by_file) ||
	    table_init(&summary->by_thread) || add_others(summary)) {
		pfw_summary_release(summary);
		return -ENOMEM;
	}
	return 0;
}

void pfw_summary_clear(struct pfw_summary *summary)
{
	for (uint32_t i = 0; i < summary->names; i++)
		pfw_sketch_clear(&summary->name[i].durations);
	table_clear(&summary->by_name);
	table_clear(&summary->by_file);
	table_clear(&summary->by_thread);
	pfw_arena_clear(&summary->texts);
	reset(summary);
	add_others(summary); /* their memory is there */
}

void pfw_summary_release(struct pfw_summary *summary)
{
	for (uint32_t i = 0; i < summary->name_room; i++)
		pfw_sketch_release(&summary->name[i].durations);
	free(summary->by_name.slot);
	free(summary->by_file.slot);
	free(summary->by_thread.slot);
	free(summary->name);
	free(summary->file);
	free(summary->thread);
	free(summary->process);
	free(summary->step);
	free(summary->loss);
	pfw_arena_release(&summary->texts);
	*summary = (struct pfw_summary){ 0 };
}
