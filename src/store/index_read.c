/* index_read.c - opening an index, and only one that is ours and of this trace; see index.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "index.h"
#include "index_open.h"

/* Of the file's header: see "The Database File Format" of SQLite. */
#define HEADER_BYTES 100
#define PAGE_BYTES_AT 16
#define PAGES_AT 28
#define USER_VERSION_AT 60
#define APPLICATION_AT 68
/* No text or blob of ours is longer: PFW_SUMMARY_TEXT_MAX, or all names of a block. */
#define LENGTH_MAX (32 << 20)

/* ---- columns ---- */

int pfw_index_query(struct pfw_index *index, struct pfw_index_row *row, const char *sql)
{
	*row = (struct pfw_index_row){ 0 };
	return pfw_index_error(sqlite3_prepare_v2(index->db, sql, -1, &row->statement, NULL));
}

int pfw_index_next(struct pfw_index_row *row)
{
	int result;

	if (row->bad)
		return -EBADMSG;
	row->at = 0;
	result = sqlite3_step(row->statement);
	if (result == SQLITE_ROW)
		return 1;
	return result == SQLITE_DONE ? 0 : pfw_index_error(result);
}

int pfw_index_rows(struct pfw_index *index, const char *sql, void *user,
		   int (*take)(void *user, struct pfw_index_row *row, uint64_t number))
{
	struct pfw_index_row row;
	uint64_t number = 0;
	int result = 0, error = pfw_index_query(index, &row, sql);

	while (!error && (result = pfw_index_next(&row)) > 0) {
		if (pfw_index_u64(&row) != number || row.bad)
			error = -EBADMSG;
		else
			error = take(user, &row, number++);
	}
	sqlite3_finalize(row.statement);
	return error ? error : result;
}

/* Whether the next column has that type; else the row is bad. */
static bool is_type(struct pfw_index_row *row, int type)
{
	if (sqlite3_column_type(row->statement, row->at) == type)
		return true;
	row->bad = true;
	return false;
}

int64_t pfw_index_i64(struct pfw_index_row *row)
{
	int64_t value = is_type(row, SQLITE_INTEGER) ? sqlite3_column_int64(row->statement, row->at)
						     : 0;

	row->at++;
	return value;
}

uint64_t pfw_index_u64(struct pfw_index_row *row)
{
	return (uint64_t)pfw_index_i64(row);
}

int64_t pfw_index_time(struct pfw_index_row *row, int64_t none)
{
	if (sqlite3_column_type(row->statement, row->at) != SQLITE_NULL)
		return pfw_index_i64(row);
	row->at++;
	return none;
}

const char *pfw_index_text(struct pfw_index_row *row, size_t *bytes)
{
	const char *text = "";

	*bytes = 0;
	if (is_type(row, SQLITE_TEXT)) {
		text = (const char *)sqlite3_column_text(row->statement, row->at);
		*bytes = (size_t)sqlite3_column_bytes(row->statement, row->at);
	}
	row->at++;
	if (!text)
		row->bad = true; /* no memory */
	return text ? text : "";
}

const char *pfw_index_string(struct pfw_index_row *row, const char *none)
{
	size_t bytes;
	const char *text;

	if (sqlite3_column_type(row->statement, row->at) == SQLITE_NULL) {
		row->at++;
		return none;
	}
	text = pfw_index_text(row, &bytes);
	if (strlen(text) != bytes)
		row->bad = true;
	return text;
}

const uint8_t *pfw_index_blob(struct pfw_index_row *row, size_t *bytes)
{
	static const uint8_t nothing[1];
	const uint8_t *data = NULL;

	*bytes = 0;
	if (is_type(row, SQLITE_BLOB))
		data = sqlite3_column_blob(row->statement, row->at);
	if (data)
		*bytes = (size_t)sqlite3_column_bytes(row->statement, row->at);
	row->at++;
	return data ? data : nothing;
}

/* A whole number, or, where it takes more than 64 bits, its decimal text. */
__int128 pfw_index_i128(struct pfw_index_row *row)
{
	const char *text;
	size_t bytes, at = 0;
	unsigned __int128 sum = 0;
	bool negative;

	if (sqlite3_column_type(row->statement, row->at) == SQLITE_INTEGER)
		return pfw_index_i64(row);
	text = pfw_index_text(row, &bytes);
	negative = bytes && *text == '-';
	/* 38 digits: all that is sure to fit. */
	if (bytes == negative || bytes - negative > 38)
		row->bad = true;
	for (at = negative; !row->bad && at < bytes; at++) {
		if (text[at] < '0' || text[at] > '9')
			row->bad = true;
		sum = sum * 10 + (unsigned)(text[at] - '0');
	}
	return negative ? -(__int128)sum : (__int128)sum;
}

/* ---- opening ---- */

static uint32_t get_u32(const unsigned char *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Whether the file has another length than its header says: SQLite would take what is missing at the
 * end of its last page for zeroes. */
static bool is_cut(const unsigned char *header, uint64_t bytes)
{
	uint32_t page = (uint32_t)header[PAGE_BYTES_AT] << 8 | header[PAGE_BYTES_AT + 1];

	return bytes != (uint64_t)(page == 1 ? 65536 : page) * get_u32(header + PAGES_AT);
}

/* A look at the file before SQLite is asked: a FIFO must not hang us, nor anything of another kind
 * cost more than one read. */
static int look(const char *path, char *why, size_t size)
{
	unsigned char header[HEADER_BYTES];
	struct stat st;
	ssize_t got = -1;
	int error = 0, fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0 || fstat(fd, &st) < 0) {
		error = -errno;
		snprintf(why, size, "%s", error == -ENOENT ? "no index" : strerror(-error));
	} else if (!S_ISREG(st.st_mode) ||
		   (got = pread(fd, header, sizeof(header), 0)) != (ssize_t)sizeof(header) ||
		   memcmp(header, "SQLite format 3", 16) != 0 ||
		   get_u32(header + APPLICATION_AT) != PFW_INDEX_APPLICATION) {
		error = got < 0 && S_ISREG(st.st_mode) ? -errno : -EBADMSG;
		snprintf(why, size, "not an index of ours");
	} else if (get_u32(header + USER_VERSION_AT) != PFW_INDEX_FORMAT) {
		error = -EBADMSG;
		snprintf(why, size, "of format %u, and this pfw knows %d",
			 get_u32(header + USER_VERSION_AT), PFW_INDEX_FORMAT);
	}
	if (!error && is_cut(header, (uint64_t)st.st_size)) {
		error = -EBADMSG;
		snprintf(why, size, "cut: it has not the length that it should have");
	}
	if (fd >= 0)
		close(fd);
	return error;
}

/* "file:///PATH?mode=ro&immutable=1", to be freed. */
static char *make_uri(const char *path)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789-_./";
	static const char options[] = "?mode=ro&immutable=1";
	char *uri = malloc(strlen(path) * 3 + sizeof("file://") + sizeof(options)), *out = uri;

	if (!uri)
		return NULL;
	/* Two slashes in front of a path would begin the name of a host. */
	out = stpcpy(out, *path == '/' ? "file://" : "file:");
	while (path[0] == '/' && path[1] == '/')
		path++;
	for (; *path; path++) {
		if (strchr(plain, *path))
			*out++ = *path;
		else
			out += sprintf(out, "%%%02X", (unsigned char)*path);
	}
	strcpy(out, options);
	return uri;
}

/* What a file of somebody else's making may not make SQLite do. */
static int restrain(sqlite3 *db)
{
	int result = SQLITE_OK;

	result |= sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	result |= sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	result |= sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	result |= sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, LENGTH_MAX);
	sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
	if (!result)
		result = sqlite3_exec(db, "PRAGMA cell_size_check=1", NULL, NULL, NULL);
	return result ? -EBADMSG : 0;
}

/* The schema is ours to the letter, and nothing else is in it. */
static int check_schema(struct pfw_index *index)
{
	struct pfw_index_row row;
	size_t count = 0;
	int result,
		error = pfw_index_query(index, &row, "SELECT type, name, sql FROM sqlite_schema");

	while (!error && (result = pfw_index_next(&row)) != 0) {
		const struct pfw_index_table *table = &pfw_index_tables[count++];

		if (result < 0 || count > pfw_index_table_count ||
		    strcmp(pfw_index_string(&row, ""), "table") != 0 ||
		    strcmp(pfw_index_string(&row, ""), table->name) != 0 ||
		    strcmp(pfw_index_string(&row, ""), table->sql) != 0)
			error = result < 0 ? result : -EBADMSG;
	}
	sqlite3_finalize(row.statement);
	return error || count == pfw_index_table_count ? error : -EBADMSG;
}

static uint32_t read_u32(struct pfw_index_row *row)
{
	uint64_t value = pfw_index_u64(row);

	if (value > UINT32_MAX)
		row->bad = true;
	return (uint32_t)value;
}

static int take_meta(struct pfw_index *index, struct pfw_index_row *row,
		     struct pfw_index_proof *proof)
{
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
	/* Every block has a byte of the file, or, of a stream, of what it inflates to. */
	if (meta->blocks > (meta->layout == PFW_LAYOUT_STREAM ? UINT32_MAX : meta->trace_bytes) ||
	    proof->first_bytes > PFW_BLOCK_TEXT || proof->last_bytes > PFW_BLOCK_TEXT)
		return -EBADMSG;
	return row->bad ? -EBADMSG : 0;
}

static int read_meta(struct pfw_index *index, struct pfw_index_proof *proof)
{
	struct pfw_index_row row;
	int error = pfw_index_query(index, &row, "SELECT * FROM meta");

	error = error ? error : pfw_index_next(&row);
	error = error == 1 ? take_meta(index, &row, proof) : error ? error : -EBADMSG;
	if (!error && pfw_index_next(&row) != 0)
		error = -EBADMSG;
	sqlite3_finalize(row.statement);
	return error;
}

/* Whether the trace is the one that was indexed. */
static int check_trace(const char *trace, const struct pfw_index_proof *proof)
{
	struct pfw_index_proof now = *proof;
	int error, fd = open(trace, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return -errno;
	error = fstat(fd, &st) < 0 ? -errno : 0;
	if (!error && (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != proof->trace_bytes))
		error = -ESTALE;
	error = error ? error : pfw_index_prove(&now, fd);
	close(fd);
	if (!error && (now.first_crc != proof->first_crc || now.last_crc != proof->last_crc))
		error = -ESTALE;
	return error;
}

static int open_path(struct pfw_index *index, const char *path, const char *trace, char *why,
		     size_t size)
{
	static const int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
	struct pfw_index_proof proof;
	int error = look(path, why, size);
	char *uri;

	if (error)
		return error;
	uri = make_uri(path);
	error = uri ? pfw_index_error(sqlite3_open_v2(uri, &index->db, flags, NULL)) : -ENOMEM;
	free(uri);
	error = error ? error : restrain(index->db);
	error = error ? error : check_schema(index);
	error = error ? error : read_meta(index, &proof);
	if (error) {
		snprintf(why, size, "%s",
			 error == -EBADMSG ? "not an index of ours, or damaged" : strerror(-error));
		return error;
	}
	error = check_trace(trace, &proof);
	if (error)
		snprintf(why, size, "%s",
			 error == -ESTALE ? "of another state of the trace" : strerror(-error));
	return error;
}

int pfw_index_open(struct pfw_index **out, const char *trace, char *why, size_t size)
{
	struct pfw_index *index = calloc(1, sizeof(*index));
	char *path = pfw_index_path(trace, PFW_INDEX_SUFFIX);
	int error = -ENOMEM;

	if (index && path)
		error = open_path(index, path, trace, why, size);
	else
		snprintf(why, size, "%s", strerror(ENOMEM));
	free(path);
	if (error && index)
		pfw_index_close(index);
	else
		*out = index;
	return error;
}

void pfw_index_close(struct pfw_index *index)
{
	sqlite3_close(index->db);
	free(index);
}

const struct pfw_index_meta *pfw_index_meta(const struct pfw_index *index)
{
	return &index->meta;
}
