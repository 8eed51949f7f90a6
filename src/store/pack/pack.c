/* store/pack/pack.c - writes lines in order as gzip members; see pack.h. */
#include "store/pack/pack.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/order.h"
#include "store/gzip/member.h"
#include "store/index/index.h"
#include "store/index/parts.h"
#include "store/kit/grow.h"
#include "store/line/hash.h"
#include "store/pass/pass.h"
#include "store/read/input.h"
#include "store/read/places.h"
#include "store/read/stream.h"
#include "store/summary/summary.h"
#include "store/sys/full_io.h"
#include "store/sys/pool.h"

/* A member that was written. */
struct pfw_packed {
	uint64_t at;
	uint32_t bytes, lines;
	uint64_t checksum; /* sum over its lines, or hash of its bytes if it was copied */
	uint64_t header;   /* hash of the bytes that no CRC covers; 0 if it was copied */
	bool copied;
};

struct verify {
	int fd;
	const struct pfw_packed *packed;
	size_t members;
	const _Atomic bool *stop;
	_Atomic size_t next;
	_Atomic int error;
};

struct reader {
	struct pfw_task task;
	struct verify *verify;
	struct pfw_unzip *unzip;
	struct pfw_buffer packed, text;
};

static int check_member(struct reader *reader, const struct pfw_packed *member)
{
	uint64_t lines, sum;
	size_t bytes;
	int error = pfw_buffer_room(&reader->packed, member->bytes);

	if (!error)
		error = pfw_full_read_all(reader->verify->fd, reader->packed.data, member->bytes,
					  member->at);
	if (error)
		return error;
	if (member->copied)
		return pfw_linehash(reader->packed.data, member->bytes) == member->checksum
			       ? 0
			       : -EBADMSG;
	bytes = pfw_unzip_bytes(reader->packed.data, member->bytes);
	if (bytes > PFW_GZIP_TEXT_MAX + PFW_SCAN_LINE_MAX ||
	    pfw_linehash(reader->packed.data, PFW_MEMBER_HEADER_BYTES) != member->header)
		return -EBADMSG;
	error = pfw_buffer_room(&reader->text, bytes + 1);
	if (!error && !reader->unzip && !(reader->unzip = pfw_unzip_new()))
		error = -ENOMEM;
	if (!error)
		error = pfw_unzip_member(reader->unzip, reader->packed.data, member->bytes,
					 reader->text.data, bytes);
	if (error)
		return error;
	sum = pfw_linehash_text(reader->text.data, bytes, &lines);
	return sum == member->checksum && lines == member->lines ? 0 : -EBADMSG;
}

/* Check one member after the other until none is left. */
static void check_some(struct pfw_task *task, unsigned worker)
{
	struct reader *reader = (struct reader *)task;
	struct verify *verify = reader->verify;
	size_t i;

	(void)worker;
	while (!verify->error && (i = verify->next++) < verify->members) {
		int error = verify->stop && *verify->stop
				    ? -EINTR
				    : check_member(reader, &verify->packed[i]);

		if (error)
			verify->error = error;
	}
}

/* A source of copied members.  Members of several ranks alternate, so files stay open. */
#define SOURCES 32u
struct source {
	const char *path; /* NULL: not open */
	int fd;
	unsigned users; /* copies in progress */
};

/* A member in progress: its text is collected, compressed by a worker, then written in its turn; or
 * a worker copies it unchanged. */
struct parcel {
	struct pfw_task task;
	struct pfw_pack *pack;
	struct pfw_buffer text;
	struct pfw_places places; /* parts of the text that are still to be read */
	struct pfw_buffer packed;
	struct pfw_gzip_summary summary;
	struct pfw_sorted_mark mark;
	struct pfw_summary indexed; /* initialised if the pack has an index */
	struct pfw_gather gather;
	uint64_t problems;
	size_t number; /* its number among compressed members; of a copy, among all */
	int64_t result;
	struct source *source;	  /* NULL: not a copy */
	struct pfw_packed member; /* of a copy */
	uint64_t from;		  /* its place in the source */
};

struct pfw_pack {
	int fd, level;
	struct pfw_pool *pool;
	unsigned jobs;
	struct pfw_member **member; /* one per worker; these are made when needed */
	struct pfw_places_reader **reader;
	struct parcel *parcel;
	size_t parcels, first, count; /* a circular queue of members being compressed */
	struct pfw_packed *packed;
	size_t packed_room;
	struct pfw_pack_sum sum;
	struct source source[SOURCES];
	size_t opened;
	bool copying; /* the last parcel is a copy */
	struct pfw_index_writer *index;
	const struct pfw_processes *processes;
	const struct pfw_fname_hashes *fnames;
	bool sorted, cut;
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
	for (size_t i = 0; i < SOURCES; i++) {
		if (pack->source[i].path)
			close(pack->source[i].fd);
	}
	for (unsigned i = 0; pack->member && i < pack->jobs; i++)
		pfw_member_close(pack->member[i]);
	for (unsigned i = 0; pack->reader && i < pack->jobs; i++)
		pfw_places_reader_free(pack->reader[i]);
	for (size_t i = 0; pack->parcel && i < pack->parcels; i++) {
		pfw_buffer_free(&pack->parcel[i].text);
		pfw_places_free(&pack->parcel[i].places);
		pfw_buffer_free(&pack->parcel[i].packed);
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

void pfw_pack_index(struct pfw_pack *pack, struct pfw_index_writer *index,
		    const struct pfw_processes *processes, const struct pfw_fname_hashes *fnames,
		    bool sorted)
{
	pack->index = index;
	pack->processes = processes;
	pack->fnames = fnames;
	pack->sorted = sorted;
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
	if (PFW_PUSH(pack->packed, pack->sum.members, pack->packed_room, *packed))
		return -ENOMEM;
	pack->sum.lines += packed->lines;
	return 0;
}

/* Add the times in a member's header. */
static void add_times(struct pfw_pack *pack, int64_t least_ns, int64_t greatest_ns)
{
	if (least_ns > greatest_ns)
		return;
	PFW_LOWER(pack->sum.least_ns, least_ns);
	PFW_RAISE(pack->sum.greatest_ns, greatest_ns);
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

static int finish_copy(struct parcel *parcel)
{
	parcel->pack->packed[parcel->number].checksum = parcel->mark.checksum;
	parcel->source->users--;
	parcel->source = NULL;
	return (int)parcel->result;
}

static int write_oldest(struct pfw_pack *pack)
{
	struct parcel *parcel = &pack->parcel[pack->first];
	struct pfw_packed packed;
	int error;

	pfw_pool_wait(pack->pool, &parcel->task);
	packed = (struct pfw_packed){ .at = pack->sum.bytes, .checksum = parcel->mark.checksum };
	pack->first = (pack->first + 1) % pack->parcels;
	pack->count--;
	if (parcel->source)
		return finish_copy(parcel);
	if (parcel->result < 0)
		return (int)parcel->result;
	packed.bytes = (uint32_t)parcel->result;
	packed.lines = parcel->summary.lines;
	packed.header = pfw_linehash(parcel->packed.data, PFW_MEMBER_HEADER_BYTES);
	error = pfw_full_write(pack->fd, parcel->packed.data, (size_t)parcel->result,
			       &pack->sum.bytes);
	if (error)
		return error;
	pack->sum.text_bytes += parcel->text.bytes;
	pack->sum.metadata += parcel->mark.metadata;
	pack->sum.checksum += parcel->mark.checksum;
	add_times(pack, (int64_t)parcel->summary.least_ns, (int64_t)parcel->summary.greatest_ns);
	parcel->text.bytes = parcel->places.count = 0;
	error = pack->index ? index_parcel(pack, parcel, &packed) : 0;
	return error ?: note_member(pack, &packed);
}

/* ---- compressing ---- */

/* Summarise the text for the index. */
static int summarise(struct parcel *parcel)
{
	struct pfw_problems problems = { 0 };
	struct pfw_pass_block block = { .bytes = parcel->text.bytes,
					.problems = &problems,
					.processes = parcel->pack->processes };
	struct pfw_pass_lines lines;
	int error = parcel->indexed.name ? 0 : pfw_summary_init(&parcel->indexed);

	error = error ?: pfw_buffer_room(&parcel->text, block.bytes + PFW_ENTRY_PADDING);
	error = error ?: pfw_gather_begin(&parcel->gather, 0, parcel->pack->sorted, true);
	if (error)
		return error;
	parcel->indexed.fnames = parcel->pack->fnames;
	memset(parcel->text.data + block.bytes, 0, PFW_ENTRY_PADDING);
	block.text = parcel->text.data;
	pfw_pass_lines_init(&lines, &block);
	lines.entry.numbered = true;
	while (!error && pfw_pass_lines_next(&lines)) {
		error = pfw_summary_add(&parcel->indexed, &lines.entry);
		error = error ?: pfw_gather_add(&parcel->gather, &lines.entry, &parcel->indexed);
	}
	parcel->problems = problems.count;
	for (size_t i = 0; i < problems.count; i++)
		parcel->problems += problems.problem[i].more;
	pfw_problems_free(&problems);
	return error;
}

/* Read the parts of the text that are still in files. */
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
	error = error ?: pfw_buffer_room(&parcel->packed, room);
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

/* Let a worker do the current parcel. */
static int start(struct pfw_pack *pack, void (*run)(struct pfw_task *task, unsigned worker))
{
	struct parcel *parcel = current(pack);

	parcel->pack = pack;
	parcel->task.run = run;
	pfw_pool_start(pack->pool, &parcel->task);
	pack->count++;
	return pack->count == pack->parcels ? write_oldest(pack) : 0;
}

/* Let a worker compress the current text. */
int pfw_pack_apart(struct pfw_pack *pack)
{
	struct parcel *parcel = current(pack);

	if (!parcel->text.bytes)
		return 0;
	parcel->number = pack->number++;
	pack->copying = false;
	return start(pack, compress);
}

static void begin_parcel(const struct pfw_pack *pack, struct parcel *parcel,
			 const struct pfw_rows *rows)
{
	parcel->summary = (struct pfw_gzip_summary){ .least_ns = UINT64_MAX };
	parcel->mark = (struct pfw_sorted_mark){
		.cut = pack->cut, .pid = rows->pid, .least_ns = INT64_MAX, .greatest_ns = INT64_MIN
	};
}

/* Add rows to the figures of the member's header. */
static void add_to_header(struct parcel *parcel, const struct pfw_row *row, size_t count)
{
	struct pfw_gzip_summary *summary = &parcel->summary;
	struct pfw_sorted_mark *mark = &parcel->mark;
	int64_t ts_ns;

	summary->lines += (uint32_t)count;
	for (; count; row++, count--) {
		mark->checksum += row->hash;
		mark->metadata += row->metadata;
		if (row->ts_ns != PFW_ROW_FIRST) {
			PFW_LOWER(mark->least_ns, row->ts_ns);
			mark->greatest_ns = row->ts_ns;
		} else {
			mark->first = true;
		}
		ts_ns = row->ts_ns == PFW_ROW_FIRST ? row->end_ns : row->ts_ns;
		if (ts_ns != PFW_ROW_NO_TS)
			pfw_gzip_add_times(summary, ts_ns, row->end_ns);
	}
}

/* How many rows are contiguous in the text and fit in `room`. */
static size_t find_stretch(const struct pfw_row *row, size_t count, size_t room, size_t *bytes)
{
	size_t end = 1;

	*bytes = row->bytes;
	while (end < count && row[end].at == row->at + *bytes && *bytes + row[end].bytes <= room)
		*bytes += row[end++].bytes;
	return end;
}

/* Append the text of contiguous rows, which begins at `at`. */
static int add_text(struct parcel *parcel, const struct pfw_rows *rows, size_t at, size_t bytes)
{
	struct pfw_buffer *text = &parcel->text;
	struct pfw_place place = { .path = rows->path,
				   .file = rows->file,
				   .to = (uint32_t)text->bytes,
				   .bytes = (uint32_t)bytes,
				   .from = rows->path_at + at };
	int error = pfw_buffer_room(text, text->bytes + bytes);

	if (!error && rows->path)
		error = PFW_PUSH(parcel->places.place, parcel->places.count, parcel->places.room,
				 place);
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
			error = pfw_pack_apart(pack);
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

int pfw_pack_flush(struct pfw_pack *pack)
{
	int error = pfw_pack_apart(pack);

	while (!error && pack->count)
		error = write_oldest(pack);
	return error;
}

/* ---- members copied unchanged ---- */

static void copy(struct pfw_task *task, unsigned worker)
{
	struct parcel *parcel = (struct parcel *)task;
	const struct pfw_packed packed = parcel->member;
	uint64_t to = packed.at;
	int error = pfw_buffer_room(&parcel->packed, packed.bytes);

	(void)worker;
	if (!error)
		error = pfw_full_read_all(parcel->source->fd, parcel->packed.data, packed.bytes,
					  parcel->from);
	if (!error) {
		parcel->mark.checksum = pfw_linehash(parcel->packed.data, packed.bytes);
		error = pfw_full_write(parcel->pack->fd, parcel->packed.data, packed.bytes, &to);
	}
	parcel->result = error;
}

static int find_source(struct pfw_pack *pack, const char *path, struct source **out)
{
	struct source *source = pack->source;
	int error = 0;

	while (source < pack->source + SOURCES && source->path != path)
		source++;
	if (source == pack->source + SOURCES) {
		source = &pack->source[pack->opened++ % SOURCES];
		while (source->users && !error)
			error = write_oldest(pack);
		if (error)
			return error;
		if (source->path)
			close(source->fd);
		source->fd = pfw_input_open_fd(path);
		source->path = source->fd < 0 ? NULL : path;
	}
	*out = source;
	return source->path ? 0 : source->fd;
}

int pfw_pack_member(struct pfw_pack *pack, const char *path, const struct pfw_block *block,
		    const struct pfw_sorted_mark *mark)
{
	struct pfw_packed packed = { .bytes = (uint32_t)block->bytes,
				     .lines = block->lines,
				     .copied = true };
	struct source *source;
	struct parcel *parcel;
	int error = 0;

	if (!pack->copying || current(pack)->text.bytes)
		error = pfw_pack_flush(pack); /* then its offset is known */
	error = error ?: find_source(pack, path, &source);
	packed.at = pack->sum.bytes;
	error = error ?: note_member(pack, &packed);
	if (error)
		return error;
	pack->sum.bytes += block->bytes;
	pack->sum.copied++;
	pack->sum.metadata += mark->metadata;
	pack->sum.checksum += mark->checksum;
	add_times(pack, block->least_ns, block->greatest_ns);
	parcel = current(pack);
	parcel->number = pack->sum.members - 1;
	parcel->source = source;
	parcel->member = packed;
	parcel->from = block->at;
	source->users++;
	pack->copying = true;
	return start(pack, copy);
}

/* ---- reading back ---- */

int pfw_pack_verify(struct pfw_pack *pack, const _Atomic bool *stop)
{
	struct verify verify = {
		.fd = pack->fd, .packed = pack->packed, .members = pack->sum.members, .stop = stop
	};
	unsigned jobs = pfw_pool_jobs(pack->pool);
	struct reader *reader = calloc(jobs, sizeof(*reader));

	if (!reader)
		return -ENOMEM;
	for (unsigned i = 0; i < jobs; i++) {
		reader[i].verify = &verify;
		reader[i].task.run = check_some;
		pfw_pool_start(pack->pool, &reader[i].task);
	}
	for (unsigned i = 0; i < jobs; i++) {
		pfw_pool_wait(pack->pool, &reader[i].task);
		pfw_unzip_free(reader[i].unzip);
		pfw_buffer_free(&reader[i].packed);
		pfw_buffer_free(&reader[i].text);
	}
	free(reader);
	return verify.error;
}
