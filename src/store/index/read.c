/* store/index/read.c - opens an index if it is ours and of this trace; see index.h. */
#include <errno.h>
#include <fcntl.h>
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
/* Our longest text or blob: PFW_SUMMARY_TEXT_MAX, or all names of a block. */
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
		   int (*take)(void *user, struct pfw_index_row *row))
{
	struct pfw_index_row row;
	int result = 0, error = pfw_index_query(index, &row, sql);

	while (!error && (result = pfw_index_next(&row)) > 0) {
		error = pfw_index_u64(&row) == row.number && !row.bad ? take(user, &row) : -EBADMSG;
		row.number++;
	}
	sqlite3_finalize(row.statement);
	return error ? error : result;
}

/* The next column if it has that type; else -1, and the row is bad. */
static int next_column(struct pfw_index_row *row, int type)
{
	int at = row->at++;

	if (sqlite3_column_type(row->statement, at) == type)
		return at;
	row->bad = true;
	return -1;
}

int64_t pfw_index_i64(struct pfw_index_row *row)
{
	int at = next_column(row, SQLITE_INTEGER);

	return at < 0 ? 0 : sqlite3_column_int64(row->statement, at);
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
	int at = next_column(row, SQLITE_TEXT);
	const char *text = at < 0 ? NULL : (const char *)sqlite3_column_text(row->statement, at);

	*bytes = text ? (size_t)sqlite3_column_bytes(row->statement, at) : 0;
	if (!text)
		row->bad = true; /* a wrong type, or no memory */
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
	int at = next_column(row, SQLITE_BLOB);
	const uint8_t *data = at < 0 ? NULL : sqlite3_column_blob(row->statement, at);

	*bytes = data ? (size_t)sqlite3_column_bytes(row->statement, at) : 0;
	return data ? data : nothing;
}

/* An integer, or its decimal text if it needs more than 64 bits. */
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
	/* All numbers of 38 digits fit. */
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

/*
 * Whether the length differs from that in the header: SQLite would read a cut last page as zeros.
 */
static bool is_cut(const unsigned char *header, uint64_t bytes)
{
	uint32_t page = (uint32_t)header[PAGE_BYTES_AT] << 8 | header[PAGE_BYTES_AT + 1];

	return bytes != (uint64_t)(page == 1 ? 65536 : page) * get_u32(header + PAGES_AT);
}

/* Read the header of a file of ours.  0, -EBADMSG if it is none, or -errno. */
static int read_header(const char *path, unsigned char header[PFW_INDEX_HEADER], struct stat *st)
{
	int error = 0, fd = pfw_open_file(path, 0, st);
	ssize_t got;

	if (fd < 0)
		return fd == -ENODEV || fd == -EISDIR || fd == -ELOOP ? -EBADMSG : fd;
	got = pread(fd, header, PFW_INDEX_HEADER, 0);
	if (got < 0)
		error = -errno;
	else if (got != PFW_INDEX_HEADER || memcmp(header, "SQLite format 3", 16) != 0 ||
		 get_u32(header + APPLICATION_AT) != PFW_INDEX_APPLICATION)
		error = -EBADMSG;
	close(fd);
	return error;
}

int pfw_index_format_of(const char *path, uint32_t *format, struct stat *st)
{
	unsigned char header[PFW_INDEX_HEADER];
	int error = read_header(path, header, st);

	*format = error ? 0 : get_u32(header + USER_VERSION_AT);
	return error;
}

bool pfw_index_is_one(const char *path)
{
	struct stat st;
	uint32_t format;

	return pfw_index_format_of(path, &format, &st) == 0;
}

int pfw_index_check_header(const unsigned char header[PFW_INDEX_HEADER], uint64_t bytes, char *why,
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

/* Check the file before SQLite opens it.  In a directory where others write, an index may be
 * anybody's: it is believed from whom the trace is believed, too. */
static int look(const char *path, const char *trace, char *why, size_t size)
{
	unsigned char header[PFW_INDEX_HEADER];
	struct stat st, of_trace;
	int error = read_header(path, header, &st);

	if (error) {
		snprintf(why, size, "%s",
			 error == -ENOENT    ? "no index"
			 : error == -EBADMSG ? "not an index of ours"
					     : strerror(-error));
	} else if (stat(trace, &of_trace) == 0 && !pfw_is_trusted(&st, of_trace.st_uid)) {
		error = -EBADMSG;
		snprintf(why, size, "user %u's, neither yours nor the trace's owner's",
			 (unsigned)st.st_uid);
	} else {
		error = pfw_index_check_header(header, (uint64_t)st.st_size, why, size);
	}
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
	/* Two slashes before a path would begin a host name. */
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

/* Restrict what an untrusted file can make SQLite do. */
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

/* Check that the schema is exactly ours. */
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
	meta->untimed = pfw_index_i64(row) != 0;
	/* Every block has at least a byte of the file, or of a stream's inflated text. */
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

int pfw_index_look(struct pfw_index *index, struct pfw_index_proof *proof)
{
	int error = restrain(index->db);

	error = error ? error : check_schema(index);
	return error ? error : read_meta(index, proof);
}

/* Check that the trace is the one that was indexed; `shorter`: and has grown since. */
static int check_trace(const char *trace, const struct pfw_index_proof *proof, bool shorter)
{
	struct pfw_index_proof now = *proof;
	struct stat st;
	int error, fd = pfw_open_file(trace, PFW_OPEN_LINK, &st);

	if (fd < 0)
		return fd;
	if (shorter)
		error = (uint64_t)st.st_size > proof->trace_bytes ? 0 : -ESTALE;
	else
		error = (uint64_t)st.st_size != proof->trace_bytes ? -ESTALE : 0;
	error = error ? error : pfw_index_prove(&now, fd);
	close(fd);
	if (!error && (now.first_crc != proof->first_crc || now.last_crc != proof->last_crc))
		error = -ESTALE;
	return error;
}

static int open_path(struct pfw_index *index, const char *path, const char *trace, bool shorter,
		     char *why, size_t size)
{
	static const int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
	struct pfw_index_proof proof;
	int error = look(path, trace, why, size);
	char *uri;

	if (error)
		return error;
	uri = make_uri(path);
	error = uri ? pfw_index_error(sqlite3_open_v2(uri, &index->db, flags, NULL)) : -ENOMEM;
	free(uri);
	error = error ? error : pfw_index_look(index, &proof);
	if (error) {
		snprintf(why, size, "%s",
			 error == -EBADMSG ? "not an index of ours, or damaged" : strerror(-error));
		return error;
	}
	error = check_trace(trace, &proof, shorter);
	if (error)
		snprintf(why, size, "%s",
			 error == -ESTALE ? "of another state of the trace" : strerror(-error));
	return error;
}

/* Open STEM.idx. */
static int open_at(struct pfw_index **out, const char *stem, const char *trace, bool shorter,
		   char *why, size_t size)
{
	struct pfw_index *index = calloc(1, sizeof(*index));
	char *path = pfw_index_path(stem, PFW_INDEX_SUFFIX);
	int error = -ENOMEM;

	if (index && path)
		error = open_path(index, path, trace, shorter, why, size);
	else
		snprintf(why, size, "%s", strerror(ENOMEM));
	free(path);
	if (error && index)
		pfw_index_close(index);
	else
		*out = index;
	return error;
}

static int open_any(struct pfw_index **out, const char *trace, bool shorter, char *why, size_t size)
{
	int error = open_at(out, trace, trace, shorter, why, size);
	char *stem = error && error != -ENOMEM ? pfw_index_in_cache(trace, false) : NULL;
	char not_there[128];

	/* A message is about the index beside the trace, which the user can see. */
	if (stem && open_at(out, stem, trace, shorter, not_there, sizeof(not_there)) == 0)
		error = *why = 0;
	free(stem);
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

	if (pfw_index_open(&index, trace, why, sizeof(why)))
		return false;
	pfw_index_close(index);
	return true;
}

int pfw_index_open_shorter(struct pfw_index **out, const char *trace)
{
	char why[128];

	return open_any(out, trace, true, why, sizeof(why));
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
