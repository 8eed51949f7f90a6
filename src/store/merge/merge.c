/* store/merge/merge.c - merges the lines of many files in order of ts; see merge.h. */
#include "store/merge/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/merge/internal.h"
#include "store/read/input.h"

/* Drops per block, after which the temporary file is cheaper. */
#define DROPS_MAX 2
/* Read-ahead of blocks that are copied: they take no memory, only a place in the heap. */
#define AHEAD_COPIES 64u

/* ---- memory ---- */

/* The last loaded unit in the order that may be dropped in favour of `wanted`. */
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

/* Finish all loads: only loaded units can be dropped. */
static int settle(struct merge_run *run)
{
	int error = 0;

	for (size_t i = 0; i < run->open.count; i++) {
		int result = run->open.unit[i]->state == MERGE_UNIT_LOADING
				     ? pfw_merge_finish(run, run->open.unit[i])
				     : 0;

		error = error ?: result;
	}
	pfw_merge_heap_remove(&run->open, NULL); /* loads made keys exact */
	return error;
}

/* Free memory for `wanted`, which comes next. */
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

/* Whether open units have memory that could be freed. */
static bool has_text(const struct merge_run *run)
{
	for (size_t i = 0; i < run->open.count; i++) {
		const struct merge_unit *unit = run->open.unit[i];

		if (unit->state == MERGE_UNIT_LOADING || pfw_merge_has_text(unit))
			return true;
	}
	return false;
}

/* Start to read the next units, within the budget. */
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

/* The key up to which lines of the first open unit precede all others. */
static void find_limit(const struct merge_run *run, int64_t *ts_ns, uint64_t *order)
{
	const struct merge_unit *other = pfw_merge_heap_second(&run->open);
	const struct merge_unit *pending = run->pending.count ? run->pending.unit[0] : NULL;

	if (!other || (pending && pfw_merge_before(pending, other)))
		other = pending;
	*ts_ns = other ? other->ts_ns : INT64_MAX;
	*order = other ? other->order : UINT64_MAX;
}

static void begin_first(struct merge_run *run, struct merge_unit *unit)
{
	run->ahead -= !unit->begun;
	unit->begun = true;
}

/* All lines of the first unit are output. */
static int leave_first(struct merge_run *run)
{
	struct merge_unit *unit = pfw_merge_heap_pop(&run->open);

	begin_first(run, unit);
	pfw_merge_tell(run, unit, false);
	if (unit->load)
		pfw_merge_drop(run, unit);
	return 0;
}

/* Copy the first unit verbatim, unless another line lies within it.  1, 0 or -errno. */
static int copy_unit(struct merge_run *run, const struct merge_unit *unit)
{
	struct pfw_merge_file *file = &run->merge->file[unit->file];
	const struct pfw_block *block = &file->blocks->block[unit->number];
	int fd = pfw_input_open_fd(file->path), error;
	uint64_t order, last = pfw_row_order(unit->file, unit->number, 0xffffff);
	struct pfw_sorted_mark mark;
	int64_t ts_ns;
	bool marked;

	run->where = file->path;
	if (fd < 0)
		return fd;
	marked = pfw_merge_find_mark(run, unit, fd, &mark);
	close(fd);
	if (!marked)
		return -ESTALE; /* the file has changed */
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
	/* A loose member stands alone: the order begins anew after it. */
	run->ts_ns = run->merge->loose ? INT64_MIN : mark.greatest_ns;
	run->order = run->merge->loose ? 0 : last;
	return 1;
}

/* Copy a unit that was read only because it may hold metadata.  As copy_unit(). */
static int copy_loaded(struct merge_run *run, const struct merge_unit *unit)
{
	if (!unit->copyable || unit->next || unit->file == MERGE_UNIT_SPILLED ||
	    unit->load->rows.count !=
		    run->merge->file[unit->file].blocks->block[unit->number].lines)
		return 0;
	return copy_unit(run, unit);
}

/* Output all lines of the first unit, which stay together: the order begins anew after it. */
static int give_alone(struct merge_run *run, struct merge_unit *unit)
{
	const struct pfw_merge *merge = run->merge;
	const struct pfw_rows *rows = &unit->load->rows;
	int error = merge->apart(merge->user);

	error = error ?: merge->rows(merge->user, rows, unit->next, rows->count - unit->next);
	error = error ?: merge->apart(merge->user);
	unit->next = (uint32_t)rows->count;
	run->ts_ns = INT64_MIN;
	run->order = 0;
	return error;
}

/* Output the lines of the first unit that precede all others. */
static int give_rows(struct merge_run *run, struct merge_unit *unit)
{
	const struct pfw_rows *rows = &unit->load->rows;
	const struct pfw_row *row = rows->row;
	size_t first = unit->next, end = first;
	uint64_t order;
	int64_t ts_ns;
	int error;

	if (unit->alone)
		return give_alone(run, unit);
	find_limit(run, &ts_ns, &order);
	while (end < rows->count &&
	       !pfw_merge_is_before(ts_ns, order, row[end].ts_ns, row[end].order))
		end++;
	if (end == first)
		return 0;
	if (pfw_merge_is_before(row[first].ts_ns, row[first].order, run->ts_ns, run->order))
		return -ESTALE;
	error = run->merge->rows(run->merge->user, rows, first, end - first);
	if (error)
		return error;
	run->ts_ns = row[end - 1].ts_ns;
	run->order = row[end - 1].order;
	unit->next = (uint32_t)end;
	return 0;
}

/* The first unit is loaded: copy or output it. */
static int give_loaded(struct merge_run *run, struct merge_unit *unit)
{
	const struct pfw_rows *rows = &unit->load->rows;
	int result;

	begin_first(run, unit);
	result = copy_loaded(run, unit);
	result = result ?: give_rows(run, unit);
	if (result < 0)
		return result;
	if (result || unit->next == rows->count)
		return leave_first(run);
	pfw_merge_set_key(unit, &rows->row[unit->next]);
	pfw_merge_heap_sink(&run->open);
	return 0;
}

/* Copy the first unit, or load it if it cannot be copied. */
static int give_member(struct merge_run *run, struct merge_unit *unit)
{
	int result = copy_unit(run, unit);

	if (result < 0)
		return result;
	return result ? leave_first(run) : pfw_merge_load(run, unit);
}

/* Wait for the first unit's load, which makes its key exact. */
static int finish_first_load(struct merge_run *run, struct merge_unit *unit)
{
	int error = pfw_merge_finish(run, unit);

	if (error)
		return error;
	if (unit->next == unit->load->rows.count)
		return leave_first(run);
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
	struct merge_run run = { .merge = merge, .ts_ns = INT64_MIN, .spill.fd = -1 };
	int error = 0;

	merge->loads = merge->drops = merge->spilled = 0;
	for (size_t i = 0; i < merge->count; i++)
		merge->file[i].sum = (struct pfw_merge_sum){ 0 };
	run.fetch = calloc(jobs, sizeof(*run.fetch));
	run.packer = calloc(jobs, sizeof(struct pfw_member *));
	if (!run.fetch || !run.packer)
		error = -ENOMEM;
	error = error ?: pfw_merge_add_files(&run) ?: merge_all(&run);
	*where = run.where ? run.where : merge->directory;
	if (error == -ESTALE && merge->distrust)
		error = -EBUSY; /* all blocks were read, so a file changes while we read it */
	free_run(&run);
	return error;
}
