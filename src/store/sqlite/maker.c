/* store/sqlite/maker.c - fills the pages of tables; see maker.h. */
#include "store/sqlite/maker.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/kit/grow.h"
#include "store/sqlite/format.h"
#include "store/sys/full_io.h"

#define VARINT_MAX 9u
#define POINTER 2u
/* Of a page in an inner page, with its pointer. */
#define CHILD_MAX (4 + VARINT_MAX + POINTER)
/* The version of SQLite that made it, and of the schema. */
#define SQLITE_VERSION 3037000u /* the first with strict tables */
#define SCHEMA_FORMAT 4u
/* The page with this byte has no rows: SQLite locks it. */
#define LOCK_BYTE 0x40000000u

static void put_u16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static void put_u32(uint8_t *at, uint32_t value)
{
	put_u16(at, value >> 16);
	put_u16(at + 2, value & 0xffff);
}

/* The opposite of get_varint(): the end of the number. */
static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
	unsigned bytes = 2;

	if (value < 0x80) {
		*at = (uint8_t)value;
		return at + 1;
	}
	if (value >> 56) {
		for (unsigned i = 0; i < 8; i++)
			*at++ = (uint8_t)(0x80 | value >> (57 - 7 * i));
		*at++ = (uint8_t)value;
		return at;
	}
	while (value >> 7 * bytes)
		bytes++;
	while (bytes--)
		*at++ = (uint8_t)((bytes ? 0x80 : 0) | (value >> 7 * bytes & 0x7f));
	return at;
}

/* ---- pages ---- */

static int write_page(struct pfw_sqlite_maker *maker, uint32_t number, const uint8_t *page)
{
	uint64_t at = (uint64_t)(number - 1) * maker->page_bytes;

	if (maker->fd >= 0)
		return pfw_full_write(maker->fd, page, maker->page_bytes, &at);
	if (PFW_RESERVE(maker->image, at + maker->page_bytes, maker->room))
		return -ENOMEM;
	memcpy(maker->image + at, page, maker->page_bytes);
	return 0;
}

/* The number of the next page; the first one is written last. */
static uint32_t next_page(struct pfw_sqlite_maker *maker)
{
	maker->pages += maker->pages ? 1 : 2;
	maker->pages += maker->pages == LOCK_BYTE / maker->page_bytes + 1;
	return maker->pages;
}

static void clear_page(struct pfw_sqlite_filling *filling, uint32_t page_bytes)
{
	filling->cells = 0;
	filling->begin = page_bytes;
}

static int add_level(struct pfw_sqlite_table *table)
{
	struct pfw_sqlite_filling *filling = &table->level[table->levels];

	if (table->levels == PFW_SQLITE_DEPTH)
		return -EFBIG;
	filling->page = malloc(table->maker->page_bytes);
	if (!filling->page)
		return -ENOMEM;
	clear_page(filling, table->maker->page_bytes);
	table->levels++;
	return 0;
}

/* Where the pointers to the cells of a level end, but for `skip` bytes before. */
static uint32_t pointers_end(const struct pfw_sqlite_filling *filling, unsigned level)
{
	return (level ? INNER_HEAD : LEAF_HEAD) + POINTER * filling->cells;
}

static bool fits(const struct pfw_sqlite_filling *filling, unsigned level, size_t bytes)
{
	return pointers_end(filling, level) + bytes <= filling->begin;
}

/* A new cell of so many bytes, for which there is room. */
static uint8_t *take_cell(struct pfw_sqlite_filling *filling, unsigned level, size_t bytes)
{
	filling->begin -= (uint32_t)bytes;
	put_u16(filling->page + pointers_end(filling, level), filling->begin);
	filling->cells++;
	return filling->page + filling->begin;
}

static void put_child(struct pfw_sqlite_filling *filling, unsigned level,
		      const struct pfw_sqlite_child *child)
{
	uint8_t cell[4 + VARINT_MAX];
	size_t bytes;

	put_u32(cell, child->page);
	bytes = (size_t)(put_varint(cell + 4, (uint64_t)child->id) - cell);
	memcpy(take_cell(filling, level, bytes), cell, bytes);
}

/* Write the page of a level; the first page begins after the file's header. */
static int write_level(struct pfw_sqlite_table *table, unsigned level, uint32_t number,
		       uint32_t last)
{
	struct pfw_sqlite_filling *filling = &table->level[level];
	uint32_t skip = number == 1 ? PFW_SQLITE_HEADER : 0, end = pointers_end(filling, level);
	uint8_t *head = filling->page + skip;

	memmove(head, filling->page, end);
	memset(head + end, 0, filling->begin - end - skip);
	head[0] = level ? INNER_PAGE : LEAF_PAGE;
	put_u16(head + 1, 0); /* no free cells */
	put_u16(head + 3, filling->cells);
	put_u16(head + 5, filling->begin);
	head[7] = 0;
	if (level)
		put_u32(head + 8, last);
	return number == 1 ? 0 : write_page(table->maker, number, filling->page);
}

static int add_child(struct pfw_sqlite_table *table, unsigned level, struct pfw_sqlite_child child);

/* Write the page of a level, and add it to the level above.  Its last child: see write_level(). */
static int pass_up(struct pfw_sqlite_table *table, unsigned level, struct pfw_sqlite_child last)
{
	uint32_t number = next_page(table->maker);
	int error = write_level(table, level, number, last.page);

	clear_page(&table->level[level], table->maker->page_bytes);
	return error ? error
		     : add_child(table, level + 1,
				 (struct pfw_sqlite_child){ .page = number, .id = last.id });
}

/* Of a full page the last child is without a cell, and no page may have only that: so two wait until
 * a third comes. */
static int add_child(struct pfw_sqlite_table *table, unsigned level, struct pfw_sqlite_child child)
{
	struct pfw_sqlite_filling *filling = &table->level[level];
	int error = level == table->levels ? add_level(table) : 0;

	if (!error && filling->before.page) {
		/* At the end there must be room for one more. */
		if (fits(filling, level, 2 * CHILD_MAX))
			put_child(filling, level, &filling->before);
		else
			error = pass_up(table, level, filling->before);
	}
	filling->before = filling->last;
	filling->last = child;
	return error;
}

/* ---- rows ---- */

/* A row's bytes on their way into its leaf, and then into pages of their own. */
struct sink {
	struct pfw_sqlite_maker *maker;
	uint8_t *at;
	size_t room;
	uint32_t page; /* 0: the leaf */
	uint64_t left; /* bytes of the row behind `room` */
	int error;
};

/* Write the page, whose link is to the next one; 0: none. */
static void write_overflow(struct sink *sink, uint32_t next)
{
	memset(sink->at, 0, sink->room);
	put_u32(sink->maker->overflow, next);
	sink->error = write_page(sink->maker, sink->page, sink->maker->overflow);
}

static void begin_overflow(struct sink *sink)
{
	struct pfw_sqlite_maker *maker = sink->maker;
	uint32_t number = next_page(maker);

	if (!maker->overflow)
		maker->overflow = malloc(maker->page_bytes);
	if (!maker->overflow)
		sink->error = -ENOMEM;
	else if (sink->page)
		write_overflow(sink, number);
	else
		put_u32(sink->at, number);
	sink->page = number;
	sink->at = maker->overflow + 4;
	sink->room = maker->page_bytes - 4;
}

static void put_bytes(struct sink *sink, const void *data, size_t bytes)
{
	const uint8_t *next = data;

	while (bytes && !sink->error) {
		size_t part = bytes < sink->room ? bytes : sink->room;

		if (!part) {
			begin_overflow(sink);
			continue;
		}
		memcpy(sink->at, next, part);
		sink->at += part;
		sink->room -= part;
		next += part;
		bytes -= part;
	}
}

/* The bytes that an integer of that type has. */
static const uint8_t integer_bytes[] = { 0, 1, 2, 3, 4, 6, 8, 0, 0, 0 };

static uint64_t integer_type(int64_t value)
{
	uint64_t size = (uint64_t)(value < 0 ? ~value : value);
	unsigned bits = 65 - (unsigned)__builtin_clzll(size | 1);

	if (size == (uint64_t)value && size <= 1)
		return 8 + size;
	return bits <= 32 ? (bits + 7) / 8 : bits <= 48 ? 5 : 6;
}

/* The type of a value in a row. */
static uint64_t type_of(const struct pfw_sqlite_value *value)
{
	switch (value->type) {
	case PFW_SQLITE_INTEGER:
		return integer_type(value->integer);
	case PFW_SQLITE_TEXT:
		return 13 + 2 * (uint64_t)value->bytes;
	case PFW_SQLITE_BLOB:
		return 12 + 2 * (uint64_t)value->bytes;
	default:
		return 0;
	}
}

static void put_integer(struct sink *sink, int64_t value)
{
	unsigned count = integer_bytes[integer_type(value)];
	uint64_t bytes = count ? htobe64((uint64_t)value << (64 - 8 * count)) : 0;

	if (sink->room < sizeof(bytes)) {
		put_bytes(sink, &bytes, count);
		return;
	}
	/* All eight at once, of which the next value replaces those that are too many. */
	memcpy(sink->at, &bytes, sizeof(bytes));
	sink->at += count;
	sink->room -= count;
}

static void put_value(struct sink *sink, const struct pfw_sqlite_value *value)
{
	if (value->type == PFW_SQLITE_INTEGER)
		put_integer(sink, value->integer);
	else
		put_bytes(sink, value->data, value->bytes);
}

/* A row's head: the types of its columns. */
struct head {
	uint8_t bytes[2 + PFW_SQLITE_COLUMNS * VARINT_MAX];
	size_t count;
	uint64_t row; /* bytes of the row with the head */
};

static void make_head(struct head *head, const struct pfw_sqlite_value *value, unsigned columns)
{
	uint8_t *at = head->bytes + 2;

	head->row = 0;
	for (unsigned i = 0; i < columns; i++) {
		uint64_t type = type_of(&value[i]);

		at = put_varint(at, type);
		head->row += value[i].type == PFW_SQLITE_INTEGER ? integer_bytes[type]
								 : value[i].bytes;
	}
	/* Its own length comes first: a byte, or two if it needs them. */
	head->count = (size_t)(at - head->bytes) - 1;
	if (head->count < 0x80) {
		head->bytes[1] = (uint8_t)head->count;
		memmove(head->bytes, head->bytes + 1, head->count);
	} else {
		put_varint(head->bytes, ++head->count);
	}
	head->row += head->count;
}

/* The cell of a row in the present leaf, or in a new one; then the row's bytes follow. */
static int begin_row(struct pfw_sqlite_table *table, struct sink *sink, uint64_t row, int64_t id)
{
	struct pfw_sqlite_filling *leaf = &table->level[0];
	uint64_t local = local_bytes(table->maker->page_bytes, row);
	uint8_t numbers[2 * VARINT_MAX];
	size_t before = (size_t)(put_varint(put_varint(numbers, row), (uint64_t)id) - numbers);
	size_t bytes = before + local + (local < row ? 4 : 0);
	int error = table->levels ? 0 : add_level(table);

	if (!error && !fits(leaf, 0, bytes + POINTER))
		error = pass_up(table, 0, (struct pfw_sqlite_child){ .id = table->id });
	if (error)
		return error;
	sink->at = take_cell(leaf, 0, bytes);
	memcpy(sink->at, numbers, before);
	sink->at += before;
	sink->room = local;
	return 0;
}

int pfw_sqlite_add(struct pfw_sqlite_table *table, int64_t id, const struct pfw_sqlite_value *value,
		   unsigned columns)
{
	struct sink sink = { .maker = table->maker };
	struct head head;
	int error = columns > PFW_SQLITE_COLUMNS || (table->any && id <= table->id) ? -EINVAL : 0;

	for (unsigned i = 0; i < columns && !error; i++)
		error = value[i].type == PFW_SQLITE_REAL ? -EINVAL : 0;
	if (error)
		return error;
	make_head(&head, value, columns);
	error = begin_row(table, &sink, head.row, id);
	if (error)
		return error;
	table->any = true;
	table->id = id;
	put_bytes(&sink, head.bytes, head.count);
	for (unsigned i = 0; i < columns && !sink.error; i++)
		put_value(&sink, &value[i]);
	if (sink.page && !sink.error)
		write_overflow(&sink, 0);
	return sink.error;
}

/* ---- the end ---- */

/* Write all levels of a table but the highest.  0 or -errno. */
static int settle(struct pfw_sqlite_table *table)
{
	int error = table->levels ? 0 : add_level(table);

	for (unsigned level = 0; level < table->levels && !error; level++) {
		struct pfw_sqlite_filling *filling = &table->level[level];

		if (filling->before.page)
			put_child(filling, level, &filling->before);
		if (!level)
			filling->last.id = table->id;
		if (level + 1 < table->levels)
			error = pass_up(table, level, filling->last);
	}
	return error;
}

/* Write the rest of a table.  Its first page, or -errno. */
static int64_t finish_table(struct pfw_sqlite_table *table)
{
	int error = settle(table);
	uint32_t number = error ? 0 : next_page(table->maker);
	unsigned top = table->levels - 1;

	error = error ? error : write_level(table, top, number, table->level[top].last.page);
	return error ? error : (int64_t)number;
}

static int add_schema(struct pfw_sqlite_table *master, int64_t number,
		      const struct pfw_sqlite_schema *schema, int64_t root)
{
#define TEXT(text)                                                                              \
	{                                                                                       \
		.type = PFW_SQLITE_TEXT, .data = (const uint8_t *)(text), .bytes = strlen(text) \
	}
	const struct pfw_sqlite_value value[] = { TEXT("table"),
						  TEXT(schema->name),
						  TEXT(schema->name),
						  { .type = PFW_SQLITE_INTEGER, .integer = root },
						  TEXT(schema->sql) };
#undef TEXT

	return pfw_sqlite_add(master, number, value, sizeof(value) / sizeof(*value));
}

static void put_header(const struct pfw_sqlite_maker *maker, uint8_t *header, uint32_t application,
		       uint32_t version)
{
	memset(header, 0, PFW_SQLITE_HEADER);
	memcpy(header, "SQLite format 3", 16);
	put_u16(header + PAGE_BYTES_AT, maker->page_bytes);
	header[18] = header[19] = 1; /* for readers and writers of this format */
	header[21] = 64;	     /* shares of a page, which are fixed */
	header[22] = header[23] = 32;
	put_u32(header + 24, 1); /* how often it was changed */
	put_u32(header + PAGES_AT, maker->pages);
	put_u32(header + 40, 1); /* how often the schema was */
	put_u32(header + 44, SCHEMA_FORMAT);
	put_u32(header + ENCODING_AT, ENCODING_UTF8);
	put_u32(header + 60, version);
	put_u32(header + 68, application);
	put_u32(header + 92, 1); /* PAGES_AT is of this change */
	put_u32(header + 96, SQLITE_VERSION);
}

/* Write the first page, whose table has the others; if the header leaves no room for that, its only
 * child has. */
static int write_first(struct pfw_sqlite_table *master, uint32_t application, uint32_t version)
{
	int error = settle(master);
	unsigned top = master->levels - 1;

	if (!error && !fits(&master->level[top], top, PFW_SQLITE_HEADER))
		error = pass_up(master, top, master->level[top].last);
	if (error)
		return error;
	top = master->levels - 1;
	error = write_level(master, top, 1, master->level[top].last.page);
	put_header(master->maker, master->level[top].page, application, version);
	return error ? error : write_page(master->maker, 1, master->level[top].page);
}

int pfw_sqlite_finish(struct pfw_sqlite_maker *maker, struct pfw_sqlite_table *table,
		      const struct pfw_sqlite_schema *schema, size_t tables, uint32_t application,
		      uint32_t version)
{
	struct pfw_sqlite_table master = { .maker = maker };
	int error = 0;

	for (size_t i = 0; i < tables && !error; i++) {
		int64_t root = finish_table(&table[i]);

		error = root < 0 ? (int)root
				 : add_schema(&master, (int64_t)i + 1, &schema[i], root);
	}
	error = error ? error : write_first(&master, application, version);
	pfw_sqlite_release_table(&master);
	return error;
}

void pfw_sqlite_release_table(struct pfw_sqlite_table *table)
{
	for (unsigned i = 0; i < table->levels; i++)
		free(table->level[i].page);
	*table = (struct pfw_sqlite_table){ .maker = table->maker };
}

void pfw_sqlite_release_maker(struct pfw_sqlite_maker *maker)
{
	free(maker->overflow);
	maker->overflow = NULL;
}
