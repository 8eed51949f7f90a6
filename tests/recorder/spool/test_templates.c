/* test_templates.c - the templates in the spool agree with the table of calls. */
#include "recorder/spool/templates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "common/calls/table.h"
#include "common/format/spool.h"

static void every_call_has_its_template(void **state)
{
	size_t bytes = pfw_templates_bytes(), calls;
	const struct pfw_template_chunk *chunk = pfw_templates_make();
	const struct pfw_call_info *call = pfw_calls_info(&calls);

	(void)state;
	assert_non_null(chunk);
	assert_true(calls > 50);
	assert_int_equal(chunk->template_count, calls + 3);
	assert_int_equal(bytes, sizeof(*chunk) + (calls + 3) * sizeof(struct pfw_template));
	for (size_t i = 0; i < calls; i++) {
		const struct pfw_template *template = &chunk->template[i];

		/* An array that its text fills has no end. */
		assert_true(memchr(call[i].name, 0, sizeof(call[i].name)));
		assert_true(memchr(call[i].canonical, 0, sizeof(call[i].canonical)));
		assert_true(memchr(call[i].category, 0, sizeof(call[i].category)));
		assert_string_equal(template->name, call[i].canonical);
		assert_string_equal(template->category, call[i].category);
		assert_int_equal(template->shape, PFW_SHAPE_CALL);
		assert_int_equal(template->field_count, call[i].has_fd + call[i].field_count);
		assert_true(template->field_count <= PFW_TEMPLATE_FIELDS);
		if (call[i].has_fd)
			assert_int_equal(template->field[0], 0);
		for (unsigned f = 0; f < call[i].field_count; f++) {
			const struct pfw_key *key =
				&chunk->key[template->field[f + call[i].has_fd]];

			assert_true(memchr(key->name, 0, sizeof(key->name)));
			assert_string_equal(key->name, call[i].field[f].key);
			assert_int_equal(key->type, call[i].field[f].type);
		}
	}
}

static void keys_are_each_there_once(void **state)
{
	const struct pfw_template_chunk *chunk = pfw_templates_make();

	(void)state;
	assert_true(chunk->key_count > 5 && chunk->key_count <= PFW_KEYS_MAX);
	assert_string_equal(chunk->key[0].name, "fd");
	assert_int_equal(chunk->key[0].type, PFW_TYPE_I64);
	for (unsigned i = 0; i < chunk->key_count; i++)
		for (unsigned k = 0; k < i; k++)
			assert_true(strcmp(chunk->key[i].name, chunk->key[k].name) ||
				    chunk->key[i].type != chunk->key[k].type);
}

static void the_others_stand_behind_the_calls(void **state)
{
	const struct pfw_template_chunk *chunk = pfw_templates_make();
	struct pfw_template_ids ids = pfw_templates_ids();

	(void)state;
	assert_int_equal(ids.api, chunk->template_count - 3);
	assert_int_equal(ids.pp, chunk->template_count - 2);
	assert_int_equal(ids.untraced, chunk->template_count - 1);
	assert_int_equal(chunk->template[ids.api].shape, PFW_SHAPE_API);
	assert_int_equal(chunk->template[ids.pp].shape, PFW_SHAPE_PP);
	assert_int_equal(chunk->template[ids.untraced].shape, PFW_SHAPE_UNTRACED);
	assert_string_equal(chunk->template[ids.pp].category, "PP");
	assert_ptr_equal(pfw_templates_make(), chunk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_call_has_its_template),
		cmocka_unit_test(keys_are_each_there_once),
		cmocka_unit_test(the_others_stand_behind_the_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
