/* store/json/print: templates, commas, escapes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/json/print.h"

static char *text;
static size_t bytes;

static struct pfw_printer begin(void)
{
	free(text);
	return (struct pfw_printer){ .out = open_memstream(&text, &bytes) };
}

static void check(struct pfw_printer *printer, const char *wanted)
{
	assert_int_equal(fclose(printer->out), 0);
	assert_string_equal(text, wanted);
}

static void test_commas(void **state)
{
	struct pfw_printer json = begin();

	(void)state;
	pfw_print(&json, "{'a':%d", -1);
	pfw_print(&json, "\n'b':[");
	pfw_print(&json, "%u", 1u);
	pfw_print(&json, "{}");
	pfw_print(&json, "\n]");
	pfw_print_json(&json, "c", "[2]", 3);
	pfw_print_text(&json, "d", "e\"f", 3);
	pfw_print(&json, "}\n");
	pfw_print(&json, "{'g':null}\n");
	check(&json, "{\"a\":-1,\n\"b\":[1,{}\n],\"c\":[2],\"d\":\"e\\\"f\"}\n{\"g\":null}\n");
}

static void test_values(void **state)
{
	struct pfw_printer json = begin();
	const char *volatile none = NULL;

	(void)state;
	pfw_print(&json, "[%ld,%lu,%zu,%u,%d,%.3f,%.6g", INT64_MIN, UINT64_MAX, SIZE_MAX,
		  UINT32_MAX, INT32_MIN, 1.5, 1e9 / 3);
	pfw_print(&json, "%s,%s,'%s']", "a\n\xff", none, "\\u0041");
	check(&json, "[-9223372036854775808,18446744073709551615,18446744073709551615,4294967295,"
		     "-2147483648,1.500,3.33333e+08,\"a\\n\xef\xbf\xbd\",null,\"\\u0041\"]");
}

/* Texts around the size of what is put together before it goes to the stream. */
static void test_long(void **state)
{
	(void)state;
	for (size_t length = 0; length < 3000; length++) {
		struct pfw_printer json = begin();
		char *name = malloc(length + 1);

		memset(name, 'n', length);
		name[length] = '\0';
		pfw_print(&json, "{'a':%s,'b':'%s'}", name, name);
		pfw_print_text(&json, "c", name, length);
		assert_int_equal(fclose(json.out), 0);
		assert_int_equal(bytes, 3 * length + strlen("{\"a\":\"\",\"b\":\"\"},\"c\":\"\""));
		assert_memory_equal(text + strlen("{\"a\":\""), name, length);
		assert_memory_equal(text + length + strlen("{\"a\":\"\",\"b\":\""), name, length);
		assert_memory_equal(text + bytes - length - 1, name, length);
		free(name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_commas),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_long),
	};
	int status = cmocka_run_group_tests(tests, NULL, NULL);

	free(text);
	return status;
}
