/* bench_encode.c - what a record costs to write as a line, and a line to compress.
 *
 * bench_encode [N]: encode N records (10^6) of each kind, then compress the lines, and print the
 * least ns of seven rounds.  bench_encode N KIND runs one kind once: under callgrind, the difference
 * between two N is the instructions of a record.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../src/gzip.h"
#include "../json_world.h"

#define ROUNDS 7
#define BATCH_BYTES PFW_GZIP_TEXT_MAX

struct bench {
	struct world world;
	uint32_t file;
	uint32_t name, category;
	char *text; /* one batch: what the writer hands to gzip */
	uint64_t text_bytes; /* written in all */
	uint64_t lines;
};

struct kind {
	const char *name;
	/* Make record number n, and its tail; return the tail's length. */
	size_t (*make)(const struct bench *bench, struct pfw_record *record, char *tail, uint64_t n);
};

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static size_t make_pread(const struct bench *bench, struct pfw_record *record, char *tail, uint64_t n)
{
	(void)tail;
	*record = world_pread(bench->file, n);
	return 0;
}

static size_t make_api(const struct bench *bench, struct pfw_record *record, char *tail, uint64_t n)
{
	(void)tail;
	*record = world_pread(0, n);
	record->template = WORLD_API;
	record->value[0] = bench->name | (uint64_t)bench->category << 32;
	record->value[1] = n + 1;
	record->value[2] = n & ~15ull;
	record->value[3] = 0;
	return 0;
}

/* A kernel: eleven args, three of them behind the first slot's values. */
static size_t make_pp(const struct bench *bench, struct pfw_record *record, char *tail, uint64_t n)
{
	const uint64_t rest[] = { 0, 1, 7, 100000 + n, 128 | 1ull << 31 | 1ull << 47,
				  256 | 1ull << 31 | 1ull << 47, 64, 49152 };

	*record = world_pread(0, n);
	record->template = WORLD_PP;
	record->value[0] = bench->name;
	record->value[1] = 1 << PFW_PP_BIT_kind | 1 << PFW_PP_BIT_device_index |
			   1 << PFW_PP_BIT_context | 1 << PFW_PP_BIT_stream |
			   1 << PFW_PP_BIT_correlation | 1 << PFW_PP_BIT_grid |
			   1 << PFW_PP_BIT_block | 1 << PFW_PP_BIT_registers |
			   1 << PFW_PP_BIT_dynamic_smem;
	record->value[2] = 0;
	record->value[3] = 1;
	memcpy(tail, rest, sizeof(rest));
	return sizeof(rest);
}

static const struct kind kinds[] = {
	{ "pread", make_pread },
	{ "api", make_api },
	{ "pp", make_pp },
};

/* Encode count records and, where gzip is given, compress each batch; the ns of each. */
static void encode(struct bench *bench, const struct kind *kind, uint64_t count,
		   struct pfw_gzip *gzip, uint64_t ns[2])
{
	size_t room = pfw_gzip_bound(BATCH_BYTES + PFW_JSON_LINE_MAX);
	char *member = gzip ? malloc(room) : NULL, tail[256], *out = bench->text;
	uint64_t start = cpu_ns(), done = 0;

	ns[0] = ns[1] = 0;
	while (done < count) {
		struct pfw_record record;
		size_t bytes = kind->make(bench, &record, tail, done++);

		out = pfw_json_record(&bench->world.json, out, &record, tail, bytes, WORLD_TID);
		if (out - bench->text < (ptrdiff_t)BATCH_BYTES && done < count)
			continue;
		ns[0] += cpu_ns() - start;
		bench->text_bytes += (uint64_t)(out - bench->text);
		start = cpu_ns();
		if (gzip) {
			struct pfw_gzip_summary summary = { 0 };

			if (pfw_gzip_member(gzip, member, room, bench->text,
					    (size_t)(out - bench->text), &summary) < 0)
				abort();
			bench->lines += summary.member_bytes; /* so that it is not left out */
		}
		ns[1] += cpu_ns() - start;
		out = bench->text;
		start = cpu_ns();
	}
	free(member);
}

static void bench_open(struct bench *bench)
{
	memset(bench, 0, sizeof(*bench));
	world_open(&bench->world);
	bench->file = world_string(&bench->world, "/data/train/part-0001.bin", 25);
	bench->name = world_string(&bench->world, "forward", 7);
	bench->category = world_string(&bench->world, "app", 3);
	bench->text = malloc(BATCH_BYTES + PFW_JSON_LINE_MAX + PFW_JSON_SLACK);
	if (!bench->text)
		abort();
}

static void print_kind(const struct kind *kind, uint64_t count)
{
	uint64_t best[2] = { UINT64_MAX, UINT64_MAX }, ns[2];
	struct pfw_gzip *gzip = NULL;
	const char *library = "no library";
	double line_bytes = 0;

	if (!pfw_gzip_open(&gzip))
		library = pfw_gzip_library(gzip);
	for (int round = 0; round < ROUNDS; round++) {
		struct bench bench;

		bench_open(&bench);
		encode(&bench, kind, count, gzip, ns);
		for (int i = 0; i < 2; i++)
			best[i] = ns[i] < best[i] ? ns[i] : best[i];
		line_bytes = (double)bench.text_bytes / (double)count;
		free(bench.text);
		world_close(&bench.world);
	}
	printf("%-6s %6.1f ns to encode %6.1f bytes, %6.1f ns to compress (%s)\n", kind->name,
	       (double)best[0] / (double)count, line_bytes, (double)best[1] / (double)count, library);
	pfw_gzip_close(gzip);
}

int main(int argc, char **argv)
{
	uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000, ns[2];

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct bench bench;

		if (argc <= 2) {
			print_kind(&kinds[i], count);
		} else if (!strcmp(argv[2], kinds[i].name)) {
			bench_open(&bench);
			encode(&bench, &kinds[i], count, NULL, ns);
			printf("%" PRIu64 " bytes\n", bench.text_bytes);
		}
	}
	return 0;
}
