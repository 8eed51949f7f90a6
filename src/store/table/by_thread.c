/* store/table/by_thread.c - adds up spans and GPU work by thread; see by_thread.h. */
#include "store/table/by_thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/table/code.h"

#define RECENT                                               \
	(sizeof(((struct pfw_table_by_thread *)0)->recent) / \
	 sizeof(((struct pfw_table_by_thread *)0)->recent[0]))

int64_t pfw_table_lane_of(struct pfw_table_by_thread *by_thread, uint64_t pid, uint64_t tid)
{
	const struct pfw_table_lane *last = by_thread->lane ? &by_thread->lane[by_thread->last]
							    : NULL;
	uint32_t count = by_thread->lanes.count;
	int64_t number;

	if (last && count && last->pid == pid && last->tid == tid)
		return by_thread->last;
	number = pfw_pair_ids_of(&by_thread->lanes, pid, tid);
	if (number < 0 || PFW_REACH(by_thread->lane, (size_t)number, by_thread->lane_room))
		return -ENOMEM;
	if (number == count)
		by_thread->lane[number] = (struct pfw_table_lane){ .pid = pid, .tid = tid };
	by_thread->none |= number >= PFW_TABLE_THREAD_ROWS;
	by_thread->last = (uint32_t)number;
	return number;
}

static int64_t find_row(struct pfw_table_by_thread *by_thread, uint32_t row, uint32_t lane)
{
	uint32_t count = by_thread->rows.count;
	int64_t number = pfw_pair_ids_of(&by_thread->rows, row, lane);

	if (number < 0 || PFW_REACH(by_thread->row, (size_t)number, by_thread->row_room))
		return -ENOMEM;
	if (number == count)
		by_thread->row[number] = (struct pfw_table_lane_row){ .row = row, .lane = lane };
	by_thread->none |= number >= PFW_TABLE_THREAD_ROWS;
	return number;
}

int64_t pfw_table_lane_row(struct pfw_table_by_thread *by_thread, uint32_t row, uint32_t lane)
{
	struct pfw_table_lane_recent *recent = &by_thread->recent[(row * 5 + lane) % RECENT];
	int64_t number;

	if (by_thread->none)
		return -ENOENT;
	if (recent->number && recent->row == row && recent->lane == lane)
		return recent->number - 1;
	number = find_row(by_thread, row, lane);
	if (number >= 0)
		*recent = (struct pfw_table_lane_recent){ .row = row,
							  .lane = lane,
							  .number = (uint32_t)number + 1 };
	return number;
}

int pfw_table_by_thread_merge(struct pfw_table_by_thread *into, struct pfw_table_by_thread *from,
			      struct pfw_averages *rows, const struct pfw_averages *of)
{
	into->none |= from->none;
	for (uint32_t i = 0; i < from->lanes.count; i++) {
		struct pfw_table_lane *lane = &from->lane[i];
		int64_t number = pfw_table_lane_of(into, lane->pid, lane->tid);

		if (number < 0)
			return -ENOMEM;
		into->lane[number].says |= lane->says;
		lane->merged = (uint32_t)number;
	}
	for (uint32_t i = 0; i < from->rows.count; i++) {
		const struct pfw_table_lane_row *row = &from->row[i];
		uint32_t merged = of->row[row->row].merged;
		int64_t number = pfw_table_lane_row(into, merged, from->lane[row->lane].merged);

		if (number < 0 && !into->none)
			return -ENOMEM;
		pfw_tally_merge(number < 0 ? &rows->row[merged].sums : &into->row[number].sums,
				&row->sums);
	}
	return 0;
}

void pfw_table_by_thread_fold(const struct pfw_table_by_thread *by_thread,
			      struct pfw_averages *rows)
{
	for (uint32_t i = 0; i < by_thread->rows.count; i++)
		pfw_tally_merge(&rows->row[by_thread->row[i].row].sums, &by_thread->row[i].sums);
}

void pfw_table_by_thread_put(const struct pfw_table_by_thread *by_thread, const uint32_t *number,
			     struct pfw_blob *data)
{
	PFW_BLOB_PUT(data, !by_thread->none);
	if (by_thread->none)
		return;
	PFW_BLOB_PUT(data, by_thread->lanes.count);
	for (uint32_t i = 0; i < by_thread->lanes.count; i++) {
		const struct pfw_table_lane *lane = &by_thread->lane[i];

		PFW_BLOB_PUT(data, lane->pid, lane->tid, lane->says);
	}
	for (uint32_t i = 0; i < by_thread->rows.count; i++) {
		const struct pfw_table_lane_row *row = &by_thread->row[i];

		if (!number[row->row])
			continue;
		PFW_BLOB_PUT(data, number[row->row] - 1, row->lane);
		pfw_table_put_tally(data, &row->sums);
	}
}

void pfw_table_by_thread_clear(struct pfw_table_by_thread *by_thread)
{
	pfw_pair_ids_release(&by_thread->lanes);
	pfw_pair_ids_release(&by_thread->rows);
	memset(by_thread->recent, 0, sizeof(by_thread->recent));
	by_thread->last = 0;
	by_thread->none = false;
}

void pfw_table_by_thread_release(struct pfw_table_by_thread *by_thread)
{
	pfw_table_by_thread_clear(by_thread);
	free(by_thread->lane);
	free(by_thread->row);
	*by_thread = (struct pfw_table_by_thread){ 0 };
}
