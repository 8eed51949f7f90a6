/* test_cupti_decode.c - records of the kinds that CUPTI's stand-in does not give, and occupancy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "json_world.h"
#include "recorder/gpu_records/buffers.h"
#include "recorder/gpu_records/decode.h"
#include "recorder/gpu_records/lib.h"
#include "recorder/gpu_records/occupancy.h"
#include "recorder/spool/strings.h"

static struct world world;

static int set_up(void **state)
{
	static char segment[PFW_STRING_SEGMENT_BYTES] __attribute__((aligned(4096)));

	(void)state;
	memset(segment, 0, sizeof(segment));
	world_open(&world);
	pfw_strings_reset();
	pfw_strings_add_segment(segment, 0, PFW_STRING_SEGMENT_BYTES);
	world.json.strings = pfw_strings_view();
	pfw_cupti_decoding.template = WORLD_PP;
	pfw_cupti_lib.version = PFW_CUPTI_13_0;
	pfw_cupti_lib.device_count = 1;
	pfw_cupti_lib.device[0] = (struct pfw_cuda_device){ .sms = 132,
							    .threads = 2048,
							    .major = 9,
							    .smem = 233472,
							    .registers = 65536,
							    .blocks = 32,
							    .reserved_smem = 1024 };
	return pfw_cupti_buffers_init(false);
}

static int tear_down(void **state)
{
	(void)state;
	world_close(&world);
	return 0;
}

/* The line that a record makes, without what comes before its args; NULL: none. */
static const char *args_of(const void *record)
{
	const struct pfw_record *made;
	unsigned slots;
	char *end, *args, *line;

	made = pfw_cupti_decode(record, &slots);
	if (!made)
		return NULL;
	end = pfw_json_record(&world.json, world.line, made, made + 1, (slots - 1) * PFW_SLOT_BYTES,
			      WORLD_TID);
	assert_non_null(end);
	*end = '\0';
	/* Before a lane's first event comes the line that names it. */
	line = strstr(world.line, "\"cat\":\"PP\"");
	assert_non_null(line);
	args = strstr(line, "\"args\":");
	assert_non_null(args);
	return args;
}

static void assert_has(const char *part)
{
	if (!strstr(world.line, part))
		fail_msg("no %s in %s", part, world.line);
}

#define START 1763700000000001000ull

static void test_graph(void **state)
{
	const struct pfw_cupti_graph graph = { .kind = PFW_CUPTI_KIND_GRAPH,
					       .correlation = 9,
					       .start = START,
					       .end = START + 2500,
					       .device = 1,
					       .graph = 5,
					       .context = 2,
					       .stream = 13 };

	(void)state;
	assert_string_equal(
		args_of(&graph),
		"\"args\":{\"kind\":\"kernel\",\"device\":1,\"device_index\":1,\"context\":2,"
		"\"stream\":13,\"correlation\":9,\"graph\":5}}\n");
	assert_has("\"tid\":20002013,");
	assert_has("\"name\":\"CUDA graph\"");
	assert_has("\"dur\":2.500");
	assert_has("\"name\":\"GPU 1 stream 13\"");
}

static void test_jit_overhead_and_pools(void **state)
{
	const struct pfw_cupti_jit jit = { .kind = PFW_CUPTI_KIND_JIT,
					   .operation = 3,
					   .start = START,
					   .end = START + 1000,
					   .cache_bytes = 77 };
	const struct pfw_cupti_overhead overhead = { .kind = PFW_CUPTI_KIND_OVERHEAD,
						     .overhead = 5 << 16,
						     .object_kind = 2,
						     .object = { 1, 4321, 0 },
						     .start = START,
						     .end = START + 1000 };
	const struct pfw_cupti_pool pool = { .kind = PFW_CUPTI_KIND_MEMORY_POOL,
					     .operation = 3,
					     .device = 1,
					     .address = 4096,
					     .bytes = 1 << 20,
					     .timestamp = START };

	(void)state;
	assert_string_equal(args_of(&jit), "\"args\":{\"kind\":\"overhead\",\"device\":0,"
					   "\"device_index\":-1,\"bytes\":77}}\n");
	assert_has("\"name\":\"JIT Compile\"");
	assert_string_equal(args_of(&overhead), "\"args\":{\"kind\":\"overhead\",\"device\":0,"
						"\"device_index\":-1}}\n");
	assert_has("\"name\":\"Lazy Function Loading\"");
	assert_has("\"tid\":4321");
	assert_string_equal(args_of(&pool),
			    "\"args\":{\"kind\":\"memory\",\"device\":1,\"device_index\":1,"
			    "\"correlation\":0,\"bytes\":1048576,"
			    "\"addr\":4096}}\n");
	assert_has("\"name\":\"Memory Pool Trimmed\"");
	assert_has("\"ph\":\"i\"");
}

/* CUPTI names a device for pinned memory, too, which is the host's. */
static void test_memory_of_the_host(void **state)
{
	struct pfw_cupti_memory memory = { .kind = PFW_CUPTI_KIND_MEMORY,
					   .operation = PFW_CUPTI_ALLOCATION,
					   .memory_kind = 3,
					   .device = 1,
					   .bytes = 4096,
					   .timestamp = START };

	(void)state;
	assert_non_null(strstr(args_of(&memory), "\"device\":1,\"device_index\":1,"));
	memory.memory_kind = PFW_CUPTI_MEMORY_PINNED;
	assert_non_null(strstr(args_of(&memory), "\"device\":0,\"device_index\":-1,"));
	assert_has("\"dst_kind\":\"pinned\"");
}

static void test_numbers_of_a_later_version(void **state)
{
	const uint32_t unknown[16] = { 200 };
	struct pfw_cupti_memcpy copy = { .kind = PFW_CUPTI_KIND_MEMCPY,
					 .copy_kind = 99,
					 .src_kind = 200,
					 .dst_kind = 3,
					 .bytes = 8,
					 .start = START,
					 .end = START };
	struct pfw_cupti_sync sync = { .kind = PFW_CUPTI_KIND_SYNC,
				       .type = 77,
				       .start = START,
				       .end = START + 1,
				       .stream = ~0u,
				       .event = ~0u };
	uint64_t before = atomic_load(&pfw_cupti_figures.unknown);

	(void)state;
	assert_null(args_of(unknown));
	assert_int_equal(atomic_load(&pfw_cupti_figures.unknown), before + 1);
	assert_non_null(args_of(&copy));
	assert_has("\"name\":\"Memcpy unknown (Unknown -> Device)\"");
	assert_null(strstr(world.line, "gbps")); /* no time, no rate */
	assert_non_null(args_of(&sync));
	assert_has("\"name\":\"Sync\"");
	assert_null(strstr(world.line, "stream"));
}

static double occupancy(int32_t blocks, int32_t threads, uint16_t registers, int32_t smem)
{
	const struct pfw_cupti_kernel kernel = { .grid = { blocks, 1, 1 },
						 .block = { threads, 1, 1 },
						 .registers = registers,
						 .dynamic_smem = smem };
	double known;

	return pfw_cupti_occupancy(&kernel, &known) ? known : -1;
}

/* On 132 multiprocessors of 64 warps, 65536 registers and 228 KiB: what NVIDIA's calculator says. */
static void test_occupancy(void **state)
{
	struct pfw_cupti_kernel elsewhere = { .at = { 7, 1, 1 },
					      .grid = { 1, 1, 1 },
					      .block = { 32, 1, 1 } };
	double none;

	(void)state;
	assert_true(occupancy(100000, 256, 32, 0) == 1);
	assert_true(occupancy(100000, 1024, 64, 0) == 0.5);	  /* registers: one block */
	assert_true(occupancy(100000, 256, 255, 0) == 0.125);	  /* one block of eight warps */
	assert_true(occupancy(100000, 128, 16, 100000) == 0.125); /* two blocks' memory */
	assert_true(occupancy(100000, 32, 16, 0) == 0.5);	  /* 32 blocks of one warp */
	assert_true(occupancy(132, 1024, 16, 0) == 0.5);	  /* one block each */
	assert_true(occupancy(33, 1024, 16, 0) == 0.125);	  /* a block for each fourth */
	assert_true(occupancy(1, 2000, 16, 0) == -1);		  /* no such block */
	assert_false(pfw_cupti_occupancy(&elsewhere, &none));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_graph, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_jit_overhead_and_pools, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_memory_of_the_host, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_numbers_of_a_later_version, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_occupancy, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
