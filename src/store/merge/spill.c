/* store/merge/spill.c - sorted runs in a temporary file, if memory is full; see merge.h.
 *
 * The file is unlinked.  A block is its rows as they are in memory, then its text as a gzip member.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/gzip/member.h"
#include "store/kit/grow.h"
#include "store/merge/internal.h"
#include "store/sys/full_io.h"
#include "store/sys/spill.h"

/* A block that is filled with rows and then compressed by a worker. */
struct piece {
	struct pfw_task task;
	struct merge_run *run;
	struct pfw_rows rows;
	unsigned char *packed;
	size_t packed_room;
	int64_t result; /* bytes of the member, or -errno */
};

#define PIECES 8u

struct spiller {
	struct merge_run *run;
	struct piece piece[PIECES];
	size_t first, count; /* pieces being compressed, oldest first */
};

void pfw_merge_spill_free(struct merge_run *run)
{
	if (run->spill.fd >= 0)
		close(run->spill.fd);
	free(run->spill.block);
}

int pfw_merge_unspill(struct merge_run *run, struct merge_load *load, unsigned worker)
{
	const struct merge_spilled *block = &run->spill.block[load->unit->number];
	struct pfw_fetch *fetch = &run->fetch[worker];
	struct pfw_rows *rows = &load->rows;
	size_t row_bytes = block->rows * sizeof(*rows->row);
	int error;

	if (rows->room < block->rows) {
		free(rows->row);
		rows->row = malloc(row_bytes);
		rows->room = rows->row ? block->rows : 0;
	}
	error = pfw_buffer_room(&rows->text, block->text_bytes + 1);
	error = error ?: pfw_buffer_room(&fetch->packed, block->packed_bytes);
	if (!error && !fetch->unzip)
		fetch->unzip = pfw_unzip_new();
	if (error || !fetch->unzip || !rows->row)
		return -ENOMEM;
	error = pfw_full_read_all(run->spill.fd, rows->row, row_bytes, block->at);
	if (!error)
		error = pfw_full_read_all(run->spill.fd, fetch->packed.data, block->packed_bytes,
					  block->at + row_bytes);
	if (!error)
		error = pfw_unzip_member(fetch->unzip, fetch->packed.data, block->packed_bytes,
					 rows->text.data, block->text_bytes);
	rows->text.bytes = block->text_bytes;
	rows->count = block->rows;
	return error;
}

/* ---- pieces ---- */

static void compress(struct pfw_task *task, unsigned worker)
{
	struct piece *piece = (struct piece *)task;
	struct pfw_member **packer = &piece->run->packer[worker];
	struct pfw_gzip_summary summary = { 0 };
	struct pfw_sorted_mark mark = { 0 };
	size_t room = pfw_member_bound(piece->rows.text.bytes);
	int error = 0;

	if (!*packer)
		error = pfw_member_open(packer, PFW_LEVEL_FAST);
	if (!error && piece->packed_room < room) {
		free(piece->packed);
		piece->packed = malloc(room);
		piece->packed_room = piece->packed ? room : 0;
		error = piece->packed ? 0 : -ENOMEM;
	}
	piece->result = error ? error
			      : pfw_member_make(*packer, piece->packed, room, piece->rows.text.data,
						piece->rows.text.bytes, &summary, &mark, 0);
}

/* Write the oldest piece; its block becomes a pending unit. */
static int write_oldest(struct spiller *spiller)
{
	struct merge_run *run = spiller->run;
	struct piece *piece = &spiller->piece[spiller->first];
	struct merge_spill *spill = &run->spill;
	struct merge_unit *unit = pfw_merge_units(run, 1);
	int error;

	pfw_pool_wait(run->merge->pool, &piece->task);
	spiller->first = (spiller->first + 1) % PIECES;
	spiller->count--;
	if (!unit || PFW_LIST_ROOM(spill->block, spill->count))
		return -ENOMEM;
	if (piece->result < 0)
		return (int)piece->result;
	spill->block[spill->count] =
		(struct merge_spilled){ .at = spill->bytes,
					.rows = (uint32_t)piece->rows.count,
					.packed_bytes = (uint32_t)piece->result,
					.text_bytes = (uint32_t)piece->rows.text.bytes };
	unit->file = MERGE_UNIT_SPILLED;
	unit->number = (uint32_t)spill->count++;
	unit->summed = true;
	pfw_merge_set_key(unit, &piece->rows.row[0]);
	error = pfw_full_write(run->spill.fd, piece->rows.row,
			       piece->rows.count * sizeof(*piece->rows.row), &run->spill.bytes);
	if (!error)
		error = pfw_full_write(run->spill.fd, piece->packed, (size_t)piece->result,
				       &run->spill.bytes);
	run->merge->spilled = run->spill.bytes;
	piece->rows.count = piece->rows.text.bytes = 0;
	return error ?: pfw_merge_heap_push(&run->pending, unit);
}

static struct piece *current(struct spiller *spiller)
{
	return &spiller->piece[(spiller->first + spiller->count) % PIECES];
}

/* Start to compress the current piece. */
static int submit(struct spiller *spiller)
{
	struct piece *piece = current(spiller);

	if (!piece->rows.count)
		return 0;
	piece->run = spiller->run;
	piece->task.run = compress;
	pfw_pool_start(spiller->run->merge->pool, &piece->task);
	spiller->count++;
	return spiller->count == PIECES ? write_oldest(spiller) : 0;
}

static int keep_row(struct spiller *spiller, const struct pfw_rows *from, const struct pfw_row *row)
{
	struct pfw_rows *rows = &current(spiller)->rows;
	int error = 0;

	if (rows->count && rows->text.bytes + row->bytes > PFW_GZIP_TEXT_MAX) {
		error = submit(spiller);
		rows = &current(spiller)->rows;
	}
	error = error ?: pfw_buffer_room(&rows->text, rows->text.bytes + row->bytes);
	error = error ?: PFW_ROOM(rows->row, rows->count, rows->room);
	if (error)
		return error;
	rows->row[rows->count] = *row;
	rows->row[rows->count++].at = (uint32_t)rows->text.bytes;
	memcpy(rows->text.data + rows->text.bytes, from->text.data + row->at, row->bytes);
	rows->text.bytes += row->bytes;
	return 0;
}

/* Merge all loaded units into pieces. */
static int merge_loaded(struct spiller *spiller, struct merge_heap *heap)
{
	while (heap->count) {
		struct merge_unit *unit = heap->unit[0];
		const struct pfw_rows *rows = &unit->load->rows;
		int error = keep_row(spiller, rows, &rows->row[unit->next]);

		if (error)
			return error;
		if (++unit->next == rows->count) {
			pfw_merge_drop(spiller->run, pfw_merge_heap_pop(heap));
			continue;
		}
		pfw_merge_set_key(unit, &rows->row[unit->next]);
		pfw_merge_heap_sink(heap);
	}
	return 0;
}

static void free_spiller(struct spiller *spiller)
{
	for (; spiller->count; spiller->count--) {
		pfw_pool_wait(spiller->run->merge->pool, &spiller->piece[spiller->first].task);
		spiller->first = (spiller->first + 1) % PIECES;
	}
	for (size_t i = 0; i < PIECES; i++) {
		pfw_rows_free(&spiller->piece[i].rows);
		free(spiller->piece[i].packed);
	}
}

/* Move the loaded units out of run->open. */
static int take_loaded(struct merge_run *run, struct merge_heap *loaded)
{
	struct merge_heap rest = { 0 };
	int error = 0;

	for (size_t i = 0; i < run->open.count && !error; i++) {
		struct merge_unit *unit = run->open.unit[i];

		if (!pfw_merge_has_text(unit)) {
			error = pfw_merge_heap_push(&rest, unit);
			continue;
		}
		run->ahead -= !unit->begun;
		if (unit->next < unit->load->rows.count)
			error = pfw_merge_heap_push(loaded, unit);
		else
			pfw_merge_drop(run, unit);
	}
	if (error) {
		free(rest.unit);
		return error;
	}
	free(run->open.unit);
	run->open = rest;
	return 0;
}

int pfw_merge_spill(struct merge_run *run)
{
	struct spiller spiller = { .run = run };
	struct merge_heap loaded = { 0 };
	int error = 0;

	if (run->spill.fd < 0) {
		run->where = run->merge->directory;
		run->spill.fd = pfw_spill_open_in(run->merge->directory);
		error = run->spill.fd < 0 ? run->spill.fd : 0;
	}
	error = error ?: take_loaded(run, &loaded) ?: merge_loaded(&spiller, &loaded);
	error = error ?: submit(&spiller);
	while (!error && spiller.count)
		error = write_oldest(&spiller);
	for (size_t i = 0; i < loaded.count; i++)
		pfw_merge_drop(run, loaded.unit[i]);
	free(loaded.unit);
	free_spiller(&spiller);
	return error;
}
