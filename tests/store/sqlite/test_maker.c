/* test_maker.c - SQLite reads the rows that were put into a database, and finds nothing wrong. */
#include "store/sqlite/maker.h"

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

#define TABLES 3
#define APPLICATION 0x12345678
#define VERSION 7

static char path[] = "/tmp/test_maker-XXXXXX";
static uint8_t content[5 * 32768];

static const struct pfw_sqlite_schema short_schema[TABLES] = {
	{ "a", "CREATE TABLE a (id INTEGER PRIMARY KEY, x ANY, y ANY, z ANY) STRICT" },
	{ "b", "CREATE TABLE b (id INTEGER PRIMARY KEY, x ANY, y ANY, z ANY) STRICT" },
	{ "c", "CREATE TABLE c (id INTEGER PRIMARY KEY, x ANY, y ANY, z ANY) STRICT" },
};

/* ---- making ---- */

struct made {
	struct pfw_sqlite_maker maker;
	struct pfw_sqlite_table table[TABLES];
	sqlite3 *expected; /* the same rows, put by SQLite */
};

static void begin(struct made *made, uint32_t page_bytes, int fd)
{
	*made = (struct made){ .maker = { .fd = fd, .page_bytes = page_bytes } };
	for (size_t i = 0; i < TABLES; i++)
		made->table[i].maker = &made->maker;
	assert_int_equal(sqlite3_open(":memory:", &made->expected), SQLITE_OK);
	for (size_t i = 0; i < TABLES; i++)
		assert_int_equal(sqlite3_exec(made->expected, short_schema[i].sql, NULL, NULL,
					      NULL),
				 SQLITE_OK);
}

static void end(struct made *made)
{
	for (size_t i = 0; i < TABLES; i++)
		pfw_sqlite_release_table(&made->table[i]);
	pfw_sqlite_release_maker(&made->maker);
	free(made->maker.image);
	sqlite3_close(made->expected);
}

/* Numbers of all lengths, and texts and blobs up to some pages. */
static struct pfw_sqlite_value any_value(uint32_t page_bytes)
{
	struct pfw_sqlite_value value = { .type = PFW_SQLITE_NULL };
	uint64_t size = any_below(any_below(4) ? 30 : 4 * page_bytes);

	switch (any_below(6)) {
	case 0:
		break;
	case 1:
	case 2:
		value.type = any_below(2) ? PFW_SQLITE_TEXT : PFW_SQLITE_BLOB;
		value.data = content + any_below(page_bytes);
		value.bytes = size;
		break;
	case 3:
		value.type = PFW_SQLITE_INTEGER;
		value.integer = (int64_t)any_below(5) - 2;
		break;
	case 4: /* at a border */
		value.type = PFW_SQLITE_INTEGER;
		value.integer = (int64_t)((1ull << any_below(64)) - any_below(3));
		break;
	default:
		value.type = PFW_SQLITE_INTEGER;
		value.integer = (int64_t)any() >> any_below(64);
	}
	return value;
}

static void expect_row(struct made *made, size_t table, int64_t id,
		       const struct pfw_sqlite_value value[4])
{
	sqlite3_stmt *statement;
	char sql[64];

	snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES (?, ?, ?, ?)", short_schema[table].name);
	sqlite3_prepare_v2(made->expected, sql, -1, &statement, NULL);
	sqlite3_bind_int64(statement, 1, id);
	for (int i = 1; i < 4; i++) {
		int bytes = (int)value[i].bytes;
		const void *data = value[i].data;

		if (value[i].type == PFW_SQLITE_INTEGER)
			sqlite3_bind_int64(statement, i + 1, value[i].integer);
		else if (value[i].type == PFW_SQLITE_TEXT)
			sqlite3_bind_text(statement, i + 1, data, bytes, SQLITE_STATIC);
		else if (value[i].type == PFW_SQLITE_BLOB)
			sqlite3_bind_blob(statement, i + 1, data, bytes, SQLITE_STATIC);
	}
	assert_int_equal(sqlite3_step(statement), SQLITE_DONE);
	sqlite3_finalize(statement);
}

/* Put rows into tables in turn; the last table stays empty. */
static void fill(struct made *made, unsigned rows)
{
	int64_t id[TABLES] = { any_below(2) ? INT64_MIN : 0, -5 };

	sqlite3_exec(made->expected, "BEGIN", NULL, NULL, NULL);
	for (unsigned i = 0; i < rows; i++) {
		size_t table = any_below(TABLES - 1);
		struct pfw_sqlite_value value[4] = { 0 };

		for (size_t j = 1; j < 4; j++)
			value[j] = any_value(made->maker.page_bytes);
		assert_int_equal(pfw_sqlite_add(&made->table[table], id[table], value, 4), 0);
		expect_row(made, table, id[table], value);
		id[table] += 1 + (int64_t)any_below(any_below(9) ? 2 : 1u << 30);
	}
	sqlite3_exec(made->expected, "COMMIT", NULL, NULL, NULL);
}

static int finish(struct made *made, const struct pfw_sqlite_schema *schema)
{
	return pfw_sqlite_finish(&made->maker, made->table, schema, TABLES, APPLICATION, VERSION);
}

/* ---- against SQLite ---- */

static void expect(sqlite3 *db, const char *sql, const char *text)
{
	sqlite3_stmt *statement;

	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
	assert_string_equal(sqlite3_column_text(statement, 0), text);
	sqlite3_finalize(statement);
}

/* Both databases have the same rows of a table. */
static void check_table(sqlite3 *is, sqlite3 *should, const char *table)
{
	sqlite3_stmt *a, *b;
	char sql[64];
	int result;

	snprintf(sql, sizeof(sql), "SELECT id, x, y, z FROM %s ORDER BY id", table);
	assert_int_equal(sqlite3_prepare_v2(is, sql, -1, &a, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(should, sql, -1, &b, NULL), SQLITE_OK);
	do {
		result = sqlite3_step(b);
		assert_int_equal(sqlite3_step(a), result);
		for (int i = 0; i < 4 && result == SQLITE_ROW; i++) {
			assert_int_equal(sqlite3_column_type(a, i), sqlite3_column_type(b, i));
			assert_int_equal(sqlite3_column_bytes(a, i), sqlite3_column_bytes(b, i));
			if (sqlite3_column_bytes(b, i))
				assert_memory_equal(sqlite3_column_blob(a, i),
						    sqlite3_column_blob(b, i),
						    (size_t)sqlite3_column_bytes(b, i));
		}
	} while (result == SQLITE_ROW);
	assert_int_equal(result, SQLITE_DONE);
	sqlite3_finalize(a);
	sqlite3_finalize(b);
}

/* SQLite finds the rows of the file, also by id, and can go on from them. */
static void check_file(const struct made *made)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	expect(db, "PRAGMA integrity_check", "ok");
	expect(db, "PRAGMA application_id", "305419896");
	expect(db, "PRAGMA user_version", "7");
	for (size_t i = 0; i < TABLES; i++)
		check_table(db, made->expected, short_schema[i].name);
	assert_int_equal(
		sqlite3_exec(db, "DELETE FROM a WHERE id % 3 = 1; INSERT INTO c SELECT * FROM b",
			     NULL, NULL, NULL),
		SQLITE_OK);
	expect(db, "PRAGMA integrity_check", "ok");
	sqlite3_close(db);
}

static int open_file(void)
{
	int fd = open(path, O_RDWR | O_TRUNC | O_CREAT, 0600);

	assert_true(fd >= 0);
	return fd;
}

static void test_sqlite_reads_what_was_put(void **state)
{
	static const unsigned rows[] = { 0, 1, 2, 10, 300, 3000 };

	(void)state;
	for (uint32_t page_bytes = 512; page_bytes <= 32768; page_bytes *= 2) {
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			struct made made;

			begin(&made, page_bytes, open_file());
			/* Small pages make deep trees. */
			fill(&made, page_bytes > 1024 && rows[i] > 300 ? 600 : rows[i]);
			assert_int_equal(finish(&made, short_schema), 0);
			close(made.maker.fd);
			check_file(&made);
			end(&made);
		}
	}
}

static void test_trees_of_all_sizes(void **state)
{
	const struct pfw_sqlite_value value[4] = { { .type = PFW_SQLITE_NULL } };

	(void)state;
	/* Leaves of 512 bytes have some 50 rows, and inner pages 60 leaves. */
	for (unsigned rows = 0; rows < 12000; rows += 1 + rows / 90) {
		struct made made;
		sqlite3 *db;
		char count[16];

		begin(&made, 512, open_file());
		for (unsigned i = 0; i < rows; i++)
			assert_int_equal(pfw_sqlite_add(&made.table[1], i, value, 4), 0);
		assert_int_equal(finish(&made, short_schema), 0);
		close(made.maker.fd);
		assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
		expect(db, "PRAGMA integrity_check", "ok");
		snprintf(count, sizeof(count), "%u", rows);
		expect(db, "SELECT count(*) FROM b", count);
		sqlite3_close(db);
		end(&made);
	}
}

/* The first page has the header, too. */
static void test_schemas_of_all_lengths(void **state)
{
	static char sql[TABLES][900];
	struct pfw_sqlite_schema schema[TABLES];

	(void)state;
	for (int more = 0; more < 800; more += 7) {
		struct made made;

		for (size_t i = 0; i < TABLES; i++) {
			snprintf(
				sql[i], sizeof(sql[i]),
				"CREATE TABLE %s (id INTEGER PRIMARY KEY, x ANY, y ANY, z%*s ANY) STRICT",
				short_schema[i].name, more, "");
			schema[i] = (struct pfw_sqlite_schema){ short_schema[i].name, sql[i] };
		}
		begin(&made, 512, open_file());
		fill(&made, 20);
		assert_int_equal(finish(&made, schema), 0);
		close(made.maker.fd);
		check_file(&made);
		end(&made);
	}
}

static void test_an_image_is_the_file(void **state)
{
	const struct pfw_sqlite_value value[2] = {
		{ .type = PFW_SQLITE_NULL },
		{ .type = PFW_SQLITE_BLOB, .data = content, .bytes = sizeof(content) },
	};
	static uint8_t file[40 * sizeof(content)];
	struct made disk, memory;

	(void)state;
	begin(&disk, 1024, open_file());
	begin(&memory, 1024, -1);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(pfw_sqlite_add(&disk.table[i % 2], i, value, 1 + i % 2), 0);
		assert_int_equal(pfw_sqlite_add(&memory.table[i % 2], i, value, 1 + i % 2), 0);
	}
	assert_int_equal(finish(&disk, short_schema), 0);
	assert_int_equal(finish(&memory, short_schema), 0);
	assert_int_equal(pread(disk.maker.fd, file, sizeof(file), 0), 1024 * memory.maker.pages);
	assert_memory_equal(file, memory.maker.image, 1024 * memory.maker.pages);
	close(disk.maker.fd);
	end(&disk);
	end(&memory);
}

/* Pages on both sides of the byte that SQLite locks: the file has a hole in front of them. */
static void test_a_gigabyte(void **state)
{
	struct made made;
	sqlite3 *db;

	(void)state;
	begin(&made, 4096, open_file());
	made.maker.pages = (1 << 30) / 4096 - 40;
	fill(&made, 200);
	assert_int_equal(finish(&made, short_schema), 0);
	close(made.maker.fd);
	assert_true(made.maker.pages > (1 << 30) / 4096 + 40);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	for (size_t i = 0; i < TABLES; i++)
		check_table(db, made.expected, short_schema[i].name);
	sqlite3_close(db);
	end(&made);
}

static void test_rows_that_are_refused(void **state)
{
	struct pfw_sqlite_value value[PFW_SQLITE_COLUMNS + 1] = { { .type = PFW_SQLITE_NULL } };
	struct made made;

	(void)state;
	begin(&made, 1024, -1);
	assert_int_equal(pfw_sqlite_add(&made.table[0], 5, value, PFW_SQLITE_COLUMNS + 1), -EINVAL);
	assert_int_equal(pfw_sqlite_add(&made.table[0], 5, value, PFW_SQLITE_COLUMNS), 0);
	assert_int_equal(pfw_sqlite_add(&made.table[0], 5, value, 1), -EINVAL);
	assert_int_equal(pfw_sqlite_add(&made.table[0], 4, value, 1), -EINVAL);
	assert_int_equal(pfw_sqlite_add(&made.table[1], 4, value, 1), 0);
	value[0].type = PFW_SQLITE_REAL;
	assert_int_equal(pfw_sqlite_add(&made.table[0], 6, value, 1), -EINVAL);
	end(&made);
}

static void test_a_full_disk(void **state)
{
	struct made made;

	(void)state;
	begin(&made, 1024, open("/dev/full", O_WRONLY));
	assert_int_equal(finish(&made, short_schema), -ENOSPC);
	close(made.maker.fd);
	end(&made);
}

static int group_setup(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	for (size_t i = 0; i < sizeof(content); i++)
		content[i] = (uint8_t)('a' + any_below(26));
	return fd < 0 ? -1 : close(fd);
}

static int group_teardown(void **state)
{
	(void)state;
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sqlite_reads_what_was_put),
		cmocka_unit_test(test_trees_of_all_sizes),
		cmocka_unit_test(test_schemas_of_all_lengths),
		cmocka_unit_test(test_an_image_is_the_file),
		cmocka_unit_test(test_a_gigabyte),
		cmocka_unit_test(test_rows_that_are_refused),
		cmocka_unit_test(test_a_full_disk),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
