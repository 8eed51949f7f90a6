/* store/index/read.c - opens an index if it is ours and of this trace; see index.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/index/index.h"
#include "store/index/internal.h"
#include "store/index/place.h"
#include "store/sys/open.h"

/* Offsets in the file's header: see "The Database File Format" of SQLite. */
#define PAGE_BYTES_AT 16
#define PAGES_AT 28
#define USER_VERSION_AT 60
#define APPLICATION_AT 68

/* ---- columns ---- */

int pfw_index_query(struct pfw_index *index, struct pfw_index_row *row, enum pfw_index_tables table,
		    int64_t first)
{
	*row = (struct pfw_index_row){ .rows = { .db = &index->db, .root = index->root[table] },
				       .keyed = table != PFW_TABLE_META };
	return pfw_sqlite_seek(&row->rows, first);
}

int pfw_index_next(struct pfw_index_row *row)
{
	int result = row->bad ? -EBADMSG : pfw_sqlite_next(&row->rows);

	row->at = 0;
	row->text_bytes = 0;
	return result;
}

int pfw_index_find(struct pfw_index_row *row, int64_t id)
{
	int error = pfw_sqlite_seek(&row->rows, id);

	error = error ? error : pfw_index_next(row);
	return error == 1 && row->rows.id != id ? 0 : error;
}

void pfw_index_done(struct pfw_index_row *row)
{
	pfw_sqlite_end(&row->rows);
	free(row->text);
	row->text = NULL;
}

int pfw_index_rows(struct pfw_index *index, enum pfw_index_tables table, void *user,
		   int (*take)(void *user, struct pfw_index_row *row))
{
	struct pfw_index_row row;
	int result = 0, error = pfw_index_query(index, &row, table, INT64_MIN);

	while (!error && (result = pfw_index_next(&row)) > 0) {
		error = pfw_index_u64(&row) == row.number && !row.bad ? take(user, &row) : -EBADMSG;
		row.number++;
	}
	pfw_index_done(&row);
	return error ? error : result;
}

void pfw_index_value(struct pfw_index_row *row, struct pfw_sqlite_value *value)
{
	if (!pfw_sqlite_value(&row->rows, value))
		row->bad = true;
	/* The id is the row's own number, and its column is NULL. */
	if (row->keyed && !row->at++)
		*value = (struct pfw_sqlite_value){ .type = PFW_SQLITE_INTEGER,
						    .integer = row->rows.id };
}

void pfw_index_skip(struct pfw_index_row *row, unsigned columns)
{
	struct pfw_sqlite_value value;

	while (columns--)
		pfw_index_value(row, &value);
}

/* The next column, which has that type; else the row is bad. */
static struct pfw_sqlite_value next_column(struct pfw_index_row *row, enum pfw_sqlite_type type)
{
	struct pfw_sqlite_value value;

	pfw_index_value(row, &value);
	if (value.type == type)
		return value;
	row->bad = true;
	return (struct pfw_sqlite_value){ .data = (const uint8_t *)"" };
}

int64_t pfw_index_i64(struct pfw_index_row *row)
{
	return next_column(row, PFW_SQLITE_INTEGER).integer;
}

uint64_t pfw_index_u64(struct pfw_index_row *row)
{
	return (uint64_t)pfw_index_i64(row);
}

int64_t pfw_index_time(struct pfw_index_row *row, int64_t none)
{
	struct pfw_sqlite_value value;

	pfw_index_value(row, &value);
	if (value.type != PFW_SQLITE_INTEGER && value.type != PFW_SQLITE_NULL)
		row->bad = true;
	return value.type == PFW_SQLITE_NULL ? none : value.integer;
}

const char *pfw_index_text(struct pfw_index_row *row, size_t *bytes)
{
	struct pfw_sqlite_value value = next_column(row, PFW_SQLITE_TEXT);

	*bytes = value.bytes;
	return (const char *)value.data;
}

/* Copy a text of the row, with an end. */
static const char *terminate(struct pfw_index_row *row, const struct pfw_sqlite_value *value)
{
	/* For all columns that may follow, too, whose copies must not move this one. */
	size_t room = (size_t)(row->rows.end - row->rows.types_end) + PFW_INDEX_COLUMNS;
	char *text;

	if (!row->text_bytes) {
		text = realloc(row->text, room);
		if (!text) {
			row->bad = true;
			return "";
		}
		row->text = text;
	}
	text = row->text + row->text_bytes;
	memcpy(text, value->data, value->bytes);
	text[value->bytes] = '\0';
	row->text_bytes += value->bytes + 1;
	if (strlen(text) != value->bytes)
		row->bad = true;
	return text;
}

const char *pfw_index_string(struct pfw_index_row *row, const char *none)
{
	struct pfw_sqlite_value value;

	pfw_index_value(row, &value);
	if (value.type == PFW_SQLITE_TEXT)
		return terminate(row, &value);
	row->bad |= value.type != PFW_SQLITE_NULL;
	return value.type == PFW_SQLITE_NULL ? none : "";
}

const uint8_t *pfw_index_blob(struct pfw_index_row *row, size_t *bytes)
{
	struct pfw_sqlite_value value = next_column(row, PFW_SQLITE_BLOB);

	*bytes = value.bytes;
	return value.data;
}

/* An integer, or its decimal text if it needs more than 64 bits. */
__int128 pfw_index_i128(struct pfw_index_row *row)
{
	struct pfw_sqlite_value value;
	unsigned __int128 sum = 0;
	size_t at;
	bool negative;

	pfw_index_value(row, &value);
	if (value.type == PFW_SQLITE_INTEGER)
		return value.integer;
	negative = value.type == PFW_SQLITE_TEXT && value.bytes && *value.data == '-';
	/* All numbers of 38 digits fit. */
	if (value.type != PFW_SQLITE_TEXT || value.bytes == negative || value.bytes - negative > 38)
		row->bad = true;
	for (at = negative; !row->bad && at < value.bytes; at++) {
		if (value.data[at] < '0' || value.data[at] > '9')
			row->bad = true;
		sum = sum * 10 + (unsigned)(value.data[at] - '0');
	}
	return negative ? -(__int128)sum : (__int128)sum;
}

/* ---- opening ---- */

static uint32_t get_u32(const unsigned char *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/*
 * Whether the length differs from that in the header: SQLite would read a cut last page as zeros.
 */
static bool is_cut(const unsigned char *header, uint64_t bytes)
{
	uint32_t page = (uint32_t)header[PAGE_BYTES_AT] << 8 | header[PAGE_BYTES_AT + 1];

	return bytes != (uint64_t)(page == 1 ? 65536 : page) * get_u32(header + PAGES_AT);
}

/* Open a file of ours and read its header.  The descriptor; -EBADMSG if it is none, or -errno. */
static int open_header(const char *path, unsigned char header[PFW_SQLITE_HEADER], struct stat *st)
{
	int error = 0, fd = pfw_open_file(path, 0, st);
	ssize_t got;

	if (fd < 0)
		return fd == -ENODEV || fd == -EISDIR || fd == -ELOOP ? -EBADMSG : fd;
	got = pread(fd, header, PFW_SQLITE_HEADER, 0);
	if (got < 0)
		error = -errno;
	else if (got != PFW_SQLITE_HEADER || memcmp(header, "SQLite format 3", 16) != 0 ||
		 get_u32(header + APPLICATION_AT) != PFW_INDEX_APPLICATION)
		error = -EBADMSG;
	if (error)
		close(fd);
	return error ? error : fd;
}

int pfw_index_format_of(const char *path, uint32_t *format, struct stat *st)
{
	unsigned char header[PFW_SQLITE_HEADER];
	int fd = open_header(path, header, st);

	*format = fd < 0 ? 0 : get_u32(header + USER_VERSION_AT);
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

bool pfw_index_is_one(const char *path)
{
	struct stat st;
	uint32_t format;

	return pfw_index_format_of(path, &format, &st) == 0;
}

int pfw_index_check_header(const unsigned char header[PFW_SQLITE_HEADER], uint64_t bytes, char *why,
			   size_t size)
{
	if (get_u32(header + USER_VERSION_AT) != PFW_INDEX_FORMAT)
		snprintf(why, size, "of format %u, and this pfw knows %d",
			 get_u32(header + USER_VERSION_AT), PFW_INDEX_FORMAT);
	else if (is_cut(header, bytes))
		snprintf(why, size, "cut: it has not the length that it should have");
	else
		return 0;
	return -EBADMSG;
}

/* A trace whose index is looked for. */
struct looking {
	int fd;	   /* or -errno */
	uid_t uid; /* its owner */
	uint64_t bytes;
	bool shorter; /* the index is of the trace as it was when it was shorter */
	char *why;
	size_t size;
};

/* Open an index and check its header.  In a directory where others write, an index may be anybody's:
 * it is believed from whom the trace is believed, too. */
static int open_file(struct pfw_index *index, const char *path, const struct looking *looking)
{
	unsigned char header[PFW_SQLITE_HEADER];
	struct stat st;
	int error = 0, fd = open_header(path, header, &st);

	if (fd < 0) {
		snprintf(looking->why, looking->size, "%s",
			 fd == -ENOENT	  ? "no index"
			 : fd == -EBADMSG ? "not an index of ours"
					  : strerror(-fd));
		return fd;
	}
	if (looking->fd >= 0 && !pfw_is_trusted(&st, looking->uid)) {
		error = -EBADMSG;
		snprintf(looking->why, looking->size,
			 "user %u's, neither yours nor the trace's owner's", (unsigned)st.st_uid);
	}
	if (!error)
		error = pfw_index_check_header(header, (uint64_t)st.st_size, looking->why,
					       looking->size);
	if (error) {
		close(fd);
		return error;
	}
	return pfw_sqlite_open(&index->db, fd, (uint64_t)st.st_size);
}

/* Take a row of the schema, which must be exactly ours. */
static bool take_table(struct pfw_index *index, struct pfw_index_row *row, size_t number)
{
	const struct pfw_sqlite_schema *table = &pfw_index_tables[number];
	const char *const texts[] = { "table", table->name, table->name, NULL, table->sql };
	struct pfw_sqlite_value value;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		pfw_index_value(row, &value);
		if (!texts[i] && value.type == PFW_SQLITE_INTEGER && value.integer > 1 &&
		    value.integer <= UINT32_MAX)
			index->root[number] = (uint32_t)value.integer;
		else if (!texts[i] || value.type != PFW_SQLITE_TEXT ||
			 value.bytes != strlen(texts[i]) ||
			 memcmp(value.data, texts[i], value.bytes) != 0)
			return false;
	}
	return true;
}

static int check_schema(struct pfw_index *index)
{
	/* The schema is a table without a key, from the first page on. */
	struct pfw_index_row row = { .rows = { .db = &index->db, .root = 1 } };
	size_t count = 0;
	int result = 0, error = pfw_sqlite_seek(&row.rows, INT64_MIN);

	while (!error && (result = pfw_index_next(&row)) > 0) {
		if (count == PFW_TABLES || !take_table(index, &row, count))
			error = -EBADMSG;
		count++;
	}
	pfw_index_done(&row);
	error = error ? error : result;
	return error || count == PFW_TABLES ? error : -EBADMSG;
}

static uint32_t read_u32(struct pfw_index_row *row)
{
	uint64_t value = pfw_index_u64(row);

	if (value > UINT32_MAX)
		row->bad = true;
	return (uint32_t)value;
}

static int take_meta(struct pfw_index *index, struct pfw_index_row *row)
{
	struct pfw_index_proof *proof = &index->proof;
	struct pfw_index_meta *meta = &index->meta;

	meta->trace_bytes = proof->trace_bytes = pfw_index_u64(row);
	proof->first_bytes = read_u32(row);
	proof->first_crc = read_u32(row);
	proof->last_bytes = read_u32(row);
	proof->last_crc = read_u32(row);
	if (!pfw_index_layout_of(pfw_index_string(row, ""), &meta->layout))
		return -EBADMSG;
	meta->blocks = pfw_index_u64(row);
	meta->lines = pfw_index_u64(row);
	meta->events = pfw_index_u64(row);
	meta->problems = pfw_index_u64(row);
	meta->least_ns = pfw_index_time(row, INT64_MAX);
	meta->greatest_ns = pfw_index_time(row, INT64_MIN);
	meta->first_ns = pfw_index_time(row, INT64_MAX);
	meta->last_ns = pfw_index_time(row, INT64_MIN);
	meta->sorted = pfw_index_i64(row) == 1;
	index->left_out = pfw_index_u64(row);
	meta->nested = pfw_index_i64(row) != 0;
	meta->untimed = pfw_index_i64(row) != 0;
	/* Every block has at least a byte of the file, or of a stream's inflated text. */
	if (meta->blocks > (meta->layout == PFW_LAYOUT_STREAM ? UINT32_MAX : meta->trace_bytes) ||
	    proof->first_bytes > PFW_BLOCK_TEXT || proof->last_bytes > PFW_BLOCK_TEXT)
		return -EBADMSG;
	return row->bad ? -EBADMSG : 0;
}

static int read_meta(struct pfw_index *index)
{
	struct pfw_index_row row;
	int error = pfw_index_query(index, &row, PFW_TABLE_META, INT64_MIN);

	error = error ? error : pfw_index_next(&row);
	error = error == 1 ? take_meta(index, &row) : error ? error : -EBADMSG;
	if (!error && pfw_index_next(&row) != 0)
		error = -EBADMSG;
	pfw_index_done(&row);
	return error;
}

int pfw_index_look(struct pfw_index *index)
{
	int error = check_schema(index);

	return error ? error : read_meta(index);
}

/* Check that the trace is the one that was indexed, or has grown since. */
static int check_trace(const struct looking *looking, const struct pfw_index_proof *proof)
{
	struct pfw_index_proof now = *proof;
	int error;

	if (looking->fd < 0)
		return looking->fd;
	if (looking->shorter ? looking->bytes <= proof->trace_bytes
			     : looking->bytes != proof->trace_bytes)
		return -ESTALE;
	error = pfw_index_prove(&now, looking->fd);
	if (!error && (now.first_crc != proof->first_crc || now.last_crc != proof->last_crc))
		error = -ESTALE;
	return error;
}

static int open_path(struct pfw_index *index, const char *path, const struct looking *looking)
{
	int error;

	*looking->why = '\0';
	error = open_file(index, path, looking);
	if (*looking->why)
		return error;
	error = error ? error : pfw_index_look(index);
	if (error) {
		snprintf(looking->why, looking->size, "%s",
			 error == -EBADMSG ? "not an index of ours, or damaged" : strerror(-error));
		return error;
	}
	error = check_trace(looking, &index->proof);
	if (error)
		snprintf(looking->why, looking->size, "%s",
			 error == -ESTALE ? "of another state of the trace" : strerror(-error));
	return error;
}

/* Open STEM.idx. */
static int open_at(struct pfw_index **out, const char *stem, const struct looking *looking)
{
	struct pfw_index *index = calloc(1, sizeof(*index));
	char *path = pfw_index_path(stem, PFW_INDEX_SUFFIX);
	int error = -ENOMEM;

	if (index)
		index->db.fd = -1;
	if (index && path)
		error = open_path(index, path, looking);
	else
		snprintf(looking->why, looking->size, "%s", strerror(ENOMEM));
	free(path);
	if (error && index)
		pfw_index_close(index);
	else
		*out = index;
	return error;
}

static int open_any(struct pfw_index **out, const char *trace, bool shorter, char *why, size_t size)
{
	struct looking looking = { .shorter = shorter, .why = why, .size = size };
	char *stem, not_there[128];
	struct stat st = { 0 };
	int error;

	looking.fd = pfw_open_file(trace, PFW_OPEN_LINK, &st);
	looking.uid = st.st_uid;
	looking.bytes = (uint64_t)st.st_size;
	error = open_at(out, trace, &looking);
	stem = error && error != -ENOMEM ? pfw_index_in_cache(trace, false) : NULL;
	/* A message is about the index beside the trace, which the user can see. */
	looking.why = not_there;
	looking.size = sizeof(not_there);
	if (stem && open_at(out, stem, &looking) == 0)
		error = *why = 0;
	free(stem);
	if (looking.fd >= 0)
		close(looking.fd);
	return error;
}

int pfw_index_open(struct pfw_index **out, const char *trace, char *why, size_t size)
{
	return open_any(out, trace, false, why, size);
}

bool pfw_index_exists(const char *trace)
{
	struct pfw_index *index;
	char why[128];
	bool current;

	if (pfw_index_open(&index, trace, why, sizeof(why)))
		return false;
	current = pfw_index_is_current(index);
	pfw_index_close(index);
	return current;
}

int pfw_index_open_shorter(struct pfw_index **out, const char *trace)
{
	char why[128];

	return open_any(out, trace, true, why, sizeof(why));
}

void pfw_index_close(struct pfw_index *index)
{
	pfw_sqlite_close(&index->db);
	free(index);
}

const struct pfw_index_proof *pfw_index_proof(const struct pfw_index *index)
{
	return &index->proof;
}

const struct pfw_index_meta *pfw_index_meta(const struct pfw_index *index)
{
	return &index->meta;
}
