/* merge.c - the lines of many files in order of ts: which block is wanted next; see merge.h. */
#include "merge.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "input.h"
#include "merge_run.h"

/* A block is let go at most so often; after that, the temporary file is the cheaper way. */
#define DROPS_MAX 2
/* Blocks that are to be copied take no memory, but a place in the heap. */
#define AHEAD_COPIES 64u

/* ---- memory ---- */

/* The loaded unit whose next line is the furthest, and that may be let go for `wanted`. */
static struct merge_unit *find_droppable(struct merge_run *run, const struct merge_unit *wanted)
{
	struct merge_unit *best = NULL;

	for (size_t i = 0; i < run->open.count; i++) {
		struct merge_unit *unit = run->open.unit[i];

		if (pfw_merge_has_text(unit) && !unit->unseekable && unit->drops < DROPS_MAX &&
		    pfw_merge_before(wanted, unit) && (!best || pfw_merge_before(best, unit)))
			best = unit;
	}
	return best;
}

/* Finish every load: only what is loaded can be let go. */
static int settle(struct merge_run *run)
{
	int error = 0;

	for (size_t i = 0; i < run->open.count; i++) {
		int result = run->open.unit[i]->state == MERGE_UNIT_LOADING
				     ? pfw_merge_finish(run, run->open.unit[i])
				     : 0;

		error = error ? error : result;
	}
	/* Keys have become exact: put the heap in order again. */
	for (size_t i = 0, count = run->open.count; i < count; i++) {
		struct merge_unit *unit = run->open.unit[i];

		run->open.count = i;
		pfw_merge_heap_push(&run->open, unit);
	}
	return error;
}

/* Room for `wanted`, which comes next, though memory is full. */
static int make_room(struct merge_run *run, const struct merge_unit *wanted)
{
	struct merge_unit *unit;
	int error = settle(run);

	if (error)
		return error;
	unit = find_droppable(run, wanted);
	if (!unit)
		return pfw_merge_spill(run);
	pfw_merge_heap_remove(&run->open, unit);
	run->ahead -= !unit->begun;
	pfw_merge_drop(run, unit);
	unit->drops++;
	run->merge->drops++;
	return pfw_merge_heap_push(&run->pending, unit);
}

/* ---- the order ---- */

static int open_unit(struct merge_run *run)
{
	struct merge_unit *unit = pfw_merge_heap_pop(&run->pending);
	int error = unit->state == MERGE_UNIT_COPY ? 0 : pfw_merge_load(run, unit);

	if (error)
		return error;
	unit->begun = false;
	run->ahead++;
	return pfw_merge_heap_push(&run->open, unit);
}

/* Whether memory could be had from what is open. */
static bool has_text(const struct merge_run *run)
{
	for (size_t i = 0; i < run->open.count; i++) {
		const struct merge_unit *unit = run->open.unit[i];

		if (unit->state == MERGE_UNIT_LOADING || pfw_merge_has_text(unit))
			return true;
	}
	return false;
}

/* Begin to read what comes next, as far as there is room. */
static int look_ahead(struct merge_run *run)
{
	size_t lead = 2 * pfw_pool_jobs(run->merge->pool) + 2;

	while (run->pending.count) {
		const struct merge_unit *next = run->pending.unit[0];
		bool needed = !run->open.count || pfw_merge_before(next, run->open.unit[0]);
		bool in_place = next->kept && next->kept->rows.path;
		bool full = !in_place && run->used + PFW_BLOCK_TEXT > run->merge->budget;
		int error;

		if (next->state == MERGE_UNIT_COPY) {
			if (!needed && run->ahead >= AHEAD_COPIES)
				return 0;
		} else if (full && needed && has_text(run)) {
			error = make_room(run, next);
			if (error)
				return error;
			continue;
		} else if (!needed && (full || run->ahead >= lead)) {
			return 0;
		}
		error = open_unit(run);
		if (error)
			return error;
	}
	return 0;
}

/* The key up to which the first open unit comes before all others. */
static void find_limit(const struct merge_run *run, int64_t *ts_ns, uint64_t *order)
{
	const struct merge_unit *other = pfw_merge_heap_second(&run->open);
	const struct merge_unit *pending = run->pending.count ? run->pending.unit[0] : NULL;

	if (!other || (pending && pfw_merge_before(pending, other)))
		other = pending;
	*ts_ns = other ? other->ts_ns : INT64_MAX;
	*order = other ? other->order : UINT64_MAX;
}

static void leave_first(struct merge_run *run)
{
	struct merge_unit *unit = pfw_merge_heap_pop(&run->open);

	if (unit->load)
		pfw_merge_drop(run, unit);
}

static void begin_first(struct merge_run *run, struct merge_unit *unit)
{
	run->ahead -= !unit->begun;
	unit->begun = true;
}

/* The last line that was given. */
static void set_last(struct merge_run *run, int64_t ts_ns, uint64_t order)
{
	run->any = true;
	run->ts_ns = ts_ns;
	run->order = order;
}

/* Have the first unit copied as it stands, unless something comes between its lines. */
static int copy_unit(struct merge_run *run, const struct merge_unit *unit, bool *copied)
{
	struct pfw_merge_file *file = &run->merge->file[unit->file];
	const struct pfw_block *block = &file->blocks->block[unit->number];
	int fd = pfw_input_open_fd(file->path), error;
	uint64_t order, last = pfw_row_order(unit->file, unit->number, 0xffffff);
	struct pfw_mark mark;
	int64_t ts_ns;
	bool marked;

	*copied = false;
	run->where = file->path;
	if (fd < 0)
		return fd;
	marked = pfw_merge_find_mark(run, unit, fd, &mark);
	close(fd);
	if (!marked)
		return -ESTALE; /* the file was changed */
	find_limit(run, &ts_ns, &order);
	if (!run->merge->loose && !pfw_merge_is_before(mark.greatest_ns, last, ts_ns, order))
		return 0;
	error = run->merge->member(run->merge->user, unit->file, block, &mark);
	if (error)
		return error;
	if (!unit->summed) {
		file->sum.lines += block->lines;
		file->sum.checksum += mark.checksum;
	}
	*copied = true;
	set_last(run, mark.greatest_ns, last);
	/* A member of its own: what comes behind it begins another. */
	if (run->merge->loose)
		run->any = false;
	return 0;
}

/* A unit that could not be told to hold no metadata was read for that: it may still be copied. */
static int copy_loaded(struct merge_run *run, struct merge_unit *unit, bool *copied)
{
	*copied = false;
	if (!unit->copyable || unit->next || unit->file == MERGE_UNIT_SPILLED ||
	    unit->load->rows.count !=
		    run->merge->file[unit->file].blocks->block[unit->number].lines)
		return 0;
	return copy_unit(run, unit, copied);
}

/* Give the lines of the first unit that come before all others. */
static int give_rows(struct merge_run *run, struct merge_unit *unit)
{
	const struct pfw_rows *rows = &unit->load->rows;
	const struct pfw_row *row = rows->row;
	size_t first = unit->next, end = first;
	uint64_t order;
	int64_t ts_ns;
	int error;

	find_limit(run, &ts_ns, &order);
	while (end < rows->count &&
	       !pfw_merge_is_before(ts_ns, order, row[end].ts_ns, row[end].order))
		end++;
	if (end == first)
		return 0;
	if (run->any &&
	    pfw_merge_is_before(row[first].ts_ns, row[first].order, run->ts_ns, run->order))
		return -ESTALE;
	error = run->merge->rows(run->merge->user, rows, first, end - first);
	if (error)
		return error;
	set_last(run, row[end - 1].ts_ns, row[end - 1].order);
	unit->next = (uint32_t)end;
	return 0;
}

/* The first unit is loaded: give what comes before all others. */
static int give_loaded(struct merge_run *run, struct merge_unit *unit)
{
	const struct pfw_rows *rows = &unit->load->rows;
	bool copied;
	int error;

	begin_first(run, unit);
	error = copy_loaded(run, unit, &copied);
	if (!error && !copied)
		error = give_rows(run, unit);
	if (error)
		return error;
	if (copied || unit->next == rows->count) {
		pfw_merge_tell(run, unit, false);
		leave_first(run);
		return 0;
	}
	unit->ts_ns = rows->row[unit->next].ts_ns;
	unit->order = rows->row[unit->next].order;
	pfw_merge_heap_sink(&run->open);
	return 0;
}

/* The first unit is to be copied; where that cannot be, read it. */
static int give_member(struct merge_run *run, struct merge_unit *unit)
{
	bool copied;
	int error = copy_unit(run, unit, &copied);

	if (error)
		return error;
	if (!copied)
		return pfw_merge_load(run, unit);
	begin_first(run, unit);
	pfw_merge_tell(run, unit, false);
	leave_first(run);
	return 0;
}

/* The first unit's key has become exact. */
static int finish_first_load(struct merge_run *run, struct merge_unit *unit)
{
	int error = pfw_merge_finish(run, unit);

	if (error)
		return error;
	if (unit->next == unit->load->rows.count) {
		begin_first(run, unit);
		pfw_merge_tell(run, unit, false);
		leave_first(run);
		return 0;
	}
	pfw_merge_heap_sink(&run->open);
	return 0;
}

static int merge_all(struct merge_run *run)
{
	while (run->pending.count || run->open.count) {
		int error = look_ahead(run);
		struct merge_unit *unit;

		if (run->merge->stop && *run->merge->stop)
			return -EINTR;
		if (error)
			return error;
		unit = run->open.unit[0];
		if (unit->state == MERGE_UNIT_LOADING)
			error = finish_first_load(run, unit);
		else if (unit->state == MERGE_UNIT_COPY)
			error = give_member(run, unit);
		else
			error = give_loaded(run, unit);
		if (error)
			return error;
	}
	return 0;
}

static void free_run(struct merge_run *run)
{
	unsigned jobs = pfw_pool_jobs(run->merge->pool);

	for (size_t i = 0; i < run->open.count; i++) {
		struct merge_unit *unit = run->open.unit[i];

		if (unit->state == MERGE_UNIT_LOADING)
			pfw_pool_wait(run->merge->pool, &unit->load->task);
		if (unit->load)
			pfw_merge_drop(run, unit);
	}
	for (size_t i = 0; i < run->pending.count; i++)
		pfw_merge_forget(run, run->pending.unit[i]);
	pfw_merge_free_spare(run);
	for (unsigned i = 0; run->fetch && i < jobs; i++)
		pfw_fetch_free(&run->fetch[i]);
	for (unsigned i = 0; run->packer && i < jobs; i++)
		pfw_member_close(run->packer[i]);
	for (size_t i = 0; i < run->slabs; i++)
		free(run->all[i]);
	free(run->fetch);
	free(run->packer);
	free(run->all);
	free(run->pending.unit);
	free(run->open.unit);
	pfw_merge_spill_free(run);
}

int pfw_merge_run(struct pfw_merge *merge, const char **where)
{
	unsigned jobs = pfw_pool_jobs(merge->pool);
	struct merge_run run = { .merge = merge, .spill.fd = -1 };
	int error = 0;

	merge->loads = merge->drops = merge->spilled = 0;
	for (size_t i = 0; i < merge->count; i++)
		merge->file[i].sum = (struct pfw_merge_sum){ 0 };
	run.fetch = calloc(jobs, sizeof(*run.fetch));
	run.packer = calloc(jobs, sizeof(struct pfw_member *));
	if (!run.fetch || !run.packer)
		error = -ENOMEM;
	if (!error)
		error = pfw_merge_add_files(&run);
	if (!error)
		error = merge_all(&run);
	*where = run.where ? run.where : merge->directory;
	if (error == -ESTALE && merge->distrust)
		error = -EBUSY; /* every block was read: a file changes while we read */
	free_run(&run);
	return error;
}
