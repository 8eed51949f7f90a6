/* test_lines.c - each of the tracer's own lines, byte for byte: others' scripts parse them. */
#include "common/encode/own_lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NOW_NS 1795230879000000456ull

struct world {
	struct pfw_json json;
	struct pfw_clock_map clock;
	struct pfw_template_chunk *templates;
	struct pfw_string_view strings;
	struct pfw_spool_header header;
	char text[PFW_JSON_LINE_MAX + PFW_JSON_SLACK];
};

static int make_world(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	struct pfw_spool_header *header = &world->header;

	world->templates = calloc(1, sizeof(*world->templates)); /* none are needed */
	world->json = (struct pfw_json){
		.templates = world->templates,
		.strings = &world->strings,
		.clock = &world->clock,
		.pid = 8978,
		.next_id = 3,
		.events = 40,
		.metadata = true,
	};
	pfw_json_init(&world->json, calloc(1, pfw_json_cache_bytes(0)));
	header->pid = 8978;
	header->ppid = 77;
	header->rank = 3;
	header->world_size = 8;
	header->local_rank = 1;
	header->start_ns = 1795230878627639123ull;
	strcpy(header->rank_source, "RANK");
	strcpy(header->boot_id, "0f-1");
	strcpy(header->host, "node1");
	strcpy(header->run, "job.1");
	strcpy(header->clock, "tsc");
	strcpy(header->version_text, "0.1.0");
	strcpy(header->cmd, "python \"a b\".py");
	*state = world;
	return 0;
}

static int free_world(void **state)
{
	struct world *world = *state;

	free(world->json.cache);
	free(world->templates);
	free(world);
	return 0;
}

/* The line must be this text, one id and one line further on. */
static void check(struct world *world, char *end, const char *expected)
{
	*end = '\0';
	assert_string_equal(world->text, expected);
	assert_true(pfw_json_valid(world->text, (size_t)(end - world->text) - 1));
	assert_int_equal(world->json.next_id, 4);
	assert_int_equal(world->json.lines, 1);
	assert_int_equal(world->json.events, 40);
}

static void test_process(void **state)
{
	struct world *world = *state;

	check(world,
	      pfw_line_process(&world->json, world->text, &world->header, "/dev/shm/pfw-1.spool",
			       8978),
	      "{\"id\":3,\"name\":\"process\",\"cat\":\"pfw\",\"pid\":8978,\"tid\":8978,"
	      "\"ts\":1795230878627639.123,\"ph\":\"M\",\"args\":{\"format\":1,"
	      "\"version\":\"0.1.0\",\"run\":\"job.1\",\"host\":\"node1\",\"boot\":\"0f-1\","
	      "\"rank\":3,\"world_size\":8,\"local_rank\":1,\"rank_source\":\"RANK\",\"ppid\":77,"
	      "\"cmd\":\"python \\\"a b\\\".py\",\"start_ts\":1795230878627639.123,"
	      "\"clock\":\"tsc\",\"spool\":\"/dev/shm/pfw-1.spool\"}}\n");
}

static void test_process_without_spool(void **state)
{
	struct world *world = *state;
	char *end = pfw_line_process(&world->json, world->text, &world->header, NULL, 8978);

	*end = '\0';
	assert_null(strstr(world->text, "spool"));
	assert_non_null(strstr(world->text, "\"clock\":\"tsc\"}}\n"));
}

/* Members that fill their room to the last byte have no NUL. */
static void test_process_full_members(void **state)
{
	struct world *world = *state;
	struct pfw_spool_header *header = &world->header;
	char *end;

	memset(header->rank_source, 'r', sizeof(header->rank_source));
	memset(header->boot_id, 'b', sizeof(header->boot_id));
	memset(header->host, 'h', sizeof(header->host));
	memset(header->run, 'u', sizeof(header->run));
	memset(header->clock, 'c', sizeof(header->clock));
	memset(header->version_text, 'v', sizeof(header->version_text));
	memset(header->cmd, '\xff', sizeof(header->cmd));
	end = pfw_line_process(&world->json, world->text, header, NULL, 1);
	assert_true(pfw_json_valid(world->text, (size_t)(end - world->text) - 1));
	*end = '\0';
	assert_non_null(strstr(world->text, "\"clock\":\"cccccccccccccccc\"}}\n"));
}

static void test_thread_name(void **state)
{
	struct world *world = *state;

	check(world,
	      pfw_line_thread_name(&world->json, world->text, 8979, "sixteen-bytes-xyjunk", NOW_NS),
	      "{\"id\":3,\"name\":\"thread_name\",\"cat\":\"pfw\",\"pid\":8978,\"tid\":8979,"
	      "\"ts\":1795230879000000.456,\"ph\":\"M\",\"args\":{\"name\":\"sixteen-bytes-xy\"}}\n");
}

static void test_rank(void **state)
{
	struct world *world = *state;

	check(world, pfw_line_rank(&world->json, world->text, &world->header, NOW_NS),
	      "{\"id\":3,\"name\":\"rank\",\"cat\":\"pfw\",\"pid\":8978,\"tid\":8978,"
	      "\"ts\":1795230879000000.456,\"ph\":\"M\",\"args\":{\"rank\":3,\"world_size\":8,"
	      "\"local_rank\":1,\"rank_source\":\"RANK\"}}\n");
}

static void test_lost(void **state)
{
	struct world *world = *state;
	struct pfw_loss loss = { .count = 5, .first_ns = NOW_NS - 1000, .last_ns = NOW_NS };

	check(world, pfw_line_lost(&world->json, world->text, PFW_LOST_WRITE, &loss, NOW_NS),
	      "{\"id\":3,\"name\":\"lost\",\"cat\":\"pfw\",\"pid\":8978,\"tid\":8978,"
	      "\"ts\":1795230879000000.456,\"ph\":\"M\",\"args\":{\"reason\":\"write_error\","
	      "\"count\":5,\"first_ts\":1795230878999999.456,\"last_ts\":1795230879000000.456}}\n");
}

static void test_lost_names(void **state)
{
	static const char *const names[] = PFW_LOST_NAMES;
	struct world *world = *state;
	struct pfw_loss loss = { .count = 1 };
	char wanted[64], *end;

	for (unsigned i = 0; i <= PFW_LOST_REASONS; i++) {
		end = pfw_line_lost(&world->json, world->text, i, &loss, NOW_NS);
		*end = '\0';
		snprintf(wanted, sizeof(wanted), "{\"reason\":\"%s\",",
			 i < PFW_LOST_REASONS ? names[i] : "unknown");
		assert_non_null(strstr(world->text, wanted));
	}
}

static void test_waited(void **state)
{
	struct world *world = *state;
	struct pfw_loss waited = { .count = 7, .last_ns = 1234567 };

	check(world, pfw_line_waited(&world->json, world->text, &waited, NOW_NS),
	      "{\"id\":3,\"name\":\"waited\",\"cat\":\"pfw\",\"pid\":8978,\"tid\":8978,"
	      "\"ts\":1795230879000000.456,\"ph\":\"M\",\"args\":{\"count\":7,"
	      "\"total\":1234.567}}\n");
}

static void test_mapping(void **state)
{
	struct world *world = *state;

	check(world, pfw_line_mapping(&world->json, world->text, 0, 8192, 4097, NOW_NS),
	      "{\"id\":3,\"name\":\"mapping\",\"cat\":\"pfw\",\"pid\":8978,\"tid\":8978,"
	      "\"ts\":1795230879000000.456,\"ph\":\"M\",\"args\":{\"fname\":null,\"size\":8192,"
	      "\"touched\":4096}}\n");
	world->json.next_id = 3;
	world->json.lines = 0;
	check(world, pfw_line_mapping(&world->json, world->text, 0, 8192, 0, NOW_NS),
	      "{\"id\":3,\"name\":\"mapping\",\"cat\":\"pfw\",\"pid\":8978,\"tid\":8978,"
	      "\"ts\":1795230879000000.456,\"ph\":\"M\",\"args\":{\"fname\":null,\"size\":8192}}\n");
}

static void test_excluded(void **state)
{
	struct world *world = *state;

	world->header.excluded[PFW_EXCLUDED_SYSTEM] = 12;
	world->header.excluded[PFW_EXCLUDED_TRACE] = 1;
	check(world, pfw_line_excluded(&world->json, world->text, world->header.excluded, NOW_NS),
	      "{\"id\":3,\"name\":\"excluded\",\"cat\":\"pfw\",\"pid\":8978,\"tid\":8978,"
	      "\"ts\":1795230879000000.456,\"ph\":\"M\",\"args\":{\"system\":12,\"trace\":1}}\n");
}

static void test_unrecorded(void **state)
{
	struct world *world = *state;

	world->header.unrecorded[PFW_UNRECORDED_OPERATIONS] = 1000;
	world->header.unrecorded[PFW_UNRECORDED_CONTEXTS] = 2;
	world->header.unrecorded[PFW_UNRECORDED_EARLY] = 40;
	check(world,
	      pfw_line_unrecorded(&world->json, world->text, world->header.unrecorded, NOW_NS),
	      "{\"id\":3,\"name\":\"unrecorded\",\"cat\":\"pfw\",\"pid\":8978,\"tid\":8978,"
	      "\"ts\":1795230879000000.456,\"ph\":\"M\","
	      "\"args\":{\"io_uring_operations\":1000,\"aio_contexts\":2,\"early_calls\":40}}\n");
}

static void test_clock_step(void **state)
{
	struct world *world = *state;

	check(world, pfw_line_clock_step(&world->json, world->text, NOW_NS + 500, NOW_NS),
	      "{\"id\":3,\"name\":\"clock_step\",\"cat\":\"pfw\",\"pid\":8978,\"tid\":8978,"
	      "\"ts\":1795230879000000.456,\"ph\":\"M\",\"args\":{"
	      "\"from\":1795230879000000.956,\"to\":1795230879000000.456}}\n");
}

static void test_end(void **state)
{
	struct world *world = *state;

	world->header.lost[PFW_LOST_FULL].count = 4;
	world->header.lost[PFW_LOST_TORN].count = 2;
	world->json.events = 40;
	check(world,
	      pfw_line_end(&world->json, world->text, &world->header, "exec", "/bin/true", NOW_NS),
	      "{\"id\":3,\"name\":\"end\",\"cat\":\"pfw\",\"pid\":8978,\"tid\":8978,"
	      "\"ts\":1795230879000000.456,\"ph\":\"M\",\"args\":{\"events\":40,\"lost\":6,"
	      "\"reason\":\"exec\",\"exec\":\"/bin/true\"}}\n");
}

static void test_end_plain(void **state)
{
	struct world *world = *state;
	char *end =
		pfw_line_end(&world->json, world->text, &world->header, "recovered", NULL, NOW_NS);

	*end = '\0';
	assert_non_null(
		strstr(world->text, "{\"events\":40,\"lost\":0,\"reason\":\"recovered\"}}\n"));
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, make_world, free_world)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(test_process),
		WORLD_TEST(test_process_without_spool),
		WORLD_TEST(test_process_full_members),
		WORLD_TEST(test_thread_name),
		WORLD_TEST(test_rank),
		WORLD_TEST(test_lost),
		WORLD_TEST(test_lost_names),
		WORLD_TEST(test_waited),
		WORLD_TEST(test_mapping),
		WORLD_TEST(test_excluded),
		WORLD_TEST(test_unrecorded),
		WORLD_TEST(test_clock_step),
		WORLD_TEST(test_end),
		WORLD_TEST(test_end_plain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
