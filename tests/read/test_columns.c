/* read/columns: every arg of a compute event has a column, of a kind that holds its values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/format/record.h"
#include "read/columns.h"

static struct pfw_read_columns all(void)
{
	struct pfw_read_columns columns;
	char why[100];

	assert_int_equal(pfw_read_columns_parse(&columns, NULL, why, sizeof(why)), 0);
	assert_int_equal(columns.count, PFW_READ_COLUMNS);
	return columns;
}

static void test_compute_events(void **state)
{
	enum {
		KIND_I64 = PFW_READ_INT,
		KIND_U64 = PFW_READ_INT,
		KIND_F64 = PFW_READ_REAL,
		KIND_STRING = PFW_READ_TEXT,
		KIND_KIND = PFW_READ_TEXT,
		KIND_JSON = PFW_READ_LIST,
		KIND_DIM3 = PFW_READ_DIM3
	};
	static const struct {
		const char *key;
		int kind;
	} fields[] = {
#define X(name, type) { #name, KIND_##type },
		PFW_PP_FIELDS(X)
#undef X
	};
	const struct pfw_read_columns columns = all();

	(void)state;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		int found = pfw_read_columns_find(&columns, fields[i].key, strlen(fields[i].key));

		if (found < 0 || pfw_read_known[found].kind != fields[i].kind)
			fail_msg(
				"args.%s has no column in src/read/columns.def, or of another kind",
				fields[i].key);
	}
}

static void test_keys(void **state)
{
	const struct pfw_read_columns columns = all();
	char key[256];

	(void)state;
	for (unsigned i = 0; i < PFW_READ_COLUMNS; i++) {
		const struct pfw_read_known *known = &pfw_read_known[i];
		size_t bytes = known->key_bytes;

		if (!known->key)
			continue;
		assert_int_equal(pfw_read_columns_find(&columns, known->key, bytes), (int)i);
		/* Neither its begin, nor one that is longer, nor one that differs somewhere. */
		assert_int_not_equal(pfw_read_columns_find(&columns, known->key, bytes - 1),
				     (int)i);
		memcpy(key, known->key, bytes);
		key[bytes] = 'x';
		assert_int_not_equal(pfw_read_columns_find(&columns, key, bytes + 1), (int)i);
		for (size_t at = 0; at < bytes; at++) {
			key[at] ^= 1;
			assert_int_not_equal(pfw_read_columns_find(&columns, key, bytes), (int)i);
			key[at] ^= 1;
		}
	}
	memset(key, 'z', sizeof(key));
	assert_int_equal(pfw_read_columns_find(&columns, key, sizeof(key)), -1);
	assert_int_equal(pfw_read_columns_find(&columns, key, 0), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_compute_events),
		cmocka_unit_test(test_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
