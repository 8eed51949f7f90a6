/* test_patterns_index.c - how files are used, by way of an index's row; rows that are damaged. */
#include "store/patterns/in_index.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "store/index/db.h"
#include "store/patterns/patterns.h"
#include "store/summary/summary.h"

/* The bytes of a row, for a reader. */
#define ROW(data, bytes) ((struct pfw_varints[]){ pfw_varints(data, bytes) })

#define FILES 50

/* A pread or pwrite of /fNAME, by the kind's own way; summary: it knows the line, or NULL. */
static void add(void *block, uint64_t name, struct pfw_summary *summary)
{
	const struct pfw_summary none = { .fnames = NULL };
	struct pfw_entry entry;
	char line[512];

	snprintf(line, sizeof(line),
		 "{\"id\":2,\"name\":\"%s\",\"cat\":\"POSIX\",\"pid\":1,\"tid\":1,\"ts\":"
		 "1795230878000000.%03u,\"dur\":1.000,\"ph\":\"X\",\"args\":{\"fname\":\"/f%" PRIu64
		 "\",\"fd\":3,\"ret\":%u,\"offset\":%u}}",
		 any_below(2) ? "pread" : "pwrite", (unsigned)any_below(1000), name,
		 (unsigned)any_below(1 << 22), (unsigned)any_below(1 << 30));
	pfw_entry_parse(&entry, line, strlen(line));
	assert_int_equal(entry.kind, PFW_ENTRY_EVENT);
	entry.process = entry.pid;
	if (summary)
		assert_int_equal(pfw_summary_add(summary, &entry), 0);
	assert_int_equal(pfw_patterns_kind.add(block, &entry, summary ? summary : &none), 0);
}

static void fill(void *file, uint64_t files, struct pfw_patterns *same, struct pfw_blob *row)
{
	struct pfw_summary total, summary;

	assert_int_equal(pfw_summary_init(&total), 0);
	assert_int_equal(pfw_summary_init(&summary), 0);
	for (unsigned i = 0; i < 5; i++) {
		void *block = pfw_index_new_block(&pfw_patterns_kind);
		uint64_t kept = random_state;

		for (uint64_t j = 0; j < files; j++)
			add(block, (i * 7 + j) % files, &summary);
		assert_int_equal(pfw_summary_merge(&total, &summary), 0);
		assert_int_equal(pfw_patterns_kind.take(file, block, row), 0);
		pfw_patterns_kind.block_clear(block);
		pfw_summary_clear(&summary);
		random_state = kept;
		for (uint64_t j = 0; j < files && same; j++)
			add(block, (i * 7 + j) % files, NULL);
		if (same)
			assert_int_equal(pfw_patterns_take(same, 0, 3, block), 0);
		pfw_index_free_block(&pfw_patterns_kind, block);
	}
	pfw_summary_release(&total);
	pfw_summary_release(&summary);
	assert_int_equal(row->bytes, 0);
	assert_int_equal(pfw_patterns_kind.end(file, row), 0);
}

static void a_row_has_all(void **unused)
{
	void *file = pfw_index_new_file(&pfw_patterns_kind);
	struct pfw_pattern_counters counters = { 0 };
	struct pfw_patterns same, read;
	struct pfw_blob row = { 0 };

	(void)unused;
	pfw_patterns_init(&same);
	pfw_patterns_init(&read);
	fill(file, FILES, &same, &row);
	assert_int_equal(pfw_patterns_end(&same), 0);
	assert_int_equal(pfw_patterns_read_row(&read, 3, &counters, ROW(row.data, row.bytes)), 0);
	assert_int_equal(read.rows, FILES);
	assert_int_equal(same.rows, FILES);
	assert_memory_equal(read.row, same.row, FILES * sizeof(*read.row));
	/* Cut, or changed: refused, or read as something else, and no more. */
	for (unsigned i = 0; i < 500; i++) {
		size_t bytes = any_below(2) ? row.bytes : any_below(row.bytes);
		uint8_t *copy = malloc(bytes + 1);
		struct pfw_patterns damaged;

		memcpy(copy, row.data, bytes);
		for (uint64_t left = any_below(4); bytes && left; left--)
			copy[any_below(bytes)] = (uint8_t)any_below(256);
		pfw_patterns_init(&damaged);
		pfw_patterns_read_row(&damaged, 0, &counters, ROW(copy, bytes));
		pfw_patterns_release(&damaged);
		free(copy);
	}
	pfw_patterns_release(&same);
	pfw_patterns_release(&read);
	pfw_index_free_file(&pfw_patterns_kind, file);
	pfw_blob_free(&row);
}

static void too_many_files_are_not_kept(void **unused)
{
	void *file = pfw_index_new_file(&pfw_patterns_kind);
	struct pfw_pattern_counters counters = { 0 };
	struct pfw_blob row = { 0 };
	struct pfw_patterns read;

	(void)unused;
	fill(file, 65537, NULL, &row);
	pfw_patterns_init(&read);
	assert_int_equal(pfw_patterns_read_row(&read, 0, &counters, ROW(row.data, row.bytes)),
			 -ENOENT);
	pfw_patterns_release(&read);
	pfw_index_free_file(&pfw_patterns_kind, file);
	pfw_blob_free(&row);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_row_has_all),
		cmocka_unit_test(too_many_files_are_not_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
