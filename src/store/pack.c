/* pack.c - lines in order -> members in a file; see pack.h. */
#include "pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "copies.h"
#include "index.h"
#include "index_parts.h"
#include "linehash.h"
#include "more.h"
#include "pack_verify.h"
#include "pass.h"
#include "places.h"
#include "stream.h"
#include "summary.h"
#include "whole.h"

/* A member on its way: text is gathered, compressed by a worker, then written in its turn. */
struct parcel {
	struct pfw_task task;
	struct pfw_pack *pack;
	struct pfw_text text;
	struct pfw_places places; /* what of the text is still to be read */
	struct pfw_text packed;
	struct pfw_gzip_summary summary;
	struct pfw_mark mark;
	struct pfw_summary indexed; /* initialised where the pack has an index */
	struct pfw_gather gather;
	uint64_t problems;
	size_t number; /* of those that were compressed */
	int64_t result;
};

struct pfw_pack {
	int fd, level;
	struct pfw_pool *pool;
	unsigned jobs;
	struct pfw_member **member; /* one a worker, made when needed, as are these */
	struct pfw_places_reader **reader;
	struct parcel *parcel;
	size_t parcels, first, count; /* a ring: those that are being compressed, oldest first */
	struct pfw_packed *packed;
	size_t packed_room;
	struct pfw_pack_sum sum;
	struct pfw_copies *copies; /* for members as they stand, made when needed */
	struct pfw_index_writer *index;
	bool cut;
	size_t number;
};

int pfw_pack_open(struct pfw_pack **out, int fd, int level, struct pfw_pool *pool)
{
	struct pfw_pack *pack = calloc(1, sizeof(*pack));
	int error = -ENOMEM;

	if (!pack)
		return -ENOMEM;
	pack->fd = fd;
	pack->level = level;
	pack->pool = pool;
	pack->jobs = pfw_pool_jobs(pool);
	pack->parcels = 2 * pack->jobs + 1;
	pack->member = calloc(pack->jobs, sizeof(struct pfw_member *));
	pack->reader = calloc(pack->jobs, sizeof(struct pfw_places_reader *));
	pack->parcel = calloc(pack->parcels, sizeof(*pack->parcel));
	pack->sum.least_ns = INT64_MAX;
	pack->sum.greatest_ns = INT64_MIN;
	if (pack->member && pack->reader && pack->parcel)
		error = pfw_member_open(&pack->member[0], level);
	if (error) {
		pfw_pack_close(pack);
		return error;
	}
	*out = pack;
	return 0;
}

void pfw_pack_close(struct pfw_pack *pack)
{
	if (!pack)
		return;
	for (; pack->count; pack->count--) {
		pfw_pool_wait(pack->pool, &pack->parcel[pack->first].task);
		pack->first = (pack->first + 1) % pack->parcels;
	}
	pfw_copies_close(pack->copies);
	for (unsigned i = 0; pack->member && i < pack->jobs; i++)
		pfw_member_close(pack->member[i]);
	for (unsigned i = 0; pack->reader && i < pack->jobs; i++)
		pfw_places_reader_free(pack->reader[i]);
	for (size_t i = 0; pack->parcel && i < pack->parcels; i++) {
		pfw_text_free(&pack->parcel[i].text);
		pfw_places_free(&pack->parcel[i].places);
		pfw_text_free(&pack->parcel[i].packed);
		if (pack->parcel[i].indexed.name)
			pfw_summary_release(&pack->parcel[i].indexed);
		pfw_gather_release(&pack->parcel[i].gather);
	}
	free(pack->member);
	free(pack->reader);
	free(pack->parcel);
	free(pack->packed);
	free(pack);
}

void pfw_pack_index(struct pfw_pack *pack, struct pfw_index_writer *index)
{
	pack->index = index;
}

void pfw_pack_cut(struct pfw_pack *pack)
{
	pack->cut = true;
}

const struct pfw_pack_sum *pfw_pack_sum(const struct pfw_pack *pack)
{
	return &pack->sum;
}

/* ---- writing ---- */

static int note_member(struct pfw_pack *pack, const struct pfw_packed *packed)
{
	struct pfw_packed *more =
		pfw_more(pack->packed, pack->sum.members, &pack->packed_room, sizeof(*more));

	if (!more)
		return -ENOMEM;
	pack->packed = more;
	more[pack->sum.members++] = *packed;
	pack->sum.lines += packed->lines;
	return 0;
}

/* Add what a member's header says of its events. */
static void add_times(struct pfw_pack *pack, int64_t least_ns, int64_t greatest_ns)
{
	if (least_ns > greatest_ns)
		return;
	if (least_ns < pack->sum.least_ns)
		pack->sum.least_ns = least_ns;
	if (greatest_ns > pack->sum.greatest_ns)
		pack->sum.greatest_ns = greatest_ns;
}

static int index_parcel(struct pfw_pack *pack, struct parcel *parcel,
			const struct pfw_packed *packed)
{
	const struct pfw_block block = { .at = packed->at,
					 .bytes = packed->bytes,
					 .summed = true,
					 .lines = packed->lines,
					 .least_ns = parcel->indexed.least_ns,
					 .greatest_ns = parcel->indexed.greatest_ns };
	int error = pfw_index_add(pack->index, &block, &parcel->indexed, &parcel->gather);

	pack->sum.problems += parcel->problems;
	pfw_summary_clear(&parcel->indexed);
	return error;
}

static int write_oldest(struct pfw_pack *pack)
{
	struct parcel *parcel = &pack->parcel[pack->first];
	struct pfw_packed packed = { .at = pack->sum.bytes, .checksum = parcel->mark.checksum };
	int error;

	pfw_pool_wait(pack->pool, &parcel->task);
	pack->first = (pack->first + 1) % pack->parcels;
	pack->count--;
	if (parcel->result < 0)
		return (int)parcel->result;
	packed.bytes = (uint32_t)parcel->result;
	packed.lines = parcel->summary.lines;
	packed.header = pfw_linehash(parcel->packed.data, PFW_MEMBER_HEADER_BYTES);
	error = pfw_write_whole(pack->fd, parcel->packed.data, (size_t)parcel->result,
				&pack->sum.bytes);
	if (error)
		return error;
	pack->sum.text_bytes += parcel->text.bytes;
	pack->sum.metadata += parcel->mark.metadata;
	pack->sum.checksum += parcel->mark.checksum;
	add_times(pack, (int64_t)parcel->summary.least_ns, (int64_t)parcel->summary.greatest_ns);
	parcel->text.bytes = parcel->places.count = 0;
	error = pack->index ? index_parcel(pack, parcel, &packed) : 0;
	return error ? error : note_member(pack, &packed);
}

/* ---- compressing ---- */

/* What the index will say of the text. */
static int summarise(struct parcel *parcel)
{
	struct pfw_problems problems = { 0 };
	struct pfw_pass_block block = { .bytes = parcel->text.bytes, .problems = &problems };
	struct pfw_lines lines;
	int error = parcel->indexed.name ? 0 : pfw_summary_init(&parcel->indexed);

	if (!error)
		error = pfw_text_room(&parcel->text, block.bytes + PFW_ENTRY_PADDING);
	if (!error)
		error = pfw_gather_begin(&parcel->gather, pfw_index_kinds(true));
	if (error)
		return error;
	memset(parcel->text.data + block.bytes, 0, PFW_ENTRY_PADDING);
	block.text = parcel->text.data;
	pfw_lines_init(&lines, &block);
	while (!error && pfw_lines_next(&lines)) {
		error = pfw_summary_add(&parcel->indexed, &lines.entry);
		if (!error)
			error = pfw_gather_add(&parcel->gather, &lines.entry, NULL);
	}
	parcel->problems = problems.count;
	for (size_t i = 0; i < problems.count; i++)
		parcel->problems += problems.problem[i].more;
	pfw_problems_free(&problems);
	return error;
}

/* Read what of the text still stands in files. */
static int complete(struct parcel *parcel, struct pfw_places_reader **reader)
{
	if (!parcel->places.count)
		return 0;
	if (!*reader && !(*reader = pfw_places_reader_new()))
		return -ENOMEM;
	return pfw_places_read(*reader, &parcel->places, parcel->text.data);
}

static void compress(struct pfw_task *task, unsigned worker)
{
	struct parcel *parcel = (struct parcel *)task;
	struct pfw_member **member = &parcel->pack->member[worker];
	size_t room = pfw_member_bound(parcel->text.bytes);
	int error = complete(parcel, &parcel->pack->reader[worker]);

	if (!error && !*member)
		error = pfw_member_open(member, parcel->pack->level);
	if (!error)
		error = pfw_text_room(&parcel->packed, room);
	if (!error && parcel->pack->index)
		error = summarise(parcel);
	parcel->result = error ? error
			       : pfw_member_make(*member, parcel->packed.data, room,
						 parcel->text.data, parcel->text.bytes,
						 &parcel->summary, &parcel->mark, parcel->number);
}

static struct parcel *current(struct pfw_pack *pack)
{
	return &pack->parcel[(pack->first + pack->count) % pack->parcels];
}

/* Have the text in hand compressed. */
static int submit(struct pfw_pack *pack)
{
	struct parcel *parcel = current(pack);

	if (!parcel->text.bytes)
		return 0;
	parcel->pack = pack;
	parcel->number = pack->number++;
	parcel->task.run = compress;
	pfw_pool_start(pack->pool, &parcel->task);
	pack->count++;
	return pack->count == pack->parcels ? write_oldest(pack) : 0;
}

static void begin_parcel(const struct pfw_pack *pack, struct parcel *parcel,
			 const struct pfw_rows *rows)
{
	parcel->summary = (struct pfw_gzip_summary){ .least_ns = UINT64_MAX };
	parcel->mark = (struct pfw_mark){
		.cut = pack->cut, .pid = rows->pid, .least_ns = INT64_MAX, .greatest_ns = INT64_MIN
	};
}

/* What the header will say of these rows. */
static void add_to_header(struct parcel *parcel, const struct pfw_row *row, size_t count)
{
	struct pfw_gzip_summary *summary = &parcel->summary;
	struct pfw_mark *mark = &parcel->mark;
	int64_t ts_ns;

	summary->lines += (uint32_t)count;
	for (; count; row++, count--) {
		mark->checksum += row->hash;
		mark->metadata += row->metadata;
		if (row->ts_ns != PFW_ROW_FIRST) {
			mark->least_ns = row->ts_ns < mark->least_ns ? row->ts_ns : mark->least_ns;
			mark->greatest_ns = row->ts_ns;
		} else {
			mark->first = true;
		}
		/* The figures of the format have no sign: a time before 1970 is no member's. */
		ts_ns = row->ts_ns == PFW_ROW_FIRST ? row->end_ns : row->ts_ns;
		if (ts_ns < 0)
			continue;
		if ((uint64_t)ts_ns < summary->least_ns)
			summary->least_ns = (uint64_t)ts_ns;
		if ((uint64_t)row->end_ns > summary->greatest_ns)
			summary->greatest_ns = (uint64_t)row->end_ns;
	}
}

/* Rows that stand in the text as they come, as many as `room` bytes can take. */
static size_t find_stretch(const struct pfw_row *row, size_t count, size_t room, size_t *bytes)
{
	size_t end = 1;

	*bytes = row->bytes;
	while (end < count && row[end].at == row->at + *bytes && *bytes + row[end].bytes <= room)
		*bytes += row[end++].bytes;
	return end;
}

/* Append the text of rows that stand in it one behind the other, from `at` on. */
static int add_text(struct parcel *parcel, const struct pfw_rows *rows, size_t at, size_t bytes)
{
	struct pfw_text *text = &parcel->text;
	struct pfw_place place = { .path = rows->path,
				   .file = rows->file,
				   .to = (uint32_t)text->bytes,
				   .bytes = (uint32_t)bytes,
				   .from = rows->path_at + at };
	int error = pfw_text_room(text, text->bytes + bytes);

	if (!error && rows->path)
		error = pfw_places_add(&parcel->places, &place);
	else if (!error)
		memcpy(text->data + text->bytes, rows->text.data + at, bytes);
	text->bytes += error ? 0 : bytes;
	return error;
}

int pfw_pack_rows(struct pfw_pack *pack, const struct pfw_rows *rows, size_t first, size_t count)
{
	const struct pfw_row *row = rows->row + first;

	while (count) {
		struct parcel *parcel = current(pack);
		size_t bytes, stretch;
		int error = 0;

		if (parcel->text.bytes && parcel->text.bytes + row->bytes > PFW_GZIP_TEXT_MAX) {
			error = submit(pack);
			parcel = current(pack);
		}
		if (error)
			return error;
		stretch = find_stretch(row, count, PFW_GZIP_TEXT_MAX - parcel->text.bytes, &bytes);
		if (!parcel->text.bytes)
			begin_parcel(pack, parcel, rows);
		else if (parcel->mark.pid != rows->pid)
			parcel->mark.pid = 0;
		error = add_text(parcel, rows, row->at, bytes);
		if (error)
			return error;
		add_to_header(parcel, row, stretch);
		row += stretch;
		count -= stretch;
	}
	return 0;
}

static int flush_parcels(struct pfw_pack *pack)
{
	int error = submit(pack);

	while (!error && pack->count)
		error = write_oldest(pack);
	return error;
}

int pfw_pack_flush(struct pfw_pack *pack)
{
	int error = flush_parcels(pack);

	return !error && pack->copies ? pfw_copies_finish(pack->copies) : error;
}

/* ---- members as they stand ---- */

static void note_copied(void *user, size_t number, uint64_t hash)
{
	struct pfw_pack *pack = user;

	pack->packed[number].checksum = hash;
}

int pfw_pack_member(struct pfw_pack *pack, const char *path, const struct pfw_block *block,
		    const struct pfw_mark *mark)
{
	struct pfw_packed packed = { .bytes = (uint32_t)block->bytes,
				     .lines = block->lines,
				     .copied = true };
	int error = flush_parcels(pack); /* its place is known then */

	if (!error && !pack->copies)
		error = pfw_copies_open(&pack->copies, pack->fd, pack->pool, note_copied, pack);
	packed.at = pack->sum.bytes;
	error = error ? error : note_member(pack, &packed);
	if (!error)
		error = pfw_copies_start(pack->copies, path, block->at, packed.bytes, packed.at,
					 pack->sum.members - 1);
	if (error)
		return error;
	pack->sum.bytes += block->bytes;
	pack->sum.copied++;
	pack->sum.metadata += mark->metadata;
	pack->sum.checksum += mark->checksum;
	add_times(pack, block->least_ns, block->greatest_ns);
	return 0;
}

/* ---- reading back ---- */

int pfw_pack_verify(struct pfw_pack *pack, const volatile bool *stop,
		    void (*progress)(void *user, uint64_t bytes), void *user)
{
	const struct pfw_verify verify = { .fd = pack->fd,
					   .pool = pack->pool,
					   .packed = pack->packed,
					   .members = pack->sum.members,
					   .stop = stop,
					   .progress = progress,
					   .user = user };

	return pfw_verify_run(&verify);
}
