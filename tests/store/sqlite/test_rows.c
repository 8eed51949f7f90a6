/* test_rows.c - rows are read as SQLite reads them, and damaged databases within their bytes. */
#include "store/sqlite/rows.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "random.h"

static char path[] = "/tmp/test_rows-XXXXXX";

/* ---- databases ---- */

static sqlite3 *make_database(int page_bytes)
{
	char sql[256];
	sqlite3 *db;

	unlink(path);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	snprintf(sql, sizeof(sql),
		 "PRAGMA page_size=%d; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;"
		 "CREATE TABLE t (id INTEGER PRIMARY KEY, a ANY, b ANY, c ANY) STRICT",
		 page_bytes);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	return db;
}

/* Numbers of all lengths, and texts and blobs up to some pages. */
static void bind_any(sqlite3_stmt *statement, int column, int page_bytes)
{
	static uint8_t bytes[5 * 16384];
	int size = (int)any_below(any_below(4) ? 30 : 5u * (unsigned)page_bytes);

	for (int i = 0; i < size; i++)
		bytes[i] = (uint8_t)any();
	switch (any_below(6)) {
	case 0:
		sqlite3_bind_null(statement, column);
		break;
	case 1:
		sqlite3_bind_double(statement, column, 0.5);
		break;
	case 2:
		sqlite3_bind_text(statement, column, (const char *)bytes, size, SQLITE_TRANSIENT);
		break;
	case 3:
		sqlite3_bind_blob(statement, column, bytes, size, SQLITE_TRANSIENT);
		break;
	default:
		sqlite3_bind_int64(statement, column, (int64_t)any() >> any_below(64));
	}
}

static void fill(sqlite3 *db, unsigned rows, int page_bytes)
{
	sqlite3_stmt *statement;

	sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
	sqlite3_prepare_v2(db, "INSERT OR REPLACE INTO t VALUES (?, ?, ?, ?)", -1, &statement,
			   NULL);
	for (unsigned i = 0; i < rows; i++) {
		sqlite3_bind_int64(statement, 1,
				   any_below(2) ? (int64_t)i : (int64_t)any() >> any_below(64));
		for (int column = 2; column <= 4; column++)
			bind_any(statement, column, page_bytes);
		assert_int_equal(sqlite3_step(statement), SQLITE_DONE);
		sqlite3_reset(statement);
	}
	sqlite3_finalize(statement);
	sqlite3_exec(db, "DELETE FROM t WHERE id % 7 = 3; COMMIT", NULL, NULL, NULL);
}

static int64_t root_of(sqlite3 *db)
{
	sqlite3_stmt *statement;
	int64_t root;

	sqlite3_prepare_v2(db, "SELECT rootpage FROM sqlite_schema", -1, &statement, NULL);
	assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
	root = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return root;
}

static uint8_t *read_file(size_t *bytes)
{
	int fd = open(path, O_RDONLY);
	uint8_t *data;

	*bytes = (size_t)lseek(fd, 0, SEEK_END);
	data = malloc(*bytes);
	assert_int_equal(pread(fd, data, *bytes, 0), (ssize_t)*bytes);
	close(fd);
	return data;
}

/* ---- against SQLite ---- */

static void check_value(struct pfw_sqlite_rows *rows, sqlite3_stmt *statement, int column)
{
	static const int types[] = { SQLITE_NULL, SQLITE_INTEGER, SQLITE_FLOAT, SQLITE_TEXT,
				     SQLITE_BLOB };
	struct pfw_sqlite_value value;
	const void *data = sqlite3_column_blob(statement, column);

	assert_true(pfw_sqlite_value(rows, &value));
	assert_int_equal(types[value.type], sqlite3_column_type(statement, column));
	if (value.type == PFW_SQLITE_INTEGER)
		assert_true(value.integer == sqlite3_column_int64(statement, column));
	if (value.type < PFW_SQLITE_TEXT)
		return;
	assert_int_equal(value.bytes, sqlite3_column_bytes(statement, column));
	if (value.bytes)
		assert_memory_equal(value.data, data, value.bytes);
}

/* Compare at most `most` rows from an id on. */
static void check_rows(struct pfw_sqlite_rows *rows, sqlite3 *db, int64_t first, int most)
{
	struct pfw_sqlite_value value;
	sqlite3_stmt *statement;

	sqlite3_prepare_v2(db, "SELECT * FROM t WHERE id >= ? ORDER BY id", -1, &statement, NULL);
	sqlite3_bind_int64(statement, 1, first);
	assert_int_equal(pfw_sqlite_seek(rows, first), 0);
	while (most-- && sqlite3_step(statement) == SQLITE_ROW) {
		assert_int_equal(pfw_sqlite_next(rows), 1);
		assert_true(rows->id == sqlite3_column_int64(statement, 0));
		assert_true(pfw_sqlite_value(rows, &value));
		assert_int_equal(value.type, PFW_SQLITE_NULL);
		for (int column = 1; column <= 3; column++)
			check_value(rows, statement, column);
		assert_true(pfw_sqlite_value(rows, &value));
		assert_int_equal(value.type, PFW_SQLITE_NULL);
	}
	if (most >= 0)
		assert_int_equal(pfw_sqlite_next(rows), 0);
	sqlite3_finalize(statement);
}

static void check_all(struct pfw_sqlite *file, sqlite3 *db, unsigned count)
{
	struct pfw_sqlite_rows rows = { .db = file, .root = (uint32_t)root_of(db) };
	int64_t last;

	check_rows(&rows, db, INT64_MIN, 1 << 30);
	for (int i = 0; i < 50; i++)
		check_rows(&rows, db,
			   i & 1 ? (int64_t)any_below(count + 2) : (int64_t)any() >> any_below(64),
			   3);
	assert_int_equal(pfw_sqlite_last(&rows, &last), count ? 1 : 0);
	if (count) {
		check_rows(&rows, db, last, 2);
		pfw_sqlite_end(&rows);
		check_rows(&rows, db, last, 2);
	}
	pfw_sqlite_end(&rows);
}

static void test_as_sqlite(void **state)
{
	static const struct {
		int page_bytes;
		unsigned rows;
	} of[] = { { 512, 0 },	   { 512, 1 },	  { 512, 3000 }, { 1024, 40 },
		   { 1024, 2000 }, { 4096, 500 }, { 16384, 300 } };

	(void)state;
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		sqlite3 *db = make_database(of[i].page_bytes);
		struct pfw_sqlite file;
		size_t bytes;
		uint8_t *image;

		fill(db, of[i].rows, of[i].page_bytes);
		image = read_file(&bytes);
		assert_int_equal(pfw_sqlite_open(&file, open(path, O_RDONLY), bytes), 0);
		check_all(&file, db, of[i].rows);
		pfw_sqlite_close(&file);
		assert_int_equal(pfw_sqlite_open_image(&file, image, bytes), 0);
		check_all(&file, db, of[i].rows);
		pfw_sqlite_close(&file);
		sqlite3_close(db);
	}
}

/* ---- damage ---- */

/* Read all that can be read: every id is greater than the one before, so it ends. */
static unsigned read_all(struct pfw_sqlite *file, uint32_t root)
{
	struct pfw_sqlite_rows rows = { .db = file, .root = root };
	struct pfw_sqlite_value value;
	unsigned count = 0;
	uint8_t sum = 0;
	int64_t last;

	if (pfw_sqlite_seek(&rows, INT64_MIN) == 0) {
		while (pfw_sqlite_next(&rows) == 1) {
			for (int i = 0; i < 6 && pfw_sqlite_value(&rows, &value); i++) {
				for (size_t at = 0; at < value.bytes; at++)
					sum ^= value.data[at];
			}
			count++;
		}
	}
	pfw_sqlite_last(&rows, &last);
	pfw_sqlite_end(&rows);
	return count + !sum;
}

static void test_damage(void **state)
{
	sqlite3 *db = make_database(512);
	struct pfw_sqlite file;
	uint8_t *good;
	size_t bytes;
	uint32_t root;

	(void)state;
	fill(db, 300, 512);
	root = (uint32_t)root_of(db);
	sqlite3_close(db);
	good = read_file(&bytes);
	for (unsigned round = 0; round < 4000; round++) {
		uint8_t *image = malloc(bytes);

		memcpy(image, good, bytes);
		for (unsigned i = 0; round && i < 1 + round % 5; i++) {
			/* Heads of pages, and the first of their cells' places, are where it hurts. */
			size_t at = any_below(bytes / 512) * 512 + any_below(i % 2 ? 512 : 20);

			image[at] = any_below(2) ? (uint8_t)any() : (uint8_t)(image[at] ^ 1);
		}
		if (pfw_sqlite_open_image(&file, image, bytes) == 0) {
			/* No leaf gives its rows twice: a place of a cell takes 2 bytes. */
			assert_true(read_all(&file, root) <= bytes / 2);
		}
		pfw_sqlite_close(&file);
	}
	free(good);
}

static void test_no_database(void **state)
{
	uint8_t *image = calloc(1, 512);
	struct pfw_sqlite file;

	(void)state;
	assert_int_equal(pfw_sqlite_open_image(&file, image, 512), -EBADMSG);
	pfw_sqlite_close(&file);
	assert_int_equal(pfw_sqlite_open_image(&file, calloc(1, 50), 50), -EBADMSG);
	pfw_sqlite_close(&file);
	assert_int_equal(pfw_sqlite_open(&file, open("/dev/null", O_RDONLY), 512), -EIO);
	pfw_sqlite_close(&file);
}

static int begin(void **state)
{
	(void)state;
	close(mkstemp(path));
	return 0;
}

static int end(void **state)
{
	(void)state;
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_sqlite),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_no_database),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
