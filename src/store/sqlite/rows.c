/* store/sqlite/rows.c - walks the pages of a table's B-tree; see rows.h. */
#include "store/sqlite/rows.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/base/order.h"
#include "store/sqlite/format.h"
#include "store/sys/full_io.h"

/* A small file is read at once. */
#define WHOLE_BYTES (100u << 10)

/* A number of up to 9 bytes, of which the first 8 have 7 bits each.  NULL: it goes beyond `end`. */
static const uint8_t *get_varint(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < 8; i++) {
		if (at >= end)
			return NULL;
		sum = sum << 7 | (*at & 0x7f);
		if (!(*at++ & 0x80)) {
			*value = sum;
			return at;
		}
	}
	if (at >= end)
		return NULL;
	*value = sum << 8 | *at;
	return at + 1;
}

/* ---- the file ---- */

static int check_header(struct pfw_sqlite *db, const uint8_t *header, uint64_t bytes)
{
	uint32_t page = get_u16(header + PAGE_BYTES_AT);

	db->page_bytes = page == 1 ? 65536 : page;
	db->pages = get_u32(header + PAGES_AT);
	if (db->page_bytes < 512 || db->page_bytes & (db->page_bytes - 1) || !db->pages ||
	    (uint64_t)db->pages * db->page_bytes != bytes || header[RESERVED_AT] ||
	    get_u32(header + ENCODING_AT) != ENCODING_UTF8)
		return -EBADMSG;
	return 0;
}

int pfw_sqlite_open_image(struct pfw_sqlite *db, uint8_t *image, uint64_t bytes)
{
	*db = (struct pfw_sqlite){ .fd = -1, .image = image };
	return bytes < PFW_SQLITE_HEADER ? -EBADMSG : check_header(db, image, bytes);
}

int pfw_sqlite_open(struct pfw_sqlite *db, int fd, uint64_t bytes)
{
	uint8_t header[PFW_SQLITE_HEADER], *image;
	int error;

	*db = (struct pfw_sqlite){ .fd = fd };
	if (bytes > WHOLE_BYTES) {
		error = pfw_full_read_all(fd, header, sizeof(header), 0);
		return error ? error : check_header(db, header, bytes);
	}
	image = malloc(bytes + 1);
	error = image ? pfw_full_read_all(fd, image, bytes, 0) : -ENOMEM;
	if (error) {
		free(image);
		return error;
	}
	close(fd);
	return pfw_sqlite_open_image(db, image, bytes);
}

void pfw_sqlite_close(struct pfw_sqlite *db)
{
	if (db->fd >= 0)
		close(db->fd);
	free(db->image);
	*db = (struct pfw_sqlite){ .fd = -1 };
}

/* Read a page.  Without an image it comes into *own. */
static int load(const struct pfw_sqlite *db, uint32_t number, uint8_t **own, const uint8_t **page)
{
	uint64_t at = (uint64_t)(number - 1) * db->page_bytes;

	if (!number || number > db->pages)
		return -EBADMSG;
	if (db->image) {
		*page = db->image + at;
		return 0;
	}
	if (!*own && !(*own = malloc(db->page_bytes)))
		return -ENOMEM;
	*page = *own;
	return pfw_full_read_all(db->fd, *own, db->page_bytes, at);
}

/* ---- pages ---- */

/* The page that the level is of; a page that it has already is not read again. */
static int enter(struct pfw_sqlite_rows *rows, struct pfw_sqlite_level *level, uint32_t number)
{
	const struct pfw_sqlite *db = rows->db;
	const uint8_t *head;
	int error;

	if (number && level->number == number)
		return 0;
	level->number = 0;
	error = load(db, number, &level->own, &level->page);
	if (error)
		return error;
	head = level->page + (number == 1 ? PFW_SQLITE_HEADER : 0);
	level->leaf = *head == LEAF_PAGE;
	level->cells = get_u16(head + 3);
	level->cell = head + (level->leaf ? LEAF_HEAD : INNER_HEAD);
	if ((!level->leaf && *head != INNER_PAGE) ||
	    level->cell + 2 * level->cells > level->page + db->page_bytes)
		return -EBADMSG;
	/* Only the first page of the file may have no cell before its last child. */
	if (!level->cells && number != 1 && (!level->leaf || number != rows->root))
		return -EBADMSG;
	level->number = number;
	return 0;
}

static const uint8_t *page_end(const struct pfw_sqlite_rows *rows,
			       const struct pfw_sqlite_level *level)
{
	return level->page + rows->db->page_bytes;
}

static const uint8_t *cell_of(const struct pfw_sqlite_level *level, unsigned number)
{
	return level->page + get_u16(level->cell + 2 * number);
}

/* The greatest id below a child of an inner page, or the id of a row.  A cut cell is damaged. */
static int64_t key_of(struct pfw_sqlite_rows *rows, const struct pfw_sqlite_level *level,
		      unsigned number)
{
	const uint8_t *at = cell_of(level, number), *end = page_end(rows, level);
	uint64_t skipped, key = 0;

	at = level->leaf ? get_varint(at, end, &skipped) : at + 4;
	if (!at || !get_varint(at, end, &key))
		rows->damaged = true;
	return (int64_t)key;
}

static uint32_t child_of(struct pfw_sqlite_rows *rows, const struct pfw_sqlite_level *level)
{
	const uint8_t *at = level->cell - 4; /* the last child is in the page's head */

	if (level->at < level->cells)
		at = cell_of(level, level->at);
	if (at + 4 <= page_end(rows, level))
		return get_u32(at);
	rows->damaged = true;
	return 0;
}

/* From a page down to the leaf where the id `first` is or would be. */
static int descend(struct pfw_sqlite_rows *rows, uint32_t number, int64_t first)
{
	struct pfw_sqlite_level *level;

	do {
		int error;

		if (rows->depth == PFW_SQLITE_DEPTH)
			return -EBADMSG;
		level = &rows->level[rows->depth];
		error = enter(rows, level, number);
		if (error)
			return error;
		rows->depth++;
		level->at = (unsigned)PFW_BISECT(at, level->cells,
						 key_of(rows, level, (unsigned)at) < first);
		if (!level->leaf)
			number = child_of(rows, level);
	} while (!level->leaf);
	return rows->damaged ? -EBADMSG : 0;
}

/* The leaf after the present one: 1; 0: there is none. */
static int next_leaf(struct pfw_sqlite_rows *rows)
{
	struct pfw_sqlite_level *level;
	int error;

	do {
		rows->depth--;
		if (!rows->depth)
			return 0;
		level = &rows->level[rows->depth - 1];
	} while (level->at++ >= level->cells);
	error = descend(rows, child_of(rows, level), INT64_MIN);
	return error ? error : 1;
}

/* ---- rows ---- */

/* Room for a row of several pages, kept for the next one: else most of a short command's time goes into the
 * page faults of new memory for each file. */
struct pfw_sqlite_room {
	size_t bytes;
	uint8_t data[];
};

#define KEPT_BYTES (8u << 20)

static struct pfw_sqlite_room *_Atomic kept;

static int reserve(struct pfw_sqlite_rows *rows, uint64_t bytes)
{
	if (!rows->joined)
		rows->joined = atomic_exchange(&kept, NULL);
	if (rows->joined && bytes <= rows->joined->bytes)
		return 0;
	free(rows->joined);
	bytes += bytes / 8; /* rows of the files of a run are almost as long */
	rows->joined = malloc(sizeof(*rows->joined) + bytes);
	if (!rows->joined)
		return -ENOMEM;
	rows->joined->bytes = bytes;
	return 0;
}

static void keep(struct pfw_sqlite_room *room)
{
	if (room && room->bytes <= KEPT_BYTES)
		room = atomic_exchange(&kept, room);
	free(room);
}

/* The pages of a row mostly follow one another: at most so many are read at once. */
#define RUN_PAGES 64u

/* Read the first `bytes` bytes that a page, and those after it, have behind their links.  The number of whole
 * pages, at most `most`; or -errno. */
static ssize_t read_run(const struct pfw_sqlite *db, uint32_t number, uint8_t *into, uint64_t bytes,
			uint8_t link[][4], unsigned most)
{
	uint64_t at = (uint64_t)(number - 1) * db->page_bytes, room = db->page_bytes - 4;
	struct iovec part[2 * RUN_PAGES];
	unsigned count = 0;
	ssize_t got;

	PFW_LOWER(most, db->pages - number + 1);
	for (; count < most && count * room < bytes; count++) {
		uint64_t left = bytes - count * room;

		part[2 * count] = (struct iovec){ link[count], 4 };
		part[2 * count + 1] =
			(struct iovec){ into + count * room, left < room ? left : room };
	}
	do
		got = preadv(db->fd, part, 2 * (int)count, (off_t)at);
	while (got < 0 && errno == EINTR);
	if (got <= 0)
		return got < 0 ? -errno : -EIO;
	most = count;
	for (count = 0; count < most && got >= 4 + (ssize_t)part[2 * count + 1].iov_len; count++)
		got -= 4 + (ssize_t)part[2 * count + 1].iov_len;
	return count ? (ssize_t)count : -EIO;
}

/* The same of pages in memory. */
static ssize_t copy_page(const struct pfw_sqlite *db, uint32_t number, uint8_t *into,
			 uint64_t bytes, uint8_t link[4])
{
	const uint8_t *page = db->image + (uint64_t)(number - 1) * db->page_bytes;

	PFW_LOWER(bytes, db->page_bytes - 4);
	memcpy(link, page, 4);
	memcpy(into, page + 4, bytes);
	return 1;
}

/* Put together a row that begins with `local` bytes at `at` and goes on in pages of its own. */
static int join(struct pfw_sqlite_rows *rows, const uint8_t *at, size_t local, uint64_t bytes)
{
	const struct pfw_sqlite *db = rows->db;
	uint32_t next = get_u32(at + local);
	uint8_t link[RUN_PAGES][4];
	unsigned run = 1;

	if (bytes > (uint64_t)db->pages * db->page_bytes)
		return -EBADMSG;
	if (reserve(rows, bytes))
		return -ENOMEM;
	memcpy(rows->joined->data, at, local);
	for (uint64_t got = local; got < bytes;) {
		uint8_t *into = rows->joined->data + got;
		unsigned used = 1;
		ssize_t count;

		if (!next || next > db->pages)
			return -EBADMSG;
		count = db->image ? copy_page(db, next, into, bytes - got, link[0])
				  : read_run(db, next, into, bytes - got, link, run);
		if (count < 0)
			return (int)count;
		while (used < count && get_u32(link[used - 1]) == next + used)
			used++;
		/* A row whose pages lie apart is read page by page. */
		run = used < count ? 1 : used < RUN_PAGES / 4 ? 4 * used : RUN_PAGES;
		got += (uint64_t)used * (db->page_bytes - 4);
		next = get_u32(link[used - 1]);
	}
	return 0;
}

/* Find the columns in a row's bytes. */
static int split(struct pfw_sqlite_rows *rows, const uint8_t *row, uint64_t bytes)
{
	uint64_t head = 0;

	rows->end = row + bytes;
	rows->type = get_varint(row, rows->end, &head);
	if (!rows->type || head > bytes || row + head < rows->type)
		return -EBADMSG;
	rows->value = rows->types_end = row + head;
	return 0;
}

static int read_row(struct pfw_sqlite_rows *rows, struct pfw_sqlite_level *level)
{
	const uint8_t *at = cell_of(level, level->at++), *end = page_end(rows, level);
	uint64_t bytes, id, local, needed;
	int error = 0;

	at = get_varint(at, end, &bytes);
	at = at ? get_varint(at, end, &id) : NULL;
	if (!at || (rows->any && (int64_t)id <= rows->id))
		return -EBADMSG;
	rows->id = (int64_t)id;
	rows->any = true;
	local = local_bytes(rows->db->page_bytes, bytes);
	needed = local + (local < bytes ? 4 : 0);
	if (needed > (uint64_t)(end - at))
		return -EBADMSG;
	if (local < bytes)
		error = join(rows, at, local, bytes);
	return error ? error : split(rows, local < bytes ? rows->joined->data : at, bytes);
}

int pfw_sqlite_seek(struct pfw_sqlite_rows *rows, int64_t first)
{
	rows->depth = 0;
	rows->any = rows->damaged = false;
	return descend(rows, rows->root, first);
}

int pfw_sqlite_next(struct pfw_sqlite_rows *rows)
{
	struct pfw_sqlite_level *level;
	int result = 1;

	while (rows->depth && result > 0) {
		level = &rows->level[rows->depth - 1];
		if (level->at < level->cells) {
			result = read_row(rows, level);
			return result ? result : 1;
		}
		result = next_leaf(rows);
	}
	return result < 0 ? result : 0;
}

int pfw_sqlite_last(struct pfw_sqlite_rows *rows, int64_t *id)
{
	int error = pfw_sqlite_seek(rows, INT64_MAX);
	const struct pfw_sqlite_level *leaf = error ? NULL : &rows->level[rows->depth - 1];

	if (error || !leaf->cells)
		return error;
	*id = key_of(rows, leaf, leaf->cells - 1);
	return rows->damaged ? -EBADMSG : 1;
}

void pfw_sqlite_end(struct pfw_sqlite_rows *rows)
{
	for (unsigned i = 0; i < PFW_SQLITE_DEPTH; i++)
		free(rows->level[i].own);
	keep(rows->joined);
	*rows = (struct pfw_sqlite_rows){ .db = rows->db, .root = rows->root };
}

/* ---- columns ---- */

/* A number of some bytes, the highest first, with its sign. */
static int64_t signed_of(const uint8_t *at, size_t bytes)
{
	uint64_t sum = at[0] & 0x80 ? UINT64_MAX : 0;

	while (bytes--)
		sum = sum << 8 | *at++;
	return (int64_t)sum;
}

bool pfw_sqlite_value(struct pfw_sqlite_rows *rows, struct pfw_sqlite_value *value)
{
	static const uint8_t sizes[] = { 0, 1, 2, 3, 4, 6, 8, 8, 0, 0 };
	uint64_t type;

	*value = (struct pfw_sqlite_value){ .type = PFW_SQLITE_NULL };
	if (rows->type == rows->types_end)
		return true;
	rows->type = get_varint(rows->type, rows->types_end, &type);
	if (!rows->type || type == 10 || type == 11) {
		rows->type = rows->types_end;
		return false;
	}
	value->bytes = type < sizeof(sizes) ? sizes[type] : (type - 12) / 2;
	if (value->bytes > (size_t)(rows->end - rows->value))
		return false;
	value->data = rows->value;
	rows->value += value->bytes;
	if (type >= 12)
		value->type = type & 1 ? PFW_SQLITE_TEXT : PFW_SQLITE_BLOB;
	else if (type)
		value->type = type == 7 ? PFW_SQLITE_REAL : PFW_SQLITE_INTEGER;
	if (type == 9)
		value->integer = 1;
	else if (type && type < 7)
		value->integer = signed_of(value->data, value->bytes);
	return true;
}
